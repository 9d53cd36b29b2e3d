"""Jobs: started, adopted, and backgrounded; their output, and their endings.

The contract of every host is tested over all hosts, and host-independent behaviour on this machine only.
"""

from __future__ import annotations

import asyncio
import importlib
import re
import sys
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from anyshell import (
    AnyshellError,
    ArtifactStore,
    BackendError,
    CommandFailed,
    Environment,
    InvalidCommand,
    Job,
    Terminal,
)
from anyshell.errors import JobNotFound, SpawnError
from anyshell.jobs import job as job_module
from anyshell.jobs import processes, registry
from anyshell.testing import FakeBackend, Script

from .conftest import SSH_HOSTS, missing, open_to_all, python_for_all
from .processes import living, open_descriptors, unique_seconds, wait_living
from .ssh_server import SSHD, free_port, openssh, own_name

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from anyshell import Outcome
    from anyshell.abc import Program, Spawn

    from .ssh_server import Server

pytestmark = pytest.mark.anyio

LISTENER = """\
import socket, sys
server = socket.socket()
server.bind(("127.0.0.1", int(sys.argv[1])))
server.listen()
print("listening", flush=True)
while True:
    server.accept()[0].close()
"""


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Environment]:
    """An environment on this machine only."""
    async with Environment.detect(cwd=tmp_path) as environment:
        yield environment


@pytest.fixture
def listener(tmp_path: Path) -> str:
    """A command that listens at the port in its last argument."""
    file = tmp_path / "listener.py"
    file.write_text(LISTENER)
    return f"exec {sys.executable} {file}"


async def ended(job: Job) -> Outcome:
    with anyio.fail_after(20):
        outcome = await job.wait()
    assert outcome is not None
    return outcome


async def whole(job: Job, limit: int) -> tuple[bytes, int]:
    """All readable output of a job, read in pieces up to its end, and the number of missing bytes."""
    data, missing, offset = b"", 0, 0
    while True:
        over = job.status != "running"
        piece = await job.output(offset, limit=limit, wait=0 if over else 10)
        assert piece.offset == offset + piece.omitted_bytes + len(piece.data)
        data, missing, offset = data + piece.data, missing + piece.omitted_bytes, piece.offset
        if over and not piece.data:
            assert offset == piece.total_bytes
            return data, missing


# --- Every host -----------------------------------------------------------------------------------------------


CONTRACT = {
    "an exit code": "echo hi; exit 3",
    "a signal": "kill -KILL $$",
    "both channels": "for i in $(seq 50); do echo o$i; echo e$i >&2; done",
    "bytes": "printf '\\0\\377\\303\\244\\r\\n'",
    "much": "head -c 300000 /dev/zero | tr '\\0' x",
    "a directory": "pwd; cd /; pwd",
    "variables": 'printf "%s;" "$GIVEN" "$PAGER"',
    "a time that is over": "echo so far; sleep 300",
    "no input": "cat; echo the end",
}


async def test_job_has_the_same_outcome_as_a_command(env: Environment) -> None:
    async def compare(text: str) -> None:
        timeout = 3 if "sleep" in text else 20
        how: dict[str, Any] = {"env": {"GIVEN": "v'\n"}, "timeout": timeout, "grace": 0.3}
        running = asyncio.create_task(env.run(text, **how))
        job = await env.start(text, stdin=b"", **how)
        outcome, other = await running, await ended(job)
        assert (other.status, other.exit_code, other.signal) == (
            outcome.status,
            outcome.exit_code,
            outcome.signal,
        )
        shown, printed = other.output, outcome.output
        assert (shown.total_bytes, shown.total_lines, shown.omitted_bytes) == (
            printed.total_bytes,
            printed.total_lines,
            printed.omitted_bytes,
        )
        if not shown.truncated:
            assert shown.text == printed.text
        data, missing = await whole(job, 100_000)
        assert (len(data), missing) == (printed.total_bytes, 0)

    await asyncio.gather(*(compare(text) for text in CONTRACT.values()))


async def test_job_can_separate_stderr(env: Environment) -> None:
    job = await env.start("read line; echo out; echo err >&2; seq 100000 >&2", split_stderr=True)
    await job.send("go\n")
    outcome = await job.wait(timeout=30)
    assert outcome is not None
    assert outcome.stderr is not None
    assert outcome.output.text == "out\n"
    assert outcome.stderr.text.startswith("err\n1\n2\n")
    assert outcome.stderr.total_bytes == 4 + 588_895
    assert (await job.output()).total_bytes == 4 + 4 + 588_895
    with pytest.raises(InvalidCommand, match="terminal"):
        await env.start("true", split_stderr=True, terminal=Terminal())
    with pytest.raises(InvalidCommand, match="detached"):
        await env.start("true", split_stderr=True, detach=True)  # type: ignore[call-overload]  # bad input is the point


async def test_job_becomes_ready_reads_input_and_ends(env: Environment) -> None:
    job = await env.start("echo ready: 42; read line; echo got $line; exit 3", ready=r"ready: (\d+)")
    assert (job.status, job.ready, job.notice) == ("running", True, "")
    assert job.pid is not None
    assert job.ended is None
    first = await job.output()
    assert first.text == "ready: 42\n"
    await job.send("a word\n")
    outcome = await ended(job)
    assert (job.status, job.exit_code, outcome.status) == ("failed", 3, "exited")
    assert (await job.output(since=first.offset)).text == "got a word\n"
    assert outcome.output.text == "ready: 42\ngot a word\n"
    assert job.ended is not None
    assert job.started < job.ended
    assert env.jobs.get(job.id) is job


async def test_stopped_job_leaves_no_process(env: Environment) -> None:
    seconds = unique_seconds()
    job = await env.start(f"setsid sleep {seconds} & (trap '' TERM; sleep {seconds}); :", grace=0.3)
    await asyncio.to_thread(wait_living, f"sleep {seconds}", 2)
    outcome = await job.stop()
    assert (outcome.status, job.status, outcome.left_behind) == ("cancelled", "stopped", ())
    assert living(seconds) == []
    assert (await job.stop()) == outcome


@pytest.mark.parametrize("env", ["local", *SSH_HOSTS], indirect=True)
async def test_processes_left_behind_become_a_job_with_their_output(
    env: Environment, request: pytest.FixtureRequest
) -> None:
    outcome = await env.run("(until [ -e go ]; do sleep 0.01; done; echo later; echo err >&2) & echo started")
    assert (outcome.status, outcome.exit_code, outcome.output.text) == ("exited", 0, "started\n")
    assert outcome.job is not None
    job = env.jobs.get(outcome.job)
    assert (job.status, job.adopted, job.command[:6]) == ("running", True, "(until")
    assert job.pid in {process.pid for process in outcome.left_behind if process.alive}
    await env.files.write("go", b"")
    other = await ended(job)
    assert (job.status, job.exit_code, other.status) == ("completed", None, "exited")
    assert job.pid in {process.pid for process in outcome.left_behind if process.alive}
    if "asyncssh" not in request.node.name:  # the asyncssh server closes a channel at the end of its program
        assert other.output.text == (await job.output()).text == "later\nerr\n"


async def test_closing_stops_started_and_adopted_jobs(env: Environment) -> None:
    seconds = unique_seconds()
    started = await env.start(f"sleep {seconds}; :", grace=0.3)
    adopted = await env.run(f"setsid sleep {seconds} & echo started")
    assert len(living(f"sleep {seconds}")) >= 2
    await env.aclose()
    assert living(seconds) == []
    assert {job.id for job in env.jobs.list()} == {started.id, adopted.job}
    assert {job.status for job in env.jobs.list()} == {"stopped"}


@pytest.mark.parametrize("host", ["local", "openssh as a user"])
async def test_a_port_of_the_host_is_waited_for(
    host: str, ssh_host: Callable[[str], Server], listener: str, tmp_path: Path
) -> None:
    open_to_all(tmp_path)
    port = free_port()
    text = listener.replace(sys.executable, "python3")
    async with Environment.detect(None if host == "local" else ssh_host(host).options()) as env:
        other = await env.start("sleep 300", ready=port, ready_timeout=0.2)
        assert (other.status, other.ready) == ("running", False)
        assert f"port {port}" in other.notice
        job = await env.start(f"{text} {port}", ready=("^listening$", port), ready_timeout=20)
        assert (job.ready, job.notice) == (True, "")
        assert await other.wait_for(port=port, timeout=5)
        again = await env.start("sleep 300", ready=port, ready_timeout=20)
        assert again.ready is False
        assert "was in use" in again.notice


async def test_forbidden_port_check_is_reported() -> None:
    if SSHD is None:
        missing("OpenSSH's server", "install openssh-server")
    with openssh(own_name(), "AllowTcpForwarding no") as server:
        async with Environment.detect(server.options()) as env:
            job = await env.start("sleep 300", ready=free_port(), ready_timeout=20)
            assert (job.status, job.ready) == ("running", False)
            assert "does not let anyshell connect to a port" in job.notice


# --- Starting -------------------------------------------------------------------------------------------------


async def test_failed_start_raises_and_makes_no_job(here: Environment) -> None:
    with pytest.raises(InvalidCommand, match="cwd"):
        await here.start("true", cwd="missing")
    with pytest.raises(InvalidCommand, match="does not compile"):
        await here.start("true", ready="(")
    with pytest.raises(InvalidCommand, match="port"):
        await here.start("true", ready=70_000)
    with pytest.raises(InvalidCommand, match="tuple"):
        await here.start("true", ready=("a", "b"))  # type: ignore[arg-type]  # bad input is the point
    async with Environment.detect(FakeBackend({"true": Script(error="no room")})) as env:
        with pytest.raises(SpawnError, match="no room"):
            await env.start("true")
        assert env.jobs.list() == ()
    assert here.jobs.list() == ()


async def test_unentered_environment_has_no_jobs() -> None:
    env = await Environment.detect()
    with pytest.raises(AnyshellError, match="async with"):
        await env.start("true")
    with pytest.raises(AnyshellError, match="async with"):
        await env.run("true", left_behind="adopt")
    outcome = await env.run("sleep 300 & echo started")
    assert (outcome.job, [process.alive for process in outcome.left_behind]) == (None, [False])
    await env.aclose()


async def test_job_over_the_limit_is_refused_with_advice() -> None:
    async with Environment.detect(max_jobs=2) as env:
        left = await env.run("sleep 300 & true")
        jobs = [await env.start("sleep 300") for _ in range(2)]
        with pytest.raises(AnyshellError, match=r"\(j2, j3\): wait for one, or stop one"):
            await env.start("true")
        await jobs[0].stop()
        await ended(await env.start("true"))
        assert env.jobs.get(left.job or "").status == "running"


@pytest.mark.parametrize(("name", "value"), [("max_jobs", 0), ("max_jobs", 1.5), ("background_after", 0)])
def test_a_malformed_bound_is_refused(name: str, value: Any) -> None:
    with pytest.raises(InvalidCommand, match=name):
        Environment.detect(**{name: value})


async def test_a_job_has_a_deadline(here: Environment) -> None:
    job = await here.start("echo hi; sleep 300", timeout=2, grace=0.3)
    outcome = await ended(job)
    assert (job.status, outcome.status, outcome.output.text) == ("timed_out", "timed_out", "hi\n")


async def test_cancelled_start_leaves_no_process(here: Environment) -> None:
    seconds = unique_seconds()
    task = asyncio.create_task(here.start(f"sleep {seconds}; :", ready="never", grace=0.3))
    while not living(seconds):
        await anyio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert living(seconds) == []
    assert [job.status for job in here.jobs.list()] == ["stopped"]


# --- Readiness ------------------------------------------------------------------------------------------------


async def test_job_not_ready_in_time_runs_on_with_a_notice(here: Environment) -> None:
    job = await here.start("echo hi; sleep 300", ready="bye", ready_timeout=0.1)
    assert (job.status, job.ready) == ("running", False)
    assert "did not print" in job.notice
    assert "goes on" in job.notice


async def test_job_that_ends_before_ready_has_a_notice(here: Environment) -> None:
    job = await here.start("echo broken; exit 1", ready="ready", ready_timeout=20)
    assert (job.status, job.ready) == ("failed", False)
    assert "ended before it was ready" in job.notice


async def test_ready_is_unset_by_default(here: Environment) -> None:
    job = await here.start("true")
    assert (job.ready, job.notice) == (None, "")


# --- Waiting --------------------------------------------------------------------------------------------------


async def test_cancelling_a_wait_does_not_stop_the_job(here: Environment) -> None:
    job = await here.start("sleep 300")
    for waiting in (job.wait(), job.wait_for("never"), job.wait_for(idle=100)):
        with anyio.move_on_after(0.02) as scope:
            await waiting
        assert scope.cancelled_caught
    assert (job.status, job.outcome, await job.wait(timeout=0)) == ("running", None, None)


async def test_stop_can_shorten_but_not_lengthen_the_grace(here: Environment) -> None:
    job = await here.start("trap '' TERM; echo deaf; while :; do sleep 0.05; done", grace=30, ready="deaf")
    with pytest.raises(InvalidCommand, match="at most 30 s"):
        await job.stop(grace=31)
    with anyio.fail_after(10):
        outcome = await job.stop(grace=0)
    assert (job.status, outcome.signal) == ("stopped", "SIGKILL")


async def test_pattern_is_found_across_pieces(here: Environment) -> None:
    backend = FakeBackend({"serve": Script(exit=None)})
    async with Environment.detect(backend) as env:
        job = await env.start("serve")
        waiting = asyncio.create_task(job.wait_for(r"port (\d+)"))
        for piece in (b"on \x1b[1mpo", b"rt 5\x1b[", b"0m1", b"73"):
            backend.processes[0].print(piece)
            await asyncio.sleep(0)
        match = await waiting
        assert match is not None
        assert match[1] == "5173"


async def test_earlier_output_is_searched_unless_excluded(here: Environment) -> None:
    job = await here.start("echo one; cat", ready="^one$")
    assert await job.wait_for("one", timeout=0)
    offset = (await job.output()).offset
    assert await job.wait_for("one", since=offset, timeout=0) is None
    await job.send("one more\n")
    match = await job.wait_for(re.compile("one.*"), since=offset, timeout=20)
    assert match is not None
    assert match[0] == "one more"


async def test_a_wait_is_over_when_the_job_ends(here: Environment) -> None:
    job = await here.start("printf 'the end'")
    assert await job.wait_for("end$", timeout=20)
    assert await job.wait_for("never", timeout=20) is None
    assert await job.wait_for(idle=60, timeout=20) is False
    assert await job.wait_for(port=free_port(), timeout=20) is False


async def test_silent_job_is_idle_and_printing_job_is_not(here: Environment) -> None:
    silent = await here.start("echo hi; sleep 300")
    assert await silent.wait_for(idle=0.05, timeout=20) is True
    loud = await here.start("yes")
    assert await loud.wait_for("y\n")
    assert await loud.wait_for(idle=10, timeout=0.1) is False


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"pattern": "a", "port": 80},
        {"pattern": "("},
        {"pattern": b"a"},
        {"pattern": "a", "since": 1},
        {"port": 0},
        {"port": True},
        {"idle": 0},
        {"idle": "a"},
        {"pattern": "a", "timeout": -1},
    ],
)
async def test_invalid_wait_is_refused(how: dict[str, Any]) -> None:
    async with Environment.detect(FakeBackend({"serve": Script(exit=None)})) as env:
        job = await env.start("serve")
        with pytest.raises(InvalidCommand):
            await job.wait_for(**how)


async def test_failed_port_check_makes_a_job_not_ready() -> None:
    class Shut(FakeBackend):
        async def connects(self, port: int) -> bool:
            raise BackendError("not allowed here")

    async with Environment.detect(Shut({"serve": Script(exit=None)})) as env:
        job = await env.start("serve", ready=80)
        assert (job.ready, job.status) == (False, "running")
        assert "not allowed here" in job.notice
        with pytest.raises(BackendError, match="not allowed"):
            await job.wait_for(port=80)


# --- Input ----------------------------------------------------------------------------------------------------


async def test_closed_input_refuses_further_input(here: Environment) -> None:
    job = await here.start("cat; read more || echo over; exec sleep 300")
    await job.send("one\n")
    await job.send(b"two\n", close=True)
    assert await job.wait_for("one\ntwo\nover")
    with pytest.raises(AnyshellError, match="reads nothing more"):
        await job.send("three\n")
    await job.stop()
    with pytest.raises(AnyshellError, match=r"has ended \(stopped\)"):
        await job.send("four\n")


async def test_given_input_refuses_further_input(here: Environment) -> None:
    job = await here.start("cat; exec sleep 300", stdin="given")
    assert await job.wait_for("given")
    with pytest.raises(AnyshellError, match="settled when it began"):
        await job.send("more")
    for nonsense in (5, "a\0b", "\ud800"):
        with pytest.raises(InvalidCommand, match="data"):
            await job.send(nonsense)  # type: ignore[arg-type]  # bad input is the point


async def test_unread_input_refuses_further_input(here: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_module, "SEND_SECONDS", 0.05)
    job = await here.start("until [ -e go ]; do sleep 0.01; done; wc -c")
    assert not await job.send("x" * 200_000)
    with pytest.raises(AnyshellError, match="nothing more was sent"):
        await job.send("y")
    await here.files.write("go", b"")
    monkeypatch.setattr(job_module, "SEND_SECONDS", 20)
    assert await job.send("", close=True)
    assert (await ended(job)).output.text.strip() == "200000"


async def test_job_that_ends_early_may_have_read_part_of_the_input(here: Environment) -> None:
    job = await here.start("read line; echo got $line")
    with pytest.raises(AnyshellError, match="may have read part of it"):
        await job.send("one\n" + "x" * 300_000)
    assert (await ended(job)).output.text == "got one\n"


# --- Output ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [7, 1000, 200_000])
async def test_reading_by_offset_neither_skips_nor_repeats_output(here: Environment, limit: int) -> None:
    count = 300 if limit == 7 else 100_000
    job = await here.start(f"seq {count} | sed 's/$/ \xe4\u20ac/'")
    data, missing = await whole(job, limit)
    expected = "".join(f"{n} \xe4\u20ac\n" for n in range(1, count + 1)).encode()
    assert (data, missing) == (expected, 0)


async def test_pieces_of_text_split_no_character(here: Environment) -> None:
    job = await here.start("printf '\\303\\244\\342\\202\\254'; sleep 300")
    texts: list[str] = []
    offset = 0
    while len(texts) < 2:
        piece = await job.output(offset, limit=4, wait=20)
        texts.append(piece.text)
        offset = piece.offset
    assert texts == ["\xe4", "\u20ac"]


async def test_unfinished_character_is_shown_at_the_end(here: Environment) -> None:
    job = await here.start("printf 'a\\303'; until [ -e go ]; do sleep 0.01; done")
    assert (await job.output(wait=20)).data == b"a"
    await here.files.write("go", b"")
    await ended(job)
    assert (await job.output(1)).text == "\ufffd"


async def test_complete_output_is_kept_once(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path / "artifacts")
    async with Environment.detect(artifacts=store) as env:
        job = await env.start("seq 200000")
        outcome = await ended(job)
        assert outcome.output.artifact is not None
        assert str(outcome.output.artifact.path) in outcome.output.text
        expected = "".join(f"{n}\n" for n in range(1, 200_001)).encode()
        assert outcome.output.artifact.path.read_bytes() == expected
        assert [entry.id for entry in store.list()] == [outcome.output.artifact.id]
        assert (await whole(job, 100_000)) == (expected, 0)
        store.prune(max_total=0)
        assert (await whole(job, 100_000)) == (b"", len(expected))


async def test_output_over_the_artifact_limit_is_counted(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path / "artifacts", max_size=1_000_000)
    async with Environment.detect(artifacts=store) as env:
        job = await env.start("head -c 5000000 /dev/zero | tr '\\0' x; echo the end")
        await ended(job)
        data, missing = await whole(job, 100_000)
        assert len(data) + missing == 5_000_008
        assert 0 < len(data) <= 1_000_000
        assert data.endswith(b"x the end\n"[2:])
        assert [entry.size for entry in store.list()] < [1_001_000]


@pytest.mark.parametrize("artifacts", ["none", "unusable"])
async def test_output_without_an_artifact_keeps_only_its_end(tmp_path: Path, artifacts: str) -> None:
    (tmp_path / "file").write_text("no directory")
    store = None if artifacts == "none" else ArtifactStore(tmp_path / "file")
    async with Environment.detect(artifacts=store) as env:
        job = await env.start("head -c 5000000 /dev/zero | tr '\\0' x; echo the end")
        outcome = await ended(job)
        assert outcome.output.artifact is None
        assert (outcome.output.artifact_error is None) == (store is None)
        data, missing = await whole(job, 100_000)
        assert len(data) + missing == 5_000_008
        assert data.endswith(b"the end\n")


@pytest.mark.parametrize("how", [{"since": -1}, {"since": 4}, {"since": True}, {"limit": 0}, {"wait": -1}])
async def test_a_malformed_offset_is_refused(how: dict[str, Any]) -> None:
    async with Environment.detect(FakeBackend({"say": Script(stdout=[b"hi\n"])})) as env:
        job = await env.start("say")
        await ended(job)
        with pytest.raises(InvalidCommand):
            await job.output(**how)


# --- Adoption -------------------------------------------------------------------------------------------------


async def test_outcome_of_a_stream_names_the_job(here: Environment) -> None:
    async with here.stream("sleep 300 & echo started") as events:
        assert [event.text async for event in events] == ["started"]
    assert here.jobs.get(events.outcome.job or "").adopted


async def test_adoption_of_a_job_loses_no_output(here: Environment) -> None:
    outcome = await here.run("(until [ -e go ]; do seq 10007; done; echo the end) & sleep 0.01; exit 3")
    await here.files.write("go", b"")
    assert outcome.exit_code == 3
    job = here.jobs.get(outcome.job or "")
    assert (await ended(job)).output.text.endswith("10007\nthe end\n")
    total = outcome.output.total_bytes + (await job.output()).total_bytes
    turn = len("".join(f"{n}\n" for n in range(1, 10_008)))
    assert (total - len("the end\n")) % turn == 0


async def test_separate_channels_of_an_adopted_job_are_readable(here: Environment) -> None:
    text = "(until [ -e go ]; do sleep 0.01; done; echo out; echo err >&2) & echo started"
    outcome = await here.run(text, split_stderr=True)
    await here.files.write("go", b"")
    job = here.jobs.get(outcome.job or "")
    other = await ended(job)
    assert other.stderr is not None
    assert (other.output.text, other.stderr.text) == ("out\n", "err\n")
    assert sorted((await job.output()).text.splitlines()) == ["err", "out"]


async def test_process_left_behind_by_a_job_is_a_job(here: Environment) -> None:
    job = await here.start("sleep 300 & echo started")
    outcome = await ended(job)
    assert job.status == "completed"
    left = here.jobs.get(outcome.job or "")
    assert (left.adopted, left.status) == (True, "running")
    with pytest.raises(AnyshellError, match="settled"):
        await left.send("x")


async def test_adopted_tree_that_ignores_sigterm_is_stopped(here: Environment) -> None:
    seconds = unique_seconds()
    outcome = await here.run(f"(trap '' TERM; sleep {seconds}; :) & (setsid sleep {seconds} &) ; sleep 0.05")
    job = here.jobs.get(outcome.job or "")
    stopped = await job.stop(grace=0.1)
    assert (stopped.status, job.status, job.exit_code, living(seconds)) == ("cancelled", "stopped", None, [])


LEAVES = """\
import os, sys, time

def wait_for(name):
    while not os.path.exists(name):
        time.sleep(0.01)

wait_for("leave")
if "fork" in sys.argv and os.fork():
    sys.exit()
os.setsid()
os.closerange(0, 1024)
open("left", "w").close()
wait_for("end")
"""
"""A program that leaves its session and closes every pipe, directly or in a child."""


@pytest.mark.parametrize("door", ["run", "session"])
async def test_named_process_is_awaited_after_leaving_group_and_pipes(
    env: Environment, tmp_path: Path, door: str
) -> None:
    (tmp_path / "leaves.py").write_text(LEAVES)
    async with env.session() as session:
        run = session.run if door == "session" else env.run
        outcome = await run(f"{python_for_all()} leaves.py & echo $!")
        pid = int(outcome.output.text)
        assert pid in {process.pid for process in outcome.left_behind if process.alive}
        job = env.jobs.get(outcome.job or "")
        await env.files.write("leave", b"")
        with anyio.fail_after(20):
            while not await env.files.exists("left"):
                await anyio.sleep(0.01)
        assert await job.wait(timeout=2 * sum(processes.LOOK_AGAIN)) is None
        assert job.status == "running"
        await env.files.write("end", b"")
        assert ((await ended(job)).status, job.status) == ("exited", "completed")


@pytest.mark.parametrize("door", ["run", "session"])
async def test_daemon_of_an_adopted_job_is_not_awaited(here: Environment, tmp_path: Path, door: str) -> None:
    (tmp_path / "leaves.py").write_text(LEAVES)
    async with here.session() as session:
        run = session.run if door == "session" else here.run
        program = f"leaves.py fork {unique_seconds()}"
        text = f"({python_for_all()} {program}; until [ -e left ]; do sleep 0.01; done) & echo started"
        outcome = await run(text)
        job = here.jobs.get(outcome.job or "")
        await here.files.write("leave", b"")
        assert ((await ended(job)).status, job.status) == ("exited", "completed")
        assert len(living(program)) == 1
        await here.files.write("end", b"")
        with anyio.fail_after(20):
            while living(program):
                await anyio.sleep(0.01)


@pytest.mark.skipif(sys.platform != "linux", reason="this test changes the look of Linux")
async def test_daemon_in_a_session_is_not_awaited_after_a_look_at_an_ending_process(
    here: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process closes its pipes some time before the kernel shows its end: the first look says that it may live."""
    linux_tree = importlib.import_module("anyshell.backends.local.posix.linux.tree").LinuxTree
    (tmp_path / "leaves.py").write_text(LEAVES)
    (tmp_path / "leave").touch()
    really, looks = linux_tree.may_live, iter([True])
    monkeypatch.setattr(linux_tree, "may_live", lambda tree: next(looks, None) or really(tree))
    program = f"leaves.py fork {unique_seconds()}"
    async with here.session() as session:
        outcome = await session.run(f"{python_for_all()} {program}; until [ -e left ]; do sleep 0.01; done")
        assert (outcome.status, outcome.left_behind, outcome.job) == ("exited", (), None)
        assert len(living(program)) == 1
        await here.files.write("end", b"")
        with anyio.fail_after(20):
            while living(program):
                await anyio.sleep(0.01)


# --- Going on -------------------------------------------------------------------------------------------------


async def test_long_command_becomes_a_job_with_its_own_deadline() -> None:
    async with Environment.detect(background_after=2) as env:
        outcome = await env.run("echo so far; read line; sleep 300", timeout=6, grace=0.3)
        assert (outcome.status, outcome.exit_code, outcome.output.text) == ("running", None, "so far\n")
        with pytest.raises(CommandFailed, match=f"still runs, as job {outcome.job}"):
            outcome.check()
        job = env.jobs.get(outcome.job or "")
        assert (job.status, job.adopted) == ("running", False)
        final = await ended(job)
        assert (final.status, final.output.text) == ("timed_out", "so far\n")
        assert final.duration >= 6


async def test_later_output_of_a_backgrounded_command_follows_the_earlier(tmp_path: Path) -> None:
    text = "echo before; until [ -e go ]; do sleep 0.01; done; echo after; exit 3"
    async with Environment.detect(background_after=0.2, cwd=tmp_path) as env:
        outcome = await env.run(text, split_stderr=True)
        assert outcome.stderr is not None
        job = env.jobs.get(outcome.job or "")
        (tmp_path / "go").touch()
        final = await ended(job)
        assert (job.status, final.output.text) == ("failed", "before\nafter\n")
        rest = await job.output(outcome.output.total_bytes)
        assert outcome.output.text + rest.text == "before\nafter\n"


async def test_command_that_ends_in_time_is_not_a_job(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path / "artifacts")
    async with Environment.detect(background_after=60, artifacts=store) as env:
        outcome = await env.run("seq 100000; exit 3")
        assert (outcome.status, outcome.exit_code, outcome.job) == ("exited", 3, None)
        assert outcome.output.artifact is not None
        assert outcome.output.artifact.size == outcome.output.total_bytes
        bar = await env.run(
            "for i in $(seq 2000); do printf '%0500d\\r\\033[K' $i; done; echo done", timeout=20
        )
        assert bar.output.text == "done\n".ljust(5)
        assert bar.output.artifact is not None
        ids = {entry.id for entry in store.list()}
        assert ids == {outcome.output.artifact.id, bar.output.artifact.id}
        assert list(store.directory.glob("*.part")) == []
        with pytest.raises(InvalidCommand, match="cwd"):
            await env.run("true", cwd="missing")
        assert env.jobs.list() == ()


async def test_cancelled_wait_for_a_command_stops_the_command() -> None:
    seconds = unique_seconds()
    async with Environment.detect(background_after=60) as env:
        task = asyncio.create_task(env.run(f"sleep {seconds}; :", grace=0.3))
        while not living(seconds):
            await anyio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert living(seconds) == []
        assert env.jobs.list() == ()


async def test_command_is_awaited_if_the_job_limit_is_reached(tmp_path: Path) -> None:
    async with Environment.detect(background_after=0.05, max_jobs=1, cwd=tmp_path) as env:
        await env.start("sleep 300")
        outcome = await env.run("sleep 0.3; echo done")
        assert (outcome.status, outcome.output.text) == ("exited", "done\n")


# --- What is kept, and told -----------------------------------------------------------------------------------


async def test_old_ended_jobs_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "KEEP_FINISHED", 2)
    async with Environment.detect(FakeBackend({"say": Script(), "serve": Script(exit=None)})) as env:
        await env.start("serve")
        for _ in range(4):
            await ended(await env.start("say"))
        assert [job.id for job in env.jobs.list()] == ["j1", "j4", "j5"]
        with pytest.raises(JobNotFound, match="there are: j1, j4, j5"):
            env.jobs.get("j2")
        monkeypatch.setattr(registry, "KEEP_FINISHED_SECONDS", 0)
        assert [job.id for job in env.jobs.list()] == ["j1"]


async def test_observers_get_progress_at_intervals_and_the_end_once() -> None:
    heard: list[tuple[str, str, str]] = []
    backend = FakeBackend({"serve": Script(exit=None)})
    async with Environment.detect(backend) as env:
        forget = env.jobs.observe(lambda job, text: heard.append((job.id, job.status, text)))
        job = await env.start("serve")
        for number in range(50):
            backend.processes[0].print(b"%d\n" % number)
        await job.wait_for("49")
        backend.processes[0].print(b"\x1b[1m" + b"x" * 10_000)
        backend.processes[0].exit(0)
        await ended(job)
        assert {(told[0], told[1]) for told in heard[:-1]} == {("j1", "running")}
        assert len(heard) <= 4
        assert heard[-1] == ("j1", "completed", "x" * 4096)
        forget()
        forget()
        await ended(await env.start("serve", timeout=0.01, grace=0))
        assert heard[-1][0] == "j1"


async def test_failing_observer_is_removed_and_affects_no_job() -> None:
    calls: list[str] = []
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))

    def observer(job: Job, text: str) -> None:
        calls.append(job.id)
        raise ValueError("broken")

    async with Environment.detect(FakeBackend({"say": Script(stdout=[b"hi\n"])})) as env:
        env.jobs.observe(observer)
        for _ in range(2):
            assert (await ended(await env.start("say"))).status == "exited"
    assert calls == ["j1"]
    assert [type(context["exception"]) for context in reported] == [ValueError]


async def test_failing_input_is_raised_by_wait(here: Environment) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"one"
        raise ValueError("no more")

    job = await here.start("cat; exec sleep 300", stdin=pieces(), grace=0.3)
    with pytest.raises(ValueError, match="no more"):
        await job.wait()
    assert (job.status, job.outcome) == ("lost", None)
    assert "ValueError" in job.notice


async def test_many_jobs_leak_no_resources(here: Environment) -> None:
    async def use(count: int) -> None:
        for _ in range(count):
            await ended(await here.start("echo hi", stdin=b""))
            outcome = await here.run("sleep 300 & true")
            await here.jobs.get(outcome.job or "").stop()

    await use(1)
    before = open_descriptors()
    await use(4)
    assert open_descriptors() <= before
    assert len(asyncio.all_tasks()) <= 2


async def test_backgrounded_command_can_fail_to_start() -> None:
    begin = asyncio.Event()

    class Slow(FakeBackend):
        async def spawn(self, spawn: Spawn) -> Program:
            await begin.wait()
            return await super().spawn(spawn)

    async with Environment.detect(Slow({"true": Script(error="no room")}), background_after=0.01) as env:
        outcome = await env.run("true")
        assert (outcome.status, outcome.started) == ("running", False)
        begin.set()
        job = env.jobs.get(outcome.job or "")
        with pytest.raises(SpawnError, match="no room"):
            await job.wait()
        assert (job.status, job.outcome) == ("lost", None)
        assert "no room" in job.notice


async def test_a_closed_environment_starts_no_job() -> None:
    async with Environment.detect() as env:
        pass
    with pytest.raises(AnyshellError, match="closed"):
        await env.start("true")


async def test_ended_event_loop_stops_every_job() -> None:
    seconds = unique_seconds()

    async def main() -> None:
        env = await Environment.detect().__aenter__()
        await env.start(f"echo up; sleep {seconds}; :", ready="up", grace=0.3)
        await env.run(f"setsid sleep {seconds} & true")
        assert living(seconds)

    await asyncio.to_thread(asyncio.run, main())
    assert living(seconds) == []
