"""A terminal of a tool's call, and the part of its output that the model has seen."""

from __future__ import annotations

import asyncio
import re
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from ..._types import Outcome, Waiting
from ...output.text.bounded import cut_note
from ...terminal.search import IDLE_SECONDS
from ...terminal.waiting import ARRIVAL, LOOK_SECONDS, QUIET
from ..widening import widened
from .question import (
    OtherQuestion,
    ProgramQuestion,
    cursor_line,
    may_draw,
    names,
    reading_programs,
    reads_still,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..._engine import Control
    from ..._environment import Environment
    from ..._stream import Listener
    from ..._types import Channel, CommandRequest, OutputLimits, Screen, TerminalLines
    from ...terminal import DrivenTerminal
    from ..hiding import Hidden

_ALL = re.compile(r"[\s\S]*")


WaitState = Waiting | Literal["ask"] | None
"""The input that a program waits for; ``None`` if the program does not wait; ``"ask"`` if the host is to be asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalReport:
    """The report on a terminal at one moment.

    Attributes:
        text: The new lines of the terminal, or the text of the screen.
        left_out: Lines before `text` that are left out, since the lines were too many.
        elsewhere: With the screen as text: new lines that are still to be told, since not all stand on the screen.
        is_screen: Whether `text` is the screen, rather than the new lines.
        screen: The screen.
        waiting: The input that the program waits for.
        password: Whether the program reads a line that is not shown, such as a password.
        foreground_known: Whether the host can tell the processes in the foreground, and so whether one waits.
        program: The programs in the foreground; ``None`` when unknown.
        outcome: The outcome of the program; ``None`` while the program runs.
        frame: The last frame of the alternate screen of an ended program, if the model was not shown it yet.
    """

    text: str
    left_out: int
    elsewhere: int
    is_screen: bool
    screen: Screen
    waiting: Waiting | None
    password: bool
    foreground_known: bool
    program: str | None
    outcome: Outcome | None
    frame: str | None


class TrackedTerminal:
    """A terminal, and the model's knowledge of the terminal.

    Args:
        request: The approved request that runs on the terminal.
        env: The environment of the terminal.
        grace: Seconds between the request to end and the kill.
        jobs: Whether left-behind processes become a job, rather than being stopped.
        listener: The listener for printed bytes, until the call that started the terminal returns.
        hidden: The secrets that are masked in shown text.
        scrollback: Rows that are kept for a console; ``None`` without a console.
        control: The control that stops the command.

    Attributes:
        id: The terminal's id for the model; empty until the terminal is kept.
        told: Whether the model was told the end of the program.
        listener: The listener; ``None`` after the call.
        turn: The lock for typing: the input of one call stays together.
        printed: Bytes printed on the terminal.
        line_feeds: Line feeds among the printed bytes.
    """

    def __init__(
        self,
        request: CommandRequest,
        env: Environment,
        *,
        grace: float,
        jobs: bool,
        listener: Listener | None,
        hidden: Hidden,
        scrollback: int | None = None,
        control: Control,
    ) -> None:
        assert request.size is not None
        self.id = ""
        self.request = request
        self.told = False
        self.listener = listener
        self.turn = asyncio.Lock()
        self.printed = self.line_feeds = 0
        self.driven: DrivenTerminal = env.terminal(
            request.text,
            columns=request.size.columns,
            rows=request.size.rows,
            term=request.size.term,
            cwd=request.directory,
            env=dict(request.env),
            timeout=request.timeout,
            grace=grace,
            left_behind="adopt" if jobs else "stop",
            listener=self._hear,
            scrollback=scrollback,
            control=control,
            reach=widened(request),
        )
        for secret in hidden.secrets:
            self.driven.hide(secret)
        self._hidden = hidden
        self._began = time.monotonic()
        self._final = 0
        self._shown: tuple[str, ...] = ()
        self._frame_shown = False
        self._printed = asyncio.Event()  # set once bytes were printed since the last look
        self._heard = self._began
        self._known: Waiting | None = None  # the awaited input that the model was told
        self._typings = 0

    @property
    def over(self) -> bool:
        """Whether the terminal's program has ended."""
        return not self.driven.running

    @property
    def outcome(self) -> Outcome | None:
        """The outcome of the program; ``None`` while the program runs, ``lost`` if the outcome is unknown."""
        try:
            return self.driven.outcome
        except Exception:  # noqa: BLE001 - whatever kept it from being learnt
            return Outcome(status="lost")

    @property
    def stopped_by_person(self) -> bool:
        """Whether a person has stopped the command in a console."""
        return self.driven.stopped_by_person

    @property
    def left(self) -> float | None:
        """Seconds until the timeout stops the command; ``None`` without a timeout."""
        timeout = self.request.timeout
        return None if timeout is None else max(0.0, self._began + timeout - time.monotonic())

    @property
    def seconds(self) -> float:
        """Seconds that the command has run, or ran until its end."""
        outcome = self.outcome
        return time.monotonic() - self._began if outcome is None else outcome.duration

    async def look(
        self,
        limits: OutputLimits,
        *,
        screen: bool = False,
        waiting: WaitState = "ask",
    ) -> TerminalReport:
        """Report on the terminal, and record that the model is told the report.

        Args:
            limits: The limits of the shown text.
            screen: Whether the screen is asked for, rather than the new lines.
            waiting: The input that the program waits for, if known already.
        """
        driven, hide = self.driven, self._hidden.text
        if waiting == "ask":
            waiting = await driven.waiting()
        foreground = await driven.foreground() if driven.running else None
        await driven.find(_ALL, timeout=0)  # a later search begins after this text
        self._printed.clear()
        outcome, shown = self.outcome, driven.screen
        is_screen = screen or (outcome is None and shown.alternate)
        frame = None
        if outcome is not None:
            self.told = True
            waiting = None
            if outcome.output.alternate is not None and not self._frame_shown:
                frame, _ = _last(outcome.output.alternate.split("\n"), limits)
        elsewhere = 0
        if is_screen:
            text, left_out = _last("\n".join(shown.rows).rstrip("\n").split("\n"), limits)
            elsewhere = self._not_on(shown)
        else:
            text, left_out = self._news(limits)
        self._frame_shown |= frame is not None or (is_screen and shown.alternate)
        self._known = waiting
        # The screen may still show a secret that was printed before it was hidden.
        shown = replace(shown, rows=tuple(map(hide, shown.rows)))
        return TerminalReport(
            text=hide(text),
            left_out=left_out,
            elsewhere=elsewhere,
            is_screen=is_screen,
            screen=shown,
            waiting=None if waiting is None else replace(waiting, prompt=hide(waiting.prompt)),
            password=waiting is not None and waiting.password is True,
            foreground_known=foreground is not None,
            program=names(foreground),
            outcome=outcome,
            frame=None if frame is None else hide(frame),
        )

    async def question(self) -> ProgramQuestion:
        """Return the present question on the terminal, with the programs that ask."""
        waiting = None if self._printed.is_set() else self._known
        if waiting is None:
            waiting = await self.driven.waiting()
        began = time.monotonic()
        foreground = await self.driven.foreground()
        return ProgramQuestion(
            foreground=foreground,
            line=self._line(waiting),
            waits=waiting is not None,
            asked=began,
            events=(self.printed, self._typings),
            stand=self._stand(),
        )

    async def check(self, before: ProgramQuestion) -> bool:
        """Check that the question is the same as before and that no new program may read; then count the input as typed.

        A question changes with every printed byte and every typed input, since the words that matter may stand on other
        lines than the cursor's. A program that draws by itself, such as ``top``, could then never get an answer: for a
        drawing program, only the line and the place of a visible cursor count.

        Returns:
            Whether the program waits for input now.

        Raises:
            OtherQuestion: Another program may read the input, or the question is another.
        """
        waits = before.waits
        passed = time.monotonic() - before.asked
        if passed > QUIET:
            await asyncio.sleep(ARRIVAL)  # the output of a new question may still be on its way
        if passed > IDLE_SECONDS:
            waits = await self.driven.waiting() is not None
        now = await self.driven.foreground()
        if not reads_still(before.foreground, now):
            raise OtherQuestion(reading_programs(before.foreground), reading_programs(now))
        events = self.printed, self._typings
        if before.waits and events != before.events:
            draws = may_draw(before.foreground) and may_draw(now) and events[1] == before.events[1]
            if not draws or self._stand() != before.stand:
                raise OtherQuestion(reading_programs(before.foreground), None, line=self._line())
        self._typings += 1
        return waits

    async def settle(self, seconds: float) -> WaitState:
        """Wait at most `seconds` until the program has reacted: waits for input, is silent, or has ended."""
        waits = asyncio.ensure_future(self.driven.wait_for_input(timeout=seconds))
        began = time.monotonic()
        try:
            while not waits.done():
                now = time.monotonic()
                silent = max(began, self._heard) + IDLE_SECONDS - now
                if silent <= 0:
                    return "ask"  # `wait_for_input` may watch a program that draws by itself for longer
                if now >= began + seconds:
                    return self._unseen(seconds)
                await asyncio.wait([waits], timeout=min(silent, began + seconds - now))
            return waits.result() or self._unseen(seconds)
        finally:
            await _give_up(waits)

    async def wait(self, seconds: float) -> WaitState:
        """Wait at most `seconds` for news of the program.

        The news: the program waits for input, is silent after printing, or has ended. A likely wait that the model already
        knows is not news.
        """
        driven = self.driven
        give_up = time.monotonic() + seconds
        prints = asyncio.ensure_future(self._printed.wait())
        ends = asyncio.ensure_future(driven.wait())
        waits = asyncio.ensure_future(driven.wait_for_input(timeout=seconds))
        try:
            await asyncio.wait([prints, ends, waits], return_when=asyncio.FIRST_COMPLETED)
            found: WaitState = (waits.result() if waits.done() else None) or "ask"
            known = isinstance(found, Waiting) and found.certainty == "likely" and self._known is not None
            if known and not prints.done() and not ends.done():
                left = max(0.0, give_up - time.monotonic())
                await asyncio.wait([prints, ends], timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if prints.done() and not ends.done():
                found = await self.settle(max(0.0, give_up - time.monotonic()))
            return self._unseen(seconds) if found == "ask" else found
        finally:
            await _give_up(prints, ends, waits)

    async def wait_end(self, seconds: float) -> tuple[bool, WaitState]:
        """Wait at most `seconds` until the program has ended, or certainly waits for input.

        Returns:
            Whether the program has ended, and the input that it waits for.
        """
        ends = asyncio.ensure_future(self.driven.wait())
        waits = asyncio.ensure_future(self.driven.wait_for_input(timeout=seconds))
        give_up = time.monotonic() + seconds
        try:
            await asyncio.wait([ends, waits], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            found = waits.result() if waits.done() else None
            if found is not None and found.certainty == "certain" and not ends.done():
                return False, found
            await asyncio.wait([ends], timeout=max(0.0, give_up - time.monotonic()))
            return ends.done(), "ask"
        finally:
            await _give_up(ends, waits)

    async def wait_until(self, pattern: re.Pattern[str], seconds: float) -> tuple[bool, WaitState]:
        """Wait at most `seconds` until a pattern is printed or shown, or the program certainly waits for input or has ended.

        Returns:
            Whether the pattern was found, and the input that the program waits for.
        """
        driven = self.driven
        comes = asyncio.ensure_future(driven.find(pattern, timeout=seconds))
        waits = asyncio.ensure_future(driven.wait_for_input(timeout=seconds))
        try:
            await asyncio.wait([comes, waits], return_when=asyncio.FIRST_COMPLETED)
            if not comes.done():
                found = waits.result()
                if found is not None and found.certainty == "certain":
                    # The pattern may have been printed together with the question.
                    return await driven.find(pattern, timeout=0) is not None, found
            came = await comes is not None
            return came, "ask" if came else self._unseen(seconds)
        finally:
            await _give_up(comes, waits)

    def _unseen(self, seconds: float) -> WaitState:
        """Guess the state of a program not seen waiting within `seconds`: ``None`` if output still comes, else ``"ask"``."""
        return None if seconds >= LOOK_SECONDS and time.monotonic() - self._heard < QUIET else "ask"

    def _line(self, waiting: Waiting | None = None) -> str:
        """Return the line of the cursor: the cursor's row, after the earlier rows of the same prompt if `waiting` has them."""
        line = cursor_line(self.driven.screen)
        if waiting is not None:
            prompt = waiting.prompt.strip()
            both = max(length for length in range(len(line) + 1) if prompt.endswith(line[:length]))
            line = prompt + line[both:]
        return self._hidden.text(line)

    def _stand(self) -> tuple[object, ...]:
        screen = self.driven.screen
        scrolled = self.driven.lines(self._final).final
        whole = screen.alternate, screen.cursor_visible, scrolled
        # A program that hides its cursor leaves the cursor at the last drawn place: that place tells nothing.
        return (*whole, screen.cursor, cursor_line(screen)) if screen.cursor_visible else whole

    def _news(self, limits: OutputLimits) -> tuple[str, int]:
        """Return the new text since the last report, and the number of new lines left out."""
        lines, gone, told = self._untold()
        self._take(lines)
        text, left_out = _last(lines.texts[told:], limits)
        return text, gone + left_out

    def _not_on(self, screen: Screen) -> int:
        """Return the number of new lines; 0 if all new lines stand on the told screen, and then count as told."""
        lines, gone, told = self._untold()
        new = gone + len(lines.texts) - told
        changing = lines.texts[lines.final - lines.first :]
        whole = not changing or changing[0].startswith(
            screen.rows[0].rstrip()
        )  # otherwise the beginning of the line has left the screen
        if screen.alternate or gone or lines.first + told < lines.final or not whole:
            return new
        self._take(lines)
        return 0

    def _untold(self) -> tuple[TerminalLines, int, int]:
        """Return the lines since the last final told line, the number of lost lines before, and of told lines among them."""
        lines = self.driven.lines(self._final)
        gone = lines.first - self._final
        told = 0
        if not gone:
            while told < min(len(lines.texts), len(self._shown)) and lines.texts[told] == self._shown[told]:
                told += 1
        return lines, gone, told

    def _take(self, lines: TerminalLines) -> None:
        """Record that the model was told the lines."""
        self._final, self._shown = lines.final, lines.texts[lines.final - lines.first :]

    async def _hear(self, channel: Channel, data: bytes) -> None:
        self._printed.set()
        self.printed += len(data)
        self.line_feeds += data.count(b"\n")
        self._heard = time.monotonic()
        if self.listener is not None:
            await self.listener(channel, data)


async def _give_up(*tasks: asyncio.Future[Any]) -> None:
    """Cancel tasks, and wait for their end."""
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


def _last(lines: Sequence[str], limits: OutputLimits) -> tuple[str, int]:
    """Return the last lines within the limits as text, and the number of lines left out before."""
    room = limits.size
    shown: list[str] = []
    for line in reversed(lines):
        if len(line) > limits.max_line:
            line = line[: limits.max_line] + cut_note(len(line[limits.max_line :].encode(errors="replace")))
        room -= len(line.encode(errors="replace")) + 1
        if room < 0:
            break
        shown.append(line)
    return "\n".join(reversed(shown)), len(lines) - len(shown)
