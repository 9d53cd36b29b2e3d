"""The tag of a command on Linux: a soft limit that passes through fork, exec, setsid and ``env -i`` (setrlimit(2))."""

from __future__ import annotations

import resource
import sys

assert sys.platform == "linux"

from ....tree import TAG_BITS, UNLIMITED, Tag
from ..tree import raise_if_out_of_descriptors

RLIMIT_LOCKS = 10  # no bound
"""``asm-generic/resource.h``. Python does not name it."""

NOT_PERMITTED = -2
"""Instead of a limit: it is another user's, and only ``/proc/PID/limits`` tells."""


def make_tag(number: int) -> Tag | None:
    """Make the tag of a command; ``None`` inside an anyshell inside an anyshell, where there is no room."""
    own, _ = resource.getrlimit(RLIMIT_LOCKS)
    value = number % (2**TAG_BITS - 1) + 1
    if own == UNLIMITED:
        return Tag(value << TAG_BITS, TAG_BITS)
    if own >> TAG_BITS and not own % 2**TAG_BITS:
        return Tag(own | value, 0)
    return None


def set_tag(pid: int, tag: Tag) -> None:
    """Tag a process.

    The soft limit alone: a command of an ordinary user could not raise a hard limit again, and an anyshell inside it has to
    set its own.

    Raises:
        OSError: The process is gone, or the kernel or a sandbox refuses.
        ValueError: Its hard limit is lower.
    """
    resource.prlimit(pid, RLIMIT_LOCKS, (tag.limit, resource.RLIM_INFINITY))


def read_limit(pid: int) -> int:
    """The limit of a process: `NOT_PERMITTED` of another user's, 0 when it is gone."""
    try:
        return resource.prlimit(pid, RLIMIT_LOCKS)[0]
    except PermissionError:
        return NOT_PERMITTED
    except OSError:  # gone
        return 0


def limit_of_another_user(pid: int) -> int:
    """The limit as every user may read it (proc(5), ``/proc/PID/limits``), which takes thirty times as long."""
    try:
        with open(f"/proc/{pid}/limits", "rb") as file:
            for line in file:
                if line.startswith(b"Max file locks"):
                    soft = line.split()[3]
                    return int(soft) if soft.isdigit() else UNLIMITED
    except OSError as error:
        raise_if_out_of_descriptors(error)
    return 0
