"""A net under the commands of a program on Linux: it stops those that still run when the program has ended.

However the program ends, by a signal that it does not handle or by SIGKILL, the kernel closes a pipe that it alone holds.
A small shell waits for that end. What runs is noted in memory that both share, so that a command costs one write and wakes
nothing. When something is noted at the end, the shell becomes Python, which knows trees as the program did.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

assert sys.platform == "linux"

from ....._types import DEFAULT_GRACE
from ..tree import close_all, close_with
from .scan import ProcessScan
from .tree import restore

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .tree import LinuxTree

START_SECONDS = 5.0
"""Seconds for the shell of the net to start; without it commands run all the same."""

KILL_SECONDS = 5.0
"""Seconds in which the net repeats its kill, as long as something lives."""

LOOK_AGAIN = 0.05
"""Seconds between two looks of the net meanwhile."""

_NOTE_BYTES = 256  # no bound
"""Room for what is noted of a command: eight words at most, the longest of which is a mark."""

_PYTHONS = ("python", "pypy")
"""Names of the programs that can run this one: any other could not run a module of anyshell."""

_PACKAGE = __package__.partition(".")[0]

_WAIT = r"""
shift
exec 3<&0 4<&1 </dev/null >/dev/null
{
    while read -r _; do :; done <&3
    while IFS= read -r note; do case $note in *[!\ ]*) exec "$@" <&4 3<&- 4<&- ;; esac; done <&4
} &
"""
"""The program of the shell, for which no command waits. Notes are lines; those of commands that have ended are blank."""

_RUN = f"import sys; sys.path.insert(0, sys.argv[1]); from {__name__} import main; main()"


class Net:
    """Notes which commands run, for a shell that stops them when this process has ended."""

    def __init__(self) -> None:
        self._fds: list[int] = []
        """The memory, and the pipe's writing end; none while there is no net."""
        self._owner = 0
        self._free: list[int] = []
        self._count = 0

    @contextmanager
    def noting(self, since: int, mark: bytes) -> Iterator[int]:
        """Note a command that is started within, by its mark. If that fails, it is forgotten.

        With the first one, and in a fork of the program, the shell is started.

        Returns:
            What `hold` and `drop` take.
        """
        if self._owner != os.getpid():
            self._start()
        place = -1
        if self._fds:
            place = self._free.pop() if self._free else self._count
            self._count = max(self._count, place + 1)
            self._write(place, f"0 {since} {mark.decode()} 0 0 -")
        try:
            yield place
        except BaseException:
            self.drop(place)
            raise

    def hold(self, place: int, tree: LinuxTree) -> None:
        """Note all by which the command's tree is known, once it has started."""
        if place >= 0:
            self._write(place, tree.describe())

    def drop(self, place: int) -> None:
        """Forget a command: it has ended, or may live on."""
        if place >= 0 and self._fds and self._owner == os.getpid():
            self._write(place, "")
            self._free.append(place)

    def close(self) -> None:
        """End the shell. It stops what is noted still."""
        if self._owner == os.getpid():
            close_all(self._fds)

    def _write(self, place: int, note: str) -> None:
        with suppress(OSError):  # out of memory
            os.pwrite(self._fds[0], f"{note:<{_NOTE_BYTES - 1}}\n".encode(), place * _NOTE_BYTES)

    def _start(self) -> None:
        self._fds = []  # those of the program that this one was forked from are its own
        # At the end of the interpreter the kernel closes them: commands of `anyshell.run` are stopped there first.
        close_with(self, self._fds)
        self._free.clear()
        self._owner, self._count = os.getpid(), 0
        if getattr(sys, "frozen", False) or not os.path.basename(sys.executable or "").startswith(_PYTHONS):
            return
        with suppress(OSError, subprocess.TimeoutExpired):
            memory = os.memfd_create("anyshell")
            try:
                read, write = os.pipe()
            except OSError:
                os.close(memory)
                raise
            self._fds += memory, write
            try:
                _start_shell(read, memory)
            except BaseException:
                close_all(self._fds)
                raise
            finally:
                os.close(read)


def _start_shell(pipe: int, memory: int) -> None:
    top = os.path.abspath(sys.modules[_PACKAGE].__path__[0] + "/..")
    python = [sys.executable, "-I", "-c", _RUN, top]
    with subprocess.Popen(
        ["/bin/sh", "-c", _WAIT, "anyshell-net", str(os.getpid()), *python],
        stdin=pipe,
        stdout=memory,
        stderr=subprocess.DEVNULL,
        cwd="/",
        start_new_session=True,
    ) as shell:
        try:
            shell.wait(START_SECONDS)
        except subprocess.TimeoutExpired:
            shell.kill()
            raise


def main() -> None:
    """Stop the commands that are noted in the memory at descriptor 0."""
    notes = os.pread(0, os.fstat(0).st_size, 0).decode().splitlines()
    asyncio.run(_stop_all(note for note in notes if note.strip()))


async def _stop_all(notes: Iterable[str]) -> None:
    scan = ProcessScan()
    await asyncio.gather(*(_stop(restore(note, scan)) for note in notes))


async def _stop(tree: LinuxTree) -> None:
    """Ask a tree to end, kill it after the grace, and look again. What lives then is not reported: the caller is gone."""
    give_up = time.monotonic() + DEFAULT_GRACE
    members = await tree.members()
    for member in members:
        tree.signal(member, signal.SIGTERM)
        tree.signal(member, signal.SIGCONT)
    while members and time.monotonic() < give_up:
        await asyncio.sleep(LOOK_AGAIN)
        members = await tree.members()
    give_up = time.monotonic() + KILL_SECONDS
    # A process that forks all the time can be missed once.
    while time.monotonic() < give_up and (members := await tree.members() or await tree.members()):
        for member in members:
            tree.signal(member, signal.SIGKILL)
        tree.chase()
