"""The latest output of a command, for a callback that cannot hold up the command."""

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
    """The end of a command's output so far, cleaned.

    Attributes:
        call_id: The id of the command's call, for `ShellTool.cancel`.
    """

    call_id: str

    def __new__(cls, text: str, call_id: str) -> Self:
        """Make an update of a text."""
        update = super().__new__(cls, text)
        update.call_id = call_id
        return update


OnUpdate = Callable[[Update], Awaitable[object] | object]
"""A callback that is given the end of a command's output so far; may be async."""

_MARGIN = 4
"""Bytes of raw output kept for one byte of an update: escape sequences are removed, and the first character may be cut."""

_CANCEL_BOUND = 1.0
"""Seconds for an update under way to end after the command's end; then the call returns without waiting longer."""


class Updates:
    """A task that calls a callback with the tail of a command's output, at most once per interval.

    While the callback is busy, output goes on; the next update has the tail of that later moment. A callback that raises
    any exception is not called again. At the end of the command a running callback is cancelled, and never called again.

    Args:
        on_update: The callback, called in the event loop. A blocking callback that is not async holds up the whole event
            loop, including the command's deadline.
        call_id: The id of the call in the updates.
        interval: Seconds between the end of one callback and the next callback, at least.
        limit: Bytes of a tail in UTF-8, at most.
        hide: Masks secrets in a text.
        code_page: The number of the host's code page; ``None`` means no code page.
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
        """Add printed bytes to the tail."""
        self._raw += self._recoder.feed(data)
        del self._raw[: -_MARGIN * self._limit]
        self._news.set()

    async def hear(self, channel: Channel, data: bytes) -> None:
        """Add printed bytes to the tail, as a run's listener; never wait for the callback."""
        self.feed(data)
        await asyncio.sleep(0)  # otherwise a short command could end before the first callback

    async def _run(self) -> None:
        # The callback may catch the cancellation: the flag, not the exception, tells the end of the loop.
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
