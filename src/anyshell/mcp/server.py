"""The server of the protocol: what a client can ask for, and who carries it out."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import mcp_types as types
from mcp.server.lowlevel import Server

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from .approval import Context
    from .tools import ClientTools


def make(tools_of: Callable[[Context], Awaitable[ClientTools]]) -> Server[Any]:
    """Make a server.

    Args:
        tools_of: Gives the tools of the client that a request comes from.
    """

    async def list_tools(
        context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        tools = await tools_of(context)
        return types.ListToolsResult(tools=tools.listed(context))

    async def call_tool(
        context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        tools = await tools_of(context)
        return await tools.call(context, params)

    return Server(
        "anyshell",
        title="anyshell",
        version=version("anyshell"),
        website_url=None,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
