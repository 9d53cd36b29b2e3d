"""The contract of a command in a fresh shell also holds within a reach: the same tests, over a sandbox."""

from __future__ import annotations

import signal
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import anyio
import pytest

from anyshell import Environment, Reach

from .conftest import bubblewrap, python_for_all, row

assert sys.platform != "win32"  # on other systems mypy skips the code below

from .processes import STARTED, living, unique_seconds, wait_asleep, wait_none
from .test_endings import *  # noqa: F403 - the tests themselves

# A sandbox for each of many commands takes minutes, and each sandbox is equal.
del test_timeouts_and_cancels_leak_no_resources, test_normal_runs_leak_no_resources  # noqa: F821 - from there
# In a sandbox such a daemon is a member of the tree: see below.
del test_unmarked_daemon_is_not_stopped_after_a_normal_exit  # noqa: F821 - from there

PYTHON = python_for_all()

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@pytest.fixture
async def env(tmp_path: Path, anyio_backend: str) -> AsyncIterator[Environment]:
    """The reach has names of hosts, whose proxy also has to end with each command."""
    bubblewrap()
    reach = replace(Reach.preset("workspace"), network=("example.org",))
    async with Environment.detect(cwd=tmp_path, reach=reach) as environment:
        yield environment


async def test_unmarked_daemon_becomes_a_job(env: Environment) -> None:
    """A sandbox lives as long as its processes, and so keeps a process that has left group, pipes and environment."""
    seconds = unique_seconds()
    outcome = await env.run(f"(exec env -i setsid sleep {seconds} >&- 2>&- <&- 100>&-) & {STARTED}; echo ok")
    assert outcome.output.text == "ok\n"
    assert [info.name for info in outcome.left_behind] == ["sleep"]
    assert outcome.job is not None
    await env.jobs.get(outcome.job).stop()
    assert not living(seconds)


async def test_signals_and_exit_codes_are_those_of_the_command(env: Environment) -> None:
    ended = {}
    for number in (*range(1, 32), 40, 64):
        if number not in (17, 18, 19, 20, 21, 22, 23, 28):  # signals that do not end a process
            text = f"exec {PYTHON} -c 'import os, signal; {number} == 9 or signal.signal({number}, signal.SIG_DFL); os.kill(os.getpid(), {number})'"
            outcome = await env.run(text, timeout=20)
            ended[number] = (outcome.exit_code, outcome.signal)
    for number, how in ended.items():
        with row(str(number)):
            assert how[0] is None
            assert how[1] is not None
            assert number > 31 or how[1] == signal.Signals(number).name
    for code in (0, 1, 2, 125, 126, 127, 128, 130, 137, 141, 143, 255):
        outcome = await env.run(f"exit {code}")
        assert (outcome.exit_code, outcome.signal) == (code, None)


async def test_no_process_outlives_a_killed_anyshell(tmp_path: Path) -> None:
    bubblewrap()
    seconds = unique_seconds()
    text = f"env -i setsid sleep {seconds} & (trap '' TERM; exec setsid sleep {seconds} 100>&-) & sleep {seconds}"
    program = [sys.executable, "-P", "-m", "anyshell", "run", "--reach", "workspace", "--", text]
    with subprocess.Popen(program, cwd=tmp_path) as running:
        await anyio.to_thread.run_sync(wait_asleep, seconds)
        running.kill()
    await wait_none(seconds)
