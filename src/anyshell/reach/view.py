"""The view that a command has of the file system, and bubblewrap's options for it.

The order of the mounts is what makes the view, since a later one covers an earlier one: the system, the own directories, what
lies in these and may be read or written, what of that is protected, and what is hidden, last.

A host that is reached by SSH makes its view itself, at each start: a Python of 3.6 or later that knows nothing of anyshell runs
this text there, and becomes the leader. So nothing is asked beforehand, and nothing can have changed since.
"""

import os
import posixpath
import stat
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Literal, Protocol

    Kind = Literal["directory", "file", ""]
    Plan = Mapping[str, Sequence[str]]

    class Places(Protocol):
        """Facts about the paths of a host."""

        def real(self, path: str) -> str:
            """The path without links."""

        def is_link(self, path: str) -> bool:
            """Whether it is a link itself."""

        def kind(self, path: str) -> Kind:
            """The kind of the path; empty where nothing is, and where a command could not look either."""

        def sockets(self) -> Sequence[str]:
            """The sockets of the file system at which programs listen, `MOST_SOCKETS` at most."""


MOST_SOCKETS = 256
"""Sockets of other programs that are looked for and covered, where they lie in directories that a command can read."""

TEMPORARY_BYTES = 1024 * 1024 * 1024
"""Bytes that a command can put into each of its own ``/tmp``, ``/var/tmp``, ``/run`` and ``/dev/shm``; a write beyond them
fails with ENOSPC. They are memory."""

BUILDS = 8
"""Times that a sandbox is built at most, while the sockets that it covers and the mounts that it shows vanish; then the command
ends with exit code 125, and has not run."""

MOST_RULES = 4096
"""Paths that Landlock allows a command; what comes after them it may not read."""

_SHARED = "/dev/shm"  # noqa: S108 - a command gets its own

GATE = "/anyshell-gate-"  # no bound
"""The prefix of the directories in which a sandbox hands out its network, see `gate`."""

_SOCKETS = "/proc/net/unix"

_OF_THE_KERNEL = tuple(
    "/proc/" + name
    for name in (
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
    )
)
"""Settings of the kernel. Root may write them without any capability, also in a user namespace."""


_GROUPS = "/sys/fs/cgroup"
"""The control groups: root, and a user who has some, would take the limits of a command away there."""


_DEVICES = tuple("/dev/" + name for name in ("null", "zero", "full", "random", "urandom", "tty"))
"""The paths of /dev that Landlock allows."""


class LocalPlaces:
    """The paths of the machine that this runs on."""

    def real(self, path: str) -> str:
        """The path without links."""
        return os.path.realpath(path)

    def is_link(self, path: str) -> bool:
        """Whether it is a link itself."""
        return os.path.islink(path)

    def kind(self, path: str) -> "Kind":
        """The kind of the path."""
        try:
            mode = os.stat(path).st_mode
            if sys.platform != "win32" and os.geteuid() == 0 and not all(map(_may_enter, _above(path))):
                return ""
        except OSError:
            return ""
        return "directory" if stat.S_ISDIR(mode) else "file"

    def sockets(self) -> "Sequence[str]":
        """The sockets in this network namespace."""
        try:
            with open(_SOCKETS, encoding="utf-8", errors="surrogateescape") as file:
                lines = file.read().splitlines()
        except OSError:
            return ()
        words = (line.split(" ", 7)[-1].strip() for line in lines[1:])
        names = {name.split(" ", 1)[-1] for name in words}
        # One of a gate is gone in a moment, and takes nothing without its token: a cover over it could come too late.
        paths = {self.real(name) for name in names if name.startswith("/") and GATE not in name}
        found = [path for path in sorted(paths) if _is_socket(path) and self.kind(path)]
        return found[:MOST_SOCKETS]


def _above(path: str) -> "Iterator[str]":
    while path != posixpath.dirname(path):
        path = posixpath.dirname(path)
        yield path


def _may_enter(directory: str) -> bool:
    """Whether root may enter a directory without the capability for it, as in a sandbox."""
    if sys.platform == "win32":
        return True
    how = os.stat(directory)
    bits = 0o100 if how.st_uid == 0 else 0o010 if how.st_gid in (0, *os.getgroups()) else 0o001
    return bool(how.st_mode & bits)


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.lstat(path).st_mode)
    except OSError:
        return False


def lies_in(path: str, places: "Iterable[str]") -> bool:
    """Whether an absolute path is one of several, or lies below one."""
    return any(path == each or each == "/" or path.startswith(each + "/") for each in places)


def not_within(cwd: str) -> str:
    """Say that no command can run in a directory."""
    return f"cwd {cwd!r} is not within the reach: name it in read= or write=, or give another directory"


class _Once(dict):  # type: ignore[type-arg]  # which needs Python 3.9
    """Answers of a host, each asked for once: a view names the same directories many times, and is made for each command."""

    def __init__(self, ask: "Callable[[str], str]") -> None:
        self._ask = ask

    def __missing__(self, path: str) -> str:
        self[path] = self._ask(path)
        return str(self[path])


class View:
    """The view that a command has of the file system.

    Args:
        plan: Under ``read``, ``write``, ``hide``, ``protect`` and ``needs`` the absolute paths of a reach and of a command; under
            ``private`` and ``system`` those of every one; under ``network`` anything, if there is one; under ``device`` a path, and where in /dev it
            is to be; under ``beside`` what a
            program inside needs; under ``given`` those that a person has named, in which no link is followed; under ``most-read-N`` and ``most-write-N`` what it must lie in.
        places: The host's paths.
    """

    def __init__(self, plan: "Plan", places: "Places") -> None:
        self._places = places
        self._real = real = _Once(self._found).__getitem__
        self._kind = _Once(places.kind).__getitem__
        reads, writes = plan.get("read", ()), plan.get("write", ())
        self._whole = "/" in reads or "/" in writes
        self._given = plan.get("given", ())
        self._write = [real(path) for path in writes]
        self._read = [real(path) for path in reads if path != "/"]
        self._needs = [real(path) for path in plan.get("needs", ())]
        self._network = bool(plan.get("network"))
        self._device = plan.get("device", ())
        self._more = [
            (name, path)
            for name, paths in (("read", self._read), ("write", self._write))
            for key in plan
            if key.startswith("most-" + name)
            for most in [[real(each) for each in plan[key]]]
            for path in paths
            if not lies_in(path, most)
        ]
        asked = {*self._write, *self._read}
        self._private = [path for path in plan["private"] if path not in asked and "/" not in self._write]
        self._system = plan["system"]
        if not self._whole:
            system = [path for path in self._system if real(path) == path]
            self._read = [*system, *plan.get("beside", ()), *self._read]
        self._hide = list(dict.fromkeys(path for each in plan.get("hide", ()) for path in (each, real(each))))
        protect = [self._file_above(real(path)) for path in plan.get("protect", ())]
        # A file has nothing below it to protect, which `_file_above` would make the file itself.
        self._protect = [
            path for path in dict.fromkeys(protect) if lies_in(path, self._write) and path not in self._given
        ]

    def _found(self, path: str) -> str:
        """The path without links. In a directory that is reached without any, only the last part can be one."""
        above, name = posixpath.split(path)
        if name in ("", ".", "..") or self._real(above) != above or self._places.is_link(path):
            return self._places.real(path)
        return path

    def _file_above(self, path: str) -> str:
        """The file that stands where a path would need a directory, as the .git of a worktree; otherwise the path."""
        for above in _above(path):
            if self._kind(above):
                return above if self._kind(above) == "file" else path
        return path

    def wrong(self, cwd: str) -> str:
        """Why no command can run in a directory; empty if one can."""
        for name, path in self._more:
            return f"reach: {name}: {path!r} is more than the reach of the environment allows"
        for path in self._given:
            if self._real(path) != path:
                return f"{path!r} leads to {self._real(path)!r}: that is to be named instead"
        for path in self._write:
            if not self._kind(path):
                return f"reach: write: {path!r} is not there, or cannot be entered in a sandbox"
        if not self._shows(self._real(cwd)):
            return not_within(cwd)
        return ""

    def _shows(self, path: str) -> bool:
        if lies_in(path, self._needs):
            return True
        if any(lies_in(path, (each,)) and self._kind(each) != "" for each in self._hide):
            return False
        named = lies_in(path, (*self._read, *self._write))
        return named or (self._whole and not lies_in(path, self._private))

    def mounts(self) -> "Iterator[str]":
        """The options of bubblewrap that make the view."""
        kind = self._kind
        if self._whole:
            yield from ("--bind" if "/" in self._write else "--ro-bind", "/", "/")
        yield from ("--dev", "/dev", "--proc", "/proc")
        if self._device:
            yield from ("--ro-bind", *self._device)
        for path in _OF_THE_KERNEL:
            if kind(path):
                yield from ("--ro-bind", path, path)
        if "/" in self._write and kind(_GROUPS):
            yield from ("--ro-bind", _GROUPS, _GROUPS)
        own = ("--perms", "1777", "--size", str(TEMPORARY_BYTES), "--tmpfs")
        for path in self._private:
            if kind(path) and path != _SHARED:
                yield from (*own, path)
        # A later mount covers an earlier one, so what lies deeper comes later.
        named = [("--ro-bind", path) for path in self._read if kind(path)]
        named += [("--bind", path) for path in self._write if path != "/"]
        resolver = self._real("/etc/resolv.conf")
        if self._network and resolver.startswith("/run/"):
            named.append(("--ro-bind", resolver))
        for option, path in sorted(named, key=lambda each: (each[1].count("/"), each[0] == "--bind")):
            yield from (option, path, path)
        yield from self._links()
        yield from self._protected()
        for path in sorted(self._hide, key=lambda each: each.count("/")):
            what = kind(path)
            if what and self._shows_place(path):
                yield from (
                    ("--tmpfs", path, "--remount-ro", path)
                    if what == "directory"
                    else ("--ro-bind", "/dev/null", path)
                )
        for path in self._needs:
            yield from ("--bind", path, path)
        yield from (*own, _SHARED, "--remount-ro", "/dev")

    def _shows_place(self, path: str) -> bool:
        """Whether a path would be seen if nothing hid it, and is no link."""
        shown = self._whole and not lies_in(path, self._private)
        return self._real(path) == path and (shown or lies_in(path, (*self._read, *self._write)))

    def _links(self) -> "Iterator[str]":
        """The links among the system's directories, as /bin is one to /usr/bin, for a view that is not the whole."""
        for path in () if self._whole else self._system:
            target = self._real(path)
            if self._kind(path) and target != path:
                yield from ("--symlink", target, path)

    def _protected(self) -> "Iterator[str]":
        """Mounts over what is protected, and the directories between that and what may be written onto themselves.

        A mount point cannot be renamed or removed: else a command would put another directory in the place of that above.
        """
        pinned = set()
        for path in self._protect:
            if not self._kind(path) or self._real(path) != path:
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

    def sockets(self) -> "list[str]":
        """Sockets of other programs that would be seen. One that is seen can be connected to, also on a read-only mount."""
        own = (*self._write, *self._hide)
        return [path for path in self._places.sockets() if self._shows_place(path) and not lies_in(path, own)]

    def unruled(self) -> str:
        """Why Landlock cannot enforce this; empty if it can."""
        for path in (*self._hide, *self._protect):
            if self._kind(path) and lies_in(self._real(path), self._write):
                return f"reach: {path!r} lies in what may be written, and Landlock keeps nothing from that"
        return ""

    def rules(self) -> "list[str]":
        """The rules of Landlock, as words for the program inside.

        It takes nothing back beneath what it allows. So a directory with something closed in it is not allowed itself, but each entry
        beside that: the directory cannot be listed, and what appears there later cannot be read.
        """
        closed = [path for path in (*self._hide, *self._private, "/dev") if self._kind(path)]

        def opened(path: str) -> "Iterator[str]":
            if self._real(path) != path or not self._kind(path):
                return
            if not any(lies_in(each, (path,)) for each in closed):
                yield "read=" + path
            elif path not in closed:
                try:
                    names = os.listdir(path)
                except OSError:
                    return
                for name in sorted(names):
                    yield from opened(posixpath.join(path, name))

        rules = ["write=" + path for path in (*self._write, *self._needs)]
        rules += ["device=" + self._real(path) for path in _DEVICES]
        for path in (*self._read, self._real("/etc/resolv.conf"), "/" if self._whole else "/proc"):
            if not lies_in(path, self._hide):
                rules += opened(path)
        return rules[:MOST_RULES]

    def ruled(self, words: "Sequence[str]") -> "list[str]":
        """The program inside, with its arguments, and these rules before its own words."""
        return [*words[:5], *self.rules(), *words[5:]]

    def command(
        self,
        cwd: str,
        words: "Sequence[str]",
        options: "Sequence[str]",
        leader: str,
        group: "Sequence[str]",
    ) -> "list[str]":
        """The words that start a command: the leader, which starts bubblewrap, which starts the program inside.

        Args:
            cwd: The directory in which the command runs.
            words: The program inside, with its arguments.
            options: bubblewrap, with those that do not make the view.
            leader: The text of the leader.
            group: Where it makes a control group, with the memory and the processes of that.
        """
        sockets = self.sockets()
        end = ["--chdir", self._real(cwd), "--", *words]
        numbers = [str(BUILDS), str(len(sockets)), str(len(end))]
        return ["/bin/sh", "-c", leader, "sh", *group, *numbers, *sockets, *end, *options, *self.mounts()]


def main(given: "Sequence[str]") -> None:
    """Make the view on this host, and become the leader.

    Its words, up to the first ``--``: ``NAME=PATH`` are those of a plan, ``cwd=PATH``, ``leader=TEXT`` and three
    ``group=TEXT``. The next ones, up to the
    second ``--``, are bubblewrap with its options, and the last ones the program inside. Without a leader that gets rules of Landlock.
    """
    import _signal as signal  # type: ignore[import-not-found,unused-ignore]  # as in inside.py

    first = given.index("--")
    second = given.index("--", first + 1)
    plan = {}  # type: dict[str, list[str]]
    for word in given[:first]:
        name, _, value = word.partition("=")
        plan.setdefault(name, []).append(value)
    (cwd,), words = plan["cwd"], given[second + 1 :]
    view = View(plan, LocalPlaces())
    wrong = view.wrong(cwd) or ("" if "leader" in plan else view.unruled())
    if wrong:
        os.write(
            2, ("anyshell: the command was not run: " + wrong + "\n").encode("utf-8", "backslashreplace")
        )
        os._exit(125)
    # Python ignores them; the shell that comes next could not change that.
    for name in ("SIGPIPE", "SIGXFSZ"):
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    if "leader" in plan:
        argv = view.command(cwd, words, given[first + 1 : second], plan["leader"][0], plan["group"])
    else:
        argv = view.ruled(words)
    os.execv(argv[0], argv)  # noqa: S606 - its words are those of the caller


if __name__ == "__main__":
    main(sys.argv[1:])
