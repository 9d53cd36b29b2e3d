"""Waiting for work that has to be over when control returns, also when who waits is cancelled."""

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
