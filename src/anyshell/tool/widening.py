"""Requests of a command beyond its reach: for paths before the run, for network destinations during the run."""

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
"""The fields of a command's request that a question about a destination copies."""

_LONGEST_REASON = 200
"""Characters of a reason that a command is told; the rest is cut."""

_KERNEL = ("/proc", "/sys", "/dev")
"""Paths that lead out of every sandbox; no approval grants these paths."""


def can_be_widened(env: Environment) -> bool:
    """Whether commands have a reach to which a person can add paths."""
    return env.os != "windows" and env.reach is not None and env.reach.confines


def beyond(call: Call, env: Environment, directory: str) -> dict[str, Any]:
    """Return the paths that a call asks for beyond its reach, as fields of a request.

    Args:
        call: The call.
        env: The environment of the call.
        directory: The directory to which the call's paths are relative.

    Raises:
        InvalidCommand: A path is never granted, or lies below a hidden or protected path.
    """
    reach = env.reach
    if reach is None or not (call.also_write or call.also_read):
        return {}
    from ..reach import PRIVATE, lies_in  # here, since few calls ask for more

    named = [path for path in reach.read if path != "/"]
    asked: dict[str, list[str]] = {"also_write": [], "also_read": [], "protected": [], "hidden": []}
    for kind, paths in (("also_write", call.also_write), ("also_read", call.also_read)):
        for given in paths:
            # `normpath` keeps two leading slashes, as POSIX says; here two slashes mean one slash.
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
    """Return the reach in which an approved request runs."""
    more = widened(request)
    return env.reach if more is None or env.reach is None else more.over(env.reach, env.directory)


def widened(request: CommandRequest) -> Widened | None:
    """Return the widening of an approved request's reach; ``None`` if the request asks for no more paths."""
    if not (request.also_write or request.also_read):
        return None
    from ..reach import Widened

    return Widened(read=request.also_read, write=request.also_write)


def _kept(verb: str, path: str, places: tuple[str, ...]) -> bool:
    """Whether a reach hides or protects exactly this path.

    Raises:
        InvalidCommand: The path lies below a hidden or protected path, which can only be granted whole.
    """
    from ..reach import lies_in

    above = next((each for each in places if lies_in(path, (each,))), path)
    if above != path:
        raise InvalidCommand(f"the sandbox {verb} {above} whole, and so {path}: ask for {above}")
    return path in places


def asking_for(
    request: CommandRequest, ongoing: Ongoing, *, env: Environment, decisions: Decisions
) -> AbstractContextManager[None]:
    """Return a context in which a command's requests for network destinations go to the approver, as part of a call."""
    if env.reach is None or not isinstance(env.reach.network, tuple):
        return nullcontext()
    from ..reach import asking  # here, since few reaches have names of hosts

    async def ask(name: str, port: int) -> str:
        wanted = NetworkRequest(**{each: getattr(request, each) for each in _SHARED}, name=name, port=port)
        answer = (await decisions.decide(wanted, ongoing)).answer
        if isinstance(answer, Approved):
            return ""
        who = {"user": "the user has refused it", "policy": "the policy refuses it"}.get(
            answer.by, "its approval could not be asked for"
        )
        reason = one_line(answer.reason[:_LONGEST_REASON])
        return f"{who}: {reason}" if reason else who

    return asking(ask)
