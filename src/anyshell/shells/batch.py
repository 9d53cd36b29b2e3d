"""Batch files, which Windows passes to ``cmd.exe``, and the rules for their arguments.

Starting a ``.bat`` or ``.cmd`` starts cmd.exe, which parses the command line again, by rules of its own: an argument such as
``"&calc.exe`` is a command to it (CVE-2024-24576). So every argument goes between double quotes, where only two characters
have a meaning: ``%``, which names a variable even in quotes, and a quote, which is doubled. The standard libraries of Rust
and Zig now do the same. An end of line cannot be passed at all.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from anyshell._exceptions import InvalidCommand

if TYPE_CHECKING:
    from collections.abc import Iterable

BATCH_FILE = r"\.(bat|cmd)[ .]*$"
"""The end of a batch file's name to Windows, in either case. Windows drops blanks and dots at the end (CVE-2024-43402)."""

LONGEST_LINE = 8_000
"""Characters of a batch file's arguments; more are refused. cmd.exe takes 8,191 with the text before and behind them."""

NO_PERCENT = "%%cd:~,%"
"""The spelling of one ``%`` in a line of cmd.exe: behind the first stands an empty part of a variable that always exists, so
no remaining ``%`` can begin the name of another variable.
"""

SWITCHES = "/d /e:ON /v:OFF /s /c"
"""No commands that run first, the extensions that `NO_PERCENT` needs, no ``!``, and quotes that are removed once."""

_IS_BATCH_FILE = re.compile(BATCH_FILE, re.IGNORECASE)

_ENDS = re.compile(r"[\r\n\0]")

# A run of backslashes up to a quote or the end.
_BEFORE_QUOTE = re.compile(r'(?<!\\)(\\++)(?="|\Z)')

_PLAIN = re.compile(r"[A-Za-z0-9_./:\\ -]+(?<!\\)\Z")


def is_batch_file(program: str) -> bool:
    """Return whether Windows takes a program's name for that of a batch file."""
    return _IS_BATCH_FILE.search(program) is not None


def is_plain(argument: str) -> bool:
    """Return whether an argument has the same meaning to cmd.exe as to others, if an argument with a blank is quoted."""
    return _PLAIN.match(argument) is not None


def join_for_cmd(arguments: Iterable[str]) -> str:
    """Make the arguments of a batch file for a line that cmd.exe reads.

    The batch file gets the arguments as ``%1`` and so on with these quotes, and as ``%~1`` without them. A program that gets
    the arguments from the batch file removes the quotes by Microsoft's rules.

    Raises:
        InvalidCommand: An argument holds an end of line, at which cmd.exe stops reading, or all are longer than it takes.
    """
    line = " ".join(f'"{for_cmd(argument)}"' for argument in arguments)
    if len(line) > LONGEST_LINE:
        raise InvalidCommand(
            f"a batch file takes about {LONGEST_LINE:,} characters of arguments; pass more by a file or stdin"
        )
    return line


def for_cmd(text: str) -> str:
    """Escape a text that is literal between double quotes in a line of cmd.exe.

    Raises:
        InvalidCommand: The text holds an end of line.
    """
    if _ENDS.search(text):
        raise InvalidCommand(
            "a batch file cannot be given an argument that holds a line feed or a carriage return, where cmd.exe ends "
            "a command; pass it by a variable, a file or stdin"
        )
    return _BEFORE_QUOTE.sub(lambda run: run[1] * 2, text).replace('"', '""').replace("%", NO_PERCENT)
