"""What every way to start a program on a terminal has in common."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

assert sys.platform != "win32"

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...._types import Terminal


@dataclass(frozen=True, slots=True)
class Started:
    """A program that was started on a terminal of its own.

    Attributes:
        pid: The program's, which leads its session; it was not reaped yet.
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


def find_program(name: str, cwd: str, env: Mapping[bytes, bytes]) -> str:
    """The path of a program: below its directory, or looked for on its own PATH.

    Raises:
        FileNotFoundError: It is not on that PATH.
    """
    if "/" in name:
        return os.path.join(cwd, name)
    path = os.fsdecode(env.get(b"PATH", os.fsencode(os.defpath)))
    if (program := shutil.which(name, path=path)) is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
    return program
