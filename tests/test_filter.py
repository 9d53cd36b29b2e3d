"""The sequences of untrusted output that reach a person's terminal."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyshell._types import Terminal
from anyshell.cli.commands.recordings.filter import Filter
from anyshell.output import StyledEmulator

LETTERS = st.text(
    st.sampled_from('a1;?[]()\\>! "$#0hlmHJqucnPX^_\x07\n\r\x18\x1a\x1b\x9b\x9d\x90\x9c日'), max_size=60
)
"""Mainly the bytes of sequences."""

ACTING = {
    "the clipboard": "\x1b]52;c;aGVsbG8=\x07",
    "the clipboard, ended by ST": "\x1b]52;c;aGVsbG8=\x1b\\",
    "the clipboard, in C1": "\x9d52;c;aGVsbG8=\x9c",
    "the title": "\x1b]0;title\x07",
    "the palette": "\x1b]4;1;#ff0000\x07",
    "the colour of text": "\x1b]10;?\x07",
    "a link": "\x1b]8;;http://example.com\x1b\\",
    "the directory": "\x1b]7;file:///etc\x07",
    "a notification": "\x1b]9;hello\x07",
    "a file of iTerm's": "\x1b]1337;File=name=x:AAAA\x07",
    "a picture, by sixel": "\x1bPq#0;2;0;0;0\n#0~~\r\n\x1b\\",
    "a picture, by kitty": "\x1b_Ga=T,t=f;L2V0Yy9wYXNzd2Q=\x1b\\",
    "a question for a setting": "\x1bP$qm\x1b\\",
    "a question for a capability": "\x1bP+q544e\x1b\\",
    "keys that are defined anew": "\x1bP1;1|17/6c73\x1b\\",
    "a private message": "\x1b^hello\x1b\\",
    "a string": "\x1bXhello\x1b\\",
    "a title of screen's": "\x1bktitle",
    "ENQ": "\x05",
    "where the cursor is": "\x1b[6n",
    "the same for DEC": "\x1b[?6n",
    "how it is": "\x1b[5n",
    "what it is": "\x1b[c",
    "what it is, more so": "\x1b[>c",
    "what it is, by its number": "\x1b[=c",
    "what it is, as the VT52 did": "\x1bZ",
    "what it is, in C1": "\x9bc",
    "its parameters": "\x1b[x",
    "its version": "\x1b[>0q",
    "a mode": "\x1b[?2004$p",
    "a checksum": "\x1b[1;1;1;1;5;5*y",
    "its title": "\x1b[21t",
    "its size": "\x1b[18t",
    "another size": "\x1b[8;5;5t",
    "kitty's keyboard": "\x1b[?u",
    "another keyboard": "\x1b[>1u",
    "keys by xterm": "\x1b[>4;2m",
    "colours that are asked for": "\x1b[?4m",
    "the mouse": "\x1b[?1000h",
    "the mouse, in another form": "\x1b[?1006h",
    "the focus": "\x1b[?1004h",
    "pastes": "\x1b[?2004h",
    "the size, whenever it changes": "\x1b[?2048h",
    "keys of the cursor": "\x1b[?1h",
    "132 columns": "\x1b[?3h",
    "a locked keyboard": "\x1b[2h",
    "the keypad": "\x1b=",
    "the scrollback": "\x1b[3J",
    "printing": "\x1b[5i",
    "tab stops": "\x1b[3g",
    "a tab stop": "\x1bH",
    "another encoding": "\x1b%@",
    "8-bit answers": "\x1b G",
    "highlighting": "\x1b[1;1;1;1;1T",
    "locked memory": "\x1bl",
    "an unknown sequence": "\x1b[5;5%x",
    "NUL and XOFF": "\x00\x13",
}

DRAWING = (
    *("text, ünïcödé 日本 🙂", "\a\b\t\n\v\f\r\x0e\x0f"),
    *("\x1b[m", "\x1b[1;31;48;5;200m", "\x1b[38:2::1:2:3m", "\x1b[4:3m"),
    *(
        "\x1b[H",
        "\x1b[5;10H",
        "\x1b[3A",
        "\x1b[K",
        "\x1b[2J",
        "\x1b[J",
        "\x1b[2;20r",
        "\x1b[10X",
        "\x1b[3@",
        "\x1b[5b",
    ),
    *("\x1b7", "\x1b8", "\x1bM", "\x1bD", "\x1bE", "\x1b[s", "\x1b[u", "\x1b#8"),
    *("\x1b(0", "\x1b(B", "\x1b)0", "\x1b[!p", "\x1b[3 q"),
    *("\x1b[?1049h", "\x1b[?25l", "\x1b[?7l", "\x1b[?6h", "\x1b[4h", "\x1b[?2026h"),
)


@pytest.mark.parametrize("sequence", ACTING.values(), ids=list(ACTING))
def test_acting_and_asking_sequences_do_not_pass(sequence: str) -> None:
    passed = Filter().feed(f"before{sequence}after\n")
    assert passed == ("before" + ("title" if "title" in sequence and "]" not in sequence else "") + "after\n")


@pytest.mark.parametrize("sequence", ACTING.values(), ids=list(ACTING))
def test_filter_rejects_split_sequences(sequence: str) -> None:
    whole = Filter().feed(f"before{sequence}after\n")
    passing = Filter()
    assert "".join(map(passing.feed, f"before{sequence}after\n")) == whole


@pytest.mark.parametrize("sequence", DRAWING)
def test_drawing_sequences_pass_unchanged(sequence: str) -> None:
    assert Filter().feed(f"before{sequence}after") == f"before{sequence}after"
    passing = Filter()
    assert "".join(map(passing.feed, sequence + "after")) == sequence + "after"


def test_filter_passes_only_the_drawing_modes_of_a_sequence() -> None:
    assert Filter().feed("\x1b[?1000;1049;2004;25h") == "\x1b[?1049;25h"


def test_eight_bit_controls_become_seven_bit_controls() -> None:
    assert Filter().feed("\x9b31mred\x85\x8d") == "\x1b[31mred\x1bE\x1bM"


def test_numbers_of_sequences_are_capped() -> None:
    assert Filter().feed("\x1b[99999;1H\x1b[0000000003A\x1b[123456789123456789b") == (
        "\x1b[9999;1H\x1b[3A\x1b[9999b"
    )


def test_a_reset_wipes_the_screen_and_keeps_the_scrollback() -> None:
    passed = Filter().feed("\x1bc")
    assert "\x1bc" not in passed
    assert "3J" not in passed
    screen = StyledEmulator(Terminal(columns=20, rows=5))
    dirt = "\x1b[?1049h\x1b[2;4r\x1b[31m\x1b(0\x1b[?7l\x1b[4hdirt"
    screen.feed((dirt + passed + "clean" + "x" * 20).encode(), 0, 0)
    assert not screen.alternate
    assert screen.picture() == "clean" + "x" * 15 + "\n" + "x" * 5
    assert screen.spans(screen.rows[0])[0].style.foreground is None


def test_unfinished_control_string_is_not_buffered() -> None:
    passing = Filter()
    passing.feed("\x1bP")
    assert all(passing.feed("x" * 10_000) == "" for _ in range(100))
    assert passing._held == ""
    assert passing.feed("\x1b\\seen") == "seen"


def test_another_sequence_ends_a_control_string() -> None:
    assert Filter().feed("\x1b]0;title\x1b[31mred") == "\x1b[31mred"
    assert Filter().feed("\x1b]52;c;AAAA\x18text") == "text"
    passing = Filter()
    assert passing.feed("\x1b]0;ti\x1b") + passing.feed("[31mred") == "\x1b[31mred"


_PASSES = re.compile(
    "[^\x00-\x06\x10-\x1f\x7f-\x9f]"
    r"|\x1b\[(?:[0-9]{0,4}[@ABCDEFGIKLMPSTXZ`abdeu]|[0-9]{0,4}(?:;[0-9]{0,4})?[Hfrs]|0*[12]?J|[0-9:;]*m|!p|[0-9]{0,4} q)"
    r"|\x1b\[(?:[0-9;]*|\?[0-9;]*)[hl]"
    r"|\x1b[78DEM]|\x1b#8|\x1b[()*+][B0A]"
)
"""Every permitted sequence, specified independently of the code."""


@given(st.lists(LETTERS, max_size=6))
def test_only_complete_permitted_sequences_pass(pieces: list[str]) -> None:
    passing = Filter()
    passed = "".join(map(passing.feed, pieces))
    assert _PASSES.sub("", passed) == ""
    for modes in re.findall(r"\x1b\[\?([0-9;]*)[hl]", passed):
        assert {int(mode) for mode in modes.split(";")} <= {5, 6, 7, 25, 47, 69, 1047, 1048, 1049, 2026}


@given(LETTERS, st.integers(0, 60))
def test_chunk_boundary_does_not_change_the_output(text: str, at: int) -> None:
    passing = Filter()
    assert passing.feed(text[:at]) + passing.feed(text[at:]) == Filter().feed(text)
