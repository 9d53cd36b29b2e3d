"""Calls of other threads, and of other event loops, into the event loop of an environment."""

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
"""Seconds between two looks, by a caller that waits for another event loop, at whether that is still open."""

BEGIN_SECONDS = 10.0
"""Seconds until a call is given up that the event loop of the environment has not begun, since that is probably blocked by the
framework that makes the call; nothing has run then."""


class Bridge:
    """The running event loop, for calls from elsewhere. Made where the environment was entered."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    def wait(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Have the loop do something, and block until it is done; an exception in the waiting thread cancels it.

        Raises:
            AnyshellError: This is the loop's own thread, which would wait for itself; or the loop is closed, or blocked.
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
        """Have the loop do something, and await that in whichever loop; a cancellation ends it before it is raised.

        Raises:
            AnyshellError: The loop is closed, or blocked.
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
    """Something that another event loop does.

    Attributes:
        over: What came of it; done when all of it is over, and running once it has begun.
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
        ):  # one of beginning and giving up comes first, by its lock
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
        """Give up where nothing can come of it any more."""
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
        """Wait for it in another event loop than its own."""
        over = asyncio.wrap_future(self.over)
        while not over.done():
            await asyncio.wait([over], timeout=LOOK_SECONDS)
            if not over.done():
                self.check()
        return over.result()

    def cancel(self) -> None:
        """Ask it to end, if it has not ended."""
        if self.over.done() or self.over.cancel():
            return
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._stop)

    def _stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
