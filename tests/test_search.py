"""A pattern matches in a stream of output as in the whole text."""

from __future__ import annotations

import re
from itertools import combinations

import pytest

from anyshell.output import Search
from anyshell.output.text.search import WINDOW


def feed(pattern: re.Pattern[str], pieces: list[bytes]) -> re.Match[str] | None:
    search = Search(pattern)
    for piece in pieces:
        search.feed(piece)
    return search.flush()


def test_match_does_not_depend_on_cuts() -> None:
    data = b"a\r\n\x1b[1mport\x1b[0m: 51\r\n\xc3\xa4\xe2\x82\xac"
    for first, second in combinations(range(len(data) + 1), 2):
        match = feed(
            re.compile("^port: (\\d+)\n\xe4\u20ac$", re.MULTILINE),
            [data[:first], data[first:second], data[second:]],
        )
        assert match is not None, (first, second)
        assert match[1] == "51"


@pytest.mark.parametrize("pattern", ["^x", r"\bx", "(?<![xy])x"])
def test_character_before_the_window_is_known(pattern: str) -> None:
    pieces = [b"yx"] + [b"x" * 997] * 40
    assert feed(re.compile(pattern), pieces) is None
    assert feed(re.compile(pattern), [*pieces, b"\n", b"x"]) is not None or pattern == "^x"


def test_a_match_may_be_as_long_as_the_window() -> None:
    pieces = [b"-" * 50_000, b"start", *[b"-" * 100] * (WINDOW // 100 - 1), b"end"]
    assert feed(re.compile("start-*end"), pieces)


def test_searched_text_is_not_held() -> None:
    search = Search(re.compile("end"))
    for _ in range(100):
        assert search.feed(b"x" * 10_000) is None
    match = search.feed(b"the end")
    assert match is not None
    assert len(match.string) <= 2 * WINDOW + len("the end")


def test_a_match_can_grow_and_stays_the_first() -> None:
    search = Search(re.compile(r"\d+"))
    match = search.feed(b"port 51")
    assert match is not None
    assert match[0] == "51"
    match = search.feed(b"73 or 80")
    assert match is not None
    assert match[0] == "5173"


def test_unfinished_sequence_is_searched_at_the_end() -> None:
    search = Search(re.compile("secret"))
    assert search.feed(b"\x1b]secret") is None
    assert search.flush() is not None
