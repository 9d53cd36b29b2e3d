"""The channel of one program: its input and output as byte streams, and the program's end."""

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
"""Bytes of a command's output that wait for a reader; then the host is slowed down. Up to 4 MiB more are in transit."""

TERMINAL_HIGH_WATER = 64 * 1024
"""Bytes of a terminal's output that wait for a reader; then the host is slowed down. A terminal draws output more slowly
than output arrives, and a key that ends a flood should take effect soon. Up to 512 KiB more are here or in transit."""

TERMINAL_OUTPUT = 256 * 1024
"""Bytes of a terminal's output that the host may send before it needs permission to send more; the reason is the same as
for `TERMINAL_HIGH_WATER`."""

LONGEST_NOISE = 4096
"""Bytes that are kept, for a message, of the text that a login shell prints before a command begins; only the last are kept."""

QUIET_SECONDS = 0.03
"""Seconds without output, after a command's end, until its output counts as whole; two round trips count instead, if longer."""

LONGEST_REST = 1.0
"""Seconds of reading, after a command's end, in which the rest of its output is waited for while another process goes
on printing. Also seconds in which our reader takes no output; then waiting for the reader ends."""

LONGEST_ANSWER = 16 * 1024 * 1024
"""Bytes of one answer about processes; 16 MiB hold a hundred thousand processes."""

LAST_SILENCE = 5.0
"""Seconds without any output, when no process of the host writes the output any more; then its end is no longer waited
for. A link may stand still for as long, and a process that anyshell cannot see may hold the output."""

LONGEST_LAST = 300.0
"""Seconds in which the end of an output without writers is waited for while output still comes."""

TAKEN_PAUSE = 0.005
"""Seconds between two checks whether our reader has taken the output that has arrived."""

WRITE_SIZE = 64 * 1024
"""Bytes written to a command's stdin at once, by SSH."""

TERMINAL_WINDOW = 128 * 1024
"""Bytes that are typed on a terminal of OpenSSH and that its program has not read yet.

While the terminal echoes nothing, sshd answers typed bytes with packets without meaning, as long as all the waiting
bytes. An observer thus cannot tell how many bytes wait. From 256 KiB of waiting bytes on, sshd (9.2) sends packets
longer than SSH allows, which ends the connection and every session on the connection. sshd reports room again when 96
KiB have been read."""

_SIGNAL = re.compile("[A-Z0-9]{1,16}")


class ChannelReceiveStream(ByteReceiveStream):
    """The output of a program on stdout or stderr of its channel."""

    def __init__(self, on_taken: Callable[[int], object]) -> None:
        self._on_taken = on_taken
        self._pieces: deque[bytes] = deque()
        self._waiting: asyncio.Future[None] | None = None
        self._closed = False
        self.ended = False
        """Whether no more output will come."""

    def feed(self, data: bytes) -> None:
        """Store output that has arrived, and wake the reader."""
        if self._closed:
            self._on_taken(len(data))
            return
        self._pieces.append(data)
        self._wake()

    def end(self) -> None:
        """Record that the output has ended, and wake the reader."""
        self.ended = True
        self._wake()

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """Return the next bytes, at most `max_bytes` of them.

        Other tasks get a turn first: the output of `yes` must starve no other task, above all not the answers of the
        host's watcher.

        Raises:
            anyio.EndOfStream: The server has closed the channel.
            anyio.ClosedResourceError: This end is closed.
        """
        if self._pieces:
            await asyncio.sleep(0)  # no bytes are taken yet: a cancellation here must lose no output
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
        """Discard the output that has arrived and all later output. Never waits."""
        self._closed = True
        self._on_taken(sum(map(len, self._pieces)))
        self._pieces.clear()
        self._wake()

    async def aclose(self) -> None:
        """Discard the output that has arrived and all later output."""
        self.close()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)


class ChannelSendStream(ByteSendStream):
    """The input of a program. Closing the stream sends end-of-file; the channel stays open for the output."""

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
        token: The word that the login shell prints to stdout just before the command begins, with a few words on the
            same line. Startup files print the text before the token; that text is not output of the command.
        split_stderr: Whether the login shell also prints the token to stderr, alone on its line. Otherwise nothing on
            stderr is output of the command.
        take: Called with the output at once, instead of filling `stdout`.
        high_water: Bytes of output that wait here for a reader; then the server is asked for no more until three
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
        """The bytes that the program may be sent before it has read some, if fewer than the server allows."""
        loop = asyncio.get_running_loop()
        self._token = token.encode()
        self._split = split_stderr
        self._take = take
        self.on_closed: Callable[[], object] = _nothing
        """Called once, when the server has closed the channel or the connection is lost."""
        self.on_end: Callable[[], object] = _nothing
        """Called when no more output will come."""
        self.on_asked: Callable[[], object] = _nothing
        """Called when the channel is open; from then on, the server may be asked for the program."""
        self.owned = False
        """Whether the creator closes the channel, also when the program is given up while the server is being asked for it."""
        self.connection: asyncssh.SSHClientConnection | None = None
        """The connection over which the server is asked for the program."""
        self._channel: asyncssh.SSHClientChannel[bytes] | None = None
        self._noise: dict[str, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
        self._high_water = high_water
        self.arrived = 0
        """The number of bytes of output that have arrived for a reader."""
        self.taken = 0
        """The number of arrived bytes that the reader has taken."""
        self._paused = False
        self._writable = asyncio.Event()
        self._writable.set()
        self.broken = False
        """Whether the channel was closed because its connection broke."""
        self.is_joined = False
        self.cut = False
        """Whether the channel ended before the server had sent everything: its connection broke, or this end closed the
        channel."""
        self.refused = False
        """Whether the server refused a terminal, and was not asked for the program."""
        self._failed = False
        self._aborted = False
        # Futures and events belong to the running loop, so a channel is created within that loop.
        self.stdout = ChannelReceiveStream(self._taken)
        self.stderr = ChannelReceiveStream(self._taken)
        self.said: asyncio.Future[list[str]] = loop.create_future()
        """The words behind the token. Never raises; empty when the channel closed before the words came."""
        self.ready = asyncio.Event()
        """Set when the word behind a token was ``ready``, before the token of the command; or when no word will come any more."""
        self.exit: asyncio.Future[ExitStatus] = loop.create_future()
        """The exit status of the program; without code and signal when the status cannot be known."""
        self.last_heard = loop.time()
        """The time at which output last arrived, by the loop's clock."""
        self.at_end = asyncio.Event()
        """Set when no more output will come."""
        self.no_writers = False
        """Whether the server reported that no process on the host holds the program's output any more."""
        self.closed = asyncio.Event()

    # Callbacks of asyncssh.

    def connection_made(self, chan: asyncssh.SSHClientChannel[bytes]) -> None:
        """Store the channel. The channel is open; the program has not been asked for yet."""
        self._channel = chan
        self.on_asked()

    def data_received(self, data: bytes, datatype: int | None) -> None:
        """Pass output on to the reader, once the noise is over."""
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
        """Record the end of the output. Our own direction stays open."""
        self.no_writers = True
        self._end_output()
        return True

    def exit_status_received(self, status: int) -> None:
        """Record the exit status of the program itself."""
        self._ended(ExitStatus(code=status))

    def exit_signal_received(self, signal: str, core_dumped: bool, msg: str, lang: str) -> None:
        """Record the signal that ended the program.

        RFC 4254, 6.10, gives the signal's name without ``SIG``, and has names for a dozen signals. For other signals
        OpenSSH sends ``SIG@openssh.com``.
        """
        self._ended(ExitStatus(signal=f"SIG{signal}" if _SIGNAL.fullmatch(signal) else "SIGUNKNOWN"))

    def connection_lost(self, exc: Exception | None) -> None:
        """Record that the channel is closed, by the server or because the connection is lost."""
        self._failed = True
        self.broken = exc is not None
        # OpenSSH sends the end of the output just before the close. asyncssh does not report that end when
        # both arrive in one piece.
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
        """Make writers wait: enough input is waiting to be sent."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Let writers continue: more input can be sent."""
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
        """Whether output waits here for its reader, so that the server is asked for no more."""
        return self._paused

    @property
    def noise(self) -> str:
        """The last bytes of the output that came before the command began."""
        return b"\n".join(self._noise.values()).decode("utf-8", "replace").strip()

    @property
    def beside(self) -> bytes:
        """The last bytes of stderr, where stderr is not output of the command."""
        return b"" if self._split else bytes(self._noise["stderr"])

    async def write(self, data: bytes) -> None:
        """Send input, when there is room for it.

        Raises:
            anyio.BrokenResourceError: The program's end of the channel is gone.
        """
        await self._writable.wait()
        if self._failed or self._channel is None:
            raise anyio.BrokenResourceError
        try:
            self._channel.write(data)
        except OSError as error:
            raise anyio.BrokenResourceError from error

    def write_now(self, data: bytes) -> None:
        """Send input without waiting for room. Never raises: a lost channel is noticed in other ways."""
        if not self._failed and self._channel is not None:
            with contextlib.suppress(OSError):
                self._channel.write(data)

    def write_eof(self) -> None:
        """Send end-of-file."""
        if not self._failed and self._channel is not None:
            with contextlib.suppress(OSError):
                self._channel.write_eof()

    def signal(self, name: str) -> None:
        """Tell the server to signal the program. Never raises; the server does not report whether it did so."""
        if not self._failed and self._channel is not None:
            with contextlib.suppress(OSError):
                self._channel.send_signal(name)

    def resize(self, columns: int, rows: int) -> None:
        """Resize the program's terminal. Never raises."""
        if not self._failed and self._channel is not None:
            with contextlib.suppress(OSError):
                self._channel.change_terminal_size(columns, rows)

    async def wait_rest(self, quiet: float, longest: float = LONGEST_REST) -> None:
        """Wait for the rest of the output: the exit status can overtake output that waits in the server's pipe.

        Args:
            quiet: Seconds without output after which the output counts as whole, if more than `QUIET_SECONDS`.
            longest: Seconds of reading after which the wait ends.
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
                since = loop.time()  # our own reader is slow: this time does not count
            else:
                spent += loop.time() - began

    async def wait_last(self) -> None:
        """Wait for the whole of an output that has no writers any more: the end must come, however slow the link is."""
        await self.wait_rest(LAST_SILENCE, LONGEST_LAST)

    async def wait_taken(self) -> None:
        """Wait until our reader has taken the output that has arrived, as long as the reader takes some."""
        loop = asyncio.get_running_loop()
        due, taken, since = self.arrived, self.taken, loop.time()
        while self.taken < due and loop.time() - since < LONGEST_REST:
            await asyncio.sleep(TAKEN_PAUSE)
            if self.taken != taken:
                taken, since = self.taken, loop.time()

    def discard(self) -> None:
        """Discard all later output, so that writing neither fails nor blocks on the host."""
        self.stdout.close()
        self.stderr.close()

    def abort(self) -> None:
        """Close the channel at once, whatever is still to be sent or received."""
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
                return b""  # the line is incomplete: the whole line is needed
            if end < 0:
                del held[
                    : at + len(self._token)
                ]  # a shell that begins a command prints a shorter line, so this is noise
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
                rest  # the token without words is that of stderr: a startup file has joined the two channels
            )
        if len(held) > LONGEST_NOISE:
            del held[:-LONGEST_NOISE]
        return b""

    def _say(self, words: list[str]) -> None:
        if not self.said.done():
            self.said.set_result(words)
        self.ready.set()
        if self.window is not None and self._channel is not None:
            # When the server started the login shell, it granted its whole window. asyncssh has no other way
            # to limit the window.
            self._channel._send_window = min(self._channel._send_window, self.window)

    def _taken(self, count: int) -> None:
        self.taken += count
        if self._paused and self.arrived - self.taken < self._high_water // 4 and self._channel is not None:
            # Unless it is paused meanwhile, asyncssh passes on all the data that it holds; with the first
            # piece it grants the server a whole window again. Pausing half-way each time would make asyncssh
            # hold more and more data.
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
    """Format the last 300 characters that a login shell printed, for a message; without control characters."""
    if not noise:
        return ""
    shown = "".join(char if char.isprintable() else " " for char in noise[-300:]).strip()
    return f"; it printed: {shown}"


def _nothing() -> None:
    pass


def new_token() -> str:
    """Return a random word that no output contains by accident."""
    return "anyshell" + secrets.token_hex(16)
