"""The programs in ``examples/`` run, each as a separate process. test_acp runs the example for editors, test_rpc those in Go and JavaScript."""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import os
import re
import subprocess
import sys
import threading
import urllib.request
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .conftest import framework

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pytest

    from .wine.windows import Windows

EXAMPLES = Path(__file__).parents[1] / "examples"
ELSEWHERE = {"acp_agent.py", "rpc.go", "rpc.mjs"}


def run(name: str, where: Path, *arguments: str, **variables: str) -> str:
    """The output of an example."""
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / name), *arguments],
        capture_output=True,
        timeout=50,
        check=False,
        cwd=where,
        env={**os.environ, **variables},
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def answering(answers: Sequence[dict[str, Any]]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A server of a model's API that gives these answers in order, and the received requests."""
    asked: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            data = json.dumps(answers[len(asked) - 1]).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_every_example_is_run_by_a_test() -> None:
    here = Path(__file__).read_text(encoding="utf-8")
    there = {path.name for path in EXAMPLES.iterdir() if path.is_file()}
    assert [name for name in sorted(there - ELSEWHERE) if f'"{name}"' not in here] == []
    assert len(there - ELSEWHERE) == 10


def test_examples_of_doors_are_short() -> None:
    """The limit is thirty lines for an agent and for the code on a framework's page, and sixty for a client of the protocol."""
    agents = [
        *EXAMPLES.glob("*agent.py"),
        EXAMPLES / "anthropic_messages.py",
        EXAMPLES / "openai_responses.py",
    ]
    texts = {path.name: path.read_text(encoding="utf-8") for path in [*agents, *EXAMPLES.glob("rpc.*")]}
    for page in (EXAMPLES.parent / "docs" / "how-to").glob("use-it-[iw]*.md"):
        blocks = re.findall(
            r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
        )
        texts[page.name] = max(blocks, key=len)
    assert len(texts) == 18
    long = {name: len(text.splitlines()) for name, text in texts.items()}
    assert {
        name: count for name, count in long.items() if count > (60 if name.startswith("rpc.") else 30)
    } == {}


def test_an_agent_without_a_framework_works(tmp_path: Path) -> None:
    said = run("agent.py", tmp_path)
    assert "Exit code 2." in said
    assert said.endswith("'text': 'I have read 5 messages.'}\n")


def test_pydantic_ai_agent_works(tmp_path: Path) -> None:
    framework("pydantic_ai")
    assert run("pydantic_ai_agent.py", tmp_path) == "done\n"


def test_langchain_chain_works(tmp_path: Path) -> None:
    framework("langchain_core")
    assert "[anyshell] Exit code 0." in run("langchain_agent.py", tmp_path)


def test_agent_on_the_responses_api_works(tmp_path: Path) -> None:
    framework("openai")

    def response(item: dict[str, Any]) -> dict[str, Any]:
        return {
            "id": "r", "object": "response", "created_at": 0, "model": "m", "output": [item], "tools": [],
            "tool_choice": "auto", "parallel_tool_calls": False,
        }  # fmt: skip

    call = {
        "type": "function_call",
        "id": "f",
        "call_id": "c",
        "name": "shell",
        "arguments": '{"command": "echo $((6*7))"}',
    }
    text = {"type": "output_text", "text": "It is done.", "annotations": []}
    message = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [text]}
    with answering([response(call), response(message)]) as (address, asked):
        said = run(
            "openai_responses.py", tmp_path, OPENAI_API_KEY="none", OPENAI_BASE_URL=address, OPENAI_MODEL="m"
        )
    assert said == "It is done.\n"
    assert asked[1]["input"][-1]["output"].startswith("42\n")


def test_agent_on_the_anthropic_tool_runner_works(tmp_path: Path) -> None:
    framework("anthropic")

    def message(block: dict[str, Any], why: str) -> dict[str, Any]:
        usage = {"input_tokens": 1, "output_tokens": 1}
        return {
            "id": "m",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": [block],
            "stop_reason": why,
            "usage": usage,
        }

    call = {"type": "tool_use", "id": "c", "name": "bash", "input": {"command": "echo $((6*7))"}}
    answers = [message(call, "tool_use"), message({"type": "text", "text": "It is done."}, "end_turn")]
    with answering(answers) as (address, asked):
        said = run(
            "anthropic_messages.py",
            tmp_path,
            ANTHROPIC_API_KEY="none",
            ANTHROPIC_BASE_URL=address,
            ANTHROPIC_MODEL="m",
        )
    assert said.splitlines()[-1] == "It is done."
    assert "42" in json.dumps(asked[1]["messages"][-1])


def test_web_server_runs_jobs(tmp_path: Path) -> None:
    def request(method: str, url: str, body: str = "") -> Any:
        sent = urllib.request.Request(url, body.encode(), method=method)
        with urllib.request.urlopen(sent, timeout=30) as answer:
            return json.loads(answer.read())

    program = subprocess.Popen(
        [sys.executable, "-W", "error", str(EXAMPLES / "web_jobs.py"), "0"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert program.stdout is not None
        address = program.stdout.readline().strip()
        started = request("POST", address, "echo begun; sleep 300")["id"]
        while not (seen := request("GET", f"{address}/{started}"))["output"]:
            assert seen["status"] == "running"
        assert seen == {"status": "running", "output": "begun\n"}
        assert request("DELETE", f"{address}/{started}")["status"] == "stopped"
    finally:
        program.terminate()
        program.communicate(timeout=30)


def test_deployment_over_a_fleet_works(tmp_path: Path) -> None:
    assert run("deploy.py", tmp_path).startswith("local: released at ")
    assert (tmp_path / "releases" / "now").is_file()


def test_pexpect_port_works(tmp_path: Path) -> None:
    basic = {
        "PYTHON_BASIC_REPL": "1"
    }  # the new REPL of Python 3.14 polls, so that its wait is likely and not certain
    certain, code = run("pexpect_port.py", tmp_path, **basic).splitlines()
    assert (certain.startswith("Waiting(certainty='certain', prompt='>>> '"), code) == (True, "0")


def test_notebook_cells_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    notebook = json.loads((EXAMPLES / "notebook.ipynb").read_text(encoding="utf-8"))

    async def run_cells() -> None:
        names: dict[str, Any] = {}
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                code = compile("".join(cell["source"]), "cell", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
                if inspect.isawaitable(result := eval(code, names)):
                    await result

    asyncio.run(run_cells())
    assert capsys.readouterr().out == "5\n4\n3\n2\n1\n\nstep 1\nstep 2\nstep 3\n"


def test_windows_script_works(tmp_path: Path, powershell: Windows) -> None:
    path = f"{powershell.pwsh.parent}{os.pathsep}{os.environ['PATH']}"
    assert run("windows.py", tmp_path, PATH=path) == "['7', '5']\n1 True\n5 before\n"
