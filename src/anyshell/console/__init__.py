"""The console: a textual widget that shows a program on a terminal to a person.

This package needs the extra ``console``: ``pip install 'anyshell[console]'``.
"""

from __future__ import annotations

try:
    import textual as _textual  # noqa: F401 - to say what is missing before anything else does
except ModuleNotFoundError as error:
    if error.name != "textual":
        raise
    raise ModuleNotFoundError(
        "anyshell.console needs textual, which is not installed: pip install 'anyshell[console]'",
        name="textual",
    ) from None

from .overlay import ConsoleScreen as ConsoleScreen
from .overlay import opener as opener
from .widget import SCROLLBACK as SCROLLBACK
from .widget import STOP_KEYS as STOP_KEYS
from .widget import Console as Console

__all__ = ["SCROLLBACK", "STOP_KEYS", "Console", "ConsoleScreen", "opener"]
