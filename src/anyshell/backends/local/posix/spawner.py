"""Start of programs on this machine, on POSIX systems."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import itertools
import os
import signal
import stat
import sys
import time
from typing import TYPE_CHECKING, NamedTuple

assert sys.platform != "win32"

from ...._exceptions import InvalidCommand, SpawnError
from ..process import ReleasedStreams
from .direct import start_directly
from .exits import ExitWatch
from .pipes import PipeReceiveStream, PipeSendStream
from .process import Child, PosixProcess
from .scripts import open_script
from .starter import ProgramStart
from .tree import MARK_PREFIX
from .variables import host_variables

if sys.platform == "linux":
    from . import posix_spawn
    from .linux.net import Net
    from .linux.proc import namespace, now, own_start
    from .linux.scan import ProcessScan
    from .linux.tree import make_tree
else:
    from .descendants import Net, ProcessScan, make_tree, namespace, now, own_start

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from types import ModuleType

    from ...._types import Spawn
    from .starter import Starter
    from .terminals import TerminalReceiveStream

_FIRST_FD = 100
"""The lowest number of the descriptors that a command inherits for anyshell, above those that a script's redirections use."""


def default_starter() -> Starter:
    """Return the best available function that starts a program on a terminal."""
    start: Starter = _default().start
    return start


def _default() -> ModuleType:
    """Return the best available module that starts programs: `posix_spawn`, which copies nothing of this process, or `forking`."""
    if sys.platform == "linux" and posix_spawn.AVAILABLE:
        return posix_spawn
    from . import forking

    return forking


class LocalSpawner:
    """Starts programs and keeps track of the running programs.

    A program's mark names this process by pid, start time and pid namespace. So another program that finds a marked process
    can tell whether the anyshell that started the process is still running.

    Args:
        on_terminal: The function that starts programs on terminals; ``None`` is the best available function.

    Attributes:
        released: The output streams of released programs, and the discarded pipes.
    """

    def __init__(self, on_terminal: Starter | None = None) -> None:
        self._starter = on_terminal
        self._identify()
        self._net = Net()
        self._running: dict[PosixProcess, int] = {}
        """The running programs, each with its place in the net."""
        self.released = ReleasedStreams()
        self._closed = False

    def _identify(self) -> None:
        self._pid = os.getpid()
        self._owner = f"{self._pid}_{own_start()}_{namespace('self')}_{os.urandom(4).hex()}"
        self._scan = ProcessScan()
        self._tags = itertools.count(int.from_bytes(os.urandom(8)) >> 3 << 1 | 1)

    async def spawn(self, spawn: Spawn) -> PosixProcess:
        """Start a program in a session of its own.

        Blocks the event loop until the program's image is loaded: about half a millisecond.

        Raises:
            InvalidCommand: The directory does not exist, is not a directory, or may not be entered.
            SpawnError: The program could not be started.
        """
        if self._closed:
            raise SpawnError("this backend is closed: it starts nothing more")
        _check_directory(spawn.cwd)
        # A fork of this process must not repeat its parent's marks and tags, and may have closed its parent's descriptors.
        if self._pid != os.getpid():
            self._identify()
        since = now()
        number = next(self._tags)
        mark = MARK_PREFIX + f"{self._owner}_{number & 0xFFFFFFFF:08x}".encode()
        env = host_variables()
        for name in spawn.unset:
            env.pop(os.fsencode(name), None)
        if spawn.terminal is not None:
            # These variables have another terminal's size, and programs use them before they ask this terminal.
            for size in (b"COLUMNS", b"LINES"):
                env.pop(size, None)
            env[b"TERM"] = spawn.terminal.term.encode()
        variables = {**spawn.settings, **spawn.env}
        env.update(zip(_encode(variables.keys()), _encode(variables.values()), strict=True))
        env[mark] = b"1"

        with self._net.noting(since, mark) as place, _Descriptors() as fds:
            life, child_life = fds.pipe()
            inherited = [fds.raise_above(child_life, _FIRST_FD)]
            if spawn.script is not None:
                script = fds.raise_above(fds.own(open_script(spawn.script)), _FIRST_FD)
                inherited.append(script)
                env[b"ANYSHELL_SCRIPT"] = b"/dev/fd/%d" % script
            used = None
            if spawn.holder is not None:
                used = fds.own(open_script(""))
                inherited.append(fds.raise_above(fds.own(os.dup(used)), _FIRST_FD))
                env[b"ANYSHELL_USED"] = b"%d" % inherited[-1]
            began = time.monotonic()
            start = _start_on_pipes if spawn.terminal is None else self._start_on_terminal
            try:
                child, ends = start(spawn, env, inherited, fds)
            except OSError as error:
                raise SpawnError(f"cannot start {spawn.argv[0]}: {_explain(error)}") from error
            try:
                stdout, stderr, stdin, terminal = ends.streams()
                tree = make_tree(
                    child.pid,
                    since=since,
                    began=began,
                    mark=mark,
                    number=number,
                    ends=[life, *ends.written],
                    scan=self._scan,
                )
                process = PosixProcess(
                    child,
                    tree,
                    ExitWatch(child.pid, stdout.let_go),
                    stdout=stdout,
                    stderr=stderr,
                    stdin=stdin,
                    terminal=terminal,
                    life=PipeReceiveStream(life),
                    used=used,
                    mark=mark,
                    on_closed=self._forget,
                    released=self.released,
                    holder=spawn.holder,
                )
            except BaseException as error:
                # Usually out of descriptors: a program that cannot be watched must not run.
                _end(child)
                if not isinstance(error, OSError):
                    raise
                raise SpawnError(f"cannot watch {spawn.argv[0]}: {_explain(error)}") from error
            fds.keep(life, *ends.fds, *([] if used is None else [used]))
        self._net.hold(place, tree)
        self._running[process] = place
        return process

    def _forget(self, process: PosixProcess) -> None:
        self._net.drop(self._running.pop(process, -1))

    def _start_on_terminal(
        self, spawn: Spawn, env: dict[bytes, bytes], inherited: Sequence[int], fds: _Descriptors
    ) -> tuple[Child, _Ends]:
        assert spawn.terminal is not None
        start = self._starter or default_starter()
        started = start(
            ProgramStart(argv=spawn.argv, cwd=spawn.cwd, env=env, inherited=inherited), spawn.terminal
        )
        child = Child(started.pid)
        fds.close(*inherited)
        master, slave = fds.own(started.master), fds.own(started.slave)
        try:
            typing = fds.own(os.dup(master))
        except OSError:
            _end(child)
            raise
        return child, _Ends(stdout=master, stdin=typing, slave=slave)

    async def aclose(self) -> None:
        """Stop all running programs, start no more, and stop reading the output of released programs."""
        self._closed = True
        await asyncio.gather(*(process.aclose() for process in self._running))
        self.released.close()
        self._net.close()
        if self._pid == os.getpid():  # in a fork, the scan is the parent's
            self._scan.close()


def _encode(texts: Collection[str]) -> list[bytes]:
    """Encode many texts at once, several times faster than one by one. No text may contain a NUL.

    Raises:
        InvalidCommand: A text has a character that the file system's encoding lacks, such as an umlaut in ASCII.
    """
    try:
        return os.fsencode("\0".join(texts)).split(b"\0") if texts else []
    except UnicodeEncodeError as error:
        raise InvalidCommand(
            f"a variable has a character that {error.encoding} cannot say, in which this Python speaks with the system; "
            "set PYTHONUTF8=1 for it"
        ) from None


def _check_directory(path: str) -> None:
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        raise InvalidCommand(f"cwd {path!r} cannot be used: {error.strerror}") from error
    if not stat.S_ISDIR(mode):
        raise InvalidCommand(f"cwd {path!r} is not a directory")
    if not os.access(path, os.X_OK, effective_ids=True):
        raise InvalidCommand(f"cwd {path!r} cannot be used: Permission denied")


def _explain(error: OSError) -> str:
    if error.errno == errno.E2BIG:
        return "the arguments and variables are too large for this system together; pass big values by stdin or a file"
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return "too many open files; run fewer commands at once, or raise the limit (ulimit -n)"
    if error.errno == errno.EAGAIN:
        return "too many processes (ulimit -u); run fewer commands at once"
    return error.strerror or str(error)


def _end(child: Child) -> None:
    os.killpg(child.pid, signal.SIGKILL)
    child.wait()


class _Ends(NamedTuple):
    """Our ends of a program's pipes or terminal. -1 means no descriptor."""

    stdout: int
    stderr: int = -1
    stdin: int = -1
    slave: int = -1

    @property
    def fds(self) -> tuple[int, ...]:
        return self.stdout, self.stderr, self.stdin, self.slave

    @property
    def written(self) -> list[int]:
        """The descriptors of the pipes, or of the terminal, that the program can write to."""
        if self.slave >= 0:
            return [self.slave]
        return [self.stdout, self.stderr] if self.stderr >= 0 else [self.stdout]

    def streams(
        self,
    ) -> tuple[
        PipeReceiveStream, PipeReceiveStream | None, PipeSendStream | None, TerminalReceiveStream | None
    ]:
        """Make the streams for stdout, stderr, stdin and the terminal, bound to the running event loop.

        On a terminal, the first and the last are the same stream.
        """
        if self.slave >= 0:
            # Imported here, since few programs have a terminal.
            from .terminals import TerminalReceiveStream, TerminalSendStream

            terminal = TerminalReceiveStream(self.stdout, self.slave)
            return terminal, None, TerminalSendStream(self.stdin), terminal
        return (
            PipeReceiveStream(self.stdout),
            PipeReceiveStream(self.stderr) if self.stderr >= 0 else None,
            PipeSendStream(self.stdin) if self.stdin >= 0 else None,
            None,
        )


def _start_on_pipes(
    spawn: Spawn, env: dict[bytes, bytes], inherited: Sequence[int], fds: _Descriptors
) -> tuple[Child, _Ends]:
    stdout, child_stdout = fds.pipe()
    stderr, child_stderr = fds.pipe() if spawn.split_stderr else (-1, child_stdout)
    child_stdin, stdin = fds.pipe() if spawn.stdin else (fds.open(os.devnull), -1)
    program = ProgramStart(argv=spawn.argv, cwd=spawn.cwd, env=env, inherited=inherited)
    pid = start_directly(program, _default().spawn, (child_stdin, child_stdout, child_stderr))
    fds.close(*inherited, *{child_stdin, child_stdout, child_stderr})
    return Child(pid), _Ends(stdout=stdout, stderr=stderr, stdin=stdin)


class _Descriptors:
    """Descriptors of an unfinished spawn: closed at the end of the ``with`` block, unless kept."""

    def __init__(self) -> None:
        self._fds: set[int] = set()

    def __enter__(self) -> _Descriptors:
        return self

    def __exit__(self, *_: object) -> None:
        for fd in self._fds:
            os.close(fd)

    def own(self, fd: int) -> int:
        self._fds.add(fd)
        # A number below 3 was free because a standard descriptor of this process is closed. A program would take the
        # descriptor for its own standard descriptor.
        return fd if fd >= 3 else self.raise_above(fd, 3)

    def keep(self, *fds: int) -> None:
        self._fds.difference_update(fds)

    def close(self, *fds: int) -> None:
        """Close descriptors now, so that later steps find free descriptors: a started program must be watched."""
        self.keep(*fds)
        for fd in fds:
            os.close(fd)

    def open(self, path: str) -> int:
        try:
            return self.own(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        except OSError as error:
            raise SpawnError(f"cannot open {path}: {_explain(error)}") from error

    def pipe(self) -> tuple[int, int]:
        try:
            read, write = os.pipe()
        except OSError as error:
            raise SpawnError(f"cannot make a pipe: {_explain(error)}") from error
        return self.own(read), self.own(write)

    def raise_above(self, fd: int, least: int) -> int:
        """Move a descriptor to a number from `least` on, above the numbers that scripts use; on failure, leave it in place."""
        try:
            raised = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, least)
        except OSError:
            return fd
        self.keep(fd)
        os.close(fd)
        return self.own(raised)
