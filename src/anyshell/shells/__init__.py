"""The shells that commands are written for: where to look for one, and how to have it run a text.

The only place where anything is quoted. A new shell is a `Shell`, a line in `SHELLS` and a description.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from anyshell._exceptions import InvalidCommand, ShellNotFound

from .login import Login
from .posix import BASH, SH, ZSH, Launch, Shell
from .prefix import Prefix
from .session import RESERVED as RESERVED
from .session import Conversation, Frame

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from anyshell._types import ShellCandidate, ShellKind

__all__ = ["SHELLS", "Conversation", "Frame", "Launch", "Login", "Prefix", "Shell", "candidates", "not_found"]

SHELLS: Mapping[ShellKind, Shell] = MappingProxyType({shell.kind: shell for shell in (BASH, ZSH, SH)})
"""Every shell there is, by its kind."""

_PROGRAMS: Mapping[str, Shell] = MappingProxyType(
    {program: shell for shell in SHELLS.values() for program in shell.programs}
)


def candidates(request: str | None = None, *, source: str = "shell") -> tuple[ShellCandidate, ...]:
    """Turn what somebody asked for into shells to try, the best first.

    Args:
        request: A name, such as ``zsh``, for the usual places and then the host's PATH; an absolute path for
            that file alone, its language told by its name; ``None`` for bash, then sh, wherever they are. A
            ``~`` is not expanded.
        source: Where the request comes from, for the message: an argument, or ``ANYSHELL_SHELL``.

    Raises:
        InvalidCommand: The name is none that is known, or the path is not absolute. The message says what is
            known.
    """
    if request is None:
        return candidates("bash") + candidates("sh")
    directory, slash, name = request.rpartition("/")
    shell = _PROGRAMS.get(name)
    if shell is None or "\0" in directory:
        raise InvalidCommand(
            f"{source}: {request!r} is no shell that is known here; give one of {', '.join(_PROGRAMS)}, "
            "or the absolute path of a program with one of these names"
        )
    if not slash:
        paths = shell.paths if name == shell.kind else (name,)
        return tuple(map(shell.candidate, paths))
    if not request.startswith("/"):
        raise InvalidCommand(
            f"{source}: {request!r} is a relative path; give an absolute one, or just {name!r}"
        )
    return (shell.candidate(request),)


def not_found(request: str | None, tried: Iterable[str]) -> ShellNotFound:
    """Make the exception for a request of which no candidate answered.

    Args:
        request: What `candidates` was given, and accepted.
        tried: One line for every candidate: its path, and why it does not count.
    """
    tried = tuple(tried)
    shell = BASH if request is None else _PROGRAMS[request.rpartition("/")[2]]
    packages = " ".join(shell.packages)
    wanted = "a shell" if request is None else repr(request)
    lines = [f"{wanted} was not found on this host, or did not answer. Tried:"]
    lines += [f"  {line}" for line in tried or ("nothing",)]
    lines.append(
        f"Install it (apt-get install {packages}, apk add {packages}, dnf install {packages}, "
        f"brew install {packages}), or name another by shell= or ANYSHELL_SHELL."
    )
    return ShellNotFound("\n".join(lines), tried=tried)
