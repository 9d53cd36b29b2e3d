"""The program that ProxyCommand runs instead of connecting, and its end.

The program has one end of a pair of sockets as its input and output; SSH is spoken over the other end. asyncssh can run
a ProxyCommand as well, but reports the program's standard error as words of the server.
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
"""Seconds for a ProxyCommand to end when its connection has ended; then it is killed."""

KILL_SECONDS = 5.0
"""Seconds for the report of a ProxyCommand's end after the kill."""

_LAST_WORDS = 2048
"""Bytes of a ProxyCommand's standard error that an error message is made from; only the last are kept."""


class ProxyCommand(asyncio.SubprocessProtocol):
    """A running ProxyCommand. asyncssh closes the ProxyCommand together with its connection."""

    def __init__(self) -> None:
        self._transport: asyncio.SubprocessTransport | None = None
        self._said = b""
        self._exited = asyncio.Event()
        self._closing = False
        self._timer: asyncio.TimerHandle | None = None

    @classmethod
    async def start(cls, command: str) -> tuple[socket.socket, ProxyCommand]:
        """Run a command by the user's shell, as ssh does, and return the socket to speak over.

        Raises:
            ConnectionFailed: The command cannot be run.
        """
        ours, theirs = socket.socketpair()
        try:
            ours.setblocking(False)
            # When cancelled here, asyncio would kill the command alone, and wait for every process that holds
            # the command's stderr (https://github.com/python/cpython/issues/119710).
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
        """The end of the proxy and its last words, for a message; empty while the proxy runs."""
        code = None if self._transport is None else self._transport.get_returncode()
        if code is None:
            return ""
        text = self._said.decode("utf-8", "replace").strip().rpartition("\n")[2]
        said = "".join(letter if letter.isprintable() else " " for letter in text).strip()
        how = f"exit code {code}" if code >= 0 else f"signal {-code}"
        return f"the ProxyCommand ended with {how}" + (f" and said: {said}" if said else "")

    async def wait_ended(self, seconds: float) -> None:
        """Wait until the proxy has ended, for at most the given seconds."""
        try:
            async with asyncio.timeout(seconds):
                await self._exited.wait()
        except TimeoutError:
            return

    # --- what asyncio calls ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport of the started proxy."""
        self._transport = cast("asyncio.SubprocessTransport", transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Keep the last words of the proxy, which are meant for a person at a terminal."""
        self._said = (self._said + data)[-_LAST_WORDS:]

    def process_exited(self) -> None:
        """Record the end of the proxy."""
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._transport.close()
        self._exited.set()

    # --- what asyncssh calls ---

    def close(self) -> None:
        """Ask the proxy to end, as ssh does, and kill the proxy if it does not end in time."""
        if self._closing or self._exited.is_set():
            return
        self._closing = True
        self._signal(getattr(signal, "SIGHUP", signal.SIGTERM))
        self._timer = asyncio.get_running_loop().call_later(
            GRACE_SECONDS, self._signal, getattr(signal, "SIGKILL", signal.SIGTERM)
        )

    async def wait_closed(self) -> None:
        """Wait until the proxy has ended. A proxy that was closed before has been killed by the end of the wait."""
        await self.wait_ended(GRACE_SECONDS + KILL_SECONDS)

    def _signal(self, number: int) -> None:
        """Signal the proxy and its child processes. The proxy leads its own group, whose number is not reused until the reap."""
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
