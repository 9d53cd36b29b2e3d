"""The contract of a command in a fresh shell also holds in a session: the same tests, over sessions."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from anyshell import Environment

from .conftest import open_to_all

assert sys.platform != "win32"  # on other systems mypy skips the code below

from .test_endings import *  # noqa: F403 - the tests themselves
from .test_environment import *  # noqa: F403 - as above

# In a session the shell itself sets the tag; and stopping a command interrupts the shell, without asking it to end,
# so that a trap of the command for SIGTERM does not run.
del test_late_tag_is_passed_on_to_children  # noqa: F821 - from there
del test_program_ends_by_its_own_trap_within_the_grace  # noqa: F821 - from there
# These tests take half a minute with a session for each command; tests/test_session.py has its own versions.
del test_timeouts_and_cancels_leak_no_resources, test_normal_runs_leak_no_resources  # noqa: F821 - from there

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from anyshell import Outcome

    from .ssh_server import Server


class InSessions:
    """An environment that runs every command in a new session."""

    def __init__(self, env: Environment) -> None:
        self._env = env

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)

    async def run(self, command: str, **how: Any) -> Outcome:
        """Run a command in a new session."""
        async with self._env.session() as session:
            await session.run("true", timeout=20)  # so that the command is not the first command of the shell
            return await session.run(command, **how)


@pytest.fixture(params=["local", "openssh as a user"])
async def env(
    request: pytest.FixtureRequest, ssh_host: Callable[[str], Server], tmp_path: Path, anyio_backend: str
) -> AsyncIterator[InSessions]:
    host = "local" if request.param == "local" else ssh_host(request.param).options(max_connections=3)
    open_to_all(tmp_path)
    async with Environment.detect(host, cwd=tmp_path) as environment:
        yield InSessions(environment)
