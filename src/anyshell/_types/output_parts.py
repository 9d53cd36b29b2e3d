"""The parts of an output: the file that keeps it, its images, and pieces of it as they come."""

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
        size: Its size in bytes.
        omitted_bytes: Bytes between the file's head and its tail that were not kept, because the output
            outgrew the cap of one artifact; 0 when the file is whole.
    """

    id: str
    path: Path
    size: int
    omitted_bytes: int = 0


@dataclass(frozen=True, slots=True)
class OutputImage:
    """An image in an output, of which the text has a note.

    Attributes:
        format: Such as ``PNG``; ``sixel``; ``kitty RGB`` and ``kitty RGBA`` for pixels alone; ``iTerm`` or ``kitty`` for what is not known.
        size: Bytes of it, decoded where that can be.
        width, height: In pixels, as it says; ``None`` where it does not.
        artifact: The image itself: a file of its format; ``None`` when it could not be kept.
    """

    format: str
    size: int
    width: int | None = None
    height: int | None = None
    artifact: Artifact | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputEvent:
    """A piece of output, as it came.

    Attributes:
        channel: The channel of the piece; always ``stdout`` unless the channels were asked for apart.
        data: The raw bytes.
        text: The bytes as text. By chunks: decoded, otherwise as printed. By lines: one line, cleaned,
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
    """A piece of what a job has printed. Reading it takes nothing away.

    Attributes:
        text: Cleaned of escape sequences.
        data: The raw bytes of it.
        offset: Where to read on: the byte after `data`, counted from the start of the job's output.
        total_bytes: Raw bytes that the job has printed so far.
        omitted_bytes: Bytes between the offset that was asked for and `data` that are not kept any more.
        utf8_bytes: How many first bytes of `data` are UTF-8, where the rest is text of the host's code page; ``None``
            when all of it is UTF-8, or the host has no code page.
    """

    text: str
    data: bytes
    offset: int
    total_bytes: int
    omitted_bytes: int = 0
    utf8_bytes: int | None = None
