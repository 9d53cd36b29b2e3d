"""An environment: one host, one shell, one directory, and what can be run there."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Literal, get_args, overload

import anyio

from . import _descriptions, _engine, shells
from ._exceptions import AnyshellError, InvalidCommand
from ._files import HostFiles
from ._snapshot import SnapshotFile, ensure
from ._stream import Listener, Stream
from ._types import (
    Command,
    HostInfo,
    LeftBehind,
    Outcome,
    OutputLimits,
    Recording,
    ShellInfo,
    Spawn,
    Terminal,
    check_choice,
    check_count,
    check_seconds,
    check_text,
    cut_name,
    to_recording,
)
from ._variables import (
    ASK_FOR_UTF8,
    NON_INTERACTIVE,
    NON_INTERACTIVE_ON_WINDOWS,
    OF_ANOTHER_TERMINAL,
    REMOVED,
    ask_for_utf8,
)
from ._waits import outlast, to_the_end
from .backends import SSHOptions, connect, here
from .detached import DetachedJobs
from .jobs import MAX_JOBS, READY_SECONDS, Adopting, Jobs, Work
from .output import ArtifactStore, OutputBuilder, TerminalOutput, check_scrollback
from .session import Session
from .terminal import Controller, DrivenTerminal

if TYPE_CHECKING:
    from collections.abc import (
        AsyncIterable,
        Awaitable,
        Callable,
        Coroutine,
        Generator,
        Iterator,
        Mapping,
        Sequence,
    )
    from os import PathLike
    from types import TracebackType

    from ._types import Channel, OperatingSystem, ProcessInfo
    from .abc import Backend, Spawner
    from .detached import DetachedJob
    from .jobs import Job, Ready
    from .output import OutputLog
    from .output.text.builder import Builder, Store
    from .recordings.recorder import Recorder

CLOSE_SECONDS = 5.0
"""Seconds for which leaving an environment waits for the stop of its commands; the backend then ends what remains."""

MAX_NAMED_SESSIONS = 256
"""Sessions with a name in one environment; one more is an error."""

MAX_TERMINALS = 16
"""Driven terminals in one environment, unless `Environment.detect(max_terminals=)` says otherwise; one more is an error."""

GRACE = 2.0
"""Seconds between the request to end and the kill, after a timeout or a cancellation, by default; less if the tree ends."""


class Environment:
    """One host with a shell: where commands run and files are.

    Made by `detect`. Entered with ``async with``, it owns what it starts and leaves nothing running behind it.
    """

    def __init__(
        self,
        backend: Backend,
        info: HostInfo,
        shell: ShellInfo,
        *,
        directory: str,
        interactive: bool,
        limits: OutputLimits,
        artifacts: ArtifactStore | None,
        owns_backend: bool,
        prefix: shells.Prefix | None = None,
        snapshot: SnapshotFile | None = None,
        max_jobs: int,
        background_after: float | None,
        max_terminals: int = MAX_TERMINALS,
        terminals: bool = True,
    ) -> None:
        self._owns_backend = owns_backend
        self._backend = backend
        self._info = info
        self._shell = shell
        self._directory = directory
        self._interactive = interactive
        self._limits = limits
        self._artifacts = artifacts
        self._prefix = prefix
        self._snapshot = snapshot
        self._entered = False
        self._closed = False
        self._running: set[_engine.Control] = set()
        self._idle = asyncio.Event()
        self._sessions: dict[str, Session] = {}
        self._all_sessions: set[Session] = set()
        self._offers_terminals = terminals
        self._max_terminals = max_terminals
        self._terminals = 0
        self._variables = _settings(info, shell, interactive=interactive)
        self._unset = _unset(shell, interactive=interactive)
        self._unset_on_terminal = _unset(shell, interactive=True) | OF_ANOTHER_TERMINAL
        self._files = HostFiles(backend.files, info, directory, here=here())
        self._background_after = background_after
        self._jobs = Jobs(
            builder=lambda log: self._builder(self._whole(log)),
            connects=lambda port: backend.connects(port),
            store=artifacts,
            max_jobs=max_jobs,
            code_page=info.code_page,
        )

    @staticmethod
    def detect(
        host_or_backend: str | SSHOptions | Backend | None = None,
        *,
        shell: str | None = None,
        cwd: str | PathLike[str] | None = None,
        interactive: bool = False,
        limits: OutputLimits | None = None,
        artifacts: ArtifactStore | Literal["default"] | None = "default",
        snapshot: bool = False,
        prefix: str | None = None,
        max_jobs: int = MAX_JOBS,
        max_terminals: int = MAX_TERMINALS,
        background_after: float | None = None,
    ) -> Detection:
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
            cwd: Where commands run; relative to the host's own directory. Default: the process's at this
                moment, locally.
            interactive: Leave the host's pager, editor, prompt, colour and progress variables as they are.
                Otherwise they are set so that nothing hangs waiting for a person.
            limits: How much of an output becomes text.
            artifacts: Where the whole of a bounded output is kept; ``None`` keeps nothing.
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

        Raises:
            ShellNotFound: When entered or awaited: no usable shell.
            InvalidCommand: An unknown kind of shell, a directory that is none, or a prefix that is no program or
                names one that the host does not have. Of a number out of range, or an empty `shell` or `cwd`, at once.
            BackendUnavailable: No backend for that host.
            ConnectionFailed: The host cannot be reached, or does not let us in.
            HostKeyUntrusted: Its key is unknown, or not the one that was known.
        """
        check_count("max_jobs", max_jobs)
        check_count("max_terminals", max_terminals)
        check_seconds("background_after", background_after)
        for name, value in (("shell", shell), ("cwd", cwd)):
            if value == "":
                raise InvalidCommand(f"{name} is empty: leave it out for the default")
        return Detection(
            host_or_backend,
            shell=shell,
            cwd=cwd,
            interactive=interactive,
            limits=limits or OutputLimits(),
            artifacts=ArtifactStore() if artifacts == "default" else artifacts,
            snapshot=snapshot,
            prefix=None if prefix is None else shells.Prefix(prefix),
            max_jobs=max_jobs,
            max_terminals=max_terminals,
            background_after=background_after,
        )

    @property
    def info(self) -> HostInfo:
        """Everything that is known of the host."""
        return self._info

    @property
    def os(self) -> OperatingSystem:
        """The host's system: ``linux``, ``macos`` or ``windows``."""
        return self._info.os

    @property
    def arch(self) -> str:
        """The host's architecture, such as ``x86_64``."""
        return self._info.arch

    @property
    def shell(self) -> ShellInfo:
        """The shell that runs commands: its kind, path and version."""
        return self._shell

    @property
    def host(self) -> str:
        """What a person calls the host."""
        return self._backend.name

    @property
    def directory(self) -> str:
        """Where commands run that do not say otherwise; absolute, on the host."""
        return self._directory

    @property
    def closed(self) -> bool:
        """Whether it was closed, and starts nothing more."""
        return self._closed

    @property
    def entered(self) -> bool:
        """Whether it was entered with ``async with``, and so may own what it starts."""
        return self._entered

    @property
    def interactive(self) -> bool:
        """Whether the host's pager, editor, prompt, colour and progress variables are left as they are."""
        return self._interactive

    @property
    def limits(self) -> OutputLimits:
        """How much of an output becomes text."""
        return self._limits

    @property
    def artifacts(self) -> ArtifactStore | None:
        """Where the whole of a bounded output is kept; ``None`` when it is not."""
        return self._artifacts

    @property
    def prefix(self) -> str | None:
        """The words that stand before the shell that runs a command."""
        return None if self._prefix is None else self._prefix.text

    @property
    def terminals(self) -> bool:
        """Whether commands may be given a terminal here: false where ``ANYSHELL_NO_PTY`` was set when it was detected.

        It is for whoever offers terminals to others, as the tool and the command line do. A host can still refuse one,
        and what is asked for by `terminal` or ``terminal=`` is tried in any case.
        """
        return self._offers_terminals

    @property
    def snapshot(self) -> str | None:
        """The file on the host that every shell reads first; ``None`` when there is none, asked for or not."""
        return None if self._snapshot is None else self._snapshot.path

    @property
    def snapshot_notices(self) -> tuple[str, ...]:
        """What a person should know of the set-up that was asked for, one sentence each: what failed, what is left out.

        Not for models.
        """
        return () if self._snapshot is None else self._snapshot.notices

    @property
    def files(self) -> HostFiles:
        """The host's files."""
        return self._files

    @property
    def jobs(self) -> Jobs:
        """What runs in the background here, and what ended lately."""
        return self._jobs

    @property
    def background_after(self) -> float | None:
        """Seconds after which a command that `run` waits for goes on as a job; ``None`` is never."""
        return self._background_after

    @property
    def description(self) -> str:
        """What a model should know of this host's shell: the description that belongs to it, filled in."""
        return _descriptions.describe(
            shell=self._shell,
            info=self._info,
            directory=self._directory,
            limits=self._limits,
            kept=self._artifacts is not None,
            snapshot=self.snapshot is not None,
        )

    async def run(
        self,
        command: str,
        *,
        cwd: str | PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes | str | AsyncIterable[bytes] | None = None,
        timeout: float | None = None,
        silence: float | None = None,
        grace: float = GRACE,
        left_behind: LeftBehind | None = None,
        split_stderr: bool = False,
        listener: Listener | None = None,
        background_after: float | Literal["default"] | None = "default",
        terminal: Terminal | None = None,
        record: str | PathLike[str] | Recording | None = None,
        control: _engine.Control | None = None,
    ) -> Outcome:
        """Run a command in a fresh shell and wait for its end.

        Args:
            command: Text in the shell's own language, of any size.
            cwd: Where it runs; relative to `directory`. Must be there.
            env: Variables set over everything else.
            stdin: What it reads, whole or as it comes; by default end-of-file at once.
            timeout: Seconds from now until the whole tree is stopped; ``None`` is no bound.
            silence: Seconds without output and without input after which the whole tree is stopped, as by a timeout;
                they count from the start of the program. `Outcome.silence` says that it was this. ``None`` is no bound.
            grace: Seconds between the request to end and the kill; it ends when the tree does.
            left_behind: What becomes of processes that outlive the command: ``adopt`` makes a job of them, which
                the outcome names; ``stop`` ends them; ``keep`` lets them go on, their output thrown away from then
                on. They are named in the outcome in any case. Default: ``adopt`` inside ``async with``, ``stop``
                elsewhere.
            split_stderr: Two texts. Otherwise one, in which both channels are in true order.
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
            control: Stops the command from another task; the outcome is then ``cancelled``, with what was printed. One
                for each run.

        Returns:
            What became of it. A non-zero exit, a timeout and a truncation are values here. With `background_after`,
            ``running`` is one as well.

        Raises:
            InvalidCommand: Bad input, before anything was started; the message names the culprit.
            SpawnError: The shell could not be started.
            RecordingError: The file of the recording cannot be made, or there is one already; nothing was started.
            AnyshellError: ``adopt`` where the environment was not entered with ``async with``.
            asyncio.CancelledError: When the calling task is cancelled, after the whole tree is gone.
        """
        request = _request(command, cwd, env, stdin)
        _check_terminal(terminal, split_stderr=split_stderr)
        recording = to_recording(record)
        if background_after == "default":
            background_after = self._background_after if self._entered else None
        if background_after is not None:
            self._require_entered("run(background_after=...)")
            check_seconds("background_after", background_after)
            return await self._run_for_a_while(
                request,
                timeout=timeout,
                silence=silence,
                grace=grace,
                left_behind=left_behind,
                split_stderr=split_stderr,
                listener=listener,
                background_after=background_after,
                control=control,
                terminal=terminal,
                recording=recording,
            )
        return await self._run(
            request,
            timeout=timeout,
            silence=silence,
            grace=grace,
            left_behind=left_behind,
            split_stderr=split_stderr,
            listener=listener,
            control=control,
            terminal=terminal,
            recording=recording,
        )

    @overload
    async def start(
        self,
        command: str,
        *,
        cwd: str | PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes | str | AsyncIterable[bytes] | None = None,
        timeout: float | None = None,
        silence: float | None = None,
        grace: float = GRACE,
        ready: Ready | None = None,
        ready_timeout: float | None = READY_SECONDS,
        detach: Literal[False] = False,
        split_stderr: bool = False,
        terminal: Terminal | None = None,
        record: str | PathLike[str] | Recording | None = None,
    ) -> Job: ...

    @overload
    async def start(
        self,
        command: str,
        *,
        cwd: str | PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        detach: Literal[True],
    ) -> DetachedJob: ...

    async def start(
        self,
        command: str,
        *,
        cwd: str | PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes | str | AsyncIterable[bytes] | None = None,
        timeout: float | None = None,
        silence: float | None = None,
        grace: float = GRACE,
        ready: Ready | None = None,
        ready_timeout: float | None = READY_SECONDS,
        detach: bool = False,
        split_stderr: bool = False,
        terminal: Terminal | None = None,
        record: str | PathLike[str] | Recording | None = None,
    ) -> Job | DetachedJob:
        """Start a command in a fresh shell as a job, which runs until it ends, is stopped, or this scope ends.

        A detached job outlives this scope, this process and the connection, until it ends or is stopped; see
        `DetachedJobs`, which finds it again.

        Args:
            command: Text in the shell's own language, of any size.
            cwd: Where it runs; relative to `directory`. Must be there.
            env: Variables set over everything else.
            stdin: What it reads, whole or as it comes, and then end-of-file. By default a pipe that stays open for
                `Job.send`; ``b""`` is end-of-file at once.
            timeout: Seconds from now until the whole tree is stopped; ``None`` is no bound.
            silence: As for `run`; what it is sent is input.
            grace: Seconds between the request to end and the kill, also at the end of the scope.
            ready: What it must have done before this returns: a regular expression that its output matches (as for
                `Job.wait_for`), a TCP port of the host that accepts connections, or a tuple of both.
            ready_timeout: Seconds for that, 0 or more; ``None`` is no bound.
            detach: Let it outlive everything of ours. It reads nothing, has no deadline, and its output is in a file on
                the host: of the other arguments it takes `cwd` and `env` alone.
            split_stderr: Two texts in its outcome. `Job.output` has both channels, as they came.
            terminal: Runs it on a terminal of that size, as `run` does. `Job.send` then types; ^D, a character
                of its own, is end-of-file there.
            record: As for `run`.

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
        if detach:
            given = (stdin, timeout, silence, grace, ready, ready_timeout, terminal, record, split_stderr)
            if given != (None, None, None, GRACE, None, READY_SECONDS, None, None, False):
                raise InvalidCommand(
                    "a detached job takes cwd and env alone: nobody of ours is there to feed, watch or stop it"
                )
            return await DetachedJobs(self).start(command, cwd=cwd, env=env)
        self._require_entered("start()")
        request = _request(command, cwd, env, stdin)
        _check_terminal(terminal, split_stderr=split_stderr)
        recording = to_recording(record)
        self._check(timeout, silence, grace)
        spawn = self._spawn(request, split_stderr=split_stderr, terminal=terminal)
        if stdin is None:
            spawn = replace(spawn, stdin=True)

        def run(work: Work) -> Coroutine[object, object, Outcome]:
            store = self._artifacts if split_stderr else self._whole(work.log)
            controller = self._controller(terminal, store)
            recorder = self._recorder(recording, terminal, controller)
            return self._perform(
                request,
                timeout=timeout,
                silence=silence,
                grace=grace,
                left_behind="adopt",
                split_stderr=split_stderr,
                listener=work.hear,
                control=work.control,
                spawner=work.watch(self._before(controller, recorder)),
                spawn=spawn,
                store=store,
                controller=controller,
                recorder=recorder,
            )

        return await self._jobs.start(
            command, run, sends=stdin is None, grace=grace, ready=ready, ready_timeout=ready_timeout
        )

    def stream(
        self,
        command: str,
        *,
        by: Literal["lines", "chunks"] = "lines",
        cwd: str | PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes | str | AsyncIterable[bytes] | None = None,
        timeout: float | None = None,
        silence: float | None = None,
        grace: float = GRACE,
        left_behind: LeftBehind | None = None,
        split_stderr: bool = False,
        terminal: Terminal | None = None,
        record: str | PathLike[str] | Recording | None = None,
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
        self._require_entered("stream()")
        check_choice("by", by, ("lines", "chunks"))
        request = _request(command, cwd, env, stdin)
        _check_terminal(terminal, split_stderr=split_stderr)
        recording = to_recording(record)

        def start(listener: Listener, control: _engine.Control) -> Awaitable[Outcome]:
            return self._run(
                request,
                timeout=timeout,
                silence=silence,
                grace=grace,
                left_behind=left_behind,
                split_stderr=split_stderr,
                listener=listener,
                control=control,
                terminal=terminal,
                recording=recording,
            )

        return Stream(start, by=by, code_page=self._code_page(terminal))

    def terminal(
        self,
        command: str,
        *,
        columns: int = 80,
        rows: int = 24,
        term: str = "xterm-256color",
        cwd: str | PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
        silence: float | None = None,
        grace: float = GRACE,
        left_behind: LeftBehind = "adopt",
        listener: Listener | None = None,
        answers: bool = True,
        scrollback: int | None = None,
        record: str | PathLike[str] | Recording | None = None,
        control: _engine.Control | None = None,
    ) -> DrivenTerminal:
        r"""Give a program a terminal, and drive it: type, read its screen, wait for what it shows.

        ``async with env.terminal("python3 -i") as t:``, then ``await t.expect(">>> ")`` and ``await t.send("6*7\r")``.
        Leaving it stops the program. Variables are those of a command that is run on a terminal.

        Args:
            command: Text in the shell's own language, of any size.
            columns: 2 to 1,000; `DrivenTerminal.resize` changes it.
            rows: 2 to 1,000.
            term: What it is like, as `Terminal` says.
            cwd: Where it runs; relative to `directory`. Must be there.
            env: Variables set over everything else.
            timeout: Seconds from when it is entered until the whole tree is stopped; ``None`` is no bound.
            silence: As for `run`; what is typed is input.
            grace: Seconds between the request to end and the kill, also when it is left.
            left_behind: What becomes of processes that outlive the command, as for `run`.
            listener: Is given every piece of output as it comes, without secrets, and is awaited: a slow one slows the
                program down.
            answers: Whether programs that ask the terminal what it is, or where its cursor stands, are answered.
            scrollback: For whoever shows it to a person, as `anyshell.console.Console` does: colours are kept, and so many
                rows that have left the screen at its top, 0 to 10,000; and a program that asks for kitty's keyboard
                protocol gets it. ``None`` keeps neither, which takes less time for each byte.
            record: As for `run`. Secrets that are typed by `DrivenTerminal.send_secret`, or hidden, are masked there too.
            control: As for `run`.

        Raises:
            InvalidCommand: Bad input. What the host must say, such as a missing directory, is raised when it is entered.
            AnyshellError: The environment was not entered with ``async with``. When it is entered: as many terminals as
                may be are there already.
        """
        self._require_entered("terminal()")
        size = Terminal(columns=columns, rows=rows, term=term)
        request = _request(command, cwd, env, None)
        recording = to_recording(record)
        self._check(timeout, silence, grace)
        self._choose(left_behind)
        if listener is not None and not callable(listener):
            raise InvalidCommand(f"listener must be an async function, not {type(listener).__name__}")
        if scrollback is not None:
            check_scrollback(scrollback)
        controller = Controller(
            partial(self._terminal_output, size, self._artifacts, answers=answers, scrollback=scrollback),
            tells=self._tells,
        )

        async def run(hear: Listener, control: _engine.Control, size: Terminal) -> Outcome:
            if self._terminals >= self._max_terminals:
                raise AnyshellError(
                    f"as many terminals run already as may, {self._max_terminals}: leave one of them, or raise max_terminals="
                )
            self._terminals += 1
            try:
                return await self._run(
                    request,
                    timeout=timeout,
                    silence=silence,
                    grace=grace,
                    left_behind=left_behind,
                    split_stderr=False,
                    listener=hear,
                    control=control,
                    terminal=size,
                    controller=controller,
                    recording=recording,
                )
            finally:
                self._terminals -= 1

        return DrivenTerminal(
            run,
            controller,
            command=command,
            host=self.host,
            terminal=size,
            listener=listener,
            shows=scrollback is not None,
            control=control,
        )

    def session(
        self,
        name: str | None = None,
        *,
        cwd: str | PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Session:
        """Give a shell that lasts: directory, variables and functions go from one command to the next.

        ``async with env.session() as session:``, then ``await session.run(...)``. Leaving it ends the shell, unless it
        has a name: then it is shared by that, and lasts until it is closed, unused for long, or the environment ends.

        Args:
            name: What it is shared by.
            cwd: Where it begins; relative to `directory`. Counts when the session is made.
            env: Variables that it begins with. Counts when the session is made.

        Raises:
            InvalidCommand: Bad input, or too many sessions with names.
            AnyshellError: The environment was not entered with ``async with``.
        """
        self._require_entered("session()")
        if name is not None:
            check_text("the name of a session", name)
            if (session := self._sessions.get(name)) is not None:
                return session
            if len(self._sessions) >= MAX_NAMED_SESSIONS:
                raise InvalidCommand(
                    f"there are {MAX_NAMED_SESSIONS} sessions with names already; close one of them"
                )
        request = _request("", cwd, env, None)
        _check_reserved(request.env)
        session = Session(
            self._backend,
            self._shell,
            replace(self._spawn(request, split_stderr=True), script=None),
            prefix=self._prefix,
            snapshot=self.snapshot,
            name=name,
            place=self._place,
            execute=self._run_in_session,
            on_closed=self._forget_session,
        )
        self._all_sessions.add(session)
        if name is not None:
            self._sessions[name] = session
        return session

    def _forget_session(self, session: Session) -> None:
        self._all_sessions.discard(session)
        if session.name is not None and self._sessions.get(session.name) is session:
            del self._sessions[session.name]

    async def _place(self, path: str, base: str) -> str:
        directory = self._info.resolve(path, base)
        await _check_directory(self._backend, directory)
        return directory

    async def _run_in_session(
        self,
        turn: Spawner,
        command: str,
        *,
        cwd: str | PathLike[str] | None,
        env: Mapping[str, str] | None,
        stdin: bytes | str | AsyncIterable[bytes] | None,
        timeout: float | None,
        silence: float | None,
        grace: float,
        left_behind: LeftBehind | None,
        split_stderr: bool,
        listener: Listener | None,
        control: _engine.Control,
        record: str | PathLike[str] | Recording | None,
    ) -> Outcome:
        request = _request(command, cwd, env, stdin)
        _check_reserved(request.env)
        recording = to_recording(record)
        spawn = Spawn(
            argv=(),
            script=request.text,
            cwd=request.cwd or "",
            env=request.env,
            stdin=request.stdin is not None,
            split_stderr=split_stderr,
        )
        return await self._run(
            request,
            spawn=spawn,
            spawner=turn,
            timeout=timeout,
            silence=silence,
            grace=grace,
            left_behind=left_behind,
            split_stderr=split_stderr,
            listener=listener,
            control=control,
            recording=recording,
        )

    async def orphans(self) -> Sequence[ProcessInfo]:
        """Processes on the host whose anyshell was killed before it could stop them."""
        return await self._backend.orphans()

    async def _run(
        self,
        request: Command,
        *,
        timeout: float | None,
        silence: float | None,
        grace: float,
        left_behind: LeftBehind | None,
        split_stderr: bool,
        listener: Listener | None = None,
        control: _engine.Control | None = None,
        spawner: Spawner | None = None,
        spawn: Spawn | None = None,
        terminal: Terminal | None = None,
        controller: Controller | None = None,
        recording: Recording | None = None,
    ) -> Outcome:
        """Run a command that somebody waits for.

        Args:
            request: What is asked for.
            timeout: As for `run`, and so are the next four.
            silence: See above.
            grace: See above.
            left_behind: See above.
            split_stderr: See above.
            listener: Hears every piece of output.
            control: Ends the run early.
            spawner: What starts the program instead of the backend.
            spawn: What it starts instead of a fresh shell with the text of `request`.
            terminal: What it runs on.
            controller: What stands before it there, if somebody drives it.
            recording: Into what it is recorded.
        """
        left_behind = self._choose(left_behind)
        self._check(timeout, silence, grace)
        control = control or _engine.Control()
        controller = controller or self._controller(terminal, self._artifacts)
        recorder = self._recorder(recording, terminal, controller)
        with self._awaited(control):
            return await self._perform(
                request,
                timeout=timeout,
                silence=silence,
                grace=grace,
                left_behind=left_behind,
                split_stderr=split_stderr,
                listener=listener,
                control=control,
                spawner=self._before(controller, recorder, spawner),
                spawn=spawn or self._spawn(request, split_stderr=split_stderr, terminal=terminal),
                store=self._artifacts,
                controller=controller,
                recorder=recorder,
            )

    async def _run_for_a_while(
        self,
        request: Command,
        *,
        timeout: float | None,
        silence: float | None,
        grace: float,
        left_behind: LeftBehind | None,
        split_stderr: bool,
        listener: Listener | None,
        background_after: float,
        control: _engine.Control | None,
        terminal: Terminal | None,
        recording: Recording | None,
    ) -> Outcome:
        """Run a command that somebody waits for, and make a job of it when that takes too long."""
        left_behind = self._choose(left_behind)
        self._check(timeout, silence, grace)
        began = time.monotonic()
        work = Work(self._artifacts, control=control, code_page=self._code_page(terminal))
        channels: tuple[Channel, ...] = ("stdout", "stderr") if split_stderr else ("stdout",)
        so_far = {channel: self._builder(None, terminal) for channel in channels}
        store = self._artifacts if split_stderr else self._whole(work.log)
        controller = self._controller(terminal, store)
        recorder = self._recorder(recording, terminal, controller)

        async def hear(channel: Channel, data: bytes) -> None:
            await work.hear(channel, data)
            if so_far:
                so_far[channel].feed(data)
                if listener is not None:
                    await listener(channel, data)

        work.begin(
            self._perform(
                request,
                timeout=timeout,
                silence=silence,
                grace=grace,
                left_behind=left_behind,
                split_stderr=split_stderr,
                listener=hear,
                control=work.control,
                spawner=work.watch(self._before(controller, recorder)),
                spawn=self._spawn(request, split_stderr=split_stderr, terminal=terminal),
                store=store,
                controller=controller,
                recorder=recorder,
            )
        )
        with self._awaited(work.control):
            try:
                while not work.task.done():
                    await asyncio.wait([work.task], timeout=background_after)
                    if self._jobs.has_room and not self._closed and not work.control.requested:
                        break  # otherwise it is waited for: nothing that is asked for is dropped
            except asyncio.CancelledError:
                work.task.cancel()
                await outlast(work.task, work.task.cancel)
                work.log.discard()
                raise
        if work.task.done():
            work.log.discard()
            return work.task.result()
        job = self._jobs.take(request.text, work, grace)
        outputs = {channel: builder.finish() for channel, builder in so_far.items()}
        so_far.clear()
        return Outcome(
            status="running",
            output=outputs["stdout"],
            stderr=outputs.get("stderr"),
            duration=time.monotonic() - began,
            started=work.begun.done(),
            job=job.id,
        )

    async def _perform(
        self,
        request: Command,
        *,
        timeout: float | None,
        silence: float | None,
        grace: float,
        left_behind: LeftBehind,
        split_stderr: bool,
        listener: Listener | None,
        control: _engine.Control,
        spawner: Spawner,
        spawn: Spawn,
        store: Store | None,
        controller: Controller | None = None,
        recorder: Recorder | None = None,
    ) -> Outcome:
        adopting = None
        if left_behind == "adopt":
            spawner = adopting = Adopting(spawner, partial(self._jobs.adopt, command=request.text))
        output: Builder = self._builder(store) if controller is None else controller.output
        stderr = self._builder(self._artifacts) if split_stderr else None
        if recorder is not None:
            output = recorder.builder(output, "stdout")
            stderr = None if stderr is None else recorder.builder(stderr, "stderr")
            listener = recorder.listener(listener)
        watching = contextlib.nullcontext() if controller is None else controller.watched(timeout, silence)
        if controller is not None:
            controller.on_typed = control.touch
        try:
            if recorder is not None:
                await recorder.begin()
            with watching:
                outcome = await _engine.run(
                    spawner,
                    spawn,
                    output=output,
                    stderr=stderr,
                    stdin=request.stdin,
                    timeout=timeout,
                    silence=silence,
                    grace=grace,
                    left_behind=left_behind,
                    listener=listener,
                    control=control,
                )
        except BaseException:
            if recorder is not None:
                await recorder.abandon()
            raise
        if recorder is not None:
            outcome = replace(outcome, recording=await recorder.end(outcome))
        if controller is not None and controller.process is not None:
            waiting = controller.waiting if outcome.status == "timed_out" else None
            outcome = replace(outcome, waiting=waiting, terminal=controller.process.terminal_kind)
        if adopting is not None and adopting.job is not None:
            outcome = replace(outcome, job=adopting.job.id)
        return outcome

    def _choose(self, left_behind: LeftBehind | None) -> LeftBehind:
        if left_behind is None:
            return "adopt" if self._entered else "stop"
        check_choice("left_behind", left_behind, get_args(LeftBehind))
        if left_behind == "adopt" and not self._entered:
            raise AnyshellError(
                "left_behind='adopt' makes a job, which somebody must stop: "
                "use 'async with Environment.detect() as env'"
            )
        return left_behind

    def _check(self, timeout: float | None, silence: float | None, grace: float) -> None:
        check_seconds("timeout", timeout)
        check_seconds("silence", silence)
        check_seconds("grace", grace, zero=True, none=False)
        if self._closed:
            raise AnyshellError("this environment is closed: it starts nothing more")

    @contextlib.contextmanager
    def _awaited(self, control: _engine.Control) -> Iterator[None]:
        """Have a run ended at once when the environment is closed: somebody waits for it."""
        self._running.add(control)
        try:
            yield
        finally:
            self._running.discard(control)
            if self._closed:
                self._idle.set()

    async def aclose(self) -> None:
        """Start nothing more, stop what runs, and close the connections to the host.

        Leaving ``async with`` does it. What is waited for comes back as ``cancelled``, without a grace; a job is
        stopped with its own. A backend of your own stays open. Closing twice does nothing.
        """
        await to_the_end(self._aclose(), lambda: None)

    async def _aclose(self) -> None:
        self._closed = True
        for control in self._running:
            control.cancel()
            control.cancel()
        with anyio.move_on_after(CLOSE_SECONDS):
            while self._running:
                self._idle.clear()
                await self._idle.wait()
        await self._jobs.aclose()
        await asyncio.gather(*(session.aclose() for session in tuple(self._all_sessions)))
        if self._owns_backend:
            await self._backend.aclose()

    def _spawn(self, request: Command, *, split_stderr: bool, terminal: Terminal | None = None) -> Spawn:
        directory = self._info.resolve(request.cwd, self._directory)
        dialect = shells.SHELLS[self._shell.kind]
        on_windows = self._info.os == "windows"
        before = self._prefix.words if self._prefix is not None and on_windows else ()
        launch = dialect.launch(
            self._shell, request.text, snapshot=self.snapshot, terminal=terminal is not None, before=before
        )
        argv = launch.argv
        if self._prefix is not None:
            argv = self._prefix.wrap(argv, on_windows=on_windows)
        settings = dict(self._settings_on(terminal))
        settings.update(dialect.lets_through((*settings, *request.env)))
        if not on_windows:
            # A shell believes PWD only if it names its directory; given so, it keeps the name of a link.
            settings["PWD"] = directory
        return Spawn(
            argv=argv,
            script=launch.script,
            cwd=directory,
            settings=settings,
            env=request.env,
            unset=self._unset if terminal is None else self._unset_on_terminal,
            stdin=request.stdin is not None,
            split_stderr=split_stderr,
            terminal=terminal,
        )

    def _settings_on(self, terminal: Terminal | None) -> Mapping[str, str]:
        if terminal is None:
            return self._variables
        return {**_settings(self._info, self._shell, interactive=True), "TERM": terminal.term}

    def _whole(self, log: OutputLog) -> Store | None:
        """What has the whole of a job's output: its log has it anyway. Where nothing is to be kept, nothing has."""
        return None if self._artifacts is None else log

    def _controller(self, terminal: Terminal | None, store: Store | None) -> Controller | None:
        """What stands before a program on a terminal; ``None`` without one."""
        if terminal is None:
            return None
        return Controller(partial(self._terminal_output, terminal, store), tells=self._tells)

    def _recorder(
        self, recording: Recording | None, terminal: Terminal | None, controller: Controller | None
    ) -> Recorder | None:
        """What records a run into a file; ``None`` when nothing does."""
        if recording is None:
            return None
        from .recordings.recorder import Recorder  # here, since few runs are recorded

        return Recorder(
            recording,
            terminal=terminal,
            shell=self._shell.path,
            masks=None if controller is None else controller.masks,
            code_page=self._code_page(terminal),
        )

    def _before(
        self, controller: Controller | None, recorder: Recorder | None = None, spawner: Spawner | None = None
    ) -> Spawner:
        """What starts a program, and who stands before it: first who records what it is given, then its terminal."""
        spawner = spawner or self._backend
        if recorder is not None:
            spawner = recorder.before(spawner)
        return spawner if controller is None else controller.before(spawner)

    @property
    def _tells(self) -> bool:
        """Whether the host can tell what a process sleeps in."""
        return self._info.os == "linux"

    def _terminal_output(
        self,
        terminal: Terminal,
        store: Store | None,
        answer: Callable[[bytes], object] | None = None,
        *,
        answers: bool = True,
        scrollback: int | None = None,
    ) -> TerminalOutput:
        limits = self._limits
        return TerminalOutput(
            terminal,
            head=limits.head,
            tail=limits.tail,
            max_line=limits.max_line,
            artifacts=store,
            name_path=self._info.is_this_machine,
            answer=answer if answers else None,
            scrollback=scrollback,
        )

    def _builder(self, store: Store | None, terminal: Terminal | None = None) -> Builder:
        if terminal is not None:
            return self._terminal_output(terminal, store)
        limits = self._limits
        return OutputBuilder(
            head=limits.head,
            tail=limits.tail,
            max_line=limits.max_line,
            artifacts=store,
            name_path=self._info.is_this_machine,
            code_page=self._info.code_page,
        )

    def _code_page(self, terminal: Terminal | None) -> int | None:
        """What output may be in that is not UTF-8; a terminal's always is."""
        return None if terminal is not None else self._info.code_page

    def _require_entered(self, method: str) -> None:
        if not self._entered:
            raise AnyshellError(
                f"{method} starts what somebody must stop: use 'async with Environment.detect() as env'"
            )


def _request(
    command: str,
    cwd: str | PathLike[str] | None,
    env: Mapping[str, str] | None,
    stdin: bytes | str | AsyncIterable[bytes] | None,
) -> Command:
    if isinstance(stdin, str):
        check_text("stdin", stdin)
        stdin = stdin.encode(errors="surrogateescape")
    elif isinstance(stdin, bytearray | memoryview):
        stdin = bytes(stdin)
    return Command(
        text=command,
        cwd=os.fspath(cwd) if isinstance(cwd, os.PathLike) else cwd,
        env={} if env is None else dict(env),
        stdin=stdin,
    )


class Detection:
    """A detection that has not begun: await it, or enter it with ``async with``."""

    def __init__(
        self,
        host_or_backend: str | SSHOptions | Backend | None,
        *,
        shell: str | None,
        cwd: str | PathLike[str] | None,
        interactive: bool,
        limits: OutputLimits,
        artifacts: ArtifactStore | None,
        snapshot: bool,
        prefix: shells.Prefix | None,
        max_jobs: int,
        max_terminals: int,
        background_after: float | None,
    ) -> None:
        self._owned = host_or_backend is None or isinstance(host_or_backend, str | SSHOptions)
        self._host_or_backend = host_or_backend
        self._shell = shell
        self._cwd = None if cwd is None else os.fspath(cwd)
        self._interactive = interactive
        self._limits = limits
        self._artifacts = artifacts
        self._snapshot = snapshot
        self._prefix = prefix
        self._max_jobs = max_jobs
        self._max_terminals = max_terminals
        self._background_after = background_after
        self._backend: Backend | None = None
        self._environment: Environment | None = None

    def __await__(self) -> Generator[object, object, Environment]:
        return self._detect().__await__()

    async def __aenter__(self) -> Environment:
        environment = await self._detect()
        environment._entered = True  # the two are one: what is entered is the environment
        self._environment = environment
        return environment

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._environment is not None:
            await self._environment.aclose()

    async def _detect(self) -> Environment:
        backend = self._host_or_backend
        if backend is None or isinstance(backend, str | SSHOptions):
            backend = connect(backend, launcher=shells.Login)
        self._backend = backend
        try:
            return await self._ask(backend)
        except BaseException:
            if self._owned:
                await to_the_end(backend.aclose(), lambda: None)
            raise

    async def _ask(self, backend: Backend) -> Environment:
        # This loads what anyio needs in a loop of asyncio. The first stop may come when no descriptor is left for that.
        anyio.get_cancelled_exc_class()
        # It speaks of this machine: a path of it is none of another host.
        elsewhere = self._owned and self._host_or_backend not in (None, "local")
        wished = None if elsewhere else os.environ.get("ANYSHELL_SHELL") or None
        request = self._shell or wished
        source = "shell" if self._shell else "ANYSHELL_SHELL"
        known = _descriptions.programs()
        wanted = None if self._prefix is None else self._prefix.program
        programs = known if wanted is None or wanted in known else (*known, wanted)
        query = shells.query(programs, request, source=source)
        info = await backend.info(replace(query, variables=tuple(ASK_FOR_UTF8)))
        if wanted is not None and wanted not in info.programs:
            raise InvalidCommand(
                f"prefix: {cut_name(wanted)!r} was not found on {backend.name}: install it, or give its absolute path"
            )
        if self._prefix is not None and info.os == "windows":
            self._prefix.check_words(info.programs)
        if programs is not known:
            info = replace(
                info, programs={name: path for name, path in info.programs.items() if name in known}
            )
        if info.shell is None:
            raise shells.not_found(request, info.shells_tried, source=source, os=info.os)
        directory = info.resolve(self._cwd)
        if self._cwd is not None:
            await _check_directory(backend, directory)
        snapshot = None
        if self._snapshot:
            snapshot = await ensure(
                backend,
                info,
                info.shell,
                settings=_settings(info, info.shell, interactive=self._interactive),
                unset=_unset(info.shell, interactive=self._interactive),
            )
        return Environment(
            backend,
            info,
            info.shell,
            directory=directory,
            interactive=self._interactive,
            limits=self._limits,
            artifacts=self._artifacts,
            owns_backend=self._owned,
            prefix=self._prefix,
            snapshot=snapshot,
            max_jobs=self._max_jobs,
            max_terminals=self._max_terminals,
            background_after=self._background_after,
            terminals=offers_terminals(),
        )


def offers_terminals() -> bool:
    """Whether this process's variables let commands have a terminal."""
    return os.environ.get("ANYSHELL_NO_PTY", "") in ("", "0")


def _settings(info: HostInfo, shell: ShellInfo, *, interactive: bool) -> Mapping[str, str]:
    """The variables of every command."""
    on_windows = info.os == "windows"
    calm = NON_INTERACTIVE_ON_WINDOWS if on_windows else NON_INTERACTIVE
    # There, it is a word of MSYS2's, whose bash sets it by itself; make takes it for the shell of its own commands.
    own = ask_for_utf8(info.variables) if on_windows else {"SHELL": shell.path}
    return {**({} if interactive else calm), **own}


def _unset(shell: ShellInfo, *, interactive: bool) -> frozenset[str]:
    """The variables of the host that no command has."""
    return shells.SHELLS[shell.kind].unset | (frozenset() if interactive else REMOVED)


def _check_terminal(terminal: object, *, split_stderr: bool) -> None:
    if terminal is not None and not isinstance(terminal, Terminal):
        raise InvalidCommand(f"terminal must be a Terminal(columns=, rows=), not {type(terminal).__name__}")
    if terminal is not None and split_stderr:
        raise InvalidCommand("on a terminal stdout and stderr are one: leave out split_stderr")


def _check_reserved(env: Mapping[str, str]) -> None:
    if taken := sorted(shells.RESERVED & env.keys()):
        raise InvalidCommand(f"{', '.join(taken)}: a session's shell is led by that; choose another name")


async def _check_directory(backend: Backend, path: str) -> None:
    try:
        stat = await backend.files.stat(path)
    except OSError as error:
        raise InvalidCommand(f"cwd {path!r} cannot be used: {error.strerror}") from error
    if stat.kind != "directory":
        raise InvalidCommand(f"cwd {path!r} is not a directory")
