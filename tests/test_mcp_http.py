"""The MCP server over HTTP on loopback: the token, Host and Origin, and an environment for each client."""

from __future__ import annotations

import asyncio
import contextlib
import re
import stat
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from .conftest import framework

framework("mcp")
import httpx2
import mcp_types as types
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.exceptions import MCPError

from anyshell import AnyshellError, Environment
from anyshell.mcp import http
from anyshell.mcp.approval import ClientApprovals
from anyshell.mcp.server import make
from anyshell.mcp.tools import ClientTools

from .cli_program import is_alive, wait_until
from .test_mcp import AGAIN, ERAS, User, printed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

pytestmark = pytest.mark.anyio


@dataclass
class Served:
    """A server, with its address and token."""

    url: str
    token: str
    clients: http.HTTPClients
    directory: Path

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    @contextlib.asynccontextmanager
    async def client(self, mode: str, user: User | None = None) -> AsyncIterator[Client]:
        async with create_mcp_http_client(self.headers) as requests:
            transport = streamable_http_client(self.url, http_client=requests)
            async with Client(transport, mode=mode, elicitation_callback=user or User()) as client:
                yield client


@contextlib.asynccontextmanager
async def serving(directory: Path, **features: bool) -> AsyncIterator[Served]:
    approvals = ClientApprovals()

    @contextlib.asynccontextmanager
    async def open_tools() -> AsyncIterator[ClientTools]:
        async with Environment.detect(cwd=directory) as env:
            tools = ClientTools(env, approvals, **features)
            yield tools
            tools.resources.close()

    clients = http.HTTPClients(open_tools, approvals, stateful=any(features.values()))
    told: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    task = asyncio.ensure_future(http.serve(make(clients), clients, port=0, tell=told.set_result))
    either: list[asyncio.Future[Any]] = [task, told]
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        found = re.fullmatch(r"serving (http://127\.0\.0\.1:\d+/mcp); the token is in (.*)", told.result())
        assert found is not None
        yield Served(found[1], http.read_token(directory / "mcp" / "token"), clients, directory)
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@pytest.fixture
def server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, anyio_backend: str
) -> AbstractAsyncContextManager[Served]:
    monkeypatch.setenv("ANYSHELL_STATE_DIR", str(tmp_path))
    return serving(tmp_path, session=True, jobs=True)


async def test_requests_need_the_token(server: AbstractAsyncContextManager[Served]) -> None:
    async with server as served, httpx2.AsyncClient() as requests:
        file = served.directory / "mcp" / "token"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        good = {**served.headers, "Accept": "application/json, text/event-stream"}
        hello: Any = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "t", "version": "1"},
            },
        }

        async def status(headers: dict[str, str], json: Any = hello) -> int:
            return (await requests.post(served.url, headers=headers, json=json)).status_code

        assert await status(good) == 200
        for scheme in ("bearer", "BEARER", "Bearer "):
            assert await status({**good, "Authorization": f"{scheme} {served.token}"}) == 200
        for wrong in ("", "Bearer", "Bearer x", f"Basic {served.token}", f"Bearer {served.token}x"):
            assert await status({**good, "Authorization": wrong}) == 401
        assert await status({key: good[key] for key in good if key != "Authorization"}) == 401
        port = served.url.split(":")[2].split("/")[0]
        assert await status({**good, "Origin": f"http://localhost:{port}"}) == 200
        for origin in ("https://example.com", "http://localhost:1", "null"):
            assert await status({**good, "Origin": origin}) == 403
        for host in ("example.com", f"example.com:{port}", "127.0.0.1"):
            assert await status({**good, "Host": host}) == 421
        assert await status(good, json=[1, "x"]) == 400
        old = {**good, "MCP-Protocol-Version": "2026-07-28"}
        assert await status(old, json={"id": 1}) == 400
        assert (await requests.get(served.url + "/other", headers=good)).status_code == 404


async def test_the_token_stays_and_must_be_private(tmp_path: Path) -> None:
    file = tmp_path / "mcp" / "token"
    token = http.read_token(file)
    assert http.read_token(file) == token
    file.write_text("short")
    with pytest.raises(AnyshellError, match="too short"):
        http.read_token(file)
    file.parent.chmod(0o777)
    with pytest.raises(AnyshellError, match="others may write"):
        http.read_token(file)


async def test_concurrent_servers_have_one_token(tmp_path: Path) -> None:
    """Eight servers start at once in each of many directories."""
    with ThreadPoolExecutor(8) as pool:
        for number in range(100):
            file = tmp_path / str(number) / "token"
            assert len(set(pool.map(http.read_token, [file] * 8))) == 1
            assert [*file.parent.iterdir()] == [file]


async def test_connections_without_a_request_do_not_block_others(
    server: AbstractAsyncContextManager[Served],
) -> None:
    """Connections are silent, have an endless header, or continue with one after an answer."""
    async with server as served, contextlib.AsyncExitStack() as opened:
        port = int(served.url.split(":")[2].split("/")[0])

        async def connect(said: bytes) -> asyncio.StreamReader:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            opened.callback(writer.close)
            writer.write(said)
            return reader

        begun = b"POST /mcp HTTP/1.1\r\nHost: x\r\n"
        oldest = await connect(b"")
        for said in (b"", begun, begun + b"Content-Length: 9\r\n\r\nx", begun + b"\r\nP"):
            for _ in range(http.CONNECTIONS // 2):
                reader = await connect(said)
                if said.count(b"\r\n") > 2:
                    assert b" 401 " in await reader.readline()
        assert await oldest.read() == b""
        async with served.client("legacy") as client:
            await client.list_tools()


async def test_port_in_use_is_reported(server: AbstractAsyncContextManager[Served], tmp_path: Path) -> None:
    async with server as served:
        port = int(served.url.split(":")[2].split("/")[0])
        with pytest.raises(AnyshellError, match=f"port {port}"):
            await http.serve(make(served.clients), served.clients, port=port, tell=print)


async def test_each_session_has_its_own_environment_until_its_end(
    server: AbstractAsyncContextManager[Served],
) -> None:
    async with server as served:
        async with served.client("legacy") as one, served.client("legacy") as other:
            for client, word in ((one, "a"), (other, "b")):
                await client.call_tool("shell", {"command": f"x={word}; sleep 300 & echo $! > {word}"})
            for client, word in ((one, "a"), (other, "b")):
                result = await client.call_tool("shell", {"command": "echo $x"})
                assert result.structured_content["output"] == f"{word}\n"
            pids = [int((served.directory / word).read_text()) for word in "ab"]
            assert all(map(is_alive, pids))
        await asyncio.to_thread(wait_until, lambda: not any(map(is_alive, pids)), "both have ended")


async def test_a_stateless_client_keeps_its_state_by_a_handle(
    server: AbstractAsyncContextManager[Served],
) -> None:
    async with server as served, served.client(ERAS[1]) as client:
        listed = (await client.list_tools()).tools
        assert all("state" in tool.input_schema["properties"] for tool in listed)
        async with served.client("legacy") as session:
            for tool in (await session.list_tools()).tools:
                assert "state" not in tool.input_schema["properties"]
                assert "state" not in (tool.output_schema or {})["properties"]
        first = await client.call_tool("shell", {"command": "x=1"})
        state = first.structured_content["state"]
        assert isinstance(first.content[-1], types.TextContent)
        assert state in first.content[-1].text
        other = await client.call_tool("shell", {"command": "echo ${x-none}"})
        assert other.structured_content["output"] == "none\n"
        again = await client.call_tool("shell", {"command": "echo $x", "state": state})
        assert again.structured_content["output"] == "1\n"
        job = await client.call_tool(
            "shell", {"command": "echo in; sleep 60", "run_in_background": True, "state": state}
        )
        job_id = job.structured_content["details"]["job"]
        shown = await client.call_tool("job", {"action": "output", "id": job_id, "state": state, "wait": 20})
        assert shown.structured_content["output"] == "in\n"
        gone = await client.call_tool("shell", {"command": "echo", "state": "made-up"})
        [said] = gone.content
        assert isinstance(said, types.TextContent)
        assert "there is no such state" in said.text


async def test_client_with_a_running_first_call_is_not_evicted(
    server: AbstractAsyncContextManager[Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "CLIENTS", 1)
    wait = {"command": "touch begun; until [ -e go ]; do sleep 0.05; done; echo last"}
    async with server as served, served.client("legacy") as one, served.client(ERAS[1]) as other:
        monkeypatch.setattr(http, "IDLE_SECONDS", 0.01)
        call = asyncio.ensure_future(one.call_tool("shell", wait))
        await asyncio.to_thread(wait_until, (served.directory / "begun").exists, "the command runs")
        with pytest.raises(MCPError, match="1 clients have an environment"):
            await other.call_tool("shell", {"command": "echo"})
        (served.directory / "go").touch()
        assert (await call).structured_content["output"] == "last\n"


async def test_stateless_tools_have_no_handle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANYSHELL_STATE_DIR", str(tmp_path))
    async with serving(tmp_path) as served, served.client(ERAS[1]) as client:
        [tool] = (await client.list_tools()).tools
        assert "state" not in tool.input_schema["properties"]
        result = await client.call_tool("shell", {"command": "echo hi"})
        assert printed(result) == "hi\n\n[anyshell] Exit code 0."


async def test_an_idle_client_ends_and_the_longest_idle_makes_room(
    server: AbstractAsyncContextManager[Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "CLIENTS", 3)
    async with server as served, served.client(ERAS[1], User(dict(AGAIN))) as client:

        async def begun(command: str, *, background: bool = False) -> str:
            call = {"command": command, "run_in_background": background}
            state: str = (await client.call_tool("shell", call)).structured_content["state"]
            return state

        busy = await begun("sleep 60", background=True)
        idle, third = await begun("x=1"), await begun("x=2")
        assert {busy, idle, third} < {*served.clients.known}
        fourth = await begun("x=3")
        assert {busy, third, fourth} == {*served.clients.known} - {""}
        monkeypatch.setattr(http, "IDLE_SECONDS", 0.01)
        await client.call_tool("shell", {"command": "x=3", "state": third})
        await asyncio.to_thread(wait_until, lambda: third not in served.clients.known, "it has ended")


async def test_session_reports_the_end_of_its_shell(
    server: AbstractAsyncContextManager[Served],
) -> None:
    async with server as served, served.client("legacy") as one:
        await one.call_tool("shell", {"command": "x=1"})
        [key] = served.clients.known
        served.clients.end(key)
        told = await one.call_tool("shell", {"command": "echo ${x-none} > a"})
        assert "have ended" in printed(told)
        assert not (served.directory / "a").exists()
        anew = await one.call_tool("shell", {"command": "echo ${x-none}"})
        assert anew.structured_content["output"] == "none\n"


@pytest.mark.parametrize("mode", ERAS)
async def test_vanished_client_has_its_command_stopped(
    server: AbstractAsyncContextManager[Served], mode: str
) -> None:
    async with server as served:
        async with served.client(mode) as client:
            call = asyncio.ensure_future(
                client.call_tool("shell", {"command": "echo $$ > pid.part; mv pid.part pid; exec sleep 300"})
            )
            file = served.directory / "pid"
            await asyncio.to_thread(wait_until, file.exists, "the command runs")
            call.cancel()
            await asyncio.wait([call])
        pid = int(file.read_text())
        await asyncio.to_thread(wait_until, lambda: not is_alive(pid), "the command has ended")


async def test_end_of_the_server_stops_running_commands(server: AbstractAsyncContextManager[Served]) -> None:
    async with contextlib.AsyncExitStack() as stack:
        async with server as served:
            client = await stack.enter_async_context(served.client(ERAS[1]))
            call = asyncio.ensure_future(
                client.call_tool("shell", {"command": "echo $$ > pid.part; mv pid.part pid; exec sleep 300"})
            )
            file = served.directory / "pid"
            await asyncio.to_thread(wait_until, file.exists, "the command runs")
        assert not is_alive(int(file.read_text()))
        call.cancel()
        await asyncio.wait([call])
    assert {path.name for path in served.directory.iterdir()} == {"mcp", "pid"}


@pytest.mark.parametrize("mode", ERAS)
async def test_long_first_call_is_not_idle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setenv("ANYSHELL_STATE_DIR", str(tmp_path))
    monkeypatch.setattr(http, "IDLE_SECONDS", 4)  # a busy machine may use some of this time before the call
    async with serving(tmp_path) as served, served.client(mode, User(dict(AGAIN))) as client:
        result = await client.call_tool("shell", {"command": "sleep 7; echo end"})
        assert printed(result) == "end\n\n[anyshell] Exit code 0."
