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
        reads: Paths that the command reads. All paths here are absolute, with links resolved.
        writes: Paths that the command creates or changes.
        deletes: Paths that the command deletes.
        network: Hosts or URLs that the command contacts, or ``*`` if its words do not name a host.
        privilege: Whether the command runs as another user, such as by ``sudo``.
    """

    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    deletes: tuple[str, ...] = ()
    network: tuple[str, ...] = ()
    privilege: bool = False


@dataclass(frozen=True, slots=True)
class Reason:
    """The reason for the action on a part of a text.

    Attributes:
        text: One clause for people and models: ``rm deletes /etc, which is outside the workspace``.
        action: The action that the reason leads to.
        rule: The rule that decided, as ``FILE:LINE`` or ``PRESET/NAME``; empty if no rule decided.
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
        doubts: Why the command's words do not say all that it does. An ``allow`` then needs a rule that names the command,
            whatever the command does.
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
        action: The strictest action of the text's commands; ``ask`` at least, if the text is not understood.
        reasons: Why the action is not ``allow``, the strictest reason first; for ``allow`` the rule of each command.
        commands: Each command with its own verdict, in the order of `Parsed.commands`.
        understood: Whether the text was understood.
    """

    action: Action
    reasons: tuple[Reason, ...]
    commands: tuple[CommandVerdict, ...] = field(repr=False)
    understood: bool
