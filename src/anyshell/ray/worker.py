"""The actor: a process on a node that holds open environments."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, TypeVar

import ray

from .._engine import Control
from .._environment import Environment
from .._exceptions import AnyshellError, ConnectionFailed
from ..backends import connect

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from contextlib import AbstractAsyncContextManager

    from .._runner import RunOptions
    from .._types import Command, Outcome

    Make = Callable[[int], AbstractAsyncContextManager[Environment]]

T = TypeVar("T")

LOOK_SECONDS = 0.1
"""Seconds between two checks whether a command has started; the answer counts if the actor is lost later."""


class Worker:
    """The actor, which holds open environments in one process.

    A method that uses an environment returns its value in a tuple. ``None`` means that the environment is not open, since Ray
    has restarted the actor.
    """

    def __init__(self, make: Make | None, seconds: float) -> None:
        self._here = connect("local")
        self._make = make or (lambda _: Environment.detect(self._here))
        self._seconds = seconds
        self._environments: dict[int, tuple[Environment, AsyncExitStack]] = {}
        self._locks: dict[int, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._calls: dict[str, tuple[Callable[[], object], Callable[[], bool]]] = {}
        """Two functions for each call: the first stops the call, the second tells whether the call has started."""

    async def hello(self) -> str:
        """Return the id of the actor's node."""
        return str(ray.get_runtime_context().get_node_id())

    async def open(self, number: int) -> None:
        """Open an environment, unless it is already open."""
        async with self._locks[number]:
            if number in self._environments:
                return
            async with AsyncExitStack() as stack:
                try:
                    async with asyncio.timeout(self._seconds) as clock:
                        environment = await stack.enter_async_context(self._make(number))
                except TimeoutError:
                    if not clock.expired():
                        raise
                    raise ConnectionFailed(f"it was not opened within {self._seconds:g} s") from None
                self._environments[number] = environment, stack.pop_all()

    async def run(
        self, token: str, number: int, request: Command, options: RunOptions
    ) -> tuple[Outcome] | None:
        """Run a command in an environment."""
        if number not in self._environments:
            return None
        control = Control()
        with self._calling(token, control.cancel, lambda: control.process is not None):
            environment, _ = self._environments[number]
            return (await environment.runner.run(request, options, control=control),)

    async def call(
        self, token: str, number: int, function: Callable[..., Any], args: Any, named: Any
    ) -> tuple[Any] | None:
        """Call a function with an environment."""
        if number not in self._environments:
            return None
        environment, _ = self._environments[number]
        task = asyncio.ensure_future(_called(function(environment, *args, **named)))
        with self._calling(token, task.cancel, lambda: True):
            await asyncio.wait([task])
        if task.cancelled():
            raise AnyshellError("the function was cancelled")
        return (task.result(),)

    @contextlib.contextmanager
    def _calling(
        self, token: str, stop: Callable[[], object], has_started: Callable[[], bool]
    ) -> Iterator[None]:
        self._calls[token] = stop, has_started
        try:
            yield
        finally:
            del self._calls[token]

    async def await_start(self, token: str) -> None:
        """Wait until a call has started or ended."""
        while token in self._calls and not self._calls[token][1]():  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(LOOK_SECONDS)

    async def stop(self, token: str) -> None:
        """Stop a call, if it is under way."""
        if token in self._calls:
            self._calls[token][0]()

    async def close(self, number: int) -> None:
        """Close an environment, if it is open."""
        async with self._locks[number]:
            if number in self._environments:
                _, stack = self._environments.pop(number)
                await stack.aclose()

    async def aclose(self) -> None:
        """Close all environments of the actor."""
        try:
            await asyncio.gather(*map(self.close, tuple(self._environments)))
        finally:
            await self._here.aclose()


async def _called(result: Awaitable[T]) -> T:
    """Await a function's result; turn an exit into an error, since an exit would end the actor's event loop."""
    try:
        return await result
    except (SystemExit, KeyboardInterrupt) as error:
        raise AnyshellError(
            f"the function ended with {error!r}: return from it, or raise an error"
        ) from error
