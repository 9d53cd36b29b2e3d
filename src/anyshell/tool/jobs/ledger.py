"""The jobs of a tool's calls, and the model's knowledge of them."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..._exceptions import JobNotFound

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...jobs import Job, Jobs

NEWS = 10
"""Jobs whose end one result tells; others wait for the next."""


@dataclass(slots=True)
class LedgerEntry:
    """A job, and what a model knows of it.

    Attributes:
        job: The job.
        directory: The directory in which its command began.
        description: The model's own words for its command; empty when it has given none.
        seen: Bytes of its output that a model was shown, or was told of.
        told: Whether a model was told that it has ended.
    """

    job: Job
    directory: str
    description: str = ""
    seen: int = 0
    told: bool = False

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self.job.status != "running"

    @property
    def unseen(self) -> int:
        """Bytes of its output that a model was neither shown nor told of."""
        return self.job.printed - self.seen


class Ledger:
    """The jobs of one tool: what its calls have started or left behind, and no others.

    Args:
        jobs: The jobs of the environment.
    """

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._entries: dict[str, LedgerEntry] = {}

    def add(self, job_id: str, directory: str, *, description: str = "", seen: int = 0) -> None:
        """Take a job that came of a call, unless it has ended so long ago that it is forgotten."""
        with contextlib.suppress(JobNotFound):
            self._entries[job_id] = LedgerEntry(self._jobs.get(job_id), directory, description, seen)

    def entries(self) -> Sequence[LedgerEntry]:
        """The jobs that the environment still knows, and those whose end a model was not told, in their order."""
        known = {job.id for job in self._jobs.list()}
        for entry in tuple(self._entries.values()):
            outcome = entry.job.outcome
            left = None if outcome is None else outcome.job
            if left is not None and left in known and left not in self._entries:
                self.add(left, entry.directory)  # what a job left behind in turn
        self._entries = {
            job_id: entry
            for job_id, entry in self._entries.items()
            if job_id in known or not (entry.over and entry.told)
        }
        return tuple(self._entries.values())

    def known(self) -> Mapping[str, LedgerEntry]:
        """The entries by the ids of their jobs."""
        return {entry.job.id: entry for entry in self.entries()}

    def news(self) -> Sequence[LedgerEntry]:
        """Jobs whose end a model has not been told; it is told now."""
        ended = [entry for entry in self.entries() if entry.over and not entry.told][:NEWS]
        for entry in ended:
            entry.told = True
        return ended
