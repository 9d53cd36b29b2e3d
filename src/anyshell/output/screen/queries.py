"""Queries of programs to a terminal, and the answers.

The queries and answers are from xterm's "Control Sequences" (ctlseqs). Programs wait for some answers, so each query with a
known answer gets an answer. No text from a program, such as a title or a setting, is ever sent back: a shell would take the
text for typed input (CVE-2003-0063, CVE-2008-2383).
"""

from __future__ import annotations

import re

_ATTRIBUTES = b"\x1b[?62;22c"  # a VT220 with colours
_PRINTER, _NO_KEYS, _KEYBOARD, _NO_LOCATOR = b"\x1b[?13n", b"\x1b[?21n", b"\x1b[?27;1;0;0n", b"\x1b[?53n"

FIXED = {
    b"c": _ATTRIBUTES,
    b"0c": _ATTRIBUTES,
    b">c": b"\x1b[>0;0;0c",
    b">0c": b"\x1b[>0;0;0c",
    b"=c": b"\x1bP!|00000000\x1b\\",
    b"=0c": b"\x1bP!|00000000\x1b\\",
    b">q": b"\x1bP>|anyshell\x1b\\",
    b">0q": b"\x1bP>|anyshell\x1b\\",
    b"5n": b"\x1b[0n",
    b"?15n": _PRINTER,
    b"?25n": _NO_KEYS,
    b"?26n": _KEYBOARD,
    b"?53n": _NO_LOCATOR,
    b"?55n": _NO_LOCATOR,
    b"?996n": b"\x1b[?997;1n",  # dark
    b"?4m": b"\x1b[>4;0m",  # keys are sent in the plain way
    b"11t": b"\x1b[1t",  # the window is open
    b"13t": b"\x1b[3;0;0t",
    b"20t": b"\x1b]L\x1b\\",  # the title of the window is never sent
    b"21t": b"\x1b]l\x1b\\",
    b"x": b"\x1b[2;1;1;128;128;1;0x",
    b"0x": b"\x1b[2;1;1;128;128;1;0x",
    b"1x": b"\x1b[3;1;1;128;128;1;0x",
}
"""Answers that never change, by the query's bytes after ``CSI``."""

CELL_WIDTH, CELL_HEIGHT = 8, 16  # made-up pixels: a terminal that is not shown has none

_BASIC = (
    *(
        (0, 0, 0),
        (205, 0, 0),
        (0, 205, 0),
        (205, 205, 0),
        (0, 0, 238),
        (205, 0, 205),
        (0, 205, 205),
        (229, 229, 229),
    ),
    *((127, 127, 127), (255, 0, 0), (0, 255, 0), (255, 255, 0)),
    *((92, 92, 255), (255, 0, 255), (0, 255, 255), (255, 255, 255)),
)
_STEPS = (0, 95, 135, 175, 215, 255)  # no bound: colours
_SCREEN_COLOURS = {b"10": (255, 255, 255), b"11": (0, 0, 0), b"12": (255, 255, 255)}

# Names and values of capabilities in hexadecimal, as in queries and answers.
_CAPABILITIES = {
    b"544e": b"xterm-256color".hex().encode(),  # TN
    b"6e616d65": b"xterm-256color".hex().encode(),  # name
    b"436f": b"256".hex().encode(),  # Co
    b"636f6c6f7273": b"256".hex().encode(),  # colors
}
_COLOUR_QUERY = re.compile(rb"([0-9]{1,3});\?(?:;|\Z)")


def size(kind: int, columns: int, rows: int) -> bytes | None:
    """Return the answer to ``CSI kind t``: the size of the window, of a cell, or of the text. ``None`` for another kind."""
    if kind in (14, 15):
        return b"\x1b[%d;%d;%dt" % (kind - 10, rows * CELL_HEIGHT, columns * CELL_WIDTH)
    if kind == 16:
        return b"\x1b[6;%d;%dt" % (CELL_HEIGHT, CELL_WIDTH)
    return b"\x1b[%d;%d;%dt" % (kind - 10, rows, columns) if kind in (18, 19) else None


def operating_system_command(content: bytes, end: bytes) -> bytes:
    """Return the answers to an OSC that asks for colours; empty for any other OSC."""
    number, _, rest = content.partition(b";")
    if number == b"4":
        return b"".join(
            b"\x1b]4;%d;%b%b" % (index, _colour(*_palette(index)), end)
            for index in map(int, _COLOUR_QUERY.findall(rest))
            if index < 256
        )
    if number not in _SCREEN_COLOURS:
        return b""
    # Each further value belongs to the next number.
    answers = []
    for index, value in enumerate(rest.split(b";"), int(number)):
        colour = _SCREEN_COLOURS.get(b"%d" % index)
        if colour is not None and value == b"?":
            answers.append(b"\x1b]%d;%b%b" % (index, _colour(*colour), end))
    return b"".join(answers)


def device_control(content: bytes, top: int, bottom: int) -> bytes:
    """Return the answer to a DCS that asks for a setting or for capabilities; empty for any other DCS."""
    if content == b"$qr":
        return b"\x1bP1$r%d;%dr\x1b\\" % (top + 1, bottom + 1)
    if content.startswith(b"$q"):
        return b"\x1bP0$r\x1b\\"
    if content.startswith(b"+q"):
        names = content[2:].lower().split(b";")
        known = [name + b"=" + _CAPABILITIES[name] for name in names if name in _CAPABILITIES]
        return b"\x1bP1+r" + b";".join(known) + b"\x1b\\" if known else b"\x1bP0+r\x1b\\"
    return b""


def _palette(index: int) -> tuple[int, int, int]:
    if index < 16:
        return _BASIC[index]
    if index >= 232:
        grey = 8 + 10 * (index - 232)
        return grey, grey, grey
    index -= 16
    return _STEPS[index // 36], _STEPS[index // 6 % 6], _STEPS[index % 6]


def _colour(red: int, green: int, blue: int) -> bytes:
    return b"rgb:%02x%02x/%02x%02x/%02x%02x" % (red, red, green, green, blue, blue)
