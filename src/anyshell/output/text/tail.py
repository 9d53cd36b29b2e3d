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
    """Holds the last bytes of what is appended, without copying chunks that are not themselves too long.

    Args:
        capacity: Bytes that are held, if there were so many. What stays in memory is more: up to one chunk,
            but never in proportion to the stream.

    Attributes:
        total: Bytes appended so far.
        page: The code page of its text at the end; ``None`` when all is UTF-8.
        utf8: Bytes before text of the page, if there is any.
    """

    def __init__(self, capacity: int) -> None:
        self.total = 0
        self._capacity = capacity
        self._chunks: deque[bytes] = deque()
        self._held = 0
        self.page: Page | None = None
        self.utf8 = 0

    def turn(self, page: Page, after: int = 0) -> None:
        """Take what is appended for text of a page from now on, or after so many more bytes."""
        self.page = page
        self.utf8 = self.total + after

    def append(self, data: bytes) -> None:
        """Add a chunk, and let go of what is no longer among the last bytes."""
        size = len(data)
        self.total += size
        if size > 4 * self._capacity + 64 * 1024:  # so large that holding all of it would be felt
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
        """The last `size` bytes, of at most `capacity`, or all there were."""
        data = b"".join(self._chunks)
        return data[max(0, len(data) - size) :]

    def text(self, limit: int, max_line: int) -> tuple[BoundedText, int]:
        """The end of the stream as text of at most `limit` bytes, and how many raw bytes that shows.

        It starts with a line, where that leaves half of the room or more; otherwise with a whole character, and never with
        the remains of a sequence. A line whose start is missing shows its last characters if it is too long, since
        what went wrong is said at the end.
        """
        held = self._end(limit + LONGEST_SEQUENCE)
        data = held.to_utf8()
        start = max(0, len(data) - limit)
        while True:
            start = _fragment(data, start, max_line)
            if _render(data, start, max_line).size <= limit:
                break
            # Bytes that are no UTF-8 become characters of three bytes.
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
        """Whether a line begins with the last `size` bytes, which are fewer than all. Unknown in a code page: then it is said to."""
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
    """The first place after `low`, which does not fit, and up to `high`, which does, that fits."""
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle):
            high = middle
        else:
            low = middle
    return high


def _fragment(data: bytes, start: int, max_line: int) -> int:
    """The start to use instead, so that of a line whose beginning is missing no more than its end is shown."""
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
    """The first byte from `start` on that is not inside a character or sequence begun before it."""
    for _ in range(3):
        if start < len(data) and data[start] & 0xC0 == 0x80:
            start += 1
    known = max(0, start - LONGEST_SEQUENCE)
    begun = unfinished(data[known:start])
    sequence = leading_sequence(data[start - begun : start + LONGEST_SEQUENCE])
    return max(start, start - begun + sequence) if begun else start
