"""Output of a terminal: its text, its counts, and the answers to queries."""

from __future__ import annotations

import re
import tracemalloc
from itertools import pairwise
from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from anyshell import Terminal
from anyshell.output import TerminalOutput
from anyshell.output.screen import backlog, emulator, terminal
from anyshell.output.screen.backlog import HELD, PIECE, ROW_WORK, SKETCHED
from anyshell.output.screen.backlog import pieces as pieces_of
from anyshell.output.screen.rows import Row
from anyshell.output.screen.terminal import DRAWN_PER_SECOND, LONGEST_ANSWER

from .test_builder import MARKER, FakeStore
from .test_emulator import anything

if TYPE_CHECKING:
    from collections.abc import Iterable

    from anyshell.output import ArtifactStore
    from anyshell.types import Output

KB = 1024
MB = 1024 * 1024


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def build(
    data: bytes | Iterable[bytes],
    *,
    head: int = 20 * KB,
    tail: int = 30 * KB,
    max_line: int = 2000,
    columns: int = 80,
) -> Output:
    output = TerminalOutput(
        Terminal(columns=columns, rows=24), head=head, tail=tail, max_line=max_line, clock=Clock()
    )
    for piece in [data] if isinstance(data, bytes) else data:
        output.feed(piece)
    return output.finish()


def pieces(data: bytes, size: int = 4 * KB) -> Iterable[bytes]:
    return (data[at : at + size] for at in range(0, len(data), size))


# The text


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", ""),
        (b"hello\r\n", "hello\n"),
        (b"hello", "hello"),
        (b"$ ", "$"),
        (b"one\r\n\r\n\r\n", "one\n"),
        (b"\r\none  \r\n", "\none\n"),
        (b"x" * 200 + b"\r\nnext\r\n", "x" * 200 + "\nnext\n"),
        (b"x" * 80 + b"\r\nnext\r\n", "x" * 80 + "\nnext\n"),
        (b"x" * 80 + b"y\x1b[2K\rnext\r\n", "x" * 80 + "\nnext\n"),
        (b"a\tb\r\n", "a       b\n"),
        (b"abcdef\rxy\r\n", "xycdef\n"),
        ("\x1b[1m漢字\x1b[m e\u0301\r\n".encode(), "漢字 e\u0301\n"),
        (("漢" * 50 + "\r\n").encode(), "漢" * 50 + "\n"),
        (("x" + "漢" * 50 + "\r\n").encode(), "x" + "漢" * 50 + "\n"),
        (b"old\x1b[2J\x1b[Hnew\r\n", "new\n"),
        (b"a\x1b[", "a["),
    ],
)
def test_text_matches_the_visible_output(data: bytes, text: str) -> None:
    output = build(data)
    assert output.text == text
    assert (output.total_bytes, output.total_lines) == (len(data), data.count(b"\n"))
    assert (output.omitted_bytes, output.omitted_lines, output.cut_lines, output.skipped_bytes) == (
        0,
        0,
        0,
        0,
    )


def test_lines_scrolled_away_are_text() -> None:
    data = b"".join(b"line %d\r\n" % number for number in range(100))
    assert build(data).text == "".join(f"line {number}\n" for number in range(100))


def test_lines_scrolled_above_a_status_row_are_text() -> None:
    """apt-get draws this way: its bar has the last row for itself."""
    data = b"\x1b[1;23r\x1b[1;1H" + b"".join(
        b"Unpacking %d\r\n\x1b7\x1b[24;1HProgress: %d%%\x1b8" % (number, number) for number in range(100)
    )
    data += b"\x1b7\x1b[1;24r\x1b[24;1H\x1b[K\x1b8done\r\n"
    assert build(data).text == "".join(f"Unpacking {number}\n" for number in range(100)) + "done\n"


BARS = {
    "tqdm": lambda at: f"\r{at // 100:3}%|{'█' * (at // 500):20}| {at}/10000".encode(),
    "pip": lambda at: (
        b"\r\x1b[2K   \x1b[90m" + "━".encode() * (at // 250) + b"\x1b[0m \x1b[32m%d/10000\x1b[0m" % at
    ),
    "npm": lambda at: b"\x1b[1G\x1b[0K[%s] %d" % (b"#" * (at // 500), at),
    "docker": lambda at: b"\x1b[2A\r\x1b[2Kone: %d\r\n\x1b[2Ktwo: %d\r\n" % (at, at),
}


@pytest.mark.parametrize("name", BARS)
def test_a_bar_of_ten_thousand_updates_is_a_line_or_two(name: str) -> None:
    updates = b"".join(map(BARS[name], range(10_000)))
    data = b"start\r\n" + (b"\r\n\r\n" if name == "docker" else b"") + updates
    data += b"done\r\n" if name == "docker" else b"\r\ndone\r\n"
    lines = build(pieces(data)).text.split("\n")
    assert lines[0] == "start"
    assert all("9999" in line for line in lines[1:-2])
    assert lines[-2:] == ["done", ""]
    assert len(lines) == (5 if name == "docker" else 4)


def test_the_alternate_screen_leaves_its_last_frame_and_no_trace() -> None:
    output = build(
        b"before\r\n\x1b[?1049h\x1b[2J\x1b[Hfirst\x1b[2J\x1b[Hsecond\r\n  frame\x1b[?1049lafter\r\n"
    )
    assert output.text == "before\nafter\n"
    assert output.alternate == "second\n  frame"


def test_a_program_can_end_in_the_alternate_screen() -> None:
    output = build(b"before\r\n\x1b[?1049h\x1b[Hframe")
    assert (output.text, output.alternate) == ("before\n", "frame")


def test_frame_wiped_before_its_end_is_still_the_last() -> None:
    assert build(b"\x1b[?1049h\x1b[Hframe\x1b[H\x1b[J\x1b[?1049l").alternate == "frame"


def test_output_without_an_alternate_screen_has_no_frame() -> None:
    assert build(b"text").alternate is None
    assert build(b"\x1b[?1049h\x1b[?1049l").alternate == ""


# Bounds


def test_counts_of_plain_text_match_its_bytes() -> None:
    data = b"".join(b"%06d\r\n" % number for number in range(10_000))
    for size in (len(data), 4096, 100, 7):
        output = build(pieces(data, size), head=70, tail=140)
        assert output.text.startswith(
            "".join(f"{number:06}\n" for number in range(10)) + "[... 9,970 lines, 79,760 bytes"
        )
        assert output.text.endswith("...]\n" + "".join(f"{number:06}\n" for number in range(9980, 10_000)))
        assert (output.omitted_lines, output.omitted_bytes) == (9970, 9970 * 8)
        assert (output.total_lines, output.total_bytes) == (10_000, 80_000)


def test_long_line_is_cut_with_a_notice() -> None:
    output = build(b"x" * 5000 + b"\r\nnext\r\n")
    assert output.text == "x" * 2000 + " [line cut: 3,000 more bytes]\nnext\n"
    assert (output.omitted_bytes, output.cut_lines) == (3000, 1)


def test_artifact_has_the_whole_raw_output() -> None:
    store = FakeStore()
    output = TerminalOutput(Terminal(), artifacts=cast("ArtifactStore", store))
    data = b"\x1b[31m\xff some line\r\n" * 10_000
    for piece in pieces(data):
        output.feed(piece)
    made = output.finish()
    assert made.artifact is not None
    assert output.finish() is made
    assert [bytes(writer.data) for writer in store.writers] == [data]


@pytest.mark.parametrize(("states", "kept"), [(100, []), (10_000, ["finished"])])
def test_bar_with_more_bytes_than_the_text_limit_is_kept(states: int, kept: list[str]) -> None:
    store = FakeStore()
    output = TerminalOutput(Terminal(), artifacts=cast("ArtifactStore", store))
    for piece in pieces(b"".join(map(BARS["tqdm"], range(states)))):
        output.feed(piece)
    assert (output.finish().artifact is not None) == bool(kept)
    assert not output.finish().truncated
    assert [writer.state for writer in store.writers] == kept


def test_an_abandoned_terminal_leaves_nothing() -> None:
    store = FakeStore()
    output = TerminalOutput(Terminal(), artifacts=cast("ArtifactStore", store))
    output.feed(b"x\r\n" * 100_000)
    output.close()
    assert [writer.state for writer in store.writers] == ["discarded"]


@settings(deadline=None)
@given(anything, st.tuples(st.integers(0, 60), st.integers(0, 60), st.integers(1, 40)))
@example(b"\x1b[\n2", (0, 0, 1))  # the unfinished sequence has a line feed
def test_any_output_is_bounded_and_counted(data: bytes, limit: tuple[int, int, int]) -> None:
    head, tail, max_line = limit
    data *= 5
    output = build(data, head=head, tail=tail, max_line=max_line, columns=10)
    shown = re.sub(r" \[line cut: [\d,]+ more bytes?\]", "", MARKER.sub("", output.text))
    assert len(shown.encode()) <= head + tail + 1
    assert all(len(line) <= max_line for line in shown.split("\n"))
    assert (output.total_bytes, output.total_lines) == (len(data), data.count(b"\n"))
    assert 0 <= output.omitted_bytes <= len(data)
    assert 0 <= output.omitted_lines <= output.total_lines
    assert output.truncated == bool(MARKER.search(output.text) or output.cut_lines)


LINES = [
    b"a plain line\r\n",
    b"Traceback (most recent call last):\r\n",
    b"an error: of this one\r\n" + b"    at x\r\n" * 3,
    b"wraps and wraps and wraps again\r\n",
    b"\r\n",
    b"x\r\n" * 12,
    b"no end yet",
    "\u65e5\u672c\u8a9e\r\n".encode(),
    b"\xff\xc2\x1b[31mred\x1b[m\r\n",
    b"\x1b[T",  # blank rows at the top, which no line feed has ended
    b"\x1b[3L",
    b"\x1b[2S",
    b"\x1b[?2S",
    b"\x1b[1;2S",
    b"\x1b[H",
    b"\x1b[3;2Hplaced",
    b"\x1b[99;1Hat the bottom",
    b"an index\x1bD",
    b"a next line\x1bE",
    b"\xc2\x85",
    b"a tab\x0b",
    b"\x1b]0;a tab in a title\x0b\x07",
    b"\x1bPin a string\x0c\x1b\\",
    b"\x1b[2\n;1H",
    b"\x1b[2J",
    b"\x1bM",
    b"\x1b[?1049h",
    b"\x1b[?1049l",
    b"\x1b[2;4r",
    b"\x1b[r",
]
HERE = re.compile(r"\[\.\.\. (?:([\d,]+) (?:similar )?lines?, )?([\d,]+) bytes? left out here \.\.\.\]")


@settings(deadline=None, max_examples=200)
@given(
    st.lists(
        st.tuples(st.sampled_from(LINES), st.sampled_from([1, 1, 2, 9, 20])).map(
            lambda many: many[0] * many[1]
        ),
        max_size=12,
    ).map(b"".join),
    st.lists(st.integers(0, 3000), max_size=9),
    st.tuples(st.integers(0, 60), st.integers(0, 300), st.integers(0, 200)),
)
@example(b"x\r\n" * 20 + b"\x1b[T" * 2 + b"x\r\n" * 32, [90], (40, 60, 0))
@example(b"\x1b]0;a tab in a title\x0b\x07" + b"a tab\x0b" * 10, [48], (40, 60, 0))
@example(b"a plain line\r\n\x1b[2S" + b"a plain line\r\n" * 9 + b"\x1b[2S", [99], (40, 60, 0))
@example(b"wraps and wraps\x1b[3;2H" + b"and wraps " * 12, [35], (40, 60, 0))
@example(b"no end yet" * 9 + b"\x1b[3L" + b"a plain line\r\n" * 20, [], (0, 78, 1))
@example(b"an error: x\r\nand its line\r\n" * 9 + b"\x1b[31mx\x1b[m\r\n" * 99, [9], (40, 300, 200))
def test_counts_and_ranges_do_not_depend_on_cuts(
    data: bytes, cuts: list[int], limits: tuple[int, int, int]
) -> None:
    def made(places: list[int]) -> Output:
        head, tail, excerpts = limits
        output = TerminalOutput(
            Terminal(columns=20, rows=5), head=head, tail=tail, excerpts=excerpts, clock=Clock()
        )
        for start, end in pairwise([0, *sorted(min(place, len(data)) for place in places), len(data)]):
            output.feed(data[start:end])
        return output.finish()

    output = made([])
    assert made(cuts) == output
    ranges = [each for each in (output.head_range, *output.excerpts, output.tail_range) if each is not None]
    assert all(first <= last <= output.total_lines + 1 for first, last in ranges)
    assert all(one[1] <= other[0] for one, other in pairwise(ranges))
    gaps = [
        (int((lines or "0").replace(",", "")), int(size.replace(",", "")))
        for lines, size in HERE.findall(output.text)
    ]
    if gaps:
        assert sum(lines for lines, _ in gaps) == output.omitted_lines
        assert max(sum(size for _, size in gaps), 1) == output.omitted_bytes


# Output too fast to be drawn


def cycle(number: int) -> bytes:
    return b"\x1b[2A\r\x1b[2Klayer one: %02d\r\n\x1b[2Klayer two: %02d\r\n" % (number % 97, number % 89)


def flood(size: int, make: bytes) -> Iterable[bytes]:
    """The given number of bytes of a repeated text, cut at any place."""
    whole = make * (256 * KB // len(make) + 2)
    at = 0
    while at < size:
        start = at % len(make)
        yield whole[start : start + min(60_000, size - at)]
        at += min(60_000, size - at)


@pytest.mark.parametrize("before", [b"start\r\n\r\n\r\n", b"start\r\n" * 40])
def test_end_of_fifty_megabytes_of_a_bar_is_exact(before: bytes) -> None:
    make = b"".join(map(cycle, range(97 * 89)))
    size = 50 * MB // len(make) * len(make)
    end = b"done\r\nand more\r\n"
    output = build((*[before], *flood(size, make), end))
    assert MARKER.sub("", output.text) == build(before + make + end).text
    assert output.truncated
    assert output.omitted_bytes >= output.skipped_bytes
    assert output.text.endswith("layer one: 96\nlayer two: 88\ndone\nand more\n")
    assert size - DRAWN_PER_SECOND - HELD - SKETCHED - 2 * 60_000 <= output.skipped_bytes < size
    assert output.total_bytes == len(before) + size + len(end)


def test_fifty_megabytes_of_a_bar_on_one_line_are_drawn_whole() -> None:
    make = b"".join(b"\r\x1b[K%d%% of something that is going on" % number for number in range(1000))
    size = 50 * MB // len(make) * len(make)
    output = build((b"start\r\n", *flood(size, make), b"\r\nthe text\r\n"))
    assert output.text == "start\n999% of something that is going on\nthe text\n"
    assert output.skipped_bytes == 0


@pytest.fixture
def little_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "DRAWN_PER_SECOND", 4 * KB)
    monkeypatch.setattr(backlog, "HELD", 4 * KB)
    monkeypatch.setattr(backlog, "SKETCHED", KB)


def too_much() -> bytes:
    return b"".join(map(cycle, range((DRAWN_PER_SECOND + 2 * HELD) // len(cycle(10)))))


@pytest.mark.parametrize(
    ("state", "then", "row"),
    [
        (b"\x1b[?1049h", b"\x1b[Hx", "x"),
        (b"\x1b[5;9r\x1b[?6h", b"\x1b[1;1Hx\x1b[?6l\x1b[H", ""),
        (b"\x1b(0", b"\x1b[Hq\x1b(B", "─"),
        (b"\x0e\x1b)0", b"\x1b[Hq\x0f", "─"),
        (b"\x1b[4h", b"\x1b[Hab\rc", "cab"),
        (b"\x1b[?7l", b"\x1b[H" + b"x" * 99, "x" * 80),
    ],
)
def test_modes_set_in_skipped_output_are_known(state: bytes, then: bytes, row: str) -> None:
    output = TerminalOutput(Terminal(), clock=Clock())
    for piece in pieces(too_much() + b"\x1b[?1h\x1b[?2004h\x1b[>1u" + state + too_much()):
        output.feed(piece)
    output.feed(b"\x1b[2J" + then)
    screen = output.screen
    assert screen.rows[0] == row
    assert output.modes.application_cursor
    assert output.modes.bracketed_paste
    assert screen.alternate == (state == b"\x1b[?1049h") == output.alternate
    assert output.modes.keyboard == (0 if screen.alternate else 1)  # each screen has its own modes
    assert output.finish().skipped_bytes > 0


def test_upward_moves_in_skipped_output_count_in_any_notation() -> None:
    output = TerminalOutput(Terminal(), clock=Clock())
    for piece in pieces(b"\x1b[Ha\r\n\x1b[000000001A" + b"a\r\n\x1b[000000001A" * 200_000):
        output.feed(piece)
    output.feed(b"here")
    assert output.screen.cursor[0] == 0
    assert output.finish().skipped_bytes > 0


def test_alternate_screen_is_known_before_drawing() -> None:
    output = TerminalOutput(Terminal(), clock=Clock())
    for piece in pieces(too_much()):
        output.feed(piece)
    output.feed(b"\x1b[?1049h")
    assert output.alternate
    output.feed(b"\x1b[?25;1049l")
    assert not output.alternate
    output.feed(b"\x1b[?0000001049h")
    assert output.alternate


def test_waiting_output_is_drawn_on_a_look() -> None:
    output = TerminalOutput(Terminal(), clock=Clock())
    for piece in pieces(b"\r\n\r\n" + too_much()):
        output.feed(piece)
    output.feed(b"here")
    assert output.prompt() == "here"


def test_a_second_later_drawing_goes_on() -> None:
    clock = Clock()
    output = TerminalOutput(Terminal(), clock=clock)
    cycles = b"".join(map(cycle, range(1000)))
    for _ in range(100):
        clock.now += 0.05
        output.feed(cycles)
    assert output.finish().skipped_bytes == 0


def test_memory_does_not_grow_with_waiting_output() -> None:
    make = b"".join(map(cycle, range(1000)))
    tracemalloc.start()
    try:
        output = TerminalOutput(Terminal(), clock=Clock())
        for piece in flood(6 * MB, make):
            output.feed(piece)
        output.finish()
        assert tracemalloc.get_traced_memory()[1] < 8 * MB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "data",
    [
        b"\x1b[24S",
        b"\x1b[999S",
        b"\x1b[H\x1b[999L",
        b"\x1b[999T\x1b[999M",
        b"x\x1b[2J",
        b"\x1b[?1049hx\x1b[2J\x1b[?1049l",
        b"\x1b[?47h\x1b[?25;47l",
        b"\x1bc",
        b"\x1b[H\x1bM",
        "\u4e16\x1b[999b".encode(),
        b"\x1bD",
        b"\x1b[H\n",
        b"\xc2\x9b999S\xc2\x85",
        b"\x1b[;999S\x1b[999;1T",
        b"\x1b[0000000999S",
    ],
    ids=repr,
)
@pytest.mark.parametrize("first", [b"", b"\x1b[H" * 4000], ids=["at once", "waiting"])
@pytest.mark.usefixtures("little_is_drawn")
def test_expensive_sequences_are_bounded_by_work(
    data: bytes, first: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new rows and the scrolled rows are counted."""
    rows = 0

    class CountedRow(Row):
        __slots__ = ()

        def __init__(self) -> None:
            nonlocal rows
            rows += 1
            super().__init__()

    monkeypatch.setattr(emulator, "Row", CountedRow)
    output = TerminalOutput(Terminal(columns=80, rows=200), clock=Clock())
    output.feed(first)
    rows = 0
    tracemalloc.start()
    try:
        output.feed(data * (32 * KB // len(data)))
        output.screen  # noqa: B018 - it is drawn
        made, held = rows, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # Two of each row: those of both screens; and the last piece that fits may be drawn as well.
    assert made <= 2 * (9 * KB + 2 * PIECE) // ROW_WORK
    assert held < 4 * MB
    output.close()


def test_pieces_have_bounded_work_and_cover_the_output() -> None:
    data = b"text\r\n\x1b[200S\x1b[2J\x1b[?1049h\x1b]0;\xc2\x9bno\x07" * 2000
    cut = [*pieces_of(data, 7, 3, emulator.Emulator(Terminal(rows=200)))]
    assert b"".join(piece.data for piece in cut) == data
    assert len(cut) > 100
    assert max(piece.work for piece in cut) <= PIECE + 300 * ROW_WORK
    for piece in cut:
        before = data[: piece.at - 7]
        assert (piece.at, piece.lines) == (7 + len(before), 3 + before.count(b"\n"))


def test_tabs_end_at_the_margin() -> None:
    for stops in (b"", b"\x1b[3g\x1b[7G\x1bH"):
        output = TerminalOutput(Terminal(columns=1000, rows=2), clock=Clock())
        output.feed(stops + b"\r\x1b[999I" * 30_000 + b"x\x1b[999Zy")
        assert output.screen.rows[0] == "y" + " " * 998 + "x"


def test_skipped_lines_are_reported() -> None:
    store = FakeStore()
    output = TerminalOutput(Terminal(), artifacts=cast("ArtifactStore", store), clock=Clock())
    output.feed(b"one\r\n" * 30)
    layers = too_much()
    output.feed(layers + b"\r\nan error\r\n\r\n\r\n" + layers)
    end = b"\x1b[2J\x1b[Hdone\r\n"
    output.feed(end)
    result = output.finish()
    assert result.truncated
    assert "an error" not in result.text
    assert MARKER.sub("", result.text) == "one\n" * 7 + "done\n"
    assert result.text.startswith("one\n" * 7 + "[... ")
    assert len(MARKER.findall(result.text)) == 1
    assert result.skipped_bytes > HELD
    assert result.skipped_bytes <= result.omitted_bytes <= result.total_bytes
    assert layers.count(b"\n") < result.omitted_lines <= result.total_lines
    assert result.artifact is not None


@pytest.mark.usefixtures("little_is_drawn")
def test_one_marker_stands_for_all_gaps_and_omitted_text() -> None:
    for head, tail in ((20 * KB, 30 * KB), (50, 30 * KB), (0, 200)):
        clock = Clock()
        output = TerminalOutput(Terminal(rows=5), head=head, tail=tail, clock=clock)
        for number in range(3):
            clock.now += 10
            output.feed(b"".join(b"%d: line %d\r\n" % (number, line) for line in range(20)))
            assert f"{number}: line 19" in output.screen.rows
            for piece in pieces(b"".join(map(cycle, range(1000)))):
                output.feed(piece)
            assert output.screen.cursor[0] == 4
        output.feed(b"".join(b"the end %d\r\n" % line for line in range(8)))
        seen = output.lines()
        text = output.finish().text
        before, marker, after = text.partition(MARKER.findall(text)[0])
        assert marker
        assert "1: line" not in text
        assert before == "".join(f"0: line {line}\n" for line in range(20))[: len(before)]
        assert after.endswith("".join(f"the end {line}\n" for line in range(8)))
        assert len(before.encode()) + len(after.encode()) <= head + tail + 1
        if tail > 200:
            assert "1: line 3" in seen.texts, "a reader by lines has them all the same"


@pytest.mark.parametrize(
    "line",
    [
        b"\x1b[31mERR\x1b(B\x1b[m line\r\n",
        b"\x1b]8;;file:///x\x1b\\file\x1b]8;;\x1b\\\r\n",
        b"\x1b]0;title\x07line\r\n",
        b"\x1b[?25l\rline\x1b[K\x1b[?25h\r\n",
        b"\x1b)0line\x1b=\x1b>\r\n",
    ],
)
@pytest.mark.usefixtures("little_is_drawn")
def test_lines_with_harmless_sequences_are_never_skipped(line: bytes) -> None:
    count = 200 * KB // len(line)
    output = build(pieces(line * count))
    assert output.skipped_bytes == 0
    assert MARKER.sub("", output.text).count("\n") + output.omitted_lines == count


@pytest.mark.parametrize(
    "line", [b"a line\x1bE", b"a line\xc2\x85", b"\ra line\x1bD", b"\x1b[24;1Ha line\x1b[S", b"\ra line\x0b"]
)
def test_omitted_bytes_of_lines_without_line_feeds_are_counted(line: bytes) -> None:
    output = build([line * 5000], head=200, tail=200)
    assert output.omitted_lines == output.total_lines == 0
    shown = MARKER.sub("", output.text).count("a line")
    assert abs(output.omitted_bytes - (5000 - shown) * len(line)) <= 25 * len(line)


def test_waiting_full_reset_leaves_the_alternate_screen() -> None:
    output = TerminalOutput(Terminal(), clock=Clock())
    output.feed(b"\x1b[H" * 400_000)
    output.feed(b"\x1b[?1049hframe")
    assert output.alternate
    output.feed(b"\x1bc$ ")
    assert not output.alternate
    assert not output.screen.alternate


# Answers


def answers(*data: bytes) -> bytes:
    given: list[bytes] = []
    output = TerminalOutput(Terminal(), answer=given.append, clock=Clock())
    for piece in data:
        output.feed(piece)
    return b"".join(given)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (b"\x1b[c", b"\x1b[?62;22c"),
        (b"\x1b[0c", b"\x1b[?62;22c"),
        (b"\x1bZ", b"\x1b[?62;22c"),
        ("\x9bc".encode(), b"\x1b[?62;22c"),
        (b"\x1b[>c", b"\x1b[>0;0;0c"),
        (b"\x1b[=c", b"\x1bP!|00000000\x1b\\"),
        (b"\x1b[>q", b"\x1bP>|anyshell\x1b\\"),
        (b"\x1b[5n", b"\x1b[0n"),
        (b"ab\r\nc\x1b[6n", b"\x1b[2;2R"),
        (b"ab\x1b[?6n", b"\x1b[?1;3R"),
        (b"\x1b[3;9r\x1b[?6h\x1b[2;1H\x1b[6n", b"\x1b[2;1R"),
        (b"x" * 80 + b"\x1b[6n", b"\x1b[1;80R"),
        (b"\x1b[?996n", b"\x1b[?997;1n"),
        (b"\x1b[?4m", b"\x1b[>4;0m"),
        (b"\x1b]10;?\x07", b"\x1b]10;rgb:ffff/ffff/ffff\x07"),
        (b"\x1b]11;?\x1b\\", b"\x1b]11;rgb:0000/0000/0000\x1b\\"),
        (b"\x1b]10;?;?\x07", b"\x1b]10;rgb:ffff/ffff/ffff\x07\x1b]11;rgb:0000/0000/0000\x07"),
        (b"\x1b]4;1;?;255;?\x07", b"\x1b]4;1;rgb:cdcd/0000/0000\x07\x1b]4;255;rgb:eeee/eeee/eeee\x07"),
        (b"\x1b[?25$p\x1b[?25l\x1b[?25$p", b"\x1b[?25;1$y\x1b[?25;2$y"),
        (b"\x1b[?2026$p\x1b[4$p", b"\x1b[?2026;0$y\x1b[4;2$y"),
        (b"\x1b[3;7r\x1bP$qr\x1b\\", b"\x1bP1$r3;7r\x1b\\"),
        (b"\x1bP$qm\x1b\\", b"\x1bP0$r\x1b\\"),
        (b"\x1bP+q544e\x1b\\", b"\x1bP1+r544e=787465726d2d323536636f6c6f72\x1b\\"),
        (b"\x1bP+q6b64\x1b\\", b"\x1bP0+r\x1b\\"),
        (b"\x1b[14t\x1b[16t\x1b[18t", b"\x1b[4;384;640t\x1b[6;16;8t\x1b[8;24;80t"),
        (b"\x1b[x", b"\x1b[2;1;1;128;128;1;0x"),
        (b"\x1b[?u\x1b[c", b"\x1b[?0u\x1b[?62;22c"),
        # queries without an answer, as in xterm
        (b"\x05\x1b_Gi=1,a=q;AAAA\x1b\\\x1b]52;c;?\x07", b""),
        (b"\x1b[ q\x1b[22;0;0t\x1b[>4;2m\x1b[>1u\x1b[<u", b""),
    ],
)
def test_queries_of_a_program_are_answered(question: bytes, answer: bytes) -> None:
    assert answers(question) == answer
    assert answers(*(bytes([byte]) for byte in question)) == answer


def test_answers_come_in_the_order_of_the_questions() -> None:
    assert answers(b"a\x1b[6n\x1b[cb\x1b[6n") == b"\x1b[1;2R\x1b[?62;22c\x1b[1;3R"


@pytest.mark.parametrize(
    "sequence",
    [
        b"\x1b]0;rm -rf ~\x07\x1b[21t\x1b[20t",
        b"\x1bP$qrm -rf ~\x1b\\",
        b"\x1bP+q726d202d7266\x1b\\",
        b"\x1b]10;rm -rf ~\x07\x1b]10;?\x07",
        b"\x1b]4;1;rm -rf ~\x07\x1b]4;1;?\x07",
        b"\x1b]52;c;cm0gLXJmIH4=\x07\x1b]52;c;?\x07",
    ],
)
def test_printed_text_is_never_typed(sequence: bytes) -> None:
    """CVE-2003-0063 and CVE-2008-2383."""
    given = answers(sequence)
    assert b"rm" not in given
    assert b"726d" not in given
    assert b"\n" not in given
    assert b"\r" not in given


def test_answers_are_given_while_drawing_waits() -> None:
    given: list[bytes] = []
    output = TerminalOutput(Terminal(), answer=given.append, clock=Clock())
    for piece in pieces(b"\r\n\r\n" + too_much()):
        output.feed(piece)
    output.feed(b"abc\x1b[6n")
    assert given == [b"\x1b[3;4R"]


def test_answers_are_bounded() -> None:
    assert len(answers(b"\x1b[c" * 100_000)) <= LONGEST_ANSWER


def test_queries_after_the_end_get_no_answer() -> None:
    given: list[bytes] = []
    output = TerminalOutput(Terminal(), answer=given.append)
    output.feed(b"\x1b[")
    output.finish()
    assert given == []
