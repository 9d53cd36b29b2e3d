"""Start programs on this machine, where it is POSIX, and hold on to their whole tree."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import itertools
import os
import secrets
import signal
import stat
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio

assert sys.platform != "win32"

from ...._exceptions import InvalidCommand, SpawnError
from ...._types import ProcessInfo, still_named
from ...closing import kill_until_gone
from .exits import ExitWatch
from .pipes import PipeReceiveStream, PipeSendStream
from .scripts import open_script
from .terminals import TerminalReceiveStream, TerminalSendStream
from .tree import MARK_PREFIX
from .variables import host_variables

if sys.platform == "linux":
    from . import posix_spawn
    from .linux.net import Net
    from .linux.proc import namespace, now, own_start, shares_session
    from .linux.scan import ProcessScan
    from .linux.tree import make_tree
else:
    from .descendants import Net, ProcessScan, make_tree, namespace, now, own_start, shares_session

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from types import ModuleType

    from ...._types import ExitStatus, Foreground, Signal, Spawn, Terminal, TerminalKind
    from .starter import Starter
    from .tree import Tree

_FIRST_FD = 100
"""Lowest descriptor that a command inherits unasked: above those that its own redirections name."""

_LOOK_AGAIN = (0.005, 0.01, 0.02, 0.04, 0.08)
"""Seconds between two looks for the remaining processes of a tree; the last one repeats."""

_LOOK_ANYWAY = 0.1
"""Seconds for the life pipe's end; then a tree is looked for although the pipe is held."""

_CLOSE_BOUND = 0.5
"""Seconds in which closing a process kills the remaining processes of its tree."""

# A stopped process acts on no other signal than these.
_SIGNALS: Mapping[Signal, Sequence[int]] = {
    "interrupt": (signal.SIGINT, signal.SIGCONT),
    "terminate": (signal.SIGTERM, signal.SIGCONT),
    "kill": (signal.SIGKILL,),
}

_SIGNALS_ON_TERMINAL: Mapping[Signal, Sequence[int]] = {
    **_SIGNALS,
    "terminate": (signal.SIGHUP, signal.SIGTERM, signal.SIGCONT),  # an interactive shell ignores SIGTERM
}


def default_starter() -> Starter:
    """The better way to start a program on a terminal."""
    start: Starter = _default().start
    return start


def _default() -> ModuleType:
    """The better way of those that there are: without copying this process, where the C library can do that."""
    if sys.platform == "linux" and posix_spawn.AVAILABLE:
        return posix_spawn
    from . import forking

    return forking


class Spawner:
    """Starts programs and knows those that still run.

    The marks it gives name this process by pid, start time and pid namespace, so that whoever finds a marked process can tell
    whether the anyshell that started it is still there.

    Args:
        on_terminal: How programs are started on terminals; ``None`` is the better way of those that there are.
    """

    def __init__(self, on_terminal: Starter | None = None) -> None:
        self._starter = on_terminal
        self._identify()
        self._net = Net()
        self._running: dict[PosixProcess, int] = {}
        """With each, where the net has it."""
        self._released: set[PipeReceiveStream] = set()
        self._scan = ProcessScan()
        self._closed = False

    def _identify(self) -> None:
        self._pid = os.getpid()
        self._owner = f"{self._pid}_{own_start()}_{namespace('self')}_{secrets.token_hex(4)}"
        self._tags = itertools.count(secrets.randbits(61) << 1 | 1)

    async def spawn(self, spawn: Spawn) -> PosixProcess:
        """Start a program in a session of its own.

        Blocks until the program's image is loaded, as a spawn does: about half a millisecond.

        Raises:
            InvalidCommand: The directory does not exist, is none, or may not be entered.
            SpawnError: The program could not be started.
        """
        if self._closed:
            raise SpawnError("this backend is closed: it starts nothing more")
        _check_directory(spawn.cwd)
        if (
            self._pid != os.getpid()
        ):  # in a fork, which must not give the marks and tags that its parent gives
            self._identify()
        since = now()
        number = next(self._tags)
        mark = MARK_PREFIX + f"{self._owner}_{number & 0xFFFFFFFF:08x}".encode()
        env = host_variables()
        for name in spawn.unset:
            env.pop(os.fsencode(name), None)
        if spawn.terminal is not None:
            for size in (b"COLUMNS", b"LINES"):  # of another terminal, and believed before this one is asked
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
            began = time.monotonic()
            start = _start_on_pipes if spawn.terminal is None else self._start_on_terminal
            try:
                child, ends = start(spawn, env, inherited, fds)
            except OSError as error:
                raise SpawnError(f"cannot start {spawn.argv[0]}: {_explain(error)}") from error
            try:
                stdout, stderr, stdin = ends.streams()
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
                    life=PipeReceiveStream(life),
                    mark=mark,
                    on_closed=self._forget,
                    on_released=self.discard,
                )
            except BaseException as error:  # out of descriptors, usually: what nobody can watch may not run
                _end(child)
                if not isinstance(error, OSError):
                    raise
                raise SpawnError(f"cannot watch {spawn.argv[0]}: {_explain(error)}") from error
            fds.keep(life, *ends.fds)
        self._net.hold(place, tree)
        self._running[process] = place
        return process

    def _forget(self, process: PosixProcess) -> None:
        self._net.drop(self._running.pop(process, -1))

    def _start_on_terminal(
        self, spawn: Spawn, env: dict[bytes, bytes], inherited: Sequence[int], fds: _Descriptors
    ) -> tuple[_Child, _Ends]:
        assert spawn.terminal is not None
        start = self._starter or default_starter()
        started = start(spawn.argv, cwd=spawn.cwd, env=env, terminal=spawn.terminal, inherited=inherited)
        child = _Child(started.pid)
        master, slave = fds.own(started.master), fds.own(started.slave)
        try:
            typing = fds.own(os.dup(master))
        except OSError:
            _end(child)
            raise
        return child, _Ends(stdout=master, stdin=typing, slave=slave)

    def discard(self, stream: PipeReceiveStream) -> None:
        """Read on and throw away, until this is closed."""
        self._released.add(stream)
        stream.discard(lambda: self._released.discard(stream))

    async def aclose(self) -> None:
        """Stop everything that still runs, and start nothing more; stop reading for what was released."""
        self._closed = True
        await asyncio.gather(*(process.aclose() for process in self._running))
        for stream in tuple(self._released):
            stream.close()
        self._released.clear()
        self._net.close()


class PosixProcess:
    """A program on this machine, with everything that it starts.

    Three things hold the tree: its own session and process group; the *life pipe*, one inherited descriptor
    whose end-of-file says at once that nobody is left who has it; and what `Tree` looks for.

    The leader is not reaped until its group has been dealt with, so that neither its pid nor its group's
    number can come to mean somebody else's processes while we may still signal them.
    """

    def __init__(
        self,
        child: _Child,
        tree: Tree,
        watch: ExitWatch,
        *,
        stdout: PipeReceiveStream,
        stderr: PipeReceiveStream | None,
        stdin: PipeSendStream | None,
        life: PipeReceiveStream,
        mark: bytes,
        on_closed: Callable[[PosixProcess], object],
        on_released: Callable[[PipeReceiveStream], object],
    ) -> None:
        self._child = child
        self._tree = tree
        self._mark = mark
        self._sections = itertools.count(1)
        self._stdout = stdout
        self._stderr = stderr
        self._stdin = stdin
        self._life = life
        self._on_closed = on_closed
        self._on_released = on_released
        self._exit = watch
        self._signalled = False
        self._named: Sequence[ProcessInfo] = ()
        self._gone = False
        self._reaped = False
        self._closed = False

    @property
    def pid(self) -> int:
        """The leader's pid; also its process group and its session."""
        return self._child.pid

    @property
    def stdin(self) -> PipeSendStream | None:
        """What the program reads, if a pipe was asked for."""
        return self._stdin

    @property
    def stdout(self) -> PipeReceiveStream:
        """What the tree prints."""
        return self._stdout

    @property
    def stderr(self) -> PipeReceiveStream | None:
        """What the tree prints there, if the channels were split."""
        return self._stderr

    @property
    def terminal_kind(self) -> TerminalKind | None:
        """The kernel's own."""
        return "pty" if self._on_terminal else None

    @property
    def started(self) -> bool:
        """Always: it is here."""
        return True

    @property
    def lost(self) -> bool:
        """Never: it is here."""
        return False

    @property
    def asks(self) -> bool:
        """Always: by signals."""
        return True

    async def wait(self) -> ExitStatus:
        """Wait until the leader has ended. It stays a zombie until its group has been dealt with."""
        return await self._exit.wait()

    async def send_signal(self, signal: Signal) -> None:
        """Signal the group, and everything of the tree that left it; wake what is stopped."""
        numbers = (_SIGNALS_ON_TERMINAL if self._on_terminal else _SIGNALS)[signal]
        self._signalled = True
        members: Sequence[ProcessInfo] = ()
        # Out of descriptors, even of reserved ones, the group can be signalled all the same; survivors() tells.
        with contextlib.suppress(OSError):
            # Before anybody is signalled: who descends from the leader can be known by that only while it lives.
            members = await self._members()
        # The leader's group first, all of it before any of it can see another end. What has left it is younger.
        if grouped := self._holds_number():
            self._signal_group(numbers)
        with contextlib.suppress(OSError):
            for member in members:
                if not grouped or not _in_group(member.pid, self.pid):
                    for number in numbers:
                        self._tree.signal(member, number)
            if signal == "kill":
                self._tree.chase()

    def _signal_group(self, numbers: Sequence[int]) -> None:
        try:
            for number in numbers:
                os.killpg(self.pid, number)
        except ProcessLookupError:
            pass
        except PermissionError:
            pass  # macOS says so of a group of zombies; on Linux only if every member is another user's

    async def survivors(self) -> Sequence[ProcessInfo]:
        """What of the tree is alive.

        Nothing is looked for after a normal end that nobody outlives who is in the group, or in the session of a
        terminal, or holds a pipe of ours: whoever has left the one and closed the others has made itself a daemon, and
        is not ours any more, unless it is to be named until it ends. Once
        a signal has been sent, everybody is: then only looking tells.
        """
        if self._gone:
            return ()
        ended = self._exit.poll() is not None
        daemons_alone = False
        if ended and not self._signalled and self._nobody_holds_a_pipe():
            # On a terminal a shell gives its jobs groups of their own, in its session.
            shared = self._on_terminal and shares_session(self.pid)
            self._reap()
            daemons_alone = not shared and not _group_exists(self.pid)
            if daemons_alone and not self._named:
                self._gone = True
                return ()
        try:
            members = await self._members()
            if not members and self._signalled:
                members = await self._members()  # who forks all the time can be missed once
        except OSError:  # out of descriptors: who cannot look must not say that nobody is there
            return [ProcessInfo(0 if ended else self.pid, "unknown", 0.0)]
        if ended and not members and not self._tree.copied and self._pipe_is_held():
            return [ProcessInfo(0, "unknown", 0.0)]
        if daemons_alone:
            members = self._named = still_named(members, self._named)
        self._gone = ended and not members
        return members

    def _holds_number(self) -> bool:
        """Whether the leader's pid still is its own, and so its group's number."""
        return not self._reaped and self._exit.holds_number()

    async def _members(self) -> Sequence[ProcessInfo]:
        if not self._holds_number():
            self._tree.free_number()
        return await self._tree.members()

    def _pipe_is_held(self) -> bool:
        """Whether a process can write to the life pipe or to what the program prints to, now."""
        return any(pipe is not None and pipe.held for pipe in (self._life, self._stdout, self._stderr))

    @property
    def _on_terminal(self) -> bool:
        return isinstance(self._stdout, TerminalReceiveStream)

    def _nobody_holds_a_pipe(self) -> bool:
        if not (self._life.at_end() and self._stdout.ended):
            return False
        return self._stderr is None or self._stderr.ended

    async def wait_gone(self) -> None:
        """Wait for the exit and for the life pipe's end, then look whether it is true; now and then look anyway."""
        for pause in itertools.chain(_LOOK_AGAIN, itertools.repeat(_LOOK_AGAIN[-1])):
            with anyio.move_on_after(_LOOK_ANYWAY):
                await self._exit.wait()
                await self._life.wait_closed_by_writers()
            if not await self.survivors():
                return
            await asyncio.sleep(pause)

    def keep_naming(self, named: Sequence[ProcessInfo]) -> None:
        """Have `survivors` name these until they end, also those that make themselves daemons from now on."""
        self._named = named

    def section(self, pipes: Sequence[str], fd: int, *, shell: int | None = None) -> PosixSection:
        """What a persistent shell starts from now on."""
        shell = shell or self.pid
        number = next(self._sections)
        mark = self._mark + b"_%x" % number
        part = self._tree.part(shell, mark=mark, number=number, pipes=pipes)
        return PosixSection(self, shell, mark.decode(), part)

    async def group(self) -> Sequence[ProcessInfo]:
        """What lives in the program's process group besides the program.

        Raises:
            OSError: Out of descriptors, even of reserved ones.
        """
        self._reap()
        if not _group_exists(self.pid):
            return ()
        members = await self._members()
        return [each for each in members if each.pid != self.pid and _in_group(each.pid, self.pid)]

    async def signal_some(self, signal: Signal, members: Sequence[ProcessInfo]) -> None:
        """Signal some of the tree that were just found, and nothing else."""
        with contextlib.suppress(OSError):
            for member in members:
                for number in _SIGNALS[signal]:
                    self._tree.signal(member, number)

    def signal_shell(self, pid: int, number: int) -> None:
        """Signal the shell that the program is, or runs, and nothing else. Silent when it is gone."""
        if self._holds_number():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)

    async def resize(self, terminal: Terminal) -> None:
        """Give its terminal another size; the kernel tells the foreground."""
        if isinstance(self._stdout, TerminalReceiveStream):
            self._stdout.resize(terminal)

    async def foreground(self) -> Foreground | None:
        """Who has its terminal now."""
        return self._stdout.foreground() if isinstance(self._stdout, TerminalReceiveStream) else None

    async def release(self) -> None:
        """Let what lives go on, and keep its writes from failing."""
        for stream in (self._stdout, self._stderr):
            if stream is not None:
                self._on_released(stream)
        self._give_back()

    async def aclose(self) -> None:
        """Kill what is left of the tree, and give every descriptor back."""
        if self._closed:
            return
        await kill_until_gone(self, _CLOSE_BOUND)
        self._stdout.close()
        if self._stderr is not None:
            self._stderr.close()
        self._give_back()

    def _give_back(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._reap()
        self._exit.close()
        self._tree.close()
        self._life.close()
        if self._stdin is not None:
            self._stdin.close()
        self._on_closed(self)

    def _reap(self) -> None:
        if not self._reaped and self._exit.poll() is not None:
            self._reaped = True
            if self._exit.holds_number():  # else another part of this program has reaped it
                self._child.poll()


class PosixSection:
    """One command of a persistent shell, with everything that it starts."""

    def __init__(self, program: PosixProcess, shell: int, mark: str, tree: Tree) -> None:
        self._program = program
        self._shell = shell
        self._tree = tree
        self.mark = mark
        """A variable that the shell has to export."""
        self.tag = tree.limit
        """A soft limit on file locks that it has to set."""
        self.wants_pids = False
        """The shell need not say which pid was given last: that can be asked for here."""
        stdin = program.stdin
        # The program itself may not have it yet: it was started a moment ago.
        self._input = stdin.identity if stdin is not None and shell == program.pid else tree.input_of(shell)

    async def may_live(self, first: int | None, last: int | None) -> bool:
        """Whether anything of it may be alive, by the pids that were given since."""
        try:
            return self._tree.may_live()
        except OSError:  # who cannot look must not say that nobody is there
            return True

    async def members(self) -> Sequence[ProcessInfo]:
        """What of it is alive.

        Raises:
            OSError: Out of descriptors, even of reserved ones.
        """
        return await self._tree.members()

    def hides_holder(self, held: Collection[str]) -> bool:
        """Whether a process that is no member holds one of these pipes: one whose descriptors cannot be read."""
        return self._tree.hides_holder(held)

    async def shell_is_back(self) -> bool:
        """Whether the shell has its own input again, and not the command's; true where that is not shown."""
        now = self._tree.input_of(self._shell)
        return now is None or self._input is None or now == self._input

    async def send_signal(self, signal: Signal) -> None:
        """Signal all of it, and wake what is stopped."""
        with contextlib.suppress(OSError):
            await self._program.signal_some(signal, await self._tree.members())
            if signal == "kill":
                self._tree.chase()

    async def interrupt(self) -> None:
        """Send SIGVTALRM to the shell itself."""
        self._program.signal_shell(self._shell, signal.SIGVTALRM)
        self._program.signal_shell(self._shell, _CONTINUE)

    async def kill_shell(self) -> None:
        """Kill the shell itself."""
        self._program.signal_shell(self._shell, _KILL)


_KILL = signal.SIGKILL
_CONTINUE = signal.SIGCONT


def _encode(texts: Collection[str]) -> list[bytes]:
    """Encode many texts at once, which is several times as fast as one by one. None may hold a NUL.

    Raises:
        InvalidCommand: One has a character that the file system's encoding has not, as ASCII has no umlaut.
    """
    try:
        return os.fsencode("\0".join(texts)).split(b"\0") if texts else []
    except UnicodeEncodeError as error:
        raise InvalidCommand(
            f"a variable has a character that {error.encoding} cannot say, in which this Python speaks with the system; "
            "set PYTHONUTF8=1 for it"
        ) from None


def _group_exists(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _in_group(pid: int, group: int) -> bool:
    try:
        return os.getpgid(pid) == group
    except OSError:
        return False


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


class _Child:
    """A child that this class alone waits for."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def poll(self) -> None:
        """Reap it if it has ended."""
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, os.WNOHANG)

    def wait(self) -> None:
        """Wait for its end and reap it."""
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)


def _end(child: _Child) -> None:
    os.killpg(child.pid, signal.SIGKILL)
    child.wait()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ends:
    """Our ends of what a program was started on. -1 is none."""

    stdout: int
    stderr: int = -1
    stdin: int = -1
    slave: int = -1

    @property
    def fds(self) -> tuple[int, ...]:
        return self.stdout, self.stderr, self.stdin, self.slave

    @property
    def written(self) -> list[int]:
        """Those of what it can write to."""
        if self.slave >= 0:
            return [self.slave]
        return [self.stdout, self.stderr] if self.stderr >= 0 else [self.stdout]

    def streams(self) -> tuple[PipeReceiveStream, PipeReceiveStream | None, PipeSendStream | None]:
        """Make streams of them, bound to the running event loop."""
        if self.slave >= 0:
            return TerminalReceiveStream(self.stdout, self.slave), None, TerminalSendStream(self.stdin)
        return (
            PipeReceiveStream(self.stdout),
            PipeReceiveStream(self.stderr) if self.stderr >= 0 else None,
            PipeSendStream(self.stdin) if self.stdin >= 0 else None,
        )


def _start_on_pipes(
    spawn: Spawn, env: dict[bytes, bytes], inherited: Sequence[int], fds: _Descriptors
) -> tuple[_Child, _Ends]:
    stdout, child_stdout = fds.pipe()
    stderr, child_stderr = fds.pipe() if spawn.split_stderr else (-1, child_stdout)
    child_stdin, stdin = fds.pipe() if spawn.stdin else (fds.open(os.devnull), -1)
    pid = _default().spawn(
        spawn.argv,
        cwd=spawn.cwd,
        env=env,
        standard=(child_stdin, child_stdout, child_stderr),
        inherited=inherited,
    )
    return _Child(pid), _Ends(stdout=stdout, stderr=stderr, stdin=stdin)


class _Descriptors:
    """Descriptors of a spawn under way: closed at the end, unless kept."""

    def __init__(self) -> None:
        self._fds: set[int] = set()

    def __enter__(self) -> _Descriptors:
        return self

    def __exit__(self, *_: object) -> None:
        for fd in self._fds:
            os.close(fd)

    def own(self, fd: int) -> int:
        self._fds.add(fd)
        # A program whose standard descriptors are closed would get ours in their place.
        return fd if fd >= 3 else self.raise_above(fd, 3)

    def keep(self, *fds: int) -> None:
        self._fds.difference_update(fds)

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
        """Move a descriptor to a number that no script uses by hand; where there is none, leave it."""
        try:
            raised = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, least)
        except OSError:
            return fd
        self.keep(fd)
        os.close(fd)
        return self.own(raised)
