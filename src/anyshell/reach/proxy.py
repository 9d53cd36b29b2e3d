"""The proxy of one command: the only way out of its network. The proxy allows by name, and connects to the checked address."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
import socket
from functools import partial
from typing import TYPE_CHECKING

from .._types.checks import one_line
from .._types.names import Address, Names, host_of, is_public
from .._types.network import Destination, Network
from .._waits import in_a_worker, shielded
from .requests import Client, Malformed, Request, body_of, read_request

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from .._types.network import Contact

    Ask = Callable[[str, int], Awaitable[str]]
    """A callback that returns why a destination is refused; an empty text allows the destination."""

    Resolve = Callable[[str, int], Sequence[str]]
    """A callback that returns the addresses of a name, and may block."""

CONNECTIONS = 128
"""Connections of one command to its proxy at once; another connection waits until one has ended."""

HEAD_SECONDS = 20.0
"""Seconds for a client to send its request; then the client's connection is closed."""

RESOLVE_SECONDS = 15.0
"""Seconds to resolve the addresses of a name; then the connection fails."""

CONNECT_SECONDS = 20.0
"""Seconds to connect to one address of a name; then the next address is tried."""

MOST_ADDRESSES = 8
"""Addresses of a name that are tried, one after the other; further addresses are not tried."""

IDLE_SECONDS = 3600.0
"""Seconds without traffic in either direction of a connection; then the connection is closed."""

CHUNK_BYTES = 512 * 1024
"""Bytes in transit in each direction of a connection; further bytes are read only after the bytes in transit are sent."""

MOST_DESTINATIONS = 256
"""Destinations that an outcome lists; connections to further destinations are only counted."""

MOST_QUESTIONS = 20
"""Destinations of one command that its approver is asked about; a further destination is refused without a question."""

REFUSED_BYTES = 1024 * 1024
"""Bytes that are read from a refused client, so that the client can read the reason; then its connection is reset."""


class NetworkRecord:
    """The network use of a command so far.

    Args:
        ask: The callback for destinations that are not among the names; ``None`` refuses such destinations.
    """

    def __init__(self, ask: Ask | None = None) -> None:
        self.ask = ask
        self.answers: dict[tuple[str, int], asyncio.Future[str]] = {}
        self.unlisted = 0
        self._tallies: dict[tuple[str, int, Contact, str], Tally] = {}

    def forget(self) -> None:
        """Cancel the questions that have no answer yet."""
        for answer in self.answers.values():
            answer.cancel()

    def add(self, name: str, port: int, verdict: Contact, why: str = "") -> Tally:
        """Count a connection, and return the tally of its destination."""
        key = (name, port, verdict, why)
        if (tally := self._tallies.get(key)) is None:
            tally = Tally()
            if len(self._tallies) >= MOST_DESTINATIONS:
                self.unlisted += 1
                return tally
            self._tallies[key] = tally
        tally.connections += 1
        return tally

    def network(self) -> Network:
        """Return the record as a value."""
        return Network(
            destinations=tuple(
                Destination(
                    name=name,
                    port=port,
                    verdict=verdict,
                    why=why,
                    connections=tally.connections,
                    sent=tally.sent,
                    received=tally.received,
                )
                for (name, port, verdict, why), tally in self._tallies.items()
            ),
            unlisted=self.unlisted,
        )


class Tally:
    """The traffic of the connections to one destination."""

    __slots__ = ("connections", "received", "sent")

    def __init__(self) -> None:
        self.connections = self.sent = self.received = 0


class Stopped(Exception):  # noqa: N818 - an answer; it never leaves the proxy
    """The connection to a destination is refused or has failed."""

    def __init__(self, verdict: Contact, why: str) -> None:
        super().__init__(why)
        self.verdict: Contact = verdict


def addresses_of(name: str, port: int) -> Sequence[str]:
    """Return the addresses of a name, by this machine's resolver."""
    found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


class Proxy:
    """The proxy for the clients of one listening socket, until the proxy is closed.

    Args:
        listener: The socket to which clients connect. The proxy takes over the socket.
        names: The names that clients may connect to.
        record: The record that counts connections and has the `Ask` callback; each command of a session may have another.
        resolve: The callback that returns the addresses of a name.
    """

    def __init__(
        self, listener: socket.socket, names: Names, record: NetworkRecord, *, resolve: Resolve = addresses_of
    ) -> None:
        listener.setblocking(False)
        self.record = record
        self._listener = listener
        self._names = names
        self._resolve = resolve
        self._room = asyncio.Semaphore(CONNECTIONS)
        self._tasks: set[asyncio.Task[None]] = set()
        self._accepting = asyncio.get_running_loop().create_task(self._accept())

    async def aclose(self) -> None:
        """Close every connection, and wait until all are closed."""
        tasks = (self._accepting, *self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._listener.close()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._room.acquire()
            try:
                client, _ = await loop.sock_accept(self._listener)
            except OSError:  # no free descriptor, or the client is gone
                self._room.release()
                await asyncio.sleep(0.05)
                continue
            task = loop.create_task(self._served(client, self.record))
            self._tasks.add(task)
            task.add_done_callback(partial(self._end, client))

    def _end(self, client: socket.socket, task: asyncio.Task[None]) -> None:
        client.close()  # a task that was cancelled before it began has not closed it
        self._tasks.discard(task)
        self._room.release()

    async def _served(self, sock: socket.socket, record: NetworkRecord) -> None:
        with sock, contextlib.suppress(OSError, EOFError, OverflowError, TimeoutError):
            sock.setblocking(False)
            client = Client(sock)
            try:
                async with asyncio.timeout(HEAD_SECONDS):
                    request = await read_request(client)
            except (Malformed, EOFError, TimeoutError) as error:
                record.unlisted += 1
                if isinstance(error, Malformed):
                    await self._told(client, error.answer)
                return
            name, tally = one_line(request.host[:260]), None
            try:
                host = _host(request)
                name = str(host)
                server = await self._reached(host, request.port, record)
                tally = record.add(name, request.port, "allowed")
            except Stopped as stopped:
                record.add(name, request.port, stopped.verdict, str(stopped))
                said = f"{name}:{request.port}: {stopped}"
                await self._told(client, request.answer(stopped.verdict, said))
                return
            with server:
                await self._carried(client, server, request, tally)

    async def _told(self, client: Client, answer: bytes) -> None:
        """Send a refusal to a client, and read its remaining bytes: a close with unread bytes would reset the connection."""
        async with asyncio.timeout(HEAD_SECONDS):
            await client.send(answer)
            client.sock.shutdown(socket.SHUT_WR)
            rest = REFUSED_BYTES
            while rest > 0 and (piece := await client.some()):
                rest -= len(piece)

    async def _reached(self, host: str | Address, port: int, record: NetworkRecord) -> socket.socket:
        """Connect to a destination.

        The name is resolved once, and the proxy connects only to the checked addresses. So a name that later resolves to
        another address gains nothing.

        Raises:
            Stopped: The destination is refused, or cannot be reached.
        """
        if not self._names.allow(host, port):
            await self._asked(host, port, record)
        if not isinstance(host, str):
            found: Sequence[Address] = [host]
        elif host == "localhost":
            found = [ipaddress.ip_address("127.0.0.1"), ipaddress.ip_address("::1")]
        else:
            found = await self._resolved(host, port)
        fit = [each for each in found if host == "localhost" or self._fits(each, port)]
        if not fit:
            raise Stopped("refused", "it leads to an address that is not on the internet")
        why = "no address answers"
        for address in fit[:MOST_ADDRESSES]:
            try:
                return await self._connected(address, port)
            except TimeoutError:
                why = f"no answer within {CONNECT_SECONDS:g} s"
            except OSError as error:
                why = os.strerror(error.errno).lower() if error.errno else "the connection failed"
        raise Stopped("failed", why)

    def _fits(self, address: Address, port: int) -> bool:
        return is_public(address) or self._names.allow(address, port)

    async def _asked(self, host: str | Address, port: int, record: NetworkRecord) -> None:
        """Ask the approver about a destination that the reach does not allow, once for each name and port."""
        key = (str(host), port)
        why = "this destination is not within the reach of the command"
        if record.ask is None or not isinstance(host, str) or host == "localhost":
            raise Stopped("refused", why)
        if key not in record.answers:
            if len(record.answers) >= MOST_QUESTIONS:
                raise Stopped("refused", f"{MOST_QUESTIONS} other destinations were asked about")
            record.answers[key] = asyncio.ensure_future(record.ask(*key))
        # All connections to a destination share one question, which is cancelled at the command's end.
        try:
            refused = await shielded(record.answers[key])
        except Exception:  # noqa: BLE001 - whatever an approver raises is not a yes
            refused = "its approval could not be asked for"
        if refused:
            raise Stopped("refused", refused)

    async def _resolved(self, host: str, port: int) -> Sequence[Address]:
        try:
            async with asyncio.timeout(RESOLVE_SECONDS):
                found = await in_a_worker(lambda: self._resolve(host, port), abandon_on_cancel=True)
        except (OSError, UnicodeError):
            raise Stopped("failed", "the name has no address") from None
        return [ipaddress.ip_address(each.partition("%")[0]) for each in dict.fromkeys(found)]

    async def _connected(self, address: Address, port: int) -> socket.socket:
        family = socket.AF_INET if address.version == 4 else socket.AF_INET6
        server = socket.socket(family, socket.SOCK_STREAM)
        try:
            server.setblocking(False)
            async with asyncio.timeout(CONNECT_SECONDS):
                await asyncio.get_running_loop().sock_connect(server, (str(address), port))
            server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            itself = server.getsockname()[0] == server.getpeername()[0]
        except BaseException:
            server.close()
            raise
        # Both ends have the same public address, so it is this machine's own: its services may trust local clients.
        if itself and is_public(address):
            server.close()
            raise Stopped("refused", "it leads to this machine")
        return server

    async def _carried(self, client: Client, server: socket.socket, request: Request, tally: Tally) -> None:
        """Forward the bytes of a connection, until both directions have ended, one is broken, or the connection is idle."""
        client.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if answer := request.answer("allowed"):
            await client.send(answer)
        flow = _Flow(tally)
        up = _posted if request.kind == "http" else _tunnelled
        down = asyncio.ensure_future(_pumped(server, client.sock, flow.receive))
        tasks = {asyncio.ensure_future(up(client, server, request, flow)), down}
        ends = {down} if request.kind == "http" else tasks
        try:
            while not all(task.done() for task in ends):
                moved = flow.moved
                done, _ = await asyncio.wait(tasks, timeout=IDLE_SECONDS, return_when=asyncio.FIRST_EXCEPTION)
                if any(task.exception() for task in done) or (not done and moved == flow.moved):
                    break
                tasks = {task for task in tasks if not task.done()}
        finally:
            for task in (*tasks, down):
                task.cancel()
            await asyncio.gather(*tasks, down, return_exceptions=True)


class _Flow:
    """The byte counts of one connection."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self.moved = 0

    def send(self, size: int) -> None:
        self.moved += size
        self._tally.sent += size

    def receive(self, size: int) -> None:
        self.moved += size
        self._tally.received += size


def _host(request: Request) -> str | Address:
    try:
        return host_of(request.host)
    except ValueError as error:
        raise Stopped("refused", f"{error}"[:100]) from None


async def _tunnelled(client: Client, server: socket.socket, request: Request, flow: _Flow) -> None:
    if client.ahead:
        data, client.ahead = client.ahead, b""
        await asyncio.get_running_loop().sock_sendall(server, data)
        flow.send(len(data))
    await _pumped(client.sock, server, flow.send)


async def _posted(client: Client, server: socket.socket, request: Request, flow: _Flow) -> None:
    """Send one request to the server; bytes after the request are not sent, since they may be for another host."""
    loop = asyncio.get_running_loop()
    try:
        await loop.sock_sendall(server, request.head)
        flow.send(len(request.head))
        async for piece in body_of(client, request.body):
            await loop.sock_sendall(server, piece)
            flow.send(len(piece))
    except (BrokenPipeError, ConnectionResetError):
        return  # the server has answered before it read the whole request
    if await client.some(1):
        raise EOFError  # another request, which needs a new connection


async def _pumped(source: socket.socket, target: socket.socket, count: Callable[[int], None]) -> None:
    """Forward one direction of a connection to its end. The buffer grows while reads fill it, up to `CHUNK_BYTES`."""
    loop = asyncio.get_running_loop()
    buffer = memoryview(bytearray(16 * 1024))
    while size := await loop.sock_recv_into(source, buffer):
        await loop.sock_sendall(target, buffer[:size])
        count(size)
        if size == len(buffer) < CHUNK_BYTES:
            buffer = memoryview(bytearray(4 * len(buffer)))
        await asyncio.sleep(0)  # neither call above yields to the event loop while data is always ready
    target.shutdown(socket.SHUT_WR)
