"""The effects of a command on files: two looks and the difference between both, beside two bare looks."""

from __future__ import annotations

import os
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from anyshell.effects import compare, here
from anyshell.types import Scan

from .report import Result, Row
from .rounds import interleave, ratios

if TYPE_CHECKING:
    from collections.abc import Callable

    from .sizes import Sizes

ROUNDS = 5

_PER_DIRECTORY = 20


def measure(sizes: Sizes, rounds: int) -> Result:
    """Compare two looks to two bare looks, for directories of several sizes; one file changes between the looks."""
    rows = []
    for count in sizes.files:
        with tempfile.TemporaryDirectory() as directory:
            for at in range(count):
                path = Path(directory, f"{at // 400}", f"{at // _PER_DIRECTORY}", f"file_{at}.py")
                if at % _PER_DIRECTORY == 0:
                    path.parent.mkdir(parents=True)
                path.write_bytes(b"x" * (at % 50))
            found = interleave(
                {
                    "floor": partial(_seconds, partial(_bare, directory)),
                    "ours": partial(_seconds, partial(_effects, directory, path)),
                },
                rounds,
            )
        rows.append(
            Row(
                what=f"{count:,} files",
                unit="ms",
                ours=[each * 1e3 for each in found["ours"]],
                floor=[each * 1e3 for each in found["floor"]],
                ratios=ratios(found["ours"], found["floor"]),
            )
        )
    return Result(
        rows=rows,
        notes=[
            (
                "in this process, in its time of the CPU. The floor is os.scandir with one stat for each file, twice, and keeps "
                "nothing; ours keeps what it has seen, changes one file between, and tells the difference."
            )
        ],
    )


def _bare(directory: str) -> None:
    for _ in range(2):
        waiting = [directory]
        while waiting:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    entry.stat(follow_symlinks=False)
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)


def _effects(directory: str, changed: Path) -> None:
    look = partial(here, [directory], Scan().skip, seconds=600, most=10**7)
    before = look()
    changed.write_bytes(changed.read_bytes() + b"x")
    assert len(compare(before, look(known=before), {directory: ""}).changed) == 1


def _seconds(call: Callable[[], None]) -> float:
    began = time.process_time()
    call()
    return time.process_time() - began
