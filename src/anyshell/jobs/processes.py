"""Process wrappers between the engine and a backend, which turn a run into a job."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING

from .._types import ExitStatus
from .._wrapped import Wrapped

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .._types import ProcessInfo, Signal, Spawn
    from ..abc import Process

LOOK_AGAIN = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Seconds between two looks whether an adopted job has ended; the last pause repeats."""


class Adopting:
    """An adopter of the processes that a run leaves behind: they become a job instead of being released.

    Args:
        adopt: Makes a job of a process that the engine has given up, with the survivors of its tree; returns the job's id.
        ends_input: Whether the stdin of the process is closed at the end of the run.

    Attributes:
        job: The id of the new job; ``None`` when no process was left behind.
    """

    def __init__(self, adopt: Callable[[Process, Sequence[ProcessInfo]], str], *, ends_input: bool) -> None:
        self.job: str | None = None
        self._adopt = adopt
        self._ends_input = ends_input

    def take(self, process: Process) -> Process:
        """Wrap the started process for the engine."""

        def let_go(survivors: Sequence[ProcessInfo]) -> None:
            self.job = self._adopt(process, survivors)

        return _HandOver(process, let_go, ends_input=self._ends_input)


class _HandOver(Wrapped):
    """A process whose tree is handed on when the engine releases it, unless the tree was signalled.

    `aclose` hands the tree on: at that time the engine no longer reads the output.
    """

    def __init__(
        self, process: Process, let_go: Callable[[Sequence[ProcessInfo]], None], *, ends_input: bool
    ) -> None:
        super().__init__(process)
        self._ends_input = ends_input
        self._let_go = let_go
        self._survivors: Sequence[ProcessInfo] = ()
        self._signalled = False
        self._left = False
        self._handed_on = False

    async def send_signal(self, signal: Signal) -> None:
        self._signalled = True
        await self._process.send_signal(signal)

    async def survivors(self) -> Sequence[ProcessInfo]:
        self._survivors = await self._process.survivors()
        return self._survivors

    async def release(self) -> None:
        if self._signalled:
            await self._process.release()
            return
        self._left = True
        if self._ends_input and self._process.stdin is not None:
            await self._process.stdin.aclose()

    async def aclose(self) -> None:
        if not self._left:
            await self._process.aclose()
        elif not self._handed_on:
            self._handed_on = True
            self._let_go(self._survivors)


class Survivors(Wrapped):
    """The processes that a program left behind, as one process that ends when none of them is alive.

    Args:
        process: The program that left the processes behind.
        named: The processes that an outcome has named. The first gives the pid.
    """

    def __init__(self, process: Process, named: Sequence[ProcessInfo]) -> None:
        super().__init__(process)
        self._pid = (named[0].pid or None) if named else process.pid
        process.keep_naming(named)

    @property
    def pid(self) -> int | None:
        """The pid of a process that was alive when the program left it behind."""
        return self._pid

    async def wait(self) -> ExitStatus:
        """Wait until no process is alive, or the connection is lost. The exit status of the last process cannot be known."""
        for pause in itertools.chain(LOOK_AGAIN, itertools.repeat(LOOK_AGAIN[-1])):
            if self.lost:
                return ExitStatus()
            if not await self._process.survivors():
                break
            await asyncio.sleep(pause)
        return ExitStatus(code=0)  # no code at all would mean that not even the end is known


class StartedSpawner:
    """A spawner that returns a process which was started before."""

    def __init__(self, process: Process) -> None:
        self._process = process

    async def spawn(self, spawn: Spawn) -> Process:
        """Return that process."""
        return self._process
