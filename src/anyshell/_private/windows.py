"""Private files and directories by access control lists, on Windows, where permission bits say nothing about other users.

The functions work only on Windows.
"""

from __future__ import annotations

import contextlib
import ctypes
import enum
import functools
import importlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .._win32 import declare

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_SYSTEM = "S-1-5-18"
_ADMINISTRATORS = "S-1-5-32-544"
_OWNER = "S-1-3-4"  # the SID by which an entry names the file's owner
_CREATOR = "S-1-3-0"  # the SID for the creator of a file that inherits the entry

_INVALID = ctypes.c_void_p(-1).value  # INVALID_HANDLE_VALUE

_ADDRESS, _DWORD, _INT, _TEXT = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_wchar_p

_ALLOWING = frozenset({0, 9})  # the kinds of entries that allow: for a SID, and for a SID under a condition


class _Win32:
    """Constants for calls to Windows, under their names in Win32."""

    SE_FILE_OBJECT = 1
    ACL_REVISION = 2
    TOKEN_QUERY = 8
    GENERIC_WRITE = 0x40000000
    SHARE_ALL = 7  # other handles may read, write, rename and remove the open file, as on POSIX
    CREATE_NEW = 1
    OPEN_REPARSE_POINT = 0x00200000  # open a link itself, not its target
    TOKEN_USER = 1
    OWNER_SECURITY_INFORMATION = 0x1
    DACL_SECURITY_INFORMATION = 0x4
    UNPROTECTED_DACL_SECURITY_INFORMATION = 0x20000000
    SE_DACL_PROTECTED = 0x1000
    INHERITED_ACE = 0x10
    WRITING = 0x500D0046  # write, append, delete, delete a child, change permissions or the owner, generic write and all


class _Code(enum.IntEnum):
    """The error codes of a file system without permissions."""

    INVALID_FUNCTION = 1
    NOT_SUPPORTED = 50


class _Acl(ctypes.Structure):
    _fields_ = (
        ("revision", ctypes.c_ubyte),
        ("unused", ctypes.c_ubyte),
        ("size", ctypes.c_ushort),
        ("count", ctypes.c_ushort),
        ("unused_as_well", ctypes.c_ushort),
    )


class _AllowingEntry(ctypes.Structure):
    _fields_ = (
        ("kind", ctypes.c_ubyte),
        ("flags", ctypes.c_ubyte),
        ("size", ctypes.c_ushort),
        ("mask", ctypes.c_uint32),
        ("sid", ctypes.c_uint32),  # the first bytes of the SID
    )


class SecurityAttributes(ctypes.Structure):
    """Win32's ``SECURITY_ATTRIBUTES``, for ``CreateFileW`` and ``CreateDirectoryW``."""

    _fields_ = (
        ("length", ctypes.c_uint32),
        ("descriptor", ctypes.c_void_p),
        ("inherited", ctypes.c_int),
    )


def make_directory(path: str) -> None:
    """Make a directory for only this user, the system and the administrators, without entries inherited from its parent.

    Python's own ``os.mkdir(path, 0o700)`` does the same since 3.11.10, 3.12.4 and 3.13 (CVE-2024-4030), but for the *owner*. A
    directory that an administrator makes with raised rights belongs to all administrators, and is then closed to the
    same user without raised rights. So the entry here names the user.

    Raises:
        OSError: As ``os.mkdir`` does.
    """
    with private() as made:
        if not _kernel32().CreateDirectoryW(path, ctypes.byref(made)):
            raise _last_error(path)


def create_file(path: str) -> int:
    """Make a new file for only this user, the system and the administrators; return its descriptor, open for writing.

    Raises:
        OSError: As ``os.open`` does, also if a file or a link of that name exists.
    """
    with private() as made:
        handle = _kernel32().CreateFileW(
            path,
            _Win32.GENERIC_WRITE,
            _Win32.SHARE_ALL,
            ctypes.byref(made),
            _Win32.CREATE_NEW,
            _Win32.OPEN_REPARSE_POINT,
            None,
        )
    if handle == _INVALID:
        raise _last_error(path)
    return int(importlib.import_module("msvcrt").open_osfhandle(handle, os.O_WRONLY))


@contextlib.contextmanager
def private() -> Iterator[SecurityAttributes]:
    """Yield attributes that make a new file or directory private to this user, the system and the administrators."""
    entries = "".join(f"(A;OICI;FA;;;{sid})" for sid in (_SYSTEM, _ADMINISTRATORS, this_user()))
    with attributes(f"D:P{entries}") as made:
        yield made


@contextlib.contextmanager
def attributes(text: str) -> Iterator[SecurityAttributes]:
    """Yield the security attributes of a new file, from a text in the security descriptor definition language (SDDL)."""
    descriptor = ctypes.c_void_p()
    if not _advapi32().ConvertStringSecurityDescriptorToSecurityDescriptorW(
        text, 1, ctypes.byref(descriptor), None
    ):
        raise _last_error(None)
    try:
        yield SecurityAttributes(ctypes.sizeof(SecurityAttributes), descriptor, 0)
    finally:
        _kernel32().LocalFree(descriptor)


def fault_of(path: str) -> str | None:
    """Return why a directory's content may not be this user's; ``None`` if no other user may write there.

    Raises:
        OSError: The directory's security descriptor cannot be read.
    """
    ours = {this_user(), _SYSTEM, _ADMINISTRATORS}
    with _security(path, _Win32.OWNER_SECURITY_INFORMATION | _Win32.DACL_SECURITY_INFORMATION) as found:
        owner = _sid_text(found.owner)
        if owner not in ours:
            return f"it belongs to user {owner}"
        if not found.acl.value:
            return "every user may write to it"
        for entry in found.entries():
            if entry.kind in _ALLOWING and entry.mask & _Win32.WRITING:
                who = _sid_text(ctypes.addressof(entry) + _AllowingEntry.sid.offset)
                if who not in ours | {_OWNER, _CREATOR}:
                    return f"others may write to it ({who})"
    return None


def copy_permissions(source: str, target: str) -> None:
    """Copy the permissions of one file to another. On a file system without permissions, nothing is copied.

    Raises:
        OSError: The permissions cannot be read or set.
    """
    what = _Win32.DACL_SECURITY_INFORMATION
    with _security(source, what) as found:
        if not found.is_protected and any(entry.flags & _Win32.INHERITED_ACE for entry in found.entries()):
            # The target inherits its own entries from its directory.
            _set(target, _Win32.UNPROTECTED_DACL_SECURITY_INFORMATION, found.acl)
        elif not _advapi32().SetFileSecurityW(target, what, found.descriptor):
            error = _last_error(target)
            if getattr(error, "winerror", None) not in tuple(_Code):
                raise error


def leave_to_directory(path: str) -> None:
    """Give a file only the permissions inherited from its directory. Without permissions in the file system, do nothing.

    Raises:
        OSError: The permissions cannot be set.
    """
    empty = _Acl(_Win32.ACL_REVISION, 0, ctypes.sizeof(_Acl), 0, 0)
    acl = ctypes.cast(ctypes.pointer(empty), ctypes.c_void_p)
    _set(path, _Win32.UNPROTECTED_DACL_SECURITY_INFORMATION, acl)


def _set(path: str, how: int, acl: ctypes.c_void_p) -> None:
    what = _Win32.DACL_SECURITY_INFORMATION | how
    code = _advapi32().SetNamedSecurityInfoW(path, _Win32.SE_FILE_OBJECT, what, None, None, acl, None)
    if code not in (0, *_Code):
        raise _error(code, path)


@functools.cache
def this_user() -> str:
    """Return the SID of the user that this process runs as, as text."""
    token = ctypes.c_void_p()
    if not _advapi32().OpenProcessToken(
        _kernel32().GetCurrentProcess(), _Win32.TOKEN_QUERY, ctypes.byref(token)
    ):
        raise _last_error(None)
    try:
        size = ctypes.c_uint32()
        _advapi32().GetTokenInformation(token, _Win32.TOKEN_USER, None, 0, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        if not _advapi32().GetTokenInformation(token, _Win32.TOKEN_USER, buffer, size, ctypes.byref(size)):
            raise _last_error(None)
        return _sid_text(ctypes.cast(buffer, ctypes.POINTER(ctypes.c_void_p))[0])
    finally:
        _kernel32().CloseHandle(token)


@dataclass(frozen=True, slots=True)
class _Security:
    """The security descriptor of a file, with pointers into one block of memory, which `_security` frees."""

    path: str
    descriptor: ctypes.c_void_p
    owner: ctypes.c_void_p
    acl: ctypes.c_void_p
    is_protected: bool

    def entries(self) -> Iterator[_AllowingEntry]:
        """Yield every entry; an entry of another kind begins like an allowing entry."""
        if not self.acl.value:
            return
        for index in range(_Acl.from_address(self.acl.value).count):
            found = ctypes.c_void_p()
            if not _advapi32().GetAce(self.acl, index, ctypes.byref(found)) or found.value is None:
                raise _last_error(self.path)
            yield _AllowingEntry.from_address(found.value)


@contextlib.contextmanager
def _security(path: str, what: int) -> Iterator[_Security]:
    owner, acl, descriptor = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    pointers = (ctypes.byref(owner), None, ctypes.byref(acl), None, ctypes.byref(descriptor))
    code = _advapi32().GetNamedSecurityInfoW(path, _Win32.SE_FILE_OBJECT, what, *pointers)
    if code:
        raise _error(code, path)
    try:
        control, revision = ctypes.c_ushort(), ctypes.c_uint32()
        if not _advapi32().GetSecurityDescriptorControl(
            descriptor, ctypes.byref(control), ctypes.byref(revision)
        ):
            raise _last_error(path)
        yield _Security(path, descriptor, owner, acl, bool(control.value & _Win32.SE_DACL_PROTECTED))
    finally:
        _kernel32().LocalFree(descriptor)


def _sid_text(sid: ctypes.c_void_p | int | None) -> str:
    text = ctypes.c_wchar_p()
    if not _advapi32().ConvertSidToStringSidW(sid, ctypes.byref(text)):
        raise _last_error(None)
    try:
        return text.value or ""
    finally:
        _kernel32().LocalFree(text)


def _last_error(path: str | None) -> OSError:
    get: Callable[[], int] | None = getattr(ctypes, "get_last_error", None)
    assert get is not None
    return _error(get(), path)


def _error(code: int, path: str | None) -> OSError:
    """Return the exception that Python itself raises for a Windows error: the code determines errno and class."""
    tell: Callable[[int], str] | None = getattr(ctypes, "FormatError", None)
    assert tell is not None
    return OSError(0, tell(code).strip(), path, code)


@functools.cache
def _kernel32() -> Any:
    private = ctypes.POINTER(SecurityAttributes)
    return declare(
        _load("kernel32"),
        CreateDirectoryW=(_INT, _TEXT, private),
        CreateFileW=(_ADDRESS, _TEXT, _DWORD, _DWORD, private, _DWORD, _DWORD, _ADDRESS),
        LocalFree=(_ADDRESS, _ADDRESS),
        GetCurrentProcess=(_ADDRESS,),
        CloseHandle=(_INT, _ADDRESS),
    )


@functools.cache
def _advapi32() -> Any:
    found, number = ctypes.POINTER(_ADDRESS), ctypes.POINTER(_DWORD)  # pointers for results of a call
    return declare(
        _load("advapi32"),
        ConvertStringSecurityDescriptorToSecurityDescriptorW=(_INT, _TEXT, _DWORD, found, _ADDRESS),
        GetNamedSecurityInfoW=(_DWORD, _TEXT, _INT, _DWORD, found, _ADDRESS, found, _ADDRESS, found),
        SetNamedSecurityInfoW=(_DWORD, _TEXT, _INT, _DWORD, _ADDRESS, _ADDRESS, _ADDRESS, _ADDRESS),
        SetFileSecurityW=(_INT, _TEXT, _DWORD, _ADDRESS),
        GetSecurityDescriptorControl=(_INT, _ADDRESS, ctypes.POINTER(ctypes.c_ushort), number),
        GetAce=(_INT, _ADDRESS, _DWORD, found),
        ConvertSidToStringSidW=(_INT, _ADDRESS, ctypes.POINTER(_TEXT)),
        OpenProcessToken=(_INT, _ADDRESS, _DWORD, found),
        GetTokenInformation=(_INT, _ADDRESS, _INT, _ADDRESS, _DWORD, number),
    )


def _load(name: str) -> Any:
    load: Callable[..., object] | None = getattr(ctypes, "WinDLL", None)
    assert load is not None
    return load(name, use_last_error=True)
