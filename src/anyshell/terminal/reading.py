"""The reading of a program on a terminal: its screen, its output, the input that it waits for, and its end."""

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
"""Seconds for something to be expected, or for input to be waited for, unless given."""

SHOWN_ROWS = 10
"""Rows of the screen in the message of `ExpectTimeout` and `ProgramEnded`: the last ones that are not empty."""

SHOWN_COLUMNS = 160
"""Characters of each of these rows, and of the patterns."""

Expected: TypeAlias = "str | re.Pattern[str] | type[ExpectTimeout] | type[ProgramEnded]"


class TerminalReader:
    """The screen and the output of a program on a terminal.

    Args:
        controller: Stands between the engine and the program.
        shows: Whether it keeps colours and a scrollback for a person.

    Attributes:
        before: The output of the program between the last two matches of `expect`; after `ExpectTimeout` and `ProgramEnded`,
            all since the last match.
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
        """The number of its program on the host, where the host tells."""
        process = self._controller.process
        return None if process is None else process.pid

    @property
    def running(self) -> bool:
        """Whether the program runs, or is being stopped."""
        return self._task is not None and not self._task.done()

    @property
    def outcome(self) -> Outcome | None:
        """Its outcome; ``None`` while it runs.

        Raises:
            Exception: What kept it from being learnt.
        """
        return None if self._task is None or not self._task.done() else self._result(self._task)

    @property
    def screen(self) -> Screen:
        """The present screen of the terminal."""
        return self._controller.output.screen

    @property
    def shows(self) -> bool:
        """Whether there is a `view`: whether it was made with a scrollback."""
        return self._shows

    def view(self, back: int = 0) -> StyledScreen:
        """The present screen with its colours, or the view so many rows above it, as far as rows are kept.

        Args:
            back: Rows to go up; more than there are goes up to the first.

        Raises:
            InvalidCommand: No such number.
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
        """A counter of pieces of output, and of the end: unchanged as long as the screen is."""
        return self._controller.changes

    async def changed(self, since: int, *, timeout: Seconds | None = None) -> bool:
        """Wait until the program has printed something, or has ended.

        Args:
            since: The value of `changes` at the last look; if it is another now, there is no wait.
            timeout: Seconds; ``None`` is no bound.

        Returns:
            Whether it has; ``False`` when the time is over, or it had ended before.

        Raises:
            InvalidCommand: A bad timeout, or no such number.
        """
        check_count("since", since, least=0)
        timeout = check_seconds("timeout", timeout, zero=True)
        return since != self.changes or await self._controller.changed(timeout)

    def lines(self, since: int = 0) -> TerminalLines:
        """The lines of the main screen, and those that have scrolled off it.

        ``t.lines(since=before.final)`` is what may have changed since `before`.

        Args:
            since: The number of the first line that is wanted; 0 or more.

        Raises:
            InvalidCommand: No such number.
        """
        check_count("since", since, least=0)
        return self._controller.output.lines(since)

    async def foreground(self) -> Foreground | None:
        """The processes that have the terminal now; ``None`` when the host cannot tell, or none has it any more."""
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
        """Wait until the program has printed something, or is idle.

        What is searched is what it has printed since the last match, decoded and without escape sequences, so that a line
        that the terminal wraps is one line, and each state of a line that is drawn anew is a line. What was typed and
        echoed is in it. While the program uses the alternate screen, as an editor or a pager does, it is the rows of
        that which are searched, as they stand there now; and so are those of the ordinary one when the program has drawn
        on it since the last match, as a dialog does.

        It is searched where everything else happens as well: a pattern that backtracks exponentially, as ``(a+)+b`` may,
        blocks the event loop for that time, over the timeout too.

        Args:
            pattern: A regular expression; in a text, ``^`` and ``$`` are the ends of lines. A match of more than 8,192
                characters may not be found. Or ``"idle"``: until it waits for input (see `waiting`) or was silent
                for 1 s; whatever was printed since the last match is the match then. Or a list of regular expressions, in
                which `ExpectTimeout` and `ProgramEnded` may stand as well: then they are no error.
            timeout: Seconds, 0 or more; ``None`` is no bound.

        Returns:
            The match; of a list, the place of the one that matched first in the output, and `match` has the match. `before`
            is what stands before it.

        Raises:
            InvalidCommand: A pattern that does not compile, an empty list, or a bad timeout.
            ExpectTimeout: It did not come in time. The message has the end of the screen, without secrets.
            ProgramEnded: The program ended before; the exception and `outcome` say how.
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
        """Wait as `expect` does for one pattern, and return ``None`` where that raises `ExpectTimeout` or `ProgramEnded`.

        Raises:
            InvalidCommand: A pattern that does not compile, or a bad timeout.
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
        """The exception for patterns that did not come."""
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
        """Whether the program waits for input now; ``None`` when not, or when that cannot be known.

        Asks the host, and takes half a second where it is not certain; at most one while the program prints.
        """
        self._started()
        return await self._controller.watch.look()

    async def wait_for_input(self, *, timeout: Seconds | None = EXPECT_SECONDS) -> Waiting | None:
        """Wait until the program waits for input, which is noticed within a second.

        Args:
            timeout: Seconds, 0 or more; ``None`` is no bound.

        Returns:
            What it waits for; ``None`` when it did not in time, or has ended.

        Raises:
            InvalidCommand: A bad timeout.
        """
        timeout = check_seconds("timeout", timeout, zero=True)
        self._started()
        return await self._controller.watch.wait(timeout)

    def _started(self) -> asyncio.Task[Outcome]:
        if self._task is None:
            raise AnyshellError("the terminal was not entered: use 'async with env.terminal(...) as t'")
        return self._task

    def _result(self, task: asyncio.Task[Outcome]) -> Outcome:
        """The outcome of a run that is over. A run that was cancelled has stopped its program as well."""
        if task.cancelled():
            return Outcome(status="cancelled", duration=self._duration)
        return task.result()


def _pattern_text(pattern: object) -> str:
    """A pattern, for a message."""
    if isinstance(pattern, type):
        return pattern.__name__
    return repr(pattern.pattern if isinstance(pattern, re.Pattern) else pattern)


def how_ended(outcome: Outcome | None) -> str:
    """The end of a program, for a message."""
    if outcome is None or outcome.status == "lost":
        return "has ended, how is unknown"
    if outcome.status != "exited":
        return f"has ended ({outcome.status})"
    if outcome.signal is not None:
        return f"was ended by {outcome.signal}"
    return f"has ended with exit code {outcome.exit_code}"
