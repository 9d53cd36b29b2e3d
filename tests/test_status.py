"""The line that shows the progress of a command: its contents, and the free room on a terminal."""

from __future__ import annotations

import os
import re
import sys
import unicodedata

import pyte
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyshell.cli.printing import elapsed
from anyshell.cli.process.descriptors import DescriptorWriter
from anyshell.cli.terminal import drawing
from anyshell.cli.terminal.status import LAST_LINE_BYTES, Cursor, Printed, StatusLine
from anyshell.output.sequences import LONGEST_SEQUENCE

# # --- the free room --------------------------------------------------------------------------------------------

PIECES = [
    *(
        b"text",
        b"\n",
        b"\n",
        b"\n",
        b"\r",
        b"\t",
        b"\b",
        b"\a",
        b"\r\x1b[K",
        "日本".encode(),
        "é".encode(),
        b"\xff",
    ),
    *(
        b"\x1b[31m",
        b"\x1b[m",
        b"\x1b[0m",
        b"\x1b[1;44m",
        b"\x1b[K",
        b"\x1b[2K",
        b"x" * 79,
        b"x" * 80,
        b"\n" * 30,
    ),
    *(
        b"\x1b]0;title\x07",
        b"\x1b]2;t\x1b\\",
        b"\x1b(B",
        b"\x1b(0",
        b"\x1b[?25l",
        b"\x1b[?25h",
        b"\x1b[?2004h",
    ),
    *(
        b"\x1b[A",
        b"\x1b[3B",
        b"\x1b[5C",
        b"\x1b[H",
        b"\x1b[2J",
        b"\x1b[5;10r",
        b"\x1b[?1049h",
        b"\x1b[?1049l",
    ),
    *(
        b"\x1b7",
        b"\x1b8",
        b"\x1bM",
        b"\x1bD",
        b"\x1bc",
        b"\x0b",
        b"\x0c",
        b"\x0e",
        b"\x0f",
        b"\xc2\x9bA",
        b"\x1b",
        b"\x1b[",
    ),
]
"""Output of programs; each piece may be cut at any place."""


@given(st.lists(st.sampled_from(PIECES), max_size=12), st.integers(1, 7))
def test_cursor_is_free_only_at_the_beginning_of_an_empty_line(pieces: list[bytes], cut: int) -> None:
    """Another emulator tells the position of the cursor."""
    screen = pyte.Screen(80, 24)
    stream = pyte.ByteStream(screen)
    usual = screen.cursor.attrs
    cursor = Cursor()
    data = b"".join(pieces)
    for at in range(0, len(data), cut):
        piece = data[at : at + cut]
        cursor.feed(piece)
        stream.feed(piece.replace(b"\n", b"\r\n"))  # as a terminal does
        if cursor.is_free:
            assert screen.cursor.x == 0
            assert not any(line.strip() for line in screen.display[screen.cursor.y :])
            assert screen.cursor.attrs == usual
            assert not screen.cursor.hidden
            assert screen.margins is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"a\n",
        b"\x1b[1;31mred\x1b[0m\n",
        b"a\n\x1b[m",
        b"10%\r20%\r100%\n",
        b"\x1b]0;title\x07a\n",
        b"\x1b[?25l.\x1b[?25h\n",
        b"\x1b]8;;http://example.org\x1b\\link\x1b]8;;\x1b\\\n",
        "日本\n".encode(),
        b"\xff\n",
    ],
)
def test_cursor_is_free_after_a_whole_line(data: bytes) -> None:
    cursor = Cursor()
    cursor.feed(data)
    assert cursor.is_free


@pytest.mark.parametrize(
    "data",
    [
        b"name? ",
        b"a\nb",
        b"10%\r",
        b"a\n\t",
        b"\x1b[31m\n",
        b"a\n\x1b",
        b"a\n\x1b]0;begun",
        b"a\n\xe6\x97",
        b"\x1b[?25l\n",
        b"\x1b[?1049h\n",
        b"\x1b[2A\n",
        b"\x1b]8;;http://example.org\x1b\\link\n",
        b"\x0b\n",
        b"\xc2\x9b2A\n",
    ],
)
def test_cursor_is_not_free_behind_text_or_with_a_mode_on(data: bytes) -> None:
    whole, single = Cursor(), Cursor()
    whole.feed(data)
    for at in range(len(data)):
        single.feed(data[at : at + 1])
    assert (whole.is_free, single.is_free) == (False, False)


def test_status_line_stays_away_after_a_cursor_movement() -> None:
    cursor = Cursor()
    cursor.feed(b"\x1b[2A\n")
    cursor.feed(b"\x1b[m\na\n")
    assert not cursor.is_free


def test_unfinished_sequence_is_held_within_a_bound() -> None:
    cursor = Cursor()
    for _ in range(100):
        cursor.feed(b"\x1b]0;" + b"a" * 1000)
    assert len(cursor._held) <= LONGEST_SEQUENCE


# # --- the contents ---------------------------------------------------------------------------------------------


def test_status_line_shows_time_amount_and_last_line() -> None:
    printed = Printed()
    assert printed.text(2.9) == "2 s  0 lines  0 B"
    printed.feed(b"\x1b[32mone\x1b[m\n", "stdout")
    assert printed.text(61) == "1 min 01 s  1 line  12 B  one"
    printed.feed(b"10%\r90%", "stderr")
    assert printed.text(3661) == "1 h 01 min 01 s  1 line  19 B  90%"
    printed.feed(b"\n\n  \n", "stderr")
    assert printed.last_line == "90%"
    printed.feed(b"x\n" * 1000, "stdout")
    assert printed.text(2) == "2 s  1,004 lines  2.0 KiB  x"


def test_a_flood_takes_no_memory() -> None:
    printed = Printed()
    for size in (1, LAST_LINE_BYTES - 1, LAST_LINE_BYTES, 1_000_000):
        printed.feed(b"a" * size, "stdout")
        assert len(printed._ends["stdout"]) <= LAST_LINE_BYTES
    assert printed.last_line == "a" * LAST_LINE_BYTES


def test_incomplete_character_is_not_shown() -> None:
    printed = Printed()
    printed.feed("é日".encode()[:-1], "stdout")
    assert printed.last_line == "é"


@pytest.mark.parametrize(
    ("text", "room", "shown"),
    [
        ("abc", 3, "abc"),
        ("abcd", 3, "a…"),  # the ellipsis has two columns on some terminals
        ("a\tb", 5, "a b"),
        ("日本語", 6, "日本語"),
        ("日本語", 5, "日…"),
        ("a\x1b[2Jb", 20, r"a\x1b[2Jb"),
        ("a\nb\u202e", 20, r"a\x0ab\u202e"),
        ("e\u0301e\u0301", 2, "e\u0301e\u0301"),
        ("±±", 3, "…"),
        ("ab", 1, ""),
    ],
)
def test_drawn_text_fits_the_room(text: str, room: int, shown: str) -> None:
    assert drawing.fit(text, room) == shown


@given(st.text(max_size=30), st.integers(1, 40))
def test_any_text_fits_without_control_characters(text: str, room: int) -> None:
    shown = drawing.fit(text, room)
    assert drawing.widest(shown) <= room
    assert not any(unicodedata.category(char) in ("Cc", "Cf", "Zl", "Zp", "Cs") for char in shown)


@pytest.mark.parametrize(
    ("seconds", "said"), [(0, "0 s"), (59.99, "59 s"), (60, "1 min 00 s"), (36_000, "10 h 00 min 00 s")]
)
def test_elapsed_time_is_formatted_for_a_person(seconds: float, said: str) -> None:
    assert elapsed(seconds) == said


@pytest.mark.parametrize(("value", "colour"), [(None, True), ("", True), ("1", False)])
def test_no_color_is_heeded(value: str | None, colour: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    if value is not None:
        monkeypatch.setenv("NO_COLOR", value)
    assert drawing.has_colour() is colour


# --- the line itself ------------------------------------------------------------------------------------------


class Pipe:
    """A pipe to draw on that keeps all bytes, with a clock for slow writers."""

    def __init__(self) -> None:
        self.end, self.fd = os.pipe()
        self.seconds = 0.0

    def clock(self) -> float:
        return self.seconds

    def read(self) -> bytes:
        """The drawn bytes."""
        os.close(self.fd)
        with open(self.end, "rb") as file:
            return file.read()


def screen_of(data: bytes) -> list[str]:
    screen = pyte.Screen(80, 5)
    pyte.ByteStream(screen).feed(data.replace(b"\n", b"\r\n"))
    return [line.rstrip() for line in screen.display]


@pytest.mark.anyio
async def test_status_line_is_drawn_during_a_wait_and_removed() -> None:
    pipe = Pipe()
    status = StatusLine(pipe.fd, clock=pipe.clock)
    writer = DescriptorWriter(pipe.fd)
    for at, data in (
        (1.9, b"one\n"),
        (2.0, b"two\n"),
        (2.01, b"three\n"),
        (2.06, b"four"),
        (3, b"\n"),
        (4, b""),
    ):
        pipe.seconds = at
        status.count(data, "stdout")
        await status.write(writer, data)
    await status.close()
    writer.close()
    data = pipe.read()
    assert [line.strip() for line in re.findall(r"\d s  \d lines[^\r\x1b]*", data.decode())] == [
        "2 s  2 lines  8 B  two",  # not too early, not twice at once, and not on a line begun by the command
        "3 s  4 lines  19 B  four",
        "4 s  4 lines  19 B  four",
    ]
    assert screen_of(data) == ["one", "two", "three", "four", ""]


@pytest.mark.skipif(
    sys.platform == "win32", reason="a console may know no sequences: there it is drawn on the line itself"
)
@pytest.mark.anyio
@pytest.mark.parametrize("before", [b"", b"Deploying... ", b"\n" * 4, b"\n" * 4 + b"Deploying... "])
@pytest.mark.parametrize("output", [b"", b"one", b"one\n", b"one\ntwo\n"])
async def test_line_begun_by_the_caller_is_left_alone(before: bytes, output: bytes) -> None:
    pipe = Pipe()
    status = StatusLine(pipe.fd, clock=pipe.clock)
    writer = DescriptorWriter(pipe.fd)
    for at, data in ((3, b""), (5, b""), (7, output), (9, b"")):
        pipe.seconds = at
        status.count(data, "stdout")
        await status.write(writer, data)
    await status.close()
    writer.close()
    data = pipe.read()
    assert b"5 s  0 lines" in data
    with_line, without = pyte.HistoryScreen(80, 5), pyte.HistoryScreen(80, 5)
    pyte.ByteStream(with_line).feed((before + data).replace(b"\n", b"\r\n"))
    pyte.ByteStream(without).feed((before + output).replace(b"\n", b"\r\n"))

    def lines(screen: pyte.HistoryScreen) -> list[str]:
        above = ["".join(row[x].data for x in range(80)) for row in screen.history.top]
        return "\n".join(line.rstrip() for line in [*above, *screen.display]).rstrip("\n").split("\n")

    assert lines(with_line) == lines(without)
    assert with_line.cursor.x == without.cursor.x
    rows = [screen.cursor.y + len(screen.history.top) for screen in (with_line, without)]
    assert rows[0] == rows[1]


@pytest.mark.anyio
async def test_status_line_is_hidden_during_a_question() -> None:
    pipe = Pipe()
    status = StatusLine(pipe.fd, clock=pipe.clock)
    writer = DescriptorWriter(pipe.fd)
    pipe.seconds = 3
    await status.write(writer, b"one\n")
    async with status.hidden():
        await writer.write(b"sure? ")
        pipe.seconds = 4
        await status.write(writer, b"two\n")
    await status.close()
    writer.close()
    data = pipe.read()
    assert data.count(b" lines") == 1
    assert screen_of(data)[:2] == ["one", "sure? two"]


@pytest.mark.anyio
async def test_output_to_another_terminal_keeps_the_status_line() -> None:
    here, there = Pipe(), Pipe()
    status = StatusLine(here.fd, clock=here.clock)
    ours, other = DescriptorWriter(here.fd), DescriptorWriter(there.fd)
    here.seconds = 3
    await status.write(ours, b"")
    await status.write(other, b"one\n", here=False)
    await status.close()
    ours.close()
    other.close()
    assert there.read() == b"one\n"
    data = here.read()
    assert b"3 s  0 lines" in data
    assert screen_of(data) == [""] * 5
