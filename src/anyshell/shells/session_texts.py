"""The possible effects of a text on the persistent shell that runs it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anyshell._types import ShellKind

# Each pattern begins with letters: `re` searches for them ten times as fast as for the characters before them.
_DEFINES_BUILTIN = re.compile(r"builtin(?<!\wbuiltin)\s*+\(|function(?<!\wfunction)\s++builtin\b")
_TRAP = re.compile(r"trap(?<!\wtrap)\b.*")


_UNINTERRUPTIBLE: dict[ShellKind, tuple[str, ...]] = {
    # A function does not see these traps, and they are back after the function.
    "bash": ("DEBUG", "RETURN"),
    "zsh": (),
    # bash and busybox as sh run an ERR trap before anyshell's.
    "sh": ("DEBUG", "RETURN", "ERR"),
}
"""The conditions of traps that remove anyshell's trap, or change its effect."""

_NEEDS_CARE = {
    **{
        word: re.compile(rf"{word}(?<!\w{word})\b")
        for word in ("trap", "set", "exec", "source", "eval", "onecmd", "BASH_XTRACEFD")
    },
    "TRAP": re.compile(r"TRAP(?<!\wTRAP)"),
    ".": re.compile(r"\.(?<![^\s;&|\\]\.)\s"),
}
"""Patterns of texts that set a trap or trace, each by a part for a fast search."""


def stays_interruptible(text: str, kind: ShellKind) -> bool:
    """Return whether a shell can still be interrupted after a text, as far as the text shows that.

    Files that the text sources, and commands that it assembles, are not seen.
    """
    signals = ("26", *_UNINTERRUPTIBLE[kind])
    if "VTALRM" in text or "ANYSHELL_" in text or _DEFINES_BUILTIN.search(text):
        return False
    if not any(name in text for name in signals):
        return True
    named = re.compile(rf"\b(?:{'|'.join(signals)})\b")
    return not any(named.search(found[0]) for found in _TRAP.finditer(text))


def needs_care(text: str) -> bool:
    """Return whether a shell may have a trap for EXIT or DEBUG, or trace its commands, after a text.

    An EXIT trap must print to the command's output, and other traps must not print anyshell's own texts there. That takes
    time.
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
    """Return whether a zsh text could take a line behind it, or leave the file before that line in an indistinguishable way.

    Each ``<<`` must have an end of its own, in order, or the here-document could take the line. A ``<<`` whose word opens a
    quote that is never closed has no here-document: the text is an error, with that line and without it.
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

Matches are found one after another: a search for the last one alone takes quadratic time in the length of a line.
"""


def is_unfinished(text: str) -> bool:
    """Return whether a text is an error by itself, and may be valid with one more line."""
    last = text.rstrip()
    if last.endswith(")"):  # the opening parenthesis may stand lines before
        last = last[:-1].rstrip()
    tail = text[max(last.rfind("\n"), 0) :]
    if not tail.rstrip().endswith(("|", "&", ")")) and not any(
        word in tail for word in ("for", "select", "repeat", "function")
    ):
        return False
    return any(found.end() == len(tail) for found in _UNFINISHED.finditer(tail))
