"""The end of the processes that a closed process has left running."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..abc import Process

KILL_PAUSE = 0.005
"""Seconds between a kill and the next look at the living processes, when a process is closed."""


async def kill_until_gone(process: Process, seconds: float, *, pause: float = KILL_PAUSE) -> None:
    """Kill a process's tree until nothing of it is alive: one kill misses what forks meanwhile.

    What cannot be killed now (it is in the kernel, or another user's, or the host is away) is left: `Process.survivors` names
    it.

    Args:
        process: Is asked for its survivors first, within a bound of its own: a host that is far away is killed all the same.
        seconds: Bound of all kills and looks after that.
        pause: Seconds between a kill and the next look.
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
