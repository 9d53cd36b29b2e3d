"""The model's door: a tool called ``shell``, and one called ``job``, with bounded parameters, an approver, a deadline."""

from __future__ import annotations

from .definition import ToolDefinition
from .job import JobTool
from .job_params import JobParams
from .limits import ToolLimits
from .params import ShellParams
from .result import (
    DisplayBlock,
    JobDetails,
    JobResult,
    JobState,
    LeftBehindProcess,
    OutputArtifact,
    ShellDetails,
    ShellResult,
    Truncation,
)
from .shell import ShellTool
from .updates import OnUpdate

__all__ = [
    "DisplayBlock",
    "JobDetails",
    "JobParams",
    "JobResult",
    "JobState",
    "JobTool",
    "LeftBehindProcess",
    "OnUpdate",
    "OutputArtifact",
    "ShellDetails",
    "ShellParams",
    "ShellResult",
    "ShellTool",
    "ToolDefinition",
    "ToolLimits",
    "Truncation",
]
