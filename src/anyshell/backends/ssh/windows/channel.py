"""The channel of one command on a Windows host: its output, and the protocol with its holder there, `leader.ps1`."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
from typing import TYPE_CHECKING

import anyio

from ...._answers import whole
from ...._types import ExitStatus, ProcessInfo, one_line
from ..channel import LONGEST_NOISE, Channel, ChannelSendStream

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PIECE = 32 * 1024
"""Bytes of a command's input that are sent to a Windows host at once."""

INPUT_WINDOW = 256 * 1024
"""Bytes of a command's input on their way to a Windows host, which its program has not read; the limit lets other
requests pass."""

LONGEST_LINE = 1024 * 1024
"""Bytes of a line that reports on a command on a Windows host, more than a job object's eight thousand processes take;
a longer line is not a report, and is not kept."""


class WindowsChannel(Channel):
    """The client's end of a session in which `leader.ps1` runs.

    From the line that begins the command on, which the leader writes, stdout has only the command's output. On stderr
    the leader reports events, in lines that begin with the token. Between those lines comes the command's stderr, if it
    `splits` the channels.

    Args:
        token: The beginning of the leader's lines.
    """

    def __init__(self, token: str) -> None:
        super().__init__(token)
        self.token = token
        self.splits = False
        """Whether the command has stderr as well. Set before the command is begun."""
        self._held = b""
        self._begun = False
        self._questions: dict[int, asyncio.Future[Sequence[ProcessInfo]]] = {}
        self._numbers = itertools.count(1)
        self._waiting = 0
        self.unread = 0
        """The bytes of input that were sent and that the program has not read."""
        self.room = asyncio.Event()
        """Set when some input was read, or never will be."""
        self.leader_ended = False
        """Whether the server reported that the leader has ended."""
        self.gone = asyncio.Event()
        """Set when no process of the command is alive, or when the leader, which would know, is gone."""

    # Callbacks of asyncssh.

    def data_received(self, data: bytes, datatype: int | None) -> None:
        """Pass output on to the reader; of stderr, only the command's part."""
        if datatype is None:
            super().data_received(data, datatype)
            return
        self.last_heard = asyncio.get_running_loop().time()
        held = self._held + data
        while (at := held.find(self._token)) >= 0 and (end := held.find(b"\n", at)) >= 0:
            self._take_stderr(held[:at])
            with contextlib.suppress(ValueError):  # a line with a word in the place of a number is ignored
                self._hear(held[at + len(self._token) : end].decode("utf-8", "replace").split())
            held = held[end + 1 :]
        if at >= 0 and len(held) - at > LONGEST_LINE:
            self._take_stderr(held[:at])
            held = held[at + len(self._token) :]
            at = -1
        keep = len(held) - at if at >= 0 else _beginning(held, self._token)
        self._take_stderr(held[: len(held) - keep])
        self._held = held[len(held) - keep :]

    def exit_status_received(self, status: int) -> None:
        """Record that the leader, or the login shell before it, has ended: no process of the command is alive then.

        The leader's last lines may still be on their way: servers report the end as soon as they know it.
        """
        self.leader_ended = True
        self.gone.set()
        self._end_unknown()

    def eof_received(self) -> bool:
        """Record the end of the output. Our own direction stays open."""
        super().eof_received()
        self._end_unknown()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """Record that the channel is closed, by the server or because the connection is lost."""
        self._take_stderr(self._held)
        self._held = b""
        super().connection_lost(exc)
        self.room.set()
        self.gone.set()
        for question in self._questions.values():
            if not question.done():
                question.cancel()

    # Methods for a process.

    @property
    def over(self) -> bool:
        """Whether no process of the command can be alive."""
        return self.leader_ended or (self.gone.is_set() and not self.closed.is_set())

    def begin_anew(self, token: str) -> None:
        """Expect the output of another program in the same session, which begins with this token."""
        self.token = token
        self._token = token.encode()
        self._noise["stdout"] = bytearray()
        self.said = asyncio.get_running_loop().create_future()

    def send(self, verb: bytes, body: bytes = b"") -> None:
        """Send the leader a request. Never waits, never raises."""
        self.write_now(verb + len(body).to_bytes(4, "little") + body)

    async def living(self) -> Sequence[ProcessInfo] | None:
        """Ask which processes of the command are alive; ``None`` when the channel closes meanwhile. Has no time limit."""
        number = next(self._numbers)
        question = self._questions[number] = asyncio.get_running_loop().create_future()
        self.send(b"S", str(number).encode())
        try:
            with self._attentive():
                await asyncio.wait([question])
            return None if question.cancelled() else question.result()
        finally:
            del self._questions[number]

    async def wait_gone(self) -> None:
        """Wait until no process of the command is alive, or until the leader, which would know, is gone."""
        with self._attentive():
            await self.gone.wait()

    @contextlib.contextmanager
    def _attentive(self) -> Iterator[None]:
        """Take output beyond its limit meanwhile: the awaited answer may come behind output that is not read."""
        self._waiting += 1
        if self._paused and self._channel is not None:
            self._channel.resume_reading()
            self._paused = False
        try:
            yield
        finally:
            self._waiting -= 1
            self._pause()

    def _end_unknown(self) -> None:
        """Set an unknown status for a leader that ends without a report of the program's end: it was ended from outside."""
        if self.leader_ended and self.at_end.is_set():
            self._ended(ExitStatus())

    def _pause(self) -> None:
        if not self._waiting:
            super()._pause()

    def _take_stderr(self, data: bytes) -> None:
        if not self._begun:
            noise = self._noise.get("stderr", bytearray())
            noise += data
            del noise[:-LONGEST_NOISE]
        elif self.splits and data:
            self.arrived += len(data)
            self.stderr.feed(data)
            self._pause()

    def _hear(self, words: list[str]) -> None:
        match words:
            case ["started"]:
                self._begun = True
            case ["took", count]:
                self.unread = max(0, self.unread - whole("a count", count))
                self.room.set()
            case ["living", number, *described]:
                question = self._questions.get(whole("a question's number", number))
                if question is not None and not question.done():
                    question.set_result(_read_processes(described))
            case ["exited", code, *_]:
                self._ended(ExitStatus(code=int(code) & 0xFFFFFFFF))
            case ["stopped", *_]:
                self._ended(ExitStatus())
            case [_, *_]:
                self._say(
                    words
                )  # the reason why the command cannot begin; no start was reported, and none will be
        if words[-1:] == ["gone"]:
            self.gone.set()


class WindowsSendStream(ChannelSendStream):
    """The input of a command on a Windows host. Closing the stream sends end-of-file; the channel stays open."""

    piece = PIECE

    def __init__(self, channel: WindowsChannel) -> None:
        super().__init__(channel)
        self._leader = channel

    async def _write(self, piece: bytes) -> None:
        leader = self._leader
        while leader.unread and leader.unread + len(piece) > INPUT_WINDOW:
            leader.room.clear()
            await leader.room.wait()
            if leader.closed.is_set():
                raise anyio.BrokenResourceError
        if leader.closed.is_set() or leader.exit.done():
            raise anyio.BrokenResourceError
        leader.unread += len(piece)
        leader.send(b"I", piece)

    def _end(self) -> None:
        self._leader.send(b"E")


def _read_processes(described: Sequence[str]) -> Sequence[ProcessInfo]:
    each = iter(described)
    return [
        ProcessInfo(
            whole("a pid", pid), one_line(name), float(started) if math.isfinite(float(started)) else 0.0
        )
        for pid, name, started in zip(each, each, each, strict=False)
    ]


def _beginning(data: bytes, token: bytes) -> int:
    """Return the number of bytes at the end that may be the beginning of a token."""
    return next(
        (size for size in range(min(len(token) - 1, len(data)), 0, -1) if data.endswith(token[:size])), 0
    )
