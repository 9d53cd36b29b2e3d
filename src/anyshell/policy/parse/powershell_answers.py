"""Answers of PowerShell's parser (`parse.ps1`) about a text or a host, and the texts that the parser is not asked about."""

from __future__ import annotations

import base64
import json
import re
from functools import cache
from importlib import resources
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from .parsed import Argument, Parsed, ParsedCommand, Redirection
from .reading import MAX_COMMANDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..._types import ShellKind

MOST_WORDS = 5000
"""Words and redirections of a command in an answer; with more, the text is not understood."""

MALFORMED = "the answer of PowerShell's parser is not understood"

# Texts that are refused before PowerShell's parser is asked: quotes and dashes that look like other characters to a person;
# words for which PowerShell loads or runs modules while it parses (using, configuration); words that end PowerShell's syntax.
_REFUSED = (
    (re.compile("[\u2010-\u2015\u2018-\u201f]"), "a typographic quote or dash is one to PowerShell too"),
    (re.compile(r"[^\t\n\r\x20-\x7e\x80-\U0010ffff]|[\u0080-\u009f]"), "the text has a control character"),
    (re.compile("--%"), "--% passes on what follows as it is"),
    (re.compile(r"#\s*requires", re.IGNORECASE), "#requires is not read"),
    (re.compile(r"using\W.*(module|assembly)", re.IGNORECASE | re.DOTALL), "using is not read"),
    (re.compile(r"configuration.*\{", re.IGNORECASE | re.DOTALL), "a configuration is not read"),
    (re.compile("import-dscresource", re.IGNORECASE), "a configuration is not read"),
)


@cache
def script() -> str:
    """Return the PowerShell script that answers, without comments and indentation: the script has to fit on a command line."""
    text = resources.files(__package__ or "").joinpath("parse.ps1").read_text(encoding="utf-8")
    lines = (line.strip() for line in text.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("#"))


def unasked_because(text: str) -> str:
    """Return a reason why PowerShell's parser is not asked about a text; empty if the parser may be asked."""
    for pattern, why in _REFUSED:
        if pattern.search(text):
            return why
    try:
        text.encode()
    except UnicodeEncodeError:
        return "the text is not Unicode"
    return ""


def question(number: int, text: str) -> bytes:
    """Return the line that asks about a text."""
    return b"%d %s\n" % (number, base64.b64encode(text.encode()))


def question_about_host(number: int, words: Sequence[str]) -> bytes:
    """Return the line that asks about the host: kinds of questions, each followed by its argument.

    Raises:
        UnicodeEncodeError: A word is not valid Unicode.
    """
    asked = "".join(f"{word}\0" for word in words)
    return b"%d %s host\n" % (number, base64.b64encode(asked.encode()))


def host_answers(number: int, count: int, line: bytes) -> list[str | None] | None:
    """Read `count` answers about the host, each ``None`` if not known. Return ``None`` for a malformed line. Never raise."""
    try:
        given = json.loads(line.decode("ascii"))
        answers = _list(given["f"], count) if type(given) is dict and given["n"] == number else _wrong()
        return None if len(answers) != count else [each if each is None else _text(each) for each in answers]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def answered(number: int, text: str, shell: ShellKind, line: bytes) -> Parsed:
    """Read the parsed text of an answer. Never raise: a malformed answer makes a text that is not understood."""
    try:
        given = json.loads(line.decode("ascii"))
        if type(given) is not dict or given["n"] != number:
            _wrong()
        reader = _AnswerReader(text)
        commands = sorted((reader.command(each) for each in _list(given["c"], MAX_COMMANDS)), key=_place)
        doubts = tuple(_text(each) for each in _list(given["d"], MAX_COMMANDS))
    except (ValueError, KeyError, TypeError, RecursionError):
        return Parsed(text, shell, (), (MALFORMED,))
    return Parsed(text, shell, tuple(commands), doubts)


def _place(command: ParsedCommand) -> tuple[int, int]:
    return command.span[0], -command.span[1]


def _list(value: Any, most: int) -> list[Any]:
    if type(value) is not list or len(value) > most:
        raise ValueError
    return value


def _text(value: Any) -> str:
    return base64.b64decode(value, validate=True).decode() if type(value) is str else _wrong()


def _flag(value: Any) -> bool:
    return bool(value) if type(value) is int and value in (0, 1) else _wrong()


def _wrong() -> Any:
    raise ValueError


class _AnswerReader:
    """A reader of the parts of an answer about one text."""

    def __init__(self, text: str) -> None:
        # Maps each UTF-16 offset to the offset of the character; an offset within a surrogate pair is not in the map.
        starts = accumulate((1 + (char > "\uffff") for char in text), initial=0)
        self._places = {unit: at for at, unit in enumerate(starts)}

    def span(self, values: Sequence[Any]) -> tuple[int, int]:
        start, end = values
        if type(start) is not int or type(end) is not int or start > end:
            raise ValueError
        return self._places[start], self._places[end]

    def command(self, given: Any) -> ParsedCommand:
        span = self.span(given["s"])
        words = [self.word(each) for each in _list(given["a"], MOST_WORDS)]
        redirections = []
        for operator, text, literal, *ends in _list(given["r"], MOST_WORDS):
            if operator not in (">", ">>"):
                raise ValueError
            redirections.append(
                Redirection(operator, "", Argument(_text(text), _flag(literal), self.span(ends)))
            )
        if any(
            not span[0] <= each[0] <= each[1] <= span[1]
            for each in (*(word.span for word in words), *(each.target.span for each in redirections))
        ):
            raise ValueError
        program = given["p"] if given["p"] is None else _text(given["p"])
        unknown = ("the program is not literal",) if program is None else ()
        piped = _flag(given["i"])
        return ParsedCommand(
            program, tuple(words), tuple(redirections), (), (), span, piped=piped, unknown=unknown
        )

    def word(self, given: Any) -> Argument:
        text, literal, single, *ends = given
        return Argument(_text(text), _flag(literal), self.span(ends), _flag(single))
