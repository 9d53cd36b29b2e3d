"""The tools ``shell`` and ``job`` for a model, with bounded parameters, an approver and a deadline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import importer

if TYPE_CHECKING:
    from .definition import ToolDefinition as ToolDefinition
    from .jobs.params import JobParams as JobParams
    from .jobs.tool import JobTool as JobTool
    from .limits import ToolLimits as ToolLimits
    from .params import ShellParams as ShellParams
    from .result import BlockedCommand as BlockedCommand
    from .result import DisplayBlock as DisplayBlock
    from .result import InputState as InputState
    from .result import JobDetails as JobDetails
    from .result import JobResult as JobResult
    from .result import JobState as JobState
    from .result import LeftBehindProcess as LeftBehindProcess
    from .result import MinimizedOutput as MinimizedOutput
    from .result import OutputArtifact as OutputArtifact
    from .result import ShellDetails as ShellDetails
    from .result import ShellResult as ShellResult
    from .result import Truncation as Truncation
    from .shell import ShellTool as ShellTool
    from .updates import OnUpdate as OnUpdate
    from .updates import Update as Update
else:
    __getattr__ = importer(
        __name__,
        {
            "definition": "ToolDefinition",
            "jobs.params": "JobParams",
            "jobs.tool": "JobTool",
            "limits": "ToolLimits",
            "params": "ShellParams",
            "result": "BlockedCommand DisplayBlock InputState JobDetails JobResult JobState LeftBehindProcess MinimizedOutput OutputArtifact ShellDetails ShellResult Truncation",
            "shell": "ShellTool",
            "updates": "OnUpdate Update",
        },
    )

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
