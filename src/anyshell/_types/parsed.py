"""The commands of a text as values, with their arguments, redirections and variables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .shell import ShellKind

Span = tuple[int, int]
"""A range of characters of the text: the first one, inclusive, and the last one, exclusive."""


@dataclass(frozen=True, slots=True)
class Argument:
    """One word of a command.

    Attributes:
        text: The word as the program gets it, quotes and backslashes resolved, if the word is literal. Otherwise as written.
        literal: Whether the text alone determines the program's argument: no expansion, pattern or history is in it.
        span: The span of the word. A word of a nested text, such as in ``bash -c "…"``, has the span of the nested text.
        single: Whether the program gets exactly one word, never none or several: true of a literal word and of ``"$x"``.
    """

    text: str
    literal: bool
    span: Span
    single: bool = True


@dataclass(frozen=True, slots=True)
class Redirection:
    """A redirection of a command, or of a group that the command is in.

    Attributes:
        operator: As written, without a descriptor: ``>``, ``>>``, ``>|``, ``<``, ``<>``, ``&>``, ``&>>``, ``>&``, ``<&``,
            ``<<``, ``<<-``, ``<<<``.
        descriptor: The number, or the name in ``{name}>``, before the operator; empty without a descriptor.
        target: The file, the descriptor, or the body of a here-document.
    """

    operator: str
    descriptor: str
    target: Argument

    @property
    def file(self) -> bool:
        """Whether the target is a file, rather than a descriptor or a text."""
        if self.operator.startswith("<<"):
            return False
        target = self.target.text
        is_descriptor = self.target.literal and (target == "-" or target.rstrip("-").isdigit())
        return not (self.operator in (">&", "<&") and is_descriptor)

    @property
    def writes(self) -> bool:
        """Whether the target is a file that the redirection may change."""
        return self.file and ">" in self.operator

    @property
    def reads(self) -> bool:
        """Whether the target is a file that the redirection reads."""
        return self.file and "<" in self.operator


@dataclass(frozen=True, slots=True)
class Assignment:
    """A variable that is set, for one command or for the shell.

    Attributes:
        name: The name of the variable, without an index.
        value: The value, as an argument. Never literal for an array.
    """

    name: str
    value: Argument


@dataclass(frozen=True, slots=True)
class ParsedCommand:
    """One command that a text may run.

    Attributes:
        program: The name or path as the shell looks it up, builtins and functions included; empty for bare assignments
            and redirections; ``None`` if the text does not say.
        arguments: The arguments after the program.
        redirections: The redirections of the command, then those of the groups around the command.
        variables: Variables set for the command alone; variables set for the shell, if `program` is empty.
        via: The programs that run the command, from the outside in, such as ``sudo``, ``xargs``, ``bash``; empty if the shell
            itself runs the command. Each of the programs is also a command of its own.
        span: The span of the command in the text, as for `Argument.span`.
        host: The host that the command runs on by ``ssh``; empty for this host.
        piped: Whether the command reads another command's output.
        background: Whether the shell goes on without waiting for the command.
        defines: Whether the command stands in the body of a function, and so runs only when the function is called.
        unknown: Why the command's effect is unknown: a dynamic program, a builtin that evaluates its arguments, a variable
            by which programs run others. One clause each, such as ``eval runs a text that is not literal``.
    """

    program: str | None
    arguments: tuple[Argument, ...]
    redirections: tuple[Redirection, ...]
    variables: tuple[Assignment, ...]
    via: tuple[str, ...]
    span: Span
    host: str = ""
    piped: bool = False
    background: bool = False
    defines: bool = False
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Parsed:
    """The commands that a text runs.

    Attributes:
        text: The text.
        shell: The kind of shell that the text is for.
        commands: Every command that the text may run, in the order of the text. A command in another's arguments follows
            that other command.
        unknown: Why the text is not fully understood, one clause each, with those of `ParsedCommand.unknown`; empty if the text
            is fully understood.
        functions: The names of the functions that the text defines.
    """

    text: str = field(repr=False)
    shell: ShellKind
    commands: tuple[ParsedCommand, ...]
    unknown: tuple[str, ...]
    functions: tuple[str, ...] = ()

    @property
    def understood(self) -> bool:
        """Whether `commands` has everything that the shell can run, and each command's words determine its effect."""
        return not self.unknown
