"""The sandbox by Seatbelt of macOS (sandbox-exec(1)): the profile for a reach. Never yet tested on macOS.

In a profile the last matching rule decides, and an access without a matching rule is denied. Seatbelt has no mounts: a path
cannot cover another, and a command has no ``/tmp`` of its own. So the profile denies the directories for temporary files,
unless the reach names them.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from .._exceptions import InvalidCommand, ReachUnavailable
from .values import lies_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .._types import Spawn
    from .values import Reach, Widened
    from .view import Places

_PROGRAM = "/usr/bin/sandbox-exec"
_BLOCK = 512  # no bound

_SYSTEM = ("/usr", "/bin", "/sbin", "/System", "/Library", "/opt", "/private/etc", "/private/var/db", "/dev")
"""Paths that every command may read, since programs do not start without them."""

_PRIVATE = ("/private/tmp", "/private/var/tmp", "/private/var/folders", "/private/var/run")
"""Directories with temporary files and sockets of other programs."""

_ALWAYS = """(version 1)
(deny default)
(allow process-exec process-fork sysctl-read pseudo-tty)
(allow process-info* signal (target same-sandbox))
(allow mach-lookup (global-name "com.apple.system.opendirectoryd.libinfo"))
(allow file-read-metadata)
(allow file-read* (literal "/"))
"""

_DEVICES = """(allow file-read* file-write* file-ioctl (literal "/dev/null") (literal "/dev/zero") (literal "/dev/tty")
  (literal "/dev/ptmx") (literal "/dev/random") (literal "/dev/urandom") (regex #"^/dev/(ttys[0-9]+|fd/[0-9]+)$"))
"""

_NETWORK = """(allow system-socket)
(allow network-outbound (remote ip) (literal "/private/var/run/mDNSResponder"))
(allow network-inbound network-bind (local ip))
(allow mach-lookup (global-name "com.apple.SystemConfiguration.configd") (global-name "com.apple.trustd.agent"))
"""


@dataclass(frozen=True, slots=True)
class Seatbelt:
    """The sandbox that confines commands to a reach by Seatbelt.

    Args:
        reach: The reach, with absolute paths.
        places: The paths of this machine.
        given: As for `Bubblewrap`.

    Raises:
        ReachUnavailable: This macOS has no Seatbelt, or Seatbelt cannot enforce the reach.
    """

    reach: Reach
    places: Places
    given: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.places.kind(_PROGRAM):
            raise ReachUnavailable(
                f"Seatbelt: there is no {_PROGRAM}", "use a macOS that has it, or a Linux host"
            )
        for name in ("memory", "processes"):
            if getattr(self.reach.limits, name) is not None:
                raise ReachUnavailable(
                    f"limits: {name}: macOS limits that for no command",
                    "leave the limit out, or use a Linux host",
                )
        self.profile()

    def narrowed(self, reach: Reach) -> Seatbelt:
        """Return the sandbox of a narrower reach. Raises as the constructor, and `InvalidCommand` if it is not narrower."""
        return replace(self, reach=reach.within(self.reach))

    def widened(self, more: Widened, directory: str) -> Seatbelt:
        """Return the sandbox with the paths that a person has approved, in an environment's directory."""
        return replace(self, reach=more.over(self.reach, directory), given=(*more.read, *more.write))

    def wrap(self, spawn: Spawn) -> Spawn:
        """Return a shell that sets the limits and then becomes sandbox-exec, which becomes the command.

        Raises:
            InvalidCommand: The directory is not within the reach, or a path that a person has approved is a link.
        """
        for path in self.given:
            if (real := self.places.real(path)) != path:
                raise InvalidCommand(f"{path!r} leads to {real!r}: name that instead")
        directory = self.places.real(spawn.cwd)
        named = self._real((*self.reach.read, *self.reach.write))
        closed = lies_in(directory, _PRIVATE) and not lies_in(
            directory, [each for each in named if each != "/"]
        )
        if (
            closed
            or lies_in(directory, self._real(self.reach.hide))
            or not lies_in(directory, (*_SYSTEM, *named))
        ):
            raise InvalidCommand(
                f"cwd {spawn.cwd!r} is not within the reach: name it in read= or write=, or give another directory"
            )
        limits, text = self.reach.limits, "ulimit -c 0"
        if limits.file_size is not None:
            text += f" && ulimit -f {limits.file_size // _BLOCK}"
        if limits.cpu is not None:  # SIGXCPU comes before SIGKILL
            text += f" && ulimit -S -t {limits.cpu} && ulimit -H -t {limits.cpu + 1}"
        leader = ("/bin/sh", "-c", f'{text} && exec "$@"; exit 125', "sh")
        return replace(spawn, argv=(*leader, _PROGRAM, "-p", self.profile(spawn.needs), *spawn.argv))

    def profile(self, needs: Iterable[str] = ()) -> str:
        """Return the profile, in Seatbelt's own language.

        Args:
            needs: Anyshell's own directories that the command needs.

        Raises:
            ReachUnavailable: A path cannot be written in a profile.
        """
        return _ALWAYS + "".join(f"{rule}\n" for rule in self._rules(needs))

    def _rules(self, needs: Iterable[str]) -> Iterator[str]:
        read, write = self._real(self.reach.read), self._real(self.reach.write)
        whole = [path for path in ("/",) if path in (*read, *write)]
        yield _rule("allow file-read*", whole or _SYSTEM)
        if "/" in write:
            yield _rule("allow file-write*", ["/"])
        else:
            yield _rule("deny file-read* file-write*", _PRIVATE)
        yield _rule("allow file-read*", [path for path in (*read, *write) if path != "/"])
        yield _rule("allow file-write*", [path for path in write if path != "/"])
        yield _DEVICES
        protect = self._real(self.reach.protect)
        yield _rule("deny file-write*", protect)
        # A rename of a directory above a protected path could put another directory in its place.
        above = {each for path in protect for each in _between(path, write)}
        yield _rule("deny file-write-unlink", sorted(above), "literal")
        yield _rule("deny file-read* file-write*", self._real(self.reach.hide))
        if self.reach.network:
            yield _NETWORK
        yield _rule("allow file-read* file-write*", self._real(needs))

    def _real(self, paths: Iterable[str]) -> list[str]:
        """Resolve the links in paths: Seatbelt decides by resolved paths."""
        return list(dict.fromkeys(map(self.places.real, paths)))


def _between(path: str, write: Iterable[str]) -> Iterator[str]:
    above = posixpath.dirname(path)
    while above != "/" and above not in write and lies_in(above, write):
        yield above
        above = posixpath.dirname(above)


def _rule(what: str, paths: Iterable[str], kind: str = "subpath") -> str:
    """Return a rule for paths; empty without a path, since a rule without paths would apply to every path."""
    filters = " ".join(f"({kind} {string_of(path)})" for path in paths)
    return f"({what} {filters})" if filters else ""


def string_of(path: str) -> str:
    """Quote a path as a string of a profile.

    Raises:
        ReachUnavailable: The path has a character that may not be safe in a string of a profile.
    """
    if not path.isprintable():
        raise ReachUnavailable(
            f"the path {path!r}: Seatbelt is given no control characters, and no bytes that are not text",
            "rename it",
        )
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'
