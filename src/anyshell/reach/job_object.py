"""The sandbox for Windows: the Job Object of every command limits processes, memory and processor time, nothing else."""

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
    """The sandbox that limits commands by their Job Object.

    Raises:
        ReachUnavailable: The reach asks for more than limits; the message names the fields.
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
        """Return a sandbox with lower limits. Raises as the constructor, and `InvalidCommand` if the reach is not narrower."""
        return replace(self, reach=reach.within(self.reach))

    def wrap(self, spawn: Spawn) -> Spawn:
        """Return the program with limits that the backend sets."""
        limits = self.reach.limits
        processes = limits.processes and min(limits.processes, _MOST_PROCESSES)
        return replace(spawn, job_limits=(limits.memory, processes, limits.cpu))
