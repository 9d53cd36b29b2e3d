"""``anyshell run``: input, output, and the exit code. test_cli_endings.py tests how commands are ended."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from typing import TYPE_CHECKING

import psutil
import pytest
from click.testing import CliRunner

from anyshell.abc import ProcessInfo
from anyshell.cli import main
from anyshell.cli.commands.run.live import _left_behind

from .cli_program import COPY, SLEEP, anyshell, either, is_alive, lines, read_line, slow, start, wait_until
from .processes import STARTED, living, unique_seconds

if TYPE_CHECKING:
    from pathlib import Path


SHOW = (sys.executable, "-c", "import json, sys; print(json.dumps(sys.argv[1:]))")
"""A program that prints its arguments."""

PRINT = (
    sys.executable,
    "-c",
    "import os, sys\nprint(os.getpid(), flush=True)\nwhile True:\n sys.stdout.write('x' * 1000)",
)
"""A program that prints its pid, and more output than the test reads."""


TIMEOUT = "3" if sys.platform != "win32" else "5"
"""Seconds in which the default shell can print some text, on a busy machine too."""

SLEEPER = either("sleep", "python.exe")


def invoked(*words: str) -> str:
    """Words quoted as PowerShell literals."""
    return ", ".join("'" + word.replace("'", "''") + "'" for word in words)


def test_single_argument_is_shell_text() -> None:
    done = anyshell(
        "run", "--", either("printf '%s-' a b | tr a-z A-Z", "'a-', 'b-' | % ToUpper | Write-Host -NoNewline")
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"A-B-", b"")


def test_several_arguments_are_taken_literally() -> None:
    words = [
        "two words",
        "it's",
        '"',
        "$HOME",
        "%PATH%",
        "`id`",
        "*",
        "",
        "a\nb",
        "\\",
        "-x",
        "--",
        "~",
        "!",
        "ü",
    ]
    done = anyshell("run", "--", *SHOW, *words)
    assert json.loads(done.stdout) == words


@pytest.mark.parametrize("shell", ["bash", "sh"] if sys.platform != "win32" else ["pwsh", "C:/ps7/PWSH.exe"])
def test_the_shell_can_be_chosen(shell: str) -> None:
    done = anyshell("run", "--shell", shell, "--", either("echo $0 ${BASH_VERSION:+bash}", "$PSHOME"))
    names = {"bash": ["bash", "bash"], "sh": ["sh"]}
    assert lines(done.stdout)[0].split() == names.get(shell, [r"C:\ps7"])


def test_options_end_where_the_command_begins() -> None:
    """``--`` is optional, and a ``--`` among the arguments of the command is passed on."""
    words = ["--json", "-h", "--", "--"]
    assert json.loads(anyshell("run", *SHOW, *words).stdout) == words


@pytest.mark.parametrize("code", [3, 255])
def test_exit_code_is_that_of_the_command(code: int) -> None:
    assert anyshell("run", "--", f"exit {code}").returncode == code


@slow
def test_an_empty_command_succeeds() -> None:
    assert anyshell("run", "--", "").returncode == 0


def test_cwd_and_variables_reach_the_command_with_separate_stderr(tmp_path: Path) -> None:
    text = either(
        'echo "$PWD|$A|${B-unset}"; echo err >&2', "\"$PWD|$env:A|$env:B\"; [Console]::Error.WriteLine('err')"
    )
    done = anyshell("run", "--cwd", str(tmp_path), "--env", "A=x=y", "--env", "B=", "--", text)
    assert (lines(done.stdout), lines(done.stderr)) == ([f"{tmp_path}|x=y|"], ["err"])


def test_relative_cwd_is_below_the_current_directory(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    done = anyshell("run", "--cwd", "sub", "--", either("pwd", "$PWD.Path"), cwd=tmp_path)
    assert lines(done.stdout) == [str(tmp_path / "sub")]


@pytest.mark.skipif(sys.platform == "win32", reason="there is no pseudo-terminal to be had of os")
@pytest.mark.parametrize(
    ("options", "told"),
    [
        ((), ["xterm", "unset", "unset", "1", "cat"]),
        (("--unattended",), ["dumb", "true", "1", "unset", "cat"]),
    ],
)
def test_run_on_a_terminal_sets_only_variables_against_waiting(
    options: tuple[str, ...], told: list[str]
) -> None:
    """On a terminal a person reads the output, so variables for colours and CI are left alone."""
    show = 'echo "$TERM"; echo "${CI-unset}"; echo "${NO_COLOR-unset}"; echo "${FORCE_COLOR-unset}"; echo "$PAGER"'
    env = {name: value for name, value in os.environ.items() if name not in ("CI", "NO_COLOR")}
    env |= {"TERM": "xterm", "FORCE_COLOR": "1", "PAGER": "most"}
    if sys.platform != "win32":
        leader, terminal = os.openpty()
        try:
            done = anyshell(
                "run", "-q", *options, "--", show, env=env, stdout=subprocess.PIPE, stderr=terminal
            )
        finally:
            os.close(leader)
            os.close(terminal)
        assert lines(done.stdout) == told
        # Without a terminal, TERM is set as well.
        assert lines(anyshell("run", "-q", "--", show, env=env).stdout)[0] == "dumb"


@pytest.mark.parametrize("other", ["--interactive", "--pty"])
def test_unattended_conflicts_with_its_opposites(other: str) -> None:
    done = CliRunner().invoke(main, ["run", "--unattended", other, "--", "true"])
    assert (done.exit_code, f"--unattended does not go with {other}" in done.stderr) == (2, True)


@slow
def test_interactive_option_keeps_the_pager() -> None:
    env = {**os.environ, "GIT_PAGER": "most"}
    show = either("echo $GIT_PAGER", "$env:GIT_PAGER")
    assert lines(anyshell("run", "--", show, env=env).stdout) != ["most"]
    assert lines(anyshell("run", "--interactive", "--", show, env=env).stdout) == ["most"]


# --- output ---------------------------------------------------------------------------------------------------

BOTH = either("echo out; echo err >&2", "'out'; [Console]::Error.WriteLine('err')")

NUMBERS = (
    sys.executable,
    "-c",
    "import sys; sys.stdout.buffer.write(b''.join(b'%d\\n' % number for number in range(1, 100_001)))",
)
"""Prints the numbers to 100,000."""

PART = either("printf part", "[Console]::Out.Write('part')")


def test_channels_in_one_file_keep_their_order() -> None:
    command = either(
        "for i in $(seq 200); do echo o$i; echo e$i >&2; done",
        '1..200 | % { [Console]::Out.WriteLine("o$_"); [Console]::Error.WriteLine("e$_") }',
    )
    done = anyshell("run", "--", command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert lines(done.stdout) == [f"{channel}{i}" for i in range(1, 201) for channel in "oe"]


def test_bytes_pass_unchanged_in_both_directions(tmp_path: Path) -> None:
    data = random.Random(2).randbytes(3_000_000)
    assert anyshell("run", "--", *COPY, input=data).stdout == data
    file = tmp_path / "data"
    file.write_bytes(data)
    with file.open("rb") as stdin, (tmp_path / "copy").open("wb") as stdout:
        assert anyshell("run", "--", *COPY, stdin=stdin, stdout=stdout).returncode == 0
    assert (tmp_path / "copy").read_bytes() == data


def test_output_comes_while_the_command_runs() -> None:
    command = either(
        "echo first; read line; echo second $line",
        "[Console]::Out.WriteLine('first'); [Console]::Out.WriteLine('second ' + [Console]::In.ReadLine())",
    )
    with start("run", "--", command, stdin=subprocess.PIPE) as program:
        assert program.stdin is not None
        assert read_line(program.stdout) == "first"
        program.stdin.write(b"now\n")
        program.stdin.flush()
        assert read_line(program.stdout) == "second now"
        assert program.wait() == 0


def test_closed_reader_stops_a_printing_command() -> None:
    with start("run", "--grace", "0.3", "--", *PRINT, stderr=subprocess.PIPE) as program:
        pid = int(read_line(program.stdout))
        assert program.stdout is not None
        assert program.stderr is not None
        program.stdout.close()
        assert program.wait() == 141
        assert program.stderr.read() == b""
    assert not is_alive(pid)


def test_timeout_applies_while_the_output_is_not_read() -> None:
    with start(
        "run", "--timeout", "10" if sys.platform == "win32" else "5", "--grace", "0.3", "--", *PRINT
    ) as program:
        pid = int(read_line(program.stdout))
        assert program.wait() == 124
    assert not is_alive(pid)


# --- stdin ----------------------------------------------------------------------------------------------------


def test_command_without_input_reads_end_of_file() -> None:
    assert anyshell("run", "--", *COPY).stdout == b""


def test_a_file_is_forwarded(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("b\na\n")
    with (tmp_path / "file").open() as stdin:
        done = anyshell("run", "--", either("sort", "$input | Sort-Object"), stdin=stdin)
    assert lines(done.stdout) == ["a", "b"]


def test_silent_stdin_does_not_block() -> None:
    read, write = os.pipe()
    with open(read, "rb") as stdin, open(write, "wb"):
        assert anyshell("run", "--", "echo done; exit 3", stdin=stdin).returncode == 3


# --- the end --------------------------------------------------------------------------------------------------


def test_timeout_is_reported_and_exits_with_124() -> None:
    seconds = unique_seconds()
    text = either(
        f"printf part; sleep {seconds} & sleep {seconds}",
        f"{PART}; & {' '.join(map(invoked, SLEEP))} {seconds}",
    )
    done = anyshell("run", "--timeout", TIMEOUT, "--grace", "0.3", "--", text)
    assert (done.returncode, done.stdout) == (124, b"part")
    how = either("stopped", "ended at once, without being asked to end first")
    assert lines(done.stderr) == [f"anyshell: timed out after {TIMEOUT} s; the command was {how}"]
    assert living(seconds) == []


def test_timeout_without_a_grace_reports_an_immediate_end() -> None:
    done = anyshell("run", "--timeout", "0.5", "--grace", "0", "--", "sleep 300")
    assert (
        done.stderr
        == b"anyshell: timed out after 0.5 s; the command was ended at once, without being asked to end first\n"
    )


@slow
def test_notice_in_a_shared_output_file_has_its_own_line() -> None:
    text = f"{PART}; {either('sleep 300', 'Start-Sleep 300')}"
    done = anyshell("run", "--timeout", TIMEOUT, "--", text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    said = f"anyshell: timed out after {TIMEOUT} s; the command was stopped\n"
    assert done.stdout == b"part\n" + said.encode()


_SLEEP_300 = '-c "import time; time.sleep(300)"'

LEAVE = either(
    f"sleep 300 & {STARTED}; echo $!",
    f"(Start-Process -PassThru -NoNewWindow '{sys.executable}' -ArgumentList '{_SLEEP_300}').Id",
)
"""Leaves a program running, and prints its pid."""


def test_process_left_behind_is_named_and_stopped() -> None:
    done = anyshell("run", "--", LEAVE)
    pid = int(done.stdout)
    assert done.returncode == 0
    assert lines(done.stderr) == [f"anyshell: left behind: {SLEEPER} (pid {pid}, stopped)"]
    assert not is_alive(pid)


def test_process_left_behind_can_be_kept() -> None:
    done = anyshell("run", "--left-behind", "keep", "--", LEAVE)
    pid = int(done.stdout)
    how = either(f"kill {pid}", f"taskkill /F /T /PID {pid}")
    try:
        assert done.returncode == 0
        assert lines(done.stderr) == [
            f"anyshell: left behind: {SLEEPER} (pid {pid}, still running); to stop: {how}"
        ]
        assert is_alive(pid)
    finally:
        psutil.Process(pid).kill()
    wait_until(lambda: not is_alive(pid), "the sleep is dead")


# --- JSON -----------------------------------------------------------------------------------------------------


def test_json_prints_only_the_outcome() -> None:
    done = anyshell("run", "--json", "--", BOTH + "; exit 3")
    outcome = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (3, b"")
    assert outcome["output"]["text"] == "out\nerr\n"
    assert outcome["output"]["total_bytes"] == len(("out\nerr\n").replace("\n", os.linesep))
    assert (outcome["status"], outcome["exit_code"], outcome["signal"]) == ("exited", 3, None)
    assert outcome["stderr"] is None
    assert outcome["started"] is True
    assert outcome["left_behind"] == []
    assert outcome["duration"] > 0


@slow
def test_json_can_separate_stderr() -> None:
    outcome = json.loads(anyshell("run", "--json", "--split-stderr", "--", BOTH).stdout)
    assert (outcome["output"]["text"], outcome["stderr"]["text"]) == ("out\n", "err\n")


def test_json_names_the_artifact_of_a_long_output() -> None:
    outcome = json.loads(anyshell("run", "--json", "--", *NUMBERS).stdout)
    artifact = outcome["output"]["artifact"]
    assert outcome["output"]["omitted_bytes"] > 0
    with open(artifact["path"], "rb") as file:
        assert file.read().count(b"\n") == 100_000
    shown = anyshell("artifacts", "show", artifact["id"], "--tail", "1")
    assert shown.stdout == b"100000\n"


@slow
def test_output_with_a_limit_is_shown_at_the_end_with_its_errors() -> None:
    program = "for n in range(3000): print('line', n) if n != 1500 else print('error: the cause')"
    done = anyshell("run", "--limit", "1k", "--", sys.executable, "-c", program + "\nraise SystemExit(3)")
    text = done.stdout.decode().replace("\r\n", "\n")
    assert done.returncode == 3
    assert text.startswith("line 0\nline 1\n")
    assert text.endswith(" similar lines, 14,970 bytes left out here ...]\nline 2999\n")
    assert "line 1499\nerror: the cause\nline 1501\n" in text
    assert len(text) < 1024 + 400
    assert "the whole is in" in text
    told = json.loads(anyshell("run", "--json", "--limit", "1k", "--", sys.executable, "-c", program).stdout)
    assert "error: the cause" in told["output"]["text"]
    assert told["output"]["omitted_lines"] > 2900
    short = anyshell("run", "--limit", "1k", "--", "echo short")
    assert short.stdout.split() == [b"short"]


def test_json_reports_a_timeout() -> None:
    text = either("echo a; sleep 300", "'a'; Start-Sleep 300")
    done = anyshell("run", "--json", "--timeout", TIMEOUT, "--grace", "0.3", "--", text)
    assert done.returncode == 124
    assert json.loads(done.stdout)["status"] == "timed_out"


def test_stop_command_is_shown_for_known_pids() -> None:
    hidden, seen = ProcessInfo(0, "unknown", 0.0), ProcessInfo(7, "sleep", 1.0)
    assert _left_behind((hidden,), "linux", None) == "left behind: unknown (still running)"
    told = "left behind: unknown (still running), sleep (pid 7, still running); to stop: kill 7"
    assert _left_behind((hidden, seen), "linux", None) == told


def test_json_lists_processes_left_behind() -> None:
    done = anyshell("run", "--json", "--", LEAVE)
    outcome = json.loads(done.stdout)
    (left,) = outcome["left_behind"]
    assert (left["pid"], left["name"], left["alive"]) == (int(outcome["output"]["text"]), SLEEPER, False)


@slow
def test_output_shown_live_is_not_kept(state_directory: Path) -> None:
    anyshell("run", "--", *NUMBERS)
    assert list(state_directory.rglob("*.out")) == []


def test_failed_start_prints_no_json() -> None:
    done = anyshell("run", "--json", "--cwd", "/nowhere", "--", "exit")
    assert (done.returncode, done.stdout) == (125, b"")
    assert done.stderr.startswith(b"anyshell: ")
    assert done.stderr.count(b"\n") == 1


# --- errors ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--shell", "/nowhere/bash", "--", "true"], "/nowhere/bash"),
        (["--cwd", "/nowhere", "--", "true"], "nowhere"),
        (["--cwd", __file__, "--", "true"], "test_cli_run.py"),
    ],
)
def test_failure_of_anyshell_is_reported_and_exits_with_125(arguments: list[str], said: str) -> None:
    done = anyshell("run", *arguments)
    assert (done.returncode, done.stdout) == (125, b"")
    assert done.stderr.startswith(b"anyshell: ")
    assert said in done.stderr.decode()
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "COMMAND"),
        (["--timeout", "0", "--", "true"], "above 0"),
        (["--timeout", "-1", "--", "true"], "is not a duration"),
        (["--timeout", "nan", "--", "true"], "is not a duration"),
        (["--timeout", "soon", "--", "true"], "seconds"),
        (["--grace", "inf", "--", "true"], "is not a duration"),
        (["--left-behind", "adopt", "--", "true"], "keep"),
        (["--env", "secret-value", "--", "true"], "NAME=VALUE"),
        (["--env", "1A=secret-value", "--", "true"], "1A"),
        (["--split-stderr", "--", "true"], "--json"),
        (["--limit", "many", "--", "true"], "give 8192, 8k, 1m or 2g"),
        (["--limit", "8k", "--background", "--", "true"], "--limit does not go with --background"),
        (["--cwd", "", "--", "true"], "give a directory, or leave it out"),
        (["--shell", "", "--", "true"], "give a shell, or leave it out"),
        (["--", " \t\n"], "it is blank"),
        (["--nope", "--", "true"], "--nope"),
    ],
)
def test_wrong_usage_is_reported_and_exits_with_2(arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(main, ["run", *arguments])
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr
    assert "secret-value" not in result.stderr
