"""Actors, and the places of environments in actors, as objects in the pool's own process."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from typing import TYPE_CHECKING, Any

import ray
from ray.exceptions import RayActorError, RayError, RayTaskError

from .._exceptions import EnvironmentLost
from .._waits import to_the_end
from .worker import LOOK_SECONDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from .._runner import RunOptions
    from .._types import Command, Outcome

PER_ENVIRONMENT = 8
"""Commands of one lease under way at once; one more waits for its turn. Without a lease an environment has one command."""

STOP_SECONDS = 10.0
"""Seconds, in addition to the grace, for an actor to stop a command or to close environments; then the actor is killed."""


class Actor:
    """An actor, as an object in the pool's own process.

    Attributes:
        node: The id of the actor's node; empty before the first answer.
        coming: A future that is done when a lost actor is back; ``None`` while the actor is there.
        gone: Whether a lost actor will not come back.
    """

    def __init__(self, handle: Any, on_gone: Callable[[], object]) -> None:
        self.handle = handle
        self.node = ""
        self.coming: asyncio.Future[None] | None = None
        self.gone = False
        self._on_gone = on_gone
        self._task: asyncio.Task[None] | None = None

    async def meet(self, **options: Any) -> None:
        """Wait until the actor answers, and record its node."""
        self.node = await self.handle.hello.options(**options).remote()

    def lose(self) -> None:
        """Mark the actor as lost until it answers again; Ray delivers the question to the restarted actor."""
        if self.coming is None:
            self.coming = asyncio.get_running_loop().create_future()
            self._task = asyncio.create_task(self._await_again(self.coming))

    async def _await_again(self, coming: asyncio.Future[None]) -> None:
        try:
            await self.meet(max_task_retries=-1)
        except RayError:
            self.gone = True
            self._on_gone()
        else:
            self.coming = None
            coming.set_result(None)

    def kill(self) -> None:
        """Kill an actor that does not answer; Ray restarts it."""
        ray.kill(self.handle, no_restart=False)

    async def aclose(self) -> None:
        """Close the actor's environments, and end the actor."""
        if self._task is not None:
            self._task.cancel()
        if not ray.is_initialized():  # the actor ended with the connection; a call would start a cluster
            return
        try:
            if self.node and self.coming is None:
                with contextlib.suppress(RayActorError, TimeoutError):
                    await asyncio.wait_for(self.handle.aclose.remote(), STOP_SECONDS)
        except RayTaskError as error:
            raise error.cause from error
        finally:
            ray.kill(self.handle)


class ActorPlace:
    """The place of one environment in an actor."""

    def __init__(self, actor: Actor, number: int, turns: asyncio.Semaphore, seconds: float) -> None:
        self.actor = actor
        self.number = number
        self._own_turns = asyncio.Semaphore(PER_ENVIRONMENT)
        self._turns = turns
        self._seconds = seconds
        self.opened = False
        """Whether the last use of the place has opened the environment, or found it open."""
        self.started: set[str] = set()
        """The tokens of the calls under way whose commands have started."""

    async def open(self) -> None:
        """Ensure that the environment is open."""
        async with self._turn():
            await self._open()

    async def run(self, request: Command, options: RunOptions, *, opens: bool = False) -> Outcome:
        """Run a command in the environment; with `opens`, open a closed environment first."""
        async with self._turn():
            if opens:
                await self._open()
            outcome: Outcome = await self._perform("run", request, options, grace=options.grace)
            return outcome

    async def call(self, function: Callable[..., Any], args: Any, named: Any) -> Any:
        """Call a function with the environment."""
        async with self._turn():
            return await self._perform("call", function, args, named, grace=0.0)

    @contextlib.asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        async with self._own_turns, self._turns:
            if self.actor.coming is not None:
                raise self._lost(False, "its actor or its node")
            yield

    async def _open(self) -> None:
        """Open the environment. A failure can be retried elsewhere: no command has started, and a lost actor is recorded."""
        self.opened = False
        await self._bounded(self.actor.handle.open.remote(self.number), self._seconds + STOP_SECONDS)
        self.opened = True

    async def close(self) -> None:
        """Close the environment, and stop its commands."""
        with contextlib.suppress(EnvironmentLost):
            await self._bounded(self.actor.handle.close.remote(self.number), STOP_SECONDS)

    async def _bounded(self, reference: Any, seconds: float) -> None:
        with self._telling(lambda: False):
            try:
                await asyncio.wait_for(reference, seconds)
            except TimeoutError as error:
                # An exception raised in the actor also has the class of its cause, here TimeoutError: do not take it for ours.
                if isinstance(error, RayTaskError):
                    raise
                self.actor.kill()
                self.actor.lose()
                raise self._lost(False, f"it has not answered for {seconds:g} s") from error

    async def _perform(self, method: str, *arguments: Any, grace: float) -> Any:
        """Call a method of the actor with the environment; a cancellation stops the method in the actor."""
        handle, token = self.actor.handle, uuid.uuid4().hex
        timer: asyncio.TimerHandle | None = None

        async def ask() -> None:
            await asyncio.sleep(LOOK_SECONDS)
            with contextlib.suppress(RayError):
                await handle.await_start.remote(token)
                self.started.add(token)

        async def work() -> Any:
            asking = asyncio.create_task(ask())
            try:
                return await getattr(handle, method).remote(token, self.number, *arguments)
            finally:
                asking.cancel()

        def stop() -> None:
            nonlocal timer
            handle.stop.remote(token)
            timer = asyncio.get_running_loop().call_later(grace + STOP_SECONDS, self.actor.kill)

        try:
            with self._telling(lambda: token in self.started or None):
                found = await to_the_end(work(), stop)
        finally:
            self.started.discard(token)
            if timer is not None:
                timer.cancel()
        if found is None:
            raise self._lost(False, "it was opened by an actor that is lost")
        return found[0]

    @contextlib.contextmanager
    def _telling(self, started: Callable[[], bool | None]) -> Iterator[None]:
        """Raise an actor's own exception with a note on its place, and the loss of an actor as `EnvironmentLost`."""
        try:
            yield
        except RayTaskError as error:
            cause: Exception = error.cause
            cause.add_note(f"in {self._place_name}")
            raise cause from error
        except RayError as error:
            if isinstance(error, RayActorError):
                self.actor.lose()
            raise self._lost(started(), "its actor or its node") from error

    def _lost(self, started: bool | None, why: str) -> EnvironmentLost:
        what = {
            True: "the command had started; it is unknown whether it ended",
            None: "it is unknown whether the command has started",
            False: "nothing has started",
        }[started]
        return EnvironmentLost(
            f"{self._place_name} is lost ({why}): {what}",
            started=started,
            environment=self.number,
            node=self.actor.node,
        )

    @property
    def _place_name(self) -> str:
        return f"environment {self.number} on Ray's node {self.actor.node}"
