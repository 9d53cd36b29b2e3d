"""A persistent shell: directory, variables, functions, aliases and options last from one command to the next.

A session spawns `Process`es as a backend does, so the engine runs a session's commands like any others. A `Turn` waits
until its command may run and a shell exists, and gives the shell the command's text. The result is a `SessionProcess`: its
output is a pipe of its own, its tree is a `CommandTree` of the shell, and its end is what the shell reports.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from .. import shells
from .._engine import Control
from .._exceptions import AnyshellError, InvalidCommand, SpawnError
from .._runner import RunOptions, to_command
from .._types import DEFAULT_GRACE, Spawn, check_seconds, cut_name, learn, to_recording, to_scan
from .._waits import AsyncOnly, shielded, shortage_as_spawn_error, to_the_end
from .shell import END_SECONDS, START_SECONDS, SessionShell, ShellGone
from .turns import Check, Exit, Turn, run_own

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from os import PathLike
    from types import TracebackType

    from .._runner import Runner
    from .._runner.effects import Looks
    from .._runner.redirects import Stdin, Stdout
    from .._types import (
        Channel,
        Command,
        LeftBehind,
        Outcome,
        OutputLimits,
        ProcessInfo,
        Recording,
        Scan,
        ShellInfo,
        Status,
    )
    from .._types.checks import Seconds
    from ..reach import Gate, Reach
    from ..shells.words import CommandLike
    from .process import SessionProcess

IDLE_SECONDS = 1800.0
"""Seconds without use after which the shell of a named session is ended."""

MOST_ABANDONED = 64
"""Processes of abandoned shells that one session remembers; with more, the oldest are forgotten."""


class Session(AsyncOnly):
    """A persistent shell. `Environment.session` makes the session; the first command starts the shell.

    One command runs at a time. Other commands wait for their turn, and their timeouts already run meanwhile.
    """

    def __init__(
        self,
        runner: Runner,
        command: Command,
        *,
        name: str | None,
        reach: Reach | None = None,
        on_closed: Callable[[Session], object],
        on_forked: Callable[[Session], object] = lambda forked: None,
        forked: bool = False,
    ) -> None:
        """Store the settings with which the shells of the session are started.

        Args:
            runner: Runs the session's commands on the host of its shells.
            command: The start directory and the variables of the shells; the text is ignored.
            name: The name under which the session is shared; ``None`` when the session belongs to its owner alone.
            reach: The reach of the shells; ``None`` is the reach of the environment.
            on_closed: Called when the session is closed.
            on_forked: Called with a new fork of the session; may raise to refuse the fork.
            forked: Whether the session is a fork.

        Raises:
            InvalidCommand: A variable is reserved for the control of the shell.
        """
        _check_reserved(command)
        self._runner = runner
        self._spawn = replace(runner.spawn_of(command, RunOptions(reach=reach), confined=False), script=None)
        self._reach = reach
        self._name = name
        self._on_closed, self._on_forked = on_closed, on_forked
        self.forked = forked
        """Whether the session is a fork of another session."""
        self._shell: SessionShell | None = None
        self._gates: dict[SessionShell | None, Gate] = {}  # None for a shell that is being started
        self._turn = asyncio.Lock()
        self._fresh = ""
        self._directory: str | None = None
        self._running: set[Control] = set()
        self._idle: asyncio.TimerHandle | None = None
        self._closing: asyncio.Task[None] | None = None
        self._abandoned: list[ProcessInfo] = []
        self._closed = False

    def __repr__(self) -> str:
        name = "" if self._name is None else f"{cut_name(self._name)!r} "
        state = "closed" if self._closed else "alive" if self.alive else "not begun, or ended"
        return f"<Session {name}{self.shell.kind} in {self.directory!r} on {self._runner.host}, {state}>"

    @property
    def name(self) -> str | None:
        """The name under which the session is shared; ``None`` when it belongs to its owner alone."""
        return self._name

    @property
    def shell(self) -> ShellInfo:
        """The shell of the session."""
        return self._runner.shell

    @property
    def directory(self) -> str:
        """The default directory of the next command: the shell's present directory; for a fresh shell, the start directory."""
        return (self._directory if self.alive else None) or self._spawn.cwd

    @property
    def alive(self) -> bool:
        """Whether the shell runs, as far as is known, and so still has the state from earlier commands."""
        return self._shell is not None and not self._shell.ended and not self._shell.doomed

    @property
    def abandoned(self) -> Sequence[ProcessInfo]:
        """The processes of shells that could not be killed, which may still run. The last `MOST_ABANDONED`.

        A shell cannot be killed while a control group freezes it, while it waits in the kernel, or when a set-uid prefix
        has given it to another user. Of a shell that has ended, the list has the processes of its process group that could
        not be killed.
        """
        return tuple(self._abandoned)

    async def __aenter__(self) -> Session:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._name is None:
            await self.aclose()

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
        variables: bool = False,
        may_be_fresh: bool = True,
        listener: Callable[[Channel, bytes], Awaitable[None]] | None = None,
        record: str | PathLike[str] | Recording | None = None,
        limits: OutputLimits | None = None,
        effects: bool | Sequence[str] | Scan = False,
        control: Control | None = None,
    ) -> Outcome:
        """Run a command in the session's shell and wait for its end.

        Args:
            command: Text in the shell's own language, of any size; or a list of a program and its arguments, or `sh`: the
                words of a list or `sh` are quoted for the shell.
            cwd: The directory to which the shell changes first, and in which the shell stays; relative to the shell's
                present directory. Must exist.
            env: Variables that the shell exports before the command, and keeps afterwards.
            stdin: The input of the command; by default end-of-file at once.
            timeout: Seconds from now, the wait for the turn included, until the command's processes are stopped.
            silence: As for `Environment.run`; the time counts from the command's turn.
            grace: Seconds between the request to end and the kill.
            left_behind: The fate of processes that outlive the command, as for `Environment.run`.
            split_stderr: Whether stdout and stderr are two texts.
            stdout: As for `Environment.run`.
            variables: Whether the outcome's session report has the command's changes to the exported variables.
            may_be_fresh: Whether the command may run in a fresh shell. Otherwise the command depends on the state from
                earlier commands, and is not run when their shell is gone.
            listener: Called with every chunk of output as it comes, and awaited: a slow listener slows the command down.
            record: A new file for a recording of the output, as for `Environment.run`.
            limits: The limits of the output's text, as for `Environment.run`.
            effects: As for `Environment.run`. Both looks belong to the command's turn: no other command of the session runs
                between them. The time counts from now, and includes the first look.
            control: Stops the command from another task, as for `Environment.run`.

        Returns:
            The outcome, as for `Environment.run`, with a `SessionReport`. When a command is stopped, the shell's state is
            kept, as far as that is certain; otherwise the report says that the state is lost.

        Raises:
            InvalidCommand: Bad input, before anything of the command ran.
            SpawnError: The shell could not be started.
            RecordingError: The file of the recording cannot be made, or exists already.
            AnyshellError: The session is closed; or its shell is gone, and the command may not run in a fresh shell.
            asyncio.CancelledError: The call was cancelled; all processes of the command are gone.
        """
        if self._closed:
            raise AnyshellError("this session is closed: make another by Environment.session()")
        request = to_command(command, cwd, env, stdin, kind=self._runner.shell.kind)
        _check_reserved(request)
        request = await self._runner.addresses.expand(request)
        options = RunOptions(
            timeout=timeout,
            silence=silence,
            grace=grace,
            left_behind=left_behind,
            split_stderr=split_stderr,
            stdout=stdout,
            listener=listener,
            recording=to_recording(record),
            limits=limits,
        )
        looks = self._looks(to_scan(effects))
        spawn = Spawn(
            argv=(),
            script=request.text,
            cwd=request.cwd or "",
            env=request.env,
            unset=request.unset,
            stdin=request.stdin is not None,
            split_stderr=split_stderr,
        )
        turn = Turn(
            self._begin, variables=variables, may_be_fresh=may_be_fresh, looks=looks, asks=bool(spawn.cwd)
        )
        # The turn is the spawner of the engine: it waits until the shell is free, so the timeout of this run
        # covers the wait.
        control = control or Control()
        self._running.add(control)
        try:
            outcome = await self._runner.run(request, options, spawner=turn, spawn=spawn, control=control)
            if looks is not None:
                outcome = await looks.end(outcome)
        finally:
            turn.looked()
            self._running.discard(control)
            self._rest()
        if turn.problem:
            raise SpawnError(await turn.why_not())
        if (gate := self._gates.get(turn.shell)) is not None:
            await gate.settle()
        return learn(outcome, session=turn.report(), network=turn.network())

    def _looks(self, scan: Scan | None) -> Looks | None:
        if scan is None:
            return None
        from .._runner.effects import Looks  # imported here: few runs ask for effects

        return Looks(self._runner.backend, self._runner.info, scan, self._runner.directory)

    async def interrupt(self) -> bool:
        """Interrupt the running command, as ^C does at a prompt: send SIGINT to its processes; the shell is kept.

        If SIGINT ends the programs, or the text runs in the shell itself, the rest of the text does not run, and the exit
        code is 130. A program that handles or ignores SIGINT runs on, and so does the command: call again, or stop the
        command.

        With some traps and options of a text, `run` could stop the text only by replacing the shell. Then only the programs
        are interrupted, and the text runs on. In bash, a command substitution that SIGINT ends also ends the shell, as in a
        script: the outcome says ``ended``. On Windows, programs are killed at once.

        Commands that wait for their turn are not interrupted.

        Returns:
            Whether a command ran.
        """
        process = None if self._shell is None else self._shell.current
        if process is not None:
            await process.interrupt()
        return process is not None

    async def fork(self, *, timeout: Seconds | None = None) -> Session:
        """Make a second session with a copy of this session's shell state, to try two ways side by side.

        The fork copies the directory and the stack of directories, variables of every kind, functions, aliases, options,
        traps, umask, limits and positional parameters. The fork does not copy open descriptors, jobs, history or key
        bindings; ``$!`` and the hash table of programs are empty. In zsh, modules and styles are those of a fresh shell.
        After the fork, the two sessions are independent, except that both see the same files.

        Args:
            timeout: Seconds from now, the wait for a running command included.

        Returns:
            A session without a name, which stays open when this session is closed. Close the fork, as by ``async with``.

        Raises:
            InvalidCommand: The shell is neither bash nor zsh; too many forks are open; or `timeout` is not a valid time.
            SpawnError: The fork could not be made, as where the directory was removed; nothing of the fork is left.
            AnyshellError: The session is closed, or the timeout was over.
        """
        seconds = check_seconds("timeout", timeout)
        if self._closed:
            raise AnyshellError("this session is closed: make another by Environment.session()")
        if self.shell.kind not in shells.FORKED:
            raise InvalidCommand(
                f"a session of {self.shell.name} cannot be forked: take shell='bash' or shell='zsh', or open another session"
            )
        forked = Session(
            self._runner,
            to_command("", None, None, kind=self.shell.kind),
            name=None,
            reach=self._reach,
            on_closed=self._on_closed,
            on_forked=self._on_forked,
            forked=True,
        )
        forked._spawn = self._spawn
        self._on_forked(forked)
        try:
            name = f"fork{secrets.token_hex(5)}"
            await forked._become(await self._told(name, seconds), name, self.directory)
        except BaseException:
            await forked.aclose()
            raise
        return forked

    async def _told(self, name: str, timeout: float | None) -> SessionShell:
        """Tell the shell to write its state under a name; return the shell."""
        turn = Turn(self._begin, variables=False, may_be_fresh=True, fork=name)
        control = Control()
        self._running.add(control)
        try:
            outcome = await run_own(turn, timeout, control)
        finally:
            self._running.discard(control)
            self._rest()
        if turn.problem:
            raise SpawnError(await turn.why_not())
        if outcome.exit_code != 0 or turn.shell is None:
            raise AnyshellError(f"the session was not forked: reading its state {_HOW_ENDED[outcome.status]}")
        return turn.shell

    async def _become(self, like: SessionShell, name: str, directory: str) -> None:
        """Start the shell of a fork with the state of another shell."""
        async with self._turn:
            self._shell = await self._started(like=(like, name))
            outcome = await run_own(Check(self._shell, like, name), START_SECONDS, Control())
            if outcome.exit_code != 0 or self._closed:
                raise SpawnError(
                    f"the session could not be forked: its directory {directory!r} may be gone, or what is defined there "
                    "cannot be read back; open another session"
                )
            self._directory = directory

    async def restart(self) -> None:
        """Stop the running commands, end the shell, and run the next command in a fresh shell.

        Processes that earlier commands have left running as jobs run on. A shell that cannot be killed is `abandoned`,
        within ten seconds.
        """
        await self._stop("the session was restarted")

    async def aclose(self) -> None:
        """Stop the running commands and end the shell. Closing twice does nothing.

        A shell that cannot be killed is `abandoned`, within ten seconds.
        """
        self._closed = True
        self._on_closed(self)
        await self._stop()

    async def _stop(self, why: str = "") -> None:
        if self._idle is not None:
            self._idle.cancel()
        for control in tuple(self._running):
            control.cancel()
            control.cancel()
        await to_the_end(self._end(why), stop=lambda: None)

    async def _end(self, why: str) -> None:
        """End the shell by ``exit``, so that its own traps run; leave no process that the traps start."""
        async with self._turn:
            shell, self._shell = self._shell, None
            if shell is None:
                return
            self._fresh, self._directory = why, None
        if not shell.ended:
            # The shell, or its private directory, may be gone: then the shell is ended without its traps.
            with contextlib.suppress(SpawnError, ShellGone):
                await run_own(Exit(shell), END_SECONDS, Control())
        await self._close(shell)

    async def _close(self, shell: SessionShell) -> None:
        try:
            await shell.aclose()
        finally:
            if (gate := self._gates.pop(shell, None)) is not None:
                await to_the_end(gate.aclose(), stop=lambda: None)
        self._abandoned = [*self._abandoned, *shell.abandoned, *shell.left][-MOST_ABANDONED:]
        if shell.abandoned:
            shells = [each for each in shell.abandoned if each.pid == shell.info.pid] or shell.abandoned[:1]
            named = f"{shells[0].name} (pid {shells[0].pid})"
            self._fresh = f"the shell of the session could not be killed and was abandoned: {named}"

    def _rest(self) -> None:
        """Restart the idle timer, which ends the shell of a named session after a long time without use."""
        if self._idle is not None:
            self._idle.cancel()
        if self._name is not None and not self._closed:
            self._idle = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._give_up)

    def _give_up(self) -> None:
        if not self._running and self._shell is not None:
            why = f"the session was idle for {IDLE_SECONDS / 60:g} minutes"
            self._closing = asyncio.get_running_loop().create_task(self._end(why))

    async def _begin(
        self, spawn: Spawn, turn: Turn, *, variables: bool, may_be_fresh: bool, fork: str
    ) -> tuple[SessionProcess, SessionShell]:
        """Start a command when it is the command's turn; return its process and its shell. For a `Turn`."""
        await self._turn.acquire()
        try:
            if turn.looks is not None:
                await turn.looks.begin()
            try:
                shell, process = await self._given(
                    spawn, variables=variables, may_be_fresh=may_be_fresh, fork=fork
                )
            except ShellGone:  # killed since the last command; this command has not reached the shell
                shell, process = await self._given(
                    spawn, variables=variables, may_be_fresh=may_be_fresh, fork=fork
                )
        except ShellGone:
            self._turn.release()
            raise SpawnError("the session's shell ends as soon as it is started") from None
        except BaseException:
            self._turn.release()
            raise
        turn.release = self._turn.release
        process.on_over = partial(self._over, process, turn)
        if process.over.done():
            self._over(process, turn)
        if spawn.cwd:
            if spawn.on_asked is not None:
                spawn.on_asked(process)
            try:
                await shielded(process.begun)
            except BaseException:
                if spawn.on_asked is None:
                    await to_the_end(process.aclose(), stop=lambda: None)
                raise
            if process.problem:
                await process.aclose()
                raise InvalidCommand(f"cwd {spawn.cwd!r} cannot be used: the shell cannot change to it")
        return process, shell

    async def _given(
        self, spawn: Spawn, *, variables: bool, may_be_fresh: bool, fork: str
    ) -> tuple[SessionShell, SessionProcess]:
        """Give a command to the session's shell; a relative directory counts from the shell's present one."""
        shell = await self._living(may_be_fresh)
        if fork:
            texts = shell.fork(fork)
            spawn = replace(spawn, script=texts.tell())
            return shell, await shell.run(spawn, variables=False, own=texts.line())
        if spawn.cwd:
            spawn = replace(spawn, cwd=await self._runner.place(spawn.cwd, self.directory))
        gate = self._gates.get(shell)
        record = None if gate is None else await gate.belongs()
        process = await shell.run(spawn, variables=variables)
        if record is not None:
            process.network = record.network
        return shell, process

    async def _living(self, may_be_fresh: bool) -> SessionShell:
        """Return the session's shell; start a fresh shell if that one is gone."""
        if self._shell is not None:
            if self.alive:
                return self._shell
            self._fresh = self._fresh or "the shell of the session was gone"
            self._directory = None
            shell, self._shell = self._shell, None
            await to_the_end(self._close(shell), stop=lambda: None)  # no other task holds this shell now
        if not may_be_fresh:
            raise AnyshellError(
                "the shell of the session is gone, and the command was not to run in a fresh one"
            )
        self._directory = None
        self._shell = await self._started()
        self._shell.fresh, self._fresh = self._fresh, ""
        return self._shell

    async def _started(self, like: tuple[SessionShell, str] | None = None) -> SessionShell:
        runner = self._runner
        try:
            with shortage_as_spawn_error():
                shell = await SessionShell.start(
                    runner.backend,
                    runner.shell,
                    self._spawn,
                    prefix=runner.prefix,
                    snapshot=None if like else runner.snapshot,
                    confine=self._confined,
                    like=like,
                )
        except BaseException:
            if (gate := self._gates.pop(None, None)) is not None:
                await to_the_end(gate.aclose(), stop=lambda: None)
            raise
        if (gate := self._gates.pop(None, None)) is not None:
            self._gates[shell] = gate
        return shell

    async def _confined(self, spawn: Spawn) -> Spawn:
        """Put the sandbox around the shell's start, and serve the sandbox's network if it has a gate."""
        spawn = self._runner.confine(spawn, reach=self._reach)
        if spawn.gate is not None:
            self._gates[None] = spawn.gate
            await spawn.gate.open(self._runner.backend)
        return spawn

    def _over(self, process: SessionProcess, turn: Turn) -> None:
        state = process.state
        if state == "kept":
            self._directory = process.ended.result().directory or self._directory
        else:
            self._directory = None
            self._fresh = f"{_WHAT_ENDED[state, process.away]} ended the shell of the session"
        turn.ended()


_WHAT_ENDED = {
    ("ended", False): "the command before",
    ("lost", False): "a stop",
    ("lost", True): "the loss of its host",
}


_HOW_ENDED: Mapping[Status, str] = {
    "exited": "failed",
    "timed_out": "took longer than the timeout",
    "cancelled": "was cancelled",
    "lost": "ended with its host",
}


def _check_reserved(command: Command) -> None:
    if not (command.env or command.unset):
        return
    if taken := sorted(shells.RESERVED & (command.env.keys() | command.unset)):
        raise InvalidCommand(
            f"{', '.join(taken)}: anyshell uses that in a session's shell; choose another name"
        )
