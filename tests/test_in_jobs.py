"""The contract of a command in the foreground also holds for a job: the same tests, over jobs."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

import pytest

from anyshell import Environment

from .conftest import open_to_all

assert sys.platform != "win32"  # on other systems mypy skips the code below

from .test_endings import *  # noqa: F403 - the tests themselves
from .test_environment import *  # noqa: F403 - as above

# Processes left behind by a job become another job: there is no choice (tests/test_jobs.py).
del test_processes_left_behind_are_named_and_stopped_or_kept  # noqa: F821 - from there
del test_kept_process_can_go_on_printing, test_process_in_another_session_that_holds_output_is_left_behind  # noqa: F821 - from there
del test_a_wrong_argument_is_refused  # noqa: F821 - from there
# A job has observers instead, and its output can be read at any time.
del test_listener_gets_every_piece_and_is_awaited  # noqa: F821 - from there
del test_processes_left_behind_are_named_after_a_timeout_of_held_output  # noqa: F821 - from there
del test_exception_of_a_listener_ends_the_command_and_propagates  # noqa: F821 - from there
# Cancelling a wait for a job does not affect the job.
del test_cancelling_raises_after_the_tree_is_gone, test_a_second_cancel_skips_the_grace  # noqa: F821 - from there
del test_a_cancel_scope_around_a_run_waits_for_the_tree  # noqa: F821 - from there

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from anyshell import Outcome

    from .ssh_server import Server


class InJobs:
    """An environment that runs every command as a job, and waits for the job."""

    def __init__(self, env: Environment) -> None:
        self._env = env

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)

    async def run(self, command: str, *, stdin: Any = None, **how: Any) -> Outcome:
        """Run a command as a job; a cancellation stops the job."""
        job = await self._env.start(command, stdin=b"" if stdin is None else stdin, **how)
        try:
            outcome = await job.wait()
        except asyncio.CancelledError:
            await job.stop()
            raise
        assert outcome is not None
        return outcome


@pytest.fixture(params=["local", "openssh as a user"])
async def env(
    request: pytest.FixtureRequest, ssh_host: Callable[[str], Server], tmp_path: Path, anyio_backend: str
) -> AsyncIterator[InJobs]:
    host = "local" if request.param == "local" else ssh_host(request.param).options(max_connections=3)
    open_to_all(tmp_path)
    async with Environment.detect(host, cwd=tmp_path, max_jobs=600) as environment:
        yield InJobs(environment)
