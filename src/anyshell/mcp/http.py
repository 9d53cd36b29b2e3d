"""The protocol over streamable HTTP on loopback: the check of clients, and an environment for each client.

A client of the handshake era is identified by its session. A client of the stateless era has no session: if calls leave a state
behind, the first result has a handle, and the client names the handle in later calls. All clients belong to this user, since
every request must show the token.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import os
import secrets
import socket
from collections import Counter
from typing import TYPE_CHECKING, Any

import mcp_types as types
import uvicorn
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from .._exceptions import AnyshellError
from .._private import check_directory, create_file, make_directories, state_directory
from .._waits import shielded, to_the_end
from .stdio import LONGEST_MESSAGE
from .tools import refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from mcp.server.lowlevel import Server
    from starlette.types import ASGIApp, Receive, Scope, Send

    from .approval import ClientApprovals, Context
    from .tools import ClientTools

CLIENTS = 50
"""Clients with an environment of their own at once; for one more, the client without jobs that is idle longest is ended."""

IDLE_SECONDS = 1800.0
"""Seconds without an open request of a client; then the client's environment ends, with its shell and its jobs."""

ENDED = 1000
"""Ended clients that are remembered, so that a later call is told of the end; beyond that the oldest is forgotten."""

CONNECTIONS = 200
"""Connections of all clients at once; one more is refused."""

IDLE_CONNECTIONS = 100
"""Connections without an open request at once; for one more, the connection that is idle longest is closed."""

ENDING_SECONDS = 1
"""Seconds for open requests to end when the server ends; then the requests are cancelled."""

_TOKEN_BYTES = 32  # no bound: the length of a key
_STATELESS = ""
_STATE = {
    "type": "string",
    "description": "The state that an earlier result has named, to go on with its shell and its jobs. Without it, they are new.",
}


class _Client:
    """One client. A task of its own holds the client's environment, so that any other task can end it."""

    def __init__(self, tools: AbstractAsyncContextManager[ClientTools]) -> None:
        self.idle_since = 0.0
        self._over = asyncio.Event()
        self._tools: asyncio.Future[ClientTools] = asyncio.get_running_loop().create_future()
        self._life = asyncio.ensure_future(self._live(tools))

    async def _live(self, tools: AbstractAsyncContextManager[ClientTools]) -> None:
        try:
            async with tools as made:
                self._tools.set_result(made)
                await self._over.wait()
        except Exception as error:  # noqa: BLE001 - it is raised where the tools are awaited
            if not self._tools.done():
                self._tools.set_exception(error)

    async def tools(self) -> ClientTools:
        return await shielded(self._tools)

    @property
    def has_jobs(self) -> bool:
        return self._tools.done() and not self._tools.exception() and self._tools.result().has_jobs

    async def end(self) -> None:
        self._over.set()
        await asyncio.wait([self._life])


class HTTPClients:
    """The clients of one server, each with an environment of its own.

    Args:
        open_tools: Makes the tools of a client, in a context.
        approvals: The approvals, which ask the users of clients.
        stateful: Whether calls leave a state behind that later calls need.
    """

    def __init__(
        self,
        open_tools: Callable[[], AbstractAsyncContextManager[ClientTools]],
        approvals: ClientApprovals,
        *,
        stateful: bool,
    ) -> None:
        self._open = open_tools
        self._approvals = approvals
        self._stateful = stateful
        self._clients: dict[str, _Client] = {}
        self._used: Counter[str] = Counter()
        self._ended: dict[str, None] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._ending: set[asyncio.Task[None]] = set()

    async def tools_of(self, context: Context) -> ClientTools:
        """Return the tools of the client that sent a request; clients of the stateless era share one set of tools."""
        return await self._opened(_session_of(context))

    async def list_tools(self, context: Context) -> list[types.Tool]:
        """Return the tools that the model of a client sees."""
        tools = await (await self.tools_of(context)).list_tools(context)
        if self._stateful and not _session_of(context):
            for tool in tools:
                tool.input_schema["properties"]["state"] = _STATE
                if tool.output_schema is not None:
                    tool.output_schema["properties"]["state"] = {"type": "string"}
        return tools

    async def call(
        self, context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Carry out a call in the environment of its client.

        Raises:
            MCPError: Too many clients have an environment, or the environment cannot be made.
        """
        session = _session_of(context)
        if session in self._ended and session not in self._clients:
            del self._ended[session]
            return refused(
                "Not run: the shell and the jobs of this session have ended. Call again to begin new ones."
            )
        if session or not self._stateful:
            with self.busy(session):
                return await (await self._opened(session)).call(context, params, client=session)
        arguments = dict(params.arguments or {})
        handle = arguments.pop("state", None) or self._approvals.client_of(params.request_state)
        if handle is None:
            handle = secrets.token_urlsafe(12)
        elif handle not in self._clients:
            return refused(
                "Not run: there is no such state; it has ended. Leave state out to begin a new one."
            )
        params = params.model_copy(update={"arguments": arguments})
        with self.busy(handle):
            result = await (await self._opened(handle)).call(context, params, client=handle)
        if isinstance(result, types.CallToolResult) and result.structured_content is not None:
            said = types.TextContent(text=f"[anyshell] To go on from here, give state {handle}.")
            result.content.append(said)
            result.structured_content["state"] = handle
        return result

    @contextlib.contextmanager
    def busy(self, key: str) -> Iterator[None]:
        """Keep a client's environment from becoming idle within the context; the environment may be made only later."""
        self._used[key] += 1
        self._end_timer(key)
        try:
            yield
        finally:
            self._used[key] -= 1
            if not self._used[key]:
                del self._used[key]
                if (client := self._clients.get(key)) is not None:
                    loop = asyncio.get_running_loop()
                    client.idle_since = loop.time()
                    self._timers[key] = loop.call_later(IDLE_SECONDS, self.end, key)

    def _end_timer(self, key: str) -> None:
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()

    async def _opened(self, key: str) -> ClientTools:
        try:
            return await self._client(key).tools()
        except AnyshellError as error:
            self.end(key)
            raise MCPError(types.INTERNAL_ERROR, str(error)) from error

    def _client(self, key: str) -> _Client:
        client = self._clients.get(key)
        if client is None:
            if key != _STATELESS and len(self._clients.keys() - {_STATELESS}) >= CLIENTS:
                self._make_room()
            client = self._clients[key] = _Client(self._open())
        return client

    def _make_room(self) -> None:
        idle = {
            key: client.idle_since
            for key, client in self._clients.items()
            if key != _STATELESS and not (key in self._used or client.has_jobs)
        }
        if not idle:
            raise MCPError(types.INTERNAL_ERROR, f"{CLIENTS} clients have an environment: end one of them")
        self.end(min(idle, key=lambda key: idle[key]))

    def end(self, key: str) -> None:
        """End the environment of a client; do nothing without an environment."""
        self._end_timer(key)
        client = self._clients.pop(key, None)
        if client is not None:
            if self._stateful:
                self._ended[key] = None
                if len(self._ended) > ENDED:
                    del self._ended[next(iter(self._ended))]
            task = asyncio.ensure_future(client.end())
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    @property
    def known(self) -> tuple[str, ...]:
        """The sessions and handles of the clients with an environment."""
        return tuple(self._clients)

    async def aclose(self) -> None:
        """End the environments of all clients."""
        for key in tuple(self._clients):
            self.end(key)
        if self._ending:
            await asyncio.wait(self._ending)


def _session_of(context: Context) -> str:
    if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return _STATELESS
    headers: Any = getattr(context.request, "headers", {})
    return str(headers.get("mcp-session-id", _STATELESS))


class _Guarded:
    """A filter that passes only requests with the token, and keeps a session's environment during open requests."""

    def __init__(self, app: ASGIApp, token: str, clients: HTTPClients) -> None:
        self._app = app
        self._expected = token.encode()
        self._clients = clients

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        scheme, _, shown = headers.get("authorization", "").partition(" ")
        # The scheme is case-insensitive (RFC 9110, 11.1).
        if scheme.lower() != "bearer" or not hmac.compare_digest(shown.strip(" ").encode(), self._expected):
            refusal = PlainTextResponse("a token is needed", 401, {"WWW-Authenticate": "Bearer"})
            await refusal(scope, receive, send)
            return
        session = headers.get("mcp-session-id", _STATELESS)
        if session == _STATELESS:
            await self._app(scope, receive, send)
            return
        with self._clients.busy(session):
            await self._app(scope, receive, send)
        if scope["method"] == "DELETE":
            self._clients.end(session)


class _Connection(H11Protocol):
    """A connection with a bound on idle ones: uvicorn closes only silent connections, and only after their first request."""

    idle_since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        super().connection_made(transport)
        self.idle_since = self.loop.time()
        idle = [each for each in self.connections if isinstance(each, _Connection) and each.is_idle]
        if len(idle) > IDLE_CONNECTIONS:
            min(idle, key=lambda each: each.idle_since).transport.abort()

    def on_response_complete(self) -> None:
        self.idle_since = self.loop.time()
        super().on_response_complete()

    @property
    def is_idle(self) -> bool:
        """Whether no request is open; a request begins when its head is complete."""
        if self.transport.is_closing():
            return False
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is None or cycle.response_complete


class _Uvicorn(uvicorn.Server):
    """A server that leaves the signals of this program alone."""

    def capture_signals(self) -> AbstractAsyncContextManager[None]:  # type: ignore[override]  # it is entered by with
        return contextlib.nullcontext()


async def serve(
    server: Server[Any], clients: HTTPClients, *, port: int, tell: Callable[[str], object]
) -> None:
    """Serve until the task is cancelled; `tell` is given the address and the file of the token.

    Raises:
        AnyshellError: The port is taken, or the token cannot be read.
    """
    file = state_directory("mcp") / "token"
    token = read_token(file)
    listening = _listening(port)
    with contextlib.closing(listening):
        port = listening.getsockname()[1]
        config = uvicorn.Config(
            application(server, clients, token, port),
            log_config=None,
            access_log=False,
            http=_Connection,
            ws="none",
            limit_concurrency=CONNECTIONS,
            timeout_graceful_shutdown=ENDING_SECONDS,
        )
        uvicorn_server = _Uvicorn(config)

        def stop() -> None:
            uvicorn_server.should_exit = True

        tell(f"serving http://127.0.0.1:{port}/mcp; the token is in {file}")
        try:
            await to_the_end(uvicorn_server.serve(sockets=[listening]), stop)
        finally:
            await to_the_end(clients.aclose(), lambda: None)


def application(server: Server[Any], clients: HTTPClients, token: str, port: int) -> ASGIApp:
    """Return the application for a port; it answers only requests with the token and with this server's host name."""
    names = [f"{name}:{port}" for name in ("127.0.0.1", "localhost")]
    app = server.streamable_http_app(
        max_request_body_size=LONGEST_MESSAGE,
        session_idle_timeout=IDLE_SECONDS,
        max_sessions=CLIENTS,
        transport_security=TransportSecuritySettings(
            allowed_hosts=names, allowed_origins=[f"http://{name}" for name in names]
        ),
    )
    return _Guarded(app, token, clients)


def _listening(port: int) -> socket.socket:
    try:
        return socket.create_server(("127.0.0.1", port))
    except OSError as error:
        raise AnyshellError(f"cannot listen on port {port} of loopback: {error.strerror}") from error


def read_token(file: Path) -> str:
    """Return the token in a file that only this user can read; make a missing file.

    Raises:
        AnyshellError: The file cannot be made or read, the token is too short, or other users may have written the file.
    """
    refusal = "the directory of the token need not be yours: {fault}"
    try:
        make_directories(file.parent)
        check_directory(file.parent, refusal=refusal)
        if not file.exists():
            _make_token(file)
        token = file.read_text(encoding="ascii").strip()
    except (OSError, ValueError) as error:
        raise AnyshellError(f"the token in {file} cannot be used: {error}") from error
    if len(token) < _TOKEN_BYTES:
        raise AnyshellError(f"the token in {file} is too short: remove the file, and a new one is made")
    return token


def _make_token(file: Path) -> None:
    """Create the file atomically with its content, unless another server has created the file first."""
    new = file.with_name(f"{file.name}.{secrets.token_hex(8)}")
    with open(create_file(str(new)), "w", encoding="ascii") as made:
        made.write(secrets.token_urlsafe(_TOKEN_BYTES))
    try:
        with contextlib.suppress(FileExistsError):
            os.link(new, file)
    finally:
        new.unlink()
