r"""The modes that a program has switched on in a terminal, for their reset when the program is gone.

The modes are read from the bytes that go to the terminal, and not from an emulated screen. A screen may skip output that
comes too fast, and does not need colours.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field

from ...output import unfinished
from ...output.sequences import CONTROL, OTHER

DEEPEST_KEYBOARD = 8
"""Entries of the stack of keyboard modes (kitty's protocol) that are restored; older entries are forgotten. The protocol
asks terminals for as many."""

_SEQUENCE = re.compile(CONTROL + rb"|(" + OTHER + rb"|[\x0e\x0f])")

_OFF = frozenset(
    (
        *(b"1", b"5", b"6", b"66"),  # cursor keys, reverse video, origin, keypad
        *(b"9", b"1000", b"1001", b"1002", b"1003"),  # which events of the mouse are reported
        *(b"1005", b"1006", b"1015", b"1016"),  # and in which format
        *(b"1004", b"2004", b"2026", b"2031", b"2048"),  # focus, paste, frames, colour scheme, size
        b"69",  # margins at the sides
    )
)
"""DEC's private modes, with the additions of others, that are off by default. The default of a mode that is neither in
`_OFF` nor in `_ON` is not known."""

_MOVES_CURSOR = frozenset((b"margins", b"?69", b"?6"))
"""Modes whose reset moves the cursor. The reset comes before leaving the alternate screen, which restores the cursor."""

_ON = frozenset((b"7", b"25"))  # wrapping, the cursor
_ALTERNATE = frozenset((b"47", b"1047", b"1049"))
_ANSI_OFF = frozenset((b"2", b"4", b"20"))  # locked keyboard, insertion, new line
_KEY_FORMATS = frozenset((b"1", b"2", b"4"))

_RESET_SOFTLY = (
    *(b"?" + number for number in (b"1", b"6", b"66", b"25")),
    *(b"4", b"colour", b"margins", b"shift", b"(", b")", b"*", b"+"),
)
"""The modes that DECSTR, the soft reset, resets."""


_ENDED_BY = {
    **dict.fromkeys((1, 2), 22),
    3: 23,
    **dict.fromkeys((4, 21), 24),
    **dict.fromkeys((5, 6), 25),
    7: 27,
    8: 28,
    9: 29,
    **dict.fromkeys(range(11, 20), 10),
    **dict.fromkeys((*range(30, 39), *range(90, 98)), 39),
    **dict.fromkeys((*range(40, 49), *range(100, 108)), 49),
    **dict.fromkeys((51, 52), 54),
    53: 55,
    58: 59,
    **dict.fromkeys((73, 74), 75),
}
"""The SGR number that switches off each rendition (ECMA-48, 8.3.117, and xterm's)."""
_COLOURS_BY_NUMBER = frozenset((38, 48, 58))
_NUMBERS_OF_A_COLOUR = {2: 4, 5: 2}
"""The count of numbers that follow the number of a colour, by the kind of the colour; the kind is counted."""


def _renditions(on: frozenset[int], parameters: bytes) -> frozenset[int]:
    """Return the SGR numbers that switch off all renditions after an SGR sequence, from the numbers before the sequence."""
    found = set(on)
    parts = [b"24" if each == b"4:0" else each for each in parameters.split(b";")]
    numbers = [int(each.partition(b":")[0][:4] or b"0") for each in parts]
    whole = [b":" in each for each in parts]  # with colons, a colour is one parameter
    at = 0
    while at < len(numbers):
        number = numbers[at]
        if number == 0:
            found.clear()
        elif number in _ENDED_BY.values():
            found.discard(number)
        else:
            found.add(_ENDED_BY.get(number, 0))
        if number in _COLOURS_BY_NUMBER and not whole[at] and at + 1 < len(numbers):
            at += _NUMBERS_OF_A_COLOUR.get(numbers[at + 1], 1)
        at += 1
    return frozenset(found)


@dataclass(slots=True)
class _Mode:
    """A changed mode: the sequence that sets the mode again, and the sequence that resets the mode."""

    again: bytes
    back: bytes


@dataclass(slots=True)
class _Keyboard:
    """The encoding of keys that a program has chosen on one screen by kitty's protocol."""

    pushed: deque[bytes] = field(default_factory=lambda: deque(maxlen=DEEPEST_KEYBOARD))
    set: bytes = b""

    @property
    def again(self) -> bytes:
        return b"".join(self.pushed) + self.set

    @property
    def back(self) -> bytes:
        return (b"\x1b[<%du" % len(self.pushed) if self.pushed else b"\x1b[=0u") if self.again else b""


class TerminalModes:
    """The modes that a program has switched on in its terminal.

    Tracked modes are: the alternate screen, a hidden cursor and the cursor's shape, the mouse, the focus, bracketed paste,
    the modes of cursor keys, keypad and keyboard (xterm's and kitty's), margins, origin, wrapping, insertion, reverse video,
    character sets, renditions such as colour, and links. Titles, tab stops and the palette are not tracked, since no terminal
    reports their state.

    The memory is bounded for any input.
    """

    def __init__(self) -> None:
        self._held = b""
        self._reset()

    def _reset(self) -> None:
        self._modes: dict[bytes, _Mode] = {}
        self._on: frozenset[int] = frozenset()  # the SGR numbers that switch off the active renditions
        self._alternate: _Mode | None = None
        self._keyboards = (_Keyboard(), _Keyboard())  # for the main screen, and for the alternate screen

    def feed(self, data: bytes) -> None:
        """Process the next bytes, which may be cut anywhere."""
        data = self._held + data
        held = unfinished(data)
        self._held = data[len(data) - held :]
        for parameters, final, other in _SEQUENCE.findall(data, 0, len(data) - held):
            if final:
                self._control(parameters, final)
            else:
                self._escape(other)

    @property
    def back(self) -> bytes:
        """The sequences that reset the terminal; empty when no mode is on and no sequence is unfinished."""
        first = [mode.back for name, mode in self._modes.items() if name in _MOVES_CURSOR]
        parts = [mode.back for name, mode in reversed(self._modes.items()) if name not in _MOVES_CURSOR]
        if self._alternate is not None:
            first += [self._keyboards[1].back, self._alternate.back]
        back = b"".join([*first, self._keyboards[0].back, *parts])
        # CAN first ends an unfinished sequence, which would swallow the reset: ESC ends it only in some terminals.
        return b"\x18" + back if back or self._held else b""

    @property
    def again(self) -> bytes:
        """The sequences that set all modes of the terminal again, except renditions and links."""
        parts = [self._keyboards[0].again]
        if self._alternate is not None:
            parts += [self._alternate.again, self._keyboards[1].again]
        return b"".join([*parts, *(mode.again for mode in self._modes.values())])

    def _set(self, name: bytes, again: bytes, back: bytes, *, on: bool) -> None:
        self._modes.pop(name, None)  # the mode that was changed last is reset first
        if on:
            self._modes[name] = _Mode(again, back)

    def _control(self, parameters: bytes, final: bytes) -> None:
        prefix, rest = parameters[:1], parameters[1:]
        if final in (b"h", b"l"):
            if prefix == b"?":
                for number in rest.split(b";"):
                    self._set_private(number.lstrip(b"0"), on=final == b"h")
            else:
                for number in parameters.split(b";"):
                    if number in _ANSI_OFF:
                        self._set(number, b"\x1b[%bh" % number, b"\x1b[%bl" % number, on=final == b"h")
        elif final == b"m":
            if prefix == b">":
                self._set_key_format(rest)
            elif not parameters.strip(b"0123456789;:"):
                self._on = _renditions(self._on, parameters)
                self._set(b"colour", b"", b"\x1b[m", on=bool(self._on))
        elif final == b"r" and not parameters.strip(b"0123456789;"):
            self._set(b"margins", b"\x1b[%br" % parameters, b"\x1b7\x1b[r\x1b8", on=bool(parameters))
        elif final == b"q" and parameters.endswith(b" "):
            shape = parameters[:-1].strip(b"0")
            self._set(b"shape", b"\x1b[%bq" % parameters, b"\x1b[0 q", on=bool(shape))
        elif final == b"u":
            self._set_keyboard(prefix, rest)
        elif final == b"p" and parameters == b"!":
            for name in _RESET_SOFTLY:
                self._modes.pop(name, None)
            self._on = frozenset()

    def _set_private(self, number: bytes, *, on: bool) -> None:
        again, back = b"\x1b[?%bh" % number, b"\x1b[?%bl" % number
        if number == b"6":
            back += b"\x1b[9999;1H"  # the reset moves the cursor to the top; the next output belongs below all text
        if number in _OFF:
            self._set(b"?" + number, again, back, on=on)
        elif number in _ON:
            self._set(b"?" + number, back, again, on=not on)
        elif number in _ALTERNATE:
            self._alternate = _Mode(again, back) if on else None

    def _set_key_format(self, parameters: bytes) -> None:
        which, _, value = parameters.partition(b";")
        if which in _KEY_FORMATS:
            on = bool(value.strip(b"0"))
            self._set(b">" + which, b"\x1b[>%bm" % parameters, b"\x1b[>%bm" % which, on=on)

    def _set_keyboard(self, prefix: bytes, parameters: bytes) -> None:
        keyboard = self._keyboards[self._alternate is not None]
        if prefix == b">":
            keyboard.pushed.append(b"\x1b[>%bu" % parameters)
            keyboard.set = b""
        elif prefix == b"<":
            count = int(parameters[:4]) if parameters.isdigit() else 1
            for _ in range(min(count, len(keyboard.pushed))):
                keyboard.pushed.pop()
            keyboard.set = b""
        elif prefix == b"=":
            keyboard.set = b"\x1b[=%bu" % parameters if parameters.split(b";")[0].strip(b"0") else b""

    def _escape(self, sequence: bytes) -> None:
        if sequence in (b"\x1b=", b"\x1b>"):
            self._set(b"keypad", b"\x1b=", b"\x1b>", on=sequence == b"\x1b=")
        elif sequence in (b"\x0e", b"\x0f", b"\x1bn", b"\x1bo"):
            self._set(b"shift", sequence, b"\x0f", on=sequence != b"\x0f")
        elif len(sequence) == 3 and sequence[1:2] in (b"(", b")", b"*", b"+"):
            which = sequence[1:2]
            self._set(which, sequence, b"\x1b%bB" % which, on=sequence[2:] != b"B")
        elif sequence.startswith(b"\x1b]8;"):
            link = sequence[4:].partition(b";")[2].rstrip(b"\x07\x1b\\")
            self._set(b"link", b"", b"\x1b]8;;\x1b\\", on=bool(link))
        elif sequence == b"\x1bc":
            self._reset()
