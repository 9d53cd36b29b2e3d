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
    """Choose the sandbox for a reach: bubblewrap on Linux, Seatbelt on macOS, on Windows the Job Object, which has only limits.

    Landlock alone is weaker, and is chosen only if the reach allows Landlock and bubblewrap cannot enforce the reach.

    Args:
        reach: The reach, with absolute paths.
        facts: The facts of the host.
        places: The paths of this machine; ``None`` for another host, which looks at its paths itself at each start.

    Raises:
        ReachUnavailable: The host lacks a part; the message names the part, with advice. No weaker sandbox is used instead.
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
            f"a sandbox for {facts.system or 'this system'}: only Linux, macOS and Windows have one",
            "run the commands on a Linux host, or leave the reach out",
        )
    if (lack := lack_of(facts, reach)) is not None:
        if not reach.landlock or facts.python is None:
            raise ReachUnavailable(*lack)
        return Landlock(reach, facts, places)
    if places is not None or facts.python is None:
        return Bubblewrap(reach, facts, places)
    from .host_gate import HostProxies  # here, since most hosts are this machine

    return Bubblewrap(reach, facts, places, proxies=HostProxies(facts.python))


def lack_of(facts: Facts, reach: Reach | None = None) -> tuple[str, str] | None:
    """Return the part that a Linux host lacks for a reach, with advice; ``None`` without one. Default: preset ``workspace``."""
    reach = reach or Reach.preset("workspace")
    lack = missing(reach, facts)
    return lack and (lack[0], lack[1] + way_to_landlock(reach, facts))


def narrow(sandbox: Sandbox, reach: Reach, *, directory: str, home: str) -> Sandbox:
    """Return the sandbox for a narrower reach, or for a wider reach that a person has approved.

    Args:
        sandbox: The sandbox of the environment.
        reach: The narrower reach, or a `Widened`.
        directory: The directory of the environment.
        home: The user's home directory.

    Raises:
        InvalidCommand: The reach is not narrower; or the environment has no sandbox, or one without a reach that can be
            narrowed.
        ReachUnavailable: The host cannot enforce the reach.
    """
    if not isinstance(reach, Reach):
        raise InvalidCommand(
            f"reach must be a Reach, such as Reach.preset('workspace'), not {type(reach).__name__}"
        )
    if not isinstance(sandbox, Bubblewrap | Seatbelt | JobLimits):
        raise InvalidCommand(
            "reach: the environment has no reach to narrow: give it one by detect(reach=...)"
        )
    if isinstance(reach, Widened) and not isinstance(sandbox, JobLimits):
        return sandbox.widened(reach, directory)
    return sandbox.narrowed(reach.resolved(directory, home))
