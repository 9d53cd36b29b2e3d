"""Condensed lines: without the prefix that the lines share, and without lines that only repeat other lines.

The rules, for the end of an output that is too long to be shown whole:

- A prefix that at least nine of ten lines share is left out of the lines: a time stamp, or one name up to a bar or a bracket.
  The lines are the held lines of the end, at least `LEAST_LINES` of them. Shown lines of the middle omit the prefix too.
- A run is `LEAST_SIMILAR` or more lines that differ only in their numbers. Only the first and the last line of a run are shown,
  unless the lines are little else than numbers. An error line is like no other line: a line that counts failures is shown,
  also between lines that count none.
"""

from __future__ import annotations

import re
from itertools import accumulate, filterfalse, islice
from operator import eq
from typing import TYPE_CHECKING, NamedTuple

from .signals import telling

if TYPE_CHECKING:
    from collections.abc import Sequence

LEAST_LINES = 20
"""Lines that an end needs, at least, before a shared prefix is left out."""

LEAST_SIMILAR = 10
"""Lines of a run that differ only in their numbers, at least, for only the first and the last to be shown."""

LONGEST_PREFIX = 64
"""Bytes of a prefix that is left out of lines; a longer prefix is shown."""

_STAMP = re.compile(
    rb"[\[(]?(?:\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
    rb"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d\d:\d\d:\d\d(?:[.,]\d{1,9})?)[\])]?[ \t]+"
)
_NAME = re.compile(rb"(?:[\w.:@/-]+ *\||\[[\w .:@/-]+\]|#\d+ )[ \t]*")
_LINES = re.compile(rb"[^\n]*\n|[^\n]+\Z")
_DIGITS = b"0123456789"
_AT_ONCE = 100  # no bound: lines taken at once where no run is folded
_TELLS = b"\n"  # marks the shape of an error line: no other shape has a line feed
_LETTERS = re.compile(rb"[^\W\d_]{3}")


class Line(NamedTuple):
    """A shown line, or the note on a run of similar lines.

    Attributes:
        data: The shown bytes.
        size: Raw bytes that the shown bytes stand for.
        feeds: Line feeds of the raw bytes.
        similar: Lines of the raw bytes that are left out as similar.
    """

    data: bytes
    size: int
    feeds: int
    similar: int = 0


class Condensed(NamedTuple):
    """The condensed last lines of an output.

    Attributes:
        lines: The shown lines.
        prefix: The omitted prefix of the last line that had one; empty if no prefix is omitted.
        pattern: The pattern of the prefix that is omitted from lines; ``None`` for no prefix.
    """

    lines: list[Line]
    prefix: bytes
    pattern: re.Pattern[bytes] | None

    @property
    def size(self) -> int:
        """Raw bytes that the shown lines stand for."""
        return sum(line.size for line in self.lines)

    def last(self, limit: int) -> list[Line]:
        """Return the last lines that fit into `limit` bytes."""
        sizes = accumulate(len(line.data) for line in reversed(self.lines))
        count = sum(1 for size in sizes if size <= limit)
        return self.lines[len(self.lines) - count :]

    def without(self, data: bytes) -> bytes:
        """Return other lines of the output without the shared prefix."""
        pattern = self.pattern
        if pattern is None:
            return data
        return b"".join(_without(line, pattern) for line in _LINES.findall(data))


def condense(data: bytes, limit: int, *, prefixes: bool = True) -> Condensed | None:
    """Condense whole lines; ``None`` if no line can be condensed. The last lines are enough, up to `limit` bytes.

    Args:
        data: The lines.
        limit: Bytes of shown lines that are enough.
        prefixes: Whether to leave out a shared prefix too.
    """
    lines = _LINES.findall(data)
    pattern, prefix = _common(lines) if prefixes else (None, b"")
    texts = lines if pattern is None else [_without(line, pattern) for line in lines]
    plain = b"".join(texts).translate(None, _DIGITS).split(b"\n")[: len(lines)]
    ahead = LEAST_SIMILAR - 1
    alike = bytes(map(eq, plain, plain[ahead:]))
    if pattern is None and not any(alike):
        return None

    def as_they_are(at: int, end: int) -> list[Line]:
        return [
            Line(texts[each], len(lines[each]), lines[each].count(b"\n"))
            for each in range(end - 1, at - 1, -1)
        ]

    shown: list[Line] = []
    folded = False
    end, room = len(lines), limit
    asked = end  # from this line on, error lines already have a shape of their own
    while end and room >= 0:
        last = alike.rfind(1, 0, end)  # the last run that may be folded begins here or before
        after = last + 1
        while 0 < after < end and plain[after] == plain[last]:
            after += 1
        at = end - 1
        while after >= end and at and plain[at - 1] == plain[at]:
            at -= 1
        # Lines between may differ: then the run is only a few lines.
        folds = after >= end and end - at >= LEAST_SIMILAR and _LETTERS.search(plain[at])
        if folds and at < asked:
            # One line of the run may count failures where the others count none.
            for each in telling(texts[at : min(end, asked)]):
                plain[at + each] += _TELLS
            asked = at
            continue
        if after < end:
            at = max(after, end - _AT_ONCE)
            part = as_they_are(at, end)
        elif folds and not plain[at].endswith(_TELLS):
            between = range(at + 1, end - 1)
            size = sum(len(lines[each]) for each in between)
            note = similar(len(between), size).encode("ascii") + b"\n"
            part = [
                *as_they_are(end - 1, end),
                Line(note, size, len(between), len(between)),
                *as_they_are(at, at + 1),
            ]
            folded = True
        else:
            at = max(at, end - 1 - room)  # each line has at least one byte
            part = as_they_are(at, end)
        shown += part
        room -= sum(len(line.data) for line in part)
        end = at
    return Condensed(shown[::-1], prefix, pattern) if folded or pattern is not None else None


def similar(lines: int, size: int) -> str:
    """Return the note on similar lines that are left out."""
    return f"[... {lines:,} similar lines, {size:,} bytes left out here ...]"


def _common(lines: Sequence[bytes]) -> tuple[re.Pattern[bytes] | None, bytes]:
    """Return the pattern of the prefix that the lines share, and the prefix of the last line that has one."""
    told = [*filterfalse(bytes.isspace, lines)]
    if len(told) < LEAST_LINES:
        return None, b""
    if _begin(told, _STAMP):
        pattern = _STAMP
    elif (name := _NAME.match(told[-1])) and len(name[0]) <= LONGEST_PREFIX:
        pattern = re.compile(re.escape(name[0].rstrip()) + rb"[ \t]*")
        if not _begin(told, pattern):
            return None, b""
    else:
        return None, b""
    return pattern, next((found[0] for line in reversed(told) if (found := pattern.match(line))), b"")


def _begin(lines: Sequence[bytes], pattern: re.Pattern[bytes]) -> bool:
    """Whether at least nine of ten lines begin with a pattern."""
    without = filterfalse(pattern.match, lines)
    return sum(1 for _ in islice(without, len(lines) // 10 + 1)) * 10 <= len(lines)


def _without(line: bytes, pattern: re.Pattern[bytes]) -> bytes:
    found = pattern.match(line)
    return line if found is None or found.end() > LONGEST_PREFIX else line[found.end() :]
