r"""The grammar of control sequences, as patterns of bytes, for all code that reads output.

The source is ECMA-48, 5th edition, 5.3 to 5.6, with the strings that xterm ends with BEL too; the C1 forms are in UTF-8. Bytes
beyond the limits below are not a sequence, and are shown. All quantifiers are possessive: a pattern that fails does not backtrack,
and so every pattern takes time in proportion to its input.
"""

from __future__ import annotations

import re

LARGEST_NUMBER = 99_999
"""Largest number that a sequence can give, on a terminal and without a terminal; a larger number counts as this number."""

LONGEST_PARAMETERS = 256
"""Bytes of the parameters of a control sequence (CSI); a sequence with more is shown."""

LONGEST_INTERMEDIATES = 16
"""Bytes of the intermediates of a sequence, before its final byte; a sequence with more is shown."""

LONGEST_STRING = 4096
"""Bytes of a control string (OSC, DCS and the like) between its introducer and its end; a longer string is shown."""

LONGEST_CONTROL = 2 + LONGEST_PARAMETERS + LONGEST_INTERMEDIATES + 1
"""Bytes of a control sequence (CSI), from its introducer to its final byte."""

LONGEST_SEQUENCE = 2 + LONGEST_STRING + 2
"""Bytes of any sequence: a control string with its introducer and its end."""


def _most(characters: bytes, count: int, least: int = 0) -> bytes:
    return b"%b{%d,%d}+" % (characters, least, count)


INTRODUCER = rb"(?:\x1b\[|\xc2\x9b)"
PARAMETERS = _most(rb"[0-?]", LONGEST_PARAMETERS)
DIGITS = _most(rb"[0-9]", LONGEST_PARAMETERS)
NUMBERS = _most(rb"[0-9;]", LONGEST_PARAMETERS)
"""Parameters that are numbers alone, as most are."""
INTERMEDIATES = _most(rb"[ -/]", LONGEST_INTERMEDIATES)
SOME_INTERMEDIATES = _most(rb"[ -/]", LONGEST_INTERMEDIATES, 1)
FINAL = rb"[@-~]"
CSI = INTRODUCER + PARAMETERS + INTERMEDIATES
"""A control sequence without its final byte."""

RENDITION = _most(rb"[0-9;:]", LONGEST_PARAMETERS)
COLOURS = rb"\x1b\[" + RENDITION + rb"m"
"""SGR: colours and attributes. The C1 form of SGR is too rare to be searched for, and is not included."""

STRING_REST = _most(rb"(?:[^\n\r\x07\x18\x1a\x1b\xc2]|\xc2(?![\x80-\x9f]))", LONGEST_STRING)
"""The text of a control string, which ends before the first control that could end the string."""
STRING = rb"(?:\x1b[\]PX^_]|\xc2[\x90\x98\x9d-\x9f])" + STRING_REST
"""A control string up to its end: OSC, DCS, SOS, PM, APC."""
STRING_END = rb"(?:\x07|\x1b\\|\xc2\x9c)"

_ESCAPE_REST = (
    INTERMEDIATES + rb"[0-OQ-WYZ\\`-~]"  # all final bytes except the introducers of longer sequences
    rb"|" + SOME_INTERMEDIATES + rb"[PX\[\]^_]"
    rb"|[\]PX^_]?"  # the introducer of an unfinished sequence
)
ESCAPE = rb"\x1b(?:" + _ESCAPE_REST + rb")|\xc2[\x80-\x9f]"

CONTROL = INTRODUCER + rb"(" + PARAMETERS + INTERMEDIATES + rb")(" + FINAL + rb")"
"""A whole control sequence. The bytes before the final byte are a group, and so is the final byte."""
OTHER = STRING + STRING_END + rb"|" + ESCAPE
"""Any other whole sequence: a control string or an escape sequence; of an unfinished sequence, the introducer alone."""


def sequence(*, unless: bytes = rb"(?!)") -> bytes:
    """Return the pattern of a whole sequence, or of an unfinished sequence's introducer; of no CSI that goes on with `unless`.

    The pattern begins with single bytes, not with a group: `re` skips all other bytes, which is five times as fast.
    """
    csi, string = PARAMETERS + INTERMEDIATES + FINAL, STRING_REST + STRING_END
    return (
        rb"\x1b(?!\[" + unless + rb")(?:\[" + csi + rb"|[\]PX^_]" + string + rb"|" + _ESCAPE_REST + rb")"
        rb"|\xc2(?!\x9b" + unless + rb")(?:\x9b" + csi + rb"|[\x90\x98\x9d-\x9f]" + string + rb"|[\x80-\x9f])"
    )


_ALTERNATE = rb"0*+(?:47|104[79])"
SWITCH = (
    rb"\x1b(?:c|\[(?=" + PARAMETERS + rb"[hl])"
    rb"\?(?:(?!" + _ALTERNATE + rb"[;hl])[0-9]*+;)*+" + _ALTERNATE + rb"(?:;[0-9;]*+)?+([hl]))"
)
"""Sequences in the long form that show the alternate screen (``h`` is the group) or the main screen: xterm's private modes,
alone or among other modes, and RIS."""

_C1 = re.compile(rb"\xc2([\x80-\x9f])")


def long_form(data: bytes) -> bytes:
    """Return output with each C1 control as its ``ESC`` sequence. C1 controls are rare, and searches expect the long form."""
    return _C1.sub(lambda match: b"\x1b" + bytes([match[1][0] - 0x40]), data) if b"\xc2" in data else data


def in_text(pattern: bytes) -> str:
    """Return the pattern for decoded text that a pattern for bytes stands for."""
    return pattern.replace(rb"\xc2\x9b", rb"\x9b").decode("ascii")


def numbers_of(parameters: bytes) -> list[int]:
    """Return the numbers of a sequence, 1 to 32 of them; an omitted number is 0."""
    return [number_of(number) for number in parameters.replace(b":", b";").split(b";")[:32]]


def number_of(digits: bytes | str) -> int:
    """Return the number that digits of a sequence give, with any leading zeros; 0 for anything but digits."""
    return min(int(digits), LARGEST_NUMBER) if digits.isdigit() else 0
