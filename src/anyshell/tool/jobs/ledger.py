"""The jobs of a tool's calls, and the model's knowledge of these jobs."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..._exceptions import JobNotFound

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...jobs import Job, Jobs

NEWS = 10
"""Jobs whose end one result tells; the others wait for the next result."""


@dataclass(slots=True)
class LedgerEntry:
    """A job, and the model's knowledge of the job.

    Attributes:
        job: The job.
        directory: The directory in which the job's command began.
        description: The model's own words for the command; may be empty.
        seen: Bytes of the job's output that the model was shown, or was told of.
        told: Whether the model was told that the job has ended.
    """

    job: Job
    directory: str
    description: str = ""
    seen: int = 0
    told: bool = False

    @property
    def over(self) -> bool:
        """Whether the job has ended."""
        return self.job.status != "running"

    @property
    def unseen(self) -> int:
        """Bytes of the job's output that the model was neither shown nor told of."""
        return self.job.printed - self.seen


class Ledger:
    """The jobs of one tool: only those that the tool's calls have started or left behind.

    Args:
        jobs: The jobs of the environment.
    """

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._entries: dict[str, LedgerEntry] = {}

    def add(self, job_id: str, directory: str, *, description: str = "", seen: int = 0) -> None:
        """Add the job of a call, unless the environment has already forgotten the job."""
        with contextlib.suppress(JobNotFound):
            self._entries[job_id] = LedgerEntry(self._jobs.get(job_id), directory, description, seen)

    def entries(self) -> Sequence[LedgerEntry]:
        """Return the jobs that the environment still knows, and the jobs whose end the model was not told, in order."""
        known = {job.id for job in self._jobs.list()}
        for entry in tuple(self._entries.values()):
            outcome = entry.job.outcome
            left = None if outcome is None else outcome.job
            if left is not None and left in known and left not in self._entries:
                self.add(left, entry.directory)  # the processes that a job left behind are a job too
        self._entries = {
            job_id: entry
            for job_id, entry in self._entries.items()
            if job_id in known or not (entry.over and entry.told)
        }
        return tuple(self._entries.values())

    def known(self) -> Mapping[str, LedgerEntry]:
        """Return the entries by the ids of their jobs."""
        return {entry.job.id: entry for entry in self.entries()}

    def news(self) -> Sequence[LedgerEntry]:
        """Return the jobs whose end the model was not told, and record that the model is told now."""
        ended = [entry for entry in self.entries() if entry.over and not entry.told][:NEWS]
        for entry in ended:
            entry.told = True
        return ended
