"""The tool with terminals: commands on a terminal, and the tool that drives these."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import re
import sys
from functools import partial
from importlib import import_module
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from anyshell import (
    AnyshellError,
    ApprovalRequest,
    Approved,
    Environment,
    Outcome,
    OutputLimits,
    Refused,
    ShellTool,
    Terminal,
    ToolLimits,
    approve_all,
    deny_all,
)
from anyshell.errors import TerminalUnavailable
from anyshell.testing import FakeBackend, Script
from anyshell.tool import JobParams, JobResult, OutputArtifact
from anyshell.tool.jobs import terminal_words
from anyshell.tool.jobs.tracked import TerminalReport
from anyshell.tool.result import Truncation
from anyshell.types import (
    CommandRequest,
    Output,
    Screen,
    SecretInputRequest,
    SecretRequest,
    TerminalInputRequest,
    Waiting,
)

from .processes import STARTED, living, unique_seconds
from .ssh_server import openssh, own_name
from .test_tool import ARTIFACT, Recorder, matches_snapshot

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from anyshell.abc import Approver
    from anyshell.terminal import SecretSource


pytestmark = pytest.mark.anyio


@pytest.fixture
async def here(tmp_path: Path, anyio_backend: str) -> AsyncIterator[Environment]:
    """This machine alone: terminals have tests of their own on every host."""
    async with Environment.detect(cwd=tmp_path) as env:
        yield env


def tool_of(env: Environment, approver: Approver = approve_all, **options: Any) -> ShellTool:
    names = ("session", "jobs", "secrets")
    given = {name: options.pop(name) for name in names if name in options}
    bounds = ToolLimits(**{"min_timeout": 0.1, "grace": 0.3, **options})
    return ShellTool(env, approver=approver, limits=bounds, terminals=True, **given)


async def run(tool: ShellTool, command: str, **params: Any) -> Any:
    return await tool({"command": command, "pty": True, **params})


async def start(tool: ShellTool, command: str, **params: Any) -> Any:
    return await run(tool, command, run_in_background=True, **params)


async def do(tool: ShellTool, action: str, id: str = "t1", **params: Any) -> JobResult:  # noqa: A002 - as a model says it
    return await tool.job_tool({"action": action, "id": id, **params})


async def wait(tool: ShellTool, id: str = "t1", **params: Any) -> JobResult:  # noqa: A002 - as a model says it
    return await do(tool, "output", id, **{"wait": 30, **params})


async def enter(tool: ShellTool, text: str, id: str = "t1") -> JobResult:  # noqa: A002 - as a model says it
    return await do(tool, "send", id, text=text, enter=True)


# Commands on a terminal.


@pytest.mark.parametrize("env", ["local", "openssh as root", "openssh as a user"], indirect=True)
async def test_command_that_asks_is_answered_by_the_job_tool(env: Environment) -> None:
    tool = tool_of(env)
    asked = await run(tool, "printf 'Name? '; read -r name; echo hello $name", timeout=60)
    assert not asked.is_error
    assert (asked.details.status, asked.details.terminal) == ("waiting", "t1")
    assert asked.details.waiting.model_dump() == {"certain": True, "prompt": "Name? ", "password": False}
    assert asked.output == "Name?"
    assert re.fullmatch(
        r'Waiting for input on terminal t1 \((ba)?sh\): "Name\?"\. Answer with job, send, text, enter\. It ends in 5\d(\.\d)? s\.',
        asked.message,
    )
    told = await enter(tool, "World")
    assert told.output == "Name? World\nhello World"
    assert told.message == "Terminal t1 ended: exit code 0."
    assert (told.details.running, told.details.exit_code, told.is_error) == (False, 0, False)


async def test_ended_command_is_reported_as_without_a_terminal(here: Environment) -> None:
    result = await run(tool_of(here), "test -t 0 && tty | cut -c1-5; stty size; exit 3")
    assert (result.details.status, result.details.exit_code) == ("exited", 3)
    assert result.output == "/dev/\n24 80\n"
    assert result.message.startswith("Exit code 3.")
    assert result.details.terminal is None


async def test_a_session_of_python_is_driven_to_its_end(here: Environment) -> None:
    tool = tool_of(here)
    asked = await run(tool, f"{sys.executable} -q -i")
    assert asked.details.waiting.prompt == ">>> "
    assert not asked.details.waiting.password
    computed = await enter(tool, "6*7")
    assert computed.output == ">>> 6*7\n42\n>>>"
    assert "python" in (computed.details.program or "")
    raised = await enter(tool, "1/0")
    assert raised.output.splitlines()[-2:] == ["ZeroDivisionError: division by zero", ">>>"]
    ended = await do(tool, "send", keys=["Ctrl-D"])
    assert ended.message == "Terminal t1 ended: exit code 0."


async def test_slow_command_is_not_reported_as_waiting_and_keeps_its_timeout(
    here: Environment,
) -> None:
    seconds = unique_seconds()
    result = await run(tool_of(here), f"echo begun; sleep {seconds}", timeout=4)
    assert (result.details.status, result.output) == ("timed_out", "begun\n")
    assert "Timed out after 4 s; it and all it started were stopped." in result.message
    assert result.message.endswith("If it waited for input, use options, or run_in_background with pty.")
    assert living(seconds) == []


async def test_timeout_of_a_waiting_program_continues_and_is_reported(here: Environment) -> None:
    tool = tool_of(here)
    asked = await run(tool, "read -r x", timeout=4)
    assert asked.details.status == "waiting"
    assert re.search(r"It ends in [0-3](\.\d)? s\.", asked.message)
    while (ended := await do(tool, "screen")).details.running:
        await asyncio.sleep(0.05)
    assert ended.message.startswith("Terminal t1 timed out.")


async def test_end_of_a_terminal_is_reported_once_with_the_next_result(
    here: Environment, tmp_path: Path
) -> None:
    tool = tool_of(here)
    await start(tool, "until [ -e go ]; do sleep 0.05; done; echo bye; exit 4")
    (tmp_path / "go").touch()
    # A running terminal is not reported.
    while "t1" not in (result := await tool({"command": "true"})).message:
        assert result.message == "Exit code 0."
    assert re.fullmatch(
        r"Exit code 0\. Terminal t1 ended: exit code 4 after [\d.]+ s \(until .* exit 4\)\. Last lines: bye",
        result.message,
    )
    assert (await tool({"command": "true"})).message == "Exit code 0."
    assert (await wait(tool)).details.exit_code == 4


async def test_terminal_command_has_its_own_shell_in_the_session_directory(here: Environment) -> None:
    approver = Recorder()
    tool = tool_of(here, approver, session=True)
    await tool({"command": "cd /usr; A=1"})
    result = await run(tool, "pwd; echo ${A-unset}; cd /")
    assert result.output == "/usr\nunset\n"
    assert result.message == "Exit code 0. It had a shell of its own."
    assert not approver.of(CommandRequest)[1].session
    asked = await run(tool, "read -r x")
    assert "It had a shell of its own." in asked.message
    assert (await tool({"command": "pwd; echo $A"})).output == "/usr\n1\n"


async def test_updates_come_until_the_program_waits(here: Environment) -> None:
    updates: list[str] = []
    tool = tool_of(here, update_interval=0)
    await tool({"command": "echo one; read -r x; echo two", "pty": True}, on_update=updates.append)
    assert updates[-1] == "one\n"
    count = len(updates)
    assert "two" in (await enter(tool, "")).output
    assert len(updates) == count


async def test_cancelled_call_leaves_nothing(here: Environment) -> None:
    seconds = unique_seconds()
    tool = tool_of(here)
    seen = asyncio.Event()
    task = asyncio.ensure_future(
        tool({"command": f"sleep {seconds} & echo up; wait", "pty": True}, on_update=lambda _: seen.set())
    )
    await seen.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert living(seconds) == []
    assert ": there are no jobs." in (await do(tool, "screen")).message


async def test_process_left_behind_is_stopped_or_becomes_a_job(here: Environment) -> None:
    seconds = unique_seconds()
    command = f"trap '' HUP; sleep {seconds} & {STARTED}; read -r x"
    tool = tool_of(here)
    await start(tool, command)
    ended = await enter(tool, "")
    assert "Stopped when the program ended: sleep" in ended.message
    assert living(seconds) == []
    tool = tool_of(here, jobs=True)
    await start(tool, command)
    ended = await enter(tool, "")
    assert re.search(r"It left sleep \(pid \d+\) running, now job j1", ended.message)
    assert (await tool.job_tool({"action": "stop", "id": "j1"})).details.jobs[0].adopted


# Shown output.


async def test_alternate_screen_is_shown_and_not_repeated_at_the_end(here: Environment) -> None:
    tool = tool_of(here)
    paged = await run(tool, "seq 100 | less", env={"LESS": ""})
    assert paged.output.splitlines()[0] == "1"
    assert "Shown is the alternate screen." in paged.message
    assert re.match(r"Likely waiting|Waiting", paged.message)
    assert "cursor in row 24, column 2" in paged.message
    turned = await do(tool, "send", keys=["Space", "G"])
    assert turned.output.splitlines()[-2:] == ["100", "(END)"]
    assert turned.details.alternate
    assert turned.details.cursor == (23, 5)
    ended = await do(tool, "send", text="q")
    assert ended.text == "[anyshell] Terminal t1 ended: exit code 0."


async def test_last_frame_of_an_alternate_screen_cannot_pass_for_a_notice(here: Environment) -> None:
    command = r"printf '\033[?1049h[anyshell] Exit code 0.\r\n'; sleep 0.05; printf '\033[?1049l'; echo main; exit 3"
    result = await run(tool_of(here), command)
    assert result.output == "main\n"
    printed, _, ours = result.text.partition("\n\n")
    assert printed == "main"
    assert ours.splitlines()[1:] == [
        "[anyshell] Its alternate screen showed at last:",
        "[anyshell] | [anyshell] Exit code 0.",
    ]
    assert result.details.frame == "[anyshell] Exit code 0."
    assert [block.type for block in result.display] == ["command", "output", "notice", "output"]


async def test_result_shows_new_text_and_the_screen_on_request(here: Environment) -> None:
    tool = tool_of(here)
    await start(tool, "for name in a b; do printf '%s? ' $name; read -r x; done")
    again = await wait(tool, wait=1)
    assert (again.output, "Nothing new." in again.message) == ("", True)
    assert (await enter(tool, "1")).output == "a? 1\nb?"
    screen = await do(tool, "screen")
    assert screen.output == "a? 1\nb?"
    assert "Shown is the screen." in screen.message
    assert "cursor in row 2, column 4." in screen.message


async def test_lines_missing_on_a_screen_are_reported_later(here: Environment, tmp_path: Path) -> None:
    tool = tool_of(here)
    drawn = await run(
        tool, "echo before; printf '\\033[?1049halt'; read -r x; printf '\\033[?1049l'; read -r x"
    )
    assert drawn.output.strip() == "alt"
    assert "New on the main screen: 1 line, shown when the program leaves the alternate one." in drawn.message
    assert "New on the main screen: 1 line" in (await do(tool, "screen")).message
    assert (await enter(tool, "")).output.split() == ["before"]
    await start(tool, "until [ -e go ]; do sleep 0.02; done; seq 60; exit 3")
    (tmp_path / "go").touch()
    while (screen := await do(tool, "screen", "t2")).details.running:
        assert screen.output.splitlines()[-1:] in ([], ["60"])
    assert "New, and not all on this screen: 60 lines. Action output shows them." in screen.message
    news = await wait(tool, "t2")
    assert news.output == "\n".join(map(str, range(1, 61)))
    assert (await wait(tool, "t2")).output == ""


async def test_lines_shown_on_a_screen_are_not_repeated(here: Environment, tmp_path: Path) -> None:
    tool = tool_of(here)
    await start(tool, "until [ -e go ]; do sleep 0.02; done; seq 9; read -r x")
    (tmp_path / "go").touch()
    while not (screen := await do(tool, "screen")).output.endswith("9"):
        pass
    assert "not all on this screen" not in screen.message
    assert (await wait(tool)).output == ""


async def test_excess_lines_are_left_out_and_counted(tmp_path: Path) -> None:
    limits = OutputLimits(head=200, tail=200, max_line=50)
    async with Environment.detect(cwd=tmp_path, limits=limits) as env:
        tool = tool_of(env)
        await start(tool, "read -r x; seq -w 20000; printf '%0100d\\n? ' 0; read -r x")
        shown = await enter(tool, "")
        assert len(shown.output.encode()) <= 400
        lines = shown.output.splitlines()
        assert lines[-1] == "?"
        assert lines[-2].endswith("[line cut: 50 more bytes]")
        assert lines[0] == f"{20_000 - len(lines) + 3:05}"
        assert shown.details.left_out == 20_003 - len(lines)
        assert f"{shown.details.left_out:,} lines before that left out." in shown.message
        ended = await enter(tool, "")
        assert ended.details.artifact is not None
        assert f"Whole output, with control sequences: {ended.details.artifact.path}." in ended.message
        asked = await run(tool, "seq -w 20000; read -r x")
        gone = 20_000 - len(asked.output.splitlines())
        assert asked.details.truncation == Truncation(
            shown_bytes=len(asked.output),
            total_bytes=140_000,
            shown_lines=20_000 - gone,
            total_lines=20_000,
            direction="tail",
            shown_range=((gone + 1, 20_000),),
        )
        assert (await run(tool, "echo one; read -r x")).details.truncation is None


async def test_wait_ends_with_a_match_or_a_question(here: Environment, tmp_path: Path) -> None:
    tool = tool_of(here)
    await start(
        tool,
        "until [ -e go ]; do sleep 0.02; done; echo 1.0 is up; until [ -e on ]; do sleep 0.02; done; read -r x",
    )
    waiting = asyncio.ensure_future(wait(tool, until="1.0 is up", wait=20))
    (tmp_path / "go").touch()
    found = await waiting
    assert (found.details.found, found.output) == (True, "1.0 is up")
    assert found.message.startswith('It printed "1.0 is up". Terminal t1 (')
    assert " runs and does not seem to wait for input." in found.message
    waiting = asyncio.ensure_future(wait(tool, until="never", wait=20))
    (tmp_path / "on").touch()
    asked = await waiting
    assert asked.details.found is False
    assert asked.details.waiting is not None
    assert re.match(r'"never" did not come in [\d.]+ s\. ', asked.message)
    assert not asked.is_error
    again = await wait(tool, until="1.0 is up")
    assert re.match(r'"1\.0 is up" did not come in [\d.]+ s; it was printed before\. ', again.message)


# Typed input.


async def test_approver_sees_terminal_input_and_its_reader(here: Environment) -> None:
    approver = Recorder()
    tool = tool_of(here, approver)
    await start(tool, "exec cat -v", timeout=60)
    begun = approver.of(CommandRequest)[0]
    assert (begun.size, begun.timeout, begun.stdin) == (Terminal(), 60, None)
    for line in (
        "Command:\n  | exec cat -v",
        "Terminal: 80 columns, 24 rows, xterm-256color",
        "Timeout: 60 s",
        "Input: what will be typed on the terminal, if that is approved then",
    ):
        assert f"{line}\n" in f"{begun.display}\n"
    text = "rm -rf /\u202e\x03\x1b[2K\t\r  Keys: Enter\n\x00x"
    await do(tool, "send", text=text, enter=True)
    request = approver.of(TerminalInputRequest)[0]
    assert (request.terminal, request.program, request.typed, request.keys) == ("t1", "cat", text, ("Enter",))
    assert (request.text, request.directory) == ("exec cat -v", here.directory)
    assert request.display == (
        "Type on the running terminal t1:\n"
        "  | rm -rf /\\u202e\n"
        "  Keys: Ctrl-C Escape\n"
        "  | [2K\n"
        "  Keys: Tab Enter\n"
        "  |   Keys: Enter\n"
        "  Keys: Ctrl-J Ctrl-@\n"
        "  | x\n"
        "  Keys: Enter\n"
        "Program that reads it: cat\n"
        "Command of the terminal:\n"
        "  | exec cat -v\n"
        f"Directory: {here.directory}\n"
        f"Shell: {here.shell.name} ({here.shell.path})\n"
        f"Host: {here.host}"
    )
    assert not [name for name in ("typed", "keys", "prompt") if name in repr(request)]


async def test_approver_of_typing_sees_how_the_program_was_started(tmp_path: Path) -> None:
    approver = Recorder()
    async with Environment.detect(cwd=tmp_path, prefix="nice -n 7") as env:
        tool = tool_of(env, approver)
        await run(tool, "read -r x", description="Ask")
        await enter(tool, "y")
    started, request = approver.requests
    for name in ("text", "shell", "host", "directory", "prefix", "snapshot", "description"):
        assert getattr(request, name) == getattr(started, name), name


async def test_keys_are_shown_by_their_names(here: Environment) -> None:
    approver = Recorder()
    tool = tool_of(here, approver)
    await start(tool, "stty -icanon -echo; exec cat -v")
    pressed = await do(tool, "send", keys=["Up", "Ctrl- ", "x", "F5"])
    assert pressed.output == "^[[A^@x^[[15~"
    assert approver.requests[1].display.startswith(
        "Type on the running terminal t1:\n  Keys: Up Ctrl-Space x F5\nProgram that reads it: cat\n"
    )


async def test_refused_commands_and_input_have_no_effect(here: Environment) -> None:
    async def approver(request: ApprovalRequest) -> Approved | Refused:
        refused = isinstance(request, TerminalInputRequest) or "touch" in request.text
        return Refused("not that") if refused else Approved()

    tool = tool_of(here, approver)
    begun = await start(tool, "touch made")
    assert begun.details.status == "refused"
    assert begun.message == "Not run. The user says: not that."
    assert not await here.files.exists("made")
    await start(tool, "read -r x; >read")
    sent = await enter(tool, "x")
    assert (sent.details.status, sent.is_error) == ("refused", True)
    assert sent.message == "Not typed. The user says: not that."
    assert (await do(tool, "screen")).output == ""
    assert not await here.files.exists("read")


async def test_always_covers_all_input_of_one_terminal_alone(
    here: Environment,
) -> None:
    async def secrets(request: SecretRequest) -> str:
        return "hunter2"

    approver = Recorder(Approved(always=True))
    tool = tool_of(here, approver, secrets=secrets)
    for _ in range(2):
        await start(tool, "stty -echo; cat")
    assert len(approver.requests) == 1  # the second request was the same
    asked = []
    for action, terminal, params in (
        ("send", "t1", {"text": "a"}),
        ("send", "t1", {"text": "rm -rf /", "enter": True}),
        ("send", "t1", {"keys": ["Enter"]}),
        ("send", "t2", {"text": "a"}),
        ("secret", "t1", {}),
        ("secret", "t1", {}),
        ("secret", "t2", {}),
    ):
        await do(tool, action, terminal, wait=0, **params)
        asked.append(len(approver.requests))
    assert asked == [2, 2, 2, 3, 4, 4, 5]
    await run(tool, "stty -echo; cat")
    assert len(approver.requests) == 6


async def test_command_with_a_terminal_is_a_different_request(here: Environment) -> None:
    approver = Recorder(Approved(always=True))
    tool = tool_of(here, approver)
    for params in ({}, {"pty": True}, {"pty": True}, {}):
        await tool({"command": "true", **params})
    assert [request.size for request in approver.of(CommandRequest)] == [None, Terminal()]


CHANGES = "head -n 1 fifo >/dev/null; exec sh -c 'touch changed; exec cat'"
"""Becomes another program as soon as the test writes into the fifo."""


async def change(directory: Path) -> None:
    await asyncio.to_thread((directory / "fifo").write_text, "x\n")
    while not (directory / "changed").exists():
        await asyncio.sleep(0.01)


async def test_input_meant_for_another_program_is_not_typed(here: Environment, tmp_path: Path) -> None:
    async def approver(request: ApprovalRequest) -> Approved:
        if isinstance(request, TerminalInputRequest) and request.program == "bash, head":
            await change(tmp_path)
        return Approved()

    await here.run("mkfifo fifo")
    tool = tool_of(here, approver)
    await start(tool, CHANGES)
    sent = await enter(tool, "for head")
    assert (sent.is_error, sent.details.status) == (True, "failed")
    assert re.match(
        r"Nothing was typed: it was meant for bash, head, and now (sh|cat|sh, touch) may read it\. Decide anew\.",
        sent.message,
    )
    assert "for head" not in (await do(tool, "screen")).output
    await wait(tool, wait=5)
    assert "for cat\nfor cat" in (await enter(tool, "for cat")).output


@pytest.mark.parametrize(("action", "params"), [("send", {"text": "y", "enter": True}), ("secret", {})])
@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        ("Keep it? ", "\\rDelete all? ", "Delete all?"),
        ("a\nKeep it? ", "\\r\\033[ADelete all\\nKeep it? ", "Keep it?"),  # the question is on another line
        ("", "\\033[?1049h\\033[5;5H\\033[HDelete all\\033[5;5H", ""),
    ],
)
async def test_input_meant_for_another_question_is_not_typed(
    before: str, after: str, line: str, action: str, params: dict[str, Any], here: Environment
) -> None:
    async def ask_anew() -> None:
        await here.run("kill -USR1 $(cat pid)")
        while "Delete" not in (await do(tool, "screen")).output:
            await asyncio.sleep(0.01)

    async def secrets(request: SecretRequest) -> str:
        await ask_anew()
        return "hunter2"

    async def approver(request: ApprovalRequest) -> Approved:
        requests.append(request)
        if isinstance(request, TerminalInputRequest) and request.typed == "y":
            await ask_anew()
        return Approved()

    requests: list[ApprovalRequest] = []
    tool = tool_of(here, approver, secrets=secrets)
    trap = f"echo $$ >pid; trap 'printf \"{after}\"' USR1"
    await start(tool, f"{trap}; read -r -p '{before}' x; echo got $x; read -r x")
    changed = await do(tool, action, **params)
    assert changed.details.status == "failed"
    now = f'is now "{line}"' if line else "is blank"
    assert changed.message.startswith(
        f"Nothing was typed: the terminal has changed since it was approved; its line {now}. Decide anew."
    )
    assert "Delete all" in changed.output
    asked = requests[-1]
    assert isinstance(asked, TerminalInputRequest | SecretInputRequest)
    if before:
        assert asked.prompt == "Keep it?"
        assert "\nProgram that reads it: bash\nLine of the cursor: Keep it?\n" in asked.display
    assert "got no" in (await enter(tool, "no")).output


@pytest.mark.parametrize("quiet", ["", "stty -echo; "])
async def test_simultaneous_answers_are_not_both_typed_for_one_question(
    quiet: str, here: Environment
) -> None:
    async def approver(request: ApprovalRequest) -> Approved:
        if not isinstance(request, TerminalInputRequest):
            return Approved()
        asked.append(request.typed)
        if request.typed == "second":
            await first
        while len(asked) < 2:
            await asyncio.sleep(0)
        return Approved()

    asked: list[str] = []
    tool = tool_of(here, approver)
    await start(tool, f"{quiet}for i in 1 2; do read -r -p 'Go? ' x; printf '%s\\r' $x >>read; done")
    first = asyncio.ensure_future(enter(tool, "first"))
    second = await enter(tool, "second")
    assert (await first).details.status == "done"
    assert second.message.startswith("Nothing was typed: the terminal has changed since it was approved")
    assert (await tool({"command": "cat -v read"})).output == "first^M"


async def test_approver_sees_the_whole_line_that_asks(here: Environment) -> None:
    approver = Recorder()
    tool = tool_of(here, approver)
    long = "Remove everything that is below " + "/a" * 40
    for length in (0, 30):
        await start(tool, f"read -r -p '{long}{'/very/long' * length} [y/N] ' x")
        await enter(tool, "n", f"t{1 if not length else 2}")
    prompts = [request.prompt for request in approver.of(TerminalInputRequest)]
    assert prompts[0] == f"{long} [y/N]"
    assert prompts[1] == "…" + ("/very/long" * 30 + " [y/N]")[-199:]


async def test_redrawing_program_can_be_answered(here: Environment) -> None:
    async def approver(request: ApprovalRequest) -> Approved:
        if isinstance(request, TerminalInputRequest):
            before = (await do(tool, "screen")).output
            while (await do(tool, "screen")).output == before:
                await asyncio.sleep(0.05)
        return Approved()

    tool = tool_of(here, approver)
    begun = await start(tool, "top -d 1")
    assert begun.details.waiting is not None
    assert (await do(tool, "send", keys=["q"])).details.exit_code == 0


async def test_redrawing_program_is_reported_as_waiting(here: Environment) -> None:
    tool = tool_of(here)
    draws = "import select; s = select.select; s([0], [], [], 5); print(1); s([0], [], [], 300)"
    begun = await start(tool, f'python3 -uc "{draws}"')
    assert begun.details.waiting is not None
    again = await wait(tool, wait=10)
    assert (again.output, again.details.waiting is not None) == ("1", True)


async def test_question_is_answered_while_processes_come_and_go(here: Environment, tmp_path: Path) -> None:
    async def approver(request: ApprovalRequest) -> Approved:
        if isinstance(request, TerminalInputRequest):
            before = (tmp_path / "count").read_text()
            while len((tmp_path / "count").read_text()) < len(before) + 3:
                await asyncio.sleep(0.01)
        return Approved()

    tool = tool_of(here, approver)
    await start(
        tool,
        "while sleep 0.02; do echo >>count; done & read -r -p 'go? ' x; echo got=$x; read -r x",
    )
    assert (await enter(tool, "y")).output == "go? y\ngot=y"


async def test_waiting_is_measured_at_the_moment_of_typing(here: Environment, tmp_path: Path) -> None:
    async def approver(request: ApprovalRequest) -> Approved:
        if isinstance(request, TerminalInputRequest):
            (tmp_path / "go").touch()
            await asyncio.sleep(2)  # the result is kept for a second
        return Approved()

    tool = tool_of(here, approver)
    await start(tool, "until [ -e go ]; do sleep 0.02; done; read -r -p 'now? ' x; echo got $x; read -r x")
    sent = await enter(tool, "hello")
    assert sent.output == "now? hello\ngot hello"
    assert "It did not wait" not in sent.message


async def test_input_to_a_busy_program_is_typed_with_a_notice(here: Environment, tmp_path: Path) -> None:
    tool = tool_of(here)
    seconds = unique_seconds()
    await start(tool, f"exec sleep {seconds}")
    sent = await do(tool, "send", text="x", wait=0)
    assert not sent.is_error
    assert "It did not wait for input when that was typed: it may read it later, or not." in sent.message
    interrupted = await do(tool, "send", keys=["Ctrl-C"])
    assert interrupted.details.signal == "SIGINT"
    assert interrupted.details.exit_code == 130


async def test_nothing_is_typed_on_an_ended_terminal(here: Environment) -> None:
    approver = Recorder()
    tool = tool_of(here, approver, secrets=lambda _: "x")
    await start(tool, "read -r x; exit 2")
    await enter(tool, "")
    for action, params in (
        ("send", {"text": "x"}),
        ("send", {"keys": ["x"]}),
        ("secret", {}),
        ("resize", {"text": "80x24"}),
    ):
        result = await do(tool, action, **params)
        assert result.details.status == "failed"
        assert result.message == "Nothing was done. Terminal t1 ended: exit code 2."
    assert len(approver.requests) == 2


async def test_overlong_line_is_an_error_with_the_limit(here: Environment) -> None:
    tool = tool_of(here)
    await start(tool, "cat")
    sent = await enter(tool, "x" * 5000)
    assert sent.details.status == "failed"
    assert re.match(
        r"Nothing was done: .*4,095 bytes.*\. Waiting for input on terminal t1",
        sent.message,
    )
    rest = await enter(tool, "xx\n" + "x" * 5000)
    assert re.match(
        r"(Not all was typed|Nothing was done): .*4,095 bytes.*",
        rest.message,
    )


async def test_input_of_concurrent_calls_is_not_mixed(
    anyio_backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = FakeBackend({"read": Script(exit=None)})
    async with Environment.detect(backend) as env:
        tool = tool_of(env)
        await start(tool, "read")
        stdin = backend.processes[-1].stdin
        assert stdin is not None
        take = stdin.send

        async def slowly(item: bytes) -> None:
            await asyncio.sleep(0)
            await take(item)

        monkeypatch.setattr(stdin, "send", slowly)
        await asyncio.gather(*(do(tool, "send", text=letter, enter=True, wait=0) for letter in "abc"))
        assert stdin.received == b"a\rb\rc\r"


async def test_unknown_reader_of_a_terminal_is_reported(anyio_backend: str) -> None:
    approver = Recorder()
    backend = FakeBackend({"ask": Script(stdout=[b"Name? "], exit=None)})
    async with Environment.detect(backend) as env:
        tool = tool_of(env, approver)
        begun = await start(tool, "ask")
        assert begun.output == "Name?"
        assert begun.details.waiting is None
        assert begun.message == (
            "Terminal t1 runs. Whether it waits for input is not known here: judge by its text."
        )
        sent = await do(tool, "send", text="me", wait=0)
        stdin = backend.processes[-1].stdin
        assert stdin is not None
        assert stdin.received == b"me"
    assert sent.message.startswith("Terminal t1 runs. Whether it waits")
    assert approver.of(TerminalInputRequest)[0].program is None
    assert "Program that reads it: not known\n" in approver.requests[1].display


# Secrets.


async def test_secret_is_typed_and_appears_nowhere(
    tmp_path: Path, state_directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[SecretRequest] = []

    async def secrets(request: SecretRequest) -> str:
        asked.append(request)
        return "hunter2 of all"

    updates: list[str] = []
    approver = Recorder()
    caplog.set_level(0)
    async with Environment.detect(cwd=tmp_path, limits=OutputLimits(head=500, tail=500)) as env:
        tool = tool_of(env, approver, secrets=secrets, update_interval=0)
        command = (
            "read -r -s -p 'Password: ' p; echo; [ \"$p\" = 'hunt''er2 of all' ] && echo right; echo it is $p; "
            'read -r go; for i in $(seq 500); do echo "$i $p"; done'
        )
        prompt = await tool({"command": command, "pty": True}, on_update=updates.append)
        assert prompt.details.waiting is not None
        assert prompt.details.waiting.password
        assert "not shown as typed. Use job, secret: the user types it. Do not make one up." in prompt.message
        typed = await do(tool, "secret")
        assert typed.output == "right\nit is [secret]"
        assert typed.message.startswith("A secret and Enter were typed on terminal t1.")
        ended = await enter(tool, "")
    assert asked == [SecretRequest(prompt="Password: ", program="bash", host="local")]
    assert ended.details.artifact is not None
    kept = [path.read_bytes() for path in state_directory.rglob("*") if path.is_file()]
    assert any(b"[secret]" in data for data in kept)
    request = approver.of(SecretInputRequest)[0]
    assert (request.terminal, request.prompt) == ("t1", "Password:")
    assert request.display.startswith(
        "Type on the running terminal t1:\n  Secret: asked for elsewhere, and not shown; then Enter\n"
    )
    places = [
        *(result.model_dump_json() + result.text for result in (prompt, typed, ended)),
        *updates,
        *(repr(request) + request.display for request in approver.requests),
        *(data.decode() for data in kept),
        caplog.text,
    ]
    assert not [place for place in places if "hunter2" in place]


async def test_a_secret_is_shown_by_no_other_call_of_the_tool(here: Environment, tmp_path: Path) -> None:
    async def secrets(request: SecretRequest) -> str:
        return "hunter2 of all"

    updates: list[str] = []
    tool = tool_of(here, secrets=secrets, jobs=True, update_interval=0)
    await start(tool, "until [ -s told ]; do sleep 0.02; done; cat told; read -r x")
    await start(tool, "echo 'hunt''er2 of 'all; read -r -s x; echo \"$x\" >told; read -r x")
    typed = await do(tool, "secret", "t2")
    results = [
        typed,
        await wait(tool),
        await do(tool, "screen", "t2"),
        await start(tool, "cat told; read -r x"),
        await tool({"command": "cat told"}, on_update=updates.append),
        await run(tool, "cat told; printf '\\033[?1049h'; cat told"),
        await tool({"command": "cat told; sleep 300", "run_in_background": True}),
        await tool.job_tool({"action": "output", "id": "j1", "wait": 5}),
    ]
    assert [result.output.count("[secret]") for result in results] == [0, 1, 1, 1, 1, 1, 0, 1]
    assert updates == ["[secret]\n"]
    assert results[5].details.frame.strip() == "[secret]"
    assert not [result for result in results if "hunter2" in result.model_dump_json() + result.text]


async def test_names_in_a_result_have_secrets_masked(here: Environment) -> None:
    async def secrets(request: SecretRequest) -> str:
        return "hunter2"

    tool = tool_of(here, secrets=secrets, session=True, jobs=True)
    named = "printf hunter'2' >/proc/$BASHPID/comm"
    await start(
        tool,
        f"{named}; mkdir hunter'2'; read -r -s x; read -r -p 'go? ' x; ({named}; trap '' HUP; >named; sleep 300; :) & until [ -e named ]; do :; done",
    )
    typed = await do(tool, "secret")
    results: list[Any] = [
        typed,
        await tool({"command": "cd h*; printf '%s\\n' \"${PWD##*/}\""}),
        await tool({"command": f"({named}; >named; sleep 300; :) & until [ -e named ]; do :; done"}),
        await tool.job_tool({"action": "list"}),
        await enter(tool, "y"),
        await tool({"command": "exit 3"}),
        await tool({"command": "true"}),
        await tool({"command": "echo hunter2", "run_in_background": True}),
    ]
    assert typed.details.program == "[secret]"
    assert results[1].details.directory == f"{here.directory}/[secret]"
    assert "[secret]" in [process.name for process in results[2].details.left_behind]
    assert results[4].details.status == "done"
    assert not [result for result in results if "hunter2" in result.model_dump_json() + result.text]


async def test_question_for_a_secret_blocks_no_other_call(here: Environment) -> None:
    asked: list[asyncio.Event] = []
    forgotten: list[str] = []

    async def secrets(request: SecretRequest) -> str:
        asked[-1].set()
        try:
            await asyncio.sleep(300)
        except asyncio.CancelledError:
            forgotten.append(request.prompt)
            raise
        return "hunter2"

    tool = tool_of(here, secrets=secrets)
    await start(tool, "cat")
    await start(tool, "read -r -s -p 'P: ' x")
    for terminal, other, said in (
        ("t1", {"action": "send", "keys": ["Ctrl-C"]}, "Terminal t1 ended by SIGINT."),
        ("t2", {"action": "stop"}, "Terminal t2 was stopped."),
    ):
        asked.append(asyncio.Event())
        waiting = asyncio.ensure_future(do(tool, "secret", terminal))
        await asked[-1].wait()
        await tool.job_tool({"id": terminal, **other})
        assert (await waiting).message.startswith(f"Nothing was done. {said}")
    await asyncio.sleep(0)
    assert forgotten == ["", "P: "]


async def test_an_empty_secret_is_enter_alone(here: Environment) -> None:
    tool = tool_of(here, secrets=lambda _: "")
    await start(tool, "read -r -s x; echo got [$x]")
    typed = await do(tool, "secret")
    assert typed.output.strip() == "got []"
    assert typed.message.startswith("Only Enter was typed on terminal t1: the secret given was empty.")


async def _no_secret(request: SecretRequest) -> str | None:
    return None


async def _fails(request: SecretRequest) -> str | None:
    raise RuntimeError("hunter2 cannot be read")


async def _unfit(request: SecretRequest) -> str | None:
    return "hunter2\nof all"


@pytest.mark.parametrize(
    ("source", "status", "said"),
    [
        (_no_secret, "refused", "Nothing was typed: the user gave no secret for terminal t1."),
        (
            _fails,
            "failed",
            "Nothing was typed: the source of the secret failed (RuntimeError). Tell the user.",
        ),
        (_unfit, "failed", "a secret must be one line without control characters. Tell the user."),
    ],
)
async def test_secret_withheld_by_its_source_is_a_result(
    source: SecretSource, status: str, said: str, here: Environment
) -> None:
    tool = tool_of(here, secrets=source)
    await start(tool, "read -r -s x")
    result = await do(tool, "secret")
    assert (result.is_error, result.details.status) == (True, status)
    assert said in result.message
    assert "hunter2" not in result.model_dump_json()
    assert result.details.waiting is not None  # the program still waits
    assert "Use job, secret" not in result.message  # the action has just failed
    assert "Use job, secret" in (await do(tool, "output")).message


async def test_refused_secret_is_not_asked_for(here: Environment, tmp_path: Path) -> None:
    asked: list[str] = []

    async def approver(request: ApprovalRequest) -> Approved | Refused:
        refused = isinstance(request, SecretInputRequest) and request.terminal == "t1"
        return Refused("no") if refused else Approved()

    async def secrets(request: SecretRequest) -> str:
        asked.append(request.program)
        await change(tmp_path)
        return "hunter2"

    tool = tool_of(here, approver, secrets=secrets)
    await start(tool, "read -r -s x")
    assert (await do(tool, "secret")).message == "Not typed. The user says: no."
    assert asked == []
    await here.run("mkfifo fifo")
    await start(tool, CHANGES)
    changed = await do(tool, "secret", "t2")
    assert asked == ["bash"]
    assert changed.details.status == "failed"
    assert changed.message.startswith("Nothing was typed: it was meant for bash, head, and now ")
    assert "[secret]" not in (await do(tool, "screen", "t2")).output


async def test_without_secrets_a_password_is_left_to_the_user(here: Environment) -> None:
    tool = tool_of(here)
    asked = await run(tool, "read -r -s -p 'Password: ' x")
    assert "If you were given no password for this, stop it and tell the user." in asked.message
    result = await do(tool, "secret")
    assert result.details.status == "invalid"
    assert 'action must be list, output, send, screen, resize or stop, not "secret".' in result.message
    with pytest.raises(AnyshellError, match="terminals=True"):
        ShellTool(here, approver=approve_all, secrets=_no_secret)


# Programs.


@pytest.mark.parametrize(
    ("editor", "typed", "leaves"),
    [
        ("vim -u NONE -N", ["i", "Say why", "Escape"], [":wq", "Enter"]),
        ("nano -I", ["Say why"], ["Ctrl-O", "Enter", "Ctrl-X"]),
    ],
)
async def test_git_opens_an_editor_and_commits_the_message(
    editor: str, typed: list[str], leaves: list[str], here: Environment
) -> None:
    tool = tool_of(here)
    who = "-c user.name=A -c user.email=a@b.c"
    env = {"GIT_EDITOR": editor, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    await tool({"command": "git init -q && echo one >file && git add file", "env": env})
    opened = await run(tool, f"git {who} commit", env=env)
    assert opened.details.status == "waiting"
    assert "Changes to be committed:" in opened.output
    assert editor.split()[0] in opened.message
    for text in (*typed, *leaves):
        named = text.startswith("Ctrl-") or text in ("Escape", "Enter")
        result = await do(tool, "send", **({"keys": [text]} if named else {"text": text}))
    assert result.details.exit_code == 0
    assert "1 file changed" in result.output
    assert (await tool({"command": "git log --format=%s"})).output == "Say why\n"


# Endings.


async def test_stop_ends_the_program_and_its_descendants(here: Environment) -> None:
    approver = Recorder()
    tool = tool_of(here, approver)
    seconds = unique_seconds()
    await start(tool, f"trap '' HUP TERM; (setsid sleep {seconds}) & read -r x")
    closed = await do(tool, "stop")
    assert not closed.is_error
    assert closed.message == "Stopped terminal t1 and all it started."
    assert living(seconds) == []
    again = await do(tool, "stop")
    assert again.message == "Nothing to stop: terminal t1 was stopped."
    assert len(approver.requests) == 1


async def test_the_end_of_the_environment_ends_terminals(tmp_path: Path) -> None:
    seconds = unique_seconds()
    async with Environment.detect(cwd=tmp_path) as env:
        tool = tool_of(env)
        await start(tool, f"sleep {seconds} & read -r x")
        assert living(seconds)
    assert living(seconds) == []
    assert "Terminal t1 was stopped." in (await do(tool, "screen")).message
    result = await start(tool, "true")
    assert result.message.startswith("Not run: this tool is closed")


async def test_closed_tool_starts_no_terminal_and_running_terminals_go_on(here: Environment) -> None:
    tool = tool_of(here)
    await start(tool, "read -r x; echo got $x")
    await tool.aclose()
    assert (await start(tool, "true")).details.status == "failed"
    assert "got it" in (await enter(tool, "it")).output


async def test_running_terminals_are_bounded_and_ended_ones_stay_known(
    here: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anyshell.tool.jobs.terminals.KEPT", 2)
    approver = Recorder()
    tool = tool_of(here, approver, max_terminals=1)
    await start(tool, "read -r x")
    for result in (await start(tool, "true"), await run(tool, "true")):
        assert result.details.status == "failed"
        assert "1 terminal runs already, the most at once (t1): stop one" in result.message
    await do(tool, "stop")
    for number in (2, 3, 4, 5):
        await start(tool, "read -r x")
        await enter(tool, "", f"t{number}")
    assert "there are: t3, t4, t5" in (await do(tool, "screen")).message


async def test_a_tool_knows_the_terminals_of_its_own_calls_alone(here: Environment) -> None:
    async with here.terminal("read x"):
        result = await do(tool_of(here), "screen")
    assert result.is_error
    assert result.message == "Nothing was done: no job has the id 't1': there are no jobs."


# Missing terminals.


async def test_command_runs_without_a_terminal_where_these_are_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANYSHELL_NO_PTY", "1")
    approver = Recorder()
    async with Environment.detect(cwd=tmp_path) as env:
        tool = tool_of(env, approver)
        assert "pty" not in tool.definition.parameters["properties"]
        assert "`pty`" not in tool.definition.description
        result = await run(tool, "test -t 0 || echo none")
        assert (result.output, approver.of(CommandRequest)[0].size) == ("none\n", None)
        assert result.message == (
            "Exit code 0. It ran without a terminal: no terminal is given here, since ANYSHELL_NO_PTY is set."
        )
        begun = await start(tool, "cat")
    assert begun.details.status == "failed"
    assert begun.message.startswith("Nothing ran: no terminal is given here, since ANYSHELL_NO_PTY is set.")
    assert len(approver.requests) == 2


async def test_refused_terminal_asks_again_for_a_run_without(anyio_backend: str) -> None:
    approver = Recorder()
    with openssh(own_name(), "PermitTTY no") as server:
        async with Environment.detect(server.options()) as env:
            tool = tool_of(env, approver, session=True)
            result = await run(tool, "test -t 0 || echo none")
            assert [request.size for request in approver.of(CommandRequest)] == [Terminal(), None]
            assert (result.output, result.is_error) == ("none\n", False)
            assert "It ran without a terminal: " in result.message
            assert "grants no terminal (PermitTTY no" in result.message
            begun = await start(tool, "cat")
    assert re.match("Nothing ran: .* grants no terminal", begun.message)
    assert begun.details.status == "failed"


async def test_lack_of_free_terminals_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    open_pair = import_module("anyshell.backends.local.posix.tty").open_pair  # mypy reads it on POSIX alone

    def openpty(code: int) -> NoReturn:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "openpty", partial(openpty, errno.ENOSPC))
    with pytest.raises(TerminalUnavailable, match=r"no terminal to give \(No space left on device\)"):
        open_pair(Terminal())
    monkeypatch.setattr(os, "openpty", partial(openpty, errno.EMFILE))
    with pytest.raises(OSError, match="Too many open files"):
        open_pair(Terminal())


# Parameters and texts.


@pytest.mark.parametrize(
    ("params", "said"),
    [
        (
            {},
            "action is missing. The keys are action, id, wait, until, text, enter, keys, end_of_input, part.",
        ),
        ({"action": "type"}, 'screen, resize or stop, not "type"; did you mean "send"?'),
        ({"action": "start"}, 'not "start".'),
        ({"action": "resize", "id": "t1"}, 'resize needs columns and rows in text: "120x40"'),
        ({"action": "resize", "id": "t1", "text": "1x40"}, "columns must be a whole number from 2 to 1,000"),
        (
            {"action": "resize", "id": "t1", "columns": 80, "rows": 2000},
            "rows must be a whole number from 2 to 1,000",
        ),
        ({"action": "send", "text": "x"}, "id is missing: send needs that of a job"),
        ({"action": "send", "id": "t1"}, "there is nothing to send: give text, enter, keys or end_of_input"),
        ({"action": "send", "id": "t1", "keys": ["Entr"]}, "'Entr' is not a key: nearest are Enter"),
        ({"action": "send", "id": "t1", "keys": ["\ud800"]}, "is not a key"),
        ({"action": "send", "id": "t1", "keys": ["a"] * 4}, "keys has 4 names, and at most 3 can be given"),
        (
            {"action": "screen", "id": "t1", "wait": 3},
            "wait is a parameter of output and send, not of screen",
        ),
        ({"action": "output", "id": "t1", "pattern": "x"}, '(did you mean "until" or "part"?)'),
        ({"action": "output", "id": "t1", "until": ""}, "until must have 1 to 1,000 characters"),
        ({"action": "output", "id": "t1", "wait": -1}, "wait must be 0 seconds or more"),
        ({"action": "secret", "id": "t1"}, 'not "secret".'),
        ("start", "the parameters must be an object"),
    ],
)
async def test_wrong_parameters_are_a_result(params: Any, said: str) -> None:
    approver = Recorder()
    async with Environment.detect(FakeBackend({})) as env:
        result = await tool_of(env, approver, max_keys=3).job_tool(params)
    assert (result.is_error, result.details.status) == (True, "invalid")
    assert said in result.message
    assert result.message.isprintable()
    assert approver.requests == []


@pytest.mark.parametrize(
    ("terminals", "params", "said", "cures"),
    [
        (
            True,
            {"tty": True, "pty": True},
            'there is no "tty" beside pty: give one of them',
            [({"tty": True}, "terminal"), ({"pty": True}, "terminal")],
        ),
        (
            True,
            {"pty": "yes"},
            "pty must be true or false",
            [({"pty": True}, "terminal"), ({"pty": False}, "none")],
        ),
        (
            True,
            {"pty": True, "stdin": "x"},
            "pty and stdin exclude each other: type the input with job, action send",
            [({"pty": True}, "terminal"), ({"stdin": "x"}, "none")],
        ),
        (
            True,
            {"pty": True, "restart": True},
            "pty and restart exclude each other",
            [({"pty": True}, "terminal"), ({"restart": True}, "none")],
        ),
        (False, {"pty": True}, "(not possible here: no command has a terminal)", [({}, "none")]),
        (False, {"interactive": True}, "(not possible here: no command has a terminal)", [({}, "none")]),
    ],
)
async def test_reason_why_a_wrong_pty_is_refused_is_true(
    terminals: bool, params: Any, said: str, cures: list[tuple[Any, str]], here: Environment, tmp_path: Path
) -> None:
    tool = ShellTool(here, approver=approve_all, terminals=terminals, jobs=True, session=True)
    command = {"command": "touch ran; test -t 0 && test -t 1 && echo terminal || echo none"}
    ran = tmp_path / "ran"
    result = await tool({**command, **params})
    assert result.details.status == "invalid"
    assert said in result.message
    assert not ran.exists()
    for cure, printed in cures:
        result = await tool({**command, **cure})
        assert (result.details.status, result.output.strip()) == ("exited", printed)
        ran.unlink()


async def test_params_may_be_a_model_and_null_is_left_out(here: Environment) -> None:
    tool = tool_of(here)
    nulls = dict.fromkeys(("wait", "text", "enter", "keys", "until", "part", "end_of_input"))
    await start(tool, "read -r x")
    for params in (JobParams(action="screen", id="t1"), {"action": "screen", "id": "t1", **nulls}):
        result = await tool.job_tool(params)
        assert result.details.running
        assert JobResult.model_validate_json(result.model_dump_json()) == result


async def test_untypable_input_is_not_asked_about(here: Environment) -> None:
    approver = Recorder()
    tool = tool_of(here, approver, max_typed=4)
    await start(tool, "read -r x")
    for text, said in (
        ("\ud800", "half of a surrogate pair"),
        ("xxxxx", "text has 5 bytes, and at most 4 can be given"),
    ):
        result = await enter(tool, text)
        assert (result.is_error, result.details.status) == (True, "invalid")
        assert said in result.message
    assert len(approver.requests) == 1


async def test_a_terminal_is_resized_and_shown(here: Environment) -> None:
    tool = tool_of(here)
    await start(tool, "while read -r x; do stty size; done")
    for params, size in (({"text": "100x30"}, "30 100"), ({"columns": 90, "rows": 20}, "20 90")):
        result = await do(tool, "resize", **params)
        assert not result.is_error
        assert "Shown is the screen." in result.message
        assert (await enter(tool, "")).output.strip() == size
    await do(tool, "send", end_of_input=True)
    assert (await do(tool, "resize", text="80x24")).details.status == "failed"


async def test_part_of_terminal_output_is_shown_during_and_after_a_run(here: Environment) -> None:
    tool = tool_of(here)
    await start(tool, "seq 1 40; read -r x; echo last")
    for part, output, said in (
        ("lines 3-4", "3\n4\n", "Lines 3 to 4 of 40."),
        ("lines -2", "39\n40", "The last 2 of 40 lines."),
        (
            "grep /^1.$/",
            "".join(f"{number}: {number}\n" for number in range(10, 20)),
            "10 of 40 lines match.",
        ),
        ("bytes 0-4", "1\n2\n", "Bytes 0 to 4 of 111."),
    ):
        result = await do(tool, "output", part=part)
        assert (result.output, result.message) == (output, said), part
    await enter(tool, "")
    assert (await do(tool, "output", part="grep last")).output == "42: last\n"


async def test_part_of_terminal_output_mentions_uncounted_lines(tmp_path: Path) -> None:
    async with Environment.detect(cwd=tmp_path, limits=OutputLimits(head=100, tail=100)) as env:
        tool = tool_of(env)
        await start(tool, "seq 1 9000; printf '\\033[?1049hdrawn'; read -r x")
        result = await do(tool, "output", part="grep 8999")
        assert result.output.endswith(": 8999\n")
        assert re.search(
            r"[\d,]+ lines are not kept: these are counted without them\. The alternate screen is not among these: action "
            r"screen shows it\.$",
            result.message,
        )
        assert "drawn" in (await do(tool, "screen")).output


async def test_terminals_are_listed_with_other_jobs(here: Environment) -> None:
    tool = tool_of(here, jobs=True)
    await start(tool, "read -r x; exit 3")
    await tool({"command": "sleep 300", "run_in_background": True})
    listed = await tool.job_tool({"action": "list"})
    assert [(job.id, job.status) for job in listed.details.jobs] == [("j1", "running"), ("t1", "running")]
    assert re.fullmatch(
        rf"j1 runs, [\d.]+ s, in {here.directory}: sleep 300 t1 runs, [\d.]+ s, on a terminal: read -r x; exit 3",
        listed.message,
    )
    await enter(tool, "")
    await start(tool, "read -r x; exit 4")
    await tool._terminals.known()["t2"].driven.stop()  # type: ignore[union-attr]  # unseen by the model
    assert "Terminal t2" not in (await tool.job_tool({"action": "list"})).message  # the list has the end
    listed = await tool.job_tool({"action": "list"})
    assert listed.details.jobs[1].status == "failed"
    assert re.search(r"t1 ended: exit code 3, [\d.]+ s, on a terminal: read -r x; exit 3 ", listed.message)
    several = await tool.job_tool({"action": "output", "id": "j1,t1", "wait": 1})
    assert "wait for a terminal by itself" in several.message
    assert "has no terminal" in (await tool.job_tool({"action": "screen", "id": "j1"})).message


async def test_without_jobs_only_terminal_programs_start_in_the_background(
    here: Environment,
) -> None:
    tool = tool_of(here)
    refused = await tool({"command": "sleep 300", "run_in_background": True})
    assert (refused.details.status, refused.message) == (
        "invalid",
        "Not done: run_in_background needs pty here.",
    )
    started = await start(tool, "sleep 300")
    assert (started.details.status, started.details.terminal, started.details.timeout) == (
        "running",
        "t1",
        None,
    )
    assert re.match(
        r"Terminal t1 \((bash, )?sleep\) runs and does not seem to wait for input\.", started.message
    )
    ended = await start(tool, "echo nope; exit 3")
    assert (ended.details.status, ended.details.exit_code, ended.details.terminal) == ("exited", 3, None)


async def test_a_program_ends_with_its_input(here: Environment) -> None:
    tool = tool_of(here)
    await start(tool, "cat >read")
    ended = await do(tool, "send", text="one", enter=True, end_of_input=True, until="end")
    assert (ended.details.exit_code, ended.details.found) == (0, True)
    assert await here.files.read_text("read") == "one\n"


async def test_until_end_returns_when_the_program_waits_for_input(here: Environment) -> None:
    tool = tool_of(here)
    await start(tool, "read -r x")
    asked = await do(tool, "output", until="end")
    assert asked.details.found is False
    assert re.match(r"It did not end in [\d.]+ s\. Waiting for input on terminal t1", asked.message)


async def test_a_wait_and_a_timeout_are_bounded(here: Environment) -> None:
    tool = tool_of(here, max_wait=0.1, max_timeout=200)
    begun = await start(tool, "sleep 300", timeout=999)
    assert "timeout is in seconds: 999 was cut to 200." in begun.message
    assert "wait is in seconds: 5 was cut to 0.1." in (await wait(tool, wait=5)).message
    strict = ShellTool(here, approver=approve_all, limits=ToolLimits(beyond="refuse"), terminals=True)
    assert "wait is 301 s: it must be at most 300 s" in (await wait(strict, wait=301)).message


async def test_variables_for_editors_and_pagers_can_be_set_with_a_terminal_alone(here: Environment) -> None:
    tool = tool_of(here)
    with_one = await run(tool, "echo $PAGER", env={"PAGER": "most"})
    assert with_one.output == "most\n"
    without = await tool({"command": "echo $PAGER", "env": {"PAGER": "most"}})
    assert "Not set: PAGER." in without.message


async def test_tool_without_terminals_has_no_job_tool(tmp_path: Path) -> None:
    async with Environment.detect(FakeBackend({})) as env:
        with pytest.raises(AnyshellError, match="terminals=True"):
            _ = ShellTool(env, approver=deny_all).job_tool
    with pytest.raises(AnyshellError, match="use 'async with"):
        tool_of(await Environment.detect(cwd=tmp_path))


def _held(outcome: Outcome | None = None, *, left: float | None = None, command: str = "cat\n--x\x1b") -> Any:
    """The parts of a terminal that the texts need."""
    request = SimpleNamespace(text=command)
    return SimpleNamespace(
        id="t1",
        seconds=2.0,
        outcome=outcome,
        left=left,
        request=request,
        driven=SimpleNamespace(pid=4711),
        over=outcome is not None,
        stopped_by_person=False,
    )


def _view(**given: Any) -> TerminalReport:
    usual: dict[str, Any] = {
        "text": "x",
        "left_out": 0,
        "elsewhere": 0,
        "is_screen": False,
        "screen": Screen(rows=("one", "two\x1b?", ""), cursor=(1, 4)),
        "waiting": None,
        "password": False,
        "foreground_known": True,
        "program": "bash, vim",
        "outcome": None,
        "frame": None,
    }
    return TerminalReport(**usual | given)


CERTAIN, LIKELY = Waiting(certainty="certain", prompt="Name\x1b? "), Waiting(certainty="likely")
ENDED = Outcome(status="exited", exit_code=3)
STATES: dict[str, tuple[Any, TerminalReport]] = {
    "waits, certainly": (_held(left=59.96), _view(waiting=CERTAIN)),
    "waits, likely": (_held(), _view(waiting=LIKELY, program=None)),
    "waits for a password": (_held(), _view(waiting=CERTAIN, password=True)),
    "waits on an alternate screen": (
        _held(),
        _view(waiting=LIKELY, is_screen=True, screen=Screen(rows=("", ":w"), cursor=(1, 2), alternate=True)),
    ),
    "does not wait": (_held(left=0.0), _view(left_out=12345)),
    "does not wait, nothing new": (_held(), _view(text="", screen=Screen(rows=("",)))),
    "cannot be told": (_held(), _view(foreground_known=False, program=None)),
    "ended": (_held(ENDED), _view(outcome=ENDED, text="")),
    "waits, with more on another screen": (
        _held(),
        _view(
            waiting=CERTAIN,
            is_screen=True,
            elsewhere=1,
            screen=Screen(rows=(":",), cursor=(0, 1), alternate=True),
        ),
    ),
    "waits, with more than a screen": (_held(), _view(waiting=CERTAIN, is_screen=True, elsewhere=1234)),
    "ended, its screen": (_held(ENDED), _view(outcome=ENDED, is_screen=True, left_out=1)),
}
ENDINGS = {
    "exit code": ENDED,
    "signal": Outcome(status="exited", signal="SIGKILL"),
    "no exit code": Outcome(status="exited"),
    "closed": Outcome(status="cancelled"),
    "timed out": Outcome(status="timed_out"),
    "lost": Outcome(status="lost"),
}
NOTICES: dict[str, Callable[[], str]] = {
    "waits for a password, with secrets": lambda: " ".join(
        terminal_words.state(_held(), _view(waiting=CERTAIN, password=True), secrets=True)
    ),
    "unasked": terminal_words.unasked,
    "a secret": lambda: terminal_words.secret(_held(), echo=False, empty=False),
    "a secret, with echo": lambda: terminal_words.secret(_held(), echo=True, empty=False),
    "an empty secret": lambda: terminal_words.secret(_held(), echo=False, empty=True),
    "no secret": lambda: terminal_words.no_secret(_held()),
    "no source": lambda: terminal_words.no_source("KeyError"),
    "changed": lambda: terminal_words.changed("bash, vim", None),
    "asked anew": lambda: terminal_words.asked_anew("DELETE ALL? "),
    "asked anew, on a blank line": lambda: terminal_words.asked_anew(""),
    "over": lambda: terminal_words.OVER,
    "over, in a list": lambda: terminal_words.listed(_held(ENDED)),
    "lost, in a list": lambda: terminal_words.listed(_held(Outcome(status="lost"))),
    "gave no secret, still waits": lambda: " ".join(
        terminal_words.state(_held(), _view(waiting=CERTAIN, password=True), secrets=None)
    ),
    "failed typing": lambda: terminal_words.failed_typing("it does not read."),
    "without": lambda: terminal_words.without(terminal_words.NOT_HERE),
    "none here": lambda: terminal_words.none_here("ci-7 grants no terminal"),
    "apart": terminal_words.apart,
    "skipped": lambda: " ".join(terminal_words.skipped(Output(skipped_bytes=1234567))),
    "kept": lambda: " ".join(terminal_words.kept(OutputArtifact.of(ARTIFACT), readable=True)),
    "kept elsewhere": lambda: " ".join(terminal_words.kept(OutputArtifact.of(ARTIFACT), readable=False)),
}


def test_messages_match_the_snapshot() -> None:
    said = {
        name: " ".join(terminal_words.state(held, view, secrets=False))
        for name, (held, view) in STATES.items()
    }
    said |= {f"news: {name}": terminal_words.news(_held(outcome)) for name, outcome in ENDINGS.items()}
    for before in (True, False):
        when = "before" if before else "now"
        said |= {
            f"stop, {when}: {name}": terminal_words.stopped(_held(outcome), before=before)
            for name, outcome in ENDINGS.items()
        }
    said |= {name: make() for name, make in NOTICES.items()}
    assert all(text.isprintable() for text in said.values())
    matches_snapshot("terminal_messages.txt", "".join(f"{name}\n    {text}\n" for name, text in said.items()))


async def test_definitions_mention_enabled_terminals() -> None:
    async with Environment.detect(FakeBackend({})) as env:
        plain = ShellTool(env, approver=deny_all).definition
        tool = tool_of(env)
        both = tool_of(env, session=True, jobs=True, secrets=_no_secret)
    assert "pty" not in plain.parameters["properties"]
    assert "`pty`" not in plain.description
    definition = tool.definition
    assert "- No terminal, and stdin is empty" in plain.description
    assert "- No terminal" not in definition.description
    assert "- Without `pty` there is no terminal" in definition.description
    assert definition.parameters["properties"]["pty"]["type"] == "boolean"
    assert "cannot be set without pty" in definition.parameters["properties"]["env"]["description"]
    assert "A job or command with `pty` has a shell of its own" in both.definition.description
    job = tool.job_tool.definition
    assert job.name == "job"
    assert job.as_format("mcp")["annotations"]["title"] == "Look after jobs"
    assert "secret" not in json.dumps(job.as_format())
    whole = both.job_tool.definition
    matches_snapshot(
        "job_definition_terminals.json",
        json.dumps({"description": whole.description, **whole.parameters}, indent=2) + "\n",
    )
    for schema in (both.definition.parameters, job.parameters):
        assert not re.search(r'anyOf|oneOf|\$ref|\$defs|"title"', json.dumps(schema))


async def test_truncation_on_a_terminal_says_which_lines_are_shown(tmp_path: Path) -> None:
    limits = OutputLimits(head=20, tail=20)
    async with Environment.detect(cwd=tmp_path, limits=limits) as env:
        result = await run(tool_of(env), "seq -f '%09.0f' 20")
    truncation = result.details.truncation
    assert truncation is not None
    assert (truncation.direction, truncation.truncated_by) == ("both", "bytes")
    assert truncation.shown_range == ((1, 2), (19, 20)), result.output
