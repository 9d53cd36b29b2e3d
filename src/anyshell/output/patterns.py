"""Patterns that cannot take long, for a model that waits for output or searches output.

The expressions of `re` backtrack, and hold up every thread meanwhile. An expression that repeats a group, or repeats twice in a
row, can take minutes over a few kilobytes. An accepted expression takes time in proportion to the square of a line, at most. RE2,
which the extra ``re2`` brings, takes time in proportion to its input, whatever the pattern.
"""

from __future__ import annotations

import importlib
import re
from typing import TYPE_CHECKING, Any

from .._exceptions import InvalidCommand
from .sequences import CONTROL, OTHER

if TYPE_CHECKING:
    from collections.abc import Callable

_SLASHES = re.compile(r"/(.+)/", re.DOTALL)
_TOKEN = re.compile(
    r"(?P<escape>\\.)|(?P<set>\[\^?\]?(?:\\.|[^\]\\])*\])|(?P<group>\)[*+?{])|(?P<special>\(\?(?!:))"
    r"|(?P<open>\((?:\?:)?)|(?P<close>\))|(?P<many>[*+]|\{[^}]*\})|(?P<maybe>\?)|(?P<or>\|)|.",
    re.DOTALL,
)
MAYBES = 3
"""Parts of a model's pattern that may be missing (``?``), at most: each part doubles the ways that are tried."""

WAYS = 16
"""Ways through a model's pattern, at most: the branches of its groups (``(a|b)``) and the parts that may be missing, multiplied."""

LONGEST_PATTERN = 1000
"""Characters of a pattern in an address; a longer pattern is an error."""

LONGEST_SEARCHED = 1024 * 1024
"""Bytes of a line that are searched for the pattern in an address, with the extra ``re2``."""

MOST_STEPS = 256 * 1024 * 1024
"""Steps of RE2 over one line, at most: searched bytes, times the size of the pattern's program; some two seconds. Beyond that,
only the first bytes of a line are searched, and the note counts the longer lines."""

LONGEST_BACKTRACKED = 4 * 1024
"""Bytes of a line that are searched for the pattern in an address, without the extra ``re2``."""

_SEQUENCE = re.compile(CONTROL + b"|" + OTHER)
_WITHOUT = (
    "without the extra re2 (pip install 'anyshell[re2]') it may repeat one thing at most in each alternative, and no group, "
    f"and its groups with | have {WAYS} combinations at most"
)

SIMPLER = (
    "a /pattern/ repeats one thing at most (\\d+, .*) in each alternative, no group, and has no (?…): use a text. "
    f"Its groups with | have {WAYS} combinations at most"
)


def pattern_of(said: str) -> re.Pattern[str]:
    """Compile the pattern of a model: a literal text, or an expression between slashes.

    Raises:
        ValueError: The expression could take long; the message says which expressions are accepted.
        re.error: The expression does not compile.
    """
    found = _SLASHES.fullmatch(said)
    if found is None:
        return re.compile(re.escape(said))
    many, most, maybes = 0, 0, 0
    ways = [(1, 0)]  # of each open group: ways through its present branch, and through its earlier branches
    for token in _TOKEN.finditer(found[1]):
        match token.lastgroup:
            case "group" | "special":
                raise ValueError(SIMPLER)
            case "escape" if token[0][1].isdigit():
                raise ValueError(SIMPLER)  # a back reference
            case "many":
                many += 1
            case "maybe":
                maybes += 1
                ways[-1] = 2 * ways[-1][0], ways[-1][1]
            case "open":
                ways.append((1, 0))
            case "close" if len(ways) > 1:
                inner = sum(ways.pop())
                ways[-1] = inner * ways[-1][0], ways[-1][1]
            case "or":
                # The branches of the whole pattern are tried one after the other, and nothing follows them.
                ways[-1] = 1, sum(ways[-1]) if len(ways) > 1 else 0
                # Alternatives within groups can follow each other: then all repeats count together.
                most, many = max(most, many), many if "(" in found[1] else 0
        if ways[-1][0] > WAYS:
            raise ValueError(SIMPLER)
    if max(most, many) > 1 or maybes > MAYBES:
        raise ValueError(SIMPLER)
    return re.compile(found[1], re.MULTILINE)


def searcher(pattern: str) -> tuple[Callable[[bytes], bool], int]:
    """Compile a pattern for raw lines; escape sequences in a line are removed before the search.

    Returns:
        A function that tells whether a line matches; and the largest number of bytes of a line to pass to the function.

    Raises:
        InvalidCommand: The pattern is empty or too long, does not compile, or may take long without RE2.
    """
    if not 0 < len(pattern) <= LONGEST_PATTERN:
        raise InvalidCommand(f"grep: a pattern has 1 to {LONGEST_PATTERN:,} characters, not {len(pattern):,}")
    search, most = _re2(pattern) or _backtracking(pattern)

    def matches(line: bytes) -> bool:
        return search(_SEQUENCE.sub(b"", line) if b"\x1b" in line else line)

    return matches, most


def _re2(pattern: str) -> tuple[Callable[[bytes], bool], int] | None:
    try:
        re2: Any = importlib.import_module("re2")
    except ImportError:
        return None
    options = re2.Options()
    options.log_errors = False  # errors are raised instead
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        said = error.args[0] if error.args else ""
        raise InvalidCommand(
            f"grep: the pattern does not compile: {said.decode(errors='replace') if isinstance(said, bytes) else said}"
        ) from None
    return lambda line: compiled.search(line) is not None, min(
        LONGEST_SEARCHED, MOST_STEPS // max(1, compiled.programsize)
    )


def _backtracking(pattern: str) -> tuple[Callable[[bytes], bool], int]:
    try:
        compiled = pattern_of(f"/{pattern}/")
    except ValueError:
        raise InvalidCommand(f"grep: the pattern could take long: {_WITHOUT}") from None
    except (re.error, OverflowError, RecursionError) as error:
        raise InvalidCommand(f"grep: the pattern does not compile: {error}") from None
    return lambda line: compiled.search(line.decode(errors="replace")) is not None, LONGEST_BACKTRACKED
