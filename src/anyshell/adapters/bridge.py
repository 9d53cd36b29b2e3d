"""Calls of other threads into the event loop of an environment, for frameworks that block."""

from __future__ import annotations

import asyncio
import concurrent.futures
from typing import TYPE_CHECKING, Any, TypeVar

from .._exceptions import AnyshellError

if TYPE_CHECKING:
    from collections.abc import Coroutine

Result = TypeVar("Result")

LOOK_SECONDS = 1.0
"""Seconds between two looks, by a thread that waits for an event loop, at whether that is still open."""


class Bridge:
    """The running event loop, for calls from other threads. Made where the environment was entered."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    def wait(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Have the loop do something, and wait for that; an exception in the waiting thread cancels it.

        Raises:
            AnyshellError: This is the loop's own thread, which would wait for itself; or the loop is closed.
        """
        try:
            here: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            here = None
        if here is self._loop or self._loop.is_closed():
            work.close()
            raise AnyshellError(
                "the event loop of the environment is closed: keep it open until the last call has come back"
                if self._loop.is_closed()
                else "the event loop of the environment would wait for itself: use the framework's async methods here"
            )
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            while True:
                done, _ = concurrent.futures.wait((future,), timeout=LOOK_SECONDS)
                if done:
                    return future.result()
                if self._loop.is_closed():
                    raise AnyshellError("the event loop of the environment was closed during the call")
        finally:
            future.cancel()
