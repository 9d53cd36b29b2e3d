"""The facts of a host, and the questions for them."""

from __future__ import annotations

import ntpath
import posixpath
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from .._exceptions import InvalidCommand

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

    from .shell import ShellCandidate, ShellInfo


OperatingSystem = Literal["linux", "macos", "windows"]


@dataclass(frozen=True, slots=True)
class HostQuery:
    """The questions to a host, all in one request.

    Attributes:
        programs: Names to look up on the host's PATH.
        shells: Candidates in order; the first candidate that answers is taken.
        shells_on_windows: The candidates in the place of `shells` on a Windows host.
        variables: Names of variables to look for.
        brief: Whether the facts that a command needs are enough: the system, the directories, and an existing shell, whose
            version is not asked for. A backend may ignore `brief` if all facts cost the same.
    """

    programs: tuple[str, ...] = ()
    shells: tuple[ShellCandidate, ...] = ()
    shells_on_windows: tuple[ShellCandidate, ...] = ()
    variables: tuple[str, ...] = ()
    brief: bool = False

    def shells_on(self, os: OperatingSystem) -> tuple[ShellCandidate, ...]:
        """Return the candidates for a host of that operating system."""
        return self.shells_on_windows if os == "windows" else self.shells


_PLACES_OF_BASH: Mapping[str, re.Pattern[str]] = {
    **dict.fromkeys(("bash", "zsh", "sh"), re.compile(r"\A(?:/cygdrive)?/([A-Za-z])(?:/|\Z)")),
    "wsl": re.compile(r"\A/mnt/([A-Za-z])(?:/|\Z)"),
}
"""The patterns of a drive's path in a bash on Windows: of MSYS2 and Cygwin; of WSL with its default configuration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostInfo:
    """The facts of a host that its backend found, never those of another machine.

    Attributes:
        os: ``linux``, ``macos`` or ``windows``.
        arch: The machine's architecture as it names itself: ``x86_64``, ``aarch64``, ``arm64``.
        name: The system's name, such as ``Debian GNU/Linux``.
        version: The system's version, such as ``12``.
        hostname: The host's own name.
        user: The user that commands run as.
        home: The user's home directory.
        directory: The default directory of commands.
        container: ``docker``, ``podman``, … when the host is inside one; ``None`` otherwise.
        wsl: Whether the host is the Windows Subsystem for Linux.
        code_page: The number of the code page of programs that do not write UTF-8: on Windows the system's OEM code page,
            such as 850. ``None`` on any other host.
        programs: The requested programs that exist, with their paths.
        variables: On Windows, the names of the requested variables that the host's environment has.
        shell: The first shell candidate that answered.
        shells_tried: One line for every candidate that did not answer, with the reason.
        is_this_machine: Whether the host has the files of the machine that anyshell runs on, under the same paths.
            A command can then read the files that anyshell keeps.
        notices: Facts for a person about the connection to the host, one sentence each, such as a setting
            that is ignored. Not for models.
    """

    os: OperatingSystem
    arch: str
    name: str
    version: str
    hostname: str
    user: str
    home: str
    directory: str
    container: str | None = None
    wsl: bool = False
    code_page: int | None = None
    programs: Mapping[str, str] = field(default_factory=dict)
    variables: frozenset[str] = frozenset()
    shell: ShellInfo | None = None
    shells_tried: tuple[str, ...] = ()
    is_this_machine: bool = False
    notices: tuple[str, ...] = ()

    def resolve(self, path: str | None, base: str | None = None) -> str:
        r"""Make a path absolute by the host's rules, without asking the host.

        Args:
            path: Absolute, relative to `base`, or below ``~``; ``None`` is `base`. On Windows ``\x`` is on the drive of
                `base`. If the host's shell is a bash, its spelling is accepted too: ``/c/src``, or ``/mnt/c/src`` with the
                bash of WSL.
            base: An absolute directory of the host; ``None`` is `directory`.

        Raises:
            InvalidCommand: Windows would take the path for something else than a file of that name: a device, a stream, a
                name that ends with a dot or a blank; or it is like ``D:src``, relative to an unknown directory.
        """
        windows = self.os == "windows"
        rules: ModuleType = ntpath if windows else posixpath
        base = self.directory if base is None else base
        if path is None:
            return base
        if windows:
            path = self._of_windows(path)
        if path == "~" or path.startswith(("~/", "~\\") if windows else "~/"):
            path = rules.join(self.home, path[2:])
        if path == "." or path.startswith(("./", ".\\") if windows else "./"):
            path = path[2:].lstrip("/\\" if windows else "/")
        joined: str = rules.join(base, path) if path else base  # an absolute path replaces the base
        if windows:
            joined = joined.replace("/", "\\")
            from .windows_paths import check_path  # here and below, since few hosts run Windows

            check_path(joined)
        return joined

    def _of_windows(self, path: str) -> str:
        r"""Convert a path to its plain Windows form: without bash's spelling of a drive, and without a needless ``\\?\``."""
        if self.shell is not None and (place := _PLACES_OF_BASH.get(self.shell.kind)):
            path = place.sub(lambda found: f"{found[1].upper()}:\\", path)
        from .windows_paths import plain

        path = plain(path)
        if re.match(r"[A-Za-z]:(?![\\/])", path):
            raise InvalidCommand(
                f"{path!r} is relative to where its drive is at the moment; give an absolute path"
            )
        return path
