"""The lines of an output that tell of an error, found while the output comes."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter, deque
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING

from ..sequences import COLOURS
from .hits import EXCERPT, HITS, LINES_OF_COUNTS, LOOKED_AT, Looker, counting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

SEARCHED = 64 * 1024 * 1024
"""Bytes of an output's middle that are searched for error lines, besides `LAST` bytes at the end. Each line that is scored
counts as `SCORED` bytes."""

SCORED = 512
"""Bytes of search that the scoring of one line counts as."""

LAST = 256 * 1024
"""Bytes before the end that are searched for error lines in any case."""

BACK = 64 * 1024
"""Bytes before the shown end that are searched for lines with the same score as the lines that already fill the room."""

HELD = 256 * 1024
"""Bytes of excerpts with error lines that are held; beyond that, only the best excerpts are kept."""

SHAPES = 4096
"""Shapes of lines that are counted, to recognise repeated lines; when there are more, the older half is forgotten."""

_SLICE = 16 * 1024
"""Bytes that are tested at once for error lines."""

_BLOCK = 64 * 1024
"""Bytes that are searched at once. The place in the output alone decides to which block a byte belongs."""

_STRONG = re.compile(
    rb"rrors?\b(?:\(\d+,\d+\)|\[[\w-]+\]| \w+)?:|RROR(?!_)|racebac|E(?:rror\b(?![./(=])|(?<!.E) +[-+] )|FA(?:IL(?!_)|TAL)|Fa(?:tal\b|il(?:ed|ure))|xception\b"
    rb"|f(?:atal\b|ail(?:ed\b|ures?\b(?![./(]))|ault\b|ined (?:reference|symbol))|panic(?:ked)?\b|P(?:ermission denied)|No such file|C(?:annot(?<!.Cannot)|ould(?<!.Could) not)"
    rb"|Unable(?<!.Unable)|killed\b|Killed\b|not ok(?<!.not ok)|\xe2(?:\x9c[\x95\x96\x97\x98]|\x97\x8f)",
    re.DOTALL,
)
_WARNING = re.compile(rb"warn(?:ing)?s?\b|W(?:arn(?:ing)?s?\b|ARN)")
_HARMLESS = re.compile(
    rb"0(?<!\w.) (?:\w+ )?(?:error|fail|warning)|no(?<!\w..) (?:\w+ )?(?:error|fail|warning)|No(?<!\w..) (?:\w+ )?(?:error|fail|warning)"
    rb"|zero(?<!\w.{4}) (?:\w+ )?(?:error|fail|warning)|without(?<!\w.{7}) (?:\w+ )?(?:error|fail|warning)|rrors?\W{1,3}0\b|ail(?:ures?|ed)\W{1,3}0\b"
    rb"|-(?<![\w-].)-?[\w-]{0,40}(?:fail|error|warn)|passed(?<!\w.{6})\b|PASS|ok(?<!\w..)\b(?<!not ok)|xfail|XFAIL|\xe2\x9c[\x93\x94](?<!.{4})",
    re.DOTALL,
)
_COUNT = re.compile(LINES_OF_COUNTS.encode("ascii"))
BEST = 5.0  # no bound: the highest score of a line

_STAMPED = re.compile(rb"[\d\s\[(<|#\x1b]")
_STAMP = re.compile(
    rb"(?>"
    + COLOURS
    + rb"|\s+|[\[\](){}<>|#:]+|\d{4}-\d\d-\d\d[T ]?|\d\d:\d\d:\d\d(?:[.,]\d+)?|Z\b|[+-]\d\d:?\d\d\b|\d+(?:\.\d+)?\b)+"
)
_DIGITS = b"0123456789"
_VARIES = re.compile(rb"\"[^\"]*\"|'[^']*'|`[^`]*`|(?<![\w.-])[\w.-]*+/[\w./-]+|\b[^\W\d]*+\d\w*")
_INSIDE = re.compile(rb"[ \t|^=>~+\-E\r\n]|\d+ *\||at ")
_AFTER, _MOST_AFTER = 2, 12
_REPEATS = 4  # no bound: after as many lines of a shape, further lines are worthless


Mark = tuple[int, int]
"""A place in an output: the raw bytes and the line feeds before the place."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Lines of an output.

    Attributes:
        start: The start of the lines, in bytes.
        lines: Line feeds before the lines.
        data: The bytes of whole lines.
        score: The score of the lines; more than zero.
        core: The begin and the end, in `data`, of the line that tells of an error.
        marks: The place in the raw output of the lines' start and of each line's end; only for lines whose bytes are not raw.
    """

    start: int
    lines: int
    data: bytes
    score: float
    core: tuple[int, int] = (0, 0)
    marks: tuple[Mark, ...] = ()

    @property
    def end(self) -> int:
        """The end of the lines, in bytes."""
        return self.start + len(self.data)

    def first(self, size: int) -> Excerpt:
        """Return the first lines of the excerpt, which have `size` bytes."""
        data = self.data[:size]
        return replace(self, data=data, marks=self.marks[: data.count(b"\n") + 1])

    def alone(self) -> Excerpt:
        """Return the excerpt of the error line without the lines around it."""
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


def score(line: bytes, *, counts: bool | None = None) -> float:
    """Return the score of a line as a report of an error, at most `BEST`; zero or less if the line tells of no error.

    Args:
        line: A line that `HITS` matches.
        counts: Whether the line counts failures, if known.
    """
    if _STAMPED.match(line) and (stamp := _STAMP.match(line)):
        line = line[stamp.end() :]
    line = line[:LOOKED_AT]
    found = _STRONG.search(line)
    if found:
        value = BEST if found.start() < 40 else 3.0
        if found.start() > 8 and _WARNING.search(line, 0, 60):
            value -= 2
    else:
        value = 1.0 if _WARNING.search(line) else 2.0
    if counts or not _HARMLESS.search(line):
        return value
    return value if counts is None and _COUNT.search(line) else value - 3


def telling(lines: Sequence[bytes]) -> list[int]:
    """Return the indices of the lines that tell of an error, among lines that differ only in numbers."""
    if HITS.search(b"\n" + lines[0]) is None:
        return []
    some = counting(b"".join(lines))
    # One line that counts failures stands for all that do, and one other line for all others.
    one = {number in some: number for number in range(len(lines))}
    tell = {counts: tells(lines[number]) for counts, number in one.items()}
    return [number for number in range(len(lines)) if tell[number in some]]


def tells(line: bytes) -> bool:
    """Whether a line alone tells of an error."""
    return HITS.search(b"\n" + line) is not None and score(line) > 0


class BestLines:
    """The best excerpts so far, in bounded memory.

    Args:
        room: Bytes of excerpts that can be shown.

    Attributes:
        room: As above.
        work: Bytes of search so far, including the cost of scoring lines.
        least: The score at which the excerpts found so far fill the room; a further line must score more.
    """

    def __init__(self, room: int = HELD) -> None:
        self.room = room
        self.work = 0
        self.least = 0.0
        self._excerpts: list[Excerpt] = []
        self._size = 0
        # Hashes of shapes, with their numbers of lines; the older half is dropped when the newer half is full.
        self._shapes: dict[int, int] = {}
        self._older: dict[int, int] = {}
        self._young: deque[tuple[int, float, int]] = (
            deque()
        )  # ends, scores and new bytes of excerpts not yet in `_sizes`
        self._sizes: Counter[float] = Counter()  # bytes of excerpts by score
        self._end = 0  # the end of the excerpts so far

    def worth(self, line: bytes, shape: int, least: float, *, counts: bool = False) -> float:
        """Return the score of a line, less one for each earlier line of its shape; zero if the result is below `least`.

        Args:
            line: The line.
            shape: The hash of the line without its digits.
            least: The lowest score that counts.
            counts: Whether the line counts failures.
        """
        self.work += SCORED
        seen = self._shapes.get(shape) or self._older.get(shape, 0)
        if seen >= _REPEATS or BEST - seen < least:
            return 0
        value = score(line, counts=counts) - seen
        if value < least:
            return 0
        text = line[:LOOKED_AT]
        kind = hash(_VARIES.sub(b"*", text) if line[:1] != b"{" else text.translate(None, _DIGITS))
        kind = ~kind if counts else kind
        before = seen
        if kind != shape:
            before = self._shapes.get(kind) or self._older.get(kind, 0)
            value -= max(0, min(before, _REPEATS) - seen)
            if value < least:
                return 0
            self._count(kind, before)
        self._count(shape, seen)
        return value

    def _count(self, shape: int, before: int) -> None:
        self._shapes[shape] = before + 1
        if len(self._shapes) > SHAPES // 2:
            self._older, self._shapes = self._shapes, {}

    def settle(self, place: int) -> None:
        """Raise `least` if the excerpts before a place fill the room. No line before the place is in the output's shown end."""
        young = self._young
        while young and young[0][0] <= place:
            _, value, size = young.popleft()
            self._sizes[value] += size
        total = 0
        for value in sorted(self._sizes, reverse=True):
            total += self._sizes[value]
            if total >= self.room:
                self.least = max(self.least, value)
                return

    def keep(self, excerpt: Excerpt) -> None:
        """Keep an excerpt; if the excerpts are too many, keep the best of all."""
        self._excerpts.append(excerpt)
        self._young.append((excerpt.end, excerpt.score, excerpt.end - max(excerpt.start, self._end)))
        self._end = max(self._end, excerpt.end)
        self._size += len(excerpt.data)
        if self._size <= HELD:
            return
        # Among excerpts of one score, those in the middle are dropped first.
        middle = (self._excerpts[0].start + excerpt.start) / 2
        self._excerpts.sort(key=lambda each: (-each.score, -abs(each.start - middle)))
        while self._size > HELD // 2:
            self._size -= len(self._excerpts.pop().data)
        self._excerpts.sort(key=lambda each: each.start)

    def excerpts(self) -> list[Excerpt]:
        """Return the kept excerpts, in order."""
        return sorted(self._excerpts, key=lambda each: each.start)


class Signals:
    """The search for error lines in fed output, in bounded memory. The result does not depend on how the bytes are cut.

    Once the found lines fill the room, the search is only for lines with a higher score. At the end, a search back from the
    start of the shown end finds lines with the same score.

    Args:
        marks: Returns the marks of an excerpt, from its first byte and the byte after it; for whole lines that were fed and
            are still held.
        room: Bytes of found lines that can be shown.
        tail: Bytes of the end that are shown in any case.

    Attributes:
        searched: Whether all fed output was searched, or as much as needed; valid after `finish`.
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
        self._start = 0  # where the held bytes begin in the output
        self._done = 0  # held bytes that were searched, or will not be searched
        self._feeds = 0  # line feeds of all fed bytes
        self._found = BestLines(room)
        self._looker = Looker()
        self._tail = tail

    @property
    def start(self) -> int:
        """The offset of the first held byte. No later excerpt has a byte before this offset."""
        return self._start

    def feed(self, data: bytes, feeds: int | None = None) -> None:
        """Take the next bytes. `feeds` is the number of their line feeds, if counted: the count takes as long as the search."""
        held = self._held
        for at in range(0, len(data), _BLOCK):
            part = data[at : at + _BLOCK]
            held += part
            self._feeds += part.count(b"\n") if feeds is None or len(part) < len(data) else feeds
            while len(held) - self._done >= _BLOCK + EXCERPT:
                self._take(self._done + _BLOCK)
                gone = max(0, self._done - (LAST if self._found.least or self._rests else EXCERPT))
                del held[:gone]
                self._start += gone
                self._done -= gone

    def finish(self, end: int | None = None) -> list[Excerpt]:
        """Return the excerpts with the found lines, in order. No `feed` may follow.

        Args:
            end: Bytes before the shown end; lines of the shown end need not be found.
        """
        found = self._found
        end = len(self._held) if end is None else min(len(self._held), max(0, end - self._start))
        if self._rests:
            self.searched = found.work < SEARCHED
            self._done = self._held.find(b"\n") + 1  # the first held line lacks its start
        if found.least < BEST and end > self._done:
            self._search(self._done, end)
        if found.least:
            self._search_back(end)
        return found.excerpts()

    @property
    def _rests(self) -> bool:
        """Whether only the end is still searched: enough bytes were searched, or enough lines were found."""
        return self._found.work >= SEARCHED or self._found.least >= BEST

    def _take(self, end: int) -> None:
        """Search the held bytes up to a place; the context of a line may be beyond the place."""
        if not self._rests:
            self._found.settle(self._start + self._done - self._tail)
            self._search(self._done, end)
            self._found.work += end - self._done
        self._done = end

    def _before(self, place: int) -> int:
        """Return the line feeds of the output before a place of the held bytes."""
        return self._feeds - self._held.count(b"\n", place)

    def _search(self, start: int, end: int) -> None:
        """Search the lines that begin in a part of the held bytes."""
        found, looker = self._found, self._looker
        before = max(0, start - EXCERPT)  # where the searched bytes and their context begin
        held = bytes(memoryview(self._held)[before : end + 2 * EXCERPT])
        at = self._line_from(start) - before
        end = held.find(b"\n", end - before - 1) + 1 or len(held)
        feeds: int | None = None  # line feeds before `counted`, once a line was found
        counted = at
        while at < end:
            known = held.find(b"\n", min(at + _SLICE, end) - 1) + 1 or len(held)
            piece = held[at:known]
            for hit in looker.hits(piece, found.least + 1):
                if value := found.worth(
                    piece[hit.start : hit.stop], hit.shape, found.least + 1, counts=hit.counts
                ):
                    if feeds is None:
                        feeds = self._before(before + at)
                    else:
                        feeds += held.count(b"\n", counted, at)
                    counted = at
                    self._keep(held, before, at + hit.start, at + hit.stop, value, feeds + hit.number)
                else:
                    looker.drop(hit.shape)
            at = known

    def _search_back(self, end: int) -> None:
        """Search the held bytes backwards from a place for lines that score as much as the found lines, as the room allows."""
        held, found = bytes(self._held), self._found
        kept = {each.start + each.core[0] for each in found.excerpts()}
        first, stop, room = self._line_from(max(0, end - BACK)), held.rfind(b"\n", 0, end) + 1, found.room
        feeds = self._before(stop)
        while stop > first and room > 0:
            at = held.rfind(b"\n", first, max(first, stop - _SLICE)) + 1 or first
            piece = held[at:stop]
            feeds -= piece.count(b"\n")
            for hit in reversed(self._looker.hits(piece, found.least, again=True)):
                if self._start + at + hit.start not in kept and room > 0:
                    value = found.worth(
                        piece[hit.start : hit.stop], hit.shape, found.least, counts=hit.counts
                    )
                    if value:
                        room -= self._keep(held, 0, at + hit.start, at + hit.stop, value, feeds + hit.number)
            stop = at

    def _line_from(self, at: int) -> int:
        """Return the beginning of the first line that begins at or after a place of the held bytes."""
        if self._held[at - 1 : at] == b"\n" if at else not self._start:
            return at
        return self._held.find(b"\n", at) + 1 or len(self._held)

    def _keep(self, held: bytes, before: int, first: int, stop: int, value: float, feeds: int) -> int:
        """Keep a line with its context, and return the number of bytes kept. `held` begins `before` bytes into the held bytes."""
        begin, after = _around(held, first, stop, cut=self._start + before > 0)
        place = self._start + before + begin
        marks = () if self._marks is None else self._marks(place, place + after - begin)
        core = (first - begin, stop - begin)
        self._found.keep(Excerpt(place, feeds - (begin < first), held[begin:after], value, core, marks))
        return after - begin


def _around(held: bytes, first: int, stop: int, *, cut: bool) -> tuple[int, int]:
    """Widen a line to its context: the line before, two lines after, and further lines while these look like context."""
    begin = held.rfind(b"\n", 0, first - 1) + 1 if first else 0
    if first - begin > EXCERPT // 4 or (begin == 0 and cut):
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
    """Return the best excerpts that the room allows, in order; excerpts that touch are joined.

    Args:
        found: The candidates.
        end: The end of the middle, in bytes; an excerpt that reaches beyond is left out.
        room: Bytes of room.
        cost: Bytes that each excerpt needs besides its own.
    """
    taken: list[Excerpt] = []  # sorted by start
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
