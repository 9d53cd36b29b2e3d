"""What came of a call, drawn by rich for a person: the command, what it printed, what is cut, and how it ended.

A result's `display` is text in blocks. Here it becomes a renderable of `rich <https://rich.readthedocs.io>`_, to be printed
by its `Console` or put into whatever takes one. A command that a person runs themselves has no result of a tool: it is drawn
from its events and its outcome.

Nothing of the text is markup, and nothing of it is obeyed: controls are escapes. What a program has printed stands behind a
bar on each row, so that no output can pass for a word of anyshell. Terminals do not agree on how wide a character is that
is joined of several; a row has room for it on each.
"""

from __future__ import annotations

import asyncio
import re
import threading
import time
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.text import Text

from ._types import Outcome, exact
from .output.cells import width
from .output.sequences import LONGEST_SEQUENCE
from .output.text.bounded import cut_note
from .output.text.tail import Tail
from .policy import printable, visible
from .tool.result import JobResult, OutputArtifact, ShellResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import Console, ConsoleOptions

    from ._types import OutputEvent, ProcessInfo
    from .tool.result import DisplayBlock, JobDetails, ShellDetails

PREVIEW_ROWS = 10
"""Rows of an output that a collapsed result shows, the last: there it says what went wrong."""

COMMAND_ROWS = 3
"""Rows of a command that a collapsed result shows, the first."""

OWN_ROWS = 20
"""Rows of the output of a person's own command that are shown while it is collapsed, the last."""

LONGEST_LINE = 4_000
"""Characters of a line of such an output that are shown."""

LIVE_BYTES = 64 * 1024
"""Bytes of such an output that are kept while the command runs, the last."""

LISTED = 5
"""Processes that a command has left behind which are named one by one."""

_TAB = 8  # no bound: how a terminal is
_LEAST_ROOM = 2  # no bound
"""Columns of the narrowest row: a wide character has as many."""

# What some terminals draw as one: a flag; or a character with its variation, tone or tags, and what is joined to it.
_CLUSTER = re.compile(
    r"[\U0001f1e6-\U0001f1ff]{2}"
    r"|[^\u200d](?:[\ufe00-\ufe0f\u20e3\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]|\u200d(?:[^\u200d]|\Z))*+|\u200d",
    re.DOTALL,
)

_NOTE = re.compile(r" \[line cut: [0-9,]+ more bytes?\]")

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
        result: What a call of `ShellTool` or `JobTool` came to; or the outcome of a command, which is then drawn as `RenderedCommand` draws it.
        expanded: Whether to show all of it.
        rows: Rows of an output that are shown while it is collapsed; at least 1.
        hint: How a person can expand it, such as ``ctrl+o``; said where rows are left out.

    Raises:
        ValueError: There are less rows than 1.
    """

    def __init__(
        self,
        result: ShellResult | JobResult | Outcome,
        *,
        expanded: bool = False,
        rows: int = PREVIEW_ROWS,
        hint: str = "",
    ) -> None:
        _check_rows(rows)
        self._result = result
        self._own = (
            RenderedCommand("", result, expanded=expanded, rows=rows, hint=hint)
            if isinstance(result, Outcome)
            else None
        )
        self._expanded = expanded
        self._rows = rows
        self._hint = visible(hint)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        """Draw it, as wide as there is room."""
        result = self._result
        if self._own is not None:
            yield from self._own.__rich_console__(console, options)
        elif not isinstance(result, Outcome):
            yield from self._draw(_Page(options.max_width, ascii_only=options.ascii_only), result)

    def _draw(self, page: _Page, result: ShellResult | JobResult) -> Iterator[Text]:
        warnings = list(_cut(result))
        ended = _exit_notice(result)
        for block in result.display:
            if block.type == "command":
                yield from _command(page, block.text, block.title, expanded=self._expanded, hint=self._hint)
            elif block.type == "output":
                yield from self._output(page, block)
        for block in result.display:
            if block.type != "notice" or block.text == ended or block.text in warnings:
                continue
            yield from self._notice(page, block, result)
        for warning in warnings:
            yield from page.folded("! ", printable(warning), _WARNING)
        yield from page.joined(_footer(result), _BAD if result.is_error else _GOOD)

    def _output(self, page: _Page, block: DisplayBlock) -> Iterator[Text]:
        rows = page.rows(block.text.removesuffix("\n"))
        shown = rows if self._expanded else rows[-self._rows :]
        if len(shown) < len(rows):
            yield from page.left_out(f"{_counted(len(rows) - len(shown), 'more row')} above", self._hint)
        for row in shown:
            yield page.row(page.bar, row, "", mark=_QUIET)

    def _notice(self, page: _Page, block: DisplayBlock, result: ShellResult | JobResult) -> Iterator[Text]:
        rows = list(page.folded("- ", printable(block.text), _QUIET))
        whole = self._expanded or len(rows) == 1 or result.details.status in _NOTHING_RAN
        yield from rows if whole else [page.ending(rows[0])]


class RenderedCommand:
    """A command that a person runs themselves, as it runs and when it has ended.

    Give it to rich's `Live`, feed it what the command prints, and tell it the end: it is then drawn from the outcome. It
    can be drawn in one thread, as `Live` does, while it is fed in another.

    Collapsed, the last rows of the output are shown, and how many lines are above them. A line has 4,000 characters at most,
    and says how much is left out. The footer tells apart how it ended: an exit code or a signal; ``timed out``;
    ``cancelled``; ``lost``; or ``error``, with what was wrong above it. Until then it is ``running``.

    Args:
        command: The command, shown above its output; nothing is shown where it is empty.
        outcome: What became of it, if it has ended; as for `finish`.
        expanded: Whether to show all that is kept: of a running command the last 64 KiB of its output.
        rows: Rows of the screen that the output has while it is collapsed; at least 1.
        hint: How a person can expand it, such as ``ctrl+o``; said where anything is left out.
        clock: Seconds that have passed, from any moment on.

    Attributes:
        expanded: As above; it may be changed at any time.

    Raises:
        ValueError: There are less rows than 1.
    """

    def __init__(
        self,
        command: str,
        outcome: Outcome | BaseException | None = None,
        *,
        expanded: bool = False,
        rows: int = OWN_ROWS,
        hint: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        _check_rows(rows)
        self.expanded = expanded
        self._command = command
        self._rows = rows
        self._hint = visible(hint)
        self._clock = clock
        self._began = clock()
        self._took: float | None = None
        self._lock = threading.Lock()
        self._tail = Tail(LIVE_BYTES + LONGEST_SEQUENCE)
        self._tail.append(b"\n")  # or the first line would be taken for one whose start is missing
        self._lines = 0  # line feeds of what was fed
        self._outcome: Outcome | BaseException | None = None
        if outcome is not None:
            self.finish(outcome)

    def feed(self, event: OutputEvent) -> None:
        """Show what the command has printed, by lines or by chunks, as `Environment.stream` gives it."""
        text = event.text
        if event.data[-1:] == b"\n" and not text.endswith("\n"):
            text += "\n"  # an event by lines has its line feed in its data alone
        with self._lock:
            self._tail.append(text.encode("utf-8", "replace"))
            self._lines += text.count("\n")

    def finish(self, outcome: Outcome | BaseException) -> None:
        """Show how it ended.

        Args:
            outcome: Its outcome; or what was raised instead of one. `asyncio.CancelledError` and `KeyboardInterrupt` are
                shown as ``cancelled``, any other exception as ``error``. What was fed is then shown as the output.
        """
        with self._lock:
            self._outcome = outcome
            self._took = outcome.duration if isinstance(outcome, Outcome) else self._clock() - self._began

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        """Draw it, as wide as there is room."""
        page = _Page(options.max_width, ascii_only=options.ascii_only)
        with self._lock:
            outcome, took = self._outcome, self._took
            live = "" if isinstance(outcome, Outcome) else self._live()
            total = self._lines + (live != "" and not live.endswith("\n"))
        if self._command:
            yield from _command(page, self._command, "", expanded=self.expanded, hint=self._hint)
        if isinstance(outcome, Outcome):
            output, stderr = outcome.output.text, outcome.stderr
            yield from self._output(page, output, None, "")
            if stderr is not None:
                yield from self._output(page, stderr.text, None, _BAD)
            yield from _said_of(page, outcome)
        else:
            yield from self._output(page, live, total, "")
            if outcome is not None and not isinstance(outcome, asyncio.CancelledError | KeyboardInterrupt):
                said = str(outcome) or type(outcome).__name__
                yield from page.folded("! ", printable(said), _WARNING)
        how, style = _how_it_ended(outcome)
        parts = [how, _seconds(self._clock() - self._began if took is None else took)]
        if isinstance(outcome, Outcome):
            if outcome.started is False:
                parts[1:] = ["not started"]
            for output_of in (outcome.output, outcome.stderr):
                if output_of is not None and (artifact := OutputArtifact.of(output_of.artifact)) is not None:
                    parts += _address(artifact)
        yield from page.joined(parts, style)

    def _live(self) -> str:
        text, shown = self._tail.text(LIVE_BYTES, LONGEST_LINE)
        return text.text()[1:] if shown == self._tail.total else text.text()

    def _output(self, page: _Page, text: str, total: int | None, style: str) -> Iterator[Text]:
        """The last rows of an output of so many lines, of which the text has the last ones."""
        text = text.removesuffix("\n")
        lines = text.split("\n") if text else []
        shown = lines if self.expanded else lines[-self._rows :]
        above = max(len(lines) if total is None else total, len(lines)) - len(shown)
        rows = [page.rows(_bounded(line)) for line in shown]
        spare = 0 if self.expanded else sum(map(len, rows)) - self._rows
        begun = False  # whether the first line that is shown has rows above
        while spare > 0:
            begun = spare < len(rows[0])
            if begun:
                del rows[0][:spare]
                break
            spare -= len(rows.pop(0))
            above += 1
        missing = [_counted(above, "more line")] if above else []
        if missing or begun:
            said = " and ".join(
                [*missing, f"the start of this {'one' if missing else 'line'}"] if begun else missing
            )
            yield from page.left_out(f"{said} above", self._hint)
        for row in (row for line in rows for row in line):
            yield page.row(page.bar, row, style, mark=style or _QUIET)


def _check_rows(rows: int) -> None:
    if rows < 1:
        raise ValueError(f"rows is {rows}; at least 1 row can be shown")


def _bounded(line: str) -> str:
    if len(line) <= LONGEST_LINE:
        return line
    kept, rest = line[:LONGEST_LINE], line[LONGEST_LINE:]
    # A line of what is fed is cut already, and has its note at the end.
    return kept + (rest if _NOTE.fullmatch(rest) else cut_note(len(rest.encode("utf-8", "replace"))))


def _command(page: _Page, command: str, title: str, *, expanded: bool, hint: str) -> Iterator[Text]:
    if title:
        yield from page.folded("# ", printable(title), _TITLE)
    rows = page.rows(command)
    shown = rows if expanded else rows[:COMMAND_ROWS]
    for number, row in enumerate(shown):
        yield page.row("$ " if number == 0 else "  ", row, _COMMAND, mark=_QUIET)
    if len(shown) < len(rows):
        yield from page.left_out(f"{_counted(len(rows) - len(shown), 'more row')} below", hint)


def _said_of(page: _Page, outcome: Outcome) -> Iterator[Text]:
    """What else a person should know of an outcome."""
    if alive := [process for process in outcome.left_behind if process.alive]:
        yield from page.folded("- ", f"Still running: {_named(alive)}.", _QUIET)
    for output in (outcome.output, outcome.stderr):
        if output is not None and output.artifact_error is not None:
            said = f"The whole output was not kept: {printable(output.artifact_error)}."
            yield from page.folded("! ", said, _WARNING)


def _named(processes: list[ProcessInfo]) -> str:
    named = ", ".join(
        [visible(process.name) + f" ({process.pid})" * bool(process.pid) for process in processes[:LISTED]]
    )
    more = len(processes) - LISTED
    return f"{named} and {more:,} more" if more > 0 else named


def _how_it_ended(outcome: Outcome | BaseException | None) -> tuple[str, str]:
    """How a person's own command ended, and the style of that."""
    if outcome is None:
        return "running", _COMMAND
    if not isinstance(outcome, Outcome):
        cancelled = isinstance(outcome, asyncio.CancelledError | KeyboardInterrupt)
        return ("cancelled", _WARNING) if cancelled else ("error", _BAD)
    match outcome.status:
        case "exited":
            return _exit(outcome), _GOOD if outcome.exit_code == 0 else _BAD
        case "timed_out":
            return "timed out", _BAD
        case "cancelled":
            return "cancelled", _WARNING
        case "running":
            return f"running as job {visible(outcome.job or '')}", _COMMAND
        case _:
            return outcome.status, _BAD


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

    def left_out(self, said: str, hint: str) -> Iterator[Text]:
        """Say what is not shown."""
        yield from self.folded(f"{self.ellipsis} ", said + (f" ({hint})" if hint else ""), _QUIET)

    def folded(self, mark: str, text: str, style: str) -> Iterator[Text]:
        """A sentence of anyshell behind a mark, folded between words where that is possible."""
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


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


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


def _exit_notice(result: ShellResult | JobResult) -> str | None:
    """The notice that says no more than the footer does."""
    code = result.details.exit_code if isinstance(result, ShellResult) else None
    return None if code is None else f"Exit code {code}."


def _cut(result: ShellResult | JobResult) -> Iterator[str]:
    """Say what the result leaves out: in its own words, if it has any."""
    own = [block.text for block in result.display if block.type == "notice"]
    for words, fallback in _cuts(result):
        yield next((text for text in own if words in text), fallback)


def _cuts(result: ShellResult | JobResult) -> Iterator[tuple[str, str]]:
    """Words with which the result says what it leaves out, and what to say if it does not."""
    if isinstance(result, ShellResult):
        of, skipped = result.details.truncation, result.details.skipped_bytes
        if of is not None:
            shown = f"{of.shown_bytes:,} of {of.total_bytes:,} bytes shown"
            yield shown, f"{shown}."
        if skipped:
            left = f"{skipped:,} bytes were not drawn"
            yield left, f"{left}."
    elif count := result.details.left_out:
        lines = "1 line" if count == 1 else f"{count:,} lines"
        yield f"{lines} before that left out", f"{lines} left out."


def _footer(result: ShellResult | JobResult) -> list[str]:
    parts = [_how(result)]
    if isinstance(result, ShellResult):
        parts += _times(result.details)
    if result.details.artifact is not None:
        parts += _address(result.details.artifact)
    return parts


def _how(result: ShellResult | JobResult) -> str:
    if isinstance(result, JobResult):
        job = result.details
        ended = job.status == "done" and job.terminal is not None and not job.running
        return _exit(job) if ended else job.status
    details = result.details
    match details.status:
        case "exited":
            return _exit(details)
        case "timed_out" if details.silence is not None:
            return f"silent for {exact(details.silence)} s"
        case "timed_out":
            return "timed out"
        case "running":
            return f"running as job {visible(details.job or details.terminal or '')}"
        case "waiting":
            return f"waits for input on terminal {visible(details.terminal or '')}"
        case _:
            return details.status


def _exit(details: ShellDetails | JobDetails | Outcome) -> str:
    code = "" if details.exit_code is None else f"exit code {details.exit_code}"
    if details.signal is None:
        return code or "ended"
    return f"{visible(details.signal)} ({code})" if code else visible(details.signal)


def _times(details: ShellDetails) -> Iterator[str]:
    if details.status in _NOTHING_RAN:
        return
    if details.started is not False:
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
