"""Colours and attributes on a screen: compared with tmux, and with the same text without styles."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from anyshell import Terminal
from anyshell.output import StyledEmulator, TerminalOutput
from anyshell.output.screen.style import LONGEST_RENDITION, PLAIN, Style, render

from .conftest import missing
from .screens import Tmux
from .test_decode import cut, cuts
from .test_emulator import PIECES, anything

if TYPE_CHECKING:
    from collections.abc import Iterator

RENDITIONS = [
    *(
        b"\x1b[m",
        b"\x1b[0;1m",
        b"\x1b[31m",
        b"\x1b[44m",
        b"\x1b[7m",
        b"\x1b[4m",
        b"\x1b[27;24m",
        b"\x1b[97;103m",
    ),
    *(
        b"\x1b[38;5;200m",
        b"\x1b[48;2;1;2;3m",
        b"\x1b[39m",
        b"\x1b[49m",
        b"\x1b[2;3;9m",
        b"\x1b[22m",
        b"\xc2\x9b35m",
    ),
]
coloured = st.lists(st.sampled_from([*PIECES, *RENDITIONS]) | st.binary(max_size=3), max_size=50).map(
    b"".join
)


def shown(data: bytes, columns: int = 20, rows: int = 4) -> list[list[tuple[str, Style]]]:
    output = TerminalOutput(Terminal(columns=columns, rows=rows), scrollback=10)
    output.feed(data)
    return [[(span.text, span.style) for span in row] for row in output.view().rows]


RED, ON_BLUE = Style(foreground=1), Style(background=4)


@pytest.mark.parametrize(
    ("parameters", "style"),
    [
        (b"", PLAIN),
        (b"1;31", Style(bold=True, foreground=1)),
        (b"1;31;0", PLAIN),
        (b"1;31;", PLAIN),
        (b"94;107", Style(foreground=12, background=15)),
        (b"38;5;208;48;5;17;1", Style(foreground=208, background=17, bold=True)),
        (b"38;2;1;2;3;48;2;4;5;6", Style(foreground=(1, 2, 3), background=(4, 5, 6))),
        (b"38:2::1:2:3;1", Style(foreground=(1, 2, 3), bold=True)),
        (b"38:2:1:2:3;48:5:9", Style(foreground=(1, 2, 3), background=9)),
        (b"58;2;1;2;3;4:3", Style(underline=True)),
        (b"4;4:0", PLAIN),
        (b"2;3;5;7;8;9", Style(dim=True, italic=True, blink=True, reverse=True, hidden=True, strike=True)),
        (b"1;2;3;4;5;7;8;9;22;23;24;25;27;28;29", PLAIN),
        (b"31;39;41;49", PLAIN),
        # invalid sequences change nothing, and are not taken for other sequences
        (b"38;5;256", PLAIN),
        (b"38;2;1;2", PLAIN),
        (b"38;5", PLAIN),
        (b"38", PLAIN),
        (b"38:5", PLAIN),
        (b"38;2;999;1;1;1", Style(bold=True)),
        (b"12345;777777777777777777777;31", RED),
        (b"0000000031;0000000001;00000038;0000000005;00000000208", Style(bold=True, foreground=208)),
        (b";".join([b"1"] * LONGEST_RENDITION + [b"31"]), Style(bold=True)),
    ],
)
def test_a_rendition_is_read(parameters: bytes, style: Style) -> None:
    assert render(PLAIN, parameters) == style


@pytest.mark.parametrize(
    ("data", "first"),
    [
        (b"\x1b[31mred\x1b[m plain", [("red", RED), (" plain", PLAIN)]),
        (b"\x1b[31mred\x1b[2D\x1b[44mx", [("r", RED), ("x", Style(foreground=1, background=4)), ("d", RED)]),
        (b"  \x1b[44m  \x1b[m  ", [("  ", PLAIN), ("  ", ON_BLUE)]),
        ("\x1b[31m漢\x1b[m字".encode(), [("漢", RED), ("字", PLAIN)]),
        ("\x1b[31me\x1b[m\u0301x".encode(), [("e\u0301", RED), ("x", PLAIN)]),
        # erased cells have the current background
        (b"abc\x1b[44m\x1b[2D\x1b[K", [("a", PLAIN), (" " * 19, ON_BLUE)]),
        (b"abc\x1b[31;44m\x1b[2D\x1b[X", [("a", PLAIN), (" ", ON_BLUE), ("c", PLAIN)]),
        (b"\x1b[31mabc\x1b[2D\x1b[P", [("ac", RED)]),
        (b"\x1b[31mabc\x1b[m\x1b[2D\x1b[@", [("a", RED), (" ", PLAIN), ("bc", RED)]),
        (b"\x1b[31mabc\x1b[m\x1b[2D\x1b[4hx", [("a", RED), ("x", PLAIN), ("bc", RED)]),
        (b"\x1b[44m\x1b[2J", [(" " * 20, ON_BLUE)]),
        (b"\x1b[44m\x1b[T", [(" " * 20, ON_BLUE)]),
        (b"\x1b[44mabc\x1b[m\x1b[2K", []),
        (b"\x1b[31mabc\x1b[m\x1b[2 A", [("  ", PLAIN), ("abc", RED)]),
        (b"\x1b[31mab\x1b[mcd\x1b[ @", [("b", RED), ("cd", PLAIN)]),
        (
            b"\x1b[31mab\x1b[44m\x1b['}",
            [("ab", RED), (" ", ON_BLUE)],
        ),
        (b"\x1b[31mab\x1b[m\x1b#8", [("E" * 20, PLAIN)]),
        # styles are saved and restored, and not by similar sequences
        (b"\x1b[31m\x1b7\x1b[m\x1b8red", [("red", RED)]),
        (b"\x1b[31m\x1b[!pplain", [("plain", PLAIN)]),
        (b"\x1b[31m\x1b[>4;1m\x1b[?4mred", [("red", RED)]),
        (b"\x1b[31m\x1b[3b", []),
        (b"\x1b[31mx\x1b[2b", [("xxx", RED)]),
    ],
)
def test_columns_keep_their_styles(data: bytes, first: list[tuple[str, Style]]) -> None:
    assert shown(data)[0] == first


def test_a_line_that_wraps_keeps_its_style_on_both_rows() -> None:
    rows = shown("\x1b[31m123456789漢\x1b[mx".encode(), columns=10)
    assert rows[:2] == [[("123456789", RED)], [("漢", RED), ("x", PLAIN)]]


def test_scrolled_rows_can_be_viewed() -> None:
    output = TerminalOutput(Terminal(columns=10, rows=3), scrollback=4)
    output.feed(b"".join(b"\x1b[%dm%d\x1b[m\r\n" % (31 + number % 2, number) for number in range(9)) + b"end")
    assert [row[0].text for row in output.view().rows] == ["7", "8", "end"]
    view = output.view(3)
    assert [(row[0].text, row[0].style.foreground) for row in view.rows] == [("4", 1), ("5", 2), ("6", 1)]
    assert (view.back, view.above, view.scrolled, view.cursor) == (3, 4, 7, None)
    assert [row[0].text for row in output.view(999).rows] == ["3", "4", "5"]
    assert [row[0].text for row in output.view(1).rows] == ["6", "7", "8"]
    output.feed(b"\x1b[?1049h")
    assert (output.view(3).back, output.view(3).above) == (0, 0)


def fed(data: bytes, scrollback: int | None, places: list[int]) -> tuple[object, ...]:
    answers: list[bytes] = []
    output = TerminalOutput(
        Terminal(columns=10, rows=4),
        head=60,
        tail=80,
        answer=answers.append,
        clock=lambda: 0.0,
        scrollback=scrollback,
    )
    for piece in cut(data, places):
        output.feed(piece)
    return output.screen, output.prompt(), output.modes, output.finish(), b"".join(answers)


@settings(deadline=None)
@given(coloured | anything, cuts)
@example(
    b"\x1b[2m" + b"line of text\r\n" * 12, []
)  # wrapped lines, whose first rows scroll away before their last rows are drawn
def test_colours_change_nothing_of_the_text(data: bytes, places: list[int]) -> None:
    assert fed(data, 5, places) == fed(data, None, places)


@settings(deadline=None)
@given(coloured, st.lists(st.tuples(st.integers(2, 12), st.integers(2, 6)), max_size=4))
def test_a_styled_row_is_as_wide_as_its_text(data: bytes, sizes: list[tuple[int, int]]) -> None:
    output = TerminalOutput(Terminal(columns=10, rows=4), scrollback=3)
    for columns, height in [(10, 4), *sizes]:
        output.resize(Terminal(columns=columns, rows=height))
        output.feed(data)
        screen, view = output.screen, output.view()
        assert ["".join(span.text for span in row).rstrip(" ") for row in view.rows] == list(screen.rows)
        assert all(sum(span.columns for span in row) <= columns for row in view.rows)
        assert len(view.rows) == height
        assert output.view(2).above <= 3
    emulator = output._emulator
    assert all(len(row.styles or ()) <= 12 for row in emulator.rows)


@pytest.fixture(scope="module")
def tmux(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tmux]:
    if shutil.which("tmux") is None:
        missing("tmux", "install it: it is what the colours are compared with")
    made = Tmux(tmp_path_factory.mktemp("tmux"))
    yield made
    made.close()


PICTURE = (
    b"\x1b[31mred\x1b[1mbold\x1b[22m\x1b[4munder\x1b[m plain\r\n"
    b"\x1b[38;5;208;48;5;17mpalette\x1b[7mreverse\x1b[27m\x1b[9mstrike\x1b[m\r\n"
    b"\x1b[38;2;10;20;30mdirect\x1b[39m\x1b[3mitalic\x1b[2mdim\x1b[m\x1b[95;106mbright\x1b[m\r\n"
    b"\x1b[44m" + b"wrapped " * 15 + b"\x1b[m\r\n"
    b"left\x1b[42m\x1b[Kx\x1b[m\r\n"
    b"\x1b[41m\x1b[2Kline\x1b[m\r\n"
    b"\x1b[32mabcdef\x1b[3D\x1b[45m\x1b[2@\x1b[m\r\n"
    b"\x1b[32mabcdef\x1b[4D\x1b[46m\x1b[2P\x1b[m\r\n"
    b"\x1b[32mabcdef\x1b[4D\x1b[43m\x1b[2X\x1b[m\r\n"
    b"\x1b[12;14r\x1b[12;1H\x1b[36mone\r\ntwo\r\nthree\r\n\x1b[44mfour\x1b[m\x1b[r\x1b[16;1H"
    b"\x1b7\x1b[35mA\x1b8B\r\n"
    + "\x1b[33m漢字\x1b[m\x1b[17;5H\x1b[34mx\x1b[m".encode()
    + b"\r\n"
    # tmux omits erased cells at the end of a row: so a character stands there
    + b"".join(b"\x1b[%d;80H|" % row for row in range(1, 19))
)


def test_colours_match_tmux(tmux: Tmux) -> None:
    ours = TerminalOutput(Terminal(columns=80, rows=24), scrollback=0)
    ours.feed(PICTURE)
    theirs = TerminalOutput(Terminal(columns=80, rows=24), scrollback=0)
    theirs.feed(tmux.coloured(PICTURE).rstrip(b"\n").replace(b"\n", b"\r\n"))
    assert ours.view().rows == theirs.view().rows


def test_a_plain_emulator_keeps_no_styles() -> None:
    """The cost of an unwatched command is unchanged: no list is made for a row."""
    output = TerminalOutput(Terminal(columns=10, rows=3))
    output.feed(b"\x1b[31mred\x1b[44m\x1b[K\r\n\x1b[2J")
    assert not isinstance(output._emulator, StyledEmulator)
    assert all(row.styles is None for row in output._emulator.rows)
