"""One command that is connected live to this program's descriptors, with the notices and exit code of every end."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

from ...._exceptions import TerminalUnavailable
from ...failure import OWN_FAILURE, Failure
from ...host.reach import LinkLost, Target
from ...options import command_text
from ...printing import printable, stopping

if TYPE_CHECKING:
    from collections.abc import Callable

    from .... import Environment, Outcome, Stream, Terminal
    from ....abc import ProcessInfo
    from ...process.descriptors import DescriptorReader, DescriptorWriter
    from ...process.signals import Interruption
    from ...terminal.status import StatusLine
    from .request import RunRequest

TIMED_OUT = 124  # no bound
"""The exit code after a timeout, as for GNU's timeout."""

_STDIN, _STDOUT, _STDERR = range(3)

_NOT_STOPPED = "not all of the command could be stopped"
_NOT_KNOWN = "how the command ended could not be learnt"

_SIGPIPE = 13  # no bound
"""The number of SIGPIPE, which stands for an output without a reader. Windows has no name for the signal."""


class Run:
    """One command that is connected to this program's stdin, stdout and stderr."""

    def __init__(
        self,
        request: RunRequest,
        env: Environment,
        interruption: Interruption,
        stdout: DescriptorWriter,
        stderr: DescriptorWriter,
        way: Target | None = None,
    ) -> None:
        self._request = request
        self._env = env
        self._interruption = interruption
        self._stdout = stdout
        self._stderr = stderr
        self._way = way
        self._status: StatusLine | None = None
        self._text = command_text(request.command, env)
        # Asks the command to end; a second call skips the grace.
        self._cancel: Callable[[], object] = lambda: None
        self._signals = 0
        self._deserted = False
        self._open_line = False

    async def perform(self) -> int:
        """Run the command, forward input and output, and return this program's exit code."""
        import asyncio

        from ...process.descriptors import DescriptorReader, has_input, watch_peer

        request = self._request
        stdin = DescriptorReader(_STDIN) if has_input(_STDIN) else None
        self._interruption.stop = self._signalled
        watch_peer(_STDOUT, self._reader_gone)
        if self._stderr is not self._stdout and not request.held and not request.pty:
            watch_peer(_STDERR, self._reader_gone)
        deadline = None
        if request.timeout is not None and not request.held:
            # The engine stops the command. The command's output must not then wait for a reader that takes nothing.
            deadline = asyncio.get_running_loop().call_later(request.timeout, self._hurry)
        self._status = self._status_line()
        try:
            outcome = await self._try(stdin)
        finally:
            if self._status is not None:
                await self._status.close()
            if stdin is not None:
                stdin.close()
        if request.as_json:
            await self._write_json(outcome)
            return self._exit_code(outcome)
        if request.limit is not None:
            await self._write(self._stdout, outcome.output.text.encode("utf-8", "backslashreplace"))
        try:
            # Before the notices: a failure to write a notice must not change the exit code.
            return self._exit_code(outcome)
        finally:
            await self._write_notices(outcome, stdin)
            if deadline is not None:
                deadline.cancel()

    def _status_line(self) -> StatusLine | None:
        """Return the status line; ``None`` if the person does not want a status line, or the terminal is not free."""
        from ...terminal.drawing import is_in_pipe, is_wanted

        if self._request.pty or not is_wanted(quiet=self._request.quiet) or is_in_pipe():
            return None
        from ...terminal.status import StatusLine

        status = StatusLine(_STDERR)
        if self._way is not None:
            self._way.share_terminal(status.hidden)
        return status

    async def _try(self, stdin: DescriptorReader | None) -> Outcome:
        """Run the command, on a terminal if a terminal is requested and available."""
        from ...process.descriptors import tell

        if not self._request.pty:
            return await self._forward(stdin)
        if not self._env.terminals:
            await tell("anyshell: ANYSHELL_NO_PTY is set: the command runs without a terminal\n")
            return await self._forward(stdin)
        try:
            return await self._obtain(stdin)
        except TerminalUnavailable as error:
            why = printable(str(error)).rpartition(";")[0]
            await tell(f"anyshell: {why}; the command runs without\n")
            return await self._forward(stdin)

    async def _obtain(self, stdin: DescriptorReader | None) -> Outcome:
        """Run the command on a terminal that is not shown."""
        from ...._types import Terminal

        usual, request = Terminal(), self._request
        columns, rows = request.columns or usual.columns, request.rows or usual.rows
        return await self._forward(stdin, Terminal(columns=columns, rows=rows))

    def _start(self, stdin: DescriptorReader | None, terminal: Terminal | None) -> Stream:
        request = self._request
        apart = request.split_stderr if request.held else self._stdout is not self._stderr
        return self._env.stream(
            self._text,
            by="chunks",
            env=dict(request.variables),
            stdin=b""
            if stdin is None and terminal is not None
            else stdin,  # on a terminal, the end of input has to be typed
            **request.times,
            left_behind=request.left_behind,
            split_stderr=apart and terminal is None,
            terminal=terminal,
            record=request.recording,
            effects=request.scan or False,
        )

    async def _forward(self, stdin: DescriptorReader | None, terminal: Terminal | None = None) -> Outcome:
        events = self._start(stdin, terminal)
        self._cancel = events.cancel
        async with events:
            async for event in events:
                if self._status is not None:
                    self._status.count(event.data, event.channel)
                if self._request.held:
                    continue
                await self._write(self._stdout if event.channel == "stdout" else self._stderr, event.data)
        return events.outcome

    async def _write(self, writer: DescriptorWriter, data: bytes) -> None:
        """Write a piece of the output; stop the command if the write fails."""
        if self._status is not None and (writer is self._stderr or os.isatty(_STDOUT)):
            await self._status.write(writer, data, here=writer is self._stderr)
        else:
            await writer.write(data)
        if data:
            self._open_line = not data.endswith(b"\n")
        if writer.error is not None:
            self._reader_gone()

    # Ctrl-C ends a whole pipeline, our reader included. The signal and the loss of the reader may come in any order, and
    # count as one request to end.

    @property
    def _asked_to_end(self) -> bool:
        return self._signals > 0 or self._deserted

    def _signalled(self) -> None:
        self._signals += 1
        if self._signals > 1 or not self._deserted:
            self._cancel()  # the second time: without the grace
        self._hurry()

    def _reader_gone(self) -> None:
        if not self._deserted and not self._signals:
            self._cancel()
        self._deserted = True
        self._hurry()

    def _hurry(self) -> None:
        self._stdout.hurry()
        self._stderr.hurry()
        if self._status is not None:
            self._status.hurry()

    async def _write_json(self, outcome: Outcome) -> None:
        from ...printing import to_json

        await self._stdout.write(to_json(outcome))
        self._deserted = self._deserted or isinstance(self._stdout.error, BrokenPipeError)

    async def _write_notices(self, outcome: Outcome, stdin: DescriptorReader | None) -> None:
        said = []
        if outcome.status == "timed_out":
            said.append(_timed_out(outcome, self._request.timeout or 0))
        elif outcome.status == "lost":
            said.append(f"lost: {self._lost(outcome)}")
        elif self._late:
            said.append(
                f"timed out after {self._request.timeout:g} s: the reader did not take the rest of the output"
            )
        code = outcome.exit_code or 0
        if outcome.status == "exited" and _own(code) % 2**32 != code:
            said.append(f"the exit code was {code} (0x{code:X}), for which this system has no room")
        if outcome.left_behind:
            said.append(_left_behind(outcome.left_behind, self._env.os, self._elsewhere))
        if outcome.recording is not None and outcome.recording.notice is not None:
            path = printable(str(outcome.recording.path))
            said.append(f"the recording {path} is not whole: {outcome.recording.notice}")
        if stdin is not None and stdin.error is not None:
            said.append(f"cannot read stdin: {stdin.error.strerror}")
        if not said and outcome.effects is None:
            return
        text = "".join(f"anyshell: {notice}\n" for notice in said)
        if outcome.effects is not None:
            from .effects import lines

            first, *others = lines(outcome.effects)
            text += "".join(f"{line}\n" for line in (f"anyshell: {first}", *others))
        if self._open_line and self._stdout is self._stderr:
            text = "\n" + text
        await self._stderr.write(text.encode("utf-8", "backslashreplace"))

    def _lost(self, outcome: Outcome) -> str:
        alive = any(process.alive for process in outcome.left_behind)
        if self._elsewhere is None:
            return _NOT_STOPPED if alive else _NOT_KNOWN
        if outcome.started is None:
            return f"{self._elsewhere} was asked and has not answered; the command may have run, or may run there now"
        broke = f"the connection to {self._elsewhere} broke"
        if outcome.left_behind and not alive:
            return f"{broke}; what still ran there was stopped"
        return f"{broke}, or not all of the command could be stopped; it may still run there"

    @property
    def _elsewhere(self) -> str | None:
        """The name of the host; ``None`` for this machine."""
        return None if self._env.info.is_this_machine else printable(self._env.host)

    @property
    def _late(self) -> bool:
        """Whether the timeout was over before all output could be written."""
        return not self._asked_to_end and (self._stdout.given_up or self._stderr.given_up)

    def _exit_code(self, outcome: Outcome) -> int:
        for writer, name in ((self._stdout, "stdout"), (self._stderr, "stderr")):
            if writer.error is not None and not isinstance(writer.error, BrokenPipeError):
                stopped = "" if self._request.as_json else "; the command was stopped"
                raise Failure(f"cannot write to {name}: {writer.error.strerror}{stopped}")
        if self._signals:
            return self._interruption.exit_code
        if outcome.status == "timed_out" or self._late:
            return TIMED_OUT
        # A reader that goes away after the whole output was written, as head does, does no harm.
        if self._deserted and (outcome.status != "exited" or self._stdout.error or self._stderr.error):
            return 128 + _SIGPIPE
        if outcome.status == "lost" and self._elsewhere is not None:
            return LinkLost.exit_code
        if outcome.status != "exited":
            return OWN_FAILURE
        if outcome.signal is not None:
            return 128 + _signal_number(outcome.signal)
        return _own(outcome.exit_code or 0)


def _timed_out(outcome: Outcome, timeout: float) -> str:
    if outcome.started is False:
        return f"timed out after {timeout:g} s, before the shell was started"
    how = "ended at once, without being asked to end first" if outcome.killed_without_warning else "stopped"
    if outcome.silence is not None:
        return f"timed out: nothing was printed, and no input given, for {outcome.silence:g} s; the command was {how}"
    return f"timed out after {timeout:g} s; the command was {how}"


def _left_behind(processes: tuple[ProcessInfo, ...], system: str, host: str | None) -> str:
    def state(process: ProcessInfo) -> str:
        return f"pid {process.pid}, " * bool(process.pid) + ("still running" if process.alive else "stopped")

    named = ", ".join(f"{printable(process.name)} ({state(process)})" for process in processes)
    alive = [process.pid for process in processes if process.alive and process.pid]
    return f"left behind: {named}" + (
        f"; to stop{'' if host is None else f', on {host}'}: {stopping(alive, system)}" if alive else ""
    )


def _own(code: int) -> int:
    """Return this program's exit code for a command's exit code. Exit codes have 32 bits on Windows, elsewhere 8."""
    if sys.platform == "win32":
        return code if code < 2**31 else code - 2**32  # Python takes a signed number
    return code if code < 2**8 else 1  # the lowest 8 bits might be 0, which means success


def _signal_number(name: str) -> int:
    """Return the number of a signal that an outcome names, such as ``SIGKILL``, ``SIGRTMIN+3`` or ``SIG60``.

    The number is 0 for a signal whose name is unknown on this machine; SSH has names for a dozen signals.
    """
    base, _, more = name.partition("+")
    if base in signal.Signals.__members__:
        return signal.Signals[base].value + int(more or 0)
    number = name.removeprefix("SIG")
    return int(number) if number.isdecimal() else 0
