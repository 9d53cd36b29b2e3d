"""Masking of secrets in the output of commands: the values of variables, and texts with the shape of a token.

Output arrives as fast as a pipe delivers it, so most output is only tested for whether it may contain a secret. The test uses
the regular expressions of pydantic-core, which are Rust's and search many texts at once: some 5 GB/s, where `re` does 0.14.
Only output that may contain a secret is searched by `re`, which finds the place.
"""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import repeat
from typing import TYPE_CHECKING
from urllib.parse import quote_from_bytes, quote_plus

from pydantic_core import SchemaError, SchemaValidator, core_schema

from .._exceptions import InvalidCommand
from .._types import MASK, SECRET_NAMES, check_count, check_text, matcher

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

SHORTEST_VALUE = 6
"""Bytes of the shortest masked value, unless `Redaction(shortest=)` sets another; a shorter value occurs in too many texts."""

SHORTEST_LINE = 16
"""Bytes of the shortest masked line of a value with several lines; shorter lines are not masked."""

LONGEST_VALUE = 4096
"""Bytes of a value that are searched for; later bytes of the value are not masked."""

MAX_VALUES = 256
"""Values that are masked; with more, the values of variables whose names sort later are not masked."""

LONGEST_TOKEN = 8192
"""Bytes of a token that are held back until the token's end; beyond that a mask replaces the bytes and the token's rest."""

LONGEST_KEY = 16 * 1024
"""Bytes of a private key that are masked if the end of the key does not come."""

LIKELY = 16
"""Bytes of the beginning of a token or value from which on a mask replaces it if no data follows in time; fewer are shown."""

_W = "[A-Za-z0-9_-]"

# Patterns that `re` and Rust read alike. Each service's documentation gives the beginning of a token, not always its length.
_TOKENS = (
    "A[KS]IA[0-9A-Z]{16}",  # AWS: access keys, of users and of sessions
    "gh[pousr]_[A-Za-z0-9]{36,}",  # GitHub
    f"github_pat_{_W}{{22,}}",  # GitHub
    f"glpat-{_W}{{20,}}",  # GitLab
    "xox[abeoprs]-[A-Za-z0-9-]{10,}",  # Slack
    f"AIza{_W}{{35}}",  # Google
    "sk_(?:live|test)_[A-Za-z0-9]{16,}",  # Stripe
    "rk_(?:live|test)_[A-Za-z0-9]{16,}",  # Stripe
    "npm_[A-Za-z0-9]{36}",  # npm
    f"pypi-{_W}{{50,}}",  # PyPI
)
_AT_A_WORD = (  # tokens at the start of a word only: other words, such as desk-, and base64 contain their beginnings
    f"sk-(?:ant|proj|svcacct|admin|or)-{_W}{{20,}}",  # Anthropic, OpenAI, OpenRouter
    "sk-[A-Za-z0-9]{32,}",  # OpenAI
    rf"eyJ{_W}{{8,400}}\.eyJ{_W}{{8,}}(?:\.{_W}*){{0,3}}",  # JSON Web Tokens, RFC 7519
)
_URL = ("/", "/[^\\s:@/\"']{0,64}:", "[^\\s@/\"']{1,256}")
_SCHEMES = ("bearer ", "authorization[\"']?: ?[\"']?[a-z]{1,16} ")  # RFC 9110, 11.6.2
_CREDENTIALS = "[A-Za-z0-9._~+/-]{16,}=*"
_KEY = ("-", "----BEGIN [A-Z ]{0,32}PRIVATE KEY(?: BLOCK)?-----")  # RFC 7468 and its predecessors
_KEY_REST = f"(?:[^-]|-(?!----)){{0,{LONGEST_KEY}}}(?P<end>-----END [A-Z ]{{1,48}}-----)?"

# The URL has its own gate: Rust is fast only while the patterns have few beginnings, and most output has no @.
_SHAPES_GATE = "|".join((*_TOKENS, *_AT_A_WORD, "".join(_KEY), f"(?i:{'|'.join(_SCHEMES)}){_CREDENTIALS}"))
_URL_GATE = "".join((*_URL, "@"))


def _shapes() -> Iterator[str]:
    """Yield the shapes for `re`, each beginning with a literal, which is fast. The group ``keep`` of a shape stays unmasked."""
    yield from _TOKENS
    for each in _AT_A_WORD:  # an escape sequence for a colour may stand before the token
        first = each[0]
        yield f"{first}(?:(?<![A-Za-z0-9]{first})|(?<=\\[[mK]{first})|(?<=[0-9]m{first})){each[1:]}"
    yield f"{_URL[0]}(?<=:/)(?P<keep>{_URL[1]}){_URL[2]}(?=@)"
    for first, rest in ((first, each[1:]) for each in _SCHEMES for first in (each[0], each[0].upper())):
        yield f"{first}(?P<keep_{first}>(?i:{rest})){_CREDENTIALS}"
    yield f"{_KEY[0]}(?P<key>{_KEY[1]}{_KEY_REST})"


_LITERALS = (
    b"AKIA ASIA ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ glpat- xoxa- xoxb- xoxe- xoxo- xoxp- xoxr- xoxs- AIza "
    b"sk_live_ sk_test_ rk_live_ rk_test_ npm_ pypi- sk- eyJ"
).split()
_BEGINNINGS_GATE = "|".join(
    (*(each.decode() for each in _LITERALS), "-----BEGIN ", "(?i:bearer |authorization)")
)
"""The beginnings of every shape but the URL's. A search for beginnings takes half the time; shapes are searched only after it."""

_SCHEME = f"(?i:{'|'.join(_SCHEMES)})"
_HEADERS = (b"bearer ", b"authorization: ")
_LEADS = (b"//", b"-----BEGIN ")
_OPEN = re.compile(
    rb"(?P<token>(?:%s)[\w.~+/=-]*)\Z" % b"|".join(_LITERALS)
    + rb"|-----BEGIN [A-Z ]{0,48}-{0,5}\Z|%s[\w.~+/=-]*\Z" % _SCHEME.encode()
    + rb"|(?i:authorization[\"']?: ?[\"']?[a-z]{0,16})\Z"
)
"""A secret at the end of the data that may continue in the next data."""

_LONGEST_URL = 2 + 64 + 256
"""Bytes of a URL from its slashes to the ``@``, at most, by the pattern `_URL`."""

_OPEN_URL = re.compile(rb"//[^\s@/\"']*\Z")

_WORD_BYTES = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.~+/=-:@%"
_GOES_ON = re.compile(rb"[\w.~+/=-]*")
_KEY_GOES_ON = re.compile(_KEY_REST.encode())
_KEY_ENDS = re.compile(rb"(?:-----(?:E|EN|END[A-Z ]{0,48}-{0,4})?)?\Z")
_TO_ASCII = bytes(range(128)) + b"?" * 128

_AT_ONCE = 48
"""Texts in one regular expression of Rust; more go into another. From some 64 texts on Rust uses no vector instructions."""

_BESIDE = 16
"""Texts in one regular expression of Rust with the beginnings of all shapes; more go into others. With some 24 texts Rust uses
no vector instructions."""

_COMPILED = 32
"""Bytes at the beginning of a value that `re` searches for; at each match the rest of the value is compared."""

_PART = 8
"""Bytes of a value that Rust searches for; after a match, `re` searches for the whole value. Values may share a part."""

_PARTS = 64
"""Bytes at the beginning of a value from which a part of `_PART` bytes is chosen."""

_OFTEN = b"vkbyfpg,w=h\nm_c/.u:987654d3l2rs10n-ioate "
"""Bytes that are frequent in output, the most frequent last: a search is slow where many matches seem to begin."""

_FEW = 256
"""Bytes of whole lines that `re` searches for a secret; with more, Rust tests which half may contain a secret."""

_FLOOD = 32 * 1024
"""Bytes of a piece of data from which on a few bytes at its end are not held back: a wait with a timeout takes time."""

_SHOWN_IN_FLOOD = 2
"""Bytes at the end of a large piece (`_FLOOD`) that are shown although a secret may begin there; the secret's rest is masked."""

_START = 16
"""Bytes of a value's beginning that are searched at the end of received data; at a match the rest of the value is compared."""

_LOOKED_BACK = 3
"""Bytes before a word that show whether the word begins there; enough for the end of a colour's escape sequence."""

_BEFORE_A_WORD = 64
"""Bytes before the last received word that may contain the name of an Authorization header."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Redaction:
    """The secrets to mask in the output of commands, as ``[secret]``.

    Attributes:
        names: Patterns of the names of variables whose values are masked, in any case of letters. The variables are those of
            this process, of `Variables.set`, and of the command. A pattern of `Variables.exclude` counts, too.
        values: More values to mask.
        shapes: Whether well-known tokens are masked: of AWS, GitHub, GitLab, Slack, Google, Stripe, OpenAI, Anthropic, npm and
            PyPI, JSON Web Tokens, private keys, passwords in URLs, and the text after ``Bearer`` or ``Authorization:``.
        shortest: Bytes of the shortest masked value; a shorter value is not masked.

    Raises:
        InvalidCommand: An argument is invalid. The message names the mistake, never a value.
    """

    names: tuple[str, ...] = SECRET_NAMES
    values: tuple[str, ...] = ()
    shapes: bool = True
    shortest: int = SHORTEST_VALUE

    def __post_init__(self) -> None:
        check_count("shortest", self.shortest)
        for field in ("names", "values"):
            if isinstance(getattr(self, field), str):
                raise InvalidCommand(f"{field} must be several texts, not one")
            object.__setattr__(self, field, tuple(getattr(self, field)))
            for text in getattr(self, field):
                check_text(f"one of {field}", text)

    def __repr__(self) -> str:
        return f"Redaction(names={self.names}, <{len(self.values)} values>, shapes={self.shapes})"

    def masks(self, *variables: Mapping[str, str], names: tuple[str, ...] = ()) -> Masks:
        """Make the `Masks` for the values of secret variables, for `values` and for `shapes`.

        Args:
            variables: Values of variables by name.
            names: More patterns of names.
        """
        secret = matcher(self.names + names)
        values = [value for each in variables for name, value in sorted(each.items()) if secret(name)]
        return _masks(tuple(dict.fromkeys((*self.values, *values))), self.shapes, self.shortest)


@lru_cache(maxsize=32)
def _masks(values: tuple[str, ...], shapes: bool, shortest: int) -> Masks:
    given = (value.encode(errors="surrogateescape") for value in values)
    lines = [line for value in given for line in _lines(value, shortest)][:MAX_VALUES]
    return Masks(lines, shapes=shapes)


def _lines(value: bytes, shortest: int) -> Iterator[bytes]:
    lines = value.strip().splitlines()
    least = shortest if len(lines) == 1 else max(shortest, SHORTEST_LINE)
    return (line[:LONGEST_VALUE] for line in lines if len(line) >= least)


def _forms(value: bytes) -> Iterator[bytes]:
    """Yield a value as it is, and encoded for JSON, URLs and base64; the base64 form depends on the bytes before the value."""
    yield value
    text = value.decode(errors="surrogateescape")
    if value.decode(errors="replace") == text:
        yield json.dumps(text)[1:-1].encode()
        yield json.dumps(text, ensure_ascii=False)[1:-1].encode()
        yield quote_plus(text).encode()
    yield quote_from_bytes(value, safe="").encode()
    yield quote_from_bytes(value).encode()
    for before, start in enumerate((0, 2, 3)):
        coded = base64.b64encode(bytes(before) + value)[start : (before + len(value)) * 8 // 6]
        yield coded
        yield coded.translate(bytes.maketrans(b"+/", b"-_"))


class Masks:
    """A finder of secrets in bytes. An instance does not change, and can serve many streams.

    Args:
        values: The secret values.
        shapes: Whether tokens are found by their shapes.
    """

    def __init__(self, values: Iterable[bytes], *, shapes: bool = True) -> None:
        # The longest first: a form may be the beginning of another form.
        forms = sorted({form for value in values for form in _forms(value)}, key=len, reverse=True)
        self._forms = forms
        shaped = [shape.encode() for shape in _shapes()] if shapes else []
        # `re` takes a microsecond to compile a byte: so only the beginning of a long value is compiled, and the rest is compared.
        long: dict[bytes, list[bytes]] = {}
        for form in forms:
            if len(form) > _COMPILED:
                long.setdefault(form[:_COMPILED], []).append(form)
        short = [*(re.escape(form) for form in forms if len(form) <= _COMPILED), *shaped]
        self._long_forms = long
        self._others = re.compile(b"|".join(short) or rb"(?!)")
        begun = [b"(?P<begun>%b)" % b"|".join(map(re.escape, long))] if long else []
        self._pattern = re.compile(b"|".join([*begun, *short]) or rb"(?!)")
        parts: dict[bytes, None] = {}
        for form in forms:
            if parts.keys().isdisjoint(windows := _windows(form)):
                parts[min(windows, key=_often)] = None
        literals = [_literal(part) for part in parts]
        groups = ["|".join(literals[at : at + _AT_ONCE]) for at in range(0, len(literals), _AT_ONCE)]
        self._gates = [_gate(pattern) for pattern in groups]
        self._both = (
            _gate("|".join((*literals, _BEGINNINGS_GATE))) if shapes and len(literals) <= _BESIDE else None
        )
        self._starts = _starts((*forms, *((*_LITERALS, *_LEADS) if shapes else ())))
        self._header_starts = _starts(_HEADERS if shapes else ())
        self._firsts = frozenset(start[0] for start in self._starts).union(b"aAbB" if shapes else b"")
        self._long = re.compile(
            b"|".join(re.escape(form[:_START]) for form in forms if len(form) > _START) or rb"(?!)"
        )
        self._longest = max((len(form) for form in forms if len(form) > _START), default=0)
        self._all = b"\0".join(forms)
        self._shapes = shapes

    def has(self, data: bytes) -> bool:
        """Whether data may contain a secret; at times ``True`` although it contains none."""
        text = _ascii(data)
        if self._both is None or self._both.isinstance_python(text):
            if any(map(_may_have, self._gates, repeat(text))):
                return True
            if not self._shapes:
                return False
            beginnings, shapes, _ = _shapes_gates()
            if (self._both is not None or _may_have(beginnings, text)) and _may_have(shapes, text):
                return True
        return self._shapes and b"@" in data and _may_have(_shapes_gates()[2], text)

    def find(self, data: bytes, start: int) -> Iterator[tuple[re.Match[bytes], int]]:
        """Find the secrets from an offset on, each with its end."""
        if b"PRIVATE KEY" in data:  # the one secret of several lines
            return self._found(data, start, len(data))
        return (each for part in self._parts(data, start, len(data)) for each in self._found(data, *part))

    def _found(self, data: bytes, at: int, end: int) -> Iterator[tuple[re.Match[bytes], int]]:
        while (match := self._pattern.search(data, at, end)) is not None:
            found: re.Match[bytes] | None = match
            over = match.end()
            if match.lastgroup == "begun":
                start = match.start()
                lengths = (
                    len(form) for form in self._long_forms[match[0]] if data.startswith(form, start, end)
                )
                over = start + next(lengths, 0)  # the longest comes first
                if over == start and (found := self._others.match(data, start, end)) is not None:
                    over = found.end()
            if found is not None:
                yield found, over
            at = max(over, match.start() + 1)

    def _parts(self, data: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the bounds of small ranges of whole lines that may contain secrets."""
        if end - start > _FEW:
            middle = (start + end) // 2
            cut = 1 + max(data.rfind(b"\n", start, middle), data.find(b"\n", middle, end))
            if start < cut < end:
                if first := self.has(data[start:cut]):
                    yield from self._parts(data, start, cut)
                if not first or self.has(data[cut:end]):  # a secret is in at least one half
                    yield from self._parts(data, cut, end)
                return
        yield start, end

    def begins(self, data: bytes) -> int:
        """Return the first offset at which an unfinished secret may begin; the length of the data if there is none."""
        first, last = len(data), data[-_START:]
        for at, byte in enumerate(last):
            if byte in self._firsts and (
                last[at:] in self._starts or (byte in b"aAbB" and last[at:].lower() in self._header_starts)
            ):
                first -= len(last) - at
                break
        if last in self._all:
            tail = max(0, len(data) - self._longest + 1)
            for match in self._long.finditer(data, tail):
                rest = data[match.start() :]
                if any(form.startswith(rest) for form in self._forms):
                    first = min(first, match.start())
                    break
        if self._shapes:
            end = data[-LONGEST_TOKEN:]
            word = end[max(0, len(end.rstrip(_WORD_BYTES)) - _BEFORE_A_WORD) :]
            if _may_have(_shapes_gates()[0], _ascii(word)) and (begun := _OPEN.search(word)) is not None:
                first = min(first, len(data) - len(word) + begun.start())
            url = data.rfind(b"//", max(0, len(data) - _LONGEST_URL))
            if url >= 0 and _OPEN_URL.match(data, url) is not None:
                first = min(first, url)
        return first

    def likely(self, held: bytes) -> bool:
        """Whether held-back bytes are so much of a value or a token that a coincidence is unlikely."""
        if len(held) < SHORTEST_VALUE:
            return False
        return held.startswith(tuple(_LITERALS)) or any(form.startswith(held) for form in self._forms)

    def data(self, data: bytes) -> bytes:
        """Mask the secrets in complete data."""
        masker = Masker(self)
        return masker.feed(data) + masker.end()

    def text(self, text: str) -> str:
        """Mask the secrets in a complete text."""
        return self.data(text.encode(errors="surrogateescape")).decode(errors="surrogateescape")


class Masker:
    """A masker of secrets in one stream, wherever the stream is cut into pieces.

    A possible beginning of a secret is held back until later data decides. If no data follows for a while, the beginning is
    shown; the rest of the secret is masked nevertheless.

    Attributes:
        count: The number of masks in the output.
    """

    def __init__(self, masks: Masks) -> None:
        self._masks = masks
        self._held = b""  # the bytes from the possible beginning of a secret on
        self._shown = 0  # the number of held bytes that were shown already
        self._before = b""  # the last bytes before the held ones, which show whether a word begins
        self._rest: re.Pattern[bytes] | None = None  # matches the rest of a secret that a mask has replaced
        self.count = 0

    @property
    def holds(self) -> bool:
        """Whether bytes are held back."""
        return len(self._held) > self._shown

    @property
    def likely(self) -> bool:
        """Whether the held-back bytes are likely a secret."""
        return self._masks.likely(self._held)

    def feed(self, data: bytes) -> bytes:
        """Take the next bytes of the stream, and return the bytes that may be shown now."""
        if self._rest is not None:
            data = self._without_rest(data)
        piece, data = data, self._held + data
        begin = self._masks.begins(data)
        if self._masks.has(data):
            given, begin = self._mask(data, begin)
        elif len(data) >= _FLOOD and len(data) - begin <= _SHOWN_IN_FLOOD:
            given = data[self._shown :] if self.holds else piece  # `piece` avoids a copy
            self._keep(data, begin)
            self._shown = len(self._held)
            return given
        else:
            given = data[self._shown : begin]
        self._keep(data, begin)
        if len(self._held) > (LONGEST_KEY if self._held.startswith(b"-----BEGIN") else LONGEST_TOKEN):
            given += self.release()
        return given

    def release(self) -> bytes:
        """Return the held-back bytes if no data has followed in time; a mask in place of a likely secret."""
        held = self._held
        key = held.startswith(b"-----BEGIN")
        if len(held) < LIKELY or (not key and _is_led(held)):
            given, self._shown = held[self._shown :], len(held)
            return given
        self._held, self._shown, self._rest = b"", 0, _KEY_GOES_ON if key else _GOES_ON
        self.count += 1
        return MASK

    def end(self) -> bytes:
        """Return the held-back bytes, masked, at the end of the stream."""
        given, begin = self._mask(self._held, len(self._held), last=True)
        self._keep(self._held, begin)
        return given

    def _keep(self, data: bytes, begin: int) -> None:
        """Hold back the bytes from an offset on."""
        self._before = (self._before + data[max(0, begin - _LOOKED_BACK) : begin])[-_LOOKED_BACK:]
        self._shown = max(0, self._shown - begin)
        self._held = data[begin:]

    def _mask(self, data: bytes, begin: int, *, last: bool = False) -> tuple[bytes, int]:
        """Mask data up to an offset, and return the data and the offset, moved back to the start of a secret that crosses it."""
        pieces: list[bytes] = []
        offset = len(self._before)
        at = self._shown
        for match, end in self._masks.find(self._before + data, offset):
            kind = match.lastgroup
            start, end = match.start() - offset, end - offset
            open_key = kind == "key" and match["end"] is None and _KEY_ENDS.match(data, end) is not None
            if not last and (end > begin or open_key):
                begin = min(begin, start)
                break
            if kind is not None and kind.startswith("keep"):
                start = match.end(kind) - offset
            if end > at:
                pieces += [data[at:start], MASK]
                self.count += 1
                at = end
        pieces.append(data[at:begin])
        return b"".join(pieces), begin

    def _without_rest(self, data: bytes) -> bytes:
        assert self._rest is not None
        match = self._rest.match(data)
        end = match.end() if match is not None else 0
        if end < len(data):
            self._rest = None
        return data[end:]


def _is_led(held: bytes) -> bool:
    """Whether held-back bytes begin with a public lead, such as ``//`` or ``Bearer``, before any byte of a secret."""
    return held.startswith(_LEADS) or held[:_START].lower().startswith(_HEADERS)


def _starts(texts: Iterable[bytes]) -> frozenset[bytes]:
    """Return the beginnings of texts that are searched at the end of received data, of up to `_START` bytes."""
    return frozenset(text[:size] for text in texts for size in range(1, min(len(text), _START + 1)))


def _ascii(data: bytes) -> str:
    """Decode bytes to a text of the same length; a byte outside ASCII becomes ``?``."""
    try:
        return data.decode("ascii")
    except UnicodeDecodeError:
        return data.translate(_TO_ASCII).decode("ascii")


def _literal(data: bytes) -> str:
    """Return a regular expression that matches bytes literally; a byte outside ASCII becomes ``?``."""
    return "".join(f"\\x{byte:02x}" for byte in data.translate(_TO_ASCII))


def _windows(form: bytes) -> list[bytes]:
    """Return the parts of a value from which the part for the first search is chosen."""
    return [form[at : at + _PART] for at in range(max(1, min(len(form), _PARTS) - _PART + 1))]


def _often(part: bytes) -> int:
    """Return a measure of how frequent the first bytes of a part are in output; Rust searches for the first bytes at once."""
    return sum(map(_OFTEN.find, part[:4]))


@cache
def _shapes_gates() -> tuple[SchemaValidator | None, ...]:
    return tuple(map(_gate, (_BEGINNINGS_GATE, _SHAPES_GATE, _URL_GATE)))


def _may_have(gate: SchemaValidator | None, text: str) -> bool:
    return gate is None or gate.isinstance_python(text)


def _gate(pattern: str) -> SchemaValidator | None:
    """Return a test for whether a pattern is in a text; ``None`` if the pattern is too large for Rust."""
    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern))
    except SchemaError:
        return None
