"""The text of a command that is given as words: an argument list, or a template with values that are quoted.

A value in a template must be one word for the shell, whatever it holds. So a field may stand only where quotes have the same
meaning as at the start of a text. The scanners follow the quotes of a text as far as that is simple. Behind any other
construct, such as a here-document or arithmetic, no field is allowed. A refusal costs a sentence; a wrong guess would execute
a value.
"""

from __future__ import annotations

import math
import os
import re
import string
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from anyshell._exceptions import InvalidCommand
from anyshell._types import check_text, cut_name

from .powershell import PowerShell

if TYPE_CHECKING:
    import sys
    from collections.abc import Mapping
    from typing import Never

    from .posix import Shell

    Argument: TypeAlias = str | bytes | os.PathLike[str] | float
    """One word: text, the bytes of a name, a path, or a number."""

    if sys.version_info >= (3, 14):
        from string.templatelib import Template

        CommandLike: TypeAlias = "str | Sequence[Argument] | ShellTemplate | Template"
    else:
        Template: TypeAlias = Never
        CommandLike: TypeAlias = "str | Sequence[Argument] | ShellTemplate"


@dataclass(frozen=True, slots=True)
class ShellTemplate:
    """A text with values, which the shell that will run the text quotes. `sh` makes templates.

    Attributes:
        texts: The text before each value, and after the last.
        words: The words of each value: one word, or one for each item of a list.
    """

    texts: tuple[str, ...]
    words: tuple[tuple[str, ...] | str, ...] = field(repr=False)  # a value may be a secret

    def quoted(self, shell: Shell | PowerShell) -> str:
        """Return the text for a shell.

        Raises:
            InvalidCommand: A field stands where a quoted value would not be one word.
        """
        place: _WordPlace = _PowerShell() if isinstance(shell, PowerShell) else _Posix()
        made = [self.texts[0]]
        place.follow(self.texts[0])
        for number, (words, after) in enumerate(zip(self.words, self.texts[1:], strict=True), 1):
            alone = place.is_alone(after[:1])
            if not place.takes(after[:1]):
                raise InvalidCommand(
                    f"field {number} of the template stands within quotes, or where it would be no word of its own"
                    f" ({made[-1][-20:]!r} before it): a value is quoted already; take it out, or pass it by env="
                )
            if not isinstance(words, str) and not alone:
                raise InvalidCommand(
                    f"field {number} of the template is a list: it must stand between blanks"
                )
            bare = alone and not isinstance(shell, PowerShell) and not made[-1].rstrip().endswith("=~")
            quote = shell.quote if bare else shell.literal  # behind =~ an unquoted word is an expression
            made += (" ".join(map(quote, (words,) if isinstance(words, str) else words)), after)
            place.before = "x"  # the next text continues a word
            place.follow(after)
        return "".join(made)


def sh(template: str | Template, /, *values: object, **named: object) -> ShellTemplate:
    """Make a command of a text with fields, such as ``sh("rm {}", path)``: the shell that runs it quotes the values.

    A value is one word: text, a path, a number, or the bytes of a name; a list of values is as many words. ``{{`` and ``}}``
    are braces. A program that passes its arguments to another shell, as ``ssh`` and ``eval`` do, has them parsed again.

    Args:
        template: Text in the shell's language, with ``{}``, ``{0}`` or ``{name}`` in the place of a value. A field stands
            outside of quotes, comments and here-documents. On Python 3.14 and later also a t-string, which has its own
            values.
        values: The values of ``{}``, in order, and of ``{0}``, ``{1}``, …
        named: The values of ``{name}``.

    Raises:
        InvalidCommand: A field without a value, a value without a field, or a value that is not a word.
    """
    if not isinstance(template, str):
        if not _is_t_string(template):
            raise InvalidCommand(f"the template must be a string, not {type(template).__name__}")
        if values or named:
            raise InvalidCommand("a t-string has its values: write them into it, and give no others")
        return _of_t_string(template)
    check_text("the template", template)
    given: dict[str, object] = {**{str(at): value for at, value in enumerate(values)}, **named}
    unused, numbers = set(given), count()
    texts, words = [""], []
    try:
        parts = list(string.Formatter().parse(template))
    except ValueError as error:
        raise InvalidCommand(f"the template: {error}; a brace is written {{{{ or }}}}") from None
    for text, name, spec, conversion in parts:
        texts[-1] += text
        if name is None:
            continue
        name = name or str(next(numbers))
        if name not in given or spec or conversion:
            raise InvalidCommand(
                f"the template has no value for {{{cut_name(name)}}}: give one, or write a brace {{{{ or }}}}"
                if name not in given
                else f"the field {{{name}}} of the template says how to format: format the value before"
            )
        unused.discard(name)
        words.append(_value(f"the value of {{{name}}}", given[name]))
        texts.append("")
    if unused:
        raise InvalidCommand(
            f"the template has no field for value {', '.join(sorted(unused))}: write {{}}, {{0}} or {{name}} where it belongs"
        )
    return ShellTemplate(tuple(texts), tuple(words))


def text_of(command: object, shell: Shell | PowerShell) -> str:
    """Return the text of a command for a shell: the text that the shell reads, an approver sees, and a record stores.

    Raises:
        InvalidCommand: The value is not a command; the message says what a command is.
    """
    if isinstance(command, str):
        return command
    if isinstance(command, ShellTemplate):
        return command.quoted(shell)
    if _is_t_string(command):
        return _of_t_string(command).quoted(shell)
    return shell.join(words_of(command))


def words_of(command: object) -> tuple[str, ...]:
    """Return the words of a list; raises `InvalidCommand` as `text_of` does."""
    if not isinstance(command, Sequence) or isinstance(command, bytes | bytearray | memoryview):
        raise InvalidCommand(
            "the command must be a string, a list of a program and its arguments, or anyshell.sh(…), not "
            f"{type(command).__name__}"
        )
    words = tuple(
        _word(f"argument {at} of the command" if at else "the program", each)
        for at, each in enumerate(command)
    )
    if not words or not words[0]:
        raise InvalidCommand("the command is a list without a program: give one, and its arguments")
    return words


def quoted(arguments: Sequence[Argument], shell: Shell | PowerShell) -> str:
    """Return arguments as words for a shell, with a blank between them; raises `InvalidCommand` for a value that is not a word."""
    return " ".join(shell.quote(_word(f"argument {at}", each)) for at, each in enumerate(arguments, 1))


def _is_t_string(value: object) -> bool:
    return type(value).__module__ == "string.templatelib"


def _of_t_string(template: Any) -> ShellTemplate:
    words = []
    for at, each in enumerate(template.interpolations, 1):
        value = string.Formatter().convert_field(each.value, each.conversion)
        if each.format_spec:
            value = format(value, each.format_spec)
        words.append(_value(f"value {at} of the template", value))
    return ShellTemplate(tuple(template.strings), tuple(words))


def _value(what: str, value: object) -> tuple[str, ...] | str:
    if isinstance(value, list | tuple):
        return tuple(_word(f"item {at} of {what}", each) for at, each in enumerate(value))
    return _word(what, value)


def _word(what: str, value: object) -> str:
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, bytes):
        value = value.decode(errors="surrogateescape")
    elif isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        value = str(value)
    elif not isinstance(value, str):
        raise InvalidCommand(f"{what} must be text, a path or a number, not {type(value).__name__}")
    check_text(what, value)
    return value


class _WordPlace:
    """The place of a field in a text.

    Attributes:
        before: The character before the place; a line feed at the start, and ``x`` behind a part of a word.
        within: The state of the scanner: in a quote or a comment, ``?`` behind an unknown construct, or empty.
    """

    scanners: ClassVar[Mapping[str, re.Pattern[str]]]
    """The pattern of the next piece for each state. The pattern's group begins or ends a state, or is an unknown construct."""

    def __init__(self) -> None:
        self.before = "\n"
        self.within = ""

    def follow(self, text: str) -> None:
        """Scan more of the text."""
        at = 0
        while at < len(text) and self.within != "?":
            piece = self.scanners[self.within].match(text, at)
            assert piece is not None  # each pattern takes any character
            at = piece.end()
            if piece.lastgroup is not None:
                self.within = self.turned(piece.lastgroup, text[piece.start()])
            if piece[0] != "\\\n":  # a line continuation, which is nothing to the shell
                escaped = len(piece[0]) == 2 and piece[0][0] in "\\`"
                self.before = "x" if escaped else piece[0][-1]

    def turned(self, group: str, first: str) -> str:
        """Return the state behind a piece."""
        return {"open": first, "close": "", "unknown": "?"}[group]

    def is_alone(self, after: str) -> bool:
        """Return whether a value before this character is a word of its own."""
        return self.before in " \t\n;&|(" and (not after or after in " \t\n;&|)")

    def takes(self, after: str) -> bool:
        """Return whether a quoted value can stand before this character."""
        raise NotImplementedError


class _Posix(_WordPlace):
    """The place of a field in a text for bash, zsh and sh."""

    scanners: ClassVar[Mapping[str, re.Pattern[str]]] = {
        "": re.compile(
            r"\\.|\$\{\w+\}|<<<|(?P<unknown>`|\$\{|\(\(|\$\[|\$'|<<)|(?P<open>['\"#])|.", re.DOTALL
        ),
        "'": re.compile(r"(?P<close>')|.", re.DOTALL),
        '"': re.compile(r"\\.|\$\{\w+\}|(?P<unknown>`|\$[{(\[])|(?P<close>\")|.", re.DOTALL),
        "#": re.compile(r"(?P<close>\n)|.", re.DOTALL),
    }

    def turned(self, group: str, first: str) -> str:
        """Return the state behind a piece."""
        if first == "#" and self.before not in " \t\n;&|()<>":
            return ""  # within a word
        return super().turned(group, first)

    def takes(self, after: str) -> bool:
        """Return whether a quoted value can stand here. ``$'`` would be another quote, and ``[`` may begin arithmetic."""
        return not self.within and self.before not in "$\\["


_SINGLE, _DOUBLE = "'\u2018\u2019\u201a\u201b", '"\u201c\u201d\u201e'


class _PowerShell(_WordPlace):
    """The place of a field in a text for PowerShell, which has more quote characters."""

    scanners: ClassVar[Mapping[str, re.Pattern[str]]] = {
        "": re.compile(
            rf"`.|(?P<unknown>--%|\$\{{|#|@[{_SINGLE}{_DOUBLE}])|(?P<open>[{_SINGLE}{_DOUBLE}])|.", re.DOTALL
        ),
        "'": re.compile(f"(?P<close>[{_SINGLE}])|.", re.DOTALL),
        '"': re.compile(rf"`.|(?P<unknown>\$\()|(?P<close>[{_DOUBLE}])|.", re.DOTALL),
    }

    def turned(self, group: str, first: str) -> str:
        """Return the state behind a piece."""
        if group == "open":
            return "'" if first in _SINGLE else '"'
        if first == "#" and self.before.isalnum():
            return ""  # within a word
        return super().turned(group, first)

    def takes(self, after: str) -> bool:
        """Return whether a quoted value can stand here: a string in the middle of a word would be another argument."""
        return not self.within and self.before in " \t\n(,=:;|&{" and (not after or after in " \t\n),;|&}")
