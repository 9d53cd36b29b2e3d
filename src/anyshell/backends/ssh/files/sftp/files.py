"""The files of an SSH host over its SFTP service (draft-ietf-secsh-filexfer-02, which OpenSSH speaks)."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import stat
from typing import TYPE_CHECKING, TypeVar

import asyncssh

from ....._exceptions import ConnectionFailed
from ....._types import FileStat
from ....._waits import to_the_end
from ..errors import connection_lost
from . import directories, reading, writing
from .errors import explained
from .operation import CANCEL_SECONDS, Lost, Operation, Stalled, encode, kind_of

if TYPE_CHECKING:
    from collections.abc import (
        AsyncGenerator,
        AsyncIterable,
        AsyncIterator,
        Awaitable,
        Callable,
        Coroutine,
        Sequence,
    )
    from typing import Any

    from ....._types import FileEntry

    Open = Callable[[], Awaitable[asyncssh.SFTPClient]]

T = TypeVar("T")

STALL_SECONDS = 60.0
"""Seconds for an SFTP server to answer; then its service is given up. Also the silence that ends a command for a file."""

OPEN_SECONDS = 120.0
"""Seconds for an SFTP service to open, and for its connection if that has to be made anew."""


class NoSubsystem(Exception):  # noqa: N818 - never leaves this package
    """The server has no SFTP service, or one that does not start."""

    def __init__(self, certain: bool) -> None:
        super().__init__()
        self.certain = certain


class SFTPFiles:
    """The files of a host, over SFTP version 3.

    The service is opened at first use and kept. Once its connection has died, the next call opens another. A call
    that only looks is repeated once when the connection dies under it; one that changes something is not, if it
    may have happened: that is a `ConnectionResetError`.

    A server that owes an answer for `stall` seconds is given up: `TimeoutError` with ``ETIMEDOUT``, and the service
    is opened anew for the next call. Data that trickles in pieces of 256 KiB is an answer each.

    Files that are neither regular nor directories (pipes, devices, sockets) can be described, renamed and removed,
    but neither read nor written (``EINVAL``): opening one may block the whole service.

    Args:
        open: Gives a service over the current connection. What it raises goes through, but for asyncssh's own.
        stall: Seconds, more than 0.
    """

    def __init__(self, open: Open, *, stall: float = STALL_SECONDS) -> None:  # noqa: A002 - the word for it
        self._open = open
        self._stall = stall
        self._client: asyncssh.SFTPClient | None = None
        self._opening = asyncio.Lock()
        self._background: set[asyncio.Task[None]] = set()

    async def aclose(self) -> None:
        """End the service. Another call opens it again."""
        client, self._client = self._client, None
        for task in list(self._background):
            task.cancel()
        if client is not None:
            client.exit()
            with contextlib.suppress(asyncssh.Error, OSError, TimeoutError):
                async with asyncio.timeout(CANCEL_SECONDS):
                    await client.wait_closed()

    async def ready(self) -> asyncssh.SFTPClient:
        """Open the service unless it is open.

        Raises:
            NoSubsystem: The server has no SFTP.
            ConnectionFailed: The connection is there no more, or has no room for a channel.
            TimeoutError: It took more than 120 s.
        """
        async with self._opening:
            if self._client is None:
                try:
                    async with asyncio.timeout(OPEN_SECONDS):
                        self._client = await self._open()
                except TimeoutError as error:
                    raise TimeoutError(
                        errno.ETIMEDOUT, f"No SFTP service within {OPEN_SECONDS:g} s; is the host reachable?"
                    ) from error
                except asyncssh.ChannelOpenError as error:
                    if error.code == asyncssh.OPEN_REQUEST_SESSION_FAILED:
                        raise NoSubsystem(certain=True) from error
                    raise _unavailable() from error
                except asyncssh.SFTPError as error:
                    raise NoSubsystem(certain=False) from error
                except asyncssh.Error as error:
                    raise _unavailable() from error
            return self._client

    async def stat(self, path: str, *, follow: bool = True) -> FileStat:
        """Describe a file; the link itself when `follow` is false."""
        return _described(await self._do("stat", path, lambda op: op.stat(path, follow=follow)))

    async def list(self, path: str) -> Sequence[FileEntry]:
        """Name what is in a directory and tell its kinds, in no order, without ``.`` and ``..``.

        Raises:
            OSError: With ``EFBIG`` for more than a million names, which no real directory has.
        """
        return await self._do("list", path, lambda op: op.list(path))

    async def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        """Read a file or a range of it, in bytes. Fewer come back where the file ends.

        At most 4 MiB more than the file has are in memory, however large `length` is.
        """

        async def work(op: Operation) -> bytes:
            async with reading.opened(op, path) as (file, size):
                return b"".join([piece async for piece in reading.pieces(op, file, size, offset, length)])

        return await self._do("read", path, work)

    async def write(self, path: str, data: bytes, *, append: bool = False) -> None:
        """Append to a file, or replace it atomically: a reader sees the old or the new, never a half.

        A new file gets the permissions that the server's umask leaves; a replaced one keeps its permission bits
        and, where the user may set them, its owner and group. A link stays, and what it points to is written. A
        file without write permission is refused, as opening it would be.

        The new content goes to a file beside it, which takes the name by the extension
        ``posix-rename@openssh.com``. A server without that gets the old file moved aside, the new one moved to its
        place and the old one removed: never a half, but for a moment none; what fails midway is put back.
        """
        if append:
            await self._do("write", path, lambda op: writing.append(op, path, data), changes=True)
        else:
            await self._do("write", path, lambda op: writing.replace(op, path, data), changes=True)

    async def mkdir(self, path: str, *, parents: bool = False, exist_ok: bool = False) -> None:
        """Make a directory, and those above it if asked.

        Raises:
            FileExistsError: It exists and `exist_ok` is false, or what exists is no directory.
        """
        await self._do("mkdir", path, lambda op: directories.mkdir(op, path, parents, exist_ok), changes=True)

    async def remove(self, path: str, *, recursive: bool = False) -> None:
        """Remove a file, a link or an empty directory; a whole tree if asked, never following links.

        Like rm, it refuses ``.`` and ``..`` as the last part of a path (``EINVAL``), and a separator at the end does
        not turn a link into what it points to. A tree whose removal is cancelled is partly removed.
        """
        await self._do("remove", path, lambda op: directories.remove(op, path, recursive), changes=True)

    async def rename(self, source: str, target: str) -> None:
        """Give a file or a link another name, replacing a file or a link that has it.

        Atomically, where the server has ``posix-rename@openssh.com``; otherwise as `write` does it.
        """
        await self._do(
            "rename", source, lambda op: writing.move(op, source, target), changes=True, target=target
        )

    async def readlink(self, path: str) -> str:
        """Tell what a link points to, exactly as the link has it. ``EINVAL`` when it is no link."""
        return await self._do("readlink", path, lambda op: op.readlink(path))

    async def symlink(self, target: str, path: str) -> None:
        """Make a link at `path` that points to `target`. Never replaces what is there."""

        async def work(op: Operation) -> None:
            await op.change(op.client.symlink(encode(target), encode(path)))

        await self._do("symlink", path, work, changes=True)

    async def chmod(self, path: str, mode: int) -> None:
        """Give a file or a directory exactly these permission bits."""

        async def work(op: Operation) -> None:
            await op.change(op.client.chmod(encode(path), mode))

        await self._do("chmod", path, work, changes=True)

    async def set_modified(self, path: str, modified: float) -> None:
        """Say when a file or a directory was changed last, to the second."""

        async def work(op: Operation) -> None:
            await op.change(op.client.utime(encode(path), (int(modified), int(modified))))

        await self._do("chmod", path, work, changes=True)

    async def read_chunks(self, path: str) -> AsyncGenerator[bytes, None]:
        """Read a whole file, at most 256 KiB at a time, while up to 4 MiB more are on their way.

        A connection that dies midway is an error: what would be read through another may be another file.
        """

        async def start(op: Operation) -> tuple[Operation, asyncssh.SFTPClientFile, int]:
            return op, *await reading.open_file(op, path)

        op, file, size = await self._do("read", path, start)
        pieces = reading.pieces(op, file, size, 0, None)
        try:
            while True:
                async with self._once(op, "read", path):
                    piece = await anext(pieces, b"")
                if not piece:
                    return
                yield piece
        finally:
            await pieces.aclose()
            op.close_later(file)

    async def write_chunks(self, path: str, chunks: AsyncIterable[bytes], *, mode: int) -> None:
        """Make a new file of pieces as they come, with exactly these permission bits; whole or not at all.

        Up to 4 MiB are on their way at a time.
        """

        async def work() -> None:
            # Not repeated, since the pieces come but once.
            op = await self._operation(path)
            try:
                async with self._once(op, "create", path):
                    await writing.create(op, path, chunks, mode)
            except BaseException as error:
                if op.litter:
                    await self._tidy(op, error)
                raise

        await to_the_end(work())

    async def _do(
        self,
        what: str,
        path: str,
        work: Callable[[Operation], Coroutine[Any, Any, T]],
        *,
        changes: bool = False,
        target: str | None = None,
    ) -> T:
        if changes:
            return await to_the_end(self._attempts(what, path, work, target))
        return await self._attempts(what, path, work, target)

    async def _attempts(
        self,
        what: str,
        path: str,
        work: Callable[[Operation], Coroutine[Any, Any, T]],
        target: str | None,
    ) -> T:
        op = await self._operation(path)
        try:
            try:
                async with self._explained(op, what, path, target):
                    return await work(op)
            except Lost as lost:
                if op.changed:
                    raise connection_lost(path) from lost.__cause__
            await self._sweep(op)
            op = await self._operation(path)
            async with self._once(op, what, path, target):
                return await work(op)
        except BaseException as error:
            if op.litter:
                await self._tidy(op, error)
            raise

    async def _operation(self, path: str) -> Operation:
        try:
            client = await self.ready()
        except NoSubsystem as error:
            raise OSError(errno.EOPNOTSUPP, "The server has no SFTP service", path) from error.__cause__
        except TimeoutError as error:
            raise TimeoutError(error.errno, error.strerror, path) from error
        return Operation(client, self._stall, self._close_later)

    @contextlib.asynccontextmanager
    async def _explained(
        self, op: Operation, what: str, path: str, target: str | None = None
    ) -> AsyncIterator[None]:
        """Raise what goes wrong inside as the error that a local file gives, but for a connection that ended."""
        try:
            async with explained(op, what, path, target):
                yield
        except Lost:
            self._drop(op.client)
            raise
        except Stalled as stalled:
            self._drop(op.client)
            raise _timed_out(path, self._stall) from stalled

    @contextlib.asynccontextmanager
    async def _once(
        self, op: Operation, what: str, path: str, target: str | None = None
    ) -> AsyncIterator[None]:
        """The same for what is not repeated."""
        try:
            async with self._explained(op, what, path, target):
                yield
        except Lost as lost:
            raise connection_lost(path) from lost.__cause__

    def _close_later(self, client: asyncssh.SFTPClient, file: asyncssh.SFTPClientFile) -> None:
        """Close a file that was read, without waiting: it has nothing more to say."""

        async def close() -> None:
            with contextlib.suppress(asyncssh.Error, OSError, ValueError, TimeoutError):
                async with asyncio.timeout(self._stall):
                    await file.close()

        if client is self._client:
            task = asyncio.create_task(close())
            self._background.add(task)
            task.add_done_callback(self._background.discard)

    def _drop(self, client: asyncssh.SFTPClient) -> None:
        if self._client is client:
            self._client = None
        client.exit()

    async def _tidy(self, op: Operation, error: BaseException) -> None:
        """Remove a temporary file that could not be removed when it should have been."""
        if isinstance(error, OSError) and error.errno == errno.ETIMEDOUT:
            return  # a host that does not answer is not waited for twice
        with contextlib.suppress(OSError, ConnectionFailed, asyncssh.Error, TimeoutError):
            async with asyncio.timeout(CANCEL_SECONDS):
                await self._sweep(op)

    async def _sweep(self, op: Operation) -> None:
        while op.litter:
            path = op.litter.pop()
            again = await self._operation(path)
            with contextlib.suppress(asyncssh.SFTPError, Lost, Stalled):
                await again.change(again.client.remove(encode(path)))


def _described(attrs: asyncssh.SFTPAttrs) -> FileStat:
    return FileStat(
        kind=kind_of(attrs),
        size=attrs.size or 0,
        mode=stat.S_IMODE(attrs.permissions or 0),
        modified=float(attrs.mtime or 0),
    )


def _timed_out(path: str, seconds: float) -> TimeoutError:
    return TimeoutError(
        errno.ETIMEDOUT, f"The host gave no answer for {seconds:g} s; its connection was given up", path
    )


def _unavailable() -> ConnectionFailed:
    return ConnectionFailed(
        "the SFTP service could not be opened: the connection is closed, or has no room for another channel",
        stage="session",
    )
