"""The meaning of an SFTP server's refusal.

Version 3 has eight answers, and OpenSSH says "failure" of most errors: of a name that is taken, a directory that is not
empty, a full disk. The contract of `Files` is the error that the same call gives on a local file. `SFTPFiles` itself
relies on some of these errors (``mkdir(exist_ok=True)``). So after a vague answer, this module looks for the cause.
"""

from __future__ import annotations

import contextlib
import errno
import posixpath
import re
from typing import TYPE_CHECKING

import asyncssh

from ..errors import NUMBERS, os_error
from .operation import Lost, Operation, Stalled, encode

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_LONGEST_NAME = 255
"""Bytes of a name, for an SFTP server that gives no reason: a longer name is too long."""
_LONGEST_PATH = 4096
"""Bytes of a path, for an SFTP server that gives no reason: a path of that length or more is too long."""

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
"""The answers that name their cause. Each of the others, above all "failure", stands for many causes."""

_ERRNO = re.compile(r"^\[Errno \d+\] ")


@contextlib.asynccontextmanager
async def explained(op: Operation, what: str, path: str, target: str | None = None) -> AsyncIterator[None]:
    """Raise a refusal of the server inside the block as `local_error`."""
    try:
        yield
    except asyncssh.SFTPError as error:
        raise await local_error(op, what, path, target, error) from error


async def local_error(
    op: Operation, what: str, path: str, target: str | None, error: asyncssh.SFTPError
) -> OSError:
    """Return the error that the same call gives on a local file.

    SFTP has one answer for many errors, so the cause is looked for.
    """
    try:
        number = await _number(op, what, path, target, error)
    except (Lost, Stalled, asyncssh.SFTPError, OSError):
        number = None
    if number is not None:
        return os_error(number, path, target)
    return OSError(errno.EIO, "The server refused, and gave no reason", path)


async def _number(
    op: Operation, what: str, path: str, target: str | None, error: asyncssh.SFTPError
) -> int | None:
    # Some servers pass the system's own words on; OpenSSH does not.
    told = NUMBERS.get(_ERRNO.sub("", error.reason).lower())
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
        with contextlib.suppress(asyncssh.SFTPError):  # of a server that cannot report its file system
            if await _no_room(op, posixpath.dirname(path) or "/") == errno.EROFS:
                return errno.EROFS
    if what == "rmdir":
        return errno.EBUSY
    return None


async def _missing(op: Operation, what: str, path: str, target: str | None) -> int:
    """Find the cause of "no such file".

    OpenSSH gives that answer also for a file in the place of a directory, and for a circle of links.
    """
    if what == "list" and await op.kind(path) not in (None, "directory"):
        return errno.ENOTDIR
    for each in (path, target):
        if each is None:
            continue
        here = each.rstrip("/") or "/"
        while await op.kind(here, follow=False) is None and here != "/":
            here = posixpath.dirname(here)
        kind = await op.kind(here)
        if kind is None and await op.resolved(here) is None:
            return errno.ELOOP
        if kind not in (None, "directory") and (here != each):
            return errno.ENOTDIR
    if target is not None and await op.kind(path, follow=False) == "directory":
        there = await op.kind(target, follow=False)
        if there not in (None, "directory"):
            return errno.ENOTDIR
    return errno.ENOENT


async def _not_renamed(op: Operation, source: str, target: str) -> int | None:
    moved, there = await op.kind(source, follow=False), await op.kind(target, follow=False)
    if there == "directory":
        return errno.ENOTEMPTY if moved == "directory" else errno.EISDIR
    if moved == "directory":
        return errno.EINVAL if there is None else errno.ENOTDIR
    systems = [
        (await op.ask(op.client.statvfs(encode(posixpath.dirname(path) or "/")))).fsid
        for path in (source, target)
    ]
    return errno.EXDEV if systems[0] != systems[1] else await _no_room(op, posixpath.dirname(target) or "/")


async def _no_room(op: Operation, directory: str) -> int | None:
    system = await op.ask(op.client.statvfs(encode(directory)))
    if system.flags & asyncssh.FXE_STATVFS_ST_RDONLY:
        return errno.EROFS
    if system.bavail == 0 or (system.files and not system.ffree):
        return errno.ENOSPC
    return None


def _too_long(path: str) -> bool:
    raw = encode(path)
    return len(raw) >= _LONGEST_PATH or any(len(part) > _LONGEST_NAME for part in raw.split(b"/"))
