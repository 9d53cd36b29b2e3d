"""The program ``anyshell``, except ``run``, which has separate test files."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from anyshell import ArtifactStore
from anyshell.cli import main
from anyshell.cli.failure import Failure
from anyshell.cli.options import Duration, read_duration
from anyshell.cli.printing import to_json

from .cli_program import anyshell, either, lines, slow, start, within

ROOT = Path(__file__).parent.parent


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
    """An artifact, and its content."""
    data = b"".join(b"line %d\n" % number for number in range(200_000)) + b"\xff no end"
    writer = ArtifactStore().create()
    writer.write(data)
    return writer.finish().id, data


# --- the program ----------------------------------------------------------------------------------------------


def test_the_version_is_that_of_the_package() -> None:
    assert anyshell("--version").stdout.decode() == f"anyshell {version('anyshell')}\n"


def test_version_option_imports_no_event_loop() -> None:
    code = (
        "import sys\n"
        "from anyshell.cli import main\n"
        "main(['--version'], standalone_mode=False)\n"
        "print([name for name in ('asyncio', 'anyio', 'pydantic', 'psutil', 'platformdirs') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("path", commands(), ids=lambda path: " ".join(["anyshell", *path]))
def test_every_command_has_help_within_100_columns(path: list[str]) -> None:
    result = CliRunner().invoke(main, [*path, "--help"])
    assert result.exit_code == 0
    assert result.output.startswith("Usage: ")
    for line in result.output.splitlines():
        assert len(line) <= 100, line


def _command(path: list[str]) -> click.Command:
    command: click.Command = main
    for name in path:
        assert isinstance(command, click.Group)
        below = command.get_command(click.Context(command), name)
        assert below is not None
        command = below
    return command


RULE = {"0", "1", "2", "124", "125", "128+n", "130", "141", "255"}
"""anyshell's own exit codes, which mean the same for each command."""


def test_help_has_examples_and_documented_exit_codes() -> None:
    for path in commands():
        told = CliRunner().invoke(main, [*path, "--help"]).output
        assert re.search(r"^  Examples?[:,].*\n(    .*\n)*?    .*anyshell ", told, re.MULTILINE), path
        codes = told.partition("Exit code")[2].partition("\nOptions:")[0]
        assert set(re.findall(r"^ {4}(\d+(?:\+n)?)  ", codes, re.MULTILINE)) <= RULE, path
    page = (
        (ROOT / "docs/reference/command-line.md")
        .read_text()
        .partition("## Exit codes")[2]
        .partition("\n## ")[0]
    )
    assert {code.replace(" ", "") for code in re.findall(r"^\| (\d+(?: \+ n)?) \|", page, re.MULTILINE)} | {
        "130",
        "141",
    } == RULE


@pytest.mark.skipif(sys.platform == "win32", reason="there is no pseudo-terminal to be had of os")
@pytest.mark.parametrize(
    ("variables", "coloured"),
    [({"TERM": "xterm"}, True), ({"TERM": "xterm", "NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)],
)
@pytest.mark.parametrize("command", [["--help"], ["run", "--help"], ["jobs", "list", "--help"], ["doctor"]])
def test_help_and_doctor_have_colours_only_on_a_terminal(
    command: list[str], variables: dict[str, str], *, coloured: bool
) -> None:
    env = {name: value for name, value in os.environ.items() if name != "NO_COLOR"} | variables
    if sys.platform != "win32":
        leader, terminal = os.openpty()
        try:
            program = start(*command, env=env, stdout=terminal)
            os.close(terminal)
            shown = b""
            while b"\n" in (piece := _read(leader)):
                shown += piece
            program.wait(30)
        finally:
            os.close(leader)
        assert (b"\x1b[" in shown) is coloured
        assert b"\x1b" not in anyshell(*command, env=env).stdout


def _read(leader: int) -> bytes:
    try:
        return os.read(leader, 65536) + b"\n"
    except OSError:  # Linux reports a closed terminal by this error
        return b""


def test_every_option_has_help() -> None:
    for path in commands():
        for parameter in _command(path).params:
            if isinstance(parameter, click.Option):
                assert parameter.help, f"{path} {parameter.name}"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30", 30),
        (".5", 0.5),
        ("500ms", 0.5),
        ("90s", 90),
        ("5m", 300),
        ("1h30m", 5400),
        ("1.5h", 5400),
        ("7d", 604800),
        ("1m1s1ms", 61.001),
    ],
)
def test_durations_are_read(text: str, seconds: float) -> None:
    assert read_duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "m", "5 m", "30m1h", "1m1m", "-1s", "1w", "1h30", "9" * 400 + "d", "nan"]
)
def test_malformed_duration_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not a duration"):
        Duration().convert(text, None, None)


def test_every_duration_is_read_by_one_parser() -> None:
    for path in commands():
        for parameter in _command(path).params:
            if isinstance(parameter, click.Option) and parameter.type.name in ("float", "duration"):
                assert isinstance(parameter.type, Duration), f"{path} {parameter.name}"


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
    """The completions of the last word, in the format of the shell's completion script."""
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


@slow
@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_the_shell_completes_paths(shell: str) -> None:
    assert completed(shell, "run", "--", "--shell=b") == ["file,--shell=b"]
    assert completed(shell, "run", "--", "ls", "sr") == ["file,sr"]
    assert completed(shell, "run", "sr") == ["file,sr"]
    assert completed(shell, "detect", "--cwd", "sr") == ["dir,sr"]
    assert completed(shell, "detect", "--shell", "/bin/b") == ["file,/bin/b"]


@slow
def test_the_shell_completes_a_value_after_an_equals_sign() -> None:
    assert completed("bash", "run", "--shell=b") == ["plain,--shell=bash"]
    assert completed("bash", "run", "--shell", "=", "b") == ["plain,bash"]
    assert completed("bash", "run", "--left-behind", "=") == ["plain,stop", "plain,keep"]
    assert completed("bash", "run", "--env", "=", "A", "=", "B", "--shell", "=", "z") == ["plain,zsh"]
    assert completed("zsh", "run", "--shell=z") == ["plain", "--shell=zsh", "_"]
    assert completed("fish", "run", "--shell=z") == ["plain,--shell=zsh"]


def test_closed_reader_causes_no_traceback() -> None:
    with start("detect", "--json", stderr=subprocess.PIPE) as program:
        assert program.stdout is not None
        assert program.stderr is not None
        program.stdout.close()
        assert program.wait() == 141
        assert program.stderr.read() == b""


@slow
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completing_without_its_script_is_wrong_usage(shell: str) -> None:
    done = anyshell(env={**os.environ, "_ANYSHELL_COMPLETE": f"{shell}_complete"})
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"COMP_WORDS" in done.stderr
    assert b"Traceback" not in done.stderr


# --- the host -------------------------------------------------------------------------------------------------


def test_detect_prints_readable_lines() -> None:
    done = anyshell("detect", "--shell", either("sh", "pwsh"))
    assert done.returncode == 0
    shown = either(r"shell +sh \(/.*sh\)", r"shell +PowerShell 7[\d.]+ \(.*\\pwsh\.exe\)")
    assert any(re.fullmatch(shown, line) for line in lines(done.stdout))


def test_detect_prints_json_on_request(tmp_path: Path) -> None:
    facts = json.loads(anyshell("detect", "--json", "--cwd", str(tmp_path)).stdout)
    assert os.path.isabs(facts["shell"]["path"])
    assert facts["directory"] == str(tmp_path)
    assert facts["os"] in ({"linux", "macos"} if sys.platform != "win32" else {"windows"})
    assert isinstance(facts["programs"], dict)


@slow
@pytest.mark.parametrize("command", ["detect", "describe", "schema"])
def test_unknown_shell_is_wrong_usage(command: str) -> None:
    done = within(command, "--shell", "fish")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"Invalid value for '--shell': 'fish' is not a shell that is known here" in done.stderr


@pytest.mark.parametrize("option", ["--cwd", "--shell"])
@pytest.mark.parametrize("command", [["detect"], ["describe"], ["schema"], ["call", "{}"]], ids=" ".join)
def test_an_empty_option_is_wrong_usage(command: list[str], option: str) -> None:
    result = CliRunner().invoke(main, [*command, option, ""])
    assert (result.exit_code, result.stdout) == (2, "")
    assert "leave it out" in result.stderr


def test_describe_prints_the_filled_description(tmp_path: Path) -> None:
    done = anyshell("describe", "--cwd", str(tmp_path))
    assert str(tmp_path) in done.stdout.decode()
    assert b"${" not in done.stdout


# --- the model's door -----------------------------------------------------------------------------------------


@slow
@pytest.mark.parametrize(
    ("format_", "parameters"),
    [
        ("openai", ("function", "parameters")),
        ("responses", ("parameters",)),
        ("anthropic", ("input_schema",)),
        ("mcp", ("inputSchema",)),
    ],
)
def test_schema_has_the_requested_format(format_: str, parameters: tuple[str, ...]) -> None:
    found = json.loads(within("schema", "--format", format_).stdout)
    for key in parameters:
        found = found[key]
    assert found["required"] == ["command"]


def test_schema_with_a_session_and_jobs_has_two_tools() -> None:
    shell, job = json.loads(anyshell("schema", "--session", "--jobs", "--format", "mcp").stdout)
    assert (shell["name"], job["name"]) == ("shell", "job")
    assert {"restart", "run_in_background"} <= shell["inputSchema"]["properties"].keys()
    assert "All calls share one" in shell["description"]


def test_the_tokens_of_each_set_of_tools_are_counted() -> None:
    lines = [line.split() for line in within("schema", "--tokens").stdout.decode().splitlines()]
    assert [line[0] for line in lines] == ["plain", "session", "jobs", "terminals", "everything"]
    for name, total, *parts in lines:
        assert len(parts) == (1 if name in ("plain", "session") else 3)
        assert sum(int(part) for part in parts if part != "+") == int(total.replace(",", ""))
    plain = json.loads(within("schema").stdout)
    compact = json.dumps(plain["input_schema"], separators=(",", ":"), ensure_ascii=False)
    assert int(lines[0][1]) == -(-len("shell" + plain["description"] + compact) // 4)


def test_schema_with_terminals_has_their_parameters() -> None:
    shell, job = json.loads(within("schema", "--terminals", "--format", "mcp").stdout)
    assert (shell["name"], job["name"]) == ("shell", "job")
    assert "screen" in job["inputSchema"]["properties"]["action"]["enum"]
    assert "pty" in shell["inputSchema"]["properties"]


def test_a_call_prints_the_result_as_json() -> None:
    done = anyshell("call", "--approve-all", '{"command": "echo hi"}')
    result = json.loads(done.stdout)
    assert done.returncode == 0
    assert done.stderr.startswith(b"anyshell: commands of the model run without a sandbox")
    assert done.stderr.count(b"\n") == 1
    assert (result["is_error"], result["output"], result["details"]["exit_code"]) == (False, "hi\n", 0)


def test_a_call_takes_its_parameters_from_stdin() -> None:
    command = either("cat", "[Console]::Out.Write([Console]::In.ReadToEnd())")
    done = anyshell(
        "call", "--approve-all", "-", input=json.dumps({"command": command, "stdin": "ü"}).encode()
    )
    assert json.loads(done.stdout)["output"] == "ü"


@pytest.mark.parametrize(
    "params", ['{"command": "exit 3"}', '{"command": " "}', '{"command": "true", "colour": 1}', "{}"]
)
def test_failed_call_exits_with_1_and_prints_its_result(params: str) -> None:
    done = within("call", "--approve-all", params)
    assert done.returncode == 1
    assert json.loads(done.stdout)["is_error"] is True


def test_a_call_without_a_terminal_is_not_approved(tmp_path: Path) -> None:
    done = anyshell("call", json.dumps({"command": f"cd {tmp_path}; echo > ran"}), start_new_session=True)
    assert done.returncode == 1
    assert json.loads(done.stdout)["details"]["status"] == "refused"
    assert not (tmp_path / "ran").exists()


@slow
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
def test_non_object_parameters_are_wrong_usage(params: bytes, said: bytes) -> None:
    if params.isascii():
        done = within("call", "--approve-all", params.decode())
    else:  # an argument of this process cannot have these bytes
        done = anyshell("call", "--approve-all", "-", input=params)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"JSON" in done.stderr
    assert said in done.stderr.replace(b"\n", b" ")
    assert b"set_int_max_str_digits" not in done.stderr
    assert b"secret-value" not in done.stderr
    assert b"Traceback" not in done.stderr


# --- artifacts ------------------------------------------------------------------------------------------------


def printed(*arguments: str) -> bytes:
    """The stdout of ``anyshell artifacts``, run in this process."""
    result = CliRunner().invoke(main, ["artifacts", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout_bytes


def test_artifacts_are_listed(kept: tuple[str, bytes]) -> None:
    assert kept[0].encode() in printed("list")
    (entry,) = json.loads(printed("list", "--json"))
    assert (entry["id"], entry["size"]) == (kept[0], len(kept[1]))


def test_empty_artifact_list_is_no_error() -> None:
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
def test_trailing_line_feed_begins_no_line(data: bytes, last: bytes) -> None:
    writer = ArtifactStore().create()
    writer.write(data)
    assert printed("show", writer.finish().id, "--tail", "1") == last


def test_a_range_can_be_shown(kept: tuple[str, bytes]) -> None:
    shown = printed("show", kept[0], "--offset", "1048570", "--length", "20")
    assert shown == kept[1][1048570:1048590]
    assert printed("show", kept[0], "--offset", "999999999") == b""


def test_missing_artifact_is_reported() -> None:
    for name in ("20260101-000000-00000000", "../../etc/passwd"):
        done = anyshell("artifacts", "show", name)
        assert (done.returncode, done.stdout) == (1, b"")
        assert done.stderr.startswith(b"anyshell: no kept output has the id")


@pytest.mark.parametrize(
    "options",
    [
        ("--head", "1", "--offset", "1"),
        ("--lines", "5"),
        ("--lines", "2-1"),
        ("--lines", "x"),
        ("--tail", "1"),
    ],
)
def test_conflicting_part_options_are_wrong_usage(kept: tuple[str, bytes], options: tuple[str, ...]) -> None:
    address = kept[0] if options[0] == "--head" else f"artifact://{kept[0]}?tail=5"
    assert CliRunner().invoke(main, ["artifacts", "show", address, *options]).exit_code == 2


def test_a_part_is_shown_by_options_and_by_address(kept: tuple[str, bytes]) -> None:
    lines = kept[1].splitlines(keepends=True)
    assert printed("show", kept[0], "--lines", "3-4") == b"".join(lines[2:4])
    assert printed("show", f"artifact://{kept[0]}?lines=3-4") == b"".join(lines[2:4])
    assert printed("show", kept[0], "--bytes", "0-9") == kept[1][:10]
    result = CliRunner().invoke(
        main,
        ["artifacts", "show", kept[0], "--lines", "6-8", "--grep", "^line 6$", "--context", "1"],
    )
    assert result.stdout_bytes == b"6-%b7:%b8-%b" % (lines[5], lines[6], lines[7])
    assert "1 of 3 lines match." in result.stderr


def test_artifacts_are_pruned_by_size(kept: tuple[str, bytes]) -> None:
    assert printed("prune", "--max-total", "1g") == b""
    assert lines(printed("prune", "--max-total", "1k")) == [kept[0]]
    assert CliRunner().invoke(main, ["artifacts", "prune", "--max-total", "1x"]).exit_code == 2


def test_the_doctor_shows_the_budget_of_artifacts(kept: tuple[str, bytes]) -> None:
    from anyshell.cli.commands.doctor.command import _look_at_state

    (finding,) = _look_at_state()
    assert finding.detail.endswith("; 1 kept, 2.2 MiB of 1.0 GiB, each for 7 days"), finding


def test_artifacts_are_pruned_by_age(kept: tuple[str, bytes]) -> None:
    assert printed("prune", "--max-age", "1h") == b""
    path = ArtifactStore().path(kept[0])
    os.utime(path, (0, 0))
    assert lines(printed("prune", "--max-age", "365d")) == [kept[0]]
    assert not path.exists()


def test_all_artifacts_are_pruned(kept: tuple[str, bytes]) -> None:
    assert lines(printed("prune", "--all")) == [kept[0]]
    assert ArtifactStore().list() == []


@pytest.mark.parametrize("age", ["", "d", "-1", "soon", "1w", "inf", "1.2.3"])
def test_a_malformed_age_is_wrong_usage(age: str) -> None:
    result = CliRunner().invoke(main, ["artifacts", "prune", f"--max-age={age}"])
    assert result.exit_code == 2
    assert "7d" in result.output


# --- the doctor -----------------------------------------------------------------------------------------------


def test_the_doctor_finds_a_usable_host() -> None:
    done = anyshell("doctor")
    assert done.returncode == 0
    assert re.search(rb"^ok +default +", done.stdout, re.MULTILINE)


def test_doctor_gives_advice_for_each_finding() -> None:
    report = json.loads(anyshell("doctor", "--json").stdout)
    assert report["usable"] is True
    assert {finding["verdict"] for finding in report["findings"]} <= {"ok", "missing", "problem"}
    for finding in report["findings"]:
        assert finding["verdict"] == "ok" or finding["advice"], finding


def test_the_doctor_names_the_shells_of_its_host() -> None:
    report = json.loads(anyshell("doctor", "--json").stdout)
    shells = {each["name"]: each for each in report["findings"] if each["topic"] == "shell"}
    names = list(shells)
    assert names[:4] == ["default", *either("bash zsh sh", "pwsh powershell bash").split()]
    # An unexpected shell does not count as missing.
    assert all(shells[name]["verdict"] == "ok" for name in names[4:])
    assert shells[either("sh", "pwsh")]["verdict"] == "ok"
    for each in shells.values():
        if each["verdict"] == "missing":
            assert re.match(
                either(r"\w+( -S| install| add)? [a-z ]+", "winget|it is a part of"), each["advice"]
            )


def test_doctor_reports_problems(tmp_path: Path) -> None:
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


# --- What a terminal would obey

ORDERS = "\x1b]52;c;cm0gLXJmIC8=\x07\x9b31m\u202e\r\x7f"


def test_usage_message_escapes_control_sequences() -> None:
    done = anyshell("detect", ORDERS)
    assert done.returncode == 2
    assert b"\\x1b]52" in done.stderr
    assert b"\x1b" not in done.stderr


def test_failure_message_escapes_control_sequences(capsys: pytest.CaptureFixture[str]) -> None:
    Failure(f"one{ORDERS}\n  two\u2028\x85").show()
    said = capsys.readouterr().err
    assert said == "anyshell: one\\x1b]52;c;cm0gLXJmIC8=\\x07\\x9b31m\\u202e\\r\\x7f\n  two\\u2028\\x85\n"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such names")
@pytest.mark.parametrize("command", [("replay",), ("screenshot",), ("artifacts", "show")])
@pytest.mark.parametrize("content", [None, b"no recording"])
def test_a_path_with_escape_sequences_is_shown_as_text(
    tmp_path: Path, command: tuple[str, ...], content: bytes | None
) -> None:
    path = tmp_path / "a\x1b]52;c;eA==\x07\nanyshell: all is well.cast"
    if content is not None:
        path.write_bytes(content)
    done = anyshell(*command, str(path))
    assert done.returncode in (1, 125)
    assert b"\x1b" not in done.stderr
    assert done.stderr.count(b"\n") == 1


def test_wrong_usage_prints_no_control_sequences() -> None:
    for arguments in (
        [f"no-such-{ORDERS}"],
        ["run", f"--no-such-{ORDERS}"],
        ["run", f"--timeout={ORDERS}", "x"],
    ):
        done = anyshell(*arguments)
        assert done.returncode == 2
        assert all(line.isprintable() for line in done.stderr.decode().split("\n"))


def test_json_escapes_control_sequences() -> None:
    value = {f"name{ORDERS}": [f"text{ORDERS}\u2066\U000e0041 \u00fc\u4e2d\U0001f600\udcff"]}
    for one_line in (True, False):
        data = to_json(value, one_line=one_line)
        assert json.loads(data) == value
        text = data.decode()
        assert all(line.isprintable() for line in text.split("\n"))
        assert "\\u009b" in text
        assert "\\u202e" in text
        assert "\u00fc\u4e2d\U0001f600" in text


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("rnu",), b"No such command 'rnu'. Did you mean run?"),
        (("frobnicate",), b"No such command 'frobnicate'. The commands are run, fleet, "),
        (("python3", "x.py"), b"To run that program: anyshell run -- python3"),
        (("call", ""), b"the input is empty: give an object, such as "),
    ],
)
def test_wrong_command_lines_are_answered_with_a_suggestion(words: tuple[str, ...], told: bytes) -> None:
    done = anyshell(*words)
    assert (done.returncode, done.stdout) == (2, b"")
    assert told in done.stderr
