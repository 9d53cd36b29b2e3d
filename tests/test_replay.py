"""``anyshell replay`` on a terminal of a person, which tmux plays."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

assert sys.platform != "win32"  # else mypy checks the code below on every platform

from anyshell.cli.commands.recordings.playback import Clock

from . import tmux
from .cli_program import anyshell, is_alive, wait_until, wait_written
from .conftest import missing
from .recordings import v2

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOUR = 3600.0

EVERYTHING = "\x1b[?1049h\x1b[?25l\x1b[5;10r\x1b[?6h\x1b[4h\x1b[?7l\x1b[31m\x1b(0"
"""A text that turns on every mode that a recording can turn on and tmux reports, a colour, and the line-drawing characters."""

ASCIINEMA = shutil.which("asciinema")


@pytest.fixture(scope="module")
def terminals(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tmux.Server]:
    """A tmux server."""
    if tmux.TMUX is None:
        missing("tmux", "install tmux")
    with tmux.serving(tmp_path_factory.mktemp("tmux")) as server:
        yield server


@pytest.fixture
def pane(terminals: tmux.Server, tmp_path: Path) -> tmux.Pane:
    """The terminal of a person."""
    pane = terminals.open(tmp_path)
    pane.wait_until(lambda: pane.screen()[0] in "$#", "a prompt")
    return pane


class Playing:
    """A recording that plays in a terminal."""

    def __init__(self, pane: tmux.Pane, file: Path, *options: str, after: str = "") -> None:
        self.pane = pane
        self.before = pane.flags(), pane.settings()
        directory = file.parent
        (directory / "pid").unlink(missing_ok=True)
        words = " ".join(options)
        (directory / "start").write_text(
            f'echo $$ >{directory}/pid\nexec "$PYTHON" -m anyshell replay {words} {file} {after}\n'
        )
        pane.type('sh start; echo "code=$?"')
        pane.press("Enter")
        self.pid = int(wait_written(directory / "pid"))

    def assert_over(self, code: int) -> str:
        """Check that the replay has ended and the terminal works again; return the screen at the end."""
        shown = self.pane.wait(f"code={code}\n")
        assert (self.pane.flags(), self.pane.settings()) == self.before
        self.pane.paste("echo -$((6*7))-\n")  # the shell would see the brackets of a paste
        self.pane.wait("\n-42-\n")
        assert "\n-42-\n" in self.pane.screen(colours=True)  # without colour and line-drawing characters
        return shown


# --- timing ---------------------------------------------------------------------------------------------------


def test_replay_shows_colours_and_wide_characters(pane: tmux.Pane, tmp_path: Path) -> None:
    file = v2(tmp_path / "f.cast", (0.1, "\x1b[1;34mblue\x1b[m "), (0.2, "日本\r\n"), (0.3, "x\rend"))
    playing = Playing(pane, file)
    assert "blue 日本\nend\ncode=0\n" in playing.assert_over(0)
    assert "\x1b[1m\x1b[34mblue" in pane.screen(colours=True)
    assert "anyshell: " not in pane.screen()  # the recording has the size of the terminal


@pytest.mark.parametrize("content", ["the end", "the end\r\n\x1b[m\x1b[?25h"])
def test_prompt_after_a_replay_is_on_its_own_line(pane: tmux.Pane, tmp_path: Path, content: str) -> None:
    shown = Playing(pane, v2(tmp_path / "f.cast", (0.1, content))).assert_over(0)
    assert "\nthe end\ncode=0\n" in shown


def test_later_events_are_not_shown_early(pane: tmux.Pane, tmp_path: Path) -> None:
    file = v2(tmp_path / "f.cast", (0.0, "first\r\n"), (HOUR, "second\r\n"))
    playing = Playing(pane, file)
    shown = pane.wait("first")
    assert "second" not in shown
    pane.press("q")
    assert "second" not in playing.assert_over(0)


def test_an_hour_can_be_played_faster(pane: tmux.Pane, tmp_path: Path) -> None:
    file = v2(tmp_path / "f.cast", (0.0, "first\r\n"), (HOUR, "second\r\n"))
    assert "first\nsecond\ncode=0" in Playing(pane, file, "--speed 20000").assert_over(0)


def test_silence_is_cut_short(pane: tmux.Pane, tmp_path: Path) -> None:
    events = (
        (HOUR, "first\r\n"),
        (HOUR + 1, "typed", "i"),
        (2 * HOUR, "second\r\n"),
        (3 * HOUR, "third\r\n"),
    )
    file = v2(tmp_path / "f.cast", *events)
    assert "first\nsecond\nthird\ncode=0" in Playing(pane, file, "--idle-limit 0.1").assert_over(0)


def test_idle_limit_of_the_file_is_used(pane: tmux.Pane, tmp_path: Path) -> None:
    file = v2(tmp_path / "f.cast", (HOUR, "first\r\n"), (2 * HOUR, "second\r\n"), idle_time_limit=0.1)
    assert "first\nsecond\ncode=0" in Playing(pane, file).assert_over(0)


def test_idle_limit_option_overrides_that_of_the_file(pane: tmux.Pane, tmp_path: Path) -> None:
    file = v2(tmp_path / "f.cast", (0.0, "first\r\n"), (HOUR, "second\r\n"), idle_time_limit=0.001)
    playing = Playing(pane, file, "--idle-limit 1000")
    pane.wait("first")
    pane.press("q")
    assert "second" not in playing.assert_over(0)


class Moments:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 100.0
        self.away = 0.0

    def clock(self) -> Clock:
        return Clock(lambda: self.away, lambda: self.now)


def test_a_pause_takes_no_time() -> None:
    moments = Moments()

    async def play() -> None:
        clock = moments.clock()
        moments.now += 2
        assert clock.played == 2
        clock.pause_or_go_on()
        reaching = asyncio.ensure_future(clock.reach(3))
        moments.now += HOUR
        await asyncio.sleep(0)
        assert clock.played == 2
        assert not reaching.done()
        clock.pause_or_go_on()
        assert clock.played == 2
        moments.now += 1
        clock.pause_or_go_on()  # wakes the waiting task to look again
        await reaching
        assert clock.played == 3

    asyncio.run(play())


def test_a_suspended_player_does_not_go_on() -> None:
    moments = Moments()

    async def play() -> None:
        clock = moments.clock()
        moments.now += HOUR + 1
        moments.away += HOUR
        assert clock.played == 1
        await clock.reach(1)

    asyncio.run(play())


# # --- the end of a replay ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("key", "code"), [("q", 0), ("C-c", 130)])
def test_key_stops_the_replay_and_restores_the_terminal(
    pane: tmux.Pane, tmp_path: Path, key: str, code: int
) -> None:
    file = v2(tmp_path / "f.cast", (0.0, EVERYTHING), (HOUR, "second"))
    playing = Playing(pane, file)
    pane.wait_until(lambda: pane.flags() == "1 0 0 0 1 1 0 0 0 0 0 4 9", "all modes")
    pane.press("x", "Up", key)
    playing.assert_over(code)
    assert not is_alive(playing.pid)


def test_terminal_is_restored_at_the_end_of_the_recording(pane: tmux.Pane, tmp_path: Path) -> None:
    file = v2(tmp_path / "f.cast", (0.0, EVERYTHING), (0.1, "\x1b]0;unfinished"))
    Playing(pane, file).assert_over(0)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT], ids=str)
def test_terminal_is_restored_after_a_signal(pane: tmux.Pane, tmp_path: Path, number: signal.Signals) -> None:
    file = v2(tmp_path / "f.cast", (0.0, EVERYTHING), (HOUR, "second"))
    playing = Playing(pane, file)
    pane.wait_until(lambda: pane.flags() == "1 0 0 0 1 1 0 0 0 0 0 4 9", "all modes")
    os.kill(playing.pid, number)
    playing.assert_over(128 + number)


def test_terminal_is_restored_after_a_broken_line_which_is_named(pane: tmux.Pane, tmp_path: Path) -> None:
    file = v2(tmp_path / "f.cast", (0.0, "\x1b[?1049hfirst"))
    with file.open("a") as opened:
        opened.write("[\n")
    shown = Playing(pane, file).assert_over(125)
    assert "line 3: " in shown.replace("\n", "")


def test_closed_terminal_ends_the_replay(pane: tmux.Pane, tmp_path: Path) -> None:
    playing = Playing(pane, v2(tmp_path / "f.cast", (0.0, "first"), (HOUR, "second")))
    pane.wait("first")
    pane.close()
    wait_until(lambda: not is_alive(playing.pid), "its end")


def test_suspended_replay_releases_and_retakes_the_terminal(pane: tmux.Pane, tmp_path: Path) -> None:
    playing = Playing(pane, v2(tmp_path / "f.cast", (0.0, EVERYTHING), (HOUR, "second")))
    pane.wait_until(lambda: pane.flags() == "1 0 0 0 1 1 0 0 0 0 0 4 9", "all modes")
    during = pane.flags(), pane.settings()
    pane.press("C-z")
    pane.wait_until(lambda: (pane.flags(), pane.settings()) == playing.before, "the shell's terminal")
    pane.type("fg; echo code=$?")
    pane.press("Enter")
    pane.wait_until(lambda: (pane.flags(), pane.settings()) == during, "the terminal of what is played")
    pane.press("q")
    playing.assert_over(0)


def test_keys_work_with_redirected_stdin(pane: tmux.Pane, tmp_path: Path) -> None:
    playing = Playing(pane, v2(tmp_path / "f.cast", (0.0, "first"), (HOUR, "second")), after="</dev/null")
    pane.wait("first")
    pane.press("q")
    playing.assert_over(0)


def test_pipe_is_played_live_and_can_be_left_while_silent(pane: tmux.Pane, tmp_path: Path) -> None:
    file = tmp_path / "f.cast"
    os.mkfifo(file)
    playing = Playing(pane, file)
    with file.open("w") as opened:
        opened.write('{"version": 2, "width": 80, "height": 24}\n[0, "o", "first\\r\\n"]\n')
        opened.flush()
        pane.wait("\nfirst\n")
        opened.write('[0.1, "o", "second\\r\\n"]\n')
        opened.flush()
        pane.wait("\nsecond\n")
        pane.press("q")
        playing.assert_over(0)
        assert not is_alive(playing.pid)


# # --- foreign recordings ---------------------------------------------------------------------------------------


def test_a_recording_changes_nothing_of_the_terminal_and_types_nothing(
    terminals: tmux.Server, pane: tmux.Pane, tmp_path: Path
) -> None:
    terminals("set-option", "-s", "set-clipboard", "on")
    terminals("set-buffer", "-b", "mine", "untouched")
    questions = "\x1b[6n\x1b[c\x1b[>c\x1b[5n\x1b[>q\x1bP$qm\x1b\\\x05"
    events = (
        (0.0, "\x1b]2;stolen\x07\x1b]52;c;c3RvbGVu\x07\x1bkstolen\x1b\\"),
        (0.0, questions + "asked\r\n"),
    )
    # An answer would come while the shell reads again, or would be taken for a key.
    playing = Playing(pane, v2(tmp_path / "f.cast", *events))
    playing.assert_over(0)
    assert "stolen" not in terminals("list-buffers")
    assert "stolen" not in terminals("list-panes", "-a", "-F", "#{pane_title} #{window_name}")
    assert ";" not in pane.screen().partition("asked")[2].replace("$((6*7))", "")


def test_replay_reports_a_recording_of_another_size(pane: tmux.Pane, tmp_path: Path) -> None:
    playing = Playing(pane, v2(tmp_path / "f.cast", (0.0, "first\r\n"), width=100, height=30))
    shown = playing.assert_over(0).replace("\n", "")
    assert "anyshell: recorded on a terminal of 100 columns and 30 rows; this one has 80 and 24" in shown


# --- asciinema ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of a program by asciinema, as packaged by Debian."""
    if ASCIINEMA is None:
        missing("asciinema", "install asciinema")
    directory = tmp_path_factory.mktemp("asciinema")
    program = r"printf '\033[32mgreen\033[m ünï 日本\n'; sleep 0.2; printf '\033[5;10Hthere\n'; stty size"
    subprocess.run(
        [ASCIINEMA, "rec", "--quiet", "--cols", "70", "--rows", "20", "-c", program, directory / "f.cast"],
        check=True,
        stdin=subprocess.DEVNULL,
        env={
            **os.environ,
            "HOME": str(directory),
            "ASCIINEMA_CONFIG_HOME": str(directory),
            "LC_ALL": "C.UTF-8",
        },
        timeout=40,
    )
    return directory / "f.cast"


def test_recording_of_asciinema_is_played(recorded: Path, pane: tmux.Pane, tmp_path: Path) -> None:
    file = tmp_path / "f.cast"
    file.write_bytes(recorded.read_bytes())
    assert json.loads(file.read_text().partition("\n")[0])["version"] == 2
    Playing(pane, file).assert_over(0)
    assert "\x1b[32mgreen\x1b[39m ünï 日本" in pane.screen(colours=True)
    assert pane.screen().split("\n")[4].endswith("there")


def test_asciinema_plays_recordings_of_anyshell(recorded: Path, pane: tmux.Pane, tmp_path: Path) -> None:
    assert ASCIINEMA is not None
    done = anyshell("run", "--record", str(tmp_path / "f.cast"), "--record-format", "v2", "--", "echo here")
    assert done.returncode == 0
    pane.type(f"{ASCIINEMA} play f.cast; echo code=$?")
    pane.press("Enter")
    assert "\nhere\ncode=0\n" in pane.wait("code=0\n")


def test_recording_of_asciinema_is_drawn(recorded: Path) -> None:
    done = anyshell("screenshot", str(recorded))
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode() == "green ünï 日本\n\n\n\n         there\n20 70\n"
