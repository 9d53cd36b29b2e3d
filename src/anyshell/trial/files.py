"""The files of a directory, held and seen. A part of the programs of `layer` and `store`."""

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
    """Another program has changed these paths."""


class Record(NamedTuple):
    """One file, as a look of `effects` has it."""

    name: str
    mode: int
    size: int
    owner: int
    inode: int
    modified: int
    changed: int


def to_record(name: str, at: os.stat_result) -> Record:
    """The record of a file, from its ``stat``."""
    owner = at.st_uid << 32 | at.st_gid if stat.S_ISDIR(at.st_mode) else 0
    return Record(name, at.st_mode, at.st_size, owner, at.st_ino, at.st_mtime_ns, at.st_ctime_ns)


def is_directory(record: "Record | None") -> bool:
    """Whether something is there, and a directory."""
    return record is not None and stat.S_ISDIR(record.mode)


def join(above: str, name: str) -> str:
    """The path of what is in a directory; without a slash in the top."""
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
    """A directory, held by its descriptor. What another program puts in the place of it, or of one below it, is not entered.

    Each step opens one name in the directory before, and follows no link; on Windows, which has no such descriptors, it is a path.

    Args:
        top: The directory, without links.
        make: Whether it is made if it is not there.

    Raises:
        OSError: It cannot be opened, or there is a link in its path.
    """

    def __init__(self, top: str, *, make: bool = False) -> None:
        self.top = top
        self._fd = None  # type: int | None
        if not _BY_DESCRIPTOR:
            if make:
                os.makedirs(top, exist_ok=True)
            return
        # Where a directory can be opened that may not be read, also those above it.
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
        """The descriptor of the directory that a path is in, and the name there; of a path that ends with a slash, its own."""
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
        """The record of a path now; ``None`` where nothing is."""
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
        """The entries of a directory, without those that go meanwhile."""
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
        """Open a regular file to be read: of an inode, and not what another program has put into its place."""
        with self.held(path) as (at, name):
            fd = os.open(name, _READ, dir_fd=at)
        seen = os.fstat(fd)
        if not stat.S_ISREG(seen.st_mode) or (inode and seen.st_ino != inode):
            os.close(fd)
            raise OSError(errno.ESTALE, "it changed meanwhile", path)
        return fd

    def set_mode(self, path: str, mode: int) -> None:
        """Give a directory a mode."""
        is_linux = sys.platform == "linux"
        with self.held(join(path, "") if is_linux else path) as (at, name):
            if is_linux:
                os.chmod(f"/proc/self/fd/{at}", mode)  # also one that is closed to us
            elif at is None:
                os.chmod(name, mode)
            else:
                os.chmod(name, mode, dir_fd=at, follow_symlinks=False)

    def remove(self, path: str, inode: int = 0) -> None:
        """Remove a file of anyshell's own, or a directory with all that is in it: of an inode, otherwise if it is empty. On Linux."""
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
                    # It comes up, since what lies deep would take a descriptor for each that is above it.
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
    """Whether a path leads nowhere, or through what is no directory, as a link."""
    return error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


class FileListing(NamedTuple):
    """The files of a directory as a look has seen them, by their paths relative to it; the empty one is the directory.

    Attributes:
        top: The directory.
        inside: The entries of each directory.
        unseen: Directories in which not all could be looked at.
        skipped: Directories that were not entered.
    """

    top: Record
    inside: "dict[str, dict[str, Record]]"
    unseen: "Sequence[str]" = ()
    skipped: "Sequence[str]" = ()

    def record(self, path: str) -> "Record | None":
        """The record of a path then; ``None`` where nothing was."""
        above, _, name = path.rpartition("/")
        return self.inside.get(above, {}).get(name) if path else self.top

    def at(self, path: str) -> Record:
        """The same of a path at which something was."""
        found = self.record(path)
        assert found is not None
        return found

    def entries(self, path: str) -> "Iterable[tuple[str, Record]]":
        """The entries of a directory then."""
        return self.inside.get(path, {}).items()


def loaded(told: "Any") -> FileListing:
    """Files from JSON."""
    top, inside, unseen, skipped = told
    records = {
        above: {name: Record(*each) for name, each in names.items()} for above, names in inside.items()
    }
    return FileListing(Record(*top), records, unseen, skipped)


def below(files: "HeldDirectory | FileListing", path: str) -> "Iterator[tuple[str, Record]]":
    """The files at a path and below it, a directory before its content."""
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
        most: Files.
        seconds: The time limit.
        ours: Whether it is a layer: a directory in it that cannot be read is opened then.
        skip: Names, or ends of paths, of directories that are not entered.

    Raises:
        OSError: The directory cannot be read, or what is in a layer; there are more files, or they take longer.
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
    """Make a directory for this user alone.

    Raises:
        OSError: It cannot be made, or what is there is another's.
    """
    os.makedirs(path, 0o700, exist_ok=True)
    at = os.lstat(path)
    if not stat.S_ISDIR(at.st_mode) or at.st_uid != os.geteuid() or at.st_mode & 0o022:  # type: ignore[attr-defined,unused-ignore]  # not on Windows
        raise PermissionError(errno.EPERM, "it is not a directory of this user's alone", path)


def create_file(path: str, at: "int | None" = None) -> int:
    """Make a file for this user alone, open to be written."""
    return os.open(path, _CREATE, 0o600, dir_fd=at)


def to_json(value: object) -> bytes:
    """A value as JSON, whose texts are the bytes of the host's names: so it is read again in another locale, and elsewhere."""
    return os.fsencode(json.dumps(value, ensure_ascii=False))


def from_json(data: bytes) -> "Any":
    """The value that `to_json` has written."""
    return json.loads(os.fsdecode(data))


def serve(step: "Callable[..., object]") -> None:
    """Take one step on this host, for an anyshell elsewhere: its words are on stdin, the answer is on stdout, as JSON.

    A request to end, as when the connection is lost, is an exception in the step: what it has begun, it takes back.
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
