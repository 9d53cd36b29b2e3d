"""``anyshell run --pty`` for a person: a command on a terminal of its own that behaves like the person's terminal."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING

assert sys.platform != "win32"

from ...._exceptions import AnyshellError, InvalidCommand
from ...._runner.variables import OF_ANOTHER_TERMINAL
from ...._types import Terminal
from ...._waits import note_failure
from ...process.descriptors import DescriptorWriter
from ...terminal.raw import RawTerminal
from .live import Run

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .... import DrivenTerminal, Outcome
    from ...._types import Channel
    from ...process.descriptors import DescriptorReader

REDRAW_SECONDS = 0.1
"""Seconds for which a terminal has another size, so that a program redraws after a stop.

Some programs, such as bash with a trap, miss a second size that comes while they handle the first size."""

_STDIN, _STDOUT = 0, 1

_NOT_OURS = frozenset(("COLUMNS", "LINES", "GPG_TTY", "SSH_TTY"))
"""The variables of a terminal that are not passed on: the size, which a program can query, and the name of another terminal."""


class PersonRun(Run):
    """A command on a terminal that behaves like the person's terminal: every byte is forwarded, both ways."""

    async def _obtain(self, stdin: DescriptorReader | None) -> Outcome:
        raw = RawTerminal(_STDIN, _STDOUT, ending=lambda: self._asked_to_end)
        with raw.lent():
            return await self._drive(raw)

    async def _drive(self, raw: RawTerminal) -> Outcome:
        request = self._request
        columns, rows = self._size(raw)

        async def show(channel: Channel, data: bytes) -> None:
            # Before the write: a mode in this data is on as soon as the data is written, and must then be reset.
            raw.modes.feed(data)
            await self._write(self._stdout, data)

        terminal = self._env.terminal(
            self._text,
            columns=columns,
            rows=rows,
            term=_term(),
            env={**self._of_this_terminal(), **dict(request.variables)},
            **request.times,
            left_behind=request.left_behind,
            listener=show,
            answers=False,  # the person's terminal answers
            record=request.recording,
        )
        stops: set[asyncio.Task[Outcome]] = set()

        def stop() -> None:
            task = asyncio.ensure_future(terminal.stop())
            stops.add(task)
            task.add_done_callback(note_failure)

        self._cancel = stop
        async with terminal:
            over = asyncio.ensure_future(terminal.wait())
            tasks = [
                over,
                *map(asyncio.ensure_future, (self._type(raw, terminal), self._follow(raw, terminal))),
            ]
            try:
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in done - {over}:
                    task.result()
                    self._reader_gone()  # the reader is the person
                return await over
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)

    async def _type(self, raw: RawTerminal, terminal: DrivenTerminal) -> None:
        """Forward the person's keys to the command, until the person's terminal is gone."""
        bell = DescriptorWriter(_STDOUT)
        try:
            async for data in raw.keys():
                try:
                    await terminal.send(data, timeout=None)
                except InvalidCommand:
                    await bell.write(b"\a")  # as a terminal does for a line that is too long
                except AnyshellError:
                    await terminal.wait()
        finally:
            bell.close()

    async def _follow(self, raw: RawTerminal, terminal: DrivenTerminal) -> None:
        """Resize the program's terminal whenever the person's terminal changes size."""
        while True:
            await raw.changed.wait()
            raw.changed.clear()
            columns, rows = self._size(raw)
            if raw.redraw:
                raw.redraw = False
                # A new size makes programs redraw, but an unchanged size is not passed on: change the size for a moment.
                await terminal.resize(columns=columns, rows=rows - 1 if rows > 2 else rows + 1)
                await asyncio.sleep(REDRAW_SECONDS)
            await terminal.resize(columns=columns, rows=rows)

    def _size(self, raw: RawTerminal) -> tuple[int, int]:
        columns, rows = raw.size()
        return self._request.columns or columns, self._request.rows or rows

    def _of_this_terminal(self) -> Mapping[str, str]:
        """Return the variables that describe the person's terminal to programs of this machine; empty for another host."""
        if not self._env.info.is_this_machine:
            return {}
        return {name: os.environ[name] for name in OF_ANOTHER_TERMINAL - _NOT_OURS if name in os.environ}


def _term() -> str:
    """Return the type of the person's terminal; the default if TERM is not set, or cannot be passed on."""
    try:
        return Terminal(term=os.environ.get("TERM", "")).term
    except InvalidCommand:
        return Terminal().term
