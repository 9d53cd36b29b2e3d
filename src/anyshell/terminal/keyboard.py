"""Input for a terminal: in order, and never more than the program takes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import anyio
from anyio.abc import ByteSendStream

from .._exceptions import AnyshellError, InvalidCommand

if TYPE_CHECKING:
    from collections.abc import Callable

PIECE = 4096
"""Bytes typed at once: so it is known exactly how many were taken."""

ANSWERS = 4096
"""Bytes of answers to a program's queries that wait until it reads them; more are not given."""


class Keyboard(ByteSendStream):
    """Types what people send, and the answers to a program's queries, on the same terminal.

    Args:
        terminal: The terminal that takes the input.
        on_typed: Is called when something was typed that is no answer.
    """

    def __init__(self, terminal: ByteSendStream, on_typed: Callable[[], object]) -> None:
        self._terminal = terminal
        self._on_typed = on_typed
        self._turn = asyncio.Lock()
        self._answers = bytearray()
        self._answering: asyncio.Task[None] | None = None

    async def send(self, item: bytes) -> None:
        """Type bytes. Waits until they are taken, for as long as that takes."""
        async with self._turn:
            for start in range(0, len(item), PIECE):
                self._on_typed()
                await self._terminal.send(item[start : start + PIECE])
        self._on_typed()

    async def type(self, data: bytes, *, seconds: float | None) -> int:
        """Type bytes, and wait at most so long for each piece of them to be taken; also for one's turn.

        ``None`` is no bound.

        Returns:
            How many were taken; of the piece after these, a part may have been.

        Raises:
            InvalidCommand: The terminal does not take them; nothing was typed.
            AnyshellError: It did not take all of them.
        """
        taken = 0
        try:
            async with asyncio.timeout(seconds) as clock, self._turn:
                while taken < len(data):
                    self._on_typed()
                    if seconds is not None:
                        clock.reschedule(asyncio.get_running_loop().time() + seconds)
                    await self._terminal.send(data[taken : taken + PIECE])
                    taken += len(data[taken : taken + PIECE])
        except TimeoutError:
            if not clock.expired():
                raise
            return taken
        except InvalidCommand as error:
            if not taken:
                raise
            raise AnyshellError(f"after {taken:,} bytes that were typed: {error}") from error
        self._on_typed()
        return taken

    def answer(self, data: bytes) -> None:
        """Type an answer as soon as may be. Never waits."""
        if len(self._answers) + len(data) > ANSWERS:
            return  # a program that asks so much and reads nothing does not wait for the answers
        self._answers += data
        if self._answering is None:
            self._answering = asyncio.get_running_loop().create_task(self._answer())

    async def aclose(self) -> None:
        """Type the end of input."""
        async with self._turn:
            await self._terminal.aclose()

    def stop(self) -> None:
        """Answer no more."""
        if self._answering is not None:
            self._answering.cancel()

    async def _answer(self) -> None:
        try:
            while self._answers:
                async with self._turn:
                    data = bytes(self._answers)
                    self._answers.clear()
                    await self._terminal.send(data)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, InvalidCommand):
            self._answers.clear()  # it has ended, reads no more, or has asked more than a line holds
        finally:
            self._answering = None
