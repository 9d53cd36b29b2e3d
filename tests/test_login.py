"""The lines sent to login shells, run by real shells: a terminal shows and changes no part of these lines."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from anyshell._types import LoginCommand, Spawn, Terminal
from anyshell.shells import Login

from .conftest import missing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

assert sys.platform != "win32"  # otherwise mypy considers the code below unreachable

TOKEN = "anyshell" + "7" * 32

SHELLS = ["bash", "zsh", "dash", "busybox", "fish", "tcsh"]

KEYS = "".join(map(chr, range(1, 32))) + "\x7f\r\n'"
"""Every character that a terminal interprets as a key, or changes."""


def login_shell(name: str, tmp_path: Path) -> tuple[list[str], str, dict[str, str]]:
    """The arguments with which a server starts the shell, its path in the account, and variables; busybox has only its own tools."""
    program = shutil.which(name)
    if program is None:
        missing(name, f"install {name}")
    env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "TERM": "dumb"}
    if name != "busybox":
        return [program, "-c"], program, env
    tools = tmp_path / "tools"
    tools.mkdir()
    subprocess.run([program, "--install", "-s", str(tools)], check=True)
    return [program, "ash", "-c"], "/bin/ash", {**env, "PATH": str(tools)}


class Client:
    """The client of a server, which sends on request."""

    def __init__(self, start: LoginCommand, reads: int, writes: int) -> None:
        self._parts = list(start.when_ready)
        self._reads, self._writes = reads, writes
        self.heard = b""
        os.set_blocking(writes, False)
        self._waiting = start.sent

    def run(self) -> bytes:
        """Run the exchange to the end of the output."""
        give_up = time.monotonic() + 20
        asked = 0
        while True:
            assert time.monotonic() < give_up, self.heard[-1000:]
            writable = [self._writes] if self._waiting else []
            can_read, can_write, _ = select.select([self._reads], writable, [], 0.2)
            if can_write:
                with contextlib.suppress(BlockingIOError):
                    self._waiting = self._waiting[os.write(self._writes, self._waiting) :]
            if can_read:
                try:
                    data = os.read(self._reads, 65536)
                except OSError:  # the terminal is closed
                    data = b""
                if not data:
                    return self.heard
                self.heard += data
                while asked < self.heard.count(f"{TOKEN} ready".encode()):
                    asked += 1
                    self._waiting += self._parts.pop(0)


@contextlib.contextmanager
def started(argv: list[str], env: Mapping[str, str]) -> Iterator[tuple[int, int]]:
    """A program on its own terminal: its pid, and the master side of the terminal."""
    import pty

    pid, master = pty.fork()
    if pid == 0:
        os.execve(argv[0], argv, env)
    try:
        yield pid, master
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, 9)
        os.close(master)
        os.waitpid(pid, 0)


def spawn(text: str, **more: Any) -> Spawn:
    return Spawn(argv=("/bin/sh", "-c", text), cwd="/", **more)


def begin(path: str, what: Spawn) -> LoginCommand:
    return Login(path).start(what, token=TOKEN, mark="ANYSHELL_MARK_1", tag=1 << 31)


def on_terminal(
    name: str, tmp_path: Path, text: str, host: Mapping[str, str] | None = None, **more: object
) -> tuple[bytes, bytes]:
    """Run a text like a server: return the output before the start of the text, and the output of the text."""
    argv, path, own = login_shell(name, tmp_path)
    start = begin(path, spawn(text, terminal=Terminal(), **more))
    with started([*argv, start.line], {**own, **(host or {})}) as (_, master):
        noise, _, printed = Client(start, master, master).run().partition(f"{TOKEN} started".encode())
    return noise, printed.partition(b"\n")[2]


@pytest.mark.parametrize("name", SHELLS)
def test_values_and_script_reach_a_terminal_unchanged_and_unseen(name: str, tmp_path: Path) -> None:
    secret = secrets.token_hex(8)
    value = f"{secret}{KEYS}{'x' * 10_000}\n"
    script = f"{secret}{KEYS * 20_000}"
    text = f'printf %s "$GIVEN" >{tmp_path}/value; cat "$ANYSHELL_SCRIPT" >{tmp_path}/script; stty -g; echo "$TERM"'
    noise, printed = on_terminal(name, tmp_path, text, env={"GIVEN": value}, script=script)
    assert (tmp_path / "value").read_bytes() == value.encode()
    assert (tmp_path / "script").read_bytes() == script.encode()
    assert secret.encode() not in noise + printed
    settings, _, rest = printed.partition(b"\r\n")
    assert rest == b"xterm-256color\r\n"
    with started(["/bin/stty", "-g"], {}) as (_, master):
        fresh = Client(LoginCommand(line=""), master, master).run()
    assert settings == fresh.strip()


@pytest.mark.parametrize(
    ("name", "file", "text"),
    [
        ("bash", "startup", "set -xv; exec 2>&1"),
        ("bash", "startup", "trap 'echo DBG' DEBUG; set -T"),
        (
            "bash",
            "startup",
            "shopt -s expand_aliases; alias stty='echo A' head='echo A' eval='echo A' echo=false",
        ),
        ("bash", "startup", "stty() { echo mine; }; head() { echo mine; }; echo() { printf mine; }"),
        ("bash", "startup", "stty -echo; echo noise; printf unfinished; set -euo pipefail; set -CfkT"),
        ("zsh", ".zshenv", "setopt verbose xtrace err_return no_unset sh_word_split"),
        (
            "zsh",
            ".zshenv",
            "alias head='head -n' stty='echo A' printf='echo A' unset='echo A'; TRAPEXIT() { echo D; }",
        ),
    ],
)
def test_startup_files_do_not_reveal_values(name: str, file: str, text: str, tmp_path: Path) -> None:
    (tmp_path / file).write_text(f"{text}\n")
    secret = secrets.token_hex(8)
    read = {"BASH_ENV": str(tmp_path / "startup")} if name == "bash" else {"ZDOTDIR": str(tmp_path)}
    noise, printed = on_terminal(
        name,
        tmp_path,
        'printf "%s;" "${#GIVEN}"',
        read,
        env={"GIVEN": f"{secret}\x03\n"},
        unset=frozenset(read),
    )
    assert printed == b"18;"
    assert secret.encode() not in noise


@pytest.mark.parametrize("name", SHELLS)
def test_script_file_arrives_complete_with_any_host_tools(name: str, tmp_path: Path) -> None:
    """busybox's head reads beyond the requested number of bytes."""
    argv, path, env = login_shell(name, tmp_path)
    start = begin(path, spawn('cat "$ANYSHELL_SCRIPT"', script=KEYS * 20_000))
    with subprocess.Popen(
        [*argv, start.line], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as shell:
        assert shell.stdin is not None
        assert shell.stdout is not None
        heard = Client(start, shell.stdout.fileno(), shell.stdin.fileno()).run()
    printed = heard.partition(f"{TOKEN} started".encode())[2].partition(b"\n")[2]
    assert (len(printed), printed.count(KEYS.encode())) == (len(KEYS) * 20_000, 20_000)


@pytest.mark.parametrize("name", SHELLS)
def test_start_message_identifies_the_process(name: str, tmp_path: Path) -> None:
    argv, path, env = login_shell(name, tmp_path)
    start = begin(path, spawn("cat /proc/$$/stat; env; exit 7", terminal=Terminal()))
    with started([*argv, start.line], env) as (_, master):
        heard = Client(start, master, master).run().decode()
    said, _, printed = heard.partition(f"{TOKEN} started ")[2].replace("\r", "").partition("\n")
    stat, _, environment = printed.partition("\n")
    pid, boot, *namespace = said.partition(" (")[0].split()
    assert pid == stat.split()[0] == namespace.pop()
    assert boot == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    told = "ino:" in Path("/proc/self/fdinfo/0").read_text()  # since Linux 5.14
    assert namespace == (["ino:", str(Path("/proc/self/ns/pid").stat().st_ino)] if told else [])
    assert said.rpartition(")")[2].split()[19] == stat.rpartition(")")[2].split()[19]
    assert not re.search("ANYSHELL_(?!MARK_1)", environment)


def test_missing_stty_is_reported_before_values_are_sent(tmp_path: Path) -> None:
    (tmp_path / "head").symlink_to(shutil.which("head") or "")
    start = begin("/bin/sh", spawn("true", terminal=Terminal(), env={"GIVEN": "x"}))
    with started(["/bin/sh", "-c", start.line], {"PATH": str(tmp_path)}) as (_, master):
        heard = Client(start, master, master).run()
    assert f"{TOKEN} terminal\r\n".encode() in heard
    assert b"ready" not in heard
