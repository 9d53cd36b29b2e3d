"""The commit of a layer: all of it or nothing, and each file whole at every moment. A part of the program of `layer`.

A new file is made beside its place, under a name of anyshell's own. Then the kernel exchanges the two names in one step. The
old file then has anyshell's name, and is checked once more: if the command has not seen the old file in this state, all
exchanges are undone. When all new files are in their places, the old files are removed.

A journal records each step before the next step. For a killed commit, `Commit.end` undoes the recorded steps; if all new
files were in their places, it removes the old files instead. A file that another program has changed since the commit stays,
and the file beside it stays as well.
"""

import errno
import os
import stat
import sys
from contextlib import contextmanager, suppress
from typing import NamedTuple

assert sys.platform == "linux"

if __name__ != "__main__":
    from .files import (
        Conflict,
        HeldDirectory,
        Record,
        below,
        create_file,
        from_json,
        is_directory,
        is_missing,
        to_json,
    )

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

BESIDE = ".anyshell-trial-"
"""The prefix of files that a commit makes beside other files. After SIGKILL during a commit, the files stay until this user's
next trial or the next ``anyshell undo``, which puts the old files back in their places."""

PIECE = 1024 * 1024
"""Bytes of a file that a commit copies at once."""

EXCHANGES = 100
"""Times, at most, that an undo exchanges a file back while another program keeps replacing it; then it is left."""

_NOREPLACE, _EXCHANGE = 1, 2


def attributes(path: str, *, follow: bool = False) -> "dict[str, bytes]":
    """Return the extended attributes of a file, without the attributes of overlayfs."""
    found = {}
    with suppress(OSError):
        for name in os.listxattr(path, follow_symlinks=follow):
            if not name.startswith("user.overlay."):
                found[name] = os.getxattr(path, name, follow_symlinks=follow)
    return found


class Change(NamedTuple):
    """The change of one path.

    Attributes:
        beside: The name of the new file until the exchange, and of the old file afterwards.
        put: Whether a new file comes to the path.
        before: The records that the command has seen at the path and below, each with its path.
        after: The new records, each with its path; empty in the journal.
    """

    beside: str
    put: bool
    before: "list[tuple[str, Record]]"
    after: "list[tuple[str, Record]]"


class Stay(NamedTuple):
    """A directory that stays in its place, and is made writable during the commit.

    Attributes:
        before: The record of the directory before the commit.
        mode: The mode of the directory after the commit.
        modified: The modification time after the commit, in nanoseconds; ``None`` leaves the time that the commit causes.
    """

    before: Record
    mode: int
    modified: "int | None"


class Commit:
    """One commit of a layer.

    Args:
        upper: The directory with the command's writes.
        journal: The path of the journal.
        tree: The directory below the layer.
        changes: The changes, by path.
        stays: The directories that stay, by path.
    """

    def __init__(
        self,
        upper: str,
        journal: str,
        tree: HeldDirectory,
        changes: "dict[str, Change]",
        stays: "dict[str, Stay]",
    ) -> None:
        self._upper, self._journal, self._tree = upper, journal, tree
        self._changes, self._stays = changes, stays
        self._links = {}  # type: dict[int, str]
        self._made = {}  # type: dict[str, Record]
        self._moved = set()  # type: set[int]

    def run(self) -> None:
        """Carry out the commit. `Layer.commit` says more."""
        conflicts = [path for path in self._changes if not self._is_unchanged(path, path)]
        for path, stay in self._stays.items():
            if not _is_same_directory(self._tree.record(path), stay.before):
                conflicts.append(path or ".")
        if conflicts:
            raise Conflict(*sorted(conflicts))
        os.close(create_file(self._journal))
        try:
            changes = {path: each._replace(after=[]) for path, each in self._changes.items()}
            self._note([self._tree.top, changes, self._stays])
            for path in sorted(self._stays):
                self._tree.set_mode(path, stat.S_IMODE(self._stays[path].before.mode) | 0o700)
            for path, change in self._changes.items():
                if change.put:
                    self._make(path, change)
            for path, change in self._changes.items():
                self._require(self._is_unchanged(path, path), path)
                self._exchange(path)
                if change.before:
                    self._moved.add(change.before[0][1].inode)
            for path in self._changes:
                self._require(self._is_unchanged(path, self._beside(path)), path)
            self._note("done")
        except BaseException as error:
            left = self._take_all_back(late=False)
            os.unlink(self._journal)
            if left and isinstance(error, Exception):
                raise Conflict(*(error.args if isinstance(error, Conflict) else ()), *left) from error
            raise
        self._finish()

    @classmethod
    def end(cls, upper: str, journal: str) -> "tuple[str, list[str]]":
        """Undo or finish a killed commit. Return the commit's directory, and the paths of files that stay there."""
        with open(journal, "rb") as file:
            lines = [from_json(line) for line in file if line.endswith(b"\n")]
        if not lines:
            return "", []
        top, changes, stays = lines.pop(0)
        for path, (beside, put, before, _) in changes.items():
            changes[path] = Change(beside, put, [(each, Record(*record)) for each, record in before], [])
        for path, (before, *rest) in stays.items():
            stays[path] = Stay(Record(*before), *rest)
        with HeldDirectory(top) as tree:
            commit = cls(upper, journal, tree, changes, stays)
            if lines and lines[-1] == "done":
                commit._finish()
                return top, []
            commit._made = {path: Record(*made) for path, made in lines}
            return top, commit._take_all_back(late=True)

    def _note(self, value: object) -> None:
        with open(self._journal, "ab") as file:
            file.write(to_json(value) + b"\n")

    def _beside(self, path: str) -> str:
        return path[: path.rfind("/") + 1] + self._changes[path].beside

    @staticmethod
    def _require(known: bool, path: str) -> None:
        if not known:
            raise Conflict(path)

    def _is_unchanged(self, path: str, place: str) -> bool:
        """Whether a place has exactly the files that the command has seen at a path."""
        before = self._changes[path].before
        if not before and not is_directory(self._tree.record(os.path.dirname(path))):
            return False  # no file can be made there: the directory is missing
        expected = {place + each[len(path) :]: record for each, record in before}
        try:
            for each, now in below(self._tree, place):
                if each not in expected or not self._is_same(now, expected.pop(each)):
                    return False
        except OSError as error:
            if not is_missing(error):
                raise
            return False  # another program removed the file meanwhile
        return not expected

    def _is_same(self, now: Record, before: Record) -> bool:
        if stat.S_ISDIR(before.mode):
            return _is_same_directory(now, before)
        # A move changes the change time of the inode; with hard links, also for the file's other names.
        end = 6 if now.inode in self._moved else 7
        return now[1:3] == before[1:3] and now[4:end] == before[4:end]

    def _exchange(self, path: str) -> None:
        """Exchange the file at a path and the file beside it. If one of the two does not exist, the other is moved."""
        beside = self._changes[path].beside
        has_old, has_new = (self._tree.record(each) is not None for each in (path, self._beside(path)))
        with self._tree.held(path) as (at, name):
            if has_old and has_new:
                _rename(at, beside, name, _EXCHANGE, path)
            elif has_new:
                _rename(at, beside, name, _NOREPLACE, path)
            elif has_old:
                _rename(at, name, beside, _NOREPLACE, path)

    def _take_all_back(self, *, late: bool) -> "list[str]":
        """Undo all steps. Return the paths of files beside others that stay, because another program has changed the path.

        Args:
            late: Whether other programs had time to run between the commit and the undo, as after a kill.
        """
        left = []
        for path in reversed(list(self._changes)):
            try:
                self._take_back(path)
                is_left = not self._remove_beside(path, late=late)
            except (Conflict, OSError):
                is_left = self._tree.record(self._beside(path)) is not None
            if is_left:
                left.append(self._beside(path))
        for path in sorted(self._stays, reverse=True):
            before, now = self._stays[path].before, self._tree.record(path)
            with suppress(OSError):
                if now is not None and now.inode == before.inode:
                    self._tree.set_mode(path, stat.S_IMODE(before.mode))
        return left

    def _take_back(self, path: str) -> None:
        """Undo an exchange, unless another program has already changed the new file at the path.

        If another program replaces the file during the undo, that program's file has the path in the end: the undo finds a
        newer file beside the path than expected, and exchanges the two once more.
        """
        expected = self._made.get(path)
        if expected is None and self._changes[path].put:
            return  # the new file was not made
        if not _is_same_file(self._tree.record(path), expected):
            return
        for _ in range(EXCHANGES):
            put = self._tree.record(self._beside(path))
            self._exchange(path)
            if _is_same_file(self._tree.record(self._beside(path)), expected):
                return
            expected = put

    def _remove_beside(self, path: str, *, late: bool) -> bool:
        """Remove the file beside a path after the undo; return whether no file is beside the path then.

        The file beside is the old file if another program has changed or replaced the new file at the path. The old file
        stays if it may be needed: the undo is `late`, or the path still has the new file, changed by the other program.
        """
        beside, made, now = (
            self._tree.record(self._beside(path)),
            self._made.get(path),
            self._tree.record(path),
        )
        if beside is None:
            return True
        is_ours = self._changes[path].put and (made is None or beside.inode == made.inode)
        is_replaced = made is not None and (now is None or now.inode != made.inode)
        if not is_ours and (late or not is_replaced):
            return False
        self._tree.remove(self._beside(path), beside.inode if made is not None else 0)
        return True

    def _make(self, path: str, change: Change) -> None:
        """Make a new file or directory beside its place."""
        copied = []
        for each, record in change.after:
            place, source = self._beside(path) + each[len(path) :], os.path.join(self._upper, each)
            with self._tree.held(place) as (at, name):
                made = self._copy(source, at, name, place, record)
            if each == path and stat.S_ISDIR(record.mode):
                self._has_made(path, record._replace(inode=made))
            if made:
                copied.append((source, place, record, made))
        # The last file first: a file made in a directory changes the directory's times, and a directory's mode may deny access.
        for source, place, record, made in reversed(copied):
            with self._tree.held(place) as (at, name), _opened(at, name) as there:
                self._require(os.stat(there).st_ino == made, path)
                _give_facts(source, there, record.mode, record.modified)
        found = self._tree.record(self._beside(path))
        assert found is not None
        self._has_made(path, found)

    def _has_made(self, path: str, record: Record) -> None:
        self._made[path] = record
        self._note([path, record])

    def _copy(self, source: str, to: "int | None", name: str, place: str, record: Record) -> int:
        """Copy a file, or make a directory; return the inode, or 0 for a hard link to a file that was made before."""
        kind, first = stat.S_IFMT(record.mode), self._links.setdefault(record.inode, place)
        if first != place:
            with self._tree.held(first) as (at, its_name):
                os.link(its_name, name, src_dir_fd=at, dst_dir_fd=to, follow_symlinks=False)
            return 0
        if kind == stat.S_IFREG:
            if not record.mode & 0o400:
                os.chmod(source, 0o600)  # a file of the layer, which no other program needs
            with open(source, "rb") as old, open(create_file(name, to), "wb", buffering=0) as new:
                _copy_content(old.fileno(), new.fileno())
                return os.fstat(new.fileno()).st_ino
        if kind == stat.S_IFDIR:
            os.mkdir(name, 0o700, dir_fd=to)
        elif kind == stat.S_IFLNK:
            os.symlink(os.readlink(source), name, dir_fd=to)
        else:
            os.mknod(name, record.mode, dir_fd=to)
        with _opened(to, name) as there:
            made = os.stat(there)
            is_ours = stat.S_IFMT(made.st_mode) == kind and (kind != stat.S_IFDIR or not os.listdir(there))
        self._require(is_ours, place)
        return made.st_ino

    def _finish(self) -> None:
        """Remove the old files, and give the directories that stay their new facts."""
        for path in self._changes:
            with suppress(OSError):
                self._remove_known(path)
        for path in sorted(self._stays, reverse=True):
            before, mode, modified = self._stays[path]
            with suppress(OSError), self._tree.held(path + "/" if path else "") as (fd, _):
                place = f"/proc/self/fd/{fd}"
                if os.stat(place).st_ino != before.inode:
                    continue  # another program has replaced the directory
                if path:
                    _give_facts(os.path.join(self._upper, path), place, mode, modified)
                else:  # a layer does not record attributes of its top directory
                    os.chmod(place, stat.S_IMODE(mode))

    def _remove_known(self, path: str) -> None:
        """Remove the old file or directory. Files that came into an old directory later are kept, with the directory."""
        beside = self._beside(path)
        before = [(beside + each[len(path) :], record) for each, record in self._changes[path].before]
        for place, record in before:
            if is_directory(record):
                now = self._tree.record(place)
                if now is not None and now.inode == record.inode:
                    self._tree.set_mode(place, 0o700)
        for place, record in reversed(before):
            with suppress(OSError), self._tree.held(place) as (at, name):
                if os.stat(name, dir_fd=at, follow_symlinks=False).st_ino == record.inode:
                    (os.rmdir if is_directory(record) else os.unlink)(name, dir_fd=at)


def _is_same_directory(now: "Record | None", before: Record) -> bool:
    return now is not None and now.mode == before.mode and now[3:5] == before[3:5]


def _is_same_file(one: "Record | None", other: "Record | None") -> bool:
    """Whether both records are of one file, maybe under another name, or both are ``None``."""
    return one is other if one is None or other is None else one[1:6] == other[1:6]


@contextmanager
def _opened(at: "int | None", name: str) -> "Iterator[str]":
    """Yield a path to the file with a name; no other program can replace the file behind the path."""
    fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
    try:
        yield f"/proc/self/fd/{fd}"
    finally:
        os.close(fd)


def _give_facts(source: str, place: str, mode: int, modified: "int | None") -> None:
    """Give an opened file the owner, attributes, mode and time that the command wrote."""
    at, wanted = os.lstat(source), attributes(source)
    with suppress(PermissionError):
        os.chown(place, at.st_uid, at.st_gid)
    for name in {*attributes(place, follow=True), *wanted}:
        with suppress(OSError):
            if name in wanted:
                os.setxattr(place, name, wanted[name])
            else:
                os.removexattr(place, name)
    if not stat.S_ISLNK(mode):
        os.chmod(place, stat.S_IMODE(mode))
    if modified is not None:
        os.utime(place, ns=(at.st_atime_ns, modified))


def _copy_content(old: int, new: int) -> None:
    """Copy the content of a file; holes stay holes."""
    size, at = os.fstat(old).st_size, 0
    while at < size:
        try:
            at = os.lseek(old, at, os.SEEK_DATA)
        except OSError:
            break  # a hole up to the end
        end = os.lseek(old, at, os.SEEK_HOLE)
        while at < end:
            data = os.pread(old, min(PIECE, end - at), at)
            at += os.pwrite(new, data, at) if data else end - at  # a full disk accepts only a part
    os.truncate(new, size)


def _rename(at: "int | None", old: str, new: str, how: int, path: str) -> None:
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if not libc.renameat2(at, os.fsencode(old), at, os.fsencode(new), how):
        return
    number = ctypes.get_errno()
    if number == errno.EEXIST:
        raise Conflict(path)
    if number == errno.EINVAL:
        raise OSError(number, "its file system cannot exchange two names", path)
    raise OSError(number, os.strerror(number), path)
