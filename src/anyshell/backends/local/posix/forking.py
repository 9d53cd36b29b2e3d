"""Start of a program by a fork, on a terminal by ptyprocess, for systems without a suitable ``posix_spawn``, such as macOS."""

from __future__ import annotations

import errno
import os
import select
import signal
import subprocess
import sys
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING

assert sys.platform != "win32"

from ptyprocess import PtyProcess

from .starter import Started
from .tty import open_pair, prepare

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...._types import Terminal
    from .starter import ProgramStart


def start(program: ProgramStart, terminal: Terminal) -> Started:
    """Start a program on a terminal of its own. See `starter.Starter`."""
    parent = os.getpid()
    told, tell = os.pipe()

    def become() -> None:
        _reset_signals()
        prepare(0, terminal)
        os.write(tell, os.fsencode(os.ttyname(0)))
        os.close(tell)
        for fd in program.inherited:
            os.set_inheritable(fd, True)

    try:
        try:
            child = _fork(program, become, terminal, tell)
        finally:
            if os.getpid() != parent:  # in the child, where ptyprocess raises errors before it calls `become`
                os._exit(127)
            os.close(tell)
        return _take(child, os.read(told, select.PIPE_BUF))
    finally:
        os.close(told)


def spawn(program: ProgramStart, standard: Sequence[int]) -> int:
    """Start a program with pipes. See `posix_spawn.spawn`; unlike there, `standard` cannot be a terminal."""
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    popen = subprocess.Popen(
        program.argv,
        executable=program.path,
        stdin=standard[0],
        stdout=standard[1],
        stderr=standard[2],
        cwd=program.cwd,
        env=program.env,
        pass_fds=program.inherited,
        start_new_session=True,
        # preexec_fn is slow, and unsafe beside threads. So use it only if this process has changed its signals.
        preexec_fn=_reset_signals if blocked or _ignored() - {signal.SIGPIPE, signal.SIGXFSZ} else None,
    )
    popen.returncode = 0  # keeps Popen from waiting for the program: the caller does
    return popen.pid


def _ignored() -> set[int]:
    """Return the signals that this process ignores, and that a child would inherit as ignored."""
    return {number for number in signal.valid_signals() if signal.getsignal(number) is signal.SIG_IGN}


def _reset_signals() -> None:
    for number in _ignored():
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _fork(program: ProgramStart, become: Callable[[], None], terminal: Terminal, tell: int) -> PtyProcess:
    made: list[PtyProcess] = []

    class ForkedChild(PtyProcess):  # type: ignore[misc]  # it has no types
        def __init__(self, pid: int, fd: int) -> None:
            super().__init__(pid, fd)
            made.append(self)

    _check_room(terminal)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # CPython 3.12 on, for a fork beside threads
            return ForkedChild.spawn(
                [os.path.join(program.cwd, program.find()), *program.argv[1:]],
                cwd=program.cwd,
                env=program.env,
                preexec_fn=become,
                dimensions=(terminal.rows, terminal.columns),
                pass_fds=(*program.inherited, tell),
            )
    except Exception as error:
        for child in made:  # the child has ended: reap it here, before ptyprocess does in its destructor
            _let_go(child)
            os.waitpid(child.pid, 0)
        if isinstance(error, FileNotFoundError) and not error.errno:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), program.argv[0]) from error
        raise


def _check_room(terminal: Terminal) -> None:
    """Check that a terminal and the needed descriptors are available: without them ptyprocess leaks descriptors."""
    fds = [*open_pair(terminal)]
    try:
        fds += os.pipe()
    finally:
        for fd in fds:
            os.close(fd)


def _take(child: PtyProcess, tty: bytes) -> Started:
    try:
        slave = os.open(tty, os.O_RDWR | os.O_NOCTTY)
        try:
            return Started(child.pid, os.dup(child.fd), slave)
        except OSError:
            os.close(slave)
            raise
    except OSError:
        with suppress(OSError):  # the child has ended already
            os.killpg(child.pid, signal.SIGKILL)
        os.waitpid(child.pid, 0)
        raise
    finally:
        _let_go(child)


def _let_go(child: PtyProcess) -> None:
    """Close a child's terminal here, so that ptyprocess's destructor does not close it, which includes a sleep."""
    child.fileobj.close()
    child.closed = True
