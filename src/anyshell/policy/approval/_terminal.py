"""The controlling terminal, read and written without ever blocking the event loop."""

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
"""Bytes of an approver's answer that is typed on the terminal."""
_COLUMNS = 80
"""Columns of a terminal that does not say how wide it is, where a request is shown."""
_LOOK_SECONDS = 0.05
"""Seconds between two looks at a terminal that cannot be watched (macOS)."""

_TURNS: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()
"""Whose turn it is. A process has one terminal, so this is the process's too; a lock belongs to one loop."""


class NoTerminal(Exception):  # noqa: N818 - an answer, not a failure; it never leaves the package
    """No person can be asked, with the reason."""


@contextlib.asynccontextmanager
async def one_terminal() -> AsyncIterator[ControllingTerminal]:
    """Wait for the terminal to be free, and have it.

    Raises:
        NoTerminal: This process has no terminal, or it belongs to another job of its shell.
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
    """Open a descriptor of its own for the terminal, so that its mode changes for no other process.

    Raises:
        NoTerminal: This process has no terminal, or it belongs to another job of its shell: reading would stop this process.
    """
    posix: Any = os  # job control exists where /dev/tty does
    if not hasattr(posix, "tcgetpgrp"):  # as on Windows, where the path might be any file's
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
    """The terminal, to ask a person on.

    Raises:
        NoTerminal: As `open_terminal` does.
    """

    def __init__(self) -> None:
        self._fd = open_terminal()
        termios = import_module("termios")
        try:
            termios.tcflush(self._fd, termios.TCIFLUSH)  # what was typed before a question is no answer to it
        except BaseException:
            self.close()
            raise

    def columns(self) -> int:
        """The width of the terminal now."""
        try:
            return os.get_terminal_size(self._fd).columns or _COLUMNS
        except OSError:
            return _COLUMNS

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self._fd)

    async def write(self, text: str) -> None:
        """Print a text whole, however slowly the terminal takes it."""
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
        """Print a text if the terminal takes it now."""
        with contextlib.suppress(OSError):
            os.write(self._fd, text.encode(errors="backslashreplace"))

    async def read_line(self) -> str | None:
        """Read a line; ``None`` when the terminal is closed instead, or its end-of-file key is pressed."""
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
