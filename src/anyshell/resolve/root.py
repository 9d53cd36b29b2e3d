"""A directory as the target of a scheme, and the check that a path stays inside of a directory."""

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
"""Links that are followed for one address, as on Linux; more links are an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """A resolver: ``skill://review/SKILL.md`` is ``review/SKILL.md`` below a directory.

    Attributes:
        path: The directory; absolute.
        on_host: Whether the directory is on the host of the command; otherwise it is on this machine.
        creates: The kind of file that a command may make in the directory, as in `Resolved`.
    """

    path: str
    on_host: bool = False
    creates: Creates = "nothing"

    async def resolve(self, name: str) -> Resolved:
        """Return the target of a name; the caller checks whether the target exists."""
        return Resolved(path=name, root=self.path, on_host=self.on_host, creates=self.creates)


async def contained(files: Files, rules: ModuleType, root: str, name: str) -> tuple[str, int]:
    """Resolve a name below a directory, and refuse a link out of that directory.

    Args:
        files: The files of the host.
        rules: The path module for the host: ``posixpath`` or ``ntpath``.
        root: The directory; absolute.
        name: A path below the directory.

    Returns:
        The path, without a link below `root`; and the number of names at the path's end that do not exist.

    Raises:
        InvalidCommand: The name leads out of the directory, or no file can have that name.
        OSError: A part of the path cannot be read.
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
    # Resolve one name at a time: `done` has no links and stays below the root; a link's target goes back to `waiting`.
    while waiting:
        part = waiting.pop(0)
        if part == "..":  # from the target of a link
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
