"""Images in an output: recognised, noted and kept for any chunk boundaries, and other bytes unchanged."""

from __future__ import annotations

import base64
import struct
import zlib
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from anyshell import ArtifactStore, Terminal
from anyshell.output import OutputBuilder, TerminalOutput
from anyshell.output.text import images
from anyshell.output.text.images import LARGEST_IMAGE, MOST_IMAGES, Images

from .test_builder import FakeStore

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from anyshell.types import Output

PNG = (
    b"\x89PNG\r\n\x1a\n"
    + struct.pack(">I4sIIBBBBBI", 13, b"IHDR", 3, 2, 8, 2, 0, 0, 0, 0)
    + struct.pack(">I", 9)
    + b"IDAT"
    + zlib.compress(bytes(20))
)
TEXT = base64.b64encode(PNG)


def kitty(control: bytes, payload: bytes) -> bytes:
    return b"\x1b_G%b;%b\x1b\\" % (control, payload)


KITTY = kitty(b"a=T,f=100", TEXT)
PARTS = kitty(b"a=T,f=100,m=1", TEXT[:20]) + kitty(b"m=1", TEXT[20:40]) + kitty(b"m=0", TEXT[40:])
ITERM = b"\x1b]1337;File=name=YQ==;inline=1:%b\x07" % TEXT
FILE = (
    b"\x1b]1337;MultipartFile=name=YQ==;inline=1\x07"
    + b"".join(b"\x1b]1337;FilePart=%b\x07" % TEXT[at : at + 20] for at in range(0, len(TEXT), 20))
    + b"\x1b]1337;FileEnd\x07"
)
SIXEL = b'\x1bP0;1q"1;1;12;6#0;2;0;0;0#0~~$-\x1b\\'
NOTE = f"[image: PNG, 3 x 2, {len(PNG):,} bytes]"


def built(data: bytes, cuts: Sequence[int] = (), store: ArtifactStore | None = None) -> Output:
    builder = OutputBuilder(artifacts=store)
    for start, end in pairwise([0, *sorted(cuts), len(data)]):
        builder.feed(data[start:end])
    return builder.finish()


def on_terminal(data: bytes, cuts: Sequence[int] = (), store: ArtifactStore | None = None) -> Output:
    output = TerminalOutput(Terminal(), artifacts=store, clock=lambda: 0.0)
    for start, end in pairwise([0, *sorted(cuts), len(data)]):
        output.feed(data[start:end])
    return output.finish()


@pytest.mark.parametrize("make", [built, on_terminal])
@pytest.mark.parametrize(
    "sequence",
    [
        KITTY,
        PARTS,
        ITERM,
        ITERM.replace(b"\x07", b"\x1b\\"),
        ITERM.replace(b"\x07", b"\xc2\x9c"),
        FILE,
        FILE.replace(b"\x07", b"\x1b\\"),
        KITTY.replace(b"\x1b_", b"\xc2\x9f"),
    ],
)
def test_image_is_kept_decoded_and_named(make: type, sequence: bytes, tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path / "kept")
    data = b"before " + sequence + b" after\r\n"
    output = make(data, store=store)
    (image,) = output.images
    assert (image.format, image.width, image.height, image.size) == ("PNG", 3, 2, len(PNG))
    assert image.artifact is not None
    assert store.read(image.artifact.id) == PNG
    assert (
        output.text
        == f"before [image: PNG, 3 x 2, {len(PNG):,} bytes: artifact://{image.artifact.id}] after\n"
    )
    assert (output.total_bytes, output.omitted_bytes) == (len(data), len(sequence))
    assert output.artifact is not None
    assert store.read(output.artifact.id) == data


@pytest.mark.parametrize(
    ("sequence", "said", "kept"),
    [
        (SIXEL, "sixel, 12 x 6", SIXEL),
        (SIXEL.replace(b'"1;1;12;6', b""), "sixel", SIXEL.replace(b'"1;1;12;6', b"")),
        (kitty(b"a=T,f=24,s=2,v=1", base64.b64encode(b"abcdef")), "kitty RGB, 2 x 1", b"abcdef"),
        (kitty(b"s=1,v=1", base64.b64encode(b"abcd")), "kitty RGBA, 1 x 1", b"abcd"),
        (kitty(b"a=T,f=100", b"no base64!"), "kitty", b"no base64!"),
        (
            b"\x1b]1337;File=:" + base64.b64encode(b"GIF89a\x05\0\x07\0") + b"\x07",
            "GIF, 5 x 7",
            b"GIF89a\x05\0\x07\0",
        ),
        (b"\x1b]1337;File=:aGk=\x07", "iTerm", b"hi"),
        (SIXEL.replace(b"12;6", b"9" * 300 + b";6"), "sixel, 99999 x 6", None),
    ],
)
def test_image_of_another_format_is_described(
    sequence: bytes, said: str, kept: bytes | None, tmp_path: Path
) -> None:
    store = ArtifactStore(tmp_path / "kept")
    output = built(sequence, store=store)
    (image,) = output.images
    assert image.artifact is not None
    assert output.text == f"[image: {said}, {image.size:,} bytes: artifact://{image.artifact.id}]"
    assert store.read(image.artifact.id) == (sequence if kept is None else kept)


@pytest.mark.parametrize(
    "data",
    [
        b"\x1b_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\",  # a question
        b"\x1b_Ga=d\x1b\\",
        b"\x1b_Ga=T,t=f;L3RtcC94\x1b\\",  # the name of a file
        b"\x1b]1337;SetMark\x07",
        b"\x1b]1337;File=name=YQ==\x07",
        b"\x1b]1337;FilePart=aGk=\x07",  # of no file
        b"\x1b]1337;FileEnd\x07",
        b"\x1b]1337;Multipart",
        b"\x1b]0;title\x07\x1b]8;;http://x\x1b\\",
        b"\x1bP$qm\x1b\\",
        b"\x1bP+q544e\x1b\\",
        b"\x1b_G",
        KITTY[:-2],
        KITTY[:-2] + b"\nmore\n",
        ITERM[:-1] + b"\x18more",
        SIXEL[:-2] + b"\x1b[31mred",
        SIXEL[:-2] + b"\rmore",
        b"\x1bP" + b"1;" * 60 + b"q~\x1b\\",
    ],
)
def test_other_sequences_stay_text(data: bytes) -> None:
    taken = Images(None)
    segments = [segment for piece in (data, b"") for segment in taken.feed(piece)] + taken.flush()
    assert b"".join(segment.data for segment in segments) == data
    assert not taken.found
    assert taken.size == 0


ANY = [KITTY, PARTS, ITERM, SIXEL, b"text\n", b"\xc2", b"\xb7", b"\x1b", b"\x1b[31m", b"\x1b_G", b"\x1b]13", b"\x1bP1;", b"\\", b"\x07", b"m=1;", b"\x9c", b"\x18", kitty(b"m=1,f=100", b"AAAA"), kitty(b"m=0", b""), FILE, b"\x1b]1337;MultipartFile=\x07", b"\x1b]1337;FilePart=aGk=\x07", b"\x1b]1337;FileEnd\x07", b"\x1b]1337;Fi"]  # fmt: skip


@settings(deadline=None)
@given(st.lists(st.sampled_from(ANY), max_size=12).map(b"".join), st.lists(st.integers(0, 900), max_size=9))
@example(b"x" + KITTY + b"y", [1, 2, 3, 4, 5])
def test_found_images_do_not_depend_on_chunk_boundaries(data: bytes, cuts: list[int]) -> None:
    places = [min(cut, len(data)) for cut in cuts]
    bytewise = range(1, len(data))
    for make in (built, on_terminal):
        whole = make(data)
        assert make(data, places) == whole
        assert make(data, bytewise) == whole
        assert (whole.total_bytes, whole.total_lines) == (len(data), data.count(b"\n"))
        assert 0 <= whole.omitted_bytes <= len(data)
        assert whole.text.count("[image: ") == len(whole.images)


@settings(deadline=None)
@given(st.lists(st.sampled_from(ANY), max_size=12).map(b"".join))
def test_segments_and_images_cover_all_bytes(data: bytes) -> None:
    taken = Images(None)
    segments = taken.feed(data) + taken.flush()
    assert sum(len(each.data) for each in segments if not each.note) + taken.size == len(data)
    assert all(data[each.at : each.at + len(each.data)] == each.data for each in segments if not each.note)


def test_images_before_and_after_an_omitted_middle_are_noted() -> None:
    data = ITERM + b"line\n" * 50_000 + SIXEL
    output = built(data)
    assert output.text.startswith(NOTE)
    assert output.text.endswith("[image: sixel, 12 x 6, 33 bytes]")
    assert [image.format for image in output.images] == ["PNG", "sixel"]
    assert 0 < output.omitted_bytes < len(data)


@pytest.mark.parametrize("pieces", [1, 100])
def test_oversized_image_is_bounded(monkeypatch: pytest.MonkeyPatch, pieces: int) -> None:
    monkeypatch.setattr(images, "LARGEST_IMAGE", 1000)
    large = b"\x1b]1337;File=:" + b"A" * 2000 + b"\x07"
    parts = kitty(b"m=1", b"A" * 800) + kitty(b"m=1", b"A" * 800) + kitty(b"m=0", b"A")
    data = large + b"\n" + parts
    output = built(data, range(1, len(data), pieces))
    assert output.text.endswith(f"[image: kitty RGBA, {len(parts):,} bytes]")
    assert [image.format for image in output.images] == ["kitty RGBA"]


def test_unfinished_multipart_file_is_noted_and_text_between_parts_shown() -> None:
    begun = b"\x1b]1337;MultipartFile=inline=1\x07one\n\x1b]1337;FilePart=aGk=\x07two\n"
    output = built(begun + FILE + b"three\n" + begun)
    assert output.text == f"one\ntwo\n[image: iTerm, 2 bytes]{NOTE}three\none\ntwo\n[image: iTerm, 2 bytes]"
    assert len(output.images) == 3


def test_oversized_multipart_file_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "LARGEST_IMAGE", 1000)
    part = b"\x1b]1337;FilePart=%b\x07" % (b"A" * 400)
    data = b"\x1b]1337;MultipartFile=\x07" + part * 3 + b"\x1b]1337;FileEnd\x07"
    assert built(data, range(1, len(data), 50)).text == f"[image: iTerm, {len(data):,} bytes]"


def test_unfinished_image_takes_bounded_memory() -> None:
    taken = Images(None)
    given_back = 0
    for _ in range(3 * LARGEST_IMAGE // 65536):
        given_back += sum(len(each.data) for each in taken.feed(b"\x1b_G" + b"A" * 65536))
        assert len(taken._held) <= LARGEST_IMAGE + 70_000
    assert given_back > LARGEST_IMAGE


def test_images_are_bounded_in_number(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path / "kept")
    output = built((SIXEL + b"\n") * (MOST_IMAGES + 9), store=store)
    assert len(output.images) == MOST_IMAGES == output.text.count("[image: ")
    assert output.omitted_bytes == len(SIXEL) * (MOST_IMAGES + 9)


def test_image_without_an_artifact_is_noted() -> None:
    builder = OutputBuilder(artifacts=FakeStore(fails_at="write"))
    builder.feed(ITERM)
    output = builder.finish()
    assert output.text == f"[image: PNG, 3 x 2, {len(PNG):,} bytes, not kept]"
    assert output.artifact_error is not None


def test_abandoned_output_leaves_no_image(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path / "kept")
    builder = OutputBuilder(artifacts=store)
    builder.feed(KITTY * 2_000)
    assert store.list()
    builder.close()
    assert store.list() == []
