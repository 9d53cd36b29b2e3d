"""Commands that another tool does better: rules, and their verdict on a parsed text. Advice, and no protection."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .._exceptions import AnyshellError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from .._types.parsed import Parsed, ParsedCommand, Span

# Programs that run a command as the shell itself would: another tool can replace that command still.
_TRANSPARENT = frozenset({"command", "env", "exec", "nice", "nohup", "setsid", "stdbuf", "time", "timeout"})
_DEVICE = re.compile(r"/dev/|(?i:nul|con)\Z")


@dataclass(frozen=True, slots=True)
class InterceptionRule:
    """A kind of command, and the tool to use instead. All that it says of a command has to be so.

    Attributes:
        message: Told to the model: what to use instead, and how.
        tool: The tool. The rule holds only where a model has it; letter case makes no difference.
        pattern: Regular expression for the words of a command, with a blank between, from their beginning; the program
            without its directory. Empty for any.
        when: Tells of a command of a text whether it is meant; ``None`` for any.

    Raises:
        AnyshellError: `pattern` is no regular expression, or there is neither.
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
        """Whether a command of a text is of this kind."""
        words = " ".join(
            ((command.program or "").rpartition("/")[2], *(argument.text for argument in command.arguments))
        )
        return bool(self._words.match(words)) and (self.when is None or self.when(command, parsed))


@dataclass(frozen=True, slots=True)
class Intercepted:
    """A text that does not run, as another tool does better what one of its commands does.

    Attributes:
        message: Why, and what to do.
        tool: The tool to use instead, by the name that the model has it by.
        command: The text.
    """

    message: str
    tool: str
    command: str


def writes_a_file(command: ParsedCommand, parsed: Parsed) -> bool:
    """Whether its output goes to a file that is no device."""
    return any(
        each.writes and each.descriptor in ("", "1") and not _DEVICE.match(each.target.text)
        for each in command.redirections
    )


def reads_a_file(command: ParsedCommand, parsed: Parsed) -> bool:
    """Whether it is given a file, and prints it."""
    files = [each.text for each in command.arguments if each.text[:1] not in ("", "-", "+")]
    files += [each.target.text for each in command.redirections if each.reads]
    kept = any(each.writes and each.descriptor in ("", "1") for each in command.redirections)
    return not kept and any(not _DEVICE.match(file) for file in files)


def writes_a_text(command: ParsedCommand, parsed: Parsed) -> bool:
    """Whether it writes a text of the command to a file: that of ``cat`` is a here-document."""
    given = any(each.operator.startswith("<<") for each in command.redirections)
    return writes_a_file(command, parsed) and (command.program != "cat" or (given and not command.arguments))


def in_background(command: ParsedCommand, parsed: Parsed) -> bool:
    """Whether the text ends without waiting for it."""
    rest = parsed.text[command.span[1] :]
    return command.background and bool(re.fullmatch(r"[^&]*&[\s)};]*", rest))


def in_foreground(command: ParsedCommand, parsed: Parsed) -> bool:
    """Whether the shell waits for it."""
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
    """Say whether another tool is to be used instead of a text.

    A command that reads another's output is left alone, and so is one whose own output is part of another's words, one
    within a here-document, one that another program runs, and one on another host: no tool replaces these.

    Args:
        parsed: The text.
        tools: The names of the tools that the model has.
        rules: In their order; the first that holds for a command counts.

    Returns:
        What to tell; ``None`` if it may run, as far as the rules go.
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
    # Spans are beside each other or one within another. The longest ones, in order: a command is looked for in one of them.
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
