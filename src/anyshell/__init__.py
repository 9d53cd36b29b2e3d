"""One shell for AI agents, and for the people who build them.

The names below are the public interface. Each is imported when it is first used, so that ``import anyshell`` costs next to
nothing. Less common values are in `anyshell.types` and `anyshell.errors`, the protocols for other packages are in
`anyshell.abc`, and scripted test doubles are in `anyshell.testing`.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as type checkers read it, without the time that typing takes

__version__ = "0.1.0"

if TYPE_CHECKING:
    from . import abc as abc
    from . import errors as errors
    from . import tool as tool
    from . import types as types
    from ._environment import Environment as Environment
    from ._exceptions import AnyshellError as AnyshellError
    from ._exceptions import BackendError as BackendError
    from ._exceptions import ConnectionFailed as ConnectionFailed
    from ._exceptions import HostKeyUntrusted as HostKeyUntrusted
    from ._exceptions import InvalidCommand as InvalidCommand
    from ._exceptions import ShellNotFound as ShellNotFound
    from ._stream import Stream as Stream
    from ._sync import run as run
    from ._types import ApprovalRequest as ApprovalRequest
    from ._types import Approved as Approved
    from ._types import CommandFailed as CommandFailed
    from ._types import Effects as Effects
    from ._types import ExpectTimeout as ExpectTimeout
    from ._types import Outcome as Outcome
    from ._types import OutputLimits as OutputLimits
    from ._types import ProgramEnded as ProgramEnded
    from ._types import Refused as Refused
    from ._types import Terminal as Terminal
    from ._types import Usage as Usage
    from ._types import Variables as Variables
    from .backends import SSHOptions as SSHOptions
    from .blocking import connect as connect
    from .fleet import Fleet as Fleet
    from .jobs import Job as Job
    from .output import ArtifactStore as ArtifactStore
    from .policy import approve_all as approve_all
    from .policy import ask_on_terminal as ask_on_terminal
    from .policy import deny_all as deny_all
    from .policy.audit import Audit as Audit
    from .policy.rules import Policy as Policy
    from .reach import Limits as Limits
    from .reach import Reach as Reach
    from .session import Session as Session
    from .shells import sh as sh
    from .terminal import DrivenTerminal as DrivenTerminal
    from .tool import ShellTool as ShellTool
    from .tool import ToolLimits as ToolLimits
    from .trial import Trial as Trial

_HOMES = {
    "Environment": "._environment",
    "AnyshellError": "._exceptions",
    "BackendError": "._exceptions",
    "ConnectionFailed": "._exceptions",
    "HostKeyUntrusted": "._exceptions",
    "InvalidCommand": "._exceptions",
    "ShellNotFound": "._exceptions",
    "Stream": "._stream",
    "run": "._sync",
    "ApprovalRequest": "._types",
    "Approved": "._types",
    "CommandFailed": "._types",
    "Effects": "._types",
    "ExpectTimeout": "._types",
    "Outcome": "._types",
    "OutputLimits": "._types",
    "ProgramEnded": "._types",
    "Refused": "._types",
    "Terminal": "._types",
    "Usage": "._types",
    "Variables": "._types",
    "SSHOptions": ".backends",
    "connect": ".blocking",
    "Fleet": ".fleet",
    "Job": ".jobs",
    "ArtifactStore": ".output",
    "approve_all": ".policy",
    "ask_on_terminal": ".policy",
    "deny_all": ".policy",
    "Policy": ".policy.rules",
    "Audit": ".policy.audit",
    "Limits": ".reach",
    "Reach": ".reach",
    "Session": ".session",
    "sh": ".shells",
    "Trial": ".trial",
    "DrivenTerminal": ".terminal",
    "ShellTool": ".tool",
    "ToolLimits": ".tool",
}

_ROOMS = frozenset(("abc", "blocking", "errors", "tool", "types"))
"""The modules that ``anyshell.NAME`` reaches without an import of their own."""

_MOVED = {
    "errors": "ArtifactNotFound BackendUnavailable CommitConflict EnvironmentLost JobNotFound OutputIncomplete PolicyError ReachUnavailable RecordingError SpawnError TerminalUnavailable",
    "abc": "ExitStatus Foreground HostInfo HostQuery ShellCandidate ShellInfo ProcessInfo Spawn FileEntry FileStat Resolved",
    "tool": "ShellResult",
    "types": "ApprovalQueue Artifact Checkpoint CommandRequest Control CopyProgress CopyResult Destination DetachedJob DetachedJobs DetachedRecord FileEffect FleetRun Grant HostOutcome HostProgress JobInputRequest JobOutput Jobs Network NetworkRequest Output OutputBuilder OutputEvent OutputImage Parsed ReachRequest Recording RecordingReport Redaction Restored Root Sandbox Scan Screen SecretInputRequest SecretRequest SessionReport TerminalInputRequest TerminalLines Verdict Waiting",
}
"""The names from before version 0.2 that have moved to these modules; version 0.3 removes them from here."""

__all__ = [*_HOMES, "__version__"]


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name in _ROOMS:
        return import_module(f"{__name__}.{name}")
    for room, names in _MOVED.items():
        if name in names.split():
            import warnings

            said = f"anyshell.{name} is anyshell.{room}.{name} now; version 0.3 takes the old name away"
            warnings.warn(said, DeprecationWarning, stacklevel=2)
            return getattr(import_module(f"{__name__}.{room}"), name)
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(home, __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
