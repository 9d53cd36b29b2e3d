"""The types that all ways to start a program share."""

from __future__ import annotations

import errno
import os
import sys
from typing import TYPE_CHECKING, NamedTuple, Protocol

assert sys.platform != "win32"

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...._types import Terminal


class Started(NamedTuple):
    """A program that was started on a terminal of its own.

    Attributes:
        pid: The program's pid. The program leads its session, and was not reaped yet.
        master: The side of the terminal for the person, or for a terminal emulator.
        slave: The program's side of the terminal, kept open here: see `TerminalReceiveStream`.
    """

    pid: int
    master: int
    slave: int


class ProgramStart(NamedTuple):
    """A program to start, as the leader of a new session.

    Attributes:
        argv: The command line. A program name without a slash is looked up on the PATH of `env`.
        cwd: The absolute path of the working directory.
        env: All environment variables.
        inherited: Descriptors above 2 that the program gets, at the same numbers. The program gets no others above 2.
        path: The program's path, if known.
    """

    argv: Sequence[str]
    cwd: str
    env: Mapping[bytes, bytes]
    inherited: Sequence[int]
    path: str | None = None

    def find(self) -> str:
        """Return the program's path: the given path, or the result of a look-up on the PATH of `env`.

        Raises:
            FileNotFoundError: The program is not on that PATH.
        """
        name = self.path or self.argv[0]
        if "/" in name:
            return name
        import shutil  # imported here, since most programs are given by a path

        path = os.fsdecode(self.env.get(b"PATH", os.fsencode(os.defpath)))
        if (program := shutil.which(name, path=path)) is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        return program


class Starter(Protocol):
    """A function that starts programs, each on a terminal of its own."""

    def __call__(self, program: ProgramStart, terminal: Terminal) -> Started:
        """Start a program with a new terminal of the given size as its controlling terminal.

        Raises:
            OSError: The program could not be started, and no process remains.
        """
