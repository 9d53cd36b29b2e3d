"""A program on this machine with its whole tree, on POSIX systems."""

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
"""Seconds between two scans for the remaining processes of a tree; the last value repeats."""

_LOOK_ANYWAY = 0.1
"""Seconds to wait for the life pipe's end; then the tree is scanned even though a process still holds the pipe."""

_CLOSE_BOUND = 0.5
"""Seconds for which closing a process repeats the kill of the tree's remaining processes; then the survivors stay."""

# A stopped process acts only on SIGCONT and SIGKILL.
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
    """A child process that only this class reaps."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.usage: Usage | None = None
        self._traffic = open_traffic(pid)

    def poll(self) -> None:
        """Reap the child if it has ended; read the usage of the child and of the processes that the child waited for."""
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
        """Wait for the child's end and reap the child."""
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)
        self._close()

    def _close(self) -> None:
        traffic, self._traffic = self._traffic, None
        if traffic is not None:
            os.close(traffic)


class PosixProcess(LocalProcess[PipeReceiveStream, PipeReceiveStream, PipeSendStream]):
    """A program on this machine, with all processes that the program starts: the tree.

    The tree is found in three ways: by the leader's own session and process group; by the *life pipe*, an inherited
    descriptor whose end-of-file shows at once that no process holds the pipe; and by the scans of `ProcessTree`.

    The leader is reaped as late as possible. Until then, the kernel gives the leader's pid and group number to no other
    process, so that the group can be signalled safely. After that, members are signalled one by one.
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
        """The leader's pid, which is also the number of the leader's process group and session."""
        return self._child.pid

    @property
    def usage(self) -> Usage | None:
        """The usage of the program and the children that the program waited for, once no process of the tree lives.

        In a sandbox, the sandbox's leader writes the usage to a file. The kernel's count would miss most processes, because
        bubblewrap does not wait for the first process of its namespace, which waits for the others.
        """
        if self._gone:
            self._reap()
        if self._used is None:
            return self._child.usage
        return told_usage(os.pread(self._used, LONGEST_USED, 0)) if self._gone and not self._closed else None

    @property
    def terminal_kind(self) -> TerminalKind | None:
        """The kind of the terminal, the kernel's own ``pty``; ``None`` without a terminal."""
        return None if self._terminal is None else "pty"

    @property
    def can_terminate(self) -> bool:
        """Always true: signals ask a tree to end."""
        return True

    async def wait(self) -> ExitStatus:
        """Wait until the leader has ended. The leader stays a zombie for now, and is reaped later."""
        return await self._exit.wait()

    async def send_signal(self, signal: Signal) -> None:
        """Signal the leader's group, and the members of the tree that have left the group; continue stopped processes."""
        numbers = (_SIGNALS if self._terminal is None else _SIGNALS_ON_TERMINAL)[signal]
        self._signalled = True
        members: Sequence[ProcessInfo] = ()
        # Without free descriptors, even reserved ones, the group can still be signalled; survivors() reports the failed scan.
        with contextlib.suppress(OSError):
            # Scan before any signal: descent from the leader is visible only while the leader lives.
            members = await self._members()
        # The leader's group first: no process of the group may see another one end before its own signal. Processes that
        # have left the group are younger.
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
            pass  # on macOS, a group of zombies; on Linux, only a group whose members all belong to another user

    async def survivors(self) -> Sequence[ProcessInfo]:
        """Return the living processes of the tree.

        After a normal end, no scan is needed if no process is in the group (on a terminal: in the session) or holds a pipe of
        the command. A process that has left the group and closed the pipes has made itself a daemon. A daemon is a member
        only if `keep_naming` was called with it, or after a signal has been sent: both need a scan.
        """
        if self._gone:
            return ()
        ended = self._exit.poll() is not None
        daemons_alone = False
        if ended and not self._signalled and self._pipes_are_closed():
            # On a terminal, a shell's jobs have process groups of their own, in the shell's session.
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
        except OSError:  # out of descriptors: a failed scan must not pass for an empty tree
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
        """Whether the kernel still keeps the leader's pid, and so the group's number, for the leader."""
        return not self._reaped and self._exit.holds_number()

    async def _members(self) -> Sequence[ProcessInfo]:
        if not self._holds_number():
            self._tree.free_number()
        return await self._tree.members()

    def _pipe_is_held(self) -> bool:
        """Whether a process can write to the life pipe or to the program's output pipes now."""
        return any(pipe is not None and pipe.held for pipe in (self._life, self._stdout, self._stderr))

    def _pipes_are_closed(self) -> bool:
        if not (self._life.at_end() and self._stdout.ended):
            return False
        return self._stderr is None or self._stderr.ended

    async def wait_gone(self) -> None:
        """Wait until the leader has ended and the life pipe is closed, then scan for survivors; from time to time, scan anyway."""
        for pause in itertools.chain(_LOOK_AGAIN, itertools.repeat(_LOOK_AGAIN[-1])):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_ANYWAY):
                    await self._exit.wait()
                    await self._life.wait_closed_by_writers()
            if not await self.survivors():
                return
            await asyncio.sleep(pause)

    def keep_naming(self, named: Sequence[ProcessInfo]) -> None:
        """Make `survivors` return these processes until each ends, even if a process makes itself a daemon."""
        self._named = named

    def command_tree(self, pipes: Sequence[str], fd: int, *, shell: int | None = None) -> PosixCommandTree:
        """Return the tree of the processes that a persistent shell starts from now on."""
        shell = shell or self.pid
        number = next(self._command_trees)
        mark = self._mark + b"_%x" % number
        part = self._tree.part(shell, mark=mark, number=number, pipes=pipes)
        return PosixCommandTree(self, shell, mark.decode(), part)

    async def pid_outside(self, pid: int) -> int | None:
        """Return the pid in this process's pid namespace of the tree's process whose own pid, in its namespace, is `pid`."""
        return next((info.pid for info in await self._members() if own_pid(info.pid) == pid), None)

    async def group(self) -> Sequence[ProcessInfo]:
        """Return the living processes of the program's process group, without the program.

        Raises:
            OSError: Out of descriptors, even of reserved ones.
        """
        self._reap()
        if not _group_exists(self.pid):
            return ()
        members = await self._members()
        return [each for each in members if each.pid != self.pid and _in_group(each.pid, self.pid)]

    async def signal_some(self, signal: Signal, members: Sequence[ProcessInfo]) -> None:
        """Signal members of the tree that a scan has just found, and no other process."""
        with contextlib.suppress(OSError):
            for member in members:
                for number in _SIGNALS[signal]:
                    self._tree.signal(member, number)

    def signal_shell(self, pid: int, number: int) -> None:
        """Signal only the shell, which is the program or runs below the program. Does nothing if the shell is gone."""
        if self._holds_number():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)

    async def resize(self, terminal: Terminal) -> None:
        """Resize the process's terminal; the kernel notifies the foreground."""
        if self._terminal is not None:
            self._terminal.resize(terminal)

    async def foreground(self) -> Foreground | None:
        """Return the foreground of the process's terminal; ``None`` without a terminal."""
        return None if self._terminal is None else self._terminal.foreground()

    async def release(self) -> None:
        """Let the living processes go on, and read their output until the backend is closed, so that no write fails."""
        self._released.add(self._stdout, self._stderr)
        self._give_back()

    async def aclose(self) -> None:
        """Kill the remaining processes of the tree, and close all descriptors."""
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
            if self._exit.holds_number():  # otherwise other code of this program has reaped the child
                self._child.poll()


class PosixCommandTree:
    """One command of a persistent shell, with all processes that the command starts."""

    def __init__(self, program: PosixProcess, shell: int, mark: str, tree: ProcessTree) -> None:
        self._program = program
        self._shell = shell
        self._tree = tree
        self.mark = mark
        """The environment variable that the shell must export."""
        self.tag = tree.limit
        """The soft limit on file locks that the shell must set; ``None`` where the command has no tag."""
        self.wants_pids = False
        """False: the shell need not report the newest pid, because this process can read it."""
        stdin = program.stdin
        # For the program itself, ask our end of the pipe: the program was just started, and may not have its stdin yet.
        self._input = stdin.identity if stdin is not None and shell == program.pid else tree.input_of(shell)

    async def may_live(self, first: int | None, last: int | None) -> bool:
        """Whether a process of the command may be alive, by the pids that the kernel has given since the command's start."""
        try:
            return self._tree.may_live()
        except OSError:  # a failed scan must not pass for an empty tree
            return True

    async def members(self) -> Sequence[ProcessInfo]:
        """Return the living processes of the command.

        Raises:
            OSError: Out of descriptors, even of reserved ones.
        """
        return await self._tree.members()

    def hides_holder(self, held: Collection[str]) -> bool:
        """Whether a process that is not a member, because its descriptors cannot be read, holds one of these pipes."""
        return self._tree.hides_holder(held)

    def cpu(self) -> tuple[float, float] | None:
        """Return the CPU seconds of the shell and its awaited children, by /proc; ``None`` while the shell has a child."""
        return read_cpu(self._shell)

    async def shell_is_back(self) -> bool:
        """Whether the shell's stdin is the shell's own again, not the command's; true where the system does not show stdin."""
        now = self._tree.input_of(self._shell)
        return now is None or self._input is None or now == self._input

    async def send_signal(self, signal: Signal) -> None:
        """Signal all processes of the command, and continue stopped processes."""
        with contextlib.suppress(OSError):
            await self._program.signal_some(signal, await self._tree.members())
            if signal == "kill":
                self._tree.chase()

    async def interrupt(self) -> None:
        """Send SIGVTALRM to the shell itself, and continue the shell if it is stopped."""
        self._program.signal_shell(self._shell, signal.SIGVTALRM)
        self._program.signal_shell(self._shell, _CONTINUE)

    async def kill_shell(self) -> None:
        """Kill the shell itself."""
        self._program.signal_shell(self._shell, _KILL)


_KILL = signal.SIGKILL
_CONTINUE = signal.SIGCONT


def _usage(used: resource.struct_rusage, traffic: tuple[int, int] | None) -> Usage:
    """Return the usage of a child, from the kernel's counts.

    The child's peak of memory starts at the peak of this process, since Linux keeps the value over exec. So the child's own
    peak is known only if the child has used more memory than this process.
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
