"""One job."""

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
"""Seconds between two searches of a job's output, at least: what is searched twice is bounded, however small pieces are."""

SETTLE_SECONDS = 0.05
"""Seconds of silence after which a match at the very end of a job's output counts: it might have grown longer."""

PORT_PAUSE = 0.1
"""Seconds between two attempts to connect to a port."""

SEND_SECONDS = 5.0
"""Seconds for a job to read its input; then that is still on its way, and what follows is refused."""

ATOMIC = 512
"""Bytes that a job is sent first, alone: all of them arrive, or none (POSIX, ``PIPE_BUF``)."""


class SentInPart(AnyshellError):  # noqa: N818 - says what happened
    """A job reads nothing more, and may have read the beginning of what it was sent."""


class Job:
    """A command that runs in the background of an environment, which stops it at its end at the latest.

    Attributes:
        id: Such as ``j1``; unique in its environment.
        command: Its text. Of what a command left behind, the text of that command.
        adopted: Whether it is what a command left behind. Such a job has no exit code, and no input.
        ready: Whether it was ready in time; ``None`` when readiness was not asked for.
        notice: A further fact about it, such as why it was not ready; empty without one.
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
        """The state of the job: ``running``; ``completed`` with exit code 0, or adopted and gone; ``failed`` with any other end.

        ``stopped`` and ``timed_out``, also by silence, with the whole tree gone; ``lost`` when how or that it ended could
        not be learnt.
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
        """Its exit code; ``None`` while it runs, when a signal ended it, and when that cannot be known."""
        return None if self.outcome is None else self.outcome.exit_code

    @property
    def pid(self) -> int | None:
        """The number of its program on the host; of an adopted one, that of one of its processes."""
        return self._work.pid

    @property
    def printed(self) -> int:
        """Raw bytes that it has printed so far."""
        return self._work.log.total

    @property
    def started(self) -> datetime:
        """When it began, or was adopted, in UTC."""
        return self._work.started

    @property
    def ended(self) -> datetime | None:
        """When it ended, in UTC; ``None`` while it runs."""
        return self._work.ended

    @property
    def outcome(self) -> Outcome | None:
        """Its outcome; ``None`` while it runs, or when the outcome could not be learnt."""
        done = self._work.task.done() and self._error is None
        return self._work.task.result() if done else None

    async def wait(self, *, timeout: Seconds | None = None) -> Outcome | None:
        """Wait for its end. To be cancelled here does not stop it.

        Args:
            timeout: Seconds, 0 or more; ``None`` is no bound.

        Returns:
            What became of it, or ``None`` when it still runs.

        Raises:
            InvalidCommand: A bad timeout.
            Exception: What kept it from being started, or what the caller's own input raised.
        """
        timeout = check_seconds("timeout", timeout, zero=True)
        task = self._work.task
        await asyncio.wait([task], timeout=timeout)
        return task.result() if task.done() else None

    async def stop(self, *, grace: Seconds | None = None) -> Outcome:
        """Stop its whole tree, as a timeout does, and wait for that. To be cancelled here does not call it off.

        A second call skips the grace.

        Args:
            grace: Seconds between the request to end and the kill, at most those that the job was started with;
                ``None`` is those.

        Returns:
            What became of it. If it had ended before, nothing else happens.

        Raises:
            InvalidCommand: A bad grace.
            Exception: What `wait` raises.
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
        """Read what it has printed. Takes nothing away: every reader can read the same again.

        Args:
            since: Bytes of its output to skip; 0 or more. `JobOutput.offset` is where to go on.
            limit: Raw bytes to read at most; 1 or more.
            wait: Seconds to wait for something after `since`, if there is nothing; 0 or more. Over when the job ends.

        Returns:
            What it printed there. What is not kept any more is left out and counted. A character, or an escape
            sequence, that is not whole yet is left for the next piece while more may come.

        Raises:
            InvalidCommand: A number out of its range; `since` beyond what was printed.
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
                rest = log.stretch(start, data).unfinished()  # of what may still come, nothing is cut in two
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
        """Wait until it has printed something, accepts connections, or is silent: one of the three.

        Args:
            pattern: A regular expression that is searched for in its output, decoded and without escape sequences. In a
                text, ``^`` and ``$`` are the ends of lines. A match of more than 8,192 characters may not be
                found. One that takes exponential time blocks the event loop, as it always does.
            port: A TCP port of the host, 1 to 65535, that accepts connections.
            idle: Seconds for which it prints nothing and is sent nothing; more than 0.
            timeout: Seconds, 0 or more; ``None`` is no bound.
            since: Bytes of its output that are not searched; 0 or more.

        Returns:
            For a pattern, the first match; for the others, true. ``None`` or false when it did not come in time, or
            when the job ended before.

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
        """Send something to its stdin, which it reads as if a person had typed it; a line needs its line feed.

        Waits until it is read, 5 s at most; then it is still on its way. What is sent next waits for that.

        Args:
            data: Text or bytes.
            close: End its input afterwards.

        Returns:
            Whether all of it was taken, and its input ended if asked for; false while some is on its way.

        Raises:
            InvalidCommand: No text, and no bytes either.
            AnyshellError: It has ended, its input is closed or was given at its start, or it does not read: nothing
                of `data` was sent. Or it read no more when part was sent: the message says that it may have read
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
            # The value is left out: Python makes no text of a number of thousands of digits.
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
        known = work.log.total  # is searched however little time there is
        search = Search(pattern)
        while True:
            ended = work.task.done()
            start, data = work.log.read(offset, SEARCHED)
            if start > offset:
                search = Search(pattern)  # something between is gone: what stands before it is another text
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
