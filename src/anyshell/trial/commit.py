"""The commit of a layer: all of it or nothing, and each file whole at every moment. A part of the program of `layer`.

What is new is made beside its place, under a name of anyshell's own, and then the two names are exchanged, which is one step of
the kernel's. What was there before has that name then, and is looked at once more: if it is not what the command has seen, all is
exchanged back. It is removed when all is in its place.

A journal has each step before the next one. Of a commit that was killed, `Commit.end` takes back what was done, by the journal;
where all was in its place, it removes the rest. A file that another program has changed since is left, and so is the one beside.
"""

import errno
import os
import stat
import sys
from contextlib import contextmanager, suppress
from typing import NamedTuple

assert sys.platform == "linux"

if __name__ != "__main__":
    from .files import Conflict, Record, Tree, create_file, from_json, is_directory, is_missing, to_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

BESIDE = ".anyshell-trial-"
"""What the names begin with of files that a commit makes beside others. After SIGKILL to it they stay until the next trial of this
user, or the next ``anyshell undo``; then what was there before is in its place again."""

PIECE = 1024 * 1024
"""Bytes of a file that a commit copies at once."""

EXCHANGES = 100
"""Times that a file is given its place back, at most, while another program puts others there."""

_NOREPLACE, _EXCHANGE = 1, 2


def attributes(path: str) -> "dict[str, bytes]":
    """The extended attributes of a file, less those of overlayfs."""
    found = {}
    with suppress(OSError):
        for name in os.listxattr(path, follow_symlinks=False):
            if not name.startswith("user.overlay."):
                found[name] = os.getxattr(path, name, follow_symlinks=False)
    return found


class Change(NamedTuple):
    """What is done with one path.

    Attributes:
        beside: The name that it has until then, and what is there now has afterwards.
        put: Whether something new comes there.
        then: What is there and below it, by its paths.
        new: What comes, likewise.
    """

    beside: str
    put: bool
    then: "list[tuple[str, Record]]"
    new: "list[tuple[str, Record]]"


class Stay(NamedTuple):
    """A directory that stays, and is opened for a change.

    Attributes:
        then: What it is now.
        mode: What its mode is afterwards.
        modified: The time that it gets; ``None`` is as it comes.
        facts: Whether it gets the attributes of the one in the layer.
    """

    then: Record
    mode: int
    modified: "int | None"
    facts: bool


class Commit:
    """One commit of a layer.

    Args:
        upper: What the command wrote.
        journal: The path of the journal.
        tree: The directory above which it lies.
        changes: What is to be done, by paths.
        stays: The directories that stay.
    """

    def __init__(
        self, upper: str, journal: str, tree: Tree, changes: "dict[str, Change]", stays: "dict[str, Stay]"
    ) -> None:
        self._upper, self._journal, self._tree = upper, journal, tree
        self._changes, self._stays = changes, stays
        self._links = {}  # type: dict[tuple[int, int], str]
        self._made = {}  # type: dict[str, Record]
        self._moved = set()  # type: set[int]
        self._is_done = False

    def run(self) -> None:
        """Carry it out. `Layer.commit` says more."""
        conflicts = [path or "." for path in (*self._changes, *self._stays) if not self._is_known(path)]
        if conflicts:
            raise Conflict(*sorted(conflicts))
        os.close(create_file(self._journal))
        try:
            changes = {path: each._replace(new=[]) for path, each in self._changes.items()}
            self._note([self._tree.top, changes, self._stays])
            for path in sorted(self._stays):
                self._tree.set_mode(path, stat.S_IMODE(self._stays[path].then.mode) | 0o700)
            for path, change in self._changes.items():
                if change.put:
                    self._make(path, change)
            for path in self._changes:
                self._require(self._is_known(path), path)
                self._exchange(path)
            for path in self._changes:
                self._require(self._is_same(self._beside(path), path), path)
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
        """End one that was killed: take it back, or finish it. Return its directory, and the paths of files that it leaves there."""
        with open(journal, encoding="ascii") as file:
            lines = [from_json(line) for line in file if line.endswith("\n")]
        if not lines:
            return "", []
        top, changes, stays = lines.pop(0)
        with Tree(top) as tree:
            commit = cls(
                upper,
                journal,
                tree,
                {path: Change(each[0], each[1], _records(each[2]), []) for path, each in changes.items()},
                {path: Stay(Record(*each[0]), *each[1:]) for path, each in stays.items()},
            )
            if lines and lines[-1] == "done":
                commit._finish()
                return top, []
            commit._made = {path: Record(*made) for path, made in lines}
            return top, commit._take_all_back(late=True)

    def _note(self, value: object) -> None:
        data = to_json(value).encode() + b"\n"
        fd = os.open(self._journal, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        try:
            while data:
                data = data[os.write(fd, data) :]
        finally:
            os.close(fd)

    def _beside(self, path: str) -> str:
        return path[: path.rfind("/") + 1] + self._changes[path].beside

    @staticmethod
    def _require(known: bool, path: str) -> None:
        if not known:
            raise Conflict(path)

    def _is_known(self, path: str) -> bool:
        """Whether what the command has seen is still there."""
        if path in self._changes:
            return self._is_same(path, path)
        now, then = self._tree.record(path), self._stays[path].then
        return now is not None and _is_same_directory(now, then)

    def _is_same(self, place: str, path: str) -> bool:
        """Whether what the command has seen at a path is at a place."""
        try:
            return self._compare(place, path)
        except OSError as error:
            if is_missing(error):
                return False  # it went meanwhile
            raise

    def _compare(self, place: str, path: str) -> bool:
        then = self._changes[path].then
        if not then:
            # Nothing can come into a directory that is another.
            above = os.path.dirname(path)
            return self._tree.record(place) is None and is_directory(self._tree.record(above))
        inside = {}  # type: dict[str, set[str]]
        for each, _ in then[1:]:
            inside.setdefault(os.path.dirname(each), set()).add(os.path.basename(each))
        for each, record in then:
            at = place + each[len(path) :]
            now = self._tree.record(at)
            if now is None:
                return False
            if stat.S_ISDIR(record.mode):
                if not _is_same_directory(now, record):
                    return False
                if inside.get(each, set()) != {name for name, _ in self._tree.entries(at)}:
                    return False
                continue
            # What was moved here has another time of change, as a file of several names has it.
            end = 6 if now.inode in self._moved else 7
            if now[1:3] != record[1:3] or now[4:end] != record[4:end]:
                return False
        return True

    def _exchange(self, path: str) -> None:
        """Have a change take its place; what was there is beside then."""
        change = self._changes[path]
        with self._tree.held(path) as (at, name):
            if not change.then:
                _rename(at, change.beside, name, _NOREPLACE, path)
            elif change.put:
                _rename(at, change.beside, name, _EXCHANGE, path)
            else:
                _rename(at, name, change.beside, _NOREPLACE, path)
        if change.then:
            self._moved.add(change.then[0][1].inode)

    def _take_all_back(self, *, late: bool) -> "list[str]":
        """Undo what was done. Return the paths of files beside others that stay, since another program has changed these."""
        left = []
        for path in reversed(list(self._changes)):
            try:
                self._take_back(path)
                if not self._remove_made(path, late=late):
                    left.append(self._beside(path))
            except (Conflict, OSError):
                if self._tree.record(self._beside(path)) is not None:
                    left.append(self._beside(path))
        for path in sorted(self._stays, reverse=True):
            then, now = self._stays[path].then, self._tree.record(path)
            with suppress(OSError):
                if now is not None and now.inode == then.inode:
                    self._tree.set_mode(path, stat.S_IMODE(then.mode))
        return left

    def _take_back(self, path: str) -> None:
        """Undo an exchange, unless another program has changed already what it put there."""
        change, made = self._changes[path], self._made.get(path)
        target, beside = self._tree.record(path), self._tree.record(self._beside(path))
        with self._tree.held(path) as (at, name):
            if not change.put:
                if beside is not None:
                    _rename(at, change.beside, name, _NOREPLACE, path)
            elif made is not None and target is not None and made[1:6] == target[1:6]:
                if change.then:
                    self._exchange_back(path, made)
                    return
                _rename(at, name, change.beside, _NOREPLACE, path)
                if not self._is_what(self._beside(path), made):  # another program was quicker
                    _rename(at, change.beside, name, _NOREPLACE, path)

    def _exchange_back(self, path: str, made: Record) -> None:
        """Exchange two names, so that what another program puts there meanwhile is there in the end."""
        expected = made  # type: Record | None
        for _ in range(EXCHANGES):
            put = self._tree.record(self._beside(path))
            with self._tree.held(path) as (at, name):
                _rename(at, name, self._changes[path].beside, _EXCHANGE, path)
            if self._is_what(self._beside(path), expected):
                return
            expected = put  # what has come out is newer than that, and goes back

    def _is_what(self, place: str, record: "Record | None") -> bool:
        now = self._tree.record(place)
        return now is None or record is None or now[1:6] == record[1:6]

    def _remove_made(self, path: str, *, late: bool) -> bool:
        """Remove what was made beside a path; return whether nothing is there then.

        What was there before is there if another program has put its own into the place. It stays if that came later, or if
        that is the new file with more in it.
        """
        beside, made, now = (
            self._tree.record(self._beside(path)),
            self._made.get(path),
            self._tree.record(path),
        )
        if beside is None:
            return True
        is_before = (
            made is None if not self._changes[path].put else made is not None and beside.inode != made.inode
        )
        if is_before and (late or made is None or (now is not None and now.inode == made.inode)):
            return False
        self._tree.remove(self._beside(path), beside.inode if made is not None else 0)
        return True

    def _make(self, path: str, change: Change) -> None:
        """Make what is new, beside its place."""
        copied = []
        for each, record in change.new:
            place, source = self._beside(path) + each[len(path) :], os.path.join(self._upper, each)
            with self._tree.held(place) as (at, name):
                made = self._copy(source, at, name, place, record)
            if each == path and stat.S_ISDIR(record.mode):
                self._has_made(path, record._replace(inode=made))
            if made:
                copied.append((source, place, record, made))
        # The last one first: what is in a directory changes its times, and its mode may close it.
        for source, place, record, made in reversed(copied):
            with self._tree.held(place) as (at, name), _opened(at, name) as (fd, there):
                self._require(os.fstat(fd).st_ino == made, path)
                _give_facts(source, there, record)
        found = self._tree.record(self._beside(path))
        assert found is not None
        self._has_made(path, found)

    def _has_made(self, path: str, record: Record) -> None:
        self._made[path] = record
        self._note([path, record])

    def _copy(self, source: str, to: "int | None", name: str, place: str, record: Record) -> int:
        """Copy a file, or make a directory; return its inode, or 0 for a link to one that was made."""
        at, kind = os.lstat(source), stat.S_IFMT(record.mode)
        if (at.st_dev, at.st_ino) in self._links:
            with self._tree.held(self._links[at.st_dev, at.st_ino]) as (first, its_name):
                os.link(its_name, name, src_dir_fd=first, dst_dir_fd=to, follow_symlinks=False)
            return 0
        if at.st_nlink > 1 and kind != stat.S_IFDIR:
            self._links[at.st_dev, at.st_ino] = place
        if kind == stat.S_IFREG:
            if not at.st_mode & 0o400:
                os.chmod(source, 0o600)  # it is ours, and of no use to others
            with open(source, "rb") as old, open(create_file(name, to), "wb", buffering=0) as new:
                _copy_content(old.fileno(), new.fileno())
                return os.fstat(new.fileno()).st_ino
        if kind == stat.S_IFDIR:
            os.mkdir(name, 0o700, dir_fd=to)
        elif kind == stat.S_IFLNK:
            os.symlink(os.readlink(source), name, dir_fd=to)
        else:
            os.mknod(name, record.mode, dir_fd=to)
        with _opened(to, name) as (fd, there):
            made = os.fstat(fd)
            is_ours = stat.S_IFMT(made.st_mode) == kind and (kind != stat.S_IFDIR or not os.listdir(there))
        self._require(is_ours, place)
        return made.st_ino

    def _finish(self) -> None:
        """Remove what was there before, and give the directories that stay their facts."""
        for path in self._changes:
            with suppress(OSError):
                self._remove_known(path)
        for path in sorted(self._stays, reverse=True):
            with suppress(OSError), self._tree.held(path + "/" if path else "") as (fd, _):
                self._close(path, self._stays[path], fd)

    def _remove_known(self, path: str) -> None:
        """Remove what was there before. What has come into a directory since is kept, in what remains of that."""
        then = [(self._beside(path) + each[len(path) :], record) for each, record in self._changes[path].then]
        for place, record in then:
            if is_directory(record):
                now = self._tree.record(place)
                if now is not None and now.inode == record.inode:
                    self._tree.set_mode(place, 0o700)
        for place, record in reversed(then):
            with suppress(OSError), self._tree.held(place) as (at, name):
                if os.stat(name, dir_fd=at, follow_symlinks=False).st_ino == record.inode:
                    (os.rmdir if is_directory(record) else os.unlink)(name, dir_fd=at)

    def _close(self, path: str, stay: Stay, fd: "int | None") -> None:
        """Give a directory that stays its facts."""
        place = f"/proc/self/fd/{fd}"
        if os.stat(place).st_ino != stay.then.inode:
            return  # another program was quicker
        if stay.facts and path:
            wanted = attributes(os.path.join(self._upper, path))
            for name in attributes(place + "/.").keys() - wanted.keys():
                os.removexattr(place, name)
            for name, value in wanted.items():
                os.setxattr(place, name, value)
            if stay.modified is not None:
                os.utime(place, ns=(os.stat(place).st_atime_ns, stay.modified))
        os.chmod(place, stat.S_IMODE(stay.mode))


def _records(told: "Any") -> "list[tuple[str, Record]]":
    return [(path, Record(*record)) for path, record in told]


def _is_same_directory(now: Record, then: Record) -> bool:
    return now.mode == then.mode and now[3:5] == then[3:5]


@contextmanager
def _opened(at: "int | None", name: str) -> "Iterator[tuple[int, str]]":
    """The descriptor of what has a name, which no other program can exchange, and a path to that."""
    fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
    try:
        yield fd, f"/proc/self/fd/{fd}"
    finally:
        os.close(fd)


def _give_facts(source: str, place: str, record: Record) -> None:
    at = os.lstat(source)
    with suppress(PermissionError):
        os.chown(place, at.st_uid, at.st_gid)
    for name, value in attributes(source).items():
        with suppress(OSError):
            os.setxattr(place, name, value)
    if not stat.S_ISLNK(record.mode):
        os.chmod(place, stat.S_IMODE(record.mode))
    os.utime(place, ns=(at.st_atime_ns, record.modified))


def _copy_content(old: int, new: int) -> None:
    """Copy the content of a file, and its holes as holes."""
    size, at = os.fstat(old).st_size, 0
    while at < size:
        try:
            at = os.lseek(old, at, os.SEEK_DATA)
        except OSError:
            break  # a hole up to the end
        end = os.lseek(old, at, os.SEEK_HOLE)
        while at < end:
            data = os.pread(old, min(PIECE, end - at), at)
            at += os.pwrite(new, data, at) if data else end - at  # a full disk takes a part of it
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
