"""A terminal's screen, kept as a person would see it: what ``TERM=xterm-256color`` promises, without the colours."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right, insort
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from . import queries
from .cells import REST, Cells, is_narrow
from .decode import CSI, ESCAPE, STRING, STRING_END
from .rows import Row, left, over, right

if TYPE_CHECKING:
    from collections.abc import Callable

    from .._types import Terminal
    from .style import Style

LONGEST_TITLE = 256
"""Characters of a title that are kept."""

LARGEST_NUMBER = 99_999
"""The largest number that a sequence can give; a larger one counts as this."""

# Colours are no matter here; `styled` keeps them. CAN takes their place: it ends what ESC would have ended, and is nothing itself.
_COLOURS = re.compile(rb"\x1b\[[0-9;:]{0,256}+m")

# A run of text; a CSI as its parameters and its final byte; or anything else. What is begun and not ended is shown
# without its introducer, by the rule in `decode`.
_TEXT = rb"[^\x00-\x17\x19-\x1f\x7f\xc2]"
_TOKENS = re.compile(
    rb"((?:" + _TEXT + rb"++|\xc2(?![\x80-\x9f]))++)"
    rb"|" + CSI.replace(rb"[0-?]", rb"([0-?]", 1) + rb")([@-~])"
    rb"|(\r\n|" + STRING + STRING_END + rb"|" + ESCAPE + rb"|[\x00-\x1f\x7f])"
)

# What ends a line, or has it scroll away, and is no line feed.
_INDEX = re.compile(rb"[\x0b\x0c]|\x1b[DE]|\xc2[\x84\x85]")
_SCROLL = re.compile(rb"(?:\x1b\[|\xc2\x9b)[0-?]{0,256}+S")

_PLACE = re.compile(rb"([0-9]{1,5});([0-9]{1,5})")

# Many whole lines, as a flood has them.
_LINES = re.compile(rb"(?<=\n)(?:" + _TEXT + rb"*+\r\n){8,}+")

_LINE_DRAWING = str.maketrans("_`abcdefghijklmnopqrstuvwxyz{|}~", " ◆▒␉␌␍␊°±␤␋┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·")

Mouse = Literal["press", "click", "drag", "move"]

_MOUSE: dict[int, Mouse] = {9: "press", 1000: "click", 1002: "drag", 1003: "move"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Modes:
    """What a program has told the terminal about the keys it wants.

    Attributes:
        application_cursor: Arrows, Home and End are sent as ``ESC O`` and a letter.
        application_keypad: The keypad sends sequences of its own.
        bracketed_paste: What is pasted is to stand between ``CSI 200 ~`` and ``CSI 201 ~``.
        mouse: What of the mouse is reported, each with what stands before it; ``None`` is nothing.
        mouse_sgr: The mouse is reported in the form that has no largest column.
        focus: Gaining and losing the focus is reported.
        keyboard: The flags of kitty's keyboard protocol, as far as they are heeded; 0 is the usual way to send keys.
    """

    application_cursor: bool = False
    application_keypad: bool = False
    bracketed_paste: bool = False
    mouse: Mouse | None = None
    mouse_sgr: bool = False
    focus: bool = False
    keyboard: int = 0


class Offsets:
    """Where in a piece of output lines end: how many bytes, and how many line feeds, end there."""

    def __init__(self, data: bytes, at: int, lines: int) -> None:
        self._data = data
        self._at = at
        self._found = 0
        self._lines = lines

    def next(self) -> tuple[int, int]:
        """Go on to the next line feed."""
        self._found = self._data.find(b"\n", self._found) + 1
        self._lines += 1
        return self._at + self._found, self._lines

    def after(self, end: re.Pattern[bytes]) -> tuple[int, int]:
        """Go on to the next of what ends a line without a line feed."""
        match = end.search(self._data, self._found)
        if match is not None:
            self._found = match.end()
        return self.last

    @property
    def last(self) -> tuple[int, int]:
        """Where the last line ended, or scrolled away."""
        return self._at + self._found, self._lines


@dataclass(slots=True)
class _Saved:
    """What DECSC saves."""

    x: int = 0
    y: int = 0
    sets: tuple[bool, bool] = (False, False)
    shift: int = 0
    origin: bool = False
    wrap: bool = True
    style: Style | None = None


class Emulator:
    """Draws output on a screen.

    Its memory is bounded by the size of the terminal and by what stands in `scrolled` until it is taken. A sequence
    takes time in proportion to that size at most, whatever numbers it has; `backlog.pieces` tells how much.

    Args:
        terminal: Its size.

    Attributes:
        scrolled: Rows that have left the main screen at its top, and will not change any more; whoever feeds takes
            them.
        replies: Answers to what the program has asked, in the order of the questions; whoever feeds takes them.
        frame: The last frame of the alternate screen that was left; ``None`` when it was not used.
        title: What the program calls its window.
        modes: What keys it wants.
        cursor_visible: Whether it shows its cursor.
    """

    def __init__(self, terminal: Terminal) -> None:
        self.columns = terminal.columns
        self.height = terminal.rows
        self.scrolled: list[Row] = []
        self.replies: list[bytes] = []
        self.frame: str | None = None
        self.reader = Cells()
        self._handlers = _handlers(self)
        self._offsets = Offsets(b"", 0, 0)
        self._reset()

    def _reset(self) -> None:
        self.title = ""
        self.modes = Modes()
        self.rows = [Row() for _ in range(self.height)]
        self._other: list[Row] | None = None  # the main screen's, while the alternate one is shown
        self.x = 0  # is `columns` when the last column was written and the next character wraps
        self.y = 0
        self._top, self._bottom = 0, self.height - 1
        self._wrap, self._insert, self._origin, self._newline, self.cursor_visible = (
            True,
            False,
            False,
            False,
            True,
        )
        self._sets, self._shift = (False, False), 0  # whether G0 and G1 draw lines; which of them is in use
        self._drawing = False
        self._saved, self._main_saved = _Saved(), _Saved()
        self._stops: list[int] | None = None  # in their order; None is every eighth column
        self._last = ""

    # --- what others ask ----------------------------------------------------------------------------------

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
        """The text of a row, as far as the terminal is wide, without the blanks at its end."""
        return self.reader.read(left(row.cells, self.columns).rstrip(" "))

    def picture(self) -> str:
        """The text of the screen that is shown, without blank rows at its end."""
        return "\n".join([self.text(row) for row in self.rows]).rstrip("\n")

    # --- drawing ------------------------------------------------------------------------------------------

    def feed(self, data: bytes, at: int, lines: int) -> None:
        """Draw some output.

        Args:
            data: Raw bytes that end with nothing `unfinished`.
            at: Bytes that came before.
            lines: Line feeds that came before.
        """
        self._offsets = Offsets(data, at, lines)
        self._draw_all(_COLOURS.sub(b"\x18", data) if b"\x1b[" in data else data)

    def _draw_all(self, data: bytes) -> None:
        done = 0
        for flood in _LINES.finditer(data):
            self._draw(data[done : flood.start()])
            if not self._write_lines(flood[0]):
                self._draw(flood[0])
            done = flood.end()
        self._draw(data[done:] if done else data)

    def _draw(self, data: bytes) -> None:
        handlers, offsets = self._handlers, self._offsets
        for run, parameters, final, other in _TOKENS.findall(data):
            if run:
                text = run.decode("utf-8", "replace")
                if "\x18" in text:
                    text = text.replace("\x18", "")
                if text:
                    self._write(text)
            elif final:
                if final == b"m" and parameters[:1] != b"?":
                    self._render(parameters)
                    continue
                handler = handlers.get(final)
                if handler is not None and (not parameters or parameters.isdigit()):
                    handler(int(parameters or 0) if len(parameters) < 6 else LARGEST_NUMBER)
                elif final == b"H" and (place := _PLACE.fullmatch(parameters)) is not None:
                    self._to(int(place[1]) - 1, int(place[2]) - 1)
                else:
                    self._control(parameters, final)
            elif other == b"\r":
                self.x = 0
            elif other == b"\r\n":
                self.x = 0
                row = self.rows[self.y]
                row.end, row.ends = offsets.next()
                self._index()
            elif other == b"\n":
                row = self.rows[self.y]
                row.end, row.ends = offsets.next()
                if self._newline:
                    self.x = 0
                self._index()
            else:
                self._escape(other)

    def _write_lines(self, data: bytes) -> bool:
        """Write many whole lines at once, if nothing but text will come of it."""
        rows, columns = self.rows, self.columns
        simple = self._wrap and not (self._insert or self._drawing or self.x or self._other)
        if not simple or self._top or self._bottom != self.height - 1:
            return False
        text = data.decode("utf-8", "replace").replace("\x18", "")
        if any(row.cells for row in rows[self.y :]) or not (
            text.isascii() or is_narrow(text.replace("\r\n", ""))
        ):
            return False
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
        self._last = lines[-1][-1:] or self._last
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
        if not is_narrow(text):
            before = row.cells[:x]
            changed, text = self.reader.lay(text, before)
            if changed:
                row.cells = before[: -len(changed)] + changed + row.cells[x : self.columns]
            if not text:
                self._last = changed or self._last
                return
        self._last = text[-2:] if text[-1] == REST else text[-1]
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
        """The last column, or the last two, take all that comes there, one after the other."""
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
        """The row that the cursor is in is not continued by the next one, or not any more."""
        if self.y < self.height - 1:
            self.rows[self.y + 1].continues = False

    def _index(self) -> None:
        if self.y == self._bottom:
            self._scroll_up(1)
        elif self.y < self.height - 1:
            self.y += 1

    def _reverse_index(self) -> None:
        if self.y == self._top:
            self._add_rows(self._top, 1)
        elif self.y:
            self.y -= 1

    def _scroll_up(self, count: int) -> None:
        """Scroll. Rows that leave the main screen at its top are kept; all others are gone."""
        count = min(count, self._bottom - self._top + 1)
        if self._top == 0 and self._other is None:
            gone = self.rows[:count]
            for row in gone:
                if not row.end:
                    row.end, row.ends = self._offsets.last
            self.scrolled += gone
        self._remove_rows(self._top, count)

    def _scroll(self, count: int) -> None:
        self._offsets.after(_SCROLL)
        self._scroll_up(max(count, 1))

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
        first, last = (self._top, self._bottom) if self._origin else (0, self.height - 1)
        self.y = min(max(first + y, first), last)
        self.x = min(max(x, 0), self.columns - 1)

    def _up(self, count: int) -> None:
        first = self._top if self.y >= self._top else 0
        self.y = max(self.y - max(count, 1), first)
        self.x = self.column

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

    def _position(self, number: int) -> None:
        self._to(max(number, 1) - 1, 0)

    def _tab(self, count: int) -> None:
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

    def _save(self) -> None:
        self._saved = _Saved(self.x, self.y, self._sets, self._shift, self._origin, self._wrap)

    def _restore(self) -> None:
        saved = self._saved
        self.x, self.y = min(saved.x, self.columns), min(saved.y, self.height - 1)
        self._sets, self._origin, self._wrap = saved.sets, saved.origin, saved.wrap
        self._shift_to(saved.shift)

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

    def _blank(self, start: int, end: int) -> None:
        for row in self.rows[start:end]:
            row.cells = ""
            row.continues = False

    def _erase(self, count: int) -> None:
        row, x = self.rows[self.y], self.x
        end = x + max(count, 1)
        if end >= min(len(row.cells), self.columns):
            row.cells = left(row.cells, x)
        else:
            row.cells = left(over(row.cells, x, " " * (end - x)), self.columns)
        if end >= self.columns:
            self._end_line()

    def _insert_blanks(self, count: int) -> None:
        row, x = self.rows[self.y], self.x
        if len(row.cells) > x:
            blanks = " " * min(max(count, 1), self.columns - x)
            row.cells = left(left(row.cells, x) + blanks + right(row.cells, x), self.columns)
        self._end_line()

    def _delete(self, count: int) -> None:
        row, x = self.rows[self.y], self.x
        if len(row.cells) > x:
            row.cells = left(row.cells, x) + right(left(row.cells, self.columns), x + max(count, 1))
        self._end_line()

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
        if self._last:
            drawing, self._drawing = self._drawing, False  # it was translated when it was written
            self._write(self.reader.read(self._last) * min(max(count, 1), self.columns))
            self._drawing = drawing

    # --- sequences ----------------------------------------------------------------------------------------

    def _control(self, parameters: bytes, final: bytes) -> None:
        answer = queries.FIXED.get(parameters + final)
        if answer is not None:
            self.replies.append(answer)
            return
        if parameters[:1] in (b"<", b"=", b">"):
            return
        private = parameters[:1] == b"?"
        rest = parameters[1:] if private else parameters
        intermediate = rest[-1:] if rest[-1:] and rest[-1] < 0x30 else b""
        numbers = numbers_of(rest[: -len(intermediate)] if intermediate else rest)
        first = numbers[0]
        if intermediate:
            if final == b"p" and intermediate == b"$":
                self._tell_mode(first, private=private)
            elif final == b"p" and intermediate == b"!":
                self._reset_softly()
        elif final in (b"h", b"l"):
            for number in numbers:
                if private:
                    self._set_private(number, on=final == b"h")
                else:
                    self._set(number, on=final == b"h")
        elif final == b"n":
            if first == 6:
                self._tell_cursor(private=private)
        elif private:
            if final == b"J":
                self._erase_screen(first)  # selective: nothing is protected
            elif final == b"K":
                self._erase_line(first)
        elif final in (b"H", b"f"):
            self._to(max(first, 1) - 1, max(numbers[1] if len(numbers) > 1 else 1, 1) - 1)
        elif final == b"r":
            self._set_margins(first, numbers[1] if len(numbers) > 1 else 0)
        elif final == b"t":
            if (answer := queries.size(first, self.columns, self.height)) is not None:
                self.replies.append(answer)
        elif final in self._handlers:
            self._handlers[final](first)

    def _escape(self, sequence: bytes) -> None:
        if sequence[:1] == b"\xc2" and len(sequence) == 2:
            sequence = b"\x1b" + bytes([sequence[1] - 0x40])
        if sequence in _ENDS:
            row = self.rows[self.y]
            row.end, row.ends = self._offsets.after(_INDEX)
        if sequence in _SIMPLE:
            _SIMPLE[sequence](self)
        elif sequence[:1] == b"\xc2" or sequence[1:2] in (b"]", b"P"):
            end = 1 if sequence[-1:] == b"\x07" else 2
            if len(sequence) > 2:
                self._string(sequence[:-end], sequence[-end:])

    def _string(self, sequence: bytes, end: bytes) -> None:
        kind, content = sequence[:2], sequence[2:]
        if kind in (b"\x1bP", b"\xc2\x90"):
            answer = queries.device_control(content, self._top, self._bottom)
        elif kind in (b"\x1b]", b"\xc2\x9d"):
            number, _, rest = content.partition(b";")
            if number in (b"0", b"2"):
                self.title = "".join(filter(str.isprintable, rest.decode("utf-8", "replace")))[:LONGEST_TITLE]
            answer = queries.operating_system_command(content, b"\x07" if end == b"\x07" else b"\x1b\\")
        else:
            return
        if answer:
            self.replies.append(answer)

    def _render(self, parameters: bytes) -> None:
        """Show what comes next in another way: no matter here."""

    def _tell_cursor(self, *, private: bool) -> None:
        y = self.y - self._top if self._origin else self.y
        self.replies.append(b"\x1b[%s%d;%dR" % (b"?" if private else b"", y + 1, self.column + 1))

    def _tell_mode(self, number: int, *, private: bool) -> None:
        state = self._private_mode(number) if private else {4: self._insert, 20: self._newline}.get(number)
        told = 0 if state is None else 1 if state else 2
        self.replies.append(b"\x1b[%s%d;%d$y" % (b"?" if private else b"", number, told))

    def _private_mode(self, number: int) -> bool | None:
        modes = self.modes
        if number in _MOUSE:
            return modes.mouse == _MOUSE[number]
        return {
            1: modes.application_cursor,
            6: self._origin,
            7: self._wrap,
            25: self.cursor_visible,
            47: self.alternate,
            66: modes.application_keypad,
            1004: modes.focus,
            1006: modes.mouse_sgr,
            1047: self.alternate,
            1049: self.alternate,
            2004: modes.bracketed_paste,
        }.get(number)

    def _set(self, number: int, *, on: bool) -> None:
        if number == 4:
            self._insert = on
        elif number == 20:
            self._newline = on

    def _set_private(self, number: int, *, on: bool) -> None:
        if number == 1:
            self.modes = replace(self.modes, application_cursor=on)
        elif number == 6:
            self._origin = on
            self._to(0, 0)
        elif number == 7:
            self._wrap = on
        elif number == 25:
            self.cursor_visible = on
        elif number == 66:
            self.modes = replace(self.modes, application_keypad=on)
        elif number in _MOUSE:
            if on or self.modes.mouse == _MOUSE[number]:
                self.modes = replace(self.modes, mouse=_MOUSE[number] if on else None)
        elif number == 1004:
            self.modes = replace(self.modes, focus=on)
        elif number == 1006:
            self.modes = replace(self.modes, mouse_sgr=on)
        elif number == 2004:
            self.modes = replace(self.modes, bracketed_paste=on)
        elif number in (47, 1047, 1049):
            self._show_alternate(on, cursor=number == 1049)
        elif number == 1048:
            if on:
                self._save()
            else:
                self._restore()

    def _set_margins(self, top: int, bottom: int) -> None:
        top = max(top, 1) - 1
        bottom = min(bottom or self.height, self.height) - 1
        if top < bottom:
            self._top, self._bottom = top, bottom
            self._to(0, 0)

    def _show_alternate(self, on: bool, *, cursor: bool) -> None:
        if on and self._other is None:
            if cursor:
                self._save()
            self._main_saved, self._saved = self._saved, _Saved()
            self._other, self.rows = self.rows, [Row() for _ in range(self.height)]
            self.frame = ""
        elif not on and self._other is not None:
            self._keep_frame()
            self.rows, self._other = self._other, None
            self._saved = self._main_saved
            if cursor:
                self._restore()
            self.x, self.y = min(self.x, self.columns), min(self.y, self.height - 1)
        elif not on and cursor:
            self._restore()  # also where there is nothing to leave, as xterm does

    def _keep_frame(self) -> None:
        """Remember what the alternate screen shows, unless it was wiped just before it is left."""
        self.frame = self.picture() or self.frame

    def _shift_to(self, number: int) -> None:
        self._shift = number
        self._drawing = self._sets[number]

    def _designate(self, number: int, drawing: bool) -> None:
        sets = list(self._sets)
        sets[number] = drawing
        self._sets = (sets[0], sets[1])
        self._drawing = self._sets[self._shift]

    def _set_keypad(self, on: bool) -> None:
        self.modes = replace(self.modes, application_keypad=on)

    def _new_line(self) -> None:
        self.x = 0
        self._index()

    def _reset_softly(self) -> None:
        self._top, self._bottom = 0, self.height - 1
        self._wrap, self._insert, self._origin, self.cursor_visible = True, False, False, True
        self._sets = (False, False)
        self._shift_to(0)
        self._saved = _Saved()
        self.modes = replace(self.modes, application_cursor=False, application_keypad=False)

    def _reset_fully(self) -> None:
        if self._other is not None:
            self._show_alternate(False, cursor=False)
        self._reset()

    # --- size ---------------------------------------------------------------------------------------------

    def resize(self, terminal: Terminal) -> None:
        """Have another size. No row is wrapped anew: programs draw again when they hear of it.

        A lower screen loses the blank rows below the cursor first, and then those at its top, which count as scrolled.
        """
        self.columns, self.height = terminal.columns, terminal.rows
        if self._other is None:
            gone = self._fit(self.rows, self.y)
            self.y -= len(gone)
        else:
            gone = self._fit(self._other, self._main_saved.y)
            self._main_saved.y = max(self._main_saved.y - len(gone), 0)
            self.y -= len(self._fit(self.rows, self.y))
        self.scrolled += gone
        self._top, self._bottom = 0, self.height - 1
        self.y = min(max(self.y, 0), self.height - 1)
        self.x = min(self.x, self.columns)

    def _fit(self, rows: list[Row], y: int) -> list[Row]:
        """Make rows as many as there can be, and return those that had to leave at the top."""
        while len(rows) > max(self.height, y + 1) and not rows[-1].cells:
            rows.pop()
        surplus = max(0, len(rows) - self.height)
        gone = rows[:surplus]
        del rows[:surplus]
        rows += [Row() for _ in range(self.height - len(rows))]
        return gone


def _handlers(screen: Emulator) -> dict[bytes, Callable[[int], None]]:
    """What the plain sequences with at most one number do, by their final byte."""
    return {
        b"@": screen._insert_blanks,
        b"A": screen._up,
        b"B": screen._down,
        b"C": screen._right,
        b"D": screen._left,
        b"E": screen._next_line,
        b"F": screen._previous_line,
        b"G": screen._to_column,
        b"H": screen._position,
        b"I": screen._tab,
        b"J": screen._erase_screen,
        b"K": screen._erase_line,
        b"L": screen._insert_rows,
        b"M": screen._delete_rows,
        b"P": screen._delete,
        b"S": screen._scroll,
        b"T": lambda count: screen._add_rows(screen._top, max(count, 1)),
        b"X": screen._erase,
        b"Z": screen._back_tab,
        b"`": screen._to_column,
        b"a": screen._right,
        b"b": screen._repeat,
        b"d": screen._to_row,
        b"e": screen._down,
        b"f": screen._position,
        b"g": screen._clear_stop,
        b"s": lambda _: screen._save(),
        b"u": lambda _: screen._restore(),
    }


_SIMPLE: dict[bytes, Callable[[Emulator], None]] = {
    b"\b": lambda screen: screen._left(1),
    b"\t": lambda screen: screen._tab(1),
    b"\x0b": Emulator._index,
    b"\x0c": Emulator._index,
    b"\x0e": lambda screen: screen._shift_to(1),
    b"\x0f": lambda screen: screen._shift_to(0),
    b"\x1b7": lambda screen: screen._save(),
    b"\x1b8": lambda screen: screen._restore(),
    b"\x1b=": lambda screen: screen._set_keypad(True),
    b"\x1b>": lambda screen: screen._set_keypad(False),
    b"\x1bD": Emulator._index,
    b"\x1bE": Emulator._new_line,
    b"\x1bH": Emulator._set_stop,
    b"\x1bM": Emulator._reverse_index,
    b"\x1bZ": lambda screen: screen.replies.append(queries.FIXED[b"c"]),
    b"\x1bc": Emulator._reset_fully,
    **{b"\x1b(" + name: lambda screen: screen._designate(0, False) for name in (b"B", b"A", b"1", b"U")},
    **{b"\x1b)" + name: lambda screen: screen._designate(1, False) for name in (b"B", b"A", b"1", b"U")},
    b"\x1b(0": lambda screen: screen._designate(0, True),
    b"\x1b)0": lambda screen: screen._designate(1, True),
}


_ENDS = frozenset((b"\x0b", b"\x0c", b"\x1bD", b"\x1bE"))


def numbers_of(parameters: bytes) -> list[int]:
    """The numbers of a sequence, of which there is at least one; what is left out is 0."""
    return [
        min(int(number[:6]), LARGEST_NUMBER) if number.isdigit() else 0
        for number in parameters.replace(b":", b";").split(b";")[:32]
    ]
