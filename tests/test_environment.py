"""The contract of an environment besides endings: text, input, variables, directories, streams."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from anyshell import AnyshellError, ArtifactStore, Environment, InvalidCommand, OutputLimits
from anyshell._runner.variables import NON_INTERACTIVE
from anyshell.testing import FakeBackend, Script

from .conftest import row
from .processes import living, unique_seconds, wait_living

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from anyshell.output.artifacts import ArtifactWriter

pytestmark = pytest.mark.anyio


async def text_of(env: Environment, command: str, **how: Any) -> str:
    return (await env.run(command, **how)).output.text


# Detection


async def test_facts_describe_the_host(env: Environment) -> None:
    names = await text_of(env, "uname -m; uname -n; id -un; echo ~; pwd")
    assert names.splitlines() == [
        env.arch,
        env.info.hostname,
        env.info.user,
        env.info.home,
        env.directory,
    ]
    assert env.shell.kind == "bash"
    assert env.shell.version in await text_of(env, "echo $BASH_VERSION")


async def test_awaited_environment_refuses_streams(tmp_path: Path) -> None:
    env = await Environment.detect(cwd=tmp_path)
    assert await text_of(env, "echo hi") == "hi\n"
    await env.files.write_text("a", "b")
    with pytest.raises(AnyshellError, match="async with"):
        env.stream("echo hi")


async def test_directory_of_an_environment_is_resolved_and_must_exist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "file").touch()
    monkeypatch.chdir(tmp_path)
    env = await Environment.detect(cwd="sub")
    assert env.directory == str(tmp_path / "sub")
    monkeypatch.chdir("/")
    assert await text_of(env, "pwd") == f"{tmp_path}/sub\n"
    assert await text_of(env, "pwd", cwd="..") == f"{tmp_path}\n"
    for here in (".", "./", ".//"):
        assert (await Environment.detect(cwd=here)).directory == "/"
        assert env.info.resolve(here, "/a/b") == "/a/b"
    assert env.info.resolve("./c/./d", "/a/b") == "/a/b/c/./d"
    for bad in ("absent", "file"):
        with pytest.raises(InvalidCommand, match=bad):
            await Environment.detect(cwd=tmp_path / bad)


@pytest.mark.parametrize("bad", ["fish", "./bash", "~/bash", "/bin/python3"])
async def test_an_unknown_shell_is_refused(bad: str) -> None:
    with pytest.raises(InvalidCommand, match="bash"):
        await Environment.detect(shell=bad)


# Text


LONG = "# " + "x" * 4_000_000 + "\n"


@pytest.mark.parametrize("shell", ["bash", "sh"])
@pytest.mark.parametrize("prefix", ["", LONG], ids=["short", "4 MB"])
async def test_text_of_any_size_behaves_as_with_dash_c(shell: str, prefix: str, tmp_path: Path) -> None:
    env = await Environment.detect(shell=shell, cwd=tmp_path)
    first = prefix.count("\n") + 1
    assert await text_of(env, prefix + "echo $0 $#") == f"{shell} 0\n"
    assert await text_of(env, prefix + "echo $$; exec sh -c 'echo $PPID' >/dev/null") != ""
    assert (await env.run(prefix + "set -e; false; echo not here")).output.text == ""
    assert (await env.run(prefix + "exit 5")).exit_code == 5
    assert await text_of(env, prefix + "cat <<'END'\n$a `b` \"c\" 'd' \\\nEND\n") == "$a `b` \"c\" 'd' \\\n"
    failed = await env.run(prefix + "\n\nno-such-program")
    assert failed.exit_code == 127
    assert f"{first + 2}" in failed.output.text.split("no-such-program")[0]
    assert await text_of(env, prefix + "cat", stdin="given") == "given"


async def test_nul_byte_is_refused_before_the_command_starts(env: Environment, tmp_path: Path) -> None:
    bads: tuple[dict[str, Any], ...] = (
        {"command": "touch x\0"},
        {"command": "touch x", "cwd": "a\0"},
        {"command": "touch x", "env": {"A": "\0"}},
    )
    for bad in bads:
        with pytest.raises(InvalidCommand, match="NUL"):
            await env.run(**bad)
    assert list(tmp_path.iterdir()) == []


async def test_a_malformed_variable_name_is_refused_without_its_value(env: Environment) -> None:
    for name in ("", "1A", "A-B", "A=B", "A B", "é", "A\n"):
        with row(name):
            with pytest.raises(InvalidCommand, match="variable name") as caught:
                await env.run("true", env={name: "hunter2"})
            assert "hunter2" not in str(caught.value)


async def test_invalid_timeout_is_refused(env: Environment) -> None:
    wrong: tuple[Any, ...] = (0, -1, float("nan"), float("inf"), True, "5")
    for bad in wrong:
        with row(bad), pytest.raises(InvalidCommand, match="timeout"):
            await env.run("true", timeout=bad)


async def test_half_of_a_surrogate_pair_is_refused(env: Environment) -> None:
    half = "\ud800"
    for part in ("command", "cwd", "stdin", "env"):
        how: dict[str, Any] = {"command": "true", "env": {"TOKEN": "hunter2"}}
        how[part] = {**how["env"], "A": half} if part == "env" else half
        with row(part):
            with pytest.raises(InvalidCommand, match="surrogate") as caught:
                await env.run(**how)
            assert "hunter2" not in repr(caught.value)


async def test_a_stdin_of_another_type_is_refused(env: Environment) -> None:
    wrong: tuple[Any, ...] = (5, ["a"], object())
    for bad in wrong:
        with row(bad), pytest.raises(InvalidCommand, match="stdin"):
            await env.run("cat", stdin=bad)


async def test_a_wrong_argument_is_refused(env: Environment) -> None:
    wrong: tuple[tuple[str, Any], ...] = (("left_behind", "leave"), ("left_behind", 3), ("cwd", 3))
    for name, value in wrong:
        with row((name, value)), pytest.raises(InvalidCommand, match=name):
            await env.run("true", **{name: value})


# Input


async def test_failing_input_is_raised_and_stops_the_command(env: Environment) -> None:
    seconds = unique_seconds()

    async def pieces() -> AsyncIterator[bytes]:
        yield b"one"
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        await env.run(f"sleep {seconds}", stdin=pieces(), grace=0.3)
    assert living(seconds) == []


async def test_input_pieces_must_be_bytes(env: Environment) -> None:
    async def pieces() -> AsyncIterator[Any]:
        yield "text"

    with pytest.raises(InvalidCommand, match="pieces of bytes"):
        await env.run("cat", stdin=pieces())


async def test_timeout_applies_to_input_that_never_waits(env: Environment) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        while True:
            yield b""

    assert (await env.run("cat", stdin=pieces(), timeout=0.3, grace=0.3)).status == "timed_out"


async def test_hundred_megabytes_of_input_are_read(env: Environment) -> None:
    assert await text_of(env, "wc -c", stdin=b"x" * 100_000_000) == "100000000\n"


# Variables


async def test_non_interactive_variables_are_set(env: Environment) -> None:
    lines = (await text_of(env, "env")).splitlines()
    assert {f"{name}={value}" for name, value in NON_INTERACTIVE.items()} <= set(lines)
    assert f"SHELL={env.shell.path}" in lines


async def test_variables_of_the_caller_take_precedence(
    env: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FROM_HOST", "host")
    monkeypatch.setenv("PAGER", "host")
    # The variables of this machine apply only if the host is this machine.
    expected = "host cat\n" if env.info.is_this_machine else "cat\n"
    assert await text_of(env, "echo $FROM_HOST $PAGER") == expected
    mine = {
        "FROM_HOST": "mine",
        "PAGER": "mine",
        "SHELL": "mine",
        "EMPTY": "",
        "LINES2": "a\nb 'c' \"d\" $e é",
    }
    outcome = await env.run('echo $FROM_HOST $PAGER $SHELL "${EMPTY-unset}"; printf %s "$LINES2"', env=mine)
    assert outcome.output.text == f"mine mine mine \n{mine['LINES2']}"


async def test_interactive_option_keeps_variables_of_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAGER", "host")
    monkeypatch.delenv("NO_COLOR", raising=False)
    env = await Environment.detect(cwd=tmp_path, interactive=True)
    assert await text_of(env, "echo $PAGER ${NO_COLOR-unset}") == "host unset\n"


async def test_the_name_of_a_link_is_kept_in_pwd(env: Environment, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert (
        await text_of(env, "pwd; pwd -P", cwd="link")
        == f"{tmp_path}/link\n{os.path.realpath(tmp_path)}/real\n"
    )


async def test_current_directory_of_this_process_is_unchanged(env: Environment, tmp_path: Path) -> None:
    before = os.getcwd()
    await env.run("cd / && true", cwd=tmp_path)
    assert os.getcwd() == before


# Output


async def test_stdout_and_stderr_keep_their_order(env: Environment) -> None:
    words = await text_of(env, "for i in $(seq 200); do echo $i; echo $i >&2; done")
    assert words.split() == [str(i) for i in range(1, 201) for _ in "12"]


async def test_output_limits_of_the_environment_apply(tmp_path: Path) -> None:
    env = await Environment.detect(cwd=tmp_path, limits=OutputLimits(head=10, tail=10), artifacts=None)
    output = (await env.run("printf 0123456789; printf abcdefghij")).output
    assert (output.text, output.truncated) == ("0123456789abcdefghij", False)
    output = (await env.run("printf 0123456789; printf -; printf abcdefghij")).output
    assert output.text.startswith("0123456789\n[")
    assert output.text.endswith("]\nabcdefghij")
    assert output.omitted_bytes == 1
    assert output.artifact is None


async def test_truncated_output_is_kept_as_an_artifact(env: Environment) -> None:
    output = (await env.run("seq 100000")).output
    assert output.artifact is not None
    # A path of this machine has no meaning for a command on another machine.
    name = str(output.artifact.path) if env.info.is_this_machine else output.artifact.id
    assert name in output.text
    assert output.artifact.path.read_text() == "".join(f"{i}\n" for i in range(1, 100001))
    assert output.total_lines == 100000


async def test_failed_artifact_does_not_fail_the_command(
    env: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("ANYSHELL_STATE_DIR", str(tmp_path / "file"))
    outcome = await env.run("seq 100000")
    assert outcome.exit_code == 0
    assert outcome.output.artifact is None
    assert "not kept" in outcome.output.text


async def test_unexpected_store_error_is_raised_without_a_hang(tmp_path: Path) -> None:
    class Broken(ArtifactStore):
        def create(self) -> ArtifactWriter:
            raise RuntimeError("no store today")

    env = await Environment.detect(cwd=tmp_path, artifacts=Broken())
    with pytest.raises(RuntimeError, match="no store today"):
        await env.run("seq 100000", timeout=20)


# Streams


async def test_stream_has_the_pid_of_its_shell(env: Environment) -> None:
    async with env.stream("echo $$; cat", stdin=_never(), timeout=30, grace=0.3) as events:
        assert events.pid is None
        assert int((await anext(aiter(events))).text) == events.pid


async def test_lines_come_while_the_command_runs(env: Environment) -> None:
    async with env.stream("echo one; cat; echo two", stdin=_never(), timeout=30, grace=0.3) as events:
        iterator = aiter(events)
        assert (await anext(iterator)).text == "one"
        with pytest.raises(AnyshellError, match="no outcome yet"):
            _ = events.outcome
        events.cancel()
        rest = [event.text async for event in iterator]
    assert rest in ([], ["two"])
    assert events.outcome.status == "cancelled"


async def _never() -> AsyncIterator[bytes]:
    await anyio.sleep_forever()
    yield b""


async def test_slow_reader_slows_the_command_and_gets_all_output(env: Environment) -> None:
    count = 0
    # More than pipes and the window of SSH hold; long lines, since each line is an event.
    async with env.stream("seq -f %0100.0f 40000", by="lines") as events:
        async for event in events:
            count += 1
            assert event.text == f"{count:0100}"
            if count % 5_000 == 0:
                await asyncio.sleep(0.05)
    assert count == 40_000
    assert events.outcome.exit_code == 0


async def test_timeout_applies_to_an_unread_stream(env: Environment) -> None:
    seconds = unique_seconds()
    async with env.stream(f"yes {seconds}", by="chunks", timeout=2, grace=0.3) as events:
        await anext(aiter(events))
        with anyio.fail_after(20):
            while living(seconds):
                await asyncio.sleep(0.01)
    assert events.outcome.status == "timed_out"


async def test_an_exception_in_the_reader_stops_the_command(env: Environment) -> None:
    seconds = unique_seconds()

    async def read() -> None:
        async with env.stream(f"echo hi; sleep {seconds}", grace=0.3) as events:
            async for _ in events:
                raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        await read()
    assert living(seconds) == []


@pytest.mark.parametrize("iterated", [True, False])
async def test_refusal_of_the_host_is_raised_by_the_stream(env: Environment, iterated: bool) -> None:
    async def read() -> None:
        async with env.stream("true", cwd="absent") as events:
            if iterated:
                await anext(aiter(events))

    if not iterated and not env.info.is_this_machine:
        await read()  # an immediate exit would leave the block before the answer of the host
        return
    with pytest.raises(InvalidCommand, match="absent"):
        await read()


async def test_given_backend_stays_open_and_its_commands_are_stopped() -> None:
    backend = FakeBackend({"serve": Script(exit=None)})
    async with Environment.detect(backend) as env:
        task = asyncio.ensure_future(env.run("serve"))
        while not backend.processes:
            await asyncio.sleep(0)
    assert (await task).status == "cancelled"
    assert backend.processes[0].closed
    async with Environment.detect(backend) as again:
        assert (await again.run("serve", timeout=0.05, grace=0)).status == "timed_out"


@pytest.mark.parametrize(
    ("script", "grace", "signals", "at_once"),
    [
        (Script(exit=None), 2.0, ["terminate"], False),
        (Script(exit=None, heeds=frozenset()), 0.1, ["terminate", "kill"], False),
        (Script(exit=None), 0.0, ["kill"], True),
        (Script(exit=None, can_terminate=False), 2.0, ["terminate"], True),
        (Script(leaves=1), 2.0, ["terminate"], False),
        (Script(leaves=1, can_terminate=False), 2.0, ["terminate"], True),
        (Script(), 0.0, [], False),
    ],
)
async def test_outcome_reports_a_kill_without_warning(
    script: Script, grace: float, signals: list[str], at_once: bool
) -> None:
    backend = FakeBackend({"serve": script})
    env = await Environment.detect(backend)
    outcome = await env.run("serve", timeout=0.05, grace=grace)
    assert backend.processes[0].signals == signals
    assert outcome.killed_without_warning == at_once
    if script.exit is None:
        assert (outcome.status, outcome.exit_code) == ("timed_out", None)
        ending = "SIGKILL" if "kill" in signals else "SIGTERM"
        assert outcome.signal == (ending if script.can_terminate else None)


@pytest.mark.parametrize(
    ("name", "value"), [("timeout", 0), ("silence", -1), ("grace", None), ("left_behind", "drop")]
)
async def test_bad_options_are_refused_before_the_command_starts(
    name: str, value: Any, tmp_path: Path
) -> None:
    options: dict[str, Any] = {name: value}
    async with Environment.detect(cwd=tmp_path) as env:
        with pytest.raises(InvalidCommand, match=name):
            await env.run("touch there", **options)
        with pytest.raises(InvalidCommand, match=name):
            env.stream("touch there", **options)
        with pytest.raises(InvalidCommand, match=name):
            env.terminal("touch there", **options)
        async with env.session() as session:
            with pytest.raises(InvalidCommand, match=name):
                await session.run("touch there", **options)
        if name != "left_behind":
            with pytest.raises(InvalidCommand, match=name):
                await env.start("touch there", **options)
    assert list(tmp_path.iterdir()) == []


async def test_closed_environment_starts_no_command(tmp_path: Path) -> None:
    async with Environment.detect(cwd=tmp_path) as env:
        pass
    with pytest.raises(AnyshellError, match="closed"):
        await env.run("touch x")
    assert list(tmp_path.iterdir()) == []


async def test_repeated_commands_end_with_the_environment(tmp_path: Path) -> None:
    seconds = unique_seconds()

    async def keep_running(env: Environment) -> None:
        while True:
            await env.run(f"sleep {seconds}", timeout=0.1, grace=0)

    async with Environment.detect(cwd=tmp_path) as env:
        tasks = [asyncio.ensure_future(keep_running(env)) for _ in range(4)]
        await asyncio.to_thread(wait_living, seconds)
    assert living(seconds) == []
    done, _ = await asyncio.wait(tasks, timeout=20)
    assert len(done) == 4
    assert all(isinstance(task.exception(), AnyshellError) for task in done)


# While it runs


async def test_exception_of_a_listener_ends_the_command_and_propagates(env: Environment) -> None:
    """The exception also propagates after the end of the command: no code waits for the failed listener."""

    async def listener(channel: str, data: bytes) -> None:
        raise LookupError("no more")

    for command in ("echo one", "echo one; sleep 300"):
        with anyio.fail_after(20), pytest.raises(LookupError, match="no more"):
            await env.run(command, listener=listener)


async def test_listener_gets_every_piece_and_is_awaited(env: Environment) -> None:
    heard: list[tuple[str, bytes]] = []

    async def listener(channel: str, data: bytes) -> None:
        await asyncio.sleep(0)
        heard.append((channel, data))

    outcome = await env.run("echo one; echo two >&2; echo three", split_stderr=True, listener=listener)
    printed = {
        name: b"".join(data for channel, data in heard if channel == name) for name in ("stdout", "stderr")
    }
    assert printed == {"stdout": b"one\nthree\n", "stderr": b"two\n"}
    assert outcome.output.text == "one\nthree\n"


async def test_background_after_bounds_the_wait_for_one_command(tmp_path: Path) -> None:
    heard: list[bytes] = []

    async def listener(channel: str, data: bytes) -> None:
        heard.append(data)

    command = "echo one; until [ -e go ]; do sleep 0.01; done; echo two"
    async with Environment.detect(cwd=tmp_path) as env:
        outcome = await env.run(command, background_after=2, listener=listener)
        assert (outcome.status, outcome.output.text) == ("running", "one\n")
        (tmp_path / "go").touch()
        job = env.jobs.get(outcome.job or "")
        assert (await job.wait(timeout=20)) is not None
        assert heard == [b"one\n"]  # the listener ends with the wait
        with pytest.raises(InvalidCommand, match="background_after"):
            await env.run("true", background_after=0)
    async with Environment.detect(cwd=tmp_path, background_after=0.01) as env:
        assert (await env.run("sleep 0.1", background_after=None)).status == "exited"
    env = await Environment.detect(cwd=tmp_path)
    with pytest.raises(AnyshellError, match="async with"):
        await env.run("true", background_after=1)
