"""A command that is silent for too long, in every way to run commands."""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Any

import pytest

import anyshell
from anyshell import (
    CommandFailed,
    Environment,
    Fleet,
    InvalidCommand,
    Outcome,
    ShellTool,
    Terminal,
    ToolLimits,
    approve_all,
)
from anyshell.cli.commands.fleet.folding import describe
from anyshell.testing import FakeBackend, Script
from anyshell.tool import words
from anyshell.tool.jobs import words as job_words

from .cli_program import anyshell as anyshell_program
from .processes import living, unique_seconds

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from anyshell._types import Channel

pytestmark = pytest.mark.anyio


@pytest.fixture
async def here(tmp_path: Path, anyio_backend: str) -> AsyncIterator[Environment]:
    """This machine alone."""
    async with Environment.detect(cwd=tmp_path) as env:
        yield env


def is_silent(outcome: Outcome | None, silence: float) -> bool:
    return outcome is not None and (outcome.status, outcome.silence) == ("timed_out", silence)


TALKS = "for i in 1 2 3 4 5 6 7 8 9 10; do echo $i; sleep 0.5; done"
"""A text that runs longer than a silence of 4 s, and is never silent that long."""


# Definition of silence.


async def test_silent_command_is_stopped_with_its_descendants(env: Environment) -> None:
    seconds = unique_seconds()
    outcome = await env.run(f"echo begun; sleep {seconds} & sleep {seconds}", silence=2, timeout=60)
    assert is_silent(outcome, 2)
    assert outcome.output.text.startswith("begun\n")
    assert living(seconds) == []
    with pytest.raises(CommandFailed, match=r"timed out: it printed nothing for 2 s"):
        outcome.check()


async def test_output_ends_the_silence(env: Environment) -> None:
    outcome = await env.run(TALKS, silence=4)
    assert (outcome.status, outcome.exit_code, outcome.silence) == ("exited", 0, None)


@pytest.mark.parametrize("end", ["exit 3", "sleep 300"])
async def test_command_that_ends_otherwise_has_no_silence(end: str, here: Environment) -> None:
    outcome = await here.run(end, silence=60, timeout=1)
    assert outcome.status == ("exited" if end == "exit 3" else "timed_out")
    assert outcome.silence is None


async def test_stderr_apart_counts_as_output(here: Environment) -> None:
    outcome = await here.run(f"({TALKS}) >&2", silence=4, split_stderr=True)
    assert outcome.exit_code == 0


async def test_input_ends_the_silence(here: Environment) -> None:
    async def slowly() -> AsyncIterator[bytes]:
        for _ in range(10):
            await asyncio.sleep(0.5)
            yield b"x\n"

    outcome = await here.run("cat >/dev/null", stdin=slowly(), silence=4)
    assert outcome.exit_code == 0


async def test_input_source_without_data_is_silence(here: Environment) -> None:
    async def never() -> AsyncIterator[bytes]:
        await asyncio.sleep(300)
        yield b""

    assert is_silent(await here.run("cat", stdin=never(), silence=0.3), 0.3)


async def test_output_that_a_listener_holds_up_is_no_silence(here: Environment) -> None:
    """The program waits for room in its pipe the whole time."""
    heard: list[int] = []

    async def slow(channel: Channel, data: bytes) -> None:
        heard.append(len(data))
        if len(heard) == 1:
            await asyncio.sleep(5)

    outcome = await here.run("head -c 1000000 /dev/zero", silence=3, listener=slow)
    assert (outcome.exit_code, outcome.output.total_bytes) == (0, 1_000_000)
    assert sum(heard) == 1_000_000


async def test_blocked_event_loop_reads_output_before_judging_silence(here: Environment) -> None:
    async def block() -> None:
        await asyncio.sleep(0.3)
        time.sleep(5)

    blocking = asyncio.ensure_future(block())
    outcome = await here.run("for i in $(seq 20); do echo $i; sleep 0.4; done", silence=4)
    await blocking
    assert outcome.exit_code == 0


async def test_silence_after_the_end_does_not_count(here: Environment) -> None:
    """The process left behind holds the output, and is silent."""
    outcome = await here.run("sleep 300 & exit 4", silence=30)
    assert (outcome.exit_code, outcome.silence) == (4, None)


async def test_time_before_the_start_is_no_silence() -> None:
    class Slow(FakeBackend):
        async def spawn(self, spawn: Any) -> Any:
            await asyncio.sleep(0.5)
            return await super().spawn(spawn)

    env = await Environment.detect(Slow(lambda _: Script()))
    assert (await env.run("true", silence=0.1)).exit_code == 0


async def test_command_without_silence_limit_is_not_timed(here: Environment) -> None:
    outcome = await here.run("sleep 0.5", timeout=None)
    assert outcome.exit_code == 0


async def test_unstoppable_silent_command_reports_its_silence() -> None:
    env = await Environment.detect(FakeBackend(lambda _: Script(exit=None, heeds=frozenset())))
    outcome = await env.run("true", silence=0.05, grace=0.05)
    assert outcome.silence == 0.05


# Every way to run a command.


@pytest.mark.parametrize("silence", [0, -1, True, "1", float("nan"), float("inf")], ids=str)
async def test_bad_silence_is_refused_everywhere(silence: Any, here: Environment) -> None:
    with pytest.raises(InvalidCommand, match="silence"):
        await here.run("true", silence=silence)
    with pytest.raises(InvalidCommand, match="silence"):
        await here.start("true", silence=silence)
    with pytest.raises(InvalidCommand, match="silence"):
        here.terminal("true", silence=silence)
    with pytest.raises(InvalidCommand, match="silence"):
        await here.session().run("true", silence=silence)
    with pytest.raises(InvalidCommand, match="silence"):
        ShellTool(here, approver=approve_all, silence=silence)
    with pytest.raises(InvalidCommand, match="silence"):
        async with Fleet(["local"]) as fleet:
            fleet.run("true", silence=silence)
    with pytest.raises(InvalidCommand, match="only cwd, env and reach"):
        await here.start("true", detach=True, silence=1)  # type: ignore[call-overload]  # bad input is the point


def test_silent_blocking_run_is_stopped() -> None:
    assert is_silent(anyshell.run("sleep 300", silence=0.3), 0.3)


async def test_silent_stream_is_stopped(here: Environment) -> None:
    async with here.stream("echo a; sleep 300", silence=4) as events:
        assert [event.text async for event in events] == ["a"]
    assert is_silent(events.outcome, 4)


async def test_session_keeps_its_state(env: Environment) -> None:
    async with env.session() as session:
        await session.run("X=1")
        outcome = await session.run("echo a; sleep 300", silence=0.5)
        assert is_silent(outcome, 0.5)
        assert outcome.session is not None
        assert outcome.session.state == "kept"
        assert (await session.run("echo $X", silence=20)).output.text == "1\n"


async def test_wait_for_the_turn_of_a_session_is_no_silence(here: Environment) -> None:
    async with here.session() as session:
        first = asyncio.ensure_future(session.run("sleep 4"))
        await asyncio.sleep(0)
        assert (await session.run("true", silence=3)).exit_code == 0
        assert (await first).exit_code == 0


async def test_job_that_receives_input_is_not_silent(here: Environment) -> None:
    job = await here.start("cat >/dev/null", silence=4)
    for _ in range(10):
        await asyncio.sleep(0.5)
        await job.send("x\n")
    assert job.ended is None
    assert is_silent(await job.wait(timeout=30), 4)
    assert job.status == "timed_out"
    assert job_words.ended(job) == "was stopped after 4 s without output or input"


async def test_background_command_keeps_its_silence_limit(here: Environment) -> None:
    outcome = await here.run("sleep 300", silence=1, background_after=0.2)
    assert outcome.status == "running"
    assert is_silent(await here.jobs.get(outcome.job or "").wait(timeout=20), 1)


async def test_terminal_that_receives_input_is_not_silent(here: Environment) -> None:
    async with here.terminal("stty -echo; while read -r x; do :; done", silence=4) as t:
        for _ in range(10):
            await asyncio.sleep(0.5)
            await t.send("x\r")
        assert t.running
        assert is_silent(await asyncio.wait_for(t.wait(), 30), 4)


async def test_silence_on_a_terminal_reports_the_prompt(here: Environment) -> None:
    for _ in range(3):
        outcome = await here.run("printf 'Name? '; read -r x", terminal=Terminal(), silence=3)
        assert is_silent(outcome, 3)
        if outcome.waiting is not None:
            break
        # A machine that stands still for half a second before the end has too old an answer, which does not count.
    assert outcome.waiting is not None
    assert outcome.waiting.prompt == "Name? "


async def test_earlier_wait_of_a_terminal_is_forgotten(here: Environment) -> None:
    text = "printf 'Name? '; read -r x; while :; do :; done"
    async with here.terminal(text, silence=5, timeout=60) as t:
        await t.wait_for_input()
        await asyncio.sleep(2)
        await t.send("x\r")
        outcome = await asyncio.wait_for(t.wait(), 30)
    assert is_silent(outcome, 5)
    assert outcome.waiting is None


async def test_fleet() -> None:
    async with Fleet([FakeBackend(lambda _: Script(stdout=[b"a"], exit=None))]) as fleet:
        results = [result async for result in fleet.run("true", silence=0.3)]
    assert is_silent(results[0].outcome, 0.3)
    assert describe(results[0], None) == "silent for 0.3 s, and stopped"


# The tool.


@pytest.mark.parametrize("session", [False, True])
async def test_tool_reports_silence(session: bool, here: Environment) -> None:
    tool = ShellTool(here, approver=approve_all, limits=ToolLimits(grace=0.3), silence=3, session=session)
    result = await tool({"command": "echo a; sleep 300"})
    assert (result.details.status, result.details.silence, result.details.timeout) == ("timed_out", 3, 120)
    assert result.is_error
    assert result.message.startswith("Stopped after 3 s without output; all it started was stopped.")
    assert (await tool({"command": "echo x"})).details.silence is None


async def test_schema_of_the_tool_mentions_silence(here: Environment) -> None:
    def told(**options: Any) -> str:
        tool = ShellTool(here, approver=approve_all, **options)
        text = tool.definition.parameters["properties"]["timeout"]["description"]
        assert isinstance(text, str)
        return text

    assert "without output" not in told()
    assert told(silence=60).endswith(" Stopped as well after 60 s without output.")
    assert told(silence=60, jobs=True, terminals=True).endswith(
        " Stopped as well after 60 s without output, unless run_in_background or pty."
    )


async def test_tool_spares_jobs_and_terminals(here: Environment) -> None:
    tool = ShellTool(here, approver=approve_all, jobs=True, terminals=True, silence=0.2)
    started = await tool({"command": "sleep 1; echo done", "run_in_background": True})
    read = await tool.job_tool({"action": "output", "id": started.details.job, "wait": 20, "until": "end"})
    assert read.output == "done\n"
    asked = await tool({"command": "sleep 1; echo done", "pty": True})
    assert asked.output == "done\n"


def test_message_reports_a_silent_command_killed_without_warning() -> None:
    outcome = Outcome(status="timed_out", silence=5, killed_without_warning=True)
    said = words.ending(outcome, words.RunFacts(timeout=9, limits=ToolLimits(), os="windows"))
    assert "It was not asked to end first" in said
    assert "longer timeout" not in said


# The command line.


def test_run_reports_silence_and_exits_as_after_a_timeout() -> None:
    done = anyshell_program("run", "--silence", "3", "--", "echo a; sleep 300")
    assert (done.returncode, done.stdout) == (124, b"a\n")
    assert done.stderr.decode() == (
        "anyshell: timed out: nothing was printed, and no input given, for 3 s; the command was stopped\n"
    )
    done = anyshell_program("run", "--json", "--silence", "0.5", "--", "echo a; sleep 300")
    told = json.loads(done.stdout)
    assert (done.returncode, told["status"], told["silence"]) == (124, "timed_out", 0.5)


def test_run_refuses_silence_with_background() -> None:
    done = anyshell_program("run", "--background", "--silence", "5", "--", "true")
    assert done.returncode == 2
    assert b"--silence does not go with --background" in done.stderr


def test_fleet_reports_silence() -> None:
    done = anyshell_program("fleet", "--hosts", "local", "--silence", "0.5", "--", "echo a; sleep 300")
    assert done.returncode == 1
    assert b"local: silent for 0.5 s, and stopped" in done.stderr
