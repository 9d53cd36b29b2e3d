"""Sentences on jobs for a model, of one line each; no sentence invites a repeated call."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ..._types import exact
from ...policy import visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..._types import JobOutput, Outcome, Output
    from ...jobs import Job
    from .ledger import LedgerEntry

SHOWN_COMMAND = 60
"""Characters of a job's command in a sentence about the job; the rest is cut."""

LISTED = 50
"""Jobs that are listed one by one, the newest; the older jobs are only counted."""

LAST_LINES = 3
"""Last lines of a job that the news of the job's end quotes; earlier lines are left out."""

LAST_CHARACTERS = 300
"""Characters of the quoted last lines of a job; of more, only the last are quoted."""


def command(text: str) -> str:
    """Return a job's command on one line, cut to `SHOWN_COMMAND` characters."""
    words = " ".join(text[: 4 * SHOWN_COMMAND].split())
    return visible(words if len(words) <= SHOWN_COMMAND else f"{words[:SHOWN_COMMAND]}…")


def seconds(job: Job) -> float:
    """Return the seconds that a job has run, or ran until its end."""
    return max(0.0, round(((job.ended or datetime.now(UTC)) - job.started).total_seconds(), 1))


def ended(job: Job) -> str:
    """Return the end of a job, as the rest of a sentence that begins with the job."""
    match job.status:
        case "stopped":
            return "was stopped"
        case "timed_out" if job.outcome is not None and job.outcome.silence is not None:
            return f"was stopped after {exact(job.outcome.silence)} s without output or input"
        case "timed_out":
            return "timed out"
        case "lost":
            return "was lost (it may still run)"
        case _ if job.adopted:
            return "ended"
    outcome = job.outcome
    if outcome is not None and outcome.signal is not None:
        return f"ended by {visible(outcome.signal)}"
    if job.exit_code is None:
        return "ended: unknown exit code"
    return f"ended: exit code {job.exit_code}"


def started(job: Job, *, sends: bool) -> str:
    """Say that a job was started.

    Args:
        job: The job.
        sends: Whether the job's stdin is open for input.
    """
    pid = "" if job.pid is None else f" (pid {job.pid})"
    return f"Started as job {job.id}{pid}{', its stdin open' if sends else ''}."


def cut(output: Output, job_id: str) -> str:
    """Say that not all output is shown that a command printed before becoming a job."""
    shown = output.total_bytes - output.omitted_bytes
    return f"{shown:,} of {output.total_bytes:,} bytes shown: job, output, id {job_id}, part bytes 0- shows the rest."


def news(entry: LedgerEntry) -> str:
    """Say that a job has ended, in the result of another call."""
    job = entry.job
    message = f"Job {job.id} {ended(job)} after {exact(seconds(job))} s ({command(job.command)}). {left_running(job)}"
    return f"{message}{last_lines(job.outcome)}".rstrip()


def last_lines(outcome: Outcome | None) -> str:
    """Return a sentence with the last lines of a program's output, bounded; empty without text."""
    if outcome is None or outcome.output.binary is not None:
        return ""
    output = outcome.output.text
    lines = [line.strip() for line in output[-4 * LAST_CHARACTERS :].split("\n") if line.strip()][
        -LAST_LINES:
    ]
    shown = " | ".join(visible(line) for line in lines)
    shown = shown if len(shown) <= LAST_CHARACTERS else f"…{shown[-LAST_CHARACTERS:]}"
    return f"Last lines: {shown}" if shown else ""


def left_running(job: Job) -> str:
    """Name the job of a job's left-behind processes, in a sentence with a final space; empty without such a job."""
    if job.outcome is None or job.outcome.job is None:
        return ""
    return f"What it left running is job {job.outcome.job}. "


def listed(entries: Sequence[LedgerEntry]) -> Iterator[str]:
    """Yield a line for each job without a terminal."""
    if len(entries) > LISTED:
        yield f"{len(entries) - LISTED:,} older ones are not listed."
    for entry in entries[-LISTED:]:
        job = entry.job
        how = "runs" if job.status == "running" else ended(job)
        kind = "left by" if job.adopted else f"in {visible(entry.directory)}"
        yield f"{job.id} {how}, {exact(seconds(job))} s, {kind}: {command(job.command)}"


def read(
    entry: LedgerEntry,
    piece: JobOutput,
    *,
    since: int,
    skipped: int,
    lost: int,
    waited: float,
    shown_at_most: int,
    follows: bool,
) -> Iterator[str]:
    """Say the state of a job, and which part of its output is shown.

    Args:
        entry: The job.
        piece: The shown piece of the job's output.
        since: The byte at which the piece was to begin.
        skipped: Bytes before `since` that the model has not seen.
        lost: The number of skipped bytes that are not kept any more.
        waited: Seconds that the call could wait.
        shown_at_most: Bytes that are shown at once.
        follows: Whether a next call would show more output at once.
    """
    job = entry.job
    running = job.status == "running"
    new = "" if piece.data else ", nothing new" if running or piece.total_bytes else ", no output"
    if running and not piece.data and waited:
        new = f", nothing new in {exact(waited)} s"
    if running:
        yield f"Job {job.id} runs, {exact(seconds(job))} s now{new}."
    else:
        yield f"Job {job.id} {ended(job)} after {exact(seconds(job))} s{new}. {left_running(job)}".rstrip()
    if job.notice:
        yield f"{visible(job.notice).rstrip('.')}."
    if piece.omitted_bytes:
        yield f"{piece.omitted_bytes:,} bytes from byte {since:,} on are not kept any more."
    if skipped:
        message = f"{skipped:,} bytes before these are left out"
        if lost < skipped:
            message += (
                f": part bytes {since - skipped + lost}- shows {'those still kept' if lost else 'them'}"
            )
        yield f"{message}."
    if follows:
        end = max(piece.offset, piece.total_bytes - shown_at_most)
        yield f"{piece.total_bytes - piece.offset:,} bytes follow: part bytes {piece.offset}-, or the end, bytes {end}-."


def not_kept(count: int, what: str = "bytes") -> Iterator[str]:
    """Say that some lines or bytes of a partly shown output are not kept, if `count` is not 0."""
    if count:
        yield f"{count:,} {what} are not kept: these are counted without them."


def other(entry: LedgerEntry) -> str:
    """Say the state of a further awaited job, whose output is not shown."""
    job = entry.job
    return (
        f"Job {job.id} runs."
        if not entry.over
        else f"Job {job.id} {ended(job)}. {left_running(job)}".rstrip()
    )


def shortened(output: Output, max_line: int) -> Iterator[str]:
    """Say that a piece is truncated, if it is, and which request shows the rest.

    Args:
        output: The piece.
        max_line: Characters of a line that are shown.
    """
    if output.truncated:
        rest = "ask for a smaller part"
        if output.head_range is None and output.tail_range is None:
            rest = f"part bytes A-B shows {max_line:,} of a line at once"
        yield f"{output.omitted_bytes:,} bytes of these are left out: {rest}."


def stopped(entry: LedgerEntry, *, before: bool) -> str:
    """Say that a job was stopped, or had ended `before`."""
    job = entry.job
    if job.status == "lost":
        return f"Job {job.id} {ended(job)}. Tell the user."
    if before or job.status != "stopped":
        return f"Nothing to stop: job {job.id} {ended(job)}."
    unasked = job.outcome is not None and job.outcome.killed_without_warning
    message = f"Stopped job {job.id} and all it started."
    return (
        f"{message} It was not asked to end first: a file it was writing may be incomplete."
        if unasked
        else message
    )


def sent(job: Job, size: int, *, end: bool, taken: bool) -> str:
    """Say that input was sent to a job.

    Args:
        job: The job.
        size: Bytes of the input.
        end: Whether the job's input was to end afterwards.
        taken: Whether the job has taken all input, rather than input still being on its way.
    """
    what = f"{size:,} bytes" if size != 1 else "1 byte"
    if not taken:
        then = ", then the end of its input" if end else ""
        return f"On its way to job {job.id}: {what}{then}; not all read yet. Do not send it again."
    if not size:
        return f"Ended the input of job {job.id}."
    return f"Sent {what} to job {job.id}{', and ended its input' if end else ''}."


def sent_in_part(problem: str) -> str:
    """Say that a job may have read the beginning of the sent input, and will read no further input."""
    return f"Not all was sent: {visible(problem).rstrip('.')}. See its output before sending any of it again."
