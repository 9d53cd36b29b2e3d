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

    The event loop never waits for a disk. What only looks (`stat`, `list`, `read`) is abandoned at once when
    cancelled. What changes something is waited for, so that nothing of it goes on after control returned:
    a cancelled call has happened whole or not at all.

    Files that are neither regular nor directories (pipes, devices, sockets) can be described, renamed and
    removed, but neither read nor written: opening one may block for ever, or do more than open. That is an
    `OSError` with ``EINVAL``.
    """

    async def stat(self, path: str, *, follow: bool = True) -> FileStat:
        """Describe a file; the link itself when `follow` is false."""
        return await in_a_worker(partial(_stat, path, follow), abandon_on_cancel=True)

    async def list(self, path: str) -> Sequence[FileEntry]:
        """Name what is in a directory and tell its kinds, in no order, without ``.`` and ``..``.

        A name that is no text in the file system's encoding comes as `os.fsdecode` makes it, and is
        understood when it is given back.
        """
        return await in_a_worker(partial(_list, path), abandon_on_cancel=True)

    async def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        """Read a file or a range of it, in bytes. Fewer come back where the file ends.

        A file that is replaced meanwhile is read as it was.
        """
        stop = threading.Event()
        try:
            return await in_a_worker(partial(_read, path, offset, length, stop), abandon_on_cancel=True)
        finally:
            stop.set()

    async def write(self, path: str, data: bytes, *, append: bool = False) -> None:
        """Append to a file, or replace it atomically: a reader sees the old or the new, never a half.

        A new file gets the permissions that the umask leaves; a replaced one keeps its permission bits and,
        where this user may set them, its owner and group. Extended attributes and hard links are not carried
        over. A link stays, and what it points to is written. A file without write permission is refused, as
        opening it would be.

        When it fails or is cancelled, the old content stays and no temporary file does. Only an append that
        fails (no space left) may have written its beginning. It is atomic for readers, not across a power
        cut: nothing is forced to the disk.
        """
        if append:
            await _to_the_end(partial(_append, path, data))
        else:
            await _to_the_end(partial(_replace, path, data))

    async def mkdir(self, path: str, *, parents: bool = False, exist_ok: bool = False) -> None:
        """Make a directory, and those above it if asked.

        Raises:
            FileExistsError: It exists and `exist_ok` is false, or what exists is no directory.
        """
        await _to_the_end(lambda _: _mkdir(path, parents, exist_ok))

    async def remove(self, path: str, *, recursive: bool = False) -> None:
        """Remove a file, a link or an empty directory; a whole tree if asked, never following links.

        Like rm, it refuses ``.`` and ``..`` as the last part of a path (``EINVAL``), and a separator at the
        end does not turn a link into what it points to. A removal that has begun is not cut short.
        """
        await _to_the_end(partial(_remove, path, recursive))

    async def rename(self, source: str, target: str) -> None:
        """Give a file another name, replacing a file that has it."""
        await _to_the_end(partial(_rename, source, target))

    async def readlink(self, path: str) -> str:
        """Tell what a link points to, exactly as the link has it. ``EINVAL`` when it is no link."""
        return await in_a_worker(partial(_readlink, path), abandon_on_cancel=True)

    async def symlink(self, target: str, path: str) -> None:
        """Make a link at `path` that points to `target`. Never replaces what is there.

        On Windows it may need a privilege that the user does not have.
        """
        await _to_the_end(lambda _: _symlink(target, path))

    async def chmod(self, path: str, mode: int) -> None:
        """Give a file or a directory exactly these permission bits; on Windows, read-only or not."""
        await _to_the_end(lambda _: _chmod(path, mode))

    async def set_modified(self, path: str, modified: float) -> None:
        """Say when a file or a directory was changed last."""
        await _to_the_end(lambda _: _set_modified(path, modified))

    async def read_chunks(self, path: str) -> AsyncGenerator[bytes, None]:
        """Read a whole file, a mebibyte at a time.

        A file that is replaced meanwhile is read as it was.
        """
        opened: list[FileIO] = []  # filled also when we are cancelled while it is opened
        try:
            await _to_the_end(lambda stop: opened.append(_open(path, stop)))
            file = opened[0]
            while chunk := await _to_the_end(lambda _: _read_some(path, file)):
                yield chunk
        finally:
            for file in opened:
                file.close()

    async def write_chunks(self, path: str, chunks: AsyncIterable[bytes], *, mode: int) -> None:
        """Make a new file of pieces as they come, with exactly these permission bits; whole or not at all."""
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
    """The work noticed that it was cancelled."""


def _heed(stop: threading.Event) -> None:
    if stop.is_set():
        raise _Stopped


async def _to_the_end(work: Callable[[threading.Event], T]) -> T:
    """Run in a worker thread what changes something; when cancelled, ask it to stop and wait until it has.

    anyio's own waiting gives up when the task is cancelled by asyncio's means (``asyncio.timeout``,
    ``Task.cancel``), and the thread would go on writing behind the caller's back.
    """
    await checkpoint_if_cancelled()
    stop = threading.Event()

    def unless_stopped() -> T:
        _heed(stop)  # it may have waited for a free thread
        return work(stop)

    return await to_the_end(in_a_worker(unless_stopped), stop.set)


async def _discard(path: str) -> None:
    """Remove what was not finished, as far as that can be done."""
    try:
        os.unlink(system.native(path))  # quick, and nothing may come between
    except PermissionError:  # another program has it open, on Windows
        with contextlib.suppress(OSError):
            await to_the_end(in_a_worker(partial(system.remove_file, system.native(path))), lambda: None)
    except OSError:
        pass


@contextlib.contextmanager
def _naming(path: str) -> Iterator[None]:
    """Put the caller's path into every error: some system calls name none, others the temporary file."""
    try:
        yield
    except OSError as error:
        if error.filename == path and error.filename2 is None:
            raise
        raise _named(error, path) from error


def _named(error: OSError, *paths: str) -> OSError:
    """The same error, of other paths."""
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
            # Where a file is listed, not every system has the same error for it.
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
    """Put small pieces together: each turn in a thread costs as much as writing many kilobytes."""
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
        file.close()  # which may be where a network file system says that it is full


def _regular(path: str) -> os.stat_result:
    """Describe a regular file; refuse any other before it is opened."""
    with _naming(path):
        status = os.stat(system.native(path))
    if stat.S_ISDIR(status.st_mode):
        # Said here, because opening a directory is a PermissionError on Windows.
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "Not a regular file", path)
    return status


def _read(path: str, offset: int, length: int | None, stop: threading.Event) -> bytes:
    with _open(path, stop) as file, _naming(path):
        file.seek(offset)
        chunks: list[bytes] = []
        missing = length
        # Until end-of-file, not up to the size: files of /proc have content and say 0.
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
        # One call where the system takes it whole: then appends from elsewhere come before or after it.
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
            # A rename asks the directory alone, and would overwrite what its owner has protected.
            system.require_writable(given, stop)
        if os.path.islink(given):
            target = os.path.realpath(given)
        else:
            target = given if old is None else system.named(given)
        temporary = system.native(
            os.path.join(os.path.dirname(target), f".anyshell-{os.urandom(8).hex()}.tmp")
        )
        # The replacement of a file that may be secret is this user's alone until it has that file's permissions.
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
        raise _named(error, plain) from error  # which may be far below what was asked for
