"""The lines of an output that tell what went wrong, found as it comes."""

from __future__ import annotations

import re
from bisect import bisect_right
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
"""Shapes of lines that are counted, to tell what is repeated."""

_SLICE = 4 * 1024
"""Bytes that are asked about at once, whether there may be such a line in them."""

_BLOCK = 64 * 1024
"""Bytes that are searched at once. Which bytes a block has depends on their place in the output alone."""

# Literals with few and rare first letters, and no flags: such an alternation is searched several times as fast as others.
_HITS = re.compile(
    rb"rror|RROR|fail|Fail|FAIL|fatal|Fatal|FATAL|panic|Permission d|xcept|raceb|found|fused|fined|fault|killed|Killed|No such|Cannot|Could not|Unable|warn|Warn"
    rb"|WARN|\nnot ok|\nE   |\xe2\x9c[\x95-\x98]|\xe2\x97\x8f"
)
_LONGEST_HIT = 16  # no bound: of the literals above
_STRONG = re.compile(
    rb"rrors?\b(?:\(\d+,\d+\)|\[[\w-]+\]| \w+)?:|Error\b(?![./(=])|^rrors?\b|RROR(?!_)|FAIL(?!_)|xception\b|[Ff]atal\b|FATAL|panic(?:ked)?\b|racebac|failed\b|failures?\b(?![./(])"
    rb"|^E +[-+] |Fail(?:ed|ure)|Permission denied|No such file|^Cannot|^Could not|^Unable|fault\b|ined (?:reference|symbol)|illed\b|^not ok|\xe2\x9c[\x95-\x98]|\xe2\x97\x8f"
)
_WARNING = re.compile(rb"[Ww]arn(?:ing)?s?\b|WARN")
_HARMLESS = re.compile(
    rb"\b(?:0|[Nn]o|zero|without) (?:\w+ )?(?:error|fail|warning)|(?:rrors?|ailures?|ailed)\W{1,3}0\b"
    rb"|(?<![\w-])--?[\w-]{0,40}(?:fail|error|warn)|\bpassed\b|PASS|\bok\b(?<!not ok)|xfail|XFAIL|^\s*\xe2\x9c[\x93\x94]"
)
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


def score(line: bytes) -> float:
    """How much a line says of what went wrong; zero if nothing."""
    if _STAMPED.match(line) and (stamp := _STAMP.match(line)):
        line = line[stamp.end() :]
    line = line[:LOOKED_AT]
    found = _STRONG.search(line)
    if found:
        value = 5.0 if found.start() < 40 else 3.0
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

    Attributes:
        work: Bytes of search that closer looks have cost.
    """

    def __init__(self) -> None:
        self.work = 0
        self._excerpts: list[Excerpt] = []
        self._size = 0
        self._shapes: dict[bytes, int] = {}

    def value(self, line: bytes) -> float:
        """What a line is worth, less one for each of its shape before it."""
        plain = line.translate(None, _DIGITS)
        if self._shapes.get(plain, 0) >= _REPEATS:
            self.work += REPEATED
            return 0
        self.work += SCORED
        kind = _VARIES.sub(b"*", line[:LOOKED_AT]) if line[:1] != b"{" else plain[:LOOKED_AT]
        seen = 0
        for each in {plain, kind}:
            seen = max(seen, self._shapes.get(each, 0))
            if len(self._shapes) < SHAPES or each in self._shapes:
                self._shapes[each] = self._shapes.get(each, 0) + 1
        return score(line) - min(seen, _REPEATS)

    def keep(self, excerpt: Excerpt) -> None:
        """Keep one more, or the best of all if they are too many."""
        self._excerpts.append(excerpt)
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

    Attributes:
        searched: Whether all was searched that was fed; known when it is finished.
    """

    def __init__(self, marks: Callable[[int, int], tuple[Mark, ...]] | None = None) -> None:
        self.searched = True
        self._marks = marks
        self._held = bytearray()
        self._start = 0  # where what is held begins
        self._done = 0  # bytes of what is held that were searched, or are not going to be
        self._lines = 0  # line feeds up to there
        self._next = 0  # where the line begins after the last that was looked at
        self._found = Found()

    @property
    def start(self) -> int:
        """The first byte that is held. Nothing before it will be in another excerpt."""
        return self._start

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        held = self._held
        for at in range(0, len(data), _BLOCK):
            held += data[at : at + _BLOCK]
            while len(held) - self._done >= _BLOCK + EXCERPT:
                self._take(self._done + _BLOCK)
                gone = max(0, self._done - (EXCERPT if self._found.work < SEARCHED else LAST))
                del held[:gone]
                self._start += gone
                self._done -= gone

    def finish(self) -> list[Excerpt]:
        """What was found, in order. Nothing may be fed after that."""
        if self._found.work >= SEARCHED:
            self._found.work, self.searched = 0, False
            start = self._held.find(b"\n") + 1  # the line before is cut
            self._lines -= self._held.count(b"\n", start, self._done)
            self._done = start
        self._take(len(self._held))
        return self._found.excerpts()

    def _take(self, end: int) -> None:
        """Search what is held up to a place; context may be beyond it."""
        if self._found.work < SEARCHED:
            self._search(self._done, end)
            self._found.work += end - self._done
        self._lines += self._held.count(b"\n", self._done, end)
        self._done = end

    def _search(self, start: int, end: int) -> None:
        held = self._held
        at = max(start, self._next - self._start)
        known = at  # up to where there may be such a line
        while at < end:
            if at >= known:
                known = min(at + _SLICE, end)
                if not _gate().isinstance_python(held[at : known + _LONGEST_HIT].decode("latin-1")):
                    at = known
                    continue
            hit = _HITS.search(held, at, known + _LONGEST_HIT)
            if hit is None or hit.start() >= known:
                at = known
                continue
            first = held.rfind(b"\n", 0, hit.end()) + 1
            last = held.find(b"\n", hit.end())
            at = len(held) if last < 0 else last + 1
            self._next = self._start + at
            if at - first > EXCERPT or (first == 0 < self._start):
                continue  # the line is too long
            if (value := self._found.value(bytes(held[first:at]))) <= 0:
                continue
            begin, stop = self._around(first, at)
            before = held.count(b"\n", start, begin) if begin > start else -held.count(b"\n", begin, start)
            data, core = bytes(held[begin:stop]), (first - begin, at - begin)
            place = self._start + begin
            marks = () if self._marks is None else self._marks(place, place + len(data))
            self._found.keep(Excerpt(place, self._lines + before, data, value, core, marks))

    def _around(self, first: int, stop: int) -> tuple[int, int]:
        """Widen a line to what belongs to it: the line before, two after, and more as long as they are indented."""
        held = self._held
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
