"""The commands that an answer grants beyond its own request, for how long, and how often the approver is asked."""

from __future__ import annotations

import asyncio
import contextlib
import posixpath
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from anyshell import ApprovalRequest, Approved, Environment, Policy, Refused, ShellTool, Terminal
from anyshell._exceptions import AnyshellError
from anyshell.abc import ShellInfo
from anyshell.policy import ask, covered, grants, label, yolo
from anyshell.policy.approval.arity import ARITY, words_of_name
from anyshell.policy.approval.grants import can_be_saved
from anyshell.policy.approval.saving import save
from anyshell.policy.rules import trust
from anyshell.policy.rules.loading import LARGEST_FILE
from anyshell.policy.rules.patterns import ANYTHING
from anyshell.tool import approvals
from anyshell.tool.approvals import Approvals
from anyshell.types import ApprovalQueue, CommandRequest, Grant, TerminalInputRequest

if TYPE_CHECKING:
    from anyshell.types import Verdict

POLICY = Policy.preset("ask-everything")
REQUEST = CommandRequest(text="", shell=ShellInfo("bash", "/bin/bash"), host="h", directory="/src")


class Facts:
    """A host with every program in /usr/bin, and no links."""

    home = "/home/user"

    def find(self, program: str) -> str | None:
        return f"/usr/bin/{program}"

    def resolve(self, path: str) -> str | None:
        return posixpath.normpath(path)

    def names(self, directory: str) -> tuple[str, ...]:
        return ANYTHING

    def git_runs(self, directory: str) -> tuple[str, ...] | None:
        return ()


def verdict_of(text: str, policy: Policy = POLICY) -> Verdict:
    return policy.decide(text, cwd="/src", facts=Facts())


def asked(text: str, **more: Any) -> CommandRequest:
    return replace(REQUEST, text=text, verdict=verdict_of(text), **more)


# Coverage of a grant.


@pytest.mark.parametrize(
    ("text", "granted"),
    [
        ("npm run test", ["npm run test … (writes /src)"]),
        ("npm run test -- --watch=false", ["npm run test … (writes /src)"]),
        ("git commit -m 'a b'", ["git commit … (writes /src)"]),
        ("ls -la", ["ls … (reads /src)"]),
        ("ls", ["ls … (reads /src)"]),
        ("rm -r build", ["rm … (deletes /src/build)"]),
        ("cp a b/", ["cp … (reads /src/a; writes /src/b)"]),
        ("touch 1 2 3 4 5 6 7", ["touch … (writes /src/1, /src/2, /src/3, /src/4, /src/5 and 2 more)"]),
        ("git push", ["git push"]),
        ("git push origin main", ["git push origin main"]),
        ("git fetch", ["git fetch"]),
        ("docker push here.example/x", ["docker push here.example/x"]),
        ("npm publish", ["npm publish"]),
        ("git commit -m https://here.example/x", ["git commit -m https://here.example/x"]),
        ("npm run deploy me@here:/srv", ["npm run deploy me@here:/srv"]),
        ("make", ["make"]),
        ("git -C /x push", ["git -C /x push"]),
        ("some-program a 'b c'", ["some-program a 'b c'"]),
        ("python3 -c 'print(1)'", ["python3 -c 'print(1)'"]),
        ("python3 -m pytest -q", ["python3 -m pytest … (writes /src)"]),
        ("npm install left-pad", ["npm install left-pad"]),
        ("docker run -it x", ["docker run -it x"]),
        ("npm run lint && git push", ["npm run lint … (writes /src)", "git push"]),
        ("git clean -fd", ["git clean -fd"]),
        ("A=1 npm run test x > 'o p' 2>&1", ["A=1 npm run test … > 'o p' (writes /src)"]),
        (
            "git commit -F msg <<'X' 2> err\nfix\nX",
            ["git commit … << … 2> err (reads /src/msg; writes /src)"],
        ),
        ("sudo ls", ["sudo ls", "ls … (reads /src; by sudo)"]),
        ("deploy 'a\u202eb' \"it's\"", [r"deploy 'a\u202eb' 'it\x27s'"]),
    ],
)
def test_a_grant_has_the_words_that_name_the_command(text: str, granted: list[str]) -> None:
    assert [label(grant) for grant in grants(verdict_of(text))] == granted


@pytest.mark.parametrize(
    ("words", "granted"),
    [
        (1, "git … (writes /src)"),
        (2, "git commit … (writes /src)"),
        (3, "git commit -m … (writes /src)"),
        (4, "git commit -m x … (writes /src)"),
        (5, "git commit -m x"),
    ],
)
def test_a_grant_can_be_wider_and_narrower_by_words(words: int, granted: str) -> None:
    assert [label(grant) for grant in grants(verdict_of("git commit -m x"), words=words)] == [granted]


UNDESCRIBED = [
    "npm run $TEST",
    "npm run test $(date)",
    "npm run test > $OUT",
    "git log | less",
    "echo x | python3 -",
    "cd sub && npm run test",
    "export A=1; npm run test",
    "A=1; npm run test",
    "npm() { evil; }; npm run test",
    "eval 'npm run test'",
    "npm run test; '",
    "$RUN test",
    "> out",
    "npm run test;" * 101,
]
"""Texts whose words do not describe all their effects."""


@pytest.mark.parametrize("text", UNDESCRIBED)
def test_commands_not_described_by_their_words_have_no_grants(text: str) -> None:
    verdict = verdict_of(text)
    assert verdict.action == "ask"
    assert grants(verdict) == ()
    assert not covered(verdict, grants(verdict_of("npm run test"), words=1))


@pytest.mark.parametrize(
    ("text", "later", "is_covered"),
    [
        ("npm run test", "npm run test -- --watch=false", True),
        ("npm run test", "npm run test 2>&1 > /dev/null", True),
        ("npm run test", "npm run build", False),
        ("npm run test", "npm  'run' te\\st x", True),
        ("npm run test", "./npm run test", False),
        ("npm run test", "npm run test > /src/out", False),
        ("npm run test > /src/out", "npm run test > /src/out", True),
        ("npm run test > /src/out", "npm run test >> /src/out", False),
        ("npm run test > /src/out", "npm run test", True),
        ("npm run test", "npm run test < in", False),
        ("npm run test", "npm run test <<< x", False),
        ("npm run test", "A=1 npm run test", False),
        ("A=1 npm run test", "A=2 npm run test", False),
        ("A=1 npm run test", "A=1 npm run test x", True),
        ("DRY_RUN=1 npm run deploy", "npm run deploy", False),
        ("npm run test", "npm run test x &", False),
        ("npm run test", "echo x | npm run test", False),
        ("npm run test", "sudo npm run test", False),
        ("npm run test", "ssh host npm run test", False),
        ("npm run test", "npm run test; git push", False),
        ("git push", "git push", True),
        ("git push", "git push origin", False),
        ("git push origin main", "git push origin main", True),
        ("git push origin main", "git push origin main --force", False),
        ("git push origin main", "git push elsewhere main", False),
        ("git push http://here.example/x", "git push http://here.example/x main", False),
        ("npm run test; git push", "git push; npm run test; git push", True),
        ("npm run test", "(npm run test)", True),
        ("npm run test", "npm run test $(date)", False),
        ("npm run test", "cd /; npm run test", False),
        ("make", "make install", False),
        ("make", "make", True),
        ("cat /etc/hosts", "cat -- /etc/../etc/hosts", True),
        ("cat /etc/hosts", "cat /etc/hosts /etc/passwd", False),
        ("ls /etc", "ls /etc/ssh", True),
        ("ls /etc", "ls /etcetera", False),
        ("rm -r build", "rm -r build/lib", True),
        ("rm -r build", "rm -r src", False),
        ("rm -r build", "rm -r build/../src", False),
        ("cp a b", "cp a c", False),
        ("cat a", "cat a > b", False),
        ("sudo ls", "sudo ls", True),
        ("sudo ls", "ls", False),
    ],
)
def test_grant_covers_commands_that_do_no_more(text: str, later: str, *, is_covered: bool) -> None:
    given = grants(verdict_of(text))
    assert given
    assert covered(verdict_of(later), given) is is_covered


@pytest.mark.parametrize(
    ("text", "words", "later", "is_covered"),
    [
        ("git push origin main", 3, "git push origin next", True),
        ("git push origin main", 3, "git push elsewhere main", False),
        ("git push", 2, "git push origin", True),
        ("git push", 2, "git push --mirror http://elsewhere.example/x", False),
        ("git push origin", 2, "git push me@elsewhere:x", False),
        ("git push http://here.example/x", 2, "git push http://here.example/x main", True),
    ],
)
def test_only_fewer_words_widen_a_grant_to_other_hosts(
    text: str, words: int, later: str, *, is_covered: bool
) -> None:
    assert covered(verdict_of(later), grants(verdict_of(text), words=words)) is is_covered


def test_grant_does_not_cover_denied_or_allowed_commands() -> None:
    given = grants(verdict_of("rm -r build"), words=1)
    rules = '[[deny]]\nname = "no"\nprogram = "rm"\n[[allow]]\nname = "yes"\ncommand = "ls"\n'
    policy = POLICY.extended(rules, "own")
    assert verdict_of("rm -r build", policy).action == "deny"
    assert not covered(verdict_of("rm -r build", policy), given)
    assert not covered(verdict_of("ls", policy), given)
    assert not grants(verdict_of("ls", policy))
    assert not covered(None, given)
    assert grants(None) == ()


def test_grant_does_not_cover_another_rule_that_asks() -> None:
    policy = POLICY.extended('[[ask]]\nname = "force"\ncommand = "git push --force"\n', "own")
    given = grants(verdict_of("git push", policy), words=2)
    assert covered(verdict_of("git push origin", policy), given)
    assert not covered(verdict_of("git push --force", policy), given)


def test_table_of_word_counts_is_valid() -> None:
    assert len({words[0] for words in ARITY}) >= 80
    for words, count in ARITY.items():
        assert 1 <= len(words) <= 2
        assert count == 0 or count >= len(words)
    assert words_of_name(("npm", "run", "test", "x")) == 3
    assert words_of_name(("npm", "-g", "run")) == 0
    assert words_of_name(("npm", "run")) == 0
    assert words_of_name(("unheard-of", "x")) == 0


# Contents of an answer.


def test_always_true_means_session_scope() -> None:
    assert Approved(always=True) == Approved(True) == Approved(scope="session")
    assert Approved(scope="session").always
    assert Approved(scope="always").always
    assert not Approved().always
    assert Approved() == Approved(scope="once")


@pytest.mark.anyio
@pytest.mark.parametrize(
    "made",
    [
        {"scope": "forever"},
        {"scope": None},
        {"scope": "session", "grants": "npm"},
        {"scope": "session", "grants": ("npm",)},
        {"scope": "always", "grants": None},
    ],
)
async def test_malformed_scope_or_grants_approve_once(made: dict[str, Any]) -> None:
    async def approver(request: ApprovalRequest) -> Approved:
        return Approved(**made)

    assert await ask(approver, REQUEST, timeout=20) == Approved()


@pytest.mark.anyio
async def test_an_approver_may_be_a_plain_function() -> None:
    assert await ask(lambda request: Approved(), REQUEST, timeout=20) == Approved()
    assert await ask(lambda request: Refused("no"), REQUEST, timeout=20) == Refused("no")
    assert await ask(yolo, REQUEST, timeout=20) == Approved()


@pytest.mark.parametrize("approver", [None, "yes", True])
def test_approver_must_be_a_function(approver: Any) -> None:
    with pytest.raises(AnyshellError, match="approver must be a function"):
        Approvals(approver, timeout=20)


# The number and order of questions.


class Person:
    """An approver that answers when the test tells it to."""

    def __init__(self) -> None:
        self.requests: list[ApprovalRequest] = []
        self.answers: list[asyncio.Future[Approved | Refused]] = []
        self.changed = asyncio.Event()

    async def __call__(self, request: ApprovalRequest, /) -> Approved | Refused:
        self.requests.append(request)
        self.answers.append(asyncio.get_running_loop().create_future())
        self.changed.set()
        return await self.answers[-1]

    async def asked(self, count: int) -> None:
        """Wait for the given number of questions, and see that no more have come after every task has had its turn."""
        async with asyncio.timeout(20):
            while len(self.requests) < count:
                self.changed.clear()
                await self.changed.wait()
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(self.requests) == count


def start(approvals: Approvals, *requests: ApprovalRequest) -> list[asyncio.Task[Approved | Refused]]:
    return [asyncio.ensure_future(approvals.ask(request)) for request in requests]


def granting() -> tuple[Approvals, list[str]]:
    """An approver that grants each command for the session, and the texts of its questions."""
    texts: list[str] = []

    def approver(request: ApprovalRequest) -> Approved:
        assert isinstance(request, CommandRequest)
        texts.append(request.text)
        return Approved(scope="session", grants=grants(request.verdict))

    return Approvals(approver, timeout=20), texts


@pytest.mark.anyio
async def test_commands_granted_for_a_session_are_not_asked_about_again() -> None:
    tool, texts = granting()
    for text in (
        "npm run test",
        "npm run test x",
        "git push",
        "npm run test && git push",
        "npm run build",
    ):
        assert isinstance(await tool.ask(asked(text)), Approved)
    assert texts == ["npm run test", "git push", "npm run build"]


@pytest.mark.anyio
@pytest.mark.parametrize("text", UNDESCRIBED)
async def test_commands_not_described_by_their_words_are_granted_only_identically(text: str) -> None:
    tool, texts = granting()
    for each in (text, text, f"{text} x", "npm run test", text):
        assert isinstance(await tool.ask(asked(each)), Approved)
    assert texts == [text, f"{text} x", "npm run test"]


@pytest.mark.anyio
@pytest.mark.parametrize(
    "other",
    [
        {"directory": "/elsewhere"},
        {"env": (("NODE_OPTIONS", "--require /tmp/x"),)},
        {"stdin": b"x"},
        {"host": "other"},
        {"shell": ShellInfo("zsh", "/bin/zsh")},
        {"prefix": "sudo"},
        {"snapshot": "/s"},
        {"background": True},
        {"size": Terminal()},
        {"session": True, "restart": True},
    ],
)
async def test_grant_holds_only_in_its_original_context(other: dict[str, Any]) -> None:
    count = 0

    def approver(request: ApprovalRequest) -> Approved:
        nonlocal count
        count += 1
        assert isinstance(request, CommandRequest)
        return Approved(scope="session", grants=grants(request.verdict))

    tool = Approvals(approver, timeout=20)
    await tool.ask(asked("npm run test"))
    await tool.ask(
        asked("npm run test x", timeout=5.0, env=(("OLDPWD", "/"),), original="cd /src && npm run test x")
    )
    assert count == 1
    await tool.ask(asked("npm run test x", **other))
    assert count == 2


@pytest.mark.anyio
@pytest.mark.parametrize("answer", [Approved(), Approved(scope="session"), Refused("no")])
async def test_identical_concurrent_calls_are_asked_about_once(answer: Approved | Refused) -> None:
    person = Person()
    tool = Approvals(person, timeout=20)
    tasks = start(tool, *[asked("make")] * 3)
    await person.asked(1)
    person.answers[0].set_result(answer)
    given = await asyncio.gather(*tasks)
    assert [type(each) for each in given] == [type(answer)] * 3
    await person.asked(1)
    (later,) = start(tool, asked("make"))
    await person.asked(1 if isinstance(answer, Approved) and answer.always else 2)
    later.cancel()


@pytest.mark.anyio
async def test_concurrent_calls_covered_by_a_grant_wait_for_its_answer() -> None:
    person = Person()
    tool = Approvals(person, timeout=20)
    tasks = start(tool, asked("npm run test a"), asked("npm run test b"), asked("npm run build"))
    await person.asked(2)
    assert [request.text for request in person.requests] == ["npm run test a", "npm run build"]
    person.answers[0].set_result(Approved(scope="session", grants=grants(verdict_of("npm run test a"))))
    assert isinstance(await tasks[1], Approved)
    await person.asked(2)
    tasks[2].cancel()


@pytest.mark.anyio
@pytest.mark.parametrize("answer", [Approved(), Refused("not this")])
async def test_answer_to_one_call_alone_leaves_the_others_asking(answer: Approved | Refused) -> None:
    person = Person()
    tasks = start(Approvals(person, timeout=20), asked("npm run test a"), asked("npm run test b"))
    await person.asked(1)
    person.answers[0].set_result(answer)
    assert await tasks[0] == answer
    await person.asked(2)
    person.answers[1].set_result(Refused("nor that"))
    assert await tasks[1] == Refused("nor that")


@pytest.mark.anyio
async def test_call_waiting_for_a_cancelled_question_asks_anew() -> None:
    person = Person()
    first, second = start(Approvals(person, timeout=20), asked("make"), asked("make"))
    await person.asked(1)
    first.cancel()
    await person.asked(2)
    assert person.answers[0].cancelled()
    person.answers[1].set_result(Approved())
    assert await second == Approved()


@pytest.mark.anyio
async def test_an_answer_after_a_cancellation_grants_nothing() -> None:
    begun = asyncio.Event()

    async def stubborn(request: ApprovalRequest) -> Approved:
        begun.set()
        with contextlib.suppress(asyncio.CancelledError):  # the task ignores its cancellation
            await asyncio.Event().wait()
        return Approved(scope="session")

    tool = Approvals(stubborn, timeout=20)
    (first,) = start(tool, asked("make"))
    await begun.wait()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert not tool._granted(asked("make"), approvals.key_of(asked("make")))


@pytest.mark.anyio
async def test_texts_for_one_terminal_do_not_share_an_answer() -> None:
    person = Person()
    typed = TerminalInputRequest(
        text="sh", shell=REQUEST.shell, host="h", directory="/", terminal="t1", typed="ls"
    )
    tasks = start(Approvals(person, timeout=20), typed, replace(typed, typed="rm -r ."))
    await person.asked(2)
    person.answers[0].set_result(Approved())
    assert await tasks[0] == Approved()
    person.answers[1].set_result(Refused())
    assert await tasks[1] == Refused()


@pytest.mark.anyio
async def test_questions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(approvals, "QUESTIONS", 2)
    person = Person()
    tool = Approvals(person, timeout=20)
    tasks = start(tool, asked("make a"), asked("make b"))
    await person.asked(2)
    assert await tool.ask(asked("make c")) == Refused(
        "2 questions wait for an answer already", by="unanswered"
    )
    for task in tasks:
        task.cancel()


@pytest.mark.anyio
async def test_grants_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(approvals, "REMEMBERED", 2)
    texts: list[str] = []

    def approver(request: ApprovalRequest) -> Approved:
        assert isinstance(request, CommandRequest)
        texts.append(request.text)
        return Approved(scope="session", grants=grants(request.verdict))

    tool = Approvals(approver, timeout=20)
    for target in ("a", "b", "c", "a"):
        await tool.ask(asked(f"make {target}"))
        await tool.ask(asked(f"make {target} x"))
    assert texts == ["make a", "make b", "make c", "make a"]


@pytest.mark.anyio
@pytest.mark.skipif(sys.platform == "win32", reason="the local backend's shell of POSIX")
async def test_approver_sees_the_calling_tool_and_its_arguments() -> None:
    requests: list[ApprovalRequest] = []

    def approver(request: ApprovalRequest) -> Refused:
        requests.append(request)
        return Refused()

    async with Environment.detect() as env:
        tool = ShellTool(env, approver=approver)
        await tool({"command": "true", "timeout": 5}, call_id="c7")
    (request,) = requests
    assert (request.call_id, request.tool) == ("c7", "shell")
    assert request.arguments == {"command": "true", "timeout": 5}
    assert replace(request, tool="", arguments={}) == request
    assert "arguments" not in repr(request)


@pytest.mark.anyio
@pytest.mark.parametrize("session", [False, True])
@pytest.mark.skipif(sys.platform == "win32", reason="the local backend's shell of POSIX")
async def test_a_tool_with_a_policy_asks_once_about_a_kind_of_command(
    tmp_path: Path, *, session: bool
) -> None:
    (tmp_path / "sub").mkdir()
    texts: list[str] = []

    def approver(request: ApprovalRequest) -> Approved:
        assert isinstance(request, CommandRequest)
        texts.append(request.text)
        return Approved(scope="session", grants=grants(request.verdict))

    async with Environment.detect(cwd=tmp_path) as env:
        tool = ShellTool(env, approver=approver, policy=POLICY, session=session)
        for text in (
            "echo a",
            "echo b",
            "echo c && echo d 2>&1",
            "echo e > f",
            "echo f > f",
            "cd sub && echo g",
        ):
            assert (await tool({"command": text})).details.exit_code == 0
    assert texts == ["echo a", "echo e > f", "cd sub && echo g" if session else "echo g"]


# Saved grants.


def grant_of(text: str, **how: Any) -> Grant:
    (grant,) = grants(verdict_of(text), **how)
    return grant


def test_a_grant_for_always_is_a_rule_that_holds(tmp_path: Path) -> None:
    file = tmp_path / "new" / "policy.toml"
    save([grant_of("npm run test x")], file)
    save(
        [grant_of("rm -r build"), grant_of("make"), grant_of("npm run test y")], file
    )  # the last rule exists already
    policy = Policy.load(file, preset="ask-everything")
    for text, action in (
        ("npm run test z", "allow"),
        ("npm run build", "ask"),
        ("make", "allow"),
        ("make install", "ask"),
        ("rm -r build/lib", "allow"),
        ("rm -r src", "ask"),
        ("npm run test > /elsewhere/out", "ask"),
    ):
        assert verdict_of(text, policy).action == action, text
    text = file.read_text()
    assert next(line for line in text.splitlines() if "when asked about: npm run test x" in line).startswith(
        "# 20"
    )
    names = [rule["name"] for rule in tomllib.loads(text)["allow"]]
    assert names == ["npm-run-test-1", "rm-1", "make-1"]


@pytest.mark.parametrize(
    "text",
    ["python3", "kubectl get pods", "git push origin main", "gh pr view 1", "rm -r build", "terraform apply"],
)
def test_command_with_a_saved_grant_is_allowed(text: str, tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    given = grants(verdict_of(text))
    assert all(map(can_be_saved, given))
    save(given, file)
    assert verdict_of(text, Policy.load(file, preset="ask-everything")).action == "allow"


def test_grant_for_fewer_words_of_kubectl_cannot_be_saved() -> None:
    assert can_be_saved(grant_of("kubectl get pods"))
    assert not can_be_saved(grant_of("kubectl get pods", words=2))


@pytest.mark.parametrize(
    "text",
    [
        "echo 'import evil' | python3",
        "python3 < evil.py",
        "python3 0< evil.py",
        "python3 <<< 'import evil'",
        "python3 <<E\nimport evil\nE",
        "{ python3; } < evil.py",
        "echo evil.py | while read -r x; do python3; done",
        "exec < evil.py; python3",
        "f() { python3; }; echo 'import evil' | f",
        "MODE=evil python3",
        "export MODE=evil; python3",
        "python3 &",
        "cd / && python3",
        "nice python3",
    ],
)
def test_saved_rule_excludes_unshown_input_and_variables(text: str, tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    save([grant_of("python3")], file)
    rules = '[[allow]]\nname = "others"\nreads = "anywhere"\n[[allow]]\nname = "b"\nprogram = ["echo", "read", "nice"]\n'
    policy = Policy.load(file, preset="ask-everything").extended(rules, "others")
    assert verdict_of("python3 < /dev/null", policy).action == "allow"
    assert verdict_of("python3; echo x 2>&1", policy).action == "allow"
    assert verdict_of(text, policy).action == "ask"
    assert policy.decide("python3", cwd="/src", facts=Facts(), given=True).action == "ask"


@pytest.mark.anyio
@pytest.mark.skipif(sys.platform == "win32", reason="the local backend's shell of POSIX")
async def test_always_answer_does_not_cover_other_input(tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    file.write_text("")
    texts: list[str] = []

    def approver(request: ApprovalRequest) -> Approved:
        assert isinstance(request, CommandRequest)
        texts.append(request.text)
        return Approved(scope="always", grants=grants(request.verdict))

    calls: tuple[dict[str, object], ...] = (
        {"command": "make", "stdin": "x"},
        {"command": "make"},
        {"command": "make", "stdin": "y"},
        {"command": "make", "env": {"MODE": "x"}},
        {"command": "make"},
    )
    saved = []
    for call in calls:
        policy = Policy.load(file, preset="ask-everything")
        async with Environment.detect(cwd=tmp_path, policy=policy) as env:
            await ShellTool(env, approver=approver)(call)
        saved.append(file.read_text().count("[[allow]]"))
    assert texts == ["make"] * 4
    assert saved == [0, 1, 1, 1, 1]


def test_answer_for_always_holds_in_the_next_policy_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANYSHELL_CONFIG_DIR", str(tmp_path / "configuration"))
    first = Policy.load(preset="ask-everything")
    assert verdict_of("make", first).action == "ask"
    save([grant_of("make")], Path(first.file))
    assert verdict_of("make", Policy.load(preset="ask-everything")).action == "allow"
    assert verdict_of("make", Policy.load()).action == "allow"
    preset = Policy.preset("ask-everything")
    assert (verdict_of("make", preset).action, preset.file) == ("ask", "")
    own = tmp_path / "own.toml"
    own.write_text("")
    assert Policy.load(own).file == str(own)
    assert verdict_of("make", Policy.load(own)).action == "ask"


def test_administrator_rules_apply_to_every_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "policy.toml"
    file.write_text('[[deny]]\nname = "no-make"\nprogram = "make"\n')
    monkeypatch.setattr(trust, "_ADMINISTRATOR", (tmp_path / "none", file))
    for policy in (Policy.preset("trusted"), Policy.load(preset="trusted")):
        assert verdict_of("make", policy).action == "deny"
    monkeypatch.setattr(trust, "_ADMINISTRATOR", (tmp_path / "none",))
    assert verdict_of("make", Policy.preset("trusted")).action == "allow"


def test_file_program_is_granted_with_its_original_files(tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    save([grant_of("rm -f"), grant_of("cat /etc/hosts")], file)
    policy = Policy.load(file, preset="ask-everything")
    actions = {text: verdict_of(text, policy).action for text in ("rm -f", "rm a", "cat /etc/hosts", "cat a")}
    assert actions == {"rm -f": "allow", "rm a": "ask", "cat /etc/hosts": "allow", "cat a": "ask"}


@pytest.mark.skipif(sys.platform == "win32", reason="modes of POSIX")
def test_rule_file_is_private_and_stays_a_link(tmp_path: Path) -> None:
    file, link = tmp_path / "dotfiles.toml", tmp_path / "policy.toml"
    file.write_text("# mine\n")
    link.symlink_to(file)
    save([grant_of("make")], link)
    assert link.is_symlink()
    assert file.read_text().startswith("# mine\n")
    assert file.stat().st_mode & 0o777 == 0o600
    assert sorted(each.name for each in tmp_path.iterdir()) == ["dotfiles.toml", "policy.toml"]


@pytest.mark.parametrize("before", ["[[allow", "allow = 3\n", "[allow]\nx = 1\n"])
def test_malformed_rule_file_is_not_changed(before: str, tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    file.write_text(before)
    with pytest.raises(AnyshellError, match="no rule was added"):
        save([grant_of("make")], file)
    assert file.read_text() == before


def test_concurrent_grants_are_all_written(tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    given = [grant_of(f"deploy{number} a") for number in range(20)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda grant: save([grant], file), given))
    assert len(tomllib.loads(file.read_text())["allow"]) == 20


def test_no_rule_makes_a_file_too_large_to_be_loaded(tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    file.write_text("#" * (LARGEST_FILE - 10))
    with pytest.raises(AnyshellError, match="too large"):
        save([grant_of("make")], file)
    Policy.load(file)


@pytest.mark.parametrize(
    "text",
    [
        "deploy 'a b'",
        "deploy '*'",
        "A=1 make",
        "make > out",
        "./deploy",
        "rm 'a*'",
        "deploy ''",
        "deploy é",
    ],
)
def test_grants_without_a_possible_rule_are_not_written(text: str, tmp_path: Path) -> None:
    given = grants(verdict_of(text))
    assert given
    assert not all(map(can_be_saved, given))
    with pytest.raises(AnyshellError, match="cannot be a rule"):
        save(given, tmp_path / "policy.toml")
    assert not [*tmp_path.iterdir()]


@pytest.mark.anyio
async def test_unwritable_grant_holds_for_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "policy.toml"
    count = 0

    def approver(request: ApprovalRequest) -> Approved:
        nonlocal count
        count += 1
        assert isinstance(request, CommandRequest)
        return Approved(scope="always", grants=grants(request.verdict))

    tool = Approvals(approver, timeout=20)
    await tool.ask(asked("make b"))  # no file of rules is loaded: a written rule would never hold
    assert not file.exists()
    await tool.ask(replace(asked("make a"), rules=str(file)))
    assert 'command = "make a"' in file.read_text()
    assert not caplog.records
    for text in ("deploy 'a b'", "deploy 'a b'"):
        assert await tool.ask(replace(asked(text), rules=str(file))) in (
            Approved(),
            Approved(scope="always", grants=grants(verdict_of(text))),
        )
    assert count == 3
    assert "holds for this session alone" in caplog.text


# A queue.


@pytest.mark.anyio
async def test_a_queue_gives_questions_in_order_and_takes_their_answers() -> None:
    queue = ApprovalQueue()
    tasks = start(Approvals(queue, timeout=20), *[asked(f"make {target}") for target in "abc"])
    seen = []
    async for question in queue:
        assert question.open
        seen.append(question.request.text)
        assert question.answer(Approved() if seen[-1] == "make b" else Refused(seen[-1]))
        assert not question.answer(Approved())
        if len(seen) == 3:
            break
    assert seen == ["make a", "make b", "make c"]
    assert await asyncio.gather(*tasks) == [Refused("make a"), Approved(), Refused("make c")]


@pytest.mark.anyio
async def test_a_queue_is_bounded() -> None:
    queue = ApprovalQueue(limit=1)
    tool = Approvals(queue, timeout=20)
    (first,) = start(tool, asked("make a"))
    question = await anext(queue)
    refused = await tool.ask(asked("make b"))
    assert refused == Refused("approval cannot be asked for: 1 questions wait already", by="unanswered")
    question.answer(Approved())
    assert await first == Approved()
    with pytest.raises(AnyshellError, match="limit"):
        ApprovalQueue(limit=0)


@pytest.mark.anyio
async def test_cancelled_call_closes_its_question() -> None:
    queue = ApprovalQueue(limit=2)
    tool = Approvals(queue, timeout=20)
    (first,) = start(tool, asked("make a"))
    given = await anext(queue)
    (second,) = start(tool, asked("make b"))
    for _ in range(20):
        await asyncio.sleep(0)  # the question is queued as well
    for task in (first, second):
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert not given.open
    assert not given.answer(Approved(scope="session"))
    (third,) = start(tool, asked("make c"))
    assert (await anext(queue)).request.text == "make c"
    third.cancel()


@pytest.mark.anyio
async def test_a_closed_queue_refuses_and_its_iteration_ends() -> None:
    queue = ApprovalQueue()
    tool = Approvals(queue, timeout=20)
    first, second = start(tool, asked("make a"), asked("make b"))
    given = await anext(queue)
    for _ in range(20):
        await asyncio.sleep(0)  # the second question is queued as well
    queue.close()
    rest = [question async for question in queue]
    assert [question.request.text for question in (given, *rest)] == ["make a", "make b"]
    assert all(question.answer(Approved()) for question in (given, *rest))
    assert [await first, await second] == [Approved(), Approved()]
    assert await tool.ask(asked("make c")) == Refused(
        "approval cannot be asked for: the queue is closed", by="unanswered"
    )


@pytest.mark.anyio
async def test_queued_question_is_closed_after_its_timeout() -> None:
    queue = ApprovalQueue()
    answer = await Approvals(queue, timeout=0.05).ask(asked("make a"))
    assert answer == Refused("no answer within 0.05 s", by="unanswered")
    (task,) = start(Approvals(queue, timeout=20), asked("make b"))
    assert (await anext(queue)).request.text == "make b"
    task.cancel()
