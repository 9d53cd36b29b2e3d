"""The console over an app: a screen of its own, under which the app goes on."""

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
    """A `Console` over whatever the app shows, which goes on below: ``await app.push_screen_wait(ConsoleScreen(terminal))``.

    Its result is what became of the program, ``None`` when that is not known. The screen stays until it is dismissed; to
    dismiss it while the program runs, from the app's own code, stops the program. Every key is the program's, but for those
    that stop it and those that scroll: also those that the app has bound.

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
        # An app's bindings with priority come before everything: Ctrl-Q and Ctrl-P would never reach the program. There
        # is no public way to do without them; a test presses both.
        return [each for each in super()._binding_chain if each[0] is not self.app]


def opener(app: App[Any], *, stop: Sequence[str] = STOP_KEYS) -> ConsoleOpener:
    """Return an opener with which an app shows consoles: ``ShellTool(console=opener(app))``.

    The app and the caller of `open` must share an event loop. While the app does not run, nothing is shown. A console whose
    program has ended makes room for the next one.

    Args:
        app: Shows them, above whatever it shows.
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
    """One that says when it is gone, however that came."""

    def __init__(self, terminal: DrivenTerminal, stop: Sequence[str], closed: asyncio.Event) -> None:
        super().__init__(terminal, stop=stop)
        self._gone = closed

    @property
    def over(self) -> bool:
        """Whether the program has ended, also when the console has not seen that yet: a next call may come at once."""
        terminal = self.console.terminal
        return not self.console.running or (terminal.entered and not terminal.running)

    def on_unmount(self) -> None:
        self._gone.set()
