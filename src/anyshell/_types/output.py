"""The output of a command: raw, as bounded text, or kept whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from .._exceptions import OutputIncomplete
from .checks import check_count

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self

    from .output_parts import Artifact, OutputImage


DEFAULT_BUDGET = 50 * 1024
"""Bytes of an output that become text."""

HEAD_SHARE = 0.15  # no bound: a part of one
"""The share of a budget for the start of an output."""

EXCERPTS_SHARE = 0.4  # no bound: a part of one
"""The largest share of a budget for lines between the start and the end; the end has the rest of the budget."""

DEFAULT_HEAD = 20 * 1024
"""Bytes of an output's start that are kept if only `OutputLimits.tail` is given."""

DEFAULT_TAIL = 30 * 1024
"""Bytes of an output's end that are kept if only `OutputLimits.head` is given."""

UNLIMITED = 64 * 1024 * 1024
"""Bytes of an output that `OutputLimits.unlimited` keeps as text, unless `up_to` is given; a longer output is truncated."""

MASK = b"[secret]"
"""The text in the place of a secret."""


@dataclass(frozen=True, slots=True)
class Output:
    """The output of a command, bounded as `text`, and whole as `data`.

    Attributes:
        text: The output of the program, cleaned of escape sequences, with a marker for each omission in the middle. Of a
            terminal: the text that a person would have seen. Blank lines at the end are left out, and are not counted.
        total_bytes: Raw bytes that the command wrote.
        omitted_bytes: Raw bytes that `text` leaves out, between its head and its tail and at the end of cut lines.
        total_lines: Line feeds that the command wrote.
        omitted_lines: Line feeds that `text` leaves out.
        head_range: The first and last line of `text` before the omission in the middle, counted from 1; a line that is shown
            in part counts too. ``None`` without an omission in the middle, or without a line before it.
        tail_range: The first and last line after the omission, as `head_range`.
        excerpts: The first and last lines of the excerpts in the middle, shown since they tell what went wrong; in order.
        cut_lines: Lines of `text` that were cut at the maximum length; a marker in each line says so.
        artifact: The file with the whole output. ``None`` when nothing was left out and the output is in memory, or when the
            whole output could not be kept.
        artifact_error: Why the whole output was not kept, such as ``No space left on device``.
        skipped_bytes: Raw bytes of a terminal that were not drawn, since the program drew faster than a screen can be kept;
            `text` leaves these bytes out. The end that was drawn again, 1 MiB at most, is exact; in other places an older
            state may stand. 0 otherwise.
        alternate: The last frame of a terminal's alternate screen, on which an editor or a pager draws; no part of `text`.
            ``None`` if the alternate screen was not used.
        binary: The kind of the output, such as ``PNG image``, when its beginning is not text; then `text` is of little use.
            ``None`` otherwise.
        images: The first 64 images that the program printed as sequences of kitty, sixel or iTerm. `text` has a note in the
            place of each image; `omitted_bytes` counts the image's sequence.
        nul_bytes: NUL characters that the command wrote. `text` leaves out every NUL, as every control character, and
            `omitted_bytes` does not count it. Words that a NUL separated, such as the names of ``find -print0``, run
            together in `text`. 0 of a terminal, which ignores every NUL.
        masked: Secrets that ``[secret]`` replaces in the output and the artifact, by `Environment.detect`'s ``redact``. The
            numbers above count the masked output, not the bytes that the program printed.
        file: The file that ``stdout=`` named, with the whole output; ``None`` without ``stdout=``, or if its file has no path.
    """

    text: str = ""
    total_bytes: int = 0
    omitted_bytes: int = 0
    total_lines: int = 0
    omitted_lines: int = 0
    head_range: tuple[int, int] | None = None
    tail_range: tuple[int, int] | None = None
    excerpts: tuple[tuple[int, int], ...] = ()
    cut_lines: int = 0
    artifact: Artifact | None = None
    artifact_error: str | None = None
    skipped_bytes: int = 0
    alternate: str | None = None
    binary: str | None = None
    images: tuple[OutputImage, ...] = ()
    nul_bytes: int = 0
    masked: int = 0
    file: Path | None = None
    _held: bytes | None = field(default=None, repr=False, compare=False)

    @property
    def truncated(self) -> bool:
        """Whether `text` leaves anything out."""
        return self.omitted_bytes > 0

    @property
    def kept(self) -> bool:
        """Whether the whole output was kept, and `data` returns it as long as the artifact exists."""
        if self._held is None and self.total_bytes:
            return self.artifact is not None and not self.artifact.omitted_bytes
        return True

    @property
    def data(self) -> bytes:
        """Every byte that the command wrote, unchanged. A small output is in memory, a larger one is read from its artifact.

        Raises:
            OutputIncomplete: The whole output was not kept, or the artifact is gone. `read` returns the kept part.
            OSError: The artifact cannot be read.
        """
        if not self.kept and self.artifact is not None:
            raise OutputIncomplete(
                f"{self.artifact.omitted_bytes:,} of the {self.total_bytes:,} bytes of this output were not kept: write it"
                " to a file with stdout=, or give artifacts=ArtifactStore(max_size=)"
            )
        data = self.read()
        if len(data) < self.total_bytes:
            raise OutputIncomplete(
                f"of the {self.total_bytes:,} bytes of this output only {len(data):,} are kept"
            )
        return data

    def read(self, offset: int = 0, length: int | None = None) -> bytes:
        """Read the kept bytes: the whole output, or the artifact of a long one, with a marker for each omission.

        Args:
            offset: Bytes to skip; past the end, there is nothing to read.
            length: Bytes to read at most; ``None`` is all bytes that follow.

        Raises:
            OutputIncomplete: Nothing was kept, or the artifact is gone, or is not on this machine.
            OSError: The artifact cannot be read.
            ValueError: A number is negative.
        """
        if offset < 0 or (length is not None and length < 0):
            raise ValueError(f"offset and length must be 0 or more, not {offset!r} and {length!r}")
        held = self._held
        if held is None and not self.total_bytes:
            held = self.text.encode(errors="surrogateescape")  # an output that a test has made
        if held is not None:
            return held[offset : None if length is None else offset + length]
        if self.artifact is None:
            why = "" if self.artifact_error is None else f" ({self.artifact_error})"
            raise OutputIncomplete(
                f"of the {self.total_bytes:,} bytes of this output only the text was kept{why}: give"
                " limits=OutputLimits.unlimited(), stdout=, or an ArtifactStore"
            )
        try:
            with self.artifact.path.open("rb") as file:
                file.seek(offset)
                return file.read(-1 if length is None else min(length, self.artifact.size))
        except FileNotFoundError:
            raise OutputIncomplete(
                f"{self.artifact.path} is not on this machine, or not any more: it had the"
                f" {self.total_bytes:,} bytes of this output"
            ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputLimits:
    """The limits of the text that is made of a command's output.

    By default the limit is a budget. A longer output is shown by its start, its end, and the lines between that tell what
    went wrong. With `head` or `tail`, only the start and the end are shown.

    Attributes:
        budget: Bytes of cleaned text that are kept; zero or more. By default 50 KiB.
        head: Bytes of cleaned text kept from the start; zero or more. By default 20 KiB if `tail` is given.
        tail: Bytes of cleaned text kept from the end; zero or more. By default 30 KiB if `head` is given.
        max_line: Characters that a line may have before it is cut; at least 1.
        keep_from: Bytes of an output on pipes from which an artifact keeps the whole even if nothing is left out. ``None``
            keeps the whole only if something is left out.
        exact: Whether an output on pipes that fits becomes text unchanged: no line is cut, no CR is applied, no sequence and
            no NUL is taken out. See `unlimited`. No effect on a terminal.

    Raises:
        ValueError: A limit is out of its range, a budget is given beside a head or a tail, or `exact` beside `keep_from`.
    """

    budget: int | None = None
    head: int | None = None
    tail: int | None = None
    max_line: int = 2_000
    keep_from: int | None = None
    exact: bool = False

    def __post_init__(self) -> None:
        if self.budget is not None and (self.head is not None or self.tail is not None):
            raise ValueError(f"give a budget, or a head and a tail, not {self}")
        for name in ("budget", "head", "tail", "keep_from"):
            if (given := getattr(self, name)) is not None:
                check_count(name, given, least=0)
        check_count("max_line", self.max_line)
        if self.exact and self.keep_from is not None:
            raise ValueError("exact keeps the whole in memory: leave out keep_from")

    @classmethod
    def unlimited(cls, *, up_to: int = UNLIMITED) -> Self:
        """Return limits by which the text is the unchanged output, as `subprocess` returns it.

        Args:
            up_to: Bytes of output that are held in memory and become text unchanged. The text of a longer output is
                truncated to as many bytes, `Output.truncated` is true, and the artifact has the whole output.
        """
        check_count("up_to", up_to, least=0)
        return cls(budget=up_to, max_line=max(1, up_to), exact=True)

    @property
    def parts(self) -> OutputParts:
        """The parts of the budget."""
        if self.head is not None or self.tail is not None:
            head = DEFAULT_HEAD if self.head is None else self.head
            return OutputParts(head, DEFAULT_TAIL if self.tail is None else self.tail, 0, self.max_line)
        budget = DEFAULT_BUDGET if self.budget is None else self.budget
        head = int(budget * HEAD_SHARE)
        return OutputParts(head, budget - head, int(budget * EXCERPTS_SHARE), self.max_line)

    @property
    def size(self) -> int:
        """The largest possible number of bytes of text."""
        return self.parts.head + self.parts.tail


class OutputParts(NamedTuple):
    """The parts of the budget for an output's text.

    Attributes:
        head: Bytes from the start.
        tail: Bytes from the end, and of excerpts from the middle.
        excerpts: Bytes of `tail` that excerpts from the middle may have.
        max_line: Characters of a line.
    """

    head: int
    tail: int
    excerpts: int
    max_line: int
