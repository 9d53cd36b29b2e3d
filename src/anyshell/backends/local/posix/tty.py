"""Pseudo-terminals: opening, modes and size."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import sys
import termios
from typing import TYPE_CHECKING

assert sys.platform != "win32"

from ...._exceptions import TerminalUnavailable
from ...._terminals import LineKeys, TtyModes

if TYPE_CHECKING:
    from ...._types import Terminal

_SHORTAGES = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""The error numbers of shortages, which a start without a terminal would meet as well."""

_IUTF8 = 0x4000  # no bound
"""IUTF8 of ``asm-generic/termbits.h``, and of macOS's ``sys/termios.h``. Python has no name for this flag."""

_NO_KEY = b"\0" if sys.platform == "linux" else b"\xff"
"""``_POSIX_VDISABLE``: the value for "no key"."""

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
"""The modes of a terminal that define the meaning of keys, by their names in stty(1)."""


def open_pair(terminal: Terminal) -> tuple[int, int]:
    """Open a new terminal; return the master, for the person's side, and the slave, for the program's side.

    Raises:
        TerminalUnavailable: The system has no terminals, or all terminals are in use.
        OSError: This process is out of descriptors, or of memory.
    """
    try:
        master, slave = os.openpty()
    except OSError as error:
        if error.errno in _SHORTAGES:
            raise
        raise TerminalUnavailable(
            f"this machine has no terminal to give ({error.strerror or error}); run it without one"
        ) from error
    try:
        prepare(slave, terminal)
    except BaseException:
        os.close(master)
        os.close(slave)
        raise
    return master, slave


def resize(fd: int, terminal: Terminal) -> None:
    """Resize a terminal. If the size has changed, the kernel sends SIGWINCH to the terminal's foreground.

    Raises:
        OSError: The terminal is gone.
    """
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", terminal.rows, terminal.columns, 0, 0))


def prepare(fd: int, terminal: Terminal) -> None:
    """Set up a new terminal as a terminal emulator would: the size, and UTF-8, where a character may be several bytes."""
    resize(fd, terminal)
    iflag, *others = termios.tcgetattr(fd)
    termios.tcsetattr(fd, termios.TCSANOW, [iflag | _IUTF8, *others])


def read_modes(fd: int) -> TtyModes | None:
    """Read the modes of a terminal; ``None`` if the terminal is gone."""
    try:
        iflag, _, _, flags, _, _, characters = termios.tcgetattr(fd)
    except termios.error:
        return None
    key = characters[termios.VEOF]
    keys = {name: characters[number] for name, number in _KEYS.items()} if flags & termios.ICANON else {}
    return TtyModes(
        keys=LineKeys.of(
            {name for name, flag in _INPUT_FLAGS.items() if iflag & flag}
            | {name for name, flag in _LOCAL_FLAGS.items() if flags & flag},
            {name: value for name, value in keys.items() if value != _NO_KEY},
        ),
        echo=bool(flags & termios.ECHO),
        line_mode=bool(flags & termios.ICANON),
        end_key=key if flags & termios.ICANON and key != _NO_KEY else None,
    )
