"""What a command printed, as it came, bounded, or kept whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from pathlib import Path


Channel = Literal["stdout", "stderr"]

MASK = b"[secret]"
"""What stands in the place of a secret."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """The whole output of a command, kept in a file because its text had to be bounded.

    Attributes:
        id: What `ArtifactStore.path` and ``anyshell artifacts show`` take.
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
class Output:
    """What a command printed, bounded.

    Attributes:
        text: What the program printed, cleaned of escape sequences, and one truncation marker at most. Of a terminal:
            what a person would have seen; blank lines at its end are left out, and are not counted.
        total_bytes: Raw bytes that the command wrote.
        omitted_bytes: Raw bytes of these that `text` leaves out, between its head and its tail and at the
            end of lines that were cut.
        total_lines: Line feeds in what the command wrote.
        omitted_lines: Line feeds of these in what `text` leaves out.
        head_range: Where something between is left out: the first and last line of `text` before that, counted from 1, a
            line that is shown in part too; ``None`` when nothing is left out between, or nothing shown before.
        tail_range: The same of what comes after.
        cut_lines: Lines of `text` that were longer than a line may be, and say so.
        artifact: The whole; ``None`` when nothing was left out, or when it could not be kept.
        artifact_error: Why the whole was not kept, such as ``No space left on device``.
        skipped_bytes: Of a terminal: raw bytes that were not drawn, since the program drew faster than a screen can
            be kept. They are left out of `text`. What was drawn again at the end, in 1 MiB at most, is exact; in other
            places an older state may stand. 0 otherwise.
        alternate: Of a terminal: the last frame of the alternate screen, as an editor or a pager draws on it, which is
            no part of `text`; ``None`` when it was not used.
        binary: What it is, such as ``PNG image``, when its beginning is no text; ``None`` otherwise. `text` is then of little use.
        masked: Secrets for which ``[secret]`` stands in the output and the artifact, by `Environment.detect`'s ``redact``. The
            numbers above count what stands there, not what the program printed.
    """

    text: str = ""
    total_bytes: int = 0
    omitted_bytes: int = 0
    total_lines: int = 0
    omitted_lines: int = 0
    head_range: tuple[int, int] | None = None
    tail_range: tuple[int, int] | None = None
    cut_lines: int = 0
    artifact: Artifact | None = None
    artifact_error: str | None = None
    skipped_bytes: int = 0
    alternate: str | None = None
    binary: str | None = None
    masked: int = 0

    @property
    def truncated(self) -> bool:
        """Whether `text` leaves anything out."""
        return self.omitted_bytes > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputLimits:
    """How much of a command's output becomes text.

    Attributes:
        head: Bytes of cleaned text kept from the start; zero or more.
        tail: Bytes of it kept from the end; zero or more.
        max_line: Characters that a line may have before it is cut; at least 1.

    Raises:
        ValueError: A limit is out of its range.
    """

    head: int = 20 * 1024
    tail: int = 30 * 1024
    max_line: int = 2_000

    def __post_init__(self) -> None:
        if self.head < 0 or self.tail < 0 or self.max_line < 1:
            raise ValueError(f"head and tail must be 0 or more, max_line 1 or more, not {self}")


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputEvent:
    """A piece of output, as it came.

    Attributes:
        channel: Where it was written; always ``stdout`` unless the channels were asked for apart.
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
