"""The one module in which a process is awaited, timed, drained and stopped.

The order matters: first wait for the exit, then drain within a bound, then close. To wait for the end of the output first is
a common mistake: every process that a command leaves in the background holds the pipe, and the call hangs as long as that
process lives.
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
"""Seconds for survivors of a command to end before they count as left behind; then also for the remaining output."""

LEFT_BEHIND_GRACE = 0.2
"""Seconds between the request to end and the kill, for processes that were left behind."""

KILL_BOUND = 0.25
"""Seconds for a kill to take effect; after that the outcome is ``lost``."""

KILL_ROUNDS = 5
"""Kills that are tried even beyond `KILL_BOUND`, on a machine so busy that each look is slow."""

LONGEST_KILL = 2.0
"""Seconds for all kills of one tree; after that the outcome is ``lost``."""

SECOND_LOOK = 0.1
"""Seconds between a silence (``silence=``) and the look that confirms it: a blocked event loop may have delayed output."""

TURNS = 8
"""Turns of the event loop in which a run that is cut short may still learn that its program has ended by itself."""

KILL_AGAIN = 0.02
"""Seconds between two kills of a tree: one pass misses processes that fork."""


class Control:
    """A handle to end a run early from another task. The run then returns an outcome, ``cancelled``, and does not raise.

    Attributes:
        requested: Whether the end of the run was requested.
    """

    def __init__(self) -> None:
        self.requested = False
        self.last_input = 0.0  # by the monotonic clock
        self.hurry = asyncio.Event()
        self.process: Process | None = None
        """The started process; ``None`` before the start."""
        self._clock: asyncio.Timeout | None = None
        self._stopping = False

    def cancel(self) -> None:
        """Request the end of the run. Returns at once; the run itself returns when its tree is gone.

        A second call skips the grace period. So does the first call when the run is already being stopped.
        """
        if self.requested or self._stopping:
            self.hurry.set()
            return
        self.requested = True
        if self._clock is not None:
            expire(self._clock)

    def touch(self) -> None:
        """Record that the program is given input now, which ends a silence: see ``silence=``."""
        self.last_input = time.monotonic()

    def _hold(self, clock: asyncio.Timeout) -> None:
        """Store the clock that expires when the end is requested. For the run alone."""
        self._clock = clock
        if self.requested:
            expire(clock)

    def _let_go(self) -> None:
        """Release the clock: from now on a request skips the grace period. For the run alone."""
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
    """Run one program to its end, of whatever kind; stop or report every process that the program starts.

    Args:
        spawner: The starter of the program, usually a backend.
        spawn: The program that is started.
        output: Receives stdout, or both channels.
        stderr: Receives stderr, if `spawn` splits the channels.
        stdin: The bytes written to the program; end-of-file follows. ``None`` leaves the program's input alone.
        timeout: Seconds for everything: starting, running, draining. ``None`` means no bound.
        silence: Seconds for which a started program may print nothing and be given no input. ``None`` means no bound.
        grace: Seconds between the request to end and the kill.
        left_behind: The fate of processes that outlive the program. Unless the value is ``stop``, the process is released;
            the layer before the backend then makes a job of them.
        listener: Called with every chunk of output, and awaited.
        control: Ends the run early.

    Raises:
        InvalidCommand, SpawnError: From the backend: nothing was started.
        asyncio.CancelledError: The call was cancelled; the tree is gone.
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
        """Store a process that may start on the host: even if the start fails, the process is stopped like any other."""
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
                raise  # a backend's own timeout
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
            if survivors is None:  # the timeout was over before the survivors were known
                survivors = await process.survivors()
            alive = survivors
            # A command whose own end was missed counts as having left no process on purpose.
            unwanted = left_behind == "stop" or (left_behind == "adopt" and ended == ExitStatus())
            if survivors and unwanted:
                stop = _Stop(process, LEFT_BEHIND_GRACE, control.hurry)
                alive = await _to_the_end(stop)
        if clock.expired():
            reading.hurry()
        await reading.finish()
        if alive:  # the survivors are to be kept, or cannot be ended: another try would only take longer
            await process.release()
        status, ended = await _status(process, ended, alive, control)
        if failure is not None and process.started is False and not alive:
            raise failure
        if failure is not None or process.started is None:
            status = "lost"
        if not process.started:
            ended = ExitStatus()  # the exit status of a login shell, not of the program
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
    except GeneratorExit:  # the loop was closed during the run: no task can be awaited or cancelled any more
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
    """Return the processes left behind, each with whether it lives, and the processes found while stopping."""
    living = {(info.pid, info.started) for info in alive}
    ended = [info.ended() for info in survivors if (info.pid, info.started) not in living]
    return (*ended, *alive)


async def _end_by_now(process: Process) -> ExitStatus | None:
    """Return the exit status of a process that has just ended while its run is being cut short."""
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
    """After the exit, drain the output and return the processes that are still alive when the time for draining is over."""
    over = asyncio.get_running_loop().time() + DRAIN
    await reading.wait(DRAIN)
    survivors = await process.survivors()
    if survivors:
        with suppress(TimeoutError):
            async with asyncio.timeout_at(over):
                await process.wait_gone()
        survivors = await process.survivors()
    while reading.held_up:  # the listener causes the delay, not the program: bounded by the timeout alone
        await reading.wait(DRAIN)
    return survivors


class _Silence:
    """A timer that ends a run which has printed nothing, and was given no input, for so long.

    A chunk of output only sets the time of the last output; the timer checks that time when it fires.
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
        """Cancel the timer."""
        self._timer.cancel()

    def _look(self) -> None:
        now = time.monotonic()
        # While a listener holds up the output, new output of the program cannot be seen.
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
    """The tasks that transfer a process's output and input."""

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
        """Whether a listener holds up the output."""
        return any(pump.held_up for pump in self._pumps)

    @property
    def last_heard(self) -> float:
        """The time of the last output, or of the last return of a listener, by the monotonic clock."""
        return max(pump.last_heard for pump in self._pumps)

    async def wait(self, seconds: float) -> None:
        """Wait for the end of all output, at most `seconds`."""
        pending = [task for task in self._tasks if not task.done()]
        if pending:
            await asyncio.wait(pending, timeout=seconds)

    def _check(self, task: asyncio.Task[None]) -> None:
        """Cancel the run when a reading or feeding task has failed: the command could wait for ever."""
        if self._over:
            return
        if task.cancelled() or task.exception() is not None:
            self._control.cancel()

    def hurry(self) -> None:
        """Stop waiting for a listener that holds up output; the output that it misses is still counted."""
        for pump in self._pumps:
            if pump.held_up:
                pump.mute()

    async def finish(self) -> None:
        """Read the remaining output. Raises the errors of the output and of the caller's input."""
        await self.wait(DRAIN)
        if self.held_up:
            self.hurry()
            await self.wait(DRAIN)
        for task in (*self._tasks, self._feeding):
            if task is not None and task.done() and not task.cancelled():
                task.result()

    def cancel(self) -> None:
        """Cancel every task that still runs."""
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
                await asyncio.sleep(0)  # a source that never waits would otherwise block the loop
        await stdin.aclose()
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        pass  # the program may end without reading all its input


class _Stop:
    """The stop of a tree: request the end, wait for the grace period, kill until no process lives.

    A second call, or a set `hurry`, goes on with the kill.
    """

    def __init__(self, process: Process, grace: float, hurry: asyncio.Event) -> None:
        self._process = process
        self._grace = grace
        self.hurry = hurry
        self.asked = False
        """Whether the tree was asked to end, and had time to end, before it was killed."""

    async def __call__(self) -> Sequence[ProcessInfo]:
        """Stop the tree; return the processes that could not be ended."""
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
        # A look may take longer than all bounds. So the first kill after the grace period needs no look before it, and no
        # tree is given up without a kill.
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
        """Ask the tree to end and wait for that. The grace period bounds both: the request takes time on a remote host."""
        await self._process.send_signal("terminate")
        await self._process.wait_gone()


async def _to_the_end(stop: _Stop) -> Sequence[ProcessInfo]:
    """Stop a tree to the end, even if the caller is cancelled meanwhile; every cancellation skips the grace period.

    Raises:
        asyncio.CancelledError: The call was cancelled meanwhile. The tree is gone all the same.
    """
    while True:
        task = asyncio.ensure_future(stop())
        cancelled = await outlast(task, stop.hurry.set)
        if cancelled is not None:
            stop.hurry.set()
        if not task.cancelled():  # asyncio.run() cancels every task when it ends, also this task: begin anew
            break
    if cancelled is not None:
        raise cancelled
    return task.result()
