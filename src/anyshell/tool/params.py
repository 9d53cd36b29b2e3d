"""The parameters of the shell tool, and the mistakes in them."""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Annotated, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator

from .._exceptions import InvalidCommand
from .._types import Command, cut_name, exact
from .._types.checks import as_seconds
from ..policy import visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pydantic_core import ErrorDetails

    from .limits import ToolLimits

Params = TypeVar("Params", bound=BaseModel)

LONGEST_LABEL = 200
"""Characters of a description for people; the rest is left out, since a description decides nothing."""

LONGEST_PATH = 4096
"""Bytes of a path, Linux's PATH_MAX; a longer path is refused. macOS allows 1024, and reports longer paths itself."""

MOST_ALSO = 8
"""Paths beyond the reach that one call can ask to write, and as many to read; more are refused."""

_LONGEST_ALIKE = 64
"""Characters of a key that are compared with the known keys; the rest is ignored, since time grows with length."""

_SAID = 5
"""Problems with parameters that are told one by one; the others are only counted."""


def truth(value: object) -> object:
    """Return the truth value that a text such as "True" names; any other value unchanged."""
    return (
        {"true": True, "false": False}.get(value.strip().lower(), value) if isinstance(value, str) else value
    )


_SECONDS = re.compile(
    r"\s*(\d{1,15}(?:\.\d{1,9})?)\s*(ms|s|sec|secs|seconds?|m|min|minutes?)?\s*", re.IGNORECASE
)


def seconds(value: object) -> object:
    """Return seconds as a number, from a text with a unit, a `timedelta` or a number; an int beyond floats is clamped."""
    if isinstance(value, str) and (said := _SECONDS.fullmatch(value)):
        unit = (said[2] or "s").lower()
        return float(said[1]) * (0.001 if unit == "ms" else 60 if unit.startswith("m") else 1)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > sys.float_info.max:
        return sys.float_info.max if value > 0 else -sys.float_info.max
    return as_seconds(value)


Truth = Annotated[bool, BeforeValidator(truth)]
"""A parameter that is true or false, also as a text."""

Duration = Annotated[float, BeforeValidator(seconds)]
"""A parameter in seconds, also as a text."""

Paths = Annotated[list[str], BeforeValidator(lambda given: [given] if isinstance(given, str) else given)]
"""A parameter of several paths, or of one path."""


class ShellParams(BaseModel):
    """The parameters of one call. An unknown one is an error; what is unambiguous is taken as it is meant, such as ``"60"``.

    Every parameter but the command may be ``None``, which is as if it were left out. `restart` is one of a tool with
    a session alone, and then needs no command; `run_in_background` is one of a tool with jobs or terminals alone, `pty`
    of one with terminals, and `also_write` and `also_read` of one whose commands have a reach.
    """

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False, hide_input_in_errors=True
    )

    command: str = Field(description="What to run.")
    timeout: Duration | None = Field(default=None, description="Seconds; then it is stopped.")
    cwd: str | None = Field(
        default=None, description="The directory to run in: absolute, relative to the starting one, or ~/DIR."
    )
    env: dict[str, str] | None = Field(default=None, repr=False, description="Variables to set.")
    stdin: str | None = Field(default=None, repr=False, description="What the command reads.")
    description: str | None = Field(default=None, description="What it does, in 3 to 7 words, for people.")
    run_in_background: Truth | None = Field(default=None, description="Start it as a job and return at once.")
    pty: Truth | None = Field(default=None, description="Give it a terminal.")
    restart: Truth | None = Field(
        default=None, description="Begin a fresh shell first; may stand without a command."
    )
    also_write: Paths | None = Field(
        default=None,
        description="Paths that it has to write although the sandbox does not let it; the user is asked.",
    )
    also_read: Paths | None = Field(default=None, description="Paths that it has to read, likewise.")

    @field_validator("env", mode="before")
    @classmethod
    def _any_variables(cls, value: object) -> object:
        if isinstance(value, list) and all(isinstance(each, str) and "=" in each for each in value):
            value = dict(each.split("=", 1) for each in value)
        if not isinstance(value, dict):
            return value
        return {
            name: str(each) if isinstance(each, (int, float)) and not isinstance(each, bool) else each
            for name, each in value.items()
        }


def _of_milliseconds(value: object) -> object:
    """Return the seconds of a number of milliseconds; a text with a unit unchanged."""
    if isinstance(value, str) and (said := _SECONDS.fullmatch(value)) and said[2] is None:
        value = float(said[1])
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        value = seconds(value)
        assert isinstance(value, (int, float))
        return value / 1000
    return value


@dataclass(frozen=True, slots=True)
class ToolFeatures:
    """The optional features of a tool.

    Attributes:
        session: Whether calls share one lasting shell.
        jobs: Whether commands can run in the background.
        terminals: Whether commands can have a terminal.
        widening: Whether commands have a reach to which a person can add paths.
    """

    session: bool = False
    jobs: bool = False
    terminals: bool = False
    widening: bool = False

    @property
    def keys(self) -> tuple[str, ...]:
        """The names of the offered parameters."""
        withheld = {
            "restart": not self.session,
            "run_in_background": not (self.jobs or self.terminals),
            "pty": not self.terminals,
            "also_write": not self.widening,
            "also_read": not self.widening,
        }
        return tuple(name for name in ShellParams.model_fields if not withheld.get(name))


# Names of the same parameters in other agents' tools, in small letters without separators: accepted in silence.
_ALSO_CALLED = {
    "cmd": "command",
    "script": "command",
    "code": "command",
    "commandline": "command",
    "bashcommand": "command",
    "input": "stdin",
    "workdir": "cwd",
    "workingdir": "cwd",
    "workingdirectory": "cwd",
    "currentdirectory": "cwd",
    "dirpath": "cwd",
    "directory": "cwd",
    "dir": "cwd",
    "timeouts": "timeout",
    "timeoutsec": "timeout",
    "timeoutsecs": "timeout",
    "timeoutseconds": "timeout",
    "timeoutinseconds": "timeout",
    "environment": "env",
    "envvars": "env",
    "variables": "env",
    "title": "description",
    "label": "description",
    "explanation": "description",
    "background": "run_in_background",
    "isbackground": "run_in_background",
    "runinbackground": "run_in_background",
    "detach": "run_in_background",
    "tty": "pty",
    "usepty": "pty",
    "terminal": "pty",
    "interactive": "pty",
    "reset": "restart",
}
_MILLISECONDS = {"timeoutms": "timeout", "timeoutmillis": "timeout", "timeoutmilliseconds": "timeout"}

# Rejected parameters, each with its advice.
_RATHER = {
    "path": 'did you mean "cwd"?',
    "seconds": 'did you mean "timeout"?',
    "shell": "not possible here: the tool's description names the shell that runs every command",
    "user": "not possible here: use sudo in the command",
    "args": "put them into command, quoted",
    "arguments": "put them into command, quoted",
}

_WITHHELD = {
    "run_in_background": "not possible here: what runs in the background is stopped when the call ends",
    "restart": "not needed here: every call begins in a fresh shell",
    "pty": "not possible here: no command has a terminal",
    **dict.fromkeys(
        ("also_write", "also_read"), "not needed here: no sandbox is in the way that could be widened"
    ),
}

_LEAST_MILLISECONDS = 10_000.0  # no bound
"""Seconds from which a multiple of 1000 beyond the longest timeout is taken for milliseconds."""

_INSTEAD = {
    "command": "write it to a file in several calls, and run that",
    "cwd": "give a shorter one",
    "stdin": "put it into a file, and let the command read that",
    "env": "pass big values by stdin or by a file",
    "text": "send it in several pieces",
    **dict.fromkeys(("also_write", "also_read"), "name a directory above it"),
}

_EXPECTED = {
    "bool_type": "must be true or false",
    "int_type": "must be a whole number",
    "list_type": "must be a list",
    "string_type": "must be one string",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "dict_type": "must be an object with strings for values",
    "less_than_equal": "is too large",
}


class InvalidParams(Exception):  # noqa: N818 - becomes a result; never leaves the package
    """The mistakes in a call, with advice for each mistake. Holds no value, since values may be secrets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A checked call.

    Attributes:
        command: The requested command, without its input. The command's text is empty for a restart alone.
        stdin: The command's input.
        timeout: Seconds that the command gets; ``None`` means no bound, for a job alone.
        requested_timeout: Seconds that the model asked for; ``None`` without a request.
        label: The model's own description for people; may be empty.
        restart: Whether the session's shell is replaced first.
        background: Whether the command is started as a job.
        pty: Whether the command asks for a terminal.
        no_terminal: The reason why no terminal could be given, once a try has failed.
        also_write: Paths beyond the reach that the call asks to write.
        also_read: Paths beyond the reach that the call asks to read.
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
    also_write: tuple[str, ...] = ()
    also_read: tuple[str, ...] = ()


def parse(params: Mapping[str, object] | ShellParams, limits: ToolLimits, features: ToolFeatures) -> Call:
    """Check a model's parameters against the schema, the limits and the tool's features.

    Raises:
        InvalidParams: The parameters are wrong; the message tells the model all mistakes.
    """
    asked = _asked(params, features)
    problems = list(_problems(asked, limits, features))
    if problems:
        raise InvalidParams(sentence(listed(problems, len(problems))))
    try:
        command = Command(text=asked.command, cwd=asked.cwd, env=asked.env or {})
    except InvalidCommand as error:
        raise InvalidParams(f"{error}.") from error
    return Call(
        command=command,
        stdin=None if asked.stdin is None else asked.stdin.encode(),
        timeout=None
        if asked.run_in_background and asked.timeout is None
        else timeout_of(asked.timeout, limits),
        requested_timeout=asked.timeout,
        label=" ".join((asked.description or "").split())[:LONGEST_LABEL],
        restart=asked.restart is True,
        background=asked.run_in_background is True,
        pty=asked.pty is True,
        also_write=tuple(asked.also_write or ()),
        also_read=tuple(asked.also_read or ()),
    )


def timeout_of(requested: float | None, limits: ToolLimits) -> float:
    """Return the seconds that a command gets: the requested or default timeout, within the limits."""
    wanted = limits.default_timeout if requested is None else requested
    return min(max(wanted, limits.min_timeout), limits.max_timeout)


def _asked(params: Mapping[str, object] | ShellParams, features: ToolFeatures) -> ShellParams:
    if isinstance(params, ShellParams):
        params = params.model_dump(exclude_none=True)
    if isinstance(params, Mapping):
        params = understood(params, ShellParams, features.keys, _ALSO_CALLED, _MILLISECONDS)
        if features.session and truth(params.get("restart")) is True and params.get("command") is None:
            params["command"] = ""
    return validated(params, ShellParams, features.keys, partial(_advice, features=features))


def understood(
    params: Mapping[str, object],
    model: type[BaseModel],
    keys: Sequence[str],
    also_called: Mapping[str, str],
    milliseconds: Mapping[str, str],
) -> dict[str, object]:
    """Rename parameters to the model's fields where only one field can be meant.

    Args:
        params: The parameters that a model gave.
        model: The pydantic model of the parameters.
        keys: The offered fields of `model`.
        also_called: Other names of fields.
        milliseconds: Other names of fields in seconds, for a number of milliseconds.
    """
    given: dict[str, object] = {}
    for name, value in params.items():
        meant = name
        if name not in model.model_fields:
            key = plain(str(name))
            known = next((field for field in model.model_fields if plain(field) == key), None)
            other = known or also_called.get(key) or milliseconds.get(key)
            if other is not None and params.get(other) is None and given.get(other) is None:
                meant = other
                if key in milliseconds:
                    value = _of_milliseconds(value)
        if meant in model.model_fields and meant not in keys and truth(value) in (False, None):
            continue  # false or null for a feature that is not offered asks for nothing
        given[meant] = value
    return given


def validated(
    params: object, model: type[Params], keys: Sequence[str], meant: Callable[[str], str]
) -> Params:
    """Check parameters against a model.

    Args:
        params: The parameters that a model gave.
        model: The pydantic model of the parameters.
        keys: The offered fields of `model`.
        meant: Returns a hint about an unknown key.

    Raises:
        InvalidParams: The parameters are wrong; the message names the mistakes, and the keys for a wrong or missing key.
    """
    if not isinstance(params, Mapping):
        named = f"with these keys: {', '.join(keys)}" if keys else "and it has no keys"
        raise InvalidParams(f"the parameters must be an object, {named}.")
    withheld = [name for name in model.model_fields if name not in keys and name in params]
    try:
        asked = model.model_validate({name: params[name] for name in params if name not in withheld})
        found: list[ErrorDetails] = []
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)
        # A wrong value for a text or a number has two problems: keep only that of the text.
        found = [each for each in found if each["loc"][-1:] != ("int",)]
    problems = [f'there is no "{name}"{meant(name)}' for name in withheld]
    problems = [*(_problem(detail, meant, params) for detail in found[:_SAID]), *problems]
    if not problems:
        return asked
    message = sentence(listed(problems, len(found) + len(withheld)))
    if withheld or any(detail["type"] in ("extra_forbidden", "invalid_key", "missing") for detail in found):
        message += f" The keys are {', '.join(keys)}." if keys else " It takes none."
    raise InvalidParams(message)


def listed(problems: Sequence[str], count: int) -> str:
    """Join the first problems into one text; the others of all `count` problems are only counted."""
    more = count - len(problems[:_SAID])
    return "; ".join(problems[:_SAID]) + (f"; and {more:,} more" if more else "")


def sentence(text: str) -> str:
    """Return a text with a final full stop, unless the text ends in a question mark or full stop."""
    return text if text.endswith(("?", ".")) else f"{text}."


def _problem(detail: ErrorDetails, meant: Callable[[str], str], params: Mapping[str, object]) -> str:
    name = visible(".".join(cut_name(str(part)) for part in detail["loc"] if part != "[key]"))
    match detail["type"]:
        case "string_type" if detail["loc"][-1:] == ("str",):
            return f"{name.removesuffix('.str')} must be a string or a whole number"
        case "missing":
            return f"{name} is missing"
        case "invalid_key":
            return f'the key "{name}" is not a string'
        case "extra_forbidden":
            return f'there is no "{name}"{meant(name)}'
        case "string_type" if name == "command" and isinstance(params.get(name), list):
            return "command must be one string, not a list: write it as in a shell"
        case kind:
            return f"{name} {_EXPECTED.get(kind, 'is not valid')}"


def _advice(name: str, *, features: ToolFeatures) -> str:
    if name in _WITHHELD and name not in features.keys:
        return f" ({_WITHHELD[name]})"
    key = plain(name)
    if (hint := _RATHER.get(key)) is not None:
        return f" ({hint})"
    if (other := _ALSO_CALLED.get(key) or _MILLISECONDS.get(key)) is not None:
        return f" beside {other}: give one of them"
    return alike(name, features.keys)


def plain(name: str) -> str:
    """Return a key in small letters, without hyphens, underscores and spaces."""
    return name.lower().translate(dict.fromkeys(map(ord, "-_ ")))


def alike(name: str, keys: Sequence[str]) -> str:
    """Return a hint that names the most similar key; empty without a similar key."""
    close = difflib.get_close_matches(plain(name[:_LONGEST_ALIKE]), keys, n=1)
    return f' (did you mean "{close[0]}"?)' if close else ""


def _problems(asked: ShellParams, limits: ToolLimits, features: ToolFeatures) -> Iterator[str]:
    if not asked.command.strip() and not (asked.restart and not asked.command):
        yield "command is blank: say what to run"
    if asked.restart and asked.run_in_background:
        yield "restart and run_in_background exclude each other: a job has a shell of its own"
    if asked.pty and asked.restart:
        yield "pty and restart exclude each other: a terminal has a shell of its own"
    if asked.restart and (asked.also_write or asked.also_read):
        yield "also_write and also_read exclude restart: a command with them has a shell of its own"
    if asked.run_in_background and not asked.pty and not features.jobs:
        yield "run_in_background needs pty here"
    if asked.pty and asked.stdin is not None:
        yield "pty and stdin exclude each other: type the input with job, action send"
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
    for name, paths in (("also_write", asked.also_write), ("also_read", asked.also_read)):
        if len(paths or ()) > MOST_ALSO:
            yield f"{name} has {len(paths or ()):,} paths, and at most {MOST_ALSO} can be given: name a directory above them"
        for path in (paths or ())[:MOST_ALSO]:
            if not path.strip() or "\0" in path:
                yield f"{name} has an entry that is not a path"
            yield from too_long(name, path, LONGEST_PATH)
    yield from timeout_problems(asked.timeout, limits)


def cwd_problems(cwd: str | None) -> Iterator[str]:
    """Yield the reasons to reject a directory."""
    if cwd is not None:
        if not cwd.strip():
            yield "cwd is blank: give a directory, or leave it out"
        yield from too_long("cwd", cwd, LONGEST_PATH)


def timeout_problems(timeout: float | None, limits: ToolLimits) -> Iterator[str]:
    """Yield the reasons to reject a timeout."""
    if timeout is None:
        return
    yield from not_seconds("timeout", timeout, limits.max_timeout)
    if limits.beyond == "refuse" and timeout != timeout_of(timeout, limits):
        least, most = exact(limits.min_timeout), exact(limits.max_timeout)
        yield f"timeout is {exact(timeout)} s: it must be from {least} to {most} s"


def not_seconds(name: str, value: float, most: float) -> Iterator[str]:
    """Yield a problem if a number of seconds is likely meant as milliseconds."""
    if value > most and _LEAST_MILLISECONDS <= value < 1e12 and value % 1000 == 0:
        meant = value / 1000
        hint = f"did you mean {exact(meant)}?" if meant <= most else f"at most {exact(most)}"
        yield f"{name} is in seconds; {hint}"


def _env_problems(env: Mapping[str, str], limits: ToolLimits) -> Iterator[str]:
    if len(env) > limits.max_env:
        yield f"env has {len(env):,} variables, and at most {limits.max_env:,} can be given"
        return
    yield from too_long("env", "".join(f"{name}{value}" for name, value in env.items()), limits.max_env_bytes)


def too_long(name: str, text: str, most: int) -> Iterator[str]:
    """Yield a problem if a text is too long, or holds half of a surrogate pair."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        yield f"{name} holds half of a surrogate pair, which is not a character"
        return
    if size > most:
        yield f"{name} has {size:,} bytes, and at most {most:,} can be given: {_INSTEAD[name]}"
