"""The part of local processes that is the same on all operating systems."""

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
    """Base of a program on this machine: its streams, and the properties that are constant for local programs."""

    started = True
    lost = False

    def __init__(self, stdout: Out, stderr: Err | None, stdin: In | None) -> None:
        self._stdout = stdout
        self._stderr = stderr
        self._stdin = stdin

    @property
    def usage(self) -> Usage | None:
        """The resource usage; ``None`` unless the system reports it."""
        return None

    @property
    def stdin(self) -> In | None:
        """The stdin pipe of the program, if a pipe was requested; on a terminal, the terminal's keyboard input."""
        return self._stdin

    @property
    def stdout(self) -> Out:
        """The stdout of the tree; includes stderr unless the channels were split."""
        return self._stdout

    @property
    def stderr(self) -> Err | None:
        """The stderr of the tree, if the channels were split."""
        return self._stderr


class _Stream(Protocol):
    def discard(self, on_end: Callable[[], object]) -> None: ...

    def close(self) -> None: ...


class ReleasedStreams:
    """The output streams of released programs. All output is read and thrown away until `close`."""

    def __init__(self) -> None:
        self._streams: set[_Stream] = set()

    def add(self, *streams: _Stream | None) -> None:
        """Start to read streams and throw away their output. A stream that is ``None`` is skipped."""
        for stream in filter(None, streams):
            self._streams.add(stream)
            stream.discard(partial(self._streams.discard, stream))

    def close(self) -> None:
        """Stop reading and close all streams."""
        for stream in tuple(self._streams):
            stream.close()
        self._streams.clear()
