"""An environment as a workspace of Pydantic AI: Pydantic AI's suite for backends, and further tests."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from anyshell import Environment

from .conftest import SSH_HOST, environment_on, framework, open_to_all
from .processes import living, unique_seconds

framework("pydantic_ai")
from pydantic_ai import Agent, RunContext
from pydantic_ai.models.test import TestModel
from pydantic_ai.workspaces import (
    WorkspaceOutputLimitError,
    WorkspaceTimeoutError,
    WorkspaceUnavailableError,
)
from pydantic_ai.workspaces.conformance import WorkspaceBackendSuite

from anyshell.adapters import whole
from anyshell.adapters.pydantic_ai import Workspace

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from pydantic_ai.workspaces import WorkspaceBackend, WorkspaceRef

    from .ssh_server import Server

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module", params=["local", *SSH_HOST])
async def far(
    request: pytest.FixtureRequest,
    ssh_host: Callable[[str], Server],
    tmp_path_factory: pytest.TempPathFactory,
    anyio_backend: str,
) -> AsyncIterator[Environment]:
    """One environment for the whole suite."""
    async with environment_on(request.param, ssh_host, tmp_path_factory.mktemp("workspace")) as env:
        yield env


class TestWorkspace(WorkspaceBackendSuite):
    """The suite of Pydantic AI, with nothing left out, here and over SSH."""

    @pytest.fixture
    def backend(self, far: Environment) -> WorkspaceBackend:
        return Workspace(far)

    @pytest.fixture
    async def fresh_backend(
        self, far: Environment, tmp_path: Path
    ) -> AsyncIterator[Callable[[], WorkspaceBackend]]:
        """Creates workspaces in a further directory, which a test may destroy."""
        open_to_all(tmp_path)
        async with Environment.detect(far.runner.backend, cwd=tmp_path) as env:
            yield lambda: Workspace(env)

    @pytest.fixture
    def attach_backend(
        self, far: Environment, fresh_backend: Callable[[], WorkspaceBackend], tmp_path: Path
    ) -> Callable[[WorkspaceRef], WorkspaceBackend]:
        def attach(ref: WorkspaceRef) -> WorkspaceBackend:
            return fresh_backend() if ref.id.endswith(str(tmp_path)) else Workspace(far)

        return attach

    @pytest.fixture
    def destroy_environment(self, tmp_path: Path) -> Callable[[WorkspaceBackend], Awaitable[None]]:
        async def destroy(backend: WorkspaceBackend) -> None:
            shutil.rmtree(tmp_path)

        return destroy


async def test_an_agent_works_in_the_environment(env: Environment) -> None:
    agent = Agent(TestModel())

    @agent.tool
    async def count(ctx: RunContext) -> str:
        await ctx.workspace.write_text("notes/a.txt", "one\ntwo\n")
        return (await ctx.workspace.run("wc -l < notes/a.txt", shell=True)).stdout.strip()

    workspace = Workspace(env)
    answer = await agent.run("How many lines?", workspace=workspace)
    assert answer.output == '{"count":"2"}'
    assert answer.response.workspace_ref == workspace.ref
    assert workspace.ref is not None
    assert workspace.ref.id == f"{env.host}:{env.directory}"


async def test_timeout_stops_the_tree_and_keeps_the_output(env: Environment) -> None:
    seconds = unique_seconds()
    with pytest.raises(WorkspaceTimeoutError, match="stopped after") as caught:
        await Workspace(env).run(f"echo out; echo err >&2; sleep {seconds} & wait", shell=True, timeout=0.5)
    assert (caught.value.stdout, caught.value.stderr) == ("out\n", "err\n")
    assert not living(seconds)


async def test_oversized_output_is_an_error_with_its_beginning(
    env: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whole, "MAX_OUTPUT", 100_000)
    with pytest.raises(WorkspaceOutputLimitError, match=r"it is kept in (\S+)") as caught:
        await Workspace(env).run("echo first; exec yes", shell=True)
    assert caught.value.stdout.startswith("first\ny\n")
    assert str(caught.value).rpartition(" ")[2].endswith(".out")


async def test_closed_environment_is_unavailable(env: Environment) -> None:
    workspace = Workspace(env)
    await env.aclose()
    with pytest.raises(WorkspaceUnavailableError, match="is closed"):
        await workspace.run(["true"])


async def test_invalid_timeouts_are_refused(env: Environment) -> None:
    for timeout in (0, -1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="timeout must be"):
            await Workspace(env).run(["true"], timeout=timeout)


async def test_a_signal_is_an_exit_code(env: Environment) -> None:
    result = await Workspace(env).run("kill -9 $$", shell=True)
    assert result.exit_code == 137


async def test_a_pipe_is_not_written_to(env: Environment) -> None:
    workspace = Workspace(env)
    await workspace.run(["mkfifo", "pipe"])
    with pytest.raises(OSError, match="pipe"):
        await workspace.write_bytes(f"{env.directory}/pipe", b"data")
    assert (await workspace.run("test -p pipe", shell=True)).exit_code == 0


async def test_directory_of_the_workspace_is_never_removed(env: Environment) -> None:
    workspace = Workspace(env)
    await workspace.run("mkdir sub; ln -s . link; ln -s sub other", shell=True)
    here = await workspace.working_dir()
    for path in (
        ".",
        "./",
        "..",
        "sub/..",
        "sub/../",
        f"{here}/.",
        f"{here}//",
        "link/",
        "link/.",
        "/",
        "//",
    ):
        with pytest.raises(ValueError, match="not removed"):
            await workspace.remove(path)
    await workspace.remove("link")
    await workspace.remove("sub/")
    assert [entry.name for entry in await workspace.list_dir(".")] == ["other"]
