"""MCP resources for a client: kept outputs and jobs, with news of jobs, and completions of addresses."""

from __future__ import annotations

import asyncio
import contextlib
import re
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

import anyio
import mcp_types as types
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    ResourcesListChanged,
    ResourceUpdated,
)
from mcp.shared.exceptions import MCPError

from .._exceptions import AnyshellError
from .._waits import in_a_worker
from ..backends.ssh.connection.aliases import find_aliases
from ..policy import visible_lines

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

    from .._environment import Environment
    from ..jobs import Job
    from ..tool import ShellTool
    from .approval import Context

SUBSCRIPTIONS = 100
"""Resources with news for one client at once; one more is an error."""

NEWS_SECONDS = 1.0
"""Seconds between two notifications about one job, at least."""

COMPLETIONS = 100
"""Completions that one answer holds, the first ones; the protocol allows no more."""

_PATIENCE = 60.0
"""Seconds of one wait for a job's output; then the job's status is checked, and the wait begins again."""

TEMPLATES = [
    types.ResourceTemplate(
        name="artifact",
        title="A kept output",
        uri_template="artifact://{id}{?lines,bytes,tail,grep,context}",
        description="The raw output that a result has shown in part: lines=100-200, bytes=0-4095, tail=50, grep=REGEX&context=3.",
    ),
    types.ResourceTemplate(
        name="job",
        title="What a job has printed",
        uri_template="job://{id}{?since}",
        description="By default the end of it; since=BYTES skips what came before. It can be subscribed to.",
        mime_type="text/plain",
    ),
]
"""The templates of all addresses that can be read."""

PROMPT = types.Prompt(
    name="run",
    title="Run a command",
    arguments=[
        types.PromptArgument(name="command", required=True),
        types.PromptArgument(name="directory", description="Where it runs."),
        types.PromptArgument(name="host", description="A host of ssh_config, to run it there by ssh."),
    ],
)
"""The only prompt; a client can complete the prompt's arguments."""


class ClientResources:
    """The resources of one client: the outputs that the tool has kept, and the jobs of the environment."""

    def __init__(self, env: Environment, tool: ShellTool) -> None:
        self._env = env
        self._tool = tool
        self._bus = InMemorySubscriptionBus()
        self._streams = ListenHandler(self._bus, max_subscriptions=SUBSCRIPTIONS)
        self._told: dict[str, asyncio.Task[None]] = {}
        self._names: set[str] = set()

    def listed(self) -> list[types.Resource]:
        """Return the resources: the jobs, and the outputs that results have named."""
        kept = [
            types.Resource(name=name, uri=f"artifact://{name}", title="A kept output")
            for name in self._tool.kept
        ]
        return [*map(_resource, self._jobs()), *kept]

    async def read(self, uri: str) -> types.ReadResourceResult:
        """Read a resource.

        Raises:
            MCPError: The address is unknown or malformed, or the resource cannot be read.
        """
        scheme, _, name = uri.partition("://")
        try:
            if scheme == "artifact" and name.partition("?")[0] in self._tool.kept:
                return await self._artifact(uri)
            if scheme == "job":
                return await self._job(uri)
        except (AnyshellError, OSError, ValueError) as error:
            raise MCPError(types.INVALID_PARAMS, str(error), {"uri": uri}) from error
        raise MCPError(types.INVALID_PARAMS, "there is no such resource", {"uri": uri})

    async def _artifact(self, uri: str) -> types.ReadResourceResult:
        store = self._env.artifacts
        assert store is not None  # a result has named an output in it
        view = await in_a_worker(partial(store.view, uri))
        contents: list[Any] = [_content(uri, view.data)]
        if view.next is not None:
            contents.append(types.TextResourceContents(uri=view.next, text=f"[anyshell] {view.note}"))
        return types.ReadResourceResult(contents=contents)

    async def _job(self, uri: str) -> types.ReadResourceResult:
        job, query = self._asked(uri)
        most = max(1, self._env.limits.size)
        since = int(query["since"]) if "since" in query else max(0, job.printed - most)
        piece = await job.output(since, limit=most)
        facts = {"status": job.status, "offset": piece.offset, "total_bytes": piece.total_bytes}
        content = types.TextResourceContents(uri=uri, text=piece.text, mime_type="text/plain", _meta=facts)
        return types.ReadResourceResult(contents=[content])

    def _asked(self, uri: str) -> tuple[Job, dict[str, str]]:
        job_id, _, query = uri.removeprefix("job://").partition("?")
        found = next((job for job in self._jobs() if job.id == job_id), None)
        if found is None:
            raise AnyshellError("there is no such job")
        return found, dict(parse_qsl(query))

    def _jobs(self) -> Iterable[Job]:
        return self._env.jobs.list() if self._env.entered else ()

    async def tell_of_new(self) -> None:
        """Notify the client's open streams if the set of resources has changed."""
        names = {resource.uri for resource in self.listed()}
        if names != self._names:
            self._names = names
            await self._bus.publish(ResourcesListChanged())

    def subscribe(self, context: Context, uri: str) -> None:
        """Notify a client of the handshake era about news of a job. A kept output and an unknown job have no news.

        Raises:
            MCPError: The client has too many subscriptions.
        """
        if uri in self._told:
            return
        self._told = {each: task for each, task in self._told.items() if not task.done()}
        if len(self._told) >= SUBSCRIPTIONS:
            raise MCPError(types.INTERNAL_ERROR, f"there are {SUBSCRIPTIONS} subscriptions: end one of them")
        self._told[uri] = asyncio.ensure_future(
            self._watch(uri, partial(context.session.send_resource_updated, uri))
        )

    def unsubscribe(self, uri: str) -> None:
        """End the subscription to a resource; do nothing without a subscription."""
        task = self._told.pop(uri, None)
        if task is not None:
            task.cancel()

    async def listen(
        self, context: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Notify a client of the stateless era about news of resources, as long as the client listens."""
        uris = (params.notifications.resource_subscriptions or ())[:SUBSCRIPTIONS]
        async with anyio.create_task_group() as tasks:
            for uri in uris:
                tasks.start_soon(self._watch, uri, partial(self._bus.publish, ResourceUpdated(uri)))
            result = await self._streams(context, params)
            tasks.cancel_scope.cancel()
        return result

    async def _watch(self, uri: str, tell: Callable[[], Awaitable[None]]) -> None:
        with contextlib.suppress(
            AnyshellError, MCPError, anyio.ClosedResourceError, anyio.BrokenResourceError
        ):
            job, _ = self._asked(uri)
            async for _ in news(job):
                await tell()

    async def complete(self, argument: str, begun: str) -> types.Completion:
        """Return the completions of a value for an argument."""
        match argument:
            case "id":
                found = [job.id for job in self._jobs()] + list(self._tool.kept)
            case "host":
                found = await in_a_worker(find_aliases)
            case "directory":
                found = await self._directories(begun)
            case _:
                found = []
        # Linux allows names that are not text; such a name cannot be sent.
        fitting = [
            each
            for each in found
            if each.startswith(begun) and each == each.encode(errors="replace").decode()
        ]
        return types.Completion(
            values=fitting[:COMPLETIONS], total=len(fitting), has_more=len(fitting) > COMPLETIONS
        )

    async def _directories(self, begun: str) -> list[str]:
        separator = "\\" if self._env.os == "windows" and "/" not in begun else "/"
        parent = begun[: begun.rfind(separator) + 1]
        try:
            where = self._env.info.resolve(parent or None, self._env.directory)
            pattern = re.sub(r"([*?\[])", r"[\1]", begun[len(parent) :]) + "*" + separator
            found = await self._env.files.glob(pattern, directory=where)
        except (AnyshellError, OSError, ValueError):
            return []
        names = (path.rstrip(separator).rpartition(separator)[2] for path in found)
        return [f"{parent}{name}{separator}" for name in names]

    def close(self) -> None:
        """End all subscriptions and streams."""
        for uri in tuple(self._told):
            self.unsubscribe(uri)
        self._streams.close()


async def news(job: Job) -> AsyncIterator[None]:
    """Yield after new output of a job, and after the job's end."""
    seen, ended = job.printed, job.status != "running"
    while not ended:
        await job.output(seen, limit=1, wait=_PATIENCE)
        # The job may end without new output: the end is news as well.
        ended = job.status != "running"
        if ended or job.printed > seen:
            seen = job.printed
            yield
            await asyncio.sleep(NEWS_SECONDS)


def prompt(name: str, arguments: dict[str, str]) -> types.GetPromptResult:
    """Return the text of a prompt.

    Raises:
        MCPError: The prompt is unknown, or its command is missing.
    """
    if name != PROMPT.name or not arguments.get("command"):
        raise MCPError(types.INVALID_PARAMS, "there is the prompt 'run', with the argument 'command'")
    where = "".join(
        f" {word} {arguments[key]}"
        for key, word in (("directory", "in the directory"), ("host", "by ssh on the host"))
        if arguments.get(key)
    )
    text = types.TextContent(text=f"Run this command with the tool shell{where}:\n\n{arguments['command']}")
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=text)])


def _resource(job: Job) -> types.Resource:
    return types.Resource(
        name=job.id,
        uri=f"job://{job.id}",
        title="What a job has printed",
        description=visible_lines(job.command)[:200],
        mime_type="text/plain",
    )


def _content(uri: str, data: bytes) -> types.TextResourceContents | types.BlobResourceContents:
    try:
        return types.TextResourceContents(uri=uri, text=data.decode(), mime_type="text/plain")
    except UnicodeDecodeError:
        import base64

        blob = base64.b64encode(data).decode()
        return types.BlobResourceContents(uri=uri, blob=blob, mime_type="application/octet-stream")
