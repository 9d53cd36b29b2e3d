"""The style of a program's text: the colours and attributes that SGR sets.

Select Graphic Rendition is from ECMA-48 (5th edition, 8.3.117). The colours of 38, 48 and 58, with ``;`` and with ``:``, are
from ITU-T T.416, in the reading of xterm's "Control Sequences". 90 to 107 are aixterm's, and ``4:3`` is kitty's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

Colour = int | tuple[int, int, int] | None
"""A number of the palette from 0 to 255; red, green and blue, each from 0 to 255; or ``None`` for the terminal's own colour."""

LONGEST_RENDITION = 32
"""Parameters of a colour sequence (SGR) that are read, where colours are kept; further parameters are ignored."""

CACHED_STYLES = 1_024
"""Changes of a style that are cached: styles that alternate are not made anew each time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """The style of text.

    Attributes:
        foreground: The colour of the text; ``None`` is the terminal's own.
        background: The colour behind the text; ``None`` is the terminal's own.
        bold: Whether the text is bold.
        dim: Whether the text is faint.
        italic: Whether the text is slanted.
        underline: Whether the text is underlined, in any form.
        blink: Whether the text blinks, at any speed.
        reverse: Whether both colours change places.
        hidden: Whether the text is invisible; hidden text still counts as text.
        strike: Whether the text is crossed out.
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
"""The style of text without any SGR. `render` and `blank` return this very object for a plain style: compare with ``is``."""


@dataclass(frozen=True, slots=True)
class Span:
    """A span of text on a row, in one style.

    Attributes:
        text: The text, without controls.
        style: The style of the text.
        columns: The number of columns of the text.
    """

    text: str
    style: Style
    columns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StyledScreen:
    """A view of a terminal at one moment, with styles: the screen, or rows that were scrolled away.

    Attributes:
        rows: As many rows as the terminal has, from the top.
        cursor: The row and the column of the cursor, both from 0; ``None`` for a cursor that is hidden or below the rows.
        alternate: Whether the alternate screen is shown.
        back: The number of rows from the top of the view down to the top of the screen.
        above: The number of scrolled rows that are kept: the largest possible `back`.
        scrolled: The number of rows that were scrolled away, kept or not.
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
    """Return the style after an SGR with the given raw parameters. An unknown parameter changes nothing."""
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
    """Return the style of erased cells: the background alone."""
    return PLAIN if style.background is None else Style(background=style.background)


def _colour_of_fields(fields: list[bytes]) -> tuple[bool, Colour, int]:
    """Parse a colour after 38, 48 or 58: return whether the colour is valid, the colour, and its number of parameters."""
    kind = _number(fields[0]) if fields else -1
    if kind == 5 and len(fields) > 1:
        return (*_palette(fields[1]), 2)
    if kind == 2 and len(fields) > 3:
        return (*_direct(fields[1:4]), 4)
    return False, None, len(fields)  # an incomplete colour takes all remaining parameters


def _colour_of_parts(parts: list[bytes]) -> tuple[bool, Colour]:
    """Parse a colour in the subparameters of 38, 48 or 58. A colour space may stand before a direct colour's numbers."""
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
    """Return the number of a parameter: 0 if omitted, and -1, which has no meaning, for a parameter that is not a number."""
    if not digits:
        return 0
    return int(digits) if digits.isdigit() else -1
