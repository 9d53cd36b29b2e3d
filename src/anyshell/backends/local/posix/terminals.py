"""Pseudo-terminals, as anyio byte streams."""

from __future__ import annotations

import errno
import os
import select
import sys
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

assert sys.platform != "win32"

import anyio

from ...._terminals import LONGEST_LINE, LONGEST_LINE_OF_BSD, TypedLine
from .pipes import PipeReceiveStream, PipeSendStream
from .tty import read_modes, resize

if sys.platform == "linux":
    from .linux.foreground import look
else:
    from .foreground import look

if TYPE_CHECKING:
    from ...._terminals import LineKeys
    from ...._types import Foreground, Terminal

_GONE = (errno.EIO, errno.ENXIO)
"""The errors of a master after the last process has closed the terminal; ENXIO on macOS, when the terminal was revoked."""


class TerminalReceiveStream(PipeReceiveStream):
    """The output of a terminal. The stream ends when the last process has closed the terminal.

    A program can close the terminal and open it again (``/dev/tty``). The kernel would report the end in between. So the
    program's side is kept open here as well, until the program itself has ended.

    Args:
        fd: The master.
        slave: The program's side.
    """

    def __init__(self, fd: int, slave: int) -> None:
        super().__init__(fd)
        self._slave = slave
        self._tty = os.ttyname(slave)
        self._device = os.fstat(slave).st_rdev

    def _read(self, max_bytes: int) -> bytes:
        try:
            return super()._read(max_bytes)
        except OSError as error:
            if error.errno in _GONE:
                return b""
            raise

    def resize(self, terminal: Terminal) -> None:
        """Resize the terminal. Does nothing if the terminal is gone."""
        if self._fd >= 0:
            with suppress(OSError):
                resize(self._fd, terminal)

    def foreground(self) -> Foreground | None:
        """Describe the terminal's foreground; ``None`` if the terminal is gone, or this process is out of descriptors."""
        if self._fd < 0:
            return None
        try:
            return look(os.tcgetpgrp(self._fd), self._tty, self._device, partial(read_modes, self._fd))
        except OSError:
            return None

    def let_go(self) -> None:
        """Close the program's side, because the program has ended."""
        if self._slave >= 0:
            os.close(self._slave)
            self._slave = -1

    def _close(self) -> None:
        self.let_go()
        super()._close()


class TerminalSendStream(PipeSendStream):
    """The keyboard input of a terminal.

    Args:
        fd: A descriptor of the master for this stream alone, so that its close does not close the terminal.
    """

    def __init__(self, fd: int) -> None:
        super().__init__(fd)
        self._line = TypedLine(LONGEST_LINE if sys.platform == "linux" else LONGEST_LINE_OF_BSD)
        self._meaning: LineKeys | None = None  # the keys' meaning during a send; ``None`` outside line mode
        self._ended = False
        self._gone = select.poll()
        self._gone.register(fd, 0)  # a hang-up is always reported

    async def send(self, item: bytes) -> None:
        """Type all of `item`. After a few unread KiB, typing goes on only as fast as the program reads.

        Raises:
            InvalidCommand: A line is longer than the terminal's limit in line mode. Nothing was typed.
            anyio.BrokenResourceError: The last process has closed the terminal.
            anyio.ClosedResourceError: This stream is closed.
        """
        modes = read_modes(self._fd) if self._fd >= 0 else None
        if modes is None or not modes.line_mode:
            self._meaning = None
            self._line.forget()
            await super().send(item)
            return
        if not self._line.takes(item, modes.keys):
            raise self._line.refuse()
        self._meaning = modes.keys
        await super().send(item)

    def _write(self, data: memoryview) -> int:
        # Without a reader, Linux accepts input until its buffer is full, and then returns EAGAIN for ever. So check for a
        # hang-up first.
        if any(events & select.POLLHUP for _, events in self._gone.poll(0)):
            raise anyio.BrokenResourceError
        try:
            taken = super()._write(data)
        except OSError as error:
            if error.errno in _GONE:
                raise anyio.BrokenResourceError from error
            raise
        if self._meaning is not None:
            # Counted here, so that the bytes of a cancelled send count if the terminal has taken them.
            self._line.type(bytes(data[:taken]), self._meaning)
        return taken

    async def aclose(self) -> None:
        """Type ^D once, if the terminal is in line mode. On a line that has been begun, type ^D twice: the first ends the line.

        Later input still reaches the program, such as the answer to a query that the program sends to the terminal.
        """
        modes = read_modes(self._fd) if self._fd >= 0 and not self._ended else None
        self._ended = True
        if modes is not None and (key := modes.end_key) is not None:
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                await self.send(key * 2 if self._line.begun(modes.keys) else key)
