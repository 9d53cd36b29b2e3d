"""The processes of a Windows job that belong to one command of a persistent shell."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import psutil

assert sys.platform == "win32"

from . import win32
from .process_handle import ProcessHandle, running

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ...._types import ProcessInfo, Signal
    from ....abc import CommandTree
    from .job_object import JobObject

MOST_CLAIMS = 4096
"""Processes on Windows whose command in a session is remembered; beyond that, the oldest ended processes are forgotten."""


YOUNG_SECONDS = 0.1
"""Seconds that a process on Windows must have lived before a stop ends it: a younger process may still be under construction.
A kill ends a process at once."""


class Commands:
    """The successive commands of one persistent shell, and the processes of the shell's job that each command has started.

    A process belongs to the command of its parent. A process belongs to the current command if its parent is the shell, or
    was never seen, because the parent started and ended between two scans.

    Args:
        job: The job of the shell.
        program: The pid of the started program: the shell, or a program that runs the shell.
    """

    def __init__(self, job: JobObject, program: int) -> None:
        self._job = job
        self._program = program
        self._current = 0
        self._claims: dict[tuple[int, float], int] = {}

    def begin(self, shell: int) -> WindowsCommandTree:
        """Begin the next command: running processes belong to earlier commands, new processes to this command."""
        self._look(shell)
        self._current += 1
        return WindowsCommandTree(self, self._current, shell)

    def members(self, number: int, shell: int) -> Sequence[ProcessInfo]:
        """Return the running processes of one command, parents before their children.

        Raises:
            OSError: Out of memory for the scan.
        """
        found = (info for info in self._look(shell) if self._claims[info.pid, info.started] == number)
        return sorted(found, key=lambda info: (info.started, info.pid))

    def _look(self, shell: int) -> Sequence[ProcessInfo]:
        """Return the job's processes without the shell, the program that runs the shell, and console hosts.

        Each new process is assigned to a command.
        """
        members = running(pid for pid in self._job.members() if pid not in (shell, self._program))
        for info in sorted(members, key=lambda info: info.started):
            key = (info.pid, info.started)
            if key not in self._claims:
                self._claims[key] = self._whose(info)
        for key in tuple(self._claims)[: max(0, len(self._claims) - MOST_CLAIMS)]:
            if all(key != (info.pid, info.started) for info in members):
                del self._claims[key]
        return members

    def _whose(self, info: ProcessInfo) -> int:
        try:
            parent = psutil.Process(info.pid).ppid()
        except psutil.Error:
            return self._current
        # A parent that has ended is still known by its pid. Windows may have given the pid to a later process, so the last
        # claim before this process's start counts.
        earlier = [(started, of) for (pid, started), of in self._claims.items() if pid == parent]
        return max((each for each in earlier if each[0] <= info.started), default=(0.0, self._current))[1]


class WindowsCommandTree:
    """One command of a persistent shell, with all processes that the command starts."""

    tag = None
    wants_pids = False

    def __init__(self, commands: Commands, number: int, shell: int) -> None:
        self._commands = commands
        self._number = number
        self._shell = shell
        self._ended: set[tuple[int, float]] = set()
        self.mark = f"ANYSHELL_MARK_{shell:x}_{number:x}"
        """The variable that the shell must export, so that the command's processes are recognizable from outside."""

    async def may_live(self, first: int | None, last: int | None) -> bool:
        """Whether any process of the command is alive."""
        try:
            return bool(await self.members())
        except OSError:  # a failed scan must not pass for an empty job
            return True

    async def members(self) -> Sequence[ProcessInfo]:
        """The living processes of the command.

        Raises:
            OSError: Out of memory for the scan.
        """
        return self._commands.members(self._number, self._shell)

    def hides_holder(self, held: Collection[str]) -> bool:
        """Return false: every process is in the job."""
        return False

    async def send_signal(self, signal: Signal) -> None:
        """End each process of the command, whatever the signal."""
        try:
            members = await self.members()
        except OSError:
            return  # the members are unknown now; a call of members() raises the same error
        # Unless the signal is "kill", end each process only once, and only when it is old enough: Wine 8's server crashes
        # when a process is ended that is still being made. The caller repeats the signal until all processes are gone.
        for info in members:
            key = (info.pid, info.started)
            young = time.time() - info.started < YOUNG_SECONDS
            if (signal == "kill" or not (young or key in self._ended)) and _end(*key):
                self._ended.add(key)

    async def shell_is_back(self) -> bool:
        """Return true: a text of PowerShell does not have the stream on which the host program reports a command's end."""
        return True

    def cpu(self) -> None:
        """Return ``None``: a job's CPU time includes earlier commands of the shell."""

    async def interrupt(self) -> None:
        """Do nothing: Windows has no such signal. A shell on Windows is interrupted by a line that anyshell sends."""

    async def kill_shell(self) -> None:
        """End the shell itself."""
        _end(self._shell)


def _end(pid: int, started: float | None = None) -> bool:
    """End a process, if `started` is its start time or ``None``; return whether that was done.

    The process may be gone, or may belong to another user.
    """
    try:
        with ProcessHandle(pid, win32.PROCESS_TERMINATE | win32.PROCESS_QUERY_LIMITED_INFORMATION) as process:
            if started is None or process.started == started:
                code = 1  # the exit code that the task manager uses
                return bool(win32.kernel32.TerminateProcess(process.value, code))
    except OSError:
        pass
    return False


def _keeps_the_protocol(command_tree: WindowsCommandTree) -> CommandTree:
    return command_tree
