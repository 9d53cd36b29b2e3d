"""Pipes on Windows, as the byte streams that the rest of anyshell knows.

They are named pipes, which alone can be read and written without blocking a thread; the maker of one keeps an end, and a
program gets the other. The event loop must be asyncio's Proactor loop, which every program has that does not choose.
"""

from __future__ import annotations

import asyncio
import msvcrt
import os
import sys
from asyncio import windows_utils
from collections import deque
from typing import TYPE_CHECKING, TypeVar

assert sys.platform == "win32"

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

Stream = TypeVar("Stream", "PipeReceiveStream", "PipeSendStream")

PIPE_SIZE = 64 * 1024
"""Bytes that a pipe holds on Windows; a program that has printed more waits until they are read."""

READ_AHEAD = 64 * 1024
"""Bytes of output that are read ahead on Windows; two reads of as many may be under way by then."""

WRITE_SIZE = 64 * 1024
"""Bytes written to a command's stdin at once."""


def pipe_to_read() -> tuple[windows_utils.PipeHandle, int]:
    """Make a pipe: our end, which is read, and a descriptor that a program can be given to print to.

    Raises:
        OSError: There is no memory for it.
    """
    ours, theirs = windows_utils.pipe(overlapped=(True, False), bufsize=PIPE_SIZE)
    return windows_utils.PipeHandle(ours), msvcrt.open_osfhandle(theirs, 0)


def pipe_to_write() -> tuple[windows_utils.PipeHandle, int]:
    """Make a pipe: our end, which is written, and a descriptor that a program can be given to read.

    It goes both ways, since only a read tells at once that the other end is closed.

    Raises:
        OSError: There is no memory for it.
    """
    theirs, ours = windows_utils.pipe(overlapped=(False, True), duplex=True, bufsize=PIPE_SIZE)
    return windows_utils.PipeHandle(ours), msvcrt.open_osfhandle(theirs, os.O_RDONLY)


class PipeReceiveStream(ByteReceiveStream, asyncio.Protocol):
    """The reading end of a pipe. Made by `connect`.

    Reading goes on by itself until `READ_AHEAD` bytes are held. So a receive that is cancelled loses nothing.
    """

    def __init__(self) -> None:
        self._transport: asyncio.ReadTransport | None = None
        self._pieces: deque[bytes] = deque()
        self._held = 0
        self._arrived: asyncio.Future[None] | None = None
        self._on_end: Callable[[], object] | None = None
        self._closed = False
        self.ended = False
        """Whether every writer is known to have closed its end."""

    @classmethod
    async def connect(cls, pipe: windows_utils.PipeHandle) -> PipeReceiveStream:
        """Read a pipe, which is this stream's own from now on, in any case."""
        return await _connected(cls(), pipe, asyncio.get_running_loop().connect_read_pipe)

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """Return the next bytes, at most `max_bytes` of them.

        Raises:
            anyio.EndOfStream: Every writer has closed its end.
            anyio.ClosedResourceError: This end is closed.
        """
        while True:
            if self._closed:
                raise anyio.ClosedResourceError
            if self._pieces:
                return self._take(max_bytes)
            if self.ended:
                raise anyio.EndOfStream
            self._arrived = asyncio.get_running_loop().create_future()
            try:
                await self._arrived
            finally:
                self._arrived = None

    def _take(self, max_bytes: int) -> bytes:
        piece = self._pieces.popleft()
        if len(piece) > max_bytes:
            self._pieces.appendleft(piece[max_bytes:])
            piece = piece[:max_bytes]
        self._held -= len(piece)
        if self._held < READ_AHEAD and self._transport is not None:
            self._transport.resume_reading()
        return piece

    def discard(self, on_end: Callable[[], object]) -> None:
        """From now on read and throw away whatever comes; close at the end and call `on_end`."""
        self._pieces.clear()
        self._held = 0
        if self.ended or self._closed or self._transport is None:
            self.close()
            on_end()
            return
        self._on_end = on_end
        self._transport.resume_reading()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take what carries the bytes here. For the event loop alone, and so are the next three."""
        assert isinstance(transport, asyncio.ReadTransport)
        self._transport = transport
        if self._closed:
            transport.close()

    def data_received(self, data: bytes) -> None:
        """Hold what has come."""
        if self._on_end is not None or self._closed:
            return
        self._pieces.append(data)
        self._held += len(data)
        if self._held >= READ_AHEAD and self._transport is not None:
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> None:
        """Know that every writer has closed its end."""
        self.ended = True

    def connection_lost(self, exc: Exception | None) -> None:
        """Know that nothing more will come: because of the end, of an error, or since this was closed."""
        self._transport = None
        self.ended = True
        self._wake()
        if self._on_end is not None:
            on_end, self._on_end = self._on_end, None
            on_end()

    def _wake(self) -> None:
        if self._arrived is not None and not self._arrived.done():
            self._arrived.set_result(None)

    def close(self) -> None:
        """Close this end; a writer then fails. Never waits."""
        self._closed = True
        self._pieces.clear()
        if self._transport is not None:
            self._transport.close()
        self._wake()

    async def aclose(self) -> None:
        """Close this end; a writer then fails."""
        self.close()


class PipeSendStream(ByteSendStream, asyncio.BaseProtocol):
    """The writing end of a pipe. Closing it is the reader's end-of-file. Made by `connect`."""

    def __init__(self) -> None:
        self._transport: asyncio.WriteTransport | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._closed = False
        self._broken = False

    @classmethod
    async def connect(cls, pipe: windows_utils.PipeHandle) -> PipeSendStream:
        """Write a pipe, which is this stream's own from now on, in any case."""
        return await _connected(cls(), pipe, asyncio.get_running_loop().connect_write_pipe)

    async def send(self, item: bytes) -> None:
        """Write all of `item`, as fast as it is read.

        Raises:
            anyio.BrokenResourceError: The reader is gone.
            anyio.ClosedResourceError: This end is closed.
        """
        for at in range(0, len(item), WRITE_SIZE):
            self._check()
            assert self._transport is not None
            self._transport.write(item[at : at + WRITE_SIZE])
            await self._writable.wait()
        self._check()

    def _check(self) -> None:
        if self._closed:
            raise anyio.ClosedResourceError
        if self._broken or self._transport is None:
            raise anyio.BrokenResourceError

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take what carries the bytes. For the event loop alone, and so are the next three."""
        assert isinstance(transport, asyncio.WriteTransport)
        transport.set_write_buffer_limits(0)  # what is written waits here for its reader alone
        self._transport = transport
        if self._closed:
            transport.abort()

    def pause_writing(self) -> None:
        """Wait: what was written last is not read yet."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Go on."""
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """Know that the reader is gone."""
        self._transport = None
        self._broken = True
        self._writable.set()

    def close(self) -> None:
        """Close this end. What is not read by now is not written any more. Never waits."""
        if not self._closed:
            self._closed = True
            if self._transport is not None:
                self._transport.abort()
            self._writable.set()

    async def aclose(self) -> None:
        """Close this end. What was sent has been read, or is in the pipe."""
        self.close()


async def _connected(
    stream: Stream, pipe: windows_utils.PipeHandle, connect: Callable[..., Awaitable[object]]
) -> Stream:
    try:
        await connect(lambda: stream, pipe)
    except BaseException:
        stream.close()
        pipe.close()
        raise
    return stream
