"""textual's driver for the person's terminal: a terminal that is stuck or gone neither blocks nor breaks the program."""

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
"""Seconds for which a person's terminal may take no output of a console; then output is dropped, and all is redrawn later."""

LOOK_SECONDS = 0.5
"""Seconds between two checks of a console whether the person's terminal still exists."""

_CANCEL = b"\x18"
"""CAN, which ends an escape sequence whose rest was dropped."""


class Paper:
    """The stream that textual's thread writes to. A write never raises, and waits `STUCK_SECONDS` at most without progress.

    Args:
        fd: The terminal's descriptor, which other processes share, so the descriptor's mode stays unchanged.
        again: Called in the writing thread when the terminal takes output again after output was dropped.
    """

    def __init__(self, fd: int, again: Callable[[], object]) -> None:
        self._fd = fd
        self._again = again
        self._opened = unblocked(fd)
        self._own = self._opened.__enter__()
        self._stuck = False

    def write(self, text: str) -> None:
        """Write a text, or as much of the text as the terminal takes in time."""
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
                return  # the terminal is gone

    def _takes(self, seconds: float) -> bool:
        look = select.poll()
        look.register(self._own, select.POLLOUT)
        return seconds >= 0 and bool(look.poll(max(seconds, 0) * 1000))

    def flush(self) -> None:
        """Do nothing: the stream has no buffer."""

    def isatty(self) -> bool:
        """Return true: the stream is a terminal."""
        return True

    def fileno(self) -> int:
        """Return the shared descriptor."""
        return self._fd

    def close(self) -> None:
        """Close the stream's own descriptor; the shared descriptor stays open."""
        self._opened.__exit__(None, None, None)


class KeyParser(XTermParser):
    """textual's parser of keys, extended: textual knows Alt only with letters, and not with b and f.

    textual waits for the rest of an unknown sequence, then drops the Escape. If another Escape comes first, textual turns the
    first Escape into a circumflex. So a held Alt-d would type ``^d^d``, and Escape soon followed by ``:`` would type a colon.
    """

    def _sequence_to_key_events(self, sequence: str, alt: bool = False) -> Iterable[events.Key]:
        if sequence == "\x1b":  # another Escape broke off the sequence: pass on the Escape that was sent
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
    """Return textual's driver, changed for a terminal that gets stuck, disappears, or is taken away by a stop.

    Args:
        gone: Called in the event loop when the terminal is gone.
    """

    class Display(LinuxDriver):
        _started = False

        def start_application_mode(self) -> None:
            if self._key_thread is not None and self._key_thread.is_alive() and not self._begin_anew():
                return
            # textual has no public way to set the output stream. textual also calls this method after a stop from outside.
            self._file: Any = Paper(sys.__stderr__.fileno() if sys.__stderr__ else 2, self._draw_anew)
            self._looking = self._loop.call_later(LOOK_SECONDS, self._look)
            super().start_application_mode()  # type: ignore[no-untyped-call]  # textual's
            if self._started:
                self._draw_anew()
            self._started = True

        def _begin_anew(self) -> bool:
            """Prepare a restart after SIGCONT without SIGTSTP, as after SIGSTOP; return whether drawing can start now.

            textual itself would start a second reader thread, which never ends, and would save its own terminal settings as
            the person's.
            """
            try:
                in_front = os.tcgetpgrp(self.fileno) == os.getpgrp()
            except OSError:
                return False  # the terminal is gone, which other checks notice
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
            """Return the size of the terminal itself. textual trusts COLUMNS and LINES, which may be outdated."""
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
            """Check whether the terminal still exists: SIGHUP may be ignored, and textual would read on for ever."""
            look = select.poll()
            look.register(self.fileno, select.POLLIN)
            if any(
                events & (select.POLLHUP | select.POLLERR | select.POLLNVAL) for _, events in look.poll(0)
            ):
                gone()
            else:
                self._looking = self._loop.call_later(LOOK_SECONDS, self._look)

        def _run_input_thread(self) -> None:
            # textual has no way to set the parser.
            linux_driver.XTermParser = KeyParser  # type: ignore[attr-defined]
            try:
                self.run_input_thread()
            except OSError:
                self._loop.call_soon_threadsafe(gone)
            finally:
                linux_driver.XTermParser = XTermParser  # type: ignore[attr-defined]  # as above

    return Display
