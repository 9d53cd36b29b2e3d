"""An app that shows only a console, for ``anyshell console``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from textual.app import App

from .widget import STOP_KEYS, Console

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult

    from ..terminal import DrivenTerminal


class ConsoleApp(App[None], inherit_bindings=False):
    """An app with one console, as large as the terminal. The app ends when the console is dismissed, or has an error.

    Args:
        terminal: As for `Console`.
        stop: As for `Console`.
        close: Whether the app ends with the program.
        driver_class: The class of the driver; ``None`` is textual's default.
    """

    ENABLE_COMMAND_PALETTE = False
    ESCAPE_TO_MINIMIZE = False
    TITLE = "Console"

    def __init__(
        self,
        terminal: DrivenTerminal,
        *,
        stop: Sequence[str] = STOP_KEYS,
        close: bool = False,
        driver_class: Any = None,
    ) -> None:
        super().__init__(driver_class=driver_class)
        self.console_widget = Console(terminal, stop=stop)
        self._closes = close

    @property
    def error(self) -> BaseException | None:
        """The error of the program's start, or of the wait for the program's end; ``None`` without an error."""
        return self.console_widget.error

    def compose(self) -> ComposeResult:
        yield self.console_widget

    def on_console_ended(self) -> None:
        if self._closes or self.error is not None:
            self.exit()

    def on_console_dismissed(self) -> None:
        self.exit()
