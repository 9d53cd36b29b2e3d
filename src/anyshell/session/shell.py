"""A shell that runs, what it is given, and what it says."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
import secrets
from dataclasses import replace
from typing import TYPE_CHECKING

import anyio

from .. import shells
from .._exceptions import SpawnError
from .._types import ExitStatus, ProcessInfo, Spawn
from .._waits import to_the_end
from .process import End, SessionProcess

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .._types import ShellInfo
    from ..abc import Backend, Exchange, Program, Section

START_SECONDS = 30.0
"""How long a prefix may take to start the shell."""

END_SECONDS = 2.0
"""How long a shell may take to end when its session is closed: traps of its own run first."""

LAST_WORDS_SECONDS = 0.1
"""How long a shell that has ended is listened to, while something that it started goes on holding its stream."""

LONGEST_RECORD = 16 * 1024 * 1024
"""Bytes of what a shell says of one command, its variables above all. A shell that says more is replaced."""

_NUMBER = re.compile(rb"-?\d+")
_OURS = ("ANYSHELL_", "BASH_FUNC_")
_CHANGING = frozenset({"PWD", "OLDPWD", "SHLVL", "_"})


class ShellGone(Exception):  # noqa: N818 - it is no error, and never leaves this module
    """The shell has ended before a command could be given to it."""


class Shell:
    """A shell that runs, and what it says."""

    def __init__(
        self,
        process: Program,
        exchange: Exchange,
        speak: shells.Conversation | shells.PowerShellConversation,
        name: str,
    ) -> None:
        self.process = process
        self.info = ProcessInfo(process.pid or 0, name, 0.0)
        self._exchange = exchange
        self._speak = speak
        self._numbers = itertools.count(1)
        self._current: SessionProcess | None = None
        self._section: Section | None = None
        self._status = 0
        self._entries: list[bytes] | None = None
        self.ended = False
        self.doomed = False
        """Whether it was killed, and may not know that yet."""
        self.fresh = ""
        """Why it is another than the one before, as long as nobody was told; empty for the first."""
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
    ) -> Shell:
        """Start a shell with what `spawn` says but for its argv.

        Args:
            backend: Where.
            shell: Which.
            spawn: Its surroundings.
            prefix: What runs the shell.
            snapshot: The file of the user's own set-up that it begins with.

        Raises:
            SpawnError, InvalidCommand: From the backend: nothing was started; or there are no sessions of that shell.
        """
        exchange = await backend.exchange()
        try:
            speak = shells.converse(shell, exchange.directory)
            argv = speak.argv(shell)
            if prefix is not None:
                argv = prefix.wrap(argv, on_windows=shell.on_windows)
            process = await backend.spawn(replace(spawn, argv=argv, stdin=True, split_stderr=True))
        except BaseException:
            with anyio.CancelScope(shield=True):
                await exchange.aclose()
            raise
        started = cls(process, exchange, speak, shell.kind)
        lines = speak.begin(snapshot)
        if prefix is not None:
            lines += speak.tell_pid()
        if prefix is None:
            started._pid.set_result(None)  # it is the program itself, whatever is said later
        try:
            if lines:
                await started._tell(lines)
            if prefix is not None:
                await started._told_pid()
            try:
                exchange.open_to(started.info.pid)
            except OSError as error:
                raise SpawnError(f"the session's shell cannot be given pipes: {error.strerror}") from error
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
        if self._pid.done() and self.info.pid not in {info.pid for info in await self.process.survivors()}:
            raise SpawnError(
                "the prefix runs the shell where its processes have other numbers, such as in a container: a session "
                "could not be stopped there; use Environment.run() behind such a prefix"
            )
        if not self._pid.done():
            raise SpawnError(
                "the prefix has not started the shell: try it with Environment.run(), which shows what it says"
            )

    async def run(self, spawn: Spawn, *, variables: bool) -> SessionProcess:
        """Have it run a text: the `script` of a spawn, whose argv does not count.

        Raises:
            SpawnError: No pipe could be made for it.
            ShellGone: It has ended, and has heard nothing of it.
        """
        assert spawn.script is not None
        if not self._back.done():
            await asyncio.wait((self._back, self._listening), return_when=asyncio.FIRST_COMPLETED)
        if self.ended:  # by the command before, after it had ended: this one was never given to it
            raise ShellGone
        self._careful = self._careful or self._speak.needs_care(spawn.script)
        stack = contextlib.ExitStack()
        with stack:
            try:
                stdout = await self._exchange.outlet()
                stack.callback(stdout.give_back)
                stderr = await self._exchange.outlet() if spawn.split_stderr else None
                if stderr is not None:
                    stack.callback(stderr.give_back)
                stdin = await self._exchange.inlet() if spawn.stdin else None
                if stdin is not None:
                    stack.callback(stdin.close)
                section = self._section = self.process.section(
                    stdout.path, self._speak.life_fd, shell=self.info.pid
                )
                frame = shells.Frame(
                    # Not to be guessed by a text that would say in the shell's stead how it ended.
                    number=secrets.randbits(60) << 1 | next(self._numbers) & 1,
                    mark=section.mark,
                    tag=section.tag,
                    stdout=stdout.path,
                    stderr=None if stderr is None else stderr.path,
                    stdin=None if stdin is None else stdin.path,
                    status=self._status,
                    begun=not self._exchange.retracts,
                    cwd=spawn.cwd or None,
                    env=spawn.env,
                    variables=variables,
                    pids=section.wants_pids,
                    careful=self._careful,
                )
                ask = self._speak.may_not_come_back(spawn.script, careful=self._careful)
                line = await self._written(frame.number, self._speak.run(frame), spawn.script, ask=ask)
            except BrokenPipeError:
                await self._gone()
                raise ShellGone from None
            except OSError as error:
                where = self._exchange.directory
                hint = f"if its private directory {where} is gone or full, " if where else ""
                raise SpawnError(
                    f"the session cannot take a command: {error.strerror or error}; {hint}restart() the session"
                ) from error
            stack.pop_all()
        command = SessionProcess(self, section, frame.number, stdout=stdout, stderr=stderr, stdin=stdin)
        self._current = command
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
            command.set_ended(End(ExitStatus(), shell_ended=True, away=True))
            await command.aclose()
            await self._gone()
            raise ShellGone
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

    def may_interrupt(self, *, begun: bool) -> bool:
        """Whether an interrupt is sure to keep it from running what is left of its text.

        A signal says nothing to a shell that has not begun, such as one that is stopped: it would begin when it is
        woken. So the text is taken away from it; what it is told it reads in its turn.
        """
        if not self.interruptible:
            return False
        if self._speak.interrupt(0):
            return True
        self._exchange.retract("command")
        return self._exchange.retracts or begun

    async def interrupt(self, command: SessionProcess, section: Section) -> None:
        """Have it go no further with a command, nor begin with it.

        Where it is told so, this waits until it says that it does: what the command has started must not end before.
        """
        line = self._speak.interrupt(int(command.number))
        if not line:
            await section.interrupt()
            return
        if command.heeded is None:
            command.heeded = asyncio.get_running_loop().create_future()
            await self._tell(line)
        await asyncio.wait((command.heeded, command.ended), return_when=asyncio.FIRST_COMPLETED)

    def kill(self) -> None:
        """Kill it, and nothing that it has started."""
        self.doomed = True
        if self._current is not None:
            self._current.kill_shell()

    async def _gone(self) -> None:
        """Nobody reads what it is told: it has ended, or ends now. What it has started before goes on."""
        if self._section is not None:
            await self._section.kill_shell()
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
            # Without signals, how a shell that was killed has ended is no more than how it was killed.
            known = ExitStatus() if self.doomed and status.code is not None else status
            self._current.set_ended(End(known, shell_ended=True, away=status == ExitStatus()))
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
            self.kill()

    def _heard(self, record: bytes) -> bool:
        """Take one thing that the shell says; whether a command is over by that."""
        if self._entries is not None:
            if record:
                self._entries.append(record)
            else:
                if self._current is not None:
                    self._current.dumps.append(_variables(self._entries))
                self._entries = None
            return False
        word, _, rest = record.partition(b" ")
        if word == b"back":
            if not self._back.done():
                self._back.set_result(None)
            return False
        if word == b"shell":
            if rest.isdigit() and not self._pid.done():
                self.info = replace(self.info, pid=int(rest))
                self._pid.set_result(None)
            return False
        number, _, rest = rest.partition(b" ")
        if self._current is None or number != self._current.number:
            return False  # of a command that is over
        if word == b"variables":
            self._entries = []
        elif word == b"stopping":
            if self._current.heeded is not None and not self._current.heeded.done():
                self._current.heeded.set_result(None)
        elif word == b"begun" and not self._current.begun.done():
            self._current.begun.set_result(None)
        elif word == b"ended":
            said, _, directory = rest.partition(b"\n")
            code, interrupted, first, last, *_ = (*said.split(b" "), b"", b"", b"")
            of, numbered, code = code.rpartition(b":")
            if (numbered and of != number) or (
                not numbered and self._speak.numbers_statuses and code not in (b"x", b"full")
            ):
                self.kill()  # a variable of ours is not its own any more, and stands for what was once
                return False
            known = _NUMBER.fullmatch(code) is not None
            self._status = self._speak.exit_code(int(code)) if known else 1
            status = ExitStatus(code=self._status) if not interrupted else ExitStatus()
            self._current.set_ended(
                End(
                    status,
                    directory=directory.removesuffix(b"\n").decode("utf-8", "surrogateescape"),
                    problem="" if known or interrupted else code.decode("utf-8", "replace"),
                    first=int(first) if first.isdigit() else None,
                    last=int(last) if last.isdigit() else None,
                )
            )
            return True
        return False

    async def aclose(self) -> None:
        """End it. What its commands have left running goes on, if somebody has it."""
        if not self.ended and self._section is not None:
            await self._gone()
        if not self._listening.done():
            await self.process.aclose()
        with anyio.move_on_after(END_SECONDS):
            await asyncio.wait([self._listening])
        self._listening.cancel()
        await self._exchange.aclose()


def _variables(entries: Sequence[bytes]) -> dict[str, str]:
    pairs = (entry.decode("utf-8", "surrogateescape").partition("=") for entry in entries)
    return {name: value for name, _, value in pairs if not name.startswith(_OURS) and name not in _CHANGING}
