"""The output of a program without secrets, masked between a stream and its reader."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

import anyio
from anyio.abc import ByteReceiveStream

from .._waits import note_failure

if TYPE_CHECKING:
    from collections.abc import Callable


class Mask(Protocol):
    """A filter that masks secrets in bytes as they come, however these are cut."""

    @property
    def holds(self) -> bool:
        """Whether something is held back that may be the beginning of a secret."""

    def feed(self, data: bytes) -> bytes:
        """Take bytes, and give those that may be shown by now."""

    def release(self) -> bytes:
        """Give what is held back: nothing came that would make a secret of it."""

    def end(self) -> bytes:
        """Release all that is held, where the output has ended."""


class MaskedStream(ByteReceiveStream):
    """A stream without secrets.

    Args:
        stream: The stream.
        mask: Masks them.
        seconds: For which output is held back that may be the beginning of a secret, after the last of it.
        longer: The same while `likely` says so.
        likely: Whether what is held back is more than a chance, and more may come.
        at_once: Bytes in which secrets are looked for before other tasks get a turn, asked for each time; ``None`` is no bound.
        heard: Called when something came, whether or not it is held back.
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
        """Receive what may be shown."""
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
                    return mask.end()  # what broke it is told again
                raise
            self._heard()
            if shown := mask.feed(data):
                return shown

    async def aclose(self) -> None:
        """Close the stream."""
        self.stop()
        await self._stream.aclose()

    def stop(self) -> None:
        """Wait for nothing more."""
        if self._coming is not None:
            self._coming.cancel()

    async def _next(self, max_bytes: int) -> bytes | None:
        """The next bytes, or ``None`` when they are long in coming. A read under way is never given up."""
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
