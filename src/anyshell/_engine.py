"""The one module in which a process is awaited, timed, drained and stopped.

The order is the point: wait for the exit first, then drain within a bound, then close. Waiting for the end of
the output first is the common mistake: whatever a command leaves in the background holds the pipe, and the
call hangs for as long as that lives.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import anyio

from ._exceptions import AnyshellError, InvalidCommand
from ._types import DEFAULT_GRACE, ExitStatus, Outcome
from ._waits import expire, outlast
from .output import Pump

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Awaitable, Callable, Sequence

    from anyio.abc import ByteSendStream

    from ._types import Channel, LeftBehind, ProcessInfo, Spawn, Status
    from .abc import Process, Spawner
    from .output import Builder

DRAIN = 0.1
"""Seconds for survivors of a command to end before they count as left behind; then also for the rest of the output."""

LEFT_BEHIND_GRACE = 0.2
"""Seconds between the request to end and the kill, for processes that were left behind."""

KILL_BOUND = 0.25
"""Seconds in which a kill must be seen to have worked; after that the outcome is ``lost``."""

KILL_ROUNDS = 5
"""Kills that are tried even if they take longer than that, on a machine so busy that each look takes its time."""

LONGEST_KILL = 2.0
"""Seconds in which these kills must be over as well; after that the outcome is ``lost``."""

SECOND_LOOK = 0.1
"""Seconds after which a silence (``silence=``) is believed: output may have come while the event loop was held up."""

TURNS = 8
"""Turns of the event loop in which a run that is cut short may still hear that its program has ended by itself."""

KILL_AGAIN = 0.02
"""Seconds between two looks and kills meanwhile: one pass misses processes that fork."""


class Control:
    """Ends a run early from another task. The run then gives an outcome, ``cancelled``, and does not raise.

    Attributes:
        requested: Whether the end was asked for.
    """

    def __init__(self) -> None:
        self.requested = False
        self.last_input = 0.0  # by the monotonic clock
        self.hurry = asyncio.Event()
        self.process: Process | None = None
        """The process that was started; ``None`` before."""
        self._clock: asyncio.Timeout | None = None
        self._stopping = False

    def cancel(self) -> None:
        """Ask for the end. Returns at once; the run itself comes back when its tree is gone.

        A second call skips the grace, and so does the first when the time is over already.
        """
        if self.requested or self._stopping:
            self.hurry.set()
            return
        self.requested = True
        if self._clock is not None:
            expire(self._clock)

    def touch(self) -> None:
        """Take note that the program is given input now: it is no silence, see ``silence=``."""
        self.last_input = time.monotonic()

    def _hold(self, clock: asyncio.Timeout) -> None:
        """Take the clock whose time is over when the end is asked for. For the run alone."""
        self._clock = clock
        if self.requested:
            expire(clock)

    def _let_go(self) -> None:
        """Leave the clock alone: it has done its part. For the run alone."""
        self._clock = None
        self._stopping = True


async def run(
    spawner: Spawner,
    spawn: Spawn,
    *,
    output: Builder,
    stderr: Builder | None = None,
    stdin: bytes | AsyncIterable[bytes] | None = None,
    timeout: float | None = None,
    silence: float | None = None,
    grace: float = DEFAULT_GRACE,
    left_behind: LeftBehind = "stop",
    listener: Callable[[Channel, bytes], Awaitable[None]] | None = None,
    control: Control | None = None,
) -> Outcome:
    """Run one program to its end, whatever that end is; whatever it starts is stopped or reported.

    Args:
        spawner: What starts it, usually a backend.
        spawn: The program that is started.
        output: Takes stdout, or both channels.
        stderr: Takes stderr, if `spawn` splits the channels.
        stdin: Written to the program; end-of-file follows. ``None`` leaves the program's input alone.
        timeout: Seconds for everything: starting, running, draining. ``None`` is no bound.
        silence: Seconds for which a started program may print nothing and be given no input. ``None`` is no bound.
        grace: Seconds between the request to end and the kill.
        left_behind: What becomes of processes that outlive the program. Unless it is ``stop``, the process is
            released; the layer before the backend then makes a job of them.
        listener: Hears every piece of output and is awaited.
        control: Ends the run early.

    Raises:
        InvalidCommand, SpawnError: From the backend: nothing was started.
        asyncio.CancelledError: After the tree is gone.
    """
    began = time.monotonic()
    control = control or Control()
    clock = asyncio.timeout_at(None if timeout is None else asyncio.get_running_loop().time() + timeout)
    process: Process | None = None
    reading: _Reading | None = None
    quiet: _Silence | None = None
    ended: ExitStatus | None = None
    survivors: Sequence[ProcessInfo] | None = None
    stop: _Stop | None = None
    failure: AnyshellError | None = None

    def hold(asked: Process) -> None:
        """Take what the host may have heard of: whatever becomes of the start, it is stopped as any other."""
        nonlocal process
        process = asked

    try:
        try:
            async with clock:
                control._hold(clock)
                try:
                    asked = replace(spawn, on_asked=hold) if getattr(spawner, "asks", True) else spawn
                    process = control.process = await spawner.spawn(asked)
                    feed = None if stdin is None else process.stdin
                    reading = _Reading(process, output, stderr, listener, feed, stdin, control=control)
                    if silence is not None:
                        quiet = _Silence(silence, reading, control, clock)
                    ended = await process.wait()
                    if quiet is not None:
                        quiet.stop()
                    survivors = await _settle(process, reading)
                except AnyshellError as error:
                    if process is None or reading is not None or process.started is False:
                        raise
                    failure = error  # the host has not said that nothing has begun
                finally:
                    control._let_go()
                    if quiet is not None:
                        quiet.stop()
        except TimeoutError:
            if not clock.expired():
                raise  # a backend's own
        if process is None:
            return Outcome(status=_early(control), duration=time.monotonic() - began, started=False)
        started = reading is not None
        if reading is None:
            reading = _Reading(process, output, stderr, listener, None, None, control=control)
        if ended is None and started:
            ended = await _end_by_now(process)
        if ended is None:
            stop = _Stop(process, grace, control.hurry)
            alive = survivors = await _to_the_end(stop)
        else:
            if survivors is None:  # the time was over before it was known
                survivors = await process.survivors()
            alive = survivors
            # A command whose own end was missed has left no process on purpose.
            unwanted = left_behind == "stop" or (left_behind == "adopt" and ended == ExitStatus())
            if survivors and unwanted:
                stop = _Stop(process, LEFT_BEHIND_GRACE, control.hurry)
                alive = await _to_the_end(stop)
        if clock.expired():
            reading.hurry()
        await reading.finish()
        if alive:  # it was to be kept, or cannot be ended: trying once more would only take longer
            await process.release()
        status, ended = await _status(process, ended, alive, control)
        if failure is not None and process.started is False and not alive:
            raise failure
        if failure is not None or process.started is None:
            status = "lost"
        if not process.started:
            ended = ExitStatus()  # that of a login shell, not of the program
        return Outcome(
            status=status,
            exit_code=ended.code,
            signal=ended.signal,
            output=output.finish(),
            stderr=None if stderr is None else stderr.finish(),
            duration=time.monotonic() - began,
            left_behind=_fates(survivors, alive),
            started=process.started,
            killed_without_warning=stop is not None and not stop.asked,
            usage=process.usage,
            silence=silence if quiet is not None and quiet.over and status != "exited" else None,
            editor_terminal=ended.editor_terminal,
        )
    except asyncio.CancelledError:
        if process is not None:
            await _to_the_end(_Stop(process, grace, control.hurry))
        raise
    except GeneratorExit:  # the loop was closed during the run: nothing can be awaited or cancelled any more
        reading = process = None
        raise
    finally:
        if reading is not None:
            reading.cancel()
        if process is not None:
            await process.aclose()
        output.close()
        if stderr is not None:
            stderr.close()


def _early(control: Control) -> Status:
    return "cancelled" if control.requested else "timed_out"


async def _status(
    process: Process, ended: ExitStatus | None, alive: Sequence[ProcessInfo], control: Control
) -> tuple[Status, ExitStatus]:
    if ended is not None:
        return ("lost" if ended == ExitStatus() else "exited"), ended
    with suppress(TimeoutError):
        async with asyncio.timeout(DRAIN):
            ended = await process.wait()
    return ("lost" if alive or ended is None else _early(control)), ended or ExitStatus()


def _fates(survivors: Sequence[ProcessInfo], alive: Sequence[ProcessInfo]) -> tuple[ProcessInfo, ...]:
    """The processes left behind, each with whether it lives, and those that were found while stopping."""
    living = {(info.pid, info.started) for info in alive}
    ended = [info.ended() for info in survivors if (info.pid, info.started) not in living]
    return (*ended, *alive)


async def _end_by_now(process: Process) -> ExitStatus | None:
    """The exit status of a process that has just ended while its run is being cut short."""
    waiting = asyncio.ensure_future(process.wait())
    try:
        for _ in range(TURNS):
            await asyncio.sleep(0)
            if waiting.done():
                return None if waiting.exception() is not None else waiting.result()
        return None
    finally:
        waiting.cancel()
        await asyncio.wait([waiting])


async def _settle(process: Process, reading: _Reading) -> Sequence[ProcessInfo]:
    """After the exit: take the rest of the output, and see which processes are still there when that should be over."""
    over = asyncio.get_running_loop().time() + DRAIN
    await reading.wait(DRAIN)
    survivors = await process.survivors()
    if survivors:
        with suppress(TimeoutError):
            async with asyncio.timeout_at(over):
                await process.wait_gone()
        survivors = await process.survivors()
    while reading.held_up:  # not the program's delay but the listener's: bounded by the timeout alone
        await reading.wait(DRAIN)
    return survivors


class _Silence:
    """Ends a run that has printed nothing, and was given no input, for so long.

    Nothing is done for each piece of output but to note when it came: the timer looks at that when it fires.
    """

    def __init__(self, seconds: float, reading: _Reading, control: Control, clock: asyncio.Timeout) -> None:
        self.over = False
        self._seconds = seconds
        self._reading = reading
        self._control = control
        self._clock = clock
        self._began = time.monotonic()
        self._believed = 0.0
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(seconds, self._look)

    def stop(self) -> None:
        """Leave the run alone."""
        self._timer.cancel()

    def _look(self) -> None:
        now = time.monotonic()
        # While a listener holds the output up, what the program prints cannot be seen.
        last = (
            now
            if self._reading.held_up
            else max(self._began, self._reading.last_heard, self._control.last_input)
        )
        left = last + self._seconds - now
        if left > 0:
            self._timer = self._loop.call_later(left, self._look)
        elif self._believed != last:
            self._believed = last
            self._timer = self._loop.call_later(SECOND_LOOK, self._look)
        else:
            self.over = True
            expire(self._clock)


class _Reading:
    """The tasks that carry a process's output, and its input."""

    def __init__(
        self,
        process: Process,
        output: Builder,
        stderr: Builder | None,
        listener: Callable[[Channel, bytes], Awaitable[None]] | None,
        feed: ByteSendStream | None,
        stdin: bytes | AsyncIterable[bytes] | None,
        *,
        control: Control,
    ) -> None:
        self._control = control
        self._over = False
        self._pumps = [Pump(process.stdout, output, "stdout", listener)]
        if process.stderr is not None and stderr is not None:
            self._pumps.append(Pump(process.stderr, stderr, "stderr", listener))
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(pump.run()) for pump in self._pumps]
        for task in self._tasks:
            task.add_done_callback(self._check)
        self._feeding = None
        if feed is not None:
            self._feeding = loop.create_task(_feed(feed, stdin or b"", control))
            self._feeding.add_done_callback(self._check)

    @property
    def held_up(self) -> bool:
        """Whether a listener is what keeps output from coming."""
        return any(pump.held_up for pump in self._pumps)

    @property
    def last_heard(self) -> float:
        """When output came last, or a listener let more of it come, by the monotonic clock."""
        return max(pump.last_heard for pump in self._pumps)

    async def wait(self, seconds: float) -> None:
        """Wait for the end of all output, at most so long."""
        pending = [task for task in self._tasks if not task.done()]
        if pending:
            await asyncio.wait(pending, timeout=seconds)

    def _check(self, task: asyncio.Task[None]) -> None:
        """Do not let a command wait for what will never come: the task that feeds its input or reads its output failed."""
        if self._over:
            return
        if task.cancelled() or task.exception() is not None:
            self._control.cancel()

    def hurry(self) -> None:
        """Stop waiting for a listener that holds output up; what it does not hear is counted all the same."""
        for pump in self._pumps:
            if pump.held_up:
                pump.mute()

    async def finish(self) -> None:
        """Take what is still to be had of the output. Raises what went wrong with it, or the caller's input."""
        await self.wait(DRAIN)
        if self.held_up:
            self.hurry()
            await self.wait(DRAIN)
        for task in (*self._tasks, self._feeding):
            if task is not None and task.done() and not task.cancelled():
                task.result()

    def cancel(self) -> None:
        """End every task that still runs."""
        self._over = True
        for task in self._tasks:
            task.cancel()
        if self._feeding is not None:
            self._feeding.cancel()


async def _feed(stdin: ByteSendStream, data: bytes | AsyncIterable[bytes], control: Control) -> None:
    try:
        if isinstance(data, bytes):
            await stdin.send(data)
            control.touch()
        else:
            async for piece in data:
                if not isinstance(piece, bytes | bytearray | memoryview):
                    raise InvalidCommand(f"stdin must give pieces of bytes, not {type(piece).__name__}")
                await stdin.send(bytes(piece))
                control.touch()
                await asyncio.sleep(0)  # a source that never waits would otherwise have the loop for itself
        await stdin.aclose()
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        pass  # it ended without reading everything; that is its right


class _Stop:
    """Ends a tree: ask, wait for the grace, kill until nothing lives.

    Called again, or hurried, it goes on with the kill.
    """

    def __init__(self, process: Process, grace: float, hurry: asyncio.Event) -> None:
        self._process = process
        self._grace = grace
        self.hurry = hurry
        self.asked = False
        """Whether the tree was asked to end before it was killed, and had time for it."""

    async def __call__(self) -> Sequence[ProcessInfo]:
        """Return what could not be ended."""
        late = False
        if self._grace > 0 and not self.hurry.is_set():
            self.asked = self._process.can_terminate
            gone = asyncio.ensure_future(self._ask())
            hurried = asyncio.ensure_future(self.hurry.wait())
            try:
                await asyncio.wait([gone, hurried], timeout=self._grace, return_when=asyncio.FIRST_COMPLETED)
            finally:
                late = not gone.done()
                gone.cancel()
                hurried.cancel()
        began = time.monotonic()
        rounds = 0
        # A look may take longer than all the bounds: none comes before the first kill once the grace is over, and nothing is
        # given up that was not sent one.
        while late or (alive := await self._process.survivors()):
            late = False
            spent = time.monotonic() - began
            if rounds and spent > KILL_BOUND and (rounds >= KILL_ROUNDS or spent > LONGEST_KILL):
                break
            rounds += 1
            await self._process.send_signal("kill")
            with suppress(TimeoutError):
                async with asyncio.timeout(KILL_AGAIN):
                    await self._process.wait_gone()
        return alive

    async def _ask(self) -> None:
        """Ask it to end and wait for that. The grace bounds both: asking takes time where the host is far away."""
        await self._process.send_signal("terminate")
        await self._process.wait_gone()


async def _to_the_end(stop: _Stop) -> Sequence[ProcessInfo]:
    """Stop a tree and be sure of it, whatever cancels us meanwhile; every cancellation skips the grace.

    Raises:
        asyncio.CancelledError: It was cancelled meanwhile. The tree is gone all the same.
    """
    while True:
        task = asyncio.ensure_future(stop())
        cancelled = await outlast(task, stop.hurry.set)
        if cancelled is not None:
            stop.hurry.set()
        if not task.cancelled():  # asyncio.run() cancels every task when it ends, this one too: begin anew
            break
    if cancelled is not None:
        raise cancelled
    return task.result()
