"""A rule for what is noise in the output of a command, and what it leaves of a text."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from ..text.signals import tells

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

SMALLEST = 1_000
"""Characters of an output below which nothing is left out."""

LARGEST = 4 * 1024 * 1024
"""Bytes of an output above which nothing is left out."""

LEAST_SAVED = 200
"""Characters that have to be saved: the words that say what was left out need nearly as many."""

LOOKED_AT = 400
"""Characters of a line; a longer line is kept as it is, and no pattern sees it."""

TIME = 2.0
"""Seconds for all lines of an output together; what takes longer is shown as it is."""


_INTERPRETER = re.compile(r"(python|pip)[\d.]+\Z")


@dataclass(frozen=True, slots=True)
class Rule:
    """What is noise in the output of a command.

    Attributes:
        name: What the rule is called.
        where: The file and the line of it.
        command: The first words of the command, alternatives; the program without its directory.
        required: Patterns as of file names, each of which an argument of the command has to match.
        forbidden: The same, of which no argument may match one.
        exit_codes: For which it holds.
        strip: Lines that are left out after exit code 0.
        noise: Lines that are left out after another.
        keep: Lines that are kept in any case.
        replace: Patterns in the remaining lines, and what stands there instead, after exit code 0.
        on_empty: What is shown when nothing remains; empty to show all then.
    """

    name: str
    where: str
    command: tuple[tuple[str, ...], ...]
    required: tuple[str, ...]
    forbidden: tuple[str, ...]
    exit_codes: frozenset[int]
    strip: re.Pattern[str]
    noise: re.Pattern[str]
    keep: re.Pattern[str]
    replace: tuple[tuple[re.Pattern[str], str], ...]
    on_empty: str

    def about(self, words: Sequence[str]) -> bool:
        """Whether it is about a command of these words."""
        program = _INTERPRETER.sub(r"\1", re.split(r"[/\\]", words[0])[-1].removesuffix(".exe"))
        given = [program, *words[1:]]
        return (
            any(_begins(given, command) for command in self.command)
            and all(any(fnmatchcase(word, flag) for word in given[1:]) for flag in self.required)
            and not any(fnmatchcase(word, flag) for word in given[1:] for flag in self.forbidden)
        )


def find(rules: Iterable[Rule], words: Sequence[str]) -> Rule | None:
    """The first rule that is about a command of these words."""
    return next((rule for rule in rules if rule.about(words)), None) if words else None


def _begins(given: Sequence[str], command: Sequence[str]) -> bool:
    """Whether words begin with those of a command; options may stand between."""
    at = 0
    for word in command:
        while at < len(given) and given[at] != word and at and given[at][:1] == "-" != word[:1]:
            at += 1
        if at == len(given) or given[at] != word:
            return False
        at += 1
    return True


def minimize(rule: Rule, exit_code: int, text: str) -> str | None:
    """Leave out the noise.

    A line that looks like an error or a warning is kept, whatever the rule says.

    Args:
        rule: The rule of the command that has printed the text.
        exit_code: Of that command.
        text: Cleaned of escape sequences.

    Returns:
        The remaining lines, in order; ``None`` where the text is to be shown as it is: the rule does not hold for
        the exit code, too little would be saved, nothing would remain, or it takes too long.
    """
    if exit_code not in rule.exit_codes or not SMALLEST <= len(text) <= LARGEST:
        return None
    try:
        kept = shortened(rule, exit_code, text, until=time.monotonic() + TIME)
    except TimeoutError:
        return None
    return kept if kept and len(text) - len(kept) >= LEAST_SAVED else None


def shortened(rule: Rule, exit_code: int, text: str, *, until: float = float("inf")) -> str:
    """What a rule leaves of a text of any size.

    Args:
        rule: The rule; it holds for the exit code.
        exit_code: Of the command.
        text: Cleaned of escape sequences.
        until: When to give up, by the clock of `time.monotonic`.

    Raises:
        TimeoutError: It was given up.
    """
    kept = "".join(_lines(rule, exit_code, text, until))
    return kept if kept.strip() or not rule.on_empty else f"{rule.on_empty}\n"


def _lines(rule: Rule, exit_code: int, text: str, until: float) -> Iterator[str]:
    noise = rule.strip if exit_code == 0 else rule.noise
    blank = gap = (
        False  # whether the last line of what remains is blank, and whether lines were left out after it
    )
    for line in text.removesuffix("\n").split("\n"):
        if time.monotonic() > until:
            raise TimeoutError
        plain = line.rstrip()
        matchable = bool(plain) and len(plain) <= LOOKED_AT and not rule.keep.search(plain)
        if matchable and noise.match(plain) and not tells(plain.encode(errors="replace")):
            gap = True
            continue
        if gap and blank and not plain:
            continue  # the blank lines around what was left out are one
        replaces = rule.replace and matchable and exit_code == 0 and not tells(plain.encode(errors="replace"))
        yield f"{_replaced(rule, line) if replaces else line}\n"
        blank, gap = not plain, False


def _replaced(rule: Rule, line: str) -> str:
    for pattern, replacement in rule.replace:
        line = pattern.sub(replacement, line)
    return line
