"""Masking of secrets that are typed on a terminal."""

from __future__ import annotations

import random
import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyshell import AnyshellError
from anyshell._types import MASK
from anyshell.terminal.secrets import LONGEST_SECRET, MAX_SECRETS, TypedMasks

SECRET = "hunter2-Ünïcode"
RAW = SECRET.encode()


def masked(pieces: list[bytes], *secrets: str) -> bytes:
    masks = TypedMasks()
    for secret in secrets:
        masks.add(secret)
    return b"".join(map(masks.feed, pieces)) + masks.release()


def cut(data: bytes, at: list[int]) -> list[bytes]:
    places = [0, *sorted({place % (len(data) + 1) for place in at}), len(data)]
    return [data[start:end] for start, end in pairwise(places)]


@given(st.lists(st.integers(0, 200), max_size=20))
def test_secret_is_masked_across_any_cut(at: list[int]) -> None:
    data = b"Password: " + RAW + b"\r\n" + RAW + RAW[:4] + b" ok " + RAW
    expected = b"Password: " + MASK + b"\r\n" + MASK + RAW[:4] + b" ok " + MASK
    assert masked(cut(data, at), SECRET) == expected


@given(
    st.lists(st.sampled_from([b"a", b"b", b"\r", b"\n", b" ", b"\x08", b"\x1b[K", b"\x1b"]), max_size=60),
    st.data(),
)
def test_masking_leaves_other_text_unchanged_and_lets_no_secret_through(
    parts: list[bytes], data: st.DataObject
) -> None:
    text = b"".join(parts)
    pieces = cut(text, data.draw(st.lists(st.integers(0, 100), max_size=10)))
    assert masked(pieces, "xyz") == text
    assert b"abab" not in masked(pieces, "abab")
    assert masked(pieces, "abab") == masked([text], "abab")


@pytest.mark.parametrize("between", [b"\r\n", b" \r", b"\n", b"\x1b[K\r\n", b"\x1b[2;1H", b"\r\n\x1b[0m"])
@pytest.mark.parametrize("at", range(1, len(SECRET)))
def test_a_secret_is_masked_where_a_terminal_wraps_it(between: bytes, at: int) -> None:
    wrapped = SECRET[:at].encode() + between + SECRET[at:].encode()
    whole = b"> " + wrapped + b" <"
    assert masked([whole], SECRET) == b"> " + MASK + b" <"
    assert masked([whole[i : i + 1] for i in range(len(whole))], SECRET) == b"> " + MASK + b" <"


@pytest.mark.parametrize("wrap", ["{0}\r{0}", " \r\x1b[K{0}\r{0}", "{0}\b{0}", "\r\n{0}\r{0}"])
@pytest.mark.parametrize(
    "secret", [SECRET, "Kq7vB2xZtt9LmW4rN8sYYd", "cor rect  hor se", "aaaaaaaa", "äöüää€€"]
)
@pytest.mark.parametrize("width", [1, 2, 3, 7])
def test_a_secret_is_masked_where_a_line_editor_prints_a_character_again(
    wrap: str, secret: str, width: int
) -> None:
    """readline with single-byte characters, and zsh, do this at the margin."""
    drawn = "".join(
        wrap.format(char) if at and at % width == 0 and at < len(secret) - 1 else char
        for at, char in enumerate(secret)
    ).encode()
    whole = b"> " + drawn + b" <"
    assert masked([whole], secret) == b"> " + MASK + b" <"
    assert masked([whole[i : i + 1] for i in range(len(whole))], secret) == b"> " + MASK + b" <"


def test_a_secret_does_not_overlap_itself() -> None:
    assert masked([b"a" * 9], "aaaa") == MASK * 2 + b"a"
    assert masked([b"a"] * 9, "aaaa") == MASK * 2 + b"a"
    assert masked([b"ababab"], "abab") == MASK + b"ab"


def test_repetitive_text_is_masked_with_nested_secrets() -> None:
    secrets = ["a" * length for length in range(1, MAX_SECRETS + 1)]
    assert masked([b"a" * 8192] * 2, *secrets).replace(MASK, b"") == b""
    assert masked([b"a\ra \r" * 1600] * 2, *secrets).count(b"a") == 0


@given(
    st.lists(st.text("ab", min_size=1, max_size=7), min_size=1, max_size=6),
    st.text("ab", min_size=1, max_size=5),
    st.integers(1, 20),
    st.lists(st.integers(0, 100), max_size=10),
)
def test_repetitive_text_is_masked_with_any_secrets(
    secrets: list[str], unit: str, times: int, at: list[int]
) -> None:
    """Secrets that overlap are one mask; those that only touch have one each."""
    text = unit * times
    expected, end, last = "", 0, 0
    for begin, stop in sorted(match.span() for secret in {*secrets} for match in re.finditer(secret, text)):
        if begin >= end:
            expected += text[last:begin] + MASK.decode()
        last = end = max(end, stop)
    expected += text[last:]
    assert masked([text.encode()], *secrets).decode() == expected
    assert masked(cut(text.encode(), at), *secrets).decode() == expected


def test_text_that_cannot_be_a_secret_is_not_held_back() -> None:
    masks = TypedMasks()
    masks.add(SECRET)
    assert masks.feed(b"hunt") == b""
    assert masks.holds
    assert masks.feed(b"ing") == b"hunting"
    assert not masks.holds


def test_rest_of_a_secret_with_a_shown_beginning_is_masked() -> None:
    masks = TypedMasks()
    masks.add(SECRET)
    assert masks.feed(b"> hu") == b"> "
    assert masks.release() == b"hu"
    assert masks.feed(b"nte") == b""
    assert masks.release() == MASK
    assert masks.feed(b"r") == b""
    assert masks.release() == b""
    assert masks.feed(RAW[6:] + b" <") == b" <"
    assert masks.feed(b"> hu") == b"> "
    assert masks.release() == b"hu"
    assert masks.feed(RAW[2:] + RAW) == MASK + MASK
    assert masks.feed(b"hu") == b""
    assert masks.release() == b"hu"
    assert masks.feed(b"man") == b"man"
    assert masks.feed(b"nter2") == b"nter2"


def test_the_longer_of_two_secrets_is_masked_whole() -> None:
    assert masked([b"abcdef abc"], "abc", "abcdef") == MASK + b" " + MASK
    assert masked([b"abc", b"def abc"], "abc", "abcdef") == MASK + b" " + MASK


def test_a_secret_that_overlaps_another_is_masked_too() -> None:
    assert masked([b"xabcdx"], "abc", "bcd") == b"x" + MASK + b"x"
    assert masked([b"xabc", b"dx"], "abc", "bcd") == b"x" + MASK + b"x"


def test_a_blank_of_a_secret_may_stand_where_a_terminal_wraps_it() -> None:
    for wrapped in (b"pass \r\nword", b"pass\r\n word", b"pass \rword", b"pass  \rword"):
        assert masked([wrapped], "pass word") == MASK
        assert masked([wrapped[i : i + 1] for i in range(len(wrapped))], "pass word") == MASK


def test_repr_of_masks_has_no_secret() -> None:
    masks = TypedMasks()
    masks.add(SECRET)
    assert SECRET not in repr(masks) + str(masks)


def test_secrets_are_bounded_in_number() -> None:
    masks = TypedMasks()
    for number in range(MAX_SECRETS):
        masks.add(f"secret {number}")
    masks.add("secret 0")
    with pytest.raises(AnyshellError, match="64 secrets") as caught:
        masks.add("one too many")
    assert "one too many" not in str(caught.value)


def test_a_flood_that_looks_like_a_secret_is_masked_in_time() -> None:
    """A possible beginning of a secret is examined again for every piece: that work must not grow with earlier output."""
    masks = TypedMasks()
    masks.add("a" * (LONGEST_SECRET - 1) + "b")
    data = b"a" * 64 * 1024
    out = b"".join(masks.feed(data) for _ in range(64))
    assert out + masks.release() == data * 64


def test_random_noise_comes_through() -> None:
    noise = random.Random(5).randbytes(200_000)
    assert masked(cut(noise, list(range(0, 200_000, 977))), SECRET, "another") == noise
