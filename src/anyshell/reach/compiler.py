"""The choice of the sandbox for a reach, by the facts of a host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._exceptions import InvalidCommand, ReachUnavailable
from .bubblewrap import Bubblewrap, missing
from .job_object import JobLimits
from .landlock import Landlock, way_to_landlock
from .sandbox import NONE
from .seatbelt import Seatbelt
from .values import Reach, Widened

if TYPE_CHECKING:
    from .host import Facts
    from .sandbox import Sandbox
    from .view import Places


def compile_reach(reach: Reach, facts: Facts, places: Places | None) -> Sandbox:
    """Choose what enforces a reach: bubblewrap on Linux, Seatbelt on macOS; on Windows the Job Object, which limits alone.

    Landlock alone is chosen only for a reach that says so, where bubblewrap cannot enforce it: it holds less.

    Args:
        reach: With absolute paths.
        facts: The facts of the host.
        places: Its paths; ``None`` for a host that tells them itself, at each start.

    Raises:
        ReachUnavailable: Names the part that the host has not, and how to get it. Nothing weaker is taken instead.
    """
    if not reach.confines:
        return NONE
    if isinstance(reach.network, tuple) and facts.system != "Linux":
        raise ReachUnavailable(
            "a network of named hosts: its proxy needs a network namespace, of Linux",
            "ask for network=False or network=True",
        )
    if facts.system == "Darwin" and places is not None:
        return Seatbelt(reach, places)
    if facts.system == "Windows" and places is not None:
        return JobLimits(reach)
    if facts.system != "Linux":
        raise ReachUnavailable(
            f"a sandbox for {facts.system or 'this system'}: there is one for Linux, macOS and Windows alone",
            "run the commands on a Linux host, or leave the reach out",
        )
    if (lack := lack_of(facts, reach)) is not None:
        if not reach.landlock or facts.python is None:
            raise ReachUnavailable(*lack)
        return Landlock(reach, facts, places)
    if places is not None or facts.python is None:
        return Bubblewrap(reach, facts, places)
    from .host_gate import HostProxies  # here, since few hosts are others

    return Bubblewrap(reach, facts, places, proxies=HostProxies(facts.python))


def lack_of(facts: Facts, reach: Reach | None = None) -> tuple[str, str] | None:
    """The part that a Linux host has not for a reach, by default as most have it, and how to get it; ``None`` if it has all."""
    reach = reach or Reach.preset("workspace")
    lack = missing(reach, facts)
    return lack and (lack[0], lack[1] + way_to_landlock(reach, facts))


def narrow(sandbox: Sandbox, reach: Reach, *, directory: str, home: str) -> Sandbox:
    """The sandbox of a narrower reach than another has, or of a wider one that a person has approved.

    Args:
        sandbox: The sandbox of the environment.
        reach: The narrower one, or a `Widened`.
        directory: The directory of the environment.
        home: The user's.

    Raises:
        InvalidCommand: It is not narrower; or the sandbox is a caller's own, or there is none, and knows no reach.
        ReachUnavailable: The host cannot enforce it.
    """
    if not isinstance(reach, Reach):
        raise InvalidCommand(
            f"reach must be a Reach, such as Reach.preset('workspace'), not {type(reach).__name__}"
        )
    if not isinstance(sandbox, Bubblewrap | Seatbelt | JobLimits):
        raise InvalidCommand(
            "reach: the environment has none, and so none that is narrower: give it one by detect(reach=...)"
        )
    if isinstance(reach, Widened) and not isinstance(sandbox, JobLimits):
        return sandbox.widened(reach, directory)
    return sandbox.narrowed(reach.resolved(directory, home))
