"""Pipes on POSIX, as anyio byte streams."""

from __future__ import annotations

import asyncio
import errno
import os
import select
import sys
from typing import TYPE_CHECKING

assert sys.platform != "win32"

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream

if TYPE_CHECKING:
    from collections.abc import Callable

READS_PER_TURN = 4
"""Reads of a command's output in a row; then other tasks get a turn, so that `yes` starves no task."""

WRITE_SIZE = 64 * 1024
"""Bytes written to a command's stdin at once on POSIX; longer input is written in several calls."""


class PipeReceiveStream(ByteReceiveStream):
    """The reading end of a pipe.

    Reads without the event loop while the pipe has bytes: at a gigabyte a second, the event loop would cost more than the
    reads.
    """

    def __init__(self, fd: int, *, begins_again: bool = False) -> None:
        """Take ownership of a descriptor.

        Args:
            fd: The reading end.
            begins_again: Whether new writers may open the pipe after its end, as in a session.
        """
        os.set_blocking(fd, False)
        self._fd = fd
        self._begins_again = begins_again
        self._loop = asyncio.get_running_loop()
        self._readable: asyncio.Future[None] | None = None
        self._watched = False
        self._reads = 0
        self.ended = False
        """Whether every writer is known to have closed its end."""

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """Return the next bytes, at most `max_bytes`.

        Raises:
            anyio.EndOfStream: Every writer has closed its end.
            anyio.ClosedResourceError: This end is closed.
        """
        while True:
            if self._reads >= READS_PER_TURN:
                self._reads = 0
                await asyncio.sleep(0)  # before any output is read: a cancellation here must lose no output
            if self._fd < 0:
                raise anyio.ClosedResourceError
            try:
                data = self._read(max_bytes)
            except BlockingIOError:
                await self._wait_readable()
                continue
            except InterruptedError:
                continue
            if not data:
                self.ended = True
                if not self._begins_again:  # otherwise done when the event loop reports the end again
                    self._unwatch()
                raise anyio.EndOfStream
            self._reads += 1
            return data

    def _read(self, max_bytes: int) -> bytes:
        return os.read(self._fd, max_bytes)

    def let_go(self) -> None:
        """Do nothing at the program's end; the subclass for terminals closes the program's side."""

    def look_again(self) -> None:
        """Wake a waiting task for another read, because a writer has closed its end."""
        if self._readable is not None and not self._readable.done():
            self._readable.set_result(None)

    async def wait_closed_by_writers(self) -> None:
        """Wait for the end of the stream. Only for a pipe that is never written to."""
        while not self.at_end():
            await self._wait_readable()

    def at_end(self) -> bool:
        """Whether every writer has closed its end. Only for a pipe that is never written to."""
        if self._fd < 0 or self.ended:
            return True
        while True:
            try:
                if not self._read(4096):
                    self.ended = True
                    self._unwatch()
                    return True
            except BlockingIOError:
                return False
            except InterruptedError:
                continue

    @property
    def held(self) -> bool:
        """Whether a writer has its end open, even if unread bytes remain."""
        if self._fd < 0 or self.ended:
            return False
        poll = select.poll()
        poll.register(self._fd, 0)  # a hang-up is always reported
        return not poll.poll(0)

    def discard(self, on_end: Callable[[], object]) -> None:
        """Read all further bytes and throw them away; at end-of-file, close and call `on_end`."""

        def drain() -> None:
            try:
                for _ in range(READS_PER_TURN):
                    if not self._read(65536):
                        self._close()
                        on_end()
                        return
            except (BlockingIOError, InterruptedError):
                pass

        self._unwatch()
        self._loop.add_reader(self._fd, drain)
        self._watched = True

    async def _wait_readable(self) -> None:
        if not self._watched:
            self._loop.add_reader(self._fd, self._on_readable)
            self._watched = True
        self._readable = self._loop.create_future()
        try:
            await self._readable
        finally:
            self._readable = None
            self._reads = 0

    def _on_readable(self) -> None:
        if self._readable is None:
            self._unwatch()  # the reading task is slow: otherwise the event loop would spin until the task reads again
        elif not self._readable.done():
            self._readable.set_result(None)

    def _unwatch(self) -> None:
        if self._watched:
            self._watched = False
            self._loop.remove_reader(self._fd)

    def _close(self) -> None:
        if self._fd >= 0:
            self._unwatch()
            os.close(self._fd)
            self._fd = -1
            if self._readable is not None and not self._readable.done():
                self._readable.set_result(None)

    def close(self) -> None:
        """Close this end; a writer then gets SIGPIPE. Never waits."""
        self._close()

    async def aclose(self) -> None:
        """Close this end; a writer then gets SIGPIPE."""
        self._close()


class PipeSendStream(ByteSendStream):
    """The writing end of a pipe. Closing this end is end-of-file for the reader."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self._loop = asyncio.get_running_loop()
        self._writable: asyncio.Future[None] | None = None
        self._identity: tuple[int, int] | None = None

    @property
    def identity(self) -> tuple[int, int] | None:
        """The device and inode of the pipe, the same at both ends; ``None`` when this end is closed."""
        if self._fd < 0:
            return None
        if self._identity is None:
            found = os.fstat(self._fd)
            self._identity = found.st_dev, found.st_ino
        return self._identity

    async def send(self, item: bytes) -> None:
        """Write all of `item`, as fast as the reader reads.

        Raises:
            anyio.BrokenResourceError: The reader is gone.
            anyio.ClosedResourceError: This end is closed.
        """
        view = memoryview(item)
        while view:
            if self._fd < 0:
                raise anyio.ClosedResourceError
            try:
                view = view[self._write(view[:WRITE_SIZE]) :]
            except BlockingIOError:
                await self._wait_writable()
            except InterruptedError:
                continue
            except OSError as error:
                if error.errno in (errno.EPIPE, errno.ECONNRESET):
                    raise anyio.BrokenResourceError from error
                raise

    def _write(self, data: memoryview) -> int:
        return os.write(self._fd, data)

    async def _wait_writable(self) -> None:
        self._writable = self._loop.create_future()
        self._loop.add_writer(self._fd, self._on_writable)
        try:
            await self._writable
        finally:
            self._writable = None
            if self._fd >= 0:
                self._loop.remove_writer(self._fd)

    def _on_writable(self) -> None:
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)

    def close(self) -> None:
        """Close this end. Never waits."""
        if self._fd >= 0:
            if self._writable is not None:
                self._loop.remove_writer(self._fd)
            os.close(self._fd)
            self._fd = -1
            self._on_writable()

    async def aclose(self) -> None:
        """Close this end."""
        self.close()
