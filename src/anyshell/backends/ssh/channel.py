"""One program's channel: its input and output as byte streams, and its end."""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
from collections import deque
from typing import TYPE_CHECKING

import anyio
import asyncssh
from anyio.abc import ByteReceiveStream, ByteSendStream

from ..._types import ExitStatus

if TYPE_CHECKING:
    from collections.abc import Callable

HIGH_WATER = 1024 * 1024
"""Bytes of a command's output that wait for a reader; then the host is slowed down. Up to 4 MiB more are on their way."""

TERMINAL_HIGH_WATER = 64 * 1024
"""Bytes of a terminal's output that wait so, since it is drawn more slowly than it comes and a key that ends a flood
should take effect soon. Up to 512 KiB more are here or on their way."""

TERMINAL_OUTPUT = 256 * 1024
"""Bytes of a terminal's output that the host may send before it is told to go on, for the same reason."""

LONGEST_NOISE = 4096
"""Bytes of what a login shell prints before a command begins that are kept for a message, the last."""

QUIET_SECONDS = 0.03
"""Seconds without output, after a command's end, until its output counts as whole; or two round trips, if longer."""

LONGEST_REST = 1.0
"""Seconds of reading in which this is waited for, when another process goes on printing; also seconds in which our
reader takes nothing of it."""

LONGEST_ANSWER = 16 * 1024 * 1024
"""Bytes of one answer about processes: a hundred thousand of them."""

LAST_SILENCE = 5.0
"""Seconds without any output, when no process of the host writes it any more but its end has not come; then it is not
waited for. A link may stand still for as long, and a process that cannot be seen may have the output."""

LONGEST_LAST = 300.0
"""Seconds in which that end is waited for while output comes."""

TAKEN_PAUSE = 0.005
"""Seconds between two looks whether our reader has taken what has arrived."""

WRITE_SIZE = 64 * 1024
"""Bytes written to a command's stdin at once, by SSH."""

TERMINAL_WINDOW = 128 * 1024
"""Bytes that are typed on a terminal of OpenSSH and that its program has not read yet.

For what is typed while nothing is shown, sshd sends packets without meaning that are as long as all of it, so that
how much is waiting cannot be told from outside; and from 256 KiB on it sends them longer than SSH allows, which ends the connection and all
that runs over it (9.2). It says that there is room again when 96 KiB are taken."""

_SIGNAL = re.compile("[A-Z0-9]{1,16}")


class ChannelReceiveStream(ByteReceiveStream):
    """The output of a program on one of its channels."""

    def __init__(self, on_taken: Callable[[int], object]) -> None:
        self._on_taken = on_taken
        self._pieces: deque[bytes] = deque()
        self._waiting: asyncio.Future[None] | None = None
        self._closed = False
        self.ended = False
        """Whether nothing more will come."""

    def feed(self, data: bytes) -> None:
        """Take what has arrived."""
        if self._closed:
            self._on_taken(len(data))
            return
        self._pieces.append(data)
        self._wake()

    def end(self) -> None:
        """Take note that the output has ended."""
        self.ended = True
        self._wake()

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """Return the next bytes, at most `max_bytes` of them.

        Other tasks get a turn before, so that `yes` starves no other task, above all not the answers of the host's watcher.

        Raises:
            anyio.EndOfStream: The server has closed the channel.
            anyio.ClosedResourceError: This end is closed.
        """
        if self._pieces:
            await asyncio.sleep(0)  # with nothing in hand: to be cancelled here must lose no output
        while not self._pieces:
            if self._closed:
                raise anyio.ClosedResourceError
            if self.ended:
                raise anyio.EndOfStream
            self._waiting = asyncio.get_running_loop().create_future()
            try:
                await self._waiting
            finally:
                self._waiting = None
        data = self._pieces.popleft()
        if len(data) > max_bytes:
            self._pieces.appendleft(data[max_bytes:])
            data = data[:max_bytes]
        self._on_taken(len(data))
        return data

    def close(self) -> None:
        """Throw away what has arrived and what will. Never waits."""
        self._closed = True
        self._on_taken(sum(map(len, self._pieces)))
        self._pieces.clear()
        self._wake()

    async def aclose(self) -> None:
        """Throw away what has arrived and what will."""
        self.close()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)


class ChannelSendStream(ByteSendStream):
    """The input of a program. Closing it is end-of-file; the channel stays open for the output."""

    piece = WRITE_SIZE

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._closed = False

    async def send(self, item: bytes) -> None:
        """Write all of `item`, as fast as the server takes it.

        Raises:
            anyio.BrokenResourceError: The program has ended, or the connection is lost.
            anyio.ClosedResourceError: This end is closed.
        """
        view = memoryview(item)
        while view:
            if self._closed:
                raise anyio.ClosedResourceError
            await self._write(bytes(view[: self.piece]))
            view = view[self.piece :]

    async def aclose(self) -> None:
        """Send end-of-file. Closing the channel instead would end the output as well (RFC 4254, 5.3)."""
        if not self._closed:
            self._closed = True
            self._end()

    async def _write(self, piece: bytes) -> None:
        await self._channel.write(piece)

    def _end(self) -> None:
        self._channel.write_eof()


class Channel(asyncssh.SSHClientSession[bytes]):
    """The client's end of one session channel.

    Args:
        token: The word that the login shell prints to stdout when the command is about to begin, and a few words on the
            same line. What comes before is what its startup files print, and no output.
        split_stderr: The token is also printed to stderr, alone on its line. Otherwise nothing of what comes there
            is output.
        take: Is given the output at once, instead of `stdout`.
        high_water: Bytes of output that wait for their reader here; then no more is asked of the server, until three
            quarters are taken.
    """

    def __init__(
        self,
        token: str,
        *,
        split_stderr: bool = False,
        take: Callable[[bytes], object] | None = None,
        high_water: int = HIGH_WATER,
    ) -> None:
        self.window: int | None = None
        """Bytes that the program may be sent before it has taken some, if fewer than the server allows."""
        loop = asyncio.get_running_loop()
        self._token = token.encode()
        self._split = split_stderr
        self._take = take
        self.on_closed: Callable[[], object] = _nothing
        """Called once, when the server has closed the channel or the connection is gone."""
        self.on_end: Callable[[], object] = _nothing
        """Called when no more output will come."""
        self.on_asked: Callable[[], object] = _nothing
        """Called when the server may be asked for the program from now on."""
        self.owned = False
        """Whether its maker closes it, also when its program is given up while the server is asked."""
        self.connection: asyncssh.SSHClientConnection | None = None
        """The connection over which the server is asked."""
        self._channel: asyncssh.SSHClientChannel[bytes] | None = None
        self._noise: dict[str, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
        self._high_water = high_water
        self.arrived = 0
        """Bytes of output that have arrived for a reader."""
        self.taken = 0
        """Bytes of these that the reader has taken."""
        self._paused = False
        self._writable = asyncio.Event()
        self._writable.set()
        self.broken = False
        """Whether it was closed because its connection broke."""
        self.is_joined = False
        self.cut = False
        """Whether it ended without all that the server had to say: its connection broke, or it was closed here."""
        self.refused = False
        """Whether the server refused what the program needs, and was not asked for the program."""
        self._failed = False
        self._aborted = False
        # Futures and events are of the running loop, so a channel is made within it.
        self.stdout = ChannelReceiveStream(self._taken)
        self.stderr = ChannelReceiveStream(self._taken)
        self.said: asyncio.Future[list[str]] = loop.create_future()
        """The words behind the token. Never raises; empty when the channel closed without them."""
        self.ready = asyncio.Event()
        """The word behind a token before that one was ``ready``; or no word will come any more."""
        self.exit: asyncio.Future[ExitStatus] = loop.create_future()
        """The end of the program; without code and signal when that cannot be known."""
        self.last_heard = loop.time()
        """When something of the output arrived last, by the loop's clock."""
        self.at_end = asyncio.Event()
        """No more output will come."""
        self.no_writers = False
        """Whether the server said so: no process on the host holds the program's output any more."""
        self.closed = asyncio.Event()

    # Callbacks of asyncssh.

    def connection_made(self, chan: asyncssh.SSHClientChannel[bytes]) -> None:
        """Take the channel. It is open; the program has not been asked for yet."""
        self._channel = chan
        self.on_asked()

    def data_received(self, data: bytes, datatype: int | None) -> None:
        """Hand output on, once the noise is over."""
        self.last_heard = asyncio.get_running_loop().time()
        name = "stdout" if datatype is None else "stderr"
        if name in self._noise:
            data = self._skip_noise(name, data)
        elif datatype is not None and not self._split:
            return
        if data and self._take is not None:
            self._take(data)
        elif data:
            self.arrived += len(data)
            (self.stdout if datatype is None else self.stderr).feed(data)
            self._pause()

    def eof_received(self) -> bool:
        """The output is over. Our own direction stays open."""
        self.no_writers = True
        self._end_output()
        return True

    def exit_status_received(self, status: int) -> None:
        """The program itself has ended."""
        self._ended(ExitStatus(code=status))

    def exit_signal_received(self, signal: str, core_dumped: bool, msg: str, lang: str) -> None:
        """A signal ended the program.

        RFC 4254, 6.10, gives its name without ``SIG``, and has names for a dozen. For others OpenSSH sends
        ``SIG@openssh.com``.
        """
        self._ended(ExitStatus(signal=f"SIG{signal}" if _SIGNAL.fullmatch(signal) else "SIGUNKNOWN"))

    def connection_lost(self, exc: Exception | None) -> None:
        """The channel is closed, by the server or because the connection is gone."""
        self._failed = True
        self.broken = exc is not None
        # asyncssh does not tell of an end of the output that comes in one piece with the close, which OpenSSH sends after it.
        self.no_writers = self.no_writers or (self.over and not self.broken and not self._aborted)
        self.cut = self.cut or self.broken
        self._end_output()
        self._ended(ExitStatus())
        self._say([])
        self._writable.set()
        if not self.closed.is_set():
            self.closed.set()
            self.on_closed()

    def pause_writing(self) -> None:
        """Enough is waiting to be sent."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """More can be sent."""
        self._writable.set()

    # Methods for a process.

    @property
    def asked(self) -> bool:
        """Whether the server may have been asked to start the program."""
        return self._channel is not None and not self.refused

    @property
    def over(self) -> bool:
        """Whether the program is known to have ended."""
        return self.exit.done() and self.exit.result() != ExitStatus()

    @property
    def paused(self) -> bool:
        """Whether output waits for its reader here, so that no more is asked for."""
        return self._paused

    @property
    def noise(self) -> str:
        """The end of the output before the command began."""
        return b"\n".join(self._noise.values()).decode("utf-8", "replace").strip()

    @property
    def beside(self) -> bytes:
        """The end of stderr, which is no output of the command."""
        return b"" if self._split else bytes(self._noise["stderr"])

    async def write(self, data: bytes) -> None:
        """Send input, when there is room for it.

        Raises:
            anyio.BrokenResourceError: The reader is gone.
        """
        await self._writable.wait()
        if self._failed or self._channel is None:
            raise anyio.BrokenResourceError
        try:
            self._channel.write(data)
        except OSError as error:
            raise anyio.BrokenResourceError from error

    def write_now(self, data: bytes) -> None:
        """Send input without waiting for room. Never raises: a reader that is gone is noticed otherwise."""
        if not self._failed and self._channel is not None:
            with contextlib.suppress(OSError):
                self._channel.write(data)

    def write_eof(self) -> None:
        """Send end-of-file."""
        if not self._failed and self._channel is not None:
            with contextlib.suppress(OSError):
                self._channel.write_eof()

    def signal(self, name: str) -> None:
        """Have the server signal the program. Never raises; the server does not say whether it did."""
        if not self._failed and self._channel is not None:
            with contextlib.suppress(OSError):
                self._channel.send_signal(name)

    def resize(self, columns: int, rows: int) -> None:
        """Give the program's terminal another size. Never raises."""
        if not self._failed and self._channel is not None:
            with contextlib.suppress(OSError):
                self._channel.change_terminal_size(columns, rows)

    async def wait_rest(self, quiet: float, longest: float = LONGEST_REST) -> None:
        """Let the rest of the output arrive: the news of the end overtakes what waits in the server's pipe.

        Args:
            quiet: Seconds for which nothing must have come, if they are more than `QUIET_SECONDS`.
            longest: Seconds of reading after which it is not waited for any more.
        """
        loop = asyncio.get_running_loop()
        quiet = max(QUIET_SECONDS, quiet)
        since = loop.time()
        spent = 0.0
        while not self.at_end.is_set() and spent < longest:
            left = max(since, self.last_heard) + quiet - loop.time()
            if left <= 0 and not self.paused:
                return
            began = loop.time()
            try:
                async with asyncio.timeout(max(left, TAKEN_PAUSE)):
                    await self.at_end.wait()
            except TimeoutError:
                pass
            if self.paused:
                since = loop.time()  # it is our own reader that is slow
            else:
                spent += loop.time() - began

    async def wait_last(self) -> None:
        """Let all of an output arrive that has no writers any more: its end must come, however slow the link is."""
        await self.wait_rest(LAST_SILENCE, LONGEST_LAST)

    async def wait_taken(self) -> None:
        """Let our reader take what has arrived, as long as it takes any: drawing it is slower than sending it."""
        loop = asyncio.get_running_loop()
        due, taken, since = self.arrived, self.taken, loop.time()
        while self.taken < due and loop.time() - since < LONGEST_REST:
            await asyncio.sleep(TAKEN_PAUSE)
            if self.taken != taken:
                taken, since = self.taken, loop.time()

    def discard(self) -> None:
        """From now on throw away whatever comes, so that writing does not fail or block over there."""
        self.stdout.close()
        self.stderr.close()

    def abort(self) -> None:
        """Close at once, whatever is still to be sent or to come."""
        if self._channel is not None and not self.closed.is_set():
            self.cut = self.cut or not self.at_end.is_set()
            self._aborted = True
            self.discard()
            self._channel.abort()

    def _skip_noise(self, name: str, data: bytes) -> bytes:
        held = self._noise[name]
        held += data
        while (at := held.find(self._token)) >= 0:
            end = held.find(b"\n", at)
            if end < 0 and len(held) - at <= LONGEST_NOISE:
                return b""  # the line is cut: all of it is needed
            if end < 0:
                del held[: at + len(self._token)]  # a shell that begins a command says less
                continue
            words = held[at + len(self._token) : end].decode("utf-8", "replace").split()
            rest = bytes(held[end + 1 :])
            if words == ["ready"]:
                self.ready.set()
            elif name == "stderr" or words:
                if name == "stdout":
                    self._say(words)
                del self._noise[name]
                return rest
            self.is_joined = True
            held[:] = (
                rest  # without words it is that for stderr, where a startup file has made the two channels one
            )
        if len(held) > LONGEST_NOISE:
            del held[:-LONGEST_NOISE]
        return b""

    def _say(self, words: list[str]) -> None:
        if not self.said.done():
            self.said.set_result(words)
        self.ready.set()
        if self.window is not None and self._channel is not None:
            # The server has allowed all that it does when it started the login shell. asyncssh has no other way to it.
            self._channel._send_window = min(self._channel._send_window, self.window)

    def _taken(self, count: int) -> None:
        self.taken += count
        if self._paused and self.arrived - self.taken < self._high_water // 4 and self._channel is not None:
            # asyncssh hands on all that it holds, unless it is paused meanwhile, and with the first piece of that allows
            # the server a whole window again: paused half-way each time, it would come to hold more and more.
            self._channel.resume_reading()
            self._paused = False
            self._pause()

    def _pause(self) -> None:
        if self.arrived - self.taken > self._high_water and not self._paused and self._channel is not None:
            self._paused = True
            self._channel.pause_reading()

    def _ended(self, status: ExitStatus) -> None:
        if not self.exit.done():
            self.exit.set_result(status)

    def _end_output(self) -> None:
        self.at_end.set()
        self.on_end()
        self.stdout.end()
        self.stderr.end()


def noise_words(noise: str) -> str:
    """The last lines that a login shell printed, for a message; harmless to a terminal."""
    if not noise:
        return ""
    shown = "".join(char if char.isprintable() else " " for char in noise[-300:]).strip()
    return f"; it printed: {shown}"


def _nothing() -> None:
    pass


def new_token() -> str:
    """Something that no output has by accident."""
    return "anyshell" + secrets.token_hex(16)
