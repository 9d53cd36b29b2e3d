"""Ask whether a command may run. No answer is a refusal, and so is every answer but a plain yes."""

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
"""Seconds for an approver to end when its answer is not waited for any more; then it is left alone."""


class _Question:
    """A request that waits for its answer. Tasks that outlive it still see it, hence the flag."""

    def __init__(self) -> None:
        self.open = True


_QUESTION: ContextVar[_Question | None] = ContextVar("anyshell_question", default=None)


async def ask(approver: Approver, request: ApprovalRequest, *, timeout: float) -> Approved | Refused:
    """Put a request to an approver and take its answer, whatever it does.

    Args:
        approver: A function, async or not. One that raises, gives no answer in time or answers anything else has refused.
        request: Its `display` is what people see.
        timeout: Seconds until no answer counts as a refusal, by the clock: also when the event loop, or the
            approver itself, was too busy to look at it for so long.

    Returns:
        The answer, with a reason that is text, and a scope and grants that there are. The reason of a refusal that is
        not the approver's own holds nothing of its exception but the name of the type: its text may hold secrets, and
        goes to a model. It is logged.

    Raises:
        asyncio.CancelledError: The caller was cancelled. So was the approver.
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
    """The answer of an approver, and its time."""
    given = cast("object", approver(request))
    answer = await given if isawaitable(given) else given
    return answer, asyncio.get_running_loop().time()


_SCOPES = get_args(Scope)


def _too_late(timeout: float) -> Refused:
    return Refused(f"no answer within {exact(timeout)} s", by="unanswered")


def _plain(answer: object) -> Approved | Refused:
    """Take of an answer what its type promises; whatever it says instead is no approval of anything more."""
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
    """Cancel a task and wait for its end, but not for one that does not heed it."""
    task.cancel()
    task.add_done_callback(_forget)
    await asyncio.wait([task], timeout=CANCEL_BOUND)


def _forget(task: asyncio.Task[tuple[object, float]]) -> None:
    if not task.cancelled():
        task.exception()  # marks it as seen: no caller is left to hear of it


def require_question(name: str) -> None:
    """Refuse to be called by anything but `ask`, which bounds and cancels what it calls.

    Raises:
        AnyshellError: No question is open.
    """
    question = _QUESTION.get()
    if question is None or not question.open:
        raise AnyshellError(
            f"{name} answers the questions of a tool and is not called by itself: pass it as approver="
        )
