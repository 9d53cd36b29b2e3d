"""``anyshell run --record``: output and typed input, as a file."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

assert sys.platform != "win32"  # on other systems mypy skips the code below

from anyshell.cli import main
from anyshell.recordings import Event, Header, read

from .cli_program import anyshell
from .test_cli_pty import pane as pane
from .test_cli_pty import terminals as terminals
from .test_cli_ssh import home as home

if TYPE_CHECKING:
    from pathlib import Path

    from . import tmux


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The path of the recording, which does not exist yet."""
    return tmp_path / "demo.cast"


def recorded(file: Path) -> tuple[Header, list[Event]]:
    with file.open("rb") as opened:
        header, events = read(opened)
        return header, list(events)


def shown(file: Path, code: str = "o") -> str:
    return "".join(event.data for event in recorded(file)[1] if event.code == code)


def test_a_command_is_shown_and_recorded(file: Path) -> None:
    done = anyshell("run", "--record", str(file), "--", "echo out; echo err >&2; exit 3")
    assert (done.returncode, done.stdout, done.stderr) == (3, b"out\n", b"err\n")
    assert sorted(shown(file).splitlines()) == ["err", "out"]
    assert recorded(file)[0].version == 3
    assert recorded(file)[1][-1].data == "3"


def test_input_and_version_2_need_options(file: Path, tmp_path: Path) -> None:
    done = anyshell("run", "--record", str(file), "--", "cat", input=b"typed\n")
    assert (done.stdout, shown(file), shown(file, "i")) == (b"typed\n", "typed\r\n", "")
    other = tmp_path / "other.cast"
    words = ("--record-format", "v2", "--record-input")
    anyshell("run", "--record", str(other), *words, "--", "cat", input=b"typed\n")
    assert (recorded(other)[0].version, shown(other, "i")) == (2, "typed\n")


def test_hidden_terminal_is_recorded(file: Path) -> None:
    words = ("--pty", "--columns", "50", "--record", str(file), "--json")
    done = anyshell("run", *words, "--", "stty size")
    header, events = recorded(file)
    assert (header.columns, header.rows, header.term) == (50, 24, "xterm-256color")
    assert [event.data for event in events] == ["24 50\r\n", "0"]
    size = file.stat().st_size
    assert json.loads(done.stdout)["recording"] == {
        "path": str(file),
        "size": size,
        "complete": True,
        "notice": None,
    }


def test_recording_has_no_typed_password(pane: tmux.Pane, file: Path) -> None:
    program = r'printf "Pass\167ord: "; stty -echo; printf ready; read x; stty echo; echo; read -p "name? " y; echo "I am $y"'
    pane.run(program, f"--record {file} --record-input")
    pane.wait("ready")
    pane.type("sesame")
    pane.press("Enter")
    pane.wait("name?")
    pane.resize(90, 30)
    pane.type("Ünï")
    pane.press("Enter")
    pane.wait("I am Ünï\ncode=0")
    header, events = recorded(file)
    assert (header.columns, header.rows) == (80, 24)
    assert (90, 30) in [event.size for event in events if event.code == "r"]
    assert shown(file, "i") == "[secret]\rÜnï\r"
    assert "sesame" not in file.read_text()
    assert shown(file).endswith("I am Ünï\r\n")
    assert events[-1].data == "0"


def test_existing_file_is_not_overwritten(file: Path, tmp_path: Path) -> None:
    file.write_text("precious")
    done = anyshell("run", "--record", str(file), "--", f"touch {tmp_path}/ran")
    assert (done.returncode, done.stdout) == (125, b"")
    assert b"anyshell: cannot record to" in done.stderr
    assert b"choose another name" in done.stderr
    assert file.read_text() == "precious"
    assert not (tmp_path / "ran").exists()


def test_failed_recording_is_reported_and_the_command_unaffected(file: Path) -> None:
    limited = subprocess.run(
        [
            "sh",
            "-c",
            'ulimit -f 40; exec "$@"',
            "sh",
            sys.executable,
            "-m",
            "anyshell",
            "run",
            "--record",
            str(file),
            "--",
            "seq 20000; exit 3",
        ],
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert (limited.returncode, limited.stdout.count(b"\n")) == (3, 20000)
    assert b"anyshell: the recording " in limited.stderr
    assert (
        b" is not whole: it broke off, since the file could not be written: File too large\n"
        in limited.stderr
    )
    assert "".join(f"{number}\r\n" for number in range(1, 20001)).startswith(shown(file))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--record-input",), "--record-input goes with --record FILE"),
        (("--record-format", "v2"), "--record-format goes with --record FILE"),
        (("--record", "f", "--record-format", "v1"), "'v1' is not one of"),
        (("--record", ""), "it is empty: give a file, or leave it out"),
        (("--record", "f", "--background"), "--record does not go with --background"),
    ],
)
def test_bad_record_options_are_wrong_usage(words: tuple[str, ...], message: str) -> None:
    done = CliRunner().invoke(main, ["run", *words, "--", "true"])
    assert (done.exit_code, message in done.output) == (2, True), done.output
