"""The files of a host that has a POSIX shell and nothing else: `ShellFiles`.

Every text here is a constant. Paths travel as arguments and content as stdin, so nothing needs quoting for a shell. The
texts use only features that dash, busybox, bash, ksh and the userlands of GNU, busybox and the BSDs have in common.
"""

from __future__ import annotations

import contextlib
import errno
import os
import posixpath
import re
import secrets
from typing import TYPE_CHECKING

from ...._answers import LONGEST_FACT
from ...._exceptions import ConnectionFailed
from ...._types import FileEntry, FileStat
from ...._waits import to_the_end
from .errors import MAX_ENTRIES, MAX_LINKS, NUMBERS, check_regular, connection_lost, os_error, too_many

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Sequence

    from ...._types import FileKind
    from ....abc import Files

    Run = Callable[[Sequence[str], bytes | None, int], Awaitable[tuple[int | None, bytes, bytes]]]

_CHUNK = 4 * 1024 * 1024
"""Bytes of a file in one command, where a host has no SFTP."""
_BLOCK = 64 * 1024
"""Bytes of a block of dd, where a host has no SFTP."""
_LONGEST_LIST = 64 * 1024 * 1024
"""Bytes of the list of a directory, where a host has no SFTP; more is an error."""

_DECODE = """LC_ALL=C; export LC_ALL
for a do shift; a=$(printf '%b.' "$a"); set -- "$@" "${a%.}"; done
"""
"""The beginning of every text. Arguments come as ASCII, for servers that require commands in UTF-8, since names need
not be UTF-8. The dot keeps line feeds at the end of an argument. LC_ALL=C makes messages those of the system."""

_PRELUDE = "p=$1; case $p in -*) p=./$p;; esac; "
"""Puts a path into ``$p`` that no program takes for an option."""

_STAT = (
    # GNU and busybox have -c, the BSDs -f. -f means something else to GNU, so -c is tried first. The mode is
    # hexadecimal from -c and octal from -f; the first word, x or o, tells which.
    'if stat -c %f / >/dev/null 2>&1; then exec stat $1 -c "x %f %s %Y" -- "$2"; fi\n'
    'exec stat $1 -f "o %p %z %m" -- "$2"'
)

_STATED = re.compile(r"(x [0-9a-f]{1,8}|o [0-7]{1,11}) ([0-9]{1,18}) (-?[0-9]{1,18})")

_LIST = (
    _PRELUDE + '[ -d "$p" ] || { ls -d -- "$p/." >/dev/null; exit 1; }\n'
    # The pattern of an unreadable directory expands to nothing, so ls checks readability first.
    'ls -- "$p/" >/dev/null || exit 1\n'
    'for f in "$p"/* "$p"/.*; do\n'
    "  n=${f##*/}; case $n in .|..) continue;; esac\n"
    '  if [ -h "$f" ]; then k=l; elif [ -d "$f" ]; then k=d; elif [ -f "$f" ]; then k=f\n'
    '  elif [ -e "$f" ]; then k=o; else case $n in "*"|".*") continue;; esac; k=o; fi\n'
    '  printf \'%s%s\\000\' "$k" "$n"\n'
    "done"
)

# stderr of dd is discarded: dd always prints a report, and a startup file may have joined stderr to stdout.
# On a failure, the shell opens the file itself, and so prints the reason.
_SKIP = 'dd if="$1" bs="$2" skip="$3" count="$4" 2>/dev/null || { : <"$1"; exit 1; }'
_HEAD = '{ [ "$2" = 0 ] || head -c "$2" >/dev/null; exec head -c "$3"; } <"$1"'

_CREATE = _PRELUDE + 'umask "$2"; set -C; : >"$p"'
_MORE = _PRELUDE + 'exec cat >>"$p"'
_UMASK = "umask"
_MKDIR = _PRELUDE + 'exec mkdir -- "$p"'
_REMOVE = _PRELUDE + 'exec rm -f -- "$p"'
_REMOVE_TREE = _PRELUDE + 'exec rm -rf -- "$p"'
_RMDIR = _PRELUDE + 'exec rmdir -- "$p"'
# mv moves into a directory that has the target's name. -T prevents that, but only GNU and busybox have it.
_MOVE = (
    _PRELUDE
    + '[ -d "$2" ] && [ ! -h "$2" ] && { echo "mv: Is a directory" >&2; exit 1; }\n'
    + (
        'if [ -h "$2" ] && [ -d "$2" ]; then mv -fT -- "$p" "$2" 2>/dev/null || mv -fh -- "$p" "$2"; '
        'else exec mv -f -- "$p" "$2"; fi'
    )
)
_MOVE_DIRECTORY = _PRELUDE + (
    'if [ -d "$2" ]; then rmdir -- "$2" || exit 1; elif [ -e "$2" ] || [ -h "$2" ]; then '
    'echo "mv: Not a directory" >&2; exit 1; fi; exec mv -- "$p" "$2"'
)
# The x keeps a line feed at the end of the target, which the shell would cut off.
_READLINK = _PRELUDE + (
    '[ -h "$p" ] || { ls -d -- "$p" >/dev/null || exit 1; echo "readlink: Invalid argument" >&2; exit 1; }\n'
    't=$(readlink -- "$p"; echo x) || exit 1; t=${t%x}; printf %s "$t"'
)
_SYMLINK = (
    _PRELUDE + '[ -e "$p" ] || [ -h "$p" ] || exec ln -s -- "$2" "$p"; echo "ln: File exists" >&2; exit 1'
)
_CHMOD = _PRELUDE + 'exec chmod -- "$2" "$p"'
# The second command is for touch of macOS and BSD, which takes no seconds since the epoch. Neither command
# may create a missing file.
_SET_MODIFIED = _PRELUDE + (
    'ls -d -- "$p" >/dev/null || exit 1; touch -d "@$2" "$p" 2>/dev/null && exit\n'
    't=$(date -r "$2" +%Y%m%d%H%M.%S 2>/dev/null) && exec touch -t "$t" "$p"; exec touch -d "@$2" "$p"'
)
_INHERIT = (
    _PRELUDE + 'chown -- "$2:$3" "$p" 2>/dev/null || chgrp -- "$3" "$p" 2>/dev/null; exec chmod -- "$4" "$p"'
)
_OWNER = (
    'if stat -c %f / >/dev/null 2>&1; then exec stat -L -c "%u %g" -- "$1"; fi\n'
    'exec stat -L -f "%u %g" -- "$1"'
)
_INODE = 'exec ls -di -- "$1"'
_WRITABLE = '[ -w "$1" ] || : >>"$1"'  # the second command fails, and prints the reason

_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 /._-+:@,=%")

_WORDS = NUMBERS | {
    **{os.strerror(number).lower(): number for number in (errno.EACCES, errno.EMFILE, errno.ENOMEM)},
    "directory nonexistent": errno.ENOENT,  # dash, of a path to write to
    "nonexistent directory": errno.ENOENT,
    "too many levels of symbolic links": errno.ELOOP,
    "too many symbolic links encountered": errno.ELOOP,
    "symbolic link loop": errno.ELOOP,
    "disc quota exceeded": errno.ENOSPC,
    "disk quota exceeded": errno.ENOSPC,
    "cannot overwrite existing file": errno.EEXIST,  # bash, under set -C
}


class ShellFiles:
    """The files of a host, by commands of its ``sh``; for servers without an SFTP service.

    The contract of `Files` holds, but calls are slower: every call is one command or a few, and content travels in
    pieces of 4 MiB, each a command of its own. Needs ``stat``, ``dd``, ``mv``, ``readlink`` and the like, as in GNU,
    busybox and the BSDs.

    Args:
        run: Runs a program, given argv, stdin (``None`` is nothing) and a limit in bytes for stdout; returns the exit
            code, stdout and stderr. A program that reaches the limit is stopped, and its code means nothing. The code
            is ``None`` when the connection was lost. Bounds its own time by `TimeoutError`; its other exceptions are
            passed on.
    """

    def __init__(self, run: Run) -> None:
        self._run = run

    async def stat(self, path: str, *, follow: bool = True) -> FileStat:
        """Describe a file; the link itself when `follow` is false."""
        said = (await self._sh(_STAT, path, "-L" if follow else "", path)).decode("ascii", "replace")
        described = _STATED.fullmatch(said.strip())
        if described is None:
            raise _senseless(path)
        mode, size, modified = described.groups()
        bits = int(mode[2:], 16 if mode.startswith("x") else 8)
        return FileStat(kind=_kind(bits), size=int(size), mode=bits & 0o7777, modified=float(modified))

    async def list(self, path: str) -> Sequence[FileEntry]:
        """List the names and kinds of a directory's entries, in no order, without ``.`` and ``..``."""
        kinds: dict[str, FileKind] = {"f": "file", "d": "directory", "l": "link", "o": "other"}
        listed = await self._sh(_LIST, path, path, most=_LONGEST_LIST)
        if listed.count(b"\0") > MAX_ENTRIES:
            raise too_many(path)
        told = listed.decode("utf-8", "surrogateescape").split("\0")
        return [FileEntry(entry[1:], kinds[entry[0]]) for entry in told if entry and entry[0] in kinds]

    async def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        """Read a file or a range of it, in bytes. Returns fewer bytes where the file ends."""
        if (
            await self._regular(path) == 0
        ):  # empty, or a file of /proc, which is read from its beginning in one go
            most = _most(length)
            data = await self._sh(_HEAD, path, path, str(offset), str(most), most=most)
            return data if length is None else data[:length]
        return await self._piece(path, offset, length) if length != 0 else b""

    async def write(self, path: str, data: bytes, *, append: bool = False) -> None:
        """Append to a file, or replace the file atomically: a reader sees the old or the new content, never a mixture."""
        await to_the_end(self._append(path, data) if append else self._replace(path, data))

    async def mkdir(self, path: str, *, parents: bool = False, exist_ok: bool = False) -> None:
        """Make a directory; with `parents`, also its missing parent directories."""
        await to_the_end(self._mkdir(path.rstrip("/") or "/", parents, exist_ok))

    async def remove(self, path: str, *, recursive: bool = False) -> None:
        """Remove a file, a link or an empty directory; with `recursive`, a whole tree. Never follows links."""
        await to_the_end(self._remove(path.rstrip("/") or "/", recursive))

    async def rename(self, source: str, target: str) -> None:
        """Rename a file or a link. Replaces a file or a link at `target`."""

        async def work() -> None:
            directory = (await self.stat(source, follow=False)).kind == "directory"
            await self._sure(_MOVE_DIRECTORY if directory else _MOVE, source, source, _argument(target))

        await to_the_end(work())

    async def readlink(self, path: str) -> str:
        """Return the target of a link, exactly as the link stores it. ``EINVAL`` when the file is not a link."""
        told = await self._sh(_READLINK, path, path)
        return told.removesuffix(b"\n").decode("utf-8", "surrogateescape")

    async def symlink(self, target: str, path: str) -> None:
        """Make a link at `path` that points to `target`. Never replaces an existing file."""
        await to_the_end(self._sure(_SYMLINK, path, path, target))

    async def chmod(self, path: str, mode: int) -> None:
        """Set exactly these permission bits on a file or a directory."""
        await to_the_end(self._sure(_CHMOD, path, path, f"{mode:o}"))

    async def set_modified(self, path: str, modified: float) -> None:
        """Set the modification time of a file or a directory, to the second."""
        await to_the_end(self._sure(_SET_MODIFIED, path, path, str(int(modified))))

    async def read_chunks(self, path: str) -> AsyncGenerator[bytes, None]:
        """Read a whole file, 4 MiB at a time. A file that is replaced meanwhile is an error (``ESTALE``)."""
        size = await self._regular(path)
        if size == 0:
            if data := await self.read(path):
                yield data
            return
        number, start = await self._sh(_INODE, path, path), 0
        while piece := await self._piece(path, start, _CHUNK):
            yield piece
            start += len(piece)
        if await self._sh(_INODE, path, path) != number:
            raise OSError(errno.ESTALE, "The file was replaced while it was read", path)

    async def write_chunks(self, path: str, chunks: AsyncIterable[bytes], *, mode: int) -> None:
        """Create a new file from chunks as they come, with exactly these permission bits; whole or not at all."""

        async def work() -> None:
            await self._create(path, chunks, "077")
            await self._or_remove(path, self._sure(_CHMOD, path, path, f"{mode:o}"))

        await to_the_end(work())

    async def _answer(
        self, text: str, path: str, *arguments: str, stdin: bytes | None = None, most: int = LONGEST_FACT
    ) -> tuple[int, bytes, bytes]:
        try:
            code, stdout, stderr = await self._run(
                ("/bin/sh", "-c", _DECODE + text, "sh", *map(_escaped, arguments)), stdin, most + 1
            )
        except TimeoutError as error:
            raise TimeoutError(
                errno.ETIMEDOUT,
                "The host's shell gave no answer in time; a change may have happened or not",
                path,
            ) from error
        if len(stdout) > most:
            raise too_many(path) if text is _LIST else _senseless(path)
        if code is None:
            raise connection_lost(path)
        return code, stdout, stderr

    async def _sh(
        self, text: str, path: str, *arguments: str, stdin: bytes | None = None, most: int = LONGEST_FACT
    ) -> bytes:
        """Run a text of this module, which prints at most `most` bytes.

        A failure raises the `OSError` that its message names.
        """
        code, stdout, stderr = await self._answer(text, path, *arguments, stdin=stdin, most=most)
        if code == 0:
            return stdout
        number = _error_of(stderr)
        if number is None:
            number = await self._looked_for(text, path)
        if number is not None:
            raise os_error(number, path)
        raise OSError(errno.EIO, "The host's shell failed, and gave no reason", path)

    async def _sure(self, text: str, path: str, *arguments: str, stdin: bytes | None = None) -> None:
        """Run a text that changes something, like `_sh`. A text that runs on the host is awaited even when cancelled."""

        async def work() -> None:
            await self._sh(text, path, *arguments, stdin=stdin)

        await to_the_end(work(), lambda: None)

    async def _looked_for(self, text: str, path: str) -> int | None:
        """Find the error of a path for which a program printed no known message."""
        code, _, stderr = await self._answer(_PRELUDE + 'exec ls -d -- "$p"', path, path)
        if code != 0:
            return _error_of(stderr)
        if text is _MKDIR or text is _CREATE or text is _SYMLINK:
            return errno.EEXIST
        return errno.ENOTDIR if text is _LIST else None

    async def _regular(self, path: str) -> int:
        """Return the size of a regular file; refuse any other file before it is opened."""
        status = await self.stat(path)
        check_regular(status.kind, path)
        return status.size

    async def _piece(self, path: str, start: int, length: int | None) -> bytes:
        """Read a range. dd seeks in whole blocks; the bytes around the range are cut off here."""
        before = start % _BLOCK
        wanted = before + _most(length)
        count = -(-wanted // _BLOCK)
        data = await self._sh(
            _SKIP, path, path, str(_BLOCK), str(start // _BLOCK), str(count), most=count * _BLOCK
        )
        return data[before:wanted]

    async def _append(self, path: str, data: bytes) -> None:
        with contextlib.suppress(FileNotFoundError):
            await self._regular(path)
        for start in range(0, len(data) or 1, _CHUNK):
            await self._sure(_MORE, path, path, stdin=data[start : start + _CHUNK])

    async def _replace(self, path: str, data: bytes) -> None:
        try:
            await self._regular(path)
            mode: str | None = f"{(await self.stat(path)).mode & 0o777:o}"
        except FileNotFoundError:
            mode = None
        if mode is not None:
            await self._sh(_WRITABLE, path, path)
        target = await self._resolved(path)
        temporary = posixpath.join(posixpath.dirname(target), f".anyshell-{secrets.token_hex(8)}.tmp")
        try:
            umask = (
                "077"
                if mode is not None
                else (await self._sh(_UMASK, path)).decode("ascii", "replace").strip()
            )
            await self._create(temporary, _pieces(data), umask)
            await self._or_remove(temporary, self._put(temporary, path, target, mode))
        except OSError as error:
            if error.filename == temporary:
                raise OSError(error.errno, error.strerror, path) from error
            raise

    async def _put(self, temporary: str, path: str, target: str, mode: str | None) -> None:
        if mode is not None:
            owners = (await self._sh(_OWNER, path, path)).decode("ascii", "replace")
            if re.fullmatch(r"[0-9]{1,10} [0-9]{1,10}\s*", owners) is None:
                raise _senseless(path)
            owner, group = owners.split()
            await self._sure(_INHERIT, temporary, temporary, owner, group, mode)
        await self._sure(_MOVE, temporary, temporary, target)

    async def _create(self, path: str, chunks: AsyncIterable[bytes], umask: str) -> None:
        async def fill() -> None:
            async for chunk in chunks:
                for start in range(0, len(chunk), _CHUNK):
                    await self._sure(_MORE, path, path, stdin=chunk[start : start + _CHUNK])

        try:
            await self._sure(_CREATE, path, path, umask)
        except OSError:
            raise  # not made: a file of that name belongs to another process
        except BaseException:
            await self._quietly_remove(path)  # cancelled after the file was made
            raise
        await self._or_remove(path, fill())

    async def _or_remove(self, path: str, work: Awaitable[None]) -> None:
        try:
            await work
        except BaseException:
            await self._quietly_remove(path)
            raise

    async def _quietly_remove(self, path: str) -> None:
        with contextlib.suppress(OSError, ConnectionFailed):
            await self._answer(_REMOVE, path, path)

    async def _resolved(self, path: str) -> str:
        for _ in range(MAX_LINKS):
            try:
                path = posixpath.join(posixpath.dirname(path), await self.readlink(path))
            except OSError as error:
                if error.errno in (errno.EINVAL, errno.ENOENT):
                    return path
                raise
        raise os_error(errno.ELOOP, path)

    async def _mkdir(self, path: str, parents: bool, exist_ok: bool) -> None:
        try:
            await self._sure(_MKDIR, path, path)
        except FileNotFoundError:
            above = posixpath.dirname(path)
            if not parents or above == path:
                raise
            await self._mkdir(above, True, True)
            await self._mkdir(path, False, exist_ok)
        except FileExistsError:
            if not exist_ok or not await self._is_directory(path):
                raise

    async def _is_directory(self, path: str) -> bool:
        with contextlib.suppress(OSError):  # a link to nowhere
            return (await self.stat(path)).kind == "directory"
        return False

    async def _remove(self, path: str, recursive: bool) -> None:
        if posixpath.basename(path) in (".", ".."):
            raise os_error(errno.EINVAL, path)
        directory = (await self.stat(path, follow=False)).kind == "directory"
        await self._sure((_REMOVE_TREE if recursive else _RMDIR) if directory else _REMOVE, path, path)


if TYPE_CHECKING:
    _keeps_protocol: type[Files] = ShellFiles


def _senseless(path: str) -> OSError:
    return OSError(errno.EPROTO, "The host's answer is malformed", path)


def _kind(bits: int) -> FileKind:
    kinds: dict[int, FileKind] = {0o100000: "file", 0o040000: "directory", 0o120000: "link"}
    return kinds.get(bits & 0o170000, "other")


def _error_of(stderr: bytes) -> int | None:
    """Return the error that the last known message names after its last colon; busybox and others use the same words."""
    for line in reversed(stderr.decode("utf-8", "replace").strip().splitlines()):
        words = re.split(r": ", line.strip())[-1].lower()
        if words in _WORDS:
            return _WORDS[words]
    return None


def _escaped(argument: str) -> str:
    """Encode an argument in ASCII for ``%b`` of printf."""
    return "".join(
        chr(byte) if byte in _PLAIN else f"\\0{byte:03o}"
        for byte in argument.encode("utf-8", "surrogateescape")
    )


def _most(length: int | None) -> int:
    return 2**31 - 1 if length is None else min(length, 2**31 - 1)


def _argument(path: str) -> str:
    return f"./{path}" if path.startswith("-") else path


async def _pieces(data: bytes) -> AsyncGenerator[bytes, None]:
    yield data
