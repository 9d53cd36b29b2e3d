"""The screen of the emulator, compared with tmux and pyte."""

from __future__ import annotations

import shutil
import sys
import tracemalloc
from typing import TYPE_CHECKING

import pyte
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wcwidth import wcwidth

from anyshell import Terminal
from anyshell.output import TerminalOutput
from anyshell.output.cells import CLUSTERS, Cells, is_narrow, width
from anyshell.output.screen.backlog import ROW_WORK, pieces
from anyshell.output.screen.emulator import Emulator

from .conftest import missing
from .screens import Tmux, drawn, record
from .test_decode import cut, cuts

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KB = 1024


def rows_of(data: bytes, columns: int = 10, rows: int = 4) -> list[str]:
    return list(drawn(data, columns, rows).rows)


@pytest.mark.parametrize(
    ("data", "rows"),
    [
        (b"one\r\ntwo", ["one", "two", "", ""]),
        (b"one\ntwo", ["one", "   two", "", ""]),
        (b"0123456789", ["0123456789", "", "", ""]),
        (b"0123456789\r\nx", ["0123456789", "x", "", ""]),
        (b"0123456789x", ["0123456789", "x", "", ""]),
        (b"0123456789\bx", ["01234567x9", "", "", ""]),
        (b"0123456789\x1b[Kx", ["0123456789", "x", "", ""]),
        (b"1\r\n2\r\n3\r\n4\r\n5", ["2", "3", "4", "5"]),
        # the cursor
        (b"\x1b[2;3Hx\x1b[Hy", ["y", "  x", "", ""]),
        (b"\x1b[99;99Hx\x1b[999999999999Ay", ["         y", "", "", "         x"]),
        (b"x\x1b[2Bx\x1b[3Cx\x1b[Ax\x1b[Ex\x1b[2Fx", ["x", "      x", "xx   x", ""]),
        (b"\x1b[3dx\x1b[5Gy\x1b[2`z\x1b[2ab\x1b[ec", ["", "", "xz  b", "     c"]),
        (b"a\tb\x1b[Zc\x1b[2Zd", ["d       c", "", "", ""]),
        (b"\x1b[3g\x1b[1;4H\x1bH\ra\tb\tc", ["a  b     c", "", "", ""]),
        (b"ab\x1b7\x1b[3;3Hc\x1b8d\x1b[s\x1b[4;4He\x1b[uf", ["abdf", "", "  c", "   e"]),
        (b"a\x1bDb\x1bEc\x1bMd", ["a", " d", "c", ""]),
        # erasing, inserting, deleting
        (b"abcdef\x1b[3D\x1b[K", ["abc", "", "", ""]),
        (b"abcdef\x1b[3D\x1b[1K", ["    ef", "", "", ""]),
        (b"abcdef\x1b[2Kx", ["      x", "", "", ""]),
        (b"abcdef\r\x1b[2X\x1b[2;1Hgh\x1b[1X", ["  cdef", "gh", "", ""]),
        (b"abcdef\r\x1b[2@xy\x1b[2P", ["xycdef", "", "", ""]),
        (b"1\r\n2\r\n3\r\n4\x1b[2;1H\x1b[Lx", ["1", "x", "2", "3"]),
        (b"1\r\n2\r\n3\r\n4\x1b[2;1H\x1b[2M", ["1", "4", "", ""]),
        (b"1\r\n2\r\n3\r\n4\x1b[2;1H\x1b[J", ["1", "", "", ""]),
        (b"11\r\n22\r\n33\x1b[2;1H\x1b[1J", ["", " 2", "33", ""]),
        (b"1\r\n2\x1b[2Jx", ["", " x", "", ""]),
        (b"abc\r\x1b[4hx\x1b[4ly", ["xybc", "", "", ""]),
        (b"ab\x1b[3b", ["abbbb", "", "", ""]),
        # margins and scrolling
        (b"1\r\n2\r\n3\r\n4\x1b[2;3r\x1b[3;1H\na", ["1", "3", "a", "4"]),
        (b"1\r\n2\r\n3\r\n4\x1b[2;3r\x1b[2;1H\x1bMa", ["1", "a", "2", "4"]),
        (b"1\r\n2\r\n3\r\n4\x1b[2S", ["3", "4", "", ""]),
        (b"1\r\n2\r\n3\r\n4\x1b[T", ["", "1", "2", "3"]),
        (b"\x1b[2;3r\x1b[?6h\x1b[Hx\x1b[9;1Hy\x1b[?6l\x1b[Hz", ["z", "x", "y", ""]),
        (b"\x1b[?7l0123456789abc\x1b[?7h", ["012345678c", "", "", ""]),
        # character sets
        (b"\x1b(0lqk\x1b(Blqk", ["┌─┐lqk", "", "", ""]),
        (b"\x1b)0a\x0eqq\x0fq", ["a──q", "", "", ""]),
        # wide and combining characters
        ("漢字".encode(), ["漢字", "", "", ""]),
        ("123456789漢".encode(), ["123456789", "漢", "", ""]),
        ("漢字\x1b[1;2Hx".encode(), [" x字", "", "", ""]),
        ("漢字\x1b[1;3Hx".encode(), ["漢x", "", "", ""]),
        ("漢字\x1b[1;4H\x1b[K".encode(), ["漢", "", "", ""]),
        ("漢字\x1b[1;2H\x1b[P".encode(), [" 字", "", "", ""]),
        ("漢字\x1b[1;2H\x1b[@x".encode(), [" x 字", "", "", ""]),
        ("e\u0301a\u0300\rx".encode(), ["xa\u0300", "", "", ""]),
        ("0123456789\u0301".encode(), ["0123456789\u0301", "", "", ""]),
        # other screens
        (b"main\x1b[?1049halt\x1b[?1049l", ["main", "", "", ""]),
        (b"main\x1b[?47h\x1b[Halt", ["alt", "", "", ""]),
        (b"main\x1bc", ["", "", "", ""]),
        (b"\x1b[2;3r\x1b[4h\x1b(0\x1b[!pq\n\n\nr", ["q", "", "", " r"]),
        # sequences that draw no text
        (b"\x1b[1;31mred\x1b[m\x1b]8;;http://a\x1b\\link\x1b]8;;\x1b\\", ["redlink", "", "", ""]),
        (b"a\0b\x07c\x7fd\xffe", ["abcd\ufffde", "", "", ""]),
        (b"\x1b]0;ti\ntle", ["0;ti", "    tle", "", ""]),
        (b"\xe2\x1b[m\x82", ["\ufffd\ufffd", "", "", ""]),
        (b"\x1b\x1b[m[2Jx", ["[2Jx", "", "", ""]),
        # Without auto-wrap each further character overwrites the last column.
        ("\x1b[9Ge\x1b[?7l世e".encode(), ["         e", "", "", ""]),
        ("\x1b[?7l12345678\x1b[m世世e".encode(), ["12345678 e", "", "", ""]),
        ("\x1b[?7l123456789世界".encode(), ["12345678界", "", "", ""]),
        ("\x1b[9Ge\u0301\x1b[?7l世\x1b[me\u0301".encode(), ["         e\u0301", "", "", ""]),
        # A cursor that waits at the margin for the next character to wrap
        (b"0123456789\tx", ["0123456789", "x", "", ""]),
        (b"0123456789\x1b[2Ix", ["0123456789", "x", "", ""]),
        (b"\x1b[3g0123456789\tx", ["0123456789", "x", "", ""]),
        (b"012345678\tx", ["012345678x", "", "", ""]),
        (b"0123456789\nx", ["0123456789", "         x", "", ""]),
        (b"0123456789\x0bx\x0cy", ["0123456789", "         x", "         y", ""]),
        (b"0123456789\x1bDx", ["0123456789", "         x", "", ""]),
        (b"\x1b[2H0123456789\x1bMx", ["         x", "0123456789", "", ""]),
        (b"0123456789\x1b[@x", ["012345678x", "", "", ""]),
        (b"0123456789\x1b[Px", ["012345678x", "", "", ""]),
        (b"0123456789\x1b[Xx", ["012345678x", "", "", ""]),
        (b"0123456789\x1b7\x1b[3H\x1b8x", ["0123456789", "x", "", ""]),
        # zeros before a number
        (b"\x1b[0000002Cx\x1b[00000000000000000003Gy", ["  y", "", "", ""]),
        (b"\x1b[0000000002;00000000003Hx\x1b[1;000000000004Hy", ["   y", "  x", "", ""]),
        (b"\x1b[0099999999999999999Cx", ["         x", "", "", ""]),
        # controls inside a sequence act before the sequence; CAN and SUB end the sequence
        (b"ab\x1b[\r3Cz", ["ab z", "", "", ""]),
        (b"a\x1b[2\n;1Hb\x1b[\x0b3\b;5Hc", ["a", "b", "    c", ""]),
        (b"a\x1b[2\x7f\0C\xc2\x9b\x0e1\x0fCb", ["a   b", "", "", ""]),
        (b"a\x1b[12\x18K\x1b[?\x1aJ\x1b\x18D\x1b(\x1a0\x1b[\n5\x18C", ["aKJD0", "     C", "", ""]),
        # repeating needs a character just before
        (b"ab\x1b[D\x1b[2bc", ["ac", "", "", ""]),
        (b"x\r\n\x1b[3b<\r\x1b[b", ["x", "<", "", ""]),
        (b"x\x1b[31m\x1b[2b\x1b[b", ["xxxx", "", "", ""]),
        (b"0123456789\x1b[2b", ["0123456789", "99", "", ""]),
        # movement past margins, and resets of the screen
        (b"\x1b[2;3r\x1b[9ex\x1b[?6h\x1b[9ey", ["", "", "y", "x"]),
        (b"ab\x1b[2;3r\x1b[2;2H\x1b[?6h\x1b#8x", ["xEEEEEEEEE", *["E" * 10] * 3]),
        (b"\x1b#8\x1b[4;1H\nx", [*["E" * 10] * 3, "x"]),
        (b"ab\x1b[?3lc\x1b[?3hd", ["d", "", "", ""]),
        (b"\x1b[?3hab\x1b[2;3r\x1b[?3lc", ["c", "", "", ""]),
        # columns
        (b"abcd\r\n1234\x1b[2 @x", ["cd", "34  x", "", ""]),
        (b"abcd\r\n123456789\x1b[2 Ax", ["  abcd", "  1234567x", "", ""]),
        (b"abcd\r\n1234\x1b[1;2H\x1b[2'}", ["a  bcd", "1  234", "", ""]),
        (b"abcd\r\n1234\x1b[1;2H\x1b[2'~", ["ad", "14", "", ""]),
        (b"ab\r\n12\x1b[2;3r\x1b[1;1H\x1b['}\x1b[ @\x1b[2H\x1b['~", ["ab", "2", "", ""]),
        ("漢字\r\n1漢\x1b[1;3H\x1b['}".encode(), ["漢 字", "1", "", ""]),
        # DECRC does not change auto-wrap, and stays between the margins in origin mode.
        (b"\x1b7\x1b[?7l\x1b8\x1b[9Gabcd", ["        ad", "", "", ""]),
        (b"\x1b[?6h\x1b[4H\x1b7\x1b[?6l\x1b[1;2r\x1b8x", ["", "x", "", ""]),
        # DECSED and DECSEL erase all characters except those that DECSCA protects; ED and EL erase these too.
        (b'A\x1b[1"qB\x1b["qC\x1b[G\x1b[?J', [" B", "", "", ""]),
        (b'A\x1b[1"qB\x1b["qC\x1b[G\x1b[J', ["", "", "", ""]),
        (b'a\x1b[1"qbc\x1b[2"qd\r\ne\x1b[1"qf\x1b[?2K\x1b[A\x1b[?1K', [" bcd", " f", "", ""]),
        (b'\x1b[1"qab\x1b[0"qc\x1b[2G\x1b[2@\x1b[?2J', ["a  b", "", "", ""]),
        ('\x1b[1"q漢e\x1b["q\u0301x字\x1b[?2J'.encode(), ["漢e\u0301", "", "", ""]),
        ('\x1b[1"q漢\x1b[2G\x1b[?K'.encode(), ["漢", "", "", ""]),
        (b'\x1b7\x1b[1"qa\x1b8\x1b[Cb\x1b[?2J', ["a", "", "", ""]),
        (b'\x1b[1"qa\x1b[!pb\x1b[?2J', ["a", "", "", ""]),
        # The alternate screen has and keeps its own saved cursor.
        (b"\x1b[?1049h\x1b[3;3H\x1b7\x1b[?1049l\x1b[?1049h\x1b8x", ["", "", "  x", ""]),
    ],
)
def test_sequences_draw_the_expected_rows(data: bytes, rows: list[str]) -> None:
    assert rows_of(data) == rows


def test_erasing_up_to_the_margin_ends_the_line() -> None:
    for erase in (b"\x1b[K", b"\x1b[5X", b"\x1b[99X"):
        output = TerminalOutput(Terminal(columns=10, rows=4))
        output.feed(b"hello12345world\x1b[1;6H" + erase)
        assert output.finish().text == "hello\nworld"


def test_tab_at_the_margin_keeps_the_line() -> None:
    output = TerminalOutput(Terminal(columns=10, rows=4))
    output.feed(b"0123456789\tx\r\n0123456789\x1b[Ix")
    assert output.finish().text == "0123456789x\n0123456789x"


def test_line_feed_inside_a_sequence_counts() -> None:
    output = TerminalOutput(Terminal(columns=10, rows=4), head=4, tail=0)
    output.feed(b"one\x1b[\r\n31mtwo\r\n" + b"more\r\n" * 4)
    result = output.finish()
    assert result.text.startswith("one\n")
    assert (result.total_lines, result.omitted_lines) == (6, 5)
    assert result.omitted_bytes == result.total_bytes - len(b"one\r\n")


def test_unfinished_sequence_with_controls_is_shown() -> None:
    output = TerminalOutput(Terminal(columns=10, rows=4))
    output.feed(b"a\x1b[12\r\n34")
    assert output.screen.rows[:2] == ("a", "")
    assert output.finish().text == "a[12\n34"


def test_work_of_a_sequence_does_not_depend_on_how_its_number_is_written() -> None:
    emulator = Emulator(Terminal(columns=80, rows=24))
    for sequence, rows in (
        (b"\x1b[0000002S", 2),
        (b"\x1b[000000000000000099S", 24),
        (b"\x1b#8", 24),
        (b"\x1b[2'}", 24),
        (b"\x1b[ @", 24),
        (b"\x1b[?0003h", 24),
        (b"\x1b[?1003h", 0),
        (b"\x1b[?2J", 24 * 11),
        (b"\x1b[?K", 11),
        (b"\x1b[?0000K", 11),
        (b"\x1b[2K", 0),
    ):
        (piece,) = pieces(sequence, 0, 0, emulator)
        assert piece.work == len(sequence) + ROW_WORK * rows, sequence


def test_the_title_is_kept_and_bounded() -> None:
    assert drawn(b"\x1b]0;one\x07\x1b]2;two\x1b\\").title == "two"
    assert drawn(b"\x1b]0;" + b"x" * 1000 + b"\x07").title == "x" * 256
    assert drawn("\x1b]2;a\u202eb\x07".encode()).title == "ab"


def test_modes_of_keys_are_tracked() -> None:
    output = TerminalOutput(Terminal())
    output.feed(b"\x1b[?1h\x1b=\x1b[?2004;1002;1006h\x1b[?1004h")
    modes = output.modes
    assert modes.application_cursor
    assert modes.application_keypad
    assert modes.bracketed_paste
    assert (modes.mouse, modes.mouse_sgr, modes.focus) == ("drag", True, True)
    output.feed(b"\x1b[?1l\x1b>\x1b[?2004l\x1b[?1002l\x1b[?1006;1004l")
    assert output.modes == TerminalOutput(Terminal()).modes


def test_the_prompt_is_the_line_up_to_the_cursor() -> None:
    output = TerminalOutput(Terminal(columns=10, rows=4))
    output.feed(b"before\r\nA long prompt: ")
    assert output.prompt() == "A long prompt: "


def test_a_terminal_can_become_smaller_and_larger() -> None:
    output = TerminalOutput(Terminal(columns=10, rows=4))
    output.feed(b"1\r\n2\r\n3\r\n0123456789")
    output.resize(Terminal(columns=5, rows=2))
    assert list(output.screen.rows) == ["3", "01234"]
    assert output.screen.cursor == (1, 4)
    output.resize(Terminal(columns=20, rows=3))
    assert list(output.screen.rows) == ["3", "0123456789", ""]
    assert output.finish().text == "1\n2\n3\n0123456789"


@pytest.mark.parametrize(
    ("saved", "columns", "rows"),
    [
        (
            b"\x1b[16G\x1b7",
            10,
            ["012345678x", ""],
        ),  # xterm moves the cursor to the last column, without a pending wrap
        (b"\x1b7", 10, ["0123456789", "x"]),  # a pending wrap stays pending
        (b"\x1b7", 30, ["0123456789abcdefghijx", ""]),  # at a margin further to the right no character wraps
        (b"\x1b[16G\x1b7", 30, ["0123456789abcdexghij", ""]),
    ],
)
def test_saved_cursor_is_restored_on_a_terminal_of_another_width(
    saved: bytes, columns: int, rows: list[str]
) -> None:
    output = TerminalOutput(Terminal(columns=20, rows=2))
    output.feed(b"0123456789abcdefghij" + saved + b"\x1b[2H")
    output.resize(Terminal(columns=columns, rows=2))
    output.feed(b"\x1b8x")
    assert list(output.screen.rows) == rows


def test_narrower_terminal_sets_no_pending_wrap() -> None:
    output = TerminalOutput(Terminal(columns=20, rows=2))
    output.feed(b"0123456789abcde")
    output.resize(Terminal(columns=10, rows=2))
    output.feed(b"x")
    assert list(output.screen.rows) == ["012345678x", ""]


def test_protected_characters_keep_their_colours() -> None:
    output = TerminalOutput(Terminal(columns=10, rows=2), scrollback=0)
    output.feed(b'a\x1b[31m\x1b[1"qbc\x1b["q\x1b[42md\x1b[?2K')
    blank, kept, rest = output.view().rows[0]
    assert (blank.text, kept.text, kept.style.foreground, rest.style.background) == (" ", "bc", 1, 2)


def test_cells_hidden_by_a_narrower_terminal_stay_out_of_later_text() -> None:
    narrow = Terminal(columns=10, rows=5)
    for then, text in (
        (b"\recho hello world", "echo hello world"),
        (b"\recho", "echove the"),
        (b"\r\xc3\xa9cho", "\xe9chove the"),
        (b"\r\x1b[2P", "move the"),
        (b"\r\x1b[X", " emove the"),
        (b"\r\x1b[1K", " emove the"),
        (b"\x1b[1;10H!\x1b[1;1H\x1b[4hx", "xremove th"),
    ):
        output = TerminalOutput(Terminal(columns=20, rows=5))
        output.feed(b"remove the cache now")
        output.resize(narrow)
        output.feed(then)
        shown = output.screen.rows
        assert "".join(shown) == text, then
        assert output.lines().texts == ("".join(shown),), then
        assert output.finish().text == "".join(shown), then
    output = TerminalOutput(Terminal(columns=20, rows=5))
    output.feed(b"x" * 20)
    output.resize(narrow)
    output.feed(b"yes? ")
    assert output.prompt() == "x" * 10 + "yes? "
    output = TerminalOutput(Terminal(columns=20, rows=5))
    output.feed(b"x" * 25)
    output.resize(narrow)
    assert output.prompt() == "x" * 10 + "x" * 5


def test_a_lower_terminal_loses_blank_rows_first() -> None:
    output = TerminalOutput(Terminal(columns=10, rows=6))
    output.feed(b"1\r\n2")
    output.resize(Terminal(columns=10, rows=3))
    assert output.screen.rows == ("1", "2", "")


def test_many_resizes_keep_the_screen_valid() -> None:
    output = TerminalOutput(Terminal(columns=1000, rows=1000))
    output.feed("漢字".encode() * 5000)
    for size in [2, 1000, 7, 80, 3, 999] * 20:
        output.resize(Terminal(columns=size, rows=size))
        output.feed(b"\x1b[999;999Hx\x1b[5;9r\n\x1b[?1049h" if size % 2 else b"y\x1b[?1049l\x1b[T")
        screen = output.screen
        assert len(screen.rows) == size
        assert max(screen.cursor) < size


# Others


@pytest.fixture(scope="module")
def tmux(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tmux]:
    if shutil.which("tmux") is None:
        missing("tmux", "install it: it is what the screen is compared with")
    made = Tmux(tmp_path_factory.mktemp("tmux"))
    yield made
    made.close()


TPUT = """
seq 30; tput cup 5 10; printf insert; tput cup 5 12; tput ich 3; tput cup 6 0; tput il 2; printf il
tput cup 9 0; tput dl 1; tput cup 10 1; tput dch 1; tput cup 11 0; tput ech 1; tput hpa 30; printf hpa; tput vpa 3
printf vpa; tput csr 12 20; tput cup 20 0; printf 'a\\nb\\nc'; tput cup 12 0; tput ri; tput ri; printf ri; tput indn 3
tput rin 2; tput cup 21 0; tput cbt; printf '\\t\\tx'; tput cbt; printf y; printf 'z\\033[4b'; tput sc
tput cup 0 70; printf 0123456789; printf w; tput rc; tput smir; printf ins; tput rmir; tput cub 3; tput el1
tput csr 0 23; tput cup 22 5; tput ed; printf end; printf '漢字e\\314\\201\\033[3D|'
"""

PROGRAMS = {
    "tput": (["sh", "-c", TPUT], [], b""),
    "vim": (
        ["vim", "-u", "NONE", "-N", "{file}"],
        [
            (b"line 22", b"\x06\x06:3\r"),
            (b"line 3", b"ddOnew text\x1bA " + b"wrapping " * 12 + b"\x1b:%s/line/LINE/\r"),
        ],
        b"LINE 9",
    ),
    "less": (["less", "{file}"], [(b"line 22", b"  b"), (rb"\x1bMline 24", b"G")], rb"\(END\)"),
    "top": (["top", "-d", "0.1", "-n", "3"], [], b""),
    "bash": (
        ["bash", "--norc", "-i"],
        [
            (rb"[$#] ", b"echo " + b"x" * 90 + b"\x01\x05\x02\x02\x02yy\r"),
            (rb"yyxxx\r\n", b"echo \xe6\xbc\xa2\xe5\xad\x97\x02z\r"),
        ],
        rb"z\xe5\xad\x97\r\n",
    ),
    "fish": (["fish", "-N", "-c", "seq 50 | column; set_color red; echo (string repeat -n 200 x)"], [], b""),
}


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such terminals")
@pytest.mark.parametrize("name", PROGRAMS)
def test_real_programs_are_drawn_like_tmux(name: str, tmux: Tmux, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("".join(f"line {number} {'word ' * (number % 10)}\n" for number in range(1, 100)))
    argv, steps, until = PROGRAMS[name]
    if shutil.which(argv[0]) is None:
        missing(argv[0], "install it")
    data = record([part.format(file=file) if "{file}" in part else part for part in argv], steps, until=until)
    screen = drawn(data)
    rows, state = tmux.show(data)
    assert list(screen.rows) == rows
    assert f"{screen.cursor[0]} {int(screen.alternate)}" == state


DRAWING = [
    *(b"a", b"word ", b"\r", b"\n", b"\r\n", b"\b", b"\t", b"x" * 12),
    *(b"\x1b[H", b"\x1b[3;4H", b"\x1b[A", b"\x1b[2B", b"\x1b[3C", b"\x1b[2D", b"\x1b[5G", b"\x1b[2d"),
    *(b"\x1b[K", b"\x1b[1K", b"\x1b[2K", b"\x1b[J", b"\x1b[1J", b"\x1b[2J", b"\x1b[2X"),
    *(
        b"\x1b[2@",
        b"\x1b[P",
        b"\x1bM",
        b"\x1bD",
        b"\x1b7",
        b"\x1b8",
        b"\x1b[2;3r",
        b"\x1b[1;4r",
    ),
]

OTHERWISE = [b"\x1b7", b"\x1b8", b"\x1b[2;3r"]
"""Differences of pyte: a second DECRC moves the cursor home, and a cursor above the margins cannot stay there."""


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.sampled_from(DRAWING).filter(lambda piece: piece not in OTHERWISE), max_size=40).map(b"".join)
)
def test_sequences_known_to_pyte_are_drawn_alike(data: bytes) -> None:
    """The screen is so wide that no line wraps: pyte keeps a pending wrap during cursor movement."""
    other = pyte.Screen(500, 4)
    pyte.ByteStream(other).feed(data)
    assert rows_of(data, 500) == [row.rstrip(" ") for row in other.display]


# Anything

PIECES = [
    *DRAWING,
    *(
        "漢字".encode(),
        "e\u0301".encode(),
        "\u0301".encode(),
        b"\xff",
        b"\xe6\xbc",
        b"\0",
        b"\x0e",
        b"\x0f",
        b"\x1b",
        b"\x1b[",
    ),
    *(
        b"\x1b]0;t\x07",
        b"\x1b]",
        b"\x1bP",
        b"\x1b\\",
        b"\x1b(0",
        b"\x1b(B",
        b"\xc2\x9b",
        b"\xc2\x84",
        b"\x1b[99999999999b",
    ),
    *(
        b"\x1b[4h",
        b"\x1b[4l",
        b"\x1b[?7l",
        b"\x1b[?7h",
        b"\x1b[?6h",
        b"\x1b[?1049h",
        b"\x1b[?1049l",
        b"\x1b[?47h",
        b"\x1bc",
    ),
    *(
        b"\x1b[6n",
        b"\x1b[c",
        b"\x1b[?25$p",
        b"\x1b]4;1;?\x07",
        b"\x1b[3S",
        b"\x1b[2T",
        b"\x1b[Z",
        b"\x1b[3g",
        b"\x1bH",
        b"\x1b[5b",
    ),
    *(
        b"\x1b[!p",
        b"\x1b[;5;;m",
        b"\x1b[1;2;3;4H",
        b"\x1b[?1h",
        b"line of text\r\n" * 12,
        b"y" * 33 + b"\r\n",
        b"\x1b[20h",
    ),
    *(
        b"\x1b#8",
        b"\x1b[?3h",
        b"\x1b[?3l",
        b"\x1b[2e",
        b"\x1b[2 @",
        b"\x1b[2 A",
        b"\x1b[2'}",
        b"\x1b[2'~",
        b"\x1b[\n2",
        b"\x1b[1\r\n;3H",
        b"\xc2\x9b2\t",
        b"\x1b[2\x18",
        b"\x1b[0000002A",
        b"\x1b[>1u",
        b"\x1b[?u",
    ),
]
anything = st.lists(st.sampled_from(PIECES) | st.binary(max_size=3), max_size=50).map(b"".join)


def fed(pieces: list[bytes]) -> tuple[object, ...]:
    answers: list[bytes] = []
    output = TerminalOutput(
        Terminal(columns=10, rows=4), head=60, tail=80, answer=answers.append, clock=lambda: 0.0
    )
    for piece in pieces:
        output.feed(piece)
    screen, prompt, modes = output.screen, output.prompt(), output.modes
    return screen, prompt, modes, output.finish(), b"".join(answers)


@settings(deadline=None)
@given(anything, cuts)
def test_drawing_does_not_depend_on_chunk_boundaries(data: bytes, places: list[int]) -> None:
    whole = fed([data])
    assert fed(cut(data, places)) == whole
    assert fed([bytes([byte]) for byte in data]) == whole


@settings(deadline=None)
@given(anything, st.lists(st.tuples(st.integers(2, 12), st.integers(2, 6)), max_size=4))
def test_any_output_keeps_the_screen_valid(data: bytes, sizes: list[tuple[int, int]]) -> None:
    output = TerminalOutput(Terminal(columns=10, rows=4))
    columns, rows = 10, 4
    for columns, rows in [(10, 4), *sizes]:
        output.resize(Terminal(columns=columns, rows=rows))
        output.feed(data)
    screen = output.screen
    assert len(screen.rows) == rows
    assert 0 <= screen.cursor[0] < rows
    assert 0 <= screen.cursor[1] < columns
    for row in screen.rows:
        assert sum(map(width, row)) <= columns
        assert not [char for char in row if char < " " or "\x7f" <= char <= "\x9f" or char == "\uffff"]


HOSTILE = [
    b"\x1b[999999999S",
    b"\x1b[999999999T",
    b"\x1b[999999999L\x1b[99999M",
    b"x\x1b[999999999b",
    b"\x1b[999999999@\x1b[9999P",
    b"\x1b[999999999I\x1b[9999Z",
    b"\x1b[2J\x1b[999;999Hx",
    b"\x1b[?1049hx\x1b[2J\x1b[?1049l",
    b"\x1b]0;" + b"x" * 4000,
    b"\x1b]4;1;?\x07" * 40,
    b"\x1b[" + b"1;" * 120 + b"H",
    b"e" + "\u0301".encode() * 500,
    "\u0301".encode() * 500,
    b"\x1bc\x1b[!p\x1b7\x1b8",
    b"\x1bP+q544e;" + b"41;" * 500 + b"\x1b\\",
    b"\n",
    b"\xff",
]


@pytest.mark.parametrize("data", HOSTILE, ids=lambda data: repr(data[:12]))
def test_hostile_sequences_take_bounded_memory(data: bytes) -> None:
    tracemalloc.start()
    try:
        output = TerminalOutput(Terminal(columns=80, rows=24), answer=lambda _: None)
        piece = data * (4 * KB // len(data) + 1)
        for _ in range(4):
            output.feed(piece)
        output.screen  # noqa: B018 - it is drawn
        output.finish()
        assert tracemalloc.get_traced_memory()[1] < 12 * KB * KB
    finally:
        tracemalloc.stop()


def test_sequence_with_any_number_draws_at_most_a_screen() -> None:
    """The work of one sequence is bounded: a sequence draws and scrolls at most as much as the screen has."""
    for sequence in (
        b"S",
        b"T",
        b"L",
        b"M",
        b"@",
        b"P",
        b"X",
        b"b",
        b"I",
        b"Z",
        b"A",
        b"B",
        b"C",
        b"D",
        b"E",
        b"F",
    ):
        emulator = Emulator(Terminal(columns=20, rows=5))
        emulator.feed(b"x\x1b[99999999" + sequence, 0, 0)
        assert len(emulator.scrolled) <= 5
        assert len(emulator.rows) == 5
        assert all(len(row.cells) <= 20 for row in emulator.rows)


# Cells


def test_characters_taken_for_narrow_are_narrow() -> None:
    narrow = [
        chr(code)
        for code in range(0x20, 0x110000)
        if is_narrow(chr(code)) and code != 0x7F and not 0 <= code < 0x20
    ]
    assert len(narrow) > 8000
    assert [char for char in narrow if not "\ue000" <= char <= "\uf8ff" and wcwidth(char) != 1] == []


def test_marks_on_one_character_are_bounded() -> None:
    cells = Cells()
    _, laid = cells.lay("e" + "\u0301" * 1_000_000 + "x")
    assert len(laid) == 2
    assert cells.read(laid) == "e" + "\u0301" * 8 + "x"


def test_different_marks_are_bounded() -> None:
    cells = Cells()
    for code in range(0x4E00, 0x4E00 + 2 * CLUSTERS):
        cells.lay(chr(code) + "\u0301")
    _, laid = cells.lay("\u4e00\u0301\u9000\u0301")
    assert cells.read(laid) == "\u4e00\u0301\u9000"


def test_placeholder_characters_in_output_are_replaced() -> None:
    assert rows_of("a\uffffb\U00100000c".encode())[0] == "a\ufffdb\ufffdc"
