"""What a command has written into the upper layer of an overlay, against what was there before it.

overlayfs marks there what is gone by a character device 0:0 of its name, and a directory that hides the one below it by the
attribute ``user.overlay.opaque`` (Documentation/filesystems/overlayfs.rst of Linux).
"""

from __future__ import annotations

import filecmp
import os
import stat
import sys
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

assert sys.platform == "linux"

from .._exceptions import AnyshellError
from ..effects import Look, compare

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from .._types import Effects
    from ..effects.look import Record

Facts = tuple[str, int, int, int, int, int, int]
"""A record of `effects.here`: name, mode, size, of a directory the owner, inode, and the times of modification and change."""

MOST_WRITTEN = 500_000
"""Files that a command on trial may have written; with more the trial ends with an error."""

_OPAQUE, _OF_OVERLAYS = "user.overlay.opaque", "user.overlay."


def facts_at(path: str) -> Facts | None:
    """What is at a path now; ``None`` is nothing."""
    try:
        at = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    owner = at.st_uid << 32 | at.st_gid if stat.S_ISDIR(at.st_mode) else 0
    return os.path.basename(path), at.st_mode, at.st_size, owner, at.st_ino, at.st_mtime_ns, at.st_ctime_ns


def is_directory(facts: Facts | None) -> bool:
    """Whether something is there, and a directory."""
    return facts is not None and stat.S_ISDIR(facts[1])


class Before:
    """The files of a directory as a look has seen them, by their paths relative to it.

    Args:
        root: The directory, without links; not ``/``.
        look: A look at all of it.
    """

    def __init__(self, root: str, look: Look) -> None:
        assert look.records is not None
        self.root = root
        self._start = f"{root}/."
        self._records: Mapping[str, object] = look.records
        self._named: dict[str, dict[str, Facts]] = {}

    def children(self, path: str) -> dict[str, Facts]:
        """What was in a directory, by the names."""
        if path not in self._named:
            records = self._records.get(f"{self._start}/{path}" if path else self._start, ())
            self._named[path] = {record[0]: record for record in records}  # type: ignore[attr-defined]  # of this machine
        return self._named[path]

    def at(self, path: str) -> Facts | None:
        """What was at a path; ``None`` is nothing."""
        above, _, name = path.rpartition("/")
        return self.children(above).get(name)

    def below(self, path: str) -> Iterator[tuple[str, Facts]]:
        """What was at a path and below it, a directory before what is in it."""
        facts = self.at(path)
        if facts is None:
            return
        yield path, facts
        if is_directory(facts):
            for name in self.children(path):
                yield from self.below(f"{path}/{name}")


@dataclass(frozen=True, slots=True)
class Change:
    """What is to be done with one path.

    Attributes:
        path: Relative to the directory.
        how: ``put`` what the layer has there in its place, a directory with all that is in it; ``delete`` it; or give the
            directory there another ``mode``.
    """

    path: str
    how: str


def changes_of(upper: str, before: Before) -> list[Change]:
    """Read an upper layer.

    Raises:
        AnyshellError: There are too many files in it.
    """
    found: list[Change] = []
    waiting = [""]
    count = 0
    while waiting:
        above = waiting.pop()
        for name in sorted(os.listdir(os.path.join(upper, above))):
            count += 1
            if count > MOST_WRITTEN:
                raise AnyshellError(
                    f"the command wrote more than {MOST_WRITTEN:,} files, too many for a trial"
                )
            path = f"{above}/{name}" if above else name
            here, then = os.lstat(os.path.join(upper, path)), before.at(path)
            if is_whiteout(here):
                found.append(Change(path, "delete"))
            elif stat.S_ISDIR(here.st_mode) and is_directory(then) and not _is_opaque(upper, path):
                if then is not None and then[1] != here.st_mode:
                    found.append(Change(path, "mode"))
                waiting.append(path)
            elif not _is_same(upper, path, here, then, before):
                found.append(Change(path, "put"))
    return found


def is_whiteout(facts: os.stat_result) -> bool:
    """Whether a file of an upper layer stands for one that is gone."""
    return stat.S_ISCHR(facts.st_mode) and facts.st_rdev == 0


def attributes(path: str) -> dict[str, bytes]:
    """The extended attributes of a file, less those of overlayfs."""
    found = {}
    with suppress(OSError):
        for name in os.listxattr(path, follow_symlinks=False):
            if not name.startswith(_OF_OVERLAYS):
                found[name] = os.getxattr(path, name, follow_symlinks=False)
    return found


def _is_opaque(upper: str, path: str) -> bool:
    with suppress(OSError):
        return os.getxattr(os.path.join(upper, path), _OPAQUE, follow_symlinks=False) == b"y"
    return False


def _is_same(upper: str, path: str, here: os.stat_result, then: Facts | None, before: Before) -> bool:
    """Whether a file was copied into the layer and then not changed, as by a program that opens it for writing."""
    if then is None or not stat.S_ISREG(here.st_mode) or here.st_nlink > 1:
        return False
    if then[1:3] != (here.st_mode, here.st_size) or then[5] != here.st_mtime_ns:
        return False
    one, two = os.path.join(upper, path), os.path.join(before.root, path)
    with suppress(OSError):
        return filecmp.cmp(one, two, shallow=False) and attributes(one) == attributes(two)
    return False


def written(upper: str, path: str) -> Iterator[tuple[str, Facts]]:
    """What a layer has at a path and below it, a directory before what is in it."""
    facts = facts_at(os.path.join(upper, path))
    if facts is None or stat.S_ISCHR(facts[1]):
        return
    yield path, facts
    if is_directory(facts):
        for name in sorted(os.listdir(os.path.join(upper, path))):
            yield from written(upper, f"{path}/{name}")


def effects_of(upper: str, before: Before, changes: list[Change]) -> Effects:
    """Tell what a layer would change."""
    then: dict[str, Facts] = {}
    now: dict[str, Facts] = {}
    for change in changes:
        was, there = before.below(change.path), written(upper, change.path)
        if change.how == "mode":
            was, there = islice(was, 1), islice(there, 1)
        then.update(was)
        now.update(there)
    # A file keeps its number as far as can be told; by it `compare` knows one that was renamed.
    gone = {_content(facts): facts[4] for path, facts in then.items() if path not in now}
    for number, (path, facts) in enumerate(sorted(now.items()), 1):
        old = then.get(path)
        if old is None:
            inode = -number if is_directory(facts) else gone.pop(_content(facts), -number)
        else:
            inode = old[4] if stat.S_IFMT(old[1]) == stat.S_IFMT(facts[1]) else -number
        now[path] = (*facts[:4], inode, *facts[5:])
    effects = compare(Look(_by_directory(then)), Look(_by_directory(now)), {"": ""})
    linked = [path for path in now if path in then and _has_other_names(before, path)]
    if linked:
        more = f" and {len(linked) - 1} more" if len(linked) > 1 else ""
        why = f"{linked[0]}{more} has other names (hard links), which would keep their content"
        effects = replace(effects, incomplete=(*effects.incomplete, why))
    return effects


def _content(facts: Facts) -> tuple[int, int, int]:
    """By what a file is known again that has another name: the kind, the size, and the time of its content."""
    return stat.S_IFMT(facts[1]), facts[2], facts[5]


def _has_other_names(before: Before, path: str) -> bool:
    with suppress(OSError):
        at = os.lstat(os.path.join(before.root, path))
        return stat.S_ISREG(at.st_mode) and at.st_nlink > 1
    return False


def _by_directory(files: Mapping[str, Facts]) -> dict[str, list[Record]]:
    found: dict[str, list[Record]] = {}
    for path, facts in files.items():
        above = path.rpartition("/")[0]
        found.setdefault(f"/./{above}" if above else "/.", []).append(facts)
    return found
