"""The MCP server, with a handler for each kind of request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import mcp_types as types
from mcp.server.lowlevel import Server

from .. import __version__
from .resources import PROMPT, TEMPLATES, prompt

if TYPE_CHECKING:
    from .approval import Context
    from .tools import Clients


def make(clients: Clients) -> Server[Any]:
    """Return an MCP server that answers the requests of clients."""
    tools_of = clients.tools_of

    async def list_tools(
        context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=await clients.list_tools(context))

    async def call_tool(
        context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        return await clients.call(context, params)

    async def list_resources(
        context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        tools = await tools_of(context)
        return types.ListResourcesResult(resources=tools.resources.listed())

    async def list_templates(
        context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=TEMPLATES)

    async def read(context: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        tools = await tools_of(context)
        return await tools.resources.read(params.uri)

    async def subscribe(context: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        tools = await tools_of(context)
        tools.resources.subscribe(context, params.uri)
        return types.EmptyResult()

    async def unsubscribe(context: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        tools = await tools_of(context)
        tools.resources.unsubscribe(params.uri)
        return types.EmptyResult()

    async def listen(
        context: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        tools = await tools_of(context)
        return await tools.resources.listen(context, params)

    async def complete(context: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
        tools = await tools_of(context)
        argument = params.argument
        return types.CompleteResult(completion=await tools.resources.complete(argument.name, argument.value))

    async def list_prompts(
        context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=[PROMPT])

    async def get_prompt(context: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        return prompt(params.name, params.arguments or {})

    return Server(
        "anyshell",
        title="anyshell",
        version=__version__,
        get_tool_input_schema=lambda _: None,  # no parameter is declared to be in a header
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read,
        on_subscribe_resource=subscribe,
        on_unsubscribe_resource=unsubscribe,
        on_subscriptions_listen=listen,
        on_completion=complete,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
    )
