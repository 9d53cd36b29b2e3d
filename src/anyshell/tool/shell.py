"""The tool itself: a model's parameters in, a `ShellResult` out, whatever happens between."""

from __future__ import annotations

import asyncio
import contextlib
import posixpath
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import anyio

from .. import policy, shells
from .._environment import descriptions
from .._exceptions import AnyshellError, TerminalUnavailable
from .._runner.variables import NOT_FOR_MODELS
from .._types import ApprovalRequest, Outcome, Output, Refused, Terminal, check_seconds
from ..shells.from_windows import for_bash
from ..shells.syntax import leading_cd
from . import words
from .approvals import Approvals
from .calls import Calls
from .definition import ToolDefinition, schema
from .hiding import Hidden
from .host import HOST_BOUND, no_directory
from .jobs import words as job_words
from .jobs.ledger import Ledger
from .jobs.tool import JobTool
from .limits import ToolLimits
from .params import Call, InvalidParams, Offer, ShellParams, parse
from .result import (
    CallStatus,
    DisplayBlock,
    LeftBehindProcess,
    OutputArtifact,
    ShellDetails,
    ShellResult,
    Truncation,
    blocks,
)
from .signals import number_of
from .terminals import words as terminal_words
from .terminals.registry import Terminals
from .terminals.tool import TerminalTool, input_state
from .terminals.tracked import TrackedTerminal, View
from .updates import OnUpdate, Updates

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from .._environment import Environment
    from .._stream import Listener
    from .._types import Command, LeftBehind
    from ..abc import Approver
    from ..jobs import Job
    from ..session import Session
    from ..terminal import ConsoleOpener, SecretSource
    from .calls import Ongoing

_Waits = tuple[TrackedTerminal, View]
"""A command that waits for input on its terminal."""


@dataclass(frozen=True, slots=True)
class _Stopped:
    """What became of a command that a person has stopped who saw it in a console."""

    outcome: Outcome


_Became = Outcome | _Waits | _Stopped
"""What became of a command."""

_TOOL = re.compile(r"[\w.-]{1,128}\Z")


class ShellTool:
    """A shell that a model calls: three lines hold always.

    Parameters are bounded. Every run passes the approver, which sees exactly what runs. Every run has a
    deadline, after which nothing of it is left; a job that was given none has the end of the environment.

    Args:
        env: Where commands run. Entered with ``async with``, it also gives updates while they do.
        approver: Decides about every command. There is no default: `approve_all` must be somebody's decision.
        limits: What a model may ask for.
        session: Whether calls run in one shell that lasts, one after the other, rather than each in a fresh one.
        jobs: Whether commands can run in the background. What a command leaves behind then goes on as a job,
            instead of being stopped, and `job_tool` is to be offered to the model as well.
        terminals: Whether commands can have a terminal. One that waits for input there goes on, and `terminal_tool` is
            to be offered to the model as well.
        secrets: Gives what a program on a terminal may be told and the model may not: an async callable that is given a
            `SecretRequest` and returns the secret, or ``None``. Without it the model cannot have one typed. What it
            gave is ``[secret]`` in every later result and update of the tool, where it stands as it is.
        console: Shows every command on a terminal to a person, who sees it, may type, and stops it by dismissing it, which
            the model is told: ``anyshell.console.opener(app)`` for an app of textual, or an async function that is given
            the `DrivenTerminal`. A call does not wait for it: what has ended stays shown until it is dismissed.
        silence: Seconds without output after which a command is stopped, as by its timeout; the model is told. Not one
            that was started in the background or on a terminal, where silence is no fault. ``None`` is never.
        confirmed: Whether a person confirms every command, which the model is told. It changes nothing of what
            `approver` is asked.
        tools: Names of other tools that the model has, such as ``("read", "grep", "edit")``: it is told to prefer them over
            commands that do the same.

    Raises:
        AnyshellError: `session`, `jobs` or `terminals` where the environment was not entered with ``async with``;
            `secrets` or `console` without `terminals`; `console` that is no function; `silence` that is no number of
            seconds; `tools` that are no names.
    """

    def __init__(
        self,
        env: Environment,
        *,
        approver: Approver,
        limits: ToolLimits | None = None,
        session: bool = False,
        jobs: bool = False,
        terminals: bool = False,
        secrets: SecretSource | None = None,
        console: ConsoleOpener | None = None,
        silence: float | None = None,
        confirmed: bool = False,
        tools: Sequence[str] = (),
    ) -> None:
        check_seconds("silence", silence)
        given: Any = tools
        names: tuple[Any, ...] = (
            tuple(given) if isinstance(given, Iterable) and not isinstance(given, str) else (None,)
        )
        if not all(isinstance(name, str) and _TOOL.match(name) for name in names):
            raise AnyshellError(
                f"tools must be names of tools, of letters, digits, _, - and ., not {tools!r}: for one, ('read',)"
            )
        if (session or jobs or terminals) and not env.entered:
            raise AnyshellError(
                "a tool with a session, with jobs or with terminals starts what somebody must stop: use 'async with "
                "Environment.detect() as env'"
            )
        if secrets is not None and not terminals:
            raise AnyshellError("secrets are typed on terminals: make the tool with terminals=True")
        if console is not None and not terminals:
            raise AnyshellError("a console shows terminals: make the tool with terminals=True")
        if console is not None and not callable(console):
            raise AnyshellError(
                f"console must be an async function, not {type(console).__name__}: for an app of textual, "
                "anyshell.console.opener(app)"
            )
        self._env = env
        self._confirmed = confirmed
        self._tools = names
        self._limits = limits or ToolLimits()
        self._offer = Offer(session=session, jobs=jobs, terminals=terminals)
        self._approvals = Approvals(approver, timeout=self._limits.approval_timeout)
        self._session: Session | None = env.session() if session else None
        self._counted_on = False  # whether a model thinks that the session's shell knows something
        self._told = env.directory  # where the model was last told that the session's shell is
        self._closed = False
        self._turn = asyncio.Lock()
        self._calls = Calls()
        self._silence = silence
        self._ledger = Ledger(env.jobs) if jobs else None
        self._secrets = secrets
        self._hidden = Hidden()
        self._terminals = (
            Terminals(env, self._limits, ledger=self._ledger, hidden=self._hidden, console=console)
            if terminals
            else None
        )

    @property
    def definition(self) -> ToolDefinition:
        """What the model is told: a name, a description of this host and its limits, and a JSON schema."""
        env = self._env
        offer = replace(self._offer, terminals=self._offer.terminals and env.terminals)
        return ToolDefinition(
            name="shell",
            title="Run a shell command",
            description=descriptions.describe(
                shell=env.shell,
                info=env.info,
                directory=env.directory,
                limits=env.limits,
                timeout=self._limits.default_timeout,
                max_timeout=self._limits.max_timeout,
                kept=env.artifacts is not None,
                snapshot=env.snapshot is not None,
                session=self._offer.session,
                jobs=self._offer.jobs,
                terminals=offer.terminals,
                background_after=env.background_after,
                confirmed=self._confirmed,
                tools=self._tools,
            ),
            parameters=schema(
                self._limits,
                directory=env.directory,
                guarded=not env.interactive,
                offer=offer,
                silence=self._silence,
            ),
        )

    @property
    def _directory(self) -> str | None:
        """Where the next command of the session begins, as text: a name may hold bytes that are none."""
        return None if self._session is None else policy.visible(self._session.directory)

    @property
    def job_tool(self) -> JobTool:
        """The tool by which the model looks after the jobs of this one.

        Raises:
            AnyshellError: There are none: this tool was made without ``jobs=True``.
        """
        if self._ledger is None:
            raise AnyshellError("this tool has no jobs: make it with ShellTool(..., jobs=True)")
        return JobTool(
            self._env,
            self._ledger,
            approvals=self._approvals,
            limits=self._limits,
            hidden=self._hidden,
            calls=self._calls,
        )

    @property
    def terminal_tool(self) -> TerminalTool:
        """The tool by which the model drives programs on terminals.

        Raises:
            AnyshellError: There are none: this tool was made without ``terminals=True``.
        """
        if self._terminals is None:
            raise AnyshellError("this tool has no terminals: make it with ShellTool(..., terminals=True)")
        return TerminalTool(
            self._env,
            self._terminals,
            approvals=self._approvals,
            limits=self._limits,
            secrets=self._secrets,
            hidden=self._hidden,
            calls=self._calls,
            directory=lambda: self._before,
        )

    @property
    def _before(self) -> str:
        """Where a command starts that does not say otherwise."""
        return self._env.directory if self._session is None else self._session.directory

    async def aclose(self) -> None:
        """Run nothing more, and end the tool's session, if it has one. The end of the environment does so as well.

        Its jobs and its terminals go on, and `job_tool` and `terminal_tool` with them; no terminal is started any more.
        Closing twice does nothing.
        """
        self._closed = True
        self._counted_on = False
        if self._terminals is not None:
            self._terminals.closed = True
        if self._session is not None:
            await self._session.aclose()

    def cancel(self, call_id: str) -> None:
        """Cancel a call of this tool, of its `job_tool` or its `terminal_tool`. The call then returns a result.

        A command that runs is stopped, with everything that it started, after the grace; its result is ``cancelled``, with
        what it has printed. A call that waits for its turn or for the approver returns at once, and nothing ran. A
        command that has ended by itself keeps that end. A second call skips the grace. To be called in the event loop.

        Args:
            call_id: As the call was given it; an `Update`, an `ApprovalRequest` and the details of a result tell it.

        Raises:
            AnyshellError: No call of that id is under way.
        """
        self._calls.cancel(call_id)

    async def __call__(
        self,
        params: Mapping[str, object] | ShellParams,
        *,
        on_update: OnUpdate | None = None,
        call_id: str | None = None,
    ) -> ShellResult:
        """Carry out one call.

        Args:
            params: As the model gave them, unchecked.
            on_update: Is given the end of the output so far while the command runs, cleaned and bounded, at
                intervals. An async one never delays the command; one that is not async and blocks holds up
                the event loop, and so the command's deadline. Once it has raised, it is not called again, and
                never after the call. Is not called at all if the environment was not entered, nor for a job.
            call_id: What `cancel` takes, such as the id that the model's interface gives the call; unlike that of every
                other call under way. Without it the call gets one.

        Returns:
            What came of it. Wrong parameters, a refusal, a failure and a timeout are results.

        Raises:
            InvalidCommand: `call_id` is empty, or that of another call under way.
            asyncio.CancelledError: The calling task was cancelled; the whole tree is gone.
        """
        with self._calls.begin(call_id) as ongoing:
            result = await self._call(params, on_update, ongoing)
        return result.model_copy(
            update={"details": result.details.model_copy(update={"call_id": ongoing.id})}
        )

    async def _call(
        self, params: Mapping[str, object] | ShellParams, on_update: OnUpdate | None, ongoing: Ongoing
    ) -> ShellResult:
        try:
            call = parse(params, self._limits, self._offer)
        except InvalidParams as error:
            said = [words.invalid(str(error))]
            return self._result(ShellDetails(status="invalid"), said, output=None, is_error=True)
        async with contextlib.AsyncExitStack() as turn:
            with ongoing.interruptible():
                await turn.enter_async_context(self._its_turn(call))
            if ongoing.cancelled:
                details = ShellDetails(status="cancelled", timeout=call.timeout, directory=self._directory)
                return self._result(details, [words.UNBEGUN], output=None, is_error=True)
            return await self._carried_out(call, on_update, ongoing)

    @contextlib.asynccontextmanager
    async def _its_turn(self, call: Call) -> AsyncIterator[None]:
        """In a session, let nothing run between the approval of a command and the command: it decides what that does."""
        if self._session is None or call.background or call.pty:
            yield
            return
        async with self._turn:
            yield

    @property
    def _over(self) -> bool:
        """Whether nothing can run any more."""
        return self._closed or self._env.closed

    async def _carried_out(self, call: Call, on_update: OnUpdate | None, ongoing: Ongoing) -> ShellResult:
        if self._over:
            details = ShellDetails(status="failed", timeout=call.timeout)
            return self._result(details, [words.CLOSED], output=None, is_error=True)
        if call.restart and not call.command.text:
            return await self._restarted(call)
        run = await self._prepared(call, ongoing.id)
        if run.request.fresh and self._counted_on and not call.restart:
            return self._gone(run)  # the model does not know yet
        missing = ""
        with ongoing.interruptible():
            if call.command.cwd is not None:
                missing = await no_directory(self._env, run.request.directory)
            if not missing:
                answer = await self._approvals.ask(run.request)
        if ongoing.cancelled:
            return self._unrun(run, "cancelled", words.UNBEGUN)
        if missing:
            return self._unrun(run, "failed", words.failed(missing))
        if isinstance(answer, Refused):
            return self._unrun(run, "refused", words.refused(answer.reason))
        try:
            if call.background:
                return await self._started(run, ongoing)
            return await self._run(run, on_update, ongoing)
        except TerminalUnavailable as error:
            # That is another thing to run than what was approved.
            return await self._carried_out(replace(call, no_terminal=str(error)), on_update, ongoing)
        except AnyshellError as error:
            request, session = run.request, self._session
            if self._over:
                return self._unrun(run, "failed", words.CLOSED)
            if session is not None and request.session and not (request.fresh or session.alive):
                return self._gone(run)
            said = words.failed(str(error))
            if session is not None and request.restart:
                said += f" {words.restarted(self._tell(session))}"
            return self._unrun(run, "failed", said)

    def _gone(self, run: _Run) -> ShellResult:
        """Say that nothing ran because the shell of the session has ended since the last command."""
        assert self._session is not None
        self._counted_on = False
        return self._unrun(run, "failed", words.gone(self._tell(self._session)))

    def _tell(self, session: Session) -> str:
        """Where the next command of the session begins, which the model is told now."""
        self._told = session.directory
        return self._told

    async def _restarted(self, call: Call) -> ShellResult:
        """Begin a fresh shell, and nothing in it."""
        assert self._session is not None
        self._counted_on = False
        await self._session.restart()
        details = ShellDetails(status="restarted", directory=self._directory, timeout=call.timeout)
        said = [words.restarted(self._tell(self._session))]
        return self._result(details, said, output=None, is_error=False)

    async def _prepared(self, call: Call, call_id: str) -> _Run:
        """Settle what is going to run, exactly."""
        env, command = self._env, call.command
        no_terminal = call.no_terminal or ("" if env.terminals else terminal_words.NOT_HERE)
        size = Terminal() if call.pty and not no_terminal else None
        dropped = [] if env.interactive or size is not None else sorted(NOT_FOR_MODELS & command.env.keys())
        if dropped:
            kept = {name: value for name, value in command.env.items() if name not in dropped}
            command = replace(command, env=kept)
        original, command = command, await self._rewritten(command)
        session = None if call.background or call.pty else self._session
        before = env.directory if call.restart else self._before
        request = ApprovalRequest(
            text=command.text,
            shell=env.shell,
            host=env.host,
            directory=env.info.resolve(command.cwd, before),
            env=tuple(sorted(command.env.items())),
            stdin=call.stdin,
            timeout=call.timeout,
            prefix=env.prefix,
            snapshot=env.snapshot,
            original=None if command is original else original.text,
            session=session is not None,
            fresh=session is not None and (call.restart or not session.alive),
            restart=call.restart,
            background=call.background,
            # What a job reads may be sent to it later.
            end_of_input=size is None and (not call.background or call.stdin is not None),
            size=size,
            description=call.label,
            call_id=call_id,
        )
        notices = []
        if command.text != original.text and env.shell.on_windows:
            notices.append(words.TRANSLATED)
        if call.pty and size is None:
            notices.append(terminal_words.without(no_terminal))
        if dropped:
            notices.append(words.guarded(dropped))
        if call.timeout is not None and call.requested_timeout not in (None, call.timeout):
            notices.append(words.clamped(call.requested_timeout, call.timeout, self._limits))
        return _Run(call, replace(request, display=policy.display(request)), tuple(notices))

    async def _rewritten(self, command: Command) -> Command:
        env = self._env
        if env.shell.on_windows and isinstance(shells.SHELLS[env.shell.kind], shells.Shell):
            command = policy.for_its_shell(command, translate=for_bash)
        # In a session the directory is to last; and the user's own cd may be another.
        if self._session is not None or env.snapshot is not None:
            return command
        if not shells.SHELLS[env.shell.kind].starts_as_if_by_cd(env.shell):
            return command
        return await policy.leading_cd_into_cwd(
            command,
            parse=leading_cd,
            info=env.info,
            directory=env.directory,
            can_enter=self._can_enter,
        )

    async def _can_enter(self, path: str) -> bool:
        """Whether a path is a directory, and one that may be entered: only then is there something below it."""
        with anyio.move_on_after(HOST_BOUND):
            try:
                return await self._env.files.is_dir(posixpath.join(path, "."))
            except (OSError, AnyshellError):
                pass  # then the command itself meets whatever is wrong
        return False

    async def _run(self, run: _Run, on_update: OnUpdate | None, ongoing: Ongoing) -> ShellResult:
        if on_update is None or not self._env.entered:
            return self._tell_of(run, await self._outcome(run, None, ongoing))
        interval, limit = self._limits.update_interval, self._limits.update_bytes
        async with Updates(
            on_update,
            call_id=ongoing.id,
            interval=interval,
            limit=limit,
            hide=self._hidden.text,
            code_page=self._env.info.code_page,
        ) as updates:
            outcome = await self._outcome(run, updates.hear, ongoing)
        return self._tell_of(run, outcome, updates.error)

    async def _on_terminal(self, run: _Run, listener: Listener | None, ongoing: Ongoing) -> _Became:
        """Run what was approved on a terminal, until it ends or waits for input."""
        assert self._terminals is not None
        async with self._terminals.begin(run.request, ongoing.control, listener) as terminal:
            waiting = await terminal.driven.wait_for_input(timeout=None)
            if waiting is None:
                outcome = await terminal.driven.wait()
                return _Stopped(outcome) if terminal.stopped_by_person else outcome
            view = await terminal.look(self._env.limits, waiting=waiting)
            if ongoing.cancelled:
                return await terminal.driven.wait()
            if view.outcome is not None:
                return _Stopped(view.outcome) if terminal.stopped_by_person else view.outcome
            self._terminals.keep(terminal)
            return terminal, view

    async def _started(self, run: _Run, ongoing: Ongoing) -> ShellResult:
        """Start what was approved as a job."""
        assert self._ledger is not None
        request = run.request
        job: Job | None = None
        with ongoing.interruptible():
            job = await self._env.start(
                request.text,
                cwd=request.directory,
                env=dict(request.env),
                stdin=request.stdin,
                timeout=request.timeout,
                grace=self._limits.grace,
            )
        if job is None or ongoing.cancelled:
            if job is not None:  # it was there the moment before
                await job.stop()
            return self._unrun(run, "cancelled", words.NO_JOB)
        self._ledger.add(job.id, request.directory)
        started = job_words.started(job, sends=not request.end_of_input, label=run.call.label)
        said = [started, *run.notices]
        details = run.details("running", started=True, job=job.id, directory=self._directory)
        return self._result(details, said, output=None, is_error=False, run=run)

    async def _outcome(self, run: _Run, listener: Listener | None, ongoing: Ongoing) -> _Became:
        """Run what was approved, and nothing else."""
        request = run.request
        if request.size is not None:
            return await self._on_terminal(run, listener, ongoing)
        session = self._session if request.session else None
        left_behind: LeftBehind = "adopt" if self._offer.jobs else "stop"
        if session is None:
            return await self._env.run(
                request.text,
                cwd=request.directory,
                env=dict(request.env),
                stdin=request.stdin,
                timeout=request.timeout,
                silence=self._silence,
                grace=self._limits.grace,
                left_behind=left_behind,
                listener=listener,
                background_after="default" if self._offer.jobs else None,
                control=ongoing.control,
            )
        if request.restart:
            self._counted_on = False
            await session.restart()
        return await session.run(
            request.text,
            cwd=None if run.call.command.cwd is None else request.directory,
            env=dict(request.env),
            stdin=request.stdin,
            timeout=request.timeout,
            silence=self._silence,
            grace=self._limits.grace,
            left_behind=left_behind,
            may_be_fresh=request.fresh,
            listener=listener,
            control=ongoing.control,
        )

    def _tell_of(self, run: _Run, became: _Became, update_error: BaseException | None = None) -> ShellResult:
        """Say what became of a command."""
        error = None if update_error is None else type(update_error).__name__
        if isinstance(became, tuple):
            return self._waiting(run, *became, error)
        if isinstance(became, _Stopped):
            return self._finished(run, became.outcome, error, by_person=True)
        return self._finished(run, became, error)

    def _waiting(
        self, run: _Run, terminal: TrackedTerminal, view: View, update_error: str | None
    ) -> ShellResult:
        """Say that a command waits for input on its terminal, where it goes on."""
        said = [
            terminal_words.goes_on(terminal),
            *terminal_words.state(terminal, view, secrets=self._secrets is not None),
        ]
        said += run.notices
        if self._session is not None:
            said.append(terminal_words.apart())
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
            "waiting",
            started=True,
            duration=terminal.seconds,
            terminal=terminal.id,
            waiting=input_state(view),
            truncation=Truncation.of(output),
            directory=self._directory,
            update_error=update_error,
        )
        return self._result(details, said, output=output, is_error=False, run=run)

    def _finished(
        self, run: _Run, outcome: Outcome, update_error: str | None, *, by_person: bool = False
    ) -> ShellResult:
        env, output, call = self._env, self._hidden.output(outcome.output), run.call
        assert call.timeout is not None  # only a job may have none
        if self._ledger is not None and outcome.job is not None:
            seen = output.total_bytes if outcome.status == "running" else 0
            self._ledger.add(outcome.job, run.request.directory, seen=seen)
        on_terminal = run.request.size is not None
        ending = words.ending(
            outcome,
            timeout=call.timeout,
            limits=self._limits,
            os=env.os,
            command=run.request.text,
            terminal=on_terminal,
            by_person=by_person,
        )
        said = [ending, *run.notices, *terminal_words.skipped(output)]
        if call.pty and self._session is not None:
            said.append(terminal_words.apart())
        if outcome.session is not None and self._session is not None:
            self._counted_on = outcome.session.state == "kept"
            stopped = outcome.status in ("timed_out", "cancelled")
            before, now = self._told, self._tell(self._session)
            said += words.session(outcome.session, before=before, now=now, stopped=stopped)
        if output.truncated and outcome.status == "running":
            said.append(job_words.cut(output, outcome.job or ""))
        elif output.truncated:
            readable = env.info.is_this_machine
            said.append(words.truncated(output, max_line=env.limits.max_line, readable=readable))
        said += words.left_behind(outcome.left_behind, outcome.job)
        exit_code = outcome.exit_code
        if outcome.signal is not None and (number := number_of(outcome.signal, env.os)) is not None:
            exit_code = 128 + number
        details = run.details(
            outcome.status,
            exit_code=exit_code,
            signal=outcome.signal,
            started=outcome.started,
            duration=outcome.duration,
            truncation=Truncation.of(output),
            artifact=OutputArtifact.of(output.artifact),
            left_behind=tuple(map(LeftBehindProcess.of, outcome.left_behind)),
            job=outcome.job,
            session_state=None if outcome.session is None else outcome.session.state,
            directory=self._directory,
            frame=output.alternate,
            skipped_bytes=output.skipped_bytes,
            silence=outcome.silence,
            update_error=update_error,
        )
        is_error = outcome.status != "running" and (outcome.status != "exited" or exit_code != 0)
        return self._result(details, said, output=output, is_error=is_error, run=run)

    def _unrun(self, run: _Run, status: CallStatus, message: str) -> ShellResult:
        """Say that nothing ran. The notices tell of a run, so they are left out."""
        details = run.details(status, directory=self._directory)
        return self._result(details, [message], output=None, is_error=True, run=run)

    def _result(
        self,
        details: ShellDetails,
        said: list[str],
        *,
        output: Output | None,
        is_error: bool,
        run: _Run | None = None,
    ) -> ShellResult:
        if self._terminals is not None:
            said = [*said, *map(terminal_words.news, self._terminals.news())]
        if self._ledger is not None:
            said = [*said, *map(job_words.news, self._ledger.news())]
        said, details = self._hidden.texts(said), self._hidden.facts(details)
        display = [*([] if run is None else [run.shown()]), *blocks(output, said)]
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
            output="" if output is None else output.text,
            message=" ".join(said),
            text=words.text(output, [*said, *terminal_words.framed(details.frame)]),
            display=tuple(map(self._hidden.facts, display)),
            details=details,
        )


@dataclass(frozen=True, slots=True)
class _Run:
    """A call on its way, and everything that is told about it.

    Attributes:
        call: What was asked for.
        request: What runs if it is approved.
        notices: What to say besides how it ended.
    """

    call: Call
    request: ApprovalRequest
    notices: tuple[str, ...]

    def details(self, status: CallStatus, **facts: Any) -> ShellDetails:
        call = self.call
        return ShellDetails(
            status=status,
            command=self.request.text,
            timeout=call.timeout,
            requested_timeout=call.requested_timeout,
            **facts,
        )

    def shown(self) -> DisplayBlock:
        request = self.request
        return DisplayBlock(
            type="command",
            text=policy.visible_lines(request.original or request.text),
            title=policy.visible(request.description),
        )
