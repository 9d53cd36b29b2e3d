"""The pipes by which a persistent shell on this machine is spoken with, where it is Windows."""

from __future__ import annotations

import ctypes
import errno
import msvcrt
import os
import sys
from ctypes import wintypes
from typing import TYPE_CHECKING

assert sys.platform == "win32"

from . import win32
from .pipes import PipeReceiveStream, PipeSendStream, pipe_to_read, pipe_to_write
from .process_handle import ProcessHandle

if TYPE_CHECKING:
    from collections.abc import Callable

    from ....abc import InputPipe, OutputPipe, PipeDirectory


class LocalPipeDirectory:
    """Gives a shell our ends of pipes without names, which no other process could open: handles of its own.

    So there is no directory, and what goes there elsewhere is in the lines that the shell reads.
    """

    directory = None
    longest_line = sys.maxsize
    retracts = False
    opens_alone = True

    def __init__(self, on_released: Callable[[PipeReceiveStream], object]) -> None:
        self._on_released = on_released
        self._shell: ProcessHandle | None = None

    def open_to(self, pid: int) -> None:
        """Give the pipes to this process.

        Raises:
            OSError: It has ended, or has other rights than we have.
        """
        self._shell = ProcessHandle(pid, win32.PROCESS_DUP_HANDLE | win32.SYNCHRONIZE)

    async def is_gone(self) -> bool:
        """No: there is no directory."""
        return False

    async def write(self, name: str, data: bytes) -> None:
        """Never asked for: no line is too long."""
        raise NotImplementedError

    def retract(self, name: str) -> None:
        """Do nothing: a shell reads what it is told in its turn."""

    async def output_pipe(self) -> OutputPipe:
        """Make a pipe that a command prints to."""
        ours, theirs = pipe_to_read()
        try:
            stream = await PipeReceiveStream.connect(ours)
            try:
                return LocalOutputPipe(stream, theirs, self._give(theirs), self._on_released)
            except BaseException:
                stream.close()
                raise
        except BaseException:
            os.close(theirs)
            raise

    async def input_pipe(self) -> InputPipe:
        """Make a pipe that a command reads from."""
        ours, theirs = pipe_to_write()
        try:
            stream = await PipeSendStream.connect(ours)
            try:
                return LocalInputPipe(stream, self._give(theirs))
            except BaseException:
                stream.close()
                raise
        finally:
            os.close(theirs)

    def _give(self, end: int) -> str:
        """Give the shell a handle of its own to a pipe, which what it starts inherits; the number of that."""
        if self._shell is None or not self._shell.running:
            raise BrokenPipeError(errno.EPIPE, "the shell has ended")
        handle = wintypes.HANDLE()
        if not win32.kernel32.DuplicateHandle(
            win32.kernel32.GetCurrentProcess(),
            msvcrt.get_osfhandle(end),
            self._shell.value,
            ctypes.byref(handle),
            0,
            True,
            win32.DUPLICATE_SAME_ACCESS,
        ):
            raise win32.last_error()
        return str(handle.value)

    async def aclose(self) -> None:
        """Give no handle any more."""
        if self._shell is not None:
            self._shell.close()
            self._shell = None


class LocalOutputPipe:
    """The reading end of a pipe, and a writing end that keeps it from ending before a command has begun."""

    lost = False
    held = False

    def __init__(
        self,
        stream: PipeReceiveStream,
        writer: int,
        path: str,
        on_released: Callable[[PipeReceiveStream], object],
    ) -> None:
        self.stream = stream
        self._writer = writer
        self.path = path
        """The number of the shell's handle."""
        self._on_released = on_released

    @property
    def ended(self) -> bool:
        """Whether no process holds the pipe any more."""
        return self.stream.ended

    def command_ended(self) -> None:
        """Let the stream end with its writers."""
        if self._writer >= 0:
            os.close(self._writer)
            self._writer = -1

    def discard(self) -> None:
        """Read on and throw away, until the backend is closed."""
        self.command_ended()
        self._on_released(self.stream)

    def give_back(self) -> None:
        """Close it though no command has it."""
        self.close()

    def close(self) -> None:
        """Read no more."""
        self.command_ended()
        self.stream.close()


class LocalInputPipe:
    """The writing end of a pipe."""

    def __init__(self, stream: PipeSendStream, path: str) -> None:
        self.stream = stream
        self.path = path
        """The number of the shell's handle."""

    def close(self) -> None:
        """Send no more. Never waits."""
        self.stream.close()


def _keeps_the_protocol(pipe_directory: LocalPipeDirectory) -> PipeDirectory:
    return pipe_directory
