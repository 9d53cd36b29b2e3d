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
"""Seconds for a shell that starts programs to leave its functions, before the command's processes are signalled."""

LONGEST_PAUSE = 1.0
"""Seconds between two questions to a shell that is silent after an interrupt, at most; each pause is twice the one before."""

HEED_SECONDS = 1.0
"""Seconds for a shell like PowerShell to confirm that it stops a command that is to be killed; else the shell is replaced."""

ABANDON_SECONDS = 2.0
"""Seconds for a shell to come back from a command that was given up, and to end once killed; else the shell is abandoned."""

SAME_CPU_SECONDS = 0.01
"""Seconds for which the CPU time of an idle shell counts as unchanged: a clock tick, the unit of the kernel's CPU times."""

REPLACE_SECONDS = 0.1
"""Seconds for a shell to be back after the kill of the command's processes; else the shell is replaced."""

REPLACE_KILLS = 3
"""Kills of the command's processes before the shell is replaced, even beyond `REPLACE_SECONDS`, on a host whose looks are slow."""


@dataclass(slots=True)
class End:
    """The end of a command, as its shell or the shell's own end tells. Not frozen: that would cost more than all the rest.

    Attributes:
        status: The exit status of the command; of the shell, if the shell has ended.
        shell_ended: Whether the shell has ended.
        away: Whether the command's end cannot be known, because its host is lost.
        directory: The present directory of the shell, if the shell lives.
        problem: The reason why the shell did not begin the command, as a word of the conversation; empty when the shell did.
        first: The last pid that the host had given when the command began, if the shell could tell.
        last: The last pid that the host had given when the command ended, if the shell could tell.
    """

    status: ExitStatus
    shell_ended: bool = False
    away: bool = False
    directory: str | None = None
    problem: str = ""
    first: int | None = None
    last: int | None = None


class CommandShell(Protocol):
    """The shell that runs a command, as far as the command's process uses the shell.

    Attributes:
        info: The shell's process.
        doomed: Whether the shell was killed and may not have reported its end yet.
        interruptible: Whether an interrupt is sure to keep the shell from running the rest of a text.
        unwinds_by_programs: Whether the shell starts programs to leave its functions after an interrupt.
        skips_lines: Whether the shell, after an interrupt, may read lines without running them until the next interrupt.
    """

    info: ProcessInfo
    doomed: bool
    interruptible: bool
    unwinds_by_programs: bool
    skips_lines: bool

    @property
    def can_terminate(self) -> bool:
        """Whether the host has a way to ask a program to end."""

    def may_interrupt(self, *, begun: bool) -> bool:
        """Return whether an interrupt is sure to keep the shell from running the rest of its text."""

    async def interrupt(self, command: SessionProcess, command_tree: CommandTree) -> None:
        """Stop the shell from running the rest of a command, or from beginning the command."""

    async def ask(self, command: SessionProcess, command_tree: CommandTree) -> None:
        """Ask the shell to report a command's end again, if the shell reads its own input."""

    def forget(self, command: SessionProcess) -> None:
        """Record that no process of a command may outlive the shell."""

    async def prune(self) -> None:
        """Forget the commands without living processes, once there are many commands."""

    def abandon(self) -> None:
        """Treat the shell as ended, because it cannot be killed."""


class SessionProcess:
    """One command of a persistent shell, with all processes that the command has started."""

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
        """The exported variables before and after the command, if the caller asked for them."""
        self._kills = (0, 0.0)  # the number of kills, and the time of the first kill
        self._released = False
        self._closed = False
        loop = asyncio.get_running_loop()
        self.begun: asyncio.Future[None] = loop.create_future()
        self.ended: asyncio.Future[End] = loop.create_future()
        self.heeded: asyncio.Future[None] | None = None
        """Done when the shell has confirmed the stop of the command; ``None`` before the request. For the shell alone."""
        self.over: asyncio.Future[None] = loop.create_future()
        """Done when the command has ended and no signal to its shell is under way: the shell is free for the next command."""
        self.on_over: Callable[[], object] | None = None
        self.network: Callable[[], Network | None] = lambda: None
        """The network use of the command, if the network of its shell is served."""
        self._cpu_before = (before and before._cpu_still) or _cpu(command_tree)
        self._cpu: tuple[float, float] | None = None
        self._cpu_at = 0.0
        self._waiting: asyncio.Future[None] | None = None
        self._daemons_alone = False
        self._named: Sequence[ProcessInfo] = ()
        self._gone = False
        """Whether the command was stopped, and two looks after its end have found no process of the command."""

    @property
    def pid(self) -> int | None:
        """The pid of the shell."""
        return self._shell.info.pid

    @property
    def stdin(self) -> ByteSendStream | None:
        """The stdin of the command, if a pipe was asked for."""
        return None if self._stdin is None else self._stdin.stream

    @property
    def stdout(self) -> ByteReceiveStream:
        """The stdout of the command, or both channels if they were not split."""
        return self._output_pipes[0].stream

    @property
    def stderr(self) -> ByteReceiveStream | None:
        """The stderr of the command, if the channels were split."""
        return self._output_pipes[1].stream if len(self._output_pipes) > 1 else None

    @property
    def problem(self) -> str:
        """The reason why the shell did not begin the command, as a word of the conversation; empty when the shell did."""
        return self.ended.result().problem if self.ended.done() else ""

    def changes(self) -> Mapping[str, str | None] | None:
        """Return the changes to exported variables; ``None`` when the caller did not ask, or the shell did not report them."""
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
        """The state of the shell after the command. Call only when the command has ended or the shell was killed."""
        if not self._shell.doomed and not self.ended.result().shell_ended:
            return "kept"
        return "lost" if self._stopped or self.away else "ended"

    @property
    def directory(self) -> str | None:
        """The directory in which the command left the shell; ``None`` unless the shell was kept."""
        return self.ended.result().directory if self.state == "kept" else None

    @property
    def away(self) -> bool:
        """Whether the command ended with the loss of its host."""
        return self.ended.done() and self.ended.result().away

    def set_ended(self, end: End) -> None:
        """Set the end of the command. For the shell alone."""
        if not self.ended.done():
            for output_pipe in self._output_pipes:
                output_pipe.command_ended()
            self.ended.set_result(end)
            self._cpu = _cpu(self._command_tree)  # read now: the shell may begin the next command
            self._cpu_at = time.monotonic()
            if self._waiting is not None and not self._waiting.done():
                self._waiting.set_result(None)
            self._check_over()
        if not self.begun.done():
            self.begun.set_result(None)

    @property
    def terminal_kind(self) -> None:
        """None: the command has no terminal."""

    @property
    def started(self) -> bool:
        """Whether the shell was given the command's text and did not refuse it."""
        return not self.problem

    @property
    def usage(self) -> Usage | None:
        """The CPU time of the command in the shell and its awaited children; ``None`` if the shell had other children."""
        if self._cpu_before is None or self._cpu is None:
            return None
        user, system = (max(0.0, now - then) for then, now in zip(self._cpu_before, self._cpu, strict=True))
        return Usage(how="waited", user=user, system=system)

    @property
    def _cpu_still(self) -> tuple[float, float] | None:
        """The CPU time of the shell at the end of this command; ``None`` once the value is older than `SAME_CPU_SECONDS`."""
        return self._cpu if time.monotonic() - self._cpu_at < SAME_CPU_SECONDS else None

    @property
    def lost(self) -> bool:
        """Whether the connection to the command's output is lost."""
        return any(output_pipe.lost for output_pipe in self._output_pipes)

    @property
    def can_terminate(self) -> bool:
        """Whether the command's programs can be asked to end. The shell always can, and runs the text's traps and ``finally``."""
        return self._shell.can_terminate

    async def wait(self) -> ExitStatus:
        """Wait until the shell reports the end of the command, or has ended itself."""
        if not self.ended.done():
            self._waiting = asyncio.get_running_loop().create_future()  # the waiting task may be cancelled
            try:
                await self._waiting
            finally:
                self._waiting = None
        return self.ended.result().status

    @property
    def broken_off(self) -> bool:
        """Whether `interrupt` cuts the text short, and no signal has stopped the command."""
        return self._interrupted and not self._stopped

    async def interrupt(self) -> None:
        """Send SIGINT to the command's processes; stop the rest of the text too, if that keeps the shell."""
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
        """Stop the shell from running the rest of the text, and send the signal to the command's processes."""
        self._signalled = True
        if not self.ended.done():
            self._stopped = True
            # The caller of "terminate" has its own time limit for the end.
            with anyio.move_on_after(HEED_SECONDS if signal == "kill" else None) as heeding:
                await self._interrupt()
            if heeding.cancelled_caught:
                await self._kill_shell()
        await self._command_tree.send_signal(signal)
        if signal == "kill" and not self.ended.done():
            now = time.monotonic()
            count, first = self._kills if self._kills[0] else (0, now)
            self._kills = (count + 1, first)
            if count + 1 >= REPLACE_KILLS and now - first >= REPLACE_SECONDS:
                await self._kill_shell()

    async def survivors(self) -> Sequence[ProcessInfo]:
        """Return the living processes of the command, and the shell while the shell is busy with the command."""
        if self._gone:
            return ()
        over = self.ended.done()
        daemons_alone = False
        if over and not self._signalled and all(output_pipe.ended for output_pipe in self._output_pipes):
            # The output has ended. Processes that closed their inherited pipe are recognised by the pids
            # given meanwhile.
            # Asked again after a yes: a process that has just closed its pipes by ending may still be shown as alive.
            if not self._daemons_alone:
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
                )  # one look can miss a process that forks all the time
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
        """Return the living processes of the command. Raises what `CommandTree.members` raises."""
        return await self._command_tree.members()

    async def wait_gone(self) -> None:
        """Wait until no process of the command is alive and the shell is back; interrupt the shell again until it is back."""
        if (
            self._signalled and not self.ended.done()
        ):  # the shell usually is back soon, and an earlier look tells nothing
            with anyio.move_on_after(INTERRUPT_AGAIN):
                await shielded(self.ended)
        while await self.survivors():
            if self._signalled and not self.ended.done():
                await self._interrupt()
                if (
                    not self.can_terminate
                ):  # a process that the shell was just starting when the other processes were ended
                    await self._command_tree.send_signal("terminate")
            with anyio.move_on_after(INTERRUPT_AGAIN):
                if self.ended.done():
                    await asyncio.sleep(INTERRUPT_AGAIN)
                else:
                    await shielded(self.ended)

    def keep_naming(self, named: Sequence[ProcessInfo]) -> None:
        """Make `survivors` return these processes until each ends, even if a process makes itself a daemon."""
        self._named = named

    async def _interrupt(self) -> None:
        """Stop the shell from running the text, or from beginning it; where that is not sure, kill the shell."""
        sure = await self._may_interrupt()
        if self.ended.done():
            return
        if sure:
            await shielded(self._send(self._shell.interrupt(self, self._command_tree)))
            await self._unwind()
        else:
            await self._kill_shell()

    async def _may_interrupt(self) -> bool:
        """Return whether an interrupt is sure to stop the text. On a remote host, this may wait until the text has begun."""
        sure = self._shell.may_interrupt(begun=self.begun.done())
        if not sure and self._shell.interruptible:
            await asyncio.wait((self.begun,), timeout=HEED_SECONDS)
            sure = self._shell.may_interrupt(begun=self.begun.done())
        return sure

    async def _unwind(self) -> None:
        """Help an interrupted shell to leave its functions and to report the end.

        Wait once before the first signal: a shell may need programs to leave a function, and an early signal would end
        them.
        """
        if self._shell.skips_lines and self._asking is None:
            self._asking = asyncio.get_running_loop().create_task(self._ask())
            self._asking.add_done_callback(note_failure)
        if self._shell.unwinds_by_programs and not self._unwound:
            self._unwound = True
            await asyncio.wait((self.ended,), timeout=UNWIND_SECONDS)

    async def _ask(self) -> None:
        """Ask the shell again for the command's end, until it answers. The next command waits while a question is under way."""
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
        """Kill the shell, and none of the processes that the shell has started. Never waits."""
        self._send(self._command_tree.kill_shell())

    def _send(self, signal: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Send the shell a signal, and never abandon the sending: a signal that arrives later would hit the next command."""
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
        """Do nothing: the command has no terminal."""

    async def foreground(self) -> None:
        """Return ``None``: the command has no terminal."""

    async def release(self) -> None:
        """Let the living processes run on, and keep their writes from failing."""
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
        """Ensure that the shell becomes free for the next command, or is abandoned. Never waits."""
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
