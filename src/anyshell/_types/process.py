"""A process on a host: its name, its end, and its signals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence


Channel = Literal["stdout", "stderr"]
Signal = Literal["interrupt", "terminate", "kill"]


@dataclass(frozen=True, slots=True)
class ExitStatus:
    """The end of a process. Both are ``None`` when that cannot be known any more.

    Attributes:
        code: The exit code, 0 to 255 on POSIX, 32 bits without a sign on Windows; ``None`` when a signal ended it, or
            when we did on Windows, where a code that we chose would be no answer of its own.
        signal: The signal's name, such as ``SIGKILL``; ``None`` when it exited.
        editor_terminal: An editor's id of the terminal that it ran in, with `anyshell.acp`; ``None`` otherwise.
    """

    code: int | None = None
    signal: str | None = None
    editor_terminal: str | None = None


@dataclass(frozen=True, slots=True)
class ProcessInfo:
    """A process of a command's tree, named so that it cannot be mistaken for another.

    Attributes:
        pid: Its number on the host; 0 when that is not known.
        name: Its program, as the host's process list shows it.
        started: When it started, in the host's own unit; with `pid` it names one process for ever.
        alive: Whether it was still running when this was written down.
    """

    pid: int
    name: str
    started: float
    alive: bool = True

    def ended(self) -> ProcessInfo:
        """The same process, known to be gone."""
        return ProcessInfo(self.pid, self.name, self.started, alive=False)


def still_named(alive: Sequence[ProcessInfo], named: Sequence[ProcessInfo]) -> Sequence[ProcessInfo]:
    """Processes of `alive` that are also in `named`, whatever program they have become."""
    known = {(info.pid, info.started) for info in named}
    return [info for info in alive if (info.pid, info.started) in known]


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The resources that a command used, as far as its host tells. ``None`` is not known.

    Attributes:
        how: The extent of the count. ``exact``: every process of its tree. ``waited``: the program and the processes that were
            waited for by their parents up to it, but none that it left behind or that was stopped without its parent.
        user: Seconds of CPU time in programs.
        system: Seconds of CPU time in the kernel for these.
        memory: Bytes of memory at the peak: of the whole tree if `how` is ``exact``, otherwise of its largest process. On
            Linux known of a process alone that took more than this program has, or within a reach than twice what a bare Python does:
            the kernel begins to count with that.
        read: Bytes that were read by system calls, from files as well as from pipes.
        written: Bytes that were written so.
        processes: Processes that were started, with the program and its console. Windows counts them, and Linux within a reach, with
            their threads, until the command's end. Otherwise Linux and macOS keep no such number of a tree, and what looks for
            them now and then misses the short ones.
    """

    how: Literal["exact", "waited"]
    user: float
    system: float
    memory: int | None = None
    read: int | None = None
    written: int | None = None
    processes: int | None = None


LONGEST_USED = 128
"""Bytes of what the leader of a sandbox says of what the command used; it has six numbers."""


def told_usage(told: bytes) -> Usage | None:
    """The usage that the leader of a sandbox has told in the last line; ``None`` if it has told nothing.

    That is milliseconds of CPU time in programs and in the kernel, processes, and bytes of memory, read and written; a number that
    the kernel does not tell is ``-``.
    """
    words = told.rstrip(b"\n").rpartition(b"\n")[2][:LONGEST_USED].split()
    if len(words) != 6 or not all(each.isdigit() or each == b"-" for each in words):
        return None
    user, system, processes, memory, read, written = (int(each) if each.isdigit() else None for each in words)
    if user is None or system is None:
        return None
    return Usage(
        how="waited",
        user=user / 1000,
        system=system / 1000,
        memory=memory,
        read=read,
        written=written,
        processes=processes,
    )
