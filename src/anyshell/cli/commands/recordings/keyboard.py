"""The console of Windows while something is played on it: its keys, and sequences that it is to understand.

Seen through neither Wine nor a real console yet: Wine has no console here that a person could type at.
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
"""Seconds between two looks whether a key was pressed, on Windows."""

_STDOUT = 1  # no bound: a descriptor
_UNDERSTANDS_SEQUENCES = 0x0004  # no bound: ENABLE_VIRTUAL_TERMINAL_PROCESSING, of Windows 10


class ConsoleKeyboard:
    """The console that stdout is. Ctrl-C is a signal there, and no key.

    Attributes:
        modes: The modes that are on there; every writer to the terminal feeds them its data.
        away: Seconds that this program has been suspended: none, which Windows does not do.
    """

    def __init__(self) -> None:
        self.modes = TerminalModes()
        self.away = 0.0

    @contextlib.contextmanager
    def lent(self) -> Iterator[None]:
        """Have it understand sequences; it is put back as it was when this is left, however that happens."""
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
        """The typed keys, as they come."""
        while True:
            while msvcrt.kbhit():
                yield msvcrt.getwch().encode("utf-8", "replace")
            await asyncio.sleep(KEY_SECONDS)
