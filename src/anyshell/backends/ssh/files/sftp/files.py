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
    """The server has no SFTP service, or the service does not start."""

    def __init__(self, certain: bool) -> None:
        super().__init__()
        self.certain = certain


class SFTPFiles:
    """The files of a host, over SFTP version 3.

    The service is opened at the first use and kept. After its connection has died, the next call opens another. A call
    that only reads is repeated once when the connection dies during the call. A call that changes something is not
    repeated if the change may have happened: that is a `ConnectionResetError`.

    A server that owes an answer for `stall` seconds is given up: `TimeoutError` with ``ETIMEDOUT``, and the next call
    opens the service anew. Data that trickles in pieces of 256 KiB counts as one answer for each piece.

    Files that are neither regular nor directories (pipes, devices, sockets) can be described, renamed and removed, but
    neither read nor written (``EINVAL``): opening one may block the whole service.

    Args:
        open: Opens a service over the current connection. Its exceptions are passed on, except those of asyncssh.
        stall: Seconds, more than 0.
    """

    def __init__(self, open: Open, *, stall: float = STALL_SECONDS) -> None:  # noqa: A002 - the word for it
        self._open = open
        self._stall = stall
        self._client: asyncssh.SFTPClient | None = None
        self._opening = asyncio.Lock()
        self._background: set[asyncio.Task[None]] = set()

    async def aclose(self) -> None:
        """End the service. Another call opens the service again."""
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
            ConnectionFailed: The connection is closed, or has no room for a channel.
            TimeoutError: Opening took more than 120 s.
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
        """List the names and kinds of a directory's entries, in no order, without ``.`` and ``..``.

        Raises:
            OSError: With ``EFBIG`` for more than a million names, which no real directory has.
        """
        return await self._do("list", path, lambda op: op.list(path))

    async def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        """Read a file or a range of it, in bytes. Returns fewer bytes where the file ends.

        However large `length` is, the memory holds at most 4 MiB more than the file has.
        """

        async def work(op: Operation) -> bytes:
            async with reading.opened(op, path) as (file, size):
                return b"".join([piece async for piece in reading.pieces(op, file, size, offset, length)])

        return await self._do("read", path, work)

    async def write(self, path: str, data: bytes, *, append: bool = False) -> None:
        """Append to a file, or replace the file atomically: a reader sees the old or the new content, never a mixture.

        A new file gets the permissions that the server's umask leaves. A replaced file keeps its permission bits and,
        where the user may set them, its owner and group. A link stays, and the link's target is written. A file
        without write permission is refused, as opening the file would be.

        The new content goes to a temporary file in the same directory, which takes the name by the extension
        ``posix-rename@openssh.com``. On a server without the extension, the old file is moved aside, the new file is
        moved to the old place, and the old file is removed: never a mixture, but no file for a moment. If a step
        fails, the old file is put back.
        """
        if append:
            await self._do("write", path, lambda op: writing.append(op, path, data), changes=True)
        else:
            await self._do("write", path, lambda op: writing.replace(op, path, data), changes=True)

    async def mkdir(self, path: str, *, parents: bool = False, exist_ok: bool = False) -> None:
        """Make a directory; with `parents`, also its missing parent directories.

        Raises:
            FileExistsError: The path exists and `exist_ok` is false, or the path is not a directory.
        """
        await self._do("mkdir", path, lambda op: directories.mkdir(op, path, parents, exist_ok), changes=True)

    async def remove(self, path: str, *, recursive: bool = False) -> None:
        """Remove a file, a link or an empty directory; with `recursive`, a whole tree. Never follows links.

        Like rm, it refuses ``.`` and ``..`` as the last part of a path (``EINVAL``), and a separator at the end does
        not turn a link into the link's target. A tree whose removal is cancelled is partly removed.
        """
        await self._do("remove", path, lambda op: directories.remove(op, path, recursive), changes=True)

    async def rename(self, source: str, target: str) -> None:
        """Rename a file or a link. Replaces a file or a link at `target`.

        The rename is atomic where the server has ``posix-rename@openssh.com``; otherwise the steps are those of
        `write`.
        """
        await self._do(
            "rename", source, lambda op: writing.move(op, source, target), changes=True, target=target
        )

    async def readlink(self, path: str) -> str:
        """Return the target of a link, exactly as the link stores it. ``EINVAL`` when the file is not a link."""
        return await self._do("readlink", path, lambda op: op.readlink(path))

    async def symlink(self, target: str, path: str) -> None:
        """Make a link at `path` that points to `target`. Never replaces an existing file."""

        async def work(op: Operation) -> None:
            await op.change(op.client.symlink(encode(target), encode(path)))

        await self._do("symlink", path, work, changes=True)

    async def chmod(self, path: str, mode: int) -> None:
        """Set exactly these permission bits on a file or a directory."""

        async def work(op: Operation) -> None:
            await op.change(op.client.chmod(encode(path), mode))

        await self._do("chmod", path, work, changes=True)

    async def set_modified(self, path: str, modified: float) -> None:
        """Set the modification time of a file or a directory, to the second."""

        async def work(op: Operation) -> None:
            await op.change(op.client.utime(encode(path), (int(modified), int(modified))))

        await self._do("chmod", path, work, changes=True)

    async def read_chunks(self, path: str) -> AsyncGenerator[bytes, None]:
        """Read a whole file, at most 256 KiB at a time, while up to 4 MiB more are on their way.

        A connection that dies midway is an error: over another connection, the same path may be another file.
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
        """Create a new file from chunks as they come, with exactly these permission bits; whole or not at all.

        Up to 4 MiB are on their way at a time.
        """

        async def work() -> None:
            # Not repeated, since the chunks come only once.
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
        """Raise errors inside the block as the errors of a local file, except `Lost` for a connection that ended."""
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
        """Raise errors like `_explained`, for a call that is not repeated: a lost connection is an error too."""
        try:
            async with self._explained(op, what, path, target):
                yield
        except Lost as lost:
            raise connection_lost(path) from lost.__cause__

    def _close_later(self, client: asyncssh.SFTPClient, file: asyncssh.SFTPClientFile) -> None:
        """Close a file that was read, without waiting: the answer does not matter."""

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
        """Remove a temporary file whose removal failed before."""
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
