"""This machine."""

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
"""Seconds for a shell to answer, when shells are looked for; else it is not offered."""

SLOW_ANSWER_SECONDS = 20.0
"""Seconds for PowerShell to answer then, and for every shell on Windows, where a scanner first looks at a program."""

ANSWER_BYTES = 4096
"""Bytes of that answer, its line feed included; a longer one is not taken."""

CONNECT_SECONDS = 1.0
"""Seconds for an address of this machine to accept a connection."""

SHORTAGES = frozenset({errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM})
"""Why a program cannot be started now that may well be started later."""

STARTUP_FILES = frozenset({"BASH_ENV", "ENV"})
"""Variables that would make a probed shell read a file first."""


class LocalBackend:
    """Runs programs on this machine.

    Its processes are bound to the event loop that they were started from.

    Args:
        spawner: The spawner of programs; ``None`` is the way of this system.
    """

    name = "local"
    asks = False
    """A program of this machine has begun, or has not, when `spawn` returns: see `Spawn.on_asked`."""

    def __init__(self, spawner: LocalSpawner | None = None) -> None:
        self._spawner = spawner or LocalSpawner()

    @cached_property
    def files(self) -> Files:
        """The files of this machine."""
        from .files import LocalFiles  # here, since few commands have to do with them

        return LocalFiles()

    async def info(self, query: HostQuery) -> HostInfo:
        """Say what this machine is, and which of the asked shells answers first."""
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
        """The programs that a candidate may mean; absolute."""
        if sys.platform == "win32":

            async def ask(argv: Sequence[str]) -> str:
                try:
                    return await self._first_line(argv, SLOW_ANSWER_SECONDS)
                except (SpawnError, TimeoutError):
                    return ""

            return await find_shell(candidate.path, ask)
        return [os.path.abspath(path) for path in host.find_programs([candidate.path]).values()]

    async def _try(self, path: str, candidate: ShellCandidate) -> ShellInfo | str:
        """Make a shell say its version, or say why it does not count."""
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
                raise  # it says nothing of the shell
            return str(error)
        word, space, version = line.partition(" ")
        if not space or word != "anyshell":
            return f"it runs, but does not answer as {candidate.kind} does"
        return ShellInfo(kind=candidate.kind, path=path, version=version.strip())

    async def _first_line(self, argv: Sequence[str], seconds: float) -> str:
        """Run a program, and give the first whole line that it prints; empty without one.

        Raises:
            SpawnError: It cannot be started.
            TimeoutError: It prints none, and does not end, within `seconds`.
        """
        # Apart from stderr, where a shell may first complain about its surroundings (a locale that is missing).
        spawn = Spawn(argv=tuple(argv), cwd=os.path.abspath(os.sep), unset=STARTUP_FILES, split_stderr=True)
        _, answer, _ = await collect(self._spawner, spawn, seconds=seconds, most=ANSWER_BYTES, until=b"\n")
        line, end, _ = answer.decode("utf-8", "replace").partition("\n")
        return line.strip("\r") if end else ""

    async def spawn(self, spawn: Spawn) -> Program:
        """Start a program in a session of its own, or a job of Windows'."""
        return await self._spawner.spawn(spawn)

    async def pipe_directory(self) -> PipeDirectory:
        """Make a private directory for a persistent shell, or on Windows what gives it pipes without one.

        The first removes directories of this user whose owners were killed.
        """
        if sys.platform == "win32":
            from .windows.pipe_directory import LocalPipeDirectory
        else:
            from .posix.pipe_directory import LocalPipeDirectory, remove_abandoned

            with contextlib.suppress(OSError):  # no thread can be started: the next one removes them
                await in_a_worker(remove_abandoned)
        return LocalPipeDirectory(self._spawner.released.add)

    async def connects(self, port: int) -> bool:
        """Whether something on this machine accepts connections at a port, by IPv4 or IPv6."""
        for address in ("127.0.0.1", "::1"):
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    _, writer = await asyncio.open_connection(address, port)
            except OSError:
                continue
            # Where no server listens, the system may give us that very port, and we connect to ourselves: then both
            # ends have one address (tcp(7), simultaneous open).
            ourselves = writer.get_extra_info("sockname") == writer.get_extra_info("peername")
            writer.close()
            if not ourselves:
                return True
        return False

    async def orphans(self) -> Sequence[ProcessInfo]:
        """Marked processes whose mark names an anyshell that has ended. Linux alone can tell."""
        return orphans()

    async def aclose(self) -> None:
        """Stop everything that was started here."""
        await self._spawner.aclose()


def _keeps_the_protocol(backend: LocalBackend) -> Backend:
    return backend
