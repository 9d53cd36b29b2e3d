"""The views: of a tool's result, of a command run by a person, and of a request to an approver."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from typing import TYPE_CHECKING

from rich.text import Text

from .._types import Outcome, check_seconds, exact
from ..output.sequences import LONGEST_SEQUENCE
from ..output.text.tail import Tail
from ..policy import folded, printable, shortened, visible
from ..tool import words
from ..tool.result import JobResult, OutputArtifact, ShellResult
from .endings import NOTHING_RAN, ended, job_ended, one_job, seconds, times
from .page import BAD, COMMAND, LONGEST_LINE, QUIET, TITLE, WARNING, MarkedRows, counted
from .people import for_people

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import Console, ConsoleOptions

    from .._types import ApprovalRequest, Output, OutputEvent
    from .._types.checks import Seconds

PREVIEW_ROWS = 10
"""Rows of an output that a collapsed result shows: the last rows, and for a failed command rows of an error line."""

OWN_ROWS = 20
"""Rows of output that the collapsed view of a command run by a person shows: the last rows."""

LIVE_BYTES = 64 * 1024
"""Bytes of output that the view of a running command keeps: the last bytes."""

# Sentences that tell a model the place of the rest of an output. The footer tells a person.
_REST = re.compile(r"\[raw output: |Whole output[:,]|All but [0-9,]+ bytes: ")


class RenderedResult:
    """A tool's result, drawn for a person.

    Collapsed, the view shows the last rows of an output, the first rows of a command, and one row of each notice. Notices
    that say why nothing ran are shown whole. Where a command has failed and its last rows tell of no error, three rows show
    the last line above that tells of one. A row is a row of the screen: a folded line has several rows. Omitted text is
    counted in lines. Expanded, the view shows all text of the result.

    Both forms then show, in this order: the omissions of the result itself; the end of the run, its duration, the timeout in
    force and the place; the address of the whole output, and the command that shows that output.

    Args:
        result: The result of a call of `ShellTool` or `JobTool`; or the outcome of a command, drawn as by `RenderedCommand`.
        expanded: Whether to show the whole result.
        rows: Rows of an output that the collapsed view shows; at least 1.
        hint: The key by which a person can expand the view, such as ``ctrl+o``; shown where text is left out.
        where: The place of the run, such as a host and a directory, in the program's own words; may be empty.

    Raises:
        ValueError: `rows` is less than 1.
    """

    def __init__(
        self,
        result: ShellResult | JobResult | Outcome,
        *,
        expanded: bool = False,
        rows: int = PREVIEW_ROWS,
        hint: str = "",
        where: str = "",
    ) -> None:
        _check_rows(rows)
        self._result = result
        self._own = (
            RenderedCommand("", result, expanded=expanded, rows=rows, hint=hint, where=where)
            if isinstance(result, Outcome)
            else None
        )
        self._expanded = expanded
        self._rows = rows
        self._hint = visible(hint)
        self._where = visible(where)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        """Draw the result, as wide as the console."""
        result = self._result
        if self._own is not None:
            yield from self._own.__rich_console__(console, options)
        elif not isinstance(result, Outcome):
            yield from self._draw(MarkedRows(options, self._hint), result)

    def _draw(self, page: MarkedRows, result: ShellResult | JobResult) -> Iterator[Text]:
        artifact = result.details.artifact
        if isinstance(result, JobResult) and (job := one_job(result.details)) is not None:
            yield from page.folded("# ", printable(f"{job.id}: {job.command}"), TITLE)
        warnings: dict[str, str] = {}
        notices = []
        for block in result.display:
            if block.type == "command":
                # The command block of a call about a job is the typed text.
                mark = "$ " if isinstance(result, ShellResult) else "> "
                yield from page.command(block.text, block.title, mark=mark, whole=self._expanded)
            elif block.type == "output":
                rows = None if self._expanded else self._rows
                yield from page.output(block.text, rows, failed=_failed(result))
            else:
                notices.append(block.text)
        for phrase in _cuts(result):
            own = next((text for text in notices if phrase in text), f"{phrase}.")
            # The words after the phrase tell a model the place of the rest; the address below tells a person.
            short = phrase.endswith("s shown") and (
                artifact is not None or result.details.status == "running"
            )
            warnings[own] = f"{own.partition(phrase)[0]}{phrase}." if short else own
        for text in notices:
            if text not in warnings and not (artifact is not None and _REST.match(text)):
                yield from self._notice(page, text, result)
        for warning in warnings.values():
            yield from page.folded("! ", printable(for_people(warning)), WARNING)
        how, style = job_ended(result.details) if isinstance(result, JobResult) else ended(result.details)
        parts = [how, *times(result.details)]
        if isinstance(result, ShellResult) and result.details.directory is not None:
            parts.append(f"session in {visible(result.details.directory)}")
        yield from page.footer(
            [*parts, *[self._where] * bool(self._where)], BAD if result.is_error else style
        )
        yield from page.address(artifact, whole=self._expanded)

    def _notice(self, page: MarkedRows, text: str, result: ShellResult | JobResult) -> Iterator[Text]:
        details = result.details
        ends = rf"(?:Exit code {details.exit_code}|Ended by {re.escape(str(details.signal))}(?: \(exit code \d+\))?)"
        text = for_people(re.sub(rf"\A{ends}(?: after [\d.]+ s)?\.(?: |\Z)", "", text))  # see the footer
        if not text:
            return
        why = details.status in NOTHING_RAN
        rows = list(page.folded("- ", printable(text), "" if why else QUIET))
        yield from rows if self._expanded or len(rows) == 1 or why else [page.ending(rows[0])]


class RenderedCommand:
    """A command run by a person, drawn while it runs and after its end.

    Give the view to rich's `Live`, call `feed` with each output event, and `finish` at the end; the view is then drawn from
    the outcome. One thread may draw the view, as `Live` does, while another feeds it.

    A collapsed view is like a collapsed `RenderedResult`, except for the number of rows. A line has 4,000 characters at most,
    and a longer line says how much is left out. The footer names the end: an exit code or a signal; ``timed out``;
    ``cancelled``; ``lost``; or ``error``, with the message above the footer. Before the end, the footer says ``running``.

    Args:
        command: The command, shown above its output; an empty command is not shown.
        outcome: The outcome of a command that has ended; as for `finish`.
        expanded: Whether to show all kept output; while the command runs, the last 64 KiB are kept.
        rows: Rows of the screen that the output has in the collapsed view; at least 1.
        hint: The key by which a person can expand the view, such as ``ctrl+o``; shown where text is left out.
        timeout: Seconds that the command has, shown in the footer; ``None`` shows nothing.
        where: The place of the run, in the program's own words, such as a host and a directory; shown in the footer.
        clock: Seconds that have passed, from any moment on.

    Attributes:
        expanded: As above; may be changed at any time.

    Raises:
        ValueError: `rows` is less than 1.
    """

    def __init__(
        self,
        command: str,
        outcome: Outcome | BaseException | None = None,
        *,
        expanded: bool = False,
        rows: int = OWN_ROWS,
        hint: str = "",
        timeout: Seconds | None = None,
        where: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        _check_rows(rows)
        self.expanded = expanded
        self._command = command
        self._rows = rows
        self._hint = visible(hint)
        given = check_seconds("timeout", timeout, zero=True)
        self._more = [] if given is None else [f"timeout {exact(given)} s"]
        self._more += [visible(where)] * bool(where)
        self._clock = clock
        self._began = clock()
        self._took: float | None = None
        self._lock = threading.Lock()
        self._tail = Tail(LIVE_BYTES + LONGEST_SEQUENCE)
        self._tail.append(b"\n")  # otherwise the first line would count as a line whose start is missing
        self._lines = 0  # line feeds of the fed output
        self._outcome: Outcome | BaseException | None = None
        if outcome is not None:
            self.finish(outcome)

    def feed(self, event: OutputEvent) -> None:
        """Show an output event of the command, a line or a chunk, from `Environment.stream`."""
        text = event.text
        if event.data[-1:] == b"\n" and not text.endswith("\n"):
            text += "\n"  # an event by lines has its line feed in its data alone
        with self._lock:
            self._tail.append(text.encode("utf-8", "replace"))
            self._lines += text.count("\n")

    def finish(self, outcome: Outcome | BaseException) -> None:
        """Show the end of the command.

        Args:
            outcome: The command's outcome, or the exception raised instead. `asyncio.CancelledError` and `KeyboardInterrupt`
                are shown as ``cancelled``, any other exception as ``error``. With an exception, the fed output is shown.
        """
        with self._lock:
            self._outcome = outcome
            self._took = outcome.duration if isinstance(outcome, Outcome) else self._clock() - self._began

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        """Draw the command, as wide as the console."""
        page = MarkedRows(options, self._hint, longest=LONGEST_LINE)
        with self._lock:
            outcome, took = self._outcome, self._took
            live = "" if isinstance(outcome, Outcome) else self._live()
            total = self._lines + (live != "" and not live.endswith("\n"))
        if self._command:
            yield from page.command(self._command, "", mark="$ ", whole=self.expanded)
        rows = None if self.expanded else self._rows
        if isinstance(outcome, Outcome):
            yield from self._printed(page, outcome, rows)
            how, style = ended(outcome)
            parts = [how, *times(outcome)]
        else:
            yield from page.output(live, rows, lines=total)
            if outcome is None:
                how, style = "running", COMMAND
            elif isinstance(outcome, asyncio.CancelledError | KeyboardInterrupt):
                how, style = "cancelled", WARNING
            else:
                how, style = "error", BAD
                yield from page.folded("! ", printable(str(outcome) or type(outcome).__name__), WARNING)
            parts = [how, seconds(self._clock() - self._began if took is None else took)]
        yield from page.footer([*parts, *self._more], style)
        if isinstance(outcome, Outcome):
            for name, output in _outputs(outcome).items():
                artifact = OutputArtifact.of(output.artifact)
                yield from page.address(artifact, whole=self.expanded, name=name)

    def _live(self) -> str:
        text, shown = self._tail.text(LIVE_BYTES, LONGEST_LINE)
        return text.text()[1:] if shown == self._tail.total else text.text()

    def _printed(self, page: MarkedRows, outcome: Outcome, rows: int | None) -> Iterator[Text]:
        """Draw the output of a command, and the other facts of its outcome."""
        failed = outcome.status == "exited" and outcome.exit_code != 0
        outputs = _outputs(outcome)
        for name, output in outputs.items():
            if name == "stderr" and output.total_bytes:
                yield from page.folded("- ", name, QUIET)  # the red of stderr is not visible on every screen
            if output.binary is None:
                style = BAD if name == "stderr" else ""
                yield from page.output(output.text, rows, failed=failed, style=style)
        printed = [output for output in outputs.values() if output.total_bytes] or [outcome.output]
        for output in printed:
            for said in words.nothing_seen(output, ended=outcome.status == "exited"):
                yield from page.folded(
                    "! " if output.binary else "- ", said, WARNING if output.binary else QUIET
                )
        if alive := [process for process in outcome.left_behind if process.alive]:
            yield from page.folded("- ", f"Still running: {words.named(alive)}.", QUIET)
        for name, output in outputs.items():
            if output.truncated and output.binary is None:
                yield from page.folded("! ", f"{words.left_out(output)}.", WARNING)
            if output.artifact_error is not None:
                said = f"The whole {name} was not kept: {printable(output.artifact_error)}."
                yield from page.folded("! ", said, WARNING)


class RenderedRequest:
    """A request to an approver, drawn from its `display`. The folding lets no row of a command begin as a field does.

    Args:
        request: The request.
        expanded: Whether to show the middle of a long command, too.
    """

    def __init__(self, request: ApprovalRequest, *, expanded: bool = False) -> None:
        self._text = request.display if expanded else shortened(request.display)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        """Draw the request, as wide as the console."""
        text, style = MarkedRows(options, "").known(self._text), ""
        for row in folded(text, options.max_width + 1).split("\n"):  # folded() leaves one column empty
            if not row.startswith("  : "):  # such a row continues the row above
                style = COMMAND if row.startswith("  | ") else ""
            yield Text(row, style=style, overflow="fold", end="\n")


def _check_rows(rows: int) -> None:
    if rows < 1:
        raise ValueError(f"rows is {rows}; at least 1 row can be shown")


def _outputs(outcome: Outcome) -> dict[str, Output]:
    """Return the outputs of an outcome, by their names for a person."""
    if outcome.stderr is None:
        return {"output": outcome.output}
    return {"stdout": outcome.output, "stderr": outcome.stderr}


def _cuts(result: ShellResult | JobResult) -> Iterator[str]:
    """Yield phrases that say what a result leaves out. Its notices have these phrases; a stored result may lack the notice."""
    if isinstance(result, JobResult):
        if count := result.details.left_out:
            yield f"{counted(count, 'line')} before that left out"
        return
    of, skipped = result.details.truncation, result.details.skipped_bytes
    if of is not None and result.details.minimized is not None:
        yield f"{of.shown_lines:,} of {of.total_lines:,} lines shown"
    elif any(block.text.startswith(words.BINARY) for block in result.display):
        yield words.BINARY
    elif of is not None:
        yield f"{of.shown_bytes:,} of {of.total_bytes:,} bytes shown"
    if skipped:
        yield f"{skipped:,} bytes were not drawn"


def _failed(result: ShellResult | JobResult) -> bool:
    """Whether a command has ended by itself and failed."""
    if isinstance(result, JobResult):
        return any(job.status == "failed" for job in result.details.jobs)
    return result.details.status == "exited" and result.is_error
