"""The tool with jobs: background commands, and the job tool."""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from anyshell import (
    AnyshellError,
    ApprovalRequest,
    Approved,
    Environment,
    OutputLimits,
    Refused,
    ShellTool,
    ToolLimits,
    approve_all,
    deny_all,
)
from anyshell.output.patterns import pattern_of
from anyshell.testing import FakeBackend, Script
from anyshell.tool import JobParams, JobResult
from anyshell.tool.jobs import words as job_words
from anyshell.types import CommandRequest, JobInputRequest

from .processes import STARTED, living, unique_seconds, wait_asleep
from .test_tool import Recorder, matches_snapshot

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from anyshell.abc import Approver

pytestmark = pytest.mark.anyio


@pytest.fixture
async def here(tmp_path: Path, anyio_backend: str) -> AsyncIterator[Environment]:
    """This machine alone: jobs have tests of their own on every host."""
    async with Environment.detect(cwd=tmp_path) as env:
        yield env


def jobs_of(
    env: Environment, approver: Approver = approve_all, *, session: bool = False, **limits: Any
) -> ShellTool:
    bounds = ToolLimits(**{"min_timeout": 0.1, "grace": 0.3, **limits})
    return ShellTool(env, approver=approver, limits=bounds, jobs=True, session=session)


async def ended(env: Environment, job_id: str | None) -> None:
    """Wait for the end of a job as a program does, without the model."""
    await env.jobs.get(job_id or "").wait(timeout=20)


GO = "until [ -e go ]; do sleep 0.02; done; "
"""The beginning of a job's command that does not end before `go`, and so not during its start."""


async def go(env: Environment) -> None:
    await env.files.write_text("go", "")


async def over(tool: ShellTool, env: Environment, command: str, job_id: str) -> None:
    """Start a job that ends before the return, without a report to the model."""
    await tool({"command": f"{GO}{command}", "run_in_background": True})
    await go(env)
    await ended(env, job_id)
    await env.files.remove("go")


# Starting.


async def test_a_job_is_started_read_and_stopped(env: Environment) -> None:
    seconds = unique_seconds()
    tool = jobs_of(env)
    started = await tool({"command": f"echo up; sleep {seconds}", "run_in_background": True})
    assert not started.is_error
    assert (started.details.status, started.details.job) == ("running", "j1")
    assert started.details.timeout is None
    assert started.text == f"[anyshell] {started.message}"
    assert re.fullmatch(r"Started as job j1 \(pid \d+\), its stdin open\.", started.message)
    read = await tool.job_tool({"action": "output", "id": "j1", "wait": 20})
    assert read.output == "up\n"
    assert (read.details.offset, read.details.total_bytes) == (3, 3)
    assert read.details.jobs[0].status == "running"
    stopped = await tool.job_tool({"action": "stop", "id": "j1"})
    assert stopped.message == "Stopped job j1 and all it started."
    assert living(seconds) == []
    again = await tool.job_tool({"action": "stop", "id": "j1"})
    assert again.message == "Nothing to stop: job j1 was stopped."
    assert not again.is_error


async def test_job_times_out_at_its_given_deadline(here: Environment) -> None:
    approver = Recorder()
    tool = jobs_of(here, approver, max_timeout=200)
    result = await tool({"command": "sleep 300", "run_in_background": True, "timeout": 0.2})
    assert approver.of(CommandRequest)[0].timeout == result.details.timeout == 0.2
    await ended(here, "j1")
    told = result.message + (await tool({"command": "true"})).message
    assert re.search(r"Job j1 timed out after [\d.]+ s \(sleep 300\)\.", told)
    result = await tool({"command": "sleep 300", "run_in_background": True, "timeout": 999})
    assert "timeout is in seconds: 999 was cut to 200." in result.message


async def test_approver_sees_that_the_command_becomes_a_job(here: Environment) -> None:
    approver = Recorder(Refused("no"))
    tool = jobs_of(here, approver)
    result = await tool({"command": "make", "run_in_background": True})
    assert result.details.status == "refused"
    assert approver.of(CommandRequest)[0].background
    for line in (
        "Background: goes on as a job",
        "Timeout: none",
        "Input: what will be sent to the job, if that is approved then",
    ):
        assert f"\n{line}" in approver.requests[0].display
    await tool({"command": "make", "run_in_background": True, "stdin": "x", "timeout": 3})
    assert "what will be sent" not in approver.requests[1].display
    assert "Timeout: 3 s" in approver.requests[1].display
    assert here.jobs.list() == ()


async def test_a_job_that_cannot_be_started_is_a_result(here: Environment) -> None:
    result = await jobs_of(here)({"command": "true", "cwd": "nowhere", "run_in_background": True})
    assert result.details.status == "failed"
    assert "nowhere" in result.message


async def test_too_many_jobs_are_a_result_that_names_the_way_out(tmp_path: Path) -> None:
    async with Environment.detect(cwd=tmp_path, max_jobs=1) as env:
        tool = jobs_of(env)
        await tool({"command": "sleep 300", "run_in_background": True})
        result = await tool({"command": "sleep 300", "run_in_background": True})
    assert result.details.status == "failed"
    assert (
        "1 job runs already, the most that may run at once (j1): wait for it, or stop it." in result.message
    )


# Reported ends.


async def test_end_of_a_job_is_reported_once_with_the_next_result(here: Environment) -> None:
    tool = jobs_of(here)
    await over(tool, here, "seq 9; echo out; exit 3", "j1")
    result = await tool({"command": "true"})
    assert not result.is_error
    assert re.fullmatch(
        r"Exit code 0\. Job j1 ended: exit code 3 after [\d.]+ s \(until .*…\)\. Last lines: 8 \| 9 \| out",
        result.message,
    )
    assert (await tool({"command": "true"})).message == "Exit code 0."
    assert "Last lines" not in (await tool.job_tool({"action": "list"})).message
    assert (await tool.job_tool({"action": "output", "id": "j1"})).output.endswith("9\nout\n")


async def test_every_kind_of_result_reports_the_end_of_a_job(here: Environment) -> None:
    tool = jobs_of(here)
    calls: list[tuple[Any, Any]] = [
        (tool, {}),
        (tool, {"command": "true", "cwd": "nowhere"}),
        (tool.job_tool, {}),
        (tool.job_tool, {"action": "stop", "id": "none"}),
    ]
    for count, (called, params) in enumerate(calls, 1):
        await over(tool, here, "true", f"j{count}")
        assert f"Job j{count} ended: exit code 0" in (await called(params)).message


async def test_immediate_end_is_reported_with_the_start(
    here: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anyshell.tool.shell.FAILS_AT_ONCE", 20.0)
    tool = jobs_of(here)
    failed = await tool({"command": "echo nope; exit 3", "run_in_background": True})
    assert (failed.is_error, failed.details.status, failed.details.exit_code) == (True, "exited", 3)
    assert (failed.output, failed.details.job) == ("nope\n", "j1")
    assert re.fullmatch(r"Job j1 ended: exit code 3 after [\d.]+ s\.", failed.message)
    assert (await tool({"command": "true"})).message == "Exit code 0."
    again = await tool.job_tool({"action": "output", "id": "j1"})
    assert re.fullmatch(r"\[anyshell\] Job j1 ended: exit code 3 after [\d.]+ s, nothing new\.", again.text)


async def test_shown_end_is_not_reported_again(here: Environment) -> None:
    tool = jobs_of(here)
    for count, last in enumerate(("output", "stop", "list"), 1):
        await over(tool, here, "true", f"j{count}")
        params = {"action": last} if last == "list" else {"action": last, "id": f"j{count}"}
        assert (await tool.job_tool(params)).message.count(f"j{count} ") == 1
    assert (await tool({"command": "true"})).message == "Exit code 0."


async def test_number_of_ends_in_one_result_is_bounded(
    here: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anyshell.tool.jobs.ledger.NEWS", 2)
    tool = jobs_of(here)
    for _ in range(3):
        await tool({"command": "until [ -e go ]; do sleep 0.01; done", "run_in_background": True})
    await here.files.write_text("go", "")
    for count in (1, 2, 3):
        await ended(here, f"j{count}")
    told = [(await tool({"command": "true"})).message.count("ended: exit code 0") for _ in range(3)]
    assert told == [2, 1, 0]


async def test_a_tool_knows_the_jobs_of_its_own_calls_alone(here: Environment) -> None:
    job = await here.start("true")
    await job.wait()
    tool = jobs_of(here)
    assert (await tool({"command": "true"})).message == "Exit code 0."
    result = await tool.job_tool({"action": "output", "id": "j1"})
    assert result.message == "Nothing was done: no job has the id 'j1': there are no jobs."
    assert result.is_error


# Processes left behind, and long commands.


async def test_process_left_behind_goes_on_as_a_job(here: Environment) -> None:
    seconds = unique_seconds()
    tool = jobs_of(here)
    result = await tool({"command": f"(echo late; exec sleep {seconds}) & echo $!"})
    assert not result.is_error
    assert result.details.job == "j1"
    assert [process.alive for process in result.details.left_behind] == [True]
    assert re.search(
        r"It left \w+ \(pid \d+\) running, now job j1: read or stop it with job\.", result.message
    )
    assert len(living(seconds)) == 1
    sent = await tool.job_tool({"action": "send", "id": "j1", "text": "x"})
    assert (
        sent.message
        == "Nothing was done: job j1 cannot be sent anything: its input was settled when it began."
    )
    await tool.job_tool({"action": "stop", "id": "j1"})
    assert living(seconds) == []


async def test_process_left_behind_by_a_job_is_a_job(here: Environment) -> None:
    tool = jobs_of(here)
    await over(tool, here, "sleep 300 & exit 0", "j1")
    assert "What it left running is job j2." in (await tool({"command": "true"})).message
    assert (await tool.job_tool({"action": "stop", "id": "j2"})).details.jobs[0].adopted


async def test_without_jobs_process_left_behind_is_stopped(here: Environment) -> None:
    seconds = unique_seconds()
    result = await ShellTool(here, approver=approve_all)({"command": f"sleep {seconds} & {STARTED}"})
    assert result.details.job is None
    assert "Stopped when the call ended: sleep" in result.message
    assert here.jobs.list() == ()


async def test_long_command_becomes_a_job_and_keeps_its_deadline(tmp_path: Path) -> None:
    updates: list[str] = []
    async with Environment.detect(cwd=tmp_path, background_after=2) as env:
        tool = jobs_of(env, update_interval=0)
        command = "echo begun; until [ -e go ]; do sleep 0.01; done; echo done"
        result = await tool({"command": command, "timeout": 30}, on_update=updates.append)
        assert not result.is_error
        assert (result.details.status, result.details.job) == ("running", "j1")
        assert result.output == "begun\n"
        assert re.match(
            r"Still running after [\d.]+ s: it goes on as job j1, until 30 s at most\. Do not run it again\.",
            result.message,
        )
        (tmp_path / "go").touch()
        read = await tool.job_tool({"action": "output", "id": "j1", "wait": 20, "until": "end"})
        assert read.output == "done\n"
        assert read.message.startswith("Job j1 ended: exit code 0 after ")
        late = await tool({"command": "sleep 300", "timeout": 5})
        assert late.details.status == "running"
        await ended(env, late.details.job)
        assert "Job j2 timed out after" in (await tool({"command": "true"})).message
    assert updates == ["begun\n"]


async def test_without_jobs_long_command_is_awaited(tmp_path: Path) -> None:
    async with Environment.detect(cwd=tmp_path, background_after=0.01) as env:
        result = await ShellTool(env, approver=approve_all)({"command": "sleep 0.2; echo done"})
    assert result.output == "done\n"
    assert result.details.status == "exited"


# Reading.


async def test_reading_continues_at_the_last_position(here: Environment) -> None:
    tool = jobs_of(here)
    await tool({"command": "while read -r line; do echo got $line; done", "run_in_background": True})
    job = tool.job_tool
    for word in ("one", "two"):
        sent = await job({"action": "send", "id": "j1", "text": f"{word}\n"})
        assert sent.message == "Sent 4 bytes to job j1."
        read = await job({"action": "output", "id": "j1", "wait": 20})
        assert read.output == f"got {word}\n"
    assert re.fullmatch(r"Job j1 runs, [\d.]+ s now\.", read.message)
    at_once = await job({"action": "output", "id": "j1"})
    assert re.fullmatch(r"\[anyshell\] Job j1 runs, [\d.]+ s now, nothing new\.", at_once.text)
    nothing = await job({"action": "output", "id": "j1", "wait": 0.05})
    assert nothing.message.endswith(" s now, nothing new in 0.05 s.")
    assert nothing.output == ""
    assert (await job({"action": "output", "id": "j1", "part": "bytes 4-"})).output == "one\ngot two\n"
    assert (await job({"action": "send", "id": "j1", "end_of_input": True})).message.startswith(
        "Ended the input of job j1."
    )
    last = await job({"action": "output", "id": "j1", "wait": 20, "until": "end"})
    assert last.message.startswith("Job j1 ended: exit code 0")
    assert last.message.endswith(" s, nothing new.")
    assert "no output" not in last.text


async def test_send_can_wait_for_the_answer(here: Environment) -> None:
    tool = jobs_of(here)
    await tool({"command": "while read -r line; do echo got $line; done", "run_in_background": True})
    answered = await tool.job_tool({"action": "send", "id": "j1", "text": "it", "enter": True, "wait": 20})
    assert answered.output == "got it\n"
    assert answered.message.startswith("Sent 3 bytes to job j1. Job j1 runs, ")
    found = await tool.job_tool({"action": "send", "id": "j1", "text": "more\n", "until": "/g.t m/"})
    assert (found.output, found.details.found) == ("got more\n", True)


async def test_until_waits_for_a_text_and_reports_a_match(here: Environment) -> None:
    tool = jobs_of(here)
    await tool(
        {"command": f"echo starting; {GO}echo Listening on 8080; exec sleep 300", "run_in_background": True}
    )
    await here.jobs.get("j1").wait_for("starting")
    not_yet = await tool.job_tool({"action": "output", "id": "j1", "until": "Listening", "wait": 0.1})
    assert (not_yet.output, not_yet.details.found) == ("starting\n", False)
    assert re.match(r'"Listening" did not come in [\d.]+ s\. Job j1 runs', not_yet.message)
    waiting = asyncio.ensure_future(tool.job_tool({"action": "output", "id": "j1", "until": r"/on \d+$/"}))
    await go(here)
    came = await waiting
    assert (came.output, came.details.found) == ("Listening on 8080\n", True)
    assert came.message.startswith(r'It printed "/on \d+$/". Job j1 runs, ')
    still = await tool.job_tool({"action": "output", "id": "j1", "until": "end", "wait": 0.1})
    assert (still.details.found, still.is_error) == (False, False)
    assert re.match(r"It did not end in [\d.]+ s\.", still.message)


async def test_part_of_the_output_of_a_job_is_shown(here: Environment) -> None:
    tool = jobs_of(here)
    await tool({"command": "seq 100; exec sleep 300", "run_in_background": True})
    assert await here.jobs.get("j1").wait_for("^100$")
    for part, output, said in (
        ("lines 3-5", "3\n4\n5\n", "Lines 3 to 5 of 100."),
        ("lines 99-", "99\n100\n", "Lines 99 to 100 of 100."),
        ("lines 200-", "", "There are 100 lines."),
        ("lines -2", "99\n100", "The last 2 of 100 lines."),
        ("grep 99", "99: 99\n", "1 of 100 lines match."),
        ("grep /^1.$/", "".join(f"{n}: {n}\n" for n in range(10, 20)), "10 of 100 lines match."),
    ):
        result = await tool.job_tool({"action": "output", "id": "j1", "part": part})
        assert (result.output, result.message) == (output, said), part


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"part": "lines 1-30"}, "Lines 1 to 30 of 20,000."),
        ({"lines": "19990-"}, "Lines 19,990 to 20,000 of 20,000."),
        ({"tail": 4}, "The last 4 of 20,000 lines."),
        ({"bytes": "100-200"}, "Bytes 100 to 200 of 108,894."),
        ({"grep": "777"}, "38 of 20,000 lines match."),
        ({"part": "grep /^1?7{4}$/"}, "2 of 20,000 lines match."),
    ],
)
async def test_kept_output_is_read_without_its_file(
    params: dict[str, Any], said: str, tmp_path: Path
) -> None:
    numbers = b"".join(b"%d\n" % number for number in range(1, 20_001))
    backend = FakeBackend({"seq": Script(stdout=[numbers])})
    async with Environment.detect(backend, limits=OutputLimits(head=100, tail=100)) as env:
        tool = jobs_of(env)
        result = await tool({"command": "seq"})
        assert result.details.artifact is not None
        kept = result.details.artifact.id
        assert f"Whole output: job, output, id {kept}, with part." in result.message
        part = await tool.job_tool({"action": "output", "id": kept, **params})
        assert not part.is_error
        assert part.message.startswith(said)
        assert len(part.output.encode()) < 400
        other = await jobs_of(env).job_tool({"action": "output", "id": kept, **params})
        assert (other.details.status, "no job has the id" in other.message) == ("failed", True)
        none = await tool.job_tool({"action": "output", "id": kept})
        assert 'part is missing: say which, such as "lines 1-200"' in none.message


async def test_part_reports_counted_and_searched_lines(here: Environment) -> None:
    tool = jobs_of(here)
    await over(tool, here, "seq 1 9", "j1")
    await tool.job_tool({"action": "output", "id": "j1"})
    for part, said in (
        ("lines 0-3", "Lines 1 to 3 of 9."),
        ("grep '7'", "0 of 9 lines match: quotes and options are taken as text."),
        ("grep -i x", "0 of 9 lines match: quotes and options are taken as text."),
        ("grep x", "0 of 9 lines match."),
    ):
        result = await tool.job_tool({"action": "output", "id": "j1", "part": part})
        assert result.message == said, part
    await tool({"command": "exec sleep 300", "run_in_background": True})
    for part in ("lines 1-3", "lines -3", "grep x"):
        result = await tool.job_tool({"action": "output", "id": "j2", "part": part})
        assert result.message == "There are 0 lines.", part


async def test_a_wrong_id_names_the_newest_jobs_alone(here: Environment) -> None:
    tool = jobs_of(here)
    for _ in range(12):
        await tool({"command": "true", "run_in_background": True})
    wrong = await tool.job_tool({"action": "output", "id": "x"})
    assert "no job has the id 'x'; there are: …, j3, j4, j5, j6, j7, j8, j9, j10, j11, j12." in wrong.message


async def test_wait_reports_a_match_in_earlier_output(here: Environment) -> None:
    tool = jobs_of(here)
    await tool(
        {"command": "echo Listening; printf rea; read x; echo dy; exec sleep 300", "run_in_background": True}
    )
    await tool.job_tool({"action": "output", "id": "j1", "until": "rea"})
    again = await tool.job_tool({"action": "output", "id": "j1", "until": "Listening", "wait": 0.1})
    assert re.match(r'"Listening" did not come in [\d.]+ s; it was printed before\. Job j1', again.message)
    await tool.job_tool({"action": "send", "id": "j1", "enter": True, "until": "dy"})
    parted = await tool.job_tool({"action": "output", "id": "j1", "until": "ready", "wait": 0.1})
    assert "; it was printed before." in parted.message
    never = await tool.job_tool({"action": "output", "id": "j1", "until": "never", "wait": 0.1})
    assert (never.details.found, "before" in never.message) == (False, False)


async def test_a_kept_output_is_shown_by_the_name_of_its_file_too(tmp_path: Path) -> None:
    async with Environment.detect(cwd=tmp_path, limits=OutputLimits(head=30, tail=30)) as env:
        tool = jobs_of(env)
        result = await tool({"command": "seq 1 900"})
        assert "Middle left out from line 14: " in result.message  # 13 complete lines are shown
        assert result.details.artifact is not None
        for params, output, said in (
            ({"part": "lines 2-3"}, "2\n3\n", "Lines 2 to 3 of 900."),
            ({"part": "bytes 99999-"}, "", "There are 3,492 bytes."),
        ):
            part = await tool.job_tool({"action": "output", "id": result.details.artifact.path, **params})
            assert (part.output, part.message) == (output, said)
        many = await tool.job_tool(
            {"action": "output", "id": result.details.artifact.path, "part": "lines 1-900"}
        )
        assert "3,434 bytes of these are left out: ask for a smaller part." in many.message


async def test_discarded_output_of_a_job_is_not_promised(tmp_path: Path) -> None:
    async with Environment.detect(cwd=tmp_path, limits=OutputLimits(head=30, tail=30), artifacts=None) as env:
        tool = jobs_of(env)
        await over(tool, env, "seq 1 90000", "j1")
        read = await tool.job_tool({"action": "output", "id": "j1"})
        told = re.search(r"left out: part bytes (\d+)- shows those still kept\.", read.message)
        assert told is not None
        first = await tool.job_tool({"action": "output", "id": "j1", "part": f"bytes {told[1]}-"})
        assert first.output
        assert "not kept" not in first.message
        lines = await tool.job_tool({"action": "output", "id": "j1", "part": "lines -1"})
        assert f"{int(told[1]):,} bytes are not kept: these are counted without them." in lines.message


async def test_binary_output_of_a_job_is_shown_by_parts_alone(here: Environment) -> None:
    tool = jobs_of(here)
    await over(tool, here, r"printf '\177ELF\0'; head -c 3000 /dev/zero; echo GNU", "j1")
    read = await tool.job_tool({"action": "output", "id": "j1"})
    assert read.output == ""
    assert read.message.startswith("Binary output not shown: ELF program, 3,009 bytes. Job j1 ended")
    part = await tool.job_tool({"action": "output", "id": "j1", "part": "grep GNU"})
    assert part.output.endswith("GNU\n")


async def test_partial_send_is_reported_as_partial(here: Environment) -> None:
    tool = jobs_of(here)
    await tool({"command": "sh", "run_in_background": True})
    text = "echo did >log\nexit 0\n" + "# pad\n" * 40_000
    sent = await tool.job_tool({"action": "send", "id": "j1", "text": text})
    assert sent.details.status == "failed"
    assert "Nothing was done" not in sent.message
    assert sent.message.startswith(
        "Not all was sent: job j1 ended, or closed its input, before it had read all that it was sent: it may have read "
        "part of it. See its output before sending any of it again."
    )
    assert await here.files.read_text("log") == "did\n"


async def test_unfinished_send_is_not_reported_as_sent(
    here: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anyshell.jobs.job.SEND_SECONDS", 0.05)
    tool = jobs_of(here)
    await tool({"command": "sleep 300", "run_in_background": True})
    sent = await tool.job_tool({"action": "send", "id": "j1", "text": "x" * 300_000, "end_of_input": True})
    assert not sent.is_error
    assert sent.message == (
        "On its way to job j1: 300,000 bytes, then the end of its input; not all read yet. Do not send it again."
    )


async def test_incomplete_character_is_not_announced(here: Environment) -> None:
    tool = jobs_of(here)
    command = r"printf 'Continue? \342\202'; read line; printf '\254'; exec sleep 300"
    await tool({"command": command, "run_in_background": True})
    assert await here.jobs.get("j1").wait_for(r"Continue\? ")
    shown = await tool.job_tool({"action": "output", "id": "j1", "part": "bytes 0-"})
    assert (shown.output, shown.details.total_bytes) == ("Continue? ", 12)
    assert "bytes follow" not in shown.message
    nothing = await tool.job_tool({"action": "output", "id": "j1"})
    assert nothing.message.endswith("nothing new.")
    assert "bytes follow" not in nothing.message
    await tool.job_tool({"action": "send", "id": "j1", "text": "\n"})
    assert (await tool.job_tool({"action": "output", "id": "j1", "wait": 20})).output == "€"


async def test_large_output_is_shown_in_pieces_that_name_the_next_piece(tmp_path: Path) -> None:
    async with Environment.detect(cwd=tmp_path, limits=OutputLimits(head=300, tail=100, max_line=50)) as env:
        tool = jobs_of(env)
        await over(tool, env, "seq -w 1 1000; printf '%070d\\n' 7", "j1")
        end = await tool.job_tool({"action": "output", "id": "j1"})
        assert end.output.splitlines()[-2] == "1000"
        assert "20 bytes of these are left out: part bytes A-B shows 50 of a line at once." in end.message
        cut = await tool.job_tool({"action": "output", "id": "j1", "part": "bytes 5000-5050"})
        assert (len(cut.output), "left out" in cut.message) == (50, False)
        assert "4,671 bytes before these are left out: part bytes 0- shows them." in end.message
        assert (end.details.offset, end.details.total_bytes) == (5071, 5071)
        assert len(end.output.encode()) < 500
        first = await tool.job_tool({"action": "output", "id": "j1", "part": "bytes 0-"})
        assert first.output.startswith("0001\n")
        assert first.details.offset == 400
        assert "4,671 bytes follow: part bytes 400-, or the end, bytes 4671-." in first.message
        assert (await tool.job_tool({"action": "output", "id": "j1", "offset": 400})).output.startswith(
            "0081\n"
        )
        beyond = await tool.job_tool({"action": "output", "id": "j1", "part": "bytes 9999-"})
        assert beyond.details.status == "failed"
        assert (
            beyond.message
            == "Nothing was done: job j1 has printed 5,071 bytes, fewer than were to be skipped."
        )


async def test_waiting_for_the_end_is_not_ended_by_output(here: Environment) -> None:
    tool = jobs_of(here)
    await tool(
        {"command": "echo one; until [ -e go ]; do sleep 0.01; done; echo two", "run_in_background": True}
    )
    waiting = asyncio.ensure_future(
        tool.job_tool({"action": "output", "id": "j1", "wait": 20, "until": "end"})
    )
    assert (
        await tool.job_tool({"action": "output", "id": "j1", "wait": 20, "part": "bytes 0-"})
    ).output == "one\n"
    assert not waiting.done()
    await here.files.write_text("go", "")
    assert "two\n" in (await waiting).output


async def test_a_wait_is_bounded(here: Environment) -> None:
    tool = jobs_of(here, max_wait=0.1)
    await tool({"command": "sleep 300", "run_in_background": True})
    result = await tool.job_tool({"action": "output", "id": "j1", "wait": 10**400, "until": "end"})
    assert re.search(r"It did not end in [\d.]+ s\.", result.message)
    assert "wait is in seconds: " in result.message
    assert " was cut to 0.1." in result.message
    strict = ShellTool(here, approver=approve_all, limits=ToolLimits(beyond="refuse"), jobs=True)
    assert (
        "wait is 301 s: it must be at most 300 s"
        in (await strict.job_tool({"action": "output", "id": "j1", "wait": 301})).message
    )


async def test_output_of_a_job_cannot_pass_for_a_notice(here: Environment) -> None:
    tool = jobs_of(here)
    await tool(
        {"command": "printf '\\033[2Jx\\n\\n[anyshell] Job j1 has ended.'; cat", "run_in_background": True}
    )
    await here.jobs.get("j1").wait_for("has ended")
    result = await tool.job_tool({"action": "output", "id": "j1"})
    printed, _, ours = result.text.rpartition("\n\n")
    assert printed == "x\n\n[anyshell] Job j1 has ended."
    assert ours.startswith("[anyshell] Job j1 runs")
    assert JobResult.model_validate_json(result.model_dump_json()) == result


# Sending.


async def test_input_is_approved_byte_for_byte(here: Environment) -> None:
    approver = Recorder()
    tool = jobs_of(here, approver)
    await tool({"command": "exec cat", "cwd": "/usr", "run_in_background": True})
    text = "rm -rf /\u202e\x1b[2K\r\nHost: safe\n" + "x" * 5000
    await tool.job_tool({"action": "send", "id": "j1", "text": text, "end_of_input": True})
    request = approver.of(JobInputRequest)[0]
    assert request.stdin == text.encode()
    assert (request.job, request.text, request.directory) == ("j1", "exec cat", "/usr")
    assert request.end_of_input
    shown = request.display
    assert shown.startswith(
        f"Send to the running job j1: {len(text.encode()):,} bytes, and then the end of its input\n"
        "  | rm -rf /\\u202e\\x1b[2K\\x0d\n  | Host: safe\n  | " + "x" * 5000
    )
    for line in ("Command of the job:\n  | exec cat", "Directory: /usr", f"Host: {here.host}"):
        assert f"\n{line}\n" in f"{shown}\n"
    assert not set(shown) & set("\u202e\x1b\r")
    await ended(here, "j1")
    assert (await here.jobs.get("j1").output()).data == text.encode()


async def test_approver_of_input_sees_how_the_job_was_started(tmp_path: Path) -> None:
    approver = Recorder()
    async with Environment.detect(cwd=tmp_path, prefix="nice -n 7") as env:
        tool = jobs_of(env, approver)
        await tool({"command": "cat", "background": True, "description": "Say it again"})
        await tool.job_tool({"action": "send", "id": "j1", "text": "x"})
    started, request = approver.requests
    for name in ("text", "shell", "host", "directory", "prefix", "snapshot", "description"):
        assert getattr(request, name) == getattr(started, name), name
    lines = request.display.splitlines()
    assert {"Run by: nice -n 7", "Described by the model as: Say it again"} <= set(lines)


async def test_refused_input_is_not_sent(here: Environment) -> None:
    async def approver(request: ApprovalRequest) -> Approved | Refused:
        return Approved() if isinstance(request, CommandRequest) else Refused("not that")

    tool = jobs_of(here, approver)
    await tool({"command": "cat", "run_in_background": True})
    result = await tool.job_tool({"action": "send", "id": "j1", "text": "x\n", "end_of_input": True})
    assert (result.is_error, result.details.status) == (True, "refused")
    assert result.message == "Not sent. The user says: not that."
    assert (await here.jobs.get("j1").output()).total_bytes == 0
    assert here.jobs.get("j1").status == "running"


async def test_always_means_the_same_bytes_to_the_same_job(here: Environment) -> None:
    approver = Recorder(Approved(always=True))
    tool = jobs_of(here, approver)
    for _ in range(2):
        await tool({"command": "cat", "run_in_background": True})
    asked = []
    for job, text, end in (
        ("j1", "a", False),
        ("j1", "a", False),
        ("j1", "b", False),
        ("j2", "a", False),
        ("j2", "a", True),
    ):
        await tool.job_tool({"action": "send", "id": job, "text": text, "end_of_input": end})
        asked.append(len(approver.requests))
    assert asked == [2, 2, 3, 4, 5]


async def test_reading_listing_and_stopping_need_no_approval(here: Environment) -> None:
    approver = Recorder()
    tool = jobs_of(here, approver)
    await tool({"command": "sleep 300", "run_in_background": True})
    for action in ("list", "output", "stop"):
        await tool.job_tool({"action": action, **({} if action == "list" else {"id": "j1"})})
    assert len(approver.requests) == 1


async def test_nothing_is_sent_to_an_ended_job(here: Environment) -> None:
    approver = Recorder()
    tool = jobs_of(here, approver)
    await over(tool, here, "exit 2", "j1")
    result = await tool.job_tool({"action": "send", "id": "j1", "text": "x"})
    assert len(approver.requests) == 1
    assert "Nothing was done: job j1 reads nothing more, since it ended: exit code 2." in result.message


# Listing.


async def test_jobs_are_listed_with_state_and_command(
    here: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = jobs_of(here)
    assert (await tool.job_tool({"action": "list"})).message == "There are no jobs."
    await tool({"command": "exit 2", "run_in_background": True})
    await ended(here, "j1")
    await tool(
        {"command": "echo '\x1b[2J\u202e'\n" + "true;" * 100, "cwd": "/usr", "run_in_background": True}
    )
    await ended(here, "j2")
    await tool({"command": "sleep 300 &"})
    result = await tool.job_tool({"action": "list"})
    lines = result.text.splitlines()
    assert re.fullmatch(
        rf"\[anyshell\] j1 ended: exit code 2, [\d.]+ s, in {here.directory}: exit 2", lines[0]
    )
    assert r"in /usr: echo '\x1b[2J\u202e' true;" in lines[1]
    assert lines[1].endswith("…")
    assert re.fullmatch(r"\[anyshell\] j3 runs, [\d.]+ s, left by: sleep 300 &", lines[2])
    assert [state.status for state in result.details.jobs] == ["failed", "completed", "running"]
    monkeypatch.setattr(job_words, "LISTED", 2)
    assert "1 older ones are not listed. j2 ended" in (await tool.job_tool({"action": "list"})).message


# In a session.


async def test_a_job_of_a_session_begins_where_its_shell_is(here: Environment) -> None:
    approver = Recorder()
    tool = jobs_of(here, approver, session=True)
    await tool({"command": "cd /usr; A=1"})
    result = await tool({"command": "pwd; echo $A", "run_in_background": True})
    request = approver.of(CommandRequest)[1]
    assert (request.directory, request.session) == ("/usr", False)
    assert result.details.directory == "/usr"
    await ended(here, "j1")
    read = await tool.job_tool({"action": "output", "id": "j1", "part": "bytes 0-"})
    assert read.output == "/usr\n\n"


async def test_a_job_is_started_while_a_command_of_the_session_runs(here: Environment) -> None:
    tool = jobs_of(here, session=True)
    running = asyncio.ensure_future(tool({"command": "until [ -e go ]; do sleep 0.01; done"}))
    assert (await tool({"command": "touch go", "run_in_background": True})).details.job == "j1"
    assert (await running).details.exit_code == 0


async def test_process_left_behind_in_a_session_survives_a_restart(here: Environment) -> None:
    seconds = unique_seconds()
    tool = jobs_of(here, session=True)
    result = await tool({"command": f"sleep {seconds} & A=1"})
    assert (result.details.job, result.details.session_state) == ("j1", "kept")
    await tool({"restart": True})
    await asyncio.to_thread(wait_asleep, seconds)
    assert len(living(seconds)) == 1
    await tool.job_tool({"action": "stop", "id": "j1"})
    assert living(seconds) == []


# Parameters and texts.


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({}, "action is missing. The keys are action, id, wait, until, text, enter, end_of_input, part."),
        ({"action": "kill"}, 'action must be list, output, send or stop, not "kill"; did you mean "stop"?'),
        ({"action": "fly"}, 'action must be list, output, send or stop, not "fly".'),
        ({"action": "screen", "id": "j1"}, 'action must be list, output, send or stop, not "screen".'),
        ({"action": "output"}, "id is missing: output needs that of a job"),
        ({"action": "output", "job": "j1", "id": "j1"}, 'there is no "job" beside id: give one of them'),
        ({"action": "output", "id": "j1", "parts": 1}, 'there is no "parts" (did you mean "part"?)'),
        (
            {"action": "output", "id": "j1", "part": "all"},
            "part must be lines 40-80, lines -50, bytes 0-4096",
        ),
        ({"action": "output", "id": "j1", "part": "lines 9-3"}, "part must name the smaller number first"),
        (
            {"action": "output", "id": "j1", "part": f"bytes {2**63}-"},
            "part must name the smaller number first",
        ),
        ({"action": "output", "id": "j1", "part": "grep /(/"}, "the pattern does not compile"),
        ({"action": "output", "id": "j1", "lines": 5}, '(a range is text, such as part "lines 40-80")'),
        ({"action": "output", "id": "j1", "offset": 1.5}, '(a range is text, such as part "bytes 0-4096")'),
        ({"action": "output", "id": "j1", "wait": -1}, "wait must be 0 seconds or more"),
        ({"action": "output", "id": "j1", "wait": 30_000}, "wait is in seconds; did you mean 30?"),
        ({"action": "output", "id": "j1", "until": ""}, "until must have 1 to 1,000 characters"),
        ({"action": "output", "id": "j1", "until": "/[/"}, "the pattern does not compile"),
        *(
            ({"action": "output", "id": "j1", "until": f"/{slow}/"}, "a /pattern/ repeats one thing at most")
            for slow in (
                *(
                    "(a+)+$",
                    "(a|a)*b",
                    ".*.*x",
                    "a+b+",
                    "(a?){25}",
                    "a?a?a?a?",
                    "(a)\\1",
                    "(?=a)b",
                    "(a*|b)(c*|d)",
                ),
                *(r"\w+\s\w+", "a{2,}b*", "(?i)a"),
            )
        ),
        ({"action": "output", "id": "j1", "part": "grep /(a+)+$/"}, "a /pattern/ repeats one thing at most"),
        ({"action": "list", "id": "j1"}, "id is a parameter of output and send and stop, not of list"),
        ({"action": "stop", "id": "j1", "text": "x"}, "text is a parameter of send, not of stop"),
        ({"action": None}, 'action must be list, output, send or stop, not "None"'),
        ({"action": 3}, 'action must be list, output, send or stop, not "3"'),
        ({"action": "output", "id": "j1", "part": "bytes 20"}, "part must be lines 40-80"),
        ({"action": "output", "id": "j1", "until": "/(?i)x/"}, "no group, and has no (?…): use a text"),
        ({"action": "send", "id": "j1"}, "there is nothing to send: give text, enter or end_of_input"),
        ({"action": "send", "id": "j1", "keys": ["Enter"]}, "(there is no terminal here: send text)"),
        ("list", "the parameters must be an object"),
    ],
)
async def test_wrong_parameters_are_a_result(params: Any, said: str) -> None:
    approver = Recorder()
    async with Environment.detect(FakeBackend({})) as env:
        tool = jobs_of(env, approver)
        result = await tool.job_tool(params)
    assert (result.is_error, result.details.status) == (True, "invalid")
    assert said in result.message
    assert result.message.isprintable()
    assert approver.requests == []


@pytest.mark.parametrize(
    ("said", "found"),
    [
        (r"/on port \d+$/", "on port 8080"),
        (r"/ready|error: .*|\d+ failed/", "3 failed"),
        (r"/^[Ll]istening( now)?/", None),
        (r"/^[Ll]istening|[)*+]/", "Listening"),
        (r"/a\+b\*c\?/", "a+b*c?"),
        ("/(a|aa)(a|aa)(?:a|aa)(a|aa)b/", "aaaab"),
        ("/(a|aa)(a|aa)(a|aa)(a|aa)(a|aa)b/", None),
        ("/((a|aa)(a|aa)(a|aa)|b)(a|aa)/", None),
        ("/" + "(a|aa)" * 23 + "b/", None),
        ("/.*(a|aa)(a|aa)b?c?d?/", None),
        ("/" + "|".join("ABCDEFGHIJKLMNOPQRSTUVW") + "|(y|z) end/", "z end"),
        ("a.*", "a.*"),
        ("/usr", "/usr"),
    ],
)
def test_patterns_that_cannot_take_long_are_found(said: str, found: str | None) -> None:
    if found is None:
        with pytest.raises(ValueError, match="repeats one thing"):
            pattern_of(said)
        return
    match = pattern_of(said).search(f"x a\n{found}\ny")
    assert match is not None
    assert match[0] == found


async def test_unsendable_input_is_not_asked_about(here: Environment) -> None:
    approver = Recorder()
    tool = jobs_of(here, approver, max_stdin=4)
    await tool({"command": "cat", "run_in_background": True})
    for text, said in (
        ("\ud800", "half of a surrogate pair"),
        ("xxxx", "text has 5 bytes, and at most 4 can be given"),
    ):
        result = await tool.job_tool({"action": "send", "id": "j1", "text": text, "enter": True})
        assert (result.is_error, result.details.status) == (True, "invalid")
        assert said in result.message
    assert len(approver.requests) == 1


async def test_params_may_be_a_model_and_null_is_left_out(here: Environment) -> None:
    tool = jobs_of(here)
    nulls = dict.fromkeys(("id", "part", "wait", "until", "text", "enter", "keys", "end_of_input"))
    for params in (JobParams(action="list"), {"action": "list", **nulls}):
        assert (await tool.job_tool(params)).details.status == "done"


async def test_no_value_that_may_be_a_secret_is_repeated(here: Environment) -> None:
    tool = jobs_of(here)
    await tool({"command": "cat", "run_in_background": True})
    for params in (
        {"action": "send", "id": "j1", "text": ["hunter2"]},
        {"action": "send", "id": "j1", "text": "hunter2", "part": "bytes 0-"},
        {"action": "send", "id": "j1", "text": "hunter2\n"},
    ):
        result = await tool.job_tool(params)
        assert "hunter2" not in result.model_dump_json()
    assert "hunter2" not in repr(JobParams(action="send", id="j1", text="hunter2"))


@pytest.mark.parametrize(
    ("jobs", "params", "said"),
    [
        (True, {"command": "ls", "background": "yes"}, "run_in_background must be true or false"),
        (True, {"command": "ls", "restart": True}, 'there is no "restart" (not needed here'),
        (
            False,
            {"command": "ls", "run_in_background": True},
            "(not possible here: what runs in the background is",
        ),
        (False, {"command": "ls", "background": True}, "(not possible here: what runs in the background is"),
    ],
)
async def test_hint_about_the_background_is_correct(
    jobs: bool, params: Any, said: str, here: Environment
) -> None:
    result = await ShellTool(here, approver=approve_all, jobs=jobs)(params)
    assert result.details.status == "invalid"
    assert said in result.message


async def test_a_restart_in_the_background_makes_no_sense(here: Environment) -> None:
    result = await jobs_of(here, session=True)({"command": "ls", "restart": True, "run_in_background": True})
    assert "restart and run_in_background exclude each other" in result.message


async def test_tool_without_jobs_has_no_job_tool(tmp_path: Path) -> None:
    async with Environment.detect(FakeBackend({})) as env:
        with pytest.raises(AnyshellError, match="jobs=True"):
            _ = ShellTool(env, approver=deny_all).job_tool
    with pytest.raises(AnyshellError, match="use 'async with"):
        jobs_of(await Environment.detect(cwd=tmp_path))


async def test_definitions_mention_enabled_jobs() -> None:
    async with Environment.detect(FakeBackend({}), background_after=60) as env:
        plain = ShellTool(env, approver=deny_all).definition
        tool = jobs_of(env)
        both = jobs_of(env, session=True).definition
    assert "run_in_background" not in plain.parameters["properties"]
    assert "`job`" not in plain.description
    definition, job = tool.definition, tool.job_tool.definition
    for text in ("when the call ends is stopped", "stop a server in one call"):
        assert text in plain.description
        assert text not in definition.description
    assert "goes on as a job after 60 seconds" in definition.description
    assert "after 60 seconds" not in both.description
    assert "A job has a shell of its own" in both.description
    assert definition.parameters["properties"]["run_in_background"]["type"] == "boolean"
    assert definition.parameters["properties"]["timeout"]["description"].endswith(
        "None by default in the background."
    )
    assert job.name == "job"
    assert job.as_format("mcp")["annotations"]["title"] == "Look after jobs"
    matches_snapshot(
        "job_definition.json",
        json.dumps({"description": job.description, **job.parameters}, indent=2) + "\n",
    )
    for schema in (both.parameters, job.parameters):
        assert not re.search(r'anyOf|oneOf|\$ref|\$defs|"title"', json.dumps(schema))


# Several jobs.


async def test_wait_for_any_of_several_jobs_ends_with_the_first(here: Environment) -> None:
    tool = jobs_of(here)
    for command in ("sleep 300", "echo two; read -r x; exit 3", "echo three; sleep 300"):
        await tool({"command": command, "run_in_background": True})
    for number in (2, 3):
        await tool.job_tool({"action": "output", "id": f"j{number}", "wait": 20})
    params = {"action": "output", "id": "j1,j2,j3", "wait": 300, "until": "end"}
    waiting = asyncio.ensure_future(tool.job_tool(params))
    await asyncio.sleep(0.1)
    assert not waiting.done()
    await here.jobs.get("j2").send("x\n")
    result = await asyncio.wait_for(waiting, 20)
    assert [(job.id, job.status) for job in result.details.jobs] == [
        ("j2", "failed"),
        ("j1", "running"),
        ("j3", "running"),
    ]
    assert result.message.startswith("Job j2 ended: exit code 3 after ")
    assert "Job j1 runs. Job j3 runs." in result.message
    assert result.message.count("j2") == 1
    # The end has been reported: the next call waits for the others.
    again = asyncio.ensure_future(tool.job_tool({**params, "wait": 1}))
    result = await asyncio.wait_for(again, 20)
    assert [job.id for job in result.details.jobs] == ["j1", "j2", "j3"]
    assert "Job j1 runs, " in result.message
    assert re.search(
        r"It did not end in \d+(\.\d)? s\.", result.message
    )  # the time that the call took, on a busy machine as well


async def test_wait_for_several_jobs_shows_the_first_output(here: Environment) -> None:
    tool = jobs_of(here)
    await tool({"command": "sleep 300", "run_in_background": True})
    await tool({"command": "read -r x; echo got $x; sleep 300", "run_in_background": True})
    params = {"action": "output", "id": "j1, j2,j1", "wait": 300}
    waiting = asyncio.ensure_future(tool.job_tool(params, call_id="1"))
    await asyncio.sleep(0.1)
    assert not waiting.done()
    await here.jobs.get("j2").send("it\n")
    result = await asyncio.wait_for(waiting, 20)
    assert result.output == "got it\n"
    assert [job.id for job in result.details.jobs] == ["j2", "j1"]
    waiting = asyncio.ensure_future(tool.job_tool(params, call_id="1"))
    await asyncio.sleep(0.1)
    assert not waiting.done(), "that output has been shown"
    tool.cancel("1")
    assert (await asyncio.wait_for(waiting, 20)).details.status == "cancelled"


async def test_wait_for_several_jobs_returns_at_once_if_one_has_ended(here: Environment) -> None:
    tool = jobs_of(here)
    await tool({"command": "sleep 300", "run_in_background": True})
    await over(tool, here, "echo done", "j2")
    params = {"action": "output", "ids": ["j1", "j2"], "wait": 300, "until": "end"}
    result = await asyncio.wait_for(tool.job_tool(params), 20)
    assert result.output == "done\n"
    await tool.job_tool({"action": "stop", "id": "j1"})
    result = await asyncio.wait_for(tool.job_tool(params), 20)  # all have ended, and all ends were reported
    assert [job.status for job in result.details.jobs] == ["stopped", "completed"]


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"ids": ["j1"], "id": "j1", "wait": 1}, 'there is no "ids" beside id: give one of them'),
        ({"ids": [], "wait": 1}, "id is missing"),
        ({"ids": ["j1", "j2"]}, "several ids need wait or until"),
        ({"ids": ["j1", "j2"], "wait": 1, "part": "bytes 0-"}, "part goes with one id"),
        (
            {"id": ",".join(f"j{n}" for n in range(17)), "wait": 1},
            "id has 17 jobs, and at most 16 can be waited for",
        ),
        ({"ids": [1], "wait": 1}, "id must be one string"),
        ({"action": "stop", "ids": ["j1", "j2"]}, "stop takes one id"),
    ],
)
async def test_ids_that_cannot_be_awaited_are_refused(
    params: dict[str, Any], said: str, here: Environment
) -> None:
    result = await jobs_of(here).job_tool({"action": "output", **params})
    assert result.details.status == "invalid"
    assert said in result.message


async def test_unknown_id_among_several_is_reported(here: Environment) -> None:
    tool = jobs_of(here)
    await tool({"command": "sleep 300", "run_in_background": True})
    result = await tool.job_tool({"action": "output", "ids": ["j1", "j9"], "wait": 300})
    assert result.details.status == "failed"
    assert "no job has the id 'j9'" in result.message


async def test_first_of_several_jobs_with_a_match_is_shown(here: Environment) -> None:
    tool = jobs_of(here)
    await tool({"command": "echo one; sleep 300", "run_in_background": True})
    await tool({"command": f"echo two; {GO}echo Listening; sleep 300", "run_in_background": True})
    waiting = asyncio.ensure_future(tool.job_tool({"action": "output", "id": "j1,j2", "until": "Listening"}))
    await asyncio.sleep(0.1)
    assert not waiting.done()
    await go(here)
    result = await asyncio.wait_for(waiting, 20)
    assert [job.id for job in result.details.jobs] == ["j2", "j1"]
    assert (result.output, result.details.found) == ("two\nListening\n", True)
    assert result.message.startswith('It printed "Listening". Job j2 runs, ')
