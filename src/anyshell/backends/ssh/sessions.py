"""The sessions on a host: each on one of a few connections, which are made when they are needed."""

from __future__ import annotations

import asyncio
import secrets
import time
from typing import TYPE_CHECKING, TypeVar

import asyncssh
from asyncssh.constants import OPEN_REQUEST_PTY_FAILED

from ..._exceptions import BackendError, ConnectionFailed, TerminalUnavailable
from ..._waits import note_failure, shielded
from .channel import TERMINAL_OUTPUT, TERMINAL_WINDOW, Channel
from .connection.connecting import open_connection
from .connection.credentials import Secrets
from .connection.login import safe_words
from .connection.options import describe_address
from .connection.pool import Pool, Slot

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from ..._types import Terminal
    from .connection.options import SSHOptions

T = TypeVar("T")

OPEN_SECONDS = 15.0
"""Seconds for a server to open a session on a connection."""

HANDSHAKE_HANGUP_SECONDS = 3.0
"""Seconds in which a server that is busy with other logins hangs up; after a later failure the login is not tried again."""

HANDSHAKE_PAUSES = (0.2, 0.5, 1.0)
"""Seconds, on average, before a login is tried again after a server has hung up; after the last try, that is an error."""

ATTEMPTS = 3
"""Times that a session is requested when connections break before the command was requested; then that is an error."""

CONNECT_SECONDS = 5.0
"""Seconds for a server to try a port of its own, by SSH."""

END_SECONDS = 2.0
"""Seconds for sessions that are being opened or closed when a backend is closed; then they are given up."""


class Sessions:
    """The sessions on one host.

    Args:
        options: The host.
        on_connected: Called when a connection was made.
    """

    def __init__(self, options: SSHOptions, on_connected: Callable[[], object]) -> None:
        self._options = options
        self._name = describe_address(options)
        self._on_connected = on_connected
        self._secrets = Secrets()
        self._notices: dict[str, None] = {}
        self._pool = Pool(self._connect, options.max_connections)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = False

    @property
    def notices(self) -> tuple[str, ...]:
        """The notices of connections, each once."""
        return tuple(self._notices)

    def has_room(self) -> bool:
        """Whether a session is available at once, and would leave room for a command."""
        return self._pool.has_room()

    async def open(
        self,
        channel: Channel,
        line: str,
        terminal: Terminal | None = None,
        *,
        beside: int = 0,
        lasts: bool = False,
    ) -> bool:
        """Open a session for a command, and ask the server to run a line.

        If the server may have received the request, the request is not repeated.

        Args:
            channel: The channel of the session.
            line: The line for the login shell.
            terminal: The terminal of the program.
            beside: The number of sessions that stay open for the command meanwhile, so that waiting for them would be
                in vain.
            lasts: Whether the session stays open without a command.

        Returns:
            Whether the server keeps the channel open until no process holds it any more. OpenSSH takes a terminal
            away when the program has ended.

        Raises:
            TerminalUnavailable: A terminal was requested, and the server grants none.
            ConnectionFailed, HostKeyUntrusted: The host cannot be reached.
        """
        broken = 0
        while broken < ATTEMPTS:
            if self._pool.most <= beside:
                raise ConnectionFailed(
                    f"{self._name} allows {self._pool.most + 1} sessions, and the command needs {beside + 2}: one for itself, one for "
                    "its network of named hosts, one for files, one for stopping it; raise MaxSessions there, or max_connections here",
                    stage="session",
                )
            slot = await self._pool.slot()
            try:
                await self._open_on(slot, channel, line, terminal)
            except asyncssh.ChannelOpenError as error:
                if error.code == OPEN_REQUEST_PTY_FAILED and not slot.connection.is_closed():
                    channel.refused = True
                    raise TerminalUnavailable(
                        f"{self._name} grants no terminal (PermitTTY no, a key with no-pty or restrict, or all are "
                        "in use); run it without one"
                    ) from error
                # Each refusal lowers the pool's limit of sessions, so this loop ends.
                if not slot.refused():
                    raise ConnectionFailed(
                        f"{self._name} accepts the login but opens no session ({safe_words(error.reason)}); "
                        "does the server allow any (MaxSessions)?",
                        stage="session",
                    ) from error
            except (TimeoutError, asyncssh.Error, OSError):
                slot.retire()
                if channel.asked:
                    return False
                broken += 1
            else:
                if lasts:
                    slot.lasts()
                return terminal is None and _is_openssh(slot.connection)
        raise ConnectionFailed(f"{self._name} opens no session: the connections break", stage="session")

    async def open_reserved(
        self, channel: Channel, line: str, *, fresh: bool, on_closed: Callable[[], object]
    ) -> None:
        """Open the session for stopping commands, which does not queue behind commands, and run a line there.

        Args:
            channel: The channel of the session.
            line: The line for the login shell.
            fresh: Whether to open another connection, since the others are silent.
            on_closed: Called when the channel is closed.

        Raises:
            ConnectionFailed, HostKeyUntrusted: The host cannot be reached, or opens no session.
        """
        slot = await self._pool.reserved_slot(fresh=fresh)

        def closed() -> None:
            on_closed()
            self._pool.watcher_gone(slot)

        try:
            await self._open_on(slot, channel, line)
        except (TimeoutError, asyncssh.Error, OSError) as error:
            self._pool.watcher_gone(slot)
            raise ConnectionFailed(
                f"{self._name} opens no session: {safe_words(str(error))}", stage="session"
            ) from error
        channel.on_closed = closed
        if channel.closed.is_set():
            closed()

    async def sftp(self) -> asyncssh.SFTPClient:
        """Open a session for files, and start the SFTP service on it."""
        while True:
            slot = await self._pool.slot()
            # In a task of its own: a cancellation in the middle would leave a session that is never closed.
            task = self._start(_open_sftp(slot.connection))
            try:
                client = await shielded(task)
                break
            except asyncssh.ChannelOpenError as error:
                # The server refused either the session, or the service on the session. Only a refused session
                # teaches the pool the limit.
                if error.code == asyncssh.OPEN_REQUEST_SESSION_FAILED or not slot.refused():
                    slot.release()
                    raise
            except BaseException:
                self._start(_give_up(task, slot))
                raise
        slot.opened()
        slot.lasts()
        self._start(_release_after(client, slot))
        return client

    async def connects(self, port: int) -> bool:
        """Whether a port on the host accepts connections; the server itself tries the port."""
        # In a task of its own: a cancellation in the middle would leave a channel that is never closed.
        task = self._start(self._try_port(port))
        await asyncio.wait([task], timeout=CONNECT_SECONDS)
        return task.done() and task.result()

    async def aclose(self) -> None:
        """Close every connection."""
        self._closed = True
        if self._tasks:
            await asyncio.wait(tuple(self._tasks), timeout=END_SECONDS)
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._pool.aclose()

    async def _try_port(self, port: int) -> bool:
        slot = await self._pool.slot()
        slot.release()  # the server limits sessions, and this channel is not a session
        try:
            _, writer = await slot.connection.open_connection("localhost", port, encoding=None)
        except asyncssh.ChannelOpenError as error:
            if error.code == asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED:
                raise BackendError(
                    f"{self._name} does not let anyshell connect to a port (AllowTcpForwarding, PermitOpen); "
                    "wait for what the program prints instead"
                ) from error
            return False
        except (asyncssh.Error, OSError):
            return False  # unknown; the caller asks again
        writer.close()
        return True

    async def _connect(self, on_lost: Callable[[], object]) -> asyncssh.SSHClientConnection:
        for pause in (*HANDSHAKE_PAUSES, None):
            began = time.monotonic()
            try:
                connection = await open_connection(
                    self._options, tell=self._tell, secrets=self._secrets, on_lost=on_lost
                )
                break
            except ConnectionFailed as error:
                # A server that is busy with other logins hangs up on some, at random (MaxStartups).
                hung_up = error.stage == "handshake" and time.monotonic() - began < HANDSHAKE_HANGUP_SECONDS
                if not hung_up or pause is None or self._closed:
                    raise
                await asyncio.sleep(pause * (0.5 + secrets.randbelow(1000) / 1000))
        self._on_connected()
        return connection

    def _tell(self, notice: str) -> None:
        self._notices[notice] = None

    async def _open_on(
        self, slot: Slot, channel: Channel, line: str, terminal: Terminal | None = None
    ) -> None:
        channel.on_closed = slot.closed
        channel.connection = slot.connection
        if terminal is not None and _is_openssh(slot.connection):
            channel.window = TERMINAL_WINDOW
        wanted = True
        unwanted = _Unwanted(slot.closed)

        def session() -> asyncssh.SSHClientSession[bytes]:
            slot.opened()
            return channel if wanted else unwanted

        # In a task of its own: a cancellation in the middle would leave a session that is never closed. No
        # request for variables may go out, not even for those of SendEnv or SetEnv.
        task = self._start(
            slot.connection.create_session(
                session, line, encoding=None, env=None, send_env=None, **_ask_for(terminal)
            )
        )
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                await shielded(task)
        except asyncssh.ChannelOpenError:
            raise
        except BaseException:
            wanted = False
            if not channel.asked:
                task.add_done_callback(lambda _: None if unwanted.closing else slot.closed())
            elif not channel.owned:
                channel.abort()
            raise

    def _start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        note_failure(task)


class _Unwanted(asyncssh.SSHClientSession[bytes]):
    """A session that was given up before the server opened it. Nothing is requested on it, and it is closed at once.

    Args:
        on_closed: Called when the session is closed.
    """

    def __init__(self, on_closed: Callable[[], object]) -> None:
        self._on_closed = on_closed
        self.closing = False

    def connection_made(self, chan: asyncssh.SSHClientChannel[bytes]) -> None:
        self.closing = True
        chan.abort()
        raise ConnectionAbortedError("given up before it was open")  # asyncssh would request the program now

    def connection_lost(self, exc: Exception | None) -> None:
        self._on_closed()


def _ask_for(terminal: Terminal | None) -> dict[str, Any]:
    """Return asyncssh's arguments for the requests that come before the program."""
    if terminal is None:
        return {"request_pty": False}
    return {
        "request_pty": "force",
        "window": TERMINAL_OUTPUT,
        "term_type": terminal.term,
        "term_size": (terminal.columns, terminal.rows),
        "term_modes": {asyncssh.PTY_IUTF8: 1},  # modes that are not listed stay as the host sets them
    }


def _is_openssh(connection: asyncssh.SSHClientConnection) -> bool:
    """Whether the server is OpenSSH on a POSIX host, whose behaviour is known."""
    version = str(connection.get_extra_info("server_version", ""))
    return "OpenSSH" in version and "Windows" not in version


async def _open_sftp(connection: asyncssh.SSHClientConnection) -> asyncssh.SFTPClient:
    return await connection.start_sftp_client(env=None, send_env=None)


async def _give_up(opening: asyncio.Task[asyncssh.SFTPClient], slot: Slot) -> None:
    """Close a session for files, which is no longer wanted, as soon as it is open."""
    try:
        client = await opening
        client.exit()
        await client.wait_closed()
    finally:
        slot.closed()


async def _release_after(client: asyncssh.SFTPClient, slot: Slot) -> None:
    try:
        await client.wait_closed()
    finally:
        slot.closed()
