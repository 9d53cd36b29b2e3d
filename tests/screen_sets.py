"""Recordings and assertions of other terminal projects about their own screens.

The sets belong to their projects and are not part of anyshell. `SETS` lists the sets by name; `ANYSHELL_SCREEN_SETS`
is a directory with a checkout of each project, named like the project.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from anyshell import Terminal
from anyshell.output import TerminalOutput

if TYPE_CHECKING:
    from collections.abc import Iterator

VARIABLE = "ANYSHELL_SCREEN_SETS"

SETS = {
    "alacritty": ("https://github.com/alacritty/alacritty", "alacritty_terminal/tests/ref"),
    "xterm.js": ("https://github.com/xtermjs/xterm.js", "test/fixtures/escape_sequence_files"),
    "libvterm": ("https://github.com/neovim/libvterm", "t"),
}
"""The repository of each set, and the directory of the set in the repository."""


@dataclass(frozen=True)
class Difference:
    """A difference between the screen and the expectation of a set.

    Attributes:
        case: The recording or file, with the line number if the file has several cases.
        expected: The text that the set expects.
        shown: The text on the screen.
    """

    case: str
    expected: str
    shown: str


@dataclass(frozen=True)
class Comparison:
    """The result for a set: the number of compared cases, and the differences."""

    cases: int
    differences: list[Difference]


def directory(name: str) -> Path:
    """The directory of a set; without the directory the test is skipped."""
    repository, part = SETS[name]
    root = os.environ.get(VARIABLE)
    path = Path(root or ".") / name / part
    if not root or not path.is_dir():
        pytest.skip(
            f"the screens of {name} are not here: git clone --depth 1 {repository} DIRECTORY/{name}, and set {VARIABLE}=DIRECTORY"
        )
    return path


def compared_with_alacritty() -> Comparison:
    """Each recording leaves the characters of its grid on the screen."""
    cases, differences = 0, []
    for path in sorted(directory("alacritty").iterdir()):
        grid = path / "grid.json"
        if not grid.is_file():
            continue
        cases += 1
        size = json.loads((path / "size.json").read_text())
        output = TerminalOutput(Terminal(columns=size["columns"], rows=size["screen_lines"]))
        output.feed((path / "alacritty.recording").read_bytes())
        expected = [*_rows_of_alacritty(json.loads(grid.read_text()))]
        differences += _of_rows(path.name, expected, list(output.screen.rows))
    return Comparison(cases, differences)


def _rows_of_alacritty(grid: dict[str, Any]) -> Iterator[str]:
    # The rows are in a ring buffer, from the last row of the screen upwards.
    rows, zero = grid["raw"]["inner"], grid["raw"]["zero"]
    for number in reversed(range(grid["lines"])):
        yield "".join(map(_of_cell, rows[(zero + number) % len(rows)]["inner"])).rstrip(" ")


def _of_cell(cell: dict[str, Any]) -> str:
    """The text of a cell. A tab is in the first column that it has skipped; a spacer follows a wide character."""
    if "WIDE_CHAR_SPACER" in cell["flags"].split(" | "):
        return ""
    marks = (cell["extra"] or {}).get("zerowidth") or ()
    return (" " if cell["c"] == "\t" else str(cell["c"])) + "".join(marks)


def compared_with_xterm_js() -> Comparison:
    """After each file, a screen of 80 by 25 equals the screen of xterm."""
    cases, differences = 0, []
    for path in sorted(directory("xterm.js").glob("*.in")):
        cases += 1
        output = TerminalOutput(Terminal(columns=80, rows=25))
        # xterm received the files through a pty, which converts LF to CR LF.
        output.feed(path.read_bytes().replace(b"\n", b"\r\n"))
        expected = path.with_suffix(".text").read_text(encoding="utf-8").split("\n")[:25]
        differences += _of_rows(path.stem, [row.rstrip() for row in expected], list(output.screen.rows))
    return Comparison(cases, differences)


def _of_rows(case: str, expected: list[str], shown: list[str]) -> list[Difference]:
    if expected == shown:
        return []
    first = next((n for n, rows in enumerate(zip(expected, shown, strict=False)) if rows[0] != rows[1]), 0)
    return [Difference(case, f"row {first}: {expected[first]!r}", repr(shown[first]))]


_ESCAPES = {"e": "\x1b", "n": "\n", "r": "\r", "t": "\t", "b": "\b", "a": "\a", "f": "\f", "0": "\0"}
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"(?:\s*x\s*(\d+))?')
_ESCAPE = re.compile(r"\\(?:x\{([0-9a-fA-F]+)\}|x([0-9a-fA-F]{1,2})|(.))")


def compared_with_libvterm() -> Comparison:
    """Each assertion about the cursor, the text and the lines of a row holds after the input before the assertion."""
    cases, differences = 0, []
    for path in sorted(directory("libvterm").glob("*.test")):
        script = _Script()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            for command in _commands(line.strip()):
                result = script.run(command)
                if result is None:
                    continue
                cases += 1
                if result[0] != result[1]:
                    differences.append(
                        Difference(f"{path.stem}:{number}", f"{command} {result[0]!r}", repr(result[1]))
                    )
    return Comparison(cases, differences)


def _commands(line: str) -> Iterator[str]:
    if repeated := re.fullmatch(r"\$REP\s+(\d+):\s*(.*)", line):
        yield from [repeated[2]] * int(repeated[1])
    elif counted := re.fullmatch(r"\$SEQ\s+(\d+)\s+(\d+):\s*(.*)", line):
        for number in range(int(counted[1]), int(counted[2]) + 1):
            yield counted[3].replace("\\#", str(number))
    else:
        yield line


class _Script:
    """The part of a libvterm script that concerns the text on the screen."""

    def __init__(self) -> None:
        self._size = Terminal(columns=80, rows=25)
        self._output = TerminalOutput(self._size)

    def run(self, command: str) -> tuple[object, object] | None:
        """Run a line. An assertion returns the expected and the actual value."""
        name, _, rest = command.partition(" ")
        if name == "PUSH":
            self._output.feed(_string(rest))
        elif name in ("INIT", "RESET"):
            # A reset keeps the size.
            self._size = Terminal(columns=80, rows=25) if name == "INIT" else self._size
            self._output = TerminalOutput(self._size)
        elif name == "RESIZE":
            rows, columns = rest.split(",")
            # The narrowest terminal here has two columns; one script uses one column.
            self._size = Terminal(columns=max(int(columns), 2), rows=max(int(rows), 2))
            self._output.resize(self._size)
        elif name.startswith("?"):
            what, _, expected = rest.partition("=")
            return self._check(
                name[1:], [int(n) for n in what.replace(",", " ").split() if n.isdigit()], expected.strip()
            )
        return None

    def _check(self, name: str, at: list[int], expected: str) -> tuple[object, object] | None:
        screen = self._output.screen
        if name == "cursor":
            row, column = expected.split(",")
            return (int(row), int(column)), screen.cursor
        if name == "screen_row":
            return _characters(expected), screen.rows[at[0]]
        if name in ("screen_chars", "screen_text"):
            # Rows and columns from and to; or one row.
            top, start, bottom, end = at if len(at) == 4 else (at[0], 0, at[0] + 1, self._size.columns)
            whole = start == 0 and end == self._size.columns  # characters and columns may differ
            shown = "\n".join([row if whole else row[start:end] for row in screen.rows[top:bottom]])
            return (_bytes(expected).decode() if name == "screen_text" else _characters(expected)), shown
        if name == "screen_eol":
            return expected == "1", not screen.rows[at[0]][at[1] :]
        return None


def _string(expression: str) -> bytes:
    """A string of Perl's: literals, repeated and joined."""
    return b"".join(_literal(text) * int(count or 1) for text, count in _STRING.findall(expression))


def _literal(text: str) -> bytes:
    def byte(match: re.Match[str]) -> str:
        code = match[1] or match[2]
        return chr(int(code, 16)) if code else _ESCAPES.get(match[3], match[3])

    return _ESCAPE.sub(byte, text).encode("latin-1")


def _bytes(codes: str) -> bytes:
    return bytes([int(code, 16) for code in codes.split(",") if code])


def _characters(expected: str) -> str:
    if expected.startswith('"'):
        return _string(expected).decode("latin-1").rstrip(" ")
    return "".join(chr(int(code, 16)) for code in expected.split(",") if code).rstrip(" ")
