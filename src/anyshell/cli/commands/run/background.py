"""``anyshell run --background``: a command that is started as a job."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from ...._exceptions import AnyshellError
from ...failure import Failure
from ...host.jobs import with_jobs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .... import DetachedJob, DetachedJobs, Environment


def start(
    host: str | None,
    text: Callable[[Environment], str],
    *,
    shell: str | None,
    cwd: str | None,
    variables: Mapping[str, str],
    interactive: bool,
    snapshot: bool,
    prefix: str | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Start a job, and print its id: what ``anyshell run --background`` does."""
    from ...printing import mention, print_json

    async def work(jobs: DetachedJobs, env: Environment) -> None:
        job = await jobs.start(text(env), env=variables)
        at = "" if host is None else f" --host {host}"
        try:
            if as_json:
                print_json(job.record)
                return
            click.echo(job.id)
        except OSError as error:
            said = f"cannot write to stdout: {error.strerror}; {await _end(job, at)}"
            if isinstance(error, BrokenPipeError):
                mention(f"anyshell: {said}")
                raise
            raise Failure(said) from error
        if sys.stderr.isatty() and not quiet:
            mention(
                f"anyshell: to see it: anyshell jobs tail{at} -f {job.id}; to end it: anyshell jobs stop{at} {job.id}"
            )

    with_jobs(
        host,
        work,
        shell=shell,
        cwd=cwd,
        interactive=interactive,
        snapshot=snapshot,
        prefix=prefix,
        quiet=quiet,
    )


async def _end(job: DetachedJob, at: str) -> str:
    """Stop a job whose id was not printed, and say what became of the job."""
    try:
        alive = await job.stop(grace=0)
    except AnyshellError as error:
        return f"job {job.id} may still run ({error}); to end it: anyshell jobs stop{at} {job.id}"
    if alive:
        return f"not all of job {job.id} could be stopped; to try it again: anyshell jobs stop{at} {job.id}"
    return f"job {job.id} was stopped"
