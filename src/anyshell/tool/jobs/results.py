"""The builder of the job tool's results for the model, the person and the program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ... import policy
from .. import words
from ..result import DisplayBlock, InputState, JobDetails, JobResult, JobState, blocks
from ..signals import number_of
from . import terminal_words
from . import words as job_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..._types import JobStatus, Output
    from ...jobs import Job
    from ..context import ToolContext
    from ..result import JobCallStatus
    from .ledger import Ledger
    from .params import JobCall
    from .terminals import Terminals
    from .tracked import TerminalReport, TrackedTerminal


class JobResults:
    """The builder of the results of one `JobTool`.

    Args:
        context: The objects that the tool shares with its `ShellTool`.
        ledger: The jobs without terminals; ``None`` if the tool has no such jobs.
        terminals: The terminals; ``None`` if the tool has no terminals.
    """

    def __init__(self, context: ToolContext, ledger: Ledger | None, terminals: Terminals | None) -> None:
        self._context = context
        self._hidden = context.hidden
        self._ledger = ledger
        self._terminals = terminals

    def make(
        self,
        call: JobCall | None,
        status: JobCallStatus,
        messages: list[str],
        states: Sequence[JobState] = (),
        *,
        output: Output | None = None,
        offset: int | None = None,
        total_bytes: int | None = None,
        found: bool | None = None,
    ) -> JobResult:
        """Make the result of a call about jobs without terminals, or about no job."""
        details = JobDetails(
            status=status,
            action=None if call is None else call.action,
            jobs=tuple(states),
            offset=offset,
            total_bytes=total_bytes,
            found=found,
        )
        return self._put_together(call, details, messages, output=output)

    def of_terminal(
        self,
        call: JobCall,
        status: JobCallStatus,
        messages: list[str],
        terminal: TrackedTerminal,
        view: TerminalReport | None = None,
        *,
        found: bool | None = None,
    ) -> JobResult:
        """Make the result of a call about a terminal, with a view of the terminal."""
        outcome = None if view is None else view.outcome
        artifact, exit_code = None, None
        if outcome is not None:
            artifact = self._context.name(outcome.output.artifact)
            messages = [*messages, *terminal_words.kept(artifact, readable=self._context.readable)]
            messages += terminal_words.skipped(outcome.output)
            messages += words.left_behind(outcome.left_behind, outcome.job, of="program")
            exit_code = outcome.exit_code
            if outcome.signal is not None:
                number = number_of(outcome.signal, self._context.env.os)
                exit_code = None if number is None else 128 + number
        details = JobDetails(
            status=status,
            action=call.action,
            jobs=(state_of_terminal(terminal),),
            found=found,
            artifact=artifact,
            terminal=terminal.id or None,
            running=not terminal.over,
            exit_code=exit_code,
            signal=None if outcome is None else outcome.signal,
            waiting=None if view is None else input_state(view),
            program=None if view is None else view.program,
            alternate=view is not None and view.screen.alternate,
            cursor=None if view is None else view.screen.cursor,
            left_out=0 if view is None else view.left_out,
        )
        return self._put_together(call, details, messages, view=view)

    def _put_together(
        self,
        call: JobCall | None,
        details: JobDetails,
        messages: list[str],
        *,
        output: Output | None = None,
        view: TerminalReport | None = None,
    ) -> JobResult:
        messages = self._hidden.texts([*messages, *news(self._ledger, self._terminals)])
        shown = output.text if output is not None else "" if view is None else view.text
        text = terminal_words.text(shown, messages, None if view is None else view.frame)
        typed = _typed(call) if details.terminal else []
        details = details.model_copy(update={"jobs": tuple(map(self._hidden.facts, details.jobs))})
        return JobResult(
            is_error=details.status != "done",
            output=shown,
            message=" ".join(messages),
            text=text,
            display=tuple(map(self._hidden.facts, [*typed, *blocks(shown, messages)])),
            details=self._hidden.facts(details),
        )


def news(ledger: Ledger | None, terminals: Terminals | None) -> Iterator[str]:
    """Yield a sentence for each job and terminal that ended since the last result."""
    if terminals is not None:
        yield from map(terminal_words.news, terminals.news())
    if ledger is not None:
        yield from map(job_words.news, ledger.news())


def state_of(job: Job) -> JobState:
    """Return the state of a job without a terminal, as a fact of a result."""
    return JobState(
        id=job.id,
        command=job_words.command(job.command),
        status=job.status,
        exit_code=job.exit_code,
        pid=job.pid,
        adopted=job.adopted,
        seconds=job_words.seconds(job),
    )


def state_of_terminal(terminal: TrackedTerminal) -> JobState:
    """Return the state of a terminal, as a fact of a result."""
    outcome = terminal.outcome
    status: JobStatus = "running"
    if outcome is not None:
        ended: dict[str, JobStatus] = {"cancelled": "stopped", "timed_out": "timed_out", "lost": "lost"}
        status = ended.get(outcome.status, "completed" if outcome.exit_code == 0 else "failed")
    return JobState(
        id=terminal.id,
        command=job_words.command(terminal.request.text),
        status=status,
        exit_code=None if outcome is None else outcome.exit_code,
        pid=terminal.driven.pid,
        adopted=False,
        seconds=round(terminal.seconds, 1),
    )


def _typed(call: JobCall | None) -> list[DisplayBlock]:
    """Return a block that shows a person the text and keys typed on a terminal."""
    if call is None or call.action != "send" or not (call.text or call.keys or call.enter):
        return []
    keys = "".join(f" [{policy.visible(key)}]" for key in (*call.keys, *["Enter"] * call.enter))
    return [DisplayBlock(type="command", text=f"{policy.visible(call.text)}{keys}".strip())]


def input_state(view: TerminalReport) -> InputState | None:
    """Return the input that a program waits for, as a fact of a result; ``None`` if the program does not wait."""
    if view.waiting is None:
        return None
    return InputState(
        certain=view.waiting.certainty == "certain",
        prompt=policy.visible(view.waiting.prompt),
        password=view.password,
    )
