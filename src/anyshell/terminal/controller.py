"""The controller, between a program on a terminal and its caller."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING

from .._waits import Changes, note_failure
from .._wrapped import Wrapped
from ..output.masked import MaskedStream
from .keyboard import Keyboard
from .secrets import TypedMasks
from .waiting import InputWatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .._types import Foreground, Terminal, Waiting
    from ..abc import Process
    from ..output import TerminalOutput

HOLD_SECONDS = 0.3
"""Seconds for which output is held back that may be the beginning of a secret, after the last of it."""

MASKED_AT_ONCE = 8192
"""Bytes of output in which secrets are looked for before other tasks get a turn."""

LAST_LOOK = 1.5
"""Seconds before a command's time is over from which on it is asked whether it waits for input."""

LOOK_AGAIN = 0.2
"""Seconds between two of these questions."""

LONGEST_LOOK = 0.6
"""Seconds after which the answer to such a question does not count any more: another one should have been there."""


class Controller:
    """A terminal as its program's run sees it: its input, what is masked, when something was printed last.

    Args:
        output: Makes what draws its output; is given what types answers to the program's queries.
        tells: Whether the host can tell what a process sleeps in.

    Attributes:
        output: That.
        process: The process on the terminal; ``None`` before it was started.
        keyboard: The keyboard of the terminal; ``None`` before the program was started.
        begun: Is done when it was.
        masks: The secrets that are taken out of its output.
        watch: Whether it waits for input.
        last_heard: When it printed last, by the monotonic clock.
        last_typed: When something was typed last.
        waiting: The input that it waited for at its timeout.
        answers: Whether its questions to the terminal are answered here, rather than by a person's terminal.
    """

    def __init__(self, output: Callable[[Callable[[bytes], object]], TerminalOutput], *, tells: bool) -> None:
        self.output = output(self._answer)
        self.process: Process | None = None
        self.keyboard: Keyboard | None = None
        self.masks = TypedMasks()
        self.watch = InputWatch(self, tells=tells)
        self.begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting: Waiting | None = None
        self.answers = True
        self.ended = False
        self.last_heard = self.last_typed = time.monotonic()
        self.on_typed: Callable[[], object] = lambda: None
        self.on_resized: Callable[[Terminal], object] = lambda _: None
        self._changes = Changes()

    def take(self, process: Process) -> Process:
        """Take the program that was started, and give what the engine runs."""
        assert process.stdin is not None, "a terminal can be typed on"
        self.process = process
        self.keyboard = Keyboard(process.stdin, self._typed)
        if not self.begun.done():
            self.begun.set_result(None)
        return _ControlledProcess(process, self.keyboard, self)

    def heard(self) -> None:
        """Take note that it prints."""
        self.last_heard = time.monotonic()

    def wake(self) -> None:
        """Wake the tasks that wait for output, which is drawn now, or for the end."""
        self._changes.notify()

    def end(self) -> None:
        """Take note that the run is over."""
        self.ended = True
        if self.keyboard is not None:
            self.keyboard.stop()
        self.wake()

    @property
    def changes(self) -> int:
        """A counter of pieces of output, and of the end."""
        return self._changes.count

    async def changed(self, seconds: float | None = None) -> bool:
        """Wait for output or for the end, at most so long; whether anything came."""
        if self.ended:
            return False
        return await self._changes.wait(seconds)

    async def foreground(self) -> Foreground | None:
        """The processes that have the terminal now."""
        return None if self.process is None else await self.process.foreground()

    def prompt(self) -> str:
        """The text before the cursor on its line."""
        return self.output.prompt()

    async def resize(self, terminal: Terminal) -> None:
        """Give the terminal another size: first here, so that what the program draws anew finds it."""
        self.last_typed = time.monotonic()  # it will draw because of us
        self.output.resize(terminal)
        if self.process is not None:
            await self.process.resize(terminal)
            self.on_resized(terminal)

    @contextlib.contextmanager
    def watched(self, timeout: float | None, silence: float | None = None) -> Iterator[None]:
        """Learn whether it waits for input when its time is over, if it has one; it begins now.

        Args:
            timeout: Seconds that it has; ``None`` is no bound.
            silence: Seconds for which it may print nothing and have nothing typed; ``None`` is no bound.
        """
        looks = [] if timeout is None else [self._last_look(time.monotonic() + timeout)]
        looks += [] if silence is None else [self._looks_when_silent(silence)]
        tasks = [asyncio.ensure_future(look) for look in looks]
        for task in tasks:
            task.add_done_callback(
                note_failure
            )  # a host that cannot be asked any more is the run's own concern
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()

    async def _looks_when_silent(self, silence: float) -> None:
        """Take note of what it waits for whenever it was silent for so long: the run ends then, or it has moved."""
        await asyncio.wait([self.begun])
        self.last_heard = self.last_typed = time.monotonic()
        moved = 0.0
        while True:
            if self._moved != moved:
                self.waiting, moved = None, self._moved
                await self._last_look(moved + silence)
            await asyncio.sleep(LOOK_AGAIN)

    async def _last_look(self, deadline: float) -> None:
        """Take note of what it waits for at that moment, by the monotonic clock."""
        await asyncio.sleep(deadline - LAST_LOOK - time.monotonic())
        waiting: Waiting | None = None
        seen = moved = 0.0
        try:
            async with asyncio.timeout(deadline - time.monotonic()):
                await asyncio.wait([self.begun])
                while (waiting := await self.watch.wait(None)) is not None:
                    seen, moved = time.monotonic(), self._moved
                    await self.changed(LOOK_AGAIN)
        except TimeoutError:
            # An older look tells nothing of the present: the next one has not ended, or something was printed since.
            if moved == self._moved and time.monotonic() - seen <= LONGEST_LOOK:
                self.waiting = waiting

    @property
    def _moved(self) -> float:
        return max(self.last_heard, self.last_typed)

    def _answer(self, data: bytes) -> None:
        if self.keyboard is not None and self.answers:
            self.keyboard.answer(data)

    def _typed(self) -> None:
        self.last_typed = time.monotonic()
        self.on_typed()


class _ControlledProcess(Wrapped):
    """A program before which a controller stands."""

    def __init__(self, process: Process, keyboard: Keyboard, controller: Controller) -> None:
        self._keyboard = keyboard
        self._masked = MaskedStream(
            process.stdout,
            controller.masks,
            seconds=HOLD_SECONDS,
            at_once=lambda: MASKED_AT_ONCE if controller.masks else None,
            heard=controller.heard,
        )
        super().__init__(process, stdin=keyboard, stdout=self._masked)

    async def aclose(self) -> None:
        self._keyboard.stop()
        self._masked.stop()
        await super().aclose()
