"""The layer of a trial: it holds the command's writes above the directory, until a commit carries the writes down.

In the layer, overlayfs marks a removed file by a character device 0:0 with the file's name. The attribute
``user.overlay.opaque`` marks a directory that hides the lower directory (Documentation/filesystems/overlayfs.rst of Linux).

On an SSH host, a Python of 3.6 or later runs the text of this module, one step per process. The host needs no anyshell.
"""

import binascii
import fcntl
import filecmp
import os
import re
import secrets
import stat
import sys
import tempfile
import time
from contextlib import suppress

assert sys.platform == "linux"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

if __name__ != "__main__":  # on an SSH host, the texts of both modules stand before this text
    from .commit import BESIDE, Change, Commit, Stay, attributes
    from .files import (
        Conflict,
        FileListing,
        HeldDirectory,
        Record,
        below,
        from_json,
        is_directory,
        join,
        loaded,
        look,
        own_directory,
        serve,
        to_json,
    )

MOST_WRITTEN = 500_000
"""Files that a command on trial may have written; with more, the trial ends with an error."""

FAR_SECONDS = 24 * 3600
"""Seconds after which the next trial on an SSH host removes the layer of a trial whose program has gone away."""

_LOCK, _JOURNAL = ".lock", "/journal"

_LOOKS = {"look": "before", "read": "written"}
"""The steps that look at files, and the attributes with the found files; over SSH, files of the layer keep the attributes."""


class Layer:
    """The directory of one trial, locked while this process uses it; each public method is a step of the trial.

    Args:
        state: The directory of anyshell's own files; empty if there is none.
        far: Seconds for which the layer is kept without a lock, since other processes take the next steps; 0 with a lock.
    """

    def __init__(self, state: str, far: float = 0) -> None:
        self._state, self._far = state, far
        self.top = self.root = self.upper = ""
        self.before = self.written = FileListing(Record("", 0, 0, 0, 0, 0, 0), {})
        self._lock = None  # type: int | None

    def prepare(self, paths: "Sequence[str]") -> "tuple[list[str], str, list[str]]":
        """Return the facts of the host that a trial needs.

        Args:
            paths: The directory, and other paths.

        Returns:
            The paths with links resolved. A mount point of another file system in the directory, or empty: an overlay would
            not show the files there. The possible places for a layer: the kernel accepts only some file systems, and only a
            place outside of the directory.
        """
        real = [os.path.realpath(path) for path in paths]
        inside, mount = real[0].rstrip("/") + "/", ""
        with suppress(OSError), open("/proc/self/mountinfo", "rb") as file:
            for line in map(os.fsdecode, file):
                place = re.sub(r"\\([0-7]{3})", lambda found: chr(int(found.group(1), 8)), line.split(" ")[4])
                mount = place if place.startswith(inside) else mount
        own = "anyshell-trials-" + str(os.geteuid())
        places = [(tempfile.gettempdir(), own), ("/dev/shm", own)]  # noqa: S108 - of this user's alone
        if self._state:
            places.insert(0, (os.path.expanduser(self._state), "trials"))
        # In a directory for all users, the last name may be another user's link. So only the directory above is resolved.
        return real, mount, [os.path.join(os.path.realpath(above), name) for above, name in places]

    def make(self, place: str, root: str) -> "tuple[str, str]":
        """Make the layer, and sweep the layers of killed trials at the place; return the overlay's upper and work directory.

        Args:
            place: The directory for layers, which belongs to this user alone.
            root: The directory below the layer; not ``/``.

        Raises:
            OSError: The layer cannot be made there.
        """
        own_directory(place)
        _sweep(place)
        top = place + "/" + secrets.token_hex(8)
        # A sweep of another process ignores the lock file under its first name.
        self._lock = os.open(top, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.utime(top, (time.time() + self._far,) * 2)
        os.rename(top, top + _LOCK)
        self.begin(top, root)
        for path in (top, self.upper, top + "/work"):
            os.mkdir(path, 0o700)
        os.chmod(self.upper, stat.S_IMODE(os.stat(root).st_mode))
        return self.upper, top + "/work"

    def begin(self, top: str, root: str) -> None:
        """Continue with a layer that was made before."""
        self.top, self.root, self.upper = top, root, top + "/upper"

    def look(self, most: int, seconds: float) -> int:
        """Record the files before the command runs; return the latest time of all files, in nanoseconds.

        Raises:
            OSError: As for the function `look`.
        """
        self.before = look(self.root, most, seconds)
        records = (record for names in self.before.inside.values() for record in names.values())
        return max((max(record.modified, record.changed) for record in records), default=0)

    def read(self, seconds: float) -> "tuple[object, ...]":
        """Read the files that the command wrote.

        Returns:
            The records of the differing files before and after a commit; the new paths whose old file has other names (hard
            links); and the directories with unknown files.

        Raises:
            OSError: As for the function `look`.
        """
        self.written = look(self.upper, MOST_WRITTEN, seconds, ours=True)
        then = {}  # type: dict[str, Record]
        now = {}  # type: dict[str, Record]
        for path, how in self.changes():
            if how == "facts":
                then[path or "."], now[path or "."] = self.before.at(path), self.written.at(path)
            else:
                then.update(below(self.before, path))
                now.update(self._new(path))
        linked = [path for path in now if stat.S_ISREG(now[path].mode) and self._has_other_names(path)]
        return [*then.items()], [*now.items()], linked, self.before.unseen

    def contents(self, paths: "Sequence[str]", above: bool) -> "dict[str, str]":
        """Return the contents of files in base64, from the directory or (`above`) the layer; without unreadable files."""
        found = {}
        with HeldDirectory(self.upper if above else self.root) as tree:
            for path in paths:
                with suppress(OSError), open(tree.open(path), "rb") as file:
                    found[path] = binascii.b2a_base64(file.read()).decode()
        return found

    def commit(self) -> None:
        """Make the writes real: all writes, or none.

        Raises:
            Conflict: Another program has changed a file since the look. No write is real.
            OSError: A file cannot be written, such as on a full disk. No write is real.
        """
        changes = {}  # type: dict[str, Change]
        stays = {}  # type: dict[str, Stay]
        for path, how in self.changes():
            stay = path if how == "facts" else os.path.dirname(path)
            if how != "facts":
                beside = BESIDE + os.path.basename(self.top) + "-" + str(len(changes))
                after = [*self._new(path)] if how == "put" else []
                changes[path] = Change(beside, how == "put", [*below(self.before, path)], after)
            then, now = self.before.at(stay), self.written.at(stay)
            # The commit needs write permission in the directory of a change.
            if how == "facts" or then.mode & 0o300 != 0o300:
                stays[stay] = Stay(then, now.mode, None if self.written.inside[stay] else now.modified)
        if self._lock is None:
            self._lock = _locked(self.top + _LOCK)  # held until this program ends
        with HeldDirectory(self.root) as tree:
            there = tree.record("")
            if there is None or there.inode != self.before.top.inode:
                raise Conflict(".")
            Commit(self.upper, self.top + _JOURNAL, tree, changes, stays).run()

    def recover(self) -> "list[tuple[str, list[str]]]":
        """End this user's killed commits; return the directory of each commit, with the paths of files that stay there."""
        found = []
        for place in self.prepare(["/"])[2]:
            if os.path.isdir(place):
                with suppress(OSError):
                    own_directory(place)
                    found += _sweep(place)
        return found

    def close(self) -> None:
        """Remove the layer. A second call does nothing."""
        if self.top:
            _remove(self.top)
            self.top = ""
            if self._lock is not None:
                os.close(self._lock)

    def changes(self) -> "Iterator[tuple[str, str]]":
        """Yield each changed path with its kind of change.

        ``put``: the layer's file or whole directory replaces the path. ``delete``: the path is removed. ``facts``: the
        directory at the path gets a new mode, time or attributes.
        """
        if self.written.top.mode != self.before.top.mode:
            yield "", "facts"
        waiting = [""]
        while waiting:
            above = waiting.pop()
            for name, now in sorted(self.written.inside[above].items()):
                path = join(above, name)
                then, place = self.before.record(path), os.path.join(self.upper, path)
                if stat.S_ISCHR(now.mode):
                    yield path, "delete"
                elif then and is_directory(now) and is_directory(then) and not _is_opaque(place):
                    waiting.append(path)
                    touched = now.modified != then.modified and not self.written.inside[path]
                    same = now.mode == then.mode and attributes(place) == attributes(self._real(path))
                    if touched or not same:
                        yield path, "facts"
                elif not (then and self._is_same(path, now, then)):
                    yield path, "put"

    def _real(self, path: str) -> str:
        return os.path.join(self.root, path)

    def _new(self, path: str) -> "Iterator[tuple[str, Record]]":
        """Return the files that the command has written at a path and below, without the marks of removed files."""
        return (each for each in below(self.written, path) if not stat.S_ISCHR(each[1].mode))

    def _is_same(self, path: str, now: Record, then: Record) -> bool:
        """Whether a file was copied into the layer but not changed, such as by a program that only opens it for writing."""
        facts = (now[1:3], now.modified) == (then[1:3], then.modified)
        here, there = os.path.join(self.upper, path), self._real(path)
        with suppress(OSError):
            is_copy = facts and stat.S_ISREG(now.mode) and os.lstat(here).st_nlink == 1
            return is_copy and filecmp.cmp(here, there, False) and attributes(here) == attributes(there)
        return False

    def _has_other_names(self, path: str) -> bool:
        then = self.before.record(path)
        with suppress(OSError):
            return then is not None and stat.S_ISREG(then.mode) and os.lstat(self._real(path)).st_nlink > 1
        return False


def _is_opaque(place: str) -> bool:
    with suppress(OSError):
        return os.getxattr(place, "user.overlay.opaque", follow_symlinks=False) == b"y"
    return False


def _locked(path: str) -> "int | None":
    """Open a file and lock it; ``None`` if a running program has the lock."""
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    with suppress(OSError):
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.stat(path).st_ino == os.fstat(fd).st_ino:
            return fd
    os.close(fd)
    return None


def _sweep(place: str) -> "list[tuple[str, list[str]]]":
    """Remove the layers of killed trials, and end killed commits; return the ended commits as `Layer.recover` does."""
    ended = []
    for name in os.listdir(place):
        with suppress(OSError):
            lock = place + "/" + name
            top = lock[: -len(_LOCK)]
            if not name.endswith(_LOCK):
                continue
            # A commit always holds the lock, also over SSH, where the other steps do not.
            is_committed = os.path.exists(top + _JOURNAL)
            if os.stat(lock).st_mtime > time.time() and not is_committed:
                continue
            fd = _locked(lock)
            if fd is None:
                continue
            try:
                if is_committed:
                    ended.append(Commit.end(top + "/upper", top + _JOURNAL))
                _remove(top)
            finally:
                os.close(fd)
    return [each for each in ended if each[0]]


def _remove(top: str) -> None:
    """Remove a layer and its lock file."""
    with HeldDirectory(os.path.dirname(top)) as tree:
        name = os.path.basename(top)
        found = tree.record(name)
        tree.remove(name, 0 if found is None else found.inode)
        tree.remove(name + _LOCK)


def main() -> None:
    """Take one step on this host. stdin has the directory of the layer, the directory below it, the step and its words."""

    def take(top: str, root: str, step: str, words: "Sequence[object]") -> object:
        layer = Layer("~/.local/state/anyshell", FAR_SECONDS)
        if top:
            layer.begin(top, root)
            for name in _LOOKS.values():
                with suppress(FileNotFoundError), open(top + "/" + name, "rb") as file:
                    setattr(layer, name, loaded(from_json(file.read())))
        found = getattr(layer, step)(*words)
        if step in _LOOKS:
            with open(top + "/" + _LOOKS[step], "wb") as file:
                file.write(to_json(getattr(layer, _LOOKS[step])))
        return found

    serve(take)


if __name__ == "__main__":
    main()
