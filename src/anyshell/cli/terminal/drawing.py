"""The drawing and erasing of one line on this program's own terminal, and the checks whether drawing is allowed."""

from __future__ import annotations

import os
import stat
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import Self

USUAL_COLUMNS = 80
"""Columns that a terminal is assumed to have if it does not report its width."""

_STDIN, _STDOUT, STDERR = range(3)

_CUT = "…"

_ERASE = b"\r\x1b[K"
_ERASE_ABOVE = b"\x1b[A\r\x1b[K\x1b[B"
"""Erases the line after the person has pressed Enter, which the terminal echoes: the cursor stays in the next row."""

_ERASE_BELOW = b"\x1b[B\x1b[K"
"""Erases one further row, on a terminal that has become narrower and may have wrapped the line. ``CSI J`` is not used: if
``CSI J`` erases a whole screen, tmux keeps the erased text."""


def is_wanted(*, quiet: bool = False) -> bool:
    """Whether to show progress to a person: stderr is a terminal that can be drawn on.

    Args:
        quiet: Whether the person has asked for silence.
    """
    return not quiet and os.isatty(STDERR) and not _is_dumb()


def is_in_pipe() -> bool:
    """Whether stdin, stdout or stderr is a pipe or a socket: a process at the other end may write on the same terminal."""
    modes = [os.fstat(fd).st_mode for fd in (_STDIN, _STDOUT, STDERR)]
    return any(stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) for mode in modes)


def has_colour() -> bool:
    """Whether drawings may have colours; see https://no-color.org. Always false on Windows: its consoles are not queried."""
    return not os.environ.get("NO_COLOR") and sys.platform != "win32"


def _is_dumb() -> bool:
    """Whether TERM says that the terminal knows no escape sequences. Windows has no TERM."""
    term = os.environ.get("TERM", "")
    return term == "dumb" or (not term and sys.platform != "win32")


def is_in_foreground(fd: int) -> bool:
    """Whether this program is in the foreground of a terminal; true without job control on that terminal."""
    if sys.platform == "win32":
        return True
    try:
        return os.tcgetpgrp(fd) == os.getpgrp()
    except OSError:
        return True  # not our controlling terminal


_MAKE_ROOM = b"\x1bD\x1b[A"
"""Ensures a row below the cursor, and keeps the cursor's column. At the bottom of the screen, all rows scroll up by one."""

_BELOW, _BACK = b"\x1b7\x1b[B\r", b"\x1b8"
"""Sequences that save the cursor and go to the beginning of the row below, and that restore the cursor."""


class Drawn(NamedTuple):
    """A drawn line, remembered so that it can be erased. Drawing leaves the cursor at the beginning of the line.

    If the cursor's column is not known, the line is drawn in the row below the cursor, and the cursor stays in its place.

    Attributes:
        fd: The terminal's descriptor.
        text: The text of the line.
        columns: The width of the terminal.
        typed: Bytes of typed lines that were unread when the line was drawn.
        below: Whether the line is in the row below the cursor.
    """

    fd: int
    text: str
    columns: int
    typed: int
    below: bool = False

    @classmethod
    def of(cls, fd: int, text: str, *, below: bool = False) -> Self:
        """Return the record of a line that is about to be drawn, and fits the terminal."""
        return cls(fd, text, columns(fd), _typed(fd), below and sys.platform != "win32")

    def drawing(self, shown: str) -> bytes:
        """Return the bytes that draw the line.

        Args:
            shown: The text of the line, with colours if wanted.
        """
        data = shown.encode("utf-8", "replace")
        return _MAKE_ROOM + _BELOW + data + _BACK if self.below else data + b"\r"

    def erasing(self) -> bytes:
        """Return the bytes that erase the line, and leave the cursor in its place."""
        if sys.platform == "win32":  # a console may know no escape sequences
            return b"\r" + b" " * min(widest(self.text), self.columns - 1) + b"\r"
        if _typed(self.fd) == self.typed + 1:  # one Enter; for more input, the number of lines is not known
            return _ERASE if self.below else _ERASE_ABOVE
        folds = max(0, (widest(self.text) - 1) // columns(self.fd))
        if self.below:
            return _BELOW + b"\x1b[K" + _ERASE_BELOW * folds + _BACK
        return _ERASE + (b"\x1b7" + _ERASE_BELOW * folds + _BACK if folds else b"")


def _typed(fd: int) -> int:
    """Return the number of bytes of typed lines that are not read yet; 0 if the number is not known."""
    if sys.platform == "win32":
        return 0
    import fcntl
    import termios

    try:
        return int.from_bytes(fcntl.ioctl(fd, termios.FIONREAD, bytes(4)), sys.byteorder)
    except OSError:
        return 0


def columns(fd: int) -> int:
    """Return the present width of a terminal."""
    with suppress(OSError, ValueError):
        return os.get_terminal_size(fd).columns or USUAL_COLUMNS
    return USUAL_COLUMNS


def has_one_row(fd: int) -> bool:
    """Whether a terminal has only one row: a drawing below the cursor would scroll the cursor's row away."""
    with suppress(OSError, ValueError):
        return os.get_terminal_size(fd).lines == 1
    return False


def on_one_line(text: str) -> str:
    """Return a text made safe to draw on one line, before truncation."""
    from ...policy import visible

    return visible(text.replace("\t", " "))


def fit(text: str, room: int) -> str:
    """Return as much of a text as certainly fits. No character moves the cursor; a truncated text ends with an ellipsis.

    Args:
        text: A text of any origin; tabs become spaces, invisible characters become escapes.
        room: Available columns; 1 or more.
    """
    text = on_one_line(text)
    if len(text) <= room and text.isascii():
        return text
    used = 0
    end = None  # the place of the cut if the text does not fit
    for at, char in enumerate(text):
        if end is None and used + _most_columns(char) > room - _most_columns(_CUT):
            end = at
        used += _most_columns(char)
        if used > room:
            return text[:end] + (_CUT if room >= _most_columns(_CUT) else "")
    return text


def widest(text: str) -> int:
    """Return the most columns that a text takes on any terminal."""
    return len(text) if text.isascii() else sum(map(_most_columns, text))


def _most_columns(char: str) -> int:
    """Return the most columns that a character takes: some terminals give two to ambiguous characters (UAX #11)."""
    if char.isascii():
        return 1
    from unicodedata import east_asian_width

    from ...output.cells import width

    return 2 if width(char) and east_asian_width(char) == "A" else width(char)
