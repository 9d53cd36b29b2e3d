"""What a model says when it calls the shell tool, and what is wrong with it."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from .._exceptions import InvalidCommand
from .._types import Command, cut_name, exact
from ..policy import visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pydantic_core import ErrorDetails

    from .limits import ToolLimits

Params = TypeVar("Params", bound=BaseModel)

LONGEST_LABEL = 200
"""Characters of a description for people; the rest is left out, since it decides nothing."""

LONGEST_PATH = 4096
"""Bytes of a path, as PATH_MAX has it on Linux; a longer one is refused. macOS has 1024, and says so itself."""

_SAID = 5
"""Problems with parameters that are told one by one; of the rest, only the number is said."""


class ShellParams(BaseModel):
    """The parameters of one call. Nothing is converted, and an unknown one is an error.

    Every parameter but the command may be ``None``, which is as if it were left out. `restart` is one of a tool with
    a session alone, and then needs no command; `background` is one of a tool with jobs alone, and `pty` of one with
    terminals.
    """

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False, hide_input_in_errors=True
    )

    command: str = Field(
        description="The command to run, in the language of the shell that the tool's description names."
    )
    timeout: float | None = Field(
        default=None,
        description="Seconds after which the command is stopped, with everything that it started.",
    )
    cwd: str | None = Field(
        default=None,
        description=(
            "The directory to run in, rather than a command that begins with cd. Absolute, relative, or below the "
            "home directory as ~/DIR. It must exist."
        ),
    )
    env: dict[str, str] | None = Field(
        default=None,
        repr=False,
        description=(
            "Variables to set for this command, over those that it would have. A name is made of letters, digits "
            "and underscores, and does not begin with a digit."
        ),
    )
    stdin: str | None = Field(
        default=None, repr=False, description="Text for the command to read. Without it stdin is empty."
    )
    description: str | None = Field(
        default=None, description="What the command does, in 3 to 7 words, for the people who watch."
    )
    restart: bool | None = Field(
        default=None,
        description=(
            "Begin a fresh shell first. The present one is ended, and what it knew is lost. Can be given alone, "
            "without a command."
        ),
    )
    background: bool | None = Field(
        default=None,
        description=(
            "Start the command as a job and return at once: for a server, or for what takes long. Its output, its "
            "input and its end are then matters of the tool named job."
        ),
    )

    pty: bool | None = Field(
        default=None,
        description=(
            "Give the command a terminal: for a program that wants one, or that asks questions. When it waits for "
            "input, the call returns, and the tool named terminal answers it."
        ),
    )

    @field_validator("timeout", mode="before")
    @classmethod
    def _any_number(cls, value: object) -> object:
        return held_by_a_float(value)


def held_by_a_float(value: object) -> object:
    """Take a whole number that no float can hold for the greatest that one can: it is out of bounds anyway."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > sys.float_info.max:
        return sys.float_info.max if value > 0 else -sys.float_info.max
    return value


@dataclass(frozen=True, slots=True)
class ToolFeatures:
    """What a tool can do besides running a command and waiting for its end.

    Attributes:
        session: Whether calls share a shell that lasts.
        jobs: Whether commands can run in the background.
        terminals: Whether commands can have a terminal.
    """

    session: bool = False
    jobs: bool = False
    terminals: bool = False

    @property
    def keys(self) -> tuple[str, ...]:
        """The parameters that there are."""
        withheld = {"restart": not self.session, "background": not self.jobs, "pty": not self.terminals}
        return tuple(name for name in ShellParams.model_fields if not withheld.get(name))


# What models say for want of knowing better, as seen in other tools' schemas; in small letters, nothing between.
_ALSO_CALLED = {
    "cmd": 'did you mean "command"?',
    "script": 'did you mean "command"?',
    "code": 'did you mean "command"?',
    "input": 'did you mean "stdin"?',
    "workdir": 'did you mean "cwd"?',
    "workingdir": 'did you mean "cwd"?',
    "workingdirectory": 'did you mean "cwd"?',
    "directory": 'did you mean "cwd"?',
    "dir": 'did you mean "cwd"?',
    "path": 'did you mean "cwd"?',
    "seconds": 'did you mean "timeout"?',
    "timeoutms": 'did you mean "timeout", in seconds?',
    "timeoutseconds": 'did you mean "timeout"?',
    "environment": 'did you mean "env"?',
    "variables": 'did you mean "env"?',
    "title": 'did you mean "description"?',
    "label": 'did you mean "description"?',
    "shell": "not possible here: the tool's description names the shell that runs every command",
}

_ALONE = "not possible here: what runs in the background is stopped when the call ends"
_FRESH = "not needed here: every call begins in a fresh shell"
_NO_TERMINAL = "not possible here: no command has a terminal"

# The same, of what some tools offer and others do not.
_OFFERED = {
    "runinbackground": ("background", _ALONE),
    "background": ("background", _ALONE),
    "restart": ("restart", _FRESH),
    "pty": ("pty", _NO_TERMINAL),
    "tty": ("pty", _NO_TERMINAL),
    "terminal": ("pty", _NO_TERMINAL),
    "interactive": ("pty", _NO_TERMINAL),
}

_INSTEAD = {
    "command": "write it to a file in several calls, and run that",
    "cwd": "give a shorter one",
    "stdin": "put it into a file, and let the command read that",
    "env": "pass big values by stdin or by a file",
    "text": "send it in several pieces",
}

_EXPECTED = {
    "bool_type": "must be true or false",
    "int_type": "must be a whole number",
    "literal_error": "is not one of those that there are",
    "list_type": "must be a list",
    "string_type": "must be a string",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "dict_type": "must be an object with strings for values",
}


class InvalidParams(Exception):  # noqa: N818 - becomes a result; never leaves the package
    """What is wrong with a call, and what is right. Holds no value, since values may be secrets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call that can be carried out.

    Attributes:
        command: What is asked for, but for its input. Its text is empty when only a restart is.
        stdin: What it reads.
        timeout: Seconds that it gets; ``None`` is no bound, for a job alone.
        requested_timeout: Seconds that were asked for; ``None`` if the model did not say.
        label: The model's own words for people; may be empty.
        restart: Whether the session's shell is replaced first.
        background: Whether it is started as a job.
        pty: Whether it is to have a terminal.
        no_terminal: Why it cannot have one, if that was found out.
    """

    command: Command
    stdin: bytes | None = field(repr=False)
    timeout: float | None
    requested_timeout: float | None
    label: str
    restart: bool = False
    background: bool = False
    pty: bool = False
    no_terminal: str = ""


def parse(params: Mapping[str, object] | ShellParams, limits: ToolLimits, features: ToolFeatures) -> Call:
    """Check what a model says, against the schema, the limits and what the tool offers.

    Raises:
        InvalidParams: With everything that is wrong, for the model to read.
    """
    asked = _asked(params, features)
    problems = list(_problems(asked, limits))
    if problems:
        raise InvalidParams(f"{listed(problems, len(problems))}.")
    try:
        command = Command(text=asked.command, cwd=asked.cwd, env=asked.env or {})
    except InvalidCommand as error:
        raise InvalidParams(f"{error}.") from error
    return Call(
        command=command,
        stdin=None if asked.stdin is None else asked.stdin.encode(),
        timeout=None if asked.background and asked.timeout is None else timeout_of(asked.timeout, limits),
        requested_timeout=asked.timeout,
        label=" ".join((asked.description or "").split())[:LONGEST_LABEL],
        restart=asked.restart is True,
        background=asked.background is True,
        pty=asked.pty is True,
    )


def timeout_of(requested: float | None, limits: ToolLimits) -> float:
    """The seconds that a command gets."""
    wanted = limits.default_timeout if requested is None else requested
    return min(max(wanted, limits.min_timeout), limits.max_timeout)


def _asked(params: Mapping[str, object] | ShellParams, features: ToolFeatures) -> ShellParams:
    if isinstance(params, ShellParams):
        params = params.model_dump(exclude_none=True)
    if isinstance(params, Mapping):
        params = dict(params)
        if features.session and params.get("restart") is True and params.get("command") is None:
            params["command"] = ""
    return validated(params, ShellParams, features.keys, partial(_meant, features=features))


def validated(
    params: object, model: type[Params], keys: Sequence[str], meant: Callable[[str], str]
) -> Params:
    """Check parameters against a model.

    Args:
        params: As a model gave them.
        model: What they must be.
        keys: Those of its fields that there are.
        meant: Says what a key may have meant that there is not.

    Raises:
        InvalidParams: Names what is wrong and the keys.
    """
    if not isinstance(params, Mapping):
        raise InvalidParams(f"the parameters must be an object, with these keys: {', '.join(keys)}.")
    withheld = [name for name in model.model_fields if name not in keys and name in params]
    try:
        asked = model.model_validate({name: params[name] for name in params if name not in withheld})
        found: list[ErrorDetails] = []
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)
    problems = [f'there is no "{name}"{meant(name)}' for name in withheld]
    problems = [*(_problem(detail, meant) for detail in found[:_SAID]), *problems]
    if not problems:
        return asked
    message = f"{listed(problems, len(found) + len(withheld))}."
    if withheld or any(detail["type"] in ("extra_forbidden", "invalid_key", "missing") for detail in found):
        message += f" The keys are {', '.join(keys)}."
    raise InvalidParams(message)


def listed(problems: Sequence[str], count: int) -> str:
    """Join problems, of which there are `count` in all; those that are too many are only counted."""
    more = count - len(problems[:_SAID])
    return "; ".join(problems[:_SAID]) + (f"; and {more:,} more" if more else "")


def _problem(detail: ErrorDetails, meant: Callable[[str], str]) -> str:
    name = visible(".".join(cut_name(str(part)) for part in detail["loc"] if part != "[key]"))
    match detail["type"]:
        case "missing":
            return f"{name} is missing"
        case "invalid_key":
            return f'the key "{name}" is not a string'
        case "extra_forbidden":
            return f'there is no "{name}"{meant(name)}'
        case kind:
            return f"{name} {_EXPECTED.get(kind, 'is not valid')}"


def _meant(name: str, *, features: ToolFeatures) -> str:
    key, otherwise = _OFFERED.get(plain(name), ("", ""))
    if key:
        return f' (did you mean "{key}"?)' if key in features.keys else f" ({otherwise})"
    if (hint := _ALSO_CALLED.get(plain(name))) is not None:
        return f" ({hint})"
    return alike(name, features.keys)


def plain(name: str) -> str:
    """A key in small letters, with nothing between its words."""
    return name.lower().translate(dict.fromkeys(map(ord, "-_ ")))


def alike(name: str, keys: Sequence[str]) -> str:
    """Say which key is written almost so, if one is."""
    close = difflib.get_close_matches(plain(name), keys, n=1)
    return f' (did you mean "{close[0]}"?)' if close else ""


def _problems(asked: ShellParams, limits: ToolLimits) -> Iterator[str]:
    if not asked.command.strip() and not (asked.restart and not asked.command):
        yield "command is blank: say what to run"
    if asked.restart and asked.background:
        yield "restart and background exclude each other: a job is a shell of its own; give one after the other"
    if asked.pty and asked.restart:
        yield "pty and restart exclude each other: on a terminal runs a shell of its own; give one after the other"
    if asked.pty and asked.background:
        yield (
            "pty and background exclude each other: a program that waits for input goes on by itself; leave out background, "
            'or use the tool terminal, action "start"'
        )
    if asked.pty and asked.stdin is not None:
        yield "pty and stdin exclude each other: what a terminal's program reads is typed, with the tool terminal"
    if asked.restart and not asked.command:
        given = [name for name in ("cwd", "env", "stdin") if getattr(asked, name) is not None]
        if given:
            yield f"restart without a command takes no {' and no '.join(given)}: give a command as well, or leave it out"
    yield from too_long("command", asked.command, limits.max_command)
    yield from cwd_problems(asked.cwd)
    if asked.stdin is not None:
        yield from too_long("stdin", asked.stdin, limits.max_stdin)
    if asked.env is not None:
        yield from _env_problems(asked.env, limits)
    yield from timeout_problems(asked.timeout, limits)


def cwd_problems(cwd: str | None) -> Iterator[str]:
    """Say what keeps a directory from being taken, if anything does."""
    if cwd is not None:
        if not cwd.strip():
            yield "cwd is blank: give a directory, or leave it out to run in the starting directory"
        yield from too_long("cwd", cwd, LONGEST_PATH)


def timeout_problems(timeout: float | None, limits: ToolLimits) -> Iterator[str]:
    """Say what keeps a timeout from being taken, if anything does."""
    if timeout is not None and limits.beyond == "refuse" and timeout != timeout_of(timeout, limits):
        least, most = exact(limits.min_timeout), exact(limits.max_timeout)
        yield f"timeout is {exact(timeout)} s: it must be from {least} to {most} s"


def _env_problems(env: Mapping[str, str], limits: ToolLimits) -> Iterator[str]:
    if len(env) > limits.max_env:
        yield f"env has {len(env):,} variables, and at most {limits.max_env:,} can be given"
        return
    yield from too_long("env", "".join(f"{name}{value}" for name, value in env.items()), limits.max_env_bytes)


def too_long(name: str, text: str, most: int) -> Iterator[str]:
    """Say what keeps a text from being taken, if anything does."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        yield f"{name} holds half of a surrogate pair, which is no character"
        return
    if size > most:
        yield f"{name} has {size:,} bytes, and at most {most:,} can be given: {_INSTEAD[name]}"
