"""The contract that every backend keeps: fake and local here, others by adding a parameter.

Each case is a command and, for the fake, the script that does the same. What needs real trees is in
``test_endings.py``, files are in ``test_files.py``.
"""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

import anyio
import pytest

from anyshell import Environment, InvalidCommand
from anyshell._types import ExitStatus, HostQuery
from anyshell.backends import connect
from anyshell.shells import Login
from anyshell.testing import FakeBackend, FakeFiles, FakeProcess, Script, command_text

from .conftest import SSH_HOSTS, open_to_all

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from anyshell._types import Spawn
    from anyshell.abc import Backend, Process

    from .ssh_server import Server

pytestmark = pytest.mark.anyio

CASES: dict[str, Script] = {
    "echo hi": Script(stdout=[b"hi\n"]),
    "printf partial; sleep 300": Script(stdout=[b"partial"], exit=None),
    "exit 3": Script(exit=ExitStatus(code=3)),
    "kill -KILL $$": Script(exit=ExitStatus(signal="SIGKILL")),
    "cat": Script(echo=True),
    "echo out; echo err >&2": Script(stdout=[b"out\n"], stderr=[b"err\n"]),
    "sleep 300": Script(exit=None),
    "trap '' TERM INT; sleep 300": Script(exit=None, heeds=frozenset()),
    "sleep 300 & echo started": Script(stdout=[b"started\n"], leaves=1),
    "(trap '' TERM; sleep 300) & sleep 0.05; echo started": Script(
        stdout=[b"started\n"], leaves=1, heeds=frozenset()
    ),
    "printf '\\0\\377\\n'": Script(stdout=[b"\0\xff\n"]),
    "head -c 3000000 /dev/zero | tr '\\0' x": Script(stdout=[b"x" * 1_000_000] * 3),
    "true": Script(),
}


@pytest.fixture(params=["fake", "local", *SSH_HOSTS])
async def backend(
    request: pytest.FixtureRequest, ssh_host: Callable[[str], Server], tmp_path: Path
) -> AsyncIterator[Backend]:
    made: Backend
    if request.param == "fake":
        made = FakeBackend(CASES, files=FakeFiles({"/etc/hostname": b"fake\n"}, directories=[str(tmp_path)]))
    elif request.param == "local":
        made = connect()
    else:
        made = connect(ssh_host(request.param).options(), launcher=Login)
        open_to_all(tmp_path)
    yield made
    await made.aclose()


@pytest.fixture
async def environment(backend: Backend, tmp_path: Path) -> AsyncIterator[Environment]:
    async with Environment.detect(backend, cwd=tmp_path) as made:
        yield made


async def test_info_names_the_host_and_the_shell_that_answers(backend: Backend) -> None:
    from anyshell.shells import candidates

    info = await backend.info(HostQuery(programs=("git", "no-such-program"), shells=candidates(None)))
    assert info.os in {"linux", "macos", "windows"}
    assert info.arch
    assert info.hostname
    assert info.user
    assert info.home
    assert info.directory
    assert set(info.programs) <= {"git"}
    assert info.shell is not None
    assert info.shell.path.endswith(info.shell.kind)


async def test_a_command_prints_and_exits(environment: Environment) -> None:
    outcome = await environment.run("echo hi")
    assert (outcome.status, outcome.exit_code, outcome.signal) == ("exited", 0, None)
    assert (outcome.output.text, outcome.output.total_bytes, outcome.output.total_lines) == ("hi\n", 3, 1)
    assert outcome.started
    assert outcome.left_behind == ()


async def test_an_exit_code_is_a_value(environment: Environment) -> None:
    assert (await environment.run("exit 3")).exit_code == 3


async def test_a_signal_is_told_from_an_exit_code(environment: Environment) -> None:
    outcome = await environment.run("kill -KILL $$")
    assert (outcome.status, outcome.exit_code, outcome.signal) == ("exited", None, "SIGKILL")


async def test_reading_gets_end_of_file_at_once(environment: Environment) -> None:
    assert (await environment.run("cat")).output.text == ""


@pytest.mark.parametrize("stdin", ["text\n", b"bytes\xff", b"", b"x" * 500_000])
async def test_what_is_given_is_read(environment: Environment, stdin: str | bytes) -> None:
    data = stdin.encode() if isinstance(stdin, str) else stdin
    outcome = await environment.run("cat", stdin=stdin)
    assert outcome.exit_code == 0
    assert outcome.output.total_bytes == len(data)


async def test_input_can_come_piece_by_piece(environment: Environment) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for word in (b"one ", b"two ", b"three"):
            await asyncio.sleep(0)
            yield word

    assert (await environment.run("cat", stdin=pieces())).output.text == "one two three"


async def test_input_that_nobody_reads_does_no_harm(environment: Environment) -> None:
    assert (await environment.run("true", stdin=b"x" * 5_000_000)).exit_code == 0


async def test_both_channels_are_one_unless_asked_for_apart(environment: Environment) -> None:
    together = await environment.run("echo out; echo err >&2")
    apart = await environment.run("echo out; echo err >&2", split_stderr=True)
    assert (together.output.text, together.stderr) == ("out\nerr\n", None)
    assert apart.stderr is not None
    assert (apart.output.text, apart.stderr.text) == ("out\n", "err\n")


async def test_any_byte_can_be_printed(environment: Environment) -> None:
    outcome = await environment.run("printf '\\0\\377\\n'")
    assert (outcome.output.text, outcome.output.total_bytes) == ("\N{REPLACEMENT CHARACTER}\n", 3)


async def test_output_past_the_limit_is_counted(environment: Environment) -> None:
    outcome = await environment.run("head -c 3000000 /dev/zero | tr '\\0' x")
    assert outcome.output.total_bytes == 3_000_000
    assert outcome.output.truncated
    assert len(outcome.output.text) < 60_000


@pytest.mark.parametrize("text", ["sleep 300", "trap '' TERM INT; sleep 300", "printf partial; sleep 300"])
async def test_a_timeout_stops_it_and_keeps_the_output(environment: Environment, text: str) -> None:
    outcome = await environment.run(text, timeout=0.3, grace=0.3)
    assert outcome.status == "timed_out"
    assert outcome.output.text == ("partial" if "partial" in text else "")
    assert outcome.left_behind == ()


async def test_the_time_can_be_over_before_anything_starts(environment: Environment) -> None:
    outcome = await environment.run("sleep 300", timeout=1e-9, grace=0.3)
    assert outcome.status == "timed_out"


@pytest.mark.parametrize(
    "text", ["sleep 300 & echo started", "(trap '' TERM; sleep 300) & sleep 0.05; echo started"]
)
async def test_what_is_left_behind_is_named_and_stopped(environment: Environment, text: str) -> None:
    outcome = await environment.run(text, left_behind="stop")
    assert (outcome.status, outcome.exit_code, outcome.output.text) == ("exited", 0, "started\n")
    assert outcome.left_behind
    assert not any(process.alive for process in outcome.left_behind)


async def test_a_port_is_tried_by_the_host(backend: Backend, request: pytest.FixtureRequest) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
        assert not await backend.connects(port)
        server.listen()
        if isinstance(backend, FakeBackend):
            backend.ports.add(port)
        # That server lets nobody through, and says so by the word for a port at which nobody is.
        assert await backend.connects(port) == ("asyncssh" not in request.node.name)


async def test_cancelling_raises(environment: Environment) -> None:
    with anyio.move_on_after(0.2) as scope:
        await environment.run("sleep 300", grace=0.3)
    assert scope.cancelled_caught


async def test_a_stream_gives_lines_and_then_the_outcome(environment: Environment) -> None:
    async with environment.stream("echo hi") as events:
        lines = [(event.channel, event.text) async for event in events]
    assert lines == [("stdout", "hi")]
    assert events.outcome.exit_code == 0


async def test_a_stream_gives_pieces_with_their_channel(environment: Environment) -> None:
    async with environment.stream("echo out; echo err >&2", by="chunks", split_stderr=True) as events:
        pieces = {event.channel: event.data async for event in events}
    assert pieces == {"stdout": b"out\n", "stderr": b"err\n"}


async def test_leaving_a_stream_early_stops_the_command(environment: Environment) -> None:
    async with environment.stream("printf partial; sleep 300", by="chunks", grace=0.3) as events:
        async for event in events:
            assert event.text == "partial"
            break
    assert events.outcome.status == "cancelled"
    assert events.outcome.output.text == "partial"


async def test_a_directory_that_is_none_is_refused_before_anything_starts(environment: Environment) -> None:
    with pytest.raises(InvalidCommand, match="/no/such/place"):
        await environment.run("echo hi", cwd="/no/such/place")
    with pytest.raises(InvalidCommand, match="/etc/hostname"):
        await environment.run("echo hi", cwd="/etc/hostname")


async def test_a_process_can_be_closed_at_any_time(backend: Backend, environment: Environment) -> None:
    spawns: list[Spawn] = []
    process: Process = await backend.spawn(_spawn(environment, "sleep 300", spawns))
    await process.aclose()
    await process.aclose()
    assert not await process.survivors()


def _spawn(environment: Environment, text: str, _: list[Spawn]) -> Spawn:
    from anyshell._types import Spawn
    from anyshell.shells import SHELLS

    launch = SHELLS[environment.shell.kind].launch(environment.shell, text)
    return Spawn(argv=launch.argv, script=launch.script, cwd=environment.directory)


async def test_the_fake_can_be_driven_by_hand() -> None:
    backend = FakeBackend(lambda spawn: Script(exit=None))
    async with Environment.detect(backend) as env, env.stream("deploy", by="lines") as events:
        iterator = aiter(events)
        first = asyncio.ensure_future(anext(iterator))
        while not backend.processes:
            await asyncio.sleep(0)
        process: FakeProcess = backend.processes[0]
        process.print(b"half")
        process.print(b" line\n")
        assert (await first).text == "half line"
        process.exit(4)
        assert [event async for event in iterator] == []
        assert events.outcome.exit_code == 4
    assert command_text(process.spawn) == "deploy"
