"""The approval of a call by the user of a client, in both eras of the protocol.

In the handshake era the server asks the client during the call. In the stateless era the server cannot ask: the call ends with
the question and a sealed state, and the client calls again with the answer and the state. The state names the call and the
digest of the request. Only the state of an open question is accepted, and a question is open for one call.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import math
import secrets
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import mcp_types as types
from mcp.server.request_state import AESGCMRequestStateCodec, InvalidRequestState
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from .._exceptions import AnyshellError
from .._types import Approved, CommandRequest, NetworkRequest, ReachRequest, Refused
from ..policy.approval.approvers import words_of
from ..tool.approvals import digest_of

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

    from .._types import ApprovalRequest

    Context = ServerRequestContext[Any, Any]

QUESTION_SECONDS = 600.0
"""Seconds for the user of a client to answer; then nothing runs, and the client must call again."""

QUESTIONS = 1000
"""Questions that are open to clients of the stateless era; for one more, the oldest is closed."""

LONGEST_QUESTION = 64 * 1024
"""Characters of a question to the user of a client; a request with a longer question is refused."""

_ID = "approval"
_ONCE, _AGAIN, _NO = "yes, this once", "yes, and the same again", "no"
_ANSWER = {
    "type": "object",
    "properties": {
        "decision": {"type": "string", "title": "Decision", "enum": [_ONCE, _AGAIN, _NO]},
        "reason": {"type": "string", "title": "Reason for a no, which the model is told"},
    },
    "required": ["decision"],
}
_NO_USER = (
    "this needs an approval, and the client cannot ask its user (it has no elicitation): start the server with "
    "--policy workspace, or another policy that allows it"
)
_NO_USER_TO_WIDEN = (
    "this is more than its reach, and the client cannot ask its user (it has no elicitation): start the server with another "
    "--reach"
)


class BadStateError(AnyshellError):
    """The state that a client has sent back approves nothing."""


@dataclass(slots=True)
class CallExchange:
    """The approval of one call.

    Attributes:
        id: The id of the call.
        context: The request of the client.
        client: The session or handle of the client; may be empty.
        call: The digest of the client, the tool's name and the arguments.
        approved: The digest of the request that the client's user was asked about; ``None`` before the question.
        answer: The answer of the user.
        asked: The open question to the user; ``None`` without one.
    """

    id: str
    context: Context
    client: str
    call: str
    approved: str | None = None
    answer: Approved | Refused | None = None
    asked: ApprovalRequest | None = None

    @property
    def stateless(self) -> bool:
        """Whether the client speaks the protocol of the stateless era."""
        return self.context.protocol_version in MODERN_PROTOCOL_VERSIONS


class ClientApprovals:
    """The approvals by the users of clients; `ask_client` is the approver of the clients' tools."""

    def __init__(self) -> None:
        # The key lives as long as this process: a state sealed by another process approves nothing here.
        self._codec = AESGCMRequestStateCodec([secrets.token_bytes(32)])
        self._open: OrderedDict[str, None] = OrderedDict()
        self._exchanges: dict[str, CallExchange] = {}
        self._numbers = itertools.count(1)

    def begin(self, context: Context, params: types.CallToolRequestParams, client: str) -> CallExchange:
        """Begin the approval of a client's call; `end` must follow.

        Raises:
            BadStateError: The call brings a state that approves nothing.
        """
        named = json.dumps([client, params.name, params.arguments or {}], sort_keys=True)
        call = hashlib.sha256(named.encode()).hexdigest()
        exchange = CallExchange(f"mcp-{next(self._numbers)}", context, client, call)
        if params.request_state is not None:
            exchange.approved = self._redeem(params.request_state, exchange.call)
            answered = (params.input_responses or {}).get(_ID)
            exchange.answer = _read(answered if isinstance(answered, types.ElicitResult) else None)
        self._exchanges[exchange.id] = exchange
        return exchange

    def end(self, exchange: CallExchange) -> None:
        """Forget a call."""
        del self._exchanges[exchange.id]

    def client_of(self, state: str | None) -> str | None:
        """Return the client to which a state was given; ``None`` for a state that this server did not give."""
        with contextlib.suppress(BadStateError):
            return None if state is None else str(self._claims(state)["client"])
        return None

    async def ask_client(self, request: ApprovalRequest) -> Approved | Refused:
        """Ask the user of the client that made the call, as an approver."""
        exchange = self._exchanges.get(request.call_id)
        if exchange is None or (exchange.stateless and isinstance(request, NetworkRequest)):
            return Refused("its client cannot be asked while a command runs", by="unanswered")
        if not can_ask(exchange.context):
            more = isinstance(request, ReachRequest)
            return Refused(_NO_USER_TO_WIDEN if more else _NO_USER, by="unanswered")
        if len(_question(request)) > LONGEST_QUESTION:
            return Refused(
                f"its text is too long to be shown: a question has up to {LONGEST_QUESTION:,} characters",
                by="unanswered",
            )
        if not exchange.stateless:
            session, number = exchange.context.session, exchange.context.request_id
            return _read(await session.elicit_form(_question(request), _ANSWER, number))
        answer, exchange.answer = exchange.answer, None
        if answer is not None and exchange.approved == digest_of(request).hex():
            return answer
        exchange.asked = request
        return Refused("the user is asked first", by="unanswered")

    def question(self, exchange: CallExchange) -> types.InputRequiredResult | None:
        """Return the question with which a call ends; ``None`` without a question."""
        if exchange.asked is None:
            return None
        number = secrets.token_hex(16)
        self._open[number] = None
        if len(self._open) > QUESTIONS:
            self._open.popitem(last=False)
        claims = {
            "number": number,
            "until": time.monotonic() + QUESTION_SECONDS,
            "client": exchange.client,
            "call": exchange.call,
            "request": digest_of(exchange.asked).hex(),
        }
        form = types.ElicitRequestFormParams(message=_question(exchange.asked), requested_schema=_ANSWER)
        return types.InputRequiredResult(
            input_requests={_ID: types.ElicitRequest(params=form)},
            request_state=self._codec.seal(json.dumps(claims).encode()),
        )

    def _redeem(self, state: str, call: str) -> str:
        """Close the question of a state, and return the digest of the request in question."""
        claims = self._claims(state)
        if claims["call"] != call:
            raise BadStateError("the approval is for another call")
        was_open = self._open.pop(claims["number"], math.nan) is None
        if time.monotonic() > claims["until"]:
            raise BadStateError(
                f"its approval was given later than {QUESTION_SECONDS:g} s after the question"
            )
        if not was_open:
            raise BadStateError("its approval was used before, and holds for one call")
        return str(claims["request"])

    def _claims(self, state: str) -> dict[str, Any]:
        try:
            claims: dict[str, Any] = json.loads(self._codec.unseal(state))
        except InvalidRequestState:
            raise BadStateError(
                "its approval was not asked for by this server, or has been changed"
            ) from None
        return claims


def can_ask(context: Context) -> bool:
    """Whether a client can show a form to its user."""
    capabilities = context.session.client_capabilities
    elicitation = None if capabilities is None else capabilities.elicitation
    return elicitation is not None and (elicitation.form is not None or elicitation.url is None)


def _question(request: ApprovalRequest) -> str:
    verb, _ = words_of(request)
    where = (
        "" if isinstance(request, CommandRequest | ReachRequest | NetworkRequest) else " to what runs already"
    )
    return f"{verb} this{where}?\n\n{request.display}"


def _read(result: types.ElicitResult | None) -> Approved | Refused:
    """Return the answer of a user; only an explicit yes approves."""
    if result is None or result.action == "cancel":
        return Refused("the question was not answered", by="unanswered")
    content = result.content or {}
    if result.action == "accept" and content.get("decision") in (_ONCE, _AGAIN):
        return Approved(scope="once" if content["decision"] == _ONCE else "session")
    reason = content.get("reason")
    return Refused(reason if isinstance(reason, str) else "")
