"""The program ``anyshell``, but for ``run``, which has test files of its own."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from importlib.metadata import version
from typing import IO, TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner

from anyshell import ArtifactStore
from anyshell.cli import main

from .cli_program import anyshell, is_alive, script, start, wait_until, wait_written
from .conftest import missing
from .processes import living, unique_seconds, wait_living

if sys.platform == "win32":
    pytest.skip("there is no local backend on Windows yet", allow_module_level=True)

if TYPE_CHECKING:
    from pathlib import Path


def commands() -> list[list[str]]:
    """Every command, as typed."""

    def walk(path: list[str], command: click.Command) -> list[list[str]]:
        found = [path]
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                below = command.get_command(context, name)
                assert below is not None
                found += walk([*path, name], below)
        return found

    return walk([], main)


@pytest.fixture
def kept() -> tuple[str, bytes]:
    """An artifact, and what is in it."""
    data = b"".join(b"line %d\n" % number for number in range(200_000)) + b"\xff no end"
    writer = ArtifactStore().create()
    writer.write(data)
    return writer.finish().id, data


# --- the program ----------------------------------------------------------------------------------------------


def test_the_version_is_that_of_the_package() -> None:
    assert anyshell("--version").stdout.decode() == f"anyshell {version('anyshell')}\n"


def test_the_version_costs_no_event_loop() -> None:
    code = (
        "import sys\n"
        "from anyshell.cli import main\n"
        "main(['--version'], standalone_mode=False)\n"
        "print([name for name in ('asyncio', 'anyio', 'pydantic', 'psutil', 'platformdirs') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("path", commands(), ids=lambda path: " ".join(["anyshell", *path]))
def test_every_command_explains_itself(path: list[str]) -> None:
    result = CliRunner().invoke(main, [*path, "--help"])
    assert result.exit_code == 0
    assert result.output.startswith("Usage: ")
    for line in result.output.splitlines():
        assert len(line) <= 100, line


def test_every_option_says_what_it_does() -> None:
    for path in commands():
        command: click.Command = main
        for name in path:
            assert isinstance(command, click.Group)
            below = command.get_command(click.Context(command), name)
            assert below is not None
            command = below
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                assert parameter.help, f"{path} {parameter.name}"


def test_an_unknown_command_is_wrong_usage() -> None:
    result = CliRunner().invoke(main, ["walk"])
    assert result.exit_code == 2
    assert "walk" in result.output


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_script_is_printed(shell: str) -> None:
    result = CliRunner().invoke(main, ["completion", shell])
    assert result.exit_code == 0
    assert "_ANYSHELL_COMPLETE" in result.output


def completed(shell: str, *words: str) -> list[str]:
    """What the last word can become, in the form in which the shell's script reads it."""
    env = {
        **os.environ,
        "_ANYSHELL_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": "\n".join(["anyshell", *words]),
        "COMP_CWORD": words[-1] if shell == "fish" else str(len(words)),
    }
    done = anyshell(env=env)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode().split()


def test_the_shell_completes_commands_and_shells() -> None:
    assert completed("bash", "run", "--shell", "b") == ["plain,bash"]
    assert completed("bash", "de") == ["plain,detect", "plain,describe"]


@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_the_shell_completes_paths(shell: str) -> None:
    assert completed(shell, "run", "--", "--shell=b") == ["file,--shell=b"]
    assert completed(shell, "run", "--", "ls", "sr") == ["file,sr"]
    assert completed(shell, "run", "sr") == ["file,sr"]
    assert completed(shell, "detect", "--cwd", "sr") == ["dir,sr"]
    assert completed(shell, "detect", "--shell", "/bin/b") == ["file,/bin/b"]


def test_the_shell_completes_a_value_after_an_equals_sign() -> None:
    assert completed("bash", "run", "--shell=b") == ["plain,--shell=bash"]
    assert completed("bash", "run", "--shell", "=", "b") == ["plain,bash"]
    assert completed("bash", "run", "--left-behind", "=") == ["plain,stop", "plain,keep"]
    assert completed("bash", "run", "--env", "=", "A", "=", "B", "--shell", "=", "z") == ["plain,zsh"]
    assert completed("zsh", "run", "--shell=z") == ["plain", "--shell=zsh", "_"]
    assert completed("fish", "run", "--shell=z") == ["plain,--shell=zsh"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completing_without_its_script_is_wrong_usage(shell: str) -> None:
    done = anyshell(env={**os.environ, "_ANYSHELL_COMPLETE": f"{shell}_complete"})
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"COMP_WORDS" in done.stderr
    assert b"Traceback" not in done.stderr


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
    found = [word.removesuffix("/") for word in got.read_text().splitlines()[:-1]]  # zsh takes it back
    assert found == [kept[0] if word == "ID" else word for word in words]


def drain(terminal: IO[bytes]) -> None:
    """Take what a program shows, so that it is never held up."""
    with contextlib.suppress(OSError, ValueError):
        while terminal.read(4096):
            pass


def test_a_reader_that_goes_away_is_no_traceback() -> None:
    done = script("anyshell schema | true; echo ${PIPESTATUS[0]}")
    assert b"141" in done.stdout or b"0" in done.stdout  # true may be gone before or after
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
def test_a_full_disk_is_said_once(arguments: list[str], unbuffered: str) -> None:
    env = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with open("/dev/full", "wb") as full:
        done = anyshell(*arguments, stdout=full, stderr=subprocess.PIPE, env=env)
    assert (done.returncode, done.stderr) == (125, FULL)


@pytest.mark.parametrize("arguments", ["--version", "describe", "detect --json"])
def test_a_closed_stdout_is_said(arguments: str) -> None:
    done = script(f"anyshell {arguments} >&-; echo $?")
    assert done.stdout == b"125\n"
    assert done.stderr == b"anyshell: cannot write to stdout: Bad file descriptor\n"


@pytest.mark.parametrize("arguments", ["artifacts list", "artifacts prune --all"])
def test_that_a_remark_cannot_be_written_is_no_failure(arguments: str) -> None:
    assert script(f"anyshell {arguments} 2>/dev/full; echo $?").stdout == b"0\n"


def test_an_encoding_that_lacks_a_letter_is_no_failure(tmp_path: Path) -> None:
    (tmp_path / "\N{CYRILLIC SMALL LETTER ZHE}").mkdir()
    env = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    done = anyshell("detect", cwd=tmp_path / "\N{CYRILLIC SMALL LETTER ZHE}", env=env)
    assert (done.returncode, done.stderr) == (0, b"")
    assert rb"/\u0436" in done.stdout


# --- the host -------------------------------------------------------------------------------------------------


def test_detect_is_for_people() -> None:
    done = anyshell("detect", "--shell", "sh")
    assert done.returncode == 0
    assert re.search(rb"^shell +sh \(/.*sh\)$", done.stdout, re.MULTILINE)


def test_detect_is_json_for_programs(tmp_path: Path) -> None:
    facts = json.loads(anyshell("detect", "--json", "--cwd", str(tmp_path)).stdout)
    assert facts["shell"]["path"].startswith("/")
    assert facts["directory"] == str(tmp_path)
    assert facts["os"] in {"linux", "macos"}
    assert isinstance(facts["programs"], dict)


@pytest.mark.parametrize("command", ["detect", "describe", "schema"])
def test_an_unknown_shell_is_said(command: str) -> None:
    done = anyshell(command, "--shell", "fish")
    assert (done.returncode, done.stdout) == (125, b"")
    assert done.stderr.startswith(b"anyshell: ")
    assert b"fish" in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has names that are no UTF-8")
def test_a_path_that_is_no_utf_8_is_readable_text(tmp_path: Path) -> None:
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


@pytest.mark.parametrize("option", ["--cwd", "--shell"])
@pytest.mark.parametrize("command", [["detect"], ["describe"], ["schema"], ["call", "{}"]], ids=" ".join)
def test_an_empty_option_is_wrong_usage(command: list[str], option: str) -> None:
    result = CliRunner().invoke(main, [*command, option, ""])
    assert (result.exit_code, result.stdout) == (2, "")
    assert "leave it out" in result.stderr


def test_describe_is_what_a_model_reads(tmp_path: Path) -> None:
    done = anyshell("describe", "--cwd", str(tmp_path))
    assert str(tmp_path) in done.stdout.decode()
    assert b"${" not in done.stdout


# --- the model's door -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("format_", "parameters"),
    [("openai", ("function", "parameters")), ("anthropic", ("input_schema",)), ("mcp", ("inputSchema",))],
)
def test_the_schema_has_the_form_that_was_asked_for(format_: str, parameters: tuple[str, ...]) -> None:
    found = json.loads(anyshell("schema", "--format", format_).stdout)
    for key in parameters:
        found = found[key]
    assert found["required"] == ["command"]


def test_the_schema_of_a_tool_with_a_session_and_jobs_is_that_of_two_tools() -> None:
    shell, job = json.loads(anyshell("schema", "--session", "--jobs", "--format", "mcp").stdout)
    assert (shell["name"], job["name"]) == ("shell", "job")
    assert {"restart", "background"} <= shell["inputSchema"]["properties"].keys()
    assert "All calls run in one shell" in shell["description"]


def test_the_schema_of_a_tool_with_terminals_has_theirs() -> None:
    shell, terminal = json.loads(anyshell("schema", "--terminals", "--format", "mcp").stdout)
    assert (shell["name"], terminal["name"]) == ("shell", "terminal")
    assert "pty" in shell["inputSchema"]["properties"]


def test_a_call_prints_the_result_as_json() -> None:
    done = anyshell("call", "--approve-all", '{"command": "echo hi"}')
    result = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, b"")
    assert (result["is_error"], result["output"], result["details"]["exit_code"]) == (False, "hi\n", 0)


def test_a_call_takes_its_parameters_from_stdin() -> None:
    done = anyshell("call", "--approve-all", "-", input=b'{"command": "cat", "stdin": "\xc3\xbc"}')
    assert json.loads(done.stdout)["output"] == "ü"


@pytest.mark.parametrize(
    "params", ['{"command": "exit 3"}', '{"command": " "}', '{"command": "true", "colour": 1}', "{}"]
)
def test_a_call_that_goes_wrong_gives_1_and_its_result(params: str) -> None:
    done = anyshell("call", "--approve-all", params)
    assert done.returncode == 1
    assert json.loads(done.stdout)["is_error"] is True


def test_a_call_asks_and_without_a_terminal_nobody_approves(tmp_path: Path) -> None:
    done = anyshell("call", json.dumps({"command": f"touch {tmp_path}/ran"}), start_new_session=True)
    assert done.returncode == 1
    assert json.loads(done.stdout)["details"]["status"] == "refused"
    assert not (tmp_path / "ran").exists()


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


@pytest.mark.parametrize(
    ("params", "said"),
    [
        (b'{"command": ', b"not JSON"),
        (b"[]", b"give an object"),
        (b"1", b"give an object"),
        (b"secret-value", b"not JSON"),
        (b"\xff\xfe", b"not JSON"),
        (b"[" * 100_000, b"nested too deeply"),
        (b'{"timeout": ' + b"9" * 5000 + b"}", b"a number that is too long"),
        (b'{"timeout": NaN}', b"NaN"),
        (b'{"command": "true", "command": "secret-value"}', b"the same name twice"),
    ],
)
def test_parameters_that_are_no_object_are_wrong_usage(params: bytes, said: bytes) -> None:
    done = anyshell("call", "--approve-all", "-", input=params)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"JSON" in done.stderr
    assert said in done.stderr.replace(b"\n", b" ")
    assert b"set_int_max_str_digits" not in done.stderr
    assert b"secret-value" not in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_what_a_call_runs(number: signal.Signals) -> None:
    seconds = unique_seconds()
    with start("call", "--approve-all", json.dumps({"command": f"sleep {seconds}; :"})) as program:
        wait_living(f"sleep {seconds}", 3)  # ours, the shell's and its own
        program.send_signal(number)
        assert program.wait(20) == 128 + number
        assert living(seconds) == []


def test_a_reader_that_goes_away_stops_what_a_call_runs() -> None:
    seconds = unique_seconds()
    command = json.dumps({"command": f"sleep {seconds}; :"})
    done = script(f"anyshell call --approve-all '{command}' | true; echo ${{PIPESTATUS[0]}}")
    assert (done.stdout, done.stderr) == (b"141\n", b"")
    assert living(seconds) == []


# --- artifacts ------------------------------------------------------------------------------------------------


def printed(*arguments: str) -> bytes:
    """What ``anyshell artifacts`` prints on stdout, in this process."""
    result = CliRunner().invoke(main, ["artifacts", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout_bytes


def test_artifacts_are_listed(kept: tuple[str, bytes]) -> None:
    assert kept[0].encode() in printed("list")
    (entry,) = json.loads(printed("list", "--json"))
    assert (entry["id"], entry["size"]) == (kept[0], len(kept[1]))


def test_no_artifacts_are_no_error() -> None:
    assert printed("list") == b""
    assert json.loads(printed("list", "--json")) == []


def test_an_artifact_is_shown_byte_for_byte(kept: tuple[str, bytes]) -> None:
    assert printed("show", kept[0]) == kept[1]


@pytest.mark.parametrize("count", [0, 1, 2, 150_000, 200_000, 200_001, 300_000])
def test_the_first_and_the_last_lines_can_be_shown(kept: tuple[str, bytes], count: int) -> None:
    lines = kept[1].splitlines(keepends=True)
    assert printed("show", kept[0], "--head", str(count)) == b"".join(lines[:count])
    last = lines[len(lines) - min(count, len(lines)) :]
    assert printed("show", kept[0], "--tail", str(count)) == b"".join(last)


@pytest.mark.parametrize(
    ("data", "last"), [(b"", b""), (b"\n", b"\n"), (b"a\n\n", b"\n"), (b"a\nb\n", b"b\n"), (b"a", b"a")]
)
def test_a_line_feed_at_the_end_begins_no_line(data: bytes, last: bytes) -> None:
    writer = ArtifactStore().create()
    writer.write(data)
    assert printed("show", writer.finish().id, "--tail", "1") == last


def test_a_range_can_be_shown(kept: tuple[str, bytes]) -> None:
    shown = printed("show", kept[0], "--offset", "1048570", "--length", "20")
    assert shown == kept[1][1048570:1048590]
    assert printed("show", kept[0], "--offset", "999999999") == b""


def test_an_artifact_that_is_not_there_is_said() -> None:
    for name in ("20260101-000000-00000000", "../../etc/passwd"):
        done = anyshell("artifacts", "show", name)
        assert (done.returncode, done.stdout) == (1, b"")
        assert done.stderr.startswith(b"anyshell: no kept output has the id")


def test_two_ways_to_show_a_part_are_wrong_usage(kept: tuple[str, bytes]) -> None:
    result = CliRunner().invoke(main, ["artifacts", "show", kept[0], "--head", "1", "--offset", "1"])
    assert result.exit_code == 2


def test_artifacts_are_pruned_by_age(kept: tuple[str, bytes]) -> None:
    assert printed("prune", "--max-age", "1h") == b""
    path = ArtifactStore().path(kept[0])
    os.utime(path, (0, 0))
    assert printed("prune", "--max-age", "365d").decode() == f"{kept[0]}\n"
    assert not path.exists()


def test_all_artifacts_are_pruned(kept: tuple[str, bytes]) -> None:
    assert printed("prune", "--all").decode() == f"{kept[0]}\n"
    assert ArtifactStore().list() == []


@pytest.mark.parametrize("age", ["", "d", "-1", "soon", "1w", "inf", "1.2.3"])
def test_an_age_that_is_none_is_wrong_usage(age: str) -> None:
    result = CliRunner().invoke(main, ["artifacts", "prune", f"--max-age={age}"])
    assert result.exit_code == 2
    assert "7d" in result.output


# --- the doctor -----------------------------------------------------------------------------------------------


def test_the_doctor_finds_a_usable_host() -> None:
    done = anyshell("doctor")
    assert done.returncode == 0
    assert re.search(rb"^ok +default +", done.stdout, re.MULTILINE)
    report = json.loads(anyshell("doctor", "--json").stdout)
    assert report["usable"] is True
    assert {finding["verdict"] for finding in report["findings"]} <= {"ok", "missing", "problem"}
    for finding in report["findings"]:
        assert finding["verdict"] == "ok" or finding["advice"], finding


def test_the_doctor_says_what_is_wrong(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    env = {
        **os.environ,
        "PATH": ":relative",
        "ANYSHELL_SHELL": "/nowhere/bash",
        "ANYSHELL_STATE_DIR": str(file),
    }
    done = anyshell("doctor", "--json", env=env)
    report = json.loads(done.stdout)
    assert (done.returncode, report["usable"]) == (1, False)
    problems = {finding["name"] for finding in report["findings"] if finding["verdict"] == "problem"}
    assert problems >= {"default", "PATH", "artifacts"}


@pytest.mark.parametrize("form", [[], ["--json"]], ids=["text", "json"])
def test_a_signal_ends_the_doctor_who_then_says_nothing(tmp_path: Path, form: list[str]) -> None:
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
def test_the_doctor_names_what_a_killed_anyshell_left(tmp_path: Path) -> None:
    with start("run", "--", f"echo $$ > {tmp_path}/pid; trap '' HUP; while :; do sleep 300; done") as program:
        pid = int(wait_written(tmp_path / "pid"))
        program.kill()
        program.wait()
    try:
        orphans = json.loads(anyshell("doctor", "--json").stdout)["orphans"]
        assert pid in {orphan["pid"] for orphan in orphans}
        (line,) = re.findall(rf"^ +{pid} .*", anyshell("doctor").stdout.decode(), re.MULTILINE)
        assert re.fullmatch(r"  bash  \S*bash .*", line.partition(str(pid))[2])
        assert len(line) <= 8 + len("  bash  ") + 80 + 2
    finally:
        os.killpg(pid, signal.SIGKILL)  # a command leads a group of its own
    wait_until(lambda: not is_alive(pid), "the orphan is dead")
