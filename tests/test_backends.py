"""The contract that every backend keeps: the fake and the local backend here, other backends by adding a parameter.

Each case is a command and, for the fake, an equivalent script. Tests that need real process trees are in
``test_endings.py``, tests of files are in ``test_files.py``.
"""

from __future__ import annotations

import asyncio
import re
import socket
from typing import TYPE_CHECKING

import anyio
import pytest

from anyshell import CommandFailed, Environment, InvalidCommand
from anyshell._types import ExitStatus
from anyshell.backends import connect
from anyshell.shells import Login
from anyshell.testing import FakeBackend, FakeFiles, FakeProcess, Script, command_text

from .commands import (
    BYTES,
    CAT,
    EXIT_3,
    FLOOD,
    HELLO,
    KILL_ITSELF,
    LEAVE,
    LEAVE_DEAF,
    NOTHING,
    OUT_AND_ERR,
    PARTIAL,
    SLEEP,
    SLEEP_ON,
    Said,
)
from .conftest import SSH_HOSTS, WINDOWS_HOSTS, local, open_to_all, row

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from anyshell import Outcome
    from anyshell._types import Spawn
    from anyshell.abc import Backend, Process

    from .ssh_server import Server

pytestmark = pytest.mark.anyio

CASES: dict[str, Script] = {
    HELLO.posix: Script(stdout=[b"hi\n"]),
    PARTIAL.posix: Script(stdout=[b"partial"], exit=None),
    EXIT_3.posix: Script(exit=ExitStatus(code=3)),
    KILL_ITSELF.posix: Script(exit=ExitStatus(signal="SIGKILL")),
    CAT.posix: Script(echo=True),
    OUT_AND_ERR.posix: Script(stdout=[b"out\n"], stderr=[b"err\n"]),
    SLEEP.posix: Script(exit=None),
    SLEEP_ON.posix: Script(exit=None, heeds=frozenset()),
    LEAVE.posix: Script(stdout=[b"started\n"], leaves=1),
    LEAVE_DEAF.posix: Script(stdout=[b"started\n"], leaves=1, heeds=frozenset()),
    BYTES.posix: Script(stdout=[b"\0\xff\n"]),
    FLOOD.posix: Script(stdout=[b"x" * 1_000_000] * 3),
    NOTHING.posix: Script(),
}


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def windows_host(
    request: pytest.FixtureRequest, ssh_host: Callable[[str], Server], anyio_backend: str
) -> AsyncIterator[Callable[[str], Awaitable[tuple[Backend, Environment]]]]:
    """Gives a host of `WINDOWS_HOSTS`. Detection takes seconds under Wine, so each host is detected once."""
    made: dict[str, tuple[Backend, Environment]] = {}

    async def reach(name: str) -> tuple[Backend, Environment]:
        if name not in made:
            request.getfixturevalue("powershell")
            backend = connect(ssh_host(name).options(), launcher=Login)
            made[name] = (backend, await Environment.detect(backend).__aenter__())
        return made[name]

    yield reach
    for backend, environment in made.values():
        await environment.aclose()
        await backend.aclose()


@pytest.fixture(params=["fake", "local", *SSH_HOSTS, *WINDOWS_HOSTS])
async def backend(
    request: pytest.FixtureRequest,
    ssh_host: Callable[[str], Server],
    windows_host: Callable[[str], Awaitable[tuple[Backend, Environment]]],
    tmp_path: Path,
) -> AsyncIterator[Backend]:
    made: Backend
    if request.param in WINDOWS_HOSTS:
        yield (await windows_host(request.param))[0]
        return
    if request.param == "fake":
        made = FakeBackend(CASES, files=FakeFiles({"/etc/hostname": b"fake\n"}, directories=["/work"]))
    elif request.param == "local":
        made = local()
    else:
        made = connect(ssh_host(request.param).options(), launcher=Login)
        open_to_all(tmp_path)
    yield made
    await made.aclose()


@pytest.fixture
async def environment(
    backend: Backend,
    windows_host: Callable[[str], Awaitable[tuple[Backend, Environment]]],
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> AsyncIterator[Environment]:
    for name in WINDOWS_HOSTS:
        if name in request.node.name:
            yield (await windows_host(name))[1]
            return
    cwd = "/work" if isinstance(backend, FakeBackend) else tmp_path
    async with Environment.detect(backend, cwd=cwd) as made:
        yield made


async def test_info_names_the_host_and_the_answering_shell(backend: Backend) -> None:
    from anyshell.shells import query

    info = await backend.info(query(("git", "no-such-program")))
    assert info.os in {"linux", "macos", "windows"}
    assert info.arch
    assert info.hostname
    assert info.user
    assert info.home
    assert info.directory
    assert set(info.programs) <= {"git"}
    assert info.shell is not None
    assert info.shell.path.removesuffix(".exe").endswith(info.shell.kind)


async def test_a_command_prints_and_exits(environment: Environment) -> None:
    outcome = await environment.run(HELLO.to(environment))
    assert (outcome.status, outcome.exit_code, outcome.signal) == ("exited", 0, None)
    size = 4 if environment.os == "windows" else 3  # there a line ends with two bytes
    assert (outcome.output.text, outcome.output.total_bytes, outcome.output.total_lines) == ("hi\n", size, 1)
    assert outcome.started
    assert outcome.left_behind == ()


async def test_an_exit_code_is_a_value(environment: Environment) -> None:
    assert (await environment.run(EXIT_3.to(environment))).exit_code == 3


async def test_signal_is_distinguished_from_an_exit_code(environment: Environment) -> None:
    outcome = await environment.run(KILL_ITSELF.to(environment))
    if environment.os == "windows":  # Windows has no signals
        assert (outcome.status, outcome.exit_code, outcome.signal) == ("exited", 0xFFFFFFFF, None)
    else:
        assert (outcome.status, outcome.exit_code, outcome.signal) == ("exited", None, "SIGKILL")


async def test_stdin_is_at_end_of_file_by_default(environment: Environment) -> None:
    assert (await environment.run(CAT.to(environment))).output.text == ""


# pytest puts the name of a test into a variable of each started program, and Linux limits the length of a variable.
@pytest.mark.parametrize(
    "stdin",
    ["text\n", b"bytes\xff", b"", b"".join(b"%d\n" % n for n in range(90_000))],
    ids=["text", "bytes", "nothing", "much"],
)
async def test_all_bytes_of_stdin_are_read(environment: Environment, stdin: str | bytes) -> None:
    data = stdin.encode() if isinstance(stdin, str) else stdin
    outcome = await environment.run(CAT.to(environment), stdin=stdin)
    assert outcome.exit_code == 0
    assert outcome.output.total_bytes == len(data)
    assert outcome.output.data == data


async def test_input_can_come_piece_by_piece(environment: Environment) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for word in (b"one ", b"two ", b"three"):
            await asyncio.sleep(0)
            yield word

    assert (await environment.run(CAT.to(environment), stdin=pieces())).output.text == "one two three"


async def test_stdin_and_stdout_can_be_files_of_this_machine(
    environment: Environment, tmp_path: Path
) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(bytes(range(256)) * 1200)
    outcome = await environment.run(CAT.to(environment), stdin=source, stdout=target)
    assert target.read_bytes() == source.read_bytes() == outcome.output.data
    assert outcome.output.file == target


async def test_variable_is_removed(environment: Environment) -> None:
    if environment.shell.kind in ("pwsh", "powershell"):
        text, gone = '"$(Test-Path Env:PAGER) $(Test-Path Env:OLD) $env:NEW"', "False False 1"
    else:
        text, gone = 'echo "${PAGER-False} ${OLD-False} $NEW"', "False False 1"
    if isinstance(environment.runner.backend, FakeBackend):
        outcome = await environment.run(NOTHING.posix, env={"PAGER": None, "OLD": None, "NEW": "1"})
        spawn = environment.runner.backend.processes[-1].spawn
        assert (dict(spawn.env), "PAGER" in spawn.settings, {"PAGER", "OLD"} <= spawn.unset) == (
            {"NEW": "1"},
            False,
            True,
        )
        return
    outcome = await environment.run(
        text, env={"pager" if environment.os == "windows" else "PAGER": None, "OLD": None, "NEW": "1"}
    )
    assert outcome.output.text.strip() == gone


async def test_list_is_quoted_for_the_shell(environment: Environment) -> None:
    if isinstance(environment.runner.backend, FakeBackend):
        outcome = await environment.run(["exit", 3])
        assert outcome.exit_code == 3
        return
    if environment.os == "windows":
        outcome = await environment.run(["cmd.exe", "/c", "echo", "it's $HOME"])
        assert "it's $HOME" in outcome.output.text
        return
    outcome = await environment.run(["printf", "<%s>", "it's $HOME", "", "a\nb"])
    assert outcome.output.data == b"<it's $HOME><><a\nb>"
    with pytest.raises(CommandFailed, match="exit code 3: sh -c 'exit 3'"):
        (await environment.run(["sh", "-c", "exit 3"])).check()


async def test_unread_stdin_does_not_fail_the_command(environment: Environment) -> None:
    assert (await environment.run(NOTHING.to(environment), stdin=b"x" * 5_000_000)).exit_code == 0


async def test_stderr_is_merged_into_stdout_unless_split(environment: Environment) -> None:
    together = await environment.run(OUT_AND_ERR.to(environment))
    apart = await environment.run(OUT_AND_ERR.to(environment), split_stderr=True)
    assert (together.output.text, together.stderr) == ("out\nerr\n", None)
    assert apart.stderr is not None
    assert (apart.output.text, apart.stderr.text) == ("out\n", "err\n")


async def test_any_byte_can_be_printed(environment: Environment) -> None:
    outcome = await environment.run(BYTES.to(environment))
    page = environment.info.code_page
    last = "\N{REPLACEMENT CHARACTER}" if page is None else b"\xff".decode(f"cp{page}", "replace")
    assert (outcome.output.text, outcome.output.total_bytes) == (f"{last}\n", 3)


async def test_output_past_the_limit_is_counted(environment: Environment) -> None:
    outcome = await environment.run(FLOOD.to(environment))
    assert outcome.output.total_bytes == 3_000_000
    assert outcome.output.truncated
    assert len(outcome.output.text) < 60_000


async def test_timeout_stops_the_command_and_keeps_the_output(environment: Environment) -> None:
    async def run(said: Said) -> Outcome:
        # PowerShell takes longer than that to start, and has printed nothing by then. A busy host may not report the start
        # in time, or at all, and the outcome is lost: test_ssh_windows tests that.
        slow = environment.os == "windows" and (said is PARTIAL or not environment.info.is_this_machine)
        begun = 10 if environment.info.is_this_machine else 15  # over SSH three commands start at once
        return await environment.run(
            said.to(environment), timeout=begun if slow else 2 if said is PARTIAL else 0.3, grace=0.3
        )

    texts = (SLEEP, SLEEP_ON, PARTIAL)
    for said, outcome in zip(texts, await asyncio.gather(*map(run, texts)), strict=True):
        with row(said.posix):
            assert outcome.status == "timed_out"
            assert outcome.output.text == ("partial" if said is PARTIAL else "")
            assert outcome.left_behind == ()


async def test_timeout_can_expire_before_the_command_starts(environment: Environment) -> None:
    outcome = await environment.run(SLEEP.to(environment), timeout=1e-9, grace=0.3)
    assert outcome.status == "timed_out"


@pytest.mark.parametrize("said", [LEAVE, LEAVE_DEAF], ids=lambda said: said.posix)
async def test_processes_left_behind_are_named_and_stopped(environment: Environment, said: Said) -> None:
    outcome = await environment.run(said.to(environment), left_behind="stop")
    assert (outcome.status, outcome.exit_code, outcome.output.text) == ("exited", 0, "started\n")
    assert outcome.left_behind
    assert not any(process.alive for process in outcome.left_behind)


async def test_port_is_checked_by_the_host(backend: Backend, request: pytest.FixtureRequest) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
        assert not await backend.connects(port)
        server.listen()
        if isinstance(backend, FakeBackend):
            backend.ports.add(port)
        # asyncssh's server forwards no port, and answers with the error for a port without a listener.
        refused = any(name in request.node.name for name in ("asyncssh", *WINDOWS_HOSTS))
        assert await backend.connects(port) == (not refused)


async def test_cancelling_raises(environment: Environment) -> None:
    with anyio.move_on_after(0.2) as scope:
        await environment.run(SLEEP.to(environment), grace=0.3)
    assert scope.cancelled_caught


async def test_a_stream_gives_lines_and_then_the_outcome(environment: Environment) -> None:
    async with environment.stream(HELLO.to(environment)) as events:
        lines = [(event.channel, event.text) async for event in events]
    assert lines == [("stdout", "hi")]
    assert events.outcome.exit_code == 0


async def test_a_stream_gives_pieces_with_their_channel(environment: Environment) -> None:
    async with environment.stream(OUT_AND_ERR.to(environment), by="chunks", split_stderr=True) as events:
        pieces: dict[str, bytes] = {}
        async for event in events:
            pieces[event.channel] = pieces.get(event.channel, b"") + event.data
    end = b"\r\n" if environment.os == "windows" else b"\n"
    assert pieces == {"stdout": b"out" + end, "stderr": b"err" + end}


async def test_leaving_a_stream_early_stops_the_command(environment: Environment) -> None:
    async with environment.stream(PARTIAL.to(environment), by="chunks", grace=0.3) as events:
        async for event in events:
            assert event.text == "partial"
            break
    assert events.outcome.status == "cancelled"
    assert events.outcome.output.text == "partial"


async def test_invalid_cwd_is_refused_before_the_command_starts(environment: Environment) -> None:
    on_windows = environment.os == "windows"
    missing = r"C:\no\such\place" if on_windows else "/no/such/place"
    file = r"C:\windows\system32\cmd.exe" if on_windows else "/etc/hostname"
    for directory in (missing, file):
        with pytest.raises(InvalidCommand, match=re.escape(repr(directory))):
            await environment.run(HELLO.to(environment), cwd=directory)


async def test_a_process_can_be_closed_at_any_time(backend: Backend, environment: Environment) -> None:
    spawns: list[Spawn] = []
    process: Process = await backend.spawn(_spawn(environment, SLEEP.to(environment), spawns))
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
