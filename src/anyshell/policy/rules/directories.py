"""The directories in which the commands of a text may run, after each ``cd`` of the text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..parse.parsed import ParsedCommand
    from .paths import Paths

    Bases = tuple[str | None, ...]
    """Possible working directories; ``None`` for a directory that is not known."""

MOST_DIRECTORIES = 8
"""Directories that a command may run in, after the ``cd`` before it; with more, the directory is not known."""

REPEATS = re.compile(r"\b(for|while|until|select|done)\b")
"""Words of loops; a text with loops may run a later command before an earlier one."""

_GOES = ("cd", "Set-Location")
_MOVES = frozenset({"pushd", "popd", "chdir", *_GOES, "Push-Location", "Pop-Location"})


def directories(commands: Sequence[ParsedCommand], text: str, paths: Paths) -> list[Bases]:
    """Return the directories in which each command may run.

    A ``cd`` may fail, or stand in a subshell or behind a condition. So after a ``cd`` both the old and the new directory
    are possible. The new directory is certain only for the next commands that ``&&`` alone joins to the ``cd``.

    Args:
        commands: The commands of the text, in their order.
        text: The text as written.
        paths: The paths of the decision; ``PWD`` is removed from `paths` if the text changes the directory.
    """
    moves = [at for at, each in enumerate(commands) if each.program in _MOVES]
    start: Bases = (paths.cwd,)
    if not moves:
        return [start for _ in commands]
    paths.variables.pop("PWD", None)
    if len(moves) > 2 * MOST_DIRECTORIES:
        return [(None,) for _ in commands]
    possible: Bases = (None,) if REPEATS.search(text) else start
    certain: Bases | None = None  # set while && joins the commands
    found: list[Bases] = []
    for at, command in enumerate(commands):
        if at and not _joined(commands[at - 1], command, text):
            certain = None
        here = certain or possible
        found.append(here)
        if at in moves:
            after = _moved(command, here, commands, paths)
            possible = (*dict.fromkeys((*possible, *after)),)
            possible = possible if len(possible) <= MOST_DIRECTORIES else (None,)
            certain = after
    # The commands of a function run in the directory of the call.
    return [possible if each.defines else here for each, here in zip(commands, found, strict=True)]


def _joined(before: ParsedCommand, after: ParsedCommand, text: str) -> bool:
    between = text[before.span[1] : after.span[0]]
    same = before.via == after.via == () and not after.piped and not before.background
    return same and before.span[1] <= after.span[0] and between.strip(" \t") == "&&"


def _moved(command: ParsedCommand, bases: Bases, commands: Sequence[ParsedCommand], paths: Paths) -> Bases:
    """Return the directories after a command that changes the directory, from each of several bases."""
    words = [word for word in command.arguments if word.text not in ("-L", "-P", "--")]
    if command.program not in _GOES or len(words) > 1 or (words and words[0].text[:1] in ("-", "+")):
        return (None,)
    if any(each.name == "CDPATH" for other in commands for each in other.variables):
        return (None,)
    path = paths.named(words[0]) if words else paths.variables.get("~")
    if path is None or (words and not words[0].literal and re.search(r"[*?\[{]", path)):
        return (None,)
    found: list[str | None] = []
    for base in bases:
        whole = None if base is None and not path.startswith("/") else paths.join(base or "/", path)
        resolved = whole and paths.resolve(whole)
        found.append(resolved)
        # For the shell, .. after a link is the directory that contains the link; for the kernel, the parent of its target.
        if resolved and whole and ".." in re.split(r"[/\\]", whole):
            found.append(paths.resolve(paths.plain(whole)))
    return tuple(dict.fromkeys(found))
