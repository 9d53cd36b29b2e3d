"""Windows functions that Python does not wrap, with the declarations of Microsoft's documentation."""

from __future__ import annotations

import ctypes
import sys
from ctypes.wintypes import (
    BOOL,
    DWORD,
    FILETIME,
    HANDLE,
    LPCVOID,
    LPCWSTR,
    LPDWORD,
    LPHANDLE,
    LPVOID,
    LPWSTR,
    MAX_PATH,
    PUSHORT,
    UINT,
    USHORT,
)

assert sys.platform == "win32"

from ...._win32 import declare

ERROR_INVALID_PARAMETER = 87
ERROR_BROKEN_PIPE = 109
ERROR_PIPE_NOT_CONNECTED = 233
ERROR_FILENAME_EXCED_RANGE = 206
ERROR_MORE_DATA = 234
ERROR_OPERATION_ABORTED = 995

INFINITE = 0xFFFF_FFFF

GENERIC_READ = 0x8000_0000
GENERIC_WRITE = 0x4000_0000
OPEN_EXISTING = 3
INVALID_HANDLE_VALUE = ctypes.c_void_p(-1).value

DUPLICATE_SAME_ACCESS = 2

PROCESS_TERMINATE = 0x0001
PROCESS_DUP_HANDLE = 0x0040
PROCESS_SET_QUOTA = 0x0100
PROCESS_QUERY_LIMITED_INFORMATION = 0x1000
SYNCHRONIZE = 0x0010_0000

CREATE_SUSPENDED = 0x0000_0004

JOB_OBJECT_BASIC_PROCESS_ID_LIST = 3  # JOBOBJECTINFOCLASS
JOB_OBJECT_BASIC_AND_IO_ACCOUNTING_INFORMATION = 8
JOB_OBJECT_EXTENDED_LIMIT_INFORMATION = 9
JOB_OBJECT_LIMIT_PROCESS_TIME = 0x0002
JOB_OBJECT_LIMIT_ACTIVE_PROCESS = 0x0008
JOB_OBJECT_LIMIT_PROCESS_MEMORY = 0x0100
JOB_OBJECT_LIMIT_DIE_ON_UNHANDLED_EXCEPTION = 0x0400
JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE = 0x2000

LONGEST_COMMAND_LINE = 32_767
"""UTF-16 units of a command line, including the NUL at its end (CreateProcessW); a longer one cannot be started."""

LONGEST_DIRECTORY = 258
"""UTF-16 units of the path of a program's working directory (CreateProcessW: MAX_PATH, with a backslash and the NUL at its
end). Windows accepts longer paths elsewhere, but not here."""

LONGEST_PATH = 32_767
"""Characters of a path, including the NUL at its end."""

LONGEST_USER_NAME = 257
"""Characters of a user's name, including the NUL at its end (lmcons.h, UNLEN)."""

kernel32 = declare(
    ctypes.WinDLL("kernel32", use_last_error=True),
    AssignProcessToJobObject=(BOOL, HANDLE, HANDLE),
    CancelIoEx=(BOOL, HANDLE, LPVOID),
    CloseHandle=(BOOL, HANDLE),
    CreateFileW=(HANDLE, LPCWSTR, DWORD, DWORD, LPVOID, DWORD, DWORD, HANDLE),
    CreateJobObjectW=(HANDLE, LPVOID, LPCWSTR),
    DuplicateHandle=(BOOL, HANDLE, HANDLE, HANDLE, LPHANDLE, DWORD, BOOL, DWORD),
    GetCurrentProcess=(HANDLE,),
    GetExitCodeProcess=(BOOL, HANDLE, LPDWORD),
    GetOEMCP=(UINT,),
    GetProcessId=(DWORD, HANDLE),
    GetProcessTimes=(BOOL, HANDLE, *(ctypes.POINTER(FILETIME),) * 4),
    GetSystemWindowsDirectoryW=(UINT, LPWSTR, UINT),
    IsWow64Process2=(BOOL, HANDLE, PUSHORT, PUSHORT),
    OpenProcess=(HANDLE, DWORD, BOOL, DWORD),
    QueryFullProcessImageNameW=(BOOL, HANDLE, DWORD, LPWSTR, LPDWORD),
    QueryInformationJobObject=(BOOL, HANDLE, ctypes.c_int, LPVOID, DWORD, LPDWORD),
    ReadFile=(BOOL, HANDLE, LPVOID, DWORD, LPDWORD, LPVOID),
    SetInformationJobObject=(BOOL, HANDLE, ctypes.c_int, LPVOID, DWORD),
    TerminateJobObject=(BOOL, HANDLE, UINT),
    TerminateProcess=(BOOL, HANDLE, UINT),
    WaitForSingleObject=(DWORD, HANDLE, DWORD),
    WriteFile=(BOOL, HANDLE, LPCVOID, DWORD, LPDWORD, LPVOID),
)
_advapi32 = declare(ctypes.WinDLL("advapi32", use_last_error=True), GetUserNameW=(BOOL, LPWSTR, LPDWORD))

_ARCHITECTURES = {0x014C: "x86", 0x8664: "AMD64", 0xAA64: "ARM64"}
"""The values of PROCESSOR_ARCHITECTURE, by the constants IMAGE_FILE_MACHINE_… of winnt.h."""


def last_error() -> OSError:
    """Return the error of the call that has just failed."""
    return ctypes.WinError(ctypes.get_last_error())


def units(text: str) -> int:
    """Return the length of a text in UTF-16 units, in which Windows counts."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def windows_directory() -> str:
    r"""Return the directory of Windows, such as ``C:\Windows``.

    Raises:
        OSError: Windows does not tell the directory.
    """
    path = ctypes.create_unicode_buffer(MAX_PATH)
    if not kernel32.GetSystemWindowsDirectoryW(path, MAX_PATH):
        raise last_error()
    return path.value


def native_architecture() -> str:
    """Return the machine's own architecture, even if this process is emulated for another architecture.

    Raises:
        OSError: Windows does not tell the architecture.
    """
    process, native = USHORT(), USHORT()
    if not kernel32.IsWow64Process2(
        kernel32.GetCurrentProcess(), ctypes.byref(process), ctypes.byref(native)
    ):
        raise last_error()
    return _ARCHITECTURES.get(native.value, f"machine {native.value:#x}")


def user_name() -> str:
    """Return the name of the user that this process runs as.

    Raises:
        OSError: Windows does not tell the name.
    """
    name = ctypes.create_unicode_buffer(LONGEST_USER_NAME)
    if not _advapi32.GetUserNameW(name, ctypes.byref(DWORD(LONGEST_USER_NAME))):
        raise last_error()
    return name.value
