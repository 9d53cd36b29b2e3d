"""Output that waits to be drawn, of which what is too much is skipped."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .emulator import Emulator
    from .rows import Row

HELD = 1024 * 1024
"""Bytes of the end of what waits that are always drawn."""

SKETCHED = 64 * 1024
"""Bytes before those of which the moves of the cursor are followed."""

# What says how the following is to be drawn: modes, margins, character sets, the title; and what wipes the screen.
_STATE = (
    rb"\[(?:[0-9;?]{0,64}+[hlrJ]|!p)|[=>c]|[()][0-9A-Za-z]"
    rb"|\][02];[^\x00-\x1f\xc2]{0,1024}+(?:\x07|\x1b\\|\xc2\x9c)"
)
_MOVE = _STATE + rb"|\[[0-9;]{0,16}+[ABEFHLMSTdef]|[78DEM]"
_STATES = re.compile(rb"\x1b(?:" + _STATE + rb")")
_MOVES = re.compile(rb"\r?\n|[\x0e\x0f]|\x1b(?:" + _MOVE + rb")")
_UP = re.compile(rb"\x1b\[([0-9]{0,3})A")
_SHIFTS = (b"\x0e", b"\x0f")
# The C1 forms are rare, and are looked for in the form that they stand for.
_C1 = re.compile(rb"\xc2([\x80-\x9f])")


@dataclass(frozen=True, slots=True)
class Piece:
    """Some output, with how many bytes and line feeds came before it. It ends with nothing unfinished."""

    data: bytes
    at: int
    lines: int


class Backlog:
    """Holds what waits to be drawn, `HELD` bytes of its end at least.

    What is skipped has no text, but it leaves the terminal as it would have: modes, the alternate screen, margins,
    character sets, the title, what wipes the screen. The row of the cursor is told by the line feeds and the moves up,
    and by all moves within the last `SKETCHED` bytes. It cannot be told how many rows a line took that was wrapped, or
    what was saved by DECSC; nor are the rows known that scrolled away. Whatever was drawn before and is not drawn again
    stands where it stood.

    Attributes:
        skipped: Bytes that were not drawn.
    """

    def __init__(self) -> None:
        self.skipped = 0
        self._pieces: deque[Piece] = deque()
        self._size = 0
        self._overflowed = False

    def __len__(self) -> int:
        return self._size

    def append(self, piece: Piece, screen: Emulator) -> None:
        """Add a piece. If that is too much, the first ones are skipped."""
        self._pieces.append(piece)
        self._size += len(piece.data)
        while self._size - len(self._pieces[0].data) >= HELD + SKETCHED:
            data = self._pieces.popleft().data
            self._size -= len(data)
            self.skipped += len(data)
            self._overflowed = True
            _skip(data, screen)

    def draw(self, screen: Emulator) -> None:
        """Draw all of it."""
        while self._overflowed and self._size - len(self._pieces[0].data) >= HELD:
            data = self._pieces.popleft().data
            self._size -= len(data)
            self.skipped += len(data)
            _sketch(data, screen)
        if self._overflowed:
            self._overflowed = False
            self._begin_with_a_line(screen)
        while self._pieces:
            piece = self._pieces.popleft()
            screen.feed(piece.data, piece.at, piece.lines)
        self._size = 0

    def _begin_with_a_line(self, screen: Emulator) -> None:
        """Half a line would be drawn where the cursor happens to be."""
        piece = self._pieces.popleft()
        end = piece.data.find(b"\n", 0, max(0, self._size - HELD)) + 1
        if end:
            self.skipped += end
            _sketch(piece.data[:end], screen)
        self._pieces.appendleft(Piece(piece.data[end:], piece.at + end, piece.lines + (end > 0)))


def _skip(data: bytes, screen: Emulator) -> None:
    """Leave the terminal as this would have left it, as far as can be told at once."""
    data = long_form(data)
    # Of each sequence the last one counts, in their order.
    states = list(dict.fromkeys(reversed(_STATES.findall(data))))[::-1]
    shifts = [shift for shift in _SHIFTS if shift in data]
    states += sorted(shifts, key=data.rfind)
    y = screen.y + data.count(b"\n")
    y -= sum([int(count or 1) for count in _UP.findall(data)])
    if states:
        _apply(states, screen)
    screen.y = min(max(y, 0), screen.height - 1)


def _sketch(data: bytes, screen: Emulator) -> None:
    """The same, as far as can be told without the text."""
    _apply(_MOVES.findall(long_form(data)), screen)


def long_form(data: bytes) -> bytes:
    """Output with the C1 controls as the ``ESC`` sequences that they stand for."""
    return _C1.sub(lambda match: b"\x1b" + bytes([match[1][0] - 0x40]), data) if b"\xc2" in data else data


def _apply(sequences: list[bytes], screen: Emulator) -> None:
    before = len(screen.scrolled)
    screen.feed(b"".join(sequences), 0, 0)
    # Rows that scrolled away blank would have had the text that was skipped.
    gone: list[Row] = [row for row in screen.scrolled[before:] if row.cells]
    screen.scrolled[before:] = gone
