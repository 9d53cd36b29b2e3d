"""The display of a request to an approver: everything that decides what runs, and no text that could imitate the display.

Every line with text from a request begins with a mark of anyshell, and `characters` makes the text safe to show.
Right-to-left letters are shown unchanged, and a notice follows each line with right-to-left letters. Two requests with
different effects never look the same.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from itertools import groupby
from typing import TYPE_CHECKING

from ..._types import (
    CommandRequest,
    JobInputRequest,
    NetworkRequest,
    ReachRequest,
    SecretInputRequest,
    TerminalInputRequest,
    exact,
)
from ..characters import gaps_shown, one_line, visible_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..._types import ApprovalRequest, Effects
    from ..._types.verdict import Verdict

STDIN_SHOWN = 1024
"""Bytes of a command's input that an approver is shown; for a longer input also the size and a digest of the whole."""


_MOST_NAMED = 20
"""Reasons, and paths or hosts of a kind, that an approver is shown one by one; the rest is shown as a number."""
_LONGEST_NAMED = 200
"""Characters of a reason, a path or a part of a command that an approver is shown below the command; of more, both ends."""
_MOST_LINES = 40
"""Lines of a command or an input that `shortened` shows; of more, the first 30 and the last 10."""
_LONGEST_LINE = 2000
"""Characters of a line that `shortened` shows; of more, both ends."""

_RIGHT_TO_LEFT = frozenset({"R", "AL", "AN"})

_SAYS_RIGHT_TO_LEFT = (
    "  ! the line above holds right-to-left letters: its order on a screen may not be its order"
)


def display(request: ApprovalRequest) -> str:
    """Return a request as text that is safe to print. The command is always shown whole."""
    return _directions_said("\n".join(_lines(request)))


_KEYS = {"\r": "Enter", "\t": "Tab", "\x1b": "Escape", "\x7f": "Backspace"}
_CONTROLS = re.compile("([\x00-\x1f\x7f]+)")


def _lines(request: ApprovalRequest) -> Iterator[str]:
    match request:
        case CommandRequest():
            yield "Command:"
        case ReachRequest():
            yield "Command that asks for more than its reach:"
        case JobInputRequest():
            yield from _sent(request)
            yield "Command of the job:"
        case TerminalInputRequest() | SecretInputRequest():
            yield from _typed(request)
            yield "Command of the terminal:"
        case NetworkRequest():
            yield f"Connect to what its reach does not have: {one_line(request.name)}, port {request.port}"
            yield "Running command that asks:"
    yield _block(request.text)
    if isinstance(request, CommandRequest | ReachRequest) and request.original is not None:
        yield "Asked for as:"
        yield _block(request.original)
    if isinstance(request, CommandRequest | ReachRequest) and request.verdict is not None:
        yield from _why(request.text, request.verdict)
    yield f"Directory: {one_line(request.directory)}"
    yield f"Shell: {one_line(request.shell.name)} ({one_line(request.shell.path)})"
    if request.prefix is not None:
        yield f"Run by: {one_line(request.prefix)}"
    if request.snapshot is not None:
        yield f"Starts from the user's own set-up: {one_line(request.snapshot)}"
    yield f"Host: {one_line(request.host)}"
    if isinstance(request, CommandRequest | ReachRequest):
        yield from _paths_beyond_reach(request)
        yield from _started(request)
        if request.effects is not None:
            yield from _effects(request.effects)
    if request.description:
        yield f"Described by the model as: {one_line(request.description)}"


def _why(text: str, verdict: Verdict) -> Iterator[str]:
    """Show the reasons of a policy, the parts of the text, and the files and hosts that the command's words name."""
    yield f"Policy: {verdict.action}"
    for reason in verdict.reasons[:_MOST_NAMED]:
        part, by = text[slice(*reason.span)], f" [{_short(reason.rule)}]" if reason.rule else ""
        yield f"  - {_short(reason.text)}{by}"
        if part and part != text:
            yield f"  | {_short(part)}"
    if len(verdict.reasons) > _MOST_NAMED:
        yield f"  … {len(verdict.reasons) - _MOST_NAMED:,} more reasons"
    access = [each.access for each in verdict.commands]
    unknown = [clause for each in verdict.commands for clause in each.command.unknown]
    if not verdict.understood and not unknown:
        unknown = ["not all of the text is understood"]
    for title, names in (
        ("Reads", [path for each in access for path in each.reads]),
        ("Writes", [path for each in access for path in each.writes]),
        ("Deletes", [path for each in access for path in each.deletes]),
        (
            "Network",
            [
                "hosts that its words do not name" if host == "*" else host
                for each in access
                for host in each.network
            ],
        ),
        ("Privilege", ["runs as another user"] * any(each.privilege for each in access)),
        ("Unknown", unknown),
    ):
        if names:
            once = [*dict.fromkeys(names)]
            more = f" and {len(once) - _MOST_NAMED:,} more" if len(once) > _MOST_NAMED else ""
            yield f"{title}: {', '.join(map(_short, once[:_MOST_NAMED]))}{more}"


def _effects(effects: Effects) -> Iterator[str]:
    """Show the effects on files that a trial of the command has found."""
    yield f"It has run on trial, and nothing is real yet. Files in its directory: {one_line(effects.summary())}"
    for mark, found in zip(
        "+~->", (effects.created, effects.changed, effects.deleted, effects.renamed), strict=True
    ):
        for each in found[:_MOST_NAMED]:
            yield f"  {mark} {one_line(each.path)}" + (
                f" (was {one_line(each.path_before)})" if each.path_before else ""
            )
        if len(found) > _MOST_NAMED:
            yield f"  {mark} … {len(found) - _MOST_NAMED:,} more"
    if effects.diff:
        yield _block(effects.diff.removesuffix("\n"))
    yield from (
        f"  no diff of {one_line(path)}: {why}" for path, why in [*effects.without_diff.items()][:_MOST_NAMED]
    )


def _short(text: str) -> str:
    half = _LONGEST_NAMED // 2
    return (
        one_line(text)
        if len(text) <= _LONGEST_NAMED
        else f"{one_line(text[:half])} … {one_line(text[-half:])}"
    )


def shortened(text: str) -> str:
    """Cut the middle out of long commands and inputs in a `display`, with a line that gives the size of each cut.

    The cut part can contain anything: give people a way to see the whole text.
    """
    return "\n".join(
        row
        for block, lines in groupby(text.split("\n"), lambda line: line.startswith("  | "))
        for row in (_ends([*lines]) if block else lines)
    )


def _ends(lines: list[str]) -> Iterator[str]:
    first, last = lines, []
    if len(lines) > _MOST_LINES:
        first, last = lines[: _MOST_LINES * 3 // 4], lines[-(_MOST_LINES // 4) :]
    half = _LONGEST_LINE // 2
    for count, line in enumerate((*first, *last)):
        if last and count == len(first):
            yield f"  … {len(lines) - len(first) - len(last):,} lines are not shown"
        if len(line) <= _LONGEST_LINE:
            yield line
        else:
            yield from (
                line[:half],
                f"  … {len(line) - 2 * half:,} characters are not shown",
                f"  | {line[-half:]}",
            )


def _paths_beyond_reach(request: CommandRequest | ReachRequest) -> Iterator[str]:
    """Show the paths that a command gets beyond its reach, with a warning for paths that the reach hides or protects."""
    for verb, paths in (("write", request.also_write), ("read", request.also_read)):
        for path in paths:
            why = " ! SECRET: its reach hides this, as keys and logins are" if path in request.hidden else ""
            if verb == "write" and path in request.protected:
                why += " ! other programs take commands from this, outside of any reach"
            yield f"Beyond its reach: {verb} {one_line(path)}{why}"


def _started(request: CommandRequest | ReachRequest) -> Iterator[str]:
    """Show the surroundings of a command (session, job, terminal), its timeout, its variables and its input."""
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
        yield f"Terminal: {size.columns} columns, {size.rows} rows, {one_line(size.term)}"
    if request.timeout is not None:
        yield f"Timeout: {exact(request.timeout)} s"
    elif request.background or request.size is not None:
        yield "Timeout: none"
    if request.env:
        yield "Variables:"
        yield from (f"  | {one_line(name)}={one_line(value)}" for name, value in request.env)
    if request.size is not None:
        yield "Input: what will be typed on the terminal, if that is approved then"
    elif request.stdin is not None:
        yield from _stdin(request.stdin)
    elif request.background:
        yield "Input: what will be sent to the job, if that is approved then"


def _block(text: str) -> str:
    return "  | " + gaps_shown(visible_lines(text)).replace("\n", "\n  | ")


def _sent(request: JobInputRequest) -> Iterator[str]:
    """Show the whole input that is sent to a job: the input may be a command."""
    end = ", and then the end of its input" if request.end_of_input else ""
    yield f"Send to the running job {one_line(request.job)}: {_size(request.stdin)}{end}"
    yield _block(request.stdin.decode(errors="surrogateescape"))


def _typed(request: TerminalInputRequest | SecretInputRequest) -> Iterator[str]:
    """Show the whole typed input. Lines of text have their own mark, so no text can imitate a key."""
    yield f"Type on the running terminal {one_line(request.terminal)}:"
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
            yield f"  Keys: {' '.join(map(one_line, request.keys))}"
    yield f"Program that reads it: {'not known' if request.program is None else one_line(request.program)}"
    if request.prompt:
        yield f"Line of the cursor: {one_line(request.prompt)}"


def _control(character: str) -> str:
    """Return the name of the key that sends a control character."""
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
    """Add a notice after each line with right-to-left letters: the order of the characters cannot be seen."""
    if text.isascii():
        return text
    letters = "".join(char for char in set(text) if unicodedata.bidirectional(char) in _RIGHT_TO_LEFT)
    if not letters:
        return text
    line = re.compile(f"^[^\n{letters}]*[{letters}].*$", re.MULTILINE)
    return line.sub(lambda found: f"{found[0]}\n{_SAYS_RIGHT_TO_LEFT}", text)


def folded(text: str, width: int) -> str:
    """Fold the lines of a `display` for a screen: no row of the screen then begins with text from within a line.

    A continuation row begins with its own mark. Letters beyond ASCII count as two columns, since screens disagree about
    the width of many letters.

    Args:
        text: The text as `display` returns it.
        width: Columns of the screen. The last column is left empty: some screens fold a line when it is filled.
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
    """Return the end of the row that begins at `start`; a row has at least one character, if the line has one left."""
    piece = line[start : start + room]
    if piece.isascii():
        return start + len(piece)
    used = 0
    for count, char in enumerate(piece):
        used += 1 if char.isascii() else 2
        if used > room:
            return start + max(count, 1)
    return start + len(piece)
