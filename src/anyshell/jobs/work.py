"""A run that continues in a task of its own."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from .. import _engine
from .._types import Outcome
from .._waits import Changes, note_failure
from ..output import OutputLog

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from anyio.abc import ByteSendStream

    from .._types import Channel
    from ..abc import Process
    from ..output import ArtifactStore


class Work:
    """A run in a task of its own, and the facts learnt meanwhile. Made by an `Environment`, for a `Job`.

    Args:
        store: The store of the run's whole output.
        control: Ends the run early; by default a new control.
        sends: Whether the run's stdin is a pipe for the data of `Job.send`, instead of the run's own input.
        code_page: The number of the host's code page; ``None`` means no code page.
    """

    def __init__(
        self,
        store: ArtifactStore | None,
        *,
        control: _engine.Control | None = None,
        sends: bool = False,
        code_page: int | None = None,
    ) -> None:
        self.log = OutputLog(store, code_page=code_page)
        self.control = control or _engine.Control()
        self.pid: int | None = None
        self.stdin: ByteSendStream | None = None
        self.started = datetime.now(UTC)
        self.ended: datetime | None = None
        self.last_heard = time.monotonic()
        self.on_output: Callable[[], object] | None = None
        self.begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.task: asyncio.Task[Outcome]
        self._sends = sends
        self._changes = Changes()

    def begin(self, run: Coroutine[Any, Any, Outcome]) -> None:
        """Start the run in a task of its own. A cancelled task also has an outcome, after the tree is gone."""
        self.task = asyncio.get_running_loop().create_task(_to_outcome(run))
        self.task.add_done_callback(self._end)

    def take(self, process: Process) -> Process:
        """Store the pid and the stdin of the started process, and return the process."""
        self.pid = process.pid
        if not self.begun.done():
            self.begun.set_result(None)
        if self._sends:
            self.stdin = process.stdin
        return process

    async def hear(self, channel: Channel, data: bytes) -> None:
        """Store a chunk of output, as the run's listener. Never waits."""
        self.log.write(data)
        self.last_heard = time.monotonic()
        self._changes.notify()
        if self.on_output is not None:
            self.on_output()

    async def changed(self, seconds: float | None = None) -> bool:
        """Wait for output or for the end, at most `seconds`; return whether either came."""
        if self.task.done():
            return False
        return await self._changes.wait(seconds)

    def _end(self, task: asyncio.Task[Outcome]) -> None:
        self.ended = datetime.now(UTC)
        note_failure(task)
        self._changes.notify()


async def _to_outcome(run: Coroutine[Any, Any, Outcome]) -> Outcome:
    began = time.monotonic()
    try:
        return await run
    except asyncio.CancelledError:
        return Outcome(status="cancelled", duration=time.monotonic() - began)
