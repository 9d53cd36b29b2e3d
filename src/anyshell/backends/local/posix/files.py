"""System calls of POSIX for `LocalFiles`.

`windows.files` answers the same on Windows, where some of it takes patience, which can be stopped.
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
    """The path as system calls take it."""
    return path


def plain(path: str) -> str:
    """The path as people write it, of one that was `native`."""
    return path


def kind(status: os.stat_result) -> FileKind:
    """The kind of a file, from the result of ``os.stat`` or ``os.lstat``."""
    if stat.S_ISREG(status.st_mode):
        return "file"
    if stat.S_ISDIR(status.st_mode):
        return "directory"
    if stat.S_ISLNK(status.st_mode):
        return "link"
    return "other"


def entry_kind(entry: os.DirEntry[str]) -> FileKind:
    """The kind of an entry, as the directory tells it, without a further call."""
    if entry.is_symlink():
        return "link"
    if entry.is_dir(follow_symlinks=False):
        return "directory"
    return "file" if entry.is_file(follow_symlinks=False) else "other"


def open_to_read(path: str, _stop: threading.Event) -> int:
    """Open a file; one that has become a pipe since it was looked at does not block."""
    return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)


def open_to_append(path: str, _stop: threading.Event) -> int:
    """Open a file, or make it; whatever is written in one call comes after all that others have written."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)


def create(path: str, _stop: threading.Event, *, private: bool) -> int:
    """Make a new file, for its owner alone, or as the umask leaves it, which cannot be read without setting it."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600 if private else 0o666)


def require_writable(path: str, _stop: threading.Event) -> None:
    """Refuse a file that this user may not write."""
    if not os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC))  # which fails, and says why


def inherit(descriptor: int, _path: str, old: os.stat_result, _old_path: str) -> None:
    """Give a new file the owner, group and permission bits of the one that it replaces."""
    for owner, group in ((-1, old.st_gid), (old.st_uid, -1)):
        with contextlib.suppress(PermissionError):
            os.fchown(descriptor, owner, group)
    # After the owner, who gets no access that the old file did not give. Without set-user-id and the like,
    # which writing a file clears as well.
    os.fchmod(descriptor, stat.S_IMODE(old.st_mode) & 0o777)


def settle(descriptor: int, _path: str, mode: int) -> None:
    """Give a new file, which was its owner's alone, its permission bits."""
    os.fchmod(descriptor, mode)


def change_mode(path: str, mode: int) -> None:
    """Give a file or a directory its permission bits."""
    os.chmod(path, mode)


def move(source: str, target: str, _stop: threading.Event) -> None:
    """Give a file another name, replacing a file that has it."""
    os.replace(source, target)


def named(path: str) -> str:
    """The path of a file that is there, with the name that it has."""
    return path


def read_link(path: str) -> str:
    """Tell what a link points to."""
    return os.readlink(path)


def make_link(target: str, path: str) -> None:
    """Make a link."""
    os.symlink(target, path)


def remove_file(path: str, _stop: threading.Event | None = None) -> None:
    """Remove a file or a link."""
    os.unlink(path)


def remove_directory(path: str, _stop: threading.Event) -> None:
    """Remove an empty directory."""
    os.rmdir(path)


def remove_tree(path: str, _stop: threading.Event) -> None:
    """Remove a directory with all that is in it, never following a link."""
    shutil.rmtree(path)
