"""Waiting: for work that has to be over when control returns, for calls that may hang, and for whatever happens next."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
from typing import TYPE_CHECKING, TypeVar

from anyio import CancelScope

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

T = TypeVar("T")


async def to_the_end(work: Coroutine[object, object, T], stop: Callable[[], object] | None = None) -> T:
    """Run work in a task of its own; when cancelled, ask it to stop and wait until it has cleaned up.

    However often who waits is cancelled, by asyncio's means or by anyio's, the work is asked once: so its own
    cleaning may wait for something. It has to have a bound of its own.

    Args:
        work: What is done.
        stop: How the work is asked to stop; ``None`` cancels its task.
    """
    task = asyncio.create_task(work)
    try:
        await asyncio.wait([task])
    except asyncio.CancelledError:
        (stop or task.cancel)()
        with CancelScope(shield=True):
            while not task.done():
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # looked at, or asyncio reports it as never retrieved
        raise
    return task.result()


async def in_a_thread(call: Callable[[], T]) -> T:
    """Make a blocking call that may hang in a thread of its own, for which nobody waits when he is cancelled.

    asyncio's own threads are a handful, so that a few such calls would hold up everybody who wants one.
    """
    made: concurrent.futures.Future[T] = concurrent.futures.Future()
    made.set_running_or_notify_cancel()  # from now on it cannot be cancelled, and takes what the call gives

    def work() -> None:
        try:
            made.set_result(call())
        except Exception as error:  # noqa: BLE001 - it is raised where the result is awaited
            made.set_exception(error)

    threading.Thread(target=work, name="anyshell call", daemon=True).start()
    return await asyncio.wrap_future(made)


class Changes:
    """Wakes all who wait for something to happen, whatever it is.

    Attributes:
        count: How often it has.
    """

    def __init__(self) -> None:
        self.count = 0
        self._waiting: set[asyncio.Future[None]] = set()

    def notify(self) -> None:
        """Something has happened."""
        self.count += 1
        for change in self._waiting:
            if not change.done():
                change.set_result(None)

    async def wait(self, seconds: float | None = None) -> bool:
        """Wait until something happens, at most so long; whether it did."""
        change: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(change)
        try:
            await asyncio.wait([change], timeout=seconds)
        finally:
            self._waiting.discard(change)
        return change.done()
