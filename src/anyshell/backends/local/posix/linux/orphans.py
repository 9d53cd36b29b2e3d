"""Orphans on Linux: running processes of commands whose anyshell has ended."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

assert sys.platform == "linux"

from ....tree import TAG_BITS, descendants
from ..tree import MARK_PREFIX
from .proc import namespace, own_start, read_processes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ....._types import ProcessInfo
    from .proc import ProcRow


def orphans() -> list[ProcessInfo]:
    """Return the living processes of commands whose anyshell has ended.

    A process is an orphan if it has marks, and all its marks name an anyshell that has ended. A process without marks, which
    may have cleared its environment, is an orphan if it is in an orphan's session, has an orphan's tag, or descends from an
    orphan. A process with the mark of a living anyshell is never an orphan. The same holds for the mark of an anyshell in a
    pid namespace that is invisible here.
    """
    processes = {stat.pid: stat for stat in read_processes()}
    owners = _Owners(processes)
    left: set[int] = set()
    others: dict[int, ProcRow] = {}
    for pid, stat in processes.items():
        marks = _marks(stat)
        if not any(map(owners.may_live, marks)):
            others[pid] = stat
            if marks:
                left.add(pid)
    sessions = {processes[pid].session for pid in left} - {0}  # 0 is a session of another pid namespace
    tags = {limit for pid in left if (limit := processes[pid].limit) >> TAG_BITS > 0}
    left |= {pid for pid, stat in others.items() if stat.session in sessions or stat.limit in tags}
    return [processes[pid].info for pid in left | descendants(others, left)]


def _marks(stat: ProcRow) -> list[str]:
    names = [variable.partition(b"=")[0] for variable in stat.variables.split(b"\0")]
    return [name.decode("ascii", "replace") for name in names if name.startswith(MARK_PREFIX)]


class _Owners:
    """The anyshells that marks name, by pid, start time and pid namespace, and whether each is still running."""

    def __init__(self, processes: Mapping[int, ProcRow]) -> None:
        self._by_start: dict[int, list[int]] = {own_start(): [os.getpid()]}
        for stat in processes.values():
            self._by_start.setdefault(stat.started, []).append(stat.pid)
        self._visible: set[int] | None = None
        self._processes = processes
        self._known: dict[str, bool] = {}

    def may_live(self, mark: str) -> bool:
        """Whether the anyshell of a mark is running, or is in a pid namespace that is invisible here."""
        pid, _, rest = mark.removeprefix(MARK_PREFIX.decode()).partition("_")
        started, _, rest = rest.partition("_")
        owner = f"{pid}_{started}_{rest.partition('_')[0]}"
        if owner not in self._known:
            self._known[owner] = self._find(pid, started, rest.split("_"))
        return self._known[owner]

    def _find(self, pid: str, started: str, rest: list[str]) -> bool:
        if not (pid.isdecimal() and started.isdecimal()):
            return False
        if not int(started):  # the anyshell had no /proc that shows it, so its state is unknown
            return True
        if any(pid in _numbers(each) for each in self._by_start.get(int(started), ())):
            return True
        # A mark of an older version, with three parts, does not name the namespace.
        if len(rest) < 3 or not rest[0].isdecimal():
            return False
        return int(rest[0]) not in self._namespaces()

    def _namespaces(self) -> set[int]:
        """Return the visible pid namespaces: this process's namespace, and those below it; 0 is an unknown namespace."""
        if self._visible is None:
            self._visible = {0, namespace("self"), *map(namespace, self._processes)}
        return self._visible


def _numbers(pid: int) -> Iterable[str]:
    """Return the pids of a process in each of the process's pid namespaces (proc(5), NSpid of status)."""
    numbers = [str(pid)]
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            for line in file:
                if line.startswith(b"NSpid:"):
                    numbers += line.decode().split()[1:]
    except OSError:
        pass
    return numbers
