"""Waiting: for work that has to be over when control returns, for calls that may hang, and for whatever happens next."""

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
        """Never happens: it was not entered."""


def require_asyncio() -> None:
    """Refuse another kind of event loop than that of asyncio.

    Raises:
        AnyshellError: Says what to do.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise AnyshellError(
            "anyshell needs an event loop of asyncio, and there is none here, as under trio: use asyncio.run(), or "
            "anyshell.connect(), which blocks, in a thread (trio.to_thread.run_sync)"
        ) from None


async def to_the_end(work: Coroutine[object, object, T], stop: Callable[[], object] | None = None) -> T:
    """Run work in a task of its own; when cancelled, ask it to stop and wait until it has cleaned up.

    However often the waiting task is cancelled, by asyncio's means or by anyio's, the work is asked once: so its own
    cleaning may wait for something. It has to have a bound of its own.

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
    """Wait for work that goes on when the wait is cancelled; its failure is not reported then.

    `asyncio.shield` reports it from Python 3.14 on, also where another one that waits has taken it.
    """
    future = asyncio.ensure_future(work)
    if not future.done():
        future.add_done_callback(note_failure)
        await asyncio.wait([future])
    return future.result()


def note_failure(task: asyncio.Future[Any]) -> None:
    """Take note of the failure of a task that is done and not awaited any more: asyncio reports it otherwise."""
    if not task.cancelled():
        task.exception()


async def outlast(task: asyncio.Future[T], on_cancel: Callable[[], object]) -> asyncio.CancelledError | None:
    """Wait until a task is done, whatever cancels us meanwhile.

    `to_the_end` differs in two ways: it raises the cancellation, and it heeds one of a cancel scope of anyio's as well. Such
    a scope cancels every await anew, so that here it is held off: otherwise it would be heard without a pause.
    A shield of anyio's alone does not do, since it does not hold off a second ``Task.cancel()``.

    Args:
        task: The task to wait for; it is not cancelled by us.
        on_cancel: Called for every cancellation that arrives.

    Returns:
        The last cancellation, for the caller to raise when it has cleaned up.
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
    """Hold off anyio's cancel scopes. Where anyio has not loaded what it needs in a loop of asyncio, there are none.

    Loading that takes half the time that it takes to load asyncio, and descriptors, of which none may be left.
    """
    if "anyio._backends._asyncio" not in sys.modules:
        return contextlib.nullcontext()
    from anyio import CancelScope

    return CancelScope(shield=True)


def expire(clock: asyncio.Timeout) -> None:
    """Have a clock's time be over, unless it is."""
    if not clock.expired():
        clock.reschedule(0)


async def in_a_thread(call: Callable[[], T]) -> T:
    """Make a blocking call that may hang, in a thread of its own that a cancelled caller does not wait for.

    asyncio's own threads are a handful, so that a few such calls would hold up every other task that needs one.

    Raises:
        NoThread: No thread can be started.
    """
    made: concurrent.futures.Future[T] = concurrent.futures.Future()
    made.set_running_or_notify_cancel()  # from now on it cannot be cancelled, and takes what the call gives

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
    from anyio import to_thread  # here, since many commands need none

    with threads_as_os_errors():
        return await to_thread.run_sync(call, abandon_on_cancel=abandon_on_cancel)


@contextlib.contextmanager
def threads_as_os_errors() -> Iterator[None]:
    """Raise `NoThread` where no thread can be started, which Python tells by a `RuntimeError`."""
    try:
        yield
    except RuntimeError as error:
        if str(error) != "can't start new thread":
            raise
        raise NoThread(errno.EAGAIN, "no thread can be started: too many processes (ulimit -u)") from error


@contextlib.contextmanager
def shortage_as_spawn_error() -> Iterator[None]:
    """Raise `SpawnError` where no descriptor is left, such as to load a part of anyshell that is used for the first time."""
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
    """Wakes all tasks that wait for something to happen, whatever it is.

    Attributes:
        count: How often it has.
    """

    def __init__(self) -> None:
        self.count = 0
        self._waiting: set[asyncio.Future[None]] = set()

    def notify(self) -> None:
        """Something has happened."""
        self.count += 1
        for change in self._waiting:
            if not change.done():
                change.set_result(None)

    async def wait(self, seconds: float | None = None) -> bool:
        """Wait until something happens, at most so long; whether it did."""
        change: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(change)
        try:
            await asyncio.wait([change], timeout=seconds)
        finally:
            self._waiting.discard(change)
        return change.done()
