"""A program on a Windows host, with every process that the program starts."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from ...._answers import Nonsense, whole
from ...._exceptions import SpawnError
from ...._types import ExitStatus, ProcessInfo
from ...._waits import shielded
from ...tree import Ungrouped
from ..process import ChannelProcess
from .channel import WindowsChannel, WindowsSendStream

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...._types import Foreground, Signal, Terminal
    from ....abc import CommandTree
    from ..channel import Channel

ANSWER_SECONDS = 3.0
"""Seconds for a Windows host to report which processes of a command are alive; then its connection counts as silent."""

ABANDON_SECONDS = 1.0
"""Seconds for the end of a command on a Windows host that was given up before it had begun. The end comes even without
the wait, since the command's stdin ends."""

CLOSE_BOUND = 3.0
"""Seconds for which closing a process on a Windows host waits for the end of its tree."""


class WindowsProcess(Ungrouped, ChannelProcess[WindowsChannel]):
    """A program that runs in a job object on a Windows host.

    The job object's holder, `leader.ps1`, is at the other end of the program's channel. The leader ends every process
    in the job when it is told to, when the channel is closed, and when the connection is lost. Windows does the same
    when the leader itself ends.
    """

    def __init__(
        self,
        channel: WindowsChannel,
        *,
        name: str,
        has_stdin: bool,
        split_stderr: bool,
        on_closed: Callable[[WindowsProcess], object],
        on_released: Callable[[Channel], object],
    ) -> None:
        stdin = WindowsSendStream(channel) if has_stdin else None
        super().__init__(channel, stdin=stdin, split_stderr=split_stderr, on_released=on_released)
        self._name = name
        self._on_closed = on_closed
        self._signalled = False

    @property
    def pid(self) -> int | None:
        """The program's pid on the host, once its leader has reported the pid."""
        match self._words:
            case ["started", said]:
                with suppress(Nonsense):  # `WindowsHost.start` raises the error
                    return whole("a pid", said, 1, 2**32 - 1)
        return None

    @property
    def _ended_unheard(self) -> bool:
        """Whether the leader has ended, and all of the leader's output has arrived."""
        channel = self._channel
        return channel.leader_ended and channel.at_end.is_set() and not channel.cut

    @property
    def _words(self) -> list[str]:
        return self._channel.said.result() if self._channel.said.done() else []

    @property
    def started(self) -> bool | None:
        """Whether the program has begun, as reported by the leader; ``None`` while unknown; false if the leader ended first.

        The leader reports the start before the program may run. An order that was sent is never read twice.
        """
        words = self._words
        if words[:1] == ["started"]:
            return True
        if words or not self._channel.asked or self._ended_unheard:
            return False
        return None

    @property
    def can_terminate(self) -> bool:
        """Always false: on Windows, no signal reaches a program without a terminal."""
        return False

    @property
    def terminal_kind(self) -> None:
        """Always ``None``: there are no terminals on Windows by SSH."""

    async def wait(self) -> ExitStatus:
        """Wait until the program itself has ended and our reader has taken the output that it had printed by then.

        The status has no code when the connection is lost, when the program was stopped, or when another process has
        ended the leader.
        """
        ended = await shielded(self._channel.exit)
        if not (self._signalled and self._channel.gone.is_set()):
            await self._channel.wait_rest(0.0)
            if not (self._channel.at_end.is_set() or self._signalled or await self.survivors()):
                await self._channel.wait_last()
            await self._channel.wait_taken()
        return ended

    async def send_signal(self, signal: Signal) -> None:
        """End the whole tree at once, for any signal: on Windows a program receives no signals.

        A leader that has not reported the start may not have read its whole order. The end of the leader's input comes
        behind the order, and makes the leader end before the program or with it.
        """
        self._signalled = True
        if self.started:
            self._channel.send(b"K")
        else:
            self._channel.write_eof()

    async def survivors(self) -> Sequence[ProcessInfo]:
        """Return the live processes of the tree.

        When the host does not answer, return the processes that may run, as far as known.
        """
        channel = self._channel
        if channel.over:
            return ()
        answer: Sequence[ProcessInfo] | None = None
        with suppress(TimeoutError):
            async with asyncio.timeout(ANSWER_SECONDS):
                if not self.started:
                    await channel.wait_gone()
                elif not channel.closed.is_set():
                    answer = await channel.living()
        if answer is None and not channel.over:
            return [ProcessInfo(self.pid or 0, self._name, 0.0)]
        return answer or ()

    async def wait_gone(self) -> None:
        """Wait until no process of the tree is alive. Where that cannot be known, wait for ever."""
        await self._channel.wait_gone()
        if not self._channel.over:
            await asyncio.get_running_loop().create_future()

    def keep_naming(self, named: Sequence[ProcessInfo]) -> None:
        """Do nothing: no process leaves its job."""

    async def resize(self, terminal: Terminal) -> None:
        """Do nothing: the program has no terminal."""

    async def foreground(self) -> Foreground | None:
        """Return ``None``: the program has no terminal."""
        return None

    def command_tree(self, pipes: Sequence[str], fd: int, *, shell: int | None = None) -> CommandTree:
        """Refuse: there are no persistent shells on a Windows host by SSH.

        Raises:
            SpawnError: Always.
        """
        raise SpawnError("there are no sessions on a Windows host that is reached by SSH")

    async def aclose(self) -> None:
        """Kill the remaining processes of the tree, and close the channel.

        The close would make the leader end the tree as well.
        """
        if self._closed:
            return
        if not self._channel.over:
            await self.send_signal("kill")
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_BOUND):
                    await self._channel.wait_gone()
        self._channel.abort()
        self._give_back()

    async def abandon(self) -> None:
        """Give up a program that may have begun.

        A leader that has not read its whole order starts nothing; a leader that has started the program ends it.
        """
        await self.send_signal("kill")
        with suppress(TimeoutError):
            async with asyncio.timeout(ABANDON_SECONDS):
                await self._channel.wait_gone()
        self._channel.abort()
        self._give_back()

    def _give_back(self) -> None:
        self._closed = True
        self._on_closed(self)
