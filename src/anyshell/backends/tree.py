"""The tree of a command: the membership rule that all readers of the process table share.

A reader makes a row for each process that started after the command, from ``/proc``, from a host's answer or from psutil.
A process is a member when `is_member` is true of the process's row, or when the process descends from a member
(`descendants`). A reader adds rules for facts that only this reader can see: pipes, inner terminals, the members of an
earlier scan. A leader whose pid the host may have given to another process is passed as 0.

`tests/test_tree.py` holds every reader to one table of cases, also the shell scripts that have a copy of this rule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from .._types import ProcessInfo, Signal

TAG_BITS = 31  # no bound
"""Bits of a tag. The limit holds two tags: the command's, and that of a command of an anyshell inside the command."""

UNLIMITED = -1
"""The value that Python shows for a limit that was never set."""

Mark = TypeVar("Mark", contravariant=True)


class Ungrouped:
    """The answers of a `Process` on a host without process groups and without pid namespaces."""

    async def pid_outside(self, pid: int) -> int | None:
        """Return the pid itself."""
        return pid

    async def group(self) -> Sequence[ProcessInfo]:
        """Return no process."""
        return ()

    async def signal_some(self, signal: Signal, members: Sequence[ProcessInfo]) -> None:
        """Do nothing, as the group has no members."""


class ProcessRow(Protocol[Mark]):
    """A process as one scan shows it. A value that the system does not show is 0, `UNLIMITED` or no mark."""

    @property
    def pid(self) -> int:
        """The process's pid."""

    @property
    def parent(self) -> int:
        """The parent's pid."""

    @property
    def group(self) -> int:
        """The process group."""

    @property
    def session(self) -> int:
        """The session."""

    @property
    def limit(self) -> int:
        """The process's soft limit on file locks."""

    def has_mark(self, mark: Mark) -> bool:
        """Whether the process was started with an environment variable of that name."""


class Tag(NamedTuple):
    """A tag: a value of the soft limit on file locks that marks the processes of one command.

    Attributes:
        limit: The limit of the command's processes. Commands of an anyshell inside the command set lower bits as well.
        shift: The number of lower bits that are left to an anyshell inside the command.
    """

    limit: int
    shift: int

    def marks(self, limit: int) -> bool:
        """Whether a process with that limit belongs to the command."""
        return limit > 0 and limit >> self.shift == self.limit >> self.shift

    def part(self, number: int) -> Tag | None:
        """Make the tag of a part of the command; ``None`` where no lower bits are free."""
        if self.shift == 0:
            return None
        return Tag(self.limit | number % (2**TAG_BITS - 1) + 1, 0)


def is_member(
    row: ProcessRow[Mark], *, leader: int = 0, tag: Tag | None = None, mark: Mark | None = None
) -> bool:
    """Whether the leader's pid, the tag or the mark shows that a process belongs to a command.

    Args:
        row: The process. The row's limit, then the row's mark, are asked for only when needed: each may cost a read.
        leader: The leader's pid, which is also the number of the leader's group and session; 0 if the pid is not to count.
        tag: The command's tag.
        mark: The command's mark.
    """
    return (
        (leader > 0 and leader in (row.pid, row.group, row.session))
        or (tag is not None and tag.marks(row.limit))
        or (mark is not None and row.has_mark(mark))
    )


def descendants(young: Mapping[int, ProcessRow[Mark]], members: Collection[int]) -> set[int]:
    """Return the processes of `young` that descend from `members`, by parents that are all in `young` themselves."""
    children: dict[int, list[int]] = {}
    for pid, row in young.items():
        children.setdefault(row.parent, []).append(pid)
    found: set[int] = set()
    waiting = list(members)
    while waiting:
        for pid in children.get(waiting.pop(), ()):
            if pid not in members and pid not in found:
                found.add(pid)
                waiting.append(pid)
    return found
