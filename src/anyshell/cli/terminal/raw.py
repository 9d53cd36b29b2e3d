"""The person's terminal in raw mode while a program uses the terminal through anyshell; the old state is restored."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import select
import signal
import sys
import termios
import threading
import time
from typing import TYPE_CHECKING

assert sys.platform != "win32"

from ..._types import LARGEST_TERMINAL, Terminal
from ..process.descriptors import PATIENCE, READ_SIZE
from .modes import TerminalModes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from typing import Any

AWAY_SECONDS = 0.05
"""Seconds between two checks whether anyshell has its terminal, when anyshell continues in the background after a stop."""

LOOK_SECONDS = 0.01
"""Seconds between two attempts to write the reset of the person's terminal, while the terminal takes nothing."""

MOST_AHEAD = 4096
"""Pieces of text typed ahead that are read when a program gets the person's terminal; no terminal holds more bytes."""

_INPUT, _OUTPUT, _CONTROL, _LOCAL, _CHARACTERS = 0, 1, 2, 3, 6

_END_OF_INPUT = b"\x04"

_NOT_OURS = "the terminal belongs to another program, or is gone: run it in the foreground"

_NO_INPUT = (
    termios.IGNBRK
    | termios.BRKINT
    | termios.PARMRK
    | termios.ISTRIP
    | termios.INLCR
    | termios.IGNCR
    | termios.ICRNL
    | termios.IXON
)
_NO_LOCAL = termios.ECHO | termios.ECHONL | termios.ICANON | termios.ISIG | termios.IEXTEN


class RawTerminal:
    """The terminal behind this program's stdin and stdout.

    Args:
        stdin: The descriptor that keys come from.
        stdout: The descriptor that is drawn on.
        ending: Returns whether this program has been asked to end, and so must not stop in the background.

    Attributes:
        modes: The modes that are on in the terminal; every writer to the terminal feeds its data to them.
        changed: The event that the terminal has another size, or that the program should redraw.
        redraw: Whether the program should redraw.
        away: Seconds for which this program was suspended (SIGTSTP) while the terminal was lent.

    Raises:
        OSError: stdin is not a terminal, or no longer a terminal.
    """

    def __init__(self, stdin: int, stdout: int, *, ending: Callable[[], bool]) -> None:
        self.modes = TerminalModes()
        self.changed = asyncio.Event()
        self.redraw = False
        self.away = 0.0
        self._stdin = stdin
        self._stdout = stdout
        self._ending = ending
        self._lent = False
        self._raw = False
        self._before = _attributes(stdin)
        self._ahead = b""

    def size(self) -> tuple[int, int]:
        """Return columns and rows; the defaults of `Terminal` if the terminal reports none, as a serial line."""
        usual = Terminal()
        try:
            columns, rows = os.get_terminal_size(self._stdout)
        except OSError:
            columns = rows = 0
        return _within(columns or usual.columns), _within(rows or usual.rows)

    @contextlib.contextmanager
    def lent(self) -> Iterator[None]:
        """Lend the terminal to a program in raw mode, and restore the terminal at the end in every case.

        Before a stop from outside (SIGTSTP), the terminal is restored too. When this program continues in the foreground, the
        terminal is lent again.

        Raises:
            OSError: The terminal is gone, or belongs to another program.
        """
        loop = asyncio.get_running_loop()
        handlers: dict[signal.Signals, Callable[[], object]] = {
            signal.SIGWINCH: self.changed.set,
            signal.SIGCONT: self._return,
        }
        if threading.current_thread() is not threading.main_thread():
            handlers = {}  # only the main thread may have handlers: the terminal then stays lent during a stop
        elif signal.getsignal(signal.SIGTSTP) is not signal.SIG_IGN:
            handlers[signal.SIGTSTP] = self._pause
        if not self._is_ours():
            # Stop, as any program does that needs its terminal in the background. The call returns on continuation.
            os.kill(os.getpid(), signal.SIGTTIN)
            if not self._is_ours():
                raise OSError(errno.EIO, _NOT_OURS)
        self._before = _attributes(self._stdin)
        self._ahead = self._typed_ahead()
        self._take()
        self._lent = True
        try:
            for number, handler in handlers.items():
                loop.add_signal_handler(number, handler)
            yield
        finally:
            self._lent = False
            self._give_back()
            for number in handlers:
                loop.remove_signal_handler(number)

    async def keys(self) -> AsyncIterator[bytes]:
        """Yield the typed bytes as they come, until the terminal is gone."""
        loop = asyncio.get_running_loop()
        if self._ahead:
            ahead, self._ahead = self._ahead, b""
            yield ahead
        while True:
            ready: asyncio.Future[None] = loop.create_future()
            # No thread reads: a pending read would stop this program again when it continues in the background.
            loop.add_reader(self._stdin, _settle, ready)
            try:
                await ready
            finally:
                loop.remove_reader(self._stdin)
            if not self._is_ours():
                await asyncio.sleep(AWAY_SECONDS)
                continue
            try:
                data = os.read(self._stdin, READ_SIZE)
            except BlockingIOError:
                continue
            except OSError:
                return
            if not data:
                return
            yield data

    def _typed_ahead(self) -> bytes:
        """Return the lines and ends of input that were typed ahead. Raw mode would turn an end of input into a NUL."""
        if not self._before[_LOCAL] & termios.ICANON:
            return b""
        pieces: list[bytes] = []
        look = select.poll()
        look.register(self._stdin, select.POLLIN)
        while len(pieces) < MOST_AHEAD and any(events == select.POLLIN for _, events in look.poll(0)):
            try:
                piece = os.read(self._stdin, READ_SIZE)
            except OSError:
                break
            # A piece without a line feed was ended by the character for the end of input, which a read leaves out.
            pieces.append(piece if piece.endswith(b"\n") else piece + _END_OF_INPUT)
        return b"".join(pieces)

    def _take(self) -> None:
        """Switch the terminal to raw mode. In the background, the call stops this program until it is in the foreground."""
        raw = [*self._before]
        raw[_INPUT] &= ~_NO_INPUT
        raw[_OUTPUT] &= ~termios.OPOST
        raw[_CONTROL] = raw[_CONTROL] & ~(termios.CSIZE | termios.PARENB) | termios.CS8
        raw[_LOCAL] &= ~_NO_LOCAL
        raw[_CHARACTERS] = [*raw[_CHARACTERS]]
        raw[_CHARACTERS][termios.VMIN], raw[_CHARACTERS][termios.VTIME] = 1, 0
        try:
            termios.tcsetattr(self._stdin, termios.TCSANOW, raw)
        except termios.error as error:
            if (
                error.args[0] == errno.EIO
            ):  # also the error for an orphaned process group, which cannot be stopped
                raise OSError(errno.EIO, _NOT_OURS) from error
            raise OSError(*error.args) from error
        self._raw = True

    def _give_back(self) -> None:
        """Restore the terminal. Errors are ignored, since the terminal is gone then."""
        if not self._raw:
            return
        self._raw = False
        # Block SIGTTOU: a stop in the background would leave the terminal unrestored.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
        try:
            with contextlib.suppress(termios.error):
                termios.tcsetattr(self._stdin, termios.TCSANOW, self._before)
            if back := self.modes.back:
                self._write(back)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)

    def _pause(self) -> None:
        loop = asyncio.get_running_loop()
        self._give_back()
        loop.remove_signal_handler(signal.SIGTSTP)
        left = time.monotonic()
        os.kill(os.getpid(), signal.SIGTSTP)  # returns on continuation; the handler of SIGCONT does the rest
        self.away += time.monotonic() - left
        loop.add_signal_handler(signal.SIGTSTP, self._pause)

    def _return(self) -> None:
        """Continue on SIGCONT: also after SIGSTOP, which has no handler, and after which a shell has set the terminal anew."""
        if not self._is_ours():
            # A shell that ends a stopped job sends two signals to the job, and the second may not have arrived yet.
            asyncio.get_running_loop().call_later(AWAY_SECONDS, self._stay_away)
            return
        with contextlib.suppress(OSError):
            if not self._raw:
                self._before = _attributes(self._stdin)
            self._take()
        self._write(self.modes.again)
        self.redraw = True
        self.changed.set()

    def _stay_away(self) -> None:
        """Stop again, as any program does that needs its terminal in the background, unless this program has to end."""
        if self._lent and not self._is_ours() and not self._ending():
            os.kill(os.getpid(), signal.SIGTTIN)

    def _is_ours(self) -> bool:
        """Whether this program is in the terminal's foreground; true if this is not the controlling terminal."""
        try:
            return os.tcgetpgrp(self._stdin) == os.getpgrp()
        except OSError:
            return True  # not our controlling terminal

    def _write(self, data: bytes) -> None:
        """Write a few bytes, after any write in progress, if the terminal takes the bytes within `PATIENCE`."""
        give_up = time.monotonic() + PATIENCE
        with contextlib.suppress(OSError), unblocked(self._stdout) as fd:
            while data and time.monotonic() < give_up:
                try:
                    data = data[os.write(fd, data) :]
                except BlockingIOError:
                    time.sleep(LOOK_SECONDS)


@contextlib.contextmanager
def unblocked(fd: int) -> Iterator[int]:
    """Yield a new descriptor of the same terminal, non-blocking if possible; the shared descriptor stays unchanged."""
    try:
        own = os.open(os.ttyname(fd), os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        own = os.dup(fd)  # a terminal from outside of a container has no name here
    try:
        yield own
    finally:
        os.close(own)


def _attributes(fd: int) -> list[Any]:
    try:
        return termios.tcgetattr(fd)
    except termios.error as error:
        raise OSError(*error.args) from error


def _settle(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


def _within(cells: int) -> int:
    return min(max(cells, 2), LARGEST_TERMINAL)
