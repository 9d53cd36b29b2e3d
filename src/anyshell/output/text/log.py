"""A log of raw output that is read by byte offset, while the output grows and afterwards."""

from __future__ import annotations

import contextlib
import errno
from typing import TYPE_CHECKING

from .decode import Stretch
from .pages import Page, Recognizer

if TYPE_CHECKING:
    from ..._types import Artifact
    from ..artifacts import ArtifactStore, ArtifactWriter

MEMORY = 128 * 1024
"""Bytes of the end of a job's output that are held in memory; up to twice as many between two writes to its artifact."""


class OutputLog:
    """The log of an output: the end is in memory, and the bytes before the end are in an artifact.

    A short output needs no file. Without a store, or when the file cannot be written, only the end can be read; a read of
    missing bytes returns the offset of the next kept byte. Memory is bounded by twice `MEMORY` and the memory of an
    `ArtifactWriter`.

    Args:
        store: The store for the artifact; ``None`` keeps nothing but the end.
        code_page: The number of the host's code page, for bytes that are not UTF-8; ``None`` means no code page.
    """

    def __init__(self, store: ArtifactStore | None, *, code_page: int | None = None) -> None:
        self._store = store
        self._page = Page.of(code_page)
        self._recognizer = None if self._page is None else Recognizer()
        self._utf8 = 0  # bytes known to be UTF-8, if there is a page
        self._recent = bytearray()
        self._moved = 0  # bytes that are no longer in memory
        self._writer: ArtifactWriter | None = None
        self._failure: OSError | None = None

    @property
    def total(self) -> int:
        """Bytes written so far."""
        return self._moved + len(self._recent)

    def write(self, data: bytes) -> None:
        """Add bytes to the log. Never raises: a failure of the file does not reach the caller."""
        self._recent += data
        if self._recognizer is not None:
            self._utf8 += len(self._recognizer.feed(data)[0])
        if len(self._recent) <= 2 * MEMORY:
            return
        count = len(self._recent) - MEMORY
        piece = bytes(self._recent[:count])
        try:
            if self._store is not None:
                self._begin().write(piece)
        except OSError as error:
            self._fail(error)
        del self._recent[:count]
        self._moved += count

    def read(self, offset: int, length: int) -> tuple[int, bytes]:
        """Read kept bytes from an offset on.

        Returns:
            The offset of the first byte, which is later than `offset` if bytes are no longer kept, and at most `length` bytes.
            Only an empty result is the end; a short result is not.
        """
        found = bytearray()
        start = offset
        while len(found) < length:
            at, data = self._read_piece(start + len(found), length - len(found))
            if not found:
                start = at
            elif at > start + len(found):
                break  # bytes are missing before `at`
            if not data:
                break
            found += data
        return start, bytes(found)

    def tail(self, length: int) -> bytes:
        """Return the last bytes, at most `length`."""
        return self.read(max(0, self.total - length), length)[1]

    def stretch(self, offset: int, data: bytes) -> Stretch:
        """Return data that was read at an offset, with the known facts about the encoding of the data."""
        if self._recognizer is None or not self._recognizer.ended:
            return Stretch(data)
        return Stretch(data, self._page, self._utf8 - offset)

    def create(self) -> _Whole:
        """Return a writer for the builder of the output's text that keeps nothing: the log already keeps the whole."""
        return _Whole(self)

    def keep(self) -> Artifact:
        """Finish the artifact with all written bytes, also when the output needed no file.

        Raises:
            OSError: The output could not be kept.
        """
        try:
            writer = self._begin()
            if self._recent:
                writer.write(bytes(self._recent))
            artifact = writer.finish()
        except OSError as error:
            self._fail(error)
            raise
        self._moved, self._recent = self.total, bytearray()
        return artifact

    def finish(self) -> None:
        """End the log. The file of a log is finished; a log without a file stays in memory."""
        if self._recognizer is not None:
            self._recognizer.flush()
        if self._writer is None:
            return
        with contextlib.suppress(OSError):  # the end is still in memory, and reads tell of missing bytes
            self.keep()

    def discard(self) -> None:
        """Remove the file, unless the artifact was finished."""
        if self._writer is not None:
            self._writer.discard()

    def _begin(self) -> ArtifactWriter:
        if self._failure is not None:
            raise self._failure
        if self._writer is None:
            if self._store is None:
                raise FileNotFoundError(errno.ENOENT, "there is no directory for artifacts")
            self._writer = self._store.create()
        return self._writer

    def _read_piece(self, offset: int, length: int) -> tuple[int, bytes]:
        while offset < self._moved and self._writer is not None:
            try:
                start, data = self._writer.read(offset, length)
            except OSError:  # pruned
                break
            if data:
                return start, data
            if start == offset:
                break
            offset = start
        offset = max(offset, self._moved)
        at = offset - self._moved
        return offset, bytes(self._recent[at : at + length])

    def _fail(self, error: OSError) -> None:
        self._failure = error
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.discard()


class _Whole:
    """A writer for a builder whose log already has the whole output."""

    def __init__(self, log: OutputLog) -> None:
        self._log = log

    def write(self, data: bytes, /) -> None:
        """Ignore the bytes, which the log has already."""

    def finish(self) -> Artifact:
        """Finish the log's artifact. Raises `OSError`."""
        return self._log.keep()

    def discard(self) -> None:
        """Do nothing: the log removes the file."""
