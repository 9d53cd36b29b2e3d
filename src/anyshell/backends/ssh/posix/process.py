"""A program on the host, with everything that it starts."""

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
"""Seconds for a login shell to end that was asked to, when its command is given up where no grace is given (the shell of
a session, a file operation)."""

CLOSE_BOUND = 1.0
"""Seconds in which closing a process kills the remaining processes of its tree."""

STOP_ROUNDS = 5
"""Looks and kills in a row, of each attempt to stop what was left running on a host that is back."""

HELD_SECONDS = 0.5
"""Seconds of silence for the end of the output of a command that is stopped, has ended, and of which no process is seen;
then its holder may be on another machine."""

_GONE_SECONDS = 0.05
"""Seconds for the news of an exit, when the process was seen to be gone: a silent server never tells."""

_LOOK_AGAIN = (0.005, 0.02, 0.04, 0.08, 0.15)
"""Seconds between two looks for the remaining processes of a tree; the last one repeats."""


class SSHProcess(ChannelProcess[Channel]):
    """A program that runs behind a channel.

    What holds the tree is what `SSHTree` looks for, and the channel: its output ends only when no process on the host holds
    it any more, and beside what is read there is a descriptor of the same channel that everything inherits.
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
            from .terminal import ChannelTerminalStream  # here and below, since few programs have one

            stdin = ChannelTerminalStream(channel, self._modes, longest_line=processes.longest_line)
        elif has_stdin:
            stdin = ChannelSendStream(channel)
        super().__init__(channel, stdin=stdin, split_stderr=split_stderr, on_released=on_released)
        self._tree = tree
        self._processes = processes
        self._name = name
        self._holder = holder
        self._inner = False
        """Whether pids that its processes tell are those of a pid namespace of their own."""
        self._terminal = terminal
        self.holds_channel = False
        """Whether the server keeps the channel open until no process on the host holds it any more."""
        self._on_closed = on_closed
        self._on_away = on_away
        self._signal_beside = signal_beside
        self._signalled = False
        self._pending: Signal | None = None
        """A signal that has found no process yet: the request is still on its way, or the login shell went on after it."""
        self._last: Signal = "terminate"
        self._seen: Sequence[ProcessInfo] = ()
        self._blind = False
        """Whether it was to be stopped, and the host's watcher did not see it."""
        self._away = False
        """Whether the last look told nothing."""
        self._held = False
        """Whether its output was waited for to the last, and a process keeps it open."""
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
        """The leader's pid on the host; also its process group and its session."""
        return self._tree.leader

    @property
    def usage(self) -> Usage | None:
        """The usage that the leader of a sandbox has told; without one, no program of anyshell's waits for the command."""
        told = self._channel.beside if self._holder is not None and self._gone else b""
        return told_usage(told)

    @property
    def description(self) -> ProcessInfo:
        """The description of the program when the host does not answer."""
        return ProcessInfo(self.pid or 0, self._name, 0.0)

    @property
    def terminal_kind(self) -> TerminalKind | None:
        """The host's own; of another kind no host says that it is."""
        return "pty" if self._terminal else None

    @property
    def started(self) -> bool | None:
        """Whether the command has begun: by its word, or since it was seen; ``None`` while that is unknown."""
        channel = self._channel
        words = channel.said.result() if channel.said.done() else []
        if self._tree.begun or words[:1] == ["started"]:
            return True
        # The line comes before the end of the output, unless the connection has ended.
        if words or not channel.asked or (channel.at_end.is_set() and not channel.cut):
            return False
        return None

    @property
    def is_joined(self) -> bool:
        """Whether its stderr comes with its stdout, though they were to be apart: a startup file has joined them."""
        return self._channel.is_joined

    @property
    def can_terminate(self) -> bool:
        """Always: by signals."""
        return True

    async def wait(self) -> ExitStatus:
        """Wait until the leader has ended, and what it had printed by then has arrived and was taken by our reader.

        Nothing is waited for of a tree that was stopped and is gone: that it has ended is no less true while much of
        its output is still here. Without code and signal when the connection is lost, or when the server does not say.
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
            return ExitStatus()  # its beginning was not heard of: what has ended may be the login shell
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
        """Signal the whole tree. A host that does not answer is what `survivors` says.

        What is known is signalled before it is looked for more, since a look may take its time; the host is asked for
        both at once, since the way there may take its own.
        """
        self._signalled, self._last = True, signal
        known = self._seen
        first = asyncio.ensure_future(self._tree.signal(signal, known) if known else self._lead(signal))
        try:
            members = await self._members()
            await first
            others = [each for each in members if each not in known]
            if others or not known:  # it counts the kills
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
        self._seen = self._seen or led  # a look that is given up later tells nothing

    async def _members(self, *, daemons: bool = True) -> Sequence[ProcessInfo]:
        """The living processes of the tree.

        Raises:
            Blind: The host does not show the leader though its end was not reported; or it did not when it was signalled.
            HostAway: The host does not answer.
        """
        try:
            self._seen = await self._tree.members(daemons=daemons)
            over = self._channel.exit.done() and self._channel.no_writers and not self._blind
            if self._seen or not self._signalled or over:
                return self._seen
            # A process that forks all the time can be missed once, and the news of an end may be on its way.
            if not self._tree.seen and not self._channel.exit.done():
                await asyncio.wait(
                    [self._channel.exit], timeout=max(_GONE_SECONDS, self._processes.round_trip)
                )
            begun = self.started is True  # of what began later a look may know nothing
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
        """The living processes of the tree.

        After a normal end that leaves no process with the channel, only the leader's group is asked for. When the
        host does not answer, what may be running is named by what is known of it.
        """
        if self._gone:
            return ()
        if self.started is False:
            self._set_gone()
            return ()
        ended = self._channel.exit.done()
        no_writers = ended and self.holds_channel and self._channel.no_writers
        daemons_alone = False
        try:
            if no_writers and not self._signalled and self.pid is not None:
                daemons_alone = not await self._processes.group_exists(self.pid, self._group)
            if daemons_alone and not self._named:
                self._set_gone()
                return ()
            # Where the channel tells nothing, the descriptors of the living processes do.
            normal = ended and not self.holds_channel and not self._signalled and not self._lost
            members = await self._members(daemons=bool(self._named) or not normal)
            if daemons_alone:
                members = self._named = still_named(members, self._named)
            if members and self._pending is not None:
                pending, self._pending = self._pending, None
                await self._tree.signal(pending, members)
            if not members and self._held and not self._tree.seen and not self._channel.at_end.is_set():
                raise Blind  # it was never seen: the watcher may be on another machine
            self._away = False
        except HostAway:
            if no_writers and not self._signalled:
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
        """Have `survivors` name these until they end, also those that make themselves daemons from now on."""
        self._named = named

    async def wait_gone(self) -> None:
        """Wait until nothing of the tree is alive."""
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
        """The processes that a persistent shell starts from now on."""
        part = self._tree.part(next(self._command_trees), shell or self.pid or 0)
        return SSHCommandTree(self._tree, part, self._name, inner=self._inner)

    async def pid_outside(self, pid: int) -> int | None:
        """The pid by which the host knows the process of the tree that knows itself by `pid`."""
        pids = {info.pid for info in await self.survivors()}
        try:
            numbers = await self._processes.inner_pids(pids, self._tree.place)
        except HostAway:
            return None
        found = next((each for each in pids if numbers.get(each, each) == pid), None)
        self._inner = found in numbers
        return found

    async def group(self) -> Sequence[ProcessInfo]:
        """The live processes in the program's group besides the program; empty when the host does not answer."""
        with suppress(HostAway):
            if self.pid is not None and await self._processes.group_exists(self.pid):
                return await self._tree.in_group()
        return ()

    async def signal_some(self, signal: Signal, members: Sequence[ProcessInfo]) -> None:
        """Signal some of the tree that were just found, and nothing else."""
        with suppress(HostAway):
            await self._tree.signal(signal, members)

    async def resize(self, terminal: Terminal) -> None:
        """Give its terminal another size; nothing without one, or when the leader has ended."""
        if self._terminal:
            self._channel.resize(terminal.columns, terminal.rows)

    async def foreground(self) -> Foreground | None:
        """The processes that have its terminal now; ``None`` without one, when the leader has ended, or when the host does not say."""
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
        """Ask about the terminal, as long as the leader's pid is its own."""
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
        """Stop a program that was given up before it was known to have begun: ask, kill, close."""
        with suppress(TimeoutError):
            async with asyncio.timeout(ABANDON_GRACE):
                await self.send_signal("terminate")
                await self.wait_gone()
        await self.aclose()

    def be_held(self, hold: Callable[[int, int], object]) -> None:
        """Have it stopped by the host when the connection ends, with this process or alone: its leader and its tag."""
        if self.pid is not None and not self._channel.exit.done():
            hold(self.pid, self._tree.tag)

    async def stop_now(self) -> bool:
        """Kill what lives of the tree, now that the host is back; whether that is known to have worked."""
        self._signalled = True
        try:
            for _ in range(STOP_ROUNDS):
                members = await self._tree.members()
                if not members:
                    # On a silent connection the start may still be on its way.
                    return self._channel.closed.is_set()
                await self._tree.signal("kill", members)
        except Blind:
            await self._signal_beside(self._channel, self._tree, "kill")
            return self._channel.exit.done()
        except HostAway:
            pass
        return False

    def count_as_gone(self) -> None:
        """Look for nothing of it any more: it has ended by a kill of its whole group, and has started nothing elsewhere."""
        self._set_gone()

    def forget(self) -> None:
        """Hold nothing: it never began."""
        self._set_gone()
        self._give_back()

    def _give_back(self) -> None:
        self._closed = True
        if self._away and self._signalled:  # otherwise it was not to be stopped, or is
            self._on_away(self)
        self._on_closed(self)

    def _take_start(self, said: asyncio.Future[list[str]]) -> None:
        """Take the word that it has begun, also when that is not awaited any more."""
        match said.result():
            case ["started", said_pid, *where]:
                with suppress(Nonsense):  # `SSHBackend.spawn` raises it
                    pid = whole("a pid", said_pid, 1, LARGEST_PID)
                    if self._signalled and self._tree.leader is not None:
                        # Its login shell was signalled, and went on.
                        self._pending, self._tree.led = self._last, None
                    self._tree.set_leader(pid, where)

    def _output_ended(self) -> None:
        self._tree.let_go = self._tree.on_terminal

    def _exited(self, ended: asyncio.Future[ExitStatus]) -> None:
        if self.holds_channel and not self._signalled and self.pid is not None:
            # Nearly always the next question; the answer comes with the end of the output.
            self._group = self._processes.ask_now(group_question(self.pid))
        if ended.result() != ExitStatus():
            self._tree.ended_at = self._processes.host_time(time.monotonic() + EXIT_SLACK) + ROUNDING


class SSHCommandTree:
    """One command of a persistent shell, with everything that it starts."""

    def __init__(self, shell: SSHTree, part: SSHTree, name: str, *, inner: bool) -> None:
        self._shell = shell
        self._inner = inner
        self._part = part
        self._name = name
        self.mark = part.mark
        """A variable that the shell has to export."""
        self.tag: int | None = part.tag
        """A soft limit on file locks that it has to set."""
        self.wants_pids = True
        """The shell has to say which pid was given last: to ask for it would take a round trip."""

    async def may_live(self, first: int | None, last: int | None) -> bool:
        """Whether anything of it may be alive. Where pids were given meanwhile, the host is asked whose they are."""
        if first is None:
            return True
        try:
            # In a pid namespace of its own, these are no pids of the host.
            return first != last and (self._inner or await self._part.may_live(first))
        except HostAway:
            return False  # as for a fresh shell whose output has ended

    async def members(self) -> Sequence[ProcessInfo]:
        """Its live members; the shell, when the host does not answer."""
        try:
            return await self._part.members()
        except HostAway:
            return [ProcessInfo(self._part.outside or 0, self._name, 0.0)]

    def hides_holder(self, held: Collection[str]) -> bool:
        """Return false: the host does not show it."""
        return False

    def cpu(self) -> None:
        """Return ``None``: the question would take a round trip."""

    async def shell_is_back(self) -> bool:
        """Whether the shell has its own input again, as the host says."""
        try:
            return await self._part.shell_is_back()
        except HostAway:
            return True  # what is asked about it next says so

    async def send_signal(self, signal: Signal) -> None:
        """Signal all of it."""
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
