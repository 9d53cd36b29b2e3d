"""The verdict of a policy on a text, with its reason."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from .parsed import ParsedCommand, Span

Action = Literal["allow", "ask", "deny"]


@dataclass(frozen=True, slots=True)
class Access:
    """The files and hosts that a command touches, as far as its words say.

    Attributes:
        reads: Paths, absolute and with their links resolved, as `writes` and `deletes` are.
        writes: Paths that it makes or changes.
        deletes: Paths.
        network: Hosts or URLs, or ``*`` where the words do not name them.
        privilege: Whether it runs as another user, such as by ``sudo``.
    """

    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    deletes: tuple[str, ...] = ()
    network: tuple[str, ...] = ()
    privilege: bool = False


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a part of a text has its action.

    Attributes:
        text: One clause for people and models: ``rm deletes /etc, which is outside the workspace``.
        action: The decision that it leads to.
        rule: The rule that decided, as ``FILE:LINE`` or ``PRESET/NAME``; empty if none did.
        span: The part of the text.
    """

    text: str
    action: Action
    rule: str
    span: Span


@dataclass(frozen=True, slots=True)
class CommandVerdict:
    """The verdict of a policy on one command of a text.

    Attributes:
        doubts: Why its words do not say all that it does; an ``allow`` holds then only by naming the command, whatever it does.
    """

    command: ParsedCommand
    action: Action
    access: Access
    reasons: tuple[Reason, ...]
    doubts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of a policy on a text.

    Attributes:
        action: The strictest of its commands; ``ask`` at least, if the text is not understood.
        reasons: Why it is not ``allow``, the strictest first; for ``allow`` the rule of each command.
        commands: Each command with its own verdict, in the order of `Parsed.commands`.
        understood: Whether the text was understood.
    """

    action: Action
    reasons: tuple[Reason, ...]
    commands: tuple[CommandVerdict, ...] = field(repr=False)
    understood: bool
