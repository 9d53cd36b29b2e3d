"""The screen of a terminal as a picture: text, SVG by rich, and PNG from the SVG by resvg."""

from __future__ import annotations

import io
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from ...failure import Failure
from ...printing import printable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Protocol

    from rich.color import Color
    from rich.segment import Segment
    from rich.style import Style as RichStyle
    from rich.terminal_theme import TerminalTheme

    from ....output import Span, Style
    from ....recordings import Theme

    class _Render(Protocol):
        def __call__(self, *, svg_string: str, zoom: float = 1) -> bytes: ...


LARGEST_PNG = 64 * 1024**2
"""Pixels of a PNG, each four bytes of memory; a larger PNG has half of its pixels in each direction, or is refused."""

_ZOOM = 2  # no bound
"""Pixels of a PNG for each pixel of the SVG, in both directions: letters stay sharp on the screens of today."""

# rich's layout of an SVG: the pixels of a character, which fit a monospaced font of size 20.
_FONT_SIZE = 20  # no bound: how a picture is laid out
_COLUMN = _FONT_SIZE * 0.61
_ROW = _FONT_SIZE * 1.22
_TITLE_CHARACTER = 11  # no bound: how a picture is laid out
_BUTTONS = 180  # no bound: how a picture is laid out

_ATTRIBUTES = ("bold", "dim", "italic", "underline", "reverse", "strike")

_FONTS = (
    '"Fira Code", "Cascadia Mono", "JetBrains Mono", "DejaVu Sans Mono", "Liberation Mono", "Noto Sans Mono", '
    'Menlo, Consolas, "Courier New", monospace'
)
"""The fonts for showing the picture, in the order of preference. No font is fetched."""

# rich fills in this template, and defines the names. Letters are a little larger than rich assumes, and nothing is clipped. So
# lines of box-drawing characters meet from row to row, and descenders and underscores of the last row stay visible.
_SVG = """<svg class="rich-terminal" viewBox="0 0 {{width}} {{height}}" width="{{width}}" height="{{height}}" \
xmlns="http://www.w3.org/2000/svg">
<style>
.{{unique_id}}-matrix, .{{unique_id}}-title {{{{ font-family: {fonts}; }}}}
.{{unique_id}}-matrix {{{{ font-size: {size}px; line-height: {{line_height}}px; }}}}
.{{unique_id}}-matrix text {{{{ clip-path: none; }}}}
.{{unique_id}}-title {{{{ font-size: 18px; font-weight: bold; }}}}
{{styles}}
</style>
{{chrome}}
<g transform="translate({{terminal_x}}, {{terminal_y}})">
{{backgrounds}}
<g class="{{unique_id}}-matrix">
{{matrix}}
</g>
</g>
</svg>
"""

_NO_RASTERISER = "a PNG is drawn by resvg, which is not installed: pip install 'anyshell[png]'; .svg and .txt need nothing more"
_NO_FONT = (
    "there is no monospaced font on this machine that a PNG could be drawn with: install one, such as Debian's "
    "fonts-dejavu-core; .svg and .txt need none"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """The picture of a screen.

    Attributes:
        rows: The rows of the screen, from the top.
        columns: The width of the screen.
        title: The text above the screen.
        theme: The terminal's colours; ``None`` stands for rich's theme.
    """

    rows: tuple[tuple[Span, ...], ...]
    columns: int
    title: str = ""
    theme: Theme | None = None

    def text(self) -> str:
        """Return the rows as text, without blanks at the end of a row and blank rows at the end. Hidden text is blank."""
        rows = ["".join(map(_visible, row)).rstrip(" ") for row in self.rows]
        return "\n".join(rows).rstrip("\n") + "\n"

    def svg(self) -> str:
        """Return the picture as an SVG document without references to other files."""
        from rich.console import Console
        from rich.segment import Segment, Segments

        console = Console(
            record=True,
            width=self.columns,
            file=io.StringIO(),
            force_terminal=True,
            color_system="truecolor",
            legacy_windows=False,
            _environ={},
        )
        styles: dict[Style, RichStyle] = {}
        for row in self.rows:
            segments = [segment for span in row for segment in _segments(span, styles)]
            console.print(Segments([*segments, Segment.line()]), soft_wrap=True, end="")
        template = _SVG.format(fonts=_FONTS, size=_FONT_SIZE + 1)
        return console.export_svg(title=self._title(), theme=_theme(self.theme), code_format=template)

    def png(self) -> bytes:
        """Return the picture as a PNG.

        Raises:
            Failure: resvg is not installed or fails, there is no font, or the PNG would be too large.
        """
        render = rasteriser()
        width, height = self.columns * _COLUMN + 20, len(self.rows) * _ROW + 50
        zoom = _ZOOM
        while zoom > 1 and width * height * zoom**2 > LARGEST_PNG:
            zoom -= 1
        if width * height * zoom**2 > LARGEST_PNG:
            raise Failure(
                f"a PNG of {self.columns:,} columns and {len(self.rows):,} rows would be too large: write an .svg"
            )
        if not has_font():
            raise Failure(_NO_FONT)
        try:
            return render(svg_string=self.svg(), zoom=zoom)
        except ValueError as error:
            raise Failure(f"resvg cannot draw it: {error}; write an .svg") from error

    def _title(self) -> str:
        most = max(0, int((self.columns * _COLUMN - _BUTTONS) / _TITLE_CHARACTER))
        title = printable(self.title)
        return title if len(title) <= most else title[: max(0, most - 1)] + "…" * (most > 0)


def rasteriser() -> _Render:
    """Return the function of resvg that draws a PNG.

    Raises:
        Failure: resvg is not installed, or cannot be loaded.
    """
    try:
        render: _Render = import_module("resvg_py").svg_to_bytes
    except ModuleNotFoundError as error:
        raise Failure(_NO_RASTERISER) from error
    except ImportError as error:
        raise Failure(f"a PNG is drawn by resvg, which cannot be loaded: {error}") from error
    return render


def has_font() -> bool:
    """Whether resvg draws a letter: if resvg finds no font, it leaves out text without an error."""
    frame = f'<svg width="20" height="20" xmlns="http://www.w3.org/2000/svg"><text y="16" font-family=\'{_FONTS}\'>%s</text></svg>'
    render = rasteriser()
    return bool(render(svg_string=frame % "M") != render(svg_string=frame % ""))


def _visible(span: Span) -> str:
    """Return the visible text of a span: blanks for hidden text."""
    return " " * span.columns if span.style.hidden else span.text


def _segments(span: Span, styles: dict[Style, RichStyle]) -> Iterator[Segment]:
    """Yield a span in segments whose width rich knows: rich would stretch characters that it takes for narrow."""
    from rich.segment import Segment

    style = styles.get(span.style)
    if style is None:
        style = styles[span.style] = _style(span.style)
    seen = _visible(span)
    if seen.isascii():
        yield Segment(seen, style)
        return
    run = ""
    for text, columns in _clusters(seen):
        shown = _shown(text, columns)
        if len(shown) == columns == 1:
            run += shown
            continue
        if run:
            yield Segment(run, style)
            run = ""
        yield Segment(shown, style)
    if run:
        yield Segment(run, style)


def _clusters(text: str) -> Iterator[tuple[str, int]]:
    """Yield each character with its combining characters, and the columns that the screen has counted for the character."""
    from ....output.cells import width

    begun, columns = "", 0
    for char in text:
        own = width(char)
        if own and begun:
            yield begun, columns
            begun = ""
        columns = own or columns
        begun += char
    if begun:
        yield begun, columns


def _shown(text: str, columns: int) -> str:
    """Return the text for a character in an SVG: rich must count the same columns, and XML must allow the text."""
    from rich.cells import cell_len

    for shown in (text, text[0]):
        if cell_len(shown) == columns and "\ufffe" not in shown and "\uffff" not in shown:
            return shown
    return "\ufffd".ljust(columns)


def _style(style: Style) -> RichStyle:
    from rich.style import Style as RichStyle

    return RichStyle(
        color=_colour(style.foreground),
        bgcolor=_colour(style.background),
        **{name: getattr(style, name) for name in _ATTRIBUTES},
    )


def _colour(colour: int | tuple[int, int, int] | None) -> Color | None:
    from rich.color import Color

    if colour is None:
        return None
    return Color.from_ansi(colour) if isinstance(colour, int) else Color.from_rgb(*colour)


def _theme(theme: Theme | None) -> TerminalTheme:
    from rich.terminal_theme import SVG_EXPORT_THEME, TerminalTheme

    if theme is None:
        return SVG_EXPORT_THEME
    foreground, background, *palette = (
        (int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16))
        for colour in (theme.foreground, theme.background, *theme.palette)
    )
    return TerminalTheme(background, foreground, palette[:8], palette[8:] or None)
