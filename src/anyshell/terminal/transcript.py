"""The unread output of a program on a terminal."""

from __future__ import annotations

import re
from collections import deque

from ..output.sequences import LONGEST_CONTROL, NUMBERS, SWITCH, long_form
from ..output.text.decode import strip, unfinished
from ..output.text.search import WINDOW

KEPT = 256 * 1024
"""Bytes of output that are kept for `DrivenTerminal.expect`, beside one piece; beyond that, the oldest are forgotten."""

# A line end with the CRs around it. CRs at the beginning of a line have no effect; bash prints one before each command's output.
_ENDS = re.compile(r"\r*\n\r*")


_SWITCH = re.compile(SWITCH)
_PLACED = re.compile(rb"\x1b\[" + NUMBERS + rb"[Hfd]")
"""Moves of the cursor to a place: the output after a move is a drawing, not running text."""


class Transcript:
    """The output since the last match, kept until a search finds a match.

    The output is decoded only when it is searched: a flood of output costs little.

    Attributes:
        alternate: Whether the alternate screen is shown. The screen knows too, but would have to be drawn first.
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
        """Whether the rows of the screen, and not the text alone, have to be searched."""
        return self.alternate or self.drawn

    def feed(self, data: bytes) -> None:
        """Take new output of the program."""
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
        """Return the first match of any pattern in the kept output. The match's text begins after the last taken match.

        Output already searched for the same patterns is searched again only as far back as a match may reach.
        """
        text = self.text()
        known, searched = self._searched
        match = first_match(patterns, text, max(0, searched - WINDOW) if known == patterns else 0)
        self._searched = (patterns, len(text))
        return match

    def text(self) -> str:
        """Return the output not taken yet: decoded, without escape sequences, each state of a line as a line."""
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
        """Forget a match and all output before it; for a match on the screen, all output until now."""
        self.drawn = False
        text = self.text()
        self._text = text[match.end() :] if text.startswith(match.string) else ""
        self._searched = ((), 0)


def first_match(patterns: tuple[re.Pattern[str], ...], text: str, start: int = 0) -> re.Match[str] | None:
    """Return the match that begins first; among several at one place, the match of the first pattern."""
    found = [match for pattern in patterns if (match := pattern.search(text, start)) is not None]
    return min(found, key=lambda match: match.start(), default=None)


def _lines(text: str, *, begins: bool) -> str:
    """Make each state of a line that CR begins anew a line of its own.

    Args:
        text: The text as printed.
        begins: Whether the text begins at the beginning of a line.
    """
    if "\r" not in text:
        return text
    text = _ENDS.sub("\n", text)
    return (text.lstrip("\r") if begins else text).replace("\r", "\n")
