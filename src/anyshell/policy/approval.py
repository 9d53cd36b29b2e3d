"""Ask whether a command may run. No answer is a refusal, and so is every answer but a plain yes."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, cast

from .._exceptions import AnyshellError
from .._types import (
    Approved,
    CommandRequest,
    JobInputRequest,
    Refused,
    SecretInputRequest,
    TerminalInputRequest,
    exact,
)
from .display import folded

if TYPE_CHECKING:
    from .._types import ApprovalRequest
    from ..abc import Approver

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
        approver: One that raises, gives no answer in time or answers anything else has refused.
        request: Its `display` is what people see.
        timeout: Seconds until no answer counts as a refusal, by the clock: also when the event loop, or the
            approver itself, was too busy to look at it for so long.

    Returns:
        The answer, with a reason that is text and an `always` that is true or false. The reason of a refusal that is not the approver's own holds nothing of its exception but
        the name of the type: its text may hold secrets, and goes to a model.

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
        return Refused(f"the approver failed ({type(error).__name__})", by="failure")
    answer, answered = task.result()
    return _plain(answer) if answered <= deadline else _too_late(timeout)


async def _answer(approver: Approver, request: ApprovalRequest) -> tuple[object, float]:
    """What an approver says, and when."""
    answer = cast("object", await approver(request))
    return answer, asyncio.get_running_loop().time()


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
        return Approved(always=answer.always is True)
    return Refused("the approver gave no valid answer", by="failure")


async def _give_up(task: asyncio.Task[tuple[object, float]]) -> None:
    """Cancel a task and wait for its end, but not for one that does not heed it."""
    task.cancel()
    task.add_done_callback(_forget)
    await asyncio.wait([task], timeout=CANCEL_BOUND)


def _forget(task: asyncio.Task[tuple[object, float]]) -> None:
    if not task.cancelled():
        task.exception()  # marks it as seen: no caller is left to hear of it


async def approve_all(request: ApprovalRequest) -> Approved:
    """Run everything. For callers that have decided elsewhere, such as by the container that all of it runs in.

    Raises:
        AnyshellError: It was called by anything but a tool that asks.
    """
    _require_question("approve_all")
    return Approved()


async def deny_all(request: ApprovalRequest) -> Refused:
    """Run nothing.

    Raises:
        AnyshellError: It was called by anything but a tool that asks.
    """
    _require_question("deny_all")
    return Refused("no command may be run here", by="policy")


async def ask_on_terminal(request: ApprovalRequest) -> Approved | Refused:
    """Show a request on the controlling terminal and let the person there answer.

    The terminal is opened anew, so neither stdin nor stdout is touched. Whatever was typed before the question
    stood there is no answer to it. One question stands there at a time; where there is no terminal, or this
    program is not in its foreground, the answer is no. Never blocks the event loop, and leaves nothing behind
    when it is cancelled. Lines longer than the terminal is wide are folded, and every row that continues one begins
    with ``  : ``.

    Raises:
        AnyshellError: It was called by anything but a tool that asks.
    """
    _require_question("ask_on_terminal")
    from ._terminal import NoTerminal, one_terminal

    try:
        async with one_terminal() as terminal:
            await terminal.write(f"\n{folded(request.display, terminal.columns())}\n")
            question = f"{_what(request)}, n [REASON] = no: "
            while True:
                await terminal.write(question)
                answer = _parsed(await terminal.read_line())
                if answer is not None:
                    return answer
    except NoTerminal as error:
        return Refused(f"approval cannot be asked for: {error}", by="unanswered")


def _what(request: ApprovalRequest) -> str:
    match request:
        case CommandRequest():
            return "Run this? y = yes, a = always yes to exactly this"
        case JobInputRequest():
            return "Send this? y = yes, a = always yes to exactly this"
        case TerminalInputRequest():
            return "Type this? y = yes, a = always yes to whatever is typed on this terminal"
        case SecretInputRequest():
            return "Type this? y = yes, a = always yes to secrets on this terminal"


def _parsed(line: str | None) -> Approved | Refused | None:
    if line is None:
        return Refused("the terminal was closed without an answer", by="unanswered")
    word, _, reason = line.strip().partition(" ")
    match word.lower():
        case "y" | "yes":
            return None if reason else Approved()
        case "a" | "always":
            return None if reason else Approved(always=True)
        case "n" | "no":
            return Refused(reason.strip())
    return None


def _require_question(name: str) -> None:
    question = _QUESTION.get()
    if question is None or not question.open:
        raise AnyshellError(
            f"{name} answers the questions of a tool and is not called by itself: pass it as approver="
        )


_: tuple[Approver, ...] = (approve_all, deny_all, ask_on_terminal)
