"""The roster of a fleet on a terminal: a line for each host and a bar, redrawn a few times a second.

rich lays out the text; this module moves the cursor. `rich.live` is not used, for two reasons. First, `rich.live` writes in
the caller, or in a thread that is waited for. A terminal that takes nothing (Ctrl-S) would block every host. Second,
`rich.live` counts the rows of a frame by the width at the time, but a narrower terminal wraps a frame into more rows. This
module changes no mode of the terminal, not even the cursor's visibility. So nothing has to be reset, whatever ends anyshell.
"""

from __future__ import annotations

import asyncio
import math
import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ...printing import printable
from ...terminal.drawing import is_in_foreground

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from ....types import FleetRun, HostProgress
    from ...process.descriptors import DescriptorWriter
    from .folding import HostGroup

REDRAW_SECONDS = 0.2
"""Seconds between two frames of a fleet's roster on a terminal."""

NAME_SHARE = 0.3
"""Share of a terminal's columns that the name of a host may take; a longer name ends with an ellipsis."""

ECHO_COLUMNS = 8
"""Columns after the bar that stay free for the terminal's echo, such as ^C; half of the columns at most."""

_LINE = 1000
"""Characters of a host's last line that a frame uses: no terminal is wider."""

_STOP = getattr(signal, "SIGTSTP", signal.SIGINT)
"""The signal of Ctrl-Z. Windows has none, and no handler is set there."""

_BUSY = ("running", "connecting", "closing")
_URGENCY = ("running", "closing", "connecting", "failed", "done", "waiting", "not_started")
_STYLES = {
    "running": "cyan",
    "connecting": "yellow",
    "closing": "cyan",
    "failed": "bold red",
    "done": "green",
    "not_started": "yellow",
    "waiting": "dim",
}


class Roster:
    """The drawing of the hosts' progress on a terminal.

    Args:
        run: The run that the hosts belong to.
        writer: The writer to the terminal.
        fd: The terminal's descriptor.
    """

    def __init__(self, run: FleetRun, writer: DescriptorWriter, fd: int) -> None:
        self._run = run
        self._writer = writer
        self._fd = fd
        self._console = Console(force_terminal=True, highlight=False, markup=False, emoji=False)
        self._drawn = (0, 0, 0)
        """The number of rows of the last frame, the columns of a row, and the columns of the last row, which has the cursor."""
        self._listens = False
        self._writing: asyncio.Future[None] | None = None
        self._drawing: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to draw."""
        self._drawing = asyncio.get_running_loop().create_task(self._draw())
        self._listen()

    async def stop(self) -> None:
        """Stop drawing, and erase the last frame."""
        if self._listens:
            self._listens = False
            asyncio.get_running_loop().remove_signal_handler(_STOP)
        if self._drawing is not None:
            self._drawing.cancel()
            await asyncio.wait([self._drawing])
        if self._writing is not None:
            await asyncio.wait([self._writing])
        if self._drawn[0]:
            await self._writer.write(self._erasing(self._columns()))
            self._forget()

    async def _draw(self) -> None:
        while True:
            await asyncio.sleep(REDRAW_SECONDS)
            # A terminal that takes nothing now gets the latest state as soon as it takes output again.
            if (self._writing is None or self._writing.done()) and is_in_foreground(self._fd):
                frame = self.frame(self._columns(), self._rows())
                self._writing = asyncio.ensure_future(self._writer.write(frame))

    def frame(self, columns: int, rows: int) -> bytes:
        """Return the bytes that draw the next frame over the last frame, on a terminal with `columns` and `rows`."""
        before = self._to_the_top(columns)
        width = max(columns - 1, 1)  # in the last column many terminals begin a new line
        # The terminal echoes typed text at the cursor. If the echo wrapped into the next row, the rows of the frame would
        # be counted from there, and the first row would not be erased.
        bar = max(width - ECHO_COLUMNS, (width + 1) // 2)
        with self._console.capture() as drawn:
            self._console.print(self._table(width, rows), width=width, no_wrap=True)
            self._console.print(self._bar(bar), width=bar, no_wrap=True, end="")
        lines = drawn.get().rstrip("\n").split("\n")[-max(rows - 1, 1) :]
        self._drawn = (len(lines), width, bar)
        return (before + "\x1b[K\n".join(lines) + "\x1b[K\x1b[J").encode("utf-8", "backslashreplace")

    def _erasing(self, columns: int) -> bytes:
        """Return the bytes that erase the last frame row by row: tmux would keep a screen that is erased at once."""
        top = self._to_the_top(columns)
        return (top + "\n".join(["\x1b[K"] * (self._rows_above(columns) + 1)) + top).encode()

    def _rows_above(self, columns: int) -> int:
        """Return the number of rows above the cursor in the last frame. A terminal that became narrower has wrapped rows."""
        count, *widths = self._drawn
        above, last = (max(1, math.ceil(width / max(columns, 1))) for width in widths)
        return (count - 1) * above + last - 1 if count else 0

    def _to_the_top(self, columns: int) -> str:
        """Return the sequence that moves the cursor from the end of the last frame to the frame's beginning."""
        up = self._rows_above(columns)
        return "\r" + (f"\x1b[{up}A" if up else "")

    def _listen(self) -> None:
        if hasattr(signal, "SIGTSTP") and signal.getsignal(_STOP) is not signal.SIG_IGN:
            with suppress(RuntimeError, ValueError):  # raised outside of the main thread
                asyncio.get_running_loop().add_signal_handler(_STOP, self._pause)
                self._listens = True

    def _pause(self) -> None:
        """Stop, as Ctrl-Z stops any program. Forget the frame first, so that the shell's output is not overwritten."""
        self._forget()
        asyncio.get_running_loop().remove_signal_handler(_STOP)
        os.kill(os.getpid(), _STOP)  # returns when this program goes on
        self._listen()

    def _forget(self) -> None:
        self._drawn = (0, 0, 0)

    def _table(self, width: int, rows: int) -> RenderableType:
        hosts, rest = chosen(self._run.hosts, max(rows - 3, 1))
        table = Table.grid(padding=(0, 1), expand=True)
        table.add_column(no_wrap=True, overflow="ellipsis", max_width=max(8, int(width * NAME_SHARE)))
        table.add_column(no_wrap=True)
        table.add_column(no_wrap=True, justify="right")
        table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
        for host in hosts:
            state = host.state
            elapsed = "" if state in ("waiting", "not_started") else f"{host.elapsed:.1f} s"
            table.add_row(
                Text(printable(host.host)),
                Text(state.replace("_", " "), style=_STYLES[state]),
                Text(elapsed),
                Text(printable(host.last_line[:_LINE]), style="dim"),
            )
        if rest:
            counts = (f"{count} {state.replace('_', ' ')}" for state, count in rest.items())
            table.add_row(Text(f"… {sum(rest.values())} more"), Text(""), Text(""), Text(", ".join(counts)))
        return table

    def _bar(self, width: int) -> RenderableType:
        hosts = self._run.hosts
        ended = sum(host.state not in (*_BUSY, "waiting") for host in hosts)
        failed = sum(host.state == "failed" for host in hosts)
        said = f" {ended}/{len(hosts)}" + (f", {failed} failed" if failed else "")
        bar = Table.grid(expand=True)
        bar.add_column(ratio=1)
        bar.add_column(no_wrap=True, overflow="ellipsis", max_width=max(width - 4, 1))
        style = "red" if failed else "green"
        bar.add_row(ProgressBar(total=len(hosts), completed=ended, complete_style=style), Text(said))
        return bar

    def _columns(self) -> int:
        return self._size().columns or 80

    def _rows(self) -> int:
        return self._size().lines or 24

    def _size(self) -> os.terminal_size:
        with suppress(OSError):
            return os.get_terminal_size(self._fd)
        return os.terminal_size((80, 24))


def chosen(hosts: Sequence[HostProgress], room: int) -> tuple[Sequence[HostProgress], dict[str, int]]:
    """Return the hosts that there is room for, in the order of `hosts`, and the number of other hosts in each state.

    The order of preference is: running, closing, connecting, failed, done, waiting, not started.
    """
    if len(hosts) <= room:
        return hosts, {}
    ranked = sorted(range(len(hosts)), key=lambda index: (_URGENCY.index(hosts[index].state), index))
    shown = set(ranked[: room - 1])
    rest: dict[str, int] = {}
    for index in ranked[room - 1 :]:
        rest[hosts[index].state] = rest.get(hosts[index].state, 0) + 1
    return [host for index, host in enumerate(hosts) if index in shown], rest


def paint(groups: Sequence[HostGroup], total: str) -> bytes:
    """Return the output of each group of hosts, below the names of the hosts, for a terminal."""
    from ....policy import printable as harmless

    console = Console(force_terminal=True, highlight=False, markup=False, emoji=False, soft_wrap=True)
    with console.capture() as drawn:
        for group in groups:
            console.print(Text(group.head, style="bold green" if group.ok else "bold red"))
            if group.text:
                console.out(harmless(group.text).removesuffix("\n"), highlight=False)
        console.print(Text(total, style="bold"))
    return drawn.get().encode("utf-8", "backslashreplace")
