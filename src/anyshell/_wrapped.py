"""Processes that stand before other processes, to change a part of what the engine sees of these."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anyio.abc import ByteReceiveStream, ByteSendStream

    from ._types import ExitStatus, Foreground, ProcessInfo, Signal, Spawn, Terminal, TerminalKind, Usage
    from .abc import Process, Spawner


class WrappingSpawner:
    """A spawner that wraps each process of another spawner.

    Args:
        spawner: Starts the process.
        wraps: Each is given the process, or what the one before returned, and returns what the engine runs.
    """

    def __init__(self, spawner: Spawner, wraps: Sequence[Callable[[Process], Process]]) -> None:
        self._spawner = spawner
        self._wraps = wraps
        self.asks: bool = getattr(spawner, "asks", True)

    async def spawn(self, spawn: Spawn) -> Process:
        """Start a program."""
        process = await self._spawner.spawn(spawn)
        for wrap in self._wraps:
            process = wrap(process)
        return process


class Wrapped:
    """A process behind which another process stands.

    Args:
        process: The other process.
        stdin: Replaces its input.
        stdout: Replaces its output.
        stderr: Replaces its other output.
    """

    def __init__(
        self,
        process: Process,
        *,
        stdin: ByteSendStream | None = None,
        stdout: ByteReceiveStream | None = None,
        stderr: ByteReceiveStream | None = None,
    ) -> None:
        self._process = process
        self._stdin = stdin
        self._stdout = stdout
        self._stderr = stderr

    @property
    def pid(self) -> int | None:
        """Its number on the host."""
        return self._process.pid

    @property
    def stdin(self) -> ByteSendStream | None:
        """Its input."""
        return self._process.stdin if self._stdin is None else self._stdin

    @property
    def stdout(self) -> ByteReceiveStream:
        """Its output."""
        return self._process.stdout if self._stdout is None else self._stdout

    @property
    def stderr(self) -> ByteReceiveStream | None:
        """Its output there."""
        return self._process.stderr if self._stderr is None else self._stderr

    @property
    def terminal_kind(self) -> TerminalKind | None:
        """The kind of its terminal."""
        return self._process.terminal_kind

    @property
    def started(self) -> bool | None:
        """Whether it has begun."""
        return self._process.started

    @property
    def lost(self) -> bool:
        """Whether the way to it is gone."""
        return self._process.lost

    @property
    def usage(self) -> Usage | None:
        """The resources that its tree has used."""
        return self._process.usage

    @property
    def can_terminate(self) -> bool:
        """Whether its tree can be asked to end."""
        return self._process.can_terminate

    async def wait(self) -> ExitStatus:
        """Wait until the program has ended."""
        return await self._process.wait()

    async def send_signal(self, signal: Signal) -> None:
        """Signal the tree."""
        await self._process.send_signal(signal)

    async def survivors(self) -> Sequence[ProcessInfo]:
        """The processes of the tree that live."""
        return await self._process.survivors()

    async def wait_gone(self) -> None:
        """Wait until nothing of it does."""
        await self._process.wait_gone()

    def keep_naming(self, named: Sequence[ProcessInfo]) -> None:
        """Have `survivors` name these until they end."""
        self._process.keep_naming(named)

    async def resize(self, terminal: Terminal) -> None:
        """Give its terminal another size."""
        await self._process.resize(terminal)

    async def foreground(self) -> Foreground | None:
        """The processes that have its terminal."""
        return await self._process.foreground()

    async def release(self) -> None:
        """Let what lives go on."""
        await self._process.release()

    async def aclose(self) -> None:
        """Give everything back."""
        await self._process.aclose()
