"""Calls from other threads and other event loops into the event loop of an environment."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import time
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from .._exceptions import AnyshellError
from .._waits import to_the_end

if TYPE_CHECKING:
    from collections.abc import Coroutine

Result = TypeVar("Result")

LOOK_SECONDS = 1.0
"""Seconds between two checks, by a caller that waits for another event loop, that the other loop is still open."""

BEGIN_SECONDS = 10.0
"""Seconds for the environment's event loop to begin a call; then the call is given up and nothing has run. The framework that
makes the call then probably blocks the loop."""


class Bridge:
    """The running event loop of an environment, for calls from elsewhere; make it where the environment was entered."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    def wait(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine in the loop, and block until its end; an exception in the waiting thread cancels the coroutine.

        Raises:
            AnyshellError: The caller is in the loop's own thread, which would wait for itself; or the loop is closed or
                blocked.
        """
        if self._is_here():
            work.close()
            raise AnyshellError(
                "the event loop of the environment would wait for itself: use the framework's async methods here, or call it in "
                "another thread"
            )
        call = self._call(work)
        try:
            while not call.over.done():
                concurrent.futures.wait((call.over,), timeout=LOOK_SECONDS)
                call.check()
            return call.over.result()
        finally:
            call.cancel()

    async def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine in the loop, and await its end in any loop; a cancellation first ends the coroutine, then raises.

        Raises:
            AnyshellError: The loop is closed or blocked.
        """
        if self._is_here():
            return await work
        call = self._call(work)
        return await to_the_end(call.wait_over(), stop=call.cancel)

    def _is_here(self) -> bool:
        try:
            return asyncio.get_running_loop() is self._loop
        except RuntimeError:
            return False

    def _call(self, work: Coroutine[Any, Any, Result]) -> _Call[Result]:
        if self._loop.is_closed():
            work.close()
            raise AnyshellError(
                "the event loop of the environment is closed: keep it open until the last call has come back"
            )
        return _Call(self._loop, work)


class _Call(Generic[Result]):
    """A coroutine that runs in another event loop.

    Attributes:
        over: The future of the result: running once the coroutine has begun, done once the coroutine has ended.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Result]) -> None:
        self.over: concurrent.futures.Future[Result] = concurrent.futures.Future()
        self._loop = loop
        self._work = work
        self._task: asyncio.Task[Result] | None = None
        self._given_up = time.monotonic() + BEGIN_SECONDS
        loop.call_soon_threadsafe(self._begin)

    def _begin(self) -> None:
        if (
            not self.over.set_running_or_notify_cancel()
        ):  # the future's lock decides between the begin and a cancellation
            self._work.close()
            return
        self._task = self._loop.create_task(self._work)
        self._task.add_done_callback(self._tell)

    def _tell(self, task: asyncio.Task[Result]) -> None:
        if task.cancelled():
            self.over.set_exception(concurrent.futures.CancelledError())
        elif (error := task.exception()) is not None:
            self.over.set_exception(error)
        else:
            self.over.set_result(task.result())

    def check(self) -> None:
        """Raise if the call can no longer begin or end, since the loop was closed or is blocked."""
        if self.over.done():
            return
        if self._loop.is_closed():
            raise AnyshellError("the event loop of the environment was closed during the call")
        if time.monotonic() > self._given_up and self.over.cancel():
            raise AnyshellError(
                "nothing ran: the event loop of the environment is blocked. Call the framework's async methods in it, or its "
                "blocking ones in another thread"
            )

    async def wait_over(self) -> Result:
        """Wait for the result in another event loop than that of the coroutine."""
        over = asyncio.wrap_future(self.over)
        while not over.done():
            await asyncio.wait([over], timeout=LOOK_SECONDS)
            if not over.done():
                self.check()
        return over.result()

    def cancel(self) -> None:
        """Request the end of the coroutine; do nothing after its end."""
        if self.over.done() or self.over.cancel():
            return
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._stop)

    def _stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
