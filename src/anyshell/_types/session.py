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
        state: ``kept``; ``ended`` when the command ended the session's shell, as ``exit`` does; ``lost`` when the shell
            had to be replaced because of a stop, and with it what it knew. The next command has a fresh shell.
        directory: The present directory of the session's shell; absolute. ``None`` where it is gone.
        fresh: Why this command began in a fresh shell, and that directory, variables and functions of before are
            gone; empty when it did not, and for the first command.
        variables: If they were asked for, the exported variables that the command has set, with their values, or
            removed, with ``None``; ours are left out. ``None`` when they were not, or could not be told.
    """

    state: Literal["kept", "ended", "lost"] = "kept"
    directory: str | None = None
    fresh: str = ""
    variables: Mapping[str, str | None] | None = field(default=None, repr=False)
