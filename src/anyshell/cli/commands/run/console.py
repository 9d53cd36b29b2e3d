"""``anyshell console``: a command on a terminal that a person sees in a console, with a header and a footer."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
from typing import TYPE_CHECKING, Any

import click

from ...._exceptions import InvalidCommand
from ...._waits import note_failure
from ...failure import Failure
from ...host.reach import Target, notices
from ...options import (
    UP_TO_COMMAND,
    command_options,
    complete_file,
    prefix_option,
    reach_option,
    snapshot_option,
)
from .live import Run
from .request import RunRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .... import DrivenTerminal, Environment, Outcome
    from ...process.descriptors import DescriptorReader, DescriptorWriter
    from ...process.signals import Interruption

_STDIN, _STDOUT, _STDERR = range(3)

_STOPPED = 128 + signal.SIGINT
"""The exit code when the person has stopped the command, the same as after Ctrl-C."""

_BARS = 2  # no bound: rows: the header and the footer

_THEIRS = ("SIGTSTP", "SIGCONT", "SIGWINCH", "SIGTTOU", "SIGTTIN")
"""Signals for which textual sets handlers that textual does not remove."""


@click.command(
    short_help="Run a command in a console: its screen, a header, scrollback.", context_settings=UP_TO_COMMAND
)
@command_options
@click.option(
    "--stop-key",
    "stop_keys",
    multiple=True,
    metavar="KEYS",
    help="Keys that stop the command, such as 'Ctrl-]' or 'Escape Escape', pressed within half a second. May "
    "be given several times. Default: these two.",
)
@click.option(
    "--scrollback",
    type=int,
    metavar="ROWS",
    help="Rows of scrollback, 0 to 10,000. Default: 1,000.",
)
@click.option(
    "--record",
    type=click.Path(),
    metavar="FILE",
    help="Record the output of the command, with its times, into a new file, as 'anyshell run --record' does.",
)
@click.option("--close", is_flag=True, help="Close the console when the command has ended.")
@snapshot_option
@prefix_option
@reach_option
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, shell_complete=complete_file)
@click.pass_context
def console(ctx: click.Context, /, **options: Any) -> None:
    """Run COMMAND on a terminal, show it in a console, and exit with its exit code.

    Above the command's screen stand the command, its host and for how long it runs; below, the keys. Keys go to the command,
    Ctrl-C too. The exceptions are the keys that stop the command, and Shift-PageUp, Shift-PageDown, Shift-Home and Shift-End,
    which scroll back and forth, as the wheel does. A single Escape reaches the command at once; the second one within half a
    second stops everything that the command has started, and pressed once more kills it.

    When the command has ended, the console shows how it ended, until Enter, Escape or q is pressed. Then the terminal is as
    it was. The console needs the extra of that name: pip install 'anyshell[console]'.

    \b
    Examples:
      anyshell console -- htop
      anyshell console --host deploy@web-1 -- 'cd /srv && ./deploy.sh'
      anyshell console --stop-key Ctrl-] -- vim notes.txt

    \b
    Exit code: as of 'run', and
      130    it was stopped by the keys for it
    """  # noqa: D301 - click's own mark: a paragraph that keeps its lines
    from ...process import signals

    stop_keys, scrollback, close = (options.pop(name) for name in ("stop_keys", "scrollback", "close"))
    if not all(map(os.isatty, (_STDIN, _STDOUT, _STDERR))):
        raise Failure(
            "a console needs a terminal as stdin, stdout and stderr: in a pipe, or without a person, use 'anyshell run'"
        )
    if os.environ.get("TERM", "") in ("dumb", "unknown"):
        raise Failure("a console cannot be drawn on this terminal, as TERM says: use 'anyshell run'")
    if len(options["command"]) == 1 and not options["command"][0].strip():
        raise click.BadParameter("it is blank: give a command", param_hint="COMMAND")
    try:
        from .... import console as widgets
        from ....console.keystrokes import StopKeys
        from ....output import check_scrollback
    except ModuleNotFoundError as error:
        if error.name != "textual":
            raise
        raise Failure(str(error)) from None
    stop_keys = stop_keys or widgets.STOP_KEYS
    scrollback = widgets.SCROLLBACK if scrollback is None else scrollback
    try:
        StopKeys(stop_keys, 1.0)
        check_scrollback(scrollback)
    except InvalidCommand as error:
        raise click.UsageError(str(error)) from error
    request = RunRequest(**options, pty=True, quiet=True)

    async def perform(interruption: Interruption) -> int:
        return await _perform(request, interruption, tuple(stop_keys), scrollback, close=close)

    ctx.exit(signals.run(perform))


async def _perform(
    request: RunRequest,
    interruption: Interruption,
    stop_keys: tuple[str, ...],
    scrollback: int,
    *,
    close: bool,
) -> int:
    from .... import OutputLimits
    from ...process.descriptors import DescriptorWriter, tell

    way = Target(request.host)
    async with request.detect(way, limits=OutputLimits(head=0, tail=0), artifacts=None) as env:
        stdout = DescriptorWriter(_STDOUT)
        try:
            await tell(notices((*env.info.notices, *env.snapshot_notices)))
            run = _ConsoleRun(request, env, interruption, stdout, stop_keys, scrollback, close=close)
            with way.undisturbed():
                return await run.perform()
        finally:
            stdout.close()


class _ConsoleRun(Run):
    """A command on a terminal that is shown in a console."""

    def __init__(
        self,
        request: RunRequest,
        env: Environment,
        interruption: Interruption,
        stdout: DescriptorWriter,
        stop_keys: tuple[str, ...],
        scrollback: int,
        *,
        close: bool,
    ) -> None:
        super().__init__(request, env, interruption, stdout, stdout)
        self._stop_keys = stop_keys
        self._scrollback = scrollback
        self._close = close
        self._terminal: DrivenTerminal | None = None

    async def _try(self, stdin: DescriptorReader | None) -> Outcome:
        if not self._env.terminals:
            raise Failure(
                "a console needs terminals, and ANYSHELL_NO_PTY is set: unset it, or use 'anyshell run'"
            )
        import asyncio

        from ....console.app import ConsoleApp

        request = self._request
        try:
            columns, rows = os.get_terminal_size(_STDIN)
        except OSError:
            columns, rows = shutil.get_terminal_size()
        terminal = self._terminal = self._env.terminal(
            self._text,
            columns=min(max(columns, 2), 1_000),
            rows=min(max(rows - _BARS, 2), 1_000),
            env=dict(request.variables),
            **request.times,
            left_behind=request.left_behind,
            scrollback=self._scrollback,
            record=request.recording,
        )
        app = ConsoleApp(
            terminal, stop=self._stop_keys, close=self._close, driver_class=_driver(self._interruption)
        )
        stops: set[asyncio.Task[None]] = set()

        async def end() -> None:
            if terminal.entered:
                await terminal.stop()
            app.exit()

        def cancel() -> None:
            task = asyncio.ensure_future(end())
            stops.add(task)
            task.add_done_callback(note_failure)

        # A signal's handler calls `cancel` and cannot await, so `cancel` starts a task that stops the command, then the app.
        self._cancel = cancel
        with _signals_kept():
            await app.run_async()
        if terminal.entered and terminal.running:
            await terminal.stop()
        if app.error is not None:
            raise app.error
        if not terminal.entered or app.return_code:
            if self._asked_to_end:
                from .... import Outcome

                return Outcome(status="cancelled", started=False)
            raise Failure("the console failed, as said above; the command was stopped")
        return await terminal.wait()

    def _exit_code(self, outcome: Outcome) -> int:
        by_person = self._terminal is not None and self._terminal.stopped_by_person
        if by_person and outcome.status == "cancelled" and not self._asked_to_end:
            return _STOPPED
        return super()._exit_code(outcome)


@contextlib.contextmanager
def _signals_kept() -> Iterator[None]:
    """Restore the signal handlers that textual changes and does not restore."""
    numbers = [signal.Signals[name] for name in _THEIRS if name in signal.Signals.__members__]
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def _driver(interruption: Interruption) -> Callable[..., Any] | None:
    """Return the driver for the person's terminal; ``None`` is textual's default."""
    if sys.platform != "win32":
        from ...terminal.display import driver

        return driver(lambda: interruption.arrive(signal.SIGHUP))
    return None
