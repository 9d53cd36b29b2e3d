"""Words of a shell: what a program is given for them, as far as the text alone says it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .parsed import Argument

if TYPE_CHECKING:
    from ..._types import ShellKind
    from .parsed import Span

# A piece of a word that is what it says. Outside quotes: no expansion, pattern, brace or history, and no character that a
# shell of any system takes for a blank; {} with nothing in it is no brace. In double quotes a backslash stays, unless it is before one of four characters.
_LITERAL = re.compile(
    r"""(?: [^\s\\'"$`;&|<>(){}*?[~!^\#\x00-\x1f\x7f\x80-\xa0]
      | \{\}
      | \\[^\n]
      | '[^']*'
      | "(?:[^"\\$`] | \\[^\n] | \$(?="))*"
    )+""",
    re.VERBOSE,
)
_PIECE = re.compile(r"""\\(?P<one>.)|'(?P<raw>[^']*)'|"(?P<quoted>(?:[^"\\]|\\.)*)\"""", re.DOTALL)
_ESCAPED = re.compile(r'\\([$`"\\])')


def _resolved(piece: re.Match[str]) -> str:
    if piece["quoted"] is not None:
        return _ESCAPED.sub(r"\1", piece["quoted"])
    return piece["raw"] if piece["raw"] is not None else piece["one"]


def literal(written: str, shell: ShellKind) -> str | None:
    """What a word is once its quotes and backslashes are resolved; ``None`` if the text alone does not say it."""
    if not _LITERAL.fullmatch(written):
        return None
    if shell == "zsh" and written.startswith("="):  # the path of a command
        return None
    if "\\" in written or "'" in written or '"' in written:
        return _PIECE.sub(_resolved, written)
    return written


def argument(written: str, span: Span, shell: ShellKind) -> Argument:
    """A word as it is written, as an argument."""
    text = literal(written, shell)
    return Argument(written, False, span) if text is None else Argument(text, True, span)


def names(listed: str) -> frozenset[str]:
    """The names of a list with blanks between them."""
    return frozenset(listed.split())


# Blanks in the value of an expansion end no word within double quotes; but "$@" and "${a[@]}" are as many as they please.
_SINGLE = re.compile(
    r"""(?:[\w./:=,@%+-]|"(?:[^"\\$`]|\\[^\n]|\$[A-Za-z_0-9#?$!]\w*|\$\{#?[A-Za-z_]\w*\})*")+"""
)


def single(written: str) -> bool:
    """Whether a word that is not literal is one word to the program for sure."""
    return bool(_SINGLE.fullmatch(written))
