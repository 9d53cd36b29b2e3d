"""A reach as the command line of bubblewrap (bwrap(1)), of version 0.8 and later.

The order of the mounts is what makes the view, since a later one covers an earlier one: the system, the own directories, what
lies in these and may be read or written, what of that is protected, and what is hidden, last.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from .._exceptions import InvalidCommand, ReachUnavailable
from .host import text_of
from .places import PRIVATE, SYSTEM
from .values import lies_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .._types import Spawn
    from .host import Facts, Places
    from .values import Limits, Reach

TEMPORARY_BYTES = 1024 * 1024 * 1024
"""Bytes that a command can put into each of its own ``/tmp``, ``/var/tmp``, ``/run`` and ``/dev/shm``; a write beyond them
fails with ENOSPC. They are memory."""

OLDEST = (0, 8)  # no bound
"""The oldest bubblewrap that has what is used here: ``--size`` and ``--disable-userns``."""

SCOPED_SINCE = 6  # no bound
"""The version of Landlock that keeps a process from abstract sockets of processes outside."""

STATUS_FD = 8  # no bound
"""The descriptor at which the program inside tells the leader how the command ended."""

ERRORS_FD = 7  # no bound
"""The descriptor at which the program inside has the command's standard error: what bubblewrap says is the leader's."""

BUILDS = 8
"""Times that a sandbox is built at most, while the sockets that it covers and the mounts that it shows vanish; then the command
ends with exit code 125, and has not run."""

_SHARED = "/dev/shm"  # noqa: S108 - a command gets its own

_OF_THE_KERNEL = tuple(
    f"/proc/{name}"
    for name in [
        "sys",
        "sysrq-trigger",
        "bus",
        "fs",
        "irq",
        "acpi",
        "asound",
        "scsi",
        "mtrr",
        "dynamic_debug",
        "latency_stats",
    ]
)
"""Settings of the kernel. Root may write them without any capability, also in a user namespace."""

_HELP = {
    "user": "user namespaces: bubblewrap cannot make one here",
    "pid": "a pid namespace: bubblewrap cannot make one here",
    "net": "an empty network: bubblewrap cannot make a network namespace here",
    "proc": "a /proc of its own: bubblewrap cannot mount one here, as in a container that masks a part of /proc",
}

_WAYS = {
    "pid": "in a container run it with --security-opt seccomp=unconfined",
    "net": "in a container run it with --security-opt seccomp=unconfined, or ask for network=True",
    "proc": "run the container with --security-opt systempaths=unconfined",
}

_APPARMOR = (
    "AppArmor restricts them: install the profile bwrap-userns-restrict of the package apparmor-profiles, or "
    "sysctl kernel.apparmor_restrict_unprivileged_userns=0"
)


def _way_to_namespaces(facts: Facts) -> str:
    """How to get user namespaces, by what keeps bubblewrap from them."""
    if "setuid" in facts.cannot["user"]:
        return f"take the setuid bit from it, with which it knows less: chmod u-s {facts.bwrap}"
    if facts.most_namespaces == 0:
        return "allow them: sysctl user.max_user_namespaces=10000"
    if not facts.allowed:
        return "allow them: sysctl kernel.unprivileged_userns_clone=1"
    if facts.apparmor:
        return _APPARMOR
    return (
        "in a container run that with --security-opt seccomp=unconfined, or with a profile that allows clone, unshare and mount; "
        "otherwise have a kernel with CONFIG_USER_NS, or use a virtual machine"
    )


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
        if part in facts.cannot and (part != "net" or not reach.network):
            way = _way_to_namespaces(facts) if part == "user" else _WAYS[part]
            return f"{what} ({facts.cannot[part]})", way
    if facts.python is None:
        return "Python 3: no program python3 on PATH", "apt-get install python3-minimal"
    if reach.limits.processes is not None and not facts.counts_processes():
        return (
            "limits: processes: the kernel does not count those of root, nor before 5.14 those of one command",
            "run it as an ordinary user, or leave the limit out",
        )
    return None


@dataclass(frozen=True, slots=True)
class Bubblewrap:
    """Runs commands within a reach, by bubblewrap.

    Args:
        reach: With absolute paths.
        facts: Of the host.
        places: Its paths.

    Raises:
        ReachUnavailable: The host has not what the reach needs.
    """

    reach: Reach
    facts: Facts
    places: Places

    def __post_init__(self) -> None:
        if (lack := missing(self.reach, self.facts)) is not None:
            raise ReachUnavailable(*lack)

    def narrowed(self, reach: Reach) -> Bubblewrap:
        """The same for a narrower reach; what this one hides, protects and limits stays so.

        Raises:
            InvalidCommand: It is not narrower.
            ReachUnavailable: As for a new one.
        """
        return replace(self, reach=reach.within(self.reach))

    def wrap(self, spawn: Spawn) -> Spawn:
        """Have the leader start bubblewrap, that the program inside, and that the command.

        Raises:
            InvalidCommand: The directory is not within the reach, or a path that may be written is not there.
        """
        assert self.facts.bwrap is not None
        assert self.facts.python is not None
        directory = self.places.real(spawn.cwd)
        view = _View(self.reach, self.places, self.facts.python, spawn.needs)
        if not view.shows(directory):
            raise InvalidCommand(
                f"cwd {spawn.cwd!r} is not within the reach: name it in read= or write=, or give another directory"
            )
        options = [
            "--unshare-user",
            "--unshare-pid",
            "--unshare-ipc",
            "--unshare-uts",
            "--unshare-cgroup-try",
        ]
        if not self.reach.network:
            options.append("--unshare-net")
        options += ["--disable-userns", "--cap-drop", "ALL", *view.mounts()]
        inside = [f"status={STATUS_FD}", f"errors={ERRORS_FD}", *limits(self.reach.limits)]
        if self.reach.network and self.facts.landlock >= SCOPED_SINCE:
            inside.append("scope=1")
        sockets = view.sockets()
        end = (
            *("--chdir", directory, "--", self.facts.python, "-I", "-S", "-c", text_of("inside.py")),
            *(*inside, "--", *spawn.argv),
        )
        leader = ("/bin/sh", "-c", text_of("leader.sh"), "sh", str(BUILDS), str(len(sockets)), str(len(end)))
        argv = (*leader, *sockets, *end, self.facts.bwrap, *options)
        settings = spawn.settings if "TMPDIR" in spawn.env else {**spawn.settings, "TMPDIR": "/tmp"}  # noqa: S108 - its own
        return replace(spawn, argv=argv, settings=settings, holder="bwrap")


def limits(given: Limits) -> Iterator[str]:
    """The limits as words for the program inside."""
    yield "limit=CORE:0"
    for name, value in (
        ("AS", given.memory),
        ("NPROC", given.processes),
        ("FSIZE", given.file_size),
        ("CPU", given.cpu),
    ):
        if value is not None:
            yield f"limit={name}:{value}"


class _View:
    """What of the file system a command sees, and how."""

    def __init__(self, reach: Reach, places: Places, python: str, needs: Iterable[str]) -> None:
        self._places = places
        self._whole = "/" in reach.read or "/" in reach.write
        real = places.real
        self._write = [real(path) for path in reach.write]
        self._read = [real(path) for path in reach.read if path != "/"]
        self._needs = [real(path) for path in needs]
        self._network = bool(reach.network)
        asked = {*self._write, *self._read}
        self._private = [path for path in PRIVATE if path not in asked and "/" not in self._write]
        if not self._whole:
            # The directory above bin has the standard library as well.
            system = [path for path in SYSTEM if real(path) == path]
            self._read = [*system, posixpath.dirname(posixpath.dirname(python)), *self._read]
        self._hide = list(dict.fromkeys(path for each in reach.hide for path in {each, real(each)}))
        self._protect = [path for path in reach.protect if lies_in(path, self._write)]

    def shows(self, path: str) -> bool:
        """Whether a path can be seen."""
        if lies_in(path, self._needs):
            return True
        if any(lies_in(path, (each,)) and self._covered(each) for each in self._hide):
            return False
        named = lies_in(path, (*self._read, *self._write))
        return named or (self._whole and not lies_in(path, self._private))

    def _covered(self, path: str) -> bool:
        return self._places.kind(path) != ""

    def mounts(self) -> Iterator[str]:
        """The options of bubblewrap that make the view.

        Raises:
            InvalidCommand: A path that may be written is not there.
        """
        kind = self._places.kind
        for path in self._write:
            if not kind(path):
                raise InvalidCommand(
                    f"reach: write: {path!r} is not there, or cannot be entered in a sandbox"
                )
        if self._whole:
            yield from ("--bind" if "/" in self._write else "--ro-bind", "/", "/")
        yield from ("--dev", "/dev", "--proc", "/proc")
        for path in _OF_THE_KERNEL:
            if kind(path):
                yield from ("--ro-bind", path, path)
        for path in self._private:
            if kind(path) and path != _SHARED:
                yield from ("--perms", "1777", "--size", str(TEMPORARY_BYTES), "--tmpfs", path)
        # A later mount covers an earlier one, so what lies deeper comes later.
        named = [("--ro-bind", path) for path in self._read if kind(path)]
        named += [("--bind", path) for path in self._write if path != "/"]
        if self._network and (resolver := self._places.real("/etc/resolv.conf")).startswith("/run/"):
            named.append(("--ro-bind", resolver))
        for option, path in sorted(named, key=lambda each: (each[1].count("/"), each[0] == "--bind")):
            yield from (option, path, path)
        yield from self._links()
        yield from self._protected()
        for path in sorted(self._hide, key=lambda each: each.count("/")):
            if (what := kind(path)) and self._shows_place(path):
                yield from (
                    ("--tmpfs", path, "--remount-ro", path)
                    if what == "directory"
                    else ("--ro-bind", "/dev/null", path)
                )
        for path in self._needs:
            yield from ("--bind", path, path)
        yield from (
            "--perms",
            "1777",
            "--size",
            str(TEMPORARY_BYTES),
            "--tmpfs",
            _SHARED,
            "--remount-ro",
            "/dev",
        )

    def _shows_place(self, path: str) -> bool:
        """Whether a path would be seen if nothing hid it, and is no link."""
        shown = self._whole and not lies_in(path, self._private)
        return self._places.real(path) == path and (shown or lies_in(path, (*self._read, *self._write)))

    def _links(self) -> Iterator[str]:
        """Where the system's directories are links, as /bin is one to /usr/bin, a view that is not the whole has these."""
        for path in () if self._whole else SYSTEM:
            if self._places.kind(path) and (target := self._places.real(path)) != path:
                yield from ("--symlink", target, path)

    def _protected(self) -> Iterator[str]:
        """Mounts over what is protected, and the directories between that and what may be written onto themselves.

        A mount point cannot be renamed or removed: else a command would put another directory in the place of that above.
        """
        pinned: set[str] = set()
        for path in self._protect:
            if not self._places.kind(path) or self._places.real(path) != path:
                continue
            above = posixpath.dirname(path)
            between = []
            while above not in self._write and above not in pinned and above != "/":
                between.append(above)
                above = posixpath.dirname(above)
            for each in reversed(between):
                pinned.add(each)
                yield from ("--bind", each, each)
            yield from ("--ro-bind", path, path)

    def sockets(self) -> list[str]:
        """Sockets of other programs that would be seen. One that is seen can be connected to, also on a read-only mount."""
        own = (*self._write, *self._hide)
        return [path for path in self._places.sockets() if self._shows_place(path) and not lies_in(path, own)]
