"""Output that waits to be drawn, whose surplus is skipped."""

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
"""Bytes of the end of what waits to be drawn that are always drawn; what is before them is skipped and counted. Of
sequences that are more work than bytes, their work counts, here as below."""

SKETCHED = 64 * 1024
"""Bytes before those of which the moves of the cursor are followed."""

PIECE = 64 * 1024
"""Bytes that are drawn at once."""

ROW_WORK = 16
"""Bytes that are as much work as a row which a sequence moves, scrolls away or wipes; a line counts as many at least."""

CELLS_OF_A_ROW = 8
"""Characters repeated by one sequence, or looked at for their protection, that are as much work as a row."""

STATES = 256
"""Different sequences that are known of what was skipped: the last ones."""

# Sequences that set the state of later drawing: modes, margins, character sets, the title; and those that wipe the screen.
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


# Sequences that move, scroll or wipe rows, with their parameters; REP, whose text can be wide; and DECSEL, which looks at each column.
# DECSEL stands apart: EL, which it is told from by its parameters, is in every bar.
_CONTROL = rb"(?:\?" + PARAMETERS + rb"(K)|(" + PARAMETERS + rb")([LMSTbJhl]| [@A]|'[}~]))"
_ROWS = re.compile(rb"\x1b(?:\[" + _CONTROL + rb"|([cDEM]|#8))")
_ROWS_OR_C1 = re.compile(INTRODUCER + _CONTROL + rb"|(?:\x1b([cDEM]|#8)|\xc2[\x84\x85\x8d])")
_NUMBER = re.compile(rb"[0-9]+")
_SWITCH = re.compile(rb"47|1049|(?<![0-9])0*3(?![0-9])")  # 1047 has it too


@dataclass(frozen=True, slots=True)
class Piece:
    """Some output. It ends with nothing unfinished.

    Attributes:
        data: Raw bytes.
        at: Bytes that came before.
        lines: Line feeds that came before.
        work: The work of drawing it, in bytes of ordinary output; no less than it has.
    """

    data: bytes
    at: int
    lines: int
    work: int


def pieces(data: bytes, at: int, lines: int, screen: Emulator) -> Iterator[Piece]:
    """Cut output, so that none of it is more than a `PIECE` of work unless one sequence alone is, or plain text.

    Args:
        data: Raw bytes that end with nothing unfinished.
        at: Bytes that came before.
        lines: Line feeds that came before.
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
    """The rows that a sequence of `_ROWS` is worth at most."""
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
        self._work = 0
        self._states: dict[bytes, None] = {}  # what was skipped says of the terminal, the last at the end
        self._y: int | None = None  # the row of the cursor after what was skipped; None if nothing was

    def __len__(self) -> int:
        return self._work

    def append(self, piece: Piece, screen: Emulator) -> None:
        """Add a piece. If that is too much, the first ones are skipped."""
        self._pieces.append(piece)
        self._work += piece.work
        while self._work - self._pieces[0].work >= HELD + SKETCHED:
            self._skip(self._next().data, screen)

    def skip(self, screen: Emulator) -> tuple[int, int] | None:
        """Leave the terminal as what is skipped would have left it.

        Returns:
            Bytes and line feeds before the rest that is to be drawn; ``None`` if nothing was skipped.
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
        """All that is to be drawn."""
        while self._pieces:
            yield self._pieces.popleft()
        self._work = 0

    def _next(self) -> Piece:
        piece = self._pieces.popleft()
        self._work -= piece.work
        self.skipped += len(piece.data)
        return piece

    def _skip(self, data: bytes, screen: Emulator) -> None:
        """Remember what the terminal is left as, as far as can be told at once."""
        data = long_form(data)
        # The last one of each sequence counts, in their order.
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
        """Half a line would be drawn where the cursor happens to be."""
        piece = self._pieces.popleft()
        end = piece.data.find(b"\n", 0, max(0, self._work - HELD)) + 1
        if end:
            self.skipped += end
            _sketch(replace(piece, data=piece.data[:end]), screen)
        self._pieces.appendleft(
            replace(piece, data=piece.data[end:], at=piece.at + end, lines=piece.lines + (end > 0))
        )


def _sketch(piece: Piece, screen: Emulator) -> None:
    """Leave the terminal as a piece would have left it, as far as can be told without the text."""
    _apply(_MOVES.findall(long_form(piece.data)), screen, piece)


def _apply(sequences: list[bytes], screen: Emulator, piece: Piece) -> None:
    before = len(screen.scrolled)
    # Colours are not followed: what comes is shown plain until the program says otherwise.
    screen.feed(b"\x1b[m" + b"".join(sequences), piece.at, piece.lines)
    # Rows that scrolled away blank would have had the text that was skipped.
    gone: list[Row] = [row for row in screen.scrolled[before:] if row.cells]
    screen.scrolled[before:] = gone
