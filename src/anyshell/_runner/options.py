"""What a door is given beside a command's text: made and checked once there, and handed on whole."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

from .._exceptions import InvalidCommand
from .._types import (
    DEFAULT_GRACE,
    Command,
    Effects,
    LeftBehind,
    OutputLimits,
    Terminal,
    check_choice,
    check_seconds,
    check_text,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Mapping
    from os import PathLike

    from .._stream import Listener
    from .._types import Recording, Scan
    from ..reach import Reach


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How a command is run. `Environment.run` explains each.

    Attributes:
        timeout: Seconds until the whole tree is stopped; ``None`` is no bound.
        silence: Seconds without output and input until then; ``None`` is no bound.
        grace: Seconds between the request to end and the kill.
        left_behind: What becomes of processes that outlive the command; ``None`` is the default of the environment.
        split_stderr: Whether the outcome has two texts.
        listener: Is given every piece of output, and is awaited.
        terminal: What the command runs on; ``None`` are pipes.
        recording: Into what it is recorded; ``None`` is nothing.
        background_after: Seconds after which it goes on as a job; ``None`` is never.
        limits: How much of its output becomes text; ``None`` is what the environment has.
        effects: The files that are looked at before it and after it; ``None`` are none.
        reach: What it may see, write and reach; ``None`` is the reach of the environment.

    Raises:
        InvalidCommand: Names the option.
    """

    timeout: float | None = None
    silence: float | None = None
    grace: float = DEFAULT_GRACE
    left_behind: LeftBehind | None = None
    split_stderr: bool = False
    listener: Listener | None = None
    terminal: Terminal | None = None
    recording: Recording | None = None
    background_after: float | None = None
    limits: OutputLimits | None = None
    effects: Scan | None = None
    reach: Reach | None = None

    @property
    def effects_so_far(self) -> Effects | None:
        """What is told of the effects of a command that goes on as a job."""
        if self.effects is None:
            return None
        return Effects(incomplete=("the command still runs: the outcome of its job has its effects",))

    def __post_init__(self) -> None:
        if self.terminal is not None and not isinstance(self.terminal, Terminal):
            kind = type(self.terminal).__name__
            raise InvalidCommand(f"terminal must be a Terminal(columns=, rows=), not {kind}")
        if self.terminal is not None and self.split_stderr:
            raise InvalidCommand("on a terminal stdout and stderr are one: leave out split_stderr")
        if self.limits is not None and not isinstance(self.limits, OutputLimits):
            kind = type(self.limits).__name__
            raise InvalidCommand(f"limits must be OutputLimits(budget=), not {kind}")
        if self.listener is not None and not callable(self.listener):
            raise InvalidCommand(f"listener must be an async function, not {type(self.listener).__name__}")
        if self.left_behind is not None:
            check_choice("left_behind", self.left_behind, get_args(LeftBehind))
        check_seconds("timeout", self.timeout)
        check_seconds("silence", self.silence)
        check_seconds("grace", self.grace, zero=True, none=False)
        check_seconds("background_after", self.background_after)


def to_command(
    text: str,
    cwd: str | PathLike[str] | None,
    env: Mapping[str, str] | None,
    stdin: bytes | str | AsyncIterable[bytes] | None = None,
) -> Command:
    """What a caller asks for, as it is handed on.

    Raises:
        InvalidCommand: As `Command` does.
    """
    if env is not None and not hasattr(env, "keys"):
        raise InvalidCommand(
            f"env must map names to values, such as {{'LANG': 'C'}}, not {type(env).__name__}"
        )
    if isinstance(stdin, str):
        check_text("stdin", stdin)
        stdin = stdin.encode(errors="surrogateescape")
    elif isinstance(stdin, bytearray | memoryview):
        stdin = bytes(stdin)
    return Command(
        text=text,
        cwd=os.fspath(cwd) if isinstance(cwd, os.PathLike) else cwd,
        env={} if env is None else dict(env),
        stdin=stdin,
    )
