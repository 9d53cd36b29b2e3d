"""The proxy of a reach with host names: allowed connections, refused connections, and the remains of a proxy."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import anyio
import pytest

import anyshell
from anyshell import (
    Approved,
    Environment,
    InvalidCommand,
    Outcome,
    Reach,
    Refused,
    ShellTool,
    Terminal,
    approve_all,
)
from anyshell._runner.network import serving
from anyshell._types import Command, Names, Network
from anyshell._types.names import host_of, is_public
from anyshell.abc import ShellInfo
from anyshell.errors import ReachUnavailable, SpawnError
from anyshell.policy import display
from anyshell.policy.approval.approvers import _Choice
from anyshell.reach import Facts, Gate, asking, compile_reach, explain, explain_network
from anyshell.reach.gate import PORT
from anyshell.reach.host_gate import LINE_BYTES, HostProxies
from anyshell.reach.proxy import MOST_DESTINATIONS, MOST_QUESTIONS, NetworkRecord, Proxy
from anyshell.reach.requests import HEAD_BYTES
from anyshell.tool.approvals import key_of
from anyshell.types import NetworkRequest

from .conftest import (
    bubblewrap,
    framework,
    missing,
    once_more_as_an_ordinary_user,
    open_to_all,
    python_for_all,
    row,
)

assert sys.platform == "linux"  # else mypy checks the code below on every platform

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence
    from pathlib import Path

    from anyshell import ApprovalRequest

pytestmark = pytest.mark.anyio

PYTHON = python_for_all()
BODY = b"x" * 300_000


def curl() -> str:
    """The path of the program curl."""
    path = shutil.which("curl")
    if path is None:
        missing("curl", "install curl")
    return path


class Origin(ThreadingHTTPServer):
    """A real HTTP server on this machine, which records its requests."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.heads: list[bytes] = []
        self.bodies: list[bytes] = []

    @property
    def place(self) -> str:
        """The server's address and port."""
        return f"127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Origin
    raw_requestline: bytes

    def do_GET(self) -> None:
        self.server.heads.append(self.raw_requestline + bytes(self.headers))
        data = BODY if self.path == "/large" else f"hello {self.path}\n".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_POST(self) -> None:
        body = b""
        if self.headers["Transfer-Encoding"] == "chunked":
            while size := int(self.rfile.readline().partition(b";")[0], 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.bodies.append(body)
        self.do_GET()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        pass


@pytest.fixture
def origin() -> Iterator[Origin]:
    with Origin() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@contextlib.asynccontextmanager
async def proxy(
    *names: str,
    resolve: Callable[[str, int], Sequence[str]] | None = None,
    ask: Callable[[str, int], Any] | None = None,
) -> AsyncIterator[tuple[int, NetworkRecord]]:
    """A proxy on this machine: its port, and its record."""
    record = NetworkRecord(ask)
    listener = socket.create_server(("127.0.0.1", 0))
    found = Proxy(listener, Names(names), record, **({} if resolve is None else {"resolve": resolve}))
    try:
        yield listener.getsockname()[1], record
    finally:
        await found.aclose()
    assert listener.fileno() == -1


async def said(port: int, data: bytes, *, end: bool = False) -> bytes:
    """The answer of a proxy to bytes, up to the end of the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data)
        if end:
            writer.write_eof()
        with contextlib.suppress(ConnectionError):
            return await asyncio.wait_for(reader.read(), 30)
        return b"reset"
    finally:
        writer.close()


def verdicts(given: Outcome | Network | None) -> list[tuple[str, int, str]]:
    """The destinations of an outcome, each with its verdict."""
    network = given.network if isinstance(given, Outcome) else given
    assert network is not None
    return [(each.name, each.port, each.verdict) for each in network.destinations]


def test_host_names_allow_matching_destinations() -> None:
    names = Names(
        ("example.org", "*.pypi.org", "git.example:22", "any.example:*", "1.1.1.1", "[2606:4700::1]:53")
    )
    for text, port, allowed in (
        ("example.org", 443, True),
        ("EXAMPLE.org.", 80, True),
        ("example.org", 22, False),
        ("example.org", 8080, False),
        ("www.example.org", 443, False),
        ("notexample.org", 443, False),
        ("example.org.evil.test", 443, False),
        ("a.pypi.org", 443, True),
        ("a.b.pypi.org", 80, True),
        ("pypi.org", 443, False),
        ("evilpypi.org", 443, False),
        ("git.example", 22, True),
        ("git.example", 443, False),
        ("any.example", 25, True),
        ("1.1.1.1", 443, True),
        ("1.1.1.1", 53, False),
        ("2606:4700::1", 53, True),
        ("2606:4700:0:0::1", 53, True),
        ("2606:4700::1", 443, False),
        ("bücher.example", 443, False),
    ):
        with row(f"{text}:{port}"):
            assert names.allow(host_of(text), port) is allowed
    international = Names(("bücher.example",))
    assert international.allow(host_of("xn--bcher-kva.example"), 443)
    assert international.allow(host_of("BÜCHER.example"), 443)


def test_malformed_host_names_are_refused() -> None:
    for text in (
        *(
            "",
            "https://example.org",
            "example.org/path",
            "user@example.org",
            "exa mple.org",
            "example.org:",
            "*",
        ),
        *(
            "example.org:0",
            "example.org:65536",
            "example.org:http",
            "example.org:443:443",
            "-a.example",
            "a..example",
        ),
        *(
            "*.org",
            "a.*.org",
            "*.*.example.org",
            "*.1.1.1.1",
            "127.1:80",
            "0x7f.1:80",
            "2130706433:80",
            "0177.0.0.1:80",
        ),
        *(
            "::1",
            "[::1]",
            "[1.1.1.1]:80",
            "[fe80::1%eth0]:80",
            "127.0.0.1",
            "localhost",
            "10.0.0.1",
            "example.org\n",
        ),
        *("a" * 64 + ".example", "a." * 130 + "example", "999.1.1.1", "example.org:٤٤٣"),
    ):
        with row(text), pytest.raises(InvalidCommand, match="network: "):
            Reach(network=[text])  # type: ignore[arg-type]  # bad input is the point
    assert Reach(network=["localhost:8080", "[::1]:80"]).network == ("localhost:8080", "[::1]:80")  # type: ignore[arg-type]  # a list serves as well


def test_narrower_reach_needs_names_covered_by_the_wider_reach() -> None:
    outer = Reach(network=("*.example.org", "a.test:*", "b.test"))
    for inner in ("x.example.org", "*.y.example.org", "*.example.org", "a.test:22", "a.test", "b.test:443"):
        with row(inner):
            assert Reach(network=(inner,)).within(outer).network == (inner,)
    for wider in (
        "example.org",
        "x.example.org:22",
        "*.test.org",
        "*.a.test",
        "b.test:*",
        "b.test:22",
        "c.test",
    ):
        with row(wider), pytest.raises(InvalidCommand, match="network is more"):
            Reach(network=(wider,)).within(outer)


def test_address_outside_the_internet_is_recognised() -> None:
    for text in (
        *("127.0.0.1", "127.8.9.1", "0.0.0.0", "10.0.0.1", "172.16.5.5", "192.168.1.1", "169.254.169.254"),
        *(
            "100.64.0.1",
            "100.100.100.200",
            "192.0.0.192",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "240.0.0.1",
        ),
        *("::1", "::", "fe80::1", "fc00::1", "fd00:ec2::254", "ff02::1", "168.63.129.16"),
        *(
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::127.0.0.1",
            "64:ff9b::10.0.0.1",
            "2002:7f00:1::",
            "::ffff:0:10.0.0.1",
        ),
        *("2001::1", "2001:db8::1", "fec0::1"),
    ):
        with row(text):
            assert not is_public(ipaddress.ip_address(text))
    for text in ("1.1.1.1", "8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8"):
        with row(text):
            assert is_public(ipaddress.ip_address(text))


async def test_the_proxy_carries_tunnels_urls_and_socks(origin: Origin) -> None:
    port = origin.server_port
    get = b"GET /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    async with proxy(origin.place) as (own, record):
        tunnel = await said(own, b"CONNECT %s HTTP/1.1\r\nHost: z\r\n\r\n" % origin.place.encode() + get)
        assert tunnel.startswith(b"HTTP/1.1 200 Connection established\r\n\r\nHTTP/1.1 200 OK\r\n")
        assert tunnel.endswith(b"hello /x\n")
        whole = await said(
            own, b"GET http://%s/y?z#f HTTP/1.1\r\nHost: evil\r\nX: y\r\n\r\n" % origin.place.encode()
        )
        assert whole.endswith(b"hello /y?z\n")
        asked = b"\5\1\0\5\1\0\1" + socket.inet_aton("127.0.0.1") + port.to_bytes(2, "big")
        socks = await said(own, asked + get)
        assert socks.startswith(b"\5\0\5\0\0\1")
        assert socks.endswith(b"hello /x\n")
    (row_,) = record.network().destinations
    assert (row_.name, row_.port, row_.verdict, row_.connections) == ("127.0.0.1", port, "allowed", 3)
    assert row_.sent > 3 * 20
    assert row_.received == len(tunnel) - 39 + len(whole) + len(socks) - 12
    head = origin.heads[1]
    assert b"GET /y?z HTTP/1.1" in head
    assert f"Host: {origin.place}".encode() in head
    assert b"evil" not in head
    assert b"X: y" in head


async def test_forbidden_destinations_are_refused_and_named(origin: Origin) -> None:
    """Destinations in every notation of an address, to an unnamed port, and to a local address by a name."""
    where = {
        "plain.test": ["127.0.0.1"],
        "metadata.test": ["169.254.169.254"],
        "mapped.test": ["::ffff:127.0.0.1"],
        "zone.test": ["fe80::1%lo"],
        "both.test": ["127.0.0.1", "10.0.0.1"],
    }
    names = ("good.test", *(f"{name}:*" for name in where))
    refused = [
        *(f"{name}:{origin.server_port}" for name in where),
        *(
            f"{text}:{origin.server_port}"
            for text in ("127.0.0.1", "127.1", "2130706433", "0177.0.0.1", "0x7f.0.0.1", "0")
        ),
        *(
            f"{text}:{origin.server_port}"
            for text in ("localhost", "LOCALHOST.", "[::1]", "[::ffff:127.0.0.1]", "[::]")
        ),
        *(
            "good.test:22",
            "good.test:25",
            "1.1.1.1:443",
            "[2606:4700::1111]:443",
            "evil.test:443",
            "good.test.evil.test:443",
        ),
        *("good.test..:443", "xn--bcher-kva.test:443", "-.test:443"),
    ]
    async with proxy(*names, resolve=lambda name, _: where[name]) as (own, record):
        for target in refused:
            with row(target):
                answer = await said(own, f"CONNECT {target} HTTP/1.1\r\n\r\n".encode())
                assert answer.startswith(b"HTTP/1.1 403 Forbidden\r\n")
                assert b"anyshell: " in answer
                assert (await said(own, f"GET http://{target}/ HTTP/1.1\r\n\r\n".encode())).startswith(
                    b"HTTP/1.1 403"
                )
                host, _, port = target.rpartition(":")
                name = host.strip("[]").encode()
                asked = b"\5\1\0\5\1\0\3" + bytes([len(name)]) + name + int(port).to_bytes(2, "big")
                assert (await said(own, asked))[:4] == b"\5\0\5\2"
    network = record.network()
    assert {each.verdict for each in network.destinations} == {"refused"}
    assert {each.connections for each in network.destinations if each.name == "evil.test"} == {3}
    assert not origin.heads


async def test_proxy_connects_to_the_checked_address(origin: Origin) -> None:
    """A name that leads elsewhere at its second resolution gains nothing: there is no second resolution."""
    asked = []

    def resolve(name: str, port: int) -> list[str]:
        asked.append(name)
        return ["192.0.2.1" if len(asked) == 1 else "127.0.0.1"]

    async with proxy("rebinding.test:*", resolve=resolve) as (own, _):
        line = f"CONNECT rebinding.test:{origin.server_port} HTTP/1.1\r\n\r\n".encode()
        assert b"403" in await said(own, line)
        assert b"403" in await said(own, line)
    assert asked == ["rebinding.test"] * 2
    assert not origin.heads


async def test_name_may_resolve_to_a_local_address_only_if_named(origin: Origin) -> None:
    line = f"CONNECT inside.test:{origin.server_port} HTTP/1.1\r\n\r\n".encode()
    async with proxy("inside.test:*", origin.place, resolve=lambda *_: ["10.9.8.7", "127.0.0.1"]) as (
        own,
        record,
    ):
        assert (await said(own, line, end=True)).startswith(b"HTTP/1.1 200")
    assert verdicts(record.network()) == [("inside.test", origin.server_port, "allowed")]
    async with proxy(f"localhost:{origin.server_port}") as (own, _):
        line = f"CONNECT localhost:{origin.server_port} HTTP/1.1\r\n\r\n".encode()
        assert (await said(own, line, end=True)).startswith(b"HTTP/1.1 200")


async def test_failure_is_distinguished_from_a_refusal() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]

    def resolve(name: str, port: int) -> list[str]:
        raise socket.gaierror(socket.EAI_NONAME, "none")

    async with proxy(f"127.0.0.1:{port}", "none.test", resolve=resolve) as (own, record):
        assert (await said(own, b"CONNECT 127.0.0.1:%d HTTP/1.1\r\n\r\n" % port)).startswith(b"HTTP/1.1 502")
        assert (await said(own, b"CONNECT none.test:443 HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 502")
        assert (await said(own, b"\5\1\0\5\1\0\3\x09none.test\1\xbb"))[:4] == b"\5\0\5\4"
    found = {each.name: (each.verdict, each.why) for each in record.network().destinations}
    assert found == {
        "127.0.0.1": ("failed", "connection refused"),
        "none.test": ("failed", "the name has no address"),
    }


async def test_malformed_requests_are_refused(origin: Origin) -> None:
    """A request that two readers could read differently is refused whole."""
    place = origin.place.encode()
    start = b"POST http://%s/ HTTP/1.1\r\n" % place
    for name, data in {
        "both lengths": start + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "two lengths": start + b"Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcde",
        "a list of lengths": start + b"Content-Length: 4, 4\r\n\r\nabcd",
        "a signed length": start + b"Content-Length: +4\r\n\r\nabcd",
        "another coding": start + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "two codings": start + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
        "a space before the colon": start + b"Content-Length : 4\r\n\r\nabcd",
        "a folded line": start + b"X: a\r\n b\r\n\r\n",
        "a bare line feed": start + b"X: a\nTransfer-Encoding: chunked\r\n\r\n",
        "a bare return": start + b"X: a\rY: b\r\n\r\n",
        "a null": start + b"X: a\0\r\n\r\n",
        "a tab in the first line": b"GET\thttp://%s/\tHTTP/1.1\r\n\r\n" % place,
        "two spaces": b"GET  http://%s/ HTTP/1.1\r\n\r\n" % place,
        "HTTP/0.9": b"GET http://%s/\r\n\r\n" % place,
        "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "a path alone": b"GET / HTTP/1.1\r\nHost: %s\r\n\r\n" % place,
        "an https URL": b"GET https://%s/ HTTP/1.1\r\n\r\n" % place,
        "a login in the URL": b"GET http://evil@%s/ HTTP/1.1\r\n\r\n" % place,
        "a login after the host": b"GET http://%s@evil/ HTTP/1.1\r\n\r\n" % place,
        "a backslash": b"GET http://%s\\@evil/ HTTP/1.1\r\n\r\n" % place,
        "no port": b"CONNECT 127.0.0.1 HTTP/1.1\r\n\r\n",
        "port 0": b"CONNECT 127.0.0.1:0 HTTP/1.1\r\n\r\n",
        "a large port": b"CONNECT 127.0.0.1:65616 HTTP/1.1\r\n\r\n",
        "a name that is not ASCII": "CONNECT bücher.test:443 HTTP/1.1\r\n\r\n".encode(),
        "TLS": bytes.fromhex("1603010200010001fc0303") + bytes(600) + b"\r\n\r\n",
        "SSH": b"SSH-2.0-x\r\n\r\n",
    }.items():
        async with proxy(origin.place) as (own, record):
            with row(name):
                assert (await said(own, data)).startswith(b"HTTP/1.1 400 Bad Request\r\n")
                assert record.network() == Network(unlisted=1)
    for name, data, answer in (
        ("UDP", b"\5\1\0\5\3\0\1" + bytes(6), b"\5\0\5\7"),
        ("a listening socket", b"\5\1\0\5\2\0\1" + bytes(4) + b"\0\1", b"\5\0\5\7"),
        ("a kind of address", b"\5\1\0\5\1\0\2" + bytes(6), b"\5\0\5\x08"),
        ("a login", b"\5\1\2", b"\5\xff"),
        ("SOCKS4", b"\4\1\0\x50" + bytes(5), b"\0\x5b"),
    ):
        async with proxy(origin.place) as (own, _):
            with row(name):
                assert (await said(own, data)).startswith(answer)
    assert not origin.heads


async def test_url_request_cannot_smuggle_a_second_request(origin: Origin) -> None:
    """A second request behind the first would go to the host of the first, whichever host it names."""
    place = origin.place.encode()
    second = b"GET http://evil.test/second HTTP/1.1\r\nHost: evil.test\r\n\r\n"
    for name, first in {
        "without a body": b"GET http://%s/first HTTP/1.1\r\n\r\n" % place,
        "with a length": b"POST http://%s/first HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc" % place,
        "in chunks": b"POST http://%s/first HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\n\r\n"
        % place,
    }.items():
        with row(name):
            async with proxy(origin.place) as (own, record):
                await said(own, first + second)
            assert verdicts(record.network()) == [("127.0.0.1", origin.server_port, "allowed")]
            assert not any(b"second" in head for head in origin.heads)
    async with proxy(origin.place) as (own, _):
        head = b"POST http://%s/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" % place
        assert b"200 OK" in await said(own, head + b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
        assert b"abcde" in origin.bodies
        # An invalid size ends the connection, and the server never has the request whole.
        assert b"200 OK" not in await said(own, head + b"3\r\nabcX\r\n0\r\n\r\n")
        assert b"200 OK" not in await said(own, head + b"-3\r\nabc\r\n0\r\n\r\n")


async def test_oversized_or_incomplete_head_is_refused(
    origin: Origin, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = b"GET http://%s/ HTTP/1.1\r\nX: " % origin.place.encode()
    async with proxy(origin.place) as (own, record):
        assert (await said(own, long + b"x" * HEAD_BYTES + b"\r\n\r\n")).startswith(b"HTTP/1.1 431")
        assert await said(own, long, end=True) == b""
        assert await said(own, b"", end=True) == b""
        monkeypatch.setattr("anyshell.reach.proxy.HEAD_SECONDS", 0.2)
        reader, writer = await asyncio.open_connection("127.0.0.1", own)
        for byte in long:
            writer.write(bytes([byte]))
            await asyncio.sleep(0.02)
            if reader.at_eof():
                break
        with contextlib.suppress(ConnectionResetError):  # a byte was under way when the proxy gave up
            assert await asyncio.wait_for(reader.read(), 30) == b""
        writer.close()
    assert record.network().unlisted == 4
    assert not origin.heads


async def test_either_direction_may_end_first(origin: Origin) -> None:
    """A client that has sent everything still receives; so does a server."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        heard: list[bytes] = []

        def serve() -> None:
            for first in (False, True):
                peer, _ = server.accept()
                with peer:
                    if first:
                        peer.sendall(b"all")
                        peer.shutdown(socket.SHUT_WR)
                    heard.append(peer.makefile("rb").read())
                    if not first:
                        peer.sendall(b"got %d" % len(heard[-1]))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        async with proxy(f"127.0.0.1:{port}") as (own, _):
            line = b"CONNECT 127.0.0.1:%d HTTP/1.1\r\n\r\n" % port
            assert (await said(own, line + BODY, end=True)).endswith(b"got 300000")
            reader, writer = await asyncio.open_connection("127.0.0.1", own)
            writer.write(line)
            assert (await reader.read()).endswith(b"all")
            writer.write(b"still here")
            writer.close()
            await anyio.to_thread.run_sync(thread.join)
        assert heard == [BODY, b"still here"]


async def test_connections_and_destinations_are_bounded(
    origin: Origin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anyshell.reach.proxy.CONNECTIONS", 2)
    line = b"CONNECT %s HTTP/1.1\r\n\r\n" % origin.place.encode()
    async with proxy(origin.place) as (own, record):
        held = [await asyncio.open_connection("127.0.0.1", own) for _ in range(3)]
        for _, writer in held:
            writer.write(line)
            await writer.drain()
        for reader, _ in held[:2]:
            await reader.readuntil(b"\r\n\r\n")
        assert record.network().destinations[0].connections == 2
        held[0][1].close()
        await held[2][0].readuntil(b"\r\n\r\n")
        for _, writer in held:
            writer.close()
    async with proxy() as (own, record):
        for number in range(MOST_DESTINATIONS + 3):
            await said(own, b"CONNECT n%d.test:443 HTTP/1.1\r\n\r\n" % number)
    network = record.network()
    assert len(network.destinations) == MOST_DESTINATIONS
    assert network.unlisted == 3


async def test_connections_to_one_destination_ask_once() -> None:
    asked = []
    answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def ask(name: str, port: int) -> str:
        asked.append((name, port))
        return await answer if name == "a.test" else "no"

    def resolve(name: str, port: int) -> list[str]:
        raise OSError

    async with proxy(resolve=resolve, ask=ask) as (own, record):
        line = b"CONNECT a.test:443 HTTP/1.1\r\n\r\n"
        three = [asyncio.ensure_future(said(own, line)) for _ in range(3)]
        while not asked:
            await asyncio.sleep(0.01)
        answer.set_result("")
        assert all(each.startswith(b"HTTP/1.1 502") for each in await asyncio.gather(*three))
        # An address is not asked about, and neither is an invalid name.
        for target in (b"1.1.1.1:443", b"localhost:80", b"127.1:80"):
            assert (await said(own, b"CONNECT %s HTTP/1.1\r\n\r\n" % target)).startswith(b"HTTP/1.1 403")
        assert asked == [("a.test", 443)]
        for number in range(MOST_QUESTIONS + 5):
            await said(own, b"CONNECT n%d.test:443 HTTP/1.1\r\n\r\n" % number)
    assert len(asked) == MOST_QUESTIONS
    why = {each.name: each.why for each in record.network().destinations}
    assert why["n0.test"] == "no"
    assert "were asked about" in why[f"n{MOST_QUESTIONS + 1}.test"]


@pytest.fixture
async def env(origin: Origin, tmp_path: Path, anyio_backend: str) -> AsyncIterator[Environment]:
    bubblewrap()
    open_to_all(tmp_path)
    reach = Reach(write=(".",), network=(origin.place, "known.test"))
    async with Environment.detect(cwd=tmp_path, reach=reach) as environment:
        yield environment


async def test_real_clients_reach_named_hosts_alone(env: Environment, origin: Origin) -> None:
    url = f"http://{origin.place}"
    fetch = f"import urllib.request; print(urllib.request.urlopen('{url}/py').read().decode())"
    for name, text, wanted in (
        ("curl", f"{curl()} -sS {url}/a", "hello /a"),
        ("curl by a tunnel", f"{curl()} -sSp {url}/b", "hello /b"),
        ("curl by SOCKS", f"{curl()} -sS -x socks5h://127.0.0.1:{PORT} {url}/c", "hello /c"),
        ("curl with a body", f"head -c 200000 /dev/zero | {curl()} -sS -T - -X POST {url}/d", "hello /d"),
        ("Python", f'{PYTHON} -c "{fetch}"', "hello /py"),
        ("wget", f"wget -qO- {url}/e || echo hello /e", "hello /e"),
    ):
        with row(name):
            outcome = await env.run(text, timeout=60)
            assert wanted in outcome.output.text
            assert name == "wget" or verdicts(outcome)[0][2] == "allowed"
    large = await env.run(f"{curl()} -sS {url}/large | wc -c")
    assert large.output.text.strip() == str(len(BODY))
    assert large.network is not None
    assert large.network.destinations[0].received > len(BODY)
    for name, text in {
        "another name": f"{curl()} -sSf https://evil.test/",
        "git": "git -c http.lowSpeedTime=5 ls-remote https://evil.test/x.git",
    }.items():
        with row(name):
            outcome = await env.run(text, timeout=60)
            assert outcome.exit_code != 0
            assert verdicts(outcome) == [("evil.test", 443, "refused")]


async def test_no_connection_goes_around_the_proxy(env: Environment, origin: Origin) -> None:
    port = origin.server_port

    def py(text: str) -> str:
        return f'{PYTHON} -c "import socket as s; {text}"'

    for name, text in {
        "without the proxy": f"{curl()} -sS --noproxy '*' http://{origin.place}/",
        "a socket": py(f"s.create_connection(('127.0.0.1', {port}), 5)"),
        "IPv6": py(f"s.create_connection(('::1', {port}), 5)"),
        "the internet": py("s.create_connection(('1.1.1.1', 443), 5)"),
        "IPv6 of the internet": py("s.create_connection(('2606:4700::1111', 443), 5)"),
        "a name": py("s.getaddrinfo('example.org', 443)"),
        "UDP": py("s.socket(s.AF_INET, s.SOCK_DGRAM).sendto(b'x', ('1.1.1.1', 53))"),
        "a raw socket": py("s.socket(s.AF_INET, s.SOCK_RAW, 1)"),
        "a packet socket": py("s.socket(s.AF_PACKET, s.SOCK_RAW)"),
        "the socket by which the network came": py("s.socket(s.AF_UNIX).connect('/dev/anyshell')"),
        "another network": "unshare -Urn true",
        "an interface": "ip link add x type dummy",
        "a listening socket in its place": py(f"s.create_server(('127.0.0.1', {PORT}))"),
        "a descriptor that was left": "for each in /proc/[0-9]*/fd/*; do readlink $each; done | grep -q socket:",
    }.items():
        with row(name):
            outcome = await env.run(text, timeout=60)
            assert outcome.exit_code != 0, outcome
            assert outcome.network == Network()
    assert not origin.heads


async def test_variables_point_programs_to_the_proxy(env: Environment, tmp_path: Path) -> None:
    outcome = await env.run("env | grep -i _proxy= | sort")
    url = f"http://127.0.0.1:{PORT}"
    lines = outcome.output.text.splitlines()
    assert {
        f"{name}={url}"
        for each in ("http", "https", "all")
        for name in (f"{each}_proxy", f"{each}_proxy".upper())
    } < {*lines}
    # With a local address in the reach, no connection to this machine goes by without the proxy.
    assert "no_proxy=" in lines
    async with Environment.detect(cwd=tmp_path, reach=Reach(write=(".",), network=("known.test",))) as other:
        text = f"{PYTHON} -m http.server -b 127.0.0.1 8123 >/dev/null 2>&1 & until {curl()} -sSo own localhost:8123 2>/dev/null; do sleep 0.1; done; kill $!; ls own"
        assert (await other.run(text, timeout=60)).output.text == "own\n"


async def test_every_way_to_run_has_the_network(env: Environment, origin: Origin) -> None:
    fetch = f"{curl()} -sS http://{origin.place}/"
    refused = f"{curl()} -sSo /dev/null http://evil.test/"
    async with env.stream(f"{fetch}s") as events:
        assert "".join([event.text async for event in events]).strip() == "hello /s"
    assert verdicts(events.outcome.network) == [("127.0.0.1", origin.server_port, "allowed")]
    job = await env.start(f"{fetch}j; {refused}")
    outcome = await job.wait()
    assert verdicts(outcome) == [
        ("127.0.0.1", origin.server_port, "allowed"),
        ("evil.test", 80, "refused"),
    ]
    left = await env.run(f"(until [ -e go ]; do sleep 0.02; done; {fetch}left >out) & true")
    assert left.job is not None
    await env.files.write_text("go", "")
    adopted = await env.jobs.get(left.job).wait()
    assert verdicts(adopted) == [("127.0.0.1", origin.server_port, "allowed")]
    assert (await env.run("cat out")).output.text == "hello /left\n"
    on_terminal = await env.run(f"{fetch}t", terminal=Terminal())
    assert on_terminal.output.text.strip() == "hello /t"
    assert verdicts(on_terminal.network) == [("127.0.0.1", origin.server_port, "allowed")]
    late = await env.run(f"until [ -e late ]; do sleep 0.02; done; {fetch}late", background_after=0.05)
    assert late.network == Network()
    assert late.job is not None
    await env.files.write_text("late", "")
    ended = await env.jobs.get(late.job).wait()
    assert verdicts(ended) == [("127.0.0.1", origin.server_port, "allowed")]


async def test_session_tells_the_network_of_each_command(env: Environment, origin: Origin) -> None:
    fetch = f"{curl()} -sS http://{origin.place}/"
    async with env.session() as session:
        first = await session.run(f"{fetch}1; X=2")
        second = await session.run(f"{fetch}$X; {curl()} -sSo /dev/null http://evil.test")
        third = await session.run("true")
        assert (first.output.text, second.output.text) == ("hello /1\n", "hello /2\n")
        assert verdicts(first.network) == [("127.0.0.1", origin.server_port, "allowed")]
        assert [each[2] for each in verdicts(second.network)] == ["allowed", "refused"]
        assert third.network == Network()
        await session.restart()
        assert (await session.run(f"{fetch}3$X")).output.text == "hello /3\n"
        assert len(session._gates) == 1
    assert not session._gates


async def test_detached_job_with_host_names_is_refused(env: Environment) -> None:
    with pytest.raises(ReachUnavailable, match="for a detached job"):
        await env.start("true", detach=True)


async def test_reach_without_names_reports_no_network(tmp_path: Path) -> None:
    bubblewrap()
    async with Environment.detect(cwd=tmp_path, reach=Reach(write=(".",))) as env:
        assert (await env.run("env | grep -ci _proxy=")).network is None


async def test_call_may_narrow_the_host_names(env: Environment, origin: Origin) -> None:
    fewer = Reach(write=(".",), network=("known.test",))
    outcome = await env.run(f"{curl()} -sSf --noproxy '' http://{origin.place}/", reach=fewer)
    assert verdicts(outcome) == [("127.0.0.1", origin.server_port, "refused")]
    with pytest.raises(InvalidCommand, match="network is more"):
        await env.run("true", reach=Reach(write=(".",), network=("evil.test",)))


def own() -> tuple[int, int]:
    """The number of descriptors and tasks of this process."""
    return len(os.listdir("/proc/self/fd")), len(asyncio.all_tasks())


async def settled(before: tuple[int, int]) -> None:
    """Wait until there are no more descriptors and tasks than before: the server here closes its own a moment later."""
    with anyio.fail_after(20):
        while any(now > then for now, then in zip(own(), before, strict=True)):
            await asyncio.sleep(0.05)


async def test_proxy_leaves_nothing_after_any_end_of_a_command(
    env: Environment, origin: Origin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = tmp_path / "places"
    places.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(places))
    await env.run("true")
    hang = f"{curl()} -sS http://{origin.place}/large --limit-rate 1k >/dev/null"
    before = own()
    ends: dict[str, Callable[[], Any]] = {
        "timeout": lambda: env.run(hang, timeout=0.7, grace=0.1),
        "kill": lambda: env.run(f"{hang} & sleep 0.3; kill -9 $$", left_behind="stop"),
        "an exit with a connection open": lambda: env.run(f"{hang} & sleep 0.3", left_behind="stop"),
    }
    for name, end in ends.items():
        with row(name):
            await end()
            await settled(before)
    with anyio.move_on_after(0.7):
        await env.run(hang)
    await settled(before)
    job = await env.start(hang)
    await asyncio.sleep(0.5)
    await job.stop()
    await settled(before)
    with pytest.raises(InvalidCommand):
        await env.run("true", cwd="/none")
    for moment in (0.0, 0.001, 0.01, 0.02, 0.04, 0.08):
        with anyio.move_on_after(moment):
            await env.run("true")
    await settled(before)
    assert not list(places.iterdir())


async def test_unstartable_program_leaves_no_gate(
    env: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = tmp_path / "places"
    places.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(places))
    before = own()
    spawn = env.runner.spawn_of(Command(text="true"))
    broken = replace(spawn, argv=("/none", *spawn.argv))
    with pytest.raises(SpawnError):
        await serving(env.runner.backend, broken).spawn(broken)
    await settled(before)
    assert not list(places.iterdir())
    gate = Gate(Names(("a.test",)))
    gate.listen()
    (place,) = places.iterdir()
    # A path of a socket has 107 bytes at most, and this path is longer.
    directory = os.open(place, os.O_RDONLY)
    for data, count in ((b"x" * 16, 1), (b"y", 2)):
        with socket.socket(socket.AF_UNIX) as other, socket.socket() as listener:
            other.connect(f"/proc/self/fd/{directory}/gate")
            socket.send_fds(other, [data], [listener.fileno()] * count)
            other.setblocking(False)
            assert await asyncio.get_running_loop().sock_recv(other, 1) == b""
    os.close(directory)
    await gate.aclose()
    await settled(before)
    assert not list(places.iterdir())


async def test_answers_of_a_host_are_checked(tmp_path: Path) -> None:
    """The program that serves a network on a host may be any program: without Python, ending early, or lying."""
    answers = [
        ["done", 1, ""],
        ["ask", 1, 7, "new.test", 80],
        ["ask", 1, 7, "new.test", 80],
        ["ask", 1, 8, "A\x1b[2J", 80],
        ["ask", 1, 8, "far.test", 80000],
        ["ask", 99, 9, "other.test", 80],
        ["row", 1, "a\x1b[2J", 80, "allowed", "", 1, 2, 3],
        ["unlisted", 1, 4],
        ["row", 1, "b.test", 80, "owned", "", 1, 2, 3],
    ]
    lies = tmp_path / "lies"
    lines = "\n".join(map(json.dumps, answers))
    lies.write_text(f"#!/bin/sh\nread -r texts; read -r asked\ncat <<'END'\n{lines}\nEND\ncat >/dev/null\n")
    long = tmp_path / "long"
    long.write_text(f"#!/bin/sh\nhead -c {LINE_BYTES + 1} /dev/zero; cat >/dev/null\n")
    for each in (lies, long):
        each.chmod(0o755)
    asked: list[str] = []

    async def ask(name: str, port: int) -> str:
        asked.append(name)
        return ""

    async with Environment.detect(cwd=tmp_path) as env:
        backend = env.runner.backend
        before = own()
        for program, why in (
            ("/bin/echo", "-I -S"),
            ("/bin/true", "has ended"),
            (str(long), "too long"),
            ("/none", "none"),
        ):
            with row(program):
                gate = HostProxies(program).gate(Names(("a.test",)))
                with pytest.raises(SpawnError, match=why):
                    await gate.open(backend)
                await gate.aclose()
                await settled(before)
        gate = HostProxies(str(lies)).gate(Names(("a.test",)))
        with asking(ask):
            await gate.open(backend)
        await gate.settle()  # the gate has gone by then
        (found,) = gate.network().destinations
        assert (found.name, found.connections, found.sent, found.received) == ("a\\x1b[2J", 1, 2, 3)
        assert gate.network().unlisted == 4
        while not asked:
            await asyncio.sleep(0.01)
        assert asked == ["new.test"]
        await gate.aclose()
        await settled(before)


def test_a_host_needs_a_python_that_runs_the_proxy() -> None:
    reach, has = Reach(write=("/src",), network=("a.test",)), Facts(python="/bin/python3", bwrap="/bin/bwrap")
    for version, refused in (("3.11", False), ("3.14", False), ("3.9", True), ("", True)):
        facts = replace(has, version="0.8.0", python_version=version)
        with row(version), pytest.raises(ReachUnavailable) if refused else contextlib.nullcontext() as raised:
            compile_reach(reach, facts, None)
        assert raised is None or "Python 3.11 or later as python3" in str(raised.value)
        compile_reach(replace(reach, network=False), facts, None)


async def test_no_descriptor_is_lost_over_many_runs(env: Environment, origin: Origin) -> None:
    fetch = f"{curl()} -sSo /dev/null http://{origin.place}/"
    await env.run(fetch)
    before = own()
    ended = [(await env.run(fetch if number % 4 == 0 else "true")).exit_code for number in range(60)]
    assert (
        ended.count(0) > 57
    )  # a socket of another program that vanishes while it is covered costs a sandbox
    await settled(before)


class Person:
    """An approver that runs every command, and answers about connections as instructed."""

    def __init__(self, answer: Approved | Refused) -> None:
        self.answer = answer
        self.asked: list[NetworkRequest] = []

    async def __call__(self, request: ApprovalRequest) -> Approved | Refused:
        """Answer a request."""
        if not isinstance(request, NetworkRequest):
            return Approved()
        self.asked.append(request)
        return self.answer


async def test_question_about_a_connection_names_its_call(
    env: Environment,
) -> None:
    person = Person(Refused("not there"))
    tool = ShellTool(env, approver=person)
    text = f"{curl()} -sS http://new.test:8080/; {curl()} -sSo /dev/null http://new.test:8080/"
    result = await tool({"command": text}, call_id="c7")
    (asked,) = person.asked
    assert (asked.name, asked.port, asked.call_id, asked.text, asked.tool) == (
        "new.test",
        8080,
        "c7",
        text,
        "shell",
    )
    assert asked.display.startswith(
        "Connect to what its reach does not have: new.test, port 8080\nRunning command that asks:"
    )
    assert "anyshell: new.test:8080: the user has refused it: not there" in result.text
    assert (
        "[anyshell] The sandbox let nothing connect to new.test:8080: the user has refused it: not there."
        in result.text
    )
    assert result.details.network is not None
    assert verdicts(result.details.network) == [("new.test", 8080, "refused")]
    assert '"why":"the user has refused it: not there","connections":2' in result.model_dump_json()


async def test_an_answer_holds_once_or_for_the_session(env: Environment) -> None:
    fetch = {"command": f"{curl()} -sSo /dev/null http://new.test/"}
    once = Person(Approved())
    tool = ShellTool(env, approver=once)
    for count in (1, 2):
        result = await tool(fetch)
        assert len(once.asked) == count
        # The connection is allowed, and no name of the tests leads anywhere.
        assert result.details.network is not None
        assert verdicts(result.details.network) == [("new.test", 80, "failed")]
    lasting = Person(Approved(scope="session"))
    tool = ShellTool(env, approver=lasting, session=True)
    await tool(fetch)
    await tool(fetch)
    assert len(lasting.asked) == 1
    await tool({"command": f"{curl()} -sSo /dev/null http://new.test:81/"})
    assert len(lasting.asked) == 2


async def test_an_answer_for_always_is_a_rule_of_the_user(env: Environment, tmp_path: Path) -> None:
    framework("tree_sitter_bash")
    curl()
    rules = tmp_path / "policy.toml"
    rules.write_text('[[allow]]\nname = "curl"\ncommand = "curl"\n')
    person = Person(Approved(scope="always"))
    tool = ShellTool(env, approver=person, policy=anyshell.Policy.load(rules, check=False))
    fetch = {"command": "curl -sSo /dev/null http://new.test/"}
    await tool(fetch)
    (asked,) = person.asked
    assert asked.rules == str(rules)
    assert '[[widened]]\nnetwork = ["new.test:80"]\n' in rules.read_text()
    later = ShellTool(env, approver=person, policy=anyshell.Policy.load(rules))
    result = await later(fetch)
    assert len(person.asked) == 1
    assert result.details.network is not None
    assert verdicts(result.details.network) == [("new.test", 80, "failed")]
    for wrong in (
        '[[widened]]\nnetwork = ["https://x"]\n',
        "[[widened]]\nwrite = ['/']\n",
    ):
        rules.write_text(wrong)
        with row(wrong), pytest.raises(anyshell.errors.PolicyError, match="widened"):
            anyshell.Policy.load(rules)


async def test_approve_all_widens_no_reach(env: Environment) -> None:
    result = await ShellTool(env, approver=approve_all)({"command": f"{curl()} -sSf http://new.test/"})
    assert result.details.network is not None
    assert verdicts(result.details.network) == [("new.test", 80, "refused")]


async def test_a_question_ends_with_its_command(env: Environment) -> None:
    asked, ended = asyncio.Event(), asyncio.Event()

    async def person(request: ApprovalRequest) -> Approved | Refused:
        if isinstance(request, NetworkRequest):
            asked.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()
        return Approved()

    tool = ShellTool(env, approver=person)
    for seconds in (
        1,
        5,
        25,
    ):  # on a busy machine, the command may not get as far as its question in the first time
        result = await tool({"command": f"{curl()} -sS http://new.test/", "timeout": seconds})
        assert result.details.status == "timed_out"
        if asked.is_set():
            break
    assert asked.is_set()
    assert ended.is_set()


def test_explanation_of_a_refusal_lists_the_allowed_hosts() -> None:
    reach = Reach(network=("a.test", "b.test"))
    said_ = explain("curl: (6) Could not resolve host: a.test", reach, "/home/x")
    assert (
        said_
        == "The sandbox lets commands connect to a.test, b.test, and by the proxy that http_proxy names alone."
    )
    assert explain_network(None, reach) == explain_network(Network(), reach) == ""


def test_command_line_reports_the_network_in_json(tmp_path: Path) -> None:
    """Without host names there is no network to report: the field exists."""
    program = [sys.executable, "-P", "-m", "anyshell", "run", "--json", "--", "true"]
    answer = subprocess.run(program, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert '"network": null' in answer.stdout


def test_ordinary_user_is_served_like_root(tmp_path: Path) -> None:
    """The real clients and the ways around the proxy again, as a user without files and rights."""
    once_more_as_an_ordinary_user(__file__, "real_clients or around_the_proxy or session_tells", tmp_path)


def test_terminal_question_offers_always_if_rules_exist() -> None:
    shell = ShellInfo(kind="bash", path="/bin/bash", version="5.2")
    request = NetworkRequest(
        text="pip install x\n\x1b[2J",
        shell=shell,
        host="here",
        directory="/src",
        name="pypi.org",
        port=443,
        rules="/r.toml",
    )
    shown = replace(request, display=display(request))
    assert shown.display.splitlines()[:3] == [
        "Connect to what its reach does not have: pypi.org, port 443",
        "Running command that asks:",
        "  | pip install x",
    ]
    assert "\x1b" not in shown.display
    choice = _Choice(shown)
    assert choice.question == (
        "Connect this? y = yes, a = yes for this session to this name and port, A = always, n [REASON] = no, ? = help: "
    )
    assert choice.answer("A") == Approved(scope="always")
    assert choice.answer("a") == Approved(scope="session")
    assert choice.answer("y") == Approved()
    without = _Choice(replace(shown, rules=""))
    assert "always" not in without.question
    assert without.answer("A") is None
    assert "A 1" not in choice.help
    # The remembered key is the destination, not the command that asked first.
    assert key_of(request) == key_of(replace(request, text="other", directory="/"))
    assert key_of(request) != key_of(replace(request, port=80))
