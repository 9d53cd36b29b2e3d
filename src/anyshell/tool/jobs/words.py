"""What a model reads of jobs. Every sentence is one line and says what to do next; none invites to ask again."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ..._types import exact
from ...policy import visible
from ..words import LATER

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..._types import JobOutput, Output
    from ...jobs import Job
    from .ledger import Entry

UNSENT = "Cancelled on request, before it was sent: the job has read nothing of it. Do not send it again unless asked to."

SHOWN_COMMAND = 100
"""Characters of a job's command, in a sentence about the job."""

LISTED = 50
"""Jobs that are listed one by one, the newest; of the rest, only the number is said."""


def command(job: Job) -> str:
    """A job's command on one line, cut."""
    text = " ".join(job.command[: 4 * SHOWN_COMMAND].split())
    return visible(text if len(text) <= SHOWN_COMMAND else f"{text[:SHOWN_COMMAND]}…")


def seconds(job: Job) -> float:
    """For how long it has run, or ran."""
    return max(0.0, round(((job.ended or datetime.now(UTC)) - job.started).total_seconds(), 1))


def ended(job: Job) -> str:
    """How a job has ended: the rest of a sentence that begins with the job."""
    match job.status:
        case "stopped":
            return "was stopped"
        case "timed_out" if job.outcome is not None and job.outcome.silence is not None:
            return f"was stopped because it had printed nothing, and was sent nothing, for {exact(job.outcome.silence)} s"
        case "timed_out":
            return "was stopped because its timeout was over"
        case "lost":
            return "is lost: how it ended, or whether, is not known"
        case _ if job.adopted:
            return "has ended"
    outcome = job.outcome
    if outcome is not None and outcome.signal is not None:
        return f"was ended by {visible(outcome.signal)}"
    if job.exit_code is None:
        return "has ended, with an unknown exit code"
    return f"has ended with exit code {job.exit_code}"


def started(job: Job, *, sends: bool, label: str = "") -> str:
    """Say that a job was started.

    Args:
        job: The job.
        sends: Whether it can be sent input.
        label: The model's own words for it; empty when it has given none.
    """
    message = f"Started in the background as job {job.id}"
    if job.pid is not None:
        message += f" (pid {job.pid})"
    if label:
        message += f": {visible(label).rstrip('.')}"
    message += ". Read what it prints with the tool job, which also stops it"
    if sends:
        message += " and sends it input: its stdin is open"
    return f"{message}. {LATER}"


def cut(output: Output, job_id: str) -> str:
    """Say that of what a job has printed before it was one not all is shown."""
    return (
        f"Shown are {output.total_bytes - output.omitted_bytes:,} of the {output.total_bytes:,} bytes so far: to read "
        f'the rest, use the tool job: action "output", id "{job_id}", offset 0.'
    )


def news(entry: Entry) -> str:
    """Say that a job has ended, with the result of something else."""
    job = entry.job
    message = f"Meanwhile job {job.id} {ended(job)}, after {exact(seconds(job))} s: {command(job)}"
    return f'{message}. {left(job)}To read its output, use the tool job: action "output", id "{job.id}".'


def left(job: Job) -> str:
    """Say what it has left behind: nothing, or a sentence and a space."""
    if job.outcome is None or job.outcome.job is None:
        return ""
    return f"What it left running is job {job.outcome.job}. "


def listed(entries: Sequence[Entry]) -> Iterator[str]:
    """Say which jobs there are."""
    if not entries:
        yield "There are no jobs. The shell tool starts one when background is true."
        return
    if len(entries) > LISTED:
        yield f"{len(entries) - LISTED:,} older ones are not listed."
    for entry in entries[-LISTED:]:
        job = entry.job
        how = "is running" if job.status == "running" else ended(job)
        kind = "left behind by" if job.adopted else "in"
        where = "" if job.adopted else f" {visible(entry.directory)}"
        pid = "" if job.pid is None or job.status != "running" else f" (pid {job.pid})"
        yield f"Job {job.id}{pid} {how}, {exact(seconds(job))} s, {kind}{where}: {command(job)}"
    if any(entry.job.status == "running" for entry in entries):
        yield "Do not list them to learn of an end: the next result after it says so."


def read(
    entry: Entry,
    piece: JobOutput,
    *,
    since: int,
    skipped: int,
    waited: float,
    shown_at_most: int,
    follows: bool,
) -> Iterator[str]:
    """Say how a job is, and what of its output is shown.

    Args:
        entry: The job.
        piece: What is shown of its output.
        since: The byte that was asked for.
        skipped: Bytes before `since` that the model has not seen.
        waited: Seconds that could be waited.
        shown_at_most: Bytes that are shown at once.
        follows: Whether more can be shown at once, after the piece.
    """
    job = entry.job
    first = piece.offset - len(piece.data)
    more = piece.total_bytes - piece.offset
    running = job.status == "running"
    shown = " that can be shown" if more else ""
    if running:
        yield f"Job {job.id} is running, for {exact(seconds(job))} s now."
    else:
        yield f"Job {job.id} {ended(job)}, after {exact(seconds(job))} s. {left(job)}".rstrip()
    if job.notice:
        yield f"{visible(job.notice).rstrip('.')}."
    if piece.omitted_bytes:
        yield f"{piece.omitted_bytes:,} bytes from byte {since} on are not kept any more."
    if skipped:
        yield f"{skipped:,} bytes before these were not shown: give offset {since - skipped} to read them."
    if piece.data:
        yield f"Shown are bytes {first} to {piece.offset} of {piece.total_bytes}."
    elif running and waited:
        yield f"It has printed nothing new{shown} in {exact(waited)} s."
    elif running:
        yield f"It has printed nothing new{shown}."
    elif not more:
        yield "That is all of its output."
    if follows:
        yield (
            f"More follows: go on with offset {piece.offset}, or see the end alone with offset "
            f"{max(piece.offset, piece.total_bytes - shown_at_most)}."
        )
    elif running and waited:
        yield LATER
    elif running:
        yield f"Asking again at once shows nothing new: give wait to be told what comes. {LATER}"


def other(entry: Entry) -> str:
    """Say how a job is that was waited for as well, while the output of another is shown."""
    job = entry.job
    if not entry.over:
        return f"Job {job.id} is running."
    return f'Job {job.id} {ended(job)}. {left(job)}To read its output, give id "{job.id}".'


def shortened(output: Output, max_line: int) -> str:
    """Say that of a piece not all is shown."""
    return (
        f"Of these, {output.omitted_bytes:,} bytes are left out, since lines are cut after {max_line:,} characters and "
        "what cannot be read takes more room: to see them, let the job print shorter lines, or into a file."
    )


def clamped(requested: float, waited: float) -> str:
    """Say that it was not waited for so long."""
    return f"One call waits {exact(waited)} s at most, not {exact(requested)} s."


def stopped(job: Job, *, before: bool) -> str:
    """Say that a job was stopped.

    Args:
        job: The job.
        before: Whether it had ended before.
    """
    if before:
        return f"Nothing was to be done: job {job.id} {ended(job)} before."
    if job.status == "lost":
        return f"Job {job.id} could not be seen to end: the host went away, or something of it still lives. Tell the user."
    if job.status != "stopped":
        return f"Job {job.id} {ended(job)} before it could be stopped. What it printed can still be read."
    unasked = job.outcome is not None and job.outcome.killed_without_warning
    return (
        f"Job {job.id} was stopped, with everything that it started."
        f"{' It could not be asked to end first: what it was writing may be incomplete.' if unasked else ''}"
        " What it printed can still be read."
    )


def sent(job: Job, size: int, *, end: bool, taken: bool) -> str:
    """Say that a job was sent something.

    Args:
        job: The job.
        size: Bytes of that.
        end: Whether its input was to end then.
        taken: Whether all of that is done, rather than on its way.
    """
    what = f"{size:,} bytes" if size != 1 else "1 byte"
    if not taken:
        message = f"On its way to job {job.id}: {what}; not all read yet"
        message += ", and its input ends after them" if end else ""
        return f'{message}. Do not send it again. See what the job does with action "output" and wait, or stop it.'
    message = f"Sent {what} to job {job.id}" if size else f"Nothing was sent to job {job.id}"
    message += ", and ended its input" if end else ""
    return f'{message}. See what it answers with action "output" and wait.'


def sent_in_part(problem: str) -> str:
    """Say that a job may have read the beginning of what it was sent, and will read no more."""
    message = f"Not all was sent: {visible(problem).rstrip('.')}"
    return f'{message}. Look at its output, with action "output", before sending any of it again.'
