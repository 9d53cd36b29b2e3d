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
"""The error numbers of a system's messages, which are in lower case."""


def os_error(number: int, path: str, target: str | None = None) -> OSError:
    """Return the error that a system call gives for an error number."""
    return OSError(number, os.strerror(number), path, None, target)


def too_many(path: str) -> OSError:
    """Return the error for a directory with more than `MAX_ENTRIES` names."""
    return OSError(errno.EFBIG, f"More than {MAX_ENTRIES} names in one directory", path)


def connection_lost(path: str) -> ConnectionResetError:
    """Return the error for a connection that ended during a call."""
    return ConnectionResetError(
        errno.ECONNRESET, "The connection to the host was lost; a change may have happened or not", path
    )


def check_regular(kind: FileKind, path: str) -> None:
    """Refuse to open a file that is not regular: the call may block until the other end of a pipe is opened.

    Raises:
        OSError: The file is a directory (``EISDIR``), or of another kind (``EINVAL``).
    """
    if kind == "directory":
        raise os_error(errno.EISDIR, path)
    if kind != "file":
        raise OSError(errno.EINVAL, "Not a regular file", path)
