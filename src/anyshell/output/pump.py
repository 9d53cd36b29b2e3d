"""The pump that carries a command's output from its stream to the builder, and to a listener."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import anyio

from .._waits import expire

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from anyio.abc import ByteReceiveStream

    from .._types import Channel
    from .text.builder import Builder

READ_SIZE = 64 * 1024
"""Bytes asked for by one read: the capacity of a Linux pipe. A larger read is slower, since each read allocates anew."""


class Pump:
    """The reader of one stream, up to the stream's end.

    Args:
        stream: The stream that is read.
        builder: The builder of the output; the builder gets every byte before the listener.
        channel: The channel of the output, for the listener.
        listener: Called with every piece of output and awaited, so a slow listener slows the program down instead of
            filling our memory.

    Attributes:
        last_heard: The time of the last output, or of the listener's last return, by the monotonic clock; 0 before any output.
    """

    def __init__(
        self,
        stream: ByteReceiveStream,
        builder: Builder,
        channel: Channel,
        listener: Callable[[Channel, bytes], Awaitable[None]] | None = None,
    ) -> None:
        self._stream = stream
        self._builder = builder
        self._channel = channel
        self._listener = listener
        self._hearing: asyncio.Timeout | None = None
        self.last_heard = 0.0

    async def run(self) -> None:
        """Carry output until the stream ends or breaks. A broken stream is not an error here."""
        receive, feed, now = self._stream.receive, self._builder.feed, time.monotonic
        # Looked up before the first read: anyio imports names at first use, which fails while the interpreter is ending.
        ends = anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError
        try:
            while True:
                data = await receive(READ_SIZE)
                self.last_heard = now()
                feed(data)
                if self._listener is not None:
                    await self._tell(data)
        except ends:
            pass

    @property
    def held_up(self) -> bool:
        """Whether the listener, not the program, holds up the output."""
        return self._hearing is not None

    def mute(self) -> None:
        """Stop calling the listener, at once; all output still reaches the builder."""
        self._listener = None
        if self._hearing is not None:
            expire(self._hearing)

    async def _tell(self, data: bytes) -> None:
        assert self._listener is not None
        hearing = self._hearing = asyncio.timeout(None)
        try:
            async with hearing:
                await self._listener(self._channel, data)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            self._listener = None  # the listener has failed; the command goes on
        except TimeoutError:
            if not hearing.expired():
                raise  # a timeout of the listener itself
        finally:
            self.last_heard = time.monotonic()
            self._hearing = None  # also when the listener fails: otherwise the engine would wait for ever
