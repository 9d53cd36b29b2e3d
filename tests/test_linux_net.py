"""Commands whose program ends without stopping them: on Linux, a net process stops these commands."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import psutil
import pytest

from anyshell import Environment
from anyshell.types import DetachedJobs

from .cli_program import wait_until
from .processes import living, open_descriptors, unique_seconds, wait_asleep

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path
    from typing import BinaryIO

assert sys.platform != "win32"  # mypy

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there is no net elsewhere")

RUN = "import anyshell, sys; anyshell.run(sys.argv[1])"

LOOP_CLOSED = """
import asyncio, psutil, sys
from anyshell import Environment
async def begin():
    env = await Environment.detect().__aenter__()
    door = await env.session().__aenter__() if sys.argv[2] == "session" else env
    task = asyncio.ensure_future(door.run(sys.argv[1], stdin=b"x" * 1_000_000))
    while not any(child.name() == "sleep" for child in psutil.Process().children(recursive=True)):
        await asyncio.sleep(0.01)
    return env, door, task
loop = asyncio.new_event_loop()
kept = loop.run_until_complete(begin())
loop.close()
sys.stdin.read()
"""

KEEP = """
import asyncio, sys
from anyshell import Environment
from anyshell.types import DetachedJobs
async def main():
    kept, daemon, detached, hang = sys.argv[1:]
    async with Environment.detect() as env:
        await env.run(f"sleep {kept} &", left_behind="keep")
        close = "import os, sys; os.closerange(0, 1000); os.execvp(sys.argv[1], sys.argv[1:])"
        closed = f'until [ "$(cat /proc/$!/comm)" = sleep ]; do sleep 0.01; done'
        await env.run(f"setsid {sys.executable} -c '{close}' sleep {daemon} & {closed}")
        await DetachedJobs(env).start(f"exec sleep {detached}")
        await env.run(f"exec sleep {hang}")
asyncio.run(main())
"""

FORK = """
import asyncio, os, sys
from anyshell import Environment
env = asyncio.run(Environment.detect().__aenter__())
asyncio.run(env.run("true"))
pid = os.fork()
if pid == 0:
    asyncio.run(env.run(f"exec sleep {sys.argv[2]}"))
print(pid, flush=True)
asyncio.run(env.run(f"exec sleep {sys.argv[1]}"))
"""

FORK_THAT_CLOSES = """
import asyncio, gc, os
from anyshell.backends.local.backend import LocalBackend
from anyshell.abc import Spawn
async def stop(spawn=Spawn(argv=("/bin/sh", "-c", "sleep 60 & sleep 60"), cwd="/")):
    process = await backend.spawn(spawn)
    await process.send_signal("kill")
    await process.wait_gone()
    await process.aclose()
backend = LocalBackend()
asyncio.run(stop())
if os.fork():
    os.wait()
else:
    os.closerange(3, 100)
    others = [os.open("/etc/passwd", os.O_RDONLY) for _ in range(20)]
    asyncio.run(asyncio.wait_for(stop(), 10))
    asyncio.run(backend.aclose())
    del backend
    gc.collect()
    print([os.read(fd, 1) for fd in others] == [b"r"] * 20, flush=True)
"""

UNCLOSED = """
import asyncio
from anyshell import Environment
async def main():
    env = await Environment.detect()
    await env.run("true")
    print("ran", flush=True)
asyncio.run(main())
"""


def program(
    text: str, *arguments: str, stderr: BinaryIO | None = None
) -> AbstractContextManager[subprocess.Popen[bytes]]:
    return subprocess.Popen(
        [sys.executable, "-c", text, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
    )


def asleep(seconds: str) -> list[str]:
    return [line for line in living(seconds) if line.partition(" ")[2] == f"sleep {seconds}"]


def nets(pid: int) -> list[int]:
    """The net processes of a program."""
    return [int(line.split()[0]) for line in living(f"anyshell-net {pid} ")]


def children(pid: int) -> Iterator[str]:
    for process in psutil.Process(pid).children(recursive=True):
        yield process.name()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_commands_end_with_a_program_killed_by_a_signal(number: signal.Signals, tmp_path: Path) -> None:
    times = [unique_seconds() for _ in range(4)]
    asked, left, deaf, cleared = times
    text = (
        f"setsid sleep {left} & (trap '' TERM; exec sleep {deaf}) & (env -i setsid sleep {cleared} &)\n"
        f"trap 'touch {tmp_path}/asked; exit' TERM; sleep {asked} & wait"
    )
    with program(RUN, text) as running:
        for each in times:
            wait_asleep(each)
        # The net is not a child of the program, which may wait for all children.
        assert "sh" not in children(running.pid)
        running.send_signal(number)
    wait_until(lambda: not any(map(asleep, times)), "the end of the tree")
    assert (tmp_path / "asked").exists()
    wait_until(lambda: not nets(running.pid), "the end of the net")


@pytest.mark.parametrize("door", ["run", "session"])
def test_commands_end_with_a_program_that_closed_its_loop(door: str, tmp_path: Path) -> None:
    seconds = unique_seconds()
    said = tmp_path / "stderr"
    with said.open("wb") as stderr, program(LOOP_CLOSED, f"sleep {seconds}", door, stderr=stderr) as running:
        wait_asleep(seconds)
        assert running.stdin is not None
        running.stdin.close()
        assert running.wait() == 0
    assert "Exception ignored" not in said.read_text()
    wait_until(lambda: not asleep(seconds), "the end of the command")


@pytest.mark.anyio
async def test_processes_kept_or_detached_survive_a_kill_of_the_program(
    state_directory: Path, anyio_backend: str
) -> None:
    times = [unique_seconds() for _ in range(4)]
    *stay, hang = times
    with program(KEEP, *times) as running:
        for each in times:
            wait_asleep(each)
        running.kill()
    wait_until(lambda: not asleep(hang) and not nets(running.pid), "the end of the command and of the net")
    lives = [bool(asleep(each)) for each in stay]
    async with Environment.detect() as env:
        for job in await DetachedJobs(env).list():
            assert await job.stop(grace=0) == []
    for line in (line for each in stay for line in asleep(each)):
        os.kill(int(line.split()[0]), signal.SIGKILL)
    assert lives == [True, True, True]


def test_fork_of_the_program_has_its_own_net() -> None:
    mine, other = unique_seconds(), unique_seconds()
    with program(FORK, mine, other) as running:
        assert running.stdout is not None
        fork = int(running.stdout.readline())
        wait_asleep(mine)
        wait_asleep(other)
        os.kill(fork, signal.SIGKILL)
        wait_until(lambda: not asleep(other), "the end of the fork's command")
        assert asleep(mine)
        running.kill()
    wait_until(lambda: not asleep(mine), "the end of the program's command")


def test_fork_may_close_unknown_descriptors() -> None:
    """A fork that becomes a daemon may reuse the numbers of the descriptors for its own files."""
    with program(FORK_THAT_CLOSES) as running:
        assert running.stdout is not None
        assert running.stdout.read() == b"True\n"


@pytest.mark.anyio
async def test_a_closed_environment_has_no_net(anyio_backend: str) -> None:
    """A closed environment also has no descriptor, before its garbage collection."""
    before = set(nets(os.getpid()))  # nets of environments that other tests have not closed
    closed = []
    for _ in range(2):
        descriptors = open_descriptors()
        async with Environment.detect() as env:
            others = set(nets(os.getpid()))
            await env.run("true")
            assert len(set(nets(os.getpid())) - others) <= 1
        closed.append(env)
        assert open_descriptors() == descriptors
    wait_until(lambda: set(nets(os.getpid())) <= before, "the end of the nets")


def test_net_ends_with_a_finished_program() -> None:
    with program(UNCLOSED) as running:
        assert running.stdout is not None
        assert running.stdout.read() == b"ran\n"
    wait_until(lambda: not nets(running.pid), "the end of the net")
