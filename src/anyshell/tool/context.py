"""The objects that a shell tool and its job tool share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from .result import OutputArtifact

if TYPE_CHECKING:
    from collections.abc import Callable

    from .._environment import Environment
    from .._types import Artifact
    from .calls import Calls, Ongoing
    from .decisions import Decisions
    from .hiding import Hidden
    from .limits import ToolLimits

Request = TypeVar("Request")

REMEMBERED = 1000
"""Kept outputs that a model may read by id; beyond that the oldest is forgotten."""


@dataclass(frozen=True, slots=True)
class ToolContext:
    """The objects that a `ShellTool` shares with the tool for its jobs.

    Attributes:
        env: The environment of the commands.
        limits: The limits of a model's requests.
        decisions: The decisions on commands and on sent or typed input.
        calls: The calls under way.
        hidden: The secrets that no result shows.
        kept: The ids of the outputs that results have named, the newest last.
    """

    env: Environment
    limits: ToolLimits
    decisions: Decisions
    calls: Calls
    hidden: Hidden
    kept: dict[str, None] = field(default_factory=dict)

    @property
    def readable(self) -> bool:
        """Whether commands can read the file of a kept output."""
        return self.env.info.is_this_machine

    @property
    def addressed(self) -> bool:
        """Whether commands can read a kept output by its address."""
        return self.env.runner.addresses.read_kept

    def request(self, make: Callable[..., Request], ongoing: Ongoing, **facts: Any) -> Request:
        """Make a request of a call, with the shell, host, prefix and snapshot of the environment."""
        env = self.env
        where = {"shell": env.shell, "host": env.host, "prefix": env.prefix, "snapshot": env.snapshot}
        return make(**where, **facts, call_id=ongoing.id)

    def name(self, artifact: Artifact | None) -> OutputArtifact | None:
        """Describe the artifact of an output, and remember that the model may read the artifact."""
        if artifact is not None:
            self.kept[artifact.id] = None
            if len(self.kept) > REMEMBERED:
                del self.kept[next(iter(self.kept))]
        return OutputArtifact.of(artifact)
