"""The files of this machine: `LocalFiles`, where every call runs in a worker thread."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
import threading
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from anyio.lowlevel import checkpoint_if_cancelled

from anyshell._types import FileEntry, FileStat
from anyshell._waits import in_a_worker, to_the_end

if sys.platform == "win32":
    from .windows import files as system
else:
    from .posix import files as system

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterator, Sequence
    from io import FileIO

    from anyshell.abc import Files

T = TypeVar("T")

_CHUNK = 1024 * 1024
"""Bytes of a file of this machine that are read or written at once."""
_SEPARATORS = os.sep + (os.altsep or "")


class LocalFiles:
    """The files of this machine.

    The event loop never waits for a disk. A cancelled call that only reads (`stat`, `list`, `read`) is abandoned at
    once. A cancelled call that changes something is awaited, and has then happened completely or not at all. No change
    goes on after control has returned.

    Files that are neither regular nor directories (pipes, devices, sockets) can be described, renamed and
    removed, but neither read nor written: the attempt is an `OSError` with ``EINVAL``. Opening a pipe or a device may
    block for ever, or have side effects.
    """

    async def stat(self, path: str, *, follow: bool = True) -> FileStat:
        """Describe a file; the link itself when `follow` is false."""
        return await in_a_worker(partial(_stat, path, follow), abandon_on_cancel=True)

    async def list(self, path: str) -> Sequence[FileEntry]:
        """List the names and kinds of a directory's entries, in no order, without ``.`` and ``..``.

        A name that is not valid in the file system's encoding is returned as `os.fsdecode` decodes the name. All methods
        accept a name in that form.
        """
        return await in_a_worker(partial(_list, path), abandon_on_cancel=True)

    async def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        """Read a file, or a range of its bytes. Fewer bytes are returned where the file ends.

        If the file is replaced meanwhile, the old content is read.
        """
        stop = threading.Event()
        try:
            return await in_a_worker(partial(_read, path, offset, length, stop), abandon_on_cancel=True)
        finally:
            stop.set()

    async def write(self, path: str, data: bytes, *, append: bool = False) -> None:
        """Append to a file, or replace a file atomically: a reader sees the old or the new content, never a mixture.

        A new file gets the permissions that the umask leaves. A replaced file keeps its permission bits and,
        where this user may set them, its owner and group. Extended attributes and hard links are not carried
        over. A symbolic link stays, and its target is written. A file without write permission is refused, as
        opening that file would be.

        When a write fails or is cancelled, the old content stays and no temporary file remains. Only an append that
        fails (no space left) may have written the beginning of `data`. A write is atomic for readers, but not across a
        power cut: nothing is forced to the disk.
        """
        if append:
            await _to_the_end(partial(_append, path, data))
        else:
            await _to_the_end(partial(_replace, path, data))

    async def mkdir(self, path: str, *, parents: bool = False, exist_ok: bool = False) -> None:
        """Make a directory; with `parents`, also the missing directories above the directory.

        Raises:
            FileExistsError: The path exists and `exist_ok` is false, or the path exists and is not a directory.
        """
        await _to_the_end(lambda _: _mkdir(path, parents, exist_ok))

    async def remove(self, path: str, *, recursive: bool = False) -> None:
        """Remove a file, a link or an empty directory; with `recursive`, a whole tree. Links are never followed.

        As with rm, ``.`` and ``..`` are refused as the last part of a path (``EINVAL``). A separator at the end of a link's
        path does not mean the link's target. A removal that has begun is not cut short.
        """
        await _to_the_end(partial(_remove, path, recursive))

    async def rename(self, source: str, target: str) -> None:
        """Rename a file, replacing an existing file of the new name."""
        await _to_the_end(partial(_rename, source, target))

    async def readlink(self, path: str) -> str:
        """Return the target of a link, exactly as stored in the link. ``EINVAL`` if the path is not a link."""
        return await in_a_worker(partial(_readlink, path), abandon_on_cancel=True)

    async def symlink(self, target: str, path: str) -> None:
        """Make a symbolic link at `path` that points to `target`. An existing file at `path` is never replaced.

        On Windows, making a link may need a privilege that the user does not have.
        """
        await _to_the_end(lambda _: _symlink(target, path))

    async def chmod(self, path: str, mode: int) -> None:
        """Set the permission bits of a file or a directory to exactly `mode`; on Windows, read-only or not."""
        await _to_the_end(lambda _: _chmod(path, mode))

    async def set_modified(self, path: str, modified: float) -> None:
        """Set the modification time of a file or a directory."""
        await _to_the_end(lambda _: _set_modified(path, modified))

    async def read_chunks(self, path: str) -> AsyncGenerator[bytes, None]:
        """Read a whole file, one mebibyte at a time.

        If the file is replaced meanwhile, the old content is read.
        """
        opened: list[FileIO] = []  # filled also when this task is cancelled during the opening
        try:
            await _to_the_end(lambda stop: opened.append(_open(path, stop)))
            file = opened[0]
            while chunk := await _to_the_end(lambda _: _read_some(path, file)):
                yield chunk
        finally:
            for file in opened:
                file.close()

    async def write_chunks(self, path: str, chunks: AsyncIterable[bytes], *, mode: int) -> None:
        """Write a new file from chunks as the chunks arrive, with exactly the permission bits `mode`; completely or not at all."""
        opened: list[FileIO] = []
        try:
            try:
                await _to_the_end(lambda stop: opened.append(_create(path, stop)))
                file = opened[0]
                async with contextlib.aclosing(_gathered(chunks)) as pieces:
                    async for gathered in pieces:
                        await _to_the_end(partial(_write_some, path, file, gathered))
                await _to_the_end(lambda _: _finish(path, file, mode))
            finally:
                for file in opened:
                    file.close()
        except BaseException:
            if opened:
                await _discard(path)
            raise


if TYPE_CHECKING:
    _keeps_protocol: type[Files] = LocalFiles


class _Stopped(Exception):  # noqa: N818 - no error, and never leaves this module
    """The work in the worker thread noticed the request to stop."""


def _heed(stop: threading.Event) -> None:
    if stop.is_set():
        raise _Stopped


async def _to_the_end(work: Callable[[threading.Event], T]) -> T:
    """Run a change in a worker thread; when cancelled, ask the work to stop and wait for its end.

    anyio's own wait is abandoned when asyncio cancels the task (``asyncio.timeout``, ``Task.cancel``). The thread would
    then go on writing after control has returned.
    """
    await checkpoint_if_cancelled()
    stop = threading.Event()

    def unless_stopped() -> T:
        _heed(stop)  # the stop may have come while the work waited for a free thread
        return work(stop)

    return await to_the_end(in_a_worker(unless_stopped), stop.set)


async def _discard(path: str) -> None:
    """Remove an unfinished file, if possible."""
    try:
        # In the event loop, because the call is quick, and no other task may run before it.
        os.unlink(system.native(path))
    except PermissionError:  # on Windows, another program has the file open
        with contextlib.suppress(OSError):
            await to_the_end(in_a_worker(partial(system.remove_file, system.native(path))), lambda: None)
    except OSError:
        pass


@contextlib.contextmanager
def _naming(path: str) -> Iterator[None]:
    """Put the caller's path into every error. Some system calls name no path, others the temporary file's."""
    try:
        yield
    except OSError as error:
        if error.filename == path and error.filename2 is None:
            raise
        raise _named(error, path) from error


def _named(error: OSError, *paths: str) -> OSError:
    """Return the same error with other paths."""
    if sys.platform == "win32":
        return OSError(error.errno, error.strerror, paths[0], error.winerror, *paths[1:])
    return OSError(error.errno, error.strerror, paths[0], None, *paths[1:])


def _stat(path: str, follow: bool) -> FileStat:
    with _naming(path):
        status = os.stat(system.native(path), follow_symlinks=follow)
    return FileStat(
        kind=system.kind(status),
        size=status.st_size,
        mode=stat.S_IMODE(status.st_mode),
        modified=status.st_mtime,
    )


def _list(path: str) -> Sequence[FileEntry]:
    with _naming(path):
        try:
            with os.scandir(system.native(path)) as entries:
                return [FileEntry(entry.name, system.entry_kind(entry)) for entry in entries]
        except NotADirectoryError:
            raise
        except OSError as error:
            # Listing a file that is not a directory fails with different errors on different systems.
            if not stat.S_ISDIR(os.stat(system.native(path)).st_mode):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path) from error
            raise


def _rename(source: str, target: str, stop: threading.Event) -> None:
    old, new = system.native(source), system.native(target)
    try:
        system.move(old, new, stop)
    except OSError as error:
        if error.filename == new:
            raise _named(error, target) from error
        raise _named(error, source, target) from error


def _readlink(path: str) -> str:
    with _naming(path):
        return system.read_link(system.native(path))


def _symlink(target: str, path: str) -> None:
    with _naming(path):
        system.make_link(target, system.native(path))


def _chmod(path: str, mode: int) -> None:
    with _naming(path):
        system.change_mode(system.native(path), mode)


def _set_modified(path: str, modified: float) -> None:
    with _naming(path):
        os.utime(system.native(path), (modified, modified))


def _open(path: str, stop: threading.Event) -> FileIO:
    _regular(path)
    with _naming(path):
        return open(system.open_to_read(system.native(path), stop), "rb", buffering=0)


def _read_some(path: str, file: FileIO) -> bytes:
    with _naming(path):
        return file.read(_CHUNK)


def _create(path: str, stop: threading.Event) -> FileIO:
    with _naming(path):
        return open(system.create(system.native(path), stop, private=True), "wb", buffering=0)


async def _gathered(chunks: AsyncIterable[bytes]) -> AsyncGenerator[Sequence[bytes], None]:
    """Gather small chunks: each call in a thread costs as much as writing many kilobytes."""
    gathered: list[bytes] = []
    size = 0
    async for chunk in chunks:
        gathered.append(chunk)
        size += len(chunk)
        if size >= _CHUNK:
            yield gathered
            gathered, size = [], 0
    if gathered:
        yield gathered


def _write_some(path: str, file: FileIO, chunks: Sequence[bytes], stop: threading.Event) -> None:
    with _naming(path):
        for chunk in chunks:
            rest = memoryview(chunk)
            while rest:
                _heed(stop)
                rest = rest[file.write(rest) :]


def _finish(path: str, file: FileIO, mode: int) -> None:
    with _naming(path):
        system.settle(file.fileno(), system.native(path), mode)
        file.close()  # a network file system may report only here that it is full


def _regular(path: str) -> os.stat_result:
    """Return the status of a regular file; refuse any other kind of file before it is opened."""
    with _naming(path):
        status = os.stat(system.native(path))
    if stat.S_ISDIR(status.st_mode):
        # Raised here, because opening a directory is a PermissionError on Windows.
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "Not a regular file", path)
    return status


def _read(path: str, offset: int, length: int | None, stop: threading.Event) -> bytes:
    with _open(path, stop) as file, _naming(path):
        file.seek(offset)
        chunks: list[bytes] = []
        missing = length
        # Read to end-of-file, not up to the size: files of /proc have content and report the size 0.
        while missing != 0 and not stop.is_set():
            chunk = file.read(_CHUNK if missing is None else min(_CHUNK, missing))
            if not chunk:
                break
            chunks.append(chunk)
            if missing is not None:
                missing -= len(chunk)
        return b"".join(chunks)


def _append(path: str, data: bytes, stop: threading.Event) -> None:
    with contextlib.suppress(FileNotFoundError):
        _regular(path)
    with _naming(path), open(system.open_to_append(system.native(path), stop), "wb", buffering=0) as file:
        # One call where the system takes all of `data` at once: appends of other programs come before or after all of `data`.
        rest = memoryview(data)
        while rest:
            rest = rest[file.write(rest) :]


def _replace(path: str, data: bytes, stop: threading.Event) -> None:
    try:
        old = _regular(path)
    except FileNotFoundError:
        old = None
    with _naming(path):
        given = system.native(path)
        if old is not None:
            # A rename checks only the directory's permissions, and would overwrite a file that its owner has protected.
            system.require_writable(given, stop)
        if os.path.islink(given):
            target = os.path.realpath(given)
        else:
            target = given if old is None else system.named(given)
        temporary = system.native(
            os.path.join(os.path.dirname(target), f".anyshell-{os.urandom(8).hex()}.tmp")
        )
        # The old file may be secret: only this user can read the replacement until it has the old file's permissions.
        file = open(system.create(temporary, stop, private=old is not None), "wb")  # noqa: SIM115 - closed below, before it is moved or removed
        try:
            with file:
                view = memoryview(data)
                for start in range(0, len(view), _CHUNK):
                    _heed(stop)
                    file.write(view[start : start + _CHUNK])
                if old is not None:
                    system.inherit(file.fileno(), temporary, old, target)
            _heed(stop)
            system.move(temporary, target, stop)
        except BaseException:
            with contextlib.suppress(OSError):
                system.remove_file(temporary)
            raise


def _mkdir(path: str, parents: bool, exist_ok: bool) -> None:
    make = os.makedirs if parents else os.mkdir
    with _naming(path):
        try:
            make(system.native(path))
        except FileExistsError:
            if not exist_ok or not os.path.isdir(system.native(path)):
                raise


def _remove(path: str, recursive: bool, stop: threading.Event) -> None:
    drive, tail = os.path.splitdrive(path)
    # The kernel follows a link whose name ends with a separator.
    path = drive + (tail.rstrip(_SEPARATORS) or tail)
    if os.path.basename(path) in (".", ".."):
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)
    given = system.native(path)
    try:
        if system.kind(os.lstat(given)) != "directory":
            system.remove_file(given, stop)
        elif recursive:
            system.remove_tree(given, stop)
        else:
            system.remove_directory(given, stop)
    except OSError as error:
        plain = system.plain(error.filename) if isinstance(error.filename, str) else path
        if plain == error.filename:
            raise
        raise _named(error, plain) from error  # the file that could not be removed may be far below `path`
