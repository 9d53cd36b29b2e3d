"""The final lines of a terminal: the lines of the start, and the lines of the end."""

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

_TRIMMED = 4096  # no bound: dropped lines after which the places of earlier lines are forgotten

_TOGETHER = 16 * 1024
"""Bytes of dropped lines that are searched together."""


@dataclass(slots=True)
class _Final:
    """A line that will not change.

    Attributes:
        text: The shown part of the line, with the note on the cut if the line was cut.
        size: Bytes of `text`, without the note, and with a line feed.
        cut: Bytes cut off the line.
        end: Raw bytes of the output up to the line's end; never less than `end` of the line before.
        ends: Line feeds of the output up to the line's end; never less than `ends` of the line before.
    """

    text: str
    size: int
    cut: int
    end: int
    ends: int


class FinalLines:
    """The final lines in order: the lines from the start that fit, and the lines from the end that fit.

    Skipped output leaves a gap. The text has at most one marker: with gaps, the lines before the first gap and the lines after
    the last gap are shown. Without gaps, error lines between the start and the end are shown too.

    A line stands for the raw bytes and the line feeds of the output after the end of the line before, up to its own end. So
    the shown and the omitted parts together are the whole.

    Args:
        head: Bytes of text from the start.
        tail: Bytes of text from the end. The end may also have the bytes that the head has not used.
        excerpts: Bytes of the tail that may go to error lines between the start and the end.
        max_line: Characters of a line that are kept.

    Attributes:
        count: The number of final lines, including dropped lines.
        omitted_lines: Line feeds of the output that belong to no shown line.
    """

    def __init__(self, head: int, tail: int, excerpts: int, max_line: int) -> None:
        self.count = 0
        self._excerpts_room = room = min(excerpts, tail)
        self._signals = Signals(self._marks, room=room, tail=room) if excerpts else None
        self._excerpts: list[Excerpt] = []
        self._let_go = 0  # bytes of text of the dropped lines
        # The ends of the last dropped lines: in the text, and in the output.
        self._texts, self._bytes, self._feeds = array("q", [0]), array("q", [0]), array("q", [0])
        self._room = head
        self._tail = tail
        self._most = 0  # bytes of lines that are held for the end
        self._asked = bytearray()  # text of the dropped lines that are still to be searched
        self._folds: list[
            tuple[int, int]
        ] = []  # for each run that is left out, the index of its first line, and of the next line, in `_rest`
        self._max_line = max_line
        self._head: list[_Final] = []
        self._rest: deque[_Final] = deque()
        self._rest_size = 0
        self._full = False  # whether the head takes no further lines
        self._dropped: _Final | None = None  # the last line that was dropped
        self._gaps: tuple[int, int] | None = None  # lines before the first and before the last gap
        self._gap_end = (0, 0)  # raw bytes, and line feeds, up to the end of the last gap
        self._line: str | None = None  # the line that may go on
        self._cut = 0
        self._end = 0
        self._ends = 0
        self._before = (0, 0)  # raw bytes and line feeds up to the end of the line before
        self._ended = True

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
            # A scrolled row has the place of the output at that moment. The end of the row's line, which is known later, counts.
            before, befores = self._before
            self._end, self._ends = max(before, end), max(befores, ends)

    def gap(self, end: int, ends: int) -> None:
        """Record a gap: output was skipped here, up to a place given in raw bytes and line feeds."""
        number = self.count + (self._line is not None)
        self._gaps = (number if self._gaps is None else self._gaps[0], number)
        self._gap_end = end, ends

    def finish(self, total: int, lines: int, *, ended: bool) -> None:
        """Record the end of the output, and choose the shown lines. `ended`: whether the last line has ended."""
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
        """Drop lines of the end in favour of error lines, and fold similar lines."""
        limit, room, last = self._tail, self._excerpts_room, self._dropped
        data = b"".join(line.text.encode("utf-8", "replace") + b"\n" for line in self._rest)
        shown = condense(data, limit, prefixes=False)
        moved: list[_Final] = []

        def most(size: int) -> list[int]:
            """Return a number for each line of the end that fits: 1, or minus the number of lines in a folded run."""
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
        """Whether all omitted lines were searched for error lines."""
        return self._signals is None or self._signals.searched

    @property
    def excerpts(self) -> tuple[tuple[int, int], ...]:
        """The ranges of the shown error lines between the start and the end, counted as in `ranges`."""
        places = [(each.marks[0][1], each.marks[-1][1]) for each in self._excerpts]
        return tuple((first + 1, max(first + 1, last)) for first, last in places)

    @property
    def begun(self) -> str | None:
        """The line of the last added row, which may go on; ``None`` for no such line."""
        return self._line

    def since(self, number: int) -> tuple[int, list[str]]:
        """Return the number of the first kept line from a number on, and the texts of that line and of all later lines."""
        lines = [*self._rest] if self._dropped is not None else [*self._head, *self._rest]
        first = min(max(number, self.count - len(lines)), self.count)
        return first, [line.text for line in lines[len(lines) - (self.count - first) :]]

    @property
    def incomplete(self) -> bool:
        """Whether anything is left out."""
        return bool(self._dropped or self._gaps or self._folds) or self.cut_lines > 0

    @property
    def cut_lines(self) -> int:
        """Shown lines that end with a note on a cut."""
        before, _, after = self._shown()
        return sum(line.cut > 0 for line in (*before, *self._unfolded(after)))

    @property
    def omitted_lines(self) -> int:
        """Line feeds of the omitted parts between the shown lines."""
        before, missing, _ = self._shown()
        shown = sum(each.marks[-1][1] - each.marks[0][1] for each in self._excerpts)
        between = 0 if missing is None else max(missing[1] - (before[-1].ends if before else 0) - shown, 0)
        return between + sum(feeds for feeds, _ in self._folded)

    @property
    def omitted_bytes(self) -> int:
        """Bytes left out: raw bytes between the shown lines, and bytes cut off lines."""
        before, _, after = self._shown()
        return self._between + sum(line.cut for line in (*before, *self._unfolded(after)))

    def ranges(self, total: int) -> tuple[tuple[int, int] | None, tuple[int, int] | None]:
        """Return the ranges of lines before and after the omitted part, counted by line feeds; the output has `total`."""
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
        # An omitted line may have no raw bytes of its own.
        least = 0 if self._dropped is None and self._gaps is None else 1
        return max(between + sum(size for _, size in self._folded), least)

    @property
    def _folded(self) -> list[tuple[int, int]]:
        """The line feeds and the raw bytes of each omitted run of similar lines."""
        rest = self._rest
        last = self._dropped or (self._head[-1] if self._head else _Final("", 0, 0, 0, 0))
        starts = [rest[start - 1] if start else last for start, _ in self._folds]
        ends = [rest[end - 1] for _, end in self._folds]
        return [
            (one.ends - before.ends, one.end - before.end) for before, one in zip(starts, ends, strict=True)
        ]

    def _unfolded(self, after: Sequence[_Final]) -> list[_Final]:
        """Return the lines of the end without the omitted runs."""
        hidden = {number for fold in self._folds for number in range(*fold)}
        return [line for number, line in enumerate(after) if number not in hidden]

    def _shown(self) -> tuple[list[_Final], tuple[int, int] | None, list[_Final]]:
        """Return the lines before the omitted part; the raw bytes and line feeds up to its end; and the lines after."""
        dropped = None if self._dropped is None else (self._dropped.end, self._dropped.ends)
        before, after = self._head, [*self._rest]
        if dropped is None and self._folds:
            dropped = (before[-1].end, before[-1].ends) if before else (0, 0)
        if self._gaps is None:
            return before, dropped, after
        first, last = self._gaps
        # The head may have lines after the last gap. These are shown, unless lines between the head and the tail were dropped.
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
        """Return the shown text, with a marker if lines are left out; `note` makes the marker from lines and bytes."""
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
            # More lines are held than fit, since similar lines may be folded.
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
        """Search the dropped lines for error lines."""
        signals.feed(bytes(self._asked))
        self._asked.clear()
        if len(self._texts) > _TRIMMED:
            # Lines that the signals no longer hold need no place: their excerpts have marks already, or are not kept.
            gone = bisect_right(self._texts, signals.start) - 1
            del self._texts[:gone], self._bytes[:gone], self._feeds[:gone]

    def _marks(self, start: int, end: int) -> tuple[Mark, ...]:
        first, last = bisect_left(self._texts, start), bisect_left(self._texts, end)
        return tuple(zip(self._bytes[first : last + 1], self._feeds[first : last + 1], strict=True))
