"""A row of a screen, and its cuts at wide characters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..cells import REST

if TYPE_CHECKING:
    from .style import Style


class Row:
    """One row.

    Attributes:
        cells: What stands on it, one code point a column, without what was never written at its end. It can be
            longer than the terminal is wide, if that was made narrower: nothing is lost by it.
        continues: Whether it is the same line as the row before it, which was full.
        end: Raw bytes of the output up to what ended it last, such as a line feed; 0 if nothing has.
        ends: The same in line feeds.
        styles: The styles of its columns, as far as any was shown otherwise than plain; ``None`` where styles are not kept.
    """

    __slots__ = ("cells", "continues", "end", "ends", "styles")

    def __init__(self) -> None:
        self.cells = ""
        self.continues = False
        self.end = 0
        self.ends = 0
        self.styles: list[Style] | None = None


def over(cells: str, x: int, text: str) -> str:
    """Write over what stands in a row; of a wide character that is hit no half is left."""
    return left(cells, x) + text + right(cells, x + len(text))


def left(cells: str, end: int) -> str:
    """The start of a row, which is not to end with the first half of a wide character."""
    return cells[: end - 1] + " " if end and cells[end : end + 1] == REST else cells[:end]


def right(cells: str, start: int) -> str:
    """The rest of a row, which is not to begin with the second half of a wide character."""
    cells = cells[start:]
    return " " + cells[1:] if cells[:1] == REST else cells
