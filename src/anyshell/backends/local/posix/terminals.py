"""Pseudo-terminals, as the byte streams that the rest of anyshell knows."""

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
"""Errors of a master when no process has the terminal open any more; ENXIO on macOS, when it was revoked."""


class TerminalReceiveStream(PipeReceiveStream):
    """The output of a terminal. It ends when no process has the terminal open any more.

    A program can close the terminal and open it again (``/dev/tty``), and the kernel calls it ended in between. So
    the program's side is kept open here as well, until the program itself has ended.

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
        """Give the terminal another size. Silent when it is gone."""
        if self._fd >= 0:
            with suppress(OSError):
                resize(self._fd, terminal)

    def foreground(self) -> Foreground | None:
        """Describe its foreground; ``None`` when it is gone, or this process is out of descriptors."""
        if self._fd < 0:
            return None
        try:
            return look(os.tcgetpgrp(self._fd), self._tty, self._device, partial(read_modes, self._fd))
        except OSError:
            return None

    def let_go(self) -> None:
        """Keep the terminal open no longer: its program has ended."""
        if self._slave >= 0:
            os.close(self._slave)
            self._slave = -1

    def _close(self) -> None:
        self.let_go()
        super()._close()


class TerminalSendStream(PipeSendStream):
    """The input of a terminal, which is typed there.

    Args:
        fd: The master; a descriptor of its own, so that closing it ends nothing.
    """

    def __init__(self, fd: int) -> None:
        super().__init__(fd)
        self._line = TypedLine(LONGEST_LINE if sys.platform == "linux" else LONGEST_LINE_OF_BSD)
        self._meaning: LineKeys | None = None  # of what is being typed; none where there are no lines
        self._ended = False
        self._gone = select.poll()
        self._gone.register(fd, 0)  # of a hang-up it tells in any case

    async def send(self, item: bytes) -> None:
        """Type all of `item`, as fast as the terminal takes it: as the program reads, once a few KiB wait for it.

        Raises:
            InvalidCommand: A line is longer than the terminal passes on in line mode. Nothing was typed.
            anyio.BrokenResourceError: No process has the terminal open any more.
            anyio.ClosedResourceError: Nothing more can be typed.
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
        # Without a reader, Linux takes what is typed until its buffer is full, and says then that it may have room soon.
        if any(events & select.POLLHUP for _, events in self._gone.poll(0)):
            raise anyio.BrokenResourceError
        try:
            taken = super()._write(data)
        except OSError as error:
            if error.errno in _GONE:
                raise anyio.BrokenResourceError from error
            raise
        if self._meaning is not None:
            # Here, so that it counts what was taken of a send that is cancelled then.
            self._line.type(bytes(data[:taken]), self._meaning)
        return taken

    async def aclose(self) -> None:
        """Type ^D, if the terminal is in line mode: twice on a line that has been begun, which the first one ends.

        What is typed after that arrives all the same, such as an answer to what the program asks the terminal.
        """
        modes = read_modes(self._fd) if self._fd >= 0 and not self._ended else None
        self._ended = True
        if modes is not None and (key := modes.end_key) is not None:
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                await self.send(key * 2 if self._line.begun(modes.keys) else key)
