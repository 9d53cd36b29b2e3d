"""The signals that ask this program to end. It is the program, so it may handle them; the library never does."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT")


class Interruption:
    """What asked this program to end, if anything did, and what is done about it.

    Attributes:
        number: The first signal that came; ``None`` while none has.
        stop: Called for every signal that comes. At first it cancels the task that `run` started.
    """

    def __init__(self) -> None:
        self.number: int | None = None
        self.stop: Callable[[], object] = lambda: None

    def arrive(self, number: int) -> None:
        """Take note of a signal, or of what stands for one, and act."""
        if self.number is None:
            self.number = number
        self.stop()

    @property
    def exit_code(self) -> int:
        """What a shell reports for a program that the signal ended."""
        return 128 + (self.number or 0)


def run(main: Callable[[Interruption], Coroutine[object, object, int]]) -> int:
    """Run a coroutine in an event loop of its own; a signal lets it clean up before this returns.

    Returns:
        What the coroutine returned, or 128 + n when signal n cancelled it.
    """
    interruption = Interruption()

    async def guarded() -> int:
        task = asyncio.ensure_future(main(interruption))
        interruption.stop = task.cancel
        _listen(interruption)
        try:
            return await task
        except asyncio.CancelledError:
            if interruption.number is None:
                raise
            return interruption.exit_code

    code = asyncio.run(guarded())
    if interruption.number is not None:
        # All is cleaned up. One signal more, out of impatience, would only spoil the exit code.
        for number in _numbers():
            signal.signal(number, signal.SIG_IGN)
    return code


def _listen(interruption: Interruption) -> None:
    loop = asyncio.get_running_loop()
    for number in _numbers():
        # What nohup, or a shell for a job in the background, has told us to ignore stays ignored.
        if signal.getsignal(number) is signal.SIG_IGN:
            continue
        try:
            loop.add_signal_handler(number, interruption.arrive, number)
        except (NotImplementedError, RuntimeError, ValueError):
            return  # not on Windows, and not outside the main thread


def _numbers() -> list[signal.Signals]:
    return [signal.Signals[name] for name in _NAMES if name in signal.Signals.__members__]
