"""The file of a recording while it is written: private, bounded, and whole lines at any moment."""

from __future__ import annotations

import bisect
import contextlib
import os
import threading
from functools import partial
from typing import TYPE_CHECKING, Literal

from .._private import create_file
from ..output import TextDecoder
from ..output.text.pages import Page
from .asciicast import AsciicastWriter, Event

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from .asciicast import Header

RESERVED = 1024
"""Bytes at the end of a recording that are kept for saying how it ended."""

LONGEST_TEXT = 2048
"""Characters of one event; what is longer becomes several.

A kill can come in the middle of a write, between two pages of memory: a line that is about one leaves it hardly a
moment."""

Source = Literal["stdout", "stderr", "input", "size"]
Happened = tuple[float, Source, bytes]
"""One recorded event: the seconds from the beginning, the source, and the data."""

_CODES: dict[Source, str] = {"stdout": "o", "stderr": "o", "input": "i", "size": "r"}


class _FullError(Exception):
    """A line that there is no room for. Nothing of it was written."""


class RecordingFile:
    """Writes what happens into a new file. Blocks as files do, and may be called in any thread, one call after the other.

    A line that the disk does not take whole is taken back, so that the file is a recording at any time.

    Args:
        path: The file.
        header: The beginning of the file.
        max_bytes: The most that it may have.
        on_terminal: Whether what is printed comes from a terminal. Otherwise it is made what one would show: there, a
            line feed returns as well, where nothing has returned before it.
        code_page: The code page of output that is not UTF-8.

    Attributes:
        path: The file.
        size: Its bytes.
        notice: The missing part, and the reason; ``None`` when nothing is missing so far.
        over: Whether nothing more is recorded.

    Raises:
        OSError: There is such a file, or it cannot be made or written. No file is left then.
    """

    def __init__(
        self, path: Path, header: Header, *, max_bytes: int, on_terminal: bool, code_page: int | None
    ) -> None:
        self.path = path
        self.size = 0
        self.notice: str | None = None
        self.over = False
        self._max_bytes = max_bytes
        self._room = max_bytes - RESERVED
        self._on_terminal = on_terminal
        page = Page.of(code_page)
        self._texts: dict[Source, TextDecoder] = {
            "stdout": TextDecoder(page),
            "stderr": TextDecoder(page),
            "input": TextDecoder(),
        }
        self._returned: set[Source] = set()  # what came from there ended with a return
        self._turn = threading.RLock()
        self._fd = create_file(str(path))
        try:
            self._writer = AsciicastWriter(self, header)
        except BaseException:
            self.discard()
            raise

    def put(self, happened: Sequence[Happened]) -> None:
        """Write events. What the disk does not take is no error of the command: `notice` says so."""
        with self._turn:
            for time, source, data in happened:
                if self.over:
                    return
                self._put(
                    time, source, data.decode() if source == "size" else self._texts[source].decode(data)
                )

    def finish(self, rest: Sequence[Happened], time: float, status: int | None, how: str | None) -> None:
        """Write the last events, and the end, and close the file.

        Args:
            rest: The last events.
            time: When it ended.
            status: Its exit status, where there is one.
            how: Further facts about the end.
        """
        with self._turn:
            self.put(rest)
            for source, text in self._texts.items():
                if not self.over:
                    self._put(time, source, text.flush())
            if self._fd >= 0 and (not self.over or self._is_full):
                self._room = self._max_bytes
                with contextlib.suppress(_FullError):
                    self._try(lambda: self._end(time, status, how))
            if self.notice is None and self._is_gone:
                self.notice = "it is not there any more: it was removed or moved while it was written"
            self.close()

    def write(self, line: bytes) -> None:
        """Append a line, for the writer.

        Raises:
            OSError: The disk did not take it; then nothing of it is there.
        """
        if self.size + len(line) > self._room:
            raise _FullError
        try:
            written = 0
            while written < len(line):  # a disk that is nearly full takes a part first
                written += os.write(self._fd, memoryview(line)[written:])
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, self.size)
            raise
        self.size += len(line)

    def close(self) -> None:
        """Write nothing more. Never raises."""
        with self._turn:
            self.over = True
            fd, self._fd = self._fd, -1
            if fd >= 0:
                with contextlib.suppress(OSError):
                    os.close(fd)

    def discard(self) -> None:
        """Close the file and remove it. Never raises."""
        with self._turn:
            self.close()
            with contextlib.suppress(OSError):
                self.path.unlink()

    @property
    def _is_gone(self) -> bool:
        """Whether the file has no name any more, or not its own, as after a command that cleans up.

        That another one stands at the path says nothing by itself: not every file system numbers its files for ever.
        """
        if self._fd < 0 or not hasattr(os, "geteuid"):  # Windows removes and moves nothing that is open
            return False
        try:
            os.lstat(self.path)
            return os.fstat(self._fd).st_nlink == 0
        except FileNotFoundError:
            return True
        except OSError:
            return False  # that cannot be known

    @property
    def _is_full(self) -> bool:
        return self._room == self._max_bytes

    def _put(self, time: float, source: Source, text: str) -> None:
        if not text:
            return
        if source != "input" and source != "size" and not self._on_terminal:
            text = self._with_returns(source, text)
        for start in range(0, len(text), LONGEST_TEXT):
            if self.over:
                return
            event = Event(time, _CODES[source], text[start : start + LONGEST_TEXT])
            try:
                self._try(partial(self._writer.write, event))
            except _FullError:
                self._fill(event)

    def _with_returns(self, source: Source, text: str) -> str:
        returned = source in self._returned and text.startswith("\n")
        (self._returned.add if text.endswith("\r") else self._returned.discard)(source)
        text = text.replace("\r\n", "\n").replace("\n", "\r\n")
        return text[1:] if returned else text

    def _fill(self, event: Event) -> None:
        """Write as much of an event as there is room for, and that this is the end."""
        left = self._room - self.size
        if event.code == "o":
            fits = bisect.bisect_right(
                range(1, len(event.data) + 1),
                left,
                key=lambda length: len(self._writer.encode(Event(event.time, "o", event.data[:length]))),
            )
            if fits:
                self._try(lambda: self._writer.write(Event(event.time, "o", event.data[:fits])))
        if self.over:
            return
        self._room = self._max_bytes
        said = f"the recording ends here: its limit of {self._max_bytes:,} bytes is reached"
        with contextlib.suppress(_FullError):  # a header that leaves no room for it
            self._try(lambda: self._writer.write(Event(event.time, "m", said)))
        if not self.over:
            self.over = True
            self.notice = f"it ends early: its limit of {self._max_bytes:,} bytes was reached"

    def _end(self, time: float, status: int | None, how: str | None) -> None:
        if how is not None:
            self._writer.comment(how)
        if status is not None and self._writer.version == 3:  # version 2 has no such event
            self._writer.write(Event(time, "x", str(status)))

    def _try(self, write: Callable[[], object]) -> None:
        try:
            write()
        except OSError as error:
            self.over = True
            self._room = 0
            self.notice = f"it broke off, since the file could not be written: {error.strerror}"
