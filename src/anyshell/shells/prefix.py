"""A command prefix, such as ``nice -n 10``: words that stand before the shell which runs a command.

The host's ``/bin/sh`` reads the words, so that quotes, ``~`` and variables mean there what they mean in any text, and
becomes the program that they name by ``exec``: the program gets the shell and its arguments behind its own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from anyshell._exceptions import InvalidCommand
from anyshell._types import check_text

LONGEST_PREFIX = 4096
"""Characters of a prefix."""

# What a word is made of: a parameter stands for its value, but no command is run to make a word. Possessive, so that
# no input takes long.
_WORDS = re.compile(
    r"""
    [ \t]*+ (?:
        (?: [^\s'"\\`$;&|<>()\#] | \\[^\n] | (?<=\S)\#
          | ' [^']*+ ' | \$ (?: [A-Za-z_]\w*+ | \{[A-Za-z_]\w*+\} )
          | " (?: [^"\\`$] | \\. | \$ (?: [A-Za-z_]\w*+ | \{[A-Za-z_]\w*+\} ) )*+ "
        )++ [ \t]*+
    )++ \Z
    """,
    re.VERBOSE | re.DOTALL,
)

_NAME = re.compile(r"[ \t]*([\w@%+:,.-]+)(?![^ \t])")

_NO_PROGRAM = re.compile(r"[ \t]*(?:-|\w+=)")


@dataclass(frozen=True, slots=True)
class Prefix:
    """Words of a shell text that name one program and its first arguments.

    Attributes:
        text: The words: literal, quoted, or with ``$NAME``.

    Raises:
        InvalidCommand: There is no word, or the text is more than words: an operator, a substitution, a comment, an
            open quote, or an assignment before the program.
    """

    text: str

    def __post_init__(self) -> None:
        check_text("prefix", self.text)
        if not self.text.strip(" \t\n"):
            raise InvalidCommand("prefix is empty: give a program, such as 'nice -n 10', or leave it out")
        if len(self.text) > LONGEST_PREFIX:
            raise InvalidCommand(f"prefix is longer than {LONGEST_PREFIX:,} characters: put it into a script")
        if _NO_PROGRAM.match(self.text):
            raise InvalidCommand("prefix must begin with a program; to set a variable: env NAME=VALUE")
        if not _WORDS.match(self.text):
            raise InvalidCommand(
                "prefix must be one program and its arguments, without operators, substitutions, comments and open "
                "quotes; quote such characters, or put the text into a script and give that"
            )

    @property
    def program(self) -> str | None:
        """The program, if it is a bare name that is looked up on the host's PATH; ``None`` otherwise."""
        name = _NAME.match(self.text)
        return None if name is None else name[1]

    def wrap(self, argv: tuple[str, ...]) -> tuple[str, ...]:
        """Say what to start so that the program of the prefix is given `argv` behind its own arguments."""
        return ("/bin/sh", "-c", f'exec {self.text} "$@"', "sh", *argv)
