r"""What whoever approves a command sees: all that decides what runs, and nothing that could pass for more.

Every line that a request can fill begins with a mark of ours, and every character that cannot be seen, or that
changes how its neighbours are seen, is shown by its number: ``\x1b``, ``\u202e``, ``\U000e0041``. Two requests
that do not do the same never look the same.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._types import ApprovalRequest

STDIN_SHOWN = 1024
"""Bytes of a command's input that are shown; of the rest, only a digest and the size."""

# str.isprintable() is false for what Unicode calls other (controls, formats such as bidirectional overrides and
# tags, surrogates, private use, unassigned) or a separator, except the space. It is true for these, which
# nevertheless have no shape: joiners, fillers, variation selectors, and a braille pattern without dots.
_SHAPELESS = (
    "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef"
)
_NO_SHAPE = re.compile(f"[{_SHAPELESS}]")

# A backslash that looks like the start of one of our escapes: shown by its number, so that it cannot be one.
_MIMIC = re.compile(r"\\(?=x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8})")


def visible(text: str) -> str:
    r"""Make a text safe to show on one line: what cannot be seen becomes an escape, a line feed too (``\x0a``).

    Never ambiguous: different texts become different texts.
    """
    return _MIMIC.sub(r"\\x5c", text).translate(_escapes(text))


def visible_lines(text: str) -> str:
    """Make a text safe to show on several lines: as `visible`, but line feeds are kept."""
    escapes = _escapes(text)
    escapes.pop(ord("\n"), None)
    return _MIMIC.sub(r"\\x5c", text).translate(escapes)


def _escapes(text: str) -> dict[int, str]:
    """How to show what cannot be seen in a text; made anew for each, since there are 900,000 such characters."""
    hidden = (char for char in set(text) if not char.isprintable() or _NO_SHAPE.match(char))
    return {ord(char): _escape(ord(char)) for char in hidden}


def _escape(number: int) -> str:
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def display(request: ApprovalRequest) -> str:
    """Show a request as text that is safe to print. The command is always whole."""
    return "\n".join(_lines(request))


def _lines(request: ApprovalRequest) -> Iterator[str]:
    yield "Command:"
    yield from _block(request.text)
    if request.original is not None:
        yield "Asked for as:"
        yield from _block(request.original)
    yield f"Directory: {visible(request.directory)}"
    yield f"Shell: {visible(request.shell.name)} ({visible(request.shell.path)})"
    yield f"Host: {visible(request.host)}"
    if request.env:
        yield "Variables:"
        yield from (f"  | {visible(name)}={visible(value)}" for name, value in request.env)
    if request.stdin is not None:
        yield from _stdin(request.stdin)
    if request.description:
        yield f"Described by the model as: {visible(request.description)}"


def _block(text: str) -> Iterator[str]:
    yield "  | " + visible_lines(text).replace("\n", "\n  | ")


def _stdin(data: bytes) -> Iterator[str]:
    digest = hashlib.sha256(data).hexdigest()[:16]
    size = "1 byte" if len(data) == 1 else f"{len(data):,} bytes"
    shown = "" if len(data) <= STDIN_SHOWN else f", of which the first {STDIN_SHOWN:,} are shown"
    yield f"Input: {size}, SHA-256 {digest}…{shown}"
    yield from _block(data[:STDIN_SHOWN].decode(errors="surrogateescape"))
