"""What may be drawn on this program's own terminal for the person there, and how much of it fits."""

from __future__ import annotations

import os
import stat
import sys
from contextlib import suppress

from ..output.cells import width
from ..policy import visible

USUAL_COLUMNS = 80
"""Columns of a terminal that does not say how many it has."""

_STDIN, _STDOUT, _STDERR = range(3)

_CUT = "…"


def is_wanted(*, quiet: bool = False) -> bool:
    """Whether a person is there who is to be shown how work goes on: stderr is a terminal that can be drawn on.

    Args:
        quiet: Whether the person has asked for silence.
    """
    return not quiet and os.isatty(_STDERR) and not _is_dumb()


def is_in_pipe() -> bool:
    """Whether stdin, stdout or stderr is a pipe or a socket: its other end may write on the same terminal."""
    modes = [os.fstat(fd).st_mode for fd in (_STDIN, _STDOUT, _STDERR)]
    return any(stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) for mode in modes)


def has_colour() -> bool:
    """Whether what is drawn may have colours; see https://no-color.org. Windows' consoles are not asked if they know them."""
    return not os.environ.get("NO_COLOR") and sys.platform != "win32"


def _is_dumb() -> bool:
    """Whether the terminal is said to know no sequences. On Windows nobody says what it is."""
    term = os.environ.get("TERM", "")
    return term == "dumb" or (not term and sys.platform != "win32")


def columns(fd: int) -> int:
    """How wide a terminal is now."""
    with suppress(OSError, ValueError):
        return os.get_terminal_size(fd).columns or USUAL_COLUMNS
    return USUAL_COLUMNS


def fit(text: str, room: int) -> str:
    """As much of a text as surely fits: nothing in it moves the cursor, and what is cut ends with an ellipsis.

    Args:
        text: Of whatever origin; tabs become spaces, what cannot be seen becomes an escape.
        room: Columns that there are; 1 or more.
    """
    text = visible(text.replace("\t", " "))
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
    """As many as a character has anywhere: some terminals give two to what is ambiguous (UAX #11)."""
    if char.isascii():
        return 1
    from unicodedata import east_asian_width

    return 2 if width(char) and east_asian_width(char) == "A" else width(char)
