"""The end of a command in a few words, and the style of the words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._types import JobStatus, as_duration, exact
from ..policy import visible
from ..tool.result import JobDetails, ShellDetails
from .page import BAD, COMMAND, GOOD, QUIET, WARNING, counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._types import Outcome
    from ..tool.result import JobState

NOTHING_RAN = frozenset(("refused", "invalid", "failed", "restarted"))
_ENDED: dict[JobStatus, str] = {"stopped": WARNING, "timed_out": BAD, "failed": BAD, "lost": BAD}


def one_job(details: JobDetails) -> JobState | None:
    """Return the job of a call that was about one job; ``None`` for any other call."""
    return details.jobs[0] if len(details.jobs) == 1 and details.action != "list" else None


def job_ended(details: JobDetails) -> tuple[str, str]:
    """Return the words for the state or the end of a job, and their style."""
    job = one_job(details)
    if details.status != "done":
        return details.status, BAD
    if details.action == "list":
        return counted(len(details.jobs), "job"), QUIET
    if details.terminal is not None and not details.running:
        return _exit(details), GOOD if details.exit_code == 0 else BAD
    if job is None:
        return "done", GOOD
    if job.status == "running":
        return "running", COMMAND
    code = job.exit_code if job.status in ("completed", "failed") else None
    ended = job.status.replace("_", " ") if code is None else f"exit code {code}"
    return ended, _ENDED.get(job.status, GOOD)


def ended(details: ShellDetails | Outcome) -> tuple[str, str]:
    """Return the words for the end of a command, and their style."""
    terminal = details.terminal if isinstance(details, ShellDetails) else None
    match details.status:
        case "exited":
            return _exit(details), GOOD if details.exit_code == 0 else BAD
        case "timed_out" if details.silence is not None:
            return f"silent for {exact(details.silence)} s", BAD
        case "timed_out":
            return "timed out", BAD
        case "cancelled":
            return "cancelled", WARNING
        case "running":
            return f"running as job {visible(details.job or terminal or '')}", COMMAND
        case "waiting":
            return f"waits for input on terminal {visible(terminal or '')}", COMMAND
        case "restarted":
            return "restarted", GOOD
        case _:
            return details.status, BAD


def _exit(details: ShellDetails | JobDetails | Outcome) -> str:
    code = "" if details.exit_code is None else f"exit code {details.exit_code}"
    if details.signal is None:
        return code or "ended"
    return f"{visible(details.signal)} ({code})" if code else visible(details.signal)


def times(details: ShellDetails | JobDetails | Outcome) -> Iterator[str]:
    """Yield the duration of a call, and the timeout of a command."""
    if isinstance(details, JobDetails):
        if (job := one_job(details)) is not None:
            yield seconds(job.seconds)
    elif details.status not in NOTHING_RAN:
        yield "not started" if details.started is False else seconds(details.duration)
        if isinstance(details, ShellDetails):
            yield "no timeout" if details.timeout is None else f"timeout {exact(details.timeout)} s"


def seconds(value: float) -> str:
    """Format a duration in seconds for a person."""
    if value < 60:
        return f"{value:.1f} s"
    return as_duration(round(value))
