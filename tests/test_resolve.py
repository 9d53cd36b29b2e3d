from __future__ import annotations

import os
import posixpath
import shlex
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyshell import InvalidCommand
from anyshell.backends import here
from anyshell.resolve import contained, find

if TYPE_CHECKING:
    from pathlib import Path

SCHEMES = ("artifact", "workspace", "skill")


def found(text: str, *, powershell: bool = False) -> list[str]:
    return [word.address for word in find(text, SCHEMES, powershell=powershell)]


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("cat artifact://ID", ["artifact://ID"]),
        ("cat 'artifact://ID?tail=50'", ["artifact://ID?tail=50"]),
        ("cat artifact://ID?tail=50&& ls", ["artifact://ID?tail=50"]),
        ('cat "workspace://a b.txt"', ["workspace://a b.txt"]),
        ("sort <workspace://a>workspace://b", ["workspace://a", "workspace://b"]),
        ("make 2>workspace://err | tee skill://log", ["workspace://err", "skill://log"]),
        ("workspace://run.sh; (cat skill://a)", ["workspace://run.sh", "skill://a"]),
        ("x=$(cat artifact://ID) y", ["artifact://ID"]),
        ("for f in workspace://a; do cat $f; done", ["workspace://a"]),
        ("cat \\\n workspace://a \\\n -n", ["workspace://a"]),
        ("i=$((i + (2*3))); cat workspace://a", ["workspace://a"]),
        ("echo 'it'\"'\"'s' \"a\\\"b $(echo \"x\") `c`\" $'\\'' ${x} skill://a", ["skill://a"]),
        ("cat <<E > workspace://o\nworkspace://a\nE\ncat workspace://b", ["workspace://o", "workspace://b"]),
        ("cat <<-'E F'\n\tworkspace://a\n\tE F\ncat workspace://b", ["workspace://b"]),
        ("cat <<<workspace://a", ["workspace://a"]),
        ("cat \"skill://a?grep=b$\" \"skill://a?grep=(b$)&c=$d\"", ["skill://a?grep=b$"]),
        ("cat 'skill://it\u2019s' \"skill://\u201cb\u201d\"", ["skill://it\u2019s", "skill://\u201cb\u201d"]),
        # Left unchanged.
        ("curl https://example.org skill:a ftp://b", []),
        ('echo "see artifact://ID for more"', []),
        ("bash -c 'cat artifact://ID'", []),
        ('x="$(cat artifact://ID)"', []),
        ("x=`cat artifact://ID`", []),
        ("X=workspace://a --file=workspace://b xskill://c", []),
        ("echo 'a'skill://b skill://c'd' skill://e\"f\" $x\"skill://g\"", []),
        ("cat workspace://*.txt workspace://{a,b} workspace://$x", []),
        ("echo a # workspace://x", []),
        ("case $x in artifact://ID) true;; esac", []),
        ('echo "$(case x in x) echo " workspace://a ";; esac)"', []),
        ('echo "$( (case\tx in x) echo " workspace://a ";; esac))"', []),
        ('echo "$(f()case x in x) echo " workspace://a ";; esac)"', []),
        ("cat skill://a\u00a0b skill://c\vd skill://e\f skill://g\r\ncat x\rskill://h skill://i", ["skill://i"]),
        ("cat <<E\nworkspace://a\n", []),
        ("echo 'open workspace://a", []),
        ("echo ${x:-'a'} workspace://a", []),
        ("x=$(( '1' )); cat workspace://a", []),
    ],
)  # fmt: skip
def test_addresses_in_texts_of_posix_shells(text: str, addresses: list[str]) -> None:
    assert found(text) == addresses


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("gc artifact://ID?tail=5 | sls x", ["artifact://ID?tail=5"]),
        ("gc 'artifact://ID?tail=5&grep=x'", ["artifact://ID?tail=5&grep=x"]),
        ('gc "workspace://a b.txt" "skill://a\\b"', ["workspace://a b.txt", "skill://a\\b"]),
        ("cp workspace://a, workspace://b\\c.txt .", ["workspace://a", "workspace://b\\c.txt"]),
        ("if (Test-Path skill://a) { gc skill://b }", ["skill://a", "skill://b"]),
        ("$x = 'it''s'; $y = \"a $(1 + (2)) `\" b\"; gc skill://a", ["skill://a"]),
        ("$x = @'\nskill://a\n'@\ngc skill://b", ["skill://b"]),
        ("<# skill://a #> gc skill://b # skill://c", ["skill://b"]),
        ("a --% skill://a\ngc skill://b", ["skill://b"]),
        ("gc `\n skill://a", ["skill://a"]),
        (
            "gc skill://a\r\ngc @(skill://b), { gc skill://c };{gc skill://d}",
            ["skill://a", "skill://b", "skill://c", "skill://d"],
        ),
        ("echo case $(echo case skill://a)", ["skill://a"]),
        # Left unchanged.
        ("gc skill://[a] skill://a[b] skill://a] skill://a{b} skill://a(b) 'skill://a'[0]", []),
        ("gc skill://a}; gc skill://b)", []),
        ("gc skill://a\u00a0b", []),
        ('"see artifact://ID"; "$(gc artifact://ID)"', []),
        ("gc -Path:skill://a $x'skill://b'", []),
        ("$x = \u2018open skill://a", []),
        ("gc 'skill://a\u2019 b' \"skill://c\u201d d\"", []),
    ],
)
def test_addresses_in_texts_of_powershell(text: str, addresses: list[str]) -> None:
    assert found(text, powershell=True) == addresses


def test_bare_address_in_command_position_of_powershell_is_flagged() -> None:
    words = find("skill://a.ps1 skill://b; & skill://c | skill://d; 'skill://e'", SCHEMES, powershell=True)
    assert [word.command for word in words] == [True, False, False, True, False]


@pytest.mark.parametrize("powershell", [False, True])
def test_a_query_that_the_shell_would_cut_is_an_error(powershell: bool) -> None:
    with pytest.raises(InvalidCommand, match="put quotes around artifact://ID"):
        found("cat artifact://ID?lines=1-9&grep=x", powershell=powershell)


@given(
    st.lists(
        st.sampled_from(["skill://a", "'skill://b c'", '"skill://d"', "x", "'y z'", '"', "'", "\\", "`", "$(", ")", " ", "\n"]),
        max_size=12,
    ).map("".join),
    st.booleans(),
)  # fmt: skip
def test_find_returns_whole_words(text: str, powershell: bool) -> None:
    """In any text, the words are in order and do not overlap, and each is an address with its quotes and nothing else."""
    last = 0
    for word in find(text, SCHEMES, powershell=powershell):
        assert word.start >= last
        last = word.end
        assert text[word.start : word.end].strip("'\"") == word.address
        assert text[word.start - 1 : word.start] in ("", " ", "\n", "(", ")")
        assert not powershell or text[word.end : word.end + 1] in ("", " ", "\n", ")")


@given(
    st.lists(
        st.sampled_from(["skill://a", "skill://b c", "see skill://d e", "x", "it's skill://f"]), max_size=6
    )
)
def test_quoted_words_are_found_as_in_a_shell(words: list[str]) -> None:
    text = " ".join(["printf", *map(shlex.quote, words)])
    assert found(text) == [word for word in words if word.startswith("skill://")]


def test_hostile_text_is_searched_in_time() -> None:
    for piece in ("skill://a ", "'", '"$(', "\\", "<<E\n", "$((1+", "skill://"):
        text = piece * (200_000 // len(piece))
        found(text)
        found(text, powershell=True)


posix_only = pytest.mark.skipif(sys.platform == "win32", reason="links and paths of POSIX")


@posix_only
@pytest.mark.anyio
async def test_paths_stay_below_their_directory(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    (root / "sub" / "file").touch()
    (tmp_path / "secret").touch()
    for name, target in (
        ("in", "sub/file"),
        ("absolute", str(root / "sub")),
        ("sub/up", "../sub/../sub/file"),
        ("out", "../secret"),
        ("far", "/etc"),
        ("sub/out", "../../secret"),
        ("twin", f"{root}x/file"),
        ("loop", "loop"),
        ("chain", "out"),
    ):
        os.symlink(target, root / name)

    async def path(name: str) -> tuple[str, int]:
        found, missing = await contained(here(), posixpath, str(root), name)
        return found.removeprefix(str(root)), missing

    assert await path("") == ("", 0)
    assert await path("sub/./file") == ("/sub/file", 0)
    assert await path("in") == await path("absolute/file") == await path("sub/up") == ("/sub/file", 0)
    assert await path("new") == ("/new", 1)
    assert await path("absolute/new/a/b") == ("/sub/new/a/b", 3)
    for name in ("out", "far", "far/passwd", "sub/out", "twin", "chain", "absolute/out"):
        with pytest.raises(InvalidCommand, match="a link in it leads out of its directory"):
            await path(name)
    for name in ("..", "sub/../../secret", "/etc/passwd"):
        with pytest.raises(InvalidCommand, match=r"leads out|is absolute"):
            await path(name)
    for name in ("loop", "sub/file/x"):
        with pytest.raises(OSError, match=r"too many links|Not a directory"):
            await path(name)
