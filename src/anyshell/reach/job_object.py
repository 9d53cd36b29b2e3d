"""Limits by a Job Object of Windows, which every command is in: processes, memory and processor time, and no more."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from .._exceptions import ReachUnavailable

if TYPE_CHECKING:
    from .._types import Spawn
    from .values import Reach

_MOST_PROCESSES = 2**32 - 1  # no bound


@dataclass(frozen=True, slots=True)
class JobLimits:
    """Runs commands with limits, by their Job Object.

    Raises:
        ReachUnavailable: Names what of the reach is more than that.
    """

    reach: Reach

    def __post_init__(self) -> None:
        more = [
            name
            for name, asked in (
                ("write", "/" not in self.reach.write),
                ("hide", self.reach.hide),
                ("protect", self.reach.protect),
                ("network", self.reach.network is not True),
                ("limits: file_size", self.reach.limits.file_size is not None),
            )
            if asked
        ]
        if more:
            raise ReachUnavailable(
                f"{', '.join(more)}: a Job Object of Windows limits memory, processes and processor time alone",
                "ask for Reach(write=['/'], hide=[], protect=[], network=True, limits=...), or use a Linux host",
            )

    def narrowed(self, reach: Reach) -> JobLimits:
        """The sandbox with lower limits. Raises what a new one raises, and `InvalidCommand` where they are not lower."""
        return replace(self, reach=reach.within(self.reach))

    def wrap(self, spawn: Spawn) -> Spawn:
        """Have the backend set the limits."""
        limits = self.reach.limits
        processes = limits.processes and min(limits.processes, _MOST_PROCESSES)
        return replace(spawn, job_limits=(limits.memory, processes, limits.cpu))
