"""The model's door: one tool, called ``shell``, with bounded parameters, an approver and a deadline."""

from __future__ import annotations

from .definition import ToolDefinition
from .limits import ToolLimits
from .params import ShellParams
from .result import DisplayBlock, LeftBehindProcess, OutputArtifact, ShellDetails, ShellResult, Truncation
from .shell import ShellTool
from .updates import OnUpdate

__all__ = [
    "DisplayBlock",
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
