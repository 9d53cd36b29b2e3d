"""The playback of a recording on a person's terminal: the timing, the keys, and the end."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import re
import signal
import sys
import time
from typing import TYPE_CHECKING, Protocol

from ...._exceptions import RecordingError
from ...._waits import threads_as_os_errors
from ....output.sequences import CSI, FINAL, INTERMEDIATES, in_text
from ...process.descriptors import DescriptorWriter
from ...terminal.modes import TerminalModes
from .filter import Filter

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from contextlib import AbstractContextManager

    from ....recordings import Event
    from ...process.signals import Interruption
    from .lines import Lines

LONGEST_WAIT = 24 * 3600.0
"""Seconds for which a playback waits for one event at most, whatever the recording says. A key ends every wait."""

AHEAD_EVENTS = 256
"""Events of a recording that one read ahead of the playback takes at most."""

AHEAD_CHARACTERS = 256 * 1024
"""Characters of events read ahead, after which no further event is read; one event may have more."""

PIECE = 16 * 1024
"""Bytes of a recording that are written to the terminal at once; a stop waits for one write."""

_STDIN, _STDOUT = 0, 1
_HANG_UP = 129  # no bound: an exit code
_SHOWN = frozenset("orx")
"""The codes of events that keep their time: output, resize, exit. Typed input is visible through the terminal's output."""

_SEQUENCES_AT_END = re.compile(
    in_text(rb"(?:" + CSI + FINAL + rb"|\x1b" + INTERMEDIATES + rb"[0-Z\\-~])++\Z")
)


class _Terminal(Protocol):
    """The terminal of a playback, with or without keys."""

    modes: TerminalModes
    away: float

    def lent(self) -> AbstractContextManager[None]: ...
    def keys(self) -> AsyncIterator[bytes]: ...


class _NoKeys:
    """A terminal without keys, as in a service."""

    def __init__(self) -> None:
        self.modes = TerminalModes()
        self.away = 0.0

    @contextlib.contextmanager
    def lent(self) -> Iterator[None]:
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                os.write(_STDOUT, self.modes.back)

    async def keys(self) -> AsyncIterator[bytes]:
        await asyncio.Event().wait()
        yield b""


@contextlib.contextmanager
def _terminal() -> Iterator[_Terminal]:
    """Yield the terminal of a playback. The keys are those of the controlling terminal if stdin is not a terminal."""
    if sys.platform == "win32":
        from .keyboard import ConsoleKeyboard

        yield ConsoleKeyboard()
    else:
        from ...terminal.raw import RawTerminal

        with contextlib.ExitStack() as stack:
            fd = _STDIN
            if not os.isatty(_STDIN):
                try:
                    fd = os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC)
                except OSError:
                    yield _NoKeys()
                    return
                stack.callback(os.close, fd)
            yield RawTerminal(fd, _STDOUT, ending=lambda: False)


class Playback:
    """One playback of a recording.

    Args:
        events: The events of the recording.
        lines: The source of the events.
        speed: The factor of the speed.
        idle_limit: The longest wait between two events, in recorded seconds; ``None`` means no limit.
    """

    def __init__(
        self, events: Iterator[Event], lines: Lines, *, speed: float, idle_limit: float | None
    ) -> None:
        self._events = events
        self._lines = lines
        self._speed = speed
        self._limit = math.inf if idle_limit is None else idle_limit
        self._at_start = True  # whether the cursor is at the start of a line

    async def play(self, interruption: Interruption) -> int:
        """Play the recording to its end, or until a key or a signal stops the playback; return the exit code."""
        out = DescriptorWriter(_STDOUT)
        with _terminal() as terminal:
            try:
                with terminal.lent():
                    return await self._play(terminal, out, interruption)
            finally:
                out.hurry()
                if not self._at_start:
                    await out.write(b"\n")  # the next output begins on a line of its own
                out.close()

    async def _play(self, terminal: _Terminal, out: DescriptorWriter, interruption: Interruption) -> int:
        clock = Clock(lambda: terminal.away)
        showing = asyncio.ensure_future(self._show(clock, terminal.modes, out))
        heeding = asyncio.ensure_future(_heed(terminal, clock, interruption))
        try:
            done, _ = await asyncio.wait((showing, heeding), return_when=asyncio.FIRST_COMPLETED)
            if showing in done:
                showing.result()
                return 0
            return heeding.result()
        finally:
            for task in (showing, heeding):
                task.cancel()
            await asyncio.wait((showing, heeding))

    async def _show(self, clock: Clock, modes: TerminalModes, out: DescriptorWriter) -> None:
        passing = Filter()
        # In the bytes of another encoding, a terminal might see controls.
        encoding = sys.stdout.encoding or "utf-8"
        before = moment = 0.0
        async for event in self._ahead():
            moment += min(event.time - before, self._limit)
            before = event.time
            await clock.reach(moment / self._speed)
            if event.code != "o":
                continue
            text = passing.feed(event.data)
            if seen := _SEQUENCES_AT_END.sub("", text):
                self._at_start = seen.endswith("\n")
            data = text.encode(encoding, "replace")
            for start in range(0, len(data), PIECE):
                piece = data[start : start + PIECE]
                # Before the write: a mode in this piece is on as soon as the piece is written, and must then be reset.
                modes.feed(piece)
                await out.write(piece)
            if out.error is not None:
                raise out.error

    async def _ahead(self) -> AsyncIterator[Event]:
        """Yield the events to show. A thread reads the events, since the file may be a pipe, or on a slow disk."""
        loop = asyncio.get_running_loop()
        while True:
            with threads_as_os_errors():
                events, error = await loop.run_in_executor(None, self._take)
            for event in events:
                yield event
            if error is not None:
                raise error
            if not events:
                return

    def _take(self) -> tuple[list[Event], RecordingError | OSError | None]:
        """Return the next available events, at least one; none at the end.

        The second value is the error in reading the event after the returned events; ``None`` without an error.
        """
        found: list[Event] = []
        size = 0
        try:
            for event in self._events:
                if event.code not in _SHOWN:
                    continue
                found.append(event)
                size += len(event.data)
                if len(found) == AHEAD_EVENTS or size >= AHEAD_CHARACTERS or not self._lines.is_ready:
                    break
        except (RecordingError, OSError) as error:
            return found, error
        return found, None


async def _heed(terminal: _Terminal, clock: Clock, interruption: Interruption) -> int:
    """Handle the keys; return the exit code when a key ends the playback, or the terminal is gone."""
    async for keys in terminal.keys():
        for key in keys:
            match bytes((key,)):
                case b" ":
                    clock.pause_or_go_on()
                case b"q" | b"Q":
                    return 0
                case b"\x03":
                    interruption.number = interruption.number or signal.SIGINT
                    return interruption.exit_code
                case b"\x1a" if hasattr(signal, "SIGTSTP"):
                    os.kill(os.getpid(), signal.SIGTSTP)  # handled by the code that has lent the terminal
    return _HANG_UP


class Clock:
    """The clock of a playback: the passed seconds without pauses and suspensions.

    Args:
        away: Returns the seconds for which this program was suspended.
        now: Returns the seconds since some fixed moment.
    """

    def __init__(self, away: Callable[[], float], now: Callable[[], float] = time.monotonic) -> None:
        self._away = away
        self._now = now
        self._began = now() - away()
        self._paused: float | None = None  # the played seconds at the start of a pause
        self._changed = asyncio.Event()

    @property
    def played(self) -> float:
        """The seconds played so far, without pauses."""
        return self._now() - self._away() - self._began if self._paused is None else self._paused

    def pause_or_go_on(self) -> None:
        """Pause the clock, or continue after a pause."""
        if self._paused is None:
            self._paused = self.played
        else:
            self._began = self._now() - self._away() - self._paused
            self._paused = None
        self._changed.set()

    async def reach(self, moment: float) -> None:
        """Wait until `moment` seconds have been played, but for `LONGEST_WAIT` played seconds at most."""
        moment = min(moment, self.played + LONGEST_WAIT)
        while (left := moment - self.played) > 0:
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left if self._paused is None else None):
                    await self._changed.wait()
