"""What a model says when it calls the tool, and what is wrong with it."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from .._exceptions import InvalidCommand
from .._types import Command, cut_name, exact
from ..policy import visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pydantic_core import ErrorDetails

    from .limits import ToolLimits

LONGEST_LABEL = 200
"""Characters of a description that people are shown; it decides nothing, so the rest is left out."""

LONGEST_PATH = 4096
"""Bytes of a path, as PATH_MAX has it on Linux; 1024 on macOS, which its host then says itself."""

_SAID = 5
"""Problems that are told one by one; of the rest, only the number is said."""


class ShellParams(BaseModel):
    """The parameters of one call. Nothing is converted, and an unknown one is an error.

    Every parameter but the command may be ``None``, which is as if it were left out.
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

    @field_validator("timeout", mode="before")
    @classmethod
    def _any_number(cls, value: object) -> object:
        """Take a whole number that no float can hold for the greatest that one can: it is out of bounds anyway."""
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) > sys.float_info.max:
            return sys.float_info.max if value > 0 else -sys.float_info.max
        return value


KEYS = tuple(ShellParams.model_fields)

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
    "runinbackground": "not possible here: what runs in the background is stopped when the call ends",
    "background": "not possible here: what runs in the background is stopped when the call ends",
}

_INSTEAD = {
    "command": "write it to a file in several calls, and run that",
    "cwd": "give a shorter one",
    "stdin": "put it into a file, and let the command read that",
    "env": "pass big values by stdin or by a file",
}

_EXPECTED = {
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
        command: What is asked for, but for its input.
        stdin: What it reads.
        timeout: Seconds that it gets.
        requested_timeout: Seconds that were asked for; ``None`` if the model did not say.
        label: The model's own words for people; may be empty.
    """

    command: Command
    stdin: bytes | None = field(repr=False)
    timeout: float
    requested_timeout: float | None
    label: str


def parse(params: Mapping[str, object] | ShellParams, limits: ToolLimits) -> Call:
    """Check what a model says, against the schema and the limits.

    Raises:
        InvalidParams: With everything that is wrong, for the model to read.
    """
    asked = _validated(params)
    problems = list(_problems(asked, limits))
    if problems:
        raise InvalidParams(f"{_listed(problems, len(problems))}.")
    try:
        command = Command(text=asked.command, cwd=asked.cwd, env=asked.env or {})
    except InvalidCommand as error:
        raise InvalidParams(f"{error}.") from error
    return Call(
        command=command,
        stdin=None if asked.stdin is None else asked.stdin.encode(),
        timeout=_timeout(asked.timeout, limits),
        requested_timeout=asked.timeout,
        label=" ".join((asked.description or "").split())[:LONGEST_LABEL],
    )


def _timeout(requested: float | None, limits: ToolLimits) -> float:
    wanted = limits.default_timeout if requested is None else requested
    return min(max(wanted, limits.min_timeout), limits.max_timeout)


def _validated(params: Mapping[str, object] | ShellParams) -> ShellParams:
    if isinstance(params, ShellParams):
        return params
    if not isinstance(params, Mapping):
        raise InvalidParams(f"the parameters must be an object, with these keys: {', '.join(KEYS)}.")
    try:
        return ShellParams.model_validate(dict(params))
    except ValidationError as error:
        details = error.errors(include_url=False, include_context=False, include_input=False)
    message = f"{_listed([_problem(detail) for detail in details[:_SAID]], len(details))}."
    if any(detail["type"] in ("extra_forbidden", "invalid_key", "missing") for detail in details):
        message += f" The keys are {', '.join(KEYS)}."
    raise InvalidParams(message)


def _listed(problems: Sequence[str], count: int) -> str:
    more = count - len(problems[:_SAID])
    return "; ".join(problems[:_SAID]) + (f"; and {more:,} more" if more else "")


def _problem(detail: ErrorDetails) -> str:
    name = visible(".".join(cut_name(str(part)) for part in detail["loc"] if part != "[key]"))
    match detail["type"]:
        case "missing":
            return f"{name} is missing"
        case "invalid_key":
            return f'the key "{name}" is not a string'
        case "extra_forbidden":
            return f'there is no "{name}"{_meant(name)}'
        case kind:
            return f"{name} {_EXPECTED.get(kind, 'is not valid')}"


def _meant(name: str) -> str:
    plain = name.lower().translate(dict.fromkeys(map(ord, "-_ ")))
    if (hint := _ALSO_CALLED.get(plain)) is not None:
        return f" ({hint})"
    close = difflib.get_close_matches(plain, KEYS, n=1)
    return f' (did you mean "{close[0]}"?)' if close else ""


def _problems(asked: ShellParams, limits: ToolLimits) -> Iterator[str]:
    if not asked.command.strip():
        yield "command is blank: say what to run"
    yield from _too_long("command", asked.command, limits.max_command)
    if asked.cwd is not None:
        if not asked.cwd.strip():
            yield "cwd is blank: give a directory, or leave it out to run in the starting directory"
        yield from _too_long("cwd", asked.cwd, LONGEST_PATH)
    if asked.stdin is not None:
        yield from _too_long("stdin", asked.stdin, limits.max_stdin)
    if asked.env is not None:
        yield from _env_problems(asked.env, limits)
    if (
        asked.timeout is not None
        and limits.beyond == "refuse"
        and asked.timeout != _timeout(asked.timeout, limits)
    ):
        least, most = exact(limits.min_timeout), exact(limits.max_timeout)
        yield f"timeout is {exact(asked.timeout)} s: it must be from {least} to {most} s"


def _env_problems(env: Mapping[str, str], limits: ToolLimits) -> Iterator[str]:
    if len(env) > limits.max_env:
        yield f"env has {len(env):,} variables, and at most {limits.max_env:,} can be given"
        return
    yield from _too_long(
        "env", "".join(f"{name}{value}" for name, value in env.items()), limits.max_env_bytes
    )


def _too_long(name: str, text: str, most: int) -> Iterator[str]:
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        yield f"{name} holds half of a surrogate pair, which is no character"
        return
    if size > most:
        yield f"{name} has {size:,} bytes, and at most {most:,} can be given: {_INSTEAD[name]}"
