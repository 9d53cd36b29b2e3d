"""Many calls, many clients, and misbehaving clients: none leaves a process."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import psutil
import pytest

from .conftest import framework

framework("mcp")
from mcp import Client
from mcp.client._memory import InMemoryTransport

from anyshell import Environment
from anyshell.mcp.approval import ClientApprovals
from anyshell.mcp.server import make
from anyshell.mcp.tools import ClientTools

from .cli_program import wait_until
from .test_cli_mcp import Server, nothing_is_left, server
from .test_mcp import AGAIN, ERAS, User
from .test_mcp_http import serving

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["server"]  # a fixture


@pytest.fixture(name="left")
def _left() -> Callable[[], list[psutil.Process]]:
    """The living processes that the test has started; other processes of the worker belong to other modules."""
    me = psutil.Process()
    before = me.children(recursive=True)
    return lambda: [process for process in me.children(recursive=True) if process not in before]


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ERAS)
async def test_thousand_calls_leave_no_process(
    tmp_path: Path, anyio_backend: str, mode: str, left: Callable[[], list[psutil.Process]]
) -> None:
    approvals = ClientApprovals()
    async with Environment.detect(cwd=tmp_path) as env:
        made = make(ClientTools(env, approvals, jobs=True))
        transport = InMemoryTransport(made)
        async with Client(transport, mode=mode, elicitation_callback=User(dict(AGAIN))) as client:
            await client.call_tool("shell", {"command": "echo $$ >> pids"})  # approved for later calls
            calls = [client.call_tool("shell", {"command": "echo $$ >> pids"}) for _ in range(500)]
            results = await asyncio.gather(*calls)
        assert not any(result.is_error for result in results)
    pids = (tmp_path / "pids").read_text().split()
    assert len(pids) == 501
    assert not left()
    assert not approvals._exchanges
    assert not approvals._open


@pytest.mark.anyio
async def test_twenty_concurrent_clients_are_isolated(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    anyio_backend: str,
    left: Callable[[], list[psutil.Process]],
) -> None:
    monkeypatch.setenv("ANYSHELL_STATE_DIR", str(tmp_path))
    async with serving(tmp_path, session=True) as served:

        async def talk(number: int) -> str:
            async with served.client(ERAS[number % 2]) as client:
                first = await client.call_tool("shell", {"command": f"x={number}"})
                state = first.structured_content.get("state")
                named = {} if state is None else {"state": state}
                again = await client.call_tool("shell", {"command": "echo $x", **named})
                return str(again.structured_content["output"])

        said = await asyncio.gather(*(talk(number) for number in range(20)))
        assert said == [f"{number}\n" for number in range(20)]
    assert not left()


@pytest.mark.anyio
async def test_partial_requests_do_not_block_other_connections(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    anyio_backend: str,
    left: Callable[[], list[psutil.Process]],
) -> None:
    monkeypatch.setenv("ANYSHELL_STATE_DIR", str(tmp_path))
    with contextlib.ExitStack() as stack:
        async with serving(tmp_path) as served:
            place = urlsplit(served.url)
            token = f"Authorization: Bearer {served.token}\r\n"
            head = f"POST /mcp HTTP/1.1\r\nHost: {place.netloc}\r\n{token}"
            for said in (
                "",
                "POST",
                head,
                f"{head}Content-Type: application/json\r\nContent-Length: 999\r\n\r\n{{",
                "\x00\xff" * 1000,
                f"{head}Content-Length: -1\r\n\r\n",
            ):
                for _ in range(5):
                    half = stack.enter_context(
                        socket.create_connection((place.hostname or "", place.port or 0))
                    )
                    half.sendall(said.encode("latin-1"))
            async with served.client(ERAS[1]) as client:
                result = await client.call_tool("shell", {"command": "echo hi"})
                assert result.structured_content["output"] == "hi\n"
        assert not left()


def test_frozen_client_blocks_neither_its_commands_nor_the_end(server: Server) -> None:
    pid = server.begin_stubborn()
    for number in range(2, 40):
        server.call(number, f"seq 3000; echo >> done-{number}")
    done = [server.directory / f"done-{number}" for number in range(2, 40)]
    # The answers exceed the size of the pipe, and the commands still run.
    wait_until(lambda: all(path.exists() for path in done), "all of them have run")
    for path in done:
        path.unlink()
    assert server.process.stdin is not None
    server.process.stdin.close()
    nothing_is_left(server, pid, 0)
