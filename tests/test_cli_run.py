"""``anyshell run``: what goes in, what comes out, and the exit code. How it ends is in test_cli_endings.py."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from anyshell.cli import main

from .cli_program import anyshell, is_alive, read_line, script, start, wait_until
from .processes import living, unique_seconds

if sys.platform == "win32":
    pytest.skip("there is no local backend on Windows yet", allow_module_level=True)

if TYPE_CHECKING:
    from pathlib import Path


def test_one_argument_is_text_of_the_shell() -> None:
    done = anyshell("run", "--", "printf '%s-' a b | tr a-z A-Z")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"A-B-", b"")


def test_several_arguments_are_taken_literally() -> None:
    words = ["two words", "it's", '"', "$HOME", "`id`", "*", "", "a\nb", "\\", "-x", "--", "~", "!", "ü"]
    done = anyshell("run", "--", "printf", "%s\\0", *words)
    assert done.stdout.decode().split("\0")[:-1] == words


@pytest.mark.parametrize("shell", ["bash", "sh"])
def test_the_shell_can_be_chosen(shell: str) -> None:
    done = anyshell("run", "--shell", shell, "--", "echo $0 ${BASH_VERSION:+bash}")
    assert done.stdout.split() == ([b"bash", b"bash"] if shell == "bash" else [b"sh"])


def test_options_end_where_the_command_begins() -> None:
    """``--`` may be left out, and one that belongs to the command is its own."""
    assert anyshell("run", "printf", "%s ", "--json", "-h", "--", "--").stdout == b"--json -h -- -- "


@pytest.mark.parametrize("code", [0, 3, 255])
def test_the_exit_code_is_the_commands_own(code: int) -> None:
    assert anyshell("run", "--", f"exit {code}").returncode == code


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_command_that_died_of_a_signal_gives_128_and_its_number(number: int) -> None:
    assert anyshell("run", "--", f"ulimit -c 0; kill -{number} $$").returncode == 128 + number


def test_a_real_time_signal_has_its_number_too() -> None:
    number = getattr(signal, "SIGRTMIN", 32) + 3
    if sys.platform != "linux":
        pytest.skip("real-time signals are there on Linux alone")
    assert anyshell("run", "--", f"kill -{number} $$").returncode == 128 + number


def test_an_empty_command_succeeds() -> None:
    assert anyshell("run", "--", "").returncode == 0


def test_the_directory_and_variables_reach_the_command(tmp_path: Path) -> None:
    done = anyshell(
        "run", "--cwd", str(tmp_path), "--env", "A=x=y", "--env", "B=", "--", 'echo "$PWD|$A|${B-unset}"'
    )
    assert done.stdout.decode() == f"{tmp_path}|x=y|\n"


def test_a_relative_directory_is_below_the_current_one(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    assert anyshell("run", "--cwd", "sub", "pwd", cwd=tmp_path).stdout.decode() == f"{tmp_path}/sub\n"


def test_interactive_leaves_the_pager_alone() -> None:
    env = {**os.environ, "PAGER": "most"}
    assert anyshell("run", "--", "echo $PAGER", env=env).stdout != b"most\n"
    assert anyshell("run", "--interactive", "--", "echo $PAGER", env=env).stdout == b"most\n"


# --- output ---------------------------------------------------------------------------------------------------


def test_stderr_that_is_another_file_stays_apart() -> None:
    done = anyshell("run", "--", "echo out; echo err >&2")
    assert (done.stdout, done.stderr) == (b"out\n", b"err\n")


def test_where_both_are_one_file_their_order_is_true() -> None:
    command = "for i in $(seq 200); do echo o$i; echo e$i >&2; done"
    done = anyshell("run", "--", command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.stdout.decode().split() == [f"{channel}{i}" for i in range(1, 201) for channel in "oe"]


def test_bytes_pass_unchanged_in_both_directions(tmp_path: Path) -> None:
    data = random.Random(2).randbytes(10_000_000)
    assert anyshell("run", "--", "cat", input=data).stdout == data
    file = tmp_path / "data"
    file.write_bytes(data)
    with file.open("rb") as stdin, (tmp_path / "copy").open("wb") as stdout:
        assert anyshell("run", "--", "cat", stdin=stdin, stdout=stdout).returncode == 0
    assert (tmp_path / "copy").read_bytes() == data


def test_output_comes_while_the_command_runs() -> None:
    with start("run", "--", "echo first; read line; echo second $line", stdin=subprocess.PIPE) as program:
        assert program.stdin is not None
        assert read_line(program.stdout) == "first"
        program.stdin.write(b"now\n")
        program.stdin.flush()
        assert read_line(program.stdout) == "second now"
        assert program.wait() == 0


def test_a_slow_reader_gets_everything() -> None:
    done = script("anyshell run -- 'seq 100000' | (read first; sleep 0.3; wc -l)")
    assert done.stdout.split() == [b"99999"]


def test_a_descriptor_that_somebody_set_non_blocking_is_written_whole() -> None:
    read, write = os.pipe()
    os.set_blocking(write, False)
    with start("run", "--", "seq 100000", stdout=write) as program:
        os.close(write)
        with open(read, "rb") as reader:
            assert reader.read().count(b"\n") == 100_000
        assert program.wait() == 0


def test_the_pipe_is_left_blocking() -> None:
    """It is shared with whoever started us, and with their other children."""
    done = script("(anyshell run -- true; python3 -c 'import os; print(os.get_blocking(1))') | cat")
    assert done.stdout == b"True\n"


def test_a_full_disk_is_our_failure_and_ends_the_command() -> None:
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


# --- stdin ----------------------------------------------------------------------------------------------------


def test_without_input_reading_ends_at_once() -> None:
    assert anyshell("run", "--", "cat; echo end").stdout == b"end\n"


def test_a_file_is_forwarded(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("b\na\n")
    with (tmp_path / "file").open() as stdin:
        assert anyshell("run", "--", "sort", stdin=stdin).stdout == b"a\nb\n"


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


def test_an_endless_source_that_nobody_reads_holds_up_nothing() -> None:
    done = script("yes | anyshell run -- 'echo done'; echo ${PIPESTATUS[1]}")
    assert done.stdout == b"done\n0\n"


def test_a_source_that_says_nothing_holds_up_nothing() -> None:
    read, write = os.pipe()
    with open(read, "rb") as stdin, open(write, "wb"):
        assert anyshell("run", "--", "echo done; exit 3", stdin=stdin).returncode == 3


def test_no_more_of_the_source_is_taken_than_there_is() -> None:
    assert script("seq 3 | anyshell run -- 'read a; echo $a; cat'").stdout == b"1\n2\n3\n"


def test_a_stdin_that_is_closed_is_at_its_end() -> None:
    done = script("anyshell run -- 'cat; echo out; echo err >&2; exit 7' <&-; echo $?")
    assert (done.stdout, done.stderr) == (b"out\n7\n", b"err\n")


@pytest.mark.parametrize("closed", [">&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("command", ["echo out", "yes"])
def test_a_stdout_that_is_closed_takes_nothing_and_that_is_our_failure(closed: str, command: str) -> None:
    done = script(f"anyshell run --grace 0.3 -- '{command}' {closed}; echo $?")
    assert done.stdout == b"125\n"
    said = b"anyshell: cannot write to stdout: Bad file descriptor; the command was stopped\n"
    assert done.stderr == (b"" if "2>&-" in closed else said)


def test_a_stderr_that_is_closed_takes_nothing_and_that_is_our_failure() -> None:
    done = script("anyshell run -- 'echo out; echo err >&2; sleep 300' 2>&-; echo $?")
    assert done.stdout in {b"out\n125\n", b"125\n"}  # the two are read apart, so in any order


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_who_says_nothing_needs_no_descriptors(closed: str) -> None:
    assert script(f"anyshell run -- 'exit 7' {closed}; echo $?").stdout == b"7\n"


# --- what we inherit ------------------------------------------------------------------------------------------


def test_children_that_a_parent_ignores_have_exit_codes() -> None:
    with start("run", "--", "true; exit 3", ignore="SIGCHLD") as program:
        assert program.wait(20) == 3


def test_a_command_is_not_deaf_because_its_caller_was() -> None:
    show = "python3 -c 'import signal; print(*signal.pthread_sigmask(0, []))'"
    with start("run", "--", show, block="SIGTERM SIGINT SIGUSR1") as program:
        assert program.stdout is not None
        assert program.stdout.read() == b"\n"
        assert program.wait(20) == 0


# --- the end --------------------------------------------------------------------------------------------------


def test_a_timeout_is_said_and_gives_124() -> None:
    seconds = unique_seconds()
    done = anyshell(
        "run", "--timeout", "0.5", "--grace", "0.3", "--", f"printf part; sleep {seconds} & sleep {seconds}"
    )
    assert (done.returncode, done.stdout) == (124, b"part")
    assert done.stderr == b"anyshell: timed out after 0.5 s; the command was stopped\n"
    assert living(seconds) == []


def test_where_both_are_one_file_a_notice_has_a_line_of_its_own() -> None:
    done = anyshell(
        "run",
        "--timeout",
        "0.5",
        "--",
        "printf part; sleep 300",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert done.stdout == b"part\nanyshell: timed out after 0.5 s; the command was stopped\n"


def test_what_is_left_behind_is_named_and_stopped() -> None:
    done = anyshell("run", "--", "sleep 300 & echo $!")
    pid = int(done.stdout)
    assert done.returncode == 0
    assert done.stderr.decode() == f"anyshell: left behind: sleep (pid {pid}, stopped)\n"
    assert not is_alive(pid)


def test_what_is_left_behind_can_be_kept() -> None:
    done = anyshell("run", "--left-behind", "keep", "--", "sleep 300 & echo $!")
    pid = int(done.stdout)
    try:
        assert done.returncode == 0
        assert done.stderr.decode() == (
            f"anyshell: left behind: sleep (pid {pid}, still running); to stop: kill {pid}\n"
        )
        assert is_alive(pid)
    finally:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not is_alive(pid), "the sleep is dead")


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
def test_that_a_notice_cannot_be_written_changes_no_exit_code(arguments: str, code: int) -> None:
    assert script(f"anyshell run {arguments}; echo $?").stdout.decode() == f"{code}\n"


# --- JSON -----------------------------------------------------------------------------------------------------


def test_json_is_the_outcome_and_nothing_else() -> None:
    done = anyshell("run", "--json", "--", "echo out; echo err >&2; exit 3")
    outcome = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (3, b"")
    assert outcome["output"]["text"] == "out\nerr\n"
    assert outcome["output"]["total_bytes"] == 8
    assert (outcome["status"], outcome["exit_code"], outcome["signal"]) == ("exited", 3, None)
    assert outcome["stderr"] is None
    assert outcome["started"] is True
    assert outcome["left_behind"] == []
    assert outcome["duration"] > 0


def test_json_can_keep_stderr_apart() -> None:
    outcome = json.loads(anyshell("run", "--json", "--split-stderr", "--", "echo out; echo err >&2").stdout)
    assert (outcome["output"]["text"], outcome["stderr"]["text"]) == ("out\n", "err\n")


def test_json_names_the_artifact_of_a_long_output() -> None:
    outcome = json.loads(anyshell("run", "--json", "--", "seq 100000").stdout)
    artifact = outcome["output"]["artifact"]
    assert outcome["output"]["omitted_bytes"] > 0
    with open(artifact["path"], "rb") as file:
        assert file.read().count(b"\n") == 100_000
    shown = anyshell("artifacts", "show", artifact["id"], "--tail", "1")
    assert shown.stdout == b"100000\n"


def test_json_of_a_timeout_and_of_what_was_left_behind() -> None:
    done = anyshell("run", "--json", "--timeout", "0.5", "--grace", "0.3", "--", "echo a; sleep 300")
    assert done.returncode == 124
    assert json.loads(done.stdout)["status"] == "timed_out"
    done = anyshell("run", "--json", "--", "sleep 300 & echo $!")
    outcome = json.loads(done.stdout)
    (left,) = outcome["left_behind"]
    assert (left["pid"], left["name"], left["alive"]) == (int(outcome["output"]["text"]), "sleep", False)


def test_what_is_shown_live_is_not_kept_as_well(state_directory: Path) -> None:
    anyshell("run", "--", "seq 100000")
    assert list(state_directory.rglob("*.out")) == []


def test_json_that_cannot_be_made_is_nothing() -> None:
    done = anyshell("run", "--json", "--cwd", "/nowhere", "--", "true")
    assert (done.returncode, done.stdout) == (125, b"")
    assert done.stderr.startswith(b"anyshell: ")
    assert done.stderr.count(b"\n") == 1


def test_json_that_cannot_be_written_is_our_failure() -> None:
    done = script("anyshell run --json -- 'exit 3' >/dev/full; echo $?")
    assert (done.stdout, done.stderr) == (
        b"125\n",
        b"anyshell: cannot write to stdout: No space left on device\n",
    )


# --- errors ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--shell", "fish", "--", "true"], "fish"),
        (["--shell", "/nowhere/bash", "--", "true"], "/nowhere/bash"),
        (["--cwd", "/nowhere", "--", "true"], "/nowhere"),
        (["--cwd", "/dev/null", "--", "true"], "/dev/null"),
    ],
)
def test_our_own_failure_is_said_and_gives_125(arguments: list[str], said: str) -> None:
    done = anyshell("run", *arguments)
    assert (done.returncode, done.stdout) == (125, b"")
    assert done.stderr.startswith(b"anyshell: ")
    assert said in done.stderr.decode()
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "COMMAND"),
        (["--timeout", "0", "--", "true"], "more than 0"),
        (["--timeout", "-1", "--", "true"], "more than 0"),
        (["--timeout", "nan", "--", "true"], "finite"),
        (["--timeout", "soon", "--", "true"], "seconds"),
        (["--grace", "inf", "--", "true"], "finite"),
        (["--left-behind", "adopt", "--", "true"], "keep"),
        (["--env", "secret-value", "--", "true"], "NAME=VALUE"),
        (["--env", "1A=secret-value", "--", "true"], "1A"),
        (["--split-stderr", "--", "true"], "--json"),
        (["--cwd", "", "--", "true"], "give a directory, or leave it out"),
        (["--shell", "", "--", "true"], "give a shell, or leave it out"),
        (["--", " \t\n"], "blanks"),
        (["--nope", "--", "true"], "--nope"),
    ],
)
def test_wrong_usage_is_said_and_gives_2(arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(main, ["run", *arguments])
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr
    assert "secret-value" not in result.stderr
