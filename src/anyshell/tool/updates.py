"""The latest output of a command, for a listener that cannot hold the command up."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from ..output import LineDecoder, Page, Recoder

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from .._types import Channel


class Update(str):
    """The end of what a command has printed so far, cleaned.

    Attributes:
        call_id: The id of the call that runs it, for `ShellTool.cancel`.
    """

    call_id: str

    def __new__(cls, text: str, call_id: str) -> Self:
        """Make one of a text."""
        update = super().__new__(cls, text)
        update.call_id = call_id
        return update


OnUpdate = Callable[[Update], Awaitable[object] | object]
"""Is given the end of what a command has printed so far; may be async."""

_MARGIN = 4
"""Bytes kept for one byte of an update, raw: escape sequences go, and the raw bytes may begin within a character."""

_CANCEL_BOUND = 1.0
"""Seconds for an update under way to end when the command has ended."""


class Updates:
    """Calls a listener with the tail of an output, never more often than agreed, in a task of its own.

    While the listener is busy, output goes on: it next hears the tail as it is then. When it raises, whatever it is,
    it is not called again; when the command ends, it is cancelled, and never called again either.

    Args:
        on_update: Called in the event loop. One that is not async and blocks holds up everything else there, the
            command's deadline too.
        call_id: The id of the call in its updates.
        interval: Seconds between the end of one call and the next, at least.
        limit: Bytes of a tail in UTF-8, at most.
        hide: Takes out of a text what is not to be shown.
        code_page: The number of the host's code page; ``None`` is no code page.
    """

    def __init__(
        self,
        on_update: OnUpdate,
        *,
        call_id: str,
        interval: float,
        limit: int,
        hide: Callable[[str], str],
        code_page: int | None = None,
    ) -> None:
        self.error: BaseException | None = None
        self._closed = False
        self._on_update = on_update
        self._call_id = call_id
        self._interval = interval
        self._limit = limit
        self._hide = hide
        self._recoder = Recoder(Page.of(code_page))
        self._raw = bytearray()
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.ensure_future(self._run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._task is not None
        self._closed = True
        self._task.cancel()
        await asyncio.wait([self._task], timeout=_CANCEL_BOUND)

    def feed(self, data: bytes) -> None:
        """Take what was printed."""
        self._raw += self._recoder.feed(data)
        del self._raw[: -_MARGIN * self._limit]
        self._news.set()

    async def hear(self, channel: Channel, data: bytes) -> None:
        """Take what was printed, as a run's listener. Never waits for the call."""
        self.feed(data)
        await asyncio.sleep(0)  # or a command that prints all at once could be over before the first call

    async def _run(self) -> None:
        # The listener may catch our cancellation: the flag, not the exception, says that it is over.
        while not self._closed:
            await self._news.wait()
            self._news.clear()
            try:
                answer = self._on_update(Update(self._tail(), self._call_id))
                if inspect.isawaitable(answer):
                    await answer
            except BaseException as error:  # noqa: BLE001 - whatever goes wrong there, the command goes on
                if not self._closed:
                    self.error = error
                return
            if not self._closed:
                await asyncio.sleep(self._interval)

    def _tail(self) -> str:
        decoder = LineDecoder()
        lines = [*decoder.feed(bytes(self._raw)), *decoder.flush()]
        text = "".join(f"{line.text}\n" if line.complete else line.text for line in lines)
        return self._hide(text).encode()[-self._limit :].decode(errors="ignore")
