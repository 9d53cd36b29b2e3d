"""A fleet: a set of hosts on which one command runs at a time."""

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
"""Seconds to reach a host and detect its facts, unless `Fleet(connect_timeout=)` or `--connect-timeout` says otherwise."""


class Fleet(AsyncOnly):
    """A set of hosts on which one command runs at a time, on several hosts in parallel.

    ``async with Fleet(["web-1", "web-2", "local"]) as fleet:``, then ``async for result in fleet.run("uptime"):``. Leaving
    ``async with`` stops the commands that still run, and waits until they are gone. No host is contacted before `run`.

    Args:
        hosts: The hosts, in the order of their start. Each is ``"local"``, an address as for `Environment.detect`,
            `SSHOptions`, or a backend of your own, which stays yours to close.
        parallelism: Hosts to run on in parallel; 1 or more.
        batch: Hosts in a batch; 1 or more. The next batch begins when all hosts of a batch have ended. ``None`` means no
            batches: each host that ends makes room for the next.
        stop_on_failure: Begin no further host after a host has failed. Hosts that have begun go on.
        connect_timeout: Seconds to reach a host and detect its facts, all requests of the detection included. The bounds of
            `SSHOptions` apply as well; ``None`` means no further bound.
        shell: As for `Environment.detect`, on every host.
        cwd: As for `Environment.detect`.
        interactive: As for `Environment.detect`.
        limits: As for `Environment.detect`. The limits bound the output that is held of each host.
        artifacts: As for `Environment.detect`.
        snapshot: As for `Environment.detect`.
        prefix: As for `Environment.detect`.
        variables: As for `Environment.detect`.
        redact: As for `Environment.detect`.
        audit: As for `Environment.detect`.
        resolvers: As for `Environment.detect`.
        reach: As for `Environment.detect`. Each host enforces the reach by its own means; a host that cannot fails with the
            reason.

    Raises:
        InvalidCommand: No hosts, a duplicate host, a malformed address, a number out of range, a bad prefix.
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
        """Run a command on every host, each in a fresh shell. The run begins with the first step of ``async for``.

        Args:
            command: As for `Environment.run`; or a function that gets a host's environment and returns the command for that
                host. The function may read the environment's facts, and must not wait.
            cwd: The working directory of the command; relative to the fleet's.
            env: Variables that override all others; ``None`` as a value removes a variable.
            stdin: The command's input, the same on every host; by default end-of-file at once.
            timeout: Seconds for the command on each host, counted after the host was reached; ``None`` means no bound.
            silence: On each host, as for `Environment.run`.
            grace: Seconds between the request to end and the kill.
            left_behind: The fate of processes that outlive the command: ``stop`` or ``keep``, as for
                `Environment.run`.
            split_stderr: Whether an outcome has separate texts for stdout and stderr. Otherwise one text has both channels in
                true order.
            stdout: A directory on this machine, made if missing, with a file of each host's name for the host's output, as with
                ``pssh -o``. Each file is written as for `Environment.run`; `Output.file` is its path. ``/``, ``:`` and other
                characters that do not suit the name of a file are written as in a URL, ``%2F``.
            effects: As for `Environment.run`, on every host; each host has its own `Outcome.effects`.
            listener: An async function that gets every piece of output on arrival: the host's `HostProgress`, the channel and
                the bytes. The listener is awaited.
            observer: A function that gets a host's `HostProgress` after each change of its state, and must not wait. An
                exception of the observer cancels the run, and the iteration raises the exception after all hosts have ended.

        Raises:
            InvalidCommand: Bad input, before any host is contacted; the message names the culprit.
            AnyshellError: The fleet was not entered with ``async with``, or runs a command already.
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
        # This only checks the command: the shell of each host quotes it below.
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

        # A function may read any fact of its environment, so the host is asked for all of them.
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
        """Open a host's environment within the timeout, and hand it to `keep` at once, so that a cancellation closes it."""
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
    """Return the file for each host's output, and remove old files: a host that is not reached then has no file.

    Raises:
        InvalidCommand: `stdout` is not a path, or is not a directory and cannot be made.
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
        with suppress(
            OSError
        ):  # if this fails, replacing the file for the host's command fails too, with an error
            if S_ISREG(path.lstat().st_mode):
                path.unlink()
    return files
