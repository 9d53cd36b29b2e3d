"""The tools of one client: calls of the protocol in, results of the protocol out."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Protocol

import anyio
import mcp_types as types
from mcp.shared.exceptions import MCPError

from ..tool import JobResult, ShellResult, ShellTool, ToolLimits
from .approval import QUESTION_SECONDS, BadStateError, can_ask
from .resources import ClientResources

if TYPE_CHECKING:
    from .._environment import Environment
    from ..tool import JobTool, ToolDefinition, Update
    from .approval import ClientApprovals, Context

CALLS = 1000
"""Calls of one client under way at once; one more is an error."""

RUNNING = 16
"""Calls of one client's shell tool that run at once; more wait for a turn."""

PROGRESS_SECONDS = 0.25
"""Seconds between two notifications of a call's progress, at least."""

PROGRESS_BYTES = 2048
"""Bytes of output in a notification of progress, at most: the end of the output so far."""

_READ_ONLY = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": False, "openWorldHint": False}


class Clients(Protocol):
    """The clients whose requests a server serves."""

    async def tools_of(self, context: Context) -> ClientTools:
        """Return the tools of the client that sent a request."""

    async def list_tools(self, context: Context) -> list[types.Tool]:
        """Return the tools that the model of a client sees."""

    async def call(
        self, context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Carry out one call."""


class ClientTools:
    """The tools `shell` and `job` of one client; over stdio this is the only client of the server.

    Args:
        env: The environment of the commands.
        approvals: The approvals, which ask the client's user.
        session: As for `ShellTool`.
        jobs: As for `ShellTool`.
        terminals: As for `ShellTool`.

    Attributes:
        resources: The resources that the client can read.
    """

    def __init__(
        self,
        env: Environment,
        approvals: ClientApprovals,
        *,
        session: bool = False,
        jobs: bool = False,
        terminals: bool = False,
    ) -> None:
        self._env = env
        self._approvals = approvals
        limits = ToolLimits(
            approval_timeout=QUESTION_SECONDS,
            update_interval=PROGRESS_SECONDS,
            update_bytes=PROGRESS_BYTES,
        )
        self._shell = ShellTool(
            env,
            approver=approvals.ask_client,
            limits=limits,
            session=session,
            jobs=jobs,
            terminals=terminals,
            ask_each=True,
        )
        self.resources = ClientResources(env, self._shell)
        self._job: JobTool | None = self._shell.job_tool if jobs or terminals else None
        self._under_way = 0
        self._turns = anyio.Semaphore(RUNNING)

    @property
    def has_jobs(self) -> bool:
        """Whether a job of the client runs."""
        return any(job.status == "running" for job in self._env.jobs.list())

    async def tools_of(self, context: Context) -> ClientTools:
        """Return these tools, for a server with one client."""
        return self

    async def list_tools(self, context: Context) -> list[types.Tool]:
        """Return the tools that the model of the client sees."""
        shell = _tool_description(self._shell.definition, ShellResult)
        if self._only_reads(context):
            shell["annotations"] |= _READ_ONLY
        told = [shell] if self._job is None else [shell, _tool_description(self._job.definition, JobResult)]
        return [types.Tool.model_validate(each) for each in told]

    def _only_reads(self, context: Context) -> bool:
        """Whether only reading commands can run: the preset allows no others, and the client cannot ask its user for more."""
        policy = self._env.policy
        if policy is None or policy.name != "read-only":
            return False
        more = any(rule.action == "allow" for rule in (*policy.own, *policy.administrator))
        return not more and not can_ask(context)

    async def call(
        self, context: Context, params: types.CallToolRequestParams, *, client: str = ""
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Carry out one call of a client.

        Raises:
            MCPError: The tool is unknown, too many calls are under way, or the call's state approves nothing.
        """
        if params.name != "shell" and (params.name != "job" or self._job is None):
            raise MCPError(types.INVALID_PARAMS, f"there is no tool {params.name[:60]!r}")
        if self._under_way >= CALLS:
            raise MCPError(types.INTERNAL_ERROR, f"{CALLS:,} calls are under way: wait for one of them")
        try:
            exchange = self._approvals.begin(context, params, client)
        except BadStateError as error:
            message = f"not run: {error}; call again without requestState"
            raise MCPError(types.INVALID_PARAMS, message, {"reason": "invalid_request_state"}) from error
        self._under_way += 1
        try:
            made = await self._made(context, params, exchange.id)
        finally:
            self._under_way -= 1
            self._approvals.end(exchange)
        await self.resources.tell_of_new()
        question = self._approvals.question(exchange) if made.details.status == "refused" else None
        return question or result_of(made)

    async def _made(
        self, context: Context, params: types.CallToolRequestParams, call_id: str
    ) -> ShellResult | JobResult:
        arguments = params.arguments or {}
        if params.name == "job":
            assert self._job is not None
            return await self._job(arguments, call_id=call_id)
        steps = itertools.count(1)

        async def tell(update: Update) -> None:
            await context.session.report_progress(next(steps), None, update)

        watched = context.meta is not None and context.meta.get("progress_token") is not None
        async with self._turns:
            return await self._shell(arguments, on_update=tell if watched else None, call_id=call_id)


def _tool_description(definition: ToolDefinition, result: type[ShellResult | JobResult]) -> dict[str, Any]:
    return {**definition.as_format("mcp"), "title": definition.title, "outputSchema": schema_of(result)}


def schema_of(result: type[ShellResult | JobResult]) -> dict[str, Any]:
    """Return the JSON schema of a result's structured content."""
    schema: dict[str, Any] = _plain(result.model_json_schema())
    for name in _IN_TEXT:
        del schema["properties"][name]
    schema["required"] = [name for name in schema["required"] if name not in _IN_TEXT]
    del schema["$defs"]["DisplayBlock"]
    return schema


def _plain(schema: Any) -> Any:
    """Return a schema without titles and descriptions, which no program needs."""
    if isinstance(schema, dict):
        words = {key for key in ("title", "description") if isinstance(schema.get(key), str)}
        return {key: _plain(value) for key, value in schema.items() if key not in words}
    return [_plain(each) for each in schema] if isinstance(schema, list) else schema


_IN_TEXT = {"text", "display"}
"""Fields of a result that the structured content leaves out: `text` is for a model, `display` for a person."""


def result_of(made: ShellResult | JobResult) -> types.CallToolResult:
    """Return a result in the protocol's form: as text for the model, as structured content for a program."""
    return types.CallToolResult(
        content=[types.TextContent(text=made.text)],
        structured_content=made.model_dump(mode="json", exclude=_IN_TEXT),
        is_error=made.is_error,
    )


def refused(message: str) -> types.CallToolResult:
    """Return the result of a call that ran nothing."""
    details = {"status": "refused"}
    return types.CallToolResult(
        content=[types.TextContent(text=f"[anyshell] {message}")],
        structured_content={"is_error": True, "output": "", "message": message, "details": details},
        is_error=True,
    )
