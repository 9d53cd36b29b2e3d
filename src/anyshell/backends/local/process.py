"""What every program on this machine has, whichever system it is."""

from __future__ import annotations

from typing import Generic, TypeVar

from anyio.abc import ByteReceiveStream, ByteSendStream

Out = TypeVar("Out", bound=ByteReceiveStream)
Err = TypeVar("Err", bound=ByteReceiveStream)
In = TypeVar("In", bound=ByteSendStream)


class LocalProcess(Generic[Out, Err, In]):
    """A program on this machine: its streams, and what is certain of it because it is here."""

    def __init__(self, stdout: Out, stderr: Err | None, stdin: In | None) -> None:
        self._stdout = stdout
        self._stderr = stderr
        self._stdin = stdin

    @property
    def stdin(self) -> In | None:
        """What the program reads, if a pipe was asked for; what is typed on its terminal."""
        return self._stdin

    @property
    def stdout(self) -> Out:
        """What the tree prints."""
        return self._stdout

    @property
    def stderr(self) -> Err | None:
        """What the tree prints there, if the channels were split."""
        return self._stderr

    @property
    def started(self) -> bool:
        """Always: it is here."""
        return True

    @property
    def lost(self) -> bool:
        """Never: it is here."""
        return False
