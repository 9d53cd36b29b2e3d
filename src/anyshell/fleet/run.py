"""A command's run on the hosts of a fleet: the order of the hosts' turns, and the outcomes."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from typing import TYPE_CHECKING, Literal

import anyio

from .._engine import Control
from .._exceptions import AnyshellError
from .._types import Outcome
from .._waits import outlast
from .progress import HostOutcome, HostProgress, alive_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from .._environment import Environment
    from .hosts import Target
    from .progress import FleetObserver, HostState


class FleetRun:
    """A command's run on the hosts of a fleet: iterate over the run for the hosts' outcomes, in the order of their end.

    A slow reader of outcomes delays the hosts that have not begun yet. So the number of held outcomes never exceeds the
    number of hosts that run in parallel.
    """

    def __init__(
        self,
        targets: Mapping[str, Target],
        open_host: Callable[[str, Target, Callable[[Environment], object]], Awaitable[None]],
        perform: Callable[[Environment, HostProgress, Control], Awaitable[Outcome]],
        *,
        parallelism: int,
        batch: int | None,
        stop_on_failure: bool,
        observer: FleetObserver | None,
    ) -> None:
        self._targets = targets
        self._hosts = {name: HostProgress(name) for name in targets}
        self._open = open_host
        self._perform = perform
        self._parallelism = parallelism
        self._batch = len(targets) if batch is None else batch
        self._stop_on_failure = stop_on_failure
        self._observer = observer
        self._over = False
        """Whether no further host begins."""
        self._failure: Exception | None = None
        """The exception of the observer."""
        self._turns: set[_Turn] = set()
        self._send, self._receive = anyio.create_memory_object_stream[HostOutcome](0)
        self._task: asyncio.Task[None] | None = None
        self._left = False
        """Whether the fleet's ``async with`` was left."""
        self._told = False
        """Whether a failure of the run itself was already raised."""

    @property
    def hosts(self) -> tuple[HostProgress, ...]:
        """The progress of each host, in the fleet's order."""
        return tuple(self._hosts.values())

    @property
    def ended(self) -> bool:
        """Whether every host has ended, and every outcome was taken."""
        return self._task is not None and self._task.done()

    def cancel(self) -> None:
        """Ask the command to end on every host, and begin no further host. Returns at once.

        The iteration still yields every outcome. The outcome of a host that ran comes when its process tree is gone, or with
        `HostOutcome.survivors`. The other hosts get the state ``not_started``. A second call skips the grace.
        """
        self._over = True
        for turn in self._turns:
            turn.cancel()

    def __aiter__(self) -> AsyncIterator[HostOutcome]:
        return self

    async def __anext__(self) -> HostOutcome:
        if self._task is None:
            if self._left:
                raise AnyshellError(
                    "nothing was run: the fleet was closed before the iteration began; iterate within 'async with'"
                )
            self._task = asyncio.ensure_future(self._run())
        try:
            return await self._receive.receive()
        except anyio.EndOfStream:
            self._receive.close()
            await asyncio.wait([self._task])
            if (failure := self._take_failure()) is not None:
                raise failure from None
            raise StopAsyncIteration from None
        except anyio.ClosedResourceError:
            raise StopAsyncIteration from None  # the fleet was left

    async def _aclose(self, *, quiet: bool) -> None:
        """Stop the command on every host, and wait until it is gone. A cancellation of the caller is raised after that.

        Args:
            quiet: Whether to drop a failure of the run itself, since another exception is already raised.
        """
        self._left = True
        self.cancel()
        self._receive.close()
        if self._task is None:
            self._send.close()
            return
        cancelled = await outlast(self._task, self.cancel)
        failure = self._take_failure()
        if cancelled is not None:
            raise cancelled
        if failure is not None and not quiet:
            raise failure

    def _take_failure(self) -> BaseException | None:
        """Return the error of the run itself, once; ``None`` without an error, or if it was already taken."""
        if self._task is None or self._task.cancelled() or self._told:
            return None
        self._told = True
        return self._task.exception()

    async def _run(self) -> None:
        """Run every host's turn, batch by batch."""
        with self._send:
            waiting = deque(self._hosts.values())
            while waiting and not self._over:
                batch = deque(waiting.popleft() for _ in range(min(self._batch, len(waiting))))
                await self._work_on(batch)
                waiting.extendleft(reversed(batch))
            for host in waiting:
                self._set(host, "not_started")
                await self._deliver(HostOutcome(host=host.host, state="not_started"))
        if self._failure is not None:
            raise self._failure

    async def _work_on(self, batch: deque[HostProgress]) -> None:
        async def work() -> None:
            while batch and not self._over:
                await self._deliver(await self._turn(batch.popleft()))

        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(work()) for _ in range(min(self._parallelism, len(batch)))]

        def end() -> None:
            self._over = True
            for task in tasks:
                task.cancel()

        cancelled = await outlast(asyncio.gather(*tasks, return_exceptions=True), end)
        if cancelled is not None:
            raise cancelled
        for task in tasks:
            task.result()

    async def _deliver(self, outcome: HostOutcome) -> None:
        with contextlib.suppress(anyio.BrokenResourceError):  # the receiver has gone
            await self._send.send(outcome)

    async def _turn(self, host: HostProgress) -> HostOutcome:
        """Run one host's turn to its end. Raises only a cancellation, after the host's environment is closed."""
        turn = _Turn()
        self._turns.add(turn)
        host._began = time.monotonic()
        outcome: Outcome | None = None
        error: Exception | None = None
        notices: tuple[str, ...] = ()
        done = False
        # A cancellation of the fleet is raised only after the environment is closed. A cancellation that the host's own code
        # has raised is a failure of this host (`_is_cancelled` tells the two apart). The first error of a host is kept.
        try:
            try:
                self._set(host, "connecting")
                await turn.reach(self._open(host.host, self._targets[host.host], turn.keep))
                if turn.env is None or turn.control.requested:
                    outcome = Outcome(status="cancelled", started=False)
                else:
                    host._info = turn.env.info
                    notices = (*turn.env.info.notices, *turn.env.snapshot_notices)
                    self._set(host, "running")
                    outcome = await self._perform(turn.env, host, turn.control)
            except asyncio.CancelledError:
                if _is_cancelled():
                    raise
                error = _own_cancellation("what the command needs on this host")
            except Exception as failure:  # noqa: BLE001 - whatever it is, it is this host's alone
                error = failure
            done = outcome is not None and outcome.status == "exited" and outcome.exit_code == 0
            if self._stop_on_failure and not done:
                self._over = True
            host._survivors = () if outcome is None else alive_of(outcome)
        finally:
            try:
                if turn.env is not None:
                    self._set(host, "closing")
                    await turn.env.aclose()
            except asyncio.CancelledError:
                if _is_cancelled():
                    raise
                error = error or _own_cancellation("what leaves this host")
            except Exception as failure:  # noqa: BLE001 - as above
                error = error or failure
            finally:
                self._turns.discard(turn)
                host._ended = time.monotonic()
        state: Literal["done", "failed"] = "done" if done and error is None else "failed"
        self._set(host, state)
        return HostOutcome(
            host=host.host,
            state=state,
            outcome=outcome,
            error=error,
            notices=notices,
            duration=host.elapsed,
        )

    def _set(self, host: HostProgress, state: HostState) -> None:
        host._state = state
        if self._observer is None or self._failure is not None:
            return
        try:
            self._observer(host)
        except (
            asyncio.CancelledError
        ):  # the call awaits nothing, so the observer itself has raised the cancellation
            self._failure = _own_cancellation("the observer")
            self.cancel()
        except Exception as error:  # noqa: BLE001 - it is raised when all is stopped
            self._failure = error
            self.cancel()


class _Turn:
    """The handle of a host's running turn, which can stop the turn."""

    def __init__(self) -> None:
        self.control = Control()
        self.env: Environment | None = None
        self._reaching: asyncio.Future[None] | None = None

    def keep(self, env: Environment) -> None:
        """Keep the environment, which the turn closes at its end."""
        self.env = env

    async def reach(self, opening: Awaitable[None]) -> None:
        """Wait until the environment is open, or `cancel` has stopped the wait."""
        self._reaching = asyncio.ensure_future(opening)
        cancelled = await outlast(self._reaching, self._reaching.cancel)
        failure = None if self._reaching.cancelled() else self._reaching.exception()
        if cancelled is not None:
            raise cancelled
        if self._reaching.cancelled() and not self.control.requested:
            failure = _own_cancellation("what reaches this host")
        if failure is not None:
            raise failure

    def cancel(self) -> None:
        """Ask the host's command to end; a second call skips the grace."""
        self.control.cancel()
        if self._reaching is not None:
            self._reaching.cancel()


def _is_cancelled() -> bool:
    """Whether this task itself was cancelled. Otherwise a `CancelledError` comes from an operation that the task awaited."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _own_cancellation(what: str) -> AnyshellError:
    """Return the error for a cancellation that was not requested: an unchanged `CancelledError` would end the run silently."""
    return AnyshellError(f"{what} was cancelled from within; that is a bug in its code")
