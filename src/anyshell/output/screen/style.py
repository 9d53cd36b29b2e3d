"""The style of a program's text: colours and attributes, as SGR sets them.

Select Graphic Rendition is ECMA-48's (5th edition, 8.3.117); the colours of 38, 48 and 58, with ``;`` and with ``:``,
are ITU-T T.416's as xterm's "Control Sequences" reads them, 90 to 107 are aixterm's, and ``4:3`` is kitty's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

Colour = int | tuple[int, int, int] | None
"""A number of the palette from 0 to 255; red, green and blue, each from 0 to 255; or the terminal's own."""

LONGEST_RENDITION = 32
"""Parameters of a sequence that sets colours (SGR) that are read, where colours are kept."""

CACHED_STYLES = 1_024
"""Changes of a style that are remembered, so that what is drawn in turns is not made anew each time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """The style of text.

    Attributes:
        foreground: The colour of the text; ``None`` is the terminal's own.
        background: The colour behind it; ``None`` is the terminal's own.
        bold: As it says; so the others.
        dim: Faint.
        italic: Slanted.
        underline: Underlined, in whatever way.
        blink: Blinking, at whatever speed.
        reverse: Both colours change places.
        hidden: Not to be seen; it is text all the same.
        strike: Crossed out.
    """

    foreground: Colour = None
    background: Colour = None
    bold: bool = False
    dim: bool = False
    italic: bool = False
    underline: bool = False
    blink: bool = False
    reverse: bool = False
    hidden: bool = False
    strike: bool = False


PLAIN = Style()
"""Text as it is without any SGR; `render` and `blank` give this one for it, so that it is known by its identity."""


@dataclass(frozen=True, slots=True)
class Span:
    """Text on a row that is shown in one way.

    Attributes:
        text: The text; it has no controls.
        style: Its style.
        columns: The number of its columns.
    """

    text: str
    style: Style
    columns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StyledScreen:
    """The text of a terminal at one moment, with its style; or the text that was scrolled away.

    Attributes:
        rows: As many rows as the terminal has, from the top.
        cursor: Row and column of the cursor, both from 0; ``None`` when it is not shown, or is below these rows.
        alternate: Whether it is the alternate screen.
        back: How many rows it begins above the screen itself.
        above: How many rows it could: so many that were scrolled away are kept.
        scrolled: How many rows have been scrolled away, kept or not.
    """

    rows: tuple[tuple[Span, ...], ...]
    cursor: tuple[int, int] | None
    alternate: bool
    back: int
    above: int
    scrolled: int


_ON = {
    1: "bold",
    2: "dim",
    3: "italic",
    4: "underline",
    5: "blink",
    6: "blink",
    7: "reverse",
    8: "hidden",
    9: "strike",
    21: "underline",  # double
}
_OFF = {
    22: ("bold", "dim"),
    23: ("italic",),
    24: ("underline",),
    25: ("blink",),
    27: ("reverse",),
    28: ("hidden",),
    29: ("strike",),
}


@lru_cache(maxsize=CACHED_STYLES)
def render(style: Style, parameters: bytes) -> Style:
    """The style after an SGR, of which the parameters are given as they were sent. An unknown parameter changes nothing."""
    changes: dict[str, Any] = {}
    fields = parameters.split(b";")[:LONGEST_RENDITION]
    at = 0
    while at < len(fields):
        parts = fields[at].split(b":")
        number = _number(parts[0])
        at += 1
        if number == 0:
            style, changes = PLAIN, {}
        elif number == 4 and len(parts) > 1:
            changes["underline"] = _number(parts[1]) != 0
        elif number in (38, 48, 58):
            if len(parts) > 1:
                known, colour = _colour_of_parts(parts[1:])
            else:
                known, colour, used = _colour_of_fields(fields[at:])
                at += used
            if known and number != 58:  # the colour of a line under the text is not kept
                changes["foreground" if number == 38 else "background"] = colour
        elif number in _ON:
            changes[_ON[number]] = True
        elif number in _OFF:
            changes |= dict.fromkeys(_OFF[number], False)
        elif 30 <= number <= 37 or 90 <= number <= 97:
            changes["foreground"] = number - 30 if number < 90 else number - 82
        elif 40 <= number <= 47 or 100 <= number <= 107:
            changes["background"] = number - 40 if number < 100 else number - 92
        elif number == 39:
            changes["foreground"] = None
        elif number == 49:
            changes["background"] = None
    changed = replace(style, **changes) if changes else style
    return PLAIN if changed == PLAIN else changed


@lru_cache(maxsize=CACHED_STYLES)
def blank(style: Style) -> Style:
    """The style of erased cells: the background alone."""
    return PLAIN if style.background is None else Style(background=style.background)


def _colour_of_fields(fields: list[bytes]) -> tuple[bool, Colour, int]:
    """A colour by the parameters after 38 or 48: whether there is one, which, and how many parameters it takes."""
    kind = _number(fields[0]) if fields else -1
    if kind == 5 and len(fields) > 1:
        return (*_palette(fields[1]), 2)
    if kind == 2 and len(fields) > 3:
        return (*_direct(fields[1:4]), 4)
    return False, None, len(fields)  # cut short: what follows belongs to it, whatever it is


def _colour_of_parts(parts: list[bytes]) -> tuple[bool, Colour]:
    """The same by the subparameters of 38 or 48: direct colours may have that of a colour space before them."""
    kind = _number(parts[0])
    if kind == 5 and len(parts) > 1:
        return _palette(parts[1])
    if kind == 2 and len(parts) > 3:
        return _direct(parts[2:5] if len(parts) > 4 else parts[1:4])
    return False, None


def _palette(number: bytes) -> tuple[bool, Colour]:
    index = _number(number)
    return 0 <= index <= 255, index


def _direct(numbers: list[bytes]) -> tuple[bool, Colour]:
    red, green, blue = map(_number, numbers)
    return all(0 <= value <= 255 for value in (red, green, blue)), (red, green, blue)


def _number(digits: bytes) -> int:
    """A parameter; an omitted one is 0, and one that is no number gets a number without meaning."""
    if not digits:
        return 0
    return int(digits) if digits.isdigit() else -1
