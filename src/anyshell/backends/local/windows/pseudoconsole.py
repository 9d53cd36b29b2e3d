"""A terminal of Windows: by ConPTY, or by WinPTY where there is no ConPTY.

The calls of both libraries block: a read until the terminal shows something, another call until the terminal's own process
answers. So each terminal has two threads, one for reads and one for all other calls. Both threads end with the terminal.
"""

from __future__ import annotations

import asyncio
import os
import queue
import subprocess
import sys
import threading
import time
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

assert sys.platform == "win32"

import anyio

from ...._exceptions import InvalidCommand, SpawnError, TerminalUnavailable
from .conpty import ConPTY
from .winpty import WinPTY

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ...._types import Terminal, TerminalKind

T = TypeVar("T")

CHOICE = "PYWINPTY_BACKEND"
"""The environment variable of pywinpty that chooses the library: 0 is ConPTY, 1 is WinPTY. If unset, ConPTY is tried first."""

CLOSE_SECONDS = 5.0
"""Seconds for the reading thread of a closed terminal to end; then the thread is abandoned, and the terminal stays open."""

CANCEL_AGAIN = 0.05
"""Seconds between two attempts to cancel the reading thread's read, which may have begun after the first attempt."""

_KINDS: Mapping[TerminalKind, int] = {"conpty": 0, "winpty": 1}


class _Pty(Protocol):
    """A terminal by one of the libraries. Every call may block, and raises `OSError` on failure."""

    pid: int

    def read(self) -> bytes: ...

    def write(self, text: str) -> None: ...

    def resize(self, terminal: Terminal) -> None: ...

    def cancel(self) -> None: ...

    def close(self) -> None: ...


class OutputReceiver(Protocol):
    """Receiver of a terminal's output. Both methods are called in the terminal's reading thread."""

    def feed(self, data: bytes) -> None:
        """Receive the next bytes. Never waits."""

    def end(self) -> None:
        """Record the end of output."""


class Pseudoconsole:
    """A terminal and its program. Made by `start`.

    Attributes:
        kind: The library that makes the terminal.
        pid: The program's pid.
    """

    def __init__(self, pty: _Pty, kind: TerminalKind, errands: _Errands, reader: OutputReceiver) -> None:
        self.kind = kind
        self.pid = pty.pid
        self._pty = pty
        self._errands = errands
        self._reader = reader
        self._closing: Future[None] | None = None
        self._thread = threading.Thread(
            target=self._read, name=f"anyshell terminal {pty.pid}: read", daemon=True
        )
        self._thread.start()

    @classmethod
    async def start(
        cls,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        terminal: Terminal,
        adopt: Callable[[int], None],
        reader: OutputReceiver,
    ) -> Pseudoconsole:
        """Start a program on a terminal of its own.

        Args:
            argv: The program's absolute path, and the arguments.
            cwd: The absolute path of the working directory.
            env: All environment variables, in the order that Windows requires.
            terminal: The terminal's size.
            adopt: Callback with the program's pid, called in a thread as soon as there is a pid. If `adopt` raises, the
                terminal is closed.
            reader: Receiver of the program's output.

        Raises:
            InvalidCommand: `CHOICE` is neither 0 nor 1.
            TerminalUnavailable: No library can make a terminal.
            SpawnError: No thread can be started for the terminal.
            OSError: The program cannot be started on the terminal, or `adopt` raised this error.
        """
        block = "".join(f"{name}={value}\0" for name, value in env.items())

        def start() -> Pseudoconsole:
            """Start the program. Runs in the errands' thread."""
            pty, kind = _open(terminal)
            try:
                words = argv[1:] if isinstance(pty, ConPTY) else argv
                pty.spawn(argv[0], subprocess.list2cmdline(words), cwd, block)
                adopt(pty.pid)
                return cls(pty, kind, errands, reader)
            except BaseException:
                pty.close()
                raise

        try:
            errands = _Errands("anyshell terminal")
            starting = errands.do(start)
            try:
                return await asyncio.wrap_future(starting)
            except BaseException:
                # Close a terminal that was started in spite of the cancellation.
                errands.do(partial(_give_back, starting))
                errands.end()
                raise
        except RuntimeError as error:
            raise SpawnError(f"cannot start {argv[0]} on a terminal: no thread is left for it") from error

    async def write(self, text: str) -> None:
        """Type text.

        Raises:
            anyio.BrokenResourceError: The terminal is gone.
            anyio.ClosedResourceError: The terminal was closed by `close`.
        """
        try:
            await self._do(partial(self._pty.write, text))
        except OSError as error:
            raise anyio.BrokenResourceError from error

    async def resize(self, terminal: Terminal) -> None:
        """Resize the terminal. Does nothing if the terminal is gone."""
        with suppress(OSError, anyio.ClosedResourceError):
            await self._do(partial(self._pty.resize, terminal))

    def close(self) -> None:
        """Close the terminal. Windows notifies, and then ends, the programs that still use the terminal. Never waits.

        The terminal's own program should have ended before.
        """
        if self._closing is None:
            self._closing = self._errands.do(self._close)
            self._errands.end()

    @property
    def closed(self) -> bool:
        """Whether the terminal was closed, and all its resources are released."""
        return self._closing is not None and self._closing.done()

    async def _do(self, call: Callable[[], None]) -> None:
        if self._closing is not None:
            raise anyio.ClosedResourceError
        await asyncio.wrap_future(self._errands.do(call))

    def _read(self) -> None:
        try:
            with suppress(OSError):  # a terminal that cannot be read has ended
                while data := self._pty.read():
                    self._reader.feed(data)
        finally:
            self._reader.end()

    def _close(self) -> None:
        """Close the terminal. Runs in the errands' thread."""
        give_up = time.monotonic() + CLOSE_SECONDS
        while self._thread.is_alive():
            if time.monotonic() > give_up:
                return  # a terminal must not be closed during a read
            self._pty.cancel()
            self._thread.join(CANCEL_AGAIN)
        self._pty.close()


class _Errands:
    """A thread that makes calls, one after another.

    The thread is a daemon, because a call that never returns must not keep this process from ending. A
    `ThreadPoolExecutor` has no daemon threads.

    Raises:
        RuntimeError: This process can start no thread.
    """

    def __init__(self, name: str) -> None:
        self._waiting: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        threading.Thread(target=self._work, name=name, daemon=True).start()

    def do(self, call: Callable[[], T]) -> Future[T]:
        """Queue a call; return the future of the call's result."""
        future: Future[T] = Future()
        self._waiting.put(partial(_run, future, call))
        return future

    def end(self) -> None:
        """Let the thread end after the queued calls."""
        self._waiting.put(None)

    def _work(self) -> None:
        while (errand := self._waiting.get()) is not None:
            errand()
            del errand  # the call may hold the last reference to a terminal


def _run(future: Future[T], call: Callable[[], T]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = call()
    except Exception as error:  # noqa: BLE001 - it is passed on to the waiting thread
        future.set_exception(error)
    else:
        future.set_result(result)


def _open(terminal: Terminal) -> tuple[ConPTY | WinPTY, TerminalKind]:
    failures = []
    for kind in _wanted():
        try:
            return ConPTY(terminal) if kind == "conpty" else WinPTY(terminal), kind
        except OSError as error:
            failures.append(f"{kind}: {error}")
    raise TerminalUnavailable(
        f"this machine has no terminal to give ({', '.join(failures)}); run it without one"
    )


def _give_back(starting: Future[Pseudoconsole]) -> None:
    """Close a terminal whose start was abandoned. Runs in the errands' thread, after the start."""
    if not starting.cancelled() and starting.exception() is None:
        starting.result()._close()


def _wanted() -> Sequence[TerminalKind]:
    chosen = os.environ.get(CHOICE)
    if not chosen:
        return tuple(_KINDS)
    for kind, number in _KINDS.items():
        if chosen == str(number):
            return (kind,)
    raise InvalidCommand(f"{CHOICE} must be 0 for ConPTY or 1 for WinPTY, not {chosen!r}")
