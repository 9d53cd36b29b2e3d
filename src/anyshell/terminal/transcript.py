"""The output of a program that was not yet read."""

from __future__ import annotations

import re
from collections import deque

from ..output.sequences import LONGEST_CONTROL, NUMBERS, SWITCH, long_form
from ..output.text.decode import strip, unfinished
from ..output.text.search import WINDOW

KEPT = 256 * 1024
"""Bytes of output that are kept for `DrivenTerminal.expect`, beside one piece; of more, the oldest are forgotten."""

# CRs at the beginning of a line do nothing either; bash prints one before the output of every command.
_ENDS = re.compile(r"\r*\n\r*")


_SWITCH = re.compile(SWITCH)
_PLACED = re.compile(rb"\x1b\[" + NUMBERS + rb"[Hfd]")
"""Moves of the cursor to a place: what is printed then is no text that goes on, but a drawing."""


class Transcript:
    """Keeps output until something in it is looked for and found.

    It is decoded when it is looked at: what a terminal is flooded with costs nothing.

    Attributes:
        alternate: Whether the alternate screen is shown. The screen itself knows that too, but has to be drawn for it.
        drawn: Whether the cursor was moved to a place since the last match.
    """

    def __init__(self) -> None:
        self.alternate = False
        self.drawn = False
        self._end = b""
        self._pieces: deque[bytes] = deque()
        self._size = 0
        self._text = ""
        self._searched: tuple[tuple[re.Pattern[str], ...], int] = ((), 0)

    @property
    def looks(self) -> bool:
        """Whether it is the rows of the screen that tell what is shown."""
        return self.alternate or self.drawn

    def feed(self, data: bytes) -> None:
        """Take what was printed."""
        self._notice_switch(data)
        self._pieces.append(data)
        self._size += len(data)
        while self._size > KEPT and len(self._pieces) > 1:
            self._size -= len(self._pieces.popleft())

    def _notice_switch(self, data: bytes) -> None:
        data = self._end + data
        cut = unfinished(data)
        self._end = data[len(data) - cut :] if cut <= LONGEST_CONTROL else b""
        data = long_form(data)
        for match in _SWITCH.finditer(data):
            self.alternate = match[1] == b"h"
        self.drawn = self.drawn or _PLACED.search(data) is not None

    def search(self, patterns: tuple[re.Pattern[str], ...]) -> re.Match[str] | None:
        """The first match of any in what is kept; the text that it was found in begins after what was taken last.

        What was searched for the same patterns before is searched again only as far as a match may go back.
        """
        text = self.text()
        known, searched = self._searched
        match = first_match(patterns, text, max(0, searched - WINDOW) if known == patterns else 0)
        self._searched = (patterns, len(text))
        return match

    def text(self) -> str:
        """The output that was not taken yet: decoded, without escape sequences; each state of a line as a line."""
        if self._pieces:
            data = b"".join(self._pieces)
            rest = unfinished(data)
            # The meaning of a CR at the end depends on the next byte.
            end = len(data[: len(data) - rest].rstrip(b"\r"))
            self._pieces.clear()
            if end < len(data):
                self._pieces.append(data[end:])
            self._size = len(data) - end
            self._text += _lines(strip(data[:end]), begins=not self._text or self._text.endswith("\n"))
            if len(self._text) > KEPT:
                self._text = self._text[-KEPT:]
                self._searched = ((), 0)
        return self._text

    def take(self, match: re.Match[str]) -> None:
        """Forget a match, and all before it; of one on the screen, all that was printed until now."""
        self.drawn = False
        text = self.text()
        self._text = text[match.end() :] if text.startswith(match.string) else ""
        self._searched = ((), 0)


def first_match(patterns: tuple[re.Pattern[str], ...], text: str, start: int = 0) -> re.Match[str] | None:
    """The match that begins first; of those that begin there, that of the first pattern."""
    found = [match for pattern in patterns if (match := pattern.search(text, start)) is not None]
    return min(found, key=lambda match: match.start(), default=None)


def _lines(text: str, *, begins: bool) -> str:
    """Make every state of a line that is begun anew a line of its own.

    Args:
        text: As it was printed.
        begins: Whether it begins at the beginning of a line.
    """
    if "\r" not in text:
        return text
    text = _ENDS.sub("\n", text)
    return (text.lstrip("\r") if begins else text).replace("\r", "\n")
