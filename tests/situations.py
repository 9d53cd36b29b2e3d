"""The table of ``docs/reference/what-a-model-reads.md``, from real runs, here and over SSH: ``python -m tests.situations``.

Each situation is played on this machine and on an SSH server on loopback. Values that differ between runs (process ids,
measured times, directories, ids of artifacts) are replaced by an example.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import asyncssh
import psutil

from anyshell import Approved, Environment, OutputLimits, Refused, ShellTool, ToolLimits, approve_all

from .ssh_server import Server, openssh, own_name, sessions

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from anyshell import ApprovalRequest
    from anyshell.abc import Approver
    from anyshell.tool import JobResult, ShellResult

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "what-a-model-reads.md"
MOST = {"commands": 15.0, "jobs": 25.0, "terminals": 30.0}
"""The mean number of anyshell's words in a result, at most."""

_TABLE = re.compile(r"(<!-- situations -->\n).*?(<!-- end of situations -->)", re.DOTALL)
_OURS = "[anyshell] "
_EXAMPLES = (
    (re.compile(r"\(pid \d+\)"), "(pid 4711)"),
    (re.compile(r"(after|in|runs|job j1) \d+(?:\.\d+)? s\b"), r"\1 2 s"),
    (re.compile(r"j1 runs, [\d.]+ s now"), "j1 runs, 2 s now"),
    (re.compile(r"/\S*/(\d{8}-\d{6}-[0-9a-f]{8}\.out)"), r"/home/dev/.local/state/anyshell/artifacts/\1"),
    (re.compile(r"\d{8}-\d{6}-[0-9a-f]{8}"), "20261121-101500-4f2ac09d"),
    (re.compile(r"connection to \S+ broke"), "connection to web-1 broke"),
    (re.compile(r"host key of \S+ has"), "host key of web-1 has"),
    (re.compile(r"in 0\.\d s\b"), "in 2 s"),
)


class Play:
    """One host, and the tools with which a situation is played.

    Args:
        env: The host.
        server: Its server; ``None`` for this machine.
    """

    def __init__(self, env: Environment, server: Server | None) -> None:
        self.env = env
        self.server = server
        self._tool: ShellTool | None = None
        self.calls: list[dict[str, Any]] = []

    def tool(self, approver: Approver = approve_all, **more: Any) -> ShellTool:
        self._tool = ShellTool(
            self.env, approver=approver, limits=ToolLimits(min_timeout=0.1, grace=0.5), **more
        )
        return self._tool

    async def shell(self, command: str, **params: Any) -> ShellResult:
        given = {"command": command, **params}
        self.calls.append(given)
        return await (self._tool or self.tool())(given)

    async def job(self, action: str, **params: Any) -> JobResult:
        given = {"action": action, **params}
        self.calls.append(given)
        assert self._tool is not None
        return await self._tool.job_tool(given)


@dataclass(frozen=True)
class Situation:
    """A situation, and the calls that produce it: only the last result counts."""

    kind: Literal["commands", "jobs", "terminals"]
    name: str
    play: Callable[[Play], Awaitable[ShellResult | JobResult]]
    remote: bool = False  # this machine has no such situation


async def _timed_out(play: Play) -> ShellResult:
    play.tool(jobs=True, terminals=True)
    return await play.shell("echo building; sleep 60", timeout=2)


async def _asks(play: Play) -> ShellResult:
    return await play.shell("printf 'Proceed? [y/N] '; sleep 60", timeout=2)


async def _much(play: Play) -> ShellResult:
    return await play.shell("seq 1 9000")


async def _much_with_jobs(play: Play) -> ShellResult:
    play.tool(jobs=True)
    return await play.shell("seq 1 9000")


async def _user_says(play: Play) -> ShellResult:
    async def approver(request: ApprovalRequest) -> Approved | Refused:
        return Refused("use pnpm, not npm")

    play.tool(approver)
    return await play.shell("npm install")


async def _refused(play: Play) -> ShellResult:
    async def approver(request: ApprovalRequest) -> Approved | Refused:
        return Refused()

    play.tool(approver)
    return await play.shell("rm -rf build")


async def _other_names(play: Play) -> ShellResult:
    given = {"cmd": "echo hello", "workdir": "/", "timeout_ms": 5000, "is_background": False}
    play.calls.append(given)
    return await play.tool()(given)


async def _session_moves(play: Play) -> ShellResult:
    play.tool(session=True)
    return await play.shell("cd /usr")


async def _session_ends(play: Play) -> ShellResult:
    play.tool(session=True)
    await play.shell("cd /usr")
    return await play.shell("exit 3")


async def _link_lost(play: Play) -> ShellResult:
    running = asyncio.ensure_future(play.shell("sleep 61.5"))
    while not _sleeps("61.5"):
        await asyncio.sleep(0.05)
    await asyncio.sleep(0.5)  # the start of the command is reported
    assert play.server is not None
    for pid in sessions(play.server.pid):
        with contextlib.suppress(psutil.NoSuchProcess):
            psutil.Process(pid).kill()
    return await running


async def _key_changed(play: Play) -> ShellResult:
    server = play.server
    assert server is not None
    other = asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode()
    server.known_hosts.write_text(f"[{server.address}]:{server.port} {other}")
    for pid in sessions(server.pid):
        with contextlib.suppress(psutil.NoSuchProcess):
            psutil.Process(pid).kill()
    await asyncio.sleep(1)
    return await play.shell("uptime")


def _sleeps(seconds: str) -> bool:
    found = (process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"]))
    return any(cmdline[-1:] == [seconds] for cmdline in found)


async def _job(play: Play, command: str = "echo Starting; sleep 1; echo Listening; sleep 300") -> ShellResult:
    play.tool(jobs=True)
    return await play.shell(command, run_in_background=True)


async def _listens(play: Play) -> JobResult:
    await _job(play)
    return await play.job("output", id="j1", until="Listening")


async def _job_fails(play: Play) -> ShellResult:
    play.tool(jobs=True)
    return await play.shell("cat config.yaml", run_in_background=True)


async def _news(play: Play) -> ShellResult:
    await _job(play, "sleep 1; echo 3 failed; exit 3")
    while play.env.jobs.list()[0].status == "running":
        await asyncio.sleep(0.1)
    return await play.shell("true")


async def _left(play: Play) -> ShellResult:
    play.tool(jobs=True)
    return await play.shell("sleep 300 &")


async def _sent(play: Play) -> JobResult:
    await _job(play, "cat")
    return await play.job("send", id="j1", text="hello", enter=True, wait=5)


async def _stopped(play: Play) -> JobResult:
    await _job(play)
    return await play.job("stop", id="j1")


async def _terminal(play: Play) -> ShellResult:
    play.tool(terminals=True)
    return await play.shell("bash -c 'read -p \"Name? \" name; echo hello $name'", pty=True)


async def _answered(play: Play) -> JobResult:
    await _terminal(play)
    return await play.job("send", id="t1", text="World", enter=True)


async def _password(play: Play) -> ShellResult:
    async def secrets(request: object) -> str | None:
        return None

    play.tool(terminals=True, secrets=secrets)
    return await play.shell("bash -c 'read -s -p \"Password: \" word'", pty=True)


async def _works(play: Play) -> ShellResult:
    play.tool(terminals=True)
    return await play.shell("sleep 300", pty=True, run_in_background=True)


async def _terminal_stopped(play: Play) -> JobResult:
    await _works(play)
    return await play.job("stop", id="t1")


def _run(command: str, **params: Any) -> Callable[[Play], Awaitable[ShellResult]]:
    return lambda play: play.shell(command, **params)


SITUATIONS = (
    Situation("commands", "It works", _run("echo hello")),
    Situation("commands", "It fails and says why", _run("cat no-such-file")),
    Situation("commands", "It fails in silence", _run("false")),
    Situation("commands", "Its program is not found", _run("no-such-program --version")),
    Situation("commands", "Its parameters have other tools' names", _other_names),
    Situation("commands", "Its directory does not exist", _run("ls", cwd="no-such-directory")),
    Situation("commands", "It is killed", _run("kill -9 $$")),
    Situation("commands", "Its time is over", _timed_out),
    Situation("commands", "Its time is over, and it had asked", _asks),
    Situation("commands", "It prints too much", _much),
    Situation("commands", "It prints too much, with the job tool", _much_with_jobs, remote=True),
    Situation("commands", "It prints what is not text", _run("printf '\\177ELF\\0'; head -c 4000 /dev/zero")),
    Situation("commands", "It leaves something running", _run("sleep 300 &")),
    Situation("commands", "The user refuses and says what to do", _user_says),
    Situation("commands", "The user refuses without a word", _refused),
    Situation("commands", "A parameter is wrong", _run("make", timeout=120_000)),
    Situation("commands", "It moves the session's shell", _session_moves),
    Situation("commands", "It ends the session's shell", _session_ends),
    Situation("commands", "The connection breaks", _link_lost, remote=True),
    Situation("commands", "The host key has changed", _key_changed, remote=True),
    Situation("jobs", "A job starts", _job),
    Situation("jobs", "A job fails at once", _job_fails),
    Situation("jobs", "A job prints what is waited for", _listens),
    Situation("jobs", "A job has ended meanwhile", _news),
    Situation("jobs", "A command leaves a job", _left),
    Situation("jobs", "A job is sent a line", _sent),
    Situation("jobs", "A job is stopped", _stopped),
    Situation("terminals", "A program asks", _terminal),
    Situation("terminals", "It is answered and ends", _answered),
    Situation("terminals", "A program asks for a password", _password),
    Situation("terminals", "A program works", _works),
    Situation("terminals", "A program is stopped", _terminal_stopped),
)


async def played(situation: Situation, *, remote: bool) -> tuple[list[dict[str, Any]], str]:
    """Play a situation: the calls, and the text of the last result."""
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        os.chmod(directory, 0o777)
        server = stack.enter_context(openssh(own_name())) if remote else None
        limits = OutputLimits(head=60, tail=60)
        target = None if server is None else server.options()
        async with Environment.detect(target, cwd=directory, limits=limits, shell="bash") as env:
            play = Play(env, server)
            text = (await situation.play(play)).text.replace(directory, "/home/dev/project")
    for pattern, example in _EXAMPLES:
        text = pattern.sub(example, text)
    return play.calls, text


def ours(text: str) -> list[str]:
    """The lines of a result that anyshell adds."""
    printed = text.split("\n\n")[-1]
    return [line.removeprefix(_OURS) for line in printed.split("\n") if line.startswith(_OURS)]


def words(text: str) -> int:
    """The number of words in a result that anyshell adds."""
    return sum(len(line.split()) for line in ours(text))


async def table() -> str:
    """Play all, and write the tables."""
    lines: list[str] = []
    for kind in MOST:
        counts: list[int] = []
        rows: list[str] = []
        for situation in (each for each in SITUATIONS if each.kind == kind):
            calls, text = await played(situation, remote=situation.remote)
            there = text if situation.remote else (await played(situation, remote=True))[1]
            counts += [words(text)] if situation.remote or there == text else [words(text), words(there)]
            rows.append(f"### {situation.name}\n\n```text\n{_call(calls)}\n```\n\n```text\n{text}\n```\n")
            if not situation.remote and there != text:
                rows.append(f"Over SSH:\n\n```text\n{there}\n```\n")
        mean = sum(counts) / len(counts)
        assert mean <= MOST[kind], f"{kind}: {mean:.1f} words"
        lines += [
            f"## {kind.capitalize()}\n",
            f"The words of anyshell: {mean:.1f} a result on average.\n",
            *rows,
        ]
    return "\n".join(lines)


def _call(calls: list[dict[str, Any]]) -> str:
    return "\n".join(f"{'job' if 'action' in call else 'shell'} {json.dumps(call)}" for call in calls)


async def written(page: str) -> str:
    """The page with its current tables."""
    made = await table()
    return _TABLE.sub(lambda found: f"{found[1]}\n{made}\n{found[2]}", page)


if __name__ == "__main__":
    PAGE.write_text(asyncio.run(written(PAGE.read_text(encoding="utf-8"))), encoding="utf-8")
