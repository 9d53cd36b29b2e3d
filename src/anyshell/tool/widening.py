"""The question to the approver whether a command that runs may connect to what its reach does not have."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from .._types import Approved, NetworkRequest, one_line

if TYPE_CHECKING:
    from .._environment import Environment
    from .._types import CommandRequest
    from .calls import Ongoing
    from .decisions import Decisions

_SHARED = ("text", "shell", "host", "directory", "prefix", "snapshot", "description", "call_id")
"""What the question tells of the command."""

_LONGEST_REASON = 200
"""Characters of a reason that a command is told."""


def asking_for(
    request: CommandRequest, ongoing: Ongoing, *, env: Environment, decisions: Decisions
) -> AbstractContextManager[None]:
    """Have what is run within ask the approver about destinations, as a part of a call."""
    if env.reach is None or not isinstance(env.reach.network, tuple):
        return nullcontext()
    from ..reach import asking  # here, since few tools have such a reach

    async def ask(name: str, port: int) -> str:
        wanted = NetworkRequest(**{each: getattr(request, each) for each in _SHARED}, name=name, port=port)
        answer = (await decisions.decide(wanted, ongoing)).answer
        if isinstance(answer, Approved):
            return ""
        who = {"user": "the user has refused it", "policy": "the policy refuses it"}.get(
            answer.by, "its approval could not be had"
        )
        reason = one_line(answer.reason[:_LONGEST_REASON])
        return f"{who}: {reason}" if reason else who

    return asking(ask)
