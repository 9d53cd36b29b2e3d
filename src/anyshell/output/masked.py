"""A stream of output without secrets: a mask between the program's stream and the reader."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

import anyio
from anyio.abc import ByteReceiveStream

from .._waits import note_failure

if TYPE_CHECKING:
    from collections.abc import Callable


class Mask(Protocol):
    """A filter that masks secrets in a stream of bytes, however the bytes are cut into pieces."""

    @property
    def holds(self) -> bool:
        """Whether bytes are held back that may begin a secret."""

    def feed(self, data: bytes) -> bytes:
        """Take bytes, and return the bytes that may be shown now."""

    def release(self) -> bytes:
        """Return the held bytes: no further bytes came that complete a secret."""

    def end(self) -> bytes:
        """Release the held bytes at the end of the output."""


class MaskedStream(ByteReceiveStream):
    """A stream whose bytes pass through a mask.

    Args:
        stream: The stream with the secrets.
        mask: The mask that removes the secrets.
        seconds: The time for which output that may begin a secret is held back, after its last byte.
        longer: The same time while `likely` returns true.
        likely: Returns whether the held bytes are probably a secret's, and more bytes may come.
        at_once: Returns the bytes that are masked before other tasks get a turn; ``None`` means no bound. Called for each receive.
        heard: Called when bytes came, held back or not.
    """

    def __init__(
        self,
        stream: ByteReceiveStream,
        mask: Mask,
        *,
        seconds: float,
        longer: float = 0.0,
        likely: Callable[[], bool] = lambda: False,
        at_once: Callable[[], int | None] = lambda: None,
        heard: Callable[[], object] = lambda: None,
    ) -> None:
        self._stream = stream
        self._mask = mask
        self._seconds = seconds
        self._longer = longer
        self._likely = likely
        self._at_once = at_once
        self._heard = heard
        self._coming: asyncio.Task[bytes] | None = None

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """Receive bytes that may be shown."""
        mask = self._mask
        if (most := self._at_once()) is not None:
            max_bytes = min(max_bytes, most)
            await asyncio.sleep(0)
        while True:
            try:
                if mask.holds or self._coming is not None:
                    data = await self._next(max_bytes)
                    if data is None:
                        return mask.release()
                else:
                    data = await self._stream.receive(max_bytes)
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                if mask.holds:
                    return mask.end()  # the next receive raises the error again
                raise
            self._heard()
            if shown := mask.feed(data):
                return shown

    async def aclose(self) -> None:
        """Close the stream."""
        self.stop()
        await self._stream.aclose()

    def stop(self) -> None:
        """Cancel a pending read."""
        if self._coming is not None:
            self._coming.cancel()

    async def _next(self, max_bytes: int) -> bytes | None:
        """Return the next bytes; ``None`` when no bytes come in time. A pending read is never given up."""
        if self._coming is None:
            self._coming = asyncio.ensure_future(self._stream.receive(max_bytes))
            self._coming.add_done_callback(note_failure)
        waited = 0.0
        while not (await asyncio.wait([self._coming], timeout=self._seconds if self._mask.holds else None))[
            0
        ]:
            waited += self._seconds
            if waited >= self._longer or not self._likely():
                return None
        coming, self._coming = self._coming, None
        return coming.result()
