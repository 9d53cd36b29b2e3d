"""The private directory with the pipes and files between this process and a persistent shell on this machine."""

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
"""Entries of the temporary directory that are searched for directories of killed owners, once in a process; further entries
are not searched."""

_OWNER = "owner"
"""The file that names the kernel on which the directory's owner runs: only under this kernel the lock on `_LOCKED` counts."""

_LOCKED = "command"

_WAIT_FOR_READER = 0.001
"""Seconds between two checks whether a command has opened its input."""


class LocalOutputPipe:
    """The reading end of a named pipe, with a writing end that keeps the pipe open until the command has ended."""

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
        """Open a writing end, for the output of a next command."""
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
        """Always false: the pipe is on this machine."""
        return False

    def command_ended(self) -> None:
        """Close our writing end, so that the stream ends with its last writer."""
        if self._writer >= 0:
            os.close(self._writer)
            self._writer = -1
            self.stream.look_again()

    def discard(self) -> None:
        """Read all further output and throw it away, until the backend is closed."""
        self.command_ended()
        self._pipe_directory.discard(self)

    def give_back(self) -> None:
        """Close an unused pipe."""
        self.command_ended()
        self.stream.at_end()
        self.close()

    def close(self) -> None:
        """Stop reading. The pipe is used again if no other process holds it, else removed."""
        self.command_ended()
        if not self._pipe_directory.keep(self):
            self.stream.close()
            _unlink(self.path)


class LocalPipeDirectory:
    """Named pipes and files in a directory that only this user can open."""

    longest_line = 0
    retracts = True
    opens_alone = True

    def __init__(self, on_released: Callable[[PipeReceiveStream], object]) -> None:
        self._on_released = on_released
        import tempfile  # imported here and below, since few programs keep a persistent shell

        try:
            self.directory = os.path.realpath(tempfile.mkdtemp(prefix=PREFIX))
        except OSError as error:
            raise SpawnError(f"no private directory can be made: {error.strerror}") from error
        self._numbers = itertools.count(1)
        self._unused: list[LocalOutputPipe] = []
        self._closed = False
        self._files: dict[str, int] = {}
        # Without a lock, the directory is usable, but stays if this process is killed.
        with suppress(OSError):
            self._claim()

    def _claim(self) -> None:
        """Take a lock that lasts as long as this process, and is visible in all containers; then write the kernel's name."""
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
        """Write a file in the directory.

        An existing file is written in place: a new file costs a tenth of a millisecond on file systems that flush new files.

        Raises:
            OSError: The disk is full, or another process has removed the directory and it cannot be made again.
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
        """Make a pipe for a command's output, or reuse a pipe that no process holds any more."""
        try:
            return self._output_pipe()
        except FileNotFoundError:
            self._make_again()
            return self._output_pipe()

    def _make_again(self) -> None:
        """Make the directory again, under the same name, after another process has removed it or its files.

        Raises:
            FileExistsError: The path exists, but is not a private directory of this user.
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
        """Hand an output pipe to the backend, which reads it to its end."""
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
        # No descriptor was free for listing the directory. So no shell was started, and only these files can exist.
        if os.path.isdir(self.directory):
            for name in (_LOCKED, _OWNER):
                _unlink(f"{self.directory}/{name}")
            with suppress(OSError):
                os.rmdir(self.directory)


class LocalInputPipe(ByteSendStream):
    """The writing end of a named pipe, open from the start: so the shell can open its end at once, without waiting for input."""

    def __init__(self, path: str) -> None:
        self.path = path
        # A writer can open the pipe only while a reader has the pipe open.
        reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            self._pipe = PipeSendStream(os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC))
        finally:
            os.close(reader)
        self._read = False

    @property
    def stream(self) -> ByteSendStream:
        """The stream, which is this object itself."""
        return self

    async def send(self, item: bytes) -> None:
        """Write all of `item`, once there is a reader."""
        await self._wait_for_reader()
        await self._pipe.send(item)

    async def aclose(self) -> None:
        """Wait until the reader has opened its end, then close this end, which is end-of-file for the reader."""
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
    """Remove the private directories of this user whose owners were killed. Only the first call in a process does anything.

    A directory is removed only if its lock is free, and was taken under the running kernel. The owner has then ended, whatever
    its pid namespace. A lock of another machine, or of a sandbox with its own kernel, would be invisible here. A directory
    of an earlier kernel of this machine is removed as well, if it is older than the start of the running kernel: so no
    sandbox that runs now has made it.
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
    """Whether an owner runs, or ran, on the running kernel, or on an earlier kernel of this machine, before its last start."""
    said, kernel = os.read(owner, 256), _kernel()
    if said == kernel or sys.platform != "linux":
        return said == kernel
    machine = kernel.partition(b"\n")[2]
    started = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return bool(machine) and said.partition(b"\n")[2] == machine and os.fstat(owner).st_mtime < started


def _open_file(name: str, directory: int) -> int:
    """Open a regular file in a directory; refuse a link, or a pipe, which would make this process wait."""
    fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
    return fd


def _kernel() -> bytes:
    """Return a name of the running kernel; on Linux a second line names the machine, if the machine has an id (machine-id(5)).

    Raises:
        OSError: The kernel does not show its name.
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
