"""Screens of other emulators for the bytes of a terminal, and recordings of such bytes."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from anyshell import Terminal
from anyshell.output import TerminalOutput

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from anyshell.types import Screen

DRAWN = "all-is-drawn"
BOUND = 20.0  # seconds


def record(argv: Sequence[str], steps: Sequence[tuple[bytes, bytes]] = (), *, until: bytes = b"") -> bytes:
    """The output of a program on a terminal of 80 by 24.

    Args:
        argv: The program.
        steps: The text to wait for in the output after the previous step, and the text to type then.
        until: The last text to wait for; empty waits for the end of the program. A program that continues is killed.
    """
    if sys.platform == "win32":
        raise NotImplementedError("there are no such terminals")
    import pty  # no such file

    pid, fd = pty.fork()
    if pid == 0:
        os.environ |= {"TERM": "xterm-256color", "LC_ALL": "C.UTF-8", "LINES": "24", "COLUMNS": "80"}
        os.execvp(argv[0], list(argv))
    os.set_blocking(fd, False)
    output = bytearray()
    start = 0
    try:
        for expected, keys in steps:
            start = _wait(fd, output, expected, start)
            os.write(fd, keys)
        _wait(fd, output, until, start)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.close(fd)
        os.waitpid(pid, 0)
    return bytes(output)


def _wait(fd: int, output: bytearray, expected: bytes, start: int) -> int:
    deadline = time.monotonic() + BOUND
    while True:
        found = re.search(expected, output[start:]) if expected else None
        if found is not None:
            return start + found.end()
        ready = select.select([fd], [], [], max(0, deadline - time.monotonic()))[0]
        assert ready, f"{expected!r} did not come: {bytes(output[start:])!r}"
        try:
            output += os.read(fd, 64 * 1024)
        except OSError:  # the end of the program
            assert not expected, f"it ended without {expected!r}: {bytes(output[start:])!r}"
            return start


class Tmux:
    """A separate tmux, which shows its screen for given output."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._count = 0

    def show(self, data: bytes, columns: int = 80, rows: int = 24) -> tuple[list[str], str]:
        """The rows, the row of the cursor, and whether the screen is the alternate screen."""
        name = self._draw(data, columns, rows)
        shown = self._run("capture-pane", "-p", "-t", name).split("\n")[:rows]
        state = self._run("display", "-p", "-t", name, "#{cursor_y} #{alternate_on}").strip()
        return [row.rstrip() for row in shown], state

    def coloured(self, data: bytes, columns: int = 80, rows: int = 24) -> bytes:
        """The rows with their colours, as tmux prints them."""
        name = self._draw(data, columns, rows)
        return self._run("capture-pane", "-p", "-e", "-N", "-t", name).encode()

    def _draw(self, data: bytes, columns: int, rows: int) -> str:
        self._count += 1
        name = f"s{self._count}"
        file = self._directory / name
        file.write_bytes(data + f"\x1b\\\x1b]2;{DRAWN}\x1b\\".encode())
        self._run(
            *("new-session", "-d", "-s", name, "-x", str(columns), "-y", str(rows)),
            f"stty raw -echo; cat {file}; exec sleep 60",
        )
        deadline = time.monotonic() + BOUND
        while self._run("display", "-p", "-t", name, "#{pane_title}") != f"{DRAWN}\n":
            assert time.monotonic() < deadline, "tmux has not drawn it"
            time.sleep(0.01)
        return name

    def close(self) -> None:
        if self._count:
            self._run("kill-server")

    def _run(self, *arguments: str) -> str:
        done = subprocess.run(
            ["tmux", "-S", str(self._directory / "socket"), "-f", "/dev/null", *arguments],
            env=os.environ | {"LC_ALL": "C.UTF-8", "TMUX": ""},
            capture_output=True,
            text=True,
            timeout=BOUND,
            check=True,
        )
        return done.stdout


def drawn(data: bytes, columns: int = 80, rows: int = 24) -> Screen:
    """The screen of anyshell's emulator."""
    output = TerminalOutput(Terminal(columns=columns, rows=rows))
    output.feed(data)
    return output.screen
