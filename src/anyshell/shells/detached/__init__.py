"""The shells on a host that start a job which outlives this program, write down its end, and find it again.

Three texts of POSIX sh (`place.sh` is a part of two), run by ``/bin/sh`` whatever runs the job: ``start.sh`` ends at once, ``job.sh`` waits for the
job and becomes it, and ``look.sh`` comes later. All that differs from job to job is an argument, so that
nothing has to be quoted.
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
"""Variables that say where jobs are, unless the caller does: a job that sets its own would otherwise be written down
where the caller does not look."""


@cache
def _text(name: str) -> str:
    """One of the texts, less its comments: it is sent each time."""
    if name in ("job", "look"):
        return _lines("place") + _lines(name)
    return _lines(name)


def _lines(name: str) -> str:
    lines = resources.files(__package__).joinpath(f"{name}.sh").read_text("utf-8").splitlines(keepends=True)
    return "".join(line for line in lines if line.strip() and not line.lstrip().startswith("#"))


def start(
    argv: Iterable[str], *, directory: str | None, id_: str, most: int, script: bool, request: str
) -> tuple[str, ...]:
    """Say what starts a program as a job.

    It prints one line, ``started PID TIME JOB`` or ``error WORDS``, and ends. Its own variables are the job's.

    Args:
        argv: The program and its arguments.
        directory: The directory of jobs; ``None`` for the user's own place.
        id_: The job's name; what is there already is not touched.
        most: Jobs that there may be, this one included.
        script: Whether the program reads its text from the file that ``ANYSHELL_SCRIPT`` names.
        request: One line that is written down with it.
    """
    words = (_text("job"), directory or "", id_, str(most), "1" if script else "", request, *argv)
    return (_SH, "-c", _text("start"), "anyshell", *words)


def look(verb: Verb, *arguments: str, directory: str | None) -> tuple[str, ...]:
    """Say what finds jobs again. What it prints is told at the top of ``look.sh``."""
    return (_SH, "-c", _text("look"), "anyshell", directory or "", verb, *arguments)
