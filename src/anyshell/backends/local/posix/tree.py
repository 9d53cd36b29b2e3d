"""The processes of a command, even if they try to hide, and signals that never hit a foreign process.

A command is a tree, not a pid. On Linux (`linux.tree.LinuxTree`) a process belongs to the tree if the process started after
the command did, and one of these conditions is true:

* The process group or session of the process is the leader's.
* The process has the command's *tag*: a value of the soft limit RLIMIT_LOCKS, which has had no effect since Linux 2.4 and
  passes through fork, exec, setsid and ``env -i`` (setrlimit(2)). The tag is set right after the start, so children that
  the command starts in its very first moments may lack the tag.
* The process has the command's *mark*, a variable in its initial environment (proc(5), ``/proc/PID/environ``).
* The process can write to the life pipe, or to the pipe or terminal that the command prints to (``/proc/PID/fd``).
* The process descends from a member, or was a member in the last scan.

A child escapes only if it leaves the group, clears its environment, its limits and its descriptors, and its parent has
ended. On macOS there is no limit for tags, and neither the environment nor the descriptors of other programs can be read.
There (`descendants.DescendantTree`) the tree is the group and the descendants that were seen while the command ran.

A pid alone is never trusted. Before a signal, the start time of the process is compared. On Linux the signal then goes
through a pidfd; on macOS it is sent right after the comparison.
"""

from __future__ import annotations

import errno
import os
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from ...._types import ProcessInfo

T = TypeVar("T")

MARK_PREFIX = b"ANYSHELL_MARK_"
"""The prefix of a mark's name. The owner's pid, start time and pid namespace, and two numbers, follow."""

PROCESSES_PER_TURN = 64
"""Processes examined in a row, in about half a millisecond; then other tasks get a turn."""

RESERVED_FDS = 2
"""Descriptors that each backend keeps in reserve, to find and signal a process when no other descriptor is free."""


class ProcessTree(Protocol):
    """The processes of one command."""

    @property
    def copied(self) -> bool:
        """Whether the holder of a pipe may be a copy of this process, so that a held pipe shows nothing about the tree."""

    @property
    def limit(self) -> int | None:
        """The soft limit on file locks of the tree's processes, which is the tag; ``None`` without a tag."""

    def free_number(self) -> None:
        """Record that the leader has been reaped: the kernel may give the pid to another process, group and session."""

    async def members(self) -> Sequence[ProcessInfo]:
        """Return the living members, ordered by start time. A zombie does not count as alive.

        Signals are sent in the same order, parents before children. A parent that saw its child end before its own signal
        would go on: a shell with its next command, a supervisor with another child. Children of a dead parent still get the
        signal, because the list was made before.
        """

    def may_live(self) -> bool:
        """Whether a member may be alive among the processes that got a pid since the part began. See `part`."""

    def input_of(self, pid: int) -> tuple[int, int] | None:
        """Return the device and inode of a process's descriptor 0; ``None`` where the system does not show the descriptor."""

    def signal(self, member: ProcessInfo, number: int) -> None:
        """Signal one member, if the pid still is the same process. Does nothing if the process is gone or another user's."""

    def chase(self) -> None:
        """Kill processes that fork and exit faster than `members` can scan, where the system allows that."""

    def part(self, shell: int, *, mark: bytes, number: int, pipes: Collection[str]) -> ProcessTree:
        """Return the tree of a part: the processes that a shell of this tree starts from now on, without the shell itself."""

    def hides_holder(self, held: Collection[str]) -> bool:
        """Whether a process other than the shell can write to one of these pipes, to which no member of the part can write.

        Raises:
            OSError: Out of descriptors, even of reserved ones.
        """

    def close(self) -> None:
        """Release the resources of the tree."""


def raise_if_out_of_descriptors(error: OSError) -> None:
    """Raise an error again if it means "out of descriptors": a failed scan must not pass for an empty result."""
    if error.errno in (errno.EMFILE, errno.ENFILE):
        raise error


def by_age(member: ProcessInfo) -> tuple[float, int]:
    """Return the sort key for the order of start. Within one clock tick the pid decides, except where pids wrap around."""
    return member.started, member.pid


class Reserve:
    """A few descriptors in reserve, so that this process can stop a tree when no other descriptor is free."""

    def __init__(self) -> None:
        self._fds: list[int] = []
        self._fill()
        close_with(self, self._fds)

    def spending(self, look: Callable[[], T]) -> T:
        """Call a function; if the function runs out of descriptors, release the reserve and call the function once more.

        Afterwards the reserve is filled again.

        Raises:
            OSError: The reserve was not enough, or the function failed for another reason.
        """
        try:
            return look()
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE) or not self._fds:
                raise
        close_all(self._fds)
        try:
            return look()
        finally:
            self._fill()

    def close(self) -> None:
        """Release the reserved descriptors."""
        close_all(self._fds)

    def _fill(self) -> None:
        with suppress(OSError):
            while len(self._fds) < RESERVED_FDS:
                self._fds.append(os.open(os.devnull, os.O_RDONLY))


def close_with(owner: object, fds: list[int]) -> None:
    """Close descriptors when their owner is garbage-collected, but not in a fork of this process.

    A fork may have closed the descriptors already, and given the numbers to other files.
    """
    weakref.finalize(owner, _close_own, fds, os.getpid()).atexit = False


def _close_own(fds: list[int], pid: int) -> None:
    if pid == os.getpid():
        close_all(fds)


def close_all(fds: list[int]) -> None:
    """Close descriptors and empty the list."""
    while fds:
        os.close(fds.pop())
