"""The output of a command: as it came, bounded, or kept whole."""

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
"""The largest share of a budget for lines between the start and the end; the end has the rest of it."""

DEFAULT_HEAD = 20 * 1024
"""Bytes of the start, where only the end was given."""

DEFAULT_TAIL = 30 * 1024
"""Bytes of the end, where only the start was given."""

UNLIMITED = 64 * 1024 * 1024
"""Bytes of an output of `OutputLimits.unlimited` that are text, unless `up_to` says otherwise; of more, a bounded text is made."""

MASK = b"[secret]"
"""The text in the place of a secret."""


@dataclass(frozen=True, slots=True)
class Output:
    """The output of a command, bounded as `text`, and whole as `data`.

    Attributes:
        text: The output of the program, cleaned of escape sequences, with a marker wherever something is left out between. Of a
            terminal: what a person would have seen; blank lines at its end are left out, and are not counted.
        total_bytes: Raw bytes that the command wrote.
        omitted_bytes: Raw bytes of these that `text` leaves out, between its head and its tail and at the
            end of lines that were cut.
        total_lines: Line feeds in what the command wrote.
        omitted_lines: Line feeds of these in what `text` leaves out.
        head_range: Where something between is left out: the first and last line of `text` before that, counted from 1, a
            line that is shown in part too; ``None`` when nothing is left out between, or nothing shown before.
        tail_range: The same of what comes after.
        excerpts: The same of the lines between that are shown, since they tell what went wrong; in order.
        cut_lines: Lines of `text` that were longer than a line may be, and say so.
        artifact: The whole; ``None`` when nothing was left out and it is in memory, or when it could not be kept.
        artifact_error: Why the whole was not kept, such as ``No space left on device``.
        skipped_bytes: Raw bytes of a terminal that were not drawn, since the program drew faster than a screen can
            be kept. They are left out of `text`. What was drawn again at the end, in 1 MiB at most, is exact; in other
            places an older state may stand. 0 otherwise.
        alternate: The last frame of a terminal's alternate screen, as an editor or a pager draws on it, which is
            no part of `text`; ``None`` when it was not used.
        binary: The kind of the output, such as ``PNG image``, when its beginning is no text; ``None`` otherwise. Then `text` is of little use.
        images: Images that were printed for a terminal to show, by the sequences of kitty, sixel or iTerm: the first 64. `text` has a
            note in the place of each; their sequences are among `omitted_bytes`.
        nul_bytes: NUL characters in what the command wrote. `text` leaves them out without being counted among `omitted_bytes`, as every
            control character; but what they separate, such as the names of ``find -print0``, stands there as one. 0 of a
            terminal, which ignores them.
        masked: Secrets for which ``[secret]`` stands in the output and the artifact, by `Environment.detect`'s ``redact``. The
            numbers above count what stands there, not what the program printed.
        file: The file that ``stdout=`` named, where the whole was written; ``None`` without one that has a path.
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
        """Whether the whole was kept, so that `data` has it as long as the artifact is there."""
        if self._held is None and self.total_bytes:
            return self.artifact is not None and not self.artifact.omitted_bytes
        return True

    @property
    def data(self) -> bytes:
        """Every byte that the command wrote, as it came. A small output is in memory, a larger one is read from its artifact.

        Raises:
            OutputIncomplete: The whole was not kept, or is not there any more. `read` gives what there is.
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
        """Read what was kept of the bytes: all of them, or of a long output its artifact, which says what it leaves out.

        Args:
            offset: Bytes to skip; past the end, there is nothing to read.
            length: Bytes to read at most; ``None`` is all that follows.

        Raises:
            OutputIncomplete: Nothing was kept, or it is not there any more, or not on this machine.
            OSError: The artifact cannot be read.
            ValueError: A number is negative.
        """
        if offset < 0 or (length is not None and length < 0):
            raise ValueError(f"offset and length must be 0 or more, not {offset!r} and {length!r}")
        held = self._held
        if held is None and not self.total_bytes:
            held = self.text.encode(errors="surrogateescape")  # one that a test has made
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

    By default it is a budget: of what is longer, the start is shown, the end, and of the lines between those that tell what
    went wrong. With `head` or `tail` it is the start and the end alone.

    Attributes:
        budget: Bytes of cleaned text that are kept; zero or more. By default 50 KiB.
        head: Bytes of it kept from the start; zero or more. By default 20 KiB where `tail` is given.
        tail: Bytes of it kept from the end; zero or more. By default 30 KiB where `head` is given.
        max_line: Characters that a line may have before it is cut; at least 1.
        keep_from: Bytes of an output from which the whole is kept on pipes even if nothing is left out; ``None`` keeps it only
            where something is.
        exact: Whether an output on pipes that fits is text as it was written: no line is cut, no CR is applied, no sequence and
            no NUL is taken out. See `unlimited`. On a terminal it says nothing.

    Raises:
        ValueError: A limit is out of its range, there is a budget beside a head or a tail, or `exact` beside `keep_from`.
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
        """Limits by which a text is what was written, unchanged, as `subprocess` gives it.

        Args:
            up_to: Bytes of output up to which that holds, and which are held in memory meanwhile. Of more, a bounded text is
                made in so many bytes, `Output.truncated` is true, and the whole is in the artifact.
        """
        check_count("up_to", up_to, least=0)
        return cls(budget=up_to, max_line=max(1, up_to), exact=True)

    @property
    def parts(self) -> OutputParts:
        """The budget in its parts."""
        if self.head is not None or self.tail is not None:
            head = DEFAULT_HEAD if self.head is None else self.head
            return OutputParts(head, DEFAULT_TAIL if self.tail is None else self.tail, 0, self.max_line)
        budget = DEFAULT_BUDGET if self.budget is None else self.budget
        head = int(budget * HEAD_SHARE)
        return OutputParts(head, budget - head, int(budget * EXCERPTS_SHARE), self.max_line)

    @property
    def size(self) -> int:
        """Bytes of text that there can be."""
        return self.parts.head + self.parts.tail


class OutputParts(NamedTuple):
    """The places of an output's text in the output.

    Attributes:
        head: Bytes from the start.
        tail: Bytes from the end, and from what is between.
        excerpts: Bytes of these that lines between may have.
        max_line: Characters of a line.
    """

    head: int
    tail: int
    excerpts: int
    max_line: int
