"""Outputs kept whole, in files, because their text had to be bounded.

One directory, one file each: ``<id>.part`` while it is written, ``<id>.out`` from then on. Any number of
processes may share the directory: a file can be gone at any moment, and nothing here is surprised by that.
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
"""Seconds that a file is kept which a dead process left half written."""
_PRUNE_EVERY = 60.0
"""Seconds between two removals of artifacts that are too old or too many."""
_TAIL = 4 * 1024 * 1024
"""Bytes of the end of an output longer than ``max_size`` that are kept too; at most a sixteenth of ``max_size``."""
_SMALL = 4 * 1024
"""Bytes below which a piece of that end is copied: its object would weigh as much as its bytes."""
_BLOCK = 64 * 1024
"""Bytes of a block into which such small pieces are copied."""
_PAUSES = (0.001, 0.004, 0.015, 0.06, 0.12)
"""Seconds between two attempts at an artifact that another program has open on Windows; after the last it is an error."""

# What a platform does not have, it does not need: Windows does not let every user make links, and no link is made in a
# directory that is its user's alone. O_BINARY is for Windows alone.
_COMMON_FLAGS = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_CLOEXEC", "O_NOINHERIT", "O_BINARY"))
_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _COMMON_FLAGS
_READ_FLAGS = os.O_RDONLY | _COMMON_FLAGS
_REFUSAL = (
    "the directory for artifacts is refused: {fault}; set ANYSHELL_STATE_DIR to a directory of your own"
)

LONGEST_VIEW = 1024 * 1024
"""Bytes of a kept output that `ArtifactStore.view` returns, unless more are asked for; its note names the next part."""

_locks: Any
try:
    _locks = importlib.import_module("fcntl")
except ImportError:  # Windows, where an open file cannot be removed anyway
    _locks = None


@dataclass(frozen=True, slots=True)
class ArtifactEntry:
    """A kept output, as it lies in the directory.

    Attributes:
        id: The id for `ArtifactStore.path`.
        path: The file: raw bytes.
        size: Its size in bytes.
        modified: When it was finished, in seconds since the epoch.
    """

    id: str
    path: Path
    size: int
    modified: float


@dataclass(frozen=True, slots=True)
class ArtifactView:
    """A part of a kept output.

    Attributes:
        data: Raw bytes; of a search, lines as ``grep -n`` shows them.
        note: One sentence: which part it is, of how much, and what was left out.
        next: The address of what was left out; ``None`` when nothing was.
    """

    data: bytes
    note: str
    next: str | None


class ArtifactStore:
    """The directory of kept outputs. Making one touches nothing on disk.

    The directory and its missing parents are made with the first artifact, for their owner alone. One that is
    a link, belongs to another user or can be written by others is refused, for reading too: what lies in it
    need not be what was kept.

    Args:
        directory: The directory of the files. ``None`` is ``artifacts`` below ``$ANYSHELL_STATE_DIR``, or below the
            user's own state directory when that variable is unset or empty; looked up at the first use.
        max_age: Seconds after which an artifact may be removed; zero or more.
        max_total: Bytes that all finished artifacts may have together; zero or more.
        max_size: Bytes of output that one artifact keeps; at least 1.

    Raises:
        ValueError: A limit is out of its range, or the directory is no path.
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
            raise ValueError(f"the directory {directory!r} is no path: it holds a NUL or a lone surrogate")
        self._directory = None if directory is None else directory.absolute()
        self._prune_after = -1.0  # on time.monotonic()'s clock

    @property
    def directory(self) -> Path:
        """The directory of the files; absolute. It need not exist."""
        if self._directory is None:
            self._directory = state_directory("artifacts").absolute()
        return self._directory

    def create(self) -> ArtifactWriter:
        """Start an artifact. At most once a minute, this also prunes.

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
        """Every finished artifact, newest first; empty when there is no directory.

        Raises:
            OSError: The directory cannot be read, or is not ours alone.
        """
        return sorted(self._scan(".out"), key=lambda entry: (entry.modified, entry.id), reverse=True)

    def get(self, artifact_id: str) -> ArtifactEntry:
        """Find one artifact.

        Raises:
            ArtifactNotFound: No artifact has that id, or it is no id at all; no such path is ever looked at.
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
        """The path of an artifact's file. Raises what `get` raises."""
        return self.get(artifact_id).path

    def read(self, artifact_id: str, *, offset: int = 0, length: int | None = None) -> bytes:
        """Read from an artifact.

        Args:
            artifact_id: The id of the artifact.
            offset: Bytes to skip; past the end, there is nothing to read.
            length: Bytes to read at most; ``None`` is all that follows.

        Raises:
            ArtifactNotFound: As in `get`.
            OSError: It cannot be read.
            ValueError: A number is negative.
        """
        if offset < 0 or (length is not None and length < 0):
            raise ValueError(f"offset and length must be 0 or more, not {offset!r} and {length!r}")
        with self.open(artifact_id) as file:
            file.seek(offset)
            return file.read(-1 if length is None else length)

    def open(self, artifact_id: str) -> BinaryIO:
        """Open an artifact, to be read. It is not pruned, by any process, until the file is closed.

        Raises:
            ArtifactNotFound: As in `get`.
            OSError: It cannot be read.
        """
        path = self.path(artifact_id)
        try:
            fd = os.open(path, _READ_FLAGS)
        except FileNotFoundError:  # pruned since
            raise _not_found(artifact_id) from None
        _lock(fd, shared=True)
        return builtins.open(fd, "rb", buffering=_BLOCK)

    def view(self, address: str | ArtifactAddress, *, limit: int | None = LONGEST_VIEW) -> ArtifactView:
        """Read a part of an artifact, in bounded memory.

        Args:
            address: Such as ``artifact://ID?lines=100-200``, with or without ``artifact://``.
            limit: Bytes that are returned, at most; 1 or more; ``None`` is all of the part.

        Raises:
            InvalidCommand: It is no such address, or the output is shorter than where the part begins.
            ArtifactNotFound: As in `get`.
            OSError: It cannot be read.
            ValueError: `limit` is out of its range.
        """
        if limit is not None and limit < 1:
            raise ValueError(f"limit must be 1 byte or more, not {limit!r}")
        from .selection import ArtifactAddress, PartReading  # here, since few programs read a part

        place = ArtifactAddress.parse(address) if isinstance(address, str) else address
        with self.open(place.id) as file:
            reading = PartReading(file, place, limit=limit)
            data = b"".join(reading.pieces())
        return ArtifactView(data, reading.note, reading.next)

    def prune(self, *, max_age: Seconds | None = None, max_total: int | None = None) -> builtins.list[str]:
        """Remove what is too old, then the oldest until the rest fits.

        What is being written, by any process, is neither removed nor counted. What is being read by `open`, `read` or
        `view`, by any process, is counted and not removed. What a dead process left half
        written is removed a day after its last byte.

        Args:
            max_age: Seconds, zero or more; ``None`` is the store's own.
            max_total: Bytes, zero or more; ``None`` is the store's own.

        Returns:
            The ids that this call removed: finished ones first, the oldest before the others. A file that
            cannot be removed is left.

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
            total -= entry.size  # also when it cannot be removed: no newer one shall pay for it
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
                        # On Windows, scandir's own numbers are late for a file that is open.
                        status = os.lstat(file.path)
                        if stat.S_ISREG(status.st_mode):
                            found.append(
                                ArtifactEntry(artifact_id, Path(file.path), status.st_size, status.st_mtime)
                            )
        except FileNotFoundError:
            return []
        return found


class ArtifactWriter:
    """One artifact being written; `ArtifactStore.create` makes it.

    Output that fits into `max_size` bytes is kept byte for byte. Of a longer one, the file holds the first
    ``max_size - tail`` bytes, written as they come; one marker line that starts with a line feed of its own,
    ``[anyshell: 123 bytes were left out here, as an artifact keeps at most 67108864]``; and the last `tail` bytes,
    which wait in memory until the end. `tail` is 4 MiB, or a sixteenth of `max_size` when that is less.

    Not for several threads at once. Memory never grows past the tail, one chunk and 64 KiB.
    """

    def __init__(self, fd: int, artifact_id: str, part: Path, max_size: int) -> None:
        self.id = artifact_id
        self._fd = fd  # -1 once it is closed
        self._part = part
        self._max_size = max_size
        self._tail = min(_TAIL, max_size // 16)
        self._room = max_size - self._tail  # bytes that the head can still take
        self._size = 0  # bytes on disk
        self._chunks: deque[bytes] = deque()  # what came after the head, whole chunks
        self._small = bytearray()  # and after these, small chunks in one piece
        self._held = 0  # bytes in _chunks
        self._omitted = 0
        self._tail_at = 0  # where the tail begins in the finished file
        self._artifact: Artifact | None = None

    def write(self, data: bytes) -> None:
        """Add to the artifact. Once the head is full, this neither copies `data` nor touches the disk.

        Raises:
            OSError: The disk did not take it. The file is already removed, and the writer is closed.
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
        """Write the tail, close the file and give it its final name. Later calls return the same again.

        Raises:
            OSError: The disk did not take it, or another process removed the file. Nothing of it is left.
            ValueError: The writer was discarded, or failed before.
        """
        if self._artifact is not None:
            return self._artifact
        if self._fd < 0:
            raise ValueError("the artifact is closed: it was discarded, or failed")
        path = self._part.with_suffix(".out")
        try:
            self._write_tail()
            # Age counts from here: a command that was silent for a week must not lose its output at once.
            # Before the file is closed, since then nothing else keeps others from removing it.
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
        """Read some of what is kept, finished or not.

        Args:
            offset: Bytes of the output to skip; 0 or more.
            length: Bytes to read at most; fewer come back where the head or the tail ends.

        Returns:
            The offset of what was read, which is a later one where the middle was left out, and the bytes.

        Raises:
            OSError: The file cannot be read; it may have been pruned.
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
        """Close and remove the file. Does nothing to one that is finished or discarded; never raises."""
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
        """Write as much as the head takes; return the rest."""
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
    """A new id such as ``20261120-051200-a1b2c3d4``, in UTC: sorts by time, and cannot be guessed from it."""
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{os.urandom(4).hex()}"


def _not_found(artifact_id: str) -> ArtifactNotFound:
    return ArtifactNotFound(
        f"no kept output has the id {artifact_id[:60]!r}: it was pruned, or never was;"
        " `anyshell artifacts list` shows those that there are"
    )


def _checked(max_age: Seconds, max_total: int) -> float:
    oldest = max_age if isinstance(max_age, int | float) else max_age.total_seconds()
    if not (oldest >= 0 and max_total >= 0):  # so written, it refuses NaN too
        raise ValueError(f"max_age and max_total must be 0 or more, not {max_age!r} and {max_total!r}")
    return oldest


def _lock(fd: int, *, shared: bool = False) -> None:
    """Say to every other process that the file is being written, or read, for as long as it is open."""
    if _locks is not None:
        with suppress(OSError):  # a file system without locks; age alone decides then
            _locks.flock(fd, (_locks.LOCK_SH if shared else _locks.LOCK_EX) | _locks.LOCK_NB)


def _is_abandoned(part: Path, stale: float) -> bool:
    """Whether no writer lives, however long ago it wrote: a background command may be silent for days."""
    if _locks is None:
        return True  # and removing it fails while it is open
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
        # Asked again under the lock: its writer may have finished just now, before giving it its name.
        return os.fstat(fd).st_mtime < stale
    finally:
        os.close(fd)


def _remove_unread(path: Path) -> bool:
    """Remove a file that no reader has open. A reader that opens it at this moment has all of it still."""
    if _locks is None:
        return _remove(path)  # which fails while it is open
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
    """Do what Windows refuses as long as another program, such as a scanner, has the file open; give up soon."""
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
