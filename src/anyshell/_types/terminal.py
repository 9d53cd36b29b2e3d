"""The terminal of a program: its kind, its screen, and its readers."""

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
"""Columns, and rows, of a terminal, and of a screen that is drawn of a recording: it is held in memory."""

_TERMINAL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminal:
    """The terminal that a program is given.

    Attributes:
        columns: Characters of a row, 2 to 1,000.
        rows: 2 to 1,000.
        term: Its type: a name of the host's terminfo, which the program finds in ``TERM``.

    Raises:
        InvalidCommand: A size that is out of range; a name that no terminal has.
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
        rows: Its rows from the top, each without the blanks at its end.
        cursor: Row and column of the cursor, both from 0.
        title: The window title that the program has set; empty when it has not.
        alternate: Whether it is the alternate screen, as editors and pagers use it, which leaves no trace.
        cursor_visible: Whether the cursor is shown; what draws all of the screen by itself may hide it.
    """

    rows: tuple[str, ...]
    cursor: tuple[int, int] = (0, 0)
    title: str = ""
    alternate: bool = False
    cursor_visible: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalLines:
    """Lines that a terminal's program has printed, as they are at one moment: scrolled away, or on the main screen.

    A line that the terminal wraps is one. Of very much output, those that scrolled away first are not kept.

    Attributes:
        first: The number of the first one here, counted from 0 since the program began.
        texts: They, each without the blanks at its end.
        final: The number of the first that may still change.
    """

    first: int
    texts: tuple[str, ...]
    final: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreground:
    """The processes that have a terminal at one moment, as far as a host can tell. What is ``None`` it cannot.

    Attributes:
        processes: The foreground process group: those that ^C reaches, and that may read.
        asleep_in: The system call of one of them that waits for input there: ``read`` on the terminal itself, or
            ``select`` for as long as it takes on nothing else; ``poll``, or the like, while it has the terminal open;
            ``None`` when neither, or not known.
        waiting: The processes of which `asleep_in` tells; empty when it does not, or not of which.
        cpu: Seconds of processor time that they have used together.
        echo: Whether the terminal shows what is typed. A program that asks for a password has it off.
        line_mode: Whether the terminal passes on whole lines, as it does unless a program edits its line itself.
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
        certainty: ``certain`` when it is blocked in a read of the terminal; ``likely`` when it sleeps as a program does
            that waits for a key or for something else, has used no processor time and printed nothing for a while.
        prompt: The text before the cursor on its line: the question, as a rule. Empty when nothing does.
        echo: Whether the terminal shows what is typed. It does not while a password is asked for; nor at the prompt of
            a shell or in an editor, which show it themselves: whether it is a password, `password` says. ``None`` when
            the host cannot tell.
        line_mode: Whether the terminal passes on whole lines, as it does unless a program edits its line itself.
            ``None`` when the host cannot tell.
        processes: The processes that have the terminal.
    """

    certainty: Literal["certain", "likely"]
    prompt: str = ""
    echo: bool | None = None
    line_mode: bool | None = None
    processes: tuple[ProcessInfo, ...] = ()

    @property
    def password(self) -> bool | None:
        """Whether it asks as for a password: it reads a line, and what is typed is not shown.

        False for a program that reads single keys, also if it asks for a password in a way of its own. ``None`` when the
        host cannot tell.
        """
        if self.echo is None or self.line_mode is None:
            return None
        return self.line_mode and not self.echo
