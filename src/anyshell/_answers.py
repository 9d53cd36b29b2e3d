"""Bounded parsing of a host's answers. An answer may be false; every invalid number raises the same exception."""

from __future__ import annotations

import re

from ._exceptions import BackendError
from ._types import one_line

LONGEST_FACT = 64 * 1024
"""Characters of one fact that a host reports about itself, such as a path; a longer one is an error."""

LARGEST_PID = 2**31 - 1
"""Largest pid, group or session that a host may report; a larger one is an error, and no system has one."""

LARGEST = 2**63 - 1
"""Largest other number that a host may report, as a size or a start in clock ticks; a larger one is an error."""

_SHOWN = 60  # no bound: how a message is cut

_WHOLE = re.compile("[0-9]{1,20}")

_REAL = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,9})?(?:e\+[0-9]{1,2})?")  # mawk's form of large sums


class Nonsense(BackendError, ValueError):  # noqa: N818 - as the other public bases of it
    """A host's answer is malformed. The message shows the host's words."""

    def __init__(self, what: str, said: str) -> None:
        cut = f"{said[:_SHOWN]}…" if len(said) > _SHOWN else said
        super().__init__(f"the host's answer is malformed: {what} is {one_line(cut) or 'missing'}")


def whole(what: str, said: str, least: int = 0, most: int = LARGEST) -> int:
    """Read a whole number in ASCII digits.

    Raises:
        Nonsense: The text is not a number, or out of range.
    """
    if _WHOLE.fullmatch(said) is None or not least <= (number := int(said)) <= most:
        raise Nonsense(what, said)
    return number


def real(what: str, said: str) -> float:
    """Read a number, finite and not negative, such as a clock's.

    Raises:
        Nonsense: The text is not such a number.
    """
    if _REAL.fullmatch(said) is None:
        raise Nonsense(what, said)
    return float(said)


def fields(what: str, said: str, count: int) -> list[str]:
    """Split a line at single spaces; the last field keeps its spaces.

    Raises:
        Nonsense: There are fewer fields.
    """
    found = said.split(" ", count - 1)
    if len(found) < count:
        raise Nonsense(what, said)
    return found
