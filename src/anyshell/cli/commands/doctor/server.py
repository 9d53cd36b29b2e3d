"""The check of the server of MCP, with a client's messages on the server's stdin."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from ...options import command_text
from .report import Finding

if TYPE_CHECKING:
    from .... import Environment

SERVER_SECONDS = 30
"""Seconds for a server of MCP to answer `doctor`; after that `doctor` reports a problem."""

_HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "doctor", "version": "1"},
}
_ASKED: tuple[dict[str, Any], ...] = (
    {"id": 1, "method": "initialize", "params": _HELLO},
    {"method": "notifications/initialized"},
    {"id": 2, "method": "tools/list"},
    {"id": 3, "method": "tools/call", "params": {"name": "shell", "arguments": {"command": "exit 0"}}},
)


async def look_at_server(env: Environment) -> Finding:
    """Start a server, list its tools and call a tool. No command is run, since this client has no user to ask."""
    job = await env.start(
        command_text((sys.executable, "-P", "-m", "anyshell", "mcp", "--reach", "none"), env)
    )
    try:
        await job.send("".join(json.dumps({"jsonrpc": "2.0", **each}) + "\n" for each in _ASKED))
        await job.wait_for(r'"id":3\b.*\n', timeout=SERVER_SECONDS)
        printed = (await job.output(limit=1024 * 1024)).text
    finally:
        await job.stop()
    lines = [line for line in printed.splitlines() if line]
    try:
        answers = {each["id"]: each["result"] for each in map(json.loads, lines)}
        names = [tool["name"] for tool in answers[2]["tools"]]
        status = answers[3]["structuredContent"]["details"]["status"]
    except (ValueError, LookupError, TypeError):
        detail = lines[-1] if lines else f"no answer in {SERVER_SECONDS} s"
        return Finding(
            "mcp", "server", "problem", detail, "run 'anyshell mcp </dev/null' and see what it says"
        )
    return Finding("mcp", "server", "ok", f"gives {', '.join(names)}; a call without approval is {status}")
