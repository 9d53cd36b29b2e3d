"""Ask the approver, but not again about what it has approved always."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import TYPE_CHECKING

from .. import policy
from .._types import Approved

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
        answer = await policy.ask(self._approver, request, timeout=self._timeout)
        if isinstance(answer, Approved) and answer.always:
            self._always[key] = None
            if len(self._always) > REMEMBERED:
                self._always.popitem(last=False)
        return answer


def key_of(request: ApprovalRequest) -> bytes:
    """A digest of all that decides what a request does: a set of whole requests could be of any size.

    What is typed on a terminal has that of the terminal, which no other ever has; secrets have another.
    """
    shell, timeout = request.shell, request.timeout
    digest = hashlib.sha256()
    if request.terminal is not None:
        digest.update(f"{'secrets' if request.secret else 'typing'} on {request.terminal}".encode())
        return digest.digest()
    for part in (
        *(shell.kind, shell.path, shell.version, request.host, request.directory),
        *(None if timeout is None else repr(timeout), request.prefix, request.snapshot),
        *(request.original, request.text, request.stdin),
        repr((request.end_of_input, request.session, request.fresh, request.restart, request.background)),
        request.job,
        None if request.size is None else repr(request.size),
        *(text for variable in request.env for text in variable),
    ):
        data = part.encode(errors="surrogatepass") if isinstance(part, str) else part
        # With its length before it, no part can pass for another, or for two.
        digest.update(b"none;" if data is None else b"%d;" % len(data))
        digest.update(data or b"")
    return digest.digest()
