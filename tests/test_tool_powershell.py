"""The host's own PowerShell as a lasting parser, and a tool that uses it with a policy."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING

import anyio
import psutil
import pytest

from anyshell import Approved, Environment, Policy, Refused, ShellTool
from anyshell._types import ShellInfo
from anyshell.tool import powershell as module
from anyshell.tool.powershell import MOST_STARTS, PowerShellParser

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from anyshell import ApprovalRequest

    from .wine.windows import Windows

pytestmark = pytest.mark.anyio

ANSWERS = """
text = base64.b64decode(packed)
word = base64.b64encode(text).decode()
answer = {"n": int(number), "d": [], "c": [{"p": word, "s": [0, len(text)], "i": 0, "a": [], "r": []}]}
print(json.dumps(answer), flush=True)
"""
"""Python text that answers each text as one program without arguments."""


@pytest.fixture
async def parser(tmp_path: Path) -> AsyncIterator[Callable[[str], PowerShellParser]]:
    """A parser on this machine whose PowerShell is a Python program with the given answer to each question; the program records its pids."""
    async with Environment.detect(cwd=tmp_path) as env:

        def make(program: str) -> PowerShellParser:
            stub = tmp_path / "pwsh"
            stub.write_text(
                f"#!{sys.executable}\nimport base64, json, os, sys, time\n"
                f"open({str(tmp_path / 'pids')!r}, 'a').write(f'{{os.getpid()}}\\n')\n"
                "for line in sys.stdin:\n    number, packed = line.split()\n"
                + "".join(f"    {each}\n" for each in program.strip().splitlines())
            )
            stub.chmod(0o755)
            return PowerShellParser(env, ShellInfo("pwsh", str(stub)))

        yield make


def _pids(tmp_path: Path) -> list[int]:
    return [int(line) for line in (tmp_path / "pids").read_text().split()]


async def test_simultaneous_texts_are_answered_by_one_process(
    parser: Callable[[str], PowerShellParser], tmp_path: Path
) -> None:
    asked = parser(ANSWERS)
    texts = [f"p{number}" for number in range(20)]
    found = await asyncio.gather(*(asked.parse(text) for text in texts))
    assert [(each.text, each.commands[0].program, each.unknown) for each in found] == [
        (text, text, ()) for text in texts
    ]
    assert len(_pids(tmp_path)) == 1
    await asked.aclose()
    assert not psutil.pid_exists(_pids(tmp_path)[0])
    assert not (await asked.parse("p")).understood


@pytest.mark.parametrize(
    "program",
    [
        "print('garbage', flush=True)",
        'print(\'{"n": 0, "d": [], "c": []}\', flush=True)',
        ANSWERS.replace("print", "print('warning', flush=True); print"),
        "print('x' * 5_000_000, flush=True)",
        "sys.exit(1)",
        "sys.stdout.write('{'); sys.stdout.flush(); os._exit(0)",
    ],
)
async def test_failing_parser_is_ended_and_its_starts_are_bounded(
    parser: Callable[[str], PowerShellParser], tmp_path: Path, program: str
) -> None:
    asked = parser(program)
    for _ in range(MOST_STARTS + 2):
        parsed = await asked.parse("Get-Item x")
        assert not parsed.understood
        assert [command.program for command in parsed.commands] == ["Get-Item"]  # the hint of the parser
    pids = _pids(tmp_path)
    assert len(pids) == MOST_STARTS
    assert not any(map(psutil.pid_exists, pids))


async def test_silent_parser_is_ended(
    parser: Callable[[str], PowerShellParser], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "START_SECONDS", 0.5)
    assert not (await parser("pass").parse("ls")).understood
    assert not any(map(psutil.pid_exists, _pids(tmp_path)))


async def test_cancelled_question_ends_the_process_and_drops_its_answer(
    parser: Callable[[str], PowerShellParser], tmp_path: Path
) -> None:
    heard = tmp_path / "heard"
    wait = f"if base64.b64decode(packed) == b'first':\n        open({str(heard)!r}, 'w').close()\n        time.sleep(60)\n"
    asked = parser(wait + ANSWERS)
    task = asyncio.create_task(asked.parse("first"))
    while not heard.exists():
        await anyio.sleep(0.01)
    second = asyncio.create_task(asked.parse("second"))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await second).commands[0].program == "second"
    first, other = _pids(tmp_path)
    assert not psutil.pid_exists(first)
    assert psutil.pid_exists(other)


async def test_missing_program_leaves_the_hint(tmp_path: Path) -> None:
    async with Environment.detect(cwd=tmp_path) as env:
        asked = PowerShellParser(env, ShellInfo("pwsh", str(tmp_path / "missing")))
        assert not (await asked.parse("ls")).understood


async def test_tool_with_a_policy_has_powershell_parse_its_texts(powershell: Windows, tmp_path: Path) -> None:
    asked: list[str] = []

    async def approver(request: ApprovalRequest) -> Approved | Refused:
        asked.append(request.text)
        return Refused("no")

    policy = Policy.preset("workspace")
    async with Environment.detect(shell=str(powershell.pwsh), cwd=tmp_path, policy=policy) as env:
        tool = ShellTool(env, approver=approver)

        async def status(text: str) -> str:
            return (await tool({"command": text})).details.status

        assert await status("Write-Output 'a' | Select-Object -First 1") == "exited"
        (helper,) = env.runner.helpers
        assert isinstance(helper, PowerShellParser)
        process = helper._process
        assert process is not None
        await process.send_signal("kill")
        await process.wait()
        assert await status("Get-Date | Out-Null") == "exited"
        assert asked == []
        assert await status("(Get-Item x).Delete()") == "refused"
        assert await status("Write-Output $(Get-Date)") == "refused"
        assert await status("Remove-Item -Recurse -Force /") == "refused"
        assert asked == ["(Get-Item x).Delete()", "Write-Output $(Get-Date)"]
        last = helper._process
        assert last is not None
        assert last is not process
        pid = last.pid
    assert pid is not None
    assert not psutil.pid_exists(pid)
    assert not os.listdir(tmp_path)
