"""Access to this program's own stdin, stdout and stderr that never blocks the event loop.

The parent process and the neighbours in a pipeline share the descriptors. Non-blocking mode would change a descriptor for
all of these processes, so the descriptors stay blocking. Moreover, epoll takes no regular files. So each descriptor has its
own thread for blocking calls. The thread is never joined: a write that blocks for ever must not keep the program alive.
"""

from __future__ import annotations

import asyncio
import errno
import os
import queue
import select
import stat
import sys
import threading
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from ..._waits import threads_as_os_errors

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator, Callable

T = TypeVar("T")

READ_SIZE = 64 * 1024
"""Bytes of stdin that one read takes at most."""

PATIENCE = 0.3
"""Seconds for a reader to take our output, once the command is to end; after that the rest is dropped."""


class DescriptorWriter:
    """A writer to a descriptor. Data that cannot be written is dropped, and the attributes report the loss.

    Attributes:
        error: The error of a failed write, ``BrokenPipeError`` when the reader is gone; ``None`` without an error.
        given_up: Whether the reader was too slow after `hurry`, and data was dropped.
    """

    def __init__(self, fd: int) -> None:
        self.error: OSError | None = None
        self.given_up = False
        self._write_all = _write_all(fd)
        self._thread = _Thread[None](f"writer of {fd}")
        self._writing: asyncio.Future[None] | None = None
        self._hurried = False

    async def write(self, data: bytes) -> None:
        """Write all data, however long the write takes; after `hurry`, give up on the write after `PATIENCE`."""
        if not data or self.error is not None or self.given_up:
            return
        self._writing = self._thread.start(partial(self._write_all, data))
        self._bound()
        try:
            await self._writing
        except OSError as error:
            self.error = error
        finally:
            self._writing = None

    def hurry(self) -> None:
        """From now on, wait for a slow reader no longer than `PATIENCE`."""
        if not self._hurried:
            self._hurried = True
            self._bound()

    def close(self) -> None:
        """End the thread, unless a call blocks the thread. The descriptor stays open."""
        self._thread.close()

    def _bound(self) -> None:
        if self._hurried and self._writing is not None:
            asyncio.get_running_loop().call_later(PATIENCE, self._give_up, self._writing)

    def _give_up(self, writing: asyncio.Future[None]) -> None:
        if not writing.done():
            self.given_up = True
            writing.set_result(None)


class DescriptorReader:
    """A reader of a descriptor that reads one piece for each request, and never reads ahead.

    Attributes:
        error: The error that ended reading before end-of-file; ``None`` without an error.
    """

    def __init__(self, fd: int) -> None:
        self.error: OSError | None = None
        self._fd = fd
        self._thread = _Thread[bytes](f"reader of {fd}")

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            while data := await self._thread.start(partial(_read, self._fd)):
                yield data
        except OSError as error:
            self.error = error

    def close(self) -> None:
        """End the thread, unless a call blocks the thread. The descriptor stays open."""
        self._thread.close()


async def lines(pieces: AsyncIterable[bytes], longest: int) -> AsyncIterator[bytes]:
    """Yield the non-blank lines of the pieces. A line longer than `longest` bytes is cut to `longest` + 1 bytes."""
    held = bytearray()
    async for piece in pieces:
        *ends, rest = piece.split(b"\n")
        for end in ends:
            held += end[: longest + 1 - len(held)]
            if held and not held.isspace():
                yield bytes(held)
            held.clear()
        held += rest[: longest + 1 - len(held)]
    if held and not held.isspace():
        yield bytes(held)


class _Thread(Generic[T]):
    """A thread that makes blocking calls one after the other, and is never joined."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop = asyncio.get_running_loop()
        self._calls: queue.SimpleQueue[tuple[asyncio.Future[T], Callable[[], T]] | None] | None = None

    def start(self, call: Callable[[], T]) -> asyncio.Future[T]:
        """Queue a call and return its future. The future gets the call's `OSError`, or that of a thread that cannot start."""
        future: asyncio.Future[T] = self._loop.create_future()
        if self._calls is None:
            calls: queue.SimpleQueue[tuple[asyncio.Future[T], Callable[[], T]] | None] = queue.SimpleQueue()
            # The interpreter does not wait for a daemon thread. A worker thread of asyncio or anyio would be joined.
            thread = threading.Thread(target=self._serve, args=(calls,), name=self._name, daemon=True)
            try:
                with threads_as_os_errors():
                    thread.start()
            except OSError as error:
                future.set_exception(error)
                return future
            self._calls = calls
        self._calls.put((future, call))
        return future

    def close(self) -> None:
        """Let the thread end after the queued calls."""
        if self._calls is not None:
            self._calls.put(None)

    def _serve(self, calls: queue.SimpleQueue[tuple[asyncio.Future[T], Callable[[], T]] | None]) -> None:
        while (job := calls.get()) is not None:
            future, call = job
            try:
                settle = partial(_set_result, future, call())
            except OSError as error:
                settle = partial(_set_error, future, error)
            try:
                self._loop.call_soon_threadsafe(settle)
            except RuntimeError:
                return  # the loop is closed: no code waits for the result any more


def _set_result(future: asyncio.Future[T], result: T) -> None:
    if not future.done():
        future.set_result(result)


def _set_error(future: asyncio.Future[T], error: OSError) -> None:
    if not future.done():
        future.set_exception(error)


def _write_all(fd: int) -> Callable[[bytes], None]:
    """Return the function that writes data completely to a descriptor."""
    if sys.platform == "win32":
        from ...output import Page, TextDecoder
        from .handles import code_page, is_console

        if is_console(fd):
            # Write text, which the console shows correctly under every code page.
            stream = sys.stderr if fd == sys.stderr.fileno() else sys.stdout
            text = TextDecoder(Page.of(code_page()))

            def write_to_console(data: bytes) -> None:
                stream.write(text.decode(data))
                stream.flush()

            return write_to_console
    return partial(_write_bytes, fd)


def _write_bytes(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except BlockingIOError:  # another process, such as node or ssh, has set the descriptor non-blocking
            select.select([], [fd], [])
        except OSError as error:
            if is_deserted(error, fd):
                raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE)) from error
            raise


def is_deserted(error: OSError, fd: int) -> bool:
    """Whether a write failed because the reader is gone. On Windows, the write to a pipe then fails with EINVAL (bpo-19612)."""
    if sys.platform == "win32" and error.errno == errno.EINVAL:
        from .handles import is_pipe

        return is_pipe(fd)
    return isinstance(error, BrokenPipeError)


def _read(fd: int) -> bytes:
    while True:
        try:
            return os.read(fd, READ_SIZE)
        except BlockingIOError:
            select.select([fd], [], [])


def same_file(first: int, second: int) -> bool:
    """Whether two descriptors lead to the same file, pipe or terminal."""
    if sys.platform == "win32":
        from .handles import is_same

        return is_same(first, second)
    return os.path.samestat(os.fstat(first), os.fstat(second))


def has_input(fd: int) -> bool:
    """Whether a descriptor may have input to forward: it is not a terminal, on which a person types, nor /dev/null, nor NUL."""
    mode = os.fstat(fd)
    return not (os.isatty(fd) or (stat.S_ISCHR(mode.st_mode) and os.path.samestat(mode, os.stat(os.devnull))))


def watch_peer(fd: int, on_gone: Callable[[], object]) -> None:
    """Call `on_gone` when the other end of a pipe or socket is closed, even if nothing is read or written meanwhile.

    For other files, and on Windows, the loss cannot be detected here: a later write fails instead.
    """
    mode = os.fstat(fd).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)) or not hasattr(select, "poll"):
        return
    loop = asyncio.get_running_loop()
    poll = select.poll()
    poll.register(fd, 0)  # errors and hang-ups are always reported

    def look() -> None:
        loop.remove_reader(fd)
        if poll.poll(0):
            on_gone()
            return
        # The socket has data, which is not ours to read and would wake the loop for ever. Or the peer has shut down
        # its sending side, and may still read. So a thread polls for the hang-up alone.
        _Thread[object](f"watcher of {fd}").start(poll.poll).add_done_callback(
            lambda looked: looked.exception() or on_gone()  # without a thread, a later write fails
        )

    try:
        loop.add_reader(fd, look)
    except (NotImplementedError, OSError):
        return  # a later write fails instead


async def tell(text: str) -> None:
    """Write a message for a person on stderr. A separate writer is used, so a failure has no other effect."""
    writer = DescriptorWriter(2)
    try:
        await writer.write(text.encode("utf-8", "backslashreplace"))
    finally:
        writer.close()
