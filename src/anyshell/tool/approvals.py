"""Ask the approver, but not again about what it has approved always."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import fields, replace
from typing import TYPE_CHECKING

from .. import policy
from .._types import Approved, SecretInputRequest, TerminalInputRequest

if TYPE_CHECKING:
    from .._types import ApprovalRequest, Refused
    from ..abc import Approver

REMEMBERED = 1000
"""Requests that are approved always; then the one asked for longest ago is forgotten."""


class Approvals:
    """What one tool may do, as its approver decides.

    Args:
        approver: Decides.
        timeout: Seconds until no answer is a refusal.
    """

    def __init__(self, approver: Approver, *, timeout: float) -> None:
        self._approver = approver
        self._timeout = timeout
        self._always: OrderedDict[bytes, None] = OrderedDict()

    async def ask(self, request: ApprovalRequest) -> Approved | Refused:
        """Put a request to the approver, unless an identical one was approved always, or all on that terminal."""
        key = key_of(request)
        if key in self._always:
            self._always.move_to_end(key)
            return Approved()
        shown = replace(request, display=policy.display(request))
        answer = await policy.ask(self._approver, shown, timeout=self._timeout)
        if isinstance(answer, Approved) and answer.always:
            self._always[key] = None
            if len(self._always) > REMEMBERED:
                self._always.popitem(last=False)
        return answer


def key_of(request: ApprovalRequest) -> bytes:
    """A digest of all that decides what a request does: a set of whole requests could be of any size.

    What is typed on a terminal has that of the terminal, which no other ever has; secrets have another.
    """
    parts: tuple[object, ...]
    match request:
        case TerminalInputRequest() | SecretInputRequest():
            parts = (request.terminal,)
        case _:
            parts = tuple(getattr(request, field.name) for field in fields(request) if field.compare)
    # In the form of a literal, no part can pass for another, or for two.
    return hashlib.sha256(repr((type(request).__name__, parts)).encode()).digest()
