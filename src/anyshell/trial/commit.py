"""The commit of a layer: all of it or nothing, and each file whole at every moment.

What is new is made beside its place, under a name of anyshell's own, and then the two names are exchanged, which is one step of
the kernel's. What was there before has that name then, and is looked at once more: if it is not what the command has seen, all is
exchanged back. It is removed only when all is in its place.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

assert sys.platform == "linux"

from .._exceptions import AnyshellError, CommitConflict
from .layer import attributes, facts_at, is_directory, is_whiteout

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .layer import Before, Change, Facts

BESIDE = ".anyshell-trial-"
"""What the names begin with of files that a commit makes beside others. After SIGKILL to it they stay, until the next trial."""

PIECE = 1024 * 1024
"""Bytes of a file that a commit copies at once."""

EXCHANGES = 100
"""Times that a file is given its place back, at most, while another program puts others there."""

_NOREPLACE, _EXCHANGE = 1, 2
_AT_FDCWD = -100


class Commit:
    """One commit.

    Args:
        upper: The layer.
        before: What the command has seen.
        changes: What is done.
        key: Makes the names beside others unique.
        journal: A new file, into which the directories are written that have such names.
    """

    def __init__(self, upper: str, before: Before, changes: list[Change], key: str, journal: str) -> None:
        self._upper, self._before = upper, before
        self._key, self._journal = key, journal
        self._changes = {change.path: f"{BESIDE}{key}-{number}" for number, change in enumerate(changes)}
        self._puts = {change.path for change in changes if change.how == "put"}
        self._links: dict[tuple[int, int], str] = {}
        self._made: dict[str, Facts | None] = {}
        # The modes of directories that stay: those that the command has changed, and those that must be opened for a change.
        self._modes: set[str] = set()
        for change in changes:
            above = os.path.dirname(change.path)
            if change.how == "mode":
                del self._changes[change.path]
                self._modes.add(change.path)
            elif above and (then := before.at(above)) is not None and then[1] & 0o300 != 0o300:
                self._modes.add(above)

    def run(self) -> None:
        """Carry it out.

        Raises:
            CommitConflict: Something has changed meanwhile. Nothing is done.
            OSError: Something cannot be written, such as on a full disk. Nothing is done.
        """
        conflicts = [path for path in self._changes if not self._is_known(path)]
        if conflicts:
            raise CommitConflict(conflicts)
        with open(self._journal, "wb") as file:
            places = {os.path.dirname(os.path.join(self._before.root, path)) for path in self._changes}
            file.write(b"\0".join(map(os.fsencode, sorted(places))))
        self._set_modes("open")
        done: list[str] = []
        try:
            for path in self._puts:
                self._make(path)
            for path in self._changes:
                self._require_known(path)
                self._exchange(path)
                done.append(path)
            for path in done:
                self._require_known(path, beside=True)
        except BaseException:
            for path in reversed(done):
                self._take_back(path)
            for path, name in self._changes.items():
                with self._place(path) as place:
                    remove(f"{place}/{name}")
            self._set_modes("before")
            raise
        for path in done:
            self._remove_known(path)
        self._set_modes("after")

    @contextmanager
    def _place(self, path: str) -> Iterator[str]:
        """The directory of a path, held: no link leads to it, and another that takes its name is not it."""
        fd = os.open(self._before.root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for name in path.split("/")[:-1]:
                inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=fd)
                os.close(fd)
                fd = inner
            yield f"/proc/self/fd/{fd}"
        finally:
            os.close(fd)

    def _is_known(self, path: str, *, beside: bool = False) -> bool:
        """Whether what the command has seen is still there; or is what has come beside by the exchange."""
        try:
            with self._place(path) as place:
                name = self._changes[path] if beside else os.path.basename(path)
                return self._is_same(f"{place}/{name}", path, exact=not beside)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                return False  # the directory is another
            raise

    def _require_known(self, path: str, *, beside: bool = False) -> None:
        if not self._is_known(path, beside=beside):
            raise CommitConflict([path])

    def _is_same(self, place: str, path: str, *, exact: bool = True) -> bool:
        then, now = self._before.at(path), facts_at(place)
        if then is None or now is None:
            return then is now
        if not is_directory(now):
            # Another name is a change of the file, which has its time, but not one of its content.
            return now[1:3] == then[1:3] and now[4:6] == then[4:6] and (not exact or now[6] == then[6])
        if now[1] != then[1] or now[3:5] != then[3:5]:
            return False
        names = self._before.children(path)
        return names.keys() == set(os.listdir(place)) and all(
            self._is_same(f"{place}/{each}", f"{path}/{each}") for each in names
        )

    def _exchange(self, path: str) -> None:
        """Have a change take its place; what was there is beside then."""
        with self._place(path) as place:
            target, beside = f"{place}/{os.path.basename(path)}", f"{place}/{self._changes[path]}"
            if self._before.at(path) is None:
                if path in self._puts:
                    _rename(beside, target, _NOREPLACE, path)
            elif path in self._puts:
                _rename(beside, target, _EXCHANGE, path)
            else:
                _rename(target, beside, _NOREPLACE, path)

    def _take_back(self, path: str) -> None:
        """Undo an exchange, unless another program has changed already what it put there."""
        with self._place(path) as place, suppress(CommitConflict, FileNotFoundError):
            target, beside = f"{place}/{os.path.basename(path)}", f"{place}/{self._changes[path]}"
            made, now = self._made.get(path), facts_at(target)
            if path not in self._puts:
                if facts_at(beside) is not None:
                    _rename(beside, target, _NOREPLACE, path)
            elif made is not None and now is not None and made[1:6] == now[1:6]:
                if self._before.at(path) is not None:
                    _exchange_back(target, beside, made, path)
                    return
                _rename(target, beside, _NOREPLACE, path)
                if not _is_what(beside, made):  # another program was quicker
                    _rename(beside, target, _NOREPLACE, path)

    def _set_modes(self, when: str) -> None:
        for path in sorted(self._modes, reverse=when == "after"):
            then, now = self._before.at(path), facts_at(os.path.join(self._upper, path))
            if then is not None and now is not None:
                mode = {"open": then[1] | 0o700, "before": then[1], "after": now[1]}[when]
                with self._place(path) as place, suppress(FileNotFoundError):
                    os.chmod(f"{place}/{os.path.basename(path)}", stat.S_IMODE(mode), follow_symlinks=False)

    def _make(self, path: str) -> None:
        """Make what is new, beside its place."""
        with self._place(path) as place:
            target = f"{place}/{self._changes[path]}"
            self._copy(os.path.join(self._upper, path), target, os.path.realpath(place))
            self._made[path] = facts_at(target)

    def _copy(self, source: str, target: str, above: str) -> None:
        at = os.lstat(source)
        kind, known = stat.S_IFMT(at.st_mode), (at.st_dev, at.st_ino)
        if known in self._links:
            os.link(self._links[known], target, follow_symlinks=False)
            return
        if kind == stat.S_IFLNK:
            os.symlink(os.readlink(source), target)
        elif kind == stat.S_IFDIR:
            os.mkdir(target, 0o700)
            for name in os.listdir(source):
                if not is_whiteout(os.lstat(f"{source}/{name}")):
                    self._copy(f"{source}/{name}", f"{target}/{name}", f"{above}/{os.path.basename(target)}")
        elif kind == stat.S_IFREG:
            if not at.st_mode & 0o400:
                os.chmod(source, 0o600)  # it is ours, and of no use to others
            _copy_content(source, target)
        else:
            os.mknod(target, at.st_mode)
        if at.st_nlink > 1 and kind != stat.S_IFDIR:
            self._links[known] = f"{above}/{os.path.basename(target)}"
        with suppress(PermissionError):
            os.chown(target, at.st_uid, at.st_gid, follow_symlinks=False)
        for attribute, value in attributes(source).items():
            with suppress(OSError):
                os.setxattr(target, attribute, value, follow_symlinks=False)
        if kind != stat.S_IFLNK:
            os.chmod(target, stat.S_IMODE(at.st_mode))
        os.utime(target, ns=(at.st_atime_ns, at.st_mtime_ns), follow_symlinks=False)

    def _remove_known(self, path: str) -> None:
        """Remove what was there before. What has come into a directory since is kept, in what remains of that."""
        old = [*self._before.below(path)]
        with self._place(path) as place:
            names = [
                (f"{place}/{self._changes[path]}{each[len(path) :]}", is_directory(facts))
                for each, facts in old
            ]
            for name, directory in names:
                if directory:
                    os.chmod(name, 0o700)
            for name, directory in reversed(names):
                with suppress(FileNotFoundError, OSError if directory else FileNotFoundError):
                    (os.rmdir if directory else os.unlink)(name)


def remove(path: str) -> None:
    """Remove a file of anyshell's own, or a directory with all that is in it."""
    facts = facts_at(path)
    if facts is None:
        return
    if not is_directory(facts):
        os.unlink(path)
        return
    os.chmod(path, 0o700)
    for name in os.listdir(path):
        remove(f"{path}/{name}")
    os.rmdir(path)


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


def _is_what(place: str, facts: Facts | None) -> bool:
    now = facts_at(place)
    return now is None or facts is None or now[1:6] == facts[1:6]


def _exchange_back(target: str, beside: str, made: Facts, path: str) -> None:
    """Exchange two names, so that what another program puts there meanwhile is there in the end."""
    expected: Facts | None = made
    for _ in range(EXCHANGES):
        put = facts_at(beside)
        _rename(target, beside, _EXCHANGE, path)
        if _is_what(beside, expected):
            return
        expected = put  # what has come out is newer than that, and goes back


def _rename(old: str, new: str, how: int, path: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if not libc.renameat2(_AT_FDCWD, os.fsencode(old), _AT_FDCWD, os.fsencode(new), how):
        return
    number = ctypes.get_errno()
    if number == errno.EEXIST:
        raise CommitConflict([path])
    if number == errno.EINVAL:
        raise AnyshellError(
            f"{path} is on a file system that cannot exchange two names, so nothing was committed"
        )
    raise OSError(number, os.strerror(number), path)
