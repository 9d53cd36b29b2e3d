"""The sandbox by Landlock alone, for hosts where bubblewrap can make no namespaces: weaker, so only for a reach that asks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from .._exceptions import InvalidCommand, ReachUnavailable
from .bubblewrap import SCOPED_SINCE, Bubblewrap, limits
from .host import text_of
from .values import lies_in
from .view import View

if TYPE_CHECKING:
    from collections.abc import Collection

    from .._types import Spawn
    from .host import Facts
    from .values import Reach

_SCOPES = 3  # no bound
"""The scopes of Landlock for abstract sockets and signals, since version 6."""


def inexpressible(reach: Reach) -> dict[str, str]:
    """Return the fields of a reach that Landlock cannot enforce, each with a value that Landlock can enforce."""
    found = {}
    if reach.network is not True:
        found["network"] = "network=True"  # Landlock confines neither UDP nor sockets of the file system
    if lies_in("/proc", reach.write) or lies_in("/sys", reach.write) or lies_in("/dev", reach.write):
        found["write"] = "write= without /, /proc, /sys and /dev"
    if any(lies_in(path, reach.write) for path in reach.protect):
        found["protect"] = "protect=[]"
    if any(lies_in(path, reach.write) for path in reach.hide):
        found["hide"] = "hide= without what lies in write="
    if reach.limits.processes is not None:
        found["limits"] = "no limit of processes"
    return found


def way_to_landlock(reach: Reach, facts: Facts) -> str:
    """Return the advice to use Landlock alone; empty if the host lacks Landlock or Python."""
    if facts.landlock < SCOPED_SINCE or facts.python is None:
        return ""
    asked = ", ".join(("landlock=True", *inexpressible(reach).values()))
    return f"; or, to be held by Landlock alone, which holds less, ask for a Reach with {asked}"


@dataclass(frozen=True, slots=True)
class Landlock(Bubblewrap):
    """The sandbox that confines commands to a reach by Landlock alone.

    The program inside becomes the command, in the namespaces of this program.

    Raises:
        ReachUnavailable: The host's Landlock cannot confine signals, or Landlock cannot enforce a field of the reach.
    """

    lacks: ClassVar[Collection[str]] = ("privilege", "kernel")

    def __post_init__(self) -> None:
        if self.facts.landlock < SCOPED_SINCE:
            raise ReachUnavailable(
                f"Landlock of version {SCOPED_SINCE}, of Linux 6.12: this is {self.facts.landlock}",
                "use another kernel, or user namespaces",
            )
        if found := inexpressible(self.reach):
            raise ReachUnavailable(
                f"{', '.join(found)}: Landlock alone cannot enforce that",
                f"ask for {', '.join(found.values())}",
            )

    def wrap(self, spawn: Spawn) -> Spawn:
        """Return the program inside, which becomes the command. Raises as `Bubblewrap.wrap`."""
        assert self.facts.python is not None
        plan = {name: paths for name, paths in self._plan(spawn).items() if name != "beside"}
        python = (self.facts.python, "-I", "-S", "-c")
        words = (
            *python,
            text_of("inside.py"),
            f"scope={_SCOPES}",
            *limits(self.reach.limits, ()),
            "--",
            *spawn.argv,
        )
        if self.places is not None:
            view = View(plan, self.places)
            if wrong := view.wrong(spawn.cwd) or view.unruled():
                raise InvalidCommand(wrong)
            return replace(spawn, argv=tuple(view.ruled(words)))
        self._check(spawn)
        given = (f"{name}={path}" for name, paths in plan.items() for path in paths)
        return replace(
            spawn, argv=(*python, text_of("view.py"), *given, f"cwd={spawn.cwd}", "--", "--", *words)
        )
