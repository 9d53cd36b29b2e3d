"""What the tools of one environment share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .._environment import Environment
    from .approvals import Approvals
    from .calls import Calls
    from .hiding import Hidden
    from .limits import ToolLimits


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a `ShellTool` shares with the tools for its jobs and terminals.

    Attributes:
        env: Where commands run.
        limits: What a model may ask for.
        approvals: Decides about what is run, sent and typed.
        calls: The calls under way.
        hidden: What no result shows.
    """

    env: Environment
    limits: ToolLimits
    approvals: Approvals
    calls: Calls
    hidden: Hidden
