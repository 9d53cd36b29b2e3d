"""A command run to its end, with its whole output as bytes, as frameworks need it of a sandbox."""

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
"""Bytes of each channel of one command that an adapter gives to its framework whole; a command that prints more is stopped."""


TIMED_OUT = 124  # no bound: an exit code
"""The exit code of a command that was stopped after its timeout, for frameworks that want a number: that of timeout(1)."""


@dataclass(frozen=True, slots=True)
class Whole:
    """The outcome of a command, with its whole output.

    Attributes:
        outcome: Its outcome.
        exit_code: The exit code; 128 and the signal's number when a signal ended it; ``None`` without one.
        stdout: The raw bytes.
        stderr: The raw bytes; empty when the channels were not asked for apart.
        limit: Bytes of each channel that it might print.
        too_much: Whether the command printed more. It was stopped then, unless that was not wanted, and the bytes end before that.
    """

    outcome: Outcome
    exit_code: int | None
    stdout: bytes
    stderr: bytes
    limit: int
    too_much: bool

    @property
    def kept(self) -> str:
        """The paths of its kept output, as words behind a sentence; empty if none is kept."""
        outputs = (self.outcome.output, self.outcome.stderr)
        paths = [
            str(each.artifact.path) for each in outputs if each is not None and each.artifact is not None
        ]
        return f"; it is kept in {' and '.join(paths)}" if paths else ""

    @property
    def alive(self) -> str:
        """A clause that names the processes that a stop could not end; empty if there are none."""
        names = [f"{visible(each.name)} ({each.pid})" for each in self.outcome.left_behind if each.alive]
        return f"; still alive: {', '.join(names)}" if names else ""

    def stopped(self, timeout: float | None) -> str:
        """The reason why the command did not end by itself, as words behind "the command was"; empty if it did.

        Args:
            timeout: The seconds that it had.
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
        env: Where.
        command: A text for the environment's shell; or a program and its arguments, each taken literally.
        cwd: As for `Environment.run`.
        variables: As its ``env``.
        stdin: As for `Environment.run`, and so are the others.
        timeout: Seconds.
        left_behind: The fate of processes that outlive the command.
        split_stderr: Whether the channels are apart.
        session: Runs it in this session of the environment.
        max_output: Bytes of each channel, instead of `MAX_OUTPUT`.
        listener: Is given what it prints, as it comes, until it is stopped for too much.
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
        if not too_much:  # what else it prints until it has ended is counted in the outcome, and kept there
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
    """Replace a file, and make the directories above it.

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
    """Name what is in a directory, sorted, and say of each whether it is a directory, or a link to one.

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
