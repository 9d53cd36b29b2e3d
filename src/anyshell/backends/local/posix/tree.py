"""The processes of a command, however they hide, and signals that never hit another process.

A command is a tree, not a pid. On Linux (`linux.tree.LinuxTree`) a process belongs to it, if it started after it, when
one of these says so:

* its process group or session is the leader's,
* it carries the command's *tag*: the soft limit on RLIMIT_LOCKS, which has had no effect since Linux 2.4 and
  passes through fork, exec, setsid and ``env -i`` (setrlimit(2)). It is set right after the start, so what the
  command starts in its very first moments may lack it,
* it carries the command's *mark*, a variable in its initial environment (proc(5), ``/proc/PID/environ``),
* it can write to the life pipe, or to the pipe or terminal that the command prints to (``/proc/PID/fd``),
* it descends from a member, or was one when it was last looked for.

A child escapes that leaves the group, clears its environment, its limits and its descriptors, and whose parent has
ended. On macOS there is no such limit, and neither the environment nor the descriptors of other programs can be
read: there (`descendants.DescendantTree`) the tree is the group and the descendants that were seen while the
command ran.

A pid is never trusted alone: it is signalled through a pidfd after its start time was compared (Linux), or
right after the comparison (macOS).
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
"""The prefix of a mark's name; its owner's pid, start time and pid namespace, and two numbers, follow."""

PROCESSES_PER_TURN = 64
"""Processes looked at before other tasks get a turn; about half a millisecond."""

RESERVED_FDS = 2
"""Descriptors that each backend puts aside for finding and signalling a process when there are no others."""


class ProcessTree(Protocol):
    """The processes of one command."""

    @property
    def copied(self) -> bool:
        """Whether a held pipe may be held by a copy of this process, and so says nothing."""

    @property
    def limit(self) -> int | None:
        """The soft limit on file locks that its processes have, where there is such a tag."""

    def free_number(self) -> None:
        """Take note that the leader has been reaped: its pid may come to mean another process, group and session."""

    async def members(self) -> Sequence[ProcessInfo]:
        """Every member that is alive, in the order of their start; a zombie is not.

        Signals are sent in that order too, parents before children, whichever signal it is. A parent that saw its child
        end first would go on: a shell with its next command, a supervisor with another child. It cannot when it has its
        signal already. What a dead parent leaves is signalled all the same: it was listed before.
        """

    def may_live(self) -> bool:
        """Whether a member may live among the processes that got a pid since a part began."""

    def input_of(self, pid: int) -> tuple[int, int] | None:
        """Device and number of what a process has at descriptor 0; ``None`` where that is not shown."""

    def signal(self, member: ProcessInfo, number: int) -> None:
        """Signal one member, if it is still the same process. Silent when it is gone or not ours to signal."""

    def chase(self) -> None:
        """Kill a process that forks and exits faster than `members` can look, where that can be done."""

    def part(self, shell: int, *, mark: bytes, number: int, pipes: Collection[str]) -> ProcessTree:
        """The processes of a part: of what a shell among them starts from now on. The shell itself is not one of them."""

    def hides_holder(self, held: Collection[str]) -> bool:
        """Whether a process but the shell can write to one of these pipes, which no member of the part can.

        Raises:
            OSError: Out of descriptors, even of reserved ones.
        """

    def close(self) -> None:
        """Give back what is held."""


def raise_if_out_of_descriptors(error: OSError) -> None:
    """Not being able to look is not the same as seeing nothing."""
    if error.errno in (errno.EMFILE, errno.ENFILE):
        raise error


def by_age(member: ProcessInfo) -> tuple[float, int]:
    """The key of that order. Many start within one clock tick; the pid tells their order, but where pids begin anew."""
    return member.started, member.pid


class Reserve:
    """A few descriptors put aside, so that a tree can be stopped by a process that has no others left."""

    def __init__(self) -> None:
        self._fds: list[int] = []
        self._fill()
        close_with(self, self._fds)

    def spending(self, look: Callable[[], T]) -> T:
        """Call a function; if it runs out of descriptors, once more with the reserve given up meanwhile.

        Raises:
            OSError: That was not enough, or something else was wrong.
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
        """Give it up."""
        close_all(self._fds)

    def _fill(self) -> None:
        with suppress(OSError):
            while len(self._fds) < RESERVED_FDS:
                self._fds.append(os.open(os.devnull, os.O_RDONLY))


def close_with(owner: object, fds: list[int]) -> None:
    """Close descriptors when what holds them is gone; not in a fork, which may have closed them, and given others their numbers."""
    weakref.finalize(owner, _close_own, fds, os.getpid()).atexit = False


def _close_own(fds: list[int], pid: int) -> None:
    if pid == os.getpid():
        close_all(fds)


def close_all(fds: list[int]) -> None:
    """Close descriptors, and forget them."""
    while fds:
        os.close(fds.pop())
