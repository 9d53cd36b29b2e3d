"""Connections to one host, and the sessions that share them.

A server limits the sessions on a connection (``MaxSessions``, 10 by default). The server also limits the connections
that have not logged in yet (``MaxStartups``, 10 before the server begins to refuse). So commands are spread over
several connections, and a few connections are opened at a time. A command that finds no room waits for its turn.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from ...._exceptions import AnyshellError, ConnectionFailed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import asyncssh

SESSIONS = 10
"""Sessions that a server is assumed to allow on a connection, until it refuses one; all but one are for commands and files."""

STARVED_SECONDS = 5.0
"""Seconds for which a session is waited for while sessions that stay open take all places; then that is an error."""

HANDSHAKES = 8
"""Connections that are being opened at the same time."""

PAUSE_SECONDS = 1.0
"""Seconds after a connection could not be opened, while others are open, until another is tried."""

CLOSE_SECONDS = 1.0
"""Seconds for a connection to say goodbye; then it is dropped."""

SETTLE_SECONDS = 0.004
"""Seconds after the end of a session before its place is taken again. OpenSSH frees the place one turn of its loop
later, after requests that arrived together with the end of the session."""

DOUBT_SECONDS = 0.5
"""Seconds after the end of a session in which a refusal does not show how many sessions are allowed."""

DOUBTS = 20
"""Refusals in a row after which a refusal shows the limit all the same."""

DOUBT_PAUSE = 0.25
"""Seconds, at most, after a doubtful refusal before the session's place is taken again; each refusal in a row doubles
the pause."""

EXTRA_CONNECTIONS = 1
"""Connections beyond ``max_connections``, for stopping commands when the other connections are silent."""


class Link:
    """One connection, with the count of its sessions."""

    connection: asyncssh.SSHClientConnection

    def __init__(self, most: int) -> None:
        self.sessions = 0
        """The sessions that are open or being opened on the connection."""
        self.most = most
        """The sessions that the server allows on the connection just now, as far as is known."""
        self.seen = 0
        """The sessions that the server has opened on the connection and that are not closed."""
        self.has_watcher = False
        self.retired = False
        """Whether no new session may be started on the connection."""
        self.closed_one = 0.0
        """The time at which a session on the connection was last closed, by the monotonic clock."""
        self.doubts = 0
        """The refusals since a session was last opened."""
        self.lasting = 0
        """The sessions on the connection that stay open without a command."""

    @property
    def room(self) -> int:
        """The number of further commands that fit. One session stays free for stopping commands, unless it is open already."""
        reserved = 0 if self.has_watcher or self.most == 1 else 1
        return 0 if self.retired else self.most - reserved - self.sessions


class Slot:
    """The right to one session on a connection."""

    def __init__(self, pool: Pool, link: Link) -> None:
        self._pool = pool
        self._link = link
        self._released = self._opened = self._lasts = False

    @property
    def connection(self) -> asyncssh.SSHClientConnection:
        """The connection to open the session on."""
        return self._link.connection

    def release(self) -> None:
        """Give back the right to a session that was never opened."""
        if not self._released:
            self._released = True
            self._link.lasting -= self._lasts
            self._pool._give_back(self._link)

    def lasts(self) -> None:
        """Record that the session stays open without a command: waiting for it to end would be in vain."""
        if not self._released and not self._lasts:
            self._lasts = True
            self._link.lasting += 1

    def opened(self) -> None:
        """Record that the server has opened the session: the server allows at least as many sessions as are open now."""
        self._opened = True
        self._link.doubts = 0
        self._link.seen += 1
        self._pool._seen = max(self._pool._seen, self._link.seen)

    def closed(self) -> None:
        """Give back the right to a session that is closed."""
        if not self._released:
            link = self._link
            self._released = True
            link.seen -= self._opened
            link.lasting -= self._lasts
            link.most = min(link.most + 1, self._pool._sessions)
            link.closed_one = time.monotonic()
            asyncio.get_running_loop().call_later(SETTLE_SECONDS, self._pool._give_back, link)

    def refused(self) -> bool:
        """Give back the right to a session that the server refused, and learn how many sessions it allows.

        A session that was closed here counts at the server until the session's program is gone. So a refusal is tried
        again if it comes soon after a close, or at a number of sessions that was open before. In the end, such a
        refusal lowers the limit only until a session is closed.

        Returns:
            Whether another try is useful: another connection may have room, or this connection later.
        """
        link = self._link
        others = link.sessions - 1
        link.doubts += 1
        recent = time.monotonic() - link.closed_one < DOUBT_SECONDS or others < self._pool._seen
        doubtful = recent and link.doubts <= DOUBTS
        if others > 0 and not doubtful:
            self._pool._learn(link, others)
        elif not doubtful:
            link.retired = True
        if doubtful and not self._released:
            self._released = True
            pause = min(SETTLE_SECONDS * 2.0 ** (link.doubts - 1), DOUBT_PAUSE)
            asyncio.get_running_loop().call_later(pause, self._pool._give_back, link)
        self.release()
        return doubtful or others > 0

    def retire(self) -> None:
        """Start no new session on this connection, which does not answer. Running sessions go on."""
        self._link.retired = True
        self.release()


class Pool:
    """The connections of one backend.

    Args:
        connect: Opens and authenticates one connection, within its own time limit; calls its argument when the
            connection is gone.
        most: Connections that are open at the same time, at most; one more is opened when the others are silent and a
            command must be stopped.
    """

    def __init__(
        self,
        connect: Callable[[Callable[[], object]], Awaitable[asyncssh.SSHClientConnection]],
        most: int,
    ) -> None:
        self._connect = connect
        self._most = most
        self._links: set[Link] = set()
        self._sessions = SESSIONS
        """The sessions that the server allows on a connection, as far as is known."""
        self._seen = 0
        """The most sessions that were open at once on a connection: the server allows no fewer."""
        self._waiting: deque[asyncio.Future[Slot]] = deque()
        self._opening: set[asyncio.Task[None]] = set()
        self._empty = asyncio.Event()
        self._not_before = 0.0
        self._closed = False

    async def slot(self) -> Slot:
        """Wait for the right to a session. The wait has no time limit while commands hold sessions.

        Raises:
            ConnectionFailed, HostKeyUntrusted: There is no connection, and none could be made; or no session will be free.
        """
        if self._closed:
            raise ConnectionFailed("the connection to this host is closed", stage="session")
        waiting: asyncio.Future[Slot] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        self._dispatch()
        try:
            while not waiting.done():
                await asyncio.wait([waiting], timeout=STARVED_SECONDS)
                if not waiting.done() and self._is_starved():
                    waiting.cancel()
                    raise ConnectionFailed(
                        f"the sessions that the host allows ({self.most + 1}) are all taken by what stays open: persistent shells, "
                        "files, and one for stopping commands; close a shell, or raise MaxSessions there or max_connections here",
                        stage="session",
                    )
            return waiting.result()
        except asyncio.CancelledError:
            waiting.cancel()
            if waiting.done() and not waiting.cancelled() and waiting.exception() is None:
                waiting.result().release()
            raise

    @property
    def most(self) -> int:
        """The number of sessions for commands that can be open at once, as far as is known; one more is for stopping."""
        return self._most * self._sessions - 1

    def has_room(self) -> bool:
        """Whether a session is available at once, and would leave room for a command."""
        return not self._waiting and not self._closed and any(link.room > 1 for link in self._links)

    async def reserved_slot(self, *, fresh: bool = False) -> Slot:
        """Return the right to a session for stopping commands, which does not queue behind commands.

        Args:
            fresh: Whether to open another connection, since the others are silent.

        Raises:
            ConnectionFailed, HostKeyUntrusted: A new connection was needed, and could not be made.
        """
        if not fresh:
            for link in self._links:
                if not link.retired and link.sessions < link.most:
                    return self._take(link, watcher=True)
        if len(self._links) >= self._most + EXTRA_CONNECTIONS:
            raise ConnectionFailed("no connection to this host answers", stage="session")
        return self._take(await self._add(), watcher=True)

    def _learn(self, link: Link, most: int) -> None:
        link.most = min(link.most, most)
        self._sessions = min(self._sessions, max(most, self._seen))

    def _take(self, link: Link, *, watcher: bool = False) -> Slot:
        link.sessions += 1
        link.has_watcher = link.has_watcher or watcher
        slot = Slot(self, link)
        if watcher:
            slot.lasts()
        return slot

    def _give_back(self, link: Link) -> None:
        link.sessions -= 1
        if link.retired and link.sessions == 0:
            link.connection.close()
        self._dispatch()

    def watcher_gone(self, slot: Slot) -> None:
        """Record that the session for stopping commands is closed, and keep room for another."""
        slot._link.has_watcher = False
        slot.closed()

    def _dispatch(self) -> None:
        """Hand out the available room, the oldest request first, and open connections for the remaining requests."""
        while self._waiting:
            if self._waiting[0].done():  # cancelled meanwhile
                self._waiting.popleft()
                continue
            link = max(self._links, key=lambda link: link.room, default=None)
            if link is None or link.room <= 0:
                break
            self._waiting.popleft().set_result(self._take(link))
        if not self._waiting or self._closed or time.monotonic() < self._not_before:
            return
        wanted = math.ceil(len(self._waiting) / max(1, self._sessions - 1)) - len(self._opening)
        allowed = min(HANDSHAKES, self._most - len(self._links)) - len(self._opening)
        for _ in range(min(wanted, allowed)):
            task = asyncio.get_running_loop().create_task(self._open())
            self._opening.add(task)
            task.add_done_callback(self._opened)

    def _is_starved(self) -> bool:
        """Whether no session will be free: every open session lasts, and no other connection can be opened."""
        full = len(self._links) >= self._most and not self._opening
        return full and all(link.sessions <= link.lasting for link in self._links)

    async def _open(self) -> None:
        await self._add()

    def _opened(self, task: asyncio.Task[None]) -> None:
        self._opening.discard(task)
        if task.cancelled():  # the loop is being closed
            error: BaseException | None = ConnectionFailed("connecting was cancelled", stage="connect")
        else:
            error = task.exception()
        if error is not None:
            if self._links:
                # Other connections exist, so each waiting task gets a turn. Perhaps the server allows no more
                # connections just now.
                self._not_before = time.monotonic() + PAUSE_SECONDS
                asyncio.get_running_loop().call_later(PAUSE_SECONDS, self._dispatch)
            elif not self._opening:
                self._fail(error)
                return
        self._dispatch()

    def _fail(self, error: BaseException) -> None:
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_exception(_copy(error))

    async def _add(self) -> Link:
        link = Link(self._sessions)
        link.connection = await self._connect(partial(self._lost, link))
        if link.retired:
            raise ConnectionFailed("the server closed the connection at once", stage="session")
        self._links.add(link)
        return link

    def _lost(self, link: Link) -> None:
        link.retired = True
        self._links.discard(link)
        if not self._links:
            self._empty.set()
        if not self._closed:
            self._dispatch()

    async def aclose(self) -> None:
        """Close every connection. Tasks that wait for a session get an error."""
        self._closed = True
        for task in tuple(self._opening):
            task.cancel()
        if self._opening:
            await asyncio.wait(tuple(self._opening))
        self._fail(ConnectionFailed("the connection to this host is closed", stage="session"))
        links = tuple(self._links)
        for link in links:
            link.connection.close()
        for end in (False, True):
            if end:
                for link in tuple(self._links):
                    link.connection.abort()
            self._empty.clear()
            if self._links:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(CLOSE_SECONDS):
                        await self._empty.wait()
        if links:  # the route of a connection ends separately: other connections, or a program
            closing = [asyncio.ensure_future(link.connection.wait_closed()) for link in links]
            _, late = await asyncio.wait(closing, timeout=CLOSE_SECONDS)
            for task in late:
                task.cancel()


def _copy(error: BaseException) -> BaseException:
    """Copy an error for each of several waiting tasks: one exception raised twice would collect both tracebacks."""
    if not isinstance(error, AnyshellError):
        return error
    copy = type(error).__new__(type(error), *error.args)
    copy.__dict__.update(error.__dict__)
    copy.__cause__ = error.__cause__
    return copy
