"""A reach as the command line of bubblewrap (bwrap(1)), of version 0.8 and later; `view` makes the mounts of it."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from .._exceptions import InvalidCommand, ReachUnavailable
from .._types import Names
from .host import text_of
from .places import PRIVATE, SYSTEM
from .values import lies_in
from .view import View, not_within

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from .._types import Spawn
    from .host import Facts
    from .host_gate import HostProxies
    from .values import Limits, Reach, Widened
    from .view import Places

OLDEST = (0, 8)  # no bound
"""The oldest bubblewrap that has what is used here: ``--size`` and ``--disable-userns``."""

SCOPED_SINCE = 6  # no bound
"""The version of Landlock that keeps a process from abstract sockets of processes outside."""

STATUS_FD = 6  # no bound
"""The descriptor at which the program inside tells the leader how the command ended."""

ERRORS_FD = 5  # no bound
"""The descriptor at which the program inside has the command's standard error: what bubblewrap says is the leader's."""

OWN_PROCESSES = 3  # no bound
"""Processes of a sandbox beside the command: bubblewrap, the first of its pid namespace, and the program inside."""

_HELP = {
    "user": "user namespaces: bubblewrap cannot make one here",
    "pid": "a pid namespace: bubblewrap cannot make one here",
    "net": "an empty network: bubblewrap cannot make a network namespace here",
    "proc": "a /proc of its own: bubblewrap cannot mount one here, as in a container that masks a part of /proc",
}

_SYSCTL = "sysctl kernel.apparmor_restrict_unprivileged_userns=0"

_APPARMOR = f"AppArmor restricts them: install the profile bwrap-userns-restrict of the package apparmor-profiles, or {_SYSCTL}"


def _way_in_a_container(facts: Facts) -> str:
    """The options of a container in which bubblewrap can make its namespaces, and a setting of its host.

    Docker's profile of seccomp allows no namespaces, the parts of /proc that it masks allow no /proc of another pid
    namespace (`mount_namespaces(7)`), and its profile for AppArmor allows no mount; without that profile the restriction of
    Ubuntu holds (typeclaw/typeclaw#1441). Bubblewrap tells of one of these at a time.
    """
    options = (
        "in a container run that with --security-opt seccomp=unconfined --security-opt systempaths=unconfined"
    )
    if not facts.profile:
        return options
    options += " --security-opt apparmor=unconfined"
    return f"{options} on a host with {_SYSCTL}" if facts.apparmor else options


def _way(part: str, facts: Facts) -> str:
    """The advice to get a part, by the obstacle of bubblewrap."""
    if part == "proc" and not facts.profile:
        return "run the container with --security-opt systempaths=unconfined"
    why = facts.cannot[part]
    if part == "user":
        if facts.setuid and facts.uid != 0:
            return f"take the setuid bit from it, with which it knows less: chmod u-s {facts.bwrap}"
        if facts.most_namespaces == 0:
            return "allow them: sysctl user.max_user_namespaces=10000"
        if not facts.allowed:
            return "allow them: sysctl kernel.unprivileged_userns_clone=1"
    # AppArmor lets an ordinary user's program make one, and takes all capabilities in it.
    if facts.apparmor and not facts.profile and "No permissions" not in why:
        return _APPARMOR
    way = _way_in_a_container(facts)
    if part == "user":
        return f"{way}; otherwise have a kernel with CONFIG_USER_NS, or use a virtual machine"
    return f"{way}, or ask for network=True" if part == "net" else way


def missing(reach: Reach, facts: Facts) -> tuple[str, str] | None:
    """The part that bubblewrap needs for a reach and this host has not, and how to get it; ``None`` if it has all."""
    if facts.bwrap is None:
        return "bubblewrap: there is no program bwrap on PATH", "apt-get install bubblewrap"
    if tuple(int(part) for part in facts.version.split(".")[:2] if part.isdigit()) < OLDEST:
        return (
            f"bubblewrap 0.8 or later: this is {facts.version or 'of unknown version'}",
            "install a newer one",
        )
    for part, what in _HELP.items():
        if part in facts.cannot and (part != "net" or reach.network is not True):
            return f"{what} ({facts.cannot[part]})", _way(part, facts)
    if facts.python is None:
        return "Python 3: no program python3 on PATH", "apt-get install python3-minimal"
    if (
        reach.limits.processes is not None
        and "pids" not in facts.controllers
        and not facts.counts_processes()
    ):
        return (
            "limits: processes: the kernel does not count those of root, nor before 5.14 those of one command",
            "run it as an ordinary user or where cgroup v2 is delegated, or leave the limit out",
        )
    return None


@dataclass(frozen=True, slots=True)
class Bubblewrap:
    """Runs commands within a reach, by bubblewrap.

    Args:
        reach: With absolute paths.
        facts: The facts of the host.
        places: Its paths; ``None`` for a host that tells them itself, at each start.
        outer: The reaches that `reach` must lie in, such as that of the environment of one call.
        given: Paths of it that a person has approved: these, and nothing that links make of them.
        proxies: The server of networks on another host.

    Raises:
        ReachUnavailable: The host has not what the reach needs.
    """

    reach: Reach
    facts: Facts
    places: Places | None
    outer: tuple[Reach, ...] = ()
    proxies: HostProxies | None = None
    given: tuple[str, ...] = ()
    lacks: ClassVar[Collection[str]] = ("privilege", "process", "network", "kernel", "private")

    def __post_init__(self) -> None:
        if (lack := missing(self.reach, self.facts)) is not None:
            raise ReachUnavailable(*lack)
        if self.places is None and isinstance(self.reach.network, tuple):
            from .host_gate import OLDEST_PYTHON

            version = self.facts.python_version
            if tuple(int(part) for part in version.split(".") if part.isdigit()) < OLDEST_PYTHON:
                raise ReachUnavailable(
                    f"Python {OLDEST_PYTHON[0]}.{OLDEST_PYTHON[1]} or later as python3, which serves a network of named hosts "
                    f"there: this is {version or 'of unknown version'}",
                    "install a newer one before it on PATH, or ask for network=False or network=True",
                )

    def narrowed(self, reach: Reach) -> Bubblewrap:
        """The sandbox of a narrower reach; what this one hides, protects and limits stays so.

        Raises:
            InvalidCommand: It is not narrower.
            ReachUnavailable: As for a new one.
        """
        return replace(self, reach=reach.within(self.reach), outer=(*self.outer, self.reach))

    def widened(self, more: Widened, directory: str) -> Bubblewrap:
        """The sandbox with the paths that a person has approved, in a directory of an environment. Raises as `narrowed`."""
        outer = tuple(more.over(each, directory) for each in self.outer)
        given = (*more.read, *more.write)
        return replace(self, reach=more.over(self.reach, directory), outer=outer, given=given)

    def wrap(self, spawn: Spawn) -> Spawn:
        """Have the leader start bubblewrap, that the program inside, and that the command.

        Raises:
            InvalidCommand: The directory is not within the reach, or a path that may be written is not there. A host that makes
                the view itself says so of what only it can know, such as links, instead of running the command.
        """
        assert self.facts.bwrap is not None
        assert self.facts.python is not None
        options = [
            *(self.facts.bwrap, "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts"),
            *("--unshare-cgroup-try", "--disable-userns", "--cap-drop", "ALL"),
        ]
        if self.reach.network is not True:
            options.append("--unshare-net")
        plan = self._plan(spawn)
        inside = [
            f"status={STATUS_FD}",
            f"errors={ERRORS_FD}",
            *limits(self.reach.limits, self.facts.controllers),
        ]
        group = self._group()
        if isinstance(self.reach.network, tuple):
            from .gate import INSIDE, Gate  # here, since few reaches have names

            names = Names(self.reach.network)
            gate = Gate(names) if self.proxies is None else self.proxies.gate(names)
            inside += gate.words
            plan["device"] = (gate.path, INSIDE)
            spawn = replace(spawn, settings={**spawn.settings, **gate.variables}, gate=gate)
        elif self.reach.network and self.facts.landlock >= SCOPED_SINCE:
            inside.append("scope=1")
        python = (self.facts.python, "-I", "-S", "-c")
        words = (*python, text_of("inside.py"), *inside, "--", *spawn.argv)
        leader = text_of("leader.sh")
        argv: Sequence[str]
        if self.places is not None:
            view = View(plan, self.places)
            if wrong := view.wrong(spawn.cwd):
                raise InvalidCommand(wrong)
            argv = view.command(spawn.cwd, words, options, leader, group)
        else:
            self._check(spawn)
            given = (f"{name}={path}" for name, paths in plan.items() for path in paths)
            own = (f"cwd={spawn.cwd}", f"leader={leader}", *(f"group={each}" for each in group))
            argv = (*python, text_of("view.py"), *given, *own, "--", *options, "--", *words)
        settings = spawn.settings if "TMPDIR" in spawn.env else {**spawn.settings, "TMPDIR": "/tmp"}  # noqa: S108 - its own
        return replace(spawn, argv=tuple(argv), settings=settings, holder="bwrap")

    def _group(self) -> tuple[str, str, str]:
        """The control group for a command, and its limits; empty texts where it limits nothing."""
        given, controllers = self.reach.limits, self.facts.controllers
        memory = given.memory if "memory" in controllers else None
        processes = given.processes if "pids" in controllers else None
        if self.facts.cgroup is None or memory is processes is None:
            return "", "", ""
        most = "" if processes is None else str(processes + OWN_PROCESSES)
        return self.facts.cgroup, "" if memory is None else str(memory), most

    def _plan(self, spawn: Spawn) -> dict[str, Sequence[str]]:
        assert self.facts.python is not None
        reach = self.reach
        plan: dict[str, Sequence[str]] = {
            "read": reach.read,
            "write": reach.write,
            "hide": reach.hide,
            "protect": reach.protect,
            "needs": spawn.needs,
            "given": self.given,
            "private": PRIVATE,
            "system": SYSTEM,
            # The directory above bin has the standard library as well.
            "beside": (posixpath.dirname(posixpath.dirname(self.facts.python)),),
            "network": ("1",) if reach.network is True else (),
        }
        for number, outer in enumerate(self.outer):
            plan[f"most-read-{number}"] = (*outer.read, *outer.write)
            plan[f"most-write-{number}"] = outer.write
        return plan

    def _check(self, spawn: Spawn) -> None:
        """Refuse what is wrong whatever links a host has.

        Raises:
            InvalidCommand: As `wrap` says.
        """
        reach, cwd = self.reach, spawn.cwd
        named = (*reach.read, *reach.write)
        own = [path for path in PRIVATE if path not in named and "/" not in reach.write]
        shown = any(lies_in(cwd, (path,)) for path in named if path != "/")
        if "/" in named and not lies_in(cwd, own):
            shown = True
        if (not shown or lies_in(cwd, reach.hide)) and not lies_in(cwd, spawn.needs):
            raise InvalidCommand(not_within(cwd))


def limits(given: Limits, controllers: Sequence[str]) -> Iterator[str]:
    """The limits as words for the program inside, less those of a control group."""
    for name, value in (
        ("AS", None if "memory" in controllers else given.memory),
        ("NPROC", None if "pids" in controllers else given.processes),
        ("FSIZE", given.file_size),
        ("CPU", given.cpu),
    ):
        if value is not None:
            yield f"limit={name}:{value}"
