"""The backlog: output that waits to be drawn, and whose surplus is skipped."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..sequences import (
    DIGITS,
    INTRODUCER,
    NUMBERS,
    PARAMETERS,
    STRING_END,
    STRING_REST,
    long_form,
    number_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .emulator import Emulator
    from .rows import Row

HELD = 1024 * 1024
"""Bytes from the end of the backlog that are always drawn; earlier bytes are skipped and counted. For sequences that are more
work than their bytes, the work counts, also in the other bounds of the backlog."""

SKETCHED = 64 * 1024
"""Bytes before the last `HELD` bytes of the backlog whose moves of the cursor are followed, without their text."""

PIECE = 64 * 1024
"""Bytes of output that are drawn at once."""

ROW_WORK = 16
"""Bytes of work that count for each row that a sequence moves, scrolls away or wipes, and at least for each line."""

CELLS_OF_A_ROW = 8
"""Characters that one sequence repeats, or tests for protection, for the same work as one row."""

STATES = 256
"""Different state sequences of skipped output that are remembered; when there are more, the oldest are forgotten."""

# Sequences that set the state of later drawing: modes, margins, character sets, the title; and sequences that wipe the screen.
_STATE = (
    rb"\[(?:" + PARAMETERS + rb"[hlrJ]|" + DIGITS + rb"\"q|!p|[<=>]" + NUMBERS + rb"u)"
    rb"|[=>c]|#8|[()][0-9A-Za-z]"
    rb"|\][02];" + STRING_REST + STRING_END
)
_MOVE = _STATE + rb"|\[" + NUMBERS + rb"[ABEFHLMSTdef]|[78DEM]"
_STATES = re.compile(rb"\x1b(?:" + _STATE + rb")")
_MOVES = re.compile(rb"\r?\n|[\x0e\x0f]|\x1b(?:" + _MOVE + rb")")
_UP = re.compile(rb"\x1b\[(" + DIGITS + rb")A")
_SHIFTS = (b"\x0e", b"\x0f")


# Sequences that move, scroll or wipe rows, with their parameters; REP, whose text can be wide; and DECSEL, which tests each
# column. DECSEL has its own alternative: only the parameters tell DECSEL from EL, which every progress bar has.
_CONTROL = rb"(?:\?" + PARAMETERS + rb"(K)|(" + PARAMETERS + rb")([LMSTbJhl]| [@A]|'[}~]))"
_ROWS = re.compile(rb"\x1b(?:\[" + _CONTROL + rb"|([cDEM]|#8))")
_ROWS_OR_C1 = re.compile(INTRODUCER + _CONTROL + rb"|(?:\x1b([cDEM]|#8)|\xc2[\x84\x85\x8d])")
_NUMBER = re.compile(rb"[0-9]+")
_SWITCH = re.compile(rb"47|1049|(?<![0-9])0*3(?![0-9])")  # also finds 1047


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of output that does not end with an unfinished character or sequence.

    Attributes:
        data: The raw bytes of the piece.
        at: Bytes of the output before the piece.
        lines: Line feeds of the output before the piece.
        work: The work of drawing the piece, in bytes of ordinary output; at least the number of bytes in `data`.
    """

    data: bytes
    at: int
    lines: int
    work: int


def pieces(data: bytes, at: int, lines: int, screen: Emulator) -> Iterator[Piece]:
    """Cut output into pieces: a piece ends where its sequences reach `PIECE` of work. Plain text is not cut.

    Args:
        data: Raw bytes that do not end with an unfinished character or sequence.
        at: Bytes of the output before `data`.
        lines: Line feeds of the output before `data`.
        screen: The screen of the drawing.
    """
    start, extra = 0, 0
    for match in (_ROWS_OR_C1 if b"\xc2" in data else _ROWS).finditer(data):
        extra += ROW_WORK * _rows(match, screen)
        if extra >= PIECE:
            piece = _piece(data[start : match.end()], at + start, lines, extra)
            yield piece
            start, extra, lines = match.end(), 0, lines + piece.data.count(b"\n")
    if start < len(data):
        yield _piece(data[start:], at + start, lines, extra)


def _piece(data: bytes, at: int, lines: int, extra: int) -> Piece:
    return Piece(data, at, lines, max(len(data), ROW_WORK * data.count(b"\n")) + extra)


def _rows(match: re.Match[bytes], screen: Emulator) -> int:
    """Return the number of rows that a sequence of `_ROWS` counts as, at most."""
    selective, parameters, final, escape = match.groups()
    if selective or (final == b"J" and parameters[:1] == b"?"):
        return (1 if selective else screen.height) * (screen.columns // CELLS_OF_A_ROW + 1)
    if escape in (b"c", b"#8") or (final is not None and (final == b"J" or len(final) > 1)):
        return screen.height
    if final is None:
        return 1
    if final in b"hl":
        return screen.height if parameters[:1] == b"?" and _SWITCH.search(parameters) is not None else 0
    number = _NUMBER.match(parameters)
    count = 1 if number is None else max(number_of(number[0]), 1)
    return min(count, screen.height) if final != b"b" else min(count, screen.columns) // CELLS_OF_A_ROW + 1


class Backlog:
    """The queue of output that waits to be drawn; at least the last `HELD` bytes are held.

    Skipped output has no text, but its effects on the terminal are applied: modes, the alternate screen, margins, character
    sets, the title, and wipes of the screen. The row of the cursor follows from line feeds and moves up, and in the last
    `SKETCHED` bytes from all moves. Unknown remain the number of rows of a wrapped line, the state saved by DECSC, and rows
    that scrolled away. Text that was drawn before, and is not drawn again, stays in its place.

    Attributes:
        skipped: Bytes that were not drawn.
    """

    def __init__(self) -> None:
        self.skipped = 0
        self._pieces: deque[Piece] = deque()
        self._work = 0
        self._states: dict[bytes, None] = {}  # state sequences of skipped output, the last at the end
        self._y: int | None = None  # the row of the cursor after skipped output; None if nothing was skipped

    def __len__(self) -> int:
        return self._work

    def append(self, piece: Piece, screen: Emulator) -> None:
        """Add a piece. If the backlog is then too long, the first pieces are skipped."""
        self._pieces.append(piece)
        self._work += piece.work
        while self._work - self._pieces[0].work >= HELD + SKETCHED:
            self._skip(self._next().data, screen)

    def skip(self, screen: Emulator) -> tuple[int, int] | None:
        """Bring the terminal to the state in which the skipped output would have left the terminal.

        Returns:
            Bytes and line feeds of the output before the rest that is to be drawn; ``None`` if nothing was skipped.
        """
        if self._y is None:
            return None
        first = self._pieces[0]
        _apply([*self._states], screen, first)
        self._states.clear()
        screen.y = min(self._y, screen.height - 1)
        self._y = None
        while self._work - self._pieces[0].work >= HELD:
            _sketch(self._next(), screen)
        self._begin_with_a_line(screen)
        first = self._pieces[0]
        return first.at, first.lines

    def take(self) -> Iterator[Piece]:
        """Remove and yield all pieces, to be drawn."""
        while self._pieces:
            yield self._pieces.popleft()
        self._work = 0

    def _next(self) -> Piece:
        piece = self._pieces.popleft()
        self._work -= piece.work
        self.skipped += len(piece.data)
        return piece

    def _skip(self, data: bytes, screen: Emulator) -> None:
        """Record the state in which skipped data leaves the terminal, as far as a fast search can tell."""
        data = long_form(data)
        # Of equal sequences, only the last one counts; the order is that of the last ones.
        states = list(dict.fromkeys(reversed(_STATES.findall(data))))[::-1]
        shifts = [shift for shift in _SHIFTS if shift in data]
        states += sorted(shifts, key=data.rfind)
        for state in states:
            self._states.pop(state, None)
            self._states[state] = None
        while len(self._states) > STATES:
            del self._states[next(iter(self._states))]
        y = screen.y if self._y is None else self._y
        y += data.count(b"\n") - sum([number_of(count) or 1 for count in _UP.findall(data)])
        self._y = min(max(y, 0), screen.height - 1)

    def _begin_with_a_line(self, screen: Emulator) -> None:
        """Skip the rest of a half line, which would be drawn at a wrong place."""
        piece = self._pieces.popleft()
        end = piece.data.find(b"\n", 0, max(0, self._work - HELD)) + 1
        if end:
            self.skipped += end
            _sketch(replace(piece, data=piece.data[:end]), screen)
        self._pieces.appendleft(
            replace(piece, data=piece.data[end:], at=piece.at + end, lines=piece.lines + (end > 0))
        )


def _sketch(piece: Piece, screen: Emulator) -> None:
    """Bring the terminal to the state after a piece, as far as the state is known without the text."""
    _apply(_MOVES.findall(long_form(piece.data)), screen, piece)


def _apply(sequences: list[bytes], screen: Emulator, piece: Piece) -> None:
    before = len(screen.scrolled)
    # Colours are not followed: later text is shown plain until the program sets a colour.
    screen.feed(b"\x1b[m" + b"".join(sequences), piece.at, piece.lines)
    # Blank rows that scrolled away are dropped: without the skip, the rows would have text.
    gone: list[Row] = [row for row in screen.scrolled[before:] if row.cells]
    screen.scrolled[before:] = gone
