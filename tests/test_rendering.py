"""Results as rich draws them for a person. Snapshots are in ``tests/snapshots/``."""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unicodedata import category

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from rich.panel import Panel
from wcwidth import wcwidth

from anyshell import AnyshellError, Environment, OutputLimits, ShellTool, approve_all
from anyshell._types import Artifact, Outcome, Output, OutputEvent, ProcessInfo
from anyshell.rendering import (
    COMMAND_ROWS,
    LIVE_BYTES,
    LONGEST_LINE,
    OWN_ROWS,
    PREVIEW_ROWS,
    RenderedCommand,
    RenderedResult,
)
from anyshell.tool import ShellResult
from anyshell.tool.result import DisplayBlock, JobResult, blocks

from .cli_program import either

if TYPE_CHECKING:
    from collections.abc import Callable

SNAPSHOTS = Path(__file__).parent / "snapshots"


def result_of(
    command: str = "true",
    output: str = "",
    *notices: str,
    title: str = "",
    is_error: bool = False,
    **details: Any,
) -> ShellResult:
    details = {
        "status": "exited",
        "exit_code": 0,
        "started": True,
        "duration": 1.25,
        "timeout": 120.0,
        **details,
    }
    said = list(notices) or [f"Exit code {details['exit_code']}."]
    shown = [DisplayBlock(type="command", text=command, title=title), *blocks(output, said)]
    return ShellResult.model_validate(
        {
            "is_error": is_error,
            "output": output,
            "message": " ".join(said),
            "text": "",
            "display": tuple(shown),
            "details": details,
        }
    )


def drawn(what: object, width: int, **how: Any) -> str:
    console = Console(
        width=width,
        file=io.StringIO(),
        record=True,
        force_terminal=True,
        color_system="truecolor",
        legacy_windows=False,
    )
    console.print(what, **how)
    return console.export_text(styles=False)


ARTIFACT = {
    "id": "20261120-215959-4f2a",
    "path": "/home/user/.local/state/anyshell/artifacts/20261120-215959-4f2a.log",
    "size": 1_234_567,
    "omitted_bytes": 0,
}

RESULTS = {
    "a few lines": result_of("git status --short", " M src/app.py\n?? notes.txt\n", title="What has changed"),
    "many lines": result_of("seq 40", "".join(f"{number}\n" for number in range(1, 41))),
    "long lines are the rows they take": result_of(
        "cat long", "first\n" + "".join(f"{char * 130}\n" for char in "abcdef") + "last\n"
    ),
    "wide characters and tabs": result_of(
        "cat 表",
        "名前\t値\n"
        + "日本語のとても長い行" * 9
        + "\ne\u0301té \U0001f468\u200d\U0001f469\u200d\U0001f467 end\n",
    ),
    "no markup and no controls": result_of(
        "printf '%s' '[red]'",
        "[bold]not bold[/bold] :smile: [link=http://x]\n\x1b[2J\x1b]0;t\x07\rgone\x9b1A\u202e\n",
    ),
    "a long command": result_of(
        "set -e\n" + "\n".join(f"step {number} && [ok]" for number in range(1, 8)),
        "done\n",
        title="Build, and run all of the tests of the project, and then say what it has come to",
    ),
    "cut": result_of(
        "make test",
        "start\n[... 1,183,367 bytes ...]\n" + "".join(f"test {number} failed\n" for number in range(15)),
        "Exit code 2 after 83.4 s.",
        f"Middle left out from line 400: 51,200 of 1,234,567 bytes shown. Whole output: {ARTIFACT['path']}. Search that; do "
        "not rerun.",
        is_error=True,
        exit_code=2,
        duration=83.4,
        timeout=600.0,
        truncation={
            "shown_bytes": 51_200,
            "total_bytes": 1_234_567,
            "shown_lines": 800,
            "total_lines": 20_000,
        },
        artifact=ARTIFACT,
    ),
    "killed": result_of(
        "./eat",
        "",
        "Ended by SIGKILL (exit code 137). This tool did not send that.",
        is_error=True,
        exit_code=137,
        signal="SIGKILL",
    ),
    "timed out": result_of(
        "sleep 300",
        "waiting\n",
        "Timed out after 10 s; it and all it started were stopped. If it waited for input, use options or stdin.",
        is_error=True,
        status="timed_out",
        exit_code=None,
        duration=10.02,
        timeout=10.0,
    ),
    "goes on as a job": result_of(
        "npm run dev",
        "ready\n",
        "Still running after 10 s: it goes on in the background as job j1.",
        status="running",
        exit_code=None,
        job="j1",
    ),
    "refused": result_of(
        "rm -rf /",
        "",
        "Not run. The user says: no.",
        is_error=True,
        status="refused",
        exit_code=None,
        started=False,
    ),
}


@pytest.mark.parametrize("width", [60, 100, 160])
def test_it_looks_as_it_did(width: int) -> None:
    parts = []
    for name, result in RESULTS.items():
        for expanded in (False, True):
            text = drawn(RenderedResult(result, expanded=expanded, hint="ctrl+o"), width)
            parts.append(f"=== {name}, {'expanded' if expanded else 'collapsed'}\n{text}")
    path = SNAPSHOTS / f"rendered_{width}.txt"
    text = "\n".join(parts)
    if os.environ.get("ANYSHELL_UPDATE_SNAPSHOTS") == "1":
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text, "if the new look is right: ANYSHELL_UPDATE_SNAPSHOTS=1"


@pytest.mark.parametrize("name", RESULTS)
@pytest.mark.parametrize("expanded", [False, True])
@pytest.mark.parametrize("width", [1, 2, 3, 7, 20, 60])
def test_no_row_is_wider_than_there_is_room(name: str, expanded: bool, width: int) -> None:
    for row in drawn(RenderedResult(RESULTS[name], expanded=expanded), width).splitlines():
        assert cell_len(row) <= width


JOINED = ("👩\u200d👩\u200d👧", "👍🏽", "🇩🇪", "☃\ufe0f", "#\ufe0f\u20e3", "e\u0301", "日", "\u200d", "a")


@given(
    st.lists(st.sampled_from(JOINED), max_size=60).map("".join),
    st.sampled_from(["command", "title", "output", "notice"]),
    st.integers(4, 60),
    st.booleans(),
)
def test_no_row_is_wider_where_what_is_joined_is_drawn_apart(
    text: str, where: str, width: int, expanded: bool
) -> None:
    shown = {"command": "c", "output": "o", "title": "", where: text}
    result = result_of(
        shown["command"], shown["output"], shown.get("notice", "Exit code 0."), title=shown["title"]
    )
    page = drawn(RenderedResult(result, expanded=expanded), width)
    for row in page.splitlines():
        assert max(cell_len(row), sum(max(0, wcwidth(char)) for char in row)) <= width
    if where == "output" and expanded:
        assert "".join(rows_of_output(page)) == text


def rows_of_output(text: str) -> list[str]:
    return [row.removeprefix("│ ").rstrip() for row in text.splitlines() if row.startswith("│ ")]


@given(
    st.text(alphabet="ab 日é\t\n[]/\\\x1b\x07\u202e", max_size=400), st.integers(24, 60), st.integers(1, 12)
)
def test_whatever_was_printed_a_preview_is_its_last_rows(output: str, width: int, rows: int) -> None:
    result = result_of("c", output)
    expanded = rows_of_output(drawn(RenderedResult(result, expanded=True), width))
    collapsed = drawn(RenderedResult(result, rows=rows), width)
    assert rows_of_output(collapsed) == expanded[-rows:]
    left_out = max(0, len(expanded) - rows)
    said = re.search(r"… (\d+) more rows? above", " ".join(collapsed.split()))
    assert (0 if said is None else int(said[1])) == left_out
    assert "\x1b" not in collapsed


@given(st.text(max_size=300), st.integers(1, 80), st.booleans())
def test_nothing_that_was_printed_is_obeyed_or_passes_for_ours(
    output: str, width: int, expanded: bool
) -> None:
    text = drawn(RenderedResult(result_of("c", f"{output}\nexit code 0"), expanded=expanded), width)
    for char in set(text) - set("\n"):
        assert char.isprintable() or category(char) in ("Zs", "Co") or char in "\u200c\u200d"
    if width >= 40:  # what we say stands on one row there
        ours = [row for row in text.splitlines() if not row.startswith(("$ ", "│ ", "… "))]
        assert len(ours) == 1
        assert ours[0].startswith("exit code 0 · ")


@pytest.mark.parametrize("kind", ["command", "output", "notice"])
def test_blocks_of_whatever_origin_are_harmless(kind: str) -> None:
    """As JSON has them that another program has stored."""
    evil = "\x1b[2Ja\rb\x9b1A\u202e\nc"
    stored = json.loads(result_of("c").model_dump_json())
    stored["display"] = [{"type": kind, "text": evil, "title": evil}]
    stored["details"]["artifact"] = {**ARTIFACT, "path": evil, "id": evil}
    text = drawn(RenderedResult(ShellResult.model_validate_json(json.dumps(stored)), hint=evil), 100)
    assert not {"\x1b", "\r", "\x9b", "\u202e"} & set(text)
    assert r"\x1b[2Ja\x0db\x9b1A\u202e" in text


def test_how_much_is_shown_is_the_caller_s() -> None:
    result = RESULTS["many lines"]
    assert len(rows_of_output(drawn(RenderedResult(result), 80))) == PREVIEW_ROWS == 10
    assert len(rows_of_output(drawn(RenderedResult(result, rows=3), 80))) == 3
    assert len(rows_of_output(drawn(RenderedResult(result, expanded=True), 80))) == 40
    long = drawn(RenderedResult(RESULTS["a long command"]), 80)
    assert long.count("step") == COMMAND_ROWS - 1
    with pytest.raises(ValueError, match="at least 1"):
        RenderedResult(result, rows=0)


def test_a_hint_is_no_markup_either() -> None:
    assert "(\\x1b[red])" in drawn(RenderedResult(RESULTS["many lines"], hint="\x1b[red]"), 80)


def test_it_can_stand_in_something_else() -> None:
    text = drawn(Panel(RenderedResult(RESULTS["many lines"])), 40)
    assert all(cell_len(row) == 40 for row in text.splitlines())


def test_what_is_wrong_is_red_and_what_is_cut_a_warning() -> None:
    console = Console(
        width=80, file=io.StringIO(), force_terminal=True, color_system="standard", legacy_windows=False
    )
    console.print(RenderedResult(RESULTS["cut"]))
    printed = console.file.getvalue()  # type: ignore[attr-defined]  # it is the one above
    assert "\x1b[31mexit code 2\x1b[0m" in printed
    assert "\x1b[33m! \x1b[0m\x1b[33mMiddle left out from line 400: 51,200 of 1,234,567 bytes" in printed
    plain = Console(width=80, file=io.StringIO(), force_terminal=True, no_color=True, legacy_windows=False)
    plain.print(RenderedResult(RESULTS["cut"]))
    assert not re.search(r"\x1b\[(?:\d+;)*3\d", plain.file.getvalue())  # type: ignore[attr-defined]  # as above


def test_a_console_without_unicode_gets_none_of_ours() -> None:
    file = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    Console(width=80, file=file, force_terminal=True, color_system=None).print(RenderedResult(RESULTS["cut"]))
    file.flush()
    assert "| test 14 failed" in file.buffer.getvalue().decode("ascii")


@pytest.mark.anyio
async def test_a_real_result_is_drawn(tmp_path: Path) -> None:
    """The words for what is cut are those of the tool."""
    command = either("seq 5000; exit 3", "1..5000; exit 3")
    async with Environment.detect(limits=OutputLimits(head=200, tail=200)) as env:
        result = await ShellTool(env, approver=approve_all)({"command": command, "description": "Count"})
    again = ShellResult.model_validate_json(result.model_dump_json())
    text = drawn(RenderedResult(again), 100)
    assert text.startswith(f"# Count\n$ {command}\n… ")
    assert "│ 5000\n" in text
    said = " ".join(text.split())
    assert result.details.truncation is not None
    assert (
        f"{result.details.truncation.shown_bytes:,} of {result.details.truncation.total_bytes:,} bytes shown."
        in said
    )
    assert result.details.artifact is not None
    assert result.details.artifact.path in text.replace("\n", "")
    assert re.search(r"\nexit code 3 · \d+\.\d s · timeout 120 s", text)
    assert text.count("bytes shown") == 1


def test_results_of_the_other_tools_are_drawn_too() -> None:
    job = JobResult.model_validate(
        {
            "is_error": False,
            "output": "a",
            "message": "m",
            "text": "",
            "display": blocks("a\n", ["m."]),
            "details": {"status": "done", "action": "output"},
        }
    )
    assert drawn(RenderedResult(job), 60) == "│ a\n- m.\ndone\n"
    terminal = JobResult.model_validate(
        {
            "is_error": False,
            "output": "a",
            "message": "m",
            "text": "",
            "display": blocks("", ["7 lines before that left out."]),
            "details": {"status": "done", "action": "send", "terminal": "t1", "running": True, "left_out": 7},
        }
    )
    assert drawn(RenderedResult(terminal), 40) == "! 7 lines before that left out.\ndone\n"
    over = terminal.model_copy(
        update={
            "details": terminal.details.model_copy(update={"running": False, "exit_code": 3, "left_out": 0})
        }
    )
    assert drawn(RenderedResult(over), 40) == "- 7 lines before that left out.\nexit code 3\n"


def test_rich_is_loaded_for_it_alone() -> None:
    program = "import anyshell, anyshell.tool, anyshell.cli.program, sys; print('rich' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout == "False\n"


# A person's own commands


def printed(text: str, **details: Any) -> Output:
    return Output(text=text, total_bytes=len(text.encode()), total_lines=text.count("\n"), **details)


def fed(*chunks: str, command: str = "make", **how: Any) -> RenderedCommand:
    shown = RenderedCommand(command, clock=iter([0.0, *[83.0] * 99]).__next__, **how)
    for chunk in chunks:
        shown.feed(OutputEvent(channel="stdout", data=chunk.encode(), text=chunk))
    return shown


def interrupted(error: BaseException) -> RenderedCommand:
    shown = fed("building\n", "half a li")
    shown.finish(error)
    return shown


NUMBERS = "".join(f"{number}\n" for number in range(1, 41))

OWN: dict[str, Callable[[dict[str, Any]], RenderedCommand]] = {
    "running": lambda how: fed("\r 10%", "\r 20%\x1b[32", "m\n", NUMBERS, "half a \x1b[1mli", **how),
    "nothing printed yet": lambda how: fed(command="sleep 5", **how),
    "exited with 0": lambda how: RenderedCommand(
        "seq 40", Outcome(status="exited", exit_code=0, output=printed(NUMBERS), duration=0.25), **how
    ),
    "exited with 3": lambda how: RenderedCommand(
        "false\nexit 3",
        Outcome(status="exited", exit_code=3, output=printed("no [red]\n"), duration=0.1),
        **how,
    ),
    "ended by a signal": lambda how: RenderedCommand(
        "./eat", Outcome(status="exited", exit_code=137, signal="SIGKILL", duration=61.0), **how
    ),
    "cancelled": lambda how: RenderedCommand(
        "sleep 300", Outcome(status="cancelled", output=printed("so far\n"), duration=2.5), **how
    ),
    "cancelled before it has an outcome": lambda how: interrupted(asyncio.CancelledError()),
    "interrupted": lambda how: interrupted(KeyboardInterrupt()),
    "timed out": lambda how: RenderedCommand("sleep 300", Outcome(status="timed_out", duration=10.0), **how),
    "not started": lambda how: RenderedCommand(
        "sleep 300", Outcome(status="timed_out", duration=10.0, started=False), **how
    ),
    "lost": lambda how: RenderedCommand("make", Outcome(status="lost", duration=3.0), **how),
    "goes on as a job": lambda how: RenderedCommand(
        "npm run dev", Outcome(status="running", job="j1", output=printed("ready\n"), duration=10.0), **how
    ),
    "error": lambda how: interrupted(AnyshellError("the connection to 'box' was lost: Broken pipe\x1b[2J")),
    "error without words": lambda how: interrupted(RuntimeError()),
    "channels apart, something left running, all kept": lambda how: RenderedCommand(
        "serve",
        Outcome(
            status="exited",
            exit_code=1,
            output=printed("out\n", artifact=Artifact("a1", Path("a1.out"), 1_234_567)),
            stderr=printed("err 1\nerr 2\n", artifact_error="No space left on device"),
            duration=1.0,
            left_behind=tuple(
                [ProcessInfo(7, "gone", 1.0, alive=False)]
                + [ProcessInfo(1_000 + number, "server\x1b", 1.0) for number in range(7)]
            ),
        ),
        **how,
    ),
    "lines too long": lambda how: RenderedCommand(
        "cat x.min.js",
        Outcome(
            status="exited",
            exit_code=0,
            output=printed("first\n" + "x" * 4_100 + "\nlast " + "y" * 300 + "\n"),
        ),
        **how,
    ),
}


@pytest.mark.parametrize("width", [60, 100, 160])
def test_own_command_looks_as_it_did(width: int) -> None:
    parts = []
    for name, make in OWN.items():
        for expanded in (False, True):
            text = drawn(make({"expanded": expanded, "hint": "ctrl+o"}), width)
            parts.append(f"=== {name}, {'expanded' if expanded else 'collapsed'}\n{text}")
    path = SNAPSHOTS / f"rendered_own_{width}.txt"
    text = "\n".join(parts)
    if os.environ.get("ANYSHELL_UPDATE_SNAPSHOTS") == "1":
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text, "if the new look is right: ANYSHELL_UPDATE_SNAPSHOTS=1"


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("width", [1, 2, 7, 24, 60])
def test_no_row_of_an_own_command_is_wider_than_there_is_room(name: str, width: int) -> None:
    for expanded in (False, True):
        for row in drawn(OWN[name]({"expanded": expanded, "hint": "ctrl+o"}), width).splitlines():
            assert cell_len(row) <= width


def test_own_command_shows_its_last_rows_while_it_runs_and_all_that_is_kept_when_expanded() -> None:
    shown = fed("".join(f"{number}\n" for number in range(1, 101)))
    text = drawn(shown, 80)
    assert rows_of_output(text) == [str(number) for number in range(81, 101)]
    assert len(rows_of_output(text)) == OWN_ROWS == 20
    assert "… 80 more lines above\n" in text
    assert text.endswith("\nrunning · 1 min 23 s\n")
    shown.expanded = True
    assert len(rows_of_output(drawn(shown, 80))) == 100
    shown.expanded = False
    shown.feed(OutputEvent(channel="stdout", data=b"101\n", text="101"))  # by lines
    assert rows_of_output(drawn(shown, 80))[-2:] == ["100", "101"]
    assert "… 81 more lines above\n" in drawn(shown, 80)


def test_own_command_counts_lines_that_are_not_kept() -> None:
    chunk = "".join(f"{number:07}\n" for number in range(10_000))
    shown = fed(*[chunk] * 40, expanded=True)
    text = drawn(shown, 80)
    kept = rows_of_output(text)
    assert kept[-1] == "0009999"
    assert len(kept) * 8 <= LIVE_BYTES
    assert f"… {400_000 - len(kept):,} more lines above\n" in text


def test_line_of_an_own_command_has_4000_characters_at_most() -> None:
    for shown in (
        RenderedCommand(
            "c", Outcome(status="exited", exit_code=0, output=printed("é" * 5_000 + "\nend\n")), expanded=True
        ),
        fed("é" * 5_000 + "\nend\n", expanded=True),
        fed(*["é" * 50] * 100, "\nend", expanded=True),
    ):
        text = "".join(rows_of_output(drawn(shown, 100)))
        assert text.count("é") == LONGEST_LINE == 4_000
        assert "line cut: 2,000" in text
        assert text.endswith("end")


def test_half_a_sequence_or_character_of_a_chunk_is_not_shown() -> None:
    shown = fed("a\x1b[3")
    shown.feed(OutputEvent(channel="stdout", data=b"1mred\x1b[0m\rb", text="1mred\x1b[0m\rb"))
    assert rows_of_output(drawn(shown, 80)) == ["bred"]


def test_own_command_can_be_drawn_while_another_thread_feeds_it() -> None:
    shown = RenderedCommand("make")
    done = threading.Event()
    failures: list[BaseException] = []

    def draw() -> None:
        try:
            while not done.is_set():
                drawn(shown, 80)
        except BaseException as error:  # noqa: BLE001 - it is raised again below
            failures.append(error)

    thread = threading.Thread(target=draw)
    thread.start()
    try:
        for number in range(20_000):
            shown.feed(OutputEvent(channel="stdout", data=b"x\n", text=f"{number}\n"))
    finally:
        done.set()
        thread.join()
    assert failures == []
    assert rows_of_output(drawn(shown, 80))[-1] == "19999"


def test_ends_of_an_own_command_have_colours_of_their_own() -> None:
    def printed_by(name: str) -> str:
        console = Console(
            width=80, file=io.StringIO(), force_terminal=True, color_system="standard", legacy_windows=False
        )
        console.print(OWN[name]({}))
        return str(console.file.getvalue())  # type: ignore[attr-defined]  # it is the one above

    assert "\x1b[32mexit code 0\x1b[0m" in printed_by("exited with 0")
    assert "\x1b[31mexit code 3\x1b[0m" in printed_by("exited with 3")
    assert "\x1b[33mcancelled\x1b[0m" in printed_by("cancelled")
    assert "\x1b[31merror\x1b[0m" in printed_by("error")
    assert "\x1b[36mrunning\x1b[0m" in printed_by("running")


def test_outcome_is_drawn_where_a_result_is_expected() -> None:
    outcome = Outcome(status="exited", exit_code=0, output=printed(NUMBERS), duration=0.25)
    text = drawn(RenderedResult(outcome, hint="\x1b"), 80)
    assert len(rows_of_output(text)) == PREVIEW_ROWS
    assert "… 30 more lines above (\\x1b)\n" in text
    assert text.endswith("exit code 0 · 0.2 s\n")
    with pytest.raises(ValueError, match="at least 1"):
        RenderedCommand("c", rows=0)


@pytest.mark.anyio
@pytest.mark.parametrize("by", ["lines", "chunks"])
async def test_real_stream_is_drawn_as_it_comes(by: Any) -> None:
    command = either("echo one; echo two; exit 3", "echo one; echo two; exit 3")
    shown = RenderedCommand(command)
    async with Environment.detect() as env, env.stream(command, by=by) as stream:
        async for event in stream:
            shown.feed(event)
            live = drawn(shown, 80)
            assert live.startswith(f"$ {command}\n")
            assert "\nrunning · " in live
        assert rows_of_output(drawn(shown, 80)) == ["one", "two"]
    shown.finish(stream.outcome)
    assert re.fullmatch(rf"\$ {command}\n│ one\n│ two\nexit code 3 · \d+\.\d s\n", drawn(shown, 80))


@pytest.mark.anyio
async def test_cancelled_task_of_an_own_command_is_drawn_as_cancelled() -> None:
    command = either("echo begun; sleep 300", "echo begun; Start-Sleep 300")
    shown = RenderedCommand(command)
    begun = asyncio.Event()

    async def run(env: Environment) -> None:
        try:
            async with env.stream(command) as stream:
                async for event in stream:
                    shown.feed(event)
                    begun.set()
        except asyncio.CancelledError as error:
            shown.finish(error)
            raise

    async with Environment.detect() as env:
        task = asyncio.ensure_future(run(env))
        await asyncio.wait_for(begun.wait(), 60)
        task.cancel()
        await asyncio.wait([task])
    text = drawn(shown, 80)
    assert task.cancelled()
    assert rows_of_output(text) == ["begun"]
    assert "\ncancelled · " in text
