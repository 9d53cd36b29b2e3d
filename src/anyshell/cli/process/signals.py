"""The signals that ask this program to end. It is the program, so it may handle them; the library never does."""

from __future__ import annotations

import asyncio
import signal
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

_NAMES = (
    "SIGINT",
    "SIGBREAK",
    "SIGTERM",
    "SIGHUP",
    "SIGQUIT",
    "SIGABRT",
    "SIGALRM",
    "SIGIO",
    "SIGPROF",
    "SIGPWR",
    "SIGUSR1",
    "SIGUSR2",
    "SIGVTALRM",
    "SIGXCPU",
)
"""Every signal that would end this program by default and reports no fault of its own, but for the real-time ones:
batch systems and service managers announce the end with many of these. SIGKILL cannot be handled. On Windows SIGINT
is Ctrl-C, and SIGBREAK is Ctrl-Break and the end of the console or of the session, which leaves no time: what runs is
then ended by the system, with this program."""


class Interruption:
    """The signal that asked this program to end, if any, and the reaction to it.

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

    def desert(self) -> None:
        """Take note that stdout has no reader any more, as if that were SIGPIPE, and act."""
        self.arrive(13)  # Windows has no name for it

    @property
    def exit_code(self) -> int:
        """The exit code of a shell for a program that the signal ended."""
        return 128 + (self.number or 0)


class _Unwaited(ThreadPoolExecutor):
    """Makes each blocking call in a thread that is never joined.

    A name is looked up by a call that can take half a minute and cannot be stopped. The threads that asyncio has
    by itself are joined when the loop closes, so that Ctrl-C would end the program only then.
    """

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Start a call."""
        future: Future[Any] = Future()
        threading.Thread(target=self._call, args=(future, fn, args, kwargs), daemon=True).start()
        return future

    @staticmethod
    def _call(
        future: Future[Any], fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            result = fn(*args, **kwargs)
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is awaited
            future.set_exception(error)
        else:
            future.set_result(result)


def run(main: Callable[[Interruption], Coroutine[object, object, int]]) -> int:
    """Run a coroutine in an event loop of its own; a signal lets it clean up before this returns.

    Returns:
        What the coroutine returned, or 128 + n when signal n cancelled it.
    """
    interruption = Interruption()

    async def guarded() -> int:
        asyncio.get_running_loop().set_default_executor(_Unwaited())
        task = asyncio.ensure_future(main(interruption))
        interruption.stop = task.cancel
        listening = _listen(interruption)
        try:
            code = await task
        except asyncio.CancelledError:
            if interruption.number is None:
                raise
        finally:
            # Nothing is left to clean up. One signal more, out of impatience, would only spoil the exit code;
            # the first one may end the program as it ends any other.
            for number in listening:
                with suppress(NotImplementedError):
                    asyncio.get_running_loop().remove_signal_handler(number)
                signal.signal(number, signal.SIG_DFL if interruption.number is None else signal.SIG_IGN)
        return code if interruption.number is None else interruption.exit_code

    return asyncio.run(guarded())


def _listen(interruption: Interruption) -> list[signal.Signals]:
    loop = asyncio.get_running_loop()
    listening: list[signal.Signals] = []
    for number in (signal.Signals[name] for name in _NAMES if name in signal.Signals.__members__):
        # Signals that nohup, or a shell for a background job, has told us to ignore stay ignored.
        if signal.getsignal(number) is signal.SIG_IGN:
            continue
        try:
            try:
                loop.add_signal_handler(number, interruption.arrive, number)
            except NotImplementedError:  # on Windows, where a signal wakes the loop all the same
                signal.signal(
                    number, lambda number, _: loop.call_soon_threadsafe(interruption.arrive, number)
                )
        except (RuntimeError, ValueError):
            break  # not outside the main thread
        listening.append(number)
    return listening
