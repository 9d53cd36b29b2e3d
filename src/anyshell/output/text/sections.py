"""The shown parts of a text, and the notes on the omitted parts between the shown parts."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from .decode import strip

if TYPE_CHECKING:
    from pathlib import Path

    from ..._types import Output

GAP = 64
"""Bytes that count for the note on an omission between two parts of a text."""


_WITHIN = ", with the start of the next line"


class Sections:
    """Joins parts of a text, with a note on each omission between two parts; the first note is about the whole text."""

    def __init__(self, before: str, notice: str, total_lines: int, end: int, *, alone: bool) -> None:
        self._end = end  # the end of the last part
        self._parts = [before]
        self._notice = notice
        self._told = False
        self._alone = alone  # whether the notice alone describes the omission
        self._total_lines = total_lines
        self._at = self._line = 0

    def add(self, start: int, line: int, text: str, end: int, last: int, *, within: bool = False) -> None:
        """Add a part. `start` and `end` are bytes, and `line` and `last` line feeds, after the first part.

        `within` says that the part begins inside a line whose start is not shown.
        """
        if start > self._at or (end == self._end and not self._told):
            if start == self._at and self._parts[-1] and not self._parts[-1].endswith("\n"):
                # The line of the part before goes on with this text, and is shown as one line.
                rest, feed, text = text.partition("\n")
                self._parts.append(rest + feed)
            if self._parts[-1] and not self._parts[-1].endswith("\n"):
                self._parts.append("\n")
            if not self._told:
                self._parts.append(self._notice + "\n")
            if not self._alone and start > self._at:
                note = left_out(line - self._line, start - self._at, self._total_lines, within=within)
                self._parts.append(note + "\n")
            self._told = True
        self._parts.append(text)
        self._at, self._line = end, last

    def text(self) -> str:
        """Return the whole text."""
        whole = "".join(self._parts)
        return whole if self._parts[-1] else whole.removesuffix("\n")


def marker(
    whole: Output,
    lines: int,
    size: int,
    *,
    name_path: bool = True,
    searched: bool = True,
    within: bool = False,
    prefix: bytes = b"",
) -> str:
    """Return the marker: the line after the head that tells how much of the whole is omitted.

    Args:
        whole: The counts of the whole output, and its artifact.
        lines: Line feeds left out.
        size: Raw bytes left out.
        name_path: Whether to name the file of the whole, rather than the artifact.
        searched: Whether all omitted lines were searched for errors.
        within: Whether the next line is shown without its start.
        prefix: An example of the prefix that the lines after the marker omit; empty if they omit none.
    """
    total_lines, artifact = whole.total_lines, whole.artifact
    text = f"{counts(lines, size, total_lines)} left out of {counts(total_lines, whole.total_bytes, total_lines)}"
    if within:
        text += _WITHIN
    if prefix:
        text += f"; so is what the lines below begin with, such as {strip(prefix).strip()!r}"
    if not searched:
        from .signals import LAST, SEARCHED  # imported here, since few outputs are so long

        text += f"; looked for errors in its first {SEARCHED >> 20} MiB and its last {LAST >> 10} KiB"
    if artifact is not None:
        missing = artifact.omitted_bytes
        kept = f"all but {_count(missing, 'byte')} of the middle is" if missing else "the whole is"
        where = f"in {_readable(artifact.path)}" if name_path else f"kept as artifact {artifact.id}"
        text += f"; {kept} {where}"
    elif whole.artifact_error is not None:
        text += f"; the whole was not kept: {whole.artifact_error}"
    return f"[... {text} ...]"


def left_out(lines: int, size: int, total_lines: int, *, within: bool = False) -> str:
    """Return the note on one omission; `within` says that the start of the next line is omitted too."""
    return f"[... {counts(lines, size, total_lines)} left out here{_WITHIN if within else ''} ...]"


def counts(lines: int, size: int, total_lines: int) -> str:
    """Return the words for lines and bytes; for an output without line feeds the bytes alone, not "0 lines of 0 lines"."""
    return f"{_count(lines, 'line')}, {_count(size, 'byte')}" if total_lines else _count(size, "byte")


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _readable(path: Path) -> str:
    """Return a path as text that can be encoded, whatever bytes the path has."""
    return os.fsencode(path).decode("utf-8", "replace")
