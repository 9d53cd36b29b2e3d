"""Pipes on Windows, as anyio byte streams.

All are named pipes, because only named pipes can be read and written without blocking a thread. The creator of a pipe keeps
one end, and a program gets the other. The event loop must be asyncio's Proactor loop, the default on Windows.
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
"""Bytes that a pipe holds on Windows; a program that prints more waits until some are read."""

READ_AHEAD = 64 * 1024
"""Bytes of output that are read ahead on Windows; then reading pauses, while up to two more reads of as many may be under
way."""

WRITE_SIZE = 64 * 1024
"""Bytes written to a command's stdin at once on Windows; longer input is written in several calls."""


def pipe_to_read() -> tuple[windows_utils.PipeHandle, int]:
    """Make a pipe; return our reading end, and a descriptor of the writing end for a program.

    Raises:
        OSError: Out of memory.
    """
    ours, theirs = windows_utils.pipe(overlapped=(True, False), bufsize=PIPE_SIZE)
    return windows_utils.PipeHandle(ours), msvcrt.open_osfhandle(theirs, 0)


def pipe_to_write() -> tuple[windows_utils.PipeHandle, int]:
    """Make a pipe; return our writing end, and a descriptor of the reading end for a program.

    The pipe is duplex: only a pending read tells at once that the other end is closed.

    Raises:
        OSError: Out of memory.
    """
    theirs, ours = windows_utils.pipe(overlapped=(False, True), duplex=True, bufsize=PIPE_SIZE)
    return windows_utils.PipeHandle(ours), msvcrt.open_osfhandle(theirs, os.O_RDONLY)


class PipeReceiveStream(ByteReceiveStream, asyncio.Protocol):
    """The reading end of a pipe. Made by `connect`.

    The event loop reads ahead until `READ_AHEAD` bytes are buffered. So a cancelled `receive` loses no bytes.
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
        """Make a stream that reads a pipe. The stream owns the pipe; on failure the pipe is closed."""
        return await _connected(cls(), pipe, asyncio.get_running_loop().connect_read_pipe)

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """Return the next bytes, at most `max_bytes`.

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
        """Read all further bytes and throw them away; at end-of-file, close and call `on_end`."""
        self._pieces.clear()
        self._held = 0
        if self.ended or self._closed or self._transport is None:
            self.close()
            on_end()
            return
        self._on_end = on_end
        self._transport.resume_reading()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport. Only the event loop calls this method and the next three."""
        assert isinstance(transport, asyncio.ReadTransport)
        self._transport = transport
        if self._closed:
            transport.close()

    def data_received(self, data: bytes) -> None:
        """Buffer received bytes; pause reading at `READ_AHEAD` bytes."""
        if self._on_end is not None or self._closed:
            return
        self._pieces.append(data)
        self._held += len(data)
        if self._held >= READ_AHEAD and self._transport is not None:
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> None:
        """Record that every writer has closed its end."""
        self.ended = True

    def connection_lost(self, exc: Exception | None) -> None:
        """Record that no more bytes will arrive: because of end-of-file, an error, or a close of this end."""
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
        """Close this end; writers then get an error. Never waits."""
        self._closed = True
        self._pieces.clear()
        if self._transport is not None:
            self._transport.close()
        self._wake()

    async def aclose(self) -> None:
        """Close this end; writers then get an error."""
        self.close()


class PipeSendStream(ByteSendStream, asyncio.BaseProtocol):
    """The writing end of a pipe. Closing this end is end-of-file for the reader. Made by `connect`."""

    def __init__(self) -> None:
        self._transport: asyncio.WriteTransport | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._closed = False
        self._broken = False

    @classmethod
    async def connect(cls, pipe: windows_utils.PipeHandle) -> PipeSendStream:
        """Make a stream that writes to a pipe. The stream owns the pipe; on failure the pipe is closed."""
        return await _connected(cls(), pipe, asyncio.get_running_loop().connect_write_pipe)

    async def send(self, item: bytes) -> None:
        """Write all of `item`, as fast as the reader reads.

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
        """Keep the transport. Only the event loop calls this method and the next three."""
        assert isinstance(transport, asyncio.WriteTransport)
        transport.set_write_buffer_limits(0)  # `send` waits until the pipe has taken all bytes
        self._transport = transport
        if self._closed:
            transport.abort()

    def pause_writing(self) -> None:
        """Make `send` wait: the pipe has not yet taken the last bytes."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Let `send` continue."""
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """Record that the reader is gone."""
        self._transport = None
        self._broken = True
        self._writable.set()

    def close(self) -> None:
        """Close this end. Bytes that the pipe has not yet taken are dropped. Never waits."""
        if not self._closed:
            self._closed = True
            if self._transport is not None:
                self._transport.abort()
            self._writable.set()

    async def aclose(self) -> None:
        """Close this end. Bytes of a finished `send` have been read, or are in the pipe."""
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
