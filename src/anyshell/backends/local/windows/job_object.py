"""Job objects: Windows' own trees of processes. Each process that a member of a job starts is a member as well."""

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
"""Processes of a Windows job that are listed; listing a larger job fails."""

ENDED_BY_JOB = 0xE061_6E79  # no bound
"""The exit code of processes that anyshell has ended: an error (bits 31 and 30) with a customer code (bit 29), by winerror.h."""

_FEW_MEMBERS = 32
"""Processes that the first list has room for; the room doubles until all fit or `MOST_MEMBERS` is reached."""


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
    """JOBOBJECT_BASIC_AND_IO_ACCOUNTING_INFORMATION, with times in units of 100 ns."""

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
    """A job whose members Windows ends with the last handle to the job.

    This object has the only handle, so that the members end with this process, also when this process crashes. Members may
    start any process, but no process leaves the job: a start with CREATE_BREAKAWAY_FROM_JOB fails. A member that crashes
    ends without a dialog box that waits for a person. This process may be in a job itself: jobs nest since Windows 8.

    Args:
        memory: Bytes that each member may commit; an allocation beyond that fails.
        processes: Members at once; a start beyond that fails.
        cpu: Seconds of time in user mode for each member; then that member is ended.

    Raises:
        OSError: Out of memory, or Windows refuses the limits.
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
        """Add a process to the job, with all processes that this process starts from now on.

        Args:
            process: A handle with PROCESS_SET_QUOTA and PROCESS_TERMINATE.

        Raises:
            OSError: The process has ended, or is in a job that allows no second job.
        """
        if not win32.kernel32.AssignProcessToJobObject(self._handle, process):
            raise win32.last_error()

    def members(self) -> Sequence[int]:
        """Return the pids of the running members.

        Raises:
            OSError: Out of memory for the list, or the job has more than `MOST_MEMBERS` members.
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
        """Return the usage of all members, including ended members; ``None`` if Windows does not report it, as under Wine."""
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
            memory=limits.peak_job_memory_used
            or None,  # Windows need not count memory without a memory limit
            read=counted.io_info[3],
            written=counted.io_info[4],
            processes=counted.total_processes,
        )

    def terminate(self) -> None:
        """End all members at once, with the exit code `ENDED_BY_JOB`. No member is asked first, and no member can refuse."""
        if self._handle is not None:
            win32.kernel32.TerminateJobObject(self._handle, ENDED_BY_JOB)

    def let_go(self) -> None:
        """Let the members live on after `close`."""
        if self._handle is not None:
            self._limit(win32.JOB_OBJECT_LIMIT_DIE_ON_UNHANDLED_EXCEPTION)

    def close(self) -> None:
        """Close the job, which ends the members unless `let_go` was called. Does not wait until the members are gone."""
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
    """JOBOBJECT_BASIC_PROCESS_ID_LIST, without the list of pids."""

    _fields_ = (("assigned", wintypes.DWORD), ("listed", wintypes.DWORD))
    pids: ctypes.Array[ctypes.c_size_t]


@cache
def _process_ids(room: int) -> type[_ProcessIds]:
    """Return the structure type with room for `room` pids. There are few sizes: each is twice the previous size."""
    return type("ProcessIds", (_ProcessIds,), {"_fields_": (("pids", ctypes.c_size_t * room),)})
