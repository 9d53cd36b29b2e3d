"""The exceptions of a program on a terminal that does not show the expected text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._exceptions import AnyshellError

if TYPE_CHECKING:
    from .outcome import Outcome


class ExpectTimeout(AnyshellError, TimeoutError):  # noqa: N818 - a public name
    """The expected output of a program on a terminal did not come in time. The message has the end of the screen.

    Attributes:
        before: The output of the program since the last match.
    """

    __module__ = "anyshell"

    def __init__(self, message: str, *, before: str = "") -> None:
        super().__init__(message)
        self.before = before


class ProgramEnded(AnyshellError, EOFError):  # noqa: N818 - a public name
    """A program on a terminal ended before it showed what was expected, or read what was typed.

    Attributes:
        before: The output of the program since the last match.
        outcome: Its outcome, where that is known.
    """

    __module__ = "anyshell"

    def __init__(self, message: str, *, before: str = "", outcome: Outcome | None = None) -> None:
        super().__init__(message)
        self.before = before
        self.outcome = outcome
