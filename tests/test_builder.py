from __future__ import annotations

import errno
import os
import re
import tracemalloc
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyshell.output import ArtifactStore, OutputBuilder
from anyshell.output.text.bounded import BoundedText
from anyshell.output.text.builder import COALESCE
from anyshell.output.text.decode import clean
from anyshell.output.text.sections import marker
from anyshell.output.text.tail import Tail
from anyshell.types import Artifact, Output

from .test_decode import bars, cut, cuts, outputs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

KB = 1024
MB = 1024 * 1024
MARKER = re.compile(r"\[\.\.\. (?:[\d,]+ lines?, )?[\d,]+ bytes? left out of .*? \.\.\.\]\n?")
NOTE = re.compile(r" \[line cut: [\d,]+ more bytes?\]")

Step = Literal["create", "write", "finish"]


class FakeStore:
    """An artifact store in memory that can be made to fail."""

    def __init__(self, *, fails_at: Step | None = None, omitted: int = 0) -> None:
        self.fails_at = fails_at
        self.omitted = omitted
        self.writers: list[FakeWriter] = []

    def create(self) -> FakeWriter:
        self.fail("create")
        self.writers.append(FakeWriter(self))
        return self.writers[-1]

    def fail(self, step: Step) -> None:
        if self.fails_at == step:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class FakeWriter:
    def __init__(self, store: FakeStore) -> None:
        self.store = store
        self.data = bytearray()
        self.state = "writing"

    def write(self, data: bytes) -> None:
        assert self.state == "writing"
        self.store.fail("write")
        self.data += data

    def finish(self) -> Artifact:
        assert self.state == "writing"
        self.store.fail("finish")
        self.state = "finished"
        return Artifact("id", Path("kept"), len(self.data), self.store.omitted)

    def discard(self) -> None:
        assert self.state == "writing"
        self.state = "discarded"


def build(
    data: bytes | Iterable[bytes],
    *,
    head: int = 20 * KB,
    tail: int = 30 * KB,
    max_line: int = 2_000,
    store: FakeStore | None = None,
) -> Output:
    builder = OutputBuilder(
        head=head, tail=tail, max_line=max_line, artifacts=cast("ArtifactStore | None", store)
    )
    for piece in [data] if isinstance(data, bytes) else data:
        builder.feed(piece)
    return builder.finish()


def shown(output: Output, head: int | None = None) -> str:
    """The part of the text that is output, without markers.

    A truncated head of plain text has exactly `head` characters, and one line feed that puts the marker on a separate
    line.
    """
    before, *after = MARKER.split(output.text)
    before = NOTE.sub("", before)
    return "".join([before[:head] if after else before, *(NOTE.sub("", text) for text in after)])


# Output within the limit


def test_joined_halves_over_the_limit_are_truncated() -> None:
    """Overwritten tabs become blanks: each half of the output is within its limit, and the joined output is not."""
    builder = OutputBuilder(head=20, tail=30, max_line=200)
    builder.feed(b"start\n" + b"\t" * 20 + b"end\rY\nlast\n")
    output = builder.finish()
    assert output.truncated
    assert output.omitted_bytes > 0
    assert f"{output.omitted_bytes} byte" in output.text


def test_no_output_is_an_empty_text() -> None:
    assert build(b"") == build([]) == Output()


def test_short_output_is_shown_completely() -> None:
    assert build(b"hello\nworld") == Output(text="hello\nworld", total_bytes=11, total_lines=1)


def test_output_is_cleaned() -> None:
    output = build(b"\x1b[31mred\x1b[m\r\n 1%\r99%\nna\xc3\xafve\xff")
    assert output == Output(text="red\n99%\nnaïve\ufffd", total_bytes=28, total_lines=2)


def test_unfinished_sequences_at_the_end_are_shown() -> None:
    assert build(b"a\x1b]0;b").text == "a0;b"
    assert build(b"a\xe2\x82").text == "a\ufffd"
    assert build(b"a\r").text == "a"


@pytest.mark.parametrize("line", [b"0123456789abcde\n", b"x" * 16])
def test_exactly_filling_the_limit_is_not_truncation(line: bytes) -> None:
    data = line * (50 * KB // 16)
    output = build(data, max_line=100 * KB)
    assert output.text == data.decode()
    assert not output.truncated


def test_one_byte_over_the_limit_is_truncation() -> None:
    data = b"0123456789abcde\n" * (50 * KB // 16) + b"!"
    output = build(data)
    assert output.truncated
    assert output.omitted_bytes == 16  # the end begins with a line
    assert len(shown(output, 20 * KB)) == 50 * KB - 15
    assert "[... 1 line, 16 bytes left out of 3,200 lines, 51,201 bytes ...]" in output.text


def test_rewritten_lines_take_no_room() -> None:
    bar = b"".join(b"%9d%%\r" % number for number in range(100_000))
    output = build(bar + b"\ndone\n", head=100, tail=100)
    assert output.text == "    99999%\ndone\n"
    assert not output.truncated
    assert output.total_bytes == len(bar) + 6


def test_removed_sequences_are_not_omitted() -> None:
    output = build(b"\x1b[31m" * 100_000 + b"red\n")
    assert output.text == "red\n"
    assert not output.truncated


def test_a_line_is_rewritten_after_the_head_is_full() -> None:
    output = build(b"abcdefghij\rxyz\n", head=5, tail=20)
    assert output.text == "xyzdefghij\n"
    assert not output.truncated


def test_finish_is_idempotent() -> None:
    builder = OutputBuilder(head=5, tail=5)
    builder.feed(b"0123456789abcdef")
    assert builder.finish() is builder.finish()


# Output over the limit


def test_the_head_and_the_tail_are_shown() -> None:
    data = b"".join(b"line %d\n" % number for number in range(1000))
    output = build(data, head=16, tail=27)
    notice = "[... 995 lines, 8,847 bytes left out of 1,000 lines, 8,890 bytes ...]"
    assert output.text == f"line 0\nline 1\nli\n{notice}\nline 997\nline 998\nline 999\n"
    assert (output.total_lines, output.omitted_lines, output.omitted_bytes) == (1000, 995, 8847)


def _whole(lines: int, size: int, artifact: Artifact | None, error: str | None) -> Output:
    return Output(total_lines=lines, total_bytes=size, artifact=artifact, artifact_error=error)


def test_marker_counts_no_lines_of_output_without_line_feeds() -> None:
    assert marker(_whole(0, 100, None, None), 0, 94) == "[... 94 bytes left out of 100 bytes ...]"
    assert (
        marker(_whole(1, 100, None, None), 0, 94)
        == "[... 0 lines, 94 bytes left out of 1 line, 100 bytes ...]"
    )


def test_marker_names_the_file_of_the_artifact() -> None:
    output = build(b"0123456789" * 10, head=3, tail=3, store=FakeStore())
    assert output.text == "012\n[... 94 bytes left out of 100 bytes; the whole is in kept ...]\n789"


def test_the_marker_names_the_artifact_where_its_file_cannot_be_read() -> None:
    whole, capped = Artifact("id", Path("kept"), 9), Artifact("id", Path("kept"), 9, 1500)
    assert marker(_whole(3, 4, whole, None), 1, 2, name_path=False).endswith(
        "; the whole is kept as artifact id ...]"
    )
    assert marker(_whole(3, 4, capped, None), 1, 2, name_path=False).endswith(
        "; all but 1,500 bytes of the middle is kept as artifact id ...]"
    )


@pytest.mark.parametrize(
    ("artifact", "error", "text"),
    [
        (None, None, "[... 1 line, 2,000 bytes left out of 3 lines, 4,000 bytes ...]"),
        (
            Artifact("id", Path("kept"), 9),
            None,
            "[... 1 line, 2,000 bytes left out of 3 lines, 4,000 bytes; the whole is in kept ...]",
        ),
        (
            Artifact("id", Path("kept"), 9, 1500),
            None,
            (
                "[... 1 line, 2,000 bytes left out of 3 lines, 4,000 bytes; "
                "all but 1,500 bytes of the middle is in kept ...]"
            ),
        ),
        (
            None,
            "No space left on device",
            (
                "[... 1 line, 2,000 bytes left out of 3 lines, 4,000 bytes; "
                "the whole was not kept: No space left on device ...]"
            ),
        ),
    ],
)
def test_marker_has_counts_and_the_artifact(artifact: Artifact | None, error: str | None, text: str) -> None:
    assert marker(_whole(3, 4000, artifact, error), 1, 2000) == text


@pytest.mark.parametrize(
    ("head", "tail", "text"), [(0, 4, "[...]\nghij"), (4, 0, "abcd\n[...]"), (0, 0, "[...]")]
)
def test_either_end_can_be_empty(head: int, tail: int, text: str) -> None:
    output = build(b"abcdefghij", head=head, tail=tail)
    assert re.sub(r"\[\.\.\. .* \.\.\.\]", "[...]", output.text) == text
    assert output.omitted_bytes == 10 - head - tail


def test_characters_are_not_cut() -> None:
    output = build("€".encode() * 100, head=10, tail=10)
    assert shown(output) == "€€€\n€€€"
    assert output.omitted_bytes == 300 - 18


def test_a_character_that_does_not_fit_leaves_the_head_short() -> None:
    output = build("abcd€fghij".encode() * 3, head=5, tail=4)
    assert output.text.startswith("abcd\n[... ")


@pytest.mark.parametrize(
    "sequence", [b"\x1b[1;31m", b"\x1b]0;title\x07", b"\x1b]8;;http://a\x1b\\", b"\x1b(B", "\x9b31m".encode()]
)
def test_the_tail_never_starts_with_the_remains_of_a_sequence(sequence: bytes) -> None:
    for rest in range(len(sequence)):
        output = build(b"x" * 5000 + sequence + b"y" * 50, head=1, tail=50 + rest, max_line=10_000)
        assert shown(output, 1) == "x" + "y" * 50


def test_a_long_control_string_does_not_show_in_the_tail() -> None:
    output = build(b"x" * 10_000 + b"\x1b]52;" + b"A" * 4000 + b"\x07the end", head=10, tail=500)
    assert shown(output, 10) == "x" * 10 + "the end"


def test_an_unfinished_control_string_hides_no_tail() -> None:
    output = build(b"x" * 10_000 + b"\x1b]0;" + b"A" * 1000, head=10, tail=500)
    assert shown(output, 10) == "x" * 10 + "A" * 500


def test_undecodable_bytes_stay_within_the_limit() -> None:
    output = build(b"start\n" + b"\xff\n" * 1000, head=10, tail=100)
    assert len(shown(output).encode()) <= 111
    assert output.text.startswith("start\n\ufffd\n[... ")
    assert shown(output).count("\ufffd") == 26
    assert output.omitted_bytes == 2006 - len("start\n") - 26 * 2


def test_undecodable_bytes_count_as_shown_characters() -> None:
    output = build(b"\xff\n" * 40, head=40, tail=60)
    assert len(shown(output, 20).encode()) <= 100
    assert output.omitted_lines + shown(output, 20).count("\n") == 40


# Long lines


def test_long_line_is_cut_with_a_note() -> None:
    output = build(b"x" * 5000 + b"\nnext\n")
    assert output.text == "x" * 2000 + " [line cut: 3,000 more bytes]\nnext\n"
    assert output == Output(
        text=output.text, total_bytes=5006, omitted_bytes=3000, total_lines=2, cut_lines=1
    )


def test_a_line_of_the_longest_length_is_not_cut() -> None:
    data = b"x" * 2000 + b"\x1b[m\r\n" + "é".encode() * 2000
    output = build(data)
    assert output.text == "x" * 2000 + "\n" + "é" * 2000
    assert output.cut_lines == 0


def test_line_one_character_too_long_is_cut() -> None:
    assert build(b"123456\n", max_line=5).text == "12345 [line cut: 1 more byte]\n"
    assert build("12345é\r\n".encode(), max_line=5).text == "12345 [line cut: 2 more bytes]\n"


def test_a_cut_line_can_be_the_last() -> None:
    output = build(b"1234567", max_line=5)
    assert output == Output(
        text="12345 [line cut: 2 more bytes]", total_bytes=7, omitted_bytes=2, cut_lines=1
    )


def test_a_long_line_can_be_rewritten() -> None:
    output = build(b"1234567\rabc\n", max_line=5)
    assert output.text == "abc45 [line cut: 2 more bytes]\n"
    output = build(b"1234567\r\x1b[0000002Kabc\n", max_line=5)
    assert (output.text, output.cut_lines) == ("abc\n", 0)
    output = build(b"1234567\r\x1b[Kabc\n", max_line=5)
    assert output == Output(text="abc\n", total_bytes=15, total_lines=1)


def test_unfinished_control_string_is_cut_like_a_line() -> None:
    output = build(b"\x1b]0;title and more\nnext", max_line=5)
    assert output.text == "0;tit [line cut: 13 more bytes]\nnext"


def test_lines_are_cut_in_the_tail_too() -> None:
    data = b"start\n" + b"x" * 1000 + b"\n" + b"y" * 150 + b"\nend\n"
    output = build(data, head=6, tail=200, max_line=100)
    assert output.text.startswith("start\n[... ")
    assert output.text.endswith(" bytes ...]\n" + "y" * 100 + " [line cut: 50 more bytes]\nend\n")
    assert output.cut_lines == 1
    assert len(shown(output, 6)) + output.omitted_bytes == output.total_bytes


WITHIN = ", with the start of the next line"


@pytest.mark.parametrize(
    ("data", "end", "within"),
    [
        (b"line\n" * 40 + b"other\n", "line\n" * 9 + "other\n", False),
        (b"line\n" * 40 + b"x" * 200 + b"\nother\n", "x" * 47 + "\nother\n", True),
        (b"line\n" * 40 + b"x" * 200, "x" * 54, True),
        (b"x" * 200 + b"\n" + b"y" * 20 + b"\n", "x" * 32 + "\n" + "y" * 20 + "\n", False),
        (b"x" * 200, "x" * 54, False),
    ],
    ids=["short lines", "a long line", "a last line", "the line of the start", "one line"],
)
def test_tail_begins_with_a_line_or_a_note(data: bytes, end: str, within: bool) -> None:
    output = build(data, head=20, tail=54)
    assert output.text.partition("...]\n")[2] == end
    assert (WITHIN in output.text) is within
    assert output.omitted_bytes == len(data) - 20 - len(end)


def test_a_line_without_its_start_shows_its_end() -> None:
    data = b"start\n" + b"x" * 1000 + b"the error"
    output = build(data, head=6, tail=200, max_line=20)
    assert output.text.endswith(" ...]\nxxxxxxxxxxxthe error")
    assert output.cut_lines == 0
    assert len(shown(output, 6)) + output.omitted_bytes == output.total_bytes


# Artifacts


def test_complete_output_has_no_artifact() -> None:
    store = FakeStore()
    assert build(b"short\n", store=store).artifact is None
    assert build(b"\x1b[m\n" * 10, store=store).artifact is None
    assert store.writers == []


def test_artifact_is_kept_when_the_text_fits_and_the_bytes_do_not() -> None:
    store = FakeStore()
    output = build(b"bar\r" * 100_000, store=store)
    assert output.artifact is not None
    assert not output.truncated
    assert [(writer.state, bytes(writer.data)) for writer in store.writers] == [
        ("finished", b"bar\r" * 100_000)
    ]


@pytest.mark.parametrize("size", [1, 1000, 100_000])
def test_artifact_has_all_raw_bytes(size: int) -> None:
    store = FakeStore()
    data = b"\x1b[31m\xff some line\r\n" * 10_000
    output = build([data[at : at + size] for at in range(0, len(data), size)], store=store)
    assert output.artifact == Artifact("id", Path("kept"), len(data))
    assert [(writer.state, bytes(writer.data)) for writer in store.writers] == [("finished", data)]


def test_cut_line_is_kept_in_the_artifact() -> None:
    store = FakeStore()
    assert build(b"x" * 3000, store=store).artifact is not None
    assert [bytes(writer.data) for writer in store.writers] == [b"x" * 3000]


def test_marker_notes_a_capped_artifact() -> None:
    output = build(b"x\n" * 50_000, store=FakeStore(omitted=1234))
    assert "; all but 1,234 bytes of the middle is in kept ...]" in output.text


@pytest.mark.parametrize("step", ["create", "write", "finish"])
@pytest.mark.parametrize("data", [b"x\n" * 500_000, b"x" * 3000])
def test_full_disk_does_not_fail_the_builder(step: Step, data: bytes) -> None:
    store = FakeStore(fails_at=step)
    pieces = [data[at : at + 64 * KB] for at in range(0, len(data), 64 * KB)]
    output = build(pieces, store=store)
    assert output.total_bytes == len(data)
    assert output.artifact is None
    assert output.artifact_error == "No space left on device"
    assert all(writer.state == "discarded" for writer in store.writers)
    if output.omitted_lines:
        assert "; the whole was not kept: No space left on device ...]" in output.text


def test_full_disk_does_not_change_a_complete_text() -> None:
    output = build(b"bar\r" * 100_000, store=FakeStore(fails_at="write"))
    assert output == Output(text="bar", total_bytes=400_000, artifact_error="No space left on device")


def test_abandoned_builder_discards_its_artifact() -> None:
    store = FakeStore()
    builder = OutputBuilder(artifacts=cast("ArtifactStore", store))
    builder.feed(b"x\n" * 500_000)
    builder.close()
    builder.close()
    assert [writer.state for writer in store.writers] == ["discarded"]


def test_closing_a_finished_builder_does_nothing() -> None:
    store = FakeStore()
    builder = OutputBuilder(artifacts=cast("ArtifactStore", store))
    builder.feed(b"x\n" * 500_000)
    output = builder.finish()
    builder.close()
    assert [writer.state for writer in store.writers] == ["finished"]
    assert builder.finish() is output


def test_a_real_artifact_is_on_disk(tmp_path: Path) -> None:
    data = b"some line\n" * 100_000
    builder = OutputBuilder(artifacts=ArtifactStore(tmp_path / "kept"))
    builder.feed(data)
    output = builder.finish()
    assert output.artifact is not None
    assert output.artifact.path.read_bytes() == data
    assert str(output.artifact.path) in output.text


@pytest.mark.parametrize("size", [1, 10, 20_000])
def test_nul_characters_are_counted_in_any_chunks(size: int) -> None:
    data = b"./a\0./b\0./c\0"
    output = build([(data * size)[at : at + 7] for at in range(0, len(data) * size, 7)])
    assert output.nul_bytes == 3 * size
    assert "\0" not in output.text
    assert output.text.startswith("./a./b./c")


# Any output

limits = st.tuples(st.integers(0, 60), st.integers(0, 60), st.integers(1, 40))


@given(outputs, limits)
def test_any_output_is_bounded_and_counted(data: bytes, limit: tuple[int, int, int]) -> None:
    head, tail, max_line = limit
    output = build(data, head=head, tail=tail, max_line=max_line)
    text = shown(output)
    assert len(text.encode()) <= head + tail + (output.omitted_bytes > 0)  # a line feed before the marker
    assert all(len(line) <= max_line for line in text.split("\n"))
    assert output.total_bytes == len(data)
    assert 0 <= output.omitted_bytes <= len(data)
    assert output.total_lines == data.count(b"\n")
    assert output.cut_lines == len(NOTE.findall(output.text))
    assert len(MARKER.findall(output.text)) <= 1
    assert output.truncated == bool(MARKER.search(output.text) or output.cut_lines)
    if not output.truncated:
        assert output.text == clean(data)


plain = st.lists(st.sampled_from([b"a", b"word ", b"\n", b"\t", b"x" * 30]), max_size=60).map(b"".join)


@given(plain, limits)
def test_the_counts_of_plain_text_add_up(data: bytes, limit: tuple[int, int, int]) -> None:
    head, tail, max_line = limit
    output = build(data, head=head, tail=tail, max_line=max_line)
    text = shown(output, head)
    assert len(text) + output.omitted_bytes == len(data)
    assert text.count("\n") + output.omitted_lines == output.total_lines


visible = st.lists(
    st.sampled_from(
        [
            b"a",
            b"word ",
            b"\n",
            b"\x1b[1;31m",
            b"\x1b[m",
            b"\x1b]0;a title\x07",
            b"\x1b(B",
            "é€😀\x9b0m".encode(),
        ]
    ),
    min_size=20,  # mostly more than the limit
    max_size=60,
)


@given(visible, limits)
def test_shown_text_is_the_start_and_the_end(pieces: list[bytes], limit: tuple[int, int, int]) -> None:
    """The start is as long as its limit in text, and the end as long as its limit in raw bytes."""
    head, tail, _ = limit
    data = b"".join(pieces)
    whole = clean(data)
    start, *rest = MARKER.split(build(data, head=head, tail=tail).text)
    if not rest:
        assert start == whole
        assert len(whole.encode()) <= head + tail
        return
    (end,) = rest
    if len(start.encode()) > head or not whole.startswith(start):
        start = start.removesuffix("\n")  # the line feed before the marker
    assert whole.startswith(start)
    assert head - 3 <= len(start.encode()) <= head  # a character has at most four bytes
    fitting = next(data[at:] for at in accumulate(map(len, pieces), initial=0) if len(data) - at <= tail)
    assert whole.endswith(end)
    line = fitting.partition(b"\n")[2]
    # The end begins with a line if that leaves half of the limit.
    if end != clean(line) or 2 * len(line) < tail:
        assert end.endswith(clean(fitting))
    assert len(end.encode()) <= tail
    assert len(start) + len(end) <= len(whole)


@given(outputs | bars, cuts, st.integers(0, 60), st.integers(1, 40))
def test_full_text_does_not_depend_on_chunk_boundaries(
    data: bytes, places: list[int], limit: int, max_line: int
) -> None:
    assert fill(cut(data, places), limit, max_line) == fill([data], limit, max_line)
    assert fill([bytes([byte]) for byte in data], limit, max_line) == fill([data], limit, max_line)


def fill(pieces: list[bytes], limit: int, max_line: int) -> tuple[int, str, int, int, int]:
    text = BoundedText(limit, max_line)
    taken = 0
    for piece in pieces:
        room = text.feed(piece)
        taken += room
        if room < len(piece):
            break
    taken -= len(text.give_back())
    assert text.size == len(NOTE.sub("", text.text()).encode()) <= limit
    return taken, text.text(), text.lines, text.cut_lines, text.cut_bytes


@given(outputs, st.lists(st.integers(0, 200_000), max_size=5), st.sampled_from([1, 40, 3000]))
def test_output_does_not_depend_on_chunk_boundaries(data: bytes, places: list[int], times: int) -> None:
    data *= times
    assert build(cut(data, places), head=2000, tail=3000) == build(data, head=2000, tail=3000)


@given(st.lists(st.binary(max_size=50), max_size=50), st.integers(1, 100))
def test_a_tail_holds_the_last_bytes(pieces: list[bytes], capacity: int) -> None:
    tail = Tail(capacity)
    for piece in pieces:
        tail.append(piece)
    data = b"".join(pieces)
    assert tail.total == len(data)
    assert tail.last(capacity) == data[-capacity:]


# Memory and time


def peak(feed: Callable[[OutputBuilder], None]) -> int:
    builder = OutputBuilder()
    tracemalloc.start()
    try:
        feed(builder)
        builder.finish()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "chunk",
    [
        (b"x" * 59 + b"\n") * 1000,
        b"x" * 64 * KB,
        b"y\n" * 32 * KB,
        b"\n" * 64 * KB,
        b"\0" * 64 * KB,
        b" 50% [#####     ]\r" * 3000,
        "é€".encode() * 12 * KB,
        bytes(range(256)) * 256,
    ],
    ids=["lines", "no line feed", "yes", "empty lines", "zeros", "bar", "characters", "bytes"],
)
def test_memory_does_not_grow_with_output(chunk: bytes) -> None:
    times = 40 * MB // len(chunk) + 1

    def feed(builder: OutputBuilder) -> None:
        for _ in range(times):
            builder.feed(chunk)

    assert peak(feed) < 2 * MB


def test_memory_does_not_grow_with_chunks() -> None:
    def feed(builder: OutputBuilder) -> None:
        for _ in range(300_000):
            builder.feed(b"x")
            builder.feed(b"\n")

    assert peak(feed) < 2 * MB


def test_huge_chunk_is_not_buffered() -> None:
    chunk = b"some line\n" * 10 * MB
    # A slice of the chunk, for a moment.
    assert peak(lambda builder: builder.feed(chunk)) < 2 * MB + len(chunk)
    assert build(chunk).text.endswith("some line\n")


@pytest.mark.parametrize(
    "pattern",
    [
        *(b"\x1b]", b"\x1b[", b"\x1b(", b"\b", b"x\b", b"\r", b"x\r", b"\r\x1b]", b"\xff", b"\xc2\x9d"),
        *(b"x\x1b[1K", b"x\x1b[2K", b"\r\x1b[Kxxxxxxxx"),
        *(
            b"\x1b]" + b"x" * 4095,
            b"x" * 2001 + b"\r",
            b"x" * 2001 + b"\b" * 2001,
            b"\x1b]" + b"x" * 3000 + b"\r",
        ),
    ],
)
def test_hostile_output_takes_linear_time(pattern: bytes) -> None:
    data = (pattern * (64 * KB // len(pattern) + 1))[: 64 * KB]
    output = build([data] * 25)  # quadratic code would take minutes
    assert output.total_bytes == 25 * 64 * KB


def test_small_chunks_are_gathered() -> None:
    assert build([b"x\n"] * COALESCE) == build(b"x\n" * COALESCE)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\x7fELF\x02\x01\x01" + bytes(2000), "ELF program"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(range(256)), "PNG image"),
        (b"%PDF-1.7\n%\xb5\xed\xae\xfb\x01\n" + b"text\n" * 9, "PDF document"),
        (bytes(range(256)) * 40, "no text"),
        (b"%PDF-1.7 is a name\n", None),
        (b"MZ is a name\n", None),
        (b"one\0two\0three\0" * 500, None),  # find -print0
        (b"\x1b[31mred\x1b[0m\a\b\r\n" * 500, None),
        ("grüße, мир, 世界\n".encode() * 500, None),
        ("grüße\n".encode("utf-16") * 500, None),
        ("Überlänge\n".encode("cp1252") * 500, None),
        (b"text\n" * 300 + b"\x7fELF" + bytes(2000), None),  # after the bytes that are examined
        (b"", None),
    ],
)
@pytest.mark.parametrize("piece", [1, 700, 1_000_000])
def test_binary_output_is_recognized_by_its_first_bytes(data: bytes, kind: str | None, piece: int) -> None:
    builder = OutputBuilder()
    for start in range(0, len(data), piece):
        builder.feed(data[start : start + piece])
    assert builder.finish().binary == kind
