"""A screen that keeps colours and attributes, for whoever shows it to a person."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from .cells import REST, is_narrow, width
from .emulator import Emulator, Offsets, numbers_of
from .rows import left
from .style import PLAIN, Span, Style, blank, render

if TYPE_CHECKING:
    from .rows import Row


DEEPEST_KEYBOARD = 8
"""Sets of flags of kitty's keyboard protocol that a program can put one upon the other; the oldest is forgotten then."""

KEYBOARD = 0b11001
"""The flags that are heeded: keys that cannot be confused, all keys as sequences, and their text (1, 8, 16). Releases (2) and
other layouts' keys (4) are not known here."""


class StyledEmulator(Emulator):
    """Draws as `Emulator` does, the same text in the same places, and keeps how each column is shown.

    It takes some two to four times as long for it, and the memory of a reference for each column. What is erased, and what
    scrolls in, has the background that is set then, as ``bce`` of ``xterm-256color`` promises.

    Attributes:
        style: How text that comes next is shown.
    """

    style: Style

    def spans(self, row: Row) -> tuple[Span, ...]:
        """A row as far as the terminal is wide, cut where the style changes; without the plain blanks at its end."""
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
        """Draw some output, as `Emulator.feed` does."""
        self._offsets = Offsets(data, at, lines)
        self._draw_all(data)

    # --- what sets the style ------------------------------------------------------------------------------

    def _reset(self) -> None:
        super()._reset()
        self.style = PLAIN
        self._keyboards = ([0], [0])  # of the main screen, and of the alternate one: the last flags count

    def _reset_softly(self) -> None:
        super()._reset_softly()
        self.style = PLAIN

    # --- kitty's keyboard protocol, for whoever has a person before it -----------------------------------------

    def _control(self, parameters: bytes, final: bytes) -> None:
        if final != b"u" or parameters[:1] not in (b"?", b"<", b"=", b">"):
            super()._control(parameters, final)
            return
        stack, numbers = self._keyboards[self.alternate], numbers_of(parameters[1:])
        kind, first = parameters[:1], numbers[0]
        if kind == b"?":
            self.replies.append(b"\x1b[?%du" % stack[-1])
        elif kind == b">":
            if len(stack) > DEEPEST_KEYBOARD:
                del stack[1]  # the protocol has the oldest forgotten; the first one is the terminal's own
            stack.append(first & KEYBOARD)
        elif kind == b"<":
            del stack[max(1, len(stack) - max(first, 1)) :]
        else:
            change = first & KEYBOARD
            how = numbers[1] if len(numbers) > 1 else 1
            stack[-1] = {2: stack[-1] | change, 3: stack[-1] & ~change}.get(how, change)
        self._tell_keyboard()

    def _show_alternate(self, on: bool, *, cursor: bool) -> None:
        before = self.alternate
        super()._show_alternate(on, cursor=cursor)
        if on and not before:
            self._keyboards[True][:] = [0]
        self._tell_keyboard()

    def _tell_keyboard(self) -> None:
        self.modes = replace(self.modes, keyboard=self._keyboards[self.alternate][-1])

    def _render(self, parameters: bytes) -> None:
        if parameters.translate(None, b"0123456789:;"):
            return  # another sequence that ends the same
        self.style = render(self.style, parameters)

    def _save(self) -> None:
        super()._save()
        self._saved.style = self.style

    def _restore(self) -> None:
        super()._restore()
        self.style = self._saved.style or PLAIN

    # --- what is drawn with it ----------------------------------------------------------------------------

    def _write(self, text: str) -> None:
        narrow = is_narrow(text)
        at = 0
        while at < len(text):
            room = self.columns - 1 - self.x
            size = max(1, room if narrow else room // 2)
            piece = text[at : at + size]
            at += len(piece)
            if room > 0 and not self._insert:  # it stays on the row
                x = self.x
                super()._write(piece)
                self._fill(self.rows[self.y], x, self.x, self.style)
                continue
            # One character, which may come to stand on another row; there it is before the cursor.
            piece, at = piece[0], at - len(piece) + 1
            super()._write(piece)
            columns = 1 if narrow or piece >= "\U00100000" or piece == REST else width(piece)
            if columns:
                self._fill(self.rows[self.y], self.x - columns, self.x, self.style, insert=self._insert)

    def _fill(self, row: Row, start: int, end: int, style: Style, *, insert: bool = False) -> None:
        """Have columns shown so. With `insert` what stood there moves to the right."""
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

    def _blank(self, start: int, end: int) -> None:
        super()._blank(start, end)
        blanks = self._blanks
        for row in self.rows[start:end]:
            row.styles = None if blanks is PLAIN else [blanks] * self.columns

    def _erase(self, count: int) -> None:
        super()._erase(count)
        self._fill(self.rows[self.y], self.x, min(self.x + max(count, 1), self.columns), self._blanks)

    def _insert_blanks(self, count: int) -> None:
        super()._insert_blanks(count)
        end = min(self.x + max(count, 1), self.columns)
        self._fill(self.rows[self.y], self.x, end, self._blanks, insert=True)

    def _delete(self, count: int) -> None:
        super()._delete(count)
        row, x = self.rows[self.y], self.x
        count = min(max(count, 1), self.columns - x)
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
        """Give rows that have come in the background that is set."""
        if (blanks := self._blanks) is not PLAIN:
            for row in self.rows[start:end]:
                self._fill(row, 0, self.columns, blanks)
