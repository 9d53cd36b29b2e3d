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
    """The questions to a host, all at once.

    Attributes:
        programs: Names to look up on its PATH.
        shells: Candidates in order; the first that answers is taken.
        shells_on_windows: The shells in the place of `shells` if the host turns out to be a Windows one.
        variables: Names of variables to look for.
        brief: Whether what a command needs is enough: the system, the directories, and a shell that is there, which is
            not asked for its version. A backend for which all of it costs the same may heed it or not.
    """

    programs: tuple[str, ...] = ()
    shells: tuple[ShellCandidate, ...] = ()
    shells_on_windows: tuple[ShellCandidate, ...] = ()
    variables: tuple[str, ...] = ()
    brief: bool = False

    def shells_on(self, os: OperatingSystem) -> tuple[ShellCandidate, ...]:
        """The candidates for a host of that system."""
        return self.shells_on_windows if os == "windows" else self.shells


_PLACES_OF_BASH: Mapping[str, re.Pattern[str]] = {
    **dict.fromkeys(("bash", "zsh", "sh"), re.compile(r"\A(?:/cygdrive)?/([A-Za-z])(?:/|\Z)")),
    "wsl": re.compile(r"\A/mnt/([A-Za-z])(?:/|\Z)"),
}
"""The paths of a drive in a bash on Windows: of MSYS2 and Cygwin; of WSL, unless it is configured otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostInfo:
    """The facts of a host, as its backend found them; never those of another machine.

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
        code_page: The number of the code page in which programs write that do not write UTF-8: on Windows the OEM
            page of the system, such as 850. ``None`` on any other host.
        programs: The requested programs that exist, with their paths.
        variables: On Windows, those of the variables asked for that the host's environment has; their names alone.
        shell: The first shell candidate that answered.
        shells_tried: One line for every candidate that did not answer, with the reason.
        is_this_machine: Whether the host's files are those of the machine that anyshell runs on, under the
            same paths: then a command can read what anyshell keeps.
        notices: Facts for a person about the way the host was reached, one sentence each, such as a setting
            that is not heeded. Not for models.
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
                `base`, and a place on a drive may also be named as its shell does, if that is a bash: ``/c/src``, or
                ``/mnt/c/src`` where it is that of WSL.
            base: An absolute directory of the host; ``None`` is `directory`.

        Raises:
            InvalidCommand: Windows would take it for something else than a file of that name: a device, a stream, a
                name that ends with a dot or a blank; or for ``D:src``, which depends on a directory not known here.
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
        joined: str = rules.join(base, path) if path else base  # which an absolute path replaces
        if windows:
            joined = joined.replace("/", "\\")
            from .windows_paths import check_path  # here and below, since few hosts run Windows

            check_path(joined)
        return joined

    def _of_windows(self, path: str) -> str:
        r"""Name a file as every program of Windows does: without what bash, or a ``\\?\`` that is not needed, adds."""
        if self.shell is not None and (place := _PLACES_OF_BASH.get(self.shell.kind)):
            path = place.sub(lambda found: f"{found[1].upper()}:\\", path)
        from .windows_paths import plain

        path = plain(path)
        if re.match(r"[A-Za-z]:(?![\\/])", path):
            raise InvalidCommand(
                f"{path!r} is relative to where its drive is at the moment; give an absolute path"
            )
        return path
