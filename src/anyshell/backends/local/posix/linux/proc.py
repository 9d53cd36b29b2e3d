"""Facts about processes on Linux, from /proc (proc(5)), or from system calls where /proc does not show processes."""

from __future__ import annotations

import os
import re
import select
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

assert sys.platform == "linux"

from ....._types import ProcessInfo
from ..tree import close_all, close_with, raise_if_out_of_descriptors
from .tags import NOT_PERMITTED, limit_of_another_user, read_limit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

_ENDED = (b"Z", b"X")
"""States of a thread that has ended (proc(5), field 3 of stat)."""

_LONGEST_IO = 1024
"""Bytes of `/proc/PID/io` that are read when a command has ended (`Outcome.usage`); the file has only seven numbers."""

_TICKS = os.sysconf("SC_CLK_TCK")

UNKNOWN_PID = -1
"""The value instead of the newest pid where /proc does not show it."""

UNKNOWN_START = -1
"""The start of a process that /proc does not show."""


@dataclass(slots=True, eq=False, repr=False)
class ProcRow:
    """A process as ``/proc/PID/stat`` shows the process (proc(5)), with other facts from the same scan.

    Facts that cost more are read at their first use, and shared by all users of the scan.
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
        """The process's soft limit on file locks."""
        if self._limit is None:
            self._limit = read_limit(self.pid)
            if self._limit == NOT_PERMITTED:
                self._limit = limit_of_another_user(self.pid) if self.known else 0
        return self._limit

    @property
    def known(self) -> bool:
        """Whether /proc shows the process; otherwise only system calls describe the process."""
        return self.started != UNKNOWN_START

    def has_mark(self, mark: bytes) -> bool:
        """Whether the process was started with a variable of that name."""
        return self.has_variable(mark + b"=")

    def has_variable(self, beginning: bytes) -> bool:
        """Whether the process was started with an environment variable whose ``name=value`` has this beginning."""
        return b"\0" + beginning in self.variables

    @property
    def variables(self) -> bytes:
        """The environment variables at the process's start, each after a NUL byte; none where this user may not read them."""
        if self._environ is None:
            self._environ = b"\0" + _environ(self.directory) if self.known else b""
        return self._environ

    @property
    def descriptors(self) -> Mapping[str, Sequence[str]]:
        """The files behind the process's descriptors, each with its paths in /proc; empty where this user may not read them."""
        if self._descriptors is None:
            self._descriptors = read_descriptors(self.directory)
        return self._descriptors

    @property
    def alive(self) -> bool:
        """Whether a thread of the process runs, sleeps or is stopped.

        A process whose first thread has ended is shown as a zombie, even while another thread lives.
        """
        return self.state not in _ENDED or self.threads > 1

    @property
    def directory(self) -> str:
        """The directory of /proc with the environment and the descriptors: that of a living thread, if the first has ended."""
        if self.state in _ENDED:
            with suppress(OSError):
                for thread in os.listdir(f"/proc/{self.pid}/task"):
                    if int(thread) != self.pid:
                        return f"/proc/{self.pid}/task/{thread}"
        return f"/proc/{self.pid}"

    @property
    def info(self) -> ProcessInfo:
        """The process as a `ProcessInfo`."""
        return ProcessInfo(pid=self.pid, name=self.name, started=self.started)


def shows_processes() -> bool:
    """Whether /proc shows the processes that this process can signal, under the same pids.

    There may be no /proc. Or /proc may belong to another pid namespace, in which a pid means another process.
    """
    try:
        return os.readlink("/proc/self") == str(os.getpid())
    except OSError:
        return False


def read_stat(pid: int) -> ProcRow | None:
    """Describe a process; ``None`` if the process is gone."""
    return _read_stat(pid) if shows_processes() else _ask_stat(pid)


def read_fields(pid: int) -> list[bytes] | None:
    """Return the fields of ``/proc/PID/stat`` from the state on; ``None`` if the process is gone or not shown."""
    read = _read_fields(pid) if shows_processes() else None
    return None if read is None else read[1]


def own_pid(pid: int) -> int:
    """Return a process's own pid, in the innermost of the process's pid namespaces; `pid` where /proc does not show it."""
    found = None
    with suppress(OSError), open(f"/proc/{pid}/status", "rb") as file:
        found = re.search(rb"^NSpid:.*?([0-9]+)$", file.read(), re.MULTILINE)
    return pid if found is None else int(found[1])


def read_stats(pids: Iterable[int]) -> list[ProcRow]:
    """Describe the processes among `pids` that /proc shows."""
    return [stat for pid in pids if (stat := _read_stat(pid)) is not None]


def ask_living(pids: Iterable[int]) -> list[ProcRow]:
    """Describe the living processes among `pids`, except this process, by system calls alone."""
    own = os.getpid()
    return [stat for pid in pids if pid != own and (stat := _ask_stat(pid)) is not None and stat.alive]


def read_processes() -> list[ProcRow]:
    """Return all living processes except this process; none where /proc does not show processes."""
    return [stat for stat in read_stats(list_pids()) if stat.alive] if shows_processes() else []


def _read_stat(pid: int) -> ProcRow | None:
    read = _read_fields(pid)
    if read is None:
        return None
    head, fields = read
    return ProcRow(
        pid,
        head.partition(b"(")[2].decode("utf-8", "replace"),
        fields[0],
        int(fields[1]),
        int(fields[2]),
        int(fields[3]),
        started=int(fields[19]),
        threads=int(fields[17]),
    )


def _ask_stat(pid: int) -> ProcRow | None:
    """Describe a process by system calls alone, which show neither the name nor the parent nor the start time."""
    try:
        group, session = os.getpgid(pid), os.getsid(pid)
    except OSError:
        return None
    with open_pidfd(pid) as pidfd:
        poll = select.poll()
        if pidfd is not None:
            poll.register(pidfd, select.POLLIN)
        state = b"Z" if poll.poll(0) else b"?"
    return ProcRow(pid, "unknown", state, 0, group, session, started=UNKNOWN_START, threads=1)


def _read_fields(pid: int | str) -> tuple[bytes, list[bytes]] | None:
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise_if_out_of_descriptors(error)
        return None
    try:
        head, _, tail = os.read(fd, 4096).rpartition(b")")
    except OSError:
        return None
    finally:
        os.close(fd)
    fields = tail.split()
    return (head, fields) if len(fields) >= 20 else None


def open_traffic(pid: int) -> int | None:
    """Open the file that `read_traffic` reads. After the child's end, only root may open the file."""
    try:
        return os.open(f"/proc/{pid}/io", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None


def read_traffic(fd: int) -> tuple[int, int] | None:
    """Return the bytes that a child and its awaited children have read and written by system calls (proc(5), io)."""
    try:
        read, written = os.pread(fd, _LONGEST_IO, 0).split(b"\n")[:2]
        return int(read.split()[1]), int(written.split()[1])
    except (OSError, ValueError, IndexError):
        return None


def read_cpu(pid: int) -> tuple[float, float] | None:
    """Return the CPU seconds of a process and its awaited children, in programs and in the kernel (proc(5), stat).

    ``None`` while the process has a child, even an ended child: a child's time counts only after the process has waited for
    the child. Also ``None`` for a process with several threads, each of which has its own children, and where the kernel does
    not show children.
    """
    try:
        fd = os.open(f"/proc/{pid}/task/{pid}/children", os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise_if_out_of_descriptors(error)
        return None
    try:
        if os.read(fd, 1):
            return None
    except OSError:
        return None
    finally:
        os.close(fd)
    if (fields := read_fields(pid)) is None or int(fields[17]) > 1:
        return None
    user, system, user_of_children, system_of_children = map(int, fields[11:15])
    return (user + user_of_children) / _TICKS, (system + system_of_children) / _TICKS


def now() -> int:
    """Return the time in the unit of start times: whole clock ticks since boot (proc(5), field 22 of stat)."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))


def own_start() -> int:
    """Return this process's start time in clock ticks since boot; 0 where /proc does not show this process under any pid."""
    read = _read_fields("self")
    return 0 if read is None else int(read[1][19])


def namespace(pid: int | str) -> int:
    """Return the pid namespace of a process; 0 if the process is gone, or this user may not read the namespace."""
    try:
        return os.stat(f"/proc/{pid}/ns/pid").st_ino
    except OSError:
        return 0


def shares_session(leader: int) -> bool:
    """Whether a session has a process other than its leader; true where the system does not show that."""
    if not shows_processes():
        return True
    try:
        return any(_session(pid) == leader for pid in list_pids() if pid != leader)
    except OSError:  # out of descriptors
        return True


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return 0


def list_pids() -> dict[int, int]:
    """Return the pids of all processes except this process, each with its directory's inode, which is never reused."""
    own = os.getpid()
    with os.scandir("/proc") as entries:
        return {
            pid: entry.inode()
            for entry in entries
            if entry.name.isdigit() and (pid := int(entry.name)) != own
        }


class NewestPid:
    """A reader of the newest pid (proc(5), ``/proc/loadavg``), which always is a pid of this process's own namespace.

    A call returns `UNKNOWN_PID` where the system does not show the pid: without /proc; where /proc shows only processes
    (``subset=pid``); where the file is of another file system, as in a container with lxcfs, whose file has the pid of its
    own host (``proc_loadavg.c`` of lxcfs); and under gVisor, whose file has a 0. The file stays open, which costs a quarter of opening it twice for each command.
    """

    def __init__(self) -> None:
        self._fds: list[int] = []
        self._foreign = False
        close_with(self, self._fds)
        with suppress(OSError):  # opened now: a later opening could use up a descriptor of the reserve
            self._open()

    def _open(self) -> None:
        self._fds.append(os.open("/proc/loadavg", os.O_RDONLY | os.O_CLOEXEC))
        self._foreign = os.fstat(self._fds[0]).st_dev != os.stat("/proc/self").st_dev

    def __call__(self) -> int:
        """Return the newest pid.

        Raises:
            OSError: Out of descriptors, now and when this object was made.
        """
        if not self._fds:
            try:
                self._open()
            except FileNotFoundError:
                return UNKNOWN_PID
        newest = int(os.pread(self._fds[0], 256, 0).rpartition(b" ")[2])
        return UNKNOWN_PID if self._foreign or not newest else newest

    def close(self) -> None:
        """Close the file; the next call opens the file again."""
        close_all(self._fds)


def pid_limit() -> int:
    """Return the limit at which pids wrap around (proc(5), ``/proc/sys/kernel/pid_max``); `sys.maxsize` if not shown."""
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
        raise_if_out_of_descriptors(error)
        return b""


def read_descriptors(directory: str) -> Mapping[str, Sequence[str]]:
    """Return the files behind a process's descriptors, each with its paths in /proc; empty for another user's process."""
    found: dict[str, list[str]] = {}
    try:
        numbers = os.listdir(f"{directory}/fd")
    except OSError as error:
        raise_if_out_of_descriptors(error)
        return found
    for number in numbers:
        path = f"{directory}/fd/{number}"
        with suppress(OSError):
            found.setdefault(os.readlink(path).removesuffix(" (deleted)"), []).append(path)
    return found


def made_terminals(stat: ProcRow) -> Iterator[str]:
    """Yield the terminals whose master end, the end of a terminal emulator, a process holds."""
    for path in (*stat.descriptors.get("/dev/ptmx", ()), *stat.descriptors.get("/dev/pts/ptmx", ())):
        with suppress(OSError), open(path.replace("/fd/", "/fdinfo/"), "rb") as file:
            for line in file:
                if line.startswith(b"tty-index:"):
                    yield f"/dev/pts/{int(line.split()[1])}"


def opened(path: str) -> int:
    """Return a process's access to a descriptor, given its path in /proc: the bits `S_IRUSR` and `S_IWUSR` (proc(5))."""
    return os.lstat(path).st_mode


@contextmanager
def open_pidfd(pid: int) -> Iterator[int | None]:
    """Yield a pidfd; ``None`` if the process is gone, or the kernel or a sandbox gives no pidfd."""
    try:
        pidfd = os.pidfd_open(pid)
    except OSError as error:
        raise_if_out_of_descriptors(error)
        yield None
        return
    try:
        yield pidfd
    finally:
        os.close(pidfd)
