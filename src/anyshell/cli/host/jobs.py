"""Access to the jobs of a host, for a command that inspects or starts jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ... import Environment
    from ..._environment import Detection
    from ...types import DetachedJobs
    from ..process.signals import Interruption


def with_jobs(
    detect: Callable[[], Detection[Environment]],
    work: Callable[[DetachedJobs, Environment], Awaitable[None]],
    *,
    quiet: bool = False,
) -> None:
    """Detect a host, and call `work` with the host's jobs and environment."""
    from ..printing import mention, printable
    from ..process import signals

    async def perform(_: Interruption) -> int:
        from ...types import DetachedJobs

        async with detect() as env:
            if not quiet:
                mention(*map(printable, (*env.info.notices, *env.snapshot_notices)))
            await work(DetachedJobs(env), env)
        return 0

    code = signals.run(perform)
    if code:  # a signal came
        click.get_current_context().exit(code)
