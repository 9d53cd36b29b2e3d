"""Run the program like a person: as a separate process, with its own descriptors and signals."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import IO, TYPE_CHECKING, Any

import psutil
import pytest
from click.testing import CliRunner

from anyshell.cli import main

if sys.platform == "linux":
    from .cli_server import Forked, serves

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_MODULE = ["-m", "anyshell"]

_SECONDS = 30 if sys.platform != "win32" else 90
"""Seconds for one run of the program; PowerShell starts slowly."""

COPY = (sys.executable, "-c", "import shutil, sys; shutil.copyfileobj(sys.stdin.buffer, sys.stdout.buffer)")
"""A program that copies stdin to stdout unchanged, on any system."""

SLEEP = (sys.executable, "-c", "import sys, time; time.sleep(float(sys.argv[1]))")
"""A program that sleeps for as long as its argument says."""

_SIGNALS = ("SIGINT", "SIGQUIT", "SIGHUP", "SIGTERM", "SIGCHLD", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGXCPU")

# The tests may inherit ignored signals, as a background job of a shell does. This is not a
# preexec_fn, which forks: that is unsafe in a process with threads.
_WITH_SIGNALS = f"""
import fcntl, os, signal, sys, termios
if os.isatty(0):
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
ignored, blocked = (words.split() for words in sys.argv[1:3])
for name in {_SIGNALS}:
    signal.signal(getattr(signal, name), signal.SIG_IGN if name in ignored else signal.SIG_DFL)
signal.pthread_sigmask(signal.SIG_SETMASK, [getattr(signal, name) for name in blocked])
os.execv(sys.executable, [sys.executable, *sys.argv[3:]])
"""


def anyshell(*arguments: str, **how: Any) -> subprocess.CompletedProcess[bytes]:
    """Run the program to its end."""
    how.setdefault("stdin", subprocess.PIPE if "input" in how else subprocess.DEVNULL)
    if "stdout" not in how:
        how |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    given = how.pop("input", None)
    with _program(arguments, how) as program:
        try:
            out, err = program.communicate(given, _SECONDS)
        except BaseException:
            program.kill()
            raise
    return subprocess.CompletedProcess(program.args, program.returncode, out, err)


def _program(arguments: tuple[str, ...], how: dict[str, Any]) -> subprocess.Popen[bytes]:
    if sys.platform == "linux" and serves(how):
        return Forked(arguments, **how)
    return subprocess.Popen([sys.executable, *_MODULE, *arguments], **how)


def within(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Run the program within this process, which is quicker: for tests that need no separate signals or descriptors."""
    result = CliRunner().invoke(main, arguments)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return subprocess.CompletedProcess(arguments, result.exit_code, result.stdout_bytes, result.stderr_bytes)


slow = pytest.mark.skipif(
    sys.platform == "win32", reason="nothing of it depends on the system, and PowerShell starts slowly"
)


def lines(data: bytes) -> list[str]:
    """The printed lines, with the line ending of any system."""
    return data.decode().splitlines()


def either(posix: str, powershell: str) -> str:
    """The text for the default shell of this system."""
    return powershell if sys.platform == "win32" else posix


def script(text: str, **how: Any) -> subprocess.CompletedProcess[bytes]:
    """Run a bash script in which ``anyshell`` is the program."""
    how.setdefault("stdin", subprocess.DEVNULL)
    text = f'anyshell() {{ "{sys.executable}" -m anyshell "$@"; }}\n' + text
    return subprocess.run(["bash", "-c", text], timeout=30, check=False, capture_output=True, **how)


def start(*arguments: str, ignore: str = "", block: str = "", **how: Any) -> subprocess.Popen[bytes]:
    """Start the program, with signals as on a terminal; signals can be ignored or blocked, by their names.

    A terminal as its stdin is also its controlling one.
    """
    how.setdefault("stdin", subprocess.DEVNULL)
    how.setdefault("stdout", subprocess.PIPE)
    if sys.platform == "win32":
        assert ignore == block == "", "there are no such signals"
        return _program(arguments, how)
    if sys.platform == "linux" and serves(how):
        stdin = how["stdin"] if isinstance(how["stdin"], int) else how["stdin"].fileno()
        terminal = stdin >= 0 and os.isatty(stdin)  # below are subprocess.PIPE and similar constants
        ignored = {name: name in ignore.split() for name in _SIGNALS}
        return Forked(arguments, ignored=ignored, blocked=block.split(), terminal=terminal, **how)
    return subprocess.Popen(
        [sys.executable, "-c", _WITH_SIGNALS, ignore, block, *_MODULE, *arguments],
        **how,
    )


def read_line(stream: IO[bytes] | None) -> str:
    """The next printed line of a program."""
    assert stream is not None
    return stream.readline().decode().rstrip("\r\n")


def is_alive(pid: int) -> bool:
    """Whether a process runs. A zombie does not run, although signal 0 finds it."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_until(holds: Callable[[], bool], what: str, seconds: float = _SECONDS) -> None:
    """Wait for a state that is certain to come."""
    give_up = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < give_up, f"it never came to this: {what}"
        time.sleep(0.01)


def wait_written(path: Path) -> str:
    """Wait until a file holds a whole line, and return it."""
    wait_until(lambda: path.exists() and path.read_text().endswith("\n"), f"a line in {path}")
    return path.read_text().strip()
