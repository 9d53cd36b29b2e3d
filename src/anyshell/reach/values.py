"""The reach of a command as a value: the paths it may see and write, and the hosts it may reach."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Literal, get_args

from .._exceptions import InvalidCommand
from .._types import Names, Variables, check_choice, check_text, exact
from .._types.checks import as_seconds
from .places import PROTECTED, SECRETS
from .view import lies_in as lies_in

if TYPE_CHECKING:
    from datetime import timedelta
    from typing import TypeAlias

    Most: TypeAlias = int | None
    Time: TypeAlias = int | timedelta | None

Preset = Literal["workspace", "read-only", "none"]

MOST_PATHS = 256
"""Paths in one field of a reach; a reach with more paths is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The resources that a command may use. ``None`` means that anyshell sets no limit.

    Attributes:
        memory: Bytes of address space of each process; an allocation beyond the limit fails. On a Linux host where cgroup v2
            is delegated, bytes of memory of all processes of the command together, including some 10 MB of its sandbox,
            files in memory and its ``/tmp``. There the kernel kills a process of a command that needs more.
        processes: Processes and threads that the command has at once.
        file_size: Bytes of each file that the command writes. A process that writes more gets SIGXFSZ.
        cpu: Seconds of processor time of each process. A process that uses more gets SIGXCPU, and SIGKILL a second later. On
            Windows, only time in user mode counts, and the process is ended.

    Raises:
        InvalidCommand: A limit is invalid; the message names the limit.
    """

    memory: int | None = None
    processes: int | None = None
    file_size: int | None = None
    cpu: int | None = None

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if value is None:
                continue
            if each.name == "cpu" and (seconds := as_seconds(value)) is not value:
                value = int(seconds) if seconds.is_integer() else seconds
                object.__setattr__(self, "cpu", value)
            if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 2**62:
                shown = exact(value) if isinstance(value, int | float) else type(value).__name__
                raise InvalidCommand(f"limits: {each.name} must be a whole number above 0, not {shown}")

    def lowest(self, other: Limits) -> Limits:
        """Return the lower value of each limit, of these limits and others."""
        lowest: dict[str, int] = {}
        for each in fields(self):
            given = [getattr(limits, each.name) for limits in (self, other)]
            if any(each is not None for each in given):
                lowest[each.name] = min(value for value in given if value is not None)
        return Limits(**lowest)

    if TYPE_CHECKING:  # the constructor accepts more types than the fields have

        def __init__(
            self, *, memory: Most = None, processes: Most = None, file_size: Most = None, cpu: Time = None
        ) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """The paths that a command may see and write, and the hosts that it may reach.

    A path is absolute, below ``~``, or relative to the directory of the environment; ``.`` is that directory. The system's
    programs and libraries can always be read. Every command has its own ``/tmp``, which is removed at the command's end.

    Attributes:
        read: Paths that the command may read, but not write. ``/`` is every path.
        write: Paths that the command may write and read.
        hide: Paths in `read` or `write` that the command does not see. By default `SECRETS`.
        protect: Paths in `write` that the command may read, but not write. By default `PROTECTED`.
        network: ``True`` is the host's network; ``False`` is an empty network of the command's own. Names are the destinations
            that the command can connect to, through a proxy of this program: ``example.org``, ``*.example.org`` for every
            name below it, or an address. ``example.org:22`` is another port than 80 and 443, and ``example.org:*`` every
            port. A destination that is not on the internet needs its exact address and port, as ``localhost:8080``.
        limits: The resources that the command may use.
        environment: The host's variables that the command has; ``None`` leaves the choice to the environment. In the reach of
            one call, the command has only the variables that both the environment and the reach pass.
        landlock: Whether Landlock alone may enforce the reach on a Linux host where bubblewrap cannot. Landlock is weaker: a
            command can change modes, times and attributes of its user's files, can connect to sockets of the file system,
            and has no ``/tmp`` of its own. The reach of one call has the environment's value.

    Raises:
        InvalidCommand: A field is invalid; the message names the field.
    """

    read: tuple[str, ...] = ("/",)
    write: tuple[str, ...] = ()
    hide: tuple[str, ...] = SECRETS
    protect: tuple[str, ...] = PROTECTED
    network: bool | tuple[str, ...] = False
    limits: Limits = field(default_factory=Limits)
    environment: Variables | None = None
    landlock: bool = False

    def __post_init__(self) -> None:
        for name in ("read", "write", "hide", "protect"):
            object.__setattr__(self, name, _paths(name, getattr(self, name)))
        if not isinstance(self.network, bool):
            names = _texts("network", self.network)
            if not names:
                raise InvalidCommand("network must be True, False, or names of hosts such as ['example.org']")
            Names(names)
            object.__setattr__(self, "network", names)
        if not isinstance(self.landlock, bool):
            raise InvalidCommand(f"landlock must be True or False, not {type(self.landlock).__name__}")
        if not isinstance(self.limits, Limits):
            raise InvalidCommand(f"limits must be Limits(memory=...), not {type(self.limits).__name__}")
        if self.environment is not None and not isinstance(self.environment, Variables):
            kind = type(self.environment).__name__
            raise InvalidCommand(f"environment must be Variables(inherit=...), not {kind}")

    @classmethod
    def preset(cls, name: Preset) -> Reach:
        """Return a common reach by its name.

        ``workspace`` reads everything but secrets, writes the directory of the environment, and has no network and no variables
        that hold secrets. ``read-only`` is the same, but writes only its own ``/tmp``. ``none`` confines nothing.
        """
        check_choice("the name of a preset", name, get_args(Preset))
        if name == "none":
            return cls(write=("/",), hide=(), protect=(), network=True)
        # The directory is named besides "/": it may lie in /tmp, which a command sees as its own empty one.
        return cls(read=("/", "."), write=(".",) if name == "workspace" else (), environment=Variables())

    @property
    def confines(self) -> bool:
        """Whether a command within the reach may do less than its user."""
        free = "/" in self.write and not self.hide and not self.protect and self.network is True
        return not free or self.limits != Limits()

    def resolved(self, directory: str, home: str) -> Reach:
        """Return the reach with absolute paths; a relative path of `protect` is placed below each path of `write`."""

        def place(path: str, base: str = directory) -> str:
            if path == "~" or path.startswith("~/"):
                path = posixpath.join(home, path[2:])
            return posixpath.normpath(posixpath.join(base, path))

        write = tuple(map(place, self.write))
        protect = [place(path, base) for path in self.protect for base in (write or (directory,))]
        return replace(
            self,
            read=tuple(map(place, self.read)),
            write=write,
            hide=tuple(map(place, self.hide)),
            protect=tuple(dict.fromkeys(protect)),
        )

    def within(self, outer: Reach) -> Reach:
        """Return this reach, with the hidden and protected paths and the limits of `outer` added. Both have absolute paths.

        Raises:
            InvalidCommand: This reach reads, writes or connects to more than `outer`; the message names the field.
        """
        for name, paths, most in (
            ("read", self.read, (*outer.read, *outer.write)),
            ("write", self.write, outer.write),
        ):
            for path in paths:
                if not lies_in(path, most):
                    raise InvalidCommand(
                        f"reach: {name}: {path!r} is more than the reach of the environment allows"
                    )
        if (
            self.network is not False
            and outer.network is not True
            and not _among(self.network, outer.network)
        ):
            raise InvalidCommand("reach: network is more than the reach of the environment allows")
        return replace(
            self,
            hide=tuple(dict.fromkeys((*self.hide, *outer.hide))),
            protect=tuple(dict.fromkeys((*self.protect, *outer.protect))),
            limits=self.limits.lowest(outer.limits),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Widened(Reach):
    """A person's widening of the reach for one command: absolute paths in `read` and `write`; other fields have no effect.

    Only a tool makes a widening, from an approver's answer.
    """

    read: tuple[str, ...] = ()

    def over(self, reach: Reach, directory: str) -> Reach:
        """Return a reach with the paths of this widening added. A path below an added path stays hidden or protected.

        The paths that the reach protects below a path of `write` are also protected below each added path.

        Args:
            reach: The reach to widen, with absolute paths.
            directory: The directory of the environment.
        """
        bases = reach.write or (directory,)
        below = {
            posixpath.relpath(path, base)
            for base in bases
            for path in reach.protect
            if path != base and lies_in(path, (base,))
        }
        kept = (path for path in reach.protect if path not in self.write)
        more = (posixpath.join(path, each) for path in self.write for each in sorted(below))
        return replace(
            reach,
            read=(*reach.read, *self.read),
            write=(*reach.write, *self.write),
            hide=tuple(path for path in reach.hide if path not in (*self.read, *self.write)),
            protect=tuple(dict.fromkeys((*kept, *more))),
        )


def _among(own: bool | tuple[str, ...], most: bool | tuple[str, ...]) -> bool:
    return isinstance(own, tuple) and isinstance(most, tuple) and Names(most).cover(own)


def _texts(name: str, given: object) -> tuple[str, ...]:
    if isinstance(given, str | bytes):
        raise InvalidCommand(f"{name} must be several texts, such as [{given!r}]")
    try:
        texts = tuple(given)  # type: ignore[var-annotated, arg-type]  # what is not an iterable is refused below
    except TypeError:
        raise InvalidCommand(f"{name} must be several texts, not {type(given).__name__}") from None
    if len(texts) > MOST_PATHS:
        raise InvalidCommand(f"{name} has more than {MOST_PATHS} entries: name a directory above them")
    for text in texts:
        check_text(f"an entry of {name}", text)
    return texts


def _paths(name: str, given: object) -> tuple[str, ...]:
    paths = _texts(name, given)
    for path in paths:
        if not path:
            raise InvalidCommand(f"{name} has an empty path; '.' is the directory of the environment")
        if path.startswith("~") and path != "~" and not path.startswith("~/"):
            raise InvalidCommand(f"{name}: {path!r} is below another user's home: give an absolute path")
    # In POSIX two leading slashes are system-dependent, and posixpath keeps both; on Linux and macOS they mean one.
    return tuple("/" + path.lstrip("/") if path.startswith("//") else path for path in paths)
