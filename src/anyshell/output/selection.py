"""Parts of a kept output, named by an address such as ``artifact://ID?lines=100-200&grep=REGEX``.

Lines are counted from 1 and end with a line feed; bytes are counted from 0. A range includes both its ends. ``lines``,
``bytes`` or ``tail`` choose a part of the output, and ``grep`` searches the lines of that part. Matches have the form of
``grep -n``: ``12:`` before a line that matches, ``11-`` before a line of context, ``--`` between lines that are apart.
"""

from __future__ import annotations

import re
import time
from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, BinaryIO

from .._exceptions import InvalidCommand
from .patterns import searcher

if TYPE_CHECKING:
    from collections.abc import Iterator

SCHEME = "artifact"

LONGEST_ADDRESS = 4096
"""Characters of the address of a kept output; a longer address is an error."""

LARGEST_CONTEXT = 1000
"""Lines around each match (``context=``), at most; more is an error."""

SEARCH_SECONDS = 20.0
"""Seconds for a search in a kept output; then the search stops, and the note says how far it came and names the rest."""

_PIECE = 1024 * 1024
"""Bytes of a kept output that are read at once."""

_NUMBER = "([0-9]{1,15})"
_RANGE = re.compile(rf"{_NUMBER}(?:(-){_NUMBER}?)?")
_FORM = {"lines": "lines=100-200", "bytes": "bytes=0-4095"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """A part of a kept output.

    Attributes:
        lines: The first and the last line, from 1; ``None`` as the last line is the end.
        bytes: The first and the last byte, from 0; ``None`` as the last byte is the end.
        tail: The number of lines at the end.
        grep: The pattern to search in the lines of that part.
        context: Lines that are shown before and after each line that matches.

    Raises:
        InvalidCommand: A number is out of its range, a range is empty, or the attributes do not go together.
    """

    lines: tuple[int, int | None] | None = None
    bytes: tuple[int, int | None] | None = None
    tail: int | None = None
    grep: str | None = None
    context: int = 0

    def __post_init__(self) -> None:
        for name, least in (("lines", 1), ("bytes", 0)):
            given: tuple[int, int | None] | None = getattr(self, name)
            if given is not None and given[0] < least:
                raise InvalidCommand(f"{name}: counted from {least}: {_FORM[name]}")
            if given is not None and given[1] is not None and given[1] < given[0]:
                raise InvalidCommand(
                    f"{name}: the range is empty, as its end comes before its start: {_FORM[name]}"
                )
        if self.tail is not None and self.tail < 1:
            raise InvalidCommand("tail: the range is empty: tail=50 is the last 50 lines")
        if (self.lines, self.bytes, self.tail).count(None) < 2:
            raise InvalidCommand("give one of lines, bytes and tail")
        if self.bytes is not None and self.grep is not None:
            raise InvalidCommand("grep searches lines: give lines or tail with it, not bytes")
        if not 0 <= self.context <= LARGEST_CONTEXT:
            raise InvalidCommand(
                f"context: 0 to {LARGEST_CONTEXT:,} lines around each match, not {self.context:,}"
            )
        if self.context and self.grep is None:
            raise InvalidCommand("context goes with grep: grep=REGEX&context=3")
        if self.grep is not None:
            searcher(self.grep)  # raises if the pattern is invalid

    @property
    def query(self) -> str:
        """The selection as part of an address; empty for the whole output."""
        named = [
            f"{name}={_range_text(given)}" for name in ("lines", "bytes") if (given := getattr(self, name))
        ]
        named += [f"tail={self.tail}"] * (self.tail is not None)
        if self.grep is not None:
            named.append("grep=" + self.grep.replace("%", "%25").replace("&", "%26"))
        named += [f"context={self.context}"] * (self.context > 0)
        return "&".join(named)


@dataclass(frozen=True, slots=True)
class ArtifactAddress:
    """The address of a kept output, or of a part of the output.

    Attributes:
        id: The id for `ArtifactStore.get`, which checks the id.
        selection: The part.
    """

    id: str
    selection: Selection = Selection()

    def __str__(self) -> str:
        query = self.selection.query
        return f"{SCHEME}://{self.id}{'?' * bool(query)}{query}"

    @classmethod
    def parse(cls, text: str) -> ArtifactAddress:
        """Parse ``artifact://ID?lines=100-200&grep=REGEX``, or the same without its scheme.

        In the value of ``grep``, ``%26`` is ``&``, ``%25`` is ``%``; ``+`` stays ``+``.

        Raises:
            InvalidCommand: An unknown or repeated key, a bad number, an empty range, a pattern that does not compile, or
                more than `LONGEST_ADDRESS` characters; the message names the culprit.
        """
        if len(text) > LONGEST_ADDRESS:
            raise InvalidCommand(f"an address has up to {LONGEST_ADDRESS:,} characters, not {len(text):,}")
        artifact_id, asks, query = text.removeprefix(f"{SCHEME}://").partition("?")
        found: dict[str, str] = {}
        for part in query.split("&") if asks else ():
            name, equals, value = part.partition("=")
            if not equals or name not in ("lines", "bytes", "tail", "grep", "context"):
                raise InvalidCommand(
                    f"{part[:60]!r} is not a part of an address: after the ? stand lines=100-200, bytes=0-4095, tail=50, "
                    "grep=REGEX and context=3, with & between; in REGEX, & is %26"
                )
            if name in found:
                raise InvalidCommand(f"{name} stands twice in the address: give it once")
            found[name] = value
        if "%" in found.get("grep", ""):
            from urllib.parse import unquote  # imported here, since few addresses need unquote

            found["grep"] = unquote(found["grep"])
        return cls(
            artifact_id,
            Selection(
                lines=range_of("lines", found.get("lines")),
                bytes=range_of("bytes", found.get("bytes")),
                tail=_number("tail", found.get("tail")),
                grep=found.get("grep"),
                context=_number("context", found.get("context")) or 0,
            ),
        )


def range_of(name: str, said: str | None) -> tuple[int, int | None] | None:
    """Parse a range: ``100-200``, ``100-`` up to the end, or ``100`` alone.

    Raises:
        InvalidCommand: The text is not a range.
    """
    if said is None:
        return None
    found = _RANGE.fullmatch(said)
    if found is None:
        raise InvalidCommand(
            f"{name}: {said[:60]!r} is not a range: {_FORM[name]}, or {name}=100- up to the end"
        )
    first = int(found[1])
    return first, int(found[3]) if found[3] else None if found[2] else first


def _number(name: str, said: str | None) -> int | None:
    if said is None:
        return None
    if re.fullmatch(_NUMBER, said) is None:
        raise InvalidCommand(f"{name}: {said[:60]!r} is not a number: {name}=50")
    return int(said)


def _range_text(given: tuple[int, int | None]) -> str:
    return f"{given[0]}-{'' if given[1] is None else given[1]}"


class PartReading:
    """One reading of a part of a kept output, with bounded memory, however long the lines are.

    Args:
        file: The whole output; the file is read from its start, and not closed.
        address: The address of the part.
        limit: Bytes that are returned, at most; ``None`` means no bound.

    Attributes:
        note: One sentence about the part: its place, the size of the whole, and the omitted rest. Complete after the last piece.
        next: The address of the omitted rest; ``None`` when nothing was omitted.

    Raises:
        InvalidCommand: The output ends before the part begins.
    """

    def __init__(self, file: BinaryIO, address: ArtifactAddress, *, limit: int | None) -> None:
        self.note = ""
        self.next: str | None = None
        self._file = file
        self._moved = True  # whether the file's position was changed by another read
        self._address = address
        self._room = limit
        self._lines, self._size = self._count()
        chosen = address.selection
        if chosen.bytes is not None:
            self._first, self._last = self._clamped("bytes", chosen.bytes, self._size - 1)
        elif chosen.tail is not None:
            self._first, self._last = max(1, self._lines - chosen.tail + 1), self._lines
        else:
            self._first, self._last = self._clamped("lines", chosen.lines or (1, None), self._lines)

    def _clamped(self, name: str, given: tuple[int, int | None], last: int) -> tuple[int, int]:
        if given[0] > last and getattr(self._address.selection, name) is not None:
            total = self._size if name == "bytes" else self._lines
            raise InvalidCommand(f"{name}={_range_text(given)}: the output has {total:,} {name}")
        return given[0], last if given[1] is None else min(given[1], last)

    def pieces(self) -> Iterator[bytes]:
        """Yield the part in pieces, and make the note."""
        chosen = self._address.selection
        if chosen.grep is not None:
            yield from self._found(chosen.grep, chosen.context)
        elif chosen.bytes is not None:
            self.note = f"Bytes {self._first:,} to {self._last:,} of {self._size:,}."
            yield from self._copied(self._first, self._last + 1, by_lines=False)
        else:
            self.note = f"Lines {min(self._first, self._last):,} to {self._last:,} of {self._lines:,}."
            start = self._start_of(self._first)
            yield from self._copied(start, self._start_of(self._last + 1), by_lines=True)

    def _count(self) -> tuple[int, int]:
        """Return the number of lines, with an unfinished last line, and the number of bytes."""
        lines, size, last = 0, 0, b""
        for piece in self._read(0, None):
            lines, size, last = lines + piece.count(b"\n"), size + len(piece), piece[-1:]
        return lines + (last not in (b"", b"\n")), size

    def _start_of(self, line: int) -> int:
        """Return the byte at which a line begins; for the line after the last, the end of the output."""
        feeds, at = line - 1, 0
        if feeds <= 0:
            return 0
        for piece in self._read(0, None):
            here = piece.count(b"\n")
            if here >= feeds:
                place = -1
                for _ in range(feeds):
                    place = piece.index(b"\n", place + 1)
                return at + place + 1
            feeds, at = feeds - here, at + len(piece)
        return at

    def _read(self, start: int, end: int | None) -> Iterator[bytes]:
        """Yield the bytes of a range, even if the file is read elsewhere between two pieces."""
        while end is None or start < end:
            self._file.seek(start)
            self._moved = True
            piece = self._file.read(_PIECE if end is None else min(_PIECE, end - start))
            if not piece:
                return
            start += len(piece)
            yield piece

    def _copied(self, start: int, end: int, *, by_lines: bool) -> Iterator[bytes]:
        """Yield a range of bytes, as far as there is room; if `by_lines`, the range is cut after a line where possible."""
        until = end if self._room is None else min(end, start + self._room)
        line, whole = self._first, False
        for piece in self._read(start, until):
            if start + len(piece) == until < end and by_lines:
                piece = piece[: piece.rfind(b"\n") + 1] or piece
            start, line, whole = start + len(piece), line + piece.count(b"\n"), piece.endswith(b"\n")
            yield piece
        if start < end:
            by_lines = by_lines and whole
            rest = Selection(lines=(line, self._last)) if by_lines else Selection(bytes=(start, end - 1))
            self._left_out(rest)

    def _found(self, pattern: str, context: int) -> Iterator[bytes]:
        """Yield the lines that match, with their context. Of the lines before a match, only the places are held."""
        # `rest` is the first line that did not fit. From there on lines are only counted, and the note names `rest`.
        matches, most = searcher(pattern)
        before: deque[tuple[int, int, int]] = deque(maxlen=context)
        matched = long = after = shown = rest = number = (
            0  # shown: the last line shown; rest: the first line that was left out
        )
        give_up = time.monotonic() + SEARCH_SECONDS
        for number, at, length, head in self._each(most):
            if time.monotonic() > give_up:
                self.note = (
                    f"{matched:,} of lines {self._first:,} to {number - 1:,} match; the search was stopped after "
                    f"{SEARCH_SECONDS:g} s."
                )
                self._left_out(self._rest_from(rest or number))
                return
            long += length > most + 1
            hit = matches(head)
            matched += hit
            if not (hit or after):
                before.append((number, at, length))
                continue
            after = context if hit else after - 1
            for line, place, size in (*before, (number, at, length)):
                mark = b"%b%d%b" % (
                    b"--\n" * (0 < shown < line - 1),
                    line,
                    b":" if hit and line == number else b"-",
                )
                if rest or (self._room is not None and shown and len(mark) + size >= self._room):
                    rest = rest or line
                else:
                    yield from self._line(mark, place, size)
                    shown = line
            before.clear()
        self.note += f"{matched:,} of {self._last - self._first + 1:,} lines match."
        if long:
            self.note += f" {long:,} longer than {most:,} bytes were searched up to there."
        if rest:
            self._left_out(self._rest_from(rest))

    def _each(self, most: int) -> Iterator[tuple[int, int, int, bytes]]:
        """Yield the number, the place, the length and the first `most` bytes of each line, without the line feed."""
        at = self._start_of(self._first)
        for number in range(self._first, self._last + 1):
            if self._moved:
                self._file.seek(at)
                self._moved = False
            head = piece = self._file.readline(most + 1)
            length = len(head)
            while piece and not piece.endswith(b"\n"):
                piece = self._file.readline(_PIECE)
                length += len(piece)
            yield number, at, length, head.removesuffix(b"\n")[:most]
            at += length

    def _rest_from(self, line: int) -> Selection:
        return replace(self._address.selection, lines=(line, self._last), tail=None)

    def _line(self, mark: bytes, at: int, length: int) -> Iterator[bytes]:
        """Yield one line after its mark; of a line that does not fit, only the part that fits."""
        yield mark
        if self._room is not None:
            self._room -= len(mark)
            if length > self._room:
                self.note = f"Of the first, bytes {at + self._room:,} to {at + length - 1:,} of the output are left out. "
                length = self._room
            self._room -= length
        last = b""
        for last in self._read(at, at + length):
            yield last
        if not last.endswith(b"\n"):
            yield b"\n"

    def _left_out(self, rest: Selection) -> None:
        self.next = str(replace(self._address, selection=rest))
        self.note += f" The rest: {self.next}"
