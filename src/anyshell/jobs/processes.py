"""Processes and spawners that stand between the engine and a backend, so that a job can be made of a run."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING

from .._types import ExitStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anyio.abc import ByteReceiveStream, ByteSendStream

    from .._types import Foreground, ProcessInfo, Signal, Spawn, Terminal
    from ..abc import Process, Spawner
    from .job import Job

LOOK_AGAIN = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Seconds between two looks whether an adopted job has ended; the last one repeats."""


class Adopting:
    """Starts programs by another spawner, and has what they leave behind adopted instead of released.

    Args:
        spawner: Starts them.
        adopt: Takes a process that the engine has let go of, with those of its tree that live.

    Attributes:
        job: The job that was made; ``None`` when nothing was left behind.
    """

    def __init__(
        self, spawner: Spawner, adopt: Callable[[Process, Sequence[ProcessInfo], Spawn], Job]
    ) -> None:
        self.job: Job | None = None
        self._spawner = spawner
        self._adopt = adopt

    async def spawn(self, spawn: Spawn) -> Process:
        """Start a program."""
        process = await self._spawner.spawn(spawn)

        def let_go(survivors: Sequence[ProcessInfo]) -> None:
            self.job = self._adopt(process, survivors, spawn)

        return _Held(process, let_go, ends_input=spawn.terminal is None)


class Wrapped:
    """A process behind which another one stands.

    Args:
        process: That one.
    """

    def __init__(self, process: Process) -> None:
        self._process = process

    @property
    def pid(self) -> int | None:
        """Its number on the host."""
        return self._process.pid

    @property
    def stdin(self) -> ByteSendStream | None:
        """What it reads."""
        return self._process.stdin

    @property
    def stdout(self) -> ByteReceiveStream:
        """What it prints."""
        return self._process.stdout

    @property
    def stderr(self) -> ByteReceiveStream | None:
        """What it prints there."""
        return self._process.stderr

    @property
    def lost(self) -> bool:
        """Whether the way to it is gone."""
        return self._process.lost

    async def wait(self) -> ExitStatus:
        """Wait until the program has ended."""
        return await self._process.wait()

    async def send_signal(self, signal: Signal) -> None:
        """Signal the tree."""
        await self._process.send_signal(signal)

    async def survivors(self) -> Sequence[ProcessInfo]:
        """What of the tree lives."""
        return await self._process.survivors()

    async def wait_gone(self) -> None:
        """Wait until nothing of it does."""
        await self._process.wait_gone()

    async def resize(self, terminal: Terminal) -> None:
        """Give its terminal another size."""
        await self._process.resize(terminal)

    async def foreground(self) -> Foreground | None:
        """Who has its terminal."""
        return await self._process.foreground()

    async def release(self) -> None:
        """Let what lives go on."""
        await self._process.release()

    async def aclose(self) -> None:
        """Give everything back."""
        await self._process.aclose()


class _Held(Wrapped):
    """A process whose tree is handed on when it is released, unless it was to be stopped.

    That happens when it is closed: nobody reads its output any more by then.
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
        # On a terminal the end would be typed, which takes as long as nobody reads what was typed before.
        if self._ends_input and self._process.stdin is not None:
            await self._process.stdin.aclose()

    async def aclose(self) -> None:
        if not self._left:
            await self._process.aclose()
        elif not self._handed_on:
            self._handed_on = True
            self._let_go(self._survivors)


class Unfed(Wrapped):
    """A process whose input the engine leaves alone."""

    @property
    def stdin(self) -> None:
        """None that the engine knows of."""
        return None


class Outlived(Wrapped):
    """What a program left behind, as a process that ends when nothing of it is left.

    Args:
        process: The program that left it.
        pid: Which of what it left stands for it.
    """

    def __init__(self, process: Process, pid: int | None) -> None:
        super().__init__(process)
        self._pid = pid

    @property
    def pid(self) -> int | None:
        """The number of one that lived when it was left."""
        return self._pid

    async def wait(self) -> ExitStatus:
        """Wait until nothing lives, or nothing more can be learnt. How the last of it ended, nobody can know."""
        for pause in itertools.chain(LOOK_AGAIN, itertools.repeat(LOOK_AGAIN[-1])):
            if self.lost:
                return ExitStatus()
            if not await self._process.survivors():
                break
            await asyncio.sleep(pause)
        return ExitStatus(code=0)  # none would mean that not even the end is known


class Given:
    """A spawner that gives a process which was started before."""

    def __init__(self, process: Process) -> None:
        self._process = process

    async def spawn(self, spawn: Spawn) -> Process:
        """Give it."""
        return self._process
