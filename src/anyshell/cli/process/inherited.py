"""The repair of the signals and standard descriptors that this process has inherited from its parent."""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False  # see anyshell/__init__.py

if TYPE_CHECKING:
    from typing import IO


def die_of_interrupts() -> None:
    """Let Ctrl-C end the program by the signal's default action, without a traceback, while nothing needs a cleanup."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def prepare() -> None:
    """Repair the inherited signals and descriptors. Only the program calls this function: a library must not do so."""
    die_of_interrupts()
    if sys.platform != "win32":
        # With SIGCHLD ignored, the kernel discards the exit statuses of all children (wait(2), NOTES).
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        # A blocked signal stays blocked in a command, which would then ignore a request to end.
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
    _fill_standard_descriptors()
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")  # a character outside the encoding must not raise
            if sys.platform == "win32" and not stream.isatty():
                # A program reads this stream: the console's code page and line ends are for people.
                reconfigure(encoding="utf-8", newline="\n")


def _fill_standard_descriptors() -> None:
    """Open /dev/null in place of each closed standard descriptor.

    Otherwise the next opened file would take the free number, and output would go into that file. Reading gives
    end-of-file. Writing fails, as for every program whose stdout is closed, so no output is lost silently.
    """
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            opened = os.open(os.devnull, os.O_RDONLY)
            if opened != fd:  # only on Windows, where the number of a closed descriptor is not free
                os.dup2(opened, fd)
                os.close(opened)
    # Python's stream of a closed descriptor is None: a print to None has no effect, and raises nothing.
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)


def settle(stream: IO[str]) -> None:
    """Flush a stream; if the flush fails, redirect the stream's descriptor to /dev/null.

    Otherwise the interpreter would flush again at exit, report the same failure once more, and exit with 120
    (https://docs.python.org/3/library/signal.html#note-on-sigpipe).
    """
    try:
        stream.flush()
    except (OSError, ValueError):
        try:
            fd = stream.fileno()
        except (OSError, ValueError):
            return  # the stream is closed, or was replaced by an object without a descriptor
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, fd)
        os.close(null)
