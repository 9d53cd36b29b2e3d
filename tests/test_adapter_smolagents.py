"""The shell tool as a tool of smolagents, called by smolagents' own agents with a scripted model."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from anyshell import AnyshellError, OutputLimits, ShellTool, approve_all, deny_all

from .conftest import framework
from .processes import living, unique_seconds

framework("smolagents")
from smolagents import ActionStep, CodeAgent, LogLevel, Model, ToolCallingAgent
from smolagents.models import ChatMessage, ChatMessageToolCall, ChatMessageToolCallFunction, MessageRole

from anyshell.adapters import bridge, smolagents
from anyshell.adapters.smolagents import ShellError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anyshell import Environment

pytestmark = pytest.mark.anyio


class Scripted(Model):  # type: ignore[misc]  # smolagents has no types
    """Gives scripted answers in order: code, or the tool calls of one step."""

    def __init__(self, *steps: str | list[dict[str, Any]]) -> None:
        super().__init__(model_id="scripted")
        self._steps: Iterator[str | list[dict[str, Any]]] = iter(steps)

    def generate(self, *args: Any, **named: Any) -> ChatMessage:
        step = next(self._steps)
        if isinstance(step, str):
            return ChatMessage(role=MessageRole.ASSISTANT, content=f"<code>{step}</code>")
        calls = [
            ChatMessageToolCall(
                id=f"c{number}",
                type="function",
                function=ChatMessageToolCallFunction(
                    name="final_answer" if "answer" in given else "shell", arguments=given
                ),
            )
            for number, given in enumerate(step)
        ]
        return ChatMessage(role=MessageRole.ASSISTANT, content="", tool_calls=calls)


async def steps(agent: Any) -> list[ActionStep]:
    await asyncio.to_thread(agent.run, "go")
    return [each for each in agent.memory.steps if isinstance(each, ActionStep)]


def calling(tool: Any, *calls: list[dict[str, Any]]) -> Any:
    model = Scripted(*calls, [{"answer": "done"}])
    return ToolCallingAgent(tools=[tool], model=model, verbosity_level=LogLevel.OFF)


def coding(tool: Any, *code: str, **named: Any) -> Any:
    model = Scripted(*code, "final_answer('done')")
    return CodeAgent(tools=[tool], model=model, verbosity_level=LogLevel.OFF, **named)


async def test_agent_sees_output_and_errors(env: Environment) -> None:
    tool = smolagents.tool(ShellTool(env, approver=approve_all))
    good, bad, wrong, unknown, _ = await steps(
        calling(
            tool,
            [{"command": "echo hello", "timeout": 60}],
            [{"command": "echo out; exit 3"}],
            [{"command": "echo", "cwd": "none"}],
            [{"comand": "echo"}],
        )
    )
    assert (good.observations, good.error) == ("hello\n\n[anyshell] Exit code 0.", None)
    assert (bad.observations, bad.error) == ("out\n\n[anyshell] Exit code 3.", None)
    assert "ShellError: " in wrong.error.message
    assert "does not exist" in wrong.error.message
    assert "Argument comand is not in" in unknown.error.message


async def test_failed_command_keeps_results_of_parallel_calls(env: Environment) -> None:
    """Calls of one step run at once; smolagents drops all results when one raises."""
    tool = smolagents.tool(ShellTool(env, approver=approve_all))
    both, _ = await steps(calling(tool, [{"command": "exit 3"}, {"command": "echo done"}]))
    assert both.error is None
    assert (
        both.observations
        == "[anyshell] (no output)\n[anyshell] Exit code 3.\ndone\n\n[anyshell] Exit code 0."
    )


async def test_tool_keeps_its_session(env: Environment) -> None:
    shell = ShellTool(env, approver=approve_all, session=True)
    tool = smolagents.tool(shell)
    _, second, _ = await steps(calling(tool, [{"command": "cd /; x=1"}], [{"command": 'echo "$PWD $x"'}]))
    assert second.observations.startswith("/ 1\n")
    await shell.aclose()


async def test_code_agent_calls_the_tool(env: Environment) -> None:
    tool = smolagents.tool(ShellTool(env, approver=approve_all))
    done, printed, wrong, twice, _ = await steps(
        coding(
            tool,
            "print(shell('echo hello'), shell(command='pwd', cwd='/', timeout=None))",
            "print(shell({'command': 'seq 100000'}))",
            "shell('echo', cwd='none')",
            "shell('echo', command='echo')",
        )
    )
    assert "hello\n\n[anyshell] Exit code 0. /\n\n[anyshell] Exit code 0." in done.observations
    assert "[anyshell]" in printed.observations
    assert "Whole output" in printed.observations
    assert "does not exist" in wrong.error.message
    assert "multiple values for argument 'command'" in twice.error.message


async def test_tool_asks_its_approver(env: Environment) -> None:
    tool = smolagents.tool(ShellTool(env, approver=deny_all))
    with pytest.raises(ShellError) as caught:
        await asyncio.to_thread(tool, command="touch f")
    assert caught.value.result.details.status == "refused"
    assert await env.files.list() == []


async def test_timeout_stops_the_tree_and_background_child_is_allowed(env: Environment) -> None:
    seconds = unique_seconds()
    tool = smolagents.tool(ShellTool(env, approver=approve_all))
    late = await asyncio.to_thread(tool, command=f"echo out; sleep {seconds} & wait", timeout=1)
    assert late.startswith("out\n")
    assert "1 s" in late
    assert not living(seconds)
    assert "started\n" in await asyncio.to_thread(tool, command="sleep 8 & echo started")


async def test_tool_names_the_artifact(env: Environment) -> None:
    async with type(env).detect(env.runner.backend, limits=OutputLimits(budget=200)) as small:
        tool = smolagents.tool(ShellTool(small, approver=approve_all))
        assert "Whole output" in await asyncio.to_thread(tool, command="seq 1000")


async def test_call_that_blocks_the_event_loop_is_refused(
    env: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent blocks the event loop, directly or while its code runs in a thread."""
    monkeypatch.setattr(bridge, "BEGIN_SECONDS", 0.1)
    tool = smolagents.tool(ShellTool(env, approver=approve_all))
    with pytest.raises(AnyshellError, match="another thread"):
        tool(command="touch f")
    agent = coding(tool, "shell('touch f')")
    agent.run("go")
    [step, _] = [each for each in agent.memory.steps if isinstance(each, ActionStep)]
    assert "nothing ran: the event loop of the environment is blocked" in step.error.message
    assert await env.files.list() == []


async def test_long_call_needs_an_executor_without_a_timeout(env: Environment) -> None:
    """Code of an agent has 30 s by default, and results of its calls are lost after that; so the page turns the timeout off."""
    tool = smolagents.tool(ShellTool(env, approver=approve_all))
    code = "print(shell('sleep 1.5; echo done'))"
    lost, _ = await steps(coding(tool, code, executor_kwargs={"timeout_seconds": 1}))
    assert "maximum execution time" in lost.error.message
    told, _ = await steps(coding(tool, code, executor_kwargs={"timeout_seconds": None}))
    assert "done\n" in told.observations
