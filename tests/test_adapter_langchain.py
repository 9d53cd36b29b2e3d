"""The shell tool as a tool of LangChain, and an environment as a sandbox of Deep Agents, called by these frameworks."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from anyshell import AnyshellError, OutputLimits, ShellTool, approve_all, deny_all
from anyshell.tool import ShellResult

from .conftest import framework
from .processes import living, unique_seconds

framework("deepagents")
from deepagents import create_deep_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from anyshell.adapters import langchain, whole
from anyshell.adapters.deepagents import Backend

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anyshell import Environment

pytestmark = pytest.mark.anyio


class Scripted(BaseChatModel):
    """Makes the calls in order, each after the answer to the previous call."""

    calls: list[tuple[str, dict[str, Any]]]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **named: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **named: Any) -> ChatResult:
        done = sum(isinstance(message, ToolMessage) for message in messages)
        asked = [
            {"name": name, "args": given, "id": f"c{done}"} for name, given in self.calls[done : done + 1]
        ]
        return ChatResult(
            generations=[ChatGeneration(message=AIMessage("" if asked else "done", tool_calls=asked))]
        )


def call(tool: Any, **params: Any) -> dict[str, Any]:
    return {"type": "tool_call", "id": "c1", "name": tool.name, "args": params}


async def test_tool_returns_text_status_and_details(env: Environment) -> None:
    tool = langchain.tool(ShellTool(env, approver=approve_all))
    assert set(tool.args) >= {"command", "timeout"}
    good = await tool.ainvoke(call(tool, command="echo hello"))
    assert (good.content, good.status) == ("hello\n\n[anyshell] Exit code 0.", "success")
    bad = await tool.ainvoke(call(tool, command="exit 3"))
    assert bad.status == "error"
    assert isinstance(bad.artifact, ShellResult)
    assert bad.artifact.details.exit_code == 3
    wrong = await tool.ainvoke(call(tool, comand="echo"))
    assert (wrong.status, wrong.artifact.details.status) == ("error", "invalid")
    assert 'there is no "comand"' in wrong.content


async def test_tool_asks_its_approver(env: Environment) -> None:
    tool = langchain.tool(ShellTool(env, approver=deny_all))
    message = await tool.ainvoke(call(tool, command="touch f"))
    assert (message.status, message.artifact.details.status) == ("error", "refused")
    assert await env.files.list() == []


async def test_timeout_and_cancellation_stop_the_tree(env: Environment) -> None:
    seconds = unique_seconds()
    tool = langchain.tool(ShellTool(env, approver=approve_all))
    message = await tool.ainvoke(call(tool, command=f"sleep {seconds} & wait", timeout=1))
    assert message.artifact.details.status == "timed_out"
    assert not living(seconds)
    task = asyncio.ensure_future(tool.ainvoke(call(tool, command=f"echo > begun; sleep {seconds}")))
    while not await env.files.exists("begun"):
        await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not living(seconds)


async def test_tool_stops_processes_left_behind(env: Environment) -> None:
    seconds = unique_seconds()
    tool = langchain.tool(ShellTool(env, approver=approve_all))
    message = await tool.ainvoke(call(tool, command=f"sleep {seconds} & echo started"))
    assert message.content.startswith("started\n")
    assert [left.alive for left in message.artifact.details.left_behind] == [False]
    assert not living(seconds)


async def test_tool_keeps_its_session(env: Environment) -> None:
    shell = ShellTool(env, approver=approve_all, session=True)
    tool = langchain.tool(shell)
    await tool.ainvoke(call(tool, command="cd /; x=1"))
    message = await tool.ainvoke(call(tool, command='echo "$PWD $x"'))
    assert message.content.startswith("/ 1\n")
    await shell.aclose()


async def test_parameter_named_self_is_refused(env: Environment) -> None:
    tool = langchain.tool(ShellTool(env, approver=approve_all))
    wrong = call(tool, command="echo", self="x")
    for message in (await tool.ainvoke(wrong), await asyncio.to_thread(tool.invoke, wrong)):
        assert (message.status, message.artifact.details.status) == ("error", "invalid")


async def test_tool_names_the_artifact(env: Environment) -> None:
    async with type(env).detect(env.runner.backend, limits=OutputLimits(budget=200)) as small:
        tool = langchain.tool(ShellTool(small, approver=approve_all))
        message = await tool.ainvoke(call(tool, command="seq 1000"))
    assert "Whole output" in message.content
    assert message.artifact.details.artifact is not None


async def test_blocking_call_needs_another_thread(env: Environment) -> None:
    tool = langchain.tool(ShellTool(env, approver=approve_all))
    message = await asyncio.to_thread(tool.invoke, call(tool, command="exit 3"))
    assert (message.status, message.artifact.details.exit_code) == ("error", 3)
    with pytest.raises(AnyshellError, match="async methods"):
        tool.invoke(call(tool, command="exit 3"))


async def test_deep_agent_works_in_the_environment(env: Environment) -> None:
    model = Scripted(
        calls=[
            ("execute", {"command": "echo hello > greeting; exit 3"}),
            ("read_file", {"file_path": f"{env.directory}/greeting"}),
            ("write_file", {"file_path": f"{env.directory}/a/b.txt", "content": "one\n"}),
            (
                "edit_file",
                {"file_path": f"{env.directory}/a/b.txt", "old_string": "one", "new_string": "two"},
            ),
        ]
    )
    agent = create_deep_agent(model=model, backend=Backend(env))
    answer = await agent.ainvoke({"messages": [{"role": "user", "content": "go"}]})
    executed, read, *_ = [message for message in answer["messages"] if isinstance(message, ToolMessage)]
    assert executed.artifact["exit_code"] == 3
    assert "hello" in read.content
    assert await env.files.read("a/b.txt") == b"two\n"


async def test_sandbox_reports_failures(env: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = unique_seconds()
    backend = Backend(env)
    late = await backend.aexecute(f"echo out; sleep {seconds} & wait", timeout=1)
    assert (late.exit_code, late.output) == (124, "out\n\n[anyshell] The command was stopped after 1 s.")
    assert not living(seconds)
    monkeypatch.setattr(whole, "MAX_OUTPUT", 100_000)
    much = await backend.aexecute("exec yes")
    assert much.truncated
    assert "it is kept in" in much.output
    await env.aclose()
    assert (await backend.aexecute("true")).output.startswith("[anyshell] nothing ran: ")


async def test_sandbox_transfers_files_and_reports_failures(env: Environment) -> None:
    backend = Backend(env)
    up = await asyncio.to_thread(backend.upload_files, [("new/a", b"\xff"), ("", b""), ("new", b"")])
    assert [each.error for each in up] == [None, "invalid_path", "is_directory"]
    down = await asyncio.to_thread(backend.download_files, ["new/a", "none", "new"])
    assert [each.content for each in down] == [b"\xff", None, None]
    assert [each.error for each in down] == [None, "file_not_found", "is_directory"]
    assert backend.id == f"{env.host}:{env.directory}"
    assert (await asyncio.to_thread(backend.execute, "exit 5")).exit_code == 5
