"""The program that ProxyCommand runs instead of connecting, and its end.

It has one end of a pair of sockets as its input and output, and SSH is spoken over the other. asyncssh can run such
a program as well, but takes what it writes to its standard error for what the server said.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from typing import cast

from ...._exceptions import ConnectionFailed
from ...._waits import outlast, threads_as_os_errors

GRACE_SECONDS = 1.0
"""Seconds for a ProxyCommand to end when its connection has, before it is killed."""

KILL_SECONDS = 5.0
"""Seconds for the news of its end after the kill."""

_LAST_WORDS = 2048
"""Bytes of what a ProxyCommand says that an error is made of, the last."""


class ProxyCommand(asyncio.SubprocessProtocol):
    """A running ProxyCommand. asyncssh closes it with the connection that it was given to."""

    def __init__(self) -> None:
        self._transport: asyncio.SubprocessTransport | None = None
        self._said = b""
        self._exited = asyncio.Event()
        self._closing = False
        self._timer: asyncio.TimerHandle | None = None

    @classmethod
    async def start(cls, command: str) -> tuple[socket.socket, ProxyCommand]:
        """Run a command by the user's shell, as ssh does, and give the socket to speak with it.

        Raises:
            ConnectionFailed: It cannot be run.
        """
        ours, theirs = socket.socketpair()
        try:
            ours.setblocking(False)
            # asyncio would kill the command alone when it is cancelled here, and wait for all that holds its stderr
            # (https://github.com/python/cpython/issues/119710).
            starting = asyncio.create_task(cls._start(command, theirs))
            cancelled = await outlast(starting, lambda: None)
        finally:
            theirs.close()
        if cancelled is not None:
            ours.close()
            if starting.exception() is None:
                starting.result().close()
                await outlast(asyncio.create_task(starting.result().wait_closed()), lambda: None)
            raise cancelled
        try:
            return ours, starting.result()
        except OSError as error:
            ours.close()
            raise ConnectionFailed(f"the ProxyCommand cannot be run: {error}", stage="connect") from error
        except BaseException:
            ours.close()
            raise

    @classmethod
    async def _start(cls, command: str, theirs: socket.socket) -> ProxyCommand:
        # asyncio waits in a thread where the system has no pidfd, or before Python 3.12.
        with threads_as_os_errors():
            _, protocol = await asyncio.get_running_loop().subprocess_exec(
                cls,
                os.environ.get("SHELL") or "/bin/sh",
                "-c",
                f"exec {command}",
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        return protocol

    @property
    def end(self) -> str:
        """The end of the proxy and its last words, for a message; empty while it runs."""
        code = None if self._transport is None else self._transport.get_returncode()
        if code is None:
            return ""
        text = self._said.decode("utf-8", "replace").strip().rpartition("\n")[2]
        said = "".join(letter if letter.isprintable() else " " for letter in text).strip()
        how = f"exit code {code}" if code >= 0 else f"signal {-code}"
        return f"the ProxyCommand ended with {how}" + (f" and said: {said}" if said else "")

    async def wait_ended(self, seconds: float) -> None:
        """Wait until it has ended, but not longer than so many seconds."""
        try:
            async with asyncio.timeout(seconds):
                await self._exited.wait()
        except TimeoutError:
            return

    # --- what asyncio calls ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport of the started proxy."""
        self._transport = cast("asyncio.SubprocessTransport", transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Keep the last words of the proxy, which are meant for a person at a terminal."""
        self._said = (self._said + data)[-_LAST_WORDS:]

    def process_exited(self) -> None:
        """Note the end of the program."""
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._transport.close()
        self._exited.set()

    # --- what asyncssh calls ---

    def close(self) -> None:
        """Ask it to end, as ssh does, and kill it when it does not."""
        if self._closing or self._exited.is_set():
            return
        self._closing = True
        self._signal(getattr(signal, "SIGHUP", signal.SIGTERM))
        self._timer = asyncio.get_running_loop().call_later(
            GRACE_SECONDS, self._signal, getattr(signal, "SIGKILL", signal.SIGTERM)
        )

    async def wait_closed(self) -> None:
        """Wait until it has ended; closed before, it has been killed by then."""
        await self.wait_ended(GRACE_SECONDS + KILL_SECONDS)

    def _signal(self, number: int) -> None:
        """Signal it and what it started: it leads a group of its own, whose number is its own until it is reaped."""
        transport = self._transport
        if transport is None or transport.get_returncode() is not None:
            return
        kill_group = getattr(os, "killpg", None)
        try:
            if kill_group is not None:
                kill_group(transport.get_pid(), number)
            else:
                transport.send_signal(number)
        except ProcessLookupError:
            return
