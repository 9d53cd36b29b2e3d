"""The keeper of the raw whole of an output."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Protocol

from ..._types import Output

if TYPE_CHECKING:
    from ..._types import Artifact


class RawWriter(Protocol):
    """A writer for the raw whole of one output, such as `ArtifactWriter`."""

    def write(self, data: bytes, /) -> None:
        """Add bytes to the output. Raises `OSError`."""

    def finish(self) -> Artifact:
        """Finish the output. Raises `OSError`."""

    def discard(self) -> None:
        """Discard the output."""


class OutputStore(Protocol):
    """A store of whole raw outputs, such as `ArtifactStore`."""

    def create(self) -> RawWriter:
        """Begin an output. Raises `OSError`."""


class Keeper:
    """The keeper of the raw whole: in memory while the output is small, then in an artifact. Never raises `OSError`.

    Args:
        store: The store for the artifact; ``None`` keeps only a small output.
        limit: Bytes that are held in memory; a larger output is written to the artifact.
    """

    def __init__(self, store: OutputStore | None, limit: int) -> None:
        self._store = store
        self._limit = limit
        self._held: list[bytes] | None = []  # None when the output is no longer held in memory
        self._size = 0
        self._writer: RawWriter | None = None
        self._error: str | None = None

    def write(self, data: bytes) -> None:
        """Keep the next bytes."""
        if self._writer is None:
            if self._held is None:
                return
            self._held.append(data)
            self._size += len(data)
            if self._size > self._limit:
                self._spill()
            return
        try:
            self._writer.write(data)
        except OSError as error:
            self._fail(error)

    def finish(self, total: int, lines: int, *, needed: bool) -> Output:
        """Return an `Output` without text: the counts, and the raw whole if small.

        If the whole is needed or large, the `Output` also has the artifact, or the reason why the artifact is missing.
        """
        held = None if self._held is None else b"".join(self._held)
        # A text that leaves nothing out may stand for far more bytes, such as those of a progress bar.
        artifact, error = self._finish(needed=needed or held is None)
        return Output(
            total_bytes=total, total_lines=lines, artifact=artifact, artifact_error=error, _held=held
        )

    def _finish(self, *, needed: bool) -> tuple[Artifact | None, str | None]:
        if not needed:
            self.discard()
            return None, None
        if self._store is not None and self._writer is None and self._error is None:
            self._spill()
        if self._writer is None:
            return None, self._error
        try:
            return self._writer.finish(), None
        except OSError as error:
            self._fail(error)
            return None, self._error

    def discard(self) -> None:
        """Discard all kept bytes, and keep no further bytes."""
        self._store = None
        self._held = None
        writer, self._writer = self._writer, None
        if writer is not None:
            with contextlib.suppress(OSError):
                writer.discard()

    def _spill(self) -> None:
        held, self._held = self._held, None
        if self._store is None:
            return
        try:
            self._writer = self._store.create()
            self._writer.write(b"".join(held or ()))
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError) -> None:
        self._error = error.strerror or str(error)
        self.discard()
