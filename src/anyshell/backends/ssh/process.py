"""A program on the host, with everything that it starts."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from ..._types import ExitStatus, ProcessInfo
from .channel import Channel, ChannelReceiveStream, ChannelSendStream
from .processes import EXIT_SLACK, group_question
from .terminal import MOST_SEEN, Modes, TerminalSendStream, read_foreground
from .watcher import SILENCE_SECONDS, HostAway

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anyio.abc import ByteSendStream

    from ..._types import Foreground, Signal, Terminal, TerminalKind
    from .processes import Processes, Tree
    from .watcher import Answer

CLOSE_BOUND = 1.0
"""Seconds that closing a process goes on killing what lives of its tree."""

STOP_ROUNDS = 5
"""Looks and kills in a row, when a host is back on which something was left running."""

_GONE_SECONDS = 0.05
"""How long the news of the exit may take when the process was seen to be gone: a silent server never tells."""

_LOOK_AGAIN = (0.005, 0.02, 0.04, 0.08, 0.15)
"""Seconds between two looks for what is left of a tree; the last one repeats."""


class SSHProcess:
    """A program that runs behind a channel.

    What holds the tree is what `Tree` looks for, and the channel: its output ends only when nobody on the host has
    it any more, and beside what is read there is a descriptor of the same channel that everything inherits.
    """

    def __init__(
        self,
        channel: Channel,
        tree: Tree,
        processes: Processes,
        *,
        name: str,
        has_stdin: bool,
        terminal: bool,
        split_stderr: bool,
        on_closed: Callable[[SSHProcess], object],
        on_released: Callable[[Channel], object],
        on_away: Callable[[SSHProcess], object],
    ) -> None:
        self._channel = channel
        self._tree = tree
        self._processes = processes
        self._name = name
        self._terminal = terminal
        self._stdin: ByteSendStream | None = None
        if terminal:
            self._stdin = TerminalSendStream(channel, self._modes, longest_line=processes.longest_line)
        elif has_stdin:
            self._stdin = ChannelSendStream(channel)
        self._split = split_stderr
        self.holds_channel = False
        """Whether the server keeps the channel open until nobody on the host has it any more."""
        self._on_closed = on_closed
        self._on_released = on_released
        self._on_away = on_away
        self._signalled = False
        self._gone = False
        self._waiting: asyncio.Future[None] | None = None
        self._closed = False
        self._sections = itertools.count(1)
        self._group: asyncio.Future[Answer] | None = None
        channel.on_end = self._output_ended
        channel.exit.add_done_callback(self._exited)

    @property
    def pid(self) -> int | None:
        """The leader's pid on the host; also its process group and its session."""
        return self._tree.leader

    @property
    def description(self) -> ProcessInfo:
        """What is known of it when the host does not answer."""
        return ProcessInfo(self.pid or 0, self._name, 0.0)

    @property
    def stdin(self) -> ByteSendStream | None:
        """What the program reads, if it was asked for; what is typed on its terminal."""
        return self._stdin

    @property
    def stdout(self) -> ChannelReceiveStream:
        """What the tree prints."""
        return self._channel.stdout

    @property
    def stderr(self) -> ChannelReceiveStream | None:
        """What the tree prints there, if the channels were split."""
        return self._channel.stderr if self._split else None

    @property
    def terminal_kind(self) -> TerminalKind | None:
        """The host's own; of another kind no host says that it is."""
        return "pty" if self._terminal else None

    @property
    def lost(self) -> bool:
        """Whether its connection broke."""
        return self._channel.broken

    @property
    def asks(self) -> bool:
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
        if self.pid is None and self._channel.broken:
            return ExitStatus()  # nobody heard that it began: what has ended may be the login shell
        if not (self._signalled and self._gone):
            await self._channel.wait_rest(2 * self._processes.round_trip)
            if not (self._channel.at_end.is_set() or self._signalled or await self.survivors()):
                await self._channel.wait_last()
            await self._channel.wait_taken()
        return ended.result()

    def _wake(self, _: object = None) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def _set_gone(self) -> None:
        self._gone = True
        self._wake()

    async def send_signal(self, signal: Signal) -> None:
        """Signal the whole tree. A host that does not answer is what `survivors` says."""
        self._signalled = True
        with contextlib.suppress(HostAway):
            await self._tree.signal(signal, await self._tree.members())

    async def survivors(self) -> Sequence[ProcessInfo]:
        """What of the tree is alive.

        After a normal end that leaves nobody with the channel, only the leader's group is asked for. When the
        host does not answer, what may be running is named by what is known of it.
        """
        if self._gone:
            return ()
        ended = self._channel.exit.done()
        nobody_writes = ended and self.holds_channel and self._channel.nobody_writes
        try:
            if (
                nobody_writes
                and not self._signalled
                and self.pid is not None
                and not await self._processes.group_exists(self.pid, self._group)
            ):
                self._set_gone()
                return ()
            # Where the channel tells nothing, the descriptors of who is alive do.
            normal = ended and not self.holds_channel and not self._signalled and not self._lost
            members = await self._tree.members(daemons=not normal)
            if not members and self._signalled:
                members = await self._tree.members()  # who forks all the time can be missed once
        except HostAway:
            if nobody_writes and not self._signalled:
                return ()
            if self._signalled:  # otherwise it is not to be stopped, or not yet
                self._on_away(self)
            return [self.description]
        if not members and (ended or self._signalled):
            self._set_gone()
        return members

    @property
    def _lost(self) -> bool:
        return self._channel.exit.done() and self._channel.exit.result() == ExitStatus()

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

    def section(self, pipe: str, fd: int, *, shell: int | None = None) -> SSHSection:
        """What a persistent shell starts from now on."""
        part = self._tree.part(next(self._sections), shell or self.pid or 0)
        return SSHSection(self._tree, part, self._name)

    async def resize(self, terminal: Terminal) -> None:
        """Give its terminal another size; nothing without one, or when the leader has ended."""
        if self._terminal:
            self._channel.resize(terminal.columns, terminal.rows)

    async def foreground(self) -> Foreground | None:
        """Who has its terminal now; ``None`` without one, when the leader has ended, or when the host does not say."""
        answer = await self._ask("foreground", MOST_SEEN)
        return None if answer is None else read_foreground(answer.lines, self._processes)

    async def _modes(self) -> Modes | None:
        answer = await self._ask("modes", 0)
        return None if answer is None else Modes.read(answer.lines)

    async def _ask(self, verb: str, most: int) -> Answer | None:
        """Ask about the terminal, as long as the leader's pid is its own."""
        if not self._terminal or self.pid is None or self._channel.exit.done():
            return None
        try:
            answer = await self._processes.ask(f"{verb} {self.pid} {most}")
        except HostAway:
            return None
        return None if self._channel.exit.done() else answer

    async def release(self) -> None:
        """Let what lives go on; its output is read and thrown away."""
        if not self._closed:
            self._channel.discard()
            self._on_released(self._channel)
            self._give_back()

    async def aclose(self) -> None:
        """Kill what is left of the tree, and close the channel."""
        if self._closed:
            return
        if await self.survivors():
            try:
                async with asyncio.timeout(CLOSE_BOUND):
                    while await self.survivors():
                        await self.send_signal("kill")
                        await asyncio.sleep(_LOOK_AGAIN[0])
            except TimeoutError:
                pass  # not killable now, or the host is away; whoever asks survivors() is told
        self._channel.abort()
        self._give_back()

    async def abandon(self) -> None:
        """Give it up before it was known to have begun: stop it if it has."""
        if not self._channel.asked:
            self.forget()
            return
        self._signalled = True
        with suppress(HostAway):
            await self._tree.drop()
        # Its connection need not be the one over which the host is asked: what was sent on it must have arrived, or
        # there would be nobody yet.
        with suppress(TimeoutError):
            async with asyncio.timeout(SILENCE_SECONDS):
                await self._channel.closed.wait()
        with suppress(HostAway):
            await self._tree.drop()
        if not self._channel.closed.is_set():
            self._on_away(self)
        await self.aclose()

    async def stop_now(self) -> bool:
        """Kill what lives of the tree, now that the host is back; whether that is known to have worked."""
        self._signalled = True
        try:
            await self._tree.drop()
            for _ in range(STOP_ROUNDS):
                members = await self._tree.members()
                if not members:
                    # On a silent connection the start may still be on its way.
                    return self._channel.closed.is_set()
                await self._tree.signal("kill", members)
        except HostAway:
            pass
        return False

    def forget(self) -> None:
        """It never began, and nothing of it is held."""
        self._set_gone()
        self._give_back()

    def _give_back(self) -> None:
        self._closed = True
        self._on_closed(self)

    def _output_ended(self) -> None:
        self._tree.let_go = self._tree.on_terminal

    def _exited(self, ended: asyncio.Future[ExitStatus]) -> None:
        if self.holds_channel and not self._signalled and self.pid is not None:
            # Nearly always the next question; the answer comes with the end of the output.
            self._group = self._processes.ask_now(group_question(self.pid))
        if ended.result() != ExitStatus():
            self._tree.ended_at = self._processes.host_time(time.monotonic() + EXIT_SLACK)


class SSHSection:
    """One command of a persistent shell, with everything that it starts."""

    def __init__(self, shell: Tree, part: Tree, name: str) -> None:
        self._shell = shell
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
        if first is None or last is None:
            return True
        try:
            return first != last and await self._part.may_live(first)
        except HostAway:
            return False  # as for a fresh shell whose output has ended

    async def members(self) -> Sequence[ProcessInfo]:
        """What of it is alive; the shell, when the host does not answer."""
        try:
            return await self._part.members()
        except HostAway:
            return [ProcessInfo(self._part.outside or 0, self._name, 0.0)]

    async def send_signal(self, signal: Signal) -> None:
        """Signal all of it."""
        with suppress(HostAway):
            # A subshell must not see its program end, and go on with the next, before it is signalled itself.
            members = sorted(await self._part.members(), key=lambda member: (member.started, member.pid))
            await self._part.signal(signal, members)

    async def interrupt(self) -> None:
        """Send SIGVTALRM to the shell itself."""
        with suppress(HostAway):
            await self._shell.signal_one(self._part.outside, "VTALRM")

    async def kill_shell(self) -> None:
        """Kill the shell itself."""
        with suppress(HostAway):
            await self._shell.signal_one(self._part.outside, "KILL")
