"""``anyshell console`` on a person's terminal, simulated by tmux."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import psutil
import pytest
from click.testing import CliRunner

assert sys.platform != "win32"  # on other systems mypy skips the code below

from anyshell.cli import main

from .cli_program import anyshell, is_alive, wait_until, wait_written
from .processes import living, unique_seconds
from .ssh_server import is_root, own_name
from .test_cli_pty import pane as pane
from .test_cli_pty import terminals as terminals
from .test_cli_ssh import home as home
from .test_cli_ssh import named

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from . import tmux
    from .ssh_server import Server

EVERYTHING = r"\033[?1049h\033[?25l\033[?1002h\033[?1006h\033[?2004h\033[?1h\033=\033[5;10r\033[?6h\033[4h\033[?7l\033[31m\033(0"


class Console:
    """A console on a person's terminal, and the former state of the terminal."""

    def __init__(self, pane: tmux.Pane, text: str, *options: str) -> None:
        self.pane = pane
        self.before = pane.flags(), pane.settings()
        self.anyshell = pane.run(text, *options, door="console")

    def assert_over(self, code: int) -> str:
        """Check the exit code, and that the terminal is restored."""
        shown = self.pane.wait(f"code={code}")
        assert (self.pane.flags(), self.pane.settings()) == self.before
        # The shell may have received a key meant for the console, which was already dismissed.
        self.pane.press("C-u")
        self.pane.type("echo -$((6*7))-")
        self.pane.press("Enter")
        self.pane.wait("\n-42-\n")
        return shown


def test_keys_reach_the_program_and_the_screen_is_restored(pane: tmux.Pane) -> None:
    text = r"""stty size; echo "$TERM"; printf "\033[1;34mblue\033[m\n"; read -p "name? " x; echo "I am $x"; exit 7"""
    console = Console(pane, text)
    shown = pane.wait("name?")
    assert "\n22 80\nxterm-256color\nblue\n" in shown
    assert "bash --norc" in shown.split("\n")[0]
    assert "Escape Escape or Ctrl-] stops" in shown
    assert "\x1b[1m" in pane.screen(colours=True)
    pane.type("Ünï")
    pane.press("Enter")
    shown = pane.wait("exit code 7")
    assert "name? Ünï\nI am Ünï\n" in shown
    pane.wait_until(lambda: _dismissed(pane, "code=7"), "its end")
    assert "blue" not in console.assert_over(7)  # the former screen is restored


def _dismissed(pane: tmux.Pane, text: str) -> bool:
    """Press a key that dismisses the console, which ignores keys at first; return whether the text is shown."""
    if text in pane.screen():
        return True
    if "closes" in pane.screen():
        pane.press("q")
    return False


def test_the_size_of_the_terminal_is_followed(pane: tmux.Pane) -> None:
    Console(pane, 'trap "stty size" WINCH; stty size; while :; do sleep 0.05; done')
    pane.wait("22 80")
    pane.resize(100, 30)
    pane.wait("28 100")
    pane.press("C-]")
    pane.wait_until(lambda: _dismissed(pane, "code=130"), "its end")


def test_ctrl_c_and_a_single_escape_reach_the_program(pane: tmux.Pane) -> None:
    console = Console(pane, "trap 'echo heard' INT; stty -echoctl; echo ready; read x; cat -v", "--close")
    pane.wait("ready")
    pane.press("C-c")
    pane.wait("heard")
    pane.press("Enter", "Escape")
    pane.type("x")
    pane.press("Enter")
    pane.wait("^[x")
    pane.press("C-d")
    console.assert_over(0)


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        ("\x1bd\x1bd\x1b.\x1b.", "^[d^[d^[.^[."),  # keys that are held
        ("\x1bb\x1bf\x1b1\x1bX", "^[b^[f^[1^[X"),
        ("\x1b\x7f\x1b\r\x1b\x02", "^[^?^[^M^[^B"),
        ("\x1b:wq\r", "^[:wq^M"),  # a quick typist leaves vim like this
        (
            "\x1bOh, a line longer than any sequence could be",
            "^[Oh, a line longer than any sequence could be",
        ),
        ("\x1bOhello \x1bOA\x1b[B\x1bd", "^[Ohello ^[[A^[[B^[d"),
        ("\x1b[\x1bO\x1bx", "^[[^[O^[x"),  # an incomplete sequence
    ],
)
def test_alt_and_an_escape_before_other_keys_arrive(pane: tmux.Pane, sent: str, read: str) -> None:
    console = Console(pane, "stty raw -echo; printf ready; dd bs=1 2>&- | cat -v", "--close")
    pane.wait("ready")
    pane.type(sent)
    pane.type("|")
    assert f"ready{read}|" in pane.wait("|")
    pane.press("C-]")
    console.assert_over(130)


def test_two_escapes_stop_the_tree(pane: tmux.Pane) -> None:
    seconds = unique_seconds()
    console = Console(pane, f"(setsid sleep {seconds} &); echo ready; sleep {seconds}")
    pane.wait("ready")
    pane.press("Escape", "Escape")
    assert "ready" in pane.wait("stopped  Enter closes")
    assert living(seconds) == []
    assert is_alive(console.anyshell)
    pane.wait_until(lambda: _dismissed(pane, "code=130"), "its end")
    console.assert_over(130)


def test_stop_key_option_replaces_the_default_keys(pane: tmux.Pane) -> None:
    Console(pane, "echo ready; cat -v", "--stop-key F9", "--stop-key 'Ctrl-x Ctrl-x'", "--close")
    pane.wait("F9 or Ctrl-x Ctrl-x stops")
    pane.wait("ready")
    pane.press("Escape", "Escape")
    pane.wait("^[^[")
    pane.press("C-x", "C-x")
    pane.wait("code=130")


def test_page_up_shows_rows_scrolled_away(pane: tmux.Pane) -> None:
    Console(pane, "seq 100; read x", "--close")
    pane.wait("\n100\n")
    pane.press("S-PPage")
    shown = pane.wait("rows back")
    assert "\n70\n" in shown
    assert "\n100\n" not in shown
    pane.press("Enter")
    pane.wait("code=0")


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)],
    ids=["SIGTERM", "SIGHUP", "SIGINT"],
)
def test_terminal_is_restored_after_a_signal(
    pane: tmux.Pane, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    file = tmp_path / "program"
    console = Console(pane, f"echo $$ >{file}; printf '{EVERYTHING}'; sleep 300")
    program = int(wait_written(file))
    pane.wait("stops")
    os.kill(console.anyshell, number)
    console.assert_over(code)
    assert not is_alive(program)


def test_closed_terminal_stops_the_program(pane: tmux.Pane, tmp_path: Path) -> None:
    file = tmp_path / "program"
    console = Console(pane, f"trap '' HUP; echo $$ >{file}; while :; do sleep 0.05; done")
    program = int(wait_written(file))
    pane.wait("stops")
    pane.close()
    wait_until(lambda: not is_alive(program) and not is_alive(console.anyshell), "the end of both")


def test_console_ends_with_its_terminal_despite_ignored_sighup(pane: tmux.Pane, tmp_path: Path) -> None:
    file = tmp_path / "program"
    console = Console(pane, f"echo $$ >{file}; while :; do sleep 0.05; done")
    console_pid, program = console.anyshell, int(wait_written(file))
    pane.wait("stops")
    pane.press("C-]")
    pane.wait_until(lambda: _dismissed(pane, "code=130"), "its end")
    assert not is_alive(program)
    assert not is_alive(console_pid)
    pane.run(f"echo $$ >{file}2; while :; do sleep 0.05; done", line="trap '' HUP; sh start", door="console")
    program = int(wait_written(file.with_name("program2")))
    pane.wait("stops")
    second = int((tmp_path / "pid").read_text())
    pane.close()
    wait_until(lambda: not is_alive(program) and not is_alive(second), "the end of both")


def test_console_reports_a_timeout(pane: tmux.Pane) -> None:
    console = Console(pane, "echo ready; sleep 300", "--timeout 1.5")
    pane.wait("timed out, and was stopped")
    pane.wait_until(lambda: _dismissed(pane, "code=124"), "its end")
    assert "anyshell: timed out after 1.5 s; the command was stopped" in console.assert_over(124)


def test_failed_start_is_reported_and_the_terminal_restored(pane: tmux.Pane, tmp_path: Path) -> None:
    shell = tmp_path / "bash"
    shell.write_text('#!/bin/sh\nrm "$0"\nexec /bin/bash "$@"\n')
    shell.chmod(0o755)
    console = Console(pane, "true", f"--shell {shell}")
    assert "anyshell: " in console.assert_over(125)


def test_console_survives_sigtstp_from_outside(pane: tmux.Pane) -> None:
    console = Console(pane, "echo ready; read x; echo got $x; read y", "--close")
    pane.wait("ready")
    os.kill(console.anyshell, signal.SIGTSTP)
    pane.wait_until(lambda: (pane.flags(), pane.settings()) == console.before, "the shell's terminal")
    pane.type("fg; echo code=$?")
    pane.press("Enter")
    pane.wait("ready")
    pane.type("one")
    pane.press("Enter")
    pane.wait("got one")
    pane.press("Enter")
    console.assert_over(0)


def test_sigcont_without_a_stop_has_no_effect(pane: tmux.Pane) -> None:
    console = Console(pane, "echo ready; read x; echo got $x; read y", "--close")
    pane.wait("ready")
    threads = psutil.Process(console.anyshell).num_threads()
    for _ in range(2):
        os.kill(console.anyshell, signal.SIGCONT)
        pane.wait_until(lambda: "ready" in pane.screen(), "its screen")
    # Textual discards keys typed while it resumes, and on a busy machine it resumes late.
    for looks in range(1000):
        if "got one" in pane.screen():
            break
        if looks % 100 == 0:
            pane.type("one")
            pane.press("Enter")
        time.sleep(0.02)
    pane.wait("got one")
    pane.wait_until(lambda: psutil.Process(console.anyshell).num_threads() <= threads, "as many threads")
    pane.press("Enter")
    console.assert_over(0)


def test_console_survives_sigstop(pane: tmux.Pane) -> None:
    console = Console(pane, "echo ready; read x; echo got $x; read y", "--close")
    pane.wait("ready")
    os.kill(console.anyshell, signal.SIGSTOP)
    pane.wait("Stopped")
    # bash does so, and dash does not.
    subprocess.run(["stty", "-F", pane.tty(), console.before[1].strip()], check=True, timeout=20)
    os.kill(console.anyshell, signal.SIGCONT)  # in the background, where the console has to stop again
    pane.type("fg; echo code=$?")
    pane.press("Enter")
    pane.wait("ready")
    pane.wait_until(lambda: pane.settings() != console.before[1], "its own settings")
    pane.type("one")
    pane.press("Enter")
    pane.wait("got one")
    pane.press("Enter")
    console.assert_over(0)


def test_frozen_terminal_does_not_block_the_console(pane: tmux.Pane, tmp_path: Path) -> None:
    """After Ctrl-S the timeout of the program still applies, and the console still ends on request."""
    file = tmp_path / "program"
    console = Console(
        pane, f"echo $$ >{file}; while :; do echo $RANDOM; sleep 0.02; done", "--timeout 3", "--close"
    )
    program = int(wait_written(file))
    pane.wait("stops")
    tty = pane.tty()
    subprocess.run([sys.executable, "-c", _FREEZE, tty, "TCOOFF"], check=True, timeout=20)
    try:
        wait_until(lambda: not is_alive(program), "the end of its time")
        wait_until(lambda: not is_alive(console.anyshell), "our own end")
    finally:
        subprocess.run([sys.executable, "-c", _FREEZE, tty, "TCOON"], check=True, timeout=20)


_FREEZE = "import os, sys, termios; termios.tcflow(os.open(sys.argv[1], os.O_RDWR | os.O_NOCTTY), getattr(termios, sys.argv[2]))"


def test_console_works_on_a_remote_host(
    ssh_host: Callable[[str], Server], pane: tmux.Pane, home: Path
) -> None:
    named(ssh_host("openssh as root" if is_root() else "openssh as a user"), home, alias="box")
    before = pane.flags(), pane.settings()
    pane.type(
        '"$PYTHON" -m anyshell console --close --host box -- "stty size; id -un; read x; exit 9"; echo code=$?'
    )
    pane.press("Enter")
    shown = pane.wait(own_name())
    assert "22 80\n" in shown
    assert "box" in shown.split("\n")[0]
    pane.press("Enter")
    pane.wait("code=9")
    assert (pane.flags(), pane.settings()) == before


def test_console_without_a_terminal_names_the_alternative() -> None:
    done = anyshell("console", "--", "true")
    assert (done.returncode, done.stdout) == (125, b"")
    assert b"a console needs a terminal" in done.stderr
    assert b"'anyshell run'" in done.stderr


def test_dumb_terminal_is_reported(pane: tmux.Pane) -> None:
    pane.run("true", line='TERM=dumb sh start; echo "code=$?"', door="console")
    assert "a console cannot be drawn on this terminal" in pane.wait("code=125")


def test_the_help_needs_no_textual() -> None:
    result = CliRunner().invoke(main, ["console", "--help"])
    assert result.exit_code == 0
    assert "Escape" in result.output


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--stop-key", "Nokey"), "Nokey"),
        (("--scrollback", "-1"), "scrollback"),
        (("--scrollback", "10001"), "10,000"),
    ],
)
def test_wrong_usage_is_reported(pane: tmux.Pane, options: tuple[str, str], said: str) -> None:
    pane.type(f'"$PYTHON" -m anyshell console {" ".join(options)} -- true; echo code=$?')
    pane.press("Enter")
    assert said in pane.wait("code=2").partition("true; echo")[2]
