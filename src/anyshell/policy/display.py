r"""What the approver of a command sees: all that decides what runs, and nothing that could pass for more.

Every line that a request can fill begins with a mark of anyshell, and every character that cannot be seen, or that
changes how its neighbours are seen, is shown by its number: ``\x1b``, ``\u202e``, ``\U000e0041``. So is a long run
of spaces, which could push what follows out of sight: ``\x20{74}``. Letters that are read from right to left stay
as they are, and the line that holds them is followed by one that says so. Two requests that do not do the same
never look the same.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from typing import TYPE_CHECKING

from .._types import CommandRequest, JobInputRequest, SecretInputRequest, TerminalInputRequest, exact

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from .._types import ApprovalRequest

STDIN_SHOWN = 1024
"""Bytes of a command's input that an approver is shown; of the rest, its size and a digest."""

_LONGEST_GAP = 8
"""Spaces in a row that an approver is shown as they are; more are shown by their number."""
_MOST_MARKS = 4
"""Marks that combine with one letter and are shown to an approver as they are."""

# str.isprintable() is false for what Unicode calls other (controls, formats such as bidirectional overrides and
# tags, surrogates, private use, unassigned) or a separator, except the space. It is true for these, which
# nevertheless have no shape, or that of a space: joiners, fillers, variation selectors, a braille pattern without
# dots, a note without a head, hieroglyphic blanks.
_SHAPELESS = (
    "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u2d7f\u303f\u3164\ufe00-\ufe0f\uffa0\ufffc"
    "\U0001107f\U00013441\U00013442\U00016fe4\U0001d159\U000e0100-\U000e01ef"
)
_NO_SHAPE = re.compile(f"[{_SHAPELESS}]")

# A backslash that looks like the start of one of our escapes: shown by its number, so that it cannot be one.
_MIMIC = re.compile(r"\\(?=x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8})")

_GAP = re.compile(f" {{{_LONGEST_GAP + 1},}}")

_RIGHT_TO_LEFT = frozenset({"R", "AL", "AN"})

_SAYS_RIGHT_TO_LEFT = (
    "  ! the line above holds right-to-left letters: its order on a screen may not be its order"
)

# What a terminal or a screen may take as an order in a program's output: everything that cannot be printed, but for
# line feeds, tabs, spaces of all widths, the joiners of scripts and emoji, and the private use of fonts.
_HARMLESS = frozenset("\n\t\u200c\u200d")
_HARMLESS_KINDS = frozenset({"Zs", "Co"})


def visible(text: str) -> str:
    r"""Make a text safe to show on one line: what cannot be seen becomes an escape, a line feed too (``\x0a``).

    Never ambiguous: different texts become different texts.
    """
    return _escaped(text, keep="")


def visible_lines(text: str) -> str:
    """Make a text safe to show on several lines: as `visible`, but line feeds are kept."""
    return _escaped(text, keep="\n")


def printable(text: str) -> str:
    """Make a program's output safe to print: what a screen might obey becomes an escape.

    Looks as the output does otherwise, so it can be ambiguous.
    """
    if text.isascii() and text.translate(_LINES_AND_TABS).isprintable():
        return text
    orders = {
        char
        for char in set(text)
        if not (char.isprintable() or char in _HARMLESS or unicodedata.category(char) in _HARMLESS_KINDS)
    }
    return _numbered(text, orders)


_LINES_AND_TABS = {ord("\n"): None, ord("\t"): None}


def _escaped(text: str, *, keep: str) -> str:
    if "\\" in text:
        text = _MIMIC.sub(r"\\x5c", text)
    if text.isascii() and (text.replace(keep, "") if keep else text).isprintable():
        return text
    chars = set(text)
    hidden = {char for char in chars if not char.isprintable() or _NO_SHAPE.match(char)}
    return _numbered(_marks_shown(text, chars), hidden - set(keep))


def _numbered(text: str, hidden: Collection[str]) -> str:
    """Show some characters by their numbers. A pattern finds the few much faster than str.translate asks for all."""
    if not hidden:
        return text
    numbers = {char: _escape(ord(char)) for char in hidden}
    some = re.compile(f"[{re.escape(''.join(hidden))}]")
    return some.sub(lambda found: numbers[found[0]], text)


def _marks_shown(text: str, chars: Collection[str]) -> str:
    """Show by number the combining marks that would change how something else looks than the letter they follow."""
    marks = "".join(char for char in chars if unicodedata.category(char).startswith("M"))
    if not marks:
        return text
    mark = f"[{re.escape(marks)}]"
    letter = r"[^\W\d_]"
    # Those that follow no letter, and so many at once that they would cover the lines around.
    stray = re.compile(f"(?<!{letter})(?<!{mark}){mark}+|(?<={letter}){mark}{{{_MOST_MARKS + 1},}}")
    numbers = {char: _escape(ord(char)) for char in marks}
    return stray.sub(lambda run: "".join(map(numbers.__getitem__, run[0])), text)


def _escape(number: int) -> str:
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def display(request: ApprovalRequest) -> str:
    """Show a request as text that is safe to print. The command is always whole."""
    return _directions_said("\n".join(_lines(request)))


_KEYS = {"\r": "Enter", "\t": "Tab", "\x1b": "Escape", "\x7f": "Backspace"}
_CONTROLS = re.compile("([\x00-\x1f\x7f]+)")


def _lines(request: ApprovalRequest) -> Iterator[str]:
    match request:
        case CommandRequest():
            yield "Command:"
        case JobInputRequest():
            yield from _sent(request)
            yield "Command of the job:"
        case TerminalInputRequest() | SecretInputRequest():
            yield from _typed(request)
            yield "Command of the terminal:"
    yield _block(request.text)
    if isinstance(request, CommandRequest) and request.original is not None:
        yield "Asked for as:"
        yield _block(request.original)
    yield f"Directory: {_line(request.directory)}"
    yield f"Shell: {_line(request.shell.name)} ({_line(request.shell.path)})"
    if request.prefix is not None:
        yield f"Run by: {_line(request.prefix)}"
    if request.snapshot is not None:
        yield f"Starts from the user's own set-up: {_line(request.snapshot)}"
    yield f"Host: {_line(request.host)}"
    if isinstance(request, CommandRequest):
        yield from _started(request)
    if request.description:
        yield f"Described by the model as: {_line(request.description)}"


def _started(request: CommandRequest) -> Iterator[str]:
    """Show what a command runs in, and what it is given."""
    if request.session and request.restart:
        yield "Session: in a fresh shell; the one before is ended, with what it runs"
    elif request.session and request.fresh:
        yield "Session: in a fresh shell"
    elif request.session:
        yield "Session: with the variables, functions and aliases that earlier commands have set"
    if request.background:
        yield "Background: goes on as a job"
    if request.size is not None:
        size = request.size
        yield f"Terminal: {size.columns} columns, {size.rows} rows, {_line(size.term)}"
    if request.timeout is not None:
        yield f"Timeout: {exact(request.timeout)} s"
    elif request.background or request.size is not None:
        yield "Timeout: none"
    if request.env:
        yield "Variables:"
        yield from (f"  | {_line(name)}={_line(value)}" for name, value in request.env)
    if request.size is not None:
        yield "Input: what will be typed on the terminal, if that is approved then"
    elif request.stdin is not None:
        yield from _stdin(request.stdin)
    elif request.background:
        yield "Input: what will be sent to the job, if that is approved then"


def _line(text: str) -> str:
    return _gaps_shown(visible(text))


def _block(text: str) -> str:
    return "  | " + _gaps_shown(visible_lines(text)).replace("\n", "\n  | ")


def _gaps_shown(text: str) -> str:
    """Show long runs of spaces by their length, in the form of an escape, which `visible` makes of no other text."""
    if " " * (_LONGEST_GAP + 1) not in text:
        return text
    return _GAP.sub(lambda run: f"\\x20{{{len(run[0])}}}", text)


def _sent(request: JobInputRequest) -> Iterator[str]:
    """Show what is sent to a job whole, as a command is: it may be one."""
    end = ", and then the end of its input" if request.end_of_input else ""
    yield f"Send to the running job {_line(request.job)}: {_size(request.stdin)}{end}"
    yield _block(request.stdin.decode(errors="surrogateescape"))


def _typed(request: TerminalInputRequest | SecretInputRequest) -> Iterator[str]:
    """Show what is typed whole. A line of text has a mark of its own, so that no text can pass for a key."""
    yield f"Type on the running terminal {_line(request.terminal)}:"
    if isinstance(request, SecretInputRequest):
        yield "  Secret: asked for elsewhere, and not shown; then Enter"
    else:
        pieces = _CONTROLS.split(request.typed)
        for text, keys in zip(pieces[::2], [*pieces[1::2], ""], strict=True):
            if text:
                yield _block(text)
            if keys:
                yield f"  Keys: {' '.join(map(_control, keys))}"
        if request.keys:
            yield f"  Keys: {' '.join(map(_line, request.keys))}"
    yield f"Program that reads it: {'not known' if request.program is None else _line(request.program)}"
    if request.prompt:
        yield f"Line of the cursor: {_line(request.prompt)}"


def _control(character: str) -> str:
    """The key that sends a control character."""
    return _KEYS.get(character) or f"Ctrl-{chr(ord(character) ^ 0x40)}"


def _size(data: bytes) -> str:
    return "1 byte" if len(data) == 1 else f"{len(data):,} bytes"


def _stdin(data: bytes) -> Iterator[str]:
    digest = hashlib.sha256(data).hexdigest()[:16]
    size = _size(data)
    shown = "" if len(data) <= STDIN_SHOWN else f", of which the first {STDIN_SHOWN:,} are shown"
    yield f"Input: {size}, SHA-256 {digest}…{shown}"
    yield _block(data[:STDIN_SHOWN].decode(errors="surrogateescape"))


def _directions_said(text: str) -> str:
    """Mark each line with letters that are read from right to left: in what order they stand cannot be seen."""
    if text.isascii():
        return text
    letters = "".join(char for char in set(text) if unicodedata.bidirectional(char) in _RIGHT_TO_LEFT)
    if not letters:
        return text
    line = re.compile(f"^[^\n{letters}]*[{letters}].*$", re.MULTILINE)
    return line.sub(lambda found: f"{found[0]}\n{_SAYS_RIGHT_TO_LEFT}", text)


def folded(text: str, width: int) -> str:
    """Fold the lines of a `display` for a screen, so that no row of it begins with what a line holds.

    A row that continues the one above begins with a mark of its own. Letters beyond ASCII count as wide ones,
    since screens disagree about many of them.

    Args:
        text: As `display` gives it.
        width: Columns of the screen. The last is left empty: some screens fold when it is filled.
    """
    room = max(width - 1, len(_CONTINUES) + 2)
    return "\n".join(row for line in text.split("\n") for row in _rows(line, room))


_CONTINUES = "  : "


def _rows(line: str, room: int) -> Iterator[str]:
    if len(line) <= room and line.isascii():
        yield line
        return
    end = _row_end(line, 0, room)
    yield line[:end]
    while end < len(line):
        start, end = end, _row_end(line, end, room - len(_CONTINUES))
        yield _CONTINUES + line[start:end]


def _row_end(line: str, start: int, room: int) -> int:
    """Where a row ends that begins at `start`; it has one character at least, if there is one."""
    piece = line[start : start + room]
    if piece.isascii():
        return start + len(piece)
    used = 0
    for count, char in enumerate(piece):
        used += 1 if char.isascii() else 2
        if used > room:
            return start + max(count, 1)
    return start + len(piece)
