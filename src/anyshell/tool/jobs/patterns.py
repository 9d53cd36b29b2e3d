"""What a model waits for or searches: a text, or a pattern that cannot take long.

The expressions of `re` backtrack, and hold up every thread while they do. One that repeats a group, or repeats twice in a row,
can take minutes over a few kilobytes. What is accepted takes time in proportion to the square of a line, at most.
"""

from __future__ import annotations

import re

_SLASHES = re.compile(r"/(.+)/", re.DOTALL)
_TOKEN = re.compile(
    r"(?P<escape>\\.)|(?P<set>\[\^?\]?(?:\\.|[^\]\\])*\])|(?P<group>\)[*+?{])|(?P<special>\(\?(?!:))"
    r"|(?P<many>[*+]|\{[^}]*\})|(?P<maybe>\?)|(?P<or>\|)|.",
    re.DOTALL,
)
MAYBES = 3
"""Parts of a model's pattern that may be missing (``?``), at most: each doubles what is tried."""

SIMPLER = "a /pattern/ repeats one thing at most (\\d+, .*) in each alternative, no group, and has no (?…): use a text"


def pattern_of(said: str) -> re.Pattern[str]:
    """Compile what a model says: a text as it is, or an expression between slashes.

    Raises:
        ValueError: It could take long; the message says what is accepted.
        re.error: It does not compile.
    """
    found = _SLASHES.fullmatch(said)
    if found is None:
        return re.compile(re.escape(said))
    many, most, maybes = 0, 0, 0
    for token in _TOKEN.finditer(found[1]):
        match token.lastgroup:
            case "group" | "special":
                raise ValueError(SIMPLER)
            case "escape" if token[0][1].isdigit():
                raise ValueError(SIMPLER)  # refers to what a group matched
            case "many":
                many += 1
            case "maybe":
                maybes += 1
            case "or":
                # Alternatives within groups can follow each other: then all repeats count together.
                most, many = max(most, many), many if "(" in found[1] else 0
    if max(most, many) > 1 or maybes > MAYBES:
        raise ValueError(SIMPLER)
    return re.compile(found[1], re.MULTILINE)
