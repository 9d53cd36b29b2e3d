"""What holds for a command in a fresh shell holds for one in a session: the same tests, over sessions."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from anyshell import Environment

from .conftest import open_to_all

assert sys.platform != "win32"  # mypy follows what is below otherwise

from .test_endings import *  # noqa: F403 - the tests themselves
from .test_environment import *  # noqa: F403 - as above

# A tag is set by the shell itself here; and a session's shell is interrupted, and not asked to end, when its command is
# stopped: a trap that the command has set for that is not run.
del test_a_tag_that_comes_late_is_passed_on  # noqa: F821 - from there
del test_a_program_that_heeds_the_request_ends_within_its_grace_with_its_last_words  # noqa: F821 - from there
# These take half a minute with a session for each command; tests/test_session.py has its own.
del test_nothing_piles_up_over_timeouts_and_cancels, test_nothing_piles_up_over_normal_runs  # noqa: F821 - from there

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from anyshell import Outcome

    from .ssh_server import Server


class InSessions:
    """An environment of which every command runs in a session of its own."""

    def __init__(self, env: Environment) -> None:
        self._env = env

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)

    async def run(self, command: str, **how: Any) -> Outcome:
        """Run a command in a new session."""
        async with self._env.session() as session:
            await session.run("true", timeout=20)  # it is not the shell's first
            return await session.run(command, **how)


@pytest.fixture(params=["local", "openssh as a user"])
async def env(
    request: pytest.FixtureRequest, ssh_host: Callable[[str], Server], tmp_path: Path, anyio_backend: str
) -> AsyncIterator[InSessions]:
    host = "local" if request.param == "local" else ssh_host(request.param).options(max_connections=3)
    open_to_all(tmp_path)
    async with Environment.detect(host, cwd=tmp_path) as environment:
        yield InSessions(environment)
