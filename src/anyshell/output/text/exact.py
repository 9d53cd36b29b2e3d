"""The exact output of a command, up to a limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._types import Output
from .binary import kind_of
from .decode import Stretch
from .pages import Page, Recognizer

if TYPE_CHECKING:
    from collections.abc import Callable

    from .builder import Builder

PIECE = 64 * 1024
"""Bytes of a longer output that are passed to the builder at once."""


class ExactOutput:
    """The builder of an exact output: the text of one `Output` is unchanged, unless the output is too long.

    Args:
        limit: Bytes of output that are held, and shown unchanged.
        bounded: Makes the builder for a longer output.
        code_page: The number of the host's code page, for bytes that are not UTF-8; without a code page, invalid bytes
            become U+FFFD.
    """

    def __init__(self, limit: int, bounded: Callable[[], Builder], *, code_page: int | None = None) -> None:
        self._limit = limit
        self._bounded = bounded
        self._page = Page.of(code_page)
        self._held = bytearray()
        self._builder: Builder | None = None
        self._output: Output | None = None

    def feed(self, data: bytes) -> None:
        """Take the next bytes. Never raises, whatever the bytes are."""
        if self._builder is not None:
            self._builder.feed(data)
            return
        self._held += data
        if len(self._held) > self._limit:
            self._builder = self._bounded()
            for at in range(0, len(self._held), PIECE):
                self._builder.feed(bytes(self._held[at : at + PIECE]))
            self._held.clear()

    def finish(self) -> Output:
        """Return the output so far. No `feed` may follow; a second call returns the same output."""
        if self._builder is not None:
            return self._builder.finish()
        if self._output is None:
            data = bytes(self._held)
            self._held.clear()
            self._output = Output(
                text=self._decoded(data),
                total_bytes=len(data),
                total_lines=data.count(b"\n"),
                binary=kind_of(data),
                _held=data,
            )
        return self._output

    def close(self) -> None:
        """Remove the files of the output, unless `finish` has returned the output."""
        if self._builder is not None:
            self._builder.close()

    def _decoded(self, data: bytes) -> str:
        if self._page is not None:
            recognizer = Recognizer()
            utf8 = len(recognizer.feed(data)[0]) + len(recognizer.flush()[0])
            data = Stretch(data, self._page, utf8).to_utf8()
        return data.decode(errors="replace")
