"""The decision on a call: first by the policy, then by the approver, with a record in the audit."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from .._exceptions import AnyshellError
from .._types import (
    Approved,
    CommandRequest,
    JobInputRequest,
    NetworkRequest,
    Refused,
    SecretInputRequest,
    TerminalInputRequest,
)

if TYPE_CHECKING:
    from .._types import ApprovalRequest
    from .._types.verdict import Verdict
    from ..policy.audit import Audit
    from .approvals import Approvals
    from .calls import Ongoing
    from .trying import Trying
    from .verdicts import Verdicts


@dataclass(frozen=True, slots=True)
class RequestDecision:
    """The decision on a request.

    Attributes:
        answer: The decision.
        recorded: A context; the audit records commands run within as carrying out this request.
    """

    answer: Approved | Refused
    recorded: AbstractContextManager[None]


class Decisions:
    """The decisions on the requests of one tool.

    Args:
        approvals: The approvals of the approver.
        verdicts: The verdicts of the policy on commands; ``None`` means no policy.
        audit: The record of requests and decisions; ``None`` records nothing.
    """

    def __init__(self, approvals: Approvals, *, verdicts: Verdicts | None, audit: Audit | None) -> None:
        self._approvals = approvals
        self._verdicts = verdicts
        self._audit = audit

    async def decide(
        self, request: ApprovalRequest, ongoing: Ongoing, trying: Trying | None = None
    ) -> RequestDecision:
        """Decide on a request of a call; if the approver is asked and sees effects, run the trial first.

        A request whose record (where required) or trial fails is refused.
        """
        try:
            return await self._decided(request, ongoing, trying)
        except AnyshellError as error:
            return RequestDecision(Refused(str(error), by="failure"), nullcontext())

    async def _decided(
        self, request: ApprovalRequest, ongoing: Ongoing, trying: Trying | None
    ) -> RequestDecision:
        audit, verdicts = self._audit, self._verdicts
        record = "" if audit is None else _requested(audit, request, ongoing)
        verdict: Verdict | None = None
        state: tuple[str, ...] = ()
        if verdicts is not None and isinstance(request, CommandRequest):
            verdict = await verdicts.decide(request)
            request = replace(request, verdict=verdict, rules=verdicts.rules)
            state = verdicts.state(request)
        allowed = False
        if verdicts is not None and isinstance(request, NetworkRequest):
            allowed = verdicts.reaches(request.name, request.port)
            request = replace(request, rules=verdicts.rules)
        # The policy decides first, and the approver is asked only about the rest. The record precedes the run.
        by = "policy"
        asked: ApprovalRequest = request
        if isinstance(request, CommandRequest):
            asked = self._approvals.question(request, given=verdicts is not None and verdicts.gives(request))
        if allowed or (asked is request and verdict is not None and verdict.action == "allow"):
            answer: Approved | Refused = Approved()
        elif verdict is not None and verdict.action == "deny":
            reasons = (reason.text for reason in verdict.reasons if reason.action == "deny")
            answer = Refused("; ".join(dict.fromkeys(reasons)), by="policy")
        else:
            if trying is not None and isinstance(asked, CommandRequest):
                asked = await trying(asked)
            answer = await self._approvals.ask(
                asked, tool=ongoing.tool, arguments=ongoing.arguments, state=state
            )
            by = self._approvals.name if isinstance(answer, Approved) or answer.by == "user" else answer.by
        approved = isinstance(answer, Approved)
        if audit is not None:
            audit.decided(
                record,
                "allow" if approved else "deny",
                by=by,
                rule=verdict.reasons[0].rule if verdict is not None and verdict.reasons else "",
                reason="" if isinstance(answer, Approved) else answer.reason,
                command=request.text if isinstance(request, CommandRequest) and request.original else None,
            )
        if verdicts is not None and approved and isinstance(request, CommandRequest):
            verdicts.ran(request)
        return RequestDecision(answer, nullcontext() if audit is None else audit.carrying_out(record))


def _requested(audit: Audit, request: ApprovalRequest, ongoing: Ongoing) -> str:
    """Record a request and return its id in the audit; for input, record the sent text, never a secret."""
    cwd, env, to = None, {}, ""
    match request:
        case CommandRequest():
            text = request.text if request.original is None else request.original
            cwd, env = request.directory, dict(request.env)
            more = (
                *(f"write {path}" for path in request.also_write),
                *(f"read {path}" for path in request.also_read),
            )
            to = ", ".join(more)
        case JobInputRequest():
            text, to = request.stdin.decode(errors="replace"), request.job
        case TerminalInputRequest():
            text, to = " ".join((request.typed, *(f"<{key}>" for key in request.keys))), request.terminal
        case SecretInputRequest():
            text, to = "<secret>", request.terminal
        case NetworkRequest():
            text, to = request.text, f"{request.name}:{request.port}"
    return audit.requested(
        text, tool=ongoing.tool, call=ongoing.id, host=request.host, cwd=cwd, env=env, to=to
    )
