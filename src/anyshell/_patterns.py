"""Regular expressions that every supported Python matches alike."""

from __future__ import annotations

import re
import sys
from typing import AnyStr

MISMATCHED = sys.version_info < (3, 11, 5)
"""Whether this Python matches possessive groups wrongly: after a failed repetition such as the last one of ``(?:a*+b)*+``, the
match goes on behind the characters that the failed repetition has read (https://github.com/python/cpython/issues/106052). Debian
12 has Python 3.11.2."""

_PARTS = re.compile(
    r"\\. | \[\^?+\]?+ (?: \\. | [^\\\]] )*+ \] | (?P<open> \( )"
    r"| (?P<close> \) ) (?: (?P<repeat> [*+?] | \{[0-9]*+,?+[0-9]*+\} ) \+ )? | [^\\\[()]++",
    re.DOTALL | re.VERBOSE,
)


def portable(pattern: AnyStr) -> AnyStr:
    """Return a pattern with the meaning that it has in Python 3.11.5 and later. There it is the pattern itself.

    An earlier Python matches the atomic group ``(?>(?:x)*)`` as a later one matches the possessive group ``(?:x)*+``, but keeps
    every repetition until the group ends. Only groups whose repetition can fail after a character need this function; possessive
    repeats of a single character do not.

    Args:
        pattern: A pattern without parentheses in comments.

    Raises:
        re.error: The parentheses of the pattern do not match; only where the pattern is written anew.
    """
    if not MISMATCHED:
        return pattern
    if isinstance(pattern, bytes):
        return atomic(pattern.decode("latin-1")).encode("latin-1")
    return atomic(pattern)


def atomic(pattern: str) -> str:
    """Return a pattern whose possessive groups are written as atomic groups."""
    parts: list[str] = []
    opened: list[int] = []
    for part in _PARTS.finditer(pattern):
        parts.append(part[0])
        if part["open"]:
            opened.append(len(parts) - 1)
        elif part["close"]:
            if not opened:
                raise re.error("unbalanced parenthesis", pattern, part.start())
            begin = opened.pop()
            if part["repeat"]:
                parts[begin] = "(?>" + parts[begin]
                parts[-1] = f"){part['repeat']})"
    return "".join(parts)
