"""A program on this machine, where it is POSIX, with its whole tree."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import resource
import signal
import sys
from typing import TYPE_CHECKING

assert sys.platform != "win32"

from ...._types import LONGEST_USED, ProcessInfo, Usage, still_named, told_usage
from ...closing import kill_until_gone
from ..process import LocalProcess
from .pipes import PipeReceiveStream, PipeSendStream

if sys.platform == "linux":
    from .linux.proc import open_traffic, own_pid, read_cpu, read_traffic, shares_session
else:
    from .descendants import open_traffic, own_pid, read_cpu, read_traffic, shares_session

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from ...._types import ExitStatus, Foreground, Signal, Terminal, TerminalKind
    from ..process import ReleasedStreams
    from .exits import ExitWatch
    from .terminals import TerminalReceiveStream
    from .tree import ProcessTree

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


class Child:
    """A child that this class alone waits for."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.usage: Usage | None = None
        self._traffic = open_traffic(pid)

    def poll(self) -> None:
        """Reap it if it has ended, and learn what it and those that it waited for have used."""
        traffic = None if self._traffic is None else read_traffic(self._traffic)
        try:
            pid, _, used = os.wait4(self.pid, os.WNOHANG)
        except ChildProcessError:
            self._close()
            return
        if pid:
            self.usage = _usage(used, traffic)
            self._close()

    def wait(self) -> None:
        """Wait for its end and reap it."""
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)
        self._close()

    def _close(self) -> None:
        traffic, self._traffic = self._traffic, None
        if traffic is not None:
            os.close(traffic)


class PosixProcess(LocalProcess[PipeReceiveStream, PipeReceiveStream, PipeSendStream]):
    """A program on this machine, with everything that it starts.

    Three things hold the tree: its own session and process group; the *life pipe*, one inherited descriptor
    whose end-of-file says at once that no process holds it; and what `ProcessTree` looks for.

    The leader is not reaped until its group has been dealt with, so that neither its pid nor its group's
    number can come to mean other processes while we may still signal them.
    """

    def __init__(
        self,
        child: Child,
        tree: ProcessTree,
        watch: ExitWatch,
        *,
        stdout: PipeReceiveStream,
        stderr: PipeReceiveStream | None,
        stdin: PipeSendStream | None,
        terminal: TerminalReceiveStream | None,
        life: PipeReceiveStream,
        mark: bytes,
        on_closed: Callable[[PosixProcess], object],
        released: ReleasedStreams,
        holder: str | None = None,
        used: int | None = None,
    ) -> None:
        super().__init__(stdout, stderr, stdin)
        self._terminal = terminal
        self._child = child
        self._tree = tree
        self._mark = mark
        self._holder = holder
        self._command_trees = itertools.count(1)
        self._used = used
        self._life = life
        self._on_closed = on_closed
        self._released = released
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
    def usage(self) -> Usage | None:
        """The usage of the program and the children that it waited for, once no process of its tree lives.

        In a sandbox its leader tells it: bubblewrap does not wait for the first process of its namespace, which waits for the others.
        """
        if self._gone:
            self._reap()
        if self._used is None:
            return self._child.usage
        return told_usage(os.pread(self._used, LONGEST_USED, 0)) if self._gone and not self._closed else None

    @property
    def terminal_kind(self) -> TerminalKind | None:
        """The kernel's own."""
        return None if self._terminal is None else "pty"

    @property
    def can_terminate(self) -> bool:
        """Always: by signals."""
        return True

    async def wait(self) -> ExitStatus:
        """Wait until the leader has ended. It stays a zombie until its group has been dealt with."""
        return await self._exit.wait()

    async def send_signal(self, signal: Signal) -> None:
        """Signal the group, and everything of the tree that left it; wake what is stopped."""
        numbers = (_SIGNALS if self._terminal is None else _SIGNALS_ON_TERMINAL)[signal]
        self._signalled = True
        members: Sequence[ProcessInfo] = ()
        # Out of descriptors, even of reserved ones, the group can be signalled all the same; survivors() tells.
        with contextlib.suppress(OSError):
            # Before any signal: what descends from the leader can be known by that only while it lives.
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
        """The living processes of the tree.

        Nothing is looked for after a normal end without a survivor that is in the group, or in the session of a terminal,
        or holds a pipe of the command: a process that has left the one and closed the others has made itself a daemon, and is
        not a member any more, unless it is to be named until it ends. Once a signal has been sent, every process is a
        member: then only looking tells.
        """
        if self._gone:
            return ()
        ended = self._exit.poll() is not None
        daemons_alone = False
        if ended and not self._signalled and self._pipes_are_closed():
            # On a terminal a shell gives its jobs groups of their own, in its session.
            shared = self._terminal is not None and shares_session(self.pid)
            self._reap()
            daemons_alone = not shared and not _group_exists(self.pid)
            if daemons_alone and not self._named:
                self._gone = True
                return ()
        try:
            members = await self._members()
            if not members and self._signalled:
                members = await self._members()  # a process that forks all the time can be missed once
        except OSError:  # out of descriptors: a look that fails must not pass for an empty tree
            return [ProcessInfo(0 if ended else self.pid, "unknown", 0.0)]
        if ended and not members and not self._tree.copied and self._pipe_is_held():
            return [ProcessInfo(0, "unknown", 0.0)]
        if daemons_alone:
            members = self._named = still_named(members, self._named)
        self._gone = ended and not members
        if self._holder is not None:
            members = [each for each in members if each.name != self._holder] or members
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

    def _pipes_are_closed(self) -> bool:
        if not (self._life.at_end() and self._stdout.ended):
            return False
        return self._stderr is None or self._stderr.ended

    async def wait_gone(self) -> None:
        """Wait for the exit and for the life pipe's end, then look whether it is true; now and then look anyway."""
        for pause in itertools.chain(_LOOK_AGAIN, itertools.repeat(_LOOK_AGAIN[-1])):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_ANYWAY):
                    await self._exit.wait()
                    await self._life.wait_closed_by_writers()
            if not await self.survivors():
                return
            await asyncio.sleep(pause)

    def keep_naming(self, named: Sequence[ProcessInfo]) -> None:
        """Have `survivors` name these until they end, also those that make themselves daemons from now on."""
        self._named = named

    def command_tree(self, pipes: Sequence[str], fd: int, *, shell: int | None = None) -> PosixCommandTree:
        """The processes that a persistent shell starts from now on."""
        shell = shell or self.pid
        number = next(self._command_trees)
        mark = self._mark + b"_%x" % number
        part = self._tree.part(shell, mark=mark, number=number, pipes=pipes)
        return PosixCommandTree(self, shell, mark.decode(), part)

    async def pid_outside(self, pid: int) -> int | None:
        """The pid by which this process knows the process of the tree that knows itself by `pid`."""
        return next((info.pid for info in await self._members() if own_pid(info.pid) == pid), None)

    async def group(self) -> Sequence[ProcessInfo]:
        """The living processes of the program's process group besides the program.

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
        if self._terminal is not None:
            self._terminal.resize(terminal)

    async def foreground(self) -> Foreground | None:
        """The processes that have its terminal now."""
        return None if self._terminal is None else self._terminal.foreground()

    async def release(self) -> None:
        """Let what lives go on, and keep its writes from failing."""
        self._released.add(self._stdout, self._stderr)
        self._give_back()

    async def aclose(self) -> None:
        """Kill the remaining processes of the tree, and give every descriptor back."""
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
        if self._used is not None:
            os.close(self._used)
        if self._stdin is not None:
            self._stdin.close()
        self._on_closed(self)

    def _reap(self) -> None:
        if not self._reaped and self._exit.poll() is not None:
            self._reaped = True
            if self._exit.holds_number():  # else another part of this program has reaped it
                self._child.poll()


class PosixCommandTree:
    """One command of a persistent shell, with everything that it starts."""

    def __init__(self, program: PosixProcess, shell: int, mark: str, tree: ProcessTree) -> None:
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
        except OSError:  # a look that fails must not pass for an empty tree
            return True

    async def members(self) -> Sequence[ProcessInfo]:
        """The living processes of the command.

        Raises:
            OSError: Out of descriptors, even of reserved ones.
        """
        return await self._tree.members()

    def hides_holder(self, held: Collection[str]) -> bool:
        """Whether a process that is no member holds one of these pipes: one whose descriptors cannot be read."""
        return self._tree.hides_holder(held)

    def cpu(self) -> tuple[float, float] | None:
        """Seconds that the shell and what it has waited for have used, as /proc tells; ``None`` while it has a child."""
        return read_cpu(self._shell)

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


def _usage(used: resource.struct_rusage, traffic: tuple[int, int] | None) -> Usage:
    """A child's part of what the kernel has counted.

    The peak of memory begins with that of the program that started the child, which is this one (Linux keeps it over exec),
    and so is known of a child that has used more alone.
    """
    unit = 1 if sys.platform == "darwin" else 1024
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    read, written = traffic or (None, None)
    return Usage(
        how="waited",
        user=used.ru_utime,
        system=used.ru_stime,
        memory=used.ru_maxrss * unit if used.ru_maxrss > own else None,
        read=read,
        written=written,
    )


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
