"""The configuration lines for the server, in the format of each client program."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

FILES = {
    "claude": ".mcp.json",
    "codex": "~/.codex/config.toml",
    "cursor": ".cursor/mcp.json or ~/.cursor/mcp.json",
    "gemini": "~/.gemini/settings.json or .gemini/settings.json",
    "vscode": ".vscode/mcp.json",
    "zed": "Zed's settings.json",
}
"""The client programs and their configuration files, from the documentation of each program in November 2026."""

_KEYS = {"vscode": "servers", "zed": "context_servers"}
_STARTUP_SECONDS = 30  # no bound: the start-up timeout in the configuration
_LONGEST_CALL_SECONDS = 3900  # no bound: the call timeout in the configuration, for an hour and an approval


def config_of(program: str, argv: Sequence[str]) -> str:
    """Return the lines for a program: JSON to merge into the file; for codex, TOML to append to the file.

    Args:
        program: One of `FILES`.
        argv: The command line of the server.
    """
    command, *args = argv
    if program == "codex":  # a JSON string is also a TOML string
        return (
            f"[mcp_servers.anyshell]\ncommand = {json.dumps(command)}\nargs = {json.dumps(args)}\n"
            f"startup_timeout_sec = {_STARTUP_SECONDS}\ntool_timeout_sec = {_LONGEST_CALL_SECONDS}"
        )
    entry: dict[str, Any] = {"command": command, "args": args}
    if program in ("claude", "vscode"):
        entry = {"type": "stdio", **entry}
    if program == "gemini":
        entry["timeout"] = _LONGEST_CALL_SECONDS * 1000
    return json.dumps({_KEYS.get(program, "mcpServers"): {"anyshell": entry}}, indent=2, ensure_ascii=False)
