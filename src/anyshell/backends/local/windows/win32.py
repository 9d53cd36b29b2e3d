"""The functions of Windows that Python has no name for, each as Microsoft's documentation declares it."""

from __future__ import annotations

import ctypes
import sys
from ctypes import wintypes

assert sys.platform == "win32"

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
JOB_OBJECT_EXTENDED_LIMIT_INFORMATION = 9
JOB_OBJECT_LIMIT_DIE_ON_UNHANDLED_EXCEPTION = 0x0400
JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE = 0x2000

LONGEST_COMMAND_LINE = 32_767
"""UTF-16 units of a command line, the NUL at its end included (CreateProcessW)."""

LONGEST_DIRECTORY = 258
"""UTF-16 units of the path of a directory that a program is started in (CreateProcessW: MAX_PATH, with a backslash and the
NUL at its end), whatever longer paths Windows takes elsewhere."""

LONGEST_PATH = 32_767
"""Characters of a path, the NUL at its end included."""

LONGEST_USER_NAME = 257
"""Characters of a user's name, the NUL at its end included (lmcons.h, UNLEN)."""

_kernel32 = ctypes.WinDLL("kernel32", use_last_error=True)

CloseHandle = _kernel32.CloseHandle
CloseHandle.argtypes = (wintypes.HANDLE,)
CloseHandle.restype = wintypes.BOOL

OpenProcess = _kernel32.OpenProcess
OpenProcess.argtypes = (wintypes.DWORD, wintypes.BOOL, wintypes.DWORD)
OpenProcess.restype = wintypes.HANDLE

WaitForSingleObject = _kernel32.WaitForSingleObject
WaitForSingleObject.argtypes = (wintypes.HANDLE, wintypes.DWORD)
WaitForSingleObject.restype = wintypes.DWORD

GetProcessId = _kernel32.GetProcessId
GetProcessId.argtypes = (wintypes.HANDLE,)
GetProcessId.restype = wintypes.DWORD

GetExitCodeProcess = _kernel32.GetExitCodeProcess
GetExitCodeProcess.argtypes = (wintypes.HANDLE, wintypes.LPDWORD)
GetExitCodeProcess.restype = wintypes.BOOL

GetProcessTimes = _kernel32.GetProcessTimes
GetProcessTimes.argtypes = (wintypes.HANDLE, *(ctypes.POINTER(wintypes.FILETIME),) * 4)
GetProcessTimes.restype = wintypes.BOOL

QueryFullProcessImageNameW = _kernel32.QueryFullProcessImageNameW
QueryFullProcessImageNameW.argtypes = (wintypes.HANDLE, wintypes.DWORD, wintypes.LPWSTR, wintypes.LPDWORD)
QueryFullProcessImageNameW.restype = wintypes.BOOL

GetOEMCP = _kernel32.GetOEMCP
GetOEMCP.argtypes = ()
GetOEMCP.restype = wintypes.UINT

CreateFileW = _kernel32.CreateFileW
CreateFileW.argtypes = (
    wintypes.LPCWSTR,
    wintypes.DWORD,
    wintypes.DWORD,
    wintypes.LPVOID,
    wintypes.DWORD,
    wintypes.DWORD,
    wintypes.HANDLE,
)
CreateFileW.restype = wintypes.HANDLE

ReadFile = _kernel32.ReadFile
ReadFile.argtypes = (wintypes.HANDLE, wintypes.LPVOID, wintypes.DWORD, wintypes.LPDWORD, wintypes.LPVOID)
ReadFile.restype = wintypes.BOOL

WriteFile = _kernel32.WriteFile
WriteFile.argtypes = (wintypes.HANDLE, wintypes.LPCVOID, wintypes.DWORD, wintypes.LPDWORD, wintypes.LPVOID)
WriteFile.restype = wintypes.BOOL

CancelIoEx = _kernel32.CancelIoEx
CancelIoEx.argtypes = (wintypes.HANDLE, wintypes.LPVOID)
CancelIoEx.restype = wintypes.BOOL

CreateJobObjectW = _kernel32.CreateJobObjectW
CreateJobObjectW.argtypes = (wintypes.LPVOID, wintypes.LPCWSTR)
CreateJobObjectW.restype = wintypes.HANDLE

AssignProcessToJobObject = _kernel32.AssignProcessToJobObject
AssignProcessToJobObject.argtypes = (wintypes.HANDLE, wintypes.HANDLE)
AssignProcessToJobObject.restype = wintypes.BOOL

SetInformationJobObject = _kernel32.SetInformationJobObject
SetInformationJobObject.argtypes = (wintypes.HANDLE, ctypes.c_int, wintypes.LPVOID, wintypes.DWORD)
SetInformationJobObject.restype = wintypes.BOOL

QueryInformationJobObject = _kernel32.QueryInformationJobObject
QueryInformationJobObject.argtypes = (
    wintypes.HANDLE,
    ctypes.c_int,
    wintypes.LPVOID,
    wintypes.DWORD,
    wintypes.LPDWORD,
)
QueryInformationJobObject.restype = wintypes.BOOL

TerminateJobObject = _kernel32.TerminateJobObject
TerminateJobObject.argtypes = (wintypes.HANDLE, wintypes.UINT)
TerminateJobObject.restype = wintypes.BOOL

TerminateProcess = _kernel32.TerminateProcess
TerminateProcess.argtypes = (wintypes.HANDLE, wintypes.UINT)
TerminateProcess.restype = wintypes.BOOL

DuplicateHandle = _kernel32.DuplicateHandle
DuplicateHandle.argtypes = (
    wintypes.HANDLE,
    wintypes.HANDLE,
    wintypes.HANDLE,
    wintypes.LPHANDLE,
    wintypes.DWORD,
    wintypes.BOOL,
    wintypes.DWORD,
)
DuplicateHandle.restype = wintypes.BOOL

GetSystemWindowsDirectoryW = _kernel32.GetSystemWindowsDirectoryW
GetSystemWindowsDirectoryW.argtypes = (wintypes.LPWSTR, wintypes.UINT)
GetSystemWindowsDirectoryW.restype = wintypes.UINT

GetCurrentProcess = _kernel32.GetCurrentProcess
GetCurrentProcess.argtypes = ()
GetCurrentProcess.restype = wintypes.HANDLE

IsWow64Process2 = _kernel32.IsWow64Process2
IsWow64Process2.argtypes = (wintypes.HANDLE, wintypes.PUSHORT, wintypes.PUSHORT)
IsWow64Process2.restype = wintypes.BOOL

GetUserNameW = ctypes.WinDLL("advapi32", use_last_error=True).GetUserNameW
GetUserNameW.argtypes = (wintypes.LPWSTR, wintypes.LPDWORD)
GetUserNameW.restype = wintypes.BOOL

_ARCHITECTURES = {0x014C: "x86", 0x8664: "AMD64", 0xAA64: "ARM64"}
"""What PROCESSOR_ARCHITECTURE would be, by winnt.h's IMAGE_FILE_MACHINE_…."""


def last_error() -> OSError:
    """The error of the call that has just failed."""
    return ctypes.WinError(ctypes.get_last_error())


def units(text: str) -> int:
    """How long Windows finds a text: in units of UTF-16."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def windows_directory() -> str:
    r"""Where Windows is, such as ``C:\Windows``.

    Raises:
        OSError: It cannot be told.
    """
    path = ctypes.create_unicode_buffer(wintypes.MAX_PATH)
    if not GetSystemWindowsDirectoryW(path, wintypes.MAX_PATH):
        raise last_error()
    return path.value


def native_architecture() -> str:
    """The machine's own architecture, though this process may be another's that it emulates.

    Raises:
        OSError: It cannot be told.
    """
    process, native = wintypes.USHORT(), wintypes.USHORT()
    if not IsWow64Process2(GetCurrentProcess(), ctypes.byref(process), ctypes.byref(native)):
        raise last_error()
    return _ARCHITECTURES.get(native.value, f"machine {native.value:#x}")


def user_name() -> str:
    """The name of the user that this process runs as.

    Raises:
        OSError: It cannot be told.
    """
    name = ctypes.create_unicode_buffer(LONGEST_USER_NAME)
    if not GetUserNameW(name, ctypes.byref(wintypes.DWORD(LONGEST_USER_NAME))):
        raise last_error()
    return name.value
