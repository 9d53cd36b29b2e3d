"""Commands in an editor's terminals, over the Agent Client Protocol: the client side is the SDK's own, with real programs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from anyshell import Environment, InvalidCommand, ShellTool, Terminal, approve_all
from anyshell.backends import connect
from anyshell.errors import BackendUnavailable, SpawnError, TerminalUnavailable

from .conftest import framework
from .processes import living, unique_seconds

framework("acp")
import acp
from acp.schema import (
    CreateTerminalResponse,
    EnvVariable,
    KillTerminalResponse,
    ReleaseTerminalResponse,
    TerminalOutputResponse,
    WaitForTerminalExitResponse,
)

import anyshell.acp
from anyshell.acp import AcpBackend

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.anyio


class Shown:
    """A terminal of the editor."""

    def __init__(self, process: asyncio.subprocess.Process, limit: int | None) -> None:
        self.process = process
        self.limit = limit
        self.output = b""
        self.released = False
        self.reading = asyncio.ensure_future(self.read())

    async def read(self) -> None:
        assert self.process.stdout is not None
        while data := await self.process.stdout.read(65536):
            self.output += data

    def kill(self) -> None:
        if sys.platform != "win32":
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)


class Editor:
    """The client side. Commands have an open stdin, as in a terminal for typing."""

    def __init__(self) -> None:
        self.terminals: dict[str, Shown] = {}
        self.asked = asyncio.Event()
        self.may_create = asyncio.Event()
        self.may_create.set()
        self.refuses = False

    async def create_terminal(
        self,
        session_id: str,
        command: str,
        args: list[str] | None = None,
        env: list[EnvVariable] | None = None,
        cwd: str | None = None,
        output_byte_limit: int | None = None,
        **kwargs: Any,
    ) -> CreateTerminalResponse:
        self.asked.set()
        await self.may_create.wait()
        if self.refuses:
            raise acp.RequestError.internal_error({"reason": "the user says no"})
        process = await asyncio.create_subprocess_exec(
            command,
            *(args or ()),
            cwd=cwd,
            env={**os.environ, "PAGER": "editor", **{each.name: each.value for each in env or ()}},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        name = f"t{len(self.terminals)}"
        self.terminals[name] = Shown(process, output_byte_limit)
        return CreateTerminalResponse(terminal_id=name)

    async def terminal_output(
        self, session_id: str, terminal_id: str, **kwargs: Any
    ) -> TerminalOutputResponse:
        shown = self.terminals[terminal_id]
        if shown.process.returncode is not None:
            await shown.reading
        kept = shown.output[-(shown.limit or len(shown.output)) :]
        return TerminalOutputResponse(output=kept.decode(), truncated=len(kept) < len(shown.output))

    async def wait_for_terminal_exit(
        self, session_id: str, terminal_id: str, **kwargs: Any
    ) -> WaitForTerminalExitResponse:
        code = await self.terminals[terminal_id].process.wait()
        if code < 0:
            return WaitForTerminalExitResponse(signal=signal.Signals(-code).name)
        return WaitForTerminalExitResponse(exit_code=code)

    async def kill_terminal(self, session_id: str, terminal_id: str, **kwargs: Any) -> KillTerminalResponse:
        self.terminals[terminal_id].kill()
        return KillTerminalResponse()

    async def release_terminal(
        self, session_id: str, terminal_id: str, **kwargs: Any
    ) -> ReleaseTerminalResponse:
        self.terminals[terminal_id].kill()
        self.terminals[terminal_id].released = True
        return ReleaseTerminalResponse()


async def wait_dead(text: str) -> None:
    """Wait until the processes that the editor has killed are dead."""
    while living(text):
        await asyncio.sleep(0.01)


class Agent:
    """The agent's side, with the connection to the editor."""

    client: Any = None

    def on_connect(self, client: Any) -> None:
        self.client = client


class Link:
    """An editor, its agent, and the wire between them."""

    def __init__(self) -> None:
        self.editor = Editor()
        self.shown: list[str] = []
        self.writers: list[asyncio.StreamWriter] = []

    async def open(self) -> Any:
        ends = [await asyncio.open_connection(sock=each) for each in socket.socketpair()]
        self.writers = [writer for _, writer in ends]
        agent: Any = Agent()
        self.agent_side = asyncio.ensure_future(acp.run_agent(agent, ends[0][1], ends[0][0]))
        editor: Any = self.editor
        self.client_side = acp.connect_to_agent(editor, ends[1][1], ends[1][0])
        while agent.client is None:
            await asyncio.sleep(0)
        return agent.client

    async def close(self) -> None:
        for writer in self.writers:
            writer.close()
        await self.client_side.close()
        self.agent_side.cancel()
        await asyncio.wait([self.agent_side])
        for shown in self.editor.terminals.values():
            shown.kill()
            await shown.process.wait()
            await shown.reading


@pytest.fixture
async def link() -> AsyncIterator[Link]:
    made = Link()
    yield made
    await made.close()


@pytest.fixture
async def backend(link: Link, tmp_path: Path) -> AsyncIterator[AcpBackend]:
    local = connect("local")
    made = AcpBackend(await link.open(), "s1", local, on_terminal=link.shown.append, byte_limit=100_000)
    yield made
    await made.aclose()
    await local.aclose()


@pytest.fixture
async def here(backend: AcpBackend, tmp_path: Path) -> AsyncIterator[Environment]:
    async with Environment.detect(backend, cwd=tmp_path) as env:
        yield env


async def test_command_runs_in_an_editor_terminal_that_is_released(
    here: Environment, link: Link, tmp_path: Path
) -> None:
    command = 'pwd; echo "$A $PAGER"; echo err >&2; cat; exit 3'
    outcome = await here.run(command, env={"A": "it's"}, timeout=20)
    assert (outcome.status, outcome.exit_code) == ("exited", 3)
    assert outcome.output.text == f"{tmp_path}\nit's cat\nerr\n"
    assert link.shown == ["t0"]
    assert outcome.editor_terminal == "t0"
    assert link.editor.terminals["t0"].released


async def test_signal_exit_code_is_128_plus_its_number(here: Environment) -> None:
    result = await ShellTool(here, approver=approve_all)({"command": "kill -9 $$"})
    assert (result.details.signal, result.details.exit_code) == ("SIGKILL", 137)
    assert result.details.editor_terminal == "t0"


async def test_timeout_and_cancel_kill_the_terminal(here: Environment, link: Link) -> None:
    seconds = unique_seconds()
    outcome = await here.run(f"echo out; sleep {seconds} & wait", timeout=3)
    assert (outcome.status, outcome.output.text) == ("timed_out", "out\n")
    assert outcome.killed_without_warning
    async with here.stream(f"echo begun; sleep {seconds}") as stream:
        async for event in stream:
            assert event.text == "begun"
            break
    assert stream.outcome.status == "cancelled"
    await wait_dead(seconds)
    assert all(shown.released for shown in link.editor.terminals.values())


async def test_process_left_behind_belongs_to_the_editor(here: Environment, link: Link) -> None:
    seconds = unique_seconds()
    outcome = await here.run(f"sleep {seconds} >&- 2>&- & echo started", timeout=20)
    assert (outcome.status, outcome.output.text, outcome.left_behind) == ("exited", "started\n", ())
    assert link.editor.terminals["t0"].released


async def test_truncated_output_keeps_its_end_and_notes_the_loss(here: Environment) -> None:
    outcome = await here.run("seq 200000")
    assert outcome.output.text.endswith("199999\n200000\n")
    assert outcome.exit_code == 0
    assert outcome.output.artifact is not None
    assert outcome.output.artifact.path.read_text().endswith("199999\n200000\n")
    short = await here.run("echo first; head -c 150000 /dev/zero | tr '\\0' x; echo; echo last")
    assert "kept only the end of the output" in short.output.text
    assert short.output.text.endswith("last\n")


async def test_output_comes_while_the_command_runs(here: Environment, tmp_path: Path) -> None:
    command = "echo one; until [ -e go ]; do sleep 0.02; done; echo two"
    seen = []
    async with here.stream(command) as stream:
        async for event in stream:
            seen.append(event.text)
            (tmp_path / "go").touch()
    assert seen == ["one", "two"]


async def test_late_terminal_is_killed_and_released(here: Environment, link: Link) -> None:
    seconds = unique_seconds()
    link.editor.may_create.clear()
    running = asyncio.ensure_future(here.run(f"sleep {seconds}"))
    await link.editor.asked.wait()
    running.cancel()
    await asyncio.sleep(0)
    link.editor.may_create.set()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert link.editor.terminals["t0"].released
    await wait_dead(seconds)


async def test_missing_editor_terminal_is_a_spawn_error(
    here: Environment, link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(anyshell.acp, "CREATE_SECONDS", 0.1)
    link.editor.may_create.clear()
    with pytest.raises(SpawnError, match="killed"):
        await here.run("true")
    link.editor.may_create.set()
    while not any(shown.released for shown in link.editor.terminals.values()):
        await asyncio.sleep(0.01)
    link.editor.refuses = True
    with pytest.raises(SpawnError, match="makes no terminal"):
        await here.run("true")


@pytest.mark.parametrize("answers", [True, False])
async def test_closed_editor_connection_loses_the_command(
    here: Environment, link: Link, answers: bool
) -> None:
    """The command is also lost where its start is unknown."""
    if not answers:
        link.editor.may_create.clear()
    running = asyncio.ensure_future(here.run("sleep 300"))
    await link.editor.asked.wait()
    while answers and not link.shown:
        await asyncio.sleep(0.01)
    link.writers[1].close()
    outcome = await running
    assert (outcome.status, outcome.exit_code) == ("lost", None)
    assert outcome.started is (True if answers else None)


async def test_requests_unsupported_by_editor_terminals_are_refused(
    here: Environment, tmp_path: Path
) -> None:
    with pytest.raises(SpawnError, match="no input"):
        await here.run("cat", stdin="x")
    with pytest.raises(InvalidCommand, match="split_stderr"):
        await here.run("true", split_stderr=True)
    with pytest.raises(TerminalUnavailable):
        await here.run("true", terminal=Terminal())
    with pytest.raises(SpawnError, match="too long"):
        await here.run("true" + " " * 500_000)
    with pytest.raises(InvalidCommand, match="not a directory"):
        await here.run("true", cwd=tmp_path / "none")
    async with here.session() as session:
        with pytest.raises(BackendUnavailable, match="sessions"):
            await session.run("true")


async def test_files_are_those_of_the_host(here: Environment) -> None:
    await here.files.write("f", b"data")
    assert (await here.run("cat f")).output.text == "data"


async def test_example_agent_works_in_an_editor(tmp_path: Path) -> None:
    told: list[str] = []

    class Listening(Editor):
        async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
            told.append(update.content.text)

    example = Path(__file__).parents[1] / "examples" / "acp_agent.py"
    assert len(example.read_text().splitlines()) <= 30
    editor: Any = Listening()
    variables = {**os.environ, "PYTHONWARNINGS": "error"}
    program = (sys.executable, str(example))
    async with acp.spawn_agent_process(editor, *program, env=variables, cwd=tmp_path) as (agent, _):
        await agent.initialize(protocol_version=1)
        session = await agent.new_session(cwd=str(tmp_path), mcp_servers=[])
        prompt: list[Any] = [acp.text_block("pwd > here; exit 4")]
        await agent.prompt(session_id=session.session_id, prompt=prompt)
    assert told == ["exited 4"]
    assert (tmp_path / "here").read_text() == f"{tmp_path}\n"
    await asyncio.gather(*(shown.reading for shown in editor.terminals.values()))
