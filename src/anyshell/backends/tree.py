"""The tree of a command: the part of the rule for its members that all readers of processes share.

A reader makes a row of each process that started after the command, from ``/proc``, from a host's answer or from psutil.
A process is a member when `is_member` says so of its row, or when it descends from a member (`descendants`). What only one
reader can see is its own: pipes, inner terminals, the members of an earlier look. A leader whose pid may have come to mean
another process is passed as 0.

`tests/test_tree.py` holds every reader to one table, and the shell scripts that have a copy of this rule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from .._types import ProcessInfo, Signal

TAG_BITS = 31  # no bound
"""Bits of a tag. The limit holds two: that of a command, and that of a command of an anyshell inside it."""

UNLIMITED = -1
"""A limit that was never set, as Python shows it."""

Mark = TypeVar("Mark", contravariant=True)


class Ungrouped:
    """The answers of a `Process` whose host has no process groups, and no pids of a tree's own."""

    async def pid_outside(self, pid: int) -> int | None:
        """Return the pid itself."""
        return pid

    async def group(self) -> Sequence[ProcessInfo]:
        """Return no process."""
        return ()

    async def signal_some(self, signal: Signal, members: Sequence[ProcessInfo]) -> None:
        """Do nothing, as the group has no members."""


class ProcessRow(Protocol[Mark]):
    """A process as one look shows it. What a system does not show is 0, `UNLIMITED` or no mark."""

    @property
    def pid(self) -> int:
        """Its pid."""

    @property
    def parent(self) -> int:
        """Its parent's pid."""

    @property
    def group(self) -> int:
        """Its process group."""

    @property
    def session(self) -> int:
        """Its session."""

    @property
    def limit(self) -> int:
        """Its soft limit on file locks."""

    def has_mark(self, mark: Mark) -> bool:
        """Whether it was started with a variable of that name."""


class Tag(NamedTuple):
    """The value of a limit that is a command's own.

    Attributes:
        limit: The limit of the command's processes; those of an anyshell inside it have the same with lower bits set.
        shift: The number of lower bits that belong to an anyshell inside.
    """

    limit: int
    shift: int

    def marks(self, limit: int) -> bool:
        """Whether a process with that limit is the command's."""
        return limit > 0 and limit >> self.shift == self.limit >> self.shift

    def part(self, number: int) -> Tag | None:
        """Make the tag of a part of the command; ``None`` where there is no room for one."""
        if self.shift == 0:
            return None
        return Tag(self.limit | number % (2**TAG_BITS - 1) + 1, 0)


def is_member(
    row: ProcessRow[Mark], *, leader: int = 0, tag: Tag | None = None, mark: Mark | None = None
) -> bool:
    """Whether the leader's number, the tag or the mark shows a process to be a command's.

    Args:
        row: The process. Its limit and its variables, which may cost a read, are asked for in this order, when needed.
        leader: The leader's pid, which is its group and its session too; 0 when the number counts for nothing.
        tag: The command's.
        mark: The command's.
    """
    return (
        (leader > 0 and leader in (row.pid, row.group, row.session))
        or (tag is not None and tag.marks(row.limit))
        or (mark is not None and row.has_mark(mark))
    )


def descendants(young: Mapping[int, ProcessRow[Mark]], members: Collection[int]) -> set[int]:
    """The processes among those given that descend from others of them, by way of given ones alone."""
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
