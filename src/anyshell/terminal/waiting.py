"""Whether a program waits for input on its terminal.

The rule, in full:

- *Certain*: a process of the terminal's foreground process group is blocked in a read of the terminal, as `Foreground` tells.
- *Likely*: a process of that group sleeps in poll, select or the like with the terminal open. Or echo is off in line mode,
  as for a password. Or the host cannot tell in which system call the processes sleep. In all three cases, the group has used
  no processor time and printed nothing for `SILENCE`. The time is `UNPROMPTED` if the host cannot tell and nothing stands
  before the cursor.
- Both need quiet: no output and no input for `QUIET` before the question to the host, and for `ARRIVAL` after the answer.
  Typed input, and the prompt, have to arrive first.
- A program that seemed to wait and then printed by itself is restless, as a program that draws a clock or waits for a network.
  Until the next input, a restless program has to be silent for `RESTLESS` to seem to wait again. A program that draws less
  often, such as ``top``, does wait for a key between two pictures, and is said to wait.

A program that sleeps or computes does not wait. Nor does a background process: the kernel would stop it at a read.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Literal, Protocol

from .._types import Waiting

if TYPE_CHECKING:
    from .._types import Foreground

QUIET = 0.1
"""Seconds of silence after which a host is asked which processes have the terminal."""

SILENCE = 0.3
"""Seconds of silence, without processor time, after which a program that polls likely waits."""

ARRIVAL = 0.05
"""Seconds of silence after which the host's answer counts: earlier output, which comes another way, has arrived then."""

RESTLESS = 0.8
"""Seconds of silence, without processor time, for a program that has printed by itself while it seemed to wait."""

UNPROMPTED = 2.0
"""Seconds of silence where the host cannot tell in which call a program sleeps (macOS, Windows), and nothing stands
before the cursor: a program that is slow to begin is silent too."""

PAUSES = (0.1, 0.2, 0.3, 0.4)
"""Seconds between two questions to a host; the last number repeats."""

LOOK_SECONDS = 1.0
"""Seconds of one check whether a program waits, at most, while the program prints all the time."""


class Watched(Protocol):
    """The part of a terminal that a watch needs; `Controller` has it."""

    last_heard: float
    last_typed: float
    ended: bool

    async def changed(self, seconds: float | None = None) -> bool:
        """Wait for output or for the end."""

    async def foreground(self) -> Foreground | None:
        """Return the processes that have the terminal."""

    def prompt(self) -> str:
        """Return the text before the cursor."""


class InputWatch:
    """The watch that tells whether the program on a terminal waits for input.

    Args:
        terminal: The watched terminal.
        tells: Whether the host can tell in which system call a process sleeps.
    """

    def __init__(self, terminal: Watched, *, tells: bool) -> None:
        self._terminal = terminal
        self._tells = tells
        self._seemed: float | None = None  # when the program seemed to wait; None for not so far
        self._restless = False

    async def look(self) -> Waiting | None:
        """Return the input that the program waits for now. Takes about half a second where the answer is not certain."""
        return await self._wait(LOOK_SECONDS, only_now=True)

    async def wait(self, seconds: float | None) -> Waiting | None:
        """Wait until the program waits for input. ``None`` if the time is over or the program has ended."""
        return await self._wait(seconds, only_now=False)

    async def _wait(self, seconds: float | None, *, only_now: bool) -> Waiting | None:
        terminal = self._terminal
        give_up = None if seconds is None else time.monotonic() + seconds
        before: tuple[float, Foreground] | None = None
        missing = 0.0
        questions = 0
        while not terminal.ended:
            now = time.monotonic()
            self._notice()
            moved = max(terminal.last_heard, terminal.last_typed)
            pause = QUIET - (now - moved)
            # After QUIET without output or input, ask for the foreground. A program asleep in a read of its terminal certainly
            # waits. A program that may wait likely does, when the same processes have used no processor time for long enough.
            # Any output or input begins the count anew.
            if pause <= 0:
                foreground = await terminal.foreground()
                await terminal.changed(ARRIVAL)
                if max(terminal.last_heard, terminal.last_typed) != moved:
                    before, questions = None, 0
                elif foreground is not None and foreground.asleep_in == "read":
                    return self._found("certain", foreground)
                elif foreground is not None and self._may_wait(foreground):
                    if (
                        before is None
                        or before[1].cpu != foreground.cpu
                        or before[1].processes != foreground.processes
                    ):
                        before = now, foreground
                    missing = self._silence(foreground) - (now - before[0])
                    if missing <= 0:
                        self._seemed = time.monotonic()
                        return self._found("likely", foreground)
                elif only_now:
                    return None
                else:
                    before = None
                pause = PAUSES[min(questions, len(PAUSES) - 1)]
                if before is not None:
                    pause = min(pause, missing)
                questions += 1
            else:
                before, questions = None, 0
            left = None if give_up is None else give_up - time.monotonic()
            if left is not None and left <= 0:
                return None
            await terminal.changed(pause if left is None else min(pause, left))
        return None

    def _notice(self) -> None:
        """Record the output or input since the program seemed to wait."""
        terminal = self._terminal
        if self._seemed is None:
            return
        if terminal.last_typed > self._seemed:
            self._seemed, self._restless = None, False
        elif terminal.last_heard > self._seemed:
            self._seemed, self._restless = terminal.last_heard, True

    def _silence(self, foreground: Foreground) -> float:
        if not (self._tells or foreground.asleep_in or self._terminal.prompt().strip()):
            return UNPROMPTED
        return RESTLESS if self._restless else SILENCE

    def _may_wait(self, foreground: Foreground) -> bool:
        asks_for_a_password = foreground.echo is False and foreground.line_mode is True
        return foreground.asleep_in == "poll" or asks_for_a_password or not self._tells

    def _found(self, certainty: Literal["certain", "likely"], foreground: Foreground) -> Waiting:
        return Waiting(
            certainty=certainty,
            prompt=self._terminal.prompt(),
            echo=foreground.echo,
            line_mode=foreground.line_mode,
            processes=foreground.processes,
        )
