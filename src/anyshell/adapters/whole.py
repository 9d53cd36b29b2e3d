"""A command run to its end with its whole output as bytes, as frameworks expect from a sandbox."""

from __future__ import annotations

import ntpath
import posixpath
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from .._engine import Control
from .._types import OutputLimits
from ..policy import visible
from ..tool.signals import number_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .._environment import Environment
    from .._stream import Listener
    from .._types import Channel, LeftBehind, Outcome
    from ..session import Session

MAX_OUTPUT = 10 * 1024 * 1024
"""Bytes of each channel of one command that an adapter passes on whole; a command that prints more is stopped."""


TIMED_OUT = 124  # no bound: an exit code
"""The exit code of a command stopped after its timeout, for frameworks that need a number; the same as in timeout(1)."""


@dataclass(frozen=True, slots=True)
class Whole:
    """The outcome of a command, with its whole output.

    Attributes:
        outcome: The outcome of the command.
        exit_code: The exit code; 128 and the signal's number when a signal ended the command; ``None`` without an exit code.
        stdout: The raw bytes of stdout.
        stderr: The raw bytes of stderr; empty when the channels were not split.
        limit: Bytes of each channel that the command may print.
        too_much: Whether the command printed more than `limit`. The command was then stopped, unless ``stop=False``, and the
            bytes end before the excess.
    """

    outcome: Outcome
    exit_code: int | None
    stdout: bytes
    stderr: bytes
    limit: int
    too_much: bool

    @property
    def kept(self) -> str:
        """The paths of the kept output, as a clause for the end of a sentence; empty if no output is kept."""
        outputs = (self.outcome.output, self.outcome.stderr)
        paths = [
            str(each.artifact.path) for each in outputs if each is not None and each.artifact is not None
        ]
        return f"; it is kept in {' and '.join(paths)}" if paths else ""

    @property
    def alive(self) -> str:
        """A clause that names the processes that a stop could not end; empty without such processes."""
        names = [f"{visible(each.name)} ({each.pid})" for each in self.outcome.left_behind if each.alive]
        return f"; still alive: {', '.join(names)}" if names else ""

    def stopped(self, timeout: float | None) -> str:
        """Return why the command did not end by itself, as words after "the command was"; empty for a normal end.

        Args:
            timeout: The seconds that the command had.
        """
        if self.too_much:
            return f"stopped: it printed more than {self.limit} bytes{self.kept}"
        if self.outcome.status == "timed_out":
            return f"stopped after {timeout:g} s{self.alive}"
        if self.outcome.status != "exited" or self.exit_code is None:
            return f"{self.outcome.status}, and may have run: look at what it did before you run it again"
        return ""


async def run_whole(
    env: Environment,
    command: str | Sequence[str],
    *,
    cwd: str | None = None,
    variables: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
    timeout: float | None = None,
    left_behind: LeftBehind | None = None,
    split_stderr: bool = True,
    session: Session | None = None,
    max_output: int | None = None,
    listener: Listener | None = None,
    control: Control | None = None,
    stop: bool = True,
) -> Whole:
    """Run a command to its end.

    Args:
        env: The environment of the command.
        command: A text for the environment's shell; or a program and its arguments, each taken literally.
        cwd: As for `Environment.run`.
        variables: As ``env`` of `Environment.run`.
        stdin: As for `Environment.run`.
        timeout: Seconds until the command is stopped.
        left_behind: The fate of processes that outlive the command.
        split_stderr: Whether stdout and stderr are separate.
        session: The session of the environment in which the command runs; ``None`` for a fresh shell.
        max_output: Bytes of each channel, instead of `MAX_OUTPUT`.
        listener: A listener for each piece of output, until the command is stopped for printing too much.
        control: As for `Environment.run`.
        stop: Whether a command that prints too much is stopped.

    Raises:
        InvalidCommand, SpawnError, AnyshellError: As `Environment.run` or `Session.run` does.
    """
    printed: dict[Channel, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
    limit = MAX_OUTPUT if max_output is None else max_output
    control = control or Control()
    too_much = False

    async def hear(channel: Channel, data: bytes) -> None:
        nonlocal too_much
        if len(printed[channel]) + len(data) > limit:
            too_much = True
            if stop:
                control.cancel()
        if not too_much:  # the outcome counts and keeps the further output
            printed[channel] += data
        elif stop:
            return
        if listener is not None:
            await listener(channel, data)

    run = partial(env.run, background_after=None) if session is None else session.run
    outcome = await run(
        command,
        cwd=cwd,
        env=variables,
        stdin=stdin,
        timeout=timeout,
        left_behind=left_behind,
        split_stderr=split_stderr,
        listener=hear,
        limits=OutputLimits(budget=limit, max_line=limit),
        control=control,
    )
    number = number_of(outcome.signal, env.os) if outcome.signal else None
    return Whole(
        outcome,
        exit_code=outcome.exit_code if number is None else 128 + number,
        stdout=bytes(printed["stdout"]),
        stderr=bytes(printed["stderr"]),
        limit=limit,
        too_much=too_much,
    )


async def write_whole(env: Environment, path: str, data: bytes) -> None:
    """Replace a file, and make its parent directories.

    Raises:
        InvalidCommand, OSError: As `HostFiles.write` does.
    """
    try:
        await env.files.write(path, data)
    except FileNotFoundError:
        rules = ntpath if env.os == "windows" else posixpath
        await env.files.mkdir(rules.dirname(path) or ".", parents=True, exist_ok=True)
        await env.files.write(path, data)


async def list_whole(env: Environment, path: str) -> list[tuple[str, bool]]:
    """Return the sorted names in a directory, each with whether it is a directory or a link to a directory.

    Raises:
        InvalidCommand, OSError: As `HostFiles.list` does.
    """
    rules = ntpath if env.os == "windows" else posixpath
    there = env.info.resolve(path, env.directory)
    entries = sorted(await env.runner.backend.files.list(there), key=lambda each: each.name)
    return [
        (
            each.name,
            each.kind == "directory"
            or (each.kind == "link" and await env.files.is_dir(rules.join(there, each.name))),
        )
        for each in entries
    ]
