"""``anyshell run --background``: a command that is started as a job."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from ...._exceptions import AnyshellError
from ...failure import Failure
from ...host.jobs import with_jobs
from ...host.reach import Target
from ...options import command_text

if TYPE_CHECKING:
    from .... import Environment
    from ...._environment import Detection
    from ....types import DetachedJob, DetachedJobs
    from .request import RunRequest


def start(request: RunRequest) -> None:
    """Start a job, and print the id of the job, as ``anyshell run --background`` does."""
    from ...printing import mention, print_json

    async def work(jobs: DetachedJobs, env: Environment) -> None:
        job = await jobs.start(command_text(request.command, env), env=dict(request.variables))
        at = "" if request.host is None else f" --host {request.host}"
        try:
            if request.as_json:
                print_json(job.record)
                return
            click.echo(job.id)
        except OSError as error:
            said = f"cannot write to stdout: {error.strerror}; {await _end(job, at)}"
            if isinstance(error, BrokenPipeError):
                mention(said)
                raise
            raise Failure(said) from error
        if sys.stderr.isatty() and not request.quiet:
            mention(
                f"to see it: anyshell jobs tail{at} -f {job.id}; to end it: anyshell jobs stop{at} {job.id}"
            )

    def detect() -> Detection[Environment]:
        return request.detect(Target(request.host), artifacts=None)

    with_jobs(detect, work, quiet=request.quiet)


async def _end(job: DetachedJob, at: str) -> str:
    """Stop a job whose id was not printed, and return the result in words."""
    try:
        alive = await job.stop(grace=0)
    except AnyshellError as error:
        return f"job {job.id} may still run ({error}); to end it: anyshell jobs stop{at} {job.id}"
    if alive:
        return f"not all of job {job.id} could be stopped; to try it again: anyshell jobs stop{at} {job.id}"
    return f"job {job.id} was stopped"
