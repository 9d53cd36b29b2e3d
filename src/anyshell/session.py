"""A persistent shell: directory, variables, functions, aliases and options last from one command to the next.

A session spawns `Process`es as a backend does, so the engine runs its commands like any other: `_Turn` waits until it is
the command's turn, has a shell, and gives it the text; what comes back is a `_SessionProcess`, whose output is a pipe of
its own, whose tree is a `Section` of the shell's, and whose end is what the shell says.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import anyio

from . import _engine, shells
from ._engine import Control
from ._exceptions import AnyshellError, InvalidCommand, SpawnError
from ._types import ExitStatus, ProcessInfo, SessionReport, Spawn
from ._waits import to_the_end
from .output import OutputBuilder

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Awaitable, Callable, Mapping, Sequence
    from os import PathLike
    from types import TracebackType
    from typing import Literal

    from anyio.abc import ByteReceiveStream, ByteSendStream

    from ._types import Channel, LeftBehind, Outcome, ShellInfo, Signal
    from .abc import Backend, Exchange, Inlet, Outlet, Process, Program, Section

INTERRUPT_AGAIN = 0.02
"""Seconds after which a shell that has not come back is interrupted once more."""

REPLACE_SECONDS = 0.1
"""Seconds after the kill of what a command has started in which its shell must be back; otherwise it is replaced."""

START_SECONDS = 30.0
"""How long a prefix may take to start the shell."""

END_SECONDS = 2.0
"""How long a shell may take to end when its session is closed: traps of its own run first."""

IDLE_SECONDS = 1800.0
"""How long the shell of a session with a name is kept when nobody wants it."""

LAST_WORDS_SECONDS = 0.1
"""How long a shell that has ended is listened to, while something that it started goes on holding its stream."""

LONGEST_RECORD = 16 * 1024 * 1024
"""Bytes of what a shell says of one command, its variables above all. A shell that says more is replaced."""

_OURS = ("ANYSHELL_", "BASH_FUNC_")
_CHANGING = frozenset({"PWD", "OLDPWD", "SHLVL", "_"})


class Session:
    """A shell that lasts. `Environment.session` makes it; it is started by its first command.

    One command runs at a time: others wait their turn, and their clock runs meanwhile.
    """

    def __init__(
        self,
        backend: Backend,
        shell: ShellInfo,
        spawn: Spawn,
        *,
        prefix: shells.Prefix | None,
        snapshot: str | None,
        name: str | None,
        execute: Callable[..., Awaitable[Outcome]],
        on_closed: Callable[[Session], object],
    ) -> None:
        """Take what its shells are started with.

        Args:
            backend: Where they run.
            shell: Which shell it is.
            spawn: Their surroundings; its argv does not count.
            prefix: What runs them.
            snapshot: The file on the host with the user's own set-up, which they begin with.
            name: What it is shared by; ``None`` when it is its owner's alone.
            execute: Runs a command by a spawner, as `Environment.run` does.
            on_closed: Called when it is closed.
        """
        self._backend = backend
        self._shell_info = shell
        self._spawn = spawn
        self._prefix = prefix
        self._snapshot = snapshot
        self._name = name
        self._execute = execute
        self._on_closed = on_closed
        self._shell: _Shell | None = None
        self._turn = asyncio.Lock()
        self._fresh = ""
        self._directory: str | None = None
        self._running: set[Control] = set()
        self._idle: asyncio.TimerHandle | None = None
        self._closing: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def name(self) -> str | None:
        """What it is shared by; ``None`` when it is its owner's alone."""
        return self._name

    @property
    def shell(self) -> ShellInfo:
        """Which shell it is."""
        return self._shell_info

    @property
    def directory(self) -> str:
        """Where the next command begins that says nothing of it: where the last one left the shell; of a fresh one, its start."""
        return (self._directory if self.alive else None) or self._spawn.cwd

    @property
    def alive(self) -> bool:
        """Whether its shell runs, as far as is known, and so has what earlier commands have set up."""
        return self._shell is not None and not self._shell.ended

    async def __aenter__(self) -> Session:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._name is None:
            await self.aclose()

    async def run(
        self,
        command: str,
        *,
        cwd: str | PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes | str | AsyncIterable[bytes] | None = None,
        timeout: float | None = None,
        grace: float = 2.0,
        left_behind: LeftBehind | None = None,
        split_stderr: bool = False,
        variables: bool = False,
        may_be_fresh: bool = True,
        listener: Callable[[Channel, bytes], Awaitable[None]] | None = None,
    ) -> Outcome:
        """Run a command in the session's shell and wait for its end.

        Args:
            command: Text in the shell's own language, of any size.
            cwd: Where the shell goes first, and stays; relative to where it is. Must be there.
            env: Variables that are exported first, and stay.
            stdin: What it reads; by default end-of-file at once.
            timeout: Seconds from now, the wait for its turn included, until what it has started is stopped.
            grace: Seconds between the request to end and the kill.
            left_behind: What becomes of processes that outlive the command, as for `Environment.run`.
            split_stderr: Two texts.
            variables: Whether the outcome's session report tells what it did to the exported variables.
            may_be_fresh: Whether it may run in a fresh shell. Otherwise it counts on what earlier commands have set up,
                and is not run when their shell is gone.
            listener: Is given every piece of output as it comes, and is awaited: a slow one slows the command down.

        Returns:
            As `Environment.run` does, with a `SessionReport`. The shell's state is kept when a command is stopped, as
            far as that is certain; otherwise the report says that it is lost.

        Raises:
            InvalidCommand: Bad input, before anything of the command ran.
            SpawnError: The shell could not be started.
            AnyshellError: The session is closed; or its shell is gone, and the command may not run in a fresh one.
            asyncio.CancelledError: After everything that it has started is gone.
        """
        if self._closed:
            raise AnyshellError("this session is closed: make another by Environment.session()")
        turn = _Turn(self, variables=variables, may_be_fresh=may_be_fresh)
        control = Control()
        self._running.add(control)
        try:
            outcome = await self._execute(
                turn,
                command,
                session=self,
                cwd=cwd,
                env=env,
                stdin=stdin,
                timeout=timeout,
                grace=grace,
                left_behind=left_behind,
                split_stderr=split_stderr,
                listener=listener,
                control=control,
            )
        finally:
            self._running.discard(control)
            self._rest()
        if turn.problem:
            raise SpawnError(
                "the session's shell could not begin the command: its private directory on the host is gone, or there "
                "is no room left; restart() the session"
            )
        return replace(outcome, session=turn.report())

    async def restart(self) -> None:
        """Stop what runs, end the shell, and begin the next command in a fresh one.

        What earlier commands have left running as jobs goes on.
        """
        await self._stop()
        self._fresh = "the session was restarted"

    async def aclose(self) -> None:
        """Stop what runs and end the shell. Closing twice does nothing."""
        self._closed = True
        self._on_closed(self)
        await self._stop()

    async def _stop(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
        for control in tuple(self._running):
            control.cancel()
            control.cancel()
        await to_the_end(self._end(), stop=lambda: None)

    async def _end(self) -> None:
        """End the shell as ``exit`` does, so that its own traps run, and leave nothing that those start."""
        async with self._turn:
            shell, self._shell = self._shell, None
        if shell is None:
            return
        if not shell.ended:
            # Its private directory may be gone, or itself: then it is ended without its traps.
            with contextlib.suppress(SpawnError, _ShellGone):
                await _engine.run(
                    _Exit(shell),
                    Spawn(argv=(), script="exit", cwd=""),
                    output=OutputBuilder(head=0, tail=0, max_line=1),
                    timeout=END_SECONDS,
                    grace=0,
                )
        await shell.aclose()

    def _rest(self) -> None:
        """Close the shell when nobody wants it for long."""
        if self._idle is not None:
            self._idle.cancel()
        if self._name is not None and not self._closed:
            self._idle = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._give_up)

    def _give_up(self) -> None:
        if not self._running and self._shell is not None:
            self._fresh = f"the session was idle for {IDLE_SECONDS / 60:g} minutes"
            self._closing = asyncio.get_running_loop().create_task(self._end())

    async def _begin(
        self, spawn: Spawn, *, variables: bool, may_be_fresh: bool
    ) -> tuple[_SessionProcess, str]:
        """Start a command when it is its turn; and why it has a fresh shell, if it has. For `_Turn` alone."""
        await self._turn.acquire()
        try:
            try:
                process = await (await self._living(may_be_fresh)).run(spawn, variables=variables)
            except _ShellGone:  # it was killed since the last command, and this one has not reached it
                process = await (await self._living(may_be_fresh)).run(spawn, variables=variables)
        except BaseException:
            self._turn.release()
            raise
        fresh, self._fresh = self._fresh, ""
        process.ended.add_done_callback(partial(self._over, process))
        if spawn.cwd:
            try:
                await asyncio.shield(process.begun)
            except BaseException:
                await to_the_end(process.aclose(), stop=lambda: None)
                raise
            if process.problem:
                await process.aclose()
                raise InvalidCommand(f"cwd {spawn.cwd!r} cannot be used: the shell does not change to it")
        return process, fresh

    async def _living(self, may_be_fresh: bool) -> _Shell:
        """The session's shell, or a fresh one."""
        if self._shell is not None and not self._shell.ended:
            return self._shell
        if self._shell is not None:
            await self._shell.aclose()
            self._shell = None
            self._fresh = self._fresh or "the shell of the session was gone"
        if not may_be_fresh:
            raise AnyshellError(
                "the shell of the session is gone, and the command was not to run in a fresh one"
            )
        self._directory = None
        self._shell = await _Shell.start(
            self._backend, self._shell_info, self._spawn, prefix=self._prefix, snapshot=self._snapshot
        )
        return self._shell

    def _over(self, process: _SessionProcess, ended: asyncio.Future[_End]) -> None:
        end = ended.result()
        self._directory = end.directory or (None if end.shell_ended else self._directory)
        if end.shell_ended:
            self._fresh = (
                f"{_WHAT_ENDED[process.state, end.status == ExitStatus()]} ended the shell of the session"
            )
        self._turn.release()


_WHAT_ENDED = {
    ("ended", False): "the command before",
    ("lost", False): "a stop",
    ("lost", True): "the loss of its host",
}


class _ShellGone(Exception):  # noqa: N818 - it is no error, and never leaves this module
    """The shell has ended before a command could be given to it."""


class _Turn:
    """Starts one command of a session when it is its turn."""

    def __init__(self, session: Session, *, variables: bool, may_be_fresh: bool) -> None:
        self._session = session
        self._variables = variables
        self._may_be_fresh = may_be_fresh
        self._process: _SessionProcess | None = None
        self._fresh = ""

    async def spawn(self, spawn: Spawn) -> Process:
        """Start the text that is a spawn's `script`; its argv does not count, and an empty `cwd` is where the shell is."""
        self._process, self._fresh = await self._session._begin(
            spawn, variables=self._variables, may_be_fresh=self._may_be_fresh
        )
        return self._process

    @property
    def problem(self) -> str:
        """Why the shell did not begin with it; empty when it did."""
        return "" if self._process is None else self._process.problem

    def report(self) -> SessionReport | None:
        """What the command did to the session; ``None`` when it never began."""
        process = self._process
        if process is None or not process.ended.done():
            return None
        return SessionReport(
            state=process.state,
            directory=process.ended.result().directory,
            fresh=self._fresh,
            variables=process.changes() if self._variables else None,
        )


class _Exit:
    """Starts the last command of a shell."""

    def __init__(self, shell: _Shell) -> None:
        self._shell = shell

    async def spawn(self, spawn: Spawn) -> Process:
        """Start it, whoever's turn it is."""
        return await self._shell.run(spawn, variables=False)


@dataclass(frozen=True, slots=True)
class _End:
    """How a command ended, as its shell, or the shell's own end, says."""

    status: ExitStatus
    shell_ended: bool = False
    directory: str | None = None
    problem: str = ""


class _SessionProcess:
    """One command of a persistent shell, with everything that it has started."""

    def __init__(
        self,
        shell: _Shell,
        section: Section,
        number: int,
        *,
        stdout: Outlet,
        stderr: Outlet | None,
        stdin: Inlet | None,
    ) -> None:
        self._shell = shell
        self._section = section
        self.number = b"%d" % number
        """What the shell calls it."""
        self._outlets = [stdout] if stderr is None else [stdout, stderr]
        self._stdin = stdin
        self._signalled = False
        self._killed_at: float | None = None
        self._released = False
        self._closed = False
        loop = asyncio.get_running_loop()
        self.begun: asyncio.Future[None] = loop.create_future()
        self.ended: asyncio.Future[_End] = loop.create_future()
        self._waiting: asyncio.Future[None] | None = None

    @property
    def pid(self) -> int | None:
        """The shell's."""
        return self._shell.info.pid

    @property
    def stdin(self) -> ByteSendStream | None:
        """What the command reads, if a pipe was asked for."""
        return None if self._stdin is None else self._stdin.stream

    @property
    def stdout(self) -> ByteReceiveStream:
        """What it prints."""
        return self._outlets[0].stream

    @property
    def stderr(self) -> ByteReceiveStream | None:
        """What it prints there, if the channels were split."""
        return self._outlets[1].stream if len(self._outlets) > 1 else None

    @property
    def problem(self) -> str:
        """Why the shell did not begin with it, in a word of ours; empty when it did."""
        return self.ended.result().problem if self.ended.done() else ""

    def changes(self) -> Mapping[str, str | None] | None:
        """What it did to the exported variables; ``None`` when that was not asked or not told."""
        return self._shell.changes()

    @property
    def state(self) -> Literal["kept", "ended", "lost"]:
        """What it did to its shell, once it has ended."""
        end = self.ended.result()
        if not end.shell_ended:
            return "kept"
        return "lost" if self._signalled or end.status == ExitStatus() else "ended"

    def set_ended(self, end: _End) -> None:
        """Say how it ended. For its shell alone."""
        if not self.ended.done():
            for outlet in self._outlets:
                outlet.command_ended()
            self.ended.set_result(end)
            if self._waiting is not None and not self._waiting.done():
                self._waiting.set_result(None)
        if not self.begun.done():
            self.begun.set_result(None)

    async def wait(self) -> ExitStatus:
        """Wait until the shell says that the command has ended, or has ended itself."""
        if not self.ended.done():
            self._waiting = asyncio.get_running_loop().create_future()  # who waits may be cancelled
            try:
                await self._waiting
            finally:
                self._waiting = None
        return self.ended.result().status

    async def send_signal(self, signal: Signal) -> None:
        """Have the shell go no further with the text, and signal what the text has started."""
        self._signalled = True
        if not self.ended.done():
            await self._interrupt()
        await self._section.send_signal(signal)
        if signal == "kill" and not self.ended.done():
            now = time.monotonic()
            if self._killed_at is None:
                self._killed_at = now
            if now - self._killed_at >= REPLACE_SECONDS:
                await self._section.kill_shell()

    async def survivors(self) -> Sequence[ProcessInfo]:
        """What lives of what it has started, and the shell as long as that is busy with it."""
        over = self.ended.done()
        if over and not self._signalled and all(outlet.ended for outlet in self._outlets):
            return ()
        try:
            members = await self._section.members()
            if not members and self._signalled:
                members = await self._section.members()  # who forks all the time can be missed once
        except OSError:  # out of descriptors: who cannot look must not say that nobody is there
            return [self._shell.info]
        return members if self.ended.done() else [*members, self._shell.info]

    async def wait_gone(self) -> None:
        """Wait until nothing of it is alive and the shell is back; interrupt that again as long as it is not."""
        while await self.survivors():
            if self._signalled and not self.ended.done():
                await self._interrupt()
            with anyio.move_on_after(INTERRUPT_AGAIN):
                if self.ended.done():
                    await asyncio.sleep(INTERRUPT_AGAIN)
                else:
                    await asyncio.shield(self.ended)

    async def _interrupt(self) -> None:
        if self._shell.interruptible:
            await self._section.interrupt()
        else:
            await self._section.kill_shell()

    async def release(self) -> None:
        """Let what lives go on, and keep its writes from failing."""
        self._released = True
        for outlet in self._outlets:
            outlet.discard()

    async def aclose(self) -> None:
        """Kill what is left of it, and the shell if that is still busy with it."""
        if self._closed:
            return
        self._closed = True
        if self._stdin is not None:
            self._stdin.close()
        if self._released:
            return
        with anyio.move_on_after(REPLACE_SECONDS * 5):
            while await self.survivors():
                await self.send_signal("kill")
                await asyncio.sleep(INTERRUPT_AGAIN)
        for outlet in self._outlets:
            outlet.close()


class _Shell:
    """A shell that runs, and what it says."""

    def __init__(self, process: Program, exchange: Exchange, speak: shells.Conversation, name: str) -> None:
        self.process = process
        self.info = _info(process, name)
        self._exchange = exchange
        self._speak = speak
        self._numbers = itertools.count(1)
        self._current: _SessionProcess | None = None
        self._status = 0
        self._dumps: list[dict[str, str]] = []
        self._entries: list[bytes] | None = None
        self.ended = False
        self.interruptible = True
        """Whether an interrupt is sure to keep it from running what is left of a text."""
        self._pid: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._careful = False
        self._back: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._back.set_result(None)
        self._listening = asyncio.get_running_loop().create_task(self._listen())

    @classmethod
    async def start(
        cls,
        backend: Backend,
        shell: ShellInfo,
        spawn: Spawn,
        *,
        prefix: shells.Prefix | None,
        snapshot: str | None,
    ) -> _Shell:
        """Start a shell with what `spawn` says but for its argv.

        Args:
            backend: Where.
            shell: Which.
            spawn: Its surroundings.
            prefix: What runs the shell.
            snapshot: The file of the user's own set-up that it begins with.

        Raises:
            SpawnError, InvalidCommand: From the backend: nothing was started.
        """
        exchange = await backend.exchange()
        try:
            speak = shells.Conversation(shells.SHELLS[shell.kind], exchange.directory)
            argv = speak.argv(shell) if prefix is None else prefix.wrap(speak.argv(shell))
            process = await backend.spawn(replace(spawn, argv=argv, stdin=True, split_stderr=True))
        except BaseException:
            with anyio.CancelScope(shield=True):
                await exchange.aclose()
            raise
        started = cls(process, exchange, speak, shell.kind)
        lines = speak.begin()
        if snapshot is not None:
            lines += shells.SHELLS[shell.kind].load(snapshot) + "\n"
        if prefix is not None:
            lines += speak.tell_pid()
        try:
            await started._tell(lines)
            if prefix is not None:
                await started._told_pid()
        except BaseException:
            await to_the_end(started.aclose(), stop=lambda: None)
            raise
        return started

    async def _told_pid(self) -> None:
        """Learn which process is the shell: a prefix may have started it rather than become it."""
        try:
            async with asyncio.timeout(START_SECONDS):
                await asyncio.wait([self._pid, self._listening], return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError as error:
            raise SpawnError(f"the prefix has not started the shell within {START_SECONDS:g} s") from error
        if not self._pid.done():
            raise SpawnError(
                "the prefix has not started the shell: try it with Environment.run(), which shows what it says"
            )

    async def run(self, spawn: Spawn, *, variables: bool) -> _SessionProcess:
        """Have it run a text: the `script` of a spawn, whose argv does not count.

        Raises:
            SpawnError: No pipe could be made for it.
            _ShellGone: It has ended, and has heard nothing of it.
        """
        assert spawn.script is not None
        if not self._back.done():
            await asyncio.wait((self._back, self._listening), return_when=asyncio.FIRST_COMPLETED)
        if self.ended:  # by the command before, after it had ended: this one was never given to it
            raise _ShellGone
        self._careful = self._careful or self._speak.needs_care(spawn.script)
        stack = contextlib.ExitStack()
        with stack:
            try:
                stdout = await self._exchange.outlet()
                stack.callback(stdout.close)
                stderr = await self._exchange.outlet() if spawn.split_stderr else None
                if stderr is not None:
                    stack.callback(stderr.close)
                stdin = await self._exchange.inlet() if spawn.stdin else None
                section = self.process.section(stdout.path, self._speak.life_fd, shell=self.info.pid)
                frame = shells.Frame(
                    number=next(self._numbers),
                    mark=section.mark,
                    tag=section.tag,
                    stdout=stdout.path,
                    stderr=None if stderr is None else stderr.path,
                    stdin=None if stdin is None else stdin.path,
                    status=self._status,
                    cwd=spawn.cwd or None,
                    env=spawn.env,
                    variables=variables,
                    careful=self._careful,
                )
                ask = self._speak.may_not_come_back(spawn.script, careful=self._careful)
                line = await self._written(frame.number, self._speak.run(frame), spawn.script, ask=ask)
            except OSError as error:
                raise SpawnError(
                    f"the session cannot take a command: {error.strerror or error}; if its private directory "
                    f"{self._exchange.directory} is gone or full, restart() the session"
                ) from error
            stack.pop_all()
        command = _SessionProcess(self, section, frame.number, stdout=stdout, stderr=stderr, stdin=stdin)
        self._current = command
        self._dumps = []
        self.interruptible = self.interruptible and self._speak.stays_interruptible(spawn.script)
        if ask:
            self._back = asyncio.get_running_loop().create_future()
        try:
            told = await self._tell(line)
        except BaseException:  # it may have come through
            await to_the_end(command.aclose(), stop=lambda: None)
            raise
        if not told:
            self._current = None
            command.set_ended(_End(ExitStatus(), shell_ended=True))
            await command.aclose()
            await self._gone()
            raise _ShellGone
        return command

    async def _written(self, number: int, run: str, command: str, *, ask: bool) -> str:
        """Bring a command to the shell's directory, as far as that is better than to send it in the line; the line."""
        longest = self._exchange.longest_line
        if len(command) * 4 <= longest:
            return self._speak.line(number, run, command, ask=ask)
        await self._exchange.write("command", command.encode(errors="surrogateescape"))
        if len(run) * 4 <= longest:
            return self._speak.line(number, run, ask=ask)
        await self._exchange.write(self._speak.run_file(number), run.encode(errors="surrogateescape"))
        return self._speak.line(number, ask=ask)

    async def _tell(self, line: str) -> bool:
        """Write to it; whether it may have heard that."""
        assert self.process.stdin is not None
        try:
            await self.process.stdin.send(line.encode(errors="surrogateescape"))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return False
        return True

    async def _gone(self) -> None:
        """Nobody reads what it is told: it has ended, or ends now."""
        await self.process.send_signal("kill")
        with anyio.move_on_after(END_SECONDS):
            await asyncio.wait([self._listening])
        self.ended = True

    async def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        reading = loop.create_task(self._read())
        exiting = loop.create_task(self.process.wait())
        try:
            await asyncio.wait((reading, exiting), return_when=asyncio.FIRST_COMPLETED)
            # What an EXIT trap has started may have the stream, and keep it as long as it lives.
            await asyncio.wait((reading,), timeout=LAST_WORDS_SECONDS)
            status = await exiting
        finally:
            reading.cancel()
            exiting.cancel()
        self.ended = True
        if self._current is not None:
            self._current.set_ended(_End(status, shell_ended=True))
        if status == ExitStatus():  # the host is away: what runs there is to be stopped when it is back
            await self.process.aclose()
        else:
            await self.process.release()

    async def _read(self) -> None:
        assert self.process.stderr is not None
        held, size = b"", 0
        with contextlib.suppress(anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
            while size <= LONGEST_RECORD:
                data = await self.process.stderr.receive()
                size += len(data)
                *records, held = (held + data).split(b"\0")
                for record in records:
                    if self._heard(record):
                        size = 0
        if size > LONGEST_RECORD:
            await self.process.send_signal("kill")

    def _heard(self, record: bytes) -> bool:
        """Take one thing that the shell says; whether a command is over by that."""
        if self._entries is not None:
            if record:
                self._entries.append(record)
            else:
                self._dumps.append(_variables(self._entries))
                self._entries = None
            return False
        word, _, rest = record.partition(b" ")
        if word == b"back":
            if not self._back.done():
                self._back.set_result(None)
            return False
        if word == b"shell":
            self.info = replace(self.info, pid=int(rest))
            self._pid.set_result(None)
            return False
        number, _, rest = rest.partition(b" ")
        if self._current is None or number not in (self._current.number, b"0"):
            return False  # of a command that is over
        if word == b"variables":
            self._entries = []
        elif word == b"begun" and not self._current.begun.done():
            self._current.begun.set_result(None)
        elif word == b"ended":
            said, _, directory = rest.partition(b"\n")
            code, _, interrupted = said.partition(b" ")
            self._status = int(code) if code.isdigit() else 1
            status = ExitStatus(code=self._status) if not interrupted else ExitStatus()
            self._current.set_ended(
                _End(
                    status,
                    directory=directory.removesuffix(b"\n").decode("utf-8", "surrogateescape"),
                    problem="" if code.isdigit() or interrupted else code.decode(),
                )
            )
            return True
        return False

    def changes(self) -> Mapping[str, str | None] | None:
        """What the last command did to the exported variables; ``None`` when that was not asked or not told."""
        if len(self._dumps) != 2 or not all(self._dumps):
            return None
        before, after = self._dumps
        changed: dict[str, str | None] = {
            name: value for name, value in after.items() if before.get(name) != value
        }
        changed.update((name, None) for name in before if name not in after)
        return changed

    async def aclose(self) -> None:
        """End it, with nothing of it left."""
        if not self.ended:
            await self.process.aclose()
        with anyio.move_on_after(END_SECONDS):
            await asyncio.wait([self._listening])
        self._listening.cancel()
        await self._exchange.aclose()


def _info(process: Process, name: str) -> ProcessInfo:
    return ProcessInfo(process.pid or 0, name, 0.0)


def _variables(entries: Sequence[bytes]) -> dict[str, str]:
    pairs = (entry.decode("utf-8", "surrogateescape").partition("=") for entry in entries)
    return {name: value for name, _, value in pairs if not name.startswith(_OURS) and name not in _CHANGING}
