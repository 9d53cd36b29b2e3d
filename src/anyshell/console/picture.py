"""The conversion of a terminal's screen to the strips that textual draws."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size
from rich.color import Color
from rich.segment import Segment
from rich.style import Style as RichStyle
from textual.strip import Strip

if TYPE_CHECKING:
    from ..output import Span, Style
    from ..output.screen.style import Colour

CACHED_STYLES = 1_024
"""Styles that are cached in the form that textual draws; beyond that, the least recently used is dropped."""


def strip(row: tuple[Span, ...], width: int, base: RichStyle, cursor: int | None = None) -> Strip:
    """Return one row of the screen as a strip.

    Args:
        row: The row.
        width: Columns of the widget.
        base: The style of plain text.
        cursor: The column of the cursor, if the cursor is in this row.
    """
    segments = [Segment(_text(span), base + _style(span.style)) for span in row]
    used = sum(span.columns for span in row)
    line = Strip(segments, used).adjust_cell_length(width, base)
    if cursor is None or cursor >= width:
        return line
    start, columns = _cell(line, cursor)
    under = line.crop(start, start + columns)
    shown = Strip([Segment(text, _turned(style or base)) for text, style, _ in under], columns)
    return Strip.join([line.crop(0, start), shown, line.crop(start + columns, width)])


def _cell(line: Strip, column: int) -> tuple[int, int]:
    """Return the first column of the character at a column, and the number of the character's columns."""
    start = 0
    for char in line.text:
        columns = cell_len(char)
        if start <= column < start + columns:
            return start, columns
        start += columns
    return column, 1


def _text(span: Span) -> str:
    """Return a span's text without control characters, cut or padded so that rich counts the span's columns."""
    text = span.text if span.text.isascii() else "".join(filter(str.isprintable, span.text))
    return text if cell_len(text) == span.columns else set_cell_size(text, span.columns)


def _turned(style: RichStyle) -> RichStyle:
    return style + RichStyle(reverse=not style.reverse)


@lru_cache(maxsize=CACHED_STYLES)
def _style(style: Style) -> RichStyle:
    return RichStyle(
        color=_colour(style.foreground),
        bgcolor=_colour(style.background),
        bold=style.bold or None,
        dim=style.dim or None,
        italic=style.italic or None,
        underline=style.underline or None,
        blink=style.blink or None,
        reverse=style.reverse or None,
        conceal=style.hidden or None,
        strike=style.strike or None,
    )


def _colour(colour: Colour) -> Color | None:
    if colour is None:
        return None
    return Color.from_ansi(colour) if isinstance(colour, int) else Color.from_rgb(*colour)
