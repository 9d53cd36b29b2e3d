"""The options of a run: each public method makes and checks them once, and passes them on as one value."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

from .._exceptions import InvalidCommand
from .._types import (
    DEFAULT_GRACE,
    Command,
    LeftBehind,
    OutputLimits,
    check_choice,
    check_seconds,
    check_text,
)
from ..shells import SHELLS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from os import PathLike

    from .._stream import Listener
    from .._types import Effects, Recording, Scan, ShellKind, Terminal
    from .._types.checks import Seconds
    from ..reach import Reach
    from ..shells.words import CommandLike
    from .redirects import OutputFile, Stdin, Stdout


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The options of a run. `Environment.run` explains each option.

    Attributes:
        timeout: Seconds until the whole tree is stopped; ``None`` means no bound.
        silence: Seconds without output and input until the whole tree is stopped; ``None`` means no bound.
        grace: Seconds between the request to end and the kill.
        left_behind: The fate of processes that outlive the command; ``None`` is the default of the environment.
        split_stderr: Whether the outcome has two texts.
        stdout: A further target for the whole of stdout; ``None`` means no target.
        listener: Called with every chunk of output, and awaited.
        terminal: The terminal of the command; ``None`` stands for pipes.
        recording: The recording of the run; ``None`` means no recording.
        background_after: Seconds after which the command goes on as a job; ``None`` is never.
        limits: The limits of the output's text; ``None`` is the limits of the environment.
        effects: The files to look at before and after the command; ``None`` means no files.
        reach: The reach of the command; ``None`` is the reach of the environment.

    Raises:
        InvalidCommand: An option is invalid; the message names the option.
    """

    timeout: float | None = None
    silence: float | None = None
    grace: float = DEFAULT_GRACE
    left_behind: LeftBehind | None = None
    split_stderr: bool = False
    stdout: OutputFile | None = None
    listener: Listener | None = None
    terminal: Terminal | None = None
    recording: Recording | None = None
    background_after: float | None = None
    limits: OutputLimits | None = None
    effects: Scan | None = None
    reach: Reach | None = None

    if TYPE_CHECKING:  # the constructor takes more types than the fields have afterwards

        def __init__(
            self,
            *,
            timeout: Seconds | None = None,
            silence: Seconds | None = None,
            grace: Seconds = DEFAULT_GRACE,
            left_behind: LeftBehind | None = None,
            split_stderr: bool = False,
            stdout: Stdout | OutputFile | None = None,
            listener: Listener | None = None,
            terminal: Terminal | None = None,
            recording: str | PathLike[str] | Recording | None = None,
            background_after: Seconds | None = None,
            limits: OutputLimits | None = None,
            effects: bool | Sequence[str] | Scan | None = None,
            reach: Reach | None = None,
        ) -> None: ...

    @property
    def effects_so_far(self) -> Effects | None:
        """The report on the effects of a command that goes on as a job."""
        if self.effects is None:
            return None
        from .._types import Effects

        return Effects(incomplete=("the command still runs: the outcome of its job has its effects",))

    def __post_init__(self) -> None:
        # Modules for rare options are imported here.
        if self.terminal is not None:
            from .._types import Terminal

            if not isinstance(self.terminal, Terminal):
                kind = type(self.terminal).__name__
                raise InvalidCommand(f"terminal must be a Terminal(columns=, rows=), not {kind}")
            if self.split_stderr:
                raise InvalidCommand("on a terminal stdout and stderr are one: leave out split_stderr")
        if self.recording is not None:
            from .._types import to_recording

            object.__setattr__(self, "recording", to_recording(self.recording))
        if self.effects is not None:
            from .._types import to_scan

            object.__setattr__(self, "effects", to_scan(self.effects))
        if self.limits is not None and not isinstance(self.limits, OutputLimits):
            kind = type(self.limits).__name__
            raise InvalidCommand(f"limits must be OutputLimits(budget=), not {kind}")
        if self.reach is not None:
            from ..reach import Reach

            if not isinstance(self.reach, Reach):
                kind = type(self.reach).__name__
                raise InvalidCommand(f"reach must be a Reach, such as Reach.preset('workspace'), not {kind}")
        if self.stdout is not None:
            from .redirects import to_output_file

            object.__setattr__(self, "stdout", to_output_file(self.stdout))
        if self.listener is not None and not callable(self.listener):
            raise InvalidCommand(f"listener must be an async function, not {type(self.listener).__name__}")
        if self.left_behind is not None:
            check_choice("left_behind", self.left_behind, get_args(LeftBehind))
        for name in ("timeout", "silence", "background_after"):
            if (given := getattr(self, name)) is not None:
                object.__setattr__(self, name, check_seconds(name, given))
        if self.grace is not DEFAULT_GRACE:
            object.__setattr__(self, "grace", check_seconds("grace", self.grace, zero=True, none=False))


def to_command(
    command: CommandLike,
    cwd: str | PathLike[str] | None,
    env: Mapping[str, str | None] | None,
    stdin: Stdin | None = None,
    *,
    kind: ShellKind,
) -> Command:
    """Make a `Command` of the arguments of a caller.

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
    elif stdin is not None and not isinstance(stdin, bytes):
        from .redirects import to_stdin  # imported here: few commands read a file

        stdin = to_stdin(stdin)
    words: tuple[str, ...] = ()
    if isinstance(command, list | tuple):
        from ..shells import words_of

        words = words_of(command)
        command = SHELLS[kind].join(words)
    elif not isinstance(command, str):
        from ..shells import text_of

        command = text_of(command, SHELLS[kind])
    return Command(
        text=command,
        cwd=os.fspath(cwd) if cwd is not None and isinstance(cwd, os.PathLike) else cwd,
        env={} if env is None else {name: value for name, value in env.items() if value is not None},
        unset=frozenset() if env is None else frozenset(name for name, value in env.items() if value is None),
        stdin=stdin,
        words=words,
    )
