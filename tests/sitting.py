"""A simulated person at the terminal of a program."""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import TYPE_CHECKING

import anyio

from anyshell._types import ExitStatus, Spawn, Terminal
from anyshell.errors import SpawnError
from anyshell.output import TerminalOutput

from .systems import SYSTEM

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from anyshell.abc import Backend, Process

BOUND = 20.0
"""Seconds after which expected output counts as missing."""


class Sitting:
    """A person at the terminal of a program, who reads the output and types."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        self.process = process
        self.keys = process.stdin
        self.shown = b""
        self._read = 0
        self._answers = bytearray()
        self._screen = TerminalOutput(Terminal(), answer=self._answers.extend)

    async def until(self, text: str) -> str:
        """Wait for a text after the previously awaited text; return the output up to its end."""
        async with asyncio.timeout(BOUND):
            while (at := self.shown.find(text.encode(), self._read)) < 0:
                await self._receive()
        seen = self.shown[self._read : at]
        self._read = at + len(text.encode())
        return seen.decode()

    async def rest(self) -> bytes:
        """Read to the end; return the whole output."""
        with contextlib.suppress(anyio.EndOfStream):
            async with asyncio.timeout(BOUND):
                while True:
                    await self._receive()
        return self.shown

    async def _receive(self) -> None:
        data = await self.process.stdout.receive()
        self.shown += data
        if self.process.terminal_kind in ("conpty", "winpty"):
            # The first program shows no text before it knows its cursor position; the other program asks to find out whether Escape
            # was a key, or begins one.
            self._screen.feed(data)
            if self._answers:
                answers, self._answers[:] = bytes(self._answers), b""
                await self.keys.send(answers)

    async def type(self, text: str) -> None:
        async with asyncio.timeout(BOUND):
            await self.keys.send(text.encode())

    async def wait(self) -> ExitStatus:
        async with asyncio.timeout(BOUND):
            return await self.process.wait()


@contextlib.asynccontextmanager
async def sit(
    backend: Backend,
    *argv: str,
    columns: int = 80,
    rows: int = 24,
    env: dict[str, str] | None = None,
    script: str | None = None,
) -> AsyncIterator[Sitting]:
    """Start a program on a terminal: a single argument is a text for bash."""
    words = argv if len(argv) > 1 else ("/bin/bash", "-c", *argv)
    spawn = Spawn(
        argv=words,
        cwd=os.path.abspath(os.sep),
        env=env or {},
        script=script,
        terminal=Terminal(columns=columns, rows=rows),
    )
    try:
        process = await backend.spawn(spawn)
    except SpawnError as error:
        # Rarely Wine 8 cannot create a process (ERROR_INTERNAL_ERROR); the failure leaves no process.
        if SYSTEM != "wine" or "Internal error" not in str(error):
            raise
        process = await backend.spawn(spawn)
    try:
        yield Sitting(process)
    finally:
        await process.aclose()
