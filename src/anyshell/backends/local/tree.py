"""What belongs to a command, however it hides, and how to signal it without ever hitting a stranger.

A command is a tree, not a pid. On Linux (`linux.LinuxTree`) a process belongs to it when one of these says so:

* its process group or session is the leader's,
* it carries the command's *tag*: the soft limit on RLIMIT_LOCKS, which has had no effect since Linux 2.4 and
  passes through fork, exec, setsid and ``env -i`` (setrlimit(2)),
* it carries the command's *mark*, a variable in its initial environment (proc(5), ``/proc/PID/environ``).

A child escapes that leaves the group, clears its environment *and* its limits. On macOS the limit does not
exist and the environment of system programs cannot be read: there (`descendants.DescendantTree`) the tree is the
group and the descendants that were seen while the command ran.

A pid is never trusted alone: it is signalled through a pidfd after its start time was compared (Linux), or
right after the comparison (macOS).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..._types import ProcessInfo

MARK_PREFIX = b"ANYSHELL_MARK_"
"""What the name of a mark begins with; its owner's pid and start time, and a number, follow."""

PROCESSES_PER_TURN = 64
"""Processes looked at before other tasks get a turn; about half a millisecond."""


class Tree(Protocol):
    """The processes of one command."""

    async def members(self) -> Sequence[ProcessInfo]:
        """Every member that is alive; a zombie is not."""

    def signal(self, member: ProcessInfo, number: int) -> None:
        """Signal one member, if it is still the same process. Silent when it is gone or not ours to signal."""

    def close(self) -> None:
        """Give back what is held."""
