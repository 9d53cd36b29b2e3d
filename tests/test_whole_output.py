"""The whole of an output, and the report of a failed command."""

from __future__ import annotations

import dataclasses
import json
import os
import pickle
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import anyshell
from anyshell import ArtifactStore, CommandFailed, Environment, Outcome, OutputLimits, Terminal
from anyshell.errors import OutputIncomplete
from anyshell.output import ExactOutput, TerminalOutput
from anyshell.types import Artifact, Output, OutputBuilder, Redaction

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def env(tmp_path: Path) -> AsyncIterator[Environment]:
    store = ArtifactStore(tmp_path / "kept")
    async with Environment.detect(shell="sh", cwd=tmp_path, artifacts=store) as env:
        yield env


LONG = json.dumps({"key": "x" * 5000})


def built(data: bytes, store: ArtifactStore | None = None) -> Output:
    builder = OutputBuilder(head=40, tail=60, artifacts=store)
    builder.feed(data)
    return builder.finish()


def test_small_output_is_held() -> None:
    data = b"a\rb\0\x1b[1mc\xff\n"
    output = built(data)
    assert output.text != data.decode(errors="replace")
    assert (output.data, output.read(), output.read(2, 3), output.kept) == (data, data, data[2:5], True)


def test_large_output_is_read_from_its_artifact(tmp_path: Path) -> None:
    data = b"".join(b"%d\r\n" % number for number in range(1000))
    output = built(data, ArtifactStore(tmp_path))
    assert output.truncated
    assert output.artifact is not None
    assert output._held is None
    assert (output.data, output.read(10, 20), output.read(len(data))) == (data, data[10:30], b"")


@pytest.mark.parametrize("piece", [b"\0", b"step\r", b"\x1b[1m"])
def test_large_output_with_a_small_text_is_whole(tmp_path: Path, piece: bytes) -> None:
    output = built(piece * 1000, ArtifactStore(tmp_path))
    assert not output.truncated
    assert output.kept
    assert output.data == piece * 1000


def test_large_drawing_with_a_small_text_is_whole(tmp_path: Path) -> None:
    builder = TerminalOutput(Terminal(), head=40, tail=60, artifacts=ArtifactStore(tmp_path))
    builder.feed(b"step\r" * 1000)
    assert not builder.finish().truncated
    assert builder.finish().data == b"step\r" * 1000


def test_read_past_the_end_returns_the_rest(tmp_path: Path) -> None:
    output = built(b"x\n" * 1000, ArtifactStore(tmp_path))
    assert output.read(1990, 10**15) == b"x\n" * 5  # the machine has less memory than that


@pytest.mark.parametrize(
    ("text", "why"), [("1" * 5000, "digits"), ("[" * 100_000, "recursion|Stack overflow")]
)
def test_json_rejected_by_python_is_an_error(text: str, why: str) -> None:
    for status, error in ((0, json.JSONDecodeError), (1, CommandFailed)):
        outcome = Outcome(status="exited", exit_code=status, output=Output(text=text))
        with pytest.raises(error, match=why if status == 0 else "exit code 1"):
            outcome.json()


def test_data_of_an_unkept_output_is_an_error() -> None:
    output = built(b"x\n" * 1000)
    assert not output.kept
    with pytest.raises(OutputIncomplete, match=r"of the 2,000 bytes .* only the text was kept: give limits="):
        _ = output.data


def test_data_of_a_missing_artifact_is_an_error(tmp_path: Path) -> None:
    output = built(b"x\n" * 1000, ArtifactStore(tmp_path))
    assert output.artifact is not None
    elsewhere = pickle.loads(pickle.dumps(output))
    assert elsewhere.data == b"x\n" * 1000
    output.artifact.path.unlink()
    for each in (output, elsewhere):
        with pytest.raises(OutputIncomplete, match="is not on this machine, or not any more"):
            _ = each.data


def test_data_of_a_shortened_artifact_is_an_error(tmp_path: Path) -> None:
    output = built(b"x\n" * 1000, ArtifactStore(tmp_path))
    assert output.artifact is not None
    output.artifact.path.write_bytes(b"x\n" * 10)
    with pytest.raises(OutputIncomplete, match="of the 2,000 bytes of this output only 20 are kept"):
        _ = output.data


def test_output_beyond_the_cap_of_an_artifact_is_readable_without_data(tmp_path: Path) -> None:
    output = built(b"x\n" * 1000, ArtifactStore(tmp_path, max_size=160))
    with pytest.raises(OutputIncomplete, match="1,840 of the 2,000 bytes of this output were not kept"):
        _ = output.data
    assert b"1840 bytes were left out here" in output.read()


def test_negative_offsets_are_refused() -> None:
    with pytest.raises(ValueError, match="0 or more"):
        built(b"x").read(-1)


def test_output_made_from_text_has_the_text_as_data() -> None:
    assert Outcome(status="exited", exit_code=0, output=Output(text="[1]")).json() == [1]


async def test_bounded_text_breaks_json_where_the_whole_output_does_not(env: Environment) -> None:
    outcome = await env.run(f"printf '%s\\n' '{LONG}'")
    with pytest.raises(ValueError, match=r"Unterminated|delimiter|Invalid"):
        json.loads(outcome.check().output.text)
    assert outcome.output.truncated
    assert outcome.json() == json.loads(LONG)


async def test_unlimited_text_equals_the_output(env: Environment) -> None:
    outcome = await env.run(
        rf"printf 'a\rb\000\033[1mc\377\r\n'; printf '%s' '{LONG}'", limits=OutputLimits.unlimited()
    )
    assert outcome.output.text == "a\rb\0\x1b[1mc\ufffd\r\n" + LONG
    assert not outcome.output.truncated
    assert outcome.output.data == b"a\rb\0\x1b[1mc\xff\r\n" + LONG.encode()
    assert outcome.output.total_lines == 1


async def test_output_over_unlimited_is_bounded_and_kept(env: Environment) -> None:
    outcome = await env.run("seq 5000", limits=OutputLimits.unlimited(up_to=1000))
    assert outcome.output.truncated
    assert len(outcome.output.text) < 1400
    assert outcome.output.data == b"".join(b"%d\n" % number for number in range(1, 5001))


def test_exact_text_heeds_a_code_page() -> None:
    output = ExactOutput(100, OutputBuilder, code_page=1252)
    for piece in (b"plain \xc3\xa4 ", b"\x80 5\r\n"):
        output.feed(piece)
    assert output.finish().text == "plain ä € 5\r\n"
    assert output.finish() is output.finish()


def test_exact_output_is_not_held_beyond_its_limit(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path)
    output = ExactOutput(100, lambda: OutputBuilder(head=20, tail=80, artifacts=store))
    for _ in range(50):
        output.feed(b"0123456789\n")
    assert not output._held
    output.close()
    assert not list(tmp_path.iterdir())


def test_exact_limits_exclude_keep_from() -> None:
    with pytest.raises(ValueError, match="leave out keep_from"):
        OutputLimits(exact=True, keep_from=1)


async def test_data_means_the_same_for_every_way_to_run(env: Environment) -> None:
    async with env.session() as session:
        assert (await session.run(r"printf 'a\rb'")).output.data == b"a\rb"
    async with env.stream(r"printf 'a\rb'") as events:
        async for _ in events:
            pass
        assert events.outcome.output.data == b"a\rb"
    job = await env.start("seq 50000")
    assert (ended := await job.wait()) is not None
    assert ended.output.data == b"".join(b"%d\n" % number for number in range(1, 50001))
    apart = await env.run("echo out; echo err >&2", split_stderr=True)
    assert apart.stderr is not None
    assert (apart.output.data, apart.stderr.data) == (b"out\n", b"err\n")
    shown = await env.run(r"printf '\033[1mx\n'", terminal=Terminal())
    assert shown.output.data == b"\x1b[1mx\r\n"


async def test_json_error_names_the_fault(env: Environment) -> None:
    with pytest.raises(json.JSONDecodeError, match=r"is not JSON; .* split_stderr=True: Expecting value"):
        (await env.run("echo warning >&2; echo {}")).json()
    apart = await env.run("echo warning >&2; echo '{}'", split_stderr=True)
    assert apart.json() == {}
    with pytest.raises(json.JSONDecodeError, match="is not JSON: Expecting value"):
        (await env.run("echo no", split_stderr=True)).json()
    with pytest.raises(json.JSONDecodeError, match="not UTF-8"):
        (await env.run(r"printf '\377'")).json()
    with pytest.raises(CommandFailed, match="exit code 4: exit 4"):
        (await env.run("exit 4")).json()
    assert (await env.run("echo '[]'; exit 4")).json() == []


def test_outcome_is_no_boolean() -> None:
    failed = Outcome(status="exited", exit_code=1)
    assert (failed.ok, Outcome(status="exited", exit_code=0).ok) == (False, True)
    with pytest.raises(TypeError, match=r"ask \.ok"):
        bool(failed)


async def test_failure_shows_the_command_and_its_last_lines(env: Environment) -> None:
    outcome = await env.run(
        "printf 'one\ntwo\n' >&2; printf 'out\033]0;t\007'; exit 3",
        env={"TOKEN": "hunter2"},
        stdin="typed",
        split_stderr=True,
    )
    with pytest.raises(CommandFailed) as caught:
        outcome.check()
    assert str(caught.value).split("\n") == [
        r"the command ended with exit code 3: printf 'one\ntwo\n' >&2; printf 'out\x1b]0;t\x07'; exit 3",
        "  one",
        "  two",
    ]
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


async def test_failure_is_shortened(env: Environment) -> None:
    with pytest.raises(CommandFailed) as caught:
        (await env.run(f": {'x' * 5000}; seq 100000; exit 1")).check()
    first, *lines, last = str(caught.value).split("\n")
    assert len(first) < 300
    assert lines == [f"  {number}" for number in range(99996, 100001)]
    assert last == "  (.outcome.output.text is truncated; .outcome.output.data has all 588,895 bytes)"


def test_truncation_is_named_where_nothing_was_kept() -> None:
    with pytest.raises(CommandFailed) as caught:
        Outcome(status="exited", exit_code=1, output=built(b"x\n" * 1000)).check()
    assert str(caught.value).endswith("\n  (.outcome.output.text is truncated)")


async def test_failure_has_secrets_masked(tmp_path: Path) -> None:
    redact = Redaction(values=("swordfish-2",))
    async with Environment.detect(shell="sh", cwd=tmp_path, redact=redact) as env:
        outcome = await env.run("echo swordfish-2 >&2; false")
    with pytest.raises(CommandFailed) as caught:
        outcome.check()
    assert str(caught.value) == "the command ended with exit code 1: echo [secret] >&2; false\n  [secret]"


def test_terse_errors_have_no_command_and_no_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANYSHELL_ERRORS", "terse")
    with pytest.raises(CommandFailed) as caught:
        anyshell.run("echo secret; exit 3").check()
    assert str(caught.value) == "the command ended with exit code 3; its output is in .outcome.output"


def test_private_fields_stay_private() -> None:
    output = Output(text="a", total_bytes=1, _held=b"a", artifact=Artifact("i", Path(os.devnull), 1))
    assert output == dataclasses.replace(output, _held=None)
    assert "_held" not in repr(output)
