"""Environments as sandboxes of Inspect: Inspect's checks for providers, evaluations with a scripted model, and further tests."""

from __future__ import annotations

import asyncio
import os
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from anyshell import Environment, ShellNotFound

from .conftest import SSH_HOST, environment_on, framework, open_to_all
from .processes import living, unique_seconds
from .ssh_server import is_root

framework("inspect_ai", apart=True)
from inspect_ai import Task, eval_async
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessageTool, ModelOutput, ModelUsage, get_model
from inspect_ai.solver import basic_agent
from inspect_ai.tool import bash
from inspect_ai.util import (
    OutputLimitExceededError,
    SandboxEnvironment,
    SandboxEnvironmentSpec,
    SandboxUnavailableError,
    SandboxUserUnsupportedError,
)
from inspect_ai.util._sandbox import self_check
from inspect_ai.util._sandbox.limits import override_sandbox_output_limit

from anyshell.adapters import inspect_ai
from anyshell.adapters.inspect_ai import ExecTimeoutError, Host, Sandbox

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from anyshell._environment.detection import Detection

    from .ssh_server import Server

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings(
        "ignore:Unclosed <MemoryObject:ResourceWarning"
    ),  # a warning of Inspect itself, when an evaluation is cancelled
]

CHECKS = [name for name in self_check.__all__ if name != "test_exec_as_user"]
"""Inspect's checks, except the check that adds a user to this machine: Inspect's local provider has no other user either."""

NOT_AS_ROOT = {
    "test_read_file_not_allowed",
    "test_write_text_file_without_permissions",
    "test_write_binary_file_without_permissions",
}
"""Checks that fail for root, because root has every permission. Over SSH an ordinary user runs these checks."""


class Given(Host, frozen=True):
    """A host of the tests with an open connection."""

    def detect(self) -> Detection[Environment]:
        return Environment.detect(given[self.address])


given: dict[str | None, Any] = {}


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module", params=["local", *SSH_HOST])
async def host(
    request: pytest.FixtureRequest,
    ssh_host: Callable[[str], Server],
    tmp_path_factory: pytest.TempPathFactory,
    anyio_backend: str,
) -> AsyncIterator[Host]:
    async with environment_on(request.param, ssh_host, tmp_path_factory.mktemp("inspect")) as env:
        given[request.param] = env.runner.backend
        yield Given(address=request.param)


@pytest.fixture
async def sandbox_env(host: Host) -> AsyncIterator[Sandbox]:
    await Sandbox.task_init("startup", host)
    made = await Sandbox.sample_init("task", host, {})
    sandbox = made["default"].as_type(Sandbox)
    yield sandbox
    await Sandbox.sample_cleanup("task", host, made, interrupted=False)
    await Sandbox.task_cleanup("shutdown", host, cleanup=True)
    assert sandbox.env.closed


@pytest.mark.parametrize("name", CHECKS)
async def test_inspects_own_checks_pass(name: str, sandbox_env: Sandbox) -> None:
    if name in NOT_AS_ROOT and is_root() and sandbox_env.env.info.user == "root":
        pytest.skip("root may do everything")
    check: Callable[[SandboxEnvironment], Awaitable[None]] = getattr(self_check, name)
    await check(sandbox_env)


async def evaluate(host: Host, *commands: str, timeout: int | None = None) -> list[ChatMessageTool]:
    """Have a scripted model run commands by Inspect's own tool, and return the tool results."""
    calls = [ModelOutput.for_tool_call("mockllm/model", "bash", {"command": each}) for each in commands]
    end = ModelOutput.for_tool_call("mockllm/model", "submit", {"answer": "done"})
    task = Task(
        dataset=[Sample(input="go", target="done", files={"data/in.txt": "given"}, setup="echo set > up")],
        solver=basic_agent(tools=[bash(timeout=timeout)]),
        sandbox=SandboxEnvironmentSpec("anyshell", host),
    )
    for output in (*calls, end):
        output.usage = ModelUsage()  # Inspect otherwise counts tokens by a table from the network
    model = get_model("mockllm/model", custom_outputs=[*calls, end])
    [log] = await eval_async(task, model=model, log_samples=True, log_dir="logs")
    assert log.status == "success", log.error
    assert log.samples is not None
    found = [each for each in log.samples[0].messages if isinstance(each, ChatMessageTool)]
    assert found[-1].function == "submit"
    return found[:-1]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Change the current directory: Inspect keeps its logs in that of the process."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("INSPECT_DISPLAY", "none")


async def test_evaluation_runs_in_a_temporary_directory(host: Host) -> None:
    seconds = unique_seconds()
    where, read, left, failed = await evaluate(
        host,
        "pwd",
        "cat data/in.txt up; mkdir shut; touch shut/f; chmod 0 shut",
        f"nohup sleep {seconds} >/dev/null 2>&1 & echo started",
        "echo err >&2; exit 3",
    )
    assert read.text == "givenset\n"
    assert left.text == "started\n"
    assert (failed.text, failed.error) == ("err\n\n", None)
    assert "anyshell-" in where.text
    assert not os.path.exists(where.text.strip())
    assert not living(seconds)
    assert not inspect_ai._reached


async def test_timeout_result_has_the_output_so_far(host: Host) -> None:
    seconds = unique_seconds()
    [late] = await evaluate(host, f"echo out; sleep {seconds} & wait", timeout=1)
    assert late.error is not None
    assert (late.error.type, late.text) == ("timeout", "out\n")
    assert not living(seconds)


async def test_processes_are_stopped_when_an_evaluation_is_cancelled(host: Host, tmp_path: Path) -> None:
    seconds = unique_seconds()
    (tmp_path / "seen").mkdir()
    (tmp_path / "seen").chmod(0o777)
    tmp_path.chmod(0o777)
    running = asyncio.ensure_future(evaluate(host, f"touch {tmp_path}/seen/f; sleep {seconds}"))
    while not (tmp_path / "seen" / "f").exists():
        assert not running.done()
        await asyncio.sleep(0.02)
    running.cancel()
    await asyncio.wait([running])
    assert not living(seconds)
    assert not inspect_ai._reached


async def test_sample_without_cleanup_keeps_its_directory_and_no_process(host: Host) -> None:
    """The cleanup is off, as with ``--no-sandbox-cleanup``."""
    seconds = unique_seconds()
    await Sandbox.task_init("startup", host)
    await Sandbox.task_init("startup", host)
    made = await Sandbox.sample_init("task", host, {})
    sandbox = made["default"].as_type(Sandbox)
    await sandbox.exec(["sh", "-c", f"sleep {seconds} & echo > kept"])
    await Sandbox.task_cleanup("shutdown", host, cleanup=False)
    assert living(seconds)
    await Sandbox.task_cleanup("shutdown", host, cleanup=False)
    assert not living(seconds)
    assert os.path.isdir(sandbox.env.directory)
    shutil.rmtree(sandbox.env.directory)


async def test_failed_sample_start_leaves_no_directory(host: Host, tmp_path: Path) -> None:
    open_to_all(tmp_path)
    bad = host.model_copy(update={"shell": "/no/such/bash"})
    async with Environment.detect(given[host.address], cwd=tmp_path) as env:
        reached = inspect_ai._Reached(env, frozenset(), tasks=1)
        inspect_ai._reached[asyncio.get_running_loop(), bad] = reached
        before = await env.files.glob("anyshell-??????????", directory="/tmp")
        with pytest.raises(ShellNotFound):
            await Sandbox.sample_init("task", bad, {})
        after = await env.files.glob("anyshell-??????????", directory="/tmp")
        await Sandbox.task_cleanup("shutdown", bad, cleanup=True)
    assert set(after) <= set(before)


async def test_timeout_is_not_retried(sandbox_env: Sandbox) -> None:
    with pytest.raises(ExecTimeoutError, match="stopped after 1 s") as caught:
        await sandbox_env.exec(
            ["sh", "-c", "echo x >> f; echo err >&2; sleep 60"], timeout=1, timeout_retry=True
        )
    assert caught.value.truncated_output == "err\n"
    assert await sandbox_env.read_file("f") == "x\n"


async def test_oversized_output_stops_the_command_and_names_the_artifact(sandbox_env: Sandbox) -> None:
    with override_sandbox_output_limit(100_000, "exec"):
        with pytest.raises(OutputLimitExceededError) as caught:
            await sandbox_env.exec(["sh", "-c", "echo first; exec yes"])
        both = await sandbox_env.exec(["sh", "-c", "head -c 99000 /dev/zero; head -c 99000 /dev/zero >&2"])
    assert caught.value.truncated_output is not None
    assert caught.value.truncated_output.startswith("first\ny\n")
    assert "it is kept in " in caught.value.truncated_output[-300:]
    assert (len(both.stdout), len(both.stderr)) == (99_000, 99_000)


async def test_failures_have_distinct_exit_codes_and_exceptions(sandbox_env: Sandbox) -> None:
    missing = await sandbox_env.exec(["no-such-program"])
    assert (missing.success, missing.returncode) == (False, 127)
    assert (await sandbox_env.exec(["sh", "-c", "kill -9 $$"])).returncode == 137
    assert (await sandbox_env.exec(["sh", "-c", "exit 126"])).returncode == 126
    with pytest.raises(ValueError, match="embedded null byte"):
        await sandbox_env.exec(["echo", "a\0b"])
    with pytest.raises(FileNotFoundError, match="none"):
        await sandbox_env.exec(["true"], cwd="none")
    with pytest.raises(SandboxUserUnsupportedError, match="not 'other'"):
        await sandbox_env.exec(["true"], user="other")
    [own] = {(await sandbox_env.exec(["id", "-un"])).stdout.strip()}
    assert (await sandbox_env.exec(["id", "-un"], user=own)).stdout.strip() == own
    await sandbox_env.write_file("f", b"\xff")
    with pytest.raises(UnicodeDecodeError):
        await sandbox_env.read_file("f")
    await sandbox_env.env.aclose()
    with pytest.raises(SandboxUnavailableError, match="closed"):
        await sandbox_env.exec(["true"])


async def test_helper_of_inspect_keeps_its_server_in_the_sample(sandbox_env: Sandbox) -> None:
    await sandbox_env.write_file("inspect-sandbox-tools", "#!/bin/sh\necho $INSPECT_SANDBOX_TOOLS_DIR\n")
    helper = f"{sandbox_env.env.directory}/inspect-sandbox-tools"
    assert (await sandbox_env.exec(["chmod", "+x", helper])).success
    assert (await sandbox_env.exec([helper])).stdout == f"{sandbox_env.env.directory}/.sandbox-tools\n"
    assert (await sandbox_env.exec(["sh", "-c", "echo $INSPECT_SANDBOX_TOOLS_DIR"])).stdout == "\n"


async def test_host_configuration_is_restored_from_a_log() -> None:
    host = Host(address="ssh://ann@build.example")
    assert Sandbox.config_deserialize(host.model_dump()) == host
    with pytest.raises(TypeError, match="takes a Host"):
        await Sandbox.task_init("startup", "ssh://ann@build.example")
