"""The grid of a terminal's screen, as a person would see the screen: the cells, the cursor, and rows that scroll away."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right, insort
from typing import TYPE_CHECKING

from ..cells import PROTECTED, REST, Cells, is_narrow
from ..sequences import INTRODUCER, RENDITION
from .rows import Row, left, over, right

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..._types import Terminal

TEXT = rb"[^\x00-\x17\x19-\x1f\x7f\xc2]"
"""A byte of text. CAN counts as text: CAN replaces colour sequences, and has no effect of its own."""

_SCROLL = re.compile(rb"(" + INTRODUCER + RENDITION + rb"S)")

_LINE_DRAWING = str.maketrans("_`abcdefghijklmnopqrstuvwxyz{|}~", " ◆▒␉␌␍␊°±␤␋┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·")


class Offsets:
    """The places in a piece of output at which lines end, by bytes and by line feeds.

    A place is the end of the control that ended the line: so places do not depend on how the output was cut into pieces.
    """

    def __init__(self, data: bytes, at: int, lines: int) -> None:
        self._data = data
        self._at = at
        self._found = 0
        self._lines = lines

    def next(self) -> tuple[int, int]:
        """Advance to the next line feed, and return the place."""
        self._found = self._data.find(b"\n", self._found) + 1
        self._lines += 1
        return self._at + self._found, self._lines

    def after(self, end: re.Pattern[bytes]) -> tuple[int, int]:
        """Advance to the next match of `end` that has group 1, and return the place. A match of a string has no group 1."""
        match = end.search(self._data, self._found)
        while match is not None and match[1] is None:
            match = end.search(self._data, match.end())
        if match is not None:
            self._found = match.end()
        return self._at + self._found, self._lines


class Grid:
    """The rows, the cursor and the margins of a screen, and the operations on them.

    The memory is bounded by the size of the terminal, and by the rows in `scrolled` until the caller takes the rows. Each
    operation takes at most time in proportion to that size.

    Args:
        terminal: The size of the terminal.

    Attributes:
        scrolled: Rows that have left the main screen at the top, and will not change; the caller of `feed` takes the rows.
        frame: The last frame of the alternate screen, kept when the program left or wiped that screen; ``None`` if never used.
    """

    def __init__(self, terminal: Terminal) -> None:
        self.columns = terminal.columns
        self.height = terminal.rows
        self.scrolled: list[Row] = []
        self.frame: str | None = None
        self.reader = Cells()
        self._offsets = Offsets(b"", 0, 0)
        self._reset()

    def _reset(self) -> None:
        self.rows = [Row() for _ in range(self.height)]
        self._other: list[Row] | None = None  # the main screen's rows, while the alternate screen is shown
        self.x = 0  # equals `columns` when the last column was written and the next character wraps
        self.y = 0
        self._top, self._bottom = 0, self.height - 1
        self._wrap, self._insert, self._origin = True, False, False
        self._drawing = False  # whether letters draw lines
        self._protecting = False  # whether written characters are protected, as DECSCA says
        self._stops: list[int] | None = None  # tab stops in order; None is every eighth column

    # --- reading ------------------------------------------------------------------------------------------

    @property
    def alternate(self) -> bool:
        """Whether the alternate screen is shown."""
        return self._other is not None

    @property
    def main(self) -> list[Row]:
        """The rows of the main screen, shown or not."""
        return self.rows if self._other is None else self._other

    @property
    def column(self) -> int:
        """The column of the cursor."""
        return min(self.x, self.columns - 1)

    def text(self, row: Row) -> str:
        """Return the text of a row within the terminal's width, without blanks at the end."""
        return self.reader.read(left(row.cells, self.columns).rstrip(" "))

    def picture(self) -> str:
        """Return the text of the shown screen, without blank rows at the end."""
        return "\n".join([self.text(row) for row in self.rows]).rstrip("\n")

    def _keep_frame(self) -> None:
        """Keep the picture of the alternate screen in `frame`, unless the screen is blank."""
        self.frame = self.picture() or self.frame

    # --- writing ------------------------------------------------------------------------------------------

    def _write_lines(self, data: bytes) -> bool:
        """Write many whole lines at once, if the lines change no existing cell. Return whether the lines were written."""
        rows, columns = self.rows, self.columns
        simple = self._wrap and not (
            self._insert or self._drawing or self._protecting or self.x or self._other
        )
        if not simple or self._top or self._bottom != self.height - 1:
            return False
        text = data.decode("utf-8", "replace").replace("\x18", "")
        if any(row.cells for row in rows[self.y :]) or not (
            text.isascii() or is_narrow(text.replace("\r\n", ""))
        ):
            return False
        # From here on the lines change no existing cell: all lines are new rows from the cursor's row on. The last `height` rows
        # are the screen, and the rows before the screen have scrolled away.
        next_offset = self._offsets.next
        drawn = rows[: self.y]
        lines = text.split("\r\n")
        lines.pop()
        for line in lines:
            row = Row()
            drawn.append(row)
            if len(line) > columns:
                row.cells = line[:columns]
                for start in range(columns, len(line), columns):
                    row = Row()
                    row.continues = True
                    row.cells = line[start : start + columns]
                    drawn.append(row)
            else:
                row.cells = line
            row.end, row.ends = next_offset()
        drawn.append(Row())
        surplus = max(0, len(drawn) - self.height)
        self.scrolled += drawn[:surplus]
        del drawn[:surplus]
        self.y = len(drawn) - 1
        drawn += [Row() for _ in range(self.height - len(drawn))]
        rows[:] = drawn
        return True

    def _write(self, text: str) -> None:
        if self._drawing:
            text = text.translate(_LINE_DRAWING)
        row = self.rows[self.y]
        x = self.x
        if self._protecting or not is_narrow(text):
            before = row.cells[:x]
            changed, text = self.reader.lay(text, before)
            if self._protecting:
                text = self.reader.protect(text)
            if changed:
                row.cells = before[: -len(changed)] + changed + row.cells[x : self.columns]
            if not text:
                return
        end = x + len(text)
        if end < self.columns and not self._insert:
            cells = row.cells
            size = len(cells)
            if x == size:
                row.cells = cells + text
            elif x > size:
                row.cells = cells + " " * (x - size) + text
            elif cells.isascii():
                row.cells = cells[:x] + text + cells[end : self.columns]
            else:
                row.cells = left(over(cells, x, text), self.columns)
            self.x = end
            return
        self._write_wrapping(text)

    def _write_wrapping(self, text: str) -> None:
        columns = self.columns
        at = 0
        while at < len(text):
            room = columns - self.x
            if room <= 0 or (room == 1 and text[at + 1 : at + 2] == REST):
                if not self._wrap:
                    self._write_at_margin(text[at:])
                    return
                row = self.rows[self.y]
                row.cells = left(row.cells, columns)
                self.x = 0
                if self.y == self._bottom or self.y < self.height - 1:
                    self._index()
                    self.rows[self.y].continues = True
                room = columns
            piece = text[at : at + room]
            if text[at + room : at + room + 1] == REST:
                piece = piece[:-1]
            at += len(piece)
            row = self.rows[self.y]
            cells = row.cells.ljust(self.x)
            if self._insert:
                cells = left(cells, self.x) + piece + right(cells, self.x)
                row.cells = left(cells, columns)
            else:
                row.cells = left(over(cells, self.x, piece), columns)
            self.x += len(piece)
            if self.x >= columns:
                self._end_line()

    def _write_at_margin(self, text: str) -> None:
        """Write text without wrapping: each character overwrites the one before in the last column, or the last two columns."""
        row, columns = self.rows[self.y], self.columns
        cells = left(row.cells, columns).ljust(columns)
        wide = text.rfind(REST)
        if wide > 0:
            cells = over(cells, columns - 2, text[wide - 1 : wide + 1])
        if wide < len(text) - 1:
            cells = over(cells, columns - 1, text[-1])
        row.cells = cells
        self.x = columns
        self._end_line()

    def _end_line(self) -> None:
        """Record that the next row does not continue the cursor's row."""
        if self.y < self.height - 1:
            self.rows[self.y + 1].continues = False

    def _index(self) -> None:
        if self.y == self._bottom:
            self._scroll_up(1)
        elif self.y < self.height - 1:
            self.y += 1

    def _line_feed(self) -> None:
        """Move the cursor down a row. This cancels a pending wrap at the margin, as in xterm."""
        self.x = self.column
        self._index()

    def _reverse_index(self) -> None:
        self.x = self.column
        if self.y == self._top:
            self._add_rows(self._top, 1)
        elif self.y:
            self.y -= 1

    def _scroll_up(self, count: int, end: tuple[int, int] | None = None) -> None:
        """Scroll up. Rows that leave the main screen at the top are kept in `scrolled`; all other rows are lost.

        Args:
            count: Rows to scroll.
            end: The place in the output for scrolled rows that no control has ended; ``None`` leaves the place to the next line.
        """
        count = min(count, self._bottom - self._top + 1)
        if self._top == 0 and self._other is None:
            gone = self.rows[:count]
            if end is not None:
                for row in gone:
                    if not row.end:
                        row.end, row.ends = end
            self.scrolled += gone
        self._remove_rows(self._top, count)

    def _scroll(self, count: int) -> None:
        end = self._offsets.after(_SCROLL)
        self._scroll_up(max(count, 1), end)

    def _remove_rows(self, top: int, count: int) -> None:
        rows, bottom = self.rows, self._bottom
        del rows[top : top + count]
        if count == 1:
            rows.insert(bottom, Row())
        else:
            first = bottom - count + 1
            rows[first:first] = [Row() for _ in range(count)]
        if top:
            rows[top].continues = False

    def _add_rows(self, top: int, count: int) -> None:
        rows, bottom = self.rows, self._bottom
        count = min(count, bottom - top + 1)
        del rows[bottom - count + 1 : bottom + 1]
        rows[top:top] = [Row() for _ in range(count)]
        for after in (top + count, bottom + 1):
            if after < len(rows):
                rows[after].continues = False

    # --- the cursor ---------------------------------------------------------------------------------------

    def _to(self, y: int, x: int) -> None:
        # Programs that draw call this most often: comparisons take a third of the time of min() and max().
        first, last = (self._top, self._bottom) if self._origin else (0, self.height - 1)
        y += first
        self.y = first if y < first else min(y, last)
        last = self.columns - 1
        self.x = 0 if x < 0 else min(x, last)

    def _up(self, count: int) -> None:
        first = self._top if self.y >= self._top else 0
        y = self.y - (count or 1)
        self.y = max(first, y)
        if self.x >= self.columns:
            self.x = self.columns - 1

    def _down(self, count: int) -> None:
        last = self._bottom if self.y <= self._bottom else self.height - 1
        self.y = min(self.y + max(count, 1), last)
        self.x = self.column

    def _right(self, count: int) -> None:
        self.x = min(self.x + max(count, 1), self.columns - 1)

    def _left(self, count: int) -> None:
        self.x = max(self.column - max(count, 1), 0)

    def _to_column(self, number: int) -> None:
        self.x = min(max(number, 1), self.columns) - 1

    def _to_row(self, number: int) -> None:
        self._to(max(number, 1) - 1, self.column)

    def _next_line(self, count: int) -> None:
        self._down(count)
        self.x = 0

    def _previous_line(self, count: int) -> None:
        self._up(count)
        self.x = 0

    def _rows_down(self, count: int) -> None:
        """Move the cursor down by rows (VPR). VPR, unlike CUD, stops at a margin only in origin mode."""
        self._to(self.y - (self._top if self._origin else 0) + max(count, 1), self.column)

    def _position(self, number: int) -> None:
        self._to(max(number, 1) - 1, 0)

    def _tab(self, count: int) -> None:
        if self.x >= self.columns:
            return  # a pending wrap stays pending
        count, last = max(count, 1), self.columns - 1
        if self._stops is None:
            self.x = min((self.column // 8 + count) * 8, last)
        else:
            at = bisect_right(self._stops, self.column) + count - 1
            self.x = min(self._stops[at], last) if at < len(self._stops) else last

    def _back_tab(self, count: int) -> None:
        count = max(count, 1)
        if self._stops is None:
            self.x = max(((self.column + 7) // 8 - count) * 8, 0)
        else:
            at = bisect_left(self._stops, self.column) - count
            self.x = self._stops[at] if at >= 0 else 0

    def _set_stop(self) -> None:
        if self._stops is None:
            self._stops = [*range(0, self.columns, 8)]
        if self.column not in self._stops:
            insort(self._stops, self.column)

    def _clear_stop(self, kind: int) -> None:
        if kind == 3:
            self._stops = []
        elif kind == 0:
            self._set_stop()
            assert self._stops is not None
            self._stops.remove(self.column)

    # --- erasing, inserting, deleting ---------------------------------------------------------------------

    def _erase_line(self, kind: int) -> None:
        row = self.rows[self.y]
        if kind == 0:
            row.cells = left(row.cells, self.x)
            self._end_line()
        elif kind == 1:
            x = self.column + 1
            row.cells = " " * x + right(left(row.cells, self.columns), x)
        elif kind == 2:
            row.cells = ""
            row.continues = False
            self._end_line()

    def _erase_screen(self, kind: int) -> None:
        if self._other is not None and (kind == 2 or (kind == 0 and self.x == self.y == 0)):
            self._keep_frame()
        if kind == 0:
            self._erase_line(0 if self.x else 2)
            self._blank(self.y + 1, self.height)
        elif kind == 1:
            self._blank(0, self.y)
            self._erase_line(1)
        elif kind == 2:
            self._blank(0, self.height)

    def _erase_selectively(self, erase: Callable[[int], None], kind: int, rows: list[Row]) -> None:
        """Erase in rows, and put back the protected cells of these rows (DECSED, DECSEL)."""
        before = [left(row.cells, self.columns) for row in rows]
        erase(kind)
        for row, cells in zip(rows, before, strict=True):
            parts, at = list[str](), 0
            for kept in PROTECTED.finditer(cells):
                parts += (row.cells[at : kept.start()].ljust(kept.start() - at), kept[0])
                at = kept.end()
            row.cells = "".join(parts) + row.cells[at:]

    def _blank(self, start: int, end: int) -> None:
        for row in self.rows[start:end]:
            row.cells = ""
            row.continues = False

    def _erase(self, count: int) -> None:
        row, x = self.rows[self.y], self.column
        self.x = x
        end = x + max(count, 1)
        if end >= min(len(row.cells), self.columns):
            row.cells = left(row.cells, x)
        else:
            row.cells = left(over(row.cells, x, " " * (end - x)), self.columns)
        if end >= self.columns:
            self._end_line()

    def _insert_blanks(self, count: int) -> None:
        self.x = self.column
        self._insert_at(self.rows[self.y], self.x, max(count, 1))
        self._end_line()

    def _delete(self, count: int) -> None:
        self.x = self.column
        self._delete_at(self.rows[self.y], self.x, max(count, 1))
        self._end_line()

    def _insert_at(self, row: Row, x: int, count: int) -> None:
        if len(row.cells) > x:
            blanks = " " * min(count, self.columns - x)
            row.cells = left(left(row.cells, x) + blanks + right(row.cells, x), self.columns)

    def _delete_at(self, row: Row, x: int, count: int) -> None:
        if len(row.cells) > x:
            row.cells = left(row.cells, x) + right(left(row.cells, self.columns), x + count)

    def _move_columns(self, change: Callable[[Row, int, int], None], x: int, count: int) -> None:
        """Insert or delete columns in all rows between the margins, if the cursor is in one of these rows."""
        if self._top <= self.y <= self._bottom:
            for row in self.rows[self._top : self._bottom + 1]:
                change(row, x, max(count, 1))
            for row in self.rows[self._top : self._bottom + 2]:
                row.continues = False

    def _align(self) -> None:
        """Fill the screen with the letter E, the test pattern for the adjustment of terminals (DECALN)."""
        self._top, self._bottom, self._origin = 0, self.height - 1, False
        self._blank(0, self.height)
        for row in self.rows:
            row.cells = "E" * self.columns
        self.x = self.y = 0

    def _insert_rows(self, count: int) -> None:
        if self._top <= self.y <= self._bottom:
            self._add_rows(self.y, max(count, 1))
            self.x = 0

    def _delete_rows(self, count: int) -> None:
        if self._top <= self.y <= self._bottom:
            self._remove_rows(self.y, min(max(count, 1), self._bottom - self.y + 1))
            self.rows[self.y].continues = False
            if self._bottom < self.height - 1:
                self.rows[self._bottom + 1].continues = False
            self.x = 0

    def _repeat(self, count: int) -> None:
        """Write the last written character again: the character before the cursor (REP)."""
        cells, x = self.rows[self.y].cells, self.x
        last = cells[x - 2 : x] if cells[x - 1 : x] == REST else cells[x - 1 : x]
        drawing, self._drawing = self._drawing, False  # the character was translated when first written
        self._write(self.reader.read(last) * min(max(count, 1), self.columns))
        self._drawing = drawing
