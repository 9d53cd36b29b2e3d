"""Recorded commands: over pipes and terminals, on this machine and by SSH, and reasons not to record.

The format itself is in ``test_asciicast.py``.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import stat
import subprocess
import sys
import threading
import time
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

assert sys.platform != "win32"  # else mypy checks the code below on every platform

import anyshell
from anyshell import Environment, InvalidCommand, Outcome, Terminal
from anyshell._types import LARGEST_RECORDING, LEAST_RECORDING, LONGEST_TITLE
from anyshell._waits import Changes
from anyshell.errors import RecordingError, SpawnError
from anyshell.recordings import read, recorder
from anyshell.recordings.asciicast import Event, Header
from anyshell.recordings.file import LONGEST_TEXT, RESERVED, RecordingFile
from anyshell.terminal.secrets import TypedMasks
from anyshell.testing import FakeBackend, Script
from anyshell.types import Recording

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from pathlib import Path

    from .ssh_server import Server

pytestmark = pytest.mark.anyio

SECRET = "hunter2-Ünïcode"
BOUND = 20.0
"""Seconds after which the test no longer waits for an event."""


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Environment]:
    """This machine alone."""
    async with Environment.detect(cwd=tmp_path) as environment:
        yield environment


@pytest.fixture(params=["local", "openssh as a user"])
async def anywhere(
    request: pytest.FixtureRequest, tmp_path: Path, ssh_host: Callable[[str], Server]
) -> AsyncIterator[Environment]:
    """This machine, and a host reached by SSH."""
    host = "local" if request.param == "local" else ssh_host(request.param).options()
    async with Environment.detect(host) as environment:
        yield environment


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The path of the recording: no such file exists yet."""
    return tmp_path / "demo.cast"


def recorded(file: Path) -> tuple[Header, list[Event]]:
    with file.open("rb") as opened:
        header, events = read(opened)
        return header, list(events)


def shown(file: Path, code: str = "o") -> str:
    return "".join(event.data for event in recorded(file)[1] if event.code == code)


# # --- pipes ----------------------------------------------------------------------------------------------------


async def test_output_is_recorded_as_shown_on_a_terminal(anywhere: Environment, file: Path) -> None:
    before = int(time.time())
    outcome = await anywhere.run("echo one; echo ünder >&2; printf two; exit 3", record=file)
    header, events = recorded(file)
    assert header == Header(timestamp=header.timestamp, env={"SHELL": anywhere.shell.path})
    assert header.timestamp is not None
    assert before <= header.timestamp <= time.time()
    assert shown(file) == "one\r\nünder\r\ntwo"
    assert events[-1] == Event(events[-1].time, "x", "3")
    assert events[-1].time <= outcome.duration + recorder.DISK_SECONDS
    assert outcome.output.text == "one\nünder\ntwo"
    assert outcome.recording is not None
    assert (outcome.recording.path, outcome.recording.size) == (file, file.stat().st_size)
    assert (outcome.recording.complete, outcome.recording.notice) == (True, None)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


async def test_command_input_and_variables_are_not_recorded_by_default(here: Environment, file: Path) -> None:
    outcome = await here.run("cat; echo $VALUE", stdin="typed\n", env={"VALUE": "v"})
    assert outcome.recording is None
    assert not file.exists()
    outcome = await here.run(
        "cat >/dev/null; : $VALUE secret words", stdin=SECRET, env={"VALUE": SECRET}, record=file
    )
    assert [event.code for event in recorded(file)[1]] == ["x"]
    assert "words" not in file.read_text()  # the command is not recorded either, for it may hold a secret


async def test_split_channels_are_both_recorded(here: Environment, file: Path) -> None:
    outcome = await here.run("echo out; echo err >&2", split_stderr=True, record=file)
    assert sorted(shown(file).splitlines()) == ["err", "out"]
    assert outcome.stderr is not None
    assert (outcome.output.text, outcome.stderr.text) == ("out\n", "err\n")


async def test_input_of_a_pipe_is_recorded_on_request(anywhere: Environment, file: Path) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"gr"
        yield "ü".encode()[:1]
        yield "ü".encode()[1:] + b"n\n"

    await anywhere.run("cat", stdin=pieces(), record=Recording(file, input=True))
    assert (shown(file, "i"), shown(file)) == ("grün\n", "grün\r\n")


async def test_version_2_is_written_by_request(here: Environment, file: Path) -> None:
    recording = Recording(file, version=2, title="A title", idle_time_limit=2)
    await here.run("echo one; sleep 0.05; echo two", terminal=Terminal(columns=40, rows=10), record=recording)
    header, events = recorded(file)
    assert (header.version, header.columns, header.rows, header.term) == (2, 40, 10, "xterm-256color")
    assert (header.title, header.idle_time_limit) == ("A title", 2)
    assert shown(file) == "one\r\ntwo\r\n"
    assert {event.code for event in events} == {"o"}
    assert events[-1].time >= 0.05  # since the beginning, and not since the event before
    assert json.loads(file.read_text().splitlines()[-1])[0] == pytest.approx(events[-1].time)


async def test_a_host_s_code_page_is_decoded(file: Path) -> None:
    made = RecordingFile(file, Header(), max_bytes=LARGEST_RECORDING, on_terminal=False, code_page=1252)
    made.put([(0, "stdout", b"gr\xfcn\n")])
    made.finish([], 1, 0, None)
    assert shown(file) == "grün\r\n"


async def test_blocking_run_is_recorded(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(file.parent)
    outcome = await asyncio.to_thread(anyshell.run, "echo one", record=file.name)
    assert outcome.recording is not None
    assert outcome.recording.path == file
    assert shown(file) == "one\r\n"


async def test_a_stream_a_session_and_a_job_are_recorded(here: Environment, tmp_path: Path) -> None:
    async with here.stream("echo one", record=tmp_path / "stream") as events:
        assert [event.text async for event in events] == ["one"]
    assert events.outcome.recording is not None
    async with here.session() as session:
        await session.run("cd /")
        outcome = await session.run("pwd", record=tmp_path / "session")
    assert outcome.session is not None
    job = await here.start("read x; echo $x", record=Recording(tmp_path / "job", input=True))
    await job.send("three\n")
    assert (await job.wait(timeout=BOUND)) is not None
    assert [shown(tmp_path / name) for name in ("stream", "session", "job")] == [
        "one\r\n",
        "/\r\n",
        "three\r\n",
    ]
    assert shown(tmp_path / "job", "i") == "three\n"
    start: Any = here.start
    with pytest.raises(InvalidCommand, match="detached job"):
        await start("true", detach=True, record=tmp_path / "detached")


async def test_a_command_that_becomes_a_job_is_recorded_to_its_end(here: Environment, file: Path) -> None:
    go = file.with_name("go")
    text = f"echo one; until [ -e {go} ]; do sleep 0.02; done; echo two"
    outcome = await here.run(text, background_after=0.1, record=file)
    assert (outcome.status, outcome.recording) == ("running", None)
    go.touch()
    done = await here.jobs.get(outcome.job or "").wait(timeout=BOUND)
    assert done is not None
    assert done.recording is not None
    assert shown(file) == "one\r\ntwo\r\n"


# # --- terminals ------------------------------------------------------------------------------------------------


async def test_a_terminal_is_recorded_with_its_sizes_and_without_secrets(
    anywhere: Environment, file: Path
) -> None:
    program = (
        "stty -echo; printf 'Password: '; read x; stty echo; echo; echo \"got $x\"; "
        "printf 'Again: '; read y; echo \"got $y\"; printf 'name? '; read z; stty size"
    )
    async with anywhere.terminal(
        program, columns=60, rows=20, record=Recording(file, input=True)
    ) as terminal:
        await terminal.expect("Password: ")
        await terminal.send_secret(lambda _: SECRET)
        await terminal.expect("Again: ")
        await terminal.send(SECRET + "\r")  # not by `send_secret`, and on a terminal with echo
        await terminal.expect(r"name\? ")
        await terminal.resize(columns=50)
        await terminal.send("Ünï\r")
        outcome = await terminal.wait()
    header, events = recorded(file)
    assert (header.columns, header.rows, header.term) == (60, 20, "xterm-256color")
    assert [event.size for event in events if event.code == "r"] == [(50, 20)]
    assert "20 50" in shown(file)
    assert shown(file, "i") == "[secret]\r[secret]\rÜnï\r"
    assert shown(file).count("[secret]") == 3
    assert SECRET not in shown(file) + shown(file, "i") + outcome.output.text
    assert events[-1].code == "x"
    assert outcome.recording is not None
    assert outcome.recording.complete


async def test_input_without_echo_is_not_recorded(anywhere: Environment, file: Path) -> None:
    """Input without echo, such as a password: not even its length is recorded, with any cut."""
    program = "printf 'Password: '; stty -echo; read x; stty echo; echo; printf 'name? '; read y"
    async with anywhere.terminal(program, record=Recording(file, input=True)) as terminal:
        await terminal.expect("Password: ")
        while (seat := await terminal.foreground()) is None or seat.echo:
            await asyncio.sleep(0.01)
        for piece in ("pass", "word", "\r"):
            await terminal.send(piece)
        await terminal.expect(r"name\? ")
        await terminal.send("me\r")
        outcome = await terminal.wait()
    assert shown(file, "i") == "[secret]\rme\r"
    assert "pass" not in file.read_text().replace("Password", "")
    assert outcome.recording is not None
    assert outcome.recording.complete


async def test_input_is_not_recorded_where_its_echo_is_unknown(
    file: Path,
) -> None:
    backend = FakeBackend({"fake": Script(stdout=[b"prompt> "], echo=True)})
    async with (
        Environment.detect(backend) as env,
        env.terminal("fake", record=Recording(file, input=True)) as terminal,
    ):
        await terminal.expect("prompt> ")
        await terminal.send("who\rknows\r")
        await terminal.expect("knows")
        outcome = await terminal.stop()
    assert shown(file, "i") == "[secret]\r[secret]\r"
    assert outcome.recording is not None
    assert not outcome.recording.complete
    assert "the host does not say whether it was a secret" in (outcome.recording.notice or "")


@given(st.lists(st.integers(0, 200), max_size=20))
def test_typed_secret_is_masked_across_any_cut(at: list[int]) -> None:
    known = TypedMasks()
    masks = TypedMasks(known)
    known.add(SECRET)  # added later, as in a real session
    data = f"x{SECRET}\r{SECRET[:3]}y".encode()
    places = [0, *sorted({place % (len(data) + 1) for place in at}), len(data)]
    typed = b"".join(masks.feed(data[start:end]) for start, end in pairwise(places)) + masks.release()
    assert typed.decode() == f"x[secret]\r{SECRET[:3]}y"


async def test_recording_notes_a_stopped_command(here: Environment, file: Path) -> None:
    outcome = await here.run("echo one; sleep 300", timeout=0.5, terminal=Terminal(), record=file)
    assert outcome.status == "timed_out"
    assert recorded(file)[1][-1].data == str(128 + signal.Signals[outcome.signal or ""])
    assert "\n# the command timed out\n" in file.read_text()


# # --- decoding -------------------------------------------------------------------------------------------------


@given(st.text() | st.text("\r\nü"), st.lists(st.integers(0, 1000), max_size=30), st.booleans())
@example("\r\r\n", [1], False)
@example("\r\n\n", [1], False)
def test_no_character_is_lost_where_output_is_cut(
    tmp_path_factory: pytest.TempPathFactory, text: str, at: list[int], on_terminal: bool
) -> None:
    path = tmp_path_factory.mktemp("cut") / "demo.cast"
    data = text.encode("utf-8", "replace")
    places = [0, *sorted({place % (len(data) + 1) for place in at}), len(data)]
    made = RecordingFile(path, Header(), max_bytes=LARGEST_RECORDING, on_terminal=on_terminal, code_page=None)
    made.put([(number, "stdout", data[a:b]) for number, (a, b) in enumerate(pairwise(places))])
    made.finish([], len(places), 0, None)
    expected = data.decode()
    assert shown(path) == (expected if on_terminal else re.sub(r"(?<!\r)\n", "\r\n", expected))
    assert made.notice is None


def test_unfinished_character_is_replaced_at_the_end(file: Path) -> None:
    made = RecordingFile(file, Header(), max_bytes=LARGEST_RECORDING, on_terminal=True, code_page=None)
    made.put([(0, "stdout", "ü".encode()[:1])])
    assert shown(file) == ""
    made.finish([], 1, 0, None)
    assert [event.data for event in recorded(file)[1]] == ["\ufffd", "0"]


# --- bounds ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(
    ("command", "whole"),
    [
        ("seq 100000", "".join(f"{number}\r\n" for number in range(1, 100001))),
        (r"printf 'ü\033%.0s' $(seq 20000)", "ü\x1b" * 20000),
    ],
    ids=["lines", "escapes"],
)
async def test_full_recording_ends_with_a_notice(
    here: Environment, file: Path, version: Any, command: str, whole: str
) -> None:
    recording = Recording(file, version=version, max_bytes=LEAST_RECORDING)
    outcome = await here.run(f"{command}; sleep 0.1; echo end", record=recording)
    assert outcome.output.total_bytes == len(whole.replace("\r", "").encode()) + len("end\n")
    assert outcome.recording is not None
    assert outcome.recording.notice == "it ends early: its limit of 16,384 bytes was reached"
    assert not outcome.recording.complete
    assert LEAST_RECORDING - 2 * RESERVED < file.stat().st_size <= LEAST_RECORDING
    assert outcome.recording.size == file.stat().st_size
    codes = [event.code for event in recorded(file)[1]]
    assert codes[-2:] == (["o", "m"] if version == 2 else ["m", "x"])
    assert "limit of 16,384 bytes" in shown(file, "m")
    assert whole.startswith(shown(file))


async def test_program_waits_for_a_slower_disk(
    here: Environment, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()
    most: list[int] = []
    put = RecordingFile.put

    def slow(self: RecordingFile, happened: Sequence[Any]) -> None:
        most.append(sum(len(data) for _, _, data in happened))
        go_on.wait(BOUND)
        put(self, happened)

    monkeypatch.setattr(RecordingFile, "put", slow)
    monkeypatch.setattr(recorder, "DISK_SECONDS", BOUND)
    waits = asyncio.Event()

    class Noticed(Changes):
        async def wait(self, seconds: float | None = None) -> bool:
            waits.set()
            return await super().wait(seconds)

    monkeypatch.setattr(recorder, "Changes", Noticed)
    running = asyncio.ensure_future(here.run("head -c 8000000 /dev/zero | tr '\\0' x", record=file))
    await asyncio.wait_for(waits.wait(), BOUND)
    assert not running.done()
    go_on.set()
    outcome = await running
    assert outcome.recording is not None
    assert outcome.recording.complete
    assert max(most) <= recorder.HELD + 65536
    assert shown(file) == "x" * 8_000_000
    assert max(len(event.data) for event in recorded(file)[1]) == LONGEST_TEXT


async def test_blocked_disk_stops_no_command(
    here: Environment, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()
    put = RecordingFile.put

    def stuck(self: RecordingFile, happened: Sequence[Any]) -> None:
        go_on.wait(BOUND)
        put(self, happened)

    monkeypatch.setattr(RecordingFile, "put", stuck)
    monkeypatch.setattr(recorder, "DISK_SECONDS", 0.3)
    try:
        outcome = await here.run("head -c 8000000 /dev/zero | tr '\\0' x; exit 3", record=file)
    finally:
        go_on.set()
    assert (outcome.exit_code, outcome.output.total_bytes) == (3, 8_000_000)
    assert outcome.recording is not None
    assert not outcome.recording.complete
    assert "the disk took nothing for" in (outcome.recording.notice or "")


HANGS = """
import asyncio, sys, threading
from anyshell import Environment
from anyshell.recordings import recorder
from anyshell.recordings.file import RecordingFile
recorder.DISK_SECONDS = 0.3
RecordingFile.put = lambda self, happened: threading.Event().wait()
async def main():
    async with Environment.detect() as env:
        outcome = await env.run("echo one; exit 3", record=sys.argv[1])
        print(outcome.exit_code, outcome.recording.complete)
asyncio.run(main())
"""
"""A program that records onto a disk that never accepts data."""


def test_hanging_disk_does_not_prevent_exit(file: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", HANGS, str(file)], capture_output=True, text=True, check=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("3 False\n", "")
    assert recorded(file)[1] == []


FULL = """
import asyncio, resource, sys
from anyshell import Environment
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
async def main():
    async with Environment.detect() as env:
        outcome = await env.run("seq 50000; sleep 0.1; echo end; exit 3", record=sys.argv[1])
        print(outcome.exit_code, outcome.output.total_lines, outcome.recording.size, outcome.recording.complete)
        print(outcome.recording.notice)
asyncio.run(main())
"""
"""A program that records with a limit of 20,000 bytes for each file: a separate process, since the limit holds for all of it."""


def test_full_disk_stops_no_command_and_leaves_whole_lines(file: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(file)], capture_output=True, text=True, check=True, timeout=60
    )
    first, notice = done.stdout.splitlines()
    assert first == f"3 50001 {file.stat().st_size} False"
    assert notice == "it broke off, since the file could not be written: File too large"
    assert file.read_bytes().endswith(b"]\n") or file.read_bytes().endswith(b"}\n")
    assert "".join(f"{number}\r\n" for number in range(1, 50001)).startswith(shown(file))


KILLED = """
import asyncio, sys
from anyshell import Environment
async def never():
    await asyncio.sleep(1000)
    yield b""
async def main():
    async with Environment.detect() as env:
        await env.run("echo one; cat", stdin=never(), record=sys.argv[1])
asyncio.run(main())
"""
"""A program that records a command with an endless stdin, so that the command goes on."""


def test_recording_of_a_killed_process_can_be_read(file: Path) -> None:
    program = subprocess.Popen([sys.executable, "-c", KILLED, str(file)])
    try:
        give_up = time.monotonic() + BOUND
        while not file.exists() or b"one" not in file.read_bytes():
            assert time.monotonic() < give_up
            time.sleep(0.02)
    finally:
        program.kill()
        program.wait()
    assert [(event.code, event.data) for event in recorded(file)[1]] == [("o", "one\r\n")]


@pytest.mark.parametrize("how", ["rm {0}", "mv {0} {0}.moved", "rm {0}; echo other > {0}"])
async def test_recording_removed_by_its_command_is_reported(here: Environment, file: Path, how: str) -> None:
    """A command may clean up its directory first."""
    outcome = await here.run(f"echo one; {how.format(file.name)}", record=file)
    assert outcome.exit_code == 0
    assert outcome.recording is not None
    assert not outcome.recording.complete
    assert (
        outcome.recording.notice == "it is not there any more: it was removed or moved while it was written"
    )


# # --- refused recordings ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["file", "link", "broken link", "directory", "pipe", "no directory"])
async def test_unsuitable_file_is_refused_before_anything_runs(
    here: Environment, file: Path, tmp_path: Path, kind: str
) -> None:
    other = tmp_path / "another's"
    other.write_text("precious")
    path = file
    if kind == "file":
        file.write_text("precious")
    elif kind == "link":
        file.symlink_to(other)
    elif kind == "broken link":
        file.symlink_to(tmp_path / "target")
    elif kind == "directory":
        file.mkdir()
    elif kind == "pipe":
        os.mkfifo(file)
    else:
        path = tmp_path / "none" / "demo.cast"
    with pytest.raises(RecordingError) as caught:
        await here.run("touch ran", record=path)
    assert f"cannot record to {str(path)!r}" in str(caught.value)
    assert "choose" in str(caught.value)
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "target").exists()
    assert other.read_text() == "precious"
    assert kind != "file" or file.read_text() == "precious"
    with pytest.raises(RecordingError):
        async with here.terminal("touch ran", record=path):
            pass
    with pytest.raises(RecordingError):
        await here.start("touch ran", record=path)
    assert not (tmp_path / "ran").exists()


async def test_failed_start_leaves_no_recording(here: Environment, file: Path) -> None:
    with pytest.raises(InvalidCommand, match="cwd"):
        await here.run("true", cwd="/no/such/directory", record=file)
    assert not file.exists()
    async with Environment.detect(FakeBackend({"fake": Script(error="no room")})) as env:
        for terminal in (None, Terminal()):
            with pytest.raises(SpawnError):
                await env.run("fake", record=file, terminal=terminal)
            assert not file.exists()
    assert (await here.run("true", record=file)).recording is not None


async def test_timeout_before_the_start_leaves_no_recording(here: Environment, file: Path) -> None:
    async with here.session() as session:
        first = asyncio.ensure_future(session.run("sleep 300", timeout=1))
        await asyncio.sleep(0)
        outcome = await session.run("true", timeout=0.2, record=file)  # the session is still busy
        await first
    assert (outcome.started, outcome.recording) == (False, None)
    assert not file.exists()


async def test_recording_of_a_cancelled_command_is_closed(here: Environment, file: Path) -> None:
    running = asyncio.ensure_future(here.run("echo one; sleep 300", record=file))
    while not file.exists() or b"one" not in file.read_bytes():
        await asyncio.sleep(0.02)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert shown(file) == "one\r\n"
    assert file.read_text().endswith("# the command was cancelled\n")
    assert str(file) not in [opened.path for opened in psutil.Process().open_files()]


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ({"path": ""}, "needs the path of a file"),
        ({"path": b"bytes"}, "needs the path of a file"),
        ({"path": "directory/"}, "is that of a directory"),
        ({"path": "a\0b"}, "NUL"),
        ({"version": 1}, "version 2 or 3"),
        ({"version": True}, "version 2 or 3"),
        ({"max_bytes": LEAST_RECORDING - 1}, "max_bytes"),
        ({"title": "t" * (LONGEST_TITLE + 1)}, "title"),
        ({"idle_time_limit": 0}, "idle_time_limit"),
        ({"idle_time_limit": 10**5000}, "idle_time_limit must be a number of seconds that a clock can count"),
    ],
)
async def test_malformed_recording_options_are_refused(
    here: Environment, file: Path, fault: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidCommand, match=message):
        await here.run("true", record=Recording(**{"path": file, **fault}))
    with pytest.raises(InvalidCommand, match="record must be a path"):
        await here.run("true", record=5)  # type: ignore[arg-type]  # that is the test
    assert not file.exists()


def test_outcome_has_no_recording_by_default() -> None:
    assert Outcome(status="exited").recording is None
