r"""The final text of a line in which the output moves the cursor back.

A line has the text that a terminal without a right edge would show. CR, BS and ``CSI D``, G and \` move the cursor back, and
later text overwrites, column by column; ``CSI K`` erases. TAB goes on to the next eighth column. Only text and TAB move the
cursor forward: so a large number in a sequence costs no more than its digits.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from ..cells import LONGEST_CELL, NARROW, is_narrow, width
from ..sequences import DIGITS, INTRODUCER, in_text, number_of

TAB_WIDTH = 8  # no bound
"""Columns between two tab stops."""

EDITS = "\r\b\x1b\x9b"
"""The characters that move back in a line or begin a sequence that does; a line without them is final text."""

_PLAIN = re.compile(f"[^{EDITS}]+")
_TOKENS = re.compile(f"([^\r\b\x1b\x9b\t]+)|(\r+|\b+|\t)|{in_text(INTRODUCER)}({in_text(DIGITS)})([KDG`])")

# A progress bar may print so fast that many states come at once. The short way is for states that are all narrow text.
_WORTH_SKIPPING = 64  # no bound: characters from which the short way is faster
_STATES_WORTH_SKIPPING = 3  # no bound: states from which the short way is faster
_STATES = f"[{NARROW}\r]*+"  # compiled with the first bar
_CLEARS = ("\r\x1b[K", "\r\x1b[0K", "\r\x1b[2K", "\x1b[2K\r", "\x1b[2K\x1b[1G", "\x1b[2K\x1b[G")

Excess = Literal["line", "room"]


class State(NamedTuple):
    """The whole state of an `EditedLine`."""

    text: str
    cells: tuple[str, ...] | None
    column: int
    blanked: int
    marks: int
    ascii: bool
    cleared: bool


class EditedLine:
    """A line while it is printed, in pieces that may be cut anywhere but inside a sequence.

    As long as nothing is overwritten, the line is kept as text, tabs included. After the first overwriting or erasing, the
    line is a list of cells, whose blanks at the end are not shown. A line with a text and cells is not overwritten yet.

    The time is in proportion to the fed text, whatever the text is.
    """

    __slots__ = ("_ascii", "_blanked", "_cells", "_cleared", "_column", "_marks", "_text")

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._text = ""  # empty after the first overwriting or erasing
        self._cells: list[str] | None = None
        self._column = 0  # the cursor's column; without cells, columns back from the end of the text
        self._blanked = 0  # cells at the start that are certainly blank
        self._marks = 0  # characters in the cells beyond one for each cell, at most
        self._ascii = True  # whether the cells are certainly ASCII
        self._cleared = False  # whether nothing was drawn since the whole line was erased

    def save(self) -> State:
        """Return the state that `restore` needs."""
        cells = None if self._cells is None else tuple(self._cells)
        return State(self._text, cells, self._column, self._blanked, self._marks, self._ascii, self._cleared)

    def restore(self, state: State) -> None:
        """Return the line to the state of a `save`."""
        self._text, cells, self._column, self._blanked, self._marks, self._ascii, self._cleared = state
        self._cells = None if cells is None else list(cells)

    @property
    def text(self) -> str:
        """The text of the line."""
        return self._text if self._cells is None or self._text else "".join(self._cells).rstrip(" ")

    @property
    def length(self) -> int:
        """Characters of the line, or somewhat more: in a rewritten line, all columns and all marks ever drawn count."""
        text = len(self._text)
        return text if self._cells is None else max(text, len(self._cells) + self._marks)

    @property
    def size(self) -> int:
        """Bytes of the line, or somewhat more: in a rewritten line that is not ASCII, each character counts as four bytes."""
        if self._cells is None:
            return len(self._text) if self._text.isascii() else len(self._text.encode())
        return self.length if self._ascii else 4 * self.length

    def feed(self, text: str, longest: int | None = None, largest: int | None = None) -> Excess | None:
        """Print text on the line.

        Args:
            text: Text, TAB, CR, BS and the sequences above.
            longest: The limit on `length`; ``None`` means no limit.
            largest: The limit on `size`; ``None`` means no limit.

        Returns:
            The limit that the line has exceeded at some point; the line's state is then undefined, and has to be restored.
        """
        if len(text) > _WORTH_SKIPPING:
            text = self._skip(text, longest, largest)
        start = 0
        if self._cells is None and not self._column:
            plain = _PLAIN.match(text)
            if plain is not None:
                self._text += plain[0]
                start = plain.end()
                if (excess := self._excess(longest, largest)) is not None:
                    return excess
        for run, control, number, final in _TOKENS.findall(text, start) if start < len(text) else ():
            if run or control == "\t":
                if longest is not None and self._cells is not None and self._column > longest:
                    return "line"
                if run:
                    self._write(run)
                else:
                    self._tab()
                if (excess := self._excess(longest, largest)) is not None:
                    return excess
            elif control:
                self._to(0) if control[0] == "\r" else self._back(len(control))
            elif final == "K":
                self._erase(number_of(number))
            elif final == "D":
                self._back(max(number_of(number), 1))
            else:
                self._to(max(number_of(number), 1) - 1)
        return None

    def _skip(self, text: str, longest: int | None, largest: int | None) -> str:
        """Print the many states of a progress bar at once, if possible. Return the remaining text."""
        end = max([text.rfind(clear) + len(clear) for clear in _CLEARS if clear in text], default=0)
        if end and self._fits(text[:end].split("\r"), longest, largest):
            self._clear()
            text = text[end:]
        if text.count("\r") < _STATES_WORTH_SKIPPING or not re.fullmatch(_STATES, text):
            return text
        first, *states = text.split("\r")
        last = states[-1]
        shown = [state for state in states if state]
        if len(shown) < _STATES_WORTH_SKIPPING or not self._fits([first, *shown], longest, largest):
            return text
        self._write(first)
        if self._cells is None:
            self._lay()
        # Of each state, only the part remains that no later state covers.
        kept = ""
        for state in reversed(shown):
            if len(state) > len(kept):
                kept += state[len(kept) :]
        self._column = 0
        self._write(kept)
        self._column = len(last)
        return ""

    def _fits(self, states: list[str], longest: int | None, largest: int | None) -> bool:
        """Whether the line certainly does not become too long when the states are printed."""
        length = max(len(states[0]) + self._column + self.length, *map(len, states))
        return (longest is None or length <= longest) and (largest is None or 4 * length <= largest)

    def _excess(self, longest: int | None, largest: int | None) -> Excess | None:
        if longest is not None and self.length > longest:
            return "line"
        return "room" if largest is not None and self.size > largest else None

    def _write(self, run: str) -> None:
        if self._cells is None:
            if not self._column or not self._text:
                self._text += run
                self._column = 0
                return
            self._lay()
        self._text = ""
        cells, column = self._cells, self._column
        assert cells is not None
        if column > len(cells):
            cells += " " * (column - len(cells))
        self._blanked = min(self._blanked, max(column - 2, 0))  # a mark is drawn over the character before it
        piece: str | list[str] = run
        self._ascii = self._ascii and run.isascii()
        if not is_narrow(run):
            piece, marks = _lay(run, cells, column)
            self._marks += marks
            self._cleared = self._cleared and not marks
            if not piece:
                return
        self._cleared = False
        end = column + len(piece)
        if column < len(cells):
            if not cells[column] and column:
                cells[column - 1] = " "
            if end < len(cells) and not cells[end]:
                cells[end] = " "
        cells[column:end] = piece
        self._column = end

    def _tab(self) -> None:
        if self._cells is None:
            if not self._column or not self._text:
                self._write("\t")
                return
            self._lay()
        self._text = ""
        self._column += TAB_WIDTH - self._column % TAB_WIDTH

    def _back(self, count: int) -> None:
        if self._cells is None:
            self._column += count
        else:
            self._column = max(self._column - count, 0)
            self._settle()

    def _to(self, column: int) -> None:
        if self._cells is None:
            if column == 0:
                self._column = len(self._text) * TAB_WIDTH  # at least all columns of the text
                return
            self._lay()
        self._column = min(self._column, column)
        self._settle()

    def _erase(self, kind: int) -> None:
        if self._cells is None:
            if kind == 0 and not self._column:
                return
            self._lay()
        self._text = ""
        cells, column = self._cells, self._column
        assert cells is not None
        if kind == 0:
            if column < len(cells) and not cells[column] and column:
                cells[column - 1] = " "
            del cells[column:]
        elif kind == 1:
            end = min(column + 1, len(cells))
            if end < len(cells) and not cells[end]:
                cells[end] = " "
            if end > self._blanked:
                cells[self._blanked : end] = " " * (end - self._blanked)
                self._blanked = end
        elif kind == 2:
            # Blanks stay, since the cursor stays: otherwise later text would have to be padded again each time.
            cells[self._blanked :] = " " * (len(cells) - self._blanked)
            self._blanked = len(cells)
            self._cleared = True
        self._blanked = min(self._blanked, len(cells))
        self._settle()

    def _settle(self) -> None:
        """Drop the erased cells when the line is empty and the cursor is at the start."""
        if (
            self._cells is not None
            and not self._text
            and not self._column
            and (self._cleared or not self._cells)
        ):
            self._clear()

    def _lay(self) -> None:
        """Make the cells of the text. The text stays until it is overwritten: only moving the cursor changes nothing."""
        text, back = self._text, self._column
        cells: list[str] = []
        marks = 0
        for number, part in enumerate(text.split("\t")):
            if number:
                cells += " " * (TAB_WIDTH - len(cells) % TAB_WIDTH)
            laid, more = _lay(part, cells, len(cells))
            cells += laid
            marks += more
        self._cells = cells
        self._column = max(len(cells) - back, 0)
        self._blanked, self._marks, self._ascii = 0, marks, text.isascii()


def _lay(text: str, before: list[str], column: int) -> tuple[list[str], int]:
    """Return the cells of a text and the number of drawn marks; a leading mark is drawn over the cell before `column`.

    A wide character has a cell with its text and an empty cell.
    """
    if is_narrow(text):
        return list(text), 0
    cells: list[str] = []
    marks = 0
    for char in text:
        columns = width(char)
        if columns:
            cells.append(char)
            if columns == 2:
                cells.append("")
            continue
        into, at = (cells, len(cells)) if cells else (before, min(column, len(before)))
        at -= 2 if at > 1 and not into[at - 1] else 1
        if at >= 0 and len(into[at]) < LONGEST_CELL:
            into[at] += char
            marks += 1
    return cells, marks
