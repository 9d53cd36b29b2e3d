from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anyshell.output.cells import LONGEST_CELL, width
from anyshell.output.sequences import LONGEST_SEQUENCE
from anyshell.output.text.decode import (
    LONGEST_LINE,
    LineDecoder,
    OutputLine,
    TextDecoder,
    clean,
    edit,
    strip_to_edits,
    unfinished,
)

MB = 1024 * 1024

PIECES = [
    *(b"\x1b", b"\x1b[", b"\x1b]", b"\x1bP", b"\x1b(", b"\x1b\\", b"\x1bM", b"\\", b"\x07", b"\x18", b"\x1a"),
    *(b"\r", b"\n", b"\r\n", b"\r\r\n", b"\b", b"\b\b", b"\t", b"\0", b"\x7f", b"\x0b"),
    *(b"\x1b[K", b"\x1b[1K", b"\x1b[2K", b"\x1b[2D", b"\x1b[3G", "漢".encode(), "\u0301".encode()),
    *(b"31", b";", b"m", b"K", b"?", b" ", b"/", b"[", b"]", b"a", b"word"),
    *(
        b"\xc2",
        b"\x9b",
        b"\x9c",
        b"\xc2\x85",
        b"\xc2\x90",
        b"\xc2\x9b",
        b"\xc2\x9c",
        b"\xc2\x9d",
        b"\xc2\xb0",
    ),
    *(b"\xe2", b"\x82", b"\xac", b"\xf0\x9f", "é€😀".encode(), b"\xed\xa0\x80", b"\xff"),
]
outputs = st.lists(st.sampled_from(PIECES) | st.binary(max_size=3), max_size=60).map(b"".join)
STATES = [
    b"10%",
    b"long state",
    b" ",
    b"\xe2\x96\x88" * 3,
    b"\x1b[K",
    b"\x1b[2K",
    b"\x1b[32m",
    b"\t",
    b"\b",
    b"\n",
    "漢".encode(),
]
bars = st.lists(st.lists(st.sampled_from(STATES), max_size=4).map(b"".join), max_size=30).map(b"\r".join)
EDITS = [
    "a",
    "漢",
    "\u0301",
    " ",
    "\t",
    "\r",
    "\b",
    "\x1b[3G",
    "\x1b[9G",
    "\x1b[2D",
    "\x1b[K",
    "\x1b[1K",
    "\x1b[2K",
    "\x1b[3K",
]
edits = st.lists(st.sampled_from(EDITS), max_size=12).map(lambda pieces: "".join(pieces).encode())
cuts = st.lists(st.integers(0, 200), max_size=20)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    ends = [*sorted(place % (len(data) + 1) for place in places), len(data)]
    starts = [0, *ends[:-1]]
    return [data[start:end] for start, end in zip(starts, ends, strict=True)]


EDIT = re.compile("(?:\x1b\\[|\x9b)([0-9]{0,5})([DGK`])")


def clean_slowly(data: bytes) -> str:
    """The rule again, one character at a time, without regard to speed."""
    lines = [SlowLine()]
    text = data.decode("utf-8", "replace")
    at = 0
    while at < len(text):
        char = text[at]
        edit = EDIT.match(text, at)
        if edit is not None:
            lines[-1].edit(edit[2], int(edit[1] or 0))
            at = edit.end()
            continue
        if char == "\n":
            lines.append(SlowLine())
        elif char in "\r\b":
            lines[-1].edit("G" if char == "\r" else "D", 1)
        elif char == "\x1b" or "\x80" <= char <= "\x9f":
            at = after_sequence(text, at)
            continue
        elif char == "\t" or (char >= " " and char != "\x7f"):
            lines[-1].write(char)
        at += 1
    return "\n".join([line.printed if line.cells is line.unedited else line.drawn for line in lines])


class SlowLine:
    def __init__(self) -> None:
        self.printed = ""
        self.cells = self.unedited = list[str]()
        self.column = 0
        self.moved = False

    @property
    def drawn(self) -> str:
        return "".join(self.cells).rstrip(" ")

    def write(self, char: str) -> None:
        if self.moved and self.printed:
            self.cells = list(self.cells)
        self.moved = False
        self.printed += char
        if char == "\t":
            self.column += 8 - self.column % 8
            if self.cells is self.unedited:
                self.fill()
            return
        self.fill()
        if width(char) == 0:
            at = self.column - 1
            at -= at > 0 and not self.cells[at]
            if at >= 0 and len(self.cells[at]) < LONGEST_CELL:
                self.cells[at] += char
            return
        end = self.column + width(char)
        self.halve(self.column)
        self.halve(end)
        self.cells[self.column : end] = (char, "")[: width(char)]
        self.column = end

    def fill(self) -> None:
        self.cells += " " * (self.column - len(self.cells))

    def halve(self, column: int) -> None:
        """A wide character that loses one half also loses the other half."""
        if column < len(self.cells) and not self.cells[column]:
            self.cells[column - 1 : column + 1] = "  "

    def edit(self, final: str, number: int) -> None:
        if final in "DG`":
            number = max(number, 1)
            self.column = max(self.column - number, 0) if final == "D" else min(self.column, number - 1)
            self.moved = True
            if not self.cells and not self.column and self.cells is not self.unedited:
                self.__init__()  # type: ignore[misc]  # a new line is as at the beginning
        elif number or self.moved or self.cells is not self.unedited:
            self.cells = list(self.cells)
            end = {0: len(self.cells), 1: min(self.column + 1, len(self.cells)), 2: len(self.cells)}.get(
                number, 0
            )
            start = self.column if number == 0 else 0
            self.halve(start)
            self.halve(end)
            self.cells[start:end] = " " * (end - start) if number == 1 else []
            if not self.cells and not self.column:
                self.__init__()  # type: ignore[misc]  # a new line is as at the beginning


def after_sequence(text: str, start: int) -> int:
    at = start + 1
    if text[start] == "\x1b":
        first = at
        while at < len(text) and " " <= text[at] <= "/":
            at += 1
        if at == len(text) or not "0" <= text[at] <= "~":
            return first
        kind, at = text[at], at + 1
        if at - first > 1 or kind not in "[]PX^_":
            return at
    else:
        first, kind = at, chr(ord(text[start]) - 0x40)
    if kind == "[":
        while at < len(text) and "0" <= text[at] <= "?":
            at += 1
        while at < len(text) and " " <= text[at] <= "/":
            at += 1
        return at + 1 if at < len(text) and "@" <= text[at] <= "~" else first
    content = at
    if kind not in "]PX^_":
        return content
    while at < len(text) and text[at] not in "\n\r\x07\x18\x1a\x1b" and not "\x80" <= text[at] <= "\x9f":
        at += 1
    if text[at : at + 1] in ("\x07", "\x9c"):
        return at + 1
    return at + 2 if text[at : at + 2] == "\x1b\\" else content


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", ""),
        (b"plain\ttext\n", "plain\ttext\n"),
        ("é€😀\n".encode(), "é€😀\n"),
        (b"bad \xff byte, cut \xe2\x82", "bad � byte, cut �"),
        # line ends
        (b"one\r\ntwo\r\r\nthree", "one\ntwo\nthree"),
        (b" 10%\r 50%\r100%\n", "100%\n"),
        (b"longer\rshort\n", "shortr\n"),
        (b"done\r", "done"),
        (b"done\r\r\r\n", "done\n"),
        (b"done\r\r\x1b[K\r\n", "\n"),
        (b"\rat the start", "at the start"),
        (b"a\rb\nc", "b\nc"),
        (b"50% [##   ]\r\x1b[Kdone", "done"),
        (b"50% [##   ]\x1b[2K\rdone", "done"),
        (b"50%\x1b[2Kdone", "   done"),
        (b"one two\x1b[3Gb\x1b[K", "onb"),
        (b"one two\x1b[4D\x1b[1K", "    two"),
        (b"one two\x1b[99D1\x1b[99G2", "12e two"),
        ("one two\x9b2K\x9b1G1".encode(), "1"),
        (b"one two\x1b[0000004D\x1b[00000000001K", "    two"),
        (b"one two\x1b[0000000004Gx\x1b[9999999999999Dy", "ynextwo"),
        ("one two\x9b00000000002K\x9b0001G1".encode(), "1"),
        (b"one two\x1b[" + b"0" * 255 + b"1Gx", "xne two"),
        (b"a\tb\r\x1b[1mc", "c       b"),
        (b"a\tb\r\n", "a\tb\n"),
        (b"abc   \r   ", ""),
        ("漢字\rx".encode(), "x 字"),
        ("漢字\r\t\bx".encode(), "漢字   x"),
        ("ab\u0301c\b\b\bx".encode(), "xb\u0301c"),
        # backspace
        (b"abc\b\bd", "adc"),
        (b"abc\b\b  \b\b", "a"),
        (b"abc\b\b", "abc"),
        (b"\b\bx", "x"),
        (b"a\n\bb", "a\nb"),
        ("é\b€".encode(), "€"),
        (b"abc\r\b\b", "abc"),
        (b"a\tb \x1b[3G", "a\tb "),
        (b"a\tb\x1b[3Gx", "a x     b"),
        ("\u0301\b".encode(), "\u0301"),
        ("\u0301\x1b[3G".encode(), "\u0301"),
        (b"N\bNA\bAM\bM", "NAM"),
        (b"-\b\\\b|\b/\bok", "ok"),
        # controls
        (b"a\0b\x07c\x0bd\x0ce\x0ef\x7fg", "abcdefg"),
        ("a\x80b\x85c\x99d".encode(), "abcd"),
        # sequences
        (b"\x1b[1;31mred\x1b[0m", "red"),
        (b"\x1b[?25l\x1b[2 qx\x1b[38:2::1:2:3mx", "xx"),
        ("\x9b31mred\x9bm".encode(), "red"),
        (b"\x1b]0;title\x07x\x1b]8;;http://a/\x1b\\link\x1b]8;;\x1b\\", "xlink"),
        ("\x9d0;title\x9cx\x90q\x1b\\y".encode(), "xy"),
        ("\x1b]0;22 °C é\x07x".encode(), "x"),
        (b"\x1bPdata\x1b\\\x1bXsos\x1b\\\x1b^pm\x1b\\\x1b_apc\x1b\\x", "x"),
        (b"\x1b(Ba\x1b)0b\x1b#8c\x1b%Gd\x1b $]e", "abcde"),
        (b"\x1b7a\x1b8b\x1bMc\x1bcd\x1b=e\x1b\\f", "abcdef"),
        # an unfinished sequence hides no text
        (b"a\x1b", "a"),
        (b"a\x1b[", "a["),
        (b"a\x1b[31", "a[31"),
        (b"\x1b[31\nm", "[31\nm"),
        (b"\x1b[3\xc3\xa9", "[3é"),
        (b"\x1b[1 1m", "[1 1m"),
        (b"\x1b[" + b"1" * 300 + b"m", "[" + "1" * 300 + "m"),
        (b"\x1b(\nB", "(\nB"),
        (b"\x1b\x1b[mx", "x"),
        (b"\x1b]0;title\nnext", "0;title\nnext"),
        (b"\x1b]0;title\rnext", "nexttle"),
        (b"\x1b]0;title\x18next", "0;titlenext"),
        (b"\x1b]0;title\x1anext", "0;titlenext"),
        (b"\x1b]0;title\x1b[mnext", "0;titlenext"),
        ("\x1b]0;title\x9bmnext".encode(), "0;titlenext"),
        (b"\x1b]0;ti\0tle", "0;title"),
        (b"\x1b]" + b"x" * 4096 + b"\x07y", "y"),
        (b"\x1b]" + b"x" * 4097 + b"\x07y", "x" * 4097 + "y"),
        # the text around a removed sequence forms no new sequence
        (b"\xe2\x1b[m\x82\x00\xac", "���"),
        (b"\xc2\x1b[m\x9b31m", "��31m"),
    ],
)
def test_output_is_cleaned_by_the_rule(data: bytes, text: str) -> None:
    assert clean(data) == text


def clean_in_pieces(pieces: list[bytes]) -> str:
    """Clean a stream: an unfinished sequence of a piece waits for the next piece."""
    texts, carry = [], b""
    for piece in pieces:
        data = carry + piece
        whole = len(data) - unfinished(data)
        texts.append(strip_to_edits(data[:whole]))
        carry = data[whole:]
    return edit("".join([*texts, strip_to_edits(carry)]))


def lines_in_pieces(pieces: list[bytes]) -> list[OutputLine]:
    decoder = LineDecoder()
    return [line for piece in pieces for line in decoder.feed(piece)] + decoder.flush()


@given(outputs | bars | edits)
def test_fast_and_slow_cleaning_agree(data: bytes) -> None:
    assert clean(data) == clean_slowly(data)


@given(outputs | bars, cuts)
def test_cleaned_text_does_not_depend_on_chunk_boundaries(data: bytes, places: list[int]) -> None:
    assert clean_in_pieces(cut(data, places)) == clean(data)


@given(outputs)
def test_output_can_come_a_byte_at_a_time(data: bytes) -> None:
    assert clean_in_pieces([bytes([byte]) for byte in data]) == clean(data)


@given(outputs)
def test_cleaned_text_has_no_controls(data: bytes) -> None:
    text = clean(data)
    assert not [char for char in text if char not in "\n\t" and (char < " " or "\x7f" <= char <= "\x9f")]
    assert text.count("\n") == data.count(b"\n")


@given(outputs)
def test_held_bytes_are_bounded(data: bytes) -> None:
    assert unfinished(data) <= len(data)
    assert unfinished(b"\x1b]" + b"x" * 5000 + data) <= LONGEST_SEQUENCE


@pytest.mark.parametrize(
    ("data", "held"),
    [
        (b"plain", 0),
        (b"\xc3", 1),
        (b"\xe2\x82", 2),
        (b"\xf0\x9f\x98", 3),
        (b"\xf0\x9f\x98\x80", 0),
        (b"\x1b[31", 4),
        (b"\x1b[31m", 0),
        (b"\x1b]title", 7),
        (b"\x1b]title\x1b", 8),
        (b"\x1b]title\xc2", 8),
        (b"\x1b]title\x07", 0),
        (b"\x1b]title\n", 0),
        (b"\x1b]" + b"x" * 4096, 4098),
        (b"\x1b]" + b"x" * 4097, 0),
        (b"\x1b(", 2),
        (b"abc\r", 0),
    ],
)
def test_only_unfinished_bytes_are_held_back(data: bytes, held: int) -> None:
    assert unfinished(data) == held


@pytest.mark.parametrize(
    "pattern",
    [
        *(
            b"\x1b]",
            b"\x1b[",
            b"\x1b",
            b"\x1b(",
            b"\b",
            b"\r",
            b"\0",
            b"x\b",
            b"x\b\b",
            b"x\r",
            b"\x1b[1",
            b"\x1b]x",
        ),
        *(
            b"\xc2",
            b"\xc2\x9d",
            b"\xc2\x9b",
            b"\xc2\xb0",
            b"\xff",
            b"\xe2\x82",
            b"\x1b]" + b"x" * 4095,
            b"\r\b",
            b"\r\x1b]",
        ),
    ],
)
def test_hostile_output_takes_linear_time(pattern: bytes) -> None:
    data = (pattern * (MB // len(pattern) + 1))[:MB]
    clean(data)
    lines_in_pieces([data[at : at + 64 * 1024] for at in range(0, len(data), 64 * 1024)])


@pytest.mark.parametrize(
    "pattern",
    [
        *(
            b"\rx",
            b"\r\tx",
            b"\x1b[K",
            b"x\x1b[1K",
            b"\x1b[1K\bx",
            b"x\x1b[2K",
            b"\x1b[2K\ry\x1b[2K",
            b"\x1b[99999D",
        ),
        *(b"\x1b[1Gx", b"\b\x1b[K", "\r漢".encode(), "\b\u0301".encode(), b"\r\x1b[K" + b"x" * 90),
    ],
)
def test_editing_a_long_line_takes_linear_time(pattern: bytes) -> None:
    data = b"x" * MB + pattern * (MB // 2 // len(pattern))
    clean(data)
    lines_in_pieces([data[at : at + 64 * 1024] for at in range(0, len(data), 64 * 1024)])


@pytest.mark.parametrize("start", [b"\x1b]", b"\x1b[", b"\x1bP", b"\xc2\x9d"])
def test_endless_sequence_takes_linear_time(start: bytes) -> None:
    assert len(clean(start + b"1" * 10 * MB)) >= 10 * MB


def test_erasing_a_long_line_takes_linear_time() -> None:
    assert clean(b"x" * 5 * MB + b"\b" * 4 * MB + b"\x1b[K") == "x" * MB
    assert clean(b"x" * 3 * MB + b"\b\by" * MB) == "x" * (2 * MB - 1) + "y" * MB + "x"


# TextDecoder


@given(outputs, cuts)
def test_decoded_text_does_not_depend_on_chunk_boundaries(data: bytes, places: list[int]) -> None:
    decoder = TextDecoder()
    text = "".join(decoder.decode(piece) for piece in cut(data, places)) + decoder.flush()
    assert text == data.decode("utf-8", "replace")


def test_a_character_waits_for_its_last_byte() -> None:
    decoder = TextDecoder()
    assert [decoder.decode(bytes([byte])) for byte in "€".encode()] == ["", "", "€"]
    assert decoder.flush() == ""


def test_an_unfinished_character_is_replaced_at_the_end() -> None:
    decoder = TextDecoder()
    assert decoder.decode(b"a\xe2\x82") == "a"
    assert decoder.flush() == "\ufffd"


# LineDecoder


def test_lines_are_emitted_when_complete() -> None:
    decoder = LineDecoder()
    assert decoder.feed(b"on") == []
    assert decoder.feed(b"e\r") == []
    assert decoder.feed(b"\n\x1b[1mtwo\x1b[m\nth") == [
        OutputLine("one", b"one\r\n"),
        OutputLine("two", b"\x1b[1mtwo\x1b[m\n"),
    ]
    assert decoder.feed(b"") == []
    assert decoder.flush() == [OutputLine("th", b"th", complete=False)]
    assert decoder.flush() == []


def test_empty_lines_are_emitted() -> None:
    assert lines_in_pieces([b"\n\n"]) == [OutputLine("", b"\n"), OutputLine("", b"\n")]


def test_line_of_64_kib_is_emitted_in_one_piece() -> None:
    data = b"x" * LONGEST_LINE + b"\n"
    assert lines_in_pieces([data]) == [OutputLine("x" * LONGEST_LINE, data)]
    assert lines_in_pieces([data[:-1], b"\n"]) == [OutputLine("x" * LONGEST_LINE, data)]


def test_line_over_64_kib_is_emitted_in_pieces() -> None:
    data = b"x" * (2 * LONGEST_LINE + 5) + b"\n"
    expected = [(LONGEST_LINE, False), (LONGEST_LINE, False), (5, True)]
    for pieces in ([data], [data[at : at + 1000] for at in range(0, len(data), 1000)]):
        lines = lines_in_pieces(pieces)
        assert [(len(line.text), line.complete) for line in lines] == expected
        assert b"".join(line.data for line in lines) == data


@pytest.mark.parametrize("whole", ["€".encode(), b"\x1b[31m", b"\x1b]0;title\x07"])
def test_pieces_of_a_line_split_no_character_or_sequence(whole: bytes) -> None:
    for missing in range(1, len(whole)):
        data = b"x" * (LONGEST_LINE - missing) + whole + b"y"
        lines = lines_in_pieces([data])
        assert "".join(line.text for line in lines) == clean(data)
        assert b"".join(line.data for line in lines) == data


@settings(deadline=None)
@given(outputs, cuts, st.sampled_from([1, 3000]))
def test_lines_do_not_depend_on_chunk_boundaries(data: bytes, places: list[int], times: int) -> None:
    data *= times
    places = [place * times for place in places]
    lines = lines_in_pieces(cut(data, places))
    assert b"".join(line.data for line in lines) == data
    assert lines == lines_in_pieces([data])
    if times == 1:
        texts = [line.text + "\n" * line.complete for line in lines]
        assert "".join(texts) == clean(data)
        assert all(line.complete == line.data.endswith(b"\n") for line in lines)
