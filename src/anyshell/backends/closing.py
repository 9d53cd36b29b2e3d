"""Killing of the processes that a closed process has left running."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..abc import Process

KILL_PAUSE = 0.005
"""Seconds between a kill and the next search for survivors, when a process is closed."""


async def kill_until_gone(process: Process, seconds: float, *, pause: float = KILL_PAUSE) -> None:
    """Kill a process's tree until none of its processes is alive. One kill misses processes that are forked meanwhile.

    Processes that cannot be killed now stay alive, and `Process.survivors` names them. A kill fails on a process that is
    blocked in the kernel, that belongs to another user, or whose host is unreachable.

    Args:
        process: The process. The first search for survivors has a bound of its own and does not count towards `seconds`.
            So also the tree on a slow, distant host is killed.
        seconds: Bound of all kills and searches after the first search.
        pause: Seconds between a kill and the next search.
    """
    if not await process.survivors():
        return
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while True:
                await process.send_signal("kill")
                await asyncio.sleep(pause)
                if not await process.survivors():
                    return
