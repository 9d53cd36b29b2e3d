"""Files on this machine that a command reads from and prints to, wherever the command runs."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import io
import os
import stat
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, TypeAlias, cast

from .._exceptions import InvalidCommand
from .._types import check_text
from .._waits import in_a_thread

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterator

    from .._stream import Listener
    from .._types import Channel, Outcome

    Stdin: TypeAlias = bytes | str | os.PathLike[str] | IO[bytes] | AsyncIterable[bytes]
    """The stdin of a command: bytes, a text, a file by its path or opened for bytes, or chunks as they come."""

    Stdout: TypeAlias = str | os.PathLike[str] | IO[bytes]
    """A further target of a command's stdout: a file by its path, or opened for bytes."""

INPUT_PIECE = 1024 * 1024
"""Bytes of a file that are read at once for a command, when the command has taken the earlier ones."""

READER_WAIT = 5.0
"""Seconds for which a named pipe of ``stdout=`` waits for a reader; then `InvalidCommand`, and nothing was started."""

_READER_PAUSE = 0.02
"""Seconds between two looks whether the named pipe has a reader."""


class FileInput:
    """The bytes of a file, read in threads as the command takes them. A file by its path is read from its start each time.

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
        reader = _FileReader(self._file)
        try:
            while data := await in_a_thread(reader.read):
                yield data
        finally:
            reader.leave()


class _FileReader:
    """A reader of a file in threads. A thread that blocks in a read is left alone, and closes the file of a path later."""

    def __init__(self, file: os.PathLike[str] | IO[bytes]) -> None:
        self._given = file
        self._opened: IO[bytes] | None = None
        self._lock = threading.Lock()
        self._reading = self._left = False

    def read(self) -> bytes:
        """Return the next bytes; none at the end."""
        self._reading = True
        try:
            if not isinstance(self._given, os.PathLike):
                file = self._given
            else:
                if self._opened is None:
                    self._opened = open(self._given, "rb", buffering=0)  # noqa: SIM115 - `_close` closes it
                file = self._opened
            take = getattr(file, "read1", file.read)  # read1 does not wait for a whole piece
            return bytes(take(INPUT_PIECE) or b"")
        finally:
            with self._lock:
                self._reading = False
                self._close()

    def leave(self) -> None:
        """Stop reading."""
        with self._lock:
            self._left = True
            self._close()

    def _close(self) -> None:
        if self._left and not self._reading and self._opened is not None:
            self._opened.close()


def to_stdin(stdin: os.PathLike[str] | IO[bytes] | AsyncIterable[bytes]) -> AsyncIterable[bytes]:
    """Normalise ``stdin=`` to chunks. A value of another kind is returned unchanged."""
    if isinstance(stdin, os.PathLike):
        return FileInput(stdin)
    if hasattr(stdin, "read") and not hasattr(stdin, "__aiter__"):
        return FileInput(stdin)
    return cast("AsyncIterable[bytes]", stdin)


@dataclass(frozen=True, slots=True)
class OutputFile:
    """A file that receives the whole of a command's stdout, or of both channels where they are one.

    Attributes:
        file: The absolute path; or the file that the caller has opened, and closes.
    """

    file: Path | IO[bytes] = field(repr=False)

    async def around(
        self, listener: Listener | None, run: Callable[[Listener], Awaitable[Outcome]]
    ) -> Outcome:
        """Write the output of a run to the file.

        Args:
            listener: Called with the output after the write.
            run: Runs the command with a listener.

        Raises:
            InvalidCommand: The file cannot be opened; nothing was started.
            OSError: The file did not take the output; the command was stopped.
        """
        file, path = self.file, None
        if isinstance(file, Path):
            path = file
            file = await _opened(path)
        blocks = _may_block(file)
        stale = (
            path is not None and not blocks
        )  # emptied at the first output or the end: a command that cannot start changes nothing

        async def hear(channel: Channel, data: bytes) -> None:
            nonlocal stale
            if channel == "stdout":
                if stale:
                    file.truncate(0)
                    stale = False
                if blocks:
                    await in_a_thread(lambda: _write(file, data))
                else:
                    _write(file, data)
            if listener is not None:
                await listener(channel, data)

        try:
            outcome = await run(hear)
            if stale:
                file.truncate(0)
            with _naming(file):
                if blocks:
                    await in_a_thread(file.flush)
                else:
                    file.flush()
        finally:
            if path is not None:
                file.close()
        return replace(outcome, output=replace(outcome.output, file=path))


def to_output_file(stdout: Stdout | OutputFile) -> OutputFile:
    """Normalise ``stdout=``. A relative path counts from this process's directory at the time of the call.

    Raises:
        InvalidCommand: The value is neither a path nor a file that is open for bytes.
    """
    if isinstance(stdout, OutputFile):
        return stdout
    if isinstance(stdout, str | os.PathLike):
        name = os.fspath(stdout)
        check_text("stdout", name)
        if not name:
            raise InvalidCommand("stdout is empty: give a path, or leave it out")
        try:
            return OutputFile(Path(name).absolute())
        except FileNotFoundError:
            raise InvalidCommand(
                "this process's directory has been removed: give an absolute path for stdout"
            ) from None
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
    if getattr(file, "closed", False):
        raise InvalidCommand(
            f"{name} is a file that is closed already: open it with {mode!r}, and close it later"
        )
    able = getattr(file, f"{'read' if name == 'stdin' else 'writ'}able", None)
    if callable(able) and not able():
        raise InvalidCommand(f"{name} is a file that is not open for that: open it with {mode!r}")


async def _opened(path: Path) -> IO[bytes]:
    """Open a file for writing without emptying it. A named pipe has a reader when the call returns."""
    end = asyncio.get_running_loop().time() + READER_WAIT
    while True:
        try:
            return await in_a_thread(lambda: open(path, "wb", buffering=0, opener=_open))
        except OSError as error:
            waits = error.errno == errno.ENXIO and path.is_fifo()
            if waits and asyncio.get_running_loop().time() < end:
                await asyncio.sleep(_READER_PAUSE)
                continue
            reason = (
                f"no program has opened this named pipe for reading within {READER_WAIT:g} s"
                if waits
                else why(error)
            )
            raise InvalidCommand(f"stdout: {os.fspath(path)!r} cannot be written: {reason}") from None


def _open(path: str, flags: int) -> int:
    """Open a file without emptying it, and without a wait for the reader of a named pipe."""
    file = os.open(path, (flags & ~os.O_TRUNC) | getattr(os, "O_NONBLOCK", 0), 0o666)
    set_blocking = getattr(
        os, "set_blocking", None
    )  # Windows lacks the flag and, before Python 3.12, the function
    if set_blocking is not None and hasattr(os, "O_NONBLOCK"):
        set_blocking(file, True)
    return file


def _write(file: IO[bytes], data: bytes) -> None:
    with _naming(file):
        while (written := file.write(data)) < len(data):  # one write to a raw file may take only a part
            data = data[written:]


@contextlib.contextmanager
def _naming(file: IO[bytes]) -> Iterator[None]:
    """Add the name of the file to an error."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            error.filename = getattr(file, "name", None)
        raise


def _may_block(file: IO[bytes]) -> bool:
    """Return whether a write may wait for a reader, as with a pipe and a terminal."""
    try:
        return not stat.S_ISREG(os.fstat(file.fileno()).st_mode)
    except (OSError, ValueError, AttributeError):
        return False  # the file is in memory


def why(error: OSError | ValueError) -> str:
    """Return the system's own words for an error of a file."""
    return getattr(error, "strerror", None) or str(error)
