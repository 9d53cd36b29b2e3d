"""The terminal of a program: its kind, its screen, and the programs that read from it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from .._exceptions import InvalidCommand
from .checks import check_count

if TYPE_CHECKING:
    from .process import ProcessInfo


TerminalKind = Literal["pty", "conpty", "winpty"]

LARGEST_TERMINAL = 1_000
"""Columns, and rows, of a terminal, and of a recording's screen, which are held in memory; a larger size is refused."""

_TERMINAL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminal:
    """The terminal that a program is given.

    Attributes:
        columns: Characters of a row, 2 to 1,000.
        rows: Rows, 2 to 1,000.
        term: The terminal type: a name of the host's terminfo, which the program finds in ``TERM``.

    Raises:
        InvalidCommand: A size is out of range, or the terminal type is not a valid name.
    """

    columns: int = 80
    rows: int = 24
    term: str = "xterm-256color"

    def __post_init__(self) -> None:
        check_count("columns", self.columns, least=2, most=LARGEST_TERMINAL)
        check_count("rows", self.rows, least=2, most=LARGEST_TERMINAL)
        _check_terminal_name(self.term)


def _check_terminal_name(name: object) -> None:
    if not isinstance(name, str) or not _TERMINAL_NAME.match(name):
        raise InvalidCommand(f"term must be a name such as xterm-256color, not {name!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """The screen of a terminal at one moment.

    Attributes:
        rows: The rows of the screen from the top, each without the blanks at its end.
        cursor: Row and column of the cursor, both from 0.
        title: The window title that the program has set; empty without a title.
        alternate: Whether the screen is the alternate screen, which editors and pagers use and which leaves no trace.
        cursor_visible: Whether the cursor is shown; a full-screen program may hide the cursor.
    """

    rows: tuple[str, ...]
    cursor: tuple[int, int] = (0, 0)
    title: str = ""
    alternate: bool = False
    cursor_visible: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalLines:
    """The lines that a terminal's program has printed, at one moment: lines scrolled away, and lines on the main screen.

    A line that the terminal wraps is one line. Of very much output, the oldest lines are not kept.

    Attributes:
        first: The number of the first line in `texts`, counted from 0 since the program began.
        texts: The lines, each without the blanks at its end.
        final: The number of the first line that may still change.
    """

    first: int
    texts: tuple[str, ...]
    final: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreground:
    """The foreground of a terminal at one moment, as far as a host can tell. ``None`` means that the host cannot tell.

    Attributes:
        processes: The foreground process group: the processes that ^C reaches, and that may read the terminal.
        asleep_in: The system call in which a foreground process waits for input. ``read``: a read of the terminal, or a
            ``select`` on the terminal alone, without a timeout. ``poll``: a poll or the like, by a process that has the
            terminal open. ``None``: neither, or unknown.
        waiting: The processes that wait in `asleep_in`; empty without a waiting process, or when the processes are unknown.
        cpu: Seconds of processor time that the foreground processes have used together.
        echo: Whether the terminal shows typed characters. A program that asks for a password turns echo off.
        line_mode: Whether the terminal passes on whole lines. A program that edits its line itself turns line mode off.
    """

    processes: tuple[ProcessInfo, ...] = ()
    asleep_in: Literal["read", "poll"] | None = None
    waiting: tuple[ProcessInfo, ...] = ()
    cpu: float | None = None
    echo: bool | None = None
    line_mode: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A program that waits for input on its terminal.

    Attributes:
        certainty: ``certain`` when the program is blocked in a read of the terminal. ``likely`` when the program sleeps in a
            wait for a key or for another event, and for a while has used no processor time and printed nothing.
        prompt: The text before the cursor on the cursor's line: the question, as a rule. Empty without any text.
        echo: Whether the terminal shows typed characters. Echo is off during a password question, and also at a shell's
            prompt and in an editor, which show the characters themselves; `password` tells these cases apart. ``None``
            when the host cannot tell.
        line_mode: Whether the terminal passes on whole lines. A program that edits its line itself turns line mode off.
            ``None`` when the host cannot tell.
        processes: The processes in the terminal's foreground.
    """

    certainty: Literal["certain", "likely"]
    prompt: str = ""
    echo: bool | None = None
    line_mode: bool | None = None
    processes: tuple[ProcessInfo, ...] = ()

    @property
    def password(self) -> bool | None:
        """Whether the program seems to ask for a password: the program reads a line, and echo is off.

        False for a program that reads single keys, even if the program asks for a password in a way of its own. ``None``
        when the host cannot tell.
        """
        if self.echo is None or self.line_mode is None:
            return None
        return self.line_mode and not self.echo
