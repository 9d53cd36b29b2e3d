"""Hosts on which one command runs at a time."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote

from .. import shells
from .._environment import Detection, Environment, EnvironmentOptions, to_redaction
from .._exceptions import AnyshellError, ConnectionFailed, InvalidCommand
from .._runner import RunOptions, to_command
from .._runner.redirects import OutputFile, why
from .._types import DEFAULT_GRACE, OutputLimits, check_choice, check_count, check_seconds, to_scan
from .._waits import AsyncOnly
from ..output import ArtifactStore
from .hosts import read_hosts
from .run import FleetRun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from types import TracebackType
    from typing import Self

    from .._engine import Control
    from .._types import Channel, Outcome, Scan, Variables
    from .._types.checks import Seconds
    from ..abc import Backend, Resolver
    from ..backends import SSHOptions
    from ..policy.audit import Audit
    from ..policy.redaction import Redaction
    from ..reach import Reach, Sandbox
    from ..shells.words import CommandLike
    from .hosts import Target
    from .progress import FleetListener, FleetObserver, HostProgress

PARALLELISM = 32
"""Hosts to run on in parallel, unless `Fleet(parallelism=)` or `--parallel` says otherwise; as with pssh and clush."""

CONNECT_SECONDS = 60.0
"""Seconds to reach a host and learn what it is, unless `Fleet(connect_timeout=)` or `--connect-timeout` says otherwise."""


class Fleet(AsyncOnly):
    """Hosts on which one command runs at a time, and how many of them at once.

    ``async with Fleet(["web-1", "web-2", "local"]) as fleet:``, then ``async for result in fleet.run("uptime"):``. Leaving
    it stops what still runs there, and is sure of that. Nothing is contacted before.

    Args:
        hosts: Each is ``"local"``, an address as `Environment.detect` takes it, `SSHOptions`, or a backend of your own,
            which stays yours to close. They are started in this order.
        parallelism: Hosts to run on in parallel; 1 or more.
        batch: So many hosts begin together, and the next ones when all of these have ended; 1 or more. ``None`` is no
            batches: each host that ends makes room for the next.
        stop_on_failure: Begin no further host once one has failed. Those that have begun go on.
        connect_timeout: Seconds in which a host must be reached and have said what it is, with all that is asked on the
            way; the bounds of `SSHOptions` hold besides. ``None`` leaves it to those.
        shell: As for `Environment.detect`, on every host; and so are those that follow.
        cwd: See there.
        interactive: See there.
        limits: See there. What is held of a host's output is bounded by it.
        artifacts: See there.
        snapshot: See there.
        prefix: See there.
        variables: See there.
        redact: See there.
        audit: See there.
        resolvers: See there.
        reach: See there. Each host enforces it by what it has itself; one that cannot fails with that reason.

    Raises:
        InvalidCommand: No hosts, one that is there twice, a malformed address, a number out of range, a bad prefix.
        BackendUnavailable: An address that no backend knows.
    """

    def __init__(
        self,
        hosts: Iterable[str | SSHOptions | Backend],
        *,
        parallelism: int = PARALLELISM,
        batch: int | None = None,
        stop_on_failure: bool = False,
        connect_timeout: Seconds | None = CONNECT_SECONDS,
        shell: str | None = None,
        cwd: str | PathLike[str] | None = None,
        interactive: bool = False,
        limits: OutputLimits | None = None,
        artifacts: ArtifactStore | Literal["default"] | None = "default",
        snapshot: bool = False,
        prefix: str | None = None,
        variables: Variables | None = None,
        redact: bool | Redaction = False,
        audit: Audit | None = None,
        resolvers: Mapping[str, Resolver | None] | None = None,
        reach: Reach | Sandbox | None = None,
    ) -> None:
        check_count("parallelism", parallelism)
        if batch is not None:
            check_count("batch", batch)
        connect_timeout = check_seconds("connect_timeout", connect_timeout)
        self._targets = read_hosts(hosts)
        self._parallelism = parallelism
        self._batch = batch
        self._stop_on_failure = stop_on_failure
        self._connect_timeout = connect_timeout
        self._options = EnvironmentOptions(
            shell=shell,
            cwd=None if cwd is None else os.fspath(cwd),
            interactive=interactive,
            limits=limits or OutputLimits(),
            artifacts=ArtifactStore() if artifacts == "default" else artifacts,
            snapshot=snapshot,
            prefix=None if prefix is None else shells.Prefix(prefix),
            variables=variables,
            redact=to_redaction(redact),
            audit=audit,
            resolvers=resolvers or {},
            reach=reach,
        )
        self._entered = False
        self._running: FleetRun | None = None

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names of the hosts, in their order."""
        return tuple(self._targets)

    async def __aenter__(self) -> Self:
        self._entered = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._entered = False
        if self._running is not None:
            await self._running._aclose(quiet=error is not None)

    def run(
        self,
        command: CommandLike | Callable[[Environment], CommandLike],
        *,
        cwd: str | PathLike[str] | None = None,
        env: Mapping[str, str | None] | None = None,
        stdin: bytes | str | PathLike[str] | None = None,
        timeout: Seconds | None = None,
        silence: Seconds | None = None,
        grace: Seconds = DEFAULT_GRACE,
        left_behind: Literal["stop", "keep"] = "stop",
        split_stderr: bool = False,
        stdout: str | PathLike[str] | None = None,
        effects: bool | Sequence[str] | Scan = False,
        listener: FleetListener | None = None,
        observer: FleetObserver | None = None,
    ) -> FleetRun:
        """Run a command on every host, each in a fresh shell. It begins with the first step of ``async for``.

        Args:
            command: As for `Environment.run`; or a function that is given a host's environment and gives the
                command for it, where hosts differ. It may look, and must not wait.
            cwd: The directory in which it runs; relative to the fleet's.
            env: Variables set over everything else; ``None`` as a value removes one.
            stdin: Its input, the same on every host; by default end-of-file at once.
            timeout: Seconds for the command on each host, from when that was reached; ``None`` is no bound.
            silence: On each host, as for `Environment.run`.
            grace: Seconds between the request to end and the kill.
            left_behind: The fate of processes that outlive the command: ``stop`` or ``keep``, as for
                `Environment.run`.
            split_stderr: Two texts. Otherwise one, in which both channels are in true order.
            stdout: A directory on this machine, made if it is not there, in which a file of each host's name takes what it prints, as
                with ``pssh -o``; as `Environment.run` does with its `stdout`, and `Output.file` is its path. ``/``, ``:`` and what else is not
                for the name of a file is written as in a URL, ``%2F``.
            effects: As for `Environment.run`, on every host: the `Outcome.effects` of each.
            listener: Is given a host's `HostProgress`, the channel and the bytes of every piece of output as it comes,
                and is awaited.
            observer: Is given a host's `HostProgress` when its state has changed. It must not wait. What it raises
                cancels the run, and is raised where that is iterated over, when all has ended.

        Raises:
            InvalidCommand: Bad input, before anything is contacted; the message names the culprit.
            AnyshellError: The fleet was not entered with ``async with``, or runs something already.
        """
        if not self._entered:
            raise AnyshellError(
                "run() needs 'async with', which stops what it starts: use 'async with Fleet(hosts) as fleet'"
            )
        if self._running is not None and not self._running.ended:
            raise AnyshellError("this fleet runs a command already: iterate over that to its end first")
        if stdin is not None and not isinstance(stdin, bytes | bytearray | memoryview | str | PathLike):
            raise InvalidCommand(
                f"stdin must be bytes, text or a Path, which every host can be given, not {type(stdin).__name__}"
            )
        # That of each host quotes it, below; here it is checked.
        request = to_command("" if callable(command) else command, cwd, env, stdin, kind="sh")
        check_choice("left_behind", left_behind, ("stop", "keep"))
        options = RunOptions(
            timeout=timeout,
            silence=silence,
            grace=grace,
            left_behind=left_behind,
            split_stderr=split_stderr,
            effects=to_scan(effects),
        )
        files = {} if stdout is None else _files(stdout, self._targets)

        async def perform(environment: Environment, host: HostProgress, control: Control) -> Outcome:
            asked = command(environment) if callable(command) else command
            text = shells.text_of(asked, shells.SHELLS[environment.shell.kind])
            own = replace(request, text=text)

            async def hear(channel: Channel, data: bytes) -> None:
                host._hear(data)
                if listener is not None:
                    await listener(host, channel, data)

            file = files.get(host.host)
            here = replace(options, listener=hear, stdout=None if file is None else OutputFile(file))
            return await environment.runner.run(own, here, control=control)

        # A function may ask its environment for anything.
        asked_of_each = replace(self._options, brief=not callable(command))
        self._running = FleetRun(
            self._targets,
            partial(self._open, asked_of_each),
            perform,
            parallelism=self._parallelism,
            batch=self._batch,
            stop_on_failure=self._stop_on_failure,
            observer=observer,
        )
        return self._running

    async def _open(
        self, options: EnvironmentOptions, host: str, target: Target, keep: Callable[[Environment], object]
    ) -> None:
        """Open a host's environment, in time. It is kept as soon as it exists: a cancellation then closes it."""
        clock = asyncio.timeout(self._connect_timeout)
        try:
            async with clock:
                keep(await Detection(target, options, Environment))
        except TimeoutError:
            if not clock.expired():
                raise
            raise ConnectionFailed(
                f"{host} was not reached within {self._connect_timeout:g} s, and nothing was started there; check the "
                "host, or give more time with connect_timeout=",
                stage="connect",
            ) from None


def _files(stdout: object, hosts: Iterable[str]) -> dict[str, Path]:
    """The files for what hosts print, none of which is there from before: a host that is not reached has none.

    Raises:
        InvalidCommand: It is no path, or no directory and cannot be made.
    """
    if not isinstance(stdout, str | PathLike):
        raise InvalidCommand(
            f"stdout of a fleet must be a directory, with a file for each host, not {type(stdout).__name__}; "
            "listener= is given all that hosts print"
        )
    directory = Path(stdout).absolute()
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise InvalidCommand(
            f"stdout: the directory {os.fspath(stdout)!r} cannot be made: {why(error)}"
        ) from None
    files = {host: directory / quote(host, safe="@ ()") for host in hosts}
    for path in files.values():
        with suppress(OSError):  # what cannot be removed, its host's command cannot replace, and says so
            if S_ISREG(path.lstat().st_mode):
                path.unlink()
    return files
