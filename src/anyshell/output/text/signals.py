"""The lines of an output that tell what went wrong, found as it comes."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter, deque
from dataclasses import dataclass, replace
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pydantic_core import SchemaValidator

SEARCHED = 64 * 1024 * 1024
"""Bytes of the middle of an output in which such lines are looked for, and of its end as many as `LAST`. Each line that is
looked at more closely counts as `SCORED` bytes."""

SCORED = 512
"""Bytes of search that a closer look at a line costs."""

REPEATED = 128
"""Bytes of search that one more line costs which was there several times."""

LAST = 256 * 1024
"""Bytes before the end that are searched in any case."""

LOOKED_AT = 400
"""Bytes of a line that are looked at closely."""

EXCERPT = 4 * 1024
"""Bytes of a line with the lines around it."""

HELD = 256 * 1024
"""Bytes of such excerpts that are held; beyond that the best of them."""

SHAPES = 4096
"""Shapes of lines that are counted, to tell what is repeated; when there are more, the older half is forgotten."""

_SLICE = 4 * 1024
"""Bytes that are asked about at once, whether there may be such a line in them."""

_BLOCK = 64 * 1024
"""Bytes that are searched at once. Which bytes a block has depends on their place in the output alone."""

# Each alternative begins with one letter, no class or group, so that `re` skips all but such letters: thrice as fast.
_HITS = re.compile(
    rb"r(?:ror|aceb)|RROR|f(?:ail|a(?:tal|ult)|ound|used|ined)|F(?:ail|AIL|atal|ATAL)|panic|Permission d|xcept|killed|Killed|No such"
    rb"|C(?:annot|ould not)|Unable|warn|W(?:arn|ARN)|\n(?:not ok|E   )|\xe2(?:\x9c[\x95-\x98]|\x97\x8f)"
)
_HIT_LINES = re.compile(rb"(?:%b)[^\n]*+\n?" % _HITS.pattern)
_LONGEST_HIT = 16  # no bound: of the literals above
_STRONG = re.compile(
    rb"rrors?\b(?:\(\d+,\d+\)|\[[\w-]+\]| \w+)?:|RROR(?!_)|racebac|E(?:rror\b(?![./(=])|(?<!.E) +[-+] )|FA(?:IL(?!_)|TAL)|Fa(?:tal\b|il(?:ed|ure))|xception\b"
    rb"|f(?:atal\b|ail(?:ed\b|ures?\b(?![./(]))|ault\b|ined (?:reference|symbol))|panic(?:ked)?\b|P(?:ermission denied)|No such file|C(?:annot(?<!.Cannot)|ould(?<!.Could) not)"
    rb"|Unable(?<!.Unable)|killed\b|Killed\b|not ok(?<!.not ok)|\xe2(?:\x9c[\x95-\x98]|\x97\x8f)",
    re.DOTALL,
)
_WARNING = re.compile(rb"warn(?:ing)?s?\b|W(?:arn(?:ing)?s?\b|ARN)")
_HARMLESS = re.compile(
    rb"0(?<!\w.) (?:\w+ )?(?:error|fail|warning)|no(?<!\w..) (?:\w+ )?(?:error|fail|warning)|No(?<!\w..) (?:\w+ )?(?:error|fail|warning)"
    rb"|zero(?<!\w.{4}) (?:\w+ )?(?:error|fail|warning)|without(?<!\w.{7}) (?:\w+ )?(?:error|fail|warning)|rrors?\W{1,3}0\b|ail(?:ures?|ed)\W{1,3}0\b"
    rb"|-(?<![\w-].)-?[\w-]{0,40}(?:fail|error|warn)|passed(?<!\w.{6})\b|PASS|ok(?<!\w..)\b(?<!not ok)|xfail|XFAIL|\xe2\x9c[\x93\x94](?<!.{4})",
    re.DOTALL,
)
BEST = 5.0  # no bound: what a line is worth at most

_STAMPED = re.compile(rb"[\d\s\[(<|#\x1b]")
_STAMP = re.compile(
    rb"(?>\x1b\[[\d;]*m|\s+|[\[\](){}<>|#:]+|\d{4}-\d\d-\d\d[T ]?|\d\d:\d\d:\d\d(?:[.,]\d+)?|Z\b|[+-]\d\d:?\d\d\b|\d+(?:\.\d+)?\b)+"
)
_DIGITS = b"0123456789"
_VARIES = re.compile(rb"\"[^\"]*\"|'[^']*'|`[^`]*`|(?<![\w.-])[\w.-]*+/[\w./-]+|\b[^\W\d]*+\d\w*")
_INSIDE = re.compile(rb"[ \t|^=>~+\-E\r\n]|\d+ *\||at ")
_AFTER, _MOST_AFTER = 2, 12
_REPEATS = 4  # no bound: after as many lines of a shape, others are worth nothing


Mark = tuple[int, int]
"""A place in an output: raw bytes, and line feeds, up to there."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Lines of an output.

    Attributes:
        start: Where they begin, in bytes.
        lines: Line feeds before them.
        data: Whole lines.
        score: How much they matter; more than zero.
        core: Where the line is for which they are shown, in `data`.
        marks: Of lines whose bytes are not those of the output: where the output is at their start, and at the end of each.
    """

    start: int
    lines: int
    data: bytes
    score: float
    core: tuple[int, int] = (0, 0)
    marks: tuple[Mark, ...] = ()

    @property
    def end(self) -> int:
        """Where they end, in bytes."""
        return self.start + len(self.data)

    def first(self, size: int) -> Excerpt:
        """Its first lines, which have so many bytes."""
        data = self.data[:size]
        return replace(self, data=data, marks=self.marks[: data.count(b"\n") + 1])

    def alone(self) -> Excerpt:
        """The line without those around it."""
        first, last = self.core
        feeds = self.data.count(b"\n", 0, first)
        return Excerpt(
            self.start + first,
            self.lines + feeds,
            self.data[first:last],
            self.score,
            (0, last - first),
            self.marks[feeds : feeds + 2],
        )


def score(line: bytes, at: int = 0) -> float:
    """How much a line says of what went wrong; zero if nothing. It is at most `BEST`.

    Args:
        line: The line.
        at: Bytes before which there is no literal of `_HITS` in it.
    """
    if _STAMPED.match(line) and (stamp := _STAMP.match(line)):
        line = line[stamp.end() :]
        at -= stamp.end()
    line = line[:LOOKED_AT]
    found = _STRONG.search(line, max(0, at - 1))
    if found:
        value = BEST if found.start() < 40 else 3.0
        if found.start() > 8 and _WARNING.search(line, 0, 60):
            value -= 2
    else:
        value = 1.0 if _WARNING.search(line) else 2.0
    return value - 3 if _HARMLESS.search(line) else value


@cache
def _gate() -> SchemaValidator:
    """Tells whether there is a hit at all, some twenty times as fast: Rust's regular expressions look by vector instructions."""
    from pydantic_core import SchemaValidator, core_schema  # here, since most outputs are short

    return SchemaValidator(core_schema.str_schema(pattern=_HITS.pattern.decode("ascii")))


def tells(line: bytes) -> bool:
    """Whether a line alone says something of what went wrong."""
    return _HITS.search(b"\n" + line) is not None and score(line) > 0


class Found:
    """The best of what was found, in bounded memory.

    Args:
        room: Bytes that there are to show it.

    Attributes:
        work: Bytes of search that closer looks have cost.
        least: What a line must be worth at least: enough that is worth as much was found for all the room.
    """

    def __init__(self, room: int = HELD) -> None:
        self.work = 0
        self.least = 0.0
        self._room = room
        self._excerpts: list[Excerpt] = []
        self._size = 0
        # Hashes of shapes, and how often they were there; the older half is let go when the newer is full.
        self._shapes: dict[int, int] = {}
        self._older: dict[int, int] = {}
        self._young: deque[tuple[int, float, int]] = (
            deque()
        )  # ends, worths and new bytes of excerpts not yet in `_sizes`
        self._sizes: Counter[float] = Counter()  # bytes of excerpts by what they are worth
        self._end = 0  # of the excerpts so far

    def value(self, line: bytes, at: int) -> float:
        """What a line is worth, less one for each of its shape before it.

        Args:
            line: The line.
            at: Bytes before which there is no literal of `_HITS` in it.
        """
        text = line.translate(None, _DIGITS)
        plain = hash(text)
        seen = self._shapes.get(plain) or self._older.get(plain, 0)
        if seen >= _REPEATS or BEST - seen < self.least:
            self.work += REPEATED
            return 0
        self.work += SCORED
        self._count(plain, seen)
        value = score(line, at)
        if value - seen < max(self.least, 1):
            return 0
        kind = hash(_VARIES.sub(b"*", line[:LOOKED_AT]) if line[:1] != b"{" else text[:LOOKED_AT])
        if kind != plain:
            before = self._shapes.get(kind) or self._older.get(kind, 0)
            self._count(kind, before)
            value -= min(max(before, seen), _REPEATS)
        else:
            value -= seen
        return 0 if value < self.least else value

    def _count(self, shape: int, before: int) -> None:
        self._shapes[shape] = before + 1
        if len(self._shapes) > SHAPES // 2:
            self._older, self._shapes = self._shapes, {}

    def settle(self, place: int) -> None:
        """Nothing before a place is in the end of the output, so that all the room is for it and for what is worth more."""
        young = self._young
        while young and young[0][0] <= place:
            _, value, size = young.popleft()
            self._sizes[value] += size
        total = 0
        for value in sorted(self._sizes, reverse=True):
            total += self._sizes[value]
            if total >= self._room:
                self.least = max(self.least, value)
                return

    def keep(self, excerpt: Excerpt) -> None:
        """Keep one more, or the best of all if they are too many."""
        self._excerpts.append(excerpt)
        self._young.append((excerpt.end, excerpt.score, excerpt.end - max(excerpt.start, self._end)))
        self._end = max(self._end, excerpt.end)
        self._size += len(excerpt.data)
        if self._size <= HELD:
            return
        # Of equals, those in the middle go first.
        middle = (self._excerpts[0].start + excerpt.start) / 2
        self._excerpts.sort(key=lambda each: (-each.score, -abs(each.start - middle)))
        while self._size > HELD // 2:
            self._size -= len(self._excerpts.pop().data)
        self._excerpts.sort(key=lambda each: each.start)

    def excerpts(self) -> list[Excerpt]:
        """All that are kept, in order."""
        return sorted(self._excerpts, key=lambda each: each.start)


class Signals:
    """Looks for such lines in what is fed, in bounded memory. What it finds does not depend on how the bytes were cut.

    Args:
        marks: Gives the marks of an excerpt, by its first byte and by the byte after it; of whole lines that were fed and are
            still held.
        room: Bytes that there are to show what is found.
        tail: Bytes of the end that are shown in any case.

    Attributes:
        searched: Whether all was searched that was fed, or as much as was needed; known when it is finished.
    """

    def __init__(
        self,
        marks: Callable[[int, int], tuple[Mark, ...]] | None = None,
        *,
        room: int = HELD,
        tail: int = 0,
    ) -> None:
        self.searched = True
        self._marks = marks
        self._held = bytearray()
        self._start = 0  # where what is held begins
        self._done = 0  # bytes of what is held that were searched, or are not going to be
        self._lines = 0  # line feeds of all that was fed
        self._next = 0  # where the line begins after the last that was looked at
        self._found = Found(room)
        self._tail = tail

    @property
    def start(self) -> int:
        """The first byte that is held. Nothing before it will be in another excerpt."""
        return self._start

    def feed(self, data: bytes, feeds: int | None = None) -> None:
        """Take the next bytes, of which the line feeds may have been counted: that takes longer than all else of a long output."""
        held = self._held
        for at in range(0, len(data), _BLOCK):
            piece = data if len(data) <= _BLOCK else data[at : at + _BLOCK]
            held += piece
            self._lines += feeds if feeds is not None and piece is data else piece.count(b"\n")
            while len(held) - self._done >= _BLOCK + EXCERPT:
                self._take(self._done + _BLOCK)
                gone = max(0, self._done - (LAST if self._rests else EXCERPT))
                del held[:gone]
                self._start += gone
                self._done -= gone

    def finish(self) -> list[Excerpt]:
        """What was found, in order. Nothing may be fed after that."""
        if self._rests:
            self.searched = self._found.work < SEARCHED
            self._done = self._held.find(b"\n") + 1  # the line before is cut
        self._search(self._done, len(self._held))
        return self._found.excerpts()

    @property
    def _rests(self) -> bool:
        """Whether no more is searched but the end: enough work was done, or enough was found."""
        return self._found.work >= SEARCHED or self._found.least >= BEST

    def _take(self, end: int) -> None:
        """Search what is held up to a place; context may be beyond it."""
        if not self._rests:
            self._found.settle(self._start + self._done - self._tail)
            self._search(self._done, end)
            self._found.work += end - self._done
        self._done = end

    def _search(self, start: int, end: int) -> None:
        held = bytes(self._held)
        counted, feeds = len(held), self._lines
        at = max(start, self._next - self._start)
        while at < end:
            known = min(at + _SLICE, end)  # up to where there may be such a line
            limit = known + _LONGEST_HIT
            if not _gate().isinstance_python(held[at:limit].decode("latin-1")):
                at = known
                continue
            for hit in _HIT_LINES.finditer(held, at, limit):
                place, stop = hit.span()
                if place >= known:
                    break
                first = held.rfind(b"\n", 0, stop - 1) + 1
                if stop == limit and held[stop - 1] != 10:
                    stop = held.find(b"\n", stop) + 1 or len(held)
                at = stop
                if stop - first > EXCERPT or (first == 0 < self._start):
                    continue  # the line is too long
                if (value := self._found.value(held[first:stop], place - first)) <= 0:
                    continue
                begin, after = self._around(held, first, stop)
                feeds += (
                    held.count(b"\n", counted, begin)
                    if begin > counted
                    else -held.count(b"\n", begin, counted)
                )
                counted = begin
                core = (first - begin, stop - begin)
                place = self._start + begin
                marks = () if self._marks is None else self._marks(place, self._start + after)
                self._found.keep(Excerpt(place, feeds, held[begin:after], value, core, marks))
            self._next = self._start + at
            at = max(at, known)

    def _around(self, held: bytes, first: int, stop: int) -> tuple[int, int]:
        """Widen a line to what belongs to it: the line before, two after, and more as long as they are indented."""
        begin = held.rfind(b"\n", 0, first - 1) + 1 if first else 0
        if first - begin > EXCERPT // 4 or begin == 0 < self._start:
            begin = first
        for number in range(_MOST_AFTER):
            if number >= _AFTER and not _INSIDE.match(held, stop):
                break
            end = held.find(b"\n", stop) + 1
            if not end or end - begin > EXCERPT:
                break
            stop = end
        return begin, stop


def chosen(found: Iterable[Excerpt], end: int, room: int, cost: int) -> list[Excerpt]:
    """The best that there is room for, in order, and those that touch as one.

    Args:
        found: What may be chosen.
        end: Where the middle ends, in bytes; what reaches beyond it is left out.
        room: Bytes that there are.
        cost: Bytes that each of them needs besides its own.
    """
    taken: list[Excerpt] = []  # by their starts
    best = sorted(
        (each for each in found if each.end <= end),
        key=lambda each: (-each.score, min(each.start, end - each.end)),
    )
    for each in best:
        place = bisect_right(taken, each.start, key=_start)
        if place and each.end <= taken[place - 1].end:
            continue
        fits = next((part for part in (each, each.alone()) if len(part.data) + cost <= room), None)
        if fits is not None:
            taken.insert(bisect_right(taken, fits.start, key=_start), fits)
            room -= len(fits.data) + cost
    return _joined(taken)


_start = attrgetter("start")


def _joined(excerpts: Sequence[Excerpt]) -> list[Excerpt]:
    joined: list[Excerpt] = []
    for each in excerpts:
        last = joined[-1] if joined else None
        if last is not None and each.start <= last.end:
            new = each.data[max(0, last.end - each.start) :]
            marks = last.marks + each.marks[len(each.marks) - new.count(b"\n") :]
            joined[-1] = Excerpt(
                last.start, last.lines, last.data + new, max(last.score, each.score), marks=marks
            )
        else:
            joined.append(each)
    return joined
