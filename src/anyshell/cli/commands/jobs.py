"""``anyshell jobs``: jobs that outlive the process that started them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from ..._exceptions import JobNotFound
from ..._types import DEFAULT_GRACE
from ..failure import CommandGroup, Failure
from ..host.jobs import with_jobs
from ..host.reach import Target
from ..options import Duration, WholeNumber, host_option, is_elsewhere, json_option
from ..printing import ago

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ... import Environment
    from ..._environment import Detection
    from ...types import DetachedJob, DetachedJobs, DetachedRecord

_TAIL = 64 * 1024
"""Bytes from the end of a job's log that `jobs tail` shows by default."""

_FOLLOW_SECONDS = 0.2
"""Seconds between two checks of `jobs tail --follow` for new output."""

_COMMAND_WIDTH = 60
"""Characters of a command in `jobs list`; the rest is cut."""


class NoJob(Failure):
    """The answer that a job does not exist. anyshell itself has not failed, so the exit code is 1, as of grep."""

    exit_code = 1


class NotStopped(Failure):
    """The answer that a process of a job still runs, such as another user's process."""

    exit_code = 1


@click.group(cls=CommandGroup, short_help="List, show, follow, stop and remove jobs in the background.")
def jobs() -> None:
    """List, show, follow, stop and remove the jobs of 'anyshell run --background'.

    A job outlives anyshell and the connection to its host. Its record and its log are on its host, below $ANYSHELL_STATE_DIR,
    or else in ~/.local/state/anyshell/jobs, until 'jobs prune' removes them. ID is the id of a job, or a beginning of it that
    no other id has.

    \b
    Examples:
      anyshell run --background -- npm run dev
      anyshell jobs list
    """  # noqa: D301 - click's own mark: a paragraph that keeps its lines


def _complete_id(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    if is_elsewhere(ctx):
        return []
    found: list[DetachedRecord] = []

    async def look(jobs: DetachedJobs) -> None:
        found.extend(job.record for job in await jobs.list())

    _perform(None, look)
    return [
        CompletionItem(record.id, help=f"{record.status}: {_first_line(record.command)}")
        for record in found
        if record.id.startswith(incomplete)
    ]


@jobs.command("list", short_help="List the jobs of a host, the newest first.")
@host_option
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array with one object per entry.")
def list_(*, host: str | None, as_json: bool) -> None:
    """List the jobs of a host, the newest first: id, status, size of the log, age, command.

    \b
    Examples:
      anyshell jobs list
      anyshell jobs list --host web-1
      anyshell jobs list --json | jq -r '.[] | select(.status == "running").id'
    \b
    Exit code:
      0      also when there is no job
      125    anyshell itself failed, or the host cannot be reached
      128+n  signal n ended it
    """  # noqa: D301 - click's own mark: a paragraph that keeps its lines
    from ..printing import print_json, size

    async def work(jobs: DetachedJobs) -> None:
        records = [job.record for job in await jobs.list()]
        if as_json:
            print_json(records)
            return
        for record in records:
            click.echo(
                f"{record.id}  {record.status:<9}  {size(record.log_bytes):>10}  "
                f"{ago(time.time() - record.started):>7}  {_first_line(record.command)}"
            )

    _perform(host, work)


@jobs.command(short_help="Show every fact of one job.")
@host_option
@json_option
@click.argument("id_", metavar="ID", shell_complete=_complete_id)
def show(*, host: str | None, as_json: bool, id_: str) -> None:
    """Show every fact of one job.

    \b
    Examples:
      anyshell jobs show 3f1c
      anyshell jobs show 3f1c --json | jq .exit_code
    \b
    Exit code:
      0      it was shown
      1      there is no such job
      125    anyshell itself failed, or the host cannot be reached
      128+n  signal n ended it
    """  # noqa: D301 - click's own mark: a paragraph that keeps its lines
    from ..printing import print_json, print_table, size

    async def work(jobs: DetachedJobs) -> None:
        record = (await jobs.get(id_)).record
        if as_json:
            print_json(record)
            return
        code = "" if record.exit_code is None else f" (exit code {record.exit_code})"
        print_table(
            [
                ("id", record.id),
                ("command", record.command),
                ("host", record.host),
                ("directory", record.directory),
                ("status", record.status + code),
                ("pid", str(record.pid)),
                ("started", _moment(record.started)),
                ("ended", "" if record.ended is None else _moment(record.ended)),
                ("log", f"{record.log} ({size(record.log_bytes)})"),
            ]
        )

    _perform(host, work)


@jobs.command(short_help="Write the output of a job to stdout, byte for byte.")
@host_option
@click.option("-f", "--follow", is_flag=True, help="Go on until the job has ended.")
@click.option(
    "--since",
    type=WholeNumber(),
    metavar="OFFSET",
    help="Skip this many bytes first; 0 shows everything. Default: the last 64 KiB.",
)
@click.argument("id_", metavar="ID", shell_complete=_complete_id)
def tail(*, host: str | None, follow: bool, since: int | None, id_: str) -> None:
    """Write the output of a job to stdout, byte for byte: the job's stdout and stderr in true order.

    stderr says how many bytes were left out, and the offset to read on from, so that nothing is lost or repeated. The job
    runs on when you stop following.

    \b
    Examples:
      anyshell jobs tail 3f1c
      anyshell jobs tail --follow 3f1c
      anyshell jobs tail --since 81920 3f1c
    \b
    Exit code:
      0      it was written
      1      there is no such job
      125    anyshell itself failed, or the host cannot be reached
      128+n  signal n ended it (141: the reader of stdout went away)
    """  # noqa: D301 - click's own mark: a paragraph that keeps its lines

    async def work(jobs: DetachedJobs) -> None:
        await _tail(await jobs.get(id_), since, follow=follow)

    _perform(host, work)


async def _tail(job: DetachedJob, since: int | None, *, follow: bool) -> None:
    import asyncio

    from ..printing import mention
    from ..process.descriptors import DescriptorWriter, watch_peer

    if since is None:
        since = max(0, job.record.log_bytes - _TAIL)
        if since:
            mention(f"{since} bytes before are left out; --since 0 shows all")
    # Without --follow, the output up to this offset is enough: a job may write faster than it can be read.
    end = job.record.log_bytes
    stdout = DescriptorWriter(1)
    task = asyncio.current_task()
    gone = False

    def desert() -> None:
        nonlocal gone
        gone = True
        if task is not None:
            task.cancel()

    watch_peer(1, desert)
    try:
        while stdout.error is None:
            output = await job.output(since=since)
            await stdout.write(output.data)
            since = output.offset
            if output.data and since < (output.total_bytes if follow else end):
                continue
            if not follow or job.status != "running":
                break
            if not output.data:
                await asyncio.sleep(_FOLLOW_SECONDS)
    except asyncio.CancelledError:
        if not gone:
            raise
    finally:
        stdout.close()
    if gone or isinstance(stdout.error, BrokenPipeError):
        raise BrokenPipeError
    if stdout.error is not None:
        raise Failure(f"cannot write to stdout: {stdout.error.strerror}")
    if job.status == "running":
        mention(f"the job runs; to read on: --since {since}")


@jobs.command(short_help="Stop a job and its processes.")
@host_option
@click.option(
    "--grace",
    type=Duration(zero=True),
    default=DEFAULT_GRACE,
    show_default=True,
    help="Time for the job to end by itself, before it is killed.",
)
@click.argument("id_", metavar="ID", shell_complete=_complete_id)
def stop(*, host: str | None, grace: float, id_: str) -> None:
    """Stop a job and its processes, and verify that they are gone.

    The record and the log of the job stay. A job that has already ended is not an error.

    \b
    Examples:
      anyshell jobs stop 3f1c
      anyshell jobs stop --grace 0 3f1c
    \b
    Exit code:
      0      no process of the job is alive
      1      there is no such job, or a process of the job could not be stopped
      125    anyshell itself failed, or the host cannot be reached
      128+n  signal n ended it
    """  # noqa: D301 - click's own mark: a paragraph that keeps its lines
    from ..printing import mention, printable

    async def work(jobs: DetachedJobs) -> None:
        job = await jobs.get(id_)
        alive = await job.stop(grace=grace)
        if alive:
            named = ", ".join(f"{printable(info.name)} (pid {info.pid})" for info in alive)
            raise NotStopped(f"processes of job {job.id} still run: {named}")
        mention(f"{job.id} {job.status}")

    _perform(host, work)


@jobs.command(short_help="Remove the records and logs of jobs that have ended.")
@host_option
@click.option(
    "--older-than",
    type=Duration(zero=True),
    help="Only jobs that ended at least this long ago: seconds, or 30m, 12h, 7d.",
)
def prune(*, host: str | None, older_than: float | None) -> None:
    """Remove the records and logs of jobs that have ended or are lost; never of a running job.

    The ids of the removed jobs are printed.

    \b
    Examples:
      anyshell jobs prune
      anyshell jobs prune --older-than 7d --host web-1
    \b
    Exit code:
      0      also when there was nothing to remove
      125    anyshell itself failed, or the host cannot be reached
      128+n  signal n ended it
    """  # noqa: D301 - click's own mark: a paragraph that keeps its lines
    from ..printing import mention

    async def work(jobs: DetachedJobs) -> None:
        removed = await jobs.prune(older_than=older_than or 0)
        for id_ in removed:
            click.echo(id_)
        mention(f"{len(removed)} removed")

    _perform(host, work)


def _perform(host: str | None, work: Callable[[DetachedJobs], Awaitable[None]]) -> None:
    """Call `work` with the jobs of a host."""

    async def only_with_jobs(jobs: DetachedJobs, _: Environment) -> None:
        try:
            await work(jobs)
        except JobNotFound as error:
            raise NoJob(str(error)) from error

    def detect() -> Detection[Environment]:
        from ... import Environment

        return Environment.detect(Target(host).options, artifacts=None)

    with_jobs(detect, only_with_jobs)


def _first_line(command: str) -> str:
    from ..printing import printable

    line, more, _ = command.strip().partition("\n")
    return printable(f"{line[:_COMMAND_WIDTH]}…" if more or len(line) > _COMMAND_WIDTH else line)


def _moment(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
