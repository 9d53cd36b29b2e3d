"""The difference between two looks at the same directories."""

from __future__ import annotations

import posixpath
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .._types import Effects, FileEffect

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from .._types import FileKind
    from .look import Look, Record

_KINDS: Mapping[str, FileKind] = {"f": "file", "d": "directory", "l": "link"}
_FORMATS: Mapping[int, FileKind] = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "link"}
_BASES = {"x": 16, "o": 8}


@dataclass(frozen=True, slots=True)
class Entry:
    """One file at the time of a look."""

    kind: FileKind
    mode: int
    size: int
    owner: Hashable
    inode: Hashable
    """The number of the file; ``None`` if the host does not number files."""
    modified: Hashable
    changed: Hashable

    @property
    def identity(self) -> Hashable:
        """The facts that identify the file under another path; ``None`` if the file has no number.

        A new file may get the number of a removed file: the modification time tells the two files apart.
        """
        size = 0 if self.kind == "directory" else self.size
        return None if self.inode is None else (self.inode, self.kind, size, self.modified)


def parse(records: Mapping[str, Iterable[Record]], names: Mapping[str, str]) -> dict[str, Entry]:
    """Read the records of a look into entries by path.

    Args:
        records: The records, by directory, as in `Look.records`.
        names: The name of each root in the paths of effects; empty for the directory that these paths are relative to.
    """
    entries: dict[str, Entry] = {}
    told: dict[str, str] = {}
    """The path of each file in effects. One root may contain another: each file is listed once, by its shortest path."""
    for directory, record in ((each, record) for each, found in records.items() for record in found):
        if isinstance(record, tuple):
            name, mode, size, owner, inode, modified, changed = record
            kind, bits = _FORMATS.get(stat.S_IFMT(mode), "other"), stat.S_IMODE(mode)
            path, entry = (
                f"{directory}/{name}",
                Entry(kind, bits, size, owner, inode or None, modified, changed),
            )
        else:
            path, entry = _read(record)
        if called := _name(path, names):
            whole = path.replace("/./", "/", 1)
            if (other := told.setdefault(whole, called)) != called:
                called = min(other, called, key=lambda each: (len(each), each))
                del entries[other]
                told[whole] = called
            entries[called] = entry
    return entries


def _read(record: bytes) -> tuple[str, Entry]:
    facts, modified, changed, path = record.decode("utf-8", "surrogateescape").split("\t", 3)
    mark, mode, size, _, owner, inode = facts.split(" ")
    if (base := _BASES.get(mark)) is not None:
        number = int(mode, base)
        kind, bits = _FORMATS.get(stat.S_IFMT(number), "other"), stat.S_IMODE(number)
    else:
        kind, bits = _KINDS.get(mark, "other"), int(mode, 8)
    return path, Entry(kind, bits, int(size), owner, inode, modified, changed)


def _name(path: str, names: Mapping[str, str]) -> str:
    """Return the name of a path in effects; empty for a root itself."""
    root, _, inside = path.partition("/./")
    return posixpath.join(names[root], inside) if inside else ""


def _below(path: str, names: Mapping[str, str]) -> str:
    """Return the prefix of all paths in a directory; empty for the directory that these paths are relative to."""
    root, _, inside = path.removesuffix("/.").partition("/./")
    called = posixpath.join(names.get(root, ""), inside)
    return called and f"{called.rstrip('/')}/"


def _without(unseen: tuple[str, ...], entries: dict[str, Entry]) -> dict[str, Entry]:
    if not unseen:
        return entries
    return {path: entry for path, entry in entries.items() if not path.startswith(unseen)}


def compare(before: Look, after: Look, names: Mapping[str, str]) -> Effects:
    """Return the differences between two looks as effects; no difference is listed if one of the looks was given up."""
    incomplete = tuple(dict.fromkeys(filter(None, (before.incomplete, after.incomplete))))
    if before.records is None or after.records is None:
        return Effects(incomplete=incomplete)
    # Files in a directory that one of the looks could not read count as neither deleted nor created.
    unseen = tuple({_below(path, names) for path in before.unseen | after.unseen})
    then = _without(unseen, parse(_differing(before.records, after.records), names))
    now = _without(unseen, parse(_differing(after.records, before.records), names))
    renamed = _renamed(
        {path: entry for path, entry in then.items() if path not in now},
        {path: entry for path, entry in now.items() if path not in then},
    )
    moved = set(renamed.values())
    return Effects(
        created=tuple(
            _effect(path, None, now[path]) for path in sorted(now.keys() - then.keys() - renamed.keys())
        ),
        changed=tuple(
            _effect(path, then[path], now[path])
            for path in sorted(now.keys() & then.keys())
            if _is_change(then[path], now[path])
        ),
        deleted=tuple(_effect(path, then[path], None) for path in sorted(then.keys() - now.keys() - moved)),
        renamed=tuple(
            _effect(path, then[old], now[path], old)
            for path, old in sorted(renamed.items())
            if not (_follows(path, old, renamed) and _is_untouched(then[old], now[path]))
        ),
        incomplete=incomplete,
        skipped=tuple(sorted({_name(path, names) for path in before.skipped | after.skipped})),
    )


def _differing(
    some: Mapping[str, Sequence[Record]], others: Mapping[str, Sequence[Record]]
) -> dict[str, set[Record]]:
    """Return the records of `some` that are not among `others`, by directory."""
    return {
        directory: set(records).difference(others.get(directory, ()))
        for directory, records in some.items()
        if (other := others.get(directory)) is not records and other != records
    }


def _renamed(gone: Mapping[str, Entry], new: Mapping[str, Entry]) -> dict[str, str]:
    """Return the old path of each new path whose file had another path before."""
    paths: dict[Hashable, list[str]] = {}
    for path in sorted(gone, reverse=True):
        if (identity := gone[path].identity) is not None:
            paths.setdefault(identity, []).append(path)
    renamed = {}
    for path in sorted(new):
        identity = new[path].identity
        if identity is not None and paths.get(identity):
            renamed[path] = paths[identity].pop()
    return renamed


def _follows(path: str, old: str, renamed: Mapping[str, str]) -> bool:
    """Whether a path only changed because its parent directory was renamed."""
    above, name = posixpath.split(path)
    old_above, old_name = posixpath.split(old)
    return name == old_name and renamed.get(above) == old_above


def _is_untouched(then: Entry, now: Entry) -> bool:
    """Whether a file's facts are unchanged, as after a rename of a directory above it."""
    if then.kind == "directory":
        return (then.mode, then.owner) == (now.mode, now.owner)
    return then == now


def _is_change(then: Entry, now: Entry) -> bool:
    if then.kind != "directory" or now.kind != "directory":
        return True
    # Making or removing a file in a directory changes both times of the directory; other changes only the change time.
    quietly = then.modified == now.modified and then.changed != now.changed
    return quietly or (then.mode, then.owner, then.inode) != (now.mode, now.owner, now.inode)


def _effect(path: str, then: Entry | None, now: Entry | None, old: str | None = None) -> FileEffect:
    there = now or then
    assert there is not None
    content = True
    if then is not None and now is not None:
        content = (then.kind, then.inode) != (now.kind, now.inode)
        if not content and now.kind != "directory":
            content = (then.size, then.modified) != (now.size, now.modified)
    return FileEffect(
        path=path,
        path_before=old,
        kind=there.kind,
        kind_before=None if then is None or then.kind == there.kind else then.kind,
        size_before=None if then is None else then.size,
        size=None if now is None else now.size,
        mode_before=None if then is None else then.mode,
        mode=None if now is None else now.mode,
        content=content,
    )
