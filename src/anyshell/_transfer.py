"""The copy of a file or a directory between the `Files` of two hosts of any kind."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ntpath
import os
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeVar

from ._exceptions import InvalidCommand
from ._types import CopyProgress, CopyResult, FileStat
from ._types.windows_paths import fault_of
from ._waits import note_failure, to_the_end

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
    from types import ModuleType

    from .abc import Files

T = TypeVar("T")

AT_ONCE = 32
"""Files asked about at once by a glob or a copy."""
_FILES_AT_ONCE = 4
"""Files copied at once."""
_MAX_DEPTH = 1000
"""Directories inside each other that are copied; more is an error."""
_MAX_ENTRIES = 1_000_000
"""Entries of a directory that is copied; more is an error."""
_PROGRESS_SECONDS = 0.1
"""Seconds between two reports of a copy's progress, at least."""
_CLEANING_SECONDS = 10.0
"""Seconds for a copy that fails to remove its temporary file."""
_NO_FILE = "A copy replaces a file or a link, and no device, pipe or socket"


class OnProgress(Protocol):
    """A callback for the progress of a copy."""

    def __call__(self, progress: CopyProgress, /) -> object:
        """Handle one report, quickly: the copy waits. An exception raised here ends the copy, and passes through."""


@dataclass(frozen=True, slots=True)
class Place:
    """A path on a host.

    Attributes:
        files: The files of the host.
        rules: The module for the host's paths: ``posixpath`` or ``ntpath``.
        path: The absolute path. A separator at the end means a directory.
    """

    files: Files
    rules: ModuleType
    path: str

    def at(self, path: str) -> Place:
        """Return another path of the same host."""
        return Place(self.files, self.rules, path)

    def below(self, *names: str) -> str:
        """Return a path below this path."""
        joined: str = self.rules.join(self.path, *names)
        return joined

    @property
    def bare(self) -> str:
        """The path without separators at its end, unless it is a root."""
        drive, tail = self.rules.splitdrive(self.path)
        bare: str = drive + (tail.rstrip("/\\" if self.rules is ntpath else "/") or tail[:1])
        return bare


@dataclass(slots=True)
class _Plan:
    """The plan of a copy: paths as names below the top; the top itself is ``()``."""

    directories: list[tuple[tuple[str, ...], int]] = field(default_factory=list)
    files: list[tuple[tuple[str, ...], int, int]] = field(default_factory=list)
    times: dict[tuple[str, ...], float] = field(default_factory=dict)
    links: list[tuple[tuple[str, ...], str]] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)


async def copy(
    source: Place,
    target: Place,
    on_progress: OnProgress | None = None,
    *,
    into: bool = True,
    keep_times: bool = False,
) -> CopyResult:
    """Copy a file or a directory, with the guarantees of `HostFiles.upload`.

    Args:
        source: The path that is copied.
        target: The target of the copy.
        on_progress: Called with the progress of the copy.
        into: Whether the copy is put into a target that is an existing directory.
        keep_times: Whether files and new directories get the modification times of their sources.
    """
    return await to_the_end(_copy(source, target, on_progress, into=into, keep_times=keep_times))


async def _copy(
    source: Place, target: Place, on_progress: OnProgress | None, *, into: bool, keep_times: bool
) -> CopyResult:
    top = await source.files.stat(source.path)
    if top.kind not in ("file", "directory"):
        raise OSError(errno.EINVAL, "Neither a file nor a directory", source.path)
    target = await _destination(source, target, directory=top.kind == "directory", into=into)

    plan = _Plan()
    if top.kind == "directory":
        await _look(source, target.rules is ntpath, top.mode, plan)
    else:
        plan.files.append(((), top.size, top.mode))
    plan.times[()] = top.modified
    if not keep_times:
        plan.times.clear()
    return await _Copying(source, target, plan, on_progress, into=into).run()


async def _destination(source: Place, target: Place, *, directory: bool, into: bool) -> Place:
    """Return the destination: in an existing directory, under the source's name; otherwise `target` itself."""
    ends = target.path != target.bare
    target_kind = await _kind(target, follow=True)
    if target_kind == "directory" and directory and not into:
        return target
    if target_kind == "directory" and into:
        name = source.rules.basename(source.bare)
        if name in ("", ".", ".."):
            raise InvalidCommand(
                f"the source {source.path!r} has no name to use in {target.path!r}: give the source's path with its name"
            )
        _check(name, target.rules is ntpath, source.path)
        target = target.at(target.below(name))
    elif ends and not directory:
        number = errno.ENOENT if target_kind is None else errno.ENOTDIR
        raise OSError(number, os.strerror(number), target.path)
    else:
        target = target.at(target.bare)
    there = await _kind(target, follow=False)
    if directory and there not in (None, "directory"):
        raise NotADirectoryError(errno.ENOTDIR, "A directory does not replace a file", target.path)
    if not directory and there == "directory":
        raise IsADirectoryError(errno.EISDIR, "A file does not replace a directory", target.path)
    if there == "other":  # a rename over the target would remove /dev/null from root's machine
        raise OSError(errno.EINVAL, _NO_FILE, target.path)
    return target


async def _look(source: Place, windows: bool, mode: int, plan: _Plan) -> None:
    """Walk the source before anything is written: a name that the target cannot have refuses the whole copy."""
    left: list[tuple[tuple[str, ...], int]] = [((), mode)]
    seen = 0
    while left:
        names, mode = left.pop()
        plan.directories.append((names, mode))
        path = source.below(*names)
        if len(names) > _MAX_DEPTH:
            raise OSError(
                errno.ENAMETOOLONG, f"More than {_MAX_DEPTH} directories are inside each other", path
            )
        entries = await source.files.list(path)
        seen += len(entries)
        if seen > _MAX_ENTRIES:
            raise InvalidCommand(
                f"the directory {source.path!r} has more than {_MAX_ENTRIES} entries; copy it in parts"
            )
        known: set[str] = set()
        for entry in entries:
            _check(entry.name, windows, path)
            name = entry.name.casefold() if windows else entry.name
            if name in known:  # with a link and a directory of one name, the copy could leave the target
                raise OSError(errno.EEXIST, "Two entries of one directory would have the same name", path)
            known.add(name)
        links = [entry.name for entry in entries if entry.kind == "link"]
        targets = await for_each([source.below(*names, name) for name in links], source.files.readlink)
        for name, target in zip(links, targets, strict=True):
            if not target or "\0" in target:
                raise OSError(
                    errno.EINVAL, "The target of the link is not a path", source.below(*names, name)
                )
            plan.links.append(((*names, name), _translated(target, source.rules is ntpath, windows)))
        others = [entry for entry in entries if entry.kind in ("file", "directory")]
        plan.skipped += [source.below(*names, entry.name) for entry in entries if entry.kind == "other"]

        async def described(path: str) -> FileStat:
            return await source.files.stat(path, follow=False)

        found = await for_each([source.below(*names, entry.name) for entry in others], described)
        for entry, status in zip(others, found, strict=True):
            plan.times[*names, entry.name] = status.modified
            if status.kind == "directory":
                left.append(((*names, entry.name), status.mode))
            elif status.kind == "file":
                plan.files.append(((*names, entry.name), status.size, status.mode))
            else:  # another kind than in the listing
                plan.skipped.append(source.below(*names, entry.name))


def _translated(link: str, from_windows: bool, to_windows: bool) -> str:
    """Return a link's target with the separators of the target host. An absolute target leads nowhere there."""
    if from_windows == to_windows:
        return link
    return link.replace("/", "\\") if to_windows else link.replace("\\", "/")


def _check(name: str, windows: bool, directory: str) -> None:
    """Refuse a name that would lead out of the target, or that the target's host cannot have."""
    fault = None
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        fault = "it would be another path"
    elif windows:
        fault = fault_of(name)
    elif not name.isascii():
        try:
            name.encode(errors="surrogateescape")
        except UnicodeEncodeError:  # Windows allows unpaired surrogates
            fault = "it is not text"
    if fault:
        raise OSError(
            errno.EINVAL,
            f"The name {name[:80]!r} in this directory cannot be written at the target: {fault}",
            directory,
        )


class _Copying:
    """One copy under way."""

    def __init__(
        self, source: Place, target: Place, plan: _Plan, on_progress: OnProgress | None, *, into: bool
    ) -> None:
        self._source = source
        self._target = target
        self._plan = plan
        # Windows has no bits for other users and reports that every user may write; the bits do not tell which users may.
        self._bits = 0o755 if source.rules is ntpath else 0o777
        self._on_progress = on_progress
        self._into = into
        self._reported = float("-inf")
        self._path = ""
        self._bytes = 0
        self._bytes_total = sum(size for _, size, _ in plan.files)
        self._done = 0
        self._made = 0

    async def run(self) -> CopyResult:
        self._report(now=True)
        self._reported = float("-inf")  # report the first bytes at once
        made = await self._make_directories()
        await self._copy_files()
        # Links come last, so that no file is written through a link of this copy.
        for names, target in self._plan.links:
            await self._link(names, target)
        for names, mode in reversed(made):
            path = self._target.below(*names) if names else self._target.path
            if names in self._plan.times:
                await self._target.files.set_modified(path, self._plan.times[names])
            if mode | 0o700 != mode:
                await self._target.files.chmod(path, mode)
        self._report(now=True)
        return CopyResult(
            path=self._target.path,
            files=len(self._plan.files),
            links=len(self._plan.links),
            directories=self._made,
            bytes=self._bytes,
            skipped=tuple(self._plan.skipped),
        )

    async def _make_directories(self) -> list[tuple[tuple[str, ...], int]]:
        """Make every directory, from the top. Directories that their owner may not enter or write get their final bits at the end."""
        made: list[tuple[tuple[str, ...], int]] = []
        files = self._target.files
        coming = {names for names, *_ in (*self._plan.files, *self._plan.links)}
        for names, mode in self._plan.directories:
            path, bits = self._target.below(*names) if names else self._target.path, mode & self._bits
            try:
                await files.mkdir(path)
            except FileExistsError:
                # The kind of the entry itself: a link may lead anywhere, and may come from an earlier copy. Only the
                # target may be a given link.
                given = not names and not self._into
                if (await files.stat(path, follow=given)).kind != "directory":
                    raise NotADirectoryError(
                        errno.ENOTDIR, "A directory does not replace a file", path
                    ) from None
                with contextlib.suppress(PermissionError):  # the directory can be written to but not read
                    for entry in await files.list(path):
                        if entry.kind == "other" and (*names, entry.name) in coming:
                            raise OSError(
                                errno.EINVAL, _NO_FILE, self._target.below(*names, entry.name)
                            ) from None
                continue
            await files.chmod(path, bits | 0o700)
            made.append((names, bits))
        self._made = len(made)
        return made

    async def _copy_files(self) -> None:
        """Copy several files at once: a small file is mostly waiting. The first error ends the other copies."""
        left = iter(self._plan.files)

        async def some() -> None:
            for names, _, mode in left:
                await self._file(names, mode & self._bits)

        workers = [asyncio.create_task(some()) for _ in range(min(_FILES_AT_ONCE, len(self._plan.files)))]
        try:
            if workers:
                await asyncio.wait(workers, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            first = next(
                (task for task in workers if task.done() and not task.cancelled() and task.exception()), None
            )
            for task in workers:
                task.cancel()
            if workers:
                await asyncio.wait(workers)  # each worker cleans up, for a bounded time
            for task in workers:
                note_failure(task)
        if first is not None:
            first.result()

    async def _file(self, names: tuple[str, ...], mode: int) -> None:
        source = self._source.below(*names) if names else self._source.path
        target = self._target.below(*names) if names else self._target.path

        async def put(temporary: str) -> None:
            async with contextlib.aclosing(self._counted(source)) as chunks:  # closes the file that is read
                await self._target.files.write_chunks(temporary, chunks, mode=mode)
            if names in self._plan.times:
                await self._target.files.set_modified(temporary, self._plan.times[names])

        await self._placed(target, put)
        self._done += 1
        self._report()

    async def _link(self, names: tuple[str, ...], points_to: str) -> None:
        await self._placed(
            self._target.below(*names), lambda temporary: self._target.files.symlink(points_to, temporary)
        )
        self._done += 1
        self._report()

    async def _placed(self, target: str, put: Callable[[str], Awaitable[None]]) -> None:
        """Make a file or a link beside its place and move it there. After a failure, remove the temporary name."""
        rules, files = self._target.rules, self._target.files
        temporary = str(rules.join(rules.dirname(target), f".anyshell-{secrets.token_hex(8)}.tmp"))
        try:
            await put(temporary)
            await files.rename(temporary, target)
        except BaseException as error:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(_CLEANING_SECONDS):
                    await files.remove(temporary)
            if isinstance(error, OSError) and temporary in (error.filename, error.filename2):
                raise OSError(error.errno, error.strerror, target) from error
            raise

    async def _counted(self, path: str) -> AsyncGenerator[bytes, None]:
        async with contextlib.aclosing(self._source.files.read_chunks(path)) as chunks:
            async for chunk in chunks:
                yield chunk
                self._path = path
                self._bytes += len(chunk)
                self._report()

    def _report(self, *, now: bool = False) -> None:
        if self._on_progress is None:
            return
        time = asyncio.get_running_loop().time()
        if now or time >= self._reported + _PROGRESS_SECONDS:
            self._reported = time
            self._on_progress(
                CopyProgress(
                    path=self._path,
                    bytes_done=self._bytes,
                    bytes_total=self._bytes_total,
                    files_done=self._done,
                    files_total=len(self._plan.files) + len(self._plan.links),
                )
            )


async def _kind(place: Place, *, follow: bool) -> str | None:
    try:
        return (await place.files.stat(place.bare if not follow else place.path, follow=follow)).kind
    except FileNotFoundError:
        return None


async def for_each(paths: Sequence[str], ask: Callable[[str], Awaitable[T]]) -> list[T]:
    """Call `ask` for every path, some paths at a time. The first error is raised when its group is done."""
    answers: list[T] = []
    for start in range(0, len(paths), AT_ONCE):
        some = (ask(path) for path in paths[start : start + AT_ONCE])
        for answer in await asyncio.gather(*some, return_exceptions=True):
            if isinstance(answer, BaseException):
                raise answer
            answers.append(answer)
    return answers
