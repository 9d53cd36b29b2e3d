"""Waiting: for work that has to be over when control returns, and for whatever happens next."""

from __future__ import annotations

import asyncio
import contextlib
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
