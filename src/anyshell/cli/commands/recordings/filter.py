r"""The filter of untrusted output for a person's terminal: drawing passes; actions and queries do not pass.

The author of a recording is not known, and a terminal obeys every sequence. The complete list of passing text and sequences
(as in ECMA-48, 5th edition, and xterm's "Control Sequences"):

- Text, and BEL, BS, TAB, LF, VT, FF, CR, SO and SI.
- CSI that moves the cursor (``A`` to ``H``, \`, ``a``, ``d``, ``e``, ``f``, ``I``, ``Z``), erases (``J``, ``K``, ``X``;
  not ``3 J``, which erases the scrollback), inserts, deletes and scrolls (``@``, ``L``, ``M``, ``P``, ``S``, ``T``),
  repeats (``b``), sets colours and attributes (``m``), margins (``r``), saves and restores the cursor (``s``, ``u``), its
  shape (``SP q``), and DECSTR (``! p``). A number above 9,999 becomes 9,999.
- The modes 4 and 20, and DEC's private modes for reverse video (5), origin (6), wrapping (7), the cursor (25), the alternate
  screen (47, 1047, 1049), saving the cursor (1048), margins at the sides (69) and whole frames (2026).
- ``ESC`` and one of ``7 8 D E M``, DECALN, and the character sets B (ASCII), 0 (lines) and A (British).
- ``ESC c``, which would empty the scrollback and reset the person's own settings, becomes sequences for the screen alone.

C1 controls count as their ``ESC`` forms. Everything else is removed: every control string (OSC, DCS, SOS, PM, APC), and so
the clipboard, titles, the palette, links, notifications and pictures; every query whose answer a terminal sends as typed
input (ENQ, DA, DSR, DECRQM, DECREQTPARM, DECRQSS, XTVERSION, window reports); reports of the mouse, the focus and pastes;
modes of the keyboard; printing, window operations, tab stops, other encodings.
"""

from __future__ import annotations

import re

from ....output.sequences import FINAL, INTERMEDIATES, PARAMETERS, in_text

LARGEST_NUMBER = 9_999
"""Largest number in a sequence that reaches the terminal; a larger number becomes this number. No terminal has more columns
or rows."""

_C1 = re.compile("[\x80-\x9f]")
_LONG_FORM = {code: "\x1b" + chr(code - 0x40) for code in range(0x80, 0xA0)}

_PARAMETERS, _INTERMEDIATES = in_text(PARAMETERS), in_text(INTERMEDIATES)

# Whole sequences; control strings up to their terminator, or to the end of the text so far; and single controls. An ESC
# ends a control string, and begins the next sequence, which may be ST.
_SEQUENCE = re.compile(
    rf"\x1b\[({_PARAMETERS})({_INTERMEDIATES})({in_text(FINAL)})"
    r"|\x1b(\][^\x07\x18\x1a\x1b]*+|[PX^_][^\x18\x1a\x1b]*+)(?:[\x07\x18\x1a]|(?=\x1b)|(\Z))"
    rf"|\x1b({_INTERMEDIATES}[0-~])"
    r"|[\x00-\x06\x10-\x1a\x1b-\x1f\x7f]"
)
_BEGUN = re.compile(rf"\x1b(?:\[{_PARAMETERS}{_INTERMEDIATES}|{_INTERMEDIATES})\Z")
_END_OF_OSC = re.compile(r"[\x07\x18\x1a\x1b]")
_END_OF_STRING = re.compile(r"[\x18\x1a\x1b]")

_NUMBER = re.compile(r"[0-9]*")
_TWO_NUMBERS = re.compile(r"[0-9]*(?:;[0-9]*)?")
_LARGE_NUMBER = re.compile(r"[0-9]{5,}")
_FINALS_OF_ONE = frozenset("@ABCDEFGIKLMPSTXZ`abdeu")
_FINALS_OF_TWO = frozenset("Hfrs")
_ERASED = frozenset(("", "1", "2"))
_NO_COLOUR = dict.fromkeys(map(ord, "0123456789;:"))
_MODES = frozenset(("4", "20"))
_PRIVATE_MODES = frozenset(("5", "6", "7", "25", "47", "69", "1047", "1048", "1049", "2026"))
_ESCAPES = frozenset(
    ("7", "8", "D", "E", "M", "#8", *(which + name for which in "()*+" for name in "B0A")),
)

# The replacement of RIS: the main screen, DECSTR, a reset of the passing modes that DECSTR does not reset, an empty screen.
_RESET = "\x1b[?1047l\x1b[!p\x1b[?5l\x1b[?7h\x1b[?69l\x1b[20l\x1b[m\x1b(B\x0f\x1b[H\x1b[2J"


class Filter:
    """The filter of an output that comes in pieces, which may be cut anywhere.

    Every ``ESC`` in the result begins a whole sequence of the list above. The filter holds one unfinished sequence at most,
    and no control string: the content of a control string is dropped at once, however long the string is.
    """

    def __init__(self) -> None:
        self._held = ""
        self._end: re.Pattern[str] | None = None  # of the control string that has begun

    def feed(self, text: str) -> str:
        """Return the part of the next piece that may be shown."""
        if _C1.search(text) is not None:
            text = text.translate(_LONG_FORM)
        text = self._held + text
        self._held = ""
        if self._end is not None:
            end = self._end.search(text)
            if end is None:
                return ""
            # An ESC begins the next sequence, which may be ST.
            text = text[end.start() if end[0] == "\x1b" else end.end() :]
            self._end = None
        if (start := text.rfind("\x1b")) >= 0 and _BEGUN.match(text, start) is not None:
            self._held = text[start:]
            text = text[:start]
        return _SEQUENCE.sub(self._pass, text)

    def _pass(self, match: re.Match[str]) -> str:
        parameters, between, final, string, unended, escape = match.groups()
        if final is not None:
            return _control(parameters, between, final)
        if string is not None:
            if unended is not None:
                self._end = _END_OF_OSC if string[0] == "]" else _END_OF_STRING
            return ""
        if escape == "c":
            return _RESET
        return match[0] if escape in _ESCAPES else ""


def _control(parameters: str, between: str, final: str) -> str:
    """Return the passing part of a CSI sequence: the whole sequence, some numbers, or nothing."""
    if final in "hl" and not between:
        private = parameters.startswith("?")
        known = _PRIVATE_MODES if private else _MODES
        numbers = [
            number for number in parameters.removeprefix("?").split(";") if number.lstrip("0") in known
        ]
        return f"\x1b[{'?' * private}{';'.join(numbers)}{final}" if numbers else ""
    if final == "m" and not between:
        return "" if parameters.translate(_NO_COLOUR) else f"\x1b[{parameters}m"
    match between + final:
        case last if last in _FINALS_OF_ONE or last == " q":
            passes = _NUMBER.fullmatch(parameters) is not None
        case last if last in _FINALS_OF_TWO:
            passes = _TWO_NUMBERS.fullmatch(parameters) is not None
        case "J":
            passes = parameters.lstrip("0") in _ERASED
        case "!p":
            passes = not parameters
        case _:
            passes = False
    return f"\x1b[{_LARGE_NUMBER.sub(_clamp, parameters)}{between}{final}" if passes else ""


def _clamp(number: re.Match[str]) -> str:
    return str(min(LARGEST_NUMBER, int(number[0].lstrip("0")[:5] or "0")))  # the first five digits are enough
