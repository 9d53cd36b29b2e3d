"""Images in an output: sequences of kitty, sixel and iTerm. A note replaces each image in the text, and the image is kept."""

from __future__ import annotations

import base64
import binascii
import contextlib
import re
import struct
from typing import TYPE_CHECKING, NamedTuple

from ..sequences import number_of
from .binary import kind_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..._types import Artifact, OutputImage
    from .keeper import OutputStore

LARGEST_IMAGE = 8 * 1024 * 1024
"""Bytes of an image's sequences that are held. A larger sequence counts as text; of a larger image in parts, only a note remains."""

MOST_IMAGES = 64
"""Images of an output that are kept and noted; further images are removed without a note."""

LONGEST_START = 80
"""Bytes of a sequence's start by which an image is recognised; a sequence with a longer start is not an image."""

# kitty: APC G. iTerm: OSC 1337 ; File=, or MultipartFile=, FilePart= of each part, FileEnd. sixel: DCS, numbers, q. The C1 forms as UTF-8, as in `sequences`.
# The pattern begins with a set of bytes: `re` skips all other bytes. Compiled at the first use: nearly no output has an image.
_START = (
    rb"[\x1b\xc2](?:(?P<kitty>(?:(?<=\x1b)_|(?<=\xc2)\x9f)G)|(?P<iterm>(?:(?<=\x1b)\]|(?<=\xc2)\x9d)1337;(?P<key>(?:Multipart)?File=|FilePart=|FileEnd))"
    rb"|(?P<sixel>(?:(?<=\x1b)P|(?<=\xc2)\x90)[0-9;]{0,%d}+q))" % (LONGEST_START - 3)
)
_BEGUN = (
    rb"(?:\x1b|\xc2|\x1b_|\xc2\x9f|(?:\x1b\]|\xc2\x9d)1?3?3?7?;?(?:M?u?l?t?i?p?a?r?t?F?i?l?e?|File(?:P?a?r?t?|E?n?d?))|(?:\x1bP|\xc2\x90)[0-9;]{0,%d}+)\Z"
    % (LONGEST_START - 3)
)
# Searched for first, since nearly no output has any of these starts. A search for one byte is fifty times as fast as for two.
_MAYBE = tuple((bytes([start[-1]]), start) for start in (b"\xc2\x90", b"\xc2\x9d", b"\xc2\x9f"))
_MAYBE_LONG = (b"\x1b_", b"\x1b]1", b"\x1bP")
_HALVES = (b"\x1b]", b"\x1b", b"\xc2")
_END = re.compile(rb"[\n\r\x07\x18\x1a\x1b]|\xc2[\x80-\x9f]")
_RASTER = re.compile(rb'"[0-9]+;[0-9]+;([0-9]+);([0-9]+)')
_GIF, _PNG = b"GIF8", b"\x89PNG\r\n\x1a\n"


class Segment(NamedTuple):
    """A segment of an output, without images.

    Attributes:
        data: The raw bytes of the segment, or a note.
        at: Bytes of the output before the segment.
        note: Whether the segment is a note.
    """

    data: bytes
    at: int
    note: bool = False


class Images:
    """A filter that takes images out of output, in bounded memory. The result does not depend on how the bytes are cut.

    A sequence is an image if the sequence ends as a control string does (ST, BEL). An unfinished sequence is returned whole.

    Args:
        store: The store for the images, decoded where possible; ``None`` keeps no images.

    Attributes:
        found: The images, at most `MOST_IMAGES`.
        size: Bytes of the output that were images.
    """

    def __init__(self, store: OutputStore | None) -> None:
        self.found: list[OutputImage] = []
        self.size = 0
        self._store = store
        self._at = 0  # bytes of the output before the held bytes
        self._held = bytearray()  # bytes of a sequence, or bytes that may start a sequence
        self._kind = ""  # the kind of the held sequence, once known
        self._looked = 0  # held bytes that do not have the sequence's end
        self._parts: _Parts | None = None  # an image of kitty's that goes on in another sequence
        self._file: _Parts | None = None  # an image of iTerm's that goes on in another sequence

    @property
    def begun(self) -> bool:
        """Whether the start of a sequence is held."""
        return bool(self._held)

    def feed(self, data: bytes) -> list[Segment]:
        """Take the next bytes, and return the segments between images, with notes on the images."""
        if (
            self._held and not self._kind
        ):  # the held bytes may start a sequence: a test together with the new bytes is far faster
            data = bytes(self._held) + data
            self._held.clear()
        if not self._held and not _may_have(data):
            whole = len(data)
            if data.endswith(_HALVES):
                whole -= next(len(half) for half in _HALVES if data.endswith(half))
                self._held += data[whole:]
            self._at += whole
            return [Segment(data[:whole], self._at - whole)] if whole else []
        self._held += data
        return [segment for segment in self._segments() if segment.data]

    def flush(self) -> list[Segment]:
        """Return the held segments at the end of the output."""
        rest = [Segment(bytes(self._held), self._at)] if self._held else []
        self._held, self._at, self._kind = bytearray(), self._at + len(self._held), ""
        for parts in (self._parts, self._file):
            if parts is not None:
                rest += [Segment(note, self._at, note=True) for note in self._finished(parts)]
        return rest

    def discard(self) -> None:
        """Remove the files of all images."""
        for image in self.found:
            if image.artifact is not None:
                with contextlib.suppress(OSError):
                    image.artifact.path.unlink()

    def _segments(self) -> Iterator[Segment]:
        held = self._held
        while held:
            if not self._kind:
                start = re.search(_START, held)
                if start is None:
                    begun = re.compile(_BEGUN).search(held, max(0, len(held) - LONGEST_START))
                    yield self._segment(len(held) if begun is None else begun.start())
                    return
                kind, looked = start.lastgroup or "", start.end() - start.start()
                yield self._segment(start.start())
                self._kind, self._looked = kind, looked
            end = _END.search(held, self._looked)
            if end is None:
                self._looked = len(held) - held.endswith(b"\xc2")
                if len(held) <= LARGEST_IMAGE:
                    return
                yield self._segment(self._looked)
                self._kind = ""
                continue
            at, size, mark = end.start(), end.end(), end[0]
            if mark == b"\x1b":
                if size == len(held):
                    self._looked = at
                    return
                size += held[size : size + 1] == b"\\"
            if (
                mark in (b"\x07", b"\xc2\x9c") or size - at == len(b"\x1b\\") > len(mark)
            ) and size <= LARGEST_IMAGE:
                yield from self._ended(bytes(held[:at]), size)
            else:
                yield self._segment(at)  # an unfinished sequence hides nothing
            self._kind = ""

    def _segment(self, size: int) -> Segment:
        segment = Segment(bytes(self._held[:size]), self._at)
        del self._held[:size]
        self._at += size
        return segment

    def _ended(self, sequence: bytes, size: int) -> Iterator[Segment]:
        """Take a whole sequence, and yield the note on an image; a sequence without an image is yielded unchanged."""
        start = re.match(_START, sequence)
        assert start is not None
        body = sequence[start.end() :]
        notes: list[bytes] | None = None
        if self._kind == "kitty":
            notes = self._kitty(body, size)
        elif self._kind == "iterm":
            notes = self._iterm(start["key"], body, size)
        else:
            raster = _RASTER.match(body)
            pixels = None if raster is None else (number_of(raster[1]), number_of(raster[2]))
            notes = self._image("sixel", sequence + b"\x1b\\", pixels, size)
        if notes is None:
            yield self._segment(size)
            return
        self.size += size
        del self._held[:size]
        self._at += size
        for note in notes:
            yield Segment(note, self._at, note=True)

    def _kitty(self, body: bytes, size: int) -> list[bytes] | None:
        """Take a kitty sequence, and return notes; ``None`` if the sequence has no image data, such as a query."""
        control, _, payload = body.partition(b";")
        keys = dict(part.split(b"=", 1) for part in control.split(b",") if b"=" in part)
        notes: list[bytes] = []
        parts = self._parts
        if parts is None or b"f" in keys or keys.get(b"a", b"f") != b"f":
            if keys.get(b"a", b"t") not in (b"t", b"T", b"f") or keys.get(b"t", b"d") != b"d" or not payload:
                return None
            notes = [] if parts is None else self._finished(parts)
            raw = {b"24": "RGB", b"32": "RGBA"}.get(keys.get(b"f", b"32"))
            width, height = number_of(keys.get(b"s", b"")), number_of(keys.get(b"v", b""))
            parts = _Parts(f"kitty {raw}" if raw else "kitty", (width, height) if width and height else None)
            self._parts = parts
        parts.add(payload, size)
        return notes if keys.get(b"m") == b"1" else notes + self._finished(parts)

    def _iterm(self, key: bytes, body: bytes, size: int) -> list[bytes] | None:
        """Take an iTerm sequence, and return notes; ``None`` if the sequence belongs to no file."""
        if key == b"File=":
            _, colon, payload = body.partition(b":")
            return self._image("iTerm", _decoded(payload) or payload, None, size) if colon else None
        file = self._file
        if key == b"MultipartFile=":
            self._file = _Parts("iTerm", None)
            self._file.add(b"", size)
            return [] if file is None else self._finished(file)
        if file is None or (key == b"FileEnd" and body):
            return None
        file.add(body, size)
        if key == b"FilePart=":
            return []
        self._file = None
        return self._finished(file)

    def _finished(self, parts: _Parts) -> list[bytes]:
        if parts is self._parts:
            self._parts = None
        data = None if parts.payload is None else _decoded(bytes(parts.payload)) or bytes(parts.payload)
        return self._image(parts.format, data, parts.pixels, parts.size)

    def _image(self, form: str, data: bytes | None, pixels: tuple[int, int] | None, size: int) -> list[bytes]:
        """Keep an image, and return the note on the image."""
        if len(self.found) >= MOST_IMAGES:
            return []
        kind = None if data is None else kind_of(data)
        if data is not None and kind is not None and kind.endswith(" image"):
            form, pixels = kind.removesuffix(" image"), _pixels(data) or pixels
        artifact = None if data is None or self._store is None else _kept(data, self._store)
        from ..._types import OutputImage  # imported here, since few outputs have an image

        image = OutputImage(
            format=form,
            size=size if data is None else len(data),
            width=None if pixels is None else pixels[0],
            height=None if pixels is None else pixels[1],
            artifact=artifact,
        )
        self.found.append(image)
        size_of = f", {image.width} x {image.height}" if image.width is not None else ""
        lost = "" if self._store is None else ", not kept"
        where = lost if artifact is None else f": artifact://{artifact.id}"
        # CAN ends an unfinished sequence before the note, as the image's own ESC did.
        return [f"\x18[image: {form}{size_of}, {image.size:,} bytes{where}]".encode()]


class _Parts:
    """An image in one sequence or in several."""

    def __init__(self, form: str, pixels: tuple[int, int] | None) -> None:
        self.format = form
        self.pixels = pixels
        self.payload: bytearray | None = bytearray()  # None when the payload was too large
        self.size = 0

    def add(self, payload: bytes, size: int) -> None:
        """Add the payload of a part, whose sequence has `size` bytes."""
        self.size += size
        if self.payload is not None and len(self.payload) + len(payload) <= LARGEST_IMAGE:
            self.payload += payload
        else:
            self.payload = None


def _may_have(data: bytes) -> bool:
    """Whether an image may begin in some bytes, apart from a start that the last bytes cut."""
    for last, start in _MAYBE:
        if last in data and start in data:
            return True
    return (
        b"\x1b" in data  # this test is thirty times as fast as the count
        and data.count(b"\x1b") != data.count(b"\x1b[")
        and any(start in data for start in _MAYBE_LONG)
    )


def _kept(data: bytes, store: OutputStore) -> Artifact | None:
    try:
        writer = store.create()
    except OSError:
        return None
    try:
        writer.write(data)
        return writer.finish()
    except OSError:
        with contextlib.suppress(OSError):
            writer.discard()
        return None


def _decoded(payload: bytes) -> bytes | None:
    try:
        return base64.b64decode(payload + b"=" * (-len(payload) % 4), validate=True)
    except binascii.Error:
        return None


def _pixels(data: bytes) -> tuple[int, int] | None:
    """Return the width and the height from the beginning of a PNG or a GIF; ``None`` for other data."""
    if data.startswith(_PNG) and data[12:16] == b"IHDR" and len(data) >= 24:
        return struct.unpack(">II", data[16:24])
    if data.startswith(_GIF) and len(data) >= 10:
        return struct.unpack("<HH", data[6:10])
    return None
