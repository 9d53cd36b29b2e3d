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
"""Processes on Windows whose command in a session is remembered; the oldest are forgotten first."""


YOUNG_SECONDS = 0.1
"""Seconds that a process on Windows must have lived before a stop ends it: it may not be whole. A kill ends it at once."""


class Commands:
    """The commands of one persistent shell, one after the other, and the processes of its job that each has started.

    A process is its parent's command's; the current command's, when its parent is the shell, or was never seen: one that
    started and ended between two looks.

    Args:
        job: The job of the shell.
        program: The pid of what was started: the shell, or what runs it.
    """

    def __init__(self, job: JobObject, program: int) -> None:
        self._job = job
        self._program = program
        self._current = 0
        self._claims: dict[tuple[int, float], int] = {}

    def begin(self, shell: int) -> WindowsCommandTree:
        """Another command: what is there already is another's, and what comes is this one's."""
        self._look(shell)
        self._current += 1
        return WindowsCommandTree(self, self._current, shell)

    def members(self, number: int, shell: int) -> Sequence[ProcessInfo]:
        """The processes of one command that run, parents before their children.

        Raises:
            OSError: There is no memory to look.
        """
        found = (info for info in self._look(shell) if self._claims[info.pid, info.started] == number)
        return sorted(found, key=lambda info: (info.started, info.pid))

    def _look(self, shell: int) -> Sequence[ProcessInfo]:
        """Every process in the job but the shell, what runs it, and the console; each is claimed for a command."""
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
        # A parent that has ended is still known by its number, which Windows may have given to another since.
        earlier = [(started, of) for (pid, started), of in self._claims.items() if pid == parent]
        return max((each for each in earlier if each[0] <= info.started), default=(0.0, self._current))[1]


class WindowsCommandTree:
    """One command of a persistent shell, with everything that it starts."""

    tag = None
    wants_pids = False

    def __init__(self, commands: Commands, number: int, shell: int) -> None:
        self._commands = commands
        self._number = number
        self._shell = shell
        self._ended: set[tuple[int, float]] = set()
        self.mark = f"ANYSHELL_MARK_{shell:x}_{number:x}"
        """A variable that the shell has to export, so that a process can be told from outside."""

    async def may_live(self, first: int | None, last: int | None) -> bool:
        """Whether anything of it is alive."""
        try:
            return bool(await self.members())
        except OSError:  # a look that fails must not pass for an empty job
            return True

    async def members(self) -> Sequence[ProcessInfo]:
        """The living processes of the command.

        Raises:
            OSError: There is no memory to look.
        """
        return self._commands.members(self._number, self._shell)

    def hides_holder(self, held: Collection[str]) -> bool:
        """No: each process is in the job."""
        return False

    async def send_signal(self, signal: Signal) -> None:
        """End each of them, whichever signal it is."""
        try:
            members = await self.members()
        except OSError:
            return  # no member can be named now; a call of members() raises this too
        # Once each, and whole, unless it is the last word: Wine 8's server crashes when a process is ended that is still
        # being made. The caller asks again until all are gone.
        for info in members:
            key = (info.pid, info.started)
            young = time.time() - info.started < YOUNG_SECONDS
            if (signal == "kill" or not (young or key in self._ended)) and _end(*key):
                self._ended.add(key)

    async def shell_is_back(self) -> bool:
        """Return true: a text of PowerShell does not have the stream by which its host is heard."""
        return True

    def cpu(self) -> None:
        """Return ``None``: a job counts earlier commands of the shell as well."""

    async def interrupt(self) -> None:
        """Do nothing: there is no signal for that. A shell here is told."""

    async def kill_shell(self) -> None:
        """End the shell itself."""
        _end(self._shell)


def _end(pid: int, started: float | None = None) -> bool:
    """End one process, if it is the one that started then; whether that was done. It may be gone, or not ours to end."""
    try:
        with ProcessHandle(pid, win32.PROCESS_TERMINATE | win32.PROCESS_QUERY_LIMITED_INFORMATION) as process:
            if started is None or process.started == started:
                code = 1  # as the task manager has it
                return bool(win32.kernel32.TerminateProcess(process.value, code))
    except OSError:
        pass
    return False


def _keeps_the_protocol(command_tree: WindowsCommandTree) -> CommandTree:
    return command_tree
