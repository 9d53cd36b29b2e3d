"""A job: a command that runs in the background of an environment."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, overload

import anyio

from .._exceptions import AnyshellError, InvalidCommand
from .._types import READY_SECONDS, JobOutput, Outcome, check_count, check_port, check_seconds, check_text
from .._waits import note_failure
from ..output import Search, expression
from ..output.text.search import WINDOW

if TYPE_CHECKING:
    import re
    from collections.abc import Awaitable, Callable, Coroutine
    from datetime import datetime
    from typing import Any

    from anyio.abc import ByteSendStream

    from .._types import JobStatus
    from .._types.checks import Seconds
    from .work import Work

PIECE = 50 * 1024
"""Bytes of a job's output that are read at once, unless given."""

SEARCHED = 64 * 1024
"""Bytes of a job's output that are searched before other tasks get a turn."""

SEARCH_PAUSE = 0.01
"""Seconds between two searches of a job's output, at least: this bounds repeated searches, however small the chunks are."""

SETTLE_SECONDS = 0.05
"""Seconds of silence after which a match at the very end of a job's output counts: more output might extend the match."""

PORT_PAUSE = 0.1
"""Seconds between two attempts to connect to a port."""

SEND_SECONDS = 5.0
"""Seconds for a job to read what it was sent; after that the data stays pending, and further data is refused."""

ATOMIC = 512
"""Bytes of the first write to a job's stdin, sent alone: all of them arrive, or none (POSIX, ``PIPE_BUF``)."""


class SentInPart(AnyshellError):  # noqa: N818 - says what happened
    """The job reads no more input, and may have read the first part of the sent data."""


class Job:
    """A command that runs in the background of an environment. The environment stops the job when it closes, at the latest.

    Attributes:
        id: The id, such as ``j1``; unique in its environment.
        command: The text of the command. An adopted job has the text of the command that left it behind.
        adopted: Whether the job consists of the processes that a command left behind. An adopted job has no exit code and no
            input.
        ready: Whether the job was ready in time; ``None`` when readiness was not asked for.
        notice: A further fact about the job, such as why it was not ready; empty without a fact.
    """

    def __init__(
        self,
        job_id: str,
        command: str,
        work: Work,
        *,
        grace: float,
        connects: Callable[[int], Awaitable[bool]],
        adopted: bool = False,
    ) -> None:
        self.id = job_id
        self.command = command
        self.adopted = adopted
        self.ready: bool | None = None
        self.notice = ""
        self._work = work
        self._grace = grace
        self._connects = connects
        self._sending: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<Job {self.id} {self.status}, {self.printed:,} bytes printed>"

    @property
    def status(self) -> JobStatus:
        """The state of the job: ``running``, ``completed``, ``failed``, ``stopped``, ``timed_out`` or ``lost``.

        ``completed`` is exit code 0, or an adopted job that is gone; ``failed`` is any other end of a program by itself.
        After ``stopped`` or ``timed_out``, also by silence, the whole tree is gone. ``lost`` means that the end, or the kind
        of the end, could not be learnt.
        """
        if not self._work.task.done():
            return "running"
        if self._error is not None:
            return "lost"
        outcome = self._work.task.result()
        match outcome.status:
            case "exited":
                return "completed" if self.adopted or outcome.exit_code == 0 else "failed"
            case "timed_out" | "lost":
                return outcome.status
            case _:
                return "stopped"

    @property
    def exit_code(self) -> int | None:
        """The exit code of the job; ``None`` while the job runs, after a signal, and when the code cannot be known."""
        return None if self.outcome is None else self.outcome.exit_code

    @property
    def pid(self) -> int | None:
        """The pid of the job's program on the host; of an adopted job, the pid of one of its processes."""
        return self._work.pid

    @property
    def printed(self) -> int:
        """Raw bytes that the job has printed so far."""
        return self._work.log.total

    @property
    def started(self) -> datetime:
        """The time at which the job began or was adopted, in UTC."""
        return self._work.started

    @property
    def ended(self) -> datetime | None:
        """The time at which the job ended, in UTC; ``None`` while the job runs."""
        return self._work.ended

    @property
    def outcome(self) -> Outcome | None:
        """The outcome of the job; ``None`` while the job runs, or when the outcome could not be learnt."""
        done = self._work.task.done() and self._error is None
        return self._work.task.result() if done else None

    async def wait(self, *, timeout: Seconds | None = None) -> Outcome | None:
        """Wait for the end of the job. A cancellation of this wait does not stop the job.

        Args:
            timeout: Seconds, 0 or more; ``None`` means no bound.

        Returns:
            The outcome of the job, or ``None`` when the job still runs.

        Raises:
            InvalidCommand: A bad timeout.
            Exception: The error that kept the job from being started, or that the caller's own input raised.
        """
        timeout = check_seconds("timeout", timeout, zero=True)
        task = self._work.task
        await asyncio.wait([task], timeout=timeout)
        return task.result() if task.done() else None

    async def stop(self, *, grace: Seconds | None = None) -> Outcome:
        """Stop the job's whole tree, as a timeout does, and wait for its end. A cancelled wait does not cancel the stop.

        A second call skips the grace period.

        Args:
            grace: Seconds between the request to end and the kill, at most those with which the job was started; ``None`` is
                the job's own grace.

        Returns:
            The outcome of the job. If the job had ended before, the call does nothing else.

        Raises:
            InvalidCommand: A bad grace.
            Exception: As `wait` raises.
        """
        grace = check_seconds("grace", grace, zero=True)
        if grace is not None and grace > self._grace:
            raise InvalidCommand(
                f"grace must be at most {self._grace:g} s, that of the job; give start(grace=) more"
            )
        work = self._work
        work.control.cancel()
        if grace is not None:
            hurry = asyncio.get_running_loop().call_later(grace, work.control.cancel)
            work.task.add_done_callback(lambda _: hurry.cancel())
        await asyncio.wait([work.task])
        return work.task.result()

    async def output(self, since: int = 0, *, limit: int = PIECE, wait: Seconds = 0) -> JobOutput:
        """Read the job's output. Reading removes nothing: every reader can read the same bytes again.

        Args:
            since: Bytes of the output to skip; 0 or more. `JobOutput.offset` is the next value.
            limit: Raw bytes to read at most; 1 or more.
            wait: Seconds to wait for output after `since`, if there is none; 0 or more. The wait ends when the job ends.

        Returns:
            The output after `since`. Bytes that are not kept any more are left out and counted. While more output may come,
            an incomplete character or escape sequence at the end is left for the next read.

        Raises:
            InvalidCommand: A number out of its range; `since` beyond the printed bytes.
        """
        wait = check_seconds("wait", wait, zero=True, none=False)
        log = self._work.log
        check_count("limit", limit)
        self._check_offset(since)
        give_up = time.monotonic() + wait
        while True:
            start, data = log.read(since, limit)
            ended = self._work.task.done()
            if not ended or start + len(data) < log.total:
                rest = log.stretch(start, data).unfinished()  # no character is cut in two
                if rest < len(data):
                    data = data[: len(data) - rest]
                elif len(data) < limit and not ended:
                    data = b""
            left = give_up - time.monotonic()
            if data or ended or left <= 0:
                break
            await self._work.changed(left)
        piece = log.stretch(start, data)
        return JobOutput(
            text=piece.text,
            data=data,
            offset=start + len(data),
            total_bytes=log.total,
            omitted_bytes=start - since,
            utf8_bytes=None if piece.page is None or piece.utf8 >= len(data) else max(0, piece.utf8),
        )

    @overload
    async def wait_for(
        self, pattern: str | re.Pattern[str], *, timeout: Seconds | None = READY_SECONDS, since: int = 0
    ) -> re.Match[str] | None: ...

    @overload
    async def wait_for(self, *, port: int, timeout: Seconds | None = READY_SECONDS) -> bool: ...

    @overload
    async def wait_for(self, *, idle: Seconds, timeout: Seconds | None = READY_SECONDS) -> bool: ...

    async def wait_for(
        self,
        pattern: str | re.Pattern[str] | None = None,
        *,
        port: int | None = None,
        idle: Seconds | None = None,
        timeout: Seconds | None = READY_SECONDS,
        since: int = 0,
    ) -> re.Match[str] | bool | None:
        """Wait until the job prints a pattern, accepts connections at a port, or is silent: one of the three.

        Args:
            pattern: A regular expression for a search in the job's output, decoded and without escape sequences. In a text
                pattern, ``^`` and ``$`` are the ends of lines. A match of more than 8,192 characters may not be found. A
                pattern that takes exponential time blocks the event loop, as it always does.
            port: A TCP port of the host, 1 to 65535, that accepts connections.
            idle: Seconds for which the job prints nothing and is sent nothing; more than 0.
            timeout: Seconds, 0 or more; ``None`` means no bound.
            since: Bytes of the output that are not searched; 0 or more.

        Returns:
            For a pattern, the first match; for the others, true. ``None`` or false when the event did not come in time, or
            the job ended before.

        Raises:
            InvalidCommand: Not exactly one of the three, a pattern that does not compile, a number out of its range.
            BackendError: The host does not let a port be tried, or cannot be reached.
        """
        if [pattern, port, idle].count(None) != 2:
            raise InvalidCommand("wait_for needs exactly one of pattern, port and idle")
        timeout = check_seconds("timeout", timeout, zero=True)
        if pattern is not None:
            compiled = expression(pattern)
            self._check_offset(since)
            return await self._wait_match(compiled, since, timeout)
        if port is not None:
            check_port(port)
            return await _within(timeout, self._wait_port(port))
        idle = check_seconds("idle", idle)
        assert idle is not None
        return await _within(timeout, self._wait_idle(idle))

    async def send(self, data: str | bytes, *, close: bool = False) -> bool:
        """Send data to the job's stdin, as if a person typed it; a line needs its line feed.

        Waits until the data is read, 5 s at most; after that the data is still pending. The next call waits for pending data.

        Args:
            data: Text or bytes.
            close: Whether to close the job's stdin afterwards.

        Returns:
            Whether all data was taken, and stdin was closed if asked for; false while some data is pending.

        Raises:
            InvalidCommand: `data` is neither text nor bytes.
            AnyshellError: The job has ended, its stdin is closed or was given at its start, or the job does not read: nothing
                of `data` was sent. Or the job stopped reading after a part was sent: the message says that it may have read
                that part.
        """
        if isinstance(data, str):
            check_text("data", data)
            data = data.encode(errors="surrogateescape")
        elif not isinstance(data, bytes):
            raise InvalidCommand(f"data must be text or bytes, not {type(data).__name__}")
        if self._work.task.done():
            raise AnyshellError(f"job {self.id} has ended ({self.status}): it reads nothing more")
        stdin = self._work.stdin
        if stdin is None:
            raise AnyshellError(f"job {self.id} cannot be sent anything: its input was settled when it began")
        give_up = time.monotonic() + SEND_SECONDS
        while self._sending is not None and not self._sending.done():
            if time.monotonic() >= give_up:
                raise AnyshellError(
                    f"job {self.id} has not read what it was sent before, so nothing more was sent: "
                    "see what it does, or stop it"
                )
            await asyncio.wait([self._sending], timeout=give_up - time.monotonic())
        task = self._sending = asyncio.get_running_loop().create_task(self._feed(stdin, data, close=close))
        task.add_done_callback(note_failure)
        await asyncio.wait([task], timeout=SEND_SECONDS)
        if task.done():
            task.result()
        return task.done()

    @property
    def _error(self) -> BaseException | None:
        task = self._work.task
        return task.exception() if task.done() else None

    def _check_offset(self, since: object) -> None:
        total = self._work.log.total
        if isinstance(since, bool) or not isinstance(since, int) or not 0 <= since <= total:
            # The message omits the value: Python makes no text of a number of thousands of digits.
            raise InvalidCommand(f"since must be 0 to {total}, the bytes that the job has printed")

    async def _feed(self, stdin: ByteSendStream, data: bytes, *, close: bool) -> None:
        self._sent()
        begun = False
        try:
            await stdin.send(data[:ATOMIC])
            begun = bool(data)
            if rest := data[ATOMIC:]:
                await stdin.send(rest)
            if close:
                await stdin.aclose()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            if begun:
                raise SentInPart(
                    f"job {self.id} ended, or closed its input, before it had read all that it was sent: it may have "
                    "read part of it"
                ) from None
            raise AnyshellError(
                f"job {self.id} reads nothing more: its input is closed, or it ended"
            ) from None
        finally:
            self._sent()

    def _sent(self) -> None:
        self._work.last_heard = time.monotonic()
        self._work.control.touch()

    async def _wait_match(
        self, pattern: re.Pattern[str], offset: int, timeout: float | None
    ) -> re.Match[str] | None:
        work = self._work
        give_up = None if timeout is None else time.monotonic() + timeout
        known = work.log.total  # output up to here is searched even if the timeout is over
        search = Search(pattern)
        while True:
            ended = work.task.done()
            start, data = work.log.read(offset, SEARCHED)
            if start > offset:
                search = Search(pattern)  # bytes between were dropped: the text before them is separate
            offset = start + len(data)
            match = search.feed(work.log.stretch(start, data))
            if match is not None and (match.end() < len(match.string) or len(match[0]) >= WINDOW):
                return match
            left = None if give_up is None else give_up - time.monotonic()
            late = left is not None and left <= 0 and offset >= known
            if data and not late:
                await asyncio.sleep(0)
                continue
            if ended and not data:
                return search.flush()
            if late:
                return match
            if match is None:
                await work.changed(left)
            elif not await work.changed(SETTLE_SECONDS if left is None else min(left, SETTLE_SECONDS)):
                return match
            await asyncio.sleep(SEARCH_PAUSE)

    async def _wait_port(self, port: int) -> bool:
        while not self._work.task.done():
            if await self._connects(port):
                return True
            await asyncio.wait([self._work.task], timeout=PORT_PAUSE)
        return False

    async def _wait_idle(self, seconds: float) -> bool:
        while not self._work.task.done():
            left = self._work.last_heard + seconds - time.monotonic()
            if left <= 0:
                return True
            await self._work.changed(left)
        return False


async def _within(timeout: float | None, waiting: Coroutine[Any, Any, bool]) -> bool:
    try:
        async with asyncio.timeout(timeout) as clock:
            return await waiting
    except TimeoutError:
        if not clock.expired():
            raise
        return False
