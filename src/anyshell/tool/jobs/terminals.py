"""The terminals of one tool."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from ..._exceptions import AnyshellError
from .tracked import TrackedTerminal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from ..._engine import Control
    from ..._environment import Environment
    from ..._stream import Listener
    from ..._types import CommandRequest
    from ...terminal import ConsoleOpener
    from ..hiding import Hidden
    from ..limits import ToolLimits
    from .ledger import Ledger

KEPT = 16
"""Terminals whose program has ended and that are kept to tell the end; beyond that the oldest is forgotten."""

NEWS = 10
"""Terminals whose end one result tells; the others wait for the next result."""

SCROLLBACK = 1_000
"""Rows above the screen that are kept for a person with a console; older rows are dropped."""


class Terminals:
    """The terminals of one tool: only those that the tool's calls have begun.

    Args:
        env: The environment of the tool.
        limits: The limits of the tool, such as the largest number of terminals.
        ledger: The ledger for processes that a terminal leaves behind; ``None`` when these processes are stopped.
        hidden: The secrets that are masked in shown text.
        console: The function that shows a terminal to a person; ``None`` without a console.

    Attributes:
        closed: Whether the tool was closed.
        console_error: The type name of the last exception of a console that no result has told yet; ``None`` without one.
    """

    def __init__(
        self,
        env: Environment,
        limits: ToolLimits,
        *,
        ledger: Ledger | None,
        hidden: Hidden,
        console: ConsoleOpener | None = None,
    ) -> None:
        self._console = console
        self._consoles: set[asyncio.Task[None]] = set()
        self.console_error: str | None = None
        self.closed = False
        self._env = env
        self._limits = limits
        self._ledger = ledger
        self._hidden = hidden
        self._live: set[TrackedTerminal] = set()
        self._known: dict[str, TrackedTerminal] = {}
        self._count = 0

    def check_room(self) -> None:
        """Check that one more terminal may run.

        Raises:
            AnyshellError: The largest number of terminals runs already; the message names the running terminals.
        """
        self._live = {terminal for terminal in self._live if not self._is_over(terminal)}
        if len(self._live) >= self._limits.max_terminals:
            live = sorted(self._live, key=lambda terminal: (len(terminal.id), terminal.id))
            there = ", ".join(terminal.id or "one that a call waits for" for terminal in live)
            most = self._limits.max_terminals
            running = f"{most} terminals run" if most != 1 else "1 terminal runs"
            raise AnyshellError(f"{running} already, the most at once ({there}): stop one")

    @contextlib.asynccontextmanager
    async def begin(
        self, request: CommandRequest, control: Control, listener: Listener | None = None
    ) -> AsyncIterator[TrackedTerminal]:
        """Start an approved command on a terminal; the end of the context stops the command, unless `keep` was called.

        Raises:
            AnyshellError: The command cannot be started, or too many terminals run.
        """
        self.check_room()
        terminal = TrackedTerminal(
            request,
            self._env,
            grace=self._limits.grace,
            jobs=self._ledger is not None,
            listener=listener,
            hidden=self._hidden,
            scrollback=None if self._console is None else SCROLLBACK,
            control=control,
        )
        async with contextlib.AsyncExitStack() as stack:
            self._live.add(terminal)
            stack.callback(self._live.discard, terminal)
            await stack.enter_async_context(terminal.driven)
            if self._console is not None:
                task = asyncio.create_task(self._show(terminal, self._console))
                self._consoles.add(task)
                task.add_done_callback(self._consoles.discard)
            yield terminal
            terminal.listener = None
            if terminal.id:
                stack.pop_all()

    async def _show(self, terminal: TrackedTerminal, console: ConsoleOpener) -> None:
        """Show a terminal to a person. A failed console leaves the command running; a dismissed console stops the command."""
        try:
            dismissed = await console(terminal.driven)
        except Exception as error:  # noqa: BLE001 - whatever a UI raises, the command is not to suffer from it
            self.console_error = type(error).__name__
            return
        if dismissed and terminal.driven.running:
            with contextlib.suppress(Exception):  # the terminal's outcome tells a failed stop
                await terminal.driven.stop(by_person=True)

    def keep(self, terminal: TrackedTerminal) -> None:
        """Give a terminal an id, so that the terminal outlives its call."""
        self._count += 1
        terminal.id = f"t{self._count}"
        self._known[terminal.id] = terminal
        over = [known for known in self._known.values() if known.over]
        for known in over[: max(0, len(over) - KEPT)]:
            del self._known[known.id]

    def known(self) -> Mapping[str, TrackedTerminal]:
        """Return the kept terminals by id."""
        return self._known

    def hide(self, secret: str) -> None:
        """Mask a secret from now on, in results and on all running terminals.

        Raises:
            AnyshellError: The tool hides as many secrets as it can already.
        """
        self._hidden.add(secret)
        for terminal in self._live:
            terminal.driven.hide(secret)

    def news(self) -> Sequence[TrackedTerminal]:
        """Return the terminals whose end the model was not told, and record that the model is told now."""
        self._live = {terminal for terminal in self._live if not self._is_over(terminal)}
        ended = [terminal for terminal in self._known.values() if terminal.over and not terminal.told][:NEWS]
        for terminal in ended:
            terminal.told = True
        return ended

    def _is_over(self, terminal: TrackedTerminal) -> bool:
        """Whether a terminal's program has ended; if so and with jobs, add the left-behind processes to the ledger."""
        outcome = terminal.outcome
        if outcome is None:
            return False
        if self._ledger is not None and outcome.job is not None:
            self._ledger.add(outcome.job, terminal.request.directory)
        return True
