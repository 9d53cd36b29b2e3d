"""The view of the file system that a command has, and bubblewrap's options that make the view.

The order of the mounts is essential, since a later mount covers an earlier one: the system, the command's own directories,
readable and writable paths in these, protected paths, and hidden paths last.

An SSH host makes its view itself, at each start: a Python 3.6 or later, without anyshell, runs this text there, and becomes
the leader. So no request is needed beforehand, and no path can change between a request and the start.
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
            """Return the path with all links resolved."""

        def is_link(self, path: str) -> bool:
            """Whether the path itself is a link."""

        def kind(self, path: str) -> Kind:
            """Return the kind of the path; empty if nothing is there, or a command could not look there either."""

        def sockets(self) -> Sequence[str]:
            """Return the sockets of the file system at which programs listen, at most `MOST_SOCKETS`."""


MOST_SOCKETS = 256
"""Sockets of other programs, in directories that a command can read, that a sandbox covers; more are not covered."""

TEMPORARY_BYTES = 1024 * 1024 * 1024
"""Bytes of memory that a command can fill in each of its own ``/tmp``, ``/var/tmp``, ``/run`` and ``/dev/shm``; a write beyond
the limit fails with ENOSPC."""

BUILDS = 8
"""Attempts to build a sandbox, while sockets that it covers or mounts that it shows vanish; then the command ends with exit
code 125, and has not run."""

MOST_RULES = 4096
"""Paths that Landlock allows a command; the command may not read a path beyond the limit."""

_SHARED = "/dev/shm"  # noqa: S108 - a command gets its own

GATE = "/anyshell-gate-"  # no bound
"""The prefix of the directories in which a sandbox hands out its listening socket, see `gate`."""

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
"""Settings of the kernel, which root may write without any capability, even in a user namespace."""


_GROUPS = "/sys/fs/cgroup"
"""The control groups, kept read-only: root, or a user with delegated groups, could remove a command's limits there."""


_DEVICES = tuple("/dev/" + name for name in ("null", "zero", "full", "random", "urandom", "tty"))
"""The paths of /dev that Landlock allows."""


class LocalPlaces:
    """Facts about the paths of the machine that runs this program."""

    def real(self, path: str) -> str:
        """Return the path with all links resolved."""
        return os.path.realpath(path)

    def is_link(self, path: str) -> bool:
        """Whether the path itself is a link."""
        return os.path.islink(path)

    def kind(self, path: str) -> "Kind":
        """Return the kind of the path."""
        try:
            mode = os.stat(path).st_mode
            if sys.platform != "win32" and os.geteuid() == 0 and not all(map(_may_enter, _above(path))):
                return ""
        except OSError:
            return ""
        return "directory" if stat.S_ISDIR(mode) else "file"

    def sockets(self) -> "Sequence[str]":
        """Return the sockets in this network namespace."""
        try:
            with open(_SOCKETS, encoding="utf-8", errors="surrogateescape") as file:
                lines = file.read().splitlines()
        except OSError:
            return ()
        words = (line.split(" ", 7)[-1].strip() for line in lines[1:])
        names = {name.split(" ", 1)[-1] for name in words}
        # The socket of a gate is skipped: it is short-lived, refuses a client without its token, and may vanish before the mount.
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
    """Whether an absolute path is one of `places`, or lies below one of them."""
    return any(path == each or each == "/" or path.startswith(each + "/") for each in places)


def not_within(cwd: str) -> str:
    """Return the message that no command can run in a directory."""
    return f"cwd {cwd!r} is not within the reach: name it in read= or write=, or give another directory"


class _Once(dict):  # type: ignore[type-arg]  # which needs Python 3.9
    """A cache of a host's answers: a view needs the same directories many times, and is made for each command."""

    def __init__(self, ask: "Callable[[str], str]") -> None:
        self._ask = ask

    def __missing__(self, path: str) -> str:
        self[path] = self._ask(path)
        return str(self[path])


class View:
    """The view that a command has of the file system.

    Args:
        plan: Absolute paths under several names. ``read``, ``write``, ``hide`` and ``protect`` are those of the reach; ``needs``
            those of the command; ``private`` and ``system`` those of every command. ``network`` is not empty if the command
            has the host's network. ``device`` is a path, and its place in /dev. ``beside`` is what the program inside needs.
            ``given`` are paths that a person has approved, in which no link is followed. ``most-read-N`` and
            ``most-write-N`` are paths that the reach must lie in.
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
        # An approved path that is a file is not protected: `_file_above` turns a path below a file into the file itself.
        self._protect = [
            path for path in dict.fromkeys(protect) if lies_in(path, self._write) and path not in self._given
        ]

    def _found(self, path: str) -> str:
        """Resolve the links of a path. If its directory is already resolved, only the last part can be a link."""
        above, name = posixpath.split(path)
        if name in ("", ".", "..") or self._real(above) != above or self._places.is_link(path):
            return self._places.real(path)
        return path

    def _file_above(self, path: str) -> str:
        """Return the file that stands in the place of a directory of the path, as the .git of a worktree; else the path."""
        for above in _above(path):
            if self._kind(above):
                return above if self._kind(above) == "file" else path
        return path

    def wrong(self, cwd: str) -> str:
        """Return why no command can run in a directory; empty if a command can."""
        for name, path in self._more:
            return f"reach: {name}: {path!r} is more than the reach of the environment allows"
        for path in self._given:
            if self._real(path) != path:
                return f"{path!r} leads to {self._real(path)!r}: name that instead"
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
        """Yield the options of bubblewrap that make the view."""
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
        # A later mount covers an earlier one, so a deeper path comes later.
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
        """Whether a path is not a link, and would be visible if nothing hid the path."""
        shown = self._whole and not lies_in(path, self._private)
        return self._real(path) == path and (shown or lies_in(path, (*self._read, *self._write)))

    def _links(self) -> "Iterator[str]":
        """Yield options for links among the system's directories, such as /bin to /usr/bin, unless the view has every path."""
        for path in () if self._whole else self._system:
            target = self._real(path)
            if self._kind(path) and target != path:
                yield from ("--symlink", target, path)

    def _protected(self) -> "Iterator[str]":
        """Yield mounts over protected paths, and mounts of the directories between them and the writable path above.

        A directory in between is mounted onto itself: a mount point cannot be renamed or removed. Otherwise a command could put
        another directory in the place of a directory above a protected path.
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
        """Return visible sockets of other programs: a command can connect to a visible socket even on a read-only mount."""
        own = (*self._write, *self._hide)
        return [path for path in self._places.sockets() if self._shows_place(path) and not lies_in(path, own)]

    def unruled(self) -> str:
        """Return why Landlock cannot enforce the view; empty if Landlock can."""
        for path in (*self._hide, *self._protect):
            if self._kind(path) and lies_in(self._real(path), self._write):
                return f"reach: {path!r} lies in what may be written, and Landlock cannot protect it there"
        return ""

    def rules(self) -> "list[str]":
        """Return the rules of Landlock, as words for the program inside.

        Landlock cannot deny a path below an allowed directory. So for a directory that contains a closed path, the rules allow
        each other entry instead of the directory: the directory cannot be listed, and a later entry cannot be read.
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
        """Return the program inside with its arguments, and the rules of Landlock before its own words."""
        return [*words[:5], *self.rules(), *words[5:]]

    def command(
        self,
        cwd: str,
        words: "Sequence[str]",
        options: "Sequence[str]",
        leader: str,
        group: "Sequence[str]",
    ) -> "list[str]":
        """Return the words that start a command: the leader, which starts bubblewrap, which starts the program inside.

        Args:
            cwd: The working directory of the command.
            words: The program inside, with its arguments.
            options: Bubblewrap, with the options that do not make the view.
            leader: The text of the leader.
            group: The directory in which the leader makes a control group, and the group's limits of memory and processes.
        """
        sockets = self.sockets()
        end = ["--chdir", self._real(cwd), "--", *words]
        numbers = [str(BUILDS), str(len(sockets)), str(len(end))]
        return ["/bin/sh", "-c", leader, "sh", *group, *numbers, *sockets, *end, *options, *self.mounts()]


def main(given: "Sequence[str]") -> None:
    """Make the view on this host, and become the leader.

    The words up to the first ``--`` are ``NAME=PATH`` of a plan, ``cwd=PATH``, ``leader=TEXT`` and three ``group=TEXT``. The
    words up to the second ``--`` are bubblewrap with its options. The last words are the program inside; without
    ``leader=TEXT``, it gets rules of Landlock.
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
    # Python ignores these signals, and a shell that starts with an ignored signal cannot reset it.
    for name in ("SIGPIPE", "SIGXFSZ"):
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    if "leader" in plan:
        argv = view.command(cwd, words, given[first + 1 : second], plan["leader"][0], plan["group"])
    else:
        argv = view.ruled(words)
    os.execv(argv[0], argv)  # noqa: S606 - its words are those of the caller


if __name__ == "__main__":
    main(sys.argv[1:])
