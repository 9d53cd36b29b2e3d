"""What Windows knows of this program's standard descriptors, which Python's `os` does not tell there.

`os.isatty` is true of NUL as well, and `os.fstat` says the same of every pipe.
"""

from __future__ import annotations

import sys

assert sys.platform == "win32"

import ctypes
import msvcrt
from ctypes import wintypes

_kernel32 = ctypes.WinDLL("kernel32", use_last_error=True)
_kernelbase = ctypes.WinDLL("kernelbase", use_last_error=True)

_GetFileType = _kernel32.GetFileType
_GetFileType.argtypes = (wintypes.HANDLE,)
_GetFileType.restype = wintypes.DWORD

_GetConsoleMode = _kernel32.GetConsoleMode
_GetConsoleMode.argtypes = (wintypes.HANDLE, wintypes.LPDWORD)
_GetConsoleMode.restype = wintypes.BOOL

_GetOEMCP = _kernel32.GetOEMCP
_GetOEMCP.argtypes = ()
_GetOEMCP.restype = wintypes.UINT

_CompareObjectHandles = _kernelbase.CompareObjectHandles  # of Windows 10
_CompareObjectHandles.argtypes = (wintypes.HANDLE, wintypes.HANDLE)
_CompareObjectHandles.restype = wintypes.BOOL


def is_console(fd: int) -> bool:
    """Whether a descriptor is the console, on which people read and type."""
    mode = wintypes.DWORD()
    return bool(_GetConsoleMode(msvcrt.get_osfhandle(fd), ctypes.byref(mode)))


def is_pipe(fd: int) -> bool:
    """Whether a descriptor is a pipe or a socket. Waits while a process reads from it, or writes to it."""
    return bool(_GetFileType(msvcrt.get_osfhandle(fd)) == 3)  # FILE_TYPE_PIPE


def is_same(first: int, second: int) -> bool:
    """Whether two descriptors lead to the same file, pipe or console."""
    if is_console(first) and is_console(second):
        return True  # a process has but one
    return bool(_CompareObjectHandles(msvcrt.get_osfhandle(first), msvcrt.get_osfhandle(second)))


def code_page() -> int:
    """The code page that programs of this machine write in which know nothing of UTF-8."""
    return int(_GetOEMCP())
