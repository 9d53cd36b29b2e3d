"""The private directory by which a persistent shell on this machine is spoken with."""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
import shutil
import sys
import tempfile
from contextlib import suppress
from typing import TYPE_CHECKING

assert sys.platform != "win32"

import anyio
from anyio.abc import ByteSendStream

from ...._exceptions import SpawnError
from .pipes import PipeReceiveStream, PipeSendStream

if TYPE_CHECKING:
    from collections.abc import Callable

    from ....abc import Exchange, Inlet, Outlet

_WAIT_FOR_READER = 0.001
"""Seconds between two looks whether a command has opened its input."""


class LocalOutlet:
    """The reading end of a named pipe, and a writing end that keeps it from ending before a command has begun."""

    def __init__(self, exchange: LocalExchange, path: str) -> None:
        self._exchange = exchange
        self.path = path
        self.stream = PipeReceiveStream(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
        try:
            self.begin()
        except BaseException:
            self.stream.close()
            raise

    def begin(self) -> None:
        """Expect what a command prints."""
        self._writer = os.open(self.path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self.stream.ended = False

    @property
    def ended(self) -> bool:
        """Whether nobody has the pipe any more."""
        return self.stream.ended

    @property
    def lost(self) -> bool:
        """Never: it is here."""
        return False

    def command_ended(self) -> None:
        """Let the stream end with its writers."""
        if self._writer >= 0:
            os.close(self._writer)
            self._writer = -1
            self.stream.look_again()

    def discard(self) -> None:
        """Read on and throw away, until the backend is closed."""
        self.command_ended()
        self._exchange.discard(self)

    def give_back(self) -> None:
        """Close it though no command has it."""
        self.command_ended()
        self.stream.at_end()
        self.close()

    def close(self) -> None:
        """Read no more; the pipe is used again if nobody else has it."""
        self.command_ended()
        if not self._exchange.keep(self):
            self.stream.close()
            _unlink(self.path)


class LocalExchange:
    """Named pipes and files in a directory of its owner's alone."""

    longest_line = 0
    retracts = True

    def __init__(self, on_released: Callable[[PipeReceiveStream], object]) -> None:
        self._on_released = on_released
        try:
            self.directory = os.path.realpath(tempfile.mkdtemp(prefix="anyshell-"))
        except OSError as error:
            raise SpawnError(f"no private directory can be made: {error.strerror}") from error
        self._numbers = itertools.count(1)
        self._unused: list[LocalOutlet] = []
        self._closed = False
        self._files: dict[str, int] = {}

    def open_to(self, pid: int) -> None:
        """Do nothing: the pipes have names."""

    async def write(self, name: str, data: bytes) -> None:
        """Put a file there.

        It is written in place: making it anew costs a tenth of a millisecond on file systems that then write it out.

        Raises:
            OSError: There is no room, or somebody has removed the directory.
        """
        fd = self._files.get(name, -1)
        if fd < 0:
            fd = os.open(f"{self.directory}/{name}", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            self._files[name] = fd
        state = os.fstat(fd)
        if not state.st_nlink:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.directory)
        at = 0
        while at < len(data):
            at += os.pwrite(fd, data[at:] if at else data, at)
        if state.st_size > at:
            os.ftruncate(fd, at)

    def retract(self, name: str) -> None:
        """Empty a file that the shell may not have read yet."""
        fd = self._files.get(name, -1)
        if fd >= 0:
            os.ftruncate(fd, 0)

    async def outlet(self) -> Outlet:
        """Make a pipe, or use one again that nobody has any more."""
        if not self._unused:
            return LocalOutlet(self, self._make())
        outlet = self._unused.pop()
        try:
            outlet.begin()
        except BaseException:
            outlet.stream.close()
            raise
        return outlet

    async def inlet(self) -> Inlet:
        """Make a pipe that a command reads from."""
        return LocalInlet(self._make())

    def discard(self, outlet: LocalOutlet) -> None:
        """Have somebody else read an outlet to its end."""
        _unlink(outlet.path)
        self._on_released(outlet.stream)

    def keep(self, outlet: LocalOutlet) -> bool:
        """Keep an outlet for another command, unless somebody still has its pipe."""
        if self._closed or not outlet.ended:
            return False
        self._unused.append(outlet)
        return True

    def _make(self) -> str:
        path = f"{self.directory}/pipe{next(self._numbers)}"
        os.mkfifo(path, 0o600)
        return path

    async def aclose(self) -> None:
        """Remove the directory. Pipes that somebody has go on without a name."""
        self._closed = True
        while self._unused:
            self._unused.pop().stream.close()
        while self._files:
            os.close(self._files.popitem()[1])
        await asyncio.to_thread(shutil.rmtree, self.directory, ignore_errors=True)


class LocalInlet(ByteSendStream):
    """The writing end of a named pipe, opened as soon as somebody reads."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._stream: PipeSendStream | None = None

    @property
    def stream(self) -> ByteSendStream:
        """This."""
        return self

    async def send(self, item: bytes) -> None:
        """Write all of `item`, once there is a reader."""
        await (await self._opened()).send(item)

    async def aclose(self) -> None:
        """Close it: end-of-file for the reader, who has to have opened it for that."""
        (await self._opened()).close()

    async def _opened(self) -> PipeSendStream:
        while self._stream is None:
            try:
                fd = os.open(self.path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            except OSError as error:
                if error.errno != errno.ENXIO:
                    raise anyio.BrokenResourceError from error
                await asyncio.sleep(_WAIT_FOR_READER)
            else:
                self._stream = PipeSendStream(fd)
        return self._stream

    def close(self) -> None:
        """Close this end, opened or not. Never waits."""
        if self._stream is not None:
            self._stream.close()
        _unlink(self.path)


def _unlink(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)


def _keeps_the_protocol(exchange: LocalExchange) -> Exchange:
    return exchange
