"""The lines of an output that tell what went wrong, found as it comes."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter, deque
from dataclasses import dataclass, replace
from functools import cache
from itertools import compress
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from collections.abc import Set as AbstractSet

SEARCHED = 64 * 1024 * 1024
"""Bytes of the middle of an output in which such lines are looked for, and of its end as many as `LAST`. Each line that is
looked at more closely counts as `SCORED` bytes."""

SCORED = 512
"""Bytes of search that a closer look at a line costs."""

LAST = 256 * 1024
"""Bytes before the end that are searched in any case."""

BACK = 64 * 1024
"""Bytes before the shown end in which lines are looked for that are worth as much as what fills the room."""

LOOKED_AT = 400
"""Bytes of a line that are looked at closely."""

EXCERPT = 4 * 1024
"""Bytes of a line with the lines around it."""

HELD = 256 * 1024
"""Bytes of such excerpts that are held; beyond that the best of them."""

SHAPES = 4096
"""Shapes of lines that are counted, to tell what is repeated; when there are more, the older half is forgotten."""

WORTHLESS = 8192
"""Shapes of lines that are known to be worth nothing, and so are not looked at again; when there are more, all are forgotten."""

_SLICE = 8 * 1024
"""Bytes that are asked about at once, whether there may be such a line in them."""

_BLOCK = 64 * 1024
"""Bytes that are searched at once. Which bytes a block has depends on their place in the output alone."""

# Each alternative begins with one letter, no class or group, so that `re` skips all but such letters: thrice as fast.
_HITS = re.compile(
    rb"r(?:ror|aceb)|RROR|f(?:ail|a(?:tal|ult)|ound|used|ined)|F(?:ail|AIL|atal|ATAL)|panic|Permission d|xcept|killed|Killed|No such"
    rb"|C(?:annot|ould not)|Unable|warn|W(?:arn|ARN)|\n(?:not ok|E   )|\xe2(?:\x9c[\x95\x96\x97\x98]|\x97\x8f)"
)
# What is given to Rust is ASCII, which it reads where it stands: of the other bytes, those of these patterns are controls.
_NOT_ASCII = b"\xe2\x9c\x97\x8f\x93\x94\x95\x96\x98"
_CONTROLS = b"\x01\x02\x03\x04\x05\x06\x0e\x0f\x10"
_TO_ASCII = bytes.maketrans(bytes(range(0x80, 0x100)) + _NOT_ASCII, b"\x7f" * 0x80 + _CONTROLS)
# The same for Rust's regular expressions; and what each line has, and more, that `_STRONG` finds something in.
_LINES_OF_HITS = _HITS.pattern.decode("ascii").replace(r"\n(?:", "(?m:^)(?:")
_LINES_OF_STRONG = (
    r"rrors?(?-u:\b)(?:\(\d+,\d+\)|\[[\w-]+\]| \w+)?:|RROR(?:[^_]|$)|racebac|Error(?:[^A-Za-z0-9_./(=]|$)|E +[-+] |FA(?:IL(?:[^_]|$)|TAL)"
    r"|Fa(?:tal|il(?:ed|ure))|xception|f(?:atal|ail(?:ed|ures?)|ault|ined (?:reference|symbol))|panic|Permission denied|No such file"
    r"|C(?:annot|ould not)|Unable|[Kk]illed|not ok|\xe2(?:\x9c[\x95\x96\x97\x98]|\x97\x8f)"
)
# With these, and nothing of those, a line is worth nothing, or one at most.
_LINES_OF_SUCCESS = (
    r"(?-u:\b)passed(?-u:\b)|PASS|(?:^|[^\w\s]|(?:^|[^t])\s)ok(?-u:\b)|xfail|XFAIL|^[ \t]*\xe2\x9c[\x93\x94]"
)
_LINES_OF_WARNINGS = _LINES_OF_SUCCESS + r"|[Ww]arn(?:ing)?s?(?-u:\b)|WARN"
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
# A count of failures that is not zero. Lines with one are no repeats of lines that count zero, and are not harmless for another zero.
_LINES_OF_COUNTS = (
    r"(?:^|[^0-9A-Za-z_.-])[1-9][0-9]* (?:tests? )?(?:[Ee]rrors?|[Ff]ail(?:ures?|ed))(?:[^0-9A-Za-z_=:(./-]|$)"
    r"|(?:^|[^0-9A-Za-z_-])[0-9A-Za-z_]*(?:rrors|ailures|ailed)[=:] ?[1-9]"
)
# What an output has that has such a line, found ten times as fast.
_MAYBE_COUNTS = r"[0-9] (?:[Ee]rr|[Ff]ail)|tests? [EeFf]|(?:rror|ailure)s[=:]|ailed[=:]"
_COUNT = re.compile(_LINES_OF_COUNTS.encode("ascii"))
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


def score(line: bytes) -> float:
    """How much a line says of what went wrong; zero if nothing. It is at most `BEST`."""
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
    return value - 3 if _HARMLESS.search(line) and not _COUNT.search(line) else value


class _Gate:
    """Tells where there is a match, some twenty times as fast as `re`: Rust's regular expressions look by vector instructions."""

    def __init__(self, pattern: str) -> None:
        from pydantic_core import SchemaValidator  # here, since most outputs are short
        from pydantic_core import core_schema as schema

        for byte, control in zip(_NOT_ASCII, _CONTROLS, strict=True):
            pattern = pattern.replace(rf"\x{byte:02x}", rf"\x{control:02x}")
        text = schema.str_schema(pattern=pattern)
        lines = schema.list_schema(schema.with_default_schema(text, default=None, on_error="default"))
        self.anywhere: Callable[[str], bool] = SchemaValidator(text).isinstance_python
        self.lines: Callable[[list[str]], list[str | None]] = SchemaValidator(lines).validate_python
        """The lines that match, and ``None`` in the place of each other one."""


_gate = cache(_Gate)


class _Hit(NamedTuple):
    """A line that may be worth something: its number, where it begins and ends, the hash of its shape, and whether it counts failures."""

    number: int
    start: int
    stop: int
    shape: int
    counts: bool


class _Looker:
    """Finds the lines that may be worth something, some hundred at once.

    Attributes:
        worthless: Hashes of the shapes of lines that are worth nothing.
        feeds: Line feeds of what was looked at last.
    """

    def __init__(self) -> None:
        self.worthless: set[int] = set()
        self.feeds = 0
        self._known = False  # whether a third of the last lines was known to be worth nothing

    def hits(self, piece: bytes, least: float, *, again: bool = False) -> list[_Hit]:
        """The lines that may be worth so much.

        Args:
            piece: Whole lines.
            least: What they may be worth.
            again: Look at those that are known to be worth nothing, too.
        """
        plain = piece.isascii()
        text = (piece if plain else piece.translate(_TO_ASCII)).decode("ascii")
        gate = _gate(_LINES_OF_HITS if least <= 2 else _LINES_OF_STRONG)
        if not gate.anywhere(text):
            self.feeds = piece.count(b"\n")
            return []
        lines = text.split("\n")
        self.feeds = len(lines) - 1
        worthless: AbstractSet[int] = frozenset() if again else self.worthless
        counts = _counting(text, lines)
        if self._known and not again:
            shapes = _shapes(piece)
            for number in counts:
                shapes[number] = ~shapes[number]
            numbers = [number for number, shape in enumerate(shapes) if shape not in worthless]
            self._known = 3 * len(numbers) < 2 * len(lines)
            told = gate.lines([lines[number] for number in numbers])
            numbers = [*compress(numbers, told)]
            shapes = [shapes[number] for number in numbers]
        else:
            told = gate.lines(lines)
            numbers = [*compress(range(len(lines)), told)]
            raw = None if plain else piece.split(b"\n")
            shapes = _shapes(
                "\n".join(filter(None, told)).encode("ascii")
                if raw is None
                else b"\n".join([raw[number] for number in numbers])
            )
            if counts:
                shapes = [
                    ~shape if number in counts else shape
                    for number, shape in zip(numbers, shapes, strict=True)
                ]
            new = [shape not in worthless for shape in shapes]
            self._known = 3 * new.count(False) > len(lines)
            numbers, shapes = [*compress(numbers, new)], [*compress(shapes, new)]
        if not numbers:
            return []
        # `numbers` and `shapes` are of the same lines. The shape of a line that tells of success alone counts as worthless from now on.
        texts = [lines[number] for number in numbers]
        strong = _gate(_LINES_OF_STRONG).lines(texts)
        fine = _gate(_LINES_OF_SUCCESS if least < 2 else _LINES_OF_WARNINGS).lines(texts)
        found = []
        place = before = 0
        for number, line, shape, bad, good in zip(numbers, texts, shapes, strong, fine, strict=True):
            some = number in counts
            if bad is None and good is not None and not some and len(line) <= LOOKED_AT:
                self.drop(shape)
                continue
            place += sum(map(len, lines[before:number])) + number - before
            before = number
            if len(line) < EXCERPT:
                found.append(_Hit(number, place, min(place + len(line) + 1, len(piece)), shape, some))
        return found

    def drop(self, shape: int) -> None:
        """Look at no more lines of a shape."""
        if len(self.worthless) >= WORTHLESS:
            self.worthless.clear()
        self.worthless.add(shape)


def _shapes(lines: bytes) -> list[int]:
    """Of each line, the hash of what it is without its digits."""
    return [*map(hash, lines.translate(None, _DIGITS).split(b"\n"))]


def _counting(text: str, lines: list[str]) -> AbstractSet[int]:
    """Which lines of a text count failures."""
    if not _gate(_MAYBE_COUNTS).anywhere(text):
        return frozenset()
    return {number for number, line in enumerate(_gate(_LINES_OF_COUNTS).lines(lines)) if line is not None}


def telling(lines: Sequence[bytes]) -> list[int]:
    """Which lines say something of what went wrong, of lines that differ in numbers alone."""
    if _HITS.search(b"\n" + lines[0]) is None:
        return []
    text = b"".join(lines).translate(_TO_ASCII).decode("ascii")
    counting = _counting(text, text.split("\n"))
    # All that count failures are alike, and so are the others.
    one = {number in counting: number for number in range(len(lines))}
    tell = {counts: tells(lines[number]) for counts, number in one.items()}
    return [number for number in range(len(lines)) if tell[number in counting]]


def tells(line: bytes) -> bool:
    """Whether a line alone says something of what went wrong."""
    return _HITS.search(b"\n" + line) is not None and score(line) > 0


class Found:
    """The best of what was found, in bounded memory.

    Args:
        room: Bytes that there are to show it.

    Attributes:
        room: As above.
        work: Bytes of search that closer looks have cost.
        least: What as much was found of as can be shown. A line must be worth more than that.
    """

    def __init__(self, room: int = HELD) -> None:
        self.room = room
        self.work = 0
        self.least = 0.0
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

    def worth(self, line: bytes, shape: int, least: float, *, counts: bool = False) -> float:
        """What a line is worth, less one for each of its shape before it; zero if that is less than some worth.

        Args:
            line: The line.
            shape: The hash of the line without its digits.
            least: The worth.
            counts: Whether it counts failures.
        """
        self.work += SCORED
        seen = self._shapes.get(shape) or self._older.get(shape, 0)
        if seen >= _REPEATS or BEST - seen < least:
            return 0
        value = score(line) - seen
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
        """Nothing before a place is in the end of the output, so that all the room is for it and for what is worth more."""
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

    Once as much was found as there is room for, only lines are looked for that are worth more; and in the end, back from
    where the shown end begins, those that are worth as much.

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
        self._lines = 0  # line feeds up to there
        self._found = Found(room)
        self._looker = _Looker()
        self._tail = tail

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
                gone = max(0, self._done - (LAST if self._found.least or self._rests else EXCERPT))
                del held[:gone]
                self._start += gone
                self._done -= gone

    def finish(self, end: int | None = None) -> list[Excerpt]:
        """What was found, in order. Nothing may be fed after that.

        Args:
            end: Bytes of what was fed that are not shown in any case; of what is after them, nothing need be found.
        """
        found = self._found
        end = len(self._held) if end is None else min(len(self._held), max(0, end - self._start))
        if self._rests:
            self.searched = found.work < SEARCHED
            start = self._held.find(b"\n") + 1  # the line before is cut
            self._lines -= self._held.count(b"\n", start, self._done)
            self._done = start
        if found.least < BEST and end > self._done:
            self._search(self._done, end)
        if found.least:
            self._search_back(end)
        return found.excerpts()

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
        self._lines += self._held.count(b"\n", self._done, end)
        self._done = end

    def _search(self, start: int, end: int) -> None:
        """Search the lines that begin in a part of what is held."""
        found, looker = self._found, self._looker
        before = max(0, start - EXCERPT)  # where what is looked at begins
        held = bytes(memoryview(self._held)[before : end + 2 * EXCERPT])
        at = self._line_from(start) - before
        end = held.find(b"\n", end - before - 1) + 1 or len(held)
        feeds = self._lines + held.count(b"\n", start - before, at)
        while at < end:
            known = held.find(b"\n", min(at + _SLICE, end) - 1) + 1 or len(held)
            piece = held[at:known]
            for hit in looker.hits(piece, found.least + 1):
                if value := found.worth(
                    piece[hit.start : hit.stop], hit.shape, found.least + 1, counts=hit.counts
                ):
                    self._keep(held, before, at + hit.start, at + hit.stop, value, feeds + hit.number)
                else:
                    looker.drop(hit.shape)
            feeds += looker.feeds
            at = known

    def _search_back(self, end: int) -> None:
        """Search from a place of what is held back, for lines that are worth as much as others, as long as there is room."""
        held, found = bytes(self._held), self._found
        kept = {each.start + each.core[0] for each in found.excerpts()}
        first, stop, room = self._line_from(max(0, end - BACK)), held.rfind(b"\n", 0, end) + 1, found.room
        feeds = self._lines + held.count(b"\n", self._done, stop) - held.count(b"\n", stop, self._done)
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
        """Where the first line begins that begins at a place of what is held, or after it."""
        if self._held[at - 1 : at] == b"\n" if at else not self._start:
            return at
        return self._held.find(b"\n", at) + 1 or len(self._held)

    def _keep(self, held: bytes, before: int, first: int, stop: int, value: float, feeds: int) -> int:
        """Keep a line with what belongs to it, of what begins some bytes behind what is held; return how many bytes that is."""
        begin, after = _around(held, first, stop, cut=self._start + before > 0)
        place = self._start + before + begin
        marks = () if self._marks is None else self._marks(place, place + after - begin)
        core = (first - begin, stop - begin)
        self._found.keep(Excerpt(place, feeds - (begin < first), held[begin:after], value, core, marks))
        return after - begin


def _around(held: bytes, first: int, stop: int, *, cut: bool) -> tuple[int, int]:
    """Widen a line to what belongs to it: the line before, two after, and more as long as they are indented."""
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
