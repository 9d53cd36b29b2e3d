"""Running of a helper, a small program of anyshell's own, and its answer, bounded in time and memory: a host may lie.

A caller's command runs through `anyshell._engine.run` instead, which reports how the command ended and which processes
survived. A helper gives an answer or fails, and its tree is killed.
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
"""Bytes kept from the start of the stderr of one of anyshell's own helpers; the rest is read and thrown away."""

ENDING_SECONDS = 0.05
"""Seconds for an anyshell helper to close its output after its answer, and as many again to end; then the helper is killed."""

PIECE = 64 * 1024
"""Bytes of a helper's input that are sent at once; each sent piece counts as progress."""


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
    """Run a helper and return the helper's answer: the exit status, stdout and stderr.

    Args:
        spawner: The spawner that starts the helper, within a bound of the spawner's own.
        spawn: The helper.
        seconds: Bound of everything after the start.
        most: Maximal number of bytes of stdout, 1 or more. After so many bytes the helper is killed. A caller that must tell
            a whole answer from a longer answer allows one byte more.
        stdin: Input, if `spawn` asks for a pipe; end-of-file follows.
        idle: Seconds that may pass without a sent or received byte. ``None`` sets no such bound.
        rate: Bytes a second. Every byte of input that was sent, and of stdout that was kept, adds ``1 / rate`` to
            `seconds`. So the longest possible time is ``seconds + (most + len(stdin)) / rate``.
        until: Bytes of stdout that end the answer. The helper is killed after these bytes.
        release: Whether the processes that the helper started go on after a whole answer.

    Returns:
        The exit status, stdout, and the first 64 KiB of stderr. The status is ``None`` if the helper was killed after
        `most` bytes or after `until`.

    Raises:
        TimeoutError: A time limit was exceeded; the helper was killed.
        AnyshellError: The spawner raised an error.
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
            # Retrieve every task's exception, or asyncio logs the exception of a second failing task.
            for task in tasks:
                task.add_done_callback(note_failure)
            try:
                # Not gather(): if a task fails at the moment of a cancellation, gather() raises the task's exception.
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
    """Read a stream to its end, to `most` bytes, or to the bytes `until`; return whether the stream has ended.

    Args:
        kept: Buffer that receives the bytes, at most `most`.
        stream: The stream to read.
        most: Maximal number of bytes, 1 or more.
        until: Bytes that stop the reading.
        on_piece: Callback with the size of each piece.
    """
    while True:
        try:
            piece = await stream.receive(PIECE)
        except anyio.EndOfStream:
            return True
        # The bytes `until` may begin in the previous piece.
        start = max(0, len(kept) - len(until or b""))
        kept += piece[: most - len(kept)]
        on_piece(len(piece))
        if len(kept) >= most or (until is not None and kept.find(until, start) >= 0):
            return False


async def _see_off(process: Process) -> None:
    """Give a helper that has answered time to end by itself. A kill costs a search of all processes of the host."""
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
    """Read a stream to its end and keep the first bytes. Discarded bytes extend no deadline, and only `collect` bounds the time."""
    with suppress(anyio.EndOfStream):
        while True:
            kept += (await stream.receive(PIECE))[: LONGEST_COMPLAINT - len(kept)]
            on_piece(0)


async def _feed(stream: ByteSendStream, data: bytes, on_piece: Callable[[int], object]) -> None:
    # A helper may end before it has read all input; the helper's answer says why.
    with suppress(anyio.BrokenResourceError):
        for at in range(0, len(data), PIECE):
            piece = data[at : at + PIECE]
            await stream.send(piece)
            on_piece(len(piece))
    await stream.aclose()
