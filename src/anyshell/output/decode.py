r"""Raw output into text.

The rule, in full (sequences as in ECMA-48, 5th edition, 5.3 to 5.6):

- Bytes are UTF-8; what is not becomes U+FFFD.
- LF ends a line, and with it everything that was begun on it.
- CR goes back to the start of the line, BS and ``CSI n D`` go back by columns, ``CSI n G`` and CSI n \`
  go back to a column. What follows overwrites column by column, as on a terminal, so that a bar which rewrites its
  line collapses to its last state. Going back erases nothing, and so a CR before LF belongs to the line's end.
- ``CSI K`` erases: from the cursor to the end (0 or nothing), from the start to the cursor (1), or all (2).
- A wide character has two columns, a combining one is drawn over what is before it. On a line that was overwritten or
  erased, tabs are blanks up to the next eighth column, and the blanks at its end are left out; on any other TAB is kept.
- Every other control (C0, DEL, C1) is removed.
- All other escape sequences are removed: ``ESC [`` (CSI) with its parameters up to its final byte; control strings
  (``ESC`` and one of ``] P X ^ _``: OSC, DCS, SOS, PM, APC) up to ST or BEL; ``ESC``, intermediates and a
  final byte, such as ``ESC ( B``. The C1 forms, U+0080 to U+009F, count as the ``ESC`` forms do.
- What is begun and not ended hides nothing. A control string ends at ST or BEL, or unfinished at CAN, SUB, CR,
  LF, another ESC or C1 control, or after 4 KiB; an escape sequence ends unfinished at the first byte that
  cannot be part of it, or when it has grown too long. Of the unfinished only the introducer is removed (of
  a CSI only its ``ESC``), and the rest is shown.

Everything here takes time in proportion to its input, whatever that is.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

from .lines import EditedLine

LONGEST_SEQUENCE = 4100
"""Bytes that a sequence can have: a control string of 4 KiB with its introducer and its end."""

LONGEST_LINE = 64 * 1024
"""Raw bytes of a line that a `LineDecoder` holds; a longer line is delivered in pieces."""

# Possessive quantifiers throughout: no sequence is looked at again from a second angle when it fails.
CSI = rb"(?:\x1b\[|\xc2\x9b)[0-?]{0,256}+[ -/]{0,16}+"
STRING = (
    rb"(?:\x1b[\]PX^_]|\xc2[\x90\x98\x9d-\x9f])"
    rb"(?:[^\n\r\x07\x18\x1a\x1b\xc2]|\xc2(?![\x80-\x9f])){0,4096}+"
)
STRING_END = rb"(?:\x07|\x1b\\|\xc2\x9c)"
ESCAPE = (
    rb"\x1b[ -/]{0,16}+[0-OQ-WYZ\\`-~]"  # all finals but those that introduce something longer
    rb"|\x1b[ -/]{1,16}+[PX\[\]^_]"
    rb"|\x1b[\]PX^_]?"  # unfinished: without its introducer
    rb"|\xc2[\x80-\x9f]"
)
_EDIT = rb"(?:\x1b\[|\xc2\x9b)[0-9]{0,5}+[DGK`]"
_SEQUENCE = re.compile(CSI + rb"[@-~]|" + STRING + STRING_END + rb"|" + ESCAPE)
_SEQUENCE_BUT_EDITS = re.compile(rb"(?!" + _EDIT + rb")(?:" + _SEQUENCE.pattern + rb")")
_UNFINISHED = re.compile(
    rb"(?:" + CSI + rb"|" + STRING + rb"\x1b?"
    rb"|\x1b[ -/]{0,16}+"
    rb"|[\xc2-\xdf]|[\xe0-\xef][\x80-\xbf]?|[\xf0-\xf4][\x80-\xbf]{0,2}"
    rb")\Z"
)
_CONTROLS = bytes([*range(0x09), *range(0x0B, 0x20), 0x7F])  # all C0 but TAB and LF, and DEL
_REMOVED = _CONTROLS.replace(b"\b", b"").replace(b"\r", b"")
_REMOVED_TO_NUL = bytes.maketrans(_REMOVED, bytes(len(_REMOVED)))
_REMOVED_BUT_ESC_TO_NUL = bytes.maketrans(_REMOVED.replace(b"\x1b", b""), bytes(len(_REMOVED) - 1))


@dataclass(frozen=True, slots=True)
class Line:
    """A line of output, or a piece of one.

    Attributes:
        text: Cleaned, without its line feed.
        data: The raw bytes, with the line feed. Those of all lines together are the input.
        complete: False for a piece of a line that is too long to be held, and for a last line without LF.
    """

    text: str
    data: bytes
    complete: bool = True


class TextDecoder:
    """Decodes UTF-8 that comes in pieces, cut anywhere. Invalid bytes become U+FFFD; nothing is raised."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def decode(self, data: bytes) -> str:
        """The text of these bytes, up to a character that they do not finish."""
        return self._decoder.decode(data)

    def flush(self) -> str:
        """What an unfinished character comes to, now that the output has ended; usually nothing."""
        return self._decoder.decode(b"", final=True)


class LineDecoder:
    """Cuts output that comes in pieces into cleaned lines, as they complete.

    A line of more than 64 KiB is delivered in pieces, none of which ends inside a character or a sequence.
    What has been delivered stays: a CR can then erase only what came after. Never holds more than 64 KiB.
    """

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._held = 0

    def feed(self, data: bytes) -> list[Line]:
        """The lines that these bytes complete."""
        self._pieces.append(data)
        self._held += len(data)
        if b"\n" not in data and self._held <= LONGEST_LINE:
            return []
        data = b"".join(self._pieces)
        end = data.rfind(b"\n") + 1
        lines = self._whole(data[:end])
        start = end
        while len(data) - start > LONGEST_LINE:
            piece = _piece(data, start)
            lines.append(Line(clean(piece), piece, complete=False))
            start += len(piece)
        rest = data[start:]
        self._pieces = [rest] if rest else []
        self._held = len(rest)
        return lines

    def flush(self) -> list[Line]:
        """The last line, if it has no line feed."""
        data = b"".join(self._pieces)
        self._pieces, self._held = [], 0
        return [Line(clean(data), data, complete=False)] if data else []

    def _whole(self, data: bytes) -> list[Line]:
        raw = data.split(b"\n")
        raw.pop()
        if len(data) <= LONGEST_LINE or max(map(len, raw)) <= LONGEST_LINE:
            # A line feed in is a line feed out, whatever surrounds it: all lines are cleaned at once.
            return [
                Line(text, line + b"\n") for text, line in zip(clean(data).split("\n"), raw, strict=False)
            ]
        lines = []
        for line in raw:
            start = 0
            while len(line) - start > LONGEST_LINE:
                piece = _piece(line, start)
                lines.append(Line(clean(piece), piece, complete=False))
                start += len(piece)
            last = line[start:]
            lines.append(Line(clean(last), last + b"\n"))
        return lines


def _piece(data: bytes, start: int) -> bytes:
    piece = data[start : start + LONGEST_LINE]
    return piece[: len(piece) - unfinished(piece)]


def clean(data: bytes) -> str:
    """The text of whole output, by the rule above."""
    return edit(strip_to_edits(data))


def is_plain(data: bytes) -> bool:
    """Whether cleaning would change nothing: ASCII without controls other than LF and TAB."""
    return data.isascii() and len(data.translate(None, _CONTROLS)) == len(data)


def strip(data: bytes) -> str:
    """Decode, and remove sequences and controls, all but LF, TAB, CR and BS.

    The text of pieces is the text of the whole if no piece ends with something `unfinished`.
    """
    if b"\x1b" in data or b"\xc2" in data:
        data = _SEQUENCE.sub(b"\0", data)
    # NUL takes the place of what is removed until all is decoded, or the halves of a broken character would join.
    return data.translate(_REMOVED_TO_NUL).decode("utf-8", "replace").replace("\0", "")


def strip_to_edits(data: bytes) -> str:
    """The same, but for the sequences that go back on a line or erase it; what is left of ESC and U+009B is theirs."""
    if b"\x1b" not in data and b"\xc2" not in data:
        return strip(data)
    data = _SEQUENCE_BUT_EDITS.sub(b"\0", data)
    return data.translate(_REMOVED_BUT_ESC_TO_NUL).decode("utf-8", "replace").replace("\0", "")


def has_edits(text: str) -> bool:
    """Whether a text goes back on a line anywhere."""
    return "\r" in text or "\b" in text or "\x1b" in text or "\x9b" in text


def edit(text: str) -> str:
    """Do what is asked for by what `strip_to_edits` leaves."""
    return "\n".join([_edit_line(line) for line in text.split("\n")]) if has_edits(text) else text


def unfinished(data: bytes) -> int:
    """How many of the last bytes are the start of a character or a sequence whose end is still to come."""
    data = data[-LONGEST_SEQUENCE:]
    # No sequence goes past an ESC, but for that which may be half of its end.
    start = data.rfind(b"\x1b", 0, -1)
    if start < 0:
        if data.isascii():
            return 1 if data[-1:] == b"\x1b" else 0
        start = 0 if b"\xc2" in data else max(0, len(data) - 4)
    match = _UNFINISHED.search(data, start)
    return 0 if match is None else len(data) - match.start()


def leading_sequence(data: bytes) -> int:
    """How many of the first bytes are one whole sequence."""
    match = _SEQUENCE.match(data)
    return 0 if match is None else match.end()


def _edit_line(text: str) -> str:
    if not has_edits(text):
        return text
    line = EditedLine()
    line.feed(text)
    return line.text
