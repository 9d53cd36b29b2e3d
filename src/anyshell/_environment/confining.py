"""The enforcement of an environment's reach, chosen by the facts of its host."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from .._exceptions import InvalidCommand, ReachUnavailable
from ..backends.collect import collect
from ..reach import NONE

if TYPE_CHECKING:
    from .._types import HostInfo
    from ..abc import Backend
    from ..reach import Facts, Reach, Sandbox


async def sandbox_for(
    asked: Reach | Sandbox | None,
    backend: Backend,
    info: HostInfo,
    directory: str,
    *,
    most: Reach | None = None,
    facts: Facts | None = None,
) -> Sandbox:
    """Choose the sandbox that enforces a reach on a host.

    Args:
        asked: The reach, or a sandbox of the caller's own.
        backend: The backend of the host.
        info: The facts of the host.
        directory: The directory to which the paths are relative.
        most: The reach of the policy: `asked` may not exceed it, and everything that `most` hides, protects and limits stays
            so.
        facts: The host's means of confining commands; with ``None`` the host is asked.

    Raises:
        InvalidCommand: `asked` exceeds the reach of the policy, or is a sandbox that cannot be compared with that reach.
        ReachUnavailable: The host cannot enforce the reach.
    """
    if asked is None and most is None:
        return NONE
    from .. import reach  # here, since few environments have one

    if asked is not None and not isinstance(asked, reach.Reach):
        if most is not None:
            raise InvalidCommand(
                "reach: the reach of the policy cannot be compared with a sandbox of your own: leave out one of the two"
            )
        return asked
    if most is not None and not most.confines:
        most = None
    outer = most or asked
    if outer is None or not outer.confines:
        return NONE
    if info.os != "linux" and not info.is_this_machine:
        raise ReachUnavailable(
            f"a sandbox for {info.name}: only a Linux host has one",
            "run anyshell on that host, or leave the reach out",
        )
    if info.os == "windows":
        facts = reach.Facts(system="Windows")
    facts = facts or await facts_of(backend, here=info.is_this_machine)
    places = reach.LocalPlaces() if info.is_this_machine else None
    sandbox = reach.compile_reach(outer.resolved(directory, info.home), facts, places)
    if asked is None or asked is outer:
        return sandbox
    return reach.narrow(sandbox, asked, directory=directory, home=info.home)


async def facts_of(backend: Backend, *, here: bool) -> Facts:
    """Ask a host for its means of confining commands.

    Args:
        backend: The backend of the host.
        here: Whether the host is this machine.
    """
    from .. import reach

    answer = b""
    with contextlib.suppress(TimeoutError):
        asked = reach.question(reach.python_here() if here else "python3")
        _, answer, _ = await collect(backend, asked, seconds=reach.ANSWER_SECONDS, most=reach.ANSWER_BYTES)
    return reach.read_facts(answer)
