"""Private directories and files on this machine, which only their user can access."""

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
else:  # Windows, where the mode says nothing about other users
    from .windows import create_file as create_file
    from .windows import fault_of, make_directory


_JUNCTION = getattr(stat, "IO_REPARSE_TAG_MOUNT_POINT", 0xA0000003)


def make_directories(directory: Path) -> None:
    """Make a directory and its missing parents. An existing directory stays unchanged; `check_directory` checks it.

    Raises:
        OSError: A directory cannot be made.
    """
    missing = takewhile(lambda path: not os.path.lexists(path), (directory, *directory.parents))
    for path in reversed([*missing]):
        with suppress(FileExistsError):  # another process was faster
            make_directory(str(path))


def check_directory(directory: Path, *, refusal: str) -> None:
    """Refuse a directory whose content another user may have written.

    Raises:
        PermissionError: The directory is a link, belongs to another user or can be written by others. The message is
            `refusal`, with its ``{fault}`` filled in.
        OSError: The path is not a directory, or its status cannot be read.
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
    """Return a directory for anyshell's own files: below ``$ANYSHELL_STATE_DIR``, or else the user's state directory.

    Raises:
        OSError: The user has no home directory.
    """
    state = os.environ.get("ANYSHELL_STATE_DIR")
    if state:
        return Path(state) / name
    import platformdirs  # here, since few programs need it

    try:
        return platformdirs.user_state_path("anyshell") / name
    except RuntimeError as error:  # a user without a home, as in a container of an arbitrary uid
        raise OSError(
            errno.ENOENT, f"there is no home directory for {name}; set ANYSHELL_STATE_DIR"
        ) from error
