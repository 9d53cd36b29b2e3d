"""Windows system calls for `LocalFiles`. `posix.files` has the same functions for other systems.

On Windows an open file cannot be removed, replaced or renamed, unless the program that opened it allows that by its
sharing mode. So this module opens every file with full sharing. A call that fails because another program has the file
open is retried for a second: scanners and indexers open every new file, and most of them close it within that time.
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
"""Seconds to wait on Windows for another program to close a file, when the file is opened, replaced, renamed or removed;
then the call fails."""

_turn = threading.Lock()
"""Lock for calls of this process's threads that would fail while another of these calls runs. The lock is held for one
call, never during a wait."""

_FIRST_PAUSE = 0.001
"""Seconds before the first retry of a call that another program obstructs; the pause doubles each time."""
_LONGEST_PAUSE = 0.05
"""Seconds between two retries, at most; the pause stops growing there."""

_LONGEST_PLAIN = 240
"""Characters up to which a path is given to Windows unchanged; a longer path gets the prefix `\\\\?\\`. Windows' own limit
for a directory is 248, and Windows may still add a few characters."""


class _Code(enum.IntEnum):
    """Windows error codes, by their Win32 names."""

    ACCESS_DENIED = 5
    SHARING_VIOLATION = 32
    LOCK_VIOLATION = 33
    DIR_NOT_EMPTY = 145
    DELETE_PENDING = 303
    USER_MAPPED_FILE = 1224
    PRIVILEGE_NOT_HELD = 1314


class _Access(enum.IntFlag):
    """Access rights for opening a file."""

    READ = 0x80000000
    WRITE = 0x40000000
    APPEND = 0x00100004  # FILE_APPEND_DATA and SYNCHRONIZE: always at the end, whatever else is written
    DELETE = 0x00010000  # renaming needs this right as well


class _Disposition(enum.IntEnum):
    """Behaviour of an open, depending on whether the file exists."""

    CREATE_NEW = 1
    OPEN_EXISTING = 3
    OPEN_ALWAYS = 4


class _Flag(enum.IntFlag):
    """Flags for opening a file."""

    NORMAL = 0x00000080
    TEMPORARY = (
        0x04000100  # FILE_FLAG_DELETE_ON_CLOSE, and FILE_ATTRIBUTE_TEMPORARY: no need to reach the disk
    )
    AS_IT_IS = (
        0x02200000  # FILE_FLAG_BACKUP_SEMANTICS and _OPEN_REPARSE_POINT: directories too, and a link itself
    )


class _Rename(enum.IntFlag):
    """Flags of a rename; `AS_POSIX` exists since Windows 10 1607, `EVEN_READ_ONLY` since 1809."""

    REPLACE = 0x1
    AS_POSIX = 0x2
    EVEN_READ_ONLY = 0x40


class _Sharing(enum.IntFlag):
    """Access that other processes keep while a file is open here."""

    NOTHING = 0
    ALL = 7  # read, write, and delete, which includes rename and replace


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
_FILE_RENAME_INFO_EX = 22  # no bound: the information class FileRenameInfoEx


def native(path: str) -> str:
    r"""Return the path in the form for system calls: a long path as ``\\?\C:\…`` or ``\\?\UNC\server\share\…``.

    Without the prefix, the limit is 260 characters, unless the machine's registry *and* the program that Python runs in
    allow more ("Maximum Path Length Limitation"). Windows does not normalize a path with the prefix, so this function
    does.
    """
    return path if len(path) <= _LONGEST_PLAIN else _verbatim(path)


def _verbatim(path: str) -> str:
    if path.startswith("\\\\?\\") or not ntpath.splitdrive(path)[0]:
        return path
    path = ntpath.normpath(path)
    return "\\\\?\\UNC\\" + path[2:] if path.startswith("\\\\") else "\\\\?\\" + path


def plain(path: str) -> str:
    """Return the path in the form for people, from a path in the form of `native`."""
    if path[:8].upper() == "\\\\?\\UNC\\":
        return "\\\\" + path[8:]
    return path[4:] if path.startswith("\\\\?\\") and path[5:6] == ":" else path


def kind(status: os.stat_result) -> FileKind:
    """Return the kind of a file, from the result of ``os.stat`` or ``os.lstat``."""
    # Windows reports a junction as a directory. Code that must not walk in circles has to see a link.
    if status.st_reparse_tag == stat.IO_REPARSE_TAG_MOUNT_POINT or stat.S_ISLNK(status.st_mode):
        return "link"
    if stat.S_ISREG(status.st_mode):
        return "file"
    return "directory" if stat.S_ISDIR(status.st_mode) else "other"


def entry_kind(entry: os.DirEntry[str]) -> FileKind:
    """Return the kind of a directory entry, from the listing, without a further system call where possible."""
    return kind(entry.stat(follow_symlinks=False))


def open_to_read(path: str, stop: threading.Event) -> int:
    """Open a file for reading, so that other programs may still write, rename, replace and remove the file."""
    return _descriptor(path, _Access.READ, _Disposition.OPEN_EXISTING, os.O_RDONLY, stop)


def open_to_append(path: str, stop: threading.Event) -> int:
    """Open or create a file for appending. One write call adds its data after all data that other programs have written."""
    _refuse_read_only(path)
    return _descriptor(path, _Access.APPEND, _Disposition.OPEN_ALWAYS, os.O_WRONLY, stop)


def create(path: str, stop: threading.Event, *, private: bool) -> int:
    """Create a new file: for this user alone if `private`, else with the directory's access control list."""
    if not private:
        return _descriptor(path, _Access.WRITE, _Disposition.CREATE_NEW, os.O_WRONLY, stop)
    with acl.private() as attributes:
        return _descriptor(path, _Access.WRITE, _Disposition.CREATE_NEW, os.O_WRONLY, stop, attributes)


def create_temporary(path: str) -> int:
    """Create a new file for this user alone. Windows removes the file when its descriptor is closed, also by a crash."""
    with acl.private() as attributes:
        access = _Access.WRITE | _Access.DELETE
        handle = _open(path, access, _Disposition.CREATE_NEW, flags=_Flag.TEMPORARY, attributes=attributes)
    return _for_python(handle, os.O_WRONLY)


def require_writable(path: str, stop: threading.Event) -> None:
    """Refuse a file that this user may not write, because of the read-only attribute or the access control list."""
    _refuse_read_only(path)

    def open_and_close() -> None:
        with _turn:
            _close(_open(path, _Access.WRITE, _Disposition.OPEN_EXISTING))

    _patiently(path, open_and_close, stop)


def inherit(_descriptor: int, path: str, old: os.stat_result, old_path: str) -> None:
    """Give a new file the permissions and the attributes of the file that it replaces.

    Windows' own ``ReplaceFileW`` does that and more. But during ``ReplaceFileW`` there is a moment without any file, and
    a failure in that moment leaves no file, as Microsoft's documentation says.
    """
    with _turn:
        acl.copy_permissions(old_path, path)
    if kept := old.st_file_attributes & _KEPT:
        _set_attributes(path, os.stat(path).st_file_attributes | kept)


def settle(_descriptor: int, path: str, mode: int) -> None:
    """Set the final permissions of a new file that was private.

    If `mode` has a bit for other users, the file gets the access control list of its directory. If `mode` has no write bit
    for the owner, the file becomes read-only.
    """
    if mode & 0o077:
        acl.leave_to_directory(path)
    if not mode & 0o200:
        change_mode(path, mode)


def change_mode(path: str, mode: int) -> None:
    """Set or clear a file's read-only attribute, by the owner's write bit of `mode`; do nothing to a directory.

    On a directory the attribute has another meaning, and does not prevent writing there.
    """
    attributes = os.stat(path).st_file_attributes
    if attributes & _DIRECTORY:
        return
    read_only = 0 if mode & 0o200 else stat.FILE_ATTRIBUTE_READONLY
    if attributes & stat.FILE_ATTRIBUTE_READONLY != read_only:
        os.chmod(path, mode)


def move(source: str, target: str, stop: threading.Event) -> None:
    """Rename a file, replacing an existing file of the new name, even a read-only file, as POSIX does."""
    try:
        _patiently(target, functools.partial(_replace, source, target), stop)
    except OSError as error:
        if error.winerror not in _PASSING or not _is_open(source):
            raise
        raise _held(source) from None


def named(path: str) -> str:
    """Return an existing file's path with the file's stored name; `path` may differ in case, or be a short name.

    A replacement of the file would otherwise get the name in `path`.
    """
    found = WIN32_FIND_DATAW()
    handle = _kernel32.FindFirstFileW(path, ctypes.byref(found))
    if handle == _INVALID:
        return path
    _kernel32.FindClose(handle)
    return ntpath.join(ntpath.dirname(path), found.cFileName)


def read_link(path: str) -> str:
    """Return the target of a link or a junction, as its creator wrote the target."""
    return plain(os.readlink(path))


def make_link(target: str, path: str) -> None:
    """Make a symbolic link: to a directory if `target` is a directory now, else to a file. Windows must be told which."""
    target = target.replace("/", "\\")  # Windows does not follow a link whose target has slashes
    above = ntpath.dirname(path)
    to_directory = os.path.isdir(ntpath.join(above, target))
    try:
        os.symlink(target, path, target_is_directory=to_directory)
    except OSError as error:
        if error.winerror != _Code.PRIVILEGE_NOT_HELD:
            raise
        reason = "Windows lets only administrators make links, and users with its developer mode on"
        raise PermissionError(errno.EPERM, reason, path) from None
    if not os.path.lexists(path):  # some substitutes for Windows report success without making a link
        raise OSError(errno.ENOTSUP, "This system makes no links", path)


def remove_file(path: str, stop: threading.Event | None = None) -> None:
    """Remove a file or a link, even a read-only file, as POSIX does."""
    _patiently(path, functools.partial(_even_read_only, os.unlink, path), stop)


def remove_directory(path: str, stop: threading.Event) -> None:
    """Remove an empty directory."""

    def rmdir() -> None:
        try:
            _even_read_only(os.rmdir, path)
        except OSError as error:
            # A removed entry stays listed while a program has it open. Only `remove_tree` waits for this: here a listed
            # entry means that the directory is not empty.
            if error.winerror == _Code.DIR_NOT_EMPTY and os.listdir(path):
                raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path) from error
            raise

    _patiently(path, rmdir, stop)


def remove_tree(path: str, stop: threading.Event) -> None:
    """Remove a directory and all its contents, never following a link or a junction.

    ``shutil.rmtree`` fails at read-only files and at long paths, and repositories have both.
    """
    # A directory is pushed again with ``True`` before its entries, so that it is removed after all of them.
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
    """Retry a call while another program obstructs it, for at most `PATIENCE` seconds, or until `stop` is set."""
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
    """Whether any program has the file open: then opening the file without sharing fails."""
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
    """Open a file with `_patiently`, and return a descriptor for Python's own functions."""
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
    """Refuse a read-only file at once: a retry would not help."""
    if _is_read_only(path):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)


def _is_read_only(path: str) -> bool:
    try:
        return bool(os.lstat(path).st_file_attributes & stat.FILE_ATTRIBUTE_READONLY)
    except OSError:
        return False


@contextlib.contextmanager
def _writable(path: str) -> Iterator[None]:
    """Remove a file's read-only attribute; restore the attribute if the body of the ``with`` statement fails."""
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
    """Replace a link to a directory, in two steps, since Windows treats the link as a directory.

    A directory itself is not replaced: that is an `OSError`.
    """
    if kind(os.lstat(target)) == "link":
        os.unlink(target)
        os.replace(source, target)
        return
    number = errno.EEXIST if os.path.isdir(source) else errno.EISDIR
    raise OSError(number, os.strerror(number), target)


def _replace_in_use(source: str, target: str) -> bool:
    """Replace a file that is read-only, or that a program has opened with delete sharing; return whether that succeeded.

    The semantics are those of POSIX: a program that has the old file open keeps the old content. Replacing an open file works
    on NTFS since Windows 10 1809; elsewhere the caller can only wait until the file is closed.
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
