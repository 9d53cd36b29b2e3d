"""The MCP server with the client of the SDK, in both eras of the protocol."""

from __future__ import annotations

import asyncio
import base64
import json
import os
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

import pytest

from .conftest import framework

framework("mcp")
import mcp_types as types
from mcp import Client
from mcp.client._memory import InMemoryTransport
from mcp.server.subscriptions import ResourcesListChanged, ResourceUpdated
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from anyshell import Environment, Policy, ShellTool, deny_all
from anyshell.cli.process.descriptors import DescriptorReader, lines
from anyshell.mcp import approval, stdio
from anyshell.mcp.approval import ClientApprovals
from anyshell.mcp.resources import news
from anyshell.mcp.server import make
from anyshell.mcp.tools import ClientTools

from .cli_program import is_alive, wait_until
from .conftest import SSH_HOST, environment_on
from .processes import living, unique_seconds

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from mcp.client.session import ClientRequestContext
    from mcp.server.lowlevel import Server

    from anyshell import Job

    from .ssh_server import Server as Far

pytestmark = pytest.mark.anyio

ERAS = ("legacy", "2026-07-28")
YES, AGAIN, NO = ({"decision": each} for each in ("yes, this once", "yes, and the same again", "no"))


@pytest.fixture
async def env(tmp_path: Path, anyio_backend: str) -> AsyncIterator[Environment]:
    async with Environment.detect(cwd=tmp_path) as environment:
        yield environment


def server_of(env: Environment, **features: bool) -> Server[Any]:
    return make(ClientTools(env, ClientApprovals(), **features))


def served(env: Environment, **features: bool) -> InMemoryTransport:
    return InMemoryTransport(server_of(env, **features))


@dataclass
class User:
    """The user, whom the client asks."""

    content: dict[str, Any] | None = field(default_factory=lambda: dict(YES))
    action: Any = "accept"
    asked: list[str] = field(default_factory=list)

    async def __call__(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult:
        self.asked.append(params.message)
        return types.ElicitResult(action=self.action, content=self.content)


def printed(result: types.CallToolResult) -> str:
    [content] = result.content
    assert isinstance(content, types.TextContent)
    return content.text


# --- tools ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ERAS)
async def test_listed_tools_match_their_definitions(env: Environment, mode: str) -> None:
    tool = ShellTool(env, approver=deny_all, jobs=True)
    async with Client(served(env, jobs=True), mode=mode) as client:
        listed = (await client.list_tools()).tools
    for shown, definition in zip(listed, (tool.definition, tool.job_tool.definition), strict=True):
        expected = definition.as_format("mcp")
        assert (shown.name, shown.description) == (expected["name"], expected["description"])
        assert shown.input_schema == expected["inputSchema"]
        assert shown.annotations is not None
        assert shown.annotations.destructive_hint is True
        assert shown.annotations.read_only_hint is False


@pytest.mark.parametrize("revision", HANDSHAKE_PROTOCOL_VERSIONS)
async def test_each_revision_by_handshake_calls_a_tool(
    revision: str, tmp_path: Path, anyio_backend: str
) -> None:
    async with (
        Environment.detect(cwd=tmp_path, policy=Policy.preset("workspace")) as env,
        served(env) as (read, write),
    ):

        async def send(method: str, params: dict[str, Any], number: int | None = None) -> dict[str, Any]:
            text = {"jsonrpc": "2.0", "method": method, "params": params} | ({"id": number} if number else {})
            await write.send(
                SessionMessage(types.jsonrpc_message_adapter.validate_json(json.dumps(text), by_name=False))
            )
            if number is None:
                return {}
            answer = await read.receive()
            assert isinstance(answer, SessionMessage)
            return answer.message.model_dump(by_alias=True, exclude_unset=True)

        info = {"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        hello = await send("initialize", info, 1)
        assert hello["result"]["protocolVersion"] == revision
        await send("notifications/initialized", {})
        called = await send("tools/call", {"name": "shell", "arguments": {"command": "echo hi"}}, 2)
        assert called["result"]["content"][0]["text"] == "hi\n\n[anyshell] Exit code 0."
        refused = await send("tools/call", {"name": "shell", "arguments": {"command": "touch ~/x-of-mcp"}}, 3)
        assert "--policy" in refused["result"]["content"][0]["text"]
    assert not os.path.exists(os.path.expanduser("~/x-of-mcp"))


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize(
    ("name", "arguments", "is_error", "status"),
    [
        ("shell", {"command": "echo hi"}, False, "exited"),
        ("shell", {"command": "exit 3"}, True, "exited"),
        ("shell", {"command": "sleep 60", "timeout": 1}, True, "timed_out"),
        ("shell", {"command": "seq 100000"}, False, "exited"),
        ("shell", {"command": "sleep 60", "run_in_background": True}, False, "running"),
        ("shell", {"nothing": "x"}, True, "invalid"),
        ("job", {"action": "list"}, False, "done"),
        ("job", {"action": "stop", "id": "j9"}, True, "failed"),
    ],
)
async def test_structured_content_matches_the_schema(
    env: Environment, mode: str, name: str, arguments: dict[str, Any], is_error: bool, status: str
) -> None:
    async with Client(served(env, jobs=True), mode=mode, elicitation_callback=User()) as client:
        schemas = {tool.name: tool.output_schema for tool in (await client.list_tools()).tools}
        result = await client.call_tool(name, arguments)
    schema = schemas[name]
    assert schema is not None
    import_module("jsonschema").validate(result.structured_content, schema)
    assert result.is_error is is_error
    assert result.structured_content["details"]["status"] == status
    assert result.structured_content["output"].rstrip("\n") in printed(result)


@pytest.mark.parametrize("mode", ERAS)
async def test_unknown_tool_is_a_protocol_error(env: Environment, mode: str) -> None:
    async with Client(served(env), mode=mode) as client:
        with pytest.raises(MCPError, match="no tool 'job'"):
            await client.call_tool("job", {"action": "list"})


@pytest.mark.parametrize("mode", ERAS)
async def test_progress_has_the_end_of_the_output(env: Environment, mode: str) -> None:
    told: list[tuple[float, str | None]] = []
    seen = asyncio.Event()

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, message))
        seen.set()

    fifo = "mkfifo go; echo first; cat go; echo last"
    async with Client(served(env), mode=mode, elicitation_callback=User()) as client:
        call = asyncio.ensure_future(client.call_tool("shell", {"command": fifo}, progress_callback=hear))
        await asyncio.wait_for(seen.wait(), 20)
        await env.run("echo > go")
        result = await call
    assert told[0] == (1, "first\n")
    assert [progress for progress, _ in told] == sorted({progress for progress, _ in told})
    assert "last" in printed(result)


@pytest.mark.parametrize("mode", ERAS)
async def test_cancellation_stops_the_tree(env: Environment, mode: str, tmp_path: Path) -> None:
    command = "sh -c 'sleep 300 & echo $! > pid.part; mv pid.part pid; wait' & wait"
    async with Client(served(env), mode=mode, elicitation_callback=User()) as client:
        call = asyncio.ensure_future(client.call_tool("shell", {"command": command}))
        await asyncio.to_thread(wait_until, (tmp_path / "pid").exists, "the command runs")
        pid = int((tmp_path / "pid").read_text())
        assert is_alive(pid)
        call.cancel()
        await asyncio.wait([call])
        await asyncio.to_thread(wait_until, lambda: not is_alive(pid), "its child has ended")


@pytest.mark.parametrize("mode", ERAS)
async def test_timeout_and_end_leave_no_process(env: Environment, mode: str) -> None:
    seconds = unique_seconds()
    async with Client(served(env), mode=mode, elicitation_callback=User()) as client:
        late = await client.call_tool("shell", {"command": f"sleep {seconds} & wait", "timeout": 1})
        left = await client.call_tool("shell", {"command": f"sleep {seconds} & echo started"})
    assert late.is_error
    assert late.structured_content
    assert late.structured_content["details"]["status"] == "timed_out"
    assert not left.is_error
    assert left.structured_content
    assert [each["alive"] for each in left.structured_content["details"]["left_behind"]] == [False]
    assert not living(seconds)


async def test_calls_over_the_limit_wait_for_their_turn(
    env: Environment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("anyshell.mcp.tools.RUNNING", 2)
    monkeypatch.setattr("anyshell.mcp.tools.CALLS", 6)
    begun = tmp_path / "begun"
    hold = {"command": "echo >> begun; until [ -e go ]; do sleep 0.05; done"}
    async with Client(served(env), mode=ERAS[0], elicitation_callback=User()) as client:
        calls = {asyncio.ensure_future(client.call_tool("shell", hold)) for _ in range(7)}
        [one_more], held = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        assert str(one_more.exception()) == "6 calls are under way: wait for one of them"
        await asyncio.to_thread(wait_until, lambda: begun.exists() and len(begun.read_text()) == 2, "two run")
        (tmp_path / "go").touch()
        assert not any(result.is_error for result in await asyncio.gather(*held))
    assert len(begun.read_text()) == 6


@pytest.mark.parametrize("mode", ERAS)
async def test_tool_is_read_only_without_an_approver(tmp_path: Path, mode: str) -> None:
    async with Environment.detect(cwd=tmp_path, policy=Policy.preset("read-only")) as env:
        for user, only_reads in ((None, True), (User(), False)):
            async with Client(served(env, jobs=True), mode=mode, elicitation_callback=user) as client:
                shell, job = (await client.list_tools()).tools
            assert shell.annotations is not None
            assert job.annotations is not None
            assert shell.annotations.read_only_hint is only_reads
            assert job.annotations.read_only_hint is False


async def test_oversized_message_is_skipped_in_bounded_memory(
    monkeypatch: pytest.MonkeyPatch, anyio_backend: str
) -> None:
    monkeypatch.setattr(stdio, "LONGEST_MESSAGE", 60)
    short = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
    read, write = os.pipe()

    def say() -> None:
        with open(write, "wb") as file:
            file.write(b"x" * 1_000_000 + b"\n\n" + short + b"\nunfinished")

    saying = asyncio.ensure_future(asyncio.to_thread(say))
    said = [line async for line in lines(DescriptorReader(read), stdio.LONGEST_MESSAGE)]
    await saying
    os.close(read)
    assert [len(line) for line in said] == [61, len(short), len(b"unfinished")]
    assert isinstance(stdio._parsed(said[0]), ValueError)
    assert isinstance(stdio._parsed(said[1]), SessionMessage)


# --- approval ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize(
    ("action", "content", "said"),
    [
        ("accept", YES, "Exit code 0"),
        ("accept", {**NO, "reason": "use b instead"}, "The user says: use b instead."),
        ("accept", {}, "refused by the user"),
        ("accept", {"decision": "yes"}, "refused by the user"),
        ("decline", None, "refused by the user"),
        ("cancel", None, "the question was not answered"),
    ],
)
async def test_command_runs_only_after_a_yes(
    env: Environment, tmp_path: Path, mode: str, action: str, content: dict[str, Any] | None, said: str
) -> None:
    user = User(content, action)
    async with Client(served(env), mode=mode, elicitation_callback=user) as client:
        result = await client.call_tool("shell", {"command": "echo x >> a"})
    assert said in printed(result)
    assert (tmp_path / "a").exists() is (content == YES)
    assert user.asked == [user.asked[0]]
    assert "echo x >> a" in user.asked[0]
    assert str(tmp_path) in user.asked[0]


@pytest.mark.parametrize("mode", ERAS)
async def test_repeated_approval_covers_only_the_same_command(env: Environment, mode: str) -> None:
    user = User(dict(AGAIN))
    async with Client(served(env), mode=mode, elicitation_callback=user) as client:
        for command in ("echo a", "echo a", "echo b", "echo a"):
            await client.call_tool("shell", {"command": command})
    assert len(user.asked) == 2


@pytest.mark.parametrize("mode", ERAS)
async def test_refusal_without_elicitation_names_the_option(env: Environment, mode: str) -> None:
    async with Client(served(env), mode=mode) as client:
        result = await client.call_tool("shell", {"command": "touch a"})
    assert result.is_error
    assert "--policy workspace" in printed(result)


@pytest.mark.parametrize("mode", ERAS)
async def test_concurrent_equal_calls_are_asked_about_separately(
    env: Environment, tmp_path: Path, mode: str
) -> None:
    user = User()
    async with Client(served(env), mode=mode, elicitation_callback=user) as client:
        await asyncio.gather(*(client.call_tool("shell", {"command": "echo x >> a"}) for _ in range(5)))
    assert len(user.asked) == 5
    assert (tmp_path / "a").read_text() == "x\n" * 5


@pytest.mark.parametrize("mode", ERAS)
async def test_commands_decided_by_a_policy_are_not_asked_about(tmp_path: Path, mode: str) -> None:
    user = User()
    async with (
        Environment.detect(cwd=tmp_path, policy=Policy.preset("workspace")) as env,
        Client(served(env), mode=mode, elicitation_callback=user) as client,
    ):
        assert not (await client.call_tool("shell", {"command": "touch a"})).is_error
        denied = await client.call_tool("shell", {"command": "rm -rf /"})
        assert "The policy says" in printed(denied)
        assert not user.asked
        await client.call_tool("shell", {"command": "unheard-of"})
        assert len(user.asked) == 1


async def test_input_of_a_job_is_asked_about(env: Environment, tmp_path: Path) -> None:
    user = User()
    async with Client(served(env, jobs=True), mode=ERAS[1], elicitation_callback=user) as client:
        begun = await client.call_tool("shell", {"command": "read x; echo $x > a", "run_in_background": True})
        job = begun.structured_content["details"]["job"]
        sent = await client.call_tool("job", {"action": "send", "id": job, "text": "hello", "enter": True})
        assert not sent.is_error
        await asyncio.to_thread(wait_until, (tmp_path / "a").exists, "it has read it")
    assert user.asked[1].startswith("Send this to what runs already?")


@pytest.mark.parametrize("mode", ERAS)
async def test_input_for_a_terminal_is_asked_about(env: Environment, mode: str) -> None:
    user = User()
    async with Client(served(env, terminals=True), mode=mode, elicitation_callback=user) as client:
        asks = {"command": "read -p 'name? ' x; echo hello $x", "pty": True}
        begun = await client.call_tool("shell", asks)
        assert begun.structured_content["details"]["waiting"]["prompt"] == "name? "
        terminal = begun.structured_content["details"]["terminal"]
        typed = await client.call_tool(
            "job", {"action": "send", "id": terminal, "text": "ann", "enter": True}
        )
        assert "hello ann" in printed(typed)
    assert len(user.asked) == 2
    assert user.asked[1].startswith("Type this to what runs already?")


class Stateless:
    """A client that itself drives the rounds of a call."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def ask(self, **arguments: Any) -> types.InputRequiredResult:
        asked = await self.client.session.call_tool("shell", arguments, allow_input_required=True)
        assert isinstance(asked, types.InputRequiredResult)
        return asked

    async def answer(
        self, state: str | None, content: dict[str, Any] | None = None, **arguments: Any
    ) -> types.CallToolResult:
        result = await self.client.session.call_tool(
            "shell",
            arguments,
            input_responses={"approval": types.ElicitResult(action="accept", content=dict(content or YES))},
            request_state=state,
            allow_input_required=True,
        )
        assert isinstance(result, types.CallToolResult)
        return result

    async def is_refused(self, said: str, state: str | None, **arguments: Any) -> None:
        with pytest.raises(MCPError, match=f"not run: .*{said}") as raised:
            await self.answer(state, **arguments)
        assert raised.value.error.code == types.INVALID_PARAMS


@pytest.fixture
async def client(env: Environment) -> AsyncIterator[Stateless]:
    async with Client(served(env), mode=ERAS[1], elicitation_callback=User()) as made:
        yield Stateless(made)


async def test_an_approval_runs_its_call_once(client: Stateless, tmp_path: Path) -> None:
    asked = await client.ask(command="echo x >> a")
    assert not (tmp_path / "a").exists()
    answers = (client.answer(asked.request_state, command="echo x >> a") for _ in range(5))
    results = await asyncio.gather(*answers, return_exceptions=True)
    assert [isinstance(result, MCPError) for result in results].count(False) == 1
    await client.is_refused("used before", asked.request_state, command="echo x >> a")
    assert (tmp_path / "a").read_text() == "x\n"


async def test_approval_is_bound_to_its_arguments(client: Stateless, tmp_path: Path) -> None:
    asked = await client.ask(command="echo x > a")
    await client.is_refused("the approval is for another call", asked.request_state, command="echo y > a")
    assert not (tmp_path / "a").exists()
    assert not (await client.answer(asked.request_state, command="echo x > a")).is_error


async def test_a_forged_approval_runs_nothing(client: Stateless, tmp_path: Path) -> None:
    asked = await client.ask(command="echo x > a")
    state = asked.request_state
    assert state is not None
    for forged in ("", "x", "v1." + "A" * 60, state[:-4] + "AAAA", state.upper()):
        await client.is_refused("not asked for by this server", forged, command="echo x > a")
    assert not (tmp_path / "a").exists()


async def test_a_late_approval_runs_nothing(
    client: Stateless, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(approval, "QUESTION_SECONDS", -1.0)
    asked = await client.ask(command="echo x > a")
    await client.is_refused("later than", asked.request_state, command="echo x > a")
    assert not (tmp_path / "a").exists()


async def test_answer_no_closes_the_question(client: Stateless, tmp_path: Path) -> None:
    asked = await client.ask(command="echo x > a")
    refused = await client.answer(asked.request_state, NO, command="echo x > a")
    assert "refused by the user" in printed(refused)
    await client.is_refused("used before", asked.request_state, command="echo x > a")
    assert not (tmp_path / "a").exists()


async def test_oldest_question_over_the_limit_is_closed(
    client: Stateless, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(approval, "QUESTIONS", 2)
    asked = [await client.ask(command=f"echo {number}") for number in range(3)]
    await client.is_refused("used before", asked[0].request_state, command="echo 0")
    for number in (1, 2):
        assert not (await client.answer(asked[number].request_state, command=f"echo {number}")).is_error


async def test_oversized_question_is_not_asked(env: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    user = User()
    async with Client(served(env), mode=ERAS[1], elicitation_callback=user) as client:
        result = await client.call_tool("shell", {"command": "echo " + "x" * approval.LONGEST_QUESTION})
    assert "too long to be shown" in printed(result)
    assert not user.asked


@pytest.mark.parametrize("mode", ERAS)
async def test_commands_run_on_an_ssh_host(
    ssh_host: Callable[[str], Far], tmp_path: Path, anyio_backend: str, mode: str
) -> None:
    async with (
        environment_on(SSH_HOST[0], ssh_host, tmp_path) as env,
        Client(served(env), mode=mode, elicitation_callback=User()) as client,
    ):
        result = await client.call_tool("shell", {"command": 'pwd; [ -n "$SSH_CONNECTION" ]'})
    assert result.structured_content["output"] == f"{tmp_path}\n"
    assert not result.is_error


# --- what a client can read -------------------------------------------------------------------------------------


def text_of(result: types.ReadResourceResult) -> str:
    first = result.contents[0]
    assert isinstance(first, types.TextResourceContents)
    return first.text


@pytest.mark.parametrize("mode", ERAS)
async def test_a_kept_output_is_a_resource_with_ranges(env: Environment, mode: str) -> None:
    async with Client(served(env), mode=mode, elicitation_callback=User()) as client:
        assert not (await client.list_resources()).resources
        result = await client.call_tool("shell", {"command": "seq 100000; exit 1"})
        kept = result.structured_content["details"]["artifact"]["id"]
        [resource] = (await client.list_resources(cache_mode="bypass")).resources
        assert resource.uri == f"artifact://{kept}"
        assert [
            each.uri_template for each in (await client.list_resource_templates()).resource_templates
        ] == [
            "artifact://{id}{?lines,bytes,tail,grep,context}",
            "job://{id}{?since}",
        ]
        assert text_of(await client.read_resource(f"{resource.uri}?lines=3-5")) == "3\n4\n5\n"
        assert text_of(await client.read_resource(f"{resource.uri}?grep=^777$")) == "777:777\n"
        whole = text_of(await client.read_resource(resource.uri))
        assert whole == "".join(f"{number}\n" for number in range(1, 100001))
        for wrong in (f"{resource.uri}?lines=x", "artifact://other", "job://j1", "file:///etc/passwd"):
            with pytest.raises(MCPError) as raised:
                await client.read_resource(wrong)
            assert raised.value.error.code == types.INVALID_PARAMS


async def test_binary_artifact_is_returned_as_bytes(env: Environment) -> None:
    async with Client(served(env), mode=ERAS[1], elicitation_callback=User()) as client:
        await client.call_tool("shell", {"command": "printf '\\377\\n%.0s' $(seq 100000)"})
        [resource] = (await client.list_resources()).resources
        [content] = (await client.read_resource(f"{resource.uri}?bytes=0-3")).contents
    assert isinstance(content, types.BlobResourceContents)
    assert base64.b64decode(content.blob) == b"\xff\n\xff\n"


async def begun(client: Client, command: str) -> str:
    """Start a job, and return its address."""
    result = await client.call_tool("shell", {"command": command, "run_in_background": True})
    return f"job://{result.structured_content['details']['job']}"


GO = "echo first; until [ -e go ]; do sleep 0.05; done; echo last"


async def test_news_of_a_job_come_on_a_stream(env: Environment, tmp_path: Path) -> None:
    async with Client(served(env, jobs=True), mode=ERAS[1], elicitation_callback=User()) as client:
        async with client.listen(resources_list_changed=True) as listed:
            uri = await begun(client, GO)
            assert await anext(aiter(listed)) == ResourcesListChanged()
        assert [each.uri for each in (await client.list_resources()).resources] == [uri]
        async with client.listen(resource_subscriptions=[uri]) as news:
            (tmp_path / "go").touch()
            async for event in news:
                assert event == ResourceUpdated(uri)
                [content] = (await client.read_resource(uri, cache_mode="bypass")).contents
                assert content.meta is not None
                if content.meta["status"] != "running":
                    break
        assert text_of(await client.read_resource(uri)) == "first\nlast\n"
        assert text_of(await client.read_resource(f"{uri}?since=6")) == "last\n"


async def test_end_of_a_job_between_requests_is_news() -> None:
    class Printing:
        printed, status = 0, "running"

        async def output(self, since: int, *, limit: int, wait: float) -> None:
            self.printed = 5

    job = Printing()
    told = []
    async for _ in news(cast("Job", job)):
        told.append(job.status)
        job.status = "exited"
    assert told == ["running", "exited"]


@pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")  # names this era
async def test_news_of_a_job_come_by_notification(env: Environment, tmp_path: Path) -> None:
    told: asyncio.Queue[str] = asyncio.Queue()

    async def hear(message: object) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            told.put_nowait(message.params.uri)

    async with Client(
        served(env, jobs=True), mode="legacy", elicitation_callback=User(), message_handler=hear
    ) as client:
        uri, other = await begun(client, GO), await begun(client, GO)
        for each in (uri, uri, other, "artifact://x"):
            await client.subscribe_resource(each)
        await client.unsubscribe_resource(other)
        (tmp_path / "go").touch()
        assert await asyncio.wait_for(told.get(), 20) == uri


async def test_arguments_are_completed(
    env: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home" / ".ssh").mkdir(parents=True)
    (tmp_path / "home" / ".ssh" / "config").write_text("Host web-1 web-2 db *.internal\n")
    for name in ("src/a b", "src/[x]/y", "other"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "src" / "file").touch()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    prompt = types.PromptReference(name="run")
    async with Client(served(env, jobs=True), mode=ERAS[1], elicitation_callback=User()) as client:
        uri = await begun(client, "sleep 60")

        async def values(name: str, begun: str) -> list[str]:
            reference = types.ResourceTemplateReference(uri="job://{id}{?since}") if name == "id" else prompt
            completed = await client.complete(reference, {"name": name, "value": begun})
            return completed.completion.values

        assert await values("id", "") == [uri.removeprefix("job://")]
        assert await values("host", "web") == ["web-1", "web-2"]
        assert await values("directory", "s") == ["src/"]
        assert await values("directory", "src/") == ["src/[x]/", "src/a b/"]
        assert await values("directory", "src/[x]/") == ["src/[x]/y/"]
        assert await values("directory", f"{tmp_path}/oth") == [f"{tmp_path}/other/"]
        assert await values("directory", "nowhere/") == []
        assert await values("command", "l") == []


async def test_prompt_has_the_command_and_host(env: Environment) -> None:
    async with Client(served(env), mode=ERAS[1]) as client:
        [listed] = (await client.list_prompts()).prompts
        said = await client.get_prompt(listed.name, {"command": "uptime", "host": "web-1"})
        [message] = said.messages
        assert message.content == types.TextContent(
            text="Run this command with the tool shell by ssh on the host web-1:\n\nuptime"
        )
        with pytest.raises(MCPError):
            await client.get_prompt(listed.name, {})


@pytest.mark.parametrize("mode", ERAS)
async def test_a_session_keeps_its_state(env: Environment, mode: str) -> None:
    async with Client(served(env, session=True), mode=mode, elicitation_callback=User()) as client:
        await client.call_tool("shell", {"command": "x=1; mkdir d; cd d"})
        result = await client.call_tool("shell", {"command": "echo $x ${PWD##*/}"})
    assert result.structured_content["output"] == "1 d\n"
    assert result.structured_content["details"]["session_state"] == "kept"
