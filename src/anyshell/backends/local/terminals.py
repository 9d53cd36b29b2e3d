"""Pseudo-terminals, as the byte streams that the rest of anyshell knows; what is set in them, and their size."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import sys
import termios
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

assert sys.platform != "win32"

import anyio

from .pipes import PipeReceiveStream, PipeSendStream

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..._types import Terminal

_GONE = (errno.EIO, errno.ENXIO)
"""What a master says when nobody has the terminal itself open any more; ENXIO on macOS, when it was revoked."""

_IUTF8 = 0x4000
"""``asm-generic/termbits.h``, and macOS's ``sys/termios.h``. Python does not name it."""

_LOCAL_FLAGS = 3
_INPUT_FLAGS = 0
_CHARACTERS = 6


@dataclass(frozen=True, slots=True)
class Started:
    """A program that was started on a terminal of its own.

    Attributes:
        pid: The program's, which leads its session; nobody has reaped it.
        master: The side of the terminal that a person would sit at.
        slave: The program's side, kept open here: see `TerminalReceiveStream`.
    """

    pid: int
    master: int
    slave: int


class Starter(Protocol):
    """A way to start programs on terminals of their own."""

    def __call__(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[bytes, bytes],
        terminal: Terminal,
        inherited: Sequence[int],
    ) -> Started:
        """Start a program as the leader of a new session, with the terminal as its controlling one.

        Args:
            argv: What is run. Without a slash it is looked for on the PATH of `env`.
            cwd: An absolute directory.
            env: All of its variables.
            terminal: The size of the terminal.
            inherited: The descriptors that it gets besides the terminal, at the same numbers.

        Raises:
            OSError: It could not be started, and nothing of it is left.
        """


def default_starter() -> Starter:
    """The better way of those that there are: without copying this process, where the C library can do that."""
    if sys.platform == "linux":
        from . import posix_spawn

        if posix_spawn.AVAILABLE:
            return posix_spawn.start
    from . import forking

    return forking.start


def resize(fd: int, terminal: Terminal) -> None:
    """Give a terminal a size, of which the kernel tells its foreground by SIGWINCH if it is another.

    Raises:
        OSError: It is no terminal any more.
    """
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", terminal.rows, terminal.columns, 0, 0))


def prepare(fd: int, terminal: Terminal) -> None:
    """Set in a new terminal what a person's own would set: its size, and that a character may be several bytes."""
    resize(fd, terminal)
    attributes = termios.tcgetattr(fd)
    attributes[_INPUT_FLAGS] |= _IUTF8
    termios.tcsetattr(fd, termios.TCSANOW, attributes)


def end_of_file(fd: int) -> bytes | None:
    """What has to be typed for a program to read end-of-file at the start of a line; ``None`` outside line mode."""
    try:
        attributes = termios.tcgetattr(fd)
    except termios.error:
        return None
    key: bytes = attributes[_CHARACTERS][termios.VEOF]
    return key if attributes[_LOCAL_FLAGS] & termios.ICANON and key != b"\0" else None


class TerminalReceiveStream(PipeReceiveStream):
    """What a terminal shows. It ends when nobody has the terminal open any more.

    A program can close the terminal and open it again (``/dev/tty``), and the kernel calls it ended in between. So
    the program's side is kept open here as well, until the program itself has ended.

    Args:
        fd: The master.
        slave: The program's side.
    """

    def __init__(self, fd: int, slave: int) -> None:
        super().__init__(fd)
        self._slave = slave

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

    def let_go(self) -> None:
        """Keep the terminal open no longer: its program has ended."""
        if self._slave >= 0:
            os.close(self._slave)
            self._slave = -1

    def _close(self) -> None:
        self.let_go()
        super()._close()


class TerminalSendStream(PipeSendStream):
    """What is typed on a terminal.

    Args:
        fd: The master; a descriptor of its own, so that closing it ends nothing.
    """

    def __init__(self, fd: int) -> None:
        super().__init__(fd)
        self._begun = False

    async def send(self, item: bytes) -> None:
        """Type all of `item`, as fast as the terminal takes it.

        Raises:
            anyio.BrokenResourceError: Nobody has the terminal open any more.
            anyio.ClosedResourceError: Nothing more can be typed.
        """
        await super().send(item)
        if item:
            self._begun = item[-1:] not in (b"\n", b"\r")

    def _write(self, data: memoryview) -> int:
        try:
            return super()._write(data)
        except OSError as error:
            if error.errno in _GONE:
                raise anyio.BrokenResourceError from error
            raise

    async def aclose(self) -> None:
        """Type ^D, if the terminal is in line mode: twice on a line that has been begun, which the first one ends."""
        if self._fd >= 0 and (key := end_of_file(self._fd)) is not None:
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                await self.send(key * 2 if self._begun else key)
        self.close()
