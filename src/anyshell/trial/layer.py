"""The layer of a trial: it holds the command's writes, above the directory, until a commit carries them down there.

overlayfs marks in it what is gone by a character device 0:0 of its name, and a directory that hides the one below it by the
attribute ``user.overlay.opaque`` (Documentation/filesystems/overlayfs.rst of Linux).

A host that is reached by SSH runs this text itself, a step at a time: a Python of 3.6 or later that knows nothing of anyshell.
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

if __name__ != "__main__":  # otherwise their texts stand before this one
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
"""Files that a command on trial may have written; with more the trial ends with an error."""

FAR_SECONDS = 24 * 3600
"""Seconds after which the layer of a trial over SSH is swept, by the next trial there, if its program has gone away."""

_LOCK, _JOURNAL = ".lock", "/journal"

_LOOKS = {"look": "before", "read": "written"}
"""The steps that look at files, and the attributes that have what they saw; over SSH, files of the layer keep these."""


class Layer:
    """A directory of one trial, locked while this process has it; each public method is a step of the trial.

    Args:
        state: The directory of anyshell's own files; empty is nowhere.
        far: Seconds for which it is kept without a lock, since other processes take the next steps; 0 with a lock.
    """

    def __init__(self, state: str, far: float = 0) -> None:
        self._state, self._far = state, far
        self.top = self.root = self.upper = ""
        self.before = self.written = FileListing(Record("", 0, 0, 0, 0, 0, 0), {})
        self._lock = None  # type: int | None

    def prepare(self, paths: "Sequence[str]") -> "tuple[list[str], str, list[str]]":
        """Find what a trial needs to know of its host.

        Args:
            paths: The directory, and others.

        Returns:
            The paths without links; where another file system is mounted in the directory, of which an overlay would show
            nothing; and the places for a layer, since the kernel takes one on some file systems, and outside of what it is
            laid over.
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
        # An entry in a directory for all may be a link of another user's, which is not followed.
        return real, mount, [os.path.join(os.path.realpath(above), name) for above, name in places]

    def make(self, place: str, root: str) -> "tuple[str, str]":
        """Make it, and remove what trials have left there whose program was killed; return the directories of an overlay.

        Args:
            place: Where, in a directory of this user's own.
            root: The directory above which it is to lie; not ``/``.

        Raises:
            OSError: It cannot be made there.
        """
        own_directory(place)
        _sweep(place)
        top = place + "/" + secrets.token_hex(8)
        # Under this name no other process looks for it.
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
        """Go on with one that was made."""
        self.top, self.root, self.upper = top, root, top + "/upper"

    def look(self, most: int, seconds: float) -> int:
        """Take note of what the command finds; return the last time of all files.

        Raises:
            OSError: As `look` says.
        """
        self.before = look(self.root, most, seconds)
        records = (record for names in self.before.inside.values() for record in names.values())
        return max((max(record.modified, record.changed) for record in records), default=0)

    def read(self, seconds: float) -> "tuple[object, ...]":
        """Read what the command wrote.

        Returns:
            The files that differ, as they were and as they would be; those that have other names; and the directories of which
            not all is known.

        Raises:
            OSError: As `look` says.
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
        """The contents of files in base64, as they are, or `above` as they would be. What cannot be read is left out."""
        found = {}
        with HeldDirectory(self.upper if above else self.root) as tree:
            for path in paths:
                with suppress(OSError), open(tree.open(path), "rb") as file:
                    found[path] = binascii.b2a_base64(file.read()).decode()
        return found

    def commit(self) -> None:
        """Make it real: all of it, or nothing.

        Raises:
            Conflict: Something has changed meanwhile. Nothing is done.
            OSError: Something cannot be written, such as on a full disk. Nothing is done.
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
            # Directories above a change are opened for it.
            if how == "facts" or then.mode & 0o300 != 0o300:
                stays[stay] = Stay(then, now.mode, None if self.written.inside[stay] else now.modified)
        if self._lock is None:
            self._lock = _locked(self.top + _LOCK)  # until this program ends
        with HeldDirectory(self.root) as tree:
            there = tree.record("")
            if there is None or there.inode != self.before.top.inode:
                raise Conflict(".")
            Commit(self.upper, self.top + _JOURNAL, tree, changes, stays).run()

    def recover(self) -> "list[tuple[str, list[str]]]":
        """End the commits of this user that were killed; return their directories, each with the paths of files that stay."""
        found = []
        for place in self.prepare(["/"])[2]:
            if os.path.isdir(place):
                with suppress(OSError):
                    own_directory(place)
                    found += _sweep(place)
        return found

    def close(self) -> None:
        """Remove it. A second time, nothing is done."""
        if self.top:
            _remove(self.top)
            self.top = ""
            if self._lock is not None:
                os.close(self._lock)

    def changes(self) -> "Iterator[tuple[str, str]]":
        """The change of each path.

        ``put`` what the layer has there in its place, a directory with all that is in it; ``delete`` it; or give the directory
        there other ``facts``.
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
        """The files that the command has written at a path and below it, without the marks of removed ones."""
        return (each for each in below(self.written, path) if not stat.S_ISCHR(each[1].mode))

    def _is_same(self, path: str, now: Record, then: Record) -> bool:
        """Whether a file was copied into the layer and then not changed, as by a program that opens it for writing."""
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
    """Remove what trials have left whose program was killed, and end their commits; return these, as `Layer.recover` does."""
    ended = []
    for name in os.listdir(place):
        with suppress(OSError):
            lock = place + "/" + name
            top = lock[: -len(_LOCK)]
            if not name.endswith(_LOCK):
                continue
            # A commit is locked also where the other steps are not.
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
    """Remove a layer, and its lock."""
    with HeldDirectory(os.path.dirname(top)) as tree:
        name = os.path.basename(top)
        found = tree.record(name)
        tree.remove(name, 0 if found is None else found.inode)
        tree.remove(name + _LOCK)


def main() -> None:
    """Take one step on this host: the directory of the layer, that above which it lies, the step and its words are on stdin."""

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
