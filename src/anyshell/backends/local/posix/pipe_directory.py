"""The private directory by which a persistent shell on this machine is spoken with."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import itertools
import os
import shutil
import stat
import sys
import time
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING

assert sys.platform != "win32"

import anyio
from anyio.abc import ByteSendStream

from ...._exceptions import SpawnError
from ...._waits import in_a_worker
from .pipes import PipeReceiveStream, PipeSendStream

if TYPE_CHECKING:
    from collections.abc import Callable

    from ....abc import InputPipe, OutputPipe, PipeDirectory

PREFIX = "anyshell-"
"""The prefix of a private directory's name."""

MOST_ENTRIES = 10_000
"""Entries of the directory for temporary files that a process looks at once, for directories of killed owners."""

_OWNER = "owner"
"""The file that names the kernel on which the owner of the directory runs, and so the lock on `_LOCKED` counts."""

_LOCKED = "command"

_WAIT_FOR_READER = 0.001
"""Seconds between two looks whether a command has opened its input."""


class LocalOutputPipe:
    """The reading end of a named pipe, and a writing end that keeps it from ending before a command has begun."""

    def __init__(self, pipe_directory: LocalPipeDirectory, path: str) -> None:
        self._pipe_directory = pipe_directory
        self.path = path
        reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self.stream = PipeReceiveStream(reader, begins_again=True)
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
        """Whether no process holds the pipe any more."""
        return self.stream.ended

    @property
    def held(self) -> bool:
        """Whether a process can write to the pipe now."""
        return self.stream.held

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
        self._pipe_directory.discard(self)

    def give_back(self) -> None:
        """Close it though no command has it."""
        self.command_ended()
        self.stream.at_end()
        self.close()

    def close(self) -> None:
        """Read no more; the pipe is used again if no other process holds it."""
        self.command_ended()
        if not self._pipe_directory.keep(self):
            self.stream.close()
            _unlink(self.path)


class LocalPipeDirectory:
    """Named pipes and files in a directory of its owner's alone."""

    longest_line = 0
    retracts = True
    opens_alone = True

    def __init__(self, on_released: Callable[[PipeReceiveStream], object]) -> None:
        self._on_released = on_released
        import tempfile  # here and below, since few programs keep a shell

        try:
            self.directory = os.path.realpath(tempfile.mkdtemp(prefix=PREFIX))
        except OSError as error:
            raise SpawnError(f"no private directory can be made: {error.strerror}") from error
        self._numbers = itertools.count(1)
        self._unused: list[LocalOutputPipe] = []
        self._closed = False
        self._files: dict[str, int] = {}
        with suppress(OSError):  # it can be used all the same; if this process is killed, the directory stays
            self._claim()

    def _claim(self) -> None:
        """Hold a lock as long as this process lives, in whatever container; then say that it is held."""
        self._files[_LOCKED] = fd = self._open(_LOCKED)
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        owner = self._open(_OWNER)
        try:
            os.write(owner, _kernel())
        finally:
            os.close(owner)

    def open_to(self, pid: int) -> None:
        """Do nothing: the pipes have names."""

    async def is_gone(self) -> bool:
        """Whether another process has removed the directory."""
        return not os.path.isdir(self.directory)

    async def write(self, name: str, data: bytes) -> None:
        """Put a file there.

        It is written in place: making it anew costs a tenth of a millisecond on file systems that then write it out.

        Raises:
            OSError: There is no room, or another process has removed the directory.
        """
        fd = self._files.get(name, -1)
        if fd < 0:
            fd = self._files[name] = self._open(name)
        state = os.fstat(fd)
        if not state.st_nlink:
            self._make_again()
            await self.write(name, data)
            return
        at = 0
        while at < len(data):
            at += os.pwrite(fd, data[at:] if at else data, at)
        if state.st_size > at:
            os.ftruncate(fd, at)

    def _open(self, name: str) -> int:
        return os.open(f"{self.directory}/{name}", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def retract(self, name: str) -> None:
        """Empty a file that the shell may not have read yet."""
        fd = self._files.get(name, -1)
        if fd >= 0:
            os.ftruncate(fd, 0)

    async def output_pipe(self) -> OutputPipe:
        """Make a pipe, or use one again that no process holds any more."""
        try:
            return self._output_pipe()
        except FileNotFoundError:
            self._make_again()
            return self._output_pipe()

    def _make_again(self) -> None:
        """Make the directory once more, under its name, where it or its files were removed from outside.

        Raises:
            FileExistsError: Something stands there that is not a directory of this user's alone.
        """
        with suppress(FileExistsError):
            os.mkdir(self.directory, 0o700)
        state = os.lstat(self.directory)
        if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.geteuid() or state.st_mode & 0o077:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self.directory)
        self._close_all()
        with suppress(OSError):
            self._claim()

    def _output_pipe(self) -> LocalOutputPipe:
        if not self._unused:
            return LocalOutputPipe(self, self._make())
        output_pipe = self._unused.pop()
        try:
            output_pipe.begin()
        except BaseException:
            output_pipe.stream.close()
            raise
        return output_pipe

    async def input_pipe(self) -> InputPipe:
        """Make a pipe that a command reads from."""
        path = self._make()
        try:
            return LocalInputPipe(path)
        except BaseException:
            _unlink(path)
            raise

    def discard(self, output_pipe: LocalOutputPipe) -> None:
        """Pass an output pipe on, to be read to its end."""
        _unlink(output_pipe.path)
        self._on_released(output_pipe.stream)

    def keep(self, output_pipe: LocalOutputPipe) -> bool:
        """Keep an output pipe for another command, unless a process still holds its pipe."""
        if self._closed or not output_pipe.ended:
            return False
        self._unused.append(output_pipe)
        return True

    def _make(self) -> str:
        path = f"{self.directory}/pipe{next(self._numbers)}"
        os.mkfifo(path, 0o600)
        return path

    def _close_all(self) -> None:
        while self._unused:
            self._unused.pop().stream.close()
        while self._files:
            os.close(self._files.popitem()[1])

    async def aclose(self) -> None:
        """Remove the directory. Pipes that processes hold go on without a name."""
        self._closed = True
        self._close_all()
        try:
            await in_a_worker(self._remove)
        except OSError:  # no thread can be started
            self._remove()

    def _remove(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)
        if os.path.isdir(
            self.directory
        ):  # no descriptor is left to list it with, so that no shell was started
            for name in (_LOCKED, _OWNER):
                _unlink(f"{self.directory}/{name}")
            with suppress(OSError):
                os.rmdir(self.directory)


class LocalInputPipe(ByteSendStream):
    """The writing end of a named pipe, held from the start: so the shell opens its end at once, and waits for no input."""

    def __init__(self, path: str) -> None:
        self.path = path
        reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a writer needs one, to open
        try:
            self._pipe = PipeSendStream(os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC))
        finally:
            os.close(reader)
        self._read = False

    @property
    def stream(self) -> ByteSendStream:
        """The stream is the pipe itself."""
        return self

    async def send(self, item: bytes) -> None:
        """Write all of `item`, once there is a reader."""
        await self._wait_for_reader()
        await self._pipe.send(item)

    async def aclose(self) -> None:
        """Close it: end-of-file for the reader, which must have opened its end for that."""
        await self._wait_for_reader()
        self._pipe.close()

    async def _wait_for_reader(self) -> None:
        while not self._read:
            try:
                os.close(os.open(self.path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC))
            except OSError as error:
                if error.errno != errno.ENXIO:
                    raise anyio.BrokenResourceError from error
                await asyncio.sleep(_WAIT_FOR_READER)
            else:
                self._read = True

    def close(self) -> None:
        """Close this end. Never waits."""
        self._pipe.close()
        _unlink(self.path)


@cache
def remove_abandoned() -> None:
    """Remove the private directories of this user whose owners were killed: once in the life of this process.

    A directory is removed only when its lock can be had, and was taken under this very kernel: a lock of another machine, or
    of a sandbox with a kernel of its own, would not be seen. So the owner has ended, whatever its pid namespace. One of an
    earlier kernel of this machine is removed as well: it was made before this one was started, so no sandbox of now made it.
    """
    import tempfile

    with suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in itertools.islice(entries, MOST_ENTRIES):
            if entry.name.startswith(PREFIX):
                with suppress(OSError):
                    _remove_if_abandoned(entry.path)


def _remove_if_abandoned(path: str) -> None:
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.fstat(directory).st_uid != os.geteuid():
            return
        owner = _open_file(_OWNER, directory)
        try:
            is_over = _is_of_this_kernel_or_earlier(owner)
        finally:
            os.close(owner)
        if not is_over:
            return
        locked = _open_file(_LOCKED, directory)
        try:
            fcntl.flock(locked, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
        finally:
            os.close(locked)
    finally:
        os.close(directory)


def _is_of_this_kernel_or_earlier(owner: int) -> bool:
    """Whether an owner is on the running kernel, or was on one of this machine that ended before this one was started."""
    said, kernel = os.read(owner, 256), _kernel()
    if said == kernel or sys.platform != "linux":
        return said == kernel
    machine = kernel.partition(b"\n")[2]
    started = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return bool(machine) and said.partition(b"\n")[2] == machine and os.fstat(owner).st_mtime < started


def _open_file(name: str, directory: int) -> int:
    """Open a file there, and nothing else: neither a link nor a pipe, which would make us wait."""
    fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
    return fd


def _kernel() -> bytes:
    """A name of the running kernel; on Linux a second line names the machine, if it has a name (machine-id(5)).

    Raises:
        OSError: It does not say.
    """
    if sys.platform == "linux":
        with open("/proc/sys/kernel/random/boot_id", "rb") as file:
            kernel = file.read(64).strip()
        machine = b""
        with suppress(OSError), open("/etc/machine-id", "rb") as file:
            machine = file.read(64).strip()
        return kernel + b"\n" + machine
    system = os.uname()
    return f"{system.sysname} {system.nodename}".encode()


def _unlink(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)


def _keeps_the_protocol(pipe_directory: LocalPipeDirectory) -> PipeDirectory:
    return pipe_directory
