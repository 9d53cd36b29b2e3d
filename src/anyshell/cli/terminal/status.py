"""The status line of a long command on the person's terminal, which is erased at the end.

The status line stands below the output, in a row of its own, and is erased before other output is printed. Before the first
line of output, the cursor's row stays free, since the caller may have begun a line there. The status line is drawn only
where that certainly harms nothing. The output so far must end with a line feed and leave no mode switched on. It must also
move the cursor only by text, carriage returns and line feeds. A program that draws has the terminal for itself.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import time
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from ...output import clean, unfinished
from ...output.sequences import COLOURS, STRING_END, STRING_REST
from ..printing import elapsed, size
from ..process.descriptors import PATIENCE, DescriptorWriter
from .drawing import Drawn, columns, fit, has_colour, has_one_row, is_in_foreground
from .modes import TerminalModes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from typing import Any

STATUS_AFTER = 2.0
"""Seconds for which a command has run when `run` first shows the command's status line."""

STATUS_SECONDS = 0.25
"""Seconds between two checks whether the status line has a new text, while nothing is printed."""

REDRAWS_PER_SECOND = 20
"""Times per second that the status line is drawn, at most."""

LAST_LINE_BYTES = 4096
"""Bytes at the end of each stream that are searched for the last line, which the status line shows."""

# Sequences that do not move the cursor: colours, erasing on the line, the cursor's visibility, pastes, frames, titles, links and
# character sets. `TerminalModes` tells which of these modes are on.
_MOVES_NOTHING = re.compile(
    COLOURS + rb"|\x1b\[[0-2]?K|\x1b\[\?(?:12|25|2004|2026)[hl]"
    rb"|\x1b\](?:[012]|8);" + STRING_REST + STRING_END + rb"|\x1b[()][0AB]"
)
_MOVING_CONTROLS = b"\x0b\x0c\x0e\x0f\x1b"
_C1 = re.compile(rb"\xc2[\x80-\x9f]")


class Cursor:
    """The place of the cursor after the output of a command, as far as the place is certain.

    The memory is bounded for any input.

    Attributes:
        is_known: Whether the output has ended a line. Before that, other programs may have printed on the same line.
    """

    def __init__(self) -> None:
        self._modes = TerminalModes()
        self._held = b""
        self._begins_line = True
        self._moved = False
        self.is_known = False

    def feed(self, data: bytes) -> None:
        """Process the next bytes, which may be cut anywhere."""
        if self._moved or not data:
            return
        if self._held or b"\x1b" in data:
            self._modes.feed(data)
        data = self._held + data
        held = unfinished(data)
        self._held = data[len(data) - held :]
        data = data[: len(data) - held]
        # A terminal that knows C1 controls ends a title at the first of them.
        has_c1 = _C1.search(data) is not None
        if b"\x1b" in data:
            data = _MOVES_NOTHING.sub(b"", data)
        if has_c1 or len(data.translate(None, _MOVING_CONTROLS)) < len(data):
            self._moved = True
        elif data:
            self._begins_line = data.endswith(b"\n")
            self.is_known = self.is_known or b"\n" in data

    @property
    def is_free(self) -> bool:
        """Whether the cursor is certainly at the start of an empty line, or in its first place, and no mode is on."""
        return self._begins_line and not self._moved and not self._held and not self._modes.back


class Printed:
    """The amount and the last line of a command's output."""

    def __init__(self) -> None:
        self._bytes = 0
        self._lines = 0
        self._ends: dict[str, bytes] = {}
        self._last = ""

    def feed(self, data: bytes, channel: str) -> None:
        """Count the next bytes of a channel."""
        self._bytes += len(data)
        self._lines += data.count(b"\n")
        end = data if len(data) >= LAST_LINE_BYTES else self._ends.get(channel, b"") + data
        self._ends[channel] = end[-LAST_LINE_BYTES:]
        self._last = channel

    def text(self, seconds: float) -> str:
        """Return the elapsed time, the lines, the bytes and the last line, as one line of text."""
        lines = "1 line" if self._lines == 1 else f"{self._lines:,} lines"
        return "  ".join(filter(None, (elapsed(seconds), lines, size(self._bytes), self.last_line)))

    @property
    def last_line(self) -> str:
        """The last line that is not blank, as a person would see it."""
        end = self._ends.get(self._last, b"")
        lines = clean(end[: len(end) - unfinished(end)]).splitlines()
        return next((line.strip() for line in reversed(lines) if line.strip()), "")


class StatusLine:
    """A line on a terminal that shows a command's progress, and is erased at the end.

    The command's output must go through `write`, which keeps the output and the status line apart. Until `close`, Ctrl-Z is
    handled: the status line is erased before this program stops.

    Args:
        fd: The terminal's descriptor.
        clock: Returns the seconds since some fixed moment.
    """

    def __init__(self, fd: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._fd = fd
        self._clock = clock
        self._began = clock()
        self._loop = asyncio.get_running_loop()
        # A separate writer: a status line that cannot be written is not a failure of the output.
        self._writer = DescriptorWriter(fd)
        self._turn = asyncio.Lock()
        self._cursor = Cursor()
        self._printed = Printed()
        self._drawn: Drawn | None = None
        self._drawn_at = -1.0
        self._hidden = 0
        self._over = False
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._settings = _settings(fd)
        self._handled = self._listen()
        self._wait(STATUS_AFTER)

    def count(self, data: bytes, channel: str) -> None:
        """Count a piece of the output for the status text, whether or not the piece is shown here."""
        self._printed.feed(data, channel)

    async def write(self, writer: DescriptorWriter, data: bytes, *, here: bool = True) -> None:
        """Erase the status line, and write a piece of the output to this terminal.

        Args:
            writer: The writer of the output.
            data: The piece.
            here: Whether the writer's descriptor leads to the same file; otherwise the output may be on another terminal.
        """
        async with self._turn:
            erase = self._erasing()
            self._cursor.feed(data)
            if not here:
                await self._writer.write(erase)
                erase = b""
            await writer.write(erase + data)
            if self._due():
                await self._draw()

    def hurry(self) -> None:
        """Erase the line because the command is to end, and wait no longer than `PATIENCE` for the terminal."""
        self._over = True
        self._writer.hurry()
        self._start(self._clear())

    @asynccontextmanager
    async def hidden(self) -> AsyncIterator[None]:
        """Erase the line while another writer, such as a question to the person, uses the terminal."""
        self._hidden += 1
        await self._clear()
        try:
            yield
        finally:
            self._hidden -= 1
            if not self._over:
                self._handled = self._listen()  # a question for a password handles Ctrl-Z as well

    async def close(self) -> None:
        """Erase the line for good, if the terminal takes that within `PATIENCE`: the line must not delay the end."""
        self._over = True
        self._writer.hurry()
        if self._timer is not None:
            self._timer.cancel()
        for number in self._handled:
            self._loop.remove_signal_handler(number)
        await self._clear()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._writer.close()

    # --- drawing ----------------------------------------------------------------------------------------------

    def _wait(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if self._over else self._loop.call_later(max(0.0, seconds), self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._start(self._redraw())

    def _start(self, work: Any) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _redraw(self) -> None:
        async with self._turn:
            if self._due():
                await self._draw()

    def _due(self) -> bool:
        """Whether the line is to be drawn now. In every case, a timer is set for the next check."""
        now = self._clock()
        wait = max(STATUS_AFTER - (now - self._began), 1 / REDRAWS_PER_SECOND - (now - self._drawn_at))
        if wait > 0:
            self._wait(wait)
            return False
        self._wait(STATUS_SECONDS)
        has_room = self._cursor.is_known or not has_one_row(self._fd)
        return not self._over and not self._hidden and self._cursor.is_free and has_room and self._is_ours()

    async def _draw(self) -> None:
        text = self._printed.text(self._clock() - self._began)
        # In the last column many terminals begin a new line.
        fitting = fit(text, max(1, columns(self._fd) - 1))
        drawn = Drawn.of(self._fd, fitting, below=not self._cursor.is_known)
        if drawn == self._drawn:
            return
        erase = self._erasing()
        self._drawn = drawn
        self._drawn_at = self._clock()
        shown = f"\x1b[2m{drawn.text}\x1b[m" if has_colour() else drawn.text
        await self._writer.write(erase + drawn.drawing(shown))

    async def _clear(self) -> None:
        async with self._turn:
            await self._writer.write(self._erasing())

    def _erasing(self) -> bytes:
        """Return the bytes that erase the line; empty if no line is drawn, or in the background."""
        drawn, self._drawn = self._drawn, None
        return b"" if drawn is None or not is_in_foreground(self._fd) else drawn.erasing()

    # --- the terminal -----------------------------------------------------------------------------------------

    def _is_ours(self) -> bool:
        """Whether the terminal is free: no other job of the shell has the terminal, and no program reads a password there."""
        settings = _settings(self._fd)
        return is_in_foreground(self._fd) and settings == self._settings and _ends_lines(settings)

    def _listen(self) -> list[int]:
        if sys.platform == "win32":
            return []
        handlers: dict[signal.Signals, Callable[[], object]] = {
            signal.SIGWINCH: lambda: self._wait(0),
            # After SIGSTOP, which has no handler, the line is still drawn; or a shell has begun an empty line below.
            signal.SIGCONT: lambda: self._wait(0),
        }
        if signal.getsignal(signal.SIGTSTP) is not signal.SIG_IGN:
            handlers[signal.SIGTSTP] = lambda: self._start(self._pause())
        for number, handler in handlers.items():
            self._loop.add_signal_handler(number, handler)
        return list(handlers)

    async def _pause(self) -> None:
        """Erase the line, and stop, as Ctrl-Z stops any program."""
        if sys.platform == "win32":
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                await self._clear()
        listening = self._loop.remove_signal_handler(signal.SIGTSTP)
        os.kill(os.getpid(), signal.SIGTSTP)  # returns when the program goes on
        if listening and not self._over:
            self._loop.add_signal_handler(signal.SIGTSTP, lambda: self._start(self._pause()))


def _settings(fd: int) -> tuple[int, int] | None:
    """Return the line settings of a terminal; ``None`` if the settings are not known."""
    if sys.platform == "win32":
        return None
    import termios

    try:
        attributes = termios.tcgetattr(fd)
    except termios.error:
        return None
    output, local = attributes[1], attributes[3]
    return output & (termios.OPOST | termios.ONLCR), local & (termios.ECHO | termios.ICANON)


def _ends_lines(settings: tuple[int, int] | None) -> bool:
    """Whether a line feed takes the cursor to the beginning of the next line."""
    if sys.platform == "win32" or settings is None:
        return True
    import termios

    return settings[0] == termios.OPOST | termios.ONLCR
