"""``anyshell replay`` with stdout that is not a terminal, and its errors."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from anyshell.cli.commands.recordings.lines import READ_SIZE, Lines

from .cli_program import anyshell, start, within
from .recordings import v2

if TYPE_CHECKING:
    from pathlib import Path

HOUR = 3600.0

LARGEST_MEMORY = 48 * 1024
"""KiB that a replay may take, for a recording of any size. The interpreter alone takes about 18 MiB."""


def test_pipe_gets_the_whole_recording_at_once(tmp_path: Path) -> None:
    file = v2(tmp_path / "f.cast", (0.5, "one\r\n"), (HOUR, "\x1b[31mtwo\x1b[m ü\r\n"))
    done = anyshell("replay", str(file))
    assert (done.returncode, done.stdout, done.stderr) == (0, "one\r\n\x1b[31mtwo\x1b[m ü\r\n".encode(), b"")


def test_output_of_every_version_is_played(tmp_path: Path) -> None:
    files = {
        "v1": {"version": 1, "width": 80, "height": 24, "stdout": [[0.1, "one "], [0.2, "two"]]},
        "v2": [
            {"version": 2, "width": 80, "height": 24},
            [0.1, "o", "one "],
            [0.2, "i", "no"],
            [0.3, "o", "two"],
        ],
        "v3": [
            {"version": 3, "term": {"cols": 80, "rows": 24}},
            *([0.1, "o", "one "], [0.1, "m", "no"], [0.1, "r", "90x30"], [0.1, "z", "no"], [0.1, "o", "two"]),
            [0.1, "x", "0"],
        ],
    }
    for name, content in files.items():
        lines = content if isinstance(content, list) else [content]
        (tmp_path / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
        done = within("replay", str(tmp_path / name))
        assert (done.returncode, done.stdout) == (0, b"one two"), name


def test_reader_returns_the_lines_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"one\n\n" + b"x" * READ_SIZE + b"\nlast")
    with file.open("rb", buffering=0) as opened:
        lines = Lines(opened)
        assert not lines.is_ready
        assert (lines.readline(10), lines.is_ready) == (b"one\n", True)
        assert lines.readline(10) == b"\n"
        assert (lines.readline(10), lines.is_ready) == (b"x" * 10, False)
        assert lines.readline(READ_SIZE) == b"x" * (READ_SIZE - 10) + b"\n"
        assert (lines.read(2), lines.readline(10)) == (b"la", b"st")
        assert lines.readline(10) == lines.read(10) == b""


def test_sequences_with_side_effects_are_not_printed(tmp_path: Path) -> None:
    file = v2(tmp_path / "f.cast", (0.1, "a\x1b]52;c;AAAA"), (0.2, "\x07b\x1b[6n\x1b[?1000hc"))
    assert within("replay", str(file)).stdout == b"abc"


def test_modes_left_on_are_switched_off_at_the_end(tmp_path: Path) -> None:
    file = v2(tmp_path / "f.cast", (0.1, "\x1b[?1049h\x1b[?25l\x1b[31mred"))
    printed = within("replay", str(file)).stdout
    assert printed.startswith(b"\x1b[?1049h\x1b[?25l\x1b[31mred\x18")
    assert {printed.index(back) for back in (b"\x1b[?1049l", b"\x1b[?25h", b"\x1b[m")}


def test_broken_line_is_named_after_earlier_output(tmp_path: Path) -> None:
    file = v2(tmp_path / "f.cast", (0.1, "before\r\n"))
    with file.open("a") as opened:
        opened.write('[0.2, "o"]\n[0.3, "o", "after"]\n')
    done = within("replay", str(file))
    assert (done.returncode, done.stdout) == (125, b"before\r\n")
    assert done.stderr.decode().startswith(f"anyshell: {file}: line 3: ")


def test_cut_off_line_is_reported(tmp_path: Path) -> None:
    """The program that wrote the recording was killed."""
    file = v2(tmp_path / "f.cast", (0.1, "before\r\n"), (0.2, "after"))
    file.write_bytes(file.read_bytes()[:-6])
    done = within("replay", str(file))
    assert (done.returncode, done.stdout) == (125, b"before\r\n")
    assert b"line 3 is cut off" in done.stderr


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", b"line 1: the file is empty"),
        (b"hello\n", b"line 1"),
        (b'{"version": 9, "width": 80, "height": 24}\n', b"line 1: the version"),
        (b"\xff\xfe\x00\n", b"line 1"),
    ],
)
def test_malformed_recording_is_refused(tmp_path: Path, content: bytes, said: bytes) -> None:
    file = tmp_path / "f.cast"
    file.write_bytes(content)
    done = within("replay", str(file))
    assert (done.returncode, done.stdout) == (125, b"")
    assert said in done.stderr
    assert b"Traceback" not in done.stderr


def test_missing_file_is_named(tmp_path: Path) -> None:
    done = within("replay", str(tmp_path / "none.cast"))
    assert done.returncode == 125
    assert b"none.cast" in done.stderr
    assert within("replay", str(tmp_path)).returncode == 125


@pytest.mark.parametrize(
    "words",
    [
        ("--speed", "0"),
        ("--speed", "-1"),
        ("--speed", "nan"),
        ("--speed", "inf"),
        ("--speed", "fast"),
        ("--idle-limit", "0"),
        ("--idle-limit", "-1"),
        ("--idle-limit", "inf"),
    ],
)
def test_malformed_numbers_are_wrong_usage(tmp_path: Path, words: tuple[str, str]) -> None:
    file = v2(tmp_path / "f.cast", (0.1, "one"))
    done = within("replay", *words, str(file))
    assert (done.returncode, done.stdout) == (2, b"")
    assert f"'{words[1]}'".encode() in done.stderr


def test_closed_reader_ends_the_replay(tmp_path: Path) -> None:
    file = v2(tmp_path / "f.cast", *((float(at), "x" * 10_000) for at in range(100)))
    program = start("replay", str(file))
    assert program.stdout is not None
    program.stdout.read(10)
    program.stdout.close()
    assert program.wait(30) == 141


def test_replay_loads_no_rich_textual_or_asyncssh(tmp_path: Path) -> None:
    file = v2(tmp_path / "f.cast", (0.1, "one"))
    look = (
        "import sys\n"
        "from anyshell.cli import main\n"
        "main(['replay', sys.argv[1]], standalone_mode=False)\n"
        "print([name for name in ('rich', 'textual', 'asyncssh', 'asyncio') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", look, file], check=True, capture_output=True)
    assert done.stdout.split() == [b"one[]"]


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells how much memory one program has taken")
def test_memory_does_not_grow_with_the_recording(tmp_path: Path) -> None:
    file = v2(tmp_path / "f.cast")
    line = json.dumps([0.1, "o", "some lines of output, as a build has them\r\n" * 20]) + "\n"
    with file.open("a") as opened:
        for _ in range(1024):
            opened.write(line * 32)
    assert file.stat().st_size > 24 * 1024**2
    look = (
        "import re, sys\n"
        "from anyshell.cli import main\n"
        "main(['replay', sys.argv[1]], standalone_mode=False)\n"
        "print(re.search(r'VmHWM:\\s+(\\d+) kB', open('/proc/self/status').read())[1], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", look, file], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    assert 1024 < int(done.stderr) < LARGEST_MEMORY
