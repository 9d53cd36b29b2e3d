"""POSIX parts of the program ``anyshell``: signals, terminals, and closed, full or non-blocking descriptors."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from typing import IO, TYPE_CHECKING

import pytest

from anyshell.cli.commands.doctor.command import _look_at_reaping
from anyshell.cli.commands.run.live import _own

from .cli_program import anyshell, is_alive, script, start, wait_until, wait_written
from .conftest import missing
from .processes import kill_with_its_net, living, unique_seconds, wait_asleep
from .test_cli import kept as kept

assert sys.platform != "win32"  # on other systems mypy skips the code below

if TYPE_CHECKING:
    from pathlib import Path

# --- the program ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("detect --shell=zs\t", ["detect", "--shell=zsh"]),
        ("run --left-behind=k\t-- true", ["run", "--left-behind=keep", "--", "true"]),
        ("detect --cwd=dir\t", ["detect", "--cwd=directory"]),
        ("detect --cwd dir\t", ["detect", "--cwd", "directory"]),
        ("run -- cat fil\t", ["run", "--", "cat", "file_of_ours"]),
        ("artifacts show 2\t", ["artifacts", "show", "ID"]),
        ("dete\t--js\t", ["detect", "--json"]),
        ("cp we\tsrc fil\t", ["cp", "web:src", "file_of_ours"]),
        ("run --host we\t-- true", ["run", "--host", "web", "--", "true"]),
    ],
    ids=lambda value: value.replace("\t", "<Tab>") if isinstance(value, str) else "",
)
@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_a_real_shell_completes(
    shell: str, typed: str, words: list[str], tmp_path: Path, kept: tuple[str, bytes]
) -> None:
    if shutil.which(shell) is None:
        missing(shell, f"apt-get install {shell}")
    (tmp_path / "bin").mkdir()
    (tmp_path / "work" / "directory").mkdir(parents=True)
    (tmp_path / "work" / "file_of_ours").touch()
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "config").write_text("Host web\nHost *\n")
    program = tmp_path / "bin" / "anyshell"
    program.write_text(
        f"""#!/bin/sh
        if [ "$_ANYSHELL_COMPLETE" ]; then exec {sys.executable} -m anyshell "$@"; fi
        for word; do echo "$word"; done > {tmp_path}/got; echo end >> {tmp_path}/got
        """
    )
    program.chmod(0o755)
    (tmp_path / "script").write_bytes(anyshell("completion", shell).stdout)
    ready = f"PS1=; . {tmp_path}/script; touch {tmp_path}/ready\n"
    if shell == "zsh":
        ready = "autoload -U compinit; compinit -D -u; bindkey '^I' complete-word; " + ready
    env = {
        **os.environ,
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "TERM": "xterm",
        "HOME": str(tmp_path),
    }
    leader, terminal = os.openpty()
    plain = {"bash": ["--norc", "--noprofile"], "zsh": ["-f"]}[shell]
    with (
        open(leader, "r+b", buffering=0) as keyboard,
        subprocess.Popen(
            [shell, *plain, "-i"],
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            cwd=tmp_path / "work",
            env=env,
            start_new_session=True,
        ) as running,
    ):
        os.close(terminal)
        threading.Thread(target=drain, args=(keyboard,), daemon=True).start()
        try:
            keyboard.write(ready.encode())
            wait_until((tmp_path / "ready").exists, "the shell has read the script")
            keyboard.write(f"anyshell {typed}\n".encode())
            got = tmp_path / "got"
            wait_until(lambda: got.exists() and got.read_text().endswith("end\n"), "the program was run")
        finally:
            os.killpg(running.pid, signal.SIGKILL)
    # zsh removes the added slash again.
    found = [word.removesuffix("/") for word in got.read_text().splitlines()[:-1]]
    assert found == [kept[0] if word == "ID" else word for word in words]


def drain(terminal: IO[bytes]) -> None:
    """Read the output of a program, so that its writes never block."""
    with contextlib.suppress(OSError, ValueError):
        while terminal.read(4096):
            pass


def test_closed_reader_causes_no_traceback() -> None:
    done = script("anyshell schema | true; echo ${PIPESTATUS[0]}")
    assert done.stdout in (b"141\n", b"0\n")  # true may end before or after the write
    assert done.stderr == b""


FULL = b"anyshell: cannot write to stdout: No space left on device\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--version"],
        ["--help"],
        ["run", "--help"],
        ["describe"],
        ["detect", "--json"],
        ["completion", "bash"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_full_disk_is_reported_once(arguments: list[str], unbuffered: str) -> None:
    env = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with open("/dev/full", "wb") as full:
        done = anyshell(*arguments, stdout=full, stderr=subprocess.PIPE, env=env)
    assert (done.returncode, done.stderr) == (125, FULL)


@pytest.mark.parametrize("arguments", ["--version", "describe", "detect --json"])
def test_closed_stdout_is_reported(arguments: str) -> None:
    done = script(f"anyshell {arguments} >&-; echo $?")
    assert done.stdout == b"125\n"
    assert done.stderr == b"anyshell: cannot write to stdout: Bad file descriptor\n"


@pytest.mark.parametrize("arguments", ["artifacts list", "artifacts prune --all"])
def test_unwritable_stderr_is_no_failure(arguments: str) -> None:
    assert script(f"anyshell {arguments} 2>/dev/full; echo $?").stdout == b"0\n"


def test_unencodable_character_is_escaped(tmp_path: Path) -> None:
    (tmp_path / "\N{CYRILLIC SMALL LETTER ZHE}").mkdir()
    env = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    done = anyshell("detect", cwd=tmp_path / "\N{CYRILLIC SMALL LETTER ZHE}", env=env)
    assert (done.returncode, done.stderr) == (0, b"")
    assert rb"/\u0436" in done.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has names that are not UTF-8")
def test_non_utf_8_path_is_shown_as_text(tmp_path: Path) -> None:
    directory = os.fsencode(tmp_path) + b"/a\xff"
    os.mkdir(directory)
    for command in ("detect", "describe"):
        done = anyshell(command, cwd=directory)
        assert rb"/a\xff" in done.stdout
        assert b"udc" not in done.stdout
    definition = anyshell("schema", cwd=directory).stdout
    assert rb"/a\\xff" in definition
    assert b"udc" not in definition
    done = anyshell("detect", "--cwd", os.fsdecode(directory + b"/nowhere"))
    assert rb"/a\xff/nowhere" in done.stderr
    assert b"udc" not in done.stderr


def test_a_call_asks_on_the_terminal() -> None:
    leader, terminal = os.openpty()
    with (
        open(leader, "r+b", buffering=0) as person,
        start("call", '{"command": "echo hi"}', stdin=terminal, stderr=terminal) as program,
    ):
        os.close(terminal)
        shown = b""
        while b"Run this?" not in shown:
            shown += person.read(1000)
        assert b"echo hi" in shown
        person.write(b"y\n")
        assert program.stdout is not None
        assert json.loads(program.stdout.read())["output"] == "hi\n"
        assert program.wait(20) == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_stops_the_command_of_a_call(number: signal.Signals) -> None:
    seconds = unique_seconds()
    with start("call", "--approve-all", json.dumps({"command": f"sleep {seconds}; :"})) as program:
        wait_asleep(seconds)
        program.send_signal(number)
        assert program.wait(20) == 128 + number
        assert living(seconds) == []


def test_closed_reader_stops_the_command_of_a_call() -> None:
    seconds = unique_seconds()
    command = json.dumps({"command": f"sleep {seconds}; :"})
    done = script(f"anyshell call --approve-all '{command}' | true; echo ${{PIPESTATUS[0]}}")
    assert (done.stdout, done.stderr) == (b"141\n", b"")
    assert living(seconds) == []


@pytest.mark.parametrize("form", [[], ["--json"]], ids=["text", "json"])
def test_signal_ends_the_doctor_without_output(tmp_path: Path, form: list[str]) -> None:
    shell = tmp_path / "bash"
    shell.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/asked\nexec sleep 300\n")
    shell.chmod(0o755)
    env = {**os.environ, "ANYSHELL_SHELL": str(shell)}
    with start("doctor", *form, env=env, stderr=subprocess.PIPE) as program:
        wait_written(tmp_path / "asked")
        program.send_signal(signal.SIGINT)
        assert program.communicate(timeout=20) == (b"", b"")
        assert program.returncode == 128 + signal.SIGINT


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can tell whose a process was")
def test_doctor_lists_orphans_of_a_killed_anyshell(tmp_path: Path) -> None:
    with start("run", "--", f"echo $$ > {tmp_path}/pid; trap '' HUP; while :; do sleep 300; done") as program:
        pid = int(wait_written(tmp_path / "pid"))
        kill_with_its_net(program.pid)
        program.wait()
    try:
        orphans = json.loads(anyshell("doctor", "--json").stdout)["orphans"]
        assert pid in {orphan["pid"] for orphan in orphans}
        (line,) = re.findall(rf"^ +{pid} .*", anyshell("doctor").stdout.decode(), re.MULTILINE)
        assert re.fullmatch(r"  bash  \S*bash .*", line.partition(str(pid))[2])
        assert len(line) <= 8 + len("  bash  ") + 80 + 2
    finally:
        os.killpg(pid, signal.SIGKILL)  # a command leads its own group
    wait_until(lambda: not is_alive(pid), "the orphan is dead")


def test_doctor_reports_a_failed_check_of_reaping(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> bytes:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(subprocess, "check_output", refuse)
    found = _look_at_reaping()
    assert (found.verdict, found.detail.partition(":")[0]) == (
        "problem",
        "it was not seen whether ended processes are reaped",
    )


@pytest.mark.skipif(sys.platform != "linux", reason="the check reads /proc")
def test_doctor_draws_no_conclusion_from_an_orphan_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "check_output", lambda *_, **__: str(os.getpid()).encode())
    monkeypatch.setattr("anyshell.cli.commands.doctor.command.REAP_LOOK_SECONDS", 0.02)
    monkeypatch.setattr("anyshell.cli.commands.doctor.command.REAP_LOOKS", 1)
    monkeypatch.setattr("anyshell.cli.commands.doctor.command.LOOK_SECONDS", 0.1)
    found = _look_at_reaping()
    assert (found.verdict, found.detail) == (
        "problem",
        "it was not seen whether ended processes are reaped: sleep 0 still runs after 0.1 s",
    )


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone has pid namespaces")
def test_doctor_reports_whether_orphans_are_reaped() -> None:
    """As pid 1 of its pid namespace the doctor inherits an orphan, and does not reap the orphan, like other programs."""
    namespaces = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]
    if subprocess.run([*namespaces, "true"], capture_output=True, check=False).returncode != 0:
        missing("unshare", "apt-get install util-linux")
    program = [sys.executable, "-P", "-m", "anyshell", "doctor"]
    said = subprocess.run(
        [*namespaces, *program], capture_output=True, text=True, timeout=120, check=False
    ).stdout
    assert re.search(
        r"problem +reaping +.*pid 1 does not reap them\n +to do: run the container with --init", said
    )
    # A shell as pid 1 reaps every ended process.
    within = [*namespaces, "sh", "-c", '"$@"; :', "sh", *program]
    said = subprocess.run(within, capture_output=True, text=True, timeout=120, check=False).stdout
    assert re.search(r"ok +reaping +processes that have ended are taken", said)


# --- run ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("code", "own"), [(0, 0), (255, 255), (256, 1), (0xC0000005, 1)])
def test_windows_exit_code_over_8_bits_is_no_success(code: int, own: int) -> None:
    assert _own(code) == own


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_command_killed_by_a_signal_exits_with_128_plus_its_number(number: int) -> None:
    assert anyshell("run", "--", f"ulimit -c 0; kill -{number} $$").returncode == 128 + number


def test_real_time_signal_exits_with_128_plus_its_number() -> None:
    number = getattr(signal, "SIGRTMIN", 32) + 3
    if sys.platform != "linux":
        pytest.skip("real-time signals are there on Linux alone")
    assert anyshell("run", "--", f"kill -{number} $$").returncode == 128 + number


def test_a_slow_reader_gets_everything() -> None:
    done = script("anyshell run -- 'seq 100000' | (read first; sleep 0.3; wc -l)")
    assert done.stdout.split() == [b"99999"]


def test_non_blocking_descriptor_gets_all_output() -> None:
    read, write = os.pipe()
    os.set_blocking(write, False)
    with start("run", "--", "seq 100000", stdout=write) as program:
        os.close(write)
        with open(read, "rb") as reader:
            assert reader.read().count(b"\n") == 100_000
        assert program.wait() == 0


def test_the_pipe_is_left_blocking() -> None:
    """The pipe is shared with the parent process, and with other children of the parent."""
    done = script("(anyshell run -- true; python3 -c 'import os; print(os.get_blocking(1))') | cat")
    assert done.stdout == b"True\n"


def test_full_disk_exits_with_125_and_stops_the_command() -> None:
    seconds = unique_seconds()
    with open("/dev/full", "wb") as full:
        done = anyshell(
            "run", "--grace", "0.3", "--", f"yes & sleep {seconds}", stdout=full, stderr=subprocess.PIPE
        )
    assert done.returncode == 125
    assert (
        done.stderr == b"anyshell: cannot write to stdout: No space left on device; the command was stopped\n"
    )
    assert living(seconds) == []


def test_a_socket_is_forwarded() -> None:
    ours, theirs = socket.socketpair()
    with (
        ours,
        theirs,
        start("run", "--", "sort", stdin=theirs) as program,
    ):
        theirs.close()
        ours.sendall(b"b\na\n")
        ours.shutdown(socket.SHUT_WR)
        assert program.stdout is not None
        assert program.stdout.read() == b"a\nb\n"


def test_unread_endless_stdin_does_not_block() -> None:
    done = script("yes | anyshell run -- 'echo done'; echo ${PIPESTATUS[1]}")
    assert done.stdout == b"done\n0\n"


def test_finite_stdin_reaches_the_command_completely() -> None:
    assert script("seq 3 | anyshell run -- 'read a; echo $a; cat'").stdout == b"1\n2\n3\n"


def test_closed_stdin_is_at_end_of_file() -> None:
    done = script("anyshell run -- 'cat; echo out; echo err >&2; exit 7' <&-; echo $?")
    assert (done.stdout, done.stderr) == (b"out\n7\n", b"err\n")


@pytest.mark.parametrize("closed", [">&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("command", ["echo out", "yes"])
def test_output_to_a_closed_stdout_exits_with_125(closed: str, command: str) -> None:
    done = script(f"anyshell run --grace 0.3 -- '{command}' {closed}; echo $?")
    assert done.stdout == b"125\n"
    said = b"anyshell: cannot write to stdout: Bad file descriptor; the command was stopped\n"
    assert done.stderr == (b"" if "2>&-" in closed else said)


def test_output_to_a_closed_stderr_exits_with_125() -> None:
    done = script("anyshell run -- 'echo out; echo err >&2; sleep 300' 2>&-; echo $?")
    assert done.stdout in {b"out\n125\n", b"125\n"}  # stdout and stderr are read separately, so in any order


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_silent_command_needs_no_descriptors(closed: str) -> None:
    assert script(f"anyshell run -- 'exit 7' {closed}; echo $?").stdout == b"7\n"


def test_exit_code_is_known_despite_ignored_sigchld() -> None:
    with start("run", "--", "true; exit 3", ignore="SIGCHLD") as program:
        assert program.wait(20) == 3


def test_blocked_signals_of_the_caller_are_not_inherited() -> None:
    show = "python3 -c 'import signal; print(*signal.pthread_sigmask(0, []))'"
    with start("run", "--", show, block="SIGTERM SIGINT SIGUSR1") as program:
        assert program.stdout is not None
        assert program.stdout.read() == b"\n"
        assert program.wait(20) == 0


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ("-- 'sleep 300 & exit 3' 2>/dev/full", 3),
        ("--timeout 0.5 --grace 0.3 -- 'sleep 300' 2>/dev/full", 124),
        ("--cwd /nowhere -- true 2>/dev/full", 125),
        ("--cwd /nowhere -- true 2> >(exec true)", 125),
        ("--nope -- true 2>/dev/full", 2),
        ("--nope -- true 2> >(exec true)", 2),
    ],
)
def test_unwritable_notice_changes_no_exit_code(arguments: str, code: int) -> None:
    assert script(f"anyshell run {arguments}; echo $?").stdout.decode() == f"{code}\n"


def test_unwritable_json_exits_with_125() -> None:
    done = script("anyshell run --json -- 'exit 3' >/dev/full; echo $?")
    assert (done.stdout, done.stderr) == (
        b"125\n",
        b"anyshell: cannot write to stdout: No space left on device\n",
    )
