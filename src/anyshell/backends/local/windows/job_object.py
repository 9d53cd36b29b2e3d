"""Windows' own idea of a command's tree: a job, which whatever is started by a member is a member of."""

from __future__ import annotations

import ctypes
import sys
from ctypes import wintypes
from functools import cache
from typing import TYPE_CHECKING

assert sys.platform == "win32"

from ...._types import Usage
from . import win32

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_MEMBERS = 65_536
"""Processes of a job of Windows that are listed; a larger job is not listed at all."""

ENDED_BY_JOB = 0xE061_6E79  # no bound
"""The exit code of what we have ended: an error code (bits 31 and 30) of our own (bit 29), as winerror.h says."""

_FEW_MEMBERS = 32
"""Processes that there is room for in the first such list."""


class _BasicLimits(ctypes.Structure):
    """JOBOBJECT_BASIC_LIMIT_INFORMATION."""

    _fields_ = (
        ("per_process_user_time_limit", wintypes.LARGE_INTEGER),
        ("per_job_user_time_limit", wintypes.LARGE_INTEGER),
        ("limit_flags", wintypes.DWORD),
        ("minimum_working_set_size", ctypes.c_size_t),
        ("maximum_working_set_size", ctypes.c_size_t),
        ("active_process_limit", wintypes.DWORD),
        ("affinity", ctypes.c_size_t),
        ("priority_class", wintypes.DWORD),
        ("scheduling_class", wintypes.DWORD),
    )


class _ExtendedLimits(ctypes.Structure):
    """JOBOBJECT_EXTENDED_LIMIT_INFORMATION."""

    _fields_ = (
        ("basic", _BasicLimits),
        ("io_info", ctypes.c_ulonglong * 6),  # IO_COUNTERS
        ("process_memory_limit", ctypes.c_size_t),
        ("job_memory_limit", ctypes.c_size_t),
        ("peak_process_memory_used", ctypes.c_size_t),
        ("peak_job_memory_used", ctypes.c_size_t),
    )


class _Accounting(ctypes.Structure):
    """JOBOBJECT_BASIC_AND_IO_ACCOUNTING_INFORMATION, its times in units of 100 ns."""

    _fields_ = (
        ("total_user_time", wintypes.LARGE_INTEGER),
        ("total_kernel_time", wintypes.LARGE_INTEGER),
        ("this_period_total_user_time", wintypes.LARGE_INTEGER),
        ("this_period_total_kernel_time", wintypes.LARGE_INTEGER),
        ("total_page_fault_count", wintypes.DWORD),
        ("total_processes", wintypes.DWORD),
        ("active_processes", wintypes.DWORD),
        ("total_terminated_processes", wintypes.DWORD),
        ("io_info", ctypes.c_ulonglong * 6),  # IO_COUNTERS
    )


class JobObject:
    """A job that ends with the last handle to it, and this is the only one: with us, however we end.

    Members start others as they like, but cannot let them out: a start with CREATE_BREAKAWAY_FROM_JOB fails. A member
    that crashes ends, and shows no box that waits for a person. This process may be in a job itself; from Windows 8 on
    jobs nest.

    Args:
        memory: Bytes that each member may commit; an allocation beyond them fails.
        processes: Members at once; a start beyond them fails.
        cpu: Seconds of time in user mode of each member, which is ended then.

    Raises:
        OSError: There is no memory for it, or the limits that it needs are refused.
    """

    def __init__(
        self, memory: int | None = None, processes: int | None = None, cpu: int | None = None
    ) -> None:
        self._most = (memory, processes, cpu)
        handle = win32.kernel32.CreateJobObjectW(None, None)
        if not handle:
            raise win32.last_error()
        self._handle: int | None = handle
        try:
            self._limit(
                win32.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE | win32.JOB_OBJECT_LIMIT_DIE_ON_UNHANDLED_EXCEPTION
            )
        except OSError:
            self.close()
            raise

    def assign(self, process: int) -> None:
        """Take a process in, with all that it starts from now on.

        Args:
            process: A handle with PROCESS_SET_QUOTA and PROCESS_TERMINATE.

        Raises:
            OSError: It has ended, or is in a job that lets it into no other.
        """
        if not win32.kernel32.AssignProcessToJobObject(self._handle, process):
            raise win32.last_error()

    def members(self) -> Sequence[int]:
        """The pids of those that run.

        Raises:
            OSError: There is no memory for the list, or there are more than `MOST_MEMBERS`.
        """
        if self._handle is None:
            return ()
        room = _FEW_MEMBERS
        while True:
            found = _process_ids(room)()
            if self._query(win32.JOB_OBJECT_BASIC_PROCESS_ID_LIST, found):
                return tuple(found.pids[: found.listed])
            error = win32.last_error()
            if error.winerror != win32.ERROR_MORE_DATA or room >= MOST_MEMBERS:
                raise error
            room *= 2

    def usage(self) -> Usage | None:
        """The usage of every member, ended ones included; ``None`` where Windows does not tell it, as under Wine."""
        counted, limits = _Accounting(), _ExtendedLimits()
        if not (
            self._query(win32.JOB_OBJECT_BASIC_AND_IO_ACCOUNTING_INFORMATION, counted)
            and self._query(win32.JOB_OBJECT_EXTENDED_LIMIT_INFORMATION, limits)
        ):
            return None
        return Usage(
            how="exact",
            user=counted.total_user_time / 10_000_000,
            system=counted.total_kernel_time / 10_000_000,
            memory=limits.peak_job_memory_used or None,  # Windows need not count what has no limit
            read=counted.io_info[3],
            written=counted.io_info[4],
            processes=counted.total_processes,
        )

    def terminate(self) -> None:
        """End every member at once, with `ENDED_BY_JOB`. No member is asked, and none can refuse."""
        if self._handle is not None:
            win32.kernel32.TerminateJobObject(self._handle, ENDED_BY_JOB)

    def let_go(self) -> None:
        """Let the members live when this is closed."""
        if self._handle is not None:
            self._limit(win32.JOB_OBJECT_LIMIT_DIE_ON_UNHANDLED_EXCEPTION)

    def close(self) -> None:
        """End the members, unless they were let go. Does not wait until they are gone."""
        if self._handle is not None:
            win32.kernel32.CloseHandle(self._handle)
            self._handle = None

    def _query(self, what: int, answer: ctypes.Structure) -> bool:
        size = ctypes.sizeof(answer)
        query = win32.kernel32.QueryInformationJobObject
        return self._handle is not None and bool(query(self._handle, what, ctypes.byref(answer), size, None))

    def _limit(self, flags: int) -> None:
        limits = _ExtendedLimits()
        memory, processes, cpu = self._most
        if memory is not None:
            flags |= win32.JOB_OBJECT_LIMIT_PROCESS_MEMORY
            limits.process_memory_limit = memory
        if processes is not None:
            flags |= win32.JOB_OBJECT_LIMIT_ACTIVE_PROCESS
            limits.basic.active_process_limit = processes
        if cpu is not None:
            flags |= win32.JOB_OBJECT_LIMIT_PROCESS_TIME
            limits.basic.per_process_user_time_limit = cpu * 10_000_000  # in units of 100 ns
        limits.basic.limit_flags = flags
        if not win32.kernel32.SetInformationJobObject(
            self._handle,
            win32.JOB_OBJECT_EXTENDED_LIMIT_INFORMATION,
            ctypes.byref(limits),
            ctypes.sizeof(limits),
        ):
            raise win32.last_error()


class _ProcessIds(ctypes.Structure):
    """JOBOBJECT_BASIC_PROCESS_ID_LIST, but for its list."""

    _fields_ = (("assigned", wintypes.DWORD), ("listed", wintypes.DWORD))
    pids: ctypes.Array[ctypes.c_size_t]


@cache
def _process_ids(room: int) -> type[_ProcessIds]:
    """The structure with room for so many pids. Its sizes are few: each is twice the one before."""
    return type("ProcessIds", (_ProcessIds,), {"_fields_": (("pids", ctypes.c_size_t * room),)})
