"""A look at all files of directories: by Python on this machine, by a shell program on another host.

A look returns *records*, one for each file. Two records of a file are equal as long as the file has not changed. Records are
compared a directory at a time, and only differing records are read. Most of the time is the kernel's, for one stat per file.
"""

from __future__ import annotations

import os
import posixpath
import re
import stat
import time
from dataclasses import dataclass, field
from fnmatch import fnmatchcase, translate
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_Found: TypeAlias = tuple[str, int, int, int, int, int, int]
Record: TypeAlias = bytes | _Found
"""A printed line; or name, mode, size, owner (of a directory only), inode, and the times of modification and change."""

END = b"//\n"
"""The end of a printed record. No path contains these characters, since no name contains a slash."""

_FORMAT = 0o170000  # no bound: S_IFMT, no constant of `stat`; on Windows stat.S_IFMT() takes 16 bits

_BY_DESCRIPTOR = os.scandir in os.supports_fd
_TO_LIST = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)

_DIRECTORIES = (b"d", b"x 4", b"o 4")
"""The beginning of a directory's printed record."""

_REFUSED = re.compile(rb"^find: '?(.+?)'?: Permission denied$", re.MULTILINE)
"""Complaints of find after which the rest of a directory is not known; without complaints about files that are gone."""

# The program prints KIND MODE SIZE LINKS OWNER INODE, the two times and the path, with tabs between. The path is last, since it
# may contain any character. GNU find prints records itself; elsewhere stat does, and busybox's stat takes GNU's format. `x` and
# `o` say that the whole mode is hexadecimal or octal.
_PROGRAM = r"""
LC_ALL=C; export LC_ALL
tab=$(printf '\t')
if find / -prune -printf '' 2>/dev/null; then
    exec find "$@" -printf '%y %m %s %n %U:%G %D:%i\t%T@\t%C@\t%p//\n'
elif stat -c %f / >/dev/null 2>&1; then
    exec find "$@" -exec stat -c "x %f %s %h %u:%g %d:%i$tab%y$tab%z$tab%n//" {} +
elif stat -f %p / >/dev/null 2>&1; then
    exec find "$@" -exec stat -f "o %p %z %l %u:%g %d:%i$tab%Fm$tab%Fc$tab%N//" {} +
fi
exit 127
"""


@dataclass(frozen=True, slots=True)
class Look:
    """The files that a look has found.

    Attributes:
        records: A record for each file, grouped by directory; all in one group if the host has printed the records. ``None``
            if the look was given up.
        incomplete: The reason why the look is incomplete; empty if it is complete.
        missing: Roots that are not directories, or cannot be entered.
        skipped: Directories that were not entered.
        unseen: Directories with files that could not be looked at.
        newest: The latest time of all files, in nanoseconds since the epoch; ``None`` if not known.
    """

    records: Mapping[str, Sequence[Record]] | None
    incomplete: str = ""
    missing: tuple[str, ...] = ()
    skipped: frozenset[str] = field(default_factory=frozenset)
    unseen: frozenset[str] = field(default_factory=frozenset)
    newest: int | None = None


def arguments(roots: Sequence[str], skip: Sequence[str]) -> tuple[str, ...]:
    """Return the program for a POSIX host, with its arguments. It prints records, or exits with 127 if the host has no tool.

    Args:
        roots: Directories, absolute.
        skip: Patterns of the directories that are not entered.
    """
    pruned: list[str] = []
    for pattern in skip:
        test = ("-path", f"*/{pattern}") if "/" in pattern else ("-name", pattern)
        pruned += ["-o", *test] if pruned else test
    # A skipped directory is printed itself, but not entered.
    names = ("(", "-type", "d", "(", *pruned, ")", "-prune", "-o", "-type", "d", "-o", "!", "-type", "d", ")")
    return ("/bin/sh", "-c", _PROGRAM, "anyshell", *map(start, roots), *(names if pruned else ()))


def printed(out: bytes, complaint: bytes, roots: Sequence[str], skip: Sequence[str], *, whole: bool) -> Look:
    """Read the look that the program has printed.

    Args:
        out: The stdout of the program.
        complaint: The stderr of the program: a line for each file that could not be looked at.
        roots: The directories of the look.
        skip: The patterns that `arguments` got.
        whole: Whether the exit status of the program says that no file was missed.
    """
    records = out.split(END)[:-1]
    missing = tuple(root for root in roots if b"\t" + os.fsencode(start(root)) + END not in out)
    failed = complaint.count(b"\n") or int(not whole)
    found = [
        record.split(b"\t", 3)[3]
        for record in records
        if (skip or complaint) and record.startswith(_DIRECTORIES)
    ]
    directories = {path.decode("utf-8", "surrogateescape") for path in found}
    skipped = frozenset(path for path in directories if _is_skipped(path, skip))
    refused = (path.decode("utf-8", "surrogateescape") for path in _REFUSED.findall(complaint))
    unseen = frozenset(path if path in directories else posixpath.dirname(path) for path in refused)
    return Look({"": records}, _unreadable(failed - len(missing)), missing, skipped, unseen)


def here(
    roots: Sequence[str], skip: Sequence[str], *, seconds: float, most: int, known: Look | None = None
) -> Look:
    """Look at directories of this machine.

    Args:
        roots: The directories, absolute and with slashes.
        skip: Patterns of the directories that are not entered.
        seconds: The time limit; the function blocks for at most that time.
        most: The largest number of files.
        known: An earlier look. Records of unchanged directories are shared with it to save memory.
    """
    seen: dict[str, Sequence[Record]] = {}
    then = (known and known.records) or {}
    names = re.compile("|".join(translate(each) for each in skip if "/" not in each) or r"(?!)")
    paths = [each for each in skip if "/" in each]
    missing, skipped, unseen, failed, count, newest = [], set(), set(), 0, 0, 0
    give_up = time.monotonic() + seconds
    for root in roots:
        waiting = [start(root)]
        while waiting:
            directory = waiting.pop()
            records: list[_Found] = []
            opened: int | str = directory
            try:
                # With the directory's descriptor, the kernel does not have to resolve the whole path for each file.
                if _BY_DESCRIPTOR:
                    opened = os.open(directory, _TO_LIST)
                with os.scandir(opened) as entries:
                    for entry in entries:
                        try:
                            found = entry.stat(follow_symlinks=False)
                        except OSError as error:
                            failed += 1
                            if not isinstance(error, FileNotFoundError):
                                unseen.add(directory)
                            continue
                        mode = found.st_mode
                        owner = 0
                        name = entry.name
                        if mode & _FORMAT == stat.S_IFDIR:
                            owner = found.st_uid << 32 | found.st_gid
                            path = f"{directory}/{name}"
                            if names.match(name) or (paths and _is_skipped(path, paths)):
                                skipped.add(path)
                            else:
                                waiting.append(path)
                        modified, changed = found.st_mtime_ns, found.st_ctime_ns
                        if modified > newest or changed > newest:
                            newest = max(modified, changed)
                        records.append((name, mode, found.st_size, owner, found.st_ino, modified, changed))
            except OSError:
                if directory == start(root):
                    missing.append(root)
                else:
                    failed += 1
                    unseen.add(directory)
            finally:
                if isinstance(opened, int):
                    os.close(opened)
            before = then.get(directory)
            seen[directory] = before if before == records else records
            count += len(records)
            if count > most:
                return Look(None, too_many(f"{most:,} files"))
            if time.monotonic() > give_up:
                return Look(None, too_slow(seconds))
    return Look(seen, _unreadable(failed), tuple(missing), frozenset(skipped), frozenset(unseen), newest)


def start(root: str) -> str:
    """Return the path where the look at a root starts. The final dot prevents skipping the root, and follows a link."""
    return f"{root.rstrip('/')}/."


def _is_skipped(path: str, skip: Iterable[str]) -> bool:
    name = path.rpartition("/")[2]
    return any(fnmatchcase(path, f"*/{each}") if "/" in each else fnmatchcase(name, each) for each in skip)


def too_many(bound: str) -> str:
    """Return the reason why a look was given up: more files than a bound."""
    return f"there are too many files, more than {bound}: name fewer directories"


def too_slow(seconds: float) -> str:
    """Return the reason why a look was given up: the directories took too long to read."""
    return f"the files could not be looked at within {seconds:g} s: name fewer directories"


def _unreadable(count: int) -> str:
    return f"{count} files or directories could not be looked at" if count > 0 else ""
