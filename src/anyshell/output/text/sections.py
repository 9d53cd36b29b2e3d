"""The shown parts of a text, and the lines that tell of the omitted ones between them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from .decode import strip

if TYPE_CHECKING:
    from pathlib import Path

    from ..._types import Output

GAP = 64
"""Bytes that count for a line between two parts of a text, which tells how much is omitted there."""


_WITHIN = ", with the start of the next line"


class Sections:
    """Puts parts of a text together, with a line wherever something is left out between; the first says it of the whole."""

    def __init__(self, before: str, notice: str, total_lines: int, end: int, *, alone: bool) -> None:
        self._end = end  # of the last part
        self._parts = [before]
        self._notice = notice
        self._told = False
        self._alone = alone  # whether the notice says it all
        self._total_lines = total_lines
        self._at = self._line = 0

    def add(self, start: int, line: int, text: str, end: int, last: int, *, within: bool = False) -> None:
        """Add what begins and ends at some bytes and line feeds behind the first part; perhaps within a line whose start is not shown."""
        if start > self._at or (end == self._end and not self._told):
            if start == self._at and self._parts[-1] and not self._parts[-1].endswith("\n"):
                # The line goes on with this text, and is shown as one.
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
        """All of it."""
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
    """The line after the head, which tells how much of the whole is omitted.

    Args:
        whole: Its counts, and where it is.
        lines: Line feeds left out.
        size: Raw bytes left out.
        name_path: Whether to say in which file it is, rather than as which artifact it is kept.
        searched: Whether all of it was searched for lines that tell what went wrong.
        within: Whether the next line is shown without its start.
        prefix: The beginning of a line, where that is left out of the lines behind the marker.
    """
    total_lines, artifact = whole.total_lines, whole.artifact
    text = f"{counts(lines, size, total_lines)} left out of {counts(total_lines, whole.total_bytes, total_lines)}"
    if within:
        text += _WITHIN
    if prefix:
        text += f"; so is what the lines below begin with, such as {strip(prefix).strip()!r}"
    if not searched:
        from .signals import LAST, SEARCHED  # here, since few outputs are so long

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
    """The line that stands where so much is left out, perhaps with the start of the next line."""
    return f"[... {counts(lines, size, total_lines)} left out here{_WITHIN if within else ''} ...]"


def counts(lines: int, size: int, total_lines: int) -> str:
    """Lines and bytes; of an output without a line feed the bytes alone, since "0 lines of 0 lines" are not there."""
    return f"{_count(lines, 'line')}, {_count(size, 'byte')}" if total_lines else _count(size, "byte")


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _readable(path: Path) -> str:
    """A path as text that can be encoded, whatever bytes a file system may hold."""
    return os.fsencode(path).decode("utf-8", "replace")
