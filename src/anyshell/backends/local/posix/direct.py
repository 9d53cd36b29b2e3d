"""Start of a program without its shell, where the shell would only find the program and replace itself with it."""

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
"""Variables that change bash's behaviour, or that bash changes; so do all variables that begin with BASH."""

_LEVEL = re.compile(rb"0|[1-9][0-9]{0,2}(?<!999)")
"""A value of SHLVL that bash accepts unchanged."""

_PROMPTS = (b"PS1", b"PS2")
"""Variables that a non-interactive bash removes from its programs' environment."""


def start_directly(
    program: ProgramStart, spawn: Callable[[ProgramStart, Sequence[int]], int], standard: Sequence[int]
) -> int:
    """Start a program, without its shell if the shell would only start one other program.

    A directly started program gets the variables that the shell would pass on. If the direct start fails, the shell is
    started, which reports the error, or runs a file without a first line ``#!``.

    Returns:
        The pid of the started program.

    Raises:
        OSError: The program could not be started.
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
    """Return the path of a program as bash finds it; ``None`` where bash might find another program, or none."""
    if not _OF_BASH.isdisjoint(env) or any(variable.startswith(b"BASH") for variable in env):
        return None
    if env.get(b"PWD") != os.fsencode(cwd) or not _LEVEL.fullmatch(env.get(b"SHLVL", b"0")):
        return None  # bash would correct PWD or SHLVL
    if "/" in name:
        return name if _runs(os.path.join(cwd, name)) else None
    for directory in os.fsdecode(env.get(b"PATH", b"")).split(":"):
        if not directory.startswith("/"):
            return None  # a relative directory, or ~, which bash expands
        path = f"{directory.rstrip('/')}/{name}"
        if _runs(path):
            return path
    return None


def _runs(path: str) -> bool:
    return os.path.isfile(path) and os.access(
        path, os.X_OK, effective_ids=os.access in os.supports_effective_ids
    )
