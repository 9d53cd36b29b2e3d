"""Terminals of Windows, as the byte streams that the rest of anyshell knows."""

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
"""Bytes that a terminal has shown and that wait for their reader; with one more the command fails and says so, since
pywinpty reads on and the program cannot be made to wait."""

QUIET = 0.2
"""Seconds without output, after the program's end, after which a terminal counts as ended: ConPTY may never say so."""

DRAIN = 1.0
"""Seconds after the program's end in which a terminal counts as ended, although output comes."""

LAST_WORDS = 5.0
"""Seconds for WinPTY to show the last output of an ended program. Its agent says when; only a busy machine makes it late."""

CLOSE_SECONDS = 0.5
"""Seconds for which the closing of a terminal is waited for; then it goes on behind."""

_LOOK_AGAIN = 0.01
"""Seconds between two looks whether a terminal is closed."""

READS_PER_TURN = 4
"""Pieces of a terminal's output in a row before other tasks get a turn."""

_INTERRUPT = "\x03"

_END_OF_INPUT = "\x1a\r"
"""End-of-file for a program that reads lines from a console, at the beginning of a line: ^Z and Enter."""


class TerminalReceiveStream(ByteReceiveStream):
    """The output of a terminal. It ends with the terminal, or soon after its program: see `drained`."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._pieces: deque[bytes] = deque()  # and what follows: under the lock, for two threads use it
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
        """Start a program on a terminal of its own, which `start` does for a reader: see `Pseudoconsole.start`."""
        stream = cls()
        stream._console = await start(stream)
        return stream

    @property
    def pid(self) -> int:
        """The program's."""
        return self._at.pid

    @property
    def kind(self) -> TerminalKind:
        """The kind of the terminal."""
        return self._at.kind

    @property
    def keyboard(self) -> TerminalSendStream:
        """Something that types on it."""
        return TerminalSendStream(self._at)

    async def resize(self, terminal: Terminal) -> None:
        """Give it another size. Silent when it is gone."""
        await self._at.resize(terminal)

    def feed(self, data: bytes) -> None:
        """Take what has come. For the thread that reads."""
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
        """Take note that nothing more will come. For the thread that reads."""
        self._tell(self._on_reader_ended)

    @property
    def ended(self) -> bool:
        """Whether no more is waited for."""
        return self._over.is_set()

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """Return the next bytes, at most `max_bytes` of them.

        Raises:
            anyio.EndOfStream: The terminal has ended.
            anyio.ClosedResourceError: This end is closed.
            BackendError: More than `MOST_HELD` have come since the last call.
        """
        while True:
            if self._reads >= READS_PER_TURN:
                self._reads = 0
                await asyncio.sleep(0)  # with nothing in hand: to be cancelled here must lose no output
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
            self._arrived.clear()  # what comes meanwhile sets it later, in this thread
            await self._arrived.wait()

    async def drained(self) -> None:
        """After the program's end: wait for the terminal's, or until nothing comes any more, and end the stream.

        What a child in the background prints after that is not received, unless it is discarded.
        """
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
        """From now on throw away whatever comes; close at the terminal's end and call `on_end`."""
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
        """Close the terminal, and wait until everything is given back, for `CLOSE_SECONDS` at most."""
        self.close()
        give_up = time.monotonic() + CLOSE_SECONDS
        # Another thread sets it, which may outlive the event loop, so that it can set no event of that.
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
    """The input of a terminal, which is typed there.

    A line feed is typed as Enter, which is a return: as a key it is Ctrl-J, and ends no line on Windows.
    """

    def __init__(self, console: Pseudoconsole) -> None:
        self._console = console
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")  # a character may come in pieces
        self._returned = False  # a line feed after a return is no other Enter
        self._begun = False
        self._ended = False
        self._gone = False

    async def send(self, item: bytes) -> None:
        """Type all of `item`. A console takes input before it is read.

        Raises:
            anyio.BrokenResourceError: The program has ended, or the terminal is gone.
            anyio.ClosedResourceError: It is closed.
        """
        text = self._decoder.decode(item)
        if not text:
            return
        if self._returned and text[0] == "\n":
            text = text[1:]
        self._returned = text[-1:] == "\r"
        text = text.replace("\r\n", "\r").replace("\n", "\r")
        if text and not text.startswith("\x1b"):  # which keys begin with, and answers, that are in no line
            self._begun = not text.endswith(("\r", _INTERRUPT))
        await self._type(text)

    async def interrupt(self) -> None:
        """Press ^C, which is for the program to heed."""
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await self._type(_INTERRUPT)

    async def aclose(self) -> None:
        """Type ^Z and Enter, once; on a line that has been begun, Enter before, without which it would be a part of that.

        What is typed after that arrives all the same, such as an answer to what the program asks the terminal.
        """
        if self._ended:
            return
        self._ended = True
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await self._type(f"\r{_END_OF_INPUT}" if self._begun else _END_OF_INPUT)

    def let_go(self) -> None:
        """The program has ended: nothing can be typed any more."""
        self._gone = True

    def close(self) -> None:
        """Type nothing any more. Never waits."""
        self._gone = True

    async def _type(self, text: str) -> None:
        if self._gone:
            raise anyio.BrokenResourceError
        if text:
            await self._console.write(text)
