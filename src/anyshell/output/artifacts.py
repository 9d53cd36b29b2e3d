"""Artifacts: whole outputs, kept in files because their text had to be bounded.

One directory has one file for each artifact: ``<id>.part`` while the file is written, ``<id>.out`` from then on. Any number
of processes may share the directory: a file can vanish at any moment, and the code here expects that.
"""

from __future__ import annotations

import builtins
import importlib
import os
import re
import stat
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._exceptions import ArtifactNotFound
from .._private import check_directory, make_directories, state_directory
from .._types import Artifact

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

    from .._types.checks import Seconds
    from .selection import ArtifactAddress

_ID = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9a-f]{8}")
_STALE_PART = 24 * 3600.0
"""Seconds for which a file is kept that a dead process left half written."""
_PRUNE_EVERY = 60.0
"""Seconds between two removals of artifacts that are too old or too many."""
_TAIL = 4 * 1024 * 1024
"""Bytes from the end that are kept of an output longer than ``max_size``; at most a sixteenth of ``max_size``."""
_SMALL = 4 * 1024
"""Bytes below which a piece of an output's end is copied: the piece's object would take as much memory as its bytes."""
_BLOCK = 64 * 1024
"""Bytes of a block into which small pieces of an output's end are copied."""
_PAUSES = (0.001, 0.004, 0.015, 0.06, 0.12)
"""Seconds between two attempts at an artifact that another program has open on Windows; a failure after the last is an error."""

# A platform that lacks a flag does not need the flag: Windows does not let every user make links, and no other user makes
# a link in a directory of one's own. O_BINARY is for Windows alone.
_COMMON_FLAGS = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_CLOEXEC", "O_NOINHERIT", "O_BINARY"))
_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _COMMON_FLAGS
_READ_FLAGS = os.O_RDONLY | _COMMON_FLAGS
_REFUSAL = (
    "the directory for artifacts is refused: {fault}; set ANYSHELL_STATE_DIR to a directory of your own"
)

LONGEST_VIEW = 1024 * 1024
"""Bytes of a kept output that `ArtifactStore.view` returns, unless more are asked for; the note names the next part."""

_locks: Any
try:
    _locks = importlib.import_module("fcntl")
except ImportError:  # Windows, where an open file cannot be removed anyway
    _locks = None


@dataclass(frozen=True, slots=True)
class ArtifactEntry:
    """A finished artifact in the directory.

    Attributes:
        id: The id for `ArtifactStore.path`.
        path: The file with the raw bytes.
        size: The size of the file, in bytes.
        modified: When the artifact was finished, in seconds since the epoch.
    """

    id: str
    path: Path
    size: int
    modified: float


@dataclass(frozen=True, slots=True)
class ArtifactView:
    """A part of a kept output.

    Attributes:
        data: Raw bytes; for a search, lines in the form of ``grep -n``.
        note: One sentence about the part: its place, the size of the whole, and the omitted rest.
        next: The address of the omitted rest; ``None`` when nothing was omitted.
    """

    data: bytes
    note: str
    next: str | None


class ArtifactStore:
    """The store of artifacts: a directory of kept outputs. Making a store touches nothing on disk.

    The first artifact creates the directory and its missing parents, accessible to their owner alone. A directory that is a
    link, belongs to another user or can be written by others is refused, also for reading: its files may have been
    changed.

    Args:
        directory: The directory of the files. ``None`` is ``artifacts`` below ``$ANYSHELL_STATE_DIR``, or below the
            user's own state directory when that variable is unset or empty; looked up at the first use.
        max_age: Seconds after which an artifact may be removed; zero or more.
        max_total: Bytes that all finished artifacts may have together, beyond which the oldest are removed; zero or more.
        max_size: Bytes of output that one artifact keeps; at least 1.

    Raises:
        ValueError: A limit is out of its range, or the directory is not a path.
    """

    def __init__(
        self,
        directory: Path | None = None,
        *,
        max_age: Seconds = 7 * 24 * 3600.0,
        max_total: int = 1024**3,
        max_size: int = 64 * 1024**2,
    ) -> None:
        if not (directory is None or isinstance(directory, Path)):
            raise ValueError(f"the directory must be a pathlib.Path or None, not {type(directory).__name__}")
        self.max_age = _checked(max_age, max_total)
        if max_size < 1:
            raise ValueError(f"max_size must be 1 byte or more, not {max_size!r}")
        self.max_total = max_total
        self.max_size = max_size
        try:
            usable = directory is None or b"\0" not in os.fsencode(directory)
        except UnicodeEncodeError:
            usable = False
        if not usable:
            raise ValueError(f"the directory {directory!r} is not a path: it holds a NUL or a lone surrogate")
        self._directory = None if directory is None else directory.absolute()
        self._prune_after = -1.0  # on time.monotonic()'s clock

    @property
    def directory(self) -> Path:
        """The absolute path of the directory of the files, which need not exist."""
        if self._directory is None:
            self._directory = state_directory("artifacts").absolute()
        return self._directory

    def create(self) -> ArtifactWriter:
        """Start an artifact. The call also prunes the store, at most once a minute.

        Raises:
            OSError: The directory or the file cannot be made, or the directory is not ours alone.
        """
        self._prune_sometimes()
        for attempt in range(4):
            artifact_id = _new_id()
            part = self.directory / f"{artifact_id}.part"
            try:
                make_directories(self.directory)
                check_directory(self.directory, refusal=_REFUSAL)
                fd = os.open(part, _CREATE_FLAGS, 0o600)
                break
            except (FileExistsError, FileNotFoundError):
                # The id is taken, or another process removed the directory just now.
                if attempt == 3:
                    raise
        _lock(fd)
        return ArtifactWriter(fd, artifact_id, part, self.max_size)

    def list(self) -> builtins.list[ArtifactEntry]:
        """Return all finished artifacts, newest first; an empty list without a directory.

        Raises:
            OSError: The directory cannot be read, or is not ours alone.
        """
        return sorted(self._scan(".out"), key=lambda entry: (entry.modified, entry.id), reverse=True)

    def get(self, artifact_id: str) -> ArtifactEntry:
        """Find one artifact.

        Raises:
            ArtifactNotFound: No artifact has the id, or the text is not an id; a text that is not an id never reaches the file system.
            OSError: The directory cannot be read, or is not ours alone.
        """
        if not _ID.fullmatch(artifact_id):
            raise _not_found(artifact_id)
        path = self.directory / f"{artifact_id}.out"
        try:
            check_directory(self.directory, refusal=_REFUSAL)
            status = os.lstat(path)
        except FileNotFoundError:
            raise _not_found(artifact_id) from None
        if not stat.S_ISREG(status.st_mode):
            raise _not_found(artifact_id)
        return ArtifactEntry(artifact_id, path, status.st_size, status.st_mtime)

    def path(self, artifact_id: str) -> Path:
        """Return the path of an artifact's file. Raises the errors of `get`."""
        return self.get(artifact_id).path

    def read(self, artifact_id: str, *, offset: int = 0, length: int | None = None) -> bytes:
        """Read bytes of an artifact.

        Args:
            artifact_id: The id of the artifact.
            offset: Bytes to skip; past the end, the result is empty.
            length: Bytes to read at most; ``None`` reads up to the end.

        Raises:
            ArtifactNotFound: As in `get`.
            OSError: The artifact cannot be read.
            ValueError: A number is negative.
        """
        if offset < 0 or (length is not None and length < 0):
            raise ValueError(f"offset and length must be 0 or more, not {offset!r} and {length!r}")
        with self.open(artifact_id) as file:
            file.seek(offset)
            return file.read(-1 if length is None else length)

    def open(self, artifact_id: str) -> BinaryIO:
        """Open an artifact for reading. No process prunes the artifact before the file is closed.

        Raises:
            ArtifactNotFound: As in `get`.
            OSError: The artifact cannot be read.
        """
        path = self.path(artifact_id)
        try:
            fd = os.open(path, _READ_FLAGS)
        except FileNotFoundError:  # pruned after path() found the file
            raise _not_found(artifact_id) from None
        _lock(fd, shared=True)
        return builtins.open(fd, "rb", buffering=_BLOCK)

    def view(self, address: str | ArtifactAddress, *, limit: int | None = LONGEST_VIEW) -> ArtifactView:
        """Read a part of an artifact, in bounded memory.

        Args:
            address: An address such as ``artifact://ID?lines=100-200``, with or without ``artifact://``.
            limit: Bytes that are returned, at most; 1 or more; ``None`` is the whole part.

        Raises:
            InvalidCommand: The address is invalid, or the output ends before the part begins.
            ArtifactNotFound: As in `get`.
            OSError: The artifact cannot be read.
            ValueError: `limit` is out of its range.
        """
        if limit is not None and limit < 1:
            raise ValueError(f"limit must be 1 byte or more, not {limit!r}")
        from .selection import ArtifactAddress, PartReading  # imported here, since few programs read a part

        place = ArtifactAddress.parse(address) if isinstance(address, str) else address
        with self.open(place.id) as file:
            reading = PartReading(file, place, limit=limit)
            data = b"".join(reading.pieces())
        return ArtifactView(data, reading.note, reading.next)

    def prune(self, *, max_age: Seconds | None = None, max_total: int | None = None) -> builtins.list[str]:
        """Remove the artifacts that are too old, and then the oldest until the remaining artifacts fit.

        An artifact that any process writes is neither removed nor counted. An artifact that any process reads, by `open`,
        `read` or `view`, is counted and not removed. A file that a dead process left half written is removed a day after
        its last byte.

        Args:
            max_age: Seconds, zero or more; ``None`` is the store's own.
            max_total: Bytes, zero or more; ``None`` is the store's own.

        Returns:
            The ids that this call removed: finished artifacts first, the oldest before the others. A file that
            cannot be removed stays.

        Raises:
            OSError: The directory cannot be read, or is not ours alone.
            ValueError: A limit is out of its range.
        """
        max_total = self.max_total if max_total is None else max_total
        oldest = _checked(self.max_age if max_age is None else max_age, max_total)
        now = time.time()
        entries = self.list()
        total = sum(entry.size for entry in entries)
        removed = []
        for entry in reversed(entries):
            if now - entry.modified <= oldest and total <= max_total:
                break
            total -= entry.size  # also when the removal fails: no newer artifact is removed instead
            if _remove_unread(entry.path):
                removed.append(entry.id)
        stale = now - _STALE_PART
        removed.extend(
            part.id
            for part in self._scan(".part")
            if part.modified < stale and _is_abandoned(part.path, stale) and _remove(part.path)
        )
        return removed

    def _prune_sometimes(self) -> None:
        now = time.monotonic()
        if now < self._prune_after:
            return
        self._prune_after = now + _PRUNE_EVERY
        with suppress(OSError):  # a new artifact matters more than old ones
            self.prune()

    def _scan(self, suffix: str) -> builtins.list[ArtifactEntry]:
        found = []
        try:
            check_directory(self.directory, refusal=_REFUSAL)
            with os.scandir(self.directory) as files:
                for file in files:
                    artifact_id = file.name.removesuffix(suffix)
                    if artifact_id == file.name or not _ID.fullmatch(artifact_id):
                        continue
                    with suppress(FileNotFoundError):
                        # On Windows, scandir's own numbers are out of date for an open file.
                        status = os.lstat(file.path)
                        if stat.S_ISREG(status.st_mode):
                            found.append(
                                ArtifactEntry(artifact_id, Path(file.path), status.st_size, status.st_mtime)
                            )
        except FileNotFoundError:
            return []
        return found


class ArtifactWriter:
    """The writer of one artifact; `ArtifactStore.create` makes writers.

    Output that fits into `max_size` bytes is kept byte for byte. The file of a longer output has three parts: the first
    ``max_size - tail`` bytes, written at once; one marker line that starts with a line feed of its own,
    ``[anyshell: 123 bytes were left out here, as an artifact keeps at most 67108864]``; and the last `tail` bytes,
    which wait in memory until the end. `tail` is 4 MiB, or a sixteenth of `max_size` if that is less.

    A writer is not for several threads at once. Its memory never grows past the tail, one chunk and 64 KiB.
    """

    def __init__(self, fd: int, artifact_id: str, part: Path, max_size: int) -> None:
        self.id = artifact_id
        self._fd = fd  # -1 once it is closed
        self._part = part
        self._max_size = max_size
        self._tail = min(_TAIL, max_size // 16)
        self._room = max_size - self._tail  # bytes that the head can still take
        self._size = 0  # bytes on disk
        self._chunks: deque[bytes] = deque()  # whole chunks after the head
        self._small = bytearray()  # small chunks after `_chunks`, in one piece
        self._held = 0  # bytes in _chunks
        self._omitted = 0
        self._tail_at = 0  # where the tail begins in the finished file
        self._artifact: Artifact | None = None

    def write(self, data: bytes) -> None:
        """Add bytes to the artifact. Once the head is full, the call does not touch the disk.

        `data` is then copied only if shorter than 4 KiB or longer than the tail.

        Raises:
            OSError: The write failed. The file is already removed, and the writer is closed.
            ValueError: The writer is closed.
        """
        if self._fd < 0:
            raise ValueError("the artifact is closed: it was finished, discarded, or failed")
        if self._room:
            data = self._fill_head(data)
        if len(data) >= _SMALL:
            if self._small:
                self._gather()
            self._hold(data)
        elif data:
            self._small += data
            if len(self._small) >= _BLOCK:
                self._gather()

    def finish(self) -> Artifact:
        """Write the tail, close the file and give the file its final name. Later calls return the same artifact again.

        Raises:
            OSError: A write failed, or another process removed the file. No part of the file remains.
            ValueError: The writer was discarded, or failed before.
        """
        if self._artifact is not None:
            return self._artifact
        if self._fd < 0:
            raise ValueError("the artifact is closed: it was discarded, or failed")
        path = self._part.with_suffix(".out")
        try:
            self._write_tail()
            # The age counts from here: a command that was silent for a week must not lose its output at once. The time is set
            # before the file is closed, since a closed file has no lock that keeps other processes from removing the file.
            os.utime(self._part)
            fd, self._fd = self._fd, -1
            os.close(fd)
            _patiently(lambda: os.rename(self._part, path))
        except BaseException:
            self.discard()
            raise
        self._artifact = Artifact(self.id, path, self._size, self._omitted)
        return self._artifact

    def read(self, offset: int, length: int) -> tuple[int, bytes]:
        """Read kept bytes of the output, finished or not.

        Args:
            offset: Bytes of the output to skip; 0 or more.
            length: Bytes to read at most; fewer come back where the head or the tail ends.

        Returns:
            The offset of the bytes, which is later than `offset` where the middle was left out, and the bytes.

        Raises:
            OSError: The file cannot be read; the file may have been pruned.
            ValueError: The writer was discarded, or failed.
        """
        if self._fd < 0 and self._artifact is None:
            raise ValueError("the artifact is closed: it was discarded, or failed")
        head = self._max_size - self._tail - self._room
        if offset < head:
            return offset, self._read_file(offset, min(length, head - offset))
        tail = head + self._omitted
        start = max(offset, tail)
        if self._artifact is not None:
            return start, self._read_file(self._tail_at + start - tail, length)
        found = bytearray()
        skip = start - tail
        chunks: tuple[bytes | bytearray, ...] = (*self._chunks, self._small)
        for chunk in chunks:
            if len(found) >= length:
                break
            found += memoryview(chunk)[skip : skip + length - len(found)]
            skip = max(0, skip - len(chunk))
        return start, bytes(found)

    def discard(self) -> None:
        """Close and remove the file. Does nothing to a finished or discarded artifact; never raises."""
        if self._artifact is not None:
            return
        fd, self._fd = self._fd, -1
        if fd >= 0:
            with suppress(OSError):
                os.close(fd)
        self._drop_tail()
        with suppress(OSError):  # gone already
            _patiently(lambda: os.unlink(self._part))

    def _read_file(self, at: int, length: int) -> bytes:
        path = self._part if self._artifact is None else self._artifact.path
        with open(os.open(path, _READ_FLAGS), "rb") as file:
            file.seek(at)
            return file.read(length)

    def _fill_head(self, data: bytes) -> bytes:
        """Write the bytes that fit into the head; return the rest."""
        head = min(self._room, len(data))
        try:
            self._write_all(data if head == len(data) else data[:head])
        except BaseException:
            self.discard()
            raise
        self._room -= head
        return data[head:]

    def _hold(self, data: bytes) -> None:
        excess = len(data) - self._tail
        if excess > 0:
            data = data[excess:]
            self._omitted += excess
        self._chunks.append(data)
        self._held += len(data)
        while self._held - len(self._chunks[0]) >= self._tail:
            dropped = len(self._chunks.popleft())
            self._held -= dropped
            self._omitted += dropped
            if not self._chunks:
                break

    def _gather(self) -> None:
        data = bytes(self._small)
        self._small.clear()
        self._hold(data)

    def _write_tail(self) -> None:
        self._gather()
        excess = self._held - self._tail
        if excess > 0:
            self._chunks[0] = self._chunks[0][excess:]
            self._omitted += excess
        if self._omitted:
            self._write_all(
                f"\n[anyshell: {self._omitted} bytes were left out here,"
                f" as an artifact keeps at most {self._max_size}]\n".encode()
            )
        self._tail_at = self._size
        for chunk in self._chunks:
            self._write_all(chunk)
        self._drop_tail()

    def _drop_tail(self) -> None:
        self._chunks.clear()
        self._small.clear()
        self._held = 0

    def _write_all(self, data: bytes) -> None:
        written = os.write(self._fd, data)
        while written < len(data):  # a disk that is nearly full takes a part first
            written += os.write(self._fd, memoryview(data)[written:])
        self._size += written


def _new_id() -> str:
    """Return a new id such as ``20261120-051200-a1b2c3d4``: the time in UTC, for sorting, and a part that cannot be guessed."""
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{os.urandom(4).hex()}"


def _not_found(artifact_id: str) -> ArtifactNotFound:
    return ArtifactNotFound(
        f"no kept output has the id {artifact_id[:60]!r}: it was pruned, or never was;"
        " `anyshell artifacts list` shows those that there are"
    )


def _checked(max_age: Seconds, max_total: int) -> float:
    oldest = max_age if isinstance(max_age, int | float) else max_age.total_seconds()
    if not (oldest >= 0 and max_total >= 0):  # this form refuses NaN too
        raise ValueError(f"max_age and max_total must be 0 or more, not {max_age!r} and {max_total!r}")
    return oldest


def _lock(fd: int, *, shared: bool = False) -> None:
    """Lock an open file: other processes see that the file is written or read, until the file is closed."""
    if _locks is not None:
        with suppress(OSError):  # a file system without locks; age alone decides then
            _locks.flock(fd, (_locks.LOCK_SH if shared else _locks.LOCK_EX) | _locks.LOCK_NB)


def _is_abandoned(part: Path, stale: float) -> bool:
    """Whether a file has no living writer. Age alone does not tell: a background command may be silent for days."""
    if _locks is None:
        return True  # on Windows, the removal of an open file fails
    try:
        fd = os.open(part, _READ_FLAGS)
    except OSError:
        return False
    try:
        _locks.flock(fd, _locks.LOCK_SH | _locks.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    else:
        # Checked again under the lock: the writer may have finished just now, and renames the file next.
        return os.fstat(fd).st_mtime < stale
    finally:
        os.close(fd)


def _remove_unread(path: Path) -> bool:
    """Remove a file that no reader has open. A reader that opens the file at this moment can still read all bytes."""
    if _locks is None:
        return _remove(path)  # on Windows, the removal of an open file fails
    try:
        fd = os.open(path, _READ_FLAGS)
    except OSError:
        return _remove(path)
    try:
        _locks.flock(fd, _locks.LOCK_EX | _locks.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        pass
    else:
        return _remove(path)
    finally:
        os.close(fd)
    return _remove(path)


def _patiently(work: Callable[[], None]) -> None:
    """Retry work that Windows refuses while another program, such as a scanner, has the file open; give up soon."""
    for pause in () if hasattr(os, "geteuid") else _PAUSES:
        try:
            work()
        except PermissionError:
            time.sleep(pause)
        else:
            return
    work()


def _remove(path: Path) -> bool:
    try:
        os.unlink(path)
    except OSError:  # gone already, or open on Windows
        return False
    return True
