"""Words of a shell: the arguments that a program gets, as far as the text alone shows."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node

    from ..._types import ShellKind

# A literal piece of a word. Outside quotes: no expansion, pattern, brace or history, and no character that a shell of any
# system takes for a blank; an empty {} is not a brace. In double quotes a backslash escapes only $ ` " and \.
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
    """Return the value of a word without quotes and backslashes; ``None`` if the text alone does not give the value."""
    if not _LITERAL.fullmatch(written):
        return None
    if shell == "zsh" and written.startswith("="):  # zsh replaces =NAME with the path of the command
        return None
    if "\\" in written or "'" in written or '"' in written:
        return _PIECE.sub(_resolved, written)
    return written


@cache
def names(listed: str) -> frozenset[str]:
    """Split a list of names at blanks."""
    return frozenset(listed.split())


_SINGLE = names("raw_string ansi_c_string arithmetic_expansion number")
_SEVERAL = re.compile(r"[*?[{]")


def single(node: Node, text: str) -> bool:
    """Whether a word that is not literal is certainly one argument of the program.

    Within double quotes a blank in an expansion's value ends no word. But ``"$@"`` and ``"${a[@]}"`` can be any number of
    words.
    """
    kind, written = node.type, text[node.start_byte : node.end_byte]
    if kind == "string":
        inner = [
            text[child.start_byte : child.end_byte]
            for child in node.children
            if child.type.endswith("expansion")
        ]
        return not any(each == "$@" or (each.startswith("${") and "@" in each) for each in inner)
    if kind == "concatenation":
        return not _SEVERAL.search(re.sub(r"\{\}", "", _bare(node, text))) and all(
            single(child, text) for child in node.children
        )
    if kind == "simple_expansion":
        return written in ("$#", "$?", "$$", "$!")
    if kind == "expansion":
        return written.startswith("${#")
    if kind == "command_substitution":
        return written == "$(nproc)"  # a number; a text with its own function nproc is not understood
    return kind in _SINGLE or (kind == "word" and not _SEVERAL.search(written))


def _bare(node: Node, text: str) -> str:
    """Return the part of a concatenation outside quotes and expansions."""
    return "".join(text[child.start_byte : child.end_byte] for child in node.children if child.type == "word")
