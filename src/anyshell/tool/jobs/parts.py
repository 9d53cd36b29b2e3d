"""A part of an output: a range of lines or bytes, or the lines that match a pattern."""

from __future__ import annotations

import re
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ...output import LineDecoder, OutputBuilder, Page
from ...output.patterns import pattern_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..._types import Output, OutputLimits

LARGEST_NUMBER = 2**63 - 1
"""Lines or bytes of an output that can be asked for: more than any output has."""

LAST_LINES = 4 * 1024 * 1024
"""Characters of the last lines of an output that are held; beyond that the earlier lines are dropped."""

SEARCH_SECONDS = 20.0
"""Seconds for a search through an output; then the result tells how many lines were searched."""

_RANGE = re.compile(r"(lines|bytes)\s*:?\s*(\d{0,19})\s*(?:(-|to|:|\.\.)\s*(\d{0,19}))?", re.IGNORECASE)
_GREP = re.compile(r"grep\s*:?\s+(.+)", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Part:
    """The part of an output that is shown.

    Attributes:
        kind: The unit of the range, ``lines`` or ``bytes``, or ``grep`` for a search in the lines.
        first: The first line, counted from 1, or byte, from 0; ``None`` for the last `last` lines or bytes.
        last: The last line, or the byte before which the part ends; ``None`` is the end of the output.
        pattern: The pattern that a line must contain.
    """

    kind: Literal["lines", "bytes", "grep"]
    first: int | None = None
    last: int | None = None
    pattern: re.Pattern[str] | None = None


def part_of(said: str) -> Part:
    """Parse a model's text for a part, such as ``lines 40-80``.

    Raises:
        ValueError: The text is not a part, or its pattern could take long; the message tells the right form.
        re.error: A pattern does not compile.
    """
    said = said.strip()
    if found := _GREP.fullmatch(said):
        return Part("grep", pattern=pattern_of(found[1]))
    found = _RANGE.fullmatch(said)
    one_byte = found is not None and found[1].lower() == "bytes" and not found[3]
    if found is None or not (found[2] or found[4]) or one_byte:
        raise ValueError("part must be lines 40-80, lines -50, bytes 0-4096, grep TEXT or grep /PATTERN/")
    kind: Literal["lines", "bytes"] = "lines" if found[1].lower() == "lines" else "bytes"
    first = int(found[2]) if found[2] else None
    last = int(found[4]) if found[4] else None if found[3] else first
    if max(first or 0, last or 0) > LARGEST_NUMBER or (
        first is not None and last is not None and last < first
    ):
        raise ValueError(f"part must name the smaller number first: {kind} 40-80")
    return Part(kind, first, last)


def select(
    chunks: Iterable[bytes], part: Part, limits: OutputLimits, *, code_page: int | None
) -> tuple[Output, str]:
    """Return a part of raw output as text, within limits, and a sentence that describes the part.

    Args:
        chunks: The whole output, in order.
        part: The part.
        limits: The limits of the text.
        code_page: The number of the host's code page.
    """
    builder = OutputBuilder(
        **limits.parts._asdict(),
        code_page=code_page if part.kind == "bytes" else None,
    )
    if part.kind == "bytes":
        told = _bytes(chunks, part, builder)
    else:
        told = _lines(chunks, part, builder, code_page, limits)
    return builder.finish(), told


def _bytes(chunks: Iterable[bytes], part: Part, builder: OutputBuilder) -> str:
    if part.first is None:
        data = b"".join(chunks)
        first = max(0, len(data) - (part.last or 0))
        builder.feed(data[first:])
        return f"Bytes {first:,} to {len(data):,} of {len(data):,}."
    at = taken = 0
    end = LARGEST_NUMBER if part.last is None else part.last
    for chunk in chunks:
        piece = chunk[max(0, part.first - at) : max(0, end - at)]
        builder.feed(piece)
        taken += len(piece)
        at += len(chunk)
    if not taken:
        return f"There are {at:,} bytes."
    return f"Bytes {part.first:,} to {part.first + taken:,} of {at:,}."


def _lines(
    chunks: Iterable[bytes], part: Part, builder: OutputBuilder, code_page: int | None, limits: OutputLimits
) -> str:
    decoder = LineDecoder(Page.of(code_page))
    number = matched = held = 0
    complete = True
    lasting: deque[str] = deque()

    def lines() -> Iterable[tuple[str, bool]]:
        for chunk in chunks:
            yield from ((line.text, line.complete) for line in decoder.feed(chunk))
        yield from ((line.text, line.complete) for line in decoder.flush())

    give_up = time.monotonic() + SEARCH_SECONDS
    for text, whole in lines():
        number += complete  # the further pieces of a long line are not lines of their own
        if part.pattern is not None and time.monotonic() > give_up:
            return f"{matched:,} of the first {number - 1:,} lines match; the search was stopped after {SEARCH_SECONDS:g} s."
        complete = whole
        if part.pattern is not None:
            if part.pattern.search(text[: limits.max_line]):
                matched += 1
                builder.feed(f"{number}: {text}\n".encode(errors="replace"))
        elif part.first is None:
            lasting.append(text)
            held += len(text)
            while len(lasting) > (part.last or 0) or held > LAST_LINES:
                held -= len(lasting.popleft())
        elif part.first <= number <= (part.last or LARGEST_NUMBER):
            matched += 1
            builder.feed((text + "\n" * whole).encode(errors="replace"))
    if not number:
        return "There are 0 lines."
    if part.pattern is not None:
        literal = not matched and part.pattern.pattern.startswith(("'", '"', "\\-"))
        taken = ": quotes and options are taken as text" if literal else ""
        return f"{matched:,} of {number:,} lines match{taken}."
    if part.first is None:
        builder.feed("\n".join(lasting).encode(errors="replace"))
        return f"The last {len(lasting):,} of {number:,} lines."
    if not matched:
        return f"There are {number:,} lines."
    return f"Lines {max(part.first, 1):,} to {min(part.last or number, number):,} of {number:,}."
