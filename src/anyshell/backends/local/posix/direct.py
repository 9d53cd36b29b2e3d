"""Start a program without the shell that would only look for it and replace itself by it."""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

assert sys.platform != "win32"

from ...._types import ShellArgv

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .starter import ProgramStart

_OF_BASH = frozenset(
    b"COMP_WORDBREAKS EPOCHREALTIME EPOCHSECONDS EUID EXECIGNORE HISTCMD IFS LINENO OLDPWD OPTERR OPTIND POSIXLY_CORRECT PPID "
    b"PS4 RANDOM SHELLOPTS SRANDOM UID".split()
)
"""Variables, besides those that begin with BASH, by which bash does something else, or which it changes."""

_LEVEL = re.compile(rb"0|[1-9][0-9]{0,2}(?<!999)")
"""A depth of shells that bash takes as it is."""

_PROMPTS = (b"PS1", b"PS2")
"""Variables that bash takes away from its programs where no person types."""


def start_directly(
    program: ProgramStart, spawn: Callable[[ProgramStart, Sequence[int]], int], standard: Sequence[int]
) -> int:
    """Start a program, or what its shell would only start: with the variables that the shell would give it.

    What cannot be started directly, the shell is given. It says why, or runs a file without a first line ``#!``.

    Returns:
        Its pid.

    Raises:
        OSError: It could not be started.
    """
    argv, env = program.argv, program.env
    if isinstance(argv, ShellArgv) and (path := _find(argv.words[0], program.cwd, env)) is not None:
        given = {**env, b"_": os.fsencode(path), b"SHLVL": env.get(b"SHLVL", b"0")}
        for prompt in _PROMPTS:
            given.pop(prompt, None)
        with suppress(OSError):
            return spawn(program._replace(argv=argv.words, env=given, path=path), standard)
    return spawn(program, standard)


def _find(name: str, cwd: str, env: Mapping[bytes, bytes]) -> str | None:
    """The path of a program as bash finds it; ``None`` where bash might find another, or nothing."""
    if not _OF_BASH.isdisjoint(env) or any(variable.startswith(b"BASH") for variable in env):
        return None
    if env.get(b"PWD") != os.fsencode(cwd) or not _LEVEL.fullmatch(env.get(b"SHLVL", b"0")):
        return None  # bash mends them
    if "/" in name:
        return name if _runs(os.path.join(cwd, name)) else None
    for directory in os.fsdecode(env.get(b"PATH", b"")).split(":"):
        if not directory.startswith("/"):
            return None  # relative, or ~, which bash expands
        path = f"{directory.rstrip('/')}/{name}"
        if _runs(path):
            return path
    return None


def _runs(path: str) -> bool:
    return os.path.isfile(path) and os.access(
        path, os.X_OK, effective_ids=os.access in os.supports_effective_ids
    )
