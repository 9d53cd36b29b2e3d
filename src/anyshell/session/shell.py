"""A running shell of a session, and the conversation with that shell."""

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
"""Seconds for which an ended shell's stream is read on, while a process that the shell started holds the stream."""

KEPT = 64
"""Commands of a shell that left processes to be kept; with more, commands without living processes are forgotten."""

LONGEST_RECORD = 16 * 1024 * 1024
"""Bytes that a shell reports for one command, mainly variables; a shell that reports more is replaced."""

LOOK_AGAIN = 0.001
"""Seconds between two looks whether a remote command's output has ended, once the shell has reported the command's end."""


class ShellGone(Exception):  # noqa: N818 - it is not an error, and never leaves this module
    """The shell has ended before a command could be given to it."""


class SessionShell:
    """A running shell and its reports."""

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
        """A secret word, which no text can print. The word marks the problem that keeps the shell from its first command."""
        self.ended = False
        self.doomed = False  # whether the shell was killed and may not have reported its end yet
        self.leaving = False  # whether told to exit: then only its traps can start processes
        self._newest: int | None = None  # the last pid that the host had given at the end of the last command
        self.abandoned: Sequence[ProcessInfo] = ()
        """The processes of the shell that its closing could not stop, and which may still run."""
        self.left: Sequence[ProcessInfo] = ()
        """The processes of the shell's process group that survived the stop after the shell's end."""
        self._commands: set[SessionProcess] = set()
        """The running commands, and the ended commands whose processes may outlive the shell."""
        self._most_commands = KEPT
        self._exited = False
        self._holder: str | None = None  # the process that lives as long as any process in a sandbox
        self.fresh = ""
        """The reason why this shell replaced another, until the caller was told; empty for the first shell."""
        self.interruptible = True
        """Whether an interrupt is sure to keep the shell from running the rest of a text."""
        self._pid: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._careful = False
        self._own = False  # whether the current command is a text of anyshell's own
        self._redefined = own_setup
        self._back = ""  # the word by which the shell reports that it is back from the current command
        self._end: End | None = None  # the end of the current command, final once the shell is back
        self._output_pipes: Sequence[OutputPipe] = ()  # the output pipes of the current command
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
        """Start a shell with the surroundings of `spawn`; the argv of `spawn` is ignored.

        Args:
            backend: Starts the shell.
            shell: The shell to start.
            spawn: The surroundings of the shell.
            prefix: The words that run the shell.
            snapshot: The file of the user's own set-up that the shell loads first.
            confine: Puts a sandbox around the shell.
            like: Another shell of the same kind, and the name of its written state, which the new shell takes.

        Raises:
            SpawnError, InvalidCommand: From the backend: nothing was started; or this kind of shell has no sessions.
        """
        # Load anyio's parts for an asyncio loop now: at the first stop, no descriptor may be left.
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
            started._pid.set_result(None)  # the program is the shell itself, whatever it reports later
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
        """Learn the shell's pid: a prefix may have started the shell as a child."""
        try:
            async with asyncio.timeout(START_SECONDS):
                await asyncio.wait([self._pid, self._listening], return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError as error:
            raise SpawnError(f"the prefix has not started the shell within {START_SECONDS:g} s") from error
        if not self._pid.done():
            raise SpawnError(
                "the prefix has not started the shell: try Environment.run(), which shows what the prefix prints"
            )
        if (pid := await self.process.pid_outside(self.info.pid)) is None:
            why = "as in a container, and a session could not be stopped there; use Environment.run() behind such a prefix"
            raise SpawnError(f"the prefix runs the shell where its processes cannot be seen, {why}")
        self.info = replace(self.info, pid=pid)

    def fork(self, name: str) -> shells.Fork:
        """Return the texts by which another shell takes the state of this shell."""
        fork = (
            None
            if isinstance(self._conversation, shells.PowerShellConversation)
            else self._conversation.fork(name)
        )
        assert fork is not None  # as `Session.fork` has seen
        return fork

    async def run(self, spawn: Spawn, *, variables: bool, own: str = "") -> SessionProcess:
        """Run a text in the shell: the `script` of a spawn, whose argv is ignored.

        Args:
            spawn: The text and its surroundings.
            variables: Whether the shell reports the exported variables before and after the text.
            own: For a text of anyshell's own, the line that the shell reads first; ``$?`` stays as before.

        Raises:
            SpawnError: No pipe could be made for the text.
            ShellGone: The shell has ended, and has received nothing of the text.
        """
        assert spawn.script is not None
        if self.ended:  # ended by the command before, after its end; this command never reached the shell
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
                    # Random: a text that guessed the number could report its own end in place of the shell.
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
            except SpawnError as error:  # no pipe can be made: perhaps the directory was removed
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
        except BaseException:  # the line may have reached the shell
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
        """Write a command to the shell's directory if that is quicker than sending the command in the line; return the line."""
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
        """Write to the shell; return whether the shell may have received the line."""
        assert self.process.stdin is not None
        try:
            await self.process.stdin.send(line.encode(errors="surrogateescape"))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return False
        return True

    @property
    def can_terminate(self) -> bool:
        """Whether the host has a way to ask a program to end."""
        return self.process.can_terminate

    def may_interrupt(self, *, begun: bool) -> bool:
        """Return whether an interrupt is sure to keep the shell from running the rest of its text.

        A shell that has not begun the text, such as a stopped shell, ignores a signal: it would begin the text once it is
        woken. So the text's file is emptied. A shell that is interrupted by a line reads the line in its turn.
        """
        if not self.interruptible:
            return False
        if self._conversation.interrupt(0):
            return True
        self._pipe_directory.retract("command")
        return self._pipe_directory.retracts or begun

    @property
    def current(self) -> SessionProcess | None:
        """The running command; ``None`` when no command runs."""
        return None if self._current is None or self._current.ended.done() else self._current

    async def interrupt(self, command: SessionProcess, command_tree: CommandTree) -> None:
        """Stop the shell from running the rest of a command, or from beginning the command.

        A shell that is interrupted by a line confirms that, and this waits: the command's processes must not end before.
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
        """Ask the shell to report a command's end again, if it reads its own input; the interrupt ends a skipping of lines."""
        assert isinstance(self._conversation, shells.Conversation)
        if await command_tree.shell_is_back() and not command.ended.done():
            await command_tree.interrupt()
            await self._tell(self._conversation.ask(self._back))

    def kill(self) -> None:
        """Kill the shell, and none of the processes that the shell has started."""
        self.doomed = True
        if self._current is not None:
            self._current.kill_shell()

    async def why_not(self, problem: str) -> str:
        """Explain why the shell did not begin a command, given the shell's own word for the problem."""
        return self._removed() if await self._pipe_directory.is_gone() else why_not(problem)

    def _removed(self) -> str:
        return (
            f"nothing ran: the session's private directory {self._pipe_directory.directory} was removed, as when temporary files "
            "are cleaned up; restart() the session, which then begins without its former state"
        )

    def _unusable(self) -> Exception:
        return SpawnError(why_not(self._problem)) if self._problem else ShellGone()

    async def _gone(self) -> None:
        """Kill the shell, which reads no more, and record its end. The processes that the shell has started run on."""
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
            # A program of an EXIT trap may hold the stream as long as it lives.
            await asyncio.wait((reading,), timeout=LAST_WORDS_SECONDS)
            status = await exiting
            self._exited = True
        finally:
            if not loop.is_closed():  # the loop was closed during a command; nothing can be cancelled then
                reading.cancel()
                exiting.cancel()
        self.ended = True
        if self._current is not None:
            # Without signals, the exit status of a killed shell tells only how the shell was killed.
            known = ExitStatus() if self.doomed and status.code is not None else status
            away, first = status == ExitStatus(), self._newest if self.leaving else None
            end = End(known, shell_ended=True, away=away, problem=self._problem, first=first)
            if self._end is not None and not (self.doomed or end.away or status.signal == "SIGKILL"):
                # The shell ended by itself after the text, as bash after "set -t".
                end = replace(self._end, shell_ended=True)
            self._current.set_ended(end)
        if status == ExitStatus():  # the host is away: its processes are stopped when it is back
            await self.process.aclose()
        else:
            async for left in sweep(self.process, self.info.pid, self._commands, holder=self._holder):
                self.left = left
            await self.process.release()

    def forget(self, command: SessionProcess) -> None:
        """Record that no process of a command may outlive the shell."""
        self._commands.discard(command)

    async def prune(self) -> None:
        """Forget the commands without living processes, once there are many commands."""
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
        """Handle one record from the shell; return whether the record ends a command."""
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
            return False  # of a command that has ended
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
        """Store the end of the current command; return whether the report was valid. If not, the shell is killed."""
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
        """Complete the current command: at once if the host confirms without a pause that the shell reads its own input."""
        word, _, how = said.partition(b" ")
        command, command_tree = self.current, self._command_tree
        if command is None or command_tree is None or word != self._back.encode():
            return  # a text can report its own end in place of the shell, but does not know this word
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
        """Complete a command once its shell reads its own input again: before that, the text itself may have sent the report."""
        command_tree, output_pipes = self._command_tree, self._output_pipes
        assert command_tree is not None
        assert self._end is not None
        # A question to another host takes a round trip. The end of the output arrives by itself, and a text
        # keeps the output open unless it closes it.
        looks = round(INTERRUPT_AGAIN / LOOK_AGAIN) if command_tree.wants_pids else 0
        for _ in range(looks):
            if all(output_pipe.ended for output_pipe in output_pipes):
                command.set_ended(self._end)
                return
            await asyncio.sleep(LOOK_AGAIN)
        while not (command.ended.done() or await command_tree.shell_is_back()):  # noqa: ASYNC110 - nothing tells when
            await asyncio.sleep(INTERRUPT_AGAIN)
        command.set_ended(self._end)  # the newest end: the shell may have sent its own report meanwhile

    def abandon(self) -> None:
        """Treat the shell as ended, because it cannot be killed: frozen, waiting in the kernel, or owned by another user."""
        self.doomed = self.ended = True
        if self._current is not None:
            self._current.set_ended(End(ExitStatus(), shell_ended=True))

    async def aclose(self) -> None:
        """End the shell, within a bound. Processes that its commands left run on if another object keeps them.

        Processes that cannot be ended are then `abandoned`.
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
