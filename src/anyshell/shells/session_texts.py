"""The possible effects of a text on the persistent shell that is to run it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anyshell._types import ShellKind

# Each pattern begins with letters, for which `re` searches ten times as fast as for what may stand before them.
_DEFINES_BUILTIN = re.compile(r"builtin(?<!\wbuiltin)\s*+\(|function(?<!\wfunction)\s++builtin\b")
_TRAP = re.compile(r"trap(?<!\wtrap)\b.*")


_UNINTERRUPTIBLE: dict[ShellKind, tuple[str, ...]] = {
    # A function does not see such a trap, and it is there again after that.
    "bash": ("DEBUG", "RETURN"),
    "zsh": (),
    # bash and busybox as sh run an ERR trap before ours.
    "sh": ("DEBUG", "RETURN", "ERR"),
}
"""The conditions of traps that remove ours, or change what it does."""

_NEEDS_CARE = {
    **{
        word: re.compile(rf"{word}(?<!\w{word})\b")
        for word in ("trap", "set", "exec", "source", "eval", "onecmd", "BASH_XTRACEFD")
    },
    "TRAP": re.compile(r"TRAP(?<!\wTRAP)"),
    ".": re.compile(r"\.(?<![^\s;&|\\]\.)\s"),
}
"""Patterns of texts that set a trap or trace, by a part that a search finds at once."""


def stays_interruptible(text: str, kind: ShellKind) -> bool:
    """Whether a shell can be interrupted still that has run a text, as far as the text shows that.

    What it sources, and what it puts together, is not seen.
    """
    signals = ("26", *_UNINTERRUPTIBLE[kind])
    if "VTALRM" in text or "ANYSHELL_" in text or _DEFINES_BUILTIN.search(text):
        return False
    if not any(name in text for name in signals):
        return True
    named = re.compile(rf"\b(?:{'|'.join(signals)})\b")
    return not any(named.search(found[0]) for found in _TRAP.finditer(text))


def needs_care(text: str) -> bool:
    """Whether a shell that has run a text may have a trap for EXIT or DEBUG, or trace what it does.

    The output of an EXIT trap must go to the output, and what other traps print of these texts must not. That takes time.
    """
    for word, pattern in _NEEDS_CARE.items():  # noqa: SIM110 - half as long as any()
        if word in text and pattern.search(text):
            return True
    return False


_RETURNS_EXPRESSION = re.compile(r"return(?<!\wreturn)[^\S\n]++(?![\d$;&|})#<>\"'])\S")

_HERE_DOCUMENT = re.compile(
    r"<<(?<!<<<)(?!<)(?P<tabs>-?)[^\S\n]*+(?:\\?(?P<word>[\w.-]+)|(?P<quote>['\"])(?P<quoted>[\w.-]+)(?P=quote))?"
)

_OPENS_QUOTE = re.compile(r"<<-?[^\S\n]*+[\w.-]*+(['\"])")


def takes_line(text: str) -> bool:
    """Whether a text of zsh could take up a line behind it, or leave the file before it in a way that is not told apart.

    Each ``<<`` has to have an end of its own, in the order in which they stand, or it could have the line. One whose word
    opens a quote that is never closed has no here-document: the text is an error, with that line and without it.
    """
    if _RETURNS_EXPRESSION.search(text):
        return True
    at = 0
    for found in _HERE_DOCUMENT.finditer(text):
        opened = _OPENS_QUOTE.match(text, found.start())
        if opened is not None and text.find(opened[1], opened.end()) < 0:
            continue
        word = found["word"] or found["quoted"]
        if not word:
            return True
        end = re.compile(rf"\n{chr(9) + '*' if found['tabs'] else ''}{re.escape(word)}(?=\n|\Z)")
        ended = end.search(text, max(at, found.end()))
        if ended is None:
            return True
        at = ended.end()
    return False


_UNFINISHED = re.compile(
    r"(?:^|[;&|({\n]|\b(?:do|then|else)\s)[^\S\n]*+(?:for|foreach|select|repeat|function)"
    r"(?:[^\S\n][^;{\n]*+(?:\s*+\Z)?|\s++\Z)|(?:(?<!\|)\|&?|\(\s*+\))\s*+\Z"
)
"""The beginning of a construct at the end of a text: an error by itself, which one more line may complete.

To be found one after another: a search for the last alone takes time that grows with the square of a line.
"""


def is_unfinished(text: str) -> bool:
    """Whether a text is an error by itself, and none with one more line."""
    last = text.rstrip()
    if last.endswith(")"):  # the other bracket may stand lines before
        last = last[:-1].rstrip()
    tail = text[max(last.rfind("\n"), 0) :]
    if not tail.rstrip().endswith(("|", "&", ")")) and not any(
        word in tail for word in ("for", "select", "repeat", "function")
    ):
        return False
    return any(found.end() == len(tail) for found in _UNFINISHED.finditer(tail))
