"""Questions to the approver, each once: never again for a granted request, never twice at once for the same request."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import logging
from collections import OrderedDict, deque
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from .. import _types, policy
from .._exceptions import AnyshellError
from .._types import (
    Approved,
    CommandRequest,
    NetworkRequest,
    Refused,
    SecretInputRequest,
    TerminalInputRequest,
)
from .._waits import in_a_worker

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .._types import ApprovalRequest, Grant
    from ..abc import Approver

_LOG = logging.getLogger(__name__)

REMEMBERED = 1000
"""Requests, and as many grants, that are approved for later; beyond that the one used longest ago is forgotten."""

QUESTIONS = 100
"""Questions of a tool that wait for the approver's answer; one more is refused."""


@dataclass(frozen=True, slots=True, eq=False)
class _OpenQuestion:
    """A request that waits for the approver. `answer` becomes ``None`` if the call is cancelled."""

    request: ApprovalRequest
    place: bytes
    granted: tuple[Grant, ...]
    answer: asyncio.Future[Approved | Refused | None]


class Approvals:
    """The approvals of one tool, and the grants that its approver has given.

    Args:
        approver: The function that decides.
        timeout: Seconds to wait for an answer; then the request is refused.
        shared: Whether commands that need the same answer share one question.

    Raises:
        AnyshellError: `approver` is not a function of one argument.
    """

    def __init__(self, approver: Approver, *, timeout: float, shared: bool = True) -> None:
        given: object = approver
        if not callable(given) or isinstance(given, type):  # the class Approved would approve everything
            what = f"the class {given.__name__}" if isinstance(given, type) else type(given).__name__
            raise AnyshellError(
                f"approver must be a function that answers a request, not {what}: for one, "
                "anyshell.ask_on_terminal; anyshell.approve_all runs everything"
            )
        try:
            inspect.signature(approver).bind(None)
        except TypeError as error:
            raise AnyshellError(
                f"approver is called with one argument, the request, and takes another number ({error}): "
                "lambda request: anyshell.Approved()"
            ) from None
        except ValueError:
            pass  # a function of C, whose arguments are not known
        self._approver = approver
        self._timeout = timeout
        self._shared = shared
        self._always: OrderedDict[bytes, None] = OrderedDict()
        self._grants: deque[tuple[bytes, Grant]] = deque(maxlen=REMEMBERED)
        self._open: dict[object, _OpenQuestion] = {}

    @property
    def name(self) -> str:
        """The name of the approver for the audit."""
        return getattr(self._approver, "__name__", type(self._approver).__name__)

    def question(self, request: CommandRequest, *, given: bool) -> ApprovalRequest:
        """Return the request to put to the approver: a `ReachRequest` if paths beyond the reach are not granted yet.

        Args:
            request: The command.
            given: Whether the rules grant all paths that the command asks for.
        """
        if given or all(place in self._always for place in _path_digests(request)):
            return request
        return _types.ReachRequest(**{each.name: getattr(request, each.name) for each in fields(request)})

    async def ask(
        self,
        request: ApprovalRequest,
        *,
        tool: str = "",
        arguments: Mapping[str, object] | None = None,
        state: tuple[str, ...] = (),
    ) -> Approved | Refused:
        """Put a request to the approver, unless already granted; commands that need the same answer share one question.

        Inputs to a running program never share a question: the same input can mean something else the second time.

        Args:
            request: The request for approval.
            tool: The tool that asks.
            arguments: The arguments of the model.
            state: The further facts that decide the request's effect; an approval holds for this state alone.
        """
        key = key_of(request, state)
        while not self._granted(request, key):
            other = None
            if isinstance(request, CommandRequest) and self._shared:
                other = self._open.get(key) or self._may_grant(request)
            if other is None:
                return await self._put(replace(request, tool=tool, arguments=arguments or {}), key)
            await asyncio.wait([other.answer])  # the timeout of the other question bounds this wait
            answer = other.answer.result()
            # The answer itself counts only for an equal request. Otherwise check again: it may have granted this request.
            if answer is not None and other.request == request:
                return answer
        return Approved()

    def _granted(self, request: ApprovalRequest, key: bytes) -> bool:
        if key in self._always:
            self._always.move_to_end(key)
            return True
        if not isinstance(request, CommandRequest) or not self._grants:
            return False
        place = place_of(request)
        return policy.covered(request.verdict, [grant for where, grant in self._grants if where == place])

    def _may_grant(self, request: ApprovalRequest) -> _OpenQuestion | None:
        """Return an open question whose grants would cover a request; ``None`` without such a question."""
        waiting = [each for each in self._open.values() if each.granted]
        if not waiting or not isinstance(request, CommandRequest):
            return None
        place = place_of(request)
        there = (each for each in waiting if each.place == place)
        return next((each for each in there if policy.covered(request.verdict, each.granted)), None)

    async def _put(self, request: ApprovalRequest, key: bytes) -> Approved | Refused:
        if len(self._open) >= QUESTIONS:
            return Refused(f"{QUESTIONS} questions wait for an answer already", by="unanswered")
        proposed = policy.grants(request.verdict) if isinstance(request, CommandRequest) else ()
        place = place_of(request) if isinstance(request, CommandRequest) and proposed else b""
        question = _OpenQuestion(request, place, proposed, asyncio.get_running_loop().create_future())
        number: object = key if isinstance(request, CommandRequest) and self._shared else question
        self._open[number] = question
        answer = None
        try:
            shown = replace(request, display=policy.display(request))
            answer = await policy.ask(self._approver, shown, timeout=self._timeout)
            if isinstance(answer, Approved) and answer.always:
                await self._remember(request, key, answer)
        finally:
            del self._open[number]
            question.answer.set_result(answer)
        return answer

    async def _remember(self, request: ApprovalRequest, key: bytes, answer: Approved) -> None:
        for each in _path_digests(request) if isinstance(request, _types.ReachRequest) else [key]:
            self._always[each] = None
            if len(self._always) > REMEMBERED:
                self._always.popitem(last=False)
        if isinstance(request, NetworkRequest) and answer.scope == "always" and request.rules:
            from ..policy.approval.saving import save_destination  # as below

            await _saved(
                partial(save_destination, request.name, request.port, request.text, Path(request.rules))
            )
        if isinstance(request, _types.ReachRequest) and answer.scope == "always" and request.rules:
            from ..policy.approval.saving import save_places  # as below

            await _saved(partial(save_places, request, Path(request.rules)))
        if not isinstance(request, CommandRequest):
            return
        place = place_of(request)
        self._grants.extend((place, grant) for grant in answer.grants)
        if answer.scope == "always" and request.rules:
            from ..policy.approval.grants import is_given_more  # most answers are not for always
            from ..policy.approval.saving import save

            if is_given_more(request):
                _LOG.warning(
                    "a rule for always has neither input nor variables: the grant holds for this session alone"
                )
                return
            await _saved(partial(save, answer.grants, Path(request.rules)))


async def _saved(save: Callable[[], None]) -> None:
    try:
        await in_a_worker(save)
    except (AnyshellError, OSError) as error:
        _LOG.warning("what was granted for always holds for this session alone: %s", error)


def key_of(request: ApprovalRequest, state: tuple[str, ...] = ()) -> bytes:
    """Return a digest of all facts that decide a request's effect in a state; whole requests could take any memory.

    All text typed on one terminal has the same digest, that of the terminal's unique id; secrets typed there have another.
    """
    match request:
        case TerminalInputRequest() | SecretInputRequest():
            return _digest(request, (request.terminal,), state)
        case NetworkRequest():
            return _digest(request, (request.host, request.name, request.port), state)
        case _:
            return digest_of(request, state)


def _path_digests(request: CommandRequest | _types.ReachRequest) -> list[bytes]:
    """Return a digest of each path that a command asks for beyond its reach, with the kind of access."""
    kinds = (("write", request.also_write), ("read", request.also_read))
    return [
        _digest("beyond", (request.host, kind, path, path in request.hidden), ())
        for kind, paths in kinds
        for path in paths
    ]


def digest_of(request: ApprovalRequest, state: tuple[str, ...] = ()) -> bytes:
    """Return a digest of exactly the fields that decide a request's effect: equal requests have equal digests."""
    parts = tuple(getattr(request, field.name) for field in fields(request) if field.compare)
    return _digest(request, parts, state)


def _digest(of: ApprovalRequest | str, parts: tuple[object, ...], state: tuple[str, ...]) -> bytes:
    # `repr` delimits the parts: no part can pass for another part, or for two parts.
    return hashlib.sha256(
        repr((of if isinstance(of, str) else type(of).__name__, parts, state)).encode()
    ).digest()


def place_of(request: CommandRequest) -> bytes:
    """Return a digest of all facts but the text that decide a command's effect; grants hold for this digest alone."""
    env = tuple(pair for pair in request.env if pair[0] != "OLDPWD")  # a rewritten leading cd sets OLDPWD
    return key_of(replace(request, text="", original=None, timeout=None, fresh=False, env=env))
