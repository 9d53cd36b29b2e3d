"""Batch files, which Windows gives to ``cmd.exe``, and the rules for their arguments.

To start a ``.bat`` or ``.cmd`` is to start cmd.exe, which reads the command line once more, by rules of its own: an
argument such as ``"&calc.exe`` is a command to it (CVE-2024-24576). So every argument goes between double quotes, where
it has no meaning but for ``%``, which no quote keeps from naming a variable, and a quote, which is given twice. It is
what the standard libraries of Rust and Zig do since. An end of line cannot be passed on at all.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from anyshell._exceptions import InvalidCommand

if TYPE_CHECKING:
    from collections.abc import Iterable

BATCH_FILE = r"\.(bat|cmd)[ .]*$"
"""Ends a name that Windows takes for a batch file's, in either case. It drops blanks and dots at the end (CVE-2024-43402)."""

LONGEST_LINE = 8_000
"""Characters of a batch file's arguments; more are refused. cmd.exe takes 8,191 with what stands before and behind them."""

NO_PERCENT = "%%cd:~,%"
"""The spelling of one ``%`` in a line of cmd.exe: behind the first stands an empty part of a variable that is always there,
and so no ``%`` is left that could begin the name of another."""

SWITCHES = "/d /e:ON /v:OFF /s /c"
"""No commands that run first, the extensions that `NO_PERCENT` needs, no ``!``, and quotes that are taken off once."""

_IS_BATCH_FILE = re.compile(BATCH_FILE, re.IGNORECASE)

_ENDS = re.compile(r"[\r\n\0]")

# A run of backslashes up to a quote or the end.
_BEFORE_QUOTE = re.compile(r'(?<!\\)(\\++)(?="|\Z)')

_PLAIN = re.compile(r"[A-Za-z0-9_./:\\ -]+(?<!\\)\Z")


def is_batch_file(program: str) -> bool:
    """Whether Windows takes a program's name for that of a batch file."""
    return _IS_BATCH_FILE.search(program) is not None


def is_plain(argument: str) -> bool:
    """Whether an argument means to cmd.exe what it means to others, if it is quoted where it holds a blank."""
    return _PLAIN.match(argument) is not None


def join_for_cmd(arguments: Iterable[str]) -> str:
    """Make the arguments of a batch file for a line that cmd.exe reads.

    The file finds them as ``%1`` and so on with these quotes, and as ``%~1`` without them; a program that it gives them
    to takes them off by Microsoft's rules.

    Raises:
        InvalidCommand: One holds an end of line, at which cmd.exe reads no further, or all are longer than it takes.
    """
    line = " ".join(f'"{for_cmd(argument)}"' for argument in arguments)
    if len(line) > LONGEST_LINE:
        raise InvalidCommand(
            f"a batch file takes about {LONGEST_LINE:,} characters of arguments; pass more by a file or stdin"
        )
    return line


def for_cmd(text: str) -> str:
    """Make a text that means itself between double quotes, where cmd.exe reads it.

    Raises:
        InvalidCommand: It holds an end of line.
    """
    if _ENDS.search(text):
        raise InvalidCommand(
            "a batch file cannot be given an argument that holds a line feed or a carriage return, where cmd.exe ends "
            "a command; pass it by a variable, a file or stdin"
        )
    return _BEFORE_QUOTE.sub(lambda run: run[1] * 2, text).replace('"', '""').replace("%", NO_PERCENT)
