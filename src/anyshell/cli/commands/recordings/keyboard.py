"""The console of Windows during a playback: its keys, and its mode for escape sequences.

This module has not been tried on a real console or under Wine, where no console takes typed keys here.
"""

from __future__ import annotations

import sys

assert sys.platform == "win32"

import asyncio
import contextlib
import msvcrt
import os
from typing import TYPE_CHECKING

from ...process.handles import console_mode, set_console_mode
from ...terminal.modes import TerminalModes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

KEY_SECONDS = 0.05
"""Seconds between two checks whether a key was pressed, on Windows."""

_STDOUT = 1  # no bound: a descriptor
_UNDERSTANDS_SEQUENCES = 0x0004  # no bound: ENABLE_VIRTUAL_TERMINAL_PROCESSING, of Windows 10


class ConsoleKeyboard:
    """The console behind stdout. Ctrl-C is a signal in this console, and no key.

    Attributes:
        modes: The modes that are on in the console; every writer to the console feeds its data to them.
        away: Seconds for which this program was suspended: always 0, since Windows suspends no program.
    """

    def __init__(self) -> None:
        self.modes = TerminalModes()
        self.away = 0.0

    @contextlib.contextmanager
    def lent(self) -> Iterator[None]:
        """Make the console understand escape sequences, and restore the console at the end in every case."""
        before = console_mode(_STDOUT)
        if before is not None:
            set_console_mode(_STDOUT, before | _UNDERSTANDS_SEQUENCES)
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                os.write(_STDOUT, self.modes.back)
            if before is not None:
                set_console_mode(_STDOUT, before)

    async def keys(self) -> AsyncIterator[bytes]:
        """Yield the typed keys as they come."""
        while True:
            while msvcrt.kbhit():
                yield msvcrt.getwch().encode("utf-8", "replace")
            await asyncio.sleep(KEY_SECONDS)
