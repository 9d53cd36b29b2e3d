"""Writing a file over SFTP: creating, appending and replacing."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import posixpath
import secrets
import stat
from collections import deque
from typing import TYPE_CHECKING

import asyncssh

from ..errors import os_error
from .errors import local_error
from .operation import CHUNK, WINDOW, Lost, Stalled, cancel, encode

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator

    from .operation import Operation


async def append(op: Operation, path: str, data: bytes) -> None:
    """Append to a file, or create the file."""
    try:
        await op.regular(path)
    except asyncssh.SFTPError as error:
        if not _may_be_missing(error):
            raise
    flags = asyncssh.FXF_WRITE | asyncssh.FXF_CREAT | asyncssh.FXF_APPEND
    file = await _open(op, path, flags, asyncssh.SFTPAttrs())
    most = _most(op)
    try:
        for start in range(0, len(data), most):
            await op.change(file.write(data[start : start + most], start))
    finally:
        await op.change(file.close())


async def replace(op: Operation, path: str, data: bytes) -> None:
    """Write a file next to the old one, and rename it to the old name."""
    try:
        old: asyncssh.SFTPAttrs | None = await op.regular(path)
    except asyncssh.SFTPError as error:
        if not _may_be_missing(error):
            raise
        old = None
    if old is not None:
        # A rename checks only the directory, and would overwrite a file that its owner has protected.
        probe = await _open(op, path, asyncssh.FXF_WRITE, asyncssh.SFTPAttrs())
        await op.change(probe.close(), seen=False)
    target = await op.resolved(path)
    if target is None:
        raise os_error(errno.ELOOP, path)
    temporary = posixpath.join(posixpath.dirname(target), f".anyshell-{secrets.token_hex(8)}.tmp")
    try:
        await create(op, temporary, _one(data), None, secret=old is not None)
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from error
    op.litter.append(temporary)
    try:
        if old is not None:
            await _inherit(op, temporary, old)
        await move(op, temporary, target)
    except (Lost, Stalled):
        raise
    except BaseException:
        await _discard(op, temporary)
        raise
    op.litter.remove(temporary)


async def create(
    op: Operation, path: str, chunks: AsyncIterable[bytes], mode: int | None, *, secret: bool = True
) -> None:
    """Create a new file. Until it has its permissions, only its owner has access, if `secret` is true.

    A `mode` of ``None`` keeps the permissions that the umask leaves.
    """
    attrs = asyncssh.SFTPAttrs(permissions=0o600) if secret else asyncssh.SFTPAttrs()
    flags = asyncssh.FXF_WRITE | asyncssh.FXF_CREAT | asyncssh.FXF_EXCL
    file = await _open(op, path, flags, attrs)
    op.litter.append(path)
    try:
        await _fill(op, file, chunks)
        if mode is not None:
            await op.change(file.chmod(mode), seen=False)
        await op.change(file.close(), seen=False)
    except (Lost, Stalled):
        raise  # the file is removed later, when there is a connection again
    except BaseException as error:
        # The cause is looked for before the file is removed, since the file may be what fills the disk.
        told = (
            await local_error(op, "write", path, None, error)
            if isinstance(error, asyncssh.SFTPError)
            else None
        )
        with contextlib.suppress(asyncssh.SFTPError, OSError, Lost, Stalled, ValueError):
            await op.change(file.close(), seen=False)
        await _discard(op, path)
        if told is not None:
            raise told from error
        raise
    op.litter.remove(path)


async def move(op: Operation, source: str, target: str) -> None:
    """Move a file from `source` to `target`, replacing a file or a link at `target`."""
    try:
        return await op.change(op.client.posix_rename(encode(source), encode(target)))
    except asyncssh.SFTPOpUnsupported:
        pass
    # Without the extension, a server refuses to replace any file.
    aside = posixpath.join(posixpath.dirname(target), f".anyshell-{secrets.token_hex(8)}.old")
    there = await op.kind(target, follow=False)
    if there == "directory":
        raise os_error(errno.EISDIR, target)
    if there is not None:
        await op.change(op.client.rename(encode(target), encode(aside)))
    try:
        await op.change(op.client.rename(encode(source), encode(target)))
    except BaseException:
        if there is not None:
            with contextlib.suppress(asyncssh.SFTPError, Lost, Stalled):
                await op.change(op.client.rename(encode(aside), encode(target)))
        raise
    if there is not None:
        await op.change(op.client.remove(encode(aside)))
    return None


async def _open(op: Operation, path: str, flags: int, attrs: asyncssh.SFTPAttrs) -> asyncssh.SFTPClientFile:
    """Open a file. If cancelled meanwhile, close the file again and remove a file that was created."""
    opened: list[asyncssh.SFTPClientFile] = []

    async def opening() -> None:
        opened.append(await op.client.open(encode(path), flags, attrs, encoding=None, block_size=0))

    try:
        await op.change(opening(), seen=bool(flags & asyncssh.FXF_APPEND))
    except BaseException:
        if opened:
            with contextlib.suppress(asyncssh.SFTPError, OSError, Lost, Stalled):
                await op.change(opened[0].close(), seen=False)
                if flags & asyncssh.FXF_EXCL:
                    await op.change(op.client.remove(encode(path)), seen=False)
        raise
    return opened[0]


async def _fill(op: Operation, file: asyncssh.SFTPClientFile, chunks: AsyncIterable[bytes]) -> None:
    """Write chunks in order, with several requests on their way."""
    pending: deque[asyncio.Task[int]] = deque()
    most = _most(op)
    position = 0
    try:
        async for chunk in chunks:
            for start in range(0, len(chunk), most):
                if len(pending) >= WINDOW:
                    await op.ask(pending[0])
                    pending.popleft()
                piece = chunk[start : start + most]
                pending.append(asyncio.create_task(file.write(piece, position)))
                position += len(piece)
        while pending:
            await op.ask(pending[0])
            pending.popleft()
    finally:
        cancel(pending)


async def _inherit(op: Operation, temporary: str, old: asyncssh.SFTPAttrs) -> None:
    raw = encode(temporary)
    new = await op.stat(temporary)
    if old.uid is not None and old.gid is not None and (new.uid, new.gid) != (old.uid, old.gid):
        for uid, gid in ((new.uid, old.gid), (old.uid, old.gid)):
            if uid is not None:
                with contextlib.suppress(asyncssh.SFTPError):
                    await op.change(op.client.chown(raw, uid, gid), seen=False)
    if old.permissions is not None:
        await op.change(op.client.chmod(raw, stat.S_IMODE(old.permissions) & 0o777), seen=False)


async def _discard(op: Operation, path: str) -> None:
    """Remove a temporary file. A file that cannot be removed now stays in `Operation.litter`."""
    with contextlib.suppress(asyncssh.SFTPError, OSError, Lost, Stalled):
        await op.change(op.client.remove(encode(path)), seen=False)
        op.litter.remove(path)


def _most(op: Operation) -> int:
    """Return the bytes of one request."""
    return min(CHUNK, op.client.limits.max_write_len)


def _may_be_missing(error: asyncssh.SFTPError) -> bool:
    return error.code in (asyncssh.FX_NO_SUCH_FILE, asyncssh.FX_NO_SUCH_PATH)


async def _one(data: bytes) -> AsyncIterator[bytes]:
    yield data
