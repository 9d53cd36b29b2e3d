"""Lines of a terminal that are final: those of the start, and those of the end."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from ..text.bounded import cut_note
from ..text.builder import CONDENSED
from ..text.condense import condense, similar
from ..text.sections import GAP, left_out
from ..text.signals import Excerpt, Signals, chosen

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..text.signals import Mark

_TRIMMED = 4096  # no bound: lines after which the places of earlier ones are let go

_TOGETHER = 16 * 1024
"""Bytes of lines that are let go and are searched together."""


@dataclass(slots=True)
class _Final:
    """A line that will not change any more.

    Attributes:
        text: Its shown part, with the note that it was cut if it was.
        size: Bytes of that, without the note, and with a line feed.
        cut: Bytes that it leaves out.
        end: Raw bytes of the output up to its end, and never less than those of the line before.
        ends: The same in line feeds.
    """

    text: str
    size: int
    cut: int
    end: int
    ends: int


class FinalLines:
    """Lines that are final, in the order of their coming: those from the start and those from the end that fit.

    Where output was skipped there is a gap. There is one note at most, so that with gaps the lines before the first
    one and those after the last one are shown.

    Of the lines between, those that tell what went wrong are shown, unless there are gaps.

    A line stands for the raw bytes and the line feeds of the output from the end of the line before it up to its own: so
    the shown and the omitted parts are the whole.

    Args:
        head: Bytes of text from the start.
        tail: Bytes of text from the end. What the head has not used, the end may have.
        excerpts: Bytes of the tail that lines between may have.
        max_line: Characters of a line that are kept.

    Attributes:
        count: Lines that are final, those that were let go among them.
        omitted_lines: Line feeds of the output that belong to no line that is shown.
    """

    def __init__(self, head: int, tail: int, excerpts: int, max_line: int) -> None:
        self.count = 0
        self._excerpts_room = room = min(excerpts, tail)
        self._signals = Signals(self._marks, room=room, tail=room) if excerpts else None
        self._excerpts: list[Excerpt] = []
        self._let_go = 0  # bytes of text of the lines that were let go
        # The ends of the last of these lines: in the text, and in the output.
        self._texts, self._bytes, self._feeds = array("q", [0]), array("q", [0]), array("q", [0])
        self._room = head
        self._tail = tail
        self._most = 0  # bytes of lines that are held of the end
        self._asked = bytearray()  # of the lines that were let go, those that are still to be searched
        self._folds: list[
            tuple[int, int]
        ] = []  # of the lines of the end, the first and the next after each run that is left out
        self._max_line = max_line
        self._head: list[_Final] = []
        self._rest: deque[_Final] = deque()
        self._rest_size = 0
        self._full = False  # whether the head takes no more
        self._dropped: _Final | None = None  # the last line that was let go
        self._gaps: tuple[int, int] | None = None  # lines before the first and before the last gap
        self._gap_end = (0, 0)  # raw bytes, and line feeds, up to the end of the last gap
        self._line: str | None = None  # the line that may go on
        self._cut = 0
        self._end = 0
        self._ends = 0
        self._before = (0, 0)  # where the line before ended
        self._ended = True
        self._lost = 0  # bytes of the start of a last line that is larger than the tail

    def add(self, text: str, end: int, ends: int, *, continues: bool) -> None:
        """Add a row."""
        if continues and self._line is not None:
            text = self._line + text
        elif self._line is not None:
            self._push()
        if len(text) > self._max_line:
            self._cut += len(text[self._max_line :].encode("utf-8", "replace"))
            text = text[: self._max_line]
        self._line = text
        if end or not continues:
            # A row that has scrolled away says where the output was by then. The end of its line, which is known later, counts.
            before, befores = self._before
            self._end, self._ends = max(before, end), max(befores, ends)

    def gap(self, end: int, ends: int) -> None:
        """Output was skipped here, up to so many raw bytes and line feeds from its start."""
        number = self.count + (self._line is not None)
        self._gaps = (number if self._gaps is None else self._gaps[0], number)
        self._gap_end = end, ends

    def finish(self, total: int, lines: int, *, ended: bool) -> None:
        """Take note that the output has ended."""
        if self._line is not None:
            self._end, self._ends = max(self._end, total), max(self._ends, lines)
            self._push()
        self._ended = ended
        if self._signals is None or (self._dropped is None and self._rest_size <= self._tail):
            return
        if self._gaps is None:
            self._choose(self._signals)
        while self._rest_size > self._tail and not self._folds:
            self._drop()

    def _choose(self, signals: Signals) -> None:
        """Let lines go for those that tell more, and fold those that are similar."""
        limit, room, last = self._tail, self._excerpts_room, self._dropped
        data = b"".join(line.text.encode("utf-8", "replace") + b"\n" for line in self._rest)
        shown = condense(data, limit, prefixes=False)
        moved: list[_Final] = []

        def most(size: int) -> list[int]:
            """The lines of the end that there is room for: 1 for each, and more for those that are folded, with a minus."""
            if shown is not None:
                return [-line.feeds if line.similar else 1 for line in shown.last(size)]
            sizes = accumulate(line.size for line in reversed((*moved, *self._rest)))
            return [1] * sum(1 for each in sizes if each <= size)

        count = sum(map(abs, most(limit - room)))
        while len(self._rest) > count:
            moved.append(self._drop())
        self._search(signals)
        excerpts = chosen(signals.finish(self._let_go), self._let_go, room, GAP)
        counts = most(limit - sum(len(each.data) + GAP for each in excerpts))
        count = sum(map(abs, counts))
        while len(self._rest) < count:
            line = moved.pop()
            self._rest.appendleft(line)
            self._rest_size += line.size
            self._let_go -= len(line.text.encode("utf-8", "replace")) + 1
        self._dropped = moved[-1] if moved else last
        self._excerpts = [
            each.first(self._let_go - each.start) for each in excerpts if each.start < self._let_go
        ]
        ends = accumulate(map(abs, counts))
        self._folds = [(end + each, end) for end, each in zip(ends, counts, strict=True) if each < 0]

    @property
    def searched(self) -> bool:
        """Whether all lines that are left out were searched for those that tell what went wrong."""
        return self._signals is None or self._signals.searched

    @property
    def excerpts(self) -> tuple[tuple[int, int], ...]:
        """The lines between that are shown, counted as `ranges` are."""
        places = [(each.marks[0][1], each.marks[-1][1]) for each in self._excerpts]
        return tuple((first + 1, max(first + 1, last)) for first, last in places)

    @property
    def begun(self) -> str | None:
        """The last row that was added, and those before it that it continues: it may go on."""
        return self._line

    def since(self, number: int) -> tuple[int, list[str]]:
        """The number of the first final line that is kept from a number on, and the text of it and of all after it."""
        lines = [*self._rest] if self._dropped is not None else [*self._head, *self._rest]
        first = min(max(number, self.count - len(lines)), self.count)
        return first, [line.text for line in lines[len(lines) - (self.count - first) :]]

    @property
    def incomplete(self) -> bool:
        """Whether anything is left out."""
        return bool(self._dropped or self._gaps or self._folds) or self.cut_lines > 0

    @property
    def cut_lines(self) -> int:
        """Lines that end with a note."""
        before, _, after = self._shown()
        return sum(line.cut > 0 for line in (*before, *self._unfolded(after)))

    @property
    def omitted_lines(self) -> int:
        """Line feeds of the omitted part between the head and the tail."""
        before, missing, _ = self._shown()
        shown = sum(each.marks[-1][1] - each.marks[0][1] for each in self._excerpts)
        between = 0 if missing is None else max(missing[1] - (before[-1].ends if before else 0) - shown, 0)
        return between + sum(feeds for feeds, _ in self._folded)

    @property
    def omitted_bytes(self) -> int:
        """Bytes left out: raw ones between the head and the tail, and those that were cut off lines."""
        before, _, after = self._shown()
        return self._between + sum(line.cut for line in (*before, *self._unfolded(after)))

    def ranges(self, total: int) -> tuple[tuple[int, int] | None, tuple[int, int] | None]:
        """The lines before and after the omitted part, counted by line feeds, of which there are `total`."""
        before, missing, after = self._shown()
        if missing is None:
            return None, None
        start = missing[1] + 1
        head = (1, max(1, before[-1].ends)) if before else None
        return head, (start, max(start, total + (not self._ended))) if after else None

    @property
    def _between(self) -> int:
        before, missing, _ = self._shown()
        shown = sum(each.marks[-1][0] - each.marks[0][0] for each in self._excerpts)
        between = 0 if missing is None else max(missing[0] - (before[-1].end if before else 0) - shown, 0)
        # A line that is left out may have come of no bytes of its own.
        least = 0 if self._dropped is None and self._gaps is None else 1
        return max(between + sum(size for _, size in self._folded), least)

    @property
    def _folded(self) -> list[tuple[int, int]]:
        """The line feeds and the raw bytes of each run of similar lines that is left out."""
        rest = self._rest
        last = self._dropped or (self._head[-1] if self._head else _Final("", 0, 0, 0, 0))
        starts = [rest[start - 1] if start else last for start, _ in self._folds]
        ends = [rest[end - 1] for _, end in self._folds]
        return [
            (one.ends - before.ends, one.end - before.end) for before, one in zip(starts, ends, strict=True)
        ]

    def _unfolded(self, after: Sequence[_Final]) -> list[_Final]:
        """The lines of the end without those of the runs."""
        hidden = {number for fold in self._folds for number in range(*fold)}
        return [line for number, line in enumerate(after) if number not in hidden]

    def _shown(self) -> tuple[list[_Final], tuple[int, int] | None, list[_Final]]:
        """The lines before the omitted part; the raw bytes and line feeds up to its end; and the lines after it."""
        dropped = None if self._dropped is None else (self._dropped.end, self._dropped.ends)
        before, after = self._head, [*self._rest]
        if dropped is None and self._folds:
            dropped = (before[-1].end, before[-1].ends) if before else (0, 0)
        if self._gaps is None:
            return before, dropped, after
        first, last = self._gaps
        # The head has the lines after the last gap that it took, unless some are missing between.
        rest = self.count - len(after)
        hidden = before[first:last] if dropped is None else before[first:]
        hidden += after[: max(0, last - rest)]
        after = after[max(0, last - rest) :]
        if dropped is None:
            after = before[last:] + after
        ends = [
            self._gap_end,
            *([] if dropped is None else [dropped]),
            *((line.end, line.ends) for line in hidden),
        ]
        return before[:first], max(ends), after

    def text(self, note: Callable[[int, int], str], total_lines: int) -> str:
        """All that is shown, and, if anything is left out between, the note that is made of lines and bytes."""
        before, missing, after = self._shown()
        lines = [line.text for line in before]
        if missing is not None:
            lines.append(note(self.omitted_lines, self._between))
            done, (at, feeds) = 0, (before[-1].end, before[-1].ends) if before else (0, 0)
            for each in self._excerpts:
                if each.start > done and each.marks[0][0] > at:
                    lines.append(left_out(each.marks[0][1] - feeds, each.marks[0][0] - at, total_lines))
                lines.append(each.data.decode("utf-8", "replace").removesuffix("\n"))
                done, (at, feeds) = each.end, each.marks[-1]
            if (self._excerpts or self._folds) and self._let_go > done and missing[0] > at:
                lines.append(left_out(missing[1] - feeds, missing[0] - at, total_lines))
        at = 0
        for (start, end), (feeds, size) in zip(self._folds, self._folded, strict=True):
            lines += [*(line.text for line in after[at:start]), similar(feeds, size)]
            at = end
        lines += [line.text for line in after[at:]]
        text = "\n".join(lines)
        return text + "\n" if lines and self._ended else text

    def _push(self) -> None:
        assert self._line is not None
        text = self._line if self._cut else self._line.rstrip(" ")
        size = (len(text) if text.isascii() else len(text.encode("utf-8", "replace"))) + 1
        line = _Final(
            text + cut_note(self._cut) if self._cut else text, size, self._cut, self._end, self._ends
        )
        self._line, self._cut, self._before = None, 0, (self._end, self._ends)
        self.count += 1
        if not self._full and size <= self._room:
            self._head.append(line)
            self._room -= size
            return
        if not self._full:
            self._full = True
            self._tail += self._room
            # More lines that may be folded are held than fit.
            self._most = self._tail if self._signals is None else max(self._tail, CONDENSED)
        self._rest.append(line)
        self._rest_size += size
        while self._rest_size > self._most:
            self._drop()

    def _drop(self) -> _Final:
        line = self._dropped = self._rest.popleft()
        self._rest_size -= line.size
        if self._signals is not None:
            data = line.text.encode("utf-8", "replace")
            if not self._let_go and self._head:
                self._bytes[0], self._feeds[0] = self._head[-1].end, self._head[-1].ends
            self._let_go += len(data) + 1
            self._texts.append(self._let_go)
            self._bytes.append(line.end)
            self._feeds.append(line.ends)
            self._asked += data + b"\n"
            if len(self._asked) >= _TOGETHER:
                self._search(self._signals)
        return line

    def _search(self, signals: Signals) -> None:
        """Search the lines that were let go."""
        signals.feed(bytes(self._asked))
        self._asked.clear()
        if len(self._texts) > _TRIMMED:
            # Lines that the signals no longer hold have their marks, or will have none.
            gone = bisect_right(self._texts, signals.start) - 1
            del self._texts[:gone], self._bytes[:gone], self._feeds[:gone]

    def _marks(self, start: int, end: int) -> tuple[Mark, ...]:
        first, last = bisect_left(self._texts, start), bisect_left(self._texts, end)
        return tuple(zip(self._bytes[first : last + 1], self._feeds[first : last + 1], strict=True))
