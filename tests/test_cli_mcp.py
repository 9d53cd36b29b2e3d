"""``anyshell mcp`` as a client starts it: a separate process, on stdin and stdout."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tomllib
from typing import TYPE_CHECKING, Any

import pytest

from .cli_program import is_alive, read_line, wait_until, wait_written, within
from .conftest import framework

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

framework("mcp")

_META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}

STUBBORN = """#!/bin/sh
trap '' TERM
[ $# -gt 0 ] || exec setsid "$0" apart
echo $$ > pid
while :; do sleep 1; done
"""
"""A command that ignores all signals except KILL, with a process outside its group."""


class Server:
    """A server process, and its client."""

    def __init__(self, directory: Path, *options: str) -> None:
        self.directory = directory
        self.process = subprocess.Popen(
            [sys.executable, "-m", "anyshell", "mcp", "--cwd", str(directory), *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"TMPDIR": str(directory)},
        )

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, method: str, number: int | None = None, **params: Any) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": {**params, "_meta": _META}}
        self.write(json.dumps(message | ({} if number is None else {"id": number})).encode() + b"\n")

    def call(self, number: int, command: str, **arguments: Any) -> None:
        self.send("tools/call", number, name="shell", arguments={"command": command, **arguments})

    def read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def begin_stubborn(self) -> int:
        """Run a command that ignores all signals except KILL, and return the pid of its process outside the group."""
        self.call(1, "./stubborn")
        return int(wait_written(self.directory / "pid"))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    rules = tmp_path / "rules.toml"
    rules.write_text('preset = "trusted"\n')
    (tmp_path / "stubborn").write_text(STUBBORN)
    (tmp_path / "stubborn").chmod(0o755)
    server = Server(tmp_path, "--policy", str(rules), "--jobs")
    yield server
    server.process.kill()
    server.process.wait()
    for stream in (server.process.stdin, server.process.stdout):
        assert stream is not None
        stream.close()


def nothing_is_left(server: Server, pid: int, code: int) -> None:
    assert server.process.wait(30) == code
    wait_until(lambda: not is_alive(pid), "what its call has started has ended")
    assert {path.name for path in server.directory.iterdir()} == {"pid", "rules.toml", "stubborn"}


def test_garbage_is_skipped_and_end_of_stdin_ends_the_server(server: Server) -> None:
    server.write(b"\n{]\n\xff\xfe\x00\n[1, 2]\n" + b"[" * 20000 + b"\n" + b'{"jsonrpc": "2.0", "id": 7}\n')
    server.send("server/discover", 2)
    assert server.read()["result"]["supportedVersions"] == ["2026-07-28"]
    server.write(b'{"jsonrpc": "2.0", "method": "no/such", "id": "x"}\n' + b"x" * 200_000 + b"\n")
    assert server.read()["error"]["code"] < 0
    server.call(3, "echo hi")
    assert server.read()["result"]["content"][0]["text"] == "hi\n\n[anyshell] Exit code 0."
    pid = server.begin_stubborn()
    assert server.process.stdin is not None
    server.process.stdin.close()
    nothing_is_left(server, pid, 0)


def test_malformed_request_is_answered(server: Server) -> None:
    for number in (b'"a"', b"8"):
        server.write(
            b'{"jsonrpc": "2.0", "id": %b, "method": "tools/call", "params": {"name": "\\ud800"}}\n' % number
        )
        answer = server.read()
        assert (answer["id"], answer["error"]["code"]) == (json.loads(number), -32600)
    server.write(b'{"jsonrpc": "2.0", "id": "\\ud800", "method": "ping"}\n{"id": 1.5, "method": 1}\n')
    server.send("server/discover", 2)
    assert server.read()["id"] == 2


@pytest.mark.skipif(sys.platform != "linux", reason="only there is a name of any bytes")
def test_undecodable_name_is_not_completed(server: Server) -> None:
    (server.directory / "d").mkdir()
    os.mkdir(os.fsencode(server.directory) + b"/d\xff")
    argument = {"name": "directory", "value": "d"}
    server.send("completion/complete", 1, ref={"type": "ref/prompt", "name": "run"}, argument=argument)
    assert server.read()["result"]["completion"]["values"] == ["d/"]


@pytest.mark.parametrize(("number", "code"), [("SIGTERM", 143), ("SIGKILL", -9)])
def test_signal_ends_the_server_and_its_commands(server: Server, number: str, code: int) -> None:
    pid = server.begin_stubborn()
    server.process.send_signal(getattr(signal, number))
    nothing_is_left(server, pid, code)


def test_closed_stdout_ends_the_server(server: Server) -> None:
    pid = server.begin_stubborn()
    assert server.process.stdout is not None
    server.process.stdout.close()
    nothing_is_left(server, pid, 141)


def test_http_server_prints_its_address_and_ends_on_a_signal(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "anyshell", "mcp", "--http", "--port", "0", "--reach", "none"],
        stderr=subprocess.PIPE,
        env=os.environ | {"ANYSHELL_STATE_DIR": str(tmp_path)},
    )
    with process:
        line = read_line(process.stderr)
        assert line.startswith("anyshell: serving http://127.0.0.1:")
        assert line.endswith(f"/mcp; the token is in {tmp_path}/mcp/token")
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 143
        assert process.stderr is not None
        assert process.stderr.read() == b""


def test_a_missing_extra_is_named() -> None:
    program = "import sys; sys.modules['mcp'] = None; from anyshell.cli import main; main(['mcp'])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 125
    assert "anyshell[mcp]" in done.stderr


def test_only_the_server_loads_the_sdk() -> None:
    program = (
        "import sys, anyshell, anyshell.tool, anyshell.mcp.command; from anyshell.cli import main\n"
        "try: main(['mcp', '--help'])\n"
        "except SystemExit: print({'mcp', 'mcp_types', 'asyncio', 'pydantic'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("set()\n")


@pytest.mark.parametrize(
    ("program", "place"),
    [
        ("claude", "mcpServers"),
        ("codex", "mcp_servers"),
        ("cursor", "mcpServers"),
        ("gemini", "mcpServers"),
        ("vscode", "servers"),
        ("zed", "context_servers"),
    ],
)
def test_configuration_has_the_format_of_each_program(program: str, place: str) -> None:
    done = within("mcp", "--print-config", program, "--policy", "workspace", "--jobs", "--cwd", 'a "b"\\')
    text = done.stdout.decode()
    entry = (tomllib.loads(text) if program == "codex" else json.loads(text))[place]["anyshell"]
    assert entry["command"] == sys.executable
    assert entry["args"][:4] == ["-P", "-m", "anyshell", "mcp"]
    assert entry["args"][4:] == ["--cwd", 'a "b"\\', "--policy", "workspace", "--jobs"]
    assert b"these lines are for" in done.stderr


def test_http_server_has_no_configuration_to_print() -> None:
    assert within("mcp", "--http", "--print-config", "claude").returncode == 2


def test_the_doctor_asks_the_server() -> None:
    done = within("doctor", "--mcp", "--json")
    [found] = [finding for finding in json.loads(done.stdout)["findings"] if finding["topic"] == "mcp"]
    assert found["verdict"] == "ok"
    assert found["detail"] == "gives shell; a call without approval is refused"
    assert within("doctor", "--mcp", "--host", "web-1").returncode == 2
