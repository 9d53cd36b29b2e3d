"""Access to the files of a directory, by descriptor, and listings of them. A part of the programs of `layer` and `store`."""

import errno
import fnmatch
import json
import os
import secrets
import signal
import stat
import sys
import time
from contextlib import contextmanager, suppress
from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any


class Conflict(Exception):  # noqa: N818 - an answer
    """A conflict: another program has changed the paths in `args`."""


class Record(NamedTuple):
    """The record of one file, in the form of a look of `effects`."""

    name: str
    mode: int
    size: int
    owner: int
    inode: int
    modified: int
    changed: int


def to_record(name: str, at: os.stat_result) -> Record:
    """Return the record of a file, from its ``stat``."""
    owner = at.st_uid << 32 | at.st_gid if stat.S_ISDIR(at.st_mode) else 0
    return Record(name, at.st_mode, at.st_size, owner, at.st_ino, at.st_mtime_ns, at.st_ctime_ns)


def is_directory(record: "Record | None") -> bool:
    """Whether a record exists and is the record of a directory."""
    return record is not None and stat.S_ISDIR(record.mode)


def join(above: str, name: str) -> str:
    """Return the path of a name in a directory; only the name if the directory is the top."""
    return above + "/" + name if above else name


def _flags(*names: str) -> int:
    found = 0
    for name in names:
        found |= getattr(os, name, 0)
    return found


_BY_DESCRIPTOR = os.open in os.supports_dir_fd
_HOLD = _flags("O_DIRECTORY", "O_NOFOLLOW", "O_NOFOLLOW_ANY", "O_CLOEXEC", "O_PATH")
_READ = _flags("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY", "O_CLOEXEC")
_CREATE = _flags("O_WRONLY", "O_CREAT", "O_EXCL", "O_CLOEXEC")


class HeldDirectory:
    """A directory, held by its descriptor. If another program replaces the directory, the replacement is not entered.

    The same is true for directories below: each step opens one name in the directory before, and follows no link. On Windows,
    which has no such descriptors, paths are used instead.

    Args:
        top: The directory, without links.
        make: Whether to make the directory if it does not exist.

    Raises:
        OSError: The directory cannot be opened, or its path contains a link.
    """

    def __init__(self, top: str, *, make: bool = False) -> None:
        self.top = top
        self._fd = None  # type: int | None
        if not _BY_DESCRIPTOR:
            if make:
                os.makedirs(top, exist_ok=True)
            return
        # O_PATH opens a directory without read permission. Only with O_PATH, the directories above are opened one by one as well.
        names = [each for each in top.split("/") if each] if hasattr(os, "O_PATH") else []
        fd = os.open("/" if names else top, _HOLD)
        try:
            for name in names:
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(name, dir_fd=fd)
                fd = _entered(fd, name)
        except BaseException:
            os.close(fd)
            raise
        self._fd = fd

    def __enter__(self) -> "HeldDirectory":
        return self

    def __exit__(self, *_: object) -> None:
        if self._fd is not None:
            os.close(self._fd)

    @contextmanager
    def held(self, path: str) -> "Iterator[tuple[int | None, str]]":
        """Yield the descriptor of a path's parent directory, and the last name; for ``path/``, the directory's own descriptor."""
        if self._fd is None:
            yield None, os.path.join(self.top, path)
            return
        fd = os.dup(self._fd)
        above, _, name = path.rpartition("/")
        try:
            for each in filter(None, above.split("/")):
                fd = _entered(fd, each)
            yield fd, name or "."
        finally:
            os.close(fd)

    def record(self, path: str) -> "Record | None":
        """Return the current record of a path; ``None`` if the path does not exist."""
        try:
            with self.held(path) as (at, name):
                return to_record(
                    os.path.basename(path) or ".", os.stat(name, dir_fd=at, follow_symlinks=False)
                )
        except OSError as error:
            if is_missing(error):
                return None
            raise

    def entries(self, path: str) -> "Iterator[tuple[str, Record]]":
        """Yield the entries of a directory, without entries that disappear meanwhile."""
        with self.held(join(path, "")) as (at, name):
            if at is None:
                with os.scandir(name) as entries:
                    for entry in entries:
                        with suppress(FileNotFoundError):
                            yield entry.name, to_record(entry.name, entry.stat(follow_symlinks=False))
                return
            fd = os.open(name, _flags("O_DIRECTORY", "O_NOFOLLOW", "O_CLOEXEC"), dir_fd=at)
            try:
                names = os.listdir(fd)
            finally:
                os.close(fd)
            for each in names:
                with suppress(FileNotFoundError):
                    yield each, to_record(each, os.stat(each, dir_fd=at, follow_symlinks=False))

    def open(self, path: str, inode: int = 0) -> int:
        """Open a regular file for reading; with an `inode`, refuse another file that a program has put into its place."""
        with self.held(path) as (at, name):
            fd = os.open(name, _READ, dir_fd=at)
        seen = os.fstat(fd)
        if not stat.S_ISREG(seen.st_mode) or (inode and seen.st_ino != inode):
            os.close(fd)
            raise OSError(errno.ESTALE, "it changed meanwhile", path)
        return fd

    def set_mode(self, path: str, mode: int) -> None:
        """Set the mode of a directory."""
        is_linux = sys.platform == "linux"
        with self.held(join(path, "") if is_linux else path) as (at, name):
            if is_linux:
                os.chmod(f"/proc/self/fd/{at}", mode)  # works also without permissions in the directory
            elif at is None:
                os.chmod(name, mode)
            else:
                os.chmod(name, mode, dir_fd=at, follow_symlinks=False)

    def remove(self, path: str, inode: int = 0) -> None:
        """Remove anyshell's own file, or a directory: with its content if `inode` matches, else only if empty. Linux only."""
        with self.held(path) as (at, name):
            try:
                os.unlink(name, dir_fd=at)
            except FileNotFoundError:
                return
            except IsADirectoryError:
                top = os.open(name, _HOLD, dir_fd=at)
                try:
                    if os.fstat(top).st_ino == inode:
                        _empty(top)
                finally:
                    os.close(top)
                os.rmdir(name, dir_fd=at)


def _entered(fd: int, name: str) -> int:
    inner = os.open(name, _HOLD, dir_fd=fd)
    os.close(fd)
    return inner


def _empty(top: int) -> None:
    waiting = [""]
    for each in waiting:
        fd = os.open(each or ".", _HOLD, dir_fd=top)
        try:
            place = f"/proc/self/fd/{fd}"
            os.chmod(place, 0o700)
            for name in os.listdir(place):
                try:
                    os.unlink(name, dir_fd=fd)
                except IsADirectoryError:
                    # Move the inner directory to the top: a deep directory would need a descriptor for each directory above it.
                    inner = os.open(name, _HOLD, dir_fd=fd)
                    os.chmod(f"/proc/self/fd/{inner}", 0o700)
                    os.close(inner)
                    waiting.append(secrets.token_hex(16))
                    os.rename(name, waiting[-1], src_dir_fd=fd, dst_dir_fd=top)
        finally:
            os.close(fd)
    for each in waiting[1:]:
        os.rmdir(each, dir_fd=top)


def is_missing(error: OSError) -> bool:
    """Whether an error says that a path does not exist, or leads through a file or a link instead of a directory."""
    return error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


class FileListing(NamedTuple):
    """The files of a directory, as found by a look. Paths are relative to the directory; the empty path is the directory itself.

    Attributes:
        top: The record of the directory.
        inside: The entries of each directory, by path and name.
        unseen: Directories with files that could not be looked at.
        skipped: Directories that were not entered.
    """

    top: Record
    inside: "dict[str, dict[str, Record]]"
    unseen: "Sequence[str]" = ()
    skipped: "Sequence[str]" = ()

    def record(self, path: str) -> "Record | None":
        """Return the record of a path at the time of the look; ``None`` if the path did not exist."""
        above, _, name = path.rpartition("/")
        return self.inside.get(above, {}).get(name) if path else self.top

    def at(self, path: str) -> Record:
        """Return the record of a path that existed at the time of the look."""
        found = self.record(path)
        assert found is not None
        return found

    def entries(self, path: str) -> "Iterable[tuple[str, Record]]":
        """Return the entries of a directory at the time of the look."""
        return self.inside.get(path, {}).items()


def loaded(told: "Any") -> FileListing:
    """Return the listing that was written as JSON."""
    top, inside, unseen, skipped = told
    records = {
        above: {name: Record(*each) for name, each in names.items()} for above, names in inside.items()
    }
    return FileListing(Record(*top), records, unseen, skipped)


def below(files: "HeldDirectory | FileListing", path: str) -> "Iterator[tuple[str, Record]]":
    """Yield the files at a path and below, each directory before its content."""
    top = files.record(path)
    waiting = [] if top is None else [(path, top)]
    while waiting:
        path, record = waiting.pop()
        yield path, record
        if is_directory(record):
            waiting += [(join(path, name), each) for name, each in files.entries(path)]


def look(
    top: str, most: int, seconds: float, *, ours: bool = False, skip: "Sequence[str]" = ()
) -> FileListing:
    """Look at all files of a directory.

    Args:
        top: The directory, without links.
        most: The largest number of files.
        seconds: The time limit.
        ours: Whether the directory is a layer: an unreadable directory in a layer is then made readable.
        skip: Names, or ends of paths, of directories that are not entered.

    Raises:
        OSError: The directory, or a directory of a layer, cannot be read; there are more than `most` files; the look takes longer
            than `seconds`.
    """
    inside = {}  # type: dict[str, dict[str, Record]]
    unseen, count, give_up, waiting = [], 0, time.monotonic() + seconds, [""]
    skipped = []  # type: list[str]
    with HeldDirectory(top) as tree:
        while waiting:
            above = waiting.pop()
            names = inside[above] = {}
            try:
                for name, record in tree.entries(above):
                    names[name] = record
                    if stat.S_ISDIR(record.mode):
                        path = join(above, name)
                        leave = any(fnmatch.fnmatchcase("/" + path, "*/" + each) for each in skip)
                        (skipped if leave else waiting).append(path)
                        if ours and record.mode & 0o700 != 0o700:
                            tree.set_mode(path, 0o700)
            except OSError as error:
                if ours or not above:
                    raise
                if not isinstance(error, FileNotFoundError):
                    unseen.append(above)
            count += len(names)
            if count > most:
                raise OSError(errno.EFBIG, f"there are too many files, more than {most:,}", top)
            if time.monotonic() > give_up:
                raise TimeoutError(errno.ETIME, f"its files are not seen within {seconds:g} s", top)
        found = tree.record("")
    assert found is not None
    return FileListing(found, inside, unseen, skipped)


def own_directory(path: str) -> None:
    """Make a directory that only this user can access, or check an existing one.

    Raises:
        OSError: The directory cannot be made, or an existing directory belongs to another user or is writable for others.
    """
    os.makedirs(path, 0o700, exist_ok=True)
    at = os.lstat(path)
    if not stat.S_ISDIR(at.st_mode) or at.st_uid != os.geteuid() or at.st_mode & 0o022:  # type: ignore[attr-defined,unused-ignore]  # not on Windows
        raise PermissionError(errno.EPERM, "it is not a directory of this user's alone", path)


def create_file(path: str, at: "int | None" = None) -> int:
    """Create a file that only this user can access, and return its descriptor, open for writing."""
    return os.open(path, _CREATE, 0o600, dir_fd=at)


def to_json(value: object) -> bytes:
    """Return a value as JSON. Texts keep the bytes of the host's file names, in every locale and on another host."""
    return os.fsencode(json.dumps(value, ensure_ascii=False))


def from_json(data: bytes) -> "Any":
    """Return the value that `to_json` has written."""
    return json.loads(os.fsdecode(data))


def serve(step: "Callable[..., object]") -> None:
    """Take one step on this host, for an anyshell elsewhere: stdin has the step's words, stdout gets the answer, as JSON.

    SIGTERM or SIGHUP, as when the connection is lost, raises an exception in the step: the step then undoes its changes.
    """

    def end(number: int, frame: object) -> None:
        for each in ends:
            signal.signal(each, signal.SIG_IGN)
        raise SystemExit(1)

    ends = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    for each in ends:
        signal.signal(each, end)
    failed, found = "", None  # type: str, object
    try:
        found = step(*from_json(sys.stdin.buffer.read()))
    except Conflict as conflict:
        failed, found = "conflict", conflict.args
    except OSError as error:
        failed, found = "error", [error.errno, error.strerror, error.filename]
    sys.stdout.buffer.write(to_json([failed, found]))
