"""The rules for noise, their results on real logs, and the recognition of the command."""

from __future__ import annotations

import json
import pkgutil
import re
import time
import tomllib
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anyshell import AnyshellError
from anyshell._types import CommandRequest, ShellInfo
from anyshell._types.verdict import Access, CommandVerdict, Verdict
from anyshell.output.minimize import (
    LARGEST,
    LONGEST_BLOCK,
    LOOKED_AT,
    SMALLEST,
    Minimized,
    NoiseRule,
    find,
    load,
    minimize,
    packaged,
)
from anyshell.output.minimize import minimizer as module
from anyshell.output.minimize.minimizer import INDENT, LEAST_SAVED, grouped
from anyshell.output.text.signals import tells
from anyshell.policy.parse.powershell_answers import answered
from anyshell.tool.minimizing import simple_command, words_of
from bench import minimized as bench
from bench.logs import CORPUS
from bench.logs import load as logs

RULES = (pkgutil.get_data("anyshell.output.minimize", "rules.toml") or b"").decode()
PASSED = "".join(f"tests/test_a.py::test_{number} PASSED [ 50%]\n" for number in range(100))


def rule(**keys: object) -> NoiseRule:
    """One rule, as in a rules file."""
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


def test_every_signal_and_fact_of_the_corpus_survives() -> None:
    missing, said = [], []
    for log in logs():
        _, text, left = bench.minimized(log)
        if left is None:
            continue
        shown = bench.ungrouped(left.text) if left.grouped else left.text
        missing += [(log.name, each) for each in bench.missing(log, shown)]
        # The shown lines are lines of the output, in order: the minimizer adds no text.
        lines = iter(text.split("\n"))
        if not all(line in lines for line in shown.removesuffix("\n").split("\n")):
            said.append(log.name)
    assert (missing, said) == ([], [])


def test_logs_of_compound_commands_are_not_minimized() -> None:
    compound = [log for log in logs() if re.search(r"&&|\||;|\$\(|`| > ", log.command)]
    assert len(compound) >= 40
    for log in compound:
        simple = re.fullmatch(r"cd [\w/]+ && [^&|;$`>]+", log.command)
        assert simple or bench.minimized(log)[0] is None


def test_corpus_is_shortened_on_green_and_on_red() -> None:
    saved = {True: 0, False: 0}
    for log in logs():
        saved[log.failure] += bench.minimized(log)[2] is not None
    assert saved[True] >= 30
    assert saved[False] >= 15


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
        "cd x && pytest && echo",
        "cd x && pytest | tail",
        "cd x; pytest",
        "cd $X && pytest",
        "cd a && cd b && pytest",
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
def test_texts_beyond_one_simple_command_have_no_words(text: str) -> None:
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
        "cd x && pytest -q",
        "cd 'a b'/c && A=1 pytest -q 2>&1",
    ],
)
def test_simple_command_has_words(text: str) -> None:
    assert simple_command(text, "bash") == ("pytest", "-q")


def test_commands_of_other_shells_have_no_words() -> None:
    assert simple_command("pytest", "pwsh") is None
    assert simple_command("pytest", "powershell") is None
    assert simple_command("pytest", "wsl") is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("git status", ("git", "status")),
        ("python -m pytest -q tests", ("python", "-m", "pytest", "-q", "tests")),
        ("git commit -m 'A message'", ("git", "commit", "-m", "A message")),
        ("git log --oneline -5 | Select-String fix", None),
        ("git log > ~/.bashrc", None),
        ("git log $x", None),
        ("git log (Get-Content x)", None),
        ("git status; Remove-Item ~", None),
        ("$env:PATH = 'C:/x'; git status", None),
    ],
)
def test_powershell_command_has_the_words_of_its_verdict(text: str, words: tuple[str, ...] | None) -> None:
    recorded = json.loads((CORPUS.parent / "policy" / "powershell.json").read_text(encoding="utf-8"))
    parsed = answered(0, text, "pwsh", json.dumps(recorded[text]).encode())
    verdict = Verdict(
        action="allow",
        reasons=(),
        commands=tuple(CommandVerdict(each, "allow", Access(), ()) for each in parsed.commands),
        understood=parsed.understood,
    )
    request = CommandRequest(text=text, shell=ShellInfo("pwsh", "pwsh"), host="", directory="/")
    assert words_of(replace(request, verdict=verdict)) == words
    assert words_of(replace(request, verdict=replace(verdict, understood=False))) is None
    assert words_of(request) is None


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["../t/bin/pytest", "-v"], "pytest"),
        ([".venv/bin/python3.12", "-m", "pytest"], "pytest"),
        (["git", "--no-pager", "log", "-p"], "git diff"),
        (["git", "stash"], None),
        (["git", "show", "HEAD:notes"], None),
        (["grep", "-r", "x"], "grep"),
        (["rg", "--json", "x"], None),
        (["ls", "-lR"], "ls"),
        (["find", ".", "-print0"], None),
        (["cargo", "run"], None),
        (["go", "run", "."], None),
        (["pytest", "--collect-only"], None),
        (["pytest", "-sv"], None),
        (["pytest", "-vvs", "x.py"], None),
        (["pytest", "-vv", "tests"], "pytest"),
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
    assert minimize(found, 0, PASSED + "1 passed\n") == Minimized("1 passed\n", 1)
    assert minimize(found, 0, PASSED + "x" * LARGEST) is None


def test_rule_holds_for_no_other_exit_code() -> None:
    found = find(packaged(), ["pytest"])
    assert found is not None
    assert minimize(found, 1, PASSED + "1 failed\n") == Minimized("1 failed\n", 1)
    for code in (2, 3, 124, 130, 139, -1):
        assert minimize(found, code, PASSED + "1 failed\n") is None


def test_fully_dropped_output_is_shown_whole_without_on_empty() -> None:
    text = "noise\n" * 500
    assert minimize(rule(), 0, text) is None
    told = rule(on_empty="(500 lines of progress)")
    assert minimize(told, 0, text) == Minimized("(500 lines of progress)\n", 0)


def test_error_and_warning_lines_are_never_dropped() -> None:
    every = rule(strip=["."], exit_codes=[0, 1], noise=["."], facts=["never"])
    text = "x\n" * 1000 + "a.c:1:2: error: oh\nWarning: old\nTraceback (most recent call last):\n" + "x\n" * 9
    for code in (0, 1):
        shown = minimize(every, code, text)
        assert shown == Minimized("a.c:1:2: error: oh\nWarning: old\nTraceback (most recent call last):\n", 3)


def test_long_lines_are_kept() -> None:
    text = "noise\n" * 300 + "noise" + "x" * LOOKED_AT + "\n"
    assert minimize(rule(), 0, text) == Minimized("noise" + "x" * LOOKED_AT + "\n", 1)


def test_minimize_returns_nothing_over_the_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TIME", -1.0)
    assert minimize(rule(), 0, "noise\n" * 500 + "rest\n") is None


def test_slow_pattern_raises_a_timeout() -> None:
    slow = "a" * 390 + "b\n"  # 9,000 of these lines would exceed the time of a test
    for keys in (
        {"strip": ["a*a*c"]},
        {"strip": ["never"], "group": "a*a*c"},
        {"strip": ["b"], "blocks": [{"begin": "a*a*c", "end": "x"}], "facts": ["f"]},
        {"strip": ["b"], "replace": [{"pattern": "a*a*c", "text": ""}]},
        {"failed": ["a"], "facts": ["a*a*c"], "exit_codes": [1]},
    ):
        code = 1 if "failed" in keys else 0
        with pytest.raises(TimeoutError):
            module.shortened(rule(**keys), code, slow * 9_000, until=time.monotonic() + 0.05)


def test_lines_of_files_named_by_an_error_stay_after_a_failure() -> None:
    found = rule(failed=["cc -c "], facts=["never"], exit_codes=[0, 2])
    text = "".join(f"cc -c src/{name}.c -o {name}.o\n" for name in "abcd") * 20
    text += "/srv/src/b.c:3: undefined reference\nld: error: ./c.o\n" + "z" * 400 + "\n"
    left = minimize(found, 2, text)
    assert left is not None
    assert {line[-3:] for line in left.text.splitlines() if line.startswith("cc")} == {"b.o", "c.o"}
    assert minimize(found, 0, text) is None


def test_block_is_dropped_completely_or_kept() -> None:
    found = rule(
        blocks=[{"begin": "run ", "inside": "  ", "end": "passed$"}], facts=["never"], exit_codes=[0, 1]
    )
    good = "run a\n  note\npassed\n" * 50
    for other in (
        "run b\n  note\nfell\n",
        "run b\nother\npassed\n",
        "run b\n  Error: x\npassed\n",
        "run b\n" + "  note\n" * LONGEST_BLOCK + "passed\n",
        "run b\n",
        "passed\n",
    ):
        for code in (0, 1):
            text = f"{other}error: x\n"
            assert minimize(found, code, good + text) == Minimized(text, text.count("\n"))
    left = minimize(found, 1, good + "run b\nrun c\npassed\nerror: x\n")
    assert left == Minimized("run b\nerror: x\n", 2)


def test_lines_are_grouped_by_prefix_if_all_fit() -> None:
    found = rule(strip=["noise"], group="[^:]+:")
    text = "".join(f"some/long/directory/a.py:{at}: x\n" for at in range(50)) + "b.py:1: y\nnoise\n"
    left = minimize(found, 0, text)
    assert left is not None
    assert left.grouped
    assert left.text.startswith("some/long/directory/a.py:\n  0: x\n  1: x\n")
    assert left.text.endswith("  49: x\nb.py:1: y\n")
    assert left.lines == 51
    assert bench.ungrouped(left.text) == text.removesuffix("noise\n")
    assert minimize(found, 0, text, room=len(left.text)) == left
    assert minimize(found, 0, text, room=len(left.text) - 1) is None
    assert minimize(found, 0, text + "  an indented line\n") is None


def test_failure_without_an_error_line_is_shown_whole() -> None:
    found = find(packaged(), ["make"])
    assert found is not None
    silent = "".join(f"cc -c -o {number}.o {number}.c\n" for number in range(100))
    assert minimize(found, 2, silent) is None
    assert minimize(found, 2, silent + "cc: error: x\n") == Minimized("cc: error: x\n", 1)


def test_blank_lines_around_dropped_lines_are_merged() -> None:
    text = "a\n\n" + "noise\n\n" * 200 + "b\n\n\nc\n" + "z" * 1000 + "\n"
    assert minimize(rule(), 0, text) == Minimized("a\n\nb\n\n\nc\n" + "z" * 1000 + "\n", 7)


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
        ({"failed": ["x"]}, "facts"),
        ({"blocks": [{"begin": "x", "end": "y"}]}, "facts"),
        ({"blocks": [{"begin": "x"}], "facts": ["f"]}, "blocks"),
        ({"blocks": [{"begin": "x", "end": "(y+)+"}], "facts": ["f"]}, "within a repeat"),
        ({"group": "x*"}, "every line"),
        ({"exit_codes": [0, 1]}, "facts"),
        ({"exit_codes": []}, "exit_codes"),
        ({"command": []}, "command"),
        ({"command": [""]}, "command"),
        ({"name": ""}, "name"),
        ({"striip": ["x"]}, "not a key"),
        ({"examples": [{"input": "noise", "output": "noise"}]}, "does not hold"),
        ({"examples": [{"input": "x", "output": "x", "exit_code": 3}]}, "exit_code"),
    ],
)
def test_bad_rule_is_refused_with_file_line_and_reason(keys: dict[str, object], reason: str) -> None:
    with pytest.raises(AnyshellError, match=rf"^mine\.toml:1: .*{re.escape(reason)}"):
        rule(**keys)


OTHER_LINES = [
    "",
    " ",
    "  indented",
    "x: error: y",
    "warning: z",
    "FAILED",
    "a.c: Error 2",
    "x" * (LOOKED_AT + 1),
]
EXAMPLES = {
    entry["name"]: [line for each in entry["examples"] for line in each["input"].split("\n")]
    for entry in tomllib.loads(RULES)["rule"]
}


@st.composite
def outputs(draw: st.DrawFn) -> tuple[NoiseRule, int, str]:
    """A rule, an exit code, and a text with repeated lines of the rule's examples, and other lines between."""
    found = draw(st.sampled_from(packaged()))
    own = st.sampled_from(EXAMPLES[found.name])
    other = st.sampled_from(OTHER_LINES) | st.text(
        st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=60
    )
    repeated = st.builds(lambda line, times: [line] * times, own, st.integers(1, 60))
    parts = st.lists(
        repeated | other.map(lambda line: [line]) | own.map(lambda line: [line]), min_size=4, max_size=30
    )
    text = "\n".join(line for part in draw(parts) for line in part)
    return found, draw(st.sampled_from(sorted(found.exit_codes)) | st.integers(0, 255)), text


@settings(max_examples=300, deadline=None)
@given(output=outputs(), room=st.sampled_from([900, 50_000]))
def test_minimizer_invents_no_line_and_counts_omitted_ones(
    output: tuple[NoiseRule, int, str], room: int
) -> None:
    found, code, text = output
    left = minimize(found, code, text, room=room)
    if left is None:
        return
    assert code in found.exit_codes
    assert len(text) - len(left.text) >= LEAST_SAVED
    whole = bench.ungrouped(left.text) if left.grouped else left.text
    assert whole.count("\n") == left.lines
    assert not left.grouped or (code == 0 and len(left.text.encode()) <= room)
    lines, remaining = text.removesuffix("\n").split("\n"), whole.removesuffix("\n").split("\n")
    # The remaining lines are lines of the text, in their order.
    rest = iter(lines)
    assert all(line in rest for line in remaining)

    def stay(lines: list[str]) -> list[str]:
        """The lines that no rule may drop."""
        return [
            line
            for line in lines
            if len(line.rstrip()) > LOOKED_AT
            or (line.strip() and found.keep.search(line.rstrip()))
            or tells(line.rstrip().encode(errors="replace"))
        ]

    assert stay(remaining) == stay(lines)
    dropped = Counter(lines) - Counter(remaining)
    assert dropped.total() == len(lines) - left.lines
    if code != 0:
        assert stay(remaining)
        assert not any(
            line.strip()
            for line in dropped
            if not found.noise.match(line.rstrip())
            and not found.failed.match(line.rstrip())
            and not any(part.match(line.rstrip()) for block in found.blocks for part in block)
        )


@settings(max_examples=200, deadline=None)
@given(output=outputs(), code=st.integers(1, 255))
def test_rule_without_facts_leaves_every_failure_alone(output: tuple[NoiseRule, int, str], code: int) -> None:
    assert minimize(rule(strip=["."]), code, output[2]) is None


@settings(max_examples=400, deadline=None)
@given(
    lines=st.lists(
        st.builds(
            str.__add__,
            st.sampled_from(["", "a.py:", "a/b.py:", "  ", "a/", " x:"]),
            st.text("ab:/ 1\t", max_size=12),
        ),
        max_size=30,
    ),
    pattern=st.sampled_from([r"[^:]+:", r".*/", r"\w", r"\s+", r"a"]),
)
def test_grouped_lines_can_be_restored(lines: list[str], pattern: str) -> None:
    headed = grouped(re.compile(pattern), lines)
    if headed is None:
        assert any(line.startswith(INDENT) for line in lines)
    else:
        assert bench.ungrouped("\n".join(headed)) == "\n".join(lines)


@pytest.mark.parametrize("data", [b"\xff", b"x", b"x = 1", b"[rule]", b"#" * (1024 * 1024 + 1)])
def test_file_without_valid_rules_is_refused(data: bytes) -> None:
    with pytest.raises(AnyshellError, match=r"^mine\.toml"):
        load(data, "mine.toml")


def test_bad_rule_is_named_by_its_own_line() -> None:
    good = b'[[rule]]\nname = "a"\ncommand = ["a"]\nstrip = ["x"]\n\n'
    with pytest.raises(AnyshellError, match=r"^mine\.toml:6: there are two rules with the name a"):
        load(good * 2, "mine.toml")


def test_no_packaged_rule_states_a_verdict() -> None:
    assert all(not each.on_empty for each in packaged())
    assert all(not each.replace for each in packaged())


def test_page_has_the_measured_table() -> None:
    page = (CORPUS.parents[2] / "docs/how-to/minimize-output.md").read_text(encoding="utf-8")
    measured = bench.table(logs()).splitlines()
    rows = [line for line in page.partition("## What it saves")[2].splitlines() if line.startswith("| ")]
    assert len(rows) > 10
    assert [row for row in rows if row not in measured] == []


def test_rules_unproven_by_a_log_are_documented_and_lose_no_fact() -> None:
    seen = {
        rule.name for rule, _, left in map(bench.minimized, logs()) if rule is not None and left is not None
    }
    unseen = [rule for rule in packaged() if rule.name not in seen]
    page = (CORPUS.parents[2] / "docs/how-to/minimize-output.md").read_text(encoding="utf-8")
    assert f"real log of their tool: {', '.join(rule.name for rule in unseen)}, which" in page
    for rule in unseen:
        for log in logs():
            text = log.data.decode("utf-8", "replace")
            left = minimize(rule, min(rule.exit_codes), text, room=len(text))
            assert left is None or bench.missing(log, left.text) == bench.missing(log, text), (
                rule.name,
                log.name,
            )
