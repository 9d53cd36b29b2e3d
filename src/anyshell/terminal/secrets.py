"""What somebody types that nobody may see."""

from __future__ import annotations

import bisect
import inspect
import re
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass

from .._exceptions import AnyshellError, InvalidCommand
from .._types import check_text

MASK = b"[secret]"
"""What stands in the place of a secret."""

MAX_SECRETS = 64
"""Secrets that one terminal masks; one more is not typed."""

LONGEST_SECRET = 1024
"""Bytes of a secret."""

_MOST_BETWEEN = 64
"""Bytes of a secret that is not whole yet, beside its own, which the terminal that wraps it may have put there."""

# What a program prints between two characters when a row is full: a line feed, a return, or control sequences that move
# the cursor to the next row. Many print a blank before the return, to be sure that the cursor is there.
_MOVES = rb"[\r\n]|\x1b\[[0-9;?]*[A-Za-z]"
_WRAPS = (
    (re.compile(_MOVES), re.compile(rb"\x1b(?:\[[0-9;?]*)?\Z")),
    (re.compile(rb" ?(?:" + _MOVES + rb")"), re.compile(rb" (?:\x1b(?:\[[0-9;?]*)?)?\Z")),
)
"""What is taken for that: whole, and unfinished at the end. Twice, for the blank may be the secret's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretRequest:
    """What whoever has a secret is told of who asks for it.

    Attributes:
        prompt: What stands before the cursor, as the program printed it: it may lie.
        program: The name of the program that has the terminal; empty when that is not known.
        host: What a person calls the host.
    """

    prompt: str
    program: str
    host: str


SecretSource = Callable[[SecretRequest], "str | Awaitable[str | None] | None"]
"""Gives a secret, or ``None`` to give none. A function, plain or async."""


async def ask(source: SecretSource, request: SecretRequest) -> str | None:
    """Ask for a secret.

    Raises:
        InvalidCommand: What was given cannot be typed as one line. The message never has any of it.
    """
    answer = source(request)
    secret = await answer if inspect.isawaitable(answer) else answer
    if secret is None:
        return None
    check_text("a secret", secret)
    if not secret.isprintable():
        raise InvalidCommand("a secret must be one line without control characters")
    if len(secret.encode(errors="surrogateescape")) > LONGEST_SECRET:
        raise InvalidCommand(f"a secret must be at most {LONGEST_SECRET:,} bytes")
    return secret


class Masks:
    """Takes secrets out of bytes as they come, however these are cut.

    What may be the beginning of a secret at the end of a piece is held back until it is known. Of a secret whose
    beginning had to be shown, since nothing followed it for a while, the rest is masked all the same.
    """

    def __init__(self) -> None:
        self._secrets: list[bytes] = []
        self._raw = b""
        self._shown = 0  # of the raw bytes: they are still there because a secret may begin in them

    def __repr__(self) -> str:
        return f"<{len(self._secrets)} secrets>"

    def add(self, secret: str) -> None:
        """Mask one from now on.

        Raises:
            AnyshellError: There are as many as may be.
        """
        data = secret.encode(errors="surrogateescape")
        if not data or data in self._secrets:
            return
        if len(self._secrets) >= MAX_SECRETS:
            raise AnyshellError(f"{MAX_SECRETS} secrets were typed on this terminal, as many as it can hide")
        self._secrets.append(data)

    @property
    def holds(self) -> bool:
        """Whether something is held back that may be the beginning of a secret."""
        return len(self._raw) > self._shown

    def feed(self, data: bytes) -> bytes:
        """Take bytes, and give those that may be shown by now."""
        if not self._secrets:
            return data
        self._raw += data
        texts = [_Unwrapped(self._raw, *wraps) for wraps in _WRAPS]
        found = self._find(texts)
        start = min(text.begins(self._secrets) for text in texts)
        for begin, end in reversed(found):
            if end > start:
                start = min(start, begin)  # another begins in it: they are one
        if len(self._raw) - start > max(map(len, self._secrets)) + _MOST_BETWEEN:
            start = len(self._raw)
        return self._show(found, start)

    def release(self) -> bytes:
        """Give what is held back: nothing came that would make a secret of it."""
        found = self._find([_Unwrapped(self._raw, *wraps) for wraps in _WRAPS])
        return self._show(found, len(self._raw), forget=False)

    def _find(self, texts: list[_Unwrapped]) -> list[tuple[int, int]]:
        """Where secrets stand; those that overlap are one."""
        merged: list[tuple[int, int]] = []
        for begin, end in sorted(place for text in texts for place in text.find(self._secrets)):
            if merged and begin < merged[-1][1]:
                merged[-1] = merged[-1][0], max(end, merged[-1][1])
            else:
                merged.append((begin, end))
        return merged

    def _show(self, found: list[tuple[int, int]], until: int, *, forget: bool = True) -> bytes:
        pieces: list[bytes] = []
        at = self._shown
        for begin, end in found:
            if end > at and begin < until:
                pieces += [self._raw[at:begin], MASK]
                at = end
        pieces.append(self._raw[at:until])
        self._shown = max(at, until)
        if forget:
            self._raw = self._raw[until:]
            self._shown -= until
        return b"".join(pieces)


class _Unwrapped:
    """Bytes without what wraps their lines, and where each of them stood.

    Args:
        raw: They.
        wrap: What is left out.
        begun: What is left out at the end, as it may become that.
    """

    def __init__(self, raw: bytes, wrap: re.Pattern[bytes], begun: re.Pattern[bytes]) -> None:
        self._size = len(raw)
        rest = begun.search(raw, max(0, len(raw) - _MOST_BETWEEN))
        stop = len(raw) if rest is None else rest.start()
        pieces: list[bytes] = []
        self._starts = [0]  # of each piece among those that are left
        self._places = [0]  # of each piece among the raw ones
        at = 0
        for match in wrap.finditer(raw, 0, stop):
            pieces.append(raw[at : match.start()])
            at = match.end()
            self._starts.append(self._starts[-1] + len(pieces[-1]))
            self._places.append(at)
        pieces.append(raw[at:stop])
        self._text = b"".join(pieces)

    def find(self, secrets: list[bytes]) -> Iterator[tuple[int, int]]:
        """Where secrets stand in the raw bytes; they may overlap."""
        for secret in secrets:
            at = self._text.find(secret)
            while at >= 0:
                yield self._place(at), self._place(at + len(secret) - 1) + 1
                at = self._text.find(secret, at + 1)

    def begins(self, secrets: list[bytes]) -> int:
        """Where a secret may begin that is not whole yet; the number of the raw bytes when none does."""
        text = self._text
        first = len(text)
        for secret in secrets:
            at = text.find(secret[:1], max(0, len(text) - len(secret) + 1))
            while 0 <= at < first:
                if secret.startswith(text[at:]):
                    first = at
                at = text.find(secret[:1], at + 1)
        return self._size if first == len(text) else self._place(first)

    def _place(self, at: int) -> int:
        piece = bisect.bisect_right(self._starts, at) - 1
        return self._places[piece] + at - self._starts[piece]
