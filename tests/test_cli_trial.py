"""``anyshell run --trial`` and ``--checkpoint``, and ``anyshell undo``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

assert sys.platform != "win32"  # on other systems mypy skips the code below

from . import tmux
from .cli_program import anyshell
from .conftest import bubblewrap, missing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    root.mkdir()
    (root / "a").write_text("a\n")
    return root


@pytest.fixture
def pane(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tmux.Pane]:
    if tmux.TMUX is None:
        missing("tmux", "install tmux")
    with tmux.serving(tmp_path_factory.mktemp("tmux")) as server:
        pane = server.open(tree)
        pane.wait_until(lambda: pane.screen()[0] in "$#", "a prompt")
        yield pane


def test_trial_shows_changes_and_commits_or_discards(tree: Path) -> None:
    bubblewrap()
    tried = anyshell("run", "--trial", "--discard", "--", "echo b >> a; echo hi; exit 3", cwd=tree)
    assert tried.returncode == 3
    assert tried.stdout == b"hi\n"
    assert b"~ a (2 B to 4 B)" in tried.stderr
    assert b"\n+b\n" in tried.stderr
    assert b"discarded" in tried.stderr
    assert (tree / "a").read_text() == "a\n"
    made = anyshell("run", "--trial", "--commit", "--", "echo b >> a; exit 3", cwd=tree)
    assert made.returncode == 3
    assert b"committed" in made.stderr
    assert (tree / "a").read_text() == "a\nb\n"
    nothing = anyshell("run", "--trial", "--commit", "--", "true", cwd=tree)
    assert (nothing.returncode, nothing.stderr) == (0, b"anyshell: nothing changed\n")


def test_trial_without_a_terminal_needs_commit_or_discard(tree: Path) -> None:
    asked = anyshell("run", "--trial", "--", "echo b >> a", cwd=tree, start_new_session=True)
    assert asked.returncode == 2
    assert b"add --commit or --discard" in asked.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--commit"], b"go with --trial"),
        (["--trial", "--commit", "--pty"], b"--pty"),
        (["--trial", "--commit", "--background"], b"--background"),
        (["--trial", "--commit", "--record", "x.cast"], b"--record"),
        (["--checkpoint", "--background"], b"--background"),
    ],
    ids=str,
)
def test_conflicting_options_are_refused(tree: Path, options: list[str], said: bytes) -> None:
    refused = anyshell("run", *options, "--", "true", cwd=tree)
    assert refused.returncode == 2
    assert said in refused.stderr


def test_timed_out_trial_changes_no_file(tree: Path) -> None:
    bubblewrap()
    late = anyshell("run", "--trial", "--discard", "--timeout", "5", "--", "echo b >> a; sleep 60", cwd=tree)
    assert late.returncode == 124
    assert b"~ a" in late.stderr
    assert (tree / "a").read_text() == "a\n"


def test_trial_asks_on_the_terminal(pane: tmux.Pane, tree: Path) -> None:
    bubblewrap()
    program = f"{sys.executable} -m anyshell run --trial -- 'echo b >> a'; echo code=$?"

    def ask() -> None:
        pane.type("clear")
        pane.press("Enter")
        pane.wait_until(lambda: "real?" not in pane.screen(), "a clear screen")
        pane.type(program)
        pane.press("Enter")
        pane.wait("Make these changes real?")

    def answer(text: str, told: str) -> None:
        pane.type(text)
        pane.press("Enter")
        pane.wait(told)

    ask()
    answer("no", "discarded")
    ask()
    answer("maybe", "Please type")
    assert (tree / "a").read_text() == "a\n"
    answer("yes", "committed")
    pane.wait("code=0")
    assert (tree / "a").read_text() == "a\nb\n"
    ask()
    pane.press("C-c")
    pane.wait("code=130")
    assert (tree / "a").read_text() == "a\nb\n"


def test_undo_takes_back_the_last_command(tree: Path) -> None:
    nothing = anyshell("undo", "--yes", cwd=tree)
    assert nothing.returncode == 1
    assert b"nothing to undo" in nothing.stderr
    for command in ("echo b >> a; echo new > b", "rm a; echo c > c"):
        assert anyshell("run", "--checkpoint", "--", command, cwd=tree).returncode == 0
    assert anyshell("undo", cwd=tree, start_new_session=True).returncode == 2
    undone = anyshell("undo", "--yes", cwd=tree)
    assert undone.returncode == 0, undone.stderr
    assert b"removed: c\n" in undone.stderr
    assert {path.name: path.read_text() for path in tree.iterdir()} == {"a": "a\nb\n", "b": "new\n"}
    (tree / "b").write_text("mine\n")
    (tree / "theirs").write_text("theirs\n")
    kept = anyshell("undo", "--yes", cwd=tree)
    assert kept.returncode == 1
    assert b"kept: b: " in kept.stderr
    assert b"kept: theirs: " in kept.stderr
    files = {path.name: path.read_text() for path in tree.iterdir()}
    assert files == {"a": "a\n", "b": "mine\n", "theirs": "theirs\n"}
    again = kept.stderr.decode().rpartition("--to ")[2].strip()
    assert anyshell("undo", "--yes", "--to", again, cwd=tree).returncode == 0
    assert (tree / "a").read_text() == "a\nb\n"
    assert again in anyshell("undo", "--list", cwd=tree).stdout.decode()
    assert anyshell("undo", "--yes", "--to", "nonsense", cwd=tree).returncode == 1
