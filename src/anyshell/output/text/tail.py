"""The last bytes of a stream."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from ..sequences import LONGEST_SEQUENCE
from .bounded import BoundedText
from .decode import Stretch, edit, leading_sequence, strip_to_edits, unfinished

if TYPE_CHECKING:
    from collections.abc import Callable

    from .pages import Page


class Tail:
    """The last bytes of a stream, held without copying chunks that are not too long themselves.

    Args:
        capacity: Bytes that are held, if the stream has as many. Up to one chunk more stays in memory, but never memory in
            proportion to the stream.

    Attributes:
        total: Bytes appended so far.
        page: The code page of the text at the end; ``None`` when all text is UTF-8.
        utf8: Bytes of the stream before text of the page, if there is a page.
    """

    def __init__(self, capacity: int) -> None:
        self.total = 0
        self._capacity = capacity
        self._chunks: deque[bytes] = deque()
        self._held = 0
        self.page: Page | None = None
        self.utf8 = 0

    def turn(self, page: Page, after: int = 0) -> None:
        """Treat appended bytes as text of a code page from now on, or after `after` more bytes."""
        self.page = page
        self.utf8 = self.total + after

    def append(self, data: bytes) -> None:
        """Add a chunk, and drop chunks that are no longer among the last bytes."""
        size = len(data)
        self.total += size
        if size > 4 * self._capacity + 64 * 1024:  # too large to hold the whole chunk
            data = data[size - self._capacity :]
            size = len(data)
        chunks = self._chunks
        chunks.append(data)
        self._held += size
        spare = self._held - self._capacity
        while spare >= len(chunks[0]) and len(chunks) > 1:
            gone = len(chunks.popleft())
            self._held -= gone
            spare -= gone

    def last(self, size: int) -> bytes:
        """Return the last `size` bytes, at most `capacity`; all bytes of a shorter stream."""
        data = b"".join(self._chunks)
        return data[max(0, len(data) - size) :]

    def text(self, limit: int, max_line: int) -> tuple[BoundedText, int]:
        """Return the end of the stream as text of at most `limit` bytes, and the number of raw bytes that the text shows.

        The text starts at the start of a line, if the text then still fills half of the limit. Otherwise the text starts with
        a whole character, and never with the rest of a sequence. A line that is too long and lacks its start shows its last
        characters, since an error tends to stand at the end of a line.
        """
        held = self._end(limit + LONGEST_SEQUENCE)
        data = held.to_utf8()
        start = max(0, len(data) - limit)
        while True:
            start = _fragment(data, start, max_line)
            if _render(data, start, max_line).size <= limit:
                break
            # Bytes that are not UTF-8 become characters of three bytes: the text may exceed the limit.
            start = _first(start, len(data), lambda at: _render(data, at, max_line).size <= limit)
        line = data.find(b"\n", start) + 1
        if not _begins_line(data, start) and line and 2 * (len(data) - line) >= limit:
            start = line
        shown = held.part(held.offset(data, _visible(data, start)))
        text = BoundedText(None, max_line)
        if shown.page is not None:
            text.turn(shown.page, max(0, shown.utf8))
        text.feed(shown.data)
        text.flush()
        return text, len(shown.data)

    def begins_line(self, size: int) -> bool:
        """Whether a line begins at the last `size` bytes, which are not all bytes. In a code page, which hides line starts: true."""
        data = self.last(size + 1)
        return self.page is not None or (len(data) > size and _begins_line(data, 1))

    def _end(self, size: int) -> Stretch:
        data = self.last(size)
        before = self.total - len(data)
        if self.page is None:
            return Stretch(data)
        held = Stretch(data, self.page, self.utf8 - before)
        return held if held.utf8 >= 0 else held.part(self.page.start(data, LONGEST_SEQUENCE))


def _first(low: int, high: int, fits: Callable[[int], bool]) -> int:
    """Return the first place that fits, after `low`, which does not fit, and up to `high`, which fits."""
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle):
            high = middle
        else:
            low = middle
    return high


def _fragment(data: bytes, start: int, max_line: int) -> int:
    """Return a start from which a line without its beginning shows at most its last `max_line` characters."""
    if start > 0 and _begins_line(data, start):
        return start
    end = data.find(b"\n", start)
    line = data if end < 0 else data[:end]

    def fits(at: int) -> bool:
        return len(line) - at <= max_line or len(edit(strip_to_edits(line[_visible(line, at) :]))) <= max_line

    return start if fits(start) else _first(start, len(line), fits)


def _begins_line(data: bytes, at: int) -> bool:
    return not at or data[at - 1] in b"\r\n"


def _render(data: bytes, start: int, max_line: int) -> BoundedText:
    text = BoundedText(None, max_line)
    text.feed(data[_visible(data, start) :])
    text.flush()
    return text


def _visible(data: bytes, start: int) -> int:
    """Return the first byte from `start` on that is not inside a character or sequence that begins before `start`."""
    for _ in range(3):
        if start < len(data) and data[start] & 0xC0 == 0x80:
            start += 1
    known = max(0, start - LONGEST_SEQUENCE)
    begun = unfinished(data[known:start])
    sequence = leading_sequence(data[start - begun : start + LONGEST_SEQUENCE])
    return max(start, start - begun + sequence) if begun else start
