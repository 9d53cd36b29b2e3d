"""An environment as a sandbox of Strands Agents: called by agents with a scripted model, and by the tools of the framework."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from anyshell import AnyshellError, InvalidCommand

from .conftest import framework
from .processes import living, unique_seconds, wait_asleep

framework("strands", apart=True)
from strands import Agent, SandboxPathNotFoundError, SandboxTimeoutError
from strands.models import Model
from strands.sandbox import ExecutionResult, FileInfo, StreamChunk

from anyshell.adapters import bridge
from anyshell.adapters.strands import Sandbox

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from anyshell import Environment

pytestmark = pytest.mark.anyio


class Scripted(Model):
    """Makes the calls in order, each after the answer to the previous call."""

    def __init__(self, *calls: tuple[str, dict[str, Any]]) -> None:
        self._calls = calls

    def update_config(self, **model_config: Any) -> None:
        raise NotImplementedError

    def get_config(self) -> Any:
        return {}

    def structured_output(self, *args: Any, **named: Any) -> Any:
        raise NotImplementedError

    async def stream(self, messages: Any, *args: Any, **named: Any) -> AsyncGenerator[Any, None]:
        done = sum("toolResult" in part for message in messages for part in message["content"])
        yield {"messageStart": {"role": "assistant"}}
        for name, given in self._calls[done : done + 1]:
            yield {
                "contentBlockStart": {"start": {"toolUse": {"name": name, "toolUseId": f"c{done}"}}},
            }
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(given)}}}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if done < len(self._calls) else "end_turn"}}


def results(agent: Agent) -> list[tuple[str, str]]:
    """The status and the text of each tool result."""
    found = [
        part["toolResult"] for each in agent.messages for part in each["content"] if "toolResult" in part
    ]
    return [(each["status"], each["content"][0]["text"]) for each in found]


def agent_in(env: Environment, *calls: tuple[str, dict[str, Any]], **named: Any) -> Agent:
    return Agent(model=Scripted(*calls), sandbox=Sandbox(env, **named), callback_handler=None)


async def begun(env: Environment) -> None:
    while not await env.files.exists("begun"):
        await asyncio.sleep(0.02)


async def test_agent_works_in_the_environment(env: Environment) -> None:
    path = f"{env.directory}/a/b.txt"
    agent = agent_in(
        env,
        ("sandbox_shell", {"command": "echo out; echo err >&2; exit 3"}),
        ("sandbox_file_editor", {"command": "create", "path": path, "file_text": "one\n"}),
        (
            "sandbox_file_editor",
            {"command": "str_replace", "path": path, "old_str": "one", "new_str": "two"},
        ),
        ("sandbox_file_editor", {"command": "view", "path": f"{env.directory}/a"}),
        ("sandbox_shell", {"command": "true", "timeout": 0}),
    )
    await agent.invoke_async("go")
    ran, made, replaced, listed, refused = results(agent)
    assert ran == ("success", '{"output": "out\\n", "error": "err\\n", "exit_code": 3}')
    assert (made[0], replaced[0]) == ("success", "success")
    assert await env.files.read("a/b.txt") == b"two\n"
    assert "b.txt" in listed[1]
    assert refused[0] == "error"
    assert "timeout" in refused[1]


async def test_agent_is_called_in_another_thread(env: Environment) -> None:
    """The framework's blocking call has an event loop of its own."""
    calls = ("sandbox_shell", {"command": "echo hello > f; sleep 8 & cat f"})
    agent = agent_in(env, calls)
    await asyncio.to_thread(agent, "go")
    assert results(agent) == [("success", '{"output": "hello\\n", "error": "", "exit_code": 0}')]


async def test_call_that_blocks_the_event_loop_is_refused(
    env: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bridge, "BEGIN_SECONDS", 0.1)
    agent = agent_in(env, ("sandbox_shell", {"command": "touch f"}))
    agent("go")
    [(status, text)] = results(agent)
    assert status == "error"
    assert "nothing ran" in text
    assert await env.files.list() == []


async def test_background_child_goes_on_until_the_environment_is_closed(env: Environment) -> None:
    seconds = unique_seconds()
    result = await Sandbox(env).execute(f"sleep {seconds} & echo started")
    assert (result.exit_code, result.stdout) == (0, "started\n")
    assert living(seconds)
    await env.aclose()
    assert not living(seconds)


async def test_timeout_stops_the_tree_and_keeps_the_output(env: Environment) -> None:
    seconds = unique_seconds()
    command = f"echo out; echo err >&2; sleep {seconds} & wait"
    with pytest.raises(SandboxTimeoutError, match="timed out after 1 seconds") as caught:
        await Sandbox(env).execute(command, timeout=1)
    assert (caught.value.stdout, caught.value.stderr) == ("out\n", "err\n")
    agent = agent_in(env, ("sandbox_shell", {"command": command, "timeout": 1}))
    await agent.invoke_async("go")
    [(status, text)] = results(agent)
    assert (status, '"output": "out\\n"' in text) == ("error", True)
    assert not living(seconds)


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_cancelled_command_is_stopped(env: Environment, elsewhere: bool) -> None:
    """The cancellation is raised when the tree is gone, also from another event loop."""
    seconds = unique_seconds()
    sandbox = Sandbox(env)

    async def cancel(see: Callable[[], Awaitable[None]]) -> None:
        running = asyncio.ensure_future(sandbox.execute(f"echo > begun; sleep {seconds}"))
        await see()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert not living(seconds)

    async def seen() -> None:
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(begun(env), loop))

    loop = asyncio.get_running_loop()
    if elsewhere:
        await asyncio.to_thread(lambda: asyncio.run(cancel(seen)))
    else:
        await cancel(lambda: begun(env))


async def test_output_is_streamed_until_the_stream_is_closed(env: Environment) -> None:
    seconds = unique_seconds()
    stream = Sandbox(env).execute_streaming(
        f"printf 'one \\303'; sleep 0.2; printf '\\251\\303'; sleep {seconds}"
    )
    texts: list[str] = []
    async for piece in stream:
        assert isinstance(piece, StreamChunk)
        texts.append(piece.data)
        if "é" in piece.data:
            break
    assert "".join(texts) == "one é"
    await asyncio.to_thread(wait_asleep, seconds)
    await stream.aclose()
    assert not living(seconds)
    pieces = [each async for each in Sandbox(env).execute_streaming("printf 'x\\303'; echo err >&2")]
    assert pieces[-1] == ExecutionResult(0, "x\ufffd", "err\n")
    shown = [each for each in pieces if isinstance(each, StreamChunk) and each.stream_type == "stdout"]
    assert "".join(each.data for each in shown) == "x\ufffd"


async def test_oversized_output_is_an_error_that_names_the_artifact(env: Environment) -> None:
    agent = agent_in(env, ("sandbox_shell", {"command": "exec yes"}), max_output=100_000)
    await agent.invoke_async("go")
    [(status, text)] = results(agent)
    assert status == "error"
    assert "it printed more than 100000 bytes; it is kept in " in text


async def test_code_is_run_by_its_language(env: Environment) -> None:
    sandbox = Sandbox(env)
    code = "import os\nprint(os.environ['A'], os.getcwd(), '`$A')"
    result = await sandbox.execute_code(code, "python3", cwd="/", env={"A": "b c"})
    assert result == ExecutionResult(0, "b c / `$A\n", "")
    assert (await sandbox.execute_code("", "no-such-language")).exit_code == 127
    with pytest.raises(ValueError, match="language"):
        await sandbox.execute_code("", "sh -c")
    with pytest.raises(ValueError, match="variable"):
        await sandbox.execute("true", env={"A B": ""})
    with pytest.raises(InvalidCommand, match="directory"):
        await sandbox.execute("true", cwd="none")
    await env.aclose()
    with pytest.raises(AnyshellError, match="closed"):
        await sandbox.execute("true")


async def test_files_are_transferred_and_failures_reported(env: Environment) -> None:
    sandbox = Sandbox(env)
    await sandbox.write_file("new/a", b"\xff")
    await sandbox.execute("ln -s new link; mkdir empty")
    assert await sandbox.read_file("new/a") == b"\xff"
    assert await sandbox.list_files(".") == [
        FileInfo("empty", is_dir=True),
        FileInfo("link", is_dir=True),
        FileInfo("new", is_dir=True),
    ]
    for path in ("none", "new/a"):
        with pytest.raises(SandboxPathNotFoundError):
            await sandbox.list_files(path)
    with pytest.raises(FileNotFoundError):
        await sandbox.read_file("none")
    with pytest.raises(FileNotFoundError):
        await sandbox.remove_file("none")
    for path in ("new", "empty"):
        with pytest.raises(IsADirectoryError):
            await sandbox.remove_file(path)
    with pytest.raises(IsADirectoryError):
        await sandbox.write_file("new", b"")
    await sandbox.remove_file("link")
    await sandbox.remove_file("new/a")
    assert await sandbox.list_files("new") == []
