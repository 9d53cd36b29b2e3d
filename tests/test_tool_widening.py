"""Paths that a person gives a command beyond its reach: the question, the scope of an answer, and paths that are never given."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import anyshell
from anyshell import Approved, Environment, Policy, Reach, Refused, ShellTool, approve_all

assert sys.platform == "linux"  # else mypy checks the code below on every platform

from anyshell.policy.approval.approvers import _Choice
from anyshell.reach import LocalPlaces, Widened
from anyshell.reach.seatbelt import Seatbelt
from anyshell.types import ReachRequest

from .conftest import framework, row
from .test_reach import SECRET, World, env, tmp_path, world  # noqa: F401 - fixtures among them

if TYPE_CHECKING:
    from anyshell import ApprovalRequest
    from anyshell.tool.result import ShellResult

pytestmark = pytest.mark.anyio


class Person:
    """An approver that runs every command, and answers about its reach as instructed."""

    def __init__(self, answer: Approved | Refused) -> None:
        self.answer = answer
        self.asked: list[ReachRequest] = []
        self.shown: list[str] = []

    async def __call__(self, request: ApprovalRequest) -> Approved | Refused:
        self.shown.append(request.display)
        if not isinstance(request, ReachRequest):
            return Approved()
        self.asked.append(request)
        return self.answer


async def called(tool: ShellTool, command: str, **more: Any) -> ShellResult:
    return await tool({"command": command, **more})


async def test_refusal_names_the_parameter_and_once_covers_one_call(
    world: World,
    env: Environment,
) -> None:
    person = Person(Approved())
    tool = ShellTool(env, approver=person)
    write = f"echo x > {world.outside}/kept"
    refused = await called(tool, write)
    assert f"call again with also_write=['{world.outside}/kept']: the user is asked." in refused.text
    assert person.asked == []
    given = await called(tool, f"{write}; touch {world.home}/other", also_write=f"{world.outside}/kept")
    assert (world.outside / "kept").read_text() == "x\n"
    assert "Read-only file system" in given.text  # of the other file
    (asked,) = person.asked
    assert (asked.also_write, asked.also_read, asked.hidden, asked.protected) == (
        (f"{world.outside}/kept",),
        (),
        (),
        (),
    )
    assert asked.display.startswith("Command that asks for more than its reach:\n  | echo x")
    assert f"\nBeyond its reach: write {world.outside}/kept\n" in asked.display
    assert len(person.shown) == 2  # the second call has one question
    assert (await called(tool, write)).is_error
    within = await called(tool, "echo y > own", also_write=["own", env.directory], also_read=["/etc"])
    assert not within.is_error
    assert len(person.asked) == 1


async def test_answer_for_the_session_covers_the_same_paths_alone(
    world: World,
    env: Environment,
) -> None:
    person = Person(Approved(scope="session"))
    tool = ShellTool(env, approver=person, session=True, jobs=True, terminals=True)
    outside = str(world.outside)
    await called(tool, "cd .git; lasting=1")
    ways: tuple[tuple[str, dict[str, Any]], ...] = (
        ("echo 1 > {}/first", {"cwd": "."}),
        ("echo 2 > {}/second", {"pty": True}),
        ("echo 3 > {}/third", {"run_in_background": True}),
    )
    for command, more in ways:
        with row(command):
            result = await called(tool, command.format(outside), also_write=[outside], **more)
            assert not result.is_error, result.text
            if result.details.job is not None:
                await env.jobs.get(result.details.job).wait()
            assert (world.outside / command.split("/")[1]).read_text() == f"{command[5]}\n"
            assert len(person.asked) == 1
    assert f"Beyond its reach: write {outside}" in person.shown[-1]  # the command itself is still asked about
    after = await called(tool, f"echo $lasting; touch {outside}/fourth")
    assert "1\n" in after.text
    assert "Read-only file system" in after.text
    for name, path in (("also_write", f"{outside}/kept"), ("also_read", f"{world.home}/.aws")):
        with row(name):
            await called(tool, "true", **{name: [path]})
            assert len(person.asked) == 2
            person.asked.pop()


async def test_hidden_or_protected_paths_are_marked_and_given_whole(
    world: World,
    env: Environment,
) -> None:
    person = Person(Approved())
    tool = ShellTool(env, approver=person)
    aws, config = f"{world.home}/.aws", f"{world.workspace}/.git/config"
    result = await called(
        tool, "cat ~/.aws/credentials ~/.ssh/id_ed25519; touch ~/.aws/x", also_read=["~/.aws"]
    )
    assert result.text.count(SECRET) == 1
    assert "Read-only file system" in result.text
    assert person.asked[-1].hidden == (aws,)
    assert f"read {aws} ! SECRET: its reach hides this" in person.asked[-1].display
    result = await called(tool, "echo x >> .git/config; echo x > .git/hooks/kept", also_write=[".git/config"])
    assert person.asked[-1].protected == (config,)
    assert f"write {config} ! other programs take commands from this" in person.asked[-1].display
    assert Path(config).read_text() == "[core]\nx\n"
    assert (world.workspace / ".git/hooks/kept").read_text() == "kept"
    # Paths protected in the workspace are also protected in another directory.
    (world.outside / ".git" / "hooks").mkdir(parents=True)
    result = await called(
        tool, f"cd {world.outside}; touch new; touch .git/hooks/x", also_write=[str(world.outside)]
    )
    assert (world.outside / "new").exists()
    assert not (world.outside / ".git/hooks/x").exists()
    (world.home / "link").symlink_to(world.outside)
    for paths, why in {
        f"{aws}/credentials": f"the sandbox hides {aws} whole, and so {aws}/credentials: ask for {aws}",
        ".git/hooks/kept": "the sandbox keeps",
        "/": "/ is never given",
        "//": "/ is never given",
        "/tmp": "/tmp is never given",
        "/proc/1": "/proc/1 is never given",
        "~/link": f"'{world.home}/link' leads to '{world.outside}': name that instead",
        "~/none": "is not there",
    }.items():
        with row(paths):
            count = len(person.asked)
            result = await called(tool, "touch ran", also_write=[paths])
            assert why in result.text
            assert result.details.status == "failed"
            assert len(person.asked) == count + (paths in ("~/link", "~/none"))
    assert not (world.workspace / "ran").exists()


async def test_always_answer_becomes_a_user_rule_except_for_secrets(
    world: World,
    env: Environment,
    tmp_path: Path,
) -> None:
    framework("tree_sitter_bash")
    rules = tmp_path / "policy.toml"
    rules.write_text('[[allow]]\nname = "touch"\ncommand = "touch"\n')
    person = Person(Approved(scope="always"))
    policy = Policy.load(rules, check=False)
    outside = str(world.outside)
    write = {"command": f"touch {outside}/new", "also_write": [outside]}
    for count in (1, 1):
        # The policy allows the command, and so no question about the command is shown.
        await ShellTool(env, approver=person, policy=policy)(write)
        assert len(person.asked) == len(person.shown) == count
        assert (world.outside / "new").exists()
        (world.outside / "new").unlink()
        policy = Policy.load(rules)
    assert f'[[widened]]\nhost = "{env.host}"\nwrite = ["{outside}"]\n' in rules.read_text()
    before = rules.read_text()
    tool = ShellTool(env, approver=person, policy=policy)
    for _ in range(2):
        await called(tool, "true", also_read=["~/.aws"])
    assert len(person.asked) == 2  # the answer holds for the session alone
    questions = [_Choice(asked).question for asked in person.asked]
    assert ["A = always" in question for question in questions] == [True, False]
    assert rules.read_text() == before
    denied = Policy.load(rules, preset="trusted")
    result = await called(ShellTool(env, approver=person, policy=denied), "rm -rf /", also_write=[outside])
    assert "The policy says" in result.text
    for wrong in ('write = ["x"]', 'host = "here"', 'write = ["/x"]\nnetwork = ["x"]', "read = true"):
        with row(wrong):
            rules.write_text(f"[[widened]]\n{wrong}\n")
            with pytest.raises(anyshell.errors.PolicyError, match="widened"):
                Policy.load(rules)


async def test_model_cannot_widen_its_reach_without_a_person(world: World, env: Environment) -> None:
    more = {"also_write": [str(world.outside)]}
    for approver in (approve_all, Person(Refused("no"))):
        result = await called(ShellTool(env, approver=approver), f"touch {world.outside}/new", **more)
        assert result.details.status == "refused"
    assert not (world.outside / "new").exists()
    person = Person(Approved())
    trying = ShellTool(env, approver=person, approve="effects")
    await called(trying, f"touch {world.outside}/new", **more)
    assert "on trial" not in person.shown[0]  # nothing has run before the answer
    assert (world.outside / "new").exists()
    restart = await called(ShellTool(env, approver=person, session=True), "true", restart=True, **more)
    assert "exclude restart" in restart.text
    many = await called(trying, "true", also_read=["/x"] * 9)
    assert "also_read has 9 paths, and at most 8 can be given" in many.text
    async with Environment.detect(cwd=world.workspace) as free:
        tool = ShellTool(free, approver=approve_all)
        assert "also_write" not in tool.definition.parameters["properties"]
        assert "not needed here" in (await called(tool, "true", **more)).text
    with pytest.raises(anyshell.InvalidCommand, match="more than the reach"):
        await env.run("true", reach=Reach(write=(str(world.outside),)))


async def test_the_user_of_a_client_is_asked_in_both_eras_of_mcp(world: World, env: Environment) -> None:
    framework("mcp")
    from mcp import Client

    from .test_mcp import ERAS, User, printed, served

    call = {
        "command": f"touch {world.outside}/new && rm {world.outside}/new",
        "also_write": [str(world.outside)],
    }
    for mode in ERAS:
        user = User()
        async with Client(served(env), mode=mode, elicitation_callback=user) as client:
            assert printed(await client.call_tool("shell", call)).endswith("[anyshell] Exit code 0.")
        (asked,) = user.asked
        assert asked.startswith("Run this?\n\nCommand that asks for more than its reach:")
    async with Client(served(env), mode=ERAS[0]) as client:
        assert "more than its reach, and the client cannot ask" in printed(
            await client.call_tool("shell", call)
        )


def test_seatbelt_allows_the_paths_given_by_a_person(tmp_path: Path) -> None:
    class Places(LocalPlaces):
        def kind(self, path: str) -> Any:
            return "file" if path.endswith("sandbox-exec") else super().kind(path)

    reach = Reach.preset("workspace").resolved(str(tmp_path), "/Users/x")
    sandbox = Seatbelt(reach, Places()).widened(Widened(write=("/srv/data",), read=("/Users/x/.aws",)), "/")
    assert f'(allow file-write* (subpath "{tmp_path}") (subpath "/srv/data"))' in sandbox.profile()
    assert ".aws" not in sandbox.profile().split("(deny file-read* file-write* ")[-1]
    assert '(subpath "/srv/data/.git/hooks")' in sandbox.profile()
