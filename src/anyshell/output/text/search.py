"""The search for a pattern in output that comes in pieces."""

from __future__ import annotations

import re

from ..._exceptions import InvalidCommand
from .decode import Stretch, strip

WINDOW = 8 * 1024
"""Characters of a match that may be cut between two pieces: as many are searched again with the next piece."""


class Search:
    """The search for the first match in decoded output, however the bytes are cut into pieces.

    The searched text has no escape sequences, and each line as printed: an intermediate state of a line that rewrites itself
    can match too. The time is in proportion to the output, if the pattern's own time is.

    Args:
        pattern: The pattern of the search.
    """

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self._pattern = pattern
        self._held = Stretch(b"")
        self._text = ""
        self._from = 0

    def feed(self, data: bytes | Stretch) -> re.Match[str] | None:
        """Take the next bytes, and return the first match. A match that was found before may have grown."""
        piece = data if isinstance(data, Stretch) else Stretch(data)
        before = self._held.data
        held = Stretch(before + piece.data, piece.page, len(before) + piece.utf8)
        whole = len(held.data) - held.unfinished()
        self._held = held.part(whole)
        return self._search(held.part(0, whole))

    def flush(self) -> re.Match[str] | None:
        """Return the first match at the end of the output."""
        held, self._held = self._held, Stretch(b"")
        return self._search(held)

    def _search(self, piece: Stretch) -> re.Match[str] | None:
        self._text = (self._text + strip(piece.to_utf8())).replace("\r\n", "\n")
        match = self._pattern.search(self._text, self._from)
        start = len(self._text) - WINDOW if match is None else match.start()
        if start > self._from:
            # Keep more than is searched: ``^`` and lookbehinds need the text before.
            cut = max(0, start - WINDOW)
            self._text = self._text[cut:]
            self._from = start - cut
        return match


def expression(pattern: object) -> re.Pattern[str]:
    """Compile a pattern; in a text, ``^`` and ``$`` are the ends of lines.

    Raises:
        InvalidCommand: The pattern does not compile, or is not an expression.
    """
    if isinstance(pattern, re.Pattern) and isinstance(pattern.pattern, str):
        return pattern
    if not isinstance(pattern, str):
        raise InvalidCommand(
            f"a pattern must be text or a compiled one of text, not {type(pattern).__name__}"
        )
    try:
        return re.compile(pattern, re.MULTILINE)
    except (re.error, OverflowError, RecursionError) as error:
        raise InvalidCommand(
            f"the pattern does not compile: {error}; re.escape() makes one of a plain text"
        ) from None
