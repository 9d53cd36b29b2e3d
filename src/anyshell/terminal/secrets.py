"""Secrets that are typed on a terminal, and masked in the terminal's output."""

from __future__ import annotations

import bisect
import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass

from .._exceptions import AnyshellError, InvalidCommand
from .._types import MASK, check_text
from ..output.sequences import FINAL, INTERMEDIATES, LONGEST_CONTROL, PARAMETERS, SOME_INTERMEDIATES

MAX_SECRETS = 64
"""Secrets that one terminal masks, or one tool for models; a further secret is not typed."""

LONGEST_SECRET = 1024
"""Bytes of a secret; a longer secret is not typed."""

_MOST_BETWEEN = 4096
"""Bytes that wrapped lines may add to a secret whose end is still to come; with more, the held bytes are shown."""

# The output of a program between two characters when a row is full: a line feed, a return, or escape sequences that move
# the cursor to the next row.
_CONTROL_BODY = rb"\[" + PARAMETERS + INTERMEDIATES
_MOVE = rb"[\r\n]|\x1b(?:" + _CONTROL_BODY + FINAL + rb"|" + SOME_INTERMEDIATES + rb"[0-~]|[0-9=>DEHM])"
_BEGUN_MOVE = rb"\x1b(?:" + _CONTROL_BODY + rb"|" + INTERMEDIATES + rb")"

# Many programs print a blank before the return, to move the cursor to the next row. Others print the next row's first
# character, a return, and that character once more: readline where a character is a byte, and zsh after the blank.
_AGAIN = rb"(?P<kept>[^\x00-\x1f\x7f-\xbf][\x80-\xbf]{0,3}+)[\r\x08](?P=kept)"
_BEGUN_AGAIN = rb"[\r\x08](?:[\xc2-\xf4]|[\xe0-\xf4][\x80-\xbf]|[\xf0-\xf4][\x80-\xbf]{2})?"


def _ways() -> Iterator[tuple[re.Pattern[bytes], re.Pattern[bytes]]]:
    for blank in (False, True):
        for again in (False, True):
            whole, begun = b"(?:" + _MOVE + b")", _BEGUN_MOVE
            if again:
                begun += b"|" + _BEGUN_AGAIN
            if blank:
                whole, begun = b" ?" + whole, b" ?(?:" + begun + b")| "
            if again:
                whole = _AGAIN + b"|" + whole
            yield re.compile(whole), re.compile(b"(?:" + begun + rb")\Z")


_WRAPS = tuple(_ways())
"""Patterns of the bytes that wrap a line: a whole wrap, and a wrap that is unfinished at the end. One pair for each reading,
since a blank, or a character that is there twice, may be part of the secret."""

_LONGEST_MOVE = LONGEST_CONTROL + 8
"""Bytes at the end of the output that are searched for an unfinished wrap."""

_NOTHING = re.compile(rb"(?!)")
_CONTROL = re.compile(rb"[\r\n\x08\x1b]")


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretRequest:
    """Facts about a program that asks for a secret, for the source of the secret.

    Attributes:
        prompt: The text before the cursor, as the program printed it: the program may lie.
        program: The name of the program that has the terminal; empty when the name is not known.
        host: The name of the host for a person.
    """

    prompt: str
    program: str
    host: str


SecretSource = Callable[[SecretRequest], "str | Awaitable[str | None] | None"]
"""A function, plain or async, that returns a secret, or ``None`` for no secret."""


async def ask(source: SecretSource, request: SecretRequest) -> str | None:
    """Ask a source for a secret.

    Raises:
        InvalidCommand: The secret cannot be typed as one line. The message never has any part of the secret.
    """
    answer = source(request)
    secret = await answer if inspect.isawaitable(answer) else answer
    if secret is not None:
        check_secret(secret)
    return secret


def check_secret(secret: object) -> None:
    """Refuse a secret that cannot be typed as one line, and so cannot be found in a program's output.

    Raises:
        InvalidCommand: The secret is refused; the message says why, and never has any part of the secret.
    """
    check_text("a secret", secret)
    if not isinstance(secret, str) or not secret.isprintable():
        raise InvalidCommand("a secret must be one line without control characters")
    if len(secret.encode(errors="surrogateescape")) > LONGEST_SECRET:
        raise InvalidCommand(f"a secret must be at most {LONGEST_SECRET:,} bytes")


class TypedMasks:
    """A filter that masks secrets in a stream of bytes, however the bytes are cut into pieces.

    Bytes at the end of a piece that may begin a secret are held back until the next bytes decide. Where a secret's beginning was
    shown, since nothing followed for a while, later bytes are masked until a byte differs from the secret.

    The time is proportional to the bytes and to the number of secrets: matches of one secret do not overlap.

    Args:
        like: A filter of another stream whose secrets are masked here too, also secrets that are added later.
    """

    def __init__(self, like: TypedMasks | None = None) -> None:
        self._secrets: list[bytes] = [] if like is None else like._secrets
        self._raw = b""
        self._shown = 0  # raw bytes that were shown, and are kept because a secret may begin in them
        self._masked = -1  # where a secret begins whose mask was shown; -1 for none

    def __repr__(self) -> str:
        return f"<{len(self._secrets)} secrets>"

    def __bool__(self) -> bool:
        return bool(self._secrets)

    def add(self, secret: str) -> None:
        """Mask a secret from now on.

        Raises:
            AnyshellError: The filter has `MAX_SECRETS` secrets already.
        """
        data = secret.encode(errors="surrogateescape")
        if not data or data in self._secrets:
            return
        if len(self._secrets) >= MAX_SECRETS:
            raise AnyshellError(f"{MAX_SECRETS} secrets were typed on this terminal, as many as it can hide")
        self._secrets.append(data)

    @property
    def holds(self) -> bool:
        """Whether bytes are held back that may begin a secret."""
        return len(self._raw) > self._shown

    def feed(self, data: bytes) -> bytes:
        """Take bytes, and return the bytes that may be shown now."""
        if not self._secrets:
            return data
        self._raw += data
        found, start = self._look()
        if len(self._raw) - start > max(map(len, self._secrets)) + _MOST_BETWEEN:
            start = len(self._raw)
        shown = self._show(found, start)
        self._raw = self._raw[start:]
        self._shown -= start
        self._masked = self._masked - start if self._masked >= start else -1
        return shown

    def release(self) -> bytes:
        """Return the held bytes: no further bytes came that complete a secret.

        Bytes that continue a beginning which was shown before become a mask.
        """
        found, start = self._look()
        if start < self._shown < len(self._raw):
            found = [(begin, end) for begin, end in found if end <= start]
            found.append((start, len(self._raw)))
            shown = self._show(found, len(self._raw))
            self._masked = start
            return shown
        return self._show(found, len(self._raw))

    end = release
    """Release the held bytes at the end of the output."""

    def _look(self) -> tuple[list[tuple[int, int]], int]:
        """Return the places of secrets, and the first place at which an unfinished secret may begin."""
        texts = _unwrapped(self._raw)
        merged = _merged(place for text in texts for place in text.find(self._secrets))
        start = min(text.begins(self._secrets) for text in texts)
        for begin, end in reversed(merged):
            if end <= start:
                break
            start = min(start, begin)  # the unfinished secret begins in this secret: both are masked as one
        return merged, start

    def _show(self, found: list[tuple[int, int]], until: int) -> bytes:
        pieces: list[bytes] = []
        at = self._shown
        for begin, end in found:
            if end > at and begin < until:
                pieces.append(self._raw[at:begin])
                if begin != self._masked:
                    pieces.append(MASK)
                at = end
        pieces.append(self._raw[at:until])
        self._shown = max(at, until)
        return b"".join(pieces)


class _Unwrapped:
    """Bytes without the bytes that wrap their lines, and the original place of each byte.

    Args:
        raw: The bytes with the wraps.
        wrap: The pattern of a wrap, which is left out except for the group ``kept``.
        begun: The pattern of an unfinished wrap, which is left out at the end.
    """

    def __init__(self, raw: bytes, wrap: re.Pattern[bytes], begun: re.Pattern[bytes]) -> None:
        self._raw = raw
        rest = begun.search(raw, max(0, len(raw) - _LONGEST_MOVE))
        stop = len(raw) if rest is None else rest.start()
        pieces: list[bytes] = []
        self._starts = [0]  # of each piece in `text`
        self._places = [0]  # of each piece in the raw bytes
        at = 0
        for match in wrap.finditer(raw, 0, stop):
            pieces.append(raw[at : match.end("kept") if match.lastgroup else match.start()])
            at = match.end()
            self._starts.append(self._starts[-1] + len(pieces[-1]))
            self._places.append(at)
        pieces.append(raw[at:stop])
        self.text = b"".join(pieces)

    def find(self, secrets: list[bytes]) -> Iterator[tuple[int, int]]:
        """Yield the places of secrets in the raw bytes. Overlapping places are joined."""
        places: list[tuple[int, int]] = []
        for secret in secrets:
            at = self.text.find(secret)
            while at >= 0:
                end = at + len(secret)
                places.append((at, end))
                at = self.text.find(secret, end)
        for at, end in _merged(places):
            yield self._place(at), self._place(end - 1) + 1

    def begins(self, secrets: list[bytes]) -> int:
        """Return the first place at which an unfinished secret may begin; without one, the number of raw bytes."""
        text = self.text
        first = len(text)
        for secret in secrets:
            at = text.find(secret[:1], max(0, len(text) - len(secret) + 1))
            while 0 <= at < first:
                if secret.startswith(text[at:]):
                    first = at
                at = text.find(secret[:1], at + 1)
        return len(self._raw) if first == len(text) else self._place(first)

    def _place(self, at: int) -> int:
        piece = bisect.bisect_right(self._starts, at) - 1
        return self._places[piece] + at - self._starts[piece]


def _merged(places: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return places in their order, with overlapping places joined."""
    merged: list[tuple[int, int]] = []
    for begin, end in sorted(places):
        if merged and begin < merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((begin, end))
    return merged


def _unwrapped(raw: bytes) -> list[_Unwrapped]:
    """Return bytes without wraps, once for each reading of the wraps that gives a different text."""
    if _CONTROL.search(raw) is None and not raw.endswith(b" "):
        return [_Unwrapped(raw, _NOTHING, _NOTHING)]
    texts = (_Unwrapped(raw, *wraps) for wraps in _WRAPS)
    return list({text.text: text for text in texts}.values())
