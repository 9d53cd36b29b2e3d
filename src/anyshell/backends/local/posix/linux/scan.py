"""Scans of all processes on Linux. Trees that need a scan at about the same time share one."""

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
"""Seconds for which a scan of all processes waits for other tasks that need a scan; the tasks then share the scan."""

CATCH_UPS = 20
"""Rounds, at most, in which a scan of all processes examines the processes that started during the scan; then the scan ends."""

NEWEST = 64
"""Pids, the newest, that are examined in each of these rounds; older ones are left out when a process forks without end."""

ASKED_PER_TURN = 1024
"""Pids tried in a row where /proc does not show processes, in less than a millisecond, since few are in use; then other tasks
get a turn."""

MOST_ASKED = 65536
"""Pids that are tried where /proc does not show processes: so many after a command's first pid, and, when pids have wrapped
around, so many before the first or the newest pid."""

_NEVER = (-1, sys.maxsize)
"""The entry of a process that no scan has seen."""


class ProcessScan:
    """A scanner of all processes that serves callers at about the same time with one scan.

    Old processes are not read again. The kernel gives each process's directory in /proc its own inode number. So an entry
    with the pid and inode of an earlier scan is the same process, whose start time is known already.
    """

    def __init__(self) -> None:
        self.reserve = Reserve()
        self.newest_pid = NewestPid()
        self._waiting: asyncio.Task[list[ProcRow]] | None = None
        self._since = 0
        self._first = 0
        self._seen: dict[int, tuple[int, int]] = {}
        """The directory's inode and the start time of every process of the last scan, by pid."""

    def close(self) -> None:
        """Close the reserve and the open file of /proc; a later scan opens the file again."""
        self.reserve.close()
        self.newest_pid.close()

    async def take(self, since: int, first: int) -> list[ProcRow]:
        """Return every process, except this one, that was alive at some moment during the call and started since `since`.

        Args:
            since: The earliest start, in clock ticks since boot. The result may also have processes that started earlier.
            first: A pid that the kernel gave at about that time. Where /proc shows no processes, pids are tried from `first`
                on.

        Raises:
            OSError: This process is out of descriptors, even of reserved ones.
        """
        waiting = self._waiting
        # A waiting task that is done was cancelled before it began, as by the end of asyncio.run().
        if waiting is None or waiting.done() or waiting.get_loop() is not asyncio.get_running_loop():
            self._since, self._first = since, first
            waiting = self._waiting = asyncio.ensure_future(self._look())
        else:
            self._since, self._first = min(since, self._since), min(first, self._first)
        return await shielded(waiting)

    async def _look(self) -> list[ProcRow]:
        await asyncio.sleep(GATHER_SECONDS)
        self._waiting = None  # later callers may have made changes that this scan will miss
        since = self._since
        newest = self.reserve.spending(self.newest_pid)
        if not shows_processes():
            return await self._ask(self._first, newest)
        listed = self.reserve.spending(list_pids)
        seen = {
            pid: entry for pid, inode in listed.items() if (entry := self._seen.get(pid, _NEVER))[0] == inode
        }
        found = await self._read([pid for pid in listed if seen.get(pid, _NEVER)[1] >= since], listed, seen)
        # A process that forks and exits all the time is gone before it is examined, and its child was not yet listed. So
        # examine the newest pids until there are no newer pids, which takes microseconds.
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
        """Read the given processes, record their inodes and start times in `seen`, and return the living processes."""
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
        """Return the living processes among the pids that the kernel may have given since `first`, by trying each pid.

        Pids wrap around at the system's limit. If the limit is small, pids may have wrapped around more than once, and the
        newest pid shows nothing: then every pid is tried.
        """
        limit = self.reserve.spending(pid_limit)
        first = max(first, 1)  # 0 if the pid of a reaped leader is unknown
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
