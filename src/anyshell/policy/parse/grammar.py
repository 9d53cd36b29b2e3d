"""tree-sitter and its grammars, loaded when first used, and held to a deadline."""

from __future__ import annotations

import re
import time
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Language, Node

TIME = 0.01
"""Seconds of its thread's processor time that the parsing of a text takes, with the texts within it. A text that takes longer
is not understood."""

MAX_NODES = 6000
"""Nodes of a text's tree. A text that has more is not understood: they could not be read in time."""

MISSING = "the extra policy is not installed: python -m pip install 'anyshell[policy]'"

_CHUNK = 4096  # no bound: how much of the text the parser is handed at a time
_FOREIGN = re.compile(r"[^\t\n\x20-\x7e]")


class Late(Exception):  # noqa: N818 - it never leaves this package
    """The deadline is over."""


class Deadline:
    """An end of the processor time of this thread: how busy the machine is changes no verdict."""

    def __init__(self, seconds: float = TIME) -> None:
        self._end = time.thread_time() + seconds

    def over(self, *_state: object) -> bool:
        """Whether it is over."""
        return time.thread_time() > self._end

    def check(self) -> None:
        """Raise `Late` if it is over."""
        if self.over():
            raise Late


@cache
def _language(name: str) -> Language | None:
    try:
        import tree_sitter

        if name == "bash":
            from tree_sitter_bash import language
        else:
            from tree_sitter_powershell import language
    except ImportError:
        return None
    return tree_sitter.Language(language())


def installed(name: str) -> bool:
    """Whether the grammar of ``bash`` or ``powershell`` is there. Loads it."""
    return _language(name) is not None


def tree(text: str, name: str, deadline: Deadline) -> Node:
    """The root of a text's tree. Its offsets are those of the text's characters.

    A character outside ASCII, or a control character, is one of a word for every shell: the parser sees a dot in its place,
    so that a byte is a character, and none is the end of a text. What is read of the text is read of the text itself.

    Raises:
        Late: The deadline is over, or the tree is too large to be read by then.
    """
    from tree_sitter import Parser

    language = _language(name)
    assert language is not None
    data = _FOREIGN.sub(".", text).encode("ascii")

    def read(offset: int, _point: object) -> bytes:
        # Between two looks at the progress the parser may read the text through to its end a hundred times, such as for the
        # delimiter of a here-document. A text that ends early for that is late.
        return b"" if deadline.over() else data[offset : offset + _CHUNK]

    try:
        # Bytes as the source would leave the progress unasked about.
        parsed = Parser(language).parse(read, progress_callback=deadline.over)
    except ValueError:
        raise Late from None
    deadline.check()
    if parsed.root_node.descendant_count > MAX_NODES:
        raise Late
    return parsed.root_node
