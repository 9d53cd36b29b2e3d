"""The connection from a command's network to its proxy: a listening socket from inside the sandbox, handed out.

The program inside (`inside.py`) makes the listening socket, and sends it over a socket of the file system with SCM_RIGHTS. The
program inside closes both sockets, and becomes the command after this side has confirmed. So the command has no other way out,
and no program of anyshell's runs in the sandbox's network.
"""

from __future__ import annotations

import array
import asyncio
import contextlib
import os
import secrets
import socket
import sys
import tempfile
from contextvars import ContextVar
from typing import TYPE_CHECKING

from .._exceptions import SpawnError
from .proxy import NetworkRecord, Proxy
from .view import GATE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._types.names import Names
    from .._types.network import Network
    from ..abc import Spawner
    from .proxy import Ask

PORT = 47731  # no bound
"""The port of the proxy, which exists only in the command's network."""

INSIDE = "/dev/anyshell"  # no bound
"""The path at which the program inside finds the socket of the gate: /dev is always the command's own."""

HANDOVER_SECONDS = 30.0
"""Seconds for a program in a sandbox to hand out its socket, from its start; then the command is not run."""

ASKING: ContextVar[Ask | None] = ContextVar("anyshell_ask", default=None)


@contextlib.contextmanager
def asking(ask: Ask) -> Iterator[None]:
    """Let commands that run in this context ask about destinations outside of their reach."""
    token = ASKING.set(ask)
    try:
        yield
    finally:
        ASKING.reset(token)


class Gate:
    """The server of one program's network, from before the program's start to its end.

    Args:
        names: The names that the program may connect to.
        directory: The directory for the socket over which the program hands out its listening socket. The gate creates and
            removes the directory. By default a new one.
        token: The secret that the program sends with its listening socket.
    """

    seconds: float | None = HANDOVER_SECONDS
    """The seconds to wait for the program's listening socket; ``None`` means no bound."""

    def __init__(self, names: Names, directory: str = "", token: bytes = b"") -> None:
        self._names = names
        self._token = token or secrets.token_bytes(16)
        self._directory = (
            directory or f"{os.path.realpath(tempfile.gettempdir())}{GATE}{secrets.token_hex(8)}"
        )
        self._record = NetworkRecord()
        self._proxy: Proxy | None = None
        self._waiting: asyncio.Task[None] | None = None
        self._meeting = contextlib.ExitStack()

    @property
    def path(self) -> str:
        """The path of the socket over which the program inside hands out its listening socket."""
        return os.path.join(self._directory, "gate")

    @property
    def words(self) -> tuple[str, ...]:
        """The words for the program inside."""
        return (f"gate={INSIDE}", f"token={self._token.hex()}", f"port={PORT}")

    @property
    def variables(self) -> dict[str, str]:
        """The variables that tell programs to use the proxy."""
        url = f"http://127.0.0.1:{PORT}"
        told = {
            name: url
            for each in ("http", "https", "all")
            for name in (f"{each}_proxy", f"{each}_proxy".upper())
        }
        # The command reaches its own servers without the proxy, unless the reach has a destination on this machine.
        own = "" if self._names.here else "localhost,127.0.0.1,::1"
        return {**told, "no_proxy": own, "NO_PROXY": own, "NODE_USE_ENV_PROXY": "1"}

    async def belongs(self) -> NetworkRecord:
        """Start a record for the command that begins now, with the `ASKING` callback of this context."""
        self.count(NetworkRecord(ASKING.get()))
        return self._record

    def count(self, record: NetworkRecord) -> None:
        """Count in another record from now on."""
        self._record.forget()
        self._record = record
        if self._proxy is not None:
            self._proxy.record = record

    async def settle(self) -> None:
        """Wait until all traffic so far has been counted."""

    def network(self) -> Network:
        """Return the network use of the present command so far."""
        return self._record.network()

    async def open(self, spawner: Spawner) -> None:
        """Begin to serve the network. `spawner` starts the helper program on another host.

        Raises:
            SpawnError: The network cannot be served, with the reason.
        """
        await self.belongs()
        self.listen()

    def listen(self) -> None:
        """Wait in a new task for the listening socket from inside.

        Raises:
            SpawnError: The socket for the handover cannot be made.
        """
        if sys.platform == "win32":  # so that mypy skips the rest on Windows
            raise NotImplementedError
        with contextlib.ExitStack() as stack:
            try:
                os.mkdir(self._directory, 0o700)
                stack.callback(self._remove)
                meeting = stack.enter_context(socket.socket(socket.AF_UNIX))
                # Bind by a descriptor of the directory, since the path of a socket has at most 107 bytes.
                fd = os.open(self._directory, os.O_RDONLY)
                try:
                    meeting.bind(f"/proc/self/fd/{fd}/gate")
                finally:
                    os.close(fd)
                meeting.listen()
                meeting.setblocking(False)
            except OSError as error:
                raise SpawnError(
                    f"no socket can be made in the directory for temporary files: {error.strerror}"
                ) from error
            self._meeting = stack.pop_all()
        self._waiting = asyncio.get_running_loop().create_task(self._wait(meeting))

    async def aclose(self) -> None:
        """Close the open connections and sockets, and wait until they are closed."""
        self._record.forget()
        if self._waiting is not None:
            self._waiting.cancel()
            await asyncio.gather(self._waiting, *self._record.answers.values(), return_exceptions=True)
        self._meeting.close()  # a task that was cancelled before it began has not closed it
        if self._proxy is not None:
            await self._proxy.aclose()

    async def _wait(self, meeting: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        with self._meeting, contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.seconds):
                while self._proxy is None:
                    peer, _ = await loop.sock_accept(meeting)
                    with peer, contextlib.suppress(OSError):
                        peer.setblocking(False)
                        if (listener := await _received(peer, self._token)) is not None:
                            self._proxy = self._serve(listener)
                            await loop.sock_sendall(peer, b"\n")

    def _serve(self, listener: socket.socket) -> Proxy:
        return Proxy(listener, self._names, self._record)

    def _remove(self) -> None:
        with contextlib.suppress(OSError):
            os.unlink(self.path)
        with contextlib.suppress(OSError):
            os.rmdir(self._directory)


async def _received(peer: socket.socket, token: bytes) -> socket.socket | None:
    """Receive the listening socket that a peer sends with the token; ``None`` for any other message."""
    if sys.platform == "win32":  # as above
        raise NotImplementedError
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(peer, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(peer)
    space = socket.CMSG_SPACE(array.array("i").itemsize * 4)
    data, told, _, _ = peer.recvmsg(len(token) + 1, space, getattr(socket, "MSG_CMSG_CLOEXEC", 0))
    fds = array.array("i")
    for level, kind, content in told:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(content[: len(content) - len(content) % fds.itemsize])
    if len(fds) == 1 and secrets.compare_digest(data, token):
        return socket.socket(fileno=fds[0])
    for fd in fds:
        os.close(fd)
    return None
