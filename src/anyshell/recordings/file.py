"""The file of a recording during the run: private, bounded, and with whole lines only at any moment."""

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
"""Bytes at the end of a recording that are reserved for the note about its end."""

LONGEST_TEXT = 2048
"""Characters of one event; a longer text becomes several events.

A kill can interrupt a write between two pages of memory; a line of about one page leaves hardly any time for that."""

Source = Literal["stdout", "stderr", "input", "size"]
Happened = tuple[float, Source, bytes]
"""One recorded event: the seconds from the beginning, the source, and the data."""

_CODES: dict[Source, str] = {"stdout": "o", "stderr": "o", "input": "i", "size": "r"}


class _FullError(Exception):
    """A line exceeds the room in the file. No part of the line was written."""


class RecordingFile:
    """The new file of a recording, to which events are written. Calls block on the disk, and may come from any thread.

    If the disk takes only a part of a line, the part is removed again, so that the file is a valid recording at any time.

    Args:
        path: The file.
        header: The header of the recording.
        max_bytes: The maximum size of the file in bytes.
        on_terminal: Whether the output comes from a terminal. Otherwise each line feed without a carriage return gets one, as
            a terminal would do.
        code_page: The code page of output that is not UTF-8.

    Attributes:
        path: The file.
        size: The size of the file in bytes.
        notice: The missing part, and the reason; ``None`` when nothing is missing so far.
        over: Whether the recording has ended, and no more events are written.

    Raises:
        OSError: The file exists already, or cannot be made or written. A file made here is removed again.
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
        self._returned: set[Source] = set()  # sources whose last text ended with a carriage return
        self._turn = threading.RLock()
        self._fd = create_file(str(path))
        try:
            self._writer = AsciicastWriter(self, header)
        except BaseException:
            self.discard()
            raise

    def put(self, happened: Sequence[Happened]) -> None:
        """Write events. A failure of the disk is not raised: `notice` then has the reason."""
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
            time: The time of the command's end, in seconds from the beginning.
            status: The command's exit status, if known.
            how: A comment about the command's end.
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
        """Append a line, for `AsciicastWriter`.

        Raises:
            OSError: The disk did not take the whole line; no part of the line stays in the file.
        """
        if self.size + len(line) > self._room:
            raise _FullError
        try:
            written = 0
            while written < len(line):  # a nearly full disk takes a part first
                written += os.write(self._fd, memoryview(line)[written:])
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, self.size)
            raise
        self.size += len(line)

    def close(self) -> None:
        """Close the file; later events are dropped. Never raises."""
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
        """Whether the file was removed, or its path no longer exists, as after a command that cleans up.

        Another inode number at the path is not evidence by itself: not every file system keeps a file's number for ever.
        """
        if self._fd < 0 or not hasattr(os, "geteuid"):  # Windows cannot remove or move an open file
            return False
        try:
            os.lstat(self.path)
            return os.fstat(self._fd).st_nlink == 0
        except FileNotFoundError:
            return True
        except OSError:
            return False  # unknown

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
        """Write as much of an event as fits, and a marker that the recording ends there."""
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
        with contextlib.suppress(_FullError):  # a header that leaves no room for the marker
            self._try(lambda: self._writer.write(Event(event.time, "m", said)))
        if not self.over:
            self.over = True
            self.notice = f"it ends early: its limit of {self._max_bytes:,} bytes was reached"

    def _end(self, time: float, status: int | None, how: str | None) -> None:
        if how is not None:
            self._writer.comment(how)
        if status is not None and self._writer.version == 3:  # version 2 has no exit event
            self._writer.write(Event(time, "x", str(status)))

    def _try(self, write: Callable[[], object]) -> None:
        try:
            write()
        except OSError as error:
            self.over = True
            self._room = 0
            self.notice = f"it broke off, since the file could not be written: {error.strerror}"
