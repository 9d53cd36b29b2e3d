"""Verdicts of the presets on a developer's everyday commands, and on hostile commands: `tests/data/policy/`.

No test runs a command, and the host is a value.
"""

from __future__ import annotations

import posixpath
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from anyshell.policy.presets import PRESETS
from anyshell.policy.rules.patterns import ANYTHING
from anyshell.policy.rules.policy import Policy

from .conftest import framework

if TYPE_CHECKING:
    from anyshell._types import ShellKind

framework("tree_sitter_bash")

WORKSPACE = "/home/dev/project"
LINKS = {
    "/home/dev/project/out-link": "/etc",
    "/home/dev/project/link-to-home": "/home/dev",
    "/home/dev/project/ssh-link": "/home/dev/.ssh",
    "/proc/self/root": "/",
    "/bin": "/usr/bin",
}
ABSENT = frozenset({"x", "p", "f", "nosuch"})
REPORTS = [
    "openai/codex#28732",
    "openai/codex#21392",
    "openai/codex#18694",
    "openai/codex#17393",
    "openai/codex#7607",
    "anomalyco/opencode#31485",
    "anomalyco/opencode#34772",
    "anomalyco/opencode#16075",
    "anomalyco/opencode#14110",
    "anomalyco/opencode#16724",
    "anomalyco/opencode#39931",
    "anomalyco/opencode#27575",
    "anomalyco/opencode#5330",
    "anthropics/claude-code#4956",
    "anthropics/claude-code#28784",
    "anthropics/claude-code#58424",
    "anthropics/claude-code#94314",
    "google-gemini/gemini-cli#5495",
    "google-gemini/gemini-cli#11510",
    "google-gemini/gemini-cli#11766",
    "QwenLM/qwen-code#8582",
]


class Case(NamedTuple):
    source: str
    text: str
    shell: ShellKind
    git: tuple[str, ...]
    verdicts: dict[str, str]


NAMES = {
    WORKSPACE: ("src/", "out-link@", "link-to-home@", "ssh-link@", "README.md "),
    f"{WORKSPACE}/src": ("app.py ", "AGENTS.md "),
}


class Host:
    """A machine with every program but a few in /usr/bin."""

    home = "/home/dev"

    def __init__(self, git: tuple[str, ...]) -> None:
        self._git = git

    def find(self, program: str) -> str | None:
        return "" if program in ABSENT else f"/usr/bin/{program}"

    def resolve(self, path: str) -> str | None:
        path = posixpath.normpath(path).replace("//", "/")
        for link, target in LINKS.items():
            if path == link or path.startswith(f"{link}/"):
                return self.resolve(target + path[len(link) :])
        return path

    def names(self, directory: str) -> tuple[str, ...]:
        return NAMES.get(directory, ANYTHING)

    def git_runs(self, directory: str) -> tuple[str, ...] | None:
        return self._git


def cases(name: str) -> list[Case]:
    tables: dict[str, Any] = tomllib.loads(
        (Path(__file__).parent / f"data/policy/{name}.toml").read_text("utf-8")
    )
    found = []
    for group in tables["group"]:
        verdicts = dict(zip(PRESETS, group["verdicts"].split(), strict=True))
        keys, shell = tuple(group.get("git", "").split()), group.get("shell", "bash")
        found += [Case(group["source"], text, shell, keys, verdicts) for text in group["commands"]]
    return found


EVERYDAY, HOSTILE = cases("everyday"), cases("hostile")


@pytest.mark.parametrize("preset", PRESETS)
def test_preset_gives_each_command_its_verdict(preset: str) -> None:
    policy = Policy.preset(preset)
    wrong = []
    for case in EVERYDAY + HOSTILE:
        verdict = policy.decide(case.text, shell=case.shell, cwd=WORKSPACE, facts=Host(case.git))
        if verdict.action != case.verdicts[preset]:
            why = "; ".join(f"{reason.text} [{reason.rule}]" for reason in verdict.reasons[:2])
            wrong.append(f"{verdict.action}, not {case.verdicts[preset]}: {case.text!r} ({why})")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("preset", PRESETS)
def test_rules_of_a_preset_hold_for_their_examples(preset: str) -> None:
    assert Policy.preset(preset).mistakes() == []


def test_everyday_commands_seldom_ask() -> None:
    assert len(EVERYDAY) >= 300
    asked = [case for case in EVERYDAY if case.verdicts["workspace"] == "ask"]
    assert len(asked) <= 0.15 * len(EVERYDAY)
    assert not [case for case in EVERYDAY if "deny" in case.verdicts.values()]
    assert {case.verdicts["ask-everything"] for case in EVERYDAY} == {"ask"}


def test_no_hostile_command_is_allowed() -> None:
    assert len(HOSTILE) >= 300
    for case in HOSTILE:
        assert "allow" not in [
            case.verdicts[preset] for preset in ("read-only", "workspace", "ask-everything")
        ], case
        if case.source.startswith("refused: "):
            assert {*case.verdicts.values()} == {"deny"}, case


def test_each_command_is_listed_once() -> None:
    keys = [(case.text, case.shell, case.git) for case in EVERYDAY + HOSTILE]
    assert len(keys) >= 600
    assert len({*keys}) == len(keys)


def test_public_reports_are_in_the_corpus() -> None:
    named: set[str] = set()
    for case in HOSTILE:
        for project, numbers in re.findall(r"([\w-]+/[\w-]+)(#\d+(?:, #\d+)*)", case.source):
            named |= {f"{project}{number}" for number in numbers.split(", ")}
    assert not {*REPORTS} - named


@pytest.mark.parametrize("preset", PRESETS)
def test_a_refused_rule_can_be_overridden_by_name_alone(preset: str, tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    file.write_text('override = ["broad-kill"]\n', "utf-8")
    policy = Policy.load(file, preset=preset)
    texts = {"pkill -f vite": "allow" if preset == "trusted" else "ask", "rm -rf /": "deny"}
    for text, action in texts.items():
        assert policy.decide(text, cwd=WORKSPACE, facts=Host(())).action == action
