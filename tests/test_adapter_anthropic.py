"""The shell tool for Anthropic's SDK. The SDK's own tool runner calls the tool, and a scripted server answers."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from anyshell import AnyshellError, OutputLimits, ShellTool, ToolLimits, approve_all, deny_all

from .conftest import framework
from .processes import living, unique_seconds

framework("anthropic")
from anthropic import AsyncAnthropic, DefaultAsyncHttpxClient
from anthropic.lib.tools import ToolError

from anyshell.adapters import anthropic

if TYPE_CHECKING:
    from anyshell import Environment

pytestmark = pytest.mark.anyio


async def told(tool: anthropic.Runnable, *calls: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the tool as the model sees it, followed by the result of each call."""
    httpx = pytest.importorskip(DefaultAsyncHttpxClient.__mro__[1].__module__.partition(".")[0])
    asked: list[Any] = []

    def answer(request: Any) -> Any:
        asked.append(json.loads(request.content))
        count = len(asked) - 1
        use = [{"type": "tool_use", "id": f"c{count}", "name": tool.name, "input": each} for each in calls]
        content = use[count : count + 1] or [{"type": "text", "text": "done"}]
        return httpx.Response(
            200,
            json={
                "id": "m",
                "type": "message",
                "role": "assistant",
                "model": "m",
                "content": content,
                "stop_reason": "end_turn" if count >= len(calls) else "tool_use",
                "stop_sequence": None,
                "usage": {"input_tokens": 1, "output_tokens": 1},
            },
        )

    http = DefaultAsyncHttpxClient(transport=httpx.MockTransport(answer))
    async with AsyncAnthropic(api_key="none", http_client=http) as client:
        runner = client.beta.messages.tool_runner(
            max_tokens=100, model="m", tools=[tool], messages=[{"role": "user", "content": "go"}]
        )
        await runner.until_done()
    return [*asked[0]["tools"], *(each["messages"][-1]["content"][0] for each in asked[1:])]


async def test_bash_keeps_its_shell_until_restarted(env: Environment) -> None:
    bash = anthropic.Bash(env, approver=approve_all)
    calls: list[dict[str, Any]] = [
        {"command": "cd /; x=1; pwd"},
        {"command": "pwd; exit $x"},
        {"restart": True},
        {"command": "pwd"},
    ]
    tool, first, second, third, last = await told(bash, *calls)
    assert tool == {"type": "bash_20250124", "name": "bash"}
    assert first["content"].startswith("/\n")
    assert not first.get("is_error")
    assert second["is_error"]
    assert second["content"].startswith("/\n")
    assert "Exit code 1" in second["content"]
    assert not third.get("is_error")
    assert last["content"].startswith(f"{env.directory}\n")
    await bash.aclose()
    with pytest.raises(ToolError, match="closed"):
        await bash.call({"command": "true"})


async def test_bash_runs_the_next_command_after_a_timeout(env: Environment) -> None:
    seconds = unique_seconds()
    bash = anthropic.Bash(env, approver=approve_all, limits=ToolLimits(default_timeout=1, max_timeout=60))
    _, first, second = await told(bash, {"command": f"sleep {seconds} & wait"}, {"command": "echo on"})
    assert first["is_error"]
    assert second["content"].startswith("on\n")
    assert not living(seconds)


async def test_bash_stops_processes_left_behind(env: Environment) -> None:
    seconds = unique_seconds()
    bash = anthropic.Bash(env, approver=approve_all)
    _, only = await told(bash, {"command": f"sleep {seconds} & echo started"})
    assert only["content"].startswith("started\n")
    assert "Stopped when the call ended: sleep" in only["content"]
    assert not living(seconds)


async def test_cancelled_call_stops_the_tree(env: Environment) -> None:
    seconds = unique_seconds()
    for runnable in (
        anthropic.Bash(env, approver=approve_all),
        anthropic.tool(ShellTool(env, approver=approve_all)),
    ):
        task = asyncio.ensure_future(told(runnable, {"command": f"echo > begun; sleep {seconds}"}))
        while not await env.files.exists("begun"):
            await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not living(seconds)
        await env.files.remove("begun")


async def test_bash_asks_its_approver(env: Environment) -> None:
    _, only = await told(anthropic.Bash(env, approver=deny_all), {"command": "touch f"})
    assert only["is_error"]
    assert await env.files.list() == []


async def test_bash_needs_an_entered_environment() -> None:
    from anyshell import Environment

    env = await Environment.detect()
    with pytest.raises(AnyshellError, match="async with"):
        anthropic.Bash(env, approver=approve_all)
    await env.aclose()


async def test_tool_has_its_own_definition_and_names_the_artifact(env: Environment) -> None:
    async with type(env).detect(env.runner.backend, limits=OutputLimits(budget=200)) as small:
        shell = ShellTool(small, approver=approve_all)
        tool, only, wrong = await told(anthropic.tool(shell), {"command": "seq 1000"}, {"comand": "x"})
    assert tool == shell.definition.as_format("anthropic")
    assert "Whole output" in only["content"]
    assert wrong["is_error"]
    assert 'there is no "comand"' in wrong["content"]
