"""Files that a command reads from and prints to, on this machine, wherever the command runs."""

from __future__ import annotations

import io
import os
import stat
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, TypeAlias, cast

from .._exceptions import InvalidCommand
from .._waits import in_a_thread

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable

    from .._stream import Listener
    from .._types import Channel, Outcome

    Stdin: TypeAlias = bytes | str | os.PathLike[str] | IO[bytes] | AsyncIterable[bytes]
    """What a command reads: bytes, a text, a file by its path or opened for bytes, or pieces as they come."""

    Stdout: TypeAlias = str | os.PathLike[str] | IO[bytes]
    """Where a command's output goes as well: a file by its path, or opened for bytes."""

INPUT_PIECE = 1024 * 1024
"""Bytes of a file that are read at once for a command, when the command has taken the ones before."""


class FileInput:
    """The bytes of a file as they are wanted, read in threads. A file by its path is read from its start each time.

    Raises:
        InvalidCommand: The file cannot be read, or is open as text.
    """

    def __init__(self, file: os.PathLike[str] | IO[bytes]) -> None:
        self._file = file
        if not isinstance(file, os.PathLike):
            _check_binary("stdin", file, "read", "rb")
            return
        try:
            if stat.S_ISDIR(os.stat(file).st_mode):
                raise IsADirectoryError(0, "it is a directory")
            if not os.access(file, os.R_OK):
                raise PermissionError(0, "permission denied")
        except (OSError, ValueError) as error:
            raise InvalidCommand(f"stdin: {os.fspath(file)!r} cannot be read: {why(error)}") from None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        reader = _Reader(self._file)
        try:
            while data := await in_a_thread(reader.read):
                yield data
        finally:
            reader.leave()


class _Reader:
    """Reads a file piece by piece in threads. One that waits in a read is left alone, and closes the file of a path when it is back."""

    def __init__(self, file: os.PathLike[str] | IO[bytes]) -> None:
        self._given = file
        self._opened: IO[bytes] | None = None
        self._lock = threading.Lock()
        self._reading = self._left = False

    def read(self) -> bytes:
        """The next bytes; none at the end."""
        self._reading = True
        try:
            if not isinstance(self._given, os.PathLike):
                file = self._given
            else:
                if self._opened is None:
                    self._opened = open(self._given, "rb", buffering=0)  # noqa: SIM115 - `_close` closes it
                file = self._opened
            take = getattr(file, "read1", file.read)  # which does not wait for all of a piece
            return bytes(take(INPUT_PIECE) or b"")
        finally:
            with self._lock:
                self._reading = False
                self._close()

    def leave(self) -> None:
        """Read no more."""
        with self._lock:
            self._left = True
            self._close()

    def _close(self) -> None:
        if self._left and not self._reading and self._opened is not None:
            self._opened.close()


def to_stdin(stdin: os.PathLike[str] | IO[bytes] | AsyncIterable[bytes]) -> AsyncIterable[bytes]:
    """What a command reads, piece by piece. What is none of these comes back as it is."""
    if isinstance(stdin, os.PathLike):
        return FileInput(stdin)
    if hasattr(stdin, "read") and not hasattr(stdin, "__aiter__"):
        return FileInput(stdin)
    return cast("AsyncIterable[bytes]", stdin)


@dataclass(frozen=True, slots=True)
class OutputFile:
    """A file that takes the whole of a command's stdout, or of both channels where they are one.

    Attributes:
        file: Its path, absolute; or the file that the caller has opened, and closes.
    """

    file: Path | IO[bytes] = field(repr=False)

    async def around(
        self, listener: Listener | None, run: Callable[[Listener], Awaitable[Outcome]]
    ) -> Outcome:
        """Have a run's output written.

        Args:
            listener: Hears the output after that.
            run: Runs the command with a listener.

        Raises:
            InvalidCommand: The file cannot be opened; nothing was started.
            OSError: It did not take what was printed; the command was stopped.
        """
        file, path = self.file, None
        if isinstance(file, Path):
            path = file
            try:
                file = await in_a_thread(lambda: open(path, "wb", buffering=0))  # noqa: SIM115 - closed below
            except OSError as error:
                raise InvalidCommand(f"stdout: {os.fspath(path)!r} cannot be written: {why(error)}") from None
        blocks = _may_block(file)

        async def hear(channel: Channel, data: bytes) -> None:
            if channel == "stdout":
                if blocks:
                    await in_a_thread(lambda: _write(file, data))
                else:
                    _write(file, data)
            if listener is not None:
                await listener(channel, data)

        try:
            outcome = await run(hear)
            file.flush()
        finally:
            if path is not None:
                file.close()
        return replace(outcome, output=replace(outcome.output, file=path))


def to_output_file(stdout: Stdout | OutputFile) -> OutputFile:
    """What ``stdout=`` is given. A relative path counts from this process's directory at this moment.

    Raises:
        InvalidCommand: It is neither a path nor a file that is open for bytes.
    """
    if isinstance(stdout, OutputFile):
        return stdout
    if isinstance(stdout, str | os.PathLike):
        return OutputFile(Path(stdout).absolute())
    _check_binary("stdout", stdout, "write", "wb")
    return OutputFile(stdout)


def _check_binary(name: str, file: object, method: str, mode: str) -> None:
    if isinstance(file, io.TextIOBase):
        raise InvalidCommand(f"{name} is a file that is open as text: open it with {mode!r}")
    if not callable(getattr(file, method, None)):
        without = "" if name == "stdin" else "; without it, the output is in the outcome"
        raise InvalidCommand(
            f"{name} must be a path, or a file opened with {mode!r}, not {type(file).__name__}{without}"
        )


def _write(file: IO[bytes], data: bytes) -> None:
    while (written := file.write(data)) < len(data):  # a raw file may take a part
        data = data[written:]


def _may_block(file: IO[bytes]) -> bool:
    """Whether a write may wait for a reader, as those to a pipe and a terminal do."""
    try:
        return not stat.S_ISREG(os.fstat(file.fileno()).st_mode)
    except (OSError, ValueError, AttributeError):
        return False  # it is in memory


def why(error: OSError | ValueError) -> str:
    """The system's own words for a failure with a file."""
    return getattr(error, "strerror", None) or str(error)
