"""The tree of a command on Linux, by what /proc and the limits of processes tell."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

assert sys.platform == "linux"

from ..._types import ProcessInfo
from .tree import MARK_PREFIX, PROCESSES_PER_TURN

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

RLIMIT_LOCKS = 10
"""``asm-generic/resource.h``. Python does not name it."""


@dataclass(slots=True)
class LinuxTree:
    """The processes of one command on Linux.

    Args:
        leader: The pid of the process that was started; also its process group and its session.
        since: A time in clock ticks since boot, at or shortly before the leader's start; what started
            earlier is no member, whatever it looks like.
        mark: The name of the variable that was put into the command's environment.
        tag: The value of the limit that is the command's own; 0 for none.
    """

    leader: int
    since: int
    mark: bytes
    tag: int

    async def members(self) -> Sequence[ProcessInfo]:
        """Every member that is alive, by group, session, tag or mark."""
        found = []
        for count, pid in enumerate(_pids(), 1):
            if count % PROCESSES_PER_TURN == 0:
                await asyncio.sleep(0)
            if self._is_member(pid) and (info := describe(pid)) is not None and info.started >= self.since:
                found.append(info)
        return found

    def _is_member(self, pid: int) -> bool:
        try:
            if os.getpgid(pid) == self.leader or os.getsid(pid) == self.leader:
                return True
            if self.tag and resource.prlimit(pid, RLIMIT_LOCKS)[0] == self.tag:
                return True
        except OSError:
            pass  # gone, or another user's: its environment says no more then, but costs little to ask
        return has_mark(pid, self.mark)

    def close(self) -> None:
        """Nothing is held."""

    def signal(self, member: ProcessInfo, number: int) -> None:
        """Signal one member through a pidfd, which cannot come to mean another process."""
        try:
            pidfd = os.pidfd_open(member.pid)
        except OSError:
            return
        try:
            info = describe(member.pid)
            if info is not None and info.started == member.started:
                signal.pidfd_send_signal(pidfd, number)
        except OSError:
            pass  # gone meanwhile, or of another user (sudo): survivors() goes on naming it
        finally:
            os.close(pidfd)


def make_tree(leader: int, *, since: int, mark: bytes, tag: int) -> LinuxTree:
    """Tag a child that was just started, and know it and what it starts from now on."""
    return LinuxTree(leader=leader, since=since, mark=mark, tag=_tag(leader, tag))


def _tag(pid: int, value: int) -> int:
    """Give a child its tag; returns 0 where that is not possible.

    Only the soft limit is set: a command of an ordinary user could not raise a hard limit again, and an
    anyshell inside it has to set its own.
    """
    try:
        resource.prlimit(pid, RLIMIT_LOCKS, (value, resource.RLIM_INFINITY))
    except (OSError, ValueError):
        return 0
    return value


def describe(pid: int) -> ProcessInfo | None:
    """Name a process by what ``/proc/PID/stat`` says; ``None`` when it is gone or a zombie."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            head, _, tail = file.read().rpartition(b")")
    except OSError:
        return None
    fields = tail.split()
    if not fields or fields[0] in (b"Z", b"X"):
        return None
    name = head.partition(b"(")[2].decode("utf-8", "replace")
    return ProcessInfo(pid=pid, name=name, started=int(fields[19]))


def now() -> int:
    """The time in the unit of start times: whole clock ticks since boot (proc(5), field 22 of stat)."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))


def start_time(pid: int) -> int:
    """When a process started, in clock ticks since boot; 0 when it is gone. A zombie still says."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[19])
    except (OSError, IndexError):
        return 0


def has_mark(pid: int, mark: bytes) -> bool:
    """Whether a process was started with a variable of that name."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            environ = file.read()
    except OSError:
        return False
    return environ.startswith(mark + b"=") or b"\0" + mark + b"=" in environ


def marked() -> Iterator[tuple[ProcessInfo, Sequence[str]]]:
    """Every live process that carries marks, of whichever anyshell, with their names."""
    for pid in _pids():
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                environ = file.read()
        except OSError:
            continue
        names = [variable.partition(b"=")[0] for variable in environ.split(b"\0")]
        marks = [name.decode() for name in names if name.startswith(MARK_PREFIX)]
        if marks and (info := describe(pid)) is not None:
            yield info, marks


def owner_lives(mark: str) -> bool:
    """Whether the anyshell that gave a mark is still there: a mark names it by pid and start time."""
    pid, _, started = mark.removeprefix(MARK_PREFIX.decode()).partition("_")
    started = started.partition("_")[0]
    return pid.isdigit() and started.isdigit() and start_time(int(pid)) == int(started)


def _pids() -> Iterator[int]:
    own = os.getpid()
    for name in os.listdir("/proc"):
        if name.isdigit() and (pid := int(name)) != own:
            yield pid


def orphans() -> list[ProcessInfo]:
    """Marked processes of which no mark names an anyshell that is still there."""
    return [info for info, marks in marked() if not any(map(owner_lives, marks))]
