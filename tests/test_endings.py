"""How commands end, by themselves and by anyshell: real process trees, on every real backend."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import getpass
import signal
import sys
import textwrap
import threading
import time
from typing import TYPE_CHECKING, Any

import anyio
import psutil
import pytest

from anyshell import Environment
from anyshell.types import Control

from .conftest import SSH_HOSTS, environment_on, python_for_all, row
from .processes import living, open_descriptors, unique_seconds, wait_asleep, wait_living

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
    from pathlib import Path

    from anyshell import Outcome
    from anyshell._types import LeftBehind
    from anyshell.backends.tree import Tag

    from .ssh_server import Server

assert sys.platform != "win32"  # on other systems mypy skips the code below

pytestmark = pytest.mark.anyio

PYTHON = python_for_all()
DOUBLE_FORK = textwrap.dedent(
    """
    import os, sys, time
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            null = os.open(os.devnull, os.O_RDWR)
            for fd in (0, 1, 2):
                os.dup2(null, fd)
            time.sleep(float(sys.argv[1]))
        os._exit(0)
    time.sleep(float(sys.argv[1]))
    """
)
FORK_TREE = (
    "f() { if [ $1 -gt 1 ]; then f $(($1 / 2)) & f $(($1 - $1 / 2)) & wait; else exec sleep {s}; fi; }; f 200"
)

ENDLESS = {
    "a sleep": "sleep {s}",
    "a pipeline": "sleep {s} | cat",
    "a shell in a shell": "bash -c 'sleep {s}; :'",
    "python": f"{PYTHON} -c 'import time, sys; time.sleep(float(sys.argv[1]))' {{s}}",
    "deaf to TERM": 'trap "" TERM; sleep {s}',
    "nohup": "nohup sleep {s}",
    "setsid beside": "setsid sleep {s} & sleep {s}",
    "setsid behind a subshell": "(setsid sleep {s} &); sleep {s}",
    "setsid deaf to everything": "setsid bash -c 'trap \"\" TERM INT HUP; exec sleep {s}' & wait",
    "a double fork": f"{PYTHON} -c '{DOUBLE_FORK}' {{s}}",
    "closed output": "exec >&- 2>&-; sleep {s}",
    "a flood": "yes {s}",
    "stopped": "kill -STOP $$; : {s}",
    "a tree of 200": FORK_TREE,
    "without environment": "env -i setsid sleep {s} & sleep {s}",
    "deaf, in its own session, without our pipes": (
        f"{PYTHON} -c 'import subprocess, sys; subprocess.Popen("
        '["sh", "-c", "trap \\"\\" TERM; sleep " + sys.argv[1] + "; :"], start_new_session=True)\' {s}; sleep {s}'
    ),
    "deaf, in its own session, without the life pipe": "(trap '' TERM; exec 100>&-; exec setsid sleep {s}) & sleep {s}",
    "another user's, by su": "su nobody -s /bin/sh -c 'exec env -i setsid sleep {s}' & sleep {s}",
    "without descriptors": f"{PYTHON} -c 'import os, sys, time; os.closerange(0, 4096); time.sleep(float(sys.argv[1]))' {{s}}",
}


@pytest.fixture(name="env", params=["local", *SSH_HOSTS])
async def _env(
    request: pytest.FixtureRequest, ssh_host: Callable[[str], Server], tmp_path: Path, anyio_backend: str
) -> AsyncIterator[Environment]:
    """An environment on every server: the end of a tree is part of the contract."""
    async with environment_on(request.param, ssh_host, tmp_path) as environment:
        yield environment


def inner_python(env: Environment) -> str:
    """The Python that has anyshell, if the user of the environment can run that Python."""
    if sys.executable != PYTHON and env.info.user != getpass.getuser():
        pytest.skip("the Python that runs the tests belongs to root alone; root runs this test too")
    return sys.executable


def fill(text: str, seconds: str) -> str:
    return text.replace("{s}", seconds)


async def side_by_side(run: Callable[[str], Awaitable[Any]], texts: Mapping[str, str]) -> dict[str, Any]:
    """Run the texts of a table, five at a time, so that they wait together. Return the outcome of each by its name.

    The processes of the machine are not listed meanwhile: listing blocks the loop, and uses the time in which trees must end.
    """
    at_once = asyncio.Semaphore(5)

    async def one(text: str) -> Any:
        async with at_once:
            return await run(text)

    done = await asyncio.gather(*map(one, texts.values()), return_exceptions=True)
    return dict(zip(texts, done, strict=True))


async def test_a_timeout_stops_the_whole_tree_and_keeps_the_output(env: Environment) -> None:
    marks = {name: unique_seconds() for name in ENDLESS}

    async def run(text: str) -> Outcome:
        # On a busy machine a start takes a second and su several seconds, and a child started during the stop has no mark of its owner yet.
        timeout = 10 if text.startswith("su ") else 2
        return await env.run(f"printf 'so far'; {text}", timeout=timeout, grace=0.3)

    texts = {name: fill(text, marks[name]) for name, text in ENDLESS.items()}
    with anyio.fail_after(50):
        su = "another user's, by su"
        slow = asyncio.create_task(side_by_side(run, {su: texts.pop(su)}))
        # The other commands load the machine: wait at most three seconds before their start.
        for _ in range(30):
            await anyio.sleep(0.1)
            programs = [line.split()[1] for line in living(marks[su])]
            if "sleep" in programs and "su" not in programs:
                break
        # The list of processes is large, and takes time in which other trees must end.
        ended: dict[str, Any] = await side_by_side(run, {"a tree of 200": texts.pop("a tree of 200")})
        ended |= await side_by_side(run, texts)
        ended |= await slow
    alive = living("300.")
    for name, outcome in ended.items():
        with row(name):
            if isinstance(outcome, BaseException):
                raise outcome
            assert outcome.status == "timed_out"
            assert outcome.output.text.startswith("so far")
            assert outcome.left_behind == ()
            assert [line for line in alive if marks[name] in line] == []


BEGUN = 'until pgrep -xf "sleep {s}" >/dev/null; do sleep 0.01; done'
"""A text that waits until the sleep has its name: until then it is a copy of the shell, or the program that starts it."""

LEAVING = [
    f"sleep {{s}} & {BEGUN}; echo started",
    f"nohup sleep {{s}} & {BEGUN}; echo started",
    f"(sleep {{s}}; echo late) & {BEGUN}; echo started",
    f"sleep {{s}} >/dev/null 2>&1 & {BEGUN}; echo started",
    f"setsid sleep {{s}} >/dev/null 2>&1 & {BEGUN}; echo started",
    f"(trap '' TERM; sleep {{s}}) & {BEGUN}; echo started",
]


@pytest.mark.parametrize("left_behind", ["stop", "keep"])
async def test_processes_left_behind_are_named_and_stopped_or_kept(
    env: Environment, left_behind: LeftBehind
) -> None:
    marks = {text: unique_seconds() for text in LEAVING}

    async def run(text: str) -> Outcome:
        return await env.run(text, timeout=60, left_behind=left_behind)

    with anyio.fail_after(40):
        ended = await side_by_side(run, {text: fill(text, mark) for text, mark in marks.items()})
    machine = living("300.")
    for text, outcome in ended.items():
        with row(text):
            if isinstance(outcome, BaseException):
                raise outcome
            assert (outcome.status, outcome.exit_code, outcome.output.text) == ("exited", 0, "started\n")
            assert "sleep" in {process.name for process in outcome.left_behind}
            alive = {int(line.split()[0]) for line in machine if marks[text] in line}
            if left_behind == "stop":
                assert alive == set()
                assert not any(process.alive for process in outcome.left_behind)
                continue
            assert all(process.alive for process in outcome.left_behind)
            kept = {process.pid for process in outcome.left_behind}
            assert alive
            assert alive <= kept
            for pid in kept:
                # A process that waited for another process ends with that process.
                with contextlib.suppress(psutil.NoSuchProcess):
                    psutil.Process(pid).kill()


async def test_kept_process_can_go_on_printing(env: Environment, tmp_path: Path) -> None:
    seconds = unique_seconds()
    loop = "for i in $(seq 20000); do echo $i; done; touch done; sleep {s}"
    outcome = await env.run(f"({fill(loop, seconds)}) & sleep 0.01; echo started", left_behind="keep")
    with anyio.fail_after(20):
        while not (tmp_path / "done").exists():
            await anyio.sleep(0.01)
    assert living(seconds)
    for process in outcome.left_behind:
        if psutil.pid_exists(process.pid):
            psutil.Process(process.pid).kill()


async def test_process_in_another_session_that_holds_output_is_left_behind(env: Environment) -> None:
    seconds = unique_seconds()
    program = (
        "import subprocess, sys; "
        "subprocess.Popen(['sleep', sys.argv[1]], start_new_session=True, stdin=subprocess.DEVNULL)"
    )
    outcome = await env.run(f'{PYTHON} -c "{program}" {seconds}; echo started', left_behind="stop")
    assert (outcome.status, outcome.output.text) == ("exited", "started\n")
    assert [(process.name, process.alive) for process in outcome.left_behind] == [("sleep", False)]
    assert living(seconds) == []


async def test_processes_of_an_unread_stream_are_stopped_at_the_timeout(env: Environment) -> None:
    seconds = unique_seconds()
    async with env.stream(
        f"setsid sleep {seconds} & yes | head -c 5000000", by="chunks", timeout=2, grace=0.3
    ) as events:
        iterator = aiter(events)
        await anext(iterator)
        with anyio.fail_after(20):
            while living(seconds):
                await anyio.sleep(0.01)
        async for _ in iterator:
            pass
    assert events.outcome.status == "timed_out"
    assert events.outcome.left_behind == ()
    assert living(seconds) == []


async def test_processes_left_behind_are_named_after_a_timeout_of_held_output(
    env: Environment,
) -> None:
    """The command has ended by itself, and its output is blocked: only the timeout ends the wait for the output."""
    seconds = unique_seconds()
    held = asyncio.Event()

    async def listen(channel: object, data: bytes) -> None:
        await held.wait()

    with anyio.fail_after(30):
        outcome = await env.run(
            f"setsid sleep {seconds} & echo started", listener=listen, timeout=5, left_behind="stop"
        )
    assert (outcome.status, outcome.exit_code, outcome.output.text) == ("exited", 0, "started\n")
    assert [(process.name, process.alive) for process in outcome.left_behind] == [("sleep", False)]
    assert living(seconds) == []


async def test_background_process_that_ends_in_time_is_not_left_behind(
    env: Environment, request: pytest.FixtureRequest
) -> None:
    for _ in range(5):
        outcome = await env.run("(sleep 0.02; echo late) & echo started")
        if outcome.left_behind != ():
            continue  # on a busy machine, the process may not end in time, and the outcome says so
        if outcome.output.text == "started\nlate\n":
            break
        # The tests' asyncssh server alone closes the channel of a program that has ended, though another one still writes.
        assert "asyncssh" in request.node.name
    assert (outcome.left_behind, outcome.output.text) == ((), "started\nlate\n")


async def test_unmarked_daemon_is_not_stopped_after_a_normal_exit(env: Environment) -> None:
    seconds = unique_seconds()
    daemon = (
        "import os, sys, time\n"
        "there, own = os.pipe()\n"
        "if os.fork(): os.close(own); os.read(there, 1); os._exit(0)\n"  # when it has made itself one
        "os.setsid(); os.closerange(0, own); os.closerange(own + 1, 4096); os.open(os.devnull, os.O_RDWR)\n"
        "os.close(own); time.sleep(float(sys.argv[1]))"
    )
    outcome = await env.run(f"{PYTHON} -c '{daemon}' {seconds}; echo ok")
    assert outcome.output.text == "ok\n"
    assert outcome.left_behind == ()
    wait_living(seconds)
    for line in living(seconds):
        psutil.Process(int(line.split()[0])).kill()


@pytest.mark.parametrize("cancels", [1, 2, 3])
async def test_cancelling_raises_after_the_tree_is_gone(env: Environment, cancels: int) -> None:
    texts = ("sleep {s}", "trap '' TERM; sleep {s}", "(setsid sleep {s} &); sleep {s}")
    marks = {text: unique_seconds() for text in texts}
    tasks = {
        text: asyncio.ensure_future(env.run(fill(text, mark), grace=0.3)) for text, mark in marks.items()
    }
    for mark in marks.values():
        await anyio.to_thread.run_sync(wait_living, mark)
    for _ in range(cancels):
        for task in tasks.values():
            task.cancel()
        await asyncio.sleep(0)
    await asyncio.wait(tasks.values())
    alive = living("300.")
    for text, task in tasks.items():
        with row(text):
            assert task.cancelled()
            assert [line for line in alive if marks[text] in line] == []


async def test_a_second_cancel_skips_the_grace(env: Environment) -> None:
    seconds = unique_seconds()
    task = asyncio.ensure_future(env.run(f"trap '' TERM; sleep {seconds}", grace=3600))
    await asyncio.to_thread(wait_asleep, seconds)
    task.cancel()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(task), 0.1)  # noqa: TID251 - the task goes on, and is awaited below
    task.cancel()
    with anyio.fail_after(20), pytest.raises(asyncio.CancelledError):
        await task
    assert living(seconds) == []


async def test_a_cancel_scope_around_a_run_waits_for_the_tree(env: Environment) -> None:
    seconds = unique_seconds()
    with anyio.move_on_after(0.3):
        await env.run(f"sleep {seconds}", grace=0.3)
    assert living(seconds) == []


def test_ended_event_loop_stops_commands_of_its_tasks(tmp_path: Path) -> None:
    seconds = unique_seconds()

    async def main() -> None:
        env = await Environment.detect(cwd=tmp_path)
        background = asyncio.ensure_future(env.run(f"trap '' TERM; sleep {seconds}", grace=0.3))
        await asyncio.to_thread(wait_living, seconds)
        assert not background.done()

    asyncio.run(main())
    assert living(seconds) == []


async def test_leaving_the_environment_stops_running_commands(tmp_path: Path) -> None:
    seconds = unique_seconds()
    async with Environment.detect(cwd=tmp_path) as env:
        task = asyncio.ensure_future(env.run(f"trap '' TERM; sleep {seconds}"))
        await asyncio.to_thread(wait_living, seconds)
    assert living(seconds) == []
    assert (await task).status == "cancelled"


async def test_inner_anyshell_ends_with_the_outer(env: Environment) -> None:
    seconds = unique_seconds()
    inner = f"import anyshell; anyshell.run('sleep {seconds} & (setsid sleep {seconds} &); wait')"
    task = asyncio.ensure_future(env.run(f'{inner_python(env)} -c "{inner}"', timeout=5, grace=0.3))
    await asyncio.to_thread(wait_living, seconds, 3)
    outcome = await task
    assert outcome.status == "timed_out"
    assert living(seconds) == []


async def test_process_hidden_by_an_inner_anyshell_ends_with_the_outer(
    env: Environment, tmp_path: Path
) -> None:
    """The inner anyshell has its own life pipe, and env -i removes every mark."""
    seconds = unique_seconds()
    (tmp_path / "inner.py").write_text(
        "import anyshell\n"
        f"text = 'trap \"\" TERM; sleep 0.1; (env -i setsid sleep {seconds} &); sleep 0.1'\n"
        "anyshell.run(text, left_behind='keep')\n"
    )
    task = asyncio.ensure_future(env.run(f"{inner_python(env)} inner.py; sleep 300", grace=0.3))
    await asyncio.to_thread(wait_living, seconds)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert living(seconds) == []


async def test_late_tag_is_passed_on_to_children(env: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread has the processor, so that the command starts children before its own tag is set."""
    if sys.platform != "linux" or not env.info.is_this_machine:
        pytest.skip(
            "there are tags on Linux alone, and a host's login shell sets its own before it starts anything"
        )
    import resource

    from anyshell.backends.local.posix.linux import tags, tree

    seconds = unique_seconds()
    make = tags.make_tag

    def late(number: int) -> object:
        wait_living(seconds, 3)
        return make(number)

    monkeypatch.setattr(tree, "make_tag", late)
    task = asyncio.ensure_future(env.run(f"(sleep {seconds}; :) & sleep {seconds}; :", grace=0.3))
    await asyncio.sleep(0.05)  # the start itself blocks the loop; by now the start is over
    pids = [int(line.split()[0]) for line in living(seconds)]
    limits = {resource.prlimit(pid, tags.RLIMIT_LOCKS)[0] for pid in pids}
    task.cancel()
    await asyncio.wait([task])
    assert len(pids) >= 3
    assert len(limits) == 1
    assert limits != {resource.RLIM_INFINITY}


async def test_cancelled_command_keeps_its_exit_code_if_already_ended(
    tmp_path: Path,
) -> None:
    """The event loop has not processed the end yet."""
    if sys.platform != "linux":
        pytest.skip("only /proc tells that a process is a zombie")
    async with Environment.detect(cwd=tmp_path) as env:
        control = Control()
        running = asyncio.ensure_future(env.run("exit 7", control=control))
        while control.process is None:
            await asyncio.sleep(0)
        assert control.process.pid is not None
        while psutil.Process(control.process.pid).status() != psutil.STATUS_ZOMBIE:
            time.sleep(0.001)
        control.cancel()
        outcome = await running
    assert (outcome.status, outcome.exit_code) == ("exited", 7)


async def test_child_hidden_during_late_tagging_is_tagged_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel copies the limits first, and then the memory: only after that is a child in its parent's list."""
    if sys.platform != "linux":
        pytest.skip("there are tags on Linux alone")
    import resource

    from anyshell.backends.local.posix.linux import tags, tree

    seconds = unique_seconds()
    make, tag_children = tags.make_tag, tree._tag_children
    looks = []

    def late(number: int) -> object:
        wait_living(seconds, 3)
        return make(number)

    def at_the_second_look(leader: int, tag: Tag) -> None:
        looks.append(leader)
        if len(looks) > 1:
            tag_children(leader, tag)

    async with Environment.detect(cwd=tmp_path) as env:
        monkeypatch.setattr(tree, "make_tag", late)
        monkeypatch.setattr(tree, "_tag_children", at_the_second_look)
        task = asyncio.ensure_future(env.run(f"(sleep {seconds}; :) & sleep {seconds}; :", grace=0.3))
        while len(looks) < 2:
            await asyncio.sleep(0.01)
        pids = [int(line.split()[0]) for line in living(seconds)]
        limits = {resource.prlimit(pid, tags.RLIMIT_LOCKS)[0] for pid in pids}
        task.cancel()
        await asyncio.wait([task])
    assert len(pids) >= 3
    assert len(limits) == 1
    assert limits != {resource.RLIM_INFINITY}


async def test_process_without_marks_is_stopped_while_its_parent_lives(
    env: Environment, tmp_path: Path
) -> None:
    seconds = unique_seconds()
    (tmp_path / "hide.py").write_text(
        "import os, resource, sys\n"
        "resource.setrlimit(10, (1, 1))\n"
        "os.setsid(); os.closerange(0, 4096)\n"
        "deaf = 'import signal, sys, time; signal.signal(15, signal.SIG_IGN); time.sleep(float(sys.argv[1]))'\n"
        "os.execve(sys.executable, [sys.executable, '-c', deaf, sys.argv[1]], {})\n"
    )
    outcome = await env.run(f"{PYTHON} hide.py {seconds} & sleep 300", timeout=1, grace=0.3)
    assert outcome.status == "timed_out"
    assert living(seconds) == []


async def test_program_ends_by_its_own_trap_within_the_grace(
    env: Environment,
) -> None:
    outcome = await env.run("trap 'echo bye; exit 7' TERM; echo hi; sleep 300 & wait", timeout=2, grace=20)
    assert (outcome.status, outcome.exit_code, outcome.output.text) == ("timed_out", 7, "hi\nbye\n")


async def test_exit_by_signal_is_distinguished_from_an_exit_code(env: Environment) -> None:
    killed = await env.run("kill -KILL $$")
    exited = await env.run("exit 137")
    assert (killed.status, killed.exit_code, killed.signal) == ("exited", None, "SIGKILL")
    assert (exited.status, exited.exit_code, exited.signal) == ("exited", 137, None)


async def test_the_timeout_covers_a_program_that_never_reads_its_input(env: Environment) -> None:
    outcome = await env.run("sleep 300", stdin=b"x" * 10**7, timeout=0.3, grace=0.3)
    assert outcome.status == "timed_out"


BREEDER = textwrap.dedent(
    """
    import os, time, sys
    until = time.time() + 120
    while time.time() < until:
        if os.fork():
            time.sleep(0.001)
            os._exit(0)
        os.setsid()
        with open("beats", "a") as file:
            file.write("x")
    """
)
"""An endless chain of forks for a test. The chain ends by itself after a while, so that a failure does not load the machine."""


@pytest.mark.parametrize(
    "wrapped", ["{breeder} & sleep 300", "{breeder}; sleep 300", "trap '' TERM; {breeder} & sleep 300"]
)
async def test_endless_chain_of_forks_is_stopped(env: Environment, tmp_path: Path, wrapped: str) -> None:
    """No process of the chain lives longer than a scan takes, so the growth of its file shows whether the chain lives."""
    text = wrapped.replace("{breeder}", f"{PYTHON} -c '{BREEDER}'")
    beats = tmp_path / "beats"
    for seconds in (1.2, 5, 20):
        outcome = await env.run(text, timeout=seconds, grace=0.3)
        assert outcome.status == "timed_out"
        if beats.exists():  # the chain has started
            break
    size = beats.stat().st_size
    assert size > 0
    for _ in range(50):
        await anyio.sleep(0.01)
        assert beats.stat().st_size == size


async def test_similar_foreign_process_is_not_signalled(env: Environment) -> None:
    stranger = await asyncio.create_subprocess_exec("sleep", "300", start_new_session=True)
    outcome = await env.run("sleep 300", timeout=0.2, grace=0.2)
    assert outcome.status == "timed_out"
    assert stranger.returncode is None
    assert psutil.Process(stranger.pid).status() != psutil.STATUS_ZOMBIE
    stranger.kill()
    await stranger.wait()


async def counts() -> tuple[int, int, int, int]:
    gc.collect()
    children = psutil.Process().children(recursive=True)
    return open_descriptors(), threading.active_count(), len(asyncio.all_tasks()), len(children)


async def same_counts(env: Environment, before: tuple[int, int, int, int]) -> None:
    """Some hundred runs leave no resources. One further connection to a host may exist, and stays."""
    slack = (0, 0, 0, 0) if env.info.is_this_machine else (4, 0, 12, 0)
    for _ in range(3):
        await asyncio.sleep(0)
    give_up = time.monotonic() + 60
    while True:
        now = await counts()
        if all(count <= most + more for count, most, more in zip(now, before, slack, strict=True)):
            return
        if env.info.is_this_machine or time.monotonic() > give_up:
            assert now == before
        await asyncio.sleep(0.05)  # the last messages of a host are still in transit


async def test_normal_runs_leak_no_resources(env: Environment) -> None:
    await env.run("true")
    before = await counts()
    for _ in range(100 if env.info.is_this_machine else 50):
        assert (await env.run("true")).exit_code == 0
    await same_counts(env, before)


async def test_timeouts_and_cancels_leak_no_resources(env: Environment) -> None:
    # Twenty concurrent commands need more than one connection to a host; opened connections stay open.
    await asyncio.gather(*(env.run("sleep 0.5") for _ in range(20)))
    await env.run("sleep 300 & sleep 300", timeout=0.05, grace=0.3)
    before = await counts()
    for _ in range(3):
        async with asyncio.TaskGroup() as group:
            for _ in range(20):
                group.create_task(env.run("sleep 300 & sleep 300", timeout=0.1, grace=1))
    for _ in range(3):
        tasks = [asyncio.ensure_future(env.run("sleep 300 & sleep 300", grace=1)) for _ in range(20)]
        await asyncio.sleep(0.05)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        assert [task for task in tasks if not task.cancelled()] == []
    await same_counts(env, before)


async def test_child_reaped_by_other_code_is_lost(tmp_path: Path) -> None:
    async with Environment.detect(cwd=tmp_path) as env:
        handler = signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel then reaps by itself
        try:
            outcome = await env.run("echo hi")
        finally:
            signal.signal(signal.SIGCHLD, handler)
    assert (outcome.status, outcome.exit_code, outcome.output.text) == ("lost", None, "hi\n")


async def test_duration_covers_the_time_of_the_command(env: Environment) -> None:
    began = time.monotonic()
    outcome = await env.run("sleep 0.2")
    assert 0.2 <= outcome.duration <= time.monotonic() - began
