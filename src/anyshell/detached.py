"""Jobs that outlive the process that started them.

A detached job has a session of its own, a log file and a record on its host. The job holds no resource of the starting
process. Only a small ``/bin/sh`` on the host runs for the job: the job's parent, which records the job's end. So the job
survives the environment, the connection and the process that started it, and any later process can find the job again.

A process is identified by its pid, start time, boot and pid namespace together, never by a pid alone. A pid that now belongs
to another process is not signalled, and its job is ``lost``. Machines and containers can share a home: a job of another one
is ``foreign``, and only its written record is known here. The descendants of a job are recognised by an environment variable
that all of them inherit, ``ANYSHELL_JOB_<id>``.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import json
import posixpath
import re
import secrets
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import anyio

from ._answers import LARGEST_PID, Nonsense, fields, real, whole
from ._exceptions import AnyshellError, BackendError, InvalidCommand, JobNotFound, SpawnError
from ._runner import RunOptions, to_command
from ._runner.network import require_none
from ._types import (
    DEFAULT_GRACE,
    Command,
    JobOutput,
    ProcessInfo,
    Spawn,
    check_count,
    check_seconds,
    check_text,
    one_line,
)
from ._waits import outlast
from .backends.collect import collect
from .output import clean, unfinished
from .shells import detached

if TYPE_CHECKING:
    import builtins
    from collections.abc import Mapping, Sequence
    from os import PathLike

    from ._runner.surroundings import Surroundings
    from ._types.checks import Seconds
    from .reach import Reach
    from .shells.words import CommandLike

MOST_JOBS = 1000
"""Jobs that are recorded on a host for one user; one more is not started until some are removed."""

LONGEST_COMMAND = 1000
"""Characters of a command that its record keeps; the job itself is given all of it."""

START_SECONDS = 10.0
"""Seconds for a host to report the start of a job; then the start is an error."""

ANSWER_SECONDS = 20.0
"""Seconds for a host to report the state of its jobs; then the question is an error."""

LONGEST_ANSWER = 16 * 1024 * 1024
"""Bytes of a host's report on its jobs: the records of a thousand jobs many times over; a longer one is an error."""

LONGEST_COMPLAINT = 1000
"""Bytes of the host shells' stderr that a message keeps; the rest is cut."""

LONGEST_READ = 1024 * 1024
"""Bytes of a log that are read at once, unless the caller asks for more."""

KILL_SECONDS = 5.0
"""Seconds for a kill to take effect; after that the living processes are named. A look that has begun by then, and the look that
confirms it, still have the time of an answer each."""

STOP_PAUSE = 0.1
"""Seconds between two looks for the remaining processes of a job that is being stopped."""

PAUSES = (0.05, 0.1, 0.2, 0.4, 0.8)
"""Seconds between two questions while a job is awaited; the last pause repeats."""

DetachedStatus = Literal["running", "completed", "failed", "stopped", "lost", "foreign"]

_ID = re.compile(r"[0-9a-f]{12}\Z")
_PREFIX = re.compile(r"[0-9a-f]{1,12}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class DetachedRecord:
    """The record of a job on its host.

    Attributes:
        id: Twelve hexadecimal digits.
        command: The requested command; at most its first thousand characters.
        host: The name of the host for a person.
        directory: The directory in which the job was started; absolute.
        status: ``running``; ``completed`` with exit code 0; ``failed`` with another; ``stopped`` when the job ended after
            `DetachedJob.stop`; ``lost`` when the job is gone and its end was not recorded: the job was killed together with
            its supervisor, or the host went down; ``foreign`` when the record names another machine or another container with
            the same home and has no end: only that machine or container can tell whether the job runs.
        exit_code: The exit code as the supervisor, a shell, records it: 128 + n when signal n ended the job. ``None`` while
            the code is not known.
        pid: The pid of the job's first process, which leads a session of its own.
        started: The start time, in seconds since the epoch, by the host's clock.
        ended: The end time, likewise; ``None`` while the job runs, and when the job is lost.
        log: The file with the job's whole output, both channels in true order; absolute, on the host.
        log_bytes: The size of the log, in bytes.
    """

    id: str
    command: str
    host: str
    directory: str
    status: DetachedStatus
    exit_code: int | None
    pid: int
    started: float
    ended: float | None
    log: str
    log_bytes: int


class DetachedJob:
    """A job on a host. The properties have the state at the last look; `refresh` looks again."""

    def __init__(self, jobs: DetachedJobs, record: DetachedRecord) -> None:
        self._jobs = jobs
        self._record = record

    @property
    def record(self) -> DetachedRecord:
        """The record of the job at the last look."""
        return self._record

    @property
    def id(self) -> str:
        """The id for `DetachedJobs.get`."""
        return self._record.id

    @property
    def command(self) -> str:
        """The first thousand characters of the command."""
        return self._record.command

    @property
    def host(self) -> str:
        """The name of the job's host for people."""
        return self._record.host

    @property
    def status(self) -> DetachedStatus:
        """``running``, ``completed``, ``failed``, ``stopped``, ``lost`` or ``foreign``: see `DetachedRecord`."""
        return self._record.status

    @property
    def exit_code(self) -> int | None:
        """The exit code of the job; ``None`` while the code is not known."""
        return self._record.exit_code

    @property
    def pid(self) -> int:
        """The pid of the job's first process."""
        return self._record.pid

    @property
    def started(self) -> float:
        """The start time of the job, in seconds since the epoch, by the host's clock."""
        return self._record.started

    @property
    def ended(self) -> float | None:
        """The end time of the job, likewise; ``None`` while the end is not known."""
        return self._record.ended

    async def refresh(self) -> DetachedStatus:
        """Ask the host for the state of the job.

        Raises:
            JobNotFound: The record of the job was removed.
            BackendError: The host does not answer.
        """
        self._record = await self._jobs._find(self.id)
        return self._record.status

    async def output(self, *, since: int = 0, limit: int = LONGEST_READ) -> JobOutput:
        """Read a part of the job's output, from a byte of its log on.

        A reader that goes on at the `offset` of the answer misses nothing and reads nothing twice. A character or an escape
        sequence that is incomplete at the end of the log is left for the next read, unless the job can print nothing more.

        Args:
            since: Bytes to skip; 0 or more. Past the end of the log there is nothing to read.
            limit: Bytes to read at most; 1 or more.

        Raises:
            InvalidCommand: A number is out of its range.
            JobNotFound: The record of the job was removed.
            OSError: The log cannot be read, or is not a regular file any more.
        """
        check_count("since", since, least=0)
        check_count("limit", limit)
        files = self._jobs._environment.files
        over = await self.refresh() != "running"  # first: later output could be missed
        try:
            if (await files.stat(self._record.log, follow=False)).kind != "file":
                raise OSError(
                    errno.EINVAL,
                    "the log is not a file any more: something has taken its place",
                    self._record.log,
                )
            # Not beyond the size at the look: systems differ in the largest offset that they accept.
            size = self._record.log_bytes
            data = await files.read(
                self._record.log, offset=min(since, size), length=min(limit, max(size - since, 0))
            )
        except FileNotFoundError as error:
            raise JobNotFound(f"the log of job {self.id} is gone: {one_line(self._record.log)}") from error
        masks = self._jobs._runner.masks({})
        if len(data) == limit or not over:
            end = len(data) - unfinished(data)
            held = data[: end if masks is None else min(end, masks.begins(data))]
            # Otherwise a line that is longer than the requested bytes would never be returned.
            data = held if held or len(data) < limit else data
        offset = since + len(data)
        data = data if masks is None else masks.data(data)
        return JobOutput(text=clean(data), data=data, offset=offset, total_bytes=size)

    async def wait(self, *, timeout: Seconds | None = None) -> DetachedStatus:
        """Wait for the end of the job, at most `timeout` seconds; ``None`` means no bound.

        Returns:
            The status; ``running`` when the timeout was over. Neither the timeout nor a cancellation affects the job.

        Raises:
            JobNotFound: The record of the job was removed.
            BackendError: The host does not answer.
        """
        timeout = check_seconds("timeout", timeout, zero=True)
        await self.refresh()
        with anyio.move_on_after(timeout):
            for pause in itertools.chain(PAUSES, itertools.repeat(PAUSES[-1])):
                if self.status != "running":
                    break
                await asyncio.sleep(pause)
                await self.refresh()
        return self.status

    async def stop(self, *, grace: Seconds = DEFAULT_GRACE) -> Sequence[ProcessInfo]:
        """Ask all processes of the job to end, kill the survivors after the grace period, and verify that they are gone.

        The processes of the job are its session, the processes with its mark, their descendants, and the processes that an
        earlier look has recognised. The host compares the start time of each process right before it is signalled.

        Args:
            grace: Seconds between the request to end and the kill; 0 or more. Over as soon as all processes are gone.

        Returns:
            The processes that could not be ended, such as another user's; usually none.

        Raises:
            JobNotFound: The record of the job was removed.
            BackendError: The host does not answer; the request may have been carried out. Or the host has no room to record
                the processes that must be ended; with a grace of 0 no room is needed. Or the job belongs to another machine
                or container.
        """
        grace = check_seconds("grace", grace, zero=True, none=False)
        if grace > 0:
            with anyio.move_on_after(grace):
                alive = await self._signal("TERM")
                while alive:
                    await asyncio.sleep(STOP_PAUSE)
                    alive = await self._signal("0")
        give_up = anyio.current_time() + KILL_SECONDS
        # One look can miss a process that forks all the time. Each look has the time of an answer, also on a slow host.
        while alive := await self._signal("KILL") or await self._signal("KILL"):
            if anyio.current_time() > give_up:
                break
            await asyncio.sleep(STOP_PAUSE)
        # The supervisor records the end a moment later.
        await self.wait(timeout=PAUSES[-1])
        return alive

    async def _signal(self, name: str) -> Sequence[ProcessInfo]:
        return await self._jobs._signal(self.id, name)


class DetachedJobs:
    """The detached jobs of one user on one host.

    The jobs are in ``~/.local/state/anyshell/jobs`` on the host, or below its ``$ANYSHELL_STATE_DIR`` or ``$XDG_STATE_HOME``:
    a directory for each job, which only the user can enter. A directory that is a link or another user's is refused; for a
    start, so is a directory that others can write to. Other files in the directory are left alone.

    Args:
        environment: The host, the shell and the directory for new jobs. The environment may be closed before the jobs end.
        directory: Another directory of the jobs; absolute, on the host.

    Raises:
        InvalidCommand: A directory that is not absolute, or a Windows host, which has no detached jobs.
    """

    def __init__(self, environment: Surroundings, *, directory: str | None = None) -> None:
        if environment.runner.info.os == "windows":
            raise InvalidCommand(
                "there are no detached jobs on Windows: start the job without detach, to run as long as its "
                "environment is open, or have Windows' task scheduler run it"
            )
        if directory is not None:
            check_text("directory", directory)
            if not posixpath.isabs(directory) or "\n" in directory:
                raise InvalidCommand(f"directory {directory!r} must be absolute, and without line feeds")
        self._environment = environment
        self._runner = environment.runner
        self._directory = directory

    async def start(
        self,
        command: CommandLike,
        *,
        cwd: str | PathLike[str] | None = None,
        env: Mapping[str, str | None] | None = None,
        reach: Reach | None = None,
    ) -> DetachedJob:
        """Start a job that goes on when this process ends. The job's stdin is at end-of-file; its output goes to its log.

        Args:
            command: Text in the shell's own language, of any size; or a list of a program and its arguments, or `sh`: the
                words of a list or `sh` are quoted for the shell.
            cwd: The directory in which the job runs; relative to the environment's directory. Must exist.
            env: Variables set over everything else; ``None`` as a value removes a variable. The variables are in no record
                and no command line. Names that begin with ``ANYSHELL_JOB_``, ``ANYSHELL_MARK_`` or ``ANYSHELL_REMOTE_`` are
                anyshell's own and do not reach the job.
            reach: As for `Environment.run`.

        Raises:
            InvalidCommand: Bad input; nothing was started.
            SpawnError: The job could not be started; the message says why.
            BackendError: The host did not report the start in time; `list` tells whether the job runs, once the host answers
                again.
            asyncio.CancelledError: The call was cancelled; the job has been stopped.
        """
        request = to_command(command, cwd, env, kind=self._runner.shell.kind)
        request = await self._runner.addresses.expand(request, lasting=True)
        work = asyncio.ensure_future(self._start(request, RunOptions(reach=reach)))
        cancelled = await outlast(work, lambda: None)
        if cancelled is not None:
            if work.exception() is None:
                stopping = asyncio.ensure_future(work.result().stop(grace=0))
                await outlast(stopping, lambda: None)
                stopping.exception()  # the exception is read; the record of the job has its state
            raise cancelled
        return work.result()

    async def list(self) -> builtins.list[DetachedJob]:
        """Return every recorded job, the newest first; at most `MOST_JOBS`.

        Raises:
            BackendError: The host does not answer, or the directory of jobs cannot be used.
        """
        return [DetachedJob(self, record) for record in await self._list()]

    async def get(self, id_: str) -> DetachedJob:
        """Find a job by its id, or by a unique beginning of the id.

        Raises:
            InvalidCommand: The id is not text.
            JobNotFound: No job has the id, or more than one job does; the message says which.
            BackendError: The host does not answer.
        """
        check_text("the id of a job", id_)
        return DetachedJob(self, await self._find(id_))

    async def prune(self, *, older_than: Seconds = 0.0) -> builtins.list[str]:
        """Remove the records and logs of jobs that have ended or are lost.

        A job that runs is never removed, nor one that has ended and left a running process, as far as the host can tell: that
        process could not be stopped any more. `DetachedJob.stop` ends such processes. Nor is a job of another machine or
        container: prune there.

        Args:
            older_than: Seconds since the end of a job, or since the start of a lost job, before removal; 0 or more. A job
                with an unreadable record is older than any bound.

        Returns:
            The ids of the removed jobs.

        Raises:
            BackendError: The host does not answer.
        """
        since = check_seconds("older_than", older_than, zero=True, none=False)
        lines = await self._look("list")
        now = real("the clock", lines[-1].removeprefix("over "))
        old = [
            record.id
            for record in self._records(lines)
            if record.status not in ("running", "foreign") and now - (record.ended or record.started) >= since
        ]
        # A start that was killed leaves no record. The host removes a directory that has had no record for a day.
        bare = [line.removeprefix("bare ") for line in lines if line.startswith("bare ")]
        asked = [*old, *filter(_ID.match, bare)]
        answer = await self._look("remove", *asked) if asked else []
        return [each for line in answer if (each := line.removeprefix("removed ")) != line and each in asked]

    async def _start(self, request: Command, options: RunOptions) -> DetachedJob:
        directory = self._directory
        if directory is None and not detached.PLACES.isdisjoint(request.env):
            directory = _directory(await self._look("list", "0" * 12))
        spawn = self._runner.spawn_of(request, options)
        require_none(spawn, "a detached job")
        id_ = secrets.token_hex(6)
        asked = json.dumps({"command": _cut(request.text), "directory": spawn.cwd})
        argv = detached.start(
            spawn.argv,
            directory=directory,
            id_=id_,
            most=MOST_JOBS,
            script=spawn.script is not None,
            request=asked,
        )
        async with self._runner.addresses.placed(request.text):
            answer = await self._ask(replace(spawn, argv=argv), START_SECONDS, starts=id_)
        for line in answer.lines:
            if line.startswith("started ") and line.endswith(f"/{id_}"):
                _, pid, started, place = fields("a job", line, 4)
                break
            if line.startswith("error "):
                wrong = one_line(line.removeprefix("error "))
                raise SpawnError(f"the job could not be started on {self._runner.host}: {wrong}")
        else:
            # A server may close the channel when the program that it knows has ended, before the report of the job's
            # shell.
            for pause in PAUSES:
                with contextlib.suppress(BackendError):
                    if found := await self._list(id_):
                        return DetachedJob(self, found[0])
                await asyncio.sleep(pause)
            raise BackendError(_unknown(id_, self._runner.host) + answer.complaint)
        told = f"{id_} running - - 0 0 {pid} {started} {asked}"
        return DetachedJob(self, _read(told, posixpath.dirname(place), self._runner.host))

    async def _find(self, id_: str) -> DetachedRecord:
        if not _PREFIX.match(id_):
            raise JobNotFound(f"{id_!r} is not an id of a job: give hexadecimal digits, as 'list' shows them")
        found = await self._list(id_)
        if len(found) == 1:
            return found[0]
        if found:
            raise JobNotFound(f"{id_} is the beginning of {len(found)} jobs: give more of it")
        raise JobNotFound(f"there is no job {id_} on {self._runner.host}: 'list' shows the jobs of the host")

    async def _list(self, *prefix: str) -> builtins.list[DetachedRecord]:
        return self._records(await self._look("list", *prefix))

    def _records(self, lines: Sequence[str]) -> builtins.list[DetachedRecord]:
        directory = _directory(lines)
        found = [
            _read(line.removeprefix("job "), directory, self._runner.host)
            for line in lines
            if line.startswith("job ")
        ]
        return sorted(found, key=lambda record: (record.started, record.id), reverse=True)

    async def _signal(self, id_: str, name: str) -> builtins.list[ProcessInfo]:
        lines = await self._look("signal", name, id_)
        named = [fields("a process", line, 4)[1:] for line in lines if line.startswith("process ")]
        return [
            ProcessInfo(
                whole("a pid", pid, 0, LARGEST_PID),
                one_line(name),
                float(whole("a start", began)) if began.isdigit() else 0.0,
            )
            for pid, began, name in named
        ]

    async def _look(self, verb: detached.Verb, *arguments: str) -> builtins.list[str]:
        argv = detached.look(verb, *arguments, directory=self._directory)
        answer = await self._ask(Spawn(argv=argv, cwd="/"), ANSWER_SECONDS)
        lines = answer.lines
        if not lines or not lines[-1].startswith("over "):
            errors = (one_line(line.removeprefix("error ")) for line in lines if line.startswith("error "))
            wrong = next(errors, None)
            raise BackendError(
                f"the jobs of {self._runner.host} cannot be listed: "
                f"{wrong or 'it did not answer to the end' + answer.complaint}"
            )
        return lines

    async def _ask(self, spawn: Spawn, seconds: float, *, starts: str | None = None) -> _Answer:
        """Run one of anyshell's own programs on the host and return the printed lines."""
        if self._runner.closed:
            raise AnyshellError("this environment is closed: it starts nothing more")
        # Split channels: a shell may print a complaint, such as about a variable of the caller, and still do the request.
        split = replace(spawn, split_stderr=True)
        try:
            # Where no shell could close the life pipe, the job still holds the pipe, and must not be stopped.
            status, out, err = await collect(
                self._runner.backend,
                split,
                seconds=seconds,
                most=LONGEST_ANSWER + 1,
                release=starts is not None,
            )
        except TimeoutError as error:
            if starts is not None:
                raise BackendError(_unknown(starts, self._runner.host)) from error
            raise BackendError(f"{self._runner.host} did not answer within {seconds:g} s") from error
        if status is None:
            raise BackendError(
                f"the answer of the host is longer than {LONGEST_ANSWER} bytes; remove jobs: prune"
            )
        lines = out.decode("utf-8", "surrogateescape").split("\n")[:-1]
        said = err[:LONGEST_COMPLAINT]
        return _Answer(lines, one_line(clean(said).strip().replace("\n", "; ")))


@dataclass(frozen=True, slots=True)
class _Answer:
    """The answer of one of anyshell's own programs: whole lines, and the beginning of its stderr."""

    lines: list[str]
    said: str

    @property
    def complaint(self) -> str:
        """The end of an error message about the answer."""
        return f"; it said: {self.said}" if self.said else ""


def _directory(lines: Sequence[str]) -> str:
    for line in lines:
        if line.startswith("directory "):
            return line.removeprefix("directory ")
    raise Nonsense("the directory of jobs", "")


def _read(line: str, directory: str, host: str) -> DetachedRecord:
    """Parse the line that ``list`` of ``look.sh`` prints for a job.

    Raises:
        Nonsense: The line has another form.
    """
    id_, state, code, ended, stopped, size, pid, started, asked = fields("a job", line, 9)
    if _ID.match(id_) is None:
        raise Nonsense("the id of a job", id_)
    request = _request(asked)
    exit_code = whole("an exit code", code, 0, 2**32 - 1) if code.isdigit() else None
    status: DetachedStatus
    if state == "running" or state == "foreign":
        status = "running" if state == "running" else "foreign"
    elif state != "ended":
        status = "lost"
    elif stopped == "1":
        status = "stopped"
    else:
        status = "completed" if exit_code == 0 else "failed"
    return DetachedRecord(
        id=id_,
        command=request["command"],
        host=host,
        directory=request["directory"],
        status=status,
        exit_code=exit_code,
        pid=whole("a pid", pid, 0, LARGEST_PID),
        started=real("a start", started),
        ended=real("an end", ended) if ended.isdigit() else None,
        log=posixpath.join(directory, id_, "log"),
        log_bytes=whole("a size", size),
    )


def _request(asked: str) -> dict[str, str]:
    """Parse the request of a record. A record that a full disk has cut still names its processes."""
    try:
        request = json.loads(asked)
        return {name: str(request[name]) for name in ("command", "directory")}
    except (ValueError, LookupError, TypeError, RecursionError):
        return {"command": "(not readable)", "directory": ""}


def _cut(command: str) -> str:
    return command if len(command) <= LONGEST_COMMAND else f"{command[:LONGEST_COMMAND]}…"


def _unknown(id_: str, host: str) -> str:
    return f"{host} did not say whether job {id_} was started; 'anyshell jobs show {id_}' tells, when it can be asked"
