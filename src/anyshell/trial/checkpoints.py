"""Checkpoints: how the files of a directory were, kept in a directory of anyshell's own, and the way back there.

A content is kept once, by its digest, whatever has it. A checkpoint names for each path what was there. So the next one reads
only the files that have changed since the last, which their facts tell.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import stat
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from typing import TYPE_CHECKING

from .. import _private
from .. import effects as looks
from .._exceptions import AnyshellError
from .._runner.effects import LOOK_SECONDS, MOST_FILES, SETTLE_SECONDS
from .._types.effects import SKIPPED
from .._waits import in_a_worker, to_the_end

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path


LARGEST_CONTENT = 64 * 1024 * 1024
"""Bytes of a file that a checkpoint keeps; a larger one is in `Checkpoint.left_out`."""

LARGEST_CHECKPOINT = 2 * 1024 * 1024 * 1024
"""Bytes that a checkpoint adds to what is kept already; the files beyond them are in `Checkpoint.left_out`."""

KEPT_CHECKPOINTS = 10
"""Checkpoints of one directory that are kept; then the oldest is removed."""

UNUSED_SECONDS = 3600.0
"""Seconds after which a content that no checkpoint names is removed: another program may be making the one that does."""

Entry = tuple[int, str, tuple[int, int, int, int]]
"""A mode; a digest of the content, or where a link leads; and size, inode, and the times of modification and change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """How the files of a directory were.

    Attributes:
        id: Its name.
        directory: The directory, without links.
        made: When, in seconds since the epoch.
        files: How many files, links and directories it covers.
        skipped: Directories in there that it does not cover, since programs make their files anew.
        left_out: Files that it does not cover, with the reason.
        since: The id of the checkpoint at the beginning of what can be undone; empty if this is not the end of such.
    """

    id: str
    directory: str
    made: float
    files: int = 0
    skipped: tuple[str, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    since: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What a way back has done.

    Attributes:
        restored: Paths that are as they were.
        removed: Paths that had come since then.
        kept: Paths that are as they were found, with the reason: the undo did not know them, or could not write there.
        before: How everything was before it.
    """

    restored: tuple[str, ...]
    removed: tuple[str, ...]
    kept: Mapping[str, str]
    before: Checkpoint


class Checkpoints:
    """The checkpoints of one directory.

    Args:
        directory: The directory, of this machine.
    """

    def __init__(self, directory: str) -> None:
        self._root = os.path.realpath(directory)
        digest = hashlib.sha256(os.fsencode(self._root)).hexdigest()[:32]
        self._store = _private.state_directory("checkpoints") / digest
        self._own = os.path.realpath(self._store.parent.parent)

    async def take(self, *, since: Checkpoint | None = None) -> Checkpoint:
        """Make one. `Environment.checkpoint` says more."""
        return (await in_a_worker(partial(self._take, since="" if since is None else since.id)))[0]

    async def restore(self, checkpoint: Checkpoint, *, until: Checkpoint | None = None) -> Restored:
        """Go back to one. `Environment.restore` says more."""
        return await to_the_end(in_a_worker(partial(self._restore, checkpoint, until)), lambda: None)

    def list(self) -> list[Checkpoint]:
        """Those that are kept, the newest first."""
        found = []
        for path in sorted(self._store.glob("*.json"), reverse=True):
            with suppress(OSError, ValueError, TypeError, KeyError):
                found.append(_read(path)[0])
        return found

    def between(self, start: Checkpoint, end: Checkpoint) -> Sequence[str]:
        """The paths that differ."""
        then, now = self._entries(start), self._entries(end)
        return sorted(path for path in {*then, *now} if then.get(path, ())[:2] != now.get(path, ())[:2])

    def forget(self, checkpoint: Checkpoint) -> None:
        """Keep one no longer. Contents that no other has are removed with the next one that is made."""
        self._path(checkpoint.id).unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return self._store / f"{name}.json"

    def _entries(self, checkpoint: Checkpoint) -> dict[str, Entry]:
        if checkpoint.directory != self._root:
            raise AnyshellError(f"the checkpoint is of {checkpoint.directory}, not of {self._root}")
        try:
            return _read(self._path(checkpoint.id))[1]
        except (OSError, ValueError, TypeError, KeyError):
            raise AnyshellError(f"the checkpoint {checkpoint.id} is not kept any more") from None

    def _take(self, *, since: str = "", needed: str = "") -> tuple[Checkpoint, dict[str, Entry]]:
        objects = self._store / "objects"
        _private.make_directories(objects)
        for each in (self._store, objects):
            _private.check_directory(each, refusal="checkpoints are not kept: {fault}")
        kept = self.list()
        last = self._entries(kept[0]) if kept else {}
        look = looks.here([self._root], SKIPPED, seconds=LOOK_SECONDS, most=MOST_FILES)
        if look.records is None:
            raise AnyshellError(f"no checkpoint of {self._root}: {look.incomplete}")
        if look.newest is not None and time.time_ns() - look.newest < SETTLE_SECONDS * 1e9:
            # A file that is changed within a tick of the kernel's clock looks the same.
            time.sleep(SETTLE_SECONDS)
        entries: dict[str, Entry] = {}
        left_out: dict[str, str] = {}
        added = 0
        start = f"{self._root.rstrip('/')}/."
        skipped = {path[len(start) + 1 :] for path in look.skipped}
        hidden = [path[len(start) + 1 :] for path in look.unseen if path != start]
        lost = set()
        for directory, records in look.records.items():
            for record in records:
                assert isinstance(record, tuple)
                name, mode, size, _, inode, modified, changed = record
                path = f"{directory}/{name}"[len(start) + 1 :]
                place = os.path.join(self._root, path)
                if place == self._own or place.startswith(f"{self._own}{os.sep}"):
                    # Files of anyshell's own, such as the contents that an undo needs, are not undone.
                    skipped.add(os.path.relpath(self._own, self._root))
                    continue
                facts, content = (size, inode, modified, changed), ""
                lost.add((stat.S_IFMT(mode), inode))
                try:
                    if stat.S_ISLNK(mode):
                        content = os.readlink(f"{directory}/{name}")
                    elif stat.S_ISREG(mode):
                        old = last.get(path)
                        if (
                            old is not None
                            and (old[0], old[2]) == (mode, facts)
                            and (objects / old[1]).exists()
                        ):
                            content = old[1]
                        elif size > LARGEST_CONTENT or added + size > LARGEST_CHECKPOINT:
                            left_out[path] = "too large"
                            continue
                        else:
                            content = _keep(f"{directory}/{name}", objects)
                            added += size
                    elif not stat.S_ISDIR(mode):
                        left_out[path] = "not a regular file"
                        continue
                except OSError as error:
                    left_out[path] = error.strerror or "cannot be read"
                    continue
                entries[path] = (mode, content, facts)
                if path not in skipped and path not in hidden:
                    lost.discard((stat.S_IFMT(mode), inode))
        left_out.update(dict.fromkeys(hidden, "its files cannot be read"))
        now = time.time_ns()
        checkpoint = Checkpoint(
            id=f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime(now // 10**9))}-{now % 10**9:09}",
            directory=self._root,
            made=now / 10**9,
            files=len(entries),
            skipped=tuple(sorted(skipped)),
            left_out=left_out,
            since=since,
        )
        _write(self._path(checkpoint.id), json.dumps([asdict(checkpoint), entries, sorted(lost)]).encode())
        kept = [checkpoint, *kept]
        for old_one in kept[KEPT_CHECKPOINTS:]:
            if old_one.id != needed:
                self.forget(old_one)
        if len(kept) > KEPT_CHECKPOINTS:
            self._remove_unused(objects)
        return checkpoint, entries

    def _remove_unused(self, objects: Path) -> None:
        used = {entry[1] for each in self.list() for entry in self._entries(each).values()}
        for path in objects.iterdir():
            with suppress(FileNotFoundError):
                if path.name not in used and time.time() - path.stat().st_mtime > UNUSED_SECONDS:
                    path.unlink()

    def _restore(self, checkpoint: Checkpoint, until: Checkpoint | None) -> Restored:
        then = self._entries(checkpoint)
        end = None if until is None else self._entries(until)
        lost = {tuple(each) for each in json.loads(self._path(checkpoint.id).read_bytes())[2]}
        with suppress(FileExistsError):
            os.makedirs(self._root)
        before, now = self._take(needed=checkpoint.id)
        new = {path: why for path, why in before.left_out.items() if path not in then}
        kept = {path: f"not covered: {why}" for path, why in new.items() if path not in checkpoint.left_out}
        uncovered = {*before.skipped, *before.left_out, *checkpoint.skipped, *checkpoint.left_out}
        # What was not covered may have another name now, and so may what is in it.
        uncovered.update(path for path, entry in now.items() if (stat.S_IFMT(entry[0]), entry[2][1]) in lost)
        restored, removed = [], []
        modes: dict[str, int] = {}

        def is_known(path: str) -> bool:
            """Whether what is there now is what was there at the end of what is undone; of a directory, its files tell."""
            if end is None or path not in end:
                return end is None and path in then
            # What it holds, since an undo that came before has made it anew.
            return now[path][:2] == end[path][:2] or (
                stat.S_ISDIR(now[path][0]) and stat.S_ISDIR(end[path][0])
            )

        def is_uncovered(path: str) -> bool:
            while path:
                if path in uncovered:
                    return True
                path = os.path.dirname(path)
            return False

        # What came goes first, what is in a directory before that, so that there is room for what was there.
        for path, entry in sorted(now.items(), reverse=True):
            if path in then and stat.S_IFMT(entry[0]) == stat.S_IFMT(then[path][0]):
                continue
            if is_uncovered(path):
                kept[path] = "it was not covered"
            elif not is_known(path):
                kept[path] = "it came or changed after what is undone"
            elif why := self._undone(path, None, entry, modes):
                kept[path] = why
            elif path not in then:
                removed.append(path)
        for path, entry in sorted(then.items()):
            there = now.get(path)
            if path in kept or (there is not None and there[:2] == entry[:2]):
                continue
            if path in uncovered and (there is None or not stat.S_ISDIR(entry[0])):
                kept[path] = "it is not covered now"
            elif there is not None and not is_known(path):
                kept[path] = "it came or changed after what is undone"
            elif why := self._undone(
                path,
                entry,
                there if there and stat.S_IFMT(there[0]) == stat.S_IFMT(entry[0]) else None,
                modes,
            ):
                kept[path] = why
            else:
                restored.append(path)
        for path, mode in sorted(modes.items(), reverse=True):
            with suppress(OSError):
                os.chmod(os.path.join(self._root, path), mode)
        return Restored(restored=tuple(restored), removed=tuple(removed), kept=kept, before=before)

    def _undone(self, path: str, entry: Entry | None, now: Entry | None, modes: dict[str, int]) -> str:
        """Have one path be as it was; say why not if it cannot. Directories get their `modes` at the end."""
        place = os.path.join(self._root, path)
        above = os.path.dirname(place)
        if os.path.realpath(above) != above:
            return "a link is in the place of a directory above it"
        if not _is_as_seen(place, now):
            return "it changed during the undo"
        try:
            mode = stat.S_IMODE(os.stat(above).st_mode)
            if mode & 0o300 != 0o300:
                modes.setdefault(os.path.dirname(path), mode)
                os.chmod(above, mode | 0o700)
            if entry is None:
                (os.rmdir if now is not None and stat.S_ISDIR(now[0]) else os.unlink)(place)
                modes.pop(path, None)
                return ""
            mode, content, facts = entry
            if stat.S_ISDIR(mode):
                with suppress(FileExistsError):
                    os.mkdir(place)
                modes[path] = stat.S_IMODE(mode)
                return ""
            beside = os.path.join(above, f".anyshell-undo-{secrets.token_hex(8)}")
            try:
                if stat.S_ISLNK(mode):
                    os.symlink(content, beside)
                else:
                    _copy(self._store / "objects" / content, beside)
                    os.chmod(beside, stat.S_IMODE(mode))
                    os.utime(beside, ns=(facts[2], facts[2]))
                os.replace(beside, place)
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(beside)
        except OSError as error:
            return error.strerror or type(error).__name__
        return ""


def _is_as_seen(place: str, seen: Entry | None) -> bool:
    """Whether a file has not changed since it was kept. Of a directory, the kind is enough: its files tell."""
    try:
        at = os.lstat(place)
    except OSError:
        return seen is None
    if seen is None or stat.S_IFMT(at.st_mode) != stat.S_IFMT(seen[0]):
        return False
    size, inode, modified, _ = seen[2]
    # Windows tells no inode in a look.
    return stat.S_ISDIR(at.st_mode) or (
        (at.st_size, at.st_mtime_ns) == (size, modified) and inode in (0, at.st_ino)
    )


def _pieces(path: str | Path) -> Iterator[bytes]:
    with open(path, "rb") as file:
        while data := file.read(1024 * 1024):
            yield data


def _keep(path: str, objects: Path) -> str:
    """Keep a content; return its digest."""
    digest = hashlib.sha256()
    beside = objects / f"{secrets.token_hex(8)}.part"
    with open(_private.create_file(str(beside)), "wb") as file:
        for data in _pieces(path):
            digest.update(data)
            file.write(data)
    name = digest.hexdigest()
    os.replace(beside, objects / name)
    return name


def _copy(source: Path, target: str) -> None:
    with open(_private.create_file(target), "wb") as file:
        file.writelines(_pieces(source))


def _write(path: Path, data: bytes) -> None:
    part = path.with_suffix(".part")
    with open(_private.create_file(str(part)), "wb") as file:
        file.write(data)
    os.replace(part, path)


def _read(path: Path) -> tuple[Checkpoint, dict[str, Entry]]:
    head, entries, _ = json.loads(path.read_bytes())
    known = {each.name: head[each.name] for each in fields(Checkpoint)}
    known["skipped"] = tuple(known["skipped"])
    return Checkpoint(**known), {
        name: (mode, content, tuple(facts)) for name, (mode, content, facts) in entries.items()
    }
