"""The common part of every way to start a program."""

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
        pid: The program's, which leads its session; it was not reaped yet.
        master: The side of the terminal that a person would sit at.
        slave: The program's side, kept open here: see `TerminalReceiveStream`.
    """

    pid: int
    master: int
    slave: int


class ProgramStart(NamedTuple):
    """A program to start, as the leader of a new session.

    Attributes:
        argv: The command line. Without a slash it is looked for on the PATH of `env`.
        cwd: An absolute directory.
        env: All of its variables.
        inherited: Descriptors above 2 that it gets at the same numbers. It gets no others.
        path: Its path, if that is known.
    """

    argv: Sequence[str]
    cwd: str
    env: Mapping[bytes, bytes]
    inherited: Sequence[int]
    path: str | None = None

    def find(self) -> str:
        """Return its path: from its directory, as it was named, or looked for on its own PATH.

        Raises:
            FileNotFoundError: It is not on that PATH.
        """
        name = self.path or self.argv[0]
        if "/" in name:
            return name
        import shutil  # here, since most programs are named by their path

        path = os.fsdecode(self.env.get(b"PATH", os.fsencode(os.defpath)))
        if (program := shutil.which(name, path=path)) is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        return program


class Starter(Protocol):
    """A way to start programs on terminals of their own."""

    def __call__(self, program: ProgramStart, terminal: Terminal) -> Started:
        """Start a program with a new terminal of that size as its controlling one.

        Raises:
            OSError: It could not be started, and nothing of it is left.
        """
