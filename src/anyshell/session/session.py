"""A persistent shell: directory, variables, functions, aliases and options last from one command to the next.

A session spawns `Process`es as a backend does, so the engine runs its commands like any other: `Turn` waits until it is
the command's turn, has a shell, and gives it the text; what comes back is a `SessionProcess`, whose output is a pipe of
its own, whose tree is a `CommandTree` of the shell's, and whose end is what the shell says.
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
"""Seconds without use after which the shell of a session with a name is ended."""

MOST_ABANDONED = 64
"""Processes of abandoned shells that one session remembers."""


class Session(AsyncOnly):
    """A shell that lasts. `Environment.session` makes it; it is started by its first command.

    One command runs at a time: others wait their turn, and their clock runs meanwhile.
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
        """Take what its shells are started with.

        Args:
            runner: Runs its commands, where its shells run.
            command: Where they begin, and with which variables; the text does not count.
            name: The name by which it is shared; ``None`` when it is its owner's alone.
            reach: The reach of its shells; ``None`` is the reach of the environment.
            on_closed: Called when it is closed.
            on_forked: Called with a fork of it when that is begun; may refuse it.
            forked: Whether it is a fork.

        Raises:
            InvalidCommand: A variable by which its shells are led.
        """
        _check_reserved(command)
        self._runner = runner
        self._spawn = replace(runner.spawn_of(command, RunOptions(reach=reach), confined=False), script=None)
        self._reach = reach
        self._name = name
        self._on_closed, self._on_forked = on_closed, on_forked
        self.forked = forked
        """Whether it is a fork of another."""
        self._shell: SessionShell | None = None
        self._gates: dict[SessionShell | None, Gate] = {}  # that of a shell which is being started is by None
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
        """The default directory of the next command: where the last one left the shell; of a fresh one, its start."""
        return (self._directory if self.alive else None) or self._spawn.cwd

    @property
    def alive(self) -> bool:
        """Whether its shell runs, as far as is known, and so has what earlier commands have set up."""
        return self._shell is not None and not self._shell.ended and not self._shell.doomed

    @property
    def abandoned(self) -> Sequence[ProcessInfo]:
        """Shells of it that could not be killed, with what each had started; they may still run. The last `MOST_ABANDONED`.

        Such a shell is frozen by a control group, waits in the kernel, or was given to another user by a set-uid prefix. Of a
        shell that has ended, what could not be killed of its process group.
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
            command: Text in the shell's own language, of any size; or a list of a program and its arguments, or `sh`, whose words are
                quoted for that shell.
            cwd: The directory to which the shell goes first, and in which it stays; relative to where it is. Must be there.
            env: Variables that are exported first, and stay.
            stdin: Its input; by default end-of-file at once.
            timeout: Seconds from now, the wait for its turn included, until what it has started is stopped.
            silence: As for `Environment.run`; counts from its turn.
            grace: Seconds between the request to end and the kill.
            left_behind: The fate of processes that outlive the command, as for `Environment.run`.
            split_stderr: Two texts.
            stdout: As for `Environment.run`.
            variables: Whether the outcome's session report tells what it did to the exported variables.
            may_be_fresh: Whether it may run in a fresh shell. Otherwise it counts on what earlier commands have set up,
                and is not run when their shell is gone.
            listener: Is given every piece of output as it comes, and is awaited: a slow one slows the command down.
            record: A new file into which what it prints is recorded, as for `Environment.run`.
            limits: The limits of its output's text, as for `Environment.run`.
            effects: As for `Environment.run`. Both looks belong to its turn, so that no other command of the session comes
                between them; the time counts from now, with the first one.
            control: Stops the command from another task, as for `Environment.run`.

        Returns:
            As `Environment.run` does, with a `SessionReport`. The shell's state is kept when a command is stopped, as
            far as that is certain; otherwise the report says that it is lost.

        Raises:
            InvalidCommand: Bad input, before anything of the command ran.
            SpawnError: The shell could not be started.
            RecordingError: The file of the recording cannot be made, or there is one already.
            AnyshellError: The session is closed; or its shell is gone, and the command may not run in a fresh one.
            asyncio.CancelledError: After everything that it has started is gone.
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
        # The turn is the spawner of the engine: it waits until the shell is free, so the clock of this run covers the wait.
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
        from .._runner.effects import Looks  # here, since few runs are looked at

        return Looks(self._runner.backend, self._runner.info, scan, self._runner.directory)

    async def interrupt(self) -> bool:
        """Interrupt the command that runs now, as ^C does at a prompt: SIGINT to what it has started; the shell is kept.

        What has come to its end by that, or runs in the shell itself, is followed by nothing more of the text, and the exit
        code is 130. A program that handles SIGINT, or ignores it, goes on, and its command with it: call again, or stop the
        command. Where a text has set traps or options that `run` could stop only by replacing the shell, the programs
        alone are interrupted, and the text goes on. In bash, a command substitution that SIGINT ends takes the shell with it, as
        in a script: the outcome says ``ended``. On Windows programs are ended at once.

        Commands that wait for their turn are not interrupted.

        Returns:
            Whether a command ran.
        """
        process = None if self._shell is None else self._shell.current
        if process is not None:
            await process.interrupt()
        return process is not None

    async def fork(self, *, timeout: Seconds | None = None) -> Session:
        """Make a second session whose shell is what this one's is now, so that two ways can be tried side by side.

        The fork has the directory and the stack of directories, variables of every kind, functions, aliases, options, traps,
        umask, limits and positional parameters. It has neither open descriptors nor jobs, history and key bindings; ``$!`` and
        the hash table of programs are empty, and of zsh the modules and styles are those of a fresh shell. From then on neither
        knows of the other. Files are shared.

        Args:
            timeout: Seconds from now, the wait for a command that runs included.

        Returns:
            A session without a name, which goes on when this one is closed. Close it, as by ``async with``.

        Raises:
            InvalidCommand: The shell is neither bash nor zsh; too many forks are open; or `timeout` is no time.
            SpawnError: It could not be made a fork, as where the directory was removed; nothing of it is left.
            AnyshellError: The session is closed, or the time was over.
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
        """Have the shell tell its state by a name."""
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
            raise AnyshellError(
                f"the session was not forked: that it tells its state {_HOW_ENDED[outcome.status]}"
            )
        return turn.shell

    async def _become(self, like: SessionShell, name: str, directory: str) -> None:
        """Start the shell of a fork."""
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
        """Stop what runs, end the shell, and begin the next command in a fresh one.

        What earlier commands have left running as jobs goes on. A shell that cannot be killed is `abandoned`, within ten
        seconds.
        """
        await self._stop("the session was restarted")

    async def aclose(self) -> None:
        """Stop what runs and end the shell. Closing twice does nothing.

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
        """End the shell as ``exit`` does, so that its own traps run, and leave nothing that those start."""
        async with self._turn:
            shell, self._shell = self._shell, None
            if shell is None:
                return
            self._fresh, self._directory = why, None
        if not shell.ended:
            # Its private directory may be gone, or itself: then it is ended without its traps.
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
        """Close the shell when it was unused for long."""
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
        """Start a command when it is its turn, and say in which shell. For a `Turn`."""
        await self._turn.acquire()
        try:
            if turn.looks is not None:
                await turn.looks.begin()
            try:
                shell, process = await self._given(
                    spawn, variables=variables, may_be_fresh=may_be_fresh, fork=fork
                )
            except ShellGone:  # it was killed since the last command, and this one has not reached it
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
                raise InvalidCommand(f"cwd {spawn.cwd!r} cannot be used: the shell does not change to it")
        return process, shell

    async def _given(
        self, spawn: Spawn, *, variables: bool, may_be_fresh: bool, fork: str
    ) -> tuple[SessionShell, SessionProcess]:
        """Give a command to the session's shell, relative to where that is by now."""
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
        """The session's shell, or a fresh one."""
        if self._shell is not None:
            if self.alive:
                return self._shell
            self._fresh = self._fresh or "the shell of the session was gone"
            self._directory = None
            shell, self._shell = self._shell, None
            await to_the_end(self._close(shell), stop=lambda: None)  # nothing else has it any more
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
        """Have the sandbox stand before the shell, and serve its network, if it has one for it."""
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
        raise InvalidCommand(f"{', '.join(taken)}: a session's shell is led by that; choose another name")
