"""Carry a command's output from its stream into its builder, and to a listener on the way."""

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
"""Bytes asked for by one read: a Linux pipe holds as many, and a larger read is slower (it allocates anew)."""


class Pump:
    """Reads one stream to its end.

    Args:
        stream: The stream that is read.
        builder: Is given every byte, first.
        channel: The channel of the output, as the listener is told.
        listener: Is given every piece of output after that and awaited, so a slow listener slows the
            program down instead of filling our memory.

    Attributes:
        last_heard: When output came last, or the listener was done with it, by the monotonic clock; 0 before any.
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
        """Carry output until the stream ends or breaks. What a stream breaks with is not an error here."""
        receive, feed, now = self._stream.receive, self._builder.feed, time.monotonic
        # Now: anyio imports names when they are first used, which fails where the interpreter is ending.
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
        """Whether the listener, and not the program, is what keeps output from coming."""
        return self._hearing is not None

    def mute(self) -> None:
        """Stop telling the listener, at once; everything still reaches the builder."""
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
                raise  # the listener's own
        finally:
            self.last_heard = time.monotonic()
            self._hearing = None  # also when it fails: or the engine would wait for it for ever
