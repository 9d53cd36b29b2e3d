"""The controller between a program on a terminal and the program's caller."""

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
"""Seconds for which output that may begin a secret is held back, after its last byte; then the output is shown."""

MASKED_AT_ONCE = 8192
"""Bytes of output that are searched for secrets before other tasks get a turn."""

LAST_LOOK = 1.5
"""Seconds before a command's deadline at which anyshell begins to check whether the command waits for input."""

LOOK_AGAIN = 0.2
"""Seconds between two checks whether a command waits for input."""

LONGEST_LOOK = 0.6
"""Seconds after which the answer to a check for waiting no longer counts: a newer answer should have arrived."""


class Controller:
    """The state of a terminal for its program's run: the input, the masked secrets, the times of output and input.

    Args:
        output: Makes the `TerminalOutput` from a function that types answers to the program's queries.
        tells: Whether the host can tell in which system call a process sleeps.

    Attributes:
        output: The `TerminalOutput` that draws the program's output.
        process: The process on the terminal; ``None`` before the program was started.
        keyboard: The keyboard of the terminal; ``None`` before the program was started.
        begun: A future that is done when the program was started.
        masks: The secrets that are masked in the program's output.
        watch: The watch that tells whether the program waits for input.
        last_heard: The time of the last output, by the monotonic clock.
        last_typed: The time of the last input, by the monotonic clock.
        waiting: The input that the program waited for at its timeout; ``None`` for no such input.
        answers: Whether the program's queries are answered here, rather than by a person's terminal.
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
        """Take the started process, and return the wrapped process for the engine."""
        assert process.stdin is not None, "a terminal can be typed on"
        self.process = process
        self.keyboard = Keyboard(process.stdin, self._typed)
        if not self.begun.done():
            self.begun.set_result(None)
        return _ControlledProcess(process, self.keyboard, self)

    def heard(self) -> None:
        """Record the time of new output."""
        self.last_heard = time.monotonic()

    def wake(self) -> None:
        """Wake the tasks that wait for output or for the end; the new output is already drawn."""
        self._changes.notify()

    def end(self) -> None:
        """Record that the run is over."""
        self.ended = True
        if self.keyboard is not None:
            self.keyboard.stop()
        self.wake()

    @property
    def changes(self) -> int:
        """A counter of output pieces, and of the end."""
        return self._changes.count

    async def changed(self, seconds: float | None = None) -> bool:
        """Wait for output or for the end, and return whether either came in time; ``False`` after the end."""
        if self.ended:
            return False
        return await self._changes.wait(seconds)

    async def foreground(self) -> Foreground | None:
        """Return the processes that have the terminal now; ``None`` before the start."""
        return None if self.process is None else await self.process.foreground()

    def prompt(self) -> str:
        """Return the text before the cursor on the cursor's line."""
        return self.output.prompt()

    async def resize(self, terminal: Terminal) -> None:
        """Resize the terminal: first the screen here, since the program's redrawing needs the new size."""
        self.last_typed = time.monotonic()  # the program draws because of this call
        self.output.resize(terminal)
        if self.process is not None:
            await self.process.resize(terminal)
            self.on_resized(terminal)

    @contextlib.contextmanager
    def watched(self, timeout: float | None, silence: float | None = None) -> Iterator[None]:
        """Record in `waiting` the input that the program waits for at its deadlines. The time begins now.

        Args:
            timeout: Seconds that the program has; ``None`` means no bound.
            silence: Seconds that may pass without output and input; ``None`` means no bound.
        """
        looks = [] if timeout is None else [self._last_look(time.monotonic() + timeout)]
        looks += [] if silence is None else [self._looks_when_silent(silence)]
        tasks = [asyncio.ensure_future(look) for look in looks]
        for task in tasks:
            task.add_done_callback(note_failure)  # the run itself reports a host that no longer answers
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()

    async def _looks_when_silent(self, silence: float) -> None:
        """Record the awaited input at the end of each silence: the run ends then, unless there was output or input."""
        await asyncio.wait([self.begun])
        self.last_heard = self.last_typed = time.monotonic()
        moved = 0.0
        while True:
            if self._moved != moved:
                self.waiting, moved = None, self._moved
                await self._last_look(moved + silence)
            await asyncio.sleep(LOOK_AGAIN)

    async def _last_look(self, deadline: float) -> None:
        """Record the input that the program waits for at a deadline, by the monotonic clock."""
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
            # An old answer says nothing of the present: the next check has not ended, or the program has printed since.
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
    """A process whose input and output pass through a controller."""

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
