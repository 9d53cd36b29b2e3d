"""The question of a program on a terminal, and the check that the question is still the same at the time of an answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ...policy import visible

if TYPE_CHECKING:
    from ..._types import Foreground, Screen

NAMED_PROGRAMS = 5
"""Programs in the foreground of a terminal that are named; the others are only counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramQuestion:
    """The question of a program at one moment.

    Attributes:
        foreground: The processes in the foreground of the terminal.
        line: The text of the cursor's line.
        waits: Whether the program waited for input.
        asked: The time of the question, by the monotonic clock.
        events: The number of bytes printed on the terminal before, and of inputs typed.
        stand: The screen in use, the number of final lines, and the place and line of a visible cursor.
    """

    foreground: Foreground | None
    line: str
    waits: bool
    asked: float
    events: tuple[int, int]
    stand: tuple[object, ...]


class OtherQuestion(Exception):  # noqa: N818 - becomes a result; never leaves the tool
    """The input was meant for another question than the present question.

    Args:
        before: The programs for which the input was meant.
        now: The programs that may read now; ``None`` when no program is known.
        line: The present question of the same program; ``None`` for another program.
    """

    def __init__(self, before: str | None, now: str | None, *, line: str | None = None) -> None:
        super().__init__()
        self.before = before
        self.now = now
        self.line = line


def reads_still(before: Foreground | None, now: Foreground | None) -> bool:
    """Whether only processes that could read before may read now; other processes may have come and gone."""
    if before is None or now is None:
        return before is now
    if now.waiting:
        return {*now.waiting} <= {*(before.waiting or before.processes)}
    return {*before.waiting} <= {*now.processes} <= {*before.processes} and bool(
        now.processes or not before.processes
    )


def may_draw(foreground: Foreground | None) -> bool:
    """Whether a program may draw by itself between two keys: it reads keys rather than lines, and is not asleep in a read."""
    return foreground is not None and foreground.line_mode is False and foreground.asleep_in != "read"


def reading_programs(foreground: Foreground | None) -> str | None:
    """Return the names of the programs that may read typed input; ``None`` when unknown."""
    return names(
        replace(foreground, processes=foreground.waiting)
        if foreground is not None and foreground.waiting
        else foreground
    )


def cursor_line(screen: Screen) -> str:
    """Return the text of the cursor's row."""
    row, _ = screen.cursor
    return screen.rows[row].strip() if row < len(screen.rows) else ""


def names(foreground: Foreground | None) -> str | None:
    """Return the names of the programs in the foreground, separated by commas; ``None`` when unknown."""
    if foreground is None or not foreground.processes:
        return None
    found = list(dict.fromkeys(visible(process.name) for process in foreground.processes))
    more = len(found) - NAMED_PROGRAMS
    return ", ".join(found[:NAMED_PROGRAMS]) + (f" and {more} more" if more > 0 else "")
