"""Texts of PowerShell as parsed by PowerShell's own parser, and the decisions of policies on these texts."""

from __future__ import annotations

import itertools
import json
import ntpath
import os
import posixpath
import re
import subprocess
import tomllib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anyshell._types import ShellInfo
from anyshell.policy.parse import Argument, Parsed, ParsedCommand, Redirection
from anyshell.policy.parse import powershell_answers as answers
from anyshell.policy.parse.dynamic import variable
from anyshell.policy.rules import LocalFacts, Policy
from anyshell.policy.rules.cmdlets import COMMON
from anyshell.policy.rules.profiles import Profile
from anyshell.shells.powershell import PWSH, WINDOWS_POWERSHELL
from anyshell.shells.windows import fits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anyshell._types import ShellKind
    from anyshell.policy.rules import Verdict

    from .wine.windows import Windows

DATA = Path(__file__).parent / "data" / "policy"
LINES: dict[str, list[str]] = tomllib.loads((DATA / "powershell.toml").read_text(encoding="utf-8"))
TEXTS = sorted({text for texts in LINES.values() for text in texts})
SECONDS = 100


@cache
def _recorded() -> dict[str, object]:
    """The recorded answers of the real parser, of PowerShell 7.6.2."""
    recorded: dict[str, object] = json.loads((DATA / "powershell.json").read_text(encoding="utf-8"))
    return recorded


def _parsed(text: str, shell: ShellKind = "pwsh") -> Parsed:
    """The text as the tool parses it, by the recorded answer."""
    if why := answers.unasked_because(text):
        return Parsed(text, shell, (), (why,))
    return answers.answered(0, text, shell, json.dumps(_recorded()[text]).encode())


class _Posix:
    """A host with every program in /usr/bin, and no link."""

    cwd = "/home/u/project"
    home = "/home/u"

    def find(self, program: str) -> str | None:
        return "" if program.endswith(".ps1") else f"/usr/bin/{program}"

    def resolve(self, path: str) -> str | None:
        return posixpath.normpath(path)

    def names(self, directory: str) -> tuple[str, ...] | None:
        return ("a.txt ", "src/", ".git/", ".env ")

    def git_runs(self, directory: str) -> tuple[str, ...] | None:
        return ()


class _Windows(_Posix):
    """The same on Windows, with programs in its directory."""

    cwd = "C:/Users/u/project"
    home = "C:/Users/u"

    def find(self, program: str) -> str | None:
        return "" if program.endswith(".ps1") else f"C:\\Windows\\System32\\{program}.exe"

    def resolve(self, path: str) -> str | None:
        return ntpath.normpath(path).replace("\\", "/")


SYSTEMS = {"posix": _Posix(), "windows": _Windows()}


def _decided(text: str, preset: str, system: str, shell: ShellKind = "pwsh") -> Verdict:
    facts = SYSTEMS[system]
    return Policy.preset(preset).decide(_parsed(text, shell), cwd=facts.cwd, facts=facts)


def _actions(kinds: list[str], presets: list[str], systems: list[str]) -> dict[tuple[str, str, str], str]:
    return {
        (text, preset, system): _decided(text, preset, system).action
        for kind in kinds
        for text in LINES[kind]
        for preset in presets
        for system in systems
    }


@pytest.mark.parametrize("system", SYSTEMS)
def test_everyday_texts_are_allowed(system: str) -> None:
    found = _actions(["reading"], ["read-only", "workspace"], [system])
    found |= _actions(["working"], ["workspace"], [system])
    assert {case: action for case, action in found.items() if action != "allow"} == {}


@pytest.mark.parametrize("system", SYSTEMS)
def test_texts_that_write_are_not_allowed_for_reading_alone(system: str) -> None:
    found = _actions(["working"], ["read-only"], [system])
    assert {case for case, action in found.items() if action == "allow"} == set()


@pytest.mark.parametrize("system", SYSTEMS)
def test_hostile_texts_are_never_allowed(system: str) -> None:
    found = _actions(["hostile"], ["read-only", "workspace"], [system])
    assert {case for case, action in found.items() if action == "allow"} == set()


def test_refused_commands_are_denied_under_every_preset() -> None:
    presets = ["read-only", "workspace", "ask-everything", "trusted"]
    found = _actions(["refused"], presets, list(SYSTEMS)) | _actions(
        ["refused_on_windows"], presets, ["windows"]
    )
    assert {case: action for case, action in found.items() if action != "deny"} == {}


# --- the real parser ------------------------------------------------------------------------------------------


def _said(powershell: Windows, program: str, asked: bytes = b"") -> list[str]:
    """The lines that PowerShell prints for a test program."""
    argv = PWSH.argv(ShellInfo("pwsh", str(powershell.pwsh)), program)
    done = subprocess.run(argv, input=asked, capture_output=True, timeout=SECONDS, check=False)
    assert done.stderr == b""
    return done.stdout.decode().splitlines()


def test_real_parser_matches_recorded_answers(powershell: Windows) -> None:
    texts = [text for text in TEXTS if not answers.unasked_because(text)]
    lines = _said(powershell, answers.script(), b"".join(answers.question(0, text) for text in texts))
    told = dict(zip(texts, map(json.loads, lines), strict=True))
    if os.environ.get("ANYSHELL_UPDATE_SNAPSHOTS"):
        rows = (f"{json.dumps(text)}: {json.dumps(answer)}" for text, answer in told.items())
        (DATA / "powershell.json").write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")
        _recorded.cache_clear()
    assert told == _recorded()


PARAMETERS = """
$ErrorActionPreference = 'Ignore'
foreach ($each in Get-Alias) { 'alias ' + $each.Name + ' ' + $each.Definition }
foreach ($name in '@NAMES@'.Split(' ')) {
    foreach ($each in (Get-Command $name).Parameters.Values) {
        $at = @($each.ParameterSets.Values | Select-Object -ExpandProperty Position | Where-Object { $_ -ge 0 } | Sort-Object -Unique)
        foreach ($word in @($each.Name) + $each.Aliases) { 'parameter ' + $name + ' -' + $word + ' ' + [int]$each.SwitchParameter + ' ' + "$at" }
    }
}
"""


def test_cmdlet_profiles_match_real_cmdlets(powershell: Windows) -> None:
    """Each alias has the declared target; each parameter takes a value or none as declared, and has its position.

    No unlisted parameter is the beginning of a listed one: it would be taken for the listed one.
    """
    cmdlets = Policy.preset("workspace").cmdlets
    names = {name for name, profile in cmdlets.values() if profile.style == "cmdlet" and name != "mkdir"}
    lines = [
        line.split() for line in _said(powershell, PARAMETERS.replace("@NAMES@", " ".join(sorted(names))))
    ]
    aliases = {name: target for kind, name, target in (line[:3] for line in lines if line[0] == "alias")}
    wrong = [
        (alias, target)
        for alias, target in aliases.items()
        for name, profile in [cmdlets.get(alias.casefold(), ("", Profile()))]
        if name != target and not profile.unknown
    ]
    common = {each.casefold() for each in COMMON}
    assert len(aliases) > 100
    assert wrong == []
    for name in names:
        order, flags = cmdlets[name.casefold()][1].order, cmdlets[name.casefold()][1].flags
        listed = {each.casefold() for each in (*order.replace("|", " ").split(), *flags)}
        real = {line[2].casefold(): line[3:] for line in lines if line[:2] == ["parameter", name]}
        assert real, name
        values = {each.casefold() for each in flags if flags[each] == "none"}
        assert {each for each in listed & {*real} if (each in values) != (real[each][0] == "1")} == set()
        assert {
            (each, other) for each in {*real} - listed - common for other in listed if other.startswith(each)
        } == set()
        for at, group in enumerate(order.split()):
            places = {place for each in group.split("|") for place in real.get(each.casefold(), [""])[1:]}
            assert places == {str(at)}, (name, group)


LINKS = r"""
function Get-Entry($directory, $name) {
    $links = @{
        'C:\w to' = 'Junction', 'C:\Real\deep'; 'C:\Real\deep up' = 'SymbolicLink', '..\other'; 'C:\w circle' = 'SymbolicLink', 'circle'
        'C:\w cloud' = '', ''; 'C:\w share' = 'SymbolicLink', '\\server\share'
    }
    $there = 'C:\ W', 'C:\ Real', 'C:\Real deep', 'C:\Real other', 'C:\Real\deep long name'
    $link = $links["$directory $name"]
    if ($link) { return [pscustomobject]@{ Name = $name; Attributes = 1024; LinkType = $link[0]; Target = @($link[1]) } }
    if ("$directory $name" -eq 'C:\Real\deep LONGNA~1') { $name = 'long name' }
    $name = @($there -eq "$directory $name" | & { process { $_.Substring($directory.Length + 1) } })[0]
    if ($name) { [pscustomobject]@{ Name = $name; Attributes = 16 } }
}
"""
"""Entries of a disk that is not there: Wine makes no links."""


def test_links_of_windows_are_followed(powershell: Windows) -> None:
    expected = {
        r"C:\w\to\new\file": r"C:\Real\deep\new\file",
        r"c:/W/To/up/x": r"C:\Real\other\x",
        r"C:\w\to\..\x": r"C:\W\x",
        r"C:\w\to\LONGNA~1\x": r"C:\Real\deep\long name\x",
        r"C:\w\to\OTHERN~1\x": None,
        r"C:\w\circle": None,
        r"C:\w\cloud\x": None,
        r"C:\w\share\x": None,
    }
    loop = "while ($null -ne ($line"
    assert loop in answers.script()
    program = answers.script().replace(loop, LINKS + loop)
    words = [word for path in expected for word in ("resolve", path)]
    (line,) = _said(powershell, program, answers.question_about_host(7, words))
    assert answers.host_answers(7, len(expected), line.encode()) == [*expected.values()]


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"[]",
        b'{"n":7}',
        b'{"n":6,"f":["eA==",null]}',
        b'{"n":7,"f":["eA=="]}',
        b'{"n":7,"f":["eA==",null,null]}',
        b'{"n":7,"f":["eA==","?"]}',
        b'{"n":7,"f":["eA==",1]}',
        b'{"n":7,"f":"eA"}',
    ],
)
def test_malformed_answer_about_the_host_gives_no_facts(line: bytes) -> None:
    assert answers.host_answers(7, 2, b'{"n":7,"f":["eA==",null]}') == ["x", None]
    assert answers.host_answers(7, 2, line) is None


def test_the_program_that_parses_fits_on_a_command_line_of_windows() -> None:
    for shell, path in ((PWSH, "C:\\" + "x" * 250), (WINDOWS_POWERSHELL, "C:\\" + "x" * 250)):
        assert fits(shell.argv(ShellInfo(shell.kind, path), answers.script()))


# # --- malformed answers ----------------------------------------------------------------------------------------

GOOD = {
    "n": 0,
    "d": [],
    "c": [{"p": "bHM=", "s": [0, 4], "i": 0, "a": [["eA==", 1, 1, 3, 4]], "r": []}],
}


def _changed(path: Sequence[str | int], value: object) -> dict[str, object]:
    changed = json.loads(json.dumps(GOOD))
    *way, last = path
    place = changed
    for step in way:
        place = place[step]
    place[last] = value
    return changed  # type: ignore[no-any-return]  # a value of JSON


MISTAKES: list[tuple[list[str | int], object]] = [
    (["n"], 1),
    (["n"], None),
    (["d"], {}),
    (["d"], [1]),
    (["d"], ["&"]),
    (["d"], ["/w=="]),
    (["c"], "ls"),
    (["c"], [[]]),
    (["c"], GOOD["c"] * 501),  # type: ignore[operator]  # a value of JSON
    (["c", 0, "p"], 1),
    (["c", 0, "s"], [0, 5]),
    (["c", 0, "s"], [-1, 4]),
    (["c", 0, "s"], [4, 0]),
    (["c", 0, "s"], [0, 4.0]),
    (["c", 0, "s"], [0, True]),
    (["c", 0, "s"], [0]),
    (["c", 0, "s"], [0, 3]),
    (["c", 0, "i"], 2),
    (["c", 0, "i"], "1"),
    (["c", 0, "a"], [["eA==", 1, 1, 3]]),
    (["c", 0, "a"], [["eA==", 1, "1", 3, 4]]),
    (["c", 0, "a"], [["eA==", 1, 1, 3, 9]]),
    (["c", 0, "r"], [["|", "eA==", 1, 3, 4]]),
    (["c", 0, "r"], [[">", "eA==", None, 3, 4]]),
]


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"\xff",
        b"null",
        b"[]",
        b"{}",
        b"7",
        b"[" * 100_000,
        *(json.dumps(_changed(path, value)).encode() for path, value in MISTAKES),
    ],
)
def test_malformed_answer_is_not_understood(answer: bytes) -> None:
    assert answers.answered(0, "ls x", "pwsh", json.dumps(GOOD).encode()).understood
    assert answers.answered(0, "ls x", "pwsh", answer).unknown == (answers.MALFORMED,)


def test_spans_are_of_characters() -> None:
    """PowerShell counts units of UTF-16; half a pair is not a valid position."""
    answer = _changed(["c", 0, "s"], [0, 6])
    answer["c"][0]["a"] = [["8J+OiQ==", 1, 1, 3, 5], ["eA==", 1, 1, 5, 6]]  # type: ignore[index]  # a value of JSON
    parsed = answers.answered(0, "ls \U0001f389x", "pwsh", json.dumps(answer).encode())
    assert [word.span for word in parsed.commands[0].arguments] == [(3, 4), (4, 5)]
    answer["c"][0]["a"] = [["eA==", 1, 1, 4, 5]]  # type: ignore[index]  # a value of JSON
    parsed = answers.answered(0, "ls \U0001f389x", "pwsh", json.dumps(answer).encode())
    assert parsed.unknown == (answers.MALFORMED,)


@pytest.mark.parametrize(
    "text",
    ["using module x", " ;\n using assembly x", "<# a #> USING module x", "& { using <# #> module x }", "configuration C { }", "ls \u2018a\u2019", "a --% b", "#REQUIRES -Modules x", "ls \ud800", "a\0b"],
)  # fmt: skip
def test_text_that_could_load_code_is_not_parsed(text: str) -> None:
    assert answers.unasked_because(text)


@pytest.mark.parametrize("text", ["git commit -m 'using x'", "Get-Content configuration.json", "ls -Name"])
def test_everyday_texts_are_given_to_the_parser(text: str) -> None:
    assert not answers.unasked_because(text)


# # --- programs started by PowerShell ---------------------------------------------------------------------------


class _Scripts(_Windows):
    """Windows with scripts on PATH, and a batch file."""

    files: ClassVar[dict[str, str | None]] = {
        "npm.ps1": "C:\\Program Files\\nodejs\\npm.ps1",
        "git.ps1": "C:\\Users\\u\\project\\.venv2\\git.ps1",
        "python.ps1": None,
        "yarn": "C:\\Program Files\\nodejs\\yarn.cmd",
    }

    def find(self, program: str) -> str | None:
        return self.files[program] if program in self.files else super().find(program)


def _command(text: str) -> Parsed:
    """A text of one command with bare words."""
    words, start = [], 0
    for word in text.split(" "):
        words.append(Argument(word, True, (start, start + len(word))))
        start += len(word) + 1
    first, *rest = words
    return Parsed(text, "pwsh", (ParsedCommand(first.text, tuple(rest), (), (), (), (0, len(text))),), ())


@pytest.mark.parametrize(
    ("text", "action", "why"),
    [
        ("npm run build", "allow", ""),
        ("npm run build -- --script-shell=x", "ask", r"npm\.ps1 is not given the --"),
        ("git status", "ask", r"PATH has .*git\.ps1, which is in no directory of the system's"),
        ("python -m pytest", "ask", r"not known whether PATH has a script python\.ps1"),
        ("yarn run build", "allow", ""),
        ("yarn run build&calc", "ask", "is a batch file"),
    ],
)
def test_script_or_batch_file_of_the_same_name_is_considered(text: str, action: str, why: str) -> None:
    facts = _Scripts()
    verdict = Policy.preset("workspace").decide(_command(text), cwd=facts.cwd, facts=facts)
    assert verdict.action == action
    assert re.search(why, " ".join(reason.text for reason in verdict.reasons))


def test_script_without_execute_bit_is_found_on_path(tmp_path: Path) -> None:
    facts = LocalFacts({"PATH": str(tmp_path)})
    assert facts.find("x.ps1") == ""
    (tmp_path / "x.ps1").touch(mode=0o600)
    assert facts.find("x.ps1") == os.path.join(os.path.realpath(tmp_path), "x.ps1")
    assert LocalFacts({"PATH": "."}).find("pyproject.toml.ps1") in ("", None)


@pytest.mark.parametrize(
    "name", ["Path", "PSModulePath", "PATHEXT", "Git_Dir", "DOTNET_STARTUP_HOOKS", "home"]
)
def test_execution_variables_are_recognised_in_any_case(name: str) -> None:
    assert variable(name, "pwsh")
    assert not variable("NAME_OF_MINE", "pwsh")


@settings(max_examples=300, deadline=None)
@given(
    program=st.sampled_from(["rm", "Copy-Item", "sls", "ren", "cd", "git", "x-y", "%", ""]),
    words=st.lists(st.text(st.sampled_from("-aPpthRLNnew:~/\\.*[]$\"',({ \té\0"), max_size=9), max_size=5),
    literal=st.booleans(),
    piped=st.booleans(),
    system=st.sampled_from([*SYSTEMS]),
)
def test_no_words_raise(program: str, words: list[str], literal: bool, piped: bool, system: str) -> None:
    text = " ".join((program, *words))
    spans = itertools.pairwise(
        itertools.accumulate((len(word) + 1 for word in words), initial=len(program) + 1)
    )
    given_ = tuple(Argument(word, literal, span) for word, span in zip(words, spans, strict=True))
    to = tuple(Redirection(">", "", word) for word in given_[:1])
    command = ParsedCommand(program, given_, to, (), (), (0, len(text)), piped=piped)
    facts = SYSTEMS[system]
    policy = Policy.preset("read-only")
    verdict = policy.decide(Parsed(text, "pwsh", (command, command), ()), cwd=facts.cwd, facts=facts)
    assert verdict.action == "allow" or verdict.reasons
