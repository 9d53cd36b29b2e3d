"""What came of a call, drawn by rich for a person: the command, what it printed, what is cut, and how it ended.

A result's `display` is text in blocks. Here it becomes a renderable of `rich <https://rich.readthedocs.io>`_, to be printed
by its `Console` or put into whatever takes one.

Nothing of the text is markup, and nothing of it is obeyed: controls are escapes. What a program has printed stands behind a
bar of ours on each row, so that no output can pass for a word of ours. Terminals do not agree on how wide a character is that
is joined of several; a row has room for it on each.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.text import Text

from ._types import exact
from .output.cells import width
from .policy import printable, visible
from .tool.result import JobResult, ShellResult, TerminalResult

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console, ConsoleOptions

    from .tool.result import DisplayBlock, OutputArtifact, ShellDetails, TerminalDetails

PREVIEW_ROWS = 10
"""Rows of an output that a collapsed result shows: the last, for there it says what went wrong."""

COMMAND_ROWS = 3
"""Rows of a command that it shows: the first."""

_TAB = 8
_LEAST_ROOM = 2
"""Columns of the narrowest row: a wide character has as many."""

# What some terminals draw as one: a flag; or a character with its variation, tone or tags, and what is joined to it.
_CLUSTER = re.compile(
    r"[\U0001f1e6-\U0001f1ff]{2}"
    r"|[^\u200d](?:[\ufe00-\ufe0f\u20e3\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]|\u200d(?:[^\u200d]|\Z))*+|\u200d",
    re.DOTALL,
)

_TITLE, _COMMAND, _QUIET, _WARNING, _GOOD, _BAD = "bold", "cyan", "dim", "yellow", "green", "red"

_NOTHING_RAN = frozenset(("refused", "invalid", "failed", "restarted"))


class RenderedResult:
    """A result as a person is shown it.

    Collapsed, an output is its last rows, a command its first, and each notice one row, unless nothing ran and it says why.
    How many rows are left out is said.
    A row is a row of the screen: a line that is folded counts as the rows that it takes. Expanded, all that the result
    has is shown. Below that stands in both what the result itself leaves out, and where the whole is; then how it
    ended, how long it took, and the timeout that was in force.

    Args:
        result: What a call of `ShellTool`, `JobTool` or `TerminalTool` came to.
        expanded: Whether to show all of it.
        rows: Rows of an output that are shown while it is collapsed; at least 1.
        hint: How a person can expand it, such as ``ctrl+o``; said where rows are left out.

    Raises:
        ValueError: There are less rows than 1.
    """

    def __init__(
        self,
        result: ShellResult | JobResult | TerminalResult,
        *,
        expanded: bool = False,
        rows: int = PREVIEW_ROWS,
        hint: str = "",
    ) -> None:
        if rows < 1:
            raise ValueError(f"rows is {rows}; at least 1 row can be shown")
        self._result = result
        self._expanded = expanded
        self._rows = rows
        self._hint = visible(hint)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        """Draw it, as wide as there is room."""
        page = _Page(options.max_width, ascii_only=options.ascii_only)
        yield from self._draw(page)

    def _draw(self, page: _Page) -> Iterator[Text]:
        result = self._result
        warnings = list(_cut(result))
        ended = _exit_notice(result)
        for block in result.display:
            if block.type == "command":
                yield from self._command(page, block)
            elif block.type == "output":
                yield from self._output(page, block)
        for block in result.display:
            if block.type != "notice" or block.text == ended or block.text in warnings:
                continue
            yield from self._notice(page, block)
        for warning in warnings:
            yield from page.folded("! ", printable(warning), _WARNING)
        yield from page.joined(_footer(result), _BAD if result.is_error else _GOOD)

    def _command(self, page: _Page, block: DisplayBlock) -> Iterator[Text]:
        if block.title:
            yield from page.folded("# ", printable(block.title), _TITLE)
        rows = page.rows(block.text)
        shown = rows if self._expanded else rows[:COMMAND_ROWS]
        for number, row in enumerate(shown):
            yield page.row("$ " if number == 0 else "  ", row, _COMMAND, mark=_QUIET)
        if len(shown) < len(rows):
            yield from self._left_out(page, len(rows) - len(shown), "below")

    def _output(self, page: _Page, block: DisplayBlock) -> Iterator[Text]:
        rows = page.rows(block.text.removesuffix("\n"))
        shown = rows if self._expanded else rows[-self._rows :]
        if len(shown) < len(rows):
            yield from self._left_out(page, len(rows) - len(shown), "above")
        for row in shown:
            yield page.row(page.bar, row, "", mark=_QUIET)

    def _notice(self, page: _Page, block: DisplayBlock) -> Iterator[Text]:
        rows = list(page.folded("- ", printable(block.text), _QUIET))
        whole = self._expanded or len(rows) == 1 or self._result.details.status in _NOTHING_RAN
        yield from rows if whole else [page.ending(rows[0])]

    def _left_out(self, page: _Page, count: int, where: str) -> Iterator[Text]:
        said = f"{count:,} more {'row' if count == 1 else 'rows'} {where}"
        yield from page.folded(f"{page.ellipsis} ", said + (f" ({self._hint})" if self._hint else ""), _QUIET)


class _Page:
    """Rows of so many columns."""

    def __init__(self, width: int, *, ascii_only: bool) -> None:
        self._width = width
        self.bar = "| " if ascii_only else "│ "
        self.ellipsis = "..." if ascii_only else "…"
        self._dot = " - " if ascii_only else " · "

    def rows(self, text: str, margin: int = 2) -> list[str]:
        """Cut a text into rows, as a terminal folds lines. Whatever a screen might obey is an escape in them."""
        room = max(_LEAST_ROOM, self._width - margin)
        rows: list[str] = []
        for line in printable(text).split("\n"):
            rows += _chopped(_without_tabs(line), room)
        return rows

    def row(self, mark_text: str, text: str, style: str, *, mark: str) -> Text:
        """A row behind a mark."""
        row = Text(no_wrap=True, overflow="crop", end="\n")
        row.append(mark_text, mark)
        row.append(text, style)
        return row

    def folded(self, mark: str, text: str, style: str) -> Iterator[Text]:
        """A sentence of ours behind a mark, folded between words where that is possible."""
        margin = cell_len(mark)
        for number, row in enumerate(_at_words(text, max(_LEAST_ROOM, self._width - margin))):
            yield self.row(mark if number == 0 else " " * margin, row, style, mark=style)

    def joined(self, parts: list[str], style: str) -> Iterator[Text]:
        """Parts with a dot between them, none of which is folded unless it is longer than a row."""
        rows: list[str] = []
        for part in parts:
            longer = f"{rows[-1]}{self._dot}{part}" if rows else part
            if rows and _most_columns(longer) <= self._width:
                rows[-1] = longer
            else:
                rows += self.rows(part, margin=0)
        first = parts[0] if parts else ""
        for row in rows:
            text = Text(row, style=_QUIET, no_wrap=True, overflow="crop", end="\n")
            if row.startswith(first):
                text.stylize(f"not dim {style}", 0, len(first))
                first = "\n"  # the first row alone
            yield text

    def ending(self, row: Text) -> Text:
        """A row of which more is left out."""
        row = row.copy()
        kept = _chopped(row.plain, max(1, self._width - cell_len(self.ellipsis)))[0]
        if over := len(row.plain) - len(kept):  # rich takes all away where that is 0
            row.right_crop(over)
        row.append(self.ellipsis, _QUIET)
        return row


def _without_tabs(line: str) -> str:
    if "\t" not in line:
        return line
    first, *others = line.split("\t")
    for part in others:
        first += " " * (_TAB - cell_len(first) % _TAB) + part
    return first


def _chopped(line: str, room: int) -> list[str]:
    """Cut a line into rows that fit on whichever terminal: one at least."""
    if line.isascii():
        return [line[at : at + room] for at in range(0, len(line), room)] or [""]
    rows, used = [""], 0
    for cluster in _CLUSTER.findall(line):
        for part in [cluster] if _most_columns(cluster) <= room else cluster:
            columns = _most_columns(part)
            if used + columns > room and rows[-1]:
                rows.append("")
                used = 0
            rows[-1] += part
            used += columns
    return rows


def _most_columns(text: str) -> int:
    """As many as a text has on a terminal that joins characters, and on one that draws each by itself."""
    return len(text) if text.isascii() else max(cell_len(text), sum(map(width, text)))


def _at_words(text: str, room: int) -> Iterator[str]:
    row = ""
    for word in text.replace("\n", " ").split(" "):
        longer = f"{row} {word}" if row else word
        if _most_columns(longer) <= room:
            row = longer
            continue
        if row:
            yield row
        *rows, row = _chopped(word, room)
        yield from rows
    yield row


def _exit_notice(result: ShellResult | JobResult | TerminalResult) -> str | None:
    """The notice that says no more than the footer does."""
    code = result.details.exit_code if isinstance(result, ShellResult) else None
    return None if code is None else f"Exit code {code}."


def _cut(result: ShellResult | JobResult | TerminalResult) -> Iterator[str]:
    """Say what the result leaves out: in its own words, if it has any."""
    own = [block.text for block in result.display if block.type == "notice"]
    for begin, fallback in _cuts(result):
        yield next((text for text in own if text.startswith(begin)), fallback)


def _cuts(result: ShellResult | JobResult | TerminalResult) -> Iterator[tuple[str, str]]:
    """How the result begins to say what it leaves out, and what to say if it does not."""
    if isinstance(result, ShellResult):
        of, skipped = result.details.truncation, result.details.skipped_bytes
        if of is not None:
            begin = f"Shown are {of.shown_bytes:,} of "
            lines = f"{of.shown_lines:,} of {of.total_lines:,} lines"
            yield begin, f"{begin}{of.total_bytes:,} bytes and {lines}."
        if skipped:
            begin = f"{skipped:,} bytes were not drawn"
            yield begin, f"{begin}."
    elif isinstance(result, TerminalResult) and (count := result.details.left_out):
        lines = "1 line" if count == 1 else f"{count:,} lines"
        yield (
            ("Its beginning is left out" if result.details.alternate else "Left out before that"),
            f"Left out: {lines}.",
        )


def _footer(result: ShellResult | JobResult | TerminalResult) -> list[str]:
    parts = [_how(result)]
    if isinstance(result, ShellResult):
        parts += _times(result.details)
    artifact = None if isinstance(result, JobResult) else result.details.artifact
    if artifact is not None:
        parts += _address(artifact)
    return parts


def _how(result: ShellResult | JobResult | TerminalResult) -> str:
    details = result.details
    if isinstance(result, JobResult):
        return result.details.status
    if isinstance(result, TerminalResult) and (details.status != "done" or result.details.running):
        return details.status
    match details.status:
        case "exited" | "done":
            return _exit(result.details)
        case "timed_out":
            return "timed out"
        case "running" if isinstance(result, ShellResult):
            return f"running as job {visible(result.details.job or '')}"
        case "waiting" if isinstance(result, ShellResult):
            return f"waits for input on terminal {visible(result.details.terminal or '')}"
        case _:
            return details.status


def _exit(details: ShellDetails | TerminalDetails) -> str:
    code = "" if details.exit_code is None else f"exit code {details.exit_code}"
    if details.signal is None:
        return code or "ended"
    return f"{visible(details.signal)} ({code})" if code else visible(details.signal)


def _times(details: ShellDetails) -> Iterator[str]:
    if details.status in _NOTHING_RAN:
        return
    if details.started:
        yield _seconds(details.duration)
    yield "no timeout" if details.timeout is None else f"timeout {exact(details.timeout)} s"


def _seconds(value: float) -> str:
    if value < 60:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min {rest:02} s" if hours else f"{minutes} min {rest:02} s"


def _address(artifact: OutputArtifact) -> Iterator[str]:
    yield f"artifact {visible(artifact.id)}"
    what = "output but for its middle" if artifact.omitted_bytes else "whole output"
    yield f"{what}, {artifact.size:,} bytes: {visible(artifact.path)}"
