"""The tree of a command on Linux, by what /proc and the limits of processes tell."""

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
"""Seconds of one chase of processes that fork and exit faster than a look; it blocks the loop. The kill is repeated."""

CHASE_MISSES = 3
"""Looks at the newest processes in a row without a hit, after which a chase is over."""

MOST_NEW = 256
"""Pids that are looked at one by one after a command of a session; if more were given meanwhile, every process is looked
at. By SSH, some fewer: 200."""

MOST_CLAIMS = 4096
"""Processes whose command in a session is remembered."""

LATE_SECONDS = 0.0005
"""Seconds of a start, from which on children that may have missed the tag are tagged after it. No shell is faster."""

TAG_AGAIN_SECONDS = 0.02
"""Seconds after which that is done once more: the kernel copies the limits of a parent some time before it shows the child."""


@dataclass(slots=True, eq=False, repr=False)
class LinuxTree:
    """The processes of one command on Linux.

    Args:
        leader: The pid of the process that was started; also its process group and its session. 0 is no leader.
        since: A time in clock ticks since boot, at or shortly before the leader's start. What started earlier
            is no member, whatever it looks like; it is not even looked at closely.
        mark: The name of the variable that was put into the command's environment.
        tag: The command's own, if there is room for one.
        life: The text of ``/proc/PID/fd`` for the life pipe.
        pipes: The same for everything that its processes inherit and write to: the life pipe, and pipes or a terminal.
        scan: Tells which processes live, and lends descriptors when all are in use: a tree must be found then too.
        before: For a part, the last pid before it.
        group: For a part, the process group of its shell, and so of all that has not left it.
        outside: A pid that is no member, whatever it looks like: the shell of which the tree is one command. 0 is no shell.
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
    """Whether a copy of this process has been seen to hold a pipe: that it is held then says nothing."""
    _claims: dict[int, tuple[int, bytes]] = field(default_factory=dict)
    """The part that a process was found to belong to: a pid's start and the part's mark. All parts share it."""
    _known: dict[int, int] = field(default_factory=dict)
    _strangers: dict[int, int] = field(default_factory=dict)
    _number: Literal["held", "freed", "checked", "forgotten"] = "held"
    """The state of the leader's pid: whether it may have come to mean another process, group and session."""

    def free_number(self) -> None:
        """Let the leader's number count only as long as known members hold it, in their group or session."""
        if self._number == "held":
            self._number = "freed"

    @property
    def limit(self) -> int | None:
        """The soft limit on file locks that its processes have."""
        return None if self.tag is None else self.tag.limit

    async def members(self) -> Sequence[ProcessInfo]:
        """Every member that is alive.

        By group, session, tag, mark, a held life pipe, or descent from a member; and once a member, always one.

        Raises:
            OSError: The process is out of descriptors, and so is the reserve.
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
        # A stranger stays one: tag, mark and life pipe come by inheritance alone. So it is looked at closely once.
        self._strangers = {
            pid: stat.started for pid, stat in young.items() if pid not in members and stat.known
        }
        return sorted((young[pid].info for pid in members), key=by_age)

    def _check_number(self, young: Mapping[int, ProcRow]) -> None:
        """Forget the leader's number when it is given again, or may be since no member holds it.

        The first look after the leader was reaped comes at once: a process with that number is then a member.
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
        """Whether a process can write to one of the pipes; unknown, and so no, of another user's."""
        held = False
        names = dict.fromkeys((self.life, *self.pipes))
        for name, path in [(each, path) for each in names for path in stat.descriptors.get(each, ())]:
            with suppress(OSError):
                if name == self.life and opened(path) & S_IRUSR:  # a program gets its other end alone
                    self.copied = True
                    return False
                if name not in self.pipes:  # the life pipe of a part's shell is that of all its commands
                    continue
                # Another mount of devpts has other terminals of the same names.
                held = held or not name.startswith("/dev/") or os.path.samefile(path, name)
        return held

    def _on_inner_terminals(self, young: Mapping[int, ProcRow], members: Collection[int]) -> set[int]:
        """Other processes with a terminal open that a living member has made, as sudo does by ``use_pty``.

        The process that holds the terminal's other end has made it. The terminal's name stays its own until that end is closed.
        """
        home = self.leader or self.group
        if all(young[pid].session in (home, 0) for pid in members):
            return set()  # the maker of a terminal for others has a child there, in a session of its own
        made = {terminal for pid in members for terminal in made_terminals(young[pid])}
        others = [stat for pid, stat in young.items() if pid not in members and stat.known]
        return {stat.pid for stat in others if made and not made.isdisjoint(stat.descriptors)}

    def _is_shown(self, stat: ProcRow) -> bool:
        """Whether the leader's number, the tag or the mark shows it to be a member."""
        leader = 0 if self._number == "forgotten" else self.leader
        return is_member(stat, leader=leader, tag=self.tag, mark=self.mark)

    def may_live(self) -> bool:
        """Whether a member lives among the processes that got a pid since a part began; true where these are too many.

        A process that has left the group, and has neither tag nor pipe, has made itself a daemon.
        Later processes are known by their pids alone, until pids begin anew: then there are too many.
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
        """Whether it is a child of the shell or in its group, and of no other command, if it has cleared everything."""
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
        """Signal one member through a pidfd, which cannot come to mean another process."""
        self.scan.reserve.spending(lambda: self._signal(member, number))

    def _signal(self, member: ProcessInfo, number: int) -> None:
        with open_pidfd(member.pid) as pidfd:
            stat = read_stat(member.pid)
            if stat is None or stat.started != member.started:
                return
            if not stat.known and not self._is_shown(stat):
                return  # the number has come to mean another process
            with suppress(
                ProcessLookupError, PermissionError
            ):  # another user's: survivors() goes on naming it
                if pidfd is None:
                    os.kill(member.pid, number)
                else:
                    signal.pidfd_send_signal(pidfd, number)

    def chase(self) -> None:
        """Kill what forks and exits faster than a look at all processes takes: the newest, as soon as they come.

        A chain of processes ends when its last link is killed before it has forked the next. Blocks for
        `CHASE_SECONDS` at most, and for microseconds without such a chain.
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
            # The shell of a part has its tag while it runs a command of it.
            pids = [pid for pid in latest if pid != self.outside and self.tag.marks(read_limit(pid))]
            hits = [self.scan.reserve.spending(partial(self._kill_tagged, pid)) for pid in pids]
            missed = 0 if any(hits) else missed + 1

    def _kill_tagged(self, pid: int) -> bool:
        assert self.tag is not None
        with open_pidfd(pid) as pidfd:
            # Asked again now that the pidfd is held: it is the process that the tag is read from, or a dead one.
            stat = read_stat(pid)
            if pidfd is None or stat is None or not stat.alive or not self.tag.marks(stat.limit):
                return False
            with suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            return True

    def part(self, shell: int, *, mark: bytes, number: int, pipes: Collection[str]) -> LinuxTree:
        """The processes of a part: of what a shell starts from now on, with a mark and perhaps a tag of its own.

        Args:
            shell: The shell's pid.
            mark: The name of the variable that it exports to them.
            number: The number in their tag.
            pipes: The paths of the pipes that they write to.
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
        """Whether a process but the shell can write to one of these pipes, which no member of the part can.

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
        """Device and number of what a process has at descriptor 0; ``None`` where that is not shown."""
        try:
            found = os.stat(f"/proc/{pid}/fd/0")
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def close(self) -> None:
        """Do nothing: the object holds no descriptor."""

    def describe(self) -> str:
        """All that another process needs to find the members, as words: see `restore`.

        Less its terminal: once this process has ended, another terminal may get the name.
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
    """Tag a child that was just started, and know it and what it starts from now on.

    Args:
        leader: The child.
        since: A time at or before its start, in the unit of start times.
        began: The same on the monotonic clock.
        mark: The name of a variable that it was given.
        number: The number in its tag.
        ends: The pipes, and perhaps the terminal, that it can write to; either end of each. The life pipe is first.
        scan: Shared by all trees of a backend.
    """
    tag = make_tag(number)
    if tag is not None:
        try:
            set_tag(leader, tag)
        except (OSError, ValueError):
            tag = None
        else:
            # Another thread, or another process, had the processor.
            if time.monotonic() - began > LATE_SECONDS:
                _tag_children(leader, tag)
                asyncio.get_running_loop().call_later(TAG_AGAIN_SECONDS, _tag_children, leader, tag)
    pipes = [
        f"pipe:[{state.st_ino}]" if S_ISFIFO((state := os.fstat(end)).st_mode) else os.ttyname(end)
        for end in ends
    ]
    return LinuxTree(leader=leader, since=since, mark=mark, tag=tag, life=pipes[0], pipes=pipes, scan=scan)


def restore(description: str, scan: ProcessScan) -> LinuxTree:
    """The tree of a command that another process has started, by what its `LinuxTree.describe` has told."""
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
    # Here it may have been reaped, and its number have come to mean another process.
    stat = read_stat(int(leader))
    if stat is not None and tree._is_member(stat):
        tree.leader = stat.pid
    return tree


def _tag_children(leader: int, tag: Tag) -> None:
    """Tag what a child has started before it was tagged itself, as far as that still descends from it."""
    if read_limit(leader) != tag.limit:  # it has ended
        return
    if not shows_processes():  # nor parents: what is in its session still, then
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
