"""The builder of a call's result for the model, the person and the program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import policy
from .._types import Output
from ..reach import explain, explain_network
from . import words
from .jobs import terminal_words
from .jobs import words as job_words
from .jobs.results import input_state, news
from .jobs.tool import bounded
from .result import (
    CallStatus,
    DisplayBlock,
    LeftBehindProcess,
    ShellDetails,
    ShellResult,
    Truncation,
    blocks,
)
from .run import StoppedByPerson
from .signals import number_of
from .widening import reach_of, widened

if TYPE_CHECKING:
    from .._types import Outcome
    from ..jobs import Job
    from .context import ToolContext
    from .jobs.ledger import Ledger
    from .jobs.terminals import Terminals
    from .jobs.tracked import TerminalReport, TrackedTerminal
    from .result import BlockedCommand, MinimizedOutput
    from .run import Became, ToolRun
    from .session import ToolSession
    from .viewing import ShownLines


class ResultBuilder:
    """The builder of the results of one `ShellTool`.

    Args:
        context: The objects that the tool shares with its job tool.
        session: The session of the tool; ``None`` without a session.
        ledger: The jobs of the tool; ``None`` without jobs.
        terminals: The terminals of the tool; ``None`` without terminals.
        secrets: Whether the model can have a secret typed.
        effects: Whether the model is told which files a command has changed.
    """

    def __init__(
        self,
        context: ToolContext,
        *,
        session: ToolSession | None,
        ledger: Ledger | None,
        terminals: Terminals | None,
        secrets: bool,
        effects: bool,
    ) -> None:
        self._context = context
        self._session = session
        self._ledger = ledger
        self._terminals = terminals
        self._secrets = secrets
        self._effects = effects

    @property
    def directory(self) -> str | None:
        """The directory in which the next command of the session begins; ``None`` without a session."""
        return None if self._session is None else self._session.visible_directory

    def finish(
        self,
        run: ToolRun,
        became: Became,
        update_error: BaseException | None = None,
        *,
        minimized: MinimizedOutput | None = None,
        viewed: ShownLines | None = None,
    ) -> ShellResult:
        """Return the result of a command that has run: its end, and any noise or lines left out of its output."""
        error = None if update_error is None else type(update_error).__name__
        if isinstance(became, tuple):
            return self._waiting(run, *became, error)
        if isinstance(became, StoppedByPerson):
            return self._finished(run, became.outcome, error, by_person=True)
        return self._finished(run, became, error, minimized=minimized, viewed=viewed)

    def _waiting(
        self, run: ToolRun, terminal: TrackedTerminal, view: TerminalReport, update_error: str | None
    ) -> ShellResult:
        """Return the result of a command that goes on on its terminal, waiting for input or running."""
        messages = [*terminal_words.state(terminal, view, secrets=self._secrets), *run.notices]
        if self._session is not None:
            messages.append(terminal_words.apart())
        shown = len(view.text.encode(errors="replace"))
        gone = 0 if view.is_screen else view.left_out
        output = Output(
            text=view.text,
            total_bytes=terminal.printed,
            omitted_bytes=max(terminal.printed - shown, 1) if gone else 0,
            total_lines=terminal.line_feeds,
            omitted_lines=min(gone, terminal.line_feeds),
            tail_range=(gone + 1, gone + 1 + view.text.count("\n")) if gone else None,
        )
        details = run.details(
            "running" if view.waiting is None else "waiting",
            started=True,
            duration=terminal.seconds,
            terminal=terminal.id,
            waiting=input_state(view),
            truncation=Truncation.of(output),
            directory=self.directory,
            update_error=update_error,
        )
        shows = output if view.text.strip() else None  # a sentence tells that nothing is new
        return self.make(details, messages, output=shows, is_error=False, run=run)

    def _finished(
        self,
        run: ToolRun,
        outcome: Outcome,
        update_error: str | None,
        *,
        by_person: bool = False,
        minimized: MinimizedOutput | None = None,
        viewed: ShownLines | None = None,
    ) -> ShellResult:
        env, output, call = self._context.env, self._context.hidden.output(outcome.output), run.call
        if self._ledger is not None and outcome.job is not None:
            seen = output.total_bytes if outcome.status == "running" else 0
            self._ledger.add(outcome.job, run.request.directory, seen=seen)
        way = words.RunFacts(
            timeout=call.timeout,
            limits=self._context.limits,
            os=env.os,
            host="" if env.info.is_this_machine else env.host,
            command=run.request.text,
            on_terminal=run.request.size is not None,
            by_person=by_person,
            jobs=self._ledger is not None,
            terminals=self._terminals is not None and env.terminals,
        )
        messages = [words.ending(outcome, way), *run.notices, *terminal_words.skipped(output)]
        if self._session is not None and (call.pty or widened(run.request)):
            messages.append(terminal_words.apart())
        if outcome.session is not None and self._session is not None:
            self._session.counted_on = outcome.session.state == "kept"
            stopped = outcome.status in ("timed_out", "cancelled")
            before, now = self._session.told, self._session.tell()
            messages += words.session(outcome.session, before=before, now=now, stopped=stopped)
        reach = reach_of(run.request, env)
        unreached = "" if reach is None else explain_network(outcome.network, reach)
        if outcome.exit_code != 0:
            messages += words.last_line(output)
            if reach is not None and not unreached:
                lacks = getattr(env.runner.sandbox, "lacks", ())
                messages += filter(None, [explain(output.text, reach, env.info.home, lacks)])
        messages += filter(None, [unreached])
        messages += words.nul(output)
        if self._effects and outcome.effects is not None:
            messages.append(words.effects(outcome.effects))
        job_tool = self._ledger is not None or self._terminals is not None
        readable, addressed = self._context.readable, self._context.addressed
        whole = words.whole(output, readable=readable, job_tool=job_tool, addressed=addressed)
        if minimized is not None:
            messages += words.minimized(output, minimized, whole)
        elif viewed is not None and run.view is not None:
            messages += words.viewed(output, run.view, viewed, whole)
        elif output.truncated and outcome.status == "running":
            messages.append(job_words.cut(output, outcome.job or ""))
        elif output.truncated and (output.binary is None or outcome.exit_code != 0):
            messages.append(words.truncated(output, whole, max_line=env.limits.max_line))
        if outcome.status != "lost":  # the sentence on a lost command names the processes
            messages += words.left_behind(outcome.left_behind, outcome.job)
        exit_code = outcome.exit_code
        if outcome.signal is not None and (number := number_of(outcome.signal, env.os)) is not None:
            exit_code = 128 + number
        details = run.details(
            outcome.status,
            exit_code=exit_code,
            signal=outcome.signal,
            started=outcome.started,
            duration=outcome.duration,
            truncation=Truncation.of(output, by_lines=viewed is not None and viewed.whole),
            artifact=self._context.name(output.artifact),
            minimized=minimized,
            left_behind=tuple(map(LeftBehindProcess.of, outcome.left_behind)),
            job=outcome.job,
            session_state=None if outcome.session is None else outcome.session.state,
            directory=self.directory,
            frame=output.alternate,
            skipped_bytes=output.skipped_bytes,
            silence=outcome.silence,
            editor_terminal=outcome.editor_terminal,
            network=outcome.network,
            update_error=update_error,
        )
        is_error = outcome.status != "running" and (outcome.status != "exited" or exit_code != 0)
        return self.make(details, messages, output=output, is_error=is_error, run=run)

    async def over_at_once(self, run: ToolRun, job: Job, outcome: Outcome) -> ShellResult:
        """Return the result of a job that has ended right after its start."""
        assert self._ledger is not None
        entry = self._ledger.known()[job.id]
        limits = self._context.env.limits
        piece = await job.output(limit=max(limits.size, 1))
        entry.told, entry.seen = True, piece.offset
        messages = list(
            job_words.read(
                entry,
                piece,
                since=0,
                skipped=0,
                lost=0,
                waited=0,
                shown_at_most=limits.size,
                follows=piece.offset < piece.total_bytes,
            )
        )
        details = run.details(
            "exited",
            started=True,
            exit_code=outcome.exit_code,
            signal=outcome.signal,
            duration=outcome.duration,
            job=job.id,
            directory=self.directory,
        )
        output = bounded(self._context, piece)
        is_error = outcome.exit_code != 0
        return self.make(
            details,
            [*messages, *run.notices],
            output=output if output.text else None,
            is_error=is_error,
            run=run,
        )

    def unrun(
        self, run: ToolRun, status: CallStatus, message: str, *, blocked: BlockedCommand | None = None
    ) -> ShellResult:
        """Return the result that nothing ran, without the notices, which describe a run."""
        details = run.details(status, directory=self.directory, blocked=blocked)
        return self.make(details, [message], output=None, is_error=True, run=run)

    def make(
        self,
        details: ShellDetails,
        messages: list[str],
        *,
        output: Output | None,
        is_error: bool,
        run: ToolRun | None = None,
    ) -> ShellResult:
        """Assemble a result, with the news of jobs and terminals that ended since the last result."""
        messages = [*messages, *news(self._ledger, self._terminals)]
        messages, details = self._context.hidden.texts(messages), self._context.hidden.facts(details)
        printed = "" if output is None or output.binary is not None else output.text
        by_itself = details.status == "exited" and details.signal is None
        unseen = [] if output is None or details.frame else words.nothing_seen(output, ended=by_itself)
        display = [*([] if run is None else [run.shown()]), *blocks(printed, [*unseen, *messages])]
        if details.frame:
            display.append(DisplayBlock(type="output", text=policy.printable(details.frame)))
        if self._terminals is not None and (failed := self._terminals.console_error) is not None:
            self._terminals.console_error = None
            display.append(
                DisplayBlock(type="notice", text=f"A console could not be shown: it raised {failed}.")
            )
        if details.update_error is not None:
            ended = f"Updates ended early: on_update raised {details.update_error}."
            display.append(DisplayBlock(type="notice", text=ended))
        return ShellResult(
            is_error=is_error,
            output=printed,
            message=" ".join(messages),
            text=words.text(output, [*messages, *terminal_words.framed(details.frame)], ended=by_itself),
            display=tuple(map(self._context.hidden.facts, display)),
            details=details,
        )
