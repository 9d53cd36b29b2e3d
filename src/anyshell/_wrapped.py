"""Process wrappers that change a part of a process for the engine."""

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
        wraps: The wrapping functions, in order. Each gets the process, or the result of the function before; the engine runs
            the last result.
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
    """A process that passes every call on to another process.

    Args:
        process: The other process.
        stdin: The stdin in place of the other process's stdin; ``None`` keeps that.
        stdout: The stdout in place of the other process's stdout; ``None`` keeps that.
        stderr: The stderr in place of the other process's stderr; ``None`` keeps that.
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
        """The pid of the program on the host."""
        return self._process.pid

    @property
    def stdin(self) -> ByteSendStream | None:
        """The stdin of the program."""
        return self._process.stdin if self._stdin is None else self._stdin

    @property
    def stdout(self) -> ByteReceiveStream:
        """The stdout of the tree."""
        return self._process.stdout if self._stdout is None else self._stdout

    @property
    def stderr(self) -> ByteReceiveStream | None:
        """The stderr of the tree, if the channels were split."""
        return self._process.stderr if self._stderr is None else self._stderr

    @property
    def terminal_kind(self) -> TerminalKind | None:
        """The kind of the program's terminal."""
        return self._process.terminal_kind

    @property
    def started(self) -> bool | None:
        """Whether the program has begun."""
        return self._process.started

    @property
    def lost(self) -> bool:
        """Whether the connection to the process is lost."""
        return self._process.lost

    @property
    def usage(self) -> Usage | None:
        """The resources that the tree has used."""
        return self._process.usage

    @property
    def can_terminate(self) -> bool:
        """Whether the tree can be asked to end."""
        return self._process.can_terminate

    async def wait(self) -> ExitStatus:
        """Wait until the program has ended."""
        return await self._process.wait()

    async def send_signal(self, signal: Signal) -> None:
        """Send a signal to the tree."""
        await self._process.send_signal(signal)

    async def survivors(self) -> Sequence[ProcessInfo]:
        """Return the living processes of the tree."""
        return await self._process.survivors()

    async def wait_gone(self) -> None:
        """Wait until no process of the tree is alive."""
        await self._process.wait_gone()

    def keep_naming(self, named: Sequence[ProcessInfo]) -> None:
        """Make `survivors` return these processes until each ends."""
        self._process.keep_naming(named)

    async def resize(self, terminal: Terminal) -> None:
        """Resize the program's terminal."""
        await self._process.resize(terminal)

    async def foreground(self) -> Foreground | None:
        """Return the foreground processes of the terminal."""
        return await self._process.foreground()

    async def release(self) -> None:
        """Let the living processes run on."""
        await self._process.release()

    async def aclose(self) -> None:
        """Give back all resources."""
        await self._process.aclose()
