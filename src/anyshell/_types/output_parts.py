"""The parts of an output: the file that keeps the whole, the images, and the pieces of a stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from .process import Channel


@dataclass(frozen=True, slots=True)
class Artifact:
    """The whole output of a command, kept in a file because its text had to be bounded.

    Attributes:
        id: The id for `ArtifactStore.path` and ``anyshell artifacts show``.
        path: The file: raw bytes, readable by its owner alone, on the machine that anyshell runs on.
        size: The size of the file in bytes.
        omitted_bytes: Bytes between the file's head and its tail that were not kept, because the output
            outgrew the cap of one artifact; 0 when the file is whole.
    """

    id: str
    path: Path
    size: int
    omitted_bytes: int = 0


@dataclass(frozen=True, slots=True)
class OutputImage:
    """An image in an output; the output's text has a note in its place.

    Attributes:
        format: Such as ``PNG``; ``sixel``; ``kitty RGB`` and ``kitty RGBA`` for bare pixels; ``iTerm`` or ``kitty`` for an
            unknown format.
        size: Bytes of the image, decoded where possible.
        width, height: In pixels, as the image says; ``None`` when the image does not say.
        artifact: The image itself, as a file of its format; ``None`` when the image could not be kept.
    """

    format: str
    size: int
    width: int | None = None
    height: int | None = None
    artifact: Artifact | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputEvent:
    """A piece of a command's output, in the order of its arrival.

    Attributes:
        channel: The channel of the piece; always ``stdout`` unless the channels were requested separately.
        data: The raw bytes.
        text: The bytes as text. By chunks: decoded, and otherwise unchanged. By lines: one line, cleaned,
            without its line feed.
        complete: By lines: false for a piece of a line that is too long to be held, and for a last line
            without a line feed.
    """

    channel: Channel
    data: bytes
    text: str
    complete: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOutput:
    """A piece of a job's output. A read consumes nothing: the same piece can be read again.

    Attributes:
        text: The piece as text, cleaned of escape sequences.
        data: The raw bytes of the piece.
        offset: The offset of the next read: the byte after `data`, counted from the start of the job's output.
        total_bytes: Raw bytes that the job has printed so far.
        omitted_bytes: Bytes between the requested offset and `data` that are not kept any more.
        utf8_bytes: The number of first bytes of `data` that are UTF-8, if the rest is text of the host's code page.
            ``None`` when all of `data` is UTF-8, or the host has no code page.
    """

    text: str
    data: bytes
    offset: int
    total_bytes: int
    omitted_bytes: int = 0
    utf8_bytes: int | None = None
