"""The parser of a shell's reports about a command."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .._types import ExitStatus, one_line
from .process import End

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .. import shells
    from .process import SessionProcess

BROKEN_OFF = 130  # no bound
"""The exit code of an interrupted text, as in shells: 128 and the number of SIGINT."""

NUMBER = re.compile(rb"-?[0-9]{1,10}")
_OURS = ("ANYSHELL_", "BASH_FUNC_")
_CHANGING = frozenset({"PWD", "OLDPWD", "SHLVL", "_"})


def parse_end(
    said: bytes, command: SessionProcess, conversation: shells.Conversation | shells.PowerShellConversation
) -> tuple[End, int] | None:
    """Parse a shell's report of a command's end: the end and its ``$?``; ``None`` for another command's number."""
    words, _, directory = said.partition(b"\t")
    number, code, interrupted, first, last, *_ = (*words.split(b" "), b"", b"", b"", b"")
    of, numbered, code = code.rpartition(b":")
    unnumbered = conversation.numbers_statuses and code not in (b"x", b"full")
    if number != command.number or (of != number if numbered else unnumbered):
        return None
    known = NUMBER.fullmatch(code) is not None
    answer = conversation.exit_code(int(code)) if known else 1
    status = ExitStatus() if interrupted else ExitStatus(code=answer)
    if interrupted and command.broken_off:
        answer = BROKEN_OFF
        status = ExitStatus(code=answer)
    end = End(
        status,
        directory=directory.decode("utf-8", "surrogateescape"),
        problem="" if known or interrupted else code.decode("utf-8", "replace"),
        first=int(first) if first and NUMBER.fullmatch(first) else None,
        last=int(last) if last and NUMBER.fullmatch(last) else None,
    )
    return end, answer


def variables_of(entries: Sequence[bytes]) -> dict[str, str]:
    """Return the exported variables that a shell has reported, without anyshell's own and those that change by themselves."""
    pairs = (entry.decode("utf-8", "surrogateescape").partition("=") for entry in entries)
    return {name: value for name, _, value in pairs if not name.startswith(_OURS) and name not in _CHANGING}


def why_not(problem: str) -> str:
    """Explain why a shell did not begin a command, given the shell's own word for the problem."""
    word, _, files = problem.partition(" ")
    if word == "few":
        return (
            f"the session's shell may have {one_line(files[:20])} open files at most (ulimit -n), and for a session bash needs "
            "200: raise the limit where it is set, such as in a startup file of the host, or take shell='sh'"
        )
    return (
        "the session's shell could not begin the command: there is no room left on the host, or its private directory "
        "cannot be used; restart() the session"
    )
