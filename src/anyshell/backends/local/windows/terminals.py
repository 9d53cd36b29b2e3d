"""Terminals of Windows, as anyio byte streams."""

from __future__ import annotations

import asyncio
import codecs
import sys
import threading
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

assert sys.platform == "win32"

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream

from ...._exceptions import BackendError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ...._types import Terminal, TerminalKind
    from .pseudoconsole import OutputReceiver, Pseudoconsole

MOST_HELD = 64 * 1024 * 1024
"""Bytes of a terminal's output that wait for their reader; beyond that the command fails with the reason, since pywinpty
reads on and the program cannot be made to wait."""

QUIET = 0.2
"""Seconds without output, after the program's end, after which a terminal counts as ended: ConPTY may never report its
end."""

DRAIN = 1.0
"""Seconds after the program's end until a terminal counts as ended, even if more output arrives."""

LAST_WORDS = 5.0
"""Seconds for WinPTY to show the last output of an ended program; then the terminal counts as ended. WinPTY's agent reports
the end of output, and is late only on a busy machine."""

CLOSE_SECONDS = 0.5
"""Seconds to wait for the closing of a terminal; then the closing goes on in the background."""

_LOOK_AGAIN = 0.01
"""Seconds between two checks whether a terminal is closed."""

READS_PER_TURN = 4
"""Pieces of a terminal's output that are returned in a row; then other tasks get a turn."""

_INTERRUPT = "\x03"

_END_OF_INPUT = "\x1a\r"
"""End-of-file for a program that reads lines from a console, at the beginning of a line: ^Z and Enter."""


class TerminalReceiveStream(ByteReceiveStream):
    """The output of a terminal. The stream ends with the terminal, or soon after the terminal's program: see `drained`."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        # Two threads use the next five attributes: they are changed under the lock.
        self._pieces: deque[bytes] = deque()
        self._held = 0
        self._total = 0
        self._wanted = True
        self._overflowed = False
        self._arrived = asyncio.Event()
        self._over = asyncio.Event()
        self._on_end: Callable[[], object] | None = None
        self._console: Pseudoconsole | None = None
        self._gone = False
        self._closed = False
        self._reads = 0

    @classmethod
    async def start(
        cls, start: Callable[[OutputReceiver], Awaitable[Pseudoconsole]]
    ) -> TerminalReceiveStream:
        """Start a program on a terminal of its own by `start`, a call of `Pseudoconsole.start` with the given reader."""
        stream = cls()
        stream._console = await start(stream)
        return stream

    @property
    def pid(self) -> int:
        """The program's pid."""
        return self._at.pid

    @property
    def kind(self) -> TerminalKind:
        """The kind of the terminal."""
        return self._at.kind

    @property
    def keyboard(self) -> TerminalSendStream:
        """A new stream that types on the terminal."""
        return TerminalSendStream(self._at)

    async def resize(self, terminal: Terminal) -> None:
        """Resize the terminal. Does nothing if the terminal is gone."""
        await self._at.resize(terminal)

    def feed(self, data: bytes) -> None:
        """Buffer output. Called by the reading thread."""
        with self._lock:
            self._total += len(data)
            if not self._wanted or self._overflowed:
                return
            if self._held + len(data) > MOST_HELD:
                self._overflowed = True
            else:
                self._held += len(data)
                self._pieces.append(data)
        self._tell(self._arrived.set)

    def end(self) -> None:
        """Record the end of output. Called by the reading thread."""
        self._tell(self._on_reader_ended)

    @property
    def ended(self) -> bool:
        """Whether the stream waits for no more output."""
        return self._over.is_set()

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """Return the next bytes, at most `max_bytes`.

        Raises:
            anyio.EndOfStream: The terminal has ended.
            anyio.ClosedResourceError: This end is closed.
            BackendError: More than `MOST_HELD` unread bytes had arrived; the bytes before are returned first.
        """
        while True:
            if self._reads >= READS_PER_TURN:
                self._reads = 0
                await asyncio.sleep(0)  # before any output is taken: a cancellation here must lose no output
            if self._closed:
                raise anyio.ClosedResourceError
            if data := self._take(max_bytes):
                self._reads += 1
                return data
            if self._overflowed:
                raise BackendError(
                    f"more than {MOST_HELD:,} bytes that a terminal has shown were not taken, and Windows has no way "
                    "to have its program wait: take them faster, or print less"
                )
            if self.ended:
                raise anyio.EndOfStream
            self._reads = 0
            self._arrived.clear()  # output that arrives meanwhile sets the event later, in this thread
            await self._arrived.wait()

    async def drained(self) -> None:
        """Wait, after the program's end, until the terminal has ended or no more output arrives; then end the stream.

        Later output of a child in the background is never received; `discard` reads and drops it.
        """
        # One turn of the loop is one wait of at most `quiet` seconds. A turn without new output ends the loop.
        tells = self._console is not None and self._console.kind == "winpty"
        quiet, drain = (LAST_WORDS, LAST_WORDS) if tells else (QUIET, DRAIN)
        give_up = time.monotonic() + drain
        seen = -1
        while not self.ended and seen != self._total and (left := give_up - time.monotonic()) > 0:
            seen = self._total
            with suppress(TimeoutError):
                async with asyncio.timeout(min(quiet, left)):
                    await self._over.wait()
        self._end()

    def discard(self, on_end: Callable[[], object]) -> None:
        """Throw away all further output; at the terminal's end, close and call `on_end`."""
        self._on_end = on_end
        self._throw_away()
        if self._gone:
            self.close()

    def close(self) -> None:
        """Close the terminal. Never waits."""
        self._closed = True
        self._throw_away()
        self._end()
        if self._console is not None:
            self._console.close()
        if self._on_end is not None:
            on_end, self._on_end = self._on_end, None
            on_end()

    async def aclose(self) -> None:
        """Close the terminal, and wait at most `CLOSE_SECONDS` until all its resources are released."""
        self.close()
        give_up = time.monotonic() + CLOSE_SECONDS
        # Another thread sets `closed`. That thread may outlive the event loop, and so cannot set an event of the loop.
        while self._console is not None and not self._console.closed and time.monotonic() < give_up:  # noqa: ASYNC110 - see above
            await asyncio.sleep(_LOOK_AGAIN)

    @property
    def _at(self) -> Pseudoconsole:
        assert self._console is not None, "it was started"
        return self._console

    def _take(self, max_bytes: int) -> bytes:
        with self._lock:
            if not self._pieces:
                return b""
            data = self._pieces.popleft()
            if len(data) > max_bytes:
                self._pieces.appendleft(data[max_bytes:])
                data = data[:max_bytes]
            self._held -= len(data)
            return data

    def _throw_away(self) -> None:
        with self._lock:
            self._wanted = False
            self._pieces.clear()
            self._held = 0

    def _on_reader_ended(self) -> None:
        self._gone = True
        self._end()
        if self._on_end is not None:
            self.close()

    def _end(self) -> None:
        self._over.set()
        self._arrived.set()

    def _tell(self, call: Callable[[], object]) -> None:
        with suppress(RuntimeError):  # the event loop is closed: no task waits
            self._loop.call_soon_threadsafe(call)


class TerminalSendStream(ByteSendStream):
    """The keyboard input of a terminal.

    A line feed is typed as Enter, a carriage return. The key for a line feed is Ctrl-J, which ends no line on Windows.
    """

    def __init__(self, console: Pseudoconsole) -> None:
        self._console = console
        # A character may be split between two sends.
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._returned = False  # a line feed after a carriage return is not a second Enter
        self._begun = False
        self._ended = False
        self._gone = False

    async def send(self, item: bytes) -> None:
        """Type all of `item`. A console accepts input before the program reads.

        Raises:
            anyio.BrokenResourceError: The program has ended, or the terminal is gone.
            anyio.ClosedResourceError: The terminal is closed.
        """
        text = self._decoder.decode(item)
        if not text:
            return
        if self._returned and text[0] == "\n":
            text = text[1:]
        self._returned = text[-1:] == "\r"
        text = text.replace("\r\n", "\r").replace("\n", "\r")
        if text and not text.startswith("\x1b"):  # escape sequences are keys or answers, not part of a line
            self._begun = not text.endswith(("\r", _INTERRUPT))
        await self._type(text)

    async def interrupt(self) -> None:
        """Press ^C. The program decides whether to end."""
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await self._type(_INTERRUPT)

    async def aclose(self) -> None:
        """Type ^Z and Enter, only once. On a line that has been begun, type Enter first: ^Z counts only at a line's start.

        Later input still reaches the program, such as the answer to a query that the program sends to the terminal.
        """
        if self._ended:
            return
        self._ended = True
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await self._type(f"\r{_END_OF_INPUT}" if self._begun else _END_OF_INPUT)

    def let_go(self) -> None:
        """Refuse all further input, since the program has ended."""
        self._gone = True

    def close(self) -> None:
        """Refuse all further input. Never waits."""
        self._gone = True

    async def _type(self, text: str) -> None:
        if self._gone:
            raise anyio.BrokenResourceError
        if text:
            await self._console.write(text)
