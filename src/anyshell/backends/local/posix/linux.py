"""The tree of a command on Linux, by what /proc and the limits of processes tell."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import signal
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

assert sys.platform == "linux"

from ...._types import ProcessInfo
from .tree import MARK_PREFIX, PROCESSES_PER_TURN, Reserve

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

RLIMIT_LOCKS = 10
"""``asm-generic/resource.h``. Python does not name it."""


GATHER_SECONDS = 0.002
"""How long a look at all processes waits for others who want one."""


CATCH_UPS = 20
"""How often a look at all processes goes after those that came meanwhile."""

NEWEST = 64
"""How many of the newest pids are looked at when somebody forks all the time."""

CHASE_SECONDS = 0.01
"""How long one chase of who forks and exits all the time may block the loop; the kill is repeated anyway."""

CHASE_MISSES = 3
"""Looks at the newest processes in a row without a hit, after which a chase is over."""


MOST_NEW = 256
"""Pids that are looked at one by one after a command of a persistent shell; of more, everything is looked at."""

MOST_CLAIMS = 4096
"""Processes of which it is remembered to which command of a persistent shell they belong."""

TAG_BITS = 31
"""Bits of a tag. The limit holds two: that of a command, and that of a command of an anyshell inside it."""

LATE_SECONDS = 0.0005
"""Time since before a child's start after which it may have started others that missed the tag; no shell is faster."""

UNLIMITED = -1
"""How Python shows a limit that nobody has set."""

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
    limit: int
    _environ: bytes | None = None

    def has_tag(self, tag: Tag) -> bool:
        """Whether the process carries a tag."""
        if self.limit == NOT_PERMITTED:
            self.limit = _limit_of_another_user(self.pid)
        return tag.marks(self.limit)

    def has_mark(self, mark: bytes) -> bool:
        """Whether the process was started with a variable of that name."""
        if self._environ is None:
            self._environ = b"\0" + _environ(self.pid)
        return b"\0" + mark + b"=" in self._environ

    @property
    def alive(self) -> bool:
        """Whether it runs, sleeps or is stopped: a zombie does nothing any more."""
        return self.state not in (b"Z", b"X")

    @property
    def info(self) -> ProcessInfo:
        """The process as the rest of anyshell knows it."""
        return ProcessInfo(pid=self.pid, name=self.name, started=self.started)


class Census:
    """Looks at every process, once for all who ask at about the same time.

    Stopping many commands at once would otherwise read the whole of /proc for each of them, several times.
    """

    def __init__(self) -> None:
        self.reserve = Reserve()
        self._waiting: asyncio.Task[list[Stat]] | None = None

    async def take(self) -> list[Stat]:
        """Every process but this one that is alive at some moment between the call and the return.

        Raises:
            OSError: This process is out of descriptors, and so is the reserve.
        """
        waiting = self._waiting
        # One that is done was cancelled before it began, as asyncio.run() cancels everything at its end.
        if waiting is None or waiting.done() or waiting.get_loop() is not asyncio.get_running_loop():
            waiting = self._waiting = asyncio.ensure_future(self._look())
        return await asyncio.shield(waiting)

    async def _look(self) -> list[Stat]:
        await asyncio.sleep(GATHER_SECONDS)
        self._waiting = None  # whoever asks from now on may have changed what this look will miss
        found: list[Stat] = []
        newest = self.reserve.spending(_newest_pid)
        pids = self.reserve.spending(_pids)
        while pids:
            batch = [pids.pop() for _ in range(min(len(pids), PROCESSES_PER_TURN))]
            found += self.reserve.spending(partial(_read_living, batch))
            await asyncio.sleep(0)
        # Who forks and exits all the time is gone before it is looked at, and its child was not listed. So look at
        # the newest until there are no newer ones, which takes microseconds.
        for _ in range(CATCH_UPS):
            before, newest = newest, self.reserve.spending(_newest_pid)
            if newest == before:
                break
            found += self.reserve.spending(
                partial(_read_living, range(max(before + 1, newest - NEWEST), newest + 1))
            )
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
        life: The life pipe's descriptor in the command, which whoever inherits it has at the same number.
        pipe: What ``/proc/PID/fd`` shows for the life pipe.
        census: Tells who is alive, and lends descriptors when there are none left: a tree must be found then too.
        before: Of a part: the pid that was given last before it.
        group: Of a part: the process group of its shell, and so of all that has not left it.
        outside: A pid that is no member, whatever it looks like: the shell of which the tree is one command. 0 is none.
    """

    leader: int
    since: int
    mark: bytes
    tag: Tag | None
    life: int
    pipe: str
    census: Census
    before: int = 0
    group: int = 0
    outside: int = 0
    _claims: dict[int, tuple[int, bytes]] = field(default_factory=dict)
    """Who was found to belong to which part: a pid's start and the part's mark. All parts share it."""
    _known: dict[int, int] = field(default_factory=dict)
    _strangers: dict[int, int] = field(default_factory=dict)

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
            for stat in await self.census.take()
            if stat.started >= self.since and stat.pid != self.outside
        }
        members: set[int] = set()
        for count, stat in enumerate(young.values(), 1):
            if self.census.reserve.spending(partial(self._is_member, stat)):
                members.add(stat.pid)
            if count % PROCESSES_PER_TURN == 0:
                await asyncio.sleep(0)
        members |= {stat.pid for stat in young.values() if self.outside and self._is_child(stat)}
        members |= _descendants(young, members)
        if self.outside:
            self._claim(young, members)
        self._known = {pid: young[pid].started for pid in members}
        # A stranger stays one: tag, mark and life pipe come by inheritance alone. So it is looked at closely once.
        self._strangers = {pid: stat.started for pid, stat in young.items() if pid not in members}
        return [young[pid].info for pid in members]

    def _is_member(self, stat: Stat) -> bool:
        if (self.leader and self.leader in (stat.pid, stat.group, stat.session)) or self._known.get(
            stat.pid
        ) == stat.started:
            return True
        if self._strangers.get(stat.pid) == stat.started:
            return False
        if self.tag is not None and stat.has_tag(self.tag):
            return True
        return stat.has_mark(self.mark) or _holds(stat.pid, self.life, self.pipe)

    def may_live(self) -> bool:
        """Whether a member lives among those who were given a pid since a part began; true where these are too many.

        One that has left the group, and has nothing of ours, has made itself a daemon.
        Who came after a pid is told by the pid alone, until pids begin anew: then there are too many.
        """
        spending = self.census.reserve.spending
        newest = spending(_newest_pid)
        if not 0 <= newest - self.before <= MOST_NEW:
            return True
        new = spending(partial(_read_living, range(self.before + 1, newest + 1)))
        return any(
            stat.pid != self.outside and stat.group == self.group and spending(partial(self._is_member, stat))
            for stat in new
        )

    def _is_child(self, stat: Stat) -> bool:
        """Whether the shell has started it, for this command as far as anybody knows, if it has cleared everything."""
        if stat.parent != self.outside:
            return False
        started, mark = self._claims.get(stat.pid, (0, b""))
        if started == stat.started and mark != self.mark:
            return False
        return self.tag is None or not stat.has_tag(Tag(self.tag.limit, TAG_BITS))

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
            pids = [
                pid for pid in range(newest, max(newest - NEWEST, 1), -1) if self.tag.marks(_read_limit(pid))
            ]
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

    def part(self, shell: int, *, mark: bytes, number: int, life: int, pipe: str) -> LinuxTree:
        """The processes of a part: of what a shell starts from now on, with a mark and perhaps a tag of its own.

        Args:
            shell: The shell's pid.
            mark: The name of the variable that it exports to them.
            number: What their tag is made of.
            life: The descriptor at which they inherit a pipe.
            pipe: That pipe's path.
        """
        tag = None if self.tag is None else self.tag.part(number)
        return LinuxTree(
            leader=0,
            since=now(),
            mark=mark,
            tag=tag,
            life=life,
            pipe=pipe,
            census=self.census,
            before=self.census.reserve.spending(_newest_pid),
            group=self.leader,
            outside=shell,
            _claims=self._claims,
        )

    def close(self) -> None:
        """Nothing is held."""


def make_tree(
    leader: int,
    *,
    since: int,
    began: float,
    mark: bytes,
    number: int,
    life: int,
    child_life: int,
    census: Census,
) -> LinuxTree:
    """Tag a child that was just started, and know it and what it starts from now on.

    Args:
        leader: The child.
        since: A time at or before its start, in the unit of start times.
        began: The same on the monotonic clock.
        mark: The name of a variable that it was given.
        number: What its tag is made of.
        life: The life pipe's reading end, here.
        child_life: Its writing end, in the child.
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
    pipe = f"pipe:[{os.fstat(life).st_ino}]"
    return LinuxTree(
        leader=leader, since=since, mark=mark, tag=tag, life=child_life, pipe=pipe, census=census
    )


def _tag_children(leader: int, tag: Tag) -> None:
    """Tag what a child has started before it was tagged itself, as far as that still descends from it."""
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


def start_time(pid: int) -> int:
    """When a process started, in clock ticks since boot; 0 when it is gone. A zombie still says."""
    stat = read_stat(pid)
    return 0 if stat is None else stat.started


def shares_session(leader: int) -> bool:
    """Whether somebody besides its leader is in a session; true where that cannot be told."""
    try:
        return any(_session(pid) == leader for pid in _pids() if pid != leader)
    except OSError:  # out of descriptors
        return True


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return 0


def read_stat(pid: int) -> Stat | None:
    """Describe a process; ``None`` when it is gone."""
    read = _read_fields(pid)
    if read is None:
        return None
    head, fields = read
    name = head.partition(b"(")[2].decode("utf-8", "replace")
    parent, group, session = map(int, fields[1:4])
    return Stat(pid, name, fields[0], parent, group, session, started=int(fields[19]), limit=_read_limit(pid))


def read_fields(pid: int) -> list[bytes] | None:
    """What ``/proc/PID/stat`` says of a process, from its state on; ``None`` when it is gone."""
    read = _read_fields(pid)
    return None if read is None else read[1]


def _read_fields(pid: int) -> tuple[bytes, list[bytes]] | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            head, _, tail = file.read().rpartition(b")")
    except OSError as error:
        _raise_if_out_of_descriptors(error)
        return None
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


def _read_living(pids: Iterable[int]) -> list[Stat]:
    return [stat for pid in pids if (stat := read_stat(pid)) is not None and stat.alive]


def marked() -> Iterator[tuple[ProcessInfo, Sequence[str]]]:
    """Every live process that carries marks, of whichever anyshell, with their names."""
    for pid in _pids():
        names = [variable.partition(b"=")[0] for variable in _environ(pid).split(b"\0")]
        marks = [name.decode() for name in names if name.startswith(MARK_PREFIX)]
        if marks and (stat := read_stat(pid)) is not None and stat.alive:
            yield stat.info, marks


def owner_lives(mark: str) -> bool:
    """Whether the anyshell that gave a mark is still there: a mark names it by pid and start time."""
    pid, _, started = mark.removeprefix(MARK_PREFIX.decode()).partition("_")
    started = started.partition("_")[0]
    if not (pid.isdigit() and started.isdigit()):
        return False
    stat = read_stat(int(pid))
    return stat is not None and stat.alive and stat.started == int(started)


def orphans() -> list[ProcessInfo]:
    """Marked processes of which no mark names an anyshell that is still there."""
    return [info for info, marks in marked() if not any(map(owner_lives, marks))]


def _descendants(young: dict[int, Stat], members: set[int]) -> set[int]:
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


def _pids() -> list[int]:
    """Every process but this one."""
    own = os.getpid()
    return [pid for name in os.listdir("/proc") if name.isdigit() and (pid := int(name)) != own]


def _newest_pid() -> int:
    """The pid that was given last (proc(5), ``/proc/loadavg``)."""
    with open("/proc/loadavg", "rb") as file:
        return int(file.read().split()[-1])


def _environ(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read()
    except OSError as error:
        _raise_if_out_of_descriptors(error)
        return b""


def _holds(pid: int, fd: int, pipe: str) -> bool:
    """Whether a process has a pipe at a descriptor; unknown, and so no, of another user's."""
    try:
        return os.readlink(f"/proc/{pid}/fd/{fd}").removesuffix(" (deleted)") == pipe
    except OSError:
        return False


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
