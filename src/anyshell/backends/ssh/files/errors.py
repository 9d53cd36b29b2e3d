"""The errors of files on a host, as those of local files: the common part of SFTP and the shell."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...._types import FileKind

MAX_LINKS = 40
"""Links that follow each other on a host by SSH; more is a circle."""
MAX_ENTRIES = 1_000_000
"""Names in one directory on a host by SSH; more is an error."""

NUMBERS = {
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
"""The errors that the words of a system stand for, in lower case."""


def os_error(number: int, path: str, target: str | None = None) -> OSError:
    """The error of a system's own call."""
    return OSError(number, os.strerror(number), path, None, target)


def too_many(path: str) -> OSError:
    """A directory has more than `MAX_ENTRIES` names."""
    return OSError(errno.EFBIG, f"More than {MAX_ENTRIES} names in one directory", path)


def connection_lost(path: str) -> ConnectionResetError:
    """The connection ended under a call."""
    return ConnectionResetError(
        errno.ECONNRESET, "The connection to the host was lost; a change may have happened or not", path
    )


def check_regular(kind: FileKind, path: str) -> None:
    """Refuse to open what is no regular file: it may block until its other end is opened.

    Raises:
        OSError: It is a directory (``EISDIR``), or neither (``EINVAL``).
    """
    if kind == "directory":
        raise os_error(errno.EISDIR, path)
    if kind != "file":
        raise OSError(errno.EINVAL, "Not a regular file", path)
