"""A terminal's output in bounded memory: what a person would have seen, scrollback included, all of it counted."""

from __future__ import annotations

import re
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .._types import Artifact, Output, Screen, Terminal, TerminalLines
from .backlog import Backlog, Piece, long_form
from .bounded import cut_note
from .builder import COALESCE, Keeper, Store, marker
from .decode import unfinished
from .emulator import Emulator

if TYPE_CHECKING:
    from collections.abc import Callable

    from .emulator import Modes
    from .rows import Row

DRAWN_PER_SECOND = 1024 * 1024
"""Bytes with moves of the cursor that are drawn in a second. What is beyond waits, and is drawn when it is looked at."""

LONGEST_ANSWER = 16 * 1024
"""Bytes of answers to what one piece of output asks; further questions get none."""

# All but colours and what erases on a line, which is drawn as fast as it comes.
_MOVES = re.compile(rb"\x1b(?!\[[0-9;:]{0,64}[mK])")
_QUESTIONS = re.compile(
    rb"\x1b(?:\[(?:[0-?]{0,64}+(?:[cntx]|\$p)|>[0-9]{0,4}q|\?[0-9]{1,4}m)|[PZ]|\](?:4|10|11|12);)"
)
_ALTERNATE = re.compile(rb"\x1b\[\?(?:[0-9;]{0,60};)?(?:47|1047|1049)(?:;[0-9;]{0,60})?([hl])")


class TerminalOutput:
    """Takes what a terminal's program prints and makes one `Output` of it; until then it is the terminal's screen.

    Rows that leave the main screen at its top are final: they become lines of the text, a line that was wrapped as
    one. At the end come the rows of the main screen.

    Output that moves the cursor is drawn up to `DRAWN_PER_SECOND`. Beyond that it waits until somebody looks, the program
    asks something, or a second is over; if more waits than `backlog.HELD`, its start is skipped and counted. Looking is
    what costs then, so nobody should look more often than a person could.

    Args:
        terminal: Its size.
        head: Bytes of text kept from the start; 0 or more.
        tail: Bytes of text kept from the end; 0 or more.
        max_line: Characters of a line that are kept; at least 1. The note that says so is not counted.
        artifacts: Keeps the raw whole, if anything is left out.
        name_path: Whether the marker says in which file the whole is.
        answer: Is given the answers to what the program asks the terminal, while the question is fed: they are to be
            typed. ``None`` answers nothing.
        clock: Seconds that have passed, from any moment on.
    """

    def __init__(
        self,
        terminal: Terminal,
        *,
        head: int = 20 * 1024,
        tail: int = 30 * 1024,
        max_line: int = 2_000,
        artifacts: Store | None = None,
        name_path: bool = True,
        answer: Callable[[bytes], object] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._emulator = Emulator(terminal)
        self._transcript = Transcript(head, tail, max_line)
        self._keeper = None if artifacts is None else Keeper(artifacts, head + tail)
        self._name_path = name_path
        self._answer = answer
        self._clock = clock
        self._backlog = Backlog()
        self._alternate: bool | None = None  # what the backlog says of the alternate screen
        self._second = 0.0  # when the second began
        self._drawn_since = 0  # bytes since then
        self._gathered = bytearray()
        self._carry = b""
        self._total = 0
        self._lines = 0
        self._output: Output | None = None

    def feed(self, data: bytes) -> None:
        """Take the next bytes. Never raises, whatever they are, unless `answer` does."""
        self._gathered += data
        if len(self._gathered) >= COALESCE or b"\x1b" in data or b"\xc2" in data or self._carry:
            self._take()

    @property
    def screen(self) -> Screen:
        """What stands on the terminal now."""
        emulator = self._drawn()
        return Screen(
            rows=tuple([emulator.text(row) for row in emulator.rows]),
            cursor=(emulator.y, emulator.column),
            title=emulator.title,
            alternate=emulator.alternate,
        )

    @property
    def alternate(self) -> bool:
        """Whether the alternate screen is shown now. Nothing is drawn to tell."""
        if self._gathered:
            self._take()
        return self._emulator.alternate if self._alternate is None else self._alternate

    @property
    def modes(self) -> Modes:
        """What keys the program wants."""
        return self._drawn().modes

    def prompt(self) -> str:
        """The text of the line that the cursor is in, up to the cursor."""
        emulator = self._drawn()
        rows, y = emulator.rows, emulator.y
        first = y
        while first and rows[first].continues:
            first -= 1
        cells = "".join([row.cells for row in rows[first:y]])
        return emulator.reader.read(cells + rows[y].cells[: emulator.x])

    def lines(self, since: int = 0) -> TerminalLines:
        """The lines of its main screen and those that have left it, from a number on, as far as they are kept."""
        emulator, transcript = self._drawn(), self._transcript
        first, texts = transcript.since(since)
        # What stands on the screen was added to the others when the output was made.
        rows = [] if self._output is not None else emulator.main[: self._used()]
        changing = [] if transcript.begun is None else [transcript.begun]
        for row in rows:
            text = emulator.reader.read(row.cells)
            if row.continues and changing:
                changing[-1] += text
            else:
                changing.append(text)
        skipped = max(0, since - transcript.count)
        return TerminalLines(
            first=first + skipped,
            texts=(*texts, *(text.rstrip(" ") for text in changing[skipped:])),
            final=transcript.count,
        )

    def resize(self, terminal: Terminal) -> None:
        """Have another size, from what is fed next on."""
        self._drawn().resize(terminal)
        self._take_scrolled()

    def finish(self) -> Output:
        """The output so far. Nothing may be fed after that; asked again, it gives the same."""
        if self._output is None:
            self._output = self._build()
        return self._output

    def close(self) -> None:
        """Leave no file behind, unless `finish` has handed it out."""
        if self._output is None and self._keeper is not None:
            self._keeper.discard()
            self._keeper = None

    def _drawn(self) -> Emulator:
        if self._gathered:
            self._take()
        if self._backlog:
            self._draw_backlog()
        return self._emulator

    def _take(self) -> None:
        data = bytes(self._gathered)
        self._gathered.clear()
        if self._keeper is not None:
            self._keeper.write(data)
        at, lines = self._total - len(self._carry), self._lines
        self._total += len(data)
        self._lines += data.count(b"\n")
        data = self._carry + data
        held = unfinished(data)
        self._carry = data[len(data) - held :]
        piece = Piece(data[: len(data) - held], at, lines)
        if self._may_draw(piece.data):
            self._draw(piece)
            return
        self._backlog.append(piece, self._emulator)
        self._take_scrolled()
        data = long_form(piece.data)
        shown = _ALTERNATE.findall(data)
        if shown:
            self._alternate = shown[-1] == b"h"
        if _QUESTIONS.search(data) is not None:
            self._draw_backlog()

    def _may_draw(self, data: bytes) -> bool:
        """Whether it is drawn now, which is counted."""
        if not self._backlog and _MOVES.search(long_form(data)) is None:
            return True
        now = self._clock()
        if now - self._second >= 1:
            self._second, self._drawn_since = now, len(self._backlog)
            self._draw_backlog()
        if self._backlog or self._drawn_since + len(data) > DRAWN_PER_SECOND:
            return False
        self._drawn_since += len(data)
        return True

    def _draw_backlog(self) -> None:
        self._backlog.draw(self._emulator)
        self._alternate = None
        self._take_scrolled()
        self._reply()

    def _draw(self, piece: Piece) -> None:
        self._emulator.feed(piece.data, piece.at, piece.lines)
        self._take_scrolled()
        self._reply()

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
            self._add(rows)

    def _add(self, rows: list[Row]) -> None:
        transcript, read = self._transcript, self._emulator.reader.read
        for row in rows:
            transcript.add(read(row.cells), row.end, row.ends, continues=row.continues)

    def _build(self) -> Output:
        self._answer = None  # nobody is there any more to be answered
        emulator = self._drawn()
        if self._carry:
            data, self._carry = self._carry, b""
            self._draw(Piece(data, self._total - len(data), self._lines))
        used = self._used()
        self._add(emulator.main[:used])
        frame = emulator.picture() or emulator.frame if emulator.alternate else emulator.frame
        transcript = self._transcript
        transcript.finish(self._total, self._lines, ended=emulator.alternate or emulator.y >= used)
        artifact, error = self._keep(transcript.incomplete or self._backlog.skipped > 0)
        text = transcript.text(
            lambda lines, size: marker(
                lines, size, self._lines, self._total, artifact, error, name_path=self._name_path
            )
        )
        return Output(
            text=text,
            total_bytes=self._total,
            omitted_bytes=min(transcript.omitted_bytes, self._total),
            total_lines=self._lines,
            omitted_lines=transcript.omitted_lines,
            cut_lines=transcript.cut_lines,
            artifact=artifact,
            artifact_error=error,
            skipped_bytes=self._backlog.skipped,
            alternate=frame,
        )

    def _used(self) -> int:
        """Rows of the main screen down to the last that is not blank."""
        rows = self._emulator.main
        return max((number for number, row in enumerate(rows, 1) if row.cells.strip(" ")), default=0)

    def _keep(self, needed: bool) -> tuple[Artifact | None, str | None]:
        if self._keeper is None:
            return None, None
        if not needed:
            self._keeper.discard()
            return None, None
        return self._keeper.finish()


@dataclass(slots=True)
class _Final:
    """A line that will not change any more.

    Attributes:
        text: What is shown of it, with the note that it was cut if it was.
        size: Bytes of that, without the note, and with a line feed.
        cut: Bytes that it leaves out.
        end: Raw bytes of the output up to its end, and never less than those of the line before.
        ends: The same in line feeds.
    """

    text: str
    size: int
    cut: int
    end: int
    ends: int


class Transcript:
    """Lines that are final, in the order of their coming: those from the start and those from the end that fit.

    Args:
        head: Bytes of text from the start.
        tail: Bytes of text from the end. What the head has not used, the end may have.
        max_line: Characters of a line that are kept.

    Attributes:
        count: Lines that are final, those that were let go among them.
        omitted_lines: Line feeds of the output that belong to no line that is shown.
    """

    def __init__(self, head: int, tail: int, max_line: int) -> None:
        self.count = 0
        self._room = head
        self._tail = tail
        self._max_line = max_line
        self._head: list[_Final] = []
        self._rest: deque[_Final] = deque()
        self._rest_size = 0
        self._full = False  # whether the head takes no more
        self._dropped: _Final | None = None  # the last line that was let go
        self._line: str | None = None  # the line that may go on
        self._cut = 0
        self._end = 0
        self._ends = 0
        self._ended = True
        self._lost = 0  # bytes of the start of a last line that is larger than the tail

    def add(self, text: str, end: int, ends: int, *, continues: bool) -> None:
        """Add a row."""
        if continues and self._line is not None:
            text = self._line + text
        elif self._line is not None:
            self._push()
        if len(text) > self._max_line:
            self._cut += len(text[self._max_line :].encode("utf-8", "replace"))
            text = text[: self._max_line]
        self._line = text
        self._end, self._ends = max(self._end, end), max(self._ends, ends)

    def finish(self, total: int, lines: int, *, ended: bool) -> None:
        """Nothing more comes."""
        if self._line is not None:
            self._end, self._ends = max(self._end, total), max(self._ends, lines)
            self._push()
        self._ended = ended

    @property
    def begun(self) -> str | None:
        """The last row that was added, and those before it that it continues: it may go on."""
        return self._line

    def since(self, number: int) -> tuple[int, list[str]]:
        """The number of the first final line that is kept from a number on, and the text of it and of all after it."""
        lines = [*self._rest] if self._dropped is not None else [*self._head, *self._rest]
        first = min(max(number, self.count - len(lines)), self.count)
        return first, [line.text for line in lines[len(lines) - (self.count - first) :]]

    @property
    def incomplete(self) -> bool:
        """Whether anything is left out."""
        return self._dropped is not None or self.cut_lines > 0

    @property
    def cut_lines(self) -> int:
        """Lines that end with a note."""
        return sum(line.cut > 0 for line in (*self._head, *self._rest))

    @property
    def omitted_lines(self) -> int:
        """Line feeds of what is left out between the head and the tail."""
        return 0 if self._dropped is None else self._dropped.ends - (self._head[-1].ends if self._head else 0)

    @property
    def omitted_bytes(self) -> int:
        """Bytes left out: raw ones between the head and the tail, and those that were cut off lines."""
        return self._between + sum(line.cut for line in (*self._head, *self._rest))

    @property
    def _between(self) -> int:
        if self._dropped is None:
            return 0
        return max(self._dropped.end - (self._head[-1].end if self._head else 0), 1)

    def text(self, note: Callable[[int, int], str]) -> str:
        """All that is shown, and, if anything is left out between, the note that is made of lines and bytes."""
        lines = [line.text for line in self._head]
        if self._dropped is not None:
            lines.append(note(self.omitted_lines, self._between))
        lines += [line.text for line in self._rest]
        text = "\n".join(lines)
        return text + "\n" if lines and self._ended else text

    def _push(self) -> None:
        assert self._line is not None
        text = self._line if self._cut else self._line.rstrip(" ")
        size = len(text.encode("utf-8", "replace")) + 1
        line = _Final(
            text + cut_note(self._cut) if self._cut else text, size, self._cut, self._end, self._ends
        )
        self._line, self._cut = None, 0
        self.count += 1
        if not self._full and size <= self._room:
            self._head.append(line)
            self._room -= size
            return
        if not self._full:
            self._full = True
            self._tail += self._room
        self._rest.append(line)
        self._rest_size += size
        while self._rest_size > self._tail:
            self._dropped = self._rest.popleft()
            self._rest_size -= self._dropped.size


def _first(pieces: list[bytes], limit: int) -> bytes:
    """As many whole pieces from the start as there is room for."""
    found = bytearray()
    for piece in pieces:
        if len(found) + len(piece) > limit:
            break
        found += piece
    return bytes(found)
