"""The pipes between this process and a persistent shell on this machine, on Windows."""

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
    """Maker of a shell's pipes. The shell gets handles to pipes that no other process can open by name.

    So there is no directory. Data that other systems pass in files is part of the lines that the shell reads.
    """

    directory = None
    longest_line = sys.maxsize
    retracts = False
    opens_alone = True

    def __init__(self, on_released: Callable[[PipeReceiveStream], object]) -> None:
        self._on_released = on_released
        self._shell: ProcessHandle | None = None

    def open_to(self, pid: int) -> None:
        """Give all further pipes to this process.

        Raises:
            OSError: The process has ended, or has other rights than this process.
        """
        self._shell = ProcessHandle(pid, win32.PROCESS_DUP_HANDLE | win32.SYNCHRONIZE)

    async def is_gone(self) -> bool:
        """Return false: there is no directory."""
        return False

    async def write(self, name: str, data: bytes) -> None:
        """Raise `NotImplementedError`. Never called, since no line is too long."""
        raise NotImplementedError

    def retract(self, name: str) -> None:
        """Do nothing: there are no files, and sent lines cannot be taken back."""

    async def output_pipe(self) -> OutputPipe:
        """Make a pipe that a command writes to."""
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
        """Duplicate a pipe's handle into the shell, inheritable by the shell's children; return the handle's number there."""
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
        """Close the handle to the shell: no more pipes can be given."""
        if self._shell is not None:
            self._shell.close()
            self._shell = None


class LocalOutputPipe:
    """The reading end of a pipe, with a writing end that keeps the pipe open until the command has ended."""

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
        """Close our writing end, so that the stream ends with its last writer."""
        if self._writer >= 0:
            os.close(self._writer)
            self._writer = -1

    def discard(self) -> None:
        """Read all further output and throw it away, until the backend is closed."""
        self.command_ended()
        self._on_released(self.stream)

    def give_back(self) -> None:
        """Close an unused pipe."""
        self.close()

    def close(self) -> None:
        """Close both ends held here."""
        self.command_ended()
        self.stream.close()


class LocalInputPipe:
    """The writing end of a pipe."""

    def __init__(self, stream: PipeSendStream, path: str) -> None:
        self.stream = stream
        self.path = path
        """The number of the shell's handle."""

    def close(self) -> None:
        """Close this end. Never waits."""
        self.stream.close()


def _keeps_the_protocol(pipe_directory: LocalPipeDirectory) -> PipeDirectory:
    return pipe_directory
