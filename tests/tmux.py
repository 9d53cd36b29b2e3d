"""A terminal with a person before it: tmux has the one, and what the other types is sent to it."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from .cli_program import wait_written

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

TMUX = shutil.which("tmux")

FLAGS = " ".join(
    f"#{{{name}}}"
    for name in (
        "alternate_on",
        "cursor_flag",
        "keypad_flag",
        "keypad_cursor_flag",
        "insert_flag",
        "origin_flag",
        "wrap_flag",
        "mouse_standard_flag",
        "mouse_button_flag",
        "mouse_all_flag",
        "mouse_sgr_flag",
        "scroll_region_upper",
        "scroll_region_lower",
    )
)
"""Every mode of a terminal that tmux tells of."""

SECONDS = 20


class Server:
    """A tmux server of the tests' own."""

    def __init__(self, socket: Path) -> None:
        assert TMUX is not None
        self._command = [TMUX, "-S", str(socket), "-f", "/dev/null"]
        self._panes = 0

    def __call__(self, *words: str) -> str:
        """Give it a command."""
        done = subprocess.run([*self._command, *words], check=True, capture_output=True, timeout=20)
        return done.stdout.decode()

    def open(self, directory: Path) -> Pane:
        """A terminal with a shell that edits no lines: it leaves all modes as they are."""
        self._panes += 1
        name = f"pane{self._panes}"
        variables = [
            f"{variable}={os.environ[variable]}"
            for variable in ("HOME", "ANYSHELL_STATE_DIR", "PATH")
            if variable in os.environ
        ]
        self(
            *("new-session", "-d", "-s", name, "-x", "80", "-y", "24", "-c", str(directory)),
            *(word for variable in variables for word in ("-e", variable)),
            *("-e", f"PYTHON={sys.executable}", "-e", "ENV="),
            "exec sh",
        )
        return Pane(self, name, directory)


class Pane:
    """One terminal."""

    def __init__(self, server: Server, name: str, directory: Path) -> None:
        self._server = server
        self._name = name
        self._directory = directory

    def run(
        self, text: str, *options: str, line: str = 'sh start; echo "code=$?"', door: str = "run --pty"
    ) -> int:
        """Run the program with a script for bash, and then say how it has ended. Returns the program's pid.

        No word of the script is on the screen because it was typed.
        """
        script, start, pid = (self._directory / name for name in ("script", "start", "pid"))
        script.write_text(text + "\n")
        words = " ".join(options)
        start.write_text(
            f'echo $$ >{pid}\nexec "$PYTHON" -m anyshell {door} {words} -- bash --norc {script}\n'
        )
        self.type(line)
        self.press("Enter")
        return int(wait_written(pid))

    def type(self, text: str) -> None:
        """Type a text."""
        self._server("send-keys", "-t", self._name, "-l", text)

    def press(self, *names: str) -> None:
        """Press keys, by tmux's names of them."""
        self._server("send-keys", "-t", self._name, *names)

    def paste(self, text: str) -> None:
        """Paste a text, between brackets if that was asked for."""
        self._server("set-buffer", text)
        self._server("paste-buffer", "-p", "-r", "-d", "-t", self._name)

    def resize(self, columns: int, rows: int) -> None:
        """Give it another size."""
        self._server("resize-window", "-t", self._name, "-x", str(columns), "-y", str(rows))

    def close(self) -> None:
        """Take it away from its programs."""
        self._server("kill-session", "-t", self._name)

    def screen(self, *, colours: bool = False, history: bool = False) -> str:
        """What stands there; with what has left it at its top, if that is asked for."""
        options = [*(["-e"] if colours else []), *(["-S", "-"] if history else [])]
        return self._server("capture-pane", "-p", *options, "-t", self._name)

    @property
    def rang(self) -> bool:
        """Whether its bell has rung since the last look."""
        return self._server("display-message", "-p", "-t", self._name, "#{window_bell_flag}").strip() == "1"

    def flags(self) -> str:
        """The modes that are on."""
        return self._server("display-message", "-p", "-t", self._name, FLAGS).strip()

    def tty(self) -> str:
        """The name of its device."""
        return self._server("display-message", "-p", "-t", self._name, "#{pane_tty}").strip()

    def settings(self) -> str:
        """What is set in the terminal: what ``stty -g`` of a shell there says."""
        return subprocess.run(
            ["stty", "-g", "-F", self.tty()], check=True, capture_output=True, timeout=20
        ).stdout.decode()

    def wait(self, text: str) -> str:
        """Wait until something stands there."""
        self.wait_until(lambda: text in self.screen(), text)
        return self.screen()

    def wait_until(self, holds: Callable[[], bool], what: str) -> None:
        """Wait for a state that must come."""
        give_up = time.monotonic() + SECONDS
        while not holds():
            assert time.monotonic() < give_up, f"it never came to {what!r}:\n{self.screen()}\n{self.flags()}"
            time.sleep(0.02)


@contextlib.contextmanager
def serving(directory: Path) -> Iterator[Server]:
    """A server that is stopped at the end."""
    server = Server(directory / "tmux")
    server("new-session", "-d", "-s", "first", "exec cat")
    try:
        yield server
    finally:
        server("kill-server")
