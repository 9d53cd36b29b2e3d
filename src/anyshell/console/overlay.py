"""The console as a screen above an app, which goes on below."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from textual.screen import ModalScreen

from .._types import Outcome
from .widget import STOP_KEYS, Console

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import App, ComposeResult

    from ..terminal import ConsoleOpener, DrivenTerminal


class ConsoleScreen(ModalScreen[Outcome | None]):
    """A `Console` in a screen above an app: ``await app.push_screen_wait(ConsoleScreen(terminal))``.

    The app goes on below. The result of the screen is the program's outcome, ``None`` when the outcome is not known. The
    screen stays until it is dismissed. If the app's own code dismisses the screen while the program runs, the program is
    stopped. Every key except the stop keys and the scroll keys goes to the program, even a key that the app has bound.

    Args:
        terminal: As for `Console`.
        stop: As for `Console`.
    """

    DEFAULT_CSS = """
    ConsoleScreen { align: center middle; background: $background 60%; }
    ConsoleScreen > Console { width: 90%; height: 90%; border: round $primary; background: $surface; }
    """

    def __init__(self, terminal: DrivenTerminal, *, stop: Sequence[str] = STOP_KEYS) -> None:
        super().__init__()
        self.console = Console(terminal, stop=stop)

    def compose(self) -> ComposeResult:
        yield self.console

    def on_console_dismissed(self) -> None:
        self.dismiss(self.console.outcome)

    @property
    def _binding_chain(self) -> Any:
        # An app's bindings with priority come before all others: Ctrl-Q and Ctrl-P would never reach the program. textual
        # has no public way to leave these bindings out; a test presses both keys.
        return [each for each in super()._binding_chain if each[0] is not self.app]


def opener(app: App[Any], *, stop: Sequence[str] = STOP_KEYS) -> ConsoleOpener:
    """Return an opener with which an app shows consoles: ``ShellTool(console=opener(app))``.

    The app and the caller of the opener must share an event loop. While the app does not run, the opener shows nothing. A
    console whose program has ended is closed when the next console opens.

    Args:
        app: The app that shows the consoles above its own screen.
        stop: As for `Console`.
    """
    shown: list[_Opened] = []

    async def open_console(terminal: DrivenTerminal) -> bool:
        if not app.is_running:
            return False
        closed = asyncio.Event()
        screen = _Opened(terminal, stop, closed)

        async def show() -> None:
            while shown and shown[-1].over and app.screen is shown[-1]:
                await shown.pop().dismiss()
            shown.append(screen)
            await app.push_screen(screen)

        try:
            there = app.call_later(show)
            if there:
                await closed.wait()
            return there
        finally:
            if screen in shown:
                shown.remove(screen)

    return open_console


class _Opened(ConsoleScreen):
    """A console screen that sets an event when it is removed, for whatever reason."""

    def __init__(self, terminal: DrivenTerminal, stop: Sequence[str], closed: asyncio.Event) -> None:
        super().__init__(terminal, stop=stop)
        self._gone = closed

    @property
    def over(self) -> bool:
        """Whether the program has ended, even if the console has not seen the end yet: the next call may come at once."""
        terminal = self.console.terminal
        return not self.console.running or (terminal.entered and not terminal.running)

    def on_unmount(self) -> None:
        self._gone.set()
