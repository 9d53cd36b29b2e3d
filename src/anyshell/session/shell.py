"""A running shell, and the conversation with it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import secrets
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import anyio

from .. import shells
from .._exceptions import SpawnError
from .._types import ExitStatus, ProcessInfo, Spawn
from .._waits import to_the_end
from .answers import NUMBER, parse_end, variables_of, why_not
from .leftovers import sweep
from .process import INTERRUPT_AGAIN, End, SessionProcess

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from .._types import ShellInfo
    from ..abc import Backend, CommandTree, OutputPipe, PipeDirectory, Program

START_SECONDS = 30.0
"""Seconds for a prefix to start the shell."""

END_SECONDS = 2.0
"""Seconds for the shell of a closed session to end, its EXIT trap included."""

LAST_WORDS_SECONDS = 0.1
"""Seconds for which a shell that has ended is listened to, while a process that it started holds its stream."""

KEPT = 64
"""Commands of a shell that have left something to be kept; with more, those of which nothing lives are forgotten."""

LONGEST_RECORD = 16 * 1024 * 1024
"""Bytes that a shell says of one command, its variables above all; a shell that says more is replaced."""

LOOK_AGAIN = 0.001
"""Seconds between two looks whether the output of a command on another host has ended, once its shell says so."""


class ShellGone(Exception):  # noqa: N818 - it is no error, and never leaves this module
    """The shell has ended before a command could be given to it."""


class SessionShell:
    """A shell that runs, and what it says."""

    def __init__(
        self,
        process: Program,
        pipe_directory: PipeDirectory,
        conversation: shells.Conversation | shells.PowerShellConversation,
        name: str,
        *,
        own_setup: bool,
    ) -> None:
        self.process = process
        self.info = ProcessInfo(process.pid or 0, name, 0.0)
        self._pipe_directory = pipe_directory
        self._conversation = conversation
        self._texts = shells.FrameTexts(conversation.run)
        self.unwinds_by_programs = conversation.unwinds_by_programs
        self.skips_lines = conversation.skips_lines
        self._numbers = itertools.count(1)
        self._current: SessionProcess | None = None
        self._command_tree: CommandTree | None = None
        self._status = 0
        self._entries: list[bytes] | None = None
        self._problem = ""
        self._word = secrets.token_hex(5)
        """A secret word, which no text can print: it marks the problem that keeps the shell from its first command."""
        self.ended = False
        self.doomed = False  # whether it was killed, and may not know that yet
        self.leaving = False  # whether it was told to exit, so that its traps alone can start anything more
        self._newest: int | None = None  # the pid that the host had given last when the last command ended
        self.abandoned: Sequence[ProcessInfo] = ()
        """The processes of the shell that its closing could not stop, and which may still run."""
        self.left: Sequence[ProcessInfo] = ()
        """The processes still in its process group after the stop that follows the end of the shell."""
        self._commands: set[SessionProcess] = set()
        """The commands that run, or have left processes that go on when the shell has ended."""
        self._most_commands = KEPT
        self._exited = False
        self._holder: str | None = None  # what lives as long as anything in a sandbox
        self.fresh = ""
        """Why it is another than the one before, until that was told; empty for the first."""
        self.interruptible = True
        """Whether an interrupt is sure to keep the shell from running the rest of a text."""
        self._pid: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._careful = False
        self._own = False  # whether the current command is a text of anyshell's own
        self._redefined = own_setup
        self._back = ""  # the word that it says when it is back from the current command
        self._end: End | None = None  # how the current command ended, which it has when the shell is back
        self._output_pipes: Sequence[OutputPipe] = ()  # what the current command prints to
        self._coming_back: asyncio.Task[None] | None = None
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
        confine: Callable[[Spawn], Awaitable[Spawn]],
        like: tuple[SessionShell, str] | None = None,
    ) -> SessionShell:
        """Start a shell with what `spawn` says but for its argv.

        Args:
            backend: Where.
            shell: Which.
            spawn: Its surroundings.
            prefix: The words that run the shell.
            snapshot: The file of the user's own set-up that it begins with.
            confine: Has a sandbox stand before it.
            like: Another of the same kind that has told its state, and by which name: this one takes that.

        Raises:
            SpawnError, InvalidCommand: From the backend: nothing was started; or there are no sessions of that shell.
        """
        # This loads what anyio needs in a loop of asyncio. The first stop may come when no descriptor is left for that.
        anyio.get_cancelled_exc_class()
        pipe_directory = await backend.pipe_directory()
        try:
            conversation = shells.converse(shell, pipe_directory.directory)
            argv = conversation.argv(shell)
            if prefix is not None:
                argv = prefix.wrap(argv, on_windows=shell.on_windows)
            told = like and like[0]._pipe_directory.directory
            spawn = replace(spawn, needs=tuple(filter(None, [pipe_directory.directory, told])))
            confined = await confine(replace(spawn, argv=argv, stdin=True, split_stderr=True))
            process = await backend.spawn(confined)
        except BaseException:
            await to_the_end(pipe_directory.aclose(), stop=lambda: None)
            raise
        own_setup = snapshot is not None or "BASH_ENV" in spawn.env
        started = cls(process, pipe_directory, conversation, shell.kind, own_setup=own_setup)
        started._holder = confined.holder
        lines = conversation.begin(snapshot, started._word)
        if like is not None:
            lines += like[0].fork(like[1]).take()
            started._careful, started._redefined = like[0]._careful, like[0]._redefined
            started.interruptible, started._status = like[0].interruptible, like[0]._status
        if runs_it := prefix is not None or confined.argv != argv:
            lines += conversation.tell_pid()
        else:
            started._pid.set_result(None)  # it is the program itself, whatever is said later
        try:
            if lines:
                await started._tell(lines)
            if runs_it:
                await started._told_pid()
            try:
                pipe_directory.open_to(started.info.pid)
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
        if not self._pid.done():
            raise SpawnError(
                "the prefix has not started the shell: try Environment.run(), which shows what it says"
            )
        if (pid := await self.process.pid_outside(self.info.pid)) is None:
            why = "as in a container, and a session could not be stopped there; use Environment.run() behind such a prefix"
            raise SpawnError(f"the prefix runs the shell where its processes cannot be seen, {why}")
        self.info = replace(self.info, pid=pid)

    def fork(self, name: str) -> shells.Fork:
        """The texts by which another becomes what it is."""
        fork = (
            None
            if isinstance(self._conversation, shells.PowerShellConversation)
            else self._conversation.fork(name)
        )
        assert fork is not None  # as `Session.fork` has seen
        return fork

    async def run(self, spawn: Spawn, *, variables: bool, own: str = "") -> SessionProcess:
        """Have it run a text: the `script` of a spawn, whose argv does not count.

        Args:
            spawn: The text.
            variables: Whether the exported variables before and after it are told.
            own: Of a text of anyshell's own, a line that is read before. Such a text does not change what ``$?`` is.

        Raises:
            SpawnError: No pipe could be made for it.
            ShellGone: It has ended, and has heard nothing of it.
        """
        assert spawn.script is not None
        if self.ended:  # by the command before, after it had ended: this one was never given to it
            raise self._unusable()
        self._own = bool(own)
        if not own:
            self._careful = self._careful or self._conversation.needs_care(spawn.script)
            self._redefined = self._redefined or self._careful or self._conversation.redefines(spawn.script)
        text, marked = self._conversation.text(spawn.script)
        drawn = os.urandom(13)
        taken: list[Callable[[], object]] = []
        try:
            try:
                stdout = await self._pipe_directory.output_pipe()
                taken.append(stdout.give_back)
                stderr = await self._pipe_directory.output_pipe() if spawn.split_stderr else None
                if stderr is not None:
                    taken.append(stderr.give_back)
                stdin = await self._pipe_directory.input_pipe() if spawn.stdin else None
                if stdin is not None:
                    taken.append(stdin.close)
                self._output_pipes = [stdout] if stderr is None else [stdout, stderr]
                paths, fd = [each.path for each in self._output_pipes], self._conversation.life_fd
                command_tree = self.process.command_tree(paths, fd, shell=self.info.pid)
                self._command_tree = command_tree
                frame = shells.Frame(
                    # Not to be guessed by a text that would say in the shell's stead how it ended.
                    number=int.from_bytes(drawn[:8]) >> 4 << 1 | next(self._numbers) & 1,
                    mark=command_tree.mark,
                    tag=command_tree.tag,
                    stdout=stdout.path,
                    stderr=None if stderr is None else stderr.path,
                    stdin=None if stdin is None else stdin.path,
                    status=self._status,
                    begun=not self._pipe_directory.retracts,
                    cwd=spawn.cwd or None,
                    env={**spawn.env, **dict.fromkeys(spawn.unset)},
                    variables=variables,
                    pids=command_tree.wants_pids,
                    careful=self._careful,
                    redefined=self._redefined or self._own,
                    alone=self._pipe_directory.opens_alone,
                    marked=marked,
                    own=self._own,
                )
                self._back, self._end = drawn[8:].hex(), None
                line = own + await self._written(frame.number, self._texts.of(frame), text)
            except BrokenPipeError:
                await self._gone()
                raise self._unusable() from None
            except SpawnError as error:  # it has no pipes any more: perhaps nowhere to be
                if await self._pipe_directory.is_gone():
                    raise SpawnError(self._removed()) from error
                raise
            except OSError as error:
                if isinstance(error, FileNotFoundError | FileExistsError):
                    raise SpawnError(self._removed()) from error
                where = self._pipe_directory.directory
                hint = f"if its private directory {where} is full, " if where else ""
                raise SpawnError(
                    f"the session cannot take a command: {error.strerror or error}; {hint}restart() the session"
                ) from error
        except BaseException:
            while taken:
                taken.pop()()
            raise
        command = SessionProcess(
            self, command_tree, frame.number, self._current, stdout=stdout, stderr=stderr, stdin=stdin
        )
        self._current = command
        self._commands.add(command)
        if not own:
            self.interruptible = self.interruptible and self._conversation.stays_interruptible(spawn.script)
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
            raise self._unusable()
        return command

    async def _written(self, number: int, run: str, command: str) -> str:
        """Bring a command to the shell's directory, as far as that is better than to send it in the line; the line."""
        longest = self._pipe_directory.longest_line
        line = partial(self._conversation.line, back=self._back, redefined=self._redefined or self._own)
        if len(command) * 4 <= longest:
            return line(number, run, command)
        await self._pipe_directory.write("command", command.encode(errors="surrogateescape"))
        if len(run) * 4 <= longest:
            return line(number, run)
        await self._pipe_directory.write(
            self._conversation.run_file(number), run.encode(errors="surrogateescape")
        )
        return line(number)

    async def _tell(self, line: str) -> bool:
        """Write to it; whether it may have heard that."""
        assert self.process.stdin is not None
        try:
            await self.process.stdin.send(line.encode(errors="surrogateescape"))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return False
        return True

    @property
    def can_terminate(self) -> bool:
        """Whether a program can be asked to end there."""
        return self.process.can_terminate

    def may_interrupt(self, *, begun: bool) -> bool:
        """Whether an interrupt is sure to keep the shell from running the rest of its text.

        A signal says nothing to a shell that has not begun, such as one that is stopped: it would begin when it is
        woken. So the text is taken away from it; what it is told it reads in its turn.
        """
        if not self.interruptible:
            return False
        if self._conversation.interrupt(0):
            return True
        self._pipe_directory.retract("command")
        return self._pipe_directory.retracts or begun

    @property
    def current(self) -> SessionProcess | None:
        """The command that it runs; ``None`` when it runs none."""
        return None if self._current is None or self._current.ended.done() else self._current

    async def interrupt(self, command: SessionProcess, command_tree: CommandTree) -> None:
        """Have it go no further with a command, nor begin with it.

        Where it is told so, this waits until it says that it does: what the command has started must not end before.
        """
        line = self._conversation.interrupt(int(command.number))
        if not line:
            await command_tree.interrupt()
            return
        if command.heeded is None:
            command.heeded = asyncio.get_running_loop().create_future()
            await self._tell(line)
        await asyncio.wait((command.heeded, command.ended), return_when=asyncio.FIRST_COMPLETED)

    async def ask(self, command: SessionProcess, command_tree: CommandTree) -> None:
        """Have it say once more how a command has ended, if it has its own input. An interrupt there ends the skipping."""
        assert isinstance(self._conversation, shells.Conversation)
        if await command_tree.shell_is_back() and not command.ended.done():
            await command_tree.interrupt()
            await self._tell(self._conversation.ask(self._back))

    def kill(self) -> None:
        """Kill it, and nothing that it has started."""
        self.doomed = True
        if self._current is not None:
            self._current.kill_shell()

    async def why_not(self, problem: str) -> str:
        """Say why it did not begin with a command, by its own word for it."""
        return self._removed() if await self._pipe_directory.is_gone() else why_not(problem)

    def _removed(self) -> str:
        return (
            f"nothing ran: the session's private directory {self._pipe_directory.directory} was removed, as when temporary files "
            "are cleaned up; restart() the session, which then begins without what it knew"
        )

    def _unusable(self) -> Exception:
        return SpawnError(why_not(self._problem)) if self._problem else ShellGone()

    async def _gone(self) -> None:
        """Take note that the shell reads no more: it has ended, or ends now. What it has started before goes on."""
        if self._command_tree is not None:
            await self._command_tree.kill_shell()
        with anyio.move_on_after(END_SECONDS):
            await asyncio.wait([self._listening])
        self.ended = True

    async def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        reading = loop.create_task(self._read())
        exiting = loop.create_task(self.process.wait())
        try:
            await asyncio.wait((reading, exiting), return_when=asyncio.FIRST_COMPLETED)
            # A program of an EXIT trap may have the stream, and keep it as long as it lives.
            await asyncio.wait((reading,), timeout=LAST_WORDS_SECONDS)
            status = await exiting
            self._exited = True
        finally:
            if not loop.is_closed():  # during a command; nothing can be cancelled then
                reading.cancel()
                exiting.cancel()
        self.ended = True
        if self._current is not None:
            # Without signals, how a shell that was killed has ended is no more than how it was killed.
            known = ExitStatus() if self.doomed and status.code is not None else status
            away, first = status == ExitStatus(), self._newest if self.leaving else None
            end = End(known, shell_ended=True, away=away, problem=self._problem, first=first)
            if self._end is not None and not (self.doomed or end.away or status.signal == "SIGKILL"):
                # By itself, after the text, as bash after "set -t".
                end = replace(self._end, shell_ended=True)
            self._current.set_ended(end)
        if status == ExitStatus():  # the host is away: what runs there is to be stopped when it is back
            await self.process.aclose()
        else:
            async for left in sweep(self.process, self.info.pid, self._commands, holder=self._holder):
                self.left = left
            await self.process.release()

    def forget(self, command: SessionProcess) -> None:
        """Take note that nothing of a command is to go on when the shell has ended."""
        self._commands.discard(command)

    async def prune(self) -> None:
        """Forget commands of which nothing lives any more, now and then."""
        if len(self._commands) > self._most_commands:
            with contextlib.suppress(OSError):
                for each in tuple(self._commands):
                    if not await each.members():
                        self._commands.discard(each)
            self._most_commands = max(KEPT, 2 * len(self._commands))

    async def _read(self) -> None:
        assert self.process.stderr is not None
        held, size = b"", 0
        with contextlib.suppress(anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
            while size <= LONGEST_RECORD:
                data = await self.process.stderr.receive()
                size += len(data)
                *records, held = (held + data).split(b"\0")
                for record in records:
                    if (record or self._entries is not None) and await self._heard(record):
                        size = 0
        if size > LONGEST_RECORD:
            self.kill()

    async def _heard(self, record: bytes) -> bool:
        """Take one thing that the shell says; whether a command is over by that."""
        if self._entries is not None:
            if record:
                self._entries.append(record)
            else:
                if self._current is not None:
                    self._current.dumps.append(variables_of(self._entries))
                self._entries = None
            return False
        word, _, rest = record.partition(b" ")
        if word == b"back":
            await self._came_back(rest)
            return True
        if word == b"few":
            said, _, files = rest.partition(b" ")
            if said == self._word.encode():
                self._problem = f"few {files.decode('ascii', 'replace')}"
        elif word == b"shell" and NUMBER.fullmatch(rest) and not self._pid.done():
            self.info = replace(self.info, pid=int(rest))
            self._pid.set_result(None)
        number, _, rest = rest.partition(b" ")
        if self._current is None or number != self._current.number:
            return False  # of a command that is over
        if word == b"variables":
            self._entries = []
        elif word == b"stopping" and self._current.heeded is not None and not self._current.heeded.done():
            self._current.heeded.set_result(None)
        elif word == b"begun" and not self._current.begun.done():
            self._current.begun.set_result(None)
        elif word == b"ended":
            return self._take_end(b"%b %b" % (number, rest)) and not self._conversation.says_back
        return False

    def _take_end(self, said: bytes) -> bool:
        """Take how the current command ended; whether a variable of anyshell is its own still, and the shell may live."""
        assert self._current is not None
        parsed = parse_end(said, self._current, self._conversation)
        if parsed is None:
            self.kill()
            return False
        self._end, status = parsed
        self._newest = self._end.last
        self._status = self._status if self._own else status
        if not self._conversation.says_back:
            self._current.set_ended(self._end)
        return True

    async def _came_back(self, said: bytes) -> None:
        """Have the current command be over, at once if the host tells without a pause that the shell has its own input."""
        word, _, how = said.partition(b" ")
        command, command_tree = self.current, self._command_tree
        if command is None or command_tree is None or word != self._back.encode():
            return  # a text can say in the shell's stead how it ended, but not this word
        if not how and (lines := self._conversation.again(int(command.number), self._back)):
            await self._tell(lines)
            return
        if not self._take_end(how):
            return
        assert self._end is not None
        if not command_tree.wants_pids and await command_tree.shell_is_back():
            command.set_ended(self._end)
        else:
            self._coming_back = asyncio.get_running_loop().create_task(self._back_at_input(command))

    async def _back_at_input(self, command: SessionProcess) -> None:
        """Have a command be over when its shell has its own input again: until then a text may have said so in its stead."""
        command_tree, output_pipes = self._command_tree, self._output_pipes
        assert command_tree is not None
        assert self._end is not None
        # To ask another host takes a round trip. The end of the output comes by itself, and a text keeps that open unless it
        # closes it.
        looks = round(INTERRUPT_AGAIN / LOOK_AGAIN) if command_tree.wants_pids else 0
        for _ in range(looks):
            if all(output_pipe.ended for output_pipe in output_pipes):
                command.set_ended(self._end)
                return
            await asyncio.sleep(LOOK_AGAIN)
        while not (command.ended.done() or await command_tree.shell_is_back()):  # noqa: ASYNC110 - nothing tells when
            await asyncio.sleep(INTERRUPT_AGAIN)
        command.set_ended(self._end)  # the newest: the shell may have told its own meanwhile

    def abandon(self) -> None:
        """Count it as ended, since it cannot be killed: frozen, in the kernel, or another user's."""
        self.doomed = self.ended = True
        if self._current is not None:
            self._current.set_ended(End(ExitStatus(), shell_ended=True))

    async def aclose(self) -> None:
        """End it, within a bound. Processes that its commands left go on if something else keeps them.

        What cannot be ended is then `abandoned`.
        """
        if not self.ended and self._command_tree is not None:
            await self._gone()
        if not self._exited:
            await self.process.aclose()
            self.abandoned = await self.process.survivors()
        with anyio.move_on_after(END_SECONDS):
            await asyncio.wait([self._listening])
        self._listening.cancel()
        if self._coming_back is not None:
            self._coming_back.cancel()
        await self._pipe_directory.aclose()
