"""A command prefix, such as ``nice -n 10``: words before the shell which runs a command.

The host's ``/bin/sh`` reads the words, so quotes, ``~`` and variables have the same meaning as in any text, and becomes the
named program by ``exec``: the program gets the shell and its arguments behind its own arguments. A Windows host has no
``/bin/sh``: there the words are literal.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anyshell._exceptions import InvalidCommand
from anyshell._types import check_text

from .batch import is_batch_file

if TYPE_CHECKING:
    from collections.abc import Mapping

LONGEST_PREFIX = 4096
"""Characters of a prefix; a longer one is an error."""

# The parts of a word: a parameter stands for its value, but no command runs to make a word. Possessive, so no input takes
# long.
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

# On Windows: no "%" and no "!", in case a program passes the words to cmd.exe.
_WORDS_OF_WINDOWS = re.compile(r""""([^"%$`!\r\n]*+)"|([^\s"'%$`!]++)""")
_ONLY_WORDS_OF_WINDOWS = re.compile(r"""(?:\s*+(?:"[^"%$`!\r\n]++"|[^\s"'%$`!]++)(?!\S))++\s*+\Z""")

_NO_PROGRAM = re.compile(r"[ \t]*(?:-|\w+=)")


@dataclass(frozen=True, slots=True)
class Prefix:
    """Words of a shell text that name one program and its first arguments.

    Attributes:
        text: The words: literal, quoted, or with ``$NAME``.

    Raises:
        InvalidCommand: There is no word, or the text is more than words: an operator, a substitution, a comment, an open
            quote, or an assignment before the program.
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

    @property
    def words(self) -> tuple[str, ...]:
        """The words on a Windows host, where no shell reads them: literal, or between double quotes.

        Raises:
            InvalidCommand: The text is more than words of these two kinds.
        """
        words = _WORDS_OF_WINDOWS.findall(self.text)
        if not _ONLY_WORDS_OF_WINDOWS.match(self.text):
            raise InvalidCommand(
                "prefix: on a Windows host its words are taken literally: give each as it is, between double quotes if it "
                "holds a blank, without %, $, single quotes and backticks"
            )
        return tuple(quoted or bare for quoted, bare in words)

    def check_words(self, programs: Mapping[str, str]) -> None:
        """Refuse a prefix that cannot stand before a shell on a Windows host.

        Args:
            programs: The paths of programs that are named without a path.

        Raises:
            InvalidCommand: See `words`; or the program is a batch file.
        """
        program = self.words[0]
        if is_batch_file(programs.get(program, program)):
            raise InvalidCommand(
                f"prefix: {program!r} is a batch file, whose arguments cmd.exe would read as commands; give a program"
            )

    def wrap(self, argv: tuple[str, ...], *, on_windows: bool) -> tuple[str, ...]:
        """Return the argument list that passes `argv` to the program of the prefix, behind the program's own arguments."""
        if on_windows:
            return (*self.words, *argv)
        return ("/bin/sh", "-c", f'exec {self.text} "$@"', "sh", *argv)
