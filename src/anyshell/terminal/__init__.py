"""Programs that run on a terminal, and the code that types on their terminals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import importer

if TYPE_CHECKING:
    from .controller import Controller as Controller
    from .driven import ConsoleOpener as ConsoleOpener
    from .driven import DrivenTerminal as DrivenTerminal
    from .driven import Listener as Listener
    from .secrets import SecretRequest as SecretRequest
    from .secrets import SecretSource as SecretSource
else:
    __getattr__ = importer(
        __name__,
        {
            "controller": "Controller",
            "driven": "ConsoleOpener DrivenTerminal Listener",
            "secrets": "SecretRequest SecretSource",
        },
    )
