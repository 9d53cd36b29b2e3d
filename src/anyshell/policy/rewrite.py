"""Rewrites of a command that keep its meaning. The functions are pure except for one question to the host."""

from __future__ import annotations

import posixpath
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from .._types import Command, HostInfo

# Variables that change the target or the effects of a cd, or that would show the rewrite to the rest of the command.
_DECIDE_A_CD = frozenset(
    {"BASHOPTS", "BASH_ENV", "CDPATH", "ENV", "HOME", "OLDPWD", "POSIXLY_CORRECT", "PWD", "SHELLOPTS"}
)

# Directories whose content depends on the process that reads them: /proc/self, /dev/fd.
_OF_A_PROCESS = ("/proc", "/dev")


class CommandAfterCd(Protocol):
    """The leading ``cd`` of a command, by the syntax of its shell: ``cd DIRECTORY && REST``."""

    @property
    def directory(self) -> str:
        """The literal directory."""

    @property
    def rest(self) -> str:
        """The rest of the command, which runs in `directory`."""


async def leading_cd_into_cwd(
    command: Command,
    *,
    parse: Callable[[str], CommandAfterCd | None],
    info: HostInfo,
    directory: str,
    can_enter: Callable[[str], Awaitable[bool]],
) -> Command:
    """Replace a command's leading ``cd`` with the working directory `cwd`, to show the directory to the approver.

    The command is rewritten only if both forms do the same: the command has no `cwd`, the directory is literal and can be
    entered, and no variable changes the meaning of ``cd``. The new `cwd` is the path that ``cd`` would set: normalised,
    with links not resolved. OLDPWD becomes the directory in which the command would have started, as ``cd`` sets it.

    Args:
        command: The requested command.
        parse: Recognises a leading ``cd``; returns ``None`` in doubt.
        info: The host's facts.
        directory: The directory in which the command would start; absolute.
        can_enter: Asks the host whether a path is a directory to which a ``cd`` would succeed.

    Returns:
        A new command, or the same command.
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
    """Return the path that ``cd`` would set, or ``None`` in doubt; ``..`` removes a name, whatever the name links to."""
    joined = posixpath.join(base, path)
    if posixpath.normpath(base) != base or joined.startswith("//"):
        return None
    # After a name, ".." works only if the name exists. At the start, ".." removes a name that is known to exist.
    names = path.split("/")
    while names[:1] == [".."]:
        names.pop(0)
    target = posixpath.normpath(joined)
    below = target.lower()  # some systems ignore the case of names
    if ".." in names or any(f"{below}/".startswith(f"{top}/") for top in _OF_A_PROCESS):
        return None
    return target
