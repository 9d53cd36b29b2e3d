"""The list of processes that the shell on the host prints, and its parsing."""

from __future__ import annotations

import calendar
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...._answers import LARGEST_PID, fields, whole
from ...._types import ProcessInfo, one_line
from ...tree import UNLIMITED

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(slots=True)
class LookRow:
    """One process in one look. `started` is in the host's unit; `began` is the start time as the host writes it."""

    pid: int
    parent: int
    group: int
    session: int
    started: float
    began: str
    limit: int
    name: str
    marks: list[str] = field(default_factory=list)
    holds: dict[int, str] = field(default_factory=dict)
    """The pipes, sockets and terminals behind some of the process's descriptors."""
    begins: str = ""
    """The half of a token in the process's command line, which shows a login shell that has not begun the command yet."""

    def has_mark(self, mark: str) -> bool:
        """Whether the process was started with a variable of that name."""
        return mark in self.marks

    @property
    def info(self) -> ProcessInfo:
        """The process as the rest of anyshell knows it."""
        return ProcessInfo(self.pid, self.name, self.started)


@dataclass(slots=True)
class ProcessLook:
    """The result of one look by the watcher.

    `place` is the watcher's host and pid namespace; ``None`` if the watcher sees not even itself.
    """

    place: str | None
    seen: list[LookRow]
    led: bool = False
    """Whether the watcher has also signalled the leader's group."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A point in a host's sequence of pids, which separates later pids from earlier ones.

    Attributes:
        place: The host and the pid namespace.
        newest: The pid that was given last.
        forks: The number of processes that were ever started on the host.
    """

    place: str = "-"
    newest: int = 0
    forks: int = 0


def parse(lines: Iterable[str], place: str = "") -> ProcessLook:
    """Parse what ``look`` and ``lead`` of `looks.sh`, and ``sweep`` of `watcher.sh`, print at a place.

    Raises:
        Nonsense: A line that these functions never print.
    """
    found: dict[str, LookRow] = {}
    sees = led = False
    for line in lines:
        kind, _, rest = line.partition(" ")
        if kind in ("looked", "led"):
            sees, led = True, kind == "led"
        elif kind == "process":
            pid, *owners, began, locks, name = fields("a process", rest, 7)
            parent, group, session = (whole("a process", each, 0, LARGEST_PID) for each in owners)
            number = whole("a pid", pid, 1, LARGEST_PID)
            limit = UNLIMITED if locks == "unlimited" else whole("a limit", locks, most=2**64 - 1)
            found[pid] = LookRow(
                number, parent, group, session, start_time(began), began, limit, one_line(name)
            )
        elif kind in ("mark", "begins", "holds"):
            pid, _, value = rest.partition(" ")
            if (seen := found.get(pid)) is not None:
                if kind == "mark":
                    seen.marks.append(value)
                elif kind == "begins":
                    seen.begins = value
                else:
                    descriptor, _, what = value.partition(" ")
                    seen.holds[whole("a descriptor", descriptor)] = what
    return ProcessLook(place if sees else None, list(found.values()), led)


def start_time(began: str) -> float:
    """Parse the start time of a process, in the host's unit; 0 for text that is neither a number nor a date.

    Raises:
        Nonsense: The text begins with a digit, and is not a number.
    """
    if not began[:1].isdigit():
        try:  # ps(1) writes "Fri Nov 20 08:06:03 2026", less the day of the week here, and in UTC
            return float(calendar.timegm(time.strptime(began, "%b-%d-%H:%M:%S-%Y")))
        except ValueError:
            return 0.0
    return float(whole("a start", began))
