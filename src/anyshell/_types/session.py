"""The changes of a command to its session."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionReport:
    """The changes of a command to its session.

    Attributes:
        state: ``kept``; ``ended`` when the command ended the session's shell, as ``exit`` does; ``lost`` when a stop ended
            the shell and so lost the shell's state. After ``ended`` and ``lost``, the next command has a fresh shell.
        directory: The working directory of the session's shell; absolute. ``None`` unless the shell was kept.
        fresh: Why this command began in a fresh shell, without the former directory, variables and functions; empty in a
            kept shell, and for the first command.
        variables: The exported variables that the command has set, with their values, or removed, with ``None``; anyshell's
            own variables are left out. ``None`` when the variables were not requested, or are unknown.
    """

    state: Literal["kept", "ended", "lost"] = "kept"
    directory: str | None = None
    fresh: str = ""
    variables: Mapping[str, str | None] | None = field(default=None, repr=False)
