"""Reading from a program on a terminal: the screen, the output, the input that the program waits for, and the end."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeAlias, overload

from .._exceptions import AnyshellError, InvalidCommand
from .._types import ExpectTimeout, Outcome, ProgramEnded, TerminalLines, check_count, check_seconds
from ..output import expression
from .search import TerminalSearch

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from .._types import Foreground, Screen, Waiting
    from .._types.checks import Seconds
    from ..output import InputModes, StyledScreen
    from .controller import Controller

EXPECT_SECONDS = 30.0
"""Seconds to wait for a pattern or for input, unless given; then the pattern or the input did not come."""

SHOWN_ROWS = 10
"""Rows of the screen in the message of `ExpectTimeout` and `ProgramEnded`: the last rows, without empty rows at the end."""

SHOWN_COLUMNS = 160
"""Characters of each row of the screen, and of the patterns, in the message of `ExpectTimeout` and `ProgramEnded`."""

Expected: TypeAlias = "str | re.Pattern[str] | type[ExpectTimeout] | type[ProgramEnded]"


class TerminalReader:
    """The screen and the output of a program on a terminal.

    Args:
        controller: The controller between the engine and the program.
        shows: Whether the terminal keeps colours and a scrollback for a person.

    Attributes:
        before: The output of the program between the last two matches of `expect`; after `ExpectTimeout` and `ProgramEnded`,
            all output since the last match.
        match: The last match of `expect`; ``None`` before the first one, and after an `expect` without one.
    """

    def __init__(self, controller: Controller, *, shows: bool) -> None:
        self._shows = shows
        self.before = ""
        self.match: re.Match[str] | None = None
        self._controller = controller
        self._search = TerminalSearch(controller)
        self._task: asyncio.Task[Outcome] | None = None
        self._duration = 0.0

    @property
    def modes(self) -> InputModes:
        """The modes for keys, mouse and pastes that the program has set on its terminal."""
        return self._controller.output.modes

    @property
    def pid(self) -> int | None:
        """The process id of the program on the host; ``None`` before the start, or where the host does not tell."""
        process = self._controller.process
        return None if process is None else process.pid

    @property
    def running(self) -> bool:
        """Whether the program is starting, running or being stopped."""
        return self._task is not None and not self._task.done()

    @property
    def outcome(self) -> Outcome | None:
        """The outcome of the program; ``None`` before the program's end.

        Raises:
            Exception: The error that kept the outcome from being learnt.
        """
        return None if self._task is None or not self._task.done() else self._result(self._task)

    @property
    def screen(self) -> Screen:
        """The present screen of the terminal."""
        return self._controller.output.screen

    @property
    def shows(self) -> bool:
        """Whether the terminal has a `view`, because it was made with a scrollback."""
        return self._shows

    def view(self, back: int = 0) -> StyledScreen:
        """Return the present screen with its colours, or the view `back` rows above the screen.

        Args:
            back: Rows to go up; a larger number than the rows kept goes up to the first kept row.

        Raises:
            InvalidCommand: `back` is not a whole number of 0 or more.
            AnyshellError: The terminal was made without a scrollback, and keeps no colours.
        """
        check_count("back", back, least=0)
        if not self._shows:
            raise AnyshellError(
                "this terminal keeps no colours: make it with env.terminal(..., scrollback=1000)"
            )
        return self._controller.output.view(back)

    @property
    def changes(self) -> int:
        """A counter of output pieces and of the end. While the counter is unchanged, the program has printed nothing new."""
        return self._controller.changes

    async def changed(self, since: int, *, timeout: Seconds | None = None) -> bool:
        """Wait until the program has printed output, or has ended.

        Args:
            since: The value of `changes` at the last look; if `changes` differs now, there is no wait.
            timeout: Seconds; ``None`` means no bound.

        Returns:
            Whether the program has printed or ended since; ``False`` at the timeout, or if the program had ended before.

        Raises:
            InvalidCommand: The timeout is bad, or `since` is not a whole number of 0 or more.
        """
        check_count("since", since, least=0)
        timeout = check_seconds("timeout", timeout, zero=True)
        return since != self.changes or await self._controller.changed(timeout)

    def lines(self, since: int = 0) -> TerminalLines:
        """Return the lines of the main screen, and the lines that have scrolled off the main screen.

        ``t.lines(since=before.final)`` returns the lines that may have changed since `before`.

        Args:
            since: The number of the first line that is wanted; 0 or more.

        Raises:
            InvalidCommand: `since` is not a whole number of 0 or more.
        """
        check_count("since", since, least=0)
        return self._controller.output.lines(since)

    async def foreground(self) -> Foreground | None:
        """Return the processes that have the terminal now; ``None`` if no process has it or the host cannot tell."""
        return await self._controller.foreground()

    @overload
    async def expect(  # type: ignore[overload-overlap]  # a text is a sequence of texts as well, and is one pattern
        self, pattern: str | re.Pattern[str], *, timeout: Seconds | None = EXPECT_SECONDS
    ) -> re.Match[str]: ...

    @overload
    async def expect(
        self, pattern: Sequence[Expected], *, timeout: Seconds | None = EXPECT_SECONDS
    ) -> int: ...

    async def expect(
        self,
        pattern: str | re.Pattern[str] | Sequence[Expected],
        *,
        timeout: Seconds | None = EXPECT_SECONDS,
    ) -> re.Match[str] | int:
        """Wait until the program has printed a match of a pattern, or is idle.

        The search covers the output since the last match, decoded and without escape sequences. A line that the terminal
        wraps is one line. Each state of a line that is drawn anew is a line of its own. Echoed input is part of the output.
        While the program uses the alternate screen, as an editor or a pager does, the search covers the present rows of that
        screen instead. The search also covers the rows of the main screen if the program has placed the cursor there since the
        last match, as a dialog does.

        The search runs in the event loop: a pattern that backtracks exponentially, as ``(a+)+b`` may, blocks the event loop,
        also beyond the timeout.

        Args:
            pattern: A regular expression; in a text, ``^`` and ``$`` are the ends of lines. A match of more than 8,192
                characters may not be found. Or ``"idle"``: until the program waits for input (see `waiting`) or was silent
                for 1 s; the match is then all output since the last match. Or a list of regular expressions, in which
                `ExpectTimeout` and `ProgramEnded` may stand too: a listed exception is returned as a match, not raised.
            timeout: Seconds, 0 or more; ``None`` means no bound.

        Returns:
            The match. For a list, the index of the pattern that matched first in the output; the attribute `match` then has
            the match. The attribute `before` has the output before the match.

        Raises:
            InvalidCommand: A pattern does not compile, the list is empty, or the timeout is bad.
            ExpectTimeout: No match came in time. The message has the end of the screen, without secrets.
            ProgramEnded: The program ended before a match; the exception and `outcome` say how the program ended.
        """
        timeout = check_seconds("timeout", timeout, zero=True)
        self._started()
        if isinstance(pattern, str | re.Pattern):
            match = await self.find(pattern, timeout=timeout)
            if match is None:
                raise self._unmet([pattern], timeout)
            return match
        if not isinstance(pattern, list | tuple):
            raise InvalidCommand(
                f"expect needs a regular expression or a list of some, not {_pattern_text(pattern)}; wait() waits for the end"
            )
        if not pattern:
            raise InvalidCommand("expect needs a pattern, and the list is empty")
        places: dict[re.Pattern[str], int] = {}
        for place, each in enumerate(pattern):
            if each == "idle":
                raise InvalidCommand("'idle' stands alone, and in no list of patterns: expect('idle')")
            if each not in (ExpectTimeout, ProgramEnded):
                places.setdefault(expression(each), place)
        match = self._keep(await self._search.wait_match(tuple(places), timeout))
        if match is not None:
            return places[match.re]
        error = self._unmet([each for each in pattern if not isinstance(each, type)], timeout)
        if type(error) in pattern:
            return pattern.index(type(error))
        raise error

    async def find(
        self, pattern: str | re.Pattern[str], *, timeout: Seconds | None = EXPECT_SECONDS
    ) -> re.Match[str] | None:
        """Wait as `expect` does for one pattern, but return ``None`` at the timeout or at the program's end.

        Raises:
            InvalidCommand: The pattern does not compile, or the timeout is bad.
        """
        timeout = check_seconds("timeout", timeout, zero=True)
        self._started()
        if pattern == "idle":
            return self._keep(await self._search.wait_idle(timeout))
        return self._keep(await self._search.wait_match((expression(pattern),), timeout))

    def _keep(self, match: re.Match[str] | None) -> re.Match[str] | None:
        self.match = match
        self.before = self._search.text() if match is None else match.string[: match.start()]
        return match

    def _unmet(self, patterns: list[Any], timeout: Seconds | None) -> ExpectTimeout | ProgramEnded:
        """Return the exception for patterns that did not match in time or before the program's end."""
        rows = [row[:SHOWN_COLUMNS] for row in self.screen.rows]
        while rows and not rows[-1]:
            rows.pop()
        shown = "\n".join(rows[-SHOWN_ROWS:])
        said = " or ".join(map(_pattern_text, patterns))
        what = self._search.hidden(said[:SHOWN_COLUMNS] + "…" * (len(said) > SHOWN_COLUMNS) or "nothing")
        screen = f"The screen:\n{shown}" if shown else "The screen is empty"
        if self.running:
            return ExpectTimeout(
                f"{what} did not come within {timeout:g} s, and the program goes on. {screen}",
                before=self.before,
            )
        return ProgramEnded(
            f"{what} did not come: the program {how_ended(self.outcome)}. {screen}",
            before=self.before,
            outcome=self.outcome,
        )

    async def waiting(self) -> Waiting | None:
        """Return the input that the program waits for now; ``None`` if the program does not wait, or the host cannot tell.

        The question to the host takes half a second where the answer is not certain, and at most one second while the program
        prints.
        """
        self._started()
        return await self._controller.watch.look()

    async def wait_for_input(self, *, timeout: Seconds | None = EXPECT_SECONDS) -> Waiting | None:
        """Wait until the program waits for input, which is noticed within a second.

        Args:
            timeout: Seconds, 0 or more; ``None`` means no bound.

        Returns:
            The input that the program waits for; ``None`` if the program did not wait in time, or has ended.

        Raises:
            InvalidCommand: The timeout is bad.
        """
        timeout = check_seconds("timeout", timeout, zero=True)
        self._started()
        return await self._controller.watch.wait(timeout)

    def _started(self) -> asyncio.Task[Outcome]:
        if self._task is None:
            raise AnyshellError("the terminal was not entered: use 'async with env.terminal(...) as t'")
        return self._task

    def _result(self, task: asyncio.Task[Outcome]) -> Outcome:
        """Return the outcome of a run that is over. A cancelled run has stopped its program."""
        if task.cancelled():
            return Outcome(status="cancelled", duration=self._duration)
        return task.result()


def _pattern_text(pattern: object) -> str:
    """Return the text of a pattern for a message."""
    if isinstance(pattern, type):
        return pattern.__name__
    return repr(pattern.pattern if isinstance(pattern, re.Pattern) else pattern)


def how_ended(outcome: Outcome | None) -> str:
    """Return the words for the end of a program in a message."""
    if outcome is None or outcome.status == "lost":
        return "has ended, how is unknown"
    if outcome.status != "exited":
        return f"has ended ({outcome.status})"
    if outcome.signal is not None:
        return f"was ended by {outcome.signal}"
    return f"has ended with exit code {outcome.exit_code}"
