"""Windows parts of the program ``anyshell``: Ctrl-C, consoles, exit codes of 32 bits, handles."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if sys.platform != "win32":
    pytest.skip("this is of Windows", allow_module_level=True)
assert sys.platform == "win32"  # on other systems mypy skips the code below

import signal

from .cli_program import SLEEP, anyshell, is_alive, read_line, start
from .systems import SYSTEM

if TYPE_CHECKING:
    from pathlib import Path

WAIT = (sys.executable, "-c", "import os, time; print(os.getpid(), flush=True); time.sleep(300)")
"""A program that prints its pid, and then waits."""

NEIGHBOUR = """
import os, signal, subprocess, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
program = subprocess.Popen([sys.executable, "-m", "anyshell", *sys.argv[1:]], stdout=subprocess.PIPE)
print(program.stdout.readline().decode().strip())
os.kill(0, signal.CTRL_C_EVENT)
print(program.wait())
"""
"""Shares a console with the program, and presses Ctrl-C after the first line of the program."""


def pressed(*arguments: str) -> list[str]:
    """The first line and exit code of a program, with Ctrl-C pressed on its console after the line."""
    done = subprocess.run(
        [sys.executable, "-c", NEIGHBOUR, *arguments],
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=90,
        check=True,
        creationflags=subprocess.CREATE_NO_WINDOW,  # with its own hidden console
    )
    # Under Wine 8 a writable socket sometimes reports a full buffer, and Python prints that error.
    assert done.stderr == b"" or (SYSTEM == "wine" and b"signal wakeup fd" in done.stderr), done.stderr
    return done.stdout.decode().split()


def test_ctrl_c_stops_the_command() -> None:
    pid, code = pressed("run", "--", *WAIT)
    assert code == "130"
    assert not is_alive(int(pid))


@pytest.mark.skipif(SYSTEM == "wine", reason="Wine 8 tells no other group of Ctrl-Break")
def test_ctrl_break_stops_the_command() -> None:
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
        assert program.stdout.read() == b""  # every process that held the pipe has ended
    assert not is_alive(pid)


def test_an_exit_code_may_have_32_bits() -> None:
    program = f"import ctypes; ctypes.WinDLL('kernel32').ExitProcess({0xC0000005})"
    assert anyshell("run", "--", sys.executable, "-c", program).returncode == 0xC0000005


def test_piped_text_is_utf_8_with_line_feeds_under_any_code_page(tmp_path: Path) -> None:
    """The code page of the test lacks this letter."""
    name = "\N{CYRILLIC SMALL LETTER ZHE}"
    (tmp_path / name).mkdir()
    env = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    env |= {"PYTHONUTF8": "0", "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    done = anyshell("detect", cwd=tmp_path / name, env=env)
    assert (done.returncode, done.stderr) == (0, b"")
    assert f"\\{name}\n" in done.stdout.decode()
    assert b"\r" not in done.stdout


def without_handles(*arguments: str) -> int:
    """The exit code of the program started without stdin, stdout and stderr."""
    none = subprocess.STARTUPINFO(dwFlags=subprocess.STARTF_USESTDHANDLES)
    none.hStdInput = none.hStdOutput = none.hStdError = 0
    words = [sys.executable, "-m", "anyshell", *arguments]
    return subprocess.Popen(words, startupinfo=none).wait(90)


def test_silent_command_needs_no_handles() -> None:
    assert without_handles("run", "--", "exit 256") == 256


def test_output_without_handles_exits_with_125() -> None:
    assert without_handles("run", "--", "'out'") == 125


def test_quick_end_does_not_wait_for_stdin() -> None:
    """On Windows, a thread that reads a pipe blocks many other operations on that pipe."""
    with start("run", "--", *SLEEP, "0", stdin=subprocess.PIPE) as program:
        assert program.wait(90) == 0


def test_undo_reverts_a_command(tmp_path: Path) -> None:
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
