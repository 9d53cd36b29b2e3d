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
"""Questions in a queue that wait for their answers; one more is refused."""


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
        """Whether the question still waits for an answer; not after an answer, a timeout, or a cancelled call."""
        return not self._answer.done()

    def answer(self, answer: Approved | Refused) -> bool:
        """Answer the question, in its event loop. Only the first answer to an `open` question counts.

        Return whether this answer counts.
        """
        if self.open:
            self._answer.set_result(answer)
            return True
        return False


class ApprovalQueue:
    """An approver whose questions another task answers: ``async for question in queue: question.answer(...)``.

    One task iterates. The task gets each question that is still open when the question's turn comes.

    Args:
        limit: Questions that may wait for an answer at once, at least one.

    Raises:
        AnyshellError: `limit` is less than 1.
    """

    def __init__(self, *, limit: int = QUEUED) -> None:
        if limit < 1:
            raise AnyshellError(f"limit must be at least 1, not {limit}")
        self._limit = limit
        self._open = 0
        self._closed = False
        self._waiting: dict[Question, None] = {}  # questions that the iteration has not given yet, in order
        self._changed = asyncio.Event()

    async def __call__(self, request: ApprovalRequest, /) -> Approved | Refused:
        """Queue a request and wait for its answer."""
        if self._closed or self._open >= self._limit:
            reason = "the queue is closed" if self._closed else f"{self._open} questions wait already"
            return Refused(f"approval cannot be asked for: {reason}", by="unanswered")
        question = Question(request)
        self._waiting[question] = None
        self._open += 1
        self._changed.set()
        try:
            return await question._answer  # a cancelled call cancels this future, and so closes the question
        finally:
            self._waiting.pop(question, None)
            self._open -= 1

    def close(self) -> None:
        """Refuse all later questions, and end the iteration after the waiting questions."""
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
