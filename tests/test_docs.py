"""The pages are true: their code runs, their links have targets, their lists are complete.

The code of a page runs from top to bottom, in one temporary directory:

- A ``python`` block is a separate program. The program is saved under the name in its first comment
  (``# first.py``), so that a later block or command can use that name only. The command ``python first.py`` runs the
  program, if the page has this command; otherwise the program runs at once. A warning is an error. pytest runs all
  programs whose names begin with ``test_``, at the end of the page.
- A ``console`` block has commands, after ``$``, and their output. In the output, ``…`` stands for any text on its
  line, and alone on a line for any lines. The console blocks of the README install, so a fresh clone tests them.
- A ``powershell`` block is the same for PowerShell, after ``PS>``, each command in a fresh PowerShell. For a page with
  such a block, or with ``pwsh`` in a block, PowerShell is on PATH: on Linux, the PowerShell of the tests.
"""

from __future__ import annotations

import ast
import inspect
import os
import re
import subprocess
import sys
from dataclasses import fields, is_dataclass, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest

import anyshell
import anyshell.abc
import anyshell.console
import anyshell.rendering
import anyshell.testing
import anyshell.tool
from anyshell._runner.variables import (
    ASK_FOR_UTF8,
    HANG_GUARDS,
    NON_INTERACTIVE,
    OF_ANOTHER_TERMINAL,
    REMOVED,
)
from anyshell.cli import main
from anyshell.tool.unconfined import NO_SANDBOX

from . import limits
from .conftest import bubblewrap, framework
from .limits import Bound

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .wine.windows import Windows

TOP = Path(__file__).parents[1]
DOCS = TOP / "docs"
PAGES = [*sorted(TOP.glob("*.md")), *sorted(DOCS.rglob("*.md"))]
ON_RAY = DOCS / "how-to" / "run-on-a-ray-cluster.md"
"""The page that test_ray runs, on its own cluster."""

WITH_CODE = [
    TOP / "README.md",
    DOCS / "tutorial.md",
    *sorted(page for page in (DOCS / "how-to").glob("*.md") if page != ON_RAY),
]

APART = {"use-it-in-strands-agents.md": "strands", "use-it-in-inspect.md": "inspect_ai"}
"""Pages whose framework cannot be installed beside the other frameworks, and is tested in a separate environment of tox."""

STRICT = ["-W", "error", "-W", "ignore:Unclosed <MemoryObject:ResourceWarning"]
"""Options of Python for the code of a page. Inspect leaves its own streams unclosed, with any sandbox."""

LATER = {"use-it-in-harbor.md": "harbor", "use-it-in-kimi-cli.md": "kaos"}
"""Pages whose code is for a framework that needs Python 3.12."""

ASPECTS = [
    "run",
    "stream",
    "cancel",
    "timeout",
    "background child",
    "approval",
    "artifact",
    "session",
    "files",
    "SSH",
]
"""The rows of the tables on the page of doors."""

SHOWN_BY = {
    "cancel": r"cancel|abort|interrupt|\.kill\(",
    "timeout": r"timeout|timed_out|\.kill\(",
    "background child": r" & |&\"|background|setsid",
    "approval": r"approv",
    "artifact": r"artifact|\.out\b",
    "session": r"session|restart",
    "files": r"file|upload|write|self_check",
}
"""Text that a test of each row has to contain."""

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# (\w+\.(?:py|toml))\n")
_PROGRAM = re.compile(r"python (\w+\.py)")
_SPAN = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^(#+) (.*)$", re.MULTILINE)


def name_of(path: Path) -> str:
    return path.relative_to(TOP).as_posix()


def without_code(text: str) -> str:
    return _BLOCK.sub("", text)


def sections(path: Path) -> dict[str, str]:
    """The text below each heading of a page, up to the next heading of any level."""
    text = path.read_text()
    found = list(_HEADING.finditer(_BLOCK.sub(lambda block: re.sub(r"\S", " ", block[0]), text)))
    ends = [match.start() for match in found[1:]] + [len(text)]
    return {match[2]: text[match.end() : end] for match, end in zip(found, ends, strict=True)}


# --- code -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", WITH_CODE, ids=name_of)
def test_code_of_a_page_works_as_shown(
    page: Path, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    if page.name in APART:
        framework(APART[page.name], apart=True)
    if page.name in LATER:
        framework(LATER[page.name], python=(3, 12))
    blocks = _BLOCK.findall(page.read_text())
    if any(language == "powershell" or (language and "pwsh" in text) for language, text in blocks):
        made: Windows = request.getfixturevalue("powershell")
        monkeypatch.setenv("PATH", f"{made.pwsh.parent}{os.pathsep}{os.environ['PATH']}")
    if any(language == "python" and "reach=" in text for language, text in blocks):
        bubblewrap()
    shown = {
        command
        for language, text in blocks
        if language == "console"
        for command, _ in commands(text, "$ ")
        if _PROGRAM.fullmatch(command)
    }
    tests: list[str] = []
    for count, (language, text) in enumerate(blocks, 1):
        if language == "python":
            named = _FILE.match(text)
            file = tmp_path / (named[1] if named else f"block_{count}.py")
            assert not file.exists(), f"{file.name} is there twice"
            file.write_text(text)
            if file.name.startswith("test_"):
                tests.append(file.name)
            elif f"python {file.name}" not in shown:
                status, printed = run([sys.executable, *STRICT, file.name], tmp_path)
                assert status == 0, f"{file.name}:\n{printed}"
        elif language == "toml" and (named := _FILE.match(text)):
            (tmp_path / named[1]).write_text(text)
        elif language == "console" and page.name != "README.md":
            for command, expected in commands(text, "$ "):
                program = _PROGRAM.fullmatch(command)
                argv = [sys.executable, *STRICT, program[1]] if program else ["sh", "-c", command]
                status, printed = run(argv, tmp_path)
                assert status == 0 or not program, f"{command}:\n{printed}"
                assert is_like(printed, expected), f"$ {command}\n{printed}\ninstead of\n{expected}"
        elif language == "powershell":
            for command, expected in commands(text, "PS> "):
                outcome = anyshell.run(command, shell="pwsh", cwd=tmp_path, timeout=40)
                assert is_like(outcome.output.text, expected), (
                    f"PS> {command}\n{outcome}\ninstead of\n{expected}"
                )
    if tests:
        status, printed = run([sys.executable, "-m", "pytest", "-q", "--rootdir=.", *tests], tmp_path)
        assert status == 0, printed


@pytest.mark.anyio
async def test_approver_of_the_guide_distinguishes_commands_from_input() -> None:
    async def asked(request: anyshell.ApprovalRequest) -> anyshell.Refused:
        return anyshell.Refused("asked")

    page = DOCS / "how-to" / "decide-what-may-run.md"
    made: dict[str, Any] = {}
    exec(_BLOCK.findall(page.read_text())[0][1].partition("async def main")[0], made)
    made["ask_on_terminal"] = asked
    shell = anyshell.abc.ShellInfo("bash", "/bin/bash")
    runs: dict[str, Any] = {"text": "git diff", "shell": shell, "host": "h", "directory": "/tmp"}
    starts = anyshell.types.CommandRequest(**runs)
    assert await made["approver"](starts) == anyshell.Approved()
    for request in (
        replace(starts, stdin=b"rm"),
        anyshell.types.JobInputRequest(**runs, job="j1", stdin=b"rm"),
        anyshell.types.TerminalInputRequest(**runs, terminal="t1", typed="!rm -r ."),
        anyshell.types.SecretInputRequest(**runs, terminal="t1"),
    ):
        assert await made["approver"](request) == anyshell.Refused("asked")


def commands(block: str, prompt: str) -> Iterator[tuple[str, str]]:
    """The commands of a ``console`` block, each with the output on the page."""
    for part in re.split(f"^{re.escape(prompt)}", block, flags=re.MULTILINE)[1:]:
        command, _, printed = part.partition("\n")
        yield command, printed


def run(argv: list[str], directory: Path) -> tuple[int, str]:
    """Run a program like a reader, but without a terminal."""
    bin_directory = str(Path(sys.executable).parent)
    done = subprocess.run(
        argv,
        cwd=directory,
        env=os.environ
        | {"PATH": bin_directory + os.pathsep + os.environ["PATH"], "LC_ALL": "C.UTF-8"}
        | {"PYTHONUNBUFFERED": "1"},  # printed and logged lines keep their order, as on a terminal
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=40,
        start_new_session=True,
        check=False,
    )
    # A notice for people on stderr, once in each program.
    return done.returncode, re.sub(
        f"^(?:anyshell: )?{re.escape(NO_SANDBOX)}.*\n", "", done.stdout, flags=re.MULTILINE
    )


def is_like(printed: str, expected: str) -> bool:
    lines = [
        r"(?:.*\n)*" if line == "…\n" else re.escape(line).replace("…", ".*")
        for line in expected.splitlines(True)
    ]
    pattern = "".join(lines)
    return re.fullmatch(pattern, printed) is not None


def test_ellipsis_matches_any_text_in_its_place() -> None:
    assert is_like("a 12 b\n", "a … b\n")
    assert is_like("a\n1\n2\nb\n", "a\n…\nb\n")
    assert not is_like("a\nb\n", "a … b\n")


# --- links ----------------------------------------------------------------------------------------------------


def test_every_link_has_a_target() -> None:
    wrong = []
    for page in PAGES:
        for link in _LINK.findall(without_code(page.read_text())):
            if re.match(r"[a-z]+:", link):
                continue
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            if not target.is_relative_to(TOP):
                wrong.append((name_of(page), link, "leads out of the repository"))
            elif not target.exists():
                wrong.append((name_of(page), link, "leads nowhere"))
            elif anchor and anchor not in map(anchor_of, sections(target)):
                wrong.append((name_of(page), link, "there is no such heading"))
    assert wrong == []


def anchor_of(heading: str) -> str:
    """The anchor that GitHub creates for a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_front_page_links_to_every_page() -> None:
    index = DOCS / "index.md"
    linked = {(index.parent / link).resolve() for link in _LINK.findall(index.read_text())}
    assert set(DOCS.rglob("*.md")) - {index} <= linked


def test_readme_is_short_and_has_a_generated_picture() -> None:
    text = (TOP / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 90
    assert "docs/index.md" in _LINK.findall(text)  # the page that links to every page
    (picture,) = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", text)
    drawn = (TOP / picture).read_text(encoding="utf-8")
    assert (drawn.startswith('<svg class="rich-terminal"'), len(drawn) < 10_000) == (True, True)
    assert "left&#160;behind:&#160;sleep" in drawn


# --- the library ----------------------------------------------------------------------------------------------

LIBRARY = DOCS / "reference" / "library.md"
MADE_FOR_CALLERS = {
    "DetachedJob",
    "DrivenTerminal",
    "FleetRun",
    "HostProgress",
    "Environment",
    "Session",
    "Trial",
    "Stream",
    "Job",
    "Jobs",
    "JobTool",
    "FakeProcess",
    "FakeStdin",
}
"""Classes that callers get and do not construct."""


@cache
def entries() -> dict[str, str]:
    """The sections of the library's reference that describe a public name, by that name."""
    found = sections(LIBRARY).items()
    return {span[1]: text for heading, text in found if (span := _SPAN.fullmatch(heading))}


def public_names() -> Iterator[str]:
    yield from (f"anyshell.{name}" for name in anyshell.__all__)
    yield from (f"anyshell.tool.{name}" for name in anyshell.tool.__all__ if name not in anyshell.__all__)
    for module in (
        *(anyshell.errors, anyshell.types, anyshell.testing, anyshell.rendering),
        anyshell.console,
    ):
        yield from (f"{module.__name__}.{name}" for name in module.__all__)
    yield from (f"anyshell.abc.{name}" for name in anyshell._MOVED["abc"].split())
    for name, value in vars(anyshell.abc).items():
        if not name.startswith("_") and getattr(value, "__module__", None) == "anyshell.abc":
            yield f"anyshell.abc.{name}"


def test_reference_has_every_public_name_with_its_members() -> None:
    known = entries()
    assert sorted(known) == sorted(public_names())
    headings = re.findall(r"^### `(anyshell\.[\w.]+)`$", LIBRARY.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(headings) == len(set(headings))
    lacking = []
    for name in public_names():
        if name.startswith("anyshell.console."):
            continue  # most members of these classes are textual's
        module, _, last = name.rpartition(".")
        words = set(words_of(getattr(import_module(module), last), last))
        lacking += [(name, word) for word in words if not re.search(rf"\b{word}\b", known[name])]
    assert lacking == []


def words_of(value: Any, name: str) -> Iterator[str]:
    """Every member and parameter of a public object that a caller can name."""
    if inspect.isfunction(value):
        yield from inspect.signature(value).parameters
    if not inspect.isclass(value):
        return
    if name not in MADE_FOR_CALLERS and "__init__" in vars(value):
        given = set(inspect.signature(value).parameters) - {"args", "kwargs"}
        yield from (name for name in given if not name.startswith("_"))
    if is_dataclass(value):
        yield from (field.name for field in fields(value) if not field.name.startswith("_"))
    yield from vars(value).get("__pydantic_fields__", {})
    private = [each for each in value.__mro__[1:] if each.__module__.startswith("anyshell._")]
    for member, what in (item for each in (value, *private) for item in vars(each).items()):
        if member.startswith("_") and member != "__call__":
            continue
        what = what.__func__ if isinstance(what, staticmethod) else what
        if inspect.isfunction(what):
            yield from () if member == "__call__" else (member,)
            yield from set(inspect.signature(what).parameters) - {"self"}
        elif isinstance(what, property):
            yield member


def test_reference_has_no_removed_name() -> None:
    for name in entries():
        module, _, last = name.rpartition(".")
        assert hasattr(import_module(module), last), name


# --- the command line -----------------------------------------------------------------------------------------

COMMAND_LINE = DOCS / "reference" / "command-line.md"


def program() -> dict[str, click.Command]:
    """Every command, by its words on the command line."""

    def walk(path: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
        yield path, command
        if isinstance(command, click.Group):
            context = click.Context(command, info_name=path)
            for name in command.list_commands(context):
                below = command.get_command(context, name)
                assert below is not None, name
                yield from walk(f"{path} {name}", below)

    return dict(walk("anyshell", main))


def test_reference_has_every_command_with_exactly_its_options() -> None:
    told = {
        span[1]: text
        for heading, text in sections(COMMAND_LINE).items()
        if (span := _SPAN.fullmatch(heading))
    }
    commands = program()
    assert told.keys() == commands.keys()
    for path, command in commands.items():
        there = {
            option
            for parameter in command.params
            if isinstance(parameter, click.Option)
            for option in (*parameter.opts, *parameter.secondary_opts)
        }
        if path == "anyshell":
            there |= {"-h", "--help"}
        spans = {span.split(" ")[0] for span in _SPAN.findall(told[path])}
        assert {span for span in spans if re.match(r"--?\w", span)} == there, path
        for parameter in command.params:
            if isinstance(parameter, click.Argument):
                assert f"`{parameter.make_metavar(click.Context(command)).strip('.')}" in told[path], path


# --- doors ----------------------------------------------------------------------------------------------------


def test_tests_named_on_the_page_of_doors_exist() -> None:
    there = {
        (file.name, name)
        for file in (TOP / "tests").glob("test_*.py")
        for name in re.findall(r"^(?:async def|def|class) (\w+)", file.read_text(), re.MULTILINE)
    }
    for door, text in sections(DOCS / "reference" / "doors.md").items():
        (file, *others) = re.findall(r"`tests/(test_\w+\.py)`", text) or [""]
        assert not others, door
        named = {span for span in _SPAN.findall(text) if re.fullmatch(r"test_\w+|Test\w+", span)}
        assert {(file, name) for name in named} <= there, door


def test_matrix_of_doors_agrees_with_their_tables() -> None:
    """Each feature of a door has a test. A row of the matrix stands for a table, in which the cell of a missing feature begins with "none"."""
    made = []
    for door, text in sections(DOCS / "reference" / "doors.md").items():
        rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \| ([^|]*)\|$", text, re.MULTILINE)
        offered = {what: not re.match(r"none\b|refused", said) for what, said, _ in rows}
        untested = [what for what, _, tests in rows if offered[what] and not tests.strip()]
        assert not untested, (door, untested)
        if rows:
            assert list(offered) == ASPECTS, door
            made.append(" | ".join([door, *("yes" if offered[what] else "-" for what in ASPECTS)]))
    matrix = "".join(f"| {row} |\n" for row in made)
    assert matrix in (DOCS / "reference" / "doors.md").read_text(), matrix


def test_tests_of_doors_are_about_their_cells() -> None:
    """At least one test of each cell contains the feature of the cell. Tests of a framework's own suite are in a class."""
    for door, text in sections(DOCS / "reference" / "doors.md").items():
        for file in re.findall(r"`tests/(test_\w+\.py)`", text):
            source = (TOP / "tests" / file).read_text()
            bodies = {
                node.name: ast.get_source_segment(source, node) or ""
                for node in ast.walk(ast.parse(source))
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            }
            for what, said, tests in re.findall(r"^\| ([^|]+) \| ([^|]+) \| ([^|]*)\|$", text, re.MULTILINE):
                named = re.findall(r"`(test_\w+)`", tests)
                if named and what in SHOWN_BY and not re.match(r"none\b|refused", said):
                    assert any(re.search(SHOWN_BY[what], bodies[name]) for name in named), (door, what)


# --- limits ---------------------------------------------------------------------------------------------------


def test_page_of_limits_agrees_with_the_code() -> None:
    page = limits.PAGE.read_text(encoding="utf-8")
    assert limits.written(page) == page, "to write it anew: python -m tests.limits"


def test_bounds_without_sentence_or_table_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    told = [(("room", "A"), ""), (("room", "B"), "How long it takes"), (("hall", "C"), "Seconds for it")]
    monkeypatch.setattr(
        limits, "bounds", lambda: [Bound(path, path[-1], (2.0,), said) for path, said in told]
    )
    with pytest.raises(
        ValueError, match=r"room.A has no sentence.*\nroom.B has no sentence.*\nhall.C has no table"
    ):
        limits.written("<!-- bounds: room -->\n")


def test_move_to_another_package_changes_no_table() -> None:
    for path in (("ssh", "process", "WAIT"), ("ssh", "posix", "process", "WAIT")):
        assert limits.closeness("ssh.process", path) > limits.closeness("ssh", path) > (0, 0)
        assert limits.closeness("local.process", path) == (0, 0)


def test_the_page_of_limits_has_every_variable_of_the_non_interactive_set() -> None:
    told = dict(
        span.split("=", 1) for span in _SPAN.findall(limits.PAGE.read_text()) if re.match(r"\w+=", span)
    )
    assert {name: told.get(name) for name in NON_INTERACTIVE} == dict(NON_INTERACTIVE)
    assert {name: told.get(name) for name in ASK_FOR_UTF8} == dict(ASK_FOR_UTF8)
    removed = sections(limits.PAGE)["Variables that are removed"]
    assert {span for span in _SPAN.findall(removed) if span.isupper()} == REMOVED
    removed = sections(limits.PAGE)["Variables that are removed on a terminal"]
    assert {span for span in _SPAN.findall(removed) if span.isupper()} - {"TERM"} == OF_ANOTHER_TERMINAL
    guards = sections(limits.PAGE)["Variables that keep a command from waiting"]
    assert {span.split("=")[0] for span in _SPAN.findall(guards) if "=" in span} == HANG_GUARDS
