"""How far a copy has come, on one line of a terminal that is drawn anew."""

from __future__ import annotations

import os
import sys
import time
import unicodedata
from contextlib import suppress
from typing import TYPE_CHECKING

from .printing import printable, size

if TYPE_CHECKING:
    from .._types import CopyProgress


class Progress:
    """Draws on stderr. It is called ten times a second at most; that nobody can be told changes nothing."""

    def __init__(self, name: str) -> None:
        self._name = printable(name)
        self._began = time.monotonic()
        self._width = 0

    def __call__(self, progress: CopyProgress, /) -> None:
        """Draw how far it has come."""
        done, total = progress.bytes_done, progress.bytes_total
        percent = 100 if total == 0 else min(100, done * 100 // total)
        taken = time.monotonic() - self._began
        parts = [f"{percent:>3}%", f"{size(done)} of {size(total)}"]
        if progress.files_total > 1:
            parts.append(f"{progress.files_done} of {progress.files_total} files")
        if taken >= 1:
            parts.append(f"{size(done / taken)}/s")
        self._draw("  ".join([*parts, self._name]))

    def close(self) -> None:
        """Leave the line as it is, and go to the next."""
        if self._width:
            self._write("\n")
            self._width = 0

    def _draw(self, line: str) -> None:
        most = max(1, _columns() - 1)  # in the last column many terminals begin a new line
        shown, width = _cut(line, most)
        self._write(f"\r{shown}{' ' * (min(self._width, most) - width)}")
        self._width = width

    def _write(self, text: str) -> None:
        with suppress(OSError):
            sys.stderr.write(text)
            sys.stderr.flush()


def _columns() -> int:
    with suppress(OSError, ValueError):
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    return 80


def _cut(text: str, columns: int) -> tuple[str, int]:
    """As much of a text as fits, and the columns that it takes."""
    shown, width = "", 0
    for character in text:
        if unicodedata.combining(character):
            shown += character
            continue
        more = 2 if unicodedata.east_asian_width(character) in "WF" else 1
        if width + more > columns:
            break
        shown += character
        width += more
    return shown, width
