"""``anyshell cp`` on this machine alone, on any system."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import pytest

from anyshell.cli.commands.cp import read_operand

from .cli_program import anyshell, within

if TYPE_CHECKING:
    from pathlib import Path


def copied(*words: object, **how: Any) -> tuple[int, str]:
    """The exit code and the stderr of a copy. stdout is empty."""
    done = anyshell("cp", *map(str, words), **how)
    assert done.stdout == b""
    return done.returncode, done.stderr.decode()


SILENT = (0, "")


def test_files_and_directories_are_copied_into_directories(tmp_path: Path) -> None:
    data = os.urandom(300_000)
    (tmp_path / "from" / "sub").mkdir(parents=True)
    (tmp_path / "from" / "sub" / "naïve file").write_bytes(data)
    (tmp_path / "to").mkdir()
    assert copied("-r", os.path.join("from", ""), tmp_path / "to", cwd=tmp_path) == SILENT
    assert (tmp_path / "to" / "from" / "sub" / "naïve file").read_bytes() == data
    assert copied(tmp_path / "from" / "sub" / "naïve file", "./", cwd=tmp_path / "to") == SILENT
    assert (tmp_path / "to" / "naïve file").read_bytes() == data


def test_failed_copies_are_named(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "to").mkdir()
    (tmp_path / "a").write_bytes(b"a")
    code, said = copied("folder", "missing", "a", "to", cwd=tmp_path)
    assert code == 1
    assert "cannot copy folder to to: it is a directory; copy it with -r" in said
    assert "cannot copy missing to to" in said
    assert os.listdir(tmp_path / "to") == ["a"]


def test_times_are_kept_on_request(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a")
    os.utime(tmp_path / "a", (10**9, 10**9))
    assert copied("a", "b", cwd=tmp_path) == copied("-p", "a", "c", cwd=tmp_path) == SILENT
    assert ((tmp_path / "b").stat().st_mtime > 10**9, (tmp_path / "c").stat().st_mtime) == (True, 10**9)


def test_host_without_a_colon_is_wrong_usage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "config").write_text("Host web-1\n  HostName 127.0.0.1\n")
    monkeypatch.setattr("os.path.expanduser", lambda path: path.replace("~", str(tmp_path)))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").write_bytes(b"a")
    for words, meant in (
        (("a", "me@web-1"), "write me@web-1: for"),
        (("a", "web-1/srv"), "write web-1:/srv for"),
        (("web-1", "b"), "or ./web-1 for"),
    ):
        done = within("cp", *words)
        assert (done.returncode, meant in done.stderr.decode()) == (2, True), done.stderr
    assert sorted(os.listdir(tmp_path)) == [".ssh", "a"]
    (tmp_path / "web-1").mkdir()
    assert copied("a", "web-1", cwd=tmp_path) == SILENT
    assert read_operand("web-1:", windows=False).shown == "web-1"


@pytest.mark.skipif(sys.platform != "win32", reason="drives are Windows'")
def test_windows_paths_follow_windows_rules(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a")
    assert copied(f"{tmp_path}\\A", f"\\\\?\\{tmp_path}\\nul") == SILENT
    assert sorted(os.listdir(tmp_path)) == ["a", "nul"]
    code, said = copied("a", "Q:x", cwd=tmp_path)
    assert code != 0
    assert "relative" in said


@pytest.mark.skipif(sys.platform != "win32", reason="a path may be as long as it likes elsewhere")
def test_long_windows_paths_are_copied(tmp_path: Path) -> None:
    long = tmp_path.joinpath(*("a" * 60,) * 5)
    os.makedirs(f"\\\\?\\{long}")
    with open(f"\\\\?\\{long}\\file", "wb") as file:
        file.write(b"a")
    assert copied("-r", tmp_path / ("a" * 60), tmp_path / "copy") == SILENT
    assert os.path.isfile(f"\\\\?\\{tmp_path.joinpath('copy', *('a' * 60,) * 4)}\\file")
