"""Start a program on a terminal by ptyprocess, which forks: where the C library cannot do it at once, as on macOS."""

from __future__ import annotations

import errno
import os
import signal
import sys
import warnings
from typing import TYPE_CHECKING

assert sys.platform != "win32"

from ptyprocess import PtyProcess

from .terminals import Started, prepare

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ..._types import Terminal

_LONGEST_NAME = 1024
"""Bytes of the name of a terminal."""


def start(
    argv: Sequence[str],
    *,
    cwd: str,
    env: Mapping[bytes, bytes],
    terminal: Terminal,
    inherited: Sequence[int],
) -> Started:
    """Start a program on a terminal of its own. See `terminals.Starter`."""
    parent = os.getpid()
    told, tell = os.pipe()

    def become() -> None:
        for number in signal.valid_signals():
            if signal.getsignal(number) is signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        prepare(0, terminal)
        os.write(tell, os.fsencode(os.ttyname(0)))
        os.close(tell)
        for fd in inherited:
            os.set_inheritable(fd, True)

    try:
        try:
            size = terminal.rows, terminal.columns
            child = _fork(argv, cwd, env, become, size, (*inherited, tell))
        finally:
            if os.getpid() != parent:  # what goes wrong in the child before `become`, ptyprocess raises there
                os._exit(127)
            os.close(tell)
        return _take(child, os.read(told, _LONGEST_NAME))
    finally:
        os.close(told)


def _fork(
    argv: Sequence[str],
    cwd: str,
    env: Mapping[bytes, bytes],
    become: Callable[[], None],
    size: tuple[int, int],
    inherited: Sequence[int],
) -> PtyProcess:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # CPython 3.12 on, for a fork beside threads
            return PtyProcess.spawn(
                list(argv), cwd=cwd, env=env, preexec_fn=become, dimensions=size, pass_fds=inherited
            )
    except FileNotFoundError as error:
        if error.errno:
            raise
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), argv[0]) from error


def _take(child: PtyProcess, tty: bytes) -> Started:
    """Take the terminal out of ptyprocess's hands, whose `close` sleeps, and is called when it is forgotten."""
    try:
        slave = os.open(tty, os.O_RDWR | os.O_NOCTTY)
        try:
            return Started(child.pid, os.dup(child.fd), slave)
        except OSError:
            os.close(slave)
            raise
    except OSError:
        os.killpg(child.pid, signal.SIGKILL)
        os.waitpid(child.pid, 0)
        raise
    finally:
        child.fileobj.close()
        child.closed = True
