"""An environment: one host, one shell, one directory, and the commands that run there."""

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
    """A host with one shell, in which commands run, and the host's files.

    `detect` makes an environment. Entered with ``async with``, an environment owns the processes that it starts, and stops
    them all when it is left.
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
        """Detect a host's facts and its shell, and make an environment.

        Use ``async with Environment.detect() as env:``. If awaited instead, the environment offers its facts,
        `run` and `files`, and keeps its connections until `aclose`.

        Args:
            host_or_backend: ``None`` or ``"local"`` for this machine; ``"ssh://[user@]host[:port][/directory]"``, a
                name or alias of ``~/.ssh/config``, or `SSHOptions`, for a host that is reached by SSH; or a
                backend of your own, which stays yours to close.
            shell: A kind (``bash``, ``zsh``, ``sh``, ``pwsh``, ``powershell``, ``wsl``) or a path on the host.
                Otherwise ``ANYSHELL_SHELL``, on this machine alone, then the first of bash and sh that answers; on a
                Windows host the first of pwsh, powershell and bash.
            cwd: The working directory of commands; relative to the host's own directory. Default on this machine: the
                present directory of this process.
            interactive: Leave the host's pager, editor, prompt, colour and progress variables unchanged.
                Otherwise anyshell sets these variables, so that no command hangs waiting for a person. ``"watched"``, for
                output that a person sees live, sets only pager, editor and prompts, and leaves TERM, CI and colours.
            limits: The limits of an output's text.
            artifacts: The store of whole outputs whose text was cut; ``None`` keeps no whole output.
            snapshot: Start every shell from the user's own set-up: the aliases, functions, options and PATH that the
                shell's startup file makes, but no other variable. Captured when entered or awaited, within bounds, and
                kept on the host until the file changes. A failure is never raised: see `snapshot_notices`.
            prefix: Words that stand before the shell that runs a command, such as ``nice -n 10``: one program and
                its arguments, as the host's ``/bin/sh`` reads them; on a Windows host literal, or between double
                quotes, and no batch file.
            max_jobs: Jobs that run at once, 1 or more. A job that adopts processes left behind by a command does not count.
            max_terminals: `terminal`s that are entered at once, 1 or more.
            background_after: Seconds after which a command that `run` waits for goes on as a job, with its own
                deadline; `run` then returns the output so far. ``None`` is never. Needs ``async with``.
            policy: The policy that decides whether the tools of this environment run a command, refuse it, or ask their
                approver. The environment's own methods run any command: the policy does not judge calls of your program.
                The policy's variables apply if `variables` is ``None``, and its reach confines every command.
            variables: The host's variables that commands have; ``None`` is all of them. A host other than this
                machine is asked for the names of its variables when entered or awaited.
            redact: Mask secrets as ``[secret]`` in all output of commands, before it becomes text, artifacts,
                events, logs of jobs or recordings. ``True`` is `Redaction`'s own choice.
            audit: Record the request, the start and the end of every command that runs here, except for detached jobs.
            resolvers: The resolvers of the caller's own internal addresses, by scheme, such as
                ``{"skill": Root(path="/srv/skills")}``: a word ``skill://a.md`` of a command becomes a path. ``None`` as a
                resolver removes ``artifact`` or ``workspace``.
            reach: The reach of commands: a `Reach`, such as ``Reach.preset("workspace")``, or a `Sandbox` of
                your own. ``None`` lets commands do anything that their user may. `Reach.environment` applies if neither
                `variables` nor the policy's variables are given. If the policy has a reach, `reach` may not exceed it.

        Raises:
            ReachUnavailable: The host cannot enforce the reach; the message names the missing part.
            ShellNotFound: When entered or awaited: no usable shell.
            InvalidCommand: An unknown kind of shell, a `cwd` that is not a directory, or a prefix that is not a program or
                names a program that the host does not have. A number out of range, or an empty `shell` or `cwd`, is
                refused at once.
            BackendUnavailable: No backend for that host.
            ConnectionFailed: The host cannot be reached, or refuses the login.
            HostKeyUntrusted: The host key is unknown, or differs from the known key.
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
            command: Text in the shell's own language, of any size; or a list of a program and its arguments, or `sh`. The
                words of a list or `sh` are quoted for that shell.
            cwd: The working directory of the command, which must exist; relative to `directory`.
            env: Variables that override all others; ``None`` as a value removes a variable.
            stdin: The command's input: bytes, text, a `Path` or an open file on this machine, or a stream of bytes; by
                default end-of-file at once.
            timeout: Seconds from now until the whole tree is stopped, or a `timedelta`, as everywhere; ``None`` means no bound.
            silence: Seconds without output and without input after which the whole tree is stopped, as by a timeout,
                counted from the start of the program. `Outcome.silence` then has the seconds. ``None`` means no bound.
            grace: Seconds between the request to end and the kill; less if the tree ends earlier.
            left_behind: The fate of processes that outlive the command. ``adopt`` makes a job of the processes, which the
                outcome names; ``stop`` ends the processes; ``keep`` lets the processes run, and discards their further
                output. The outcome names the processes in any case. Default: ``adopt`` inside ``async with``, ``stop``
                elsewhere.
            split_stderr: Whether the outcome has separate texts for stdout and stderr. Otherwise one text has both channels
                in true order.
            stdout: A file on this machine for the command's whole output, or with `split_stderr` for its stdout: a path, whose
                file is replaced, or a file opened for bytes, which stays open. The outcome still has the bounded text.
            listener: An async function that gets every piece of output on arrival. `run` awaits the listener, so a slow
                listener slows the command down. Never called after `run` has returned.
            background_after: Seconds after which the command goes on as a job; ``None`` is never. The default is the
                environment's own value.
            terminal: Run the command on a terminal of that size, as a person would. `stdin` is then typed, followed by ^D.
                Without `stdin` nothing is typed: a program that asks for input waits until the time is over, and
                `Outcome.waiting` describes it. Pager, editor, colour and progress variables are the host's. Both channels
                are one.
            record: A new file on this machine that records the output, as asciicast; or a `Recording`, which has more
                options. `Outcome.recording` has the result. The output of a command without a terminal is recorded
                as on a terminal of 80 columns and 24 rows.
            limits: The limits of the output's text; by default the environment's limits.
            effects: Compare the files in `directory`, in these directories, or as a `Scan` says, before and after the command.
                `Outcome.effects` has the differences, caused by any process. `timeout` does not include the two scans.
            reach: The command's reach, which may not exceed the environment's own reach.
            control: A control that can stop the command from another task; the outcome is then ``cancelled``. Each run needs
                its own control.

        Returns:
            The command's outcome. A non-zero exit, a timeout and a truncation are values, not exceptions. With
            `background_after`, so is the status ``running``.

        Raises:
            InvalidCommand: Bad input, before anything was started; the message names the culprit.
            ReachUnavailable: The host cannot enforce the reach.
            SpawnError: The shell could not be started.
            RecordingError: The file of the recording cannot be made, or exists already; nothing was started.
            AnyshellError: `left_behind` is ``adopt``, and the environment was not entered with ``async with``.
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

        A detached job outlives this scope, this process and the connection, until it ends or is stopped.
        `DetachedJobs` finds a detached job again.

        Args:
            command: Text in the shell's own language, of any size; or a list of a program and its arguments, or `sh`. The
                words of a list or `sh` are quoted for that shell.
            cwd: The working directory of the command, which must exist; relative to `directory`.
            env: Variables that override all others; ``None`` as a value removes a variable.
            stdin: The job's input, whole or as a stream, followed by end-of-file. By default a pipe that stays open for
                `Job.send`; ``b""`` is end-of-file at once.
            timeout: Seconds from now until the whole tree is stopped; ``None`` means no bound.
            silence: As for `run`; data of `Job.send` counts as input.
            grace: Seconds between the request to end and the kill, also at the end of the scope.
            ready: The event that `start` waits for: a regular expression that the job's output matches (as for
                `Job.wait_for`), a TCP port of the host that accepts connections, or a tuple of both.
            ready_timeout: Seconds to wait for `ready`, 0 or more; ``None`` means no bound.
            detach: Let the job outlive this program. A detached job reads no input and has no deadline, and its output is in
                a file on the host. Of the other arguments it takes only `cwd`, `env` and `reach`.
            split_stderr: Whether the outcome has separate texts for stdout and stderr. `Job.output` has both channels in true
                order.
            stdout: As for `run`. The file grows with the output; `Job.output` has the output as well.
            terminal: Run the job on a terminal of that size, as `run` does. `Job.send` then types; the character ^D is
                end-of-file on a terminal.
            record: As for `run`.
            reach: As for `run`.

        Returns:
            The job, as soon as its program was started, or is ready. A job that is not ready in time goes on, and a job
            that ends before is not an error: `Job.ready` and `Job.notice` tell.

        Raises:
            InvalidCommand: Bad input, before anything was started; the message names the culprit.
            SpawnError: The shell could not be started.
            RecordingError: As for `run`.
            AnyshellError: The maximum number of jobs runs already; or the environment is closed, or was not entered
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
                    "a detached job takes only cwd, env and reach: this process may end before the job"
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
        """Run a command and stream its output as events.

        ``async with env.stream("make") as events:``, then ``async for event in events``, then
        ``events.outcome``. Leaving early stops the command. A slow reader slows the command down.

        With ``by="lines"`` an event is a cleaned line, with ``by="chunks"`` a raw piece of output. Every other
        argument is as for `run`.

        Raises:
            InvalidCommand: Bad input. A fault that only the host can report, such as a missing directory, is raised by
                the first event.
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
        """Return the processes on the host whose anyshell was killed before it could stop them."""
        return await self.runner.backend.orphans()

    async def aclose(self) -> None:
        """Close the environment: stop its commands, jobs and sessions, and close the connections to the host.

        Leaving ``async with`` calls `aclose`. A command that `run` waits for ends as ``cancelled``, without a grace; a job is
        stopped with its own grace. A backend of your own stays open. A second call does nothing.
        """
        await to_the_end(self._aclose(), lambda: None)

    async def _aclose(self) -> None:
        await self.runner.aclose()
        await asyncio.gather(*(session.aclose() for session in tuple(self._all_sessions)))
        if self._owns_backend:
            await self.runner.backend.aclose()
