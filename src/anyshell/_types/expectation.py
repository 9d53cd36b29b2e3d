"""The exceptions for a program on a terminal that does not print the expected output."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._exceptions import AnyshellError

if TYPE_CHECKING:
    from .outcome import Outcome


class ExpectTimeout(AnyshellError, TimeoutError):  # noqa: N818 - a public name
    """The expected output of a program on a terminal did not arrive in time. The message has the end of the screen.

    Attributes:
        before: The output of the program since the last match.
    """

    __module__ = "anyshell"

    def __init__(self, message: str, *, before: str = "") -> None:
        super().__init__(message)
        self.before = before


class ProgramEnded(AnyshellError, EOFError):  # noqa: N818 - a public name
    """A program on a terminal ended before it printed the expected output, or before it read the typed input.

    Attributes:
        before: The output of the program since the last match.
        outcome: The program's outcome, if known.
    """

    __module__ = "anyshell"

    def __init__(self, message: str, *, before: str = "", outcome: Outcome | None = None) -> None:
        super().__init__(message)
        self.before = before
        self.outcome = outcome
