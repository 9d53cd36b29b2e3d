"""The store of one directory's checkpoints: file contents, each kept once by its digest, and the paths with the contents.

A checkpoint records mode, content and facts of each path. So the next checkpoint reads only the files whose facts differ from
the last checkpoint. An SSH host runs the text of this module itself, after the text of `files`.
"""

import errno
import hashlib
import os
import secrets
import shutil
import stat
import time
from contextlib import suppress
from functools import partial

if __name__ != "__main__":
    from .files import (
        FileListing,
        HeldDirectory,
        Record,
        below,
        create_file,
        from_json,
        is_missing,
        look,
        own_directory,
        serve,
        to_json,
    )

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    Entry = tuple[int, str, tuple[int, int, int, int], int]
    """A mode; the content's digest or a link's target; size, inode, and the times of modification and change; and the owner."""

LARGEST_CONTENT = 64 * 1024 * 1024
"""Bytes of a file that a checkpoint keeps; a larger file is listed in `Checkpoint.left_out`."""

LARGEST_CHECKPOINT = 2 * 1024 * 1024 * 1024
"""Bytes that one checkpoint adds to the kept contents; further files are listed in `Checkpoint.left_out`."""

KEPT_CHECKPOINTS = 10
"""Checkpoints of one directory that are kept; beyond that the oldest checkpoint is removed."""

UNUSED_SECONDS = 3600.0
"""Seconds after which a content without a checkpoint is removed: another program may just be making a checkpoint with the
content. Files that a killed undo has left in the directory are removed after the same time."""

_BESIDE = ".anyshell-undo-"


class Store:
    """The checkpoints of one directory; each method returns plain data.

    Args:
        directory: The directory.
        state: The directory of anyshell's own files.
        own: Makes a directory for this user alone, or refuses an existing directory of others.
        create: Creates a file for this user alone, and returns its descriptor.
    """

    def __init__(
        self,
        directory: str,
        state: str,
        own: "Callable[[str], object]" = own_directory,
        create: "Callable[[str], int]" = create_file,
    ) -> None:
        self._root, self._own, self._create = os.path.realpath(directory), own, create
        self._state = os.path.realpath(os.path.expanduser(state))
        digest = hashlib.sha256(os.fsencode(self._root)).hexdigest()[:32]
        self._top = os.path.join(self._state, "checkpoints", digest)
        self._objects = os.path.join(self._top, "objects")

    def kept(self) -> "Sequence[dict[str, Any]]":
        """Return the kept checkpoints, the newest first."""
        found = []
        with suppress(FileNotFoundError):
            for name in sorted(os.listdir(self._top), reverse=True):
                with suppress(OSError, ValueError):
                    if name.endswith(".json"):
                        found.append(self._read(name[:-5])[0])
        return found

    def between(self, start: str, end: str) -> "Sequence[str]":
        """Return the paths that differ between two checkpoints."""
        then, now = self._read(start)[1], self._read(end)[1]
        return sorted(path for path in {*then, *now} if then.get(path, ())[:2] != now.get(path, ())[:2])

    def forget(self, name: str) -> None:
        """Remove a checkpoint. A later `take` removes contents that no other checkpoint has."""
        with suppress(FileNotFoundError):
            os.unlink(self._path(name))

    def take(
        self,
        skip: "Sequence[str]",
        most: int,
        seconds: float,
        settle: float,
        since: str = "",
        needed: str = "",
    ) -> "dict[str, Any]":
        """Make a checkpoint.

        Args:
            skip: Directories that the checkpoint does not cover.
            most: The largest number of files.
            seconds: The time limit for the look at the files.
            settle: Seconds of a tick of the kernel's clock.
            since: The `since` of the checkpoint.
            needed: The name of an old checkpoint that is not removed.

        Raises:
            OSError: There are too many files, or the checkpoint cannot be written.
        """
        for path in (self._top, self._objects):
            self._own(path)
        kept = self.kept()
        last = self._read(kept[0]["id"])[1] if kept else {}
        there = os.path.isdir(self._root)
        seen = (
            look(self._root, most, seconds, skip=skip)
            if there
            else FileListing(Record("", 0, 0, 0, 0, 0, 0), {})
        )
        now = time.time()
        if any(max(each[5:]) > (now - settle) * 1e9 for _, each in below(seen, "")):
            time.sleep(settle)  # a file that changes twice within a tick looks the same
        entries = {}  # type: dict[str, Entry]
        left_out = dict.fromkeys(seen.unseen, "its files cannot be read")
        skipped, lost, added = set(seen.skipped), set(), 0
        with HeldDirectory(self._root if there else os.path.abspath(os.sep)) as tree:
            for path, record in below(seen, ""):
                place, kind = os.path.normpath(os.path.join(self._root, path)), stat.S_IFMT(record.mode)
                if not path or place.startswith(self._state + os.sep):
                    continue
                if place == self._state:
                    # anyshell's own files, such as the contents that an undo needs, are never undone.
                    skipped.add(path)
                if record.name.startswith(_BESIDE):
                    with suppress(OSError), tree.held(path) as (at, name):
                        if record.changed < (now - UNUSED_SECONDS) * 1e9:
                            os.unlink(name, dir_fd=at)
                    continue
                facts, content = (record.size, record.inode, record.modified, record.changed), ""
                old, owner = last.get(path), record.owner
                try:
                    if kind == stat.S_IFLNK:
                        with tree.held(path) as (at, name):
                            content = os.readlink(name, dir_fd=at)
                    elif kind == stat.S_IFREG:
                        is_old = old and (old[0], old[2]) == (record.mode, facts)
                        if old and is_old and os.path.exists(self._object(old[1])):
                            content, owner = old[1], old[3]
                        elif record.size > LARGEST_CONTENT or added + record.size > LARGEST_CHECKPOINT:
                            left_out[path] = "too large"
                        else:
                            fd = tree.open(path, record.inode)
                            owner = _owner(fd)
                            content = self._keep(fd)
                            added += record.size
                    elif kind != stat.S_IFDIR:
                        left_out[path] = "not a regular file"
                except OSError as error:
                    left_out[path] = error.strerror or "cannot be read"
                if path in left_out or path in skipped:
                    lost.add((kind, record.inode))
                if path not in left_out or kind == stat.S_IFDIR:
                    entries[path] = (record.mode, content, facts, owner)
        at = time.time_ns() if hasattr(time, "time_ns") else int(time.time() * 1e9)
        name = time.strftime("%Y%m%d-%H%M%S", time.gmtime(at // 10**9)) + f"-{at % 10**9:09}"
        made = {
            "id": name,
            "directory": self._root,
            "made": at / 10**9,
            "files": len(entries),
            "since": since,
        }
        made.update(skipped=sorted(skipped), left_out=left_out)
        self._put(self._path(name), to_json([made, entries, sorted(lost)]))
        kept = [made, *kept]
        for each in kept[KEPT_CHECKPOINTS:]:
            if each["id"] != needed:
                self.forget(each["id"])
        if len(kept) > KEPT_CHECKPOINTS:
            self._remove_unused()
        return made

    def restore(
        self, checkpoint: "Sequence[str]", until: "Sequence[str] | None", words: "Sequence[Any]"
    ) -> "dict[str, Any]":
        """Restore the state of a checkpoint.

        Args:
            checkpoint: The name and the directory of the checkpoint.
            until: The name and the directory of the checkpoint at the end of the undone changes; ``None`` without one.
            words: The first four arguments of `take`.

        Raises:
            OSError: As for `take`; or a checkpoint is not kept any more.
        """
        then, lost = self._read(*checkpoint)[1:]
        start, end = self._read(checkpoint[0])[0], self._read(*until)[1] if until else None
        HeldDirectory(self._root, make=True).__exit__()
        skip, most, seconds, settle = words
        before = self.take(skip, most, seconds, settle, needed=checkpoint[0])
        now = self._read(before["id"])[1]
        kept = {
            path: "not covered: " + why
            for path, why in before["left_out"].items()
            if path not in then and path not in start["left_out"]
        }
        uncovered = {*before["skipped"], *before["left_out"], *start["skipped"], *start["left_out"]}
        # An uncovered file or directory may have been renamed: its kind and inode number still identify it.
        uncovered.update(path for path, entry in now.items() if [stat.S_IFMT(entry[0]), entry[2][1]] in lost)
        restored, removed = [], []
        modes = {}  # type: dict[str, int]

        def is_known(path: str) -> bool:
            """Whether a path is unchanged since the end of the undone changes; directories only need the same kind."""
            if end is None or path not in end:
                return end is None and path in then
            # Only the kind counts, since an earlier undo may have made the directory anew.
            both = stat.S_ISDIR(now[path][0]) and stat.S_ISDIR(end[path][0])
            return both or bool(now[path][:2] == end[path][:2])

        def is_uncovered(path: str) -> bool:
            while path and path not in uncovered:
                path = path.rpartition("/")[0]
            return bool(path)

        # New files are removed first, a directory's content before the directory: this makes room for the old files.
        gone = [path for path in sorted(now, reverse=True) if not _is_same_kind(now[path], then.get(path))]
        steps = [(path, None) for path in gone] + sorted(then.items())  # type: list[tuple[str, Entry | None]]
        with HeldDirectory(self._root) as tree:
            for path, entry in steps:
                there, why = now.get(path), ""
                if entry is None and is_uncovered(path):
                    why = "it was not covered"
                elif entry is not None:
                    if path in kept or (there is not None and there[:2] == entry[:2]):
                        continue
                    if path in uncovered and (there is None or not stat.S_ISDIR(entry[0])):
                        why = "it is not covered now"
                    there = there if _is_same_kind(entry, there) else None
                if not why and path in now and not is_known(path):
                    why = "it came or changed after what is undone"
                why = why or self._undo(tree, path, entry, there, modes)
                if why:
                    kept[path] = why
                elif entry is not None:
                    restored.append(path)
                elif path not in then:
                    removed.append(path)
            for path, mode in sorted(modes.items(), reverse=True):
                with suppress(OSError):
                    tree.set_mode(path, mode)
        return {"restored": restored, "removed": removed, "kept": kept, "before": before}

    def _undo(
        self,
        tree: HeldDirectory,
        path: str,
        entry: "Entry | None",
        now: "Entry | None",
        modes: "dict[str, int]",
    ) -> str:
        """Restore one path; return the reason if that fails, else an empty text. Directories get their `modes` at the end."""
        above = os.path.dirname(path)
        try:
            with tree.held(path) as (at, name):
                if not _is_as_seen(name, at, now):
                    return "it changed during the undo"
                holder = tree.record(above)
                mode = stat.S_IMODE(holder.mode) if holder else 0o700
                if mode & 0o300 != 0o300:
                    modes.setdefault(above, mode)
                    tree.set_mode(above, mode | 0o700)
                if entry is None:
                    is_directory = now is not None and stat.S_ISDIR(now[0])
                    (os.rmdir if is_directory else os.unlink)(name, dir_fd=at)
                    modes.pop(path, None)
                elif stat.S_ISDIR(entry[0]):
                    with suppress(FileExistsError):
                        os.mkdir(name, dir_fd=at)
                        _give_directory(name, at, entry[3])
                    modes[path] = stat.S_IMODE(entry[0])
                else:
                    self._put_back(name, at, entry)
        except OSError as error:
            if is_missing(error) and error.errno != errno.ENOENT:
                return "a link is in the place of a directory above it"
            return error.strerror or type(error).__name__
        return ""

    def _put_back(self, name: str, at: "int | None", entry: "Entry") -> None:
        """Restore a file or a link; the path is whole at every moment."""
        mode, content, facts, owner = entry
        # On Windows `name` is a path, and a private file needs more than a mode.
        beside = os.path.join(os.path.dirname(name), _BESIDE + secrets.token_hex(8))
        create = self._create if at is None else partial(create_file, at=at)
        mode_now, times = stat.S_IMODE(mode) & 0o1777, (facts[2], facts[2])
        try:
            if stat.S_ISLNK(mode):
                os.symlink(content, beside, dir_fd=at)
            else:
                with open(self._object(content), "rb") as old, open(create(beside), "wb") as new:
                    shutil.copyfileobj(old, new)
                    new.flush()
                    if at is not None:
                        # Set-uid only if the file has its old owner; and after chown, which clears the set-uid bit.
                        has_owner = _give(new.fileno(), owner)
                        os.chmod(new.fileno(), stat.S_IMODE(mode) if has_owner else mode_now)
                        os.utime(new.fileno(), ns=times)
                if at is None:
                    os.chmod(beside, mode_now)
                    os.utime(beside, ns=times)
            os.replace(beside, name, src_dir_fd=at, dst_dir_fd=at)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(beside, dir_fd=at)

    def _path(self, name: str) -> str:
        return os.path.join(self._top, name + ".json")

    def _object(self, digest: str) -> str:
        return os.path.join(self._objects, digest)

    def _read(
        self, name: str, directory: str = ""
    ) -> "tuple[dict[str, Any], dict[str, Entry], list[list[int]]]":
        if directory not in ("", self._root):
            raise OSError(0, f"the checkpoint is of {directory}, not of {self._root}")
        try:
            with open(self._path(name), "rb") as file:
                head, entries, lost = from_json(file.read())
            found = {
                path: (mode, text, tuple(facts), owner)
                for path, (mode, text, facts, owner) in entries.items()
            }
        except (FileNotFoundError, ValueError):
            raise OSError(0, "the checkpoint " + name + " is not kept any more") from None
        return head, found, lost

    def _keep(self, fd: int) -> str:
        """Store the content of a file; return the content's digest."""
        digest, beside = hashlib.sha256(), self._object(secrets.token_hex(8) + ".part")
        with open(fd, "rb") as old, open(self._create(beside), "wb") as new:
            for data in iter(lambda: old.read(1024 * 1024), b""):
                digest.update(data)
                new.write(data)
        os.replace(beside, self._object(digest.hexdigest()))
        return digest.hexdigest()

    def _put(self, path: str, data: bytes) -> None:
        with open(self._create(path + ".part"), "wb") as file:
            file.write(data)
        os.replace(path + ".part", path)

    def _remove_unused(self) -> None:
        used = {entry[1] for each in self.kept() for entry in self._read(each["id"])[1].values()}
        for name in os.listdir(self._objects):
            with suppress(FileNotFoundError):
                if name not in used and time.time() - os.stat(self._object(name)).st_mtime > UNUSED_SECONDS:
                    os.unlink(self._object(name))


def _owner(fd: int) -> int:
    at = os.fstat(fd)
    return at.st_uid << 32 | at.st_gid


def _give(fd: int, owner: int) -> bool:
    """Give a file its owner and group, as far as this user may; return whether the file has both."""
    for user in (owner >> 32, -1):  # a user may change the group of the user's own files
        if _owner(fd) != owner:
            with suppress(OSError):
                os.chown(fd, user, owner & 0xFFFFFFFF)  # type: ignore[attr-defined,unused-ignore]  # not on Windows
    return _owner(fd) == owner


def _give_directory(name: str, above: "int | None", owner: int) -> None:
    """Give a directory that was just made its owner. Only an empty directory: another one may be in its place by now."""
    if above is None:
        return
    fd = os.open(name, os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=above)  # type: ignore[attr-defined,unused-ignore]  # as above
    try:
        if not os.listdir(fd):
            _give(fd, owner)
    finally:
        os.close(fd)


def _is_as_seen(name: str, above: "int | None", seen: "Entry | None") -> bool:
    """Whether a file has not changed since the checkpoint. A directory only needs the same kind: its files are checked."""
    try:
        at = os.stat(name, dir_fd=above, follow_symlinks=False)
    except OSError:
        return seen is None
    if seen is None or stat.S_IFMT(at.st_mode) != stat.S_IFMT(seen[0]):
        return False
    size, inode, modified, _ = seen[2]
    # A look on Windows finds no inode numbers: each is 0.
    return stat.S_ISDIR(at.st_mode) or (
        (at.st_size, at.st_mtime_ns) == (size, modified) and inode in (0, at.st_ino)
    )


def _is_same_kind(entry: "Entry", other: "Entry | None") -> bool:
    return other is not None and stat.S_IFMT(entry[0]) == stat.S_IFMT(other[0])


def main() -> None:
    """Take one step on this host, for an anyshell elsewhere. stdin has the directory, the step and the step's words."""

    def step(directory: str, name: str, words: "Sequence[Any]") -> object:
        return getattr(Store(directory, "~/.local/state/anyshell"), name)(*words)

    serve(step)


if __name__ == "__main__":
    main()
