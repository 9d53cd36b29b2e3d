"""The program ``anyshell`` where it is Windows': Ctrl-C, consoles, exit codes of 32 bits, handles."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if sys.platform != "win32":
    pytest.skip("this is of Windows", allow_module_level=True)
assert sys.platform == "win32"  # mypy follows what is below otherwise

import signal

from .cli_program import SLEEP, anyshell, is_alive, read_line, start
from .systems import SYSTEM

if TYPE_CHECKING:
    from pathlib import Path

WAIT = (sys.executable, "-c", "import os, time; print(os.getpid(), flush=True); time.sleep(300)")
"""A program that prints its number, and then nothing."""

NEIGHBOUR = """
import os, signal, subprocess, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
program = subprocess.Popen([sys.executable, "-m", "anyshell", *sys.argv[1:]], stdout=subprocess.PIPE)
print(program.stdout.readline().decode().strip())
os.kill(0, signal.CTRL_C_EVENT)
print(program.wait())
"""
"""Shares a console with the program, and presses Ctrl-C when that has printed a line."""


def pressed(*arguments: str) -> list[str]:
    """What the program's first line and exit code are, when Ctrl-C is pressed on its console after the line."""
    done = subprocess.run(
        [sys.executable, "-c", NEIGHBOUR, *arguments],
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=90,
        check=True,
        creationflags=subprocess.CREATE_NO_WINDOW,  # with a hidden console of its own
    )
    # Under Wine 8 a socket that has room says at times that it has none, and Python tells of that.
    assert done.stderr == b"" or (SYSTEM == "wine" and b"signal wakeup fd" in done.stderr), done.stderr
    return done.stdout.decode().split()


def test_ctrl_c_stops_what_runs() -> None:
    pid, code = pressed("run", "--", *WAIT)
    assert code == "130"
    assert not is_alive(int(pid))


@pytest.mark.skipif(SYSTEM == "wine", reason="Wine 8 tells no other group of Ctrl-Break")
def test_ctrl_break_stops_what_runs() -> None:
    with start("run", "--", *WAIT, creationflags=subprocess.CREATE_NEW_PROCESS_GROUP) as program:
        pid = int(read_line(program.stdout))
        program.send_signal(signal.CTRL_BREAK_EVENT)
        assert program.wait(90) == 128 + signal.SIGBREAK
    assert not is_alive(pid)


def test_command_ends_with_a_killed_anyshell() -> None:
    with start("run", "--", *WAIT) as program:
        pid = int(read_line(program.stdout))
        program.kill()
        assert program.stdout is not None
        assert program.stdout.read() == b""  # its holders are gone
    assert not is_alive(pid)


def test_an_exit_code_may_have_32_bits() -> None:
    program = f"import ctypes; ctypes.WinDLL('kernel32').ExitProcess({0xC0000005})"
    assert anyshell("run", "--", sys.executable, "-c", program).returncode == 0xC0000005


def test_text_for_a_program_is_utf_8_with_line_feeds_whatever_the_page_is(tmp_path: Path) -> None:
    """The page here has no letter of that name."""
    name = "\N{CYRILLIC SMALL LETTER ZHE}"
    (tmp_path / name).mkdir()
    env = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    env |= {"PYTHONUTF8": "0", "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    done = anyshell("detect", cwd=tmp_path / name, env=env)
    assert (done.returncode, done.stderr) == (0, b"")
    assert f"\\{name}\n" in done.stdout.decode()
    assert b"\r" not in done.stdout


def without_handles(*arguments: str) -> int:
    """The exit code of the program when it is given no stdin, stdout or stderr at all."""
    none = subprocess.STARTUPINFO(dwFlags=subprocess.STARTF_USESTDHANDLES)
    none.hStdInput = none.hStdOutput = none.hStdError = 0
    words = [sys.executable, "-m", "anyshell", *arguments]
    return subprocess.Popen(words, startupinfo=none).wait(90)


def test_silent_command_needs_no_handles() -> None:
    assert without_handles("run", "--", "exit 256") == 256


def test_output_without_a_reader_is_our_failure() -> None:
    assert without_handles("run", "--", "'out'") == 125


def test_quick_end_does_not_wait_for_stdin() -> None:
    """A thread that reads a pipe holds up, on Windows, much that is done with that pipe meanwhile."""
    with start("run", "--", *SLEEP, "0", stdin=subprocess.PIPE) as program:
        assert program.wait(90) == 0


def test_a_command_is_undone(tmp_path: Path) -> None:
    (tmp_path / "kept.txt").write_text("one\n")
    change = "import os; os.remove('kept.txt'); open('made.txt', 'w').close()"
    done = anyshell("run", "--checkpoint", "--effects", "--", sys.executable, "-c", change, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "1 created, 1 deleted" in done.stderr.decode()
    undone = anyshell("undo", "--yes", cwd=tmp_path)
    assert undone.returncode == 0, undone.stderr
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("kept.txt", "one\n")]
    trial = anyshell("run", "--trial", "--discard", "--", "exit 0", cwd=tmp_path)
    assert (trial.returncode, trial.stdout) == (125, b"")
    assert "Linux" in trial.stderr.decode()
