"""The class of ``env.files``: paths as people write them, text, lines and glob, on top of a backend's `Files`."""

from __future__ import annotations

import errno
import fnmatch
import io
import ntpath
import os
import posixpath
import re
from typing import TYPE_CHECKING

from ._exceptions import BackendUnavailable, InvalidCommand
from ._transfer import Place, copy, for_each
from ._types import check_text
from ._types.windows_paths import check_path, fault_of, plain

if TYPE_CHECKING:
    import builtins  # HostFiles.list hides list
    from collections.abc import Sequence
    from types import ModuleType
    from typing import TypeAlias

    from ._transfer import OnProgress
    from ._types import CopyResult, FileEntry, FileStat, HostInfo
    from .abc import Files

    AnyPath: TypeAlias = str | os.PathLike[str]

_NOT_THERE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
_SEPARATORS = os.sep + (os.altsep or "")  # of this machine
_PASSED_OVER = _NOT_THERE | {errno.EACCES, errno.EPERM}


class HostFiles:
    """The files of a host.

    A path is absolute, relative to the environment's directory, or below ``~``, the home of the host's user; the path follows
    the host's rules, not this machine's. Every method raises `InvalidCommand` for a path that is empty or holds a NUL byte. A
    missing file is `FileNotFoundError` with ``errno`` and ``filename`` on every host; other failures are the `OSError` that a
    local file would give.

    Args:
        files: The files of the backend.
        info: The host's facts.
        directory: The start of relative paths; an absolute directory of the host.
        max_read: Bytes of a file that are read when no length is given; more is an error.
        max_entries: Entries of directories that one glob looks at; more is an error.
        here: The files of the machine that this process runs on, for `upload` and `download`.
    """

    def __init__(
        self,
        files: Files,
        info: HostInfo,
        directory: str,
        *,
        max_read: int = 256 * 1024 * 1024,
        max_entries: int = 100_000,
        here: Files | None = None,
    ) -> None:
        self._files = files
        self._info = info
        self._directory = directory
        self._max_read = max_read
        self._max_entries = max_entries
        self._here = here

    async def stat(self, path: AnyPath, *, follow: bool = True) -> FileStat:
        """Describe a file; the link itself when `follow` is false."""
        return await self._files.stat(self._resolve(path), follow=follow)

    async def exists(self, path: AnyPath) -> bool:
        """Return whether a file exists at the path. A link counts as its target."""
        return await self._kind(path) is not None

    async def is_file(self, path: AnyPath) -> bool:
        """Return whether the path is a regular file, or a link to one."""
        return await self._kind(path) == "file"

    async def is_dir(self, path: AnyPath) -> bool:
        """Return whether the path is a directory, or a link to one."""
        return await self._kind(path) == "directory"

    async def list(self, path: AnyPath = ".") -> builtins.list[str]:
        """Return the sorted names in a directory, without ``.`` and ``..``."""
        return sorted(entry.name for entry in await self._files.list(self._resolve(path)))

    async def read(self, path: AnyPath, *, offset: int = 0, length: int | None = None) -> bytes:
        """Read a file or a range of it.

        Args:
            path: A regular file, or a link to one.
            offset: The first byte to read; zero or more. Past the end there is nothing to read: ``b""``.
            length: Bytes to read; fewer are returned where the file ends. ``None`` reads up to the end, which must be within
                `max_read` (256 MiB unless the environment says otherwise).

        Raises:
            OSError: With ``EFBIG`` when the whole file is larger than `max_read`; the call never returns a part of the file
                instead.
        """
        resolved = self._resolve(path)
        if offset < 0 or (length is not None and length < 0):
            raise InvalidCommand(f"offset and length must be 0 or more, not {offset} and {length}")
        if length is not None:
            return await self._files.read(resolved, offset=offset, length=length)
        # One byte more than the limit: a question for the size first would be a race, since the size may change.
        data = await self._files.read(resolved, offset=offset, length=self._max_read + 1)
        if len(data) > self._max_read:
            raise OSError(
                errno.EFBIG,
                f"More than {self._max_read} bytes; read it in ranges, with offset= and length=",
                resolved,
            )
        return data

    async def read_text(self, path: AnyPath, *, encoding: str = "utf-8", errors: str = "strict") -> str:
        """Read a whole file as text. Line ends stay exactly as they are in the file.

        Raises:
            UnicodeDecodeError: The file is not valid text in `encoding`, and `errors` is ``strict``.
            OSError: As `read` does.
        """
        return (await self.read(path)).decode(encoding, errors)

    async def read_lines(
        self, path: AnyPath, *, encoding: str = "utf-8", errors: str = "strict"
    ) -> builtins.list[str]:
        r"""Read a whole file as lines, each with its own line end: joined, the lines are the text.

        A line ends after ``\n`` and nowhere else: ``\r\n`` stays at the end of its line, and a lone ``\r`` or a form feed is
        a character like any other. A last line without an end is a line; an empty file has no lines.

        Raises:
            UnicodeDecodeError: As `read_text` does.
            OSError: As `read` does.
        """
        return list(io.StringIO(await self.read_text(path, encoding=encoding, errors=errors), newline="\n"))

    async def write(self, path: AnyPath, data: bytes, *, append: bool = False) -> None:
        """Append to a file, or replace the file atomically: a reader sees the old or the new content, never a mixture.

        A replaced file keeps its permission bits. A link stays a link: its target is written.
        """
        if isinstance(data, str):
            raise InvalidCommand("data must be bytes, not str: write_text() and append_text() take a text")
        await self._files.write(self._resolve(path), data, append=append)

    async def write_text(
        self, path: AnyPath, text: str, *, encoding: str = "utf-8", errors: str = "strict"
    ) -> int:
        """Replace a file by a text, atomically. Line ends are written exactly as they are in the text.

        Returns:
            The number of characters written.

        Raises:
            UnicodeEncodeError: The text cannot be encoded in `encoding`; the file is unchanged.
        """
        await self.write(path, _encoded(text, encoding, errors))
        return len(text)

    async def append_text(
        self, path: AnyPath, text: str, *, encoding: str = "utf-8", errors: str = "strict"
    ) -> int:
        """Append a text to a file; a missing file is created. Otherwise as `write_text`."""
        await self.write(path, _encoded(text, encoding, errors), append=True)
        return len(text)

    async def mkdir(self, path: AnyPath, *, parents: bool = False, exist_ok: bool = False) -> None:
        """Make a directory; with `parents`, also its missing parent directories.

        Raises:
            FileExistsError: The directory exists and `exist_ok` is false, or the path is another kind of file.
        """
        await self._files.mkdir(self._resolve(path), parents=parents, exist_ok=exist_ok)

    async def remove(self, path: AnyPath, *, recursive: bool = False) -> None:
        """Remove a file, a link or an empty directory; with `recursive`, a whole tree. Never follows links."""
        await self._files.remove(self._resolve(path), recursive=recursive)

    async def rename(self, source: AnyPath, target: AnyPath) -> None:
        """Rename a file. Replaces a file at `target`."""
        await self._files.rename(self._resolve(source), self._resolve(target))

    async def glob(
        self, pattern: str, *, directory: AnyPath | None = None, hidden: bool = False
    ) -> builtins.list[str]:
        r"""Find the files and directories whose paths match a pattern.

        ``*`` matches any part of a name, ``?`` one character, ``[a-z]`` and ``[!a-z]`` one of a set. ``**`` as a whole
        component matches any number of directories, also none; at the end of the pattern it matches everything below. As in a
        shell, a name that starts with a dot is matched only by a component that also does, and a separator at the end matches
        only directories. ``**`` does not follow links to directories. Matching is case-sensitive, except on Windows, where
        ``\`` separates as ``/`` does.

        Directories that may not be read are skipped, as in a shell.

        Args:
            pattern: A relative pattern.
            directory: The directory of the search; taken literally, whatever characters it holds. ``None`` is the
                environment's directory.
            hidden: Whether a name that starts with a dot is matched like any other, and ``**`` enters directories of such
                names.

        Returns:
            Absolute paths, sorted; empty when nothing matches.

        Raises:
            FileNotFoundError: `directory` does not exist.
            NotADirectoryError: `directory` is not a directory.
            InvalidCommand: The pattern is not relative, or more than `max_entries` directory entries (100,000 unless the
                environment says otherwise) would have to be looked at.
        """
        base = self._directory if directory is None else self._resolve(directory)
        components = self._split(pattern)
        if (await self._files.stat(base)).kind != "directory":
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), base)

        search = _Search(self._files, self._info, pattern, self._max_entries, hidden=hidden)
        found = [base]
        for component in components:
            found = await search.step(found, component)
        return sorted(found)

    async def upload(
        self, source: AnyPath, target: AnyPath, *, into: bool = True, on_progress: OnProgress | None = None
    ) -> CopyResult:
        """Copy a file or a directory of this machine to the host.

        A target that is an existing directory gets the copy *into* it, under the source's own name, as with ``cp -r`` and
        ``scp -r``; any other target *is* the copy. The copy is merged into an existing directory: entries with the same path are
        replaced, other entries stay. A file never replaces a directory, nor a directory a file.

        Directories are copied whole, with empty directories and hidden files. Permission bits are kept, except set-user-id and
        similar bits; owners and times are not kept. An existing directory keeps its own bits. Links below the source are copied
        as links, also dangling links, and never followed. The source itself may be a link: then its target is copied. At the
        target a link is replaced, never written through; only the given target may be a link to a directory. Sockets, pipes
        and devices are skipped, and named in the result.

        A file appears at its place when it is whole, and replaces an old file atomically. When the copy fails or is
        cancelled, complete files stay, and no incomplete file has its final name; a temporary file (``.anyshell-….tmp``) is
        removed, unless the host cannot be reached any more. A cancelled copy ends after its cleanup.

        Args:
            source: A path on this machine: absolute, relative to this process's directory, or below ``~``.
            target: A path on the host, as for every method here. Its parent directory must exist.
            into: Whether the copy is put into a target that is an existing directory. Otherwise the target is always the
                copy: a directory is merged with it.
            on_progress: Called with a `CopyProgress` before the first byte, at most ten times a second, and at the end. An
                exception from this function ends the copy, and passes through.

        Raises:
            FileNotFoundError: The source, or the parent directory of the target, does not exist.
            IsADirectoryError, NotADirectoryError: A file would replace a directory, or a directory another kind of file.
            OSError: With ``EINVAL``, before anything is written: a name that the target's host cannot have (on Windows
                ``a:b``, ``NUL``, …), or that leads out of the target.
            InvalidCommand: A source without a name of its own, such as ``/``, for an existing directory; a directory of more
                than a million entries.
        """
        return await copy(self._local(source), self._remote(target), on_progress, into=into)

    async def download(
        self, source: AnyPath, target: AnyPath, *, into: bool = True, on_progress: OnProgress | None = None
    ) -> CopyResult:
        """Copy a file or a directory of the host to this machine.

        The rules of `upload` apply, with the two sides exchanged. Nothing is written outside the target, whatever names and
        links the host reports.

        Args:
            source: A path on the host.
            target: A path on this machine.
            into: As for `upload`.
            on_progress: As for `upload`.
        """
        return await copy(self._remote(source), self._local(target), on_progress, into=into)

    def _remote(self, path: AnyPath) -> Place:
        windows = self._info.os == "windows"
        return Place(self._files, ntpath if windows else posixpath, self._resolve(path))

    def _local(self, path: AnyPath) -> Place:
        if self._here is None:
            raise BackendUnavailable(
                "the files of this machine cannot be reached from here; use read and write"
            )
        given = os.fspath(path)
        if given == "~" or (given[:1] == "~" and given[1] in _SEPARATORS):
            given = os.path.expanduser(given)
        return local_place(self._here, given)

    def _resolve(self, path: AnyPath) -> str:
        given = os.fspath(path) if isinstance(path, os.PathLike) else path
        check_text("the path", given)
        if not given:
            raise InvalidCommand("the path is empty; the environment's directory is '.'")
        return self._info.resolve(given, self._directory)

    async def _kind(self, path: AnyPath) -> str | None:
        try:
            return (await self.stat(path)).kind
        except OSError as error:
            if error.errno in _NOT_THERE:
                return None
            raise

    def _split(self, pattern: str) -> builtins.list[str]:
        """Split a pattern into components; the last one is empty when the pattern ends with a separator."""
        windows = self._info.os == "windows"
        check_text("the pattern", pattern)
        first, *others = re.split(r"[/\\]" if windows else "/", pattern)
        if first in ("", "~") or (windows and ntpath.splitdrive(pattern)[0]):
            raise InvalidCommand(
                f"the pattern {pattern!r} is not relative; give the directory to search as directory="
                if pattern
                else "the pattern is empty; '*' matches everything"
            )
        components = [part for part in (first, *others) if part not in ("", ".")]
        if components and components[-1] == "**":
            components.append("*")
        if others and others[-1] == "":
            components.append("")
        return components


def _encoded(text: str, encoding: str, errors: str) -> bytes:
    if not isinstance(text, str):
        raise InvalidCommand(f"text must be a string, not {type(text).__name__}: write() takes bytes")
    return text.encode(encoding, errors)


def place_of(files: HostFiles, path: str) -> Place:
    """Return the `Place` of a path of a host, with the rules of `HostFiles.upload` for its target."""
    return files._remote(path)


def local_place(files: Files, path: str) -> Place:
    """Return the `Place` of a file of this machine, given an absolute path or one relative to this process's directory.

    Raises:
        InvalidCommand: The path is empty, or is not a path of this machine.
    """
    check_text("the path", path)
    if not path:
        raise InvalidCommand("the path is empty; this process's directory is '.'")
    rules: ModuleType = os.path
    directory = os.getcwd()
    joined: str = directory if path.rstrip(_SEPARATORS) == "." else rules.join(directory, path)
    if rules is ntpath:
        joined = plain(joined.replace("/", "\\"))
        check_path(joined)
    return Place(files, rules, joined)


class _Search:
    """One glob: each step extends all paths found so far by one component.

    A step works on a whole level, so that a remote host can be asked for many paths at once.
    """

    def __init__(self, files: Files, info: HostInfo, pattern: str, max_entries: int, *, hidden: bool) -> None:
        self._files = files
        self._hidden = hidden
        self._rules: ModuleType = ntpath if info.os == "windows" else posixpath
        self._flags = re.IGNORECASE if info.os == "windows" else 0
        self._pattern = pattern
        self._max_entries = max_entries
        self._entries = 0
        self._listed: dict[str, Sequence[FileEntry]] = {}
        self._kinds: dict[str, str] = {}

    async def step(self, paths: list[str], component: str) -> list[str]:
        if component == "":
            return await self._directories(paths)
        if component == "**":
            return await self._with_directories_below(paths)
        if not any(character in component for character in "*?["):
            if self._rules is ntpath and component not in (".", "..") and fault_of(component):
                return []  # a device name is valid everywhere on Windows, and in no directory
            paths = [self._rules.join(path, component) for path in paths]
            kinds = await for_each(paths, self._kind_of_itself)
            return [path for path, kind in zip(paths, kinds, strict=True) if kind is not None]
        matches = re.compile(fnmatch.translate(component), self._flags).match
        hidden = self._hidden or component.startswith(".")
        return [
            path
            for path, entry in await self._entries_of(paths)
            if matches(entry.name) and (hidden or not entry.name.startswith("."))
        ]

    async def _with_directories_below(self, paths: list[str]) -> list[str]:
        found = dict.fromkeys(paths)
        while paths:
            paths = [
                path
                for path, entry in await self._entries_of(paths)
                if entry.kind == "directory"
                and (self._hidden or not entry.name.startswith("."))
                and path not in found
            ]
            found.update(dict.fromkeys(paths))
        return list(found)

    async def _directories(self, paths: list[str]) -> list[str]:
        """Return the entries that are directories, or links to one. The listing has the kinds of all entries but links."""
        links = [path for path in paths if self._kinds.get(path, "link") == "link"]
        asked = dict(zip(links, await for_each(links, self._kind), strict=True))
        return [path for path in paths if asked.get(path, self._kinds.get(path)) == "directory"]

    async def _entries_of(self, directories: list[str]) -> list[tuple[str, FileEntry]]:
        """Return the path and the entry of everything in some directories; nothing for paths that are not directories."""
        directories = [path for path in directories if self._kinds.get(path) not in ("file", "other")]
        listings = await for_each(directories, self._list)
        found = [
            (self._rules.join(directory, entry.name), entry)
            for directory, entries in zip(directories, listings, strict=True)
            for entry in entries
        ]
        self._kinds.update((path, entry.kind) for path, entry in found)
        return found

    async def _list(self, directory: str) -> Sequence[FileEntry]:
        if directory in self._listed:
            return self._listed[directory]
        try:
            entries = await self._files.list(directory)
        except OSError as error:
            if error.errno not in _PASSED_OVER:
                raise
            entries = ()
        self._entries += len(entries)
        if self._entries > self._max_entries:
            raise InvalidCommand(
                f"the pattern {self._pattern!r} looks at more than {self._max_entries} directory entries: "
                "name more of the path in it, or start further down with directory="
            )
        self._listed[directory] = entries
        return entries

    async def _kind(self, path: str, *, follow: bool = True) -> str | None:
        try:
            return (await self._files.stat(path, follow=follow)).kind
        except OSError as error:
            if error.errno in _PASSED_OVER:
                return None
            raise

    async def _kind_of_itself(self, path: str) -> str | None:
        return await self._kind(path, follow=False)
