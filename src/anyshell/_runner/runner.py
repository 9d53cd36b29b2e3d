"""The assembly of a run: the program, the wrappers before the program, and the output builder. The engine then runs it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Protocol

from .. import _engine, shells
from .._exceptions import AnyshellError, InvalidCommand
from .._types import Outcome, ShellArgv, Spawn, learn
from .._waits import outlast, shortage_as_spawn_error
from .._wrapped import WrappingSpawner
from ..reach import NONE
from .addresses import Addresses
from .directories import check_directory
from .network import network_of, serving, with_network
from .outputs import controller_of, pipes_output, recorder_of, terminal_output
from .variables import OF_ANOTHER_TERMINAL, settings_of, unset_of, without

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Mapping

    from .._types import Channel, Command, HostInfo, OutputLimits, ShellInfo, Terminal, Variables
    from ..abc import Backend, Process, Resolver, Spawner
    from ..jobs import Job, Jobs, Ready, Work
    from ..output import ArtifactStore
    from ..output.text.builder import Builder
    from ..output.text.keeper import OutputStore
    from ..policy.audit import Audit
    from ..policy.redaction import Masks, Redaction
    from ..reach import Reach, Sandbox
    from ..terminal import Controller
    from .effects import Looks
    from .options import RunOptions
    from .variables import Interactive


class Helper(Protocol):
    """A process of anyshell's own."""

    async def aclose(self) -> None:
        """End the process, within a bound."""


CLOSE_SECONDS = 5.0
"""Seconds for which leaving an environment waits for the stop of its commands; the backend then ends what remains."""


class Runner:
    """The runner of commands in one shell of one host. Every way to run a command of an `Environment` leads to its runner.

    Args:
        backend: Reaches the host.
        info: The host's facts.
        shell: The shell that runs the commands.
        directory: The default directory of the commands; absolute.
        interactive: Whether the host's pager, editor, prompt, colour and progress variables are left unchanged.
        limits: The limits of an output's text.
        artifacts: The store of whole outputs that were cut; ``None`` keeps nothing.
        prefix: The words that run the shell.
        snapshot: The file on the host with the user's own set-up; ``None`` means no snapshot.
        max_jobs: Jobs that run at once.
        entered: Whether the environment was entered, and so ends what commands leave to it.
        variables: The host's variables that commands have; ``None`` is all of them.
        host_names: The names of the host's variables, where the host is not this machine, and `variables` or a reach is
            given.
        redaction: The masking of secrets in output; ``None`` masks nothing.
        audit: The record of every run; ``None`` records nothing.
        resolvers: The caller's resolvers of internal addresses, besides anyshell's own.
        sandbox: The sandbox around every shell.

    Attributes:
        addresses: The internal addresses of the runner's commands.
        helpers: Processes of anyshell's own on the host, which end with the environment.
        closed: Whether the runner is closed, and starts nothing more.
    """

    def __init__(
        self,
        backend: Backend,
        info: HostInfo,
        shell: ShellInfo,
        *,
        directory: str,
        interactive: Interactive,
        limits: OutputLimits,
        artifacts: ArtifactStore | None,
        prefix: shells.Prefix | None,
        snapshot: str | None,
        max_jobs: int,
        entered: bool,
        variables: Variables | None = None,
        host_names: Collection[str] = (),
        redaction: Redaction | None = None,
        audit: Audit | None = None,
        resolvers: Mapping[str, Resolver | None] | None = None,
        sandbox: Sandbox = NONE,
    ) -> None:
        self.backend = backend
        self.info = info
        self.shell = shell
        self.directory = directory
        self.limits = limits
        self.artifacts = artifacts
        self.prefix = prefix
        self.snapshot = snapshot
        self.sandbox = sandbox
        self.entered = entered
        self.closed = False
        self.helpers: list[Helper] = []
        self.addresses = Addresses(
            backend, info, shell, directory=directory, store=artifacts, resolvers=resolvers or {}
        )
        self._max_jobs = max_jobs
        self._running: set[_engine.Control] = set()
        self._idle = asyncio.Event()
        self._settings = settings_of(info, shell, interactive=interactive)
        self._unset = unset_of(shell, interactive=interactive)
        self._variables = variables
        self._host_names = host_names
        self._redaction = redaction
        self._audit = audit
        self._unset_on_terminal = unset_of(shell, interactive=True) | OF_ANOTHER_TERMINAL

    @cached_property
    def jobs(self) -> Jobs:
        """The background jobs."""
        from ..jobs import Jobs

        return Jobs(
            builder=lambda log: self._builder(self.artifacts and log),
            connects=self.backend.connects,
            store=self.artifacts,
            max_jobs=self._max_jobs,
            code_page=self.info.code_page,
        )

    @property
    def host(self) -> str:
        """The name of the host, for people."""
        return self.backend.name

    def require_entered(self, method: str) -> None:
        """Refuse a method that starts something longer-lived than the call, where the environment was not entered.

        Raises:
            AnyshellError: The environment was not entered; the message names the method.
        """
        if not self.entered:
            raise AnyshellError(
                f"{method} needs 'async with', which stops what it starts: use 'async with Environment.detect() as env'"
            )

    def check(self, options: RunOptions) -> None:
        """Check that options can be met.

        Raises:
            AnyshellError: The options ask for a job where the environment was not entered; or the runner is closed.
        """
        if options.background_after is not None:
            self.require_entered("run(background_after=...)")
        if options.left_behind == "adopt" and not self.entered:
            raise AnyshellError(
                "left_behind='adopt' needs 'async with', which stops the job that it makes: "
                "use 'async with Environment.detect() as env'"
            )
        if self.closed:
            raise AnyshellError("this environment is closed: it starts nothing more")

    async def run(
        self,
        command: Command,
        options: RunOptions,
        *,
        spawner: Spawner | None = None,
        spawn: Spawn | None = None,
        controller: Controller | None = None,
        control: _engine.Control | None = None,
    ) -> Outcome:
        """Run a command that the caller waits for; once `background_after` is over, make a job of the run.

        Args:
            command: The requested command.
            options: The options of the run.
            spawner: The spawner that starts the program instead of the backend.
            spawn: The program that is started instead of a fresh shell with the text of `command`.
            controller: The controller of the program's terminal, if the terminal is driven.
            control: Ends the run early.

        Raises:
            AnyshellError, SpawnError, InvalidCommand, RecordingError: Nothing was started.
            asyncio.CancelledError: The call was cancelled; the whole tree is gone.
        """
        self.check(options)
        command = await self.addresses.expand(command)
        control = control or _engine.Control()
        if not isinstance(control, _engine.Control):
            raise InvalidCommand(f"control must be an anyshell.types.Control, not {type(control).__name__}")
        if options.background_after is not None:
            return await self._run_for_a_while(command, options, options.background_after, control)
        self._running.add(control)
        try:
            return await self._perform(
                command,
                options,
                spawn or self.spawn_of(command, options),
                control=control,
                store=self.artifacts,
                spawner=spawner,
                controller=controller,
            )
        finally:
            self._over(control)

    async def start(
        self,
        command: Command,
        options: RunOptions,
        *,
        sends: bool,
        ready: Ready | None,
        ready_timeout: float | None,
    ) -> Job:
        """Start a command as a job.

        Args:
            command: The requested command.
            options: The options of the run.
            sends: Whether the job's stdin is the data of `Job.send`, until the stdin is closed.
            ready: The event that this call waits for.
            ready_timeout: Seconds for that event; ``None`` means no bound.

        Raises:
            AnyshellError: As for `Environment.start`.
        """
        self.check(options)
        command = await self.addresses.expand(command)
        spawn = self.spawn_of(command, options)
        if sends:
            spawn = replace(spawn, stdin=True)

        def run(work: Work) -> Coroutine[object, object, Outcome]:
            heard = replace(options, listener=work.hear)
            return self._perform_work(command, heard, spawn, work)

        return await self.jobs.start(
            command.text, run, sends=sends, grace=options.grace, ready=ready, ready_timeout=ready_timeout
        )

    async def place(self, path: str, base: str) -> str:
        """Make a directory absolute, relative to another directory.

        Raises:
            InvalidCommand: The path is not a directory, or cannot be used.
        """
        directory = self.info.resolve(path, base)
        await check_directory(self.backend, directory)
        return directory

    def spawn_of(
        self, command: Command, options: RunOptions | None = None, *, confined: bool = True
    ) -> Spawn:
        """Return the spawn of a fresh shell with a command's text; raises what `confine` raises, if `confined`."""
        split_stderr = options is not None and options.split_stderr
        terminal, reach = (None, None) if options is None else (options.terminal, options.reach)
        directory = self.info.resolve(command.cwd, self.directory)
        dialect = shells.SHELLS[self.shell.kind]
        on_windows = self.info.os == "windows"
        before = self.prefix.words if self.prefix is not None and on_windows else ()
        launch = dialect.launch(
            self.shell, command.text, snapshot=self.snapshot, terminal=terminal is not None, before=before
        )
        argv = launch.argv
        if self.prefix is not None:
            argv = self.prefix.wrap(argv, on_windows=on_windows)
        elif self.snapshot is None and launch.script is None and _only_starts(command, self.info, dialect):
            argv = ShellArgv.of(argv, command.words)
        settings = dict(self._settings_on(terminal))
        given = command.env if self._variables is None else (*self._variables.set, *command.env)
        settings.update(dialect.lets_through((*settings, *given)))
        if not on_windows:
            # A shell trusts PWD only if PWD names the shell's directory; given this way, a link keeps its name.
            settings["PWD"] = directory
        env, unset = command.env, self._unset if terminal is None else self._unset_on_terminal
        names = os.environ if self.info.is_this_machine else self._host_names
        for variables in (self._variables, None if reach is None else reach.environment):
            if variables is not None:
                env = {**variables.set, **env}
                unset |= variables.unset(names)
        spawn = Spawn(
            argv=argv,
            script=launch.script,
            cwd=directory,
            settings=without(command.unset, settings, on_windows=on_windows),
            env=without(command.unset, env, on_windows=on_windows),
            unset=unset | command.unset,
            stdin=command.stdin is not None,
            split_stderr=split_stderr,
            terminal=terminal,
        )
        return self.confine(spawn, reach) if confined else spawn

    def confine(self, spawn: Spawn, reach: Reach | None = None) -> Spawn:
        """Put the sandbox around a program, or the enforcement of a narrower reach.

        Raises:
            InvalidCommand, ReachUnavailable: The sandbox or the reach refuses the program; or the reach is not narrower.
        """
        if reach is None:
            return self.sandbox.wrap(spawn)
        from ..reach import narrow  # imported here: few commands have a reach of their own

        return narrow(self.sandbox, reach, directory=self.directory, home=self.info.home).wrap(spawn)

    def masks(self, env: Mapping[str, str]) -> Masks | None:
        """Return the masks for the output of a command with these variables; ``None`` if nothing is masked."""
        if self._redaction is None:
            return None
        from .._types import Variables  # imported here: few commands have masks

        variables = self._variables or Variables(exclude=())
        return self._redaction.masks(os.environ, variables.set, env, names=variables.exclude)

    def code_page(self, terminal: Terminal | None) -> int | None:
        """Return the code page of output that is not UTF-8; the output of a terminal always is UTF-8."""
        return None if terminal is not None else self.info.code_page

    async def aclose(self) -> None:
        """Start nothing more, and stop what runs: commands that a caller waits for without a grace, jobs with their own."""
        self.closed = True
        for control in self._running:
            control.cancel()
            control.cancel()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                while self._running:
                    self._idle.clear()
                    await self._idle.wait()
        if "jobs" in vars(self):  # otherwise no job was ever made
            await self.jobs.aclose()
        for helper in tuple(self.helpers):
            await helper.aclose()

    async def _run_for_a_while(
        self, command: Command, options: RunOptions, seconds: float, control: _engine.Control
    ) -> Outcome:
        """Run a command that the caller waits for, and make a job of the run when it takes too long."""
        began = time.monotonic()
        terminal, listener = options.terminal, options.listener
        from ..jobs import Work  # imported here and below: few commands become jobs

        work = Work(self.artifacts, control=control, code_page=self.code_page(terminal))
        channels: tuple[Channel, ...] = ("stdout", "stderr") if options.split_stderr else ("stdout",)
        so_far = {channel: self._builder(None, terminal, limits=options.limits) for channel in channels}

        async def hear(channel: Channel, data: bytes) -> None:
            await work.hear(channel, data)
            if so_far:
                so_far[channel].feed(data)
                if listener is not None:
                    await listener(channel, data)

        heard = replace(options, listener=hear)
        work.begin(self._perform_work(command, heard, (spawn := self.spawn_of(command, options)), work))
        self._running.add(control)
        try:
            while not work.task.done():
                await asyncio.wait([work.task], timeout=seconds)
                if self.jobs.has_room and not self.closed and not control.requested:
                    break  # otherwise the caller waits on: every option is kept
        except asyncio.CancelledError:
            work.task.cancel()
            await outlast(work.task, work.task.cancel)
            work.log.discard()
            raise
        finally:
            self._over(control)
        if work.task.done():
            work.log.discard()
            return work.task.result()
        outputs = {channel: builder.finish() for channel, builder in so_far.items()}
        so_far.clear()
        return Outcome(
            status="running",
            output=outputs["stdout"],
            stderr=outputs.get("stderr"),
            duration=time.monotonic() - began,
            started=work.begun.done(),
            job=self.jobs.take(command.text, work, options.grace).id,
            effects=options.effects_so_far,
            network=network_of(spawn),
        )

    def _perform_work(
        self, command: Command, options: RunOptions, spawn: Spawn, work: Work
    ) -> Coroutine[object, object, Outcome]:
        """Run a program as a job, or as a run that may become one."""
        store = self.artifacts if options.split_stderr else self.artifacts and work.log
        return self._perform(command, options, spawn, control=work.control, store=store, watch=work.take)

    async def _perform(
        self,
        command: Command,
        options: RunOptions,
        spawn: Spawn,
        *,
        control: _engine.Control,
        store: OutputStore | None,
        spawner: Spawner | None = None,
        controller: Controller | None = None,
        watch: Callable[[Process], Process] | None = None,
    ) -> Outcome:
        """Run a program in the engine, and add to its outcome the facts that the wrappers have learnt.

        From the backend on, the wrappers are: the masking of secrets, the recorder, the terminal's controller, the job's
        work, the adoption.

        Args:
            command: The requested command.
            options: The options of the run; settled.
            spawn: The program that is started.
            control: Ends the run early.
            store: The store of the whole output.
            spawner: The spawner that starts the program instead of the backend.
            controller: The controller of the program's terminal, if it exists already.
            watch: Called with the started process.
        """
        if options.stdout is not None:
            run = partial(self._perform, command, spawn=spawn, control=control, store=store)
            run = partial(run, spawner=spawner, controller=controller, watch=watch)
            return await options.stdout.around(
                options.listener, lambda hear: run(replace(options, stdout=None, listener=hear))
            )
        terminal, listener = options.terminal, options.listener
        if controller is None and terminal is not None:
            controller = controller_of(self, terminal, store, limits=options.limits)
        recorder = recorder_of(self, options.recording, terminal, controller)
        wraps: list[Callable[[Process], Process]] = []
        masking = None
        if (masks := self.masks(command.env)) is not None:
            from .masking import Masking  # imported here: few environments mask secrets

            masking = Masking(masks)
            wraps.append(masking.take)
        entry = None
        if self._audit is not None:
            entry = self._audit.entry(command.text, host=self.host, cwd=spawn.cwd, env=command.env)
            wraps.append(entry.take)
        if recorder is not None:
            wraps.append(recorder.take)
        if controller is not None:
            wraps.append(controller.take)
            controller.on_typed = control.touch
            if recorder is not None:
                controller.on_resized = recorder.resized
        if watch is not None:
            wraps.append(watch)
        adopting = None
        left_behind = options.left_behind or ("adopt" if self.entered else "stop")
        if left_behind == "adopt":
            with shortage_as_spawn_error():
                from ..jobs import Adopting

            fed = command.stdin is not None
            given = spawn if spawn.stdin == fed else replace(spawn, stdin=fed)
            adopt = partial(self.jobs.adopt, spawn=given, command=command.text)
            # On a terminal, end-of-file would be typed, which blocks until the program reads the earlier keys.
            adopting = Adopting(adopt, ends_input=fed and terminal is None)
            wraps.append(adopting.take)
        limits = options.limits
        output: Builder = self._builder(store, limits=limits) if controller is None else controller.output
        stderr = self._builder(self.artifacts, limits=limits) if options.split_stderr else None
        if recorder is not None:
            output = recorder.builder(output, "stdout")
            stderr = None if stderr is None else recorder.builder(stderr, "stderr")
            listener = recorder.listener(listener)
        watching = (
            contextlib.nullcontext()
            if controller is None
            else controller.watched(options.timeout, options.silence)
        )
        looks: Looks | None = None
        try:
            if recorder is not None:
                await recorder.begin()
            if options.effects is not None:
                from .effects import Looks  # imported here: few runs ask for effects

                looks = Looks(self.backend, self.info, options.effects, self.directory)
                await looks.begin()
            async with self.addresses.placed(command.text):
                with watching:
                    outcome = await _engine.run(
                        WrappingSpawner(spawner or serving(self.backend, spawn), wraps),
                        spawn,
                        output=output,
                        stderr=stderr,
                        stdin=command.stdin,
                        timeout=options.timeout,
                        silence=options.silence,
                        grace=options.grace,
                        left_behind=left_behind,
                        listener=listener,
                        control=control,
                    )
        except BaseException as error:
            if entry is not None:
                entry.end(error=type(error).__name__)
            if recorder is not None:
                await recorder.abandon()
            raise
        if masking is not None:
            outcome = masking.count(outcome)
        if entry is not None:
            entry.end(outcome)
        if recorder is not None:
            outcome = replace(outcome, recording=await recorder.end(outcome))
        if controller is not None and controller.process is not None:
            waiting = controller.waiting if outcome.status == "timed_out" else None
            outcome = replace(outcome, waiting=waiting, terminal=controller.process.terminal_kind)
        shown = command.text if masks is None else masks.text(command.text)
        job = None if adopting is None else adopting.job
        outcome = learn(outcome, job=outcome.job if job is None else job, _command=shown)
        return with_network(outcome if looks is None else await looks.end(outcome), spawn)

    def _over(self, control: _engine.Control) -> None:
        """Record that no caller waits for a run any more. While one waits, closing the runner ends the run at once."""
        self._running.discard(control)
        if self.closed:
            self._idle.set()

    def _settings_on(self, terminal: Terminal | None) -> Mapping[str, str]:
        if terminal is None:
            return self._settings
        return {**settings_of(self.info, self.shell, interactive=True), "TERM": terminal.term}

    def _builder(
        self,
        store: OutputStore | None,
        terminal: Terminal | None = None,
        *,
        limits: OutputLimits | None = None,
    ) -> Builder:
        if terminal is not None:
            return terminal_output(self, terminal, store, limits=limits)
        return pipes_output(self, store, limits=limits)


def _only_starts(command: Command, info: HostInfo, shell: shells.Shell | shells.PowerShell) -> bool:
    """Return whether the shell of this machine would only start a program, so the program can start without the shell."""
    return (
        bool(command.words)
        and info.is_this_machine
        and info.os != "windows"
        and isinstance(shell, shells.Shell)
        and shell.only_starts(command.words)
        and shell.join(command.words) == command.text  # otherwise an address in the text was resolved
    )
