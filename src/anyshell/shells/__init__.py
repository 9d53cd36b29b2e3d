"""The shells that run commands: their paths, and their command lines for a text.

The only package that quotes. A new shell is a `Shell` or a `PowerShell`, a name in `SHELLS` and a description.
"""

from __future__ import annotations

import ntpath
import posixpath
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from anyshell._exceptions import InvalidCommand, ShellNotFound
from anyshell._lazy import importer
from anyshell._types import HostQuery, one_line

from .posix import BASH, SH, WSL, ZSH, Launch, Shell
from .powershell import PWSH, WINDOWS_POWERSHELL, PowerShell

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from anyshell._types import OperatingSystem, ShellCandidate, ShellInfo, ShellKind

    from .frame import Frame as Frame
    from .frame import FrameTexts as FrameTexts
    from .login import Login as Login
    from .powershell_session import PowerShellConversation as PowerShellConversation
    from .prefix import Prefix as Prefix
    from .session import RESERVED as RESERVED
    from .session import Conversation as Conversation
    from .session_fork import FORKED as FORKED
    from .session_fork import Fork as Fork
    from .words import quoted as quoted
    from .words import sh as sh
    from .words import text_of as text_of
    from .words import words_of as words_of
else:
    __getattr__ = importer(
        __name__,
        {
            "frame": "Frame FrameTexts",
            "login": "Login",
            "powershell_session": "PowerShellConversation",
            "prefix": "Prefix",
            "session": "RESERVED Conversation",
            "session_fork": "FORKED Fork",
            "words": "quoted sh text_of words_of",
        },
    )

__all__ = [
    "SHELLS",
    "Conversation",
    "Frame",
    "FrameTexts",
    "Launch",
    "Login",
    "PowerShell",
    "PowerShellConversation",
    "Prefix",
    "Shell",
    "candidates",
    "converse",
    "how_to_install",
    "kinds",
    "not_found",
    "query",
    "quoted",
    "sh",
    "text_of",
    "words_of",
]

SHELLS: Mapping[ShellKind, Shell | PowerShell] = MappingProxyType(
    {shell.kind: shell for shell in (BASH, ZSH, SH, PWSH, WINDOWS_POWERSHELL, WSL)}
)
"""Every known shell, by its kind."""

_PROGRAMS: Mapping[str, Shell | PowerShell] = MappingProxyType(
    {program: shell for shell in SHELLS.values() for program in shell.programs}
)


_DEFAULT: Mapping[bool, tuple[ShellKind, ...]] = {False: ("bash", "sh"), True: ("pwsh", "powershell", "bash")}
"""The shells to try when the caller names none, the best first; the key is whether the host runs Windows."""


_EXPECTED: Mapping[bool, tuple[ShellKind, ...]] = {
    False: ("bash", "zsh", "sh"),
    True: ("pwsh", "powershell", "bash"),
}
"""The shells that a host is expected to have, in the order of their listing; the key is whether the host runs Windows."""


def kinds(os: OperatingSystem) -> Mapping[ShellKind, bool]:
    """Return every kind of shell in the order for a host's system, and whether a host of that system should have it."""
    expected = _EXPECTED[os == "windows"]
    return {**dict.fromkeys(expected, True), **{kind: False for kind in SHELLS if kind not in expected}}


def how_to_install(kind: ShellKind, os: OperatingSystem, installer: str = "") -> str:
    """Return the commands that install a kind of shell.

    Args:
        kind: The kind of shell.
        os: The host's system.
        installer: The command that installs a package there, such as ``apt-get install``; empty for all usual ones.
    """
    shell = SHELLS[kind]
    if os == "windows":
        return shell.windows_install
    packages = " ".join(shell.packages)
    usual = (
        ("brew install",) if os == "macos" else ("apt-get install", "apk add", "dnf install", "brew install")
    )
    return ", ".join(f"{each} {packages}" for each in ((installer,) if installer else usual))


@lru_cache(maxsize=32)
def query(programs: tuple[str, ...], request: str | None = None, *, source: str = "shell") -> HostQuery:
    """Return the query for programs and for a shell, whatever the system of the host is.

    A request that only one system knows has no candidates on the other; `not_found` says so there.

    Args:
        programs: Names to look up.
        request: See `candidates`.
        source: See `candidates`.

    Raises:
        InvalidCommand: No system knows the request.
    """
    there: tuple[ShellCandidate, ...] = ()
    on_windows = candidates(request, source=source, os="windows")
    if request is None or _is_known(request, "linux"):
        there = candidates(request, source=source)
    return HostQuery(programs, there, on_windows)


def candidates(
    request: str | None = None, *, source: str = "shell", os: OperatingSystem = "linux"
) -> tuple[ShellCandidate, ...]:
    """Return the shells to try for a request, the best first.

    Args:
        request: A name, such as ``zsh``, for the usual paths and then the host's PATH; an absolute path for that file alone,
            whose name gives its language. On a Windows host names match in any case, with ``.exe`` or without, and a path may
            have slashes of either kind. ``None`` for the default: bash, then sh, wherever they are; on a Windows host pwsh,
            then powershell, then bash. A ``~`` is not expanded.
        source: The source of the request, for the message: an argument, or ``ANYSHELL_SHELL``.
        os: The host's system.

    Raises:
        InvalidCommand: The name is unknown, or the path is not absolute. The message lists the known names.
    """
    on_windows = os == "windows"
    if request is None:
        return tuple(each for kind in _DEFAULT[on_windows] for each in candidates(kind, source=source, os=os))
    directory, name = _split(request, os)
    shell = _PROGRAMS.get(name)
    if shell is None or "\0" in directory:
        raise InvalidCommand(
            f"{source}: {request!r} is not a shell that is known here; give one of {', '.join(_PROGRAMS)}, "
            "or the absolute path of a program with one of these names"
        )
    if not directory:
        usual = shell.windows_paths if on_windows else shell.paths
        paths = usual if name == shell.kind else (name,)
        return tuple(shell.candidate(path, os=os) for path in paths)
    if not _is_absolute(request, os):
        raise InvalidCommand(
            f"{source}: {request!r} is a relative path; give an absolute one, or just {name!r}"
        )
    return (shell.candidate(request, os=os),)


def _split(request: str, os: OperatingSystem) -> tuple[str, str]:
    """Return the directory and the program of a request. The name in a Windows path matches in any case."""
    on_windows = os == "windows" or bool(ntpath.splitdrive(request)[0])
    directory, name = ntpath.split(request) if on_windows else posixpath.split(request)
    return directory, name.lower().removesuffix(".exe") if on_windows else name


def _is_absolute(request: str, os: OperatingSystem) -> bool:
    drive, rest = ntpath.splitdrive(request)
    if drive:
        return rest.startswith(("/", "\\"))
    return request.startswith("/")  # on Windows no shell answers; the message lists the paths


def _is_known(request: str, os: OperatingSystem) -> bool:
    return _split(request, os)[1] in _PROGRAMS


def not_found(
    request: str | None, tried: Iterable[str], *, source: str = "shell", os: OperatingSystem = "linux"
) -> ShellNotFound:
    """Make the exception for a request when no candidate answered.

    Args:
        request: The argument of `candidates`.
        tried: One line for every candidate: its path, and the reason against it.
        source: The source of the request.
        os: The host's system.

    Raises:
        InvalidCommand: The request is unknown on that system.
    """
    tried = tuple(map(one_line, tried))
    wanted = "a shell" if request is None else repr(request)
    lines = [f"{wanted} was not found on this host, or did not answer. Tried:"]
    lines += [f"  {line}" for line in tried or ("nothing",)]
    how = how_to_install(candidates(request, source=source, os=os)[0].kind, os)
    lines.append(f"Install it ({how}), or name another by shell= or ANYSHELL_SHELL.")
    return ShellNotFound("\n".join(lines), tried=tried)


def converse(info: ShellInfo, directory: str | None) -> Conversation | PowerShellConversation:
    """Return the conversation with a persistent shell.

    Args:
        info: The shell.
        directory: The path of the `PipeDirectory` with the shell's pipes; ``None`` when the pipes are handles.

    Raises:
        InvalidCommand: The shell cannot use pipes of that kind: bash, zsh and sh open files, and PowerShell is given handles.
    """
    shell = SHELLS[info.kind]
    if isinstance(shell, PowerShell):
        if directory is None:
            from .powershell_session import PowerShellConversation

            return PowerShellConversation(shell)
        raise InvalidCommand(
            f"sessions of {info.name} work only on this machine, if that is Windows: run every command in a "
            "fresh shell"
        )
    if directory is None:
        raise InvalidCommand(
            f"there are no sessions of {info.name} on Windows: take shell='pwsh', or run every command in a fresh shell"
        )
    from .session import Conversation

    return Conversation(shell, directory)
