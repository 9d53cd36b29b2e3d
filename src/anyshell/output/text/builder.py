"""The builder of a command's output in bounded memory: the start and the end as text, and counts of the whole."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ..._types import Output
from ..sequences import LONGEST_SEQUENCE
from .binary import LOOKED_AT, kind_of
from .bounded import BoundedText
from .decode import is_plain
from .images import Images
from .keeper import Keeper
from .pages import Page, Recognizer
from .sections import GAP, Sections, marker
from .tail import Tail

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .condense import Condensed, Line
    from .images import Segment
    from .keeper import OutputStore
    from .signals import Excerpt, Signals

COALESCE = 16 * 1024
"""Bytes up to which smaller pieces are gathered, so that output in single bytes does not cost more per byte."""

CONDENSED = 128 * 1024
"""Bytes of the end that are held, if more than are shown, since lines of the end may be shortened."""

LEAST_LINE = 160
"""Characters of the limit on a line, at least, for lines to be shortened: the note about omitted lines needs the room."""

_SHORT_OF_FULL = 3
"""Bytes by which a tail may exceed its limit in a whole output: a character that does not fit leaves as many of the head unused."""

_NOTHING = Output()

_NOT_LOADED = ImportError, OSError
"""Errors of importing the search for error lines, as without a free descriptor: then no lines are searched for."""


class Builder(Protocol):
    """A builder takes raw output in pieces and returns one `Output`, as `OutputBuilder` and `TerminalOutput` do."""

    def feed(self, data: bytes, /) -> None:
        """Take the next bytes. Never raises, whatever the bytes are."""

    def finish(self) -> Output:
        """Return the output so far. No `feed` may follow; a second call returns the same output."""

    def close(self) -> None:
        """Remove the files of the output, unless `finish` has returned the output."""


class OutputBuilder:
    """The builder of the output of pipes: takes raw output in pieces, and returns one `Output`.

    The start is cleaned while it comes, so a line that rewrites itself takes room once. When the head is full, the rest
    goes through a raw ring buffer, of which only the end is ever decoded.

    Args:
        head: Bytes of text kept from the start; 0 or more.
        tail: Bytes of text kept from the end; 0 or more. Head and tail together are the limit: output within the limit is
            shown whole.
        excerpts: Bytes of the tail that may go to error lines between the start and the end; 0 searches for no such lines.
        max_line: Characters of a line that are kept; at least 1. The note on a cut line is not counted.
        keep_from: Bytes from which the raw whole is kept even if nothing is left out; ``None`` for no such number.
        artifacts: The store for the raw whole, used if anything is left out. A write that fails stops nothing.
        name_path: Whether the marker names the file of the whole, for readers that can open the file; otherwise the marker
            names the artifact.
        code_page: The number of the host's code page, for bytes that are not UTF-8; without a code page, invalid bytes
            become U+FFFD.
        utf8_bytes: The number of first bytes that are UTF-8 on a host with a code page, if known.
    """

    def __init__(
        self,
        *,
        head: int = 20 * 1024,
        tail: int = 30 * 1024,
        excerpts: int = 0,
        max_line: int = 2_000,
        keep_from: int | None = None,
        artifacts: OutputStore | None = None,
        name_path: bool = True,
        code_page: int | None = None,
        utf8_bytes: int | None = None,
    ) -> None:
        self._head_limit = head
        self._tail_limit = tail
        self._excerpts_limit = min(excerpts, tail)
        self._max_line = max_line
        self._keep_from = float("inf") if keep_from is None else keep_from
        self._name_path = name_path
        self._gathered = bytearray()
        self._beginning = b""
        self._total = 0
        self._nuls = 0
        self._lines = 0
        self._head: BoundedText | None = None
        self._tail: Tail | None = None
        self._signals: Signals | None = None
        self._next = b""  # first bytes after the head: the end may leave room for these bytes
        self._page = Page.of(code_page)
        self._recognizer = None if self._page is None else Recognizer(utf8_bytes)
        self._artifacts = artifacts
        self._output: Output | None = None

    @cached_property
    def _keeper(self) -> Keeper:  # made at first use, like _images: most outputs are short and need neither
        return Keeper(self._artifacts, self._head_limit + self._tail_limit)

    @cached_property
    def _images(self) -> Images:
        return Images(self._artifacts)

    def feed(self, data: bytes) -> None:
        """Take the next bytes. Never raises, whatever the bytes are."""
        gathered = self._gathered
        if len(data) >= COALESCE:
            if gathered:
                self._take_gathered()
            self._take(data)
            return
        gathered += data
        if len(gathered) >= COALESCE:
            self._take_gathered()

    def finish(self) -> Output:
        """Return the output so far. No `feed` may follow; a second call returns the same output."""
        if self._output is None:
            self._output = self._short() or replace(self._build(), binary=kind_of(self._beginning))
        return self._output

    def close(self) -> None:
        """Remove the files of the output, unless `finish` has returned the output."""
        if self._output is None and "_keeper" in self.__dict__:
            self._keeper.discard()
            self._images.discard()

    def _take_gathered(self) -> None:
        data = bytes(self._gathered)
        self._gathered.clear()
        self._take(data)

    def _take(self, data: bytes) -> None:
        if len(self._beginning) < LOOKED_AT:
            self._beginning += data[:LOOKED_AT]
        self._total += len(data)
        if b"\0" in data:  # the test for a NUL is twenty times as fast as the count
            self._nuls += data.count(b"\0")
        feeds = data.count(b"\n")
        self._lines += feeds
        self._keeper.write(data)
        self._take_parts(self._images.feed(data), data, feeds)

    def _take_parts(self, parts: Iterable[Segment], whole: bytes = b"", feeds: int = 0) -> None:
        """Take parts of the output; for a part that is `whole`, `feeds` gives the number of line feeds."""
        for part in parts:
            if self._recognizer is None:
                self._put(part.data, feeds if part.data is whole else None)
            else:
                self._put_both(*self._recognizer.feed(part.data))

    def _put_both(self, utf8: bytes, other: bytes) -> None:
        self._put(utf8)
        if other:
            self._turn()
            self._put(other)

    def _turn(self) -> None:
        """Treat the following bytes as text of the code page."""
        assert self._page is not None
        assert self._head is not None
        if self._tail is None:
            self._head.turn(self._page)
        elif self._tail.page is None:
            self._tail.turn(self._page)

    def _put(self, data: bytes, feeds: int | None = None) -> None:
        """Put text into the head or the tail; without `feeds`, the search counts the line feeds."""
        if self._tail is None:
            if self._head is None:
                self._head = BoundedText(self._head_limit, self._max_line)
            taken = self._head.feed(data)
            if taken == len(data):
                return
            self._tail = self._overflow(self._head)
            data, feeds = data[taken:], None
        self._tail.append(data)
        if self._signals is not None:
            try:
                self._signals.feed(data, feeds)
            except _NOT_LOADED:
                self._signals = None
            self._next += data[: self._tail_limit - len(self._next)]

    def _short(self) -> Output | None:
        """Return the output of most commands at once: no bytes, or a few plain lines. ``None`` for any other output."""
        size = len(self._gathered)
        if self._total or size >= self._keep_from:
            return None
        if not size:
            return _NOTHING
        data = bytes(self._gathered)
        if size > self._max_line or size > self._head_limit + self._tail_limit or not is_plain(data):
            return None
        return Output(text=data.decode("ascii"), total_bytes=size, total_lines=data.count(b"\n"), _held=data)

    def _build(self) -> Output:
        if self._gathered:
            self._take_gathered()
        self._take_parts(self._images.flush())
        if self._recognizer is not None:
            self._put_both(*self._recognizer.flush())
        head = self._head or BoundedText(self._head_limit, self._max_line)
        tail = self._tail or self._overflow(head)
        if tail.total <= self._tail_limit + _SHORT_OF_FULL:
            saved = head.save()
            head.limit = None
            if tail.page is not None:
                head.turn(tail.page, tail.utf8)
            head.feed(tail.last(tail.total))
            head.flush()
            if head.size <= self._head_limit + self._tail_limit:
                return self._whole(head)
            head.restore(saved)
        return self._truncated(head, tail)

    def _overflow(self, head: BoundedText) -> Tail:
        held = self._tail_limit + LONGEST_SEQUENCE
        tail = Tail(max(held, CONDENSED) if self._excerpts_limit else held)
        carry = head.give_back()
        if (coming := head.coming()) is not None:
            tail.turn(*coming)
        tail.append(carry)
        if self._excerpts_limit:
            with suppress(*_NOT_LOADED):
                from .signals import Signals  # imported here and below, since few outputs are so long

                self._signals = Signals(room=self._excerpts_limit, tail=max(held, CONDENSED))
                self._signals.feed(carry)
                self._next = carry
        return tail

    def _whole(self, text: BoundedText) -> Output:
        images = self._images
        needed = text.cut_bytes > 0 or images.size > 0 or self._total >= self._keep_from
        whole = self._keeper.finish(self._total, self._lines, needed=needed)
        return replace(
            whole,
            text=text.text(),
            omitted_bytes=text.cut_bytes + images.size,
            cut_lines=text.cut_lines,
            images=tuple(images.found),
            nul_bytes=self._nuls,
        )

    def _truncated(self, head: BoundedText, tail: Tail) -> Output:
        whole = self._keeper.finish(self._total, self._lines, needed=True)
        end, sections = self._end(tail)
        between = tail.total - end.size
        feeds = self._lines - head.lines - end.lines
        before, after = head.text(), end.text.text()
        shortened = sum(section.hidden for section in sections)
        size = between + end.hidden + shortened - sum(len(each.data) for each, _, _ in sections)
        lines = feeds + end.similar - sum(text.lines for _, text, _ in sections)
        searched = self._signals is None or self._signals.searched
        alone = not sections and not end.hidden
        parts = [(0, before), *((each.lines + text.lines, text.text()) for each, text, _ in sections)]
        # Where only the middle of a line is left out, the start of that line is shown before the marker.
        apart = feeds > parts[-1][0] or not parts[-1][1] or parts[-1][1].endswith("\n")
        within = apart and 0 < end.size < tail.total and not tail.begins_line(end.size)
        notice = marker(
            whole,
            lines,
            size,
            name_path=self._name_path,
            searched=searched,
            within=within and alone,
            prefix=end.prefix,
        )
        ranges = [_range(head.lines, each, shown.lines) for each, shown, _ in sections]
        shown_last = head.lines + (not before.endswith("\n"))
        if before and sections and not sections[0].excerpt.start:
            shown_last = ranges.pop(0)[1]
        seam, last = head.lines + feeds + 1, self._lines + (not after.endswith("\n"))
        text = Sections(before, notice, self._lines, tail.total, alone=alone)
        for (each, _, _), (last_line, shown) in zip(sections, parts[1:], strict=True):
            text.add(each.start, each.lines, shown, each.end, last_line)
        text.add(between, feeds, after, tail.total, self._lines, within=within)
        cut = [head, end.text, *(shown for _, shown, _ in sections)]
        return replace(
            whole,
            text=text.text(),
            # Notes on images are text too, and count if left out.
            omitted_bytes=min(size + sum(each.cut_bytes for each in cut) + self._images.size, self._total),
            omitted_lines=lines,
            head_range=(1, shown_last) if before else None,
            tail_range=(seam, max(seam, last)) if after else None,
            excerpts=tuple(ranges),
            cut_lines=sum(each.cut_lines for each in cut),
            images=tuple(self._images.found),
            nul_bytes=self._nuls,
        )

    def _end(self, tail: Tail) -> tuple[_End, list[_Section]]:
        """Return the end, and the sections of the middle that matter most."""
        if self._signals is not None:
            with suppress(*_NOT_LOADED):
                return self._shown_end(tail, self._signals)
        return self._last(tail, self._tail_limit, None), []

    def _shown_end(self, tail: Tail, signals: Signals) -> tuple[_End, list[_Section]]:
        limit = self._tail_limit
        from .condense import condense
        from .signals import chosen

        # Lines of a code page are not shortened: a line feed may be half of a character there.
        shortens = tail.page is None and self._max_line >= LEAST_LINE
        held = tail.last(max(limit, CONDENSED)) if shortens else b""
        condensed = condense(held if len(held) == tail.total else held[held.find(b"\n") + 1 :], limit)
        room = self._excerpts_limit
        least = self._last(tail, limit - room, condensed)
        if condensed is not None and least.size >= condensed.size:
            room = max(room, limit - least.text.size)  # the room that shortened lines leave
        between = tail.total - least.size
        found = signals.finish(between)
        excerpts = chosen(found, between, room, GAP)
        sections = [self._section(each, tail, condensed) for each in excerpts]
        raw, shown = sum(len(each.data) for each in excerpts), sum(each.text.size for each in sections)
        if shown < raw:
            # Colours and omitted prefixes take no room, and so more lines fit.
            excerpts = chosen(found, between, room * raw // max(1, shown), GAP)
            sections = [self._section(each, tail, condensed) for each in excerpts]
        used = 0
        kept: set[int] = set()
        for place in sorted(range(len(sections)), key=lambda place: -excerpts[place].score):
            # Bytes that are not UTF-8 become characters of three bytes.
            size = sections[place].text.size + GAP
            if used + size <= room:
                used += size
                kept.add(place)
        end = self._last(tail, limit - used, condensed)
        between = tail.total - end.size
        # The end gets the room that the middle leaves, and may now include some of the sections.
        sections = [
            section
            if section.excerpt.end <= between
            else self._section(section.excerpt.first(between - section.excerpt.start), tail, condensed)
            for place, section in enumerate(sections)
            if place in kept and section.excerpt.start < between
        ]
        if condensed is not None and end.size >= condensed.size:
            sections = self._filled(sections, between, limit - used - end.text.size)
        hidden = end.hidden + sum(section.hidden for section in sections)
        if sum(len(section.excerpt.data) for section in sections) == between and not hidden:
            sections = []  # the sections show the whole middle: nothing is left out
        if condensed is not None and any(section.hidden for section in sections):
            end = end._replace(prefix=condensed.prefix)
        return end, sections

    def _filled(self, sections: Sequence[_Section], between: int, room: int) -> list[_Section]:
        """Return the sections, with as many lines after the head as the room allows."""
        from .signals import Excerpt

        filled: list[_Section] = []
        at = 0
        for start, end in (
            *((each.excerpt.start, each.excerpt.end) for each in sections),
            (between, between),
        ):
            data = self._next[at : min(start, at + max(0, room))]
            if at + len(data) < start:
                data = data[: data.rfind(b"\n") + 1]
            if data:
                text = BoundedText(None, self._max_line)
                text.feed(data)
                text.flush()
                if text.size > room:
                    break  # the text has grown: an invalid byte becomes a character of three bytes
                filled.append(_Section(Excerpt(at, self._next.count(b"\n", 0, at), data, 1), text, 0))
                room -= text.size
            if at + len(data) < start:
                break
            at = end
        return sorted([*sections, *filled], key=lambda each: each.excerpt.start)

    def _last(self, tail: Tail, limit: int, condensed: Condensed | None) -> _End:
        room = limit
        while condensed is not None and (lines := condensed.last(room)):
            text = BoundedText(None, self._max_line)
            text.feed(b"".join(line.data for line in lines))
            text.flush()
            if text.size <= limit:
                return _End.of(text, lines, condensed.prefix)
            room = min(room - 1, room * limit // text.size)  # invalid bytes have made the text longer
        end, shown = tail.text(limit, self._max_line)
        if shown == tail.total and end.size:
            # The whole did not fit, since the line across the seam is longer than its halves: so the end is cut.
            end, shown = tail.text(end.size - 1, self._max_line)
        return _End(end, shown, end.lines)

    def _section(self, excerpt: Excerpt, tail: Tail, condensed: Condensed | None) -> _Section:
        text = BoundedText(None, self._max_line)
        if tail.page is not None:
            text.turn(tail.page, max(0, tail.utf8 - excerpt.start))
        data = excerpt.data if condensed is None else condensed.without(excerpt.data)
        text.feed(data)
        text.flush()
        return _Section(excerpt, text, len(excerpt.data) - len(data))


class _Section(NamedTuple):
    """Lines between the start and the end.

    Attributes:
        excerpt: The excerpt of the output that has the lines.
        text: The shown part of the lines.
        hidden: Raw bytes that are left out as the shared prefix of lines.
    """

    excerpt: Excerpt
    text: BoundedText
    hidden: int


class _End(NamedTuple):
    """The end of an output.

    Attributes:
        text: The shown part of the end.
        size, lines: Raw bytes and line feeds of the end.
        hidden, similar: Raw bytes that are left out as similar lines or as prefixes; and the number of similar lines left out.
        prefix: The omitted prefix of the last line.
    """

    text: BoundedText
    size: int
    lines: int
    hidden: int = 0
    similar: int = 0
    prefix: bytes = b""

    @classmethod
    def of(cls, text: BoundedText, lines: Sequence[Line], prefix: bytes) -> _End:
        """Return the end that consists of lines, with the counts of their raw bytes."""
        return cls(
            text,
            sum(line.size for line in lines),
            sum(line.feeds for line in lines),
            sum(line.size - (0 if line.similar else len(line.data)) for line in lines),
            sum(line.similar for line in lines),
            prefix,
        )


def _range(before: int, excerpt: Excerpt, feeds: int) -> tuple[int, int]:
    first = before + excerpt.lines + 1
    return first, max(first, first + feeds - excerpt.data.endswith(b"\n"))
