"""`LocalBackend`, the backend for this machine."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import sys
from functools import cached_property
from typing import TYPE_CHECKING

from ..._exceptions import InvalidCommand, SpawnError
from ..._types import HostInfo, HostQuery, ShellCandidate, ShellInfo, Spawn
from ..._waits import in_a_worker
from ..collect import collect
from . import host

if sys.platform == "win32":
    from .windows.process import LocalSpawner
    from .windows.shells import find_shell, starts_wsl
else:
    from .posix.spawner import LocalSpawner

if sys.platform == "win32":
    from .windows.process import orphans
elif sys.platform == "linux":
    from .posix.linux.orphans import orphans
else:
    from .posix.descendants import orphans

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..._types import ProcessInfo
    from ...abc import Backend, Files, PipeDirectory, Program

ANSWER_SECONDS = 5.0
"""Seconds for a shell to answer when anyshell looks for shells; a shell that does not answer in time is not offered."""

SLOW_ANSWER_SECONDS = 20.0
"""Seconds for PowerShell to answer when anyshell looks for shells, and for every shell on Windows, where a virus scanner
first reads a program; a shell that does not answer in time is not offered."""

ANSWER_BYTES = 4096
"""Bytes of a shell's answer, including the line feed; a longer answer is not accepted."""

CONNECT_SECONDS = 1.0
"""Seconds for an address of this machine to accept a connection; then the address counts as refusing."""

SHORTAGES = frozenset({errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM})
"""The error numbers of shortages: a program that fails to start with one of these may start later."""

STARTUP_FILES = frozenset({"BASH_ENV", "ENV"})
"""Environment variables that would make a probed shell read a file first."""


class LocalBackend:
    """Backend that runs programs on this machine.

    A process is bound to the event loop that started the process.

    Args:
        spawner: The spawner of programs; ``None`` is the spawner for this operating system.
    """

    name = "local"
    asks = False
    """False: when `spawn` returns, it is known whether a program of this machine has begun. See `Spawn.on_asked`."""

    def __init__(self, spawner: LocalSpawner | None = None) -> None:
        self._spawner = spawner or LocalSpawner()

    @cached_property
    def files(self) -> Files:
        """The files of this machine."""
        from .files import LocalFiles  # imported here, since few commands need files

        return LocalFiles()

    async def info(self, query: HostQuery) -> HostInfo:
        """Return the facts of this machine, with the first shell of `query` that answers."""
        name, version = host.system_name()
        shell, tried = await self._first_shell(query)
        return HostInfo(
            os=host.operating_system(),
            arch=host.arch(),
            name=name,
            version=version,
            hostname=host.hostname(),
            user=host.user(),
            home=host.home(),
            directory=host.directory(),
            container=host.container(),
            wsl=host.is_wsl(),
            code_page=host.code_page(),
            programs=host.find_programs(query.programs),
            variables=host.find_variables(query.variables),
            shell=shell,
            shells_tried=tuple(tried),
            is_this_machine=True,
        )

    async def _first_shell(self, query: HostQuery) -> tuple[ShellInfo | None, list[str]]:
        tried: list[str] = []
        for candidate in query.shells_on(host.operating_system()):
            paths = await self._places(candidate)
            if not paths:
                tried.append(f"{candidate.path}: not found")
            for path in paths:
                answer = await self._try(path, candidate)
                if isinstance(answer, ShellInfo):
                    return answer, tried
                tried.append(f"{path}: {answer}")
                if sys.platform == "win32" and candidate.path == "bash" and os.environ.get("ANYSHELL_BASH"):
                    raise InvalidCommand(f"ANYSHELL_BASH: {path}: {answer}")
        return None, tried

    async def _places(self, candidate: ShellCandidate) -> Sequence[str]:
        """Return the absolute paths of the programs that a candidate may mean."""
        if sys.platform == "win32":

            async def ask(argv: Sequence[str]) -> str:
                try:
                    return await self._first_line(argv, SLOW_ANSWER_SECONDS)
                except (SpawnError, TimeoutError):
                    return ""

            return await find_shell(candidate.path, ask)
        return [os.path.abspath(path) for path in host.find_programs([candidate.path]).values()]

    async def _try(self, path: str, candidate: ShellCandidate) -> ShellInfo | str:
        """Run a shell for its version; return the shell, or the reason why the shell is not usable."""
        if sys.platform == "win32" and candidate.kind != "wsl" and starts_wsl(path):
            return "it starts WSL, which has to be asked for: wsl"
        is_slow = sys.platform == "win32" or candidate.kind in ("pwsh", "powershell")
        seconds = SLOW_ANSWER_SECONDS if is_slow else ANSWER_SECONDS
        try:
            line = await self._first_line((path, *candidate.arguments), seconds)
        except TimeoutError:
            return f"no answer within {seconds:g} s"
        except SpawnError as error:
            if isinstance(error.__cause__, OSError) and error.__cause__.errno in SHORTAGES:
                raise  # a shortage on this machine, no fault of the shell
            return str(error)
        word, space, version = line.partition(" ")
        if not space or word != "anyshell":
            return f"it runs, but does not answer as {candidate.kind} does"
        return ShellInfo(kind=candidate.kind, path=path, version=version.strip())

    async def _first_line(self, argv: Sequence[str], seconds: float) -> str:
        """Run a program and return the first complete line of its stdout; empty if the program prints no complete line.

        Raises:
            SpawnError: The program cannot be started.
            TimeoutError: The program neither prints a line nor ends within `seconds`.
        """
        # Stderr is split off: a shell may first complain there about its environment (a missing locale).
        spawn = Spawn(argv=tuple(argv), cwd=os.path.abspath(os.sep), unset=STARTUP_FILES, split_stderr=True)
        _, answer, _ = await collect(self._spawner, spawn, seconds=seconds, most=ANSWER_BYTES, until=b"\n")
        line, end, _ = answer.decode("utf-8", "replace").partition("\n")
        return line.strip("\r") if end else ""

    async def spawn(self, spawn: Spawn) -> Program:
        """Start a program in a session of its own, or on Windows in a job object of its own."""
        return await self._spawner.spawn(spawn)

    async def pipe_directory(self) -> PipeDirectory:
        """Make a private directory for a persistent shell; on Windows, an object that gives the shell pipes without one.

        The first call also removes directories of this user that killed processes have left behind.
        """
        if sys.platform == "win32":
            from .windows.pipe_directory import LocalPipeDirectory
        else:
            from .posix.pipe_directory import LocalPipeDirectory, remove_abandoned

            # An OSError means that no thread can be started: the next call removes the directories.
            with contextlib.suppress(OSError):
                await in_a_worker(remove_abandoned)
        return LocalPipeDirectory(self._spawner.released.add)

    async def connects(self, port: int) -> bool:
        """Whether a program on this machine accepts connections at a port, by IPv4 or IPv6."""
        for address in ("127.0.0.1", "::1"):
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    _, writer = await asyncio.open_connection(address, port)
            except OSError:
                continue
            # Where no server listens, the system may choose that very port as our own, so that we connect to ourselves:
            # then both ends have the same address (tcp(7), simultaneous open).
            ourselves = writer.get_extra_info("sockname") == writer.get_extra_info("peername")
            writer.close()
            if not ourselves:
                return True
        return False

    async def orphans(self) -> Sequence[ProcessInfo]:
        """Return the running processes whose mark names an anyshell that has ended. Empty on other systems."""
        return orphans()

    async def aclose(self) -> None:
        """Stop all programs that this backend has started."""
        await self._spawner.aclose()


def _keeps_the_protocol(backend: LocalBackend) -> Backend:
    return backend
