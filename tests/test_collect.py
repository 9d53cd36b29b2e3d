"""The answer of a helper, over the local backend: its bounds, and the kill that leaves no process of the helper."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING, cast

import anyio
import pytest

from anyshell._types import ExitStatus, ProcessInfo, Spawn
from anyshell.backends.closing import kill_until_gone
from anyshell.backends.collect import LONGEST_COMPLAINT, collect
from anyshell.backends.local.backend import LocalBackend

from .processes import living, unique_seconds, wait_living

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from anyshell.abc import Process, Spawner

pytestmark = pytest.mark.anyio

MIB = 1024 * 1024
LONG = 600.0


@pytest.fixture
async def backend(anyio_backend: str) -> AsyncIterator[LocalBackend]:
    made = LocalBackend()
    with anyio.fail_after(120):
        yield made
    await made.aclose()


def helper(program: str, *arguments: str, stdin: bool = False) -> Spawn:
    """A helper in Python; every helper imports these modules."""
    argv = (sys.executable, "-c", f"import os, sys, time\n{program}", *arguments)
    return Spawn(argv=argv, cwd=os.path.abspath(os.sep), split_stderr=True, stdin=stdin)


async def test_answer_has_both_outputs_and_the_exit_status(backend: LocalBackend) -> None:
    program = "os.write(1, b'out'); os.write(2, b'err'); sys.exit(3)"
    assert await collect(backend, helper(program), seconds=LONG, most=100) == (
        ExitStatus(code=3),
        b"out",
        b"err",
    )


async def test_cancellation_at_the_moment_of_the_answer_is_not_lost() -> None:
    """The task that reads the answer has ended, and the caller has not yet resumed when the cancellation comes."""
    loop = asyncio.get_running_loop()
    reading, answer = asyncio.Event(), loop.create_future()

    class Stream:
        def __init__(self, piece: asyncio.Future[bytes]) -> None:
            self.piece = piece

        async def receive(self, most: int) -> bytes:
            reading.set()
            return await self.piece

    class Helper:
        stdin = None
        stdout, stderr = Stream(answer), Stream(loop.create_future())

        async def aclose(self) -> None:
            pass

    class Starter:
        async def spawn(self, spawn: Spawn) -> Helper:
            return Helper()

    spawn = Spawn(argv=("helper",), cwd=os.path.abspath(os.sep), split_stderr=True)
    collecting = asyncio.create_task(collect(cast("Spawner", Starter()), spawn, seconds=LONG, most=6))
    await reading.wait()
    answer.set_result(b"answer")
    loop.call_soon(collecting.cancel)
    with anyio.fail_after(20):
        await asyncio.wait([collecting])
    assert collecting.cancelled()


async def test_large_input_is_read_completely(backend: LocalBackend) -> None:
    program = "sys.stdout.buffer.write(sys.stdin.buffer.read())"
    data = os.urandom(3 * MIB)
    status, out, _ = await collect(
        backend, helper(program, stdin=True), stdin=data, seconds=LONG, most=4 * MIB
    )
    assert (status, out == data) == (ExitStatus(code=0), True)


async def test_helper_with_unread_input_still_gives_an_answer(backend: LocalBackend) -> None:
    status, out, _ = await collect(
        backend, helper("print('no', end='')", stdin=True), stdin=bytes(MIB), seconds=LONG, most=100
    )
    assert (status, out) == (ExitStatus(code=0), b"no")


async def test_endless_answer_is_cut_and_its_helper_killed(backend: LocalBackend) -> None:
    seconds = unique_seconds()
    spawn = helper("while True: os.write(1, b'y' * 4096)", seconds)
    assert await collect(backend, spawn, seconds=LONG, most=10_000) == (None, b"y" * 10_000, b"")
    assert living(seconds) == []


async def test_helper_is_killed_after_the_end_mark_of_its_answer(backend: LocalBackend) -> None:
    """The end mark comes in two pieces."""
    seconds = unique_seconds()
    spawn = helper("os.write(1, b'line\\r'); time.sleep(0.2); os.write(1, b'\\n'); time.sleep(600)", seconds)
    assert await collect(backend, spawn, seconds=LONG, most=100, until=b"\r\n") == (None, b"line\r\n", b"")
    assert living(seconds) == []


async def test_long_stderr_keeps_its_start_and_the_answer(backend: LocalBackend) -> None:
    program = "os.write(2, b'first'); sys.stderr.write('x' * 1000000); sys.stderr.flush(); os.write(1, b'ok')"
    status, out, err = await collect(backend, helper(program), seconds=LONG, most=100)
    assert (status, out, len(err), err[:6]) == (ExitStatus(code=0), b"ok", LONGEST_COMPLAINT, b"firstx")


@pytest.mark.parametrize(
    "program",
    [
        "while True: os.write(1, b'x'); time.sleep(0.01)",
        "while True: os.write(2, b'x' * 4096)",
        "os.write(1, b'x'); os.close(1); os.close(2); time.sleep(600)",
    ],
    ids=["drips", "complains", "does not end"],
)
async def test_helper_over_the_time_limit_is_killed(backend: LocalBackend, program: str) -> None:
    """Output keeps coming, so that the bound on silence alone would never end the helper."""
    seconds = unique_seconds()
    with pytest.raises(TimeoutError):
        await collect(backend, helper(program, seconds), seconds=1, idle=0.9, rate=1e6, most=MIB)
    assert living(seconds) == []


@pytest.mark.parametrize(
    "program",
    ["os.write(1, b'x' * 1000); time.sleep(600)", "time.sleep(600)"],
    ids=["stops midway", "never begins"],
)
async def test_silent_helper_is_killed(backend: LocalBackend, program: str) -> None:
    seconds = unique_seconds()
    spawn = helper(program, seconds, stdin=True)
    with pytest.raises(TimeoutError):
        await collect(backend, spawn, stdin=bytes(MIB), seconds=LONG, idle=1, rate=1e6, most=MIB)
    assert living(seconds) == []


class Paced:
    """A program that prints at once, is silent for a time, prints again, and ends."""

    stdin = stderr = None

    def __init__(self, silence: float) -> None:
        self.stdout = self
        self._steps = iter([(0.0, b"x" * 100), (silence, b"y")])

    async def receive(self, max_bytes: int) -> bytes:
        for pause, piece in self._steps:
            await asyncio.sleep(pause)
            return piece
        raise anyio.EndOfStream

    async def spawn(self, spawn: Spawn) -> Process:
        return cast("Process", self)

    async def wait(self) -> ExitStatus:
        return ExitStatus(code=0)

    async def aclose(self) -> None:
        pass


async def test_progress_extends_the_time_limit(anyio_backend: str) -> None:
    """A hundred bytes add a hundred seconds to the time limit, and no time to the bound on silence."""
    spawn = helper("")
    status, out, _ = await collect(Paced(0.4), spawn, seconds=0.2, idle=LONG, rate=1, most=1000)
    assert (status, len(out)) == (ExitStatus(code=0), 101)
    with pytest.raises(TimeoutError):
        await collect(Paced(LONG), spawn, seconds=LONG, idle=0.2, rate=1, most=1000)
    with pytest.raises(TimeoutError):
        await collect(Paced(LONG), spawn, seconds=0.2, rate=1000, most=1000)


async def test_cancelled_caller_leaves_no_helper(backend: LocalBackend) -> None:
    seconds = unique_seconds()
    task = asyncio.create_task(collect(backend, helper("time.sleep(600)", seconds), seconds=LONG, most=100))
    await asyncio.to_thread(wait_living, seconds)
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()  # also during the close
    with pytest.raises(asyncio.CancelledError):
        await task
    assert living(seconds) == []


class Undead:
    """A process tree that survives a number of kills, or all kills."""

    def __init__(self, lives: int | None) -> None:
        self.lives = lives
        self.kills = 0

    async def survivors(self) -> list[ProcessInfo]:
        return [] if self.kills == self.lives else [ProcessInfo(1, "undead", 0.0)]

    async def send_signal(self, signal: str) -> None:
        assert signal == "kill"
        self.kills += 1


@pytest.mark.parametrize("lives", [0, 1, 5])
async def test_close_kills_until_the_tree_is_gone(anyio_backend: str, lives: int) -> None:
    tree = Undead(lives)
    await kill_until_gone(cast("Process", tree), LONG)
    assert tree.kills == lives


async def test_close_gives_up_on_an_unkillable_tree(anyio_backend: str) -> None:
    tree = Undead(None)
    with anyio.fail_after(60):
        await kill_until_gone(cast("Process", tree), 0.5)
    assert tree.kills > 1
