"""The wishes of a command beyond its reach, and the questions about them: paths before it runs, destinations while it does."""

from __future__ import annotations

import posixpath
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from .._exceptions import InvalidCommand
from .._types import Approved, NetworkRequest, one_line

if TYPE_CHECKING:
    from .._environment import Environment
    from .._types import CommandRequest
    from ..reach import Reach, Widened
    from .calls import Ongoing
    from .decisions import Decisions
    from .params import Call

_SHARED = ("text", "shell", "host", "directory", "prefix", "snapshot", "description", "call_id")
"""The fields of a command that its question takes over."""

_LONGEST_REASON = 200
"""Characters of a reason that a command is told."""

_KERNEL = ("/proc", "/sys", "/dev")
"""Paths that lead out of every sandbox, so that no answer gives them."""


def can_be_widened(env: Environment) -> bool:
    """Whether commands have a reach to which a person can add paths."""
    return env.os != "windows" and env.reach is not None and env.reach.confines


def beyond(call: Call, env: Environment, directory: str) -> dict[str, Any]:
    """The paths that a call asks for and its reach has not, as fields of a request.

    Args:
        call: Asks for them.
        env: Its environment.
        directory: To which its paths are relative.

    Raises:
        InvalidCommand: A path is not valid.
    """
    reach = env.reach
    if reach is None or not (call.also_write or call.also_read):
        return {}
    from ..reach import PRIVATE, lies_in  # here, since few calls ask for more

    named = [path for path in reach.read if path != "/"]
    asked: dict[str, list[str]] = {"also_write": [], "also_read": [], "protected": [], "hidden": []}
    for kind, paths in (("also_write", call.also_write), ("also_read", call.also_read)):
        for given in paths:
            # POSIX leaves two slashes at the start alone; here they mean what one does.
            path = "/" + posixpath.normpath(env.info.resolve(given, directory)).lstrip("/")
            hidden = _kept("hides", path, reach.hide)
            kept = kind == "also_write" and _kept("keeps", path, reach.protect)
            if not (hidden or kept) and lies_in(path, reach.write):
                continue
            seen = lies_in(path, named if lies_in(path, PRIVATE) else reach.read)
            if kind == "also_read" and not hidden and seen:
                continue
            if path in ("/", *PRIVATE) or lies_in(path, _KERNEL):
                raise InvalidCommand(
                    f"{kind}: {path} is never given: name what is needed below it, if anything"
                )
            for name, counts in ((kind, True), ("hidden", hidden), ("protected", kept)):
                if counts and path not in asked[name]:
                    asked[name].append(path)
    return {name: tuple(sorted(paths)) for name, paths in asked.items()}


def reach_of(request: CommandRequest, env: Environment) -> Reach | None:
    """The reach that an approved request runs in."""
    more = widened(request)
    return env.reach if more is None or env.reach is None else more.over(env.reach, env.directory)


def widened(request: CommandRequest) -> Widened | None:
    """The widened reach with which an approved request runs; ``None`` if it needs none."""
    if not (request.also_write or request.also_read):
        return None
    from ..reach import Widened

    return Widened(read=request.also_read, write=request.also_write)


def _kept(verb: str, path: str, places: tuple[str, ...]) -> bool:
    """Whether a path is one of those that a reach hides or protects.

    Raises:
        InvalidCommand: It lies below one: that is given whole, or not at all.
    """
    from ..reach import lies_in

    above = next((each for each in places if lies_in(path, (each,))), path)
    if above != path:
        raise InvalidCommand(f"the sandbox {verb} {above} whole, and so {path}: ask for {above}")
    return path in places


def asking_for(
    request: CommandRequest, ongoing: Ongoing, *, env: Environment, decisions: Decisions
) -> AbstractContextManager[None]:
    """Have what is run within ask the approver about destinations, as a part of a call."""
    if env.reach is None or not isinstance(env.reach.network, tuple):
        return nullcontext()
    from ..reach import asking  # here, since few tools have such a reach

    async def ask(name: str, port: int) -> str:
        wanted = NetworkRequest(**{each: getattr(request, each) for each in _SHARED}, name=name, port=port)
        answer = (await decisions.decide(wanted, ongoing)).answer
        if isinstance(answer, Approved):
            return ""
        who = {"user": "the user has refused it", "policy": "the policy refuses it"}.get(
            answer.by, "its approval could not be had"
        )
        reason = one_line(answer.reason[:_LONGEST_REASON])
        return f"{who}: {reason}" if reason else who

    return asking(ask)
