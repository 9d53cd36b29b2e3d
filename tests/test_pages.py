"""Output in the code pages of Windows: the decoded text does not depend on how the bytes were cut."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from anyshell import Environment, ShellTool, approve_all
from anyshell.output import (
    LineDecoder,
    OutputBuilder,
    OutputLog,
    Page,
    Recoder,
    Search,
    Stretch,
    TextDecoder,
    clean,
)
from anyshell.output.text.builder import COALESCE
from anyshell.output.text.pages import Recognizer
from anyshell.testing import FAKE_HOST, FakeBackend, Script

from .test_builder import MARKER
from .test_decode import PIECES, cut, cuts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from anyshell.types import Output

OEM = (437, 720, 737, 775, 850, 852, 855, 857, 858, 860, 861, 862, 863, 865, 866, 869)
ANSI = (874, 1250, 1251, 1252, 1253, 1254, 1255, 1256, 1257, 1258)
DOUBLE = (932, 936, 949, 950)

LEGACY = [
    *("é".encode("cp850"), "ñandú\n".encode("cp850"), "┌─┐".encode("cp850"), "Ünïcödé".encode("cp1252")),
    *("日本語".encode("cp932"), "ソ表能\n".encode("cp932"), "ﾃｽﾄ".encode("cp932"), "中文".encode("cp936")),
    *("한국어".encode("cp949"), b"\x81", b"\x81\n", b"\x83\x5c", b"\x1b]0;\x82\x07", b"\x1b[3\x81m", b"\x80"),
]
outputs = st.lists(st.sampled_from(PIECES + LEGACY) | st.binary(max_size=3), max_size=60).map(b"".join)
pages = st.sampled_from((437, 850, 1252, *DOUBLE))
utf8 = st.lists(st.sampled_from("aé€😀漢\n\r\b\t\x1b[K\x85"), max_size=80).map(
    lambda text: "".join(text).encode()
)


def page_of(number: int) -> Page:
    page = Page.of(number)
    assert page is not None
    return page


def boundary(data: bytes) -> int:
    """The place where a stream stops being UTF-8, according to Python."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        cut_short = error.reason == "unexpected end of data" and not data[: error.start].isascii()
        return len(data) if cut_short else error.start
    return len(data)


def recoded(data: bytes, number: int) -> bytes:
    """The decoding rule again, applied to all the data at once."""
    end = boundary(data)
    text = data[end:].decode(f"cp{number}", "replace")
    return data[:end] + re.sub("[\x80-\x9f]", "\ufffd", text).encode()


def build(
    pieces: bytes | Iterable[bytes], number: int | None, *, limit: int = 50_000, line: int = 2_000
) -> Output:
    builder = OutputBuilder(head=limit * 2 // 5, tail=limit * 3 // 5, max_line=line, code_page=number)
    for piece in [pieces] if isinstance(pieces, bytes) else pieces:
        builder.feed(piece)
    return builder.finish()


# known code pages


@pytest.mark.parametrize("number", [*OEM, *ANSI, *DOUBLE])
def test_windows_code_pages_are_known(number: int) -> None:
    assert page_of(number).decode(b"plain\r\n\t\x1b[K") == "plain\r\n\t\x1b[K"


@pytest.mark.parametrize("number", [None, 0, -1, 37, 500, 864, 1200, 65000, 65001, 10**9])
def test_utf8_and_unknown_numbers_have_no_page(number: int | None) -> None:
    assert Page.of(number) is None


@pytest.mark.parametrize("number", [*OEM, *ANSI, *DOUBLE])
def test_size_of_decoded_text_equals_size_of_its_bytes(number: int) -> None:
    page = page_of(number)
    for first in range(0x80, 0x100):
        for second in range(0x100):
            data = bytes((first, second))
            assert page.size(page.decode(data)) == 2
            # A control byte begins a character in any place: no line feed is lost.
            assert second >= 0x30 or page.decode(data)[-1] == chr(second)


# decoding of bytes


@pytest.mark.parametrize(
    ("data", "number", "text"),
    [
        (b"caf\x82\n", 850, "café\n"),
        (b"caf\xe9", 1252, "café"),
        ("café ".encode() + b"caf\x82\n", 850, "café café\n"),
        (b"caf\x82 " + "café\n".encode(), 850, "café cafÚ\n".replace("cafÚ", "caf├®")),
        ("日本".encode("cp932") + b"\r\n", 932, "日本\n"),
        ("ソ [K".encode("cp932") + b"\n", 932, "ソ [K\n"),  # a letter whose second byte is a backslash
        (b"\x82 50%\r\x82 99%\n", 850, "é 99%\n"),
        (b"\x1b[31m\x82\x1b[0m\n", 850, "é\n"),
        (b"\x82\x9b\n", 850, "éø\n"),  # no control character, as U+009B would be
        (
            b"\x1b]0;a\x82b\x07shown\n",
            850,
            "shown\n",
        ),  # a sequence that begins before the code page and ends after
        (b"\x81\x8d", 1252, "��"),  # code page 1252 has no character there
        ("é".encode() + b"\xe2\x82", 850, "é�"),  # an incomplete sequence
        (b"\xe9", 1252, "é"),  # the same at the end of the ASCII part
        (b"W\0S\0L\0\r\0\n\0", 850, "WSL\n"),  # UTF-16 with ASCII characters
    ],
)
def test_non_utf8_bytes_are_decoded_by_the_code_page(data: bytes, number: int, text: str) -> None:
    output = build(data, number)
    assert output.text == text
    assert (output.total_bytes, output.total_lines) == (len(data), data.count(b"\n"))


def test_non_utf8_bytes_are_replaced_without_a_code_page() -> None:
    assert build(b"caf\x82\n", None).text == build(b"caf\x82\n", 65001).text == "caf�\n"


@given(data=utf8, number=pages)
def test_utf8_is_never_changed(data: bytes, number: int) -> None:
    assert build(data, number) == build(data, None)
    assert Recoder(Page.of(number)).feed(data) == data
    assert [line.text for line in LineDecoder(Page.of(number)).feed(data)] == [
        line.text for line in LineDecoder().feed(data)
    ]


@given(data=outputs, places=cuts, number=pages)
@example(data="\N{CJK UNIFIED IDEOGRAPH-6F22}".encode() + b"\xed\xa0", places=[], number=437)
def test_short_output_equals_its_recoded_text(data: bytes, places: list[int], number: int) -> None:
    expected = clean(recoded(data, number))
    assert build(cut(data, places), number).text == expected
    decoder = TextDecoder(Page.of(number))
    text = "".join([*map(decoder.decode, cut(data, places)), decoder.flush()])
    assert text == recoded(data, number).decode("utf-8", "replace")


@given(data=outputs, places=cuts, number=pages, limit=st.integers(0, 60), line=st.integers(1, 20))
def test_a_bounded_output_does_not_depend_on_its_pieces(
    data: bytes, places: list[int], number: int, limit: int, line: int
) -> None:
    # The filler between two pieces makes each piece so large that it is taken at once, and not gathered with the next.
    between = b"\0" * COALESCE
    pieces = [piece + between for piece in cut(data, places)]
    whole = build(b"".join(pieces), number, limit=limit, line=line)
    assert build(pieces, number, limit=limit, line=line) == whole
    assert build(cut(data, places), number, limit=limit, line=line) == build(
        data, number, limit=limit, line=line
    )
    assert whole.total_bytes == sum(map(len, pieces))
    assert whole.total_lines == data.count(b"\n")
    assert whole.omitted_bytes <= whole.total_bytes


@given(data=outputs, places=cuts, number=pages)
def test_lines_keep_input_bytes_and_have_recoded_text(data: bytes, places: list[int], number: int) -> None:
    decoder = LineDecoder(Page.of(number))
    lines = [line for piece in cut(data, places) for line in decoder.feed(piece)] + decoder.flush()
    assert b"".join(line.data for line in lines) == data
    text = "".join(line.text + "\n" * line.complete for line in lines)
    assert text == clean(recoded(data, number))


@given(data=outputs, at=st.integers(0, 200), number=pages)
def test_unfinished_characters_can_wait_for_the_next_piece(data: bytes, at: int, number: int) -> None:
    whole = Stretch(data, Page.of(number), boundary(data))
    first = whole.part(0, at)
    rest = first.unfinished()
    assert 0 <= rest <= len(first.data)
    first, second = first.part(0, len(first.data) - rest), whole.part(len(first.data) - rest)
    assert first.to_utf8() + second.to_utf8() == whole.to_utf8()


# omitted output


@pytest.mark.parametrize("number", [850, 932])
def test_omitted_bytes_are_counted_in_the_written_encoding(number: int) -> None:
    letters = {850: "é┌ñ", 932: "日ソﾃ"}[number]
    lines = [f"{letters}{count:05} {letters * 20}\n".encode(f"cp{number}") for count in range(3000)]
    data = b"plain\n" + b"".join(lines)
    for pieces in ([data], [b"plain\n", *lines]):
        output = build(pieces, number, limit=3000)
        before, after = MARKER.split(output.text)
        shown = len(before.encode(f"cp{number}")) + len(after.encode(f"cp{number}"))
        assert output.truncated
        # The head may lack its final line feed; one is added there, so that the marker has a line of its own.
        assert output.total_bytes - output.omitted_bytes - shown in (0, -1)
        assert data.decode(f"cp{number}").startswith(before.rstrip("\n"))
        assert data.decode(f"cp{number}").endswith(after)
        assert 2000 < len(output.text.encode()) < 3200


def test_cut_line_counts_bytes_of_the_code_page() -> None:
    output = build("é".encode("cp850") * 3000 + b"\n", 850, line=1000)
    assert output.text == "é" * 1000 + " [line cut: 2,000 more bytes]\n"
    assert output.omitted_bytes == 2000
    output = build(b"x\n" * 300 + "日".encode("cp932") * 3000 + b"\n", 932, line=1000, limit=3500)
    assert output.omitted_bytes + len(MARKER.sub("", output.text).encode("cp932")) in (6601, 6602)


def test_code_page_beginning_in_the_omitted_part_decodes_the_end() -> None:
    data = b"ascii\n" * 2000 + b"\x82\n" + b"more\n" * 2000 + b"caf\x82\n"
    output = build(data, 850, limit=200)
    assert output.text.endswith("more\ncafé\n")
    assert output.text.startswith("ascii\n")


def test_long_code_page_line_is_split_between_characters() -> None:
    data = "日本".encode("cp932") * 50_000 + b"\n"
    decoder = LineDecoder(Page.of(932))
    chance = random.Random(7)
    lines = []
    while data:
        size = chance.randint(1, 9000)
        lines += decoder.feed(data[:size])
        data = data[size:]
    assert "".join(line.text for line in lines) == "日本" * 50_000
    assert [line.complete for line in lines].count(False) > 2


def test_three_bytes_are_held_at_most() -> None:
    recognizer = Recognizer()
    assert recognizer.feed(b"a\xf0\x9f\x98") == (b"a", b"")
    assert recognizer.feed(b"b") == (b"", b"\xf0\x9f\x98b")


# every way to read output


@given(data=outputs, places=cuts)
def test_log_recodes_its_pieces(data: bytes, places: list[int]) -> None:
    log = OutputLog(None, code_page=850)
    for piece in cut(data, places):
        log.write(piece)
    log.finish()
    at, texts = 0, []
    while at < len(data):
        _, piece = log.read(at, 11)
        stretch = log.stretch(at, piece)
        rest = stretch.unfinished() if at + len(piece) < len(data) else 0
        if rest == len(piece):
            break  # a sequence longer than one read
        texts.append(stretch.part(0, len(piece) - rest).to_utf8())
        at += len(piece) - rest
    assert recoded(data, 850).startswith(b"".join(texts))


def test_search_finds_code_page_text_across_any_cut() -> None:
    data = b"ready: caf\x82 \x1b[1m\x84\x1b[0m\n"
    for at in range(len(data)):
        search = Search(re.compile("café ä"))
        log = OutputLog(None, code_page=850)
        found = None
        start = 0
        for piece in (data[:at], data[at:]):
            log.write(piece)
            found = search.feed(log.stretch(start, piece))
            start += len(piece)
        assert found is not None


@pytest.mark.anyio
async def test_runs_streams_and_jobs_decode_code_pages_alike() -> None:
    data = [b"caf", b"\x82\nsecond \xc3", b"\xa9\n"]
    text = "café\nsecond ├®\n"
    host = replace(FAKE_HOST, code_page=850)
    script = Script(stdout=data)
    async with Environment.detect(FakeBackend(lambda spawn: script, info=host)) as env:
        assert (await env.run("x")).output.text == text
        async with env.stream("x") as events:
            assert [event.text async for event in events] == text.splitlines()
        async with env.stream("x", by="chunks") as events:
            assert "".join([event.text async for event in events]) == text
        job = await env.start("x", ready="second ├®")
        assert job.ready
        await job.wait()
        piece = await job.output()
        assert (piece.text, piece.data, piece.utf8_bytes) == (text, b"".join(data), 3)
        piece = await job.output(5)
        assert (piece.text, piece.utf8_bytes) == ("second ├®\n", 0)
        assert (await job.output(0, limit=3)).utf8_bytes is None


@pytest.mark.anyio
async def test_tool_decodes_code_page_during_and_after_a_run() -> None:
    host = replace(FAKE_HOST, code_page=850)
    told: list[str] = []
    async with Environment.detect(
        FakeBackend(lambda spawn: Script(stdout=[b"caf\x82 ", b"\x84\n"]), info=host)
    ) as env:
        tool = ShellTool(env, approver=approve_all, jobs=True)
        result = await tool({"command": "x"}, on_update=told.append)
        assert result.output == "café ä\n"
        assert set(told) <= {"caf", "café ", "café ä\n"}
        started = await tool({"command": "x", "run_in_background": True})
        assert started.details.job is not None
        await env.jobs.get(started.details.job).wait()
        read = await tool.job_tool({"action": "output", "id": started.details.job, "offset": 3})
        assert read.output == "é ä\n"
        # From the middle of a UTF-8 character on, too, bytes that were UTF-8 are not decoded by the code page.
        backend = FakeBackend(lambda spawn: Script(stdout=["☃ ok\n".encode()]), info=host)
        async with Environment.detect(backend) as other:
            job = await other.start("x")
            await job.wait()
            assert (await job.output(1)).text == "\ufffd\ufffd ok\n"
