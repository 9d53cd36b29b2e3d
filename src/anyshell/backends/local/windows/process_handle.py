"""A handle to a process on this Windows machine. While the handle is open, Windows gives the pid to no other process."""

from __future__ import annotations

import ctypes
import ntpath
import sys
from ctypes import wintypes
from typing import TYPE_CHECKING

assert sys.platform == "win32"

from ...._types import ProcessInfo
from . import win32

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import TracebackType

_BETWEEN_EPOCHS = 11_644_473_600  # no bound
"""Seconds from 1601, where Windows' time starts, to 1970."""

_CONSOLE = "conhost.exe"

UNNAMED = "unknown"
"""The name of a process whose name cannot be read. If the start time can be read, the process has just begun, or is about
to end."""

TO_LOOK = win32.PROCESS_QUERY_LIMITED_INFORMATION | win32.SYNCHRONIZE
"""The access rights to query a process's identity and whether the process runs."""

TO_OWN = TO_LOOK | win32.PROCESS_SET_QUOTA | win32.PROCESS_TERMINATE
"""The access rights of `TO_LOOK`, and those to put a process into a job."""


class ProcessHandle:
    """A handle to a process.

    Args:
        pid: The process's pid.
        access: The requested access rights.

    Raises:
        OSError: No process has that number (winerror 87), or access is denied (5).
    """

    def __init__(self, pid: int, access: int = TO_LOOK) -> None:
        handle = win32.kernel32.OpenProcess(access, False, pid)
        if not handle:
            raise win32.last_error()
        self.value: int = handle

    def __enter__(self) -> ProcessHandle:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def running(self) -> bool:
        """Whether the process has not ended yet."""
        return bool(win32.kernel32.WaitForSingleObject(self.value, 0))

    def wait(self) -> None:
        """Block this thread until the process has ended."""
        win32.kernel32.WaitForSingleObject(self.value, win32.INFINITE)

    @property
    def exit_code(self) -> int:
        """The exit code, once the process has ended: 32 bits without a sign.

        Raises:
            OSError: The process cannot be queried.
        """
        code = wintypes.DWORD()
        if not win32.kernel32.GetExitCodeProcess(self.value, ctypes.byref(code)):
            raise win32.last_error()
        return code.value

    @property
    def name(self) -> str:
        """The name of the process's program, as in the task manager: ``pwsh.exe``.

        Raises:
            OSError: The process cannot be queried.
        """
        path = ctypes.create_unicode_buffer(win32.LONGEST_PATH)
        size = wintypes.DWORD(win32.LONGEST_PATH)
        if not win32.kernel32.QueryFullProcessImageNameW(self.value, 0, path, ctypes.byref(size)):
            raise win32.last_error()
        return ntpath.basename(path.value)

    @property
    def started(self) -> float:
        """The start time of the process, in seconds since the epoch.

        Raises:
            OSError: The process cannot be queried.
        """
        return _seconds(self._times()[0]) - _BETWEEN_EPOCHS

    @property
    def cpu(self) -> float:
        """Seconds of CPU time that the process has used.

        Raises:
            OSError: The process cannot be queried.
        """
        _, _, kernel, user = self._times()
        return _seconds(kernel) + _seconds(user)

    def close(self) -> None:
        """Close the handle. Must be called only once."""
        win32.kernel32.CloseHandle(self.value)

    def _times(self) -> list[wintypes.FILETIME]:
        times = [wintypes.FILETIME() for _ in range(4)]
        if not win32.kernel32.GetProcessTimes(self.value, *map(ctypes.byref, times)):
            raise win32.last_error()
        return times


def running(pids: Iterable[int]) -> Sequence[ProcessInfo]:
    """Describe the running processes among these pids, without console hosts. Windows ends a console host with its last user."""
    found = (_describe(pid) for pid in pids)
    return [info for info in found if info is not None and info.name.lower() != _CONSOLE]


def _describe(pid: int) -> ProcessInfo | None:
    """Describe a member of a job; ``None`` if the process has ended."""
    try:
        process = ProcessHandle(pid)
    except OSError as error:
        if error.winerror == win32.ERROR_INVALID_PARAMETER:  # the process no longer exists
            return None
        return ProcessInfo(pid, "unknown", 0.0)  # the process has more rights than this process
    with process:
        # Before `running`: a process that ends between the two calls would otherwise be alive and have no name.
        name = _name(process)
        return ProcessInfo(pid, name, process.started) if process.running else None


def _name(process: ProcessHandle) -> str:
    try:
        return process.name
    except OSError:  # the process has just begun, or is about to end
        return UNNAMED


def _seconds(time: wintypes.FILETIME) -> float:
    return (time.dwHighDateTime << 32 | time.dwLowDateTime) / 1e7
