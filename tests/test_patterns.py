"""Regular expressions: every supported Python matches them alike."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyshell import _patterns
from anyshell._patterns import atomic, portable

from .possessive import is_mismatched

TOP = Path(__file__).parents[1]

GROUPS = {
    r"\?(?:(?!0*+(?:47|104[79])[;hl])[0-9]*+;)*+0*+(?:47|104[79])(?:;[0-9;]*+)?+([hl])": "0147?;hl9",
    r"(?:[^\n\xc2]|\xc2(?![\x80-\x9f])){0,9}+(?:x|\xc2\x9c)": "ax\xc2\x9c\n",
    r"""(?:'[^']*+'|"(?:a|\$(?=b)|\$[ab]*+c)*+"|\\.|[^'"\\\n])*+\n""": "'\"a\\\n$bc",
    r'(?:\s*+(?:"[^"]++"|[^\s"]++)(?!\S))++\s*+\Z': 'a" b',
    r"(?P<x>(?:a++b|c(?=d))++)(?:a|[)*+]|(c))": "abcd)*+",
    r"(?:(?<=a)b|a)*+c": "abc",
    r"(?:a{2,3}b){1,2}+a": "ab",
}
"""Patterns with possessive groups, each with the characters of texts to search."""

MATCHED = [
    (r"\?(?:(?!47)[0-9]*+;)*+47", "?1;47", "?1;47"),
    (r"(?:[^x\xc2]|\xc2(?![\x80-\x9f])){0,9}+\xc2\x9c", "a\xc2\x9c", "a\xc2\x9c"),
    (r"(?:ab?c)*+ab", "acab", "acab"),
    (r"(?:(?<=a)b|a)*+c", "abac", "abac"),
    (r"\\(?:a)*+\)[)*+]++", "\\aa)*+)", "\\aa)*+)"),
]


@pytest.mark.parametrize(("pattern", "text", "found"), MATCHED)
def test_portable_pattern_matches_alike_on_every_python(pattern: str, text: str, found: str) -> None:
    match = re.fullmatch(portable(pattern), text)
    assert match is not None
    assert match[0] == found
    assert re.fullmatch(atomic(pattern), text)
    data = pattern.encode("latin-1")
    assert re.fullmatch(portable(data), text.encode("latin-1"))


@pytest.mark.skipif(_patterns.MISMATCHED, reason="this Python matches the possessive groups wrongly")
@pytest.mark.parametrize("pattern", GROUPS)
@given(data=st.data())
def test_atomic_groups_match_like_possessive_groups(pattern: str, data: st.DataObject) -> None:
    text = data.draw(st.text(GROUPS[pattern], max_size=12))
    expected, found = re.search(pattern, text), re.search(atomic(pattern), text)
    assert (found and (found.span(), found.groups())) == (expected and (expected.span(), expected.groups()))


def test_pattern_is_written_anew_only_where_that_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_patterns, "MISMATCHED", False)
    assert portable(r"(?:a*+b)*+") == r"(?:a*+b)*+"
    monkeypatch.setattr(_patterns, "MISMATCHED", True)
    assert portable(rb"\((?:[)*+(]*+b){2,}+") == rb"\((?>(?:[)*+(]*+b){2,})"
    assert portable(r"(a)+[b]*+(?:c)?") == r"(a)+[b]*+(?:c)?"
    with pytest.raises(re.error, match="parenthesis"):
        portable("a)*+")


def test_groups_at_risk_are_recognized() -> None:
    assert all(map(is_mismatched, GROUPS))
    assert not any(
        map(is_mismatched, [r"[a-z]*+b", r"(?:[^']|\\.)*+'", r"(?:a+|b)++", r"(?:a*b)*", "(?>a*b)"])
    )


def test_every_pattern_is_portable() -> None:
    """Regression test: with Python 3.11.2, presets allowed texts of awk that run programs."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.possessive"],
        cwd=TOP,
        capture_output=True,
        text=True,
        check=False,
    )
    count, *found = done.stdout.splitlines()
    assert (done.stderr, found) == ("", [])
    assert int(count.split()[0]) > 800
