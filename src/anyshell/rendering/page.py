"""The page that a view is drawn on: rows of one width, each behind a mark."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.text import Text

from ..output import ArtifactStore
from ..output.text.signals import tells
from ..policy import printable, visible
from .rows import at_words, bounded, chopped, most_columns, without_tabs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import ConsoleOptions

    from ..tool.result import OutputArtifact

ERROR_ROWS = 3
"""Rows of a collapsed output that show a failed command's last error line, where that line is above the last rows."""

SEARCHED = 64 * 1024
"""Characters above the last rows of a failed command's output that are searched for an error line."""

COMMAND_ROWS = 3
"""Rows of a command that a collapsed result shows, from the start of the command."""

LONGEST_LINE = 4_000
"""Characters of an output line that are shown for a command run by a person."""

_LEAST_ROOM = 2  # no bound
"""Columns of the narrowest row: the columns of a wide character."""

_ID = re.compile(r"[\w-]+", re.ASCII)  # an id of other characters is put into no shell command

TITLE, COMMAND, QUIET, WARNING, GOOD, BAD = "bold", "cyan", "dim", "yellow", "green", "red"


class MarkedRows:
    """Rows behind marks, as wide as the console.

    Args:
        options: The options of the console.
        hint: The hint that tells a person how to expand the view.
        longest: Characters of a line of output that are shown; ``None`` is all.
    """

    def __init__(self, options: ConsoleOptions, hint: str, *, longest: int | None = None) -> None:
        self._width = options.max_width
        self._encoding = None if options.encoding.lower().startswith("utf") else options.encoding
        self._hint = hint
        self._longest = longest
        self._bar = "| " if options.ascii_only else "│ "
        self._ellipsis = "..." if options.ascii_only else "…"
        self._dot = " - " if options.ascii_only else " · "

    def output(
        self, text: str, count: int | None, *, failed: bool = False, lines: int = 0, style: str = ""
    ) -> Iterator[Text]:
        """Draw a whole output, or its last rows.

        Args:
            text: The output, or the last lines of an output.
            count: Rows; ``None`` is all.
            failed: Whether to show also a hidden line that tells of an error, if no shown line does.
            lines: Lines of the whole output, if the text is only its last lines.
            style: The style of the output.
        """
        stop = len(text) - text.endswith("\n")
        gone = max(0, lines - text.count("\n", 0, stop) - (stop > 0)) if lines else 0
        if count is None or not text:
            yield from self._left_out(gone)
            for line in text[:stop].split("\n") if text else ():
                yield from self._barred(self._rows(line, self._longest), style)
            return
        rows, start, begun = self._last(text, stop, count)
        if failed and count > ERROR_ROWS:
            whole = text.find("\n", start, stop) + 1 or stop if begun else start
            told = _hidden_error(text, whole, stop)
            fewer = self._last(text, stop, count - ERROR_ROWS)
            if told is not None and told < fewer[1]:
                rows, start, begun = fewer
                first, end, ended = self._first(text[told : start - 1], ERROR_ROWS)
                yield from self._left_out(text.count("\n", 0, told) + gone)
                yield from self._barred(first, style)
                between = text.count("\n", told + end, start) - 1
                yield from self._left_out(between, end_of_last=not ended, start_of_next=begun)
                yield from self._barred(rows, style)
                return
        yield from self._left_out(text.count("\n", 0, start) + gone, start_of_next=begun)
        yield from self._barred(rows, style)

    def command(self, text: str, title: str, *, mark: str, whole: bool) -> Iterator[Text]:
        """Draw a command with its title, whole or only the first rows."""
        if title:
            yield from self.folded("# ", printable(title), TITLE)
        end, complete = len(text), True
        if whole:
            rows = [row for line in text.split("\n") for row in self._rows(line)]
        else:
            rows, end, complete = self._first(text, COMMAND_ROWS)
        for number, row in enumerate(rows):
            yield self.row(mark if number == 0 else "  ", row, COMMAND, mark=QUIET)
        yield from self._left_out(text.count("\n", end), end_of_last=not complete, margin="  ")

    def folded(self, mark: str, text: str, style: str) -> Iterator[Text]:
        """Draw a sentence of anyshell behind a mark, folded between words where possible."""
        margin = cell_len(mark)
        for number, row in enumerate(at_words(self.known(text), max(_LEAST_ROOM, self._width - margin))):
            yield self.row(mark if number == 0 else " " * margin, row, style, mark=style)

    def footer(self, parts: list[str], style: str) -> Iterator[Text]:
        """Draw the rows below a result: the first part in the given style, then the other facts."""
        for number, row in enumerate(self._joined(parts)):
            text = Text(row, style=QUIET, no_wrap=True, overflow="crop", end="\n")
            if number == 0:
                text.stylize(f"not dim {style}", 0, len(parts[0]))
            yield text

    def address(
        self, artifact: OutputArtifact | None, *, whole: bool, name: str = "output"
    ) -> Iterator[Text]:
        """Draw the place of a kept output: its address, and the command that shows the output, or the file."""
        if artifact is None:
            return
        what = f"{name} but for its middle" if artifact.omitted_bytes else f"whole {name}"
        parts = [f"artifact://{visible(artifact.id)}", f"{what}, {artifact.size:,} bytes"]
        if found := _is_found(artifact):
            parts.append(f"anyshell artifacts show {visible(artifact.id)}")
        if whole or not found:
            parts.append(visible(artifact.path))
        for row in self._joined(parts):
            yield self.row("", row, QUIET, mark="")

    def row(self, mark_text: str, text: str, style: str, *, mark: str) -> Text:
        """Return a row behind a mark."""
        row = Text(no_wrap=True, overflow="crop", end="\n")
        row.append(mark_text, mark)
        row.append(text, style)
        return row

    def ending(self, row: Text) -> Text:
        """Return a row that ends with an ellipsis."""
        row = row.copy()
        kept = chopped(row.plain, max(1, self._width - cell_len(self._ellipsis)))[0]
        if kept != row.plain and " " in kept[2:].strip():
            kept = kept.rpartition(" ")[0]
        if over := len(row.plain) - len(kept):  # right_crop(0) would remove the whole text
            row.right_crop(over)
        row.append(self._ellipsis, QUIET)
        return row

    def known(self, text: str) -> str:
        """Return a text with escapes for the characters that the console's encoding lacks."""
        if self._encoding is None or text.isascii():
            return text
        return text.encode(self._encoding, "backslashreplace").decode(self._encoding)

    def _left_out(
        self, lines: int, *, end_of_last: bool = False, start_of_next: bool = False, margin: str = ""
    ) -> Iterator[Text]:
        """Draw the note about omitted lines and parts of lines, if anything is omitted."""
        missing = ["the end of that line"] * end_of_last + [counted(lines, "more line")] * bool(lines)
        missing += ["the start of this line"] * start_of_next
        if missing:
            hint = f" ({self._hint})" if self._hint else ""
            yield from self.folded(f"{margin}{self._ellipsis} ", " and ".join(missing) + hint, QUIET)

    def _barred(self, rows: list[str], style: str) -> Iterator[Text]:
        for row in rows:
            yield self.row(self._bar, row, style, mark=style or QUIET)

    @property
    def _room(self) -> int:
        return max(_LEAST_ROOM, self._width - 2)

    def _rows(self, line: str, longest: int | None = None) -> list[str]:
        """Cut a line into rows, as a terminal folds the line. Control characters become escapes."""
        return chopped(without_tabs(self.known(printable(bounded(line, longest)))), self._room)

    def _last(self, text: str, stop: int, count: int) -> tuple[list[str], int, bool]:
        """Return the last rows before a place, the start of their first line, and whether rows of that line are missing.

        However long a line is, only its last characters are cut into rows: at least as many as have room.
        """
        rows: list[str] = []
        while True:
            start = text.rfind("\n", 0, stop) + 1
            spare = count - len(rows)
            cut = 0
            if self._longest is not None and stop - start > self._longest:
                line = bounded(text[start:stop], self._longest)
            else:
                # Cut at a multiple of the room: where each character has one column, the rows equal those of the whole line.
                cut = max(0, (stop - start) // self._room - spare) * self._room
                line = text[start + cut : stop]
            found = self._rows(line)
            rows[:0] = found[-spare:]
            if start == 0 or len(rows) == count:
                return rows, start, cut > 0 or len(found) > spare
            stop = start - 1

    def _first(self, text: str, count: int) -> tuple[list[str], int, bool]:
        """Return the first rows of a text, the end of their last line, and whether that line is shown whole; as `_last`."""
        rows: list[str] = []
        start = 0
        while True:
            end = text.find("\n", start)
            end = len(text) if end < 0 else end
            spare = count - len(rows)
            line = text[start : min(end, start + (spare + 1) * self._room)]
            found = self._rows(line)
            rows += found[:spare]
            whole = len(found) <= spare and start + len(line) == end
            if end == len(text) or len(rows) == count or not whole:
                return rows, end, whole
            start = end + 1

    def _joined(self, parts: list[str]) -> list[str]:
        """Join parts into rows with a dot between parts; a part is folded only if the part is longer than a row."""
        rows: list[str] = []
        for part in map(self.known, parts):
            longer = f"{rows[-1]}{self._dot}{part}" if rows else part
            if most_columns(longer) <= self._width:
                rows[-1:] = [longer]
            else:
                margin = "  " if self._width > 2 * _LEAST_ROOM else ""
                first, *others = at_words(part, max(_LEAST_ROOM, self._width - len(margin)))
                rows += [first, *(margin + other for other in others)]
        return rows


def _hidden_error(text: str, start: int, stop: int) -> int | None:
    """Return the start of the last hidden line that tells of an error; ``None`` without one, or if a shown line does.

    Args:
        text: An output.
        start: The start of the first line that is shown whole.
        stop: The end of the last shown line.
    """

    def says(line: str) -> bool:
        return tells(line[:LONGEST_LINE].encode("utf-8", "replace"))

    if any(map(says, text[max(start, stop - SEARCHED) : stop].split("\n"))):
        return None
    least = max(0, start - SEARCHED)
    while start > least:
        end = start - 1
        start = text.rfind("\n", least, end) + 1
        if start == 0 < least:
            return None  # the line begins before the searched characters
        if says(text[start:end]):
            return start
    return None


def _is_found(artifact: OutputArtifact) -> bool:
    """Whether the commands of anyshell find an artifact by its id."""
    try:
        return (
            _ID.fullmatch(artifact.id) is not None
            and Path(artifact.path).absolute() == ArtifactStore().directory / f"{artifact.id}.out"
        )
    except OSError:  # there is no home directory
        return False


def counted(count: int, what: str) -> str:
    """Return a count with its noun, in the plural unless the count is 1."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"
