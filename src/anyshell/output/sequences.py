r"""The grammar of control sequences, as patterns of bytes, for all that reads output.

ECMA-48, 5th edition, 5.3 to 5.6, with the strings that xterm ends with BEL too; the C1 forms as UTF-8. What has more bytes than
is said here is no sequence, and is shown. All quantifiers are possessive: no sequence is looked at again from a second angle
when it fails, and so every pattern takes time in proportion to its input.
"""

from __future__ import annotations

import re

LARGEST_NUMBER = 99_999
"""Largest number that a sequence can give, on a terminal and without one; a larger one counts as this."""

LONGEST_PARAMETERS = 256
"""Bytes of the parameters of a control sequence (CSI); one that has more is shown."""

LONGEST_INTERMEDIATES = 16
"""Bytes of the intermediates of a sequence, before its final byte; one that has more is shown."""

LONGEST_STRING = 4096
"""Bytes of a control string (OSC, DCS and the like) between its introducer and its end; a longer one is shown."""

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
"""A control sequence up to its final byte."""

RENDITION = _most(rb"[0-9;:]", LONGEST_PARAMETERS)
COLOURS = rb"\x1b\[" + RENDITION + rb"m"
"""SGR: colours and the like. Its C1 form is too rare to be looked for where this one is."""

STRING_REST = _most(rb"(?:[^\n\r\x07\x18\x1a\x1b\xc2]|\xc2(?![\x80-\x9f]))", LONGEST_STRING)
"""The text of a control string, which ends before the first control that could end the string."""
STRING = rb"(?:\x1b[\]PX^_]|\xc2[\x90\x98\x9d-\x9f])" + STRING_REST
"""A control string up to its end: OSC, DCS, SOS, PM, APC."""
STRING_END = rb"(?:\x07|\x1b\\|\xc2\x9c)"

_ESCAPE_REST = (
    INTERMEDIATES + rb"[0-OQ-WYZ\\`-~]"  # all finals but those that introduce something longer
    rb"|" + SOME_INTERMEDIATES + rb"[PX\[\]^_]"
    rb"|[\]PX^_]?"  # unfinished: without its introducer
)
ESCAPE = rb"\x1b(?:" + _ESCAPE_REST + rb")|\xc2[\x80-\x9f]"

CONTROL = INTRODUCER + rb"(" + PARAMETERS + INTERMEDIATES + rb")(" + FINAL + rb")"
"""A whole control sequence: what stands before its final byte, and that byte, are groups."""
OTHER = STRING + STRING_END + rb"|" + ESCAPE
"""Any other whole sequence: a control string, or an escape sequence; what is unfinished, without its introducer."""


def sequence(*, unless: bytes = rb"(?!)") -> bytes:
    """Any whole sequence, or the introducer of an unfinished one; none of CSI where this is what comes after its introducer.

    It begins with one byte or another, and not with a group, so that `re` skips all but these: five times as fast.
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
"""Sequences in the long form that show the alternate screen (``h`` is the group) or the main one: xterm's private modes,
alone or among others, and RIS."""

_C1 = re.compile(rb"\xc2([\x80-\x9f])")


def long_form(data: bytes) -> bytes:
    """Output with the C1 controls as the ``ESC`` sequences that they stand for: they are rare, and looked for in that form."""
    return _C1.sub(lambda match: b"\x1b" + bytes([match[1][0] - 0x40]), data) if b"\xc2" in data else data


def in_text(pattern: bytes) -> str:
    """The same pattern for decoded text."""
    return pattern.replace(rb"\xc2\x9b", rb"\x9b").decode("ascii")


def numbers_of(parameters: bytes) -> list[int]:
    """The numbers of a sequence, at least one; an omitted number is 0."""
    return [number_of(number) for number in parameters.replace(b":", b";").split(b";")[:32]]


def number_of(digits: bytes | str) -> int:
    """A number of a sequence, however many zeros it begins with; 0 for anything else."""
    return min(int(digits), LARGEST_NUMBER) if digits.isdigit() else 0
