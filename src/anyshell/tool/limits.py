"""The limits of a model's requests."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Literal

from .._environment.descriptions import LONGEST_TIMEOUT, TIMEOUT
from .._types import DEFAULT_GRACE
from .._types.checks import as_seconds

if TYPE_CHECKING:
    from .._types.checks import Seconds

MIB = 1024 * 1024  # no bound: a unit


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolLimits:
    """The bounds of every call of a tool. The environment's `OutputLimits` bound the shown output.

    Attributes:
        default_timeout: Seconds that a command has when the model gives no timeout.
        min_timeout: Seconds of the shortest timeout that a model can ask for.
        max_timeout: Seconds of the longest timeout that a model can ask for.
        beyond: The treatment of a timeout outside `min_timeout` and `max_timeout`: ``clamp`` takes the nearer bound and
            tells the model, ``refuse`` makes the timeout an error.
        approval_timeout: Seconds in which an approver must answer; no answer in time is a refusal.
        grace: Seconds between the request to end and the kill, after a timeout; zero or more.
        update_interval: Seconds between two updates, at least; zero or more.
        update_bytes: Bytes of an update, at most.
        max_command: Bytes of a command in UTF-8, at most.
        max_stdin: Bytes of a command's input, or of text sent to a job, in UTF-8, at most.
        max_wait: Seconds that one look at a job, or at a terminal, can wait, at most.
        max_terminals: Terminals that run at once, at most. The environment has a limit of its own for all of its tools.
        max_typed: Bytes in UTF-8 of the text typed on a terminal in one call, at most.
        max_keys: Keys that are pressed on a terminal in one call, at most.
        max_env: Variables in one call, at most; zero or more.
        max_env_bytes: Bytes of the names and values of variables together, at most. A system has its own limit for the
            variables and the command's arguments together, often 2 MiB, and 128 KiB for a single string.

    Raises:
        ValueError: A limit is out of its range, or the three timeouts are not in order.
    """

    default_timeout: float = TIMEOUT
    min_timeout: float = 1.0
    max_timeout: float = LONGEST_TIMEOUT
    beyond: Literal["clamp", "refuse"] = "clamp"
    approval_timeout: float = 600.0
    grace: float = DEFAULT_GRACE
    update_interval: float = 0.05
    update_bytes: int = 4096
    max_command: int = 8 * MIB
    max_stdin: int = 8 * MIB
    max_wait: float = 300.0
    max_terminals: int = 8
    max_typed: int = 64 * 1024
    max_keys: int = 100
    max_env: int = 100
    max_env_bytes: int = 100 * 1024

    if TYPE_CHECKING:  # the arguments accept more types than the fields have

        def __init__(
            self,
            *,
            default_timeout: Seconds = TIMEOUT,
            min_timeout: Seconds = 1.0,
            max_timeout: Seconds = LONGEST_TIMEOUT,
            beyond: Literal["clamp", "refuse"] = "clamp",
            approval_timeout: Seconds = 600.0,
            grace: Seconds = DEFAULT_GRACE,
            update_interval: Seconds = 0.05,
            update_bytes: int = 4096,
            max_command: int = 8 * MIB,
            max_stdin: int = 8 * MIB,
            max_wait: Seconds = 300.0,
            max_terminals: int = 8,
            max_typed: int = 64 * 1024,
            max_keys: int = 100,
            max_env: int = 100,
            max_env_bytes: int = 100 * 1024,
        ) -> None: ...

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.type == "float":
                object.__setattr__(self, field.name, value := as_seconds(value))
            if field.name == "beyond":
                if value not in ("clamp", "refuse"):
                    raise ValueError(f"beyond must be 'clamp' or 'refuse', not {value!r}")
            elif isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
                raise ValueError(f"{field.name} must be a finite number, not {value!r}")
            elif value < 0 or (value == 0 and field.name not in ("grace", "update_interval", "max_env")):
                raise ValueError(f"{field.name} must be more than 0, not {value!r}")
        if not self.min_timeout <= self.default_timeout <= self.max_timeout:
            raise ValueError(
                f"min_timeout, default_timeout and max_timeout must be in this order, not "
                f"{self.min_timeout!r}, {self.default_timeout!r}, {self.max_timeout!r}"
            )
