"""Real programs on a terminal, driven to their end by the public interface alone.

The screens, and the final text, are compared with tmux, which runs the same programs.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
import time
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from anyshell import DrivenTerminal, Environment, Outcome, Terminal

from .conftest import missing, open_to_all
from .processes import wait_in_front
from .ssh_server import WORKER, account, is_root, openssh, own_name

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator

    from anyshell.types import Screen, SecretRequest

    from .ssh_server import Server

pytestmark = pytest.mark.anyio

PASSWORD = "correct-horse-9"
"""The answer of the tests' user to `su` and similar programs."""


def needs(program: str, package: str = "") -> str:
    """The path of a program that a test requires."""
    path = shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin:/usr/games")
    if path is None:
        missing(program, f"install {package or program}")
    return path


@pytest.fixture
def variables(tmp_path: Path) -> dict[str, str]:
    """Variables that keep the machine's own configuration out of a program."""
    return {
        "HOME": str(tmp_path),
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "GIT_CONFIG_NOSYSTEM": "1",
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "XDG_DATA_HOME": str(tmp_path / "data"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "LESSHISTFILE": "-",
    }


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Environment]:
    """This machine alone."""
    async with Environment.detect(cwd=tmp_path) as environment:
        yield environment


@pytest.fixture(params=["local", "ssh"])
async def anywhere(
    request: pytest.FixtureRequest, tmp_path: Path, ssh_host: Callable[[str], Server]
) -> AsyncIterator[Environment]:
    """This machine, directly and by SSH."""
    host = None
    if request.param == "ssh":
        host = ssh_host("openssh as root" if is_root() else "openssh as a user").options()
    async with Environment.detect(host, cwd=tmp_path) as environment:
        yield environment


@pytest.fixture
def person() -> Iterator[str]:
    """An ordinary user of this machine with a password."""
    if not is_root():
        pytest.skip("only root can make a user with a password")
    with account(f"anyshell-person{WORKER}", "/bin/bash") as name:
        subprocess.run(["chpasswd"], input=f"{name}:{PASSWORD}\n", text=True, check=True)
        yield name


async def over(t: DrivenTerminal, directory: Path, exit_code: int = 0) -> Outcome:
    """Wait for the normal end of a program that leaves nothing."""
    try:
        async with asyncio.timeout(20):
            outcome = await t.wait()
    except TimeoutError:
        pytest.fail("it did not end:\n" + "\n".join(t.screen.rows))
    assert (outcome.status, outcome.exit_code, outcome.signal) == ("exited", exit_code, None), outcome
    assert outcome.left_behind == ()
    assert not t.running
    assert living_in(directory) == []
    return outcome


def living_in(directory: Path) -> list[str]:
    """Programs that run in a directory."""
    found = []
    for process in psutil.process_iter():
        try:
            if Path(process.cwd()).is_relative_to(directory) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(" ".join(process.cmdline()))
        except psutil.Error:
            continue
    return found


async def see(t: DrivenTerminal, pattern: str) -> re.Match[str]:
    """Wait for a pattern; on a failure, the report has the screen."""
    match = await t.expect(pattern, timeout=15)
    if match is None:
        pytest.fail(f"{pattern} never came; {t.outcome}\n" + "\n".join(t.screen.rows))
    return match


async def shows(t: DrivenTerminal, text: str) -> None:
    """Wait until a text is on the screen."""
    give_up = time.monotonic() + 15
    while text not in "\n".join(t.screen.rows):
        assert time.monotonic() < give_up, "\n".join(t.screen.rows)
        await asyncio.sleep(0.02)


async def asks(t: DrivenTerminal, prompt: str, *, certainty: str = "certain", echo: bool = True) -> None:
    """Wait until a program asks a question."""
    waiting = await t.wait_for_input(timeout=15)
    assert waiting is not None, t.screen
    assert re.search(prompt, waiting.prompt), waiting
    assert (waiting.certainty, waiting.echo) == (certainty, echo)


class Tmux:
    """A program in tmux, the terminal for comparison."""

    def __init__(self, path: Path) -> None:
        self._place = path
        self._server = [needs("tmux"), "-S", str(path / "tmux"), "-f", "/dev/null"]

    def start(self, command: str, cwd: Path, env: dict[str, str], columns: int, rows: int) -> None:
        """Run a command in a window of the given size, which stays after the command's end, in a copy of a directory."""
        shutil.copytree(cwd, self._place / "copy", dirs_exist_ok=True)
        given = [f"{name}={value}" for name, value in env.items()]
        command = f"exec bash --norc -c {shlex.quote(command + '; exec sleep 300')}"
        size = ["-x", str(columns), "-y", str(rows)]
        line = ["env", *given, "TERM=xterm-256color", "bash", "--norc", "-c", command]
        self._run("new-session", "-d", *size, "-c", str(self._place / "copy"), shlex.join(line))

    def keys(self, *names: str) -> None:
        """Press keys, by tmux's own names."""
        self._run("send-keys", *names)

    def text(self, text: str) -> None:
        """Type a text."""
        self._run("send-keys", "-l", text)

    def resize(self, columns: int, rows: int) -> None:
        """Resize the window."""
        self._run("resize-window", "-x", str(columns), "-y", str(rows))

    def rows(self) -> list[str]:
        """The rows of the window."""
        return [row.rstrip() for row in self._run("capture-pane", "-p").splitlines()]

    def cursor(self) -> tuple[int, int]:
        """Row and column of the cursor."""
        row, column = self._run("display-message", "-p", "#{cursor_y} #{cursor_x}").split()
        return int(row), int(column)

    def history(self) -> list[str]:
        """The whole history, with wrapped lines joined."""
        return [row.rstrip() for row in self._run("capture-pane", "-pJ", "-S", "-").rstrip().splitlines()]

    def end(self) -> None:
        """Kill the server."""
        subprocess.run([*self._server, "kill-server"], check=False, capture_output=True)

    def _run(self, *arguments: str) -> str:
        return subprocess.run([*self._server, *arguments], check=True, capture_output=True, text=True).stdout


@pytest.fixture
def tmux(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tmux]:
    program = Tmux(tmp_path_factory.mktemp("tmux"))
    yield program
    program.end()


def timeless(rows: Iterable[str]) -> list[str]:
    """The rows without relative times: vim prints the time since an undone change, and two programs may print different times."""
    return [re.sub(r"\d+ seconds? ago", "just now", row) for row in rows]


async def same(t: DrivenTerminal, tmux: Tmux, *, after: Screen | None = None) -> None:
    """Wait until the screen is the one that tmux shows, and differs from the screen before."""
    give_up = time.monotonic() + 10
    while True:
        screen = t.screen
        ours, theirs = (*timeless(screen.rows), screen.cursor), (*timeless(tmux.rows()), tmux.cursor())
        if ours == theirs and screen != after:
            return
        if time.monotonic() > give_up:
            assert ours == theirs
            pytest.fail("nothing has changed:\n" + "\n".join(screen.rows))
        await asyncio.sleep(0.02)


# --- shells and interpreters ----------------------------------------------------------------------------------


async def test_bash_has_its_jobs_stopped_resumed_and_killed(
    anywhere: Environment, tmp_path: Path, variables: dict[str, str]
) -> None:
    async with anywhere.terminal("PS1='$ ' exec bash --norc -i", env=variables) as t:
        await see(t, r"\$ $")
        await t.send("cat\r")
        await asks(t, "^$")
        await t.send("hello\r")
        await see(t, "hello\nhello\n")
        await t.send_key("Ctrl-Z")
        await see(t, r"\[1\]\+ +Stopped +cat\n\$ $")
        await t.send("sleep 300 &\r")
        await see(t, r"\[2\] \d+\n\$ $")
        await t.send("jobs\r")
        await see(t, r"\[1\]\+ +Stopped +cat\n\[2\]- +Running +sleep 300 &\n\$ $")
        await t.send("fg %1\r")
        await see(t, r"fg %1\s+cat\n")
        await asks(t, "^$")
        await t.send_key("Ctrl-D")
        await see(t, r"\$ $")
        await t.send("fg\r")
        await see(t, "sleep 300\n")
        await wait_in_front(t, "sleep")
        await t.send_key("Ctrl-Z")
        await see(t, r"\[2\]\+ +Stopped +sleep 300\n\$ $")
        await t.send("bg\r")
        await see(t, r"\[2\]\+ sleep 300 &\n\$ $")
        await t.send("kill %2; wait %2; echo status-$?\r")
        await see(t, r"status-143\n[\s\S]*\$ $")
        await t.send("sleep 300\r")
        await wait_in_front(t, "sleep")
        assert await t.waiting() is None
        await t.send_key("Ctrl-C")
        await see(t, r"\^C\n\$ $")
        await t.send("exit 7\r")
        outcome = await over(t, tmp_path, 7)
    assert outcome.output.text.endswith("$ sleep 300\n^C\n$ exit 7\nexit\n")


@pytest.mark.parametrize("command", ["bash --norc -i", "zsh -f", "fish -N"])
async def test_output_of_a_command_begins_a_line(
    here: Environment, variables: dict[str, str], command: str
) -> None:
    """Line editors end a typed line with codes and carriage returns of their own."""
    needs(command.split()[0])
    async with here.terminal(f"exec {command}", env=variables) as t:
        assert await t.wait_for_input(timeout=15)
        await t.send("echo a-$(echo b)\r")
        await t.expect("^a-b$", timeout=5)


@pytest.mark.parametrize("shell", ["fish", "zsh", "dash"])
async def test_interactive_shell_is_driven_and_ended(
    here: Environment, tmp_path: Path, variables: dict[str, str], shell: str
) -> None:
    needs(shell)
    command = {"fish": "fish -N", "zsh": "zsh -f", "dash": "dash -i"}[shell]
    async with here.terminal(f"exec {command}", env=variables) as t:
        assert await t.wait_for_input(timeout=15)
        await t.send("echo a-$(echo b)\r")
        await see(t, "a-b\n")
        assert await t.wait_for_input(timeout=15)
        await t.send_key("Ctrl-D")
        outcome = await over(t, tmp_path)
    assert "a-b" in outcome.output.text.splitlines()


async def test_python_shows_edited_lines_errors_and_exit_code(
    anywhere: Environment, tmp_path: Path, variables: dict[str, str]
) -> None:
    variables |= {"PYTHON_BASIC_REPL": "1", "PYTHON_HISTORY": str(tmp_path / "history")}
    async with anywhere.terminal(f"exec {needs('python3')} -q -i", env=variables) as t:
        await see(t, ">>> ")
        await t.send("6*7\r")
        await see(t, "^42\n>>> $")
        await t.send_key("Up", "Left", "Backspace", "+", "Enter")
        await see(t, "^13\n>>> $")
        assert ">>> 6+7" in t.screen.rows
        await t.send("def twice(x):\r")
        await see(t, r"\.\.\. $")
        await t.send("return 2 * x\r")
        await see(t, "IndentationError[\\s\\S]*>>> $")
        await t.send("def twice(x):\r")
        await see(t, r"\.\.\. $")
        await t.send("    return 2 * x\r")
        await see(t, r"\.\.\. $")
        await t.send("\r")
        await see(t, ">>> $")
        await t.send("twice('ab')\r")
        await see(t, "^'abab'\n>>> $")
        await t.send("1/0\r")
        await see(t, "ZeroDivisionError: division by zero\n>>> $")
        await t.send("input('name? ')\r")
        await asks(t, "^name[?] $", echo=False)
        await t.send("Zoë\r")
        await see(t, "^'Zoë'\n>>> $")
        await t.send("import time; time.sleep(300)\r")
        await see(t, "sleep.*\n")
        while await t.waiting() is not None:
            pass
        await t.send_key("Ctrl-C")
        await see(t, "KeyboardInterrupt\n>>> $")
        await t.send("exit(3)\r")
        outcome = await over(t, tmp_path, 3)
    text = outcome.output.text
    assert text.startswith(">>> 6*7\n42\n>>> 6+7\n13\n")
    assert ">>> twice('ab')\n'abab'\n>>> 1/0\nTraceback (most recent call last):\n" in text
    assert text.endswith(">>> exit(3)\n")


async def test_prompt_and_missing_echo_of_a_reading_program_are_reported(
    anywhere: Environment, tmp_path: Path
) -> None:
    seen: list[SecretRequest] = []

    async def give(request: SecretRequest) -> str:
        seen.append(request)
        return PASSWORD

    async with anywhere.terminal(
        'read -p "Continue? [y/N] " a; read -s -p "Token: " b; echo; [ "$a${#b}" = y15 ] && echo "$b" | rev && echo "$b"'
    ) as t:
        await asks(t, r"^Continue\? \[y/N\] $")
        await t.send("y\r")
        await asks(t, "^Token: $", echo=False)
        assert await t.send_secret(give)
        outcome = await over(t, tmp_path)
    assert outcome.output.text == f"Continue? [y/N] y\nToken:\n{PASSWORD[::-1]}\n[secret]\n"
    assert [(request.prompt, request.program) for request in seen] == [("Token: ", "bash")]


# --- editors and pagers ---------------------------------------------------------------------------------------


async def test_vim_edits_a_file_and_matches_tmux(
    anywhere: Environment, tmp_path: Path, variables: dict[str, str], tmux: Tmux
) -> None:
    needs("vim")
    path = tmp_path / "file.txt"
    path.write_text("first\nsecond\nthird\n")
    open_to_all(tmp_path)
    # vim asks for the colours; an answer in the middle of its first drawing makes it clear its own ruler.
    (tmp_path / ".vimrc").write_text("set nocompatible noswapfile viminfo= ruler t_RB= t_RF=\n")
    tmux.start("vim file.txt", tmp_path, variables, 80, 24)
    async with anywhere.terminal("vim file.txt", env=variables) as t:
        await see(t, "^third$")
        waiting = await t.wait_for_input()
        assert waiting is not None
        assert (waiting.certainty, waiting.processes[0].name) == ("likely", "vim")
        assert t.screen.alternate
        await same(t, tmux)
        for keys in (["Down", "Down", "o"], ["Up", "End"]):
            await t.send_key(*keys)
            tmux.keys(*keys)
            await see(t, "INSERT" if keys[-1] == "o" else "3,6")
            await same(t, tmux)
        await t.send(" and more: äé 漢字")
        tmux.text(" and more: äé 漢字")
        await see(t, "漢字")
        await same(t, tmux)
        await t.send_key("Escape", ":", "w", "Enter")
        tmux.keys("Escape", ":", "w", "Enter")
        await see(t, "written")
        await same(t, tmux)
        await t.resize(columns=60, rows=12)
        tmux.resize(60, 12)
        await same(t, tmux)
        assert path.read_text() == "first\nsecond\nthird and more: äé 漢字\n\n"
        await t.send(":wq\r")
        outcome = await over(t, tmp_path)
    assert outcome.output.text == ""
    assert outcome.output.alternate is not None
    assert "third and more: äé 漢字" in outcome.output.alternate
    assert not t.screen.alternate


async def test_vim_without_a_configuration_is_left_with_an_error(
    here: Environment, tmp_path: Path, variables: dict[str, str]
) -> None:
    """The queries of the program are answered, and none of the answers is taken for a key."""
    needs("vim")
    async with here.terminal("vim -u NONE -i NONE", env=variables) as t:
        await see(t, "^~$")
        await t.send("ihello")
        await see(t, "^hello$")
        await t.send_key("Escape", "u")
        await see(t, "^$\n^~$")
        await t.send(":cq 4\r")
        await over(t, tmp_path, 4)


async def test_nano_writes_a_file_and_matches_tmux(
    here: Environment, tmp_path: Path, variables: dict[str, str], tmux: Tmux
) -> None:
    needs("nano")
    tmux.start("nano -I theirs.txt", tmp_path, variables, 80, 24)
    async with here.terminal("nano -I theirs.txt", env=variables) as t:
        await see(t, "GNU nano")
        await same(t, tmux)
        await t.send("some text\rand more")
        tmux.text("some text\rand more")
        await see(t, "and more")
        await same(t, tmux)
        await t.send_key("Up", "Home", "Ctrl-K", "Down", "Ctrl-U")
        tmux.keys("Up", "Home", "C-k", "Down", "C-u")
        await see(t, "and more\n+some text")
        await same(t, tmux)
        await t.send_key("Ctrl-X")
        await see(t, "Save modified buffer")
        await t.send_key("Ctrl-C", "Ctrl-O")
        await see(t, "File Name to Write: theirs.txt")
        waiting = await t.wait_for_input()
        assert waiting is not None
        assert waiting.prompt == "File Name to Write: theirs.txt"
        await t.send_key("Enter")
        await see(t, "Wrote 2 lines")
        await t.send_key("Ctrl-X")
        await over(t, tmp_path)
    assert (tmp_path / "theirs.txt").read_text() == "and more\nsome text\n"


async def test_less_searches_and_leaves_its_last_screen(
    anywhere: Environment, tmp_path: Path, variables: dict[str, str], tmux: Tmux
) -> None:
    needs("less")
    (tmp_path / "lines").write_text("".join(f"line {number}\n" for number in range(1, 1001)))
    open_to_all(tmp_path)
    command = "echo before; less lines; echo after"
    tmux.start(command, tmp_path, variables, 80, 24)
    async with anywhere.terminal(command, env=variables) as t:
        await see(t, "^line 23$")
        await asks(t, "^lines$", echo=False)
        await same(t, tmux)
        for keys, shown in (
            (["Space"], "^line 46$"),
            (["/", "5", "0", "0", "Enter"], "^line 522$"),
            (["Up", "PageUp"], "^line 476$"),
            (["G"], r"^\(END\)$"),
        ):
            await t.send_key(*keys)
            tmux.keys(*keys)
            await see(t, shown)
            await same(t, tmux)
        await t.send_key("Home")  # tmux sends another code for it than xterm
        await see(t, "^line 1$")
        await t.send_key("End")
        await see(t, r"^\(END\)$")
        await t.send("q")
        outcome = await over(t, tmp_path)
        tmux.text("q")
        await same(t, tmux)
    assert outcome.output.text == "before\nafter\n"
    assert outcome.output.alternate is not None
    assert outcome.output.alternate.splitlines()[:23] == [f"line {number}" for number in range(978, 1001)]


VIM = "vim -u NONE -i NONE -c 'set nocompatible t_RB= t_RF='"


@pytest.mark.parametrize(
    ("command", "steps", "end"),
    [
        (
            f"{VIM} wide",
            [
                "G",
                "g g",
                "C-f C-f",
                "C-e C-e",
                "C-y",
                ": s p Enter",
                "G z z",
                ": v s Enter",
                "d d",
                "C-w j",
                "u",
                "/ l i n e Space 2 0 Enter",
                "n",
                "v j j y p",
                ": % ! s o r t Enter",
                ": o n l y Enter",
            ],
            ": q a ! Enter",
        ),
        (
            f"{VIM} -c 'set nowrap number hlsearch incsearch' -c 'syntax on' code.py",
            [
                "G",
                "g g",
                "5 0 z l",
                "C-f",
                "/ f 3 Enter",
                "V j j d",
                "o h i Escape",
                ": t a b n e w Enter",
                "g t",
            ],
            ": q a ! Enter",
        ),
        (
            "nano -I wide",
            ["C-v C-v", "C-e", "C-y", "C-w l i n e Space 5 0 Enter", "C-k C-k", "C-u", "C-g", "C-x"],
            "C-x n",
        ),
        (
            "less -N wide",
            [
                "Space Space",
                "b",
                "j j j",
                "k",
                "/ 2 0 0 Enter",
                "- S Enter",
                "Right",
                "Left",
                "G",
                "g",
                "h",
                "q",
            ],
            "q",
        ),
        (
            "git -C work -c color.ui=always log -p --stat",
            ["Space", "Space", "G", "b"],
            "q",
        ),
        (
            "PS1='$ ' bash --norc -i",
            [
                "e c h o Space a Enter",
                "l s Space Tab Tab",
                "C-c",
                "C-r e c",
                "C-g",
                "C-u " + "ä " * 90,
                "C-a",
                "y",
                "C-e C-w",
            ],
            "C-u e x i t Space 0 Enter",
        ),
        (
            "PS1='$ ' zsh -f",
            ["e c h o Space a Enter", "l s Space Tab Tab", "C-c", "C-r e c", "C-g"],
            "e x i t Space 0 Enter",
        ),
        ("dialog --fselect /usr/ 14 60 2>out; true", ["Tab", "Down", "Down"], "Escape Escape"),
        ("whiptail --menu Choose 15 50 5 a Apple b Banana c Cherry 2>out", ["Down", "Down", "Tab"], "Enter"),
    ],
    ids=["vim", "vim with colours", "nano", "less", "git", "bash", "zsh", "dialog", "whiptail"],
)
async def test_screen_matches_tmux_at_every_step(
    here: Environment,
    tmp_path: Path,
    variables: dict[str, str],
    tmux: Tmux,
    repository: Path,
    command: str,
    steps: list[str],
    end: str,
) -> None:
    needs(command.removeprefix("PS1='$ ' ").split()[0])
    (tmp_path / "wide").write_text("".join(f"line {i} {'äß漢' * (i % 30)} end\n" for i in range(300)))
    (tmp_path / "code.py").write_text(
        "".join(f"def f{i}():\n    return 'ä{i}'  # {'c' * i}\n" for i in range(90))
    )
    variables |= {
        "NCURSES_NO_UTF8_ACS": "1"
    }  # tmux reports other line drawing as the letters that it received
    tmux.start(command, tmp_path, variables, 80, 24)
    async with here.terminal(command, env=variables) as t:
        assert await t.wait_for_input(timeout=15)
        await same(t, tmux)
        for step in steps:
            before = t.screen
            await t.send_key(*step.split())
            tmux.keys(*step.split())
            await same(t, tmux, after=before)
        await t.send_key(*end.split())
        await over(t, tmp_path)


async def test_git_shows_its_log_by_a_pager(
    here: Environment, tmp_path: Path, repository: Path, variables: dict[str, str]
) -> None:
    async with here.terminal("git log --format='%an: %s %b'", rows=3, cwd=repository, env=variables) as t:
        await see(t, "^:$|END")
        assert t.screen.rows[0] == "A Person: third"
        await t.send("q")
        await over(t, tmp_path)


# # --- git, with editors and prompts ----------------------------------------------------------------------------


@pytest.fixture
def repository(tmp_path: Path, variables: dict[str, str]) -> Path:
    """A repository of three commits and a change, in which git asks through vim."""
    needs("git")
    needs("vim")
    (tmp_path / ".gitconfig").write_text(
        "[user]\n name = A Person\n email = person@example.org\n[core]\n editor = vim -u NONE -i NONE\n pager = less\n"
        "[init]\n defaultBranch = main\n[advice]\n detachedHead = false\n[safe]\n directory = *\n"
    )
    work = tmp_path / "work"
    work.mkdir()

    def git(*arguments: str) -> None:
        subprocess.run(
            ["git", *arguments], cwd=work, env={**os.environ, **variables}, check=True, capture_output=True
        )

    git("init")
    for name in ("first", "second", "third"):
        (work / "file").write_text("".join(f"{name} {number}\n" for number in range(40)))
        git("add", "file")
        git("commit", "-m", name)
    return work


def without_answers(text: str) -> str:
    """The output of the programs. vim asks for the state of keys after it has drawn the screen (``CSI ? 4 m``), and may end
    before the answer arrives: the kernel then echoes the answer, as it does on every terminal.
    """
    return text.replace("^[[>4;0m", "")


async def test_git_commit_opens_an_editor_and_takes_the_message(
    anywhere: Environment, tmp_path: Path, repository: Path, variables: dict[str, str]
) -> None:
    (repository / "file").write_text("changed\n")
    async with anywhere.terminal("git commit -a", cwd=repository, env=variables) as t:
        await see(t, "Please enter the commit message")
        await t.send("iA fine subject\r\rAnd a body.")
        await see(t, "And a body.")
        await t.send_key("Escape")
        await t.send(":wq\r")
        outcome = await over(t, tmp_path)
    text = without_answers(outcome.output.text)
    assert text.splitlines()[-2:] == [
        "[main " + text.split("[main ")[1].split("]")[0] + "] A fine subject",
        " 1 file changed, 1 insertion(+), 40 deletions(-)",
    ]
    logged = await anywhere.run("git log -1 --format=%B", cwd=repository, env=variables)
    assert logged.output.text.strip() == "A fine subject\n\nAnd a body."


async def test_git_commit_is_aborted_by_an_empty_message(
    here: Environment, tmp_path: Path, repository: Path, variables: dict[str, str]
) -> None:
    (repository / "file").write_text("changed\n")
    async with here.terminal("git commit -a", cwd=repository, env=variables) as t:
        await see(t, "Please enter the commit message")
        await t.send(":q!\r")
        outcome = await over(t, tmp_path, 1)
    assert without_answers(outcome.output.text).strip() == "Aborting commit due to empty commit message."


async def test_git_asks_hunk_by_hunk(
    here: Environment, tmp_path: Path, repository: Path, variables: dict[str, str]
) -> None:
    file = repository / "file"
    lines = file.read_text().splitlines()
    lines[2], lines[30] = "one change", "another"
    file.write_text("\n".join(lines) + "\n")
    async with here.terminal("git add -p", cwd=repository, env=variables) as t:
        await asks(t, r"^\(1/2\) Stage this hunk \[y,n,q,a,d,.*\?\]\? $")
        await t.send("n\r")
        await asks(t, r"^\(2/2\) Stage this hunk")
        await t.send("y\r")
        await over(t, tmp_path)
    staged = await here.run("git diff --cached -U0 | grep '^[+-][a-z]'", cwd=repository, env=variables)
    assert staged.output.text == "-third 30\n+another\n"


async def test_rebase_is_edited_stopped_and_continued(
    here: Environment, tmp_path: Path, repository: Path, variables: dict[str, str]
) -> None:
    async with here.terminal("git rebase -i --root", cwd=repository, env=variables) as t:
        await see(t, "^pick .* third$")
        await t.send(":2s/pick/squash/\r")
        await see(t, "^squash .* second$")
        await t.send(":wq\r")
        await see(t, "This is a combination of 2 commits")
        await t.send(":%d\riboth\x1b:wq\r")
        outcome = await over(t, tmp_path)
    assert "Successfully rebased and updated refs/heads/main." in outcome.output.text
    logged = await here.run("git log --format=%s", cwd=repository, env=variables)
    assert logged.output.text == "third\nboth\n"


# --- passwords ------------------------------------------------------------------------------------------------


def give(request: SecretRequest) -> str:
    assert request.prompt
    return PASSWORD


def kept(directory: Path) -> list[Path]:
    """Kept files that contain the password."""
    return [
        path for path in directory.rglob("*") if path.is_file() and PASSWORD.encode() in path.read_bytes()
    ]


async def test_ssh_asks_about_a_host_key(
    here: Environment, tmp_path: Path, variables: dict[str, str], ssh_host: Callable[[str], Server]
) -> None:
    needs("ssh", "openssh-client")
    server = ssh_host("openssh as root" if is_root() else "openssh as a user")
    options = f"-F none -i {server.key} -o IdentitiesOnly=yes -o UserKnownHostsFile={tmp_path}/known -p {server.port}"
    command = f"ssh {options} {server.user}@127.0.0.1 'cat; exit 5'"
    async with here.terminal(command, env=variables) as t:
        await asks(t, r"^Are you sure you want to continue connecting \(yes/no/\[fingerprint\]\)\? $")
        await t.send("maybe\r")
        await asks(t, "^Please type 'yes', 'no' or the fingerprint: $")
        await t.send("yes\r")
        await see(t, "Permanently added")
        await t.send("typed here\r")
        await see(t, "typed here\ntyped here\n")
        await t.send_key("Ctrl-D")
        await over(t, tmp_path, 5)
    assert (tmp_path / "known").read_text()


async def test_ssh_password_is_typed_and_not_stored(
    here: Environment, tmp_path: Path, variables: dict[str, str], person: str, state_directory: Path
) -> None:
    needs("ssh", "openssh-client")
    with openssh(person, "PasswordAuthentication yes") as server:
        options = f"-F none -o PreferredAuthentications=password -o UserKnownHostsFile={server.known_hosts}"
        command = f"ssh {options} -t -p {server.port} {person}@127.0.0.1"
        async with here.terminal(command, env=variables) as t:
            await asks(t, f"^{person}@127.0.0.1's password: $", echo=False)
            assert await t.send_secret(give)
            await see(t, r"\$ $")
            await t.send("tty; id -un\r")
            await see(t, f"/dev/pts/\\d+\n{person}\n")
            await t.send("exit 6\r")
            outcome = await over(t, tmp_path, 6)
    assert PASSWORD not in outcome.output.text
    assert kept(tmp_path) == kept(state_directory) == []


@pytest.mark.parametrize("program", ["su", "sudo"])
async def test_becoming_another_user_asks_for_a_password(
    tmp_path: Path, variables: dict[str, str], person: str, state_directory: Path, program: str
) -> None:
    """Debian's sudo gives its command a terminal of its own, and stands between the two terminals the whole time."""
    needs(program)
    allowed = Path(f"/etc/sudoers.d/{person}")
    if program == "sudo":
        allowed.write_text(f"{person} ALL=(root) PASSWD: ALL\n")
        allowed.chmod(0o440)
    # sudo asks for no password when the user stays the same.
    command, name = {"su": (f"su {person} -c", person), "sudo": ("sudo -k bash -c", "root")}[program]
    line = f'cd /; {command} \'read -p "Who? " who; echo "hello $who from $(id -un)"; exit 4\''
    open_to_all(tmp_path)
    try:
        with openssh(person) as server:
            async with Environment.detect(server.options(), cwd=tmp_path) as env, env.terminal(line) as t:
                await asks(
                    t, "(?i)password.*: $", certainty="likely", echo=False
                )  # the process belongs to another user
                assert await t.send_secret(give)
                await see(t, r"Who\? $")
                waiting = await t.wait_for_input()
                assert waiting is not None
                assert waiting.prompt == "Who? "
                await t.send("Zoë\r")
                outcome = await over(t, tmp_path, 4)
        assert outcome.output.text.splitlines()[-2:] == ["Who? Zoë", f"hello Zoë from {name}"]
        assert PASSWORD not in outcome.output.text
        assert kept(state_directory) == []
    finally:
        allowed.unlink(missing_ok=True)


@pytest.mark.parametrize(
    ("command", "certainty", "echo"),
    [("su {} -c", "certain", True), ("sudo -u {} bash -c", "likely", False)],
    ids=["su", "sudo"],
)
async def test_question_of_another_users_program_is_detected(
    here: Environment, tmp_path: Path, person: str, command: str, certainty: str, echo: bool
) -> None:
    """The program of su is in another session, and that of Debian's sudo on another terminal."""
    needs(command.split()[0])
    line = f'cd /; {command.format(person)} \'read -p "Who? " who; echo "hello $who"; exit 4\''
    async with here.terminal(line) as t:
        await asks(t, r"^Who\? $", certainty=certainty, echo=echo)
        await t.send("Zoë\r")
        outcome = await over(t, tmp_path, 4)
    assert outcome.output.text == "Who? Zoë\nhello Zoë\n"


# # --- programs that are left or time out -----------------------------------------------------------------------

LEFT = {
    "vim -u NONE -i NONE file": "ihello",
    "less long": "/root",
    "PS1='$ ' bash --norc -i": "sleep 301 & cat\r\x1avim -u NONE -i NONE other\r",
    "python3 -q -i": "import os; os.system('sleep 301')\r",
    "GIT_EDITOR='vim -u NONE -i NONE' git config --global -e": "ihello",
    f"su {own_name()} -c 'sleep 301'" if is_root() else "sh -c 'sleep 301'": "",
}
"""Programs, and the text typed on each before the test leaves it."""


async def test_programs_left_before_their_end_leave_nothing(
    anywhere: Environment, tmp_path: Path, variables: dict[str, str]
) -> None:
    (tmp_path / "long").write_text("line\n" * 100)

    async def leave(command: str, typed: str) -> None:
        async with anywhere.terminal(command, env=variables) as t:
            await t.expect("idle")
            await t.send(typed)
            await t.expect("idle")
        assert t.outcome is not None
        assert (t.outcome.status, t.outcome.left_behind) == ("cancelled", ()), command

    await asyncio.gather(*(leave(command, typed) for command, typed in LEFT.items()))
    assert living_in(tmp_path) == []


WAITS: dict[str, tuple[str, str, bool] | None] = {
    "read -p 'Continue? [Y/n] ' answer": ("certain", "Continue? [Y/n] ", True),
    "read -s -p 'Password: ' answer": ("certain", "Password: ", False),
    "vim -u NONE -i NONE file": ("likely", "", False),
    "python3 -c 'input(\"Name: \")'": ("certain", "Name: ", True),
    "less long": ("certain", "long", False),
    "cat long | less": ("certain", ":", False),
    "sleep 301": None,
}
"""Commands without end, and the expected wait: its certainty, the prompt, and whether typed text is shown."""


async def test_timed_out_command_reports_its_prompt(
    anywhere: Environment, tmp_path: Path, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A busy machine may take long for a look. None of these programs ends its wait, so an older answer is right too.
    monkeypatch.setattr("anyshell.terminal.controller.LONGEST_LOOK", 10.0)
    (tmp_path / "long").write_text("line\n" * 100)

    async def run(command: str, expected: tuple[str, str, bool] | None, timeout: float) -> None:
        outcome = await anywhere.run(command, terminal=Terminal(), env=variables, timeout=timeout)
        assert outcome.status == "timed_out"
        waiting = outcome.waiting
        found = None if waiting is None else (waiting.certainty, waiting.prompt, waiting.echo)
        assert found == expected, command

    # The timeouts leave the programs enough time to begin to wait, on a busy machine too. They end one after another: all the
    # last looks at the same time would hold each other up.
    await asyncio.gather(
        *(run(command, waits, 12 + 1.5 * number) for number, (command, waits) in enumerate(WAITS.items()))
    )
    assert living_in(tmp_path) == []


# # --- full-screen programs -------------------------------------------------------------------------------------


async def test_top_draws_and_is_left(here: Environment, tmp_path: Path, variables: dict[str, str]) -> None:
    needs("top", "procps")
    async with here.terminal("top -d 0.1", env=variables, columns=100, rows=30) as t:
        await see(t, r"^ +PID +USER")
        before = t.screen.rows
        while t.screen.rows == before:
            await asyncio.sleep(0.01)
        await t.resize(columns=60, rows=15)
        while len(t.screen.rows[6]) > 60 or not t.screen.rows[13]:
            await asyncio.sleep(0.01)
        assert len(t.screen.rows) == 15
        await t.send("q")
        outcome = await over(t, tmp_path)
    assert "PID USER" in (outcome.output.alternate or outcome.output.text)


async def test_htop_draws_and_is_left(here: Environment, tmp_path: Path, variables: dict[str, str]) -> None:
    needs("htop")
    async with here.terminal("htop", env=variables, columns=100, rows=30) as t:
        await see(t, r"F10Quit")
        await t.send_key("F1")
        await see(t, "htop .* - .*Hisham")
        await t.send_key("Escape")
        await see(t, r"F10Quit")
        await t.send_key("F10")
        await over(t, tmp_path)


async def test_a_dialog_of_debconf_is_answered(
    here: Environment, tmp_path: Path, variables: dict[str, str]
) -> None:
    needs("debconf")
    needs("whiptail")
    (tmp_path / "templates").write_text(
        "Template: anyshell/colour\nType: select\nChoices: red, green, blue\nDefault: red\n"
        "Description: Which colour?\n It is painted at once.\n\n"
        "Template: anyshell/name\nType: string\nDescription: What is it called?\n\n"
        "Template: anyshell/sure\nType: boolean\nDefault: false\nDescription: Are you sure?\n"
    )
    config = tmp_path / "config"
    config.write_text(
        "#!/bin/sh -e\n. /usr/share/debconf/confmodule\n"
        f"db_x_loadtemplatefile {tmp_path}/templates anyshell\n"
        "for each in colour name sure; do db_input critical anyshell/$each || true; db_go; done\n"
        'for each in colour name sure; do db_get anyshell/$each; echo "$each: $RET" >&2; done\n'
    )
    config.chmod(0o755)
    (tmp_path / "debconf.conf").write_text(
        "Config: configdb\nTemplates: templatedb\n"
        f"\nName: configdb\nDriver: File\nMode: 644\nFilename: {tmp_path}/config.dat\n"
        f"\nName: templatedb\nDriver: File\nMode: 644\nFilename: {tmp_path}/templates.dat\n"
    )
    variables |= {"DEBCONF_SYSTEMRC": str(tmp_path / "debconf.conf"), "DEBIAN_FRONTEND": "dialog"}
    async with here.terminal("debconf ./config", env=variables) as t:
        await see(t, "Which colour")
        assert await t.wait_for_input()
        await t.send_key("Down", "Enter")
        await see(t, "What is it called")
        await t.send("Zoë")
        await see(t, "Zoë")
        await t.send_key("Tab", "Enter")
        await see(t, "Are you sure")
        await t.send_key("Left", "Enter")
        outcome = await over(t, tmp_path)
    assert outcome.output.text.splitlines()[-3:] == ["colour: green", "name: Zoë", "sure: true"]


async def test_dialog_matches_tmux(
    here: Environment, tmp_path: Path, variables: dict[str, str], tmux: Tmux
) -> None:
    needs("dialog")
    command = (
        "dialog --checklist 'What do you want?' 15 50 5 a Apples off b Bananas on c Cherries off 2>answer"
    )
    # tmux would report line drawing as the letters that it received.
    tmux.start(command, tmp_path, variables | {"NCURSES_NO_UTF8_ACS": "1"}, 80, 24)
    async with here.terminal(command, env=variables) as t:
        await see(t, "Cherries")
        await same(t, tmux)
        await t.send_key("Space", "Down", "Down", "Space")
        tmux.keys("Space", "Down", "Down", "Space")
        await shows(t, "[*] c")
        await same(t, tmux)
        await t.send_key("Enter")
        await over(t, tmp_path)
    assert (tmp_path / "answer").read_text() == "a b c"


async def test_nested_tmux_shows_its_panes(
    here: Environment, tmp_path: Path, variables: dict[str, str]
) -> None:
    """tmux divides the screen, scrolls parts of it and draws lines between."""
    (tmp_path / "inner.conf").write_text(
        "set -g default-command \"PS1='$ ' bash --norc\"\nset -g status off\n"
    )
    server = f"{needs('tmux')} -S {tmp_path}/inner -f {tmp_path}/inner.conf"
    command = f"{server} new-session"
    async with here.terminal(command, env=variables) as t:
        try:
            await see(t, r"^\$$")
            await t.send("tput setaf 1; seq 100; echo 漢字-$((1+1))\r")
            await see(t, "漢字-2")
            await t.send_key("Ctrl-B", '"')
            await see(t, "─{80}")
            await t.send("seq 50 | rev; echo below-$((1+1))\r")
            await see(t, "below-2")
            await t.send_key("Ctrl-B", "%")
            await see(t, "│\n")
            await t.send("echo right-$((1+1))\r")
            await see(t, "right-2")
            panes = subprocess.run(
                [
                    *server.split(),
                    "list-panes",
                    "-F",
                    "#{pane_id} #{pane_left} #{pane_top} #{pane_width} #{pane_height}",
                ],
                check=True,
                capture_output=True,
                text=True,
            ).stdout.splitlines()
            assert len(panes) == 3
            rows = t.screen.rows
            for line in panes[:2]:
                pane, left, top, width, height = line.split()
                held = subprocess.run(
                    [*server.split(), "capture-pane", "-p", "-t", pane],
                    check=True,
                    capture_output=True,
                    text=True,
                ).stdout.splitlines()
                assert int(left) == 0
                part = [row.ljust(80) for row in rows[int(top) : int(top) + int(height)]]
                if int(width) < 80:
                    part = [row[: int(width)] for row in part]
                assert [row.rstrip() for row in part] == [row.rstrip() for row in held]
        finally:
            subprocess.run([*server.split(), "kill-server"], check=False, capture_output=True)
        await t.wait()
        give_up = time.monotonic() + 10
        while (
            living_in(tmp_path) and time.monotonic() < give_up
        ):  # the tmux server is a daemon, whose shells end by themselves
            await asyncio.sleep(0.02)
        outcome = await over(t, tmp_path, 1)
    assert outcome.output.text.splitlines()[-1] == "[server exited]"


# --- the text -------------------------------------------------------------------------------------------------

DOWNLOADS = """
print("\\n".join(f"layer {i}: Waiting" for i in range(4)))
for step in range(101):
    for i in range(4):
        print(f"\\033[{4 - i}A\\r\\033[2Klayer {i}: [{'=' * (step // 5):20}] {step}%\\033[{4 - i}B\\r", end="")
for i in range(4):
    print(f"\\033[{4 - i}A\\r\\033[2Klayer {i}: Pull complete\\033[{4 - i}B\\r", end="")
print("Digest: abc")
"""
"""Several bars at once, as docker draws them."""

PACKAGES = """
print("Reading package lists... 0%\\r\\rReading package lists... 100%\\r\\rReading package lists... Done")
print("\\n\\0337\\033[0;23r\\0338\\033[1A", end="")
for i in range(40):
    print(f"Setting up package{i} ...")
    print(f"\\0337\\033[24;0f\\033[42m\\033[30mProgress: [{i * 100 // 40:3}%]\\033[49m\\033[39m [{'#' * i:40}]\\0338", end="")
print("\\n\\0337\\033[0;24r\\0338\\033[1A\\033[J", end="")
print("all done")
"""
"""Lines above a bar that stays in the last row, as apt draws it."""

GAUGE = "(for i in 10 50 100; do echo $i; done) |"


@pytest.mark.parametrize(
    "command",
    [
        "seq 200; echo end",
        "ls -C --color=always /usr/bin | head -30; ls -la --color=always /etc | head -40",
        "for i in $(seq 100); do printf '\\r%d%%' $i; done; echo; printf 'abc\\b\\b\\bX\\none\\rtwo three\\n'",
        "tput cup 5 10; echo x; tput cup 10 0; echo y; tput setaf 1; echo red; tput sgr0; tput sc; echo; tput rc; echo z",
        "echo before; clear; echo after",
        "printf 'a\\tb\\tc\\n1234567\\t8\\n12345678\\t9\\n'",
        "echo " + "漢" * 45 + "; echo " + "e\u0301" * 90 + "; echo 👍 ok",
        f"echo {'x' * 300}; echo short; echo {'y' * 80}; echo z; printf 'no line feed'",
        "seq 30; printf '\\033[5A\\033[Kreplaced\\n\\033[3;1HTOP\\n\\033[24;1H\\nlast\\n'",
        "printf 'abcdef\\033[3D\\033[P|\\033[2@__\\n\\033[3X\\nab\\033[5bX\\n\\033[20Gat 20\\n\\033Mup\\n'",
        f"{GAUGE} whiptail --gauge Wait 8 40 0; echo end",
        f"{GAUGE} NCURSES_NO_UTF8_ACS=1 dialog --gauge Wait 8 40; echo end",
        "python3 downloads.py",
        "python3 packages.py",
    ],
    ids=lambda command: command.removeprefix(GAUGE)[:30].strip(),
)
async def test_text_matches_the_history_of_tmux(
    here: Environment, tmp_path: Path, variables: dict[str, str], tmux: Tmux, command: str
) -> None:
    for program in ("dialog", "whiptail"):
        needs(program)
    (tmp_path / "downloads.py").write_text(DOWNLOADS)
    (tmp_path / "packages.py").write_text(PACKAGES)
    tmux.start(command, tmp_path, variables, 80, 24)
    outcome = await here.run(command, terminal=Terminal(), env=variables, timeout=20)
    assert outcome.exit_code == 0
    ours = [line.rstrip() for line in outcome.output.text.rstrip().splitlines()]
    give_up = time.monotonic() + 10
    while (theirs := tmux.history()) != ours:
        if time.monotonic() > give_up:
            assert ours == theirs
        await asyncio.sleep(0.02)


async def test_a_clone_shows_each_of_its_steps_once(
    here: Environment, repository: Path, variables: dict[str, str]
) -> None:
    outcome = await here.run(f"git clone file://{repository} copy", terminal=Terminal(), env=variables)
    assert outcome.exit_code == 0
    lines = outcome.output.text.splitlines()
    assert lines[0] == "Cloning into 'copy'..."
    steps = [re.sub(r"[:,].*", "", line.removeprefix("remote: ")) for line in lines[1:]]
    assert len(steps) == len(set(steps)) > 3, lines
    assert all(line.endswith("done.") for line in lines if "%" in line), lines


# --- bars -----------------------------------------------------------------------------------------------------


@pytest.fixture
def index(tmp_path: Path) -> Iterator[str]:
    """A package index with one wheel of 8 MiB."""
    place = tmp_path / "simple/anyshell-bar"
    place.mkdir(parents=True)
    name = "anyshell_bar-1-py3-none-any.whl"
    with zipfile.ZipFile(place / name, "w") as wheel:
        wheel.writestr("anyshell_bar.bin", os.urandom(8 * 1024 * 1024))
        info = "anyshell_bar-1.dist-info"
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: anyshell-bar\nVersion: 1\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    (place / "index.html").write_text(f'<!DOCTYPE html><a href="{name}">{name}</a>')
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Silent, directory=str(tmp_path))) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/simple"
        server.shutdown()
        thread.join()


class _Silent(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Log nothing."""


async def test_the_bar_of_pip_is_a_line_of_the_text(
    here: Environment, tmp_path: Path, variables: dict[str, str], index: str
) -> None:
    command = (
        f"{sys.executable} -m pip --isolated --disable-pip-version-check download --no-deps --no-cache-dir "
        f"--no-build-isolation --index-url {index} -d out anyshell-bar"
    )
    async with here.terminal(command, env=variables, columns=100) as t:
        outcome = await over(t, tmp_path)
    lines = outcome.output.text.splitlines()
    bars = [line for line in lines if "━" in line]
    assert len(bars) == 1
    assert "8.4/8.4 MB" in bars[0]
    assert "Successfully downloaded anyshell-bar" in lines
