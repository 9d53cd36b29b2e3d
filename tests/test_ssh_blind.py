"""Stops on hosts whose watcher does not see the command, or sees it late: the outcome, and the signalled processes."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import pwd
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from anyshell import Environment, Terminal
from anyshell.cli.commands.doctor.host import examine_host
from anyshell.cli.commands.doctor.report import Report

from .conftest import missing, open_to_all
from .processes import living, unique_seconds, wait_living, wait_none
from .ssh_server import (
    SSHD,
    Link,
    accounts,
    embedded,
    free_port,
    home,
    is_root,
    openssh,
    startup_file,
    wait_open,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anyshell import Outcome

    from .ssh_server import Server

pytestmark = pytest.mark.anyio

assert sys.platform != "win32"  # else mypy checks the code below on every platform


@pytest.fixture
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of every available program except awk."""
    made = tmp_path_factory.mktemp("tools")
    open_to_all(made)
    for directory in ("/usr/bin", "/bin"):
        for program in Path(directory).iterdir():
            if "awk" not in program.name and not (made / program.name).exists():
                (made / program.name).symlink_to(program)
    return made


async def test_stop_on_a_host_without_awk_is_lost_and_ends_the_leaders_group(user: str, tools: Path) -> None:
    seconds = unique_seconds()
    with openssh(user, f"SetEnv PATH={tools}") as server:
        async with Environment.detect(server.options()) as env:
            outcome = await env.run(f"sleep {seconds} & sleep {seconds}; :", timeout=2, grace=0.3)
            assert outcome.status == "lost"
            assert [process.alive for process in outcome.left_behind] == [True]
            await wait_none(seconds)
            assert (await env.run("echo again")).output.text == "again\n"


async def test_process_left_behind_on_a_host_without_awk_is_not_denied(user: str, tools: Path) -> None:
    """The process has closed its pipes: only its group shows that it lives, and no look can name it."""
    seconds = unique_seconds()
    with openssh(user, f"SetEnv PATH={tools}") as server:
        async with Environment.detect(server.options()) as env:
            outcome = await env.run(f"sleep {seconds} </dev/null >/dev/null 2>&1 &", grace=0.3)
            assert [process.alive for process in outcome.left_behind] == [True]
            assert (await env.run("echo again")).left_behind == ()
            subprocess.run(["pkill", "-f", f"sleep {seconds}"], check=False)
            await wait_none(seconds)


@contextlib.contextmanager
def login_shell(user: str, text: str) -> Iterator[None]:
    """A login shell for an account: a program of the test."""
    path = home(user) / "shell"
    path.write_text(text)
    path.chmod(0o755)
    with accounts(change=True):
        subprocess.run(["usermod", "--shell", str(path), user], check=True)
    try:
        yield
    finally:
        with accounts(change=True):
            subprocess.run(["usermod", "--shell", "/bin/bash", user], check=True)


@pytest.mark.parametrize("reaps", [True, False], ids=["pid 2", "pid 1"])
async def test_stop_in_a_separate_pid_namespace_is_lost_and_ends_the_leader(user: str, reaps: bool) -> None:
    """The watcher is in another namespace, where the leader's pid is that of another process, or unused."""
    if not is_root():
        pytest.skip("only root can give an account a login shell")
    unshare = [
        shutil.which("unshare") or "",
        "--user",
        "--map-current-user",
        "--pid",
        "--fork",
        "--mount-proc",
    ]
    tried = subprocess.run([*unshare, "true"], check=False, capture_output=True)
    if tried.returncode:
        missing("pid namespaces", tried.stderr.decode())
    seconds = unique_seconds()
    run = '/bin/bash "$@"; exit $?' if reaps else 'exec /bin/bash "$@"'
    text = f"#!/bin/sh\nexec {' '.join(unshare)} --kill-child sh -c '{run}' sh \"$@\"\n"
    with login_shell(user, text), openssh(user) as server:
        async with Environment.detect(server.options()) as env:
            outcome = await env.run(f"sleep {seconds} & sleep {seconds}; :", timeout=3, grace=0.3)
            assert (outcome.status, outcome.started) == ("lost", True)
            assert [process.alive for process in outcome.left_behind] == [True]
            await wait_none(seconds)


SEPARATE = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
"""Words that start a program without a view of other processes, and with its own pids."""


@contextlib.contextmanager
def second_machine(server: Server, kind: str = "openssh") -> Iterator[tuple[int, int]]:
    """A server with the same key and account that does not see processes of the first server: its port and its pid."""
    assert SSHD is not None
    port = free_port()
    command = [SSHD, "-D", "-f", str(server.directory / "sshd_config"), "-o", "PidFile=none", "-p", str(port)]
    if kind == "asyncssh":
        command = [
            sys.executable,
            "-m",
            "tests.asyncssh_server",
            str(server.directory),
            str(port),
            "one-session",
        ]
    process = subprocess.Popen([*SEPARATE, *command], stdin=subprocess.DEVNULL, cwd=Path(__file__).parents[1])
    try:
        wait_open(port)
        yield port, psutil.Process(process.pid).children()[0].pid
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def machine(kind: str, user: str) -> Iterator[Server]:
    """A server with one session for each connection."""
    with openssh(user, "MaxSessions 1") if kind == "openssh" else embedded("one-session") as server:
        yield server


@pytest.mark.parametrize(
    ("kind", "terminal", "first", "end"),
    [
        *itertools.product(
            ["openssh"], [None], ["outer", "inner"], ["timeout", "left behind", "left behind at its timeout"]
        ),
        # On a terminal, and for asyncssh, the end of the output is no sign.
        ("openssh", Terminal(), "inner", "left behind"),
        ("asyncssh", None, "inner", "left behind"),
    ],
)
async def test_two_machines_behind_one_name_are_distinguished(
    user: str, kind: str, terminal: Terminal | None, first: str, end: str
) -> None:
    """Connections go to the two machines in turn, each with one session: the watcher is on one, and commands are on the other."""
    if not is_root():
        pytest.skip("only root can make a pid namespace for a server")
    with machine(kind, user) as server, second_machine(server, kind) as (port, _):
        other = server.port
        if first == "inner":
            server.port, other = port, server.port
        async with Link(server, others=[other]) as link, Environment.detect(link.options()) as env:
            for _ in range(2):
                seconds = unique_seconds()
                # On a terminal only a process that ignores the hangup survives.
                text = f"trap '' HUP; sleep {seconds} & " + (
                    f"sleep {seconds}; :" if end == "timeout" else "exit 3"
                )
                timeout = 30 if end == "left behind" else 2
                outcome = await env.run(
                    text, timeout=timeout, grace=0.3, left_behind="stop", terminal=terminal
                )
                alive = await asyncio.to_thread(living, seconds)
                for line in alive:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(int(line.split()[0]), 9)
                assert outcome.started
                assert any(process.alive for process in outcome.left_behind) or not alive, outcome
                assert end == "timeout" or (not alive) or outcome.exit_code == 3


def stranger(place: int, number: int, account: str, seconds: str) -> None:
    """Start a process of an account that sleeps for some seconds, with a given free pid, in the pid namespace of another process."""
    user = pwd.getpwnam(account)
    start = (
        f"echo {number - 1} >/proc/sys/kernel/ns_last_pid && {{ setsid setpriv --reuid={user.pw_uid} "
        f"--regid={user.pw_gid} --clear-groups sleep {seconds} </dev/null >/dev/null 2>&1 & [ $! = {number} ]; }}"
    )
    enter = ["nsenter", f"--target={place}", "--pid", "--mount"]
    made = subprocess.run([*enter, "sh", "-c", start], check=False, capture_output=True, timeout=30)
    assert made.returncode == 0, made.stderr


def later_pids(place: int, number: int) -> None:
    """Make a pid namespace continue with a given pid."""
    enter = ["nsenter", f"--target={place}", "--pid", "--mount"]
    subprocess.run(
        [*enter, "sh", "-c", f"echo {number} >/proc/sys/kernel/ns_last_pid"], check=True, timeout=30
    )


async def outcome_beside_a_stranger(
    env: Environment, account: str, place: int, *, end: str, terminal: Terminal | None
) -> tuple[Outcome, list[str]]:
    """Run a command, and stop it while its leader's pid belongs to an unrelated process on the watcher's machine; also return the survivors."""
    seconds, its = unique_seconds(), unique_seconds()
    said, go = home(account) / "said", home(account) / "go"
    wait = f"while [ ! -e {go} ]; do sleep 0.05; done; "
    text = f"trap '' HUP; sleep {seconds} & echo $$ >{said}.new; mv {said}.new {said}; " + (
        f"sleep {seconds}; :" if end == "timeout" else f"{wait} exit 3"
    )
    try:
        running = asyncio.create_task(
            env.run(text, timeout=4, grace=0.3, left_behind="stop", terminal=terminal)
        )
        while not said.exists():
            assert not running.done(), running
            await asyncio.sleep(0.02)
        await asyncio.to_thread(stranger, place, int(said.read_text()), account, its)
        go.touch()
        outcome = await running
        assert [line.partition(" ")[2] for line in living(its)] == [f"sleep {its}"]
        return outcome, living(seconds)
    finally:
        for path in (said, go):
            path.unlink(missing_ok=True)
        for line in (*living(seconds), *living(its)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(line.split()[0]), 9)


@pytest.mark.parametrize("end", ["timeout", "left behind"])
@pytest.mark.parametrize(
    ("kind", "terminal"),
    [("openssh", None), ("openssh", Terminal()), ("asyncssh", None)],
    ids=["openssh", "terminal", "asyncssh"],
)
async def test_unrelated_process_with_the_leaders_pid_on_the_watchers_machine_survives(
    user: str, kind: str, terminal: Terminal | None, end: str
) -> None:
    if not is_root():
        pytest.skip("only root can make a pid namespace for a server")
    account = user if kind == "openssh" else "root"
    with (
        machine(kind, user) as server,
        second_machine(server, kind) as (first, place),
        second_machine(server, kind) as (port, other),
    ):
        later_pids(other, 5000)
        server.port = first
        async with Link(server, others=[port]) as link, Environment.detect(link.options()) as env:
            outcome, alive = await outcome_beside_a_stranger(env, account, place, end=end, terminal=terminal)
    if (
        end == "timeout" and kind == "openssh"
    ):  # the other server passes no signal on, and has no room for another session
        assert alive == []
    assert any(process.alive for process in outcome.left_behind)
    assert (outcome.status, outcome.exit_code) == (("lost", None) if end == "timeout" else ("exited", 3))


async def test_unrelated_process_with_the_leaders_pid_in_another_root_session_survives(user: str) -> None:
    """Each session has a pid namespace; OpenSSH passes no signal on to what root runs."""
    if not is_root():
        pytest.skip("only root can make a pid namespace")
    pids = home(user) / "pids"
    run = f'cat {pids} >/proc/sys/kernel/ns_last_pid; /bin/bash -c "$SSH_ORIGINAL_COMMAND"; exit $?'
    path = home(user) / "session"
    path.write_text(f"#!/bin/sh\nexec {' '.join(SEPARATE)} sh -c '{run}'\n")
    path.chmod(0o755)
    try:
        with openssh("root", f"ForceCommand {path}") as server:
            pids.write_text("100")
            async with Environment.detect(server.options()) as env:
                pids.write_text("5000")
                place = next(
                    child.children()[0].pid
                    for child in psutil.Process(server.pid).children(recursive=True)
                    if child.name() == "unshare"
                )
                outcome, _ = await outcome_beside_a_stranger(env, "root", place, end="timeout", terminal=None)
    finally:
        path.unlink()
        pids.unlink()
    assert outcome.status == "lost"
    assert any(process.alive for process in outcome.left_behind)


async def until_fraction(fraction: float) -> None:
    """Wait until the clock is at that fraction of its second."""
    await asyncio.sleep((fraction - time.time()) % 1)


async def test_tree_on_a_host_without_proc_is_stopped(user: str) -> None:
    """The clock of the host and the starts are whole seconds: the clock is asked late in a second, and processes start early."""
    seconds = unique_seconds()
    with openssh(user, "SetEnv ANYSHELL_NO_PROC=1") as server:
        for asked in (0.0, 0.5, 0.8):
            await until_fraction(asked)
            async with Environment.detect(server.options()) as env:
                for text in ("sleep {s} & sleep {s}; :", "trap '' TERM; sleep {s}; sleep {s}; :"):
                    outcome = await env.run(text.replace("{s}", seconds), timeout=1, grace=0.3)
                    assert outcome.status == "timed_out"
                    assert living(seconds) == []
                for began in (0.0, 0.2, 0.7):
                    await until_fraction(began)
                    left = await env.run(
                        f"sleep {seconds} & sleep 0.1; exit 3", timeout=30, left_behind="stop"
                    )
                    assert (left.status, left.exit_code) == ("exited", 3)
                    assert [(process.name, process.alive) for process in left.left_behind] == [
                        ("sleep", False)
                    ]
                    assert living(seconds) == []


@pytest.mark.parametrize(
    "text",
    [
        "sleep {s} & sleep {s}; :",
        "setsid sleep {s} & sleep {s}; :",
        "trap '' TERM; (trap - TERM; setsid sleep {s}; sleep {s}) & sleep {s}; sleep {s}",
    ],
    ids=["group", "session", "kill"],
)
async def test_slow_look_does_not_prevent_signals_to_a_tree(user: str, tools: Path, text: str) -> None:
    (tools / "awk").write_text('#!/bin/sh\n[ -e "$HOME/slow" ] && sleep 5\nexec /usr/bin/awk "$@"\n')
    (tools / "awk").chmod(0o755)
    seconds = unique_seconds()
    slow = home(user) / "slow"
    with openssh(user, f"SetEnv PATH={tools}") as server:
        async with Environment.detect(server.options()) as env:
            slow.touch()
            try:
                task = asyncio.create_task(env.run(text.replace("{s}", seconds), timeout=3, grace=0.3))
                await asyncio.to_thread(wait_living, f"sleep {seconds}", 2)
                assert (await task).status in ("timed_out", "lost")
                await wait_none(seconds)
            finally:
                slow.unlink()


@pytest.mark.parametrize("how", ["timeout", "cancel", "session", "long"])
async def test_stopped_login_shell_may_release_its_locks(user: str, how: str) -> None:
    """The startup file of a version manager holds a lock; if it were killed, no later login would get past the lock."""
    lock = home(user) / "lock"
    seconds = unique_seconds()
    text = f"[ -e ~/slow ] && {{ mkdir ~/lock; trap 'rmdir ~/lock; exit' TERM; sleep {seconds}; }}\n"
    with openssh(user) as server:
        async with Environment.detect(server.options()) as env:
            with startup_file(server, ".bashrc", text):
                (home(user) / "slow").touch()
                try:
                    session = env.session()
                    if how == "session":
                        running = asyncio.create_task(session.run("echo never", timeout=2, grace=2))
                    else:
                        given = {"GIVEN": "x" * 5000} if how == "long" else {}
                        timeout = None if how == "cancel" else 2
                        running = asyncio.create_task(
                            env.run("echo never", timeout=timeout, grace=2, env=given)
                        )
                    await asyncio.to_thread(wait_living, seconds)
                    assert lock.exists()
                    if how == "cancel":
                        running.cancel()
                        with pytest.raises(asyncio.CancelledError):
                            await running
                    else:
                        outcome = await running
                        assert (outcome.status, outcome.started) == ("timed_out", False)
                    assert living(seconds) == []
                    assert not lock.exists()
                finally:
                    (home(user) / "slow").unlink()
                    with contextlib.suppress(OSError):
                        lock.rmdir()


MAIN_THREAD_ENDS = (
    "import ctypes, threading, time; threading.Thread(target=time.sleep, args=({s},)).start(); "
    "print(flush=True); ctypes.CDLL(None).syscall({exit}, 0)"
)


async def test_process_without_main_thread_is_stopped(user: str) -> None:
    number = {"x86_64": 60, "aarch64": 93}.get(subprocess.check_output(["uname", "-m"], text=True).strip())
    if number is None:
        missing("the number of the system call exit", "add that of this machine")
    python = shutil.which(
        "python3", path="/usr/bin"
    )  # the Python of the tests may be in root's own directory
    if python is None:
        missing("python3 in /usr/bin", "install python3")
    seconds = unique_seconds()
    text = MAIN_THREAD_ENDS.format(s=seconds, exit=number)
    with openssh(user) as server:
        async with Environment.detect(server.options()) as env:
            outcome = await env.run(f"exec {python} -c '{text}'", timeout=1.5, grace=0.2)
            assert outcome.status == "timed_out"
            assert not any(text in line for line in living(seconds))
            kept = await env.run(
                f"setsid {python} -c '{text}' & sleep 1; exit 3", timeout=60, left_behind="stop"
            )
            assert (kept.status, kept.exit_code) == ("exited", 3)
            assert [process.alive for process in kept.left_behind] == [False]


async def test_doctor_reports_stops_that_cannot_be_observed(user: str, tools: Path) -> None:
    for more, found in (("", False), (f"SetEnv PATH={tools}", True)):
        report = Report()
        with openssh(user, more) as server:
            await examine_host(server.options(), report)
        assert ("stops" in {each.name for each in report.findings if each.verdict == "problem"}) == found
