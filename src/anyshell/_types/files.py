"""Facts about files of a host, and the result of a copy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FileKind = Literal["file", "directory", "link", "other"]


@dataclass(frozen=True, slots=True)
class FileStat:
    """The status of a file on a host.

    Attributes:
        kind: The kind of the file itself, or of the target of a link when links were followed.
        size: In bytes.
        mode: Permission bits, as in POSIX.
        modified: Seconds since the epoch.
    """

    kind: FileKind
    size: int
    mode: int
    modified: float


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One name in a directory.

    Attributes:
        name: Without the directory.
        kind: The kind of the entry itself: a link is a link, whatever it points to.
    """

    name: str
    kind: FileKind


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyProgress:
    """The progress of a copy.

    Attributes:
        path: The file whose bytes were copied last, as its source names it; empty before the first file.
        bytes_done: Bytes written so far, over all files.
        bytes_total: Bytes of all files when the copy began. If a file grows or shrinks meanwhile, `bytes_done` ends at
            another number.
        files_done: Files and links that are complete at the destination.
        files_total: Files and links to copy.
    """

    path: str
    bytes_done: int
    bytes_total: int
    files_done: int
    files_total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyResult:
    """The result of a copy.

    Attributes:
        path: The path of the copy; absolute.
        files: Regular files that were written.
        links: Symbolic links that were written.
        directories: Directories that were made; existing directories are not counted.
        bytes: Bytes of all files.
        skipped: The source paths of the sockets, pipes and devices that were left out.
    """

    path: str
    files: int
    links: int
    directories: int
    bytes: int
    skipped: tuple[str, ...] = ()
