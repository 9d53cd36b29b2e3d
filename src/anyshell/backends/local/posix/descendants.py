"""The tree of a command where neither limits nor environments of processes can be read: macOS."""

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
"""Seconds between two looks at a running command's descendants, on macOS."""


class DescendantTree:
    """The processes of one command where they can only be known by group, session and descent.

    A child whose parent has ended has lost its descent. So the descendants are written down now and
    then while the command runs, and count from then on.

    Args:
        leader: The pid of the process that was started; also its process group and its session.
        shell: For a part, the pid of the shell whose command it is, the leader or a child of it.
        since: For a part, its beginning, in seconds since the epoch. The whole is written down, and no part of it.
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
        """The processes of a part: of what the shell, the leader or a child of it, starts from now on.

        Neither mark nor tag nor pipes can be read here. A process that was started since belongs to it, unless its parent
        was there before.
        """
        return DescendantTree(self._leader, shell=shell, since=time.time())

    def hides_holder(self, held: Collection[str]) -> bool:
        """Return false: macOS does not show it."""
        return False

    copied = True
    """True, since macOS does not show which process holds a pipe."""

    @property
    def limit(self) -> int | None:
        """Return ``None``: macOS has no such limit."""
        return None

    async def members(self) -> Sequence[ProcessInfo]:
        """Every member that is alive, by group, session or descent."""
        young: dict[int, _Row] = {}
        before: set[int] = set()
        for count, process in enumerate(psutil.process_iter(), 1):
            if count % PROCESSES_PER_TURN == 0:
                await asyncio.sleep(0)
            if self._since and _started(process) < self._since:
                before.add(process.pid)
            elif process.pid != os.getpid() and (row := _read(process)) is not None:
                young[process.pid] = row
        # No process is a member of a part that an earlier process has started, nor are its descendants.
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
        """Do nothing: macOS does not show whether the number means others by now."""

    def may_live(self) -> bool:
        """True: that cannot be told without looking."""
        return True

    def input_of(self, pid: int) -> None:
        """Return ``None``: macOS does not show it."""

    def signal(self, member: ProcessInfo, number: int) -> None:
        """Signal one member after its start time was compared."""
        try:
            process = psutil.Process(member.pid)
            if process.create_time() == member.started:
                process.send_signal(number)
        except (psutil.Error, OSError):
            pass  # gone meanwhile, or of another user: survivors() goes on naming it

    def chase(self) -> None:
        """Do nothing: macOS does not tell the newest processes."""

    def close(self) -> None:
        """Stop writing down."""
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
    """A process as one look shows it: neither its limit nor its variables can be read here."""

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
    """The counterpart of Linux's scan for several trees; macOS has nothing to share."""

    def close(self) -> None:
        """Do nothing: the object holds no descriptor."""


class Net:
    """The counterpart of Linux's stop of commands after the end of this process; macOS has none."""

    @contextmanager
    def noting(self, since: int, mark: bytes) -> Iterator[int]:
        """Note a command that is started within."""
        yield -1

    def hold(self, place: int, tree: DescendantTree) -> None:
        """Note all by which the command's tree is known."""

    def drop(self, place: int) -> None:
        """Forget a command."""

    def close(self) -> None:
        """Do nothing: the object holds no descriptor."""


def make_tree(leader: int, **_: object) -> DescendantTree:
    """Know a child that was just started, and what it starts from now on: only its pid counts here."""
    return DescendantTree(leader)


def now() -> int:
    """The time in the unit of start times; nothing is compared with it here."""
    return 0


def own_start() -> int:
    """When this process started; marks, which would say it, cannot be read here."""
    return 0


def namespace(pid: int | str) -> int:
    """The pid namespace of a process: there is but one here."""
    return 0


def own_pid(pid: int) -> int:
    """The pid by which a process knows itself: the same, since there are no pid namespaces."""
    return pid


def open_traffic(pid: int) -> int | None:
    """The counterpart of Linux's byte counts of a child; macOS has none."""
    return None


def read_traffic(fd: int) -> tuple[int, int] | None:
    """The byte counts of a child: not known on macOS."""
    return None


def read_cpu(pid: int) -> tuple[float, float] | None:
    """Seconds that a process and those that it waited for have used: not known on macOS."""
    return None


def shares_session(leader: int) -> bool:
    """Whether a process besides its leader is in a session."""
    return any(_session(pid) == leader for pid in psutil.pids() if pid != leader)


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return 0


def orphans() -> list[ProcessInfo]:
    """Return none: orphans cannot be told without reading marks."""
    return []
