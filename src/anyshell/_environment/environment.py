"""An environment: one host, one shell, one directory, and the commands there."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, overload

from .. import _engine, shells
from .._exceptions import InvalidCommand
from .._runner import RunOptions, to_command
from .._stream import Listener, Stream
from .._types import (
    DEFAULT_GRACE,
    READY_SECONDS,
    LeftBehind,
    OutputLimits,
    check_choice,
    check_seconds,
)
from .._waits import to_the_end
from .detection import Detection
from .options import MAX_JOBS, MAX_TERMINALS, EnvironmentOptions, to_redaction
from .trials import EnvironmentTrials

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping, Sequence
    from os import PathLike

    from .._runner.redirects import Stdin, Stdout
    from .._runner.variables import Interactive
    from .._types import Outcome, ProcessInfo, Recording, Scan, Terminal, Variables
    from .._types.checks import Seconds
    from ..abc import Backend, Resolver
    from ..backends import SSHOptions
    from ..detached import DetachedJob
    from ..jobs import Job, Ready
    from ..output import ArtifactStore
    from ..policy.audit import Audit
    from ..policy.redaction import Redaction
    from ..policy.rules import Policy
    from ..reach import Reach, Sandbox
    from ..shells.words import CommandLike


class Environment(EnvironmentTrials):
    """One host with a shell: where commands run and files are.

    Made by `detect`. Entered with ``async with``, it owns what it starts and leaves nothing running behind it.
    """

    @staticmethod
    def detect(
        host_or_backend: str | SSHOptions | Backend | None = None,
        *,
        shell: str | None = None,
        cwd: str | PathLike[str] | None = None,
        interactive: Interactive = False,
        limits: OutputLimits | None = None,
        artifacts: ArtifactStore | Literal["default"] | None = "default",
        snapshot: bool = False,
        prefix: str | None = None,
        max_jobs: int = MAX_JOBS,
        max_terminals: int = MAX_TERMINALS,
        background_after: Seconds | None = None,
        policy: Policy | None = None,
        variables: Variables | None = None,
        redact: bool | Redaction = False,
        audit: Audit | None = None,
        resolvers: Mapping[str, Resolver | None] | None = None,
        reach: Reach | Sandbox | None = None,
    ) -> Detection[Environment]:
        """Find out what a host is and which shell it has.

        Use ``async with Environment.detect() as env:``; awaited instead, the environment offers its facts,
        `run` and `files`, and keeps its connections until `aclose`.

        Args:
            host_or_backend: ``None`` or ``"local"`` for this machine; ``"ssh://[user@]host[:port][/directory]"``, a
                name or alias of ``~/.ssh/config``, or `SSHOptions`, for a host that is reached by SSH; or a
                backend of your own, which stays yours to close.
            shell: A kind (``bash``, ``zsh``, ``sh``, ``pwsh``, ``powershell``, ``wsl``) or a path on the host.
                Otherwise ``ANYSHELL_SHELL``, on this machine alone, then the first of bash and sh that answers; on a
                Windows host of pwsh, powershell and bash.
            cwd: The directory in which commands run; relative to the host's own directory. Default: the process's at this
                moment, locally.
            interactive: Leave the host's pager, editor, prompt, colour and progress variables as they are.
                Otherwise they are set so that nothing hangs waiting for a person. ``"watched"``, for output that a person
                sees as it comes, sets pager, editor and prompts alone, and leaves TERM, CI and colours.
            limits: The limits of an output's text.
            artifacts: The store of whole outputs that were cut; ``None`` keeps nothing.
            snapshot: Start every shell from the user's own set-up: the aliases, functions, options and PATH that the
                shell's startup file makes. Captured when entered or awaited, within bounds, and kept on the host
                until the file changes; of its other variables nothing is taken. Never fails: see `snapshot_notices`.
            prefix: Words that stand before the shell that runs a command, such as ``nice -n 10``: one program and
                its arguments, as the host's ``/bin/sh`` reads them; on a Windows host literal, or between double
                quotes, and no batch file.
            max_jobs: Jobs that run at once, 1 or more; those that take over what a command left behind do not count.
            max_terminals: `terminal`s that are entered at once, 1 or more.
            background_after: Seconds after which a command that `run` waits for goes on as a job, with its own
                deadline; `run` then returns what there is. ``None`` is never. Needs ``async with``.
            policy: Decides what the tools of this environment run, refuse, or ask their approver about. The methods of the
                environment run what they are told: what a program of yours says is not decided on. Its variables hold where
                `variables` is ``None``, and its reach confines every command.
            variables: The host's variables that commands have; ``None`` is all of them. Of another host than this
                machine, it is asked for their names when entered or awaited.
            redact: Mask secrets as ``[secret]`` in all that commands print, before anything is made of it: text, artifacts,
                events, logs of jobs and recordings. ``True`` is `Redaction`'s own choice.
            audit: Record every command that runs here, but for detached jobs: when it was asked for, started and ended.
            resolvers: Say what internal addresses of the caller's own stand for, by their schemes, such as
                ``{"skill": Root(path="/srv/skills")}``: a word ``skill://a.md`` of a command becomes a path. ``None`` as a
                resolver takes ``artifact`` or ``workspace`` away.
            reach: The reach of commands: a `Reach`, such as ``Reach.preset("workspace")``, or a `Sandbox` of
                your own. ``None`` lets them do what their user may. Its `Reach.environment` holds where `variables` is ``None``, and the policy
                has none. Where the policy has a reach, it may be no more than that.

        Raises:
            ReachUnavailable: The host cannot enforce the reach; the message names the missing part.
            ShellNotFound: When entered or awaited: no usable shell.
            InvalidCommand: An unknown kind of shell, a `cwd` that is no directory, or a prefix that is no program or
                names one that the host does not have. Of a number out of range, or an empty `shell` or `cwd`, at once.
            BackendUnavailable: No backend for that host.
            ConnectionFailed: The host cannot be reached, or refuses the login.
            HostKeyUntrusted: Its key is unknown, or not the one that was known.
        """
        if artifacts == "default":
            from ..output import ArtifactStore  # here, since not every environment keeps outputs

            artifacts = ArtifactStore()
        options = EnvironmentOptions(
            shell=shell,
            cwd=os.fspath(cwd) if isinstance(cwd, os.PathLike) else cwd,
            interactive=interactive,
            limits=limits or OutputLimits(),
            artifacts=artifacts,
            snapshot=snapshot,
            prefix=None if prefix is None else shells.Prefix(prefix),
            max_jobs=max_jobs,
            max_terminals=max_terminals,
            background_after=check_seconds("background_after", background_after),
            policy=policy,
            variables=variables,
            redact=to_redaction(redact),
            audit=audit,
            resolvers=resolvers or {},
            reach=reach,
        )
        return Detection(host_or_backend, options, Environment)

    async def run(
        self,
        command: CommandLike,
        *,
        cwd: str | PathLike[str] | None = None,
        env: Mapping[str, str | None] | None = None,
        stdin: Stdin | None = None,
        timeout: Seconds | None = None,
        silence: Seconds | None = None,
        grace: Seconds = DEFAULT_GRACE,
        left_behind: LeftBehind | None = None,
        split_stderr: bool = False,
        stdout: Stdout | None = None,
        listener: Listener | None = None,
        background_after: Seconds | Literal["default"] | None = "default",
        terminal: Terminal | None = None,
        record: str | PathLike[str] | Recording | None = None,
        limits: OutputLimits | None = None,
        effects: bool | Sequence[str] | Scan = False,
        reach: Reach | None = None,
        control: _engine.Control | None = None,
    ) -> Outcome:
        """Run a command in a fresh shell and wait for its end.

        Args:
            command: Text in the shell's own language, of any size; or a list of a program and its arguments, or `sh`, whose words are
                quoted for that shell.
            cwd: The directory in which it runs; relative to `directory`. Must be there.
            env: Variables set over everything else; ``None`` as a value removes one.
            stdin: Its input: bytes, text, a `Path` or an open file on this machine, or bytes as they come; by default
                end-of-file at once.
            timeout: Seconds from now until the whole tree is stopped, or a `timedelta`, here as elsewhere; ``None`` is no bound.
            silence: Seconds without output and without input after which the whole tree is stopped, as by a timeout;
                they count from the start of the program. `Outcome.silence` says that it was this. ``None`` is no bound.
            grace: Seconds between the request to end and the kill; it ends when the tree does.
            left_behind: The fate of processes that outlive the command: ``adopt`` makes a job of them, which
                the outcome names; ``stop`` ends them; ``keep`` lets them go on, their output thrown away from then
                on. They are named in the outcome in any case. Default: ``adopt`` inside ``async with``, ``stop``
                elsewhere.
            split_stderr: Two texts. Otherwise one, in which both channels are in true order.
            stdout: A file on this machine that takes all that the command prints, or with `split_stderr` its stdout: a path, whose file is
                replaced, or a file opened for bytes, which stays open. The outcome has its bounded text all the same.
            listener: Is given every piece of output as it comes, and is awaited: a slow one slows the command down.
                Not called any more when this has returned.
            background_after: Seconds after which it goes on as a job; ``None`` is never, and the default is that of the
                environment.
            terminal: Runs it on a terminal of that size, as a person would. Then `stdin` is what is typed, and ^D after
                it; without it nothing is typed, and what asks for input waits until the time is over, which
                `Outcome.waiting` says. Pager, editor, colour and progress variables are the host's. Both channels
                are one.
            record: A new file on this machine, into which what it prints is recorded, as asciicast; or a `Recording`, which
                says more. `Outcome.recording` says what became of it. Without a terminal it is recorded as one of
                80 columns and 24 rows would show it.
            limits: The limits of its output's text; by default as `Environment.detect` was given.
            effects: Compare the files in `directory`, in these directories, or as a `Scan` says, before the command and after
                it: `Outcome.effects` has what differs, whatever process did it. The two looks are no part of the time.
            reach: Its reach: no more than the environment's own reach allows.
            control: Stops the command from another task; the outcome is then ``cancelled``. One for each run.

        Returns:
            What became of it. A non-zero exit, a timeout and a truncation are values here. With `background_after`,
            ``running`` is one as well.

        Raises:
            InvalidCommand: Bad input, before anything was started; the message names the culprit.
            ReachUnavailable: The host cannot enforce the reach.
            SpawnError: The shell could not be started.
            RecordingError: The file of the recording cannot be made, or there is one already; nothing was started.
            AnyshellError: ``adopt`` where the environment was not entered with ``async with``.
            asyncio.CancelledError: When the calling task is cancelled, after the whole tree is gone.
        """
        request = to_command(command, cwd, env, stdin, kind=self.shell.kind)
        if background_after == "default":
            background_after = self.background_after if self.entered else None
        options = RunOptions(
            timeout=timeout,
            silence=silence,
            grace=grace,
            left_behind=left_behind,
            split_stderr=split_stderr,
            stdout=stdout,
            listener=listener,
            terminal=terminal,
            recording=record,
            background_after=background_after,
            limits=limits,
            effects=None if effects is False else effects,
            reach=reach,
        )
        return await self.runner.run(request, options, control=control)

    @overload
    async def start(
        self,
        command: CommandLike,
        *,
        cwd: str | PathLike[str] | None = None,
        env: Mapping[str, str | None] | None = None,
        stdin: Stdin | None = None,
        timeout: Seconds | None = None,
        silence: Seconds | None = None,
        grace: Seconds = DEFAULT_GRACE,
        ready: Ready | None = None,
        ready_timeout: Seconds | None = READY_SECONDS,
        detach: Literal[False] = False,
        split_stderr: bool = False,
        stdout: Stdout | None = None,
        terminal: Terminal | None = None,
        record: str | PathLike[str] | Recording | None = None,
        reach: Reach | None = None,
    ) -> Job: ...

    @overload
    async def start(
        self,
        command: CommandLike,
        *,
        cwd: str | PathLike[str] | None = None,
        env: Mapping[str, str | None] | None = None,
        detach: Literal[True],
        reach: Reach | None = None,
    ) -> DetachedJob: ...

    async def start(
        self,
        command: CommandLike,
        *,
        cwd: str | PathLike[str] | None = None,
        env: Mapping[str, str | None] | None = None,
        stdin: Stdin | None = None,
        timeout: Seconds | None = None,
        silence: Seconds | None = None,
        grace: Seconds = DEFAULT_GRACE,
        ready: Ready | None = None,
        ready_timeout: Seconds | None = READY_SECONDS,
        detach: bool = False,
        split_stderr: bool = False,
        stdout: Stdout | None = None,
        terminal: Terminal | None = None,
        record: str | PathLike[str] | Recording | None = None,
        reach: Reach | None = None,
    ) -> Job | DetachedJob:
        """Start a command in a fresh shell as a job, which runs until it ends, is stopped, or this scope ends.

        A detached job outlives this scope, this process and the connection, until it ends or is stopped; see
        `DetachedJobs`, which finds it again.

        Args:
            command: Text in the shell's own language, of any size; or a list of a program and its arguments, or `sh`, whose words are
                quoted for that shell.
            cwd: The directory in which it runs; relative to `directory`. Must be there.
            env: Variables set over everything else; ``None`` as a value removes one.
            stdin: Its input, whole or as it comes, and then end-of-file. By default a pipe that stays open for
                `Job.send`; ``b""`` is end-of-file at once.
            timeout: Seconds from now until the whole tree is stopped; ``None`` is no bound.
            silence: As for `run`; what it is sent is input.
            grace: Seconds between the request to end and the kill, also at the end of the scope.
            ready: The event that this waits for: a regular expression that its output matches (as for
                `Job.wait_for`), a TCP port of the host that accepts connections, or a tuple of both.
            ready_timeout: Seconds for that, 0 or more; ``None`` is no bound.
            detach: Let it outlive this program. It reads nothing, has no deadline, and its output is in a file on
                the host: of the other arguments it takes `cwd`, `env` and `reach` alone.
            split_stderr: Two texts in its outcome. `Job.output` has both channels, as they came.
            stdout: As for `run`. What it printed is in the file as it comes; `Job.output` has it as well.
            terminal: Runs it on a terminal of that size, as `run` does. `Job.send` then types; ^D, a character
                of its own, is end-of-file there.
            record: As for `run`.
            reach: As for `run`.

        Returns:
            The job, as soon as its program was started, or is ready. One that is not ready in time goes on, and one
            that ends before is no error here: `Job.ready` and `Job.notice` say so.

        Raises:
            InvalidCommand: Bad input, before anything was started; the message names the culprit.
            SpawnError: The shell could not be started.
            RecordingError: As for `run`.
            AnyshellError: As many jobs as may run do so already; the environment is closed, or was not entered
                with ``async with``.
            asyncio.CancelledError: When the calling task is cancelled, after the whole tree is gone.
        """
        options = RunOptions(
            timeout=timeout,
            silence=silence,
            grace=grace,
            split_stderr=split_stderr,
            stdout=stdout,
            terminal=terminal,
            recording=record,
            reach=reach,
        )
        if detach:
            if options != RunOptions(reach=reach) or (stdin, ready, ready_timeout) != (
                None,
                None,
                READY_SECONDS,
            ):
                raise InvalidCommand(
                    "a detached job takes cwd, env and reach alone: this process does not stay to feed, watch or stop it"
                )
            from ..detached import DetachedJobs  # here and below, since few programs need it

            return await DetachedJobs(self).start(command, cwd=cwd, env=env, reach=reach)
        self.runner.require_entered("start()")
        request = to_command(command, cwd, env, stdin, kind=self.shell.kind)
        return await self.runner.start(
            request,
            options,
            sends=stdin is None,
            ready=ready,
            ready_timeout=check_seconds("ready_timeout", ready_timeout, zero=True),
        )

    def stream(
        self,
        command: CommandLike,
        *,
        by: Literal["lines", "chunks"] = "lines",
        cwd: str | PathLike[str] | None = None,
        env: Mapping[str, str | None] | None = None,
        stdin: Stdin | None = None,
        timeout: Seconds | None = None,
        silence: Seconds | None = None,
        grace: Seconds = DEFAULT_GRACE,
        left_behind: LeftBehind | None = None,
        split_stderr: bool = False,
        stdout: Stdout | None = None,
        terminal: Terminal | None = None,
        record: str | PathLike[str] | Recording | None = None,
        limits: OutputLimits | None = None,
        effects: bool | Sequence[str] | Scan = False,
        reach: Reach | None = None,
    ) -> Stream:
        """Run a command and see its output as it comes.

        ``async with env.stream("make") as events:``, then ``async for event in events``, then
        ``events.outcome``. Leaving early stops the command. A slow reader slows the command down.

        `by` says what an event is: a cleaned line, or a piece of output as it was written. Every other argument
        is that of `run`.

        Raises:
            InvalidCommand: Bad input. What the host must say, such as a missing directory, is raised by the
                first event.
            AnyshellError: The environment was not entered with ``async with``.
        """
        self.runner.require_entered("stream()")
        check_choice("by", by, ("lines", "chunks"))
        request = to_command(command, cwd, env, stdin, kind=self.shell.kind)
        options = RunOptions(
            timeout=timeout,
            silence=silence,
            grace=grace,
            left_behind=left_behind,
            split_stderr=split_stderr,
            stdout=stdout,
            terminal=terminal,
            recording=record,
            limits=limits,
            effects=None if effects is False else effects,
            reach=reach,
        )

        def start(listener: Listener, control: _engine.Control) -> Awaitable[Outcome]:
            return self.runner.run(request, replace(options, listener=listener), control=control)

        return Stream(start, by=by, code_page=self.runner.code_page(terminal))

    async def orphans(self) -> Sequence[ProcessInfo]:
        """Processes on the host whose anyshell was killed before it could stop them."""
        return await self.runner.backend.orphans()

    async def aclose(self) -> None:
        """Start nothing more, stop what runs, and close the connections to the host.

        Leaving ``async with`` does it. What is waited for comes back as ``cancelled``, without a grace; a job is
        stopped with its own. A backend of your own stays open. Closing twice does nothing.
        """
        await to_the_end(self._aclose(), lambda: None)

    async def _aclose(self) -> None:
        await self.runner.aclose()
        await asyncio.gather(*(session.aclose() for session in tuple(self._all_sessions)))
        if self._owns_backend:
            await self.runner.backend.aclose()
