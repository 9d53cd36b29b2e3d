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
"""Directories that a scan does not enter by default: each has many files, and programs make them anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """The files to compare before and after a command.

    Attributes:
        paths: Directories, with all that is in them; relative to `directory`.
        skip: Directories that are not entered, as the shell's patterns: a name, or the end of a path, such as
            ``.git/objects``. One that is named in `paths` is entered all the same.
        diff: Whether `Effects.diff` is made. Small files are read before the command for that.
        directory: The start of relative paths, also those of the effects; ``None`` is the environment's own directory, and
            for `anyshell.run` that of the command.

    Raises:
        InvalidCommand: No path, or one that no host can be given.
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
        InvalidCommand: It is neither a truth value, directories, nor a `Scan`.
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
        path: Relative to `Scan.directory`, unless it was asked for by an absolute one; with ``/``. Where it is now, if it
            was renamed; where it was, if it was deleted. Bytes that are no UTF-8 come with ``surrogateescape``.
        path_before: Its former path, if it was renamed.
        kind: The present kind of the file; of a deleted file, the former kind.
        kind_before: The former kind, if a file of another kind is there now.
        size_before: Bytes before; ``None`` if it was created.
        size: Bytes now; ``None`` if it was deleted.
        mode_before: Permission bits before; ``None`` if it was created.
        mode: Permission bits now; ``None`` if it was deleted.
        content: Whether the size, the time or the file itself of a changed file differs. Otherwise its mode, its owner, the
            number of its links or its times were changed; or its content, and the times were set back.
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
    """The differences between two looks at directories, before a command and after it, by whatever process.

    A file that is there at neither look is not seen. Every list is in the order of paths.

    Attributes:
        created: New files.
        changed: Files that differ from before. A directory does, if it was replaced, or its mode or owner was changed.
        deleted: Files that are gone.
        renamed: Files with another path that are otherwise the same but for their mode or owner. What is in a renamed directory is
            not named again unless it was changed too.
        incomplete: Why something may be missing, one sentence each, such as that a process of the command still runs.
        skipped: Directories that were not entered, as `Scan.skip` says. Nothing is known of what is in these.
        diff: The changes of text files as a unified diff, if it was asked for.
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
        """Whether nothing is missing, but for what is in `skipped`."""
        return not self.incomplete

    def summary(self) -> str:
        """The numbers of created, changed, deleted and renamed files as text, without names."""
        named = [(len(getattr(self, what)), what) for what in ("created", "changed", "deleted", "renamed")]
        said = ", ".join(f"{count} {what}" for count, what in named if count)
        if self.complete:
            return said or "nothing changed"
        return f"{said or 'no change was seen'}; not complete: {'; '.join(self.incomplete)}"
