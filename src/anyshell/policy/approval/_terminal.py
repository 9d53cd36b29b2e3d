"""The controlling terminal; reading and writing never block the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from importlib import import_module
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

PATH = "/dev/tty"

_LONGEST_LINE = 4096
"""Bytes of an approver's answer that is typed on the terminal; a longer line counts as no answer."""
_COLUMNS = 80
"""Columns that are assumed for a terminal that does not report its width."""
_LOOK_SECONDS = 0.05
"""Seconds between two attempts to read a terminal that the event loop cannot watch (macOS)."""

_TURNS: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()
"""The lock of the terminal for each event loop. A process has one terminal, and a lock belongs to one loop."""


class NoTerminal(Exception):  # noqa: N818 - an answer, not a failure; it never leaves the package
    """The reason why no person can be asked."""


@contextlib.asynccontextmanager
async def one_terminal() -> AsyncIterator[ControllingTerminal]:
    """Wait until no other question uses the terminal, and open the terminal.

    Raises:
        NoTerminal: This process has no terminal, or another job of the shell has the terminal.
    """
    async with _TURNS.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
        terminal = ControllingTerminal()
        try:
            yield terminal
        except asyncio.CancelledError:
            terminal.mention("\n(no answer is needed any more)\n")
            raise
        finally:
            terminal.close()


def open_terminal() -> int:
    """Open a separate descriptor for the terminal, to change the descriptor's mode for no other process.

    Raises:
        NoTerminal: This process has no terminal, or another job of the shell has the terminal: reading would stop this process.
    """
    posix: Any = os  # job control exists where /dev/tty does
    if not hasattr(posix, "tcgetpgrp"):  # Windows, where /dev/tty might be any file
        raise NoTerminal("a person is not asked on Windows")
    with contextlib.ExitStack() as stack:
        try:
            fd: int = posix.open(PATH, posix.O_RDWR | posix.O_NOCTTY | posix.O_NONBLOCK | posix.O_CLOEXEC)
            stack.callback(os.close, fd)
            in_foreground = posix.tcgetpgrp(fd) == posix.getpgrp()
        except OSError as error:
            raise NoTerminal("there is no terminal") from error
        if not in_foreground:
            raise NoTerminal("the terminal is in use by another program")
        stack.pop_all()
    return fd


class ControllingTerminal:
    """The controlling terminal, for questions to a person.

    Raises:
        NoTerminal: As for `open_terminal`.
    """

    def __init__(self) -> None:
        self._fd = open_terminal()
        termios = import_module("termios")
        try:
            termios.tcflush(self._fd, termios.TCIFLUSH)  # text typed before the question is not an answer
        except BaseException:
            self.close()
            raise

    def columns(self) -> int:
        """Return the current width of the terminal."""
        try:
            return os.get_terminal_size(self._fd).columns or _COLUMNS
        except OSError:
            return _COLUMNS

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self._fd)

    async def write(self, text: str) -> None:
        """Print a whole text, however slowly the terminal accepts it."""
        data = text.encode(errors="backslashreplace")
        loop = asyncio.get_running_loop()
        while data:
            try:
                data = data[os.write(self._fd, data[:_LONGEST_LINE]) :]
            except BlockingIOError:
                await self._wait(loop.add_writer, loop.remove_writer)
            except OSError as error:
                raise NoTerminal("the terminal is gone") from error

    def mention(self, text: str) -> None:
        """Print a text if the terminal accepts it at once; ignore failures."""
        with contextlib.suppress(OSError):
            os.write(self._fd, text.encode(errors="backslashreplace"))

    async def read_line(self) -> str | None:
        """Read a line; ``None`` if the terminal is closed or the end-of-file key is pressed; empty if the line is too long."""
        typed = b""
        loop = asyncio.get_running_loop()
        while len(typed) < _LONGEST_LINE:
            try:
                data = os.read(self._fd, _LONGEST_LINE)
            except BlockingIOError:
                await self._wait(loop.add_reader, loop.remove_reader)
                continue
            except OSError:
                return None
            if not data:
                return None
            typed += data
            line, *end = re.split(rb"[\r\n]", typed, maxsplit=1)
            if end:
                return line.decode(errors="replace")
        return ""

    async def _wait(
        self, watch: Callable[[int, Callable[[], None]], object], unwatch: Callable[[int], object]
    ) -> None:
        ready = asyncio.Event()
        try:
            watch(self._fd, ready.set)
        except (OSError, NotImplementedError):  # kqueue of macOS cannot watch /dev/tty
            await asyncio.sleep(_LOOK_SECONDS)
            return
        try:
            await ready.wait()
        finally:
            unwatch(self._fd)
