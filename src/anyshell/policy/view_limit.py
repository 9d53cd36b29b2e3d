"""View limits: a final ``| head`` or ``| tail`` limits only the shown output, and the whole output is kept."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .._types.parsed import Parsed, ParsedCommand

LARGEST_WHOLE = 16 * 1024 * 1024
"""Bytes of an output that are kept if ``head`` limits the shown lines; beyond that SIGPIPE stops the programs before, as with
``head`` itself."""

_PIPE = re.compile(r"[ \t]*(?:2>(?:&1|[ \t]*/dev/null)[ \t]*)?\|&?[ \t]*")
_COUNT = re.compile(r"(?:-n ?|--lines=|-)([1-9][0-9]{0,8})")

# Programs that may never end. `head` stops such a program after its lines; a reader of the whole output would wait for more.
_ENDLESS = frozenset(
    {"dmesg", "inotifywait", "journalctl", "ping", "ping6", "tcpdump", "top", "watch", "yes"}
)
_FOLLOWS = re.compile(r"-[a-zA-Z0-9]*[fF]\Z|--follow|--watch|/dev/")


@dataclass(frozen=True, slots=True)
class ViewLimit:
    """A limit on the shown lines of an output.

    Attributes:
        text: The text that runs: the line, with a reader of the whole output in place of `said`.
        said: The end of the line that asked for the limit, such as ``head -n 5``.
        head: The number of lines from the start; ``None`` for all.
        tail: The number of lines from the end of the `head` lines; ``None`` for all.
    """

    text: str
    said: str
    head: int | None
    tail: int | None

    def lines(self, total: int) -> tuple[int, int]:
        """Return the numbers of the first and the last shown line, for an output of `total` lines."""
        last = total if self.head is None else min(self.head, total)
        return 1 if self.tail is None else max(1, last - self.tail + 1), last


def view_limit(parsed: Parsed) -> ViewLimit | None:
    """Read a view limit from the end of a line; ``None`` if there is no limit, and in every case of doubt.

    The line has to be one pipeline of simple commands with no redirections but ``2>&1`` and ``2>/dev/null``. Its last
    program, or its last two, have to be ``head`` and ``tail`` with a literal number of lines. The exit code of the pipeline
    does not change: ``cat`` and ``head -c`` exit with 0 as ``head`` and ``tail`` do; with ``pipefail`` the codes of the other
    programs count.
    """
    text = parsed.text.rstrip()
    stages = _stages(parsed.commands, text) if parsed.understood and not parsed.functions else []
    head = tail = None
    first = len(stages)
    if stages and (tail := _count(stages[-1], "tail")) is not None:
        first -= 1
    if first > 1 and (head := _count(stages[first - 1], "head")) is not None:
        first -= 1
    if not 0 < first < len(stages) or {"head", "tail"} & {stages[first - 1].program}:
        return None
    start = stages[first].span[0]
    if head is not None and any(_endless(each) for each in parsed.commands if each.span[0] < start):
        return None
    reader = "cat" if head is None else f"head -c {LARGEST_WHOLE}"
    return ViewLimit(text[:start] + reader, text[start:], head, tail)


def _stages(commands: Iterable[ParsedCommand], text: str) -> list[ParsedCommand]:
    """Return the programs of a text that is one pipeline; empty for any other text."""
    stages: list[ParsedCommand] = []
    at = 0
    for command in commands:
        start, end = command.span
        if start < at:  # the command stands in another command's words, or another command runs it
            continue
        if start and (not stages or not _PIPE.fullmatch(text, at, start)):
            return []
        if any(each.descriptor != "2" for each in command.redirections):
            return []
        stages.append(command)
        at = end
    return stages if at == len(text) and "\n" not in text else []


def _count(command: ParsedCommand, program: str) -> int | None:
    """Return the number of lines of a ``head`` or ``tail`` command; ``None`` if `command` is not a plain one."""
    if command.program != program or command.redirections or command.variables or command.background:
        return None
    if not command.piped or not all(argument.literal for argument in command.arguments):
        return None
    found = _COUNT.fullmatch(" ".join(argument.text for argument in command.arguments))
    return None if found is None else int(found[1])


def _endless(command: ParsedCommand) -> bool:
    name = (command.program or "").rpartition("/")[2]
    return name in _ENDLESS or any(_FOLLOWS.match(argument.text) for argument in command.arguments)
