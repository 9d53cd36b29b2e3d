"""The sandbox by bubblewrap (bwrap(1)), version 0.8 or later: the command line for a reach. `view` makes the mount options."""

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
"""The oldest bubblewrap with the options that anyshell uses: ``--size`` and ``--disable-userns``."""

SCOPED_SINCE = 6  # no bound
"""The version of Landlock that keeps a process from abstract sockets of processes outside."""

STATUS_FD = 6  # no bound
"""The descriptor at which the program inside reports the command's end to the leader."""

ERRORS_FD = 5  # no bound
"""The descriptor that the program inside uses as the command's stderr: bubblewrap's own stderr goes to the leader."""

OWN_PROCESSES = 3  # no bound
"""Processes of a sandbox beside the command: bubblewrap, the first process of its pid namespace, and the program inside."""

_HELP = {
    "user": "user namespaces: bubblewrap cannot make one here",
    "pid": "a pid namespace: bubblewrap cannot make one here",
    "net": "an empty network: bubblewrap cannot make a network namespace here",
    "proc": "a /proc of its own: bubblewrap cannot mount one here, as in a container that masks a part of /proc",
}

_SYSCTL = "sysctl kernel.apparmor_restrict_unprivileged_userns=0"

_APPARMOR = f"AppArmor restricts them: install the profile bwrap-userns-restrict of the package apparmor-profiles, or {_SYSCTL}"


def _way_in_a_container(facts: Facts) -> str:
    """Return the advice for a container: options with which bubblewrap can make its namespaces, and a setting of the host.

    Docker's seccomp profile allows no namespaces. Docker masks parts of /proc, and then the kernel allows no /proc of
    another pid namespace (`mount_namespaces(7)`). Docker's AppArmor profile allows no mount; without that profile, Ubuntu's
    restriction applies (typeclaw/typeclaw#1441). Bubblewrap reports only one of these obstacles at a time.
    """
    options = (
        "in a container run that with --security-opt seccomp=unconfined --security-opt systempaths=unconfined"
    )
    if not facts.profile:
        return options
    options += " --security-opt apparmor=unconfined"
    return f"{options} on a host with {_SYSCTL}" if facts.apparmor else options


def _way(part: str, facts: Facts) -> str:
    """Return the advice to get a missing part, by the obstacle that bubblewrap reported."""
    if part == "proc" and not facts.profile:
        return "run the container with --security-opt systempaths=unconfined"
    why = facts.cannot[part]
    if part == "user":
        if facts.setuid and facts.uid != 0:
            return f"remove its setuid bit, with which it can do less: chmod u-s {facts.bwrap}"
        if facts.most_namespaces == 0:
            return "allow them: sysctl user.max_user_namespaces=10000"
        if not facts.allowed:
            return "allow them: sysctl kernel.unprivileged_userns_clone=1"
    # AppArmor lets an ordinary user's program make a user namespace, but removes all capabilities inside it.
    if facts.apparmor and not facts.profile and "No permissions" not in why:
        return _APPARMOR
    way = _way_in_a_container(facts)
    if part == "user":
        return f"{way}; otherwise have a kernel with CONFIG_USER_NS, or use a virtual machine"
    return f"{way}, or ask for network=True" if part == "net" else way


def missing(reach: Reach, facts: Facts) -> tuple[str, str] | None:
    """Return the part that bubblewrap needs for a reach and the host lacks, with advice; ``None`` if no part is missing."""
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
    """The sandbox that confines commands to a reach by bubblewrap.

    Args:
        reach: The reach, with absolute paths.
        facts: The facts of the host.
        places: The paths of this machine; ``None`` for another host, which looks at its paths itself at each start.
        outer: The reaches that `reach` must lie in, such as the environment's reach for the reach of one call.
        given: Paths of the reach that a person has approved: exactly these paths, without following a link.
        proxies: The server of networks on another host.

    Raises:
        ReachUnavailable: The host lacks a part that the reach needs.
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
        """Return the sandbox of a narrower reach, which keeps this sandbox's hidden and protected paths and its limits.

        Raises:
            InvalidCommand: The reach is not narrower.
            ReachUnavailable: As for the constructor.
        """
        return replace(self, reach=reach.within(self.reach), outer=(*self.outer, self.reach))

    def widened(self, more: Widened, directory: str) -> Bubblewrap:
        """Return the sandbox with the paths that a person has approved, in an environment's directory. Raises as `narrowed`."""
        outer = tuple(more.over(each, directory) for each in self.outer)
        given = (*more.read, *more.write)
        return replace(self, reach=more.over(self.reach, directory), outer=outer, given=given)

    def wrap(self, spawn: Spawn) -> Spawn:
        """Return the leader, which starts bubblewrap, which starts the program inside, which starts the command.

        Raises:
            InvalidCommand: The directory is not within the reach, or a writable path does not exist. For another host, a fault
                that only the host can see, such as a link, is reported by the host at the start; the command then does
                not run.
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
        """Return the directory for a control group and the group's limits, as texts; all empty without such a limit."""
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
            # The directory above Python's bin also has the standard library.
            "beside": (posixpath.dirname(posixpath.dirname(self.facts.python)),),
            "network": ("1",) if reach.network is True else (),
        }
        for number, outer in enumerate(self.outer):
            plan[f"most-read-{number}"] = (*outer.read, *outer.write)
            plan[f"most-write-{number}"] = outer.write
        return plan

    def _check(self, spawn: Spawn) -> None:
        """Refuse a working directory that is outside of the reach, whatever links the host has.

        Raises:
            InvalidCommand: As for `wrap`.
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
    """Yield the limits as words for the program inside, without the limits of a control group."""
    for name, value in (
        ("AS", None if "memory" in controllers else given.memory),
        ("NPROC", None if "pids" in controllers else given.processes),
        ("FSIZE", given.file_size),
        ("CPU", given.cpu),
    ):
        if value is not None:
            yield f"limit={name}:{value}"
