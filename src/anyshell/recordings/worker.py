"""A thread for calls that must not block the event loop, one call after the other."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class RecordingWorker:
    """A worker that makes calls in their order, in a thread of its own. The first call starts the thread, `end` ends it.

    The thread is a daemon and not an executor's: the interpreter waits for an executor's threads at exit, so a disk that hangs
    would keep the program from ending.

    Args:
        name: The name of the thread.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._work: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._begun = False

    def do(self, work: Callable[[], object]) -> asyncio.Future[None]:
        """Make a call in the thread, even if the returned future is no longer awaited.

        Raises:
            RuntimeError: The thread cannot be started.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        done.add_done_callback(
            lambda done: done.cancelled() or done.exception()
        )  # retrieved, so that asyncio logs no warning

        def tell(error: Exception | None) -> None:
            if done.done():
                return
            if error is None:
                done.set_result(None)
            else:
                done.set_exception(error)

        def perform() -> None:
            error: Exception | None = None
            try:
                work()
            except Exception as caught:  # noqa: BLE001 - it is passed on to the waiting task
                error = caught
            with contextlib.suppress(RuntimeError):  # the loop is closed: no task waits
                loop.call_soon_threadsafe(tell, error)

        if not self._begun:
            threading.Thread(target=self._run, name=self._name, daemon=True).start()
            self._begun = True
        self._work.put(perform)
        return done

    def end(self) -> None:
        """End the thread after all calls so far; accept no further call."""
        self._work.put(None)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            work()
