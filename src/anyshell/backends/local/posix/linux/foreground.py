"""The foreground of a terminal on Linux, and whether its processes wait for input, by /proc (proc(5))."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

assert sys.platform == "linux"

from ....._terminals import sleep_of
from ....._types import Foreground
from .proc import read_fields, read_stat

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from ....._terminals import Sleep, TtyModes

MOST_PROCESSES = 64
"""Processes of a terminal's foreground that are examined for a wait for input; further processes are not examined."""

MOST_THREADS = 64
"""Threads of each foreground process that are examined, the oldest first; younger threads are not examined."""

MOST_DESCRIPTORS = 256
"""Descriptors of each foreground process that are compared with the terminal, the lowest; higher ones are not compared."""

_MACHINE = os.uname().machine

_STOPPED = (b"T", b"t")
"""The states of a stopped process, which reads no input, whatever system call it was stopped in."""


def look(group: int, tty: str, device: int, ask: Callable[[], TtyModes | None]) -> Foreground | None:
    """Describe the foreground of a terminal; ``None`` if the terminal is gone. Takes a millisecond or two, and never waits.

    Args:
        group: The foreground process group; 0 means no group.
        tty: The terminal's path.
        device: The terminal's device number.
        ask: Function that returns the terminal's modes, or ``None`` if the terminal is gone.
    """
    pids = [pid for pid in _pids() if _group(pid) == group] if group > 0 else []
    found = [stat for pid in pids if (stat := read_stat(pid)) is not None and stat.alive]
    readers = [*pids, *_of_other_sessions(pids)][:MOST_PROCESSES]
    sleeps = {pid: _sleep(pid, tty, device) for pid in readers}
    # Read the modes after the sleeps: a program that asks for a password first sets the modes, and then reads.
    settings = ask()
    if settings is None:
        return None
    asleep: Sleep | None = None
    if "read" in sleeps.values():
        asleep = "read"
    elif "poll" in sleeps.values():
        asleep = "poll"
    return Foreground(
        processes=tuple(stat.info for stat in found),
        asleep_in=asleep,
        waiting=tuple(stat.info for stat in found if asleep is not None and sleeps.get(stat.pid) == asleep),
        cpu=sum(map(_cpu, readers)),
        echo=settings.echo,
        line_mode=settings.line_mode,
    )


def _pids() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


def _group(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except OSError:
        return -1


def _of_other_sessions(pids: Iterable[int]) -> list[int]:
    """Return the children that have left their parent's session, such as su(1)'s: the kernel lets them read the terminal."""
    found = []
    for pid in pids:
        with suppress(OSError, ValueError):
            own = os.getsid(pid)
            with open(f"/proc/{pid}/task/{pid}/children", "rb") as file:
                found += [child for word in file.read().split() if os.getsid(child := int(word)) != own]
    return found


def _cpu(pid: int) -> float:
    fields = read_fields(pid)
    return 0.0 if fields is None else (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _sleep(pid: int, tty: str, device: int) -> Sleep | None:
    """Return the kind of system call in which a process may wait for input from the terminal; ``None`` if in none."""
    if (fields := read_fields(pid)) is None or fields[0] in _STOPPED:
        return None
    try:
        at = _descriptors(pid, tty)
        if not at:
            return None
        threads = sorted(os.listdir(f"/proc/{pid}/task"), key=int)[:MOST_THREADS]
    except PermissionError:
        # Another user's process, such as sudo: /proc shows that it sleeps, but not in which system call. A process that has
        # the terminal may wait for input.
        return "poll" if _is_asleep_on(pid, device) else None
    except OSError:  # gone
        return None
    sleeps = {_sleep_of_thread(pid, thread, at) for thread in threads}
    return "read" if "read" in sleeps else "poll" if "poll" in sleeps else None


def _descriptors(pid: int, tty: str) -> set[int]:
    """Return the descriptors at which a process has the terminal open, by the terminal's path or as ``/dev/tty``."""
    directory = f"/proc/{pid}/fd"
    found = set()
    for number in sorted(map(int, os.listdir(directory)))[:MOST_DESCRIPTORS]:
        with suppress(FileNotFoundError):
            if os.readlink(f"{directory}/{number}") in (tty, "/dev/tty"):
                found.add(number)
    return found


def _sleep_of_thread(pid: int, thread: str, at: Collection[int]) -> Sleep | None:
    directory = f"/proc/{pid}/task/{thread}"
    return sleep_of(_MACHINE, _read(f"{directory}/syscall").split(), _read(f"{directory}/wchan"), at)


def _read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


def _is_asleep_on(pid: int, device: int) -> bool:
    fields = read_fields(pid)
    return fields is not None and fields[0] == b"S" and int(fields[4]) == device
