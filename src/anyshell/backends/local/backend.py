"""This machine, where it is POSIX."""

from __future__ import annotations

import asyncio
import errno
import os
import sys
from typing import TYPE_CHECKING

assert sys.platform != "win32"

import anyio

from ..._exceptions import SpawnError
from ..._types import HostInfo, HostQuery, ShellCandidate, ShellInfo, Spawn
from . import host
from .exchange import LocalExchange
from .files import LocalFiles
from .posix import Spawner

if sys.platform == "linux":
    from .linux import orphans
else:
    from .descendants import orphans

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..._types import ProcessInfo
    from ...abc import Backend, Exchange, Files, Program
    from .starter import Starter

ANSWER_SECONDS = 5.0
"""How long a shell has to answer a probe."""

ANSWER_BYTES = 4096

CONNECT_SECONDS = 1.0
"""How long an address of this machine has to accept a connection."""

SHORTAGES = frozenset({errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM})
"""Why a program cannot be started now that may well be started later."""

STARTUP_FILES = frozenset({"BASH_ENV", "ENV"})
"""Variables that would make a probed shell read a file first."""


class LocalBackend:
    """Runs programs on this machine.

    Its processes are bound to the event loop that they were started from.

    Args:
        on_terminal: How programs are started on terminals; ``None`` is the better way of those that there are.
    """

    name = "local"

    def __init__(self, on_terminal: Starter | None = None) -> None:
        self._spawner = Spawner(on_terminal)
        self._files = LocalFiles()

    @property
    def files(self) -> Files:
        """The files of this machine."""
        return self._files

    async def info(self, query: HostQuery) -> HostInfo:
        """Say what this machine is, and which of the asked shells answers first."""
        name, version = host.system_name()
        machine = os.uname()
        shell, tried = await self._first_shell(query)
        return HostInfo(
            os=host.operating_system(),
            arch=machine.machine,
            name=name,
            version=version,
            hostname=machine.nodename,
            user=host.user(),
            home=host.home(),
            directory=host.directory(),
            container=host.container(),
            wsl=host.is_wsl(machine.release),
            programs=host.find_programs(query.programs),
            shell=shell,
            shells_tried=tuple(tried),
            is_this_machine=True,
        )

    async def _first_shell(self, query: HostQuery) -> tuple[ShellInfo | None, list[str]]:
        tried: list[str] = []
        for candidate in query.shells:
            paths = host.find_programs([candidate.path])
            if not paths:
                tried.append(f"{candidate.path}: not found")
                continue
            path = os.path.abspath(paths[candidate.path])
            try:
                version = await self._ask(path, candidate)
            except TimeoutError:
                tried.append(f"{path}: no answer within {ANSWER_SECONDS:g} s")
                continue
            except SpawnError as error:
                if isinstance(error.__cause__, OSError) and error.__cause__.errno in SHORTAGES:
                    raise  # it says nothing of the shell
                tried.append(f"{path}: {error}")
                continue
            if version is None:
                tried.append(f"{path}: it runs, but does not answer as {candidate.kind} does")
                continue
            return ShellInfo(kind=candidate.kind, path=path, version=version), tried
        return None, tried

    async def _ask(self, path: str, candidate: ShellCandidate) -> str | None:
        """Make a shell say its version; ``None`` when it says something else."""
        spawn = Spawn(argv=(path, *candidate.arguments), cwd="/", unset=STARTUP_FILES)
        process = self._spawner.spawn(spawn)
        answer = b""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                while len(answer) < ANSWER_BYTES and b"\n" not in answer:
                    answer += await process.stdout.receive()
        except anyio.EndOfStream:
            pass
        finally:
            await process.aclose()
        line, end, _ = answer.decode("utf-8", "replace").partition("\n")
        word, space, version = line.partition(" ")
        return version.strip() if end and space and word == "anyshell" else None

    async def spawn(self, spawn: Spawn) -> Program:
        """Start a program in a session of its own."""
        return self._spawner.spawn(spawn)

    async def exchange(self) -> Exchange:
        """Make a private directory for a persistent shell."""
        return LocalExchange(self._spawner.discard)

    async def connects(self, port: int) -> bool:
        """Whether something on this machine accepts connections at a port, by IPv4 or IPv6."""
        for address in ("127.0.0.1", "::1"):
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    _, writer = await asyncio.open_connection(address, port)
            except OSError:
                continue
            # Where nobody listens, a port that the system gives out itself may be given to us, and we are whom we
            # reach: then both ends have one address (tcp(7), simultaneous open).
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
