"""Parsing of a shell text into its commands, before the text runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .parsed import Argument as Argument
from .parsed import Assignment as Assignment
from .parsed import Parsed as Parsed
from .parsed import ParsedCommand as ParsedCommand
from .parsed import Redirection as Redirection

if TYPE_CHECKING:
    from ..._types import ShellKind

MAX_TEXT = 32 * 1024
"""Characters of a text that is parsed. A longer text is not understood."""


def parse(text: str, shell: ShellKind) -> Parsed:
    """Parse a shell text. The function never raises: the result says why a part was not understood."""
    if len(text) > MAX_TEXT:
        return Parsed(text, shell, (), (f"the text is too large: more than {MAX_TEXT} characters",))
    if shell in ("pwsh", "powershell"):
        from .powershell import parse_powershell

        return parse_powershell(text, shell)
    if shell not in ("bash", "sh", "zsh"):
        return Parsed(text, shell, (), (f"a text of {shell} is not parsed",))
    from .commands import parse_posix

    return parse_posix(text, shell)
