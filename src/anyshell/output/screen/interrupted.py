"""Control sequences with controls inside, read as a terminal reads the sequences.

A terminal executes a control character inside a CSI at once, and the sequence goes on after the control. CAN and SUB end the
sequence without effect. (ECMA-48 leaves this open; DEC's terminals and xterm do so.) The functions here move the controls
before the sequence, in as many bytes: later readers of the output meet no control inside a sequence.

Text without a terminal keeps the rule in `decode`, where a line feed ends an unfinished sequence.
"""

from __future__ import annotations

import re

from ..sequences import INTERMEDIATES, INTRODUCER, LONGEST_CONTROL, LONGEST_INTERMEDIATES, LONGEST_PARAMETERS
from ..text import decode

LONGEST_MIXED = 1024
"""Bytes of an unfinished sequence after the first control inside; a sequence with more is not waited for."""

LONGEST_INTERRUPTED = LONGEST_CONTROL + LONGEST_MIXED
"""Bytes of an unfinished sequence with controls inside; a sequence with more is not waited for."""

# Controls: all C0 except CAN, SUB and ESC, and DEL. The inside of a CSI otherwise: parameters and intermediates.
_CONTROL = rb"[\x00-\x17\x19\x1c-\x1f\x7f]"
_INSIDE = rb"[ -?]{0,%d}+" % (LONGEST_PARAMETERS + LONGEST_INTERMEDIATES)
_MIXED = rb"[\x00-\x17\x19\x1c-\x1f\x7f -?]{0,%d}+" % LONGEST_MIXED

_ENDING = (
    rb"(?:\[" + _INSIDE + rb"(?:" + _CONTROL + _MIXED + rb"[@-~\x18\x1a]|[\x18\x1a])"
    rb"|" + INTERMEDIATES + rb"[\x18\x1a])"
)
# Nearly no output has a sequence with controls inside, and this test takes a third of the time. The test is for ESC alone: `re`
# searches faster for ESC than for either introducer.
_SUSPECT = re.compile(rb"\x1b[ -?\[]*+[\x00-\x1a\x1c-\x1f\x7f]")
_INTERRUPTED = re.compile(rb"\x1b" + _ENDING)
_INTERRUPTED_C1 = re.compile(rb"\xc2\x9b" + _ENDING.replace(rb"\[", rb"", 1))
_UNFINISHED = re.compile(INTRODUCER + _INSIDE + rb"(?:" + _CONTROL + _MIXED + rb")?\Z")

_CONTROLS = bytes([*range(0x18), 0x19, *range(0x1C, 0x20), 0x7F])
_OTHERS = bytes(set(range(256)) - set(_CONTROLS))


def settled(data: bytes) -> bytes:
    """Return output in which no sequence has a control inside; the numbers of bytes and of line feeds do not change.

    Args:
        data: Raw bytes that do not end with an `unfinished` character or sequence.
    """
    if _SUSPECT.search(data) is not None:
        data = _INTERRUPTED.sub(_settle, data)
    return _INTERRUPTED_C1.sub(_settle, data) if b"\xc2\x9b" in data else data


def _settle(match: re.Match[bytes]) -> bytes:
    sequence = match[0]
    controls, rest = sequence.translate(None, _OTHERS), sequence.translate(None, _CONTROLS)
    # CAN alone has no effect, and fills the place of a sequence that CAN or SUB has ended.
    return controls + (b"\x18" * len(rest) if rest[-1:] in b"\x18\x1a" else rest)


def unfinished(data: bytes) -> int:
    """Return the number of last bytes that begin a character or a sequence whose end is still to come."""
    held = decode.unfinished(data)
    if held:
        return held
    tail = data[-LONGEST_INTERRUPTED:]
    start = max(tail.rfind(b"\x1b["), tail.rfind(b"\xc2\x9b"))
    return 0 if start < 0 or _UNFINISHED.match(tail, start) is None else len(tail) - start
