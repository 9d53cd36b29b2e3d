"""The conformance suite of the protocol, and the CLI of its inspector, against the server.

``ANYSHELL_MCP_CONFORMANCE`` is a directory with these packages and a Node that runs them:
``npm install --prefix DIR node@22 @modelcontextprotocol/conformance@0.2.0-alpha.12 @modelcontextprotocol/inspector@0.15.0``.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from .conftest import framework, missing

framework("mcp")
import mcp_types as types
import uvicorn

from anyshell import Environment, Policy
from anyshell.mcp import http
from anyshell.mcp.approval import ClientApprovals
from anyshell.mcp.server import make
from anyshell.mcp.tools import ClientTools

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.types import Receive, Scope, Send

    from anyshell.mcp.approval import Context

PLACE = os.environ.get("ANYSHELL_MCP_CONFORMANCE", "")

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.timeout(300),
]

_ASKS = "python3 -c 'print(1)'"
TOOLS = {
    "test_simple_text": "echo This is a simple text response for testing.",
    "test_error_handling": "echo This tool intentionally returns an error for testing; exit 1",
    "test_tool_with_progress": "for i in 1 2 3 4; do echo $i; sleep 0.4; done",
    "test_input_required_result_elicitation": _ASKS,
    "test_input_required_result_request_state": _ASKS,
    "test_input_required_result_tampered_state": _ASKS,
    "test_streaming_elicitation": _ASKS,
    "test_logging_tool": "echo x",
}
"""The tools that the suite calls, as commands of the tool shell."""

_NO_TOOL = "its tools, prompts or resources give what no shell does"
NOT_FOR_A_SHELL = {
    "elicitation-sep1034-defaults": _NO_TOOL,
    "elicitation-sep1330-enums": _NO_TOOL,
    "http-custom-header-server-validation": "no parameter is in a header",
    "input-required-result-basic-elicitation": "its second call does not send the state back, and so approves nothing",
    "input-required-result-basic-list-roots": "roots are deprecated",
    "input-required-result-basic-sampling": "sampling is deprecated",
    "input-required-result-capability-check": "sampling is deprecated",
    "input-required-result-multi-round": "an approval is one round",
    "input-required-result-multiple-input-requests": "sampling and roots are deprecated",
    "input-required-result-non-tool-request": "only tools ask",
    "json-schema-2020-12": _NO_TOOL,
    "logging-set-level": "logging is deprecated",
    "prompts-get-embedded-resource": _NO_TOOL,
    "prompts-get-simple": _NO_TOOL,
    "prompts-get-with-args": _NO_TOOL,
    "prompts-get-with-image": _NO_TOOL,
    "prompts-list": _NO_TOOL,
    "resources-read-binary": _NO_TOOL,
    "resources-read-text": _NO_TOOL,
    "resources-templates-read": _NO_TOOL,
    "server-stateless": "a tool that fails for want of a capability is asked for; a command is refused instead",
    "tools-call-audio": _NO_TOOL,
    "tools-call-elicitation": _NO_TOOL,
    "tools-call-embedded-resource": _NO_TOOL,
    "tools-call-image": _NO_TOOL,
    "tools-call-mixed-content": _NO_TOOL,
    "tools-call-sampling": "sampling is deprecated",
    "tools-call-with-logging": "logging is deprecated",
}
"""Scenarios that fail, with the reason: every other scenario has to pass."""


class WithTestTools(http.HTTPClients):
    """Clients that also see the tools of the suite."""

    async def list_tools(self, context: Context) -> list[types.Tool]:
        own = await super().list_tools(context)
        schema = {"type": "object", "properties": {}}
        return [*own, *(types.Tool(name=name, description=name, input_schema=schema) for name in TOOLS)]

    async def call(
        self, context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        if params.name in TOOLS:
            arguments = {"command": TOOLS[params.name]}
            params = params.model_copy(update={"name": "shell", "arguments": arguments})
        return await super().call(context, params)


@pytest.fixture(autouse=True)
def _suite() -> None:
    if not PLACE:
        missing("the conformance suite of MCP", "set ANYSHELL_MCP_CONFORMANCE, as above")


@pytest.fixture
async def url(tmp_path: Path, anyio_backend: str) -> AsyncIterator[str]:
    approvals = ClientApprovals()

    @contextlib.asynccontextmanager
    async def open_tools() -> AsyncIterator[ClientTools]:
        policy = Policy.preset("workspace")
        async with Environment.detect(cwd=tmp_path, policy=policy) as env:
            yield ClientTools(env, approvals)

    clients = WithTestTools(open_tools, approvals, stateful=False)
    with http._listening(0) as listening:
        port = listening.getsockname()[1]
        app = http.application(make(clients), clients, "secret", port)

        async def with_token(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http":  # the suite knows no token
                scope = {**scope, "headers": [*scope["headers"], (b"authorization", b"Bearer secret")]}
            await app(scope, receive, send)

        server = http._Uvicorn(uvicorn.Config(with_token, log_config=None, timeout_graceful_shutdown=1))
        task = asyncio.ensure_future(server.serve(sockets=[listening]))
        yield f"http://127.0.0.1:{port}/mcp"
        server.should_exit = True
        await task
        await clients.aclose()


async def run(program: str, *arguments: str) -> str:
    node = Path(PLACE, "node_modules", "node", "bin", "node")
    process = await asyncio.create_subprocess_exec(
        node if node.exists() else "node",
        Path(PLACE, "node_modules", ".bin", program),
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    printed, _ = await process.communicate()
    return printed.decode()


@pytest.mark.parametrize(
    "which", [("--spec-version", "2025-11-25"), ("--requirements", "2026-07-28")], ids=lambda which: which[1]
)
async def test_scenarios_for_a_shell_pass(url: str, which: tuple[str, str]) -> None:
    printed = await run("conformance", "server", "--url", url, *which)
    summary = printed.partition("=== SUMMARY ===")[2].partition("Total:")[0]
    found = {name: mark == "✓" for mark, name in re.findall(r"^([✓✗]) ([\w-]+):", summary, re.MULTILINE)}
    failed = {name for name, holds in found.items() if not holds and not name.startswith("tasks-")}
    assert sum(found.values()) > 10, printed
    assert failed <= set(NOT_FOR_A_SHELL), printed


async def test_the_inspector_lists_and_calls_the_tools(tmp_path: Path) -> None:
    anyshell = str(Path(sys.executable).with_name("anyshell"))
    server = ("--cli", anyshell, "mcp", "--cwd", str(tmp_path), "--policy", "workspace")
    listed: Any = json.loads(await run("mcp-inspector", *server, "--method", "tools/list"))
    assert [tool["name"] for tool in listed["tools"]] == ["shell"]
    call = ("--method", "tools/call", "--tool-name", "shell", "--tool-arg", "command=echo hi")
    called: Any = json.loads(await run("mcp-inspector", *server, *call))
    assert called["structuredContent"]["output"] == "hi\n"
