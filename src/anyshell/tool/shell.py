"""The shell tool: it takes a model's parameters and returns a `ShellResult`, also for every failure."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from .._environment import Environment, descriptions
from .._exceptions import AnyshellError, TerminalUnavailable
from .._types import Outcome, Refused, check_seconds, to_scan
from . import words
from .approvals import Approvals
from .builder import ResultBuilder
from .calls import Calls
from .context import ToolContext
from .decisions import Decisions
from .definition import ToolDefinition, names_of, schema
from .extras import checked_view_limits, minimizing_of, rules_of, verdicts_of
from .hiding import Hidden
from .host import no_directory
from .jobs import terminal_words
from .jobs import words as job_words
from .jobs.ledger import Ledger
from .jobs.params import REACTION
from .jobs.terminals import Terminals
from .jobs.tool import JobTool
from .limits import ToolLimits
from .params import Call, InvalidParams, ShellParams, ToolFeatures, parse
from .result import BlockedCommand, ShellDetails, ShellResult
from .run import StoppedByPerson, intercepted, prepare
from .session import ToolSession
from .trying import Approve, Tries
from .unconfined import warn_of_no_sandbox
from .updates import OnUpdate, Updates
from .widening import asking_for, can_be_widened, widened

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
    from os import PathLike

    from .._stream import Listener
    from .._types import LeftBehind, Scan
    from .._types.checks import Seconds
    from ..abc import Approver
    from ..jobs import Job
    from ..policy.interception import InterceptionRule
    from ..policy.rules import Policy
    from ..terminal import ConsoleOpener, SecretSource
    from .calls import Ongoing
    from .jobs.tracked import WaitState
    from .minimizing import Minimizable
    from .run import Became, ToolRun

FAILS_AT_ONCE = 0.3
"""Seconds that the start of a background job waits for the job's end; a later end is told in a later result."""


class ShellTool:
    """A shell that a model calls, with three guarantees.

    Parameters are bounded. Every run needs an approval, by the policy, an earlier answer or the approver, which sees exactly
    what runs. Every run has a deadline, after which none of the run's processes is left; a job without a timeout ends with
    the environment.

    Args:
        env: The environment of the commands. Updates during a call need an environment entered with ``async with``.
        approver: The function that decides about every command. There is no default: `approve_all` must be a decision.
        limits: The limits of a model's requests.
        session: Whether calls run one after the other in one lasting shell, rather than each call in a fresh shell.
        jobs: Whether commands can run in the background. Processes that a command leaves behind then go on as a job,
            instead of being stopped. Offer `job_tool` to the model as well.
        terminals: Whether commands can have a terminal. A command that waits for input on a terminal goes on as a job.
            Offer `job_tool` to the model as well.
        secrets: An async callable that is given a `SecretRequest` and returns a secret for a program on a terminal, or
            ``None``. The model never sees the secret. Without `secrets` the model cannot have a secret typed. Later results
            and updates of the tool show ``[secret]`` wherever the secret appears unchanged.
        console: The function that shows every command on a terminal to a person: ``anyshell.console.opener(app)`` for a
            textual app, or an async function that is given the `DrivenTerminal`. The person may type. Dismissing the
            console stops the command, and the model is told. A call does not wait for the console: an ended command
            stays shown until the person dismisses the console.
        silence: Seconds without output after which a command is stopped, as by its timeout; the model is told. Silence
            never stops a command in the background or on a terminal. ``None`` means no limit.
        confirmed: Whether a person confirms every command; the model is told. The questions to `approver` stay the same.
        tools: Names of other tools that the model has, such as ``("read", "grep", "edit")``. The description tells the
            model to prefer these tools over commands that do the same.
        advice: The advice in the description apart from its rules: a set of ``git`` and ``programs``; both by default.
        policy: The policy that decides first. An allowed command runs without a question, a denied command is refused. The
            approver is asked about other commands, and about everything that is sent or typed. By default `Environment.policy`.
        interception: Whether a command is blocked if one of `tools`, or `job_tool`, does better; the model is told.
            ``True`` uses `anyshell.policy.interception.DEFAULTS`, an iterable its own rules. Needs the extra ``policy``.
        minimize: Whether the model is shown a simple command's output without noise, such as progress and a line for each
            passed test. ``True`` uses anyshell's own rules; the rules of given files come before anyshell's own. The whole
            output is kept, and the result names the artifact. Needs the extra ``policy``.
        view_limits: Whether a last ``| head -n 5`` or ``| tail -n 5`` of a simple line limits the shown output instead of
            the kept output. The approver is asked about the line that then runs. Needs the extra ``policy``.
        ask_each: Whether the approver is asked for each call. By default calls that wait for the same answer share it.
        effects: As for `Environment.run`: the model is told which files a command changed. Commands in the background and
            on a terminal are excepted.
        approve: The view of the approver. With ``effects`` a command in a fresh shell first runs on trial
            (`Environment.trial`). The request then has the effects on files, and an approval commits these effects.

    Raises:
        AnyshellError: `session`, `jobs` or `terminals` without an environment entered with ``async with``; `secrets` or
            `console` without `terminals`; a `console` that is not a function; a `silence` that is not a number of seconds;
            `tools` that are not names; an unknown `advice`; `interception`, `minimize` or `view_limits` without the extra
            ``policy``; a file of `minimize` that cannot be read or has an invalid rule.
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
        silence: Seconds | None = None,
        confirmed: bool = False,
        tools: Sequence[str] = (),
        advice: Collection[str] = descriptions.ADVICE,
        policy: Policy | None = None,
        interception: bool | Iterable[InterceptionRule] = False,
        minimize: bool | Iterable[str | PathLike[str]] = False,
        view_limits: bool = False,
        ask_each: bool = False,
        effects: bool | Sequence[str] | Scan = False,
        approve: Approve = "command",
    ) -> None:
        silence = check_seconds("silence", silence)
        _check_environment(env)
        if isinstance(advice, str) or not descriptions.ADVICE.issuperset(advice):
            raise AnyshellError(
                f"advice must be a set of {', '.join(sorted(descriptions.ADVICE))}, not {advice!r}"
            )
        if limits is not None and not isinstance(limits, ToolLimits):
            raise AnyshellError(f"limits must be ToolLimits(...), not {type(limits).__name__}")
        if (session or jobs or terminals) and not env.entered:
            raise AnyshellError(
                "a tool with a session, with jobs or with terminals needs 'async with', which stops what it starts: use "
                "'async with Environment.detect() as env'"
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
        # All checks come before the first resource is made: an error leaves nothing to close.
        self._env = env
        self._confirmed = confirmed
        self._tools = names_of(tools)
        self._advice = frozenset(advice)
        self._interception = rules_of(interception)
        self._minimizing = minimizing_of(env, minimize)
        self._view_limits = checked_view_limits(view_limits)
        self._limits = limits or ToolLimits()
        self._tries = Tries(env, approve, session=session, silence=silence, grace=self._limits.grace)
        shared = not (ask_each or self._tries.wanted)
        self._features = ToolFeatures(
            session=session, jobs=jobs, terminals=terminals, widening=can_be_widened(env)
        )
        chosen = policy if policy is not None else env.policy
        self._verdicts = None if chosen is None else verdicts_of(chosen, env)
        self._decisions = Decisions(
            Approvals(approver, timeout=self._limits.approval_timeout, shared=shared),
            verdicts=self._verdicts,
            audit=env.audit,
        )
        self._session = ToolSession(env.session()) if session else None
        self._closed = False
        self._calls = Calls()
        self._silence, self._effects = silence, to_scan(effects)
        self._ledger = Ledger(env.jobs) if jobs else None
        self._secrets = secrets
        self._hidden = Hidden()
        self._terminals = (
            Terminals(env, self._limits, ledger=self._ledger, hidden=self._hidden, console=console)
            if terminals
            else None
        )
        self._context = ToolContext(env, self._limits, self._decisions, self._calls, self._hidden)
        self._results = ResultBuilder(
            self._context,
            session=self._session,
            ledger=self._ledger,
            terminals=self._terminals,
            secrets=secrets is not None,
            effects=self._effects is not None,
        )

    def __repr__(self) -> str:
        features = [name for name in ("session", "jobs", "terminals") if getattr(self._features, name)]
        parts = [*features, "a policy" if self._verdicts else "no policy", "closed" if self._over else "open"]
        return f"<ShellTool of {self._env!r}: {', '.join(parts)}>"

    @property
    def definition(self) -> ToolDefinition:
        """The definition for the model: a name, a description of this host and the limits, and a JSON schema."""
        return self.describe()

    def describe(self, *, sections: Mapping[str, str | None] | None = None) -> ToolDefinition:
        """Return the definition with other texts in its description.

        Args:
            sections: Texts of sections by heading, such as ``Git``. A text replaces the section of the same heading, or
                follows the last section. ``None`` leaves a section out. The first paragraph has an empty heading.
        """
        env = self._env
        features = replace(self._features, terminals=self._features.terminals and env.terminals)
        return ToolDefinition(
            name="shell",
            title="Run a shell command",
            description=descriptions.Description(
                shell=env.shell,
                info=env.info,
                directory=env.directory,
                limits=env.limits,
                timeout=self._limits.default_timeout,
                max_timeout=self._limits.max_timeout,
                kept=env.artifacts is not None,
                addressed=env.runner.addresses.read_kept,
                snapshot=env.snapshot is not None,
                session=self._features.session,
                jobs=self._features.jobs,
                terminals=features.terminals,
                background_after=env.background_after,
                confirmed=self._confirmed,
                tools=self._tools,
                advice=self._advice,
            ).text(sections),
            parameters=schema(
                self._limits, guarded=not env.interactive, features=features, silence=self._silence
            ),
        )

    @property
    def job_tool(self) -> JobTool:
        """The tool ``job``, by which the model controls the jobs of this tool, with terminals or without.

        Raises:
            AnyshellError: This tool was made without ``jobs=True`` and without ``terminals=True``.
        """
        if self._ledger is None and self._terminals is None:
            raise AnyshellError(
                "this tool has no jobs: make it with ShellTool(..., jobs=True), or terminals=True"
            )
        return JobTool(self._context, self._ledger, self._terminals, secrets=self._secrets)

    @property
    def kept(self) -> tuple[str, ...]:
        """The ids of the kept outputs that results have named, the newest last."""
        return tuple(self._context.kept)

    async def aclose(self) -> None:
        """Refuse further commands, and end the tool's session. The end of the environment does the same.

        Running jobs go on, and `job_tool` still works for these jobs; no new job starts.
        A second call does nothing.
        """
        self._closed = True
        if self._terminals is not None:
            self._terminals.closed = True
        if self._session is not None:
            self._session.counted_on = False
            await self._session.session.aclose()
        if self._verdicts is not None:
            await self._verdicts.aclose()

    def cancel(self, call_id: str) -> None:
        """Cancel a call of this tool or of its `job_tool`. The call then returns a result.

        A running command is stopped after the grace, with all processes that it started. The result is ``cancelled``, and
        has the output so far. A call that waits for its turn or for the approver returns at once, without running anything.
        A command that has already ended keeps its outcome. A second `cancel` skips the grace. Call in the event loop.

        Args:
            call_id: The id of the call. An `Update`, an `ApprovalRequest` and the details of a result hold the same id.

        Raises:
            AnyshellError: No call of this id is under way.
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
            params: The model's parameters, unchecked.
            on_update: A callback that is given the end of the output so far, cleaned and bounded, at intervals while the
                command runs. An async callback never delays the command. A blocking callback that is not async holds up
                the event loop, and with the loop the command's deadline. A callback that raised is not called again, and
                no callback is called after the call. Jobs, and environments that were not entered, have no updates.
            call_id: The id for `cancel`, such as the id that the model's interface gives the call. No other call under
                way may have the same id. By default the tool makes an id.

        Returns:
            The result of the call. Wrong parameters, a refusal, a failure and a timeout are results.

        Raises:
            InvalidCommand: `call_id` is empty, or is the id of another call under way.
            asyncio.CancelledError: The calling task was cancelled; the command's whole tree is gone.
        """
        with self._calls.begin(call_id, "shell", params) as ongoing:
            result = await self._call(params, on_update, ongoing)
        return result.model_copy(
            update={"details": result.details.model_copy(update={"call_id": ongoing.id})}
        )

    call = __call__

    async def _call(
        self, params: Mapping[str, object] | ShellParams, on_update: OnUpdate | None, ongoing: Ongoing
    ) -> ShellResult:
        try:
            call = parse(params, self._limits, self._features)
        except InvalidParams as error:
            messages = [words.invalid(str(error))]
            return self._results.make(ShellDetails(status="invalid"), messages, output=None, is_error=True)
        async with contextlib.AsyncExitStack() as turn:
            with ongoing.interruptible():
                await turn.enter_async_context(self._its_turn(call))
            if ongoing.cancelled:
                details = ShellDetails(
                    status="cancelled", timeout=call.timeout, directory=self._results.directory
                )
                return self._results.make(details, [words.UNBEGUN], output=None, is_error=True)
            return await self._carried_out(call, on_update, ongoing)

    @contextlib.asynccontextmanager
    async def _its_turn(self, call: Call) -> AsyncIterator[None]:
        """Hold the session's turn from the approval of a command to its end: a command in between could change its meaning."""
        if self._session is None or call.background or call.pty:
            yield
            return
        async with self._session.turn:
            yield

    @property
    def _over(self) -> bool:
        """Whether the tool or its environment is closed."""
        return self._closed or self._env.closed

    async def _carried_out(self, call: Call, on_update: OnUpdate | None, ongoing: Ongoing) -> ShellResult:
        if self._over:
            details = ShellDetails(status="failed", timeout=call.timeout)
            return self._results.make(details, [words.CLOSED], output=None, is_error=True)
        warn_of_no_sandbox(self._env)
        if call.restart and not call.command.text:
            return await self._restarted(call)
        session = self._session
        run = await prepare(
            call,
            ongoing.id,
            env=self._env,
            session=None if session is None else session.session,
            view_limits=self._view_limits,
        )
        if session is not None and run.request.fresh and session.counted_on and not call.restart:
            return self._gone(run, session)  # the model does not know yet that the shell ended
        if self._interception:
            own = ("job",) if self._ledger is not None and not (call.background or call.pty) else ()
            blocked = intercepted(run.request, self._interception, (*self._tools, *own))
            if blocked is not None:
                told = BlockedCommand(message=blocked.message, tool=blocked.tool, command=blocked.command)
                return self._results.unrun(run, "refused", words.blocked(blocked.message), blocked=told)
        if run.problem is not None:
            return self._results.unrun(run, "failed", words.failed(run.problem))
        async with self._tries.of(
            run.request,
            lambda: run.limits(self._way(run), self._env),
            ongoing.control,
            split_stderr=run.view is not None,
        ) as trying:
            return await self._asked(replace(run, trying=trying), on_update, ongoing)

    async def _asked(self, run: ToolRun, on_update: OnUpdate | None, ongoing: Ongoing) -> ShellResult:
        """Ask for the decision on a call, and run the approved command."""
        call, missing = run.call, ""
        with ongoing.interruptible():
            if call.command.cwd is not None and not run.makes_directory:
                missing = await no_directory(self._env, run.request.directory)
            if not missing:
                decision = await self._decisions.decide(run.request, ongoing, run.trying)
        if ongoing.cancelled:
            return self._results.unrun(run, "cancelled", words.UNBEGUN)
        if missing:
            return self._results.unrun(run, "failed", words.failed(missing))
        if isinstance(decision.answer, Refused):
            return self._results.unrun(run, "refused", words.refused(decision.answer))
        widening = asking_for(run.request, ongoing, env=self._env, decisions=self._decisions)
        with decision.recorded, widening:
            return await self._approved(run, on_update, ongoing)

    async def _approved(self, run: ToolRun, on_update: OnUpdate | None, ongoing: Ongoing) -> ShellResult:
        """Run the approved command, and return its result."""
        call, session = run.call, self._session
        try:
            if call.background and run.request.size is None and self._ledger is None:
                reason = call.no_terminal or terminal_words.NOT_HERE
                return self._results.unrun(run, "failed", terminal_words.none_here(reason))
            if call.background and run.request.size is None:
                return await self._started(run, ongoing)
            return await self._run(run, on_update, ongoing)
        except TerminalUnavailable as error:
            # Without a terminal the command is another one than the approved one: decide anew.
            return await self._carried_out(replace(call, no_terminal=str(error)), on_update, ongoing)
        except AnyshellError as error:
            request = run.request
            if self._over:
                return self._results.unrun(run, "failed", words.CLOSED)
            if session is not None and request.session and not (request.fresh or session.session.alive):
                return self._gone(run, session)
            message = words.failed(error)
            if session is not None and request.restart:
                message += f" {words.restarted(session.tell())}"
            return self._results.unrun(run, "failed", message)

    def _gone(self, run: ToolRun, session: ToolSession) -> ShellResult:
        """Return the result that nothing ran because the session's shell has ended since the last command."""
        session.counted_on = False
        return self._results.unrun(run, "failed", words.gone(session.tell()))

    async def _restarted(self, call: Call) -> ShellResult:
        """Begin a fresh shell without running a command."""
        assert self._session is not None
        await self._session.restart()
        details = ShellDetails(status="restarted", directory=self._results.directory, timeout=call.timeout)
        messages = [words.restarted(self._session.tell())]
        return self._results.make(details, messages, output=None, is_error=False)

    async def _run(self, run: ToolRun, on_update: OnUpdate | None, ongoing: Ongoing) -> ShellResult:
        way = self._way(run)
        if on_update is None or not self._env.entered:
            return await self._shown(run, await self._outcome(run, None, ongoing, way), way)
        interval, limit = self._limits.update_interval, self._limits.update_bytes
        async with Updates(
            on_update,
            call_id=ongoing.id,
            interval=interval,
            limit=limit,
            hide=self._hidden.text,
            code_page=self._env.info.code_page,
        ) as updates:
            became = await self._outcome(run, updates.hear, ongoing, way)
        return await self._shown(run, became, way, updates.error)

    async def _shown(
        self, run: ToolRun, became: Became, way: Minimizable | None, error: BaseException | None = None
    ) -> ShellResult:
        """Return the result of a command, without noise or with only the requested lines of the output."""
        if run.view is not None and isinstance(became, Outcome):
            from .viewing import shown

            became, viewed = await shown(run.view, became, self._env)
            return self._results.finish(run, became, error, viewed=viewed)
        if self._minimizing is None or not isinstance(became, Outcome):
            return self._results.finish(run, became, error)
        became, minimized = await self._minimizing.shown(way, became)
        return self._results.finish(run, became, error, minimized=minimized)

    async def _on_terminal(self, run: ToolRun, listener: Listener | None, ongoing: Ongoing) -> Became:
        """Run the approved command on a terminal until the command ends or waits for input."""
        assert self._terminals is not None
        async with self._terminals.begin(run.request, ongoing.control, listener) as terminal:
            waiting: WaitState = None
            if run.call.background:
                waiting = await terminal.settle(min(REACTION, self._limits.max_wait))
            else:
                waiting = await terminal.driven.wait_for_input(timeout=None)
            if terminal.over or (waiting is None and not run.call.background):
                outcome = await terminal.driven.wait()
                return StoppedByPerson(outcome) if terminal.stopped_by_person else outcome
            view = await terminal.look(self._env.limits, waiting=waiting)
            if ongoing.cancelled:
                return await terminal.driven.wait()
            if view.outcome is not None:
                return StoppedByPerson(view.outcome) if terminal.stopped_by_person else view.outcome
            self._terminals.keep(terminal)
            return terminal, view

    async def _started(self, run: ToolRun, ongoing: Ongoing) -> ShellResult:
        """Start the approved command as a job."""
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
                reach=widened(request),
            )
        if job is None or ongoing.cancelled:
            if job is not None:  # the job started just before the cancellation
                await job.stop()
            return self._results.unrun(run, "cancelled", words.NO_JOB)
        self._ledger.add(job.id, request.directory, description=request.description)
        with ongoing.interruptible(), contextlib.suppress(Exception):  # the job's end is told below, or later
            await job.wait(timeout=FAILS_AT_ONCE)
        if job.outcome is not None and job.outcome.status == "exited":
            return await self._results.over_at_once(run, job, job.outcome)
        messages = [job_words.started(job, sends=request.stdin is None), *run.notices]
        details = run.details("running", started=True, job=job.id, directory=self._results.directory)
        return self._results.make(details, messages, output=None, is_error=False, run=run)

    def _way(self, run: ToolRun) -> Minimizable | None:
        return None if self._minimizing is None else self._minimizing.of(run.request)

    async def _outcome(
        self, run: ToolRun, listener: Listener | None, ongoing: Ongoing, way: Minimizable | None
    ) -> Became:
        """Run the approved command and return its outcome, without making a result."""
        request = run.request
        if request.size is not None:
            return await self._on_terminal(run, listener, ongoing)
        if run.trying is not None and (outcome := await run.trying.commit()) is not None:
            return outcome
        session = self._session if request.session else None
        limits = run.limits(way, self._env)
        left_behind: LeftBehind = "adopt" if self._features.jobs else "stop"
        common: dict[str, Any] = {
            "env": dict(request.env),
            "stdin": request.stdin,
            "timeout": request.timeout,
            "silence": self._silence,
            "grace": self._limits.grace,
            "left_behind": left_behind,
            "listener": listener,
            "split_stderr": run.view is not None,
            "limits": limits,
            "control": ongoing.control,
            "effects": self._effects or False,
        }
        if session is None:
            after: Literal["default"] | None = "default" if self._features.jobs else None
            common |= {"cwd": request.directory, "reach": widened(request)}
            return await self._env.run(request.text, background_after=after, **common)
        if request.restart:
            await session.restart()
        cwd = None if run.call.command.cwd is None else request.directory
        return await session.session.run(request.text, cwd=cwd, may_be_fresh=request.fresh, **common)


def _check_environment(env: object) -> None:
    if not isinstance(env, Environment):
        kind = type(env)
        what = "a blocking one" if kind.__module__ == "anyshell.blocking" else kind.__name__
        raise AnyshellError(
            f"env must be an Environment, not {what}: use 'async with Environment.detect() as env'; with anyshell.connect(), "
            "make an anyshell.blocking.ShellTool"
        )
