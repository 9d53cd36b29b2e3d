"""The effects of a command on files, as lines for a person."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...printing import printable, printable_lines, size

if TYPE_CHECKING:
    from ...._types import Effects, FileEffect

MOST_SHOWN = 50
"""Lines about files that ``--effects`` prints; further files are counted. ``--json`` has all files."""


def lines(effects: Effects) -> list[str]:
    """Return the lines to print: a summary, a line for each file, and the diff if there is any."""
    files = [
        *(f"+ {_path(each)}{_size(each.size)}" for each in effects.created),
        *(f"~ {_path(each)}{_change(each)}" for each in effects.changed),
        *(f"- {_path(each)}{_size(each.size_before)}" for each in effects.deleted),
        *(f"> {_path(each)} (was {printable(each.path_before or '')})" for each in effects.renamed),
    ]
    said = [effects.summary(), *(f"  {line}" for line in files[:MOST_SHOWN])]
    if len(files) > MOST_SHOWN:
        said.append(f"  and {len(files) - MOST_SHOWN} more, which --json has")
    if effects.skipped:
        named = ", ".join(map(printable, effects.skipped[:MOST_SHOWN]))
        more = len(effects.skipped) - MOST_SHOWN
        said.append(f"not looked into: {named}" + (f" and {more} more" if more > 0 else ""))
    if effects.diff:
        said.append(printable_lines(effects.diff).removesuffix("\n"))
    said += [
        f"no diff of {printable(path)}: {why}" for path, why in [*effects.without_diff.items()][:MOST_SHOWN]
    ]
    return said


def _path(effect: FileEffect) -> str:
    return printable(effect.path) + "/" * (effect.kind == "directory")


def _size(count: int | None) -> str:
    return "" if count is None else f" ({size(count)})"


def _change(effect: FileEffect) -> str:
    parts = []
    if effect.size_before != effect.size and effect.kind != "directory":
        parts.append(f"{size(effect.size_before or 0)} to {size(effect.size or 0)}")
    if effect.mode_before != effect.mode:
        parts.append(f"mode {effect.mode_before or 0:o} to {effect.mode or 0:o}")
    return f" ({', '.join(parts)})" if parts else ""
