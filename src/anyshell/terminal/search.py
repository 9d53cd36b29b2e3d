"""The search for patterns in the output of a program on a terminal, and the wait for a match."""

from __future__ import annotations

import asyncio
import re
import time
from typing import TYPE_CHECKING

from ..output.text.search import WINDOW
from .secrets import TypedMasks
from .transcript import Transcript, first_match

if TYPE_CHECKING:
    from .controller import Controller

IDLE_SECONDS = 1.0
"""Seconds of silence after which a program counts as idle, even if the program does not wait for input."""

SETTLE_SECONDS = 0.05
"""Seconds of silence after which a match at the very end of the output counts: further output could extend the match."""

SEARCH_PAUSE = 0.01
"""Seconds between two searches of output, at least; a search that took longer is followed by as long a pause."""

LOOK_PAUSE = 0.05
"""Seconds between two searches of a screen, at least: each search has the screen drawn."""

_ALL = re.compile(r"[\s\S]*")


class TerminalSearch:
    """The search of a program's output since the last match: the text, or the rows of the screen."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._transcript = Transcript()

    def feed(self, data: bytes) -> None:
        """Take new output of the program."""
        self._transcript.feed(data)

    def text(self) -> str:
        """Return the output since the last match."""
        return self._transcript.text()

    def hidden(self, text: str) -> str:
        """Return a text of the caller with the typed secrets masked."""
        masks = TypedMasks(self._controller.masks)
        return (masks.feed(text.encode(errors="surrogateescape")) + masks.end()).decode(errors="replace")

    async def wait_match(
        self, patterns: tuple[re.Pattern[str], ...], seconds: float | None
    ) -> re.Match[str] | None:
        """Wait for the first match of any pattern. ``None`` without a match in time or before the program's end."""
        controller = self._controller
        give_up = None if seconds is None else time.monotonic() + seconds
        while True:
            ended = controller.ended
            began = time.monotonic()
            match, settled = self._look_for(patterns)
            took = time.monotonic() - began
            left = None if give_up is None else give_up - time.monotonic()
            late = left is not None and left <= 0
            if match is not None and (settled or ended or late):
                return self._take(match)
            if ended or late:
                return None
            if match is None:
                await controller.changed(left)
            elif not await controller.changed(SETTLE_SECONDS if left is None else min(left, SETTLE_SECONDS)):
                return self._take(match)
            await asyncio.sleep(max(LOOK_PAUSE if self._transcript.looks else SEARCH_PAUSE, took))

    def _look_for(self, patterns: tuple[re.Pattern[str], ...]) -> tuple[re.Match[str] | None, bool]:
        """Return the first match, and whether no further output can extend the match."""
        if self._transcript.alternate:
            return first_match(patterns, "\n".join(self._controller.output.screen.rows)), True
        match = self._transcript.search(patterns)
        if match is None and self._transcript.drawn:
            return first_match(patterns, "\n".join(self._controller.output.screen.rows)), True
        return match, match is not None and (match.end() < len(match.string) or len(match[0]) >= WINDOW)

    def _take(self, match: re.Match[str] | None) -> re.Match[str] | None:
        if match is not None:
            self._transcript.take(match)
        return match

    async def wait_idle(self, seconds: float | None) -> re.Match[str] | None:
        """Wait until the program waits for input or is silent. The match is all output since the last match."""
        controller = self._controller
        give_up = None if seconds is None else time.monotonic() + seconds
        watching = asyncio.ensure_future(controller.watch.wait(seconds))
        try:
            while not controller.ended:
                now = time.monotonic()
                quiet = max(controller.last_heard, controller.last_typed) + IDLE_SECONDS - now
                waits = watching.done() and watching.result() is not None
                if waits or quiet <= 0:
                    return self._take(_ALL.match(self._transcript.text()))
                if give_up is not None and now >= give_up:
                    return None
                pause = quiet if give_up is None else min(quiet, give_up - now)
                if watching.done():
                    await controller.changed(pause)
                else:
                    await asyncio.wait([watching], timeout=pause)
        finally:
            watching.cancel()
        return None
