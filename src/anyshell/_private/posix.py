"""Private files and directories by permission bits, on POSIX systems."""

from __future__ import annotations

import os
import stat

_get_user = vars(os).get("geteuid", int)  # typeshed has geteuid for POSIX alone


def make_directory(path: str) -> None:
    """Make a directory for this user alone.

    Raises:
        OSError: As ``os.mkdir`` does.
    """
    os.mkdir(path, 0o700)


def create_file(path: str) -> int:
    """Make a new file for this user alone, and return its descriptor, open for writing.

    Raises:
        OSError: As ``os.open`` does, also if a file or a link of that name exists: O_EXCL follows no link.
    """
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)


def fault_of(path: str) -> str | None:
    """Return why a directory's content may not be this user's; ``None`` if no other user may write there.

    Raises:
        OSError: The directory's status cannot be read.
    """
    status = os.lstat(path)
    if status.st_uid != _get_user():
        return f"it belongs to user {status.st_uid}"
    if status.st_mode & 0o022:
        return f"others may write to it (mode {stat.S_IMODE(status.st_mode):04o})"
    return None
