"""Cancelling a tool call by its id, at every stage of the call."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from anyshell import (
    AnyshellError,
    ApprovalRequest,
    Approved,
    Environment,
    InvalidCommand,
    Refused,
    ShellTool,
    ToolLimits,
    approve_all,
)
from anyshell.abc import ExitStatus, Spawn
from anyshell.testing import FakeBackend, FakeProcess, Script
from anyshell.tool import Update, words
from anyshell.tool.calls import Calls
from anyshell.types import JobInputRequest, SecretRequest, TerminalInputRequest

from .processes import living, unique_seconds

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from anyshell.abc import Approver

pytestmark = pytest.mark.anyio

RUNS = Script(stdout=[b"begun\n"], exit=None)


@pytest.fixture
async def here(tmp_path: Path, anyio_backend: str) -> AsyncIterator[Environment]:
    """This machine alone."""
    async with Environment.detect(cwd=tmp_path) as env:
        yield env


def tool_of(
    env: Environment, approver: Approver = approve_all, *, grace: float = 0.3, **options: Any
) -> ShellTool:
    return ShellTool(env, approver=approver, limits=ToolLimits(min_timeout=0.1, grace=grace), **options)


class Held:
    """An approver that never answers, and signals each request."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.requests: list[ApprovalRequest] = []
        self.cancelled = False

    async def __call__(self, request: ApprovalRequest, /) -> Approved | Refused:
        self.requests.append(request)
        self.asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled = True
        return Approved()


class SlowBackend(FakeBackend):
    """A host on which commands start only after a signal of the test."""

    def __init__(self) -> None:
        super().__init__(lambda _: RUNS)
        self.asked = asyncio.Event()
        self.go = asyncio.Event()

    async def spawn(self, spawn: Spawn) -> FakeProcess:
        self.asked.set()
        await self.go.wait()
        process = await super().spawn(spawn)
        assert isinstance(process, FakeProcess)
        return process


async def until(happens: Callable[[], object]) -> None:
    with anyio.fail_after(20):
        while not happens():
            await asyncio.sleep(0.01)


# The command.


@pytest.mark.parametrize("session", [False, True])
async def test_cancelled_call_keeps_output_and_leaves_no_process(session: bool, env: Environment) -> None:
    seconds = unique_seconds()
    tool = tool_of(env, session=session, grace=20)
    ids: list[str] = []
    task = asyncio.ensure_future(
        tool(
            {"command": f"echo begun; sleep {seconds}"},
            call_id="toolu_1",
            on_update=lambda update: ids.append(update.call_id),
        )
    )
    await until(lambda: ids)
    tool.cancel("toolu_1")
    result = await asyncio.wait_for(task, 20)
    assert result.is_error
    # The shell of a session may print that the command was terminated.
    assert result.output.startswith("begun\n")
    assert (result.details.status, result.details.call_id, result.details.started) == (
        "cancelled",
        "toolu_1",
        True,
    )
    assert result.message.startswith("Stopped on request; its output so far")
    assert set(ids) == {"toolu_1"}
    assert living(seconds) == []
    if session:
        assert result.details.session_state == "kept"
        assert (await tool({"command": "echo on"})).message == "Exit code 0."


async def test_cancelled_task_still_raises(here: Environment) -> None:
    seconds = unique_seconds()
    tool = tool_of(here)
    seen = asyncio.Event()
    task = asyncio.ensure_future(
        tool({"command": f"echo; sleep {seconds}"}, call_id="1", on_update=lambda _: seen.set())
    )
    await asyncio.wait_for(seen.wait(), 20)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert living(seconds) == []
    with pytest.raises(AnyshellError, match="no call '1' is under way"):
        tool.cancel("1")


async def test_cancel_scope_around_a_call_still_cancels(here: Environment) -> None:
    tool = tool_of(here)
    with anyio.CancelScope() as scope:
        await tool({"command": "echo; sleep 300"}, on_update=lambda _: scope.cancel())
    assert scope.cancelled_caught


async def test_second_cancel_skips_the_grace() -> None:
    async with Environment.detect(FakeBackend(lambda _: Script(exit=None, heeds=frozenset()))) as env:
        tool = ShellTool(env, approver=approve_all, limits=ToolLimits(grace=10_000))
        task = asyncio.ensure_future(tool({"command": "true"}, call_id="1"))
        processes = env.runner.backend.processes  # type: ignore[attr-defined]  # the fake backend has it
        await until(lambda: processes)
        tool.cancel("1")
        await until(lambda: processes[0].signals)
        tool.cancel("1")
        result = await asyncio.wait_for(task, 20)
    assert result.details.status == "cancelled"
    assert processes[0].signals == ["terminate", "kill"]


async def test_cancelled_command_does_not_become_a_job() -> None:
    backend = FakeBackend(lambda _: Script(stdout=[b"x"], exit=None, heeds=frozenset()))
    async with Environment.detect(backend, background_after=0.3) as env:
        tool = ShellTool(env, approver=approve_all, limits=ToolLimits(grace=1), jobs=True)
        task = asyncio.ensure_future(tool({"command": "true"}, call_id="1"))
        await until(lambda: backend.processes)
        tool.cancel("1")
        result = await asyncio.wait_for(task, 20)
        assert (result.details.status, result.details.job, result.output) == ("cancelled", None, "x")


# Before it runs, and after its end.


@pytest.mark.parametrize(
    "params",
    [{}, {"run_in_background": True}, {"pty": True}, {"run_in_background": True, "pty": True}],
    ids=str,
)
async def test_cancel_while_the_approver_is_asked(params: dict[str, object], here: Environment) -> None:
    approver = Held()
    tool = tool_of(here, approver, jobs=True, terminals=True)
    task = asyncio.ensure_future(tool({"command": "touch made", **params}, call_id="1"))
    await asyncio.wait_for(approver.asked.wait(), 20)
    assert approver.requests[0].call_id == "1"
    tool.cancel("1")
    result = await asyncio.wait_for(task, 20)
    assert approver.cancelled
    assert (result.details.status, result.details.started, result.message) == (
        "cancelled",
        False,
        words.UNBEGUN,
    )
    assert result.display[0].text == "touch made"
    assert not await here.files.exists("made")


async def test_cancel_while_waiting_for_a_turn(here: Environment) -> None:
    tool = tool_of(here, session=True)
    began = asyncio.Event()
    first = asyncio.ensure_future(
        tool({"command": "echo; sleep 300"}, call_id="1", on_update=lambda _: began.set())
    )
    await asyncio.wait_for(began.wait(), 20)
    second = asyncio.ensure_future(tool({"command": "touch made"}, call_id="2"))
    third = asyncio.ensure_future(tool({"restart": True}, call_id="3"))
    await asyncio.sleep(0)
    tool.cancel("2")
    tool.cancel("3")
    for waiting in (second, third):
        result = await asyncio.wait_for(waiting, 20)
        assert (result.details.status, result.message) == ("cancelled", words.UNBEGUN)
    assert not first.done()
    tool.cancel("1")
    assert (await asyncio.wait_for(first, 20)).details.status == "cancelled"
    last = await tool({"command": "ls; echo free"})
    assert last.output == "free\n"


@pytest.mark.parametrize("params", [{}, {"pty": True}], ids=str)
async def test_cancel_while_starting(params: dict[str, object]) -> None:
    backend = SlowBackend()
    async with Environment.detect(backend) as env:
        tool = tool_of(env, terminals=True)
        task = asyncio.ensure_future(tool({"command": "true", **params}, call_id="1"))
        await asyncio.wait_for(backend.asked.wait(), 20)
        tool.cancel("1")
        result = await asyncio.wait_for(task, 20)
        assert (result.details.status, result.details.started, result.message) == (
            "cancelled",
            False,
            words.UNBEGUN,
        )
        assert backend.processes == []


async def test_cancel_while_a_job_is_starting() -> None:
    backend = SlowBackend()
    async with Environment.detect(backend) as env:
        tool = tool_of(env, jobs=True)
        task = asyncio.ensure_future(tool({"command": "true", "run_in_background": True}, call_id="1"))
        await asyncio.wait_for(backend.asked.wait(), 20)
        tool.cancel("1")
        result = await asyncio.wait_for(task, 20)
        assert (result.details.status, result.details.job, result.message) == (
            "cancelled",
            None,
            words.NO_JOB,
        )
        assert [job.status for job in env.jobs.list()] == ["stopped"]
        assert (await tool.job_tool({"action": "list"})).details.jobs == ()


async def test_cancel_while_draining_keeps_the_exit_code() -> None:
    """The command has ended by itself; the wait for processes left behind ends at once, and these are stopped."""
    backend = FakeBackend(
        lambda _: Script(stdout=[b"done\n"], exit=ExitStatus(code=3), leaves=1, heeds=frozenset())
    )
    async with Environment.detect(backend) as env:
        tool = ShellTool(env, approver=approve_all, limits=ToolLimits(grace=10_000))
        task = asyncio.ensure_future(tool({"command": "true"}, call_id="1"))
        await until(lambda: backend.processes)
        tool.cancel("1")
        result = await asyncio.wait_for(task, 20)
    assert (result.details.status, result.details.exit_code, result.output) == ("exited", 3, "done\n")
    assert [left.alive for left in result.details.left_behind] == [False]


@pytest.mark.parametrize("session", [False, True])
async def test_cancel_at_the_moment_of_the_approval_runs_nothing(session: bool, here: Environment) -> None:
    async def approver(request: ApprovalRequest) -> Approved:
        tool.cancel(request.call_id)
        return Approved()

    tool = tool_of(here, approver, session=session)
    result = await tool({"command": "touch made"})
    assert (result.details.status, result.message) == ("cancelled", words.UNBEGUN)
    assert not await here.files.exists("made")


# Ids.


async def test_generated_id_is_in_updates_approvals_and_details(here: Environment) -> None:
    approver = Held()
    tool = tool_of(here, approver)
    both = [asyncio.ensure_future(tool({"command": f"exit {code}"})) for code in range(2)]
    await until(lambda: len(approver.requests) == 2)
    ids = [request.call_id for request in approver.requests]
    assert ids == ["call-1", "call-2"]
    for call_id in ids:
        tool.cancel(call_id)
    assert [(await task).details.call_id for task in both] == ids
    told: list[Update] = []
    result = await tool_of(here)({"command": "echo x"}, on_update=told.append)
    assert {update.call_id for update in told} == {result.details.call_id} == {"call-1"}
    assert told[-1] == "x\n"


async def test_generated_id_differs_from_ids_under_way() -> None:
    calls = Calls()
    with calls.begin("call-1", "shell", {}), calls.begin(None, "shell", {}) as other:
        assert other.id == "call-2"


@pytest.mark.parametrize(
    ("call_id", "said"),
    [("", "empty"), (7, "must be a string"), ("a\0", "NUL"), ("1", "that of a call under way")],
)
async def test_bad_id_is_an_error_and_nothing_runs(call_id: Any, said: str, here: Environment) -> None:
    approver = Held()
    tool = tool_of(here, approver)
    first = asyncio.ensure_future(tool({"command": "true"}, call_id="1"))
    await asyncio.wait_for(approver.asked.wait(), 20)
    with pytest.raises(InvalidCommand, match=said):
        await tool({"command": "true"}, call_id=call_id)
    tool.cancel("1")
    await first
    assert len(approver.requests) == 1


async def test_unknown_id_is_an_error_that_names_the_calls_under_way(here: Environment) -> None:
    approver = Held()
    tool = tool_of(here, approver)
    with pytest.raises(AnyshellError, match=r"^no call 'x' is under way: .*; under way: none$"):
        tool.cancel("x")
    with pytest.raises(AnyshellError, match=r"^no call '\[\]' is under way"):
        tool.cancel([])  # type: ignore[arg-type]  # bad input is the point
    tasks = [asyncio.ensure_future(tool({"command": f"exit {n}"}, call_id=f"c{n}")) for n in range(12)]
    await until(lambda: len(approver.requests) == 12)
    with pytest.raises(AnyshellError, match=r"under way: c0, c1, .*, c9 and 2 more$"):
        tool.cancel("x")
    for n in range(12):
        tool.cancel(f"c{n}")
    assert {(await task).details.status for task in tasks} == {"cancelled"}
    with pytest.raises(AnyshellError):
        tool.cancel("c0")


async def test_id_can_be_used_again_after_a_call(here: Environment) -> None:
    tool = tool_of(here)
    for _ in range(2):
        assert not (await tool({"command": "true"}, call_id="1")).is_error
    assert (await tool({"cmd": 3}, call_id="1")).details.call_id == "1"


# Jobs.


@pytest.mark.parametrize("until_", ["never", "end", None])
async def test_cancelled_wait_for_a_job_shows_output_and_keeps_the_job(
    until_: str | None, here: Environment
) -> None:
    tool = tool_of(here, jobs=True)
    await tool({"command": "echo begun; sleep 300", "run_in_background": True})
    jobs = tool.job_tool
    await jobs({"action": "output", "id": "j1", "wait": 20})
    params = {"action": "output", "id": "j1", "wait": 300, "until": until_}
    task = asyncio.ensure_future(jobs(params, call_id="1"))
    await asyncio.sleep(0.1)
    assert not task.done()
    tool.cancel("1")
    result = await asyncio.wait_for(task, 20)
    assert result.is_error
    assert (result.details.status, result.details.call_id, result.details.offset) == ("cancelled", "1", 6)
    assert result.details.jobs[0].status == "running"
    assert result.message.startswith(f"{words.CUT_SHORT} Job j1 runs, ")
    assert (await jobs({"action": "output", "id": "j1", "part": "bytes 0-"})).output == "begun\n"


async def test_cancel_while_sending_to_a_job_is_asked_about(here: Environment) -> None:
    held = Held()

    async def approver(request: ApprovalRequest) -> Approved | Refused:
        return await held(request) if isinstance(request, JobInputRequest) else Approved()

    tool = tool_of(here, approver, jobs=True)
    await tool({"command": "cat", "run_in_background": True})
    task = asyncio.ensure_future(tool.job_tool({"action": "send", "id": "j1", "text": "x\n"}, call_id="1"))
    await asyncio.wait_for(held.asked.wait(), 20)
    assert held.requests[0].call_id == "1"
    tool.cancel("1")
    result = await asyncio.wait_for(task, 20)
    assert (result.details.status, result.details.action) == ("cancelled", "send")
    assert result.message == words.UNSENT
    assert (await here.jobs.get("j1").output()).text == ""


# Terminals.


async def test_cancelled_command_on_a_terminal_keeps_its_output(here: Environment) -> None:
    seconds = unique_seconds()
    tool = tool_of(here, terminals=True)
    seen = asyncio.Event()
    task = asyncio.ensure_future(
        tool(
            {"command": f"echo begun; sleep {seconds}", "pty": True},
            call_id="1",
            on_update=lambda _: seen.set(),
        )
    )
    await asyncio.wait_for(seen.wait(), 20)
    tool.cancel("1")
    result = await asyncio.wait_for(task, 20)
    assert (result.details.status, result.details.terminal, result.output) == ("cancelled", None, "begun\n")
    assert living(seconds) == []


async def test_cancelled_start_of_a_terminal_stops_the_program_and_shows_output(here: Environment) -> None:
    seconds = unique_seconds()
    tool = tool_of(here, terminals=True)
    loop = f"while :; do echo begun; sleep 0.1; done; sleep {seconds}"
    params = {"command": loop, "pty": True, "run_in_background": True}
    task = asyncio.ensure_future(tool(params, call_id="1"))
    await until(lambda: tool._terminals and any(held.printed for held in tool._terminals._live))
    tool.cancel("1")
    result = await asyncio.wait_for(task, 20)
    assert (result.details.status, result.details.terminal) == ("cancelled", None)
    assert result.output.startswith("begun")
    assert "Stopped on request" in result.message
    assert living(seconds) == []
    gone = await tool.job_tool({"action": "screen", "id": "t1"})
    assert "no job has the id 't1'" in gone.message


@pytest.mark.parametrize(
    "params",
    [
        {"action": "output", "until": "never", "wait": 300},
        {"action": "output", "wait": 300},
        {"action": "send", "text": "go", "enter": True, "wait": 300},
    ],
    ids=str,
)
async def test_cancelled_wait_for_a_terminal_shows_the_screen_and_keeps_the_program(
    params: dict[str, object], here: Environment
) -> None:
    tool = tool_of(here, terminals=True)
    # The program prints all the time, so that it never counts as waiting or as having reacted.
    loop = "read -r x; while :; do printf .; sleep 0.1; done" if "text" in params else "sleep 300"
    await tool({"command": f"echo begun; {loop}", "pty": True, "run_in_background": True})
    task = asyncio.ensure_future(tool.job_tool({"id": "t1", **params}, call_id="1"))
    await asyncio.sleep(2)
    assert not task.done()
    tool.cancel("1")
    result = await asyncio.wait_for(task, 20)
    assert (result.details.status, result.details.terminal, result.details.running) == (
        "cancelled",
        "t1",
        True,
    )
    assert words.CUT_SHORT in result.message
    if "text" in params:
        assert "." in result.output


async def test_cancel_while_a_secret_is_asked_for(here: Environment) -> None:
    asked = asyncio.Event()

    async def source(request: SecretRequest) -> str | None:
        asked.set()
        await asyncio.Event().wait()
        return "hunter2"

    tool = tool_of(here, terminals=True, secrets=source)
    await tool({"command": "stty -echo; read -r x; echo got $x", "pty": True, "run_in_background": True})
    task = asyncio.ensure_future(tool.job_tool({"action": "secret", "id": "t1"}, call_id="1"))
    await asyncio.wait_for(asked.wait(), 20)
    tool.cancel("1")
    result = await asyncio.wait_for(task, 20)
    assert (result.details.status, result.details.running) == ("cancelled", True)
    assert result.message.startswith(words.UNSENT)
    typed = await tool.job_tool({"action": "send", "id": "t1", "text": "y", "enter": True})
    assert "got y" in typed.output


async def test_cancel_while_typing_is_asked_about(here: Environment) -> None:
    held = Held()

    async def approver(request: ApprovalRequest) -> Approved | Refused:
        return await held(request) if isinstance(request, TerminalInputRequest) else Approved()

    tool = tool_of(here, approver, terminals=True)
    await tool({"command": "read -r x; echo got $x", "pty": True, "run_in_background": True})
    task = asyncio.ensure_future(
        tool.job_tool({"action": "send", "id": "t1", "text": "y", "enter": True}, call_id="1")
    )
    await asyncio.wait_for(held.asked.wait(), 20)
    tool.cancel("1")
    result = await asyncio.wait_for(task, 20)
    assert (result.details.status, result.details.terminal) == ("cancelled", "t1")
    assert not result.output
