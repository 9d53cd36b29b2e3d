"""The tree of a command on Linux, found by /proc and by the limits of processes."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from stat import S_IRUSR, S_ISFIFO, S_IWUSR
from typing import TYPE_CHECKING, Literal

assert sys.platform == "linux"

from ....tree import TAG_BITS, UNLIMITED, Tag, descendants, is_member
from ..tree import PROCESSES_PER_TURN, by_age
from .proc import (
    UNKNOWN_PID,
    ask_living,
    list_pids,
    made_terminals,
    now,
    open_pidfd,
    opened,
    read_descriptors,
    read_stat,
    read_stats,
    shows_processes,
)
from .scan import NEWEST
from .tags import make_tag, read_limit, set_tag

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from ....._types import ProcessInfo
    from .proc import ProcRow
    from .scan import ProcessScan

CHASE_SECONDS = 0.01
"""Seconds for one chase of processes that fork and exit faster than a scan; then the chase ends, and the caller repeats the
kill. A chase blocks the event loop."""

CHASE_MISSES = 3
"""Checks of the newest processes in a row without a hit, after which a chase ends."""

MOST_NEW = 256
"""Pids that are examined one by one after a command of a session; if the kernel has given more meanwhile, every process is
examined. By SSH the number is 200."""

MOST_CLAIMS = 4096
"""Processes whose command in a session is remembered; beyond that the oldest claims are forgotten."""

LATE_SECONDS = 0.0005
"""Seconds that a start may take; after a longer start, the program's children that may have missed the tag are tagged as
well. No shell starts a child sooner."""

TAG_AGAIN_SECONDS = 0.02
"""Seconds after which the children of a late start are tagged once more: the kernel copies a parent's limits some time before
/proc shows the child."""


@dataclass(slots=True, eq=False, repr=False)
class LinuxTree:
    """The processes of one command on Linux.

    Args:
        leader: The pid of the started process, which is also the number of the process group and session. 0 means no leader.
        since: A time in clock ticks since boot, at or shortly before the leader's start. A process that started earlier is
            never a member, and is not examined further.
        mark: The name of the variable that was put into the command's environment.
        tag: The command's tag; ``None`` where no tag is free.
        life: The name of the life pipe in ``/proc/PID/fd``.
        pipes: The names in ``/proc/PID/fd`` of everything that the command's processes inherit and write to: the life pipe,
            and pipes or a terminal.
        scan: The source of living processes, and of reserved descriptors when no other descriptor is free.
        before: For a part, the newest pid before the part's start.
        group: For a part, the process group of the part's shell, and of the shell's descendants that have not left the group.
        outside: A pid that is never a member: for a part, the shell that runs the part's command. 0 means no shell.
    """

    leader: int
    since: int
    mark: bytes
    tag: Tag | None
    life: str
    pipes: Collection[str]
    scan: ProcessScan
    before: int = 0
    group: int = 0
    outside: int = 0
    copied: bool = False
    """Whether a copy of this process has been seen to hold a pipe: a held pipe then shows nothing about the tree."""
    _claims: dict[int, tuple[int, bytes]] = field(default_factory=dict)
    """The part that each process belongs to: the start time and the part's mark, by pid. All parts share this mapping."""
    _known: dict[int, int] = field(default_factory=dict)
    _strangers: dict[int, int] = field(default_factory=dict)
    _number: Literal["held", "freed", "checked", "forgotten"] = "held"
    """The state of the leader's pid, as process, group and session number.

    ``held``: the leader is not reaped. ``freed``: the leader was reaped. ``checked``: a member of the last scan may still
    hold the number. ``forgotten``: the number may belong to other processes, and no longer counts.
    """

    def free_number(self) -> None:
        """Record that the leader was reaped: its number now counts only while a known member has that group or session."""
        if self._number == "held":
            self._number = "freed"

    @property
    def limit(self) -> int | None:
        """The soft limit on file locks of the command's processes; ``None`` without a tag."""
        return None if self.tag is None else self.tag.limit

    async def members(self) -> Sequence[ProcessInfo]:
        """Return the living members.

        A process is a member by group, session, tag, mark, a held pipe, an inner terminal, or descent from a member. A member
        of the last scan stays a member.

        Raises:
            OSError: This process is out of descriptors, even of reserved ones.
        """
        young = {
            stat.pid: stat
            for stat in await self.scan.take(self.since, self.leader or self.group)
            if (stat.started >= self.since or not stat.known) and stat.pid != self.outside
        }
        self._check_number(young)
        members: set[int] = set()
        for count, stat in enumerate(young.values(), 1):
            if self.scan.reserve.spending(partial(self._is_member, stat)):
                members.add(stat.pid)
            if count % PROCESSES_PER_TURN == 0:
                await asyncio.sleep(0)
        if self.outside:
            members |= {stat.pid for stat in young.values() if self._is_of_the_shell(stat)}
        members |= descendants(young, members)
        if held := self.scan.reserve.spending(partial(self._on_inner_terminals, young, members)):
            members |= held | descendants(young, members | held)
        if self.outside:
            self._claim(young, members)
        self._known = {pid: young[pid].started for pid in members}
        # A process that is not a member never becomes a member, because tag, mark and life pipe are only inherited. So each
        # stranger is examined only once.
        self._strangers = {
            pid: stat.started for pid, stat in young.items() if pid not in members and stat.known
        }
        return sorted((young[pid].info for pid in members), key=by_age)

    def _check_number(self, young: Mapping[int, ProcRow]) -> None:
        """Forget the leader's number when a new process has it, or when no known member has it as group or session.

        The first scan after the reaping comes at once, too early for a new group of that number. So in that scan, a process
        with that group or session counts as a member.
        """
        if self._number in ("freed", "checked"):
            held = self._number == "freed" or any(
                self._known.get(stat.pid) == stat.started and self.leader in (stat.group, stat.session)
                for stat in young.values()
            )
            self._number = "checked" if held and self.leader not in young else "forgotten"

    def _is_member(self, stat: ProcRow) -> bool:
        if self._known.get(stat.pid) == stat.started and stat.known:
            return True
        if self._strangers.get(stat.pid) == stat.started:
            return False
        return self._is_shown(stat) or (stat.known and self._holds_a_pipe(stat))

    def _holds_a_pipe(self, stat: ProcRow) -> bool:
        """Whether a process can write to one of the pipes. False for another user's process, whose descriptors are unknown."""
        held = False
        names = dict.fromkeys((self.life, *self.pipes))
        for name, path in [(each, path) for each in names for path in stat.descriptors.get(each, ())]:
            with suppress(OSError):
                # A program gets only the writing end, so a holder of the reading end is a copy of this process.
                if name == self.life and opened(path) & S_IRUSR:
                    self.copied = True
                    return False
                if name not in self.pipes:  # all commands of a shell inherit the shell's life pipe
                    continue
                # Another mount of devpts has other terminals with the same names.
                held = held or not name.startswith("/dev/") or os.path.samefile(path, name)
        return held

    def _on_inner_terminals(self, young: Mapping[int, ProcRow], members: Collection[int]) -> set[int]:
        """Return the other processes with an open terminal that a living member has made, as sudo does with ``use_pty``.

        The process that holds a terminal's master end has made the terminal. The terminal's name is not reused until the
        master end is closed.
        """
        home = self.leader or self.group
        if all(young[pid].session in (home, 0) for pid in members):
            return set()  # a maker of terminals has a child on its terminal, in another session
        made = {terminal for pid in members for terminal in made_terminals(young[pid])}
        others = [stat for pid, stat in young.items() if pid not in members and stat.known]
        return {stat.pid for stat in others if made and not made.isdisjoint(stat.descriptors)}

    def _is_shown(self, stat: ProcRow) -> bool:
        """Whether the leader's number, the tag or the mark shows that a process is a member."""
        leader = 0 if self._number == "forgotten" else self.leader
        return is_member(stat, leader=leader, tag=self.tag, mark=self.mark)

    def may_live(self) -> bool:
        """Whether a member lives among the processes that got a pid since the part began; true if there are too many new pids.

        A process that has left the group has made itself a daemon, and does not count. Only the pids between the part's first
        and the newest are examined. If pids have wrapped around, there are too many.
        """
        spending = self.scan.reserve.spending
        newest = spending(self.scan.newest_pid)
        if newest == UNKNOWN_PID or not 0 <= newest - self.before <= MOST_NEW:
            return True
        if newest == self.before:
            return False
        look = read_stats if shows_processes() else ask_living
        new = [stat for stat in spending(partial(look, range(self.before + 1, newest + 1))) if stat.alive]
        return any(
            stat.pid != self.outside
            and stat.group == self.group
            and (spending(partial(self._is_member, stat)) or self._is_of_the_shell(stat))
            for stat in new
        )

    def _is_of_the_shell(self, stat: ProcRow) -> bool:
        """Whether a process that has cleared tag, mark and pipes still belongs to the part.

        The process must be the shell's child, or in the shell's group and session, and must belong to no other part.
        """
        if stat.parent != self.outside and (stat.group != self.group or stat.session != self.group):
            return False
        for pid in (stat.pid, stat.parent):
            started, mark = self._claims.get(pid, (stat.started, self.mark))
            if mark != self.mark and (pid != stat.pid or started == stat.started):
                return False
        if self.tag is not None and Tag(self.tag.limit, TAG_BITS).marks(stat.limit):
            return False
        return stat.parent == self.outside or not stat.has_variable(self.mark.rpartition(b"_")[0] + b"_")

    def _claim(self, young: Mapping[int, ProcRow], members: Collection[int]) -> None:
        for pid, (started, _) in tuple(self._claims.items()):
            if pid in young and young[pid].started != started:
                del self._claims[pid]
        for pid in members:
            self._claims[pid] = (young[pid].started, self.mark)
        while len(self._claims) > MOST_CLAIMS:
            del self._claims[next(iter(self._claims))]

    def signal(self, member: ProcessInfo, number: int) -> None:
        """Signal one member through a pidfd, which never refers to another process, even if the pid is reused."""
        self.scan.reserve.spending(lambda: self._signal(member, number))

    def _signal(self, member: ProcessInfo, number: int) -> None:
        with open_pidfd(member.pid) as pidfd:
            stat = read_stat(member.pid)
            if stat is None or stat.started != member.started:
                return
            if not stat.known and not self._is_shown(stat):
                return  # the pid belongs to another process now
            # Another user's process cannot be signalled; survivors() still returns it.
            with suppress(ProcessLookupError, PermissionError):
                if pidfd is None:
                    os.kill(member.pid, number)
                else:
                    signal.pidfd_send_signal(pidfd, number)

    def chase(self) -> None:
        """Kill processes that fork and exit faster than a full scan, by checking only the newest pids, again and again.

        A chain of processes ends when its last process is killed before that process forks. Blocks for at most
        `CHASE_SECONDS`, and for microseconds if there is no chain.
        """
        if self.tag is None:
            return
        give_up = time.monotonic() + CHASE_SECONDS
        missed = 0
        while missed < CHASE_MISSES and time.monotonic() < give_up:
            newest = self.scan.reserve.spending(self.scan.newest_pid)
            if newest != UNKNOWN_PID:
                latest: Iterable[int] = range(newest, max(newest - NEWEST, 1), -1)
            elif shows_processes():
                latest = self.scan.reserve.spending(list_pids)
            else:
                return
            # The shell of a part has the part's tag while the shell runs the part's command.
            pids = [pid for pid in latest if pid != self.outside and self.tag.marks(read_limit(pid))]
            hits = [self.scan.reserve.spending(partial(self._kill_tagged, pid)) for pid in pids]
            missed = 0 if any(hits) else missed + 1

    def _kill_tagged(self, pid: int) -> bool:
        assert self.tag is not None
        with open_pidfd(pid) as pidfd:
            # Read again with the pidfd open: now the tag belongs to the pidfd's process, unless that process has ended.
            stat = read_stat(pid)
            if pidfd is None or stat is None or not stat.alive or not self.tag.marks(stat.limit):
                return False
            with suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            return True

    def part(self, shell: int, *, mark: bytes, number: int, pipes: Collection[str]) -> LinuxTree:
        """Return the tree of a part: the processes that a shell starts from now on, with a mark and perhaps a tag.

        Args:
            shell: The shell's pid.
            mark: The name of the variable that the shell exports to the processes.
            number: The number in the tag of the processes.
            pipes: The paths of the pipes that the processes write to.
        """
        tag = None if self.tag is None else self.tag.part(number)
        return LinuxTree(
            leader=0,
            since=now(),
            mark=mark,
            tag=tag,
            life=self.life,
            pipes=pipes,
            scan=self.scan,
            before=self.scan.reserve.spending(self.scan.newest_pid),
            group=self.leader,
            outside=shell,
            _claims=self._claims,
        )

    def hides_holder(self, held: Collection[str]) -> bool:
        """Whether a process other than the shell can write to one of these pipes, to which no member of the part can write.

        Raises:
            OSError: Out of descriptors, even of reserved ones.
        """
        return not self.copied and not self.scan.reserve.spending(self._held_by_shell).issuperset(held)

    def _held_by_shell(self) -> set[str]:
        held = set()
        for name, paths in read_descriptors(f"/proc/{self.outside}").items():
            with suppress(OSError):
                if any(opened(path) & S_IWUSR for path in paths):
                    held.add(name)
        return held

    def input_of(self, pid: int) -> tuple[int, int] | None:
        """Return the device and inode of a process's descriptor 0; ``None`` where /proc does not show the descriptor."""
        try:
            found = os.stat(f"/proc/{pid}/fd/0")
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def close(self) -> None:
        """Do nothing: the object holds no descriptor."""

    def describe(self) -> str:
        """Return the words from which another process can find the members by `restore`.

        The terminal is left out: after the end of this process, another terminal may get the name.
        """
        tag = self.tag or Tag(0, 0)
        pipes = " ".join(pipe for pipe in self.pipes if pipe.startswith("pipe:"))
        return f"{self.leader} {self.since} {self.mark.decode()} {tag.limit} {tag.shift} {pipes}"


def make_tree(
    leader: int,
    *,
    since: int,
    began: float,
    mark: bytes,
    number: int,
    ends: Sequence[int],
    scan: ProcessScan,
) -> LinuxTree:
    """Tag a child that was just started; return the tree of the child and of the processes that it starts from now on.

    Args:
        leader: The child's pid.
        since: A time at or before the child's start, in the unit of start times.
        began: The same time on the monotonic clock.
        mark: The name of the variable that marks the child.
        number: The number in the child's tag.
        ends: Descriptors of the pipes, and perhaps of the terminal, that the child can write to: either end of each. The
            life pipe is first.
        scan: The scan that all trees of a backend share.
    """
    tag = make_tag(number)
    if tag is not None:
        try:
            set_tag(leader, tag)
        except (OSError, ValueError):
            tag = None
        else:
            # The start was slow, because another thread or process had the CPU: the child may have children already.
            if time.monotonic() - began > LATE_SECONDS:
                _tag_children(leader, tag)
                asyncio.get_running_loop().call_later(TAG_AGAIN_SECONDS, _tag_children, leader, tag)
    pipes = [
        f"pipe:[{state.st_ino}]" if S_ISFIFO((state := os.fstat(end)).st_mode) else os.ttyname(end)
        for end in ends
    ]
    return LinuxTree(leader=leader, since=since, mark=mark, tag=tag, life=pipes[0], pipes=pipes, scan=scan)


def restore(description: str, scan: ProcessScan) -> LinuxTree:
    """Return the tree of a command that another process has started, from the result of that process's `LinuxTree.describe`."""
    leader, since, mark, limit, shift, *pipes = description.split()
    tree = LinuxTree(
        leader=0,
        since=int(since),
        mark=mark.encode(),
        tag=Tag(int(limit), int(shift)) if int(limit) else None,
        life=pipes[0],
        pipes=pipes,
        scan=scan,
    )
    # The leader may have been reaped, and its pid may belong to another process: check the tag, mark and pipes first.
    stat = read_stat(int(leader))
    if stat is not None and tree._is_member(stat):
        tree.leader = stat.pid
    return tree


def _tag_children(leader: int, tag: Tag) -> None:
    """Tag the descendants that a child has started before its own tag was set, if they are still visible as descendants."""
    if read_limit(leader) != tag.limit:  # the child has ended
        return
    # Without /proc, parents are not shown either: tag the processes that are still in the child's session.
    if not shows_processes():
        for pid in range(leader + 1, leader + NEWEST):
            with suppress(OSError, ValueError):
                if os.getsid(pid) == leader and read_limit(pid) == UNLIMITED:
                    set_tag(pid, tag)
        return
    waiting, looked = [leader], 0
    while waiting and looked < NEWEST:
        pid, looked = waiting.pop(), looked + 1
        with suppress(OSError, ValueError):  # gone meanwhile, or a kernel without CONFIG_PROC_CHILDREN
            for thread in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                    children = [int(child) for child in file.read().split()]
                for child in children:
                    waiting.append(child)
                    if read_limit(child) == UNLIMITED:
                        set_tag(child, tag)
