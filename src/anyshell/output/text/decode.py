r"""The decoding of raw output into text.

The rule, in full (sequences as in ECMA-48, 5th edition, 5.3 to 5.6):

- Bytes are UTF-8; an invalid byte becomes U+FFFD. On a host with a code page, bytes that are not UTF-8 are text of the code
  page, as `pages` says; the rest of the rule then applies to the same text in UTF-8.
- LF ends a line, and any sequence that was begun on the line.
- CR goes back to the start of the line, BS and ``CSI n D`` go back by columns, ``CSI n G`` and CSI n \`
  go back to a column. Later text overwrites column by column, as on a terminal: a progress bar which rewrites its
  line collapses to its last state. Going back erases nothing, and so a CR before LF belongs to the line's end.
- ``CSI K`` erases: from the cursor to the end (0 or nothing), from the start to the cursor (1), or all (2).
- A wide character has two columns; a combining character is drawn over the character before it. On a line that was
  overwritten or erased, tabs are blanks up to the next eighth column, and blanks at the end are left out. On any other line
  TAB is kept.
- Every other control (C0, DEL, C1) is removed.
- All other escape sequences are removed: ``ESC [`` (CSI) with its parameters up to its final byte; control strings
  (``ESC`` and one of ``] P X ^ _``: OSC, DCS, SOS, PM, APC) up to ST or BEL; ``ESC``, intermediates and a
  final byte, such as ``ESC ( B``. The C1 forms, U+0080 to U+009F, count as the ``ESC`` forms do.
- An unfinished sequence hides nothing. A control string ends at ST or BEL, or unfinished at CAN, SUB, CR, LF, another ESC
  or C1 control, or after 4 KiB. An escape sequence ends unfinished at the first byte that cannot be part of the sequence, or
  when the sequence is too long. Of an unfinished sequence only the introducer is removed (of a CSI only its ``ESC``), and
  the rest is shown.

All functions here take time in proportion to their input, whatever the input is.
"""

from __future__ import annotations

import codecs
import re
from typing import TYPE_CHECKING, NamedTuple

from ..sequences import (
    CSI,
    DIGITS,
    INTERMEDIATES,
    LONGEST_SEQUENCE,
    STRING,
    sequence,
)
from .lines import EditedLine
from .pages import Recoder, Recognizer

if TYPE_CHECKING:
    from .pages import Page

LONGEST_LINE = 64 * 1024
"""Bytes of a line in a stream by lines; a longer line comes in pieces."""

_SEQUENCE = re.compile(sequence())
_SEQUENCE_BUT_EDITS = re.compile(sequence(unless=DIGITS + rb"[DGK`]"))
_UNFINISHED = re.compile(
    rb"(?:" + CSI + rb"|" + STRING + rb"\x1b?"
    rb"|\x1b" + INTERMEDIATES + rb"|"
    rb"[\xc2-\xdf]|[\xe0-\xef][\x80-\xbf]?|[\xf0-\xf4][\x80-\xbf]{0,2}"
    rb")\Z"
)
_CONTROLS = bytes([*range(0x09), *range(0x0B, 0x20), 0x7F])  # all C0 but TAB and LF, and DEL
_REMOVED = _CONTROLS.replace(b"\b", b"").replace(b"\r", b"")
_REMOVED_TO_NUL = bytes.maketrans(_REMOVED, bytes(len(_REMOVED)))
_REMOVED_BUT_ESC_TO_NUL = bytes.maketrans(_REMOVED.replace(b"\x1b", b""), bytes(len(_REMOVED) - 1))


class OutputLine(NamedTuple):
    """A line of output, or a piece of one.

    Attributes:
        text: The cleaned text, without the line feed.
        data: The raw bytes, with the line feed. The raw bytes of all lines together are the input.
        complete: False for a piece of a line that is too long to be held, and for a last line without LF.
    """

    text: str
    data: bytes
    complete: bool = True


class Stretch(NamedTuple):
    """A stretch of raw output, which may begin as UTF-8 and go on as text of a code page.

    Attributes:
        data: The bytes of the stretch.
        page: The code page; ``None`` when all bytes are UTF-8, valid or not.
        utf8: The number of bytes before text of the page, which may be beyond the end; less than 0 when text of the page
            began before the stretch.
    """

    data: bytes
    page: Page | None = None
    utf8: int = 0

    def part(self, start: int, end: int | None = None) -> Stretch:
        """Return the part between two places, neither of which is inside a character."""
        return Stretch(self.data[start:end], self.page, self.utf8 - start)

    def to_utf8(self) -> bytes:
        """Return the whole stretch as UTF-8."""
        if self.page is None or self.utf8 >= len(self.data):
            return self.data
        end = max(0, self.utf8)
        return self.data[:end] + self.page.decode(self.data[end:]).encode()

    def offset(self, utf8: bytes, at: int) -> int:
        """Return the offset in `data` of the character at the place `at` of the stretch's UTF-8."""
        end = max(0, self.utf8)
        return at if self.page is None or at <= end else end + self.page.size(utf8[end:at].decode())

    def unfinished(self) -> int:
        """Return the number of last bytes that begin a character or a sequence whose end is still to come."""
        if self.page is None or self.utf8 >= len(self.data):
            return unfinished(self.data)
        pending = self.page.pending(self.data[max(0, self.utf8) :])
        text = self.part(0, len(self.data) - pending).to_utf8()
        begun = unfinished(text)
        return len(self.data) - self.offset(text, len(text) - begun) if begun else pending

    @property
    def text(self) -> str:
        """The cleaned text of the stretch as whole output."""
        return clean(self.to_utf8())


class TextDecoder:
    """A decoder of output in pieces, cut anywhere. Raises nothing.

    Args:
        page: The code page of text that is not UTF-8; without a code page, invalid bytes become U+FFFD.
    """

    def __init__(self, page: Page | None = None) -> None:
        self._recoder = Recoder(page)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def decode(self, data: bytes) -> str:
        """Return the text of the next bytes, up to an unfinished character."""
        return self._decoder.decode(self._recoder.feed(data))

    def flush(self) -> str:
        """Return the text of an unfinished character at the end of the output; usually empty."""
        return self._decoder.decode(self._recoder.flush(), final=True)


class LineDecoder:
    """A decoder that cuts output in pieces into cleaned lines, as soon as a line is complete.

    A line of more than 64 KiB is delivered in pieces; no piece ends inside a character or a sequence. A delivered piece stays:
    a later CR goes back only to the end of that piece. The decoder never holds more than 64 KiB, and three bytes that are
    not yet known to be UTF-8.

    Args:
        page: The code page of text that is not UTF-8; without a code page, invalid bytes become U+FFFD.
    """

    def __init__(self, page: Page | None = None) -> None:
        self._page = page
        self._recognizer = None if page is None else Recognizer()
        self._pieces: list[bytes] = []
        self._held = 0
        self._utf8: int | None = None  # held bytes before text of the page; None before any such text

    def feed(self, data: bytes) -> list[OutputLine]:
        """Take the next bytes, and return the lines that the bytes complete."""
        return self._take(data) if self._recognizer is None else self._take_both(*self._recognizer.feed(data))

    def flush(self) -> list[OutputLine]:
        """Return the last line, if it has no line feed."""
        lines = [] if self._recognizer is None else self._take_both(*self._recognizer.flush())
        rest = self._stretch()
        self._pieces, self._held = [], 0
        return [*lines, OutputLine(rest.text, rest.data, complete=False)] if rest.data else lines

    def _take_both(self, utf8: bytes, other: bytes) -> list[OutputLine]:
        lines = self._take(utf8) if utf8 else []
        if other:
            self._utf8 = self._held if self._utf8 is None else self._utf8
            lines += self._take(other)
        return lines

    def _take(self, data: bytes) -> list[OutputLine]:
        self._pieces.append(data)
        self._held += len(data)
        if b"\n" not in data and self._held <= LONGEST_LINE:
            return []
        held = self._stretch()
        end = held.data.rfind(b"\n") + 1
        lines = _lines(held.part(0, end))
        pieces, rest = _pieces(held.part(end))
        self._pieces = [rest.data] if rest.data else []
        self._held = len(rest.data)
        self._utf8 = None if self._utf8 is None else rest.utf8
        return lines + pieces

    def _stretch(self) -> Stretch:
        data = b"".join(self._pieces)
        return Stretch(data) if self._utf8 is None else Stretch(data, self._page, self._utf8)


def _lines(held: Stretch) -> list[OutputLine]:
    """Return the lines of data that ends with a line feed."""
    raw = held.data.split(b"\n")
    raw.pop()
    if len(held.data) <= LONGEST_LINE or max(map(len, raw)) <= LONGEST_LINE:
        # Cleaning keeps each line feed, whatever surrounds it: so all lines are cleaned at once.
        return [
            OutputLine(text, line + b"\n") for text, line in zip(held.text.split("\n"), raw, strict=False)
        ]
    lines = []
    start = 0
    for line in raw:
        end = start + len(line)
        pieces, last = _pieces(held.part(start, end))
        lines += [*pieces, OutputLine(last.text, last.data + b"\n")]
        start = end + 1
    return lines


def _pieces(held: Stretch) -> tuple[list[OutputLine], Stretch]:
    """Return the pieces of a line that is too long to be held, and the rest of the line."""
    pieces = []
    while len(held.data) > LONGEST_LINE:
        piece = held.part(0, LONGEST_LINE)
        piece = piece.part(0, LONGEST_LINE - piece.unfinished())
        pieces.append(OutputLine(piece.text, piece.data, complete=False))
        held = held.part(len(piece.data))
    return pieces, held


def clean(data: bytes) -> str:
    """Return the text of whole output, by the rule above."""
    return edit(strip_to_edits(data))


def is_plain(data: bytes) -> bool:
    """Whether cleaning would not change the data: ASCII without controls other than LF and TAB."""
    return data.isascii() and len(data.translate(None, _CONTROLS)) == len(data)


def strip(data: bytes) -> str:
    """Decode data, and remove all sequences, and all controls but LF, TAB, CR and BS.

    The texts of pieces together are the text of the whole if no piece ends with an `unfinished` character or sequence.
    """
    if b"\x1b" in data or b"\xc2" in data:
        data = _SEQUENCE.sub(b"\0", data)
    # NUL replaces removed bytes until the decoding: otherwise the halves of a broken character would join.
    return data.translate(_REMOVED_TO_NUL).decode("utf-8", "replace").replace("\0", "")


def strip_to_edits(data: bytes) -> str:
    """Decode data as `strip` does, but keep sequences that go back on a line or erase; no other ESC or U+009B remains."""
    if b"\x1b" not in data and b"\xc2" not in data:
        return strip(data)
    data = _SEQUENCE_BUT_EDITS.sub(b"\0", data)
    return data.translate(_REMOVED_BUT_ESC_TO_NUL).decode("utf-8", "replace").replace("\0", "")


def has_edits(text: str) -> bool:
    """Whether a text has characters that go back on a line, or begin sequences that do."""
    return "\r" in text or "\b" in text or "\x1b" in text or "\x9b" in text


def edit(text: str) -> str:
    """Apply the controls and sequences that `strip_to_edits` leaves in a text."""
    return "\n".join([_edit_line(line) for line in text.split("\n")]) if has_edits(text) else text


def unfinished(data: bytes) -> int:
    """Return the number of last bytes that begin a character or a sequence whose end is still to come."""
    data = data[-LONGEST_SEQUENCE:]
    # No sequence goes past an ESC, except an ESC that may be the first half of ST.
    start = data.rfind(b"\x1b", 0, -1)
    if start < 0:
        if data.isascii():
            return 1 if data[-1:] == b"\x1b" else 0
        start = 0 if b"\xc2" in data else max(0, len(data) - 4)
    match = _UNFINISHED.search(data, start)
    return 0 if match is None else len(data) - match.start()


def leading_sequence(data: bytes) -> int:
    """Return the number of first bytes that are one whole sequence."""
    match = _SEQUENCE.match(data)
    return 0 if match is None else match.end()


def _edit_line(text: str) -> str:
    if not has_edits(text):
        return text
    line = EditedLine()
    line.feed(text)
    return line.text
