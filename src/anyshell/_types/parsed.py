"""The commands of a text as values, with their arguments, redirections and variables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .shell import ShellKind

Span = tuple[int, int]
"""From a character of the text, inclusive, to another, exclusive."""


@dataclass(frozen=True, slots=True)
class Argument:
    """One word of a command.

    Attributes:
        text: The word as the program gets it, if it is literal: quotes and backslashes are resolved. Else as it is written.
        literal: Whether the text alone says what the program is given: no expansion, pattern, or history is in it.
        span: Its span in the text. For a word of a text within the text, such as in ``bash -c "…"``: where that text is.
        single: Whether it is one word to the program for sure, as what is literal is, and ``"$x"``: neither none nor several.
    """

    text: str
    literal: bool
    span: Span
    single: bool = True


@dataclass(frozen=True, slots=True)
class Redirection:
    """A redirection of a command, or of a group that the command is in.

    Attributes:
        operator: As it is written, without a descriptor: ``>``, ``>>``, ``>|``, ``<``, ``<>``, ``&>``, ``&>>``, ``>&``, ``<&``,
            ``<<``, ``<<-``, ``<<<``.
        descriptor: The number, or the name in ``{name}>``, before it; empty if there is none.
        target: The file, the descriptor, or the body of a here-document.
    """

    operator: str
    descriptor: str
    target: Argument

    @property
    def file(self) -> bool:
        """Whether its target is a file, rather than a descriptor or a text."""
        if self.operator.startswith("<<"):
            return False
        target = self.target.text
        is_descriptor = self.target.literal and (target == "-" or target.rstrip("-").isdigit())
        return not (self.operator in (">&", "<&") and is_descriptor)

    @property
    def writes(self) -> bool:
        """Whether it may change its target, a file."""
        return self.file and ">" in self.operator

    @property
    def reads(self) -> bool:
        """Whether it reads its target, a file."""
        return self.file and "<" in self.operator


@dataclass(frozen=True, slots=True)
class Assignment:
    """A variable that is set, for one command or for the shell.

    Attributes:
        name: The name of the variable, without an index.
        value: As an argument. Not literal for an array.
    """

    name: str
    value: Argument


@dataclass(frozen=True, slots=True)
class ParsedCommand:
    """One command that a text may run.

    Attributes:
        program: The name or path as the shell looks it up, builtins and functions included; empty for assignments and
            redirections alone; ``None`` if the text does not say.
        arguments: After the program.
        redirections: Its own, then those of the groups around it.
        variables: Set for it alone; those of the shell, if `program` is empty.
        via: The programs that run it, from the outside in, such as ``sudo``, ``xargs``, ``bash``; empty for the shell itself.
            Each of them is a command of its own as well.
        span: Its span in the text, as for `Argument.span`.
        host: The host that it runs on by ``ssh``; empty for here.
        piped: Whether it reads another command's output.
        background: Whether the shell goes on without it.
        defines: Whether it stands in the body of a function, and so runs when that is called.
        unknown: Why it is not known what it does: a dynamic program, a builtin that evaluates its arguments, a variable by
            which programs run others. A clause each, such as ``eval runs a text that is not literal``.
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
        shell: The shell that it is for.
        commands: Each that the text may run, in the order in which they are written; what a command is given to run
            follows it.
        unknown: Why not all of it is understood, a clause each; empty if it is. The commands' own are among them.
        functions: The names of those that it defines.
    """

    text: str = field(repr=False)
    shell: ShellKind
    commands: tuple[ParsedCommand, ...]
    unknown: tuple[str, ...]
    functions: tuple[str, ...] = ()

    @property
    def understood(self) -> bool:
        """Whether `commands` are all that the shell can run, and each says what it does by its words alone."""
        return not self.unknown
