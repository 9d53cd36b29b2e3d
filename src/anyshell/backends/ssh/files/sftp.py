"""The files of an SSH host over its SFTP service (draft-ietf-secsh-filexfer-02, which OpenSSH speaks)."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import posixpath
import re
import secrets
import stat
from collections import deque
from typing import TYPE_CHECKING, Literal, TypeVar, cast

import asyncssh

from ...._exceptions import ConnectionFailed
from ...._types import FileEntry, FileStat
from ...._waits import to_the_end

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

    Open = Callable[[], Awaitable[asyncssh.SFTPClient]]

T = TypeVar("T")

STALL_SECONDS = 60.0
"""Seconds for an SFTP server to answer; then its service is given up. Also the silence that ends a command for a file."""

OPEN_SECONDS = 120.0
"""Seconds for an SFTP service to open, and for its connection if that has to be made anew."""

_CANCEL_SECONDS = 5.0
"""Seconds for a cancelled change over SFTP to be answered, before its connection is given up."""

_CHUNK = 256 * 1024
"""Bytes of one SFTP request."""
_WINDOW = 16
"""Requests of one file over SFTP that are on their way at once."""
_AT_ONCE = 32
"""Files asked about or removed at once over SFTP."""
_MAX_LINKS = 40
"""Links that follow each other on a host by SSH; more is a circle."""
_MAX_ENTRIES = 1_000_000
"""Names in one directory on a host by SSH; more is an error."""
_LONGEST_NAME = 255
"""Bytes of a name, when an SFTP server does not say what is wrong with it: a longer one is too long."""
_LONGEST_PATH = 4096
"""Bytes of a path, then."""

_KINDS: dict[int, Literal["file", "directory", "link"]] = {
    asyncssh.FILEXFER_TYPE_REGULAR: "file",
    asyncssh.FILEXFER_TYPE_DIRECTORY: "directory",
    asyncssh.FILEXFER_TYPE_SYMLINK: "link",
}

_CODES = {
    asyncssh.FX_NO_SUCH_PATH: errno.ENOENT,
    asyncssh.FX_PERMISSION_DENIED: errno.EACCES,
    asyncssh.FX_OP_UNSUPPORTED: errno.EOPNOTSUPP,
    asyncssh.FX_FILE_ALREADY_EXISTS: errno.EEXIST,
    asyncssh.FX_WRITE_PROTECT: errno.EROFS,
    asyncssh.FX_NO_SPACE_ON_FILESYSTEM: errno.ENOSPC,
    asyncssh.FX_QUOTA_EXCEEDED: errno.EDQUOT if hasattr(errno, "EDQUOT") else errno.ENOSPC,
    asyncssh.FX_DIR_NOT_EMPTY: errno.ENOTEMPTY,
    asyncssh.FX_NOT_A_DIRECTORY: errno.ENOTDIR,
    asyncssh.FX_INVALID_FILENAME: errno.EINVAL,
    asyncssh.FX_LINK_LOOP: errno.ELOOP,
    asyncssh.FX_CANNOT_DELETE: errno.EPERM,
    asyncssh.FX_INVALID_PARAMETER: errno.EINVAL,
    asyncssh.FX_FILE_IS_A_DIRECTORY: errno.EISDIR,
}
"""Answers that say what is wrong. The others, above all "failure", say it of many things."""

_REASONS = {
    os.strerror(number).lower(): number
    for number in (
        errno.ENOENT,
        errno.ENOTDIR,
        errno.EISDIR,
        errno.EEXIST,
        errno.ENOTEMPTY,
        errno.ENOSPC,
        errno.EFBIG,
        errno.EROFS,
        errno.ELOOP,
        errno.ENAMETOOLONG,
        errno.EINVAL,
        errno.EXDEV,
        errno.EBUSY,
        errno.EPERM,
        errno.EIO,
    )
}
"""What servers that pass the system's own words on say. OpenSSH's does not."""


class NoSubsystem(Exception):  # noqa: N818 - never leaves this package
    """The server has no SFTP service, or one that does not start."""

    def __init__(self, certain: bool) -> None:
        super().__init__()
        self.certain = certain


class _Lost(Exception):  # noqa: N818 - never leaves this module
    """The connection ended; `sent` unless it is known that the request was never on its way."""

    def __init__(self, sent: bool) -> None:
        super().__init__()
        self.sent = sent


class _Stalled(Exception):  # noqa: N818 - never leaves this module
    """No answer came in time."""


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
                await asyncio.wait_for(client.wait_closed(), _CANCEL_SECONDS)

    async def ready(self) -> asyncssh.SFTPClient:
        """Open the service unless it is open.

        Raises:
            NoSubsystem: The server has none.
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

        async def work(op: _Operation) -> bytes:
            async with op.opened(path) as (file, size):
                return b"".join([piece async for piece in op.pieces(file, size, offset, length)])

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
            await self._do("write", path, lambda op: op.append(path, data), changes=True)
        else:
            await self._do("write", path, lambda op: op.replace(path, data), changes=True)

    async def mkdir(self, path: str, *, parents: bool = False, exist_ok: bool = False) -> None:
        """Make a directory, and those above it if asked.

        Raises:
            FileExistsError: It exists and `exist_ok` is false, or what exists is no directory.
        """
        await self._do("mkdir", path, lambda op: op.mkdir(path, parents, exist_ok), changes=True)

    async def remove(self, path: str, *, recursive: bool = False) -> None:
        """Remove a file, a link or an empty directory; a whole tree if asked, never following links.

        Like rm, it refuses ``.`` and ``..`` as the last part of a path (``EINVAL``), and a separator at the end does
        not turn a link into what it points to. A tree whose removal is cancelled is partly removed.
        """
        await self._do("remove", path, lambda op: op.remove(path, recursive), changes=True)

    async def rename(self, source: str, target: str) -> None:
        """Give a file or a link another name, replacing a file or a link that has it.

        Atomically, where the server has ``posix-rename@openssh.com``; otherwise as `write` does it.
        """
        await self._do("rename", source, lambda op: op.rename(source, target), changes=True, target=target)

    async def readlink(self, path: str) -> str:
        """Tell what a link points to, exactly as the link has it. ``EINVAL`` when it is no link."""
        return await self._do("readlink", path, lambda op: op.readlink(path))

    async def symlink(self, target: str, path: str) -> None:
        """Make a link at `path` that points to `target`. Never replaces what is there."""

        async def work(op: _Operation) -> None:
            await op.change(op.client.symlink(_encode(target), _encode(path)))

        await self._do("symlink", path, work, changes=True)

    async def chmod(self, path: str, mode: int) -> None:
        """Give a file or a directory exactly these permission bits."""

        async def work(op: _Operation) -> None:
            await op.change(op.client.chmod(_encode(path), mode))

        await self._do("chmod", path, work, changes=True)

    async def read_chunks(self, path: str) -> AsyncGenerator[bytes, None]:
        """Read a whole file, at most 256 KiB at a time, while up to 4 MiB more are on their way.

        A connection that dies midway is an error: what would be read through another may be another file.
        """

        async def start(op: _Operation) -> tuple[_Operation, asyncssh.SFTPClientFile, int]:
            return op, *await op.open(path)

        op, file, size = await self._do("read", path, start)
        pieces = op.pieces(file, size, 0, None)
        try:
            while True:
                async with self._explained(op, "read", path):
                    piece = await anext(pieces, b"")
                if not piece:
                    return
                yield piece
        finally:
            await pieces.aclose()
            self.later(op.client, file)

    async def write_chunks(self, path: str, chunks: AsyncIterable[bytes], *, mode: int) -> None:
        """Make a new file of pieces as they come, with exactly these permission bits; whole or not at all.

        Up to 4 MiB are on their way at a time.
        """

        async def work() -> None:
            # Not repeated, since the pieces come but once.
            op = _Operation(self, await self._sure(path), self._stall)
            try:
                async with self._explained(op, "create", path):
                    await op.create(path, chunks, mode)
            except BaseException as error:
                if op.litter:
                    await self._tidy(op, error)
                raise

        await to_the_end(work())

    def later(self, client: asyncssh.SFTPClient, file: asyncssh.SFTPClientFile) -> None:
        """Close a file that was read, without waiting: it has nothing more to say."""

        async def close() -> None:
            with contextlib.suppress(asyncssh.Error, OSError, ValueError, TimeoutError):
                async with asyncio.timeout(self._stall):
                    await file.close()

        if client is self._client:
            task = asyncio.create_task(close())
            self._background.add(task)
            task.add_done_callback(self._background.discard)

    async def _do(
        self,
        what: str,
        path: str,
        work: Callable[[_Operation], Coroutine[Any, Any, T]],
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
        work: Callable[[_Operation], Coroutine[Any, Any, T]],
        target: str | None,
    ) -> T:
        op = _Operation(self, await self._sure(path), self._stall)
        try:
            try:
                return await self._explain_from(op, what, path, work(op), target)
            except _Lost as lost:
                if op.changed:
                    raise _reset(path) from lost.__cause__
            await self._sweep(op)
            op = _Operation(self, await self._sure(path), self._stall)
            try:
                return await self._explain_from(op, what, path, work(op), target)
            except _Lost as lost:
                raise _reset(path) from lost.__cause__
        except BaseException as error:
            if op.litter:
                await self._tidy(op, error)
            raise

    async def _sure(self, path: str) -> asyncssh.SFTPClient:
        try:
            return await self.ready()
        except NoSubsystem as error:
            raise OSError(errno.EOPNOTSUPP, "The server has no SFTP service", path) from error.__cause__
        except TimeoutError as error:
            raise TimeoutError(error.errno, error.strerror, path) from error

    @contextlib.asynccontextmanager
    async def _explained(self, op: _Operation, what: str, path: str) -> AsyncIterator[None]:
        """Turn what goes wrong inside into the error that a local file gives."""
        try:
            yield
        except _Lost as lost:
            self._drop(op.client)
            raise _reset(path) from lost.__cause__
        except _Stalled as stalled:
            self._drop(op.client)
            raise _timed_out(path, self._stall) from stalled
        except asyncssh.SFTPError as error:
            raise await _truth(op, what, path, None, error) from error

    async def _explain_from(
        self, op: _Operation, what: str, path: str, work: Coroutine[Any, Any, T], target: str | None
    ) -> T:
        try:
            return await work
        except _Lost:
            self._drop(op.client)
            raise
        except _Stalled as stalled:
            self._drop(op.client)
            raise _timed_out(path, self._stall) from stalled
        except asyncssh.SFTPError as error:
            raise await _truth(op, what, path, target, error) from error

    def _drop(self, client: asyncssh.SFTPClient) -> None:
        if self._client is client:
            self._client = None
        client.exit()

    async def _tidy(self, op: _Operation, error: BaseException) -> None:
        """Remove a temporary file that could not be removed when it should have been."""
        if isinstance(error, OSError) and error.errno == errno.ETIMEDOUT:
            return  # a host that does not answer is not waited for twice
        with contextlib.suppress(OSError, ConnectionFailed, asyncssh.Error, TimeoutError):
            async with asyncio.timeout(_CANCEL_SECONDS):
                await self._sweep(op)

    async def _sweep(self, op: _Operation) -> None:
        while op.litter:
            path = op.litter.pop()
            again = _Operation(self, await self._sure(path), self._stall)
            with contextlib.suppress(asyncssh.SFTPError, _Lost, _Stalled):
                await again.change(again.client.remove(_encode(path)))


class _Operation:
    """One call on one service: every request of it has a bound, and it is known what it may have changed.

    Attributes:
        changed: Whether a request was sent that changes something which others see.
        litter: Temporary files that may be left.
    """

    def __init__(self, files: SFTPFiles, client: asyncssh.SFTPClient, stall: float) -> None:
        self.client = client
        self.changed = False
        self.litter: list[str] = []
        self._files = files
        self._stall = stall
        self._read_size = min(_CHUNK, client.limits.max_read_len)
        self._write_size = min(_CHUNK, client.limits.max_write_len)

    async def ask(self, request: Awaitable[T]) -> T:
        """Await an answer."""
        try:
            async with asyncio.timeout(self._stall):
                return await request
        except TimeoutError as error:
            raise _Stalled from error
        except asyncssh.SFTPNoConnection as error:
            raise _Lost(sent=False) from error
        except asyncssh.SFTPConnectionLost as error:
            raise _Lost(sent=True) from error
        except asyncssh.SFTPError:
            raise
        except (asyncssh.Error, OSError) as error:
            raise _Lost(sent=True) from error
        except (ValueError, IndexError) as error:  # what asyncssh makes of an answer that is none
            raise OSError(errno.EPROTO, "The server's answer makes no sense") from error

    async def change(self, request: Coroutine[Any, Any, T], *, seen: bool = True) -> T:
        """Await the answer to what changes something, also when cancelled: it may be on its way.

        Args:
            request: What is sent.
            seen: Whether others see what it changes. Otherwise the whole call may be repeated.
        """
        before, self.changed = self.changed, self.changed or seen

        bound: asyncio.Timeout | None = None

        async def bounded() -> T:
            nonlocal bound
            async with asyncio.timeout(self._stall) as bound:
                return await request

        def hurry() -> None:
            if bound is not None:
                with contextlib.suppress(RuntimeError):  # it is over
                    bound.reschedule(asyncio.get_running_loop().time() + min(_CANCEL_SECONDS, self._stall))

        async def asked() -> T:
            return await self.ask(bounded())

        try:
            return await to_the_end(asked(), hurry)
        except _Lost as lost:
            if not lost.sent:
                self.changed = before
            raise

    async def stat(self, path: str, *, follow: bool = True) -> asyncssh.SFTPAttrs:
        return await self.ask(self.client.stat(_encode(path), follow_symlinks=follow))

    async def kind(
        self, path: str, *, follow: bool = True
    ) -> Literal["file", "directory", "link", "other"] | None:
        """What there is; ``None`` when nothing can be seen."""
        try:
            return _described(await self.stat(path, follow=follow)).kind
        except asyncssh.SFTPError:
            return None

    async def list(self, path: str) -> list[FileEntry]:
        found: list[FileEntry] = []
        unknown: list[str] = []
        names = cast("AsyncGenerator[asyncssh.SFTPName, None]", self.client.scandir(_encode(path)))
        try:
            while (entry := await self.ask(anext(names, None))) is not None:
                raw = entry.filename
                name = raw if isinstance(raw, str) else raw.decode("utf-8", "surrogateescape")
                if name in (".", ".."):
                    continue
                if len(found) + len(unknown) >= _MAX_ENTRIES:
                    raise OSError(errno.EFBIG, f"More than {_MAX_ENTRIES} names in one directory", path)
                if entry.attrs.type == asyncssh.FILEXFER_TYPE_UNKNOWN:
                    unknown.append(name)
                else:
                    found.append(FileEntry(name, _kind(entry.attrs)))
        finally:
            await names.aclose()
        for start in range(0, len(unknown), _AT_ONCE):
            some = unknown[start : start + _AT_ONCE]
            asked = (self.kind(posixpath.join(path, name), follow=False) for name in some)
            kinds = await asyncio.gather(*asked)
            found += [FileEntry(name, kind or "other") for name, kind in zip(some, kinds, strict=True)]
        return found

    async def regular(self, path: str) -> asyncssh.SFTPAttrs:
        """Describe a regular file; refuse what is none before it is opened."""
        attrs = await self.stat(path)
        kind = _kind(attrs)
        if kind == "directory":
            raise _os_error(errno.EISDIR, path)
        if kind != "file":
            raise OSError(errno.EINVAL, "Not a regular file", path)
        return attrs

    async def open(self, path: str) -> tuple[asyncssh.SFTPClientFile, int]:
        attrs = await self.regular(path)
        opening = asyncio.ensure_future(
            self.client.open(_encode(path), asyncssh.FXF_READ, encoding=None, block_size=0)
        )
        try:
            return await self.ask(asyncio.shield(opening)), attrs.size or 0
        except asyncio.CancelledError:
            # Opened for nobody: closed when the answer comes, or with the service.
            opening.add_done_callback(self._close_unused)
            raise

    def _close_unused(self, opening: asyncio.Future[asyncssh.SFTPClientFile]) -> None:
        if not opening.cancelled() and opening.exception() is None:
            self._files.later(self.client, opening.result())

    @contextlib.asynccontextmanager
    async def opened(self, path: str) -> AsyncIterator[tuple[asyncssh.SFTPClientFile, int]]:
        file, size = await self.open(path)
        try:
            yield file, size
        finally:
            self._files.later(self.client, file)

    async def pieces(
        self, file: asyncssh.SFTPClientFile, size: int, offset: int, length: int | None
    ) -> AsyncGenerator[bytes, None]:
        """Read in order, with several requests on their way; beyond `size`, which files of /proc say is 0, with one."""
        pending: deque[tuple[int, int, asyncio.Task[bytes]]] = deque()
        end = None if length is None else offset + length
        position = offset
        try:
            while True:
                while len(pending) < _WINDOW and (position < size or not pending):
                    wanted = self._read_size if end is None else min(self._read_size, end - position)
                    if wanted <= 0:
                        break
                    pending.append((position, wanted, asyncio.create_task(file.read(wanted, position))))
                    position += wanted
                if not pending:
                    return
                start, wanted, task = pending.popleft()
                try:
                    piece = await self.ask(task)
                except BaseException:
                    await _cancel([task])
                    raise
                if not piece:
                    return
                yield piece
                if len(piece) < wanted:
                    if start + len(piece) >= size > 0:
                        return  # a regular file comes short where it ends, and nowhere else
                    await _cancel([task for _, _, task in pending])
                    pending.clear()
                    position = start + len(piece)
        finally:
            await _cancel([task for _, _, task in pending])

    async def fill(self, file: asyncssh.SFTPClientFile, chunks: AsyncIterable[bytes]) -> None:
        """Write in order, with several requests on their way."""
        pending: deque[asyncio.Task[int]] = deque()
        position = 0
        try:
            async for chunk in chunks:
                for start in range(0, len(chunk), self._write_size):
                    if len(pending) >= _WINDOW:
                        await self.ask(pending[0])
                        pending.popleft()
                    piece = chunk[start : start + self._write_size]
                    pending.append(asyncio.create_task(file.write(piece, position)))
                    position += len(piece)
            while pending:
                await self.ask(pending[0])
                pending.popleft()
        finally:
            await _cancel(pending)

    async def create(
        self, path: str, chunks: AsyncIterable[bytes], mode: int | None, *, secret: bool = True
    ) -> None:
        """Make a new file. Until it has its permissions it is its owner's alone, if it may be secret.

        `mode` of ``None`` is what the umask leaves.
        """
        attrs = asyncssh.SFTPAttrs(permissions=0o600) if secret else asyncssh.SFTPAttrs()
        flags = asyncssh.FXF_WRITE | asyncssh.FXF_CREAT | asyncssh.FXF_EXCL
        file = await self._opened_to_write(path, flags, attrs)
        self.litter.append(path)
        try:
            await self.fill(file, chunks)
            if mode is not None:
                await self.change(file.chmod(mode), seen=False)
            await self.change(file.close(), seen=False)
        except (_Lost, _Stalled):
            raise  # the file is looked for when there is a connection again
        except BaseException as error:
            # Asked before the file is removed, which may be what fills the disk.
            told = (
                await _truth(self, "write", path, None, error)
                if isinstance(error, asyncssh.SFTPError)
                else None
            )
            with contextlib.suppress(asyncssh.SFTPError, OSError, _Lost, _Stalled, ValueError):
                await self.change(file.close(), seen=False)
            with contextlib.suppress(asyncssh.SFTPError, OSError, _Lost, _Stalled):
                await self.change(self.client.remove(_encode(path)), seen=False)
                self.litter.remove(path)
            if told is not None:
                raise told from error
            raise
        self.litter.remove(path)

    async def _opened_to_write(
        self, path: str, flags: int, attrs: asyncssh.SFTPAttrs
    ) -> asyncssh.SFTPClientFile:
        """Open a file; when cancelled meanwhile, close it again and remove what was made."""
        opened: list[asyncssh.SFTPClientFile] = []

        async def opening() -> None:
            opened.append(await self.client.open(_encode(path), flags, attrs, encoding=None, block_size=0))

        try:
            await self.change(opening(), seen=bool(flags & asyncssh.FXF_APPEND))
        except BaseException:
            if opened:
                with contextlib.suppress(asyncssh.SFTPError, OSError, _Lost, _Stalled):
                    await self.change(opened[0].close(), seen=False)
                    if flags & asyncssh.FXF_EXCL:
                        await self.change(self.client.remove(_encode(path)), seen=False)
            raise
        return opened[0]

    async def append(self, path: str, data: bytes) -> None:
        try:
            await self.regular(path)
        except asyncssh.SFTPError as error:
            if not _may_be_missing(error):
                raise
        flags = asyncssh.FXF_WRITE | asyncssh.FXF_CREAT | asyncssh.FXF_APPEND
        file = await self._opened_to_write(path, flags, asyncssh.SFTPAttrs())
        try:
            for start in range(0, len(data), self._write_size):
                await self.change(file.write(data[start : start + self._write_size], start))
        finally:
            await self.change(file.close())

    async def replace(self, path: str, data: bytes) -> None:
        try:
            old: asyncssh.SFTPAttrs | None = await self.regular(path)
        except asyncssh.SFTPError as error:
            if not _may_be_missing(error):
                raise
            old = None
        if old is not None:
            # A rename asks the directory alone, and would overwrite what its owner has protected.
            probe = await self._opened_to_write(path, asyncssh.FXF_WRITE, asyncssh.SFTPAttrs())
            await self.change(probe.close(), seen=False)
        target = await self._resolved(path)
        temporary = posixpath.join(posixpath.dirname(target), f".anyshell-{secrets.token_hex(8)}.tmp")
        try:
            await self.create(temporary, _one(data), None, secret=old is not None)
        except OSError as error:
            raise OSError(error.errno, error.strerror, path) from error
        self.litter.append(temporary)
        try:
            if old is not None:
                await self._inherit(temporary, old)
            await self.put(temporary, target)
        except (_Lost, _Stalled):
            raise
        except BaseException:
            with contextlib.suppress(asyncssh.SFTPError, OSError, _Lost, _Stalled):
                await self.change(self.client.remove(_encode(temporary)), seen=False)
                self.litter.remove(temporary)
            raise
        self.litter.remove(temporary)

    async def _inherit(self, temporary: str, old: asyncssh.SFTPAttrs) -> None:
        raw = _encode(temporary)
        new = await self.stat(temporary)
        if old.uid is not None and old.gid is not None and (new.uid, new.gid) != (old.uid, old.gid):
            for uid, gid in ((new.uid, old.gid), (old.uid, old.gid)):
                if uid is not None:
                    with contextlib.suppress(asyncssh.SFTPError):
                        await self.change(self.client.chown(raw, uid, gid), seen=False)
        if old.permissions is not None:
            await self.change(self.client.chmod(raw, stat.S_IMODE(old.permissions) & 0o777), seen=False)

    async def _resolved(self, path: str) -> str:
        """The name that is at the end of a chain of links, whether there is a file or not."""
        for _ in range(_MAX_LINKS):
            if await self.kind(path, follow=False) != "link":
                return path
            path = posixpath.join(posixpath.dirname(path), await self.readlink(path))
        raise _os_error(errno.ELOOP, path)

    async def put(self, source: str, target: str) -> None:
        """Move what is at `source` to `target`, over a file or a link that is there."""
        try:
            return await self.change(self.client.posix_rename(_encode(source), _encode(target)))
        except asyncssh.SFTPOpUnsupported:
            pass
        # Without the extension a server refuses to replace anything.
        aside = posixpath.join(posixpath.dirname(target), f".anyshell-{secrets.token_hex(8)}.old")
        there = await self.kind(target, follow=False)
        if there == "directory":
            raise _os_error(errno.EISDIR, target)
        if there is not None:
            await self.change(self.client.rename(_encode(target), _encode(aside)))
        try:
            await self.change(self.client.rename(_encode(source), _encode(target)))
        except BaseException:
            if there is not None:
                with contextlib.suppress(asyncssh.SFTPError, _Lost, _Stalled):
                    await self.change(self.client.rename(_encode(aside), _encode(target)))
            raise
        if there is not None:
            await self.change(self.client.remove(_encode(aside)))
        return None

    async def rename(self, source: str, target: str) -> None:
        await self.put(source, target)

    async def readlink(self, path: str) -> str:
        return (await self.ask(self.client.readlink(_encode(path)))).decode("utf-8", "surrogateescape")

    async def mkdir(self, path: str, parents: bool, exist_ok: bool) -> None:
        path = path.rstrip("/") or "/"
        try:
            await self._mkdir(path)
        except FileNotFoundError:
            above = posixpath.dirname(path)
            if not parents or above == path:
                raise
            await self.mkdir(above, True, True)
            try:
                await self._mkdir(path)
            except FileExistsError:
                if not exist_ok or await self.kind(path) != "directory":
                    raise
        except FileExistsError:
            if not exist_ok or await self.kind(path) != "directory":
                raise

    async def _mkdir(self, path: str) -> None:
        try:
            await self.change(self.client.mkdir(_encode(path)))
        except asyncssh.SFTPError as error:
            raise await _truth(self, "mkdir", path, None, error) from error

    async def remove(self, path: str, recursive: bool) -> None:
        path = path.rstrip("/") or "/"
        if posixpath.basename(path) in (".", ".."):
            raise _os_error(errno.EINVAL, path)
        if _kind(await self.stat(path, follow=False)) != "directory":
            await self.change(self.client.remove(_encode(path)))
        elif recursive:
            await self._remove_tree(path)
        else:
            await self._rmdir(path)

    async def _remove_tree(self, top: str) -> None:
        """Depth first, without recursion: a tree may be deeper than Python's stack."""
        left = [(top, False)]
        while left:
            path, emptied = left.pop()
            if emptied:
                await self._rmdir(path)
                continue
            left.append((path, True))
            try:
                entries = await self.list(path)
            except asyncssh.SFTPError as error:
                raise await _truth(self, "list", path, None, error) from error
            files = [posixpath.join(path, entry.name) for entry in entries if entry.kind != "directory"]
            left += [
                (posixpath.join(path, entry.name), False) for entry in entries if entry.kind == "directory"
            ]
            for start in range(0, len(files), _AT_ONCE):
                some = files[start : start + _AT_ONCE]
                for failed in await asyncio.gather(*map(self._unlink, some), return_exceptions=True):
                    if failed is not None:
                        raise failed

    async def _unlink(self, path: str) -> None:
        try:
            await self.change(self.client.remove(_encode(path)))
        except asyncssh.SFTPError as error:
            raise await _truth(self, "remove", path, None, error) from error

    async def _rmdir(self, path: str) -> None:
        try:
            await self.change(self.client.rmdir(_encode(path)))
        except asyncssh.SFTPError as error:
            raise await _truth(self, "rmdir", path, None, error) from error


async def _truth(
    op: _Operation, what: str, path: str, target: str | None, error: asyncssh.SFTPError
) -> OSError:
    """The error that the same call gives on a local file. Many are one and the same in SFTP, so it is looked for."""
    try:
        number = await _number(op, what, path, target, error)
    except (_Lost, _Stalled, asyncssh.SFTPError, OSError):
        number = None
    if number is not None:
        return OSError(number, os.strerror(number), path, None, target)
    return OSError(errno.EIO, "The server refused, and does not say why", path)


async def _number(
    op: _Operation, what: str, path: str, target: str | None, error: asyncssh.SFTPError
) -> int | None:
    told = _REASONS.get(_ERRNO.sub("", error.reason).lower())
    if told is not None:
        return told
    if error.code == asyncssh.FX_NO_SUCH_FILE:
        return await _missing(op, what, path, target)
    if error.code == asyncssh.FX_PERMISSION_DENIED and what == "chmod":
        return errno.EPERM
    if error.code in _CODES:
        return _CODES[error.code]
    if error.code == asyncssh.FX_BAD_MESSAGE:
        return errno.ENAMETOOLONG if _too_long(path) or _too_long(target or "") else errno.EINVAL
    if error.code != asyncssh.FX_FAILURE:
        return None
    if what in ("mkdir", "symlink", "create") and await op.kind(path, follow=False) is not None:
        return errno.EEXIST
    if what == "rename" and target is not None:
        return await _not_renamed(op, path, target)
    if what in ("write", "create", "mkdir", "symlink"):
        return await _no_room(op, posixpath.dirname(path) or "/")
    if what == "rmdir" and await op.list(path):
        return errno.ENOTEMPTY
    if what in ("remove", "rmdir", "chmod"):
        with contextlib.suppress(asyncssh.SFTPError):  # of a server that cannot tell
            if await _no_room(op, posixpath.dirname(path) or "/") == errno.EROFS:
                return errno.EROFS
    if what == "rmdir":
        return errno.EBUSY
    return None


async def _missing(op: _Operation, what: str, path: str, target: str | None) -> int:
    """OpenSSH says "no such file" also of a file in the place of a directory, and of a circle of links."""
    if what == "list" and await op.kind(path) not in (None, "directory"):
        return errno.ENOTDIR
    for each in (path, target):
        if each is None:
            continue
        here = each.rstrip("/") or "/"
        while await op.kind(here, follow=False) is None and here != "/":
            here = posixpath.dirname(here)
        kind = await op.kind(here)
        if kind is None and await _circular(op, here):
            return errno.ELOOP
        if kind not in (None, "directory") and (here != each):
            return errno.ENOTDIR
    if target is not None and await op.kind(path, follow=False) == "directory":
        there = await op.kind(target, follow=False)
        if there not in (None, "directory"):
            return errno.ENOTDIR
    return errno.ENOENT


async def _circular(op: _Operation, path: str) -> bool:
    for _ in range(_MAX_LINKS):
        if await op.kind(path, follow=False) != "link":
            return False
        path = posixpath.join(posixpath.dirname(path), await op.readlink(path))
    return True


async def _not_renamed(op: _Operation, source: str, target: str) -> int | None:
    moved, there = await op.kind(source, follow=False), await op.kind(target, follow=False)
    if there == "directory":
        return errno.ENOTEMPTY if moved == "directory" else errno.EISDIR
    if moved == "directory":
        return errno.EINVAL if there is None else errno.ENOTDIR
    systems = [
        (await op.ask(op.client.statvfs(_encode(posixpath.dirname(path) or "/")))).fsid
        for path in (source, target)
    ]
    return errno.EXDEV if systems[0] != systems[1] else await _no_room(op, posixpath.dirname(target) or "/")


async def _no_room(op: _Operation, directory: str) -> int | None:
    system = await op.ask(op.client.statvfs(_encode(directory)))
    if system.flags & asyncssh.FXE_STATVFS_ST_RDONLY:
        return errno.EROFS
    if system.bavail == 0 or (system.files and not system.ffree):
        return errno.ENOSPC
    return None


_ERRNO = re.compile(r"^\[Errno \d+\] ")


def _too_long(path: str) -> bool:
    raw = _encode(path)
    return len(raw) >= _LONGEST_PATH or any(len(part) > _LONGEST_NAME for part in raw.split(b"/"))


def _may_be_missing(error: asyncssh.SFTPError) -> bool:
    return error.code in (asyncssh.FX_NO_SUCH_FILE, asyncssh.FX_NO_SUCH_PATH)


def _encode(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")


def _kind(attrs: asyncssh.SFTPAttrs) -> Literal["file", "directory", "link", "other"]:
    return _KINDS.get(attrs.type, "other")


def _described(attrs: asyncssh.SFTPAttrs) -> FileStat:
    return FileStat(
        kind=_kind(attrs),
        size=attrs.size or 0,
        mode=stat.S_IMODE(attrs.permissions or 0),
        modified=float(attrs.mtime or 0),
    )


def _os_error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)


def _reset(path: str) -> ConnectionResetError:
    return ConnectionResetError(
        errno.ECONNRESET, "The connection to the host was lost; a change may have happened or not", path
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


async def _one(data: bytes) -> AsyncIterator[bytes]:
    yield data


async def _cancel(tasks: Sequence[asyncio.Task[Any]] | deque[asyncio.Task[Any]]) -> None:
    """Cancel requests. Their answers are thrown away when they come."""
    for task in tasks:
        task.cancel()
        task.add_done_callback(_look_at)


def _look_at(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()  # or asyncio reports it as never retrieved
