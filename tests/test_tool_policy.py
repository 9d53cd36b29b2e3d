"""A tool with a policy: allowed, refused, and questioned commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from anyshell import Approved, Audit, Environment, Policy, Refused, ShellTool, Variables, approve_all
from anyshell.errors import PolicyError
from anyshell.policy.audit import entries
from anyshell.tool.verdicts import Verdicts

from .conftest import open_to_all

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from anyshell import ApprovalRequest

    from .ssh_server import Server

pytestmark = pytest.mark.anyio


class Person:
    """An approver that records its requests."""

    def __init__(self, answer: Approved | Refused) -> None:
        self.answer = answer
        self.asked: list[str] = []

    async def __call__(self, request: ApprovalRequest) -> Approved | Refused:
        self.asked.append(request.text)
        return self.answer


RULES = """
[[allow]]
name = "look"
program = ["cat", "ls", "echo", "true"]
reads = ["workspace"]

[[deny]]
name = "remove"
program = ["rm"]
message = "nothing is removed here"
"""


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    file = tmp_path / "rules.toml"
    file.write_text(RULES)
    return Policy.load(file)


@pytest.mark.parametrize(
    ("params", "status", "asked"),
    [
        ({"command": "cat a"}, "exited", 0),
        ({"command": "cat a | cat"}, "exited", 0),
        ({"command": "rm a"}, "refused", 0),
        ({"command": "cat a; rm a"}, "refused", 0),
        ({"command": "touch b"}, "exited", 1),
        ({"command": "cat a > b"}, "exited", 1),
        ({"command": "cat $(touch b)"}, "exited", 1),
        ({"command": "$X a"}, "exited", 1),
        ({"command": "cat a", "env": {"PATH": "."}}, "exited", 1),
        ({"command": "cat a", "env": {"LD_PRELOAD": "x.so"}}, "exited", 1),
        ({"command": "cat a", "env": {"NAME": "x"}}, "exited", 0),
    ],
    ids=str,
)
async def test_policy_decides_which_commands_ask(
    tmp_path: Path, policy: Policy, params: Mapping[str, object], status: str, asked: int
) -> None:
    (tmp_path / "a").write_text("hi\n")
    person = Person(Approved())
    async with Environment.detect(shell="bash", cwd=tmp_path, policy=policy) as env:
        result = await ShellTool(env, approver=person)(params)
    assert (result.details.status, len(person.asked)) == (status, asked)
    if status == "refused":
        assert "The policy says: nothing is removed here" in result.text
        assert (tmp_path / "a").exists()


async def test_program_of_the_workspace_is_asked_about(
    tmp_path: Path, policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = tmp_path / "bin" / "cat"
    mine.parent.mkdir()
    mine.write_text("#!/bin/sh\necho mine\n")
    mine.chmod(0o755)
    person = Person(Refused("no"))
    async with Environment.detect(shell="bash", cwd=tmp_path) as env:
        tool = ShellTool(env, approver=person, policy=policy)
        await tool({"command": "bin/cat rules.toml"})
        monkeypatch.setenv("PATH", f"{mine.parent}:/usr/bin:/bin")
        await tool({"command": "cat rules.toml"})
    assert person.asked == ["bin/cat rules.toml", "cat rules.toml"]


async def test_names_that_a_session_may_have_changed_are_asked_about(tmp_path: Path, policy: Policy) -> None:
    person = Person(Approved())
    async with Environment.detect(shell="bash", cwd=tmp_path, policy=policy) as env:
        tool = ShellTool(env, approver=person, session=True)
        for command in ("true", "cat() { echo mine; }", "cat rules.toml"):
            await tool({"command": command})
        assert person.asked[-1] == "cat rules.toml"
        await tool({"command": "true", "restart": True})
        del person.asked[:]
        await tool({"command": "cat rules.toml"})
        assert person.asked == []


async def test_approval_in_a_session_ends_after_a_possible_redefinition(
    tmp_path: Path, policy: Policy
) -> None:
    person = Person(Approved(scope="session"))
    async with Environment.detect(shell="bash", cwd=tmp_path, policy=policy) as env:
        tool = ShellTool(env, approver=person, session=True)
        texts = ["true", "date", "date", "date() { echo other; }", "date", "date", "unset -f date", "date"]
        asked = []
        for text in texts:
            before = len(person.asked)
            await tool({"command": text})
            asked.append(len(person.asked) > before)
        assert asked == [False, True, False, True, True, False, True, True]
        for text in ("unset -f date", "date"):  # the same change once more leaves the session unchanged
            await tool({"command": text})
        assert person.asked[-1] == "unset -f date"


async def test_command_with_a_prefix_is_asked_about(tmp_path: Path, policy: Policy) -> None:
    person = Person(Approved())
    async with Environment.detect(shell="bash", cwd=tmp_path, policy=policy, prefix="nice -n 1") as env:
        await ShellTool(env, approver=person)({"command": "true"})
    assert person.asked == ["true"]


async def test_names_are_resolved_on_the_host(
    tmp_path: Path, policy: Policy, ssh_host: Callable[[str], Server]
) -> None:
    outside = tmp_path / "outside"
    outside.write_text("secret\n")
    workspace = tmp_path / "work space\n$(x)"
    workspace.mkdir()
    (workspace / "a").write_text("hi\n")
    (workspace / "link").symlink_to(outside)
    (tmp_path / "new").symlink_to("missing")  # a file would be made at the target of each link
    (tmp_path / "newer").symlink_to(workspace / ".." / "missing" / "more")
    (tmp_path / "circle").symlink_to("circle")
    (tmp_path / "up").symlink_to("missing/../other")
    open_to_all(tmp_path)
    person = Person(Refused("no"))
    async with Environment.detect(
        ssh_host("openssh as a user").options(), shell="bash", cwd=workspace, policy=policy
    ) as env:
        tool = ShellTool(env, approver=person)
        assert (await tool({"command": "cat a"})).details.status == "exited"
        assert (await tool({"command": "cat a missing/x"})).details.status == "exited"
        assert (await tool({"command": "cat link"})).details.status == "refused"
        assert (await tool({"command": "nosuch a"})).details.status == "refused"
        assert (await tool({"command": "cat [ab]"})).details.status == "exited"
        assert (await tool({"command": "cat l*"})).details.status == "refused"
        (workspace / "sub").mkdir()
        verdicts = Verdicts(policy, env)
        answers = await verdicts._ask(
            [
                ("home", ""),
                ("find", "cat"),
                ("find", "no-such-program"),
                ("find", "-v"),
                ("resolve", str(workspace / "link")),
                ("resolve", str(workspace / "no" / "such\n" / "x")),
                ("resolve", "/"),
                ("resolve", str(tmp_path / "new")),
                ("resolve", str(tmp_path / "newer" / "x")),
                ("resolve", str(tmp_path / "circle" / "x")),
                ("resolve", str(tmp_path / "up" / "x")),
                ("names", str(workspace)),
                ("names", str(workspace / "missing")),
            ]
        )
    assert person.asked == ["cat link", "nosuch a", "cat l*"]
    assert list(answers.values())[1:] == [
        answers["find", "cat"],
        "",
        "",
        str(outside),
        str(workspace / "no" / "such\n" / "x"),
        "/",
        str(tmp_path / "missing"),
        str(tmp_path / "missing" / "more" / "x"),
        None,
        None,
        ("a ", "link@", "sub/"),
        (),
    ]
    assert str(answers["find", "cat"]).endswith("/cat")


async def test_requests_of_a_job_are_asked_about(tmp_path: Path, policy: Policy) -> None:
    person = Person(Approved())
    async with Environment.detect(shell="bash", cwd=tmp_path, policy=policy) as env:
        tool = ShellTool(env, approver=person, jobs=True)
        started = await tool({"command": "cat", "run_in_background": True})
        assert person.asked == []
        await tool.job_tool({"action": "send", "job": started.details.job, "text": "x"})
        assert person.asked == ["cat"]


async def test_audit_has_one_id_for_a_call_from_request_to_end(tmp_path: Path, policy: Policy) -> None:
    audit = Audit(tmp_path / "audit")
    person = Person(Approved())
    async with Environment.detect(shell="bash", cwd=tmp_path, policy=policy, audit=audit) as env:
        tool = ShellTool(env, approver=person, jobs=True, session=True)
        for command in ("cat rules.toml", "rm notes", "touch b"):
            await tool({"command": command})
        started = await tool({"command": "cat", "run_in_background": True})
        sent = await tool.job_tool({"action": "send", "job": started.details.job, "text": "x", "enter": True})
        assert not sent.is_error, sent.text
        await tool.job_tool({"action": "stop", "job": started.details.job})
        await env.run("true")
    audit.close()
    told = [entry for entry in entries(tmp_path / "audit") if "request" in entry]
    texts = {entry["request"]: entry["command"] for entry in told if entry["event"] == "requested"}
    events = [
        (texts[entry["request"]], entry["event"], entry.get("action"), entry.get("by"), entry.get("rule"))
        for entry in told
    ]
    rules = tmp_path / "rules.toml"

    def went(text: str, by: str, rule: str | None) -> list[tuple[object, ...]]:
        return [
            (text, "requested", None, None, None),
            (text, "decided", "allow", by, rule),
            (text, "started", None, None, None),
            (text, "ended", None, None, None),
        ]

    assert events[:10] == [
        *went("cat rules.toml", "policy", f"{rules}:2: look"),
        ("rm notes", "requested", None, None, None),
        ("rm notes", "decided", "deny", "policy", f"{rules}:7: remove"),
        *went("touch b", "Person", None),
    ]
    assert [event for event in events if event[0] == "x\n"] == [
        ("x\n", "requested", None, None, None),
        ("x\n", "decided", "allow", "Person", None),
    ]
    assert [event[:2] for event in events if event[0] == "true"] == [
        ("true", "requested"),
        ("true", "started"),
        ("true", "ended"),
    ]


async def test_call_that_cannot_be_recorded_does_not_run(tmp_path: Path) -> None:
    (tmp_path / "audit").write_text("no directory")
    audit = Audit(tmp_path / "audit", required=True)
    async with Environment.detect(shell="bash", cwd=tmp_path, audit=audit) as env:
        result = await ShellTool(env, approver=approve_all)({"command": "touch b"})
    assert result.details.status == "refused"
    assert "audit" in result.text
    assert not (tmp_path / "b").exists()


async def test_policy_chooses_the_variables_of_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_TOKEN", "x")
    rules = tmp_path / "rules.toml"
    rules.write_text('preset = "workspace"\n[variables]\nset = { GIT_OPTIONAL_LOCKS = "0" }\n')
    command = 'echo "${SOME_TOKEN-none} ${GIT_OPTIONAL_LOCKS-none}"'
    for policy, expected in ((Policy.load(rules), "none 0\n"), (Policy.preset("workspace"), "x none\n")):
        async with Environment.detect(shell="bash", cwd=tmp_path, policy=policy) as env:
            assert (await env.run(command)).output.text == expected
    own = Variables(exclude=())
    async with Environment.detect(shell="bash", policy=Policy.load(rules), variables=own) as env:
        assert (await env.run(command)).output.text == "x none\n"


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        ("variables = 1", "variables"),
        ('variables = { inherit = "some" }', "inherit"),
        ("variables = { set = { A = 1 } }", "set must be a table of texts"),
        ('variables = { set = { "A=B" = "x" } }', "A="),
        ('variables = { exclude = "x" }', ""),
        ("variables = { hide = [] }", "the keys are inherit, exclude, set"),
    ],
)
def test_malformed_table_of_variables_names_its_fault(tmp_path: Path, table: str, complaint: str) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text(f"{table}\n")
    if not complaint:
        assert Policy.load(rules).variables == Variables(exclude=("x",))
        return
    with pytest.raises(PolicyError, match=f"rules.toml:1: .*{complaint}"):
        Policy.load(rules)
