"""The effects of a command on files, the request for them, and the resources that a command used."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .._exceptions import InvalidCommand
from .checks import check_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .files import FileKind

SKIPPED = (".git/objects", ".mypy_cache", ".tox", ".venv", "__pycache__", "node_modules")
"""Directories that a scan does not enter by default: each has many files, which programs can regenerate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """The files to compare before and after a command.

    Attributes:
        paths: Directories, scanned with their whole content; relative to `directory`.
        skip: Directories that are not entered, as the shell's patterns: a name, or the end of a path, such as
            ``.git/objects``. A directory named in `paths` is entered all the same.
        diff: Whether `Effects.diff` is made. A diff needs small files to be read before the command.
        directory: The start of relative paths, also of those in the effects. ``None`` is the environment's own directory, or
            for `anyshell.run` the command's directory.

    Raises:
        InvalidCommand: There is no path, or a path is a text that no host can be given.
    """

    paths: tuple[str, ...] = (".",)
    skip: tuple[str, ...] = SKIPPED
    diff: bool = False
    directory: str | None = None

    def __post_init__(self) -> None:
        for name, texts in (("paths", self.paths), ("skip", self.skip)):
            given: object = texts
            if isinstance(given, str) or not isinstance(given, Iterable):
                raise InvalidCommand(f"{name} of a Scan must be a list of texts, not {type(given).__name__}")
            object.__setattr__(self, name, tuple(texts))
            for each in getattr(self, name):
                check_text(f"{name} of a Scan", each)
                if not each:
                    raise InvalidCommand(f"{name} of a Scan has an empty text: name a directory")
        object.__setattr__(self, "skip", tuple(each.rstrip("/") or each for each in self.skip))
        if not self.paths:
            raise InvalidCommand("a Scan has no paths: name a directory, or leave paths out")


def to_scan(effects: bool | Sequence[str] | Scan) -> Scan | None:
    """Normalise ``effects=``.

    Raises:
        InvalidCommand: `effects` is neither a truth value, directories, nor a `Scan`.
    """
    if isinstance(effects, Scan | bool):
        return Scan() if effects is True else effects or None
    given: object = effects
    if isinstance(given, str) or not isinstance(given, Iterable):
        kind = type(given).__name__
        raise InvalidCommand(f"effects must be True, a list of directories or a Scan, not {kind}")
    return Scan(paths=tuple(effects))


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEffect:
    """The change of one file, link or directory by a command.

    Attributes:
        path: Relative to `Scan.directory`, or absolute if the scan's path is absolute; with ``/``. The new path of a renamed
            file, the former path of a deleted file. Bytes that are not UTF-8 are decoded with ``surrogateescape``.
        path_before: The former path of a renamed file.
        kind: The present kind of the file; the former kind of a deleted file.
        kind_before: The former kind, if a file of another kind is at the path now.
        size_before: Bytes before; ``None`` of a created file.
        size: Bytes now; ``None`` of a deleted file.
        mode_before: Permission bits before; ``None`` of a created file.
        mode: Permission bits now; ``None`` of a deleted file.
        content: Whether the size or the time of a changed file differs, or another file is at the path. Otherwise the mode,
            the owner, the number of links or the times were changed; or the content, with the times set back.
    """

    path: str
    kind: FileKind
    kind_before: FileKind | None = None
    path_before: str | None = None
    size_before: int | None = None
    size: int | None = None
    mode_before: int | None = None
    mode: int | None = None
    content: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """The differences between two scans of directories, before and after a command, caused by any process.

    A file that exists at neither scan is not seen. Every list is in the order of paths.

    Attributes:
        created: New files.
        changed: Files that differ from before. A directory differs if it was replaced, or its mode or owner was changed.
        deleted: Files that are gone.
        renamed: Files with another path, and at most another mode or owner. A file in a renamed directory is not listed
            unless it was changed too.
        incomplete: Why an effect may be missing, one sentence each, such as that a process of the command still runs.
        skipped: Directories that were not entered, as `Scan.skip` says, and whose content is therefore unknown.
        diff: The changes of text files as a unified diff, if requested.
        without_diff: Files that were created, changed or deleted and are not in the diff, with the reason.
    """

    created: tuple[FileEffect, ...] = ()
    changed: tuple[FileEffect, ...] = ()
    deleted: tuple[FileEffect, ...] = ()
    renamed: tuple[FileEffect, ...] = ()
    incomplete: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    diff: str | None = field(default=None, repr=False)
    without_diff: Mapping[str, str] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Whether no effect is missing, except in the directories of `skipped`."""
        return not self.incomplete

    def summary(self) -> str:
        """Return the numbers of created, changed, deleted and renamed files as text, without names."""
        named = [(len(getattr(self, what)), what) for what in ("created", "changed", "deleted", "renamed")]
        said = ", ".join(f"{count} {what}" for count, what in named if count)
        if self.complete:
            return said or "nothing changed"
        return f"{said or 'no change was seen'}; not complete: {'; '.join(self.incomplete)}"
