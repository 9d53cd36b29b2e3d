"""The tool with a session: one shell for all calls, and its reports to the model."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest

from anyshell import (
    AnyshellError,
    ApprovalRequest,
    Approved,
    Environment,
    Refused,
    ShellTool,
    ToolLimits,
    approve_all,
    deny_all,
)
from anyshell.testing import FakeBackend
from anyshell.tool import ShellParams
from anyshell.types import CommandRequest

from .processes import living, unique_seconds, wait_asleep
from .test_tool import Recorder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from anyshell.abc import Approver

pytestmark = pytest.mark.anyio


@pytest.fixture
async def here(tmp_path: Path, anyio_backend: str) -> AsyncIterator[Environment]:
    """This machine alone: the messages do not depend on the host, and sessions have tests of their own."""
    async with Environment.detect(cwd=tmp_path) as env:
        yield env


def session_of(env: Environment, approver: Approver = approve_all, **limits: Any) -> ShellTool:
    bounds = ToolLimits(**{"min_timeout": 0.1, "grace": 0.3, **limits})
    return ShellTool(env, approver=approver, limits=bounds, session=True)


async def test_calls_of_a_session_share_a_shell(env: Environment, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    tool = session_of(env)
    first = await tool({"command": "cd sub; A=1; f() { echo $A $B; }", "env": {"B": "2"}})
    assert first.message == f"Exit code 0. Now in {tmp_path}/sub."
    assert (first.details.session_state, first.details.directory) == ("kept", f"{tmp_path}/sub")
    second = await tool({"command": "f; pwd; cat", "stdin": "in\n"})
    assert second.output == f"1 2\n{tmp_path}/sub\nin\n"
    assert second.message == "Exit code 0."
    assert second.details.directory == f"{tmp_path}/sub"


async def test_a_cwd_moves_the_shell(here: Environment, tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    approver = Recorder()
    tool = session_of(here, approver)
    for cwd, directory in (("a", "a"), ("b", "a/b"), (None, "a/b"), ("..", "a/b/..")):
        await tool({"command": "pwd", "cwd": cwd})
        assert approver.requests[-1].directory == f"{tmp_path}/{directory}"
    result = await tool({"command": "pwd"})
    assert result.output == f"{tmp_path}/a\n"


async def test_invalid_cwd_does_not_move_the_shell(here: Environment, tmp_path: Path) -> None:
    tool = session_of(here)
    await tool({"command": "cd /; A=1"})
    result = await tool({"command": "pwd", "cwd": "no/such"})
    assert (result.details.status, result.details.directory) == ("failed", "/")
    assert (await tool({"command": "pwd; echo $A"})).output == "/\n1\n"


async def test_a_leading_cd_is_left_to_the_shell(here: Environment, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    approver = Recorder()
    tool = session_of(here, approver)
    await tool({"command": "cd sub && pwd"})
    assert approver.requests[0].text == "cd sub && pwd"
    assert approver.of(CommandRequest)[0].original is None
    assert (await tool({"command": "cd - >/dev/null && pwd"})).output == f"{tmp_path}\n"


async def test_approver_sees_the_session_and_its_directory(here: Environment) -> None:
    await here.files.mkdir("x")
    approver = Recorder()
    tool = session_of(here, approver)
    await tool({"command": "cd /usr"})
    await tool({"command": "true"})
    await tool({"command": "true", "restart": True, "cwd": "x"})
    before, after, restarted = approver.of(CommandRequest)
    assert (before.directory, after.directory) == (here.directory, "/usr")
    assert before.session
    assert (before.fresh, after.fresh, restarted.fresh) == (True, False, True)
    assert not before.restart
    assert "Directory: /usr\n" in after.display
    assert (
        "\nSession: with the variables, functions and aliases that earlier commands have set\n"
        in after.display
    )
    assert restarted.restart
    assert restarted.directory == f"{here.directory}/x"
    assert "\nSession: in a fresh shell; the one before is ended, with what it runs\n" in restarted.display


async def test_always_means_the_same_directory_of_a_session(here: Environment) -> None:
    approver = Recorder(Approved(always=True))
    tool = session_of(here, approver)
    asked = []
    for command in ("pwd", "pwd", "cd /", "pwd", "pwd"):
        await tool({"command": command})
        asked.append(len(approver.requests))
    assert asked == [1, 2, 3, 4, 4]  # the first request was for a fresh shell


async def test_command_is_asked_about_after_the_end_of_the_previous_command(here: Environment) -> None:
    """Otherwise the command would be approved for a directory that the previous command is about to leave."""
    approver = Recorder()
    tool = session_of(here, approver)
    first = asyncio.ensure_future(tool({"command": "until [ -e go ]; do sleep 0.01; done; cd /usr"}))
    while not approver.requests:
        await asyncio.sleep(0)
    second = asyncio.ensure_future(tool({"command": "pwd"}))
    (await here.run("touch go")).check()
    assert (await second).output == "/usr\n"
    assert first.done()
    assert [request.directory for request in approver.requests] == [here.directory, "/usr"]


@pytest.mark.parametrize("noticed", [True, False])
async def test_command_runs_in_the_approved_shell_alone(noticed: bool, here: Environment) -> None:
    async def kill(request: ApprovalRequest) -> Approved:
        assert tool._session is not None
        if request.text == "touch ran":
            os.kill(int(pid), 9)
            while noticed and tool._session.session.alive:
                await asyncio.sleep(0.01)
        return Approved()

    tool = session_of(here, kill)
    pid = (await tool({"command": "echo $$; cd /usr"})).output
    result = await tool({"command": "touch ran"})
    assert (result.is_error, result.details.directory) == (True, here.directory)
    if noticed:
        assert result.message.startswith(
            "Not run: the session's shell had ended, and its directory, variables and functions are gone."
        )
    assert (await tool({"command": "pwd"})).message == "Exit code 0."  # the end of the shell was reported
    assert not await here.files.exists("ran")


async def test_killed_shell_is_reported_before_the_approval(here: Environment) -> None:
    approver = Recorder()
    tool = session_of(here, approver)
    pid = (await tool({"command": "echo $$; BUILD=build"})).output
    os.kill(int(pid), 9)
    assert tool._session is not None
    while tool._session.session.alive:
        await asyncio.sleep(0.01)
    assert "Not run: the session's shell had ended" in (await tool({"command": "rm -r $BUILD/x"})).message
    assert len(approver.requests) == 1
    await tool({"command": "true"})
    assert approver.of(CommandRequest)[1].fresh
    assert "\nSession: in a fresh shell\n" in approver.requests[1].display


async def test_end_of_the_shell_is_reported_with_the_lost_state(here: Environment) -> None:
    tool = session_of(here)
    await tool({"command": "cd /; A=1"})
    ended = await tool({"command": "exit 3"})
    assert (ended.details.exit_code, ended.details.session_state) == (3, "ended")
    assert ended.details.directory == here.directory
    assert (
        "That ended the session's shell: its directory, variables and functions are gone. The next call starts fresh in "
        f"{here.directory}."
    ) in ended.message
    following = await tool({"command": "pwd; echo $A"})
    assert following.output == f"{here.directory}\n\n"
    assert following.message == "Exit code 0."  # the end of the shell was reported


@pytest.mark.parametrize("shell", ["bash", "sh"])
async def test_question_is_reported_despite_the_message_of_a_stopped_shell(
    shell: str, tmp_path: Path
) -> None:
    async with Environment.detect(cwd=tmp_path, shell=shell) as env:
        tool = session_of(env, grace=20)
        result = await tool({"command": "printf 'Sure? [y/N] '; sleep 300", "timeout": 3})
    assert result.output == "Sure? [y/N] Terminated\n"
    assert 'It likely waited at "Sure? [y/N]": use options or stdin.' in result.message


async def test_timeout_keeps_the_state_of_the_shell(here: Environment) -> None:
    seconds = unique_seconds()
    tool = session_of(here, grace=20)
    await tool({"command": "cd /; A=1"})
    result = await tool({"command": f"sleep {seconds}; A=2", "timeout": 0.3})
    assert (result.details.status, result.details.session_state) == ("timed_out", "kept")
    assert "The session's shell goes on." in result.message
    assert living(seconds) == []
    assert (await tool({"command": "pwd; echo $A"})).output == "/\n1\n"


async def test_shell_lost_by_a_stop_is_reported(here: Environment) -> None:
    tool = session_of(here)
    await tool({"command": "cd /"})
    result = await tool({"command": "trap '' VTALRM; while :; do :; done", "timeout": 0.3})
    assert result.details.status == "timed_out"
    assert result.details.session_state == "lost"
    assert (
        "The session's shell was stopped too: its directory, variables and functions are gone."
        in result.message
    )
    following = await tool({"command": "pwd"})
    assert following.output == f"{here.directory}\n"
    assert following.message == "Exit code 0."


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has names that are not UTF-8")
async def test_directory_of_any_name_is_reported_safely(here: Environment) -> None:
    approver = Recorder()
    tool = session_of(here, approver)
    moved = await tool({"command": 'd=$(printf \'a\\nb\\377\'); mkdir "$d"; cd "$d"'})
    assert moved.details.directory == f"{here.directory}/a\\x0ab\\udcff"
    assert json.loads(moved.model_dump_json())["details"]["directory"] == moved.details.directory
    assert moved.message.isprintable()
    assert (await tool({"command": "touch here; ls"})).output == "here\n"
    assert r"a\x0ab\udcff" in approver.requests[1].display


async def test_a_restart_needs_no_command(here: Environment) -> None:
    approver = Recorder()
    tool = session_of(here, approver)
    await tool({"command": "cd /; A=1"})
    for params in (
        {"restart": True},
        {"restart": True, "command": None},
        ShellParams(command="", restart=True),
    ):
        result = await tool(params)
        assert not result.is_error
        assert (result.details.status, result.details.directory) == ("restarted", here.directory)
        assert result.text == f"[anyshell] {result.message}"
        assert result.message.startswith(f"The next call starts fresh in {here.directory};")
    assert len(approver.requests) == 1
    assert (await tool({"command": "pwd; echo $A"})).output == f"{here.directory}\n\n"


async def test_a_restart_with_a_command_runs_it_in_the_fresh_shell(here: Environment) -> None:
    tool = session_of(here)
    await tool({"command": "cd /; A=1"})
    result = await tool({"command": "pwd; echo $A; A=2", "restart": True})
    assert result.output == f"{here.directory}\n\n"
    assert result.message == f"Exit code 0. Now in {here.directory}."
    assert (await tool({"command": "echo $A"})).output == "2\n"


async def test_restart_is_reported_even_if_its_command_cannot_run(here: Environment, tmp_path: Path) -> None:
    tool = session_of(here)
    await tool({"command": "cd /; A=1"})
    result = await tool({"command": "true", "restart": True, "env": {"ANYSHELL_STATUS": "1"}})
    assert result.details.status == "failed"
    assert f"The next call starts fresh in {tmp_path};" in result.message
    assert (await tool({"command": "pwd; echo $A"})).output == f"{tmp_path}\n\n"


async def test_missing_directory_restarts_nothing(here: Environment) -> None:
    tool = session_of(here)
    await tool({"command": "A=1"})
    result = await tool({"command": "true", "restart": True, "cwd": "no/such"})
    assert result.details.status == "failed"
    assert "starts fresh" not in result.message
    assert (await tool({"command": "echo $A"})).output == "1\n"


async def test_a_refusal_restarts_nothing(here: Environment) -> None:
    async def approver(request: ApprovalRequest) -> Approved | Refused:
        return Refused() if isinstance(request, CommandRequest) and request.restart else Approved()

    tool = session_of(here, approver)
    await tool({"command": "A=1"})
    assert (await tool({"command": "true", "restart": True})).details.status == "refused"
    assert (await tool({"command": "echo $A"})).output == "1\n"


async def test_process_left_behind_in_a_session_is_stopped(here: Environment) -> None:
    seconds = unique_seconds()
    result = await session_of(here)({"command": f"sleep {seconds} & cd /"})
    assert [process.alive for process in result.details.left_behind] == [False]
    assert living(seconds) == []
    assert result.details.directory == "/"


async def test_updates_come_from_a_session_too(env: Environment) -> None:
    updates: list[str] = []
    tool = session_of(env, update_interval=0)
    command = "echo one; until [ -e go ]; do sleep 0.01; done; printf '\\033[1mtwo'"

    async def on_update(text: str) -> None:
        updates.append(text)
        if text == "one\n":
            await env.files.write_text("go", "")

    result = await tool({"command": command}, on_update=on_update)
    assert result.output == "one\ntwo"
    assert updates[0] == "one\n"


async def test_cancelling_a_call_of_a_session_leaves_nothing_running(here: Environment) -> None:
    seconds = unique_seconds()
    tool = session_of(here, grace=20)
    await tool({"command": "A=1"})
    task = asyncio.ensure_future(tool({"command": f"sleep {seconds}; A=2"}))
    await asyncio.to_thread(wait_asleep, seconds)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert living(seconds) == []
    assert (await tool({"command": "echo $A"})).output == "1\n"


async def test_call_after_a_cancelled_call_reports_the_directory(here: Environment) -> None:
    seconds = unique_seconds()
    tool = session_of(here, grace=20)
    await tool({"command": "true"})
    call = asyncio.create_task(tool({"command": f"cd /usr; sleep {seconds}"}))
    await asyncio.to_thread(wait_asleep, seconds)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    result = await tool({"command": "pwd"})
    assert result.output == "/usr\n"
    assert result.message == "Exit code 0. Now in /usr."
    assert (await tool({"command": "true"})).message == "Exit code 0."


async def test_killed_shell_is_not_reported_as_short_of_memory(here: Environment) -> None:
    result = await session_of(here)({"command": "kill -9 $$"})
    assert result.message.startswith("Ended by SIGKILL (exit code 137). That ended the session's shell: ")
    assert "memory" not in result.message


async def test_closed_tool_only_reports_that_state(tmp_path: Path) -> None:
    said = "Not run: this tool is closed. Do not call it again; tell the user."
    asked, gate = asyncio.Event(), asyncio.Event()

    async def late(request: ApprovalRequest) -> Approved:
        asked.set()
        await gate.wait()
        return Approved()

    async with Environment.detect(cwd=tmp_path) as env:
        closed, left = session_of(env), ShellTool(env, approver=approve_all, session=True, jobs=True)
        await left({"command": "A=1"})
        await closed.aclose()
        waiting = session_of(env, late)
        call = asyncio.create_task(waiting({"command": "true"}))
        await asked.wait()
        await waiting.aclose()
        gate.set()
        assert (await call).message == said
    for tool, params in (
        (closed, {"command": "true"}),
        (closed, {"restart": True}),
        (left, {"command": "true"}),
        (left, {"restart": True}),
        (left, {"command": "true", "background": True}),
        (ShellTool(env, approver=approve_all), {"command": "true"}),
    ):
        result = await tool(params)
        assert (result.is_error, result.details.status, result.message) == (True, "failed", said)


async def test_two_tools_have_two_shells(here: Environment) -> None:
    one, other = session_of(here), session_of(here)
    await one({"command": "A=1"})
    assert (await other({"command": "echo $A"})).output == "\n"
    await one.aclose()
    assert (await one({"command": "true"})).details.status == "failed"
    assert (await other({"command": "true"})).details.exit_code == 0


async def test_session_needs_an_entered_environment(tmp_path: Path) -> None:
    env = await Environment.detect(cwd=tmp_path)
    with pytest.raises(AnyshellError, match="use 'async with"):
        session_of(env)


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({}, "command is missing. The keys are command, timeout, cwd, env, stdin, description, restart."),
        ({"command": "", "restart": False}, "command is blank"),
        ({"command": " ", "restart": True}, "command is blank"),
        (
            {"restart": True, "cwd": "/", "env": {}},
            "restart without a command takes no cwd and no env: give a",
        ),
        ({"restart": True, "stdin": ""}, "restart without a command takes no stdin"),
        ({"command": "ls", "restart": "yes"}, "restart must be true or false"),
        ({"command": "ls", "background": True}, 'there is no "run_in_background" (not possible here: '),
    ],
)
async def test_wrong_parameters_of_a_session(params: Any, said: str, here: Environment) -> None:
    result = await session_of(here)(params)
    assert result.details.status == "invalid"
    assert said in result.message


async def test_restart_without_a_session_is_refused(here: Environment) -> None:
    tool = ShellTool(here, approver=approve_all)
    for params in ({"command": "ls", "restart": True}, ShellParams(command="ls", restart=True)):
        result = await tool(params)
        assert (
            'there is no "restart" (not needed here: every call begins in a fresh shell).' in result.message
        )


async def test_definition_of_a_session_mentions_one_shared_shell() -> None:
    async with Environment.detect(FakeBackend({})) as env:
        plain = ShellTool(env, approver=deny_all).definition
        lasting = session_of(env).definition
    assert "Every call is a fresh shell" in plain.description
    assert "restart" not in plain.description + str(plain.parameters)
    for text in ("Every call is a fresh shell", "instead of `cd", "calls of their own"):
        assert text in plain.description
        assert text not in lasting.description
    assert "All calls share one shell" in lasting.description
    assert lasting.parameters["required"] == []
    assert lasting.parameters["properties"]["restart"]["type"] == "boolean"
    assert "stays in" in lasting.parameters["properties"]["cwd"]["description"]
