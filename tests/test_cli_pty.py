"""``anyshell run --pty``: on a person's terminal, simulated by tmux, and without a terminal."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

assert sys.platform != "win32"  # on other systems mypy skips the code below

from anyshell.cli import main
from anyshell.cli.terminal.modes import TerminalModes

from . import tmux
from .cli_program import anyshell, is_alive, read_line, start, wait_until, wait_written
from .conftest import missing
from .processes import STARTED, living, unique_seconds
from .ssh_server import is_root, openssh, own_name, sessions
from .test_cli_ssh import home as home
from .test_cli_ssh import named

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from .ssh_server import Server

EVERYTHING = r"\033[?1049h\033[?25l\033[?1002h\033[?1006h\033[?2004h\033[?1h\033=\033[5;10r\033[?6h\033[4h\033[?7l\033[31m\033(0"
"""Turns on every mode that tmux reports, bracketed paste, a colour and the line drawing characters."""

READ = "x=; until read -t 0.1 y; do x=$x$y; done; x=$x$y"
"""Reads a line, and lets traps run meanwhile. After a timeout in the middle of a line, `read` leaves the part that
it has read (bash, SHELL BUILTIN COMMANDS, read -t), and the next `read` continues from that part."""


@pytest.fixture(scope="module")
def terminals(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tmux.Server]:
    """A tmux server."""
    if tmux.TMUX is None:
        missing("tmux", "install tmux")
    with tmux.serving(tmp_path_factory.mktemp("tmux")) as server:
        yield server


@pytest.fixture
def pane(terminals: tmux.Server, home: Path, tmp_path: Path) -> tmux.Pane:
    """A person's terminal."""
    pane = terminals.open(tmp_path)
    pane.wait_until(lambda: pane.screen()[0] in "$#", "a prompt")
    return pane


# --- on a person's terminal -----------------------------------------------------------------------------------


def test_keys_reach_the_program_and_the_screen_is_restored(pane: tmux.Pane) -> None:
    pane.run(
        r"""stty size; echo "$TERM"; printf "\033[1;34mblue\033[m\n"; read -p "name? " x; echo "I am $x" """
    )
    shown = pane.wait("name?")
    assert re.search(r"\n24 80\n(tmux|screen)", shown)  # the terminal's own TERM, and not anyshell's
    assert "\x1b[1m\x1b[34mblue" in pane.screen(colours=True)
    pane.type("Ünï")
    pane.press("Enter")
    assert "name? Ünï\nI am Ünï\ncode=0\n" in pane.wait("code=0")


def test_program_has_the_terminal_size_and_gets_resizes(pane: tmux.Pane) -> None:
    pane.run('trap "stty size" WINCH; stty size; while :; do sleep 0.05; done')
    pane.wait("24 80")
    pane.resize(100, 30)
    pane.wait("30 100")
    pane.press("C-c")
    pane.wait("code=130")


def test_given_size_survives_a_resize(pane: tmux.Pane) -> None:
    pane.run('trap "stty size" WINCH; stty size; while :; do sleep 0.05; done', "--columns 40")
    pane.wait("24 40")
    pane.resize(100, 30)
    pane.wait("30 40")
    pane.press("C-c")
    pane.wait("code=130")


def test_a_file_is_edited_and_saved(pane: tmux.Pane, tmp_path: Path) -> None:
    pane.run("vim -u NONE -n notes")
    pane.wait("~\n~")
    assert pane.flags().startswith("1 ")
    pane.type("ione two")
    pane.press("Escape", "Home", "x")
    pane.type(":wq")
    pane.press("Enter")
    pane.wait("code=0")
    assert (tmp_path / "notes").read_text() == "ne two\n"
    assert pane.flags().startswith("0 ")


def test_ctrl_c_and_ctrl_d_reach_the_program(pane: tmux.Pane) -> None:
    pane.run("trap 'echo heard' INT; echo ready; read x; cat; echo end")
    pane.wait("ready")
    pane.press("C-c")
    pane.wait("heard")
    pane.press("a", "Enter", "b", "Enter", "C-d")
    pane.wait("b\nb\nend\ncode=0")


def test_process_left_behind_is_stopped_and_reported(pane: tmux.Pane) -> None:
    seconds = unique_seconds()
    pane.run(f"trap '' HUP; sleep {seconds} & {STARTED}; echo done")
    shown = pane.wait("code=0").replace("\n", "")
    found = re.search(r"doneanyshell: left behind: sleep \(pid (\d+), stopped\)code=0", shown)
    assert found
    assert not is_alive(int(found[1]))
    assert living(seconds) == []


def test_overlong_line_rings_the_bell_and_keeps_the_program(pane: tmux.Pane) -> None:
    pane.run("echo ready; read x; echo 'end'")
    pane.wait("ready")
    pane.paste("a" * 5000)
    pane.wait_until(lambda: pane.rang, "a bell")
    pane.press("Enter")
    pane.wait("end\ncode=0")


def test_no_question_is_asked_while_a_program_has_the_terminal(pane: tmux.Pane, tmp_path: Path) -> None:
    (tmp_path / "ask.py").write_text(
        "import asyncio\n"
        "from anyshell.cli.host.person import Person\n"
        "async def ask(person):\n"
        "    print(await person.password('secret? '), await person.answer('', [('code? ', True)]), sep='+')\n"
        "    print('trust', await person.trust('new key'))\n"
        "person = Person()\n"
        "person.is_away = True\n"
        "asyncio.run(ask(person))\n"
    )
    pane.type('"$PYTHON" ask.py')
    pane.press("Enter")
    shown = pane.wait("trust False")
    assert "None+None" in shown
    assert "?" not in shown


# --- how it ends ----------------------------------------------------------------------------------------------


class Program:
    """A program that has turned on every terminal mode."""

    def __init__(self, pane: tmux.Pane, directory: Path, *options: str, then: str = "sleep 300") -> None:
        self.pane = pane
        self.before = pane.flags(), pane.settings()
        file = directory / "program"
        self.anyshell = pane.run(f"echo $$ >{file}; printf '{EVERYTHING}'\n{then}", *options)
        self.pid = int(wait_written(file))
        pane.wait_until(lambda: pane.flags().startswith("1 0 1 1 1 1 0 0 1 0 1 4 9"), "all modes")

    def assert_over(self, code: int) -> None:
        """Check that no mode is left, and that a person can go on typing."""
        pane = self.pane
        pane.wait(f"code={code}")
        assert (pane.flags(), pane.settings()) == self.before
        pane.paste("echo -$((6*7))-\n")  # the shell would see the brackets of a paste
        pane.wait("\n-42-\n")
        assert "\n-42-\n" in pane.screen(colours=True)  # neither coloured nor drawn with line characters
        assert not is_alive(self.pid)


def test_terminal_is_restored_after_the_program(pane: tmux.Pane, tmp_path: Path) -> None:
    program = Program(pane, tmp_path, then="read x; exit 3")
    pane.press("Enter")
    program.assert_over(3)


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)],
    ids=["SIGTERM", "SIGHUP", "SIGINT"],
)
def test_terminal_is_restored_after_a_signal(
    pane: tmux.Pane, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    program = Program(pane, tmp_path)
    os.kill(program.anyshell, number)
    program.assert_over(code)


def test_terminal_is_restored_after_a_kill_of_the_program(pane: tmux.Pane, tmp_path: Path) -> None:
    """The kill comes in the middle of a sequence."""
    program = Program(pane, tmp_path, then=r"read x; printf '\033]0;unfinished'; kill -9 $$")
    pane.press("Enter")
    program.assert_over(137)


def test_terminal_is_restored_after_a_timeout(pane: tmux.Pane, tmp_path: Path) -> None:
    program = Program(pane, tmp_path, "--timeout 5")
    program.assert_over(124)
    assert "anyshell: timed out after 5 s" in pane.screen()


def test_terminal_is_restored_after_a_failed_start(pane: tmux.Pane, tmp_path: Path) -> None:
    """The shell removes itself after its detection."""
    before = pane.flags(), pane.settings()
    shell = tmp_path / "bash"
    shell.write_text('#!/bin/sh\nrm "$0"\nexec /bin/bash "$@"\n')
    shell.chmod(0o755)
    pane.run("true", f"--shell {shell}")
    assert "anyshell: " in pane.wait("code=125")
    assert (pane.flags(), pane.settings()) == before


def test_closed_terminal_stops_the_program(pane: tmux.Pane, tmp_path: Path) -> None:
    last = f"sleep 0.3; echo heard >{tmp_path}/heard; exit"
    program = Program(pane, tmp_path, then=f"trap '' TERM; trap '{last}' HUP; while :; do sleep 0.05; done")
    pane.close()
    wait_until(lambda: not is_alive(program.pid) and not is_alive(program.anyshell), "the end of both")
    assert (tmp_path / "heard").exists()  # the program had its whole grace period


def test_sigtstp_releases_the_terminal_until_fg(pane: tmux.Pane) -> None:
    before = pane.flags(), pane.settings()
    anyshell = pane.run("vim -u NONE -n notes")
    pane.wait("~\n~")
    pane.wait_until(lambda: pane.flags().startswith("1 1"), "a cursor")
    during = pane.flags(), pane.settings()
    os.kill(anyshell, signal.SIGTSTP)
    pane.wait_until(lambda: (pane.flags(), pane.settings()) == before, "the shell's terminal")
    pane.type("fg; echo code=$?")
    pane.press("Enter")
    pane.wait("~\n~")  # vim has drawn its screen again
    pane.wait_until(lambda: (pane.flags(), pane.settings()) == during, "the program's terminal")
    pane.type(":q")
    pane.press("Enter")
    pane.wait("code=0")
    assert (pane.flags(), pane.settings()) == before


def test_sigstop_and_fg_set_the_terminal_modes_again(pane: tmux.Pane) -> None:
    before = pane.flags(), pane.settings()
    anyshell = pane.run("vim -u NONE -n notes")
    pane.wait("~\n~")
    raw = pane.settings()
    os.kill(anyshell, signal.SIGSTOP)
    pane.wait("Stopped")
    pane.type("stty sane; fg; echo code=$?")
    pane.press("C-j")  # the terminal is still raw
    pane.wait_until(lambda: "Stopped" not in pane.screen(), "what the program draws anew")
    assert pane.settings() == raw
    pane.type(":q")
    pane.press("Enter")
    pane.wait("code=0")
    assert (pane.flags(), pane.settings()) == before


def test_background_start_waits_for_the_terminal(pane: tmux.Pane) -> None:
    before = pane.flags(), pane.settings()

    def is_stopped() -> bool:
        pane.press("Enter")  # a shell reports the stop with its next prompt
        return "Stopped" in pane.screen()

    pane.run("read x; exit 3", line="sh start &")
    pane.wait_until(is_stopped, "a stop")
    pane.type("fg; echo code=$?")
    pane.press("Enter")
    pane.wait_until(lambda: pane.settings() != before[1], "the program's terminal")
    pane.press("Enter")
    pane.wait("code=3")
    assert (pane.flags(), pane.settings()) == before


ORPHAN = """
import fcntl, os, subprocess, sys, termios, time
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
if os.fork() == 0:
    os.setpgid(0, 0)
    parent = os.getpid()
    if os.fork() == 0:
        while os.getppid() == parent:
            time.sleep(0.01)
        run = subprocess.run([sys.executable, "-m", "anyshell", "run", "--pty", "true"], stderr=subprocess.PIPE)
        print(run.returncode, run.stderr.decode(), file=open(sys.argv[1] + ".new", "w"), flush=True)
        os.rename(sys.argv[1] + ".new", sys.argv[1])
    os._exit(0)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
"""
"""Runs the program in an orphaned background group, and writes its messages to a file."""


def test_orphan_in_the_background_ends_with_a_reason(home: Path, tmp_path: Path) -> None:
    master, slave = os.openpty()
    try:
        subprocess.run(
            [sys.executable, "-c", ORPHAN, tmp_path / "said"],
            stdin=slave,
            stdout=slave,
            timeout=30,
            check=True,
        )
    finally:
        os.close(master)
        os.close(slave)
    assert (tmp_path / "said").read_text().split("\n")[0] == (
        "125 anyshell: the terminal belongs to another program, or is gone: run it in the foreground"
    )


def test_lines_and_the_end_of_input_can_be_typed_ahead(home: Path) -> None:
    master, slave = os.openpty()
    os.write(master, b"one\ntwo\x04\x04three\n")
    program = start("run", "--pty", "tr a-z A-Z; read -r x; echo got $x", stdin=slave, stdout=slave)
    try:
        assert program.wait(30) == 0
        shown = os.read(master, 65536).decode()
    finally:
        program.kill()
        os.close(master)
        os.close(slave)
    assert "ONE\r\nTWO" in shown
    assert shown.endswith("got three\r\n")


def test_sigterm_ends_a_suspended_program(pane: tmux.Pane, tmp_path: Path) -> None:
    program = Program(pane, tmp_path)
    os.kill(program.anyshell, signal.SIGTSTP)
    pane.wait_until(lambda: pane.settings() == program.before[1], "a shell's terminal")
    pane.paste("kill -TERM %1; kill -CONT %1\n")
    wait_until(lambda: not is_alive(program.pid) and not is_alive(program.anyshell), "the end of both")
    assert (pane.flags(), pane.settings()) == program.before


# --- on another host ------------------------------------------------------------------------------------------


@pytest.fixture
def web(ssh_host: Callable[[str], Server], home: Path) -> str:
    return named(ssh_host("openssh as root" if is_root() else "openssh as a user"), home)


def test_remote_program_has_the_terminal(pane: tmux.Pane, tmp_path: Path, web: str) -> None:
    program = Program(
        pane,
        tmp_path,
        f"--host {web}",
        then=f"trap 'stty size' WINCH; {READ}; [ $x = me ] && exit 4",
    )
    pane.resize(100, 30)
    pane.wait("30 100")
    pane.resize(80, 24)
    pane.type("me")
    pane.press("Enter")
    program.assert_over(4)


def test_terminal_is_restored_after_a_lost_connection(
    pane: tmux.Pane, tmp_path: Path, web: str, ssh_host: Callable[[str], Server]
) -> None:
    program = Program(pane, tmp_path, f"--host {web}")
    for pid in sessions(ssh_host("openssh as root" if is_root() else "openssh as a user").pid):
        os.kill(pid, signal.SIGKILL)
    program.assert_over(255)


def test_host_without_terminals_runs_the_command_in_pipes(web: str, home: Path, tmp_path: Path) -> None:
    with openssh(own_name(), "PermitTTY no") as server:
        named(server, home, alias="plain")
        done = anyshell("run", "--pty", "--host", "plain", "--", "test -t 1 || echo none; cat", input=b"a\n")
        assert (done.returncode, done.stdout) == (0, b"none\na\n")
        assert b"grants no terminal (PermitTTY no" in done.stderr
        assert done.stderr.endswith(b"; the command runs without\n")
        found = json.loads(anyshell("doctor", "--host", "plain", "--json").stdout)["findings"]
        assert [each["verdict"] for each in found if each["name"] == "terminal"] == ["missing"]


# --- without a person -----------------------------------------------------------------------------------------


def test_program_has_a_hidden_terminal_in_a_pipe() -> None:
    done = anyshell("run", "--pty", "--", 'tty; stty size; echo "$TERM"; echo err >&2')
    name, *rest = done.stdout.decode().split("\r\n")
    assert name.startswith("/dev/")
    assert rest == ["24 80", "xterm-256color", "err", ""]
    assert (done.returncode, done.stderr) == (0, b"")


def test_size_of_a_pty_can_be_given() -> None:
    done = anyshell("run", "--pty", "--columns", "132", "--rows", "50", "--", "stty size")
    assert done.stdout == b"50 132\r\n"


def test_stdin_is_typed_with_end_of_file() -> None:
    done = anyshell("run", "--pty", "--", "stty -echo; cat; echo end", input=b"one\ntwo\n")
    assert done.stdout.endswith(b"two\r\nend\r\n")
    assert anyshell("run", "--pty", "--", "cat; echo end").stdout.endswith(b"end\r\n")


def test_cursor_query_of_a_program_is_answered() -> None:
    ask = r"""stty raw -echo; printf '\033[6n'; read -r -d R -t 10 answer; stty sane; printf '%s\n' "${answer#?}" """
    done = anyshell("run", "--pty", "--", ask)
    assert done.stdout.endswith(b"[1;1\r\n")


def test_json_has_the_visible_text() -> None:
    draw = r"printf 'old\rnew\n'; printf '\033[?1049hframe\033[?1049l'; exit 3"
    outcome = json.loads(anyshell("run", "--pty", "--json", "--", draw).stdout)
    assert (outcome["exit_code"], outcome["waiting"], outcome["terminal"]) == (3, None, "pty")
    output = outcome["output"]
    assert (output["text"], output["alternate"], output["skipped_bytes"]) == ("new\n", "\nframe", 0)


def test_json_has_the_prompt_of_a_waiting_program() -> None:
    with start(
        *("run", "--pty", "--json", "--timeout", "4", "--", "read -s -p 'secret? ' x"),
        stdin=subprocess.PIPE,
    ) as program:
        assert program.stdout is not None
        outcome = json.loads(program.stdout.read())
        assert program.wait(20) == 124
    waiting = outcome["waiting"]
    assert (outcome["status"], waiting["prompt"].rstrip(), waiting["echo"]) == ("timed_out", "secret?", False)
    assert waiting["certainty"] == "certain"


def test_signal_stops_a_program_on_a_terminal() -> None:
    with start("run", "--pty", "--", "echo $$; sleep 300") as program:
        pid = int(read_line(program.stdout))
        program.send_signal(signal.SIGTERM)
        assert program.wait(20) == 143
    assert not is_alive(pid)


def test_closed_reader_stops_a_program_on_a_terminal(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    with start("run", "--pty", "--", f"echo $$ >{file}; while :; do echo line; sleep 0.05; done") as program:
        pid = int(wait_written(file))
        assert program.stdout is not None
        program.stdout.close()
        assert program.wait(20) == 141
    assert not is_alive(pid)


@pytest.mark.parametrize("value", ["1", "0"])
def test_anyshell_no_pty_disables_terminals(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANYSHELL_NO_PTY", value)
    done = anyshell("run", "--pty", "--", "test -t 1 && echo one || echo none")
    said = b"anyshell: ANYSHELL_NO_PTY is set: the command runs without a terminal\n"
    assert (done.stdout, done.stderr) == ((b"none\n", said) if value == "1" else (b"one\r\n", b""))
    found = json.loads(anyshell("doctor", "--json").stdout)["findings"]
    verdicts = [each["verdict"] for each in found if each["name"] == "terminal"]
    assert verdicts == ["missing" if value == "1" else "ok"]


@pytest.mark.parametrize(
    "options",
    [
        ("--pty", "--json", "--split-stderr"),
        ("--pty", "--background"),
        ("--columns", "80"),
        ("--rows", "24"),
        ("--pty", "--columns", "1"),
        ("--pty", "--rows", "1001"),
        ("--pty", "--rows", "many"),
    ],
    ids=" ".join,
)
def test_wrong_terminal_options_are_refused(options: tuple[str, ...]) -> None:
    result = CliRunner().invoke(main, ["run", *options, "--", "true"])
    assert result.exit_code == 2
    assert any(word in result.output for word in ("terminal", "--pty", "from 2 to 1,000")), result.output


# --- what is on in a terminal ---------------------------------------------------------------------------------

KNOWN = [
    (b"\x1b[?1049h", b"\x1b[?1049l"),
    (b"\x1b[?47h", b"\x1b[?47l"),
    (b"\x1b[?25l", b"\x1b[?25h"),
    (b"\x1b[?1003h", b"\x1b[?1003l"),
    (b"\x1b[?2004h", b"\x1b[?2004l"),
    (b"\x1b[?1h", b"\x1b[?1l"),
    (b"\x1b=", b"\x1b>"),
    (b"\x1b[4h", b"\x1b[4l"),
    (b"\x1b[?7l", b"\x1b[?7h"),
    (b"\x1b[2;5r", b"\x1b7\x1b[r\x1b8"),
    (b"\x1b[38;5;1m", b"\x1b[m"),
    (b"\x1b(0", b"\x1b(B"),
    (b"\x0e", b"\x0f"),
    (b"\x1b[5 q", b"\x1b[0 q"),
    (b"\x1b[>4;2m", b"\x1b[>4m"),
    (b"\x1b[>1u\x1b[>5u", b"\x1b[<2u"),
    (b"\x1b[=1u", b"\x1b[=0u"),
    (b"\x1b]8;;http://x/\x1b\\", b"\x1b]8;;\x1b\\"),
]


@pytest.mark.parametrize(("on", "back"), KNOWN)
def test_modes_set_by_a_program_can_be_reset(on: bytes, back: bytes) -> None:
    modes = TerminalModes()
    modes.feed(b"text " + on + b" text")
    assert modes.back == b"\x18" + back
    modes.feed(back)
    assert modes.back == b""


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_modes_do_not_depend_on_chunk_boundaries(size: int) -> None:
    data = b"a\xc3\xbc".join(on for on, _ in KNOWN)
    whole, cut = TerminalModes(), TerminalModes()
    whole.feed(data)
    for at in range(0, len(data), size):
        cut.feed(data[at : at + size])
    assert (cut.back, cut.again) == (whole.back, whole.again)


def test_modes_can_be_set_again() -> None:
    modes, again = TerminalModes(), TerminalModes()
    modes.feed(b"".join(on for on, _ in KNOWN if on not in (b"\x1b[38;5;1m", b"\x1b]8;;http://x/\x1b\\")))
    again.feed(modes.again)
    assert again.again == modes.again
    modes.feed(b"\x1bc")  # a full reset
    assert (modes.back, modes.again) == (b"", b"")


def test_unknowable_modes_and_queries_are_left_alone() -> None:
    modes = TerminalModes()
    modes.feed(
        b"\x1b[m\x1b[0;0m\x1b[?12h\x1b]0;title\x07\x1b]11;?\x07\x1b[6n\x1b[?2004$p\x1b[c\x1b[r\x1b[0 q\x1b[5;5H"
    )
    assert modes.back == b""


@pytest.mark.parametrize(
    "data",
    [
        b"\x1b[31mx\x1b[39m",
        b"\x1b[1;4;31mx\x1b[24;39;22m",
        b"\x1b[38;5;1mx\x1b[39m",
        b"\x1b[38;2;0;7;1mx\x1b[39m",
        b"\x1b[48:2::1:2:3mx\x1b[49m",
        b"\x1b[4:3mx\x1b[4:0m",
        b"\x1b[7;9mx\x1b[27;29m",
        b"\x1b[200;31mx\x1b[m",
        b"\x1b[31;;mx",
        b"\x1b[1 mx",
    ],
)
def test_colours_switched_off_one_by_one_need_no_reset(data: bytes) -> None:
    modes = TerminalModes()
    modes.feed(data)
    assert modes.back == b""


@pytest.mark.parametrize(
    "data", [b"\x1b[1;31mx\x1b[39m", b"\x1b[38;5;0mx\x1b[49m", b"\x1b[200mx\x1b[39m", b"\x1b[0;7m"]
)
def test_remaining_colour_is_reset(data: bytes) -> None:
    modes = TerminalModes()
    modes.feed(data)
    assert modes.back == b"\x18\x1b[m"


def test_many_keyboard_modes_are_reset_at_once() -> None:
    modes = TerminalModes()
    modes.feed(b"\x1b[>1u" * 10_000)
    assert modes.back == b"\x18\x1b[<8u"


def test_unfinished_sequence_is_cancelled() -> None:
    modes = TerminalModes()
    modes.feed(b"\x1b]0;begun")
    assert modes.back == b"\x18"


INTERACTS = """
import asyncio, anyshell

async def main():
    async with anyshell.Environment.detect() as env, env.terminal("read -p 'first? ' x; read -p 'second? ' y; echo $x $y; read z") as t:
        await t.expect("first. ")
        await t.sendline("one")
        await t.expect("second. ")
        await t.interact()
        print("back,", "it runs" if t.running else "it has ended")
        await t.sendline()
        await t.wait()

asyncio.run(main())
"""


def test_driven_program_is_handed_to_the_person_and_back(pane: tmux.Pane, tmp_path: Path) -> None:
    (tmp_path / "interacts.py").write_text(INTERACTS)
    pane.type(f"{sys.executable} interacts.py")
    pane.press("Enter")
    pane.wait("second?")
    pane.type("two")
    pane.press("Enter")
    pane.wait("one two")
    pane.press("C-]")
    pane.wait("back, it runs")
