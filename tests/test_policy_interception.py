"""Commands that another tool does better, and commands that no tool replaces."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from anyshell import Approved, Environment, ShellTool
from anyshell._exceptions import AnyshellError
from anyshell.policy.interception import DEFAULTS, Intercepted, InterceptionRule, intercept
from anyshell.policy.parse import Argument, Parsed, ParsedCommand, parse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from anyshell import ApprovalRequest

TOOLS = ("read", "grep", "glob", "edit", "write", "job")


def tool_for(text: str, tools: tuple[str, ...] = TOOLS) -> str | None:
    found = intercept(parse(text, "bash"), tools=tools)
    return None if found is None else found.tool


@pytest.mark.parametrize(
    ("tool", "texts"),
    [
        (
            "read",
            [
                *(
                    "cat a",
                    "head -n 5 a",
                    "tail -5 a",
                    "less a",
                    "more a",
                    "cat < a",
                    "/bin/cat a",
                    "cat a 2>/dev/null",
                ),
                *(
                    "A=1 cat a",
                    "cd x && cat a",
                    "echo hi; cat a",
                    "(cat a)",
                    "{ cat a; }",
                    "if true; then cat a; fi",
                ),
                *(
                    "cat a | wc -l",
                    "timeout 5 cat a",
                    "env A=1 cat a",
                    "time cat a",
                    "cat $f",
                    "true || cat a",
                ),
            ],
        ),
        (
            "grep",
            [
                "grep -rn foo .",
                "rg foo",
                "ag foo src",
                "ack foo",
                "cd src && grep foo *.py",
                "grep foo a | head",
            ],
        ),
        (
            "glob",
            [
                "find . -name '*.py'",
                "find . -type f",
                "find . -iname x",
                "fd foo",
                "fd -e py",
                "locate passwd",
            ],
        ),
        (
            "edit",
            [
                *(
                    "sed -i s/a/b/ f",
                    "sed -Ei.bak s/a/b/ f",
                    "sed -e s/a/b/ --in-place f",
                    "perl -pi -e s/a/b/ f",
                ),
                *(
                    "perl -i.bak -pe 1 f",
                    "awk -i inplace 1 f",
                    "sed -e 's/a/b\n/' -i f",
                    "gawk -i inplace 1 f",
                ),
            ],
        ),
        (
            "write",
            [
                *(
                    "echo a > f",
                    "echo a >> f",
                    "printf x > $f",
                    "printf x >| f",
                    "echo a 1> f",
                    "cat > f <<'X'\na\nX",
                ),
                *("cat <<X > f\n$(cat y)\nX", "cat <<< a > f", "for i in a; do echo x > $i; done"),
            ],
        ),
        (
            "job",
            [
                *(
                    "nohup make",
                    "nohup ./serve > log &",
                    "sleep 5 &",
                    "make && ./serve &",
                    "(sleep 5; ls) & ",
                ),
                *(
                    "npm run dev",
                    "yarn dev",
                    "pnpm start",
                    "bun run dev --port 3",
                    "vite",
                    "next dev",
                    "nodemon a.js",
                ),
                *(
                    "docker compose up",
                    "python3 -m http.server",
                    "flask run",
                    "tail -f log",
                    "tail -n 5 -F log",
                ),
                *(
                    "npm test -- --watch",
                    "vitest --watch",
                    "tsc -w",
                    "cargo watch -x test",
                    "cd web && npm run dev",
                ),
            ],
        ),
    ],
)
def test_a_command_that_a_tool_does_better_names_the_tool(tool: str, texts: list[str]) -> None:
    assert {text: tool_for(text) for text in texts} == dict.fromkeys(texts, tool)
    others = tuple(other for other in TOOLS if other != tool)
    assert not [text for text in texts if tool_for(text, others) == tool]


@pytest.mark.parametrize(
    "text",
    [
        *(
            "ls",
            "catalog x",
            "lessc a.less",
            "cat",
            "cat -",
            "git log | head -5",
            "ls | grep x",
            "make 2>&1 | tail -20",
            "git grep x",
            "git diff | less",
        ),
        *(
            "cat a > b",
            "cat a b >> c",
            "cat /dev/null",
            "echo a",
            "echo a > /dev/null",
            "echo a >&2",
            "echo 'a -> b'",
        ),
        *(
            "printf x 2> /dev/null",
            "sed -n 1p f",
            "sed s/i/j/ f",
            "perl -e 1",
            "awk '{print $1}' f",
            "find . -delete",
        ),
        *(
            'echo "$(cat a)"',
            "x=$(cat a)",
            "diff <(cat a) b",
            "bash <<'X'\ncat a\nX",
            "python3 <<X\ngrep x y\nX",
        ),
        *(
            "sudo cat a",
            "ssh h cat a",
            "xargs cat < f",
            "find . -exec cat {} +",
            "bash -c 'cat a'",
            "f() { cat a; }",
        ),
        *(
            "a & b & wait",
            "npm run build",
            "npm test",
            "vite build",
            "docker compose up -d",
            "tail -5 < /dev/stdin",
        ),
        *("git commit -m 'cat a'", "echo 'npm run dev'", "", "'", "# cat a"),
    ],
)
def test_commands_beyond_the_tools_are_not_intercepted(text: str) -> None:
    assert tool_for(text) is None


@pytest.mark.parametrize("shell", ["pwsh", "powershell"])
def test_powershell_text_is_not_intercepted(shell: Any) -> None:
    found = intercept(parse("echo hi", shell), tools=TOOLS)
    assert found is None


def test_result_has_message_tool_name_and_command() -> None:
    text = "cd x && cat a"
    assert intercept(parse(text, "bash"), tools=["Read", "Bash"]) == Intercepted(
        "Read files with `Read`.", "Read", text
    )
    assert intercept(parse(text, "bash"), tools=["Bash"]) is None
    assert intercept(parse(text, "bash"), tools=()) is None


def test_custom_rules_need_a_pattern_or_a_function() -> None:
    def is_piped_into(command: ParsedCommand, parsed: Parsed) -> bool:
        return command.background and parsed.shell == "bash"

    rules = [
        InterceptionRule("Use {tool} for pull requests.", "github", r"gh pr (?:view|list)(?: |$)"),
        InterceptionRule("No {tool}.", "github", when=is_piped_into),
    ]
    found = [
        intercept(parse(text, "bash"), tools=["github"], rules=rules)
        for text in ("gh pr list", "a &", "gh pr merge")
    ]
    assert [each and each.message for each in found] == [
        "Use `github` for pull requests.",
        "No `github`.",
        None,
    ]
    with pytest.raises(AnyshellError, match="pattern"):
        InterceptionRule("x", "y", "(")
    with pytest.raises(AnyshellError, match="about everything"):
        InterceptionRule("x", "y")


def test_default_rules_name_a_tool() -> None:
    assert {rule.tool for rule in DEFAULTS} == set(TOOLS)
    assert all("{tool}" in rule.message for rule in DEFAULTS)


def test_a_command_within_a_word_is_found_among_many() -> None:
    """All words are searched for inner commands once: comparing 10,000 commands with each word would take minutes."""
    words = tuple(Argument("x", literal=True, span=(0, 0)) for _ in range(4))

    def command(at: int) -> ParsedCommand:
        given = tuple(replace(word, span=(at + count, at + count + 1)) for count, word in enumerate(words, 2))
        return ParsedCommand("true", given, (), (), (), (at, at + 10))

    looked: list[int] = []
    inner = ParsedCommand("cat", (Argument("f", literal=True, span=(3, 4)),), (), (), (), (2, 3))
    commands = (*(command(at) for at in range(0, 100_000, 10)), inner)

    def look(each: ParsedCommand, parsed: Parsed) -> bool:
        looked.append(each.span[0])
        return False

    rule = InterceptionRule("x", "read", when=look)
    assert intercept(Parsed("x", "bash", commands, ()), tools=["read"], rules=[rule]) is None
    assert looked == [*range(0, 100_000, 10)]  # but not the command within a word


# Interception in the tool.

on_posix = pytest.mark.skipif(sys.platform == "win32", reason="the local backend's shell of POSIX")


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Environment]:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a").write_text("x\n")
    async with Environment.detect(cwd=tmp_path) as env:
        yield env


@on_posix
@pytest.mark.anyio
async def test_blocked_command_does_not_ask_and_does_not_run(here: Environment) -> None:
    asked = []

    def approver(request: ApprovalRequest) -> Approved:
        asked.append(request.text)
        return Approved()

    tool = ShellTool(here, approver=approver, tools=("read",), interception=True)
    result = await tool({"command": "cd sub && cat a"})
    assert (result.details.status, result.is_error, asked) == ("refused", True, [])
    assert result.message == "Not run. Read files with `read`."
    assert result.details.blocked is not None
    assert result.details.blocked.model_dump() == {
        "message": "Read files with `read`.",
        "tool": "read",
        "command": "cd sub && cat a",
    }
    result = await tool({"command": "cd sub && cat a > b; ls | grep b"})
    assert (result.output, result.details.blocked) == ("b\n", None)


@on_posix
@pytest.mark.anyio
async def test_interception_is_off_by_default_and_without_the_tool(here: Environment) -> None:
    for options in ({"tools": ("read",)}, {"interception": True}, {"interception": True, "tools": ("grep",)}):
        given: dict[str, Any] = options
        tool = ShellTool(here, approver=lambda request: Approved(), **given)
        assert (await tool({"command": "cat sub/a"})).output == "x\n"


@on_posix
@pytest.mark.anyio
async def test_command_started_as_a_job_is_not_intercepted(here: Environment) -> None:
    tool = ShellTool(here, approver=lambda request: Approved(), jobs=True, interception=True)
    blocked = await tool({"command": "sleep 0 &"})
    assert (
        blocked.message
        == "Not run. Start it with run_in_background, without &, and look after it with `job`."
    )
    started = await tool({"command": "sleep 0 &", "run_in_background": True})
    assert started.details.blocked is None
    assert started.details.status in ("exited", "running")


@on_posix
@pytest.mark.anyio
async def test_custom_rules_are_checked_at_tool_creation(here: Environment) -> None:
    rule = InterceptionRule("Do not list with {tool}.", "read", "ls")
    tool = ShellTool(here, approver=lambda request: Approved(), tools=("read",), interception=[rule])
    assert (await tool({"command": "ls"})).message == "Not run. Do not list with `read`."
    assert (await tool({"command": "cat sub/a"})).output == "x\n"
    bad: Any
    for bad in ("yes", 3, ["ls"]):
        with pytest.raises(AnyshellError, match="InterceptionRule"):
            ShellTool(here, approver=lambda request: Approved(), interception=bad)
