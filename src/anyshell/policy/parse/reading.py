"""The reading of a text and of the texts within it, and the place of the walk in these."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .grammar import Deadline, Late

if TYPE_CHECKING:
    from .parsed import ParsedCommand, Redirection

MAX_COMMANDS = 500
"""Commands of a text, with those of the texts within it. A text that has more is not understood."""


class CommandPlace(NamedTuple):
    """The place of a command in a text.

    Attributes:
        until: The character up to which an assignment there holds for sure.
        level: The number of groups and substitutions around it.
    """

    until: int
    redirections: tuple[Redirection, ...] = ()
    via: tuple[str, ...] = ()
    host: str = ""
    piped: bool = False
    background: bool = False
    defines: bool = False
    level: int = 0


class Reading:
    """The state of reading a text and the texts within it."""

    def __init__(self) -> None:
        self.commands: list[ParsedCommand] = []
        self.unknown: dict[str, None] = {}
        self.functions: dict[str, None] = {}
        self.texts: set[str] = set()  # variables that are given what is not a number
        self.deadline = Deadline()

    def doubt(self, *clauses: str) -> None:
        """Say why not all is understood."""
        for clause in clauses:
            self.unknown.setdefault(clause)

    def add(self, command: ParsedCommand) -> None:
        """Add a command; raises `Late` if there are too many."""
        self.deadline.check()
        if len(self.commands) >= MAX_COMMANDS:
            raise Late
        self.commands.append(command)
        self.doubt(*command.unknown)
