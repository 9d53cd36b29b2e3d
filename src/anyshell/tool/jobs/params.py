"""The parameters of the job tool, and the mistakes in them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field, field_validator

from ..._exceptions import InvalidCommand
from ..._types import Terminal, cut_name, exact
from ...output.patterns import pattern_of
from ...policy import visible
from ...terminal import keys as keyboard
from ..params import (
    Duration,
    InvalidParams,
    Truth,
    alike,
    listed,
    not_seconds,
    plain,
    sentence,
    too_long,
    understood,
    validated,
)
from ..result import JobAction  # noqa: TC001 - pydantic asks for it when the class is made
from .parts import Part, part_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..limits import ToolLimits

MOST_IDS = 16
"""Jobs that one call waits for; more are refused."""

REACTION = 10.0
"""Seconds for a program on a terminal to react to typed input, without `wait`; then the call returns."""

PATIENCE = 30.0
"""Seconds to wait for the text or end that `until` names, without `wait`; then the call returns."""

LONGEST_UNTIL = 1000
"""Characters of the text or pattern that a call waits for with `until`; more are refused."""

_SIZE = re.compile(r"\s*(\d{1,6})\s*[x,: ]\s*(\d{1,6})\s*", re.IGNORECASE)


class JobParams(BaseModel):
    """The parameters of one call. An unknown one is an error; what is unambiguous is taken as it is meant.

    Every parameter but the action may be ``None``, which is as if it were left out. `keys` and the actions ``screen`` and
    ``resize`` are of a tool with terminals alone, ``secret`` of one that was given `secrets` as well.
    """

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False, hide_input_in_errors=True
    )

    action: JobAction = Field(description="What to do.")
    id: str | None = Field(
        default=None, description="Such as j1; of output also j1,j2 or a kept output's id."
    )
    wait: Duration | None = Field(
        default=None, description="Of output, send: seconds to wait at most for something new."
    )
    until: str | None = Field(
        default=None, description='Of output, send: wait for "end", or a text or /pattern/ in what comes.'
    )
    text: str | None = Field(
        default=None, repr=False, description="Of send: what is typed, exactly. A line needs enter."
    )
    enter: Truth | None = Field(default=None, description="Of send: Enter after the text.")
    keys: list[str] | None = Field(
        default=None,
        repr=False,
        description="Of send: keys on a terminal, after text: Enter, Tab, Escape, Up, PageDown, F1, Ctrl-C, Alt-x.",
    )
    end_of_input: Truth | None = Field(default=None, description="Of send: end the input then.")
    part: str | None = Field(
        default=None,
        description="Of output: lines 40-80, lines -50, bytes 0-4096, grep TEXT or grep /PATTERN/.",
    )

    @field_validator("id", mode="before")
    @classmethod
    def _any_ids(cls, value: object) -> object:
        each = isinstance(value, (list, tuple)) and all(isinstance(one, str) for one in value)
        return ",".join(value) if each else value  # type: ignore[arg-type]  # mypy does not follow `each`

    @field_validator("keys", mode="before")
    @classmethod
    def _any_keys(cls, value: object) -> object:
        return [value] if isinstance(value, str) else value


KEYS = tuple(JobParams.model_fields)

_OF: Mapping[str, tuple[JobAction, ...]] = {
    "id": ("output", "send", "screen", "secret", "resize", "stop"),
    "wait": ("output", "send", "secret"),
    "until": ("output", "send"),
    "text": ("send", "resize"),
    "enter": ("send",),
    "keys": ("send",),
    "end_of_input": ("send",),
    "part": ("output",),
}
"""The actions of each parameter."""

# Names of the same parameters in other agents' tools, in small letters without separators.
_ALSO_CALLED = {
    "job": "id",
    "jobid": "id",
    "jobs": "id",
    "ids": "id",
    "jobids": "id",
    "terminal": "id",
    "terminalid": "id",
    "session": "id",
    "sessionid": "id",
    "shellid": "id",
    "bashid": "id",
    "taskid": "id",
    "processid": "id",
    "artifact": "id",
    "artifactid": "id",
    "command": "action",
    "timeout": "wait",
    "timeoutseconds": "wait",
    "seconds": "wait",
    "waitseconds": "wait",
    "waitfor": "until",
    "waituntil": "until",
    "expect": "until",
    "input": "text",
    "stdin": "text",
    "data": "text",
    "chars": "text",
    "content": "text",
    "key": "keys",
    "submit": "enter",
    "pressenter": "enter",
    "newline": "enter",
    "eof": "end_of_input",
    "closestdin": "end_of_input",
    "close": "end_of_input",
    "range": "part",
}
_MILLISECONDS = {
    "timeoutms": "wait",
    "waitms": "wait",
    "yieldtimems": "wait",
}
# Parameters that name a part of an output, with the text of `part` for each.
_PARTS = {
    "lines": "lines {}",
    "bytes": "bytes {}",
    "grep": "grep {}",
    "filter": "grep {}",
    "offset": "bytes {}-",
    "since": "bytes {}-",
    "head": "lines 1-{}",
    "tail": "lines -{}",
}
_RATHER = {
    "pid": 'a job is named by its id, such as "j1"',
    "block": "give wait, the seconds to wait at most",
    "signal": "stop ends a job; Ctrl-C is one of keys",
    "pattern": 'did you mean "until" or "part"?',
    "regex": 'did you mean "until" or "part"?',
}
_ACTIONS = {
    "kill": "stop",
    "close": "stop",
    "terminate": "stop",
    "read": "output",
    "wait": "output",
    "poll": "output",
    "status": "output",
    "logs": "output",
    "keys": "send",
    "write": "send",
    "input": "send",
    "type": "send",
    "press": "send",
}
"""The names of the actions in other agents' tools."""


@dataclass(frozen=True, slots=True)
class Offered:
    """The kinds of jobs and the actions that a tool offers.

    Attributes:
        terminals: Whether jobs can have terminals.
        secrets: Whether a secret can be asked for.
    """

    terminals: bool
    secrets: bool

    @property
    def actions(self) -> tuple[JobAction, ...]:
        """The offered actions."""
        actions: tuple[JobAction, ...] = ("list", "output", "send")
        if self.terminals:
            actions += ("screen", "secret", "resize") if self.secrets else ("screen", "resize")
        return (*actions, "stop")

    @property
    def keys(self) -> tuple[str, ...]:
        """The names of the offered parameters."""
        return tuple(name for name in KEYS if name != "keys" or self.terminals)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCall:
    """A checked call.

    Attributes:
        action: The action.
        ids: The ids of the jobs, each once; several to wait for any of the jobs, none for ``list``.
        wait: Seconds to wait at most, within the limits; ``None`` without a request.
        requested_wait: Seconds that the model asked for.
        until_end: Whether the call waits for the end.
        until: The pattern to wait for in the output, if any.
        said: The model's own words for `until`.
        text: The typed text.
        keys: The keys that are pressed after the text.
        enter: Whether Enter is pressed last.
        end_of_input: Whether the job's input ends after the text and keys.
        part: The part of an output that is shown.
        size: The new size of a terminal.
    """

    action: JobAction
    ids: tuple[str, ...]
    wait: float | None
    requested_wait: float | None
    until_end: bool
    until: re.Pattern[str] | None
    said: str
    text: str = field(repr=False)
    keys: tuple[str, ...] = field(repr=False)
    enter: bool
    end_of_input: bool
    part: Part | None
    size: Terminal | None

    @property
    def waits(self) -> bool:
        """Whether the call waits for output, a text or the end."""
        return bool(self.wait) or self.until_end or self.until is not None

    def patience(self, usual: float, limits: ToolLimits) -> float:
        """Return the seconds to wait at most.

        Args:
            usual: The seconds of the action, for a call without `wait` and `until`.
            limits: The limits in force.
        """
        usual = PATIENCE if self.until_end or self.until is not None else usual
        return min(usual, limits.max_wait) if self.wait is None else self.wait


def parse(params: Mapping[str, object] | JobParams, limits: ToolLimits, offered: Offered) -> JobCall:
    """Check a model's parameters against the schema and the limits.

    Raises:
        InvalidParams: The parameters are wrong; the message tells the model all mistakes.
    """
    asked = params if isinstance(params, JobParams) else _asked(params, offered)
    problems = list(_problems(asked, limits, offered))
    size = part = until = None
    try:
        if asked.part is not None:
            part = part_of(asked.part)
        if asked.until is not None and asked.until != "end":
            until = pattern_of(asked.until)
        if asked.action == "resize" and (told := _SIZE.fullmatch(asked.text or "")):
            size = Terminal(columns=int(told[1]), rows=int(told[2]))
        elif asked.action == "resize":
            problems.append('resize needs columns and rows in text: "120x40"')
    except (InvalidCommand, ValueError) as error:
        problems.append(str(error))
    except re.error as error:
        problems.append(f"the pattern does not compile ({error})")
    if problems:
        raise InvalidParams(sentence(listed(problems, len(problems))))
    return JobCall(
        action=asked.action,
        ids=_ids(asked),
        wait=None if asked.wait is None else min(asked.wait, limits.max_wait),
        requested_wait=asked.wait,
        until_end=asked.until == "end",
        until=until,
        said=asked.until or "",
        text=asked.text or "",
        keys=tuple(_named(key) for key in asked.keys or ()),
        enter=asked.enter is True,
        end_of_input=asked.end_of_input is True,
        part=part,
        size=size,
    )


def _asked(params: Mapping[str, object], offered: Offered) -> JobParams:
    if isinstance(params, Mapping):
        params = understood(params, JobParams, offered.keys, _ALSO_CALLED, _MILLISECONDS)
        for name in [name for name in params if plain(str(name)) in _PARTS]:
            value = params[name]
            plausible = isinstance(value, str) or (type(value) is int and name != "lines")
            if plausible and params.get("part") is None:
                params["part"] = _PARTS[plain(name)].format(params.pop(name))
        columns, rows = params.get("columns", params.get("cols")), params.get("rows")
        if params.get("action") == "resize" and columns is not None and rows is not None:
            params = {
                name: value for name, value in params.items() if name not in ("columns", "cols", "rows")
            }
            params["text"] = f"{columns}x{rows}"
        action = params.get("action")
        if "action" in params and action not in offered.actions:
            *others, last = offered.actions
            other = _ACTIONS.get(plain(str(action)))
            hint = f'; did you mean "{other}"?' if other else ""
            wrong = visible(cut_name(str(action)))
            raise InvalidParams(
                sentence(f'action must be {", ".join(others)} or {last}, not "{wrong}"{hint}')
            )
    return validated(params, JobParams, offered.keys, _advice)


def _ids(asked: JobParams) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each.strip() for each in (asked.id or "").split(",") if each.strip()))


def _advice(name: str) -> str:
    key = plain(name)
    if key == "keys":
        return " (there is no terminal here: send text)"
    if key in _PARTS:
        return f' (a range is text, such as part "{"lines 40-80" if key == "lines" else "bytes 0-4096"}")'
    if (hint := _RATHER.get(key)) is not None:
        return f" ({hint})"
    if (other := _ALSO_CALLED.get(key) or _MILLISECONDS.get(key)) is not None:
        return f" beside {other}: give one of them"
    return alike(name, KEYS)


def _named(key: str) -> str:
    """Return a readable name of a key: a final space becomes ``Space``."""
    return f"{key[:-1]}Space" if key.endswith(" ") else key


def _problems(asked: JobParams, limits: ToolLimits, offered: Offered) -> Iterator[str]:
    action = asked.action
    if action not in offered.actions:
        yield f"there is no action {action} here"
        return
    for name, actions in _OF.items():
        if getattr(asked, name) not in (None, False) and action not in actions:
            if (name, action) == ("text", "secret"):
                yield "text is not a parameter of secret: what you know is not a secret; the secret comes from elsewhere"
            else:
                there = " and ".join(each for each in actions if each in offered.actions)
                yield f"{name} is a parameter of {there}, not of {action}"
    # Of problems that follow from each other, only the first is told. All others are told together: one more call suffices.
    ids = _ids(asked)
    if action != "list" and not ids:
        yield f"id is missing: {action} needs that of a job, as results name it or list says it"
    if len(ids) > 1 and action != "output":
        yield f"{action} takes one id"
    elif len(ids) > MOST_IDS:
        yield f"id has {len(ids):,} jobs, and at most {MOST_IDS} can be waited for"
    elif len(ids) > 1 and not (asked.wait or asked.until):
        yield "several ids need wait or until"
    if asked.part is not None and (len(ids) > 1 or asked.until is not None):
        yield "part goes with one id, and without until"
    if asked.wait is not None and asked.wait < 0:
        yield "wait must be 0 seconds or more"
    elif asked.wait is not None:
        yield from not_seconds("wait", asked.wait, limits.max_wait)
        if limits.beyond == "refuse" and asked.wait > limits.max_wait:
            yield f"wait is {exact(asked.wait)} s: it must be at most {exact(limits.max_wait)} s"
    if asked.until is not None and not 0 < len(asked.until) <= LONGEST_UNTIL:
        yield f"until must have 1 to {LONGEST_UNTIL:,} characters"
    if action == "send":
        if not (asked.text or asked.enter or asked.keys or asked.end_of_input):
            yield (
                "there is nothing to send: give text, enter"
                + ", keys" * offered.terminals
                + " or end_of_input"
            )
        yield from _key_problems(asked.keys or [], limits)


def _key_problems(keys: Sequence[str], limits: ToolLimits) -> Iterator[str]:
    if len(keys) > limits.max_keys:
        yield f"keys has {len(keys):,} names, and at most {limits.max_keys:,} can be given: press them in several calls"
        return
    for key in keys:
        try:
            keyboard.encode(key)
        except InvalidCommand as error:
            yield str(error)
            return


def text_problems(text: str, most: int) -> str:
    """Say why a text cannot be sent; empty for a valid text."""
    return next(too_long("text", text, most), "")
