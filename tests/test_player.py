"""Recordings of anyshell play in asciinema's own player: a browser shows the recorded screen."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

assert sys.platform != "win32"  # else mypy checks the code below on every platform

from . import player
from .cli_program import anyshell
from .conftest import missing
from .recordings import v2
from .wine.parts import MissingPartError

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = r"""
printf 'plain \033[1;31mred\033[m \033[38;2;1;2;3mown\033[m ünï 日本\n'
printf '\033[5;10Hthere\n'
printf '\033[?1049hgone\033[?1049l'
printf 'the quick "brown" \\ fox\t|\a\n'
exit 3
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a web page with the player."""
    if player.CHROMIUM is None:
        missing("Chromium", "install chromium")
    directory = tmp_path_factory.mktemp("player")
    try:
        player.set_up(directory)
    except MissingPartError as error:
        missing("asciinema's player", str(error))
    return directory


@pytest.mark.parametrize("version", ["v2", "v3"])
def test_recording_of_a_terminal_plays(page: Path, tmp_path: Path, version: str) -> None:
    file = tmp_path / "f.cast"
    options = ("--pty", "--columns", "60", "--rows", "12", "--record", str(file), "--record-format", version)
    assert anyshell("run", *options, "--", PROGRAM).returncode == 3
    assert f'"version": {version[1]}' in file.read_text().partition("\n")[0]
    frame = player.play(page, file.read_bytes())
    assert (frame.end, frame.failed, frame.said) == ("ended", False, [])
    assert [row.rstrip() for row in frame.rows] == [
        "plain red own ünï 日本",
        *("", "", ""),
        "         there",
        'the quick "brown" \\ fox |',
        *("", "", "", "", "", ""),
    ]
    colours = {text.strip(): colour for text, colour in frame.runs}
    assert colours["own"] == "rgb(1, 2, 3)"
    assert colours["red"] not in (colours["own"], colours["plain"])
    # The emulator of anyshell draws the same screen.
    assert anyshell("screenshot", str(file)).stdout.decode().split("\n")[:6] == [
        row.rstrip() for row in frame.rows[:6]
    ]


def test_recording_of_pipes_plays(page: Path, tmp_path: Path) -> None:
    file = tmp_path / "f.cast"
    assert anyshell("run", "--record", str(file), "--", "echo one; echo two >&2").returncode == 0
    frame = player.play(page, file.read_bytes())
    assert (frame.end, frame.failed, frame.said) == ("ended", False, [])
    assert len(frame.rows) == 24
    # No line is shifted to the right. The two pipes may be read in either order.
    assert sorted(row.rstrip() for row in frame.rows[:2]) == ["one", "two"]
    assert frame.rows[2].rstrip() == ""


def test_failure_of_the_player_is_detected(page: Path, tmp_path: Path) -> None:
    """Without this test, the tests above might be unable to fail."""
    file = v2(tmp_path / "f.cast", (0.1, "text"), version=9)
    frame = player.play(page, file.read_bytes())
    assert frame.end == "failed"
    assert frame.failed or frame.said
