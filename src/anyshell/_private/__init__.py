"""Directories and files of this machine that are their user's alone."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from itertools import takewhile
from pathlib import Path

if hasattr(os, "geteuid"):
    from .posix import create_file as create_file
    from .posix import fault_of, make_directory
else:  # Windows, where the mode says nothing of others
    from .windows import create_file as create_file
    from .windows import fault_of, make_directory


_JUNCTION = getattr(stat, "IO_REPARSE_TAG_MOUNT_POINT", 0xA0000003)


def make_directories(directory: Path) -> None:
    """Make a directory and its missing parents. One that is there is left as it is; `check_directory` looks at it.

    Raises:
        OSError: One cannot be made.
    """
    missing = takewhile(lambda path: not os.path.lexists(path), (directory, *directory.parents))
    for path in reversed([*missing]):
        with suppress(FileExistsError):  # another process was faster
            make_directory(str(path))


def check_directory(directory: Path, *, refusal: str) -> None:
    """Refuse a directory in which something need not be what this user put there.

    Raises:
        PermissionError: It is a link, belongs to another user or can be written by others; with `refusal` as its text,
            and the ``{fault}`` in it.
        OSError: It is no directory, or cannot be asked.
    """
    status = os.lstat(directory)
    if stat.S_ISLNK(status.st_mode) or getattr(status, "st_reparse_tag", 0) == _JUNCTION:
        fault: str | None = "it is a link"
    elif not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(directory))
    else:
        fault = fault_of(str(directory))
    if fault is not None:
        raise PermissionError(errno.EPERM, refusal.format(fault=fault), str(directory))


def state_directory(name: str) -> Path:
    """Find where anyshell keeps files of its own: below ``$ANYSHELL_STATE_DIR``, or else the user's own state directory.

    Raises:
        OSError: The user has no home directory.
    """
    state = os.environ.get("ANYSHELL_STATE_DIR")
    if state:
        return Path(state) / name
    import platformdirs  # here, since it is seldom needed

    try:
        return platformdirs.user_state_path("anyshell") / name
    except RuntimeError as error:  # a user without a home, as in a container of an arbitrary uid
        raise OSError(
            errno.ENOENT, f"there is no home directory for {name}; set ANYSHELL_STATE_DIR"
        ) from error
