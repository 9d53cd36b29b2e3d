"""Rules for the noise in the output of a command, and their use on a text."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

from ..text.signals import tells

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

SMALLEST = 1_000
"""Characters of an output below which nothing is left out."""

LARGEST = 4 * 1024 * 1024
"""Bytes of an output above which nothing is left out."""

LEAST_SAVED = 200
"""Characters that the minimizer has to save, or the text is shown whole: the note about the omission is nearly as long."""

LOOKED_AT = 400
"""Characters of a line that patterns see; a longer line is kept, and at most its prefix is grouped."""

TIME = 2.0
"""Seconds for all lines of an output together; an output that takes longer is shown whole."""

LONGEST_BLOCK = 50
"""Lines of a block that is left out; a longer block is kept."""

INDENT = "  "
"""The beginning of a line whose shared prefix stands once in a line above."""

_WORD = re.compile(r"[^\s:;,()<>\[\]{}'\"`\u2018\u2019=]+")
_NUMBER = re.compile(r"[\d.]++[a-z]*")
_INTERPRETER = re.compile(r"(python|pip)[\d.]+\Z")


class Block(NamedTuple):
    """A block of lines that are left out together or kept together, from a first line to the next last line.

    Attributes:
        begin: The pattern of the first line.
        inside: The pattern of every line between.
        end: The pattern of the last line.
    """

    begin: re.Pattern[str]
    inside: re.Pattern[str]
    end: re.Pattern[str]


class Minimized(NamedTuple):
    """A minimized text.

    Attributes:
        text: The remaining lines, in order.
        lines: The number of lines of the output that `text` stands for.
        grouped: Whether shared prefixes stand once, in a line above the indented lines that share the prefix.
    """

    text: str
    lines: int
    grouped: bool = False


@dataclass(frozen=True, slots=True)
class NoiseRule:
    """A rule for noise in the output of a command.

    Attributes:
        name: The name of the rule.
        where: The file and the line of the rule.
        command: Alternatives for the first words of the command; the program is without its directory.
        required: Patterns in the form of file names; each pattern has to match an argument of the command.
        forbidden: Patterns in the form of file names; no pattern may match an argument of the command.
        exit_codes: The exit codes for which the rule holds.
        strip: The pattern of lines that are left out after exit code 0.
        noise: The pattern of lines that are left out after another exit code.
        failed: The pattern of lines that are left out after another exit code, unless an error line names a file of the line.
        blocks: Blocks that are left out after any exit code.
        keep: The pattern of lines that are kept in any case.
        replace: Patterns in the remaining lines with their replacements, used after exit code 0.
        group: The pattern of a prefix that stands once if several lines share the prefix, used after exit code 0.
        on_empty: The text to show when no line remains; empty to show the whole output then.
    """

    name: str
    where: str
    command: tuple[tuple[str, ...], ...]
    required: tuple[str, ...]
    forbidden: tuple[str, ...]
    exit_codes: frozenset[int]
    strip: re.Pattern[str]
    noise: re.Pattern[str]
    failed: re.Pattern[str]
    blocks: tuple[Block, ...]
    keep: re.Pattern[str]
    replace: tuple[tuple[re.Pattern[str], str], ...]
    group: re.Pattern[str] | None
    on_empty: str

    def about(self, words: Sequence[str]) -> bool:
        """Whether the rule is about a command of these words."""
        program = _INTERPRETER.sub(r"\1", re.split(r"[/\\]", words[0])[-1].removesuffix(".exe"))
        given = [program, *words[1:]]
        return (
            any(_begins(given, command) for command in self.command)
            and all(any(fnmatchcase(word, flag) for word in given[1:]) for flag in self.required)
            and not any(fnmatchcase(word, flag) for word in given[1:] for flag in self.forbidden)
        )


def find(rules: Iterable[NoiseRule], words: Sequence[str]) -> NoiseRule | None:
    """Return the first rule that is about a command of these words; ``None`` without such a rule."""
    return next((rule for rule in rules if rule.about(words)), None) if words else None


def _begins(given: Sequence[str], command: Sequence[str]) -> bool:
    """Whether words begin with the words of a command; options may stand between."""
    at = 0
    for word in command:
        while at < len(given) and given[at] != word and at and given[at][:1] == "-" != word[:1]:
            at += 1
        if at == len(given) or given[at] != word:
            return False
        at += 1
    return True


def minimize(rule: NoiseRule, exit_code: int, text: str, *, room: int = LARGEST) -> Minimized | None:
    """Leave the noise out of a text.

    A line that looks like an error or a warning is kept, whatever the rule says.

    Args:
        rule: The rule of the command that has printed the text.
        exit_code: The exit code of that command.
        text: The text, without escape sequences.
        room: Bytes within which lines are grouped: of a longer text a part is shown, where headings might be missing.

    Returns:
        The minimized text; ``None`` to show the text unchanged: the rule does not hold for the exit code, too little would be
        saved, nothing would remain, or the work takes too long. Also ``None`` after a failure that no line tells of, since
        lines that look like noise may then have the cause.
    """
    if exit_code not in rule.exit_codes or not SMALLEST <= len(text) <= LARGEST:
        return None
    until = time.monotonic() + TIME
    try:
        left = shortened(rule, exit_code, text, room=room, until=until)
        if exit_code != 0 and not any(_stays(rule, line) for line in _timed(left.text.split("\n"), until)):
            return None
    except TimeoutError:
        return None
    return left if left.text and len(text) - len(left.text) >= LEAST_SAVED else None


def _timed(lines: Iterable[str], until: float) -> Iterator[str]:
    """Yield lines until the time is over, since each line may cost time with a pattern. Then raise `TimeoutError`."""
    for line in lines:
        if time.monotonic() > until:
            raise TimeoutError
        yield line


def _stays(rule: NoiseRule, line: str) -> bool:
    """Whether a line tells of an error, or the rule keeps the line."""
    plain = line[:LOOKED_AT].rstrip()
    return bool(plain) and (rule.keep.search(plain) is not None or tells(plain.encode(errors="replace")))


def shortened(
    rule: NoiseRule, exit_code: int, text: str, *, room: int = LARGEST, until: float = float("inf")
) -> Minimized:
    """Return a text without the noise that a rule names.

    Args:
        rule: The rule, which holds for the exit code.
        exit_code: The exit code of the command.
        text: The text, without escape sequences.
        room: Bytes within which lines are grouped.
        until: When to give up, by the clock of `time.monotonic`.

    Raises:
        TimeoutError: The work was given up.
    """
    lines = text.removesuffix("\n").split("\n")
    noise = _noise(rule, exit_code, lines, until)
    kept = list(_remaining(rule, exit_code, _timed(lines, until), noise))
    whole = Minimized("".join(f"{line}\n" for line in kept), len(kept))
    if rule.on_empty and not whole.text.strip():
        return Minimized(f"{rule.on_empty}\n", 0)
    if rule.group is not None and exit_code == 0 and (headed := grouped(rule.group, kept, until)) is not None:
        short = "".join(f"{line}\n" for line in headed)
        if len(short) < len(whole.text) and len(short.encode(errors="replace")) <= room:
            return Minimized(short, len(kept), grouped=True)
    return whole


def grouped(pattern: re.Pattern[str], lines: Sequence[str], until: float = float("inf")) -> list[str] | None:
    """Replace the prefix that neighbouring lines share by one heading above the lines; no text is lost.

    A line that begins with `INDENT` stands for the nearest heading above plus the rest of the line, without a gap. So every
    line can be restored exactly.

    Args:
        pattern: The prefix that lines may share; the pattern matches from the beginning of a line.
        lines: Lines without their line feeds.
        until: When to give up, by the clock of `time.monotonic`.

    Returns:
        The lines; ``None`` where a line begins with `INDENT` itself, since the lines could not be restored.
    """
    shared: list[str] = []
    for line in _timed(lines, until):
        match = pattern.match(line, 0, LOOKED_AT)
        shared.append(match[0] if match is not None else "")
    out: list[str] = []
    at = 0
    while at < len(lines):
        heading, last = shared[at], at + 1
        while heading and last < len(lines) and shared[last] == heading:
            last += 1
        # A heading costs one line, and one indent for each line below.
        saves = (last - at - 1) * len(heading) > (last - at) * len(INDENT) + 1
        first = heading if saves else lines[at]
        if first.startswith(INDENT):
            return None
        out.append(first)
        if saves:
            out += (INDENT + line[len(heading) :] for line in lines[at:last])
        at = last if saves else at + 1
    return out


def _noise(rule: NoiseRule, exit_code: int, lines: Sequence[str], until: float) -> Sequence[bool]:
    """Return for each line whether the line is left out."""
    pattern = rule.strip if exit_code == 0 else rule.noise

    def loose(at: int) -> bool:
        """Whether a line may be left out."""
        plain = lines[at].rstrip()
        return bool(plain) and len(plain) <= LOOKED_AT and not _stays(rule, plain)

    noise = [False] * len(lines)
    doubtful: list[int] = []
    for at, line in enumerate(_timed(lines, until)):
        plain = line.rstrip()
        if len(plain) > LOOKED_AT:
            continue
        if pattern.match(plain):
            noise[at] = loose(at)
        elif exit_code != 0 and rule.failed.match(plain) and loose(at):
            doubtful.append(at)
    for block in rule.blocks:
        for first, last in _blocks(block, lines, loose, until):
            noise[first:last] = [True] * (last - first)
    if doubtful:
        named = _named(rule, lines, until)
        for at in doubtful:
            noise[at] = named.isdisjoint(_files(lines[at]))
    return noise


def _named(rule: NoiseRule, lines: Sequence[str], until: float) -> set[str]:
    """Return the files that are named in lines which tell of an error."""
    named: set[str] = set()
    for line in _timed(lines, until):
        if _stays(rule, line):
            named.update(_files(line))
    return named


def _files(line: str) -> Iterator[str]:
    """Yield the names of files in a line, without their directories, which may be written in several ways."""
    for word in _WORD.findall(line):
        if ("." in word or "/" in word) and not _NUMBER.fullmatch(word):
            yield word.rpartition("/")[2]


def _blocks(
    block: Block, lines: Sequence[str], loose: Callable[[int], bool], until: float
) -> Iterator[tuple[int, int]]:
    """Yield the ranges of blocks: the first line, and the line after the last."""
    at = 0
    while at < len(lines):
        first, at = at, at + 1
        if time.monotonic() > until:
            raise TimeoutError
        if len(lines[first]) > LOOKED_AT or not block.begin.match(lines[first].rstrip()) or not loose(first):
            continue
        # A line that matches neither `inside` nor `end`, or may not be left out, keeps the whole block.
        while at < min(len(lines), first + LONGEST_BLOCK) and loose(at):
            plain = lines[at].rstrip()
            if block.begin.match(plain):
                break
            at += 1
            if block.end.match(plain):
                yield first, at
                break
            if not block.inside.match(plain):
                break


def _remaining(rule: NoiseRule, exit_code: int, lines: Iterable[str], noise: Sequence[bool]) -> Iterator[str]:
    blank = gap = False  # whether the last remaining line is blank, and whether lines were left out after it
    for line, dropped in zip(lines, noise, strict=True):
        plain = line.rstrip()
        if dropped:
            gap = True
            continue
        if gap and blank and not plain:
            continue  # blank lines on both sides of omitted lines become one
        yield _replaced(rule, line) if rule.replace and exit_code == 0 else line
        blank, gap = not plain, False


def _replaced(rule: NoiseRule, line: str) -> str:
    if len(line.rstrip()) > LOOKED_AT or _stays(rule, line):
        return line
    for pattern, replacement in rule.replace:
        line = pattern.sub(replacement, line)
    return line
