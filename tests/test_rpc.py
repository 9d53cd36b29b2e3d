"""``anyshell rpc``: its protocol, with a server in this process; its endings, as a separate program; clients in other languages."""

from __future__ import annotations

import asyncio
import base64
import importlib
import json
import re
import shutil
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from anyshell import Environment, Reach
from anyshell.rpc import server as rpc_server
from anyshell.rpc.methods import METHODS, schema
from anyshell.rpc.server import Server
from anyshell.tool.params import alike

from .cli_program import within
from .conftest import bubblewrap, framework, missing, row
from .processes import STARTED, living, unique_seconds, wait_asleep, wait_living

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.anyio

EXAMPLES = Path(__file__).parents[1] / "examples"
RPC = [sys.executable, "-m", "anyshell", "rpc"]
HELLO = {"id": 0, "method": "hello", "params": {"version": 1}}


async def pause() -> None:
    """Let every other task run as far as possible."""
    for _ in range(10):
        await asyncio.sleep(0)


class Client:
    """A client of a server in this process."""

    def __init__(self, env: Environment) -> None:
        self._lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._told: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.reads = asyncio.Event()
        self.reads.set()
        self.server = Server(env, self._write)
        self._ended = asyncio.ensure_future(self.server.serve(self._read()))

    async def _write(self, line: bytes) -> None:
        await self.reads.wait()
        await pause()
        assert line.endswith(b"\n")
        assert b"\n" not in line[:-1]
        self._told.put_nowait(json.loads(line, parse_constant=pytest.fail))
        await (
            pause()
        )  # the client may have read the line, and sent another, before the write is known to be complete

    async def _read(self) -> AsyncIterator[bytes]:
        while (line := await self._lines.get()) is not None:
            yield line

    def send(self, line: bytes | dict[str, Any]) -> None:
        self._lines.put_nowait(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n")

    async def next(self) -> dict[str, Any]:
        return await self._told.get()

    def told_already(self) -> dict[str, Any]:
        return self._told.get_nowait()

    async def call(self, method: str, call_id: str = "c", **params: Any) -> Any:
        self.send({"id": call_id, "method": method, "params": params})
        told = await self.next()
        assert told["id"] == call_id
        return told.get("result") or told["error"]

    async def close(self) -> None:
        self._lines.put_nowait(None)
        await self._ended


@pytest.fixture
async def client(env: Environment) -> AsyncIterator[Client]:
    made = Client(env)
    assert (await made.call("hello", version=1))["version"] == 1
    yield made
    await made.close()


async def test_greeting_comes_first_and_names_version_host_and_methods(env: Environment) -> None:
    client = Client(env)
    assert (await client.call("run", command="true"))["code"] == "no_hello"
    wrong = await client.call("hello", version=2)
    assert (wrong["code"], "is 1" in wrong["message"]) == ("no_version", True)
    assert (await client.call("run", command="true"))["code"] == "no_hello"
    told = await client.call("hello", version=1, client="test")
    assert told["methods"] == list(METHODS)
    assert (told["host"], told["directory"]) == (env.host, env.directory)
    await client.close()


async def test_run_returns_the_outcome(client: Client, env: Environment) -> None:
    outcome = await client.call(
        "run", command='echo "$A"; cat; pwd; exit 3', env={"A": "a"}, stdin="in\n", cwd="/"
    )
    assert (outcome["status"], outcome["exit_code"]) == ("exited", 3)
    assert outcome["output"]["text"] == "a\nin\n/\n"
    apart = await client.call("run", command="echo out; echo err >&2", split_stderr=True)
    assert (apart["output"]["text"], apart["stderr"]["text"]) == ("out\n", "err\n")
    assert (await client.call("bash", command="kill -9 $$"))["signal"] == "SIGKILL"


async def test_run_takes_a_narrower_reach_and_returns_effects(tmp_path: Path) -> None:
    bubblewrap()
    async with Environment.detect(cwd=tmp_path, reach=Reach.preset("workspace")) as env:
        client = Client(env)
        await client.call("hello", version=1)
        outcome = await client.call("run", command="echo x > a; echo x > /usr/b", effects=True)
        assert re.search("Read-only file system|Permission denied", outcome["output"]["text"])
        assert [each["path"] for each in outcome["effects"]["created"]] == ["a"]
        for narrower in ("read-only", {"read": ["/", "."]}):
            refused = await client.call("run", command="echo x > c", reach=narrower)
            assert "Read-only file system" in refused["output"]["text"]
        job = (await client.call("jobs.start", command="echo x > c", reach="read-only"))["job"]
        assert (await client.call("jobs.wait", job=job))["exit_code"] == 1
        for wrong, said in (
            ({"reach": "none"}, "than the reach of the environment"),
            ({"reach": {"writes": []}}, "'writes' is not a key"),
            ({"reach": "read-only", "session": "s"}, "a session has that of the environment"),
        ):
            with row(said):
                assert said in (await client.call("run", command="true", **wrong))["message"]
        await client.close()
    assert not (tmp_path / "c").exists()


async def test_timeout_and_silence_stop_the_tree(client: Client) -> None:
    seconds = unique_seconds()
    late = await client.call("run", command=f"echo out; sleep {seconds} & wait", timeout=2)
    assert (late["status"], late["output"]["text"]) == ("timed_out", "out\n")
    still = await client.call("run", command=f"sleep {seconds}", silence=0.3)
    assert (still["status"], still["silence"]) == ("timed_out", 0.3)
    assert not living(seconds)


async def test_stream_sends_output_before_the_result(client: Client) -> None:
    client.send(
        {
            "id": "s",
            "method": "stream",
            "params": {"command": "printf 'h\\303'; sleep 0.1; printf '\\251\\n'"},
        }
    )
    told = [await client.next()]
    while "event" in told[-1]:
        told.append(await client.next())
    assert "".join(each["data"] for each in told[:-1]) == "hé\n"
    assert {each["channel"] for each in told[:-1]} == {"stdout"}
    assert told[-1]["result"]["exit_code"] == 0
    client.send(
        {
            "id": "b",
            "method": "stream",
            "params": {"command": "printf '\\377' >&2", "split_stderr": True, "encoding": "base64"},
        }
    )
    event = await client.next()
    assert (event["channel"], base64.b64decode(event["data"])) == ("stderr", b"\xff")
    assert (await client.next())["id"] == "b"


async def test_abort_stops_a_command_and_gives_up_a_wait(client: Client) -> None:
    seconds = unique_seconds()
    client.send({"id": "r", "method": "bash", "params": {"command": f"echo out; sleep {seconds}"}})
    await asyncio.to_thread(wait_asleep, seconds)
    client.send({"id": "a", "method": "abort", "params": {"id": "r"}})
    told = {each["id"]: each["result"] for each in (await client.next(), await client.next())}
    assert told["a"] == {"aborted": ["r"]}
    assert (told["r"]["status"], told["r"]["output"]["text"]) == ("cancelled", "out\n")
    assert not living(seconds)
    job = (await client.call("jobs.start", command=f"sleep {seconds}"))["job"]
    client.send({"id": "w", "method": "jobs.wait", "params": {"job": job}})
    client.send({"id": "a", "method": "abort_bash"})
    answers = {each["id"]: each for each in (await client.next(), await client.next())}
    assert answers["w"]["error"]["code"] == "aborted"
    assert await client.call("abort", id="none") == {"aborted": []}
    assert (await client.call("jobs.stop", job=job))["status"] == "stopped"
    assert not living(seconds)


async def test_session_keeps_its_shell_by_its_name(client: Client, env: Environment) -> None:
    await client.call("run", command="cd /; x=1", session="a")
    kept = await client.call("run", command="pwd; echo $x", session="a")
    assert (kept["output"]["text"], kept["session"]["directory"]) == ("/\n1\n", "/")
    client.send({"id": "x", "method": "session.restart", "params": {"name": "a"}})
    assert await client.next() == {"id": "x", "result": {}}
    fresh = await client.call("run", command="echo $x", session="a")
    assert fresh["output"]["text"] == "\n"
    client.send({"id": "x", "method": "session.close", "params": {"name": "a"}})
    assert await client.next() == {"id": "x", "result": {}}


async def test_job_is_read_sent_input_and_stopped(client: Client) -> None:
    job = (await client.call("jobs.start", command="echo ready; read x; echo got $x; exit 4"))["job"]
    piece = await client.call("jobs.output", job=job, wait=20)
    assert (piece["text"], piece["running"]) == ("ready\n", True)
    assert (await client.call("jobs.send", job=job, data="it\n"))["taken"]
    ended = await client.call("jobs.wait", job=job)
    assert (ended["status"], ended["exit_code"]) == ("failed", 4)
    rest = await client.call("jobs.output", job=job, since=piece["offset"])
    assert (rest["text"], rest["running"]) == ("got it\n", False)
    assert [each["job"] for each in (await client.call("jobs.list"))["jobs"]] == [job]
    unknown = await client.call("jobs.wait", job="none")
    assert (unknown["code"], unknown["type"]) == ("failed", "JobNotFound")


async def test_process_left_behind_is_a_job(client: Client) -> None:
    seconds = unique_seconds()
    outcome = await client.call("run", command=f"sleep {seconds} & {STARTED}; echo started")
    assert (outcome["output"]["text"], outcome["left_behind"][0]["name"]) == ("started\n", "sleep")
    await client.call("jobs.stop", job=outcome["job"])
    assert not living(seconds)


async def test_files_are_read_and_written(client: Client) -> None:
    data = base64.b64encode(b"\x00\xff").decode()
    for params in ({"data": "one\n"}, {"data": data, "encoding": "base64", "append": True}):
        client.send({"id": "w", "method": "files.write", "params": {"path": "f", **params}})
        assert await client.next() == {"id": "w", "result": {}}
    assert (await client.call("files.read", path="f", length=4)) == {"data": "one\n", "size": 4}
    assert (await client.call("files.read", path="f", offset=4, encoding="base64"))["data"] == data
    assert "base64" in (await client.call("files.read", path="f"))["message"]
    assert (await client.call("files.stat", path="f"))["size"] == 6
    client.send({"id": "m", "method": "files.mkdir", "params": {"path": "a/b", "parents": True}})
    assert (await client.next())["result"] == {}
    assert await client.call("files.list", path=".") == {"names": ["a", "f"]}
    client.send({"id": "d", "method": "files.remove", "params": {"path": "a", "recursive": True}})
    assert (await client.next())["result"] == {}
    gone = await client.call("files.read", path="a/b")
    assert (gone["code"], gone["type"]) == ("file", "ENOENT")
    assert (await client.call("files.write", path="f", data="=", encoding="base64"))["code"] == "failed"


async def test_artifact_is_named(client: Client) -> None:
    outcome = await client.call("run", command="seq 100000")
    assert outcome["output"]["omitted_bytes"] > 0
    assert Path(outcome["output"]["artifact"]["path"]).read_text().endswith("100000\n")


BAD: list[tuple[bytes, str, str]] = [
    (b"nonsense", "bad_message", "JSON object"),
    (b"[1]", "bad_message", "JSON object"),
    (b"[" * 100_000, "bad_message", "JSON object"),
    (b"\xff\xfe", "bad_message", "JSON object"),
    (b'{"method": "run"}', "bad_message", "id"),
    (b'{"id": true, "method": "run"}', "bad_message", "id"),
    (b'{"id": "' + b"x" * 300 + b'", "method": "run"}', "bad_message", "200"),
    (b'{"id": 1, "method": "run", "command": "x"}', "bad_message", "params"),
    (b'{"id": 1, "method": "runn"}', "no_method", 'did you mean "run"'),
    (b'{"id": 1, "method": 5}', "no_method", "the methods are hello, run"),
    (b'{"id": 1, "method": "run"}', "bad_params", "command is missing"),
    (b'{"id": 1, "method": "run", "params": {"comand": "x"}}', "bad_params", 'did you mean "command"'),
    (b'{"id": 1, "method": "run", "params": {"command": ["x"]}}', "bad_params", "one string"),
    (b'{"id": 1, "method": "run", "params": {"command": "x", "timeout": "5"}}', "bad_params", "timeout"),
    (b'{"id": 1, "method": "run", "params": {"command": "x", "timeout": NaN}}', "failed", "timeout"),
    (b'{"id": 1, "method": "run", "params": {"command": "a\\u0000b"}}', "failed", "NUL"),
    (b'{"id": 1, "method": "run", "params": {"command": "\\ud800"}}', "failed", "command"),
    (b'{"id": 1, "method": "run", "params": {"command": "x", "cwd": "/none"}}', "failed", "/none"),
    (b'{"id": 1, "method": "files.read", "params": {"path": ""}}', "failed", "empty"),
    (b'{"id": 1, "method": "jobs.list", "params": []}', "bad_params", "object"),
    (
        b'{"id": 1, "method": "files.read", "params": {"path": "x", "offset": 1' + b"0" * 30 + b"}}",
        "bad_params",
        "large",
    ),
    (
        b'{"id": 1, "method": "run", "params": {' + b",".join(b'"%d":1' % n for n in range(10_001)) + b"}}",
        "bad_message",
        "10,000",
    ),
]
"""Lines, the error code, and a part of the message."""


async def test_bad_input_gets_an_error_with_advice_and_ends_nothing(client: Client) -> None:
    for line, code, said in BAD:
        with row(line[:80]):
            client.send(line + b"\n\n")
            error = (await client.next())["error"]
            assert (error["code"], said in error["message"]) == (code, True), error
    assert (await client.call("run", command="echo on"))["output"]["text"] == "on\n"


def test_long_name_is_compared_in_little_memory() -> None:
    name = "ab" * 500_000
    tracemalloc.start()
    try:
        assert alike(name, ["run"]) == ""
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


async def test_oversized_line_is_skipped(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rpc_server, "LONGEST_LINE", 1_000)
    client.send(b"x" * 900)
    client.send(b"x" * 900)
    client.send(b"x" * 900 + b'\n{"id": 1, "method": "jobs.')
    client.send(b'list"}\n')
    assert (await client.next())["error"]["code"] == "bad_message"
    assert await client.next() == {"id": 1, "result": {"jobs": []}}


async def test_requests_have_ids_of_their_own_and_a_bound(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rpc_server, "MOST_REQUESTS", 2)
    for call_id in ("a", "b"):
        client.send({"id": call_id, "method": "run", "params": {"command": "sleep 300"}})
    assert (await client.call("run", "c", command="true"))["code"] == "busy"
    assert "id of its own" in (await client.call("run", "a", command="true"))["message"]
    client.send({"id": "x", "method": "abort"})
    told = [await client.next() for _ in range(3)]
    assert sorted(each["id"] for each in told) == ["a", "b", "x"]


async def test_request_over_the_memory_bound_is_busy(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rpc_server, "MOST_HELD", 1_000)
    client.send({"id": "a", "method": "run", "params": {"command": "sleep 300", "stdin": "x" * 500}})
    assert (await client.call("run", command="cat", stdin="x" * 500))["code"] == "busy"
    client.send({"id": "x", "method": "abort"})
    assert {(await client.next())["id"] for _ in range(2)} == {"a", "x"}
    assert (await client.call("run", command="cat", stdin="x" * 500))["exit_code"] == 0


async def test_id_is_free_after_its_answer(client: Client) -> None:
    for _ in range(5):
        assert (await client.call("run", command="true"))["exit_code"] == 0
        assert await client.call("jobs.list") == {"jobs": []}


async def test_files_are_read_no_faster_than_the_client_reads(env: Environment) -> None:
    """Parts of files do not accumulate: most are read after the client has read others."""
    client = Client(env)
    await client.call("hello", version=1)
    await env.files.write("f", b"old")
    client.reads.clear()
    for number in range(3 * rpc_server.MOST_READS):
        client.send({"id": number, "method": "files.read", "params": {"path": "f"}})
    while len(client.server._saying) < rpc_server.MOST_READS:
        await asyncio.sleep(0.01)
    await env.files.write("f", b"new")
    client.reads.set()
    read = [(await client.next())["result"]["data"] for _ in range(3 * rpc_server.MOST_READS)]
    assert read == ["old"] * rpc_server.MOST_READS + ["new"] * 2 * rpc_server.MOST_READS
    await client.close()


async def test_slow_reader_slows_the_command_and_loses_nothing(client: Client, env: Environment) -> None:
    """Other requests are carried out in between. A window of SSH alone holds 2 MiB, and the lines are 6.9 MB."""
    client.reads.clear()
    client.send({"id": "s", "method": "stream", "params": {"command": "seq 1000000; echo done > f"}})
    client.send({"id": "w", "method": "files.write", "params": {"path": "g", "data": "x"}})
    while not await env.files.exists("g"):
        await asyncio.sleep(0.01)
    assert not await env.files.exists("f")
    client.reads.set()
    texts, done = [], False
    while not done:
        told = await client.next()
        if "event" in told:
            texts.append(told["data"])
        done = told["id"] == "s" and "result" in told
    assert "".join(texts) == "".join(f"{number}\n" for number in range(1, 1_000_001))


@pytest.mark.parametrize("good", [False, True])
async def test_client_that_reads_nothing_is_disconnected(
    good: bool, env: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rpc_server, "MOST_REQUESTS", 10)
    monkeypatch.setattr(rpc_server, "UNREAD_SECONDS", 0.2)
    monkeypatch.setattr(rpc_server, "STOP_SECONDS", 0.2)
    client = Client(env)
    await client.call("hello", version=1)
    client.reads.clear()
    for number in range(100):
        client.send({"id": number, "method": "jobs.list"} if good else b"nonsense\n")
        await pause()
    async with asyncio.timeout(20):
        await client._ended


async def test_last_line_needs_no_end(env: Environment) -> None:
    client = Client(env)
    client.send(json.dumps(HELLO).encode())
    await client.close()
    assert client.told_already()["result"]["version"] == 1


async def test_end_of_input_stops_everything(client: Client) -> None:
    seconds = unique_seconds()
    client.send(
        {"id": "r", "method": "run", "params": {"command": f"sleep {seconds} & wait", "session": "a"}}
    )
    client.send({"id": "s", "method": "stream", "params": {"command": f"sleep {seconds}"}})
    await asyncio.to_thread(wait_living, seconds, 2)
    await client.close()
    assert not living(seconds)
    assert {(await client.next())["error"]["code"] for _ in "rs"} == {"aborted"}


def test_schema_is_printed_and_accepts_real_messages() -> None:
    framework("jsonschema")
    jsonschema: Any = importlib.import_module("jsonschema")

    printed = json.loads(within("rpc", "--schema").stdout)
    assert printed == json.loads(json.dumps(schema()))
    validator = jsonschema.Draft202012Validator(printed)
    validator.check_schema(printed)
    validator.validate(HELLO)
    validator.validate({"id": "x", "method": "abort_bash"})
    validator.validate({"id": 1, "method": "stream", "params": {"command": "x", "encoding": "base64"}})
    for wrong in (
        {"id": 1, "method": "run"},
        {"id": 1, "method": "run", "params": {"comand": "x"}},
        {"id": 1, "method": "none"},
        {"method": "jobs.list"},
    ):
        assert not validator.is_valid(wrong), wrong


def talk(*requests: dict[str, Any], command: list[str] = RPC) -> subprocess.Popen[bytes]:
    program = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert program.stdin is not None
    program.stdin.write(b"".join(json.dumps(each).encode() + b"\n" for each in (HELLO, *requests)))
    program.stdin.flush()
    return program


@pytest.mark.parametrize("unread", [False, True])
def test_program_that_closes_stdin_or_dies_leaves_nothing_alive(unread: bool) -> None:
    """The client also leaves output and answers unread, so many answers that no more requests are accepted."""
    seconds = unique_seconds()
    yes: dict[str, Any] = {"id": 9, "method": "stream", "params": {"command": "exec yes"}}
    flood = [yes, *[{"id": 10, "method": "none"}] * 1_500] if unread else []
    program = talk(
        {"id": 1, "method": "run", "params": {"command": f"sleep {seconds} & wait"}},
        {"id": 2, "method": "jobs.start", "params": {"command": f"sleep {seconds}"}},
        *flood,
    )
    wait_living(seconds, 2)
    assert program.stdin is not None
    assert program.stdout is not None
    program.stdin.close()
    assert program.wait(30) == 0
    assert not living(seconds)
    program.stdout.close()


def test_client_that_vanishes_leaves_nothing_alive() -> None:
    seconds = unique_seconds()
    program = talk({"id": 1, "method": "run", "params": {"command": f"sleep {seconds} & wait"}})
    wait_living(seconds)
    assert program.stdin is not None
    assert program.stdout is not None
    program.stdout.close()
    assert program.wait(30) == 141
    assert not living(seconds)
    program.stdin.close()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_stdout_that_cannot_be_written_ends_the_server() -> None:
    with open("/dev/full", "wb") as full:
        program = subprocess.Popen(RPC, stdin=subprocess.PIPE, stdout=full)
    assert program.stdin is not None
    program.stdin.write(json.dumps(HELLO).encode() + b"\n")
    program.stdin.flush()
    assert program.wait(30) == 141
    program.stdin.close()


@pytest.mark.parametrize("language", ["node", "go"])
def test_client_in_another_language_works(language: str, tmp_path: Path) -> None:
    if shutil.which(language) is None:
        missing(language, "install nodejs and golang-go")
    source = EXAMPLES / {"node": "rpc.mjs", "go": "rpc.go"}[language]
    assert len(source.read_text().splitlines()) <= 60
    start = ["node", str(source)] if language == "node" else ["go", "run", str(source)]
    done = subprocess.run(
        [*start, *RPC], capture_output=True, text=True, cwd=tmp_path, timeout=50, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "exited 3" in lines
    assert "no_method" in lines
    assert any(line.endswith("out") for line in lines)
    assert lines[-1] in ("ended with 0", "ended with <nil>")
