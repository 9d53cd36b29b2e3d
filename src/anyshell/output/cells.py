"""Text laid out in the columns of a terminal, with exactly one code point for each column."""

from __future__ import annotations

import re
from functools import lru_cache

LONGEST_CELL = 9
"""Code points that one column holds: a character and the marks drawn over the character. Further marks are not shown."""

CLUSTERS = 4_096
"""Characters with marks, or protected characters, that one terminal tells apart; further characters lose marks and protection."""

CACHED_WIDTHS = 8_192
"""Characters whose width is cached."""

REST = "\uffff"
"""The content of a wide character's second column: a noncharacter, which no text has."""

# Stand-ins for cells that one code point cannot express. Plane 16 is for private use: output that uses plane 16 loses it.
_FIRST = 0x100000  # no bound: a code point
_STAND_INS = re.compile("[\uffff\U00100000-\U0010ffff]")
_PROTECTED = 0x8000  # no bound: the bit of a stand-in's number that marks a protected character
PROTECTED = re.compile("(?:[\U00108000-\U0010ffff]\uffff?+)++")
"""The protected cells of a row."""

# Characters of one column each, by `wcwidth`; a test compares. Only the common ranges: other characters are looked up one by one.
NARROW = (
    " -~\xa0-\u02ff\u0370-\u0482\u1e00-\u200a\u2010-\u2027\u2030-\u205e\u2070-\u20cf\u2100-\u2319\u2400-\u25fc"
    "\u2654-\u267e\u2758-\u2794\u27c0-\u2b1a\ue000-\uf8ff\ufffd"
)
"""Characters of one column, as the class of a regular expression."""

_NARROW = re.compile(f"[{NARROW}]*+")


def is_narrow(text: str) -> bool:
    """Whether every character of a text certainly has one column. The text has no controls."""
    return text.isascii() or _NARROW.fullmatch(text) is not None


def width(char: str) -> int:
    """Return the columns of one character: 0, 1 or 2; always 1 where no descriptor is free for loading the width tables."""
    try:
        return _width(char)
    except (ImportError, OSError):
        return 1


@lru_cache(maxsize=CACHED_WIDTHS)
def _width(char: str) -> int:
    from wcwidth import wcwidth  # imported here: most output does not need wcwidth, and its tables take 20 ms

    return max(0, wcwidth(char))


class Cells:
    """The conversion of text to cells, and back.

    A cell is one code point: the character; `REST` after a wide character; or a stand-in for a character with marks, or for a
    protected character. Only the `Cells` that made a stand-in can read it. So a row of a terminal is a string with one code
    point for each column.
    """

    def __init__(self) -> None:
        self._clusters: list[str] = []
        self._numbers: dict[str, int] = {}

    def lay(self, text: str, before: str = "") -> tuple[str, str]:
        """Lay out text without controls.

        Args:
            text: The text to lay out.
            before: The cells before the text; their last character takes the marks that the text begins with.

        Returns:
            The new cells of the last character in `before`, empty if unchanged; and the cells of the text.
        """
        if is_narrow(text):
            return "", text
        changed = ""
        cells: list[str] = []
        for char in text:
            columns = 1 if char >= "\U00100000" or char == REST else width(char)
            if columns == 0:
                if cells:
                    at = -2 if cells[-1] == REST else -1
                    cells[at] = self._join(cells[at], char)
                else:
                    changed = changed or (before[-2:] if before[-1:] == REST else before[-1:])
                    changed = self._join(changed[0], char) + changed[1:] if changed else ""
                continue
            cells.append("\ufffd" if char >= "\U00100000" or char == REST else char)
            if columns == 2:
                cells.append(REST)
        return changed, "".join(cells)

    def protect(self, cells: str) -> str:
        """Return the same cells in a form that `PROTECTED` finds; blanks are unchanged."""
        return "".join([cell if cell in " \uffff" else self._protect(cell) for cell in cells])

    def read(self, cells: str) -> str:
        """Return the text of cells."""
        return cells if is_narrow(cells) else _STAND_INS.sub(lambda match: self._text(match[0]), cells)

    def _text(self, cell: str) -> str:
        return "" if cell == REST else self._clusters[(ord(cell) - _FIRST) % _PROTECTED]

    def _join(self, cell: str, mark: str) -> str:
        text = (self._text(cell) if cell >= "\U00100000" else cell) + mark
        number = None if len(text) > LONGEST_CELL else self._number(text)
        protected = _PROTECTED if PROTECTED.match(cell) else 0
        return cell if number is None else chr(_FIRST + number + protected)

    def _protect(self, cell: str) -> str:
        number = self._number(self._text(cell) if cell >= "\U00100000" else cell)
        return cell if number is None else chr(_FIRST + number + _PROTECTED)

    def _number(self, text: str) -> int | None:
        if text not in self._numbers and len(self._clusters) < CLUSTERS:
            self._numbers[text] = len(self._clusters)
            self._clusters.append(text)
        return self._numbers.get(text)
