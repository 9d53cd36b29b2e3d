"""A thread for work that must not hold up the loop, one piece after the other."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class RecordingWorker:
    """Does things in the order in which it is given them. Its thread is begun by the first, and ended by `end`.

    It is a daemon, and none of an executor's: those are waited for when the interpreter ends, and a disk that hangs would
    keep the program from ending.

    Args:
        name: The name of its thread.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._work: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._begun = False

    def do(self, work: Callable[[], object]) -> asyncio.Future[None]:
        """Make a call in the thread. It is made also when it is not awaited any more.

        Raises:
            RuntimeError: There is no thread to be had.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        done.add_done_callback(lambda done: done.cancelled() or done.exception())  # looked at

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
        """Take nothing more; what it was given is done."""
        self._work.put(None)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            work()
