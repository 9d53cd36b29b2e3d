"""Raw output that is read again by byte offset, while it grows and afterwards."""

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
    """Takes raw output as it comes. Its end is in memory, what came before in an artifact.

    A short output needs no file. Without a store, or when the file cannot be written, only the end can be read;
    what is gone is counted wherever it is asked for. Memory is bounded by `MEMORY` and by what an `ArtifactWriter`
    holds.

    Args:
        store: Makes the artifact; ``None`` keeps nothing but the end.
        code_page: The number of the host's code page, for what is not UTF-8; ``None`` is no code page.
    """

    def __init__(self, store: ArtifactStore | None, *, code_page: int | None = None) -> None:
        self._store = store
        self._page = Page.of(code_page)
        self._recognizer = None if self._page is None else Recognizer()
        self._utf8 = 0  # bytes that are known to be UTF-8, if there is a page
        self._recent = bytearray()
        self._moved = 0  # bytes that are not in memory any more
        self._writer: ArtifactWriter | None = None
        self._failure: OSError | None = None

    @property
    def total(self) -> int:
        """Bytes that were written so far."""
        return self._moved + len(self._recent)

    def write(self, data: bytes) -> None:
        """Add to it. Never raises; a file that fails takes nothing from the writer."""
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
        """Read what is kept from an offset on.

        Returns:
            Where the bytes begin, which is later than `offset` if something is not kept any more, and the bytes, at
            most `length`. Fewer are not the end; none are.
        """
        found = bytearray()
        start = offset
        while len(found) < length:
            at, data = self._read_piece(start + len(found), length - len(found))
            if not found:
                start = at
            elif at > start + len(found):
                break  # something is missing there
            if not data:
                break
            found += data
        return start, bytes(found)

    def tail(self, length: int) -> bytes:
        """The last bytes, at most `length`."""
        return self.read(max(0, self.total - length), length)[1]

    def stretch(self, offset: int, data: bytes) -> Stretch:
        """The data that was read at an offset, with the known facts about its encoding."""
        if self._recognizer is None or not self._recognizer.ended:
            return Stretch(data)
        return Stretch(data, self._page, self._utf8 - offset)

    def create(self) -> _Whole:
        """Let the builder of this output's text have this log as its whole, so that it is kept once."""
        return _Whole(self)

    def keep(self) -> Artifact:
        """Finish the artifact with all that was written, whether it needed a file or not.

        Raises:
            OSError: It could not be kept.
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
        """End the log. A log with a file is finished; one without stays in memory."""
        if self._recognizer is not None:
            self._recognizer.flush()
        if self._writer is None:
            return
        with contextlib.suppress(OSError):  # the end is still there, and what is not is counted
            self.keep()

    def discard(self) -> None:
        """Leave no file behind, unless it was kept."""
        if self._writer is not None:
            self._writer.discard()

    def _begin(self) -> ArtifactWriter:
        if self._failure is not None:
            raise self._failure
        if self._writer is None:
            if self._store is None:
                raise FileNotFoundError(errno.ENOENT, "there is no place for artifacts")
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
    """The writer that a builder is given: the log has everything already."""

    def __init__(self, log: OutputLog) -> None:
        self._log = log

    def write(self, data: bytes, /) -> None:
        """Take nothing."""

    def finish(self) -> Artifact:
        """Finish the log's artifact."""
        return self._log.keep()

    def discard(self) -> None:
        """Leave it to the log."""
