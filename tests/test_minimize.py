"""The rules for noise, what they leave of real logs, and the command that they are about."""

from __future__ import annotations

import re

import pytest

from anyshell import AnyshellError
from anyshell.output.minimize import LARGEST, LOOKED_AT, SMALLEST, Rule, find, load, minimize, packaged
from anyshell.output.minimize import minimizer as module
from anyshell.tool.minimizing import simple_command
from bench import minimized as bench
from bench.logs import CORPUS, Log
from bench.logs import load as logs

LOGS = logs()
PASSED = "".join(f"tests/test_a.py::test_{number} PASSED [ 50%]\n" for number in range(100))


def rule(**keys: object) -> Rule:
    """One rule, as in a file."""
    entries = {"name": "x", "command": ["x"], "strip": ["noise"], **keys}
    text = "[[rule]]\n" + "".join(f"{key} = {_toml(value)}\n" for key, value in entries.items())
    return load(text.encode(), "mine.toml")[0]


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_toml(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return (
        repr(value)
        if isinstance(value, int)
        else '"' + str(value).replace("\\", "\\\\").replace("\n", "\\n") + '"'
    )


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.name)
def test_every_signal_and_fact_of_the_corpus_survives(log: Log) -> None:
    _, text, shown = bench.minimized(log)
    assert bench.missing(log, shown) == []
    # What is shown is text of the output, in order: nothing is said that the program has not said.
    lines = iter(text.split("\n"))
    changed = [line for line in shown.split("\n") if line not in lines]
    assert all(f"./{line}" in text for line in changed)


def test_logs_of_commands_that_are_not_simple_are_not_minimized() -> None:
    compound = [log for log in LOGS if re.search(r"&&|\||;|\$\(|`| > ", log.command)]
    assert len(compound) >= 40
    for log in compound:
        assert bench.minimized(log)[0] is None


def test_corpus_is_shortened_on_green_and_on_red() -> None:
    saved = {True: 0, False: 0}
    for log in LOGS:
        _, text, shown = bench.minimized(log)
        saved[log.failure] += text != shown
    assert saved[True] >= 10
    assert saved[False] >= 10


@pytest.mark.parametrize(
    "text",
    [
        "! pytest",
        "pytest &",
        "pytest;",
        "(pytest)",
        "{ pytest; }",
        "pytest | tail",
        "pytest || true",
        "pytest && echo",
        "cd x && pytest",
        "pytest > x",
        "pytest < x",
        "pytest 2>/dev/null",
        "pytest $X",
        "pytest `ls`",
        'pytest "$(ls)"',
        "$X",
        "bash -c pytest",
        "xargs pytest",
        "ssh h pytest",
        "if pytest; then :; fi",
        "pytest() { :; }; pytest",
        "eval pytest",
        "for i in 1; do pytest; done",
        "while pytest; do :; done",
        "pytest 'x",
        "",
    ],
)
def test_what_is_not_one_simple_command_has_no_words(text: str) -> None:
    assert simple_command(text, "bash") is None


@pytest.mark.parametrize(
    "text",
    [
        "pytest -q",
        "  pytest -q ",
        "A=1 pytest -q",
        "pytest -q 2>&1",
        "timeout 9 pytest -q",
        "uv run pytest -q",
    ],
)
def test_simple_command_has_words(text: str) -> None:
    assert simple_command(text, "bash") == ("pytest", "-q")


def test_commands_of_other_shells_have_no_words() -> None:
    assert simple_command("pytest", "pwsh") is None
    assert simple_command("pytest", "powershell") is None


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["../t/bin/pytest", "-v"], "pytest"),
        ([".venv/bin/python3.12", "-m", "pytest"], "pytest"),
        (["git", "--no-pager", "log", "-p"], "git diff"),
        (["git", "stash"], None),
        (["git", "show", "HEAD:notes"], None),
        (["grep", "-r", "x"], None),
        (["cargo", "run"], None),
        (["go", "run", "."], None),
        (["pytest", "--collect-only"], None),
        (["python", "x.py", "-m", "pytest"], None),
        (["go", "test", "-json"], None),
        (["echo", "pytest"], None),
        ([], None),
    ],
)
def test_rule_is_found_by_the_first_words(words: list[str], name: str | None) -> None:
    found = find(packaged(), words)
    assert (found and found.name) == name


def test_short_and_huge_outputs_are_left_alone() -> None:
    found = find(packaged(), ["pytest"])
    assert found is not None
    assert minimize(found, 0, "a.py::test_b PASSED [ 50%]\n" * (SMALLEST // 27 - 1) + "x\n") is None
    assert minimize(found, 0, PASSED + "1 passed\n") == "1 passed\n"
    assert minimize(found, 0, PASSED + "x" * LARGEST) is None


def test_rule_holds_for_no_other_exit_code() -> None:
    found = find(packaged(), ["pytest"])
    assert found is not None
    assert minimize(found, 1, PASSED + "1 failed\n") == "1 failed\n"
    for code in (2, 3, 124, 130, 139, -1):
        assert minimize(found, code, PASSED + "1 failed\n") is None


def test_nothing_remains_is_shown_whole_unless_the_rule_has_words() -> None:
    text = "noise\n" * 500
    assert minimize(rule(), 0, text) is None
    assert minimize(rule(on_empty="(500 lines of progress)"), 0, text) == "(500 lines of progress)\n"


def test_lines_that_look_like_errors_or_warnings_are_never_dropped() -> None:
    every = rule(strip=["."], exit_codes=[0, 1], noise=["."], facts=["never"])
    text = "x\n" * 1000 + "a.c:1:2: error: oh\nWarning: old\nTraceback (most recent call last):\n" + "x\n" * 9
    for code in (0, 1):
        shown = minimize(every, code, text)
        assert shown == "a.c:1:2: error: oh\nWarning: old\nTraceback (most recent call last):\n"


def test_long_lines_are_kept() -> None:
    text = "noise\n" * 300 + "noise" + "x" * LOOKED_AT + "\n"
    assert minimize(rule(), 0, text) == "noise" + "x" * LOOKED_AT + "\n"


def test_what_takes_too_long_is_shown_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TIME", -1.0)
    assert minimize(rule(), 0, "noise\n" * 500 + "rest\n") is None


def test_blank_lines_around_what_was_dropped_are_one() -> None:
    text = "a\n\n" + "noise\n\n" * 200 + "b\n\n\nc\n" + "z" * 1000 + "\n"
    assert minimize(rule(), 0, text) == "a\n\nb\n\n\nc\n" + "z" * 1000 + "\n"


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"on_empty": "files are identical"}, "verdict"),
        ({"on_empty": "All tests passed"}, "verdict"),
        ({"on_empty": "no errors"}, "verdict"),
        ({"on_empty": "0 failures"}, "verdict"),
        ({"on_empty": "OK"}, "verdict"),
        ({"on_empty": "✓"}, "verdict"),
        ({"name": "all tests passed"}, "verdict"),
        ({"replace": [{"pattern": "x", "text": "clean"}]}, "verdict"),
        ({"replace": [{"pattern": "x", "text": "\\1"}]}, "group"),
        ({"strip": ["(a+)+b"]}, "within a repeat"),
        ({"strip": ["(?:a*b?){2,9}"]}, "within a repeat"),
        ({"strip": ["(a)\\1"]}, "looks around"),
        ({"strip": ["x(?=a)"]}, "looks around"),
        ({"strip": ["a+b+c+"]}, "unbounded repeats"),
        ({"strip": ["a*"]}, "every line"),
        ({"strip": ["("]}, "strip"),
        ({"strip": ["(?i)x"]}, "flag"),
        ({"strip": ["x" * 2000]}, "characters"),
        ({"strip": "x"}, "list of texts"),
        ({"strip": []}, "nothing is left out"),
        ({"noise": ["x"]}, "facts"),
        ({"exit_codes": [0, 1]}, "facts"),
        ({"exit_codes": []}, "exit_codes"),
        ({"command": []}, "command"),
        ({"command": [""]}, "command"),
        ({"name": ""}, "name"),
        ({"striip": ["x"]}, "no key"),
        ({"examples": [{"input": "noise", "output": "noise"}]}, "does not hold"),
        ({"examples": [{"input": "x", "output": "x", "exit_code": 3}]}, "exit_code"),
    ],
)
def test_bad_rule_is_refused_with_file_line_and_reason(keys: dict[str, object], reason: str) -> None:
    with pytest.raises(AnyshellError, match=rf"^mine\.toml:1: .*{re.escape(reason)}"):
        rule(**keys)


@pytest.mark.parametrize("data", [b"\xff", b"x", b"x = 1", b"[rule]", b"#" * (1024 * 1024 + 1)])
def test_file_that_is_none_of_rules_is_refused(data: bytes) -> None:
    with pytest.raises(AnyshellError, match=r"^mine\.toml"):
        load(data, "mine.toml")


def test_bad_rule_is_named_by_its_own_line() -> None:
    good = b'[[rule]]\nname = "a"\ncommand = ["a"]\nstrip = ["x"]\n\n'
    with pytest.raises(AnyshellError, match=r"^mine\.toml:6: there are two rules with the name a"):
        load(good * 2, "mine.toml")


def test_no_packaged_rule_states_a_verdict() -> None:
    assert all(not each.on_empty for each in packaged())
    assert {text for each in packaged() for _, text in each.replace} <= {"\\1"}


def test_page_has_the_measured_table() -> None:
    page = (CORPUS.parents[2] / "docs/how-to/minimize-output.md").read_text(encoding="utf-8")
    measured = bench.table(LOGS).splitlines()
    rows = [line for line in page.partition("## What it saves")[2].splitlines() if line.startswith("| ")]
    assert len(rows) > 10
    assert [row for row in rows if row not in measured] == []
