"""A directory as the target of a scheme, and paths that stay inside of one."""

from __future__ import annotations

import errno
import ntpath
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .._exceptions import InvalidCommand
from .._types import Creates, Resolved
from .._types.windows_paths import fault_of

if TYPE_CHECKING:
    from types import ModuleType

    from ..abc import Files

MOST_LINKS = 40
"""Links on the way of one address, at most, as on Linux; with more it is an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """A resolver: ``skill://review/SKILL.md`` is ``review/SKILL.md`` below a directory.

    Attributes:
        path: The directory; absolute.
        on_host: Whether it is on the host of the command; otherwise it is on this machine.
        creates: The kind of file that a command may make there, as in `Resolved`.
    """

    path: str
    on_host: bool = False
    creates: Creates = "nothing"

    async def resolve(self, name: str) -> Resolved:
        """Say where a name leads, which is looked at by the caller."""
        return Resolved(path=name, root=self.path, on_host=self.on_host, creates=self.creates)


async def contained(files: Files, rules: ModuleType, root: str, name: str) -> tuple[str, int]:
    """Find what a name below a directory leads to, through no link out of that directory.

    Args:
        files: The files of the host.
        rules: The module that reads its paths: ``posixpath`` or ``ntpath``.
        root: The directory; absolute.
        name: Below it.

    Returns:
        The path, in which no name below `root` is a link; and how many names at its end are not there.

    Raises:
        InvalidCommand: It leads out, or no file can have that name.
        OSError: It cannot be looked at.
    """
    separator = r"[/\\]" if rules is ntpath else "/"
    if re.match(separator, name) or rules.splitdrive(name)[0]:
        raise InvalidCommand("it is absolute: name a path below its directory")
    waiting = [part for part in re.split(separator, name) if part not in ("", ".")]
    if ".." in waiting:
        raise InvalidCommand("it leads out of its directory by '..'")
    if rules is ntpath and (fault := next(filter(None, map(fault_of, waiting)), None)):
        raise InvalidCommand(f"no file of Windows has that name: {fault}")
    done: list[str] = []
    links = 0
    while waiting:
        part = waiting.pop(0)
        if part == "..":  # of a link
            if not done:
                raise InvalidCommand("a link in it leads out of its directory")
            done.pop()
            continue
        path = rules.join(root, *done, part)
        try:
            kind = (await files.stat(path, follow=False)).kind
        except FileNotFoundError:
            if ".." in waiting:
                raise InvalidCommand("a link in it leads to a missing path") from None
            return rules.join(path, *waiting), 1 + len(waiting)
        if kind != "link":
            done.append(part)
            continue
        links += 1
        if links > MOST_LINKS:
            raise OSError(errno.ELOOP, "too many links", path)
        target = await files.readlink(path)
        if rules.isabs(target) or rules.splitdrive(target)[0]:
            below = rules.normcase(rules.normpath(root)).rstrip("/\\") + rules.sep
            target = rules.normpath(target)
            if not rules.normcase(target + rules.sep).startswith(below):
                raise InvalidCommand("a link in it leads out of its directory")
            target, done = target[len(below) :], []
        waiting = [each for each in re.split(separator, target) if each not in ("", ".")] + waiting
    return rules.join(root, *done), 0
