"""The state of reading a text and its inner texts, and the place of the walk in a text."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .grammar import Deadline, Late

if TYPE_CHECKING:
    from .parsed import ParsedCommand, Redirection

MAX_COMMANDS = 500
"""Commands of a text, with the commands of its inner texts. A text with more is not understood."""


class CommandPlace(NamedTuple):
    """The place of a command in a text.

    Attributes:
        until: The offset up to which an assignment at this place certainly holds.
        level: The number of groups and substitutions around the command.
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
    """The state of reading a text and its inner texts, such as the text in ``bash -c "…"``."""

    def __init__(self) -> None:
        self.commands: list[ParsedCommand] = []
        self.unknown: dict[str, None] = {}
        self.functions: dict[str, None] = {}
        self.texts: set[str] = set()  # variables whose value may be other than a number
        self.deadline = Deadline()

    def doubt(self, *clauses: str) -> None:
        """Record reasons why a part of the text is not understood."""
        for clause in clauses:
            self.unknown.setdefault(clause)

    def add(self, command: ParsedCommand) -> None:
        """Add a command; raises `Late` beyond `MAX_COMMANDS` commands or the deadline."""
        self.deadline.check()
        if len(self.commands) >= MAX_COMMANDS:
            raise Late
        self.commands.append(command)
        self.doubt(*command.unknown)
