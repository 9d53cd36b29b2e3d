"""The tool itself: a model's parameters in, a `ShellResult` out, whatever happens between."""

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
"""Seconds for which a start in the background waits for an end at once, which is then told."""


class ShellTool:
    """A shell that a model calls: three lines hold always.

    Parameters are bounded. Every run passes the approver, which sees exactly what runs. Every run has a
    deadline, after which nothing of it is left; a job that was given none has the end of the environment.

    Args:
        env: The environment of the commands. Entered with ``async with``, it also gives updates while they do.
        approver: Decides about every command. There is no default: `approve_all` must be a decision.
        limits: The limits of a model's requests.
        session: Whether calls run in one shell that lasts, one after the other, rather than each in a fresh one.
        jobs: Whether commands can run in the background. What a command leaves behind then goes on as a job,
            instead of being stopped, and `job_tool` is to be offered to the model as well.
        terminals: Whether commands can have a terminal. One that waits for input there goes on as a job, and `job_tool` is
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
        advice: What the description advises besides its rules, a set of ``git`` and ``programs``; both by default.
        policy: Decides about every command: one that it allows is not asked about, one that it denies is refused. The
            approver is asked about the others, and about everything that is sent or typed. By default `Environment.policy`.
        interception: Whether a command is blocked that one of `tools`, or `job_tool`, does better, and the model told so:
            ``True`` is by `anyshell.policy.interception.DEFAULTS`, and rules are by these. It needs the extra ``policy``.
        minimize: Whether noise is left out of what a model is shown of a simple command's output, such as progress and a line
            for each test that passed: ``True`` is by the rules that anyshell comes with, and files are of rules that come
            before these. The whole is kept, and the result names it. It needs the extra ``policy``.
        view_limits: Whether a last ``| head -n 5`` or ``| tail -n 5`` of a simple line limits what the model is shown instead
            of what is kept. The approver is asked about the line that then runs. It needs the extra ``policy``.
        ask_each: Whether the approver is asked for each call. By default calls that wait for the same answer share it.
        effects: As for `Environment.run`: the model is told which files a command has changed, less those in the background and on
            a terminal.
        approve: The view of the approver. With ``effects`` a command in a fresh shell first runs on trial (`Environment.trial`), the
            request has what it would do to files, and an approval makes that real.

    Raises:
        AnyshellError: `session`, `jobs` or `terminals` where the environment was not entered with ``async with``;
            `secrets` or `console` without `terminals`; `console` that is no function; `silence` that is no number of
            seconds; `tools` that are no names; `advice` that there is not; `interception`, `minimize` or `view_limits` without
            its extra;
            a file of `minimize` that cannot be read, or with an invalid rule.
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
        # Checked before anything is made: a tool that is refused leaves nothing to close.
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
        """The definition for the model: a name, a description of this host and its limits, and a JSON schema."""
        return self.describe()

    def describe(self, *, sections: Mapping[str, str | None] | None = None) -> ToolDefinition:
        """Make the definition with other words.

        Args:
            sections: Texts for sections of the description by their headings, such as ``Git``: instead of a section that
                there is, or after the last. ``None`` leaves a section out. The first paragraph has an empty heading.
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
        """The tool by which the model looks after the jobs of this one, with terminals or without.

        Raises:
            AnyshellError: There are none: this tool was made without ``jobs=True`` and without ``terminals=True``.
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
        """Run nothing more, and end the tool's session, if it has one. The end of the environment does so as well.

        Its jobs go on, and `job_tool` with them; none is started any more.
        Closing twice does nothing.
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
            call_id: The id for `cancel`, such as the id that the model's interface gives the call; unlike that of every
                other call under way. Without it the call gets one.

        Returns:
            What came of it. Wrong parameters, a refusal, a failure and a timeout are results.

        Raises:
            InvalidCommand: `call_id` is empty, or that of another call under way.
            asyncio.CancelledError: The calling task was cancelled; the whole tree is gone.
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
        """In a session, let nothing run between the approval of a command and the command: it decides what that does."""
        if self._session is None or call.background or call.pty:
            yield
            return
        async with self._session.turn:
            yield

    @property
    def _over(self) -> bool:
        """Whether nothing can run any more."""
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
            return self._gone(run, session)  # the model does not know yet
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
        """Have a call decided on, and run what was approved."""
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
        """Run what was approved, and say what became of it."""
        call, session = run.call, self._session
        try:
            if call.background and run.request.size is None and self._ledger is None:
                reason = call.no_terminal or terminal_words.NOT_HERE
                return self._results.unrun(run, "failed", terminal_words.none_here(reason))
            if call.background and run.request.size is None:
                return await self._started(run, ongoing)
            return await self._run(run, on_update, ongoing)
        except TerminalUnavailable as error:
            # That is another thing to run than what was approved.
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
        """Say that nothing ran because the shell of the session has ended since the last command."""
        session.counted_on = False
        return self._results.unrun(run, "failed", words.gone(session.tell()))

    async def _restarted(self, call: Call) -> ShellResult:
        """Begin a fresh shell, and nothing in it."""
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
        """Say what became of a command, without the noise of its output, or the lines that were not asked for."""
        if run.view is not None and isinstance(became, Outcome):
            from .viewing import shown

            became, viewed = await shown(run.view, became, self._env)
            return self._results.finish(run, became, error, viewed=viewed)
        if self._minimizing is None or not isinstance(became, Outcome):
            return self._results.finish(run, became, error)
        became, minimized = await self._minimizing.shown(way, became)
        return self._results.finish(run, became, error, minimized=minimized)

    async def _on_terminal(self, run: ToolRun, listener: Listener | None, ongoing: Ongoing) -> Became:
        """Run what was approved on a terminal, until it ends or waits for input."""
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
                reach=widened(request),
            )
        if job is None or ongoing.cancelled:
            if job is not None:  # it was there the moment before
                await job.stop()
            return self._results.unrun(run, "cancelled", words.NO_JOB)
        self._ledger.add(job.id, request.directory, description=request.description)
        with ongoing.interruptible(), contextlib.suppress(Exception):  # how it ended is told below, or later
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
        """Run what was approved, and nothing else."""
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
