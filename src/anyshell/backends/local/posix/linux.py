"""The tree of a command on Linux, by what /proc and the limits of processes tell."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import select
import signal
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from stat import S_IRUSR, S_IWUSR
from typing import TYPE_CHECKING, Literal

assert sys.platform == "linux"

from ...._types import ProcessInfo
from .tree import PROCESSES_PER_TURN, Reserve, by_age

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

RLIMIT_LOCKS = 10  # no bound
"""``asm-generic/resource.h``. Python does not name it."""


GATHER_SECONDS = 0.002
"""Seconds for which a look at all processes waits for other tasks that want one, and then share it."""


CATCH_UPS = 20
"""Times, at most, that a look at all processes goes after those that came meanwhile."""

NEWEST = 64
"""Pids, the newest, that are looked at each of these times when a process forks without end."""

CHASE_SECONDS = 0.01
"""Seconds of one chase of processes that fork and exit faster than a look; it blocks the loop. The kill is repeated."""

CHASE_MISSES = 3
"""Looks at the newest processes in a row without a hit, after which a chase is over."""


MOST_NEW = 256
"""Pids that are looked at one by one after a command of a session; if more were given meanwhile, every process is looked
at. By SSH, some fewer: 200."""

MOST_CLAIMS = 4096
"""Processes whose command in a session is remembered."""

TAG_BITS = 31  # no bound
"""Bits of a tag. The limit holds two: that of a command, and that of a command of an anyshell inside it."""

LATE_SECONDS = 0.0005
"""Seconds of a start, from which on children that may have missed the tag are tagged after it. No shell is faster."""

_ENDED = (b"Z", b"X")
"""States of a thread that has ended (proc(5), field 3 of stat)."""

_NEVER = (-1, sys.maxsize)
"""What is known of a process that was at no look."""

ASKED_PER_TURN = 1024
"""Numbers tried one by one before other tasks get a turn; less than a millisecond, since few are given."""

UNKNOWN_PID = -1
"""Instead of the newest pid, where /proc does not tell it."""

UNLIMITED = -1
"""How Python shows a limit that nobody has set."""

MOST_ASKED = 65536
"""Pids after a command's first, and before it or the newest, that are tried where /proc does not show processes."""

UNKNOWN_START = -1
"""The start of a process that /proc does not show."""

NOT_PERMITTED = -2
"""Instead of a limit: it is another user's, and only ``/proc/PID/limits`` tells."""


@dataclass(frozen=True, slots=True)
class Tag:
    """The value of a limit that is a command's own.

    Attributes:
        limit: What the command's processes have, and those of an anyshell inside it have with lower bits set.
        shift: How many lower bits belong to an anyshell inside.
    """

    limit: int
    shift: int

    @classmethod
    def make(cls, number: int) -> Tag | None:
        """Make the tag of a command; ``None`` inside an anyshell inside an anyshell, where there is no room."""
        own, _ = resource.getrlimit(RLIMIT_LOCKS)
        value = number % (2**TAG_BITS - 1) + 1
        if own == UNLIMITED:
            return cls(value << TAG_BITS, TAG_BITS)
        if own >> TAG_BITS and not own % 2**TAG_BITS:
            return cls(own | value, 0)
        return None

    def marks(self, limit: int) -> bool:
        """Whether a process with that limit is the command's."""
        return limit > 0 and limit >> self.shift == self.limit >> self.shift

    def part(self, number: int) -> Tag | None:
        """Make the tag of a part of the command; ``None`` where there is no room for one."""
        if self.shift == 0:
            return None
        return Tag(self.limit | number % (2**TAG_BITS - 1) + 1, 0)


@dataclass(slots=True)
class Stat:
    """What ``/proc/PID/stat`` says of a process (proc(5)), and what else was read of it at the same look.

    What costs more is read when it is first asked for, and shared by all who share the look.
    """

    pid: int
    name: str
    state: bytes
    parent: int
    group: int
    session: int
    started: int
    threads: int
    _limit: int | None = None
    _environ: bytes | None = None
    _descriptors: Mapping[str, Sequence[str]] | None = None

    @property
    def limit(self) -> int:
        """Its soft limit on file locks."""
        if self._limit is None:
            self._limit = _read_limit(self.pid)
            if self._limit == NOT_PERMITTED:
                self._limit = _limit_of_another_user(self.pid) if self.known else 0
        return self._limit

    def has_tag(self, tag: Tag) -> bool:
        """Whether the process carries a tag."""
        return tag.marks(self.limit)

    @property
    def known(self) -> bool:
        """Whether /proc shows it, rather than system calls alone."""
        return self.started != UNKNOWN_START

    def has_mark(self, mark: bytes) -> bool:
        """Whether the process was started with a variable of that name."""
        return self.has_variable(mark + b"=")

    def has_variable(self, beginning: bytes) -> bool:
        """Whether it was started with a variable that begins so."""
        return b"\0" + beginning in self.variables

    @property
    def variables(self) -> bytes:
        """The variables that it was started with, each after a NUL byte; none where these may not be read."""
        if self._environ is None:
            self._environ = b"\0" + _environ(self.directory) if self.known else b""
        return self._environ

    @property
    def descriptors(self) -> Mapping[str, Sequence[str]]:
        """What its descriptors are open to, and by which paths each; nothing where these may not be read."""
        if self._descriptors is None:
            self._descriptors = _descriptors(self.directory)
        return self._descriptors

    @property
    def alive(self) -> bool:
        """Whether a thread of it runs, sleeps or is stopped.

        A process whose first thread has ended is shown as a zombie as long as another thread lives.
        """
        return self.state not in _ENDED or self.threads > 1

    @property
    def directory(self) -> str:
        """Where /proc shows the environment and the descriptors, which an ended thread does not have any more."""
        if self.state in _ENDED:
            with suppress(OSError):
                for thread in os.listdir(f"/proc/{self.pid}/task"):
                    if int(thread) != self.pid:
                        return f"/proc/{self.pid}/task/{thread}"
        return f"/proc/{self.pid}"

    @property
    def info(self) -> ProcessInfo:
        """The process as the rest of anyshell knows it."""
        return ProcessInfo(pid=self.pid, name=self.name, started=self.started)


class Census:
    """Looks at the processes, once for all who ask at about the same time.

    What is old is not read again. A process that /proc lists under the number and the inode of an earlier look is the
    same process, since the kernel gives each directory of a process an inode number of its own; and so it is known to
    have started before what is looked for.
    """

    def __init__(self) -> None:
        self.reserve = Reserve()
        self._waiting: asyncio.Task[list[Stat]] | None = None
        self._since = 0
        self._first = 0
        self._seen: dict[int, tuple[int, int]] = {}
        """Of every process at the last look: the inode of its directory, and its start."""

    async def take(self, since: int, first: int) -> list[Stat]:
        """Every process but this one that is alive at some moment between the call and the return, and started then.

        Args:
            since: The earliest start, in clock ticks since boot. Earlier ones may be among what is returned.
            first: A pid that was given at about that time: where /proc shows nothing, numbers are tried from it on.

        Raises:
            OSError: This process is out of descriptors, and so is the reserve.
        """
        waiting = self._waiting
        # One that is done was cancelled before it began, as asyncio.run() cancels everything at its end.
        if waiting is None or waiting.done() or waiting.get_loop() is not asyncio.get_running_loop():
            self._since, self._first = since, first
            waiting = self._waiting = asyncio.ensure_future(self._look())
        else:
            self._since, self._first = min(since, self._since), min(first, self._first)
        return await asyncio.shield(waiting)

    async def _look(self) -> list[Stat]:
        await asyncio.sleep(GATHER_SECONDS)
        self._waiting = None  # whoever asks from now on may have changed what this look will miss
        since = self._since
        newest = self.reserve.spending(_newest_pid)
        if not shows_processes():
            return await self._ask(self._first, newest)
        listed = self.reserve.spending(_pids)
        seen = {
            pid: entry for pid, inode in listed.items() if (entry := self._seen.get(pid, _NEVER))[0] == inode
        }
        found = await self._read([pid for pid in listed if seen.get(pid, _NEVER)[1] >= since], listed, seen)
        # Who forks and exits all the time is gone before it is looked at, and its child was not listed. So look at
        # the newest until there are no newer ones, which takes microseconds.
        for _ in range(CATCH_UPS):
            if newest == UNKNOWN_PID:
                before, listed = listed, self.reserve.spending(_pids)
                new = [pid for pid, inode in listed.items() if before.get(pid) != inode]
            else:
                last, newest = newest, self.reserve.spending(_newest_pid)
                new = [] if newest == last else [*range(max(last + 1, newest - NEWEST), newest + 1)]
            if not new:
                break
            found += await self._read(new, listed, seen)
        self._seen = seen
        return found

    async def _read(
        self, pids: list[int], listed: Mapping[int, int], seen: dict[int, tuple[int, int]]
    ) -> list[Stat]:
        """Read what is not known to be old, and write down when it started."""
        found: list[Stat] = []
        for at in range(0, len(pids), PROCESSES_PER_TURN):
            if at:
                await asyncio.sleep(0)
            for stat in self.reserve.spending(partial(_read_all, pids[at : at + PROCESSES_PER_TURN])):
                if (inode := listed.get(stat.pid)) is not None:
                    seen[stat.pid] = inode, stat.started
                if stat.alive:
                    found.append(stat)
        return found

    async def _ask(self, first: int, newest: int) -> list[Stat]:
        """Try the numbers that may have been given since a pid.

        Pids begin anew behind the largest. Where that is small, they may have done so more than once, and the newest says
        nothing: then every number is tried.
        """
        limit = self.reserve.spending(_pid_limit)
        first = max(first, 1)  # of a leader that was reaped nothing is known
        last, before = first + MOST_ASKED, first - 1
        if limit > MOST_ASKED and newest != UNKNOWN_PID:
            last, before = (newest, 0) if newest >= first else (last, newest)
        last = min(last, first + MOST_ASKED, limit - 1)
        numbers = *range(max(before - MOST_ASKED, 0) + 1, before + 1), *range(first, last + 1)
        found: list[Stat] = []
        for at in range(0, len(numbers), ASKED_PER_TURN):
            found += self.reserve.spending(partial(_ask_living, numbers[at : at + ASKED_PER_TURN]))
            await asyncio.sleep(0)
        return found


@dataclass(slots=True)
class LinuxTree:
    """The processes of one command on Linux.

    Args:
        leader: The pid of the process that was started; also its process group and its session. 0 is none.
        since: A time in clock ticks since boot, at or shortly before the leader's start. What started earlier
            is no member, whatever it looks like; it is not even looked at closely.
        mark: The name of the variable that was put into the command's environment.
        tag: The command's own, if there is room for one.
        life: What ``/proc/PID/fd`` shows for the life pipe.
        pipes: The same for everything that its processes inherit and write to: the life pipe, and pipes or a terminal.
        census: Tells who is alive, and lends descriptors when there are none left: a tree must be found then too.
        before: Of a part: the pid that was given last before it.
        group: Of a part: the process group of its shell, and so of all that has not left it.
        outside: A pid that is no member, whatever it looks like: the shell of which the tree is one command. 0 is none.
    """

    leader: int
    since: int
    mark: bytes
    tag: Tag | None
    life: str
    pipes: Collection[str]
    census: Census
    before: int = 0
    group: int = 0
    outside: int = 0
    copied: bool = False
    """Whether a copy of this process has been seen to hold a pipe: that it is held then says nothing."""
    _claims: dict[int, tuple[int, bytes]] = field(default_factory=dict)
    """Who was found to belong to which part: a pid's start and the part's mark. All parts share it."""
    _known: dict[int, int] = field(default_factory=dict)
    _strangers: dict[int, int] = field(default_factory=dict)
    _number: Literal["held", "freed", "checked", "forgotten"] = "held"
    """What is known of the leader's pid: whether it may have come to mean another process, group and session."""

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
            for stat in await self.census.take(self.since, self.leader or self.group)
            if (stat.started >= self.since or not stat.known) and stat.pid != self.outside
        }
        self._check_number(young)
        members: set[int] = set()
        for count, stat in enumerate(young.values(), 1):
            if self.census.reserve.spending(partial(self._is_member, stat)):
                members.add(stat.pid)
            if count % PROCESSES_PER_TURN == 0:
                await asyncio.sleep(0)
        if self.outside:
            members |= {stat.pid for stat in young.values() if self._is_of_the_shell(stat)}
        members |= descendants(young, members)
        if held := self.census.reserve.spending(partial(self._on_inner_terminals, young, members)):
            members |= held | descendants(young, members | held)
        if self.outside:
            self._claim(young, members)
        self._known = {pid: young[pid].started for pid in members}
        # A stranger stays one: tag, mark and life pipe come by inheritance alone. So it is looked at closely once.
        self._strangers = {
            pid: stat.started for pid, stat in young.items() if pid not in members and stat.known
        }
        return sorted((young[pid].info for pid in members), key=by_age)

    def _check_number(self, young: Mapping[int, Stat]) -> None:
        """Forget the leader's number when it is given again, or may be since no member holds it.

        The first look after the leader was reaped comes at once: whoever has the number then is a member.
        """
        if self._number in ("freed", "checked"):
            held = self._number == "freed" or any(
                self._known.get(stat.pid) == stat.started and self.leader in (stat.group, stat.session)
                for stat in young.values()
            )
            self._number = "checked" if held and self.leader not in young else "forgotten"

    def _is_member(self, stat: Stat) -> bool:
        if self._known.get(stat.pid) == stat.started and stat.known:
            return True
        if self._strangers.get(stat.pid) == stat.started:
            return False
        if self._is_shown_by_calls(stat):
            return True
        return stat.known and (stat.has_mark(self.mark) or self._holds_a_pipe(stat))

    def _holds_a_pipe(self, stat: Stat) -> bool:
        """Whether a process can write to one of the pipes; unknown, and so no, of another user's."""
        held = False
        names = dict.fromkeys((self.life, *self.pipes))
        for name, path in [(each, path) for each in names for path in stat.descriptors.get(each, ())]:
            with suppress(OSError):
                if name == self.life and _opened(path) & S_IRUSR:  # a program gets its other end alone
                    self.copied = True
                    return False
                if name not in self.pipes:  # the life pipe of a part's shell is that of all its commands
                    continue
                # Another mount of devpts has other terminals of the same names.
                held = held or not name.startswith("/dev/") or os.path.samefile(path, name)
        return held

    def _on_inner_terminals(self, young: Mapping[int, Stat], members: Collection[int]) -> set[int]:
        """Other processes with a terminal open that a living member has made, as sudo does by ``use_pty``.

        The process that holds the terminal's other end has made it. The terminal's name stays its own until that end is closed.
        """
        home = self.leader or self.group
        if all(young[pid].session in (home, 0) for pid in members):
            return set()  # who has made a terminal for others has a child there, in a session of its own
        made = {terminal for pid in members for terminal in _made_terminals(young[pid])}
        others = [stat for pid, stat in young.items() if pid not in members and stat.known]
        return {stat.pid for stat in others if made and not made.isdisjoint(stat.descriptors)}

    def _is_shown_by_calls(self, stat: Stat) -> bool:
        """Whether group, session or tag show it to be a member, for which /proc is not needed."""
        numbered = self.leader and self._number != "forgotten"
        if numbered and self.leader in (stat.pid, stat.group, stat.session):
            return True
        return self.tag is not None and stat.has_tag(self.tag)

    def may_live(self) -> bool:
        """Whether a member lives among those who were given a pid since a part began; true where these are too many.

        One that has left the group, and has nothing of ours, has made itself a daemon.
        Who came after a pid is told by the pid alone, until pids begin anew: then there are too many.
        """
        spending = self.census.reserve.spending
        newest = spending(_newest_pid)
        if newest == UNKNOWN_PID or not 0 <= newest - self.before <= MOST_NEW:
            return True
        look = _read_all if shows_processes() else _ask_living
        new = [stat for stat in spending(partial(look, range(self.before + 1, newest + 1))) if stat.alive]
        return any(
            stat.pid != self.outside
            and stat.group == self.group
            and (spending(partial(self._is_member, stat)) or self._is_of_the_shell(stat))
            for stat in new
        )

    def _is_of_the_shell(self, stat: Stat) -> bool:
        """Whether it is a child of the shell or in its group, and of no other command, if it has cleared everything."""
        if stat.parent != self.outside and (stat.group != self.group or stat.session != self.group):
            return False
        for pid in (stat.pid, stat.parent):
            started, mark = self._claims.get(pid, (stat.started, self.mark))
            if mark != self.mark and (pid != stat.pid or started == stat.started):
                return False
        if self.tag is not None and stat.has_tag(Tag(self.tag.limit, TAG_BITS)):
            return False
        return stat.parent == self.outside or not stat.has_variable(self.mark.rpartition(b"_")[0] + b"_")

    def _claim(self, young: Mapping[int, Stat], members: Collection[int]) -> None:
        for pid, (started, _) in tuple(self._claims.items()):
            if pid in young and young[pid].started != started:
                del self._claims[pid]
        for pid in members:
            self._claims[pid] = (young[pid].started, self.mark)
        while len(self._claims) > MOST_CLAIMS:
            del self._claims[next(iter(self._claims))]

    def signal(self, member: ProcessInfo, number: int) -> None:
        """Signal one member through a pidfd, which cannot come to mean another process."""
        self.census.reserve.spending(lambda: self._signal(member, number))

    def _signal(self, member: ProcessInfo, number: int) -> None:
        with _pidfd(member.pid) as pidfd:
            stat = read_stat(member.pid)
            if stat is None or stat.started != member.started:
                return
            if not stat.known and not self._is_shown_by_calls(stat):
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
        `CHASE_SECONDS` at most, and for microseconds where there is nobody to chase.
        """
        if self.tag is None:
            return
        give_up = time.monotonic() + CHASE_SECONDS
        missed = 0
        while missed < CHASE_MISSES and time.monotonic() < give_up:
            newest = self.census.reserve.spending(_newest_pid)
            if newest != UNKNOWN_PID:
                latest: Iterable[int] = range(newest, max(newest - NEWEST, 1), -1)
            elif shows_processes():
                latest = self.census.reserve.spending(_pids)
            else:
                return
            # The shell of a part has its tag while it runs a command of it.
            pids = [pid for pid in latest if pid != self.outside and self.tag.marks(_read_limit(pid))]
            hits = [self.census.reserve.spending(partial(self._kill_tagged, pid)) for pid in pids]
            missed = 0 if any(hits) else missed + 1

    def _kill_tagged(self, pid: int) -> bool:
        assert self.tag is not None
        with _pidfd(pid) as pidfd:
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
            number: What their tag is made of.
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
            census=self.census,
            before=self.census.reserve.spending(_newest_pid),
            group=self.leader,
            outside=shell,
            _claims=self._claims,
        )

    def hides_holder(self, held: Collection[str]) -> bool:
        """Whether a process but the shell can write to one of these pipes, which no member of the part can.

        Raises:
            OSError: Out of descriptors, even of reserved ones.
        """
        return not self.copied and not self.census.reserve.spending(self._held_by_shell).issuperset(held)

    def _held_by_shell(self) -> set[str]:
        held = set()
        for name, paths in _descriptors(f"/proc/{self.outside}").items():
            with suppress(OSError):
                if any(_opened(path) & S_IWUSR for path in paths):
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
        """Nothing is held."""

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
    census: Census,
) -> LinuxTree:
    """Tag a child that was just started, and know it and what it starts from now on.

    Args:
        leader: The child.
        since: A time at or before its start, in the unit of start times.
        began: The same on the monotonic clock.
        mark: The name of a variable that it was given.
        number: What its tag is made of.
        ends: The pipes, and perhaps the terminal, that it can write to; either end of each. The life pipe is first.
        census: Shared by all trees of a backend.
    """
    tag = Tag.make(number)
    if tag is not None:
        try:
            # The soft limit alone: a command of an ordinary user could not raise a hard limit again, and an
            # anyshell inside it has to set its own.
            resource.prlimit(leader, RLIMIT_LOCKS, (tag.limit, resource.RLIM_INFINITY))
        except (OSError, ValueError):
            tag = None
        else:
            if (
                time.monotonic() - began > LATE_SECONDS
            ):  # another thread, or another process, had the processor
                _tag_children(leader, tag)
    pipes = [os.ttyname(end) if os.isatty(end) else f"pipe:[{os.fstat(end).st_ino}]" for end in ends]
    return LinuxTree(
        leader=leader, since=since, mark=mark, tag=tag, life=pipes[0], pipes=pipes, census=census
    )


def restore(description: str, census: Census) -> LinuxTree:
    """The tree of a command that another process has started, by what its `LinuxTree.describe` has told."""
    leader, since, mark, limit, shift, *pipes = description.split()
    tree = LinuxTree(
        leader=0,
        since=int(since),
        mark=mark.encode(),
        tag=Tag(int(limit), int(shift)) if int(limit) else None,
        life=pipes[0],
        pipes=pipes,
        census=census,
    )
    # Here it may have been reaped, and its number have come to mean another process.
    stat = read_stat(int(leader))
    if stat is not None and tree._is_member(stat):
        tree.leader = stat.pid
    return tree


def _tag_children(leader: int, tag: Tag) -> None:
    """Tag what a child has started before it was tagged itself, as far as that still descends from it."""
    if not shows_processes():  # nor parents: what is in its session still, then
        for pid in range(leader + 1, leader + NEWEST):
            with suppress(OSError, ValueError):
                if os.getsid(pid) == leader:
                    resource.prlimit(pid, RLIMIT_LOCKS, (tag.limit, resource.RLIM_INFINITY))
        return
    waiting = [leader]
    while waiting:
        pid = waiting.pop()
        with suppress(OSError, ValueError):  # gone meanwhile, or a kernel without CONFIG_PROC_CHILDREN
            for thread in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                    children = [int(child) for child in file.read().split()]
                for child in children:
                    if _read_limit(child) == UNLIMITED:
                        resource.prlimit(child, RLIMIT_LOCKS, (tag.limit, resource.RLIM_INFINITY))
                        waiting.append(child)


def now() -> int:
    """The time in the unit of start times: whole clock ticks since boot (proc(5), field 22 of stat)."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))


def own_start() -> int:
    """When this process started, in clock ticks since boot; 0 where /proc does not show it, under any number."""
    read = _read_fields("self")
    return 0 if read is None else int(read[1][19])


def shares_session(leader: int) -> bool:
    """Whether somebody besides its leader is in a session; true where that cannot be told."""
    if not shows_processes():
        return True
    try:
        return any(_session(pid) == leader for pid in _pids() if pid != leader)
    except OSError:  # out of descriptors
        return True


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return 0


def shows_processes() -> bool:
    """Whether /proc shows the processes that this one can signal, under the same numbers.

    It may not be there, and it may be that of another pid namespace, in which a number is another process's.
    """
    try:
        return os.readlink("/proc/self") == str(os.getpid())
    except OSError:
        return False


def read_stat(pid: int) -> Stat | None:
    """Describe a process; ``None`` when it is gone."""
    return _read_stat(pid) if shows_processes() else _ask_stat(pid)


def read_fields(pid: int) -> list[bytes] | None:
    """What ``/proc/PID/stat`` says of a process, from its state on; ``None`` when it is gone, or not shown."""
    read = _read_fields(pid) if shows_processes() else None
    return None if read is None else read[1]


def _read_stat(pid: int) -> Stat | None:
    read = _read_fields(pid)
    if read is None:
        return None
    head, fields = read
    return Stat(
        pid,
        head.partition(b"(")[2].decode("utf-8", "replace"),
        fields[0],
        int(fields[1]),
        int(fields[2]),
        int(fields[3]),
        started=int(fields[19]),
        threads=int(fields[17]),
    )


def _ask_stat(pid: int) -> Stat | None:
    """Describe a process by system calls alone, which tell neither its name nor its parent nor its start."""
    try:
        group, session = os.getpgid(pid), os.getsid(pid)
    except OSError:
        return None
    with _pidfd(pid) as pidfd:
        poll = select.poll()
        if pidfd is not None:
            poll.register(pidfd, select.POLLIN)
        state = b"Z" if poll.poll(0) else b"?"
    return Stat(pid, "unknown", state, 0, group, session, started=UNKNOWN_START, threads=1)


def _read_fields(pid: int | str) -> tuple[bytes, list[bytes]] | None:
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        _raise_if_out_of_descriptors(error)
        return None
    try:
        head, _, tail = os.read(fd, 4096).rpartition(b")")
    except OSError:
        return None
    finally:
        os.close(fd)
    fields = tail.split()
    return (head, fields) if len(fields) >= 20 else None


def _read_limit(pid: int) -> int:
    try:
        return resource.prlimit(pid, RLIMIT_LOCKS)[0]
    except PermissionError:
        return NOT_PERMITTED
    except OSError:  # gone
        return 0


def _limit_of_another_user(pid: int) -> int:
    """What everybody may read (proc(5), ``/proc/PID/limits``), though it takes thirty times as long."""
    try:
        with open(f"/proc/{pid}/limits", "rb") as file:
            for line in file:
                if line.startswith(b"Max file locks"):
                    soft = line.split()[3]
                    return int(soft) if soft.isdigit() else UNLIMITED
    except OSError as error:
        _raise_if_out_of_descriptors(error)
    return 0


def _read_all(pids: Iterable[int]) -> list[Stat]:
    return [stat for pid in pids if (stat := _read_stat(pid)) is not None]


def _ask_living(pids: Iterable[int]) -> list[Stat]:
    own = os.getpid()
    return [stat for pid in pids if pid != own and (stat := _ask_stat(pid)) is not None and stat.alive]


def read_processes() -> list[Stat]:
    """Every process but this one that is alive; none where /proc does not show them."""
    return [stat for stat in _read_all(_pids()) if stat.alive] if shows_processes() else []


def namespace(pid: int | str) -> int:
    """The pid namespace of a process; 0 when it is gone, or may not be looked into."""
    try:
        return os.stat(f"/proc/{pid}/ns/pid").st_ino
    except OSError:
        return 0


def descendants(young: Mapping[int, Stat], members: Collection[int]) -> set[int]:
    """The processes among those given that descend from others of them, by way of given ones alone."""
    children: dict[int, list[int]] = {}
    for pid, stat in young.items():
        children.setdefault(stat.parent, []).append(pid)
    found: set[int] = set()
    waiting = list(members)
    while waiting:
        for pid in children.get(waiting.pop(), ()):
            if pid not in members and pid not in found:
                found.add(pid)
                waiting.append(pid)
    return found


def _pids() -> dict[int, int]:
    """Every process but this one, with the inode of its directory, which no other process had."""
    own = os.getpid()
    with os.scandir("/proc") as entries:
        return {
            pid: entry.inode()
            for entry in entries
            if entry.name.isdigit() and (pid := int(entry.name)) != own
        }


def _newest_pid() -> int:
    """The pid that was given last (proc(5), ``/proc/loadavg``), which is of this process's own namespace in any case.

    `UNKNOWN_PID` where it is not told: without /proc, and where that shows processes alone (``subset=pid``).
    """
    try:
        with open("/proc/loadavg", "rb") as file:
            return int(file.read().split()[-1])
    except FileNotFoundError:
        return UNKNOWN_PID


def _pid_limit() -> int:
    """The number before which pids begin anew (proc(5), ``/proc/sys/kernel/pid_max``); `sys.maxsize` if not told."""
    try:
        with open("/proc/sys/kernel/pid_max", "rb") as file:
            return int(file.read())
    except FileNotFoundError:
        return sys.maxsize


def _environ(directory: str) -> bytes:
    try:
        with open(f"{directory}/environ", "rb") as file:
            return file.read()
    except OSError as error:
        _raise_if_out_of_descriptors(error)
        return b""


def _descriptors(directory: str) -> Mapping[str, Sequence[str]]:
    """What the descriptors of a process are open to, and by which paths each; nothing of another user's."""
    found: dict[str, list[str]] = {}
    try:
        numbers = os.listdir(f"{directory}/fd")
    except OSError as error:
        _raise_if_out_of_descriptors(error)
        return found
    for number in numbers:
        path = f"{directory}/fd/{number}"
        with suppress(OSError):
            found.setdefault(os.readlink(path).removesuffix(" (deleted)"), []).append(path)
    return found


def _made_terminals(stat: Stat) -> Iterator[str]:
    """The terminals of which a process holds the end that a terminal emulator has."""
    for path in (*stat.descriptors.get("/dev/ptmx", ()), *stat.descriptors.get("/dev/pts/ptmx", ())):
        with suppress(OSError), open(path.replace("/fd/", "/fdinfo/"), "rb") as file:
            for line in file:
                if line.startswith(b"tty-index:"):
                    yield f"/dev/pts/{int(line.split()[1])}"


def _opened(path: str) -> int:
    """How a process has opened what a descriptor of its /proc directory shows: `S_IRUSR`, `S_IWUSR` (proc(5))."""
    return os.lstat(path).st_mode


@contextmanager
def _pidfd(pid: int) -> Iterator[int | None]:
    """A pidfd, or ``None`` where the process is gone or the kernel, or a sandbox, has none to give."""
    try:
        pidfd = os.pidfd_open(pid)
    except OSError as error:
        _raise_if_out_of_descriptors(error)
        yield None
        return
    try:
        yield pidfd
    finally:
        os.close(pidfd)


def _raise_if_out_of_descriptors(error: OSError) -> None:
    """Not being able to look is not the same as seeing nothing."""
    if error.errno in (errno.EMFILE, errno.ENFILE):
        raise error
