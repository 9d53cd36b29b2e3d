"""This process as its parent left it: its signals and its standard descriptors."""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False  # see anyshell/__init__.py

if TYPE_CHECKING:
    from typing import IO


def die_of_interrupts() -> None:
    """Let Ctrl-C end the program as it ends any other, without a traceback, while there is nothing to clean up."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def prepare() -> None:
    """Put right what this process inherited. For the program alone: nothing of this is a library's to do."""
    die_of_interrupts()
    if sys.platform != "win32":
        # With SIGCHLD ignored the kernel throws the exit codes of all children away (wait(2), NOTES).
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        # A blocked signal stays blocked in a command, which would then be deaf to a request to end.
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
    _fill_standard_descriptors()
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")  # a name that the encoding lacks is no reason to fail
            if sys.platform == "win32" and not stream.isatty():
                # Its reader is a program: the console's page and ends of lines are for people.
                reconfigure(encoding="utf-8", newline="\n")


def _fill_standard_descriptors() -> None:
    """Put /dev/null where a standard descriptor is closed.

    Otherwise the next thing that is opened takes its number, and output would be written into that. Reading gives
    end-of-file. Writing fails, as it does for every program whose stdout is closed: nothing is lost in silence.
    """
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            opened = os.open(os.devnull, os.O_RDONLY)
            if opened != fd:  # it is the lowest free number, but on Windows, where a closed one is not free
                os.dup2(opened, fd)
                os.close(opened)
    # Python's object for a closed one is None: prints to it have no effect, and raise nothing.
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)


def settle(stream: IO[str]) -> None:
    """Give what cannot be written somewhere to go.

    The interpreter flushes at its end, would complain of the same failure once more, and exit with 120
    (https://docs.python.org/3/library/signal.html#note-on-sigpipe).
    """
    try:
        stream.flush()
    except (OSError, ValueError):
        try:
            fd = stream.fileno()
        except (OSError, ValueError):
            return  # closed, or replaced by something without a descriptor
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, fd)
        os.close(null)
