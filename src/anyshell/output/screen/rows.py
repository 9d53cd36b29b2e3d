"""The row of a screen, and the cutting of rows at wide characters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..cells import REST

if TYPE_CHECKING:
    from .style import Style


class Row:
    """A row of a screen.

    Attributes:
        cells: The cells of the row, one code point for each column, without unwritten columns at the end. After a resize to
            fewer columns, the cells may be longer than the row: no text is lost.
        continues: Whether the row continues the line of the row before, which was full.
        end: Raw bytes of the output up to the last control that ended the row, such as a line feed; 0 for none.
        ends: Line feeds of the output up to that control.
        styles: The styles of the first columns; further columns are plain. ``None`` if all are plain, or styles are not kept.
    """

    __slots__ = ("cells", "continues", "end", "ends", "styles")

    def __init__(self) -> None:
        self.cells = ""
        self.continues = False
        self.end = 0
        self.ends = 0
        self.styles: list[Style] | None = None


def over(cells: str, x: int, text: str) -> str:
    """Return a row with text written over its cells; a wide character that loses one half loses the other half too."""
    return left(cells, x) + text + right(cells, x + len(text))


def left(cells: str, end: int) -> str:
    """Return the start of a row; a blank replaces the first half of a wide character at the cut."""
    return cells[: end - 1] + " " if end and cells[end : end + 1] == REST else cells[:end]


def right(cells: str, start: int) -> str:
    """Return the rest of a row; a blank replaces the second half of a wide character at the cut."""
    cells = cells[start:]
    return " " + cells[1:] if cells[:1] == REST else cells
