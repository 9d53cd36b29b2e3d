"""The lines of a terminal while its program still prints: new lines, and lines that may still change."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyshell import Environment, Terminal
from anyshell.output import TerminalOutput
from anyshell.types import TerminalLines

SMALL = Terminal(columns=10, rows=3)


def fed(*pieces: bytes, terminal: Terminal = SMALL, head: int = 1000, tail: int = 1000) -> TerminalOutput:
    output = TerminalOutput(terminal, head=head, tail=tail)
    for piece in pieces:
        output.feed(piece)
    return output


def test_scrolled_lines_are_final_but_for_the_last() -> None:
    output = fed(b"".join(b"%d\r\n" % number for number in range(6)))
    assert output.lines() == TerminalLines(first=0, texts=tuple("012345"), final=3)
    assert output.lines(since=3) == TerminalLines(first=3, texts=tuple("345"), final=3)
    assert output.lines(since=5).texts == ("5",)
    output.feed(b"6")
    assert output.lines(since=3).texts == tuple("3456")


def test_wrapped_line_is_one_line_on_screen_and_in_history() -> None:
    output = fed(b"x" * 25 + b"\r\nlast")
    assert output.screen.rows == ("x" * 10, "x" * 5, "last")
    assert output.lines().texts == ("x" * 25, "last")


def test_cleared_screen_keeps_scrolled_lines_alone() -> None:
    output = fed(b"1\r\n2\r\n3\r\n4\r\n\x1b[H\x1b[2Jnew")
    assert output.lines().texts == ("1", "2", "new")


def test_first_lines_of_a_flood_are_dropped_and_numbers_stay() -> None:
    output = fed(b"".join(b"%04d\r\n" % number for number in range(1000)), head=20, tail=50)
    lines = output.lines()
    assert lines.first > 900
    assert lines.texts[0] == f"{lines.first:04}"
    assert lines.texts[-1] == "0999"
    assert output.lines(since=990).texts == tuple(f"{number:04}" for number in range(990, 1000))


def test_all_lines_are_final_at_the_end() -> None:
    output = fed(b"1\r\n2\r\n3\r\n4\r\n5")
    before = output.lines()
    output.finish()
    assert output.lines() == TerminalLines(first=0, texts=before.texts, final=5)
    assert output.lines(since=4).texts == ("5",)


def test_the_alternate_screen_has_no_lines() -> None:
    assert fed(b"main\x1b[?1049hother").lines().texts == ("main",)


@given(st.lists(st.text("ab \n", max_size=40), max_size=12))
def test_new_lines_of_each_call_add_up_to_the_whole(pieces: list[str]) -> None:
    output = fed()
    known: list[str] = []
    for piece in pieces:
        output.feed(piece.replace("\n", "\r\n").encode())
        lines = output.lines(since=len(known))
        assert lines.first == len(known)
        known += lines.texts[: lines.final - lines.first]
    text = output.finish().text
    known += output.lines(since=len(known)).texts
    assert known == text.removesuffix("\n").split("\n") or (text, known) == ("", [])


@pytest.mark.anyio
async def test_driven_terminal_gives_its_lines_and_foreground() -> None:
    async with (
        Environment.detect() as env,
        env.terminal(f"exec {sys.executable} -c 'print(1); input(\"2? \")'") as t,
    ):
        assert await t.wait_for_input() is not None
        assert t.lines() == TerminalLines(first=0, texts=("1", "2?"), final=0)
        assert t.lines(since=1).texts == ("2?",)
        seat = await t.foreground()
        assert seat is not None
        assert [process.pid for process in seat.processes] == [t.pid]
        await t.send("\r")
        await t.wait()
        assert t.lines().final == 2
        assert await t.foreground() is None
