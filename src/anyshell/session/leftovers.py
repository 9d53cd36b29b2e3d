"""The stop of the processes that an ended shell has left in its process group."""

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
"""Seconds between two looks for the processes that an ended shell has left in its process group."""

SWEEPS = 10
"""Looks for these processes: after the first two the processes are asked to end, then killed; those of the last are reported."""


async def sweep(
    process: Program, shell: int, commands: Collection[SessionProcess], *, holder: str | None = None
) -> AsyncIterator[Sequence[ProcessInfo]]:
    """Stop the processes that an ended shell has left in its process group; yield the remaining processes at each look.

    Processes of commands that may go on are spared. The other processes were started by a trap between two commands, or
    could not be stopped with their command.

    Args:
        process: The shell, or the program that has run the shell.
        shell: The pid of the shell.
        commands: The commands that may go on.
        holder: The name of the process that lives as long as any process in a sandbox.
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
