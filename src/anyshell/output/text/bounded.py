"""Cleaned text with a limit on its bytes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..sequences import INTRODUCER, in_text
from .decode import Stretch, has_edits, strip, strip_to_edits
from .lines import EditedLine, State

if TYPE_CHECKING:
    from .pages import Page

SLICE = 64 * 1024
"""Bytes that are cleaned at once."""

_Saved = tuple[int, int, int, int, int, State, int, bool, bytes, int]

_ERASES_END = re.compile(in_text(INTRODUCER) + "0*2?K")


class BoundedText:
    """Text made from raw bytes, with a limit on the bytes of the text and on the characters of a line.

    The cut depends on the bytes alone, not on the pieces that the bytes come in. The cut is at the first byte with which the
    text, or a line, is too long, even if a later CR or BS would shorten the line. From the cut to the next CR or LF, the
    bytes of a long line are only counted.

    Args:
        limit: Bytes of UTF-8 that the text may have, without the notes on cut lines; ``None`` means no limit.
        max_line: Characters of a line that are kept; at least 1.

    Attributes:
        limit: As above; may be raised.
        lines: Line feeds of the text.
    """

    def __init__(self, limit: int | None, max_line: int) -> None:
        self.limit = limit
        self._finished = 0  # bytes of the lines that end with an LF
        self.lines = 0
        self._max_line = max_line
        self._parts: list[str] = []
        self._finished_cut_lines = 0
        self._finished_cut_bytes = 0
        self._begin_line()
        self._carry = b""
        self._line_too_long = False
        self._position = 0  # bytes that were taken, including `_carry`
        self._page: Page | None = None
        self._turn = 0  # the position at which text of the page begins

    def _begin_line(self) -> None:
        self._line = EditedLine()
        self._cut = 0  # raw bytes left out of this line
        self._skipping = False  # inside an omitted part

    @property
    def size(self) -> int:
        """Bytes of the text, without the notes."""
        return self._finished + _size(self._line.text)

    @property
    def cut_lines(self) -> int:
        """Lines that end with a note, because the line had more than `max_line` characters."""
        return self._finished_cut_lines + (self._cut > 0)

    @property
    def cut_bytes(self) -> int:
        """Raw bytes that cut lines leave out."""
        return self._finished_cut_bytes + self._cut

    def text(self) -> str:
        """Return the text so far, including a last line without an LF."""
        note = cut_note(self._cut) if self._cut else ""
        return "".join(self._parts) + self._line.text + note

    def turn(self, page: Page, after: int = 0) -> None:
        """Treat fed bytes as text of a code page from now on, or after `after` more bytes. Only the first call counts."""
        if self._page is None:
            self._page = page
            self._turn = self._position + after

    def feed(self, data: bytes) -> int:
        """Take the bytes that fit, and return the number of these bytes."""
        start = self._position
        taken = self._feed(data, start)
        self._position = start + taken
        return taken

    def _feed(self, data: bytes, start: int) -> int:
        at = 0
        size = SLICE if self.limit is None else max(64, min(self.limit - self.size, SLICE))
        found = False
        while at < len(data):
            if self._skipping:
                at = self._skip(data, at)
                if at == len(data):
                    break
                if data[at] == 0x0D:
                    self._skipping = False
                    self._line.feed("\r")
                elif not self._end_line():
                    return at
                at += 1
                continue
            self._position = start + at
            saved = self.save()
            piece = data[at : at + size]
            if self._try(piece):
                at += len(piece)
                size = max(1, size // 2) if found else min(2 * size, SLICE)
                continue
            line_too_long = self._line_too_long
            self.restore(saved)
            found = True
            if len(piece) > 1:
                size = len(piece) // 2
                continue
            if not line_too_long:
                return at
            self._cut_here()
            found, size = False, 64
        return at

    def flush(self) -> None:
        """Take the held bytes as text: no bytes will come that finish the held character or sequence."""
        carry, self._carry = self._carry, b""
        saved = self.save()
        if carry and not self._add(strip_to_edits(self._stretch(carry, self._position).to_utf8())):
            self.restore(saved)
            self._carry = carry
            self._cut_here()

    def give_back(self) -> bytes:
        """Give back the bytes of an unfinished character or sequence, which were taken and are not text yet."""
        carry, self._carry = self._carry, b""
        self._position -= len(carry)
        return carry

    def coming(self) -> tuple[Page, int] | None:
        """Return the code page, and the number of next bytes before text of the page; ``None`` without a page."""
        return None if self._page is None else (self._page, max(0, self._turn - self._position))

    def save(self) -> _Saved:
        """Return the state that `restore` needs to undo later changes."""
        return (
            len(self._parts),
            self._finished,
            self.lines,
            self._finished_cut_lines,
            self._finished_cut_bytes,
            self._line.save(),
            self._cut,
            self._skipping,
            self._carry,
            self._position,
        )

    def restore(self, state: _Saved) -> None:
        """Return the text to the state of a `save`."""
        (
            parts,
            self._finished,
            self.lines,
            self._finished_cut_lines,
            self._finished_cut_bytes,
            line,
            self._cut,
            self._skipping,
            self._carry,
            self._position,
        ) = state
        del self._parts[parts:]
        self._line.restore(line)

    def _skip(self, data: bytes, at: int) -> int:
        end = data.find(b"\n", at)
        end = len(data) if end < 0 else end
        back = data.find(b"\r", at, end)
        end = end if back < 0 else back
        self._cut += end - at
        return end

    def _cut_here(self) -> None:
        carry, self._carry = self._carry, b""
        # The held bytes do not fit into the line: show the bytes that fit.
        held = self._stretch(carry, self._position)
        shown = strip(held.to_utf8()).partition("\b")[0][: max(0, self._max_line - self._line.length)]
        self._cut += len(carry)
        saved = self._line.save()
        if not self._print(shown):
            self._line.restore(saved)
        elif self._page is not None and held.utf8 <= 0:
            self._cut -= self._page.size(shown)
        else:
            self._cut -= _size(shown) - 2 * shown.count("\ufffd")  # U+FFFD is 3 bytes for 1, mostly
        self._skipping = True

    def _try(self, piece: bytes) -> bool:
        self._line_too_long = False
        held = self._stretch(self._carry + piece, self._position + len(piece))
        whole = len(held.data) - held.unfinished()
        self._carry = held.data[whole:]
        return self._add(strip_to_edits(held.part(0, whole).to_utf8()))

    def _stretch(self, data: bytes, end: int) -> Stretch:
        """Return the stretch of bytes that ends at a position."""
        if self._page is None:
            return Stretch(data)
        return Stretch(data, self._page, self._turn - (end - len(data)))

    def _add(self, text: str) -> bool:
        """Add text, and return whether the text fits. Otherwise the state is undefined: the caller restores it."""
        if "\r" in text:
            text = text.replace("\r\n", "\n")
        lines = text.split("\n")
        last = lines.pop()
        if has_edits(text):
            for line in lines:
                if not (self._print(line) and self._end_line()):
                    return False
            return self._print(last)
        if lines and not (self._print(lines[0]) and self._end_line()):
            return False
        del lines[:1]
        return (not lines or self._add_lines(lines)) and self._print(last)

    def _add_lines(self, lines: list[str]) -> bool:
        text = "\n".join(lines)
        size = _size(text) + 1
        if self.limit is not None and self._finished + size > self.limit:
            # A second try with fewer bytes shows which comes first, the long line or the limit.
            self._line_too_long = False
            return False
        if max(map(len, lines)) > self._max_line:
            self._line_too_long = True
            return False
        self._parts += (text, "\n")
        self._finished += size
        self.lines += len(lines)
        return True

    def _print(self, text: str) -> bool:
        if not text:
            return True
        if self._cut and _ERASES_END.search(text):
            self._cut = 0
        line = self._line
        excess = line.feed(text, self._max_line, None if self.limit is None else self.limit - self._finished)
        self._line_too_long = excess == "line"
        return excess is None

    def _end_line(self) -> bool:
        text = self._line.text
        size = _size(text) + 1
        if self.limit is not None and self._finished + size > self.limit:
            return False
        self._finished += size
        self.lines += 1
        self._finished_cut_bytes += self._cut
        if self._cut:
            self._finished_cut_lines += 1
            text += cut_note(self._cut)
        self._parts += (text, "\n")
        self._begin_line()
        return True


def cut_note(size: int) -> str:
    """Return the note at the end of a cut line."""
    return f" [line cut: {size:,} more {'byte' if size == 1 else 'bytes'}]"


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())
