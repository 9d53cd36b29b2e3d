"""The looks at all processes of Linux, shared by the trees that want one at about the same time."""

from __future__ import annotations

import asyncio
import sys
from functools import partial
from typing import TYPE_CHECKING

from ....._waits import shielded

assert sys.platform == "linux"

from ..tree import PROCESSES_PER_TURN, Reserve
from .proc import UNKNOWN_PID, NewestPid, ask_living, list_pids, pid_limit, read_stats, shows_processes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .proc import ProcRow

GATHER_SECONDS = 0.002
"""Seconds for which a look at all processes waits for other tasks that want one, and then share it."""

CATCH_UPS = 20
"""Times, at most, that a look at all processes goes after those that came meanwhile."""

NEWEST = 64
"""Pids, the newest, that are looked at each of these times when a process forks without end."""

ASKED_PER_TURN = 1024
"""Numbers tried one by one before other tasks get a turn; less than a millisecond, since few are given."""

MOST_ASKED = 65536
"""Pids after a command's first, and before it or the newest, that are tried where /proc does not show processes."""

_NEVER = (-1, sys.maxsize)
"""The entry of a process that no look has seen."""


class ProcessScan:
    """Looks at the processes, once for all callers at about the same time.

    What is old is not read again. A process that /proc lists under the number and the inode of an earlier look is the
    same process, since the kernel gives each directory of a process an inode number of its own; and so it is known to
    have started before what is looked for.
    """

    def __init__(self) -> None:
        self.reserve = Reserve()
        self.newest_pid = NewestPid()
        self._waiting: asyncio.Task[list[ProcRow]] | None = None
        self._since = 0
        self._first = 0
        self._seen: dict[int, tuple[int, int]] = {}
        """The inode of the directory and the start of every process at the last look."""

    def close(self) -> None:
        """Give up what is held open; a later look opens it anew."""
        self.reserve.close()
        self.newest_pid.close()

    async def take(self, since: int, first: int) -> list[ProcRow]:
        """Every process but this one that is alive at some moment between the call and the return, and started then.

        Args:
            since: The earliest start, in clock ticks since boot. Earlier ones may be among what is returned.
            first: A pid that was given at about that time: where /proc shows nothing, numbers are tried from it on.

        Raises:
            OSError: This process is out of descriptors, and so is the reserve.
        """
        waiting = self._waiting
        # One that is done was cancelled before it began, as asyncio.run() cancels everything at its end.
        if waiting is None or waiting.done() or waiting.get_loop() is not asyncio.get_running_loop():
            self._since, self._first = since, first
            waiting = self._waiting = asyncio.ensure_future(self._look())
        else:
            self._since, self._first = min(since, self._since), min(first, self._first)
        return await shielded(waiting)

    async def _look(self) -> list[ProcRow]:
        await asyncio.sleep(GATHER_SECONDS)
        self._waiting = None  # later callers may have made changes that this look will miss
        since = self._since
        newest = self.reserve.spending(self.newest_pid)
        if not shows_processes():
            return await self._ask(self._first, newest)
        listed = self.reserve.spending(list_pids)
        seen = {
            pid: entry for pid, inode in listed.items() if (entry := self._seen.get(pid, _NEVER))[0] == inode
        }
        found = await self._read([pid for pid in listed if seen.get(pid, _NEVER)[1] >= since], listed, seen)
        # A process that forks and exits all the time is gone before it is looked at, and its child was not listed. So
        # look at the newest until there are no newer ones, which takes microseconds.
        for _ in range(CATCH_UPS):
            if newest == UNKNOWN_PID:
                before, listed = listed, self.reserve.spending(list_pids)
                new = [pid for pid, inode in listed.items() if before.get(pid) != inode]
            else:
                last, newest = newest, self.reserve.spending(self.newest_pid)
                new = [] if newest == last else [*range(max(last + 1, newest - NEWEST), newest + 1)]
            if not new:
                break
            found += await self._read(new, listed, seen)
        self._seen = seen
        return found

    async def _read(
        self, pids: list[int], listed: Mapping[int, int], seen: dict[int, tuple[int, int]]
    ) -> list[ProcRow]:
        """Read what is not known to be old, and write down when it started."""
        found: list[ProcRow] = []
        for at in range(0, len(pids), PROCESSES_PER_TURN):
            if at:
                await asyncio.sleep(0)
            for stat in self.reserve.spending(partial(read_stats, pids[at : at + PROCESSES_PER_TURN])):
                if (inode := listed.get(stat.pid)) is not None:
                    seen[stat.pid] = inode, stat.started
                if stat.alive:
                    found.append(stat)
        return found

    async def _ask(self, first: int, newest: int) -> list[ProcRow]:
        """Try the numbers that may have been given since a pid.

        Pids begin anew behind the largest. Where that is small, they may have done so more than once, and the newest says
        nothing: then every number is tried.
        """
        limit = self.reserve.spending(pid_limit)
        first = max(first, 1)  # of a leader that was reaped nothing is known
        last, before = first + MOST_ASKED, first - 1
        if limit > MOST_ASKED and newest != UNKNOWN_PID:
            last, before = (newest, 0) if newest >= first else (last, newest)
        last = min(last, first + MOST_ASKED, limit - 1)
        numbers = *range(max(before - MOST_ASKED, 0) + 1, before + 1), *range(first, last + 1)
        found: list[ProcRow] = []
        for at in range(0, len(numbers), ASKED_PER_TURN):
            found += self.reserve.spending(partial(ask_living, numbers[at : at + ASKED_PER_TURN]))
            await asyncio.sleep(0)
        return found
