"""The matches of a shell's pattern on a host, and their targets."""

from __future__ import annotations

import re
from fnmatch import translate
from functools import cache, lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MOST_FOUND = 1000
"""Directories that a pattern may find on the way to its last name; with more it is not known where it leads."""

MOST_LISTED = 20_000
"""Names that are looked at for the patterns of a text; with more it is not known where they lead."""

ANYTHING = ("*/",)
"""The names in a directory of which it is known alone that none is a link's."""

PATTERN = re.compile(r"[*?\[{]")


class Patterns:
    """The patterns of one decision.

    More may be found than the shell would: its options say whether a pattern is for names in another case as well, and what
    ``**`` is.

    Args:
        names: The names in a directory, as `Facts` has them.
        resolve: The path without links.
        dots: Whether any pattern finds names that begin with a dot, as in PowerShell.
    """

    def __init__(
        self,
        names: Callable[[str], tuple[str, ...] | None],
        resolve: Callable[[str], str | None],
        *,
        dots: bool = False,
    ) -> None:
        self._dots = dots
        self._names = cache(names)
        self._resolve = resolve
        self._left = MOST_LISTED

    def linked(self, start: str, pattern: Sequence[str]) -> list[str] | None:
        """The paths below a directory that a pattern leads to by a link, resolved; ``None`` if that is not known.

        Args:
            start: Resolved.
            pattern: Its names; the last may be a pattern in a path that is given back.
        """
        *way, last = pattern
        found = self._directories(start, way)
        if found is None:
            return None
        paths = [_join(directory, last) for directory, by_link in found.items() if by_link]
        for directory in found:
            entries = self._matching(directory, last)
            if entries is None:
                return None
            leading = (self._resolve(_join(directory, each[:-1])) for each in entries if each[-1] == "@")
            for target in leading:
                if target is None:
                    return None
                paths.append(target)
        return paths

    def found(self, start: str, pattern: Sequence[str]) -> list[str] | None:
        """The paths below a directory that a pattern finds; ``None`` if that is not known.

        Names that begin with a dot are found by a pattern that does: a text in which a shell is told otherwise is asked about.
        """
        *way, last = pattern
        directories = self._directories(start, way, dots=False)
        paths: list[str] = []
        for directory in directories or ():
            entries = self._matching(directory, last, dots=False)
            if entries is None:
                return None
            paths += [_join(directory, each[:-1]) for each in entries]
        return None if directories is None else paths

    def _directories(
        self, start: str, pattern: Sequence[str], *, dots: bool = True
    ) -> dict[str, bool] | None:
        """The directories that a pattern finds, resolved, and whether a link was on the way to each."""
        level = {start: False}
        for name in pattern:
            if name in ("", "."):
                continue
            deep = "**" in name
            following = dict(level) if deep else {}
            waiting = list(level.items())
            for directory, by_link in waiting:
                entries = self._matching(directory, name, dots=dots)
                if entries is None:
                    return None
                for entry in entries:
                    path, kind = _join(directory, entry[:-1]), entry[-1]
                    if kind == "/":
                        waiting += [(path, by_link)] if deep else []
                        following[path] = following.get(path, False) or by_link
                    elif kind == "@":
                        target = self._resolve(path)
                        if target is None:
                            return None
                        following[target] = True
                if len(following) > MOST_FOUND:
                    return None
            level = following
        return level

    def _matching(self, directory: str, pattern: str, *, dots: bool = True) -> list[str] | None:
        """The names in a directory that a name of a pattern may stand for; `dots`: also those that it leaves out by default."""
        entries = self._names(directory)
        if entries == ANYTHING:
            return [] if dots else None
        self._left -= len(entries or ())
        if entries is None or self._left < 0:
            return None
        hidden = dots or self._dots or pattern.startswith(".")
        return [
            each for each in entries if (hidden or each[0] != ".") and _wider(pattern).fullmatch(each[:-1])
        ]


def _join(directory: str, name: str) -> str:
    return f"{directory.rstrip('/')}/{name}"


@lru_cache(1024)
def _wider(pattern: str) -> re.Pattern[str]:
    """A pattern that matches at least the names of a shell pattern: any case, any character for a list, anything for the rest."""
    wide = re.sub(r"\[[\w-]+\]", "?", pattern, flags=re.ASCII)
    wide = re.sub(r"\{.*?\}|[\[{].*", "*", wide)
    return re.compile(translate(wide), re.IGNORECASE)
