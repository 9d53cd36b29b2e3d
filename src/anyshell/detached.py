"""Jobs that outlive the process that started them.

A detached job has a session of its own, a log file and a record on its host. It holds nothing of that process, and
nothing runs for it but a small ``/bin/sh`` there, its parent, which writes down how it ended. So it survives the
environment, the connection and the process that started it, and any later process finds it again.

A process is known by its pid, its start, the boot and the pid namespace together, never by a pid alone: a pid that has come
to mean another process is not signalled, and its job is ``lost``. A home can be shared by machines and containers: a job
of another one is ``foreign``, and only what it has written down is known of it here. What a job starts is known by a variable in the environment that
everything inherits, ``ANYSHELL_JOB_<id>``.
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
"""Seconds for a host to say that a job was started."""

ANSWER_SECONDS = 20.0
"""Seconds for a host to say how its jobs are."""

LONGEST_ANSWER = 16 * 1024 * 1024
"""Bytes of that answer: the records of a thousand jobs many times over."""

LONGEST_COMPLAINT = 1000
"""Bytes of what a host's shells say on stderr that a message keeps."""

LONGEST_READ = 1024 * 1024
"""Bytes of a log that are read at once, unless more are asked for."""

KILL_SECONDS = 5.0
"""Seconds in which a kill must be seen to have worked; after that the living processes are named."""

STOP_PAUSE = 0.1
"""Seconds between two looks for the remaining processes of a job that is being stopped."""

PAUSES = (0.05, 0.1, 0.2, 0.4, 0.8)
"""Seconds between two questions for a job that is waited for; the last one repeats."""

DetachedStatus = Literal["running", "completed", "failed", "stopped", "lost", "foreign"]

_ID = re.compile(r"[0-9a-f]{12}\Z")
_PREFIX = re.compile(r"[0-9a-f]{1,12}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class DetachedRecord:
    """The record of a job on its host.

    Attributes:
        id: Twelve hexadecimal digits.
        command: The requested command; its first thousand characters.
        host: The name of the host for a person.
        directory: The directory in which it was started; absolute.
        status: ``running``; ``completed`` with exit code 0; ``failed`` with another; ``stopped`` when it ended after
            `DetachedJob.stop`; ``lost`` when it is gone and how it ended is not on record: it was killed together
            with its supervisor, or the host went down; ``foreign`` when its record names another machine or another container
            with the same home, and that record has no end: whether the job runs can only be asked there.
        exit_code: As its supervisor, a shell, has it: 128 + n when signal n ended it. ``None`` while that is not known.
        pid: The number of its first process, which leads a session of its own.
        started: When it was started, in seconds since the epoch, by the host's clock.
        ended: When it ended, likewise; ``None`` while it runs, and when it is lost.
        log: The file with all that it printed, both channels in true order; absolute, on the host.
        log_bytes: How long that is.
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
    """A job on a host. What it says of itself is what was known at the last look; `refresh` looks again."""

    def __init__(self, jobs: DetachedJobs, record: DetachedRecord) -> None:
        self._jobs = jobs
        self._record = record

    @property
    def record(self) -> DetachedRecord:
        """All that was known at the last look."""
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
        """The name of its host for people."""
        return self._record.host

    @property
    def status(self) -> DetachedStatus:
        """``running``, ``completed``, ``failed``, ``stopped``, ``lost`` or ``foreign``: see `DetachedRecord`."""
        return self._record.status

    @property
    def exit_code(self) -> int | None:
        """The end of the job; ``None`` while that is not known."""
        return self._record.exit_code

    @property
    def pid(self) -> int:
        """The number of its first process."""
        return self._record.pid

    @property
    def started(self) -> float:
        """When it was started, in seconds since the epoch, by the host's clock."""
        return self._record.started

    @property
    def ended(self) -> float | None:
        """When it ended, likewise; ``None`` while that is not known."""
        return self._record.ended

    async def refresh(self) -> DetachedStatus:
        """Ask the host how the job is.

        Raises:
            JobNotFound: Its record was removed.
            BackendError: The host does not answer.
        """
        self._record = await self._jobs._find(self.id)
        return self._record.status

    async def output(self, *, since: int = 0, limit: int = LONGEST_READ) -> JobOutput:
        """Read some of what it has printed, from a byte of its log on.

        Reading on at the `offset` of the answer loses nothing and repeats nothing. A character or an escape sequence
        that is cut by the end of what is there is left for the next time, unless nothing can follow it.

        Args:
            since: Bytes to pass over; 0 or more. Past the end there is nothing to read.
            limit: Bytes to read at most; 1 or more.

        Raises:
            InvalidCommand: A number is out of its range.
            JobNotFound: Its record was removed.
            OSError: The log cannot be read, or a link or something else has taken its place.
        """
        check_count("since", since, least=0)
        check_count("limit", limit)
        files = self._jobs._environment.files
        over = await self.refresh() != "running"  # first: what it prints after that may be missed otherwise
        try:
            if (await files.stat(self._record.log, follow=False)).kind != "file":
                raise OSError(
                    errno.EINVAL,
                    "the log is no file any more: something has taken its place",
                    self._record.log,
                )
            # No further than it was then: systems differ in how large an offset they take.
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
            # A line that is longer than the requested bytes would otherwise never come.
            data = held if held or len(data) < limit else data
        offset = since + len(data)
        data = data if masks is None else masks.data(data)
        return JobOutput(text=clean(data), data=data, offset=offset, total_bytes=size)

    async def wait(self, *, timeout: Seconds | None = None) -> DetachedStatus:
        """Wait for its end, at most so many seconds; ``None`` is no bound.

        Returns:
            Its status; ``running`` when the time was over. Neither that nor being cancelled does anything to the job.

        Raises:
            JobNotFound: Its record was removed.
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
        """Ask everything of it to end, kill after the grace, and look whether that was true.

        Everything is its session, what carries its mark, what descends from these, and what was seen to be one of them
        at an earlier look. Each is compared with its start right before it is signalled, on the host.

        Args:
            grace: Seconds between the request to end and the kill; 0 or more. Over as soon as everything is gone.

        Returns:
            What could not be ended, such as another user's; usually nothing.

        Raises:
            JobNotFound: Its record was removed.
            BackendError: The host does not answer; what was asked for may have been done. Or there is no room there to
                write down what must be ended; with a grace of 0 no room is needed. Or it is a job of another machine or
                container.
        """
        grace = check_seconds("grace", grace, zero=True, none=False)
        alive: Sequence[ProcessInfo] = ()
        gone = False
        if grace > 0:
            with anyio.move_on_after(grace):
                alive = await self._signal("TERM")
                while alive:
                    await asyncio.sleep(STOP_PAUSE)
                    alive = await self._signal("0")
        with anyio.move_on_after(KILL_SECONDS):
            while not gone:
                # A process that forks all the time can be missed once.
                alive = await self._signal("KILL") or await self._signal("KILL")
                gone = not alive
                await asyncio.sleep(0 if gone else STOP_PAUSE)
        if not (gone or alive):
            raise BackendError(f"{self.host} did not say in time whether job {self.id} has ended")
        # Its supervisor writes the end down a moment later.
        await self.wait(timeout=PAUSES[-1])
        return alive

    async def _signal(self, name: str) -> Sequence[ProcessInfo]:
        return await self._jobs._signal(self.id, name)


class DetachedJobs:
    """The detached jobs of one user on one host.

    They are in ``~/.local/state/anyshell/jobs`` on the host, or below its ``$ANYSHELL_STATE_DIR`` or
    ``$XDG_STATE_HOME``: a directory for each, which only the user can enter. A directory that is a link or another
    user's is refused, and to start a job, one that others can write to. Whatever else is in it is left alone.

    Args:
        environment: The host, the shell and the directory that jobs are started with. It may be closed before they end.
        directory: Another directory of the jobs; absolute, on the host.

    Raises:
        InvalidCommand: A directory that is not absolute, or a Windows host, which has no detached jobs.
    """

    def __init__(self, environment: Surroundings, *, directory: str | None = None) -> None:
        if environment.runner.info.os == "windows":
            raise InvalidCommand(
                "there are no detached jobs on Windows: start it without detach, where it runs as long as its "
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
        """Start a job that goes on when this process ends. It reads end-of-file; what it prints goes to its log.

        Args:
            command: Text in the shell's own language, of any size; or a list of a program and its arguments, or `sh`, whose words are
                quoted for that shell.
            cwd: The directory in which it runs; relative to the environment's directory. Must be there.
            env: Variables set over everything else; ``None`` as a value removes one. They are in no record and no command line. Those that begin with
                ``ANYSHELL_JOB_``, ``ANYSHELL_MARK_`` or ``ANYSHELL_REMOTE_`` are ours and do not reach it.
            reach: As for `Environment.run`.

        Raises:
            InvalidCommand: Bad input; nothing was started.
            SpawnError: It could not be started; the message says why.
            BackendError: The host did not say in time whether it was; `list` does when it can be asked again.
            asyncio.CancelledError: When the calling task is cancelled, after the job has been stopped.
        """
        request = to_command(command, cwd, env, kind=self._runner.shell.kind)
        request = await self._runner.addresses.expand(request, lasting=True)
        work = asyncio.ensure_future(self._start(request, RunOptions(reach=reach)))
        cancelled = await outlast(work, lambda: None)
        if cancelled is not None:
            if work.exception() is None:
                stopping = asyncio.ensure_future(work.result().stop(grace=0))
                await outlast(stopping, lambda: None)
                stopping.exception()  # looked at; its record says what became of it
            raise cancelled
        return work.result()

    async def list(self) -> builtins.list[DetachedJob]:
        """Every job that is recorded, the newest first; at most `MOST_JOBS`.

        Raises:
            BackendError: The host does not answer, or the directory of jobs cannot be used.
        """
        return [DetachedJob(self, record) for record in await self._list()]

    async def get(self, id_: str) -> DetachedJob:
        """Find a job by its id, or by as much of its beginning as no other has.

        Raises:
            InvalidCommand: The id is no text.
            JobNotFound: No job has it, or more than one does; the message says which.
            BackendError: The host does not answer.
        """
        check_text("the id of a job", id_)
        return DetachedJob(self, await self._find(id_))

    async def prune(self, *, older_than: Seconds = 0.0) -> builtins.list[str]:
        """Remove the records and logs of jobs that have ended or are lost.

        Never of one that runs, or has ended and left something that runs, as far as the host can tell: that could not
        be stopped any more. `DetachedJob.stop` ends it. Never of one of another machine or container, either: prune there.

        Args:
            older_than: Seconds since the end, or since the start of a lost one, that are needed; 0 or more. One whose
                record cannot be read is older than anything.

        Returns:
            The ids of those that were removed.

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
        # A start that was killed leaves no record. The host removes what is so for a day.
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
            # A server may close the channel when the program that it knows has ended, before the word of the job's shell.
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
            raise JobNotFound(f"{id_!r} is no id of a job: give hexadecimal digits, as 'list' shows them")
        found = await self._list(id_)
        if len(found) == 1:
            return found[0]
        if found:
            raise JobNotFound(f"{id_} is the beginning of {len(found)} jobs: give more of it")
        raise JobNotFound(f"there is no job {id_} on {self._runner.host}: 'list' shows those that there are")

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
                f"the jobs of {self._runner.host} cannot be had: "
                f"{wrong or 'it did not answer to the end' + answer.complaint}"
            )
        return lines

    async def _ask(self, spawn: Spawn, seconds: float, *, starts: str | None = None) -> _Answer:
        """Run one of our own programs on the host and return the lines that it prints."""
        if self._runner.closed:
            raise AnyshellError("this environment is closed: it starts nothing more")
        # Apart: a shell may complain, of a variable of the caller's for one, and do what it was asked for.
        split = replace(spawn, split_stderr=True)
        try:
            # Where none of its shells could close the life pipe, the job has it still: it is not ours to stop.
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
    """The answer of one of our own programs: whole lines, and the beginning of its stderr."""

    lines: list[str]
    said: str

    @property
    def complaint(self) -> str:
        """The end of a message about it."""
        return f"; it said: {self.said}" if self.said else ""


def _directory(lines: Sequence[str]) -> str:
    for line in lines:
        if line.startswith("directory "):
            return line.removeprefix("directory ")
    raise Nonsense("the directory of jobs", "")


def _read(line: str, directory: str, host: str) -> DetachedRecord:
    """Read what ``list`` of ``look.sh`` prints of a job.

    Raises:
        Nonsense: The line is of another form.
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
    """The request of a record. A record that a full disk has cut names its processes all the same."""
    try:
        request = json.loads(asked)
        return {name: str(request[name]) for name in ("command", "directory")}
    except (ValueError, LookupError, TypeError, RecursionError):
        return {"command": "(not readable)", "directory": ""}


def _cut(command: str) -> str:
    return command if len(command) <= LONGEST_COMMAND else f"{command[:LONGEST_COMMAND]}…"


def _unknown(id_: str, host: str) -> str:
    return f"{host} did not say whether job {id_} was started; 'anyshell jobs show {id_}' tells, when it can be asked"
