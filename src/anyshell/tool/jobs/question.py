"""The question of a program on a terminal, and the check that it is still the same when an answer comes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ...policy import visible

if TYPE_CHECKING:
    from ..._types import Foreground, Screen

NAMED_PROGRAMS = 5
"""Programs in the foreground of a terminal that are named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramQuestion:
    """The question of a program at one moment.

    Attributes:
        foreground: The processes that had its terminal.
        line: The text of the cursor's line.
        waits: Whether it waited for input.
        asked: When that was, by the monotonic clock.
        events: The number of bytes printed there before, and of inputs typed.
        stand: Where its cursor stood, and on what.
    """

    foreground: Foreground | None
    line: str
    waits: bool
    asked: float
    events: tuple[int, int]
    stand: tuple[object, ...]


class OtherQuestion(Exception):  # noqa: N818 - becomes a result; never leaves the tool
    """The input was meant for another question than the one that would get it.

    Args:
        before: The processes that were asked about.
        now: Those that may read now; ``None`` when none is known.
        line: The present question of the same program; ``None`` when the program is another.
    """

    def __init__(self, before: str | None, now: str | None, *, line: str | None = None) -> None:
        super().__init__()
        self.before = before
        self.now = now
        self.line = line


def reads_still(before: Foreground | None, now: Foreground | None) -> bool:
    """Whether only processes that could read before may read now. Others may have come and gone."""
    if before is None or now is None:
        return before is now
    if now.waiting:
        return {*now.waiting} <= {*(before.waiting or before.processes)}
    return {*before.waiting} <= {*now.processes} <= {*before.processes} and bool(
        now.processes or not before.processes
    )


def may_draw(foreground: Foreground | None) -> bool:
    """Whether a program may draw by itself between two keys: it reads keys rather than lines, and not these alone."""
    return foreground is not None and foreground.line_mode is False and foreground.asleep_in != "read"


def reading_programs(foreground: Foreground | None) -> str | None:
    """The programs that may read what is typed."""
    return names(
        replace(foreground, processes=foreground.waiting)
        if foreground is not None and foreground.waiting
        else foreground
    )


def cursor_line(screen: Screen) -> str:
    """The row that the cursor is in."""
    row, _ = screen.cursor
    return screen.rows[row].strip() if row < len(screen.rows) else ""


def names(foreground: Foreground | None) -> str | None:
    """The programs in the foreground of a terminal, with a comma between them; ``None`` when that is not known."""
    if foreground is None or not foreground.processes:
        return None
    found = list(dict.fromkeys(visible(process.name) for process in foreground.processes))
    more = len(found) - NAMED_PROGRAMS
    return ", ".join(found[:NAMED_PROGRAMS]) + (f" and {more} more" if more > 0 else "")
