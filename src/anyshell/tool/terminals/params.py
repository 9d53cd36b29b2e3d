"""What a model says when it calls the terminal tool, and what is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field, field_validator

from ..._exceptions import InvalidCommand
from ..._types import Command, Terminal, exact
from ...terminal import keys as keyboard
from ..params import (
    InvalidParams,
    alike,
    cwd_problems,
    held_by_a_float,
    listed,
    plain,
    timeout_of,
    timeout_problems,
    too_long,
    validated,
)
from ..result import TerminalAction  # noqa: TC001 - pydantic asks for it when the class is made

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ..limits import ToolLimits

REACTION = 10.0
"""Seconds for a program on a terminal to react to what was typed, without `wait`."""

PATIENCE = 30.0
"""Seconds for a program on a terminal to wait for input or to print something, when that is asked for without `wait`."""

LONGEST_UNTIL = 1000
"""Characters of what can be waited for on a terminal; more are refused."""

ACTIONS: Mapping[TerminalAction, str] = {
    "start": "run a command on a new terminal.",
    "send": "type text.",
    "keys": "press keys.",
    "screen": "show the screen as it is.",
    "wait": "wait until the program waits for input, falls silent after it has printed something, or ends.",
    "secret": "have the user's password or another secret typed, with Enter. You never see it.",
    "close": "end the program, with everything that it started.",
}
"""What can be done with a terminal."""


class TerminalParams(BaseModel):
    """The parameters of one call. Nothing is converted, and an unknown one is an error.

    Every parameter but the action may be ``None``, which is as if it were left out. The action ``secret`` is one of a
    tool that was given `secrets` alone.
    """

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False, hide_input_in_errors=True
    )

    action: TerminalAction = Field(description="What to do.")
    id: str | None = Field(
        default=None,
        description="Of all actions but start: the terminal, such as t1. Results name it.",
    )
    command: str | None = Field(
        default=None,
        description="Of start: the command to run, in the language of the shell that the tool shell runs.",
    )
    cwd: str | None = Field(
        default=None,
        description="Of start: the directory to run in. Absolute, relative, or below the home directory as ~/DIR.",
    )
    columns: int | None = Field(
        default=None, description="Of start: columns of the terminal. Without it, 80."
    )
    rows: int | None = Field(default=None, description="Of start: rows of the terminal. Without it, 24.")
    timeout: float | None = Field(
        default=None,
        description="Of start: seconds after which the program is stopped. Without it, it may run on.",
    )
    text: str | None = Field(
        default=None, repr=False, description="Of send: what is typed, exactly. The Enter key is not in it."
    )
    enter: bool | None = Field(default=None, description="Of send: press Enter after the text.")
    keys: list[str] | None = Field(
        default=None,
        repr=False,
        description=(
            "Of keys: names of keys, pressed one after the other: a character, or Enter, Tab, Escape, Backspace, Up, "
            "Down, Left, Right, Home, End, PageUp, PageDown, Insert, Delete, F1 to F12, with Ctrl-, Alt- or Shift- "
            "before it, such as Ctrl-C."
        ),
    )
    until: str | None = Field(
        default=None,
        description=(
            "Of wait: text, not an expression, until which is waited instead: printed since the last result, or on "
            "the screen of an editor or a pager."
        ),
    )
    wait: float | None = Field(
        default=None,
        description="Of all actions but screen and close: seconds to wait at most for what the program does.",
    )

    @field_validator("timeout", "wait", mode="before")
    @classmethod
    def _any_number(cls, value: object) -> object:
        return held_by_a_float(value)


KEYS = tuple(TerminalParams.model_fields)

_OF: Mapping[str, tuple[TerminalAction, ...]] = {
    "id": ("send", "keys", "screen", "wait", "secret", "close"),
    "command": ("start",),
    "cwd": ("start",),
    "columns": ("start",),
    "rows": ("start",),
    "timeout": ("start",),
    "text": ("send",),
    "enter": ("send",),
    "keys": ("keys",),
    "until": ("wait",),
    "wait": ("start", "send", "keys", "secret", "wait"),
}
"""Which parameter is one of which actions."""

# What models say for want of knowing better; in small letters, nothing between.
_ALSO_CALLED = {
    "terminal": "id",
    "terminalid": "id",
    "session": "id",
    "cmd": "command",
    "input": "text",
    "stdin": "text",
    "data": "text",
    "key": "keys",
    "submit": "enter",
    "pattern": "until",
    "expect": "until",
    "regex": "until",
    "width": "columns",
    "cols": "columns",
    "height": "rows",
    "lines": "rows",
    "workdir": "cwd",
    "directory": "cwd",
    "seconds": "wait",
}

# What a model means that knows one of them alone.
_RATHER = {
    ("timeout", "wait"): "give wait, the seconds to wait at most",
    ("keys", "send"): 'use the action "keys"',
    ("text", "keys"): 'use the action "send"',
    ("enter", "keys"): "give the key Enter",
    ("text", "secret"): "what you know is no secret; the secret comes from elsewhere",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalCall:
    """A call that can be carried out.

    Attributes:
        action: What to do.
        id: The terminal; empty for ``start``.
        command: What is started.
        size: On which terminal.
        timeout: Seconds until it is stopped; ``None`` is no bound.
        requested_timeout: Seconds that were asked for.
        text: What is typed.
        keys: The keys that are pressed after that.
        until: What is waited for; empty for anything.
        wait: Seconds to wait at most.
        requested_wait: Seconds that were asked for.
    """

    action: TerminalAction
    id: str
    command: Command | None
    size: Terminal
    timeout: float | None
    requested_timeout: float | None
    text: str = field(repr=False)
    keys: tuple[str, ...] = field(repr=False)
    until: str
    wait: float
    requested_wait: float | None


def parse(
    params: Mapping[str, object] | TerminalParams, limits: ToolLimits, *, secrets: bool
) -> TerminalCall:
    """Check what a model says, against the schema and the limits.

    Raises:
        InvalidParams: With everything that is wrong, for the model to read.
    """
    asked = (
        params
        if isinstance(params, TerminalParams)
        else validated(params, TerminalParams, KEYS, partial(_meant, params=params))
    )
    problems = list(_problems(asked, limits, secrets=secrets))
    if problems:
        raise InvalidParams(f"{listed(problems, len(problems))}.")
    try:
        command = None if asked.command is None else Command(text=asked.command, cwd=asked.cwd)
        size = Terminal(
            columns=80 if asked.columns is None else asked.columns,
            rows=24 if asked.rows is None else asked.rows,
        )
    except InvalidCommand as error:
        raise InvalidParams(f"{error}.") from error
    keys = tuple(_named(key) for key in asked.keys or ())
    wanted = asked.wait if asked.wait is not None else PATIENCE if asked.action == "wait" else REACTION
    return TerminalCall(
        action=asked.action,
        id=asked.id or "",
        command=command,
        size=size,
        timeout=None if asked.timeout is None else timeout_of(asked.timeout, limits),
        requested_timeout=asked.timeout,
        text=asked.text or "",
        keys=(*keys, "Enter") if asked.enter else keys,
        until=asked.until or "",
        wait=min(wanted, limits.max_wait),
        requested_wait=asked.wait,
    )


def _meant(name: str, *, params: object) -> str:
    key = _ALSO_CALLED.get(plain(name))
    return alike(name, KEYS) if key is None else f' (did you mean "{key}"?)'


def _named(key: str) -> str:
    """A key by a name that can be read."""
    return f"{key[:-1]}Space" if key.endswith(" ") else key


def _problems(asked: TerminalParams, limits: ToolLimits, *, secrets: bool) -> Iterator[str]:
    action = asked.action
    if action == "secret" and not secrets:
        yield "there is no action secret here: a secret cannot be asked for"
        return
    for name, actions in _OF.items():
        if getattr(asked, name) is not None and action not in actions:
            rather = _RATHER.get((name, action), f"it is one of {' and '.join(actions)}")
            yield f"{name} is no parameter of {action}: {rather}"
    if action == "start":
        if asked.command is None or not asked.command.strip():
            yield "command is missing: say what to run on the terminal"
        else:
            yield from too_long("command", asked.command, limits.max_command)
        yield from cwd_problems(asked.cwd)
        yield from timeout_problems(asked.timeout, limits)
    elif not asked.id:
        yield f"id is missing: {action} needs that of a terminal, as the result that began it names it"
    if action == "send":
        if not asked.text and not asked.enter:
            yield "there is nothing to type: give text, or enter"
        yield from too_long("text", asked.text or "", limits.max_typed)
    if action == "keys":
        yield from _key_problems(asked.keys or [], limits)
    if asked.until is not None and not 0 < len(asked.until) <= LONGEST_UNTIL:
        yield f"until must have 1 to {LONGEST_UNTIL:,} characters"
    if asked.wait is not None and asked.wait < 0:
        yield "wait must be 0 seconds or more"
    elif asked.wait is not None and limits.beyond == "refuse" and asked.wait > limits.max_wait:
        yield f"wait is {exact(asked.wait)} s: it must be at most {exact(limits.max_wait)} s"


def _key_problems(keys: list[str], limits: ToolLimits) -> Iterator[str]:
    if not keys:
        yield "there is no key to press: give keys, a list of names"
    if len(keys) > limits.max_keys:
        yield f"keys has {len(keys):,} names, and at most {limits.max_keys:,} can be given: press them in several calls"
        return
    for key in keys:
        try:
            keyboard.encode(key)
        except InvalidCommand as error:
            yield str(error)
            return
