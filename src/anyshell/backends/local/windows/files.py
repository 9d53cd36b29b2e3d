"""System calls of Windows for `LocalFiles`. `posix.files` is its counterpart elsewhere.

On Windows a file that is open cannot be removed, replaced or renamed, unless the program that opened it has agreed. So
whatever is opened here is opened in agreement with all that, and whatever is refused because another program is at the
file is tried again for a second: most programs that open every new file, scanners and indexers, are gone by then.
"""

from __future__ import annotations

import sys

assert sys.platform == "win32"

import contextlib
import ctypes
import enum
import errno
import functools
import msvcrt
import ntpath
import os
import stat
import threading
import time
from ctypes.wintypes import BOOL, DWORD, HANDLE, LPCWSTR, WCHAR, WIN32_FIND_DATAW
from typing import TYPE_CHECKING, NoReturn, TypeVar

from ...._private import windows as acl
from ...._win32 import declare
from . import win32

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ...._types import FileKind

T = TypeVar("T")

PATIENCE = 1.0
"""Seconds for another program on Windows to close a file that is opened, replaced, renamed or removed; else an error."""

_turn = threading.Lock()
"""Threads of this process take turns at what they would refuse each other: it is held for one call, never for a wait."""

_FIRST_PAUSE = 0.001
"""Seconds before that is tried again for the first time; then twice as long each time."""
_LONGEST_PAUSE = 0.05
"""Seconds between two of these attempts, at most."""

_LONGEST_PLAIN = 240
"""Characters up to which a path is given to Windows as it is; a longer one is given with `\\\\?\\` before it. To a
directory's, of 248, Windows may still add a little."""


class _Code(enum.IntEnum):
    """Errors of Windows, as Win32 names them."""

    ACCESS_DENIED = 5
    SHARING_VIOLATION = 32
    LOCK_VIOLATION = 33
    DIR_NOT_EMPTY = 145
    DELETE_PENDING = 303
    USER_MAPPED_FILE = 1224
    PRIVILEGE_NOT_HELD = 1314


class _Access(enum.IntFlag):
    """The access with which a file is opened."""

    READ = 0x80000000
    WRITE = 0x40000000
    APPEND = 0x00100004  # FILE_APPEND_DATA and SYNCHRONIZE: always at the end, whatever else writes
    DELETE = 0x00010000  # which renaming is as well


class _Disposition(enum.IntEnum):
    """The behaviour of an open for a file that exists, or does not."""

    CREATE_NEW = 1
    OPEN_EXISTING = 3
    OPEN_ALWAYS = 4


class _Flag(enum.IntFlag):
    """Flags with which a file is opened."""

    NORMAL = 0x00000080
    TEMPORARY = (
        0x04000100  # FILE_FLAG_DELETE_ON_CLOSE, and FILE_ATTRIBUTE_TEMPORARY: no need to reach the disk
    )
    AS_IT_IS = (
        0x02200000  # FILE_FLAG_BACKUP_SEMANTICS and _OPEN_REPARSE_POINT: directories too, and a link itself
    )


class _Rename(enum.IntFlag):
    """Flags of a rename; the second exists since Windows 10 1607, the third since 1809."""

    REPLACE = 0x1
    AS_POSIX = 0x2
    EVEN_READ_ONLY = 0x40


class _Sharing(enum.IntFlag):
    """The access that other processes keep meanwhile."""

    NOTHING = 0
    ALL = 7  # read, write, and delete, which is to rename and to replace as well


_HELD = frozenset({_Code.SHARING_VIOLATION, _Code.LOCK_VIOLATION, _Code.USER_MAPPED_FILE})
_PASSING = _HELD | {_Code.ACCESS_DENIED, _Code.DIR_NOT_EMPTY, _Code.DELETE_PENDING}
_DIRECTORY = stat.FILE_ATTRIBUTE_DIRECTORY
_KEPT = stat.FILE_ATTRIBUTE_HIDDEN | stat.FILE_ATTRIBUTE_SYSTEM | stat.FILE_ATTRIBUTE_NOT_CONTENT_INDEXED

_kernel32 = declare(
    ctypes.WinDLL("kernel32", use_last_error=True),
    CreateFileW=(HANDLE, LPCWSTR, DWORD, DWORD, ctypes.POINTER(acl.SecurityAttributes), DWORD, DWORD, HANDLE),
    FindClose=(BOOL, HANDLE),
    FindFirstFileW=(HANDLE, LPCWSTR, ctypes.POINTER(WIN32_FIND_DATAW)),
    SetFileAttributesW=(BOOL, LPCWSTR, DWORD),
    SetFileInformationByHandle=(BOOL, HANDLE, ctypes.c_int, ctypes.c_void_p, DWORD),
)
_INVALID = ctypes.c_void_p(-1).value
_FILE_RENAME_INFO_EX = 22  # no bound: which of the things that can be set: FileRenameInfoEx


def native(path: str) -> str:
    r"""The path as system calls take it: a long one as ``\\?\C:\…`` or ``\\?\UNC\server\share\…``.

    Without that, 260 characters are the most unless the registry of the machine *and* the program that Python runs in
    have agreed to more ("Maximum Path Length Limitation"). Windows leaves such a path as it is, so that it is
    normalized before.
    """
    return path if len(path) <= _LONGEST_PLAIN else _verbatim(path)


def _verbatim(path: str) -> str:
    if path.startswith("\\\\?\\") or not ntpath.splitdrive(path)[0]:
        return path
    path = ntpath.normpath(path)
    return "\\\\?\\UNC\\" + path[2:] if path.startswith("\\\\") else "\\\\?\\" + path


def plain(path: str) -> str:
    """The path as people write it, of one that was `native`."""
    if path[:8].upper() == "\\\\?\\UNC\\":
        return "\\\\" + path[8:]
    return path[4:] if path.startswith("\\\\?\\") and path[5:6] == ":" else path


def kind(status: os.stat_result) -> FileKind:
    """The kind of a file, from the result of ``os.stat`` or ``os.lstat``."""
    # A junction is a directory to Windows, and a link to code that must not walk in circles.
    if status.st_reparse_tag == stat.IO_REPARSE_TAG_MOUNT_POINT or stat.S_ISLNK(status.st_mode):
        return "link"
    if stat.S_ISREG(status.st_mode):
        return "file"
    return "directory" if stat.S_ISDIR(status.st_mode) else "other"


def entry_kind(entry: os.DirEntry[str]) -> FileKind:
    """The kind of an entry, as the directory tells it, without a further call."""
    return kind(entry.stat(follow_symlinks=False))


def open_to_read(path: str, stop: threading.Event) -> int:
    """Open a file so that others may write, rename, replace and remove it meanwhile."""
    return _descriptor(path, _Access.READ, _Disposition.OPEN_EXISTING, os.O_RDONLY, stop)


def open_to_append(path: str, stop: threading.Event) -> int:
    """Open a file, or make it; whatever is written in one call comes after all that others have written."""
    _refuse_read_only(path)
    return _descriptor(path, _Access.APPEND, _Disposition.OPEN_ALWAYS, os.O_WRONLY, stop)


def create(path: str, stop: threading.Event, *, private: bool) -> int:
    """Make a new file: for this user alone, or for the users of the directory's own list."""
    if not private:
        return _descriptor(path, _Access.WRITE, _Disposition.CREATE_NEW, os.O_WRONLY, stop)
    with acl.private() as attributes:
        return _descriptor(path, _Access.WRITE, _Disposition.CREATE_NEW, os.O_WRONLY, stop, attributes)


def create_temporary(path: str) -> int:
    """Make a new file for this user alone, which Windows removes when its descriptor is closed, by whatever end."""
    with acl.private() as attributes:
        access = _Access.WRITE | _Access.DELETE
        handle = _open(path, access, _Disposition.CREATE_NEW, flags=_Flag.TEMPORARY, attributes=attributes)
    return _for_python(handle, os.O_WRONLY)


def require_writable(path: str, stop: threading.Event) -> None:
    """Refuse a file that this user may not write: by its attribute, or by its access control list."""
    _refuse_read_only(path)

    def open_and_close() -> None:
        with _turn:
            _close(_open(path, _Access.WRITE, _Disposition.OPEN_EXISTING))

    _patiently(path, open_and_close, stop)


def inherit(_descriptor: int, path: str, old: os.stat_result, old_path: str) -> None:
    """Give a new file the permissions and the attributes of the one that it replaces.

    The system's own ``ReplaceFileW`` does that and more. But there is a moment in which there is no file, and when it
    fails then, as its documentation tells, no file is there afterwards.
    """
    with _turn:
        acl.copy_permissions(old_path, path)
    if kept := old.st_file_attributes & _KEPT:
        _set_attributes(path, os.stat(path).st_file_attributes | kept)


def settle(_descriptor: int, path: str, mode: int) -> None:
    """Let a new file, which was this user's alone, be read by the users whom its directory lets, unless `mode` lets no others.

    It is read-only where its owner's bit for writing is not set.
    """
    if mode & 0o077:
        acl.leave_to_directory(path)
    if not mode & 0o200:
        change_mode(path, mode)


def change_mode(path: str, mode: int) -> None:
    """Make a file read-only, or not any more, as the owner's bit for writing says; a directory stays as it is.

    Of a directory the attribute means something else, and does not stop writing there.
    """
    attributes = os.stat(path).st_file_attributes
    if attributes & _DIRECTORY:
        return
    read_only = 0 if mode & 0o200 else stat.FILE_ATTRIBUTE_READONLY
    if attributes & stat.FILE_ATTRIBUTE_READONLY != read_only:
        os.chmod(path, mode)


def move(source: str, target: str, stop: threading.Event) -> None:
    """Give a file another name, replacing a file that has it, a read-only one as well: as POSIX does."""
    try:
        _patiently(target, functools.partial(_replace, source, target), stop)
    except OSError as error:
        if error.winerror not in _PASSING or not _is_open(source):
            raise
        raise _held(source) from None


def named(path: str) -> str:
    """The path of a file that is there, with the name that it has: another case finds it as well, and a short name.

    What replaces it would otherwise have the name that it was found by.
    """
    found = WIN32_FIND_DATAW()
    handle = _kernel32.FindFirstFileW(path, ctypes.byref(found))
    if handle == _INVALID:
        return path
    _kernel32.FindClose(handle)
    return ntpath.join(ntpath.dirname(path), found.cFileName)


def read_link(path: str) -> str:
    """Tell what a link or a junction points to, as its maker has written it."""
    return plain(os.readlink(path))


def make_link(target: str, path: str) -> None:
    """Make a link. It has to be told whether that is to a directory: it is, where there is one."""
    target = target.replace("/", "\\")  # a link with the other leads nowhere
    above = ntpath.dirname(path)
    to_directory = os.path.isdir(ntpath.join(above, target))
    try:
        os.symlink(target, path, target_is_directory=to_directory)
    except OSError as error:
        if error.winerror != _Code.PRIVILEGE_NOT_HELD:
            raise
        reason = "Windows lets only administrators make links, and users with its developer mode on"
        raise PermissionError(errno.EPERM, reason, path) from None
    if not os.path.lexists(path):  # some that stand in for Windows say that they have made one
        raise OSError(errno.ENOTSUP, "This system makes no links", path)


def remove_file(path: str, stop: threading.Event | None = None) -> None:
    """Remove a file or a link, a read-only one as well, as POSIX does."""
    _patiently(path, functools.partial(_even_read_only, os.unlink, path), stop)


def remove_directory(path: str, stop: threading.Event) -> None:
    """Remove an empty directory."""

    def rmdir() -> None:
        try:
            _even_read_only(os.rmdir, path)
        except OSError as error:
            # A removed entry is listed as long as a program has it open. Only for a tree that is waited for.
            if error.winerror == _Code.DIR_NOT_EMPTY and os.listdir(path):
                raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path) from error
            raise

    _patiently(path, rmdir, stop)


def remove_tree(path: str, stop: threading.Event) -> None:
    """Remove a directory with all that is in it, never following a link or a junction.

    Files of a repository are read-only, and their paths soon longer than Windows likes; ``shutil.rmtree`` ends at both.
    """
    left = [(_verbatim(path), False)]
    while left:
        directory, emptied = left.pop()
        with contextlib.nullcontext() if len(left) == 0 else contextlib.suppress(FileNotFoundError):
            if emptied:
                _patiently(directory, functools.partial(_even_read_only, os.rmdir, directory), stop)
                continue
            left.append((directory, True))
            with os.scandir(directory) as entries:
                found = [(entry.path, entry_kind(entry) == "directory") for entry in entries]
            for each, is_directory in found:
                if is_directory:
                    left.append((each, False))
                else:
                    with contextlib.suppress(FileNotFoundError):  # removed meanwhile by another program
                        remove_file(each, stop)


def _even_read_only(remove: Callable[[str], None], path: str) -> None:
    try:
        remove(path)
    except PermissionError as error:
        if error.winerror != _Code.ACCESS_DENIED or not _is_read_only(path):
            raise
        with _writable(path):
            remove(path)


def _patiently(path: str, work: Callable[[], T], stop: threading.Event | None = None) -> T:
    """Try something again as long as another program stands in its way, for at most `PATIENCE`, or until stopped."""
    deadline = time.monotonic() + PATIENCE
    pause = _FIRST_PAUSE
    while True:
        try:
            return work()
        except OSError as error:
            if error.winerror not in _PASSING:
                raise
            if time.monotonic() + pause > deadline or _is_set_within(pause, stop):
                if error.winerror in _HELD or _is_open(path):
                    raise _held(path) from None
                raise
        pause = min(2 * pause, _LONGEST_PAUSE)


def _is_set_within(seconds: float, stop: threading.Event | None) -> bool:
    if stop is not None:
        return stop.wait(seconds)
    time.sleep(seconds)
    return False


def _held(path: str) -> PermissionError:
    reason = f"Another program has it open, and has not closed it within {PATIENCE:g} s"
    return PermissionError(0, reason, path, _Code.SHARING_VIOLATION)


def _is_open(path: str) -> bool:
    """Whether a file is open somewhere: it cannot be opened without sharing."""
    try:
        _close(
            _open(
                path, _Access.READ, _Disposition.OPEN_EXISTING, share=_Sharing.NOTHING, flags=_Flag.AS_IT_IS
            )
        )
    except OSError as error:
        return error.winerror in _HELD
    return False


def _descriptor(
    path: str,
    access: int,
    disposition: int,
    flags: int,
    stop: threading.Event,
    attributes: acl.SecurityAttributes | None = None,
) -> int:
    """Open a file, patiently, for Python's own functions."""
    handle = _patiently(path, lambda: _open(path, access, disposition, attributes=attributes), stop)
    return _for_python(handle, flags)


def _for_python(handle: int, flags: int) -> int:
    try:
        return msvcrt.open_osfhandle(handle, flags | os.O_NOINHERIT | os.O_BINARY)
    except BaseException:
        _close(handle)
        raise


def _open(
    path: str,
    access: int,
    disposition: int,
    *,
    share: int = _Sharing.ALL,
    flags: int = _Flag.NORMAL,
    attributes: acl.SecurityAttributes | None = None,
) -> int:
    reference = None if attributes is None else ctypes.byref(attributes)
    handle: int | None = _kernel32.CreateFileW(path, access, share, reference, disposition, flags, None)
    if handle is None or handle == _INVALID:
        _fail(path)
    return handle


def _close(handle: int) -> None:
    win32.kernel32.CloseHandle(handle)


def _fail(path: str) -> NoReturn:
    code = ctypes.get_last_error()
    raise OSError(0, ctypes.FormatError(code).strip(), path, code)


def _set_attributes(path: str, attributes: int) -> None:
    if not _kernel32.SetFileAttributesW(path, attributes):
        _fail(path)


def _refuse_read_only(path: str) -> None:
    """Refuse at once what waiting would not change."""
    if _is_read_only(path):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)


def _is_read_only(path: str) -> bool:
    try:
        return bool(os.lstat(path).st_file_attributes & stat.FILE_ATTRIBUTE_READONLY)
    except OSError:
        return False


@contextlib.contextmanager
def _writable(path: str) -> Iterator[None]:
    """Take the read-only attribute away; give it back when what it stood in the way of fails all the same."""
    attributes = os.lstat(path).st_file_attributes
    _set_attributes(path, attributes & ~stat.FILE_ATTRIBUTE_READONLY)
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            _set_attributes(path, attributes)
        raise


def _replace(source: str, target: str) -> None:
    with _turn:
        try:
            os.replace(source, target)
        except PermissionError as error:
            if os.path.lexists(target) and os.lstat(target).st_file_attributes & _DIRECTORY:
                _replace_directory(source, target)
            elif error.winerror != _Code.ACCESS_DENIED or not _replace_in_use(source, target):
                raise


def _replace_directory(source: str, target: str) -> None:
    """Replace a link to a directory, in two steps, since Windows takes it for one; a directory is not replaced."""
    if kind(os.lstat(target)) == "link":
        os.unlink(target)
        os.replace(source, target)
        return
    number = errno.EEXIST if os.path.isdir(source) else errno.EISDIR
    raise OSError(number, os.strerror(number), target)


def _replace_in_use(source: str, target: str) -> bool:
    """Replace a file that is read-only, or open by a program that agreed to that; return whether it was done.

    As POSIX does: a program that has it open keeps what it has. From Windows 10 1809 on, on NTFS; elsewhere it can only be waited for.
    """
    name = _verbatim(target)
    length = win32.units(name)

    class Rename(ctypes.Structure):  # FILE_RENAME_INFO, which ends with the name
        _fields_ = (
            ("flags", DWORD),
            ("root", HANDLE),
            ("length", DWORD),
            ("name", WCHAR * (length + 1)),
        )

    rename = Rename(_Rename.REPLACE | _Rename.AS_POSIX | _Rename.EVEN_READ_ONLY, None, 2 * length, name)
    try:
        handle = _open(source, _Access.DELETE, _Disposition.OPEN_EXISTING, flags=_Flag.AS_IT_IS)
    except OSError:
        return False
    try:
        if _kernel32.SetFileInformationByHandle(
            handle, _FILE_RENAME_INFO_EX, ctypes.byref(rename), ctypes.sizeof(rename)
        ):
            return True
    finally:
        _close(handle)
    if not _is_read_only(target):
        return False
    with _writable(target):
        os.replace(source, target)
    return True
