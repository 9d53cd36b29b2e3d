"""Internal addresses in commands, on this machine and over SSH, by every way to run a command."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from anyshell import (
    AnyshellError,
    Approved,
    ArtifactStore,
    Environment,
    Fleet,
    InvalidCommand,
    OutputLimits,
    Policy,
    Refused,
    ShellTool,
    ToolLimits,
    approve_all,
)
from anyshell.abc import Resolved
from anyshell.types import DetachedJobs, Root

from .conftest import SSH_HOST, framework, local, open_to_all
from .test_artifacts import keep

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from anyshell import ApprovalRequest, SSHOptions
    from anyshell.abc import Resolver

    from .ssh_server import Server

pytestmark = pytest.mark.anyio

LINES = b"".join(b"line %d\n" % number for number in range(1, 101))


class Memory:
    """A resolver of the caller, whose files are generated."""

    async def resolve(self, name: str) -> Resolved:
        if name == "gone":
            raise LookupError("nothing is remembered of gone")
        if name == "broken":
            raise RuntimeError("a fault of the resolver")
        return Resolved(path=f"{name}.txt", content=lambda: [b"memory of ", name.encode(), b"\n"])


@pytest.fixture
def skills(tmp_path: Path) -> Path:
    """A directory of this machine. The other user who runs commands on a host cannot read the directory."""
    path = tmp_path / "skills"
    (path / "review").mkdir(parents=True)
    (path / "review" / "it's a.md").write_text("skill\n")
    (path / "review" / "run.sh").write_text("#!/bin/sh\necho ran $1\n")
    (path / "review" / "run.sh").chmod(0o700)
    (path / "out").symlink_to("/etc/passwd")
    return path


@pytest.fixture(params=["local", *SSH_HOST])
async def env(
    request: pytest.FixtureRequest,
    ssh_host: Callable[[str], Server],
    tmp_path: Path,
    skills: Path,
    anyio_backend: str,
) -> AsyncIterator[Environment]:
    host = local() if request.param == "local" else ssh_host(request.param).options()
    work = tmp_path / "work"
    work.mkdir()
    open_to_all(tmp_path)
    open_to_all(work)
    skills.chmod(0o700)
    resolvers: dict[str, Resolver | None] = {
        "skill": Root(path=str(skills)),
        "memory": Memory(),
        "files": Root(path=str(work / "local"), on_host=True, creates="directories"),
    }
    async with Environment.detect(host, cwd=work, resolvers=resolvers) as environment:
        yield environment
        assert not await environment.files.exists(environment.runner.addresses._private)


@pytest.fixture
def kept() -> str:
    """The address of an artifact."""
    return f"artifact://{keep(ArtifactStore(), LINES).id}"


async def text(env: Environment, command: str, **options: str) -> str:
    outcome = await env.run(command, timeout=20, **options)  # type: ignore[arg-type]  # the keyword arguments have mixed types
    assert outcome.exit_code == 0, outcome
    return outcome.output.text


async def test_artifact_addresses_can_be_read_in_commands(env: Environment, kept: str) -> None:
    assert (await text(env, f"wc -l < {kept}")).strip() == "100"
    assert await text(env, f"cat '{kept}?tail=2'") == "line 99\nline 100\n"
    command = f"cat '{kept}?grep=^line 5.$&lines=1-51' \"{kept}?lines=7\" {kept}?bytes=0-5"
    assert await text(env, command) == "50:line 50\n51:line 51\nline 7\nline 1"


async def test_workspace_addresses_resolve_to_files(env: Environment) -> None:
    await env.files.write_text("a b.txt", "text\n")
    assert (
        await text(env, "cat 'workspace://a b.txt' > workspace://new; cat workspace://new; cat new")
        == "text\n" * 2
    )
    assert await text(env, "pwd", cwd="workspace://") == f"{env.directory}\n"


async def test_resolver_files_exist_only_while_the_command_runs(env: Environment) -> None:
    command = 'cat "skill://review/it\'s a.md"; skill://review/run.sh well; cat memory://x; ls skill://review'
    assert await text(env, command) == "skill\nran well\nmemory of x\nit's a.md\nrun.sh\n"
    assert not await env.files.exists(env.runner.addresses._private)


async def test_addresses_in_variables_and_cwd_become_raw_paths(env: Environment) -> None:
    outcome = await env.run(
        'cat "$A"; cat "./it\'s a.md"; echo "$B"',
        cwd="skill://review",
        env={"A": "skill://review/it's a.md", "B": "see skill://review"},
        timeout=20,
    )
    assert outcome.output.text == "skill\nskill\nsee skill://review\n"


async def test_parent_directories_of_written_files_are_created(env: Environment) -> None:
    assert await text(env, "echo hi > files://x/y/z; cat files://x/y/z") == "hi\n"
    assert await env.files.read_text("local/x/y/z") == "hi\n"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("artifact://20261120-051200-a1b2c3d4", "no kept output has the id '20261120-051200-a1b2c3d4'"),
        ("artifact://../../etc/passwd", "no kept output has the id '../../etc/passwd'"),
        ("'artifact://20261120-051200-a1b2c3d4?head=3'", "'head=3' is not a part of an address"),
        ("skill://none.md", "none.md does not exist"),
        ("skill://../secret", "it leads out of its directory by '..'"),
        ("skill:///etc/passwd", "it is absolute"),
        ("skill://out", "a link in it leads out of its directory"),
        ("memory://gone", "nothing is remembered of gone"),
        ("memory://broken", "a fault of the resolver"),
        ("workspace://no/directory/a", "no/directory does not exist"),
        ("workspace://../a", "it leads out"),
    ],
)
async def test_unresolvable_address_is_an_error_before_the_command_runs(
    env: Environment, command: str, said: str
) -> None:
    with pytest.raises(InvalidCommand) as caught:
        await env.run(f"touch ran; cat {command}")
    assert said in str(caught.value)
    assert await env.files.list() == []


async def test_addresses_inside_longer_words_are_unchanged(env: Environment, kept: str) -> None:
    said = f"https://example.org {kept} is it, see skill://none for more"
    assert await text(env, f"echo '{said}'; echo https://example.org; echo '{kept} has it'") == (
        f"{said}\nhttps://example.org\n{kept} has it\n"
    )


async def test_jobs_sessions_terminals_and_streams_expand_addresses(env: Environment, kept: str) -> None:
    command = f"cat '{kept}?lines=3' memory://x"
    job = await env.start(command, timeout=20)
    await job.wait()
    assert (await job.output()).text == "line 3\nmemory of x\n"
    async with env.session() as session:
        outcome = await session.run(f"{command} \"$A\"; cd skill://review; pwd", env={"A": "skill://review/it's a.md"}, timeout=20)  # fmt: skip
        assert outcome.output.text.startswith("line 3\nmemory of x\nskill\n")
    async with env.terminal(command, timeout=20) as terminal:
        assert (await terminal.wait()).output.text == "line 3\nmemory of x\n"
    async with env.stream(command, timeout=20) as events:
        assert [event.text async for event in events] == ["line 3", "memory of x"]


async def test_two_commands_share_a_copy(env: Environment) -> None:
    """The end of one command does not remove the copy of the other command."""
    job = await env.start("cat memory://x; read line; cat memory://x", timeout=30)
    await job.wait_for("memory of x", timeout=20)
    assert await text(env, "cat memory://x") == "memory of x\n"
    await job.send("\n")
    await job.wait()
    assert (await job.output()).text == "memory of x\n" * 2


async def test_detached_job_refuses_addresses_that_need_a_copy(
    env: Environment, kept: str, tmp_path: Path
) -> None:
    jobs = DetachedJobs(env, directory=f"{env.directory}/jobs")
    with pytest.raises(InvalidCommand, match="a detached job outlives the copy"):
        await jobs.start(f"cat '{kept}?tail=1'")
    await env.files.write_text("a", "here\n")
    job = await jobs.start("cat workspace://a")
    await job.wait(timeout=20)
    assert (await job.output()).text == "here\n"


@pytest.mark.parametrize("beside", [False, True])
async def test_failing_content_leaves_no_copy(env: Environment, beside: bool) -> None:
    """The content fails at the start of the command. A copy that another command uses stays."""

    class Failing:
        async def resolve(self, name: str) -> Resolved:
            def pieces() -> Iterator[bytes]:
                yield b"some"
                raise OSError(5, "no more")

            return Resolved(path=name, content=pieces)

    addresses = env.runner.addresses
    addresses._resolvers["failing"] = Failing()
    job = await env.start("cat memory://x; read line; cat memory://x", timeout=30) if beside else None
    if job is not None:
        await job.wait_for("memory of x", timeout=20)
    with pytest.raises(InvalidCommand, match="no more"):
        await env.run("cat memory://y failing://x; touch ran")
    assert await env.files.list() == []
    if job is not None:
        assert len(await env.files.list(addresses._private)) == 1
        await job.send("\n")
        await job.wait()
        assert (await job.output()).text == "memory of x\n" * 2
    assert not await env.files.exists(addresses._private)


async def test_created_file_needs_an_existing_directory(tmp_path: Path) -> None:
    class Anywhere:
        async def resolve(self, name: str) -> Resolved:
            return Resolved(path=str(tmp_path / name), on_host=True, creates="file")

    async with Environment.detect(cwd=tmp_path, resolvers={"to": Anywhere()}) as env:
        assert await text(env, "echo x > to://new; cat to://new") == "x\n"
        with pytest.raises(InvalidCommand, match=r"missing does not exist"):
            await env.run("echo x > to://missing/new")


@pytest.mark.parametrize(
    ("resolved", "said"),
    [
        (Resolved(path="x", content=lambda: (b"x" * (1 // 0) for _ in "x")), "division"),
        (Resolved(path="x", content=lambda: ["text"]), "bytes-like object is required"),  # type: ignore[list-item]  # bad input is the point
        (Resolved(path="x", content=lambda: None), "not iterable"),  # type: ignore[arg-type,return-value]  # bad input is the point
        (Resolved(path="x", content=b"x", hold=lambda: 1 // 0), "division"),  # type: ignore[arg-type,return-value]  # bad input is the point
    ],
)
async def test_late_exceptions_of_a_resolver_are_mapped(
    tmp_path: Path, resolved: Resolved, said: str
) -> None:
    class Late:
        async def resolve(self, name: str) -> Resolved:
            return resolved

    async with Environment.detect(cwd=tmp_path, resolvers={"late": Late()}) as env:
        with pytest.raises(InvalidCommand, match=said):
            await env.run("cat late://x; touch ran")
        assert os.listdir(tmp_path) == []
        assert not await env.files.exists(env.runner.addresses._private)


async def test_failed_release_of_a_hold_keeps_the_outcome(tmp_path: Path) -> None:
    @contextlib.contextmanager
    def hold() -> Iterator[None]:
        yield
        raise RuntimeError("cannot be given back")

    class Held:
        async def resolve(self, name: str) -> Resolved:
            return Resolved(path="x", content=b"kept", hold=hold)

    told: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    async with Environment.detect(cwd=tmp_path, resolvers={"held": Held()}) as env:
        assert await text(env, "cat held://x") == "kept"
        assert [str(each["exception"]) for each in told] == ["cannot be given back"]
        assert not await env.files.exists(env.runner.addresses._private)


async def test_a_cancelled_command_leaves_no_copy(env: Environment) -> None:
    seen = asyncio.Event()

    async def hear(_: object, data: bytes) -> None:
        seen.set()

    task = asyncio.create_task(env.run("cat memory://x; sleep 60", listener=hear))
    await asyncio.wait_for(seen.wait(), 20)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert not await env.files.exists(env.runner.addresses._private)


class Person:
    def __init__(self, answer: Approved | Refused) -> None:
        self.answer = answer
        self.asked: list[ApprovalRequest] = []

    async def __call__(self, request: ApprovalRequest) -> Approved | Refused:
        self.asked.append(request)
        return self.answer


@pytest.mark.parametrize("session", [False, True])
async def test_the_approver_sees_the_text_that_runs(env: Environment, kept: str, session: bool) -> None:
    """No file is copied before the approver has answered."""
    there = []

    class Looking(Person):
        async def __call__(self, request: ApprovalRequest) -> Approved | Refused:
            there.append(await env.files.exists(env.runner.addresses._private))
            return await super().__call__(request)

    person = Looking(Approved())
    tool = ShellTool(env, approver=person, session=session)
    command = f"cat '{kept}?tail=1' memory://x; echo 'see {kept}'"
    result = await tool({"command": command, "cwd": "skill://review"})
    assert result.text.startswith(f"line 100\nmemory of x\nsee {kept}"), result
    (request,) = person.asked
    assert request.text == result.details.command
    assert request.text.count("://") == 1
    assert request.text.startswith(f"cat {env.runner.addresses._private}/")
    assert request.original == command  # type: ignore[union-attr]  # a request for a command has it
    assert "://" not in request.directory
    assert there == [False]
    again = await tool({"command": command, "cwd": "skill://review"})
    assert again.details.command == request.text


async def test_unresolvable_address_is_refused_without_asking(env: Environment) -> None:
    person = Person(Refused())
    tool = ShellTool(env, approver=person)
    result = await tool({"command": "cat skill://none.md"})
    assert result.is_error
    assert result.details.status == "failed"
    assert "skill://none.md" in result.text
    assert person.asked == []
    result = await tool({"command": "cat memory://x"})
    assert (result.details.status, len(person.asked)) == ("refused", 1)


RULES = """
[[allow]]
name = "look"
program = ["cat"]
reads = ["workspace"]
"""


async def test_policy_decides_on_expanded_paths(env: Environment, tmp_path: Path) -> None:
    """A file of the workspace is allowed; a copy outside the workspace is asked about."""
    framework("tree_sitter_bash")
    await env.files.write_text("a", "text\n")
    (tmp_path / "rules.toml").write_text(RULES)
    person = Person(Refused("no"))
    tool = ShellTool(env, approver=person, policy=Policy.load(tmp_path / "rules.toml", preset=None))
    assert (await tool({"command": "cat workspace://a"})).text.startswith("text\n")
    assert person.asked == []
    assert (await tool({"command": "cat workspace://a memory://x"})).details.status == "refused"
    assert len(person.asked) == 1


async def test_suggested_commands_work_on_a_remote_host(
    ssh_host: Callable[[str], Server], tmp_path: Path
) -> None:
    open_to_all(tmp_path)
    async with Environment.detect(
        ssh_host(SSH_HOST[0]).options(), cwd=tmp_path, limits=OutputLimits(head=60, tail=60)
    ) as env:
        tool = ShellTool(env, approver=approve_all)
        result = await tool({"command": "seq 1 9000"})
        command = re.search(r"cat 'artifact://.*?'", result.message)
        assert command is not None, result.message
        result = await tool({"command": command[0].replace("REGEX", "^4.0.$")})
        assert result.output.startswith("4000:4000\n4001:4001\n")
        result = await tool({"command": command[0].replace("grep=REGEX", "lines=8999-9000")})
        assert result.output == "8999\n9000\n"


async def test_background_job_of_a_tool_keeps_its_files(env: Environment) -> None:
    tool = ShellTool(env, approver=approve_all, jobs=True, limits=ToolLimits(max_wait=20))
    result = await tool({"command": "cat memory://x; sleep 0.5; cat memory://x", "run_in_background": True})
    job = result.details.job
    read = await tool.job_tool({"action": "output", "id": job, "wait": 20, "until": "end"})
    assert "memory of x\nmemory of x" in (result.text + read.text)


async def test_artifact_in_use_is_not_pruned(env: Environment, kept: str) -> None:
    store = ArtifactStore()
    job = await env.start(f"cat {kept}; read line", timeout=30)
    await job.wait_for("line 100", timeout=20)
    assert store.prune(max_age=0, max_total=0) == []
    await job.send("\n")
    await job.wait()
    assert len(store.prune(max_age=0, max_total=0)) == 1


async def test_resolvers_are_checked(tmp_path: Path) -> None:
    for wrong in ({"Skill": Root(path="/")}, {"": Root(path="/")}, {"skill": "/srv"}):
        with pytest.raises(InvalidCommand, match="resolvers"):
            Environment.detect(resolvers=wrong)  # type: ignore[arg-type]  # bad input is the point
    async with Environment.detect(
        cwd=tmp_path, resolvers={"workspace": None, "a": Root(path="relative")}
    ) as env:
        assert (await env.run("echo workspace://../x")).output.text == "workspace://../x\n"
        with pytest.raises(InvalidCommand, match="has not given an absolute path"):
            await env.run("cat a://b")
        with pytest.raises(InvalidCommand, match="up to 100 internal addresses"):
            await env.run("echo" + " a://b" * 101)


async def test_command_without_addresses_is_unchanged(tmp_path: Path) -> None:
    from anyshell._runner import to_command

    async with Environment.detect(cwd=tmp_path) as env:
        command = to_command("echo https://example.org", None, {"A": "x://y"}, kind="sh")
        assert await env.runner.addresses.expand(command) is command


async def test_every_host_of_a_fleet_gets_resolver_files(
    ssh_host: Callable[[str], Server], skills: Path, tmp_path: Path
) -> None:
    open_to_all(tmp_path)
    hosts: list[str | SSHOptions] = ["local", ssh_host(SSH_HOST[0]).options()]
    async with Fleet(hosts, cwd=tmp_path, resolvers={"memory": Memory()}) as fleet:
        ends = [end async for end in fleet.run("cat memory://x", timeout=30)]
    assert [end.outcome.output.text for end in ends if end.outcome is not None] == ["memory of x\n"] * 2


def test_command_line_and_blocking_api_expand_addresses(
    kept: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import anyshell

    for name in ("one", "two"):  # relative to the current directory of the process, like a cwd
        (tmp_path / name / "sub").mkdir(parents=True)
        (tmp_path / name / "sub" / "file").write_text(name)
        monkeypatch.chdir(tmp_path / name)
        assert anyshell.run("cat workspace://sub/file file", cwd="workspace://sub").output.text == name * 2
    assert anyshell.run(f"cat '{kept}?lines=2'").output.text == "line 2\n"
    done = subprocess.run(
        [sys.executable, "-m", "anyshell", "run", "--", "cat", f"{kept}?lines=2"],
        capture_output=True, text=True, check=True, cwd=tmp_path, env=os.environ,
    )  # fmt: skip
    assert done.stdout == "line 2\n"
    with pytest.raises(AnyshellError):
        anyshell.run("cat artifact://none")
