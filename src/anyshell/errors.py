"""The exceptions that few programs catch by name; the common exceptions are in `anyshell` itself."""

from __future__ import annotations

from ._exceptions import ArtifactNotFound as ArtifactNotFound
from ._exceptions import BackendUnavailable as BackendUnavailable
from ._exceptions import CommitConflict as CommitConflict
from ._exceptions import EnvironmentLost as EnvironmentLost
from ._exceptions import JobNotFound as JobNotFound
from ._exceptions import OutputIncomplete as OutputIncomplete
from ._exceptions import PolicyError as PolicyError
from ._exceptions import ReachUnavailable as ReachUnavailable
from ._exceptions import RecordingError as RecordingError
from ._exceptions import SpawnError as SpawnError
from ._exceptions import TerminalUnavailable as TerminalUnavailable

__all__ = [
    "ArtifactNotFound",
    "BackendUnavailable",
    "CommitConflict",
    "EnvironmentLost",
    "JobNotFound",
    "OutputIncomplete",
    "PolicyError",
    "ReachUnavailable",
    "RecordingError",
    "SpawnError",
    "TerminalUnavailable",
]
