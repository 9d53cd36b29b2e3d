"""The screen that keeps colours and attributes, for views shown to a person."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..cells import PROTECTED, REST, is_narrow, width
from .emulator import Emulator
from .grid import Offsets
from .rows import left
from .style import PLAIN, Span, Style, blank, render

if TYPE_CHECKING:
    from collections.abc import Callable

    from .rows import Row


class StyledEmulator(Emulator):
    """An emulator that draws the same text in the same places as `Emulator`, and keeps the style of each column.

    Drawing takes some two to four times as long, and the memory of one reference for each column. Erased cells, and rows that
    scroll in, have the background that is set at that moment, as ``bce`` of ``xterm-256color`` promises.

    Attributes:
        style: The style of the next text.
    """

    style: Style

    def spans(self, row: Row) -> tuple[Span, ...]:
        """Return a row within the terminal's width, cut where the style changes, without plain blanks at the end."""
        cells = left(row.cells, self.columns)
        styles = (row.styles or [])[: self.columns]
        cells = cells.ljust(len(styles))
        styles += [PLAIN] * (len(cells) - len(styles))
        found: list[Span] = []
        start = 0
        for at in range(1, len(cells) + 1):
            if at < len(cells) and (styles[at] == styles[start] or cells[at] == REST):
                continue
            found.append(Span(self.reader.read(cells[start:at]), styles[start], at - start))
            start = at
        if found and found[-1].style == PLAIN:
            last = found.pop()
            if text := last.text.rstrip(" "):
                found.append(Span(text, PLAIN, last.columns - len(last.text) + len(text)))
        return tuple(found)

    def feed(self, data: bytes, at: int, lines: int) -> None:
        """Draw a piece of output, as `Emulator.feed` does, with its colours."""
        self._offsets = Offsets(data, at, lines)
        self._draw_all(data)

    # --- setting the style --------------------------------------------------------------------------------

    def _reset(self) -> None:
        super()._reset()
        self.style = PLAIN

    def _reset_softly(self) -> None:
        super()._reset_softly()
        self.style = PLAIN

    def _render(self, parameters: bytes) -> None:
        if parameters.translate(None, b"0123456789:;"):
            return  # another sequence with the same final byte
        self.style = render(self.style, parameters)

    def _save(self) -> None:
        super()._save()
        self._saved.style = self.style

    def _restore(self) -> None:
        super()._restore()
        self.style = self._saved.style or PLAIN

    # --- drawing with the style ---------------------------------------------------------------------------

    def _write(self, text: str) -> None:
        narrow = is_narrow(text)
        at = 0
        while at < len(text):
            room = self.columns - 1 - self.x
            size = max(1, room if narrow else room // 2)
            piece = text[at : at + size]
            at += len(piece)
            if room > 0 and not self._insert:  # the piece stays on the row
                x = self.x
                super()._write(piece)
                self._fill(self.rows[self.y], x, self.x, self.style)
                continue
            # One character, which may wrap to another row: after the write, the character is before the cursor.
            piece, at = piece[0], at - len(piece) + 1
            super()._write(piece)
            columns = 1 if narrow or piece >= "\U00100000" or piece == REST else width(piece)
            if columns:
                self._fill(self.rows[self.y], self.x - columns, self.x, self.style, insert=self._insert)

    def _fill(self, row: Row, start: int, end: int, style: Style, *, insert: bool = False) -> None:
        """Set the style of columns of a row. With `insert`, the old styles move to the right."""
        styles = row.styles
        if styles is None:
            if style is PLAIN:
                return
            styles = row.styles = []
        if len(styles) < start:
            if style is PLAIN:
                return
            styles += [PLAIN] * (start - len(styles))
        styles[start : start if insert else end] = [style] * (end - start)
        del styles[self.columns :]

    @property
    def _blanks(self) -> Style:
        return PLAIN if self.style is PLAIN else blank(self.style)

    # --- erasing, inserting, deleting, scrolling -----------------------------------------------------------

    def _write_lines(self, data: bytes) -> bool:
        if self.style is not PLAIN or any(row.styles for row in self.rows[self.y :]):
            return False
        return super()._write_lines(data)

    def _erase_line(self, kind: int) -> None:
        super()._erase_line(kind)
        if kind in (0, 1, 2):
            start, end = {0: (self.x, self.columns), 1: (0, self.column + 1), 2: (0, self.columns)}[kind]
            self._fill(self.rows[self.y], start, end, self._blanks)

    def _erase_selectively(self, erase: Callable[[int], None], kind: int, rows: list[Row]) -> None:
        before = [[*(row.styles or ())] for row in rows]
        super()._erase_selectively(erase, kind, rows)
        for row, styles in zip(rows, before, strict=True):
            for kept in PROTECTED.finditer(row.cells):
                for x in range(*kept.span()):
                    self._fill(row, x, x + 1, styles[x] if x < len(styles) else PLAIN)

    def _blank(self, start: int, end: int) -> None:
        super()._blank(start, end)
        blanks = self._blanks
        for row in self.rows[start:end]:
            row.styles = None if blanks is PLAIN else [blanks] * self.columns

    def _erase(self, count: int) -> None:
        super()._erase(count)
        self._fill(self.rows[self.y], self.x, min(self.x + max(count, 1), self.columns), self._blanks)

    def _insert_at(self, row: Row, x: int, count: int) -> None:
        super()._insert_at(row, x, count)
        self._fill(row, x, min(x + count, self.columns), self._blanks, insert=True)

    def _delete_at(self, row: Row, x: int, count: int) -> None:
        super()._delete_at(row, x, count)
        count = min(count, self.columns - x)
        if row.styles is not None:
            del row.styles[x : x + count]
        if self._blanks is not PLAIN:
            self._fill(row, self.columns - count, self.columns, self._blanks)

    def _remove_rows(self, top: int, count: int) -> None:
        super()._remove_rows(top, count)
        self._tint(self._bottom - count + 1, self._bottom + 1)

    def _add_rows(self, top: int, count: int) -> None:
        super()._add_rows(top, count)
        self._tint(top, top + min(count, self._bottom - top + 1))

    def _tint(self, start: int, end: int) -> None:
        """Give new rows the background that is set."""
        if (blanks := self._blanks) is not PLAIN:
            for row in self.rows[start:end]:
                self._fill(row, 0, self.columns, blanks)
