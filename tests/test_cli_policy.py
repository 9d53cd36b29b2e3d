"""``anyshell policy``: its output and exit code."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from anyshell.cli import main

from .cli_program import anyshell, within

if TYPE_CHECKING:
    from pathlib import Path

    from .wine.windows import Windows

RULES = '[[allow]]\nname = "shown"\nprogram = "show"\nmatch = "show x"\n[programs.show]\nbuiltin = true\npositionals = "text*"\n'


@pytest.fixture
def rules(tmp_path: Path) -> str:
    (tmp_path / "rules.toml").write_text(RULES)
    return str(tmp_path / "rules.toml")


def objects(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in data.decode().splitlines()]


def test_check_prints_an_object_for_each_command_of_stdin(rules: str) -> None:
    """Input for programs: NUL bytes separate the commands, and commands may contain line feeds."""
    commands = b"show a\0show a | $x\0show a\nrm -rf /\0show a\xff; (\0"
    done = anyshell("policy", "check", "--rules", rules, "--shell", "bash", "--json", input=commands)
    assert done.returncode == 0, done.stderr
    first, second, third, last = objects(done.stdout)
    assert first == {
        "action": "allow",
        "understood": True,
        "programs": ["show"],
        "reasons": ["show is allowed"],
    }
    assert (second["action"], second["understood"], second["programs"]) == ("ask", False, ["show"])
    assert (third["action"], third["programs"]) == ("deny", ["show", "rm"])
    assert (last["action"], last["understood"]) == ("ask", False)
    assert last["reasons"]


def test_check_takes_a_file_or_one_command(rules: str, tmp_path: Path) -> None:
    (tmp_path / "commands").write_bytes(b"show a\0show \x1b[2J")
    done = within("policy", "check", "--rules", rules, "--file", str(tmp_path / "commands"))
    assert done.stdout.decode().splitlines() == ["allow  show a", r"ask    show \x1b[2J"]
    assert within("policy", "check", "--rules", rules, "show b").stdout == b"allow  show b\n"
    both = within("policy", "check", "--file", str(tmp_path / "commands"), "show")
    assert (both.returncode, b"not both" in both.stderr) == (2, True)


def test_check_of_empty_input_has_no_output(rules: str) -> None:
    assert CliRunner().invoke(main, ["policy", "check", "--rules", rules], input=b"").stdout_bytes == b""


def test_oversized_input_is_a_failure(rules: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anyshell.cli.commands.policy.LARGEST_INPUT", 4)
    done = CliRunner().invoke(main, ["policy", "check", "--rules", rules], input=b"12345")
    assert (done.exit_code, done.stdout) == (125, "")
    assert "more than 4 bytes of commands" in done.stderr


def test_check_takes_directories(tmp_path: Path) -> None:
    how = ("policy", "check", "--preset", "workspace", "--cwd", str(tmp_path / "a"), "--json")
    assert objects(within(*how, "cd /dev && echo > sda").stdout)[0]["action"] == "deny"
    home = str(tmp_path / "a")
    said = objects(within(*how, "--workspace", f"{home}/b", "echo x > /srv/y").stdout)[0]
    assert said["reasons"] == ["echo writes /srv/y, outside of the workspace"]


def test_explain_names_the_rule_and_affected_paths(rules: str) -> None:
    done = within("policy", "explain", "--rules", rules, "show a; rm -rf / \x1b")
    text = done.stdout.decode()
    assert "allow: show a\n    allow: show is allowed  [" in text
    assert "rules.toml:1: shown]" in text
    assert "deletes: /" in text
    assert "\x1b" not in text
    said = json.loads(within("policy", "explain", "--rules", rules, "--json", "show a; rm -rf /").stdout)
    assert said["action"] == "deny"
    assert [each["command"]["program"] for each in said["commands"]] == ["show", "rm"]


def test_policy_test_names_failing_examples(rules: str, tmp_path: Path) -> None:
    good = within("policy", "test", rules)
    assert (good.returncode, good.stdout) == (0, b"all examples hold: 1, of rules: 1\n")
    wrong = tmp_path / "wrong.toml"
    wrong.write_text('[[deny]]\nname = "d"\nprogram = "x"\nmatch = ["y \\u001b", "x"]\nnot_match = "x z"\n')
    done = within("policy", "test", str(wrong))
    assert done.returncode == 1
    assert len(done.stdout.splitlines()) == 2
    assert b"wrong.toml:1: d does not hold for its example 'y \\\\x1b'" in done.stdout


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("check", "git", "status"), b"put quotes around the command, which has 2 words here"),
        (("explain", "git", "status"), b"put quotes around the command, which has 2 words here"),
        (("test",), b"give FILE or --preset: you have no rules of your own in "),
    ],
)
def test_wrong_usage_gives_advice(
    words: tuple[str, ...], told: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANYSHELL_CONFIG_DIR", str(tmp_path))
    done = within("policy", *words)
    assert done.returncode == 2
    assert told in done.stderr


def test_user_rules_are_loaded_unless_rules_are_given(
    rules: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANYSHELL_CONFIG_DIR", str(tmp_path))
    (tmp_path / "policy.toml").write_text('[[allow]]\nname = "a"\ncommand = "make a"\n')
    assert within("policy", "check", "make a").stdout == b"allow  make a\n"
    assert within("policy", "check", "--rules", rules, "make a").stdout == b"ask    make a\n"


def test_missing_extra_is_reported_by_every_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anyshell.policy.rules.policy.find_spec", lambda _: None)
    for words in (("check", "ls"), ("explain", "ls"), ("test", "--preset", "workspace")):
        done = within("policy", *words)
        assert done.returncode == 125
        assert (
            b"a policy needs the extra policy of anyshell: python -m pip install 'anyshell[policy]'"
            in done.stderr
        )


def test_examples_of_the_presets_hold() -> None:
    assert within("policy", "test", "--preset", "workspace").returncode == 0


def test_invalid_rules_file_exits_with_125(tmp_path: Path) -> None:
    (tmp_path / "rules.toml").write_text("\n[[allow]]\nnames = 'a'\n")
    for command in (("check", "--rules"), ("explain", "--rules"), ("test",)):
        more = ("x",) if command[0] != "test" else ()
        done = within("policy", *command, str(tmp_path / "rules.toml"), *more)
        assert (done.returncode, done.stdout) == (125, b"")
        assert b"rules.toml:2: names is not a key of a rule" in done.stderr


def test_unknown_preset_lists_known_presets() -> None:
    done = within("policy", "check", "--preset", "unheard", "x")
    assert (done.returncode, b"read-only, workspace, ask-everything, trusted" in done.stderr) == (125, True)


def test_schema_describes_a_rules_file() -> None:
    schema = json.loads(within("policy", "schema").stdout)
    assert set(schema["properties"]) == {
        "allow",
        "ask",
        "deny",
        "preset",
        "directories",
        "override",
        "variables",
        "reach",
        "widened",
        "programs",
    }
    assert schema["properties"]["allow"]["items"]["required"] == ["name"]


@pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")
def test_closed_stdin_is_wrong_usage_with_advice() -> None:
    program = f"{shlex.quote(sys.executable)} -m anyshell policy check <&-"
    done = subprocess.run(["/bin/sh", "-c", program], capture_output=True, timeout=60)
    assert (done.returncode, b"stdin is closed: give COMMAND or --file" in done.stderr) == (2, True)


def test_empty_policy_of_a_call_is_wrong_usage() -> None:
    done = within("call", "--approve-all", "--policy", "", '{"command": "echo ran"}')
    assert (done.returncode, done.stdout, b"--policy" in done.stderr) == (2, b"", True)


def test_powershell_text_is_read_by_the_powershell_parser(
    powershell: Windows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    (bin_ / "pwsh").symlink_to(powershell.pwsh)
    monkeypatch.setenv("PATH", f"{bin_}:{os.environ['PATH']}")
    commands = b"Get-Date | Out-Null\0(Get-Item x).Delete()\0Remove-Item -Recurse /\0Get-ChildItem '"
    arguments = (
        "policy",
        "check",
        "--preset",
        "workspace",
        "--shell",
        "pwsh",
        "--cwd",
        str(tmp_path),
        "--json",
    )
    done = anyshell(*arguments, input=commands)
    assert done.returncode == 0, done.stderr
    found = objects(done.stdout)
    assert [(each["action"], each["understood"]) for each in found] == [
        ("allow", True),
        ("ask", False),
        ("deny", True),
        ("ask", False),
    ]
    assert found[1]["reasons"] == ["InvokeMemberExpressionAst is not read"]
    said = within("policy", "explain", "--preset", "workspace", "--shell", "pwsh", "Get-Date").stdout
    assert said.decode().startswith("allow: Get-Date\n")


def test_call_is_recorded_on_request_and_refused_without_a_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANYSHELL_STATE_DIR", str(tmp_path / "state"))
    assert anyshell("call", "--approve-all", '{"command": "echo one"}').returncode == 0
    assert anyshell("audit", "show").returncode == 125  # there is no audit
    assert anyshell("call", "--approve-all", "--audit", '{"command": "echo two"}').returncode == 0
    entries = objects(anyshell("audit", "show", "--json").stdout)
    events = ["opened", "requested", "decided", "started", "ended", "closed"]
    assert [each["event"] for each in entries] == events
    assert entries[1]["command"] == "echo two"
    assert anyshell("audit", "verify").returncode == 0
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ANYSHELL_STATE_DIR", str(tmp_path / "file"))
    done = anyshell("call", "--approve-all", "--audit", '{"command": "echo three"}')
    assert (done.returncode, json.loads(done.stdout)["details"]["status"]) == (1, "refused")


@pytest.mark.parametrize("option", ["--cwd", "--workspace"])
@pytest.mark.parametrize("command", ["check", "explain"])
def test_missing_directory_is_mentioned(tmp_path: Path, command: str, option: str) -> None:
    done = within("policy", command, option, str(tmp_path / "nosuch"), "ls")
    assert (done.returncode, done.stdout[:3]) == (0, b"ask")
    assert f"{option} {tmp_path / 'nosuch'} is not a directory here" in done.stderr.decode().replace(
        "\n", " "
    )


@pytest.mark.skipif(sys.platform == "win32", reason="each Windows has one")
def test_powershell_text_is_not_understood_without_powershell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    done = within("policy", "check", "--preset", "workspace", "--shell", "powershell", "--json", "Get-Date")
    (found,) = objects(done.stdout)
    why = "there is no powershell on this machine, whose own parser could say what this runs"
    assert (found["action"], found["understood"], found["programs"]) == ("ask", False, ["Get-Date"])
    assert why in found["reasons"]
    assert why.encode() in done.stderr
