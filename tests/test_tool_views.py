"""A tool whose model asks for the start or the end of an output by ``head`` or ``tail``: the run text, the shown and the kept output."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

from anyshell import (
    AnyshellError,
    ApprovalRequest,
    Approved,
    ArtifactStore,
    Environment,
    OutputLimits,
    ShellTool,
    approve_all,
)
from anyshell.policy.parse import parse
from anyshell.policy.view_limit import LARGEST_WHOLE, view_limit

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from anyshell.tool import ShellResult

pytestmark = pytest.mark.anyio

TO_HEAD = f"head -c {LARGEST_WHOLE}"


@pytest.fixture
async def env(tmp_path: Path) -> AsyncIterator[Environment]:
    store = ArtifactStore(tmp_path / "kept")
    async with Environment.detect(shell="bash", cwd=tmp_path, artifacts=store) as env:
        yield env


async def run(env: Environment, command: str, **options: Any) -> ShellResult:
    tool = ShellTool(env, approver=approve_all, view_limits=True, **options)
    return await tool({"command": command, "timeout": 60})


def kept(env: Environment, result: ShellResult) -> str:
    assert env.artifacts is not None
    assert result.details.artifact is not None
    return env.artifacts.read(result.details.artifact.id).decode()


@pytest.mark.parametrize(
    ("text", "runs", "head", "tail"),
    [
        ("seq 1000 | head -n 5", f"seq 1000 | {TO_HEAD}", 5, None),
        ("seq 1000|head -5", f"seq 1000|{TO_HEAD}", 5, None),
        ("make 2>&1 | tail -n20", "make 2>&1 | cat", None, 20),
        ("make |& tail --lines=3", "make |& cat", None, 3),
        ("find / 2>/dev/null | head -n 5 ", f"find / 2>/dev/null | {TO_HEAD}", 5, None),
        ("a | grep b | head -50 | tail -5", f"a | grep b | {TO_HEAD}", 50, 5),
        ('a "$(b | head -3)" | tail -5', 'a "$(b | head -3)" | cat', None, 5),
        ("LC_ALL=C sudo a | tail -5", "LC_ALL=C sudo a | cat", None, 5),
    ],
)
def test_end_of_a_pipeline_is_a_limit(text: str, runs: str, head: int | None, tail: int | None) -> None:
    limit = view_limit(parse(text, "bash"))
    assert limit is not None
    assert (limit.text, limit.head, limit.tail) == (runs, head, tail)
    assert text.strip().endswith(limit.said)


@pytest.mark.parametrize(
    "text",
    [
        "head -n 5",
        "head -n 5 file",
        "seq 9",
        "seq 9 | head",
        "seq 9 | head -n 0",
        "seq 9 | head -n -5",
        "seq 9 | head -c 5",
        "seq 9 | head -n 5 -q",
        "seq 9 | head -n $N",
        "seq 9 | head -n 5 file",
        "seq 9 | tail -n +5",
        "seq 9 | tail +5",
        "seq 9 | tail -f",
        "seq 9 | tail -5f",
        "seq 9 | tail -n 5 -f",
        "seq 9 | head -5 | cat",
        "seq 9 | tail -5 | head -2",
        "seq 9 | head -5 > file",
        "seq 9 > file | head -5",
        "seq 9 | head -5 2>&1",
        "cat < file | head -5",
        "cat <<E | head -5\nx\nE",
        "cat <<E\nseq 9 | head -5\nE",
        "cat <<< x | head -5",
        "(seq 9) | head -5",
        "(seq 9 | head -5)",
        "{ seq 9; } | head -5",
        "echo 'seq 9 | head -5'",
        'echo "seq 9 | head -5"',
        "echo $(seq 9 | head -5)",
        "bash -c 'seq 9 | head -5'",
        "a; seq 9 | head -5",
        "a && seq 9 | head -5",
        "seq 9 | head -5 && a",
        "! seq 9 | head -5",
        "seq 9 | head -5 &",
        "seq 9 | head -5;",
        "seq 9 | head -5 # five",
        "seq 9 | LC_ALL=C head -5",
        "seq 9 | sudo head -5",
        "seq 9 | xargs head -5",
        "seq 9 |\nhead -5",
        "for i in 1 2; do echo; done | head -5",
        "yes | head -5",
        "sudo yes | head -5",
        "yes | grep y | head -5",
        "tail -f log | head -5",
        "tail --follow=name log | head -5",
        "cat /dev/urandom | head -5",
        "ping host | head -5",
        "",
    ],
)
def test_texts_without_a_view_limit_are_left_alone(text: str) -> None:
    assert view_limit(parse(text, "bash")) is None


@pytest.mark.parametrize("options", [{}, {"session": True}, {"jobs": True}, {"terminals": True}], ids=str)
async def test_first_lines_are_shown_and_the_whole_is_kept(env: Environment, options: dict[str, Any]) -> None:
    result = await run(env, "seq 1000 | head -n 5", **options)
    assert result.output == "1\n2\n3\n4\n5\n"
    assert kept(env, result) == "".join(f"{number}\n" for number in range(1, 1001))
    assert result.details.exit_code == 0
    assert "`head -n 5` limited only what is shown: lines 1 to 5 of 1,000. Whole output: " in result.text
    truncation = result.details.truncation
    assert truncation is not None
    assert truncation.model_dump() == {
        "shown_bytes": 10,
        "total_bytes": 3893,
        "shown_lines": 5,
        "total_lines": 1000,
        "direction": "head",
        "truncated_by": "lines",
        "shown_range": ((1, 5),),
    }


async def test_last_lines_are_shown(env: Environment) -> None:
    result = await run(env, "seq 100000 | tail -n 3")
    assert result.output == "99998\n99999\n100000\n"
    assert kept(env, result).count("\n") == 100_000
    truncation = result.details.truncation
    assert truncation is not None
    assert (truncation.direction, truncation.truncated_by) == ("tail", "lines")
    assert truncation.shown_range == ((99_998, 100_000),)


async def test_last_line_without_a_line_feed_counts(env: Environment) -> None:
    result = await run(env, r"printf 'a\nb\nc' | tail -n 2")
    assert result.output == "b\nc"
    assert "lines 2 to 3 of 3" in result.text


async def test_lines_of_head_then_tail_are_shown(env: Environment) -> None:
    result = await run(env, "seq 100000 | head -n 50000 | tail -n 2")
    assert result.output == "49999\n50000\n"
    truncation = result.details.truncation
    assert truncation is not None
    assert (truncation.direction, truncation.shown_range) == ("head", ((49_999, 50_000),))


async def test_completely_shown_output_is_not_kept_or_mentioned(env: Environment) -> None:
    result = await run(env, "seq 3 | tail -n 5")
    assert result.output == "1\n2\n3\n"
    assert env.artifacts is not None
    assert env.artifacts.list() == []
    assert result.details.truncation is None
    assert "tail" not in result.text


async def test_lines_are_bounded_as_any_output(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path / "kept")
    limits = OutputLimits(budget=1_000)
    async with Environment.detect(shell="bash", artifacts=store, limits=limits) as env:
        result = await run(env, "seq 10000 | tail -n 5000")
        assert len(result.output) < 1_300
        assert result.output.endswith("9999\n10000\n")
        assert "lines 5,001 to 10,000 of 10,000, as far as there is room" in result.text
        truncation = result.details.truncation
        assert truncation is not None
        assert (truncation.direction, truncation.truncated_by) == ("both", "bytes")
        assert truncation.shown_range[0][0] == 5_001
        assert truncation.shown_range[-1][1] == 10_000


async def test_long_lines_are_cut_in_a_view(env: Environment) -> None:
    result = await run(env, "seq -s , 9999 | sed 'p;p' | head -n 2")
    truncation = result.details.truncation
    assert truncation is not None
    assert (truncation.truncated_by, truncation.shown_range) == ("lines", ((1, 2),))
    assert result.output.count("\n") == 2


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("ls -d / /none | tail -n 1", ["/none", "/\n"]),
        ("ls -d / /none | head -n 1", ["/\n", "/none"]),
    ],
)
async def test_stderr_outside_of_the_pipe_is_shown_whole(
    env: Environment, command: str, shown: list[str]
) -> None:
    result = await run(env, command)
    places = [result.output.index(each) for each in shown]
    assert places == sorted(places)
    assert result.details.truncation is None


async def test_stderr_is_not_counted_as_lines_of_the_view(env: Environment) -> None:
    result = await run(env, "bash -c 'seq 10; seq 901 910 >&2' | tail -n 2")
    assert result.output == "".join(f"{number}\n" for number in [*range(901, 911), 9, 10])
    truncation = result.details.truncation
    assert truncation is not None
    assert (truncation.shown_lines, truncation.total_lines, truncation.shown_range) == (12, 20, ((9, 10),))


@pytest.mark.parametrize("end", ["head -n 1", "tail -n 1"])
@pytest.mark.parametrize("command", ["bash -c 'seq 9; exit 3'", "bash -c 'exit 3'", "false", "none_such"])
async def test_exit_code_is_that_of_the_pipeline(env: Environment, command: str, end: str) -> None:
    for options in ("", "set -o pipefail\n"):
        # A text of more than one line runs unchanged.
        plain = await env.run(f"{options}{command} | {end}")
        tool = ShellTool(env, approver=approve_all, session=True, view_limits=True)
        if options:
            await tool({"command": options})
        result = await tool({"command": f"{command} | {end}"})
        assert result.details.command.endswith(TO_HEAD if "head" in end else "| cat")
        assert result.details.exit_code == plain.exit_code
        await tool.aclose()


async def test_output_without_an_end_is_stopped_as_by_head(env: Environment, tmp_path: Path) -> None:
    (tmp_path / "endless").symlink_to(shutil.which("yes") or "")
    result = await run(env, "./endless | head -n 5")
    assert result.output == "y\n" * 5
    assert result.details.status == "exited"
    assert result.details.truncation is not None
    assert result.details.truncation.total_bytes == LARGEST_WHOLE
    told = f"lines 1 to 5 of {LARGEST_WHOLE // 2:,} of the first {LARGEST_WHOLE:,} bytes, after which it was ended"
    assert told in result.text
    assert "These bytes: " in result.text
    assert "Whole output" not in result.text


async def test_known_endless_program_runs_unchanged(env: Environment) -> None:
    result = await run(env, "yes | head -n 5")
    assert result.details.command == "yes | head -n 5"
    assert result.output == "y\n" * 5


async def test_approver_sees_the_text_that_runs(env: Environment) -> None:
    asked: list[ApprovalRequest] = []

    async def approver(request: ApprovalRequest) -> Approved:
        asked.append(request)
        return Approved()

    tool = ShellTool(env, approver=approver, view_limits=True)
    result = await tool({"command": "cd / && seq 9 | tail -n 2"})
    (request,) = asked
    assert getattr(request, "text", None) == "seq 9 | cat" == result.details.command
    assert getattr(request, "original", None) == "cd / && seq 9 | tail -n 2"
    assert result.output == "8\n9\n"


async def test_lines_run_unchanged_by_default(env: Environment) -> None:
    result = await ShellTool(env, approver=approve_all)({"command": "seq 9 | head -n 2"})
    assert result.details.command == "seq 9 | head -n 2"
    assert result.details.truncation is None


async def test_lines_run_unchanged_without_artifacts() -> None:
    async with Environment.detect(shell="bash", artifacts=None) as env:
        result = await run(env, "seq 9 | head -n 2")
    assert result.details.command == "seq 9 | head -n 2"


async def test_job_that_goes_on_has_both_channels(env: Environment, tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path / "kept")
    async with Environment.detect(shell="bash", artifacts=store, background_after=0.5) as env:
        result = await run(env, "bash -c 'echo a; echo b >&2; sleep 30' | tail -n 1", jobs=True)
        assert result.details.status == "running"
        assert sorted(result.output.split()) == ["a", "b"]
        assert result.details.truncation is None


async def test_view_limits_need_the_extra(env: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anyshell.policy.parse.grammar.installed", lambda name: False)
    with pytest.raises(AnyshellError, match="view_limits needs the extra policy"):
        ShellTool(env, approver=approve_all, view_limits=True)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (
            r"printf './a.txt\0./b.txt\0'",
            r"2 NUL characters not shown: what they separate runs together. To see it, add | tr '\0' '\n'.",
        ),
        (
            r"printf 'h\0i\0'",
            "2 NUL characters not shown: it may be UTF-16, or what they separate runs together.",
        ),
        (r"printf 'abc\0d'", "1 NUL character not shown: "),
    ],
)
async def test_nul_characters_are_reported(env: Environment, command: str, said: str) -> None:
    result = await ShellTool(env, approver=approve_all)({"command": command})
    assert said in result.message
    assert "\0" not in result.text


async def test_output_without_nul_characters_has_no_notice(env: Environment) -> None:
    result = await ShellTool(env, approver=approve_all)({"command": "echo a"})
    assert result.message == "Exit code 0."
