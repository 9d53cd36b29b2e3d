"""The identity, the exit status, the signals and the resource usage of a host's process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence


Channel = Literal["stdout", "stderr"]
Signal = Literal["interrupt", "terminate", "kill"]


@dataclass(frozen=True, slots=True)
class ExitStatus:
    """The exit status of a process. `code` and `signal` are both ``None`` when the exit status is unknown.

    Attributes:
        code: The exit code, 0 to 255 on POSIX, 32 bits without a sign on Windows. ``None`` when a signal ended the process,
            or when anyshell ended it on Windows: the exit code would be anyshell's choice, not the process's.
        signal: The signal's name, such as ``SIGKILL``; ``None`` when the process exited by itself.
        editor_terminal: An editor's id of the terminal that the process ran in, with `anyshell.acp`; ``None`` otherwise.
    """

    code: int | None = None
    signal: str | None = None
    editor_terminal: str | None = None


@dataclass(frozen=True, slots=True)
class ProcessInfo:
    """A process of a command's tree, with a unique identity.

    Attributes:
        pid: The process id on the host; 0 when unknown.
        name: The program, as the host's process list shows it.
        started: The start time, in the host's own unit. `pid` and `started` together identify one process for ever.
        alive: Whether the process was still running when the host was last asked.
    """

    pid: int
    name: str
    started: float
    alive: bool = True

    def ended(self) -> ProcessInfo:
        """Return the same process with ``alive=False``."""
        return ProcessInfo(self.pid, self.name, self.started, alive=False)


def still_named(alive: Sequence[ProcessInfo], named: Sequence[ProcessInfo]) -> Sequence[ProcessInfo]:
    """Return the processes of `alive` that are also in `named`, even if a process runs another program by now."""
    known = {(info.pid, info.started) for info in named}
    return [info for info in alive if (info.pid, info.started) in known]


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The resources that a command used, as far as its host tells. ``None`` means unknown.

    Attributes:
        how: The extent of the count. ``exact``: every process of the tree. ``waited``: the program and every descendant whose
            parent waited for it, up to the program; no process left behind, and no process stopped without its parent.
        user: Seconds of CPU time in programs.
        system: Seconds of CPU time in the kernel for the programs.
        memory: Bytes of memory at the peak: of the whole tree if `how` is ``exact``, otherwise of the largest process. Linux
            starts its count at the memory of the parent program. So on Linux a peak is known only above the memory of
            this program, or within a reach above twice that of a bare Python.
        read: Bytes that were read by system calls, from files as well as from pipes.
        written: Bytes that were written by system calls, to files as well as to pipes.
        processes: Processes that were started, with the program and its console. Known on Windows, and on Linux within a
            reach, where the number includes threads and ends with the command. Elsewhere Linux and macOS keep no such
            number for a tree, and periodic looks would miss short-lived processes.
    """

    how: Literal["exact", "waited"]
    user: float
    system: float
    memory: int | None = None
    read: int | None = None
    written: int | None = None
    processes: int | None = None


LONGEST_USED = 128
"""Bytes of the last line in which a sandbox's leader reports the usage, six numbers; the rest is not read."""


def told_usage(told: bytes) -> Usage | None:
    """Parse the usage in the last line of a sandbox's leader; ``None`` if the leader reported no usage.

    The line has milliseconds of CPU time in programs and in the kernel, the number of processes, and bytes of memory, read and
    written. A number that the kernel does not tell is ``-``.
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
