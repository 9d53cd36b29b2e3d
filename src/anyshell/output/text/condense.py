"""Shortened lines: without their common prefix, and without those that only repeat others.

The rules, for the end of an output that is too long to be shown whole:

- What at least nine of ten lines begin with is left out of them: a time stamp, or one name up to a bar or a bracket. The
  lines are those of the end that are held, and `LEAST_LINES` of them at least. Lines between that are shown are without it too.
- Of lines that follow one another and are the same but for their numbers, the first and the last are shown where they are
  `LEAST_SIMILAR` or more, unless they are little else than numbers. A line that tells what went wrong is like no other: one that
  counts failures is shown, where it stands between lines that count none.
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
"""Lines that there must be for what they have in common to be left out."""

LEAST_SIMILAR = 10
"""Lines in a row that are the same but for their numbers, of which the first and the last are shown."""

LONGEST_PREFIX = 64
"""Bytes of what lines begin with that is left out of them."""

_STAMP = re.compile(
    rb"[\[(]?(?:\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
    rb"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d\d:\d\d:\d\d(?:[.,]\d{1,9})?)[\])]?[ \t]+"
)
_NAME = re.compile(rb"(?:[\w.:@/-]+ *\||\[[\w .:@/-]+\]|#\d+ )[ \t]*")
_LINES = re.compile(rb"[^\n]*\n|[^\n]+\Z")
_DIGITS = b"0123456789"
_AT_ONCE = 100  # no bound: lines that are taken at once where none is folded
_TELLS = b"\n"  # which no line has before its end
_LETTERS = re.compile(rb"[^\W\d_]{3}")


class Line(NamedTuple):
    """Some of what is shown.

    Attributes:
        data: The bytes that are shown.
        size: Raw bytes that these stand for.
        feeds: Line feeds of these.
        similar: Lines of these that are left out as similar.
    """

    data: bytes
    size: int
    feeds: int
    similar: int = 0


class Condensed(NamedTuple):
    """The last lines of an output.

    Attributes:
        lines: The shown lines.
        prefix: What the last of them began with; empty if nothing was left out of their starts.
        pattern: The prefix that is omitted from lines; ``None`` for nothing.
    """

    lines: list[Line]
    prefix: bytes
    pattern: re.Pattern[bytes] | None

    @property
    def size(self) -> int:
        """Raw bytes that they stand for."""
        return sum(line.size for line in self.lines)

    def last(self, limit: int) -> list[Line]:
        """The last lines that fit."""
        sizes = accumulate(len(line.data) for line in reversed(self.lines))
        count = sum(1 for size in sizes if size <= limit)
        return self.lines[len(self.lines) - count :]

    def without(self, data: bytes) -> bytes:
        """Other lines of the output, without the prefix that these share."""
        pattern = self.pattern
        if pattern is None:
            return data
        return b"".join(_without(line, pattern) for line in _LINES.findall(data))


def condense(data: bytes, limit: int, *, prefixes: bool = True) -> Condensed | None:
    """Shorten whole lines; ``None`` if they are shown as they are. Of more than `limit` bytes, the last are enough.

    Args:
        data: The lines.
        limit: As above.
        prefixes: Leave out what they begin with, too.
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
    asked = end  # lines from here on have a shape of their own if they tell what went wrong
    while end and room >= 0:
        last = alike.rfind(1, 0, end)  # what is folded begins here or before
        after = last + 1
        while 0 < after < end and plain[after] == plain[last]:
            after += 1
        at = end - 1
        while after >= end and at and plain[at - 1] == plain[at]:
            at -= 1
        # The lines between may be others: then these are no more than a few.
        folds = after >= end and end - at >= LEAST_SIMILAR and _LETTERS.search(plain[at])
        if folds and at < asked:
            # One of them may count failures where the others count none.
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
            at = max(at, end - 1 - room)  # each has a byte
            part = as_they_are(at, end)
        shown += part
        room -= sum(len(line.data) for line in part)
        end = at
    return Condensed(shown[::-1], prefix, pattern) if folded or pattern is not None else None


def similar(lines: int, size: int) -> str:
    """The line that stands where so many similar lines are left out."""
    return f"[... {lines:,} similar lines, {size:,} bytes left out here ...]"


def _common(lines: Sequence[bytes]) -> tuple[re.Pattern[bytes] | None, bytes]:
    """The pattern of the prefix that the lines share, and the prefix of the last line."""
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
    """Whether nine of ten lines begin so."""
    without = filterfalse(pattern.match, lines)
    return sum(1 for _ in islice(without, len(lines) // 10 + 1)) * 10 <= len(lines)


def _without(line: bytes, pattern: re.Pattern[bytes]) -> bytes:
    found = pattern.match(line)
    return line if found is None or found.end() > LONGEST_PREFIX else line[found.end() :]
