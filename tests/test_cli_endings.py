"""Endings of ``anyshell run``: in each case the process tree is gone before the program returns."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import subprocess
import sys
import termios
from typing import TYPE_CHECKING

import pytest

from .cli_program import is_alive, read_line, script, start, wait_until, wait_written
from .processes import living, unique_seconds, wait_living

assert sys.platform != "win32"  # on other systems mypy skips the code below

if TYPE_CHECKING:
    from pathlib import Path

SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT]
OTHERS = [signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGXCPU, signal.SIGABRT, signal.SIGVTALRM]


@pytest.mark.parametrize("number", [*SIGNALS, *OTHERS])
def test_a_signal_stops_the_whole_tree(number: signal.Signals) -> None:
    seconds = unique_seconds()
    command = f"setsid sleep {seconds} & sleep {seconds} & echo ready; wait"
    with start("run", "--grace", "0.3", "--", command) as program:
        assert read_line(program.stdout) == "ready"
        wait_living(f"sleep {seconds}", 3)  # including the shell, whose command line has the number too
        program.send_signal(number)
        assert program.wait(20) == 128 + number
        assert living(seconds) == []


@pytest.mark.parametrize("number", SIGNALS)
def test_signal_stops_a_command_that_ignores_signals(number: signal.Signals) -> None:
    command = "trap '' INT TERM HUP QUIT; echo $$; while :; do sleep 300; done"
    with start("run", "--grace", "0.3", "--", command) as program:
        pid = int(read_line(program.stdout))
        program.send_signal(number)
        assert program.wait(20) == 128 + number
        assert not is_alive(pid)


def test_a_second_signal_skips_the_grace() -> None:
    command = "trap 'echo asked' TERM; echo $$; while :; do sleep 0.1; done"
    with start("run", "--grace", "300", "--", command) as program:
        pid = int(read_line(program.stdout))
        program.send_signal(signal.SIGINT)
        assert read_line(program.stdout) == "asked"
        assert is_alive(pid)
        program.send_signal(signal.SIGTERM)
        assert program.wait(20) == 128 + signal.SIGINT
        assert not is_alive(pid)


def test_output_during_the_grace_is_printed() -> None:
    command = "trap 'echo cleaning; echo cleaned; exit 0' TERM; echo ready; while :; do sleep 0.1; done"
    with start("run", "--", command) as program:
        assert read_line(program.stdout) == "ready"
        program.send_signal(signal.SIGINT)
        assert program.stdout is not None
        assert program.stdout.read() == b"cleaning\ncleaned\n"
        assert program.wait(20) == 128 + signal.SIGINT


@pytest.mark.parametrize("name", ["SIGINT", "SIGHUP", "SIGQUIT"])
def test_a_signal_that_was_ignored_at_the_start_stays_ignored(name: str) -> None:
    """nohup ignores signals so, and a shell does for background jobs."""
    with start(
        "run", "--", "echo ready; read line; echo $line", ignore=name, stdin=subprocess.PIPE
    ) as program:
        assert program.stdin is not None
        assert read_line(program.stdout) == "ready"
        program.send_signal(signal.Signals[name])
        program.stdin.write(b"still here\n")
        program.stdin.flush()
        assert read_line(program.stdout) == "still here"
        assert program.wait(20) == 0


def test_a_signal_before_the_shell_is_found_ends_the_program(tmp_path: Path) -> None:
    shell = tmp_path / "bash"
    shell.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/asked\nexec sleep 300\n")
    shell.chmod(0o755)
    with start("run", "--shell", str(shell), "--", "true") as program:
        pid = int(wait_written(tmp_path / "asked"))
        program.send_signal(signal.SIGTERM)
        assert program.wait(20) == 128 + signal.SIGTERM
        assert not is_alive(pid)


@pytest.mark.parametrize("module", ["click", "asyncio"])
def test_signal_during_imports_ends_the_program(tmp_path: Path, module: str) -> None:
    """The signal comes during imports; these modules never finish."""
    (tmp_path / f"{module}.py").write_text(
        f"import time\nprint('here', file=open({str(tmp_path / 'here')!r}, 'w'), flush=True)\ntime.sleep(300)\n"
    )
    with (
        (tmp_path / "stderr").open("wb") as stderr,
        start("run", "true", stderr=stderr, env={**os.environ, "PYTHONPATH": str(tmp_path)}) as program,
    ):
        wait_written(tmp_path / "here")
        program.send_signal(signal.SIGINT)
        assert program.wait(20) == -signal.SIGINT
    assert (tmp_path / "stderr").read_bytes() == b""


def test_signal_prints_no_traceback(tmp_path: Path) -> None:
    with (
        (tmp_path / "stderr").open("wb") as stderr,
        start("run", "--", "echo a; sleep 300", stderr=stderr) as program,
    ):
        assert read_line(program.stdout) == "a"
        program.send_signal(signal.SIGINT)
        assert program.wait(20) == 128 + signal.SIGINT
    assert (tmp_path / "stderr").read_bytes() == b""


def test_ctrl_c_on_a_terminal_stops_the_tree() -> None:
    seconds = unique_seconds()
    leader, terminal = os.openpty()
    with open(leader, "r+b", buffering=0) as keyboard:
        with start(
            "run", "--", f"echo ready; sleep {seconds}", stdin=terminal, stdout=terminal, stderr=terminal
        ) as program:
            os.close(terminal)
            assert b"ready" in keyboard.read(100)
            keyboard.write(b"\x03")
            assert program.wait(20) == 128 + signal.SIGINT
        assert living(seconds) == []


# --- the output is not read -----------------------------------------------------------------------------------


def test_closed_reader_stops_a_flood() -> None:
    seconds = unique_seconds()
    done = script(f"anyshell run --grace 0.3 -- 'yes {seconds}' | head -1; echo ${{PIPESTATUS[0]}}")
    assert done.stdout.decode() == f"{seconds}\n141\n"
    assert done.stderr == b""
    assert living(seconds) == []


def test_closed_reader_stops_a_silent_command() -> None:
    seconds = unique_seconds()
    done = script(f"anyshell run --grace 0.3 -- 'echo a; sleep {seconds}' | head -1; echo ${{PIPESTATUS[0]}}")
    assert (done.stdout, done.stderr) == (b"a\n141\n", b"")
    assert living(seconds) == []


def test_closed_reader_stops_a_command_with_json() -> None:
    seconds = unique_seconds()
    done = script(f"anyshell run --json --grace 0.3 -- 'sleep {seconds}' | true; echo ${{PIPESTATUS[0]}}")
    assert (done.stdout, done.stderr) == (b"141\n", b"")
    assert living(seconds) == []


def test_closed_socket_stops_the_command() -> None:
    seconds = unique_seconds()
    ours, theirs = socket.socketpair()
    with (
        ours,
        start("run", "--grace", "0.3", "--", f"echo a; sleep {seconds}", stdout=theirs) as program,
    ):
        theirs.close()
        assert ours.recv(100) == b"a\n"
        ours.close()
        assert program.wait(20) == 141
    assert living(seconds) == []


def test_socket_closed_after_sending_data_stops_the_command() -> None:
    ours, theirs = socket.socketpair()
    with (
        ours,
        start("run", "--", "echo a; read line; sleep 300", stdin=subprocess.PIPE, stdout=theirs) as program,
    ):
        theirs.close()
        ours.sendall(b"not for the command")
        assert ours.recv(100) == b"a\n"
        assert program.stdin is not None
        program.stdin.write(b"\n")
        program.stdin.flush()
        ours.close()
        assert program.wait(20) == 141


def test_half_closed_socket_still_gets_output() -> None:
    ours, theirs = socket.socketpair()
    with ours, start("run", "--", "cat; echo b", stdin=theirs, stdout=theirs) as program:
        theirs.close()
        ours.sendall(b"a\n")
        ours.shutdown(socket.SHUT_WR)
        assert program.wait(20) == 0
        assert ours.recv(100, socket.MSG_WAITALL) == b"a\nb\n"


def test_closed_stderr_reader_stops_a_silent_command() -> None:
    seconds = unique_seconds()
    with start("run", "--", f"echo a >&2; sleep {seconds}", stderr=subprocess.PIPE) as program:
        assert read_line(program.stderr) == "a"
        assert program.stderr is not None
        program.stderr.close()
        assert program.wait(20) == 141
        assert living(seconds) == []


def test_closed_stderr_reader_does_not_stop_a_command_with_json() -> None:
    with start(
        "run", "--json", "--", "read line; echo a", stdin=subprocess.PIPE, stderr=subprocess.PIPE
    ) as program:
        assert program.stderr is not None
        program.stderr.close()
        assert program.stdin is not None
        program.stdin.write(b"\n")
        program.stdin.close()
        assert program.wait(20) == 0


def test_data_from_the_socket_does_not_stop_the_command() -> None:
    ours, theirs = socket.socketpair()
    with (
        ours,
        start("run", "--", "echo a; read line; echo b", stdin=subprocess.PIPE, stdout=theirs) as program,
    ):
        theirs.close()
        ours.sendall(b"not for the command")
        assert ours.recv(100) == b"a\n"
        program.communicate(b"\n", timeout=20)
        assert ours.recv(100) == b"b\n"
        assert program.returncode == 0


def test_reader_of_all_output_does_not_change_the_exit_code() -> None:
    done = script("anyshell run -- 'echo a; exit 3' | cat >/dev/null; echo ${PIPESTATUS[0]}")
    assert done.stdout == b"3\n"


def test_closed_reader_after_a_signal_keeps_the_grace(tmp_path: Path) -> None:
    """Ctrl-C reaches the whole pipeline, and the command still has its grace period."""
    command = "trap 'sleep 0.3; echo $$ > cleaned; exit 0' TERM; echo ready; while :; do sleep 0.1; done"
    with start("run", "--grace", "20", "--cwd", str(tmp_path), "--", command) as program:
        assert read_line(program.stdout) == "ready"
        program.send_signal(signal.SIGINT)
        assert program.stdout is not None
        program.stdout.close()
        assert program.wait(20) == 128 + signal.SIGINT
    assert (tmp_path / "cleaned").exists()


# --- the output is not read, but its reader stays -------------------------------------------------------------


@pytest.mark.parametrize("stderr", [None, subprocess.STDOUT])
def test_a_signal_is_heeded_while_the_output_is_blocked(stderr: int | None) -> None:
    seconds = unique_seconds()
    with start("run", "--grace", "0.3", "--", f"yes {seconds}", stderr=stderr) as program:
        wait_until(lambda: _waiting_bytes(program) >= 32 * 1024, "the pipe fills")
        program.send_signal(signal.SIGTERM)
        assert program.wait(20) == 128 + signal.SIGTERM
        assert living(seconds) == []


@pytest.mark.parametrize("stderr", [None, subprocess.STDOUT])
def test_timeout_applies_while_the_output_is_blocked(stderr: int | None) -> None:
    seconds = unique_seconds()
    with start("run", "--timeout", "0.5", "--grace", "0.3", "--", f"yes {seconds}", stderr=stderr) as program:
        assert program.wait(20) == 124
        assert living(seconds) == []


def test_timeout_applies_when_only_the_reader_is_late() -> None:
    with start(
        "run", "--timeout", "0.5", "--", "head -c 200000 /dev/zero", stderr=subprocess.PIPE
    ) as program:
        assert program.wait(20) == 124
        assert b"timed out" in program.communicate()[1]


def _waiting_bytes(program: subprocess.Popen[bytes]) -> int:
    assert program.stdout is not None
    return int.from_bytes(fcntl.ioctl(program.stdout, termios.FIONREAD, bytes(4)), sys.byteorder)
