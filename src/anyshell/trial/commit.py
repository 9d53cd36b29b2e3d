"""The commit of a layer: all of it or nothing, and each file whole at every moment. A part of the program of `layer`.

What is new is made beside its place, under a name of anyshell's own, and then the two names are exchanged, which is one step of
the kernel's. What was there before has that name then, and is looked at once more: if it is not what the command has seen, all is
exchanged back. It is removed when all is in its place.
"""

import errno
import os
import stat
import sys
from contextlib import contextmanager, suppress

assert sys.platform == "linux"

if __name__ != "__main__":
    from .files import Conflict, Files, Record, create_file, is_directory, record_at, remove, to_record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

BESIDE = ".anyshell-trial-"
"""What the names begin with of files that a commit makes beside others. After SIGKILL to it they stay: until the next trial, or for
good if it was in the middle, since the names then have what was there before."""

BEGUN = ".begun"
"""What is added to the name of the journal for the file that says that files are exchanged."""

DONE = ".done"
"""The same for the file that says that all are, and known ones."""

PIECE = 1024 * 1024
"""Bytes of a file that a commit copies at once."""

EXCHANGES = 100
"""Times that a file is given its place back, at most, while another program puts others there."""

_NOREPLACE, _EXCHANGE = 1, 2
_AT_FDCWD = -100


def attributes(path: str) -> "dict[str, bytes]":
    """The extended attributes of a file, less those of overlayfs."""
    found = {}
    with suppress(OSError):
        for name in os.listxattr(path, follow_symlinks=False):
            if not name.startswith("user.overlay."):
                found[name] = os.getxattr(path, name, follow_symlinks=False)
    return found


class Commit:
    """One commit of a layer.

    Args:
        root: The directory above which it lies.
        upper: What the command wrote.
        before: The files of the first one, as the command has found them.
        written: Those of the other one.
        changes: What is to be done with each path, see `layer.Layer.changes`.
        key: Makes the names beside others unique.
    """

    def __init__(
        self,
        root: str,
        upper: str,
        before: Files,
        written: Files,
        changes: "list[tuple[str, str]]",
        key: str,
    ) -> None:
        self._root, self._upper, self._before, self._written = root, upper, before, written
        self._names = {
            path: BESIDE + key + "-" + str(number)
            for number, (path, how) in enumerate(changes)
            if how != "facts"
        }
        self._puts = {path for path, how in changes if how == "put"}
        self._facts = {path for path, how in changes if how == "facts"}
        # Directories that stay, and must be opened for a change.
        above = {os.path.dirname(path) for path in self._names}
        self._opened = self._facts | {path for path in above if self._mode(path) & 0o300 != 0o300}
        self._links = {}  # type: dict[tuple[int, int], str]
        self._made = {}  # type: dict[str, Record | None]
        self._moved = set()  # type: set[int]

    def run(self, journal: str) -> None:
        """Carry it out. `Layer.commit` says more; the directories with names of ours are written into a file."""
        conflicts = [path or "." for path in (*self._names, *self._facts) if not self._is_known(path)]
        if conflicts:
            raise Conflict(*sorted(conflicts))
        with open(journal, "wb") as file:
            places = {os.path.dirname(os.path.join(self._root, path)) for path in self._names}
            file.write(b"\0".join(map(os.fsencode, sorted(places))))
        done = []  # type: list[str]
        try:
            for path in sorted(self._opened):
                self._open(path)
            for path in self._puts:
                self._make(path)
            os.close(create_file(journal + BEGUN))
            for path in self._names:
                self._require_known(path)
                self._exchange(path)
                done.append(path)
            for path in done:
                self._require_known(path, beside=True)
            os.close(create_file(journal + DONE))
        except BaseException:
            for path in reversed(done):
                self._take_back(path)
            with suppress(FileNotFoundError):
                os.unlink(journal + BEGUN)
            for path, name in self._names.items():
                with suppress(FileNotFoundError, NotADirectoryError), self._held(path) as place:
                    remove(place + "/" + name)
            for path in sorted(self._opened, reverse=True):
                with suppress(OSError), self._held(path + "/") as place:
                    os.chmod(place, stat.S_IMODE(self._mode(path)))
            raise
        for path in done:
            self._remove_known(path)
        for path in sorted(self._opened, reverse=True):
            with suppress(OSError), self._held(path + "/") as place:
                self._close(path, place)

    def _mode(self, path: str) -> int:
        record = self._before.at(path)
        return record.mode if record is not None else 0o700

    @contextmanager
    def _held(self, path: str) -> "Iterator[str]":
        """The directory of a path, held: no link leads to it, and another that takes its name is not it."""
        how = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
        fd = os.open(self._root, how)
        try:
            for name in filter(None, path.split("/")[:-1]):
                inner = os.open(name, how | os.O_NOFOLLOW, dir_fd=fd)
                os.close(fd)
                fd = inner
            yield f"/proc/self/fd/{fd}"
        finally:
            os.close(fd)

    def _open(self, path: str) -> None:
        """Have a directory that stays be one in which a change can be made; so it is known that its mode can be set."""
        if not self._is_known(path):
            raise Conflict(path or ".")
        with self._held(path + "/") as place:
            os.chmod(place, stat.S_IMODE(self._mode(path)) | 0o700)

    def _close(self, path: str, place: str) -> None:
        """Give a directory that stays its facts."""
        now, then = self._written.at(path), self._before.at(path)
        assert now is not None
        assert then is not None
        if os.stat(place).st_ino != then.inode:
            return  # another program was quicker
        if path in self._facts and path:
            wanted = attributes(os.path.join(self._upper, path))
            for name in attributes(place + "/.").keys() - wanted.keys():
                os.removexattr(place, name)
            for name, value in wanted.items():
                os.setxattr(place, name, value)
            if not self._written.inside[path]:
                os.utime(place, ns=(os.stat(place).st_atime_ns, now.modified))
        os.chmod(place, stat.S_IMODE(now.mode))

    def _is_known(self, path: str, *, beside: bool = False) -> bool:
        """Whether what the command has seen is still there; or is what has come beside by the exchange."""
        try:
            if path not in self._names:
                with self._held(path + "/") as place:
                    now, then = to_record("", os.stat(place)), self._before.at(path)
                    return then is not None and _is_same_directory(now, then)
            with self._held(path) as place:
                name = self._names[path] if beside else os.path.basename(path)
                return self._is_same(place + "/" + name, path)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                return False  # the directory is another
            raise

    def _require_known(self, path: str, *, beside: bool = False) -> None:
        if not self._is_known(path, beside=beside):
            raise Conflict(path)

    def _is_same(self, place: str, path: str) -> bool:
        if self._before.at(path) is None:
            return record_at(place) is None
        for each, then in self._before.below(path):
            at = place + each[len(path) :]
            now = record_at(at)
            if now is None:
                return False
            if stat.S_ISDIR(then.mode):
                names = self._before.inside.get(each, {}).keys()
                if not _is_same_directory(now, then) or names != set(os.listdir(at)):
                    return False
                continue
            # What was moved here has another time of change, as a file of several names has it.
            end = 6 if now.inode in self._moved else 7
            if now[1:3] != then[1:3] or now[4:end] != then[4:end]:
                return False
        return True

    def _exchange(self, path: str) -> None:
        """Have a change take its place; what was there is beside then."""
        then = self._before.at(path)
        with self._held(path) as place:
            target, beside = place + "/" + os.path.basename(path), place + "/" + self._names[path]
            if then is None:
                _rename(beside, target, _NOREPLACE, path)
            elif path in self._puts:
                _rename(beside, target, _EXCHANGE, path)
            else:
                _rename(target, beside, _NOREPLACE, path)
        if then is not None:
            self._moved.add(then.inode)

    def _take_back(self, path: str) -> None:
        """Undo an exchange, unless another program has changed already what it put there."""
        with suppress(Conflict, FileNotFoundError, NotADirectoryError), self._held(path) as place:
            target, beside = place + "/" + os.path.basename(path), place + "/" + self._names[path]
            made, now = self._made.get(path), record_at(target)
            if path not in self._puts:
                if record_at(beside) is not None:
                    _rename(beside, target, _NOREPLACE, path)
            elif made is not None and now is not None and made[1:6] == now[1:6]:
                if self._before.at(path) is not None:
                    _exchange_back(target, beside, made, path)
                    return
                _rename(target, beside, _NOREPLACE, path)
                if not _is_what(beside, made):  # another program was quicker
                    _rename(beside, target, _NOREPLACE, path)

    def _make(self, path: str) -> None:
        """Make what is new, beside its place."""
        with self._held(path) as place:
            target = place + "/" + self._names[path]
            real, copied = os.path.realpath(place) + "/" + self._names[path], []
            for each, record in self._written.below(path):
                if not stat.S_ISCHR(record.mode):
                    rest = each[len(path) :]
                    if self._copy(os.path.join(self._upper, each), target + rest, real + rest, record):
                        copied.append((each, record))
            # The last one first: what is in a directory changes its times, and its mode may close it.
            for each, record in reversed(copied):
                _give_facts(os.path.join(self._upper, each), target + each[len(path) :], record)
            self._made[path] = record_at(target)

    def _copy(self, source: str, target: str, real: str, record: Record) -> bool:
        """Copy a file, or make a directory; return whether it is a new one, and not a link to one that was made."""
        at, kind = os.lstat(source), stat.S_IFMT(record.mode)
        if kind == stat.S_IFDIR:
            os.mkdir(target, 0o700)
            return True
        if (at.st_dev, at.st_ino) in self._links:
            os.link(self._links[at.st_dev, at.st_ino], target, follow_symlinks=False)
            return False
        if kind == stat.S_IFLNK:
            os.symlink(os.readlink(source), target)
        elif kind == stat.S_IFREG:
            if not at.st_mode & 0o400:
                os.chmod(source, 0o600)  # it is ours, and of no use to others
            _copy_content(source, target)
        else:
            os.mknod(target, record.mode)
        if at.st_nlink > 1:
            self._links[at.st_dev, at.st_ino] = real
        return True

    def _remove_known(self, path: str) -> None:
        """Remove what was there before. What has come into a directory since is kept, in what remains of that."""
        old = list(self._before.below(path))
        with suppress(OSError), self._held(path) as place:
            names = [
                (place + "/" + self._names[path] + each[len(path) :], is_directory(record))
                for each, record in old
            ]
            for name, directory in names:
                if directory:
                    os.chmod(name, 0o700)
            for name, directory in reversed(names):
                with suppress(OSError):
                    (os.rmdir if directory else os.unlink)(name)


def _is_same_directory(now: Record, then: Record) -> bool:
    return now.mode == then.mode and now[3:5] == then[3:5]


def _give_facts(source: str, target: str, record: Record) -> None:
    at = os.lstat(source)
    with suppress(PermissionError):
        os.chown(target, at.st_uid, at.st_gid, follow_symlinks=False)
    for name, value in attributes(source).items():
        with suppress(OSError):
            os.setxattr(target, name, value, follow_symlinks=False)
    if not stat.S_ISLNK(record.mode):
        os.chmod(target, stat.S_IMODE(record.mode))
    os.utime(target, ns=(at.st_atime_ns, record.modified), follow_symlinks=False)


def _copy_content(source: str, target: str) -> None:
    """Copy the content of a file, and its holes as holes."""
    with open(source, "rb", buffering=0) as old, open(target, "xb", buffering=0) as new:
        size, at = os.fstat(old.fileno()).st_size, 0
        while at < size:
            try:
                at = os.lseek(old.fileno(), at, os.SEEK_DATA)
            except OSError:
                break  # a hole up to the end
            end = os.lseek(old.fileno(), at, os.SEEK_HOLE)
            while at < end:
                data = os.pread(old.fileno(), min(PIECE, end - at), at)
                os.pwrite(new.fileno(), data, at)
                at += len(data) or end - at
        os.truncate(new.fileno(), size)


def _is_what(place: str, record: "Record | None") -> bool:
    now = record_at(place)
    return now is None or record is None or now[1:6] == record[1:6]


def _exchange_back(target: str, beside: str, made: Record, path: str) -> None:
    """Exchange two names, so that what another program puts there meanwhile is there in the end."""
    expected = made  # type: "Record | None"
    for _ in range(EXCHANGES):
        put = record_at(beside)
        _rename(target, beside, _EXCHANGE, path)
        if _is_what(beside, expected):
            return
        expected = put  # what has come out is newer than that, and goes back


def _rename(old: str, new: str, how: int, path: str) -> None:
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if not libc.renameat2(_AT_FDCWD, os.fsencode(old), _AT_FDCWD, os.fsencode(new), how):
        return
    number = ctypes.get_errno()
    if number == errno.EEXIST:
        raise Conflict(path)
    if number == errno.EINVAL:
        raise OSError(number, "its file system cannot exchange two names", path)
    raise OSError(number, os.strerror(number), path)
