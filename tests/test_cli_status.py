"""The status line of ``anyshell run`` on a terminal: the line never mixes into the output, and is erased at the end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
import termios
import threading
from functools import partial
from typing import TYPE_CHECKING

import pyte
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

assert sys.platform != "win32"  # on other systems mypy skips the code below

from anyshell.cli.process.descriptors import DescriptorWriter
from anyshell.cli.terminal.status import Cursor, StatusLine

from . import tmux
from .cli_program import anyshell, wait_written
from .conftest import missing
from .test_status import PIECES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

LINE = re.compile(r"^\d+ s  [\d,]+ lines?  [\d.]+ K?i?B", re.MULTILINE)


@pytest.fixture(scope="module")
def terminals(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tmux.Server]:
    """A tmux server."""
    if tmux.TMUX is None:
        missing("tmux", "install tmux")
    with tmux.serving(tmp_path_factory.mktemp("tmux")) as server:
        yield server


@pytest.fixture
def pane(terminals: tmux.Server, tmp_path: Path) -> tmux.Pane:
    """A person's terminal."""
    pane = terminals.open(tmp_path)
    pane.wait_until(partial(has_prompt, pane), "a prompt")
    return pane


def has_prompt(pane: tmux.Pane) -> bool:
    return pane.screen()[0] in "$#"


class Script:
    """A script for sh that ``anyshell run`` runs in a terminal, and that continues at a signal of the test."""

    def __init__(self, pane: tmux.Pane, directory: Path, text: str, words: str = "") -> None:
        self.pane = pane
        self._go = directory / "go"
        (directory / "script").write_text(
            f"go() {{ until [ -e {self._go} ]; do sleep 0.05; done; }}\n{text}\n"
        )
        (directory / "start").write_text(
            f'echo $$ >{directory}/pid\nexec "$PYTHON" -m anyshell run -- sh {directory}/script {words}\n'
        )
        self.settings = pane.settings()
        pane.type('clear; sh start; echo "code=$?"')
        pane.press("Enter")
        self.pid = int(wait_written(directory / "pid"))

    def shows(self) -> str:
        """Wait for the status line."""
        self.pane.wait_until(lambda: LINE.search(self.pane.screen()) is not None, "a status line")
        return self.pane.screen()

    def go_on(self) -> None:
        self._go.touch()

    def ends(self, code: int = 0) -> str:
        """Wait for the end, and check that the terminal is restored and the status line erased."""
        shown = self.pane.wait(f"code={code}")
        assert LINE.search(shown) is None
        assert self.pane.settings() == self.settings
        self.pane.type("echo -$((6*7))-")
        self.pane.press("Enter")
        self.pane.wait("\n-42-\n")
        return shown


# --- what a person sees ---------------------------------------------------------------------------------------


def test_status_line_is_below_the_output_and_erased_at_the_end(pane: tmux.Pane, tmp_path: Path) -> None:
    script = Script(pane, tmp_path, "echo one; echo 日本; go; echo three")
    assert re.fullmatch(r"one\n日本\n\d+ s  2 lines  11 B  日本\n+", script.shows())
    assert "\x1b[2m" in pane.screen(colours=True)
    script.go_on()
    assert re.fullmatch(r"one\n日本\nthree\ncode=0\n[$#] ?\n+", script.ends())


def test_output_continues_above_the_status_line(pane: tmux.Pane, tmp_path: Path) -> None:
    script = Script(
        pane,
        tmp_path,
        "i=0; until [ -e $1 ]; do i=$((i+1)); echo line $i; sleep 0.02; done",
        f"{tmp_path}/go",
    )

    def reached(number: int) -> Callable[[], bool]:
        return lambda: any(int(line) >= number for line in re.findall(r"line (\d+)\n", pane.screen()))

    pane.wait_until(reached(150), "three seconds of output")
    script.shows()
    pane.wait_until(reached(200), "another second of output")
    script.shows()
    script.go_on()
    lines = script.ends().splitlines()
    numbers = [int(line.split()[1]) for line in lines if line.startswith("line ")]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    assert len(numbers) + 2 >= 22  # no other text takes a row of the screen


def test_unfinished_line_hides_the_status_line(pane: tmux.Pane, tmp_path: Path) -> None:
    """The unfinished line may be a question. The status line drawn before is erased."""
    script = Script(pane, tmp_path, 'echo one; go; printf "name? "; sleep 5; echo; echo two')
    script.shows()
    script.go_on()
    shown = pane.wait("name?")
    assert re.fullmatch(r"one\nname\?\n+", shown)
    assert "one\nname?\ntwo\ncode=0" in script.ends()


def test_drawing_program_hides_the_status_line(pane: tmux.Pane, tmp_path: Path) -> None:
    script = Script(pane, tmp_path, r'echo a; echo b; go; printf "\033[2A\033[KA\n\n"; sleep 1.2; echo c')
    script.shows()
    script.go_on()
    assert re.match(r"A\nb\nc\ncode=0\n", script.ends())


def test_status_line_leaves_password_prompts_alone(pane: tmux.Pane, tmp_path: Path) -> None:
    """The command opens the terminal by its name, since it does not inherit the terminal."""
    text = 'tty=$1; stty -echo <$tty; printf "password: " >$tty; read x <$tty; stty echo <$tty; echo >$tty; echo "got $x"'
    pane.type("tty >tty")
    pane.press("Enter")
    wait_written(tmp_path / "tty")
    script = Script(pane, tmp_path, text, "$(cat tty)")
    pane.wait("password:")
    # By now the status line would be drawn.
    pane.wait_until(lambda: has_run_for(script.pid, 3), "three seconds")
    assert re.fullmatch(r"password:\n+", pane.screen())
    pane.type("secret")
    pane.press("Enter")
    assert re.match(r"password:\ngot secret\ncode=0", script.ends())


def has_run_for(pid: int, seconds: float) -> bool:
    import time

    import psutil

    return time.time() - psutil.Process(pid).create_time() > seconds


def test_enter_moves_the_status_line_down(pane: tmux.Pane, tmp_path: Path) -> None:
    script = Script(pane, tmp_path, "echo one; go; echo two")
    script.shows()
    for blank in ("\n", "\n\n"):
        pane.press("Enter")
        below = re.compile(rf"one\n{blank}\d+ s  1 line  4 B  one\n+")
        pane.wait_until(partial(is_drawn, pane, below), "the line, a row below")
    script.go_on()
    assert re.match(r"one\n\n\ntwo\ncode=0", script.ends())


def test_folded_status_line_is_erased_on_a_narrower_terminal(pane: tmux.Pane, tmp_path: Path) -> None:
    script = Script(pane, tmp_path, f"echo {'x' * 18}; go; echo two")
    assert len(script.shows().splitlines()[1]) > 30
    pane.resize(20, 24)
    pane.wait_until(
        lambda: re.search(r"^\d+ s  1 line  19 ?B? ?…\n+\Z", pane.screen(), re.MULTILINE) is not None,
        "a shorter line",
    )
    pane.resize(80, 24)
    script.go_on()
    script.ends()
    # tmux may have scrolled the rows above off the screen, to make room for folded lines.
    assert f"{'x' * 18}\ntwo\ncode=0" in pane.screen(history=True)
    assert LINE.search(pane.screen(history=True)) is None


def is_drawn(pane: tmux.Pane, pattern: re.Pattern[str]) -> bool:
    return pattern.fullmatch(pane.screen()) is not None


# --- how it ends ----------------------------------------------------------------------------------------------


def test_signal_erases_the_status_line(terminals: tmux.Server, tmp_path: Path) -> None:
    """Three terminals run at the same time."""
    scripts = {}
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        directory = tmp_path / number.name
        directory.mkdir()
        pane = terminals.open(directory)
        pane.wait_until(partial(has_prompt, pane), "a prompt")
        scripts[number] = Script(pane, directory, "echo one; exec sleep 300")
    for number, script in scripts.items():
        script.shows()
        if number == signal.SIGINT:
            script.pane.press("C-c")
        else:
            os.kill(script.pid, number)
    for number, script in scripts.items():
        assert re.match(rf"one\ncode={128 + number}\n", script.ends(128 + number))


def test_timeout_erases_the_status_line(pane: tmux.Pane, tmp_path: Path) -> None:
    (tmp_path / "start").write_text(
        'exec "$PYTHON" -m anyshell run --timeout 5 -- "echo one; exec sleep 300"\n'
    )
    pane.type('clear; sh start; echo "code=$?"')
    pane.press("Enter")
    pane.wait(" s  1 line  4 B  one")
    shown = pane.wait("code=124")
    assert re.match(r"one\nanyshell: timed out after 5 s; the command was stopped\ncode=124\n", shown)


def test_ctrl_z_erases_the_status_line_until_fg(pane: tmux.Pane, tmp_path: Path) -> None:
    pane.type("set -m")
    pane.press("Enter")
    script = Script(pane, tmp_path, "echo one; go; echo two")
    script.shows()
    pane.press("C-z")
    shown = pane.wait("code=148")
    assert LINE.search(shown) is None
    pane.type('clear; fg; echo "end=$?"')
    pane.press("Enter")
    script.shows()
    script.go_on()
    pane.wait("end=0")
    assert "\ntwo\n" in pane.screen()
    assert LINE.search(pane.screen()) is None


def test_status_line_is_not_drawn_in_the_background(pane: tmux.Pane, tmp_path: Path) -> None:
    (tmp_path / "start").write_text('"$PYTHON" -m anyshell run -- "sleep 2.6; echo done" &\nwait\n')
    pane.type("set -m; clear; . ./start")
    pane.press("Enter")
    seen: list[str] = []

    def is_over() -> bool:
        seen.append(pane.screen())
        return "done\n" in seen[-1]

    pane.wait_until(is_over, "the end")
    assert not [shown for shown in seen if LINE.search(shown)]


# --- where it is shown ----------------------------------------------------------------------------------------


class Ends:
    """Programs on a terminal each, or with some descriptors on a terminal, and all output of these terminals."""

    def __init__(self) -> None:
        self._running: list[tuple[subprocess.Popen[bytes], int, bytearray, threading.Thread]] = []

    def start(
        self,
        *words: str,
        env: Mapping[str, str] | None = None,
        stdin: int | None = None,
        stdout: int | None = None,
    ) -> None:
        leader, terminal = os.openpty()
        # The terminal shows the printed bytes unchanged, except line endings.
        program = subprocess.Popen(
            [sys.executable, "-m", "anyshell", *words],
            stdin=terminal if stdin is None else stdin,
            stdout=terminal if stdout is None else stdout,
            stderr=terminal,
            env={**os.environ, "TERM": "xterm-256color", **(env or {})},
            start_new_session=True,
        )
        os.close(terminal)
        shown = bytearray()

        def read() -> None:
            with contextlib.suppress(OSError):  # the end of a terminal
                while data := os.read(leader, 65536):
                    shown.extend(data)
            os.close(leader)

        thread = threading.Thread(target=read)
        thread.start()
        self._running.append((program, leader, shown, thread))

    def wait(self) -> list[bytes]:
        """The output of each terminal, after the end of all programs."""
        shown = []
        for program, _, data, thread in self._running:
            assert program.wait(30) == 0
            thread.join(30)
            shown.append(bytes(data).replace(b"\r\n", b"\n"))
        return shown


COMMAND = "echo one; sleep 5; echo two"


def test_switched_off_status_line_prints_no_byte(tmp_path: Path) -> None:
    """All programs run at the same time, since each runs until the status line would be drawn."""
    ends = Ends()
    with (
        (tmp_path / "out").open("w+b") as out,
        subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as reader,
    ):
        assert reader.stdin is not None
        assert reader.stdout is not None
        ends.start("run", "--", COMMAND)
        ends.start("run", "--", COMMAND, stdout=out.fileno())
        ends.start("run", "--json", "--", COMMAND, stdout=out.fileno())
        ends.start("run", "--quiet", "--", COMMAND)
        ends.start("run", "-q", "--json", "--", COMMAND, stdout=out.fileno())
        ends.start("run", "--", COMMAND, env={"TERM": "dumb"})
        ends.start("run", "--", COMMAND, env={"TERM": ""})
        ends.start("run", "--", COMMAND, stdout=reader.stdin.fileno())
        ends.start("run", "--pty", "--", COMMAND)
        ends.start("run", "--", COMMAND, env={"NO_COLOR": "1"})
        shown = ends.wait()
        reader.stdin.close()
        assert reader.stdout.read() == b"one\ntwo\n"
    with_line, of_file, of_json, quiet, quiet_json, dumb, unnamed, in_pipe, on_terminal, plain = shown
    for data in (with_line, of_file, of_json, plain):
        assert LINE.search(data.decode().replace("\x1b[2m", "\n").replace("\x1b[K", "\n"))
    assert b"\x1b[2m" in with_line
    assert b"\x1b[" not in plain.replace(b"\x1b[K", b"")
    for data in (quiet, dumb, unnamed, on_terminal):
        assert data == b"one\ntwo\n"
    for data in (quiet_json, in_pipe):
        assert data == b""


def test_piped_run_imports_no_drawing_library() -> None:
    """The libraries for drawing are not imported."""
    program = (
        "import sys, click\nfrom anyshell.cli import main\n"
        "try:\n    main(['run', '--', 'true'], standalone_mode=False)\nexcept click.exceptions.Exit:\n    pass\n"
        "print(sorted({'rich', 'textual', 'anyshell.cli.terminal.status'} & sys.modules.keys()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, stdin=subprocess.DEVNULL, timeout=30
    )
    assert done.stdout == b"[]\n"


# --- whatever is printed --------------------------------------------------------------------------------------


class Screen:
    """A terminal, drawn by an independent emulator."""

    def __init__(self) -> None:
        self.leader, self.terminal = os.openpty()
        termios.tcsetwinsize(self.terminal, (24, 80))
        self.data = bytearray()
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            while data := os.read(self.leader, 65536):
                self.data.extend(data)

    def close(self) -> None:
        os.close(self.terminal)
        self._thread.join()
        os.close(self.leader)


def drawn(data: bytes) -> tuple[list[str], list[str], tuple[int, int]]:
    screen = pyte.HistoryScreen(80, 24, history=1000)
    pyte.ByteStream(screen).feed(data)
    above = ["".join(row[x].data for x in range(80)).rstrip() for row in screen.history.top]
    # Not `Screen.display`, which fails for a wide character with one half overwritten.
    rows = ["".join(screen.buffer[y][x].data for x in range(screen.columns)) for y in range(screen.lines)]
    return above, rows, (screen.cursor.x, screen.cursor.y)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=12), st.integers(1, 9))
@example([b"\xe6\x97\xa5\xe6\x9c\xac", b"\x1b8", b"\xc3\xa9"], 1)
def test_status_line_does_not_change_the_final_screen(pieces: list[bytes], cut: int) -> None:
    """The status line is drawn after every piece that permits it."""
    data = b"".join(pieces)

    async def show(terminal: int) -> None:
        seconds = iter(range(0, 10**9, 10))  # the clock of a very slow machine
        status = StatusLine(terminal, clock=lambda: float(next(seconds)))
        writer = DescriptorWriter(terminal)
        for at in range(0, len(data), cut):
            status.count(data[at : at + cut], "stdout")
            await status.write(writer, data[at : at + cut])
        await status.close()
        writer.close()

    screen = Screen()
    try:
        asyncio.run(show(screen.terminal))
    finally:
        screen.close()
    assert drawn(bytes(screen.data)) == drawn(data.replace(b"\n", b"\r\n"))
    cursor = Cursor()
    free = []
    for at in range(0, len(data), cut):
        cursor.feed(data[at : at + cut])
        free.append(cursor.is_free)
    assert (b" line" in screen.data) is any(free)


def test_ambiguous_title_end_counts_as_cursor_movement() -> None:
    cursor = Cursor()
    cursor.feed("\x1b]0;title\x9c\x9b5A\x07\n".encode())
    assert not cursor.is_free


def test_unfinished_line_stays_on_a_terminal_of_one_row() -> None:
    async def show(terminal: int) -> None:
        termios.tcsetwinsize(terminal, (1, 80))
        seconds = iter(range(0, 10**9, 10))
        status = StatusLine(terminal, clock=lambda: float(next(seconds)))
        writer = DescriptorWriter(terminal)
        await status.write(writer, b"")
        await status.write(writer, b"one\n")
        await status.close()
        writer.close()

    screen = Screen()
    try:
        os.write(screen.terminal, b"Deploying... ")
        asyncio.run(show(screen.terminal))
    finally:
        screen.close()
    assert screen.data.startswith(b"Deploying... one\r\n")
    assert b" lines" in screen.data


def test_frozen_terminal_does_not_block_the_end() -> None:
    """The terminal is frozen by Ctrl-S before a signal."""

    async def show(terminal: int) -> None:
        seconds = iter(range(0, 10**9, 10))
        status = StatusLine(terminal, clock=lambda: float(next(seconds)))
        writer = DescriptorWriter(terminal)
        await status.write(writer, b"one\n")
        termios.tcflow(terminal, termios.TCOOFF)
        task = asyncio.ensure_future(status.write(writer, b"two\n"))
        await asyncio.sleep(0)
        status.hurry()
        writer.hurry()
        await task
        await status.close()
        assert writer.given_up
        termios.tcflow(terminal, termios.TCOON)

    screen = Screen()
    try:
        asyncio.run(asyncio.wait_for(show(screen.terminal), 20))
    finally:
        screen.close()


def test_help_names_the_quiet_option() -> None:
    assert b"--quiet" in anyshell("run", "--help").stdout


def test_sigstop_leaves_no_status_line() -> None:
    """SIGSTOP is not reported to the program, but the SIGCONT after it is."""

    async def show(terminal: int) -> None:
        seconds = iter(range(0, 10**9, 10))
        status = StatusLine(terminal, clock=lambda: float(next(seconds)))
        writer = DescriptorWriter(terminal)
        await status.write(writer, b"one\n")
        os.kill(os.getpid(), signal.SIGCONT)
        await asyncio.sleep(0)
        await status.write(writer, b"two\n")
        await status.close()
        writer.close()

    screen = Screen()
    try:
        asyncio.run(show(screen.terminal))
    finally:
        screen.close()
    assert screen.data.count(b" lines  0 B") > 1
    assert drawn(bytes(screen.data)) == drawn(b"one\r\ntwo\r\n")


def test_question_hides_the_status_line(pane: tmux.Pane, tmp_path: Path) -> None:
    (tmp_path / "ask.py").write_text(
        "import asyncio, contextlib, sys\n"
        "from anyshell.cli.host.person import Person\n"
        "@contextlib.asynccontextmanager\n"
        "async def room():\n"
        "    print('away', file=sys.stderr)\n"
        "    yield\n"
        "    print('back', file=sys.stderr)\n"
        "person = Person()\n"
        "person.room = room\n"
        "async def ask():\n"
        "    await person.password('secret? ')\n"
        "    await person.answer('', [('code? ', True)])\n"
        "    await person.trust('new key')\n"
        "asyncio.run(ask())\n"
    )
    pane.type('clear; "$PYTHON" ask.py')
    pane.press("Enter")
    for question, answer in (("secret?", "x"), ("code?", "42"), ("(yes/no/[fingerprint])", "no")):
        pane.wait(question)
        pane.type(answer)
        pane.press("Enter")
    shown = pane.wait("no\nback\n")
    asked = (
        r"away\nsecret\?\nback\naway\ncode\? 42\nback\naway\nnew key \(yes/no/\[fingerprint\]\) no\nback\n"
    )
    assert re.match(asked, shown)
