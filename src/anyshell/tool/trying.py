"""The trial of a call whose approver sees the command's effects on files before the answer: ``approve="effects"``."""

from __future__ import annotations

from contextlib import AsyncExitStack, aclosing, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, get_args

from .._exceptions import AnyshellError, ReachUnavailable
from .._types import check_choice

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractAsyncContextManager

    from .._engine import Control
    from .._environment import Environment
    from .._types import CommandRequest, Outcome, OutputLimits
    from ..reach import Reach
    from ..trial import Trial


Approve = Literal["command", "effects"]
"""The view of an approver: the text of a command, or also its effects on files."""


class Tries:
    """The trials of one tool.

    Args:
        env: The environment of the tool.
        approve: The view of the approver.
        session: Whether the commands of the tool run in one shell.
        silence: As for the tool.
        grace: As for the tool.

    Raises:
        AnyshellError: `approve` is not a known view; or it is ``effects``, and the host has no trials, or commands run in
            a session.
    """

    def __init__(
        self, env: Environment, approve: Approve, *, session: bool, silence: float | None, grace: float
    ) -> None:
        check_choice("approve", approve, get_args(Approve))
        self.wanted = approve == "effects"
        if self.wanted and session:
            raise AnyshellError("approve='effects' is for commands in fresh shells: leave out session=True")
        if self.wanted and env.os != "linux":
            raise ReachUnavailable("overlays: a trial runs on Linux alone", "use approve='command'")
        self._env = env
        self._options = {"silence": silence, "grace": grace}

    def of(
        self,
        request: CommandRequest,
        limits: Callable[[], OutputLimits | None],
        control: Control,
        *,
        split_stderr: bool,
    ) -> AbstractAsyncContextManager[Trying | None]:
        """Return the trial of one call as a context; ``None`` for a job, on a terminal, and for paths beyond the reach."""
        more = request.also_write or request.also_read
        if not self.wanted or request.background or request.size is not None or more:
            return nullcontext()
        options = {"limits": limits(), "split_stderr": split_stderr, "control": control}
        return aclosing(Trying(self._env, {**self._options, **options}))


class Trying:
    """The trial of one call; the trial begins right before the approver is asked.

    Args:
        env: The environment of the trial.
        options: The options of `Environment.trial`.
    """

    def __init__(self, env: Environment, options: Mapping[str, Any]) -> None:
        self._env, self._options = env, options
        self._stack = AsyncExitStack()
        self._trial: Trial | None = None

    async def __call__(self, request: CommandRequest) -> CommandRequest:
        """Run the command on trial, and return the request with the command's effects."""
        trial = self._env.trial(
            request.text,
            cwd=request.directory,
            env=dict(request.env),
            stdin=request.stdin,
            timeout=request.timeout,
            reach=_reach_before_the_answer(self._env),
            **self._options,
        )
        self._trial = await self._stack.enter_async_context(trial)
        return replace(request, effects=trial.effects)

    async def commit(self) -> Outcome | None:
        """Commit the trial and return its outcome; ``None`` if no trial ran, since the approver was not asked."""
        if self._trial is None:
            return None
        await self._trial.commit()
        return self._trial.outcome

    async def aclose(self) -> None:
        """Discard the effects that were not committed."""
        await self._stack.aclose()


def _reach_before_the_answer(env: Environment) -> Reach:
    """Return the reach before the approval: no network, since sending cannot be undone, and by default no secrets."""
    from ..reach import Reach  # here and below, since few tools need these modules
    from ..reach.bubblewrap import Bubblewrap

    sandbox = env.runner.sandbox
    own = (
        sandbox.reach if isinstance(sandbox, Bubblewrap) else Reach(read=("/", "."), write=(".",), protect=())
    )
    return replace(own, network=False)
