"""A program on the host, with every process that the program starts."""

from __future__ import annotations

import asyncio
import itertools
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from ...._answers import LARGEST_PID, Nonsense, whole
from ...._types import ExitStatus, ProcessInfo, still_named, told_usage
from ...closing import kill_until_gone
from ..channel import LAST_SILENCE, Channel, ChannelSendStream
from ..process import ChannelProcess
from .processes import EXIT_SLACK, ROUNDING, Blind, group_question
from .watcher import HostAway

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Sequence

    from anyio.abc import ByteSendStream

    from ...._terminals import TtyModes
    from ...._types import Foreground, Signal, Terminal, TerminalKind, Usage
    from .processes import Processes, SSHTree
    from .watcher import Answer

ABANDON_GRACE = 0.5
"""Seconds for a login shell to end after a request, when its command is given up and no grace is given (the shell of a
session, a file operation); then it is killed."""

CLOSE_BOUND = 1.0
"""Seconds in which closing a process kills the remaining processes of its tree."""

STOP_ROUNDS = 5
"""Looks and kills in a row, in each attempt to stop the remaining processes on a host that is back."""

HELD_SECONDS = 0.5
"""Seconds of silence for the end of the output of a command that was stopped and has ended, when no look shows a
process of the command; then the process that holds the output may be on another machine."""

_GONE_SECONDS = 0.05
"""Seconds to wait for the exit status, when a look showed that the process is gone: a silent server never sends the status."""

_LOOK_AGAIN = (0.005, 0.02, 0.04, 0.08, 0.15)
"""Seconds between two looks for the remaining processes of a tree; the last number repeats."""


class SSHProcess(ChannelProcess[Channel]):
    """A program that runs behind a channel.

    `SSHTree` finds the members of the process tree. The channel shows whether members remain: its output ends only when
    no process on the host holds the channel any more. Besides stdout and stderr, every process inherits one more
    descriptor of the channel.
    """

    def __init__(
        self,
        channel: Channel,
        tree: SSHTree,
        processes: Processes,
        *,
        name: str,
        has_stdin: bool,
        terminal: bool,
        split_stderr: bool,
        on_closed: Callable[[SSHProcess], object],
        on_released: Callable[[Channel], object],
        on_away: Callable[[SSHProcess], object],
        signal_beside: Callable[[Channel, SSHTree, Signal], Awaitable[object]],
        holder: str | None = None,
    ) -> None:
        stdin: ByteSendStream | None = None
        if terminal:
            from .terminal import ChannelTerminalStream  # here and below, since few programs have a terminal

            stdin = ChannelTerminalStream(channel, self._modes, longest_line=processes.longest_line)
        elif has_stdin:
            stdin = ChannelSendStream(channel)
        super().__init__(channel, stdin=stdin, split_stderr=split_stderr, on_released=on_released)
        self._tree = tree
        self._processes = processes
        self._name = name
        self._holder = holder
        self._inner = False
        """Whether the pids that the tree's processes report belong to a pid namespace of their own."""
        self._terminal = terminal
        self.holds_channel = False
        """Whether the server keeps the channel open until no process on the host holds the channel any more."""
        self._on_closed = on_closed
        self._on_away = on_away
        self._signal_beside = signal_beside
        self._signalled = False
        self._pending: Signal | None = None
        """A signal that has reached no process yet: the start request is still on its way, or the login shell ran on
        after the signal."""
        self._last: Signal = "terminate"
        self._seen: Sequence[ProcessInfo] = ()
        self._blind = False
        """Whether the tree was to be stopped, and the host's watcher did not see the tree."""
        self._away = False
        """Whether the host did not answer the last look."""
        self._held = False
        """Whether the wait for the rest of the output ran out because a process keeps the output open."""
        self._named: Sequence[ProcessInfo] = ()
        self._gone = False
        self._waiting: asyncio.Future[None] | None = None
        self._command_trees = itertools.count(1)
        self._group: asyncio.Future[Answer] | None = None
        channel.on_end = self._output_ended
        channel.exit.add_done_callback(self._exited)
        channel.said.add_done_callback(self._take_start)

    @property
    def pid(self) -> int | None:
        """The leader's pid on the host, which is also the number of the leader's process group and session."""
        return self._tree.leader

    @property
    def usage(self) -> Usage | None:
        """The usage that the leader of a sandbox reported.

        ``None`` without a sandbox, where no program of anyshell waits for the command.
        """
        told = self._channel.beside if self._holder is not None and self._gone else b""
        return told_usage(told)

    @property
    def description(self) -> ProcessInfo:
        """The description of the program, used when the host does not answer."""
        return ProcessInfo(self.pid or 0, self._name, 0.0)

    @property
    def terminal_kind(self) -> TerminalKind | None:
        """The kind of the terminal: the host's own pty, since no host reports another kind; ``None`` without a terminal."""
        return "pty" if self._terminal else None

    @property
    def started(self) -> bool | None:
        """Whether the command has begun: the login shell reported it, or a look showed it; ``None`` while that is unknown."""
        channel = self._channel
        words = channel.said.result() if channel.said.done() else []
        if self._tree.begun or words[:1] == ["started"]:
            return True
        # The login shell's line comes before the end of the output, unless the connection has ended.
        if words or not channel.asked or (channel.at_end.is_set() and not channel.cut):
            return False
        return None

    @property
    def is_joined(self) -> bool:
        """Whether stderr arrives with stdout, though the two should be separate: a startup file has joined them."""
        return self._channel.is_joined

    @property
    def can_terminate(self) -> bool:
        """Always true: signals ask the tree to end."""
        return True

    @property
    def has_ended(self) -> bool:
        """Whether the leader has ended as far as is known here; the rest of its output may still come."""
        return self._channel.exit.done()

    async def wait(self) -> ExitStatus:
        """Wait until the leader has ended and our reader has taken the output that the leader had printed by then.

        For a tree that was stopped and is gone, no output is waited for: the end is certain even while much output
        still waits here. The status has no code and no signal when the connection is lost, or when the server does not
        report the end.
        """
        ended = self._channel.exit
        if not ended.done() and not self._gone:
            self._waiting = asyncio.get_running_loop().create_future()
            ended.add_done_callback(self._wake)
            try:
                await self._waiting
            finally:
                ended.remove_done_callback(self._wake)
                self._waiting = None
        if not ended.done():
            await asyncio.wait([ended], timeout=_GONE_SECONDS)
            if not ended.done():
                return ExitStatus()
        if self.started is None and self._channel.broken:
            return ExitStatus()  # no start was reported: the process that ended may be the login shell
        if not (self._signalled and self._gone):
            await self._channel.wait_rest(2 * self._processes.round_trip)
            if not (self._channel.at_end.is_set() or self._signalled or await self.survivors()):
                await self._channel.wait_last()
                self._held = self._is_held(LAST_SILENCE)
            await self._channel.wait_taken()
        return ended.result()

    def _is_held(self, silence: float) -> bool:
        """Whether a process on the host keeps the output open after the command's end, and prints nothing."""
        channel = self._channel
        if not (self.holds_channel and channel.exit.done()) or channel.at_end.is_set() or channel.paused:
            return False
        return asyncio.get_running_loop().time() - channel.last_heard >= silence

    def _wake(self, _: object = None) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def _set_gone(self) -> None:
        self._gone = True
        self._wake()

    async def send_signal(self, signal: Signal) -> None:
        """Signal the whole tree. Never fails when the host does not answer: `survivors` shows that.

        Known processes are signalled before a look for others, since a look may be slow. The signal and the look are
        requested together, since the link may be slow too.
        """
        self._signalled, self._last = True, signal
        known = self._seen
        first = asyncio.ensure_future(self._tree.signal(signal, known) if known else self._lead(signal))
        try:
            members = await self._members()
            await first
            others = [each for each in members if each not in known]
            if others or not known:  # also for an empty list: `SSHTree.signal` counts the kills
                await self._tree.signal(signal, others)
            self._pending = None if members or known else signal
        except Blind:
            await self._signal_beside(self._channel, self._tree, signal)
        except HostAway:
            pass
        finally:
            first.cancel()
            with suppress(HostAway, asyncio.CancelledError):
                await first

    async def _lead(self, signal: Signal) -> None:
        led = await self._tree.lead(signal)
        self._seen = self._seen or led  # kept here, since a look that is given up later records nothing

    async def _members(self, *, daemons: bool = True) -> Sequence[ProcessInfo]:
        """Return the living processes of the tree.

        Raises:
            Blind: The host does not show the leader though the leader's end was not reported, or did not show the
                tree when the tree was signalled.
            HostAway: The host does not answer.
        """
        try:
            self._seen = await self._tree.members(daemons=daemons)
            over = self._channel.exit.done() and self._channel.no_writers and not self._blind
            if self._seen or not self._signalled or over:
                return self._seen
            # One look can miss a process that forks all the time, and the exit status may still be on its
            # way.
            if not self._tree.seen and not self._channel.exit.done():
                await asyncio.wait(
                    [self._channel.exit], timeout=max(_GONE_SECONDS, self._processes.round_trip)
                )
            begun = self.started is True  # read before the look, which may miss a command that begins later
            self._seen = await self._tree.members()
        except Blind:
            self._blind = self._signalled
            raise
        if self._seen or self._tree.seen:
            return self._seen
        if self._is_held(0.0):  # the end of the output may be on its way
            with suppress(TimeoutError):
                async with asyncio.timeout(HELD_SECONDS):
                    await self._channel.at_end.wait()
        if self._blind or not self._channel.exit.done() or self._is_held(HELD_SECONDS):
            self._blind = begun
            raise Blind
        return self._seen

    async def survivors(self) -> Sequence[ProcessInfo]:
        """Return the living processes of the tree.

        After a normal end, when no process holds the channel, only the leader's group is looked for. When the host does
        not answer, `description` stands for the processes that may be running.
        """
        if self._gone:
            return ()
        if self.started is False:
            self._set_gone()
            return ()
        ended = self._channel.exit.done()
        no_writers = ended and self.holds_channel and self._channel.no_writers
        in_group = daemons_alone = False
        try:
            if no_writers and not self._signalled and self.pid is not None:
                in_group = await self._processes.group_exists(self.pid, self._group)
                daemons_alone = not in_group
            if daemons_alone and not self._named:
                self._set_gone()
                return ()
            # Where the channel does not show whether processes hold it, the descriptors of the living
            # processes do.
            normal = ended and not self.holds_channel and not self._signalled and not self._lost
            members = await self._members(daemons=bool(self._named) or not normal)
            if daemons_alone:
                members = self._named = still_named(members, self._named)
            if members and self._pending is not None:
                pending, self._pending = self._pending, None
                await self._tree.signal(pending, members)
            if not members and self._held and not self._tree.seen and not self._channel.at_end.is_set():
                raise Blind  # no look ever showed the leader: the watcher may be on another machine
            self._away = False
        except HostAway:
            if no_writers and not self._signalled and not in_group:
                return ()
            self._away = True
            return [self.description]
        if not members and (ended or self._signalled) and not self._is_held(0.0):
            self._set_gone()
        if self._holder is not None:
            members = [each for each in members if each.name != self._holder] or members
        return members

    @property
    def _lost(self) -> bool:
        return self._channel.exit.done() and self._channel.exit.result() == ExitStatus()

    def keep_naming(self, named: Sequence[ProcessInfo]) -> None:
        """Tell `survivors` to name these processes until they end, even if one of them turns itself into a daemon."""
        self._named = named

    async def wait_gone(self) -> None:
        """Wait until no process of the tree is alive."""
        for pause in itertools.chain(_LOOK_AGAIN, itertools.repeat(_LOOK_AGAIN[-1])):
            if not await self.survivors():
                return
            if not self._channel.at_end.is_set():
                try:
                    async with asyncio.timeout(pause):
                        await self._channel.at_end.wait()
                except TimeoutError:
                    pass
            else:
                await asyncio.sleep(pause)

    def command_tree(self, pipes: Sequence[str], fd: int, *, shell: int | None = None) -> SSHCommandTree:
        """Create the tree of the processes that a persistent shell starts from now on."""
        part = self._tree.part(next(self._command_trees), shell or self.pid or 0)
        return SSHCommandTree(self._tree, part, self._name, inner=self._inner)

    async def pid_outside(self, pid: int) -> int | None:
        """Return the host's pid of the tree's process that knows itself by `pid`; ``None`` if the host shows none."""
        pids = {info.pid for info in await self.survivors()}
        try:
            numbers = await self._processes.inner_pids(pids, self._tree.place)
        except HostAway:
            return None
        found = next((each for each in pids if numbers.get(each, each) == pid), None)
        self._inner = found in numbers
        return found

    async def group(self) -> Sequence[ProcessInfo]:
        """Return the live processes in the program's group besides the program; empty when the host does not answer."""
        with suppress(HostAway):
            if self.pid is not None and await self._processes.group_exists(self.pid):
                return await self._tree.in_group()
        return ()

    async def signal_some(self, signal: Signal, members: Sequence[ProcessInfo]) -> None:
        """Signal only the given members of the tree, which a look has just found."""
        with suppress(HostAway):
            await self._tree.signal(signal, members)

    async def resize(self, terminal: Terminal) -> None:
        """Resize the process's terminal. Does nothing without a terminal, or when the leader has ended."""
        if self._terminal:
            self._channel.resize(terminal.columns, terminal.rows)

    async def foreground(self) -> Foreground | None:
        """Return the terminal's foreground processes; ``None`` without a terminal or an answer, or after the leader's end."""
        from .terminal import MOST_SEEN, read_foreground

        answer = await self._ask("foreground", MOST_SEEN)
        try:
            return None if answer is None else read_foreground(answer.lines, self._processes)
        except Nonsense:
            return None

    async def _modes(self) -> TtyModes | None:
        answer = await self._ask("modes", 0)
        from .terminal import read_modes

        return None if answer is None else read_modes(answer.lines)

    async def _ask(self, verb: str, most: int) -> Answer | None:
        """Ask about the terminal, as long as the leader's pid is still the leader's own."""
        if not self._terminal or self.pid is None or self._channel.exit.done():
            return None
        try:
            answer = await self._processes.ask(f"{verb} {self.pid} {most}", self._tree.place)
        except HostAway:
            return None
        return None if self._channel.exit.done() else answer

    async def aclose(self) -> None:
        """Kill the remaining processes of the tree, and close the channel."""
        if self._closed:
            return
        await kill_until_gone(self, CLOSE_BOUND)
        self._channel.abort()
        self._give_back()

    async def abandon(self) -> None:
        """Stop a program that was given up before it was known to have begun: terminate, kill, close."""
        with suppress(TimeoutError):
            async with asyncio.timeout(ABANDON_GRACE):
                await self.send_signal("terminate")
                await self.wait_gone()
        await self.aclose()

    def be_held(self, hold: Callable[[int, int], object]) -> None:
        """Tell the host's watcher to stop the command when the connection ends, with our process or alone, by leader and tag."""
        if self.pid is not None and not self._channel.exit.done():
            hold(self.pid, self._tree.tag)

    async def stop_now(self) -> bool:
        """Kill the living processes of the tree, now that the host is back. Return whether the kill is known to have worked."""
        self._signalled = True
        try:
            for _ in range(STOP_ROUNDS):
                members = await self._tree.members()
                if not members:
                    # On a silent connection the start request may still be on its way.
                    return self._channel.closed.is_set()
                await self._tree.signal("kill", members)
        except Blind:
            await self._signal_beside(self._channel, self._tree, "kill")
            return self._channel.exit.done()
        except HostAway:
            pass
        return False

    def count_as_gone(self) -> None:
        """Stop looking for the tree: a kill of its whole group ended it, and it started no process elsewhere."""
        self._set_gone()

    def forget(self) -> None:
        """Release the program: it never began."""
        self._set_gone()
        self._give_back()

    def _give_back(self) -> None:
        self._closed = True
        if self._away and self._signalled:  # otherwise the tree was not to be stopped, or has been stopped
            self._on_away(self)
        self._on_closed(self)

    def _take_start(self, said: asyncio.Future[list[str]]) -> None:
        """Store the report that the command has begun, also when nothing awaits the report any more."""
        match said.result():
            case ["started", said_pid, *where]:
                with suppress(Nonsense):  # `SSHBackend.spawn` raises the error
                    pid = whole("a pid", said_pid, 1, LARGEST_PID)
                    if self._signalled and self._tree.leader is not None:
                        # The login shell was signalled, and ran on.
                        self._pending, self._tree.led = self._last, None
                    self._tree.set_leader(pid, where)

    def _output_ended(self) -> None:
        self._tree.let_go = self._tree.on_terminal

    def _exited(self, ended: asyncio.Future[ExitStatus]) -> None:
        if self.holds_channel and not self._signalled and self.pid is not None:
            # Ask early: this is nearly always the next question, and the answer arrives with the end of the
            # output.
            self._group = self._processes.ask_now(group_question(self.pid))
        if ended.result() != ExitStatus():
            self._tree.ended_at = self._processes.host_time(time.monotonic() + EXIT_SLACK) + ROUNDING


class SSHCommandTree:
    """One command of a persistent shell, with every process that the command starts."""

    def __init__(self, shell: SSHTree, part: SSHTree, name: str, *, inner: bool) -> None:
        self._shell = shell
        self._inner = inner
        self._part = part
        self._name = name
        self.mark = part.mark
        """The name of a variable that the shell has to export."""
        self.tag: int | None = part.tag
        """The soft limit on file locks that the shell has to set."""
        self.wants_pids = True
        """Whether the shell has to report the pid that was given last; asking the host would take a round trip."""

    async def may_live(self, first: int | None, last: int | None) -> bool:
        """Whether a process of the command may be alive. If pids were given since `first`, the host is asked whose they are."""
        if first is None:
            return True
        try:
            # In a pid namespace of its own, the shell reports pids that mean nothing to the host.
            return first != last and (self._inner or await self._part.may_live(first))
        except HostAway:
            return False  # as for a fresh shell whose output has ended

    async def members(self) -> Sequence[ProcessInfo]:
        """Return the command's living members; the shell alone when the host does not answer."""
        try:
            return await self._part.members()
        except HostAway:
            return [ProcessInfo(self._part.outside or 0, self._name, 0.0)]

    def hides_holder(self, held: Collection[str]) -> bool:
        """Return false: the host does not show which process holds a pipe."""
        return False

    def cpu(self) -> None:
        """Return ``None``: the question would take a round trip."""

    async def shell_is_back(self) -> bool:
        """Whether the shell has its own input again, as the host reports."""
        try:
            return await self._part.shell_is_back()
        except HostAway:
            return True  # the next question about the shell shows that the host is away

    async def send_signal(self, signal: Signal) -> None:
        """Signal all processes of the command."""
        with suppress(HostAway):
            await self._part.signal(signal, await self._part.members())

    async def interrupt(self) -> None:
        """Send SIGVTALRM to the shell itself."""
        with suppress(HostAway):
            await self._shell.signal_one(self._part.outside, "VTALRM")

    async def kill_shell(self) -> None:
        """Kill the shell itself."""
        with suppress(HostAway):
            await self._shell.signal_one(self._part.outside, "KILL")
