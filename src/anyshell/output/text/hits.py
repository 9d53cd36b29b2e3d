"""Lines of an output that may tell of an error, found many at once: a search of each line alone costs more."""

from __future__ import annotations

import re
from functools import cache
from itertools import compress
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from collections.abc import Set as AbstractSet

LOOKED_AT = 400
"""Bytes of a line that are scored; later bytes do not count."""

EXCERPT = 4 * 1024
"""Bytes of an excerpt: a line with the lines around the line; a longer line is not found."""

WORTHLESS = 8192
"""Shapes of worthless lines that are remembered, and not searched again; when there are more, all are forgotten."""

_TRIED = 8  # no bound: pieces between two checks whether lines repeat

# Each alternative begins with one letter, not with a class or a group: `re` then skips other letters, thrice as fast.
HITS = re.compile(
    rb"r(?:ror|aceb)|RROR|f(?:ail|a(?:tal|ult)|ound|used|ined)|F(?:ail|AIL|atal|ATAL)|panic|Permission d|xcept|killed|Killed|No such"
    rb"|C(?:annot|ould not)|Unable|\n(?:not ok|E   )|\xe2(?:\x9c[\x95\x96\x97\x98]|\x97\x8f)|warn|W(?:arn|ARN)"
)
# The text for Rust is ASCII, since Rust reads an ASCII str in place. Bytes beyond ASCII that the patterns need become controls.
_NOT_ASCII = b"\xe2\x9c\x97\x8f\x93\x94\x95\x96\x98"
_CONTROLS = b"\x01\x02\x03\x04\x05\x06\x0e\x0f\x10"
_TO_ASCII = bytes.maketrans(bytes(range(0x80, 0x100)) + _NOT_ASCII, b"\x7f" * 0x80 + _CONTROLS)
# HITS for Rust's regular expressions; and a pattern that matches at least each line in which `score` finds a word of failure.
_LINES_OF_HITS = HITS.pattern.decode("ascii").replace(r"\n(?:", "(?m:^)(?:")
# The same without words of warning.
_LINES_OF_FAILURE = _LINES_OF_HITS.removesuffix("|warn|W(?:arn|ARN)") + (
    "|[Ww]arn(?:s|ings?)?(?:[0-9A-Z_a-hj-rt-z]|i[^n]|in[^g]|ss)"
)
_LINES_OF_STRONG = (
    r"rrors?(?-u:\b)(?:\(\d+,\d+\)|\[[\w-]+\]| \w+)?:|RROR(?:[^_]|$)|racebac|Error(?:[^A-Za-z0-9_./(=]|$)|E +[-+] |FA(?:IL(?:[^_]|$)|TAL)"
    r"|Fa(?:tal|il(?:ed|ure))|xception|f(?:atal|ail(?:ed|ures?)|ault|ined (?:reference|symbol))|panic|Permission denied|No such file"
    r"|C(?:annot|ould not)|Unable|[Kk]illed|not ok|\xe2(?:\x9c[\x95\x96\x97\x98]|\x97\x8f)"
)
# With a word of success, a line is worth three less; with a word of warning and no word of failure, one at most.
_LINES_OF_SUCCESS = (
    r"(?-u:\b)passed(?-u:\b)|PASS|(?:^|[^\w\s]|(?:^|[^t])\s)ok(?-u:\b)|xfail|XFAIL|^[ \t]*\xe2\x9c[\x93\x94]"
    r"|(?:^|[^0-9A-Za-z_])(?:0|[Nn]o|zero|without) (?:[0-9A-Za-z_]+ )?(?:error|fail|warning)"
    r"|(?:rrors?|ail(?:ures?|ed))[^0-9A-Za-z_\n]{1,3}0(?-u:\b)|(?:^|[^0-9A-Za-z_-])--?[0-9A-Za-z_-]{0,40}(?:fail|error|warn)"
)
_WARNS = r"[Ww]arn(?:ing)?s?(?-u:\b)|WARN"
_LINES_OF_WARNINGS = f"{_LINES_OF_SUCCESS}|{_WARNS}"
# A word of failure is worth less if it stands late in a line, and less after a warning unless the line begins with it.
_AT_ONCE = f"^.{{0,8}}(?:{_LINES_OF_STRONG})"
_WARNED = f"^.{{0,32}}(?:{_WARNS})"
_EARLY = f"^.{{0,39}}(?:{_LINES_OF_STRONG})"
_STAMP = "0123456789 \t[](){}<>|#:.,-+TZ\x1bm;"  # the characters of stamps
# A count of failures that is not zero. A line with this count is not a repeat of a line that counts zero, and is not harmless
# because of another zero.
LINES_OF_COUNTS = (
    r"(?m:^|[^0-9A-Za-z_.-])[1-9][0-9]* (?:tests? )?(?:[Ee]rrors?|[Ff]ail(?:ures?|ed))(?m:[^0-9A-Za-z_=:(./-]|$)"
    r"|(?m:^|[^0-9A-Za-z_-])[0-9A-Za-z_]*(?:rrors|ailures|ailed)[=:] ?[1-9]"
)
# Parts that each line with a count has, and some other lines too. Each part alone is found ten times as fast; both in one
# pattern are not.
_MAYBE_COUNTS = (
    r"[0-9] (?:tests? )?(?:[Ee]rror|[Ff]ail(?:ure|ed))",
    r"(?:rrors|ailures|ailed)[=:] ?[1-9]",
)
_DIGITS = b"0123456789"


class _Gate:
    """A fast test for matches, some twenty times as fast as `re`: Rust's regular expressions search with vector instructions."""

    def __init__(self, pattern: str) -> None:
        from pydantic_core import SchemaValidator  # imported here, since most outputs are short
        from pydantic_core import core_schema as schema

        for byte, control in zip(_NOT_ASCII, _CONTROLS, strict=True):
            pattern = pattern.replace(rf"\x{byte:02x}", rf"\x{control:02x}")
        text = schema.str_schema(pattern=pattern)
        lines = schema.list_schema(schema.with_default_schema(text, default=None, on_error="default"))
        self.anywhere: Callable[[str], bool] = SchemaValidator(text).isinstance_python
        self.lines: Callable[[list[str]], list[str | None]] = SchemaValidator(lines).validate_python
        """Returns the lines that match, with ``None`` in place of each other line."""


_gate = cache(_Gate)


class Hit(NamedTuple):
    """A line that may tell of an error: the number, the begin and the end, the hash of the shape, whether it counts failures."""

    number: int
    start: int
    stop: int
    shape: int
    counts: bool


class Looker:
    """The search for lines that may tell of an error, some hundred lines at once.

    Attributes:
        worthless: Hashes of the shapes of worthless lines.
    """

    def __init__(self) -> None:
        self.worthless: set[int] = set()
        self._known = False  # whether more than a third of the last lines was known to be worthless
        self._pieces = 0

    def hits(self, piece: bytes, least: float, *, again: bool = False) -> list[Hit]:
        """Return the lines that may reach a score.

        Args:
            piece: Whole lines.
            least: The score; for one looker, never less than before.
            again: Whether to return also lines of shapes that are known to be worthless.
        """
        plain = piece.isascii()
        text = (piece if plain else piece.translate(_TO_ASCII)).decode("ascii")
        gate = _gate(_LINES_OF_HITS if least < 2 else _LINES_OF_FAILURE if least <= 2 else _LINES_OF_STRONG)
        if not gate.anywhere(text):
            return []
        counting = _counting(text)
        self._pieces += 1
        tried = not again and (self._known or self._pieces % _TRIED == 1)
        shapes: list[int] = []
        if tried:
            shapes = _shapes(piece, counting)
            if self.worthless.issuperset(shapes):  # five times as fast as the comprehension below
                self._known = True
                return []
            numbers: Sequence[int] = [
                number for number, shape in enumerate(shapes) if shape not in self.worthless
            ]
            self._known = 3 * len(numbers) < 2 * len(shapes)
            lines = text.split("\n")
            told = gate.lines([lines[number] for number in numbers])
        else:
            lines = text.split("\n")
            numbers = range(len(lines))
            told = gate.lines(lines)
        left = _sifted([*filter(None, told)], [*compress(numbers, told)], counting, least)
        if tried:
            # Where lines repeat, the shapes of lines without a word of failure are remembered too.
            some = set(left)
            self._drop([shapes[number] for number in numbers if number not in some])
            found = [(number, shapes[number]) for number in left]
        elif left:
            raw = piece.split(b"\n")
            of_left = [at for at, number in enumerate(left) if number in counting]
            known: AbstractSet[int] = frozenset() if again else self.worthless
            shapes = _shapes(b"\n".join([raw[number] for number in left]), of_left)
            found = [each for each in zip(left, shapes, strict=True) if each[1] not in known]
        else:
            return []
        hits = []
        place = before = 0
        for number, shape in found:
            place += sum(map(len, lines[before:number])) + number - before
            before = number
            size = len(lines[number])
            if size < EXCERPT:
                hits.append(Hit(number, place, min(place + size + 1, len(piece)), shape, number in counting))
        return hits

    def drop(self, shape: int) -> None:
        """Remember a shape as worthless."""
        self._drop((shape,))

    def _drop(self, shapes: Sequence[int]) -> None:
        if len(self.worthless) + len(shapes) > WORTHLESS:
            self.worthless.clear()
        self.worthless.update(shapes[:WORTHLESS])


def _sifted(lines: list[str], numbers: list[int], counting: AbstractSet[int], least: float) -> Sequence[int]:
    """Return the numbers of the lines that may reach a score, among lines with words of failure."""
    if least > 1:
        heads = [line.lstrip(_STAMP) for line in lines]
        if least > 3 and None in (early := _gate(_EARLY).lines(heads)):
            numbers, lines = [*compress(numbers, early)], [*compress(lines, early)]
            heads = [*filter(None, early)]
        warned = _gate(_WARNED).lines(heads)
        if any(warned):
            told = _gate(_AT_ONCE if least > 3 else _EARLY).lines(heads)
            rest = [failed or not warning for failed, warning in zip(told, warned, strict=True)]
            numbers, lines = [*compress(numbers, rest)], [*compress(lines, rest)]
    fine = _gate(_LINES_OF_WARNINGS if least == 2 else _LINES_OF_SUCCESS).lines(lines)
    good = [line is not None and len(line) <= LOOKED_AT for line in fine]
    if counting:
        good = [each and number not in counting for each, number in zip(good, numbers, strict=True)]
    if True not in good:
        return numbers
    left = {number for number, each in zip(numbers, good, strict=True) if not each}
    if least <= 2:
        bad = _gate(_LINES_OF_STRONG).lines([*compress(lines, good)])
        left.update(compress(compress(numbers, good), bad))
    return sorted(left)


def _shapes(lines: bytes, counting: Iterable[int]) -> list[int]:
    """Return the hash of each line without its digits. Lines that count failures get other hashes."""
    shapes = [*map(hash, lines.translate(None, _DIGITS).split(b"\n"))]
    for number in counting:
        shapes[number] = ~shapes[number]
    return shapes


def _counting(text: str) -> AbstractSet[int]:
    """Return the numbers of the lines of a text that count failures."""
    gate = _gate(LINES_OF_COUNTS)
    if not (any(_gate(maybe).anywhere(text) for maybe in _MAYBE_COUNTS) and gate.anywhere(text)):
        return frozenset()
    return {number for number, line in enumerate(gate.lines(text.split("\n"))) if line is not None}


def counting(lines: bytes) -> AbstractSet[int]:
    """Return the numbers of the raw lines that count failures."""
    return _counting(lines.translate(_TO_ASCII).decode("ascii"))
