"""Input for a terminal, in order, and never more than the program takes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import anyio
from anyio.abc import ByteSendStream

from .._exceptions import AnyshellError, InvalidCommand

if TYPE_CHECKING:
    from collections.abc import Callable

PIECE = 4096
"""Bytes typed at once: longer input is typed in pieces, and the pieces count the bytes that were taken."""

ANSWERS = 4096
"""Bytes of answers to a program's queries that wait until the program reads; further answers are dropped."""


class Keyboard(ByteSendStream):
    """The keyboard of a terminal: types the caller's input, and the answers to a program's queries.

    Args:
        terminal: The terminal that takes the input.
        on_typed: Called before and after typing input that is not an answer.
    """

    def __init__(self, terminal: ByteSendStream, on_typed: Callable[[], object]) -> None:
        self._terminal = terminal
        self._on_typed = on_typed
        self._turn = asyncio.Lock()
        self._answers = bytearray()
        self._answering: asyncio.Task[None] | None = None

    async def send(self, item: bytes) -> None:
        """Type bytes, and wait without limit until the terminal has taken them."""
        async with self._turn:
            for start in range(0, len(item), PIECE):
                self._on_typed()
                await self._terminal.send(item[start : start + PIECE])
        self._on_typed()

    async def type(self, data: bytes, *, seconds: float | None) -> int:
        """Type bytes. Wait at most `seconds` for the turn, and again for the terminal to take each piece.

        ``None`` means no bound.

        Returns:
            The number of bytes taken; a part of the next piece may have been taken too.

        Raises:
            InvalidCommand: The terminal refuses the bytes; nothing was typed.
            AnyshellError: The terminal refuses the rest of the bytes.
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
        """Type an answer as soon as possible. Never waits."""
        if len(self._answers) + len(data) > ANSWERS:
            return  # a program that asks so often and reads nothing does not wait for the answers
        self._answers += data
        if self._answering is None:
            self._answering = asyncio.get_running_loop().create_task(self._answer())

    async def aclose(self) -> None:
        """Type the end of input."""
        async with self._turn:
            await self._terminal.aclose()

    def stop(self) -> None:
        """Stop answering queries."""
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
            self._answers.clear()  # the program has ended or stopped reading, or the answers are longer than a line
        finally:
            self._answering = None
