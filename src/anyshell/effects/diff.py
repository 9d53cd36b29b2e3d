"""Unified diffs of changed text files, from contents that were read before and after a command."""

from __future__ import annotations

from difflib import unified_diff
from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .._types import Effects, FileEffect
    from .comparison import Entry

LARGEST_FILE = 64 * 1024
"""Bytes of a file with a diff (`Scan.diff`); a larger file is listed in `Effects.without_diff`."""

LARGEST_KEPT = 8 * 1024 * 1024
"""Bytes of all files that are read for a diff before a command, and as many after the command; beyond that, files are not read:
before the command, the files changed longest ago."""

MOST_LINES = 2000
"""Lines of a file with a diff, before as well as after; a longer file gets no diff: the time grows with its square."""

LONGEST_DIFF = 256 * 1024
"""Characters of a diff; to a longer diff no further file is added."""

_EMPTY_FILE, _NO_FILE = "e69de29", "0000000"
"""Git's object names for an empty file and for no file. Without these names `patch` does not remove an empty file."""

_LARGE = f"larger than {LARGEST_FILE >> 10} KiB"


def to_keep(entries: Mapping[str, Entry]) -> list[str]:
    """Return the files to read before a command: small files, the last changed first, up to `LARGEST_KEPT` bytes."""
    files = [(path, entry) for path, entry in entries.items() if entry.kind == "file"]
    files.sort(key=lambda item: str(item[1].modified), reverse=True)
    return _as_many_as_may_be((path, entry.size) for path, entry in files)


def to_read(effects: Effects) -> list[str]:
    """Return the files to read after a command, in the order of the diff."""
    return _as_many_as_may_be(
        (effect.path, effect.size or 0)
        for effect in _in_order(effects.created, effects.changed)
        if effect.kind == "file"
    )


def _as_many_as_may_be(sizes: Iterable[tuple[str, int]]) -> list[str]:
    """Return the small files up to `LARGEST_KEPT` bytes in total, without empty files, which need no reading."""
    kept, total = [], 0
    for path, size in sizes:
        if 0 < size <= LARGEST_FILE:
            total += size
            if total > LARGEST_KEPT:
                break
            kept.append(path)
    return kept


def unified(
    effects: Effects, then: Mapping[str, bytes], now: Mapping[str, bytes]
) -> tuple[str, dict[str, str]]:
    """Return the diff, and the files without a diff with the reason for each.

    Args:
        effects: The effects of the command.
        then: Contents of files before the command, by path.
        now: Contents of files after the command, by path.
    """
    parts: list[str] = []
    without: dict[str, str] = {}
    length = 0
    # Deleted files come first: a directory that became a file has to be empty before the file is made.
    for effect in (*effects.deleted, *_in_order(effects.created, effects.changed)):
        path = effect.path
        was, became = effect.kind_before or effect.kind, effect.kind
        if was == became == "directory":
            continue
        size_before = None if was == "directory" else effect.size_before
        size = None if became == "directory" else effect.size
        before = b"" if size_before == 0 else then.get(path)
        after = b"" if size == 0 else now.get(path)
        why = _why_not(before, size_before) or _why_not(after, size)
        if {was, became} - {"file", "directory"}:
            why = "not a regular file"
        if not why and length > LONGEST_DIFF:
            why = "the diff would be too long"
        part = (
            ""
            if why
            else _part(effect, None if size_before is None else before, None if size is None else after)
        )
        if not part:
            without[path] = why or "its text is the same"
            continue
        length += len(part)
        parts.append(part)
    return "".join(parts), without


def _in_order(*some: Iterable[FileEffect]) -> list[FileEffect]:
    """Sort effects by path, but new directories first: files can be made in a directory only after it exists."""
    return sorted(chain(*some), key=lambda each: (each.kind != "directory", each.path))


def _why_not(content: bytes | None, size: int | None) -> str:
    """Return the reason why a content prevents a diff; empty if it does not. A `size` of ``None`` means no file."""
    if size is None:
        return ""
    if content is None:
        return _LARGE if size > LARGEST_FILE else "not read"
    if b"\0" in content:
        return "binary"
    if content.count(b"\n") > MOST_LINES:
        return f"more than {MOST_LINES} lines"
    try:
        content.decode()
    except UnicodeDecodeError:
        return "not UTF-8"
    return ""


def _part(effect: FileEffect, before: bytes | None, after: bytes | None) -> str:
    """Return the change of a file in git's format, with a header for changes without lines; empty if nothing changed."""
    inside = effect.path.lstrip("/")
    old, new = _name(f"a/{inside}"), _name(f"b/{inside}")
    mode_before, mode = _mode(effect.mode_before), _mode(effect.mode)
    if before is None:
        says = f"new file mode {mode}\n" + ("" if after else f"index {_NO_FILE}..{_EMPTY_FILE}\n")
    elif after is None:
        says = f"deleted file mode {mode_before}\n" + ("" if before else f"index {_EMPTY_FILE}..{_NO_FILE}\n")
    else:
        says = f"old mode {mode_before}\nnew mode {mode}\n" if mode_before != mode else ""
    # A tab ends a name with a space: without the tab, `patch` would read only the first word.
    end = "\t" if " " in effect.path else ""
    names = ("/dev/null" if before is None else old + end, "/dev/null" if after is None else new + end)
    lines = "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
        for line in unified_diff(_lines(before), _lines(after), *names)
    )
    return f"diff --git {old} {new}\n{says}{lines}" if says or lines else ""


def _mode(mode: int | None) -> str:
    """Return a mode as git writes it: git only records whether the owner may execute a file."""
    return "100755" if (mode or 0) & 0o100 else "100644"


def _lines(content: bytes | None) -> list[str]:
    """Split a content into lines as `patch` does: only at line feeds. Python's ``splitlines`` splits at more characters."""
    lines = [f"{line}\n" for line in (content or b"").decode().split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def _name(path: str) -> str:
    """Return a path for a header line, quoted as git quotes it if the path needs quotes."""
    if path.isprintable() and not set('"\\').intersection(path):
        return path
    quoted = "".join(
        chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:03o}"
        for byte in path.encode("utf-8", "surrogateescape")
    )
    return f'"{quoted}"'
