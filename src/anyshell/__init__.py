"""One shell for AI agents, and for the people who build them.

The names below are the public interface. Each is imported when it is first used, so that ``import anyshell``
costs next to nothing. What others implement is in `anyshell.abc`, scripted doubles are in `anyshell.testing`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._engine import Control as Control
    from ._environment import Environment as Environment
    from ._exceptions import AnyshellError as AnyshellError
    from ._exceptions import ArtifactNotFound as ArtifactNotFound
    from ._exceptions import BackendError as BackendError
    from ._exceptions import BackendUnavailable as BackendUnavailable
    from ._exceptions import ConnectionFailed as ConnectionFailed
    from ._exceptions import EnvironmentLost as EnvironmentLost
    from ._exceptions import HostKeyUntrusted as HostKeyUntrusted
    from ._exceptions import InvalidCommand as InvalidCommand
    from ._exceptions import JobNotFound as JobNotFound
    from ._exceptions import PolicyError as PolicyError
    from ._exceptions import ReachUnavailable as ReachUnavailable
    from ._exceptions import RecordingError as RecordingError
    from ._exceptions import ShellNotFound as ShellNotFound
    from ._exceptions import SpawnError as SpawnError
    from ._exceptions import TerminalUnavailable as TerminalUnavailable
    from ._stream import Stream as Stream
    from ._sync import run as run
    from ._types import ApprovalRequest as ApprovalRequest
    from ._types import Approved as Approved
    from ._types import Artifact as Artifact
    from ._types import CommandFailed as CommandFailed
    from ._types import CommandRequest as CommandRequest
    from ._types import CopyProgress as CopyProgress
    from ._types import CopyResult as CopyResult
    from ._types import Destination as Destination
    from ._types import Effects as Effects
    from ._types import ExitStatus as ExitStatus
    from ._types import FileEffect as FileEffect
    from ._types import FileEntry as FileEntry
    from ._types import FileStat as FileStat
    from ._types import Foreground as Foreground
    from ._types import Grant as Grant
    from ._types import HostInfo as HostInfo
    from ._types import HostQuery as HostQuery
    from ._types import JobInputRequest as JobInputRequest
    from ._types import JobOutput as JobOutput
    from ._types import Network as Network
    from ._types import NetworkRequest as NetworkRequest
    from ._types import Outcome as Outcome
    from ._types import Output as Output
    from ._types import OutputEvent as OutputEvent
    from ._types import OutputImage as OutputImage
    from ._types import OutputLimits as OutputLimits
    from ._types import ProcessInfo as ProcessInfo
    from ._types import Recording as Recording
    from ._types import RecordingReport as RecordingReport
    from ._types import Refused as Refused
    from ._types import Resolved as Resolved
    from ._types import Scan as Scan
    from ._types import Screen as Screen
    from ._types import SecretInputRequest as SecretInputRequest
    from ._types import SessionReport as SessionReport
    from ._types import ShellCandidate as ShellCandidate
    from ._types import ShellInfo as ShellInfo
    from ._types import Spawn as Spawn
    from ._types import Terminal as Terminal
    from ._types import TerminalInputRequest as TerminalInputRequest
    from ._types import TerminalLines as TerminalLines
    from ._types import Usage as Usage
    from ._types import Variables as Variables
    from ._types import Waiting as Waiting
    from .backends import SSHOptions as SSHOptions
    from .detached import DetachedJob as DetachedJob
    from .detached import DetachedJobs as DetachedJobs
    from .detached import DetachedRecord as DetachedRecord
    from .fleet import Fleet as Fleet
    from .fleet import FleetRun as FleetRun
    from .fleet import HostOutcome as HostOutcome
    from .fleet import HostProgress as HostProgress
    from .jobs import Job as Job
    from .jobs import Jobs as Jobs
    from .output import ArtifactStore as ArtifactStore
    from .output import OutputBuilder as OutputBuilder
    from .policy import ApprovalQueue as ApprovalQueue
    from .policy import approve_all as approve_all
    from .policy import ask_on_terminal as ask_on_terminal
    from .policy import deny_all as deny_all
    from .policy.audit import Audit as Audit
    from .policy.parse import Parsed as Parsed
    from .policy.redaction import Redaction as Redaction
    from .policy.rules import Policy as Policy
    from .policy.rules import Verdict as Verdict
    from .reach import Limits as Limits
    from .reach import Reach as Reach
    from .reach import Sandbox as Sandbox
    from .resolve import Root as Root
    from .session import Session as Session
    from .terminal import DrivenTerminal as DrivenTerminal
    from .terminal import SecretRequest as SecretRequest
    from .tool import ShellResult as ShellResult
    from .tool import ShellTool as ShellTool
    from .tool import ToolLimits as ToolLimits

_HOMES = {
    "Control": "._engine",
    "Environment": "._environment",
    "AnyshellError": "._exceptions",
    "ArtifactNotFound": "._exceptions",
    "BackendError": "._exceptions",
    "BackendUnavailable": "._exceptions",
    "ConnectionFailed": "._exceptions",
    "EnvironmentLost": "._exceptions",
    "HostKeyUntrusted": "._exceptions",
    "InvalidCommand": "._exceptions",
    "JobNotFound": "._exceptions",
    "PolicyError": "._exceptions",
    "RecordingError": "._exceptions",
    "ReachUnavailable": "._exceptions",
    "ShellNotFound": "._exceptions",
    "SpawnError": "._exceptions",
    "TerminalUnavailable": "._exceptions",
    "Stream": "._stream",
    "run": "._sync",
    "ApprovalRequest": "._types",
    "Approved": "._types",
    "Artifact": "._types",
    "CommandFailed": "._types",
    "CommandRequest": "._types",
    "CopyProgress": "._types",
    "CopyResult": "._types",
    "Destination": "._types",
    "Effects": "._types",
    "ExitStatus": "._types",
    "FileEffect": "._types",
    "FileEntry": "._types",
    "FileStat": "._types",
    "Foreground": "._types",
    "Grant": "._types",
    "HostInfo": "._types",
    "HostQuery": "._types",
    "JobInputRequest": "._types",
    "Network": "._types",
    "NetworkRequest": "._types",
    "JobOutput": "._types",
    "Outcome": "._types",
    "Output": "._types",
    "OutputEvent": "._types",
    "OutputImage": "._types",
    "OutputLimits": "._types",
    "ProcessInfo": "._types",
    "Recording": "._types",
    "RecordingReport": "._types",
    "Refused": "._types",
    "Resolved": "._types",
    "Scan": "._types",
    "Screen": "._types",
    "SecretInputRequest": "._types",
    "SessionReport": "._types",
    "ShellCandidate": "._types",
    "ShellInfo": "._types",
    "Spawn": "._types",
    "Terminal": "._types",
    "TerminalInputRequest": "._types",
    "TerminalLines": "._types",
    "Usage": "._types",
    "Variables": "._types",
    "Waiting": "._types",
    "SSHOptions": ".backends",
    "DetachedJob": ".detached",
    "DetachedJobs": ".detached",
    "DetachedRecord": ".detached",
    "Fleet": ".fleet",
    "FleetRun": ".fleet",
    "HostOutcome": ".fleet",
    "HostProgress": ".fleet",
    "Job": ".jobs",
    "Jobs": ".jobs",
    "ArtifactStore": ".output",
    "OutputBuilder": ".output",
    "ApprovalQueue": ".policy",
    "approve_all": ".policy",
    "ask_on_terminal": ".policy",
    "deny_all": ".policy",
    "Parsed": ".policy.parse",
    "Policy": ".policy.rules",
    "Verdict": ".policy.rules",
    "Audit": ".policy.audit",
    "Redaction": ".policy.redaction",
    "Limits": ".reach",
    "Reach": ".reach",
    "Sandbox": ".reach",
    "Root": ".resolve",
    "Session": ".session",
    "DrivenTerminal": ".terminal",
    "SecretRequest": ".terminal",
    "ShellResult": ".tool",
    "ShellTool": ".tool",
    "ToolLimits": ".tool",
}

__all__ = [*_HOMES, "__version__"]


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        return version("anyshell")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(home, __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
