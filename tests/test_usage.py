"""The resources that a command used on this machine, as far as the kernel reports them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest

import anyshell
from anyshell import Environment, Reach

from .conftest import NOBODY, bubblewrap, python_for_all

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.anyio


@pytest.fixture
async def here(tmp_path: Path, anyio_backend: str) -> AsyncIterator[Environment]:
    async with Environment.detect(cwd=tmp_path) as env:
        yield env


LARGE = f"{sys.executable} -c 'x = bytes(1) * 200_000_000'"
"""Takes 200 MB of memory."""

BURN = f"{sys.executable} -c 'import time; [0 for _ in iter(lambda: time.process_time() < 0.3, False)]'"
"""Burns 0.3 s of the CPU."""


@pytest.mark.parametrize("command", [BURN, f"true; {BURN}; true", f"({BURN}) | cat"])
async def test_cpu_time_covers_all_awaited_processes(command: str, here: Environment) -> None:
    usage = (await here.run(command)).usage
    assert usage is not None
    assert usage.how == "waited"
    assert usage.user + usage.system >= 0.29
    idle = (await here.run("sleep 0.3")).usage
    assert idle is not None
    assert idle.user + idle.system < 0.29  # of the CPU, not of the clock


async def test_usage_of_another_command_does_not_count(here: Environment) -> None:
    await here.run(BURN)
    usage = (await here.run("true")).usage
    assert usage is not None
    assert usage.user + usage.system < 0.29


@pytest.mark.skipif(sys.platform != "linux", reason="macOS does not tell")
async def test_byte_counts_cover_all_awaited_processes(here: Environment) -> None:
    usage = (
        await here.run("head -c 3000000 /dev/zero > file; head -c 2000000 file | cat > copy; true")
    ).usage
    assert usage is not None
    assert usage.written is not None
    assert usage.read is not None
    assert 7_000_000 <= usage.written < 7_100_000
    assert 7_000_000 <= usage.read < 8_000_000
    small = (await here.run("true")).usage
    assert small is not None
    assert small.written == 0


@pytest.mark.skipif(sys.platform != "linux", reason="macOS does not tell")
def test_bytes_are_counted_for_an_ordinary_user(tmp_path: Path) -> None:
    """The kernel lets only root open the counts of an ended process."""
    if sys.platform == "win32" or os.geteuid() != 0:
        pytest.skip("the other tests are those of an ordinary user")
    program = "import anyshell\nprint(anyshell.run('sleep 0.2; head -c 100000 /dev/zero > /dev/null').usage.written)"
    places = {str(Path(str(module.__file__)).parents[1]) for module in (anyshell, anyio)}
    variables = {"PATH": os.environ["PATH"], "HOME": "/", "PYTHONPATH": os.pathsep.join(places)}
    done = subprocess.run(
        [python_for_all(), "-c", program], capture_output=True, text=True, check=True, cwd="/", env=variables, user=NOBODY, group=NOBODY,
    )  # fmt: skip
    assert 100_000 <= int(done.stdout) < 101_000


async def test_memory_is_that_of_the_largest_process(tmp_path: Path) -> None:
    """A small program asks: a peak below that of the asking program is not known."""
    program = (
        "import anyshell, sys\n"
        "large = f'{sys.executable} -c \"x = bytes(1) * 200_000_000\"'\n"
        "print(anyshell.run(f'true; {large}').usage.memory, anyshell.run('true').usage.memory)"
    )
    # A small shell starts the program by a fork: a direct child of this process would begin with this process's peak.
    done = subprocess.run(
        ["sh", "-c", '"$@"; exit $?', "sh", sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    large, small = done.stdout.split()
    assert 200_000_000 <= int(large) < 400_000_000
    assert small == "None" or sys.platform != "linux"


async def test_stopped_command_has_usage(here: Environment) -> None:
    """The shell was killed before it could wait for its child: only the shell's own usage is known."""
    outcome = await here.run("sleep 300; true", timeout=0.5, grace=0)
    assert outcome.status == "timed_out"
    assert outcome.usage is not None
    assert outcome.usage.how == "waited"


async def test_usage_is_absent_for_a_command_that_left_a_job(here: Environment) -> None:
    left = await here.run("sleep 300 & true")
    assert left.job is not None
    assert left.usage is None


@pytest.mark.skipif(sys.platform != "linux", reason="macOS does not tell")
async def test_time_of_a_command_in_a_session(here: Environment) -> None:
    async with here.session() as session:
        await session.run(BURN)
        used = (await session.run(f"true; {BURN}; true")).usage
        assert used is not None
        assert used.how == "waited"
        assert 0.28 <= used.user + used.system < 0.6
        assert used.memory is None
        idle = (await session.run("sleep 0.3")).usage
        assert idle is not None
        assert idle.user + idle.system < 0.28


@pytest.mark.skipif(sys.platform != "linux", reason="macOS does not tell")
async def test_time_in_a_session_is_unknown_beside_an_earlier_command(here: Environment) -> None:
    async with here.session() as session:
        assert (await session.run(f"mkfifo fifo; {{ read -r _ < fifo; {BURN}; }} &")).usage is None
        assert (await session.run("true")).usage is None
        assert (await session.run("echo > fifo; wait")).usage is None
        assert (await session.run("true")).usage is not None


@pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is of Linux")
async def test_usage_within_a_reach_is_that_of_the_command(tmp_path: Path) -> None:
    bubblewrap()
    async with Environment.detect(cwd=tmp_path, reach=Reach.preset("workspace")) as env:
        # The measuring program is hidden from the command: no variable and no descriptor of any process shows it.
        look = f"env | grep -c ANYSHELL_USED; ls -l /proc/[0-9]*/fd | grep -c memfd; ({BURN}) | cat; exit 3"
        outcome = await env.run(look)
        assert (outcome.output.text, outcome.exit_code) == ("0\n0\n", 3)
        used = outcome.usage
        assert used is not None
        assert used.how == "waited"
        assert 0.28 <= used.user + used.system < 0.6
        assert used.read is not None
        idle = (await env.run("env true; env true; :")).usage
        assert idle is not None
        assert (idle.processes, idle.written, idle.memory) == (3, 0, None)
        copied = (await env.run(f"head -c 3000000 /dev/zero | cat >/dev/null; {LARGE}")).usage
        assert copied is not None
        assert copied.read is not None
        assert copied.written is not None
        assert 6_000_000 <= copied.written < 6_100_000
        assert 6_000_000 <= copied.read < 8_000_000
        assert copied.memory is not None
        assert 200_000_000 <= copied.memory < 400_000_000
        assert idle.user + idle.system < 0.28  # the sandbox itself does not count
        assert (await env.run("kill -9 $$; sleep 300", timeout=20)).usage is not None
        stopped = await env.run("sleep 300; true", timeout=0.5, grace=0)
        assert stopped.usage is None
        assert (await env.run("sleep 300 & true")).usage is None
        async with env.session() as session:
            used = (await session.run(BURN)).usage
            assert used is not None
            assert used.user + used.system >= 0.28
