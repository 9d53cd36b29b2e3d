"""A recording that is read line by line, from a file or a pipe."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from io import FileIO

READ_SIZE = 64 * 1024
"""Bytes of a recording's file that one read takes at most."""


class Lines:
    """A file that is read line by line.

    The file may be closed while a thread reads, since a read here holds no lock. A read of Python's buffered files holds a
    lock: while a pipe is silent, closing a buffered file would wait for the read.

    Args:
        file: The file, opened without a buffer.
    """

    def __init__(self, file: FileIO) -> None:
        self._file = file
        self._held = b""
        self._at = 0

    @property
    def is_ready(self) -> bool:
        """Whether the next line is complete in memory, so that `readline` does not wait."""
        return self._held.find(b"\n", self._at) >= 0

    def readline(self, size: int, /) -> bytes:
        """Return the next line with its line feed, or the first `size` bytes of the line; empty at the end."""
        return self._take(size, line=True)

    def read(self, size: int, /) -> bytes:
        """Return the next `size` bytes, or all remaining bytes if there are fewer."""
        return self._take(size, line=False)

    def _take(self, size: int, *, line: bool) -> bytes:
        pieces: list[bytes] = []
        while size > 0:
            if self._at == len(self._held):
                self._held, self._at = self._file.read(READ_SIZE) or b"", 0
                if not self._held:
                    break
            end = (self._held.find(b"\n", self._at) + 1 if line else 0) or len(self._held)
            piece = self._held[self._at : min(end, self._at + size)]
            self._at += len(piece)
            size -= len(piece)
            pieces.append(piece)
            if line and piece.endswith(b"\n"):
                break
        return b"".join(pieces)
