"""Less common values and helpers: results and arguments of calls. The common ones are in `anyshell` itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._lazy import importer

if TYPE_CHECKING:
    from ._engine import Control as Control
    from ._types import Artifact as Artifact
    from ._types import CommandRequest as CommandRequest
    from ._types import CopyProgress as CopyProgress
    from ._types import CopyResult as CopyResult
    from ._types import Destination as Destination
    from ._types import FileEffect as FileEffect
    from ._types import Grant as Grant
    from ._types import JobInputRequest as JobInputRequest
    from ._types import JobOutput as JobOutput
    from ._types import Network as Network
    from ._types import NetworkRequest as NetworkRequest
    from ._types import Output as Output
    from ._types import OutputEvent as OutputEvent
    from ._types import OutputImage as OutputImage
    from ._types import ReachRequest as ReachRequest
    from ._types import Recording as Recording
    from ._types import RecordingReport as RecordingReport
    from ._types import Scan as Scan
    from ._types import Screen as Screen
    from ._types import SecretInputRequest as SecretInputRequest
    from ._types import SessionReport as SessionReport
    from ._types import TerminalInputRequest as TerminalInputRequest
    from ._types import TerminalLines as TerminalLines
    from ._types import Waiting as Waiting
    from .detached import DetachedJob as DetachedJob
    from .detached import DetachedJobs as DetachedJobs
    from .detached import DetachedRecord as DetachedRecord
    from .fleet import FleetRun as FleetRun
    from .fleet import HostOutcome as HostOutcome
    from .fleet import HostProgress as HostProgress
    from .jobs import Jobs as Jobs
    from .output import OutputBuilder as OutputBuilder
    from .policy import ApprovalQueue as ApprovalQueue
    from .policy.parse import Parsed as Parsed
    from .policy.redaction import Redaction as Redaction
    from .policy.rules import Verdict as Verdict
    from .reach import Sandbox as Sandbox
    from .resolve import Root as Root
    from .terminal import SecretRequest as SecretRequest
    from .trial import Checkpoint as Checkpoint
    from .trial import Restored as Restored
else:
    __getattr__ = importer(
        __name__,
        {
            "policy": "ApprovalQueue",
            "_types": "Artifact CommandRequest CopyProgress CopyResult Destination FileEffect Grant JobInputRequest JobOutput Network NetworkRequest Output OutputEvent OutputImage ReachRequest Recording RecordingReport Scan Screen SecretInputRequest SessionReport TerminalInputRequest TerminalLines Waiting",
            "_engine": "Control",
            "detached": "DetachedJob DetachedJobs DetachedRecord",
            "fleet": "FleetRun HostOutcome HostProgress",
            "jobs": "Jobs",
            "reach": "Sandbox",
            "output": "OutputBuilder",
            "policy.parse": "Parsed",
            "policy.redaction": "Redaction",
            "resolve": "Root",
            "terminal": "SecretRequest",
            "trial": "Checkpoint Restored",
            "policy.rules": "Verdict",
        },
        below="anyshell",
    )

__all__ = [
    "ApprovalQueue",
    "Artifact",
    "Checkpoint",
    "CommandRequest",
    "Control",
    "CopyProgress",
    "CopyResult",
    "Destination",
    "DetachedJob",
    "DetachedJobs",
    "DetachedRecord",
    "FileEffect",
    "FleetRun",
    "Grant",
    "HostOutcome",
    "HostProgress",
    "JobInputRequest",
    "JobOutput",
    "Jobs",
    "Network",
    "NetworkRequest",
    "Output",
    "OutputBuilder",
    "OutputEvent",
    "OutputImage",
    "Parsed",
    "ReachRequest",
    "Recording",
    "RecordingReport",
    "Redaction",
    "Restored",
    "Root",
    "Sandbox",
    "Scan",
    "Screen",
    "SecretInputRequest",
    "SecretRequest",
    "SessionReport",
    "TerminalInputRequest",
    "TerminalLines",
    "Verdict",
    "Waiting",
]
