"""The page of results for a model matches real runs, and the results are short."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import anyshell

from . import situations

pytestmark = pytest.mark.anyio

BROKEN = (
    "Nothing was sent to job",
    "is not known before",
    "0 of 0 lines",
    "as many as may",
    "no end of time",
    "with the time that it had",
    "no in this way",
    "verything in options",
    "Correct that and call again",
    "try to do the same in another way",
    "made itself a daemon",
    "Asking again at once",
    "That is all of its output",
)
"""Sentences that must not return to the texts for a model."""


@pytest.mark.skipif(sys.platform != "linux", reason="the page shows a Linux host")
async def test_page_matches_real_results() -> None:
    page = situations.PAGE.read_text(encoding="utf-8")
    assert await situations.written(page) == page, "to write it anew: python -m tests.situations"


def test_mean_word_counts_on_the_page_are_within_their_limits() -> None:
    page = situations.PAGE.read_text(encoding="utf-8")
    means = re.findall(r"^## (\w+)\n\nThe words of anyshell: ([\d.]+) a result", page, re.MULTILINE)
    assert {
        kind.lower(): float(mean) <= situations.MOST[kind.lower()] for kind, mean in means
    } == dict.fromkeys(situations.MOST, True)
    assert len(situations.SITUATIONS) >= 24


def test_only_words_of_anyshell_are_counted() -> None:
    text = "a b c\n[anyshell] not ours\n\n[anyshell] Exit code 0.\n[anyshell] Now in /usr."
    assert situations.ours(text) == ["Exit code 0.", "Now in /usr."]
    assert situations.words(text) == 6


def test_known_broken_sentences_do_not_return() -> None:
    package = Path(anyshell.__file__).parent
    read = [*(package / "tool").rglob("*.py"), *(package.parents[1] / "descriptions").glob("*.md")]
    read += [package / "jobs" / "registry.py", *(package / "policy" / "approval").glob("*.py")]
    assert len(read) > 20
    for path in read:
        text = re.sub(r'"\s*\n\s*f?"', "", path.read_text(encoding="utf-8"))
        assert [said for said in BROKEN if said in text] == [], path
