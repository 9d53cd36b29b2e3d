"""The terminal emulator: text, controls and sequences of ``TERM=xterm-256color``, without the colours."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from ..sequences import COLOURS, CONTROL, OTHER, STRING, STRING_END, number_of, numbers_of
from . import queries
from .grid import TEXT, Grid, Offsets
from .rows import Row

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..._types import Terminal
    from .style import Style

LONGEST_TITLE = 256
"""Characters of a terminal's title that are kept."""

DEEPEST_KEYBOARD = 8
"""Sets of flags of kitty's keyboard protocol that a program can push; beyond that, the oldest set is forgotten."""

KEYBOARD = 0b11001  # no bound
"""The supported flags: keys that cannot be confused (1), all keys as sequences (8), and the text of keys (16). Releases (2) and
other layouts' keys (4) are not supported."""

# Colours are ignored here; `styled` keeps colours. CAN replaces a colour sequence: CAN ends an unfinished sequence as the ESC of
# the colour sequence would have, and has no effect of its own.
_COLOURS = re.compile(COLOURS)

# A run of text; a CSI as its parameters and its final byte; or any other control or sequence. An unfinished sequence is shown
# without its introducer, by the rule in `decode`.
_TOKENS = re.compile(
    rb"((?:" + TEXT + rb"++|\xc2(?![\x80-\x9f]))++)"
    rb"|" + CONTROL + rb"|(\r\n|" + OTHER + rb"|[\x00-\x1f\x7f])"
)

# Controls and sequences, other than a line feed, that end a line or scroll the line away.
_INDEX = re.compile(STRING + STRING_END + rb"|([\x0b\x0c]|\x1b[DE]|\xc2[\x84\x85])")

_PLACE = re.compile(rb"([0-9]++);([0-9]++)")

# Many whole lines, as in a flood of output. The pattern begins with the line feed before the lines, since `re` quickly finds a
# pattern that begins with one character.
_LINES = re.compile(rb"\n((?:" + TEXT + rb"*+\r\n){8,}+)")

Mouse = Literal["press", "click", "drag", "move"]

_MOUSE: dict[int, Mouse] = {9: "press", 1000: "click", 1002: "drag", 1003: "move"}


@dataclass(frozen=True, slots=True, kw_only=True)
class InputModes:
    """The input modes that a program has set on its terminal.

    Attributes:
        application_cursor: Arrows, Home and End are sent as ``ESC O`` and a letter.
        application_keypad: The keypad sends sequences of its own.
        bracketed_paste: Pasted text is sent between ``CSI 200 ~`` and ``CSI 201 ~``.
        mouse: The reported mouse events: ``press``; ``click``, with releases; ``drag``, with moves while a button is held;
            ``move``, with all moves; ``None`` means no events.
        mouse_sgr: The mouse is reported in the form that has no largest column.
        focus: Gaining and losing the focus is reported.
        keyboard: The supported flags of kitty's keyboard protocol that are set; 0 is the usual way to send keys.
    """

    application_cursor: bool = False
    application_keypad: bool = False
    bracketed_paste: bool = False
    mouse: Mouse | None = None
    mouse_sgr: bool = False
    focus: bool = False
    keyboard: int = 0


@dataclass(slots=True)
class _Saved:
    """The state that DECSC saves: a pending wrap is part of the state, the wrapping mode (DECAWM) is not, as in xterm."""

    x: int = 0
    y: int = 0
    pending: bool = False
    sets: tuple[bool, bool] = (False, False)
    shift: int = 0
    origin: bool = False
    protecting: bool = False
    style: Style | None = None


class Emulator(Grid):
    """The emulator that draws output on a screen.

    The memory is bounded by the size of the terminal, and by the rows in `scrolled` until the caller takes the rows. A sequence
    takes at most time in proportion to that size, whatever its numbers are; `backlog.pieces` estimates the time.

    Args:
        terminal: The size of the terminal.

    Attributes:
        replies: Answers to the program's queries, in the order of the queries; the caller of `feed` takes the answers.
        title: The window title that the program has set.
        modes: The input modes that the program has set.
        cursor_visible: Whether the program shows the cursor.
    """

    def __init__(self, terminal: Terminal) -> None:
        super().__init__(terminal)
        self.replies: list[bytes] = []
        self._handlers = _handlers(self)

    def _reset(self) -> None:
        super()._reset()
        self.title = ""
        self.modes = InputModes()
        self._newline, self.cursor_visible = False, True
        self._written = False  # whether the last output was a character, for REP
        self._many_columns = False  # whether DECCOLM is set, which gives 132 columns on other terminals
        self._sets, self._shift = (False, False), 0  # whether G0 and G1 draw lines; the one in use
        self._saved, self._other_saved = _Saved(), _Saved()  # of the shown screen, and of the other screen
        self._keyboards = ([0], [0])  # flags of the main and of the alternate screen; the last are in use

    # --- drawing ------------------------------------------------------------------------------------------

    def feed(self, data: bytes, at: int, lines: int) -> None:
        """Draw a piece of output.

        Args:
            data: Raw bytes, `interrupted.settled`, that do not end with an `interrupted.unfinished` character or sequence.
            at: Bytes of the output before the piece.
            lines: Line feeds of the output before the piece.
        """
        self._offsets = Offsets(data, at, lines)
        self._draw_all(_COLOURS.sub(b"\x18", data) if b"\x1b[" in data else data)

    def _draw_all(self, data: bytes) -> None:
        done = 0
        for flood in _LINES.finditer(data):
            self._draw(data[done : flood.start(1)])
            if not self._write_lines(flood[1]):
                self._draw(flood[1])
            done = flood.end()
        self._draw(data[done:] if done else data)

    def _draw(self, data: bytes) -> None:
        handlers, offsets, written = self._handlers, self._offsets, self._written
        for run, parameters, final, other in _TOKENS.findall(data):
            # A token is a run of text, a control sequence, or any other control. Only text, colours and REP keep `written` true,
            # since REP repeats the character before the REP (ECMA-48, 8.3.103).
            if run:
                text = run.decode("utf-8", "replace")
                if "\x18" in text:
                    text = text.replace("\x18", "")
                if text:
                    self._write(text)
                    written = True
            elif final:
                if final == b"m" and parameters[:1] != b"?":
                    self._render(parameters)
                    continue
                handler = handlers.get(final)
                if handler is not None and (not parameters or parameters.isdigit()):
                    handler(int(parameters or 0) if len(parameters) < 6 else number_of(parameters))
                elif final == b"H" and (place := _PLACE.fullmatch(parameters)) is not None:
                    self._to(int(place[1]) - 1, int(place[2]) - 1)
                elif final == b"b" and not parameters.strip(b"0123456789;:"):
                    if written:
                        self._repeat(numbers_of(parameters)[0])
                    continue
                else:
                    self._control(parameters, final)
                written = False
            else:
                written = False
                if other == b"\r":
                    self.x = 0
                elif other == b"\r\n":
                    self.x = 0
                    row = self.rows[self.y]
                    row.end, row.ends = offsets.next()
                    self._index()
                elif other == b"\n":
                    row = self.rows[self.y]
                    row.end, row.ends = offsets.next()
                    self._feed_line()
                else:
                    self._escape(other)
        self._written = written

    def _feed_line(self) -> None:
        if self._newline:
            self.x = 0
        self._line_feed()

    def _save(self) -> None:
        pending = self.x >= self.columns
        self._saved = _Saved(self.x, self.y, pending, self._sets, self._shift, self._origin, self._protecting)

    def _restore(self) -> None:
        saved = self._saved
        self._sets, self._origin, self._protecting = saved.sets, saved.origin, saved.protecting
        self._to(saved.y - (self._top if self._origin else 0), saved.x)
        if saved.pending:
            self.x = min(saved.x, self.columns)
        self._shift_to(saved.shift)

    # --- sequences ----------------------------------------------------------------------------------------

    def _control(self, parameters: bytes, final: bytes) -> None:
        answer = queries.FIXED.get(parameters + final)
        if answer is not None:
            self.replies.append(answer)
            return
        if final == b"u" and parameters[:1] in (b"?", b"<", b"=", b">"):
            self._speak_of_keys(parameters[:1], numbers_of(parameters[1:]))
        if parameters[:1] in (b"<", b"=", b">"):
            return
        # A sequence is a prefix, numbers, an intermediate and a final byte (ECMA-48, 5.4). The meaning of a final byte depends on
        # the prefix and the intermediate, so these are tested first.
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
            elif final == b"q" and intermediate == b'"':
                self._protecting = first == 1
            elif (change := _COLUMNS.get(intermediate + final)) is not None:
                change(self, first)
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
                self._erase_selectively(self._erase_screen, first, self.rows)
            elif final == b"K":
                self._erase_selectively(self._erase_line, first, [self.rows[self.y]])
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
        """Set the style of later text; the base class ignores styles."""

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
            3: self._many_columns,
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
        elif number == 3:
            # A switch wipes the screen, also without 132 columns. Resetting a mode that is not set is not a switch: terminfo's `init`
            # resets the mode, and would wipe text that a person reads.
            if on or self._many_columns:
                self._top, self._bottom = 0, self.height - 1
                self._erase_screen(2)
                self._to(0, 0)
            self._many_columns = on
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
            self._saved, self._other_saved = self._other_saved, self._saved
            self._other, self.rows = self.rows, [Row() for _ in range(self.height)]
            self.frame = ""
            self._keyboards[True][:] = [0]
        elif not on and self._other is not None:
            self._keep_frame()
            self.rows, self._other = self._other, None
            self._saved, self._other_saved = self._other_saved, self._saved
            if cursor:
                self._restore()
        elif not on and cursor:
            self._restore()  # also when the main screen is shown already, as in xterm
        self._tell_keyboard()

    # --- kitty's keyboard protocol ------------------------------------------------------------------------

    def _speak_of_keys(self, kind: bytes, numbers: list[int]) -> None:
        stack, first = self._keyboards[self.alternate], numbers[0]
        if kind == b"?":
            self.replies.append(b"\x1b[?%du" % stack[-1])
        elif kind == b">":
            if len(stack) > DEEPEST_KEYBOARD:
                del stack[1]  # the protocol forgets the oldest set; the first set is the terminal's own
            stack.append(first & KEYBOARD)
        elif kind == b"<":
            del stack[max(1, len(stack) - max(first, 1)) :]
        else:
            change = first & KEYBOARD
            how = numbers[1] if len(numbers) > 1 else 1
            stack[-1] = {2: stack[-1] | change, 3: stack[-1] & ~change}.get(how, change)
        self._tell_keyboard()

    def _tell_keyboard(self) -> None:
        self.modes = replace(self.modes, keyboard=self._keyboards[self.alternate][-1])

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
        self._protecting = False
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
        """Resize the screen. No row is wrapped anew: programs draw again after a resize.

        A lower screen first loses blank rows below the cursor, and then the rows at the top, which count as scrolled.
        """
        pending = self.x >= self.columns
        self.columns, self.height = terminal.columns, terminal.rows
        if self._other is None:
            gone = self._fit(self.rows, self.y)
            self.y -= len(gone)
        else:
            gone = self._fit(self._other, self._other_saved.y)
            self._other_saved.y = max(self._other_saved.y - len(gone), 0)
            self.y -= len(self._fit(self.rows, self.y))
        self.scrolled += gone
        self._top, self._bottom = 0, self.height - 1
        self.y = min(max(self.y, 0), self.height - 1)
        self.x = min(self.x, self.columns if pending else self.columns - 1)

    def _fit(self, rows: list[Row], y: int) -> list[Row]:
        """Fit rows to the height of the screen, and return the rows that left at the top."""
        while len(rows) > max(self.height, y + 1) and not rows[-1].cells:
            rows.pop()
        surplus = max(0, len(rows) - self.height)
        gone = rows[:surplus]
        del rows[:surplus]
        rows += [Row() for _ in range(self.height - len(rows))]
        return gone


def _handlers(screen: Emulator) -> dict[bytes, Callable[[int], None]]:
    """Return the handlers of plain sequences with at most one number, by final byte."""
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
        b"d": screen._to_row,
        b"e": screen._rows_down,
        b"f": screen._position,
        b"g": screen._clear_stop,
        b"s": lambda _: screen._save(),
        b"u": lambda _: screen._restore(),
    }


_SIMPLE: dict[bytes, Callable[[Emulator], None]] = {
    b"\b": lambda screen: screen._left(1),
    b"\t": lambda screen: screen._tab(1),
    b"\x0b": Emulator._feed_line,
    b"\x0c": Emulator._feed_line,
    b"\x0e": lambda screen: screen._shift_to(1),
    b"\x0f": lambda screen: screen._shift_to(0),
    b"\x1b7": lambda screen: screen._save(),
    b"\x1b8": lambda screen: screen._restore(),
    b"\x1b=": lambda screen: screen._set_keypad(True),
    b"\x1b>": lambda screen: screen._set_keypad(False),
    b"\x1b#8": Emulator._align,
    b"\x1bD": Emulator._line_feed,
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


_COLUMNS: dict[bytes, Callable[[Emulator, int], None]] = {
    b" @": lambda screen, count: screen._move_columns(screen._delete_at, 0, count),  # SL
    b" A": lambda screen, count: screen._move_columns(screen._insert_at, 0, count),  # SR
    b"'}": lambda screen, count: screen._move_columns(screen._insert_at, screen.column, count),  # DECIC
    b"'~": lambda screen, count: screen._move_columns(screen._delete_at, screen.column, count),  # DECDC
}


_ENDS = frozenset((b"\x0b", b"\x0c", b"\x1bD", b"\x1bE"))
