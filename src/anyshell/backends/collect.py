"""The answer of a helper: a small program of anyshell's own on a host that may lie, bounded in time and in memory.

A command of the caller goes through `anyshell._engine.run`, which says how it ended and what it left behind. A helper gives
an answer or fails, and its tree is killed.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import anyio

from .._waits import note_failure, to_the_end

if TYPE_CHECKING:
    from collections.abc import Callable

    from anyio.abc import ByteReceiveStream, ByteSendStream

    from .._types import ExitStatus, Spawn
    from ..abc import Process, Spawner

LONGEST_COMPLAINT = 64 * 1024
"""Bytes from the start of the stderr of one of anyshell's own helpers that are kept; the rest is read and thrown away."""

ENDING_SECONDS = 0.05
"""Seconds for one of anyshell's own helpers to close its output when it has answered, and as many to end then; then it is killed."""

PIECE = 64 * 1024
"""Bytes of a helper's input that are sent at once; each piece counts as progress."""


async def collect(
    spawner: Spawner,
    spawn: Spawn,
    *,
    seconds: float,
    most: int,
    stdin: bytes = b"",
    idle: float | None = None,
    rate: float | None = None,
    until: bytes | None = None,
    release: bool = False,
) -> tuple[ExitStatus | None, bytes, bytes]:
    """Run a helper, and take its answer: stdout and stderr up to their ends, and the exit status.

    Args:
        spawner: Starts the helper, within a bound of its own.
        spawn: The helper.
        seconds: Bound of everything after the start.
        most: Bytes of stdout, 1 or more. The helper is killed when they have come. A caller that must tell a whole answer
            from a longer one allows one byte more.
        stdin: Input, if `spawn` asks for a pipe; end-of-file follows.
        idle: Bound of each time in which nothing is sent and nothing comes. ``None`` is no such bound.
        rate: Bytes a second. Every byte of input that was sent, and of stdout that was kept, adds ``1 / rate`` to
            `seconds`. So the longest time of all is ``seconds + (most + len(stdin)) / rate``.
        until: Bytes of stdout that end the answer. The helper is killed when they have come.
        release: Whether the processes that the helper started go on after a whole answer.

    Returns:
        The exit status, stdout, and the first 64 KiB of stderr. The status is ``None`` if the helper was killed because
        `most` bytes or `until` had come.

    Raises:
        TimeoutError: A bound of time was over; the helper was killed.
        AnyshellError: From the spawner.
    """
    loop = asyncio.get_running_loop()
    process = await spawner.spawn(spawn)
    try:
        out, err = bytearray(), bytearray()
        began, moved = loop.time(), 0
        async with asyncio.timeout(seconds if idle is None else min(seconds, idle)) as clock:

            def moves(count: int) -> None:
                nonlocal moved
                moved += count
                over = began + seconds + (0.0 if rate is None else moved / rate)
                if not clock.expired():
                    clock.reschedule(over if idle is None else min(over, loop.time() + idle))

            async def take() -> None:
                if not await fill(out, process.stdout, most, until=until, on_piece=moves):
                    raise _Enough

            works = [take()]
            if process.stderr is not None:
                works.append(_keep_start(err, process.stderr, moves))
            if process.stdin is not None:
                works.append(_feed(process.stdin, stdin, moves))
            tasks = [loop.create_task(work) for work in works]
            for task in tasks:  # looked at, or asyncio reports what a second one raises
                task.add_done_callback(note_failure)
            try:
                # Not gather(), out of which the exception of a task comes instead of a cancellation of the same moment.
                await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
                for task in tasks:
                    if task.done():
                        task.result()
                status: ExitStatus | None = await process.wait()
            except _Enough:
                status = None
                if until is not None:
                    await _see_off(process)
            finally:
                for task in tasks:
                    task.cancel()
        if release and status is not None:
            await process.release()
        return status, bytes(out), bytes(err)
    finally:
        await to_the_end(process.aclose(), lambda: None)


async def fill(
    kept: bytearray,
    stream: ByteReceiveStream,
    most: int,
    *,
    until: bytes | None = None,
    on_piece: Callable[[int], object] = lambda count: None,
) -> bool:
    """Read a stream up to its end, or until `most` bytes or the bytes `until` have come; return whether the end came.

    Args:
        kept: Takes what comes, at most `most` bytes.
        stream: The stream that is read.
        most: Bytes, 1 or more.
        until: Bytes that stop the reading.
        on_piece: Is given the size of each piece.
    """
    while True:
        try:
            piece = await stream.receive(PIECE)
        except anyio.EndOfStream:
            return True
        # `until` may have begun in the piece before.
        start = max(0, len(kept) - len(until or b""))
        kept += piece[: most - len(kept)]
        on_piece(len(piece))
        if len(kept) >= most or (until is not None and kept.find(until, start) >= 0):
            return False


async def _see_off(process: Process) -> None:
    """Let a helper that has answered end by itself: to kill it, its tree is looked for among all processes of the host."""
    with suppress(TimeoutError, anyio.EndOfStream):
        async with asyncio.timeout(ENDING_SECONDS):
            while True:
                await process.stdout.receive(PIECE)
    with suppress(TimeoutError):
        async with asyncio.timeout(ENDING_SECONDS):
            await process.wait()


class _Enough(Exception):  # noqa: N818 - no error: the answer is there
    pass


async def _keep_start(kept: bytearray, stream: ByteReceiveStream, on_piece: Callable[[int], object]) -> None:
    """Read up to the end, whatever comes, and keep the start. Only `collect` bounds it: what is thrown away adds no time."""
    with suppress(anyio.EndOfStream):
        while True:
            kept += (await stream.receive(PIECE))[: LONGEST_COMPLAINT - len(kept)]
            on_piece(0)


async def _feed(stream: ByteSendStream, data: bytes, on_piece: Callable[[int], object]) -> None:
    with suppress(anyio.BrokenResourceError):  # it ended without reading everything; its answer says why
        for at in range(0, len(data), PIECE):
            piece = data[at : at + PIECE]
            await stream.send(piece)
            on_piece(len(piece))
    await stream.aclose()
