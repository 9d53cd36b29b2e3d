"""The tree of a command on macOS, where neither the limits nor the environments of processes can be read."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

assert sys.platform != "win32"

import psutil

from ...._types import ProcessInfo
from ...tree import UNLIMITED, descendants, is_member
from .tree import PROCESSES_PER_TURN, by_age

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

RECORD_SECONDS = 1.0
"""Seconds between two scans for a running command's descendants, on macOS."""


class DescendantTree:
    """The processes of one command, known only by group, session and descent.

    A child whose parent has ended is no longer visible as a descendant. So the descendants are recorded at intervals while
    the command runs, and recorded processes stay members.

    Args:
        leader: The pid of the started process, which is also the number of the process group and session.
        shell: For a part, the pid of the shell that runs the part's command: the leader, or a child of the leader.
        since: For a part, the part's start in seconds since the epoch; 0 for a whole tree. Descendants are recorded only for
            a whole tree.
    """

    def __init__(self, leader: int, *, shell: int = 0, since: float = 0.0) -> None:
        self._leader = leader
        self._shell = shell
        self._since = since
        self._seen: dict[int, float] = {}
        self._recording: asyncio.Task[None] | None = None
        if not since:
            self._recording = asyncio.get_running_loop().create_task(self._record())

    def part(self, shell: int, *, mark: bytes, number: int, pipes: Collection[str]) -> DescendantTree:
        """Return the tree of a part: the processes that the shell, the leader or a child of the leader, starts from now on.

        Neither mark nor tag nor pipes can be read on macOS. A new process belongs to the part, unless the process's parent
        is older than the part.
        """
        return DescendantTree(self._leader, shell=shell, since=time.time())

    def hides_holder(self, held: Collection[str]) -> bool:
        """Return false: macOS does not show which process holds a pipe."""
        return False

    copied = True
    """True, since macOS does not show which process holds a pipe."""

    @property
    def limit(self) -> int | None:
        """The tag; always ``None``, because macOS has no limit for tags."""
        return None

    async def members(self) -> Sequence[ProcessInfo]:
        """Return the living members, by group, session or descent."""
        young: dict[int, _Row] = {}
        before: set[int] = set()
        for count, process in enumerate(psutil.process_iter(), 1):
            if count % PROCESSES_PER_TURN == 0:
                await asyncio.sleep(0)
            if self._since and _started(process) < self._since:
                before.add(process.pid)
            elif process.pid != os.getpid() and (row := _read(process)) is not None:
                young[process.pid] = row
        # For a part: children of processes older than the part, and their descendants, are not members. The exceptions are
        # children of the leader, of the shell, and of pid 1, which adopts orphans.
        home = {self._leader, self._shell} - {0}
        others = {pid for pid, row in young.items() if row.parent in before - home and row.parent > 1}
        for pid in others | descendants(young, others):
            del young[pid]
        members = {
            pid for pid, row in young.items() if is_member(row, leader=self._leader) or self._was_seen(pid)
        }
        members |= descendants(young, members | home)
        found = []
        for process in (young[pid].process for pid in members):
            with suppress(psutil.Error):
                if process.status() != psutil.STATUS_ZOMBIE:
                    self._seen[process.pid] = process.create_time()
                    found.append(ProcessInfo(process.pid, process.name(), process.create_time()))
        return sorted(found, key=by_age)

    def free_number(self) -> None:
        """Do nothing: macOS does not show whether the number belongs to another process group now."""

    def may_live(self) -> bool:
        """Return true: only a scan could tell."""
        return True

    def input_of(self, pid: int) -> None:
        """Return ``None``: macOS does not show descriptors."""

    def signal(self, member: ProcessInfo, number: int) -> None:
        """Signal one member right after a comparison of the member's start time."""
        try:
            process = psutil.Process(member.pid)
            if process.create_time() == member.started:
                process.send_signal(number)
        except (psutil.Error, OSError):
            pass  # the process is gone, or another user's, which survivors() still returns

    def chase(self) -> None:
        """Do nothing: macOS does not show the newest pid."""

    def close(self) -> None:
        """Stop recording descendants."""
        if self._recording is not None:
            self._recording.cancel()

    async def _record(self) -> None:
        while True:
            await self.members()
            await asyncio.sleep(RECORD_SECONDS)

    def _was_seen(self, pid: int) -> bool:
        try:
            return pid in self._seen and psutil.Process(pid).create_time() == self._seen[pid]
        except psutil.Error:
            return False


@dataclass(frozen=True, slots=True)
class _Row:
    """A process as one scan shows it, without limit and variables, which macOS does not show."""

    process: psutil.Process
    parent: int
    group: int
    session: int
    limit: int = UNLIMITED

    @property
    def pid(self) -> int:
        return self.process.pid

    def has_mark(self, mark: bytes) -> bool:
        return False


def _read(process: psutil.Process) -> _Row | None:
    try:
        return _Row(process, process.ppid(), os.getpgid(process.pid), os.getsid(process.pid))
    except (psutil.Error, OSError):
        return None


def _started(process: psutil.Process) -> float:
    try:
        return process.create_time()
    except psutil.Error:
        return 0.0


class ProcessScan:
    """The counterpart of Linux's shared scan; macOS has nothing to share."""

    def close(self) -> None:
        """Do nothing: the object holds no descriptor."""


class Net:
    """The counterpart of Linux's net, which stops commands after the end of this process; macOS has no net."""

    @contextmanager
    def noting(self, since: int, mark: bytes) -> Iterator[int]:
        """Record nothing, and yield -1 as the command's place."""
        yield -1

    def hold(self, place: int, tree: DescendantTree) -> None:
        """Do nothing: there is no net to note the tree in."""

    def drop(self, place: int) -> None:
        """Do nothing: no command is noted."""

    def close(self) -> None:
        """Do nothing: the object holds no descriptor."""


def make_tree(leader: int, **_: object) -> DescendantTree:
    """Return the tree of a child that was just started. Only the child's pid is used; Linux uses the other arguments."""
    return DescendantTree(leader)


def now() -> int:
    """Return 0 instead of the time in the unit of start times, which macOS trees do not use."""
    return 0


def own_start() -> int:
    """Return 0 instead of this process's start time for marks: macOS does not show marks."""
    return 0


def namespace(pid: int | str) -> int:
    """Return 0 for the pid namespace of every process: macOS has only one."""
    return 0


def own_pid(pid: int) -> int:
    """Return `pid`: without pid namespaces, a process has only one pid."""
    return pid


def open_traffic(pid: int) -> int | None:
    """Return ``None``: macOS has no byte counts of a child."""
    return None


def read_traffic(fd: int) -> tuple[int, int] | None:
    """Return ``None``: macOS does not show the byte counts of a child."""
    return None


def read_cpu(pid: int) -> tuple[float, float] | None:
    """Return ``None``: macOS does not show the CPU seconds of a process with the children it waited for."""
    return None


def shares_session(leader: int) -> bool:
    """Whether a session has a process other than its leader."""
    return any(_session(pid) == leader for pid in psutil.pids() if pid != leader)


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return 0


def orphans() -> list[ProcessInfo]:
    """Return no processes: orphans can be found only by marks, which macOS does not show."""
    return []
