"""Waits: for work that must be over when control returns, for calls that may hang, and for the next event."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import errno
import sys
import threading
from typing import TYPE_CHECKING, TypeVar

from ._exceptions import AnyshellError, SpawnError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterator
    from typing import Any, NoReturn

T = TypeVar("T")


class AsyncOnly:
    """A base for classes that need ``async with``: ``with`` raises an error that says so."""

    def __enter__(self) -> NoReturn:
        raise AnyshellError(
            f"a {type(self).__name__} is entered with 'async with'; for 'with', make its environment by anyshell.connect()"
        )

    def __exit__(self, *_: object) -> None:
        """Do nothing: ``__enter__`` always raises."""


def require_asyncio() -> None:
    """Refuse an event loop of another kind than asyncio's.

    Raises:
        AnyshellError: There is no asyncio loop; the message says what to do.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise AnyshellError(
            "anyshell needs an event loop of asyncio, and there is none here, as under trio: use asyncio.run(), or "
            "anyshell.connect(), which blocks, in a thread (trio.to_thread.run_sync)"
        ) from None


async def to_the_end(work: Coroutine[object, object, T], stop: Callable[[], object] | None = None) -> T:
    """Run work in a task of its own; on cancellation, ask the work to stop and wait until its cleanup is done.

    However often the waiting task is cancelled, by asyncio or by anyio, the work is asked to stop only once: so the work's
    cleanup may wait. The work needs a time limit of its own.

    Args:
        work: The work.
        stop: The call that asks the work to stop; ``None`` cancels its task.
    """
    task = asyncio.create_task(work)
    try:
        await asyncio.wait([task])
    except asyncio.CancelledError:
        (stop or task.cancel)()
        await outlast(task, lambda: None)
        note_failure(task)
        raise
    return task.result()


async def shielded(work: Awaitable[T]) -> T:
    """Wait for work that goes on when the wait is cancelled; a failure after the cancellation is not reported.

    `asyncio.shield` reports that failure from Python 3.14 on, even where another waiting task has already received it.
    """
    future = asyncio.ensure_future(work)
    if not future.done():
        future.add_done_callback(note_failure)
        await asyncio.wait([future])
    return future.result()


def note_failure(task: asyncio.Future[Any]) -> None:
    """Read the failure of a task that is done and no longer awaited: otherwise asyncio reports the failure."""
    if not task.cancelled():
        task.exception()


async def outlast(task: asyncio.Future[T], on_cancel: Callable[[], object]) -> asyncio.CancelledError | None:
    """Wait until a task is done, even if the caller is cancelled meanwhile.

    `to_the_end` differs in two ways: it raises the cancellation, and it also heeds the cancellation of an anyio cancel scope.
    A cancelled scope of anyio cancels every await again. So the scope is held off here: otherwise its cancellations would
    arrive without a pause. A shield of anyio alone is not enough, because it does not hold off a second ``Task.cancel()``.

    Args:
        task: The task to wait for; this function does not cancel the task.
        on_cancel: Called for every cancellation that arrives.

    Returns:
        The last cancellation, for the caller to raise after the cleanup.
    """
    cancelled: asyncio.CancelledError | None = None
    with _shield():
        while not task.done():
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError as error:
                cancelled = error
                on_cancel()
    return cancelled


def _shield() -> contextlib.AbstractContextManager[object]:
    """Return a shield against anyio's cancel scopes. While anyio's asyncio part is not loaded, no cancel scope exists.

    Loading that part takes half as long as loading asyncio, and needs descriptors, of which none may be left.
    """
    if "anyio._backends._asyncio" not in sys.modules:
        return contextlib.nullcontext()
    from anyio import CancelScope

    return CancelScope(shield=True)


def expire(clock: asyncio.Timeout) -> None:
    """Make a clock's timeout expire now, unless it has expired."""
    if not clock.expired():
        clock.reschedule(0)


async def in_a_thread(call: Callable[[], T]) -> T:
    """Make a blocking call that may hang, in a thread of its own. A cancelled caller does not wait for the thread.

    asyncio's own threads are few: some hanging calls there would block every other task that needs a thread.

    Raises:
        NoThread: No thread can be started.
    """
    made: concurrent.futures.Future[T] = concurrent.futures.Future()
    made.set_running_or_notify_cancel()  # from now on the future cannot be cancelled, and takes the call's result

    def work() -> None:
        try:
            made.set_result(call())
        except Exception as error:  # noqa: BLE001 - it is raised where the result is awaited
            made.set_exception(error)

    with threads_as_os_errors():
        threading.Thread(target=work, name="anyshell call", daemon=True).start()
    return await asyncio.wrap_future(made)


async def in_a_worker(call: Callable[[], T], *, abandon_on_cancel: bool = False) -> T:
    """Make a blocking call in one of anyio's worker threads.

    Args:
        call: The call, which should have a bound of its own.
        abandon_on_cancel: Whether a cancellation returns at once. Otherwise the end of the call comes first.

    Raises:
        NoThread: No thread can be started.
    """
    from anyio import to_thread  # imported here: many commands need no thread

    with threads_as_os_errors():
        return await to_thread.run_sync(call, abandon_on_cancel=abandon_on_cancel)


@contextlib.contextmanager
def threads_as_os_errors() -> Iterator[None]:
    """Raise `NoThread` where no thread can be started, which Python reports as a `RuntimeError`."""
    try:
        yield
    except RuntimeError as error:
        if str(error) != "can't start new thread":
            raise
        raise NoThread(errno.EAGAIN, "no thread can be started: too many processes (ulimit -u)") from error


@contextlib.contextmanager
def shortage_as_spawn_error() -> Iterator[None]:
    """Raise `SpawnError` where no descriptor is left, for example to import a part of anyshell at its first use."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.EMFILE, errno.ENFILE):
            raise
        raise SpawnError(
            "nothing can be started: too many open files; run fewer commands at once, or raise the limit (ulimit -n)"
        ) from error


class NoThread(OSError):  # noqa: N818 - what there is not
    """No thread can be started; ``errno`` is ``EAGAIN``."""


class Changes:
    """A notifier that wakes all waiting tasks at every event, of whatever kind.

    Attributes:
        count: The number of events so far.
    """

    def __init__(self) -> None:
        self.count = 0
        self._waiting: set[asyncio.Future[None]] = set()

    def notify(self) -> None:
        """Record an event and wake all waiting tasks."""
        self.count += 1
        for change in self._waiting:
            if not change.done():
                change.set_result(None)

    async def wait(self, seconds: float | None = None) -> bool:
        """Wait for the next event, at most `seconds`; return whether an event happened."""
        change: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(change)
        try:
            await asyncio.wait([change], timeout=seconds)
        finally:
            self._waiting.discard(change)
        return change.done()
