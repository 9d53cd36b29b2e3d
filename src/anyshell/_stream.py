"""The output of a running command as a stream of events."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Literal

import anyio

from ._engine import Control
from ._exceptions import AnyshellError
from ._types import Channel, Outcome
from ._waits import AsyncOnly, Changes, outlast
from .output import LineDecoder, Page, TextDecoder

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from ._types import OutputEvent

Listener = Callable[[Channel, bytes], Awaitable[None]]

WAITING_PIECES = 16
"""Pieces of output, of at most 64 KiB each, that wait for a slow reader of a stream; then the command is slowed down."""


class Stream(AsyncOnly):
    """An iterator over the output of a running command; afterwards the stream has the command's outcome.

    Leaving the ``async with`` before the end stops the command; the outcome is then ``cancelled``.
    """

    def __init__(
        self,
        run: Callable[[Listener, Control], Awaitable[Outcome]],
        *,
        by: Literal["lines", "chunks"] = "lines",
        code_page: int | None = None,
    ) -> None:
        self._run = run
        self._control = Control()
        page = Page.of(code_page)
        self._decode = _Lines(page) if by == "lines" else _Chunks(page)
        self._task: asyncio.Task[Outcome] | None = None
        self._pieces: deque[tuple[Channel, bytes]] = deque()
        self._left = False
        self._changes = Changes()

    @property
    def outcome(self) -> Outcome:
        """The outcome of the command.

        Raises:
            AnyshellError: The command still runs: iterate to the end, or leave the ``async with``, first.
        """
        if self._task is None or not self._task.done():
            raise AnyshellError(
                "the command has no outcome yet: iterate to the end or leave the 'async with' first"
            )
        return self._task.result()

    @property
    def pid(self) -> int | None:
        """The pid on the host of the command's shell; also the id of its process group, where hosts have process groups.

        ``None`` before the start, and where the host does not tell the pid.
        """
        return None if self._control.process is None else self._control.process.pid

    def cancel(self) -> None:
        """Ask the command to end. Events continue until the end; the outcome is then ``cancelled``."""
        self._control.cancel()

    async def __aenter__(self) -> Self:
        if self._task is not None:
            raise AnyshellError("a stream is entered once: ask the environment for another one")
        self._task = asyncio.ensure_future(self._run(self._tell, self._control))
        self._task.add_done_callback(lambda _: self._changes.notify())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        task = self._started()
        self._control.cancel()
        self._left = True
        self._changes.notify()
        cancelled = await outlast(task, task.cancel)
        if error is None and not task.cancelled() and (failure := task.exception()) is not None:
            raise failure
        if cancelled is not None:
            raise cancelled

    async def __aiter__(self) -> AsyncIterator[OutputEvent]:
        async for events in self._events():
            for event in events:
                yield event

    async def _events(self) -> AsyncIterator[list[OutputEvent]]:
        """Yield all events of a piece of output at once, for the blocking twin, whose every step is a call to another thread."""
        task = self._started()
        while self._pieces or not task.done():
            if not self._pieces:
                await self._changes.wait()
                continue
            channel, data = self._pieces.popleft()
            self._changes.notify()
            yield self._decode.feed(channel, data)
        yield self._decode.flush()
        await task

    def _started(self) -> asyncio.Task[Outcome]:
        if self._task is None:
            raise AnyshellError(
                "the stream was not entered: use 'async with env.stream(...) as events', then 'async for event in events'"
            )
        return self._task

    async def _tell(self, channel: Channel, data: bytes) -> None:
        while len(self._pieces) >= WAITING_PIECES and not self._left:
            await self._changes.wait()
        if self._left:
            raise anyio.BrokenResourceError
        self._pieces.append((channel, data))
        self._changes.notify()


class _Chunks:
    def __init__(self, page: Page | None) -> None:
        self._page = page
        self._decoders: dict[Channel, TextDecoder] = {}

    def feed(self, channel: Channel, data: bytes) -> list[OutputEvent]:
        decoder = self._decoders.setdefault(channel, TextDecoder(self._page))
        return [_event(channel, data, decoder.decode(data))]

    def flush(self) -> list[OutputEvent]:
        rest = [(channel, decoder.flush()) for channel, decoder in self._decoders.items()]
        return [_event(channel, b"", text) for channel, text in rest if text]


class _Lines:
    def __init__(self, page: Page | None) -> None:
        self._page = page
        self._decoders: dict[Channel, LineDecoder] = {}

    def feed(self, channel: Channel, data: bytes) -> list[OutputEvent]:
        decoder = self._decoders.setdefault(channel, LineDecoder(self._page))
        return [_event(channel, line.data, line.text, line.complete) for line in decoder.feed(data)]

    def flush(self) -> list[OutputEvent]:
        rest = [(channel, line) for channel, decoder in self._decoders.items() for line in decoder.flush()]
        return [_event(channel, line.data, line.text, line.complete) for channel, line in rest]


def _event(channel: Channel, data: bytes, text: str, complete: bool = True) -> OutputEvent:
    from ._types import OutputEvent  # imported here: some commands print nothing

    return OutputEvent(channel=channel, data=data, text=text, complete=complete)
