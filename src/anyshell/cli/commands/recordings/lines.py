"""A recording that is read line by line, from a file or a pipe."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from io import FileIO

READ_SIZE = 64 * 1024
"""Bytes of a recording's file that are read at once."""


class Lines:
    """A file that is read line by line.

    A thread may read while the file is closed: a read holds no lock here, as one of Python's buffered files does. To close
    such a file while a pipe is silent would wait for the read.

    Args:
        file: Opened without a buffer.
    """

    def __init__(self, file: FileIO) -> None:
        self._file = file
        self._held = b""
        self._at = 0

    @property
    def is_ready(self) -> bool:
        """Whether the next line is here, and nothing has to be waited for."""
        return self._held.find(b"\n", self._at) >= 0

    def readline(self, size: int, /) -> bytes:
        """The next line with its line feed, or so many bytes of it; none at the end."""
        return self._take(size, line=True)

    def read(self, size: int, /) -> bytes:
        """The next bytes, as many as asked for, or all that there are."""
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
