"""POSIX system calls for `LocalFiles`.

`windows.files` has the same functions for Windows. Some of them retry there, and a ``stop`` event ends the retries.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import sys

assert sys.platform != "win32"

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import threading

    from ...._types import FileKind


def native(path: str) -> str:
    """Return the path in the form for system calls."""
    return path


def plain(path: str) -> str:
    """Return the path in the form for people, from a path in the form of `native`."""
    return path


def kind(status: os.stat_result) -> FileKind:
    """Return the kind of a file, from the result of ``os.stat`` or ``os.lstat``."""
    if stat.S_ISREG(status.st_mode):
        return "file"
    if stat.S_ISDIR(status.st_mode):
        return "directory"
    if stat.S_ISLNK(status.st_mode):
        return "link"
    return "other"


def entry_kind(entry: os.DirEntry[str]) -> FileKind:
    """Return the kind of a directory entry, from the listing, without a further system call where possible."""
    if entry.is_symlink():
        return "link"
    if entry.is_dir(follow_symlinks=False):
        return "directory"
    return "file" if entry.is_file(follow_symlinks=False) else "other"


def open_to_read(path: str, _stop: threading.Event) -> int:
    """Open a file for reading. Does not block, even if the path has become a pipe since its check."""
    return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)


def open_to_append(path: str, _stop: threading.Event) -> int:
    """Open or create a file for appending. One write call adds its data after all data that other programs have written."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)


def create(path: str, _stop: threading.Event, *, private: bool) -> int:
    """Create a new file: for its owner alone if `private`, else with the permissions that the umask leaves.

    The system applies the umask, because a program cannot read the umask without setting it.
    """
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600 if private else 0o666)


def require_writable(path: str, _stop: threading.Event) -> None:
    """Refuse a file that this user may not write."""
    if not os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC))  # fails with the reason


def inherit(descriptor: int, _path: str, old: os.stat_result, _old_path: str) -> None:
    """Give a new file the owner, group and permission bits of the file that it replaces."""
    for owner, group in ((-1, old.st_gid), (old.st_uid, -1)):
        with contextlib.suppress(PermissionError):
            os.fchown(descriptor, owner, group)
    # After the owner is set, so that no owner gets more access than the old file gave. Without set-user-id and similar bits,
    # because writing a file clears these bits as well.
    os.fchmod(descriptor, stat.S_IMODE(old.st_mode) & 0o777)


def settle(descriptor: int, _path: str, mode: int) -> None:
    """Set the final permission bits of a new file that was private."""
    os.fchmod(descriptor, mode)


def change_mode(path: str, mode: int) -> None:
    """Set the permission bits of a file or a directory."""
    os.chmod(path, mode)


def move(source: str, target: str, _stop: threading.Event) -> None:
    """Rename a file, replacing an existing file of the new name."""
    os.replace(source, target)


def named(path: str) -> str:
    """Return an existing file's path with the file's stored name."""
    return path


def read_link(path: str) -> str:
    """Return the target of a link."""
    return os.readlink(path)


def make_link(target: str, path: str) -> None:
    """Make a symbolic link."""
    os.symlink(target, path)


def remove_file(path: str, _stop: threading.Event | None = None) -> None:
    """Remove a file or a link."""
    os.unlink(path)


def remove_directory(path: str, _stop: threading.Event) -> None:
    """Remove an empty directory."""
    os.rmdir(path)


def remove_tree(path: str, _stop: threading.Event) -> None:
    """Remove a directory and all its contents, never following a link."""
    shutil.rmtree(path)
