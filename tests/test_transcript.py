"""The searchable transcript of a program's output on a terminal."""

from __future__ import annotations

import re

import pytest

from anyshell.output.text.search import WINDOW
from anyshell.terminal.transcript import KEPT, Transcript


def of(*pieces: bytes) -> Transcript:
    transcript = Transcript()
    for piece in pieces:
        transcript.feed(piece)
    return transcript


@pytest.mark.parametrize(
    ("printed", "text"),
    [
        (b"one\r\ntwo\r\n", "one\ntwo\n"),
        (b"one\r\r\n\rtwo", "one\ntwo"),
        (b"\rone", "one"),
        (b"10%\r20%\r\x1b[K30%\r\n", "10%\n20%\n30%\n"),
        (b"$ \x1b[1mls\x1b[0m\r\n\x1b[?2004l\rfile", "$ ls\nfile"),
        ("é日\n".encode(), "é日\n"),
    ],
)
def test_text_does_not_depend_on_cuts(printed: bytes, text: str) -> None:
    assert of(printed).text() == text
    transcript = Transcript()
    for start in range(len(printed)):
        transcript.feed(printed[start : start + 1])
        assert text.startswith(transcript.text())
    assert transcript.text() == text


def test_trailing_carriage_return_waits_for_the_next_byte() -> None:
    transcript = of(b"one\r")
    assert transcript.text() == "one"
    transcript.feed(b"\ntwo\r")
    assert transcript.text() == "one\ntwo"
    transcript.feed(b"three")
    assert transcript.text() == "one\ntwo\nthree"


def test_match_and_the_text_before_are_taken() -> None:
    transcript = of(b"one two three")
    match = transcript.search((re.compile("two"),))
    assert match is not None
    transcript.take(match)
    assert transcript.text() == " three"
    assert transcript.search((re.compile("one"),)) is None


def test_match_across_two_pieces_is_found() -> None:
    pattern = re.compile("needle")
    transcript = of(b"need")
    assert transcript.search((pattern,)) is None
    transcript.feed(b"le")
    assert transcript.search((pattern,)) is not None


@pytest.mark.parametrize(("length", "is_found"), [(WINDOW, True), (WINDOW + 1, False)])
def test_repeated_search_looks_back_as_far_as_a_match_may_reach(length: int, is_found: bool) -> None:
    patterns = (re.compile("ax*b"),)
    transcript = of(b"y" * WINDOW + b"a" + b"x" * (length - 1))
    assert transcript.search(patterns) is None
    transcript.feed(b"b")
    assert (transcript.search(patterns) is not None) is is_found
    assert transcript.search((*patterns, re.compile("z"))) is not None  # another pattern searches all of it


@pytest.mark.parametrize("at_once", [4096, 3000, 4096 * 1000])
def test_end_of_a_flood_is_kept(at_once: int) -> None:
    printed = b"".join(b"%03d " % number * 1024 for number in range(1000))
    transcript = Transcript()
    for start in range(0, len(printed), at_once):
        transcript.feed(printed[start : start + at_once])
    kept = transcript.text().encode()
    assert KEPT - at_once < len(kept) <= KEPT
    assert printed.endswith(kept)


@pytest.mark.parametrize(
    ("printed", "alternate"),
    [
        (b"\x1b[?1049h", True),
        (b"\x1b[?1049h\x1b[?1049l", False),
        (b"\x1b[?47h", True),
        (b"\x1b[?25;1047h", True),
        (b"\x1b[?001047h", True),
        (b"\x1b[?" + b"2004;" * 20 + b"1049;7h", True),
        (b"\x1b[?" + b"1049;" * 60 + b"1049h", False),  # too long for a sequence: shown as text
        ("\x9b?1049h\x9b?1;1049l".encode(), False),
        ("\x9b?1049h".encode(), True),
        (b"\x1b[?1049hx\x1bcx", False),
        (b"\x1b[?2004h", False),
        (b"[?1049h", False),
        (b"\x1b[?10491h", False),
    ],
)
def test_alternate_screen_is_noticed_across_any_cut(printed: bytes, alternate: bool) -> None:
    assert of(printed).alternate == alternate
    assert of(b"before", *(printed[i : i + 1] for i in range(len(printed))), b"after").alternate == alternate
