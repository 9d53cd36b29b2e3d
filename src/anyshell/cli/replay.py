"""``anyshell replay``: a recording, played on the terminal as it happened."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import signal
import sys
import time
from typing import TYPE_CHECKING, Any, Protocol

import click

from .._exceptions import RecordingError
from .options import Seconds, complete_file
from .printing import mention
from .program import Failure

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from contextlib import AbstractContextManager

    from ..recordings import Event, Header
    from .descriptors import Writer
    from .modes import Modes
    from .signals import Interruption

LONGEST_WAIT = 24 * 3600.0
"""Seconds that are waited for one event at most, whatever the recording says. A key ends every wait."""

AHEAD_EVENTS = 256
"""Events that are read ahead of those that are shown."""

AHEAD_CHARACTERS = 256 * 1024
"""Characters of these after which no more is read ahead; one event may have more."""

PIECE = 16 * 1024
"""Bytes that are given to the terminal at once: what stopping waits for."""

_STDIN, _STDOUT = 0, 1
_HANG_UP = 129
_SHOWN = frozenset("orx")
"""Events that take their time: output, another size, the end. What was typed is seen by what the terminal printed of it."""


class Speed(click.ParamType):  # type: ignore[type-arg]  # older versions of click take none
    """How many times as fast."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read the number."""
        try:
            speed = float(value)
        except ValueError:
            speed = math.nan
        if not 0 < speed < math.inf:
            self.fail(f"{value!r} is no speed: give a number above 0, such as 2 or 0.5", param, ctx)
        return speed


@click.command(short_help="Play a recording on the terminal.")
@click.option(
    "--speed", type=Speed(), default=1.0, metavar="N", help="Play N times as fast. Default: 1, as it was."
)
@click.option(
    "--idle-limit",
    type=Seconds(),
    metavar="SECONDS",
    help="Wait no longer than so many recorded seconds between two events. Default: what the recording asks for, if "
    "it does.",
)
@click.argument("file", shell_complete=complete_file)
@click.pass_context
def replay(ctx: click.Context, /, *, file: str, speed: float, idle_limit: float | None) -> None:
    """Play the recording FILE (asciicast v1, v2 or v3, as anyshell and asciinema write them) as it happened.

    Keys: space pauses and goes on, q or Ctrl-C stops, Ctrl-Z suspends. However it ends, the terminal is put back as it
    was. Nothing of the recording acts on the terminal: only what draws is passed on.

    If stdout is no terminal, the same is printed at once, without its timing.

    \b
    Examples:
      anyshell replay build.cast
      anyshell replay --speed 4 --idle-limit 1 build.cast
      anyshell replay build.cast | less -R
    \b
    Exit code:
      0      it was played, or q was pressed
      2      wrong usage
      125    the file is no recording, or is broken: the message names the line
      128+n  signal n ended it (130: Ctrl-C)
    """  # noqa: D301 - click's own mark: a paragraph that keeps its lines
    from ..recordings import read

    with open(file, "rb") as opened:
        try:
            header, events = read(opened)
            if not sys.stdout.isatty():
                _print_at_once(events)
                return
            _mention_size(header)
            from . import signals

            limit = header.idle_time_limit if idle_limit is None else idle_limit
            ctx.exit(signals.run(Replay(events, speed=speed, idle_limit=limit).play))
        except RecordingError as error:
            raise Failure(f"{file}: {error}") from error


def _print_at_once(events: Iterator[Event]) -> None:
    from .filter import Filter
    from .modes import Modes

    passing, modes = Filter(), Modes()
    gathered: list[bytes] = []
    size = 0
    try:
        for event in events:
            if event.code != "o":
                continue
            data = passing.feed(event.data).encode()
            modes.feed(data)
            gathered.append(data)
            size += len(data)
            if size >= PIECE:
                click.echo(b"".join(gathered), nl=False)
                gathered, size = [], 0
    finally:  # also before it is said that the rest cannot be read
        click.echo(b"".join([*gathered, modes.back]), nl=False)


def _mention_size(header: Header) -> None:
    try:
        columns, rows = os.get_terminal_size(_STDOUT)
    except OSError:
        return
    if (columns, rows) not in ((header.columns, header.rows), (0, 0)):
        mention(
            f"anyshell: recorded on a terminal of {header.columns} columns and {header.rows} rows; this one has "
            f"{columns} and {rows}, and may show it otherwise"
        )


class _Terminal(Protocol):
    """Where it is played, if there are keys."""

    modes: Modes
    away: float

    def lent(self) -> AbstractContextManager[None]: ...
    def keys(self) -> AsyncIterator[bytes]: ...


class _NoKeys:
    """A terminal that nobody can type at: in the background of a service, say."""

    def __init__(self) -> None:
        from .modes import Modes

        self.modes = Modes()
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
    """The terminal with its keys; those of the controlling terminal where stdin is something else."""
    if sys.platform == "win32":
        from .keyboard import ConsoleKeyboard

        yield ConsoleKeyboard()
    else:
        from .raw import RawTerminal

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


class Replay:
    """One playing of a recording.

    Args:
        events: The recording.
        speed: How many times as fast.
        idle_limit: Recorded seconds that are waited at most between two events; ``None`` is no limit.
    """

    def __init__(self, events: Iterator[Event], *, speed: float, idle_limit: float | None) -> None:
        self._events = events
        self._speed = speed
        self._limit = math.inf if idle_limit is None else idle_limit
        self._at_start = True  # of a line

    async def play(self, interruption: Interruption) -> int:
        """Play it to its end, or until a key or a signal stops it. Returns the exit code."""
        from .descriptors import Writer

        out = Writer(_STDOUT)
        with _terminal() as terminal:
            try:
                with terminal.lent():
                    return await self._play(terminal, out, interruption)
            finally:
                out.hurry()
                if not self._at_start:
                    await out.write(b"\n")  # what comes next begins on a line of its own
                out.close()

    async def _play(self, terminal: _Terminal, out: Writer, interruption: Interruption) -> int:
        clock = _Clock(lambda: terminal.away)
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

    async def _show(self, clock: _Clock, modes: Modes, out: Writer) -> None:
        from .filter import Filter

        passing = Filter()
        encoding = sys.stdout.encoding or "utf-8"  # in bytes of another one a terminal might see controls
        before = moment = 0.0
        async for event in self._ahead():
            moment += min(event.time - before, self._limit)
            before = event.time
            await clock.reach(moment / self._speed)
            if event.code != "o":
                continue
            data = passing.feed(event.data).encode(encoding, "replace")
            for start in range(0, len(data), PIECE):
                piece = data[start : start + PIECE]
                modes.feed(piece)  # first: what is being written is on, for whoever puts it back meanwhile
                self._at_start = piece.endswith(b"\n")
                await out.write(piece)
            if out.error is not None:
                raise out.error

    async def _ahead(self) -> AsyncIterator[Event]:
        """The events that are shown, read by a thread: a file may be a pipe, or on a disk that is slow."""
        loop = asyncio.get_running_loop()
        while True:
            events, error = await loop.run_in_executor(None, self._take)
            for event in events:
                yield event
            if error is not None:
                raise error
            if not events:
                return

    def _take(self) -> tuple[list[Event], RecordingError | OSError | None]:
        """The next events; none at the end. What is wrong with the one after them comes with them."""
        found: list[Event] = []
        size = 0
        try:
            for event in self._events:
                if event.code not in _SHOWN:
                    continue
                found.append(event)
                size += len(event.data)
                if len(found) == AHEAD_EVENTS or size >= AHEAD_CHARACTERS:
                    break
        except (RecordingError, OSError) as error:
            return found, error
        return found, None


async def _heed(terminal: _Terminal, clock: _Clock, interruption: Interruption) -> int:
    """Do what keys ask for. Returns the exit code when one of them ends it, or the terminal is gone."""
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
                    os.kill(os.getpid(), signal.SIGTSTP)  # heeded by whoever has lent the terminal
    return _HANG_UP


class _Clock:
    """Seconds that have been played: those that have passed, without the pauses.

    Args:
        away: Seconds that this program has been suspended.
    """

    def __init__(self, away: Callable[[], float]) -> None:
        self._away = away
        self._began = time.monotonic()
        self._paused: float | None = None  # what it stands at
        self._changed = asyncio.Event()

    def pause_or_go_on(self) -> None:
        """Stand still, or no longer."""
        if self._paused is None:
            self._paused = self._now()
        else:
            self._began += self._now() - self._paused
            self._paused = None
        self._changed.set()

    async def reach(self, moment: float) -> None:
        """Wait until so many seconds have been played."""
        latest = self._now() + LONGEST_WAIT
        while self._paused is not None or (left := min(moment, latest) - self._now()) > 0:
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), None if self._paused is not None else left)

    def _now(self) -> float:
        return time.monotonic() - self._began - self._away()
