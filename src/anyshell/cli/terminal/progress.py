"""The progress of a copy, as a bar that is redrawn on one line of a terminal.

rich draws the bar, and estimates the speed and the remaining time. rich's live display is not used, for two reasons. The
display hides the cursor, which would stay hidden after Ctrl-Z and SIGKILL. The display draws from a thread of its own, even in
the background.
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

from ..printing import elapsed, size
from ..process.descriptors import PATIENCE
from .drawing import STDERR, Drawn, columns, fit, has_colour, is_in_foreground, on_one_line, widest

if TYPE_CHECKING:
    from ..._types import CopyProgress
    from ..process.descriptors import DescriptorWriter

LONGEST_BAR = 40
"""Columns of the progress bar of `cp`, at most."""

SHORTEST_BAR = 8
"""Columns of the progress bar of `cp`, at least; with less room no bar is shown."""

SHORTEST_NAME = 12
"""Columns that the progress bar of `cp` leaves to the name of the file, at least."""

_GAP = "  "


class Progress:
    """A copy's progress on a terminal, drawn ten times a second at most. A failure to write is ignored.

    A terminal that takes nothing, as after Ctrl-S, does not delay the copy: nothing more is drawn meanwhile.

    Args:
        name: The name of the copied file.
        writer: The writer to stderr.
    """

    def __init__(self, name: str, writer: DescriptorWriter) -> None:
        from rich.progress import Progress as Estimate

        self._name = name
        self._name_columns = widest(on_one_line(name))
        self._estimate = Estimate(auto_refresh=False)  # never started: it only estimates
        self._task = self._estimate.add_task("", total=None)
        self._drawn: Drawn | None = None
        self._last: CopyProgress | None = None
        self._writer = writer
        self._writing: asyncio.Task[None] | None = None

    def __call__(self, progress: CopyProgress, /) -> None:
        """Draw the present progress of the copy."""
        self._last = progress
        self._estimate.update(self._task, completed=progress.bytes_done, total=progress.bytes_total)
        if self._writing is None or self._writing.done():
            self._write(self._drawing(progress))

    async def close(self) -> None:
        """Draw the final state, and go to the next line, if the terminal takes the output within `PATIENCE`."""
        if not await self._written():
            return
        last = b"" if self._last is None else self._drawing(self._last)
        self._last = None
        if self._drawn is not None:
            self._drawn = None
            self._write(last + b"\n")
            await self._written()

    def _drawing(self, progress: CopyProgress) -> bytes:
        """Return the bytes that replace the last bar by a new bar; empty in the background."""
        done, total = progress.bytes_done, progress.bytes_total
        if not is_in_foreground(STDERR):
            self._drawn = None
            return b""
        room = columns(STDERR) - 1
        told, bar = self._arranged(self._facts(progress), room)
        told = fit(told, max(1, room))
        left = room - widest(told) - len(_GAP) - (bar + len(_GAP) if bar else 0)
        name = fit(self._name, left) if left > 0 else ""
        line = Drawn.of(STDERR, _GAP.join(filter(None, (name, "-" * bar, told))))
        shown = _GAP.join((name, _bar(done, total, bar), told)) if bar else line.text
        erase = b"" if self._drawn is None else self._drawn.erasing()
        self._drawn = line
        return erase + shown.encode(sys.stderr.encoding or "utf-8", "replace") + b"\r"

    def _facts(self, progress: CopyProgress) -> dict[str, str]:
        """Return the facts beside the bar, in the order of display."""
        done, total = progress.bytes_done, progress.bytes_total
        percent = 100 if total == 0 else min(100, done * 100 // total)
        facts = {"percent": f"{percent:>3}%", "bytes": f"{size(done)} of {size(total)}"}
        if progress.files_total > 1:
            facts["files"] = f"{progress.files_done} of {progress.files_total} files"
        task = self._estimate.tasks[0]
        if task.speed is not None:
            facts["speed"] = f"{size(task.speed)}/s"
            if task.time_remaining:
                facts["left"] = f"{elapsed(task.time_remaining)} left"
        return facts

    def _arranged(self, facts: dict[str, str], room: int) -> tuple[str, int]:
        """Drop the least useful facts until a bar fits; return the text of the facts, and the bar's columns or 0."""
        for least in ("files", "speed", "left", ""):
            told = _GAP.join(facts.values())
            left = room - widest(told) - 2 * len(_GAP)
            bar = min(LONGEST_BAR, left - max(SHORTEST_NAME, min(self._name_columns, left // 2)))
            if bar >= SHORTEST_BAR:
                return told, bar
            facts.pop(least, None)
        return told, 0

    def _write(self, data: bytes) -> None:
        if data:
            self._writing = asyncio.get_running_loop().create_task(self._writer.write(data))

    async def _written(self) -> bool:
        """Wait until the terminal has taken the last drawing, `PATIENCE` at most; return whether that has happened."""
        if self._writing is None:
            return True
        done, _ = await asyncio.wait([self._writing], timeout=PATIENCE)
        return bool(done)


def _bar(done: int, total: int, width: int) -> str:
    from rich.color import ColorSystem
    from rich.console import Console
    from rich.progress_bar import ProgressBar

    colour = has_colour()
    # A Windows console, or an encoding other than UTF, may lack the characters of the bar: rich draws with ASCII then.
    simple = sys.platform == "win32" or not (sys.stderr.encoding or "").lower().startswith("utf")
    console = Console(
        width=width, color_system="standard" if colour else None, legacy_windows=simple, no_color=not colour
    )
    bar = ProgressBar(total=max(1, total), completed=done if total else 1, width=width, complete_style="cyan")
    drawn, used = "", 0
    for text, style, _ in console.render(bar):
        used += len(text)
        drawn += (
            style.render(text, color_system=ColorSystem.STANDARD) if colour and style is not None else text
        )
    return drawn + " " * (width - used)
