"""The lines by which a program is told of the server, in the form of each program."""

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
"""The programs, and the file that each reads. It was looked up in the documentation of each in November 2026."""

_KEYS = {"vscode": "servers", "zed": "context_servers"}
_STARTUP_SECONDS = 30  # no bound: what a program is told to wait, at the start
_LONGEST_CALL_SECONDS = 3900  # no bound: the same for a call, which can take an hour and an approval


def config_of(program: str, argv: Sequence[str]) -> str:
    """The lines for a program: JSON to be merged into the file, for codex TOML to be appended to it.

    Args:
        program: One of `FILES`.
        argv: The command line of the server.
    """
    command, *args = argv
    if program == "codex":  # a string of JSON is one of TOML as well
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
