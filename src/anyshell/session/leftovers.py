"""The processes that an ended shell has left in its process group, and their stop."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Sequence

    from .._types import ProcessInfo
    from ..abc import Program
    from .process import SessionProcess

SWEEP_AGAIN = 0.05
"""Seconds between two looks for the processes that a shell which has ended has left in its process group."""

SWEEPS = 10
"""Looks of that kind: at the first two these processes are asked to end, then killed; survivors of the last are named."""


async def sweep(
    process: Program, shell: int, commands: Collection[SessionProcess], *, holder: str | None = None
) -> AsyncIterator[Sequence[ProcessInfo]]:
    """Stop what is still in the group of a shell, which has ended, and of no command that may go on; name it look by look.

    A trap that ran between two commands has started it, or it could not be stopped with its command.

    Args:
        process: The shell, or what has run it.
        shell: Its pid.
        commands: The commands that may go on.
        holder: The name of what lives as long as anything in a sandbox.
    """
    with contextlib.suppress(OSError):
        for turn in range(SWEEPS):
            left = await process.group()
            if left:
                kept = {
                    (each.pid, each.started)
                    for command in tuple(commands)
                    for each in await command.members()
                }
                if any(pid == shell for pid, _ in kept):  # the host does not answer
                    return
                own = (each for each in left if (each.pid, each.started) not in kept)
                left = [each for each in own if not (kept and each.name == holder)]
            yield left
            if not left:
                return
            await process.signal_some("terminate" if turn < 2 else "kill", left)
            await asyncio.sleep(SWEEP_AGAIN)
