"""Pseudo-terminals, as the byte streams that the rest of anyshell knows; what is set in them, and their size."""

from __future__ import annotations

import errno
import fcntl
import os
import select
import shutil
import struct
import sys
import termios
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Protocol

assert sys.platform != "win32"

import anyio

from ..._exceptions import TerminalUnavailable
from ..._terminals import LONGEST_LINE, LONGEST_LINE_OF_BSD, Line, LineKeys
from .pipes import PipeReceiveStream, PipeSendStream

if sys.platform == "linux":
    from .linux_foreground import look
else:
    from .foreground import look

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..._types import Foreground, Terminal

_GONE = (errno.EIO, errno.ENXIO)
"""What a master says when nobody has the terminal itself open any more; ENXIO on macOS, when it was revoked."""

_SHORTAGES = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""What keeps a program from being started without a terminal as well."""

_IUTF8 = 0x4000
"""``asm-generic/termbits.h``, and macOS's ``sys/termios.h``. Python does not name it."""

_NO_KEY = b"\0" if sys.platform == "linux" else b"\xff"
"""``_POSIX_VDISABLE``: what stands for no key."""


_KEYS = {
    "intr": termios.VINTR,
    "quit": termios.VQUIT,
    "susp": termios.VSUSP,
    "eof": termios.VEOF,
    "eol": termios.VEOL,
    "eol2": termios.VEOL2,
    "kill": termios.VKILL,
    "erase": termios.VERASE,
    "werase": termios.VWERASE,
    "lnext": termios.VLNEXT,
}
_INPUT_FLAGS = {"inlcr": termios.INLCR, "icrnl": termios.ICRNL, "igncr": termios.IGNCR}
_LOCAL_FLAGS = {"isig": termios.ISIG, "noflsh": termios.NOFLSH, "iexten": termios.IEXTEN}
"""What of a terminal's settings says what keys mean, by the names of stty(1)."""


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


def find_program(name: str, cwd: str, env: Mapping[bytes, bytes]) -> str:
    """The path of a program: below its directory, or looked for on its own PATH; `name` where there is none."""
    if "/" in name:
        return os.path.join(cwd, name)
    path = os.fsdecode(env.get(b"PATH", os.fsencode(os.defpath)))
    return shutil.which(name, path=path) or name


def open_pair(terminal: Terminal) -> tuple[int, int]:
    """Open a new terminal: the side of a person, and that of a program.

    Raises:
        TerminalUnavailable: There is none, or none is left.
        OSError: This process is out of descriptors, or of memory.
    """
    try:
        master, slave = os.openpty()
    except OSError as error:
        if error.errno in _SHORTAGES:
            raise
        raise TerminalUnavailable(
            f"this machine has no terminal to give ({error.strerror or error}): run it without one"
        ) from error
    try:
        prepare(slave, terminal)
    except BaseException:
        os.close(master)
        os.close(slave)
        raise
    return master, slave


def resize(fd: int, terminal: Terminal) -> None:
    """Give a terminal a size, of which the kernel tells its foreground by SIGWINCH if it is another.

    Raises:
        OSError: It is no terminal any more.
    """
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", terminal.rows, terminal.columns, 0, 0))


def prepare(fd: int, terminal: Terminal) -> None:
    """Set in a new terminal what a person's own would set: its size, and that a character may be several bytes."""
    resize(fd, terminal)
    iflag, *others = termios.tcgetattr(fd)
    termios.tcsetattr(fd, termios.TCSANOW, [iflag | _IUTF8, *others])


@dataclass(frozen=True, slots=True)
class Settings:
    """What is set in a terminal.

    Attributes:
        echo: Whether it shows what is typed.
        line_mode: Whether it passes on whole lines.
        end_of_file: The key that makes a program read end-of-file at the start of a line, in line mode; ``None`` is
            none.
        keys: What other keys mean in line mode.
    """

    echo: bool
    line_mode: bool
    end_of_file: bytes | None
    keys: LineKeys = field(default_factory=LineKeys, compare=False)

    @classmethod
    def read(cls, fd: int) -> Settings | None:
        """Ask a terminal; ``None`` when it is gone."""
        try:
            iflag, _, _, flags, _, _, characters = termios.tcgetattr(fd)
        except termios.error:
            return None
        key = characters[termios.VEOF]
        keys = {name: characters[number] for name, number in _KEYS.items()} if flags & termios.ICANON else {}
        return cls(
            keys=LineKeys.of(
                {name for name, flag in _INPUT_FLAGS.items() if iflag & flag}
                | {name for name, flag in _LOCAL_FLAGS.items() if flags & flag},
                {name: value for name, value in keys.items() if value != _NO_KEY},
            ),
            echo=bool(flags & termios.ECHO),
            line_mode=bool(flags & termios.ICANON),
            end_of_file=key if flags & termios.ICANON and key != _NO_KEY else None,
        )


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
        """Describe who has it; ``None`` when it is gone, or this process is out of descriptors."""
        if self._fd < 0:
            return None
        try:
            return look(os.tcgetpgrp(self._fd), self._tty, self._device, partial(Settings.read, self._fd))
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
    """What is typed on a terminal.

    Args:
        fd: The master; a descriptor of its own, so that closing it ends nothing.
    """

    def __init__(self, fd: int) -> None:
        super().__init__(fd)
        self._line = Line(LONGEST_LINE if sys.platform == "linux" else LONGEST_LINE_OF_BSD)
        self._meaning: LineKeys | None = None  # of what is being typed; none where there are no lines
        self._ended = False
        self._gone = select.poll()
        self._gone.register(fd, 0)  # of a hang-up it tells in any case

    async def send(self, item: bytes) -> None:
        """Type all of `item`, as fast as the terminal takes it: as the program reads, once a few KiB wait for it.

        Raises:
            InvalidCommand: A line is longer than the terminal passes on in line mode. Nothing was typed.
            anyio.BrokenResourceError: Nobody has the terminal open any more.
            anyio.ClosedResourceError: Nothing more can be typed.
        """
        settings = Settings.read(self._fd) if self._fd >= 0 else None
        if settings is None or not settings.line_mode:
            self._meaning = None
            self._line.forget()
            await super().send(item)
            return
        if not self._line.takes(item, settings.keys):
            raise self._line.refuse()
        self._meaning = settings.keys
        await super().send(item)

    def _write(self, data: memoryview) -> int:
        # Linux takes what is typed for nobody until its buffer is full, and says then that it may have room soon.
        if any(events & select.POLLHUP for _, events in self._gone.poll(0)):
            raise anyio.BrokenResourceError
        try:
            taken = super()._write(data)
        except OSError as error:
            if error.errno in _GONE:
                raise anyio.BrokenResourceError from error
            raise
        if self._meaning is not None:
            self._line.type(
                bytes(data[:taken]), self._meaning
            )  # also of what is cancelled before all is taken
        return taken

    async def aclose(self) -> None:
        """Type ^D, if the terminal is in line mode: twice on a line that has been begun, which the first one ends.

        What is typed after that arrives all the same, such as an answer to what the program asks the terminal.
        """
        settings = Settings.read(self._fd) if self._fd >= 0 and not self._ended else None
        self._ended = True
        if settings is not None and (key := settings.end_of_file) is not None:
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                await self.send(key * 2 if self._line.begun(settings.keys) else key)
