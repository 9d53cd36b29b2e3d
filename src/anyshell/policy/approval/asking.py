"""The question whether a command may run. No answer is a refusal, and so is every answer but a plain yes."""

from __future__ import annotations

import asyncio
import logging
from contextvars import ContextVar
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, cast, get_args

from ..._exceptions import AnyshellError
from ..._types import Approved, Grant, Refused, exact
from ..._types.approval import Scope

if TYPE_CHECKING:
    from ..._types import ApprovalRequest
    from ...abc import Approver

_LOG = logging.getLogger("anyshell")

CANCEL_BOUND = 1.0
"""Seconds for a cancelled approver to end; after that anyshell stops waiting, and the approver's task goes on."""


class _Question:
    """A request that waits for its answer. Tasks that outlive the question still see the object; so it has the flag `open`."""

    def __init__(self) -> None:
        self.open = True


_QUESTION: ContextVar[_Question | None] = ContextVar("anyshell_question", default=None)


async def ask(approver: Approver, request: ApprovalRequest, *, timeout: float) -> Approved | Refused:
    """Put a request to an approver and return a valid answer, whatever the approver does.

    Args:
        approver: A function, async or not. An exception, no answer in time, or an answer of another type is a refusal.
        request: The request. People see its `display`.
        timeout: Seconds after which a missing answer is a refusal. The clock decides, even if the event loop or the
            approver was too busy to notice the time.

    Returns:
        The answer, with a reason that is text, and with a known scope and valid grants. If the approver failed, the reason
        has only the type's name of the exception: the exception's text may hold secrets, and the reason goes to a model.
        The exception is logged.

    Raises:
        asyncio.CancelledError: The caller was cancelled. The approver was cancelled too.
    """
    question = _Question()
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout
    token = _QUESTION.set(question)
    try:
        task = asyncio.ensure_future(_answer(approver, request))
    finally:
        _QUESTION.reset(token)
    try:
        await asyncio.wait([task], timeout=timeout)
    finally:
        question.open = False
        late = not task.done()
        if late:
            await _give_up(task)
    if late:
        return _too_late(timeout)
    if task.cancelled():
        return Refused("the approver gave up without an answer", by="failure")
    error = task.exception()
    if error is not None:
        _LOG.error("the approver failed, so nothing ran: %s", type(error).__name__, exc_info=error)
        return Refused(f"the approver failed ({type(error).__name__})", by="failure")
    answer, answered = task.result()
    return _plain(answer) if answered <= deadline else _too_late(timeout)


async def _answer(approver: Approver, request: ApprovalRequest) -> tuple[object, float]:
    """Return the answer of an approver, and the time of the answer."""
    given = cast("object", approver(request))
    answer = await given if isawaitable(given) else given
    return answer, asyncio.get_running_loop().time()


_SCOPES = get_args(Scope)


def _too_late(timeout: float) -> Refused:
    return Refused(f"no answer within {exact(timeout)} s", by="unanswered")


def _plain(answer: object) -> Approved | Refused:
    """Return an answer with only valid fields; an invalid field never approves more than this one request."""
    if isinstance(answer, Refused):
        reason: object = answer.reason
        by: Any = answer.by
        return Refused(
            reason if isinstance(reason, str) else "",
            by=by if by in ("user", "policy", "unanswered", "failure") else "user",
        )
    if isinstance(answer, Approved):
        grants: Any = answer.grants
        known = isinstance(grants, tuple) and all(isinstance(grant, Grant) for grant in grants)
        return (
            Approved(scope=answer.scope, grants=grants) if known and answer.scope in _SCOPES else Approved()
        )
    _LOG.error(
        "the approver answered with %s, so nothing ran: return anyshell.Approved() or anyshell.Refused('why')",
        f"a value of type {type(answer).__name__}",
    )
    return Refused("the approver gave no valid answer", by="failure")


async def _give_up(task: asyncio.Task[tuple[object, float]]) -> None:
    """Cancel a task and wait for its end, for `CANCEL_BOUND` seconds at most."""
    task.cancel()
    task.add_done_callback(_forget)
    await asyncio.wait([task], timeout=CANCEL_BOUND)


def _forget(task: asyncio.Task[tuple[object, float]]) -> None:
    if not task.cancelled():
        task.exception()  # marks the exception as retrieved: no caller is left to handle it


def require_question(name: str) -> None:
    """Raise unless the caller runs within `ask`, which bounds and cancels approvers.

    Raises:
        AnyshellError: No question is open.
    """
    question = _QUESTION.get()
    if question is None or not question.open:
        raise AnyshellError(
            f"{name} answers the questions of a tool and is not called by itself: pass it as approver="
        )
