"""Tags of commands on Linux: a soft limit that passes through fork, exec, setsid and ``env -i`` (setrlimit(2))."""

from __future__ import annotations

import resource
import sys

assert sys.platform == "linux"

from ....tree import TAG_BITS, UNLIMITED, Tag
from ..tree import raise_if_out_of_descriptors

RLIMIT_LOCKS = 10  # no bound
"""The limit on file locks in ``asm-generic/resource.h``. Python has no name for the limit."""

NOT_PERMITTED = -2
"""The value instead of the limit of another user's process, which only ``/proc/PID/limits`` shows."""


def make_tag(number: int) -> Tag | None:
    """Make the tag of a command; ``None`` if this anyshell runs inside two others, since a limit has room for two tags."""
    own, _ = resource.getrlimit(RLIMIT_LOCKS)
    value = number % (2**TAG_BITS - 1) + 1
    if own == UNLIMITED:
        return Tag(value << TAG_BITS, TAG_BITS)
    if own >> TAG_BITS and not own % 2**TAG_BITS:
        return Tag(own | value, 0)
    return None


def set_tag(pid: int, tag: Tag) -> None:
    """Tag a process by its soft limit.

    The hard limit stays unlimited: an ordinary user's command could not raise a hard limit again, and an anyshell inside
    the command has to set its own tags.

    Raises:
        OSError: The process is gone, or the kernel or a sandbox refuses.
        ValueError: The hard limit of the process is lower.
    """
    resource.prlimit(pid, RLIMIT_LOCKS, (tag.limit, resource.RLIM_INFINITY))


def read_limit(pid: int) -> int:
    """Return the limit of a process; `NOT_PERMITTED` for another user's process, 0 if the process is gone."""
    try:
        return resource.prlimit(pid, RLIMIT_LOCKS)[0]
    except PermissionError:
        return NOT_PERMITTED
    except OSError:  # gone
        return 0


def limit_of_another_user(pid: int) -> int:
    """Return the limit from ``/proc/PID/limits`` (proc(5)), which every user may read, but which takes thirty times as long."""
    try:
        with open(f"/proc/{pid}/limits", "rb") as file:
            for line in file:
                if line.startswith(b"Max file locks"):
                    soft = line.split()[3]
                    return int(soft) if soft.isdigit() else UNLIMITED
    except OSError as error:
        raise_if_out_of_descriptors(error)
    return 0
