"""The parser of a client's requests to a proxy: HTTP (CONNECT, or a whole URL) and SOCKS5.

A request that does not follow the standards exactly is refused, since another parser could understand the bytes differently:
RFC 9110, 9112 and 1928.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator

HEAD_BYTES = 32 * 1024
"""Bytes of the head of a request to the proxy; a longer head is refused."""

CHUNK_LINE_BYTES = 1024
"""Bytes of a line that begins a chunk of a request's body; a longer line ends the connection."""

_TOKEN = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_AUTHORITY = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^\[\]:@/?#\\\s]+)(?::(?P<port>[0-9]{1,5}))?")
# Fields for this hop alone (RFC 9110, 7.6.1), and Host, which is written anew from the URL.
_DROPPED = frozenset(
    b"connection proxy-connection keep-alive proxy-authorization proxy-authenticate te upgrade host".split()
)

Kind = Literal["connect", "http", "socks"]


class Malformed(Exception):  # noqa: N818 - an answer; it never leaves the proxy
    """The bytes of a client are not a valid request; with the reason, and the answer by the client's protocol."""

    def __init__(self, why: str, answer: bytes | None = None) -> None:
        super().__init__(why)
        self.answer = http_answer("400 Bad Request", why) if answer is None else answer


@dataclass(frozen=True, slots=True)
class Request:
    """The request of a client.

    Attributes:
        kind: ``connect`` and ``socks`` are a tunnel, ``http`` is one request.
        host: The host, as the client wrote it.
        port: The port on that host.
        head: The head of the request for the host.
        body: Bytes of the request's body; -1 for a body in chunks.
    """

    kind: Kind
    host: str
    port: int
    head: bytes = b""
    body: int = 0

    def answer(self, verdict: str, why: str = "") -> bytes:
        """Return the answer to the client for a verdict: ``allowed``, ``refused`` or ``failed``."""
        if self.kind == "socks":
            code = {"allowed": 0, "refused": 2}.get(verdict, 4)
            return socks_answer(code)
        if verdict == "allowed":
            return b"HTTP/1.1 200 Connection established\r\n\r\n" if self.kind == "connect" else b""
        return http_answer("403 Forbidden" if verdict == "refused" else "502 Bad Gateway", why)


def http_answer(status: str, why: str) -> bytes:
    """Return an HTTP answer with a text, after which the connection is closed."""
    body = f"anyshell: {why}\n".encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"Connection: close\r\n\r\n" + body


def socks_answer(code: int) -> bytes:
    """Return an answer of SOCKS5 with an empty address, which no client needs."""
    return bytes([5, code, 0, 1, 0, 0, 0, 0, 0, 0])


class Client:
    """The byte stream of a client, with a buffer of bytes that were read ahead.

    Args:
        sock: The client's socket, which does not block.
    """

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.ahead = b""

    async def send(self, data: bytes) -> None:
        """Send all bytes of `data`."""
        await asyncio.get_running_loop().sock_sendall(self.sock, data)

    async def some(self, most: int = 65536) -> bytes:
        """Read the next bytes, at most `most`; empty at the end."""
        if self.ahead:
            data, self.ahead = self.ahead[:most], self.ahead[most:]
            return data
        return await asyncio.get_running_loop().sock_recv(self.sock, most)

    async def exactly(self, size: int) -> bytes:
        """Read exactly `size` bytes.

        Raises:
            EOFError: The stream ends before.
        """
        data = b""
        while len(data) < size:
            piece = await self.some(size - len(data))
            if not piece:
                raise EOFError
            data += piece
        return data

    async def until(self, end: bytes, most: int) -> bytes:
        """Read the next bytes up to and including a mark.

        Raises:
            EOFError: The stream ends before the mark.
            OverflowError: The bytes with the mark are more than `most`.
        """
        data = b""
        while True:
            searched = max(0, len(data) - len(end) + 1)
            piece = await self.some()
            if not piece:
                raise EOFError
            data += piece
            at = data.find(end, searched)
            if at >= 0:
                at += len(end)
                data, self.ahead = data[:at], data[at:] + self.ahead
            if len(data) > most:
                raise OverflowError
            if at >= 0:
                return data


async def read_request(client: Client) -> Request:
    """Read the request of a client.

    Raises:
        Malformed: The bytes are not a valid request.
        EOFError: The stream ends before the end of the request.
    """
    first = await client.exactly(1)
    if first in (b"\4", b"\5"):
        return await _socks(client, first)
    client.ahead = first + client.ahead
    try:
        head = await client.until(b"\r\n\r\n", HEAD_BYTES)
    except OverflowError:
        why = f"the head of the request has more than {HEAD_BYTES} bytes"
        raise Malformed(why, http_answer("431 Request Header Fields Too Large", why)) from None
    return _http(head[:-4])


def _http(head: bytes) -> Request:
    line, *fields = head.split(b"\r\n")
    if any(byte in head.replace(b"\r\n", b"") for byte in (b"\r", b"\n", b"\0")):
        raise Malformed("a line of the head ends otherwise than by CR LF")
    words = line.split(b" ")
    if len(words) != 3 or not _TOKEN.fullmatch(words[0]) or words[2] not in (b"HTTP/1.1", b"HTTP/1.0"):
        raise Malformed("the first line is not a request of HTTP/1.1")
    if not re.fullmatch(rb"[!-~]+", words[1]):
        raise Malformed("the destination has characters that no URL has")
    method, target = words[0], words[1].decode()
    kept, lengths, codings = [], set(), []
    for field in fields:
        name, colon, value = field.partition(b":")
        if not colon or not _TOKEN.fullmatch(name):
            raise Malformed("a line of the head is not a field")
        lower, value = name.lower(), value.strip(b" \t")
        if lower == b"content-length":
            lengths.add(value)
        elif lower == b"transfer-encoding":
            codings.append(value.lower())
        elif lower not in _DROPPED:
            kept.append(field)
    if method == b"CONNECT":
        host, port = _authority(target, None)
        return Request("connect", host, port)
    # A head that two parsers may understand differently is refused (RFC 9112, 6.3 and 11.2): two lengths, or a length beside
    # chunks. The proxy checks the host of the URL, and writes the Host field anew from the URL.
    scheme, _, rest = target.partition("://")
    if scheme.lower() != "http" or not rest:
        raise Malformed("this proxy takes CONNECT, or a whole URL of http://")
    at = min((rest.find(mark) for mark in "/?#" if mark in rest), default=len(rest))
    host, port = _authority(rest[:at], 80)
    path = rest[at:].partition("#")[0].encode()
    if (codings and (lengths or codings != [b"chunked"])) or len(lengths) > 1:
        raise Malformed("the head says more than one length of the body")
    length = next(iter(lengths), b"0")
    if not length.isdigit() or len(length) > 18:
        raise Malformed("the length of the body is not a number")
    if lengths:
        kept.append(b"Content-Length: " + length)
    if codings:
        kept.append(b"Transfer-Encoding: chunked")
    start = b" ".join((method, path if path.startswith(b"/") else b"/" + path, words[2]))
    own = [b"Host: " + rest[:at].encode(), *kept, b"Connection: close"]
    return Request(
        "http", host, port, b"\r\n".join((start, *own)) + b"\r\n\r\n", -1 if codings else int(length)
    )


def _authority(text: str, default: int | None) -> tuple[str, int]:
    found = _AUTHORITY.fullmatch(text)
    port = found["port"] or default if found is not None else None
    if found is None or port is None or not 0 < int(port) < 65536:
        raise Malformed("the destination is not a HOST:PORT")
    return found["host"].removeprefix("[").removesuffix("]"), int(port)


async def _socks(client: Client, version: bytes) -> Request:
    if version == b"\4":
        raise Malformed("SOCKS4 is not supported", b"\0\x5b" + bytes(6))
    methods = await client.exactly((await client.exactly(1))[0])
    if 0 not in methods:
        raise Malformed("the client wants to log in", b"\5\xff")
    await client.send(b"\5\0")
    version_, command, _, kind = await client.exactly(4)
    if version_ != 5 or kind not in (1, 3, 4):
        raise Malformed("no request of SOCKS5", socks_answer(8))
    if kind == 3:
        name = await client.exactly((await client.exactly(1))[0])
        host = name.decode("utf-8", "replace")
    else:
        host = str(ipaddress.ip_address(await client.exactly(4 if kind == 1 else 16)))
    port = int.from_bytes(await client.exactly(2), "big")
    if command != 1:
        raise Malformed("this proxy supports neither UDP nor listening", socks_answer(7))
    if not port:
        raise Malformed("there is no port 0", socks_answer(1))
    return Request("socks", host, port)


async def body_of(client: Client, length: int) -> AsyncIterator[bytes]:
    """Yield the raw body of a request in pieces, and no byte after the body.

    Args:
        client: The client that sends the body.
        length: The length, as `Request.body`.

    Raises:
        Malformed: The body is not in valid chunks, although the head says so.
        EOFError, OverflowError: The body or a chunk's line does not end.
    """
    if length >= 0:
        async for piece in _pieces(client, length):
            yield piece
        return
    while True:
        line = await client.until(b"\r\n", CHUNK_LINE_BYTES)
        size = line[:-2].partition(b";")[0].rstrip(b" \t")
        if not re.fullmatch(rb"[0-9A-Fa-f]{1,15}", size) or b"\n" in line[:-1] or b"\r" in line[:-2]:
            raise Malformed("a chunk of the body has no size")
        yield line
        async for piece in _pieces(client, int(size, 16)):
            yield piece
        if (end := await client.exactly(2)) != b"\r\n":
            raise Malformed("a chunk of the body does not end where it says, or trailers follow it")
        yield end
        if int(size, 16) == 0:
            return


async def _pieces(client: Client, length: int) -> AsyncIterator[bytes]:
    while length:
        piece = await client.some(min(length, 65536))
        if not piece:
            raise EOFError
        length -= len(piece)
        yield piece
