"""Stops that failed because the host was away, and that are due when the host is back."""

from __future__ import annotations

import asyncio
import itertools
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from .watcher import HostAway

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from .process import SSHProcess

OWED_SECONDS = 300.0
"""Seconds after a host went away in which failed stops are tried again; then they are given up."""

OWED_PAUSES = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0)
"""Seconds between two attempts of a failed stop; the last number repeats. A new connection starts an attempt at once."""

CLOSE_SECONDS = 2.0
"""Seconds for which closing waits for a host that is away, when processes may still run there."""


class PendingStops:
    """The processes to stop once an absent host is back, and the directories of lost sessions to remove afterwards.

    Args:
        remove_directories: Removes directories, given the ends of their names; raises `HostAway`.
    """

    def __init__(self, remove_directories: Callable[[Collection[str]], Awaitable[object]]) -> None:
        self._remove_directories = remove_directories
        self._processes: set[SSHProcess] = set()
        self._directories: set[str] = set()
        self._connected = asyncio.Event()
        self._work: asyncio.Task[None] | None = None
        self._closed = False

    def add(self, process: SSHProcess) -> None:
        """Add a process that could not be stopped."""
        self._processes.add(process)
        self._start()

    def add_directory(self, name: str) -> None:
        """Add the directory of a session, which may have stayed on the host; `name` is the end of its name."""
        self._directories.add(name)
        self._start()

    def connected(self) -> None:
        """Try now: a connection was made."""
        self._connected.set()

    async def aclose(self) -> None:
        """Try every pending stop at once, and again until all have worked or `CLOSE_SECONDS` are over."""
        if self._processes or self._directories:
            self._start()
        self._closed = True
        self._connected.set()
        if self._work is not None:
            await asyncio.wait([self._work], timeout=CLOSE_SECONDS)
            self._work.cancel()
            await asyncio.wait([self._work])

    def _start(self) -> None:
        if not self._closed and (self._work is None or self._work.done()):
            self._connected.clear()
            self._work = asyncio.get_running_loop().create_task(self._try())

    async def _try(self) -> None:
        give_up = time.monotonic() + OWED_SECONDS
        for pause in itertools.chain(OWED_PAUSES, itertools.repeat(OWED_PAUSES[-1])):
            if not self._closed:
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._connected.wait()
                self._connected.clear()
            # Concurrently: the stops share their looks, and a busy host can answer few looks in a second.
            processes = tuple(self._processes)
            stopped = await asyncio.gather(*(process.stop_now() for process in processes))
            self._processes.difference_update(itertools.compress(processes, stopped))
            if not self._processes and self._directories:
                names = tuple(self._directories)
                with suppress(HostAway):
                    await self._remove_directories(names)
                    self._directories.difference_update(names)
            if not (self._processes or self._directories) or time.monotonic() > give_up:
                return
            if self._closed:
                await asyncio.sleep(OWED_PAUSES[0])
