"""Interception: rules that advise another tool instead of a command. Interception is advice, not protection."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .._exceptions import AnyshellError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from .._types.parsed import Parsed, ParsedCommand, Span

# Wrappers that run a command as the shell itself would: another tool can still replace the command.
_TRANSPARENT = frozenset({"command", "env", "exec", "nice", "nohup", "setsid", "stdbuf", "time", "timeout"})
_DEVICE = re.compile(r"/dev/|(?i:nul|con)\Z")


@dataclass(frozen=True, slots=True)
class InterceptionRule:
    """A kind of command, and the tool to use instead. A command has to meet both `pattern` and `when`.

    Attributes:
        message: The text for the model: the tool to use instead, and the way to use it.
        tool: The name of the tool, in any case of letters. The rule holds only if the model has the tool.
        pattern: A regular expression that matches the command's words from the beginning. The words are joined by blanks,
            with the program's directory removed. Empty for any command.
        when: A function that tells whether the rule is about a command of a text; ``None`` for any command.

    Raises:
        AnyshellError: `pattern` is not a regular expression, or both `pattern` and `when` are missing.
    """

    message: str
    tool: str
    pattern: str = ""
    when: Callable[[ParsedCommand, Parsed], bool] | None = None
    _words: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.pattern and self.when is None:
            raise AnyshellError(
                "an InterceptionRule needs a pattern, or a function when: it would be about everything"
            )
        try:
            object.__setattr__(self, "_words", re.compile(self.pattern, re.DOTALL))
        except re.error as error:
            raise AnyshellError(f"pattern {self.pattern!r} of an InterceptionRule: {error}") from error

    def holds(self, command: ParsedCommand, parsed: Parsed) -> bool:
        """Whether the rule holds for a command of a text."""
        words = " ".join(
            ((command.program or "").rpartition("/")[2], *(argument.text for argument in command.arguments))
        )
        return bool(self._words.match(words)) and (self.when is None or self.when(command, parsed))


@dataclass(frozen=True, slots=True)
class Intercepted:
    """A text that does not run, because another tool replaces one of its commands better.

    Attributes:
        message: The reason, and the advice for the model.
        tool: The tool to use instead, by the name that the model knows.
        command: The text that does not run.
    """

    message: str
    tool: str
    command: str


def writes_a_file(command: ParsedCommand, parsed: Parsed) -> bool:
    """Whether a command's output goes to a file that is not a device."""
    return any(
        each.writes and each.descriptor in ("", "1") and not _DEVICE.match(each.target.text)
        for each in command.redirections
    )


def reads_a_file(command: ParsedCommand, parsed: Parsed) -> bool:
    """Whether a command gets a file and prints the file's content."""
    files = [each.text for each in command.arguments if each.text[:1] not in ("", "-", "+")]
    files += [each.target.text for each in command.redirections if each.reads]
    kept = any(each.writes and each.descriptor in ("", "1") for each in command.redirections)
    return not kept and any(not _DEVICE.match(file) for file in files)


def writes_a_text(command: ParsedCommand, parsed: Parsed) -> bool:
    """Whether a command writes a text from its own words to a file; for ``cat`` the text is a here-document."""
    given = any(each.operator.startswith("<<") for each in command.redirections)
    return writes_a_file(command, parsed) and (command.program != "cat" or (given and not command.arguments))


def in_background(command: ParsedCommand, parsed: Parsed) -> bool:
    """Whether a command runs in the background and the text ends without waiting for the command."""
    rest = parsed.text[command.span[1] :]
    return command.background and bool(re.fullmatch(r"[^&]*&[\s)};]*", rest))


def in_foreground(command: ParsedCommand, parsed: Parsed) -> bool:
    """Whether the shell waits for a command."""
    return not command.background and "nohup" not in command.via


_RUN = r"(?:bun|npm|pnpm|yarn)(?: run)?"
_SERVERS = (
    rf"{_RUN} (?:dev|serve|start|watch)(?: |$)|(?:vite(?! build)|nodemon|watchexec|entr|gdb|lldb)(?: |$)|vite preview|watch |"
    r"(?:next|nuxt|astro|remix) (?:dev|start)|ng serve|cargo watch|tail (?:.* )?(?:-[a-zA-Z0-9]*[fF]|--follow)|"
    r"(?:flask|rails|php artisan|jekyll|hugo) (?:run|server|serve)|python3? -m http\.server|(?:uvicorn|gunicorn) |"
    r"python3? manage\.py runserver|docker(?: compose|-compose) up(?!.* (?:-d|--detach)(?: |$))|"
    rf"(?:{_RUN} \S+|pytest|ptw|vitest|jest|tsc|webpack|esbuild|sass)(?: .*)? (?:--watch|-w)(?: |=|$)"
)

DEFAULTS: tuple[InterceptionRule, ...] = (
    InterceptionRule(
        "Read files with {tool}.",
        "read",
        r"(?:cat|head|tail(?!(?: .*)? (?:-[a-zA-Z0-9]*[fF]|--follow))|less|more)(?: |$)",
        reads_a_file,
    ),
    InterceptionRule("Search in files with {tool}.", "grep", r"(?:grep|egrep|fgrep|rg|ripgrep|ag|ack) "),
    InterceptionRule(
        "Find files with {tool}.",
        "glob",
        r"(?:find|fd|fdfind|locate) (?:.* )?(?:-i?name|-i?path|-type|--type|-t|-e|--extension|-g|--glob)(?: |=|$)|"
        r"(?:fd|fdfind|locate) [^-]",
    ),
    InterceptionRule(
        "Change files with {tool}.",
        "edit",
        r"sed (?:.* )?(?:-[nEsruz]*i|--in-place)|perl (?:.* )?-[pnlawF0]*i|g?awk (?:.* )?(?:-i|--include)[ =]?inplace",
    ),
    InterceptionRule("Write files with {tool}.", "write", r"(?:echo|printf|cat)(?: |$)", writes_a_text),
    InterceptionRule(
        "Start it with run_in_background, without nohup, and look after it with {tool}.", "job", r"nohup "
    ),
    InterceptionRule(
        "Start it with run_in_background, without &, and look after it with {tool}.",
        "job",
        when=in_background,
    ),
    InterceptionRule(
        "It does not end by itself: start it with run_in_background, and look after it with {tool}.",
        "job",
        _SERVERS,
        in_foreground,
    ),
)
"""The rules of ``ShellTool(interception=True)``."""


def intercept(
    parsed: Parsed, *, tools: Collection[str], rules: Iterable[InterceptionRule] = DEFAULTS
) -> Intercepted | None:
    """Decide whether the model should use another tool instead of a text.

    Some commands are never intercepted, because no tool can replace them: a command that reads another command's output,
    whose output is part of another command's words, that stands in a here-document or a function, that another program
    runs, or that runs on another host.

    Args:
        parsed: The parsed text.
        tools: The names of the tools that the model has.
        rules: The rules in their order; the first rule that holds for a command counts.

    Returns:
        The advice; ``None`` if the rules let the text run.
    """
    names = {name.casefold(): name for name in tools}
    active = [rule for rule in rules if rule.tool.casefold() in names]
    for command in _replaceable(parsed) if active else ():
        for rule in active:
            if rule.holds(command, parsed):
                tool = names[rule.tool.casefold()]
                return Intercepted(rule.message.replace("{tool}", f"`{tool}`"), tool, parsed.text)
    return None


def _replaceable(parsed: Parsed) -> list[ParsedCommand]:
    spans = [each.target.span for command in parsed.commands for each in command.redirections]
    spans += [argument.span for command in parsed.commands for argument in command.arguments]
    spans += [variable.value.span for command in parsed.commands for variable in command.variables]
    # Two spans never overlap partly. So only the outermost spans are kept, in order, and a bisection finds the one to check.
    words: list[Span] = []
    for start, end in sorted(spans, key=lambda span: (span[0], -span[1])):
        if not words or end > words[-1][1]:
            words.append((start, end))

    def in_a_word(span: Span) -> bool:
        at = bisect_right(words, span[0], key=lambda word: word[0]) - 1
        return at >= 0 and span[1] <= words[at][1]

    return [
        command
        for command in parsed.commands
        if not (command.piped or command.host or command.defines)
        and all(via in _TRANSPARENT for via in command.via)
        and (command.via or not in_a_word(command.span))
    ]
