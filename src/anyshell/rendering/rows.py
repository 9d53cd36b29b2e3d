"""Rows of text, folded as a terminal folds lines."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rich.cells import cell_len

from ..output.cells import width
from ..output.text.bounded import cut_note

if TYPE_CHECKING:
    from collections.abc import Iterator

_TAB = 8  # no bound: the tab width of terminals

# Characters that some terminals draw as one: a flag; or a character with its variation, tone or tags, and the characters joined to it.
_CLUSTER = re.compile(
    r"[\U0001f1e6-\U0001f1ff]{2}"
    r"|[^\u200d](?:[\ufe00-\ufe0f\u20e3\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]|\u200d(?:[^\u200d]|\Z))*+|\u200d",
    re.DOTALL,
)

_NOTE = re.compile(r" \[line cut: [0-9,]+ more bytes?\]")


def bounded(line: str, longest: int | None) -> str:
    """Return the first characters of a line, with a note of how much is left out."""
    if longest is None or len(line) <= longest:
        return line
    kept, rest = line[:longest], line[longest:]
    # A line of live output was cut before, and ends with its note.
    return kept + (rest if _NOTE.fullmatch(rest) else cut_note(len(rest.encode("utf-8", "replace"))))


def without_tabs(line: str) -> str:
    """Replace tabs by blanks, up to the next tab stop."""
    if "\t" not in line:
        return line
    first, *others = line.split("\t")
    parts, column = [first], cell_len(first)
    for part in others:
        gap = _TAB - column % _TAB
        parts += (" " * gap, part)
        column += gap + cell_len(part)
    return "".join(parts)


def chopped(line: str, room: int) -> list[str]:
    """Cut a line into rows that fit on every terminal; return at least one row."""
    if line.isascii():
        return [line[at : at + room] for at in range(0, len(line), room)] or [""]
    rows, used = [""], 0
    for cluster in _CLUSTER.findall(line):
        for part in [cluster] if most_columns(cluster) <= room else cluster:
            columns = most_columns(part)
            if used + columns > room and rows[-1]:
                rows.append("")
                used = 0
            rows[-1] += part
            used += columns
    return rows


def most_columns(text: str) -> int:
    """Return the most columns of a text: on a terminal that joins characters, or on a terminal that does not."""
    return len(text) if text.isascii() else max(cell_len(text), sum(map(width, text)))


def at_words(text: str, room: int) -> Iterator[str]:
    """Fold a sentence between words; cut a word that is longer than a row at any place."""
    row = ""
    for word in text.replace("\n", " ").split(" "):
        longer = f"{row} {word}" if row else word
        if most_columns(longer) <= room:
            row = longer
            continue
        if row:
            yield row
        *rows, row = chopped(word, room)
        yield from rows
    yield row
