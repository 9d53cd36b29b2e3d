"""A hint of what a PowerShell text runs. The text is never understood: only the host's own PowerShell parser can decide."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING

from .grammar import MISSING, TRIES, Deadline, Late, installed, tree
from .parsed import Argument, Parsed, ParsedCommand, Redirection

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node

    from ..._types import ShellKind

HINT = "only PowerShell's own parser says what this runs"

_BARE = re.compile(r"[\w./\\:=,+*?~-]+")
_QUOTED = re.compile(r"'([^'\u2018-\u201b]*)'|\"([^\"$`\u201c-\u201f]*)\"")


def parse_powershell(text: str, shell: ShellKind) -> Parsed:
    """Parse a PowerShell text into the commands that the grammar shows, with a reason why the list may be incomplete."""
    if not installed("powershell"):
        return Parsed(text, shell, (), (MISSING,))
    for _ in range(TRIES):
        with contextlib.suppress(Late):
            return Parsed(text, shell, tuple(_commands(text, Deadline())), (HINT,))
    return Parsed(text, shell, (), (HINT, "too much to be understood in time"))


def _commands(text: str, deadline: Deadline) -> Iterator[ParsedCommand]:
    stack = [tree(text, "powershell", deadline)]
    while stack:
        deadline.check()
        node = stack.pop()
        stack += reversed(node.children)
        if node.type == "command":
            yield _command(text, node)


def _command(text: str, node: Node) -> ParsedCommand:
    program: str | None = None
    words: list[Argument] = []
    redirections: list[Redirection] = []
    for child in node.children:
        if child.type == "command_name":
            program = text[child.start_byte : child.end_byte]
        elif child.type == "command_elements":
            for element in child.children:
                if element.type == "redirection":
                    operator, _, target = text[element.start_byte : element.end_byte].partition(" ")
                    redirections.append(
                        Redirection(operator.lstrip("0123456789*"), "", _word(target.strip(), element))
                    )
                elif element.type != "command_argument_sep":
                    words.append(_word(text[element.start_byte : element.end_byte].strip(), element))
    first = node.prev_named_sibling
    return ParsedCommand(
        program,
        tuple(words),
        tuple(redirections),
        (),
        (),
        (node.start_byte, node.end_byte),
        piped=first is not None and first.type == "command",
        unknown=(HINT,),
    )


def _word(written: str, node: Node) -> Argument:
    span = (node.start_byte, node.end_byte)
    quoted = _QUOTED.fullmatch(written)
    if quoted:
        return Argument(quoted[1] or quoted[2] or "", True, span)
    return Argument(written, bool(_BARE.fullmatch(written)) and not re.search(r"[*?~,]", written), span)
