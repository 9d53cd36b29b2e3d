"""The model's door: the tools called ``shell`` and ``job``, with bounded parameters, an approver, a deadline."""

from __future__ import annotations

from .definition import ToolDefinition
from .jobs.params import JobParams
from .jobs.tool import JobTool
from .limits import ToolLimits
from .params import ShellParams
from .result import (
    BlockedCommand,
    DisplayBlock,
    InputState,
    JobDetails,
    JobResult,
    JobState,
    LeftBehindProcess,
    MinimizedOutput,
    OutputArtifact,
    ShellDetails,
    ShellResult,
    Truncation,
)
from .shell import ShellTool
from .updates import OnUpdate, Update

__all__ = [
    "BlockedCommand",
    "DisplayBlock",
    "InputState",
    "JobDetails",
    "JobParams",
    "JobResult",
    "JobState",
    "JobTool",
    "LeftBehindProcess",
    "MinimizedOutput",
    "OnUpdate",
    "OutputArtifact",
    "ShellDetails",
    "ShellParams",
    "ShellResult",
    "ShellTool",
    "ToolDefinition",
    "ToolLimits",
    "Truncation",
    "Update",
]
