"""The net: on Linux, a small shell process that stops a program's running commands after the program has ended.

The program alone holds the writing end of a pipe. When the program ends, even by SIGKILL, the kernel closes the pipe, and the
shell reads end-of-file. The running commands are noted in memory that the program and the shell share: a command costs one
write, and wakes no process. If a command is noted at the end, the shell executes Python, which finds the trees as the program
did.
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
"""Seconds for the net's shell to start; without the net, commands run all the same."""

KILL_SECONDS = 5.0
"""Seconds for which the net repeats its kill while a process of the commands lives; then the net gives up."""

LOOK_AGAIN = 0.05
"""Seconds between two scans by the net during the grace period."""

_NOTE_BYTES = 256  # no bound
"""Bytes of the note on one command: at most eight words, the longest of which is a mark."""

_PYTHONS = ("python", "pypy")
"""Beginnings of the names of Python interpreters: only an interpreter can run this module for the net."""

_PACKAGE = __package__.partition(".")[0]

_WAIT = r"""
shift
exec 3<&0 4<&1 </dev/null >/dev/null
{
    while read -r _; do :; done <&3
    while IFS= read -r note; do case $note in *[!\ ]*) exec "$@" <&4 3<&- 4<&- ;; esac; done <&4
} &
"""
"""The script of the net's shell, which goes to the background at once. Each note is a line; an ended command's line is blank."""

_RUN = f"import sys; sys.path.insert(0, sys.argv[1]); from {__name__} import main; main()"


class Net:
    """Notes of the running commands, for a shell that stops these commands after the end of this process."""

    def __init__(self) -> None:
        self._fds: list[int] = []
        """The descriptors of the shared memory and of the pipe's writing end; empty while there is no net."""
        self._owner = 0
        self._free: list[int] = []
        self._count = 0

    @contextmanager
    def noting(self, since: int, mark: bytes) -> Iterator[int]:
        """Note, by its mark, a command that starts within the ``with`` block. If the block raises, the note is removed.

        The first call, and the first call in a fork of the program, starts the shell.

        Returns:
            The place of the note, for `hold` and `drop`; -1 without a net.
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
        """Note everything by which a command's tree can be found, after the command's start."""
        if place >= 0:
            self._write(place, tree.describe())

    def drop(self, place: int) -> None:
        """Remove the note of a command that has ended, or that may live on."""
        if place >= 0 and self._fds and self._owner == os.getpid():
            self._write(place, "")
            self._free.append(place)

    def close(self) -> None:
        """Close the pipe, so that the shell stops the commands that are still noted, and ends."""
        if self._owner == os.getpid():
            close_all(self._fds)

    def _write(self, place: int, note: str) -> None:
        with suppress(OSError):  # out of memory
            os.pwrite(self._fds[0], f"{note:<{_NOTE_BYTES - 1}}\n".encode(), place * _NOTE_BYTES)

    def _start(self) -> None:
        self._fds = []  # in a fork, the earlier descriptors belong to the parent
        # The kernel, not the interpreter's exit, closes the descriptors: the exit first stops commands of `anyshell.run`.
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
    """Stop the commands that are noted in the shared memory at descriptor 0. The shell executes this function."""
    notes = os.pread(0, os.fstat(0).st_size, 0).decode().splitlines()
    asyncio.run(_stop_all(note for note in notes if note.strip()))


async def _stop_all(notes: Iterable[str]) -> None:
    scan = ProcessScan()
    await asyncio.gather(*(_stop(restore(note, scan)) for note in notes))


async def _stop(tree: LinuxTree) -> None:
    """Ask a tree to end, and kill it after the grace period, repeatedly. Survivors are not reported: the caller is gone."""
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
