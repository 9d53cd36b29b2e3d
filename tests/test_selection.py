from __future__ import annotations

import re
import sys
import tracemalloc
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyshell import ArtifactStore, InvalidCommand
from anyshell._exceptions import ArtifactNotFound
from anyshell.output.selection import ArtifactAddress, Selection

from .conftest import framework
from .test_artifacts import child, keep

if TYPE_CHECKING:
    from pathlib import Path

ID = "20261120-051200-a1b2c3d4"
TEXT = b"".join(b"line %d%b\n" % (number, b" error" if number % 10 == 0 else b"") for number in range(1, 101))
HOSTILE = "(a+)+$"
MIB = 1024 * 1024


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(tmp_path / "artifacts")


@pytest.fixture(params=["re2", "re"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The engine of patterns, with the extra and without."""
    if request.param == "re2":
        framework("re2")
    else:
        monkeypatch.setitem(sys.modules, "re2", None)
    return str(request.param)


@pytest.mark.parametrize(
    ("query", "selection"),
    [
        ("", Selection()),
        ("?lines=100-200", Selection(lines=(100, 200))),
        ("?lines=100-", Selection(lines=(100, None))),
        ("?lines=7", Selection(lines=(7, 7))),
        ("?bytes=0-4095", Selection(bytes=(0, 4095))),
        ("?tail=50&grep=a+b%26%25c&context=3", Selection(tail=50, grep="a+b&%c", context=3)),
        ("?lines=1-9&grep=x|y=z", Selection(lines=(1, 9), grep="x|y=z")),
    ],
)
def test_an_address_is_read_and_written(query: str, selection: Selection) -> None:
    address = ArtifactAddress.parse(f"artifact://{ID}{query}")
    assert address == ArtifactAddress(ID, selection) == ArtifactAddress.parse(f"{ID}{query}")
    assert ArtifactAddress.parse(str(address)) == address


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("?", "not a part of an address"),
        ("?head=5", "'head=5' is not a part of an address"),
        ("?lines", "'lines' is not a part"),
        ("?lines=1-2&lines=3-4", "lines stands twice"),
        ("?lines=a-b", "'a-b' is not a range"),
        ("?lines=-50", "'-50' is not a range"),
        ("?lines=\uff11-\uff12", "is not a range"),
        ("?tail=\u0663", "is not a number"),
        ("?lines=9999999999999999-", "is not a range"),
        ("?lines=0-5", "counted from 1"),
        ("?lines=5-4", "the range is empty"),
        ("?bytes=5-4", "the range is empty"),
        ("?tail=0", "the range is empty"),
        ("?tail=x", "'x' is not a number"),
        ("?tail=5&lines=1-2", "give one of lines, bytes and tail"),
        ("?bytes=0-9&grep=x", "not bytes"),
        ("?context=3", "context goes with grep"),
        ("?grep=x&context=1001", "0 to 1,000 lines"),
        ("?grep=", "1 to 1,000 characters"),
        (f"?grep={'x' * 1001}", "1 to 1,000 characters, not 1,001"),
        ("?grep=(", "does not compile"),
        ("?grep=" + "x" * 5000, "up to 4,096 characters"),
    ],
)
def test_a_wrong_address_names_the_culprit(query: str, said: str, engine: str) -> None:
    with pytest.raises(InvalidCommand, match=re.escape(said)):
        ArtifactAddress.parse(f"artifact://{ID}{query}")


def test_parts_of_a_kept_output(store: ArtifactStore, engine: str) -> None:
    at = f"artifact://{keep(store, TEXT).id}"
    lines = TEXT.splitlines(keepends=True)

    def view(query: str) -> tuple[bytes, str]:
        found = store.view(f"{at}?{query}")
        assert found.next is None
        return found.data, found.note

    assert store.view(at).data == TEXT
    assert view("lines=10-12") == (b"".join(lines[9:12]), "Lines 10 to 12 of 100.")
    assert view("lines=99-500") == (b"".join(lines[98:]), "Lines 99 to 100 of 100.")
    assert view("bytes=0-9") == (TEXT[:10], f"Bytes 0 to 9 of {len(TEXT):,}.")
    assert view("tail=2") == (b"".join(lines[-2:]), "Lines 99 to 100 of 100.")
    assert view("grep=^line 1.$") == (
        b"".join(b"%d:line %d\n" % (n, n) for n in range(11, 20)),
        "9 of 100 lines match.",
    )
    assert view("lines=10-25&grep=error&context=1")[0] == (
        b"10:line 10 error\n11-line 11\n--\n19-line 19\n20:line 20 error\n21-line 21\n"
    )
    assert view("tail=5&grep=error") == (b"100:line 100 error\n", "1 of 5 lines match.")
    assert view("grep=nowhere") == (b"", "0 of 100 lines match.")
    for beyond in ("lines=101-", "bytes=99999-"):
        with pytest.raises(InvalidCommand, match="the output has"):
            store.view(f"{at}?{beyond}")
    with pytest.raises(ArtifactNotFound):
        store.view(f"artifact://{ID}")
    with pytest.raises(ArtifactNotFound):
        store.view("artifact://../../etc/passwd?tail=1")


def test_colours_do_not_hide_a_match(store: ArtifactStore, engine: str) -> None:
    artifact = keep(store, b"\x1b[31mer\x1b[1mror\x1b[0m: no\n\xff\xfe error: bytes\n")
    assert store.view(f"{artifact.id}?grep=^error: no$").data == b"1:\x1b[31mer\x1b[1mror\x1b[0m: no\n"
    assert store.view(f"{artifact.id}?grep= error: bytes").note == "1 of 2 lines match."


@given(
    data=st.lists(st.sampled_from([b"", b"a", b"bb error", b"c" * 30]), max_size=20).map(b"\n".join),
    query=st.sampled_from(
        ["", "?lines=2-", "?tail=3", "?bytes=0-", "?grep=error&context=2", "?lines=3-&grep=^a"]
    ),
    limit=st.integers(1, 60),
)
def test_notes_lead_to_every_omitted_part(
    data: bytes, query: str, limit: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The parts that the notes name are the whole together, in order, and each is within its limit."""
    store = ArtifactStore(tmp_path_factory.getbasetemp() / "selection")
    at: str | None = f"artifact://{keep(store, data).id}{query}"
    try:
        whole = store.view(str(at), limit=None)
    except InvalidCommand:
        assert not data or query.startswith("?lines=")  # the artifact is shorter
        return
    assert whole.next is None
    seen, cut = [], False
    while at is not None:
        view = store.view(at, limit=limit)
        cut = cut or "are left out" in view.note
        assert len(view.data) <= limit + len(b"20:\n")
        assert (view.next is None) == ("The rest:" not in view.note)
        seen += [view.data]
        at = view.next
    if not cut and "context" not in query:  # the next part has no lines of context before its first line
        assert b"".join(seen).replace(b"--\n", b"") == whole.data.replace(b"--\n", b"")


def test_memory_is_bounded(store: ArtifactStore, engine: str) -> None:
    artifact = keep(store, b"a" * (8 * MIB) + b"\n", b"b" * (8 * MIB) + b"\nerror\n")
    tracemalloc.start()
    try:
        view = store.view(f"{artifact.id}?grep=error&context=2", limit=1000)
        assert tracemalloc.get_traced_memory()[1] < 6 * MIB
    finally:
        tracemalloc.stop()
    assert "2 longer than" in view.note
    assert len(view.data) <= 1010


def test_a_hostile_pattern_ends(store: ArtifactStore, engine: str) -> None:
    """The longest possible artifact: linear time with the extra, refused without."""
    artifact = keep(store, *[b"a" * MIB] * 32, b"\n", *[b"a" * 30 + b"!\n"] * 10, *[b"a" * MIB] * 31, b"!")
    address = f"artifact://{artifact.id}?grep={HOSTILE}"
    if engine == "re":
        with pytest.raises(InvalidCommand, match=r"could take long: without the extra re2 \(pip install"):
            store.view(address)
    else:
        view = store.view(address, limit=100)
        assert "2 of 12 lines match. 2 longer than 1,048,576 bytes were searched up to there." in view.note
        assert view.next is not None


def test_a_large_pattern_searches_less_of_a_long_line(store: ArtifactStore, engine: str) -> None:
    """RE2 takes time in proportion to the line, and to the pattern."""
    artifact = keep(store, b"x" * MIB, b"y\n", b"xy\n")
    pattern = "x{0,1000}" * 20 + "y"
    if engine == "re":
        with pytest.raises(InvalidCommand, match="could take long"):
            store.view(f"{artifact.id}?grep={pattern}")
    else:
        view = store.view(f"{artifact.id}?grep={pattern}", limit=100)
        assert re.search(
            r"1 of 2 lines match. 1 longer than \d,\d{3} bytes were searched up to there", view.note
        )


def test_alternatives_in_a_row_are_refused_without_the_extra(store: ArtifactStore, engine: str) -> None:
    address = f"artifact://{keep(store, b'a' * 60).id}?grep={'(a|aa)' * 23}b"
    if engine == "re":
        with pytest.raises(InvalidCommand, match="16 combinations at most"):
            store.view(address)
    else:
        assert store.view(address).data == b""


def test_a_search_is_given_up_in_time(store: ArtifactStore, monkeypatch: pytest.MonkeyPatch) -> None:
    artifact = keep(store, TEXT)
    monkeypatch.setattr("anyshell.output.selection.SEARCH_SECONDS", -1.0)
    view = store.view(f"{artifact.id}?tail=9&grep=error")
    assert view.data == b""
    assert view.next == f"artifact://{artifact.id}?lines=92-100&grep=error"


READER = """
import sys
from pathlib import Path
from anyshell import ArtifactStore
with ArtifactStore(Path(sys.argv[1])).open(sys.argv[2]) as file:
    print(file.read(5), flush=True)
    sys.stdin.readline()
    print(len(file.read()), flush=True)
"""


def test_pruning_spares_artifacts_in_use_by_another_process(store: ArtifactStore) -> None:
    read, other = keep(store, TEXT, age=10.0), keep(store, b"x")
    with child(READER, store.directory, read.id) as reader:
        assert reader.stdout is not None
        assert reader.stdin is not None
        assert reader.stdout.readline() == "b'line '\n"
        assert store.prune(max_age=0, max_total=0) == [other.id]
        assert read.path.exists()
        reader.stdin.write("\n")
        reader.stdin.flush()
        assert reader.stdout.readline() == f"{len(TEXT) - 5}\n"
    assert store.prune(max_age=0, max_total=0) == [read.id]
