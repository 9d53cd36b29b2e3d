"""The files of a directory as a look has seen them. A part of the programs of `layer` and `store`."""

import errno
import fnmatch
import json
import os
import secrets
import signal
import stat
import sys
import time
from contextlib import suppress
from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


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


def record_at(path: str, name: str = "") -> "Record | None":
    """What is at a path now; ``None`` is nothing."""
    try:
        return to_record(name or os.path.basename(path), os.lstat(path))
    except (FileNotFoundError, NotADirectoryError):
        return None


def to_record(name: str, at: os.stat_result) -> Record:
    """What a file is, by what the system says of it."""
    owner = at.st_uid << 32 | at.st_gid if stat.S_ISDIR(at.st_mode) else 0
    return Record(name, at.st_mode, at.st_size, owner, at.st_ino, at.st_mtime_ns, at.st_ctime_ns)


def is_directory(record: "Record | None") -> bool:
    """Whether something is there, and a directory."""
    return record is not None and stat.S_ISDIR(record.mode)


def join(above: str, name: str) -> str:
    """The path of what is in a directory; without a slash in the top."""
    return above + "/" + name if above else name


class Files:
    """The files of a directory as a look has seen them, by their paths relative to it; the empty one is the directory.

    Args:
        top: The directory.
        inside: What is in each directory.
        unseen: Directories in which not all could be looked at.
        skipped: Directories that were not entered.
    """

    def __init__(
        self,
        top: Record,
        inside: "dict[str, dict[str, Record]]",
        unseen: "Sequence[str]" = (),
        skipped: "Sequence[str]" = (),
    ) -> None:
        self.top, self.inside, self.unseen, self.skipped = top, inside, unseen, skipped

    @classmethod
    def loaded(cls, told: "tuple[list[object], dict[str, list[list[object]]], list[str]]") -> "Files":
        """The same again, from what `told` has given."""
        top, inside, unseen = told
        records = {path: [Record(*facts) for facts in names] for path, names in inside.items()}  # type: ignore[arg-type]  # as told
        return cls(
            Record(*top),  # type: ignore[arg-type]  # as above
            {path: {record.name: record for record in names} for path, names in records.items()},
            unseen,
        )

    def told(self) -> object:
        """All of it as plain data."""
        return self.top, {path: [*names.values()] for path, names in self.inside.items()}, self.unseen

    def at(self, path: str) -> "Record | None":
        """What was at a path; ``None`` is nothing."""
        above, _, name = path.rpartition("/")
        return self.inside.get(above, {}).get(name) if path else self.top

    def below(self, path: str) -> "Iterator[tuple[str, Record]]":
        """What was at a path and below it, a directory before what is in it."""
        waiting = [path]
        while waiting:
            path = waiting.pop()
            record = self.at(path)
            if record is not None:
                yield path, record
                waiting += [join(path, name) for name in self.inside.get(path, ())]


def look(top: str, most: int, seconds: float, *, ours: bool = False, skip: "Sequence[str]" = ()) -> Files:
    """Look at all files of a directory.

    Args:
        top: The directory.
        most: Files.
        seconds: How long, at most.
        ours: Whether it is a layer: a directory in it that cannot be read is opened then.
        skip: Names, or ends of paths, of directories that are not entered.

    Raises:
        OSError: The directory cannot be read, or what is in a layer; there are more files, or they take longer.
    """
    inside = {}  # type: dict[str, dict[str, Record]]
    unseen, count, give_up, waiting = [], 0, time.monotonic() + seconds, [""]
    skipped = []  # type: list[str]
    while waiting:
        above = waiting.pop()
        names = inside[above] = {}
        try:
            with os.scandir(os.path.join(top, above)) as entries:
                for entry in entries:
                    with suppress(FileNotFoundError):
                        names[entry.name] = record = to_record(entry.name, entry.stat(follow_symlinks=False))
                        if stat.S_ISDIR(record.mode):
                            path = join(above, entry.name)
                            leave = any(fnmatch.fnmatchcase("/" + path, "*/" + each) for each in skip)
                            (skipped if leave else waiting).append(path)
                            if ours and record.mode & 0o700 != 0o700:
                                os.chmod(entry.path, 0o700)
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
    return Files(to_record(".", os.stat(top)), inside, unseen, skipped)


def remove(path: str) -> None:
    """Remove a file of anyshell's own, or a directory with all that is in it."""
    if not is_directory(record_at(path)):
        with suppress(FileNotFoundError):
            os.unlink(path)
        return
    waiting = [path]
    for each in waiting:
        os.chmod(each, 0o700)
        for inner in [each + "/" + name for name in os.listdir(each)]:
            if not is_directory(record_at(inner)):
                os.unlink(inner)
                continue
            # It comes up, since what lies deep has a path too long for the kernel.
            os.chmod(inner, 0o700)
            waiting.append(path + "/" + secrets.token_hex(16))
            os.rename(inner, waiting[-1])
    for each in reversed(waiting):
        os.rmdir(each)


def own_directory(path: str) -> None:
    """Make a directory for this user alone.

    Raises:
        OSError: It cannot be made, or what is there is another's.
    """
    os.makedirs(path, 0o700, exist_ok=True)
    at = os.lstat(path)
    if not stat.S_ISDIR(at.st_mode) or at.st_uid != os.geteuid() or at.st_mode & 0o022:  # type: ignore[attr-defined,unused-ignore]  # not on Windows
        raise PermissionError(errno.EPERM, "it is not a directory of this user's alone", path)


def create_file(path: str) -> int:
    """Make a file for this user alone, open to be written."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)


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
        found = step(*json.load(sys.stdin))
    except Conflict as conflict:
        failed, found = "conflict", conflict.args
    except OSError as error:
        failed, found = "error", [error.errno, error.strerror, error.filename]
    json.dump([failed, found], sys.stdout)
