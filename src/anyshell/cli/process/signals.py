"""The signals that ask this program to end. The program may handle signals; the library never does."""

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
"""Every signal that ends a program by default and reports no fault of the program, except the real-time signals. Batch
systems and service managers announce the end with many of these signals. SIGKILL cannot be handled. On Windows, SIGINT
is Ctrl-C, and SIGBREAK is Ctrl-Break or the end of the console or the session. The end of the console leaves no time: the
system then ends this program and its commands."""


class Interruption:
    """The signal that asked this program to end, if any, and the reaction to a signal.

    Attributes:
        number: The number of the first signal; ``None`` before any signal.
        stop: Called for every signal. `run` sets a callback that cancels the task; the task may set another callback.
    """

    def __init__(self) -> None:
        self.number: int | None = None
        self.stop: Callable[[], object] = lambda: None

    def arrive(self, number: int) -> None:
        """Record a signal, or the stand-in for a signal, and call `stop`."""
        if self.number is None:
            self.number = number
        self.stop()

    def desert(self) -> None:
        """Handle the loss of stdout's reader as if SIGPIPE had come."""
        self.arrive(13)  # SIGPIPE, for which Windows has no name

    @property
    def exit_code(self) -> int:
        """The exit code that a shell gives to a program that the signal ended: 128 + n."""
        return 128 + (self.number or 0)


class _Unwaited(ThreadPoolExecutor):
    """An executor that makes each blocking call in a thread that is never joined.

    The lookup of a host name can take half a minute and cannot be stopped. asyncio joins the threads of its default
    executor when the loop closes, so Ctrl-C would end the program only after the lookup.
    """

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Start a call in a new thread."""
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
    """Run a coroutine in a new event loop; after a signal, the coroutine cleans up before `run` returns.

    Returns:
        The result of the coroutine, or 128 + n when signal n came.
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
            # The cleanup is done. After a signal, ignore further signals, which would only spoil the exit code. If no
            # signal has come, restore the default action.
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
        # A signal stays ignored if nohup, or a shell for a background job, has made this program ignore it.
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
            break  # only the main thread may handle signals
        listening.append(number)
    return listening
