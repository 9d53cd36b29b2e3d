"""A tool that omits noise: the output for a model, the kept output, and cases in which nothing is omitted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from anyshell import AnyshellError, ArtifactStore, Environment, OutputLimits, ShellTool, approve_all
from anyshell.rendering import RenderedResult

from .test_rendering import drawn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from anyshell.tool import ShellResult

pytestmark = pytest.mark.anyio

FAKE = """#!/bin/sh
for i in $(seq ${N:-100}); do echo "tests/test_a.py::test_$i PASSED  [ 50%]"; done
for i in $(seq ${LONG:-0}); do echo "a.py:$i: DeprecationWarning: old"; done
echo "== the end =="
[ -z "$CODE" ] || echo "FAILED a.py::test_b"
[ -z "$SIGNAL" ] || kill -9 $$
exit ${CODE:-0}
"""


@pytest.fixture
async def env(tmp_path: Path) -> AsyncIterator[Environment]:
    program = tmp_path / "pytest"
    program.write_text(FAKE)
    program.chmod(0o755)
    store = ArtifactStore(tmp_path / "kept")
    async with Environment.detect(shell="bash", cwd=tmp_path, artifacts=store) as env:
        yield env


async def run(env: Environment, command: str = "./pytest -v", **options: Any) -> ShellResult:
    tool = ShellTool(env, approver=approve_all, minimize=True, **options)
    return await tool({"command": command})


@pytest.mark.parametrize("options", [{}, {"session": True}, {"jobs": True}, {"terminals": True}], ids=str)
async def test_noise_is_left_out_and_the_whole_is_kept(env: Environment, options: dict[str, Any]) -> None:
    result = await run(env, "./pytest -v", **options)
    artifact, left = result.details.artifact, result.details.minimized
    assert artifact is not None
    assert left is not None
    whole = (env.artifacts or ArtifactStore()).read(artifact.id).decode()
    assert whole.count("PASSED") == 100
    assert result.output == "== the end ==\n"
    lines = result.text.split("\n")
    assert lines[:2] == ["== the end ==", ""]
    assert all(line.startswith("[anyshell] ") for line in lines[2:])
    assert lines[-1] == f"[anyshell] [raw output: artifact://{artifact.id}]"
    assert lines[-2].startswith("[anyshell] Noise left out by the rule pytest: 1 of 101 lines shown.")
    assert left.model_dump() == {
        "rule": "pytest",
        "dropped_bytes": len(whole) - len("== the end ==\n"),
        "dropped_lines": 100,
        "grouped": False,
        "truncated": False,
    }
    assert result.details.truncation is not None
    assert result.details.truncation.shown_lines == 1
    assert result.details.truncation.shown_range == ()
    assert result.details.truncation.direction is None
    seen = drawn(RenderedResult(result), 200)
    assert "\n! Noise left out by the rule pytest: 1 of 101 lines shown.\nexit code 0 · " in seen
    assert f"\nartifact://{artifact.id} · " in seen


async def test_failure_has_its_exit_code_and_relevant_lines(env: Environment) -> None:
    result = await run(env, "CODE=1 ./pytest -v")
    assert result.is_error
    assert result.details.minimized is not None
    assert result.output == "== the end ==\nFAILED a.py::test_b\n"
    assert "Exit code 1." in result.text


@pytest.mark.parametrize(
    "command",
    [
        "CODE=2 ./pytest -v",
        "SIGNAL=1 ./pytest -v",
        "! ./pytest -v",
        "./pytest -v | cat",
        "./pytest -v; true",
        "./pytest -v || true",
        "N=10 ./pytest -v",
        "seq 1000",
    ],
)
async def test_nothing_is_left_out_on_doubt(env: Environment, command: str) -> None:
    result = await run(env, command)
    assert env.artifacts is not None
    assert env.artifacts.list() == []
    assert result.details.minimized is None
    assert result.details.artifact is None
    assert result.details.truncation is None
    assert "artifact" not in result.text


async def test_output_over_the_budget_is_minimized_as_a_whole(tmp_path: Path, env: Environment) -> None:
    result = await run(env, "N=3000 ./pytest -v")
    assert result.output == "== the end ==\n"
    assert result.details.minimized is not None
    assert result.details.minimized.dropped_lines == 3000


async def test_remaining_text_is_bounded_as_any(tmp_path: Path) -> None:
    program = tmp_path / "pytest"
    program.write_text(FAKE)
    program.chmod(0o755)
    store = ArtifactStore(tmp_path / "kept")
    limits = OutputLimits(budget=2_000)
    async with Environment.detect(shell="bash", cwd=tmp_path, artifacts=store, limits=limits) as env:
        result = await run(env, "LONG=200 ./pytest -v")
        assert result.details.minimized is not None
        assert result.details.minimized.truncated
        assert "PASSED" not in result.output
        assert "lines" in result.output
        assert len(result.output) < 2_300
        assert "still too long" in result.message
        assert result.details.truncation is not None
        assert result.details.truncation.total_lines == 301


async def test_nothing_is_left_out_where_the_whole_is_not_kept(tmp_path: Path, env: Environment) -> None:
    assert env.artifacts is not None
    env.artifacts.directory.write_text("no directory")
    result = await run(env)
    assert result.details.minimized is None
    assert result.output.count("PASSED") == 100
    async with Environment.detect(shell="bash", cwd=tmp_path, artifacts=None) as other:
        assert (await run(other)).output.count("PASSED") == 100


async def test_nothing_is_left_out_by_default(env: Environment) -> None:
    result = await ShellTool(env, approver=approve_all)({"command": "./pytest -v"})
    assert result.output.count("PASSED") == 100
    assert result.details.minimized is None
    assert not env.artifacts or env.artifacts.list() == []


async def test_lines_are_grouped_if_all_are_shown(tmp_path: Path, env: Environment) -> None:
    (tmp_path / "some-long-name.txt").write_text("x\n" * 100)
    (tmp_path / "some-other-name.txt").write_text("x\n" * 100)
    result = await run(env, "grep -n x some-long-name.txt some-other-name.txt")
    left = result.details.minimized
    assert left is not None
    assert left.grouped
    assert left.dropped_lines == 0
    assert result.output.startswith("some-long-name.txt:\n  1:x\n  2:x\n")
    assert result.text.split("\n")[-2].endswith("that is not indented. 200 of 200 lines shown.")
    limits = OutputLimits(budget=500)
    async with Environment.detect(
        shell="bash", cwd=tmp_path, artifacts=env.artifacts, limits=limits
    ) as small:
        result = await run(small, "grep -n x some-long-name.txt some-other-name.txt")
    assert result.details.minimized is None
    assert "some-long-name.txt:1:x" in result.output


async def test_command_after_a_cd_is_minimized_in_a_session(tmp_path: Path, env: Environment) -> None:
    (tmp_path / "sub").mkdir()
    for options in ({}, {"session": True}):
        result = await run(env, "cd sub && ../pytest -v", **options)
        assert result.details.minimized is not None
        assert result.output == "== the end ==\n"


async def test_terminal_is_left_alone(env: Environment) -> None:
    tool = ShellTool(env, approver=approve_all, minimize=True, terminals=True)
    result = await tool({"command": "./pytest -v", "pty": True})
    assert result.output.count("PASSED") == 100


async def test_own_rules_come_first(tmp_path: Path, env: Environment) -> None:
    own = tmp_path / "own.toml"
    own.write_text('[[rule]]\nname = "mine"\ncommand = ["pytest"]\nstrip = ["== "]\n')
    tool = ShellTool(env, approver=approve_all, minimize=[own])
    result = await tool({"command": "LONG=20 ./pytest -v"})
    assert result.details.minimized is None, "too little would be saved"
    own.write_text('[[rule]]\nname = "mine"\ncommand = ["pytest"]\nstrip = ["tests.*1 PASSED"]\n')
    tool = ShellTool(env, approver=approve_all, minimize=[str(own)])
    result = await tool({"command": "LONG=20 ./pytest -v"})
    assert result.details.minimized is not None
    assert result.details.minimized.rule == "mine"
    assert result.output.count("PASSED") == 90


async def test_bad_file_of_rules_is_refused(tmp_path: Path, env: Environment) -> None:
    own = tmp_path / "own.toml"
    own.write_text('[[rule]]\nname = "mine"\ncommand = ["x"]\nstrip = ["x"]\non_empty = "no errors"\n')
    with pytest.raises(AnyshellError, match=r"own\.toml:1: on_empty: .*verdict"):
        ShellTool(env, approver=approve_all, minimize=[own])
    with pytest.raises(AnyshellError, match=r"missing\.toml cannot be read"):
        ShellTool(env, approver=approve_all, minimize=[tmp_path / "missing.toml"])
    with pytest.raises(AnyshellError, match="minimize must be"):
        ShellTool(env, approver=approve_all, minimize="own.toml")
