"""Say a command in another way that means the same. Pure but for one question to the host."""

from __future__ import annotations

import posixpath
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from .._types import Command, HostInfo

# Variables by which a cd goes elsewhere, or does more than go, or by which the rest would notice.
_DECIDE_A_CD = frozenset(
    {"BASHOPTS", "BASH_ENV", "CDPATH", "ENV", "HOME", "OLDPWD", "POSIXLY_CORRECT", "PWD", "SHELLOPTS"}
)

# Directories whose content depends on the process that looks: /proc/self, /dev/fd.
_OF_A_PROCESS = ("/proc", "/dev")


class CommandAfterCd(Protocol):
    """The leading ``cd`` of a command, as its shell's syntax tells: ``cd DIRECTORY && REST``."""

    @property
    def directory(self) -> str:
        """The literal directory."""

    @property
    def rest(self) -> str:
        """The rest of the command, which runs there."""


async def leading_cd_into_cwd(
    command: Command,
    *,
    parse: Callable[[str], CommandAfterCd | None],
    info: HostInfo,
    directory: str,
    can_enter: Callable[[str], Awaitable[bool]],
) -> Command:
    """Start a command in the directory that it goes to first, so that its approver sees where it runs.

    Done only where both forms do the same: no `cwd` was given, the directory is literal and can be entered,
    nothing decides otherwise what ``cd`` means. The new `cwd` is the path by which ``cd`` would name it:
    normalised, its links not resolved. OLDPWD becomes where the command would have started, as ``cd`` sets it.

    Args:
        command: The requested command.
        parse: Recognises a leading ``cd``; says ``None`` in doubt.
        info: The host's facts.
        directory: The directory in which the command would start; absolute.
        can_enter: Asks the host whether a path is a directory to which a ``cd`` would succeed.

    Returns:
        A new command, or the same one.
    """
    if command.cwd is not None or info.os == "windows" or not _DECIDE_A_CD.isdisjoint(command.env):
        return command
    leading = parse(command.text)
    if leading is None:
        return command
    target = _target(leading.directory, directory)
    if target is None or not await can_enter(target):
        return command
    env = {**command.env, "OLDPWD": directory}
    return replace(command, text=leading.rest.lstrip(" \t"), cwd=target, env=env)


def _target(path: str, base: str) -> str | None:
    """The path by which ``cd`` names where it goes: ``..`` takes a name off, whatever that name links to."""
    joined = posixpath.join(base, path)
    if posixpath.normpath(base) != base or joined.startswith("//"):
        return None
    # After a name, ".." would need that name to exist; at the start it takes off what is known to.
    names = path.split("/")
    while names[:1] == [".."]:
        names.pop(0)
    target = posixpath.normpath(joined)
    below = target.lower()  # some systems take either case
    if ".." in names or any(f"{below}/".startswith(f"{top}/") for top in _OF_A_PROCESS):
        return None
    return target
