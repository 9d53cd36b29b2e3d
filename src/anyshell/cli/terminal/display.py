"""The person's terminal as textual draws on it: that it takes nothing, or is gone, holds up nothing and breaks nothing."""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

assert sys.platform != "win32"

from textual import events
from textual._xterm_parser import XTermParser
from textual.drivers import linux_driver
from textual.drivers.linux_driver import LinuxDriver

from .raw import unblocked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

STUCK_SECONDS = 1.0
"""Seconds for which a person's terminal may take nothing of a console; what is drawn then is left out, and drawn anew."""

LOOK_SECONDS = 0.5
"""Seconds between two looks whether that terminal is still there."""

_CANCEL = b"\x18"
"""Ends a sequence of which the rest was left out."""


class Paper:
    """The stream that textual's thread writes to. Never raises, and waits `STUCK_SECONDS` at most.

    Args:
        fd: The terminal's descriptor, which is shared with others and stays as it is.
        again: Is called, in the thread that writes, when it takes something again after something was left out.
    """

    def __init__(self, fd: int, again: Callable[[], object]) -> None:
        self._fd = fd
        self._again = again
        self._opened = unblocked(fd)
        self._own = self._opened.__enter__()
        self._stuck = False

    def write(self, text: str) -> None:
        """Write it, or as much of it as is taken in time."""
        data = text.encode("utf-8", "replace")
        if self._stuck:
            if not self._takes(0):
                return
            self._stuck = False
            data = _CANCEL + data
            self._again()
        give_up = time.monotonic() + STUCK_SECONDS
        while data:
            try:
                data = data[os.write(self._own, data) :]
                give_up = time.monotonic() + STUCK_SECONDS
            except BlockingIOError:
                if not self._takes(give_up - time.monotonic()):
                    self._stuck = True
                    return
            except OSError:
                return  # it is gone

    def _takes(self, seconds: float) -> bool:
        look = select.poll()
        look.register(self._own, select.POLLOUT)
        return seconds >= 0 and bool(look.poll(max(seconds, 0) * 1000))

    def flush(self) -> None:
        """There is nothing to do: all is written."""

    def isatty(self) -> bool:
        """Return true: the stream is a terminal."""
        return True

    def fileno(self) -> int:
        """The shared descriptor."""
        return self._fd

    def close(self) -> None:
        """Write no more."""
        self._opened.__exit__(None, None, None)


class KeyParser(XTermParser):
    """Textual's own reader of keys, which knows Alt with letters alone, and of these not b and f.

    It waits for more of a sequence that it does not know, then forgets the Escape, and makes a circumflex of it if another
    one comes first: Alt-d that is held would type ``^d^d``, and Escape with ``:`` soon after it a colon.
    """

    def _sequence_to_key_events(self, sequence: str, alt: bool = False) -> Iterable[events.Key]:
        if sequence == "\x1b":  # of a sequence that another one has broken off: it was sent, and is passed on
            yield events.Key("ctrl+left_square_bracket", sequence)
        elif len(sequence) == 2 and sequence[0] == "\x1b" and sequence[1] not in "[O":
            for key in super()._sequence_to_key_events(sequence[1], alt=True):
                name = key.key if key.key.startswith("alt+") else f"alt+{key.key}"
                yield events.Key(name, key.character)
        elif len(sequence) == 3 and sequence.startswith("\x1bO"):
            known = list(super()._sequence_to_key_events(sequence))
            yield from known or super()._sequence_to_key_events("O", alt=True)
            if not known:
                yield from super()._sequence_to_key_events(sequence[2])
        else:
            yield from super()._sequence_to_key_events(sequence, alt)


def driver(gone: Callable[[], object]) -> type[LinuxDriver]:
    """Textual's own driver, with these changes.

    Args:
        gone: Is called when the terminal is gone, in the event loop.
    """

    class Display(LinuxDriver):
        _started = False

        def start_application_mode(self) -> None:
            if self._key_thread is not None and self._key_thread.is_alive() and not self._begin_anew():
                return
            # Textual has no public way to say where to write. It starts again after it was stopped from outside.
            self._file: Any = Paper(sys.__stderr__.fileno() if sys.__stderr__ else 2, self._draw_anew)
            self._looking = self._loop.call_later(LOOK_SECONDS, self._look)
            super().start_application_mode()  # type: ignore[no-untyped-call]  # textual's
            if self._started:
                self._draw_anew()
            self._started = True

        def _begin_anew(self) -> bool:
            """Go on after SIGCONT with no SIGTSTP before it, as after SIGSTOP; whether that can be now.

            Textual would read with one thread more, which never ends, and take its own settings for the person's.
            """
            try:
                in_front = os.tcgetpgrp(self.fileno) == os.getpgrp()
            except OSError:
                return False  # it is gone, which is noticed
            if in_front:
                self.suspend_application_mode()
            else:
                os.kill(os.getpid(), signal.SIGSTOP)
            return in_front

        def close(self) -> None:
            self._looking.cancel()
            super().close()
            self._file.close()

        def _get_terminal_size(self) -> tuple[int, int]:
            """Ask the terminal itself: COLUMNS and LINES, which textual believes, say how large it was."""
            try:
                columns, rows = os.get_terminal_size(self.fileno)
            except OSError:
                columns = rows = 0
            return (columns, rows) if columns and rows else super()._get_terminal_size()

        def _draw_anew(self) -> None:
            self._loop.call_soon_threadsafe(self._draw_all)

        def _draw_all(self) -> None:
            if self._app.is_running:
                self._app.screen.refresh(layout=True)
                self._app.screen.query("*").refresh()

        def _look(self) -> None:
            """Look whether it is still there: a process that ignores SIGHUP is not told, and textual reads on."""
            look = select.poll()
            look.register(self.fileno, select.POLLIN)
            if any(
                events & (select.POLLHUP | select.POLLERR | select.POLLNVAL) for _, events in look.poll(0)
            ):
                gone()
            else:
                self._looking = self._loop.call_later(LOOK_SECONDS, self._look)

        def _run_input_thread(self) -> None:
            # Textual has no way to say what reads.
            linux_driver.XTermParser = KeyParser  # type: ignore[attr-defined]
            try:
                self.run_input_thread()
            except OSError:
                self._loop.call_soon_threadsafe(gone)
            finally:
                linux_driver.XTermParser = XTermParser  # type: ignore[attr-defined]

    return Display
