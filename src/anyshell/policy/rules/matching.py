"""Matches of a command's words and hosts with the words and hosts of a rule."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase, translate
from functools import cache
from typing import TYPE_CHECKING

from .paths import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..parse.parsed import Argument


def hosts_match(patterns: Iterable[str], hosts: Iterable[str]) -> bool:
    """Whether at least one of several hosts or URLs matches a host pattern of a rule."""
    return any(
        host and fnmatchcase(_host(host), pattern.casefold())
        for host in hosts
        for pattern in patterns
        if host != UNKNOWN
    )


def _host(text: str) -> str:
    """Return the host of a URL, or of a destination as ``ssh`` and ``git`` take it; ``?`` if the text is neither."""
    found = re.fullmatch(
        r"(?:[a-z][a-z0-9+.-]*://)?(?:[\w.%:~!$&'*+,;=-]*@)?(\[[0-9a-f:.]*\]|[\w.-]+)(?:[:/].*)?",
        text,
        re.IGNORECASE | re.DOTALL | re.ASCII,
    )
    return found[1].casefold() if found else "?"


@cache
def one_of(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """Compile names with ``*`` and ``?`` into one regular expression, in lower case."""
    return re.compile("|".join(translate(each.casefold()) for each in patterns))


@cache
def with_slash(patterns: tuple[str, ...] | None) -> tuple[str, ...]:
    """Return the patterns that are paths."""
    return tuple(pattern for pattern in patterns or () if "/" in pattern)


@cache
def first_words(commands: tuple[tuple[str, ...], ...]) -> re.Pattern[str]:
    """Compile the programs that the commands of a rule begin with into one regular expression, in lower case."""
    return one_of(tuple(words[0] for words in commands))


def begins(
    pattern: tuple[str, ...], words: Sequence[str], arguments: Sequence[Argument], *, exact: bool
) -> bool:
    """Whether a command begins with the words of a rule, and these words of the command are literal.

    Args:
        pattern: The words of the rule.
        words: The words of the command; the first is the program's name.
        arguments: The words of the command without the program's name.
        exact: Whether the command must not have more words than the rule.
    """
    if len(words) < len(pattern) or (exact and len(words) != len(pattern)):
        return False
    literal = [True, *(word.literal for word in arguments)]
    return all(
        literal[at] and fnmatchcase(word, wanted)
        for at, (word, wanted) in enumerate(zip(words, pattern, strict=False))
    )


def contains(
    pattern: tuple[str, ...], words: Sequence[str], arguments: Sequence[Argument], *, exact: bool
) -> bool:
    """Whether a rule's words stand in a command in the rule's order, the program first; flags may be abbreviated or combined."""
    if exact:
        return begins(pattern, words, arguments, exact=True)
    if not fnmatchcase(words[0].casefold(), pattern[0].casefold()):
        return False
    rest = iter(words[1:])
    return all(any(_same(word, wanted) for word in rest) for wanted in pattern[1:])


def _same(word: str, wanted: str) -> bool:
    if fnmatchcase(word, wanted):
        return True
    if wanted.startswith("--"):
        name = word.partition("=")[0]
        return len(name) > 2 and name.startswith("--") and wanted.startswith(name)
    return len(wanted) == 2 and wanted[0] == "-" and bool(re.match(r"-[^-]", word)) and wanted[1] in word


_BUILTINS = (
    "cd, chdir, pushd, popd, export, declare, typeset, local, readonly, unset, set, shopt, setopt, unsetopt, emulate, "
    "alias, unalias, hash, enable, disable, autoload, zmodload, source, ., eval, exec, trap, umask, ulimit, "
    "sl, set-location, push-location, pop-location"
)
CHANGES_THE_SHELL = frozenset(_BUILTINS.split(", "))
"""Builtins that change later commands: the working directory, the variables, or the program that a name runs."""
