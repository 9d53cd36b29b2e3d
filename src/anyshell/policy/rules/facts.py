"""What a policy has to know of the host on which a text is to run."""

from __future__ import annotations

from typing import Protocol


class Facts(Protocol):
    """Answers about the host. ``None`` is not known, and so never allows a thing. None of these raises."""

    @property
    def home(self) -> str | None:
        """The user's home directory; absolute."""

    def find(self, program: str) -> str | None:
        """The file that PATH gives for a bare name, with its links resolved; empty if there is none."""

    def resolve(self, path: str) -> str | None:
        """An absolute path with its links resolved, as far as it exists; what does not exist stays as it is."""

    def git_runs(self, directory: str) -> tuple[str, ...] | None:
        """The keys by which git's configuration, for a directory, has git run programs: filters, drivers, hooks, aliases."""
