"""One command of a persistent shell, as the process that the engine runs."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import anyio

from .._types import ProcessInfo, Usage, still_named
from .._waits import note_failure, shielded
from ..backends.closing import kill_until_gone

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence
    from typing import Any, Literal

    from anyio.abc import ByteReceiveStream, ByteSendStream

    from .._types import ExitStatus, Network, Signal, Terminal
    from ..abc import CommandTree, InputPipe, OutputPipe

INTERRUPT_AGAIN = 0.02
"""Seconds after which a shell that has not come back from a stopped command is interrupted again."""

UNWIND_SECONDS = 0.05
"""Seconds for a shell that starts programs to leave its functions, before what its command has started is signalled."""

LONGEST_PAUSE = 1.0
"""Seconds between two questions to a shell that has said nothing since an interrupt, at most; twice as long each time."""

HEED_SECONDS = 1.0
"""Seconds for a shell like PowerShell to say that it stops a command which is to be killed; else the shell is replaced."""

ABANDON_SECONDS = 2.0
"""Seconds for a shell to come back from a command that was given up, and to end once killed; else it is abandoned."""

SAME_CPU_SECONDS = 0.01
"""Seconds for which the CPU time of a shell that runs nothing stands: a clock tick, the unit in which the kernel tells it."""

REPLACE_SECONDS = 0.1
"""Seconds for a shell to be back after the kill of what its command has started; else it is replaced."""


@dataclass(slots=True)
class End:
    """The end of a command, as its shell, or the end of that, tells it. Not frozen, which would cost more than all the rest.

    Attributes:
        status: The exit status of the command; of the shell, if that has ended.
        shell_ended: Whether it has.
        away: Whether its end cannot be known, since its host is lost.
        directory: Where it is otherwise.
        problem: Why the shell did not begin with the command, as a word of the conversation; empty when it did.
        first: The pid that the host had given last when the command began, if the shell could tell.
        last: The same when it ended.
    """

    status: ExitStatus
    shell_ended: bool = False
    away: bool = False
    directory: str | None = None
    problem: str = ""
    first: int | None = None
    last: int | None = None


class CommandShell(Protocol):
    """The shell that runs a command, as far as the command's process asks anything of it.

    Attributes:
        info: The process.
        doomed: Whether it was killed, and may not know that yet.
        interruptible: Whether an interrupt is sure to keep the shell from running the rest of a text.
        unwinds_by_programs: Whether it starts programs to leave its functions after an interrupt.
        skips_lines: Whether it may read its lines and run none of them after an interrupt, until the next one.
    """

    info: ProcessInfo
    doomed: bool
    interruptible: bool
    unwinds_by_programs: bool
    skips_lines: bool

    @property
    def can_terminate(self) -> bool:
        """Whether a program can be asked to end there."""

    def may_interrupt(self, *, begun: bool) -> bool:
        """Whether an interrupt is sure to keep the shell from running the rest of its text."""

    async def interrupt(self, command: SessionProcess, command_tree: CommandTree) -> None:
        """Have it go no further with a command, nor begin with it."""

    async def ask(self, command: SessionProcess, command_tree: CommandTree) -> None:
        """Have it say once more how a command has ended, if it has its own input."""

    def forget(self, command: SessionProcess) -> None:
        """Take note that nothing of a command is to go on when it has ended."""

    async def prune(self) -> None:
        """Forget commands of which nothing lives any more, now and then."""

    def abandon(self) -> None:
        """Count it as ended, since it cannot be killed."""


class SessionProcess:
    """One command of a persistent shell, with everything that it has started."""

    def __init__(
        self,
        shell: CommandShell,
        command_tree: CommandTree,
        number: int,
        before: SessionProcess | None,
        *,
        stdout: OutputPipe,
        stderr: OutputPipe | None,
        stdin: InputPipe | None,
    ) -> None:
        self._shell = shell
        self._command_tree = command_tree
        self.number = b"%d" % number
        """The number of the command in the shell's answers."""
        self._output_pipes = [stdout] if stderr is None else [stdout, stderr]
        self._stdin = stdin
        self._signalled = False
        self._stopped = False
        self._interrupted = False
        self._unwound = False
        self._signals: set[asyncio.Task[None]] = set()
        self._asking: asyncio.Task[None] | None = None
        self.dumps: list[dict[str, str]] = []
        """The exported variables before and after it, if they were asked for."""
        self._killed_at: float | None = None
        self._released = False
        self._closed = False
        loop = asyncio.get_running_loop()
        self.begun: asyncio.Future[None] = loop.create_future()
        self.ended: asyncio.Future[End] = loop.create_future()
        self.heeded: asyncio.Future[None] | None = None
        """Done when its shell has said that it stops it; ``None`` as long as it was not told to. For the shell alone."""
        self.over: asyncio.Future[None] = loop.create_future()
        """Done when it has ended and no signal to its shell is under way: the shell is free for the next command."""
        self.on_over: Callable[[], object] | None = None
        self.network: Callable[[], Network | None] = lambda: None
        """The network use of the command, if the network of its shell is served."""
        self._cpu_before = (before and before._cpu_still) or _cpu(command_tree)
        self._cpu: tuple[float, float] | None = None
        self._cpu_at = 0.0
        self._waiting: asyncio.Future[None] | None = None
        self._daemons_alone: bool | None = None
        self._named: Sequence[ProcessInfo] = ()
        self._gone = False
        """Whether it was stopped, and two looks after its end have shown nothing of it."""

    @property
    def pid(self) -> int | None:
        """The shell's."""
        return self._shell.info.pid

    @property
    def stdin(self) -> ByteSendStream | None:
        """The input of the command, if a pipe was asked for."""
        return None if self._stdin is None else self._stdin.stream

    @property
    def stdout(self) -> ByteReceiveStream:
        """The output of the command."""
        return self._output_pipes[0].stream

    @property
    def stderr(self) -> ByteReceiveStream | None:
        """Its output on stderr, if the channels were split."""
        return self._output_pipes[1].stream if len(self._output_pipes) > 1 else None

    @property
    def problem(self) -> str:
        """Why the shell did not begin with it, as a word of the conversation; empty when it did."""
        return self.ended.result().problem if self.ended.done() else ""

    def changes(self) -> Mapping[str, str | None] | None:
        """The changes to exported variables; ``None`` when these were not asked or not told."""
        if len(self.dumps) != 2 or not all(self.dumps):
            return None
        before, after = self.dumps
        changed: dict[str, str | None] = {
            name: value for name, value in after.items() if before.get(name) != value
        }
        changed.update((name, None) for name in before if name not in after)
        return changed

    @property
    def state(self) -> Literal["kept", "ended", "lost"]:
        """The state of the shell after the command: once the command has ended or the shell was killed."""
        if not self._shell.doomed and not self.ended.result().shell_ended:
            return "kept"
        return "lost" if self._stopped or self.away else "ended"

    @property
    def directory(self) -> str | None:
        """The directory in which it left its shell; ``None`` unless the shell was kept."""
        return self.ended.result().directory if self.state == "kept" else None

    @property
    def away(self) -> bool:
        """Whether it ended with the loss of its host."""
        return self.ended.done() and self.ended.result().away

    def set_ended(self, end: End) -> None:
        """Say how it ended. For its shell alone."""
        if not self.ended.done():
            for output_pipe in self._output_pipes:
                output_pipe.command_ended()
            self.ended.set_result(end)
            self._cpu = _cpu(self._command_tree)  # now: the shell may begin with the next command
            self._cpu_at = time.monotonic()
            if self._waiting is not None and not self._waiting.done():
                self._waiting.set_result(None)
            self._check_over()
        if not self.begun.done():
            self.begun.set_result(None)

    @property
    def terminal_kind(self) -> None:
        """None: it has no terminal."""

    @property
    def started(self) -> bool:
        """Whether the shell was given its text and did not refuse it."""
        return not self.problem

    @property
    def usage(self) -> Usage | None:
        """The CPU time of the shell meanwhile, and of what it has waited for; ``None`` if it had children before or has after."""
        if self._cpu_before is None or self._cpu is None:
            return None
        user, system = (max(0.0, now - then) for then, now in zip(self._cpu_before, self._cpu, strict=True))
        return Usage(how="waited", user=user, system=system)

    @property
    def _cpu_still(self) -> tuple[float, float] | None:
        """The CPU time of the shell at the end of this command, as long as that is as exact as it is told at all."""
        return self._cpu if time.monotonic() - self._cpu_at < SAME_CPU_SECONDS else None

    @property
    def lost(self) -> bool:
        """Whether the way to what it prints is gone."""
        return any(output_pipe.lost for output_pipe in self._output_pipes)

    @property
    def can_terminate(self) -> bool:
        """Whether its programs are. The shell is in any case, and runs what a text has for that: ``finally``, traps."""
        return self._shell.can_terminate

    async def wait(self) -> ExitStatus:
        """Wait until the shell says that the command has ended, or has ended itself."""
        if not self.ended.done():
            self._waiting = asyncio.get_running_loop().create_future()  # the waiting task may be cancelled
            try:
                await self._waiting
            finally:
                self._waiting = None
        return self.ended.result().status

    @property
    def broken_off(self) -> bool:
        """Whether its text ends before its end because of an interrupt from outside, and nothing has stopped it."""
        return self._interrupted and not self._stopped

    async def interrupt(self) -> None:
        """Have the shell go no further with the text, as far as that keeps the shell; SIGINT to what the text has started."""
        sure = await self._may_interrupt()
        if self.ended.done():
            return
        if sure:
            self._interrupted = True
            with anyio.move_on_after(HEED_SECONDS):
                await shielded(self._send(self._shell.interrupt(self, self._command_tree)))
            await self._unwind()
        await shielded(self._send(self._command_tree.send_signal("interrupt")))

    async def send_signal(self, signal: Signal) -> None:
        """Have the shell go no further with the text, and signal what the text has started."""
        self._signalled = True
        if not self.ended.done():
            self._stopped = True
            # The caller that asks for the end has a bound of its own for that.
            with anyio.move_on_after(HEED_SECONDS if signal == "kill" else None) as heeding:
                await self._interrupt()
            if heeding.cancelled_caught:
                await self._kill_shell()
        await self._command_tree.send_signal(signal)
        if signal == "kill" and not self.ended.done():
            now = time.monotonic()
            if self._killed_at is None:
                self._killed_at = now
            if now - self._killed_at >= REPLACE_SECONDS:
                await self._kill_shell()

    async def survivors(self) -> Sequence[ProcessInfo]:
        """The living processes that it has started, and the shell while it is busy with the command."""
        if self._gone:
            return ()
        over = self.ended.done()
        daemons_alone = False
        if over and not self._signalled and all(output_pipe.ended for output_pipe in self._output_pipes):
            # No output comes any more. Processes that closed their inherited pipe are known by the pids given meanwhile.
            if self._daemons_alone is None:
                end = self.ended.result()
                self._daemons_alone = not await self._command_tree.may_live(end.first, end.last)
            daemons_alone = self._daemons_alone
            if daemons_alone and not self._named:
                return ()
        try:
            members = await self._command_tree.members()
            if not members and self._signalled:
                members = (
                    await self._command_tree.members()
                )  # a process that forks all the time can be missed once
            held = [output_pipe.path for output_pipe in self._output_pipes if output_pipe.held]
            if over and not members and held and self._command_tree.hides_holder(held):
                return [ProcessInfo(0, "unknown", 0.0)]
            self._gone = over and self._signalled and not members
        except OSError:  # out of descriptors: a look that fails must not pass for an empty tree
            return [self._shell.info]
        if daemons_alone:
            members = self._named = still_named(members, self._named)
        return members if self.ended.done() else [*members, self._shell.info]

    async def members(self) -> Sequence[ProcessInfo]:
        """The live processes that the command has started. Raises what `CommandTree.members` raises."""
        return await self._command_tree.members()

    async def wait_gone(self) -> None:
        """Wait until nothing of it is alive and the shell is back; interrupt that again as long as it is not."""
        if (
            self._signalled and not self.ended.done()
        ):  # as a rule it is back soon, and a look before that tells nothing
            with anyio.move_on_after(INTERRUPT_AGAIN):
                await shielded(self.ended)
        while await self.survivors():
            if self._signalled and not self.ended.done():
                await self._interrupt()
                if (
                    not self.can_terminate
                ):  # what was just being started by the shell when the others were ended
                    await self._command_tree.send_signal("terminate")
            with anyio.move_on_after(INTERRUPT_AGAIN):
                if self.ended.done():
                    await asyncio.sleep(INTERRUPT_AGAIN)
                else:
                    await shielded(self.ended)

    def keep_naming(self, named: Sequence[ProcessInfo]) -> None:
        """Have `survivors` name these until they end, also those that make themselves daemons from now on."""
        self._named = named

    async def _interrupt(self) -> None:
        """Have the shell go no further with the text, nor begin with it; where that is not sure, kill it."""
        sure = await self._may_interrupt()
        if self.ended.done():
            return
        if sure:
            await shielded(self._send(self._shell.interrupt(self, self._command_tree)))
            await self._unwind()
        else:
            await self._kill_shell()

    async def _may_interrupt(self) -> bool:
        """Whether an interrupt is sure to keep the shell from the text. Far away, that may take until the text has begun."""
        sure = self._shell.may_interrupt(begun=self.begun.done())
        if not sure and self._shell.interruptible:
            await asyncio.wait((self.begun,), timeout=HEED_SECONDS)
            sure = self._shell.may_interrupt(begun=self.begun.done())
        return sure

    async def _unwind(self) -> None:
        """Help a shell that was interrupted to leave its functions, and to say so.

        A signal would be too early, once, that ends a program which it needs for that.
        """
        if self._shell.skips_lines and self._asking is None:
            self._asking = asyncio.get_running_loop().create_task(self._ask())
            self._asking.add_done_callback(note_failure)
        if self._shell.unwinds_by_programs and not self._unwound:
            self._unwound = True
            await asyncio.wait((self.ended,), timeout=UNWIND_SECONDS)

    async def _ask(self) -> None:
        """Ask the shell again how this has ended, until it says so. The next command waits while a question is under way."""
        pause = INTERRUPT_AGAIN
        while not (self.ended.done() or self._closed):
            await asyncio.wait((self.ended,), timeout=pause)
            if not self.ended.done():
                await self._send(self._shell.ask(self, self._command_tree))
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _kill_shell(self) -> None:
        self._shell.doomed = True
        await shielded(self._send(self._command_tree.kill_shell()))

    def kill_shell(self) -> None:
        """Have the shell killed, and nothing that it has started. Never waits."""
        self._send(self._command_tree.kill_shell())

    def _send(self, signal: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Send the shell a signal, to the end: what arrives later than that would meet the next command."""
        task = asyncio.get_running_loop().create_task(signal)
        self._signals.add(task)
        task.add_done_callback(self._sent)
        return task

    def _sent(self, task: asyncio.Task[None]) -> None:
        self._signals.discard(task)
        note_failure(task)
        self._check_over()

    def _check_over(self) -> None:
        if self.ended.done() and not self._signals and not self.over.done():
            self.over.set_result(None)
            if self.on_over is not None:
                self.on_over()

    async def resize(self, terminal: Terminal) -> None:
        """Do nothing: it has no terminal."""

    async def foreground(self) -> None:
        """Return no process: it has no terminal."""

    async def release(self) -> None:
        """Let what lives go on, and keep its writes from failing."""
        self._released = True
        self._give_up()
        for output_pipe in self._output_pipes:
            output_pipe.discard()

    async def aclose(self) -> None:
        """Kill the remaining processes of the command, and the shell if that is still busy with the command."""
        if self._closed:
            return
        self._closed = True
        if self._stdin is not None:
            self._stdin.close()
        if self._released and not self._signalled:
            await self._shell.prune()
            return
        self._shell.forget(self)
        if self._released:
            return
        await kill_until_gone(self, REPLACE_SECONDS * 5, pause=INTERRUPT_AGAIN)
        self._give_up()
        for output_pipe in self._output_pipes:
            output_pipe.close()

    def _give_up(self) -> None:
        """See to it that the shell is free for the next command, or is abandoned. Never waits."""
        if not self.ended.done():
            self._send(self._come_back_or_end())

    async def _come_back_or_end(self) -> None:
        if not self._shell.doomed:
            await asyncio.wait((self.ended,), timeout=ABANDON_SECONDS)
        if not self.ended.done():
            self._shell.doomed = True
            await self._command_tree.kill_shell()
            await asyncio.wait((self.ended,), timeout=ABANDON_SECONDS)
        if not self.ended.done():
            self._stopped = True
            self._shell.abandon()


def _cpu(command_tree: CommandTree) -> tuple[float, float] | None:
    with contextlib.suppress(OSError):  # out of descriptors
        return command_tree.cpu()
    return None
