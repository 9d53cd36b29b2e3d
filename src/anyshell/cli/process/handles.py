"""Facts about this program's standard descriptors and console on Windows that Python's `os` does not have.

`os.isatty` is true for NUL as well, and `os.fstat` returns the same for every pipe.
"""

from __future__ import annotations

import sys

assert sys.platform == "win32"

import ctypes
import msvcrt
from ctypes.wintypes import BOOL, DWORD, HANDLE, LPDWORD, UINT

from ..._win32 import declare

_kernel32 = declare(
    ctypes.WinDLL("kernel32", use_last_error=True),
    GetConsoleMode=(BOOL, HANDLE, LPDWORD),
    GetFileType=(DWORD, HANDLE),
    GetOEMCP=(UINT,),
    SetConsoleMode=(BOOL, HANDLE, DWORD),
)
_kernelbase = declare(
    ctypes.WinDLL("kernelbase", use_last_error=True),
    CompareObjectHandles=(BOOL, HANDLE, HANDLE),  # since Windows 10
)


def console_mode(fd: int) -> int | None:
    """Return the mode of the console that a descriptor leads to; ``None`` if the descriptor leads to no console."""
    mode = DWORD()
    return mode.value if _kernel32.GetConsoleMode(msvcrt.get_osfhandle(fd), ctypes.byref(mode)) else None


def set_console_mode(fd: int, mode: int) -> None:
    """Set the mode of a console; do nothing if the console refuses the mode."""
    _kernel32.SetConsoleMode(msvcrt.get_osfhandle(fd), mode)


def is_console(fd: int) -> bool:
    """Whether a descriptor is the console, on which people read and type."""
    return console_mode(fd) is not None


def is_pipe(fd: int) -> bool:
    """Whether a descriptor is a pipe or a socket. The call waits while a process reads from or writes to the descriptor."""
    return bool(_kernel32.GetFileType(msvcrt.get_osfhandle(fd)) == 3)  # FILE_TYPE_PIPE


def is_same(first: int, second: int) -> bool:
    """Whether two descriptors lead to the same file, pipe or console."""
    if is_console(first) and is_console(second):
        return True  # a process has only one console
    return bool(_kernelbase.CompareObjectHandles(msvcrt.get_osfhandle(first), msvcrt.get_osfhandle(second)))


def code_page() -> int:
    """Return the code page in which programs without support for UTF-8 write on this machine."""
    return int(_kernel32.GetOEMCP())
