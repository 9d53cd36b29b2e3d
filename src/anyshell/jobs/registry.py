"""The jobs of one environment."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from .. import _engine
from .._exceptions import AnyshellError, InvalidCommand, JobNotFound
from .._types import DEFAULT_GRACE, LONGEST_NAME, Outcome
from .._waits import outlast
from .job import Job
from .processes import StartedSpawner, Survivors
from .readiness import Readiness
from .work import Work

if TYPE_CHECKING:
    from collections.abc import Awaitable, Coroutine, Sequence
    from typing import Any

    from .._types import ProcessInfo, Spawn
    from ..abc import Process
    from ..output import ArtifactStore, Builder, OutputLog
    from .readiness import Ready

Observer = Callable[[Job, str], object]
"""A function that is called with a job and the cleaned end of the job's output so far."""

KEEP_FINISHED = 64
"""Jobs that have ended and are remembered; with more, the job that ended first is forgotten."""

KEEP_FINISHED_SECONDS = 3600.0
"""Seconds for which a job that has ended is remembered; then the job is forgotten."""

NEWS_SECONDS = 0.05
"""Seconds between two reports of one job's progress to observers, at least."""

NEWS_BYTES = 4096
"""Bytes of the end of a job's output that observers are given."""

CLOSE_SECONDS = 5.0
"""Seconds for the stop of all jobs when an environment is left, besides the jobs' longest grace; then the wait ends."""


class Jobs:
    """The jobs of one environment, made by the environment.

    Args:
        builder: Makes the output builder of a job; the job's log is the whole output.
        connects: Whether a port of the host accepts connections.
        store: The store of whole outputs.
        max_jobs: Jobs that run at once, adopted jobs not counted.
        code_page: The number of the host's code page; ``None`` means no code page.
    """

    def __init__(
        self,
        *,
        builder: Callable[[OutputLog], Builder],
        connects: Callable[[int], Awaitable[bool]],
        store: ArtifactStore | None,
        max_jobs: int,
        code_page: int | None = None,
    ) -> None:
        self._builder = builder
        self._connects = connects
        self._store = store
        self._max_jobs = max_jobs
        self._code_page = code_page
        self._numbers = itertools.count(1)
        self._jobs: dict[str, Job] = {}
        self._ended: dict[str, float] = {}  # by the monotonic clock; the first is the oldest
        self._news: dict[str, _News] = {}
        self._observers: dict[object, Observer] = {}
        self._closed = False

    def list(self) -> Sequence[Job]:
        """Return the running jobs, and those that ended lately, in the order of their start."""
        self._forget()
        return tuple(self._jobs.values())

    def get(self, job_id: str) -> Job:
        """Return the job with an id.

        Raises:
            JobNotFound: No job has that id; the job may have ended long ago.
        """
        self._forget()
        job = next((job for job in self._jobs.values() if job.id == job_id), None)
        if job is None:
            there = ", ".join(self._jobs) or "none"
            raise JobNotFound(f"no job has the id {str(job_id)[:LONGEST_NAME]!r}; there are: {there}")
        return job

    def observe(self, observer: Observer) -> Callable[[], None]:
        """Call an observer on every job's progress and end, until the returned function is called.

        Args:
            observer: Called with the job and the cleaned and bounded end of its output: at intervals while the job prints,
                and once when the job has ended, as `Job.status` says; then never again for that job. Called in the event
                loop, never by the job's own run. An observer that raises is reported to the loop's exception handler and not
                called again; the job goes on.

        Raises:
            InvalidCommand: `observer` is not a function, or must be awaited.
        """
        given: object = observer
        if not callable(given) or inspect.iscoroutinefunction(given):
            raise InvalidCommand("an observer must be a plain function: it is called, not awaited")
        key = object()  # the same function may be given twice
        self._observers[key] = observer

        def forget() -> None:
            self._observers.pop(key, None)

        return forget

    @property
    def has_room(self) -> bool:
        """Whether one more job may be started."""
        return len(self._running()) < self._max_jobs

    async def start(
        self,
        command: str,
        run: Callable[[Work], Coroutine[Any, Any, Outcome]],
        *,
        sends: bool,
        grace: float,
        ready: Ready | None,
        ready_timeout: float | None,
    ) -> Job:
        """Start a job, as described for `Environment.start`."""
        readiness = Readiness.of(ready, ready_timeout)
        taken = readiness.port is not None and await self._answers(readiness.port)
        if self._closed:
            raise AnyshellError("this environment is closed: it starts nothing more")
        if not self.has_room:
            there, several = ", ".join(job.id for job in self._running()), self._max_jobs != 1
            these, one = ("jobs run", "one") if several else ("job runs", "it")
            raise AnyshellError(
                f"{self._max_jobs} {these} already, the most that may run at once ({there}): wait for {one}, or stop {one}"
            )
        work = Work(self._store, sends=sends, code_page=self._code_page)
        work.begin(run(work))
        job = self._add(command, work, grace, announced=False)
        try:
            begun_or_over: list[asyncio.Future[Any]] = [work.begun, work.task]
            await asyncio.wait(begun_or_over, return_when=asyncio.FIRST_COMPLETED)
            if not work.begun.done() and work.task.done():
                work.task.result()  # the job could not be started: raises the reason
            await readiness.wait(job, taken=taken)
        except asyncio.CancelledError:  # the caller does not have the job yet
            work.task.cancel()
            await outlast(work.task, work.task.cancel)
            raise
        return job

    def adopt(self, process: Process, survivors: Sequence[ProcessInfo], spawn: Spawn, command: str) -> str:
        """Make a job of the processes that a command left behind; return the job's id. The engine awaits the job."""
        work = Work(self._store, code_page=self._code_page)
        work.begin(self._outlive(work, work.take(Survivors(process, survivors)), spawn))
        job = self._add(command, work, DEFAULT_GRACE, adopted=True)
        if self._closed:
            work.control.cancel()
        return job.id

    def take(self, command: str, work: Work, grace: float) -> Job:
        """Make a job of a run that a caller has waited for."""
        return self._add(command, work, grace)

    async def aclose(self) -> None:
        """Stop all jobs at once, each with its own grace, and wait until their end is verified."""
        self._closed = True
        running = [job for job in self._jobs.values() if job.status == "running"]
        for job in running:
            job._work.control.cancel()
        give_up = time.monotonic() + max((job._grace for job in running), default=0) + CLOSE_SECONDS
        while tasks := [job._work.task for job in self._jobs.values() if job.status == "running"]:
            left = give_up - time.monotonic()
            if left <= 0:
                break
            await asyncio.wait(tasks, timeout=left)

    async def _answers(self, port: int) -> bool:
        """Return whether another process already has a port. Where the port cannot be tried, the later wait reports the error."""
        try:
            return await self._connects(port)
        except AnyshellError:
            return False

    def _running(self) -> Sequence[Job]:
        return [job for job in self._jobs.values() if job.status == "running" and not job.adopted]

    def _add(
        self, command: str, work: Work, grace: float, *, adopted: bool = False, announced: bool = True
    ) -> Job:
        job_id = f"j{next(self._numbers)}"
        job = Job(job_id, command, work, grace=grace, connects=self._connects, adopted=adopted)
        self._jobs[job_id] = job
        news = self._news[job_id] = _News(job, self._tell)
        work.on_output = news.progress
        work.task.add_done_callback(lambda _: self._end(job, announced=announced))
        return job

    async def _outlive(self, work: Work, process: Process, spawn: Spawn) -> Outcome:
        outcome = await _engine.run(
            StartedSpawner(process),
            spawn,
            output=self._builder(work.log),
            stderr=self._builder(work.log) if process.stderr is not None else None,
            stdin=b"" if spawn.stdin else None,
            grace=DEFAULT_GRACE,
            listener=work.hear,
            control=work.control,
        )
        network = None if spawn.gate is None else spawn.gate.network()
        return replace(outcome, exit_code=None, network=network)

    def _end(self, job: Job, *, announced: bool) -> None:
        job._work.log.finish()
        error = job._error
        if error is not None and not announced and not job._work.begun.done():
            self._drop(job.id)  # the job could not be started, and the caller of start() gets the error
            return
        if isinstance(error, AnyshellError):
            job.notice = str(error)
        elif error is not None:
            job.notice = f"how it ended is not known: {type(error).__name__} was raised while it ran"
        self._ended[job.id] = time.monotonic()
        self._news.pop(job.id).end()
        self._forget()

    def _forget(self) -> None:
        """Forget the jobs that ended too long ago, or before too many others."""
        oldest = time.monotonic() - KEEP_FINISHED_SECONDS
        for job_id, ended in tuple(self._ended.items()):
            if ended > oldest and len(self._ended) <= KEEP_FINISHED:
                break
            self._drop(job_id)

    def _drop(self, job_id: str) -> None:
        self._jobs.pop(job_id, None)
        self._ended.pop(job_id, None)
        self._news.pop(job_id, None)

    def _tell(self, job: Job) -> None:
        if not self._observers:
            return
        log = job._work.log
        data = log.tail(NEWS_BYTES)
        text = log.stretch(log.total - len(data), data).text
        for key, observer in tuple(self._observers.items()):
            try:
                observer(job, text)
            except Exception as error:  # noqa: BLE001 - whatever goes wrong there, the job goes on
                self._observers.pop(key, None)
                asyncio.get_running_loop().call_exception_handler(
                    {"message": "an observer of jobs raised, and is not called again", "exception": error}
                )


class _News:
    """The timer of a job's reports to observers: progress at intervals, the end once."""

    def __init__(self, job: Job, tell: Callable[[Job], None]) -> None:
        self._job = job
        self._tell = tell
        self._not_before = 0.0  # by the loop's clock
        self._timer: asyncio.TimerHandle | None = None

    def progress(self) -> None:
        """Note new output. The observers are called from the loop, not from the run."""
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_at(max(self._not_before, loop.time()), self._fire)

    def end(self) -> None:
        """Note the end of the job."""
        if self._timer is not None:
            self._timer.cancel()
        self._tell(self._job)

    def _fire(self) -> None:
        self._timer = None
        self._not_before = asyncio.get_running_loop().time() + NEWS_SECONDS
        self._tell(self._job)
