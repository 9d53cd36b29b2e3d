"""One line that is drawn on this program's own terminal for the person there, where that may be, and taken away again."""

from __future__ import annotations

import os
import stat
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import Self

USUAL_COLUMNS = 80
"""Columns of a terminal that does not say how many it has."""

_STDIN, _STDOUT, STDERR = range(3)

_CUT = "…"

_ERASE = b"\r\x1b[K"
_ERASE_ABOVE = b"\x1b[A\r\x1b[K\x1b[B"
"""After Enter, which the terminal shows by itself: the cursor stays where that has taken it."""

_ERASE_BELOW = b"\x1b[B\x1b[K"
"""Once for each further row, on a terminal that has become narrower and may have folded the line. Not ``CSI J``: of a whole
screen, tmux keeps what that erases."""


def is_wanted(*, quiet: bool = False) -> bool:
    """Whether progress is to be shown to a person: stderr is a terminal that can be drawn on.

    Args:
        quiet: Whether the person has asked for silence.
    """
    return not quiet and os.isatty(STDERR) and not _is_dumb()


def is_in_pipe() -> bool:
    """Whether stdin, stdout or stderr is a pipe or a socket: its other end may write on the same terminal."""
    modes = [os.fstat(fd).st_mode for fd in (_STDIN, _STDOUT, STDERR)]
    return any(stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) for mode in modes)


def has_colour() -> bool:
    """Whether what is drawn may have colours; see https://no-color.org. Windows' consoles are not asked if they know them."""
    return not os.environ.get("NO_COLOR") and sys.platform != "win32"


def _is_dumb() -> bool:
    """Whether TERM says that the terminal knows no sequences. On Windows there is no TERM."""
    term = os.environ.get("TERM", "")
    return term == "dumb" or (not term and sys.platform != "win32")


def is_in_foreground(fd: int) -> bool:
    """Whether a terminal belongs to this program's job, as far as its shell has any."""
    if sys.platform == "win32":
        return True
    try:
        return os.tcgetpgrp(fd) == os.getpgrp()
    except OSError:
        return True  # not the terminal that controls us


_MAKE_ROOM = b"\x1bD\x1b[A"
"""A row below that of the cursor, whose column stays: at the bottom of the screen, all moves up by one."""

_BELOW, _BACK = b"\x1b7\x1b[B\r", b"\x1b8"
"""To the beginning of that row, and back."""


class Drawn(NamedTuple):
    """A line as it was drawn, after which the cursor was taken back to its beginning: so it can be found again.

    Where the cursor's column is not known, the drawing goes to the row below the cursor's, and the cursor is left where
    it was.

    Attributes:
        fd: The terminal's descriptor.
        text: The text there.
        columns: The width of the terminal.
        typed: Bytes of lines that were typed there by then, and not yet read.
        below: Whether it stands in the row below that of the cursor.
    """

    fd: int
    text: str
    columns: int
    typed: int
    below: bool = False

    @classmethod
    def of(cls, fd: int, text: str, *, below: bool = False) -> Self:
        """Take note of what is about to be drawn, which fits."""
        return cls(fd, text, columns(fd), _typed(fd), below and sys.platform != "win32")

    def drawing(self, shown: str) -> bytes:
        """The bytes that draw the line.

        Args:
            shown: Its text, with whatever colours it has.
        """
        data = shown.encode("utf-8", "replace")
        return _MAKE_ROOM + _BELOW + data + _BACK if self.below else data + b"\r"

    def erasing(self) -> bytes:
        """The bytes that erase the line, and leave the cursor where it was."""
        if sys.platform == "win32":  # a console may know no sequences
            return b"\r" + b" " * min(widest(self.text), self.columns - 1) + b"\r"
        if _typed(self.fd) == self.typed + 1:  # an empty line: of others it cannot be known how many they are
            return _ERASE if self.below else _ERASE_ABOVE
        folds = max(0, (widest(self.text) - 1) // columns(self.fd))
        if self.below:
            return _BELOW + b"\x1b[K" + _ERASE_BELOW * folds + _BACK
        return _ERASE + (b"\x1b7" + _ERASE_BELOW * folds + _BACK if folds else b"")


def _typed(fd: int) -> int:
    """Bytes of the lines that were typed on a terminal and not read yet; 0 where that cannot be known."""
    if sys.platform == "win32":
        return 0
    import fcntl
    import termios

    try:
        return int.from_bytes(fcntl.ioctl(fd, termios.FIONREAD, bytes(4)), sys.byteorder)
    except OSError:
        return 0


def columns(fd: int) -> int:
    """The width of a terminal now."""
    with suppress(OSError, ValueError):
        return os.get_terminal_size(fd).columns or USUAL_COLUMNS
    return USUAL_COLUMNS


def has_one_row(fd: int) -> bool:
    """Whether there is nothing below the row of the cursor: what is drawn there would push that out of a terminal."""
    with suppress(OSError, ValueError):
        return os.get_terminal_size(fd).lines == 1
    return False


def on_one_line(text: str) -> str:
    """Make a text safe to draw, as it is before it is cut."""
    from ...policy import visible

    return visible(text.replace("\t", " "))


def fit(text: str, room: int) -> str:
    """The part of a text that surely fits: nothing in it moves the cursor, and a cut text ends with an ellipsis.

    Args:
        text: A text of any origin; tabs become spaces, what cannot be seen becomes an escape.
        room: Columns that there are; 1 or more.
    """
    text = on_one_line(text)
    if len(text) <= room and text.isascii():
        return text
    used = 0
    end = None  # where to cut if not all of it fits
    for at, char in enumerate(text):
        if end is None and used + _most_columns(char) > room - _most_columns(_CUT):
            end = at
        used += _most_columns(char)
        if used > room:
            return text[:end] + (_CUT if room >= _most_columns(_CUT) else "")
    return text


def widest(text: str) -> int:
    """Columns of a text on whichever terminal gives it most."""
    return len(text) if text.isascii() else sum(map(_most_columns, text))


def _most_columns(char: str) -> int:
    """The columns of a character at most: some terminals give two to ambiguous ones (UAX #11)."""
    if char.isascii():
        return 1
    from unicodedata import east_asian_width

    from ...output.cells import width

    return 2 if width(char) and east_asian_width(char) == "A" else width(char)
