"""A terminal of Windows: ConPTY's, or WinPTY's where there is no ConPTY.

Their calls block: the one that reads until something is shown, and the others for as long as the terminal's own process
takes. So each terminal has two threads, one that reads and one for everything else, which end with it.
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
"""The variable that chooses, which is pywinpty's own: 0 is ConPTY, 1 is WinPTY. Without it they are tried in this order."""

CLOSE_SECONDS = 5.0
"""Seconds in which the thread that reads from a closed terminal must have ended; then it is left to itself."""

CANCEL_AGAIN = 0.05
"""Seconds between two attempts to cancel that thread's read: it may have begun after the first."""

_KINDS: Mapping[TerminalKind, int] = {"conpty": 0, "winpty": 1}


class _Pty(Protocol):
    """One kind of terminals. Every call may block, and says by `OSError` what went wrong."""

    pid: int

    def read(self) -> bytes: ...

    def write(self, text: str) -> None: ...

    def resize(self, terminal: Terminal) -> None: ...

    def cancel(self) -> None: ...

    def close(self) -> None: ...


class OutputReceiver(Protocol):
    """Receiver of what a terminal shows. Both methods are called in a thread of the terminal's."""

    def feed(self, data: bytes) -> None:
        """Take the next bytes. Never waits."""

    def end(self) -> None:
        """Take note that there will be no more."""


class Pseudoconsole:
    """A terminal with its program. Made by `start`.

    Attributes:
        kind: The library that gives the terminal.
        pid: The program's.
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
            argv: An absolute path, and arguments.
            cwd: An absolute directory.
            env: All of its variables, in the order that Windows asks for.
            terminal: Its size.
            adopt: Is given the program's pid as soon as it has one, in a thread. When it raises, the terminal is closed.
            reader: Is given what the program prints.

        Raises:
            InvalidCommand: `CHOICE` is something else than 0 or 1.
            TerminalUnavailable: No terminal can be had.
            SpawnError: No thread can be had for it.
            OSError: The program cannot be started on it; or what `adopt` raises.
        """
        block = "".join(f"{name}={value}\0" for name, value in env.items())

        def start() -> Pseudoconsole:
            """For the thread of errands."""
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
                errands.do(partial(_give_back, starting))  # what was begun when this was cancelled
                errands.end()
                raise
        except RuntimeError as error:
            raise SpawnError(f"cannot start {argv[0]} on a terminal: no thread is left for it") from error

    async def write(self, text: str) -> None:
        """Type text.

        Raises:
            anyio.BrokenResourceError: The terminal is gone.
            anyio.ClosedResourceError: It is closed.
        """
        try:
            await self._do(partial(self._pty.write, text))
        except OSError as error:
            raise anyio.BrokenResourceError from error

    async def resize(self, terminal: Terminal) -> None:
        """Give it another size. Silent when it is gone."""
        with suppress(OSError, anyio.ClosedResourceError):
            await self._do(partial(self._pty.resize, terminal))

    def close(self) -> None:
        """Close it, which ends the programs that still have it: Windows tells and then ends them. Never waits.

        The program should have ended before.
        """
        if self._closing is None:
            self._closing = self._errands.do(self._close)
            self._errands.end()

    @property
    def closed(self) -> bool:
        """Whether it was closed, and everything is given back."""
        return self._closing is not None and self._closing.done()

    async def _do(self, call: Callable[[], None]) -> None:
        if self._closing is not None:
            raise anyio.ClosedResourceError
        await asyncio.wrap_future(self._errands.do(call))

    def _read(self) -> None:
        try:
            with suppress(OSError):  # it cannot be read any more, and so has ended
                while data := self._pty.read():
                    self._reader.feed(data)
        finally:
            self._reader.end()

    def _close(self) -> None:
        """For the thread of errands."""
        give_up = time.monotonic() + CLOSE_SECONDS
        while self._thread.is_alive():
            if time.monotonic() > give_up:
                return  # what is still read must not be closed
            self._pty.cancel()
            self._thread.join(CANCEL_AGAIN)
        self._pty.close()


class _Errands:
    """A thread that does one thing after another.

    It is a daemon: a call that never returns must not keep this process from ending. So no `ThreadPoolExecutor`.

    Raises:
        RuntimeError: This process can start no thread.
    """

    def __init__(self, name: str) -> None:
        self._waiting: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        threading.Thread(target=self._work, name=name, daemon=True).start()

    def do(self, call: Callable[[], T]) -> Future[T]:
        """Have something done when its turn has come."""
        future: Future[T] = Future()
        self._waiting.put(partial(_run, future, call))
        return future

    def end(self) -> None:
        """Have the thread end after that."""
        self._waiting.put(None)

    def _work(self) -> None:
        while (errand := self._waiting.get()) is not None:
            errand()
            del errand  # it may hold the last reference to a terminal


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
    """Close what is not awaited any more. For the thread of errands, which has done with starting by then."""
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
