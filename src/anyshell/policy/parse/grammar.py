"""tree-sitter and its grammars: loaded at the first use, and bounded by a deadline."""

from __future__ import annotations

import re
import time
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Language, Node

TIME = 0.01
"""Seconds of the thread's processor time for one try to parse a text, with its inner texts. A text that takes longer in each of
its `TRIES` is not understood."""

TRIES = 2
"""Tries to parse a text: if Python collects garbage during a try, the collection takes processor time of the same thread."""

MAX_NODES = 6000
"""Nodes of a text's tree. A text with more is not understood: the nodes could not be read in time."""

MISSING = "the extra policy is not installed: python -m pip install 'anyshell[policy]'"

_CHUNK = 4096  # no bound: bytes of the text that the parser gets at a time
_FOREIGN = re.compile(r"[^\t\n\x20-\x7e]")


class Late(Exception):  # noqa: N818 - it never leaves this package
    """The deadline has passed, or the text has too many parts."""


class Deadline:
    """A deadline in processor time of this thread: the load of the machine changes no verdict."""

    def __init__(self, seconds: float = TIME) -> None:
        self._end = time.thread_time() + seconds

    def over(self, *_state: object) -> bool:
        """Whether the deadline has passed."""
        return time.thread_time() > self._end

    def check(self) -> None:
        """Raise `Late` if the deadline has passed."""
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
    """Whether the grammar of ``bash`` or ``powershell`` is installed. The call loads the grammar."""
    return _language(name) is not None


def tree(text: str, name: str, deadline: Deadline) -> Node:
    """Return the root of a text's tree. The byte offsets of nodes are offsets of the text's characters.

    The parser gets a dot in place of each character outside ASCII and each control character. So a byte is a character, and
    no character ends the text; for every shell, such a character is part of a word. Words are read from the text itself.

    Raises:
        Late: The deadline has passed, or the tree is too large to be read in time.
    """
    from tree_sitter import Parser

    language = _language(name)
    assert language is not None
    data = _FOREIGN.sub(".", text).encode("ascii")

    def read(offset: int, _point: object) -> bytes:
        # Between two progress callbacks the parser may read the text to its end a hundred times, such as for the delimiter of
        # a here-document. So the text ends early after the deadline, and the check below raises `Late`.
        return b"" if deadline.over() else data[offset : offset + _CHUNK]

    try:
        # If the source were bytes, tree-sitter would not call the progress callback.
        parsed = Parser(language).parse(read, progress_callback=deadline.over)
    except ValueError:
        raise Late from None
    deadline.check()
    if parsed.root_node.descendant_count > MAX_NODES:
        raise Late
    return parsed.root_node
