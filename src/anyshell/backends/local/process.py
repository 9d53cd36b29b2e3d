"""The common part of programs on this machine, whichever system it is."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from anyio.abc import ByteReceiveStream, ByteSendStream

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..._types import Usage

Out = TypeVar("Out", bound=ByteReceiveStream)
Err = TypeVar("Err", bound=ByteReceiveStream)
In = TypeVar("In", bound=ByteSendStream)


class LocalProcess(Generic[Out, Err, In]):
    """A program on this machine: its streams, and what is certain of it because it is here."""

    started = True
    lost = False

    def __init__(self, stdout: Out, stderr: Err | None, stdin: In | None) -> None:
        self._stdout = stdout
        self._stderr = stderr
        self._stdin = stdin

    @property
    def usage(self) -> Usage | None:
        """The usage; ``None`` unless the system tells it."""
        return None

    @property
    def stdin(self) -> In | None:
        """The input of the program, if a pipe was asked for; the keyboard of its terminal."""
        return self._stdin

    @property
    def stdout(self) -> Out:
        """The output of the tree."""
        return self._stdout

    @property
    def stderr(self) -> Err | None:
        """The output of the tree there, if the channels were split."""
        return self._stderr


class _Stream(Protocol):
    def discard(self, on_end: Callable[[], object]) -> None: ...

    def close(self) -> None: ...


class ReleasedStreams:
    """The output streams of released programs: read on, and what comes is thrown away, until these are closed."""

    def __init__(self) -> None:
        self._streams: set[_Stream] = set()

    def add(self, *streams: _Stream | None) -> None:
        """Take streams over."""
        for stream in filter(None, streams):
            self._streams.add(stream)
            stream.discard(partial(self._streams.discard, stream))

    def close(self) -> None:
        """Stop reading."""
        for stream in tuple(self._streams):
            stream.close()
        self._streams.clear()
