"""What a caller may wait for, checked when it is given."""

from __future__ import annotations

import re

from .._exceptions import InvalidCommand


def expression(pattern: object) -> re.Pattern[str]:
    """Compile a pattern; in a text, ``^`` and ``$`` are the ends of lines.

    Raises:
        InvalidCommand: It does not compile, or is none.
    """
    if isinstance(pattern, re.Pattern) and isinstance(pattern.pattern, str):
        return pattern
    if not isinstance(pattern, str):
        raise InvalidCommand(
            f"a pattern must be text or a compiled one of text, not {type(pattern).__name__}"
        )
    try:
        return re.compile(pattern, re.MULTILINE)
    except (re.error, OverflowError, RecursionError) as error:
        raise InvalidCommand(f"the pattern does not compile: {error}") from None


def check_port(port: object) -> None:
    """Refuse what is no TCP port.

    Raises:
        InvalidCommand: Not a whole number from 1 to 65535.
    """
    if isinstance(port, bool) or not isinstance(port, int) or not 0 < port < 65536:
        raise InvalidCommand(f"a port must be 1 to 65535, not {port!r}")
