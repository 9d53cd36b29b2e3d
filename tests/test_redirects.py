"""Redirects of a command: input from files, output to files, removed variables; and durations."""

from __future__ import annotations

import asyncio
import io
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import anyshell
from anyshell import Environment, Fleet, InvalidCommand, Terminal
from anyshell._runner import redirects
from anyshell.testing import FakeBackend, Script
from anyshell.types import Redaction

from .conftest import missing
from .processes import unique_seconds, wait_asleep

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

assert sys.platform != "win32"  # else mypy checks the code below on every platform

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=["bash", "zsh", "sh"])
async def env(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Environment]:
    import shutil

    if shutil.which(request.param) is None:
        missing(request.param, f"apt-get install {request.param}")
    async with Environment.detect(shell=request.param, cwd=tmp_path) as env:
        yield env


@pytest.fixture
async def sh(tmp_path: Path) -> AsyncIterator[Environment]:
    async with Environment.detect(shell="sh", cwd=tmp_path) as env:
        yield env


def open_file(mode: str) -> object:
    return open(os.devnull, mode)


def closed_file() -> object:
    file = io.BytesIO()
    file.close()
    return file


BIG = b"".join(b"%d\r\n\0" % number for number in range(400_000))


async def test_value_none_removes_a_variable(env: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINE", "1")
    gone = {"MINE": None, "PAGER": None, "NOT_THERE": None, "KEPT": "2"}
    shown = "echo ${MINE-no} ${PAGER-no} ${KEPT-no}"
    assert (await env.run(shown)).output.text == "1 cat no\n"
    assert (await env.run(shown, env=gone)).output.text == "no no 2\n"
    job = await env.start(shown, env=gone)
    assert (ended := await job.wait()) is not None
    assert ended.output.text == "no no 2\n"
    assert "MINE" not in (await env.run("export -p", env=gone, terminal=Terminal())).output.text
    async with env.session(env={"MINE": None}) as session:
        assert (await session.run(shown)).output.text == "no cat no\n"


async def test_none_removes_a_variable_from_a_session(
    env: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINE", "1")
    async with env.session() as session:
        await session.run("MINE=changed; unset() { echo fooled; }")
        outcome = await session.run("echo ${MINE-no} $KEPT", env={"MINE": None, "KEPT": "2"}, variables=True)
        assert outcome.output.text == "no 2\n"
        assert (await session.run("echo ${MINE-no} $KEPT")).output.text == "no 2\n"
        with pytest.raises(InvalidCommand, match="anyshell uses that in a session's shell"):
            await session.run("true", env={"ANYSHELL_STATUS": None})


async def test_none_removes_a_variable_of_the_environment(tmp_path: Path) -> None:
    variables = anyshell.Variables(set={"MINE": "1"})
    async with Environment.detect(shell="sh", cwd=tmp_path, variables=variables) as env:
        assert (await env.run("echo ${MINE-no}", env={"MINE": None})).output.text == "no\n"
    assert anyshell.run("echo ${HOME-no}", shell="sh", env={"HOME": None}).output.text == "no\n"


async def test_name_of_a_removed_variable_is_checked(sh: Environment) -> None:
    with pytest.raises(InvalidCommand, match="'A-B' is not a variable name"):
        await sh.run("true", env={"A-B": None})


async def test_timedelta_is_a_number_of_seconds(sh: Environment) -> None:
    outcome = await sh.run("sleep 60", timeout=timedelta(milliseconds=200), grace=timedelta(0))
    assert outcome.status == "timed_out"
    assert (await sh.run("sleep 60", silence=timedelta(seconds=0.2))).silence == 0.2
    with pytest.raises(InvalidCommand, match="timeout must be more than 0 seconds"):
        await sh.run("true", timeout=timedelta(0))
    job = await sh.start(
        "sleep 60", ready=None, ready_timeout=timedelta(seconds=1), timeout=timedelta(minutes=1)
    )
    assert await job.wait(timeout=timedelta(milliseconds=1)) is None
    await job.stop(grace=timedelta(0))
    async with sh.terminal("cat", timeout=timedelta(minutes=1)) as terminal:
        await terminal.send("hi\r", timeout=timedelta(seconds=20))
        await terminal.expect("hi", timeout=timedelta(seconds=20))
    assert anyshell.run("sleep 60", timeout=timedelta(seconds=0.2)).status == "timed_out"
    running = await sh.run("sleep 60", background_after=timedelta(milliseconds=50))
    assert running.status == "running"


async def test_stdin_from_a_path_and_from_a_file(sh: Environment, tmp_path: Path) -> None:
    path = tmp_path / "input"
    path.write_bytes(BIG)
    for _ in range(2):
        outcome = await sh.run("cksum", stdin=path)
        assert outcome.output.text.split()[1] == str(len(BIG))
    expected = outcome.output.text
    with path.open("rb") as file:
        assert (await sh.run("cksum", stdin=file)).output.text == expected
        assert not file.closed
        file.seek(len(BIG) - 3)
        assert (await sh.run("cat", stdin=file)).output.data == BIG[-3:]
    with path.open("rb", buffering=0) as raw:
        assert (await sh.run("cksum", stdin=raw)).output.text == expected
    assert (await sh.run("cksum", stdin=io.BytesIO(BIG))).output.text == expected
    async with sh.session() as session:
        assert (await session.run("cksum", stdin=path)).output.text == expected
    assert anyshell.run("cksum", shell="sh", stdin=path).output.text == expected
    assert (await sh.run("head -c 2", stdin=path)).output.data == BIG[:2]
    async with Fleet(["local"], shell="sh") as fleet:
        async for result in fleet.run("cksum", stdin=path):
            assert result.check().output.text == expected


async def test_stdin_from_a_pipe_holds_up_nothing(sh: Environment, tmp_path: Path) -> None:
    read, write = os.pipe()
    with os.fdopen(read, "rb") as file:
        os.write(write, b"first")
        running = asyncio.create_task(sh.run("head -c 5; sleep 0.1", stdin=file))
        assert (await running).output.text == "first"
        os.close(write)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    outcome = await sh.run("cat", stdin=fifo, timeout=0.3, grace=0)
    assert outcome.status == "timed_out"
    with fifo.open("wb"):
        pass  # releases the reader of the fifo


@pytest.mark.parametrize(
    ("stdin", "message"),
    [
        (Path("no/such"), r"stdin: 'no/such' cannot be read: No such file or directory"),
        (Path("/"), "stdin: '/' cannot be read: it is a directory"),
        (io.StringIO("x"), "stdin is a file that is open as text: open it with 'rb'"),
        (open_file("ab"), "stdin is a file that is not open for that: open it with 'rb'"),
        (closed_file(), "stdin is a file that is closed already: open it with 'rb', and close it later"),
        (
            subprocess.DEVNULL,
            "stdin must be bytes, text, a Path, a file opened with 'rb' or an async iterable",
        ),
    ],
)
async def test_stdin_that_cannot_be_read_is_named(sh: Environment, stdin: object, message: str) -> None:
    with pytest.raises(InvalidCommand, match=message):
        await sh.run("cat", stdin=stdin)  # type: ignore[arg-type]  # that is the point


async def test_stdin_that_fails_midway_stops_the_command(sh: Environment) -> None:
    class Broken(io.RawIOBase):
        def readable(self) -> bool:
            return True

        def readinto(self, into: object) -> int:
            raise OSError(5, "the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        await sh.run("cat; sleep 60", stdin=io.BufferedReader(Broken()))


async def test_stdout_goes_to_a_file_in_full(sh: Environment, tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(BIG)
    target.write_text("older")
    outcome = await sh.run("cat source", stdout=target)
    assert target.read_bytes() == BIG
    assert (outcome.output.file, outcome.output.total_bytes, outcome.output.truncated) == (
        target,
        len(BIG),
        True,
    )
    with target.open("wb") as file:
        file.write(b"before ")
        outcome = await sh.run("echo mine; echo other >&2", stdout=file, split_stderr=True)
        file.write(b"after")
    assert target.read_bytes() == b"before mine\nafter"
    assert outcome.output.file is None
    assert outcome.stderr is not None
    assert (outcome.output.text, outcome.stderr.text) == ("mine\n", "other\n")
    buffer = io.BytesIO()
    await sh.run("echo both; echo channels >&2", stdout=buffer)
    assert buffer.getvalue() == b"both\nchannels\n"


async def test_every_door_takes_stdout(
    sh: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "target"
    heard = []

    async def listener(channel: str, data: bytes) -> None:
        heard.append(data)

    await sh.run("echo run", stdout=str(target), listener=listener)
    assert (target.read_text(), heard) == ("run\n", [b"run\n"])
    async with sh.stream("echo stream", stdout=target) as events:
        assert [event.text async for event in events] == ["stream"]
    assert target.read_text() == "stream\n"
    async with sh.session() as session:
        await session.run("echo session", stdout=target)
    assert target.read_text() == "session\n"
    await sh.run(r"printf '\033[1mx\n'", stdout=target, terminal=Terminal())
    assert target.read_bytes() == b"\x1b[1mx\r\n"
    monkeypatch.chdir(tmp_path)
    outcome = anyshell.run("echo blocking", shell="sh", stdout="target", cwd="/")
    assert (target.read_text(), outcome.output.file) == ("blocking\n", target)
    running = await sh.run("echo one; sleep 0.3; echo two", stdout=target, background_after=0.05)
    assert running.job is not None
    await sh.jobs.get(running.job).wait()
    assert target.read_text() == "one\ntwo\n"
    job = await sh.start("echo job; echo other >&2; cat", stdout=target, split_stderr=True, ready="job")
    assert target.read_text() == "job\n"
    await job.send("", close=True)
    await job.wait()
    with pytest.raises(InvalidCommand, match="cannot be written: Is a directory"):
        await sh.start("touch started", stdout=tmp_path)
    with pytest.raises(InvalidCommand, match="a detached job takes only cwd, env and reach"):
        await sh.start("touch started", stdout=target, detach=True)  # type: ignore[call-overload]  # that is the point
    assert not Path(sh.directory, "started").exists()


async def test_stdout_of_a_fleet_is_a_file_for_each_host(tmp_path: Path) -> None:
    def fake(name: str) -> FakeBackend:
        backend = FakeBackend({"say": Script(stdout=[f"from {name}\n".encode()])})
        backend.name = name
        return backend

    written = {"web-1": "web-1", "deploy@web:22/x": "deploy@web%3A22%2Fx", "..": None}
    logs = tmp_path / "new" / "logs"
    async with Fleet([fake(name) for name in written], artifacts=None) as fleet:
        ended = {each.host: each async for each in fleet.run("say", stdout=logs)}
        for name, file in written.items():
            if file is not None:
                assert (logs / file).read_text() == f"from {name}\n" == ended[name].check().output.text
                assert ended[name].check().output.file == logs / file
        assert isinstance(ended[".."].error, InvalidCommand)  # no file of another directory is used
        assert sorted(each.name for each in logs.iterdir()) == ["deploy@web%3A22%2Fx", "web-1"]
        with pytest.raises(
            InvalidCommand, match=r"stdout of a fleet must be a directory, .* not BytesIO; listener="
        ):
            fleet.run("say", stdout=io.BytesIO())  # type: ignore[arg-type]  # that is the point
        with pytest.raises(InvalidCommand, match=r"the directory '.*web-1' cannot be made: File exists"):
            fleet.run("say", stdout=logs / "web-1")


async def test_stdout_file_has_secrets_masked(tmp_path: Path) -> None:
    target = tmp_path / "target"
    async with Environment.detect(shell="sh", redact=Redaction(values=("swordfish-2",))) as env:
        await env.run("echo swordfish-2", stdout=target)
    assert target.read_text() == "[secret]\n"


@pytest.mark.parametrize(
    ("stdout", "message"),
    [
        ("no/such/file", r"stdout: '.*no/such/file' cannot be written: No such file or directory"),
        ("/", r"stdout: '/' cannot be written: Is a directory"),
        ("", "stdout is empty: give a path, or leave it out"),
        ("a\0b", "stdout holds a NUL byte at character 1"),
        (io.StringIO(), "stdout is a file that is open as text: open it with 'wb'"),
        (open_file("rb"), "stdout is a file that is not open for that: open it with 'wb'"),
        (closed_file(), "stdout is a file that is closed already: open it with 'wb', and close it later"),
        (
            subprocess.PIPE,
            "stdout must be a path, or a file opened with 'wb', not int; without it, the output is in",
        ),
    ],
)
async def test_stdout_that_cannot_be_written_is_named(sh: Environment, stdout: object, message: str) -> None:
    with pytest.raises(InvalidCommand, match=message):
        await sh.run("touch started", stdout=stdout)  # type: ignore[arg-type]  # that is the point
    assert not Path(sh.directory, "started").exists()


async def test_full_disk_stops_the_command_and_is_named(sh: Environment) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("only Linux has /dev/full")
    with pytest.raises(OSError, match="No space left on device: '/dev/full'"):
        await sh.run("yes", stdout="/dev/full")
    file = open("/dev/full", "wb")  # noqa: SIM115 - a close would write once more what it has buffered, and fail
    with pytest.raises(OSError, match="No space left on device: '/dev/full'"):
        await sh.run("echo few", stdout=file)
    file.raw.close()


async def test_failed_start_leaves_the_stdout_file_unchanged(sh: Environment, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("older")
    with pytest.raises(InvalidCommand):
        await sh.run("echo newer", stdout=target, cwd="no/such")
    assert target.read_text() == "older"
    await sh.run("true", stdout=target)
    assert target.read_text() == ""


async def test_named_pipe_waits_for_its_reader_within_a_bound(
    sh: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    monkeypatch.setattr(redirects, "READER_WAIT", 0)
    with pytest.raises(InvalidCommand, match="no program has opened this named pipe for reading within 0 s"):
        await sh.run("touch started", stdout=fifo)
    assert not (tmp_path / "started").exists()
    monkeypatch.setattr(redirects, "READER_WAIT", 20)
    running = asyncio.create_task(sh.run("echo read", stdout=fifo))
    assert await asyncio.to_thread(fifo.read_bytes) == b"read\n"
    assert (await running).ok


async def test_cancelled_run_closes_its_file(sh: Environment, tmp_path: Path) -> None:
    seconds = unique_seconds()
    running = asyncio.create_task(sh.run(f"echo one; sleep {seconds}", stdout=tmp_path / "target"))
    await asyncio.to_thread(wait_asleep, seconds)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (tmp_path / "target").read_text() == "one\n"
