"""Excerpts of an output that is too long: its start, its end, and the lines between that report errors."""

from __future__ import annotations

import asyncio
import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import anyshell
from anyshell import Environment, InvalidCommand, OutputLimits, Terminal
from anyshell.output.screen.terminal import TerminalOutput
from anyshell.output.text.builder import OutputBuilder
from anyshell.output.text.hits import EXCERPT, Looker
from anyshell.output.text.signals import HELD, LAST, SEARCHED, Signals, chosen, score, tells
from bench.logs import load

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anyshell.types import Output

WORDS = [bytes((97 + number // 26, 97 + number % 26)) for number in range(500)]
GAP = re.compile(
    r"\[\.\.\. (?:([\d,]+) (?:similar )?lines?, )?([\d,]+) bytes? (?:of text )?left out here"
    r"(?:, with the start of the next line)? \.\.\.\]\n?"
)
TOTAL = re.compile(r"\[\.\.\. .* left out of .*\.\.\.\]\n?")


def bounded(data: bytes, cuts: Sequence[int] = (), **limits: Any) -> Output:
    builder = OutputBuilder(**OutputLimits(**limits).parts._asdict())
    places = [0, *sorted(cuts), len(data)]
    for at, end in pairwise(places):
        builder.feed(data[at:end])
    return builder.finish()


def noise(count: int, start: int = 0) -> bytes:
    return b"".join(
        b"%06d compiled without a word of harm in %b\n" % (number, WORDS[number % len(WORDS)])
        for number in range(start, start + count)
    )


def check(data: bytes, output: Output) -> None:
    """The shown text is of the output, in order, and the omitted text is counted where it is missing."""
    text = data.decode()
    pieces = re.split(r"(\[\.\.\. [^\n]* \.\.\.\]\n?)", output.text)
    left = {0}  # the possible positions in the text: a line feed before a marker may be of the output, or not
    for piece in pieces:
        if found := GAP.fullmatch(piece):
            size, feeds = int(found[2].replace(",", "")), int((found[1] or "0").replace(",", ""))
            left = {at + size for at in left if text.count("\n", at, at + size) == feeds}
        elif TOTAL.fullmatch(piece):
            left = {at + (0 if GAP.search(output.text) else output.omitted_bytes) for at in left}
        elif piece:
            left = {
                at + len(part)
                for at in left
                for part in {piece, piece.removesuffix("\n")}
                if text.startswith(part, at)
            }
        assert left, piece
    assert len(text) in left
    assert output.total_bytes == len(data)
    assert output.total_lines == text.count("\n")
    if output.excerpts:
        gaps = GAP.findall(output.text)
        assert sum(int(size.replace(",", "")) for _, size in gaps) == output.omitted_bytes
        assert sum(int((feeds or "0").replace(",", "")) for feeds, _ in gaps) == output.omitted_lines
        whole = text.split("\n")
        for first, last in output.excerpts:
            assert "\n".join(whole[first - 1 : last]) in output.text


def test_cause_in_the_middle_is_shown_with_lines_around_it() -> None:
    cause = b"src/a.c:12:3: error: no member named 'x'\n   12 |   s.x = 1;\n      |     ^\n"
    data = noise(3000) + cause + noise(3000, 3000)
    output = bounded(data, budget=4096)
    assert cause.decode() in output.text
    assert "002999 compiled" in output.text  # the line before the cause
    assert output.excerpts == ((3000, 3003),)
    assert len(output.text) < 4096 + 200
    check(data, output)


def test_budget_without_error_lines_goes_to_start_and_end() -> None:
    data = noise(3000)
    output = bounded(data, budget=4096)
    assert output.excerpts == ()
    assert len(output.text.replace("\n", "")) > 4096 - 200
    assert output.text.count("[...") == 1
    check(data, output)


def test_head_and_tail_alone_show_no_error_lines() -> None:
    data = noise(500) + b"error: here\n" + noise(500)
    output = bounded(data, head=1000, tail=1000)
    assert "error: here" not in output.text
    check(data, output)


@pytest.mark.parametrize(
    ("limits", "parts"),
    [
        ({}, (7680, 43520, 20480)),
        ({"budget": 8192}, (1228, 6964, 3276)),
        ({"budget": 0}, (0, 0, 0)),
        ({"head": 10}, (10, 30 * 1024, 0)),
        ({"tail": 10}, (20 * 1024, 10, 0)),
    ],
)
def test_a_budget_has_three_parts(limits: dict[str, Any], parts: tuple[int, int, int]) -> None:
    assert OutputLimits(**limits).parts[:3] == parts


@pytest.mark.parametrize("limits", [{"budget": -1}, {"budget": 10, "head": 5}, {"tail": -1}, {"max_line": 0}])
def test_impossible_limits_are_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(limits))):
        OutputLimits(**limits)


@pytest.mark.parametrize(
    ("more", "less"),
    [
        ("src/a.c:3:1: error: expected ';'", "src/a.c:3:1: warning: unused variable 'error'"),
        ("FAILED tests/test_a.py::test_b", "tests/test_a.py::test_error PASSED"),
        ("Traceback (most recent call last):", "0 errors, 0 failures"),
        ("panic: runtime error: index out of range", "running with --fail-fast"),
        ("not ok 12 - adds", "ok 13 - reports an error"),
        ("E       -  'total': 248.0", "cc -c error.c -o error.o"),
        ("2026-11-22T06:27:14.123Z ##[error]Process completed", "2026-11-22T06:27:14.123Z no errors found"),
        ("error: linking with `cc` failed", "make: warning: clock skew detected"),
        ("✖ writes after an error", "✔ writes after an error: 2 (0.1ms)"),
        ("  ✕ fails on large", "    ✓ fails on large Error: x"),
    ],
)
def test_more_informative_lines_score_higher(more: str, less: str) -> None:
    assert score(more.encode()) > max(score(less.encode()), 1)


def test_repeated_lines_leave_room_for_others() -> None:
    flood = b"".join(b"error: thing %d is not there\n" % number for number in range(5000))
    data = noise(300) + flood + b"error: the disk is full\n" + flood + noise(300)
    output = bounded(data, budget=4096)
    assert "error: the disk is full" in output.text
    assert output.text.count("is not there") < 40
    check(data, output)


_LINES = st.sampled_from(
    [
        b"\n",
        b"plain line of text\n",
        b"error: it broke\n",
        b"    indented below\n",
        b"E   assert 1 == 2\n",
        b"FAILED " + b"x" * 300 + b"\n",
        b"warning: old\n",
        b"y" * 5000 + b" error:\n",
        b"no line feed yet ",
    ]
)


@given(
    lines=st.lists(st.tuples(_LINES, st.integers(1, 20)), max_size=20),
    budget=st.integers(0, 3000),
    cuts=st.lists(st.integers(0, 100_000), max_size=8),
)
def test_shown_and_counted_bytes_add_up_for_any_cut(
    lines: list[tuple[bytes, int]], budget: int, cuts: list[int]
) -> None:
    data = b"".join(line * times for line, times in lines)
    output = bounded(data, budget=budget, max_line=10_000)
    check(data, output)
    assert bounded(data, [min(cut, len(data)) for cut in cuts], budget=budget, max_line=10_000) == output


@pytest.mark.parametrize("size", [1, 7, 4096, 65536, 100_001, 10**9])
def test_found_lines_do_not_depend_on_block_size(size: int) -> None:
    data = b"".join(b"%d ok\n" % at if at % 97 else b"thing %d: error: broke\n" % at for at in range(60_000))
    one, other = Signals(), Signals()
    one.feed(data)
    for at in range(0, len(data), size) if size > 5 else [0]:
        other.feed(data[at : at + size] if size > 5 else data[:1])
    if size <= 5:
        for at in range(1, 70_000):
            other.feed(data[at : at + 1])
        other.feed(data[70_000:])
    found = one.finish()
    assert found == other.finish()
    assert [each.data.count(b"\n") > 0 for each in found]
    for each in found:
        assert data[each.start : each.end] == each.data
        assert data.count(b"\n", 0, each.start) == each.lines


NAMES = [bytes((97 + at // 676, 97 + at // 26 % 26, 97 + at % 26)) for at in range(17_576)]


@pytest.mark.parametrize("size", [1000, 65536, 100_001])
def test_search_pauses_after_enough_of_the_worst_lines(size: int) -> None:
    worst = b"".join(b"error: %b is broken\nnote of %b\n" % (name, name) for name in NAMES)
    data = worst + noise(30_000) + b"error: at the end\n" + noise(20)
    one, other = Signals(room=4096, tail=10_000), Signals(room=4096, tail=10_000)
    one.feed(data)
    for at in range(0, len(data), size):
        other.feed(data[at : at + size])
    found = one.finish()
    assert found == other.finish()
    assert one.searched  # no omitted line would be shown
    assert len(found) < 6000
    best = chosen(found, len(data), 4096, 60)
    assert best[0].data.startswith(b"error: aaa is broken\n")
    assert b"error: at the end\n" in best[-1].data
    for each in found:
        assert data[each.start : each.end] == each.data
        assert data.count(b"\n", 0, each.start) == each.lines


def test_flood_of_warnings_does_not_hide_an_error() -> None:
    flood = b"".join(b"warning: %b is old\n" % name for name in NAMES)
    output = bounded(flood + b"error: the disk is full\n" + flood.replace(b"old", b"new"), budget=2048)
    assert "error: the disk is full" in output.text


def test_repeated_line_is_recognised_after_many_other_lines() -> None:
    data = b"".join(b"error: the same again\nerror: %b is broken\n" % name for name in NAMES)
    signals = Signals(room=10**9)
    signals.feed(data)
    assert sum(each.data[slice(*each.core)] == b"error: the same again\n" for each in signals.finish()) <= 4


def test_bounded_search_also_covers_the_end() -> None:
    signals = Signals()
    block = noise(2000)
    count = SEARCHED // len(block) + 2
    signals.feed(b"error: at the start\n")
    for _ in range(count):
        signals.feed(block)
    signals.feed(b"error: too late\n")
    for _ in range(LAST // len(block) + 4):
        signals.feed(block)
    signals.feed(b"error: near the end\n" + noise(100))
    found = signals.finish()
    shown = b"".join(each.data for each in found)
    assert b"at the start" in shown
    assert b"near the end" in shown
    assert b"too late" not in shown
    assert not signals.searched
    assert found[-1].lines == 1 + 2000 * (count + LAST // len(block) + 4)


def test_many_different_errors_are_held_in_bounded_memory() -> None:
    signals = Signals()
    words = [f"{a}{b}{c}" for a in "abcdefghij" for b in "klmnopqrst" for c in "uvwxyzabcd"]
    for word in words:
        signals.feed(f"error: {word} {word * 30} is broken\n".encode() * 4 + noise(20))
    found = signals.finish()
    assert sum(len(each.data) for each in found) <= HELD
    assert len(found) > 100
    assert all(len(each.data) <= EXCERPT for each in found)


def test_long_excerpt_is_reduced_to_its_error_line() -> None:
    signals = Signals()
    signals.feed(
        b"before\nerror: here\n" + b"    indented line that goes on for some time\n" * 20 + b"after\n"
    )
    found = signals.finish()
    (short,) = chosen(found, 10_000, 100, 60)
    assert short.data == b"error: here\n"
    assert short.lines == 1
    assert chosen(found, 10_000, 60, 60) == []


def test_lines_that_scrolled_off_a_terminal_are_searched() -> None:
    output = TerminalOutput(Terminal(columns=80, rows=24), **OutputLimits(budget=4096).parts._asdict())
    cause = b"src/a.c:12:3: \x1b[31merror:\x1b[0m no member named 'x'\n   12 |   s.x = 1;\n"
    data = (noise(3000) + cause + noise(3000, 3000)).replace(b"\n", b"\r\n")
    for at in range(0, len(data), 1000):
        output.feed(data[at : at + 1000])
    shown = output.finish()
    assert (
        "002999 compiled without a word of harm in tf\nsrc/a.c:12:3: error: no member named 'x'\n   12 |"
        in shown.text
    )
    assert shown.excerpts == ((3000, 3003),)
    assert len(shown.text) < 4096 + 300
    gaps = [int(size.replace(",", "")) for _, size in GAP.findall(shown.text)]
    lines = [int(feeds.replace(",", "")) for feeds, _ in GAP.findall(shown.text)]
    assert sum(lines) == shown.omitted_lines
    assert len(gaps) == 2
    assert shown.text.count("\n") == shown.total_lines - shown.omitted_lines + 3
    assert shown.head_range is not None
    assert shown.tail_range is not None
    assert sum(lines) + shown.head_range[1] + 4 + (6002 - shown.tail_range[0]) + 1 == 6002


def test_terminal_without_error_lines_is_bounded_as_before() -> None:
    data = noise(3000).replace(b"\n", b"\r\n")
    old = TerminalOutput(Terminal(columns=80, rows=24), head=614, tail=3482)
    new = TerminalOutput(Terminal(columns=80, rows=24), **OutputLimits(budget=4096).parts._asdict())
    old.feed(data)
    new.feed(data)
    assert new.finish() == old.finish()


@pytest.mark.anyio
async def test_one_call_may_have_limits_of_its_own(env: Environment) -> None:
    text = "for n in $(seq 3000); do echo line $n; done; echo 'error: the cause' >&2; seq 3000"
    limits = OutputLimits(budget=600)
    async with env.stream(text, limits=limits) as events:
        async for _ in events:
            pass
    async with env.session() as session:
        kept = await session.run(text, limits=limits)
    outcomes = [
        await env.run(text, limits=limits),
        events.outcome,
        kept,
        await asyncio.to_thread(anyshell.run, text, shell="sh", limits=limits),
    ]
    for outcome in outcomes:
        assert "error: the cause" in outcome.output.text
        assert outcome.output.excerpts == ((3000, 3003),)
    assert "error" not in (await env.run(text, limits=OutputLimits(head=10, tail=10))).output.text
    with pytest.raises(InvalidCommand, match=r"limits must be OutputLimits\(budget=\), not int"):
        await env.run("true", limits=8192)  # type: ignore[arg-type]  # the mistake


def test_similar_lines_at_the_end_are_folded_and_counted() -> None:
    steps = b"".join(b"Downloading layer: %d of 4000 KB\n" % number for number in range(2000))
    data = noise(300) + b"the step before\n" + steps + b"then it ended\n"
    output = bounded(data, budget=4096)
    assert "the step before\nDownloading layer: 0 of 4000 KB\n[... " in output.text
    assert "similar lines, " in output.text
    assert "Downloading layer: 1999 of 4000 KB\nthen it ended\n" in output.text
    check(data, output)


@pytest.mark.parametrize(
    "lines",
    [
        b"".join(b"%d\n" % number for number in range(5000)),  # numbers are required
        b"".join(b"error: thing %d is not there\n" % number for number in range(5000)),
        b"".join(b"%b\n" % (b"abcdefghij"[number % 10 :] * 3) for number in range(5000)),
        b"".join(b"step %b of round %d\n" % (WORDS[number % 9], number // 9) for number in range(2000)),
    ],
    ids=["numbers", "errors", "others", "a round of as many lines as are needed for a fold, less one"],
)
def test_different_lines_are_not_folded(lines: bytes) -> None:
    output = bounded(lines, budget=4096)
    assert "similar" not in output.text
    check(lines, output)


@pytest.mark.parametrize("after", [0, 3000])
@pytest.mark.parametrize(
    "line",
    [
        b"suite %d: %d failures\n",
        b"Tests run: %d, Failures: %d, Errors: 0, Skipped: 0\n",
        b"pkg%d: 12 passed, %d failed\n",
        b"file%d.c errors=%d\n",
        b"worker %d finished with %d errors\n",
        b"group %d: %d tests failed\n",
    ],
)
def test_a_count_of_failures_is_no_repeat_of_counts_of_zero(line: bytes, after: int) -> None:
    lines = [line % (number, 0) for number in range(400)]
    lines[200] = line % (200, 3)
    data = noise(300) + b"".join(lines) + noise(after)
    output = bounded(data, budget=8192)
    assert lines[200].decode() in output.text
    check(data, output)


@pytest.mark.parametrize(
    ("stamp", "told"),
    [
        (b"2026-11-22T06:27:%02d.1234567Z ", "2026-11-22T06:27:59.1234567Z"),
        (b"[06:27:%02d] ", "[06:27:59]"),
        (b"web-%d-1  | ", ""),
        (b"web-1  | ", "web-1  |"),
    ],
)
def test_common_beginning_of_lines_is_left_out_at_the_end(stamp: bytes, told: str) -> None:
    lines = [
        (stamp % (number // 50) if b"%" in stamp else stamp) + line
        for number, line in enumerate(noise(3000).splitlines(keepends=True))
    ]
    data = b"".join(lines)
    output = bounded(data, budget=4096)
    begin = output.text.index("[...")
    end = output.text[output.text.rindex("...]\n") + 5 :]
    assert (stamp[:4].decode() in end) is not bool(told)
    assert output.text[:begin].startswith(lines[0].decode())
    plain = "".join(line.decode().partition(" ")[2].lstrip("| ") for line in lines)
    if told:
        assert f"so is what the lines below begin with, such as {told!r}" in output.text
        assert end.endswith("002999 compiled without a word of harm in tf\n")
        assert end in plain
        gap = GAP.search(output.text)
        assert gap is not None
        hidden = end.count("\n") * len(lines[-1].decode()) - len(end)
        assert int(gap[2].replace(",", "")) + hidden == output.omitted_bytes


@pytest.mark.parametrize("stamp", [b"2024-05-01T10:00:%02dZ ", b"web-%02d | "])
def test_excerpts_omit_the_common_beginning_of_the_last_lines(stamp: bytes) -> None:
    prefixes = [stamp % (0 if b"web" in stamp else number % 60) for number in range(3000)]
    lines = noise(3000).splitlines(keepends=True)
    lines[1500] = b"error: no such thing\n"
    data = b"".join(prefix + line for prefix, line in zip(prefixes, lines, strict=True))
    output = bounded(data, budget=2048)
    assert "\nerror: no such thing\n" in output.text
    ((first, last),) = output.excerpts
    assert first <= 1501 <= last
    assert "so is what the lines below begin with" in output.text
    head, _, rest = output.text.partition("\n[... ")  # the head ends within a line
    shown = [line for line in rest.splitlines(keepends=True)[1:] if not GAP.fullmatch(line)]
    assert all(line.encode() in lines for line in shown)
    # The shown text is raw bytes of the output, and the rest is counted.
    assert output.omitted_bytes == len(data) - len(head) - sum(map(len, shown))
    assert output.omitted_lines == 3000 - head.count("\n") - len(shown)


def test_a_line_feed_in_a_code_page_is_left_alone() -> None:
    data = "進捗は順調です 12\n".encode("cp932") * 3000
    builder = OutputBuilder(**OutputLimits(budget=4096).parts._asdict(), code_page=932)
    builder.feed(data)
    output = builder.finish()
    assert output.text.endswith("進捗は順調です 12\n")
    assert "similar" not in output.text


@pytest.mark.parametrize(
    "line",
    [
        b"-" * 380 + b"rror %b\n",
        b"-a" * 185 + b" error %b\n",
        b"a" * 390 + b" error %b\n",
        b"error" + b" \"'`" * 90 + b"%b\n",
        b"12:00:00 " * 40 + b"error %b\n",
        b"[(" * 190 + b"error %b\n",
        b"error " * 60 + b"%b\n",
        b"no a error " * 30 + b"%b\n",
    ],
    ids=range(8),
)
def test_every_line_is_scored_in_time(line: bytes) -> None:
    words = [bytes((97 + a, 97 + b, 97 + c)) for a in range(10) for b in range(10) for c in range(10)]
    signals = Signals()
    for word in words:
        signals.feed(line % word)
    assert len(signals.finish()) <= 1000


def test_many_excerpts_that_grow_as_text_keep_to_the_budget() -> None:
    names = [f"{a}{b}{c}".encode() for a in "abcdefghij" for b in "abcdefghij" for c in "abcdefghij"]
    data = b"".join(b"x\n" * 6 + b"error \xe4\xe4\xe4\xe4\xe4\xe4 %b\n" % name + b"y\n" * 6 for name in names)
    output = bounded(data + b"z\n" * 500_000, budget=100_000)
    assert len(output.text.encode()) < 100_000 + 64 * len(output.excerpts) + 300
    assert len(output.excerpts) > 200


@pytest.mark.parametrize("budget", [100, 1000, 8192, 51200])
def test_an_end_that_grows_as_text_keeps_to_the_budget(budget: int) -> None:
    data = b"".join(b"web | %b %d\n" % (b"\xe4" * 200, number**2) for number in range(3000))
    output = bounded(data, budget=budget)
    assert len(output.text.encode()) <= budget + 300


def test_colours_take_no_room_from_error_lines() -> None:
    plain = b"".join(
        noise(20, 20 * number) + b"error: no member %b%b\n" % (WORDS[number], WORDS[99 - number])
        for number in range(90)
    )
    coloured = plain.replace(b"error:", b"\x1b[1m\x1b[31m" * 5 + b"error:" + b"\x1b[0m\x1b[39m" * 5)
    wanted = bounded(plain + noise(200), budget=8192).text.count("error:")
    assert bounded(coloured + noise(200), budget=8192).text.count("error:") >= wanted - 2


@pytest.mark.parametrize("max_line", [1, 40, 100, 159])
def test_low_limit_of_line_length_prevents_folding(max_line: int) -> None:
    data = b"".join(b"line %d of it\n" % number for number in range(5000))
    output = bounded(data, budget=200, max_line=max_line)
    assert "similar" not in output.text
    assert output.omitted_bytes <= output.total_bytes


def test_search_of_many_lines_misses_no_line_of_enough_score() -> None:
    lines = sorted({line for log in load() for line in log.data.split(b"\n") if len(line) < EXCERPT - 1})
    told = [line for line in lines if tells(line)]
    for least in (1, 2, 3, 4, 5):
        passed = {lines[hit.number] for hit in Looker().hits(b"\n".join(lines) + b"\n", least)}
        assert [line for line in told if line not in passed and score(line) >= least] == [], least
        assert len(passed) < len(lines) / 2


def test_lines_of_equal_score_are_found_again_before_the_end() -> None:
    names = NAMES[:4000]
    data = b"".join(b"it says warn %b\nplain %b\n" % (name, name[::-1]) for name in names) + noise(6000)
    signals = Signals(room=2000, tail=1000)
    signals.feed(data)
    end = data.index(b"000000 compiled")
    found = signals.finish(end)
    assert found[0].data.startswith(b"it says warn aaa\n")
    shown = b"".join(each.data[slice(*each.core)] for each in found)
    assert [b"it says warn %b\n" % names[at] in shown for at in (0, 3000, 3999)] == [True, False, True]
    for each in found:
        assert data[each.start : each.end] == each.data
        assert data.count(b"\n", 0, each.start) == each.lines


def test_completely_shown_line_contains_no_marker() -> None:
    data = b"".join(b"line %d\n" % number for number in range(1, 401))
    output = bounded(data, budget=2048)
    check(data, output)
    assert "line 39\nline 40\n[..." in output.text


def test_room_of_folded_lines_extends_the_start() -> None:
    steps = b"".join(b"Downloading layer: %06d of 40000 KB\n" % number for number in range(20_000))
    data = noise(3000) + b"error: in the middle\n" + noise(3000) + steps + b"then it ended\n"
    output = bounded(data, budget=8192)
    assert "similar lines, " in output.text
    assert "error: in the middle" in output.text
    assert 8192 - 300 < len(output.text) < 8192 + 300
    first = output.text.partition("\n[... ")[0]
    assert len(first) > 4096
    assert data.startswith(first.encode())
    assert output.head_range == (1, first.count("\n") + 1)
    check(data, output)


@given(
    lines=st.lists(st.tuples(_LINES, st.integers(1, 20)), max_size=20),
    steps=st.integers(0, 6000),
    rounds=st.integers(1, 12),
    apart=st.integers(1, 300),
    budget=st.integers(200, 3000),
    cuts=st.lists(st.integers(0, 400_000), max_size=8),
)
def test_shown_and_counted_bytes_add_up_with_a_folded_end(
    lines: list[tuple[bytes, int]], steps: int, rounds: int, apart: int, budget: int, cuts: list[int]
) -> None:
    data = b"".join(line * times for line, times in lines)
    data += b"\n" + b"".join(
        b"Downloading layer %b: %d of 40000 KB, %d errors\n"
        % (WORDS[number % rounds], number, number % apart == apart - 1)
        for number in range(steps)
    )
    output = bounded(data, budget=budget, max_line=10_000)
    check(data, output)
    assert bounded(data, [min(cut, len(data)) for cut in cuts], budget=budget, max_line=10_000) == output


def on_terminal(data: bytes, cuts: Sequence[int] = (), **limits: Any) -> Output:
    output = TerminalOutput(Terminal(columns=200, rows=24), **OutputLimits(**limits).parts._asdict())
    places = [0, *sorted(cuts), len(data)]
    for at, end in pairwise(places):
        output.feed(data[at:end])
    return output.finish()


STEPS = b"".join(b"Downloading layer: %06d of 40000 KB\n" % number for number in range(20_000))


@pytest.mark.parametrize(
    "data",
    [
        noise(3000) + b"error: in the middle\n" + noise(3000) + STEPS + b"then it ended\n",
        noise(300) + STEPS[:200_000] + b"\n" + noise(10) + STEPS[:9000] + b"\n",
        STEPS,
        noise(4) + STEPS[:8000],
    ],
    ids=["long", "two", "alone", "short"],
)
def test_similar_lines_are_folded_on_terminals_too(data: bytes) -> None:
    output = on_terminal(data.replace(b"\n", b"\r\n"), budget=4096)
    folds = [
        (int(n.replace(",", "")), int(b.replace(",", "")))
        for n, b in re.findall(r"([\d,]+) similar lines, ([\d,]+) bytes", output.text)
    ]
    assert folds
    assert all(size == 39 * count for count, size in folds)
    check(data, on_pipe := bounded(data, budget=4096))
    assert len(folds) == on_pipe.text.count(" similar lines, ")
    whole = data.decode().splitlines()
    shown = [line for line in output.text.splitlines() if not line.startswith("[... ")]
    places = iter(whole)
    assert all(line in places for line in shown)
    gaps = GAP.findall(output.text)
    assert len(shown) + output.omitted_lines == len(whole)
    assert "error: in the middle" in output.text or b"error" not in data
    assert sum(int((feeds or "0").replace(",", "")) for feeds, _ in gaps) == output.omitted_lines
    assert sum(int(size.replace(",", "")) for _, size in gaps) == output.omitted_bytes
