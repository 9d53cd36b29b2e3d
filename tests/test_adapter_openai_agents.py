"""The shell tool and a sandbox for the OpenAI Agents SDK, called by the SDK's runner with a scripted model."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from anyshell import Approved, OutputLimits, ShellTool, approve_all, deny_all

from .conftest import framework
from .processes import living, unique_seconds

framework("agents")
from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage
from agents.run_config import SandboxRunConfig
from agents.sandbox import SandboxAgent
from agents.sandbox.capabilities import Shell
from agents.sandbox.errors import (
    ExecTimeoutError,
    ExecTransportError,
    WorkspaceArchiveReadError,
    WorkspaceArchiveWriteError,
    WorkspaceReadNotFoundError,
)
from openai.types.responses import (
    FunctionToolParam,
    ResponseFunctionShellToolCall,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)
from openai.types.responses.response_function_shell_tool_call import Action
from pydantic import TypeAdapter

from anyshell.adapters import whole
from anyshell.adapters.openai_agents import Sandbox, shell_tool

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from anyshell import Environment

pytestmark = pytest.mark.anyio


class Scripted(Model):
    """Asks for one call, and keeps the result of the call."""

    def __init__(self, call: Any) -> None:
        self.call = call
        self.told: dict[str, Any] = {}

    async def get_response(self, *args: Any, **named: Any) -> ModelResponse:
        outputs = [item for item in named["input"] if isinstance(item, dict) and "output" in item]
        text = ResponseOutputText(text="done", type="output_text", annotations=[])
        answer: Any = ResponseOutputMessage(
            id="m", content=[text], role="assistant", status="completed", type="message"
        )
        if outputs:
            self.told = dict(outputs[0])
        return ModelResponse([answer if outputs else self.call], Usage(), None)

    def stream_response(self, *args: Any, **named: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


async def told(tool: ShellTool, *commands: str, **action: Any) -> list[Any]:
    """The result of a call of the tool ``shell``, as the model gets it."""
    call = ResponseFunctionShellToolCall(
        id="i",
        call_id="c1",
        status="completed",
        type="shell_call",
        action=Action(commands=list(commands), **{"max_output_length": None, "timeout_ms": None, **action}),
    )
    model = Scripted(call)
    agent = Agent("a", model=model, tools=[shell_tool(tool)])
    await Runner.run(agent, "go", run_config=RunConfig(tracing_disabled=True))
    output: list[Any] = model.told["output"]
    return output


async def test_commands_run_in_order(env: Environment) -> None:
    tool = ShellTool(env, approver=approve_all)
    first, second = await told(tool, "echo one > f; exit 3", "cat f", timeout_ms=20_000)
    assert first["outcome"] == {"type": "exit", "exit_code": 3}
    assert first["stdout"].endswith("[anyshell] Exit code 3.")
    assert second["outcome"] == {"type": "exit", "exit_code": 0}
    assert second["stdout"] == "one\n\n[anyshell] Exit code 0."


async def test_timeout_has_the_sdk_outcome_and_ends_the_call(env: Environment) -> None:
    seconds = unique_seconds()
    tool = ShellTool(env, approver=approve_all)
    (only,) = await told(tool, f"echo out; sleep {seconds} & wait", "echo never", timeout_ms=1_000)
    assert only["outcome"] == {"type": "timeout"}
    assert only["stdout"].startswith("out\n")
    assert not living(seconds)


async def test_process_left_behind_is_stopped(env: Environment) -> None:
    seconds = unique_seconds()
    (only,) = await told(ShellTool(env, approver=approve_all), f"sleep {seconds} & echo started")
    assert only["stdout"].startswith("started\n")
    assert "Stopped when the call ended: sleep" in only["stdout"]
    assert not living(seconds)


async def test_commands_share_the_session_of_the_tool(env: Environment) -> None:
    tool = ShellTool(env, approver=approve_all, session=True)
    _, second = await told(tool, "cd /; x=1", 'echo "$PWD $x"')
    assert second["stdout"].startswith("/ 1\n")
    await tool.aclose()


async def test_refused_call_has_exit_code_126_and_runs_no_command(env: Environment) -> None:
    (only,) = await told(ShellTool(env, approver=deny_all), "touch f", "touch g")
    assert only["outcome"] == {"type": "exit", "exit_code": 126}
    assert "[anyshell] " in only["stdout"]
    assert await env.files.list() == []


async def test_truncation_names_the_artifact(env: Environment) -> None:
    async with type(env).detect(env.runner.backend, limits=OutputLimits(budget=200)) as small:
        (only,) = await told(ShellTool(small, approver=approve_all), "seq 1000")
    assert "Whole output" in only["stdout"]
    assert len(only["stdout"]) < 1_000


@pytest.mark.parametrize("room", [10, 120, 400])
async def test_texts_over_the_common_limit_keep_their_ends(env: Environment, room: int) -> None:
    tool = ShellTool(env, approver=approve_all)
    first, second = await told(tool, "seq 1000", "seq 1000; echo cause", max_output_length=room)
    assert len(first["stdout"]) == room // 2
    assert len(second["stdout"]) == room - room // 2
    assert first["stdout"].endswith("Exit code 0."[-(room // 2) :])
    if room == 400:
        assert first["stdout"].startswith("1\n2\n")
        assert "max_output_length" in first["stdout"]
        assert "cause\n" in second["stdout"]


async def test_short_text_leaves_room_to_the_next_text(env: Environment) -> None:
    first, second = await told(ShellTool(env, approver=approve_all), "echo", "seq 20", max_output_length=120)
    assert "left out" not in first["stdout"] + second["stdout"]


async def test_cancelled_call_is_no_success(env: Environment) -> None:
    async def cancel(request: object) -> Approved:
        tool.cancel("c1")
        return Approved()

    tool = ShellTool(env, approver=cancel)
    (only,) = await told(tool, "echo never")
    assert only["outcome"]["exit_code"] == 126


async def test_sandbox_agent_works_in_the_environment(env: Environment) -> None:
    arguments = json.dumps({"cmd": "pwd; echo hello > out; exit 4"})
    call = ResponseFunctionToolCall(
        arguments=arguments, call_id="c1", name="exec_command", type="function_call"
    )
    model = Scripted(call)
    agent = SandboxAgent("a", model=model, capabilities=[Shell()])
    sandbox = SandboxRunConfig(session=Sandbox(env))
    await Runner.run(agent, "go", run_config=RunConfig(sandbox=sandbox, tracing_disabled=True))
    assert "Process exited with code 4" in model.told["output"]
    assert env.directory in model.told["output"]
    assert await env.files.read("out") == b"hello\n"


async def test_sandbox_returns_bytes_and_the_output_of_a_timeout(env: Environment) -> None:
    sandbox = Sandbox(env)
    result = await sandbox.exec("printf '\\377'; echo err >&2; exit 2")
    assert (result.stdout, result.stderr, result.exit_code) == (b"\xff", b"err\n", 2)
    seconds = unique_seconds()
    with pytest.raises(ExecTimeoutError) as caught:
        await sandbox.exec(f"echo out; sleep {seconds} & wait", timeout=0.5)
    assert caught.value.context["stdout"] == b"out\n"
    assert not living(seconds)
    assert await sandbox.running()
    await env.aclose()
    assert not await sandbox.running()
    with pytest.raises(ExecTransportError, match="closed"):
        await sandbox.exec("true")


async def test_sandbox_reports_oversized_output(env: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole, "MAX_OUTPUT", 100_000)
    with pytest.raises(ExecTransportError, match=r"printed more than .* kept in .*\.out"):
        await Sandbox(env).exec("exec yes")


async def test_sandbox_reads_and_writes_files(env: Environment) -> None:
    sandbox = Sandbox(env)
    await sandbox.write(Path("a/b.bin"), io.BytesIO(b"\x00\xff"))
    assert (await sandbox.read(Path("a/b.bin"))).read() == b"\x00\xff"
    assert [entry.path for entry in await sandbox.ls("a")] == [f"{env.directory}/a/b.bin"]
    with pytest.raises(WorkspaceReadNotFoundError):
        await sandbox.read(Path("none"))
    with pytest.raises(WorkspaceArchiveReadError):
        await sandbox.read(Path("a"))
    with pytest.raises(WorkspaceArchiveWriteError):
        await sandbox.write(Path("a"), io.BytesIO(b""))
    with pytest.raises(WorkspaceArchiveReadError):
        await sandbox.read(Path("nul\0"))
    with pytest.raises(WorkspaceArchiveWriteError):
        await sandbox.write(Path("nul\0"), io.BytesIO(b""))


async def test_sandbox_takes_no_snapshots(env: Environment) -> None:
    with pytest.raises(WorkspaceArchiveReadError):
        await Sandbox(env).persist_workspace()
    with pytest.raises(WorkspaceArchiveWriteError):
        await Sandbox(env).hydrate_workspace(io.BytesIO())


async def test_definition_is_valid_for_the_responses_api(env: Environment) -> None:
    definition = ShellTool(env, approver=approve_all).definition
    for strict in (False, True):
        told = definition.as_format("responses", strict=strict)
        assert TypeAdapter(FunctionToolParam).validate_python(told) == told
