"""The blocking twins of the classes."""

from __future__ import annotations

import asyncio
import inspect
import os
import re
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

assert sys.platform != "win32"  # on other systems mypy skips the code below

import anyshell
from anyshell import blocking
from anyshell._sync import front
from anyshell._twins import TWINS

from . import blocking_stub
from .conftest import bubblewrap
from .processes import living, unique_seconds, wait_asleep

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from .ssh_server import Server


@pytest.fixture
def env(tmp_path: Path) -> Iterator[blocking.Environment]:
    with anyshell.connect(cwd=tmp_path) as env:
        yield env


# --- what there is ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TWINS)
def test_every_public_method_has_a_blocking_twin_with_the_same_parameters(name: str) -> None:
    kind = getattr(import_module(f"anyshell.{TWINS[name]}"), name)
    twin = getattr(blocking, name)
    for method in [each for each in dir(kind) if not each.startswith("_")]:
        other = inspect.getattr_static(twin, "close" if method == "aclose" else method)
        own = inspect.getattr_static(kind, method)
        assert inspect.getdoc(other) == inspect.getdoc(own) or method == "detect"
        if inspect.isfunction(own):
            assert inspect.signature(other) == inspect.signature(own)
            assert not inspect.iscoroutinefunction(other)
    assert hasattr(twin, "__enter__") >= hasattr(kind, "__aenter__")
    assert hasattr(twin, "__iter__") == hasattr(kind, "__aiter__")


def test_stub_file_matches_the_classes() -> None:
    assert blocking_stub.STUB.read_text(encoding="utf-8") == blocking_stub.stub(), (
        "python -m tests.blocking_stub"
    )


def test_public_classes_with_async_methods_have_a_twin() -> None:
    def waits(kind: object) -> bool:
        return inspect.isclass(kind) and any(map(inspect.iscoroutinefunction, vars(kind).values()))

    lacking = {name for name in anyshell.__all__ if waits(getattr(anyshell, name))} - set(TWINS)
    # Callers of these classes are in an event loop.
    assert lacking == {"ApprovalQueue", "Redaction", "Root"} & lacking


def test_constructor_of_a_session_is_refused() -> None:
    with pytest.raises(TypeError, match=r"anyshell\.connect"):
        blocking.Session()


# --- what it does -----------------------------------------------------------------------------------------------


def test_commands_sessions_and_files_work(env: blocking.Environment, tmp_path: Path) -> None:
    assert env.run("echo hi").output.text == "hi\n"
    assert env.directory == str(tmp_path)
    with env.session() as session:
        session.run("x=5; mkdir sub; cd sub")
        assert session.run("echo $x").output.text == "5\n"
        assert session.directory == f"{tmp_path}/sub"
    env.files.write_text("a", "text")
    assert env.files.read_text("a") == "text"
    with pytest.raises(FileNotFoundError):
        env.files.read("b")


def test_stream_has_events_and_an_outcome(env: blocking.Environment) -> None:
    with env.stream("seq 3; exit 4") as events:
        assert [event.text for event in events] == ["1", "2", "3"]
        assert events.outcome.exit_code == 4


def test_stream_step_takes_all_available_events(
    env: blocking.Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one call of the loop's thread for each line, long outputs were ten times as slow as with asyncio."""
    steps, call = 0, front.call

    def counted(*given: Any) -> Any:
        nonlocal steps
        steps += 1
        return call(*given)

    monkeypatch.setattr(front, "call", counted)
    with env.stream("seq 3000") as events:
        assert [event.text for event in events] == [str(number) for number in range(1, 3001)]
    assert steps < 300


def test_jobs_have_blocking_twins(env: blocking.Environment) -> None:
    job = env.start("read x; echo got $x", ready=None)
    assert job.status == "running"
    assert env.jobs.get(job.id) == job
    assert env.jobs.list() == (job,)
    job.send("word\n")
    assert job.wait_for("got word")
    outcome = job.wait()
    assert outcome is not None
    assert outcome.exit_code == 0


def test_terminal_expects_and_types(env: blocking.Environment) -> None:
    with env.terminal("read -p 'name? ' x; echo hello $x; read y") as terminal:
        terminal.expect("name. ")
        terminal.sendline("world")
        assert terminal.expect(["bye", r"^hello (\w+)$"]) == 1
        assert terminal.match is not None
        assert terminal.match[1] == "world"
        with pytest.raises(anyshell.ExpectTimeout):
            terminal.expect("never", timeout=0.1)


def test_blocking_approver_can_run_commands(env: blocking.Environment) -> None:
    asked = []

    def approve(request: anyshell.ApprovalRequest) -> anyshell.Approved:
        asked.append((env.run("echo nested").output.text, threading.current_thread().name))
        return anyshell.Approved()

    with blocking.ShellTool(env, approver=approve) as tool:
        assert tool.call({"command": "echo told"}).output == "told\n"
        assert tool.definition.name == "shell"
    assert asked[0][0] == "nested\n"
    assert asked[0][1] != "anyshell"


def test_blocking_listener_can_run_commands(env: blocking.Environment) -> None:
    heard: list[str] = []

    def listen(channel: str, data: bytes) -> None:
        heard.append(data.decode() + env.run("echo inner").output.text)

    assert env.run("echo outer", listener=listen).exit_code == 0
    assert heard == ["outer\ninner\n"]


def test_fleet_works(tmp_path: Path) -> None:
    with blocking.Fleet(["local"], cwd=tmp_path) as fleet:
        (outcome,) = fleet.run("pwd")
    assert outcome.outcome is not None
    assert outcome.outcome.output.text == f"{tmp_path}\n"


def test_detached_jobs_work(env: blocking.Environment, tmp_path: Path) -> None:
    jobs = blocking.DetachedJobs(env, directory=str(tmp_path / "jobs"))
    job = jobs.start("echo far")
    assert job.wait(timeout=30) == "completed"
    assert [each.id for each in jobs.list()] == [job.id]


def test_ssh_host_works(ssh_host: Callable[[str], Server]) -> None:
    with anyshell.connect(ssh_host("openssh as a user").options()) as env:
        assert env.run("echo far").output.text == "far\n"
        with env.session() as session:
            assert session.run("exit 3").exit_code == 3


def test_calls_work_inside_a_running_loop() -> None:
    async def main() -> str:
        with anyshell.connect() as env:
            return env.run("echo hi").output.text

    assert asyncio.run(main()) == "hi\n"


def test_threads_can_share_an_environment(env: blocking.Environment) -> None:
    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(lambda i: env.run(f"sleep 0.05; echo {i}").output.text, range(32)))
    assert outcomes == [f"{i}\n" for i in range(32)]


# --- ends -------------------------------------------------------------------------------------------------------


def test_closed_environment_refuses_commands(env: blocking.Environment) -> None:
    env.close()
    env.close()
    with pytest.raises(anyshell.AnyshellError, match="closed"):
        env.run("true")


def test_messages_show_blocking_code(env: blocking.Environment) -> None:
    with pytest.raises(anyshell.AnyshellError, match=r"not entered: use 'with env.terminal\(\.\.\.\) as t'"):
        env.terminal("cat").expect("x")
    with pytest.raises(anyshell.AnyshellError, match="then 'for event in events'"):
        list(env.stream("true"))


def test_errors_are_raised_in_the_caller(env: blocking.Environment) -> None:
    with pytest.raises(anyshell.InvalidCommand, match="fish"):
        anyshell.connect(shell="fish")
    with pytest.raises(TypeError):
        env.run()  # type: ignore[call-arg]  # that is the test


def python(script: str) -> list[str]:
    return [sys.executable, "-c", script]


def test_interpreter_exit_stops_all_commands() -> None:
    seconds = unique_seconds()
    script = f"""
import anyshell
env = anyshell.connect()
env.start("exec sleep {seconds}")
session = env.session()
session.run("sleep {seconds} & x=1")
terminal = env.terminal("sleep {seconds}").__enter__()
print("ready", flush=True)
"""
    done = subprocess.run(python(script), capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("ready\n", "", 0)
    assert living(seconds) == []


def test_an_interrupt_stops_the_tree_and_leaves_the_environment() -> None:
    seconds = unique_seconds()
    script = f"""
import anyshell
with anyshell.connect() as env:
    try:
        env.run("sleep {seconds}; true")
    except KeyboardInterrupt:
        print("interrupted", env.run("echo on").output.text, end="")
"""
    with subprocess.Popen(python(script), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        wait_asleep(seconds)
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == "interrupted on\n"
        assert process.wait(60) == 0
    assert living(seconds) == []


def test_forked_child_needs_a_new_connection(env: blocking.Environment) -> None:
    env.run("true")
    pid = os.fork()
    if pid == 0:
        said = ""
        try:
            env.run("true")
        except anyshell.AnyshellError as error:
            said = str(error)
        with anyshell.connect() as own:
            ok = re.search("before a fork", said) and own.run("echo child").output.text == "child\n"
        os._exit(0 if ok else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert env.run("echo parent").output.text == "parent\n"


def test_blocking_call_in_an_async_listener_is_refused(env: blocking.Environment) -> None:
    async def listener(*_: Any) -> None:
        env.run("true")

    with pytest.raises(anyshell.AnyshellError, match="wait for itself"):
        env.run("echo x", listener=listener)


@pytest.mark.skipif(sys.platform != "linux", reason="overlays and bubblewrap, of Linux")
def test_trial_has_a_blocking_twin(env: blocking.Environment, tmp_path: Path) -> None:
    bubblewrap()
    with env.trial("echo new > file") as trial:
        assert [each.path for each in trial.effects.created] == ["file"]
        assert not (tmp_path / "file").exists()
        trial.commit()
    assert (tmp_path / "file").read_text() == "new\n"
