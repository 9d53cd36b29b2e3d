"""The output of a terminal in bounded memory: the lines that a person would have seen, with scrollback, all counted."""

from __future__ import annotations

import re
import time
from collections import deque
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from ..._types import Output, Screen, Terminal, TerminalLines, check_count
from ..sequences import DIGITS, PARAMETERS, RENDITION, SWITCH, long_form
from ..text.builder import COALESCE
from ..text.images import Images
from ..text.keeper import Keeper, OutputStore
from ..text.sections import marker
from .backlog import PIECE, Backlog, Piece, pieces
from .emulator import Emulator
from .final import FinalLines
from .interrupted import settled, unfinished
from .rows import left
from .style import StyledScreen
from .styled import StyledEmulator

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..text.images import Segment
    from .emulator import InputModes
    from .rows import Row

DRAWN_PER_SECOND = 1024 * 1024
"""Bytes with moves of the cursor that are drawn in a second; further bytes wait until the screen is read, the program sends a
query, or the second is over. For sequences that are more work than their bytes, the work counts."""

LONGEST_ANSWER = 16 * 1024
"""Bytes of answers to the queries in one piece of output; further queries get no answer."""

LARGEST_SCROLLBACK = 10_000
"""Rows scrolled off a terminal that can be kept for `TerminalOutput.view`; a larger number is an error."""

# All sequences, except those that move nothing or erase on a line: these are drawn at once.
_MOVES = re.compile(rb"\x1b(?!\[" + RENDITION + rb"[mK]|\[\?(?:1|12|25|2004|2026)[hl]|[()*+\]=>\\PX^_])")
_QUESTIONS = re.compile(
    rb"\x1b(?:\[(?:"
    + PARAMETERS
    + rb"(?:[cntx]|\$p)|>"
    + DIGITS
    + rb"q|\?"
    + DIGITS
    + rb"[mu])|[PZ]|\](?:4|10|11|12);)"
)
_SWITCH = re.compile(SWITCH)


class TerminalOutput:
    """The builder of a terminal's output: shows the terminal's screen meanwhile, and returns one `Output` at the end.

    Rows that leave the main screen at the top are final and become lines of the text; the rows of a wrapped line become one
    line. The rows of the main screen come at the end of the text.

    Output that moves the cursor is drawn up to `DRAWN_PER_SECOND`. Further output waits in a backlog until the screen is read,
    the program sends a query, or a second is over. If more waits than `backlog.HELD`, the start of the backlog is skipped and
    counted, and is a gap in the text. Each look at the screen then costs time: look no more often than a person could.

    Args:
        terminal: The size of the terminal.
        head: Bytes of text kept from the start; 0 or more.
        tail: Bytes of text kept from the end; 0 or more.
        excerpts: Bytes of the tail that may go to error lines between the start and the end; 0 searches for no such lines.
        max_line: Characters of a line that are kept; at least 1. The note on a cut line is not counted.
        artifacts: The store for the raw whole, used if anything is left out.
        name_path: Whether the marker names the file of the whole; otherwise the marker names the artifact.
        answer: Called with answers to the program's queries, during the `feed` of a query; the caller types the answers.
            ``None`` answers no query.
        scrollback: Rows that have left the main screen and are kept as shown, for `view`; 0 or more. ``None`` keeps no such
            rows and no colours: there is no `view` then, and drawing is faster.
        clock: Seconds that have passed, from any moment on.
    """

    def __init__(
        self,
        terminal: Terminal,
        *,
        head: int = 20 * 1024,
        tail: int = 30 * 1024,
        excerpts: int = 0,
        max_line: int = 2_000,
        artifacts: OutputStore | None = None,
        name_path: bool = True,
        answer: Callable[[bytes], object] | None = None,
        scrollback: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._emulator = Emulator(terminal) if scrollback is None else StyledEmulator(terminal)
        self._above: deque[Row] = deque(maxlen=scrollback or 0)
        self._scrolled = 0
        self._final = FinalLines(head, tail, excerpts, max_line)
        self._keeper = Keeper(artifacts, head + tail)
        self._images = Images(artifacts)
        self._name_path = name_path
        self._answer = answer
        self._clock = clock
        self._backlog = Backlog()
        self._alternate: bool | None = None  # the state at the backlog's end; None: unchanged
        self._second = 0.0  # when the second began
        self._drawn_since = 0  # work since then
        self._gathered = bytearray()
        self._carry = b""
        self._total = 0
        self._lines = 0
        self._output: Output | None = None

    def feed(self, data: bytes) -> None:
        """Take the next bytes. Never raises, whatever the bytes are, unless `answer` raises."""
        for at in range(0, len(data), PIECE):
            piece = data[at : at + PIECE]
            self._gathered += piece
            if len(self._gathered) >= COALESCE or b"\x1b" in piece or b"\xc2" in piece or self._begun:
                self._take()
        self._reply()

    @property
    def _begun(self) -> bool:
        """Whether a sequence is unfinished, and the next bytes may end the sequence."""
        return bool(self._carry) or self._images.begun

    @property
    def screen(self) -> Screen:
        """The present screen of the terminal."""
        emulator = self._drawn()
        return Screen(
            rows=tuple([emulator.text(row) for row in emulator.rows]),
            cursor=(emulator.y, emulator.column),
            title=emulator.title,
            alternate=emulator.alternate,
            cursor_visible=emulator.cursor_visible,
        )

    def view(self, back: int = 0) -> StyledScreen:
        """Return the present screen with its colours, or the view `back` rows above the screen.

        Args:
            back: Rows to go up into the rows that were scrolled off the main screen, as far as these rows are kept.
        """
        emulator = self._drawn()
        assert isinstance(emulator, StyledEmulator), "colours were not asked for"
        above = 0 if emulator.alternate else len(self._above)
        back = min(max(back, 0), above)
        rows = [*islice(self._above, above - back, above - back + emulator.height)] if back else []
        rows += emulator.rows[: emulator.height - len(rows)]
        y = emulator.y + back
        shown = emulator.cursor_visible and y < emulator.height
        return StyledScreen(
            rows=tuple([emulator.spans(row) for row in rows]),
            cursor=(y, emulator.column) if shown else None,
            alternate=emulator.alternate,
            back=back,
            above=above,
            scrolled=self._scrolled,
        )

    @property
    def alternate(self) -> bool:
        """Whether the alternate screen is shown now. Reading this draws nothing."""
        if self._gathered:
            self._take()
        return self._emulator.alternate if self._alternate is None else self._alternate

    @property
    def modes(self) -> InputModes:
        """The input modes that the program has set."""
        return self._drawn().modes

    def prompt(self) -> str:
        """Return the text of the cursor's line, up to the cursor."""
        emulator = self._drawn()
        rows, y = emulator.rows, emulator.y
        first = y
        while first and rows[first].continues:
            first -= 1
        cells = "".join([left(row.cells, emulator.columns) for row in rows[first:y]])
        return emulator.reader.read(cells + rows[y].cells[: emulator.x])

    def lines(self, since: int = 0) -> TerminalLines:
        """Return the lines of the main screen, and the kept lines that have left the main screen, from a number on."""
        emulator, final = self._drawn(), self._final
        first, texts = final.since(since)
        # finish() has already added the lines of the screen to the final lines.
        rows = [] if self._output is not None else emulator.main[: self._used()]
        changing = [] if final.begun is None else [final.begun]
        for row in rows:
            text = emulator.reader.read(row.cells)
            if row.continues and changing:
                changing[-1] += text
            else:
                changing.append(text)
        skipped = max(0, since - final.count)
        return TerminalLines(
            first=first + skipped,
            texts=(*texts, *(text.rstrip(" ") for text in changing[skipped:])),
            final=final.count,
        )

    def resize(self, terminal: Terminal) -> None:
        """Resize the terminal; bytes that are fed later see the new size."""
        self._drawn().resize(terminal)
        self._take_scrolled()

    def finish(self) -> Output:
        """Return the output so far. No `feed` may follow; a second call returns the same output."""
        if self._output is None:
            self._output = self._build()
        return self._output

    def close(self) -> None:
        """Remove the files of the output, unless `finish` has returned the output."""
        if self._output is None:
            self._keeper.discard()
            self._images.discard()

    def _drawn(self) -> Emulator:
        if self._gathered:
            self._take()
        if self._backlog:
            self._draw_backlog()
        self._reply()
        return self._emulator

    def _take(self) -> None:
        data = bytes(self._gathered)
        self._gathered.clear()
        self._keeper.write(data)
        self._total += len(data)
        for part in self._images.feed(data):
            self._put(part)

    def _put(self, part: Segment) -> None:
        """Take a segment without images, and draw the segment or add it to the backlog."""
        at, lines = part.at - len(self._carry), self._lines - self._carry.count(b"\n")
        self._lines += part.data.count(b"\n")
        data = self._carry + part.data
        held = unfinished(data)
        self._carry = data[len(data) - held :]
        asked = False
        for piece in pieces(settled(data[: len(data) - held]), at, lines, self._emulator):
            data = long_form(piece.data)
            if self._may_draw(piece.work, data):
                self._draw(piece)
                continue
            self._backlog.append(piece, self._emulator)
            shown = _SWITCH.findall(data)
            if shown:
                self._alternate = shown[-1] == b"h"
            asked = asked or _QUESTIONS.search(data) is not None
        if asked:
            self._draw_backlog()

    def _may_draw(self, work: int, data: bytes) -> bool:
        """Whether a piece may be drawn now; the work of the piece is then counted."""
        if not self._backlog and _MOVES.search(data) is None:
            return True
        now = self._clock()
        if now - self._second >= 1:
            self._second, self._drawn_since = now, len(self._backlog)
            self._draw_backlog()
        if self._backlog or self._drawn_since + work > DRAWN_PER_SECOND:
            return False
        self._drawn_since += work
        return True

    def _draw_backlog(self) -> None:
        drawn = self._backlog.skip(self._emulator)
        self._take_scrolled()
        if drawn is not None:
            self._final.gap(*drawn)
        for piece in self._backlog.take():
            self._draw(piece)
        self._alternate = None

    def _draw(self, piece: Piece) -> None:
        self._emulator.feed(piece.data, piece.at, piece.lines)
        self._take_scrolled()

    def _reply(self) -> None:
        replies = self._emulator.replies
        if replies:
            self._emulator.replies = []
            if self._answer is not None:
                self._answer(_first(replies, LONGEST_ANSWER))

    def _take_scrolled(self) -> None:
        rows = self._emulator.scrolled
        if rows:
            self._emulator.scrolled = []
            self._above += rows
            self._scrolled += len(rows)
            self._add(rows)

    def _add(self, rows: list[Row]) -> None:
        final, read = self._final, self._emulator.reader.read
        for row in rows:
            cells = row.cells
            final.add(cells if cells.isascii() else read(cells), row.end, row.ends, continues=row.continues)

    def _build(self) -> Output:
        self._answer = None  # the program that asked is gone
        if self._gathered:
            self._take()
        for part in self._images.flush():
            self._put(part)
        emulator = self._drawn()
        # An unfinished sequence at the end is drawn as text; then the rows of the main screen follow the final lines.
        if self._carry:
            data, self._carry = self._carry, b""
            lines = self._lines - data.count(b"\n")
            self._draw(Piece(data, self._total - len(data), lines, len(data)))
        used = self._used()
        self._add(emulator.main[:used])
        frame = emulator.picture() or emulator.frame if emulator.alternate else emulator.frame
        final = self._final
        final.finish(self._total, self._lines, ended=emulator.alternate or emulator.y >= used)
        whole = self._keeper.finish(
            self._total, self._lines, needed=final.incomplete or self._images.size > 0
        )
        text = final.text(
            lambda lines, size: marker(
                whole, lines, size, name_path=self._name_path, searched=final.searched
            ),
            self._lines,
        )
        head_range, tail_range = final.ranges(self._lines)
        return replace(
            whole,
            text=text,
            omitted_bytes=min(final.omitted_bytes + self._images.size, self._total),
            omitted_lines=final.omitted_lines,
            head_range=head_range,
            tail_range=tail_range,
            excerpts=final.excerpts,
            cut_lines=final.cut_lines,
            skipped_bytes=self._backlog.skipped,
            images=tuple(self._images.found),
            alternate=frame,
        )

    def _used(self) -> int:
        """Return the number of rows of the main screen down to the last row that is not blank."""
        rows = self._emulator.main
        return max((number for number, row in enumerate(rows, 1) if row.cells.strip(" ")), default=0)


def check_scrollback(rows: int) -> None:
    """Refuse an invalid number of rows for the scrollback.

    Raises:
        InvalidCommand: `rows` is not a whole number from 0 to 10,000.
    """
    check_count("scrollback", rows, least=0, most=LARGEST_SCROLLBACK)


def _first(pieces: list[bytes], limit: int) -> bytes:
    """Return the first whole pieces that fit into `limit` bytes."""
    found = bytearray()
    for piece in pieces:
        if len(found) + len(piece) > limit:
            break
        found += piece
    return bytes(found)
