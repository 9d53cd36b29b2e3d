"""A queue of questions for a user interface."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ..._exceptions import AnyshellError
from ..._types import Refused

if TYPE_CHECKING:
    from ..._types import ApprovalRequest, Approved
    from ...abc import Approver

QUEUED = 100
"""Questions that a queue holds until they are answered; one more is refused."""


class Question:
    """A request that waits for its answer.

    Args:
        request: The request of the question.
    """

    def __init__(self, request: ApprovalRequest) -> None:
        self.request = request
        self._answer: asyncio.Future[Approved | Refused] = asyncio.get_running_loop().create_future()

    @property
    def open(self) -> bool:
        """Whether it waits for an answer still: the call may have been cancelled, or its time be over."""
        return not self._answer.done()

    def answer(self, answer: Approved | Refused) -> bool:
        """Answer it, in its event loop. One answer counts, while it is `open`; says whether this one does."""
        if self.open:
            self._answer.set_result(answer)
            return True
        return False


class ApprovalQueue:
    """An approver whose questions another task answers: ``async for question in queue: question.answer(...)``.

    One task iterates. It is given each question that is open when its turn comes.

    Args:
        limit: Questions that may wait for an answer at once, at least one.

    Raises:
        AnyshellError: `limit` is less.
    """

    def __init__(self, *, limit: int = QUEUED) -> None:
        if limit < 1:
            raise AnyshellError(f"limit must be at least 1, not {limit}")
        self._limit = limit
        self._open = 0
        self._closed = False
        self._waiting: dict[Question, None] = {}  # those that the iteration has not given yet, in order
        self._changed = asyncio.Event()

    async def __call__(self, request: ApprovalRequest, /) -> Approved | Refused:
        """Let a request wait for its answer."""
        if self._closed or self._open >= self._limit:
            reason = "no one answers any more" if self._closed else f"{self._open} questions wait already"
            return Refused(f"approval cannot be asked for: {reason}", by="unanswered")
        question = Question(request)
        self._waiting[question] = None
        self._open += 1
        self._changed.set()
        try:
            return await question._answer  # cancelled with the call, and so no longer open
        finally:
            self._waiting.pop(question, None)
            self._open -= 1

    def close(self) -> None:
        """Refuse what is asked from now on, and end the iteration after the questions that are there."""
        self._closed = True
        self._changed.set()

    def __aiter__(self) -> ApprovalQueue:
        return self

    async def __anext__(self) -> Question:
        while not self._waiting:
            if self._closed:
                raise StopAsyncIteration
            self._changed.clear()
            await self._changed.wait()
        question = next(iter(self._waiting))
        del self._waiting[question]
        return question


def _is_an_approver(queue: ApprovalQueue) -> Approver:
    return queue
