"""A terminal of a tool's call, and the part of it that a model has seen."""

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
"""The input that a program waits for; ``None`` when it does not wait; ``"ask"`` when the host is to be asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalReport:
    """The report on a terminal at one moment.

    Attributes:
        text: The new text on it, or the screen.
        left_out: New lines that are not in it, since they were too many.
        elsewhere: If it is the screen: new lines that do not all stand there, and are still to be told.
        is_screen: Whether it is the screen, rather than what is new.
        screen: The screen.
        waiting: The input that the program waits for.
        password: Whether it is set to read a line that is not shown.
        foreground_known: Whether the host can tell which processes have the terminal, and so whether they wait.
        program: The program in the foreground; ``None`` when that is not known.
        outcome: The outcome of the program; ``None`` while it runs.
        frame: When it has ended: what the alternate screen showed last, if that was not shown.
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
    """A terminal, and what a model has seen of it.

    Args:
        request: The approved request that runs on it.
        env: Its environment.
        grace: Seconds between the request to end and the kill.
        jobs: Whether what it leaves behind becomes a job, rather than being stopped.
        listener: Hears what is printed, for as long as the call takes that started it.
        hidden: The secrets that are not shown of it.
        scrollback: Rows that are kept for a console; ``None`` when it is not shown in one.
        control: Stops it.

    Attributes:
        id: Its id for the model; empty until it is kept.
        told: Whether the model was told that it has ended.
        listener: That.
        turn: Whose turn it is to type: what one call types stays together.
        printed: Bytes that were printed on it.
        line_feeds: Line feeds of these.
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
        self._printed = asyncio.Event()  # since it was looked at
        self._heard = self._began
        self._known: Waiting | None = None  # what the model knows that it waits for
        self._typings = 0

    @property
    def over(self) -> bool:
        """Whether its program has ended."""
        return not self.driven.running

    @property
    def outcome(self) -> Outcome | None:
        """The outcome of the program; ``None`` while it runs."""
        try:
            return self.driven.outcome
        except Exception:  # noqa: BLE001 - whatever kept it from being learnt
            return Outcome(status="lost")

    @property
    def stopped_by_person(self) -> bool:
        """Whether a person who saw it in a console has stopped it."""
        return self.driven.stopped_by_person

    @property
    def left(self) -> float | None:
        """Seconds until it is stopped; ``None`` if it may run on."""
        timeout = self.request.timeout
        return None if timeout is None else max(0.0, self._began + timeout - time.monotonic())

    @property
    def seconds(self) -> float:
        """For how long it has run, or ran."""
        outcome = self.outcome
        return time.monotonic() - self._began if outcome is None else outcome.duration

    async def look(
        self,
        limits: OutputLimits,
        *,
        screen: bool = False,
        waiting: WaitState = "ask",
    ) -> TerminalReport:
        """Read the news of the terminal, which the model is told now.

        Args:
            limits: The limits of the shown text.
            screen: Whether the screen is asked for, rather than what is new.
            waiting: The input that it waits for, if that was found out already.
        """
        driven, hide = self.driven, self._hidden.text
        if waiting == "ask":
            waiting = await driven.waiting()
        foreground = await driven.foreground() if driven.running else None
        await driven.find(_ALL, timeout=0)  # what comes after this is looked for later
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
        # The line from before a secret was given may hold the secret.
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
        """Find out what is asked on it now, and by which program."""
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
        """See that the same question is asked as before, if one was, and by a program that was there; then it is typed.

        It is not the same any more once anything was printed or typed: the words that count may stand on other lines
        than the cursor's. What draws by itself, as ``top`` does, could never be answered so: of that the line of the
        cursor is what counts, and where it is, if it is shown.

        Returns:
            Whether the program waits for input now.

        Raises:
            OtherQuestion: Another program may read what is typed, or something else is asked.
        """
        waits = before.waits
        passed = time.monotonic() - before.asked
        if passed > QUIET:
            await asyncio.sleep(ARRIVAL)  # of a question that has just been put
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
        """Wait until the program has reacted: it waits for input, is silent, or has ended. At most so long."""
        waits = asyncio.ensure_future(self.driven.wait_for_input(timeout=seconds))
        began = time.monotonic()
        try:
            while not waits.done():
                now = time.monotonic()
                silent = max(began, self._heard) + IDLE_SECONDS - now
                if silent <= 0:
                    return "ask"  # one that has drawn by itself may be watched for longer than this
                if now >= began + seconds:
                    return self._unseen(seconds)
                await asyncio.wait([waits], timeout=min(silent, began + seconds - now))
            return waits.result() or self._unseen(seconds)
        finally:
            await _give_up(waits)

    async def wait(self, seconds: float) -> WaitState:
        """Wait until there is something to tell, at most so long.

        That is: the program waits for input; it is silent, after it has printed something; or it has ended. That it likely
        waits is nothing to tell when the model knows that, and waits all the same.
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
        """Wait until the program has ended, or certainly waits for input. At most so long.

        Returns:
            Whether it has ended, and what it waits for.
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
        """Wait until something is printed or shown, or the program certainly waits for input, or has ended. At most so long.

        Returns:
            Whether it was, and what it waits for.
        """
        driven = self.driven
        comes = asyncio.ensure_future(driven.find(pattern, timeout=seconds))
        waits = asyncio.ensure_future(driven.wait_for_input(timeout=seconds))
        try:
            await asyncio.wait([comes, waits], return_when=asyncio.FIRST_COMPLETED)
            if not comes.done():
                found = waits.result()
                if found is not None and found.certainty == "certain":
                    # It may have been printed with the question.
                    return await driven.find(pattern, timeout=0) is not None, found
            came = await comes is not None
            return came, "ask" if came else self._unseen(seconds)
        finally:
            await _give_up(comes, waits)

    def _unseen(self, seconds: float) -> WaitState:
        """The guess about a program that was not seen to wait for so many seconds: one that prints all the time does not wait."""
        return None if seconds >= LOOK_SECONDS and time.monotonic() - self._heard < QUIET else "ask"

    def _line(self, waiting: Waiting | None = None) -> str:
        """The line of the cursor: its row, and the rows before that it goes on from, as far as these are known."""
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
        # One that hides its cursor leaves it wherever it has drawn last.
        return (*whole, screen.cursor, cursor_line(screen)) if screen.cursor_visible else whole

    def _news(self, limits: OutputLimits) -> tuple[str, int]:
        """The new text since the last report, and the number of new lines left out of it."""
        lines, gone, told = self._untold()
        self._take(lines)
        text, left_out = _last(lines.texts[told:], limits)
        return text, gone + left_out

    def _not_on(self, screen: Screen) -> int:
        """The number of new lines, unless all of them stand on a screen that is told instead: then they are told."""
        lines, gone, told = self._untold()
        new = gone + len(lines.texts) - told
        changing = lines.texts[lines.final - lines.first :]
        whole = not changing or changing[0].startswith(
            screen.rows[0].rstrip()
        )  # or its beginning has left the screen
        if screen.alternate or gone or lines.first + told < lines.final or not whole:
            return new
        self._take(lines)
        return 0

    def _untold(self) -> tuple[TerminalLines, int, int]:
        """The lines since those that are told for good, how many before them are not kept, and how many of them are told."""
        lines = self.driven.lines(self._final)
        gone = lines.first - self._final
        told = 0
        if not gone:
            while told < min(len(lines.texts), len(self._shown)) and lines.texts[told] == self._shown[told]:
                told += 1
        return lines, gone, told

    def _take(self, lines: TerminalLines) -> None:
        """Take note that they are told."""
        self._final, self._shown = lines.final, lines.texts[lines.final - lines.first :]

    async def _hear(self, channel: Channel, data: bytes) -> None:
        self._printed.set()
        self.printed += len(data)
        self.line_feeds += data.count(b"\n")
        self._heard = time.monotonic()
        if self.listener is not None:
            await self.listener(channel, data)


async def _give_up(*tasks: asyncio.Future[Any]) -> None:
    """Cancel tasks that are not awaited any more."""
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


def _last(lines: Sequence[str], limits: OutputLimits) -> tuple[str, int]:
    """As many lines from the end as may be shown, as text, and how many are not."""
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
