"""The shells on a host that start a job which outlives this program, record its end, and find the job again.

Three texts of POSIX sh (`place.sh` is a part of two), run by ``/bin/sh`` whatever shell runs the job: ``start.sh`` ends at
once, ``job.sh`` runs twice, as the supervisor and as the shell that becomes the job, and ``look.sh`` runs later. Everything
that differs from job to job is an argument, so nothing must be quoted.
"""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable

Verb = Literal["list", "signal", "remove"]

_SH = "/bin/sh"

PLACES = frozenset({"ANYSHELL_STATE_DIR", "XDG_STATE_HOME", "HOME"})
"""Variables that determine the directory of jobs, unless the caller gives it: otherwise a job with its own value would be
recorded where the caller does not look.
"""


@cache
def _text(name: str) -> str:
    """Return one of the texts, without its comments: every call sends its text to the host."""
    if name in ("job", "look"):
        return _lines("place") + _lines(name)
    return _lines(name)


def _lines(name: str) -> str:
    lines = resources.files(__package__).joinpath(f"{name}.sh").read_text("utf-8").splitlines(keepends=True)
    return "".join(line for line in lines if line.strip() and not line.lstrip().startswith("#"))


def start(
    argv: Iterable[str], *, directory: str | None, id_: str, most: int, script: bool, request: str
) -> tuple[str, ...]:
    """Return the argument list that starts a program as a job.

    The start prints one line, ``started PID TIME JOB`` or ``error WORDS``, and ends. The environment variables of the start
    are the job's.

    Args:
        argv: The program and its arguments.
        directory: The directory of jobs; ``None`` for the user's own directory.
        id_: The id of the job; an existing job is not changed.
        most: Jobs that may exist, this one included.
        script: Whether the program reads its text from the file that ``ANYSHELL_SCRIPT`` names.
        request: One line that is recorded with the job.
    """
    words = (_text("job"), directory or "", id_, str(most), "1" if script else "", request, *argv)
    return (_SH, "-c", _text("start"), "anyshell", *words)


def look(verb: Verb, *arguments: str, directory: str | None) -> tuple[str, ...]:
    """Return the argument list that finds jobs again. The top of ``look.sh`` describes its output."""
    return (_SH, "-c", _text("look"), "anyshell", directory or "", verb, *arguments)
