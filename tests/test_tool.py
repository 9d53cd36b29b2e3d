"""The tool for models: accepted parameters, refused parameters, and messages."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from dataclasses import fields, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from anyshell import (
    AnyshellError,
    ApprovalRequest,
    Approved,
    ConnectionFailed,
    Environment,
    HostKeyUntrusted,
    Outcome,
    OutputLimits,
    Refused,
    ShellTool,
    Terminal,
    ToolLimits,
    approve_all,
    deny_all,
)
from anyshell._runner.variables import HANG_GUARDS
from anyshell._types import Command, Spawn
from anyshell.abc import FileStat, ProcessInfo, ShellInfo
from anyshell.testing import FAKE_HOST, FakeBackend, FakeFiles, Script
from anyshell.tool import ShellParams, ShellResult, words
from anyshell.tool.approvals import key_of
from anyshell.tool.signals import number_of
from anyshell.tool.updates import Updates
from anyshell.types import (
    Artifact,
    CommandRequest,
    JobInputRequest,
    Output,
    SecretInputRequest,
    SessionReport,
    TerminalInputRequest,
)

from .conftest import missing, row
from .processes import STARTED, living, unique_seconds

if TYPE_CHECKING:
    from collections.abc import Callable

    from anyshell.abc import Approver

pytestmark = pytest.mark.anyio

SNAPSHOTS = Path(__file__).parent / "snapshots"


def tool_of(env: Environment, approver: Approver = approve_all, **limits: Any) -> ShellTool:
    return ShellTool(
        env, approver=approver, limits=ToolLimits(**{"min_timeout": 0.1, "grace": 0.3, **limits})
    )


Kind = TypeVar("Kind", bound=ApprovalRequest)


class Recorder:
    """An approver that keeps its requests."""

    def __init__(self, answer: Approved | Refused | None = None) -> None:
        self.requests: list[ApprovalRequest] = []
        self.answer = answer or Approved()

    async def __call__(self, request: ApprovalRequest, /) -> Approved | Refused:
        self.requests.append(request)
        return self.answer

    def of(self, kind: type[Kind]) -> list[Kind]:
        """The requests of one type."""
        return [request for request in self.requests if isinstance(request, kind)]


def matches_snapshot(name: str, text: str) -> None:
    path = SNAPSHOTS / name
    if os.environ.get("ANYSHELL_UPDATE_SNAPSHOTS") == "1":
        path.write_text(text)
    assert path.read_text() == text, "if the new words are right: ANYSHELL_UPDATE_SNAPSHOTS=1"


# A call.


async def test_a_command_runs(env: Environment) -> None:
    result = await tool_of(env)({"command": "echo hello", "description": "Say hello"})
    assert not result.is_error
    assert result.output == "hello\n"
    assert result.message == "Exit code 0."
    assert result.text == "hello\n\n[anyshell] Exit code 0."
    assert result.details.status == "exited"
    assert result.details.exit_code == 0
    assert result.details.timeout == 120
    assert result.details.requested_timeout is None
    assert [(block.type, block.text, block.title) for block in result.display] == [
        ("command", "echo hello", "Say hello"),
        ("output", "hello\n", ""),
        ("notice", "Exit code 0.", ""),
    ]


async def test_every_parameter_counts(env: Environment, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    result = await tool_of(env)(
        {
            "command": "pwd; echo $WORD; cat",
            "cwd": "sub",
            "env": {"WORD": "x"},
            "stdin": "in\n",
            "timeout": 30,
        }
    )
    assert result.output == f"{tmp_path}/sub\nx\nin\n"
    assert result.details.timeout == result.details.requested_timeout == 30


async def test_repr_of_a_request_hides_its_values(env: Environment) -> None:
    approver = Recorder(Refused())
    params = {"command": "true", "env": {"TOKEN": "hunter2"}, "stdin": "hunter2"}
    await tool_of(env, approver)(params)
    request = approver.requests[0]
    assert "hunter2" in request.display
    command = Command(text="true", env={"TOKEN": "hunter2"}, stdin=b"hunter2")
    spawn = Spawn(argv=("true",), cwd="/", env={"TOKEN": "hunter2"})
    for value in (ShellParams.model_validate(params), request, command, spawn):
        assert "hunter2" not in repr(value) + str(value)


async def test_optional_parameters_may_be_null(env: Environment) -> None:
    params = {
        "command": "echo x",
        "timeout": None,
        "cwd": None,
        "env": None,
        "stdin": None,
        "description": None,
    }
    assert (await tool_of(env)(params)).output == "x\n"


async def test_params_may_be_a_model(env: Environment) -> None:
    assert (await tool_of(env)(ShellParams(command="echo x"))).output == "x\n"


async def test_a_result_is_json(env: Environment) -> None:
    result = await tool_of(env)({"command": f"printf 'a\\0\\377\\n'; sleep 300 & {STARTED}"})
    assert json.loads(result.model_dump_json())["details"]["left_behind"][0]["name"] == "sleep"
    assert ShellResult.model_validate_json(result.model_dump_json()) == result


async def test_a_failure_is_a_result(env: Environment) -> None:
    result = await tool_of(env)({"command": "echo why; exit 3"})
    assert result.is_error
    assert result.details.exit_code == 3
    assert result.message.startswith("Exit code 3.")
    assert "why" in result.text


async def test_empty_output_is_reported(env: Environment) -> None:
    result = await tool_of(env)({"command": "true"})
    assert result.output == ""
    assert result.text == "[anyshell] (no output)\n[anyshell] Exit code 0."


async def test_invisible_output_is_not_called_empty(env: Environment) -> None:
    result = await tool_of(env)({"command": "echo; echo"})
    assert result.output == "\n\n"
    assert result.text.startswith("\n\n\n[anyshell] (nothing visible")


async def test_notices_are_the_last_paragraph_of_a_text(env: Environment) -> None:
    fake = "(no output)\n\n[anyshell] Exit code 0."
    for command in (f"printf '{fake}'; sleep 300 & exit 3", f"printf '{fake}\n\n\n'; sleep 300 & exit 3"):
        result = await tool_of(env)({"command": command, "env": {"PAGER": "less"}})
        printed, _, ours = result.text.rpartition("\n\n")
        assert printed == result.output.removesuffix("\n")
        assert ours.startswith("[anyshell] Exit code 3.")
        assert len(ours.splitlines()) == 3
        assert all(line.startswith("[anyshell] ") for line in ours.splitlines())
        assert [line.removeprefix("[anyshell] ") for line in ours.splitlines()] == [
            block.text for block in result.display if block.type == "notice"
        ]


async def test_last_line_feed_alone_is_removed_from_an_output(env: Environment) -> None:
    result = await tool_of(env)({"command": "printf '\n  a \t\n\n \n\n'"})
    assert result.text == "\n  a \t\n\n \n\n\n[anyshell] Exit code 0."


async def test_a_message_is_one_line(env: Environment) -> None:
    for params in (
        {"command": "true", "cwd": "a\nb"},
        {"command": "true", "a\nb": 1},
        {"command": "true", "env": {"a\nb": ""}},
        {"command": "sleep 300 & sleep 300 & seq 100000; exit 1", "timeout": 9999, "env": {"PAGER": "x"}},
    ):
        result = await tool_of(env)(params)
        assert result.message
        assert result.message.isprintable()


async def test_a_signal_is_named_and_has_an_exit_code(env: Environment) -> None:
    result = await tool_of(env)({"command": "kill -9 $$"})
    assert result.details.exit_code == 137
    assert result.details.signal == "SIGKILL"
    assert "SIGKILL (exit code 137)" in result.message
    assert result.is_error


@pytest.mark.skipif(sys.platform != "linux", reason="macOS has no real-time signals")
@pytest.mark.parametrize("after", [0, 1, 30])
async def test_a_real_time_signal_has_an_exit_code(after: int, env: Environment) -> None:
    if not env.info.is_this_machine:
        pytest.skip("SSH has no names for these signals (RFC 4254, 6.10)")
    number = signal.SIGRTMIN + after  # type: ignore[attr-defined,unused-ignore]  # Linux alone has it
    result = await tool_of(env)({"command": f"kill -{number} $$"})
    assert result.details.exit_code == 128 + number
    assert f"(exit code {128 + number})" in result.message


@pytest.mark.parametrize(
    ("name", "os_", "number"),
    [
        ("SIGRTMIN", "linux", 34),
        ("SIGRTMIN+3", "linux", 37),
        ("SIGRTMAX", "linux", 64),
        ("SIGRTMAX-14", "linux", 50),
        ("SIG42", "linux", 42),
        ("SIGRTMIN+99", "linux", None),
        ("SIGRTMIN", "macos", None),
        ("SIGNAL", "linux", None),
        ("SIGUSR1", "macos", 30),
    ],
)
def test_a_signal_has_the_number_of_its_system(name: str, os_: Any, number: int | None) -> None:
    assert number_of(name, os_) == number


async def test_a_timeout_is_a_result_with_the_output_so_far(env: Environment) -> None:
    seconds = unique_seconds()
    result = await tool_of(env)({"command": f"printf begun; sleep {seconds}", "timeout": 4})
    assert result.is_error
    assert result.details.status == "timed_out"
    assert result.output == "begun"
    assert result.message.startswith("Timed out after 4 s; it and all it started were stopped.")
    assert living(seconds) == []


async def test_the_clock_starts_after_the_approval(env: Environment) -> None:
    async def slow(request: ApprovalRequest) -> Approved:
        await asyncio.sleep(2.1)
        return Approved()

    result = await tool_of(env, slow)({"command": "echo done", "timeout": 2})
    assert result.output == "done\n"


async def test_process_left_behind_is_stopped_and_named(env: Environment) -> None:
    seconds = unique_seconds()
    result = await tool_of(env)({"command": f"sleep {seconds} & {STARTED}; echo $!"})
    pid = int(result.output)
    assert not result.is_error
    assert [(process.pid, process.name, process.alive) for process in result.details.left_behind] == [
        (pid, "sleep", False)
    ]
    assert f"sleep (pid {pid})" in result.message
    assert living(seconds) == []


async def test_cancelling_the_call_leaves_nothing(env: Environment) -> None:
    seconds = unique_seconds()
    running = asyncio.Event()
    tool = tool_of(env)
    for on_update in (None, lambda _: running.set()):
        running.clear()
        ready = f"echo ready; touch {seconds}; sleep {seconds}"
        task = asyncio.ensure_future(tool({"command": ready}, on_update=on_update))
        while not (running.is_set() or await env.files.exists(seconds)):
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert living(seconds) == []


# Parameters.


WRONG_PARAMETERS: tuple[tuple[Any, str], ...] = (
    ({}, "command is missing. The keys are command, timeout, cwd, env, stdin, description."),
    ({"cmd": "ls", "command": "ls"}, 'there is no "cmd" beside command: give one of them'),
    ({"command": "ls", "path": "/"}, 'there is no "path" (did you mean "cwd"?)'),
    (
        {"command": "ls", "run_in_background": True},
        'there is no "run_in_background" (not possible here: ',
    ),
    ({"command": "ls", "background": True}, 'there is no "run_in_background" (not possible here: '),
    ({"command": "ls", "is": 1}, 'there is no "is". The keys'),
    ({"command": "ls", "timeot": 3}, 'there is no "timeot" (did you mean "timeout"?)'),
    ({"command": "ls", "shell": "zsh"}, 'there is no "shell" (not possible here: '),
    ({"command": "ls", "a\nb\x1b": "zsh"}, r'there is no "a\x0ab\x1b"'),
    ({"command": "ls", 3: 4}, 'the key "3" is not a string'),
    ({"command": "ls", **dict.fromkeys(map(str, range(20_000)))}, '"4"; and 19,995 more. The keys are'),
    ({"command": "ls", "x" * 100_000: 1}, 'there is no "' + "x" * 80 + '…"'),
    ({"command": "ls", "env": {"x" * 99_999 + "-": ""}}, "'" + "x" * 80 + "…' is not a variable name"),
    ({"command": "ls", "timeout": 10**5000, "cwd": " "}, "cwd is blank"),
    ({"command": ""}, "command is blank"),
    ({"command": " \n\t"}, "command is blank"),
    ({"command": 3}, "command must be one string"),
    ({"command": None}, "command must be one string"),
    ({"command": b"ls"}, "command must be one string"),
    ({"command": ["ls", "-l"]}, "command must be one string, not a list: write it as in a shell"),
    ({"command": "ls\0"}, "NUL byte"),
    ({"command": "ls", "cwd": "a\0"}, "cwd holds a NUL byte"),
    ({"command": "ls", "cwd": " "}, "cwd is blank"),
    (
        {"command": "ls", "cwd": "x" * 5000},
        "cwd has 5,000 bytes, and at most 4,096 can be given: give a shorter",
    ),
    ({"command": "ls \ud800"}, "command holds half of a surrogate pair"),
    ({"command": "ls", "timeout": "soon"}, "timeout must be a number"),
    ({"command": "ls", "timeout": 120_000}, "timeout is in seconds; did you mean 120?"),
    ({"command": "ls", "timeout": 7_200_000}, "timeout is in seconds; at most 3600."),
    ({"command": "ls", "timeout": True}, "timeout must be a number"),
    ({"command": "ls", "timeout": float("nan")}, "timeout must be a finite number"),
    ({"command": "ls", "timeout": float("inf")}, "timeout must be a finite number"),
    ({"command": "ls", "env": ["A"]}, "env must be an object with strings for values"),
    ({"command": "ls", "env": {"A": None}}, "env.A must be one string"),
    ({"command": "ls", "env": {"A": True}}, "env.A must be one string"),
    ({"command": "ls", "env": {"A B": "x"}}, "'A B' is not a variable name"),
    ({"command": "ls", "env": {"A": "x\0"}}, "the value of A holds a NUL byte"),
    (
        {"command": "ls", "env": {f"A{n}": "" for n in range(101)}},
        "env has 101 variables, and at most 100",
    ),
    (
        {"command": "ls", "env": {"A": "x" * 200_000}},
        "env has 200,001 bytes, and at most 102,400 can be given: pass big values by stdin",
    ),
    ({"command": "ls", "env": {"A": "\ud800"}}, "env holds half of a surrogate pair"),
    ({"command": "ls", "stdin": b"x"}, "stdin must be one string"),
    ({"command": "x" * 9_000_000}, "command has 9,000,000 bytes, and at most 8,388,608"),
    ({"command": "ls", "stdin": "x" * 9_000_000}, "stdin has 9,000,000 bytes"),
    ("ls", "the parameters must be an object"),
    (None, "the parameters must be an object"),
)
"""Parameters, and a part of the message for each."""


async def test_wrong_parameters_are_a_result_without_approval(env: Environment) -> None:
    approver = Recorder()
    for params, said in WRONG_PARAMETERS:
        with row(said):
            result = await tool_of(env, approver)(params)
            assert result.is_error
            assert result.details.status == "invalid"
            assert said in result.message
            assert "\n" not in result.message
            assert len(result.message) < 1000
            assert result.text == f"[anyshell] {result.message}"
            assert approver.requests == []


async def test_no_value_that_may_be_a_secret_is_repeated(env: Environment) -> None:
    for params in (
        {"command": "ls", "env": {"A": "hunter2\0"}},
        {"command": "ls", "env": {"A": ["hunter2"]}},
        {"command": "ls", "env": "hunter2"},
        {"command": "ls", "stdin": ["hunter2"]},
        {"command": "ls", "token": "hunter2"},
        {"command": "ls", "env": {"KEY=hunter2": "x"}},
        {"command": "ls", "env": {"KEY=hunter2": 1}},
        {"command": "ls", "KEY=hunter2": 1},
    ):
        result = await tool_of(env)(params)
        assert result.details.status == "invalid"
        assert "hunter2" not in result.model_dump_json()


async def test_timeout_beyond_the_limits_is_clamped_and_reported(env: Environment) -> None:
    for asked, got, said in (
        (0.01, 0.1, "0.01 was raised"),
        (-5, 0.1, "-5 was raised"),
        (0, 0.1, "0 was raised"),
        (9999, 3600, "9999 was cut"),
        (3600.0000001, 3600, "3600.0000001 was cut"),
        (1_000_001, 3600, "1000001 was cut"),
        (1e300, 3600, "a number too large was cut"),
    ):
        with row(asked):
            result = await tool_of(env)({"command": "exit 0", "timeout": asked})
            assert result.details.timeout == got
            assert result.details.requested_timeout == asked
            assert f"timeout is in seconds: {said} to {got:g}." in result.message


async def test_a_number_that_no_float_can_hold_is_a_number(env: Environment) -> None:
    for sign, digits, got in ((1, 400, 3600), (-1, 400, 0.1), (1, 5000, 3600)):
        with row((sign, digits)):
            result = await tool_of(env)({"command": "true", "timeout": sign * 10**digits})
            assert result.details.timeout == got
            assert "timeout is in seconds: a number too large was" in result.message
            assert ShellResult.model_validate_json(result.model_dump_json()) == result


async def test_a_timeout_beyond_the_limits_is_refused_if_so_configured(env: Environment) -> None:
    for asked in (0.01, 9999):
        with row(asked):
            result = await tool_of(env, beyond="refuse")({"command": "true", "timeout": asked})
            assert result.details.status == "invalid"
            assert f"timeout is {asked:g} s: it must be from 0.1 to 3600 s" in result.message


async def test_a_missing_directory_is_a_result(env: Environment) -> None:
    result = await tool_of(env)({"command": "true", "cwd": "no-such-directory"})
    assert result.is_error
    assert result.details.status == "failed"
    assert not result.details.started
    assert "no-such-directory" in result.message
    assert result.text == f"[anyshell] {result.message}"


async def test_a_shell_that_cannot_be_started_is_a_result() -> None:
    backend = FakeBackend({"ls": Script(error="No such file or directory")})
    async with Environment.detect(backend) as env:
        result = await tool_of(env)({"command": "ls"})
    assert result.details.status == "failed"
    assert result.message.startswith("Nothing ran: cannot start /bin/")


@pytest.mark.parametrize(
    "limits",
    [
        {"default_timeout": 0},
        {"default_timeout": 4000},
        {"min_timeout": 200},
        {"max_timeout": float("inf")},
        {"grace": -1},
        {"beyond": "ignore"},
        {"update_bytes": 0},
        {"approval_timeout": 0},
        {"max_env": True},
    ],
)
def test_limits_that_make_no_sense_are_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(limits))}"):
        ToolLimits(**limits)


# Approval.


async def test_refusal_has_the_words_of_the_user(env: Environment, tmp_path: Path) -> None:
    result = await tool_of(env, Recorder(Refused("not on\na Friday")))({"command": "touch ran"})
    assert result.is_error
    assert result.details.status == "refused"
    assert result.message == "Not run. The user says: not on a Friday."
    assert result.text == f"[anyshell] {result.message}"
    assert not (tmp_path / "ran").exists()


async def test_an_approver_is_required(env: Environment) -> None:
    with pytest.raises(TypeError):
        ShellTool(env)  # type: ignore[call-arg]  # bad input is the point


async def raising(request: ApprovalRequest) -> Approved:
    raise RuntimeError("hunter2")


async def hanging(request: ApprovalRequest) -> Approved:
    await asyncio.Event().wait()
    return Approved()


async def nonsense(request: ApprovalRequest) -> Approved:
    return True  # type: ignore[return-value]  # bad input is the point


def synchronous(request: ApprovalRequest) -> Approved:
    raise RuntimeError("hunter2")


async def without_reason(request: ApprovalRequest) -> Refused:
    return Refused(reason=None)  # type: ignore[arg-type]  # bad input is the point


@pytest.mark.parametrize("approver", [raising, hanging, nonsense, synchronous, deny_all, without_reason])
async def test_no_answer_is_a_refusal(approver: Approver, env: Environment, tmp_path: Path) -> None:
    result = await tool_of(env, approver, approval_timeout=0.1)({"command": "touch ran"})
    assert result.details.status == "refused"
    assert "hunter2" not in result.model_dump_json()
    assert not (tmp_path / "ran").exists()


async def test_the_approver_sees_everything_that_decides(env: Environment, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    approver = Recorder(Refused())
    await tool_of(env, approver)(
        {
            "command": "make",
            "cwd": "sub",
            "env": {"B": "2", "A": "1"},
            "stdin": "y",
            "description": "Build it",
        }
    )
    request = approver.of(CommandRequest)[0]
    assert request.text == "make"
    assert request.shell == env.shell
    assert request.host == env.host
    assert request.directory == f"{tmp_path}/sub"
    assert request.env == (("A", "1"), ("B", "2"))
    assert request.stdin == b"y"
    assert request.timeout == 120
    assert request.original is None
    assert request.description == "Build it"
    for shown in (
        "make",
        f"{tmp_path}/sub",
        "Timeout: 120 s",
        "A=1",
        "B=2",
        "| y",
        "Build it",
        env.shell.path,
        env.host,
    ):
        assert shown in request.display


async def test_leading_cd_is_shown_as_the_directory(env: Environment, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    approver = Recorder()
    result = await tool_of(env, approver)({"command": "cd sub && pwd"})
    request = approver.of(CommandRequest)[0]
    assert (request.text, request.original, request.directory) == ("pwd", "cd sub && pwd", f"{tmp_path}/sub")
    assert "  | pwd\n" in request.display
    assert "  | cd sub && pwd\n" in request.display
    assert request.env == (("OLDPWD", str(tmp_path)),)
    assert f"  | OLDPWD={tmp_path}" in request.display
    assert result.output == f"{tmp_path}/sub\n"


async def test_script_after_a_leading_cd_can_return(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLDPWD", "/usr")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "back").write_text("cd - >&2; pwd\n")
    async with Environment.detect(cwd=tmp_path) as env:
        approver = Recorder()
        for command in ("cd sub && sh ./back", "cd sub && . ./back", "cd sub && 'cd' - >&2 && pwd"):
            result = await tool_of(env, approver)({"command": command})
            assert result.output.splitlines()[-1] == str(tmp_path), command
            assert approver.of(CommandRequest)[-1].original == command
        assert (await env.run("echo ${OLDPWD-unset}; cd -")).output.text.startswith("unset\n")


async def test_no_leading_cd_is_taken_off_for_zsh(tmp_path: Path) -> None:
    if not shutil.which("zsh"):
        missing("zsh", "apt-get install zsh, or brew install zsh")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "back").write_text("cd - >&2; pwd\n")
    async with Environment.detect(cwd=tmp_path, shell="zsh") as env:
        approver = Recorder()
        result = await tool_of(env, approver)({"command": "cd sub && sh ./back"})
    assert approver.of(CommandRequest)[0].original is None
    assert result.output.splitlines()[-1] == str(tmp_path)


async def test_leading_cd_to_home_is_left_to_the_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Environment.detect(cwd=tmp_path) as env:
        (tmp_path / "x").mkdir()
        monkeypatch.setenv("HOME", str(tmp_path))
        result = await tool_of(env)({"command": "cd ~/x && pwd"})
    assert result.output == f"{tmp_path}/x\n"


async def test_leading_cd_to_an_inaccessible_directory_is_left_to_the_shell() -> None:
    class Locked(FakeFiles):
        async def stat(self, path: str, *, follow: bool = True) -> FileStat:
            if path.startswith("/project/locked/"):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
            return await super().stat(path, follow=follow)

    files = Locked(directories=["/project/locked", "/project/open"])
    approver = Recorder()
    async with Environment.detect(FakeBackend(lambda _: Script(), files=files)) as env:
        for command in ("cd locked && ls", "cd open && ls"):
            await tool_of(env, approver)({"command": command})
    assert [request.text for request in approver.requests] == ["cd locked && ls", "ls"]


def test_inaccessible_real_directory_is_left_to_the_shell(tmp_path: Path) -> None:
    script = textwrap.dedent(
        """
        import asyncio, os, sys, tempfile, anyshell

        async def call(directory):
            async with anyshell.Environment.detect(cwd=directory) as env:
                tool = anyshell.ShellTool(env, approver=anyshell.approve_all)
                return (await tool({"command": "cd locked && pwd"})).details

        with tempfile.TemporaryDirectory() as directory:
            locked = os.path.join(directory, "locked")
            os.mkdir(locked)
            os.chmod(directory, 0o755)
            assert asyncio.run(call(directory)).exit_code == 0  # everything is loaded now
            os.chmod(locked, 0o600)
            if os.geteuid() == 0:  # who may enter every directory
                pid = os.fork()
                if pid:
                    sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
                os.setgid(65534); os.setuid(65534)
            details = asyncio.run(call(directory))
            print(details.status, details.exit_code, flush=True)
            os._exit(0)
        """
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path)
    assert result.stdout == "exited 1\n", result.stderr


async def test_leading_cd_to_a_missing_directory_is_left_to_the_shell(env: Environment) -> None:
    approver = Recorder()
    result = await tool_of(env, approver)({"command": "cd nowhere && pwd"})
    assert approver.requests[0].text == "cd nowhere && pwd"
    assert result.details.exit_code == 1


async def test_a_display_cannot_be_spoofed(env: Environment) -> None:
    approver = Recorder(Refused())
    hidden = "echo \u202etxt.exe\x1b[2K\r\nDirectory: /safe"
    await tool_of(env, approver)({"command": hidden, "description": "x\nHost: safe"})
    shown = approver.requests[0].display
    assert not set(shown) & set("\u202e\x1b\r")
    assert "\nDirectory: /safe" not in shown
    assert "\nHost: safe" not in shown


async def test_always_means_an_identical_request(env: Environment, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    approver = Recorder(Approved(always=True))
    tool = tool_of(env, approver)
    first = {"command": "cat", "env": {"A": "1"}, "stdin": "x", "cwd": "."}
    for params in (first, {**first, "description": "another label"}, {**first, "timeout": 120}):
        assert (await tool(params)).output == "x"
    assert len(approver.requests) == 1
    others: tuple[dict[str, Any], ...] = (
        {"stdin": "y"},
        {"stdin": None},
        {"env": {"A": "2"}},
        {"env": {}},
        {"cwd": "sub"},
        {"command": "cat "},
        {"timeout": 60},
    )
    for other in others:
        asked = len(approver.requests)
        await tool({**first, **other})
        assert len(approver.requests) == asked + 1, other


@pytest.mark.parametrize("always", ["no", 1, None])
async def test_only_true_counts_as_always(always: Any, env: Environment) -> None:
    approver = Recorder(Approved(always=always))
    tool = tool_of(env, approver)
    for _ in range(2):
        assert (await tool({"command": "true"})).details.exit_code == 0
    assert len(approver.requests) == 2


BASH = ShellInfo("bash", "/b")
COMMAND = CommandRequest(text="x", shell=BASH, host="h", directory="/")
JOB_INPUT = JobInputRequest(text="x", shell=BASH, host="h", directory="/", job="j1", stdin=b"x")
TYPED = TerminalInputRequest(text="x", shell=BASH, host="h", directory="/", terminal="t1")
SECRET = SecretInputRequest(text="x", shell=BASH, host="h", directory="/", terminal="t1")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"text": "ab", "stdin": b"c"}, {"text": "a", "stdin": b"bc"}),
        ({"text": "x', '/b"}, {"text": "x", "directory": "/b"}),
        ({"env": (("A", "B"),)}, {"env": (("AB", ""),)}),
        ({"env": (("A", "1"), ("B", "2"))}, {"env": (("A", "1"),)}),
        ({"stdin": None}, {"stdin": b""}),
        ({"stdin": b"None"}, {"stdin": None}),
        ({"timeout": 1.0}, {"timeout": None}),
        ({"original": "x"}, {"original": None}),
        ({"session": True}, {}),
        ({"session": True, "fresh": True}, {"session": True}),
        ({"session": True, "fresh": True, "restart": True}, {"session": True, "fresh": True}),
        ({"background": True}, {}),
        ({"size": Terminal()}, {}),
        ({"size": Terminal()}, {"size": Terminal(rows=25)}),
        ({"shell": ShellInfo("bash", "/b", "5")}, {}),
        ({"text": "\udc80"}, {"text": "\ufffd"}),
    ],
)
def test_only_equal_commands_share_a_key(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert key_of(replace(COMMAND, **one)) == key_of(
        replace(COMMAND, **one, description="x", display="y", call_id="z")
    )
    assert key_of(replace(COMMAND, **one)) != key_of(replace(COMMAND, **other))


@pytest.mark.parametrize("one", [COMMAND, JOB_INPUT])
def test_key_has_every_compared_field(one: CommandRequest | JobInputRequest) -> None:
    for field in fields(one):
        changed: dict[str, Any] = {field.name: "another"}
        other = replace(one, **changed)
        assert (key_of(other) == key_of(one)) is (other == one), field.name


def test_input_of_a_terminal_shares_a_key_apart_from_secrets() -> None:
    assert key_of(TYPED) == key_of(replace(TYPED, typed="y", keys=("Enter",), program="cat", prompt="? "))
    assert key_of(SECRET) == key_of(replace(SECRET, program="cat", prompt="? "))
    keys = {key_of(each) for each in (TYPED, SECRET, replace(TYPED, terminal="t2"), JOB_INPUT, COMMAND)}
    assert len(keys) == 5


async def test_always_is_remembered_by_one_tool_alone(env: Environment) -> None:
    approver = Recorder(Approved(always=True))
    for _ in range(2):
        await tool_of(env, approver)({"command": "true"})
    assert len(approver.requests) == 2


async def test_approval_for_once_is_asked_again(env: Environment) -> None:
    approver = Recorder(Approved())
    tool = tool_of(env, approver)
    for _ in range(2):
        await tool({"command": "true"})
    assert len(approver.requests) == 2


async def test_remembered_approvals_are_bounded(env: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anyshell.tool.approvals.REMEMBERED", 2)
    approver = Recorder(Approved(always=True))
    tool = tool_of(env, approver)
    for command in ("exit 1", "exit 2", "exit 1", "exit 3", "exit 1", "exit 2"):
        await tool({"command": command})
    assert [request.text for request in approver.requests] == ["exit 1", "exit 2", "exit 3", "exit 2"]


async def test_hang_guards_override_variables_of_a_model(env: Environment) -> None:
    approver = Recorder()
    result = await tool_of(env, approver)(
        {
            "command": "echo $GIT_EDITOR $PAGER $TERM $A",
            "env": {"GIT_EDITOR": "vi", "PAGER": "less", "GPG_TTY": "/dev/tty", "TERM": "xterm", "A": "1"},
        }
    )
    assert "GIT_EDITOR" in HANG_GUARDS
    assert result.output == "true cat xterm 1\n"
    assert "Not set: GIT_EDITOR, GPG_TTY, PAGER." in result.message
    assert approver.of(CommandRequest)[0].env == (("A", "1"), ("TERM", "xterm"))


async def test_model_sets_any_variable_without_guards(tmp_path: Path) -> None:
    async with Environment.detect(cwd=tmp_path, interactive=True) as env:
        result = await tool_of(env)({"command": "echo $PAGER", "env": {"PAGER": "less"}})
    assert result.output == "less\n"
    assert result.message == "Exit code 0."


# Much output.


async def test_truncated_output_names_the_whole_output(tmp_path: Path) -> None:
    async with Environment.detect(cwd=tmp_path, limits=OutputLimits(head=100, tail=100)) as env:
        result = await tool_of(env)({"command": "seq 1 1000"})
        details = result.details
        assert details.truncation is not None
        assert details.truncation.total_bytes == 3893
        assert details.truncation.total_lines == 1000
        assert 0 < details.truncation.shown_bytes <= 200
        assert details.artifact is not None
        assert details.artifact.path in result.message
        whole = await tool_of(env)({"command": f"wc -l <{details.artifact.path}"})
        assert whole.output.strip() == "1000"


async def test_unkept_output_is_reported(tmp_path: Path) -> None:
    async with Environment.detect(cwd=tmp_path, limits=OutputLimits(head=10, tail=10), artifacts=None) as env:
        result = await tool_of(env)({"command": "seq 1 1000"})
    assert result.details.artifact is None
    assert "The rest was not kept" in result.message


async def test_artifact_unreadable_for_commands_is_not_offered_as_a_file() -> None:
    backend = FakeBackend({"ls": Script(stdout=[b"line\n" * 100])})
    async with Environment.detect(backend, limits=OutputLimits(head=10, tail=10)) as env:
        result = await tool_of(env)({"command": "ls"})
    assert result.details.artifact is not None
    assert result.details.artifact.path not in result.message
    assert result.details.artifact.path not in result.text
    assert f"Whole output: cat 'artifact://{result.details.artifact.id}?grep=REGEX'" in result.message
    assert f"kept as artifact {result.details.artifact.id} ...]" in result.output


async def test_nul_redirects_for_bash_on_windows_are_changed_before_approval() -> None:
    approver = Recorder()
    bash = ShellInfo("bash", r"C:\Program Files\Git\bin\bash.exe", "5.2")
    info = replace(FAKE_HOST, os="windows", directory=r"C:\src", home=r"C:\src", shell=bash)
    ran: list[str] = []

    def script(spawn: Spawn) -> Script:
        ran.append(spawn.argv[-2].strip())
        assert not {"SHELL", "PWD"} & spawn.settings.keys()
        return Script()

    async with Environment.detect(FakeBackend(script, info=info)) as env:
        tool = tool_of(env, approver)
        changed = await tool({"command": "make >nul 2>NUL"})
        same = await tool({"command": "make >/dev/null"})
        elsewhere = replace(info, shell=ShellInfo("pwsh", r"C:\ps7\pwsh.exe", "7.6"))
    asked = approver.of(CommandRequest)
    assert (asked[0].text, asked[0].original) == ("make >/dev/null 2>/dev/null", "make >nul 2>NUL")
    assert asked[1].original is None
    assert ran == [asked[0].text, asked[1].text]
    assert words.TRANSLATED in changed.message
    assert words.TRANSLATED not in same.message
    async with Environment.detect(FakeBackend(lambda _: Script(), info=elsewhere)) as env:
        await tool_of(env, approver)({"command": "make >nul"})
    last = approver.of(CommandRequest)[2]
    assert (last.text, last.original) == ("make >nul", None)


async def test_the_description_says_where_the_rest_of_an_output_is(tmp_path: Path) -> None:
    async with Environment.detect(cwd=tmp_path) as env:
        assert "search that, do not rerun" in ShellTool(env, approver=deny_all).definition.description
    async with Environment.detect(cwd=tmp_path, artifacts=None) as env:
        assert "is lost" in ShellTool(env, approver=deny_all).definition.description
        assert "is lost" in env.description
    async with Environment.detect(FakeBackend({})) as env:
        assert "cat 'artifact://ID?lines=1-200'" in ShellTool(env, approver=deny_all).definition.description


# Updates.


async def test_updates_show_the_end_of_the_output_so_far(env: Environment) -> None:
    updates: list[str] = []

    def on_update(text: str) -> None:
        updates.append(text)
        if text == "one\n":
            Path(env.directory, "go").touch()

    command = "echo one; until [ -e go ]; do sleep 0.01; done; printf '\\033[1mtwo'"
    result = await tool_of(env, update_interval=0)({"command": command}, on_update=on_update)
    assert result.output == "one\ntwo"
    assert updates[0] == "one\n"


async def test_updates_are_bounded_in_size(env: Environment) -> None:
    updates: list[str] = []
    tool = tool_of(env, update_bytes=100, update_interval=0)
    await tool({"command": "for i in $(seq 300); do echo ääääää$i; done"}, on_update=updates.append)
    assert updates
    assert all(len(text.encode()) <= 100 for text in updates)


async def test_updates_are_spaced(env: Environment) -> None:
    """With a minute between two updates, output in many pieces gives one."""
    updates: list[str] = []

    async def on_update(text: str) -> None:
        updates.append(text)

    result = await tool_of(env, update_interval=60)(
        {"command": "for i in 1 2 3 4 5; do echo $i; sleep 0.01; done"}, on_update=on_update
    )
    assert result.output == "1\n2\n3\n4\n5\n"
    assert len(updates) == 1


async def test_an_update_that_raises_is_the_last(env: Environment) -> None:
    calls: list[str] = []

    def on_update(text: str) -> None:
        calls.append(text)
        raise ZeroDivisionError

    result = await tool_of(env, update_interval=0)(
        {"command": "for i in 1 2 3; do echo $i; sleep 0.01; done"}, on_update=on_update
    )
    assert result.output == "1\n2\n3\n"
    assert not result.is_error
    assert len(calls) == 1
    assert result.details.update_error == "ZeroDivisionError"
    assert "ZeroDivisionError" in result.display[-1].text
    assert "ZeroDivisionError" not in result.text


async def test_blocked_update_delays_nothing(env: Environment) -> None:
    async def on_update(text: str) -> None:
        await asyncio.Event().wait()

    result = await tool_of(env)({"command": "yes | head -c 10000000 | tail -n 1"}, on_update=on_update)
    assert result.output == "y\n"


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError])
async def test_exception_of_an_update_does_not_stop_the_command(
    error: type[BaseException], env: Environment
) -> None:
    calls: list[str] = []

    async def on_update(text: str) -> None:
        calls.append(text)
        raise error

    result = await tool_of(env, update_interval=0)(
        {"command": "for i in 1 2 3; do echo $i; sleep 0.01; done"}, on_update=on_update
    )
    assert result.output == "1\n2\n3\n"
    assert len(calls) == 1
    assert result.details.update_error == error.__name__


async def test_update_that_swallows_its_cancellation_is_the_last() -> None:
    calls: list[str] = []
    called, swallowed = asyncio.Event(), asyncio.Event()

    async def on_update(text: str) -> None:
        calls.append(text)
        called.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            swallowed.set()

    before = asyncio.all_tasks()
    async with Updates(on_update, call_id="1", interval=0, limit=100, hide=str) as updates:
        updates.feed(b"one")
        await called.wait()
        updates.feed(b"two")
    assert swallowed.is_set()
    assert asyncio.all_tasks() == before
    assert calls == ["one"]
    assert updates.error is None


async def test_environment_that_was_not_entered_gives_no_updates(tmp_path: Path) -> None:
    updates: list[str] = []
    env = await Environment.detect(cwd=tmp_path)
    result = await tool_of(env)({"command": "echo x"}, on_update=updates.append)
    assert result.output == "x\n"
    assert updates == []


async def test_a_failure_to_start_is_a_result_with_updates_too(env: Environment) -> None:
    result = await tool_of(env)({"command": "true", "cwd": "nowhere"}, on_update=lambda _: None)
    assert result.details.status == "failed"


# Texts for a model.


async def test_the_definition() -> None:
    async with Environment.detect(FakeBackend({})) as env:
        definition = ShellTool(env, approver=deny_all).definition
        assert definition.name == "shell"
        assert definition.description == env.description
        matches_snapshot("tool_definition.json", json.dumps(definition.parameters, indent=2) + "\n")
        other = tool_of(env, default_timeout=5, min_timeout=0.5, max_timeout=7.5).definition
        assert other.parameters["properties"]["timeout"] | {"description": ""} == {
            "type": "number",
            "description": "",
            "default": 5,
            "minimum": 0.5,
            "maximum": 7.5,
        }
        assert "7.5" in other.description


async def test_the_definition_of_an_interactive_environment_promises_no_guards() -> None:
    async with Environment.detect(FakeBackend({}), interactive=True) as env:
        definition = ShellTool(env, approver=deny_all).definition
    assert "cannot be set" not in definition.parameters["properties"]["env"]["description"]


async def test_the_definition_in_every_format() -> None:
    async with Environment.detect(FakeBackend({})) as env:
        definition = ShellTool(env, approver=deny_all).definition
    openai, anthropic, mcp = (definition.as_format(name) for name in ("openai", "anthropic", "mcp"))
    assert openai["type"] == "function"
    assert openai["function"] == {
        "name": "shell",
        "description": definition.description,
        "parameters": definition.parameters,
    }
    assert anthropic == {
        "name": "shell",
        "description": definition.description,
        "input_schema": definition.parameters,
    }
    assert mcp["inputSchema"] == definition.parameters
    responses = definition.as_format("responses")
    assert responses == {"type": "function", **openai["function"], "strict": False}
    with pytest.raises(ValueError, match="openai"):
        definition.as_format("yaml")  # type: ignore[arg-type]  # bad input is the point


def replace_key(*, changed: bool) -> HostKeyUntrusted:
    return HostKeyUntrusted(
        "THE HOST KEY OF web-1 HAS CHANGED: ssh-keygen -R web-1",
        host="web-1",
        key_type="ssh-ed25519",
        fingerprint="SHA256:x",
        line="web-1 ssh-ed25519 x",
        known_hosts="/home/dev/.ssh/known_hosts",
        changed=changed,
    )


KEY_CHANGED = replace_key(changed=True)
ARTIFACT = Artifact("20250101-x", PurePosixPath("/state/20250101-x.out"), 5_000_000)  # type: ignore[arg-type]  # a path that reads the same on every system
CAPPED = Artifact(ARTIFACT.id, ARTIFACT.path, ARTIFACT.size, omitted_bytes=1_000)
SLEEP = ProcessInfo(12, "sleep", 1.0)
PRINTED = Output(text="x\n", total_bytes=2, total_lines=1)
MUCH: dict[str, Any] = {
    "total_bytes": 5_000_000,
    "omitted_bytes": 4_950_000,
    "total_lines": 90_000,
    "omitted_lines": 89_000,
}

ENDINGS = {
    "exit code 0": Outcome(status="exited", exit_code=0),
    "exit code 1, printed": Outcome(status="exited", exit_code=1, output=PRINTED),
    "exit code 1, silent": Outcome(status="exited", exit_code=1),
    "exit code 2, silent": Outcome(status="exited", exit_code=2),
    "exit code 126": Outcome(status="exited", exit_code=126),
    "exit code 127": Outcome(status="exited", exit_code=127),
    "exit code 139": Outcome(status="exited", exit_code=139),
    "exit code 124": Outcome(status="exited", exit_code=124, output=PRINTED),
    "exit code 126, printed": Outcome(status="exited", exit_code=126, output=PRINTED),
    "exit code 130": Outcome(status="exited", exit_code=130),
    "exit code 137": Outcome(status="exited", exit_code=137),
    "exit code 141": Outcome(status="exited", exit_code=141),
    "exit code 200": Outcome(status="exited", exit_code=200, output=PRINTED),
    "SIGKILL": Outcome(status="exited", signal="SIGKILL"),
    "SIGSEGV": Outcome(status="exited", signal="SIGSEGV"),
    "SIGTERM": Outcome(status="exited", signal="SIGTERM"),
    "SIGPIPE": Outcome(status="exited", signal="SIGPIPE"),
    "a real-time signal": Outcome(status="exited", signal="SIGRTMIN+3"),
    "an unknown signal": Outcome(status="exited", signal="SIGNONE"),
    "unknown": Outcome(status="exited"),
    "cancelled": Outcome(status="cancelled"),
    "lost": Outcome(status="lost"),
    "lost, perhaps before it began": Outcome(status="lost", started=None),
    "not started in time": Outcome(status="timed_out", started=False),
    "timed out": Outcome(status="timed_out", signal="SIGTERM"),
    "cancelled, unasked": Outcome(status="cancelled", killed_without_warning=True),
    "timed out, unasked": Outcome(status="timed_out", killed_without_warning=True),
    "running": Outcome(status="running", duration=20.04, job="j3"),
}


def session_said(*, now: str = "/src", stopped: bool = False, **report: Any) -> str:
    said = words.session(SessionReport(**report), before="/src", now=now, stopped=stopped)
    return "\n".join(said)


def way(**facts: Any) -> words.RunFacts:
    return words.RunFacts(**{"timeout": 30, "limits": ToolLimits(), "os": "linux", "host": "web-1", **facts})


ASKS = Outcome(status="timed_out", output=Output(text="Proceed? [y/N]", total_bytes=14))
MAKE = ProcessInfo(5, "make", 1.0)


def truncated(output: Output, **way: bool) -> str:
    return words.truncated(output, words.whole(output, **way), max_line=2000)


NOTICES: dict[str, Callable[[], str]] = {
    "timed out at the limit": lambda: words.ending(ENDINGS["timed out"], way(timeout=3600)),
    "timed out, with all that helps": lambda: words.ending(
        ENDINGS["timed out"], way(jobs=True, terminals=True)
    ),
    "timed out, with a question": lambda: words.ending(ASKS, way(terminals=True)),
    "timed out on a terminal": lambda: words.ending(
        ENDINGS["timed out"], way(terminals=True, on_terminal=True)
    ),
    "silent": lambda: words.ending(replace(ENDINGS["timed out"], silence=20.0), way()),
    "long": lambda: words.ending(replace(ENDINGS["exit code 1, silent"], duration=12.34), way()),
    "lost, and stopped": lambda: words.ending(
        replace(ENDINGS["lost"], duration=1.2, left_behind=(MAKE.ended(),)), way()
    ),
    "lost, in part": lambda: words.ending(replace(ENDINGS["lost"], left_behind=(MAKE.ended(), SLEEP)), way()),
    **{
        f"{name}, of a command with timeout": lambda name=name: words.ending(  # type: ignore[misc]  # a default binds the loop's variable
            ENDINGS[name], way(command="timeout 3 make")
        )
        for name in ("exit code 124", "exit code 137", "SIGKILL")
    },
    "exit code 1, on Windows": lambda: words.ending(ENDINGS["exit code 1, printed"], way(os="windows")),
    "a crash on Windows": lambda: words.ending(
        Outcome(status="exited", exit_code=0xC000_0005), way(os="windows")
    ),
    "clamped": lambda: words.clamped(9999, 3600),
    "raised": lambda: words.clamped(0.1, 1),
    "guarded": lambda: words.guarded(["EDITOR", "PAGER"]),
    "truncated": lambda: truncated(Output(artifact=ARTIFACT, **MUCH), readable=True),
    "truncated, elsewhere": lambda: truncated(Output(artifact=ARTIFACT, **MUCH), readable=False),
    "truncated, by address": lambda: truncated(
        Output(artifact=ARTIFACT, **MUCH), readable=False, addressed=True
    ),
    "truncated, for the job tool": lambda: truncated(
        Output(artifact=ARTIFACT, head_range=(1, 4000), tail_range=(89_000, 90_000), **MUCH),
        readable=False,
        job_tool=True,
    ),
    "truncated in the middle": lambda: truncated(
        Output(artifact=ARTIFACT, head_range=(1, 4000), tail_range=(89_000, 90_000), **MUCH),
        readable=True,
    ),
    "truncated before": lambda: truncated(
        Output(artifact=ARTIFACT, tail_range=(89_000, 90_000), **MUCH), readable=True
    ),
    "truncated after": lambda: truncated(
        Output(artifact=ARTIFACT, head_range=(1, 4000), **MUCH), readable=True
    ),
    "truncated, capped": lambda: truncated(Output(artifact=CAPPED, **MUCH), readable=True),
    "truncated, not kept": lambda: truncated(Output(**MUCH), readable=False),
    "truncated, disk full": lambda: truncated(
        Output(artifact_error="No space left on device", **MUCH), readable=False
    ),
    "one line cut": lambda: truncated(Output(artifact=ARTIFACT, cut_lines=1, **MUCH), readable=True),
    "lines cut": lambda: truncated(Output(artifact=ARTIFACT, cut_lines=1234, **MUCH), readable=True),
    "left behind": lambda: "\n".join(words.left_behind([SLEEP.ended(), ProcessInfo(13, "evil\x1b\n", 1.0)])),
    "many left behind": lambda: "\n".join(words.left_behind([SLEEP.ended()] * 1010)),
    "left behind, now a job": lambda: "\n".join(words.left_behind([SLEEP], "j2")),
    "the shell ended": lambda: session_said(state="ended"),
    "the shell was lost": lambda: session_said(state="lost"),
    "the shell was stopped": lambda: session_said(state="lost", stopped=True),
    "the shell was kept": lambda: session_said(stopped=True),
    "the shell is elsewhere": lambda: session_said(now="/tmp/a\nb"),
    "restarted": lambda: words.restarted("/src"),
    "the shell was gone": lambda: words.gone("/src"),
    "refused": lambda: words.refused(Refused("use pnpm, not npm.")),
    "refused loudly": lambda: words.refused(Refused("do not delete!")),
    "refused to send": lambda: words.refused(Refused("too dangerous."), "sent"),
    "refused without a reason": lambda: words.refused(Refused()),
    "refused by a policy": lambda: words.refused(Refused("no network here", by="policy")),
    "refused by a policy without a reason": lambda: words.refused(Refused(by="policy")),
    "nobody answered": lambda: words.refused(Refused("no answer within 600 s", by="unanswered")),
    "the approver failed": lambda: words.refused(Refused("the approver failed (KeyError)", by="failure")),
    "invalid": lambda: words.invalid("command is blank: say what to run."),
    "failed": lambda: words.failed("cwd '/nope' does not exist"),
    "no connection": lambda: words.failed(ConnectionFailed("web-1 does not answer at port 22")),
    "too many jobs": lambda: words.failed(AnyshellError("64 jobs run already: stop one")),
    "the host key has changed": lambda: words.failed(KEY_CHANGED),
    "the host key is unknown": lambda: words.undone(replace_key(changed=False)),
    "awaited": lambda: words.awaited("Listening", found=True, waited=1),
    "awaited, and printed before": lambda: words.awaited("Listening", found=False, waited=30, before=True),
    "awaited in vain": lambda: words.awaited("Listening", found=False, waited=30),
    "no end": lambda: words.awaited("end", found=False, waited=30),
    "waited less": lambda: "\n".join(words.waited_less(900, 300)),
    "binary": lambda: words.text(
        Output(text="\ufffd", total_bytes=142_144, binary="ELF program"), ["Exit code 0."]
    ),
}


def test_messages_match_the_snapshot() -> None:
    said = {name: words.ending(outcome, way()) for name, outcome in ENDINGS.items()}
    said |= {name: make() for name, make in NOTICES.items()}
    assert all(text.isprintable() for text in "".join(said.values()).split("\n"))
    matches_snapshot("tool_messages.txt", "".join(f"{name}\n    {text}\n" for name, text in said.items()))


# A missing directory; the shown lines; the command.


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"run_in_background": True},
        {"pty": True},
        {"run_in_background": True, "pty": True},
        {"session": True},
    ],
    ids=str,
)
async def test_approver_is_not_asked_about_a_missing_directory(
    params: dict[str, Any], env: Environment, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    approver = Recorder()
    session = params.pop("session", False)
    tool = ShellTool(env, approver=approver, session=session, jobs=True, terminals=True)
    for cwd, why in (
        ("nowhere", "does not exist"),
        ("file", "is not a directory"),
        ("file/below", "cannot be used: "),
    ):
        result = await tool({"command": "true", "cwd": cwd, **params})
        assert (result.details.status, result.is_error) == ("failed", True)
        assert f"Nothing ran: cwd '{tmp_path}/{cwd}' {why}" in result.message
    assert approver.requests == []


async def test_command_runs_in_a_directory_that_cannot_be_checked() -> None:
    class Mute(FakeFiles):
        async def stat(self, path: str, *, follow: bool = True) -> FileStat:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    class Willing(FakeBackend):
        async def spawn(self, spawn: Spawn) -> Any:
            self.files = FakeFiles(directories=["/project", "/secret"])
            return await super().spawn(spawn)

    approver = Recorder()
    env = await Environment.detect(Willing(lambda _: Script(), files=Mute()))
    result = await tool_of(env, approver)({"command": "true", "cwd": "/secret"})
    assert not result.is_error
    assert len(approver.requests) == 1


async def test_details_have_the_exact_command(env: Environment) -> None:
    tool = tool_of(env)
    assert (await tool({"command": "echo 'x\n'"})).details.command == "echo 'x\n'"
    assert (await tool_of(env, deny_all)({"command": "rm x"})).details.command == "rm x"
    assert (await tool({"code": 3})).details.command == ""


@pytest.mark.parametrize(
    ("head", "tail", "printf", "direction", "shown"),
    [
        # Lines of 10 bytes, 01 to 20.
        (25, 25, "seq -f '%09.0f' 20", "both", ((1, 3), (19, 20))),
        (20, 20, "seq -f '%09.0f' 20", "both", ((1, 2), (19, 20))),
        (0, 30, "seq -f '%09.0f' 20", "tail", ((18, 20),)),
        (30, 0, "seq -f '%09.0f' 20", "head", ((1, 3),)),
        (20, 20, "seq -f '%09.0f' 20 | tr -d '\\n'", "both", ((1, 1), (1, 1))),
        (20, 13, "seq -f '%09.0f' 20; printf end", "both", ((1, 2), (20, 21))),
        (0, 0, "seq -f '%09.0f' 20", None, ()),
    ],
)
async def test_truncation_says_which_lines_are_shown(
    head: int, tail: int, printf: str, direction: str | None, shown: Any, tmp_path: Path
) -> None:
    env = await Environment.detect(cwd=tmp_path, limits=OutputLimits(head=head, tail=tail))
    result = await tool_of(env)({"command": printf})
    truncation = result.details.truncation
    assert truncation is not None
    assert (truncation.direction, truncation.truncated_by) == (direction, "bytes")
    assert truncation.shown_range == shown, result.output


async def test_truncation_of_long_lines_alone_is_reported(tmp_path: Path) -> None:
    env = await Environment.detect(cwd=tmp_path, limits=OutputLimits(max_line=5))
    for end, lines in (("\n", 2), ("", 2)):
        result = await tool_of(env)({"command": f"printf 'short\n0123456789{end}'"})
        truncation = result.details.truncation
        assert truncation is not None
        assert (truncation.direction, truncation.truncated_by, truncation.shown_range) == (
            None,
            "line_length",
            ((1, lines),),
        )


async def test_output_cut_within_one_line_does_not_mention_zero_lines(tmp_path: Path) -> None:
    env = await Environment.detect(cwd=tmp_path, limits=OutputLimits(head=10, tail=10))
    result = await tool_of(env)({"command": "printf %0100d 7"})
    assert "Middle left out from line 1: 20 of 100 bytes shown. " in result.message
    assert "0 lines" not in result.message


async def test_description_mentions_confirmation_and_preferred_tools(anyio_backend: str) -> None:
    env = await Environment.detect()
    plain = ShellTool(env, approver=approve_all)
    told = ShellTool(env, approver=approve_all, confirmed=True, tools=["read", "edit"])
    assert "A person confirms" not in plain.definition.description
    assert "A person confirms every command" in told.definition.description
    assert "`read`, `edit`" in told.definition.description
    once = ShellTool(env, approver=approve_all, tools=iter(["read"]))  # type: ignore[arg-type]  # read twice, it has nothing
    assert "`read`" in once.definition.description
    for wrong in ("read", ["two words"], ["a\nb"], [""], [1], b"read", None, 7):
        with pytest.raises(AnyshellError, match="names of tools"):
            ShellTool(env, approver=approve_all, tools=wrong)  # type: ignore[arg-type]  # bad input is the point


async def test_an_openai_definition_can_be_strict(anyio_backend: str) -> None:
    definition = ShellTool(await Environment.detect(), approver=approve_all).definition
    function = definition.as_format("openai", strict=True)["function"]
    parameters = function["parameters"]
    assert function["strict"] is True
    assert parameters["required"] == list(parameters["properties"])
    assert parameters["additionalProperties"] is False
    assert parameters["properties"]["command"]["type"] == "string"
    for name, told in parameters["properties"].items():
        assert name == "command" or told["type"][-1] == "null"
        assert "additionalProperties" not in told
    assert "strict" not in definition.as_format("openai")["function"]
    assert definition.as_format("openai")["function"]["parameters"] == definition.parameters
    assert definition.as_format("responses", strict=True) == {"type": "function", **function}
    for other in ("anthropic", "mcp"):
        with pytest.raises(ValueError, match="openai"):
            definition.as_format(other, strict=True)


async def test_binary_output_is_one_line(env: Environment) -> None:
    printed = r"printf '\177ELF\001\002\003'; head -c 30000 /dev/zero"
    result = await tool_of(env)({"command": printed})
    assert result.text == (
        "[anyshell] Binary output not shown: ELF program, 30,007 bytes.\n[anyshell] Exit code 0."
    )
    assert (result.output, result.details.exit_code) == ("", 0)
    assert [(block.type, block.text) for block in result.display[1:]] == [
        ("notice", "Binary output not shown: ELF program, 30,007 bytes."),
        ("notice", "Exit code 0."),
    ]


async def test_text_beside_binary_output_of_a_failed_command_is_accessible(tmp_path: Path) -> None:
    async with Environment.detect(cwd=tmp_path) as env:
        printed = (
            r"printf '\177ELF\001\002\003'; head -c {} /dev/{}; printf '\n%s\n' 'the reason' >&2; exit 3"
        )
        short = await tool_of(env)({"command": printed.format(3000, "zero")})
        assert short.message == "Exit code 3. Last line: the reason"
        result = await tool_of(env)({"command": printed.format(200_000, "urandom")})
        assert result.details.artifact is not None
        path = result.details.artifact.path
        assert result.message == (
            f"Exit code 3. Last line: the reason Whole output: {path}. Search that; do not rerun."
        )
        assert (await env.run(f"tail -c 11 {path}")).output.text == "the reason\n"


async def test_a_caller_changes_the_words_of_the_description(anyio_backend: str) -> None:
    async with Environment.detect(FakeBackend({})) as env:
        tool = ShellTool(env, approver=approve_all)
        assert "## Git" in tool.definition.description
        without = ShellTool(env, approver=approve_all, advice={"programs"}).definition
        assert "## Git" not in without.description
        told = tool.describe(sections={"Git": "- Never push.", "House": "- Be kind.", "Calls": None})
        assert told.description.endswith("## Git\n- Never push.\n\n## House\n- Be kind.\n")
        assert "## Calls" not in told.description
        assert told.parameters == tool.definition.parameters
        assert told.as_format("mcp")["description"] == told.description
        for wrong in ({"python"}, "git", ["git", "x"]):
            with pytest.raises(AnyshellError, match="advice must be a set of git, programs"):
                ShellTool(env, approver=approve_all, advice=wrong)
