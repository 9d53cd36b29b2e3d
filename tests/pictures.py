"""The views for people as pictures, to be looked at when their snapshots change: ``python -m tests.pictures DIRECTORY``.

A picture has the views of one width, collapsed or expanded, as many as fit on a page. Pictures are not compared: fonts differ.
"""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import resvg_py
from rich.console import Console
from rich.text import Text

from .test_rendering import OWN_VIEWS, STATE, VIEWS, WIDTHS, drawn

ROWS = 60


def pages(width: int, *, expanded: bool) -> list[list[object]]:
    """The views under their names, divided into pages."""
    made: list[list[object]] = [[]]
    used = 0
    for name, make in (VIEWS | OWN_VIEWS).items():
        rows = drawn(make(expanded), width).count("\n") + 2
        if used and used + rows > ROWS:
            made.append([])
            used = 0
        used += rows
        made[-1] += [Text(f"{name}", style="reverse"), make(expanded), ""]
    return made


def main(directory: str) -> None:
    """Write the pictures."""
    os.environ["ANYSHELL_STATE_DIR"] = STATE
    Path(directory).mkdir(parents=True, exist_ok=True)
    for width in WIDTHS:
        for expanded in (False, True):
            for number, page in enumerate(pages(width, expanded=expanded), 1):
                console = Console(
                    width=width,
                    record=True,
                    file=io.StringIO(),
                    force_terminal=True,
                    color_system="truecolor",
                )
                for part in page:
                    console.print(part)
                svg = console.export_svg(title=f"{width} columns").replace("Fira Code", "DejaVu Sans Mono")
                png = resvg_py.svg_to_bytes(svg_string=svg, monospace_family="DejaVu Sans Mono")
                how = "expanded" if expanded else "collapsed"
                (Path(directory) / f"{width}_{how}_{number}.png").write_bytes(bytes(png))


if __name__ == "__main__":
    main(sys.argv[1])
