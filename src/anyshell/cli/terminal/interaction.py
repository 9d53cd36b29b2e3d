"""The implementation of `DrivenTerminal.interact`: a person uses a driven program from the person's own terminal."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

assert sys.platform != "win32"

from ..._exceptions import AnyshellError, InvalidCommand
from ..process.descriptors import DescriptorWriter
from .raw import RawTerminal

if TYPE_CHECKING:
    from ... import DrivenTerminal

LOOK_AT_SIZE = 0.5
"""Seconds between two checks of the size of the person's terminal, where no signal can report a new size."""

_STDIN, _STDOUT = 0, 1


class Interaction:
    """The person's terminal while a driven program is connected to it.

    Raises:
        AnyshellError: stdin is not a terminal.
    """

    def __init__(self, terminal: DrivenTerminal, escape: str | None) -> None:
        self._terminal = terminal
        self._escape = b"" if escape is None else escape.encode()
        try:
            self._raw = RawTerminal(_STDIN, _STDOUT, ending=lambda: False)
        except OSError as error:
            raise AnyshellError(
                "interact() needs a person's terminal, and stdin is not one: run this program in one, or use expect() and send()"
            ) from error
        self._out = DescriptorWriter(_STDOUT)

    async def show(self, data: bytes) -> None:
        """Write the program's output to the person's terminal."""
        self._raw.modes.feed(data)
        await self._out.write(data)

    async def converse(self) -> None:
        """Forward keys, output and size, until the program has ended or the person has typed the escape character."""
        try:
            with self._raw.lent():
                await self.show(self._drawn())
                turns = (self._terminal.wait(), self._type(), self._follow())
                tasks = [asyncio.ensure_future(turn) for turn in turns]
                try:
                    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                    for task in done:
                        task.result()
                finally:
                    for task in tasks:
                        task.cancel()
                    await asyncio.wait(tasks)
        except OSError as error:
            raise AnyshellError(f"interact() has no terminal any more: {error.strerror}") from error
        finally:
            self._out.close()

    def _drawn(self) -> bytes:
        """Return the bytes that bring the person's terminal to the state of the program's own terminal."""
        screen, modes = self._terminal.screen, self._terminal.modes
        row, column = screen.cursor
        text = "\r\n".join((*screen.rows[:row], screen.rows[row][:column].ljust(column)))
        switches = "\x1b[?1049h\x1b[2J\x1b[H" * screen.alternate
        switches += "\x1b[?1h" * modes.application_cursor + "\x1b[?2004h" * modes.bracketed_paste
        return (switches + text).encode(errors="replace")

    async def _type(self) -> None:
        async for data in self._raw.keys():
            before, escape, _ = data.partition(self._escape) if self._escape else (data, b"", b"")
            try:
                await self._terminal.send(before, timeout=None)
            except InvalidCommand:
                await self._out.write(b"\a")  # as a terminal does for a line that is too long
            except AnyshellError:
                return  # the program has ended
            if escape:
                return

    async def _follow(self) -> None:
        """Resize the program's terminal whenever the person's terminal changes size."""
        known = (0, 0)
        while True:
            size = self._raw.size()
            if size != known or self._raw.redraw:
                if self._raw.redraw:  # change the size first, since an unchanged size is not passed on
                    self._raw.redraw = False
                    await self._terminal.resize(columns=size[0], rows=max(2, size[1] - 1))
                await self._terminal.resize(columns=size[0], rows=size[1])
                known = size
            self._raw.changed.clear()
            try:
                async with asyncio.timeout(LOOK_AT_SIZE):
                    await self._raw.changed.wait()
            except TimeoutError:
                continue
